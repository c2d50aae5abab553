//! Open jobs that their clients have left.

use super::*;

const JOB: JobId = JobId(1);
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const READER: ConnectionId = ConnectionId(7);
const OTHER: ConnectionId = ConnectionId(8);

impl World {
    // A client waits for ends that it does not know, and there are none.
    fn waits_for_ends(&mut self, connection: ConnectionId) {
        let known = IdSet::range(0, 100);
        let body = ClientRequest::AwaitEnds { job: JOB, known };
        let answers = self.step(Input::Client { connection, request: 1, body });
        assert_eq!(answers, []);
    }

    fn is_open(&self) -> bool {
        self.fold.jobs[&JOB].is_open
    }
}

// A worker, and a job whose client waits for ends.
fn attended(linger: Option<Duration>) -> World {
    let mut world = World::new();
    world.worker(2, 8);
    let spec = JobSpec { name: "executor".into(), linger, ..JobSpec::default() };
    world.key += 1;
    world.ask(ClientRequest::OpenJob { key: world.key, spec });
    world.waits_for_ends(READER);
    world
}

fn gone(world: &mut World, connection: ConnectionId) {
    world.step(Input::ClientGone { connection });
}

#[test]
fn a_job_is_closed_when_nobody_has_waited_for_it_for_long_enough() {
    let mut world = attended(Some(HOUR));
    world.wait(100 * HOUR);
    assert!(world.is_open(), "its client waits");
    gone(&mut world, CLIENT);
    world.wait(100 * HOUR);
    assert!(world.is_open(), "another connection waits for nothing of it");
    gone(&mut world, READER);
    world.wait(HOUR - MINUTE);
    assert!(world.is_open());
    assert_eq!(world.server.next_wakeup(), Some(world.now.after(MINUTE - Duration::from_millis(1))));
    world.wait(MINUTE);
    assert!(!world.is_open());
    assert!(world.server.state().jobs[&JOB].has_ended());
}

#[test]
fn an_explanation_says_that_it_is_left() {
    let mut world = attended(Some(HOUR));
    let why = |world: &mut World| match world.ask(ClientRequest::ExplainJobs { jobs: Selector::Last }) {
        ClientResponse::ExplainedJobs(jobs) => {
            jobs[0].reasons.iter().map(|one| one.text.clone()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&mut world), Vec::<String>::new());
    gone(&mut world, READER);
    world.wait(20 * MINUTE);
    let told = why(&mut world).join("; ");
    let left = "nothing of it is left, and no client is there for it: it is closed in 39m";
    assert!(told.starts_with(left), "{told}");
}

#[test]
fn who_comes_back_has_the_whole_time_again() {
    let mut world = attended(Some(HOUR));
    gone(&mut world, READER);
    world.wait(HOUR - MINUTE);
    world.waits_for_ends(OTHER);
    world.wait(100 * HOUR);
    assert!(world.is_open());
    gone(&mut world, OTHER);
    world.wait(HOUR - MINUTE);
    assert!(world.is_open());
    world.wait(2 * MINUTE);
    assert!(!world.is_open());
}

#[test]
fn calls_that_are_left_end_first() {
    let mut world = attended(Some(HOUR));
    world.submits(Submit::new(Target::Open(JOB), TaskIds::Next(1), one_cpu()));
    gone(&mut world, READER);
    world.wait(MINUTE);
    world.reports(2, |r| r.started = vec![started(JOB, 0, 0)]);
    world.wait(MINUTE);
    assert!(world.is_open());
    world.reports(2, |r| r.finished = vec![finished(JOB, 0, 0, 0)]);
    world.wait(HOUR - MINUTE);
    assert!(world.is_open(), "it counts from the end of the last one");
    world.wait(2 * MINUTE);
    assert!(!world.is_open());
}

#[test]
fn one_that_lingers_for_ever_stays_open() {
    let mut world = attended(None);
    gone(&mut world, READER);
    world.wait(1000 * HOUR);
    assert!(world.is_open());
}

#[test]
fn a_server_that_was_started_again_gives_clients_the_whole_time_to_come_back() {
    let mut world = attended(Some(HOUR));
    gone(&mut world, READER);
    world.wait(HOUR - MINUTE);
    world.restart();
    world.step(Input::Tick);
    world.wait(HOUR - MINUTE);
    assert!(world.is_open());
    world.wait(2 * MINUTE);
    assert!(!world.is_open());
    world.restart();
    world.step(Input::Tick);
    assert!(!world.is_open());
}

#[test]
fn nothing_is_closed_while_the_journal_cannot_be_written() {
    let mut world = attended(Some(HOUR));
    gone(&mut world, READER);
    world.step(Input::JournalFails { error: "no room".into() });
    world.wait(2 * HOUR);
    assert!(world.is_open());
    world.step(Input::JournalWorks);
    assert!(!world.is_open());
}

#[test]
fn of_one_client_the_last_question_about_ends_counts() {
    let mut world = attended(Some(HOUR));
    for request in 2..5 {
        let body = ClientRequest::AwaitEnds { job: JOB, known: IdSet::new() };
        assert_eq!(world.step(Input::Client { connection: READER, request, body }), []);
    }
    world.submits(Submit::new(Target::Open(JOB), TaskIds::Next(1), one_cpu()));
    world.reports += 1;
    let report =
        Report { number: world.reports, finished: vec![finished(JOB, 0, 0, 0)], ..Report::default() };
    let message = FromWorker::Report(report);
    let answers = world.step(Input::Worker { connection: ConnectionId(2), message });
    assert!(matches!(&answers[..], [ClientResponse::Ends(_)]), "{answers:?}");
}
