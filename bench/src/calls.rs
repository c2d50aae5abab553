//! Calls of the Python package, against what is demanded of it, a pool of processes and Dask. Each case is a process of its own,
//! with the package of `cargo xtask python` and the program under test.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::{Bench, Cluster};
use crate::journal::journal_bytes;
use crate::measure::median_of;
use crate::python::number;
use crate::row::{BoxError, Row};

const PROGRAM: &str = include_str!("calls.py");
/// Calls one by one.
const CALLS: u32 = 20_000;
/// Elements of a map, unless `HQ_BENCH_MAP` says otherwise.
const MAPPED: u32 = 200_000;
/// Calls on ranks.
const RANK_CALLS: u32 = 2000;
/// Functions of a job, each with files for its outputs.
const OUTPUTS: u32 = 10_000;
/// Number whose Fibonacci number is asked for, each call of which returns others.
const FIB: u32 = 16;
/// Links of a chain.
const LINKS: u32 = 1000;
/// Calls on an idle cluster.
const IDLE_CALLS: u32 = 2000;
/// Interpreters with numpy that are started.
const NEW_RUNNERS: u32 = 30;
/// Rounds of what is measured in turns.
const ROUNDS: usize = 3;
const WORKER: [&str; 2] = ["--cpus", "2"];
const WITHOUT_JOURNAL: [&str; 2] = ["--journal", "none"];

// The package, and where its cases run.
struct Package<'a> {
    bench: &'a Bench,
    python: PathBuf,
    program: PathBuf,
}

/// All cases.
///
/// # Errors
/// When there is no package, or a case fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let python = crate::python::package(bench)?;
    let place = tempfile::tempdir()?;
    let program = place.path().join("calls.py");
    fs::write(&program, PROGRAM)?;
    let package = Package { bench, python, program };
    let cluster = bench.cluster(&WITHOUT_JOURNAL, 1, &WORKER)?;
    let mut rows = package.submits(&cluster)?;
    rows.extend(package.map(&cluster)?);
    rows.extend(package.latency(&cluster)?);
    let seconds = package.seconds("chain", Some(&cluster), bench.tasks(LINKS))?;
    let link = seconds / f64::from(bench.tasks(LINKS)) * 1e6;
    rows.push(Row::at_most("python: chain", format!("{link:.0} µs a link"), "150 µs", link / 150.0, 1.0));
    rows.extend(package.runners(&cluster)?);
    let few = [("fan-in", "fan_in", bench.tasks(LINKS), 50.0)];
    let ends = [("interrupt", "interrupt", 1, 50.0), ("interrupt, C code", "interrupt_c", 1, 1200.0)];
    for (name, case, count, most_ms) in few.into_iter().chain(ends) {
        let rounds: Result<Vec<f64>, BoxError> =
            (0..ROUNDS).map(|_| package.seconds(case, Some(&cluster), count)).collect();
        rows.push(in_ms(name, median_of(rounds?), most_ms));
    }
    rows.push(package.clients(&cluster)?);
    let rate = number(&package.case("nested", Some(&cluster), FIB)?, "rate")?;
    rows.push(Row::at_most(
        "python: nested",
        format!("{rate:.0} calls/s"),
        "3 000 calls/s",
        3000.0 / rate,
        1.0,
    ));
    let count = bench.tasks(OUTPUTS);
    let rate = f64::from(count) / package.seconds("outputs", Some(&cluster), count)?;
    rows.push(Row::at_most("python: job", format!("{rate:.0} functions/s"), "2 000/s", 2000.0 / rate, 1.0));
    drop(cluster);
    for (name, case, count, most_ms) in [
        ("LocalCluster", "first", 1, 200.0),
        ("Executor(5)", "five", 5, 400.0),
        ("import", "import", 1, 60.0),
    ] {
        let rounds: Result<Vec<f64>, BoxError> =
            (0..ROUNDS).map(|_| package.seconds(case, None, count)).collect();
        rows.push(in_ms(name, median_of(rounds?), most_ms));
    }
    rows.extend(package.journal()?);
    rows.push(package.ranks()?);
    rows.push(package.pending()?);
    Ok(rows)
}

fn in_ms(name: &str, seconds: f64, most_ms: f64) -> Row {
    let took = seconds * 1e3;
    let name = format!("python: {name}");
    Row::at_most(&name, format!("{took:.0} ms"), &format!("{most_ms:.0} ms"), took / most_ms, 1.0)
}

impl Package<'_> {
    // Four at a time, beside one alone.
    fn clients(&self, cluster: &Cluster) -> Result<Row, BoxError> {
        let count = self.bench.tasks(CALLS);
        let one = f64::from(count) / self.seconds("submit", Some(cluster), count)?;
        let four = number(&self.case("clients", Some(cluster), count)?, "rate")?;
        let value = format!("{four:.0} calls/s; one client {one:.0}");
        Ok(Row::at_most("python: 4 clients", value, "1.5 times one", 1.5 * one / four, 1.0))
    }

    // One by one, in turns with the pool; and Dask, once.
    fn submits(&self, cluster: &Cluster) -> Result<Vec<Row>, BoxError> {
        let count = self.bench.tasks(CALLS);
        let (mut ours, mut pool) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            pool.push(self.seconds("pool", None, count)?);
            ours.push(self.seconds("submit", Some(cluster), count)?);
        }
        let rate = |seconds: f64| f64::from(count) / seconds;
        let (ours, pool) = (rate(median_of(ours)), rate(median_of(pool)));
        let value = format!("{ours:.0} calls/s");
        let beside = format!("{ours:.0} calls/s; pool of processes {pool:.0}");
        let dask = match self.dask(count) {
            Ok(seconds) => {
                let dask = rate(seconds);
                Row::shown("python: Dask", format!("{dask:.0} calls/s"), dask / ours)
            }
            Err(error) => Row::shown("python: Dask", format!("left out: {error}"), 0.0),
        };
        Ok(vec![
            Row::at_most("python: submit", value, "20 000 calls/s", 20_000.0 / ours, 1.0),
            Row::at_most("python: submit, pool", beside, "1.5 times the pool", 1.5 * pool / ours, 1.0),
            dask,
        ])
    }

    fn map(&self, cluster: &Cluster) -> Result<Vec<Row>, BoxError> {
        let given = std::env::var("HQ_BENCH_MAP").ok().and_then(|count| count.parse().ok());
        let count = given.unwrap_or_else(|| self.bench.tasks(MAPPED));
        let said = self.case("map", Some(cluster), count)?;
        let rate = f64::from(count) / number(&said, "seconds")?;
        let each = number(&said, "bytes")? / f64::from(count);
        let memory = format!("{each:.0} bytes an element, {:.0} MB", each * f64::from(count) / 1e6);
        Ok(vec![
            Row::at_most(
                "python: map",
                format!("{rate:.0} elements/s of {count}"),
                "300 000 elements/s",
                300_000.0 / rate,
                1.0,
            ),
            Row::shown("python: map, client", memory, each),
        ])
    }

    fn latency(&self, cluster: &Cluster) -> Result<Vec<Row>, BoxError> {
        let said = self.case("latency", Some(cluster), self.bench.tasks(IDLE_CALLS))?;
        let of = |name: &str, word: &str, most_ms: f64| -> Result<Row, BoxError> {
            let took = number(&said, word)? * 1e3;
            let target = format!("{most_ms} ms");
            Ok(Row::at_most(name, format!("{took:.2} ms"), &target, took / most_ms, 1.0))
        };
        Ok(vec![of("python: latency", "median", 0.5)?, of("python: latency, 99 %", "p99", 3.0)?])
    }

    // New interpreters with numpy, forked and started by themselves.
    fn runners(&self, cluster: &Cluster) -> Result<Vec<Row>, BoxError> {
        crate::python::install(&self.python, &["numpy"])?;
        let said = self.case("runners", Some(cluster), self.bench.tasks(NEW_RUNNERS))?;
        let of = |name: &str, forked: &str, started: &str, most_ms: f64| -> Result<Row, BoxError> {
            let (forked, started) = (number(&said, forked)? * 1e3, number(&said, started)? * 1e3);
            let value = format!("{forked:.1} ms; one by one {started:.1} ms");
            Ok(Row::at_most(name, value, &format!("{most_ms} ms"), forked / most_ms, 1.0))
        };
        Ok(vec![
            of("python: new interpreter", "forked", "started", 5.0)?,
            of("python: call after a crash", "forked after a crash", "started after a crash", 20.0)?,
        ])
    }

    // How fast with a journal, and how long that becomes.
    fn journal(&self) -> Result<Vec<Row>, BoxError> {
        let count = self.bench.tasks(CALLS);
        let cluster = self.bench.cluster(&[], 1, &WORKER)?;
        let rate = f64::from(count) / self.seconds("submit", Some(&cluster), count)?;
        cluster.run(&["journal", "flush"])?;
        let journal = cluster.server_dir().join("journal");
        let before = journal_bytes(&journal)?;
        self.case("results", Some(&cluster), count)?;
        cluster.run(&["journal", "flush"])?;
        let each = (journal_bytes(&journal)? - before) as f64 / f64::from(count);
        let value = format!("{rate:.0} calls/s");
        Ok(vec![
            Row::at_most("python: submit, journal", value, "10 000 calls/s", 10_000.0 / rate, 1.0),
            Row::at_most("python: journal", format!("{each:.1} bytes a call"), "60 bytes", each / 60.0, 1.0),
        ])
    }

    // On ranks that stay, beside a loop that makes and frees communicators on these ranks.
    fn ranks(&self) -> Result<Row, BoxError> {
        crate::python::install(&self.python, &["mpi4py", "mpich"])?;
        let count = self.bench.tasks(RANK_CALLS);
        let cluster = self.bench.cluster(&WITHOUT_JOURNAL, 1, &["--cpus", "4"])?;
        let said = self.case("ranks", Some(&cluster), count)?;
        let rate = |seconds: f64| f64::from(count) / seconds;
        let (ours, bare) = (rate(number(&said, "seconds")?), rate(number(&said, "bare")?));
        let value = format!("{ours:.0} calls/s; a bare loop {bare:.0}");
        Ok(Row::at_most("python: 4 ranks", value, "1 000 calls/s", 1000.0 / ours, 1.0))
    }

    // Where there is no worker, calls wait for ever.
    fn pending(&self) -> Result<Row, BoxError> {
        let count = self.bench.tasks(CALLS);
        let cluster = self.bench.cluster(&WITHOUT_JOURNAL, 0, &[])?;
        let each = number(&self.case("pending", Some(&cluster), count)?, "bytes")? / f64::from(count);
        let value = format!("{each:.0} bytes of the client");
        Ok(Row::at_most("python: a call that waits", value, "500 bytes", each / 500.0, 1.0))
    }

    fn dask(&self, count: u32) -> Result<f64, BoxError> {
        crate::python::install(&self.python, &["dask[distributed]"])?;
        self.seconds("dask", None, count)
    }

    fn seconds(&self, case: &str, cluster: Option<&Cluster>, count: u32) -> Result<f64, BoxError> {
        number(&self.case(case, cluster, count)?, "seconds")
    }

    // Runs a case; gives what it says.
    fn case(&self, case: &str, cluster: Option<&Cluster>, count: u32) -> Result<Value, BoxError> {
        let place = tempfile::tempdir()?;
        let server = cluster.map_or_else(|| place.path().to_owned(), Cluster::server_dir);
        let mut command = crate::python::case(self.bench, &self.python);
        command.arg(&self.program).arg(case).arg(server).arg(count.to_string());
        crate::python::said(case, command.current_dir(place.path()))
    }
}
