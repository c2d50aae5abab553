//! `hq run`: everything in one process.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::cluster::{Cluster, Place, Process, is_alive};

fn left_behind(place: &Place) -> Vec<String> {
    let root = place.server_dir();
    let entries = std::fs::read_dir(root.parent().expect("a root")).expect("a root");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name != "work").collect()
}

#[test]
fn tasks_run_without_any_server() {
    let place = Place::new();
    place.write("lines", "a\nb\n");
    let shown = place.ok("run --each-line lines -- sh -c 'echo got $HQ_ENTRY'");
    assert!(shown.starts_with("2 tasks in ") && shown.contains(": 2 finished"), "{shown}");
    let stdout = format!("Stdout: {}/job-1/%{{TASK_ID}}.stdout\n", place.work().display());
    assert!(shown.contains(&stdout), "{shown}");
    assert_eq!(
        (place.read("job-1/0.stdout"), place.read("job-1/1.stdout")),
        ("got a\n".into(), "got b\n".into())
    );
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

#[test]
fn the_exit_status_says_whether_all_finished() {
    let place = Place::new();
    let ran = place.hq("run --array 0-2 -- sh -c 'exit $HQ_TASK_ID'");
    assert_eq!(ran.exit, 1);
    assert!(ran.stdout.contains("1 finished, 2 failed"), "{ran:?}");
    assert!(ran.stdout.contains("exit code 2"), "{ran:?}");
    place.ok("run --allow-failures -- false");
    place.ok("run --wait -- true");
    place.ok("run --progress -- true");
    let quiet = place.hq("--output-mode quiet run -- true");
    assert_eq!((quiet.exit, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    let document = place.json("run --name n --array 1-3 --stdout none --stderr none -- true");
    assert_eq!(document["jobs"][0]["task_stats"]["finished"], 3);
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

#[test]
fn an_interrupted_run_ends_its_tasks_and_leaves_nothing() {
    for signal in [1, 2, 3, 15] {
        let place = Place::new();
        let pipe = place.pipe("running");
        let mut command = place.command(["run", "--", "sh", "-c", "echo $$ > running; exec sleep 1000"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let run = Process::start(command);
        let task = place.line_from(&pipe);
        run.signal(signal);
        assert_eq!(run.end(), 128 + signal, "signal {signal}");
        assert!(!is_alive(&task), "the task {task} lives");
        assert_eq!(left_behind(&place), Vec::<String>::new());
    }
}

#[test]
fn a_second_signal_ends_a_run_that_waits_for_its_tasks() {
    let place = Place::new();
    let (running, told) = (place.pipe("running"), place.pipe("told"));
    let script = "trap 'echo told > told' TERM; echo $$ > running; while :; do sleep 1000 & wait; done";
    let mut command = place.command(["run", "--kill-grace", "1000s", "--", "sh", "-c", script]);
    command.stdout(Stdio::null()).stderr(File::create(place.path("said")).expect("a file"));
    let run = Process::start(command);
    let task = place.line_from(&running);
    run.signal(15);
    // The job is canceled by now, and the task does not mind.
    assert_eq!(place.line_from(&told), "told");
    let said = place.read("said");
    assert!(
        said.starts_with("Canceling: ") && said.ends_with("press Ctrl-C again to exit immediately\n"),
        "{said}"
    );
    run.signal(2);
    assert_eq!(run.end(), 128 + 2);
    assert!(!is_alive(&task), "the task {task} lives");
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

#[test]
fn the_time_of_an_interrupted_run_counts_until_its_tasks_have_ended() {
    let place = Place::new();
    let running = place.pipe("running");
    let script = "trap '' TERM; echo > running; while :; do read -r line < never; done";
    place.pipe("never");
    let args = ["--output-mode", "json", "run", "--kill-grace", "1s", "--", "sh", "-c", script];
    let mut command = place.command(args);
    command.stdout(File::create(place.path("said")).expect("a file")).stderr(Stdio::null());
    let run = Process::start(command);
    place.line_from(&running);
    run.signal(2);
    assert_eq!(run.end(), 130);
    let said: serde_json::Value = serde_json::from_str(&place.read("said")).expect("JSON");
    assert!(said["duration"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{said}");
}

#[test]
fn a_run_ignores_the_signals_that_it_was_made_to_ignore() {
    let place = Place::new();
    let (running, go) = (place.pipe("running"), place.pipe("go"));
    let script = "trap '' HUP; exec \"$0\" run -- sh -c 'echo $$ > running; read line < go'";
    let hq = place.command(["run"]);
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(hq.get_program()).current_dir(place.work());
    command.envs(hq.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let run = Process::start(command);
    place.line_from(&running);
    run.signal(1);
    std::fs::write(go, "go\n").expect("the task reads");
    assert_eq!(run.end(), 0);
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next_one() {
    let place = Place::new();
    let pipe = place.pipe("running");
    let mut command = place.command(["run", "--", "sh", "-c", "echo $$ > running; exec sleep 1000"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let run = Process::start(command);
    place.line_from(&pipe);
    assert_eq!(left_behind(&place).len(), 1, "its private directory");
    // A living one is left alone.
    place.ok("run -- true");
    assert_eq!(left_behind(&place).len(), 1);
    run.signal(9);
    run.end();
    assert_eq!(left_behind(&place).len(), 1, "nobody could remove it");
    place.ok("run -- true");
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

#[test]
fn notifications_reach_the_run() {
    let place = Place::new();
    let shown = place.ok("run --on-notify 'echo heard' -- sh -c '\"$HQ\" task notify hello'");
    assert!(shown.starts_with("heard hello\n"), "{shown}");
}

#[test]
fn what_cannot_run_here_is_refused_at_once() {
    let place = Place::new();
    let error = place.fails(1, "run --resource unobtainium=1 -- true");
    assert!(error.contains("This machine has no unobtainium"), "{error}");
    let error = place.fails(1, "run --nodes 2 -- true");
    assert!(error.contains("This machine is one node, but each task requests 2"), "{error}");
    assert!(place.fails(1, "run --ranks-per-node 9000 -- true").contains("requests 9000 in 9000 ranks"));
    assert!(place.fails(2, "run").contains("no command was given"));
    assert!(place.fails(1, "run --each-line missing -- true").contains("cannot read the entries in missing"));
    let ran = place.hq("run -- no-such-program-anywhere");
    assert_eq!(ran.exit, 1);
    assert!(ran.stdout.contains("no-such-program-anywhere"), "{ran:?}");
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

#[test]
fn no_run_writes_over_what_another_left() {
    let place = Place::new();
    place.write("job-3/0.stdout", "kept");
    let shown = place.ok("run -- sh -c 'echo $HQ_JOB_ID'");
    assert!(shown.contains("/job-4/0.stdout"), "{shown}");
    place.ok("run -- sh -c 'echo $HQ_JOB_ID'");
    let read = |job: u32| place.read(format!("job-{job}/0.stdout"));
    assert_eq!((read(3), read(4), read(5)), ("kept".into(), "4\n".into(), "5\n".into()));
    // What writes nothing leaves no directory.
    place.ok("run --stdout none --stderr none -- true");
    place.ok("run --stdout :rm-if-finished --stderr none -- true");
    assert!(!place.path("job-6").exists() && !place.path("job-7").exists());
    // Numbers are found in names of files, too.
    for run in 1..=2 {
        place.ok(&format!(
            "run --array 7-8 --stdout 'o-%{{JOB_ID}}_%{{TASK_ID}}.out' --stderr none -- echo {run}"
        ));
    }
    let read = |job: u32| place.read(format!("o-{job}_8.out"));
    assert_eq!((read(1), read(2)), ("1\n".into(), "2\n".into()));
}

#[test]
fn streams_of_several_runs_are_told_apart_by_their_times() {
    let place = Place::new();
    for text in ["one", "two"] {
        place.ok(&format!("run --stream out -- echo {text}"));
    }
    let error = place.fails(1, "output-log out cat stdout");
    let (_, servers) =
        error.split_once("choose one with --server-uid, the last is the latest: ").expect("a hint");
    let uids: Vec<&str> =
        servers.split(", ").filter_map(|server| Some(server.split_once(" (since 20")?.0)).collect();
    assert_eq!(uids.len(), 2, "{error}");
    for (uid, text) in [(uids[0], "one\n"), (uids[1], "two\n")] {
        assert_eq!(place.ok(&format!("output-log out --server-uid {uid} cat stdout")), text);
    }
}

#[test]
fn standard_output_is_no_place_for_outputs_of_tasks() {
    let place = Place::new();
    for command in ["run", "submit"] {
        let error = place.fails(2, &format!("{command} --stdout - -- true"));
        assert!(error.contains("`-` is no standard output here") && error.contains("`./-`"), "{error}");
    }
    place.write("job.toml", "[[task]]\nstderr = \"-\"\ncommand = [\"true\"]\n");
    assert!(place.fails(1, "job submit-file job.toml").contains("task 1: stderr: `-` is no standard output"));
    assert!(!place.path("-").exists());
}

#[test]
fn a_log_of_another_run_is_refused_before_anything_runs() {
    let place = Place::new();
    place.ok("run --log L -- echo one");
    let log = std::fs::read(place.path("L")).expect("a log");
    let error = place.fails(1, "run --log L -- touch ran");
    assert!(error.contains("is the log of another server") && error.contains("NAME-%{JOB_ID}"), "{error}");
    assert!(!place.path("ran").exists());
    assert_eq!(std::fs::read(place.path("L")).expect("a log"), log);
    for number in 1..3 {
        place.ok("run --log l-%{JOB_ID} -- echo text");
        assert!(place.path(format!("l-{number}")).exists(), "{number}");
    }
}

#[test]
fn what_a_run_starts_asks_no_server_for_the_job_of_its_number() {
    let cluster = Cluster::server();
    cluster.ok("submit --name precious true");
    let ask = "$HQ job cancel $HQ_JOB_ID; echo $? ${HQ_SERVER_DIR-none} $HQ_RUN";
    let ran = cluster.hq(&format!("run --stdout out --stderr err -- sh -c '{ask}'"));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(cluster.read("out"), "3 none 1\n");
    let error = cluster.read("err");
    assert!(error.contains("What `hq run` and `hq make` start has no server"), "{error}");
    assert_eq!(cluster.json("job list --all")[0]["name"], "precious");
    assert_eq!(cluster.json("job info 1")[0]["info"]["task_stats"]["waiting"], 1);
    let dir = cluster.server_dir();
    let named = format!("run --stdout named --env HQ_SERVER_DIR={} -- sh -c '$HQ job list'", dir.display());
    cluster.ok(&named);
    assert!(cluster.read("named").contains("precious"));
    let refused = cluster.fails(2, "run --after 1 -- true");
    assert!(refused.contains("hq run has none but its own"), "{refused}");
    let refused = cluster.fails(2, "run --result stdout -- true");
    assert!(refused.contains("--result is kept by a server"), "{refused}");
}
