//! `hq pull run`: a program for each task, until the bag is over.

use hq_model::counted;
use hq_model::counted_are;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group, set_parent_process_death_signal,
    waitid,
};
use serde_json::{Value, json};

use super::talk::{NO_RELAY, has_gone};
use super::{Context, Done, Line, bag, is_for_pullers, worker};
use crate::cli::OutputMode;
use crate::cli::pull::RunArgs;
use crate::error::HqError;
use crate::render::Printer;
use crate::report::Pulled;
use crate::signals::Signals;

/// What is taken is given back by itself when this process says nothing for so long.
const LEASE: Duration = Duration::from_secs(60);
/// So often it says that what it has is being worked on, and hears what is not wanted any more.
const LOOK: Duration = Duration::from_secs(5);
/// The same when it has died, with its connections.
const GRACE: Duration = Duration::from_secs(10);
/// One question for tasks waits so long: a server that is away for longer is lost. A relay is waited for as long.
const WAIT: Duration = Duration::from_secs(20);
/// Between attempts to reach another relay.
const RELAY_PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of the last line that a program prints.
const RESULT_MAX: usize = hq_core::limits::PULLED_RESULT_BYTES_MAX;

// Why a task has not finished.
#[derive(Debug)]
enum Fault {
    Failed(String),
    // The program is not there.
    NotStarted(String),
    // A signal ended the command before, or ended the program.
    Interrupted,
    // The relay that gave it has gone: it is given to others.
    Lost,
    // It was canceled, or its time is over.
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    finished: u64,
    // Those whose end nobody wanted to hear any more.
    over: u64,
}

// What happens to those who work.
enum News {
    Ended(Result<Counts, HqError>),
    Signal(u8),
}

// What all threads share.
struct Crew {
    args: RunArgs,
    printer: Printer,
    server_dir: PathBuf,
    label: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    // By ids: the attempts, and the relays that gave them.
    taken: BTreeMap<String, (String, Pid)>,
    // Programs, with the relays of their tasks, and these.
    children: HashMap<Pid, (Pid, String)>,
    // Of those that are taken, whose program has been told to end, for they are over.
    over: HashSet<String>,
    // That have failed, and have not finished since, as far as is known here.
    failed: HashSet<String>,
    // Relays that have gone.
    lost: HashSet<Pid>,
    // Threads that have taken something.
    busy: usize,
    // Nothing is begun any more.
    stopped_by: Option<u8>,
}

impl Crew {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // A line of one who takes tasks.
    fn open(&self) -> Result<Line, HqError> {
        let (lease, grace) = (LEASE.as_secs_f64(), GRACE.as_secs_f64());
        let mut line = Line::open_in(&self.server_dir)?;
        line.ask(&json!({"hello": {"label": self.label, "lease": lease, "grace": grace}}))?;
        // Numbers of processes come again.
        self.state().lost.remove(&line.relay());
        Ok(line)
    }

    // What a relay gave that has gone is given to others: nothing of it may run on beside them.
    fn lose(&self, relay: Pid) {
        let mut state = self.state();
        if !state.lost.insert(relay) {
            return;
        }
        let before = state.taken.len();
        state.taken.retain(|_, (_, of)| *of != relay);
        let State { taken, over, .. } = &mut *state;
        over.retain(|task| taken.contains_key(task));
        let what = match before - state.taken.len() {
            0 => String::new(),
            count => format!(": what it gave ({}) goes to others", counted(count as u64, "task")),
        };
        for (child, _) in state.children.iter().filter(|(_, (of, _))| *of == relay) {
            // As above.
            let _ = kill_process_group(*child, Signal::KILL);
        }
        drop(state);
        self.printer.note(&format!("The relay has gone{what}; another one is looked for"));
    }

    // It has ended here. It may be taken anew.
    fn let_go(&self, task: &Value) {
        let (mut state, id) = (self.state(), key(task, "id"));
        state.taken.remove(&id);
        state.over.remove(&id);
    }

    // Tasks are over before their programs are: these end, too, at first as they like.
    fn end_over(&self, attempts: Vec<(String, String)>) {
        let mut state = self.state();
        for (task, attempt) in attempts {
            // It may have ended meanwhile, and be here anew.
            if state.taken.get(&task).is_none_or(|(own, _)| *own != attempt) {
                continue;
            }
            let signal = if state.over.contains(&task) { Signal::KILL } else { Signal::TERM };
            for (child, _) in state.children.iter().filter(|(_, (_, of))| *of == task) {
                // As above.
                let _ = kill_process_group(*child, signal);
            }
            state.over.insert(task);
        }
    }

    // The first signal lets the programs end; each has a process group of its own, so that a terminal tells them nothing either.
    fn stop(&self, signal: u8) {
        let mut state = self.state();
        if state.stopped_by.replace(signal).is_none() {
            let programs = counted_are(state.children.len() as u64, "program", "finishes", "finish");
            self.printer.note(&format!(
                "Signal {signal}: nothing more is begun, and {programs} first; a second signal kills what runs"
            ));
            return;
        }
        // Their tasks are given back: nothing may run on beside those who take them next.
        for child in state.children.keys() {
            // One that has just ended has not been waited for: its number is nobody else's.
            let _ = kill_process_group(*child, Signal::KILL);
        }
    }
}

pub(super) fn run(context: &Context, args: RunArgs) -> Result<Done, HqError> {
    // An option with its value in one word, as in `-j4`, is taken for the program.
    let first = args.command[0].to_string_lossy();
    if first.starts_with('-') {
        let text =
            format!("`{first}` is no program; write values of options as words of their own, such as `-j 4`");
        return Err(HqError::usage(text));
    }
    let label = format!("{}.{}", worker(&args.worker), std::process::id());
    let jobs = args.jobs;
    let crew = Arc::new(Crew {
        args,
        printer: context.printer,
        server_dir: context.server_dir.clone(),
        label: label.clone(),
        state: Mutex::default(),
    });
    {
        let (line, crew) = (crew.open()?, Arc::clone(&crew));
        std::thread::spawn(move || tend(line, &crew));
    }
    let (tell, news) = channel();
    tell_signals(tell.clone())?;
    for _ in 0..jobs {
        let (line, crew, tell) = (crew.open()?, Arc::clone(&crew), tell.clone());
        std::thread::spawn(move || {
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| work(line, &crew)));
            let died = |_| Err(HqError::failed("internal", "A thread of this command has died."));
            // Where nobody hears it, the command has ended.
            let _ = tell.send(News::Ended(ended.unwrap_or_else(died)));
        });
    }
    let ended = hear(&crew, &news, jobs);
    let left = match &ended {
        Ok(_) => 0,
        // Others need not wait until the lease is over; where that cannot be said, they do.
        Err(_) => Line::to_existing(context)
            .and_then(|mut line| line.ask(&json!({"leave": {"label": label}})).ok())
            .and_then(|answer| answer["left"]["returned"].as_u64())
            .unwrap_or_default(),
    };
    let sum = match (ended, crew.state().stopped_by) {
        (Ok(sum), _) => sum,
        (Err(_), Some(signal)) => {
            let tasks = counted_are(left, "task", "was", "were");
            return Err(HqError::interrupted(
                signal,
                format!("Stopped by signal {signal}: {tasks} given back."),
            ));
        }
        (Err(error), None) => return Err(error),
    };
    let failed = crew.state().failed.len();
    let is_well = failed == 0 && sum.over == 0;
    let answer = json!({"finished": sum.finished, "failed": failed, "over": sum.over});
    Ok(Done::ok(Pulled { answer, names_only: false })?.exit(if is_well { 0 } else { EXIT_FAILED }))
}

// Until all have ended, or, after a signal, nothing is being worked on; the second one waits for nothing.
fn hear(crew: &Crew, news: &Receiver<News>, jobs: u32) -> Result<Counts, HqError> {
    let mut sum = Counts::default();
    let mut first_error = None;
    let mut left = jobs;
    while left > 0 {
        match news.recv() {
            Ok(News::Ended(ended)) => {
                left -= 1;
                match ended {
                    Ok(counts) => {
                        sum.finished += counts.finished;
                        sum.over += counts.over;
                    }
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            Ok(News::Signal(signal)) => {
                let is_second = crew.state().stopped_by.is_some();
                crew.stop(signal);
                if is_second {
                    return Err(stopped());
                }
            }
            Err(_) => return Err(stopped()),
        }
        let state = crew.state();
        if state.stopped_by.is_some() && state.busy == 0 {
            return Err(stopped());
        }
    }
    first_error.map_or(Ok(sum), Err)
}

fn stopped() -> HqError {
    HqError::failed("interrupted", "Stopped by a signal.")
}

// Signals of this process become news.
fn tell_signals(tell: Sender<News>) -> Result<(), HqError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch()?
    };
    std::thread::spawn(move || {
        runtime.block_on(async { while tell.send(News::Signal(signals.next().await)).is_ok() {} });
    });
    Ok(())
}

// Says again and again that what is taken is being worked on, and looks whether the relay is there that gave it.
fn tend(mut line: Line, crew: &Crew) {
    loop {
        if !line.ends_within(LOOK) && extend(&mut line, crew) {
            continue;
        }
        crew.lose(line.relay());
        match again(crew) {
            Ok(another) => line = another,
            // Whoever works sees the same.
            Err(_) => return,
        }
    }
}

// False when the relay has gone.
fn extend(line: &mut Line, crew: &Crew) -> bool {
    let relay = line.relay();
    let taken = crew.state().taken.clone();
    let taken = taken.iter().filter(|(_, (_, of))| *of == relay);
    let tasks: Vec<Value> = taken.map(|(id, (attempt, _))| json!({"id": id, "attempt": attempt})).collect();
    if tasks.is_empty() {
        return true;
    }
    let answer = line.ask(&json!({"extend": {"tasks": &tasks}}));
    let items = answer.as_ref().ok().and_then(|answer| answer["done"].as_array());
    let over = tasks.iter().zip(items.into_iter().flatten()).filter(|(_, item)| item["error"].is_string());
    crew.end_over(over.map(|(task, _)| (key(task, "id"), key(task, "attempt"))).collect());
    !is_gone(&answer)
}

fn is_gone<T>(result: &Result<T, HqError>) -> bool {
    result.as_ref().is_err_and(|error| error.code == NO_RELAY)
}

// A line to another relay, after one has gone. Not to one that would only find out that the server is being stopped.
fn again(crew: &Crew) -> Result<Line, HqError> {
    let begin = Instant::now();
    loop {
        if crew.state().stopped_by.is_some() {
            return Err(stopped());
        }
        let error = match look_for_server(crew).and_then(|()| crew.open()) {
            Ok(line) => return Ok(line),
            Err(error) => error,
        };
        // Without an access file the server has ended.
        if matches!(error.code, "no-access" | "stopping") || begin.elapsed() >= WAIT {
            return Err(error);
        }
        std::thread::sleep(RELAY_PAUSE);
    }
}

fn look_for_server(crew: &Crew) -> Result<(), HqError> {
    // Who may only take tasks is told by the relay.
    if is_for_pullers(&crew.server_dir)? {
        return Ok(());
    }
    match Session::connect(&crew.server_dir)?.request(ClientRequest::ServerInfo)? {
        ClientResponse::ServerInfo(info) if info.stop_waits.is_some() => {
            Err(HqError { exit: EXIT_NO_SERVER, ..HqError::failed("stopping", "The server is stopping.") })
        }
        _ => Ok(()),
    }
}

// Takes blocks of tasks, and says with the next question how they ended.
fn work(mut line: Line, crew: &Crew) -> Result<Counts, HqError> {
    let mut counts = Counts::default();
    let mut ends = Ends::default();
    let mut last = Instant::now();
    loop {
        match round(&mut line, crew, (&mut ends, &mut counts), &mut last) {
            Ok(true) => return Ok(counts),
            Ok(false) => {}
            Err(error) if error.code == NO_RELAY => {
                crew.lose(line.relay());
                line = again(crew)?;
                (ends, last) = (Ends::default(), Instant::now());
            }
            Err(error) => return Err(error),
        }
    }
}

// How tasks ended of which nobody knows yet.
#[derive(Default)]
struct Ends {
    said: Vec<Value>,
    // In the same order, whether they have finished.
    finished: Vec<(String, bool)>,
    over: u64,
}

impl Ends {
    // Somebody knows them, but for those that the answer says nobody waits for.
    fn count(&mut self, crew: &Crew, answer: &Value, counts: &mut Counts) {
        counts.over += std::mem::take(&mut self.over);
        let mut state = crew.state();
        for (at, (task, has_finished)) in self.finished.drain(..).enumerate() {
            if answer["done"][at]["error"].is_string() {
                counts.over += 1;
            } else if has_finished {
                counts.finished += 1;
                state.failed.remove(&task);
            } else {
                state.failed.insert(task);
            }
        }
    }
}

// One question, and the work on what it gives. True when there is no more to do.
fn round(
    line: &mut Line,
    crew: &Crew,
    (ends, counts): (&mut Ends, &mut Counts),
    last: &mut Instant,
) -> Result<bool, HqError> {
    let args = &crew.args;
    let left = args.patience.map_or(WAIT, |patience| patience.saturating_sub(last.elapsed()).min(WAIT));
    let request = json!({"next": {
        "done": std::mem::take(&mut ends.said),
        "take": args.block,
        "wait": left.as_secs_f64(),
        "bags": [bag(&args.bag)],
    }});
    let mut answer = line.ask(&request)?;
    ends.count(crew, &answer, counts);
    let tasks = answer["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if tasks.is_empty() {
        let is_patient = args.patience.is_none_or(|patience| last.elapsed() < patience);
        if answer["state"] != "over" && is_patient {
            return Ok(false);
        }
        // What was said must be on the server's disk before this is over.
        line.ask(&json!({"sync": {}}))?;
        return Ok(true);
    }
    let relay = line.relay();
    {
        let mut state = crew.state();
        if state.stopped_by.is_some() {
            return Err(stopped());
        }
        state.busy += 1;
        let taken = tasks.iter().map(|task| (key(task, "id"), (key(task, "attempt"), relay)));
        state.taken.extend(taken);
    }
    let worked = work_on(crew, (&tasks, relay), ends);
    let is_stopped = crew.state().stopped_by.is_some();
    let told = match (worked.is_err() && !is_gone(&worked)) || is_stopped {
        true if !ends.said.is_empty() => tell(line, crew, (ends, counts)),
        _ => Ok(()),
    };
    crew.state().busy -= 1;
    told.and(worked)?;
    if is_stopped {
        return Err(stopped());
    }
    *last = Instant::now();
    Ok(false)
}

// Says how tasks ended, and waits until that is on the server's disk.
fn tell(line: &mut Line, crew: &Crew, (ends, counts): (&mut Ends, &mut Counts)) -> Result<(), HqError> {
    let answer = line.ask(&json!({"complete": {"tasks": std::mem::take(&mut ends.said)}}))?;
    ends.count(crew, &answer, counts);
    line.ask(&json!({"sync": {}})).map(|_| ())
}

fn key(task: &Value, name: &str) -> String {
    task[name].as_str().unwrap_or_default().to_owned()
}

// A block of tasks. Those that are not in `ends` afterwards are to be given back.
fn work_on(crew: &Crew, (tasks, relay): (&[Value], Pid), ends: &mut Ends) -> Result<(), HqError> {
    for task in tasks {
        let mut end = json!({"id": task["id"], "attempt": task["attempt"]});
        match execute(crew, task, relay) {
            Ok(result) => {
                ends.finished.push((key(task, "id"), true));
                match result.map(String::from_utf8) {
                    Some(Ok(text)) => end["result"] = json!(text),
                    Some(Err(bytes)) => end["result_base64"] = json!(hq_pull::base64(bytes.as_bytes())),
                    None => {}
                }
            }
            Err(Fault::Failed(message)) => {
                ends.finished.push((key(task, "id"), false));
                end["failed"] = json!(message);
            }
            // That is no fault of the task, and would be the same with all others.
            Err(Fault::NotStarted(message)) => return Err(HqError::failed("bad-input", message)),
            Err(Fault::Interrupted) => return Err(stopped()),
            Err(Fault::Lost) => return Err(has_gone()),
            Err(Fault::Over) => {
                crew.let_go(task);
                ends.over += 1;
                continue;
            }
        }
        crew.let_go(task);
        ends.said.push(end);
    }
    Ok(())
}

// The program of a task that nobody says the end of any more ends, too: the kernel kills it when the thread that started it is
// gone, which waits for it.
#[expect(unsafe_code, reason = "says in the child that it ends with its parent")]
fn end_with_us(command: &mut Command) {
    let us = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before it said so.
        if getppid() == Some(us) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the closure makes two system calls, which are async-signal-safe, and allocates nothing.
    unsafe {
        command.pre_exec(bind);
    }
}

// Runs the program of one task. What it leaves behind, or why it failed.
fn execute(crew: &Crew, task: &Value, relay: Pid) -> Result<Option<Vec<u8>>, Fault> {
    let args = &crew.args;
    let word = |name: &str| task[name].as_str().unwrap_or_default();
    let mut command = Command::new(&args.command[0]);
    command
        .args(&args.command[1..])
        .env("HQ_PULL_NAME", word("name"))
        .env("HQ_PULL_ID", word("id"))
        .env("HQ_PULL_ATTEMPT", word("attempt"))
        .stdin(Stdio::piped())
        .stdout(match (args.last_line, crew.printer.mode == OutputMode::Json) {
            (true, _) => Stdio::piped(),
            // Standard output is for one document.
            (false, true) => std::io::stderr().into(),
            (false, false) => Stdio::inherit(),
        });
    command.process_group(0);
    end_with_us(&mut command);
    let mut child = {
        // Whoever stops all has either seen this one, or it is not begun.
        let mut state = crew.state();
        if state.stopped_by.is_some() {
            return Err(Fault::Interrupted);
        }
        if state.lost.contains(&relay) {
            return Err(Fault::Lost);
        }
        if state.over.contains(word("id")) {
            return Err(Fault::Over);
        }
        let child = command.spawn().map_err(|error| {
            let program = args.command[0].to_string_lossy();
            Fault::NotStarted(format!("`{program}` cannot be started: {error}"))
        })?;
        state.children.insert(Pid::from_child(&child), (relay, key(task, "id")));
        child
    };
    let payload = match task["payload_base64"].as_str() {
        Some(encoded) => hq_pull::from_base64(encoded).unwrap_or_default(),
        None => word("payload").as_bytes().to_vec(),
    };
    let stdin = child.stdin.take();
    // A program need not read what it is given.
    let feeder = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&payload)));
    let mut printed = Vec::new();
    let read = child.stdout.take().map(|mut out| out.read_to_end(&mut printed));
    let ended = waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    crew.state().children.remove(&Pid::from_child(&child));
    let status = child.wait();
    let _ = feeder.join();
    ended.map_err(|error| Fault::Failed(error.to_string()))?;
    let status = status.map_err(|error| Fault::Failed(error.to_string()))?;
    if crew.state().lost.contains(&relay) {
        return Err(Fault::Lost);
    }
    if crew.state().over.contains(word("id")) {
        return Err(Fault::Over);
    }
    if !status.success() && crew.state().stopped_by.is_some() {
        return Err(Fault::Interrupted);
    }
    if let Some(Err(error)) = read {
        return Err(Fault::Failed(error.to_string()));
    }
    if !status.success() {
        return Err(Fault::Failed(match status.code() {
            Some(code) => format!("exit code {code}"),
            None => status.to_string(),
        }));
    }
    let text = printed.strip_suffix(b"\n").unwrap_or(&printed);
    let last = text.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let last = last.strip_suffix(b"\r").unwrap_or(last);
    if last.len() > RESULT_MAX {
        let text = format!("the last line has {} bytes, and a result may have {RESULT_MAX}", last.len());
        return Err(Fault::Failed(text));
    }
    Ok(args.last_line.then(|| last.to_owned()))
}
