//! Payloads of tasks that have finished: what lies there is bounded.

use super::*;

fn resubmit(table: &mut Table, bag: JobId, states: Vec<TaskState>) -> ClientResponse {
    table.world.key += 1;
    let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
    table.world.ask(ClientRequest::Resubmit { key: table.world.key, jobs, tasks: None, states })
}

#[test]
fn a_task_that_has_finished_loses_its_payload_and_is_known_by_its_name() {
    let mut table = Table::new(1);
    table.world.server.options.ended_entries_bytes_max = 4;
    let bag = table.open("dock");
    table.create(bag, &["a", "b", "c"], &[]);
    assert_eq!(table.take(1, "x", bag, 3), "a b c");
    table.finish(1, "x", "a").expect("taken");
    table.end(1, "x", &named("b"), How::Failed("no".into())).expect("taken");
    table.finish(1, "x", "c").expect("taken");
    let gone = |table: &Table| table.world.server.state().jobs[&bag].submits[0].entries_gone.to_string();
    assert_eq!(gone(&table), "0,2", "what failed has it still");
    let ClientResponse::Submitted { ids, existing, .. } = table.create(bag, &["a"], &[]) else {
        panic!("submitted")
    };
    assert_eq!((ids, existing.len()), (IdSet::new(), 1));
    let ClientResponse::Error(refused) = resubmit(&mut table, bag, vec![TaskState::Finished]) else {
        panic!("its payload is gone")
    };
    let expected = "The payload of task 0 of job 1 is not kept any more (2 of 2 chosen tasks)";
    assert!(refused.to_string().contains(expected), "{refused}");
    let ClientResponse::Submitted { job, .. } = resubmit(&mut table, bag, Vec::new()) else {
        panic!("a job")
    };
    let (again, _) = table.take_tasks(1, "x", job, 3);
    assert_eq!((again.len(), &again[0].name[..], &again[0].payload[..]), (1, &b"b"[..], &b"do it"[..]));
    table.world.restart();
    assert_eq!(gone(&table), "0,2");
}
