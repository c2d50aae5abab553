//! Everything in counts, and who watches that.

use super::*;
use crate::limits::{OVERVIEW_BURST, OVERVIEW_GAP, OVERVIEW_INTERVAL};
use crate::overview::{Ended, Overview, WorkerCounts};

impl World {
    fn look(&mut self, connection: u64, seen: Option<u64>) -> Option<Overview> {
        let body = ClientRequest::Overview { seen };
        let connection = ConnectionId(connection);
        let answers = self.step(Input::Client { connection, request: 7, body });
        only(answers)
    }

    // One more job, and what those who watch are told at once.
    fn change(&mut self) -> Option<Overview> {
        self.key += 1;
        let body = ClientRequest::OpenJob { key: self.key, spec: JobSpec::default() };
        let mut answers = self.step(Input::Client { connection: CLIENT, request: 1, body });
        assert!(matches!(answers.remove(0), ClientResponse::Submitted { .. }));
        only(answers)
    }

    fn told_overview(&mut self, after: Duration) -> Option<Overview> {
        self.now = self.now.after(after);
        only(self.step(Input::Tick))
    }
}

fn only(answers: Vec<ClientResponse>) -> Option<Overview> {
    assert!(answers.len() <= 1, "{answers:?}");
    answers.into_iter().next().map(|answer| match answer {
        ClientResponse::Overview(overview) => *overview,
        other => panic!("{other:?}"),
    })
}

#[test]
fn what_waits_runs_and_has_ended_is_counted() {
    let mut world = World::new();
    world.worker(2, 2);
    let job = world.submit(5, |_| {});
    world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!((seen.tasks.running, seen.tasks.waiting, seen.tasks.failed), (1, 3, 1));
    assert_eq!(seen.ended, Ended { failed: 1, ..Ended::default() });
    assert_eq!(seen.workers, WorkerCounts { active: 1, ..WorkerCounts::default() });
    let cpus = seen.resources.iter().find(|resource| resource.name == "cpus").expect("CPUs");
    assert_eq!(cpus.offered, Amount::whole(2));
    assert!(cpus.taken >= Amount::whole(1), "{cpus:?}");
    let running = seen.jobs.iter().find(|(state, _)| *state == hq_model::JobState::Running);
    assert_eq!(running.map(|count| count.1), Some(1));
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!(seen.workers, WorkerCounts { away: 1, ..WorkerCounts::default() });
    assert_eq!(seen.resources, Vec::new(), "nothing is offered by who is away");
}

fn open(overview: &Overview) -> u64 {
    overview.jobs.iter().map(|(_, count)| count).sum()
}

#[test]
fn who_has_seen_everything_is_told_when_something_changes() {
    let mut world = World::new();
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!(world.look(9, Some(seen.change)), None, "nothing is new");
    assert_eq!(world.told_overview(Duration::from_secs(60)), None);
    let told = world.change().expect("something is new");
    assert_eq!((open(&seen), open(&told)), (0, 1));
    assert_eq!(world.change(), None, "one answer for one question");
}

#[test]
fn whoever_watches_is_told_only_so_often_and_all_at_once() {
    let mut world = World::new();
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!(world.look(9, Some(seen.change)), None);
    let first = world.change().expect("something is new");
    world.change();
    // One that knows less gets what was told last; those that know that wait.
    assert_eq!(world.look(10, Some(first.change - 1)).map(|told| told.change), Some(first.change));
    assert_eq!(world.look(10, Some(first.change)), None, "not yet");
    let wakeup = world.server.next_wakeup().expect("a time");
    assert_eq!(wakeup, first.now.after(OVERVIEW_GAP), "it was quiet before");
    let mut told = world.told_overview(OVERVIEW_GAP).expect("something is new");
    assert_eq!(open(&told), 2);
    for _ in 0..OVERVIEW_BURST + 2 {
        assert_eq!(world.look(10, Some(told.change)), None);
        world.change();
        let wakeup = world.server.next_wakeup().expect("a time");
        let pause = wakeup.since(world.now);
        told = world.told_overview(pause).expect("something is new");
    }
    assert_eq!(world.look(10, Some(told.change)), None);
    world.change();
    let pause = world.server.next_wakeup().expect("a time").since(told.now);
    let step = Duration::from_millis(1);
    assert!(
        pause + step >= OVERVIEW_INTERVAL && pause <= OVERVIEW_INTERVAL,
        "it goes on changing: {pause:?}"
    );
    world.told_overview(pause).expect("something is new");
    world.change();
    let fresh = world.look(11, None).expect("an answer at once");
    assert_eq!(world.look(11, Some(fresh.change)), None, "nothing older than it has seen");
    world.step(Input::ClientGone { connection: ConnectionId(11) });
    assert_eq!(world.change(), None);
    assert_eq!(world.told_overview(OVERVIEW_INTERVAL), None, "it has left");
}

#[test]
fn a_restarted_server_answers_who_watched_the_one_before_at_once() {
    let mut world = World::new();
    let seen = world.look(9, None).expect("an answer at once");
    world.restart();
    let now = world.look(9, Some(seen.change)).expect("an answer at once");
    assert_ne!(now.change, seen.change);
}

#[test]
fn counts_of_ends_survive_that_jobs_are_forgotten() {
    let mut world = World::new();
    world.worker(2, 1);
    let job = world.submit(1, |_| {});
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::ForgetJobs { jobs, states: Vec::new() });
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!((seen.tasks.total(), seen.ended.finished), (0, 1));
    assert!(world.server.state().jobs.is_empty());
}

#[test]
fn the_latest_jobs_come_in_pages() {
    let mut world = World::new();
    for _ in 0..5 {
        world.submit(1, |_| {});
    }
    let mut page = |text: &str, before, limit| {
        let (states, text) = (Vec::new(), text.to_owned());
        let answer = world.ask(ClientRequest::LatestJobs { states, text, before, limit });
        let ClientResponse::JobList(jobs) = answer else { panic!("{answer:?}") };
        jobs.into_iter().map(|job| job.job.0).collect::<Vec<_>>()
    };
    assert_eq!(page("", None, 2), [4, 5]);
    assert_eq!(page("", Some(JobId(4)), 2), [2, 3]);
    assert_eq!(page("", Some(JobId(2)), 2), [1]);
    assert_eq!(page("3", None, 10), [3]);
    assert_eq!(page("no such name", None, 10), Vec::<u32>::new());
}

#[test]
fn what_is_ready_needs_nothing_but_room() {
    let mut world = World::new();
    world.worker(2, 2);
    let chain = world.chain(2);
    world.reports(2, |r| r.started = vec![started(chain, 0, 0)]);
    let seen = world.look(9, None).expect("an answer at once");
    assert_eq!((seen.tasks.running, seen.tasks.waiting), (1, 1));
    assert_eq!(seen.ready, 0, "it was handed out ahead, and waits for another one");
    let explained = world.ask(ClientRequest::ExplainJobs { jobs: Selector::All });
    let ClientResponse::ExplainedJobs(jobs) = explained else { panic!("{explained:?}") };
    let with_second = jobs[0].groups.iter().filter(|group| group.ids.contains(TaskId(1)));
    assert_eq!(with_second.count(), 1, "{:?}", jobs[0].groups);
}
