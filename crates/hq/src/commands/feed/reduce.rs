//! `hq feed reduce`: ended tasks as lines of JSON for a command, and what it says that it has made of them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufWriter, PipeWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobEnds};
use hq_core::feed::{FeedOrder, FeedState};
use hq_model::{ByteString, IdSet, JobId, TaskId, counted};
use serde_json::{Value, json};

use super::lines::{self, Line, Lines};
use super::{Context, Done, Own, connect, end_of, failed, spawn, unexpected};
use crate::cli::feed::ReduceArgs;
use crate::error::HqError;
use crate::report::{Plain, Sentence};

pub(super) fn reduce(context: &Context, args: ReduceArgs) -> Result<Done, HqError> {
    let own = Own::of_environment()?;
    let mut session = connect(context)?;
    let state = own.ask(&mut session, FeedOrder::Look)?;
    let variables: Vec<(&str, &[u8])> =
        state.feed.state.iter().map(|state| ("HQ_STATE", state.as_slice())).collect();
    let no_pipe = |error: std::io::Error| failed(format!("no pipe to the reducer: {error}"));
    let (input, stdin) = std::io::pipe().map_err(no_pipe)?;
    let mut child = spawn(&args.command, &variables, input.try_clone().map_err(no_pipe)?.into())?;
    let Some(out) = child.stdout.take() else {
        return Err(failed("no pipe from the reducer"));
    };
    let mut lines = lines::read(out).map_err(|error| failed(error.to_string()))?;
    let told = Arc::new(Told::default());
    let giver = {
        let (told, session) = (Arc::clone(&told), connect(context)?);
        let (is_with_failed, is_in_order, is_json) = (args.failed, args.in_order, args.json);
        let giver = Giver { own, session, told, state, is_with_failed, is_in_order, is_json };
        std::thread::Builder::new().name("giver".into()).spawn(move || giver.give(stdin))
    };
    let giver = giver.map_err(|error| failed(error.to_string()))?;
    let heard = hear(&own, &mut session, &mut lines, &told);
    if heard.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (last, has_enough) = heard?;
    end_of(&mut child, "reducer")?;
    if !has_enough {
        if !told.is_over.load(Ordering::Acquire) {
            // The thread may have an error of its own.
            if giver.is_finished()
                && let Ok(Err(error)) = giver.join()
            {
                return Err(error);
            }
            return Err(failed(
                "the reducer exited before the end of its input; to stop early, it must print `#hq end`",
            ));
        }
        // What it has left in the pipe, it was told, and does not know.
        let unread = rustix::io::ioctl_fionread(&input).map_err(|error| no_pipe(error.into()))?;
        if unread > 0 {
            return Err(failed(format!(
                "the reducer exited with {unread} bytes of its input unread; to stop early, it must print `#hq end`"
            )));
        }
        // What it was told and has not saved is in what it leaves behind, and counts when its task has ended with success.
    }
    match last {
        Some(mut line) => {
            line.push(b'\n');
            Done::ok(Plain(line))
        }
        None => Done::ok(Sentence(String::new())),
    }
}

// Carries out what the command says, until its output has ended. Its last line, and whether it has enough.
fn hear(
    own: &Own,
    session: &mut Session,
    lines: &mut Lines,
    told: &Told,
) -> Result<(Option<ByteString>, bool), HqError> {
    let (mut last, mut has_enough) = (None, false);
    let mut number: u64 = 0;
    while let Some(line) = lines.next() {
        number += 1;
        match line {
            Line::Plain(line) | Line::Cut(line) if line.is_empty() => {}
            Line::Plain(line) | Line::Cut(line) => last = Some(line),
            Line::Order(word, text) if word == "saved" => {
                let (count, state) = saved(&text).ok_or_else(|| {
                    let text = String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned();
                    failed(format!(
                        "line {number} of the reducer, `#hq saved {text}`: it needs the number of lines read and the state behind \
                         it"
                    ))
                })?;
                let ids = told
                    .up_to(count)
                    .map_err(|why| failed(format!("line {number} of the reducer: it acknowledges {why}")))?;
                own.ask(session, FeedOrder::Save { ids, state: Some(state), is_enough: false })?;
            }
            Line::Order(word, _) if word == "end" => {
                has_enough = true;
                own.ask(session, FeedOrder::Save { ids: IdSet::new(), state: None, is_enough: true })?;
            }
            Line::Order(word, _) => {
                return Err(failed(format!(
                    "line {number} of the reducer: unknown directive `#hq {word}`; only `#hq saved N TEXT` and `#hq \
                     end` are supported"
                )));
            }
            Line::TooLong(number) => {
                let max = lines::LINE_BYTES_MAX;
                return Err(failed(format!("line {number} of the reducer has more than {max} bytes")));
            }
            Line::Broken(why) => {
                return Err(failed(format!("the output of the reducer cannot be read: {why}")));
            }
        }
    }
    Ok((last, has_enough))
}

// The number of lines, and the state.
fn saved(text: &[u8]) -> Option<(u64, ByteString)> {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let count = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((count, text.get(end + 1..).unwrap_or_default().to_vec()))
}

/// What the command was given.
#[derive(Default)]
struct Told {
    given: Mutex<Given>,
    // There is no more to give.
    is_over: AtomicBool,
}

#[derive(Default)]
struct Given {
    // The tasks of the lines that are not acknowledged, and how many lines were.
    lines: VecDeque<TaskId>,
    acknowledged: u64,
    // Tasks that have ended and get no line.
    passed_over: IdSet,
}

impl Told {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The tasks of the first so many lines, but for those that were acknowledged before; or what is wrong with that number. A
    // state of fewer lines than were acknowledged would have lost the rest: nobody is told of these again.
    fn up_to(&self, count: u64) -> Result<IdSet, String> {
        let mut given = self.given();
        let before = given.acknowledged;
        let all = before + given.lines.len() as u64;
        if count > all {
            return Err(format!("too many: {}, but it was given {all}", counted(count, "line")));
        }
        let Some(new) = count.checked_sub(before) else {
            return Err(format!(
                "fewer than before: {}, but its last saved state covers {before}",
                counted(count, "line")
            ));
        };
        let mut ids: IdSet = given.lines.drain(..new as usize).collect();
        ids.union_with(&std::mem::take(&mut given.passed_over));
        given.acknowledged = count;
        Ok(ids)
    }
}

struct Giver {
    own: Own,
    session: Session,
    told: Arc<Told>,
    state: FeedState,
    is_with_failed: bool,
    is_in_order: bool,
    is_json: bool,
}

impl Giver {
    // Until the job has ended, or the command does not listen any more.
    fn give(mut self, stdin: PipeWriter) -> Result<(), HqError> {
        let mut stdin = BufWriter::new(stdin);
        let mut known = self.state.feed.reduced.clone();
        // Those that have ended and wait for others before them.
        let mut early: BTreeMap<TaskId, Option<Value>> = BTreeMap::new();
        loop {
            let ends = self.await_ends(self.state.job, &known)?;
            let is_over = ends.is_over;
            let ended = self.lines_of(ends, &mut known)?;
            early.extend(ended);
            while let Some(first) = early.first_entry() {
                let task = *first.key();
                if self.is_in_order && !is_over && !self.has_all_before(&known, task) {
                    break;
                }
                let line = first.remove();
                let mut given = self.told.given();
                match &line {
                    Some(_) => given.lines.push_back(task),
                    None => {
                        given.passed_over.insert(task);
                    }
                }
                drop(given);
                // Nobody reads it any more: how the command ended is looked at elsewhere.
                if let Some(line) = line
                    && writeln!(stdin, "{line}").is_err()
                {
                    return Ok(());
                }
            }
            if is_over {
                let _ = stdin.flush();
                // Before its end, so that nobody takes an end of the command for an early one.
                self.told.is_over.store(true, Ordering::Release);
                return Ok(());
            }
            if stdin.flush().is_err() {
                return Ok(());
            }
        }
    }

    fn has_all_before(&self, known: &IdSet, task: TaskId) -> bool {
        task.0.checked_sub(1).is_none_or(|last| known.contains_all(&IdSet::range(0, last)))
    }

    fn await_ends(&mut self, job: JobId, known: &IdSet) -> Result<JobEnds, HqError> {
        match self.session.request(ClientRequest::AwaitEnds { job, known: known.clone() })? {
            ClientResponse::Ends(ends) => Ok(*ends),
            _ => unexpected(),
        }
    }

    // What is said of each of these tasks; nothing of those that the command does not want to hear of.
    fn lines_of(
        &mut self,
        ends: JobEnds,
        known: &mut IdSet,
    ) -> Result<BTreeMap<TaskId, Option<Value>>, HqError> {
        let JobEnds { finished, canceled, failed, aborted, ids, results, .. } = ends;
        let mut ended: BTreeMap<TaskId, Option<Value>> = BTreeMap::new();
        let results: BTreeMap<TaskId, &[u8]> = ids.iter().zip(results.iter()).collect();
        let mut say = |task: TaskId, state: &str, error: Option<&str>, is_wanted: bool| {
            known.insert(task);
            let line = is_wanted.then(|| {
                let result = results.get(&task).map(|result| self.value_of(result));
                let mut line = json!({ "task": task.0, "entry": null, "state": state, "result": result });
                if let Some(error) = error {
                    line["error"] = error.into();
                }
                line
            });
            ended.insert(task, line);
        };
        let with_failed = self.is_with_failed;
        finished.iter().for_each(|task| say(task, "finished", None, true));
        failed.iter().for_each(|(task, _, error)| say(*task, "failed", Some(error), with_failed));
        canceled.iter().for_each(|task| say(task, "canceled", Some("it was canceled"), with_failed));
        for (ids, reason) in &aborted {
            ids.iter().for_each(|task| say(task, "aborted", Some(reason), with_failed));
        }
        let mut wanted: IdSet =
            ended.iter().filter(|(_, line)| line.is_some()).map(|(task, _)| *task).collect();
        while !wanted.is_empty() {
            let order = FeedOrder::Entries { ids: wanted.clone() };
            let entries = self.own.ask(&mut self.session, order)?.entries;
            if entries.is_empty() {
                return unexpected();
            }
            let told: Vec<(TaskId, &[u8])> = wanted.iter().zip(entries.iter()).collect();
            let mut done = IdSet::new();
            for (task, entry) in told {
                if let Some(Some(line)) = ended.get_mut(&task) {
                    line["entry"] = String::from_utf8_lossy(entry).into();
                }
                done.insert(task);
            }
            wanted.subtract(&done);
        }
        Ok(ended)
    }

    fn value_of(&self, result: &[u8]) -> Value {
        let text = || String::from_utf8_lossy(result).into();
        if self.is_json { serde_json::from_slice(result).unwrap_or_else(|_| text()) } else { text() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_state_says_of_how_many_lines_it_is() {
        assert_eq!(saved(b"12 a state"), Some((12, b"a state".to_vec())));
        assert_eq!(saved(b"0"), Some((0, Vec::new())));
        for bad in ["", "x", "-1 a", " 1"] {
            assert_eq!(saved(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn lines_are_acknowledged_once_and_never_too_many() {
        let told = Told::default();
        {
            let mut given = told.given();
            given.lines.extend([5, 2, 9].map(TaskId));
            given.passed_over.insert(TaskId(7));
        }
        assert_eq!(told.up_to(4), Err("too many: 4 lines, but it was given 3".into()));
        assert_eq!(told.up_to(2), Ok("2,5,7".parse().expect("ids")));
        assert_eq!(told.up_to(2), Ok(IdSet::new()), "another state of the same lines");
        let less = "fewer than before: 1 line, but its last saved state covers 2";
        assert_eq!(told.up_to(1), Err(less.into()));
        assert_eq!(told.up_to(3), Ok(IdSet::single(TaskId(9))));
    }
}
