//! What is known of jobs: pages put together are the whole, however they are cut, and tasks choose their submits.

use hq_model::Body;
use hq_model::job::{Target, TaskIds};
use proptest::collection::vec;
use proptest::prelude::*;

use super::history::{deed, happens, with};
use super::*;
use crate::client_messages::{JobDetail, JobPage, PageStart, RequestError};
use crate::limits::JOB_PAGE_BYTES;
use crate::server::Keep;

// All pages put together, and how many there were.
fn pages(world: &World, tasks: Option<&IdSet>, bytes: usize) -> (Vec<JobDetail>, usize) {
    let mut page = JobPage { tasks: tasks.cloned(), from: None };
    let (mut all, mut count): (Vec<JobDetail>, _) = (Vec::new(), 0);
    loop {
        let (jobs, next) = match world.server.job_info(world.now, &Selector::All, Some(&page), bytes) {
            Ok(ClientResponse::JobDetails { jobs, next, .. }) => (jobs, next),
            Err(RequestError::NoJobs) => (Vec::new(), None),
            other => panic!("{other:?}"),
        };
        count += 1;
        for job in jobs {
            assert!(page.from.is_none_or(|from| from.job <= job.summary.job));
            match all.last_mut().filter(|last| last.summary.job == job.summary.job) {
                Some(last) => last.submits.extend(job.submits),
                None => all.push(job),
            }
        }
        if next.is_none() {
            return (all, count);
        }
        assert!(next > page.from, "each page moves on");
        page.from = next;
    }
}

fn whole(world: &World) -> Vec<JobDetail> {
    match world.server.job_info(world.now, &Selector::All, None, 0) {
        Ok(ClientResponse::JobDetails { jobs, next: None, .. }) => jobs,
        Err(RequestError::NoJobs) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_jobs_are_the_whole_after_any_history(deeds in vec(deed(), 1..60)) {
        let mut world = with(Keep { jobs: None, time: None });
        for deed in deeds {
            happens(&mut world, deed);
        }
        let expected = whole(&world);
        for bytes in [0, 700, JOB_PAGE_BYTES] {
            prop_assert_eq!(&pages(&world, None, bytes).0, &expected);
        }
        let heads = pages(&world, Some(&IdSet::new()), 0).0;
        prop_assert!(heads.iter().all(|job| job.submits.is_empty()));
        prop_assert!(heads.iter().map(|job| job.summary.job).eq(expected.iter().map(|job| job.summary.job)));
    }
}

// An open job with submits of these tasks, each with a program and an input of its own.
fn job_of(world: &mut World, submits: &[&str]) {
    let answer = world.ask(ClientRequest::OpenJob { key: 101, spec: JobSpec::default() });
    let ClientResponse::Submitted { job, .. } = answer else { panic!("{answer:?}") };
    let submit = |(place, ids): (usize, &&str)| {
        let mut spec = one_cpu();
        spec.body = Body::program([format!("program-{place}")]);
        spec.stdin = vec![b'x'; 100_000];
        Submit::new(Target::Open(job), TaskIds::Given(ids.parse().expect("ids")), spec)
    };
    let submits = submits.iter().enumerate().map(submit).collect();
    world.ask(ClientRequest::SubmitAll { key: 102, submits });
}

fn shown(jobs: &[JobDetail]) -> String {
    let submits = jobs.iter().flat_map(|job| &job.submits);
    submits.map(|submit| format!("{}: {}", submit.index, submit.ids)).collect::<Vec<_>>().join("; ")
}

#[test]
fn tasks_are_told_with_their_submits_and_no_others() {
    let mut world = World::new();
    job_of(&mut world, &["0-9,40-49", "20-29", "10-19", "30"]);
    for (tasks, expected) in [
        ("0", "0: 0"),
        ("5,9-10,30", "0: 5,9; 2: 10; 3: 30"),
        ("45-60", "0: 45-49"),
        ("15-25", "2: 15-19; 1: 20-25"),
        ("50-60", ""),
        ("0-100", "0: 0-9,40-49; 2: 10-19; 1: 20-29; 3: 30"),
    ] {
        let tasks: IdSet = tasks.parse().expect("ids");
        assert_eq!(shown(&pages(&world, Some(&tasks), JOB_PAGE_BYTES).0), expected, "{tasks}");
    }
    let (jobs, count) = pages(&world, Some(&IdSet::range(10, 35)), 0);
    assert_eq!((shown(&jobs).as_str(), count), ("2: 10-19; 1: 20-29; 3: 30", 3));
}

#[test]
fn pages_leave_standard_input_out() {
    let mut world = World::new();
    job_of(&mut world, &["0-9", "20-29"]);
    let told = |jobs: &[JobDetail]| {
        let submits = jobs.iter().flat_map(|job| &job.submits);
        submits.map(|submit| (submit.spec.stdin.len(), submit.stdin_bytes)).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&whole(&world)),
        [(100_000, 100_000); 2],
        "clients of earlier releases count it themselves"
    );
    let (jobs, count) = pages(&world, None, JOB_PAGE_BYTES);
    assert_eq!((told(&jobs).as_slice(), count), (&[(0, 100_000); 2][..], 1));
    assert_eq!(jobs[0].submits[1].spec.body, Body::program(["program-1"]));
}

#[test]
fn a_page_has_a_bound() {
    let mut world = World::new();
    world.is_unchecked = true;
    let ids: Vec<String> = (0..900).map(|id| id.to_string()).collect();
    job_of(&mut world, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    let (jobs, count) = pages(&world, None, 100_000);
    assert_eq!(jobs[0].submits.len(), 900);
    assert!((3..10).contains(&count), "{count}");
    let from = Some(PageStart::of(JobId(2)));
    let beyond = JobPage { tasks: None, from };
    let answer = world.server.job_info(world.now, &Selector::All, Some(&beyond), JOB_PAGE_BYTES);
    assert_eq!(answer, Ok(ClientResponse::JobDetails { jobs: Vec::new(), next: None, now: Some(world.now) }));
}

#[test]
fn workers_on_which_tasks_run_now_are_among_those_of_the_job() {
    let mut world = World::new();
    (1..=4).for_each(|connection| world.worker(connection, 1));
    let single = world.submit(1, |_| {});
    let double = world.submit(1, |spec| spec.requests = vec![Request { nodes: 2, ..Request::default() }]);
    let workers = |world: &World| {
        let of = |job: &JobDetail| job.workers.iter().map(|worker| worker.0).collect::<Vec<_>>();
        whole(world).iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(workers(&world), [vec![], vec![]], "none has said that it runs something");
    let first = |world: &World, job| {
        let leased = world.server.state().jobs[&job].leased.keys().next();
        u64::from(leased.expect("it is handed out").0)
    };
    let (one, two) = (first(&world, single), first(&world, double));
    world.reports(one, |r| r.started = vec![started(single, 0, 0)]);
    world.reports(two, |r| r.started = vec![started(double, 0, 0)]);
    let nodes = world.server.state().jobs[&double].nodes[&TaskId(0)].iter().map(|worker| worker.0).collect();
    let expected = [vec![one as u32], nodes];
    assert_eq!(workers(&world), expected);
    world.reports(one, |r| r.finished = vec![finished(single, 0, 0, 0)]);
    world.reports(two, |r| r.finished = vec![finished(double, 0, 0, 0)]);
    assert_eq!(workers(&world), expected);
}

#[test]
fn what_was_canceled_is_ending_until_its_worker_says_that_nothing_of_it_runs() {
    let mut world = World::new();
    let job = world.submit(3, |_| {});
    world.worker(2, 3);
    let ending = |world: &World| whole(world)[0].ending;
    assert_eq!(ending(&world), Some(0));
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.ask(ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None });
    assert_eq!(ending(&world), Some(3), "those, too, whose start nobody has heard of");
    world.reports(2, |r| r.canceled = vec![(job, IdSet::single(TaskId(1)))]);
    assert_eq!(ending(&world), Some(2));
    // It ended by itself before it heard.
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(ending(&world), Some(1));
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    assert_eq!(ending(&world), None, "who is away may have something");
    world.wait(Duration::from_secs(3600));
    assert_eq!(ending(&world), Some(0), "it is lost");
}
