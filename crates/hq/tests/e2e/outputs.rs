//! Where outputs go, and `job cat`.

use serde_json::Value;

use crate::cluster::{Cluster, Ran};

#[test]
fn outputs_go_where_they_were_sent() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait -- sh -c 'echo out; echo err >&2'");
    assert_eq!(
        (cluster.read("job-1/0.stdout"), cluster.read("job-1/0.stderr")),
        ("out\n".into(), "err\n".into())
    );
    cluster.ok(
        "submit --wait --array 7 --cwd 'runs/%{JOB_ID}' --stdout 'o/%{TASK_ID}-%{INSTANCE_ID}' --stderr none -- sh -c 'echo out; pwd'",
    );
    let cwd = cluster.path("runs/2");
    assert_eq!(cluster.read("runs/2/o/7-0"), format!("out\n{}\n", cwd.display()));
    assert!(!cluster.path("job-2").exists());
    cluster.ok("submit --wait --stdout same --stderr same -- sh -c 'echo out; echo err >&2'");
    let both = cluster.read("same");
    assert!(both.contains("out") && both.contains("err"), "{both}");
}

#[test]
fn outputs_of_finished_tasks_can_be_removed() {
    let cluster = Cluster::new();
    cluster.hq("submit --wait --array 0-1 --stdout :rm-if-finished --stderr :rm-if-finished -- sh -c 'echo x; exit $HQ_TASK_ID'");
    assert!(!cluster.path("job-1/0.stdout").exists());
    assert_eq!(cluster.read("job-1/1.stdout"), "x\n");
    let ran = cluster.hq("job cat 1 stdout");
    let removed =
        "WARN The output of 1 task of job 1 was removed when it finished, as :rm-if-finished asks\n";
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "x\n", removed));
}

#[test]
fn outputs_with_nothing_in_them_can_be_removed() {
    let cluster = Cluster::new();
    let empty = "--stdout :rm-if-empty --stderr 'err/%{TASK_ID}:rm-if-empty'";
    let task = "sh -c 'test $HQ_TASK_ID = 1 && echo x; test $HQ_TASK_ID = 2 && echo y >&2; exit $HQ_TASK_ID'";
    cluster.hq(&format!("submit --wait --array 0-2 {empty} -- {task}"));
    let there = ["job-1/0.stdout", "job-1/1.stdout", "job-1/2.stdout", "err/0", "err/1", "err/2"];
    assert_eq!(there.map(|file| cluster.path(file).exists()), [false, true, false, false, false, true]);
    let ran = cluster.hq("job cat 1 stdout");
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "x\n", ""));
    assert_eq!(cluster.ok("task tail 1@0"), "");
    assert_eq!(cluster.json("job failures 1")["causes"][1]["text"], Value::Null);
    assert_eq!(
        cluster.json("job info 1")[0]["submits"][0]["array"]["program"]["stdout_on_close"],
        "rm-if-empty"
    );
}

#[test]
fn cat_prints_what_was_asked_for() {
    let cluster = Cluster::new();
    cluster.hq("submit --wait --array 1-4 -- sh -c 'echo o$HQ_TASK_ID; echo e$HQ_TASK_ID >&2; test $HQ_TASK_ID != 3'");
    assert_eq!(cluster.ok("job cat 1 stdout"), "o1\no2\no3\no4\n");
    assert_eq!(cluster.ok("job cat last --tasks 2,4 stderr"), "e2\ne4\n");
    assert_eq!(cluster.ok("job cat 1 --task-status failed stdout"), "o3\n");
    assert_eq!(
        cluster.ok("job cat 1 --tasks 1-2 --print-task-header stdout"),
        "# Job 1, task 1\no1\n# Job 1, task 2\no2\n"
    );
    assert!(cluster.fails(2, "job cat all stdout").contains("`all` is not accepted here"));
    let ran = cluster.hq("--output-mode json job cat 1 stdout");
    assert_eq!(ran.exit, 2);
    std::fs::remove_file(cluster.path("job-1/2.stdout")).expect("an output");
    let ran = cluster.hq("job cat 1 stdout");
    assert_eq!((ran.exit, ran.stdout.as_str()), (1, "o1\no3\no4\n"), "{ran:?}");
    assert!(ran.stderr.contains("2.stdout"), "{ran:?}");
}

#[test]
fn cat_says_why_it_prints_nothing() {
    let cluster = Cluster::server();
    let says = |line: &str, text: &str| {
        let ran = cluster.hq(line);
        assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", text), "{line}");
        assert_eq!(cluster.hq(&format!("--output-mode quiet {line}")).stderr, "", "{line}");
    };
    cluster.ok("job open");
    says("job cat 1 stdout", "WARN Job 1 has no tasks\n");
    cluster.ok("submit --stdout none true");
    says(
        "job cat 2 stdout",
        "WARN No task of job 2 has a `stdout` stream associated with it: it is not written to files\n",
    );
    let none_of = "WARN None of these tasks of job 2 has started";
    says("job cat 2 stderr", &format!("{none_of} yet: they have no output\n"));
    says("job cat 2 --tasks 0 stderr", &format!("{none_of} yet: they have no output\n"));
    cluster.ok("job cancel 2");
    says("job cat 2 stderr", &format!("{none_of}: they have no output\n"));
}

#[test]
fn cat_has_nothing_of_a_task_that_could_not_be_started() {
    let cluster = Cluster::new();
    cluster.write("file", "");
    for (job, options) in [(1, "-- no-such-program"), (2, "--cwd file/below -- true")] {
        cluster.fails(1, &format!("submit --wait {options}"));
        let ran = cluster.hq(&format!("job cat {job} stdout"));
        assert_eq!((ran.exit, ran.stdout.as_str()), (0, ""), "{options}: {ran:?}");
        assert!(!ran.stderr.contains("ERROR"), "{options}: {ran:?}");
    }
}

#[test]
fn nobody_reading_ends_a_client_quietly() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait -- sh -c 'yes | head -n 300000'");
    let pipeline = "\"$0\" job cat 1 stdout | head -n 1; echo ${PIPESTATUS[0]}";
    let output = std::process::Command::new("bash")
        .args(["-c", pipeline, env!("CARGO_BIN_EXE_hq")])
        .env("HQ_SERVER_DIR", cluster.server_dir())
        .output()
        .expect("bash can be run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y\n141\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn commands_end_quietly_when_nobody_reads() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait -- true");
    for line in [
        "run --array 1-3 -- true",
        "run --output-mode json -- true",
        "job info last",
        "job list --all",
        "--help",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = cluster.command(line.split(' '));
        let ran: Ran = command.stdout(writer).output().expect("hq can be run").into();
        assert_eq!((ran.exit, ran.stderr.as_str()), (141, ""), "{line}");
    }
}

#[test]
fn a_full_standard_output_is_named() {
    let cluster = Cluster::new();
    let failed = "ERROR cannot write to standard output: No space left on device (os error 28)";
    for (line, end) in [
        ("job list", ""),
        ("--output-mode json job list", ""),
        ("journal replay", ""),
        ("--help", ""),
        ("run -- true", ""),
        ("submit -- true", "; job 1 was submitted"),
        ("--output-mode json submit -- true", "; job 2 was submitted"),
        ("submit --wait -- true", "; job 3 was submitted"),
        ("job open", "; job 4 is open"),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = cluster.command(line.split(' '));
        let ran: Ran = command.stdout(full).output().expect("hq can be run").into();
        assert_eq!((ran.exit, ran.stderr), (1, format!("{failed}{end}\n")), "{line}");
    }
}

#[test]
fn a_named_pipe_is_opened_once() {
    let cluster = Cluster::new();
    for job in 1..=4 {
        let pipe = cluster.pipe(&format!("out-{job}"));
        let reader = std::thread::spawn(move || std::fs::read_to_string(pipe));
        // The directory of standard error is made meanwhile.
        cluster.ok(&format!("submit --wait --stdout out-{job} -- sh -c 'echo all; echo err >&2'"));
        assert_eq!(reader.join().expect("a thread").expect("a text"), "all\n");
        assert_eq!(cluster.read(format!("job-{job}/0.stderr")), "err\n");
    }
}
