//! The program of one task: started, fed, waited for, and ended with this command.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, getppid, set_parent_process_death_signal,
    setrlimit, waitid,
};
use serde_json::Value;

use super::Crew;
use super::held::Attempt;
use crate::cli::OutputMode;

/// Between attempts to start a program where there is no room for one more.
const ROOM_PAUSE: Duration = Duration::from_millis(200);
/// So often, where no other program runs whose end would make room.
const ROOM_TRIES: u32 = 25;
/// So much can be written into an empty pipe before anybody reads.
const PIPE_BYTES: usize = 4096;
/// Most bytes of the last line that a program prints.
const RESULT_MAX: usize = hq_core::limits::PULLED_RESULT_BYTES_MAX;

// Why a task has not finished.
#[derive(Debug)]
pub(super) enum Fault {
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

// The program of a task that nobody says the end of any more ends, too: the kernel kills it when the thread that started it is
// gone, which waits for it.
#[expect(unsafe_code, reason = "says in the child that it ends with its parent")]
fn end_with_us(command: &mut Command, files: Rlimit) {
    let us = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Where it is not lowered again, the program may have more.
        let _ = setrlimit(Resource::Nofile, files);
        // We may have died before it said so.
        if getppid() == Some(us) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the closure makes three system calls, which are async-signal-safe, and allocates nothing.
    unsafe {
        command.pre_exec(bind);
    }
}

// Runs the program of one task. What it leaves behind, or why it failed.
pub(super) fn execute(crew: &Crew, task: &Value, relay: Pid) -> Result<Option<Vec<u8>>, Fault> {
    let args = &crew.args;
    let attempt = Attempt::of(task);
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
    end_with_us(&mut command, crew.files);
    let mut tries_left = ROOM_TRIES;
    let mut child = loop {
        if let Some(child) = begin(crew, &mut command, (&attempt, relay), tries_left)? {
            break child;
        }
        tries_left = tries_left.saturating_sub(1);
        std::thread::sleep(ROOM_PAUSE);
    };
    let payload = match task["payload_base64"].as_str() {
        Some(encoded) => hq_pull::from_base64(encoded).unwrap_or_default(),
        None => word("payload").as_bytes().to_vec(),
    };
    let feeder = child.stdin.take().and_then(|stdin| feed(stdin, payload));
    let mut printed = Vec::new();
    let read = child.stdout.take().map(|mut out| out.read_to_end(&mut printed));
    let ended = waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    crew.state().held.end(Pid::from_child(&child));
    let status = child.wait();
    if let Some(feeder) = feeder {
        let _ = feeder.join();
    }
    ended.map_err(|error| Fault::Failed(error.to_string()))?;
    let status = status.map_err(|error| Fault::Failed(error.to_string()))?;
    crew.state().held.fault(&attempt, relay)?;
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
        let text =
            format!("the last line has {} bytes, but a result can have at most {RESULT_MAX}", last.len());
        return Err(Fault::Failed(text));
    }
    Ok(args.last_line.then(|| last.to_owned()))
}

// None where there is no room for one more program, and will be when one of the others ends.
fn begin(
    crew: &Crew,
    command: &mut Command,
    (attempt, relay): (&Attempt, Pid),
    tries_left: u32,
) -> Result<Option<Child>, Fault> {
    // Whoever stops all has either seen this one, or it is not begun.
    let mut state = crew.state();
    if state.stopped_by.is_some() {
        return Err(Fault::Interrupted);
    }
    state.held.fault(attempt, relay)?;
    let error = match command.spawn() {
        Ok(child) => {
            state.held.begin(Pid::from_child(&child), relay, attempt.clone());
            return Ok(Some(child));
        }
        Err(error) => error,
    };
    let programs = state.held.programs().len() as u64;
    // Where none runs in this moment, one may in the next.
    let may_come = programs > 0 || (state.slots > 1 && tries_left > 0);
    drop(state);
    let no_room = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    if may_come && error.raw_os_error().is_some_and(|code| no_room.map(Errno::raw_os_error).contains(&code)) {
        crew.stay_with(programs.max(1), &error.to_string());
        return Ok(None);
    }
    let program = crew.args.command[0].to_string_lossy();
    Err(Fault::NotStarted(format!("`{program}` cannot be started: {error}")))
}

// A program need not read what it is given. What fits into an empty pipe needs nobody who waits for that.
fn feed(mut stdin: ChildStdin, payload: Vec<u8>) -> Option<JoinHandle<()>> {
    if payload.len() <= PIPE_BYTES {
        let _ = stdin.write_all(&payload);
        return None;
    }
    let feeder = move || drop(stdin.write_all(&payload));
    std::thread::Builder::new().spawn(feeder).ok()
}
