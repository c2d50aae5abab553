//! The same tasks again: ids, entries, keys and dependencies of what did not end well, as a new job.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping};

use super::keys::named;
use super::*;
use crate::limits::{RESUBMIT_SUBMITS_MAX, SUBMITS_MAX};

impl World {
    fn resubmit(&mut self, job: u32, tasks: Option<&str>, states: &[TaskState]) -> Result<JobId, String> {
        self.key += 1;
        self.resubmit_as(self.key, job, tasks, states)
    }

    fn resubmit_as(
        &mut self,
        key: u128,
        job: u32,
        tasks: Option<&str>,
        states: &[TaskState],
    ) -> Result<JobId, String> {
        let jobs = Selector::Ids(IdSet::single(TaskId(job)));
        let tasks = tasks.map(ids);
        match self.ask(ClientRequest::Resubmit { key, jobs, tasks, states: states.to_vec() }) {
            ClientResponse::Submitted { job, ids, .. } => {
                assert_eq!(self.server.state().jobs[&job].ids, ids);
                Ok(job)
            }
            ClientResponse::Error(error) => Err(error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    fn fail(&mut self, job: JobId, task: u32) {
        self.reports(1, |r| r.failed = vec![(job, failed(task, 0, 1))]);
    }

    fn finish(&mut self, job: JobId, first: u32, last: u32) {
        self.reports(1, |r| r.finished = vec![finished(job, first, last, 0)]);
    }

    fn cancel(&mut self, job: JobId, tasks: Option<&str>) {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        self.ask(ClientRequest::Cancel { jobs, tasks: tasks.map(ids), reason: None });
    }

    // What each submit of a job has: ids, entries, and what its tasks wait for.
    fn submits_of(&self, job: JobId) -> Vec<String> {
        let job = &self.server.state().jobs[&job];
        let told = job.submits.iter().map(|submit| {
            let texts = |texts: &Entries| {
                texts
                    .iter()
                    .map(|text| String::from_utf8_lossy(text).into_owned())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let after = submit.dependencies.after.iter().map(|after| {
                let any = if after.condition == Condition::AnyEnd { " any" } else { "" };
                let each = match after.mapping {
                    Mapping::All => String::new(),
                    Mapping::Window(size) => format!(" each {size}"),
                };
                format!(" after {after}{any}{each}")
            });
            let edges = submit.ids.iter().zip(submit.dependencies.edges.iter()).map(|(task, list)| {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!(" {task}<-[{}]", list.join(","))
            });
            let (after, edges): (String, String) = (after.collect(), edges.collect());
            let parts = [submit.ids.to_string(), texts(&submit.entries), texts(&submit.keys)];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            format!("{}{after}{edges}", parts.join(" "))
        });
        told.collect()
    }
}

fn ids(text: &str) -> IdSet {
    text.parse().expect("ids")
}

fn entries(texts: &[&str]) -> Entries {
    Entries::new(texts.iter().map(|text| text.as_bytes())).expect("short")
}

fn edges(lists: &[&[u32]]) -> Edges {
    Edges::new(lists.iter().map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>())).expect("few")
}

fn array(target: Target, of: &str, change: impl FnOnce(&mut Dependencies)) -> Submit {
    let mut dependencies = Dependencies::default();
    change(&mut dependencies);
    let submit = Submit::new(target, TaskIds::Given(ids(of)), one_cpu());
    Submit { dependencies: Arc::new(dependencies), submit_dir: b"/w".to_vec(), ..submit }
}

fn new() -> Target {
    Target::New(JobSpec { name: "again".into(), max_fails: Some(7), ..JobSpec::default() })
}

#[test]
fn two_jobs_never_make_the_same_files_at_once() {
    let made = |of: &str, mark: &str| {
        let mut submit = array(new(), of, |_| {});
        let mut spec = TaskSpec::clone(&submit.spec);
        spec.env.push((hq_model::making::VARIABLE.to_vec(), mark.as_bytes().to_vec()));
        submit.spec = Arc::new(spec);
        submit
    };
    let mut world = World::new();
    world.worker(1, 4);
    let old = world.submits(made("0-2", "here-1"));
    let (elsewhere, later) = (world.submits(made("0", "there-1")), world.submits(made("0", "here-2")));
    world.sent(1);
    for task in [0, 1] {
        world.fail(old, task);
    }
    // The third one goes on, and no file of it is made twice; but another submit makes files there, too.
    let error = world.resubmit(1, None, &[]).expect_err("refused");
    assert!(
        error.contains("Job 3 is making the same files as job 1: 1 of its tasks has not ended"),
        "{error}"
    );
    assert!(error.contains("`hq job cancel 3`"), "{error}");
    world.cancel(later, None);
    let again = world.resubmit(1, Some("0"), &[]).expect("submitted");
    let error = world.resubmit(1, None, &[]).expect_err("refused");
    assert!(error.contains(&format!("Job {again} is making the same files as job 1: 1 of")), "{error}");
    world.resubmit(1, Some("1"), &[]).expect("another one");
    world.restart();
    assert!(world.resubmit(1, Some("0-1"), &[]).is_err());
    world.cancel(again, None);
    world.resubmit(1, Some("0"), &[]).expect("nobody makes it any more");
    // Those without a mark may run as often as one likes.
    let plain = world.submits(array(new(), "0", |_| {}));
    world.cancel(plain, None);
    for _ in 0..2 {
        world.resubmit(plain.0, None, &[]).expect("submitted");
    }
    world.cancel(elsewhere, None);
}

#[test]
fn what_did_not_end_well_is_submitted_again_with_its_entries() {
    let mut world = World::new();
    world.worker(1, 4);
    let mut submit = array(new(), "1-3,10-12", |_| {});
    submit.entries = entries(&["a", "b", "c", "d", "e", "f"]);
    let old = world.submits(submit);
    world.sent(1);
    world.finish(old, 1, 1);
    world.finish(old, 11, 11);
    world.fail(old, 2);
    world.cancel(old, Some("10,12"));
    world.fail(old, 3);
    let all = world.resubmit(1, None, &[]).expect("submitted");
    assert_eq!(world.submits_of(all), ["2-3,10,12 b c d f"]);
    let job = &world.server.state().jobs[&all];
    assert_eq!((job.spec.name.as_str(), job.spec.max_fails, job.is_open), ("again", Some(7), false));
    assert_eq!(job.submits[0].submit_dir, b"/w");
    let failed = world.resubmit(1, None, &[TaskState::Failed]).expect("submitted");
    assert_eq!(world.submits_of(failed), ["2-3 b c"]);
    let canceled = world.resubmit(1, None, &[TaskState::Canceled]).expect("submitted");
    assert_eq!(world.submits_of(canceled), ["10,12 d f"]);
    let named = world.resubmit(1, Some("1,11"), &[]).expect("submitted");
    assert_eq!(world.submits_of(named), ["1,11 a e"], "finished ones, too");
    world.restart();
    assert_eq!(world.submits_of(all), ["2-3,10,12 b c d f"]);
    world.worker(2, 64);
    assert_eq!(
        world.sent(2),
        "2:10,12/0 3:2-3/0 4:10,12/0 5:1,11/0",
        "the other worker may still have 2:2-3"
    );
}

#[test]
fn a_request_that_is_repeated_submits_once() {
    let mut world = World::new();
    let old = world.submit(3, |_| {});
    world.cancel(old, None);
    assert_eq!(world.resubmit_as(77, 1, None, &[]), Ok(JobId(2)));
    assert_eq!(world.resubmit_as(77, 1, None, &[]), Ok(JobId(2)));
    assert_eq!(world.server.state().jobs.len(), 2);
}

#[test]
fn that_there_is_nothing_to_resubmit_has_a_code_of_its_own() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.submit(1, |_| {});
    world.finish(job, 0, 1);
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let answer =
        world.ask(ClientRequest::Resubmit { key: 77, jobs, tasks: None, states: vec![TaskState::Failed] });
    let ClientResponse::Error(error) = answer else { panic!("{answer:?}") };
    assert_eq!(error.code(), "nothing-to-do");
}

#[test]
fn what_cannot_be_submitted_again_is_refused_with_words() {
    let mut world = World::new();
    world.worker(1, 1);
    let check = |world: &mut World, job, tasks: Option<&str>, expected: &str| {
        assert_eq!(world.resubmit(job, tasks, &[]).expect_err(expected), expected);
    };
    check(&mut world, 1, None, "Job 1 not found.");
    let job = world.submit(2, |_| {});
    check(
        &mut world,
        1,
        None,
        "Nothing to resubmit: no task of job 1 failed, was canceled or aborted. 2 tasks have not ended \
         yet.",
    );
    check(
        &mut world,
        1,
        Some("0"),
        "Task 0 of job 1 has not ended: only tasks that have ended are submitted again. Wait for it, or cancel it.",
    );
    check(&mut world, 1, Some("0,5"), "Task 5 not found in job 1.");
    world.finish(job, 0, 1);
    check(&mut world, 1, None, "Nothing to resubmit: no task of job 1 failed, was canceled or aborted.");
    let jobs = Selector::Ids(IdSet::single(TaskId(1)));
    world.ask(ClientRequest::ForgetJobs { jobs, states: Vec::new() });
    let said = world.resubmit(1, None, &[]).expect_err("forgotten");
    assert!(said.starts_with("Job 1 has been forgotten, and with it what its tasks executed"), "{said}");
    check(&mut world, 2, None, "Job 2 not found.");
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    let answer =
        world.ask(ClientRequest::Resubmit { key: 5, jobs: Selector::All, tasks: None, states: vec![] });
    assert!(matches!(answer, ClientResponse::Error(RequestError::Invalid(_))), "{answer:?}");
}

// 0 <- 1 <- 2, and 3 waits for 0 and 1.
fn diamond(world: &mut World) -> JobId {
    let lists = edges(&[&[], &[0], &[1], &[0, 1]]);
    world.submits(array(new(), "0-3", |dependencies| dependencies.edges = lists))
}

#[test]
fn edges_to_what_has_finished_are_dropped_and_others_kept() {
    let mut world = World::new();
    world.worker(1, 4);
    let job = diamond(&mut world);
    world.finish(job, 0, 0);
    world.fail(job, 1);
    assert_eq!(world.states(job), "failed: 1 finished, 1 failed, 2 aborted");
    let again = world.resubmit(1, None, &[]).expect("submitted");
    assert_eq!(world.submits_of(again), ["1-3 1<-[] 2<-[1] 3<-[1]"]);
    world.sent(1);
    world.finish(again, 1, 1);
    assert_eq!(world.sent(1), "2:2-3/0", "in their order");
    let alone = world.resubmit(1, None, &[TaskState::Failed]).expect("submitted");
    assert_eq!(world.submits_of(alone), ["1"]);
    assert_eq!(
        world.resubmit(1, Some("2"), &[]),
        Err("Task 2 of job 1 waits for task 1, which failed and is not to be submitted again. Choose it, too \
             (--tasks), or leave out what waits for it."
            .into())
    );
}

#[test]
fn submits_of_an_open_job_and_what_they_wait_for_become_a_new_job_at_once() {
    let mut world = World::new();
    world.worker(1, 64);
    let old = world.open();
    let to = || Target::Open(old);
    let own = |text: &str| text.parse::<After>().expect("a dependency");
    let each = |text: &str, size| After { mapping: Mapping::Window(size), ..own(text) };
    world.submits(array(to(), "0-3", |_| {}));
    world.submits(array(to(), "10-13", |d| d.after = vec![each("1@0-3", 0)]));
    world.submits(array(to(), "20-23", |d| d.after = vec![each("1@10-13", 1)]));
    world.submits(array(to(), "30", |d| d.after = vec![own("1@20-23")]));
    let any = After { condition: Condition::AnyEnd, ..own("1@30") };
    world.submits(array(to(), "40", |d| d.after = vec![any]));
    world.finish(old, 0, 1);
    world.fail(old, 2);
    world.finish(old, 3, 3);
    world.finish(old, 10, 11);
    world.finish(old, 13, 13);
    world.finish(old, 20, 20);
    // 12 is aborted, and with it what waits for it: 21-23 and 30. What waits for any end runs.
    world.finish(old, 40, 40);
    let again = world.resubmit(1, None, &[]).expect("submitted");
    let expected = ["2", "12 after 2@2 each 0", "21-23 21<-[12] 22<-[12] 23<-[12]", "30 after 2@21-23"];
    assert_eq!(world.submits_of(again), expected);
    let job = &world.server.state().jobs[&again];
    assert!(!job.is_open && !job.has_ended());
    world.sent(1);
    world.finish(again, 2, 2);
    assert_eq!(world.sent(1), "2:12/0");
    world.finish(again, 12, 12);
    assert_eq!(world.sent(1), "2:21-23/0");
    let any = world.resubmit(1, Some("30,40,21-23,12,2"), &[]).expect("submitted");
    assert_eq!(world.submits_of(any)[4], "40 after 3@30 any");
    world.restart();
    assert_eq!(world.submits_of(again), expected);
    let whole = world.resubmit(1, Some("0-3,10-13,20-23,30,40"), &[]).expect("submitted");
    let all = [
        "0-3",
        "10-13 after 4@0-3 each 0",
        "20-23 after 4@10-13 each 1",
        "30 after 4@20-23",
        "40 after 4@30 any",
    ];
    assert_eq!(world.submits_of(whole), all, "all of it is as it was");
}

#[test]
fn other_jobs_are_waited_for_as_before() {
    let mut world = World::new();
    world.worker(1, 64);
    let first = world.submit(4, |_| {});
    let own = |text: &str| text.parse::<After>().expect("a dependency");
    let each = After { mapping: Mapping::Window(0), ..own("1") };
    let second = world.submits(array(new(), "0-3", |d| d.after = vec![each]));
    let third = world.submits(array(new(), "0-3", |d| d.after = vec![own("1")]));
    world.cancel(second, Some("1-2"));
    world.cancel(third, None);
    let again = world.resubmit(2, None, &[]).expect("submitted");
    assert_eq!(world.submits_of(again), ["1-2 after 1@1-2 each 0"]);
    world.fail(first, 1);
    let said = world.resubmit(3, None, &[]).expect_err("hopeless");
    assert!(said.starts_with("Tasks that wait for 1 of job 1 to succeed could never run"), "{said}");
    world.cancel(first, None);
    world.cancel(second, None);
    let jobs = Selector::Ids(IdSet::single(TaskId(1)));
    world.ask(ClientRequest::ForgetJobs { jobs, states: Vec::new() });
    let free = world.resubmit(3, None, &[]).expect("submitted");
    assert_eq!(world.submits_of(free), ["0-3"], "nobody knows of it any more");
}

#[test]
fn a_service_is_needed_again() {
    let mut world = World::new();
    world.worker(1, 4);
    let old = world.open();
    let mut service = array(Target::Open(old), "0", |_| {});
    service.spec = Arc::new(TaskSpec { service: true, ..one_cpu() });
    world.submits(service);
    world.submits(array(Target::Open(old), "1", |d| d.after = vec!["1@0".parse().expect("a task")]));
    world.finish(old, 0, 0);
    world.fail(old, 1);
    let said = world.resubmit(1, None, &[]).expect_err("refused");
    assert!(
        said.starts_with("Task 1 of job 1 waits for task 0, a service that has ended and is not"),
        "{said}"
    );
    let both = world.resubmit(1, Some("0-1"), &[]).expect("submitted");
    assert_eq!(world.submits_of(both), ["0", "1 after 2@0"]);
}

#[test]
fn keys_go_along() {
    let mut world = World::new();
    world.open();
    world.answer_to(named(&["a", "b", "c"], |_| {}));
    world.cancel(JobId(1), Some("0,2"));
    let again = world.resubmit(1, None, &[]).expect("submitted");
    assert_eq!(world.submits_of(again), ["0,2 a c"]);
    assert_eq!(world.server.state().jobs[&again].task_of_key(b"c"), Some(TaskId(2)));
}

// So many tasks of one array, every other one of which was canceled.
fn many(count: u32) {
    let mut world = World::new();
    let texts = vec!["entry"; count as usize];
    let submit = Submit::new(new(), TaskIds::Next(count), one_cpu());
    let old = world.submits(Submit { entries: entries(&texts), ..submit });
    let every_other: IdSet = (0..count).step_by(2).map(TaskId).collect();
    let jobs = Selector::Ids(IdSet::single(TaskId(old.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: Some(every_other.clone()), reason: None });
    let again = world.resubmit(1, None, &[]).expect("submitted");
    let job = &world.server.state().jobs[&again];
    assert_eq!((job.submits.len(), &job.ids), (1, &every_other));
    assert_eq!(job.submits[0].entries.len() as u64, every_other.len());
}

#[test]
fn any_number_of_tasks_of_an_array_stays_one_submit() {
    many(1);
    many(2_000);
    many(100_000);
}

#[test]
fn more_submits_than_one_record_holds_come_all_or_none() {
    let mut world = World::new();
    let old = world.open();
    let count = 2 * SUBMITS_MAX as u32 + 1;
    let submits: Vec<Submit> =
        (0..count).map(|task| array(Target::Open(old), &task.to_string(), |_| {})).collect();
    world.is_unchecked = true;
    for (key, some) in submits.chunks(SUBMITS_MAX).enumerate() {
        let key = 1000 + key as u128;
        world.ask(ClientRequest::SubmitAll { key, submits: some.to_vec() });
    }
    world.cancel(old, None);
    world.is_unchecked = false;
    world.fold = world.server.state().clone();
    let again = world.resubmit(1, None, &[]).expect("submitted");
    assert_eq!(world.server.state().jobs[&again].submits.len(), count as usize);
    assert_eq!(world.states(again), format!("waiting: {count} waiting"));
    const { assert!(RESUBMIT_SUBMITS_MAX > 2 * SUBMITS_MAX) };
    world.worker(2, 64);
    assert!(world.sent(2).starts_with("2:"), "they are handed out");
}
