//! What tasks say to whoever waits for their jobs.

use hq_model::{ByteString, TaskRef};

use super::*;
use crate::limits::{UNHEARD_BYTES_MAX, UNHEARD_TIME_MAX};
use crate::worker_messages::TaskWords;

impl World {
    // What clients hear of it.
    fn is_told(&mut self, number: u64, job: JobId, text: &str) -> Vec<String> {
        let task = TaskRef::new(job, TaskId(0));
        let words = TaskWords { task, instance: Instance(1), text: text.into() };
        let report = Report { number, words: vec![words], ..Report::default() };
        let message = FromWorker::Report(report);
        heard(self.step(Input::Worker { connection: ConnectionId(2), message }))
    }

    fn watches(&mut self, connection: u64, job: JobId, notifications: bool) -> Vec<String> {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        let body = ClientRequest::WatchJobs { jobs, until_closed: false, notifications };
        heard(self.step(Input::Client { connection: ConnectionId(connection), request: 9, body }))
    }
}

fn heard(answers: Vec<ClientResponse>) -> Vec<String> {
    let text = |text: ByteString| String::from_utf8_lossy(&text).into_owned();
    let words = answers.into_iter().filter_map(|answer| match answer {
        ClientResponse::Notification { task, instance, text: words, .. } => {
            Some(format!("{task}/{instance} {}", text(words)))
        }
        _ => None,
    });
    words.collect()
}

const NOBODY: [&str; 0] = [];

#[test]
fn words_are_told_to_those_who_asked_for_them_and_a_repeated_report_is_not() {
    let mut world = World::new();
    world.worker(2, 1);
    let (job, other) = (world.submit(1, |_| {}), world.submit(1, |_| {}));
    assert_eq!(world.watches(5, job, true), NOBODY);
    assert_eq!(world.watches(6, job, false), NOBODY);
    assert_eq!(world.watches(7, other, true), NOBODY);
    assert_eq!(world.is_told(1, job, "half"), ["1@0/1 half"]);
    assert_eq!(world.is_told(1, job, "half"), NOBODY, "the same report, over another connection");
    assert_eq!(world.watches(8, job, true), NOBODY, "it was heard");
}

#[test]
fn what_nobody_hears_is_kept_a_while_for_who_comes_back() {
    let mut world = World::new();
    world.worker(2, 1);
    let (job, other) = (world.submit(1, |_| {}), world.submit(1, |_| {}));
    for (number, job) in [(1, job), (2, other), (3, job)] {
        assert_eq!(world.is_told(number, job, &format!("word {number}")), NOBODY);
    }
    assert_eq!(world.watches(5, job, false), NOBODY, "it does not want them");
    assert_eq!(world.watches(6, job, true), ["1@0/1 word 1", "1@0/1 word 3"]);
    assert_eq!(world.watches(7, job, true), NOBODY, "once");
    world.wait(UNHEARD_TIME_MAX);
    assert_eq!(world.watches(8, other, true), NOBODY, "not for ever");
}

#[test]
fn the_oldest_of_what_nobody_hears_is_dropped_when_there_is_no_room() {
    let mut world = World::new();
    world.worker(2, 1);
    let job = world.submit(1, |_| {});
    let long = "x".repeat(UNHEARD_BYTES_MAX / 3);
    for number in 1..=4 {
        world.is_told(number, job, &format!("{number} {long}"));
    }
    let told = world.watches(6, job, true);
    assert_eq!(told.iter().map(|words| &words[..8]).collect::<Vec<_>>(), ["1@0/1 3 ", "1@0/1 4 "]);
}
