//! Workers that see to it that an object stays.

use hq_model::{TaskRef, WorkerId};

use super::objects::{PRODUCER, READER, copy, leaves, object, stored, takes};
use super::*;
use crate::object_messages::ObjectRequest;

impl World {
    // What a worker was told since the last call: `+` before what stays, `-` before what may go.
    pub(super) fn guards(&mut self, connection: u64) -> String {
        let mut told = Vec::new();
        for (_, message) in self.to_workers.iter().filter(|(to, _)| *to == connection) {
            let ToWorker::GuardObjects { guard, release } = message else { continue };
            told.extend(guard.iter().map(|object| format!("+{object}")));
            told.extend(release.iter().map(|object| format!("-{object}")));
        }
        self.to_workers.retain(|(to, _)| *to != connection);
        self.server.check_recount().expect("counted");
        told.join(" ")
    }

    pub(super) fn has_fetched(&mut self, connection: u64, text: &str) {
        self.reports(connection, |report| report.objects = stored(text, 0));
    }

    pub(super) fn keeps(&mut self, text: &str) {
        let keep = ClientRequest::Objects(ObjectRequest::Keep(vec![object(text)]));
        assert_eq!(self.ask(keep), ClientResponse::Done);
    }
}

// Takes an object, and does not run for lack of room.
fn waits(text: &str) -> impl FnOnce(&mut TaskSpec) {
    let takes = takes(text);
    |spec| {
        takes(spec);
        spec.requests = vec![cpus(2)];
    }
}

fn cancel(world: &mut World, job: JobId, tasks: Option<IdSet>) {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks, reason: None });
}

#[test]
fn what_nobody_needs_may_go_at_once() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    assert_eq!(world.guards(1), "-1@0:parts");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.guards(1), "");
}

#[test]
fn what_is_needed_stays_until_its_last_reader_has_ended() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.submit(2, waits("in=1@0:parts"));
    world.leaves_object(1, 0, 0);
    assert_eq!(world.guards(1), "+1@0:parts");
    cancel(&mut world, READER, Some(IdSet::range(0, 0)));
    assert_eq!(world.guards(1), "", "another one waits");
    cancel(&mut world, READER, None);
    assert_eq!(world.guards(1), "-1@0:parts");
    // Somebody else comes.
    world.submit(1, takes("in=1@0:parts"));
    assert_eq!(world.guards(1), "+1@0:parts");
    world.reports(1, |report| report.finished = vec![finished(JobId(3), 0, 0, 0)]);
    assert_eq!(world.guards(1), "-1@0:parts");
}

#[test]
fn each_reader_of_an_array_needs_its_own() {
    let mut world = World::new();
    world.worker(1, 2);
    world.submit(2, leaves);
    world.submit(2, |spec| {
        takes("in=1@%{TASK_ID}:parts")(spec);
        spec.requests = vec![cpus(3)];
    });
    world.leaves_object(1, 0, 0);
    world.leaves_object(1, 1, 0);
    assert_eq!(world.guards(1), "+1@0:parts +1@1:parts");
    cancel(&mut world, READER, Some(IdSet::range(1, 1)));
    assert_eq!(world.guards(1), "-1@1:parts");
}

#[test]
fn one_worker_guards_and_the_next_one_when_it_is_gone() {
    let mut world = World::new();
    world.worker(1, 1);
    world.worker(2, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.keeps("1@0:parts");
    assert_eq!(world.guards(1), "-1@0:parts +1@0:parts");
    world.has_fetched(2, "1@0:parts");
    assert_eq!((world.guards(1), world.guards(2)), (String::new(), "-1@0:parts".to_owned()));
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(world.guards(2), "+1@0:parts");
    let dropped = ClientRequest::Objects(ObjectRequest::Drop(vec![object("1@0:parts")]));
    assert_eq!(world.ask(dropped), ClientResponse::Done);
    assert_eq!(world.guards(2), "");
}

#[test]
fn a_job_that_is_needed_and_its_guards_stay_until_its_last_reader_has_ended() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, takes("in=1@0:parts"));
    assert_eq!(world.guards(1), "-1@0:parts +1@0:parts");
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::Ids(IdSet::range(1, 1)), states: Vec::new() });
    assert_eq!(world.guards(1), "");
    world.reports(1, |report| report.finished = vec![finished(READER, 0, 0, 0)]);
    assert_eq!(world.guards(1), "-1@0:parts");
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    assert_eq!(world.guards(1), "");
}

#[test]
fn a_worker_that_comes_back_hears_of_all_that_it_stores() {
    let mut world = World::new();
    world.worker(1, 2);
    world.submit(2, leaves);
    world.leaves_object(1, 0, 0);
    world.leaves_object(1, 1, 0);
    world.keeps("1@1:parts");
    world.restart();
    world.worker_saying(2, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = vec![copy("1@0:parts", 0), copy("1@1:parts", 0)];
    });
    assert_eq!(world.guards(2), "+1@1:parts -1@0:parts");
}

#[test]
fn a_new_instance_is_judged_anew() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.submit(1, waits("in=1@0:parts"));
    // Its end is lost with the worker.
    world.reports(1, |report| {
        report.objects = stored("1@0:parts", 0);
    });
    assert_eq!(world.guards(1), "+1@0:parts");
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.worker(2, 1);
    let attempt = world.sent(2);
    let instance = attempt.rsplit('/').next().and_then(|number| number.parse().ok()).expect("an instance");
    world.leaves_object(2, 0, instance);
    assert_eq!(world.guards(2), "+1@0:parts");
    assert_eq!(world.server.state().task_state(TaskRef::new(PRODUCER, TaskId(0))), Some(TaskState::Finished));
}
