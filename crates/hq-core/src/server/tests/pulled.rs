//! Pulled tasks: a server, and relays whose takers are played by hand.

mod limits;
mod payloads;
mod relays;
mod tags;
mod unsaved;

use std::collections::BTreeMap;

use hq_model::TaskRef;
use hq_model::dependency::{After, Dependencies, NamedEdges};
use hq_model::pulled::entry_of;

use super::*;
use crate::relay::{
    AskId, BagState, Branch, Effect as RelayEffect, Given, How, Refusal, Relay, SessionId, TagsId, Which,
};
use crate::worker;

struct Table {
    world: World,
    relays: BTreeMap<u64, Relay>,
    given: BTreeMap<AskId, (Vec<Given>, BagState)>,
    last_ask: u64,
    // Relays whose words do not arrive.
    cut: Vec<u64>,
}

const LEASE: Duration = Duration::from_secs(60);

impl Table {
    fn new(relays: u64) -> Table {
        let world = World::new();
        let like = WorkerConfig::new(WorkerResources::default());
        let relays = (1..=relays).map(|number| (number, Relay::new(like.clone()))).collect();
        Table { world, relays, given: BTreeMap::new(), last_ask: 0, cut: Vec::new() }
    }

    fn open(&mut self, name: &str) -> JobId {
        let spec = JobSpec { name: name.into(), ..JobSpec::default() };
        self.world.key += 1;
        let key = self.world.key;
        match self.world.ask(ClientRequest::OpenJob { key, spec }) {
            ClientResponse::Submitted { job, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, bag: JobId, names: &[&str], after: &[&str]) -> ClientResponse {
        self.create_as(bag, names, after, |_| {})
    }

    fn create_as(
        &mut self,
        bag: JobId,
        names: &[&str],
        after: &[&str],
        change: impl FnOnce(&mut TaskSpec),
    ) -> ClientResponse {
        let mut spec = pulled_spec(bag);
        change(&mut spec);
        let mut submit = Submit::new(Target::Open(bag), TaskIds::Next(names.len() as u32), spec);
        let entries: Vec<Vec<u8>> = names.iter().map(|name| entry_of(name.as_bytes(), b"do it")).collect();
        submit.entries = Entries::new(entries.iter().map(Vec::as_slice)).expect("short");
        submit.keys = Entries::new(names.iter().map(|name| name.as_bytes())).expect("short");
        let after = after.iter().map(|name| After { key: Some((*name).to_owned()), ..After::of(bag) });
        submit.dependencies = Dependencies { after: after.collect(), ..Dependencies::default() }.into();
        let answer = self.world.answer_to(submit);
        self.pump();
        answer
    }

    // Everything that there is to say is said.
    fn pump(&mut self) {
        loop {
            let mut is_quiet = true;
            for number in self.relays.keys().copied().collect::<Vec<_>>() {
                let mut effects = Vec::new();
                let relay = self.relays.get_mut(&number).expect("there");
                relay.settle(self.world.now, &mut effects);
                assert_eq!(relay.check(), Ok(()));
                is_quiet &= !self.carry_out(number, effects);
                is_quiet &= !self.hear(number);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, number: u64, effects: Vec<RelayEffect>) -> bool {
        let mut has_said = false;
        for effect in effects {
            match effect {
                RelayEffect::Given { ask, tasks, state } => {
                    let before = self.given.insert(ask, (tasks, state));
                    assert!(before.is_none(), "a question is answered once");
                }
                _ if self.cut.contains(&number) => {}
                RelayEffect::Join { branch } => {
                    self.found(number, branch);
                    has_said = true;
                }
                RelayEffect::Send { branch, message } => {
                    self.world.says(connection(number, branch), *message);
                    has_said = true;
                }
                RelayEffect::Left { .. } => {}
            }
        }
        has_said
    }

    fn found(&mut self, number: u64, branch: Branch) {
        let mut effects = Vec::new();
        let relay = self.relays.get_mut(&number).expect("there");
        relay.hear(self.world.now, branch, worker::Input::ServerFound, &mut effects);
        self.carry_out(number, effects);
    }

    fn hear(&mut self, number: u64) -> bool {
        let mut heard = Vec::new();
        self.world.to_workers.retain(|(to, message)| {
            let is_ours = to / 1000 == number;
            if is_ours {
                heard.push((branch_of(*to), message.clone()));
            }
            !is_ours
        });
        let has_heard = !heard.is_empty();
        for (branch, message) in heard {
            let mut effects = Vec::new();
            let relay = self.relays.get_mut(&number).expect("there");
            relay.hear(self.world.now, branch, worker::Input::Server(message), &mut effects);
            self.carry_out(number, effects);
        }
        has_heard
    }

    fn session(&mut self, number: u64, label: &str) -> SessionId {
        self.relays.get_mut(&number).expect("there").enter(Some(label), Some(LEASE), None)
    }

    fn connects(&mut self, number: u64, session: SessionId, is_there: bool) {
        let (now, mut effects) = (self.world.now, Vec::new());
        let relay = self.relays.get_mut(&number).expect("there");
        match is_there {
            true => relay.connected(now, session, &mut effects),
            false => relay.disconnected(now, session, &mut effects),
        }
        self.carry_out(number, effects);
    }

    // Asks, and says what was given as `NAME…`, or the state.
    fn take(&mut self, number: u64, label: &str, bag: JobId, count: u32) -> String {
        let tasks = self.take_tasks(number, label, bag, count);
        let names = tasks.0.iter().map(|given| String::from_utf8_lossy(&given.name).into_owned());
        let names: Vec<String> = names.collect();
        if names.is_empty() { format!("{:?}", tasks.1) } else { names.join(" ") }
    }

    fn take_tasks(&mut self, number: u64, label: &str, bag: JobId, count: u32) -> (Vec<Given>, BagState) {
        self.take_as(number, label, bag.into(), count)
    }

    fn end(&mut self, number: u64, label: &str, which: &Which, how: How) -> Result<(), Refusal> {
        let session = self.session(number, label);
        let mut effects = Vec::new();
        let relay = self.relays.get_mut(&number).expect("there");
        let ended = relay.end(self.world.now, session, which, how, &mut effects).map(|_| ());
        self.carry_out(number, effects);
        self.pump();
        ended
    }

    fn finish(&mut self, number: u64, label: &str, name: &str) -> Result<(), Refusal> {
        self.end(number, label, &named(name), How::Finished(b"good".to_vec()))
    }

    // In steps, for relays must be heard now and then.
    fn wait(&mut self, duration: Duration) {
        let end = self.world.now.after(duration);
        while self.world.now < end {
            let left = end.since(self.world.now);
            self.world.wait(left.min(Duration::from_secs(1)));
            self.pump();
        }
    }

    fn states(&mut self, bag: JobId) -> String {
        self.world.states(bag)
    }
}

// Of a branch of a relay: few bags, and fewer sets of tags.
fn connection(number: u64, branch: impl Into<Branch>) -> u64 {
    let branch = branch.into();
    number * 1000 + u64::from(branch.tags.0) * 100 + u64::from(branch.bag.0)
}

fn branch_of(connection: u64) -> Branch {
    Branch { bag: JobId((connection % 100) as u32), tags: TagsId((connection % 1000 / 100) as u16) }
}

fn named(name: &str) -> Which {
    Which::Named(name.as_bytes().to_vec(), None)
}

fn held_by(bag: JobId, task: u32, label: &str) -> Refusal {
    Refusal::HeldByOther { task: TaskRef::new(bag, TaskId(task)), label: Some(label.to_owned()) }
}

fn pulled_spec(bag: JobId) -> TaskSpec {
    TaskSpec { body: Body::Pulled, requests: vec![Request::pulled(bag, &[""; 0])], ..TaskSpec::default() }
}

#[test]
fn a_task_is_taken_once_and_its_end_counts_once() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["17", "echo 1"], &[]);
    assert_eq!(table.states(bag), "waiting: 2 waiting");
    assert_eq!(table.take(1, "a", bag, 1), "17");
    assert_eq!(table.take(1, "b", bag, 9), "echo 1");
    assert_eq!(table.take(1, "c", bag, 9), "Wait");
    assert_eq!(table.states(bag), "running: 2 running");
    assert_eq!(table.finish(1, "b", "17"), Err(held_by(bag, 0, "a")), "that is of another one");
    assert_eq!(table.finish(1, "a", "17"), Ok(()));
    assert_eq!(table.finish(1, "a", "17"), Err(Refusal::NotHeld), "it has no such task any more");
    assert_eq!(table.states(bag), "running: 1 running, 1 finished");
    let session = table.session(1, "a");
    assert_eq!(table.relays[&1].progress(session), (0, 0), "one that has nothing is forgotten");
    assert_eq!(table.end(1, "b", &named("echo 1"), How::Failed("no such".into())), Ok(()));
    assert_eq!(table.states(bag), "failed: 1 finished, 1 failed");
}

#[test]
fn what_is_ready_is_given_at_once_beside_bags_that_nobody_asks_for() {
    let mut table = Table::new(2);
    // Whatever waits for a plan waits for long.
    table.world.plans_later = true;
    let bags = ["one", "two", "three"].map(|name| table.open(name));
    for bag in bags {
        table.create(bag, &["a", "b"], &[]);
        table.create_as(bag, &["c"], &[], |spec| spec.priority = 1);
    }
    assert_eq!(table.take(1, "x", bags[1], 2), "c a");
    assert_eq!(table.take(2, "x", bags[1], 1), "b");
    assert_eq!(table.take(2, "x", bags[2], 9), "c a b");
    assert!(table.world.plans.is_empty(), "bags share nothing that could be planned");
}

#[test]
fn tasks_that_are_submitted_again_are_asked_for_by_their_new_bag() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    table.take(1, "x", bag, 1);
    table.end(1, "x", &named("a"), How::Failed("no".into())).expect("taken");
    table.world.key += 1;
    let again = ClientRequest::Resubmit {
        key: table.world.key,
        jobs: Selector::Ids(IdSet::single(TaskId(bag.0))),
        tasks: None,
        states: Vec::new(),
    };
    let ClientResponse::Submitted { job, .. } = table.world.ask(again) else { panic!("a job") };
    assert_eq!(table.take(1, "x", job, 1), "a");
    assert_eq!(table.finish(1, "x", "a"), Ok(()));
}

#[test]
fn results_are_kept() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    table.take(1, "x", bag, 2);
    let long = How::Finished(vec![b'x'; 4097]);
    assert_eq!(table.end(1, "x", &named("a"), long), Err(Refusal::ResultTooLong));
    table.finish(1, "x", "a").expect("taken");
    table.end(1, "x", &named("b"), How::Finished(Vec::new())).expect("taken");
    let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
    let request = ClientRequest::Results { jobs, tasks: None, from: None, with_failed: false };
    let ClientResponse::Results { jobs, .. } = table.world.ask(request) else { panic!("results") };
    assert_eq!(jobs[0].results.get(0), Some(&b"good"[..]));
    assert_eq!((jobs[0].dropped.len(), &jobs[0].without), (0, &IdSet::single(TaskId(1))), "it left nothing");
}

#[test]
fn relays_have_pulled_tasks_alone_and_others_none() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let pool = ResourcePool { name: format!("pulled/{bag}"), kind: PoolKind::Sum(Amount::whole(9)) };
    table.world.worker_saying(1, 2, |hello| hello.config.resources.pools.push(pool.clone()));
    table.create(bag, &["a"], &[]);
    assert_eq!(table.world.sent(1), "", "a worker that claims to be a relay");
    table.world.submit(1, |_| {});
    assert_eq!(table.world.sent(1), "2:0/0");
    assert_eq!(table.take(1, "x", bag, 5), "a");
    // What asks for nothing at all fits everywhere else.
    table.world.submit(9, |spec| spec.requests = vec![Request::default()]);
    assert_eq!(table.take(1, "x", bag, 5), "Wait");
    let spec = TaskSpec { requests: vec![Request::pulled(bag, &[""; 0])], ..one_cpu() };
    let refused = table.world.answer_to(Submit::new(Target::Open(bag), TaskIds::Next(1), spec));
    let ClientResponse::Error(RequestError::Invalid(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("begin with `pulled/`"), "{text}");
}

#[test]
fn what_failed_is_tried_again_and_its_old_attempt_is_stale() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let retry = Retry { max: 1, ..Retry::default() };
    table.create_as(bag, &["a"], &[], |spec| spec.retry = retry.clone());
    let (first, _) = table.take_tasks(1, "x", bag, 1);
    table.end(1, "x", &named("a"), How::Failed("oh".into())).expect("taken");
    let (second, _) = table.take_tasks(1, "y", bag, 1);
    assert_ne!(first[0].attempt, second[0].attempt);
    let stale = Which::Task(first[0].task, Some(first[0].attempt.clone()));
    assert_eq!(table.end(1, "x", &stale, How::Finished(Vec::new())), Err(Refusal::Stale));
    assert_eq!(table.end(1, "y", &stale, How::Finished(Vec::new())), Err(Refusal::Stale));
    let good = Which::Task(second[0].task, Some(second[0].attempt.clone()));
    assert_eq!(table.end(1, "y", &good, How::Finished(Vec::new())), Ok(()));
    assert_eq!(table.states(bag), "opened: 1 finished");
}

#[test]
fn a_lease_that_is_over_counts_as_a_crash_and_a_task_given_back_does_not() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create_as(bag, &["a"], &[], |spec| spec.crash_limit = CrashLimit::Times(2));
    for _ in 0..5 {
        assert_eq!(table.take(1, "x", bag, 1), "a");
        assert_eq!(table.end(1, "x", &named("a"), How::Released), Ok(()));
    }
    let (given, _) = table.take_tasks(1, "x", bag, 1);
    let own = Which::Task(given[0].task, Some(given[0].attempt.clone()));
    table.wait(LEASE / 2);
    let session = table.session(1, "x");
    let mut effects = Vec::new();
    let relay = table.relays.get_mut(&1).expect("there");
    assert_eq!(relay.extend(table.world.now, session, &own, None, &mut effects), Ok(given[0].task));
    table.wait(LEASE - Duration::from_secs(1));
    assert_eq!(table.states(bag), "running: 1 running", "it has more time");
    table.wait(Duration::from_secs(2));
    assert_eq!(table.states(bag), "waiting: 1 waiting");
    assert_eq!(table.end(1, "x", &own, How::Finished(Vec::new())), Err(Refusal::Stale));
    assert_eq!(table.take(1, "y", bag, 1), "a");
    table.wait(LEASE + Duration::from_secs(1));
    assert_eq!(table.states(bag), "failed: 1 failed", "twice is too often");
}

#[test]
fn somebody_else_gives_back_what_a_dead_one_has() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    assert_eq!(table.take(1, "dead", bag, 9), "a b");
    let mut effects = Vec::new();
    let relay = table.relays.get_mut(&1).expect("there");
    assert_eq!(relay.leave(table.world.now, "dead", &mut effects), Some(2));
    assert_eq!(relay.leave(table.world.now, "nobody", &mut effects), None);
    table.carry_out(1, effects);
    table.pump();
    assert_eq!(table.take(1, "alive", bag, 9), "a b");
}

#[test]
fn who_has_a_task_that_is_canceled_is_told_when_it_speaks() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    table.take(1, "x", bag, 1);
    let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
    table.world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    table.pump();
    assert_eq!(table.states(bag), "canceled: 2 canceled");
    let own = Which::Task(hq_model::TaskRef::new(bag, TaskId(0)), None);
    assert_eq!(table.end(1, "x", &own, How::Finished(Vec::new())), Err(Refusal::Canceled));
}

#[test]
fn tasks_of_both_kinds_wait_for_each_other() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    table.create(bag, &["b"], &["a"]);
    let after = Dependencies { after: vec![After::of(bag)], ..Dependencies::default() };
    let mut program = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), one_cpu());
    program.dependencies = after.into();
    table.world.submits(program);
    table.world.worker(1, 1);
    assert_eq!(table.take(1, "x", bag, 9), "a");
    assert_eq!(table.finish(1, "x", "a"), Ok(()));
    assert_eq!(table.take(1, "x", bag, 9), "b");
    assert_eq!(table.finish(1, "x", "b"), Ok(()));
    assert_eq!(table.world.sent(1), "", "the bag is open");
    table.world.ask(ClientRequest::CloseJobs { jobs: Selector::Last });
    let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
    table.world.ask(ClientRequest::CloseJobs { jobs });
    assert_eq!(table.world.sent(1), "2:0/0");
}

#[test]
fn tasks_of_one_submit_wait_for_what_each_of_them_names() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    let lists = |lists: &[&[&str]]| {
        let lists = lists.iter().map(|list| list.iter().map(|name| name.as_bytes()));
        NamedEdges::new(lists).expect("few")
    };
    let create = |table: &mut Table, names: &[&str], named: NamedEdges| {
        let mut submit = Submit::new(Target::Open(bag), TaskIds::Next(names.len() as u32), pulled_spec(bag));
        let entries: Vec<Vec<u8>> = names.iter().map(|name| entry_of(name.as_bytes(), b"do it")).collect();
        submit.entries = Entries::new(entries.iter().map(Vec::as_slice)).expect("short");
        submit.keys = Entries::new(names.iter().map(|name| name.as_bytes())).expect("short");
        submit.dependencies = Dependencies { named, ..Dependencies::default() }.into();
        let answer = table.world.answer_to(submit);
        table.pump();
        answer
    };
    let layer =
        |table: &mut Table| create(table, &["c", "d", "e"], lists(&[&["a"], &["b", "a", "b"], &["c", "d"]]));
    assert!(matches!(layer(&mut table), ClientResponse::Submitted { existing, .. } if existing.is_empty()));
    // Once more, it is the same.
    assert!(matches!(layer(&mut table), ClientResponse::Submitted { existing, .. } if existing.len() == 3));
    assert_eq!(table.take(1, "x", bag, 9), "a b");
    assert_eq!(table.finish(1, "x", "a"), Ok(()));
    assert_eq!(table.take(1, "x", bag, 9), "c");
    assert_eq!(table.finish(1, "x", "b"), Ok(()));
    assert_eq!(table.take(1, "x", bag, 9), "d");
    table.wait(2 * crate::limits::REPORT_INTERVAL);
    assert_eq!(table.states(bag), "running: 1 waiting, 2 running, 2 finished");
    // A server that starts again knows the same.
    table.world.restart();
    assert_eq!(table.states(bag), "waiting: 3 waiting, 2 finished");
}

#[test]
fn names_that_cannot_be_waited_for_are_refused() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    let mut refused = |names: &[&str], lists: &[&[&str]]| {
        let mut submit = Submit::new(Target::Open(bag), TaskIds::Next(names.len() as u32), pulled_spec(bag));
        let entries: Vec<Vec<u8>> = names.iter().map(|name| entry_of(name.as_bytes(), b"do it")).collect();
        submit.entries = Entries::new(entries.iter().map(Vec::as_slice)).expect("short");
        submit.keys = Entries::new(names.iter().map(|name| name.as_bytes())).expect("short");
        let lists = lists.iter().map(|list| list.iter().map(|name| name.as_bytes()));
        let named = NamedEdges::new(lists).expect("few");
        submit.dependencies = Dependencies { named, ..Dependencies::default() }.into();
        match table.world.answer_to(submit) {
            ClientResponse::Error(error) => error.code().to_owned(),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(refused(&["b"], &[&["nobody"]]), "no-task");
    assert_eq!(refused(&["b"], &[&["b"]]), "no-task", "itself");
    assert_eq!(refused(&["b", "c"], &[&["c"], &[]]), "no-task", "what comes after it");
    assert_eq!(refused(&["b", "c"], &[&["a"]]), "invalid", "a list is missing");
    assert_eq!(refused(&["a"], &[&["a"]]), "key-taken", "it waited for nothing");
}

#[test]
fn a_task_puts_itself_back_behind_others() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    let (given, _) = table.take_tasks(1, "x", bag, 1);
    table.create(bag, &["b"], &[]);
    let session = table.session(1, "x");
    let relay = table.relays.get_mut(&1).expect("there");
    let (task, instance) = relay.defer(session, &named("a")).expect("taken");
    let after = vec![After { key: Some("b".into()), ..After::of(bag) }];
    let answer = table.world.ask(ClientRequest::Defer { task, instance, after });
    assert_eq!(answer, ClientResponse::Done);
    table.pump();
    assert_eq!(table.take(1, "x", bag, 9), "b");
    assert_eq!(table.finish(1, "x", "b"), Ok(()));
    let (again, _) = table.take_tasks(1, "x", bag, 9);
    assert_eq!(again[0].task, given[0].task);
    assert_ne!(again[0].attempt, given[0].attempt);
}

#[test]
fn what_is_taken_survives_a_server() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b", "c"], &[]);
    let (given, _) = table.take_tasks(1, "x", bag, 2);
    table.world.restart();
    table.world.to_workers.clear();
    let mut effects = Vec::new();
    let relay = table.relays.get_mut(&1).expect("there");
    relay.hear(table.world.now, bag.into(), worker::Input::ServerLost, &mut effects);
    // Accepted while nobody is there, and told when somebody is.
    let session = table.session(1, "x");
    let relay = table.relays.get_mut(&1).expect("there");
    let own = Which::Task(given[0].task, Some(given[0].attempt.clone()));
    let ended = relay.end(table.world.now, session, &own, How::Finished(Vec::new()), &mut effects);
    assert_eq!(ended, Ok(given[0].task));
    assert_eq!(relay.progress(session), (1, 0));
    table.carry_out(1, effects);
    table.found(1, bag.into());
    table.pump();
    assert_eq!(table.relays[&1].progress(session), (1, 1));
    let own = Which::Task(given[1].task, Some(given[1].attempt.clone()));
    assert_eq!(table.end(1, "x", &own, How::Finished(Vec::new())), Ok(()));
    assert_eq!(table.take(1, "x", bag, 9), "c");
    table.wait(2 * crate::limits::REPORT_INTERVAL);
    assert_eq!(table.states(bag), "running: 1 running, 2 finished");
}

// Whose connection is its life says so: what it had is given to others soon after that broke. Whoever takes tasks by commands
// has no connection between them.
#[test]
fn who_has_a_grace_loses_what_it_has_soon_after_its_last_connection_is_gone() {
    let grace = Duration::from_secs(10);
    for (label, has_grace, comes_back, expected) in
        [("run", true, false, "a"), ("run", true, true, "Wait"), ("shell", false, false, "Wait")]
    {
        let mut table = Table::new(1);
        let bag = table.open("dock");
        table.create(bag, &["a"], &[]);
        let relay = table.relays.get_mut(&1).expect("there");
        let session = relay.enter(Some(label), Some(LEASE), has_grace.then_some(grace));
        table.connects(1, session, true);
        assert_eq!(table.take(1, label, bag, 1), "a");
        let held = table.relays[&1].sessions(None).remove(0);
        assert!(held.is_connected && held.tasks.len() == 1 && held.tasks[0].name == b"a");
        assert_eq!(held.tasks[0].until, held.tasks[0].since.after(LEASE));
        table.connects(1, session, false);
        assert!(!table.relays[&1].sessions(None)[0].is_connected);
        table.wait(grace / 2);
        if comes_back {
            table.connects(1, session, true);
        }
        table.wait(grace);
        assert_eq!(table.take(1, "other", bag, 1), expected, "{label} {comes_back}");
    }
}

#[test]
fn what_ends_is_told_together_unless_somebody_waits_for_it() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b", "c", "d"], &[]);
    assert_eq!(table.take(1, "x", bag, 3), "a b c");
    let session = table.session(1, "x");
    table.connects(1, session, true);
    for _ in 0..5 {
        table.wait(crate::limits::REPORT_INTERVAL);
    }
    let progress = |table: &Table| table.relays[&1].progress(session);
    // The first one after a quiet time is told at once.
    assert_eq!(table.finish(1, "x", "a"), Ok(()));
    assert_eq!(progress(&table), (1, 1));
    assert_eq!(table.finish(1, "x", "b"), Ok(()));
    assert_eq!(progress(&table), (2, 1), "`d` waits to be taken: there is no hurry");
    table.world.wait(crate::limits::AWAITED_REPORT_INTERVAL);
    table.pump();
    assert_eq!(progress(&table), (2, 1));
    table.relays.get_mut(&1).expect("there").hurry();
    table.pump();
    assert_eq!(progress(&table), (2, 2));
    assert_eq!(table.finish(1, "x", "c"), Ok(()));
    table.wait(crate::limits::REPORT_INTERVAL);
    assert_eq!(progress(&table), (3, 3));
}

#[test]
fn who_waits_until_all_is_saved_is_told_what_was_lost_with_a_server_that_stayed_away() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    let (given, _) = table.take_tasks(1, "x", bag, 2);
    let session = table.session(1, "x");
    let mut effects = Vec::new();
    let mut now = table.world.now;
    let relay = table.relays.get_mut(&1).expect("there");
    relay.connected(now, session, &mut effects);
    relay.hear(now, bag.into(), worker::Input::ServerLost, &mut effects);
    let own = Which::Task(given[0].task, Some(given[0].attempt.clone()));
    relay.end(now, session, &own, How::Finished(Vec::new()), &mut effects).expect("it has the task");
    relay.settle(now, &mut effects);
    assert!(!relay.has_settled(session, 1), "the server may come back");
    while let Some(at) = relay.next_wakeup(now).filter(|_| !relay.bags().is_empty()) {
        now = at;
        relay.settle(now, &mut effects);
    }
    assert!(relay.has_settled(session, 1));
    assert_eq!(relay.progress(session), (1, 0), "what is lost is not saved");
    assert!(relay.tell_lost(session, 1));
    assert!(!relay.tell_lost(session, 1), "it is told once");
    assert_eq!(relay.progress(session), (1, 1));
}

#[test]
fn a_relay_that_is_gone_for_good_loses_what_it_had() {
    let mut table = Table::new(2);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    let (given, _) = table.take_tasks(1, "x", bag, 1);
    table.cut.push(1);
    table.world.step(Input::WorkerGone { connection: ConnectionId(connection(1, bag)), is_closed: false });
    table.world.wait(Duration::from_secs(3600));
    assert_eq!(table.take(2, "y", bag, 1), "a");
    // It comes back, and what was taken there is of an attempt that is over.
    table.cut.clear();
    let mut effects = Vec::new();
    let relay = table.relays.get_mut(&1).expect("there");
    relay.hear(table.world.now, bag.into(), worker::Input::ServerLost, &mut effects);
    table.found(1, bag.into());
    table.pump();
    let own = Which::Task(given[0].task, Some(given[0].attempt.clone()));
    assert!(table.end(1, "x", &own, How::Finished(Vec::new())).is_err());
    assert_eq!(table.finish(2, "y", "a"), Ok(()));
    assert_eq!(table.states(bag), "opened: 1 finished");
}

#[test]
fn a_relay_where_nobody_asks_keeps_nothing_from_others() {
    let mut table = Table::new(2);
    let bag = table.open("dock");
    let names: Vec<String> = (0..10).map(|number| format!("task-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    table.create(bag, &names, &[]);
    assert_eq!(table.take(1, "x", bag, 4), "task-0 task-1 task-2 task-3");
    table.wait(2 * crate::limits::REPORT_INTERVAL);
    let ahead = table.relays[&1].bags()[0].2;
    assert!(ahead > 0, "some come ahead of those who ask next");
    let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
    let ClientResponse::ExplainedJobs(jobs) = table.world.ask(ClientRequest::ExplainJobs { jobs }) else {
        panic!("explained")
    };
    let texts: Vec<&str> = jobs[0].groups.iter().map(|group| group.reasons[0].text.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("or have just been taken")), "{texts:?}");
    table.wait(Duration::from_secs(2));
    assert_eq!(table.take(2, "y", bag, 10).split(' ').count(), 6, "all others");
    assert_eq!(table.relays[&1].bags(), [(bag, 4, 0)]);
}

#[test]
fn an_explanation_says_how_a_task_is_taken() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    let explain = |table: &mut Table| {
        let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
        match table.world.ask(ClientRequest::ExplainTask { jobs, task: TaskId(0) }) {
            ClientResponse::Explained(told) => told.reasons[0].text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(explain(&mut table), "it waits until somebody takes it, as `hq pull steal --bag 1` does");
    assert_eq!(table.world.states(bag), "waiting: 1 waiting");
    assert_eq!(table.take(1, "x", bag, 1), "a");
    table.wait(Duration::from_secs(3));
    let host = &table.world.server.state().workers.values().next().expect("a relay").config.hostname;
    let told = format!(
        "somebody took it from the relay on {host} 3s ago; `hq pull status 1` there says who, and `hq pull exit WHO` gives it \
         back"
    );
    assert_eq!(explain(&mut table), told);
}

#[test]
fn names_are_checked_as_those_of_pulled_tasks() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let long = "x".repeat(4096);
    let created = table.create(bag, &["1", &long], &[]);
    assert!(matches!(created, ClientResponse::Submitted { .. }), "{created:?}");
    let again = table.create(bag, &["1"], &[]);
    assert!(matches!(again, ClientResponse::Submitted { existing, .. } if existing.len() == 1));
    for bad in ["", "a\nb", "a\0b"] {
        let refused = table.create(bag, &[bad], &[]);
        assert!(matches!(refused, ClientResponse::Error(_)), "{bad:?}");
    }
}

#[test]
fn what_is_to_have_ended_by_now_is_given_to_nobody() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let within = hq_model::task::EndBy::Within(Duration::from_secs(10));
    table.create_as(bag, &["a", "b"], &[], |spec| spec.end_by = Some(within));
    assert_eq!(table.take(1, "x", bag, 1), "a");
    table.wait(Duration::from_secs(11));
    assert_eq!(table.states(bag), "running: 1 running, 1 canceled");
    assert_eq!(table.take(1, "x", bag, 1), "Wait");
    assert_eq!(table.finish(1, "x", "a"), Ok(()), "what is taken may be late");
}
