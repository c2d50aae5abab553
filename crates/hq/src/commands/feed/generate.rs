//! `hq feed generate`: tasks of the lines that a command prints, read only as far as tasks are needed.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_client::options::feed::Ahead;
use hq_core::feed::{FeedOrder, FeedState};
use hq_model::job::{Target, TaskIds};
use hq_model::{ByteString, Entries, IdSet, Submit, TaskSpec};
use serde_json::Value;

use super::lines::{self, Line};
use super::{Context, Done, Own, connect, end_of, failed, spawn};
use crate::cli::feed::GenerateArgs;
use crate::error::HqError;
use crate::report::Sentence;

/// Lines of one request at most.
const BATCH_LINES: u64 = 10_000;
/// Their bytes, about.
const BATCH_BYTES: usize = 2 << 20;
/// Submits of one request, where lines ask for different things.
const BATCH_SUBMITS: usize = 500;
/// With a time, no more than so many tasks wait.
const AHEAD_MAX: u64 = 100_000;
/// The rate is measured over this time at least.
const RATE_TIME: Duration = Duration::from_millis(250);
/// Lines that are compared at once with those before a restart.
const COMPARED: u64 = 1000;

pub(super) fn generate(context: &Context, args: GenerateArgs) -> Result<Done, HqError> {
    let own = Own::of_environment()?;
    let mut template = Vec::new();
    std::io::stdin().lock().read_to_end(&mut template).map_err(|error| failed(error.to_string()))?;
    let template = hq_proto::decode_submit(&template)
        .map_err(|error| failed(format!("what the tasks are to be is not to be read: {error}")))?;
    let mut session = connect(context)?;
    let state = own.ask(&mut session, FeedOrder::Look)?;
    if state.wants_no_more() {
        if state.is_open {
            // Its last word was saved, and its end was not.
            own.ask(&mut session, last(&state))?;
        }
        return Done::ok(Sentence("nothing more is wanted".into()));
    }
    let behind = state.made.saturating_sub(state.feed.cursor_at);
    let generated = behind.to_string();
    let mut variables = vec![("HQ_GENERATED", generated.as_bytes())];
    if let Some(cursor) = &state.feed.cursor {
        variables.push(("HQ_CURSOR", cursor.as_slice()));
    }
    let mut child = spawn(&args.command, &variables)?;
    let (Some(out), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(failed("there are no pipes to the generator"));
    };
    let lines = lines::read(out).map_err(|error| failed(error.to_string()))?;
    let mut source = Source {
        own,
        session: &mut session,
        lines,
        wishes: Wishes::start(stdin)?,
        pace: Pace { ahead: args.ahead, since: Instant::now(), ended: state.ended, rate: 0.0 },
        pending: VecDeque::new(),
        taken: 0,
        is_json: args.json,
        template,
        state,
    };
    let result = source.skip(behind).and_then(|()| source.feed(&mut child));
    if result.is_err() {
        // It may have been killed with its reader, or go on for ever.
        let _ = child.kill();
        let _ = child.wait();
    }
    let made = source.state.made;
    result?;
    Done::ok(Sentence(format!("{made} tasks made")))
}

fn last(state: &FeedState) -> FeedOrder {
    FeedOrder::Add { at: state.made, submits: Vec::new(), cursor: None, is_last: true }
}

struct Source<'a> {
    own: Own,
    session: &'a mut Session,
    lines: Receiver<Line>,
    wishes: Wishes,
    pace: Pace,
    // Lines that were read and are not tasks yet.
    pending: VecDeque<Made>,
    // Lines read, those of cursors not counted.
    taken: u64,
    is_json: bool,
    template: Submit,
    state: FeedState,
}

// What came of a line.
#[derive(Debug, PartialEq)]
enum Made {
    Task { entry: ByteString, spec: Option<Arc<TaskSpec>> },
    Cursor(ByteString),
}

impl Source<'_> {
    // Passes over the lines that are tasks already, and compares them with those.
    fn skip(&mut self, count: u64) -> Result<(), HqError> {
        let first = self.state.feed.cursor_at;
        let mut known = Entries::default();
        let mut from = first;
        for number in first..first + count {
            if number >= from + known.len() as u64 {
                from = number;
                let last = (number + COMPARED - 1).min(first + count - 1);
                let ids = IdSet::range(number as u32, last as u32);
                known = self.own.ask(self.session, FeedOrder::Entries { ids })?.entries;
            }
            let Ok(line) = self.lines.recv() else {
                return Err(failed(format!(
                    "the generator printed {} lines after its restart, and {count} before it, which are tasks",
                    number - first
                )));
            };
            let before = known.get((number - from) as usize).unwrap_or_default();
            match self.made_of(line)? {
                Made::Task { entry, .. } if entry == before => {}
                Made::Task { entry, .. } => {
                    return Err(failed(format!(
                        "line {} behind its cursor is `{}` after the restart of the generator, and was `{}` before: it must \
                         print the same again, or say with `#hq cursor` where it is",
                        number - first + 1,
                        String::from_utf8_lossy(&entry),
                        String::from_utf8_lossy(before),
                    )));
                }
                Made::Cursor(_) => {
                    return Err(failed(format!(
                        "the generator says where it is {} lines after its restart, and had printed {count} without that \
                         before",
                        number - first
                    )));
                }
            }
        }
        Ok(())
    }

    fn feed(&mut self, child: &mut Child) -> Result<(), HqError> {
        loop {
            let room = self.await_room()?;
            if self.state.wants_no_more() {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(());
            }
            self.wishes.want(room, self.taken);
            let cut = match self.gather(room)? {
                Gathered::More => None,
                Gathered::End(cut) => Some(cut),
            };
            self.send()?;
            let Some(cut) = cut else { continue };
            // What was printed counts, however it ended; a line without an end only if it ended well.
            end_of(child, "generator")?;
            if let Some(line) = cut {
                let made = self.made_of(lines::of(line))?;
                self.pending.push_back(made);
                self.send()?;
            }
            return self.add(Vec::new(), None, true);
        }
    }

    // How many tasks may be made now: at least one, unless no more are wanted.
    fn await_room(&mut self) -> Result<u64, HqError> {
        loop {
            let ahead = self.pace.ahead(&self.state);
            if self.state.wants_no_more() {
                return Ok(0);
            }
            // Asked for when the answer is not known: the reducer may be behind.
            let is_known = self.state.waiting < ahead && self.state.feed.reducer.is_none();
            if is_known {
                return Ok(ahead - self.state.waiting);
            }
            let below = (ahead - ahead / 4).max(1);
            self.state = self.own.ask(self.session, FeedOrder::AwaitRoom { below })?;
            let ahead = self.pace.ahead(&self.state);
            if self.state.waiting < ahead || self.state.wants_no_more() {
                return Ok(ahead.saturating_sub(self.state.waiting));
            }
        }
    }

    // Takes what was printed, and waits for something only if nothing was.
    fn gather(&mut self, room: u64) -> Result<Gathered, HqError> {
        let room = room.min(BATCH_LINES);
        let (mut count, mut bytes) = (0, 0);
        while count < room && bytes < BATCH_BYTES {
            let line = match self.pending.is_empty() {
                true => self.lines.recv().ok(),
                false => match self.lines.try_recv() {
                    Ok(line) => Some(line),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => None,
                },
            };
            match line {
                None => return Ok(Gathered::End(None)),
                Some(Line::Cut(line)) => return Ok(Gathered::End(Some(line))),
                Some(line) => {
                    let made = self.made_of(line)?;
                    if let Made::Task { entry, .. } = &made {
                        count += 1;
                        bytes += entry.len() + 32;
                    }
                    self.pending.push_back(made);
                }
            }
        }
        Ok(Gathered::More)
    }

    // Makes tasks of what is pending. A cursor is saved with the tasks before it, and only the last one of a request.
    fn send(&mut self) -> Result<(), HqError> {
        while !self.pending.is_empty() {
            let last = self.pending.iter().rposition(|made| matches!(made, Made::Cursor(_)));
            let of_request: Vec<Made> = match last {
                Some(last) => self.pending.drain(..=last).collect(),
                None => self.pending.drain(..).collect(),
            };
            let mut cursor = None;
            let mut submits: Vec<(Arc<TaskSpec>, Vec<ByteString>)> = Vec::new();
            for made in of_request {
                match made {
                    Made::Cursor(text) => cursor = Some(text),
                    Made::Task { entry, spec } => {
                        let spec = spec.unwrap_or_else(|| Arc::clone(&self.template.spec));
                        match submits.last_mut() {
                            Some((same, entries)) if *same == spec => entries.push(entry),
                            _ => submits.push((spec, vec![entry])),
                        }
                    }
                }
            }
            let mut submits: Vec<Submit> = submits
                .into_iter()
                .map(|(spec, entries)| self.submit(spec, &entries))
                .collect::<Result<_, _>>()?;
            while submits.len() > BATCH_SUBMITS {
                let rest = submits.split_off(BATCH_SUBMITS);
                self.add(std::mem::replace(&mut submits, rest), None, false)?;
            }
            self.add(submits, cursor, false)?;
        }
        Ok(())
    }

    fn submit(&self, spec: Arc<TaskSpec>, entries: &[ByteString]) -> Result<Submit, HqError> {
        let ids = TaskIds::Next(entries.len() as u32);
        let entries = Entries::new(entries.iter().map(Vec::as_slice));
        let entries = entries.ok_or_else(|| failed("the lines of one request are too long together"))?;
        Ok(Submit { target: Target::Open(self.state.job), ids, entries, spec, ..self.template.clone() })
    }

    fn add(
        &mut self,
        submits: Vec<Submit>,
        cursor: Option<ByteString>,
        is_last: bool,
    ) -> Result<(), HqError> {
        let order = FeedOrder::Add { at: self.state.made, submits, cursor, is_last };
        self.state = self.own.ask(self.session, order)?;
        Ok(())
    }

    fn made_of(&mut self, line: Line) -> Result<Made, HqError> {
        let made = match line {
            Line::Order(word, text) if word == "cursor" => return Ok(Made::Cursor(text)),
            Line::Order(word, _) => {
                return Err(failed(format!("a generator knows no `#hq {word}`, only `#hq cursor TEXT`")));
            }
            Line::TooLong(number) => {
                return Err(failed(format!(
                    "line {number} of the generator has more than {} bytes, and each becomes a variable of a program: write \
                     the rest into a file, and print its name",
                    lines::LINE_BYTES_MAX
                )));
            }
            Line::Broken(why) => {
                return Err(failed(format!("the output of the generator is not to be read: {why}")));
            }
            Line::Plain(line) | Line::Cut(line) if self.is_json => json_task(&line, &self.template.spec)
                .map_err(|why| failed(format!("line {} of the generator: {why}", self.taken + 1)))?,
            Line::Plain(entry) | Line::Cut(entry) => Made::Task { entry, spec: None },
        };
        self.taken += 1;
        Ok(made)
    }
}

enum Gathered {
    More,
    // The output has ended, perhaps with a line that has no end.
    End(Option<Vec<u8>>),
}

// A line as an object, with what differs from the other tasks.
fn json_task(line: &[u8], template: &Arc<TaskSpec>) -> Result<Made, String> {
    let shown = || String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("it is no JSON ({error}): `{}`", shown()))?;
    let Value::Object(object) = value else { return Err(format!("it is no object: `{}`", shown())) };
    let (mut entry, mut spec) = (None, TaskSpec::clone(template));
    for (key, value) in &object {
        match (key.as_str(), value) {
            ("entry", Value::String(text)) => entry = Some(text.clone().into_bytes()),
            ("entry", value) => entry = Some(value.to_string().into_bytes()),
            ("priority", value) => {
                let priority = value.as_i64().and_then(|priority| priority.try_into().ok());
                spec.priority =
                    priority.ok_or_else(|| format!("`priority` is no number that fits: {value}"))?;
            }
            ("expect", value) => {
                let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let parsed = value.as_str().and_then(|text| hq_model::duration::parse(text).ok());
                spec.expected =
                    Some(seconds.or(parsed).ok_or_else(|| format!("`expect` is no duration: {value}"))?);
            }
            ("locality", Value::String(text)) => spec.locality = Some(text.clone().into_bytes()),
            ("locality", value) => return Err(format!("`locality` is no text: {value}")),
            (other, _) => {
                return Err(format!("`{other}` is none of entry, priority, expect and locality"));
            }
        }
    }
    let entry = entry.ok_or_else(|| format!("it has no `entry`: `{}`", shown()))?;
    Ok(Made::Task { entry, spec: (spec != **template).then(|| Arc::new(spec)) })
}

/// How far ahead the generator is to be.
struct Pace {
    ahead: Ahead,
    since: Instant,
    ended: u64,
    // Tasks that end in a second.
    rate: f64,
}

impl Pace {
    fn ahead(&mut self, state: &FeedState) -> u64 {
        match self.ahead {
            Ahead::Tasks(count) => count,
            Ahead::Time(time) => {
                let passed = self.since.elapsed();
                if passed >= RATE_TIME {
                    self.rate = state.ended.saturating_sub(self.ended) as f64 / passed.as_secs_f64();
                    (self.since, self.ended) = (Instant::now(), state.ended);
                }
                let least = (2 * state.slots).max(2);
                ((self.rate * time.as_secs_f64()) as u64).clamp(least, AHEAD_MAX.max(least))
            }
        }
    }
}

/// Tells a generator that wants to know how many lines are wanted. It need not listen.
struct Wishes {
    sender: SyncSender<u64>,
    // Lines that were wanted so far.
    told: u64,
}

impl Wishes {
    fn start(mut stdin: ChildStdin) -> Result<Wishes, HqError> {
        let (sender, wishes) = sync_channel::<u64>(1);
        let body = move || {
            while let Ok(count) = wishes.recv() {
                if writeln!(stdin, "more {count}").and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("wishes".into()).spawn(body);
        thread.map_err(|error| failed(error.to_string()))?;
        Ok(Wishes { sender, told: 0 })
    }

    fn want(&mut self, room: u64, taken: u64) {
        let wanted = (taken + room).saturating_sub(self.told);
        if wanted > 0 {
            match self.sender.try_send(wanted) {
                Ok(()) => self.told += wanted,
                // It has not read what it was told before, or does not listen at all.
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_object_is_said() {
        let template = Arc::new(TaskSpec::default());
        let check = |line: &str| match json_task(line.as_bytes(), &template) {
            Ok(Made::Task { entry, spec }) => {
                let spec = spec.map(|spec| (spec.priority, spec.expected, spec.locality.clone()));
                format!("{} {spec:?}", String::from_utf8_lossy(&entry))
            }
            Ok(Made::Cursor(_)) => "a cursor".to_owned(),
            Err(error) => error,
        };
        assert_eq!(check(r#"{"entry": "a b"}"#), "a b None");
        assert_eq!(check(r#"{"entry": {"x": 1}}"#), r#"{"x":1} None"#);
        assert_eq!(
            check(r#"{"entry": "a", "priority": 3, "expect": 1.5, "locality": "k"}"#),
            "a Some((3, Some(1.5s), Some([107])))"
        );
        for (line, expected) in [
            ("[1]", "it is no object: `[1]`"),
            (r#"{"priority": 1}"#, r#"it has no `entry`: `{"priority": 1}`"#),
            (r#"{"entry": "a", "priority": "high"}"#, "`priority` is no number that fits: \"high\""),
            (r#"{"entry": "a", "expect": -1}"#, "`expect` is no duration: -1"),
            (r#"{"entry": "a", "cpu": 1}"#, "`cpu` is none of entry, priority, expect and locality"),
        ] {
            assert_eq!(check(line), expected, "{line}");
        }
        assert!(check("{").starts_with("it is no JSON (EOF"), "{}", check("{"));
    }
}
