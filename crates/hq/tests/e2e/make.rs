//! `hq make`: files from rules.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::cluster::{Cluster, Place, Process};

const RULES: &str = r#"
part:
  out: ["part_{n}"]
  script: |
    echo run {n} >> ../runs
    echo part {n} > part_{n}
whole:
  loop:
    n: "range({parts})"
    inp: {all: "part_{n}"}
  out: ["whole"]
  script: |
    echo whole >> ../runs
    cat {inp[all]} > whole
"#;

const TARGETS: &str = "one:\n  dirname: d\n  parts: 3\n  out: [whole]\n";

fn place(rules: &str, targets: &str) -> Place {
    let place = Place::new();
    place.write("rules.yaml", rules);
    place.write("targets.yaml", targets);
    place
}

fn names(place: &Place, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(dir)).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_missing_is_made_once() {
    let place = place(RULES, TARGETS);
    let made = place.ok("make");
    for line in ["launched   d/part.2\n", "completed  d/part.0\n", "completed  d/whole\n"] {
        assert!(made.contains(line), "{made}");
    }
    assert!(made.contains("4 runs in ") && made.ends_with(": 4 completed\n"), "{made}");
    assert_eq!(place.read("d/whole"), "part 0\npart 1\npart 2\n");
    let of = |name: &str| [format!("{name}.log"), format!("{name}.sh")];
    let mut expected: Vec<String> =
        ["part.0", "part.1", "part.2", "whole"].iter().flat_map(|name| of(name)).collect();
    expected.extend(["part_0", "part_1", "part_2", "whole"].map(str::to_owned));
    expected.sort();
    assert_eq!(names(&place, "d"), expected);
    assert_eq!(names(&place, ".hq-make"), ["last.json", "lock"]);
    assert_eq!(place.ok("make"), "Nothing to do: the wanted file exists\n");
    assert_eq!(place.hq("make -q").exit, 0);
    // Scripts that call the program of these files find it.
    let pmake = place.path("pmake");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hq"), &pmake).expect("writable");
    let command = place.command(["rules.yaml", "targets.yaml", "10", "--test"]);
    let version = std::process::Command::new(&pmake).arg("--version").output().expect("it can be run");
    assert_eq!(String::from_utf8_lossy(&version.stdout), place.ok("make --version"));
    let mut called = std::process::Command::new(pmake);
    called.args(command.get_args()).current_dir(place.work());
    assert!(called.status().expect("it can be run").success());
    // Scripts can be run by hand.
    fs::remove_file(place.path("d/whole")).expect("there");
    assert_eq!(place.hq("make --question").exit, 1);
    let status = std::process::Command::new("bash").arg(place.path("d/whole.sh")).current_dir("/").status();
    assert!(status.expect("bash").success());
    assert_eq!(place.read("d/whole"), "part 0\npart 1\npart 2\n");
}

/// Where others may write, a pipe would bring what somebody else runs, and a link would lead to what somebody else wants lost.
#[test]
fn what_is_in_the_place_of_a_script_is_neither_run_nor_written_to() {
    let place = place(RULES, TARGETS);
    fs::create_dir(place.path("d")).expect("writable");
    let pipe = std::process::Command::new("mkfifo").arg(place.path("d/part.0.sh")).status();
    assert!(pipe.expect("mkfifo").success());
    place.write("precious", "precious");
    std::os::unix::fs::symlink(place.path("precious"), place.path("d/part.1.sh")).expect("writable");
    place.write("d/part.2.sh", "an earlier script");
    let made = place.fails(1, "make");
    for number in [0, 1] {
        let log = place.read(format!("d/part.{number}.log"));
        assert!(log.contains(&format!("part.{number}.sh is not a file of yours")), "{log}: {made}");
    }
    assert_eq!(place.read("precious"), "precious");
    assert_eq!(place.read("d/part_2"), "part 2\n", "an own one is written anew");
    fs::remove_file(place.path("d/part.0.sh")).expect("there");
    fs::remove_file(place.path("d/part.1.sh")).expect("there");
    place.ok("make");
}

#[test]
fn looking_changes_nothing() {
    let place = place(RULES, TARGETS);
    let dry = place.ok("make -n");
    assert!(dry.contains("d: part   3 ×") && dry.contains("4 runs, "), "{dry}");
    let explained = place.ok("make --explain");
    assert!(
        explained.contains("d/whole: will be made by whole (rules.yaml:7), because it is missing"),
        "{explained}"
    );
    assert!(explained.contains("needs d/part_{0..2}: 3 will be made by part (rules.yaml:2)"), "{explained}");
    assert!(place.ok("make --explain d/part_1").starts_with("d/part_1: will be made"), "one file");
    let error = place.fails(1, "make --explain d/part_1 d/pert_1 nope");
    assert!(error.contains("no target needs a file `d/pert_1`, nor 1 more of these names"), "{error}");
    assert!(error.contains("did you mean `d/part_1`?"), "{error}");
    assert_eq!(place.ok("--output-mode quiet make --list"), "d/part.0\nd/part.1\nd/part.2\nd/whole\n");
    let script = place.ok("make --show-script part.1");
    assert!(
        script.starts_with("#!/usr/bin/env bash\n") && script.contains("echo part 1 > part_1\n"),
        "{script}"
    );
    assert!(place.ok("make --test").contains("# d/whole\n"), "all scripts");
    assert!(place.fails(1, "make --show-script part.9").contains("there is no run `part.9`"), "unknown");
    let listed = place.json("make --list");
    assert_eq!(listed[3]["inputs"], serde_json::json!(["d/part_0", "d/part_1", "d/part_2"]));
    assert_eq!(
        (&listed[3]["reason"], &listed[3]["why"]),
        (&"missing".into(), &"d/whole is missing".into()),
        "{listed}"
    );
    let explained = place.json("make --explain d/part_1");
    let expected = serde_json::json!([{
        "file": "d/part_1", "state": "made", "run": "d/part.1", "reason": "missing", "why": "d/part_1 is missing",
    }]);
    assert_eq!(explained["files"], expected);
    for form in ["dot", "svg", "json"] {
        place.says(&format!("make --graph g.{form}"));
        assert!(place.read(format!("g.{form}")).contains("whole"), "{form}");
    }
    assert!(place.fails(2, "make --graph g.png").contains("must end in .dot, .svg or .json"), "a form");
    place.ok("make --check");
    assert!(!place.path("d").exists() && !place.path(".hq-make").exists());
}

#[test]
fn what_is_behind_files_that_are_there_is_shown_and_not_made() {
    let place = place(RULES, TARGETS);
    place.ok("make");
    fs::remove_file(place.path("d/part_1")).expect("there");
    assert_eq!(
        place.ok("make --list"),
        "there    d/part.0\nunasked  d/part.1\nthere    d/part.2\nthere    d/whole\n"
    );
    let explained = place.ok("make --explain d/part_1 d/whole");
    assert!(
        explained.starts_with(
            "d/part_1: is missing, but nothing requires part (rules.yaml:2) to make it\nd/whole: exists\n"
        ),
        "{explained}"
    );
    assert_eq!(place.ok("make"), "Nothing to do: the wanted file exists\n");
}

#[test]
fn directories_that_cannot_be_used_are_said_before_anything_starts() {
    let place = place(RULES, TARGETS);
    place.write("file", "");
    let error = place.fails(1, "make --workdir file");
    assert!(error.contains("the directory file of --workdir is a file"), "{error}");
    for (dir, what) in
        [("file", "is a file"), ("/proc/none", "cannot be created: "), ("/proc", "cannot be written to: ")]
    {
        place.write("targets.yaml", format!("# none\none:\n  dirname: {dir}\n  parts: 1\n  out: [whole]\n"));
        let error = place.fails(1, "make");
        let expected = format!("targets.yaml:2:1: the target one: the directory {dir} {what}");
        assert!(error.contains(&expected), "{error}");
    }
    assert!(!place.path("runs").exists());
}

#[test]
fn what_is_tried_again_is_said() {
    let rules = "r:\n  out: [x]\n  script: |\n    test -e tried || { touch tried; exit 3; }\n    read line < go\n    touch x\n";
    let place = place(
        &rules.replace("{ touch tried; exit 3; }", "{{ touch tried; exit 3; }}"),
        "t:\n  dirname: .\n  out: [x]\n",
    );
    let go = place.pipe("go");
    let mut command = place.command(["make", "--retry", "1"]);
    command.stdout(fs::File::create(place.path("said")).expect("a file")).stderr(Stdio::null());
    let make = Process::start(command);
    crate::patience::until("it is tried again", || {
        let said = place.read("said");
        if said.contains("again      r: attempt 2\n") { Ok(()) } else { Err(said) }
    });
    fs::write(go, "on\n").expect("it reads");
    assert_eq!(make.end(), 0);
    assert!(place.read("said").contains("completed  r\n"), "{}", place.read("said"));
}

#[test]
fn a_failure_is_told_with_the_end_of_its_log_and_leaves_nothing_half() {
    let rules = "bad:\n  out: [half, other]\n  script: |\n    echo half > half\n    echo 'the reason' >&2\n    exit 7\nnext:\n  inp: [half]\n  out: [next]\n  script: touch next\nfine:\n  out: [fine]\n  script: touch fine\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [next, fine]\n");
    let ran = place.hq("make");
    assert_eq!(ran.exit, 1, "{ran:?}");
    for line in [
        "failed     bad: Program terminated with exit code 7.\n",
        "completed  fine\n",
        ": 1 completed, 1 failed, 1 not run\n",
        "\n    the reason\n",
        "bad.log\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    assert_eq!((place.path("half").exists(), place.read("half.failed-0")), (false, "half\n".into()));
    assert!(place.fails(1, "make --list-failed").is_empty());
    assert_eq!(place.hq("--output-mode quiet make --list-failed").stdout, "bad\n");
    let document: serde_json::Value =
        serde_json::from_str(&place.hq("--output-mode json make").stdout).expect("JSON");
    assert_eq!((&document["failed"][0]["name"], &document["not_run"]), (&"bad".into(), &1.into()));
    // An output that does not appear is a failure, too.
    place.write("rules.yaml", "bad:\n  out: [half]\n  script: exit 0\n");
    place.write("targets.yaml", "t:\n  dirname: .\n  out: [half]\n");
    let ran = place.hq("make");
    assert!(ran.exit == 1 && ran.stdout.contains("half is missing"), "{ran:?}");
}

// Each run writes its file in two halves.
const HALVES: &str = r#"
half:
  out: ["half_{n}"]
  script: |
    echo {n} >> ../starts
    echo first {n} > half_{n}
    test ! -p ../go_{n} || read line < ../go_{n}
    echo second {n} >> half_{n}
    echo {n} >> ../ends
copy:
  inp: ["half_{n}"]
  out: ["copy_{n}"]
  script: |
    cp half_{n} copy_{n}
"#;
const HALVES_TARGETS: &str = "t:\n  dirname: d\n  loop:\n    n: \"range(6)\"\n    out: [\"copy_{n}\"]\n";

fn count(place: &Place, name: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in place.read(name).lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn whatever_kills_it_files_are_whole_and_nothing_that_was_finished_runs_again() {
    // It is killed after so many lines of what it says.
    for lines in [1, 3, 5, 8, 11] {
        let place = place(HALVES, HALVES_TARGETS);
        let mut command = place.command(["make", "--cpus", "2"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("hq can be run");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let said = stdout.lines().take(lines).count();
        // It may have ended already, after all of its lines.
        let _ = child.kill();
        child.wait().expect("it ends");
        assert_eq!(said, lines);
        let ended = if place.path("ends").exists() { count(&place, "ends") } else { BTreeMap::new() };
        place.ok("make --cpus 2");
        for n in 0..6 {
            let whole = format!("first {n}\nsecond {n}\n");
            assert_eq!(place.read(format!("d/copy_{n}")), whole, "killed after {lines} lines");
            assert_eq!(place.read(format!("d/half_{n}")), whole);
        }
        let (starts, ends) = (count(&place, "starts"), count(&place, "ends"));
        for n in ended.keys() {
            // Whoever ended just then may not have been known to.
            assert!(ends[n] == 1 || starts[n] == 2, "{n} was finished and ran again: {ends:?}");
        }
        assert_eq!(place.ok("make"), "Nothing to do: all 6 wanted files exist\n");
    }
}

#[test]
fn what_an_interrupted_run_left_is_moved_aside_before_anybody_takes_it() {
    for signal in [9, 2] {
        let place = place(HALVES, HALVES_TARGETS);
        place.pipe("go_0");
        let mut command = place.command(["make", "--cpus", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let make = Process::start(command);
        crate::patience::until("the first half is there", || {
            let text = fs::read_to_string(place.path("d/half_0")).unwrap_or_default();
            if text == "first 0\n" { Ok(()) } else { Err(text) }
        });
        make.signal(signal);
        assert_eq!(make.end(), 128 + signal);
        fs::remove_file(place.path("go_0")).expect("a pipe");
        if signal == 9 {
            assert!(place.path("d/half_0").exists(), "nobody was there to move it");
        }
        let ran = place.hq("make");
        assert_eq!(ran.exit, 0, "{ran:?}");
        if signal == 9 {
            assert!(
                ran.stderr.contains("half_0 was left by an interrupted run: it is now half_0.failed-"),
                "{ran:?}"
            );
        }
        assert_eq!(place.read("d/copy_0"), "first 0\nsecond 0\n");
        let aside: Vec<String> =
            names(&place, "d").into_iter().filter(|name| name.starts_with("half_0.failed-")).collect();
        assert_eq!((aside.len(), place.read(format!("d/{}", aside[0]))), (1, "first 0\n".into()));
    }
}

#[test]
fn what_is_ended_without_waiting_for_it_is_moved_aside_by_the_next() {
    let rules = "r:\n  out: [x]\n  script: |\n    trap '' INT TERM\n    echo half > x\n    test ! -p go || read line < go\n    echo whole > x\n";
    for signal in [2, 9] {
        let place = place(rules, "t:\n  dirname: .\n  out: [x]\n");
        place.pipe("go");
        let mut command = place.command(["make"]);
        command.stdout(Stdio::null()).stderr(fs::File::create(place.path("said")).expect("a file"));
        let make = Process::start(command);
        let is_there = |name: &str, expected: &str| {
            let text = fs::read_to_string(place.path(name)).unwrap_or_default();
            if text.contains(expected) { Ok(()) } else { Err(text) }
        };
        crate::patience::until("the first half is there", || is_there("x", "half\n"));
        make.signal(2);
        crate::patience::until("it cancels", || is_there("said", "press Ctrl-C again"));
        make.signal(signal);
        assert_eq!(make.end(), 128 + signal);
        fs::remove_file(place.path("go")).expect("a pipe");
        let ran = place.hq("make");
        assert_eq!(ran.exit, 0, "{ran:?}");
        assert!(ran.stderr.contains("x was left by an interrupted run: it is now x.failed-"), "{ran:?}");
        let aside = names(&place, ".").into_iter().find(|name| name.starts_with("x.failed-")).expect("moved");
        assert_eq!((place.read("x"), place.read(aside)), ("whole\n".into(), "half\n".into()));
    }
}

#[test]
fn one_signal_ends_it_also_where_its_journal_cannot_be_written() {
    let rules = "r:\n  out: [x]\n  script: |\n    echo half > x\n    read line < go\nnext:\n  inp: [x]\n  out: [y]\n  script: touch y\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [y]\n");
    place.pipe("go");
    let mut command = place.command(["make"]);
    command.stdout(Stdio::null()).stderr(fs::File::create(place.path("said")).expect("a file"));
    let make = Process::start(command);
    crate::patience::until("it runs", || {
        if place.path("x").exists() { Ok(()) } else { Err("no file".to_owned()) }
    });
    fs::rename(place.path(".hq-make"), place.path("gone")).expect("there");
    make.signal(15);
    assert_eq!(make.end(), 128 + 15);
    let said = place.read("said");
    assert!(
        said.contains("ERROR Interrupted; the journal in ") && said.contains("cannot be written"),
        "{said}"
    );
    assert!(!place.path("x").exists(), "it had its grace");
}

#[test]
fn there_is_one_at_a_time_and_others_may_follow() {
    let place = place(HALVES, HALVES_TARGETS);
    let go = place.pipe("go_0");
    let mut command = place.command(["make", "--cpus", "1"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let make = Process::start(command);
    crate::patience::until("it runs", || {
        if place.path("d/half_0").exists() { Ok(()) } else { Err("no file".to_owned()) }
    });
    let error = place.fails(1, "make");
    assert!(
        error.contains(&format!("process {} on ", make.id())) && error.contains("hq make --follow"),
        "{error}"
    );
    let mut command = place.command(["make", "--follow"]);
    let mut follow = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("hq can be run");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "launched   d/half.0");
    fs::write(go, "on\n").expect("it reads");
    assert_eq!(make.end(), 0);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line == "completed  d/copy.5"), "{rest:?}");
    assert!(follow.wait().expect("it ends").success());
    assert!(place.fails(1, "make --follow").contains("Nothing is being made here now"), "nobody");
}

#[test]
fn files_are_made_again_when_it_is_asked_for() {
    let place = place(RULES, TARGETS);
    let runs = |args: &str| -> String {
        let _ = fs::remove_file(place.path("runs"));
        place.ok(args);
        fs::read_to_string(place.path("runs")).unwrap_or_default().lines().collect::<Vec<_>>().join(", ")
    };
    runs("make --rerun hash");
    for args in ["make", "make --rerun mtime", "make --rerun hash"] {
        assert_eq!(runs(args), "", "{args}");
    }
    // Newer than what was made from it, and with the content of before.
    let touch = |name: &str, seconds: u64| {
        let file = fs::File::options().append(true).open(place.path(name)).expect("there");
        let time = std::time::SystemTime::now() + std::time::Duration::from_secs(seconds);
        file.set_modified(time).expect("a time");
    };
    touch("d/part_1", 1);
    assert_eq!(runs("make --rerun hash"), "");
    assert_eq!(runs("make --rerun mtime"), "whole");
    fs::write(place.path("d/part_1"), "other\n").expect("writable");
    assert_eq!(runs("make"), "");
    assert_eq!(runs("make --rerun hash"), "whole");
    assert_eq!(place.read("d/whole"), "part 0\nother\npart 2\n");
    place.write("rules.yaml", RULES.replace("cat {inp[all]}", "cat -u {inp[all]}"));
    assert_eq!(runs("make --rerun mtime"), "whole");
    assert_eq!(runs("make --force=part --only d/part_2"), "run 2");
    assert_eq!(runs("make -B").split(", ").count(), 4);
    place.says("make --adopt --rerun hash");
    assert_eq!(runs("make --rerun hash"), "");
    let error = place.fails(2, "make --delete");
    assert!(error.contains("4 files") && error.contains("--yes"), "{error}");
    assert_eq!(place.says("make --delete=part --yes"), "3 files removed\n");
    assert!(place.path("d/whole").exists() && !place.path("d/part_0").exists());
    assert!(place.fails(1, "make --delete=prt --yes").contains("did you mean `part`?"), "a name");
}

#[test]
fn names_may_hold_anything() {
    let name = "a b'c\"$d\n%{TASK_ID}é";
    let yaml = serde_json::to_string(&name.replace('{', "{{").replace('}', "}}")).expect("a text");
    let rules = format!("odd:\n  out: {{f: {yaml}}}\n  script: |\n    echo \"$PWD\" > {{out[f]}}\n");
    let dir = serde_json::to_string(&format!("dir {name}")).expect("a text");
    let place = place(&rules, &format!("t:\n  dirname: {dir}\n  out: [{yaml}]\n"));
    let ran = place.hq("make");
    assert_eq!(ran.exit, 0, "{ran:?}");
    let made = fs::read_to_string(place.path(format!("dir {name}/{name}"))).expect("made");
    assert!(made.ends_with(&format!("dir {name}\n")), "{made}");
    assert_eq!(place.ok("make"), "Nothing to do: the wanted file exists\n");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_started() {
    let place = place(RULES, TARGETS);
    let check = |args: &str, exit: i32, words: &[&str]| {
        let error = place.fails(exit, args);
        for word in words {
            assert!(error.contains(word), "{args}: `{word}` is not in: {error}");
        }
        assert!(
            !place.path("runs").exists() && !place.path(".hq-make").exists(),
            "{args}: nothing is started"
        );
    };
    check("make 30", 1, &["there is no file `30`", "the minutes are the third argument"]);
    check("make rules.yaml none.yaml", 1, &["there is no file `none.yaml`"]);
    check("make rules.yaml targets.yaml soon", 2, &["'soon' is not a number of minutes"]);
    check("make rules.yaml targets.yaml -5", 2, &["'-5' is not a number of minutes"]);
    check("make --rerun sometimes", 2, &["sometimes"]);
    place.write("bad.yaml", "part:\n  out: [x]\n  script: echo {nope}\n  out: [y]\n");
    check("make bad.yaml", 1, &["bad.yaml:4", "out"]);
    place.write("dir.yaml/x", "");
    check("make dir.yaml", 1, &["dir.yaml", "directory"]);
    place.write("empty.yaml", "");
    check("make empty.yaml", 1, &["empty.yaml"]);
    place.write("binary.yaml", [0xff, 0xfe, 0, 1]);
    check("make binary.yaml", 1, &["binary.yaml"]);
    let mut command = place.command(["make", "-q"]);
    let output = command.env("HQ_MAKE_RERUN", "never").output().expect("hq can be run");
    assert!(String::from_utf8_lossy(&output.stderr).contains("HQ_MAKE_RERUN is `never`"), "{output:?}");
    // What can never start here.
    place.write(
        "big.yaml",
        "part:\n  resource: {cpu: 9999}\n  out: [\"part_{n}\"]\n  script: touch part_{n}\n",
    );
    place.write("one.yaml", "t:\n  dirname: .\n  out: [part_1]\n");
    let error = place.fails(1, "make big.yaml one.yaml");
    assert!(
        error.contains("big.yaml:1:1: rule `part`: This machine has") && error.contains("9999"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_made_stops_all_unless_the_rest_is_wanted() {
    let rules = "a:\n  inp: [nowhere]\n  out: [a]\n  script: touch a\nb:\n  out: [b]\n  script: touch b\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [a, b]\n");
    let error = place.fails(1, "make");
    assert!(error.contains("nowhere") && error.contains("-k"), "{error}");
    assert!(!place.path("b").exists());
    let error = place.fails(1, "make -k");
    assert!(error.contains("nowhere") && place.path("b").exists(), "{error}");
    place.write("nowhere", "");
    place.ok("make");
}

#[test]
fn runs_have_the_ranks_that_their_rules_say() {
    let rules = "mpi:\n  resource: {nrs: 2, ranks: 1, cpu: 1}\n  out: [ranks]\n  script: |\n    {mpirun} sh -c 'echo rank $HQ_RANK of $HQ_RANKS' > ranks\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [ranks]\n");
    let ran = place.hq("make --cpus 2 --launcher direct");
    assert_eq!(ran.exit, 0, "{ran:?}");
    let mut lines: Vec<String> = place.read("ranks").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["rank 0 of 2", "rank 1 of 2"]);
}

#[test]
fn a_server_makes_the_same() {
    let server = Cluster::new();
    server.write("rules.yaml", RULES);
    server.write("targets.yaml", TARGETS);
    let made = server.ok("make --submit --wait");
    assert!(made.contains("completed  d/whole\n") && made.ends_with(": 4 completed\n"), "{made}");
    assert_eq!(server.ok("make --submit --wait"), "Nothing to do: the wanted file exists\n");
    let jobs = server.json("job list --all");
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{jobs}");
    // A job that is not over is joined, and nobody else makes files there.
    server.write("rules.yaml", HALVES);
    server.write("targets.yaml", HALVES_TARGETS);
    let go = server.pipe("go_0");
    assert_eq!(server.ok("make --submit"), "Job 2 makes the files: 12 runs\n");
    assert_eq!(server.ok("make --submit"), "Job 2 is already making the files\n");
    let error = server.fails(1, "make");
    assert!(error.contains("Job 2 of the server in") && error.contains("hq job cancel 2"), "{error}");
    fs::write(go, "on\n").expect("it reads");
    server.ok("job wait 2");
    assert_eq!(server.ok("make"), "Nothing to do: all 6 wanted files exist\n");
    // Of a job that nobody waited for, the server knows what failed.
    server.write("rules.yaml", "bad:\n  out: [none]\n  script: exit 7\n");
    server.write("targets.yaml", "t:\n  dirname: .\n  out: [none]\n");
    assert_eq!(server.ok("make --submit"), "Job 3 makes the files: 1 run\n");
    assert_eq!(server.hq("job wait 3").exit, 1);
    let failed = server.hq("make --list-failed");
    assert_eq!(
        (failed.exit, failed.stdout.as_str()),
        (1, "bad: Program terminated with exit code 7. (bad.log)\n"),
        "{failed:?}"
    );
}

#[test]
fn nothing_starts_that_cannot_end_in_time() {
    let rules = "short:\n  out: [short]\n  script: touch short\nlong:\n  resource: {time: 30}\n  inp: [short]\n  out: [long]\n  script: touch long\nlast:\n  inp: [long]\n  out: [last]\n  script: touch last\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [last]\n");
    let ran = place.hq("make rules.yaml targets.yaml 29.5");
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.stdout.contains("completed  short\n"), "{ran:?}");
    assert!(ran.stdout.contains(": 1 completed, 2 not run\nNot started for lack of time: "), "{ran:?}");
    assert!(!place.path("long").exists() && !place.path("long.sh").exists());
    place.ok("make rules.yaml targets.yaml 31");
    // On a server the time begins with the submit.
    let server = Cluster::new();
    server.write("rules.yaml", rules);
    server.write("targets.yaml", "t:\n  dirname: .\n  out: [last]\n");
    let ran = server.hq("make --submit --wait rules.yaml targets.yaml 29.5");
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(
        ran.stdout.ends_with(": 1 completed, 2 not run\nNot started for lack of time: 1 run\n"),
        "{ran:?}"
    );
    // When the time has come, what runs is left alone.
    let rules = "runs:\n  out: [runs]\n  script: |\n    touch begun\n    read line < go\n    touch runs\nnext:\n  inp: [runs]\n  out: [next]\n  script: touch next\n";
    place.write("rules.yaml", rules);
    place.write("targets.yaml", "t:\n  dirname: .\n  out: [next]\n");
    let go = place.pipe("go");
    let mut command = place.command(["make", "rules.yaml", "targets.yaml", "0.01"]);
    command.stdout(fs::File::create(place.path("said")).expect("a file")).stderr(Stdio::null());
    let make = Process::start(command);
    // Its server is asked, or has ended: on a slow machine nothing begins in time.
    crate::patience::until("the time has come", || {
        let asked = place.hq("--server-dir .hq-make/server job task-ids last --filter canceled");
        let is_over = place.read("said").contains("not run");
        if is_over || (asked.exit == 0 && !asked.stdout.trim().is_empty()) {
            Ok(())
        } else {
            Err(format!("{asked:?}"))
        }
    });
    if place.path("begun").exists() {
        fs::write(go, "on\n").expect("it reads");
    }
    assert_eq!(make.end(), 1);
    assert_eq!(place.path("runs").exists(), place.path("begun").exists(), "what ran was left alone");
    assert!(!place.path("next").exists());
}

#[test]
fn a_directory_that_a_failed_run_left_is_moved_aside_too() {
    let rules =
        "r:\n  out: [\"x_{n}\"]\n  script: |\n    mkdir -p x_{n}\n    touch x_{n}/f\n    test -e ../fine\n";
    let place = place(rules, "t:\n  dirname: d\n  out: [x_1]\n");
    assert_eq!(place.hq("make").exit, 1);
    assert!(!place.path("d/x_1").exists() && place.path("d/x_1.failed-0/f").exists());
    place.write("fine", "");
    place.ok("make");
    assert!(place.path("d/x_1/f").exists());
}

#[test]
fn what_changes_while_a_run_works_is_not_taken_for_what_it_took() {
    let rules =
        "use:\n  inp: [in]\n  out: [o]\n  script: |\n    cat in > o\n    test ! -e change || mv change in\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [o]\n");
    place.write("in", "A");
    place.write("change", "B");
    // Written after the run began, as by somebody else.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let change = fs::File::options().append(true).open(place.path("change")).expect("there");
    change.set_modified(later).expect("a time");
    place.ok("make --rerun hash");
    assert_eq!((place.read("in"), place.read("o")), ("B".into(), "A".into()));
    place.ok("make --rerun hash");
    assert_eq!(place.read("o"), "B");
    // What mode `exists` makes is remembered where something is.
    fs::remove_file(place.path("o")).expect("there");
    place.write("other.yaml", rules.replace("cat in > o", "echo other > o"));
    place.ok("make other.yaml");
    place.ok("make --rerun mtime");
    assert_eq!(place.read("o"), "B");
}

#[test]
fn a_job_that_goes_on_is_joined_for_the_same_files_only() {
    let server = Cluster::new();
    server.write("rules.yaml", HALVES);
    server.write("targets.yaml", HALVES_TARGETS);
    let go = server.pipe("go_0");
    server.ok("make --submit");
    server.write("more.yaml", "t:\n  dirname: e\n  out: [copy_1]\n");
    for (args, word) in [
        ("make --submit rules.yaml more.yaml", "e/"),
        ("make --submit --force", "--force"),
        ("make --delete --yes", "is making files here"),
    ] {
        let error = server.fails(1, args);
        assert!(error.contains("Job 1") && error.contains(word), "{args}: {error}");
    }
    // A call that was killed before it heard the number of its job finds it again.
    let job = server.read(".hq-make/job.json").replace("\"job\":1", "\"job\":null");
    server.write(".hq-make/job.json", job);
    assert_eq!(server.ok("make --submit"), "Job 1 is already making the files\n");
    fs::write(go, "on\n").expect("it reads");
    server.ok("job wait 1");
    assert_eq!(server.json("job list --all").as_array().map(Vec::len), Some(1));
}

#[test]
fn a_rule_may_ask_for_no_cpu() {
    let place =
        place("r:\n  resource: {cpu: 0}\n  out: [x]\n  script: touch x\n", "t:\n  dirname: .\n  out: [x]\n");
    place.ok("make");
}

#[test]
fn what_comes_out_as_before_stops_what_follows_and_stays_up_to_date() {
    let rules = "count:\n  inp: [in]\n  out: [n]\n  script: wc -w < in > n\nuse:\n  inp: [n]\n  out: [o]\n  script: cp n o\n";
    let place = place(rules, "t:\n  dirname: .\n  out: [o]\n");
    place.write("in", "one two\n");
    place.ok("make --rerun hash");
    for words in ["three four\n", "five six\n"] {
        place.write("in", words);
        let made = place.ok("make --rerun hash");
        assert!(made.contains("completed  count\n") && made.contains("unchanged  use\n"), "{made}");
        assert!(place.ok("make --rerun hash").starts_with("Nothing to do"), "after {words}");
    }
}

#[test]
fn what_no_worker_could_run_is_said_when_it_is_submitted() {
    let mut server = Cluster::server();
    server.worker("--cpus 2");
    server.write("rules.yaml", "r:\n  resource: {cpu: 64}\n  out: [\"x_{n}\"]\n  script: touch x_{n}\n");
    server.write("targets.yaml", "t:\n  out: [x_1, x_2]\n");
    let ran = server.hq("make --submit");
    assert_eq!((ran.exit, &*ran.stdout), (0, "Job 1 makes the files: 2 runs\n"));
    let why = "WARN r.1 and 1 more: no worker could ever run it, not even one that a queue may start: \
               cpus: 64 asked for, the most that any worker has is 2\n";
    assert!(ran.stderr.contains(why), "{ran:?}");
}
