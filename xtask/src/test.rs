//! `cargo xtask test`: everything that must hold, in the order in which it is cheapest to know.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::place::Place;
use crate::steps::{Failure, Outcome, StepResult, Steps};
use crate::{docs, examples, exec, generated, leftovers, packages, python, sim, tidy};

/// How long building everything may take.
const CARGO_LIMIT: Duration = Duration::from_secs(1200);
/// How long the tests may take, building included, and how long they may print nothing: the longest test takes about
/// a minute, the longest build of one crate less than three.
const TESTS_LIMITS: exec::Limits =
    exec::Limits { total: Duration::from_secs(2400), silence: Some(Duration::from_secs(600)) };
/// cargo-deny is built only if the run is younger than this: it takes up to four minutes.
const INSTALL_DENY_BEFORE: Duration = Duration::from_secs(12 * 60);
/// The release of cargo-deny that is built.
const DENY_VERSION: &str = "^0.19";

/// Options of the chore.
#[derive(Args)]
pub(crate) struct Options {
    /// Leave out what takes minutes: the simulator's exploration and the building of cargo-deny
    #[arg(long)]
    quick: bool,
    /// Only the steps whose names contain one of these
    steps: Vec<String>,
}

/// Runs all steps and prints a summary; its last line is `N passed, N failed`.
///
/// # Errors
/// When a step fails.
pub(crate) fn run(place: &Place, options: &Options) -> Result<(), String> {
    let changes_before = leftovers::changes(place);
    let mut steps = Steps::new(place);
    let wanted =
        |name: &str| options.steps.is_empty() || options.steps.iter().any(|part| name.contains(part));
    for (name, work) in STEPS {
        let is_slow = matches!(name, "simulator" | "cargo-deny");
        if wanted(name) && !(options.quick && is_slow) {
            let log = steps.log(name);
            steps.step(name, |steps| work(place, &log, steps));
        }
    }
    steps.step("nothing left behind", |_| nothing_left(place, changes_before.as_deref()));
    steps.finish()
}

type Step = fn(&Place, &Path, &Steps) -> StepResult;

const STEPS: [(&str, Step); 17] = [
    ("packages", |place, log, _| Ok(packages::install(place, log)?)),
    ("format", |place, log, _| cargo(place, log, "fmt", &["--all", "--check"])),
    ("tidy", tidy_step),
    ("build", |place, log, _| cargo(place, log, "build", &["--workspace", "--locked"])),
    ("clippy", |place, log, _| {
        cargo(place, log, "clippy", &["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    }),
    ("tests", tests),
    ("python", |place, log, _| python::check(place, log)),
    ("rustdoc", rustdoc),
    ("generated files", generated_files),
    ("documentation", documentation),
    ("example motif", |place, log, _| examples::motif(place, log)),
    ("example bowtie2", |place, log, _| examples::bowtie2(place, log)),
    ("example screening", |place, log, _| examples::screening(place, log)),
    ("example make", |place, log, _| examples::make(place, log)),
    ("example mpi", |place, log, _| examples::mpi(place, log)),
    ("cargo-deny", cargo_deny),
    ("simulator", |place, log, _| sim::explore(place, log)),
];

fn cargo(place: &Place, log: &Path, subcommand: &str, arguments: &[&str]) -> StepResult {
    exec::demand(place.cargo(subcommand).args(arguments), CARGO_LIMIT, log, &place.mark)?;
    Ok(Outcome::passed())
}

fn tidy_step(place: &Place, _: &Path, _: &Steps) -> StepResult {
    let findings = tidy::check(place)?;
    let remark = format!("{} looks at files, {} warnings", findings.passed, findings.warnings.len());
    sum_up(1, findings.errors, remark)
}

fn documentation(place: &Place, _: &Path, _: &Steps) -> StepResult {
    let findings = docs::check_all(place)?;
    let remark = format!("{} commands executed, {} links followed", findings.commands, findings.links);
    sum_up(findings.commands, findings.errors, remark)
}

// What passed are tests; what was merely looked at is a remark.
fn sum_up(passed: u32, errors: Vec<String>, remark: String) -> StepResult {
    if errors.is_empty() {
        return Ok(Outcome::Passed(passed, remark));
    }
    let failed = u32::try_from(errors.len()).unwrap_or(u32::MAX);
    Err(Failure { passed, failed, text: errors.join("\n") })
}

// Unit tests, integration tests, documentation tests and the replay of the fuzzing corpora.
fn tests(place: &Place, log: &Path, _: &Steps) -> StepResult {
    let mut command = place.cargo("test");
    command.args(["--workspace", "--locked", "--no-fail-fast"]).env("INSTA_UPDATE", "no").env("CI", "1");
    // Random inputs are the same for the same commit.
    let seed = u64::from_str_radix(&sim::commit(place)[..12], 16).unwrap_or_default();
    command.env("PROPTEST_RNG_SEED", seed.to_string());
    let ended = exec::run(&mut command, TESTS_LIMITS, log, &place.mark)?;
    let (passed, failed) = counts(&ended.text);
    if ended.is_ok() {
        return Ok(Outcome::Passed(passed, format!("seed {seed}")));
    }
    let mut tail = exec::tail(&failures(&ended.text));
    if let Err(why) = ended.status {
        tail += &format!("\nThe tests hang: `cargo test` {why}. {}", what_hangs(&ended.text));
    }
    Err(Failure {
        passed,
        failed: failed.max(1),
        text: format!("{tail}\nThe whole output is in {}", log.display()),
    })
}

// Sums the lines `test result: ok. 3 passed; 0 failed; …`. Of programs with a `main` of their own that print no such
// line, those of their tests.
fn counts(text: &str) -> (u32, u32) {
    let mut sums = (0, 0);
    let mut passed_alone = 0;
    for line in text.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |what: &str| {
                let part = result.split([';', '.']).find(|part| part.trim_end().ends_with(what));
                part.and_then(|part| part.split_whitespace().next()?.parse::<u32>().ok()).unwrap_or(0)
            };
            sums.0 += number(" passed");
            sums.1 += number(" failed");
            passed_alone = 0;
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            passed_alone += 1;
        } else if line.trim_start().starts_with("Running ") {
            sums.0 += passed_alone;
            passed_alone = 0;
        }
    }
    (sums.0 + passed_alone, sums.1)
}

// Which test program was running at the end of the output, and which of its tests.
fn what_hangs(text: &str) -> String {
    let begins = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("Running ") || line.starts_with("Doc-tests ")
    };
    let lines: Vec<&str> = text.lines().collect();
    let Some(begin) = lines.iter().rposition(begins) else {
        return format!(
            "No test has begun; the last line: {}",
            lines.last().copied().unwrap_or_default().trim()
        );
    };
    let tests = || lines[begin..].iter().filter_map(|line| line.strip_prefix("test "));
    let has_ended = |name: &str| {
        tests().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ... ")))
    };
    let long: Vec<&str> = tests()
        .filter_map(|line| Some(line.split_once(" has been running for over ")?.0))
        .filter(|name| !has_ended(name))
        .collect();
    let what = lines[begin].trim();
    if !long.is_empty() {
        return format!("{what}: {}", long.join(", "));
    }
    let last = tests().filter_map(|line| Some(line.split_once(" ... ")?.0)).next_back();
    format!(
        "{what}, after {}",
        last.map_or_else(|| "no test".to_owned(), |name| format!("`{name}` had ended"))
    )
}

// What cargo says of failures, without the tests that passed.
fn failures(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        let is_noise = line.starts_with("test ") && line.ends_with("... ok")
            || line.trim_start().starts_with("Compiling ")
            || line.starts_with("running ")
            || line.starts_with("test result: ok")
            || line.trim_start().starts_with("Running ");
        !is_noise && !line.is_empty()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn rustdoc(place: &Place, log: &Path, _: &Steps) -> StepResult {
    let mut command = place.cargo("doc");
    command.args(["--workspace", "--no-deps", "--locked", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    exec::demand(&mut command, CARGO_LIMIT, log, &place.mark)?;
    Ok(Outcome::passed())
}

fn generated_files(place: &Place, _: &Path, _: &Steps) -> StepResult {
    let stale = generated::make(place, true)?;
    if stale.is_empty() {
        return Ok(Outcome::passed());
    }
    let names: Vec<_> = stale.iter().map(|path| path.display().to_string()).collect();
    Err(Failure::from(format!("stale: {}; run `cargo xtask gen`", names.join(", "))))
}

// Advisories, and all that `tidy` already knows of deny.toml. The tool is built once per build
// directory; its database of advisories may be out of reach.
fn cargo_deny(place: &Place, log: &Path, steps: &Steps) -> StepResult {
    let Some(program) = deny_program(place, log, steps)? else {
        let limit = INSTALL_DENY_BEFORE.as_secs() / 60;
        return Ok(Outcome::LeftOut(format!(
            "not installed, and not built in a run older than {limit} min; `tidy` has checked licenses, bans and sources"
        )));
    };
    let deny = |what: &[&str]| {
        let mut command = place.command(&program);
        command.args(["--all-features", "check"]).args(what);
        command
    };
    exec::demand(&mut deny(&["licenses", "bans", "sources"]), CARGO_LIMIT, log, &place.mark)?;
    let advisories = exec::run(&mut deny(&["advisories"]), Duration::from_secs(120), log, &place.mark)?;
    if advisories.is_ok() {
        return Ok(Outcome::Passed(2, String::new()));
    }
    // The last is part of where it keeps the database, of which only failures to read it speak.
    let out_of_reach = ["failed to fetch advisory database", "failed to load", "advisory-dbs/"];
    if out_of_reach.iter().any(|words| advisories.text.contains(words)) {
        return Ok(Outcome::Passed(1, "without advisories: their database is out of reach".to_owned()));
    }
    Err(Failure::from(advisories.text))
}

fn deny_program(place: &Place, log: &Path, steps: &Steps) -> Result<Option<PathBuf>, String> {
    if packages::is_there("cargo-deny") {
        return Ok(Some(PathBuf::from("cargo-deny")));
    }
    let tools = place.target.join("xtask-tools");
    let program = tools.join("bin/cargo-deny");
    if program.exists() {
        return Ok(Some(program));
    }
    if steps.elapsed() > INSTALL_DENY_BEFORE {
        return Ok(None);
    }
    let mut install: Command = place.cargo("install");
    install
        .args(["--quiet", "--locked", "--debug", "--version", DENY_VERSION, "cargo-deny", "--root"])
        .arg(&tools);
    install.env("CARGO_TARGET_DIR", tools.join("build"));
    exec::demand(&mut install, CARGO_LIMIT, log, &place.mark)?;
    Ok(Some(program))
}

fn nothing_left(place: &Place, changes_before: Option<&str>) -> StepResult {
    let after = leftovers::changes(place);
    match (changes_before, after) {
        (Some(before), Some(after)) if before != after => {
            Err(Failure::from(format!("the tree was\n{before}and is now\n{after}")))
        }
        (Some(_), Some(_)) => Ok(Outcome::passed()),
        _ => Ok(Outcome::LeftOut("without git nobody can say which files changed".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let text = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\nx\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 1.2s\n";
        assert_eq!(counts(text), (15, 2));
        let alone = "     Running a\ntest one ... ok\ntest two ... ok\n     Running b\n";
        assert_eq!(counts(&format!("{alone}test three ... ok\n{text}")), (17, 2));
    }

    #[test]
    fn what_hangs_is_named() {
        let begun = "   Compiling hq v0.1.0\n     Running tests/e2e/main.rs (target/debug/deps/e2e-1)\n\nrunning 3 tests\n\
                     test jobs::quick ... ok\n";
        let slow = "test jobs::slow has been running for over 60 seconds\n\
                    test jobs::stuck has been running for over 60 seconds\n\
                    test jobs::slow ... ok\n";
        let program = "Running tests/e2e/main.rs (target/debug/deps/e2e-1)";
        for (text, expected) in [
            (format!("{begun}{slow}"), format!("{program}: jobs::stuck")),
            (begun.to_owned(), format!("{program}, after `jobs::quick` had ended")),
            (format!("{begun}{slow}   Doc-tests hq\n"), "Doc-tests hq, after no test".to_owned()),
            ("   Compiling hq".to_owned(), "No test has begun; the last line: Compiling hq".to_owned()),
        ] {
            assert_eq!(what_hangs(&text), expected);
        }
    }
}
