//! Tasks that put themselves back: their instance ends, and they run again when the others have ended.

use hq_model::TaskRef;
use hq_model::dependency::{Dependencies, Edges};

use super::*;
use crate::client_messages::RequestError;
use crate::limits::DEFER_PAUSE;

impl World {
    fn defer(&mut self, task: &str, instance: u32, after: &[&str]) -> Result<(), RequestError> {
        let (job, task) = task.split_once('@').expect("a task");
        let task = TaskRef::new(JobId(job.parse().expect("a job")), TaskId(task.parse().expect("a task")));
        let after = after.iter().map(|text| text.parse().expect("a dependency")).collect();
        match self.ask(ClientRequest::Defer { task, instance: Instance(instance), after }) {
            ClientResponse::Done => Ok(()),
            ClientResponse::Error(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn ends(&mut self, job: u32, task: u32, instance: u32) {
        self.reports(1, |report| report.finished.push(finished(JobId(job), task, task, instance)));
    }

    fn was_ended(&mut self, job: u32, task: u32) {
        self.reports(1, |report| report.canceled.push((JobId(job), IdSet::single(TaskId(task)))));
    }
}

fn refused(result: Result<(), RequestError>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn a_task_runs_again_when_the_others_have_ended() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    world.sent(1);
    world.defer("1@0", 0, &["2"]).expect("put back");
    assert_eq!(world.sent(1), "-1:0");
    assert_eq!(world.states(JobId(1)), "waiting: 1 waiting");
    world.was_ended(1, 0);
    assert_eq!(world.sent(1), "", "the other task of this worker has been there");
    world.ends(2, 0, 0);
    assert_eq!(world.sent(1), "1:0/1");
    world.ends(1, 0, 1);
    assert_eq!(world.states(JobId(1)), "finished: 1 finished");
}

#[test]
fn it_does_not_start_before_its_old_instance_is_gone() {
    let mut world = World::new();
    world.worker(1, 8);
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    world.ends(1, 0, 0);
    world.sent(1);
    world.defer("2@0", 0, &["1"]).expect("put back behind what has ended");
    assert_eq!(world.sent(1), "-2:0");
    world.worker(2, 8);
    assert_eq!(world.sent(2), "", "nowhere else either");
    // It ended by itself meanwhile: that was not the present instance any more.
    world.ends(2, 0, 0);
    world.wait(DEFER_PAUSE);
    assert_eq!(world.sent(1), "2:0/1");
}

#[test]
fn one_that_puts_itself_back_behind_what_has_ended_again_and_again_does_so_once_a_second() {
    let mut world = World::new();
    world.worker(1, 8);
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    world.ends(1, 0, 0);
    assert_eq!(world.sent(1), "1:0/0 2:0/0");
    for instance in 0..3 {
        world.defer("2@0", instance, &["1"]).expect("put back behind what has ended");
        world.was_ended(2, 0);
        assert_eq!(world.sent(1), "-2:0");
        world.wait(DEFER_PAUSE / 2);
        world.restart();
        world.worker(1, 8);
        assert_eq!(world.sent(1), "", "not at once");
        let why = match world.ask(ClientRequest::ExplainJobs { jobs: "2".parse().expect("a job") }) {
            ClientResponse::ExplainedJobs(jobs) => format!("{:?}", jobs[0].groups[0].reasons),
            other => panic!("{other:?}"),
        };
        assert!(why.contains("put itself back behind what has ended"), "{why}");
        world.wait(DEFER_PAUSE / 2);
        assert_eq!(world.sent(1), format!("2:0/{}", instance + 1));
    }
    world.ends(2, 0, 3);
    assert_eq!(world.states(JobId(2)), "finished: 1 finished");
}

#[test]
fn who_speaks_must_be_running() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, |_| {});
    world.submit(2, |_| {});
    assert_eq!(refused(world.defer("9@0", 0, &["1"])), "Job 9 not found.");
    assert_eq!(refused(world.defer("1@7", 0, &["2"])), "Task 7 not found in job 1.");
    let only = "only a running task speaks for itself.";
    assert_eq!(
        refused(world.defer("1@0", 1, &["2"])),
        format!("Task 1@0 does not run as instance 1 now; {only}")
    );
    world.defer("1@0", 0, &["2"]).expect("put back");
    let old = refused(world.defer("1@0", 0, &["2"]));
    assert_eq!(
        old,
        format!("Task 1@0 does not run as instance 0 any more: instance 1 is its present one; {only}")
    );
    world.was_ended(1, 0);
    world.ends(2, 0, 0);
    let ended = refused(world.defer("2@0", 0, &["1"]));
    assert_eq!(ended, format!("Task 2@0 does not run as instance 0 any more: it is finished; {only}"));
}

#[test]
fn nobody_waits_behind_himself() {
    let mut world = World::new();
    world.worker(1, 8);
    let lists: [&[u32]; 5] = [&[], &[0], &[1], &[], &[2, 3]];
    let lists = lists.iter().map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>());
    world.graph(5, Vec::new(), Edges::new(lists).expect("few")).expect("accepted");
    let cycle = |path: &str| format!("Tasks of job 1 wait for each other: {path}.");
    assert_eq!(refused(world.defer("1@0", 0, &["1@0"])), cycle("0 -> 0"));
    assert_eq!(refused(world.defer("1@0", 0, &["1@1"])), cycle("0 -> 1 -> 0"));
    assert_eq!(refused(world.defer("1@0", 0, &["1@3", "1@2"])), cycle("0 -> 2 -> 1 -> 0"));
    world.graph(1, vec!["1@4".parse().expect("a task")], Edges::default()).expect("accepted");
    assert_eq!(refused(world.defer("1@3", 0, &["2"])), cycle("3 -> 2@0 -> 4 -> 3"));
    let own = refused(world.defer("1@0", 0, &["1"]));
    assert!(own.starts_with("Tasks of job 1 cannot wait for the whole of it"), "{own}");
    world.defer("1@3", 0, &["1@2"]).expect("another branch");
    assert_eq!(refused(world.defer("1@0", 0, &["1@3"])), cycle("0 -> 3 -> 2 -> 1 -> 0"));
}

#[test]
fn what_it_waits_for_may_fail() {
    let mut world = World::new();
    world.worker(1, 8);
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    world.defer("1@0", 0, &["2"]).expect("put back");
    world.reports(1, |report| report.failed.push((JobId(2), failed(0, 0, 1))));
    assert_eq!(world.states(JobId(1)), "aborted: 1 aborted");
    let hopeless = world.graph(1, Vec::new(), Edges::default()).expect("accepted");
    assert!(refused(world.defer(&format!("{hopeless}@0"), 0, &["2"])).contains("could never run"));
}

#[test]
fn one_of_an_array_waits_and_the_others_go_on() {
    let mut world = World::new();
    world.worker(1, 300);
    world.submit(1, |spec| spec.priority = 1);
    let target = Target::Open(world.open());
    let many = Dependencies { after: vec!["1".parse().expect("a job")], ..Dependencies::default() };
    let submit = super::keys::named(&["a", "b", "c"], |submit| {
        submit.target = target;
        submit.dependencies = many.into();
    });
    world.answer_to(submit);
    world.submit(200, |spec| spec.priority = -1);
    world.ends(1, 0, 0);
    world.sent(1);
    world.defer("2@1", 0, &["3"]).expect("put back behind many");
    world.was_ended(2, 1);
    assert_eq!(world.states(JobId(2)), "waiting: 3 waiting");
    world.reports(1, |report| {
        report.finished.push(finished(JobId(2), 0, 0, 0));
        report.finished.push(finished(JobId(2), 2, 2, 0));
    });
    assert_eq!(world.states(JobId(2)), "waiting: 1 waiting, 2 finished");
}
