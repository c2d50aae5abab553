//! `hq feed generate`: tasks of the lines that a command prints, read only as far as tasks are needed.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_client::limits::ARGUMENT_BYTES_MAX;
use hq_client::options::feed::Ahead;
use hq_client::options::values;
use hq_core::feed::{FeedOrder, FeedState};
use hq_model::job::{Target, TaskIds};
use hq_model::key::check_key;
use hq_model::request::{CPUS, GPUS, IO, check_variants};
use hq_model::{
    Amount, AmountRequest, ByteString, Entries, IdSet, Policy, Request, ResourceRequest, Submit, TaskId,
    TaskSpec, counted,
};
use serde_json::Value;

use super::lines::{self, Line, Lines};
use super::{Context, Done, Own, connect, end_of, failed, spawn};
use crate::cli::feed::GenerateArgs;
use crate::error::HqError;
use crate::report::Sentence;

/// An entry and the name of its variable have an end mark, and fit into what Linux takes as one variable.
const ENTRY_BYTES_MAX: usize = ARGUMENT_BYTES_MAX - "HQ_ENTRY=".len() - 1;
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
        .map_err(|error| failed(format!("the description of the tasks cannot be read: {error}")))?;
    let mut session = connect(context)?;
    let state = own.ask(&mut session, FeedOrder::Look)?;
    if state.wants_no_more() {
        if state.is_open {
            // Its last word was saved, and its end was not.
            own.ask(&mut session, last(&state))?;
        }
        return Done::ok(Sentence("no more tasks are needed".into()));
    }
    // What has a key is known by it.
    let behind = if state.is_keyed { 0 } else { state.made.saturating_sub(state.feed.cursor_at) };
    let generated = behind.to_string();
    let mut variables = vec![("HQ_GENERATED", generated.as_bytes())];
    if let Some(cursor) = &state.feed.cursor {
        variables.push(("HQ_CURSOR", cursor.as_slice()));
    }
    let mut child = spawn(&args.command, &variables, Stdio::piped())?;
    let (Some(out), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(failed("no pipes to the generator"));
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
        read: 0,
        has_keys: (state.made > 0).then_some(state.is_keyed),
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
    Done::ok(Sentence(counted(made, "task") + " made"))
}

fn last(state: &FeedState) -> FeedOrder {
    FeedOrder::Add { at: state.made, submits: Vec::new(), cursor: None, is_last: true }
}

struct Source<'a> {
    own: Own,
    session: &'a mut Session,
    lines: Lines,
    wishes: Wishes,
    pace: Pace,
    // Lines that were read and are not tasks yet.
    pending: VecDeque<Made>,
    // Lines read since its start, those of cursors not counted.
    taken: u64,
    // All of them.
    read: u64,
    is_json: bool,
    // Lines have keys, as far as that is known.
    has_keys: Option<bool>,
    template: Submit,
    state: FeedState,
}

// What came of a line.
#[derive(Debug, PartialEq)]
enum Made {
    Task(MadeTask),
    Cursor(ByteString),
}

#[derive(Debug, PartialEq)]
struct MadeTask {
    // Of the line, from 1.
    number: u64,
    entry: ByteString,
    key: Option<ByteString>,
    spec: Option<Arc<TaskSpec>>,
}

impl Source<'_> {
    // Passes over the lines that are tasks already, and compares them with those.
    fn skip(&mut self, count: u64) -> Result<(), HqError> {
        let first = self.state.feed.cursor_at;
        let (mut known, mut gone) = (Entries::default(), IdSet::new());
        let mut from = first;
        let mut number = first;
        while number < first + count {
            if number >= from + known.len() as u64 {
                from = number;
                let last = (number + COMPARED - 1).min(first + count - 1);
                let ids = IdSet::range(number as u32, last as u32);
                let state = self.own.ask(self.session, FeedOrder::Entries { ids })?;
                (known, gone) = (state.entries, state.entries_gone);
            }
            let Some(line) = self.lines.next() else {
                return Err(failed(format!(
                    "the generator printed {} after its restart, and {count} before it, which are tasks",
                    counted(number - first, "line")
                )));
            };
            let before = known.get((number - from) as usize).unwrap_or_default();
            match self.made_of(line)? {
                // What is not kept any more, as its task has finished, counts and no more.
                Made::Task(_) if gone.contains(TaskId(number as u32)) => number += 1,
                Made::Task(task) if task.entry == before => number += 1,
                Made::Task(MadeTask { entry, .. }) => {
                    return Err(failed(format!(
                        "line {} after its cursor is `{}` after the restart of the generator, but was `{}` before: \
                         it must print the same lines again, or save its position with `#hq cursor`",
                        number - first + 1,
                        String::from_utf8_lossy(&entry),
                        String::from_utf8_lossy(before),
                    )));
                }
                // It may say more often where it is than before. What is saved is the place before it, which is true still.
                Made::Cursor(_) => {}
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
                true => self.lines.next(),
                false => match self.lines.next_now() {
                    Ok(line) => Some(line),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => None,
                },
            };
            match line {
                None => return Ok(Gathered::End(None)),
                Some(Line::Cut(line)) => return Ok(Gathered::End(Some(line))),
                Some(line) => {
                    let made = self.made_of(line)?;
                    if let Made::Task(task) = &made {
                        count += 1;
                        bytes += task.entry.len() + task.key.as_ref().map_or(0, Vec::len) + 32;
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
            let cursors = self.pending.iter().rposition(|made| matches!(made, Made::Cursor(_)));
            let mut left = cursors.map_or(self.pending.len(), |last| last + 1);
            let (mut batch, mut cursor) = (Batch::default(), None);
            while left > 0 && batch.has_room() {
                match self.pending.pop_front() {
                    Some(Made::Task(task)) => batch.add(task, &self.template.spec).map_err(failed)?,
                    Some(Made::Cursor(text)) => cursor = Some(text),
                    None => break,
                }
                left -= 1;
            }
            let submits = self.submits(batch)?;
            self.add(submits, cursor, false)?;
        }
        Ok(())
    }

    fn submits(&self, batch: Batch) -> Result<Vec<Submit>, HqError> {
        let too_long = || failed("the lines of one request are too long in total");
        let of = |(spec, lines): (Arc<TaskSpec>, Alike)| {
            let entries = Entries::new(lines.iter().map(|(_, task)| task.entry.as_slice()));
            let keys = Entries::new(lines.iter().filter_map(|(_, task)| task.key.as_deref()));
            let keys = keys.ok_or_else(too_long)?;
            // The number of a line is the id of its task, unless they have keys.
            let ids = match keys.is_empty() {
                true => TaskIds::Given(
                    lines.iter().map(|(place, _)| TaskId(self.state.made as u32 + place)).collect(),
                ),
                false => TaskIds::Next(lines.len() as u32),
            };
            let (target, entries) = (Target::Open(self.state.job), entries.ok_or_else(too_long)?);
            Ok(Submit { target, ids, entries, keys, spec, ..self.template.clone() })
        };
        batch.lines.into_iter().map(of).collect()
    }

    fn add(
        &mut self,
        submits: Vec<Submit>,
        cursor: Option<ByteString>,
        is_last: bool,
    ) -> Result<(), HqError> {
        let order = FeedOrder::Add { at: self.state.made, submits, cursor, is_last };
        let answer = self.own.ask(self.session, order);
        self.state = answer.map_err(|error| match self.has_keys {
            // It may be told that a key is that of another task.
            Some(true) => HqError {
                text: format!("up to line {} of the generator: {}", self.read, error.text),
                ..error
            },
            _ => error,
        })?;
        Ok(())
    }

    fn made_of(&mut self, line: Line) -> Result<Made, HqError> {
        self.read += 1;
        let number = self.read;
        let made = match line {
            Line::Order(word, text) if word == "cursor" => return Ok(Made::Cursor(text)),
            Line::Order(word, _) => {
                return Err(failed(format!(
                    "line {number} of the generator: unknown directive `#hq {word}`; only `#hq cursor TEXT` is \
                     supported"
                )));
            }
            Line::TooLong(number) => {
                return Err(failed(format!(
                    "line {number} of the generator has more than {} bytes, but must fit into an environment \
                     variable: write the data to a file, and print its name",
                    lines::LINE_BYTES_MAX
                )));
            }
            Line::Broken(why) => {
                return Err(failed(format!("the output of the generator cannot be read: {why}")));
            }
            Line::Plain(line) | Line::Cut(line) if self.is_json => {
                let task = json_task(&line, &self.template.spec).and_then(|task| {
                    let has_key = task.key.is_some();
                    match (has_key, *self.has_keys.get_or_insert(has_key)) {
                        (true, false) => Err("it has a `key`, but earlier lines have none".to_owned()),
                        (false, true) => Err("it has no `key`, but earlier lines have one".to_owned()),
                        _ => Ok(task),
                    }
                });
                let wrong = |why| failed(format!("line {number} of the generator: {why}"));
                MadeTask { number, ..task.map_err(wrong)? }
            }
            Line::Plain(entry) | Line::Cut(entry) => MadeTask { number, entry, key: None, spec: None },
        };
        if made.entry.len() > ENTRY_BYTES_MAX {
            return Err(failed(format!(
                "line {number} of the generator: its entry has {} bytes, but at most {ENTRY_BYTES_MAX} fit into the \
                 variable HQ_ENTRY: write the data to a file, and print its name",
                made.entry.len()
            )));
        }
        self.taken += 1;
        Ok(Made::Task(made))
    }
}

// Lines that ask for the same, with their places in the batch.
type Alike = Vec<(u32, MadeTask)>;

// Lines that become tasks by one request: those that ask for the same go together.
#[derive(Default)]
struct Batch {
    lines: Vec<(Arc<TaskSpec>, Alike)>,
    count: u32,
    // Where tasks with these keys are in `lines`.
    keys: BTreeMap<ByteString, (usize, usize)>,
}

impl Batch {
    fn has_room(&self) -> bool {
        self.lines.len() < BATCH_SUBMITS
    }

    fn add(&mut self, mut task: MadeTask, template: &Arc<TaskSpec>) -> Result<(), String> {
        let spec = task.spec.take().unwrap_or_else(|| Arc::clone(template));
        if let Some((group, place)) = task.key.as_ref().and_then(|key| self.keys.get(key)) {
            let (known, lines) = &self.lines[*group];
            let first = &lines[*place].1;
            return match first.entry == task.entry && *known == spec {
                true => Ok(()),
                false => Err(format!(
                    "line {} of the generator has the same key `{}` as line {}, but describes a different task",
                    task.number,
                    String::from_utf8_lossy(task.key.as_deref().unwrap_or_default()),
                    first.number
                )),
            };
        }
        // Mostly the same as one of the last.
        let group = self.lines.iter().rposition(|(known, _)| Arc::ptr_eq(known, &spec) || *known == spec);
        let group = group.unwrap_or_else(|| {
            self.lines.push((spec, Vec::new()));
            self.lines.len() - 1
        });
        let lines = &mut self.lines[group].1;
        if let Some(key) = &task.key {
            self.keys.insert(key.clone(), (group, lines.len()));
        }
        lines.push((self.count, task));
        self.count += 1;
        Ok(())
    }
}

enum Gathered {
    More,
    // The output has ended, perhaps with a line that has no end.
    End(Option<Vec<u8>>),
}

// A line as an object, with what differs from the other tasks.
fn json_task(line: &[u8], template: &Arc<TaskSpec>) -> Result<MadeTask, String> {
    let shown = || String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("it is not valid JSON ({error}): `{}`", shown()))?;
    let Value::Object(object) = value else { return Err(format!("it is not an object: `{}`", shown())) };
    let (mut entry, mut key, mut spec) = (None, None, TaskSpec::clone(template));
    for (name, value) in &object {
        match (name.as_str(), value) {
            ("entry", Value::String(text)) => entry = Some(text.clone().into_bytes()),
            ("entry", value) => entry = Some(value.to_string().into_bytes()),
            ("key", Value::String(text)) => {
                check_key(text.as_bytes()).map_err(|error| format!("`key`: {error}"))?;
                key = Some(text.clone().into_bytes());
            }
            ("key", value) => return Err(format!("`key` is not a string: {value}")),
            ("kind", Value::String(kind)) if !object.contains_key("resources") => {
                let resources = resources_of_kind(kind).ok_or_else(|| {
                    format!(
                        "`kind` is `{kind}`, which is not cpu, gpu or io; use `resources` for other requests"
                    )
                })?;
                ask_for(&mut spec, resources)?;
            }
            ("kind", Value::String(_)) => {
                return Err(
                    "`kind` already determines the `resources` of a task: omit one of them".to_owned()
                );
            }
            ("kind", value) => return Err(format!("`kind` is not a string: {value}")),
            ("resources", Value::Object(resources)) => ask_for(&mut spec, resources_of(resources)?)?,
            ("resources", value) => {
                return Err(format!("`resources` is not an object, such as {{\"cpus\": 2}}: {value}"));
            }
            ("priority", value) => {
                let priority = value.as_i64().and_then(|priority| priority.try_into().ok());
                spec.priority =
                    priority.ok_or_else(|| format!("`priority` is not a number in range: {value}"))?;
            }
            ("expect", value) => {
                let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let parsed = value.as_str().and_then(|text| hq_model::duration::parse(text).ok());
                spec.expected =
                    Some(seconds.or(parsed).ok_or_else(|| format!("`expect` is not a duration: {value}"))?);
            }
            ("locality", Value::String(text)) => spec.locality = Some(text.clone().into_bytes()),
            ("locality", value) => return Err(format!("`locality` is not a string: {value}")),
            (other, _) => {
                return Err(format!(
                    "unknown field `{other}`; use entry, key, kind, resources, priority, expect or locality"
                ));
            }
        }
    }
    let entry = entry.ok_or_else(|| format!("it has no `entry`: `{}`", shown()))?;
    Ok(MadeTask { number: 0, entry, key, spec: (spec != **template).then(|| Arc::new(spec)) })
}

// One of what the kind is called after, and nothing else.
fn resources_of_kind(kind: &str) -> Option<Vec<ResourceRequest>> {
    let name = match kind {
        "cpu" => CPUS,
        "gpu" => GPUS,
        "io" => IO,
        _ => return None,
    };
    Some(vec![ResourceRequest {
        name: name.into(),
        amount: AmountRequest::Some(Amount::whole(1), Policy::default()),
    }])
}

fn resources_of(resources: &serde_json::Map<String, Value>) -> Result<Vec<ResourceRequest>, String> {
    let one = |(name, amount): (&String, &Value)| {
        let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        values::resource(&format!("{name}={amount}"))
            .map_err(|error| format!("`resources`: {name} = {amount}: {error}"))
    };
    let mut resources: Vec<ResourceRequest> = resources.iter().map(one).collect::<Result<_, _>>()?;
    resources.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(resources)
}

fn ask_for(spec: &mut TaskSpec, resources: Vec<ResourceRequest>) -> Result<(), String> {
    let first = spec.requests.first().cloned().unwrap_or_default();
    if first.nodes > 0 || first.ranks > 0 {
        return Err("`kind` and `resources` are only for single-node tasks, but these use --nodes".to_owned());
    }
    spec.requests = vec![Request { resources, ..first }];
    check_variants(&spec.requests).map_err(|error| format!("`resources`: {error}"))
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
            Ok(MadeTask { entry, spec, .. }) => {
                let spec = spec.map(|spec| (spec.priority, spec.expected, spec.locality.clone()));
                format!("{} {spec:?}", String::from_utf8_lossy(&entry))
            }
            Err(error) => error,
        };
        assert_eq!(check(r#"{"entry": "a b"}"#), "a b None");
        assert_eq!(check(r#"{"entry": {"x": 1}}"#), r#"{"x":1} None"#);
        assert_eq!(
            check(r#"{"entry": "a", "priority": 3, "expect": 1.5, "locality": "k"}"#),
            "a Some((3, Some(1.5s), Some([107])))"
        );
        for (line, expected) in [
            ("[1]", "it is not an object: `[1]`"),
            (r#"{"priority": 1}"#, r#"it has no `entry`: `{"priority": 1}`"#),
            (r#"{"entry": "a", "priority": "high"}"#, "`priority` is not a number in range: \"high\""),
            (r#"{"entry": "a", "expect": -1}"#, "`expect` is not a duration: -1"),
            (
                r#"{"entry": "a", "cpu": 1}"#,
                "unknown field `cpu`; use entry, key, kind, resources, priority, expect or locality",
            ),
            (r#"{"entry": "a", "key": 7}"#, "`key` is not a string: 7"),
            (
                r#"{"entry": "a", "key": "7"}"#,
                "`key`: the key `7` begins with a digit like a task id; put a letter in front",
            ),
            (
                r#"{"entry": "a", "kind": "fpga"}"#,
                "`kind` is `fpga`, which is not cpu, gpu or io; use `resources` for other requests",
            ),
            (
                r#"{"entry": "a", "kind": "cpu", "resources": {"cpus": 1}}"#,
                "`kind` already determines the `resources` of a task: omit one of them",
            ),
            (r#"{"entry": "a", "resources": 3}"#, r#"`resources` is not an object, such as {"cpus": 2}: 3"#),
            (
                r#"{"entry": "a", "resources": {"cpus": 0}}"#,
                "`resources`: cpus = 0: Zero resources cannot be requested (`0`)",
            ),
        ] {
            assert_eq!(check(line), expected, "{line}");
        }
        assert!(check("{").starts_with("it is not valid JSON (EOF"), "{}", check("{"));
    }

    fn line(number: u64, text: &str) -> MadeTask {
        let template = Arc::new(TaskSpec::default());
        MadeTask { number, ..json_task(text.as_bytes(), &template).expect("a task") }
    }

    #[test]
    fn a_line_may_say_what_its_task_needs() {
        for (text, expected) in [
            (r#"{"entry": 1, "kind": "cpu"}"#, "cpus: 1"),
            (r#"{"entry": 1, "kind": "gpu"}"#, "gpus: 1"),
            (r#"{"entry": 1, "kind": "io"}"#, "io: 1"),
            (
                r#"{"entry": 1, "resources": {"cpus": "2 compact!", "gpus/nvidia": 0.5}}"#,
                "cpus: 2 compact!, gpus/nvidia: 0.5",
            ),
        ] {
            let spec = line(1, text).spec.expect("another one");
            assert_eq!(spec.requests[0].to_string(), expected);
        }
    }

    #[test]
    fn lines_that_ask_for_the_same_go_together_and_each_key_is_one_task() {
        let template = Arc::new(TaskSpec::default());
        let mut batch = Batch::default();
        for (number, kind) in ["gpu", "cpu", "gpu", "cpu"].into_iter().enumerate() {
            let task = line(number as u64, &format!(r#"{{"entry": {number}, "kind": "{kind}"}}"#));
            batch.add(task, &template).expect("added");
        }
        let places = |batch: &Batch| -> Vec<Vec<u32>> {
            batch.lines.iter().map(|(_, lines)| lines.iter().map(|(place, _)| *place).collect()).collect()
        };
        assert_eq!(places(&batch), [[0, 2], [1, 3]]);
        let mut batch = Batch::default();
        let mut add = |number, text: &str| batch.add(line(number, text), &template);
        add(1, r#"{"entry": "x", "key": "a"}"#).expect("new");
        add(2, r#"{"entry": "y", "key": "b"}"#).expect("new");
        add(3, r#"{"entry": "x", "key": "a"}"#).expect("there");
        let error = add(4, r#"{"entry": "z", "key": "b"}"#).expect_err("another");
        assert_eq!(
            error,
            "line 4 of the generator has the same key `b` as line 2, but describes a different task"
        );
        assert_eq!(places(&batch), [[0, 1]]);
    }
}
