//! `cargo xtask test`: everything that must hold, on a fresh machine.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::{Trouble, consoles, demo, leftovers, packages, steps, tidy};

/// Runs all steps, each even when one before failed, and sums up.
pub(crate) fn run(root: &Path, sim_seconds: u64) -> ExitCode {
    let before = leftovers::look();
    let mut left_out = Vec::new();
    let mut results = Results::default();
    results.step("packages", || {
        left_out = packages::install(root)?;
        Ok(())
    });
    results.step("format", || steps::cargo(root, &["fmt", "--all", "--check"]));
    results.step("tidy", || tidy::run(root));
    results.step("lints", || {
        let arguments =
            ["clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        steps::cargo(root, &arguments)
    });
    results.step("tests", || steps::cargo(root, &["test", "--quiet", "--locked", "--workspace"]));
    results.step("generated files", || crate::generate(root, true));
    results.step("console blocks", || consoles::run(root));
    results.step("demo", || demo::run(root));
    if left_out.is_empty() {
        results.step("example: bowtie2", || {
            let hq = steps::build_hq(root, false)?;
            let script = root.join("examples/bowtie2/run.sh");
            steps::run(root, "bash", &[script.as_os_str(), hq.as_os_str()])
        });
    }
    results.step("simulator", || {
        let arguments = ["--seconds", &sim_seconds.to_string(), "--seed", &commit(root)];
        steps::sim(root, &arguments.map(str::to_owned))
    });
    results.step("nothing left over", || leftovers::check(&before));
    for what in &left_out {
        println!("left out: {what}");
    }
    results.sum_up(left_out.len())
}

#[derive(Default)]
struct Results {
    passed: usize,
    failed: Vec<&'static str>,
}

impl Results {
    fn step(&mut self, name: &'static str, step: impl FnOnce() -> Result<(), Trouble>) {
        println!("== {name}");
        let begin = Instant::now();
        match step() {
            Ok(()) => {
                self.passed += 1;
                println!("== {name}: passed in {:.0} s", begin.elapsed().as_secs_f64());
            }
            Err(error) => {
                self.failed.push(name);
                println!("== {name}: FAILED after {:.0} s\n{error}", begin.elapsed().as_secs_f64());
            }
        }
    }

    fn sum_up(&self, skipped: usize) -> ExitCode {
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed.len());
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

// The commit is the simulator's first seed: each one explores something new, and can be repeated.
fn commit(root: &Path) -> String {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "0".into())
}
