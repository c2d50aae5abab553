//! A test harness without threads, for what must be the first thing a process does.

#![allow(clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A test and its name.
pub(crate) type Test<S> = (&'static str, fn(&mut S));

/// Runs the tests that the command line asks for, one after the other, and ends the process.
pub(crate) fn main<S>(state: &mut S, tests: &[Test<S>]) -> ! {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut has = |flag: &str| {
        let before = words.len();
        words.retain(|word| word != flag);
        words.len() != before
    };
    let (is_list, is_exact, is_ignored) = (has("--list"), has("--exact"), has("--ignored"));
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let matches = |name: &str| {
        filters.is_empty()
            || filters.iter().any(|f| if is_exact { *f == name } else { name.contains(f.as_str()) })
    };
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| matches(name) && !is_ignored).collect();
    if is_list {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        std::process::exit(0);
    }
    println!("\nrunning {} tests", chosen.len());
    let mut failed = Vec::new();
    for (name, test) in &chosen {
        let is_ok = catch_unwind(AssertUnwindSafe(|| test(state))).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        if !is_ok {
            failed.push(name);
        }
    }
    println!("\n{} passed; {} failed: {failed:?}\n", chosen.len() - failed.len(), failed.len());
    std::process::exit(i32::from(!failed.is_empty()));
}
