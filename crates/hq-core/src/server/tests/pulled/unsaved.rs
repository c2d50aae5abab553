//! Pulled tasks while the journal cannot be written: what was said of them counts once, whenever it is saved.

use super::*;

impl Table {
    // The session is told that what it said is not saved yet.
    fn is_not_saved(&mut self, label: &str) {
        let session = self.session(1, label);
        assert!(!self.relays[&1].has_settled(session, self.relays[&1].progress(session).0));
        self.relays.get_mut(&1).expect("there").may_repeat(session);
    }

    // Its connection to the server is lost and made anew.
    fn reconnects(&mut self, bag: JobId) {
        let gone = Input::WorkerGone { connection: ConnectionId(connection(1, bag)), is_closed: false };
        self.world.step(gone);
        let relay = self.relays.get_mut(&1).expect("there");
        relay.hear(self.world.now, bag.into(), worker::Input::ServerLost, &mut Vec::new());
        self.found(1, bag.into());
        self.pump();
    }

    fn progress(&mut self, label: &str) -> (u64, u64) {
        let session = self.session(1, label);
        self.relays[&1].progress(session)
    }
}

#[test]
fn what_did_not_become_saved_in_time_may_be_said_again_and_counts_once() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let retry = Retry { max: 1, ..Retry::default() };
    table.create_as(bag, &["a", "b"], &[], |spec| spec.retry = retry.clone());
    let (given, _) = table.take_tasks(1, "x", bag, 2);
    let [a, b] = [0, 1].map(|at: usize| Which::Task(given[at].task, Some(given[at].attempt.clone())));
    // Nothing that is saved is heard.
    table.cut.push(1);
    assert_eq!(table.end(1, "x", &a, How::Finished(b"good".to_vec())), Ok(()));
    assert_eq!(table.end(1, "x", &b, How::Failed("oh".into())), Ok(()));
    assert_eq!(table.finish(1, "x", "a"), Err(Refusal::NotHeld), "nobody was told that it may be said again");
    table.is_not_saved("x");
    for _ in 0..2 {
        assert_eq!(table.end(1, "x", &a, How::Finished(Vec::new())), Ok(()));
        assert_eq!(table.finish(1, "x", "a"), Ok(()));
        assert_eq!(table.end(1, "x", &named("b"), How::Failed(String::new())), Ok(()));
    }
    assert_eq!(table.progress("x"), (2, 0), "it counts once");
    assert_eq!(table.finish(1, "y", "a"), Err(Refusal::NotHeld), "another one did not say it");
    assert_eq!(table.finish(1, "x", "b"), Err(Refusal::NotHeld), "nor was that said");
    assert_eq!(table.end(1, "x", &named("a"), How::Released), Err(Refusal::NotHeld));
    let other = Which::Task(given[0].task, Some("0.9".into()));
    assert_eq!(table.end(1, "x", &other, How::Finished(Vec::new())), Err(Refusal::NotHeld));

    // It is saved, and may be said once more by who does not know that.
    table.cut.clear();
    table.reconnects(bag);
    assert_eq!(table.states(bag), "waiting: 1 waiting, 1 finished");
    assert_eq!(table.finish(1, "x", "a"), Ok(()));
    assert_eq!(table.progress("x"), (0, 0), "all of it is saved, and the session has ended");
    // The task is there anew: now that is meant.
    assert_eq!(table.take(1, "y", bag, 1), "b");
    assert_eq!(table.end(1, "x", &named("b"), How::Failed(String::new())), Err(held_by(bag, 1, "y")));
    assert_eq!(table.finish(1, "y", "b"), Ok(()));
    assert_eq!(table.end(1, "x", &named("b"), How::Failed(String::new())), Err(Refusal::NotHeld));
    assert_eq!(table.states(bag), "opened: 2 finished");
}

#[test]
fn while_the_journal_cannot_be_written_nothing_is_given_and_then_the_same_session_goes_on() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a", "b"], &[]);
    assert_eq!(table.take(1, "x", bag, 1), "a");
    table.world.step(Input::JournalFails { error: "no space".into() });
    let ClientResponse::Error(error) = table.create(bag, &["c"], &[]) else { panic!("refused") };
    assert_eq!(error.code(), "read-only");
    assert_eq!(table.finish(1, "x", "a"), Ok(()), "the relay keeps it");
    let session = table.session(1, "x");
    let (now, mut effects) = (table.world.now, Vec::new());
    let relay = table.relays.get_mut(&1).expect("there");
    relay.ask(now, AskId(99), session, (vec![bag.into()], 5), Duration::from_secs(60), &mut effects);
    table.carry_out(1, effects);
    table.pump();
    table.wait(Duration::from_secs(30));
    let held = table.given.get(&AskId(99)).map(|given| given.0.len()).unwrap_or_default();
    table.world.step(Input::JournalWorks);
    table.pump();
    let (given, _) = table.given.remove(&AskId(99)).expect("an answer");
    assert_eq!((held, given.len(), &given[0].name[..]), (0, 1, &b"b"[..]));
    assert_eq!(table.finish(1, "x", "b"), Ok(()));
    assert_eq!(table.states(bag), "opened: 2 finished");
}

#[test]
fn what_ends_at_a_relay_that_was_given_up_meanwhile_is_lost_and_not_saved() {
    let mut table = Table::new(2);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    let (given, _) = table.take_tasks(1, "x", bag, 1);
    let session = table.session(1, "x");
    table.connects(1, session, true);
    // It was stopped for a while, and knows nothing of that.
    table.cut.push(1);
    table.world.step(Input::WorkerGone { connection: ConnectionId(connection(1, bag)), is_closed: false });
    table.world.wait(LEASE - Duration::from_secs(1));
    let own = Which::Task(given[0].task, Some(given[0].attempt.clone()));
    assert_eq!(table.end(1, "x", &own, How::Finished(b"first".to_vec())), Ok(()));
    table.cut.clear();
    table.reconnects(bag);
    assert_eq!(table.progress("x"), (1, 0));
    assert!(table.relays.get_mut(&1).expect("there").tell_lost(session, 1));
    assert_eq!(table.take(2, "y", bag, 1), "a");
    assert_eq!(table.finish(2, "y", "a"), Ok(()));
    assert_eq!(table.states(bag), "opened: 1 finished");
}
