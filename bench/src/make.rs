//! `hq make` against the programs that people use for the same, on the same graphs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cluster::Bench;
use crate::measure::{cpus, median_of};
use crate::python;
use crate::row::{BoxError, Row};

/// Rounds, in turns.
const ROUNDS: usize = 3;
/// Rules of the large graph, each of which takes the files of the one before.
const RULES: u32 = 20;
/// How long the first run of the large graph is waited for.
const FIRST_START_LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks for it.
const LOOK: Duration = Duration::from_millis(1);

// No entry of a log is needed for rules that make build files: so nothing has to be built before.
const NINJA: &str = "
import os, subprocess, sys, sysconfig, time
directory, rules, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(directory)
with open('build.ninja', 'w') as out:
    out.write('rule r\\n  command = true\\n  generator = 1\\n')
    for rule in range(1, rules):
        for n in range(width):
            out.write(f'build d/f{rule}_{n}: r d/f{rule - 1}_{n}\\n')
ninja = os.path.join(sysconfig.get_path('scripts'), 'ninja')
best = None
for _ in range(3):
    begun = time.monotonic()
    said = subprocess.run([ninja], capture_output=True, text=True)
    took = time.monotonic() - begun
    assert 'no work to do' in said.stdout, said
    best = took if best is None else min(best, took)
print(best)
";

const SNAKEMAKE: &str = "
import subprocess, sys, sysconfig, time, os
rules, width = int(sys.argv[1]), int(sys.argv[2])
with open('Snakefile', 'w') as out:
    out.write(f'rule all:\\n    input: expand(\"d/f{rules - 1}_{{n}}\", n=range({width}))\\n')
    out.write('rule r0:\\n    output: \"d/f0_{n}\"\\n    shell: \"true\"\\n')
    for rule in range(1, rules):
        out.write(f'rule r{rule}:\\n    input: \"d/f{rule - 1}_{{n}}\"\\n    output: \"d/f{rule}_{{n}}\"\\n    shell: \"true\"\\n')
snakemake = os.path.join(sysconfig.get_path('scripts'), 'snakemake')
begun = time.monotonic()
subprocess.run([snakemake, '-n', '--quiet', 'all'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.monotonic() - begun)
";

/// Nothing to do over 100 000 runs, the way to the first start of as many, and 2 000 small runs.
///
/// # Errors
/// When this program fails; other tools that fail are left out.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    let width = bench.tasks(5000);
    // First, and files stay until the end: some file systems make new ones slowly for a while after many were removed.
    let _places = small_runs(bench, bench.tasks(2000), &mut rows)?;
    nothing_to_do(bench, width, &mut rows)?;
    first_start(bench, width, &mut rows)?;
    Ok(rows)
}

fn nothing_to_do(bench: &Bench, width: u32, rows: &mut Vec<Row>) -> Result<(), BoxError> {
    let place = tempfile::tempdir()?;
    write_layers(place.path(), RULES, width)?;
    fs::create_dir(place.path().join("d"))?;
    for rule in 0..RULES {
        for n in 0..width {
            fs::write(place.path().join(format!("d/f{rule}_{n}")), "")?;
        }
    }
    let hq = |mode: &str| -> Result<f64, BoxError> {
        let times = (0..ROUNDS).map(|_| timed(bench, place.path(), &["make", "--rerun", mode]));
        Ok(times.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(f64::MAX, f64::min))
    };
    let (exists, mtime) = (hq("exists")?, hq("mtime")?);
    let runs = RULES * width;
    let arguments = [place.path().display().to_string(), RULES.to_string(), width.to_string()]
        .map(|text| text.to_owned());
    match python::run(bench, &["ninja"], NINJA, &arguments).and_then(|text| Ok(text.trim().parse::<f64>()?)) {
        Ok(ninja) => {
            let row = |name: &str, ours: f64| {
                let value = format!("{:.0} ms; ninja {:.0} ms", ours * 1e3, ninja * 1e3);
                Row::at_most(name, value, &format!("{runs} runs, at most 3 x ninja"), ours / ninja, 3.0)
            };
            rows.push(row("make: nothing to do, exists", exists));
            rows.push(row("make: nothing to do, mtime", mtime));
        }
        Err(why) => {
            eprintln!("left out: ninja: {why}");
            rows.push(Row::shown("make: nothing to do, mtime", format!("{:.0} ms", mtime * 1e3), 1.0));
        }
    }
    Ok(())
}

fn first_start(bench: &Bench, width: u32, rows: &mut Vec<Row>) -> Result<(), BoxError> {
    let place = tempfile::tempdir()?;
    write_layers(place.path(), RULES, width)?;
    let begun = Instant::now();
    let mut child = command(bench, place.path(), &["make", "--cpus", "1"]).spawn()?;
    // Whichever is the first: it writes its script.
    let has_begun = || {
        let names = fs::read_dir(place.path().join("d")).into_iter().flatten();
        names.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "sh"))
    };
    while !has_begun() && begun.elapsed() < FIRST_START_LIMIT {
        thread::sleep(LOOK);
    }
    let first = begun.elapsed().as_secs_f64();
    child.kill()?;
    child.wait()?;
    let runs = RULES * width;
    let value = format!("{first:.2} s to the first of {runs}");
    rows.push(Row::at_most("make: first start", value, "2 s", first / 2.0, 1.0));
    // A graph of which the other one ends, too.
    let small = (width / 10).max(10);
    let place = tempfile::tempdir()?;
    write_layers(place.path(), RULES, small)?;
    let ours = timed(bench, place.path(), &["make", "-n"])?;
    let arguments = [RULES.to_string(), small.to_string()];
    match python::run(bench, &["snakemake"], SNAKEMAKE, &arguments)
        .and_then(|text| Ok(text.trim().parse::<f64>()?))
    {
        Ok(theirs) => {
            let value = format!("{:.0} ms; snakemake -n {theirs:.1} s", ours * 1e3);
            let target = format!("{} runs, a 20th of snakemake", RULES * small);
            rows.push(Row::at_most("make: dry run", value, &target, ours / theirs * 20.0, 1.0));
        }
        Err(why) => eprintln!("left out: snakemake: {why}"),
    }
    Ok(())
}

// Makes the same files in directories of their own: by rules, by the scripts that rules have left, by these from a makefile.
fn small_runs(bench: &Bench, count: u32, rows: &mut Vec<Row>) -> Result<Vec<TempDir>, BoxError> {
    let (mut make, mut run, mut gnu) = (Vec::new(), Vec::new(), Vec::new());
    let mut places = Vec::new();
    let cpus = cpus().to_string();
    for _ in 0..ROUNDS {
        let place = tempfile::tempdir()?;
        write_layers(place.path(), 1, count)?;
        make.push(timed(bench, place.path(), &["make", "--cpus", &cpus])?);
        let other = with_scripts_of(place.path(), count)?;
        let (ids, log) = (format!("0-{}", count - 1), "d/r0.%{TASK_ID}.log");
        let arguments =
            ["run", "--array", &ids, "--stdout", log, "--stderr", log, "--", "bash", "d/r0.%{TASK_ID}.sh"];
        run.push(timed(bench, other.path(), &arguments)?);
        places.push(other);
        let other = with_scripts_of(place.path(), count)?;
        let mut text = String::from("all:");
        for n in 0..count {
            write!(text, " g{n}")?;
        }
        text.push('\n');
        for n in 0..count {
            writeln!(text, "g{n}:\n\tbash d/r0.{n}.sh >d/r0.{n}.log 2>&1")?;
        }
        fs::write(other.path().join("Makefile"), text)?;
        let mut command = Command::new("make");
        command
            .args(["-s", "-j", &cpus])
            .current_dir(other.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let begun = Instant::now();
        match command.status() {
            Ok(status) if status.success() => gnu.push(begun.elapsed().as_secs_f64()),
            Ok(status) => return Err(format!("make ended with {status}").into()),
            Err(error) => eprintln!("left out: make: {error}"),
        }
        places.extend([place, other]);
    }
    let (make, run) = (median_of(make), median_of(run));
    let value = format!("{make:.2} s; hq run {run:.2} s");
    rows.push(Row::at_most("make: small runs", value, "within 10 % of hq run", make / run, 1.1));
    if !gnu.is_empty() {
        let gnu = median_of(gnu);
        let value = format!("{make:.2} s; make -j {gnu:.2} s");
        rows.push(Row::at_most("make: against make -j", value, "no slower", make / gnu, 1.0));
    }
    Ok(places)
}

// A directory with the scripts that the runs of the only rule have left, for files in this one.
fn with_scripts_of(place: &Path, count: u32) -> Result<TempDir, BoxError> {
    let other = tempfile::tempdir()?;
    fs::create_dir(other.path().join("d"))?;
    let [from, to] = [place, other.path()].map(|path| path.display().to_string());
    for n in 0..count {
        let name = format!("d/r0.{n}.sh");
        let text = fs::read_to_string(place.join(&name))?;
        fs::write(other.path().join(&name), text.replace(&from, &to))?;
    }
    Ok(other)
}

// Rules of which each makes its files from those of the one before, `width` of each.
fn write_layers(place: &Path, rules: u32, width: u32) -> Result<(), BoxError> {
    let mut text = String::new();
    for rule in 0..rules {
        write!(text, "r{rule}:\n  out: [\"f{rule}_{{n}}\"]\n  script: \": > f{rule}_{{n}}\"\n")?;
        if let Some(before) = rule.checked_sub(1) {
            writeln!(text, "  inp: [\"f{before}_{{n}}\"]")?;
        }
    }
    fs::write(place.join("rules.yaml"), text)?;
    let last = rules - 1;
    let text =
        format!("t:\n  dirname: d\n  loop:\n    n: \"range({width})\"\n    out: [\"f{last}_{{n}}\"]\n");
    Ok(fs::write(place.join("targets.yaml"), text)?)
}

fn command(bench: &Bench, place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&bench.hq);
    command.args(arguments).current_dir(place).env("TMPDIR", place);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn timed(bench: &Bench, place: &Path, arguments: &[&str]) -> Result<f64, BoxError> {
    let begun = Instant::now();
    let status = command(bench, place, arguments).status()?;
    let elapsed = begun.elapsed().as_secs_f64();
    if status.success() {
        Ok(elapsed)
    } else {
        Err(format!("`hq {}` ended with {status}", arguments.join(" ")).into())
    }
}
