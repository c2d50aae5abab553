//! Shares of jobs, in virtual time: who runs how much, against the fluid model.

use std::collections::BTreeMap;

use hq_model::job::Share;

use super::*;
use crate::limits::OVERTAKEN_BY_LOWER_MAX;

fn share(min: u64, max: Option<u64>, weight: u32) -> Share {
    Share { min, max, weight: weight * 10_000 }
}

fn sharing(share: Share) -> JobSpec {
    JobSpec { share: Some(share), ..JobSpec::default() }
}

impl World {
    fn out(&self, job: JobId) -> u64 {
        self.server.state().jobs[&job].leased.values().map(IdSet::len).sum()
    }
}

#[test]
fn no_more_than_the_maximum_is_handed_out() {
    let mut world = World::new();
    let job = world.submit_as(sharing(share(0, Some(3), 1)), 10, |_| {});
    world.worker(1, 4);
    world.worker(2, 4);
    assert_eq!(world.out(job), 3, "and none as backlog");
    let other = world.submit(4, |_| {});
    assert_eq!((world.out(job), world.out(other)), (3, 4));
    assert_eq!(world.sent(1), "1:0-2/0 2:0/0");
    world.reports(1, |report| report.finished.push(finished(job, 0, 1, 0)));
    assert_eq!(world.out(job), 3, "two more");
}

#[test]
fn what_an_idle_worker_gives_back_leaves_its_job_what_is_kept_for_it() {
    let mut world = World::new();
    let small = world.submit(3, |_| {});
    world.worker(1, 4);
    assert_eq!(world.sent(1), format!("{small}:0-2/0"));
    let large = |spec: &mut TaskSpec| spec.requests = vec![cpus(2)];
    let job = world.submit_as(sharing(share(0, Some(1), 1)), 2, large);
    // It would start for all of its CPUs, and these tasks use two.
    world.worker_saying(2, 8, |hello| hello.config.min_utilization = 10_000);
    world.wait(OVERTAKEN_BY_LOWER_MAX + Duration::from_millis(1));
    let lower = world.submit(2, |spec| spec.priority = -1);
    assert_eq!(world.out(job) + world.out(lower), 0, "the CPU that is free is kept");
    world.server.wastes_nothing(world.now).expect("it is kept for the large one");
}

#[test]
fn a_share_that_is_full_is_explained() {
    let mut world = World::new();
    let job = world.submit_as(sharing(share(0, Some(1), 1)), 3, |_| {});
    world.worker(1, 4);
    let request = ClientRequest::ExplainTask { jobs: Selector::Last, task: TaskId(2) };
    let ClientResponse::Explained(explained) = world.ask(request) else { panic!("an explanation") };
    assert_eq!(explained.reasons[0].text, "its job has 1 task handed out, as many as its share allows");
    assert_eq!(world.out(job), 1);
}

#[test]
fn a_task_that_ends_with_its_worker_makes_room_for_another() {
    let mut world = World::new();
    let job = world.submit_as(sharing(share(0, Some(1), 1)), 3, |spec| {
        spec.crash_limit = hq_model::task::CrashLimit::NeverRestart;
    });
    world.worker(1, 4);
    assert_eq!(world.sent(1), "1:0/0");
    world.reports(1, |report| report.started.push(started(job, 0, 0)));
    world.worker(2, 4);
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    world.wait(Duration::from_secs(31));
    assert_eq!(world.sent(2), "1:1/0");
    assert_eq!(world.states(job), "waiting: 2 waiting, 1 failed");
}

#[test]
fn room_that_a_loss_makes_while_the_journal_is_full_is_filled_when_it_works() {
    let mut world = World::new();
    let job = world.submit_as(sharing(share(0, Some(1), 1)), 3, |spec| {
        spec.crash_limit = hq_model::task::CrashLimit::NeverRestart;
    });
    world.worker(1, 4);
    world.reports(1, |report| report.started.push(started(job, 0, 0)));
    world.worker(2, 4);
    world.step(Input::JournalFails { error: "no space".into() });
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    world.wait(Duration::from_secs(31));
    world.step(Input::JournalWorks);
    world.wait(Duration::from_secs(31));
    assert_eq!(world.sent(2), "1:1/0");
}

#[test]
fn a_minimum_goes_before_jobs_without_a_share() {
    let mut world = World::new();
    let plain = world.submit(100, |_| {});
    let job = world.submit_as(sharing(share(4, None, 1)), 100, |_| {});
    world.worker(1, 10);
    assert_eq!(world.out(job), 4 + (10 - 4 - world.out(plain).min(6)), "{} of the other", world.out(plain));
    assert!(world.out(plain) + world.out(job) >= 10);
}

// Tasks of each job that run at once, on average over a minute of tasks of 5 to 15 seconds.
fn mean_running(slots: u32, shares: &[Share]) -> Vec<f64> {
    const WORKERS: u64 = 8;
    const WARM_UP_US: u64 = 15_000_000;
    const END_US: u64 = 75_000_000;
    let mut world = World::new();
    world.is_unchecked = true;
    let jobs: Vec<JobId> =
        shares.iter().map(|share| world.submit_as(sharing(*share), 5_000, |_| {})).collect();
    for worker in 1..=WORKERS {
        world.worker(worker, slots / WORKERS as u32);
    }
    let start = world.now.0;
    let mut ends: BTreeMap<(u64, u64), (u64, JobId, TaskId)> = BTreeMap::new();
    let mut running: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut sums = vec![0.0; jobs.len()];
    let (mut state, mut last) = (7u64, start);
    loop {
        for (worker, message) in std::mem::take(&mut world.to_workers) {
            let ToWorker::Run(batches) = message else { continue };
            let tasks = batches.iter().flat_map(|b| b.ids.iter().map(|task| (b.template.job, task)));
            for (job, task) in tasks {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = world.now.0 + 5_000_000 + (state >> 33) % 10_000_000;
                ends.insert((at, state), (worker, job, task));
                *running.entry(job).or_default() += 1;
            }
        }
        let ((at, _), (worker, job, task)) = ends.pop_first().expect("something runs");
        let from = last.max(start + WARM_UP_US);
        last = at;
        for (sum, job) in sums.iter_mut().zip(&jobs) {
            *sum += running.get(job).copied().unwrap_or(0) as f64 * at.saturating_sub(from) as f64;
        }
        if at > start + END_US {
            return sums.iter().map(|sum| sum / (END_US - WARM_UP_US) as f64).collect();
        }
        world.now = Timestamp(at.max(world.now.0));
        *running.entry(job).or_default() -= 1;
        world.reports(worker, |report| report.finished.push(finished(job, task.0, task.0, 0)));
    }
}

#[test]
fn four_jobs_run_as_the_fluid_model_says() {
    let minima = [share(80, None, 1), share(80, None, 1), share(40, None, 1), share(40, None, 1)];
    let bounded = [share(80, Some(85), 1), share(80, None, 1), share(40, None, 1), share(40, None, 3)];
    for (slots, shares, fluid) in [
        (240, minima, [80.0, 80.0, 40.0, 40.0]),
        (280, minima, [90.0, 90.0, 50.0, 50.0]),
        (120, minima, [40.0, 40.0, 20.0, 20.0]),
        (296, bounded, [85.0, 90.2, 50.2, 70.6]),
    ] {
        let means = mean_running(slots, &shares);
        for (mean, fluid) in means.iter().zip(&fluid) {
            assert!((mean - fluid).abs() <= fluid * 0.02, "{slots} slots: {means:.1?}, fluid {fluid}");
        }
    }
}
