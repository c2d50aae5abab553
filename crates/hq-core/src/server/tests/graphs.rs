//! Tasks that wait for others: chains, diamonds, arrays after arrays, failures, and what is refused. After each step the
//! world compares who is held back with what the durable state says.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping};

use super::*;
use crate::client_messages::RequestError;

fn after(text: &str) -> After {
    text.parse().expect("a dependency")
}

fn each(text: &str) -> After {
    After { mapping: Mapping::Window(0), ..after(text) }
}

fn edges(lists: &[&[u32]]) -> Edges {
    Edges::new(lists.iter().map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>())).expect("few")
}

impl World {
    pub(super) fn graph(
        &mut self,
        count: u32,
        after: Vec<After>,
        edges: Edges,
    ) -> Result<JobId, RequestError> {
        let target = Target::New(JobSpec { name: "graph".into(), max_fails: None, ..JobSpec::default() });
        self.add_graph(target, count, after, edges)
    }

    fn add_graph(
        &mut self,
        target: Target,
        count: u32,
        after: Vec<After>,
        edges: Edges,
    ) -> Result<JobId, RequestError> {
        let spec = one_cpu();
        let submit = Submit {
            dependencies: Arc::new(Dependencies { after, edges, ..Dependencies::default() }),
            ..Submit::new(target, TaskIds::Next(count), spec)
        };
        match self.answer_to(submit) {
            ClientResponse::Submitted { job, .. } => Ok(job),
            ClientResponse::Error(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn finishes(&mut self, job: u32, first: u32, last: u32) {
        self.reports(1, |report| report.finished.push(finished(JobId(job), first, last, 0)));
    }

    fn fails(&mut self, job: u32, task: u32) {
        self.reports(1, |report| report.failed.push((JobId(job), failed(task, 0, 1))));
    }

    fn reason(&self, job: u32) -> String {
        let job = &self.server.state().jobs[&JobId(job)];
        let words = job.abort_reasons.iter().map(|(ids, reason)| format!("{ids}: {reason}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_diamond_is_run_in_order() {
    let mut world = World::new();
    world.worker(1, 8);
    world.graph(4, Vec::new(), edges(&[&[], &[0], &[0], &[1, 2]])).expect("accepted");
    assert_eq!(world.sent(1), "1:0/0");
    world.finishes(1, 0, 0);
    assert_eq!(world.sent(1), "1:1-2/0", "in the step in which what they wait for ends");
    world.finishes(1, 2, 2);
    assert_eq!(world.sent(1), "");
    world.finishes(1, 1, 1);
    assert_eq!(world.sent(1), "1:3/0");
}

#[test]
fn arrays_follow_arrays_as_wholes_and_by_element() {
    let mut world = World::new();
    world.worker(1, 64);
    world.submit(20, |_| {});
    world.sent(1);
    world.graph(20, vec![after("1")], Edges::default()).expect("accepted");
    world.graph(20, vec![each("1")], Edges::default()).expect("accepted");
    let window = After { mapping: Mapping::Window(2), ..after("1@0-19") };
    world.graph(20, vec![window], Edges::default()).expect("accepted");
    assert_eq!(world.sent(1), "");
    world.finishes(1, 5, 9);
    assert_eq!(world.sent(1), "3:5-9/0 4:7/0");
    world.finishes(1, 0, 4);
    assert_eq!(world.sent(1), "3:0-4/0 4:0-6/0");
    world.finishes(1, 11, 19);
    assert_eq!(world.sent(1), "3:11-19/0 4:13-19/0");
    world.finishes(1, 10, 10);
    assert_eq!(world.sent(1), "2:0-19/0 3:10/0 4:8-12/0");
}

#[test]
fn a_whole_job_has_to_be_closed() {
    let mut world = World::new();
    world.worker(1, 8);
    world.ask(ClientRequest::OpenJob {
        key: 9,
        spec: JobSpec { name: "open".into(), max_fails: None, ..JobSpec::default() },
    });
    world.add_graph(Target::Open(JobId(1)), 2, Vec::new(), Edges::default()).expect("accepted");
    world.graph(1, vec![after("1")], Edges::default()).expect("accepted");
    world.finishes(1, 0, 1);
    assert_eq!(world.sent(1), "1:0-1/0");
    let ClientResponse::Explained(explained) = world
        .ask(ClientRequest::ExplainTask { jobs: Selector::Ids(IdSet::single(TaskId(2))), task: TaskId(0) })
    else {
        panic!("explained");
    };
    let reasons = &explained.reasons;
    assert_eq!(reasons[0].text, "it waits for job 1 (`open`), which is open; `hq job close 1` closes it");
    world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
    assert_eq!(world.sent(1), "2:0/0");
}

#[test]
fn open_jobs_cannot_wait_for_each_other() {
    let mut world = World::new();
    world.worker(1, 8);
    for key in [100, 101] {
        let spec = JobSpec { name: "open".into(), max_fails: None, ..JobSpec::default() };
        world.ask(ClientRequest::OpenJob { key, spec });
    }
    let mut submit = |job, count, wanted: Vec<After>, lists: &[&[u32]]| {
        world.add_graph(Target::Open(JobId(job)), count, wanted, edges(lists))
    };
    submit(1, 4, vec![], &[]).expect("1@0-3");
    submit(2, 1, vec![after("1@0-3")], &[]).expect("2@0");
    submit(2, 4, vec![each("1@0-3")], &[]).expect("2@1-4");
    submit(2, 2, vec![], &[&[4], &[]]).expect("2@5-6");
    // From here on all that comes into job 1 keeps 3@0 waiting, and with it 2@7.
    let third = world.graph(1, vec![after("1")], Edges::default()).expect("3@0");
    assert_eq!(third, JobId(3));
    let mut submit = |job, count, wanted: Vec<After>, lists: &[&[u32]]| {
        world.add_graph(Target::Open(JobId(job)), count, wanted, edges(lists))
    };
    submit(2, 1, vec![after("3@0")], &[]).expect("2@7");
    submit(2, 2, vec![], &[&[7], &[6]]).expect("2@8-9");
    submit(1, 1, vec![after("2@9")], &[]).expect("waits for 2@6 alone");
    let cycles = [
        (vec![after("3")], "job 1 -> job 3 -> job 1"),
        (vec![after("2@8")], "job 1 -> job 2 -> job 3 -> job 1"),
        (vec![each("2@8")], "job 1 -> job 2 -> job 3 -> job 1"),
        (vec![after("2")], "job 1 -> job 2 -> job 3 -> job 1"),
    ];
    for (wanted, way) in cycles {
        let refused = world.add_graph(Target::Open(JobId(1)), 1, wanted.clone(), Edges::default());
        assert_eq!(refused, Err(RequestError::Cycle(JobId(1), way.into())), "{wanted:?}");
    }
    world.finishes(3, 0, 0);
}

#[test]
fn a_failure_aborts_exactly_the_transitive_dependents() {
    let mut world = World::new();
    world.worker(1, 64);
    // 0 -> 2 -> 4, 1 -> 3 -> 4, 1 -> 5
    world.graph(6, Vec::new(), edges(&[&[], &[], &[0], &[1], &[2, 3], &[1]])).expect("accepted");
    world.graph(10, vec![after("1@4")], Edges::default()).expect("accepted");
    world.graph(100, vec![after("1@5")], Edges::default()).expect("accepted");
    let any = After { condition: Condition::AnyEnd, ..after("2") };
    world.graph(1, vec![any], Edges::default()).expect("accepted");
    world.sent(1);
    world.fails(1, 0);
    assert_eq!(world.states(JobId(1)), "waiting: 3 waiting, 1 failed, 2 aborted");
    assert_eq!(world.reason(1), "2,4: Task 1@0 failed, for which these tasks wait.");
    assert_eq!(
        world.reason(2),
        "0-9: Task 1@0 failed, for which these tasks wait. `hq job failures 1` shows why."
    );
    assert_eq!(world.reason(3), "");
    assert_eq!(world.sent(1), "4:0/0", "the end of job 2 is an end");
    world.finishes(1, 1, 1);
    assert_eq!(world.sent(1), "1:3,5/0");
}

#[test]
fn a_canceled_task_aborts_its_element() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(10, |_| {});
    world.graph(10, vec![each("1")], Edges::default()).expect("accepted");
    let tasks = Some("3-4".parse().expect("ids"));
    world.ask(ClientRequest::Cancel { jobs: Selector::Ids(IdSet::single(TaskId(1))), tasks, reason: None });
    assert_eq!(
        world.reason(2),
        "3-4: Tasks 1@3-4 were canceled, and these tasks wait for one or more of them."
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(3, |_| {});
    world.fails(1, 1);
    let none = Edges::default;
    let cases = [
        (vec![after("7")], none(), "Job 7 not found."),
        (vec![after("1@9")], none(), "Task 9 not found in job 1."),
        (
            vec![after("1")],
            none(),
            "Tasks that wait for 1 of job 1 to succeed could never run: failed already.",
        ),
        (vec![each("1@0,2")], none(), "2 are waited for in job 1, 3 wait"),
        (vec![after("2")], none(), "Job 2 not found."),
        (Vec::new(), edges(&[&[1], &[2], &[0]]), "Tasks of job 2 wait for each other: 0 -> 1 -> 2 -> 0."),
        (Vec::new(), edges(&[&[], &[1], &[]]), "wait for each other: 1 -> 1."),
        (Vec::new(), edges(&[&[], &[5], &[]]), "Task 5 not found in job 2."),
        (Vec::new(), edges(&[&[], &[0]]), "Dependencies of 2 tasks were given for 3 tasks."),
    ];
    for (after, edges, expected) in cases {
        let error = world.graph(3, after, edges).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let any = After { condition: Condition::AnyEnd, ..after("1@1") };
    world.graph(1, vec![any, after("1@0")], Edges::default()).expect("one that finishes counts as done");
}

#[test]
fn a_finished_job_that_is_forgotten_counts_as_done() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(1, |_| {});
    world.submit(1, |_| {});
    world.graph(1, vec![after("1"), after("2")], Edges::default()).expect("accepted");
    world.finishes(1, 0, 0);
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    world.sent(1);
    assert_eq!(restarted(&world.fold).readiness.blocked(JobId(3)), Some(&IdSet::range(0, 0)));
    world.finishes(2, 0, 0);
    assert_eq!(world.sent(1), "3:0/0");
}

#[test]
fn the_job_that_was_made_last_goes_before() {
    let mut world = World::new();
    assert_eq!(world.graph(1, vec![after("last")], Edges::default()), Err(RequestError::NoJobs));
    world.submit(1, |_| {});
    world.submit(2, |_| {});
    world.graph(1, vec![after("last@1")], Edges::default()).expect("accepted");
    world.graph(1, vec![after("last")], Edges::default()).expect("accepted");
    let of = |job| world.server.state().jobs[&JobId(job)].submits[0].dependencies.after[0].to_string();
    assert_eq!((of(3), of(4)), ("2@1".into(), "3".into()));
}

/// A server restored from this state, a step after its start.
pub(super) fn restarted(state: &State) -> Server {
    let mut server = Server::new(ServerOptions::default());
    let mut restore = |at, record| {
        server.restore(at, &record);
        Ok::<(), ()>(())
    };
    state.snapshot(&mut restore).expect("nothing refuses");
    let mut effects = Vec::new();
    server.start(state.latest, "abc123".into(), &mut effects);
    server.settle(state.latest, &mut effects);
    server
}

#[test]
fn a_job_that_ends_with_a_failure_among_successes_has_not_finished() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(2, |_| {});
    world.graph(1, vec![after("1")], Edges::default()).expect("accepted");
    world.sent(1);
    world.reports(1, |report| {
        report.finished.push(finished(JobId(1), 0, 0, 0));
        report.failed.push((JobId(1), failed(1, 0, 1)));
    });
    assert_eq!(world.sent(1), "", "although the success is heard of first");
    assert_eq!(
        world.reason(2),
        "0: Task 1@1 failed, for which this task waits. `hq job failures 1` shows why."
    );
}

#[test]
fn what_waits_for_a_job_hears_of_its_end_though_it_is_forgotten_at_once() {
    let mut world = World::new();
    let first = world.submit(2, |_| ());
    let waits = [Condition::AnyEnd, Condition::Success];
    let [anyhow, well] = waits.map(|condition| {
        let after = vec![After { condition, ..After::of(first) }];
        world.graph(1, after, Edges::default()).expect("a job")
    });
    let jobs = || Selector::Ids(IdSet::single(TaskId(first.0)));
    let bodies = [
        ClientRequest::Cancel { jobs: jobs(), tasks: None, reason: None },
        ClientRequest::ForgetJobs { jobs: jobs(), states: Vec::new() },
    ];
    // Both are heard before the server looks at what has come of them.
    let mut effects = Vec::new();
    for body in bodies {
        world.server.handle(world.now, Input::Client { connection: CLIENT, request: 1, body }, &mut effects);
    }
    world.server.settle(world.now, &mut effects);
    world.take(effects);
    assert_eq!(world.states(anyhow), "waiting: 1 waiting");
    assert_eq!(world.states(well), "aborted: 1 aborted");
    world.worker(10, 4);
    assert_eq!(world.sent(10), format!("{anyhow}:0/0"));
}
