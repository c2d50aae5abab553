//! GNU make as an oracle: for random graphs and random times of files, mode `mtime` runs exactly what GNU make runs.
//!
//! Where the two differ by design the comparison says the same thing to both: GNU make looks at each target of a group on
//! its own and in its own order, so all outputs are wanted, and who takes one output of a run takes all of them. It is
//! not asked with `-n`: where groups are concerned it looks at the old times again, as if nothing had run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use hq_make::{Digests, Facts, Files, Known, Rerun, Wanted, World};
use proptest::prelude::*;

mod common;

/// A run: how many outputs it has, and of which runs before it and of which sources it takes all files.
#[derive(Clone, Debug)]
struct Rule {
    outputs: usize,
    before: BTreeSet<usize>,
    sources: BTreeSet<usize>,
}

const SOURCES: usize = 4;

/// Files by name: their times; a file without one is missing.
type Times = BTreeMap<String, Option<u8>>;

struct Virtual(BTreeMap<Vec<u8>, i64>);

impl Files for Virtual {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        let facts = |time: &i64| Facts { is_dir: false, size: 0, mtime_ns: *time, ctime_ns: 0, inode: 0 };
        Ok(self.0.get(path).map(facts))
    }
}

impl Digests for Virtual {
    fn digest(&self, _: &[u8]) -> io::Result<[u8; 32]> {
        Err(io::Error::other("no content is asked for in mode mtime"))
    }

    fn of_text(&self, _: &[u8]) -> [u8; 32] {
        [0; 32]
    }
}

fn graphs() -> impl Strategy<Value = (Vec<Rule>, Vec<u8>)> {
    let rule = (
        1usize..3,
        prop::collection::btree_set(0usize..12, 0..3),
        prop::collection::btree_set(0..SOURCES, 0..3),
    );
    let rules = prop::collection::vec(rule, 1..12).prop_map(|rules| {
        let earlier =
            |(at, (outputs, before, sources)): (usize, (usize, BTreeSet<usize>, BTreeSet<usize>))| Rule {
                outputs,
                before: before.into_iter().filter(|before| *before < at).collect(),
                sources,
            };
        rules.into_iter().enumerate().map(earlier).collect::<Vec<_>>()
    });
    // Mostly there and in order, so that not everything runs in every case.
    (rules, prop::collection::vec(0u8..30, 40))
}

fn output(run: usize, number: usize) -> String {
    format!("f{run}_{number}")
}

fn inputs(rules: &[Rule], rule: &Rule) -> Vec<String> {
    let made = rule.before.iter().flat_map(|run| (0..rules[*run].outputs).map(|number| output(*run, number)));
    made.chain(rule.sources.iter().map(|source| format!("s{source}"))).collect()
}

// A source is as old as a draw says; an output mostly a little younger than its run's number asks for.
fn times(rules: &[Rule], draws: &[u8]) -> Times {
    let mut draws = draws.iter().copied().cycle();
    let mut draw = || draws.next().unwrap_or(0);
    let mut times = Times::new();
    for source in 0..SOURCES {
        let drawn = draw();
        times.insert(format!("s{source}"), Some(if drawn < 26 { 10 } else { drawn }));
    }
    for (run, rule) in rules.iter().enumerate() {
        for number in 0..rule.outputs {
            let time = match draw() {
                0 => None,
                drawn @ 1..4 => Some(drawn * 6),
                _ => Some(10 + run as u8),
            };
            times.insert(output(run, number), time);
        }
    }
    times
}

fn ours(rules: &[Rule], times: &Times) -> BTreeSet<usize> {
    let (mut text, mut wanted) = (String::new(), Vec::new());
    for (run, rule) in rules.iter().enumerate() {
        let outputs: Vec<String> = (0..rule.outputs).map(|number| output(run, number)).collect();
        let inputs = inputs(rules, rule).join(", ");
        let _ = writeln!(text, "run{run}: {{inp: [{inputs}], out: [{}], script: x}}", outputs.join(", "));
        wanted.extend(outputs);
    }
    let make = common::read(&text, &wanted);
    let path = |name: &String| format!("/w/{name}").into_bytes();
    let there = times.iter().filter_map(|(name, time)| time.map(|time| (path(name), i64::from(time))));
    let disk = Virtual(there.collect());
    let known = Known::default();
    let world = World { files: &disk, digests: &disk, python: None, known: &known, now_ns: i64::MAX };
    let wanted = Wanted { base: b"/w".to_vec(), rerun: Rerun::Mtime, ..Wanted::default() };
    let plan = hq_make::plan(&make, &wanted, &world).expect("a plan");
    assert!(plan.missing.is_empty());
    plan.needed().map(|run| run.rule["run".len()..].parse().expect("a number")).collect()
}

fn theirs(dir: &Path, rules: &[Rule], times: &Times) -> BTreeSet<usize> {
    let mut text = String::from(".PHONY: all\nall:");
    for (run, rule) in rules.iter().enumerate() {
        (0..rule.outputs).for_each(|number| text += &format!(" {}", output(run, number)));
    }
    for (run, rule) in rules.iter().enumerate() {
        let outputs: Vec<String> = (0..rule.outputs).map(|number| output(run, number)).collect();
        let _ = write!(
            text,
            "\n{0} &: {1}\n\t@echo run {run}; touch {0}\n",
            outputs.join(" "),
            inputs(rules, rule).join(" ")
        );
    }
    fs::write(dir.join("Makefile"), text).expect("a file");
    for (name, time) in times {
        let path = dir.join(name);
        match time {
            None => drop(fs::remove_file(&path)),
            Some(time) => {
                let file = fs::File::create(&path).expect("a file");
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + u64::from(*time));
                file.set_modified(time).expect("a time");
            }
        }
    }
    let output = Command::new("make")
        .args(["-r", "-R", "all"])
        .current_dir(dir)
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env("LC_ALL", "C")
        .output()
        .expect("GNU make is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let runs = text.lines().filter_map(|line| line.strip_prefix("run "));
    runs.map(|run| run.parse().expect("a number")).collect()
}

#[test]
fn what_runs_is_what_gnu_make_would_run() {
    let mut config = ProptestConfig::with_cases(200);
    // Shrinking would take minutes, and the graphs are small.
    config.max_shrink_iters = 100;
    config.failure_persistence = None;
    let mut sizes = BTreeSet::new();
    let sizes_seen = std::cell::RefCell::new(&mut sizes);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&graphs(), |(rules, draws)| {
        let dir = tempfile::tempdir().expect("a directory");
        let times = times(&rules, &draws);
        let ours = ours(&rules, &times);
        sizes_seen.borrow_mut().insert(ours.len());
        prop_assert_eq!(&ours, &theirs(dir.path(), &rules, &times), "{:?} {:?}", rules, times);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(sizes.len() > 5, "the graphs are too much alike: {sizes:?}");
}
