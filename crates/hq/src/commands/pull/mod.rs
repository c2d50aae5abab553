//! `hq pull …`: each command says one or two lines to the relay of this node.

mod lines;
mod refused;
mod running;
mod talk;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER};
use hq_client::options::values;
use hq_model::key::is_task_id;
use hq_model::pulled::PAYLOAD_BYTES_MAX;
use hq_model::selector::Selector;
use hq_model::worker::WorkerConfig;
use hq_model::{IdSet, TaskId, TaskRef, WorkerResources};
use hq_net::{AccessFile, Role};
use hq_pull::socket::path_to;
use hq_pull::{Above, Listening, Options, TunnelOptions};
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;

use lines::TaskLines;
use refused::Known;
pub(super) use talk::{Line, beside};

use super::worker_config::hostname;
use super::{Context, Done, job};
use crate::cli::OutputMode;
use crate::cli::job::WaitArgs;
use crate::cli::pull::{
    AddfileArgs, BagOption, CreateArgs, OfBagOption, PullCommand, RelayArgs, StealArgs, WorkerOption,
};
use crate::error::HqError;
use crate::lifeline;
use crate::logging;
use crate::render::{Printer, text};
use crate::report::{Answer, Plain, Pulled};

/// The bag is over: nothing will come.
const EXIT_OVER: u8 = 4;
/// Nothing is ready now.
const EXIT_NONE: u8 = 1;
/// Taking was refused: other commands exit with 1 then, which has a meaning here.
const EXIT_REFUSED: u8 = 5;
/// The relay's group as a worker: no task on several nodes is for it.
const GROUP: &str = "relay";
/// Between looks whether a bag is over: at first, and at most.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// `--wait` without a time.
const ANY_TIME: Duration = Duration::from_secs(86_400);
/// Tasks that are created with one request.
const CREATED_AT_ONCE: usize = 500;
/// The variable with the path of the socket.
pub(super) const SOCKET: &str = "HQ_PULL_SOCKET";

/// Does what one of the commands says that ends soon.
pub(super) fn run(context: &Context, command: PullCommand) -> Result<Done, HqError> {
    match command {
        PullCommand::Open(args) => {
            let name = bag_named(args.name, &args.bag);
            simple(context, json!({"open": {"name": name, "max_fails": args.max_fails}}))
        }
        PullCommand::Create(args) => create(context, args),
        PullCommand::Addfile(args) => addfile(context, &args),
        PullCommand::Steal(args) => steal(context, args),
        PullCommand::Complete(args) => {
            let names = names(args.tasks)?;
            let with = |task: &mut Value| {
                if let Some(result) = &args.result {
                    task["result"] = json!(result);
                }
            };
            ends(context, "complete", (&args.worker, &args.bag), &names, with)
        }
        PullCommand::Fail(args) => {
            let message = args.message.unwrap_or_else(|| "failed".to_owned());
            ends(context, "fail", (&args.worker, &args.bag), &args.tasks, |task| {
                task["failed"] = json!(message)
            })
        }
        PullCommand::Defer(args) => {
            let after = json!({"after": args.after});
            let of = (&args.worker, &args.bag);
            ends(context, "defer", of, &[args.task], |task| task["deferred"] = after.clone())
        }
        PullCommand::Release(args) => {
            ends(context, "release", (&args.worker, &args.bag), &args.tasks, |_| {})
        }
        PullCommand::Extend(args) => {
            let lease = args.lease.map(|lease| lease.as_secs_f64());
            ends(context, "extend", (&args.worker, &args.bag), &args.tasks, |task| {
                task["lease"] = json!(lease)
            })
        }
        PullCommand::Exit(args) => {
            let label = worker(&WorkerOption { worker: args.worker });
            simple(context, json!({"leave": {"label": label}}))
        }
        PullCommand::Status(args) => {
            let bags: Vec<String> = args.bags.into_iter().chain(args.bag.bag).collect();
            simple(context, json!({"status": {"bags": bags}}))
        }
        PullCommand::Look(args) => {
            let looked =
                Line::open(context)?.ask(&json!({"look": {"bag": bag(&args.bag), "names": args.tasks}}))?;
            let tasks = looked["looked"]["tasks"].as_array();
            let is_missing = tasks.is_some_and(|tasks| tasks.iter().any(|task| !task["error"].is_null()));
            let done = Done::ok(Pulled { answer: looked, names_only: false })?;
            Ok(if is_missing { done.exit(EXIT_FAILED) } else { done })
        }
        PullCommand::Close(args) => {
            simple(context, json!({"close": {"bag": bag_named(args.named, &args.bag)}}))
        }
        PullCommand::Wait(args) => wait(context, &bag_named(args.named, &args.bag)),
        PullCommand::Run(args) => running::run(context, args),
        PullCommand::Env(_) => {
            let path = Line::open_socket(context)?.path().to_string_lossy().into_owned();
            if context.printer.mode == OutputMode::Json {
                return Done::ok(Answer { name: "socket", text: path });
            }
            let quoted = shlex::try_quote(&path).map_or(path.clone(), |quoted| quoted.into_owned());
            Done::ok(Plain(format!("export {SOCKET}={quoted}\n").into_bytes()))
        }
        PullCommand::Relay(_) => Err(HqError::usage("this command cannot be run here")),
    }
}

// One request, whose answer is shown.
fn simple(context: &Context, request: Value) -> Result<Done, HqError> {
    let answer = Line::open(context)?.ask(&request)?;
    Done::ok(Pulled { answer, names_only: false })
}

fn create(context: &Context, args: CreateArgs) -> Result<Done, HqError> {
    let payload = match args.payload.as_deref() {
        None => Vec::new(),
        Some("-") => read_payload("standard input", std::io::stdin().lock())?,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => read_payload(path, open(path)?)?,
            None => text.as_bytes().to_vec(),
        },
    };
    let mut task = json!({
        "name": args.task,
        "after": args.after,
        "priority": args.priority.unwrap_or(0),
        "retries": args.retry.unwrap_or(0),
        "needs": args.needs,
    });
    match String::from_utf8(payload) {
        Ok(text) => task["payload"] = json!(text),
        Err(error) => task["payload_base64"] = json!(hq_pull::base64(error.as_bytes())),
    }
    let missing = if args.missing_is_done { "done" } else { "error" };
    simple(context, json!({"create": {"bag": bag(&args.bag), "tasks": [task], "missing": missing}}))
}

fn open(path: &str) -> Result<fs::File, HqError> {
    fs::File::open(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &str, error: &std::io::Error) -> HqError {
    HqError::failed("bad-input", format!("{path} cannot be read: {error}"))
}

// No more than a payload may have is taken into memory.
fn read_payload(path: &str, from: impl Read) -> Result<Vec<u8>, HqError> {
    let mut bytes = Vec::new();
    let most = PAYLOAD_BYTES_MAX as u64;
    from.take(most + 1).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    if bytes.len() as u64 > most {
        let text = format!("{path} has more than {most} bytes, the maximum for a payload");
        return Err(HqError::failed("bad-input", text));
    }
    Ok(bytes)
}

fn addfile(context: &Context, args: &AddfileArgs) -> Result<Done, HqError> {
    let mut lines = match args.file.as_str() {
        "-" => TaskLines::new("standard input", Box::new(std::io::stdin().lock())),
        path => TaskLines::new(path, Box::new(BufReader::new(open(path)?))),
    };
    let mut some = lines.some(CREATED_AT_ONCE)?;
    if some.is_empty() {
        let file = if args.file == "-" { "standard input" } else { &args.file };
        return Err(HqError::failed("bad-input", format!("{file} contains no task names")));
    }
    let mut line = Line::open(context)?;
    let (mut bag_id, mut new, mut known) = (Value::Null, 0, 0);
    let missing = if args.missing_is_done { "done" } else { "error" };
    while !some.is_empty() {
        if !args.needs.is_empty() {
            some.iter_mut().for_each(|task| task["needs"] = json!(args.needs));
        }
        let request = json!({"create": {"bag": bag(&args.bag), "tasks": some, "missing": missing}});
        let created = line.ask(&request).map_err(|error| lines.at_fault(error))?["created"].take();
        bag_id = created["bag"].clone();
        new += created["new"].as_u64().unwrap_or(0);
        known += created["known"].as_u64().unwrap_or(0);
        some = lines.some(CREATED_AT_ONCE).map_err(|error| HqError {
            text: format!("{}; the tasks of the lines before it have been created", error.text),
            ..error
        })?;
    }
    let answer = json!({"created": {"bag": bag_id, "new": new, "known": known}});
    Done::ok(Pulled { answer, names_only: false })
}

fn steal(context: &Context, args: StealArgs) -> Result<Done, HqError> {
    if let (Some(by), Some(ANY_TIME)) = (&args.by, args.wait)
        && values::duration(by).is_ok()
    {
        let text =
            format!("`{by}` is taken as the name of a worker, and the wait has no limit: use `--wait={by}`");
        return Err(HqError::usage(text));
    }
    let label = args.by.unwrap_or_else(|| worker(&args.worker));
    let mut line = Line::open(context)?;
    line.ask(&json!({"hello": {"label": label, "lease": args.lease.map(|lease| lease.as_secs_f64())}}))?;
    let wait = args.wait.unwrap_or(Duration::ZERO).as_secs_f64();
    let (bags, tags) = ([bag(&args.bag)], args.tag.tags);
    let take = json!({"take": {"count": args.count, "wait": wait, "bags": bags, "tags": tags}});
    let answer = line.ask(&take).map_err(|error| match error.exit {
        EXIT_FAILED => HqError { exit: EXIT_REFUSED, ..error },
        _ => error,
    })?;
    let exit = match answer["state"].as_str() {
        Some("some") => 0,
        Some("over") => EXIT_OVER,
        _ => EXIT_NONE,
    };
    let taken: Vec<String> = (answer["tasks"].as_array().into_iter().flatten())
        .filter_map(|task| task["id"].as_str().map(str::to_owned))
        .collect();
    let done = Done::ok(Pulled { answer, names_only: args.quiet })?.exit(exit);
    Ok(if taken.is_empty() { done } else { done.or_else(move || give_back(line, &taken)) })
}

// Nobody was told of these. Says what has become of them.
fn give_back(mut line: Line, taken: &[String]) -> String {
    let items: Vec<Value> = taken.iter().map(|id| json!({"id": id})).collect();
    let named = taken.join(", ");
    match line.ask(&json!({"release": {"tasks": items}})) {
        Ok(_) => format!("the tasks that were taken have been returned: {named}"),
        Err(_) => format!("and these have been taken: {named}"),
    }
}

// Something is said of tasks that a worker has.
fn ends(
    context: &Context,
    verb: &str,
    (of, bag): (&WorkerOption, &OfBagOption),
    tasks: &[String],
    with: impl Fn(&mut Value),
) -> Result<Done, HqError> {
    let mut line = Line::open(context)?;
    line.ask(&json!({"hello": {"label": worker(of)}}))?;
    let items = tasks.iter().map(|task| {
        let mut item = if is_task_id(task.as_bytes()) { json!({"id": task}) } else { json!({"name": task}) };
        with(&mut item);
        item
    });
    let mut said = json!({"tasks": items.collect::<Vec<Value>>()});
    let bag = bag.bag.clone().or_else(|| variable("HQ_PULL_BAG")).map(Value::from);
    if let Some(bag) = &bag {
        said["bag"] = bag.clone();
    }
    let mut answer = line.ask(&json!({verb: said}))?;
    let done = answer["done"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let known = Known::of(&mut line, bag.as_ref(), done, tasks);
    let mut has_failed = false;
    for (item, task) in done.iter_mut().zip(tasks) {
        if item["error"].is_string() {
            Printer::refused(&known.text(task, item));
            has_failed = true;
        }
        item["task"] = json!(task);
    }
    let done = Done::ok(Pulled { answer, names_only: false })?;
    Ok(if has_failed { done.exit(EXIT_FAILED) } else { done })
}

fn wait(context: &Context, bag: &str) -> Result<Done, HqError> {
    let mut line = Line::open(context)?;
    let status = status_of(&mut line, bag)?;
    let is_looking = match is_for_pullers(&context.server_dir) {
        // Behind the socket that is named there may be a server that cannot be reached from here.
        Err(_) if std::env::var_os(SOCKET).is_some() => true,
        is_for_pullers => is_for_pullers?,
    };
    if is_looking {
        return wait_looking(&mut line, bag, status);
    }
    let id = status["status"]["bags"][0]["bag"].as_u64().and_then(|bag| u32::try_from(bag).ok());
    let bag = id.ok_or_else(no_bag)?;
    let jobs = Selector::Ids(IdSet::single(TaskId(bag)));
    let args = WaitArgs {
        jobs,
        without_close: false,
        allow_failures: false,
        notify: Vec::new(),
        reconnect_timeout: None,
    };
    job::wait(context, args)
}

fn status_of(line: &mut Line, bag: &str) -> Result<Value, HqError> {
    line.ask(&json!({"status": {"bags": [bag]}}))
}

fn no_bag() -> HqError {
    HqError::failed("no-bag", "There is no such bag.")
}

// Who may not ask the server to be told, or cannot, looks now and then.
fn wait_looking(line: &mut Line, named: &str, mut status: Value) -> Result<Done, HqError> {
    let mut pause = LOOK_PAUSE.0;
    let first = status["status"]["bags"][0]["bag"].clone();
    loop {
        let bag = &status["status"]["bags"][0];
        if bag.is_null() {
            return Err(no_bag());
        }
        if bag["bag"] != first {
            let text = format!("Bag {first} has ended, and bag {} now has its name.", bag["bag"]);
            return Err(HqError::failed("no-bag", text));
        }
        let left = bag["waiting"].as_u64().unwrap_or(0) + bag["running"].as_u64().unwrap_or(0);
        if bag["open"] == false && left == 0 {
            let exit = if bag["state"] == "finished" { 0 } else { EXIT_FAILED };
            return Ok(Done::ok(Pulled { answer: status, names_only: false })?.exit(exit));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOOK_PAUSE.1);
        status = status_of(line, named)?;
    }
}

/// Who has a task that was taken from the relay of this node, since when, and how others get it.
pub(super) fn who_has(context: &Context, task: TaskRef) -> Option<String> {
    let mut line = Line::to_existing(context)?;
    let status = line.ask(&json!({"status": {"bags": [task.job.to_string()]}})).ok()?;
    let id = json!(task.to_string());
    let has_it = |session: &&Value| {
        session["tasks"].as_array().is_some_and(|tasks| tasks.iter().any(|held| held["id"] == id))
    };
    let session = status["status"]["sessions"].as_array()?.iter().find(has_it)?;
    let held = session["tasks"].as_array()?.iter().find(|held| held["id"] == id)?;
    let [held, left] = ["held", "left"].map(|name| {
        text::measured(Duration::from_secs(held[name].as_f64().unwrap_or_default().max(0.0) as u64))
    });
    let rest = format!("has had it for {held}; others get it in {left} unless its lease is extended");
    Some(match session["label"].as_str() {
        Some(label) => {
            let word = shlex::try_quote(label).map_or(label.into(), |quoted| quoted);
            format!("on this node `{label}` {rest}; `hq pull exit {word}` returns all of its tasks")
        }
        None => format!("on this node a connection without a label {rest}"),
    })
}

// Names on the command line, or one a line.
fn names(tasks: Vec<String>) -> Result<Vec<String>, HqError> {
    if tasks == ["-"] {
        let names: Vec<String> = std::io::stdin().lock().lines().collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(HqError::failed("bad-input", "standard input contains no task names"));
        }
        return Ok(names);
    }
    Ok(tasks)
}

fn bag(option: &BagOption) -> String {
    let named = option.bag.clone().or_else(|| variable("HQ_PULL_BAG"));
    named.unwrap_or_else(|| "pull".to_owned())
}

// A bag may be named with or without the option.
fn bag_named(name: Option<String>, option: &BagOption) -> String {
    name.unwrap_or_else(|| bag(option))
}

fn worker(option: &WorkerOption) -> String {
    option.worker.clone().or_else(|| variable("HQ_PULL_WORKER")).unwrap_or_else(hostname)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where the relay of this node listens.
fn socket_path(server_dir: &Path) -> Result<PathBuf, HqError> {
    if let Some(path) = std::env::var_os(SOCKET).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    default_path(server_dir)
}

// Where it listens unless somebody says otherwise.
fn default_path(server_dir: &Path) -> Result<PathBuf, HqError> {
    Ok(path_to(&load_access(server_dir)?))
}

// Whether all that may be done here is to take tasks.
fn is_for_pullers(server_dir: &Path) -> Result<bool, HqError> {
    Ok(load_access(server_dir)?.is_for_pullers())
}

fn load_access(server_dir: &Path) -> Result<AccessFile, HqError> {
    let of_client = hq_client::ClientError::from;
    let access = AccessFile::load(&hq_client::access_path(server_dir)).map_err(of_client)?;
    if !access.is_for_pullers() {
        // A relay is both. One that is not would stand in the way of those who may more.
        [Role::Client, Role::Worker]
            .into_iter()
            .try_for_each(|role| access.endpoint(role).map(drop))
            .map_err(of_client)?;
    }
    Ok(access)
}

// Before anybody finds the relay, it is known whether it can be below another one.
fn below(parent: PathBuf, own: &Path) -> Result<Above, HqError> {
    let is_itself = match (fs::canonicalize(&parent), fs::canonicalize(own)) {
        (Ok(parent), Ok(own)) => parent == own,
        _ => parent == own,
    };
    if is_itself {
        let text = format!("a relay that listens at {} cannot be below itself", own.display());
        let hint = "give it a socket of its own with `--socket PATH`, in a directory that only you can enter";
        return Err(HqError::usage(text).hint(hint));
    }
    match hq_pull::relays_above(&parent, &hq_pull::name_of(&hostname(), own)) {
        Ok(relays) => Ok(Above::Relay { socket: parent, relays }),
        Err(error) if error.is_usage() => Err(HqError::usage(error.to_string()).hint(error.hint())),
        Err(error) => {
            let text = error.to_string();
            Err(HqError { exit: EXIT_NO_SERVER, ..HqError::failed(talk::NO_RELAY, text) }.hint(error.hint()))
        }
    }
}

/// Runs a relay until it ends.
pub(super) fn relay(context: &Context, args: RelayArgs) -> Result<u8, HqError> {
    // A worker ends what is left of its tasks, and knows what is none of them by its own group.
    if args.background && !args.lifeline {
        rustix::process::setsid().map_err(std::io::Error::from)?;
        hq_server::close_inherited(None);
    }
    if args.lifeline {
        lifeline::hold()?;
    }
    let level = match context.printer.mode {
        OutputMode::Cli if !args.background => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    logging::init(context.debug, Some(level));
    let access = hq_client::access_path(&context.server_dir);
    let path = match args.socket {
        Some(path) => std::path::absolute(path)?,
        None => default_path(&context.server_dir).map_err(|error| match &args.parent {
            Some(_) => {
                error.hint("say with `--socket PATH` where this relay listens: then it needs no access file")
            }
            None => error,
        })?,
    };
    let parent = args.parent.map(std::path::absolute).transpose()?;
    let above = match parent {
        Some(parent) => below(parent, &path)?,
        None => Above::Server(access.clone()),
    };
    let listening = Listening::bind(&path).map_err(|error| HqError::failed("socket", error.to_string()))?;
    // Who waits for this line finds the socket.
    let mut out = std::io::stdout();
    let is_heard = writeln!(out, "{}", path.display()).and_then(|()| out.flush());
    if !args.background {
        is_heard?;
    }
    if matches!(above, Above::Server(_)) && is_for_pullers(&context.server_dir)? {
        let options = TunnelOptions { access, idle_timeout: args.idle_timeout };
        let ended = hq_pull::run_tunnel(options, listening);
        return ended.map(|()| 0).map_err(|error| HqError::failed("relay", error.to_string()));
    }
    let config = WorkerConfig {
        hostname: hostname(),
        group: GROUP.to_owned(),
        idle_timeout: Some(hq_pull::limits::BAG_IDLE_TIMEOUT),
        pid: std::process::id(),
        ..WorkerConfig::new(WorkerResources::default())
    };
    let options = Options { above, config, idle_timeout: args.idle_timeout };
    hq_pull::run(options, listening).map_err(|error| HqError::failed("relay", error.to_string()))?;
    Ok(0)
}
