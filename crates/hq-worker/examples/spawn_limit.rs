//! How close the launcher comes to the machine's own limit: tasks a second of the launcher, of the launcher with what
//! follows each start said beforehand, and of a plain `posix_spawn` + `wait4` loop on as many threads, all with two
//! output files a task, in turns in one run.
//! On a busy machine look at the processor time a task: it wobbles less.
//!
//! `spawn_limit [TASKS] [AT ONCE] [ROUNDS]`

#![expect(unsafe_code, reason = "starts processes as the C library does, to compare with")]

use std::ffi::{CString, c_char};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hq_worker::launcher::{End, Launcher, Order, Slot};

const PROGRAM: &[u8] = b"/bin/true";

fn main() -> io::Result<()> {
    let mut launcher = Launcher::fork()?;
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let tasks = numbers.next().unwrap_or(2_000);
    let at_once =
        numbers.next().unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let rounds = numbers.next().unwrap_or(11);
    let mut out = io::stdout().lock();
    let mut ratios = [Vec::new(), Vec::new()];
    let mut cpu_ratios = ratios.clone();
    let mut generations = vec![0; 2 * at_once];
    for round in 0..rounds {
        let pid = launcher.pid();
        let plain = measure(tasks, pid, |dir| plain_loop(dir, tasks, at_once))?;
        writeln!(
            out,
            "round {round}: posix_spawn {:.0}/s, {:.0} us of processor time each",
            plain.per_second, plain.cpu_us
        )?;
        for armed in [false, true] {
            let ours = measure(tasks, pid, |dir| {
                through_launcher(&mut launcher, dir, tasks, &mut generations, armed)
            })?;
            ratios[usize::from(armed)].push(ours.per_second / plain.per_second);
            cpu_ratios[usize::from(armed)].push(plain.cpu_us / ours.cpu_us);
            let how = if armed { "followers said" } else { "launcher" };
            writeln!(out, "    {how} {:.0}/s, {:.0} us", ours.per_second, ours.cpu_us)?;
        }
    }
    let median = |ratios: &mut Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    };
    writeln!(out, "launcher / posix_spawn, median of {rounds} rounds of {tasks} tasks, {at_once} at once:")?;
    for (how, (speed, cpu)) in ["", ", followers said"].iter().zip(ratios.iter_mut().zip(&mut cpu_ratios)) {
        let (speed, cpu) = (median(speed), median(cpu));
        writeln!(out, "speed {speed:.3}, tasks for the same processor time {cpu:.3}{how}")?;
    }
    Ok(())
}

struct Measured {
    per_second: f64,
    cpu_us: f64,
}

fn measure(tasks: usize, launcher: u32, body: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Measured> {
    let dir = std::env::temp_dir().join(format!("hq-spawn-limit-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let cpu = cpu_seconds(launcher)?;
    let start = Instant::now();
    let result = body(&dir);
    let elapsed = start.elapsed();
    let cpu = cpu_seconds(launcher)? - cpu;
    fs::remove_dir_all(&dir)?;
    let tasks = tasks as f64;
    result.map(|()| Measured { per_second: tasks / elapsed.as_secs_f64(), cpu_us: cpu * 1e6 / tasks })
}

/// Processor time of this process, the launcher and all that they have waited for.
fn cpu_seconds(launcher: u32) -> io::Result<f64> {
    let mut seconds = 0.0;
    for pid in [launcher, std::process::id()] {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(4).filter_map(|f| f.parse::<f64>().ok());
        // SAFETY: a plain query.
        seconds += ticks.sum::<f64>() / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    }
    Ok(seconds)
}

fn plain_loop(dir: &Path, tasks: usize, threads: usize) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let variables: Vec<CString> = environment();
    let mut env: Vec<*mut c_char> = variables.iter().map(|v| v.as_ptr().cast_mut()).collect();
    env.push(std::ptr::null_mut());
    let env = env.as_ptr() as usize;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= tasks {
                        return;
                    }
                    spawn_and_wait(dir, number, env as *const *mut c_char);
                }
            });
        }
    });
    Ok(())
}

fn spawn_and_wait(dir: &Path, number: usize, env: *const *mut c_char) {
    let path = |channel: &str| CString::new(output(dir, number, channel)).expect("no NUL");
    let program = CString::new(PROGRAM).expect("no NUL");
    let args = [program.as_ptr().cast_mut(), std::ptr::null_mut()];
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    // SAFETY: all pointers outlive the calls; the structures are initialized before they are used.
    unsafe {
        let mut actions = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_addopen(&mut actions, 0, c"/dev/null".as_ptr(), libc::O_RDONLY, 0);
        libc::posix_spawn_file_actions_addopen(&mut actions, 1, path("stdout").as_ptr(), flags, 0o666);
        libc::posix_spawn_file_actions_addopen(&mut actions, 2, path("stderr").as_ptr(), flags, 0o666);
        let mut pid = 0;
        let result =
            libc::posix_spawn(&mut pid, program.as_ptr(), &actions, std::ptr::null(), args.as_ptr(), env);
        assert_eq!(result, 0, "posix_spawn of {}", String::from_utf8_lossy(PROGRAM));
        libc::posix_spawn_file_actions_destroy(&mut actions);
        let mut status = 0;
        let mut usage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        assert_eq!(status, 0);
    }
}

fn through_launcher(
    launcher: &mut Launcher,
    dir: &Path,
    tasks: usize,
    generations: &mut [u32],
    armed: bool,
) -> io::Result<()> {
    let mut started = 0;
    let mut ended = Vec::new();
    let at_once = generations.len() / 2;
    let program = [PROGRAM, b"\0"].concat();
    let mut start = |launcher: &mut Launcher, index: u32, number: usize, after: Option<Slot>| {
        generations[index as usize] += 1;
        let (stdout, stderr) = (output(dir, number, "stdout"), output(dir, number, "stderr"));
        let slot = Slot { index, generation: generations[index as usize] };
        let order = Order {
            slot,
            after,
            programs: &program,
            args: &program,
            cwd: b"/",
            stdout: stdout.as_bytes(),
            stderr: stderr.as_bytes(),
            ..Order::default()
        };
        launcher.start(&order, None).map(|()| slot)
    };
    // The two places of each pair follow each other.
    let partner = |slot: Slot| slot.index ^ 1;
    for pair in 0..at_once.min(tasks) {
        let slot = start(launcher, 2 * pair as u32, started, None)?;
        started += 1;
        if armed && started < tasks {
            start(launcher, partner(slot), started, Some(slot))?;
            started += 1;
        }
    }
    launcher.flush()?;
    let (mut done, mut recalled) = (0, 0);
    while done < tasks {
        launcher.wait()?;
        launcher.receive(&mut ended)?;
        for end in ended.drain(..) {
            let (index, number, after) = match end.end {
                End::Exited(0) => {
                    done += 1;
                    if armed || started == tasks {
                        continue;
                    }
                    (end.slot.index, started, None)
                }
                // The same files once more will do.
                End::Recalled => {
                    recalled += 1;
                    (end.slot.index, started - 1, None)
                }
                End::Begun if started == tasks => continue,
                End::Begun => (partner(end.slot), started, Some(end.slot)),
                other => return Err(io::Error::other(format!("{other:?}"))),
            };
            let slot = start(launcher, index, number, after)?;
            if after.is_none() && number == started - 1 && armed {
                // It runs at once, and needs a follower of its own.
                if started < tasks {
                    start(launcher, partner(slot), started, Some(slot))?;
                    started += 1;
                }
                continue;
            }
            started += 1;
        }
        launcher.flush()?;
    }
    if recalled > 0 {
        writeln!(io::stdout(), "    {recalled} recalled")?;
    }
    Ok(())
}

fn output(dir: &Path, number: usize, channel: &str) -> String {
    let path: PathBuf = dir.join(format!("{number}.{channel}"));
    path.to_str().expect("a temporary directory in UTF-8").to_owned()
}

fn environment() -> Vec<CString> {
    std::env::vars().map(|(k, v)| CString::new(format!("{k}={v}")).expect("no NUL")).collect()
}
