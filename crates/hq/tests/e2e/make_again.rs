//! `hq make` after what it has submitted to a server was run again there, or has ended without success.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use crate::cluster::Cluster;

// The first of each pair fails until there is `ok`, and waits where there is a pipe for it.
const PAIRS: &str = r#"
one:
  out: ["one_{n}"]
  script: |
    test -e ../ok || exit 3
    echo half > one_{n}
    test ! -p ../go_{n} || read line < ../go_{n}
    echo whole {n} > one_{n}
two:
  inp: ["one_{n}"]
  out: ["two_{n}"]
  script: |
    cp one_{n} two_{n}
"#;
const PAIRS_TARGETS: &str = "t:\n  dirname: d\n  loop:\n    n: \"range(2)\"\n    out: [\"two_{n}\"]\n";

fn pairs() -> Cluster {
    let server = Cluster::new();
    server.write("rules.yaml", PAIRS);
    server.write("targets.yaml", PAIRS_TARGETS);
    server
}

fn until_it_is_there(server: &Cluster, name: &str) {
    crate::patience::until(
        name,
        || {
            if server.path(name).exists() { Ok(()) } else { Err("no file".to_owned()) }
        },
    );
}

fn until_these_are(server: &Cluster, state: &str, tasks: &str) {
    crate::patience::until(state, || {
        let found = server.ok(&format!("job task-ids 1 --filter {state}"));
        if found.trim() == tasks { Ok(()) } else { Err(found) }
    });
}

fn begin(server: &Cluster, line: &str) -> Child {
    let mut command = server.command(line.split(' '));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hq")
}

fn aside(server: &Cluster) -> Vec<String> {
    let entries = fs::read_dir(server.path("d")).expect("a directory");
    let names = entries.map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".failed-")).collect()
}

#[test]
fn while_its_tasks_run_again_nobody_else_makes_the_files() {
    let server = pairs();
    assert_eq!(server.hq("make --submit --wait").exit, 1);
    server.write("ok", "");
    let go = server.pipe("go_0");
    assert_eq!(server.ok("job resubmit 1"), "Job submitted successfully, job ID: 2\n");
    until_it_is_there(&server, "d/one_0");
    let busy = |job: u32, args: &str| {
        let error = server.fails(1, args);
        assert!(
            error.contains(&format!("Job {job} of the server in "))
                && error.contains(" is making files here: "),
            "{error}"
        );
        assert!(error.contains(&format!("`hq job cancel {job}` ends it")), "{error}");
    };
    busy(2, "make");
    busy(2, "make --delete --yes");
    assert_eq!(server.ok("make --submit"), "Job 2 is already making the files\n");
    let listed = server.hq("make --list");
    assert!(listed.stderr.contains("Job 2 is making files here: its unfinished files"), "{listed:?}");
    // Also where nobody heard the number of the first job.
    let remembered = server.read(".hq-make/job.json");
    server.write(".hq-make/job.json", remembered.replace("\"job\":1", "\"job\":null"));
    busy(2, "make");
    server.write(".hq-make/job.json", remembered);
    fs::write(go, "on\n").expect("it reads");
    let followed = server.ok("make --follow");
    assert!(followed.contains("completed  d/two.0\n"), "{followed}");
    // However long that is watched.
    let took = || server.json("make --follow")["duration"].as_f64();
    assert!(took() > Some(0.0) && took() == took());
    // What it has made is good.
    let listed = server.hq("make --list");
    assert_eq!((listed.exit, listed.stderr.as_str()), (0, ""), "{listed:?}");
    let failed = server.hq("make --list-failed");
    assert_eq!((failed.exit, failed.stdout.as_str()), (0, ""), "{failed:?}");
    let ran = server.hq("make");
    let nothing = "Nothing to do: all 2 wanted files exist\n";
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, nothing, ""), "{ran:?}");
    assert_eq!((server.read("d/two_0"), server.read("d/two_1")), ("whole 0\n".into(), "whole 1\n".into()));
    // Its end was seen, and it is run once more.
    fs::remove_file(server.path("go_0")).expect("a pipe");
    let go = server.pipe("go_1");
    server.ok("job resubmit 1");
    busy(3, "make");
    fs::write(go, "on\n").expect("it reads");
    server.ok("job wait 3");
    server.ok("make");
}

#[test]
fn what_runs_again_after_another_submit_counts_too() {
    let server = pairs();
    for job in 1..=2 {
        assert_eq!(server.ok("make --submit"), format!("Job {job} makes the files: 4 runs\n"));
        assert_eq!(server.hq(&format!("job wait {job}")).exit, 1);
    }
    server.write("ok", "");
    let go = server.pipe("go_0");
    server.ok("job resubmit 1");
    for args in ["make", "make --submit"] {
        let error = server.fails(1, args);
        assert!(error.contains("Job 3 of the server in ") && error.contains("hq job cancel 3"), "{error}");
    }
    fs::write(go, "on\n").expect("it reads");
    server.ok("job wait 3");
    assert_eq!(server.ok("make"), "Nothing to do: all 2 wanted files exist\n");
}

#[test]
fn what_did_not_run_when_the_job_ended_left_nothing_half_done() {
    for is_canceled in [true, false] {
        let server = pairs();
        if is_canceled {
            server.write("ok", "");
            server.pipe("go_0");
            server.ok("make --submit");
            until_it_is_there(&server, "d/one_0");
            until_these_are(&server, "finished", "1,3");
            server.ok("job cancel 1");
            // The worker moves it aside.
            crate::patience::until("it is ended", || {
                if server.path("d/one_0").exists() { Err("a file".to_owned()) } else { Ok(()) }
            });
        } else {
            assert_eq!(server.hq("make --submit --wait").exit, 1);
        }
        let left = aside(&server);
        server.write("d/one_0", "by hand\n");
        server.write("d/two_0", "by hand\n");
        let listed = server.hq("make --list");
        assert!(listed.exit == 0 && !listed.stderr.contains("interrupted"), "{listed:?}");
        server.write("ok", "");
        let ran = server.hq("make --here");
        assert!(ran.exit == 0 && !ran.stderr.contains("interrupted"), "{ran:?}");
        assert_eq!(
            (server.read("d/one_0"), server.read("d/two_0")),
            ("by hand\n".into(), "by hand\n".into())
        );
        assert_eq!(server.read("d/two_1"), "whole 1\n");
        assert_eq!(aside(&server), left);
    }
}

#[test]
fn what_a_lost_worker_left_is_half_done_and_what_came_later_is_not() {
    let mut server = pairs();
    server.write("ok", "");
    for name in ["go_0", "go_1"] {
        server.pipe(name);
    }
    server.ok("make --submit");
    for name in ["d/one_0", "d/one_1"] {
        until_it_is_there(&server, name);
    }
    until_these_are(&server, "running", "0-1");
    // Killed without a word to anybody.
    server.workers.clear();
    server.ok("job cancel 1");
    let later = fs::File::options().append(true).open(server.path("d/one_1")).expect("there");
    later.set_modified(SystemTime::now() + Duration::from_secs(600)).expect("a time");
    let listed = server.hq("make --list");
    assert!(listed.stderr.contains("A run was interrupted here: its unfinished files"), "{listed:?}");
    for name in ["go_0", "go_1"] {
        fs::remove_file(server.path(name)).expect("a pipe");
    }
    let ran = server.hq("make");
    assert!(
        ran.exit == 0 && ran.stderr.contains("one_0 was left by an interrupted run: it is now one_0.failed-"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("one_1"), "{ran:?}");
    assert_eq!((server.read("d/two_0"), server.read("d/one_1")), ("whole 0\n".into(), "half\n".into()));
}

#[test]
fn what_was_canceled_has_ended_before_its_files_are_made_again() {
    let server = Cluster::new();
    server.write("targets.yaml", "t:\n  out: [\"one\"]\n");
    let rule =
        |script: &str| server.write("rules.yaml", format!("one:\n  out: [\"one\"]\n  script: |\n{script}"));
    let (begun, go) = (server.pipe("begun"), server.pipe("go"));
    // It hears no signal but the last one.
    rule(
        "    trap '' TERM INT\n    echo on > begun\n    read line < go\n    echo half > one\n    while :; do sleep 0.05; echo more >> one; done\n",
    );
    server.ok("make --submit");
    server.line_from(&begun);
    server.ok("job cancel 1");
    // Nothing is half done yet, but may be in a moment.
    let listed = server.hq("make --list");
    assert!(listed.stderr.contains("Runs that were canceled here may still be ending: their"), "{listed:?}");
    fs::write(go, "on\n").expect("it reads");
    rule("    echo whole > one\n");
    let ran = server.hq("make");
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.stderr.contains("until the runs that were canceled have ended"), "{ran:?}");
    // Nobody writes or moves it any more.
    server.ok("worker stop all");
    assert_eq!(server.read("one"), "whole\n");
}

#[test]
fn what_was_canceled_has_ended_before_its_tasks_run_again() {
    let server = Cluster::new();
    server.write("targets.yaml", "t:\n  out: [\"one\"]\n");
    let begun = server.pipe("begun");
    // The first time it hears no signal but the last one.
    let script = "if test -e again; then echo whole > one; exit; fi\n    trap '' TERM INT\n    echo on > begun\n    \
                  while :; do sleep 0.05; echo more >> one; done\n";
    server.write("rules.yaml", format!("one:\n  out: [\"one\"]\n  script: |\n    {script}"));
    server.ok("make --submit");
    server.line_from(&begun);
    // The server may not have heard yet that it has begun.
    server.ok("job cancel 1");
    server.write("again", "");
    let ran = server.hq("job resubmit 1");
    assert!(ran.exit == 0 && ran.stderr.contains("until the runs that were canceled have ended"), "{ran:?}");
    server.ok("job wait 2");
    server.ok("worker stop all");
    assert_eq!(server.read("one"), "whole\n");
}

#[test]
fn a_job_that_runs_some_of_its_tasks_again_is_asked_for_those_alone() {
    let server = pairs();
    let go = server.pipe("go_1");
    server.write(
        "rules.yaml",
        PAIRS.replace("test -e ../ok || exit 3", "test {n} = 1 || test -e ../ok || exit 3"),
    );
    server.ok("make --submit");
    crate::patience::until("a failure", || {
        let found = server.ok("job task-ids 1 --filter failed");
        if found.trim().is_empty() { Err(found) } else { Ok(()) }
    });
    server.write("ok", "");
    server.ok("job resubmit 1 --failed");
    server.ok("job wait 2");
    fs::write(go, "on\n").expect("it reads");
    server.hq("job wait 1");
    let listed = server.hq("make --list");
    assert_eq!((listed.exit, listed.stderr.as_str()), (0, ""), "{listed:?}");
    assert_eq!(server.hq("make").exit, 0);
    assert_eq!((server.read("d/two_0"), server.read("d/two_1")), ("whole 0\n".into(), "whole 1\n".into()));
}

#[test]
fn tasks_are_not_run_again_while_somebody_makes_their_files() {
    let server = pairs();
    assert_eq!(server.hq("make --submit --wait").exit, 1);
    server.write("ok", "");
    let go = server.pipe("go_0");
    server.ok("job resubmit 1");
    until_it_is_there(&server, "d/one_0");
    let error = server.fails(1, "job resubmit 1");
    assert!(error.contains("Job 2 is making the same files as job 1: ") && error.contains("hq job cancel 2"));
    fs::write(go, "on\n").expect("it reads");
    server.ok("job wait 2");
    // A `hq make` without a server is seen by those who run them again, too.
    server.ok("make");
    for name in ["go_0", "d/one_0", "d/two_0"] {
        fs::remove_file(server.path(name)).expect("there");
    }
    let go = server.pipe("go_0");
    let alone = begin(&server, "make");
    until_it_is_there(&server, "d/one_0");
    let error = server.fails(1, "job resubmit 1");
    assert!(error.contains("makes files in ") && error.contains("hq make --follow"), "{error}");
    fs::write(go, "on\n").expect("it reads");
    assert!(alone.wait_with_output().expect("it ends").status.success());
    fs::remove_file(server.path("go_0")).expect("a pipe");
    server.ok("job resubmit 1");
    server.ok("job wait last");
}

#[test]
fn all_who_submit_at_once_join_the_first() {
    let server = pairs();
    server.write("ok", "");
    let pipes = [server.pipe("go_0"), server.pipe("go_1")];
    let all: Vec<_> = (0..4).map(|_| begin(&server, "make --submit")).collect();
    let mut said = Vec::new();
    for one in all {
        let output = one.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        said.push(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    said.sort();
    let joined = "Job 1 is already making the files\n";
    assert_eq!(said, [joined, joined, joined, "Job 1 makes the files: 4 runs\n"]);
    // Also while the first one waits for the end.
    for pipe in pipes {
        fs::write(pipe, "on\n").expect("it reads");
    }
    server.ok("job wait 1");
    for name in ["go_0", "d/one_0", "d/two_0"] {
        fs::remove_file(server.path(name)).expect("there");
    }
    let go = server.pipe("go_0");
    let first = begin(&server, "make --submit --wait");
    until_it_is_there(&server, "d/one_0");
    assert_eq!(server.ok("make --submit"), "Job 2 is already making the files\n");
    fs::write(go, "on\n").expect("it reads");
    assert!(first.wait_with_output().expect("it ends").status.success());
}

#[test]
fn what_failed_is_known_after_the_job_is_forgotten_or_it_is_said_that_it_is_not() {
    let server = pairs();
    server.ok("make --submit");
    assert_eq!(server.hq("job wait 1").exit, 1);
    let failed = server.hq("make --list-failed");
    assert!(failed.exit == 1 && failed.stdout.contains("d/one.0"), "{failed:?}");
    server.ok("job forget 1");
    let error = server.fails(1, "make --list-failed");
    assert!(error.contains("It is not known what failed: job 1 of the server in "), "{error}");
    // Whoever waited has seen it.
    assert_eq!(server.hq("make --submit --wait").exit, 1);
    server.ok("job forget 2");
    let failed = server.hq("make --list-failed");
    assert!(failed.exit == 1 && failed.stdout.contains("d/one.0"), "{failed:?}");
}

#[test]
fn a_server_that_does_not_answer_is_named_by_who_follows() {
    let mut server = pairs();
    server.write("ok", "");
    server.pipe("go_0");
    server.ok("make --submit");
    until_it_is_there(&server, "d/one_0");
    drop(server.server.take());
    let error = server.hq("make --follow").stderr;
    assert!(
        error.contains("that has job 1, which was the last to make files here, does not answer"),
        "{error}"
    );
    assert!(!error.contains("Nothing is being made"), "{error}");
}
