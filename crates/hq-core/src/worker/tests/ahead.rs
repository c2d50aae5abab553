//! What is fetched for tasks that wait, before they start.

use hq_model::ObjectId;

use super::*;
use crate::limits::{AHEAD_BYTES_MAX, AHEAD_COMING_MAX, AHEAD_MAX};
use crate::object_messages::{ObjectCopy, ObjectSource, TaskObjects};

pub(super) fn told(sources: &[ObjectSource], is_ahead: bool) -> String {
    if !is_ahead {
        return format!("bring {}", sources.len());
    }
    let objects: Vec<String> =
        sources.iter().map(|source| source.copy.object.task.task.to_string()).collect();
    format!("ahead {}", objects.join(" "))
}

// What task `number` of job 9 has left.
fn object(number: u32) -> ObjectId {
    ObjectId { task: TaskRef::new(JobId(9), TaskId(number)), name: "out".parse().expect("a name") }
}

fn copy(number: u32, size: u64) -> ObjectCopy {
    ObjectCopy { object: object(number), instance: Instance(0), size, checksum: 7, is_dir: false }
}

// Two tasks run at once.
fn storing() -> World {
    let now = Timestamp(1_000_000_000);
    World::with(Worker::new(config(|_| {}), now).with_store(), now)
}

impl World {
    // Tasks of a job, each with the number and the size of what it takes.
    fn take(&mut self, job: u32, tasks: &[(u32, u64)]) -> String {
        let cpus = ResourceRequest {
            name: "cpus".into(),
            amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
        };
        let spec = TaskSpec {
            body: Body::program(["true"]),
            requests: vec![Request { resources: vec![cpus], ..Request::default() }],
            ..TaskSpec::default()
        };
        let template = TemplateId { job: JobId(job), submit: 0 };
        let content = Template {
            id: template,
            spec: Arc::new(spec),
            submit_dir: b"/".to_vec(),
            submitted: self.now,
            has_siblings: true,
        };
        let objects = tasks.iter().enumerate().map(|(task, (number, size))| {
            let source =
                ObjectSource { copy: copy(*number, *size), path: b"in".to_vec(), holders: Vec::new() };
            TaskObjects { tasks: IdSet::single(TaskId(task as u32)), inputs: vec![source] }
        });
        let batch = RunBatch {
            template,
            content: Some(content),
            ids: IdSet::range(0, tasks.len() as u32 - 1),
            instance: Instance(0),
            entries: Entries::default(),
            services: Vec::new(),
            nodes: Vec::new(),
            after: None,
            variant: None,
            head_start: Duration::ZERO,
            inputs: Vec::new(),
            objects: objects.collect(),
        };
        self.step(Input::Server(ToWorker::Run(vec![batch])));
        self.acted()
    }

    fn stored(&mut self, number: u32) -> String {
        self.step(Input::Stored(copy(number, 1)));
        self.acted()
    }

    // Without what it reports, which has its own time.
    fn acted(&mut self) -> String {
        self.done.retain(|done| !done.starts_with("finished"));
        self.did()
    }
}

#[test]
fn what_waiting_tasks_take_is_fetched_while_others_run() {
    let mut world = storing();
    world.step(Input::Stored(copy(3, 1)));
    world.did();
    // The first two start, and the object of the fourth is here.
    assert_eq!(
        world.take(1, &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (2, 1)]),
        "start 1@0/0, start 1@1/0, ahead 2 4"
    );
    assert_eq!([world.stored(2), world.stored(4)], ["", ""], "there is nothing more");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.acted(), "start 1@2/0");
}

#[test]
fn few_come_at_once_and_what_cannot_be_had_is_left_to_its_task() {
    assert_eq!(AHEAD_COMING_MAX, 2);
    let mut world = storing();
    let tasks: Vec<(u32, u64)> = (0..7).map(|number| (number, 1)).collect();
    assert_eq!(world.take(1, &tasks), "start 1@0/0, start 1@1/0, ahead 2 3");
    assert_eq!(world.stored(3), "ahead 4");
    world.step(Input::NotAhead(object(2)));
    assert_eq!(world.acted(), "ahead 5");
    world.step(Input::NotAhead(object(5)));
    assert_eq!(world.acted(), "ahead 6", "it is not asked for again");
    world.step(Input::NotAhead(object(5)));
    assert_eq!(world.acted(), "", "an answer that nobody waits for changes nothing");
    assert_eq!([world.stored(6), world.stored(4)], ["", ""]);
    // Another task wants it, and the one before has started.
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.acted(), "start 1@2/0");
    assert_eq!(world.take(2, &[(2, 1)]), "ahead 2");
}

#[test]
fn what_is_fetched_ahead_has_a_bound_in_bytes_and_in_number() {
    let mut world = storing();
    let half = AHEAD_BYTES_MAX / 2;
    let tasks = [(0, 1), (1, 1), (2, half), (3, half), (4, 1)];
    assert_eq!(world.take(1, &tasks), "start 1@0/0, start 1@1/0, ahead 2 3");
    assert_eq!([world.stored(2), world.stored(3)], ["", ""], "it is full");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.acted(), "start 1@2/0, ahead 4", "a task has taken what was fetched for it");

    let mut world = storing();
    let count = AHEAD_MAX as u32 + 5;
    let tasks: Vec<(u32, u64)> = (0..count).map(|number| (number, 1)).collect();
    world.take(1, &tasks);
    let fetched = (2..count).take_while(|number| !world.stored(*number).is_empty()).count();
    assert_eq!(fetched + AHEAD_COMING_MAX, AHEAD_MAX, "the last ones make room for nothing");
}

#[test]
fn nothing_is_fetched_for_tasks_that_go_back_or_that_were_taken_back() {
    let mut world = storing();
    assert_eq!(
        world.take(1, &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        "start 1@0/0, start 1@1/0, ahead 2 3"
    );
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: "4".parse().expect("ids") }));
    world.did();
    assert_eq!(world.stored(2), "");
    let mut world = storing();
    world.take(1, &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    world.did();
    assert!(!world.stored(2).contains("ahead"));
}
