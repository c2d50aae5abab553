//! Tasks that are to have ended by some moment.

use crate::cluster::Cluster;

#[test]
fn what_could_not_end_in_time_does_not_start() {
    let mut cluster = Cluster::server();
    // Nobody runs them, and soon there is not time enough.
    cluster.ok("submit --array 0-2 --end-by 1h --expect 3595s -- true");
    cluster.ok("submit --after 1 -- true");
    let waited = cluster.hq("job wait 1-2");
    assert_eq!(waited.exit, 1, "{waited:?}");
    let jobs = cluster.json("job list --all");
    let stats = |place: usize, state: &str| jobs[place]["task_stats"][state].as_u64();
    assert_eq!((stats(0, "canceled"), stats(1, "aborted")), (Some(3), Some(1)));
    let task = &cluster.json("task info 1 1")[0];
    let (error, end) = (task["error"].as_str().expect("an error"), task["end_by"].as_str().expect("a time"));
    assert_eq!(task["cause"], "end-by");
    assert!(
        error.starts_with("Not started: it could not have ended by ") && error.contains(&end[..19]),
        "{error}"
    );
    // There is time, and a worker comes.
    cluster.ok("submit --end-by 1h --expect 10m -- true");
    let why = cluster.ok("task explain 3 0");
    assert!(why.contains("so it is canceled unless it starts within"), "{why}");
    cluster.worker("--cpus 1");
    cluster.ok("job wait 3");
    let refused = cluster.fails(2, "submit --expect 1h --end-by 30m -- true");
    assert!(refused.contains("--end-by 30m is too early") && refused.contains("each takes 1h"), "{refused}");
    let refused = cluster.fails(2, "submit --end-by '2020-01-01 10:00' -- true");
    assert!(refused.contains("has passed"), "{refused}");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn what_runs_is_left_alone_and_a_server_that_starts_again_remembers() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("started");
    cluster.write(
        "job.toml",
        "[array]\nids = '0-1'\ncommand = ['sh', '-c', 'echo up > started; while ! test -e go; do sleep 0.01; done']\n\
         end_by = '10s'\n[[array.request]]\nresources = { cpus = '4' }\n",
    );
    cluster.ok("job submit-file job.toml");
    assert_eq!(cluster.line_from(&pipe), "up");
    cluster.server.take().expect("a server").signal(libc::SIGKILL);
    cluster.start_server("");
    while cluster.json("job list --all")[0]["task_stats"]["canceled"] != 1 {}
    assert_eq!(cluster.json("job list --all")[0]["task_stats"]["running"], 1);
    cluster.write("go", "");
    cluster.hq("job wait 1");
    let stats = &cluster.json("job list --all")[0]["task_stats"];
    assert_eq!((&stats["finished"], &stats["canceled"]), (&1.into(), &1.into()));
    crate::events::keep_their_schema(&cluster);
}
