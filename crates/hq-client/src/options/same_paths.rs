//! Tasks of one submit whose paths come out as one file: they would overwrite what the others wrote.
//!
//! Paths that differ by the task's number need no look at tasks. Of those that differ by entries each is formed once, and a
//! hash of it is kept.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use hq_model::entry::is_of_entry;
use hq_model::object::ObjectTask;
use hq_model::pattern::Pattern;
use hq_model::{ByteString, Entries, Entry, IdSet, TaskSpec};

use super::filled::entry_number;

/// A path into which tasks write, with their working directory before it where it counts.
pub(super) struct Target {
    /// What users call it.
    pub(super) what: &'static str,
    /// As it was given.
    pub(super) given: ByteString,
    whole: ByteString,
    pattern: Pattern,
}

/// How the paths of many tasks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Differs {
    /// By the number of the task.
    ByTask,
    /// By its entry: perhaps.
    ByEntry,
    /// Not at all.
    Not,
}

impl Target {
    /// Where tasks print, what they leave behind, and where each gets an object of its own; each path once.
    pub(super) fn all(spec: &TaskSpec) -> Vec<Target> {
        let printed = [("stdout", &spec.stdout), ("stderr", &spec.stderr)];
        let printed = printed.into_iter().filter_map(|(what, sink)| Some((what, sink.path()?)));
        let printed = printed.map(|(what, path)| (what, path.as_slice()));
        let outputs = spec.outputs.iter().map(|path| ("output", path.as_slice()));
        let left = spec.output_objects.iter().map(|object| ("output-object", object.path.as_slice()));
        let of_others = spec.input_objects.iter().filter(|object| object.from.task == ObjectTask::Same);
        let taken = of_others.map(|object| ("input-object", object.path()));
        let mut found: Vec<Target> = Vec::new();
        for (what, path) in printed.chain(outputs).chain(left).chain(taken) {
            let target = Target::new(what, path, &spec.cwd);
            // What a task prints on both channels into one file is meant so.
            if what == "stderr" || found.iter().all(|other| other.whole != target.whole) {
                found.push(target);
            }
        }
        found
    }

    fn new(what: &'static str, path: &[u8], cwd: &[u8]) -> Target {
        let of_cwd = |name: &str| (name == "CWD").then(|| cwd.to_vec());
        let is_absolute = [&b"/"[..], b"%{SUBMIT_DIR}", b"%{CWD}"].iter().any(|root| path.starts_with(root));
        let whole = if is_absolute { path.to_vec() } else { [b"%{CWD}/", path].concat() };
        let pattern = Pattern::new(&whole).partial(&of_cwd);
        Target { what, given: path.to_vec(), whole, pattern }
    }

    /// How it differs from task to task.
    pub(super) fn differs(&self) -> Differs {
        if self.pattern.has("TASK_ID") {
            Differs::ByTask
        } else if self.pattern.names().any(is_of_entry) {
            Differs::ByEntry
        } else {
            Differs::Not
        }
    }

    fn of_entry(&self, text: &[u8], out: &mut ByteString) {
        out.clear();
        let entry = Entry::new(text);
        self.pattern.expand_into(out, &|name, out| entry.append(name, out));
    }

    // The first two entries that make one path of it.
    fn same(&self, entries: &Entries) -> Option<(usize, usize)> {
        let mut seen: HashMap<u64, u32> = HashMap::with_capacity(entries.len());
        let (mut path, mut other) = (ByteString::new(), ByteString::new());
        for (i, text) in entries.iter().enumerate() {
            self.of_entry(text, &mut path);
            let Some(before) = seen.insert(hash(&path), u32::try_from(i).ok()?) else { continue };
            self.of_entry(entries.get(before as usize)?, &mut other);
            if path == other {
                return Some((before as usize, i));
            }
        }
        None
    }
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Warns of entries that make one path for several tasks; entries have their numbers in a file, if there is one.
pub(super) fn of_entries(spec: &TaskSpec, entries: &Entries, numbers: Option<&IdSet>) -> Vec<String> {
    if entries.len() < 2 {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for target in Target::all(spec) {
        let same = if target.differs() == Differs::ByEntry { target.same(entries) } else { None };
        let Some((first, second)) = same else { continue };
        let mut path = ByteString::new();
        target.of_entry(entries.get(first).unwrap_or_default(), &mut path);
        warnings.push(warning(
            &target,
            &path,
            &format!("entries {} and {}", entry_number(numbers, first), entry_number(numbers, second)),
        ));
    }
    warnings
}

/// The paths of the tables of a job file, each of which is one task.
#[derive(Default)]
pub(super) struct OfTables {
    seen: HashMap<ByteString, String>,
}

impl OfTables {
    /// Warns when a table before has one of its paths. `table` is what users call it.
    pub(super) fn note(&mut self, spec: &TaskSpec, table: &str) -> Option<String> {
        let mut found = None;
        for target in Target::all(spec).into_iter().filter(|target| target.differs() != Differs::ByTask) {
            let mut whole = ByteString::new();
            target.pattern.expand_into(&mut whole, &|_, _| false);
            let before = self.seen.entry(whole).or_insert_with(|| table.to_owned());
            if before != table && found.is_none() {
                found = Some(warning(&target, &target.given, &format!("{before} and {table}")));
            }
        }
        found
    }
}

fn warning(target: &Target, path: &[u8], who: &str) -> String {
    let (what, path) = (target.what, String::from_utf8_lossy(path));
    let path = path.strip_prefix("./").unwrap_or(&path);
    format!(
        "several tasks have the same `{what}` path and would overwrite what the others write, for example {who}: {path}. Put \
         %{{TASK_ID}} into the path"
    )
}

#[cfg(test)]
mod tests {
    use hq_model::{OnClose, OutputSink};

    use super::*;

    fn spec(cwd: &str, stdout: &str, output: &str) -> TaskSpec {
        TaskSpec {
            cwd: cwd.into(),
            stdout: OutputSink::File { path: stdout.into(), on_close: OnClose::Keep },
            outputs: vec![output.into()],
            ..TaskSpec::default()
        }
    }

    fn told(spec: &TaskSpec, entries: &[&str]) -> String {
        let entries = Entries::new(entries.iter().map(|entry| entry.as_bytes())).expect("few");
        of_entries(spec, &entries, None).join("\n")
    }

    #[test]
    fn entries_that_make_one_path_are_told_once_with_an_example() {
        let same = spec("d", "o/%{ENTRY}", "%{ENTRY_2}-%{JOB_ID}");
        insta::assert_snapshot!(told(&same, &["a 1", "b 2", "c 1", "c 2", "b 2"]));
        assert_eq!(told(&same, &["a 1", "b 2"]), "");
        for different in [
            spec("d", "%{TASK_ID}-%{ENTRY}", "%{CWD}/%{TASK_ID}"),
            spec("%{TASK_ID}", "%{ENTRY}", "%{CWD}/%{ENTRY}"),
            spec("%{ENTRY}", "x", "%{CWD}/x"),
        ] {
            assert_eq!(told(&different, &["a", "b"]), "");
        }
        assert_eq!(
            told(&spec("%{TASK_ID}", "%{ENTRY}", "y"), &["a", "a"]),
            "",
            "each has a directory of its own"
        );
        assert!(told(&spec("%{ENTRY}", "x", "/%{TASK_ID}"), &["a", "a"]).contains("entries 0 and 1: a/x"));
    }

    #[test]
    fn many_entries_are_looked_through_once() {
        let numbers: Vec<String> = (0..100_000).map(|i| (i % 99_999).to_string()).collect();
        let entries: Vec<&str> = numbers.iter().map(String::as_str).collect();
        assert!(told(&spec("/w", "%{ENTRY}.out", "%{TASK_ID}"), &entries).contains("0 and 99999: /w/0.out"));
    }

    #[test]
    fn objects_of_several_tasks_at_one_path_are_told() {
        let with = |left: &str, taken: &str| TaskSpec {
            output_objects: vec![left.parse().expect(left)],
            input_objects: vec![taken.parse().expect(taken)],
            ..spec("d", "%{TASK_ID}", "%{TASK_ID}")
        };
        let told = |spec: &TaskSpec| {
            let not = Target::all(spec).into_iter().filter(|target| target.differs() == Differs::Not);
            not.map(|target| target.what).collect::<Vec<_>>()
        };
        assert_eq!(told(&with("a=a", "b=1@%{TASK_ID}:x")), ["output-object", "input-object"]);
        assert!(told(&with("a=a-%{TASK_ID}", "b=1@%{TASK_ID}:x->%{TASK_ID}/b")).is_empty());
        assert_eq!(told(&with("a=a-%{TASK_ID}", "b=1@7:x")), [""; 0], "all take the same");
    }

    #[test]
    fn tables_with_one_path_are_told() {
        let mut tables = OfTables::default();
        assert_eq!(tables.note(&spec("d", "o", "p"), "task 1"), None);
        assert_eq!(tables.note(&spec("e", "o", "p"), "task 2"), None, "in another directory");
        assert_eq!(tables.note(&spec("d", "%{TASK_ID}", "/x-%{JOB_ID}"), "task 3"), None);
        let told = tables.note(&spec("d", "o", "q"), "task with id 9").expect("as the first one");
        assert!(told.contains("task 1 and task with id 9: o."), "{told}");
    }
}
