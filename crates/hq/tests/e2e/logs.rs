//! `--log FILE`: what tasks print is in one file, which the server writes, when their end is told.

use std::collections::BTreeMap;
use std::fs;

use crate::cluster::{Cluster, Place, Ran};
use crate::patience;
use crate::printed::{self, Printed};

// What each attempt printed into a log.
fn read(place: &Place, path: &str) -> BTreeMap<(u32, u32, u32), Printed> {
    printed::read([place.path(path)])
}

fn printed(stdout: &str, stderr: &str) -> Printed {
    Printed::new(stdout, stderr, [1, 1])
}

#[test]
fn a_thousand_tasks_of_two_workers_print_into_one_file() {
    let mut cluster = Cluster::new();
    cluster.worker("--cpus 4");
    let line = "sh -c 'echo o$HQ_TASK_ID; echo e$HQ_TASK_ID >&2'";
    cluster.ok(&format!("submit --wait --array 1-1000 --log 'new/%{{JOB_ID}}/out.log' -- {line}"));
    let all = read(&cluster, "new/1/out.log");
    assert_eq!(all.len(), 1000);
    for ((_, task, _), found) in all {
        assert_eq!(found, printed(&format!("o{task}\n"), &format!("e{task}\n")), "task {task}");
    }
    assert!(!cluster.path("job-1").exists());
    assert_eq!(cluster.ok("job info 1").matches("<Stream>").count(), 2);
    assert_eq!(cluster.ok("task info 1 1").matches("<Stream>").count(), 2);
    let expected: String = (1..=1000).map(|task| format!("o{task}\n")).collect();
    assert_eq!(cluster.ok("job cat 1 stdout"), expected);
    assert_eq!(cluster.ok("output-log new/1/out.log cat 1 stdout"), expected);
    assert_eq!(cluster.ok("log new/1/out.log cat stderr --task 7"), "e7\n");
    assert_eq!(cluster.ok("output-log new/1/out.log jobs"), "1\n");
    let summary = cluster.ok("output-log new/1/out.log summary");
    assert!(summary.contains("| Tasks                         | 1000"), "{summary}");
}

#[test]
fn what_is_long_arrives_whole_and_jobs_share_a_file() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --array 0-7 --log out -- sh -c 'yes 0123456 | head -c 8000000'");
    cluster.ok("job open");
    for word in ["a", "b"] {
        cluster.ok(&format!("submit --wait --job 2 --log out --stderr none -- echo {word}"));
    }
    cluster.ok("job close 2");
    let all = read(&cluster, "out");
    let expected = "0123456\n".repeat(1_000_000);
    assert!((0..8).all(|task| all[&(1, task, 0)].stdout == expected));
    assert_eq!(cluster.ok("job cat 2 stdout"), "a\nb\n");
    assert_eq!(all[&(2, 0, 0)], Printed::new("a\n", "", [1, 0]));
    assert_eq!(all.len(), 10);
}

#[test]
fn a_script_and_a_job_file_name_a_log() {
    let cluster = Cluster::new();
    let log = cluster.path("deep/.command.log");
    cluster.write("run.sh", format!("#!/bin/sh\n#HQ --log {}\necho from the script\n", log.display()));
    cluster.ok("submit --wait --directives=file run.sh");
    assert_eq!(read(&cluster, "deep/.command.log")[&(1, 0, 0)], printed("from the script\n", ""));
    cluster.write("job.toml", "log = 'file.log'\n[[task]]\ncommand = ['echo', 'a']\nstderr = 'none'\n");
    cluster.ok("job submit-file job.toml");
    cluster.ok("job wait 2");
    assert_eq!(cluster.ok("job cat 2 stdout"), "a\n");
    let both = "log = 'a'\nstream = 'b'\n[[task]]\ncommand = ['true']\n";
    cluster.write("both.toml", both);
    let error = cluster.fails(1, "job submit-file both.toml");
    assert!(error.contains("stream and log cannot be used together"), "{error}");
}

#[test]
fn what_is_no_log_is_left_alone_and_its_tasks_fail() {
    let cluster = Cluster::new();
    cluster.write("precious", "text");
    let ran = cluster.hq("submit --wait --log precious -- echo a");
    assert!(ran.stderr.contains("precious is not a stream file"), "known before a task runs: {ran:?}");
    for (log, why) in [("dir", "is a directory"), ("new-%{JOB_ID}", "")] {
        std::fs::create_dir_all(cluster.path("dir")).expect("a directory");
        let ran = cluster.hq(&format!("submit --cpus 99 --log {log} -- echo a"));
        assert_eq!(ran.exit, 0);
        assert!(ran.stderr.contains(why) && (why.is_empty() != ran.stderr.contains("will fail")), "{ran:?}");
    }
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("Cannot write the log") && error.contains("is not a stream file"), "{error}");
    assert_eq!(cluster.read("precious"), "text");
    let other = Cluster::new();
    other.run(["submit", "--wait", "--log", cluster.path("theirs").to_str().expect("a path"), "--", "echo"]);
    let ran = cluster.hq("submit --wait --log theirs -- echo a");
    assert!(ran.stderr.contains("is the log of another server"), "{ran:?}");
    let error = cluster.json("task info 4 0").to_string();
    assert!(error.contains("is the log of another server"), "{error}");
    // What fails there hurts nobody else.
    cluster.ok("submit --wait --log fine -- echo a");
    let ran = cluster.hq("submit --wait --log unused --stdout a --stderr none -- echo a");
    assert!(ran.stderr.contains("nothing would be written to the log unused"), "{ran:?}");
    assert!(!cluster.path("unused").exists());
}

#[test]
fn a_canceled_task_keeps_what_it_printed() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("ready");
    cluster.ok("submit --log out -- sh -c 'echo before; echo x > ready; exec sleep 1000'");
    cluster.line_from(&pipe);
    cluster.ok("job cancel 1");
    cluster.hq("job wait 1");
    // The end is told when it is in the file, and the worker has told it when it has ended.
    cluster.ok("worker stop all");
    cluster.workers.remove(0).end();
    assert_eq!(read(&cluster, "out")[&(1, 0, 0)], printed("before\n", ""));
}

#[test]
fn when_the_server_dies_while_tasks_print_everything_is_there_once() {
    let mut cluster = Cluster::new();
    let gate = cluster.pipe("gate");
    // They print before the server dies, while it is away, and after it is back.
    cluster.write(
        "task.sh",
        "i=0\nwhile test $i -lt 20000; do echo $HQ_TASK_ID.$i; i=$((i+1)); done\n\
         test $HQ_TASK_ID != 0 || { echo x > gate; while ! test -e go; do sleep 0.01; done; }\necho end\n",
    );
    cluster.ok("submit --array 0-15 --log out -- sh task.sh");
    cluster.line_from(&gate);
    cluster.server.take().expect("a server").signal(libc::SIGKILL);
    cluster.start_server("");
    cluster.write("go", "");
    cluster.ok("job wait 1");
    let all = read(&cluster, "out");
    assert_eq!(all.len(), 16);
    for ((_, task, instance), found) in all {
        let expected: String = (0..20_000).map(|line| format!("{task}.{line}\n")).collect();
        let is_same = found == printed(&(expected + "end\n"), "");
        // What had not started when the server died may have begun as the next instance.
        let (bytes, ends) = (found.stdout.len(), found.ends);
        assert!(is_same, "task {task}, instance {instance}: {bytes} bytes, ends {ends:?}");
    }
}

#[test]
fn when_a_worker_dies_what_its_tasks_print_again_is_told_apart() {
    let mut cluster = Cluster::server_with("--worker-grace 1s");
    cluster.worker("--cpus 4");
    let pipe = cluster.pipe("ready");
    cluster.write(
        "task.sh",
        "echo run $HQ_INSTANCE_ID\nif test $HQ_INSTANCE_ID = 0; then echo x > ready; exec sleep 1000; fi\n",
    );
    cluster.ok("submit --log out -- sh task.sh");
    cluster.line_from(&pipe);
    cluster.worker("--cpus 4");
    cluster.workers.remove(0).signal(libc::SIGKILL);
    cluster.ok("job wait 1");
    let all = read(&cluster, "out");
    assert_eq!(all[&(1, 0, 1)], printed("run 1\n", ""));
    assert_eq!(cluster.ok("job cat 1 stdout"), "run 1\n");
}

#[test]
fn a_full_disk_makes_tasks_wait_until_there_is_room() {
    let place = Place::new();
    place.write("filler", vec![0; 3 << 20]);
    let mut cluster = Cluster::on_a_small_disk(place, 4 << 10, "cp filler disk", "");
    let pid = cluster.server.as_ref().expect("a server").id();
    cluster.worker("--cpus 5");
    cluster.ok("submit --array 0-3 --log disk/log -- sh -c 'yes 0123456 | head -c 600000'");
    // Others go on.
    cluster.ok("submit --wait --log other -- echo a");
    let disk = format!("/proc/{pid}/root{}", cluster.path("disk").display());
    patience::until("the disk is full", || match rustix::fs::statvfs(&*disk) {
        Ok(found) if found.f_bavail < 64 => Ok(()),
        found => Err(format!("{:?} blocks are free", found.map(|found| found.f_bavail))),
    });
    fs::remove_file(format!("{disk}/filler")).expect("a file");
    cluster.ok("job wait 1");
    fs::copy(format!("{disk}/log"), cluster.path("log")).expect("a log");
    let all = read(&cluster, "log");
    let expected = "0123456\n".repeat(75_000);
    assert!(all.len() == 4 && all.values().all(|found| *found == printed(&expected, "")));
}

#[test]
fn a_log_that_was_removed_begins_anew() {
    let cluster = Cluster::new();
    for word in ["a", "b"] {
        let _ = fs::remove_file(cluster.path("out"));
        cluster.ok(&format!("submit --wait --log out -- echo {word}"));
        assert_eq!(cluster.ok("job cat last stdout"), format!("{word}\n"));
    }
}

#[test]
fn nothing_is_written_into_a_file_that_takes_the_place_of_a_log() {
    let cluster = Cluster::new();
    cluster.write("other", "somebody else's\n".repeat(99));
    // It is not emptied in between: an empty one would begin anew.
    let overwrite = "dd if=other of=out conv=notrunc status=none";
    cluster.hq(&format!("submit --wait --log out -- sh -c 'yes | head -c 1000000; {overwrite}; echo b'"));
    let error = cluster.json("task info 1 0").to_string();
    assert!(error.contains("Cannot write the log"), "{error}");
    let found = std::fs::read(cluster.path("out")).expect("a file");
    assert!(found.starts_with(cluster.read("other").as_bytes()));
}

#[test]
fn what_a_failed_task_said_last_is_found_in_its_log_and_stream() {
    let cluster = Cluster::new();
    for option in ["--log out.log", "--stream out"] {
        let line = format!("submit --wait {option} -- sh -c 'echo some; echo no license >&2; exit 3'");
        let said = cluster.fails(1, &line);
        assert!(said.contains("The last line of its stderr: no license"), "{said}");
        assert!(cluster.ok("job failures last").contains("no license"));
        let place = option.split_once(' ').expect("two words").1;
        let row = format!("| Stream                 | {} ", cluster.path(place).display());
        assert!(cluster.ok("job info last").contains(&row), "{}", cluster.ok("job info last"));
    }
}

#[test]
fn what_failed_tasks_printed_must_be_there() {
    let cluster = Cluster::new();
    for (job, options) in ["--log out", "--stream dir"].iter().enumerate() {
        cluster.hq(&format!("submit --wait {options} -- sh -c 'echo hi; exit 1'"));
        let path = cluster.path(["out", "dir"][job]);
        std::fs::rename(&path, cluster.path(format!("gone-{job}"))).expect("it is there");
        let ran = cluster.hq("job cat last stdout");
        assert_eq!((ran.exit, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(ran.stderr.contains("no stream of this server is there"), "{ran:?}");
        // The next job does not go on in what was renamed.
        cluster.ok(&format!("submit --wait {options} -- echo next"));
        assert_eq!(cluster.ok("job cat last stdout"), "next\n", "{options}");
    }
}

#[test]
fn what_is_cut_of_a_log_while_tasks_run_is_told() {
    type Cut = fn(&std::path::Path);
    let cuts: [(&str, Cut); 3] = [
        ("emptied", |path| drop(fs::File::create(path).expect("a log"))),
        ("removed", |path| fs::remove_file(path).expect("a log")),
        ("cut", |path| {
            fs::File::options().write(true).open(path).expect("a log").set_len(80).expect("writable")
        }),
    ];
    let cluster = Cluster::new();
    for (how, cut) in cuts {
        let (said, goes_on) = (cluster.pipe(&format!("said-{how}")), cluster.pipe(&format!("goes-on-{how}")));
        let line = format!("echo begin; echo x > said-{how}; read word < goes-on-{how}; echo end");
        cluster.ok(&format!("submit --log {how}.log -- sh -c '{line}'"));
        cluster.line_from(&said);
        let log = format!("{how}.log");
        let read = || match cluster.hq(&format!("output-log {log} cat stdout --allow-unfinished")) {
            Ran { exit: 0, stdout, .. } if stdout == "begin\n" => Ok(()),
            nothing_yet => Err(nothing_yet),
        };
        patience::answer(read).expect("what was printed");
        cut(&cluster.path(&log));
        fs::write(&goes_on, "x\n").expect("a pipe with a reader");
        cluster.ok("job wait last");
        // What others print there then is whole.
        cluster.ok(&format!("submit --wait --log {log} -- echo other"));
        let job = cluster.hq(&format!("output-log {log} jobs")).stdout;
        let (first, second) = job.trim().split_once('\n').expect("two jobs");
        for line in [
            format!("job cat {first} stdout"),
            format!("job cat {first} stdout --tasks 0"),
            format!("job cat --follow {first} stdout"),
            format!("task tail {first}@0"),
            format!("output-log {log} cat {first} stdout"),
            format!("output-log {log} cat {first} stdout --task 0"),
        ] {
            let ran = cluster.hq(&line);
            assert_eq!((ran.exit, ran.stdout.as_str()), (1, "end\n"), "{how}: {line}: {ran:?}");
            let told =
                "6 bytes that tasks had printed are missing: the file was removed, renamed, emptied or cut";
            assert_eq!(ran.stderr.matches(told).count(), 1, "{how}: {line}: {ran:?}");
            assert!(
                ran.stderr.contains(&format!("they had output of task {first}@0")),
                "{how}: {line}: {ran:?}"
            );
        }
        for line in [format!("output-log {log} summary"), format!("output-log {log} jobs")] {
            assert_eq!(cluster.hq(&line).exit, 1, "{how}: {line}");
        }
        for line in [format!("job cat {second} stdout"), format!("output-log {log} cat {second} stdout")] {
            assert_eq!(cluster.ok(&line), "other\n", "{how}: {line}");
        }
    }
}

#[test]
fn what_is_cut_of_a_log_when_a_task_has_finished_is_told_where_the_server_knows_of_it() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --log out -- sh -c 'yes | head -c 200000'");
    fs::File::options()
        .write(true)
        .open(cluster.path("out"))
        .expect("a log")
        .set_len(70_000)
        .expect("writable");
    let ran = cluster.hq("job cat 1 stdout");
    assert!(ran.exit == 1 && !ran.stdout.is_empty(), "{}: {}", ran.exit, ran.stderr);
    let told = "the end of what task 0 of job 1 printed is no longer there";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
}
