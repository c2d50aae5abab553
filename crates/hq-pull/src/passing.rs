//! Lines of relays below, which are passed on: each is a line of this relay's connection to the server, of another number.

use std::collections::BTreeMap;

use hq_core::worker_messages::FromWorker;
use hq_model::ResourcePool;
use hq_model::request::PULLED;
use hq_model::worker::Executor;
use hq_net::queue::QueueSender;
use hq_proto::{OnLine, decode_from_worker, end_of_line, loss_of_line, on_line, pass_on_line};

/// Names a connection of a relay below, for the life of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BelowId(pub(crate) u64);

/// Where frames for a relay below wait. The first one is empty: the way is open.
pub(crate) type ToBelow = QueueSender<Vec<u8>>;

/// Those of all relays below.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    relays: BTreeMap<BelowId, Below>,
    // By the numbers that the server knows: whose it is, and its number there.
    whose: BTreeMap<u32, (BelowId, u32)>,
}

#[derive(Debug)]
struct Below {
    to: ToBelow,
    // By their numbers there.
    lines: BTreeMap<u32, Line>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    // The number that the server knows.
    ours: u32,
    // Who speaks there is behind that relay, and may live when it has gone.
    is_passed: bool,
}

/// What became of a frame from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is for nobody below.
    NotBelow,
    /// It waits for whom it is for.
    Passed,
    /// Whom it is for has not taken so much that it is given up. The server is to be told this.
    GivenUp(Vec<Vec<u8>>),
}

/// Whether a relay below has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Its process has ended most likely.
    Ended,
    /// It lives, and comes again.
    Lives,
}

impl Passing {
    /// A relay has come below. Where the way is open, it is told so.
    pub(crate) fn enter(&mut self, below: BelowId, to: ToBelow, is_open: bool) {
        if is_open {
            tell_open(&to);
        }
        self.relays.insert(below, Below { to, lines: BTreeMap::new() });
    }

    /// The server can be reached.
    pub(crate) fn open(&self) {
        self.relays.values().for_each(|below| tell_open(&below.to));
    }

    /// What a relay below says on a line, as it is said to the server. A line begins with the hello of a relay, and has the number
    /// which `next` gives; where it gives none, there is no room, and the line ends.
    pub(crate) fn says(
        &mut self,
        below: BelowId,
        line: OnLine,
        frame: Vec<u8>,
        next: impl FnOnce() -> Option<u32>,
    ) -> Option<Vec<u8>> {
        let from = self.relays.get_mut(&below)?;
        if line.ends {
            let ours = from.lines.remove(&line.line)?.ours;
            self.whose.remove(&ours);
            return Some(if line.is_passed { loss_of_line(ours) } else { end_of_line(ours) });
        }
        let known = from.lines.get(&line.line).map(|line| line.ours);
        let ours = match known {
            Some(ours) => ours,
            // The server has ended it, or what speaks there is for the server itself.
            None if !is_hello_of_relay(&frame) => return None,
            None => {
                let Some(ours) = next() else {
                    // Who does not take that has no line, either.
                    let _ = push(&from.to, end_of_line(line.line));
                    return None;
                };
                from.lines.insert(line.line, Line { ours, is_passed: line.is_passed });
                self.whose.insert(ours, (below, line.line));
                ours
            }
        };
        Some(pass_on_line(frame, ours))
    }

    /// A frame from the server.
    pub(crate) fn hears(&mut self, line: OnLine, frame: &[u8]) -> Heard {
        let Some((below, theirs)) = self.whose.get(&line.line).copied() else { return Heard::NotBelow };
        let Some(to) = self.relays.get_mut(&below) else { return Heard::NotBelow };
        let said = if line.ends { end_of_line(theirs) } else { on_line(frame.to_vec(), theirs) };
        if line.ends {
            to.lines.remove(&theirs);
            self.whose.remove(&line.line);
        }
        match push(&to.to, said) {
            true => Heard::Passed,
            false => Heard::GivenUp(self.leave(below, Left::Lives)),
        }
    }

    /// A relay below has gone: what is to be said to the server of its lines.
    pub(crate) fn gone(&mut self, below: BelowId) -> Vec<Vec<u8>> {
        self.leave(below, Left::Ended)
    }

    fn leave(&mut self, below: BelowId, left: Left) -> Vec<Vec<u8>> {
        let Some(Below { lines, .. }) = self.relays.remove(&below) else { return Vec::new() };
        let ends = lines.into_values().map(|Line { ours, is_passed }| {
            self.whose.remove(&ours);
            match left {
                Left::Ended if !is_passed => end_of_line(ours),
                _ => loss_of_line(ours),
            }
        });
        ends.collect()
    }

    /// The server is lost: so are all who are below, which come again.
    pub(crate) fn lose(&mut self) {
        *self = Passing::default();
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> usize {
        self.whose.len()
    }

    /// True when nobody is below.
    pub(crate) fn is_empty(&self) -> bool {
        self.relays.is_empty()
    }
}

// Who has room for pulled tasks and for nothing else.
fn is_hello_of_relay(frame: &[u8]) -> bool {
    match decode_from_worker(frame) {
        Ok(FromWorker::Hello(hello)) => {
            let pools = &hello.config.resources.pools;
            let is_pulled = |pool: &ResourcePool| pool.name.starts_with(PULLED);
            hello.config.executor == Executor::Pull && pools.iter().all(is_pulled)
        }
        _ => false,
    }
}

fn tell_open(to: &ToBelow) {
    push(to, Vec::new());
}

// False when too much waits there.
fn push(to: &ToBelow, frame: Vec<u8>) -> bool {
    let bytes = frame.len();
    to.try_push(frame, bytes).is_ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use hq_core::worker::{Effect, Input, Worker};
    use hq_core::worker_messages::ToWorker;
    use hq_model::worker::WorkerConfig;
    use hq_model::{JobId, Timestamp, WorkerResources};
    use hq_net::queue::{QueueReceiver, bounded_bytes};
    use hq_proto::{decode_to_worker, encode_from_worker, encode_to_worker, line_of};

    use super::*;

    const ONE: BelowId = BelowId(1);
    const OTHER: BelowId = BelowId(2);

    fn on(line: u32) -> OnLine {
        OnLine { line, ends: false, is_passed: false }
    }

    fn end(line: u32) -> OnLine {
        OnLine { ends: true, ..on(line) }
    }

    /// What a worker says first.
    pub(crate) fn hello(executor: Executor) -> Vec<u8> {
        hello_of(WorkerConfig { executor, ..WorkerConfig::relay(JobId(1), &["gpu"], 1) })
    }

    fn hello_of(config: WorkerConfig) -> Vec<u8> {
        let mut effects = Vec::new();
        Worker::new(config, Timestamp(1)).handle(Timestamp(1), Input::ServerFound, &mut effects);
        let said = effects.into_iter().find_map(|effect| match effect {
            Effect::Send(said) => Some(encode_from_worker(&said)),
            _ => None,
        });
        said.expect("a hello")
    }

    // On which line the server hears the hello of a relay below on a line.
    fn opens(passing: &mut Passing, below: BelowId, line: u32, next: Option<u32>) -> Option<u32> {
        hears_as(passing, below, line, hello(Executor::Pull), next)
    }

    // The same of what is said later.
    fn says(passing: &mut Passing, below: BelowId, line: u32) -> Option<u32> {
        hears_as(passing, below, line, encode_from_worker(&FromWorker::Heartbeat), Some(99))
    }

    fn hears_as(
        passing: &mut Passing,
        below: BelowId,
        line: u32,
        said: Vec<u8>,
        next: Option<u32>,
    ) -> Option<u32> {
        let frame = on_line(said, line);
        let said = passing.says(below, on(line), frame, || next)?;
        let heard = line_of(&said).expect("a message");
        assert!(heard.is_passed && !heard.ends);
        Some(heard.line)
    }

    fn hears(passing: &mut Passing, line: u32) -> Heard {
        let frame = on_line(encode_to_worker(&ToWorker::Saved { report: 7 }), line);
        passing.hears(on(line), &frame)
    }

    // What waits for somebody below: the lines, and whether they end.
    fn waiting(queue: &mut QueueReceiver<Vec<u8>>) -> Vec<(u32, bool)> {
        let frames = std::iter::from_fn(|| queue.try_recv());
        let heard = frames.map(|frame| {
            let OnLine { line, ends, .. } = line_of(&frame).expect("a message");
            if line > 0 && !ends {
                assert_eq!(decode_to_worker(&frame), Ok(ToWorker::Saved { report: 7 }));
            }
            (line, ends)
        });
        heard.collect()
    }

    fn two(limit: usize) -> (Passing, QueueReceiver<Vec<u8>>, QueueReceiver<Vec<u8>>) {
        let mut passing = Passing::default();
        let (to, one) = bounded_bytes(limit);
        passing.enter(ONE, to, true);
        let (to, other) = bounded_bytes(limit);
        passing.enter(OTHER, to, false);
        (passing, one, other)
    }

    #[test]
    fn lines_of_the_same_number_are_two_and_answers_find_their_way_back() {
        let (mut passing, mut one, mut other) = two(1 << 20);
        assert_eq!((waiting(&mut one), waiting(&mut other)), (vec![(0, false)], vec![]), "one is told so");
        passing.open();
        assert_eq!(waiting(&mut other), [(0, false)]);
        assert_eq!(opens(&mut passing, ONE, 1, Some(5)), Some(5));
        assert_eq!(opens(&mut passing, OTHER, 1, Some(6)), Some(6));
        assert_eq!(says(&mut passing, ONE, 1), Some(5));
        assert_eq!((hears(&mut passing, 6), hears(&mut passing, 5)), (Heard::Passed, Heard::Passed));
        assert_eq!(hears(&mut passing, 7), Heard::NotBelow);
        assert_eq!(
            (waiting(&mut one), waiting(&mut other)),
            (vec![(0, false), (1, false)], vec![(1, false)])
        );
    }

    #[test]
    fn a_line_ends_on_both_sides_and_is_not_used_again() {
        let (mut passing, mut one, _) = two(1 << 20);
        for line in [1, 2] {
            opens(&mut passing, ONE, line, Some(line + 10));
        }
        assert_eq!(passing.hears(end(11), &end_of_line(11)), Heard::Passed);
        assert_eq!(waiting(&mut one).last(), Some(&(1, true)));
        assert_eq!(says(&mut passing, ONE, 1), None, "what was on its way is for nobody");
        let program = hears_as(&mut passing, ONE, 7, hello(Executor::Process), Some(13));
        assert_eq!(program, None, "a worker that runs programs is for the server itself");
        let resources = WorkerConfig::relay::<&str>(JobId(1), &[], 1).resources;
        let mut other = resources.clone();
        other.pools.extend(WorkerResources::default().pools);
        other
            .pools
            .extend(resources.pools.iter().map(|pool| ResourcePool { name: "gpus".into(), ..pool.clone() }));
        let greedy = hello_of(WorkerConfig { executor: Executor::Pull, ..WorkerConfig::new(other) });
        assert_eq!(
            hears_as(&mut passing, ONE, 8, greedy, Some(13)),
            None,
            "it offers more than pulled tasks take"
        );
        assert_eq!(passing.says(ONE, end(2), Vec::new(), || None), Some(end_of_line(12)));
        opens(&mut passing, ONE, 8, Some(18));
        let lost = OnLine { is_passed: true, ..end(8) };
        assert_eq!(passing.says(ONE, lost, Vec::new(), || None), Some(loss_of_line(18)), "it may live");
        assert_eq!(passing.says(ONE, end(2), Vec::new(), || None), None);
        assert_eq!(hears(&mut passing, 12), Heard::NotBelow);
        assert_eq!(opens(&mut passing, ONE, 3, None), None, "there is no room");
        assert_eq!(waiting(&mut one), [(3, true)]);
        assert_eq!(
            (passing.lines(), opens(&mut passing, ONE, 4, Some(14)), passing.lines()),
            (0, Some(14), 1)
        );
    }

    #[test]
    fn who_has_gone_takes_its_lines_along_and_who_does_not_listen_is_given_up() {
        let (mut passing, mut one, _other) = two(200);
        for line in [1, 2] {
            opens(&mut passing, ONE, line, Some(line + 10));
            opens(&mut passing, OTHER, line, Some(line + 20));
        }
        let behind = on_line(hello(Executor::Pull), 9);
        passing.says(ONE, OnLine { is_passed: true, ..on(9) }, behind, || Some(19));
        assert_eq!(passing.gone(ONE), [end_of_line(11), end_of_line(12), loss_of_line(19)]);
        assert_eq!((passing.gone(ONE), opens(&mut passing, ONE, 3, Some(13))), (vec![], None));
        assert!(matches!(one.try_recv(), Some(frame) if frame.is_empty()) && one.try_recv().is_none());
        let given_up =
            std::iter::repeat_with(|| hears(&mut passing, 21)).find(|heard| *heard != Heard::Passed);
        assert_eq!(given_up, Some(Heard::GivenUp(vec![loss_of_line(21), loss_of_line(22)])));
        assert!(passing.is_empty() && passing.lines() == 0);
    }

    #[test]
    fn with_the_server_all_who_are_below_are_lost() {
        let (mut passing, mut one, _) = two(1 << 20);
        opens(&mut passing, ONE, 1, Some(1));
        passing.lose();
        assert!(passing.is_empty() && hears(&mut passing, 1) == Heard::NotBelow);
        assert_eq!(waiting(&mut one), [(0, false)], "and nobody sends more");
    }
}
