//! How long plans take: prints figures for 100 000 runs of 20 rules, and for 100 000 files that are there.
//!
//!     cargo run --release --package hq-make --example plan_speed
#![allow(clippy::print_stdout)]

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::time::Instant;

use hq_make::picture::{GraphAs, GraphOf};
use hq_make::{Digests, Facts, Files, Force, Known, Plan, Rerun, Source, Wanted, World};

/// Runs of each rule.
const RUNS: usize = 5_000;
const RULES: usize = 20;

struct Disk {
    files: HashSet<Vec<u8>>,
    is_full: bool,
}

impl Files for Disk {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        let facts = Facts { is_dir: false, size: 1, mtime_ns: 1, ctime_ns: 1, inode: 1 };
        Ok((self.is_full || self.files.contains(path)).then_some(facts))
    }
}

impl Digests for Disk {
    fn digest(&self, path: &[u8]) -> io::Result<[u8; 32]> {
        Ok(self.of_text(path))
    }

    fn of_text(&self, text: &[u8]) -> [u8; 32] {
        let mut digest = [0; 32];
        text.iter().enumerate().for_each(|(at, byte)| digest[at % 32] ^= *byte);
        digest
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    println!("{what:<64} {:>9.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() {
    let mut rules = String::new();
    for rule in 0..RULES {
        let inputs = match rule {
            0 => "a: source.dat".to_owned(),
            _ => format!("a: step{}_{{n}}.dat", rule - 1),
        };
        let _ = write!(
            rules,
            "step{rule}:\n  resource: {{time: 5, cpu: 4}}\n  inp: {{{inputs}}}\n  out: {{b: step{rule}_{{n}}.dat, log: step{rule}_{{n}}.txt}}\n  \
             setup: module load something\n  script: |\n    {{mpirun}} compute --n {{n}} --frames {{frames}} {{inp[a]}} > {{out[b]}} 2> {{out[log]}}\n"
        );
    }
    let last = RULES - 1;
    let targets = format!(
        "t:\n  dirname: deep/directory\n  frames: 120\n  loop: {{n: 'range({RUNS})', out: ['step{last}_{{n}}.dat']}}\n"
    );
    let all = format!(
        "t:\n  dirname: deep/directory\n  frames: 120\n  loop: {{r: 'range({RULES})', n: 'range({RUNS})', out: ['step{{r}}_{{n}}.dat']}}\n"
    );
    let read = |targets: &str| {
        hq_make::read(
            Source { name: "rules.yaml", text: rules.as_bytes() },
            Source { name: "targets.yaml", text: targets.as_bytes() },
        )
        .expect("good files")
    };
    let make = timed("reading rules and targets", || read(&targets));
    let make_all = read(&all);
    let plan_with = |make: &hq_make::Makefile, is_full: bool, rerun: Rerun, known: &Known| -> Plan {
        let disk = Disk { files: [b"/w/deep/directory/source.dat".to_vec()].into(), is_full };
        let world = World { files: &disk, digests: &disk, python: None, known, now_ns: 10 };
        let wanted = Wanted { base: b"/w".to_vec(), rerun, force: Force::None, ..Wanted::default() };
        hq_make::plan(make, &wanted, &world).expect("a plan")
    };
    let none = Known::default();
    let plan =
        timed("mode exists, nothing there: 100 000 runs", || plan_with(&make, false, Rerun::Exists, &none));
    println!("  {} runs, {} files", plan.needed().count(), plan.files.len());
    let noop = timed("mode exists, all 100 000 wanted files there", || {
        plan_with(&make_all, true, Rerun::Exists, &none)
    });
    println!("  {} runs looked at", noop.runs.len());
    let adopted =
        timed("mode mtime, all there, nothing known", || plan_with(&make_all, true, Rerun::Mtime, &none));
    let mut text = hq_make::known::HEADER.as_bytes().to_vec();
    text.extend_from_slice(&adopted.adopted);
    let known = timed("reading what is known of 100 000 runs", || Known::read(&text));
    timed("mode mtime, all there and known", || plan_with(&make_all, true, Rerun::Mtime, &known));
    timed("mode hash, all there, nothing known", || plan_with(&make_all, true, Rerun::Hash, &none));
    timed("priorities by cost, 5 000 chains of 20", || {
        hq_make::order::cost(&plan, hq_make::order::Node { cpus: 64, gpus: 0 })
    });
    timed("explanation", || hq_make::explain(&plan, &[]).len());
    timed("summary", || hq_make::summary::summary(&plan).to_string().len());
    timed("picture of all runs for Graphviz", || {
        hq_make::picture::graph(&plan, GraphOf::Runs, GraphAs::Dot, &[]).len()
    });
    timed("picture of rules", || hq_make::picture::graph(&plan, GraphOf::Runs, GraphAs::Svg, &[]).len());

    let fan = "sim: {resource: {time: 60}, inp: [p], out: ['s_{n}'], script: x}\n\
               an: {resource: {time: 2}, inp: ['s_{n}'], out: ['a_{n}_{m}'], script: x}\n\
               all: {resource: {time: 1}, loop: {n: 'range(1000)', m: 'range(99)', inp: ['a_{n}_{m}']}, out: [end], script: x}\n";
    let make = hq_make::read(
        Source { name: "rules.yaml", text: fan.as_bytes() },
        Source { name: "targets.yaml", text: b"t: {out: [end]}\n" },
    )
    .expect("good files");
    let disk = Disk { files: [b"/w/p".to_vec()].into(), is_full: false };
    let world = World { files: &disk, digests: &disk, python: None, known: &none, now_ns: 10 };
    let wanted = Wanted { base: b"/w".to_vec(), ..Wanted::default() };
    let plan = timed("fan-in: 1 000 simulations, 99 analyses each, one end", || {
        hq_make::plan(&make, &wanted, &world).expect("a plan")
    });
    println!("  {} runs", plan.needed().count());
    timed("priorities by cost, of these", || {
        hq_make::order::cost(&plan, hq_make::order::Node { cpus: 64, gpus: 0 })
    });
}
