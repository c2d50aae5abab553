//! Searches in shared blocks as real programs on real files: each worker keeps the blocks that it unpacked last.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Bench;
use crate::row::{BoxError, Row};
use crate::scheduling::Numbers;

const WORKERS: u32 = 8;
const BLOCKS: u64 = 63;
/// Lines of a block, of 64 letters each.
const LINES: u32 = 64 << 10;

/// A worker's cache is named after the only item of its resource `cache`.
const SCRIPT: &str = r#"
set -e
home=$1
set -- $HQ_ENTRY
cache=$home/cache-$HQ_RESOURCE_VALUES_cache
mkdir -p "$cache"
if ! [ -e "$cache/$2" ]; then
    gzip -dc "$home/shared/$2.gz" > "$cache/$2"
    ls -t "$cache" | tail -n +11 | while read -r old; do rm "$cache/$old"; done
fi
touch "$cache/$2"
grep -q "$1" "$cache/$2" || test $? = 1
"#;

/// 4 347 searches over 63 shared blocks, with room for ten of them on each of eight workers, with locality keys and
/// without.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn files(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let tasks = bench.tasks(4_347);
    let mut seconds = Vec::new();
    for key in [None, Some("--locality=%{ENTRY_2}")] {
        let mut cluster = bench.cluster(&[], 0, &[])?;
        for worker in 0..WORKERS {
            let cache = format!("cache=[w{worker}]");
            cluster.start("worker", &["--cpus", "1", "--detect-resources", "none", "--resource", &cache])?;
        }
        cluster.run(&["worker", "wait", &WORKERS.to_string()])?;
        prepare(cluster.home(), tasks)?;
        let home = cluster.home().display().to_string();
        let options = ["submit", "--each-line", "lines", "--resource", "cache=1", "--stdout=none"];
        let options = options.iter().copied().chain(key).chain(["--wait", "--", "sh", "search.sh", &home]);
        seconds.push(cluster.run(&options.collect::<Vec<_>>())?.as_secs_f64());
    }
    let gain = seconds[0] / seconds[1];
    let value = format!("{:.1} s with keys, {:.1} s without", seconds[1], seconds[0]);
    Ok(vec![Row::at_most("locality-files", value, "1.7 times as fast", 1.7 / gain, 1.0)])
}

// The blocks, packed, and a line of words for each task: what it looks for, and in which block.
fn prepare(home: &Path, tasks: u32) -> Result<(), BoxError> {
    fs::write(home.join("search.sh"), SCRIPT)?;
    let shared = home.join("shared");
    fs::create_dir(&shared)?;
    let mut numbers = Numbers(17);
    for block in 0..BLOCKS {
        let mut text = String::with_capacity(LINES as usize * 65);
        for _ in 0..LINES {
            text.extend((0..64).map(|_| ['A', 'C', 'G', 'T'][numbers.below(4) as usize]));
            text.push('\n');
        }
        let packed = File::create(shared.join(format!("{block}.gz")))?;
        let mut gzip = Command::new("gzip").arg("-1").stdin(Stdio::piped()).stdout(packed).spawn()?;
        gzip.stdin.take().ok_or("it was asked for")?.write_all(text.as_bytes())?;
        if !gzip.wait()?.success() {
            return Err("gzip failed".into());
        }
    }
    let mut lines = String::new();
    for _ in 0..tasks {
        let word: String = (0..24).map(|_| ['A', 'C', 'G', 'T'][numbers.below(4) as usize]).collect();
        lines.push_str(&format!("{word} {}\n", numbers.below(BLOCKS)));
    }
    fs::write(home.join("lines"), lines)?;
    Ok(())
}
