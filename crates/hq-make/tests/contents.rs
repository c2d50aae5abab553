//! A model of mode `hash` as an oracle: random graphs, and round after round random changes of contents, times, scripts
//! and files. What runs is exactly what the model says: a run whose output is missing, whose text differs, or of which an
//! input holds something else than what it took the last time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use hq_make::{Digests, Facts, Files, Known, Rerun, RunState, Wanted, World};
use proptest::prelude::*;

mod common;

const SOURCES: usize = 4;

/// A run: its outputs, the runs before it and the sources of which it takes all files, and how many different things it can
/// write: few, so that often something comes out as it was.
#[derive(Clone, Debug)]
struct Rule {
    outputs: usize,
    before: BTreeSet<usize>,
    sources: BTreeSet<usize>,
    results: u64,
}

/// Something that happens between two calls.
#[derive(Clone, Debug)]
enum Change {
    /// A source holds this now.
    Source(usize, u8),
    /// A file is touched: a source, or an output of a run.
    Touch(usize),
    /// Somebody else writes this into an output.
    Output(usize, u8),
    /// An output is removed.
    Remove(usize),
    /// The script of a run is another one.
    Script(usize),
}

/// Files by name: what they hold, and when they were written.
#[derive(Default)]
struct Disk {
    files: RefCell<BTreeMap<String, (u64, i64)>>,
    now: RefCell<i64>,
}

impl Disk {
    fn write(&self, name: &str, content: u64) {
        *self.now.borrow_mut() += 1;
        self.files.borrow_mut().insert(name.to_owned(), (content, *self.now.borrow()));
    }

    fn content(&self, name: &str) -> Option<u64> {
        self.files.borrow().get(name).map(|(content, _)| *content)
    }

    fn touch(&self, name: &str) {
        if let Some(content) = self.content(name) {
            self.write(name, content);
        }
    }
}

fn name(path: &[u8]) -> String {
    String::from_utf8_lossy(path).trim_start_matches("/w/").to_owned()
}

impl Files for Disk {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        let facts = |(_, time): &(u64, i64)| Facts {
            is_dir: false,
            size: 8,
            mtime_ns: *time,
            ctime_ns: *time,
            inode: 0,
        };
        Ok(self.files.borrow().get(&name(path)).map(facts))
    }
}

impl Digests for Disk {
    fn digest(&self, path: &[u8]) -> io::Result<[u8; 32]> {
        Ok(digest(&self.content(&name(path)).ok_or(io::ErrorKind::NotFound)?.to_le_bytes()))
    }

    fn of_text(&self, text: &[u8]) -> [u8; 32] {
        digest(text)
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all[..8].copy_from_slice(&sum(bytes).to_le_bytes());
    all
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What a run took the last time: its script, and what its inputs held.
type Taken = (usize, Vec<Option<u64>>);

/// What the model remembers.
struct Model<'a> {
    rules: &'a [Rule],
    scripts: Vec<usize>,
    taken: Vec<Option<Taken>>,
}

impl Model<'_> {
    fn outputs(&self, run: usize) -> Vec<String> {
        (0..self.rules[run].outputs).map(|number| format!("f{run}_{number}")).collect()
    }

    fn inputs(&self, run: usize) -> Vec<String> {
        let made = self.rules[run].before.iter().flat_map(|before| self.outputs(*before));
        made.chain(self.rules[run].sources.iter().map(|source| format!("s{source}"))).collect()
    }

    fn takes(&self, run: usize, disk: &Disk) -> Taken {
        (self.scripts[run], self.inputs(run).iter().map(|input| disk.content(input)).collect())
    }

    // What the script of a run does.
    fn execute(&self, run: usize, disk: &Disk) {
        let (script, inputs) = self.takes(run, disk);
        let result = sum(format!("{run} {script} {inputs:?}").as_bytes()) % self.rules[run].results;
        self.outputs(run).iter().for_each(|output| disk.write(output, result));
    }

    // Does all that is due, and says which runs that were.
    fn make(&mut self, disk: &Disk) -> BTreeSet<usize> {
        let mut ran = BTreeSet::new();
        for run in 0..self.rules.len() {
            let takes = self.takes(run, disk);
            let is_whole = self.outputs(run).iter().all(|output| disk.content(output).is_some());
            if !is_whole || self.taken[run].as_ref() != Some(&takes) {
                self.execute(run, disk);
                ran.insert(run);
            }
            self.taken[run] = Some(takes);
        }
        ran
    }

    fn change(&mut self, change: &Change, disk: &Disk) {
        let outputs: Vec<String> = (0..self.rules.len()).flat_map(|run| self.outputs(run)).collect();
        let output = |number: usize| &outputs[number % outputs.len()];
        match change {
            Change::Source(source, content) => disk.write(&format!("s{source}"), u64::from(*content)),
            Change::Touch(number) if *number < SOURCES => disk.touch(&format!("s{number}")),
            Change::Touch(number) => disk.touch(output(*number)),
            Change::Output(number, content) => disk.write(output(*number), 1000 + u64::from(*content)),
            Change::Remove(number) => drop(disk.files.borrow_mut().remove(output(*number))),
            Change::Script(run) => self.scripts[run % self.rules.len()] += 1,
        }
    }
}

/// Makes all that our plan says, and gives the runs that were executed.
fn ours(model: &Model<'_>, disk: &Disk, known: &mut Known) -> BTreeSet<usize> {
    let (mut text, mut wanted) = (String::new(), Vec::new());
    for run in 0..model.rules.len() {
        let (inputs, outputs) = (model.inputs(run).join(", "), model.outputs(run));
        let script = model.scripts[run];
        let _ =
            writeln!(text, "run{run}: {{inp: [{inputs}], out: [{}], script: {script}}}", outputs.join(", "));
        wanted.extend(outputs);
    }
    let make = common::read(&text, &wanted);
    let wanted = Wanted { base: b"/w".to_vec(), rerun: Rerun::Hash, ..Wanted::default() };
    let plan = {
        let world = World { files: disk, digests: disk, python: None, known, now_ns: i64::MAX };
        hq_make::plan(&make, &wanted, &world).expect("a plan")
    };
    assert!(plan.missing.is_empty());
    known.take(&plan.adopted);
    let mut ran = BTreeSet::new();
    for run in plan.needed() {
        let number = run.rule["run".len()..].parse().expect("a number");
        let is_unchanged = matches!(run.state, RunState::Perhaps(_))
            && Known::is_unchanged(run, &plan, disk, disk).expect("readable");
        if !is_unchanged {
            model.execute(number, disk);
            ran.insert(number);
        }
        known.take(&Known::ended(run, &plan, disk, disk).expect("readable"));
    }
    ran
}

fn graphs() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (
        1usize..3,
        prop::collection::btree_set(0usize..10, 0..3),
        prop::collection::btree_set(0..SOURCES, 0..3),
        1u64..4,
    );
    prop::collection::vec(rule, 1..10).prop_map(|rules| {
        let rules = rules.into_iter().enumerate();
        rules
            .map(|(at, (outputs, before, sources, results))| Rule {
                outputs,
                before: before.into_iter().filter(|before| *before < at).collect(),
                sources,
                results,
            })
            .collect()
    })
}

fn changes() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let change = prop_oneof![
        3 => (0..SOURCES, 0u8..3).prop_map(|(source, content)| Change::Source(source, content)),
        2 => (0usize..20).prop_map(Change::Touch),
        1 => (0usize..20, 0u8..3).prop_map(|(output, content)| Change::Output(output, content)),
        1 => (0usize..20).prop_map(Change::Remove),
        1 => (0usize..10).prop_map(Change::Script),
    ];
    prop::collection::vec(prop::collection::vec(change, 0..4), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_runs_is_what_took_something_else_the_last_time(rules in graphs(), rounds in changes()) {
        let (disk, other) = (Disk::default(), Disk::default());
        let mut model = Model { rules: &rules, scripts: vec![0; rules.len()], taken: vec![None; rules.len()] };
        for source in 0..SOURCES {
            disk.write(&format!("s{source}"), 0);
            other.write(&format!("s{source}"), 0);
        }
        let mut known = Known::default();
        for (number, round) in [Vec::new()].iter().chain(&rounds).enumerate() {
            let scripts = model.scripts.clone();
            for change in round {
                model.change(change, &disk);
            }
            let after = std::mem::replace(&mut model.scripts, scripts);
            for change in round {
                model.change(change, &other);
            }
            prop_assert_eq!(&model.scripts, &after);
            let ran = ours(&model, &disk, &mut known);
            let expected = model.make(&other);
            prop_assert_eq!(ran, expected, "round {}", number);
            let contents = |disk: &Disk| -> Vec<(String, u64)> {
                disk.files.borrow().iter().map(|(name, (content, _))| (name.clone(), *content)).collect()
            };
            prop_assert_eq!(contents(&disk), contents(&other));
        }
    }
}
