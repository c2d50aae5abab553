//! Lists of objects.

use hq_model::{ObjectId, WorkerId};

use super::objects::{leaves, lost, object, stored, takes};
use super::*;
use crate::limits::{HOLDERS_LISTED_MAX, HOLDERS_SHOWN_MAX, OBJECTS_LOOKED_MAX, OBJECTS_PAGE};
use crate::object_messages::{ObjectPage, ObjectPhase, ObjectRequest, ObjectState, ObjectView};

impl World {
    fn page(&mut self, jobs: Selector, phases: &[ObjectPhase], after: Option<ObjectId>) -> ObjectPage {
        let phases = phases.to_vec();
        let list = ObjectRequest::List { jobs, phases, after };
        match self.ask(ClientRequest::Objects(list)) {
            ClientResponse::Objects(page) => *page,
            other => panic!("{other:?}"),
        }
    }

    // All pages, and how many these are.
    fn list(&mut self, jobs: &Selector, phases: &[ObjectPhase]) -> (Vec<ObjectView>, usize) {
        let (mut all, mut pages, mut after) = (Vec::new(), 0, None);
        loop {
            let page = self.page(jobs.clone(), phases, after);
            pages += 1;
            all.extend(page.objects);
            match page.next {
                Some(next) => after = Some(next),
                None => return (all, pages),
            }
        }
    }

    fn listed(&mut self, jobs: &Selector, phases: &[ObjectPhase]) -> String {
        let (all, _) = self.list(jobs, phases);
        let words = |view: &ObjectView| format!("{} {}", view.copy.object, view.state.phase().word());
        all.iter().map(words).collect::<Vec<_>>().join(", ")
    }

    fn info(&mut self, text: &str) -> ObjectView {
        match self.ask(ClientRequest::Objects(ObjectRequest::Info(object(text)))) {
            ClientResponse::Objects(mut page) => page.objects.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&mut self, request: ObjectRequest) -> String {
        match self.ask(ClientRequest::Objects(request)) {
            ClientResponse::Error(error) => format!("{}: {error}", error.code()),
            other => panic!("{other:?}"),
        }
    }
}

fn several(spec: &mut TaskSpec) {
    spec.output_objects = ["b=x", "a=y"].iter().map(|text| text.parse().expect("an object")).collect();
}

#[test]
fn objects_are_listed_in_order_by_phase_and_job() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(3, leaves);
    world.submit(1, |_| {});
    world.submit(1, several);
    world.leaves_object(1, 0, 0);
    world.leaves_object(1, 1, 0);
    world.reports(1, |report| {
        report.objects = lost("1@1:parts");
    });
    let all = "1@0:parts stored, 1@1:parts lost, 1@2:parts awaited, 3@0:a awaited, 3@0:b awaited";
    assert_eq!(world.listed(&Selector::All, &[]), all);
    assert_eq!(world.listed(&Selector::Last, &[]), "3@0:a awaited, 3@0:b awaited");
    let ids = Selector::Ids(IdSet::range(1, 2));
    assert_eq!(
        world.listed(&ids, &[ObjectPhase::Stored, ObjectPhase::Lost]),
        "1@0:parts stored, 1@1:parts lost"
    );
    let unknown =
        ObjectRequest::List { jobs: Selector::Ids(IdSet::range(7, 7)), phases: Vec::new(), after: None };
    assert_eq!(world.refusal(unknown), "no-job: Job 7 not found.");
}

#[test]
fn what_a_failed_task_was_to_leave_is_gone() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.submit(1, leaves);
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert_eq!(world.states(job), "canceled: 1 canceled");
    let ObjectState::Gone(why) = world.info("1@0:parts").state else { panic!("gone") };
    let text = "task 1@0 was canceled, and left nothing".to_owned();
    assert_eq!(why, crate::object_messages::ObjectEnd::Lost(text));
}

#[test]
fn pages_go_on_where_the_one_before_ended() {
    let mut world = World::new();
    let count = 2 * OBJECTS_PAGE as u32 + 500;
    world.submit(count, several);
    let (all, pages) = world.list(&Selector::All, &[]);
    assert_eq!((all.len(), pages), (2 * count as usize, 5));
    assert!(all.is_sorted_by(|a, b| a.copy.object < b.copy.object));
    // The last job was another one at the first page.
    let first = world.page(Selector::Last, &[], None);
    world.submit(1, several);
    let next = world.page(Selector::Last, &[], first.next);
    assert_eq!(next.objects[0].copy.object, object("1@500:a"));
}

#[test]
fn a_page_looks_at_so_many_objects_at_most() {
    let mut world = World::new();
    world.submit(2 * OBJECTS_LOOKED_MAX as u32 + 1, leaves);
    let gone = &[ObjectPhase::Gone];
    let page = world.page(Selector::All, gone, None);
    let last = format!("1@{}:parts", OBJECTS_LOOKED_MAX - 1);
    assert_eq!((page.objects.len(), page.next), (0, Some(object(&last))));
    assert_eq!(world.list(&Selector::All, gone), (Vec::new(), 3));
}

#[test]
fn copies_and_readers_are_counted_and_some_of_them_are_told() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    for connection in 2..=HOLDERS_SHOWN_MAX as u64 + 6 {
        world.worker(connection, 1);
        world.reports(connection, |report| {
            report.objects = stored("1@0:parts", 0);
        });
    }
    for _ in 0..2 {
        world.submit(1, |spec| {
            takes("in=1@0:parts")(spec);
            spec.requests = vec![cpus(2)];
        });
    }
    let info = world.info("1@0:parts");
    assert_eq!((info.copies, info.holders.len()), (HOLDERS_SHOWN_MAX as u64 + 6, HOLDERS_SHOWN_MAX));
    assert_eq!((info.reader_count, info.readers), (2, vec![JobId(2), JobId(3)]));
    let (listed, _) = world.list(&Selector::All, &[]);
    assert_eq!(listed[0].holders.len(), HOLDERS_LISTED_MAX);
    let request = ClientRequest::ListWorkers {
        workers: Selector::Ids(IdSet::range(1, 1)),
        filter: crate::client_messages::WorkerFilter::All,
    };
    let ClientResponse::Workers(workers) = world.ask(request) else { panic!("workers") };
    assert_eq!((workers[0].objects.count, workers[0].objects.bytes), (1, 7));
    assert_eq!(workers[0].worker, WorkerId(1));
}

#[test]
fn what_cannot_be_done_is_refused_in_words() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(2, leaves);
    world.submit(1, |_| {});
    let keep = |text: &str| ObjectRequest::Keep(vec![object(text)]);
    let dropped = |text: &str| ObjectRequest::Drop(vec![object(text), object(text)]);
    assert_eq!(world.refusal(keep("9@0:x")), "no-job: Job 9 not found.");
    assert_eq!(world.refusal(keep("1@9:parts")), "no-task: Task 9 not found in job 1.");
    let text = "no-object: Task 1@0 leaves no object `x`. It leaves parts.";
    assert_eq!(world.refusal(keep("1@0:x")), text);
    let text = "no-object: Task 2@0 leaves no object `x`, nor any other: --output-object of `hq submit` makes tasks \
                leave some.";
    assert_eq!(world.refusal(dropped("2@0:x")), text);
    let text = "not-stored: Object 1@0:parts is not there yet: task 1@0 has not finished. `hq job wait 1` waits until \
                it has.";
    assert_eq!(world.refusal(dropped("1@0:parts")), text);
    world.leaves_object(1, 0, 0);
    assert_eq!(world.ask(ClientRequest::Objects(dropped("1@0:parts"))), ClientResponse::Done);
    let text = "not-stored: Object 1@0:parts is gone: it was dropped.";
    assert_eq!(world.refusal(dropped("1@0:parts")), text);
    assert_eq!(world.refusal(keep("1@0:parts")), text);
}
