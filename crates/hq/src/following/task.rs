//! `hq task tail`: the last lines of one output of a task, and those that come.

use std::future::pending;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use hq_client::{Asking, ClientError, NextOf};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobEnds};
use hq_core::output_messages::{OutputState, ReadFrom};
use hq_model::left_behind::LeftBehind;
use hq_model::paths::Place;
use hq_model::{ByteString, Channel, IdSet, Stream, TaskRef, TaskState};
use hq_stream::NO_FILE;

use super::local::{self, Kept};
use super::reader::{Begins, Heard, Reader};
use super::{NOTHING_KEPT, WAIT, WATCH_PAUSE, Watching};
use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::render::Printer;
use crate::signals::Signals;
use crate::streams::Damaged;

/// How long a task that is followed has to start before people are told that it has not.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Prints the last lines of an output; with `follow`, goes on until the task has ended.
///
/// # Errors
/// When the server refuses or is lost, the output can be read nowhere, or a part of it is damaged.
pub(crate) fn tail(
    session: &SharedSession,
    of: (TaskRef, Channel),
    how: (u32, bool),
    out: &mut dyn Write,
    printer: Printer,
) -> Result<(), HqError> {
    let damaged = Damaged::new(printer);
    let printed = print_tail(session, of, how, out, &damaged);
    if printed.as_ref().is_err_and(|error| error.code != "no-output") {
        return printed;
    }
    look_for_damage(session, of, how.1, &damaged)?;
    printed.and(damaged.end_following())
}

// Whoever reads a part of a stream alone does not say what is damaged of it.
fn look_for_damage(
    session: &SharedSession,
    (task, channel): (TaskRef, Channel),
    followed: bool,
    damaged: &Damaged,
) -> Result<(), HqError> {
    let Some(found) = local::task(session, task)? else { return Ok(()) };
    if let Some(Place::Stream(stream)) = found.place(channel) {
        let (server_uid, tasks) = (session.borrow().server_uid().to_owned(), IdSet::single(task.task));
        if followed {
            damaged.watch(stream.path(), &server_uid);
        }
        // What cannot be read here was read elsewhere.
        let _ = damaged.look_at(stream.path(), &server_uid, task.job, Some(&tasks));
    }
    Ok(())
}

// The stream that an output goes into.
fn stream_of(
    session: &SharedSession,
    (task, channel): (TaskRef, Channel),
) -> Result<Option<ByteString>, HqError> {
    let Some(found) = local::task(session, task)? else { return Ok(None) };
    Ok(match found.place(channel) {
        Some(Place::Stream(stream)) => Some(stream.path().clone()),
        Some(Place::File(_)) | None => None,
    })
}

fn print_tail(
    session: &SharedSession,
    (task, channel): (TaskRef, Channel),
    (lines, follow): (u32, bool),
    out: &mut dyn Write,
    damaged: &Damaged,
) -> Result<(), HqError> {
    let printer = damaged.printer();
    let mut kept = Kept::default();
    // Notes which files are there: what becomes of them is told.
    let mut watching = Watching::default();
    let mut stream = None;
    let mut watch = || {
        if follow && watching.is_due() {
            if stream.is_none() {
                stream = stream_of(session, (task, channel))?;
            }
            if let Some(stream) = &stream {
                let server_uid = session.borrow().server_uid().to_owned();
                damaged.watch(stream, &server_uid);
            }
        }
        Ok(())
    };
    let mut asking = Asking::default();
    // Whoever follows learns what goes on when a signal ends that.
    let mut signals = if follow { Some(session.borrow().enter(Signals::catch)?) } else { None };
    let mut wait = if follow { FIRST_WAIT } else { Duration::ZERO };
    let mut reader = Reader::new(task, channel, ReadFrom::Lines(lines));
    // Without following: where what was there at first ends.
    let mut end = None;
    loop {
        let request = reader.request(wait);
        let output = match ask(session, &mut asking, request, signals.as_mut(), &mut watch)? {
            NextOf::Response(_, ClientResponse::Output(output)) => output,
            NextOf::Response(_, ClientResponse::Error(error)) => return Err(ClientError::from(error).into()),
            NextOf::Response(..) => return Err(ClientError::Unexpected.into()),
            NextOf::Other(signal) => return Err(interrupted(signal, task, channel)),
        };
        let (length, has_more) = (output.length, output.state == OutputState::More);
        let is_nowhere = output.state == OutputState::Nowhere;
        let read_up_to = output.offset + output.bytes.len() as u64;
        let heard = reader.hear(output);
        if follow && heard != Heard::Waits {
            wait = WAIT;
        }
        match heard {
            Heard::Printed { bytes, begins } => {
                if let Some(text) = begins.map(|begins| begins_anew(task, begins)) {
                    out.flush()?;
                    printer.note(&text);
                }
                out.write_all(&bytes)?;
                out.flush()?;
                let is_all = read_up_to >= *end.get_or_insert(length);
                if !follow && (is_all || !has_more) {
                    return Ok(());
                }
            }
            Heard::Waits if wait < WAIT => {
                let found = local::task(session, task)?;
                let has_not_started = found.is_some_and(|found| found.info.state == TaskState::Waiting);
                if has_not_started {
                    printer.warn(&[format!("Task {task} has not started yet, so it has no output")]);
                }
                match (follow, has_not_started) {
                    (true, _) => wait = WAIT,
                    (false, true) => return Ok(()),
                    (false, false) => {}
                }
            }
            Heard::Waits => {}
            Heard::Look { instance, reason } => {
                let Some(found) = local::task(session, task)? else {
                    return Err(ClientError::Unexpected.into());
                };
                let goes_on = matches!(found.info.state, TaskState::Waiting | TaskState::Running);
                let never_started = !goes_on && found.info.started.is_none();
                let print = &mut |bytes: &[u8]| Ok(out.write_all(bytes)?);
                match found.read(channel, instance, reader.place_in(instance), &mut kept, print)? {
                    Ok(read) => {
                        if read.is_cut_off {
                            printer.note(&begins_anew(task, Begins::CutOff));
                            damaged.is_cut_off(task);
                        }
                        reader.has_read(instance, read.end, (goes_on, reason.is_none()));
                    }
                    Err(here) => {
                        if reader.is_not_here(instance, reason.as_deref(), goes_on) || goes_on && !follow {
                            let there = reason.unwrap_or_else(|| "its worker is away".to_owned());
                            let error = unreadable(task, channel, &there, &here);
                            return Err(match found.place(channel) {
                                Some(Place::Stream(Stream::Log(_))) => error.hint(
                                    "a log is read from the file system, which this machine must share with the \
                                     server",
                                ),
                                _ => error,
                            });
                        }
                    }
                }
                out.flush()?;
                if never_started {
                    printer.warn(&[format!("Task {task} never started, so it has no output")]);
                }
                if !follow && goes_on {
                    return Ok(());
                }
            }
            Heard::Ended => {
                if !is_nowhere {
                    break;
                }
                let Some(found) = local::task(session, task)?.filter(|found| found.is_packed_call) else {
                    printer.warn(&[format!("Task {task} writes no {}", channel.word())]);
                    break;
                };
                let goes_on = matches!(found.info.state, TaskState::Waiting | TaskState::Running);
                if goes_on && !follow {
                    printer.warn(&[format!(
                        "Task {task} has not ended yet: the output of a call is available when it has ended"
                    )]);
                    break;
                }
                let mut others = IdSet::range(0, u32::MAX);
                others.remove(task.task);
                let request = ClientRequest::AwaitEnds { job: task.job, known: others };
                match ask(session, &mut asking, request, signals.as_mut(), &mut watch)? {
                    NextOf::Response(_, ClientResponse::Ends(ends)) => {
                        print_left(&ends, (task, channel), lines, out, printer)?;
                    }
                    NextOf::Response(_, ClientResponse::Error(error)) => {
                        return Err(ClientError::from(error).into());
                    }
                    NextOf::Response(..) => return Err(ClientError::Unexpected.into()),
                    NextOf::Other(signal) => return Err(interrupted(signal, task, channel)),
                }
                break;
            }
        }
    }
    if follow && let Some(found) = local::task(session, task)? {
        let how = match (found.info.state, found.info.error) {
            (TaskState::Finished, _) => "finished with exit code 0".to_owned(),
            (state, Some(error)) => format!("{state}: {error}"),
            (state, None) => state.to_string(),
        };
        printer.note(&format!("Task {task} {how}"));
    }
    Ok(())
}

// What a call printed, out of what it left behind.
fn print_left(
    ends: &JobEnds,
    (task, channel): (TaskRef, Channel),
    lines: u32,
    out: &mut dyn Write,
    printer: Printer,
) -> Result<(), HqError> {
    let left = ends.ids.iter().zip(ends.results.iter()).find(|(id, _)| *id == task.task);
    let Some((_, left)) = left else {
        if ends.finished.contains(task.task) {
            printer.damaged(&[format!("The output of task {task} is no longer kept")]);
        }
        return Ok(());
    };
    if let LeftBehind::Packed(packed) = LeftBehind::of(left) {
        let printed = packed.printed(channel);
        let (begin, has_all) = begin_of_lines(printed.bytes, lines);
        out.write_all(&printed.bytes[begin..])?;
        out.flush()?;
        if printed.lost > 0 && !has_all {
            printer.damaged(&[format!("{} earlier bytes are not kept", printed.lost)]);
        }
    }
    Ok(())
}

// Where the last lines begin, and whether there are so many.
fn begin_of_lines(bytes: &[u8], lines: u32) -> (usize, bool) {
    let Some(skipped) = lines.checked_sub(1) else { return (bytes.len(), true) };
    // The line break at the end belongs to the last line.
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut breaks = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match breaks.nth(skipped as usize) {
        Some((at, _)) => (at + 1, true),
        None => (0, false),
    }
}

// Waits as long as the answer takes, or until a signal comes. Meanwhile, and before what is answered is printed, `watch`
// is called.
fn ask(
    session: &SharedSession,
    asking: &mut Asking,
    request: ClientRequest,
    mut signals: Option<&mut Signals>,
    watch: &mut dyn FnMut() -> Result<(), HqError>,
) -> Result<NextOf<u8>, HqError> {
    asking.ask(0, request);
    loop {
        let other = async {
            let Some(signals) = &mut signals else { return pending().await };
            tokio::select! {
                signal = signals.next() => Some(signal),
                () = tokio::time::sleep(WATCH_PAUSE) => None,
            }
        };
        let next = session.borrow_mut().next_of(asking, pin!(other))?;
        watch()?;
        match next {
            NextOf::Response(name, response) => return Ok(NextOf::Response(name, response)),
            NextOf::Other(Some(signal)) => return Ok(NextOf::Other(signal)),
            NextOf::Other(None) => {}
        }
    }
}

fn interrupted(signal: u8, task: TaskRef, channel: Channel) -> HqError {
    let job = task.job;
    HqError::interrupted(signal, format!("Interrupted; job {job} continues")).hint(format!(
        "`hq task tail --follow {task} {}` shows the output of the task again, `hq job wait {job}` waits for its job",
        channel.word()
    ))
}

/// What people are told where an output does not go on.
pub(super) fn begins_anew(task: TaskRef, begins: Begins) -> String {
    match begins {
        Begins::Instance(instance) => {
            format!("Task {task} was restarted as instance {instance}; its output starts over")
        }
        Begins::CutOff => format!("The output of task {task} was cut off, and is read from the beginning"),
    }
}

/// Why an output can be read nowhere.
pub(super) fn unreadable(task: TaskRef, channel: Channel, there: &str, here: &str) -> HqError {
    let both = if there == here { here.to_owned() } else { format!("{there}; here: {here}") };
    let text = format!("cannot read the {} of task {task}: {both}", channel.word());
    let hint = match here.ends_with(NO_FILE) {
        true => NOTHING_KEPT,
        false => "the output of ended tasks is read from the file system, or from the worker that ran them",
    };
    HqError::failed("no-output", text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_tail() {
        for (text, lines, expected) in [
            ("a\nb\nc\n", 2, ("b\nc\n", true)),
            ("a\nb\nc", 1, ("c", true)),
            ("a\nb\n", 2, ("a\nb\n", false)),
            ("\n\n", 1, ("\n", true)),
            ("", 3, ("", false)),
            ("a\n", 0, ("", true)),
        ] {
            let (begin, has_all) = begin_of_lines(text.as_bytes(), lines);
            assert_eq!((&text[begin..], has_all), expected, "{text:?} {lines}");
        }
    }
}
