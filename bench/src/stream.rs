//! Reading what a few of many tasks printed out of stream files, and what reading all of it takes.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::limits::TASKS_BY_INDEX_MAX;
use hq_stream::{Attempt, Channel, Directory, Found, Header, StreamFile, Writer};

use crate::cluster::Bench;
use crate::measure::{median, memory_mb};
use crate::row::{BoxError, Row};

/// Tasks that print.
const TASKS: u32 = 1_000_000;
/// What each of them prints.
const BYTES: usize = 100;
/// How often a time is taken.
const TIMES: u32 = 21;
/// Printing one of them may take so many seconds.
const CAT_S: f64 = 0.02;
/// Memory for all of them, in MB.
const MEMORY_MB: f64 = 300.0;

const JOB: JobId = JobId(1);

/// The output of one task out of 1 and of 16 files, beside a single read of as many bytes; that of many tasks by the
/// indexes and by reading everything; and the memory in which all are exported.
///
/// # Errors
/// When files cannot be written, or something else is read than was written.
pub(crate) fn cat(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let tasks = bench.tasks(TASKS);
    let mut rows = Vec::new();
    for files in [1, 16] {
        let home = tempfile::tempdir()?;
        write(home.path(), tasks, files)?;
        rows.extend(one(bench, home.path(), tasks / 2, files)?);
        rows.push(many(home.path(), tasks, files)?);
        if files == 1 {
            rows.push(memory(bench, home.path(), tasks)?);
        }
    }
    Ok(rows)
}

fn output(task: u32) -> String {
    format!("{task:>99}\n")
}

fn write(dir: &Path, tasks: u32, files: usize) -> Result<(), BoxError> {
    let header =
        |worker| Header { server_uid: "bench".to_owned(), worker: WorkerId(worker), created: Timestamp(1) };
    let mut writers = (0..files)
        .zip(0..)
        .map(|(_, worker)| Writer::create(dir, &header(worker)))
        .collect::<io::Result<Vec<_>>>()?;
    for task in 0..tasks {
        let writer = &mut writers[task as usize % files];
        let attempt = Attempt { task: TaskRef::new(JOB, TaskId(task)), instance: Instance(0) };
        writer.append(attempt, Channel::Stdout, Timestamp(2), output(task).as_bytes())?;
        writer.append(attempt, Channel::Stderr, Timestamp(2), b"e")?;
        writer.end(attempt, &[Channel::Stdout, Channel::Stderr], Timestamp(3))?;
    }
    Ok(writers.iter_mut().try_for_each(Writer::finish)?)
}

fn one(bench: &Bench, dir: &Path, task: u32, files: usize) -> Result<[Row; 2], BoxError> {
    let (mut program, mut found, mut read) = (Vec::new(), Vec::new(), Vec::new());
    let asked = IdSet::single(TaskId(task));
    let (path, offset) = place(dir, &asked)?;
    for _ in 0..TIMES {
        let begun = Instant::now();
        let mut command = output_log(bench, dir, &["cat", "1", "stdout", "--task", &task.to_string()]);
        let printed = command.output()?.stdout;
        program.push(begun.elapsed());
        if printed != output(task).as_bytes() {
            return Err(format!("task {task} printed {} other bytes", printed.len()).into());
        }
        let begun = Instant::now();
        black_box(copied(dir, &asked)?);
        found.push(begun.elapsed());
        let begun = Instant::now();
        let mut bytes = [0; BYTES];
        File::open(&path)?.read_exact_at(&mut bytes, offset)?;
        black_box(bytes);
        read.push(begun.elapsed());
    }
    let (program, found, read) = (median(program), median(found), median(read));
    let name = |what: &str| format!("stream-cat: {what}, {}", counted(files));
    let text = format!("{:.2} ms, {:.2} ms of it in the files", program * 1e3, found * 1e3);
    let beside = format!("{:.3} ms, a single read {:.4} ms", found * 1e3, read * 1e3);
    Ok([
        Row::at_most(&name("a task"), text, "20 ms", program / CAT_S, 1.0),
        Row::shown(&name("found"), beside, found / read),
    ])
}

fn many(dir: &Path, tasks: u32, files: usize) -> Result<Row, BoxError> {
    let step = (tasks / u32::try_from(TASKS_BY_INDEX_MAX)?).max(1);
    let ids = (0..tasks).step_by(step as usize).map(TaskId);
    let mut asked: IdSet = ids.take(usize::try_from(TASKS_BY_INDEX_MAX)?).collect();
    let by_index = timed(dir, &asked)?;
    // One more, and everything is read.
    asked.insert(TaskId(1));
    asked.insert(TaskId(2));
    let by_reading = timed(dir, &asked)?;
    let (by_index, by_reading) = (by_index.as_secs_f64(), by_reading.as_secs_f64());
    let text = format!(
        "{TASKS_BY_INDEX_MAX} in {:.0} ms, by reading all {:.0} ms",
        by_index * 1e3,
        by_reading * 1e3
    );
    let name = format!("stream-cat: scattered, {}", counted(files));
    Ok(Row::shown(&name, text, by_index / by_reading))
}

// The most that `export` has had when it prints its first byte: all that it knows of all tasks is in memory then.
fn memory(bench: &Bench, dir: &Path, tasks: u32) -> Result<Row, BoxError> {
    let mut child = output_log(bench, dir, &["export", "1"]).stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().ok_or("it has an output")?;
    stdout.read_exact(&mut [0])?;
    let (_, peak) = memory_mb(child.id());
    io::copy(&mut stdout, &mut io::sink())?;
    if !child.wait()?.success() {
        return Err("export failed".into());
    }
    let name = format!("stream-cat: export of {tasks}");
    Ok(Row::at_most(&name, format!("{peak:.0} MB"), "300 MB", peak / MEMORY_MB, 1.0))
}

fn output_log(bench: &Bench, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&bench.hq);
    command.arg("output-log").arg(dir).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn counted(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

fn timed(dir: &Path, asked: &IdSet) -> Result<Duration, BoxError> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let bytes = copied(dir, asked)?.len();
        times.push(begun.elapsed());
        if bytes as u64 != asked.len() * BYTES as u64 {
            return Err(format!("{} tasks printed {bytes} bytes", asked.len()).into());
        }
    }
    Ok(Duration::from_secs_f64(median(times)))
}

// What the tasks printed, as `cat` reads it.
fn copied(dir: &Path, asked: &IdSet) -> Result<Vec<u8>, BoxError> {
    let directory = opened(dir)?;
    let contents = directory.contents_of(Some(JOB), asked)?;
    let pieces = directory.pieces(&contents, JOB, asked, Channel::Stdout)?;
    let mut out = Vec::new();
    directory.copy(&pieces, &mut out)??;
    Ok(out)
}

fn opened(dir: &Path) -> Result<Directory, BoxError> {
    match Directory::open(dir, None)? {
        Found::Files(directory) => Ok(directory),
        Found::Nothing | Found::Several(_) => Err("the files are of one server".into()),
    }
}

// A file that has something of these tasks, and where.
fn place(dir: &Path, asked: &IdSet) -> Result<(std::path::PathBuf, u64), BoxError> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let mut scan = StreamFile::open(&path)?.find(JOB, asked)?;
        if let Some(block) = scan.next_block()? {
            return Ok((path, block.offset));
        }
    }
    Err("no file has anything of these tasks".into())
}
