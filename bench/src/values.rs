//! Values of Python calls in the stores of workers, each beside what the machine can do in the same process.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::{Bench, Cluster};
use crate::python::{self, number};
use crate::row::{BoxError, Row};

const PROGRAM: &str = include_str!("values.py");
const MIB: u64 = 1 << 20;
/// One value that is put, and one that is got.
const LARGE: u64 = 1024 * MIB;
/// All values that live at once in a store of a sixteenth of it.
const LIVE: u64 = 4096 * MIB;
/// Each of the hundred values that a thousand calls read.
const SHARED: u64 = 64 * MIB;
/// Workers of these calls.
const WORKERS: u32 = 4;
/// How a put compares with a copy into fresh pages.
const OF_COPY: f64 = 0.55;
/// Seconds for a value of any length that lies on the same node.
const GET_MAX_S: f64 = 0.001;
/// Part of the bytes that calls read which travel first.
const FETCHED_MAX: f64 = 0.05;

struct Package<'a> {
    bench: &'a Bench,
    python: PathBuf,
    program: PathBuf,
    stores: tempfile::TempDir,
    // On a disk.
    spills: tempfile::TempDir,
}

/// All cases.
///
/// # Errors
/// When there is no package, numpy cannot be had, or a case fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let python = crate::python::package(bench)?;
    crate::python::install(&python, &["numpy"])?;
    // Where there is memory behind files, so that no disk is measured.
    let memory = PathBuf::from("/dev/shm");
    let stores = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let program = stores.path().join("values.py");
    fs::write(&program, PROGRAM)?;
    let package = Package { bench, python, program, stores, spills: tempfile::tempdir()? };
    let mut rows = package.large()?;
    rows.push(package.spill()?);
    rows.extend(package.near()?);
    Ok(rows)
}

impl Package<'_> {
    fn large(&self) -> Result<Vec<Row>, BoxError> {
        let size = self.bytes(LARGE);
        let cluster = self.cluster(1, 8 * size, &[])?;
        let put = self.case("put", &cluster, size)?;
        let (ours, copy) = (number(&put, "seconds")?, number(&put, "copy")?);
        let rate = |seconds: f64| size as f64 / seconds / 1e9;
        let value = format!("{:.2} GB/s; a copy into fresh pages {:.2} GB/s", rate(ours), rate(copy));
        let of_put = Row::at_most("values: put", value, "0.55 of the copy", OF_COPY * ours / copy, 1.0);
        let get = self.case("get", &cluster, size)?;
        let (ours, copy) = (number(&get, "seconds")?, number(&get, "copy")?);
        let value = format!("{:.2} ms of any length; a copy {:.2} ms", ours * 1e3, copy * 1e3);
        Ok(vec![of_put, Row::at_most("values: get", value, "1 ms", ours / GET_MAX_S, 1.0)])
    }

    // What becomes of more than a store has room for.
    fn spill(&self) -> Result<Row, BoxError> {
        let size = self.bytes(LIVE);
        let spill = format!("{}:{}", self.spills.path().display(), 2 * size);
        let cluster = self.cluster(1, size / 16, &["--object-spill", &spill])?;
        let said = self.case("spill", &cluster, size)?;
        let (stored, count) = (number(&said, "stored")?, number(&said, "count")?);
        let why = said["why"].as_str().unwrap_or_default();
        if stored < count || !why.is_empty() {
            return Err(format!("{stored} of {count} values stored: {why}").into());
        }
        let (ours, disk) = (number(&said, "seconds")?, number(&said, "disk")?);
        let value = format!("{count} put and read in {ours:.1} s; files on the disk {disk:.1} s");
        Ok(Row::shown("values: 16 times the store", value, ours / disk))
    }

    fn near(&self) -> Result<Vec<Row>, BoxError> {
        let size = self.bytes(SHARED);
        let cluster = self.cluster(WORKERS, 101 * size, &[])?;
        let said = self.case("near", &cluster, size)?;
        let (fetched, reads) = (number(&said, "fetched")?, number(&said, "reads")?);
        let (seconds, read) = (number(&said, "seconds")?, number(&said, "read")?);
        let value = format!("{:.1} % of {reads} reads", 100.0 * (1.0 - fetched / reads));
        let time = format!("{seconds:.1} s; one process reads as much in {read:.1} s");
        Ok(vec![
            Row::at_most("values: read where they are", value, "95 %", fetched / reads / FETCHED_MAX, 1.0),
            Row::shown("values: reading", time, seconds / read),
        ])
    }

    fn bytes(&self, count: u64) -> u64 {
        if self.bench.is_quick { count / 16 } else { count }
    }

    fn cluster(&self, workers: u32, store: u64, more: &[&str]) -> Result<Cluster, BoxError> {
        // Each worker makes a directory of its own there.
        let option = format!("{}:{store}", self.stores.path().display());
        let arguments = [&["--cpus", "1", "--object-store", &option][..], more].concat();
        self.bench.cluster(&["--journal", "none"], workers, &arguments)
    }

    // Runs a case; gives what it says.
    fn case(&self, case: &str, cluster: &Cluster, size: u64) -> Result<Value, BoxError> {
        let mut command = python::case(self.bench, &self.python);
        command.arg(&self.program).arg(case).arg(cluster.server_dir()).arg(size.to_string());
        command.arg(self.spills.path());
        python::said(case, command.current_dir(self.stores.path()))
    }
}
