//! Lists of tasks: pages put together are the whole list, however they are cut and whether tasks are told together.

use hq_model::WorkerId;
use hq_model::{TaskRef, TaskState};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::history::{deed, happens, with};
use super::*;
use crate::client_messages::{RequestError, TaskInfo};
use crate::limits::{TASK_PAGE_BYTES, TASK_PAGE_MAX};
use crate::server::Keep;
use crate::server::task_pages::{Bounds, TaskQuery};

const TINY: Bounds = Bounds { ranges: 2, measured: 2, single: 1, bytes: 300 };

// All pages put together, and how many there were.
fn list(
    world: &World,
    tasks: Option<&IdSet>,
    states: &[TaskState],
    grouped: bool,
    bounds: Bounds,
) -> (Vec<(JobId, TaskInfo)>, usize) {
    let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let query = TaskQuery {
            tasks,
            states,
            after,
            limit: 3,
            grouped,
            with_entries: false,
            bounds,
            now: world.now,
        };
        let answer = world.server.list_tasks(&Selector::All, &query);
        let (told, groups, next) = match answer {
            Ok(ClientResponse::Tasks { tasks, groups, next, .. }) => (tasks, groups, next),
            Err(RequestError::NoJobs) => return (all, pages),
            other => panic!("{other:?}"),
        };
        pages += 1;
        let mut page = told;
        for group in groups {
            let job = group.job;
            page.extend(group.into_tasks().map(|task| (job, task)));
        }
        page.sort_by_key(|(job, task)| (*job, task.task));
        for (job, task) in page {
            let at = Some(TaskRef::new(job, task.task));
            assert!(
                at > after && (next.is_none() || at <= next),
                "{at:?} lies between {after:?} and {next:?}"
            );
            all.push((job, task));
        }
        let Some(next) = next else { return (all, pages) };
        assert!(Some(next) > after, "each page moves on");
        after = Some(next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_the_whole_list_after_any_history(
        deeds in vec(deed(), 1..60),
        states in subsequence(TaskState::ALL.to_vec(), 0..=6),
        bounds in select(vec![TINY, Bounds::default()]),
    ) {
        let mut world = with(Keep { jobs: None, time: None });
        for deed in deeds {
            happens(&mut world, deed);
        }
        let (mut expected, _) = list(&world, None, &states, false, Bounds::default());
        let whole = world.server.state.jobs.iter().filter(|(_, job)| !job.is_draft());
        let ids = whole.flat_map(|(id, job)| {
            let ids = world.server.tasks_in(*id, job, &states);
            ids.into_ids().map(|task| (*id, task))
        });
        prop_assert!(expected.iter().map(|(job, task)| (*job, task.task)).eq(ids));
        prop_assert_eq!(&list(&world, None, &states, false, TINY).0, &expected);
        let is_as_in_a_list = |task: &mut TaskInfo| {
            task.dependencies.clear();
            task.attempts.clear();
        };
        expected.iter_mut().for_each(|(_, task)| is_as_in_a_list(task));
        let (together, _) = list(&world, None, &states, true, bounds);
        prop_assert_eq!(&together, &expected);
    }
}

#[test]
fn tasks_alike_cost_a_page_as_little_as_one() {
    let mut world = World::new();
    world.is_unchecked = true;
    let job = world.submit(1_000_000, |_| {});
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let odd: IdSet = "1-999999:2".parse().expect("ids");
    let page = |world: &mut World, grouped: bool| {
        let jobs = jobs.clone();
        let request = ClientRequest::ListTasks {
            jobs,
            tasks: None,
            states: Vec::new(),
            after: None,
            limit: u32::MAX,
            grouped,
            with_entries: false,
        };
        match world.ask(request) {
            ClientResponse::Tasks { tasks, groups, next, .. } => (tasks.len(), groups, next),
            other => panic!("{other:?}"),
        }
    };
    let (tasks, groups, next) = page(&mut world, true);
    assert_eq!((tasks, groups.len(), next), (0, 1, None));
    assert_eq!(groups[0].ids, IdSet::range(0, 999_999));
    // Readers of earlier releases get pages that they decode.
    let (tasks, groups, next) = page(&mut world, false);
    assert_eq!((tasks, groups.len()), (TASK_PAGE_MAX as usize, 0));
    assert_eq!(next, Some(TaskRef::new(job, TaskId(TASK_PAGE_MAX - 1))));
    world.ask(ClientRequest::Cancel { jobs: jobs.clone(), tasks: Some(odd), reason: Some("odd".into()) });
    let (tasks, groups, next) = page(&mut world, true);
    assert!(tasks == 0 && groups.len() == 2 && next.is_some(), "half a million intervals take several pages");
    let ranges: usize = groups.iter().map(|group| group.ids.range_count()).sum();
    assert!(ranges * 8 <= TASK_PAGE_BYTES, "{ranges} intervals");
    let (all, pages) = list(&world, None, &[], true, Bounds::default());
    assert_eq!((all.len(), pages <= 64), (1_000_000, true), "{pages} pages");
    let one = IdSet::single(TaskId(777_777));
    let (all, pages) = list(&world, Some(&one), &[TaskState::Canceled], true, Bounds::default());
    assert_eq!((all.len(), pages), (1, 1), "one of many is found at once");
}

// Who looks at single tasks sees what each of them is for; a list of a million lines stays short.
#[test]
fn entries_are_told_to_those_who_ask_for_them() {
    let mut world = World::new();
    let entries = Entries::new([&b"x"[..], b"y"]).expect("little");
    let lines = |spec| {
        let submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(2), spec);
        Submit { entries: entries.clone(), ..submit }
    };
    let job = world.submits(lines(one_cpu()));
    let list = |world: &mut World, grouped, with_entries| {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        let (states, after, limit) = (Vec::new(), None, 10);
        let request =
            ClientRequest::ListTasks { jobs, tasks: None, states, after, limit, grouped, with_entries };
        match world.ask(request) {
            ClientResponse::Tasks { tasks, groups, .. } => {
                let told = tasks.into_iter().map(|(_, task)| task.entry);
                (
                    told.map(|entry| String::from_utf8(entry.unwrap_or_default()).expect("text")).collect(),
                    groups.len(),
                )
            }
            other => panic!("{other:?}"),
        }
    };
    let expected =
        |texts: &[&str], groups| (texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), groups);
    assert_eq!(list(&mut world, true, true), expected(&["x", "y"], 0));
    assert_eq!(list(&mut world, false, true), expected(&["x", "y"], 0));
    assert_eq!(list(&mut world, true, false), expected(&[], 1));
    assert_eq!(list(&mut world, false, false), expected(&["", ""], 0));
}

#[test]
fn what_is_on_a_worker_is_told_what_runs_first() {
    let mut world = World::new();
    world.worker(1, 2);
    let job = world.submit(100, |_| {});
    let list = |world: &mut World, worker, limit| match world
        .ask(ClientRequest::WorkerTasks { worker: WorkerId(worker), limit })
    {
        ClientResponse::Tasks { tasks, next, .. } => {
            let told = tasks.iter().map(|(job, task)| format!("{job}@{} {}", task.task, task.state));
            Ok((told.collect::<Vec<_>>(), next.is_some()))
        }
        ClientResponse::Error(error) => Err(error),
        other => panic!("{other:?}"),
    };
    world.reports(1, |report| report.started.push(started(job, 1, 0)));
    let (all, has_more) = list(&mut world, 1, 1000).expect("a worker");
    assert_eq!((&all[0][..], &all[1][..], has_more), ("1@1 running", "1@0 waiting", false));
    assert!(all.len() > 2 && all.len() < 100, "what waits elsewhere is not there: {all:?}");
    assert_eq!(list(&mut world, 1, 1), Ok((vec!["1@1 running".to_owned()], true)));
    assert_eq!(list(&mut world, 7, 1), Err(RequestError::NoWorker(WorkerId(7))));
}
