//! Programs that end, hang, flood and leave others behind.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn bounds(time: Duration) -> Bounds<'static> {
    Bounds { time, keep: Keep::First(1 << 20), grace: Duration::ZERO, stop: None }
}

fn sh(script: &str, bounds: &Bounds<'_>) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    run(&mut command, bounds).expect("it runs")
}

#[test]
fn output_and_status_come_back() {
    let ended = sh("echo out; echo err >&2; exit 3", &Bounds { grace: MINUTE, ..bounds(MINUTE) });
    let How::Status(status) = ended.how else { panic!("{ended:?}") };
    assert_eq!(
        (status.code(), &ended.stdout[..], &ended.stderr[..]),
        (Some(3), &b"out\n"[..], &b"err\n"[..])
    );
}

#[test]
fn what_it_is_given_need_not_be_read() {
    let file = || input(&[b'x'; 1 << 20]).expect("room");
    for script in ["exit 0", "test $(wc -c) = 1048576"] {
        let mut command = Command::new("sh");
        let ended = run(command.args(["-c", script]).stdin(file()), &bounds(MINUTE)).expect("it runs");
        assert!(matches!(ended.how, How::Status(status) if status.success()), "{ended:?}");
    }
}

#[test]
fn what_floods_is_cut() {
    let keep = Keep::Last(1000);
    let ended = sh("head -c 20000000 /dev/zero", &Bounds { keep, grace: MINUTE, ..bounds(MINUTE) });
    assert_eq!(ended.stdout.len(), 1000);
}

#[test]
fn a_program_that_is_not_there_cannot_be_run() {
    let error = run(&mut Command::new("/no/such/program"), &bounds(MINUTE)).expect_err("not there");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

// A pipe is read to its end when nobody holds its other end any more: so all have ended then.
#[test]
fn what_is_stopped_is_killed_with_all_it_started_in_whatever_session() {
    let dir = tempfile::tempdir().expect("a directory");
    let [held, ready] = ["held", "ready"].map(|name| pipe(&dir.path().join(name)));
    let script = format!(
        "exec 9> {}; setsid sh -c 'echo > {}; sleep 1000; true' & sleep 1000",
        held.display(),
        ready.display()
    );
    let stop = Stop::default();
    let ended = thread::scope(|scope| {
        let held = scope.spawn(|| std::fs::read(&held).expect("all have closed it"));
        scope.spawn(|| {
            std::fs::read(&ready).expect("the one in another session is there");
            stop.end();
        });
        let ended = sh(&script, &Bounds { stop: Some(&stop), ..bounds(MINUTE) });
        held.join().expect("it was read to its end");
        ended
    });
    assert_eq!(ended.how, How::Stopped);
}

fn pipe(path: &Path) -> PathBuf {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("a pipe");
    path.to_owned()
}

#[test]
fn a_time_limit_ends_a_program_and_nothing_begins_behind_a_stop() {
    assert_eq!(sh("sleep 1000 & sleep 1000", &bounds(Duration::from_millis(10))).how, How::TimedOut);
    let stop = Stop::default();
    stop.end();
    let ended = sh("exit 0", &Bounds { stop: Some(&stop), ..bounds(MINUTE) });
    assert_eq!(ended.how, How::Stopped);
}
