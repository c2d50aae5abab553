//! Readers that cannot reach a holder, which is told who waits for it at the server.

use hq_model::WorkerId;

use super::*;

// What becomes of a reader that waits for the worker of connection 1.
fn asks(world: &mut World, ticket: u64) -> String {
    world.sent(1);
    world.step(Input::Relay { ticket, holder: WorkerId(1) });
    let said = std::mem::take(&mut world.not_relayed);
    [vec![world.sent(1)], said].concat().join("")
}

#[test]
fn a_holder_is_told_who_waits_or_the_reader_why_nobody_comes() {
    let mut world = World::new();
    assert_eq!(asks(&mut world, 1), "1: worker 1 is not there any more");
    world.worker(1, 1);
    assert_eq!(asks(&mut world, 2), "relay 2");
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    assert_eq!(asks(&mut world, 3), "3: worker 1 has lost the server");
}

#[test]
fn a_holder_that_does_not_understand_is_told_nothing() {
    for (stores, why) in
        [(true, "is of an earlier release, which does not relay"), (false, "stores no objects")]
    {
        let mut world = World::new();
        world.worker_saying(1, 1, |hello| (hello.stores, hello.relays) = (stores, false));
        assert_eq!(asks(&mut world, 1), format!("1: worker 1 {why}"));
    }
}
