//! Entries of lines whose tasks have finished: what lies there is bounded.

use super::*;
use crate::client_messages::TaskInfo;

const LINES: [&str; 8] = ["line 0", "line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "line 7"];

// Eight lines that run, of two submits, and a bound that is less than any of them takes.
fn bounded() -> World {
    let mut world = fed();
    world.server.options.ended_entries_bytes_max = 4;
    world.fed_state(GENERATOR, add(0, &LINES[..4], None));
    world.fed_state(GENERATOR, add(4, &LINES[4..], None));
    world
}

impl World {
    // Tasks whose entries are gone, and the entries of the others.
    fn entries(&mut self) -> (String, Vec<String>) {
        let ids = IdSet::range(0, 7);
        let state = self.fed_state(GENERATOR, FeedOrder::Entries { ids: ids.clone() });
        assert_eq!(state.entries.len() as u64, ids.len());
        let left =
            ids.iter().zip(state.entries.iter()).filter(|(task, _)| !state.entries_gone.contains(*task));
        let left = left.map(|(_, entry)| String::from_utf8_lossy(entry).into_owned());
        (state.entries_gone.to_string(), left.collect())
    }

    fn line_ends(&mut self, task: u32) {
        self.reports(2, |r| r.finished = vec![finished(JOB, task, task, 0)]);
    }
}

fn shown(world: &mut World, task: u32) -> TaskInfo {
    let request = ClientRequest::ListTasks {
        jobs: Selector::Ids(IdSet::single(TaskId(JOB.0))),
        tasks: Some(IdSet::single(TaskId(task))),
        states: Vec::new(),
        after: None,
        limit: 10,
        grouped: false,
        with_entries: true,
    };
    match world.ask(request) {
        ClientResponse::Tasks { mut tasks, .. } => tasks.remove(0).1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_is_kept_until_its_task_has_finished_and_its_reducer_knows() {
    let mut world = bounded();
    for task in 0..8 {
        world.line_ends(task);
    }
    assert_eq!(world.entries().0, "", "no reducer has acknowledged them");
    world.fed_state(REDUCER, save("0", "one"));
    assert_eq!(world.entries().0, "", "it is a small part of its submit");
    world.fed_state(REDUCER, save("2,5", "three"));
    assert_eq!(world.entries(), ("0,2".into(), [1, 3, 4, 5, 6, 7].map(|line| LINES[line].into()).to_vec()));
    world.restart();
    world.server.options.ended_entries_bytes_max = 4;
    assert_eq!(world.entries().0, "0,2");
    world.worker(6, 1);
    assert_eq!(world.server.check_recount(), Ok(()));
    assert!(shown(&mut world, 0).entry_gone && shown(&mut world, 0).entry.is_none());
    assert_eq!(shown(&mut world, 1).entry.as_deref(), Some(LINES[1].as_bytes()));
}

#[test]
fn what_failed_or_waits_keeps_its_entry() {
    let mut world = bounded();
    world.line_ends(0);
    world.line_ends(1);
    world.line_ends(3);
    world.reports(2, |r| r.failed = vec![(JOB, failed(2, 0, 1))]);
    world.fed_state(REDUCER, save("0-3", "four"));
    assert_eq!(world.entries(), ("0-1,3".into(), [2, 4, 5, 6, 7].map(|line| LINES[line].into()).to_vec()));
}

#[test]
fn the_oldest_entries_go_first_and_some_are_left() {
    let mut world = bounded();
    world.server.options.ended_entries_bytes_max = 60;
    for task in 0..8 {
        world.line_ends(task);
    }
    world.fed_state(REDUCER, save("0-4", "five"));
    assert_eq!(world.entries().0, "", "there is room for them");
    world.fed_state(REDUCER, save("5-7", "eight"));
    assert_eq!(world.entries().0, "0-3");
}

#[test]
fn where_files_are_named_after_entries_they_stay() {
    let mut world = fed();
    world.server.options.ended_entries_bytes_max = 4;
    let spec = TaskSpec { outputs: vec![b"%{ENTRY}.txt".to_vec()], ..one_cpu() };
    let submits = vec![Submit { spec: spec.into(), ..lines(&["a", "b"]) }];
    world.fed_state(GENERATOR, FeedOrder::Add { at: 0, submits, cursor: None, is_last: false });
    world.fed_tasks_end(0, 1, "done");
    world.fed_state(REDUCER, save("0-1", "two"));
    let entries = world.fed_state(GENERATOR, FeedOrder::Entries { ids: IdSet::range(0, 1) }).entries;
    assert_eq!(entries.iter().collect::<Vec<_>>(), [b"a", b"b"]);
}
