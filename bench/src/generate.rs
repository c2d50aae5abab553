//! Jobs whose lines a generator makes: how soon the first one runs, how many pass, and how far the reducer is behind.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Bench, Cluster};
use crate::measure::{median_of, memory_mb};
use crate::null::NULL;
use crate::row::{BoxError, Row};

/// Jobs whose first task is waited for.
const FIRSTS: usize = 20;
/// A generator may take so long beside what a program takes to start.
const FIRST_MS: f64 = 5.0;
/// Lines that are to pass.
const LINES: u32 = 10_000_000;
/// So many a second.
const LINES_PER_S: f64 = 100_000.0;
/// Lines of the generator that keeps a pace, and its pace.
const PACED: u32 = 500_000;
const PACE: u32 = 50_000;
/// How often the memory of the server is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Memory of the second half beside that of the first one, which is still growing to what is needed.
const FLAT: f64 = 1.25;

// What a line says is the time at which it was printed, in ns, and its task says how long ago that was.
const CLOCK: &str = "date +%s%N";
const SINCE: &str = "echo $(( $(date +%s%N) - HQ_ENTRY ))";

// Counts lines, and says now and then that they are counted.
const COUNT: &str = r##"awk 'NR % 20000 == 0 { print "#hq saved " NR " " NR; fflush() } END { print NR }'"##;

// Prints so many lines with their times, so many a second.
const PACED_LINES: &str = "
import sys, time
lines, pace = int(sys.argv[1]), int(sys.argv[2])
begun = time.time()
for line in range(0, lines, pace // 100):
    time.sleep(max(0, begun + line / pace - time.time()))
    now = time.time()
    sys.stdout.write(f'{now:.6f}\\n' * (pace // 100))
    sys.stdout.flush()
";

// Says how far behind the lines it was at most, but for the first second.
const LAG: &str = "
import json, sys, time
largest, begun, count = 0, None, 0
for line in sys.stdin:
    now, count = time.time(), count + 1
    begun = begun or now
    entry = line if line[0] != '{' else json.loads(line)['entry']
    if now > begun + 1:
        largest = max(largest, now - float(entry))
    if count % 5000 == 0 and line[0] == '{':
        print('#hq saved', count, count, flush=True)
print(largest)
";

/// All of it.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = vec![first(bench)?];
    rows.extend(lines(bench)?);
    rows.push(lag(bench)?);
    Ok(rows)
}

// From the line of a generator to the program of its task, beside the same program started by itself.
fn first(bench: &Bench) -> Result<Row, BoxError> {
    let cluster = bench.cluster(&[], 1, &["--cpus", "2"])?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..if bench.is_quick { FIRSTS / 4 } else { FIRSTS } {
        bare.push(spawned()?);
        let words = ["--generate", CLOCK, "--result", "last-line", "--wait", "--", "sh", "-c", SINCE];
        let job = submit(&cluster, &words)?;
        let result = cluster.read(&["job", "result", &job])?;
        let ns: f64 = result.trim().rsplit(' ').next().unwrap_or_default().parse()?;
        ours.push(ns / 1e6);
    }
    let (ours, bare) = (median_of(ours), median_of(bare));
    let value = format!("{ours:.1} ms, the program alone {bare:.1} ms");
    let target = format!("{FIRST_MS} ms and the program");
    Ok(Row::at_most("generate: first task", value, &target, ours / (bare + FIRST_MS), 1.0))
}

// How long the program of a task takes to say what time it is, in ms.
fn spawned() -> Result<f64, BoxError> {
    let text = format!("export HQ_ENTRY=$({CLOCK}); exec sh -c '{SINCE}'");
    let output = Command::new("sh").args(["-c", &text]).stdin(Stdio::null()).output()?;
    let ns: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(ns / 1e6)
}

// Many lines through a generator, null tasks and a reducer, beside an array of as many null tasks.
fn lines(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(LINES);
    let array = {
        let cluster = bench.cluster(&[], 1, &NULL)?;
        f64::from(count) / cluster.array(count)?.as_secs_f64()
    };
    let mut cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let generator = format!("seq {count}");
    let job = fed(&mut cluster, &generator, COUNT)?;
    let begun = Instant::now();
    let memory = Memory::watch(cluster.server_pid());
    cluster.run(&["job", "wait", &job])?;
    let seconds = begun.elapsed().as_secs_f64();
    let (early, late) = memory.halves()?;
    let counted = cluster.read(&["job", "result", &job])?;
    if counted.trim() != count.to_string() {
        return Err(format!("the reducer has counted {} of {count} lines", counted.trim()).into());
    }
    let rate = f64::from(count) / seconds;
    let value = format!("{rate:.0}/s, an array {array:.0}/s");
    let target = format!("{LINES_PER_S:.0}/s");
    let memory = format!("{late:.0} MB at most, {early:.0} MB in the first half");
    Ok(vec![
        Row::at_most("generate: lines", value, &target, LINES_PER_S / rate, 1.0),
        Row::at_most("generate: memory", memory, "flat", late / early, FLAT),
    ])
}

// From a line that is printed to the reducer that reads what has become of it, beside a pipe between both.
fn lag(bench: &Bench) -> Result<Row, BoxError> {
    let lines = bench.tasks(PACED).max(2 * PACE).to_string();
    let pace = PACE.to_string();
    let mut cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    std::fs::write(cluster.home().join("lines.py"), PACED_LINES)?;
    std::fs::write(cluster.home().join("lag.py"), LAG)?;
    let generator = format!("python3 lines.py {lines} {pace}");
    let bare = Command::new("sh")
        .args(["-c", &format!("{generator} | python3 lag.py")])
        .current_dir(cluster.home())
        .output()?;
    let bare: f64 = String::from_utf8(bare.stdout)?.trim().parse()?;
    let job = fed(&mut cluster, &generator, "python3 lag.py")?;
    cluster.run(&["job", "wait", &job])?;
    let ours: f64 = cluster.read(&["job", "result", &job])?.trim().parse()?;
    let value = format!("{:.0} ms, a pipe {:.0} ms", ours * 1e3, bare * 1e3);
    let name = format!("generate: lag at {PACE}/s");
    Ok(Row::at_most(&name, value, "1 s", ours, 1.0))
}

// Submits a job whose lines null workers take. Generator and reducer are programs, and run elsewhere before there is such a
// worker.
fn fed(cluster: &mut Cluster, generator: &str, reducer: &str) -> Result<String, BoxError> {
    let job = submit(
        cluster,
        &["--generate", generator, "--reduce", reducer, "--resource", "lines=1", "--", "true"],
    )?;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let all = cluster.read(&["--output-mode", "quiet", "job", "list", "--all"])?;
        let running = all.lines().filter(|line| line.to_lowercase().contains("running")).count();
        if running >= 2 {
            break;
        }
        if Instant::now() > until {
            return Err(format!("generator and reducer do not run: {all}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    cluster.start("worker", &[NULL.as_slice(), &["--resource", "lines=sum(64)"]].concat())?;
    Ok(job)
}

fn submit(cluster: &Cluster, words: &[&str]) -> Result<String, BoxError> {
    let begin = ["--output-mode", "quiet", "submit", "--stdout=none", "--stderr=none"];
    let said = cluster.read(&[begin.as_slice(), words].concat())?;
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

// The memory of a process while something goes on.
struct Memory {
    is_over: Arc<AtomicBool>,
    watch: thread::JoinHandle<Vec<f64>>,
}

impl Memory {
    fn watch(pid: u32) -> Memory {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let watch = thread::spawn(move || {
            let mut seen = vec![memory_mb(pid).0];
            while !over.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                seen.push(memory_mb(pid).0);
            }
            seen
        });
        Memory { is_over, watch }
    }

    // The most of the first half of the time, and of the second one.
    fn halves(self) -> Result<(f64, f64), BoxError> {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.watch.join().map_err(|_| "the watch has died")?;
        let most = |seen: &[f64]| seen.iter().copied().fold(0.0, f64::max);
        let (early, late) = seen.split_at(seen.len() / 2);
        Ok((most(early), most(late)))
    }
}
