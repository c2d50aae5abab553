//! What waits on workers beyond what fits: it takes nothing from others, and is counted when it starts.

use super::explanations::explained;
use super::placement::{request, worker_with};
use super::*;
use crate::worker_messages::Held;

fn on_gpu(spec: &mut TaskSpec) {
    spec.requests = vec![request(&[("cpus", 1), ("gpus/nvidia", 1)])];
}

#[test]
fn tasks_that_wait_on_a_worker_for_a_gpu_hold_no_cpu() {
    let mut world = World::new();
    worker_with(&mut world, 1, 4, &[("gpus/nvidia", 2)]);
    worker_with(&mut world, 2, 4, &[("gpus/nvidia", 2)]);
    let gpu = world.submit(12, on_gpu);
    assert_eq!((world.sent(1), world.sent(2)), ("1:0-1,4-5/0".into(), "1:2-3,6-7/0".into()));
    let cpu = world.submit(60, |spec| spec.priority = -1);
    assert_eq!((world.sent(1), world.sent(2)), ("2:0-1/0".into(), "2:2-3/0".into()));
    let started = |world: &mut World, connection, tasks: &[(JobId, u32)]| {
        for (job, task) in tasks {
            world.starts(connection, *job, *task);
        }
    };
    started(&mut world, 1, &[(gpu, 0), (gpu, 1), (cpu, 0), (cpu, 1)]);
    world.reports(1, |report| report.finished.push(finished(cpu, 0, 1, 0)));
    assert!(
        world.sent(1).starts_with("2:4-5"),
        "two CPUs beside the GPUs are free, whatever waits for those"
    );
    let said = explained(&mut world, gpu, 4);
    assert!(said[1].contains("gpus/nvidia: 0 of 2 are free, the task needs 1"), "{said:?}");
}

#[test]
fn what_starts_by_itself_takes_the_room_of_what_was_thought_to_start() {
    let mut world = World::new();
    worker_with(&mut world, 1, 4, &[("foo", 2)]);
    let first = world.submit(4, |_| {});
    for task in 0..4 {
        world.starts(1, first, task);
    }
    let pair = world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 2)])]);
    let single = world.submit(1, |_| {});
    world.sent(1);
    world.reports(1, |report| report.finished.push(finished(first, 0, 0, 0)));
    let needs = |world: &World, job: JobId| {
        let live = &world.server.live[&hq_model::WorkerId(1)];
        let template = crate::worker_messages::TemplateId { job, submit: 0 };
        live.held()[&template].placed.len()
    };
    assert_eq!((needs(&world, pair), needs(&world, single)), (0, 1), "one CPU is free");
    // Another one had ended there, and what was first in order has started.
    world.starts(1, pair, 0);
    assert_eq!((needs(&world, pair), needs(&world, single)), (1, 0));
    world.reports(1, |report| report.finished.push(finished(first, 1, 1, 0)));
    assert_eq!((needs(&world, pair), needs(&world, single)), (1, 0), "that one is taken by the pair");
    world.reports(1, |report| report.finished.push(finished(pair, 0, 0, 0)));
    assert_eq!(needs(&world, single), 1);
}

fn with_variants(spec: &mut TaskSpec) {
    let on_gpu = Request { weight: 20_000, ..request(&[("cpus", 1), ("gpus/nvidia", 1)]) };
    spec.requests = vec![request(&[("cpus", 4)]), on_gpu];
}

impl World {
    fn free(&self, worker: u32) -> Vec<u64> {
        let free = self.server.live[&hq_model::WorkerId(worker)].capacity().free();
        free.map(|amount| amount.wholes()).collect()
    }
}

#[test]
fn a_lease_names_the_variant_as_which_it_was_placed() {
    let mut world = World::new();
    worker_with(&mut world, 1, 8, &[("gpus/nvidia", 2)]);
    world.submit(4, with_variants);
    let mut batches = Vec::new();
    for (_, message) in std::mem::take(&mut world.to_workers) {
        if let ToWorker::Run(run) = message {
            batches.extend(run.into_iter().map(|batch| (batch.ids.to_string(), batch.variant)));
        }
    }
    assert_eq!(batches, [("0-1".into(), Some(1)), ("2".into(), Some(0)), ("3".into(), None)]);
    assert_eq!(world.free(1), [2, 0]);
}

#[test]
fn what_a_worker_says_to_run_is_charged_as_the_variant_that_it_names() {
    let mut world = World::new();
    worker_with(&mut world, 1, 8, &[("gpus/nvidia", 2)]);
    let job = world.submit(2, with_variants);
    assert_eq!(world.free(1), [6, 0]);
    let at = world.now;
    world.reports(1, |report| {
        let started = |task, variant| Started { job, task: TaskId(task), instance: Instance(0), at, variant };
        report.started = vec![started(0, Some(0)), started(1, Some(1))];
    });
    assert_eq!(world.free(1), [3, 1], "four CPUs for one, a GPU for the other");
    // It comes back, and says what runs as what.
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    let held = |task, variant| Held {
        template: crate::worker_messages::TemplateId { job, submit: 0 },
        instance: Instance(0),
        variant,
        queued: IdSet::new(),
        running: IdSet::single(TaskId(task)),
        started: vec![at],
    };
    let mut back = config(8);
    back.resources = world.server.state().workers[&hq_model::WorkerId(1)].config.resources.clone();
    world.worker_saying(2, 8, |hello| {
        hello.config = back;
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.holds = vec![held(0, Some(0)), held(1, Some(1))];
    });
    assert_eq!(world.free(1), [3, 1]);
}

fn of_cpus(count: u64, priority: i32) -> impl FnOnce(&mut TaskSpec) {
    move |spec| {
        spec.requests = vec![cpus(count)];
        spec.priority = priority;
    }
}

// The part of the CPUs that is taken on the only worker, in 1/10000.
fn taken(world: &World) -> u64 {
    world.server.live[&hq_model::WorkerId(1)].capacity().used_cpus()
}

#[test]
fn what_is_free_is_not_kept_for_a_task_that_needs_more_than_smaller_ones_leave() {
    for large in [2, 6] {
        let mut world = World::new();
        worker_with(&mut world, 1, 8, &[]);
        let large = world.submit(large, of_cpus(5, 1));
        world.starts(1, large, 0);
        // It waits, there or in the queue, for another one like it to end.
        world.wait(Duration::from_secs(2));
        let small = world.submit(20, of_cpus(1, 0));
        assert_eq!(taken(&world), hq_model::amount::UNITS, "all CPUs are in use");
        world.reports(1, |report| report.finished.push(finished(large, 0, 0, 0)));
        world.starts(1, large, 1);
        for task in 0..3 {
            world.starts(1, small, task);
        }
        world.reports(1, |report| report.finished.push(finished(small, 0, 0, 0)));
        world.starts(1, small, 3);
        assert_eq!(taken(&world), hq_model::amount::UNITS);
    }
}
