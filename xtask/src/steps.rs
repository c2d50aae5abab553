//! Steps of a run: each prints its name, its result and its time; a summary ends the run.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{interrupt, leftovers, place::Place};

/// How a step ended.
pub(crate) enum Outcome {
    /// So many tests passed; with a remark, for instance on what was looked at.
    Passed(u32, String),
    /// It could not be done here, for this reason.
    LeftOut(String),
}

impl Outcome {
    /// It is one test, which passed, and there is nothing to add.
    pub(crate) fn passed() -> Outcome {
        Outcome::Passed(1, String::new())
    }
}

/// Why a step failed.
pub(crate) struct Failure {
    /// Tests that passed all the same.
    pub passed: u32,
    /// Tests that failed; at least one.
    pub failed: u32,
    /// What the reader must know.
    pub text: String,
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure { passed: 0, failed: 1, text }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::from(error.to_string())
    }
}

/// The result of a step.
pub(crate) type StepResult = Result<Outcome, Failure>;

/// A run of steps.
pub(crate) struct Steps<'a> {
    place: &'a Place,
    begun: Instant,
    passed: u32,
    failed: u32,
    failures: Vec<&'static str>,
    left_out: Vec<(&'static str, String)>,
}

impl<'a> Steps<'a> {
    /// A run that begins now.
    pub(crate) fn new(place: &'a Place) -> Steps<'a> {
        let (passed, failed) = (0, 0);
        Steps { place, begun: Instant::now(), passed, failed, failures: Vec::new(), left_out: Vec::new() }
    }

    /// How long the run has taken so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Where the output of a step's program is kept.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.place.target.join("xtask-logs").join(name.replace([' ', '/'], "-")).with_extension("log")
    }

    /// Does a step and prints its result. What it leaves in the private directories is a failure.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce(&Steps) -> StepResult) {
        if interrupt::happened() {
            return;
        }
        print!("{name:<28} ");
        let _ = io::stdout().flush();
        let begun = Instant::now();
        let result = work(self);
        let left = leftovers::check(self.place);
        let result = match result {
            Ok(Outcome::Passed(passed, _)) if !left.is_empty() => {
                Err(Failure { passed, failed: 1, text: left.join("\n") })
            }
            result => result,
        };
        let seconds = begun.elapsed().as_secs_f64();
        match result {
            Ok(Outcome::Passed(passed, remark)) => {
                self.passed += passed;
                let remark = if remark.is_empty() { remark } else { format!("  {remark}") };
                println!("ok {seconds:>8.1} s{remark}");
            }
            Ok(Outcome::LeftOut(reason)) => {
                println!("left out: {reason}");
                self.left_out.push((name, reason));
            }
            Err(failure) => {
                self.passed += failure.passed;
                self.failed += failure.failed.max(1);
                self.failures.push(name);
                println!("FAILED {seconds:>4.1} s");
                println!("{}", indent(&failure.text));
            }
        }
    }

    /// Prints the summary: its last line is `N passed, N failed`.
    ///
    /// # Errors
    /// When a step failed.
    pub(crate) fn finish(self) -> Result<(), String> {
        let minutes = self.begun.elapsed().as_secs_f64() / 60.0;
        println!("\nTook {minutes:.1} min.");
        for (name, reason) in &self.left_out {
            println!("Left out: {name} ({reason}).");
        }
        if !self.failures.is_empty() {
            println!("Failed: {}.", self.failures.join(", "));
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        let _ = io::stdout().flush();
        // The summary says it all, and stays the last line.
        if self.failed > 0 || interrupt::happened() { Err(String::new()) } else { Ok(()) }
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
