//! `hq pull run`: a program for each task, until the bag is over.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hq_client::error::EXIT_FAILED;
use serde_json::{Value, json};

use super::{Context, Done, Line, bag, worker};
use crate::cli::pull::RunArgs;
use crate::error::HqError;
use crate::report::Sentence;

/// What is taken is given back by itself so long after this process has died.
const LEASE: Duration = Duration::from_secs(60);
/// One question for tasks waits so long.
const WAIT: Duration = Duration::from_secs(20);
/// Most bytes of the last line that a program prints.
const RESULT_MAX: usize = hq_core::limits::PULLED_RESULT_BYTES_MAX;

// What is taken, by ids: the attempts.
type Taken = Arc<Mutex<BTreeMap<String, String>>>;

// Why a task has not finished.
#[derive(Debug)]
enum Fault {
    Failed(String),
    // The program is not there.
    NotStarted(String),
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    finished: u64,
    failed: u64,
}

pub(super) fn run(context: &Context, args: RunArgs) -> Result<Done, HqError> {
    let label = format!("{}.{}", worker(&args.worker), std::process::id());
    let hello = json!({"hello": {"label": label, "lease": LEASE.as_secs_f64()}});
    let mut first = Line::open(context)?;
    first.ask(&hello)?;
    let taken = Taken::default();
    let (all_done, is_done) = channel::<()>();
    let extender = {
        let (line, taken) = (first, Arc::clone(&taken));
        std::thread::spawn(move || extend(line, &taken, &is_done))
    };
    let mut lines = Vec::new();
    for _ in 0..args.jobs {
        let mut line = Line::open(context)?;
        line.ask(&hello)?;
        lines.push(line);
    }
    let args = &args;
    let counts: Vec<Result<Counts, HqError>> = std::thread::scope(|scope| {
        let workers = lines.into_iter().map(|line| {
            let taken = Arc::clone(&taken);
            scope.spawn(move || work(line, args, &taken))
        });
        let workers: Vec<_> = workers.collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(counts) => counts,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    drop(all_done);
    let _ = extender.join();
    if counts.iter().any(Result::is_err) {
        // Others need not wait until the lease is over; where that cannot be said, they do.
        let _ = Line::open(context).and_then(|mut line| line.ask(&json!({"leave": {"label": label}})));
    }
    let mut sum = Counts::default();
    for counts in counts {
        let counts = counts?;
        sum.finished += counts.finished;
        sum.failed += counts.failed;
    }
    let text = format!("{} tasks finished, {} failed", sum.finished, sum.failed);
    Ok(Done::ok(Sentence(text))?.exit(if sum.failed == 0 { 0 } else { EXIT_FAILED }))
}

// Says again and again that what is taken is being worked on.
fn extend(mut line: Line, taken: &Taken, is_done: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(LEASE / 3) {
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tasks: Vec<Value> =
            taken.iter().map(|(id, attempt)| json!({"id": id, "attempt": attempt})).collect();
        // What is not taken any more is told to whoever says how it ended; without a relay nothing can be done here.
        if !tasks.is_empty() && line.ask(&json!({"extend": {"tasks": tasks}})).is_err() {
            return;
        }
    }
}

// Takes blocks of tasks, and says with the next question how they ended.
fn work(mut line: Line, args: &RunArgs, taken: &Taken) -> Result<Counts, HqError> {
    let mut counts = Counts::default();
    let mut done: Vec<Value> = Vec::new();
    let mut last = Instant::now();
    loop {
        let left = args.patience.map_or(WAIT, |patience| patience.saturating_sub(last.elapsed()).min(WAIT));
        let request = json!({"next": {
            "done": std::mem::take(&mut done),
            "take": args.block,
            "wait": left.as_secs_f64(),
            "bags": [bag(&args.bag)],
        }});
        let mut answer = line.ask(&request)?;
        let tasks = answer["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
        if tasks.is_empty() {
            let is_patient = args.patience.is_none_or(|patience| last.elapsed() < patience);
            if answer["state"] == "over" || !is_patient {
                // What was said must be on the server's disk before this is over.
                line.ask(&json!({"sync": {}}))?;
                return Ok(counts);
            }
            continue;
        }
        let key = |task: &Value, name: &str| task[name].as_str().unwrap_or_default().to_owned();
        {
            let mut all = taken.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(tasks.iter().map(|task| (key(task, "id"), key(task, "attempt"))));
        }
        for task in &tasks {
            let mut end = json!({"id": task["id"], "attempt": task["attempt"]});
            match execute(args, task) {
                Ok(result) => {
                    counts.finished += 1;
                    if let Some(result) = result {
                        end["result"] = json!(result);
                    }
                }
                Err(Fault::Failed(message)) => {
                    counts.failed += 1;
                    end["failed"] = json!(message);
                }
                // That is no fault of the task, and would be the same with all others.
                Err(Fault::NotStarted(message)) => {
                    if !done.is_empty() {
                        line.ask(&json!({"complete": {"tasks": done}}))?;
                    }
                    return Err(HqError::failed("bad-input", message));
                }
            }
            taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(task, "id"));
            done.push(end);
        }
        last = Instant::now();
    }
}

// Runs the program of one task. What it leaves behind, or why it failed.
fn execute(args: &RunArgs, task: &Value) -> Result<Option<String>, Fault> {
    let word = |name: &str| task[name].as_str().unwrap_or_default();
    let mut child = Command::new(&args.command[0])
        .args(&args.command[1..])
        .env("HQ_PULL_NAME", word("name"))
        .env("HQ_PULL_ID", word("id"))
        .env("HQ_PULL_ATTEMPT", word("attempt"))
        .stdin(Stdio::piped())
        .stdout(if args.last_line { Stdio::piped() } else { Stdio::inherit() })
        .spawn()
        .map_err(|error| {
            let program = args.command[0].to_string_lossy();
            Fault::NotStarted(format!("`{program}` cannot be started: {error}"))
        })?;
    let payload = match task["payload_base64"].as_str() {
        Some(encoded) => hq_pull::from_base64(encoded).unwrap_or_default(),
        None => word("payload").as_bytes().to_vec(),
    };
    let stdin = child.stdin.take();
    // A program need not read what it is given.
    let feeder = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&payload)));
    let mut printed = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut printed).map_err(|error| Fault::Failed(error.to_string()))?;
    }
    let status = child.wait().map_err(|error| Fault::Failed(error.to_string()))?;
    let _ = feeder.join();
    if !status.success() {
        return Err(Fault::Failed(match status.code() {
            Some(code) => format!("exit code {code}"),
            None => status.to_string(),
        }));
    }
    let text = String::from_utf8_lossy(&printed);
    let last = text.lines().next_back().unwrap_or_default();
    if last.len() > RESULT_MAX {
        let text = format!("the last line has {} bytes, and a result may have {RESULT_MAX}", last.len());
        return Err(Fault::Failed(text));
    }
    Ok(args.last_line.then(|| last.to_owned()))
}
