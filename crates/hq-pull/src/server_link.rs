//! The relay's connection to the server as workers, one for each branch: they share it, each on a line of its own, and those of
//! relays below share it, too.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use hq_core::relay::Branch;
use hq_core::worker::Input;
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_net::{Backoff, FrameReceiver, FrameSender, Role};
use hq_proto::{OnLine, Versions, decode_to_worker, encode_from_worker, end_of_line, line_of, on_line};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::above::NotThere;
use crate::limits;
use crate::passing::{BelowId, Heard, Passing, ToBelow};
use crate::shared::{Shared, sleep_until};

/// What is said there.
#[derive(Debug)]
pub(crate) enum Word {
    /// A bag is to have a line.
    Join(Branch),
    /// For the server, on the line of a bag.
    Say(Branch, Box<FromWorker>),
    /// All is said for a bag.
    Leave(Branch),
    /// A relay has come below.
    Enter(BelowId, ToBelow),
    /// For the server, on a line of a relay below.
    Pass {
        /// Whose.
        below: BelowId,
        /// Which of its lines.
        line: OnLine,
        /// What.
        frame: Vec<u8>,
        /// It counts there until it has left.
        place: OwnedSemaphorePermit,
    },
    /// A relay below has gone.
    Gone(BelowId),
}

/// Connects when there is a bag, and again when the connection is lost, until nobody says anything more.
pub(crate) async fn serve(shared: Rc<Shared>, mut words: mpsc::UnboundedReceiver<Word>) {
    let mut lines = Lines::default();
    let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
    loop {
        if lines.is_empty() {
            match words.recv().await {
                Some(word) => lines.note(word),
                None => return,
            }
            continue;
        }
        match connect(&shared).await {
            Ok((sender, receiver)) => {
                backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
                // What was said to a connection before is said again by who says hello.
                while let Ok(word) = words.try_recv() {
                    lines.note(word);
                }
                let link = Link { shared: &shared, sender, lines: &mut lines };
                let Err(reason) = link.talk(receiver, &mut words).await else { continue };
                warn!(reason, "the server is lost");
                for bag in lines.lose() {
                    shared.turn(|relay, now, effects| relay.hear(now, bag, Input::ServerLost, effects));
                }
            }
            Err(error) => info!(error, "the server is not there"),
        }
        sleep(backoff.next_pause()).await;
        loop {
            match words.try_recv() {
                Ok(word) => lines.note(word),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return,
            }
        }
    }
}

async fn connect(shared: &Shared) -> Result<(FrameSender, FrameReceiver), String> {
    let connected = shared.way_up().connect(Role::Worker).await;
    let connection = connected.map_err(|(NotThere::Missing(error) | NotThere::Other(error))| error)?;
    let peer = connection.1.peer();
    if peer.version < Versions::WITH_LINES {
        let release = &peer.release;
        return Err(format!(
            "this relay needs a later release of the server, which is hq {release}: restart the server with the hq of this node"
        ));
    }
    Ok(connection)
}

// Which bag has which line.
#[derive(Debug, Default)]
struct Lines {
    // None where the server has ended it, or none is there yet.
    of: BTreeMap<Branch, Option<u32>>,
    bags: BTreeMap<u32, Branch>,
    // None is used twice on one connection.
    last: u32,
    // When bags whose lines the server has ended come again.
    again_at: Option<Instant>,
    // Of relays below.
    passing: Passing,
}

impl Lines {
    fn is_empty(&self) -> bool {
        self.of.is_empty() && self.passing.is_empty()
    }

    fn has_room(&self) -> bool {
        self.bags.len() + self.passing.lines() < limits::LINES_MAX
    }

    // While there is no connection.
    fn note(&mut self, word: Word) {
        match word {
            Word::Join(bag) => drop(self.of.insert(bag, None)),
            Word::Leave(bag) => drop(self.of.remove(&bag)),
            Word::Enter(below, to) => self.passing.enter(below, to, false),
            Word::Gone(below) => drop(self.passing.gone(below)),
            Word::Say(..) | Word::Pass { .. } => {}
        }
    }

    // Those that have none.
    fn without(&self) -> Vec<Branch> {
        self.of.iter().filter(|(_, line)| line.is_none()).map(|(bag, _)| *bag).collect()
    }

    fn open(&mut self, bag: Branch) {
        self.last += 1;
        self.of.insert(bag, Some(self.last));
        self.bags.insert(self.last, bag);
    }

    // What a relay below says, as the server hears it.
    fn pass(&mut self, below: BelowId, line: OnLine, frame: Vec<u8>) -> Option<Vec<u8>> {
        let has_room = self.has_room();
        let next = || {
            has_room.then(|| {
                self.last += 1;
                self.last
            })
        };
        self.passing.says(below, line, frame, next)
    }

    fn leave(&mut self, bag: Branch) -> Option<u32> {
        let line = self.of.remove(&bag).flatten()?;
        self.bags.remove(&line);
        Some(line)
    }

    // The server has ended a line: its bag comes again soon.
    fn ended(&mut self, line: u32) -> Option<Branch> {
        let bag = self.bags.remove(&line)?;
        self.of.insert(bag, None);
        self.again_at.get_or_insert_with(|| Instant::now() + limits::REJOIN_PAUSE);
        Some(bag)
    }

    // The connection is lost: those that had a line.
    fn lose(&mut self) -> Vec<Branch> {
        self.passing.lose();
        let bags = std::mem::take(&mut self.bags).into_values().collect();
        *self = Lines { of: std::mem::take(&mut self.of), ..Lines::default() };
        self.of.values_mut().for_each(|line| *line = None);
        bags
    }
}

// A connection, as long as it is there.
struct Link<'a> {
    shared: &'a Rc<Shared>,
    sender: FrameSender,
    lines: &'a mut Lines,
}

impl Link<'_> {
    // Until the connection is lost; without error when there is no bag any more.
    async fn talk(
        mut self,
        mut receiver: FrameReceiver,
        words: &mut mpsc::UnboundedReceiver<Word>,
    ) -> Result<(), String> {
        self.greet();
        self.lines.passing.open();
        loop {
            tokio::select! {
                frame = receiver.next() => {
                    let frame = frame.map_err(|error| error.to_string())?.ok_or("it said goodbye")?;
                    let mut frames = vec![frame];
                    while let Ok(Some(frame)) = receiver.try_next() {
                        frames.push(frame);
                    }
                    let ended = self.hear(&frames)?;
                    self.end(&ended).await?;
                }
                word = words.recv() => {
                    // Nobody says anything more.
                    if word.is_none() {
                        break;
                    }
                    let (mut next, mut said) = (word, 0);
                    while let Some(word) = next {
                        self.say(word).await?;
                        said += 1;
                        // However much many say, the server is heard in between.
                        next = if said < limits::WORDS_AT_ONCE { words.try_recv().ok() } else { None };
                    }
                    if self.lines.is_empty() {
                        break;
                    }
                    self.sender.flush().await.map_err(|error| error.to_string())?;
                }
                () = sleep_until(self.lines.again_at) => {
                    self.lines.again_at = None;
                    self.greet();
                }
            }
        }
        let Link { sender, lines, .. } = self;
        let goodbye = async {
            if sender.close().await.is_ok() {
                while let Ok(Some(frame)) = receiver.next().await {
                    // Relays below may be told that the server ends.
                    if let Ok(line) = line_of(&frame) {
                        lines.passing.hears(line, &frame);
                    }
                }
            }
        };
        if timeout(limits::FAREWELL_LIMIT, goodbye).await.is_err() {
            debug!("the server did not say goodbye in time");
        }
        Ok(())
    }

    // Opens lines for those who have none: their workers say hello there.
    fn greet(&mut self) {
        for bag in self.lines.without() {
            if !self.lines.has_room() {
                self.lines.again_at.get_or_insert_with(|| Instant::now() + limits::REJOIN_PAUSE);
                return;
            }
            self.lines.open(bag);
            self.shared.turn(|relay, now, effects| relay.hear(now, bag, Input::ServerFound, effects));
        }
    }

    async fn say(&mut self, word: Word) -> Result<(), String> {
        let frame = match word {
            Word::Join(bag) => {
                self.lines.note(Word::Join(bag));
                self.greet();
                return Ok(());
            }
            Word::Say(bag, message) => {
                // What is said where the server has ended the line is said again on the next one.
                let Some(line) = self.lines.of.get(&bag).copied().flatten() else { return Ok(()) };
                on_line(encode_from_worker(&message), line)
            }
            Word::Leave(bag) => match self.lines.leave(bag) {
                Some(line) => end_of_line(line),
                None => return Ok(()),
            },
            Word::Enter(below, to) => {
                self.lines.passing.enter(below, to, true);
                return Ok(());
            }
            Word::Pass { below, line, frame, place } => {
                let Some(frame) = self.lines.pass(below, line, frame) else { return Ok(()) };
                let sent = self.sender.send(&frame).await;
                drop(place);
                return sent.map_err(|error| error.to_string());
            }
            Word::Gone(below) => {
                let ended = self.lines.passing.gone(below);
                return self.end(&ended).await;
            }
        };
        self.sender.send(&frame).await.map_err(|error| error.to_string())
    }

    // Says that nothing more is said on some lines.
    async fn end(&mut self, ends: &[Vec<u8>]) -> Result<(), String> {
        for end in ends {
            self.sender.send(end).await.map_err(|error| error.to_string())?;
        }
        match ends {
            [] => Ok(()),
            _ => self.sender.flush().await.map_err(|error| error.to_string()),
        }
    }

    // What is to be said of the lines of a relay below that does not listen.
    fn hear(&mut self, frames: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let mut heard = Vec::with_capacity(frames.len());
        let mut given_up = Vec::new();
        for frame in frames {
            let on_line = line_of(frame).map_err(|error| error.to_string())?;
            let OnLine { line, ends, .. } = on_line;
            let Some(bag) = self.lines.bags.get(&line).copied() else {
                // What comes for one that has left is for nobody.
                if let Heard::GivenUp(ends) = self.lines.passing.hears(on_line, frame) {
                    warn!("a relay below this one does not take what is said to it, and is given up");
                    given_up.extend(ends);
                }
                continue;
            };
            heard.push((bag, if ends { Input::ServerLost } else { Input::Server(read(frame)?) }));
            if ends {
                warn!(bag = %bag.bag, "the server has ended the line of a bag, which comes again");
                self.lines.ended(line);
            }
        }
        self.shared.turn(|relay, now, effects| {
            for (bag, input) in heard {
                relay.hear(now, bag, input, effects);
            }
        });
        Ok(given_up)
    }
}

fn read(frame: &[u8]) -> Result<ToWorker, String> {
    decode_to_worker(frame).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use hq_model::JobId;
    use hq_model::worker::Executor;

    use super::*;

    fn of(bag: u32) -> Branch {
        JobId(bag).into()
    }

    #[test]
    fn lines_of_relays_below_share_the_numbers_and_the_room_of_the_own_ones() {
        let mut lines = Lines::default();
        let (to, mut queue) = hq_net::queue::bounded_bytes(1 << 20);
        lines.note(Word::Enter(BelowId(1), to));
        assert!(!lines.is_empty() && lines.without().is_empty());
        let on = |line| OnLine { line, ends: false, is_passed: false };
        let said = |lines: &mut Lines, line| {
            let hello = crate::passing::tests::hello(Executor::Pull);
            let frame = lines.pass(BelowId(1), on(line), hello)?;
            Some(line_of(&frame).expect("a message").line)
        };
        lines.open(of(4));
        assert_eq!((said(&mut lines, 1), said(&mut lines, 2)), (Some(2), Some(3)));
        lines.open(of(9));
        assert_eq!(lines.bags.keys().copied().collect::<Vec<_>>(), [1, 4]);
        while lines.has_room() {
            lines.open(of(lines.last));
        }
        assert_eq!((said(&mut lines, 3), said(&mut lines, 2)), (None, Some(3)));
        assert_eq!(queue.try_recv(), Some(end_of_line(3)), "it may come again later");
        lines.lose();
        assert_eq!((lines.passing.is_empty(), said(&mut lines, 2)), (true, None));
    }

    #[test]
    fn each_bag_has_a_line_and_none_is_used_twice() {
        let mut lines = Lines::default();
        for bag in [4, 9] {
            lines.note(Word::Join(of(bag)));
        }
        assert_eq!(lines.without(), [of(4), of(9)]);
        lines.without().into_iter().for_each(|bag| lines.open(bag));
        assert!(lines.without().is_empty());
        assert_eq!(lines.ended(1), Some(of(4)));
        assert_eq!(lines.ended(1), None, "it had ended");
        assert_eq!(lines.without(), [of(4)]);
        assert!(lines.again_at.is_some());
        lines.open(of(4));
        assert_eq!(lines.leave(of(4)), Some(3));
        assert_eq!(lines.leave(of(4)), None, "it had left");
        assert_eq!(lines.lose(), [of(9)]);
        assert_eq!((lines.without(), lines.last), (vec![of(9)], 0));
        lines.note(Word::Leave(of(9)));
        assert!(lines.is_empty());
    }
}
