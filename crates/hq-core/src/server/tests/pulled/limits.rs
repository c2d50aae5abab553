//! Pulled tasks that are ended from outside.

use super::*;

const WALL: Duration = Duration::from_secs(7);

#[test]
fn a_task_over_its_time_limit_was_taken_for_that_long() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create_as(bag, &["a"], &[], |spec| spec.time_limit = Some(WALL));
    assert_eq!(table.take(1, "x", bag, 1), "a");
    table.wait(WALL + Duration::from_secs(2));
    assert_eq!(table.states(bag), "failed: 1 failed");
    let request = ClientRequest::ListTasks {
        jobs: Selector::Ids(IdSet::single(TaskId(bag.0))),
        tasks: None,
        states: Vec::new(),
        after: None,
        limit: 9,
        grouped: false,
        with_entries: false,
    };
    let ClientResponse::Tasks { tasks, .. } = table.world.ask(request) else { panic!("tasks") };
    let [(_, task)] = &tasks[..] else { panic!("{tasks:?}") };
    let (started, ended) = (task.started.expect("it was taken"), task.ended.expect("it has ended"));
    let took = ended.since(started);
    assert!((WALL..WALL + Duration::from_secs(1)).contains(&took), "{took:?}");
}
