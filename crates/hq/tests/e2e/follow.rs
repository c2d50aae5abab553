//! Outputs that are followed while tasks run. A task goes on only when its line was seen, so that no clock is needed to tell
//! that it was shown at once.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use crate::cluster::Cluster;
use crate::patience;

/// A command whose output is read while it runs. Killed when it is dropped.
struct Watcher {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Watcher {
    fn new(cluster: &Cluster, line: &str) -> Watcher {
        let mut command = cluster.command(shlex::split(line).expect("words"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("hq can be run");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = child.stderr.take().expect("a pipe");
        Watcher { child, stdout, stderr }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).expect("a line");
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// What else it prints on both channels, and how it ends.
    fn end(mut self) -> (Vec<u8>, String, Option<i32>) {
        let (mut out, mut err) = (Vec::new(), String::new());
        self.stdout.read_to_end(&mut out).expect("output");
        self.stderr.read_to_string(&mut err).expect("output");
        (out, err, self.child.wait().expect("an end").code())
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(status.expect("kill can be run").success());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line, and goes on when the test has seen it.
const TASK: &str =
    "echo one; while ! test -e seen-$HQ_TASK_ID; do sleep 0.01; done; printf two; exit $HQ_TASK_ID";

fn submit(cluster: &Cluster, options: &str, script: &str) {
    cluster.write("task.sh", script);
    cluster.ok(&format!("submit {options} -- sh task.sh"));
}

fn reads(cluster: &Cluster) -> u64 {
    cluster.json("server info")["output_reads"].as_u64().expect("a number")
}

#[test]
fn a_line_is_shown_while_its_task_runs() {
    for options in ["", "--stream out"] {
        let cluster = Cluster::new();
        submit(&cluster, options, TASK);
        let mut tail = Watcher::new(&cluster, "task tail --follow last@0");
        assert_eq!(tail.line(), "one");
        cluster.write("seen-0", "");
        let (out, err, code) = tail.end();
        let out = String::from_utf8_lossy(&out).into_owned();
        let expected = ("two", "Task 1@0 finished with exit code 0\n", Some(0));
        assert_eq!((out.as_str(), err.as_str(), code), expected, "{options}");
        assert_eq!(cluster.ok("task tail 1 0 -n 1"), "two", "{options}");
        assert_eq!(cluster.ok("task tail 1@0 stdout"), "one\ntwo", "{options}");
        assert_eq!(cluster.ok("job cat 1 stdout --follow"), "one\ntwo", "{options}");
    }
}

#[test]
fn a_task_is_followed_from_before_it_starts_to_its_failure() {
    let mut cluster = Cluster::server();
    submit(&cluster, "--array 3", TASK);
    let ran = cluster.hq("task tail 1@3");
    let warning = "WARN Task 1@3 has not started yet, so it has no output\n";
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", warning));
    let mut tail = Watcher::new(&cluster, "task tail -f 1@3");
    let mut said = vec![0; warning.len()];
    tail.stderr.read_exact(&mut said).expect("what is said");
    assert_eq!(String::from_utf8_lossy(&said), warning);
    cluster.worker("--cpus 1");
    assert_eq!(tail.line(), "one");
    assert_eq!(cluster.ok("task tail 1@3"), "one\n");
    cluster.write("seen-3", "");
    let (out, err, code) = tail.end();
    assert_eq!((out.as_slice(), code), (&b"two"[..], Some(0)));
    assert!(err.starts_with("Task 1@3 failed: "), "{err}");
}

#[test]
fn lines_of_many_tasks_come_whole_and_say_of_which_they_are() {
    for options in ["", "--stream out"] {
        let cluster = Cluster::new();
        let tasks = "echo one; while ! test -e seen-$HQ_TASK_ID; do sleep 0.01; done; printf half; echo two; echo e >&2";
        submit(&cluster, &format!("--array 0-1 {options}"), tasks);
        let mut cat = Watcher::new(&cluster, "job cat --follow 1 stdout");
        let mut first = [cat.line(), cat.line()];
        first.sort();
        assert_eq!(first, ["1.0:0> one", "1.1:0> one"]);
        cluster.write("seen-1", "");
        assert_eq!(cat.line(), "1.1:0> halftwo");
        cluster.write("seen-0", "");
        let (out, err, code) = cat.end();
        assert_eq!(
            (String::from_utf8_lossy(&out).as_ref(), err.as_str(), code),
            ("1.0:0> halftwo\n", "", Some(0))
        );
        assert_eq!(cluster.ok("job cat -f 1 stderr --tasks 1"), "e\n");
    }
}

#[test]
fn many_short_tasks_are_all_there_once() {
    let cluster = Cluster::new();
    submit(&cluster, "--array 1-300 --stream out", "echo o$HQ_TASK_ID");
    let out = cluster.ok("job cat --follow 1 stdout");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (1..=300).map(|task| format!("1.{task:03}:0> o{task}")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_submit_waits_and_shows_what_is_printed() {
    let cluster = Cluster::new();
    cluster.write("task.sh", "echo out; echo err >&2; while ! test -e seen; do sleep 0.01; done; exit 3");
    let mut submit = Watcher::new(&cluster, "submit --wait --follow -- sh task.sh");
    assert_eq!(submit.line(), "Job submitted successfully, job ID: 1");
    assert_eq!(submit.line(), "out");
    cluster.write("seen", "");
    let (out, err, code) = submit.end();
    assert_eq!((String::from_utf8_lossy(&out).as_ref(), code), ("", Some(1)));
    assert!(err.starts_with("err\n") && err.contains("Wait ended after"), "{err}");
    assert!(cluster.fails(2, "submit --follow true").contains("--wait"));
    assert!(cluster.fails(2, "--output-mode json submit --wait --follow true").is_empty());
}

#[test]
fn who_is_interrupted_is_told_that_the_job_goes_on() {
    let cluster = Cluster::new();
    submit(&cluster, "", TASK);
    let mut cat = Watcher::new(&cluster, "job cat --follow 1 stdout");
    assert_eq!(cat.line(), "one");
    cat.signal("-INT");
    let (out, err, code) = cat.end();
    assert_eq!((out.as_slice(), code), (&b""[..], Some(130)));
    assert!(err.contains("job 1 continues") && err.contains("hq job wait 1"), "{err}");
    patience::until("no reads", || if reads(&cluster) == 0 { Ok(()) } else { Err("some".to_owned()) });
    cluster.write("seen-0", "");
    cluster.ok("job wait 1");
}

#[test]
fn whoever_ends_a_tail_learns_what_goes_on() {
    let cluster = Cluster::new();
    submit(&cluster, "", TASK);
    for (channel, signal, code) in [("stdout", "-INT", 130), ("stderr", "-TERM", 143)] {
        let tail = Watcher::new(&cluster, &format!("task tail -f 1@0 {channel}"));
        patience::until("the read", || if reads(&cluster) == 1 { Ok(()) } else { Err("none".to_owned()) });
        tail.signal(signal);
        let (_, err, ended) = tail.end();
        assert_eq!(ended, Some(code), "{err}");
        let again = format!("`hq task tail --follow 1@0 {channel}`");
        assert!(err.contains("job 1 continues") && err.contains(&again), "{err}");
    }
    cluster.write("seen-0", "");
    cluster.ok("job wait 1");
}

#[test]
fn what_goes_into_a_log_is_there_at_its_end() {
    let cluster = Cluster::new();
    submit(&cluster, "--log out.log", TASK);
    let tail = Watcher::new(&cluster, "task tail -f 1@0");
    patience::until("the read", || if reads(&cluster) == 1 { Ok(()) } else { Err("none".to_owned()) });
    cluster.write("seen-0", "");
    let (out, err, _) = tail.end();
    let out = String::from_utf8_lossy(&out).into_owned();
    assert_eq!((out.as_str(), err.as_str()), ("one\ntwo", "Task 1@0 finished with exit code 0\n"));
}

#[test]
fn nothing_is_left_of_a_client_that_was_killed() {
    let cluster = Cluster::new();
    submit(&cluster, "", TASK);
    let mut tail = Watcher::new(&cluster, "task tail -f 1@0");
    assert_eq!(tail.line(), "one");
    patience::until("the read", || if reads(&cluster) == 1 { Ok(()) } else { Err("none".to_owned()) });
    drop(tail);
    patience::until("no reads", || if reads(&cluster) == 0 { Ok(()) } else { Err("some".to_owned()) });
    cluster.write("seen-0", "");
    cluster.ok("job wait 1");
}

#[test]
fn a_task_is_followed_until_it_is_canceled() {
    for options in ["", "--stream out"] {
        let cluster = Cluster::new();
        submit(&cluster, options, TASK);
        let mut tail = Watcher::new(&cluster, "task tail -f 1@0");
        assert_eq!(tail.line(), "one");
        cluster.ok("job cancel 1");
        let (out, err, _) = tail.end();
        assert_eq!((out.as_slice(), err.as_str()), (&b""[..], "Task 1@0 canceled\n"), "{options}");
    }
}

#[test]
fn the_next_instance_is_followed_when_a_worker_was_killed() {
    for options in ["", "--stream out"] {
        let mut cluster = Cluster::server_with("--worker-grace 1s");
        cluster.worker("--cpus 1");
        let task = "echo run $HQ_INSTANCE_ID; while ! test -e seen; do sleep 0.01; done";
        submit(&cluster, options, task);
        let mut tail = Watcher::new(&cluster, "task tail -f 1@0");
        assert_eq!(tail.line(), "run 0");
        cluster.worker("--cpus 1");
        cluster.workers.remove(0).signal(libc::SIGKILL);
        assert_eq!(tail.line(), "run 1");
        cluster.write("seen", "");
        let (out, err, _) = tail.end();
        let expected = "Task 1@0 was restarted as instance 1; its output starts over\n\
                        Task 1@0 finished with exit code 0\n";
        assert_eq!((out.as_slice(), err.as_str()), (&b""[..], expected), "{options}");
    }
}

#[test]
fn any_bytes_come_as_they_are() {
    for options in ["", "--stream out"] {
        let cluster = Cluster::new();
        let bytes: Vec<u8> =
            (0..20_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        cluster.write("bytes", &bytes);
        let task = "echo begin; while ! test -e seen; do sleep 0.01; done; cat bytes";
        submit(&cluster, options, task);
        let mut cat = Watcher::new(&cluster, "job cat --follow 1 stdout");
        assert_eq!(cat.line(), "begin");
        cluster.write("seen", "");
        let (out, err, code) = cat.end();
        assert!(out == bytes, "{} bytes are not what was printed", out.len());
        assert_eq!((err.as_str(), code), ("", Some(0)));
    }
}

#[test]
fn what_is_printed_comes_from_its_worker_where_its_file_is_not_there() {
    // The worker has it open when it is gone for all others: as on another machine.
    let cluster = Cluster::new();
    submit(&cluster, "", TASK);
    let mut tail = Watcher::new(&cluster, "task tail -f 1@0");
    assert_eq!(tail.line(), "one");
    std::fs::remove_file(cluster.path("job-1/0.stdout")).expect("a file");
    cluster.write("seen-0", "");
    let (out, ..) = tail.end();
    assert_eq!(out, b"two");
}

#[test]
fn what_cannot_be_followed_is_said() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --stdout none -- true");
    let ran = cluster.hq("task tail 1@0");
    assert_eq!((ran.exit, ran.stderr.as_str()), (0, "WARN Task 1@0 writes no stdout\n"));
    for (line, text) in [
        ("task tail 1", "specify the task of job 1: `1@TASK`"),
        ("task tail 1@0 both", "`both` is not an output"),
        ("task tail 1@0-3", "select a single task by its id"),
        ("--output-mode json task tail 1@0", ""),
        ("job cat --follow 1-2 stdout --print-task-header", "--print-task-header"),
    ] {
        assert!(cluster.fails(2, line).contains(text), "{line}: {}", cluster.fails(2, line));
    }
    cluster.ok("submit --wait -- echo hi");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut tail = cluster.command(["task", "tail", "2@0"]);
    let ran = tail.stdout(full).stderr(Stdio::piped()).output().expect("hq can be run");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("cannot write to standard output: No space left on device"), "{said}");
    assert!(cluster.fails(1, "task tail 1@7").contains("Task 7 not found"));
    assert!(cluster.fails(1, "task tail 9@0").contains("Job 9 not found"));
    std::fs::remove_file(cluster.path("job-1/0.stderr")).expect("a file");
    let gone = cluster.fails(1, "task tail 1@0 stderr");
    assert!(gone.contains("cannot read the stderr of task 1@0"), "{gone}");
}

#[test]
fn what_many_ended_tasks_printed_is_read_together_and_what_is_not_there_is_named() {
    let cluster = Cluster::new();
    let expected: Vec<String> = (1..=1500).map(|task| format!("1.{task:04}:0> line {task}")).collect();
    for (job, options) in ["--log all", "--stream dir", "--stdout none"].iter().enumerate() {
        cluster.ok(&format!("submit --wait --array 1-1500 {options} -- echo 'line %{{TASK_ID}}'"));
        let job = job + 1;
        let ran = cluster.hq(&format!("job cat --follow {job} stdout"));
        assert_eq!((ran.exit, ran.stderr.as_str()), (0, ""), "{options}");
        let lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        if job == 3 {
            assert!(lines.is_empty());
        } else {
            let numbers = |line: &String| line.rsplit(' ').next().map(str::to_owned);
            assert_eq!(
                lines.iter().map(numbers).collect::<Vec<_>>(),
                expected.iter().map(numbers).collect::<Vec<_>>()
            );
        }
    }
    let ran = cluster.hq("job cat --follow 1 stdout --tasks 2,9000-9001");
    assert_eq!((ran.exit, ran.stdout.as_str()), (1, "line 2\n"), "{ran:?}");
    assert!(ran.stderr.contains("Tasks 9000-9001 not found in job 1."), "{ran:?}");
}

/// Prints a line into a log or a stream, and another one when the test says so.
const TWICE: &str = "echo one; while ! test -e seen; do sleep 0.01; done; echo two";

#[test]
fn what_becomes_of_a_file_that_is_followed_is_told_and_what_is_good_is_printed() {
    for (option, place, what) in
        [("--log", "out/it", "removed"), ("--log", "out/it", "emptied"), ("--stream", "out", "removed")]
    {
        for line in ["task tail --follow 1@0", "job cat --follow 1 stdout"] {
            let cluster = Cluster::new();
            submit(&cluster, &format!("{option} {place}"), TWICE);
            let file = || match std::fs::read_dir(cluster.path("out")).into_iter().flatten().next() {
                Some(Ok(entry)) => Ok(entry.path()),
                _ => Err("no file".to_owned()),
            };
            let read = format!("output-log {place} cat stdout --allow-unfinished");
            patience::until("the line", || match cluster.hq(&read) {
                ran if ran.stdout == "one\n" => Ok(()),
                ran => Err(format!("{ran:?}")),
            });
            let mut watcher = Watcher::new(&cluster, line);
            assert_eq!(watcher.line(), "one", "{option} {what} {line}");
            let path = file().expect("a file");
            match what {
                "removed" => std::fs::remove_file(&path).expect("it is there"),
                _ => std::fs::File::create(&path).map(drop).expect("writable"),
            }
            cluster.write("seen", "");
            let (out, err, code) = watcher.end();
            let out = String::from_utf8_lossy(&out).into_owned();
            assert_eq!(code, Some(1), "{option} {what} {line}: {out} {err}");
            assert!(
                err.contains("while it was followed: what it had before may be missing"),
                "{line}: {err}"
            );
            if option == "--log" {
                assert_eq!(out, "two\n", "{option} {what} {line}: {err}");
            }
        }
    }
}

#[test]
fn nothing_that_is_kept_nowhere_is_looked_for_on_another_machine() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("pipe");
    cluster.ok("submit --stdout pipe -- echo hi");
    assert_eq!(cluster.line_from(&pipe), "hi");
    cluster.ok("job wait last");
    for line in ["job cat last stdout", "task tail last@0"] {
        let error = cluster.fails(1, line);
        assert_eq!(error.matches("it is not a regular file").count(), 1, "{line}: {error}");
        assert!(error.contains("a pipe or a device keeps nothing"), "{line}: {error}");
    }
}
