//! Clients that read what tasks print: whom they are sent to, when they wait, and what they are told.

use hq_model::{Channel, OutputSink, TaskRef, WorkerId};

use super::*;
use crate::limits::{OUTPUT_READ_LATE, OUTPUT_READS_OF_CLIENT_MAX, OUTPUT_READS_OF_WORKER_MAX};
use crate::output_messages::{Output, OutputRead, ReadAnswer, ReadFrom, ReadOrder, ReadState, Seen};

pub(super) fn in_words(order: &ReadOrder) -> String {
    let ReadOrder { number, task, instance, channel, from, .. } = order;
    let from = match from {
        ReadFrom::Offset(offset) => format!("from {offset}"),
        ReadFrom::Lines(lines) => format!("{lines} lines"),
    };
    format!("read {number} of {task}/{instance} {} {from}", channel.word())
}

fn read(task: u32, seen: Seen) -> OutputRead {
    OutputRead {
        task: TaskRef::new(JobId(1), TaskId(task)),
        channel: Channel::Stdout,
        seen,
        from: ReadFrom::Offset(5),
        bytes_max: 100,
        wait: Duration::from_secs(10),
        even_ended: false,
    }
}

impl World {
    fn printing(cpus: u32) -> World {
        let mut world = World::new();
        world.worker(2, cpus);
        world.submit(cpus, |spec| spec.stdout = OutputSink::Stream);
        world.sent(2);
        world
    }

    fn read(&mut self, request: u64, read: OutputRead) -> String {
        let body = ClientRequest::ReadOutput(read);
        let answers = self.step(Input::Client { connection: CLIENT, request, body });
        told(answers)
    }

    fn began(&mut self, task: u32, instance: u32) -> String {
        self.reports += 1;
        let started = vec![started(JobId(1), task, instance)];
        let report = Report { number: self.reports, started, ..Report::default() };
        told(self.hears(2, FromWorker::Report(report)))
    }

    fn is_over(&mut self, task: u32, instance: u32) -> String {
        self.reports += 1;
        let finished = vec![finished(JobId(1), task, task, instance)];
        let report = Report { number: self.reports, finished, ..Report::default() };
        told(self.hears(2, FromWorker::Report(report)))
    }

    fn answers(&mut self, number: u64, state: ReadState) -> String {
        let answer = ReadAnswer { number, offset: 5, length: 8, bytes: b"abc".to_vec(), state };
        told(self.hears(2, FromWorker::Output(answer)))
    }

    fn hears(&mut self, connection: u64, message: FromWorker) -> Vec<ClientResponse> {
        self.step(Input::Worker { connection: ConnectionId(connection), message })
    }

    fn waiting(&mut self) -> u64 {
        match self.ask(ClientRequest::ServerInfo) {
            ClientResponse::ServerInfo(info) => info.output_reads,
            other => panic!("{other:?}"),
        }
    }
}

fn told(answers: Vec<ClientResponse>) -> String {
    let one = |answer: &ClientResponse| match answer {
        ClientResponse::Output(Output { instance, offset, bytes, state, .. }) if !bytes.is_empty() => {
            format!("{instance}: {} at {offset}, {state:?}", String::from_utf8_lossy(bytes))
        }
        ClientResponse::Output(output) => format!("{}: {:?}", output.instance, output.state),
        ClientResponse::Error(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    answers.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn the_worker_that_runs_a_task_is_asked_and_its_answer_passed_on() {
    let mut world = World::printing(1);
    world.began(0, 0);
    assert_eq!(world.read(7, read(0, Seen::Nothing)), "");
    assert_eq!((world.sent(2).as_str(), world.waiting()), ("read 1 of 1@0/0 stdout from 5", 1));
    assert_eq!(world.answers(1, ReadState::More), "0: abc at 5, More");
    assert_eq!(world.answers(1, ReadState::More), "", "each is answered once");
    assert_eq!((world.sent(2).as_str(), world.waiting()), ("", 0));
    world.read(8, read(0, Seen::Part(Instance(0))));
    let says = ReadState::Unreadable("it is no file".into());
    assert_eq!(world.answers(2, says), "0: abc at 5, Unreadable(\"it is no file\")");
}

#[test]
fn where_files_are_told_by_entries_these_are_told_too() {
    let entries_told = |path: &str| {
        let mut world = World::new();
        world.worker(2, 2);
        let stdout = OutputSink::File { path: path.into(), on_close: hq_model::OnClose::Keep };
        let target = Target::New(JobSpec::default());
        let submit = Submit::new(target, TaskIds::Next(2), TaskSpec { stdout, ..one_cpu() });
        let entries = Entries::new([&b"a"[..], b"b"]).expect("short");
        world.submits(Submit { entries, ..submit });
        world.sent(2);
        world.began(1, 0);
        world.read(7, read(1, Seen::Nothing));
        let orders = world.to_workers.drain(..).filter_map(|(_, message)| match message {
            ToWorker::ReadOutput(order) => Some(order.entry),
            _ => None,
        });
        let mut told: Vec<Option<Vec<u8>>> = orders.collect();
        for grouped in [false, true] {
            let request = ClientRequest::ListTasks {
                jobs: Selector::All,
                tasks: None,
                states: Vec::new(),
                after: None,
                limit: 10,
                grouped,
                with_entries: false,
            };
            let ClientResponse::Tasks { tasks, groups, .. } = world.ask(request) else { panic!("tasks") };
            let together = groups.into_iter().flat_map(|group| group.into_tasks());
            told.extend(tasks.into_iter().map(|(_, task)| task).chain(together).map(|task| task.entry));
        }
        let word =
            |entry: Option<Vec<u8>>| entry.map_or("-".into(), |e| String::from_utf8_lossy(&e).into_owned());
        told.into_iter().map(word).collect::<Vec<String>>().join(" ")
    };
    assert_eq!(entries_told("out/%{ENTRY_1}"), "b a b a b");
    assert_eq!(entries_told("out/%{TASK_ID}"), "- - - - -");
}

#[test]
fn a_read_waits_until_its_task_starts() {
    let mut world = World::printing(1);
    assert_eq!(world.read(7, read(0, Seen::Nothing)), "");
    assert_eq!((world.sent(2).as_str(), world.waiting()), ("", 1));
    world.began(0, 0);
    assert_eq!(world.sent(2), "read 1 of 1@0/0 stdout from 5");
    // Who does not want to wait is told so.
    let mut world = World::printing(1);
    let now = OutputRead { wait: Duration::ZERO, ..read(0, Seen::Nothing) };
    assert_eq!(world.read(8, now), "0: Waits");
    // As is who has waited long enough.
    world.read(9, read(0, Seen::Nothing));
    world.now = world.now.after(Duration::from_secs(10));
    assert_eq!(told(world.step(Input::Tick)), "0: Waits");
    assert_eq!(world.waiting(), 0);
}

#[test]
fn who_has_read_all_of_an_instance_waits_for_what_comes_after_it() {
    let mut world = World::printing(1);
    world.began(0, 0);
    assert_eq!(world.read(7, read(0, Seen::All(Instance(0)))), "");
    assert_eq!(world.sent(2), "", "nobody is asked for it again");
    assert_eq!(world.is_over(0, 0), "0: Ended");
    assert_eq!(world.read(8, read(0, Seen::All(Instance(0)))), "0: Ended");
}

#[test]
fn the_next_instance_is_read_from_its_beginning() {
    let mut world = World::printing(1);
    world.began(0, 0);
    world.read(7, read(0, Seen::All(Instance(0))));
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    assert_eq!(world.sent(2), "");
    world.reports = 0;
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/1");
    assert_eq!(world.began(0, 1), "");
    assert_eq!(world.sent(2), "read 1 of 1@0/1 stdout from 0");
}

#[test]
fn a_lost_worker_is_told_at_once_and_asked_again_when_it_is_back() {
    let mut world = World::printing(1);
    world.began(0, 0);
    world.read(7, read(0, Seen::Nothing));
    let gone = Input::WorkerGone { connection: ConnectionId(2), is_closed: false };
    assert_eq!(told(world.step(gone)), "0: Away(WorkerId(1))");
    assert_eq!(world.read(8, read(0, Seen::Part(Instance(0)))), "");
    world.sent(2);
    world.worker_saying(2, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.holds = vec![crate::worker_messages::Held {
            template: crate::worker_messages::TemplateId { job: JobId(1), submit: 0 },
            instance: Instance(0),
            variant: None,
            queued: IdSet::new(),
            running: IdSet::range(0, 0),
            started: vec![Timestamp(7)],
        }];
    });
    assert_eq!(world.sent(2), "read 2 of 1@0/0 stdout from 5");
}

#[test]
fn a_worker_that_says_nothing_counts_as_away() {
    let mut world = World::printing(1);
    world.began(0, 0);
    world.read(7, read(0, Seen::Nothing));
    world.sent(2);
    world.now = world.now.after(Duration::from_secs(10) + OUTPUT_READ_LATE);
    world.says(2, FromWorker::Heartbeat);
    assert_eq!((world.sent(2).as_str(), world.waiting()), ("drop 1", 0));
}

#[test]
fn a_client_that_leaves_is_forgotten() {
    let mut world = World::printing(1);
    world.read(7, read(0, Seen::Nothing));
    world.began(0, 0);
    world.read(8, read(0, Seen::Nothing));
    world.sent(2);
    world.step(Input::ClientGone { connection: CLIENT });
    assert_eq!((world.sent(2).as_str(), world.waiting()), ("drop 1 drop 2", 0));
    assert_eq!(world.answers(1, ReadState::More), "");
}

#[test]
fn of_what_has_ended_the_worker_is_asked_only_when_that_is_wanted() {
    let mut world = World::printing(1);
    world.began(0, 0);
    world.is_over(0, 0);
    assert_eq!(world.read(7, read(0, Seen::Nothing)), "0: Ended");
    let wanted = || OutputRead { even_ended: true, ..read(0, Seen::Nothing) };
    assert_eq!(world.read(8, wanted()), "");
    assert_eq!(world.sent(2), "read 1 of 1@0/0 stdout from 5");
    assert_eq!(world.answers(1, ReadState::Complete), "0: abc at 5, Complete");
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: true });
    let gone = "0: Unreadable(\"worker 1, which ran it, is not connected\")";
    assert_eq!(world.read(9, wanted()), gone);
}

#[test]
fn what_was_canceled_before_it_started_has_ended() {
    let mut world = World::new();
    world.submit(1, |spec| spec.stdout = OutputSink::Stream);
    world.read(7, read(0, Seen::Nothing));
    let body = ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None };
    let answers = world.step(Input::Client { connection: CLIENT, request: 8, body });
    let output = answers.into_iter().filter(|answer| matches!(answer, ClientResponse::Output(_)));
    assert_eq!(told(output.collect()), "0: Ended");
    let wanted = OutputRead { even_ended: true, ..read(0, Seen::Nothing) };
    assert_eq!(world.read(9, wanted), "0: Unreadable(\"it is not known which worker ran it\")");
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut world = World::printing(1);
    assert_eq!(world.read(7, read(5, Seen::Nothing)), "Task 5 not found in job 1.");
    let other = OutputRead { task: TaskRef::new(JobId(4), TaskId(0)), ..read(0, Seen::Nothing) };
    assert_eq!(world.read(8, other), "Job 4 not found.");
    let stderr = OutputRead { channel: Channel::Stderr, ..read(0, Seen::Nothing) };
    assert_eq!(world.read(9, stderr), "0: Nowhere");
    let mut world = World::new();
    world.worker_saying(2, 1, |hello| hello.shows = false);
    world.submit(1, |spec| spec.stdout = OutputSink::Stream);
    world.began(0, 0);
    assert_eq!(
        world.read(7, read(0, Seen::Nothing)),
        "0: Unreadable(\"worker 1 is of an earlier release, which cannot show it\")"
    );
}

#[test]
fn neither_a_client_nor_a_worker_has_more_than_so_many() {
    let mut world = World::printing(1);
    for request in 0..OUTPUT_READS_OF_CLIENT_MAX as u64 {
        assert_eq!(world.read(100 + request, read(0, Seen::Nothing)), "");
    }
    assert!(world.read(1000, read(0, Seen::Nothing)).starts_with("Too many outputs"));
    world.began(0, 0);
    let body = ClientRequest::ReadOutput(read(0, Seen::Nothing));
    let answers = world.step(Input::Client { connection: ConnectionId(9), request: 1, body });
    let busy =
        format!("0: Unreadable(\"worker 1 is asked for {OUTPUT_READS_OF_WORKER_MAX} outputs already\")");
    assert_eq!(told(answers), busy);
}
