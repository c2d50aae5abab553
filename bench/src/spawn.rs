//! Real processes: against the machine's own limit, a loop that does nothing but spawn and wait.

#![expect(unsafe_code, reason = "starts processes as the C library does, to compare with")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Bench;
use crate::measure::{cpus, median_of};
use crate::row::{BoxError, Row};

/// Rounds, in turns.
const ROUNDS: usize = 3;

/// 50 000 programs with output files on one worker, and by the bare loop.
///
/// # Errors
/// When either fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(50_000);
    let spawners = cpus();
    let cluster = bench.cluster(&[], 1, &["--cpus", &spawners.to_string()])?;
    let ids = format!("1-{count}");
    let (mut ours, mut limits) = (Vec::new(), Vec::new());
    // Files stay until the end: some file systems make new ones slowly for a while after many were removed.
    for round in 0..ROUNDS {
        let directory = cluster.home().join(format!("bare-{round}"));
        fs::create_dir(&directory)?;
        limits.push(bare(&directory, count, spawners)?.as_secs_f64());
        let path = |suffix: &str| format!("ours-{round}/%{{TASK_ID}}.{suffix}");
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        let submit = ["submit", "--array", &ids, "--stdout", &stdout, "--stderr", &stderr, "--wait"];
        ours.push(cluster.run(&[&submit[..], &["--", "/bin/true"]].concat())?.as_secs_f64());
    }
    let (ours, limit) = (median_of(ours), median_of(limits));
    let rate = |seconds: f64| f64::from(count) / seconds;
    let value = format!("{:.0}/s; {spawners} bare spawners {:.0}/s", rate(ours), rate(limit));
    Ok(vec![Row::at_most("spawn", value, "within 10 % of the bare loop", ours / limit, 1.1)])
}

// As a C program would do it: `spawners` threads, each with `posix_spawn` and `waitpid` in a loop.
fn bare(directory: &Path, count: u32, spawners: usize) -> Result<Duration, BoxError> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..spawners)
            .map(|first| {
                scope.spawn(move || {
                    (first..count as usize).step_by(spawners).try_for_each(|task| spawn(directory, task))
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))))
    })?;
    Ok(begun.elapsed())
}

fn spawn(directory: &Path, task: usize) -> io::Result<()> {
    let path = |suffix: &str| {
        CString::new(format!("{}/{task}.{suffix}", directory.display())).map_err(io::Error::other)
    };
    let (out, err) = (path("stdout")?, path("stderr")?);
    let arguments = [c"/bin/true".as_ptr().cast_mut(), ptr::null_mut()];
    let environment: [*mut libc::c_char; 1] = [ptr::null_mut()];
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let mut pid = 0;
    let mut status = 0;
    // SAFETY: the actions are initialised before and destroyed after use; every pointer outlives the
    // calls; the arrays end with null pointers; the pid waited for is the child's.
    unsafe {
        let mut actions = std::mem::zeroed();
        check(libc::posix_spawn_file_actions_init(&mut actions))?;
        let result = (|| {
            check(libc::posix_spawn_file_actions_addopen(
                &mut actions,
                0,
                c"/dev/null".as_ptr(),
                libc::O_RDONLY,
                0,
            ))?;
            check(libc::posix_spawn_file_actions_addopen(&mut actions, 1, out.as_ptr(), flags, 0o644))?;
            check(libc::posix_spawn_file_actions_addopen(&mut actions, 2, err.as_ptr(), flags, 0o644))?;
            let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
            check(libc::posix_spawn(
                &mut pid,
                c"/bin/true".as_ptr(),
                &actions,
                ptr::null(),
                arguments,
                environment,
            ))?;
            if libc::waitpid(pid, &mut status, 0) == pid { Ok(()) } else { Err(io::Error::last_os_error()) }
        })();
        libc::posix_spawn_file_actions_destroy(&mut actions);
        result?;
    }
    if status == 0 { Ok(()) } else { Err(io::Error::other(format!("the child ended with status {status}"))) }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
