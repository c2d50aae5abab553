//! Services: those that wait for them start when they are ready, and are told what they said.

use hq_model::TaskRef;
use hq_model::dependency::Edges;

use super::*;

impl World {
    fn ready(&mut self, job: u32, task: u32, text: &str) -> String {
        let task = TaskRef::new(JobId(job), TaskId(task));
        let text = text.as_bytes().to_vec();
        match self.ask(ClientRequest::Ready { task, instance: Instance(0), text }) {
            ClientResponse::Done => "done".into(),
            ClientResponse::Error(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    // What tasks that were sent are told, by task.
    fn told(&mut self) -> String {
        let mut words = Vec::new();
        for (_, message) in self.to_workers.drain(..) {
            let ToWorker::Run(batches) = message else { continue };
            for batch in batches {
                let said = batch.services.iter().map(|(key, text)| {
                    format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(text))
                });
                let said = said.collect::<Vec<_>>().join(",");
                words.push(format!("{}:{} [{said}]", batch.template.job, batch.ids));
            }
        }
        words.join(" ")
    }
}

fn with_service(change: impl FnOnce(&mut Submit)) -> World {
    let mut world = World::new();
    world.worker(1, 8);
    world.open();
    let submit = super::keys::named(&["db"], |submit| {
        Arc::make_mut(&mut submit.spec).service = true;
        change(submit);
    });
    world.answer_to(submit);
    world.told();
    world
}

#[test]
fn those_that_wait_start_when_it_is_ready() {
    let mut world = with_service(|_| {});
    world.graph(2, vec!["1@db".parse().expect("a task")], Edges::default()).expect("accepted");
    assert_eq!(world.told(), "");
    assert_eq!(world.ready(1, 0, "host:1"), "done");
    assert_eq!(world.told(), "2:0-1 [db=host:1]");
    world.graph(1, vec!["1@db".parse().expect("a task")], Edges::default()).expect("accepted");
    assert_eq!(world.told(), "3:0 [db=host:1]", "one that comes later starts at once");
    assert_eq!(world.ready(1, 0, "host:2"), "done");
    world.graph(1, vec!["1@db".parse().expect("a task")], Edges::default()).expect("accepted");
    assert_eq!(world.told(), "4:0 [db=host:2]");
}

#[test]
fn its_end_is_nothing_to_those_that_waited_for_it_to_be_ready() {
    let mut world = with_service(|_| {});
    world.submit(1, |_| {});
    let both = vec!["1@db".parse().expect("a task"), "2".parse().expect("a job")];
    world.graph(1, both, Edges::default()).expect("accepted");
    assert_eq!(world.ready(1, 0, ""), "done");
    world.reports(1, |report| report.failed.push((JobId(1), failed(0, 0, 1))));
    assert_eq!(world.states(JobId(3)), "waiting: 1 waiting");
    world.reports(1, |report| report.finished.push(finished(JobId(2), 0, 0, 0)));
    assert!(world.told().ends_with("3:0 [db=]"));
}

#[test]
fn one_that_fails_before_it_is_ready_takes_them_along() {
    let mut world = with_service(|_| {});
    world.graph(1, vec!["1@db".parse().expect("a task")], Edges::default()).expect("accepted");
    world.reports(1, |report| report.failed.push((JobId(1), failed(0, 0, 1))));
    assert_eq!(world.states(JobId(2)), "aborted: 1 aborted");
}

#[test]
fn only_a_running_service_is_ready() {
    let mut world = with_service(|submit| Arc::make_mut(&mut submit.spec).service = false);
    assert_eq!(world.ready(1, 0, ""), "Task 1@0 is no service; --service makes one of it.");
    let mut world = with_service(|_| {});
    let long = "x".repeat(1025);
    assert_eq!(world.ready(1, 0, &long), "What a service says is a text of 1024 bytes at most.");
    world.reports(1, |report| report.finished.push(finished(JobId(1), 0, 0, 0)));
    assert!(world.ready(1, 0, "").contains("does not run as instance 0 any more: it is finished"));
}

#[test]
fn tasks_of_a_graph_are_told_of_their_own_services() {
    let mut world = with_service(|_| {});
    assert_eq!(world.ready(1, 0, "here"), "done");
    let submit = super::keys::named(&["with", "without"], |submit| {
        let edges = Edges::new([vec![TaskId(0)], vec![]]).expect("few");
        submit.dependencies = hq_model::Dependencies { edges, ..Default::default() }.into();
    });
    world.answer_to(submit);
    assert_eq!(world.told(), "1:2 [] 1:1 [db=here]");
}
