//! `--stream DIR`: what tasks print is in the files of their workers when their end is told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

use crate::cluster::{Cluster, Ran};
use crate::printed::{self, Printed};

fn printed(stdout: &str, stderr: &str, ends: [u32; 2]) -> Printed {
    Printed::new(stdout, stderr, ends)
}

/// Everything in the files of a directory, by task and instance.
fn read(cluster: &Cluster, dir: &str) -> BTreeMap<(u32, u32), Printed> {
    let files = fs::read_dir(cluster.path(dir)).expect("a stream directory");
    let all = printed::read(files.map(|entry| entry.expect("an entry").path()));
    all.into_iter().map(|((_, task, instance), printed)| ((task, instance), printed)).collect()
}

#[test]
fn a_thousand_tasks_print_into_one_file() {
    let cluster = Cluster::new();
    let tasks = 1000;
    cluster.ok(&format!(
        "submit --wait --array 1-{tasks} --stream 'out/%{{JOB_ID}}' -- sh -c 'echo o$HQ_TASK_ID; echo e$HQ_TASK_ID >&2'"
    ));
    assert_eq!(fs::read_dir(cluster.path("out/1")).expect("a directory").count(), 1);
    assert!(!cluster.path("job-1").exists());
    let all = read(&cluster, "out/1");
    assert_eq!(all.len(), tasks);
    for ((task, instance), found) in all {
        let expected = printed(&format!("o{task}\n"), &format!("e{task}\n"), [1, 1]);
        assert_eq!((instance, found), (0, expected), "task {task}");
    }
    let shown = cluster.ok("task info 1 1");
    assert_eq!(shown.matches("<Stream>").count(), 2, "{shown}");
    assert_eq!(cluster.ok("job info 1").matches("<Stream>").count(), 2);
    let task = cluster.json("task info 1 1");
    assert!(task.to_string().contains("\"stdout\":\"<pipe>\""), "{task}");
    let expected: String = (1..=tasks).map(|task| format!("o{task}\n")).collect();
    assert_eq!(cluster.ok("job cat 1 stdout"), expected);
    assert_eq!(cluster.ok("output-log out/1 cat 1 stdout"), expected);
    let two = cluster.ok("job cat 1 stderr --tasks 7,1000 --print-task-header");
    assert_eq!(two, "# Job 1, task 7\ne7\n# Job 1, task 1000\ne1000\n");
}

#[test]
fn what_is_compressed_is_read_as_all_else() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("ready");
    let print = "sh -c 'yes line $HQ_TASK_ID | head -c 100000; echo e$HQ_TASK_ID >&2'";
    let expected: String =
        (0..4).map(|task| format!("line {task}\n").repeat(20_000)[..100_000].to_owned()).collect();
    for (job, place) in [(1, "stream"), (2, "log")] {
        cluster.ok(&format!("submit --wait --array 0-3 --{place} {place} --compress zstd -- {print}"));
        assert_eq!(cluster.ok(&format!("job cat {job} stdout")), expected);
        assert_eq!(cluster.ok(&format!("output-log {place} cat stderr --task 2-3")), "e2\ne3\n");
        assert_eq!(cluster.ok(&format!("output-log {place} cat stderr --task 3,1-2")), "e3\ne1\ne2\n");
        assert!(cluster.ok(&format!("output-log {place} show --channel stderr")).contains(":1> e2\n"));
        assert!(cluster.ok(&format!("output-log {place} export --task 1")).contains(r#""stderr":"e1\n""#));
        let summary = cluster.json(&format!("output-log {place} summary"));
        assert_eq!(summary["summary"]["stdout_size"], 400_000);
        let disk = summary["summary"]["disk_size"].as_u64().expect("a number");
        assert!((100..10_000).contains(&disk), "{summary}");
        assert!(cluster.ok(&format!("job info {job}")).contains(&format!("{place} (zstd:3)")));
    }
    // While it runs, and with less at the end.
    let line = "sh -c 'yes text | head -c 5000; echo last; echo x > ready; exec sleep 1000'";
    cluster.ok(&format!("submit --stream live --compress zstd:1 -- {line}"));
    cluster.line_from(&pipe);
    let tail = || match cluster.ok("task tail 3@0 -n 2") {
        nothing_yet if nothing_yet.is_empty() => Err(nothing_yet),
        text => Ok(text),
    };
    assert_eq!(crate::patience::answer(tail).expect("what was printed"), "text\nlast\n");
    cluster.ok("job cancel 3");
    cluster.hq("job wait 3");
    cluster.ok("worker stop all");
    cluster.workers.remove(0).end();
    assert_eq!(read(&cluster, "live")[&(0, 0)].stdout, format!("{}last\n", "text\n".repeat(1000)));

    cluster.write("job.toml", "compress = 'zstd:2'\n[[task]]\ncommand = ['echo']\n");
    let error = cluster.fails(1, "job submit-file job.toml");
    assert!(error.contains("compress needs stream or log"), "{error}");
    cluster.write("job.toml", "stream = 's'\ncompress = 'zstd:2'\n[[task]]\ncommand = ['echo']\n");
    cluster.ok("job submit-file job.toml");
    assert!(cluster.json("job info 4").to_string().contains(r#""compress":"zstd:2""#));
}

#[test]
fn more_than_a_pipe_holds_arrives_whole() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --array 0-7 --stream out -- sh -c 'yes 0123456 | head -c 1000000'");
    let all = read(&cluster, "out");
    let expected = "0123456\n".repeat(125_000);
    assert!(all.len() == 8 && all.values().all(|found| found.stdout == expected));
}

#[test]
fn what_failed_or_was_canceled_keeps_what_it_printed() {
    let mut cluster = Cluster::new();
    cluster.hq("submit --wait --stream failed -- sh -c 'echo before; exit 3'");
    assert_eq!(read(&cluster, "failed")[&(0, 0)], printed("before\n", "", [1, 1]));
    cluster.hq("submit --wait --stream late --time-limit 1s -- sh -c 'echo before; exec sleep 1000'");
    assert_eq!(read(&cluster, "late")[&(0, 0)], printed("before\n", "", [1, 1]));
    let pipe = cluster.pipe("ready");
    cluster.ok("submit --stream canceled -- sh -c 'echo before; echo x > ready; exec sleep 1000'");
    cluster.line_from(&pipe);
    cluster.ok("job cancel 3");
    cluster.hq("job wait 3");
    // The end is told when it is in the file, and the worker has told it when it has ended.
    cluster.ok("worker stop all");
    cluster.workers.remove(0).end();
    assert_eq!(read(&cluster, "canceled")[&(0, 0)], printed("before\n", "", [1, 1]));
}

#[test]
fn a_channel_with_a_file_of_its_own_is_not_in_the_stream() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --stream out --stdout own -- sh -c 'echo o; echo e >&2'");
    assert_eq!(cluster.read("own"), "o\n");
    assert_eq!(read(&cluster, "out")[&(0, 0)], printed("", "e\n", [0, 1]));
}

#[test]
fn a_stream_where_a_file_is_fails_its_tasks() {
    let cluster = Cluster::new();
    cluster.write("taken", "x");
    cluster.hq("submit --wait --stream taken -- sh -c 'touch ran'");
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("Cannot create stream directory"), "{error}");
    assert!(!cluster.path("ran").exists());
    assert_eq!(cluster.read("taken"), "x");
}

#[test]
fn a_restarted_attempt_is_kept_apart_from_the_one_that_was_lost() {
    let mut cluster = Cluster::server_with("--worker-grace 1s");
    cluster.worker("--cpus 4");
    cluster.write(
        "task.sh",
        "echo run $HQ_INSTANCE_ID\nif test $HQ_INSTANCE_ID = 0; then exec sleep 1000; fi\n",
    );
    cluster.ok("submit --stream out -- sh task.sh");
    // What can be read is in its file.
    let found = || match cluster.ok("task tail 1@0") {
        lines if lines.is_empty() => Err(lines),
        lines => Ok(lines),
    };
    assert_eq!(crate::patience::answer(found).expect("what was printed"), "run 0\n");
    cluster.worker("--cpus 4");
    cluster.workers.remove(0).signal(libc::SIGKILL);
    cluster.ok("job wait 1");
    assert_eq!(fs::read_dir(cluster.path("out")).expect("a directory").count(), 2, "each worker has a file");
    let all = read(&cluster, "out");
    assert_eq!(all[&(0, 1)], printed("run 1\n", "", [1, 1]));
    assert_eq!(cluster.ok("output-log out cat stdout"), "run 1\n");
    assert_eq!(all[&(0, 0)], printed("run 0\n", "", [0, 0]));
}

#[test]
fn what_begins_after_its_file_was_removed_is_kept_and_what_was_in_it_fails() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2");
    let go = cluster.pipe("go");
    cluster.ok("submit --stream out -- sh -c 'echo lost; cat go; echo more'");
    let found = || match cluster.ok("task tail 1@0") {
        lines if lines.is_empty() => Err(lines),
        lines => Ok(lines),
    };
    assert_eq!(crate::patience::answer(found).expect("what was printed"), "lost\n");
    for file in fs::read_dir(cluster.path("out")).expect("a directory") {
        fs::remove_file(file.expect("a file").path()).expect("it is ours");
    }
    cluster.ok("submit --wait --stream out -- echo kept");
    assert_eq!(cluster.ok("job cat 2 stdout"), "kept\n");
    fs::write(go, "").expect("the task reads");
    cluster.fails(1, "job wait 1");
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("was removed while the task was writing to it"), "{error}");
}

#[test]
fn a_job_file_has_a_stream_for_all_its_tasks() {
    let cluster = Cluster::new();
    let tasks = "[[task]]\ncommand = ['echo', 'a']\n[[task]]\ncommand = ['echo', 'b']\nstderr = 'none'\n";
    cluster.write("job.toml", format!("stream = 'out'\n{tasks}"));
    cluster.ok("job submit-file job.toml");
    cluster.ok("job wait 1");
    let all = read(&cluster, "out");
    assert_eq!(all[&(0, 0)], printed("a\n", "", [1, 1]));
    assert_eq!(all[&(1, 0)], printed("b\n", "", [1, 0]));
}

#[test]
fn output_log_tells_what_is_in_a_directory() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --array 8-10 --stream out -- sh -c 'echo a $HQ_TASK_ID; echo e >&2'");
    cluster.ok("submit --wait --stream out -- printf 'no end of line'");
    let summary = "\
+-------------------------------+------------+
| Path                          | out        |
| Files                         | 1          |
| Jobs                          | 2          |
| Tasks                         | 4          |
| Opened streams                | 0          |
| Stdout/stderr size            | 27 B / 6 B |
| Superseded streams            | 0          |
| Superseded stdout/stderr size | 0 B / 0 B  |
";
    // Then comes how long the file is, which depends on how much was written at once.
    let printed = cluster.ok("output-log out summary");
    assert!(
        printed.starts_with(summary) && printed.contains("| Size on the disk              | "),
        "{printed}"
    );
    let found = cluster.json("output-log out summary");
    assert_eq!(found["filename"], "out");
    let (tasks, streams) = (&found["summary"]["n_tasks"], &found["summary"]["n_streams"]);
    assert_eq!((tasks.as_u64(), streams.as_u64()), (Some(4), Some(8)), "{found}");
    assert_eq!(cluster.ok("output-log out jobs"), "1\n2\n");
    assert_eq!(cluster.ok("output-log out cat 1 stdout"), "a 8\na 9\na 10\n");
    assert_eq!(cluster.ok("output-log out cat 1 stdout --task 9-10"), "a 9\na 10\n");
    assert_eq!(cluster.ok("log out cat 2 stdout"), "no end of line");
    assert_eq!(cluster.ok("output-log out show --job 2"), "2.0:0> no end of line\n");
    let shown = cluster.ok("output-log out show --channel stderr");
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1.08:1> e", "1.09:1> e", "1.10:1> e"]);
    let exported = cluster.json("output-log out export 1 --task 8");
    assert_eq!(
        exported,
        serde_json::json!([{ "id": 8, "finished": true, "stdout": "a 8\n", "stderr": "e\n" }])
    );
    let uid = cluster.json("server info")["server_uid"].as_str().expect("a name").to_owned();
    assert_eq!(cluster.ok(&format!("output-log out --server-uid {uid} cat 2 stdout")), "no end of line");
}

#[test]
fn output_log_says_what_is_not_there() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --stream out -- echo a");
    cluster.ok("submit --wait --stream out -- echo b");
    let refused = [
        (1, "output-log out cat 9 stdout", "Job 9 not found"),
        (1, "output-log out cat 1 stdout --task 99", "Task 99 not found"),
        (1, "output-log out export 1 --task 5-4000000000", "Tasks 5-4000000000 not found"),
        (1, "output-log . summary", "No log files found"),
        (1, "output-log nowhere summary", "nowhere: No such file"),
        (1, "output-log out --server-uid other summary", "No log files found of server other"),
        (2, "output-log out cat stdout", "several jobs"),
        (2, "output-log out cat x stdout", "`x` is not an id of a job"),
        (2, "output-log out cat 1 stdin", "`stdin` is not an output"),
        (2, "output-log out export", "several jobs"),
    ];
    for (exit, line, expected) in refused {
        let error = cluster.fails(exit, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
    let some = cluster.hq("output-log out cat 1 stdout --task 0,7-9");
    assert_eq!((some.exit, some.stdout.as_str()), (1, "a\n"));
    assert!(some.stderr.contains("Tasks 7-9 not found"), "{some:?}");
    let some = cluster.hq("output-log out export 1 --task 0,7");
    assert!(some.exit == 1 && some.stdout.contains("\"stdout\":\"a\\n\""), "{some:?}");
    let file = fs::read_dir(cluster.path("out")).expect("a directory").next().expect("a file").expect("it");
    fs::copy(file.path(), cluster.path("out/copy-of-it.hqs")).expect("a copy");
    for line in ["output-log out cat 1 stdout", "job cat 1 stdout"] {
        let ran = cluster.hq(line);
        assert_eq!((ran.exit, ran.stdout.as_str()), (0, "a\n"), "{line}");
        assert!(ran.stderr.contains("is a copy of"), "{line}: {ran:?}");
    }
    let other = Cluster::new();
    other.run(["submit", "--wait", "--stream", cluster.path("out").to_str().expect("a path"), "echo"]);
    let error = cluster.fails(1, "output-log out summary");
    assert!(error.contains("Found streams from multiple server instances"), "{error}");
    // Those of other servers change nothing for what is asked of this one.
    assert_eq!(cluster.ok("job cat 1 stdout"), "a\n");
    fs::remove_dir_all(cluster.path("out")).expect("a directory");
    let error = cluster.fails(1, "job cat 1 stdout");
    assert!(error.contains("out: no stream of this server is there"), "{error}");
    cluster.ok("submit --stream later --cpus 99 -- echo a");
    let ran = cluster.hq("job cat 3 stdout");
    assert!(ran.exit == 0 && ran.stderr.contains("has started yet"), "{ran:?}");
}

#[test]
fn what_runs_can_be_read_up_to_its_last_write() {
    let cluster = Cluster::new();
    let ready = cluster.pipe("ready");
    cluster.ok("submit --stream out -- sh -c 'echo first; echo second >&2; echo x > ready; exec sleep 1000'");
    cluster.line_from(&ready);
    let read = || match cluster.hq("output-log out cat stdout --allow-unfinished") {
        Ran { exit: 0, stdout, .. } => Ok(stdout),
        nothing_yet => Err(nothing_yet),
    };
    assert_eq!(crate::patience::answer(read).expect("what was printed"), "first\n");
    let error = cluster.fails(1, "output-log out cat 1 stdout");
    assert!(error.contains("Stream for task 0 is not finished"), "{error}");
    assert_eq!(cluster.ok("job cat 1 stdout"), "first\n");
    assert_eq!(cluster.json("output-log out export")[0]["finished"], false);
}

#[test]
fn a_stream_to_which_nothing_goes_is_pointed_out() {
    let cluster = Cluster::new();
    let ran = cluster.hq("submit --wait --stream out --stdout a --stderr none -- echo a");
    assert_eq!(ran.exit, 0);
    assert!(ran.stderr.contains("nothing would be written to the stream out"), "{ran:?}");
    assert!(!cluster.path("out").exists());
}

#[test]
fn what_is_damaged_is_left_out_and_told() {
    let mut cluster = Cluster::new();
    for text in ["first", "second", "third"] {
        cluster.ok(&format!("submit --wait --stream out -- echo {text}"));
    }
    // With its end a worker writes whose output is where.
    cluster.ok("worker stop all");
    cluster.workers.remove(0).end();
    for entry in fs::read_dir(cluster.path("out")).expect("a stream directory") {
        let path = entry.expect("an entry").path();
        let mut bytes = fs::read(&path).expect("a stream file");
        if let Some(place) = bytes.windows(6).position(|bytes| bytes == b"second") {
            bytes[place] ^= 1;
            fs::write(&path, bytes).expect("a stream file");
        }
    }
    for line in ["output-log out cat 2 stdout --task 0", "output-log out cat 2 stdout"] {
        let ran = cluster.hq(line);
        assert!(ran.stderr.contains("damaged bytes were left out: "), "{ran:?}");
        assert!(ran.stderr.contains("they had output of task 2@0"), "{ran:?}");
        assert_eq!((ran.exit, ran.stdout.as_str()), (1, ""), "{ran:?}");
    }
    // Of the others everything is there.
    for line in
        ["output-log out show --job last", "output-log out cat last stdout", "output-log out export 1"]
    {
        assert_eq!(cluster.hq(line).exit, 0, "{line}");
    }
    // Who follows what has ended is told, too.
    for line in [
        "job cat 2 stdout --tasks 0",
        "job cat --follow 2 stdout",
        "job cat --follow 2 stdout --tasks 0",
        "task tail 2@0",
        "task tail 2@0 --follow",
    ] {
        let ran = cluster.hq(line);
        assert_eq!(ran.stderr.matches("damaged bytes were left out: ").count(), 1, "{line}: {ran:?}");
        assert!(ran.stderr.contains("they had output of task 2@0"), "{line}: {ran:?}");
        assert_eq!((ran.exit, ran.stdout.as_str()), (1, ""), "{line}");
    }
    for line in [
        "output-log out cat 3 stdout --task 0",
        "job cat 3 stdout",
        "job cat 3 stdout --tasks 0",
        "job cat --follow 3 stdout",
        "task tail 3@0 --follow",
    ] {
        let ran = cluster.hq(line);
        assert_eq!((ran.exit, ran.stdout.as_str()), (0, "third\n"), "{line}");
    }
    // What counts and lists cannot know what is lost.
    for (line, expected) in [
        ("output-log out summary", "| Damaged parts"),
        ("--output-mode json output-log out summary", "\"n_damaged\": 1"),
        ("output-log out jobs", "1\n3\n"),
    ] {
        let ran = cluster.hq(line);
        assert!(ran.exit == 1 && ran.stdout.contains(expected), "{line}: {ran:?}");
        assert!(ran.stderr.contains("they had output of task 2@0"), "{line}: {ran:?}");
        assert!(ran.stderr.contains("ERROR The output is not complete: 1 part"), "{line}: {ran:?}");
    }
    let error = cluster.fails(2, "output-log out export");
    assert!(error.contains("select one, as in `export 1`"), "{error}");
}

#[test]
fn a_follower_of_a_running_task_is_told_what_is_damaged_before_its_end() {
    let cluster = Cluster::new();
    let (said, goes_on) = (cluster.pipe("said"), cluster.pipe("goes-on"));
    cluster.ok("submit --log out -- sh -c 'echo first; echo x > said; read word < goes-on; echo second'");
    cluster.line_from(&said);
    let read = || match cluster.hq("output-log out cat stdout --allow-unfinished") {
        Ran { exit: 0, stdout, .. } if stdout == "first\n" => Ok(()),
        nothing_yet => Err(nothing_yet),
    };
    crate::patience::answer(read).expect("what was printed");
    let mut bytes = fs::read(cluster.path("out")).expect("a log");
    let place = bytes.windows(5).position(|bytes| bytes == b"first").expect("what was printed");
    bytes[place] ^= 1;
    let log = fs::File::options().write(true).open(cluster.path("out")).expect("a log");
    log.write_at(&bytes[place..=place], place as u64).expect("a byte");
    fs::write(&goes_on, "x\n").expect("a pipe with a reader");
    for line in ["job cat --follow 1 stdout", "task tail 1@0 --follow"] {
        let ran = cluster.hq(line);
        assert_eq!((ran.exit, ran.stdout.as_str()), (1, "second\n"), "{line}: {ran:?}");
        assert_eq!(ran.stderr.matches("damaged bytes were left out: ").count(), 1, "{line}: {ran:?}");
    }
    // Nothing of a log is read once its beginning is damaged; nothing but the server writes it.
    log.write_at(b"?", 0).expect("a byte");
    for line in ["output-log out summary", "job cat 1 stdout", "task tail 1@0"] {
        let error = cluster.fails(1, line);
        assert!(error.contains("beginning is damaged") && !error.contains("worker"), "{line}: {error}");
    }
}

#[test]
fn a_directory_that_was_removed_is_made_again() {
    let cluster = Cluster::new();
    for word in ["a", "b", "c"] {
        let _ = fs::remove_dir_all(cluster.path("out"));
        cluster.ok(&format!("submit --wait --stream out -- echo {word}"));
        assert_eq!(cluster.ok("job cat last stdout"), format!("{word}\n"));
    }
    // What is no file is passed over, and nobody waits for it.
    cluster.pipe("out/aaaaaaaaaaaa.hqs");
    fs::create_dir(cluster.path("out/bbbbbbbbbbbb.hqs")).expect("a directory");
    assert_eq!(cluster.ok("output-log out cat stdout"), "c\n");
    // What the first ones printed is gone, which is said.
    let error = cluster.fails(1, "job cat 1 stdout");
    assert!(error.contains("what task 0 of job 1 printed is no longer there"), "{error}");
    // Also of what failed; what was canceled may have printed nothing.
    cluster.hq("submit --wait --stream out -- sh -c 'echo d; exit 3'");
    let begun = cluster.pipe("begun");
    cluster.ok("submit --stream out -- sh -c 'echo e; echo x > begun; exec sleep 1000'");
    cluster.line_from(&begun);
    cluster.ok("job cancel last");
    // It counts as ended; that it has is written a moment later.
    let written = || match cluster.hq("output-log out cat last stdout") {
        Ran { exit: 0, .. } => Ok(()),
        not_yet => Err(not_yet),
    };
    crate::patience::answer(written).expect("its end");
    let _ = fs::remove_dir_all(cluster.path("out"));
    cluster.ok("submit --wait --stream out -- echo f");
    let error = cluster.fails(1, "job cat 4 stdout");
    assert!(error.contains("what task 0 of job 4 printed is no longer there"), "{error}");
    let ran = cluster.hq("job cat 5 stdout");
    assert!(ran.stderr.contains("No output of task 5@0 is there"), "{ran:?}");
}

#[test]
fn a_task_whose_file_is_removed_fails() {
    let cluster = Cluster::new();
    cluster.hq("submit --wait --stream out -- sh -c 'yes | head -c 1000000; rm -r out; echo b'");
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("was removed while the task was writing to it"), "{error}");
}

#[test]
fn a_task_whose_file_is_emptied_fails() {
    let cluster = Cluster::new();
    cluster.hq("submit --wait --stream out -- sh -c 'yes | head -c 1000000; for f in out/*; do : > $f; done; echo b'");
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("was cut short while the task was writing to it"), "{error}");
    cluster.ok("submit --wait --stream out -- echo next");
    assert_eq!(cluster.hq("job cat last stdout").stdout, "next\n");
}

#[test]
fn an_export_needs_no_memory_for_what_it_exports() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --stream out --compress zstd:1 -- sh -c 'yes 0123456 | head -c 96M'");
    let export = |options: &str| {
        let hq = env!("CARGO_BIN_EXE_hq");
        // Less than what it exports, with the program in it, which is large where it is not optimized.
        let words = format!("ulimit -v 96000; exec {hq} output-log out export {options} | wc -c");
        let mut bash = std::process::Command::new("bash");
        bash.args(["-o", "pipefail", "-c", &words]).current_dir(cluster.path("."));
        let ran = bash.output().expect("bash");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).trim().parse::<u64>().expect("a number")
    };
    // The line breaks become two characters.
    let bytes: u64 = 96 << 20;
    assert_eq!(export(""), bytes + bytes / 8 + 53);
}
