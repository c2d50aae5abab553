//! Declared outputs of attempts that did not succeed: nobody finds half a file where a result is to be.

use crate::cluster::Cluster;

// Ends well when it is asked to end, with half of its output there.
const ENDS_WELL: &str =
    "trap \"echo half > out; exit 0\" TERM; echo up > started; while :; do sleep 0.01; done";

#[test]
fn what_a_task_left_that_was_canceled_is_put_aside() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("started");
    cluster.ok(&format!("submit --output out -- sh -c '{ENDS_WELL}'"));
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.ok("job cancel 1");
    // It starts when the other has ended.
    cluster.ok("submit --cpus all --wait -- true");
    assert_eq!((cluster.read("out.failed-0").as_str(), cluster.path("out").exists()), ("half\n", false));
}

#[test]
fn what_a_task_left_at_its_time_limit_is_put_aside() {
    let cluster = Cluster::new();
    let task = ENDS_WELL.replace("echo up > started;", "");
    cluster.fails(1, &format!("submit --wait --time-limit 1s --output out -- sh -c '{task}'"));
    assert_eq!((cluster.read("out.failed-0").as_str(), cluster.path("out").exists()), ("half\n", false));
}

#[test]
fn what_a_task_left_whose_worker_stops_is_put_aside_unless_it_is_complete() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("started");
    for (number, code, is_complete) in [(1, 0, true), (2, 3, false)] {
        let task = ENDS_WELL
            .replace("exit 0", &format!("exit {code}"))
            .replace("half > out", "half > out-$HQ_JOB_ID");
        cluster.ok(&format!("submit --output 'out-%{{JOB_ID}}' -- sh -c '{task}'"));
        assert_eq!(cluster.line_from(&pipe), "up");
        cluster.ok(&format!("worker stop {number}"));
        cluster.workers.pop().expect("a worker").end();
        let there = ["", ".failed-0"].map(|end| cluster.path(format!("out-{number}{end}")).exists());
        assert_eq!(there, [is_complete, !is_complete], "exit code {code}");
        if number == 1 {
            assert_eq!(cluster.json("job info 1")[0]["info"]["task_stats"]["finished"], 1);
            cluster.worker("--cpus 4");
        }
    }
}

#[test]
fn what_an_attempt_left_whose_worker_was_killed_is_put_aside_by_the_next() {
    let mut cluster = Cluster::server_with("--worker-grace 1s");
    cluster.worker("--cpus 1");
    let pipe = cluster.pipe("started");
    let task = "test -e out && exit 4; echo $HQ_INSTANCE_ID > out; echo up > started; \
                while test $HQ_INSTANCE_ID = 0; do sleep 0.01; done";
    cluster.ok(&format!("submit --output out -- sh -c '{task}'"));
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.worker("--cpus 1");
    cluster.workers.remove(0).signal(libc::SIGKILL);
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.ok("job wait 1");
    assert_eq!((cluster.read("out").as_str(), cluster.read("out.failed-0").as_str()), ("1\n", "0\n"));
}

#[test]
fn a_worker_that_was_away_does_not_move_what_another_attempt_left() {
    let mut cluster = Cluster::server_with("--worker-grace 1s");
    cluster.worker("--cpus 2 --heartbeat 200ms");
    let pipe = cluster.pipe("started");
    let task =
        "echo $HQ_INSTANCE_ID > out; echo up > started; while test $HQ_INSTANCE_ID = 0; do sleep 0.01; done";
    cluster.ok(&format!("submit --output out --kill-grace 100ms -- sh -c '{task}'"));
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.workers[0].signal(libc::SIGSTOP);
    cluster.worker("--cpus 1");
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.ok("job wait 1");
    cluster.workers[0].signal(libc::SIGCONT);
    // It has room for this when what it ran has ended.
    cluster.ok("submit --cpus 2 --wait -- true");
    assert_eq!((cluster.read("out").as_str(), cluster.read("out.failed-0").as_str()), ("1\n", "0\n"));
}

#[test]
fn an_output_that_comes_late_is_waited_for() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("started");
    cluster.ok("submit --output out --output-patience 1h -- sh -c 'echo up > started'");
    assert_eq!(cluster.line_from(&pipe), "up");
    // Others pass by.
    cluster.ok("submit --wait --output other -- touch other");
    cluster.write("out", "");
    cluster.ok("job wait 1");
    let refused = cluster.fails(2, "submit --output-patience 1s -- true");
    assert!(refused.contains("--output-patience works only together with --output"), "{refused}");
}

#[test]
fn a_task_that_is_canceled_waits_for_no_output() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("started");
    cluster.write(
        "job.toml",
        "[[task]]\ncommand = ['sh', '-c', 'echo up > started']\noutputs = ['out']\noutput_patience = '1h'\n",
    );
    cluster.ok("job submit-file job.toml");
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.ok("job cancel 1");
    // It has its CPUs until it has ended.
    cluster.ok("submit --cpus all --wait -- true");
    cluster.ok("job submit-file job.toml");
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.ok("worker stop 1");
    assert_eq!(cluster.workers.pop().expect("a worker").end(), 0);
}

#[test]
fn what_the_tasks_of_an_array_have_in_common_stays_when_one_of_them_fails() {
    let cluster = Cluster::new();
    cluster.fails(
        1,
        "submit --wait --array 1-3 --cpus all --output all.txt --output own-%{TASK_ID}.txt -- \
         sh -c 'echo $HQ_TASK_ID | tee -a all.txt > own-$HQ_TASK_ID.txt; test $HQ_TASK_ID != 2'",
    );
    assert_eq!(
        (cluster.read("all.txt").as_str(), cluster.path("all.txt.failed-0").exists()),
        ("1\n2\n3\n", false)
    );
    assert_eq!((cluster.read("own-1.txt").as_str(), cluster.path("own-2.txt").exists()), ("1\n", false));
    assert_eq!(cluster.read("own-2.txt.failed-0"), "2\n");
    // A directory of its own is a path of its own.
    cluster.fails(
        1,
        "submit --wait --array 1-2 --cwd task-%{TASK_ID} --output out.txt -- \
         sh -c 'echo $HQ_TASK_ID > out.txt; test $HQ_TASK_ID = 1'",
    );
    assert_eq!(
        (cluster.read("task-1/out.txt"), cluster.read("task-2/out.txt.failed-0")),
        ("1\n".into(), "2\n".into())
    );
}
