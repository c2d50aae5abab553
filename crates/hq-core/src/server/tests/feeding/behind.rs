//! Jobs that wait for a fed job as a whole.

use hq_model::dependency::{After, Condition, Edges};

use super::*;

#[test]
fn what_waits_for_a_job_hears_that_its_reducer_failed_after_it_had_enough() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a", "b"], None));
    let [well, anyhow] = [Condition::Success, Condition::AnyEnd].map(|condition| {
        let after = vec![After { condition, ..After::of(JOB) }];
        world.graph(1, after, Edges::default()).expect("a job")
    });
    let order = FeedOrder::Save { ids: IdSet::new(), state: None, is_enough: true };
    world.fed_state(REDUCER, order);
    assert_eq!(world.states(well), "waiting: 1 waiting");
    // What nobody wanted any more was canceled; then the result itself is lost.
    world.reports(2, |r| r.failed = vec![(REDUCER, failed(0, 0, 3))]);
    world.ask(ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(JOB.0))) });
    assert_eq!(world.states(well), "aborted: 1 aborted");
    assert_eq!(world.states(anyhow), "waiting: 1 waiting");
    assert!(world.sent(2).contains(&format!("{anyhow}:0/0")), "it can run");
}
