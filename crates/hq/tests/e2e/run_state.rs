//! `hq run --state`: what was interrupted is gone on with.

use std::process::{Command, Stdio};

use crate::cluster::{Place, Process, is_alive};

// Each task notes that it starts; the first one goes on when `go` is written to, and the others at once.
const SCRIPT: &str = "echo $HQ_TASK_ID.$HQ_INSTANCE_ID >> starts; test $HQ_TASK_ID != 0 || { echo $$ > running; read line < go; }";
const TASKS: &str = "--array 0-9 --cpus all --stdout none --stderr none";

fn begin(place: &Place) -> Process {
    let words = format!("run --state kept {TASKS} -- sh -c");
    let words = words.split(' ').map(str::to_owned).chain([SCRIPT.to_owned()]);
    let mut command = place.command(words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Process::start(command)
}

fn same_again(place: &Place) -> crate::cluster::Ran {
    let words = format!("run --state kept {TASKS} -- sh -c");
    place.run(words.split(' ').map(str::to_owned).chain([SCRIPT.to_owned()]))
}

// Interrupts it with this signal while its first task runs, and gives the task's process.
fn interrupted(place: &Place, signal: i32) -> String {
    let running = place.pipe("running");
    place.pipe("go");
    let run = begin(place);
    let task = place.line_from(&running);
    run.signal(signal);
    assert_eq!(run.end(), 128 + signal, "signal {signal}");
    // From now on nobody waits.
    std::fs::remove_file(place.path("running")).expect("a pipe");
    std::fs::remove_file(place.path("go")).expect("a pipe");
    place.write("go", "on\n");
    task
}

#[test]
fn an_interrupted_run_goes_on_with_or_without_its_command() {
    for (signal, with_command) in [(2, true), (9, false)] {
        let place = Place::new();
        let task = interrupted(&place, signal);
        if signal == 2 {
            assert!(!is_alive(&task), "the task {task} lives");
        }
        let kept = place.read("kept/run.json");
        assert!(kept.contains(r#""untold":1"#), "{kept}");
        let other = place.fails(1, "run --state kept -- true");
        assert!(other.contains("holds an interrupted run of `sh -c echo"), "{other}");
        assert!(other.contains("0 of 10 tasks have ended") && other.contains("without a command"), "{other}");
        let ran = if with_command { same_again(&place) } else { place.hq("run --state kept") };
        assert_eq!(ran.exit, 0, "{ran:?}");
        assert!(ran.stderr.starts_with("Resuming job 1\n"), "{ran:?}");
        assert!(ran.stdout.contains(": 10 finished"), "{ran:?}");
        let mut starts: Vec<String> = place.read("starts").lines().map(str::to_owned).collect();
        assert_eq!((starts[0].as_str(), starts[1].as_str()), ("0.0", "0.1"), "the interrupted one first");
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), 11, "each of the others once: {starts:?}");
        for nothing in ["kept", "another"] {
            let none = place.fails(1, &format!("run --state {nothing}"));
            assert!(none.contains("there is no interrupted run in "), "{none}");
        }
        assert!(!place.path("another").exists());
    }
}

#[test]
fn what_has_finished_is_not_run_again_and_numbers_of_jobs_go_on() {
    let place = Place::new();
    place.ok("run --state kept --stderr none -- echo one");
    place.ok("run --state kept --stderr none -- echo two");
    assert_eq!(
        (place.read("job-1/0.stdout"), place.read("job-2/0.stdout")),
        ("one\n".into(), "two\n".into())
    );
    // Also in a directory of its own: what others have written stays.
    place.ok("run --state other --stderr none -- echo three");
    assert_eq!(place.read("job-3/0.stdout"), "three\n");
}

#[test]
fn a_run_that_was_killed_before_it_told_its_end_tells_it_and_runs_nothing_again() {
    let place = Place::new();
    let run = || place.hq("run --state kept --array 1-3 --stdout none -- sh -c 'echo $HQ_TASK_ID >> starts'");
    let first = run();
    assert_eq!((first.exit, place.read("starts").lines().count()), (0, 3), "{first:?}");
    let kept = place.read("kept/run.json");
    assert!(kept.contains(r#""untold":null"#), "{kept}");
    // As it is from the submit to the last word.
    place.write("kept/run.json", kept.replace(r#""untold":null"#, r#""untold":1"#));
    let again = run();
    assert!(again.stderr.starts_with("Resuming job 1\n"), "{again:?}");
    assert!(again.exit == 0 && again.stdout.contains(": 3 finished"), "{again:?}");
    assert_eq!(place.read("starts").lines().count(), 3, "nothing ran again");
    let third = run();
    assert_eq!((third.exit, place.read("starts").lines().count()), (0, 6), "another run: {third:?}");
}

#[test]
fn an_interrupted_run_goes_on_with_its_log() {
    for with_command in [true, false] {
        let place = Place::new();
        let words =
            ["run", "--state", "kept", "--log", "a.log", "--array", "1-2", "--cpus", "all", "--", "sh"];
        let script =
            "echo $HQ_TASK_ID; test $HQ_TASK_ID != 2 || test ! -p go || { echo > running; read line < go; }";
        let running = place.pipe("running");
        let go = place.pipe("go");
        let mut command = place.command(words.into_iter().chain(["-c", script]));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let run = Process::start(command);
        place.line_from(&running);
        run.signal(2);
        assert_eq!(run.end(), 130);
        std::fs::remove_file(go).expect("a pipe");
        let again = match with_command {
            true => place.run(words.into_iter().chain(["-c", script])),
            false => place.hq("run --state kept"),
        };
        assert!(again.exit == 0 && again.stderr.starts_with("Resuming job 1\n"), "{again:?}");
        let log = format!("Log: {}\n", place.path("a.log").display());
        assert!(again.stdout.contains(&log), "{again:?}");
        assert_eq!(place.ok("output-log a.log cat 1 stdout"), "1\n2\n");
        // Without its server it is that of another one.
        let error = place.fails(1, "run --log a.log -- true");
        assert!(
            error.contains("is the log of another server") && error.contains("NAME-%{JOB_ID}"),
            "{error}"
        );
        let error = place.fails(1, "run --state other --log a.log -- true");
        assert!(error.contains("is the log of another server"), "{error}");
    }
}

#[test]
fn what_resumes_a_run_can_be_given_to_a_shell() {
    let place = Place::new();
    let running = place.pipe("running");
    place.pipe("go");
    let mut command = place.command(["run", "--state", "it's kept", "--stdout", "none", "--stderr", "none"]);
    command.args(["--", "sh", "-c", "test -e again || { echo > running; read line < go; }"]);
    command.stdout(Stdio::null()).stderr(std::fs::File::create(place.path("said")).expect("a file"));
    let run = Process::start(command);
    place.line_from(&running);
    run.signal(2);
    assert_eq!(run.end(), 130);
    place.write("again", "");
    let other = place.fails(1, "run --state \"it's kept\" -- true");
    for said in [place.read("said"), other] {
        let (_, rest) = said.split_once("`hq run --state ").expect("a command");
        let (word, _) = rest.split_once('`').expect("its end");
        let word = shlex::split(word).expect("a word");
        assert_eq!(word, [place.path("it's kept").display().to_string()], "{said}");
    }
    place.ok("run --state \"it's kept\"");
    let none = place.fails(1, "run --state \"it's kept\"");
    assert!(none.contains(r#"it's kept" -- COMMAND`"#), "{none}");
}

#[test]
fn one_directory_is_of_one_run_at_a_time() {
    let place = Place::new();
    let running = place.pipe("running");
    place.pipe("go");
    let run = begin(&place);
    place.line_from(&running);
    let error = place.fails(1, "run --state kept");
    assert!(error.contains("kept is in use by process ") && error.contains("wait for it"), "{error}");
    place.write("go", "on\n");
    assert_eq!(run.end(), 0);
    place.write("full/of", "files");
    let error = place.fails(1, "run --state full -- true");
    assert!(error.contains("full contains other files"), "{error}");
}

#[test]
fn a_full_directory_is_told_with_the_way_to_another_one() {
    let place = Place::new();
    std::fs::create_dir(place.path("full")).expect("a directory");
    let hq = env!("CARGO_BIN_EXE_hq");
    for (run, way) in [
        ("TMPDIR=full HQ run -- true", "another directory with TMPDIR"),
        ("HQ run --state full/kept -- true", "another directory with --state"),
    ] {
        let script = format!(
            "mount -t tmpfs -o size=16k none full && {{ yes > full/filler; {}; }} 2>&1",
            run.replace("HQ", hq)
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).current_dir(place.work());
        let said = command.output().expect("unshare can be run");
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.contains("full/") && said.contains(way), "{run}: {said}");
    }
}

// Three tasks that print into a log or a stream; the last one waits until `go` is written to.
fn begin_printing(place: &Place, into: &str) {
    let (running, _) = (place.pipe("running"), place.pipe("go"));
    let script = "echo out $HQ_TASK_ID; test $HQ_TASK_ID != 2 || { echo x > running; read line < go; }";
    let words = format!("run --state kept --array 0-2 --cpus all {into} -- sh -c");
    let mut command = place.command(words.split(' ').map(str::to_owned).chain([script.to_owned()]));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let run = Process::start(command);
    place.line_from(&running);
    run.signal(2);
    assert_eq!(run.end(), 130);
    std::fs::remove_file(place.path("running")).expect("a pipe");
    std::fs::remove_file(place.path("go")).expect("a pipe");
    place.write("go", "on\n");
}

#[test]
fn whoever_resumes_is_told_of_outputs_that_are_lost() {
    for (into, what, is_removed) in [
        ("--log out", "the log ", true),
        ("--log out", "the log ", false),
        ("--stream out", "the stream ", true),
        ("--stream out", "", false),
    ] {
        let place = Place::new();
        begin_printing(&place, into);
        match (into, is_removed) {
            ("--log out", true) => std::fs::remove_file(place.path("out")).expect("a log"),
            (_, true) => std::fs::remove_dir_all(place.path("out")).expect("a directory"),
            ("--log out", false) => {
                let mut bytes = std::fs::read(place.path("out")).expect("a log");
                let at = bytes.windows(5).position(|bytes| bytes == b"out 1").expect("it was printed");
                bytes[at] ^= 1;
                std::fs::write(place.path("out"), bytes).expect("a log");
            }
            _ => {}
        }
        let ran = place.hq("run --state kept");
        assert!(ran.exit == 0 && ran.stderr.starts_with("Resuming job 1\n"), "{into} {what}: {ran:?}");
        let told = match (what, is_removed) {
            ("", _) => {
                assert!(!ran.stderr.contains("finished task"), "{ran:?}");
                continue;
            }
            (_, true) => "The output of 2 finished tasks is lost or incomplete, as ",
            (_, false) => " is lost or incomplete, as ",
        };
        assert!(ran.stderr.contains(told) && ran.stderr.contains(what), "{into}: {ran:?}");
        assert!(
            ran.stderr.contains(" was removed or damaged: ") && ran.stderr.contains("`--array`"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_run_whose_log_cannot_be_gone_on_with_is_not_used_up() {
    let place = Place::new();
    begin_printing(&place, "--log out");
    std::fs::rename(place.path("out"), place.path("whole")).expect("a log");
    place.write("out", "not a log\n");
    for _ in 0..2 {
        let ran = place.hq("run --state kept");
        assert!(ran.exit == 1 && ran.stderr.contains("move that file away"), "{ran:?}");
    }
    assert_eq!(place.read("out"), "not a log\n");
    std::fs::rename(place.path("whole"), place.path("out")).expect("a log");
    let ran = place.hq("run --state kept");
    assert!(ran.exit == 0 && ran.stderr.starts_with("Resuming job 1\n"), "{ran:?}");
    let printed = place.ok("output-log out cat last stdout");
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["out 0", "out 1", "out 2"]);
}
