//! Runs a command that reads with little memory, and counts what it prints while it comes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::cluster::Cluster;

/// Memory for data that a command may take whatever it lists, in KiB: over it, it fails.
const DATA_MAX: u32 = 96 << 10;
/// As [`DATA_MAX`], for readers of a journal: they rebuild what the server had, entries and keys of all tasks included, and
/// a report sorts up to two million executions.
const JOURNAL_DATA_MAX: u32 = 768 << 10;
/// And for so many tasks of each job 1 MiB more: there are fifteen jobs or so, and accounts keep some 80 bytes of each
/// execution.
const TASKS_IN_MIB: u32 = 700;
/// Longer texts are not kept.
const TEXT_MAX: usize = 1 << 20;
/// Further rows of tables are not kept.
const CELLS_MAX: usize = 100_000;
/// Commands that a table shows: those that took longest.
const SLOWEST: usize = 40;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Cli,
    Json,
    Quiet,
}

impl Mode {
    pub(super) const ALL: [Mode; 3] = [Mode::Cli, Mode::Json, Mode::Quiet];

    fn word(self) -> &'static str {
        match self {
            Mode::Cli => "cli",
            Mode::Json => "json",
            Mode::Quiet => "quiet",
        }
    }
}

/// What a command is to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Anything, perhaps with a table of tasks.
    Text,
    /// One JSON document, perhaps with tasks.
    Document,
    /// One JSON document with many numbers.
    Numbers,
    /// Lines, too many to keep.
    Lines,
    /// A JSON document in each line.
    Documents,
    /// So many lines; then the command is killed, which would go on.
    First(u64),
}

/// Number of tasks in each state, and the sum of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) states: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    fn add(&mut self, id: u32, state: &str) {
        if !self.states.contains_key(state) {
            self.states.insert(state.to_owned(), (0, 0));
        }
        if let Some((count, sum)) = self.states.get_mut(state) {
            (*count, *sum) = (*count + 1, *sum + u64::from(id));
        }
    }

    pub(super) fn add_all(&mut self, other: &Tally) {
        for (state, (count, sum)) in &other.states {
            let of = self.states.entry(state.clone()).or_default();
            (of.0, of.1) = (of.0 + count, of.1 + sum);
        }
    }

    /// Tasks in all states.
    pub(super) fn count(&self) -> u64 {
        self.states.values().map(|(count, _)| count).sum()
    }
}

/// What a command printed, and how it ended. What is not as it should be is noted.
pub(super) struct Printed<'a> {
    reader: &'a Reader<'a>,
    what: String,
    exit: i32,
    errors: String,
    found: Found,
}

#[derive(Default)]
struct Found {
    // The beginning.
    text: String,
    tally: Tally,
    // Lines or numbers.
    count: u64,
    // The second cells of rows, by their first ones.
    cells: Vec<(String, String)>,
}

impl Printed<'_> {
    fn note(&self, fault: &str) {
        let begin: String = self.found.text.chars().take(300).collect();
        let fault = format!("hq {}: {fault} (exit {})\n{begin}{}", self.what, self.exit, self.errors);
        self.reader.faults.borrow_mut().push(fault);
    }

    fn same<T: PartialEq + fmt::Debug>(self, what: &str, found: &T, expected: &T) -> Self {
        if found != expected {
            self.note(&format!("{what} {found:?}, expected {expected:?}"));
        }
        self
    }

    pub(super) fn text(self) -> String {
        self.found.text
    }

    /// It ended like that.
    pub(super) fn ends_with(self, exit: i32) -> Self {
        let found = self.exit;
        self.same("the exit status is", &found, &exit)
    }

    /// This was said beside the results.
    pub(super) fn warns(self, text: &str) -> Self {
        let is_said = self.errors.contains(text);
        self.same(text, &is_said, &true)
    }

    /// These tasks were listed.
    pub(super) fn has(mut self, expected: &Tally) {
        let tally = std::mem::take(&mut self.found.tally);
        self.same("it lists", &tally, expected);
    }

    /// This was printed.
    pub(super) fn says(self, expected: &str) {
        let kept = &expected[..expected.floor_char_boundary(TEXT_MAX)];
        let is_same = self.found.text == kept;
        self.same("what it says is right:", &is_same, &true);
    }

    /// All of this was printed.
    pub(super) fn mentions(self, words: &[String]) {
        let missing: Vec<String> =
            words.iter().filter(|word| !self.found.text.contains(*word)).cloned().collect();
        self.same("it does not mention", &missing, &Vec::new());
    }

    /// So many lines or numbers were printed.
    pub(super) fn counts(self, expected: u64) {
        let count = self.found.count;
        self.same("it counts", &count, &expected);
    }

    /// At least so many lines were printed.
    pub(super) fn counts_at_least(self, least: u64) {
        let count = self.found.count;
        self.same("it counts", &count, &count.max(least));
    }

    /// Rows of that name have these values.
    pub(super) fn names(self, name: &str, expected: impl IntoIterator<Item = u32>) {
        let rows = self.found.cells.iter().filter(|(first, _)| first == name);
        let values: Vec<String> = rows.map(|(_, second)| second.clone()).collect();
        let expected: Vec<String> = expected.into_iter().map(|value| value.to_string()).collect();
        self.same(name, &values, &expected);
    }
}

/// Runs commands on a cluster.
pub(super) struct Reader<'a> {
    cluster: &'a Cluster,
    // Tasks of its jobs.
    size: u32,
    taken: RefCell<Vec<(Duration, String)>>,
    faults: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(cluster: &'a Cluster, size: u32) -> Reader<'a> {
        Reader { cluster, size, taken: RefCell::default(), faults: RefCell::default() }
    }

    /// Runs a command about jobs of that kind that must succeed.
    pub(super) fn ok(&'a self, kind: &str, mode: Mode, line: &str) -> Printed<'a> {
        let contents = if mode == Mode::Json { Contents::Document } else { Contents::Text };
        self.run(kind, mode, line, contents).ends_with(0)
    }

    /// Runs a command about jobs of that kind.
    pub(super) fn run(&'a self, kind: &str, mode: Mode, line: &str, contents: Contents) -> Printed<'a> {
        let words = shlex::split(line).expect("words");
        let hq =
            self.cluster.command(["--output-mode", mode.word()].into_iter().map(str::to_owned).chain(words));
        let of_journal = JOURNAL_DATA_MAX + self.size / TASKS_IN_MIB * 1024;
        let data_max = if line.starts_with("journal") { of_journal } else { DATA_MAX };
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -d $0 && exec \"$@\"", &data_max.to_string()]).arg(hq.get_program());
        command.args(hq.get_args()).current_dir(self.cluster.work()).stdin(Stdio::null());
        for (name, value) in hq.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let begin = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hq can be run");
        let stdout = child.stdout.take().expect("a pipe");
        let mut stderr = child.stderr.take().expect("a pipe");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let mut found = Found::default();
        let read = read(BufReader::with_capacity(1 << 20, stdout), contents, &mut found);
        if let Contents::First(_) = contents {
            child.kill().expect("a process of its own");
        }
        let errors = errors.join().expect("a thread").expect("text");
        let exit = child.wait().expect("hq ends").code().unwrap_or(-1);
        let what = format!("{} ({}, {kind})", line.chars().take(100).collect::<String>(), mode.word());
        self.taken.borrow_mut().push((begin.elapsed(), what.clone()));
        let printed = Printed { reader: self, what, exit, errors, found };
        if let Err(error) = read {
            printed.note(&format!("{contents:?} expected: {error}"));
        }
        printed
    }

    /// What was not as it should be.
    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.borrow().clone()
    }

    /// How many commands were run.
    pub(super) fn count(&self) -> usize {
        self.taken.borrow().len()
    }

    /// The commands that took longest.
    pub(super) fn table(&self) -> String {
        let mut taken = self.taken.borrow().clone();
        taken.sort_by(|a, b| b.cmp(a));
        let mut table = String::new();
        for (time, what) in taken.iter().take(SLOWEST) {
            let _ = writeln!(table, "{:8.2} s  hq {what}", time.as_secs_f64());
        }
        table
    }
}

fn read(mut out: impl BufRead, contents: Contents, found: &mut Found) -> Result<(), String> {
    match contents {
        Contents::Text => {
            let mut line = String::new();
            while out.read_line(&mut line).map_err(|error| error.to_string())? > 0 {
                count_row(&line, &mut found.tally);
                if found.text.len() < TEXT_MAX {
                    found.text += &line[..line.floor_char_boundary(TEXT_MAX - found.text.len())];
                }
                line.clear();
            }
            Ok(())
        }
        Contents::Document => {
            let mut kept = Keeping { inner: out, kept: Vec::new() };
            let mut json = serde_json::Deserializer::from_reader(&mut kept);
            let read = Tasks(&mut found.tally).deserialize(&mut json).and_then(|()| json.end());
            found.text = String::from_utf8_lossy(&kept.kept).into_owned();
            read.map_err(|error| error.to_string())
        }
        Contents::Numbers => {
            let mut json = serde_json::Deserializer::from_reader(out);
            let read = Numbers(&mut found.count).deserialize(&mut json).and_then(|()| json.end());
            read.map_err(|error| error.to_string())
        }
        Contents::Lines | Contents::Documents | Contents::First(_) => {
            let most = if let Contents::First(count) = contents { count as usize } else { usize::MAX };
            for line in out.lines().take(most) {
                let line = line.map_err(|error| error.to_string())?;
                found.count += 1;
                if matches!(contents, Contents::Documents | Contents::First(_)) {
                    serde_json::from_str::<IgnoredAny>(&line).map_err(|error| format!("{error}: {line}"))?;
                } else if found.cells.len() < CELLS_MAX {
                    let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
                    found.cells.extend(cells.next().zip(cells.next()));
                }
            }
            Ok(())
        }
    }
}

// A row of a table whose first column is a task and whose second is its state.
fn count_row(line: &str, tally: &mut Tally) {
    let mut cells = line.strip_prefix("| ").into_iter().flat_map(|row| row.split('|')).map(str::trim);
    if let (Some(Ok(id)), Some(state)) = (cells.next().map(str::parse), cells.next()) {
        tally.add(id, &state.to_lowercase());
    }
}

// Keeps the beginning of what is read.
struct Keeping<R> {
    inner: R,
    kept: Vec<u8>,
}

impl<R: Read> Read for Keeping<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if self.kept.len() < TEXT_MAX {
            self.kept.extend_from_slice(&buffer[..count]);
        }
        Ok(count)
    }
}

// Lists of tasks, wherever they are: below the ids of jobs, in `tasks`, or as the whole document.
struct Tasks<'a>(&'a mut Tally);

impl<'de> DeserializeSeed<'de> for Tasks<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tasks<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut id, mut state) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => id = map.next_value::<serde_json::Value>()?.as_u64(),
                "state" => state = map.next_value::<serde_json::Value>()?.as_str().map(str::to_owned),
                // What is said of a job is no task.
                "info" | "submits" => drop(map.next_value::<IgnoredAny>()?),
                _ => map.next_value_seed(Tasks(self.0))?,
            }
        }
        if let (Some(id), Some(state)) = (id, state) {
            self.0.add(u32::try_from(id).unwrap_or(u32::MAX), &state);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Tasks(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

// Counts the numbers below the ids of jobs.
struct Numbers<'a>(&'a mut u64);

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ids of tasks")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "schema_version" {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Numbers(self.0))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<u32>()?.is_some() {
            *self.0 += 1;
        }
        Ok(())
    }
}
