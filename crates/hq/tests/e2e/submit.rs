//! Submitting: what reaches the tasks, and what `submit` says.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use crate::cluster::{Cluster, Process};

#[test]
fn arrays_entries_and_variables_reach_the_tasks() {
    let cluster = Cluster::new();
    cluster.write("lines", "first\nsecond line\n");
    cluster.write("list.json", r#"[{"a": 1}, "x"]"#);
    cluster.ok("submit --wait --array 2-6:2 --env X=y -- sh -c 'echo $HQ_JOB_ID $HQ_TASK_ID $HQ_INSTANCE_ID $X %{TASK_ID}'");
    assert_eq!(cluster.ok("job cat 1 stdout"), "1 2 0 y 2\n1 4 0 y 4\n1 6 0 y 6\n");
    cluster.ok("submit --wait --each-line lines -- sh -c 'echo \"$HQ_TASK_ID=$HQ_ENTRY\"'");
    assert_eq!(cluster.ok("job cat 2 stdout"), "0=first\n1=second line\n");
    cluster.ok("submit --wait --from-json list.json --array 1-5 -- sh -c 'echo \"$HQ_TASK_ID=$HQ_ENTRY\"'");
    assert_eq!(cluster.ok("job cat 3 stdout"), "1=\"x\"\n");
}

#[test]
fn messages_are_those_scripts_look_for() {
    let cluster = Cluster::new();
    assert_eq!(cluster.ok("submit true"), "Job submitted successfully, job ID: 1\n");
    assert_eq!(cluster.ok("--output-mode=quiet submit true"), "2\n");
    assert_eq!(cluster.json("submit true")["id"], 3);
    let ran = cluster.hq("--output-mode=quiet submit --array 1-600 --stdout same --wait true");
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "4\n", ""), "quiet means quiet");
    let ran = cluster.hq("submit --array 1-2 --stdout same --stderr none true");
    assert!(
        ran.stderr.starts_with("WARN You have submitted an array job, but the `stdout` path does not"),
        "{ran:?}"
    );
    assert_eq!(
        cluster.json("submit --array 1-2 --stdout same true")["warnings"][0].as_str().map(|w| &w[..3]),
        Some("You")
    );
}

#[test]
fn waiting_tells_success_from_failure() {
    let cluster = Cluster::new();
    let ran = cluster.hq("submit --wait true");
    assert_eq!((ran.exit, ran.stdout.as_str()), (0, "Job submitted successfully, job ID: 1\n"));
    assert!(ran.stderr.ends_with(": 1 job finished\n"), "{ran:?}");
    cluster.fails(1, "submit --wait false");
    cluster.fails(1, "submit --progress false");
    cluster.ok("submit --wait --allow-failures false");
    let ran = cluster.hq("--output-mode=json submit --wait false");
    assert_eq!(ran.exit, 1);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one document");
    assert_eq!((&document["id"], &document["wait"]["failed"]), (&5.into(), &1.into()));
}

#[test]
fn a_wait_that_breaks_says_which_job_it_was_for() {
    let mut cluster = Cluster::new();
    let (heard, work) = (cluster.pipe("heard"), cluster.work());
    let script = "\"$HQ\" task notify now; exec sleep 1000";
    // The client runs the program while it waits.
    let wait = |cluster: &Cluster, name: &str| {
        let options = ["--output-mode=json", "submit", "--wait", "--reconnect-timeout=0s"];
        let mut command = cluster.command(options);
        command.args(["--on-notify", "sh -c 'echo up > heard'", "--", "sh", "-c", script]);
        command.stdout(File::create(work.join(name)).expect("a file")).stderr(Stdio::null());
        let process = Process::start(command);
        assert_eq!(cluster.line_from(&heard), "up");
        process
    };
    let said = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(work.join(name)).expect("a file")).expect("one document")
    };
    let process = wait(&cluster, "interrupted");
    process.signal(2);
    assert_eq!(process.end(), 130);
    let document = said("interrupted");
    assert_eq!((&document["id"], &document["code"]), (&1.into(), &"interrupted".into()), "{document}");
    let process = wait(&cluster, "lost");
    drop(cluster.server.take());
    assert_eq!(process.end(), 3);
    let document = said("lost");
    assert_eq!((&document["id"], &document["code"]), (&2.into(), &"server-lost".into()), "{document}");
    assert_eq!(document["schema_version"], 1);
}

#[test]
fn whoever_interrupts_a_wait_is_told_that_the_job_goes_on() {
    let cluster = Cluster::server();
    cluster.ok("submit true");
    cluster.ok("submit true");
    let broken = |line: &str, signal: i32| {
        let mut command = cluster.command(line.split(' '));
        let file = |name: &str| File::create(cluster.path(name)).expect("a file");
        command.stdout(file("out")).stderr(file("err"));
        let process = Process::start(command);
        process.until_it_catches(signal);
        process.signal(signal);
        assert_eq!(process.end(), 128 + signal, "{line}");
        (cluster.read("out"), cluster.read("err"))
    };
    for (line, what, how) in [
        ("job wait last", "job 2 continues", "use `hq job wait 2` to wait for it again"),
        ("job wait all", "the jobs continue", "use `hq job wait all` to wait for all jobs"),
        ("job progress 1-2", "jobs 1-2 continue", "use `hq job progress 1-2` to wait for them again"),
        ("submit --wait true", "job 3 continues", "use `hq job wait 3` to wait for it again"),
        ("submit --progress true", "job 4 continues", "use `hq job progress 4` to wait for it again"),
    ] {
        let (_, said) = broken(line, libc::SIGINT);
        assert_eq!(said, format!("ERROR The wait was interrupted; {what}\nhint: {how}\n"), "{line}");
    }
    for line in ["job wait last", "job progress last", "submit --wait true"] {
        let (printed, said) = broken(&format!("--output-mode=json {line}"), libc::SIGTERM);
        let document: serde_json::Value = serde_json::from_str(&printed).expect("one document");
        assert_eq!((&document["code"], &document["schema_version"]), (&"interrupted".into(), &1.into()));
        assert_eq!(said, "", "{line}");
    }
}

#[test]
fn a_script_as_workflow_managers_write_it() {
    let cluster = Cluster::new();
    let work = cluster.work();
    cluster.write(
        ".command.run",
        format!(
            "#!/bin/bash\n#HQ --name nf-task\n#HQ --cwd {}\n#HQ --cpus 1\n#HQ --time-limit 3600sec\n\
             set -e\necho \"in $PWD as $0\" > ran\n",
            work.display()
        ),
    );
    let ran = cluster.hq("--output-mode=quiet submit --directives=file .command.run");
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "1\n", ""));
    cluster.ok("job wait 1");
    assert!(cluster.read("ran").starts_with(&format!("in {} as ", work.display())));
    assert_eq!(cluster.json("job list --all")[0]["name"], "nf-task");
    assert_eq!(cluster.ok("--output-mode=quiet job list --all"), "1 FINISHED\n");
}

#[test]
fn standard_input_is_fed_to_every_task() {
    let cluster = Cluster::new();
    cluster.write("data", "3\n1\n2\n");
    cluster.ok("submit --wait --array 1-2 --stdin=data sort");
    assert_eq!(cluster.ok("job cat 1 stdout"), "1\n2\n3\n1\n2\n3\n");
    cluster.write("script", "#!/bin/sh\n#HQ --name piped\necho \"from $0\"\n");
    let mut command = cluster.command(["submit", "--wait", "--directives", "stdin"]);
    command.stdin(std::fs::File::open(cluster.path("script")).expect("a file"));
    assert!(command.status().expect("hq can be run").success());
    assert!(cluster.ok("job cat 2 stdout").starts_with("from "));
    assert_eq!(cluster.json("job list --all")[1]["name"], "piped");
}

#[test]
fn bytes_that_are_no_text_arrive() {
    let cluster = Cluster::new();
    cluster.write("entries", b"\xff\xfe\n");
    let odd = || OsString::from_vec(b"a\xffb".to_vec());
    let line: Vec<OsString> =
        ["submit", "--wait", "--each-line", "entries", "--cwd"].into_iter().map(OsString::from).collect();
    let rest: Vec<OsString> = ["--", "sh", "-c", "printf '%s' \"$1$HQ_ENTRY\" > out", "sh"]
        .into_iter()
        .map(OsString::from)
        .collect();
    let args = line.into_iter().chain([odd()]).chain(rest).chain([odd()]);
    let ran = cluster.run(args);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let written = std::fs::read(cluster.path(odd()).join("out")).expect("an output");
    assert_eq!(written, b"a\xffb\xff\xfe");
    assert_eq!(cluster.hq("job info 1").exit, 0);
    cluster.json("job info 1");
}

#[test]
fn open_jobs_take_submits_until_they_are_closed() {
    let cluster = Cluster::new();
    assert_eq!(cluster.json("job open --name sweep")["id"], 1);
    cluster.ok("submit --job 1 --wait -- echo zero");
    cluster.ok("submit --job 1 --wait --array 5-6 -- echo %{TASK_ID}");
    cluster.ok("submit --job 1 --wait -- echo seven");
    assert_eq!(cluster.ok("job task-ids 1"), "0,5-7\n");
    let again = cluster.fails(1, "submit --job 1 --array 6 true");
    assert!(again.contains("Task 6 already exists in job 1."), "{again}");
    assert!(cluster.ok("job list").contains("| *1 | sweep | OPENED |     4 |"));
    cluster.ok("job wait 1 --without-close");
    cluster.ok("job cancel 1");
    cluster.ok("submit --job 1 --wait -- echo eight");
    cluster.ok("job close 1");
    cluster.ok("job wait 1");
    let closed = cluster.fails(1, "submit --job 1 true");
    assert!(closed.contains("Job 1 is not open.") && closed.contains("hint: it was closed"), "{closed}");
    let closed = cluster.fails(1, "job close 1");
    assert!(
        closed.contains("Closing job 1 failed; job is already closed")
            && closed.contains("there is nothing to close"),
        "{closed}"
    );
    cluster.ok("job open");
    let open = cluster.fails(1, "job forget 2");
    assert!(open.contains("Job 2 has not ended yet.") && open.contains("`hq job close 2`"), "{open}");
}

#[test]
fn failed_tasks_are_retried_as_new_instances() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --retry 2 --stdout 'o-%{INSTANCE_ID}' -- sh -c 'echo $HQ_INSTANCE_ID; test $HQ_INSTANCE_ID = 2'");
    assert_eq!((cluster.read("o-0"), cluster.read("o-2")), ("0\n".into(), "2\n".into()));
    cluster.fails(1, "submit --wait --retry 3 --retry-on 7 --stdout 'p-%{INSTANCE_ID}' -- sh -c 'exit 8'");
    assert!(!cluster.path("p-1").exists(), "exit code 8 is not retried");
    assert_eq!(cluster.json("task info 1 0")[0]["instance"], 2);
}

#[test]
fn notifications_reach_whoever_waits() {
    let cluster = Cluster::new();
    cluster.write("note.sh", "#!/bin/sh\necho \"$HQ_JOB_ID.$HQ_TASK_ID on $HQ_WORKER_ID: $1 $2\" >> notes\n");
    for _ in 0..5 {
        cluster.ok(
            "submit --wait --on-notify 'sh note.sh said' -- sh -c '\"$HQ\" task notify \"at $HQ_TASK_ID\"'",
        );
    }
    let expected: Vec<String> = (1..=5).map(|job| format!("{job}.0 on 1: said at 0")).collect();
    assert_eq!(cluster.read("notes").lines().collect::<Vec<_>>(), expected);
    assert!(cluster.fails(1, "task notify x").contains("only inside a running task"));
    cluster.ok("submit --wait -- sh -c 'printf %s \"$HQ_ACCESS_KEY\" > key'");
    cluster.ok(
        "submit --wait -- sh -c 'HQ_ACCESS_KEY=$(cat key) \"$HQ\" task notify late 2> refused; test $? = 1'",
    );
    assert!(cluster.read("refused").contains("does not run any more"), "{}", cluster.read("refused"));
}

#[test]
fn a_variable_of_the_worker_is_replaced_and_not_there_twice() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --env PATH=/usr/bin:/bin --env HOME=/x -- env");
    let output = cluster.ok("job cat last stdout");
    let of = |name: &str| output.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    assert_eq!(of("PATH="), ["PATH=/usr/bin:/bin"]);
    assert_eq!(of("HOME="), ["HOME=/x"]);
    assert_eq!(of("HQ_SERVER_DIR=").len(), 1);
}

#[test]
fn an_error_file_says_why_a_task_failed() {
    let cluster = Cluster::new();
    cluster.fails(1, "submit --wait --task-dir -- sh -c 'touch $HQ_TASK_DIR/x; echo out of luck > $HQ_ERROR_FILENAME; exit 1'");
    let task = &cluster.json("task info last 0")[0];
    assert!(task["error"].as_str().is_some_and(|e| e.contains("out of luck")), "{task}");
    assert!(cluster.ok("job info 1").contains("out of luck"));
}

#[test]
fn whoever_waits_for_a_submit_to_an_open_job_does_not_wait_for_its_close() {
    let cluster = Cluster::new();
    cluster.ok("job open");
    for id in [7, 8] {
        cluster.write(&format!("{id}.toml"), format!("[[task]]\nid = {id}\ncommand = [\"true\"]\n"));
    }
    for line in [
        "submit --job 1 --wait -- true",
        "job submit-file --job 1 --wait 7.toml",
        "job submit-file --job last --progress 8.toml",
    ] {
        let ran = cluster.hq(line);
        assert!(ran.exit == 0 && ran.stderr.contains("Wait ended after "), "{line}: {ran:?}");
        assert!(
            ran.stderr.contains("Job 1 is open: waiting for all tasks that it has now"),
            "{line}: {ran:?}"
        );
    }
    // Others keep waiting for the close.
    assert!(cluster.ok("job info 1").contains("open"));
}
