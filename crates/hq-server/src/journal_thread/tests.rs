//! What the journal thread writes, and when it lets answers go, over a log that notes what it does.

use hq_core::worker_messages::ToWorker;
use hq_model::JobId;
use hq_net::queue::QueueReceiver;

use super::*;

/// A log that fails as often as it is told to and notes what it does.
#[derive(Default)]
struct Paper {
    done: Vec<String>,
    failing_writes: u32,
    failing_syncs: u32,
    has_made_room: bool,
}

impl Log for Paper {
    fn append(&mut self, at: Timestamp, _: &Record) -> u64 {
        self.done.push(format!("append {}", at.0));
        at.0
    }
    fn write(&mut self) -> Result<(), String> {
        if self.failing_writes > 0 {
            self.failing_writes -= 1;
            return Err("no space left on device".to_owned());
        }
        self.done.push("write".to_owned());
        Ok(())
    }
    fn sync(&mut self) -> Result<(), String> {
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            return Err("input/output error".to_owned());
        }
        self.done.push("sync".to_owned());
        Ok(())
    }
    fn flush(&mut self) -> Result<(), String> {
        self.sync()
    }
    fn make_room(&mut self) {
        self.has_made_room = true;
    }
    fn tend(&mut self, _: &Arc<JournalQueue>) {}
    fn compact(&mut self, reply: Reply, _: &Arc<JournalQueue>) {
        self.done.push("compact".to_owned());
        reply.done(Ok(()));
    }
    fn send_past(
        &mut self,
        _: Reply,
        _: (u64, EventFilter),
        has_past: Option<Arc<AtomicBool>>,
        _: &Arc<JournalQueue>,
    ) {
        self.done.push("past".to_owned());
        if let Some(has_past) = has_past {
            has_past.store(true, std::sync::atomic::Ordering::Release);
        }
    }
}

struct Table {
    thread: JournalThread<Paper>,
    outbox: Arc<Outbox>,
    queue: QueueReceiver<Message>,
}

impl Table {
    fn new(log: Paper) -> Table {
        let (outbox, queue) = Outbox::new("peer".to_owned(), 1 << 20, Arc::default());
        let thread = JournalThread::new(log, Arc::default(), Box::new(|_| {}));
        Table { thread, outbox: Arc::new(outbox), queue }
    }

    fn send(&self, message: Message, gate: Gate) -> Step {
        self.outbox.hold(&message);
        Step::Send(self.outbox.clone(), message, gate)
    }

    fn turn(&mut self, mut steps: Vec<Step>) -> Next {
        self.thread.turn(&mut steps)
    }

    // What has left so far, in order.
    fn left(&mut self) -> Vec<String> {
        let left = std::iter::from_fn(|| self.queue.try_recv());
        let text = |message| match message {
            Message::Answer(request, ClientResponse::Partly { refused, .. }) => {
                format!("answer {request}, but: {}", refused[0])
            }
            Message::Answer(request, _) => format!("answer {request}"),
            Message::Worker(ToWorker::Saved { report }) => format!("saved {report}"),
            Message::Worker(_) => "worker".to_owned(),
            Message::OnLine(line, _) => format!("line {line}"),
            Message::Close => "close".to_owned(),
        };
        left.map(text).collect()
    }

    fn done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.thread.log.done)
    }
}

fn record(at: u64) -> Step {
    Step::Record(Timestamp(at), Box::new(Record::JobClosed { job: JobId(1) }))
}

fn answer(request: u64) -> Message {
    Message::Answer(request, ClientResponse::Done)
}

fn run() -> Message {
    Message::Worker(ToWorker::Run(Vec::new()))
}

fn saved(report: u64) -> Message {
    Message::Worker(ToWorker::Saved { report })
}

#[test]
fn who_only_looks_is_answered_while_the_log_cannot_be_written() {
    let mut table = Table::new(Paper { failing_writes: 2, ..Paper::default() });
    let (looker, mut looks) = Outbox::new("looker".to_owned(), 1 << 20, Arc::default());
    let looker = Arc::new(looker);
    let look = |request| {
        looker.hold(&answer(request));
        Step::Send(looker.clone(), answer(request), Gate::Shown)
    };
    let mut seen = || std::iter::from_fn(|| looks.try_recv()).count();
    let changes = table.send(answer(1), Gate::Synced);
    let looks_after = table.send(answer(2), Gate::Shown);
    // Asked before anybody knew of the fault, behind a change of somebody else.
    let queue = table.thread.queue.clone();
    let steps = vec![record(1), changes, look(1), looks_after];
    assert!(matches!(table.turn(steps), Next::Retry(_)));
    assert!(table.thread.log.has_made_room);
    assert_eq!(seen(), 1);
    assert!(queue.is_passed(Gate::Shown, 1) && !queue.is_passed(Gate::Synced, 1));
    // Asked when the thread had stopped taking steps in.
    queue.push(&mut vec![record(2), look(2)], 0);
    assert!(matches!(table.turn(Vec::new()), Next::Retry(_)));
    assert_eq!(seen(), 1);
    assert!(table.left().is_empty(), "answers to one peer keep their order");
    assert_eq!(queue.records_waiting(), 1);
    assert_eq!(table.turn(Vec::new()), Next::Take(None));
    assert_eq!(table.left(), ["answer 1", "answer 2"]);
    assert!(looker.is_clear() && table.outbox.is_clear());
    assert!(!queue.is_passed(Gate::Shown, 2));
}

#[test]
fn who_wants_something_of_the_journal_is_refused_while_it_cannot_be_written() {
    let mut table = Table::new(Paper { failing_writes: 2, ..Paper::default() });
    let (asker, mut hears) = Outbox::new("asker".to_owned(), 1 << 20, Arc::default());
    let reply = Reply { outbox: Arc::new(asker), request: 1 };
    let order = |order| Step::Order(reply.clone(), order);
    let events = JournalOrder::Events { follow: true, after: 0, filter: EventFilter::default() };
    assert!(matches!(table.turn(vec![record(1), order(JournalOrder::Flush)]), Next::Retry(_)));
    table.thread.queue.push(&mut vec![order(events), order(JournalOrder::Flush)], 0);
    assert!(matches!(table.turn(Vec::new()), Next::Retry(_)));
    assert_eq!(std::iter::from_fn(|| hears.try_recv()).count(), 3);
    assert_eq!(table.turn(vec![order(JournalOrder::Flush)]), Next::Take(None));
    assert_eq!(std::iter::from_fn(|| hears.try_recv()).count(), 1);
    assert_eq!(table.done(), ["append 1", "write", "sync"]);
}

#[test]
fn who_wants_something_of_the_journal_is_not_refused_for_what_one_more_attempt_mends() {
    let mut table = Table::new(Paper { failing_writes: 1, ..Paper::default() });
    let (asker, mut hears) = Outbox::new("asker".to_owned(), 1 << 20, Arc::default());
    let reply = Reply { outbox: Arc::new(asker), request: 1 };
    let steps = vec![record(1), Step::Order(reply, JournalOrder::Flush)];
    assert!(matches!(table.turn(steps), Next::Retry(_)));
    assert!(hears.try_recv().is_none());
    assert_eq!(table.turn(Vec::new()), Next::Take(None));
    let heard = hears.try_recv().expect("an answer");
    assert!(matches!(heard, Message::Answer(1, ClientResponse::Done)), "{heard:?}");
}

#[test]
fn who_wants_the_journal_compacted_waits_until_it_can_be_written() {
    let mut table = Table::new(Paper { failing_writes: 2, ..Paper::default() });
    let (asker, mut hears) = Outbox::new("asker".to_owned(), 1 << 20, Arc::default());
    let reply = Reply { outbox: Arc::new(asker), request: 1 };
    let order = || Step::Order(reply.clone(), JournalOrder::Compact);
    let mut heard = || std::iter::from_fn(|| hears.try_recv()).count();
    assert!(matches!(table.turn(vec![record(1), order()]), Next::Retry(_)));
    table.thread.queue.push(&mut vec![record(2), order()], 0);
    assert!(matches!(table.turn(Vec::new()), Next::Retry(_)));
    assert_eq!(heard(), 0, "what it was to forget is forgotten");
    assert_eq!(table.turn(Vec::new()), Next::Take(None));
    assert_eq!(heard(), 1);
    let mut later = Vec::new();
    table.thread.queue.take(&mut later, None);
    assert_eq!(table.turn(later), Next::Take(None));
    assert_eq!(heard(), 1);
    let once = ["write", "sync", "compact"];
    assert_eq!(table.done(), [&["append 1"][..], &once, &["append 2"], &once].concat());
}

#[test]
fn many_records_share_one_write_and_one_sync() {
    let mut table = Table::new(Paper::default());
    let steps =
        vec![record(1), table.send(answer(1), Gate::Synced), record(2), table.send(answer(2), Gate::Synced)];
    assert_eq!(table.turn(steps), Next::Take(None));
    assert_eq!(table.done(), ["append 1", "append 2", "write", "sync"]);
    assert_eq!(table.left(), ["answer 1", "answer 2"]);
    assert!(table.outbox.is_clear());
    assert!(table.thread.queue.is_passed(Gate::Synced, 2));
    assert!(!table.thread.queue.is_passed(Gate::Written, 3));
}

#[test]
fn while_the_disk_is_full_everything_gated_waits_and_then_leaves_in_order() {
    let mut table = Table::new(Paper { failing_writes: 2, ..Paper::default() });
    let steps = vec![
        record(1),
        table.send(run(), Gate::Written),
        table.send(answer(1), Gate::Synced),
        table.send(answer(2), Gate::Open),
    ];
    assert_eq!(table.turn(steps), Next::Retry(JOURNAL_RETRY.0));
    assert_eq!(table.turn(Vec::new()), Next::Retry(JOURNAL_RETRY.0 * 2));
    assert!(table.left().is_empty() && !table.outbox.is_clear());
    assert_eq!(table.turn(Vec::new()), Next::Take(None));
    assert_eq!(table.left(), ["worker", "answer 1", "answer 2"]);
    assert_eq!(table.done(), ["append 1", "write", "sync"]);
}

#[test]
fn what_waits_for_a_write_leaves_although_the_sync_fails() {
    let mut table = Table::new(Paper { failing_syncs: 1, ..Paper::default() });
    let steps = vec![record(1), table.send(run(), Gate::Written), table.send(answer(1), Gate::Synced)];
    assert_eq!(table.turn(steps), Next::Retry(JOURNAL_RETRY.0));
    assert_eq!(table.left(), ["worker"]);
    assert_eq!(table.turn(Vec::new()), Next::Take(None));
    assert_eq!(table.left(), ["answer 1"]);
    // The records were not written a second time.
    assert_eq!(table.done(), ["append 1", "write", "sync"]);
}

#[test]
fn only_acknowledgements_of_reports_and_stops_keep_no_order() {
    let mut table = Table::new(Paper { failing_syncs: 1, ..Paper::default() });
    let steps = vec![
        record(1),
        table.send(saved(7), Gate::Synced),
        table.send(run(), Gate::Written),
        table.send(answer(1), Gate::Synced),
        table.send(Message::Close, Gate::Open),
    ];
    assert_eq!(table.turn(steps), Next::Retry(JOURNAL_RETRY.0));
    assert_eq!(table.left(), ["worker"]);
    assert!(Message::Worker(ToWorker::Stop { drain: false }).keeps_no_order(), "nor does it wait for this");
    table.turn(Vec::new());
    assert_eq!(table.left(), ["saved 7", "answer 1", "close"]);
}

#[test]
fn nothing_is_synced_that_nobody_waits_for_until_a_while_has_passed() {
    let mut table = Table::new(Paper::default());
    let steps = vec![record(1), table.send(run(), Gate::Written)];
    match table.turn(steps) {
        Next::Take(Some(time)) => assert!(time <= JOURNAL_SYNC_DELAY),
        other => panic!("{other:?}"),
    }
    assert_eq!(table.done(), ["append 1", "write"]);
    assert_eq!(table.left(), ["worker"]);
    // A later answer to somebody who looks waits for what it may show.
    let steps = vec![table.send(answer(1), Gate::Synced)];
    assert_eq!(table.turn(steps), Next::Take(None));
    assert_eq!(table.done(), ["sync"]);
    assert_eq!(table.left(), ["answer 1"]);
}

#[test]
fn the_end_comes_after_everything_is_saved_and_sent() {
    let mut table = Table::new(Paper { failing_syncs: 1, ..Paper::default() });
    let steps = vec![record(1), table.send(answer(1), Gate::Synced), Step::End];
    assert_eq!(table.turn(steps), Next::Retry(JOURNAL_RETRY.0));
    assert_eq!(table.turn(Vec::new()), Next::End);
    assert_eq!(table.left(), ["answer 1"]);
    assert_eq!(table.done(), ["append 1", "write", "sync"]);
}

#[test]
fn where_nothing_can_be_written_before_the_end_only_who_asked_for_it_is_answered() {
    let mut table = Table::new(Paper { failing_writes: 2, ..Paper::default() });
    let steps = vec![record(1), table.send(answer(1), Gate::Synced), table.send(answer(2), Gate::Last)];
    assert!(matches!(table.turn(steps), Next::Retry(_)));
    let later = vec![record(2), table.send(answer(3), Gate::Last), table.send(answer(4), Gate::Synced)];
    table.thread.queue.push(&mut { later }, 0);
    assert!(matches!(table.turn(Vec::new()), Next::Retry(_)));
    assert!(table.left().is_empty(), "there may be room yet");
    assert_eq!(table.thread.give_up(), Unsaved { records: 2 });
    let lost = "The journal could not be written before the end (no space left on device): the last 2 changes are lost. \
                None of them was acknowledged.";
    assert_eq!(table.left(), [format!("answer 2, but: {lost}"), format!("answer 3, but: {lost}")]);
}

#[test]
fn an_answer_that_says_what_was_not_done_says_that_changes_are_lost_beside_it() {
    let error = |text: &str| RequestError::Invalid(text.to_owned());
    let (left, lost) = (error("allocation 1.1 may go on"), error("the last change is lost"));
    let one = beside(vec![lost.clone()], ClientResponse::Done);
    assert_eq!(
        one,
        ClientResponse::Partly { refused: vec![lost.clone()], rest: Box::new(ClientResponse::Done) }
    );
    let body = ClientResponse::Partly { refused: vec![left.clone()], rest: Box::new(ClientResponse::Done) };
    let both =
        ClientResponse::Partly { refused: vec![left, lost.clone()], rest: Box::new(ClientResponse::Done) };
    assert_eq!(beside(vec![lost], body), both);
}
