//! What is said of tasks that wait, task by task and in groups, and which pass for those that nobody could ever run.

use hq_model::Body;
use hq_model::allocation::QueueParams;

use super::placement::{request, worker_with};
use super::*;
use crate::alloc::messages::AllocRequest;
use crate::explanation::{Reason, TaskExplanation};

pub(super) fn explained(world: &mut World, job: JobId, task: u32) -> Vec<String> {
    explanation(world, job, task).reasons.iter().map(told).collect()
}

pub(super) fn explanation(world: &mut World, job: JobId, task: u32) -> TaskExplanation {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let request = ClientRequest::ExplainTask { jobs, task: TaskId(task) };
    let ClientResponse::Explained(explained) = world.ask(request) else { panic!("an explanation") };
    *explained
}

fn told(reason: &Reason) -> String {
    match reason.worker {
        Some(worker) => format!("{worker}: {}", reason.text),
        None => reason.text.clone(),
    }
}

// `0-3: reason`, for each reason of each group.
pub(super) fn job_explained(world: &mut World, job: JobId) -> Vec<String> {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let ClientResponse::ExplainedJobs(jobs) = world.ask(ClientRequest::ExplainJobs { jobs }) else {
        panic!("an explanation")
    };
    let groups = jobs[0].groups.iter();
    groups
        .flat_map(|group| group.reasons.iter().map(move |r| format!("{}: {}", group.ids, told(r))))
        .collect()
}

fn unrunnable(world: &mut World, job: JobId) -> u64 {
    let request = ClientRequest::ListJobs { states: Vec::new() };
    let ClientResponse::JobList(jobs) = world.ask(request) else { panic!("a list") };
    jobs.iter().find(|summary| summary.job == job).map_or(0, |summary| summary.unrunnable)
}

fn queue_of(world: &mut World, name: &str, cpus: u32, change: impl FnOnce(&mut QueueParams)) {
    let mut params = QueueParams {
        name: Some(name.into()),
        manager: "slurm".into(),
        backlog: 1,
        max_workers_per_alloc: 1,
        time_limit: Duration::from_secs(3600),
        resources: config(cpus).resources.pools,
        resources_are_all: true,
        ..QueueParams::default()
    };
    change(&mut params);
    world.ask(ClientRequest::Alloc(AllocRequest::Add { params: Box::new(params), dry_run: false }));
}

#[test]
fn a_task_that_nobody_could_ever_run_says_what_it_needs() {
    let mut world = World::new();
    let gpu = world.submit(3, |spec| spec.requests = vec![request(&[("cpus", 1), ("gpus", 2)])]);
    let nobody = "no worker is connected, and no allocation queue could bring one; \
                  it needs one with cpus: 1, gpus: 2";
    assert_eq!(explained(&mut world, gpu, 0), [nobody]);
    assert_eq!(unrunnable(&mut world, gpu), 0, "without workers nothing is known");
    worker_with(&mut world, 1, 2, &[("gpus/nvidia", 1)]);
    let never = "no worker could ever run it, not even one that a queue may start: \
                 gpus: 2 asked for, the most that any worker has is 1";
    assert_eq!(explained(&mut world, gpu, 0), [never, "1: gpus: it has 1, the task needs 2"]);
    assert_eq!(job_explained(&mut world, gpu), [format!("0-2: {never}")]);
    assert_eq!(unrunnable(&mut world, gpu), 3);
    worker_with(&mut world, 2, 1, &[("gpus/amd", 2)]);
    assert_eq!(unrunnable(&mut world, gpu), 0);
    let both = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 2), ("gpus", 2)])]);
    assert!(explained(&mut world, both, 0)[0].ends_with("no worker has all at once (cpus: 2, gpus: 2)"));
    let missing = ClientRequest::ExplainTask { jobs: Selector::Last, task: TaskId(200) };
    assert!(matches!(world.ask(missing), ClientResponse::Error(_)));
}

#[test]
fn what_no_worker_could_run_a_queue_may_bring() {
    let mut world = World::new();
    world.worker(1, 2);
    let big = world.submit(2, |spec| spec.requests = vec![request(&[("cpus", 8)])]);
    assert_eq!(unrunnable(&mut world, big), 2);
    queue_of(&mut world, "small", 4, |_| {});
    assert_eq!(unrunnable(&mut world, big), 2);
    let said = explained(&mut world, big, 0);
    assert_eq!(said[1], "allocation queue 1: cpus: a worker of this queue has 4, the tasks ask for 8");
    queue_of(&mut world, "large", 16, |_| {});
    assert_eq!(unrunnable(&mut world, big), 0);
    world.ask(ClientRequest::Alloc(AllocRequest::Pause { queue: hq_model::QueueId(2) }));
    assert_eq!(unrunnable(&mut world, big), 0, "it may be resumed");
    let said = explained(&mut world, big, 0);
    assert_eq!(
        said[1],
        "allocation queue 2 (large) could bring a worker for it, and asks for nothing: \
         paused by a user; `hq alloc resume` ends that"
    );
    world.ask(ClientRequest::Alloc(AllocRequest::Resume { queue: hq_model::QueueId(2) }));
    world.ask(ClientRequest::Alloc(AllocRequest::Drain { queue: hq_model::QueueId(2) }));
    assert_eq!(unrunnable(&mut world, big), 2, "a draining queue asks for nothing more");
    let long = world.submit(1, |spec| spec.requests[0].time_request = Duration::from_secs(9 * 3600));
    assert_eq!(unrunnable(&mut world, long), 0, "the worker has no end");
}

#[test]
fn a_submit_that_nobody_could_run_is_warned_about() {
    let mut world = World::new();
    let warnings = |world: &mut World, cpus: u64, hours: u64| {
        let time_request = Duration::from_secs(hours * 3600);
        let requests = vec![Request { time_request, ..request(&[("cpus", cpus)]) }];
        let submit = Submit::new(
            Target::New(JobSpec { name: "true".into(), ..JobSpec::default() }),
            TaskIds::Next(1),
            TaskSpec { body: Body::program(["true"]), requests, ..TaskSpec::default() },
        );
        match world.answer_to(submit) {
            ClientResponse::Submitted { warnings, .. } => warnings.concat(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(warnings(&mut world, 8, 0), "", "without workers nothing is known");
    let hello = WorkerHello {
        config: WorkerConfig { time_limit: Some(Duration::from_secs(7200)), ..config(4) },
        started: world.now,
        age: None,
        known_as: None,
        secret: None,
        holds: Vec::new(),
        last_report: 0,
        follows: true,
        follows_calls: false,
        shows: true,
        stores: true,
        relays: false,
        objects: Vec::new(),
    };
    world.says(1, FromWorker::Hello(Box::new(hello)));
    for (cpus, hours, expected) in [
        (4, 1, ""),
        (5, 1, "cpus: 5 asked for, the most that any worker has is 4"),
        (1, 3, "3h asked for, no worker has more than 2h left"),
    ] {
        let said = warnings(&mut world, cpus, hours);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{cpus} {hours}: {said}");
    }
    queue_of(&mut world, "large", 16, |params| params.time_limit = Duration::from_secs(8 * 3600));
    assert_eq!(warnings(&mut world, 5, 3), "");
}

#[test]
fn what_is_busy_is_free_when_it_was_expected_to_be() {
    let mut world = World::new();
    world.worker(1, 2);
    let long = world.submit(1, |spec| {
        spec.requests = vec![request(&[("cpus", 2)])];
        spec.expected = Some(Duration::from_secs(600));
    });
    world.starts(1, long, 0);
    world.wait(Duration::from_secs(60));
    let other = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    let said = explained(&mut world, other, 0).join(" ");
    assert!(said.contains("has run there for 1m, free at the earliest in about 8m 59s"), "{said}");
}

#[test]
fn what_is_busy_is_said_with_who_holds_it_and_until_when() {
    let mut world = World::new();
    world.worker(1, 2);
    let long = world.submit(1, |spec| {
        spec.requests = vec![request(&[("cpus", 2)])];
        spec.time_limit = Some(Duration::from_secs(600));
    });
    assert_eq!(world.sent(1), "1:0/0");
    world.starts(1, long, 0);
    world.wait(Duration::from_secs(60));
    let small = world.submit(200, |_| {});
    let busy = "cpus: 0 of 2 are free, the task needs 1; task 1@0 has run there for 1m, \
                at the latest in 8m by time limits";
    let said = explained(&mut world, small, 0);
    assert_eq!(said[0], "1: it is handed to this worker and starts there as soon as it fits");
    assert!(
        said[1].starts_with("1: cpus: 0 of 2 are free, the task needs 1; task 1@0 has run there"),
        "{said:?}"
    );
    let last = explained(&mut world, small, 199);
    assert_eq!(last[0], "197 ready tasks go before it: 197 like it, older");
    assert_eq!(last[1].replace(" 59s", ""), format!("1: {busy}"));
    // Two of them are handed to the worker.
    let first = world.submit(3, |spec| spec.priority = 3);
    let last = explained(&mut world, small, 199);
    assert_eq!(
        last[0],
        format!("200 ready tasks go before it: 3 of job {first} (priority 3 against 0), 197 like it, older")
    );
    let said = job_explained(&mut world, small);
    assert_eq!(said[0], "0-1: they are handed to worker 1 and start there as soon as they fit");
    assert!(said[1].starts_with("2-199: 3 ready tasks go before it: 3 of job 3 (priority 3"), "{said:?}");
}

#[test]
fn what_is_busy_is_said_of_all_variants() {
    let mut world = World::new();
    worker_with(&mut world, 1, 8, &[("x", 4)]);
    let all = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 8), ("x", 4)])]);
    world.starts(1, all, 0);
    world.wait(Duration::from_secs(60));
    let variants = [[("cpus", 8)], [("x", 2)], [("cpus", 1)]].map(|variant| request(&variant));
    let other = world.submit(200, |spec| spec.requests = variants.to_vec());
    let busy = "cpus: 0 of 8 are free, the task needs 8 or, as another variant, 1; task 1@0 has run there for 1m; \
                as another variant: x: 0 of 4 are free, the task needs 2; task 1@0 has run there for 1m";
    for (task, place) in [(0, 1), (199, 1)] {
        assert_eq!(explained(&mut world, other, task)[place], format!("1: {busy}"), "{task}");
    }
    let said = job_explained(&mut world, other).pop().expect("of the worker");
    assert!(said.ends_with(busy), "{said}");
}

#[test]
fn what_took_so_long_before_is_expected_to_take_as_long_again() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.submit(30, |_| {});
    world.reports(1, |report| report.finished.push(finished(job, 0, 0, 0)));
    let start = Started { job, task: TaskId(1), instance: Instance(0), at: world.now, variant: None };
    world.reports(1, |report| report.started.push(start));
    let explanation = explanation(&mut world, job, 29);
    let busy = explanation.reasons.last().expect("of the worker");
    assert!(busy.text.ends_with("free at the earliest in less than a second"), "{busy:?}");
    assert_eq!(busy.until, Some(start.at.after(Duration::from_secs(1))));
    assert_eq!(explanation.workers[0].variants, [Vec::new()], "it could run there");
}

#[test]
fn all_that_lacks_is_named_and_the_end_of_the_last_of_it() {
    let mut world = World::new();
    worker_with(&mut world, 1, 2, &[("gpus/nvidia", 1)]);
    let mut holds = |seconds: u64, of: &[(&str, u64)]| {
        let job = world.submit(1, |spec| {
            spec.requests = vec![request(of)];
            spec.expected = Some(Duration::from_secs(seconds));
        });
        let at = world.now;
        world.starts(1, job, 0);
        at.after(Duration::from_secs(seconds))
    };
    holds(30, &[("cpus", 1)]);
    let last = holds(60, &[("cpus", 1), ("gpus/nvidia", 1)]);
    let both = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 1), ("gpus/nvidia", 1)])]);
    let busy = explanation(&mut world, both, 0).reasons.pop().expect("of the worker");
    let expected = "cpus: 0 of 2 are free, the task needs 1; 2 tasks run there, 1@0 for less than a second, free at the \
                    earliest in about 29s; and gpus/nvidia: 0 of 1 are free, the task needs 1; task 2@0 has run there for less \
                    than a second, free at the earliest in about 59s";
    assert_eq!((busy.text.as_str(), busy.until), (expected, Some(last)));
}

#[test]
fn no_end_is_told_of_a_task_that_nothing_is_known_of() {
    let mut world = World::new();
    world.worker(1, 1);
    let quick = world.submit(10, |_| {});
    for task in 0..10 {
        world.starts(1, quick, task);
        world.reports(1, |report| report.finished.push(finished(quick, task, task, 0)));
    }
    // The same program, as a shell is of many jobs, and another time.
    let long = world.submit(1, |_| {});
    world.starts(1, long, 0);
    let other = world.submit(200, |_| {});
    let busy = explanation(&mut world, other, 199).reasons.pop().expect("of the worker");
    assert!(busy.text.contains("task 2@0 has run there for") && !busy.text.contains("free at"), "{busy:?}");
    assert_eq!(busy.until, None);
}

#[test]
fn no_end_is_told_of_a_task_that_takes_longer_than_was_said() {
    let mut world = World::new();
    world.worker(1, 1);
    let late = world.submit(1, |spec| spec.expected = Some(Duration::from_secs(30)));
    world.starts(1, late, 0);
    let other = world.submit(200, |_| {});
    let told = |world: &mut World| explanation(world, other, 199).reasons.pop().expect("of the worker");
    assert!(told(&mut world).text.contains("free at the earliest in about 29s"));
    world.wait(Duration::from_secs(60));
    let busy = told(&mut world);
    assert!(busy.text.ends_with("task 1@0 has run there for 1m") && busy.until.is_none(), "{busy:?}");
}

#[test]
fn tasks_of_several_jobs_that_go_before_one_are_told_of_their_jobs() {
    let mut world = World::new();
    world.worker(1, 1);
    let full = |spec: &mut TaskSpec| spec.time_limit = Some(Duration::from_secs(9));
    let first = world.submit(1, full);
    world.starts(1, first, 0);
    let two = |spec: &mut TaskSpec| spec.requests[0].time_request = Duration::from_secs(2);
    let one = |spec: &mut TaskSpec| spec.requests[0].time_request = Duration::from_secs(1);
    for _ in 0..3 {
        world.submit(10, two);
    }
    let own = world.submit(50, one);
    for _ in 0..3 {
        world.submit(10, two);
    }
    let last = world.submit(10, one);
    // One task of each priority is in the worker's backlog.
    world.submit(6, |spec| spec.priority = 2);
    let ahead = |world: &mut World, job| explained(world, job, 9).remove(0);
    assert_eq!(
        ahead(&mut world, own),
        "44 ready tasks go before it: 6 of job 10 (priority 2 against 0), 29 of jobs 2-4 (older), 9 like it, older"
    );
    let said = ahead(&mut world, last);
    assert!(said.contains("59 of jobs 2-4,6-8 (older), 59 like it, older"), "{said}");
}

#[test]
fn the_tasks_of_a_job_are_explained_in_groups() {
    let mut world = World::new();
    world.worker(1, 2);
    let first = world.submit(2, |_| {});
    world.reports(1, |r| r.started = (0..2).map(|task| started(first, task, 0)).collect());
    let edges = hq_model::dependency::Edges::new([vec![], vec![TaskId(0)], vec![TaskId(1)]]).expect("few");
    let graph = world.graph(3, vec!["1".parse().expect("a dependency")], edges).expect("accepted");
    assert_eq!(job_explained(&mut world, first), ["0-1: they run on worker 1"]);
    let said = job_explained(&mut world, graph);
    let running = ", which is running";
    assert_eq!(
        said,
        [
            format!("0-2: the first of them, 2@0, waits for task 1@0 of `true`{running}"),
            format!("0-2: the first of them, 2@0, waits for task 1@1 of `true`{running}"),
        ]
    );
    let of_last = explanation(&mut world, graph, 2);
    assert_eq!((of_last.dependencies, of_last.unresolved), (3, 3));
    world.reports(1, |r| r.finished.push(finished(first, 0, 0, 0)));
    let of_last = explanation(&mut world, graph, 2);
    assert_eq!((of_last.dependencies, of_last.unresolved), (3, 2));
}

#[test]
fn a_retry_delay_is_said_with_its_end() {
    let mut world = World::new();
    world.worker(1, 2);
    let job = world.submit(1, |spec| {
        spec.retry = Retry { max: 3, delay: Duration::from_secs(30), ..Retry::default() };
    });
    world.reports(1, |report| report.failed.push((job, failed(0, 0, 1))));
    assert_eq!(explained(&mut world, job, 0), ["it failed and is tried again in 29s"]);
    assert_eq!(job_explained(&mut world, job), ["0: it failed and is tried again, in 29s"]);
}

#[test]
fn many_workers_are_summed_up() {
    let mut world = World::new();
    for worker in 1..=5 {
        world.worker(worker, 2);
    }
    world.submit(5, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    let two = world.submit(100, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    let said = job_explained(&mut world, two);
    let last = said.last().expect("reasons");
    assert!(
        last.contains("on 5 workers, as on worker 1: cpus: 0 of 2 are free, the task needs 2"),
        "{said:?}"
    );
}

fn stop(world: &mut World, worker: u32, drain: bool) {
    let workers = Selector::Ids(IdSet::single(TaskId(worker)));
    world.ask(ClientRequest::StopWorkers { workers, drain });
}

#[test]
fn workers_that_leave_say_so_when_there_is_no_other() {
    let mut world = World::new();
    for worker in 1..=3 {
        world.worker(worker, 2);
        stop(&mut world, worker as u32, worker != 3);
    }
    let job = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 1)])]);
    let nobody = "no worker takes anything new, and no allocation queue could bring one; \
                  it needs one with cpus: 1";
    let drains = "it finishes what runs there and takes nothing new";
    let stops = "it is stopping, ends what runs there and takes nothing new";
    let each = [nobody.into(), format!("1: {drains}"), format!("2: {drains}"), format!("3: {stops}")];
    assert_eq!(explained(&mut world, job, 0), each);
    let said = [
        format!("0: {nobody}"),
        format!("0: on 2 workers, as on worker 1: {drains}"),
        format!("0: 3: {stops}"),
    ];
    assert_eq!(job_explained(&mut world, job), said);
    let nodes = world.submit(1, |spec| spec.requests = vec![Request { nodes: 2, ..Request::default() }]);
    assert_eq!(explained(&mut world, nodes, 0)[1..], each[1..], "not that their group is too small");

    // They could have run what those that stay cannot.
    world.worker(4, 1);
    let large = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    let told = job_explained(&mut world, large);
    assert!(told[0].starts_with("0: no worker could ever run it"), "{told:?}");
    assert_eq!(told[1..], said[1..]);
}

#[test]
fn workers_are_summed_up_by_what_keeps_each_from_a_task() {
    let mut world = World::new();
    for worker in 1..=6 {
        world.worker(worker, 2);
    }
    worker_with(&mut world, 7, 1, &[]);
    world.submit(6, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    // Workers have six of them.
    let job = world.submit(9, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    stop(&mut world, 1, true);
    stop(&mut world, 2, true);
    world.step(Input::WorkerGone { connection: ConnectionId(3), is_closed: false });
    world.wait(Duration::from_secs(2));
    world.step(Input::WorkerGone { connection: ConnectionId(4), is_closed: false });
    stop(&mut world, 5, false);
    let busy = "cpus: 0 of 2 are free, the task needs 2; the rest is given to tasks that start there soon";
    let away = "it is disconnected, and counts as lost in 27s unless it comes back";
    let finishes = "it finishes what runs there and takes nothing new";
    let stopping = "it is stopping, ends what runs there and takes nothing new";
    assert_eq!(
        job_explained(&mut world, job)[1..],
        [
            "0-1: they are handed to workers 1-2 and go elsewhere when those give them back or leave".into(),
            format!("0-1: of each of these workers: {finishes}"),
            "4: it is handed to worker 5 and goes elsewhere when that gives it back or leaves".into(),
            format!("4: 5: {stopping}"),
            "2-3: they are handed to workers 3-4 and go elsewhere when those give them back or leave".into(),
            format!("2-3: of each of these workers: {away}"),
            format!("6-8: 6: {busy}"),
            "6-8: 7: cpus: it has 1, the task needs 2".into(),
            format!("6-8: on 2 workers, as on worker 1: {finishes}"),
            format!("6-8: on 2 workers, as on worker 3: {away}"),
            format!("6-8: 5: {stopping}"),
        ]
    );
}

#[test]
fn a_task_whose_stream_or_log_has_no_room_says_so() {
    let mut world = World::new();
    world.worker(1, 4);
    let stream = hq_model::Stream::Directory(b"/full".to_vec());
    let prints = world.submit(1, |spec| spec.stream = Some(stream));
    let other = world.submit(1, |_| {});
    world.reports(1, |report| {
        report.started = vec![started(prints, 0, 0), started(other, 0, 0)];
        report.output_waits = Some("No space left on device".into());
    });
    let runs = "1: it has run there for less than a second";
    let waits = "1: when it prints, it waits until there is room: No space left on device";
    assert_eq!(explained(&mut world, prints, 0), [runs, waits]);
    assert_eq!(explained(&mut world, other, 0), [runs]);
    world.reports(1, |_| {});
    assert_eq!(explained(&mut world, prints, 0), [runs]);
}

#[test]
fn of_several_streams_without_room_each_task_is_told_of_its_own() {
    let mut world = World::new();
    world.worker(1, 4);
    let into = |path: &str| hq_model::Stream::Directory(path.as_bytes().to_vec());
    let jobs = ["/full", "out-%{JOB_ID}", "/at/%{SUBMIT_DIR}"]
        .map(|path| world.submit(1, |spec| spec.stream = Some(into(path))));
    world.reports(1, |report| {
        report.started = jobs.iter().map(|job| started(*job, 0, 0)).collect();
        report.output_waits = Some("the stream /full: quota\nthe stream /home/out-2: no space".into());
    });
    let waits = ["the stream /full: quota", "the stream /home/out-2: no space"];
    let both = waits.join("; ");
    for (job, why) in jobs.into_iter().zip([waits[0], waits[1], &both]) {
        let told = format!("1: when it prints, it waits until there is room: {why}");
        assert_eq!(explained(&mut world, job, 0)[1], told);
    }
}

#[test]
fn tasks_on_a_worker_without_a_connection_say_until_when_it_is_waited_for() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.submit(2, |_| {});
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    let away = "1: it is disconnected, and counts as lost in 29s unless it comes back";
    assert_eq!(explained(&mut world, job, 0), ["1: it ran there when that was last heard of", away]);
    let handed = "1: it is handed to this worker, and goes elsewhere when that gives it back or leaves";
    assert_eq!(explained(&mut world, job, 1), [handed, away]);
    assert_eq!(
        job_explained(&mut world, job),
        [
            "0: it ran on worker 1 when that was last heard of".into(),
            format!("0: {away}"),
            "1: it is handed to worker 1 and goes elsewhere when that gives it back or leaves".into(),
            format!("1: {away}"),
        ]
    );
}

#[test]
fn tasks_on_several_nodes_that_too_few_workers_could_run_are_unrunnable() {
    let mut world = World::new();
    world.worker(1, 4);
    world.worker(2, 8);
    worker_with(&mut world, 3, 8, &[("gpus/nvidia", 1)]);
    let on_nodes = |world: &mut World, nodes, of: &[(&str, u64)]| {
        let job = world.submit(1, |spec| {
            spec.requests = vec![hq_model::Request { nodes, ranks: 1, ..request(of) }];
        });
        (unrunnable(world, job), explained(world, job, 0).remove(0))
    };
    assert_eq!(on_nodes(&mut world, 2, &[("cpus", 6)]).0, 0);
    let (count, said) = on_nodes(&mut world, 3, &[("cpus", 6)]);
    let expected =
        "3 nodes asked for, each with enough for its part and time for it, of which no group has more than 2";
    assert!(count == 1 && said.contains(expected), "{said}");
    let (count, said) = on_nodes(&mut world, 2, &[("cpus", 1), ("gpus/nvidia", 1)]);
    assert!(count == 1 && said.contains("of which no group has more than 1"), "{said}");
}
