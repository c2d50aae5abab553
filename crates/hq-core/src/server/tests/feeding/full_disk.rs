//! Fed jobs while the journal cannot be written.

use super::*;
use crate::server::Gate;

#[test]
fn who_feeds_a_job_is_told_nothing_that_is_not_on_disk() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    let gate = |world: &mut World, order: FeedOrder| {
        let by = TaskRef::new(GENERATOR, TaskId(0));
        let body = ClientRequest::Feed(Box::new(FeedRequest { by, instance: Instance(0), order }));
        let mut effects = Vec::new();
        world.server.handle(world.now, Input::Client { connection: CLIENT, request: 1, body }, &mut effects);
        effects.iter().find_map(|effect| match effect {
            Effect::Answer { gate, .. } => Some(*gate),
            _ => None,
        })
    };
    world.step(Input::JournalFails { error: "no space".into() });
    for order in [FeedOrder::Look, FeedOrder::AwaitRoom { below: 5 }] {
        assert_eq!(gate(&mut world, order), Some(Gate::Synced), "it goes on from what it is told");
    }
    assert_eq!(gate(&mut world, add(1, &["b"], None)), Some(Gate::Shown), "it is refused at once");
}

#[test]
fn a_job_whose_reducer_ends_while_the_journal_is_full_is_over_when_it_works() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    world.fed_state(GENERATOR, last(1));
    world.reports(2, |r| r.finished = vec![finished(GENERATOR, 0, 0, 0)]);
    world.fed_tasks_end(0, 0, "one");
    world.fed_state(REDUCER, save("0", ""));
    world.step(Input::JournalFails { error: "no space".into() });
    world.reports(2, |r| r.finished = vec![finished(REDUCER, 0, 0, 0)]);
    world.step(Input::JournalWorks);
    assert_eq!(world.states(JOB), "finished: 1 finished");
}
