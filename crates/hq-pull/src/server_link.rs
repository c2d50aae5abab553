//! The relay's connection to the server as workers, one for each branch: they share it, each on a line of its own.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use hq_core::relay::Branch;
use hq_core::worker::Input;
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_net::{AccessFile, Backoff, FrameReceiver, FrameSender, Role};
use hq_proto::{OnLine, Versions, decode_to_worker, encode_from_worker, end_of_line, line_of, on_line};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::limits;
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
}

/// Connects when there is a bag, and again when the connection is lost, until nobody says anything more.
pub(crate) async fn serve(shared: Rc<Shared>, mut words: mpsc::UnboundedReceiver<Word>) {
    let mut lines = Lines::default();
    let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
    loop {
        if lines.is_empty() {
            match words.recv().await {
                Some(word) => lines.note(&word),
                None => return,
            }
            continue;
        }
        match connect(&shared).await {
            Ok((sender, receiver)) => {
                backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
                // What was said to a connection before is said again by who says hello.
                while let Ok(word) = words.try_recv() {
                    lines.note(&word);
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
                Ok(word) => lines.note(&word),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return,
            }
        }
    }
}

async fn connect(shared: &Shared) -> Result<(FrameSender, FrameReceiver), String> {
    let access = AccessFile::load(shared.access()).map_err(|error| error.to_string())?;
    let endpoint = access.endpoint(Role::Worker).map_err(|error| error.to_string())?;
    let connection = hq_net::connect(endpoint, Role::Worker).await.map_err(|error| error.to_string())?;
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
}

impl Lines {
    fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    // While there is no connection.
    fn note(&mut self, word: &Word) {
        match word {
            Word::Join(bag) => drop(self.of.insert(*bag, None)),
            Word::Leave(bag) => drop(self.of.remove(bag)),
            Word::Say(..) => {}
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
        loop {
            tokio::select! {
                frame = receiver.next() => {
                    let frame = frame.map_err(|error| error.to_string())?.ok_or("it said goodbye")?;
                    let mut frames = vec![frame];
                    while let Ok(Some(frame)) = receiver.try_next() {
                        frames.push(frame);
                    }
                    self.hear(&frames)?;
                }
                word = words.recv() => {
                    let mut next = word;
                    while let Some(word) = next {
                        self.say(word).await?;
                        next = words.try_recv().ok();
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
        let goodbye = async {
            if self.sender.close().await.is_ok() {
                while let Ok(Some(_)) = receiver.next().await {}
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
            self.lines.open(bag);
            self.shared.turn(|relay, now, effects| relay.hear(now, bag, Input::ServerFound, effects));
        }
    }

    async fn say(&mut self, word: Word) -> Result<(), String> {
        let frame = match word {
            Word::Join(bag) => {
                self.lines.note(&Word::Join(bag));
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
        };
        self.sender.send(&frame).await.map_err(|error| error.to_string())
    }

    fn hear(&mut self, frames: &[Vec<u8>]) -> Result<(), String> {
        let mut heard = Vec::with_capacity(frames.len());
        for frame in frames {
            let OnLine { line, ends } = line_of(frame).map_err(|error| error.to_string())?;
            // What comes for one that has left is for nobody.
            let Some(bag) = self.lines.bags.get(&line).copied() else { continue };
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
        Ok(())
    }
}

fn read(frame: &[u8]) -> Result<ToWorker, String> {
    decode_to_worker(frame).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use hq_model::JobId;

    use super::*;

    fn of(bag: u32) -> Branch {
        JobId(bag).into()
    }

    #[test]
    fn each_bag_has_a_line_and_none_is_used_twice() {
        let mut lines = Lines::default();
        for bag in [4, 9] {
            lines.note(&Word::Join(of(bag)));
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
        lines.note(&Word::Leave(of(9)));
        assert!(lines.is_empty());
    }
}
