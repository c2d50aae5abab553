//! How fast records are appended and synced, as a ratio to writing and syncing the same bytes without a journal.
//!
//! `cargo run --release -p hq-journal --example journal_speed [DIRECTORY]`; the directory's file system decides the
//! absolute numbers, so only the ratios of one run mean something.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hq_journal::{Journal, JournalId, Options, RealDisk, replay};

/// How long each case runs.
const CASE: Duration = Duration::from_millis(700);
/// Cases are repeated in turn, so that what else the machine does meets both sides.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = Path::new(&parent).join(format!("journal-speed-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let result = measure(&directory);
    std::fs::remove_dir_all(&directory)?;
    result
}

fn measure(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    writeln!(out, "bytes  batch  raw records/s  journal records/s  journal/raw  bytes/record")?;
    for length in [10, 60] {
        for batch in [1, 100, 5000] {
            let (mut raw, mut own, mut size) = (0.0f64, 0.0f64, 0.0);
            for _ in 0..ROUNDS {
                raw = raw.max(raw_loop(directory, length, batch)?);
                let (rate, bytes) = journal_loop(directory, length, batch, true)?;
                own = own.max(rate);
                size = bytes;
            }
            writeln!(out, "{length:5}  {batch:5}  {raw:13.0}  {own:17.0}  {:11.2}  {size:12.2}", own / raw)?;
        }
    }
    let (rate, _) = journal_loop(directory, 60, 5000, false)?;
    writeln!(out, "append and write without sync, 60 bytes in batches of 5000: {rate:.0} records/s")?;
    append_only(&mut out, directory)?;
    read_back(&mut out, directory)
}

/// Records a second when each batch is one write and one fdatasync.
fn raw_loop(directory: &Path, length: usize, batch: usize) -> io::Result<f64> {
    let path = directory.join("raw");
    let mut file = File::create(&path)?;
    let bytes = vec![1; length * batch];
    let start = Instant::now();
    let mut records = 0;
    while start.elapsed() < CASE {
        file.write_all(&bytes)?;
        file.sync_data()?;
        records += batch;
    }
    let rate = records as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn open(directory: &Path) -> Result<Journal<RealDisk>, Box<dyn std::error::Error>> {
    let options = Options { create: Some(JournalId([1; 16])), ..Options::default() };
    let disk = RealDisk::create(&directory.join("journal"))?;
    Ok(Journal::open(disk, &options, &mut |_, _| Ok::<(), String>(()))?.0)
}

/// Records a second through the journal, and its bytes per record.
fn journal_loop(
    directory: &Path,
    length: usize,
    batch: usize,
    sync: bool,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let mut journal = open(directory)?;
    let record = vec![1; length];
    let before = journal.size().bytes;
    let start = Instant::now();
    while start.elapsed() < CASE {
        for _ in 0..batch {
            journal.append(&record);
        }
        journal.write()?;
        if sync || journal.pending_bytes() > 64 << 20 {
            journal.sync()?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let records = journal.next_seq() as f64;
    let bytes = (journal.size().bytes - before) as f64;
    drop(journal);
    std::fs::remove_dir_all(directory.join("journal"))?;
    Ok((records / seconds, bytes / records))
}

/// What an append costs against copying the same bytes.
fn append_only(out: &mut impl Write, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut journal = open(directory)?;
    let record = [1u8; 60];
    let count = 200_000;
    let (mut append, mut copy) = (f64::MAX, f64::MAX);
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..count {
            journal.append(std::hint::black_box(&record));
        }
        append = append.min(start.elapsed().as_nanos() as f64 / f64::from(count));
        journal.sync()?;
        let mut bytes = Vec::with_capacity(count as usize * record.len());
        let start = Instant::now();
        for _ in 0..count {
            bytes.extend_from_slice(std::hint::black_box(&record));
        }
        std::hint::black_box(&bytes);
        copy = copy.min(start.elapsed().as_nanos() as f64 / f64::from(count));
    }
    drop(journal);
    std::fs::remove_dir_all(directory.join("journal"))?;
    writeln!(out, "append of 60 bytes: {append:.1} ns, a copy into a vector: {copy:.1} ns")?;
    Ok(())
}

/// How fast a million records come back.
fn read_back(out: &mut impl Write, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut journal = open(directory)?;
    for number in 0..1_000_000u64 {
        journal.append(&number.to_le_bytes());
        if number % 100 == 0 {
            journal.write()?;
        }
    }
    journal.close()?;
    let start = Instant::now();
    let mut sum = 0u64;
    let disk = RealDisk::open(&directory.join("journal"))?;
    let replay = replay(&disk, None, &mut |_, record| {
        sum += u64::from(record[0]);
        Ok::<(), String>(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(sum);
    writeln!(
        out,
        "replay of {} records, {} bytes: {:.1} ms",
        replay.records,
        replay.bytes,
        seconds * 1000.0
    )?;
    Ok(())
}
