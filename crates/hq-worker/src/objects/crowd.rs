//! Who wants one large object of this worker at once: a few are sent it, the others wait. When one has got it, it serves some of
//! those that wait: they are told where it is. So what many want spreads as a tree.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hq_core::worker_messages::TaskNode;
use tokio::sync::oneshot;

use super::Key;
use crate::limits::{CROWD_KNOWN_MAX, CROWD_SERVES_MAX};

/// All of them, by what they want.
#[derive(Debug, Default)]
pub(crate) struct Crowds(Mutex<HashMap<Key, Crowd>>);

#[derive(Debug, Default)]
struct Crowd {
    /// Some of it is sent to so many.
    sending: usize,
    waiting: VecDeque<Reader>,
    /// They have got it from here, and whoever comes is sent to the first.
    served: VecDeque<TaskNode>,
}

#[derive(Debug)]
struct Reader {
    place: TaskNode,
    answer: oneshot::Sender<Turn>,
}

/// What becomes of who asks.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is sent the object.
    Here(Sending),
    /// Somebody else has it, too.
    There(TaskNode),
}

/// A place among those that are sent an object; it is free when this is dropped.
#[derive(Debug)]
pub(crate) struct Sending {
    crowds: Arc<Crowds>,
    key: Key,
    to: TaskNode,
    is_whole: bool,
}

impl Sending {
    /// All of it was sent: from now on who got it can give it to others.
    pub(crate) fn end(mut self) {
        self.is_whole = true;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.crowds.left(self);
    }
}

impl Crowds {
    /// Somebody wants an object: what becomes of it, or how that will be heard.
    pub(crate) fn enter(
        self: &Arc<Crowds>,
        key: &Key,
        place: TaskNode,
    ) -> Result<Turn, oneshot::Receiver<Turn>> {
        let mut crowds = self.crowds();
        let crowd = crowds.entry(key.clone()).or_default();
        if crowd.sending < CROWD_SERVES_MAX {
            crowd.sending += 1;
            return Ok(Turn::Here(self.sending(key, place)));
        }
        if let Some(other) = crowd.served.iter().position(|other| other.worker != place.worker)
            && let Some(other) = crowd.served.remove(other)
        {
            crowd.served.push_back(other.clone());
            return Ok(Turn::There(other));
        }
        let (answer, turn) = oneshot::channel();
        crowd.waiting.push_back(Reader { place, answer });
        Err(turn)
    }

    /// How many wait for their turn.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.crowds().values().map(|crowd| crowd.waiting.len()).sum()
    }

    fn crowds(&self) -> MutexGuard<'_, HashMap<Key, Crowd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sending(self: &Arc<Crowds>, key: &Key, to: TaskNode) -> Sending {
        Sending { crowds: self.clone(), key: key.clone(), to, is_whole: false }
    }

    fn left(self: &Arc<Crowds>, sending: &Sending) {
        let mut turns = Vec::new();
        {
            let mut crowds = self.crowds();
            let Some(crowd) = crowds.get_mut(&sending.key) else { return };
            crowd.sending -= 1;
            crowd.waiting.retain(|reader| !reader.answer.is_closed());
            if let Some(Reader { place, answer }) = crowd.waiting.pop_front() {
                crowd.sending += 1;
                turns.push((answer, Turn::Here(self.sending(&sending.key, place))));
            }
            if sending.is_whole {
                let there = crowd.sent_on(&sending.to);
                turns.extend(there.map(|reader| (reader.answer, Turn::There(sending.to.clone()))));
            }
            if crowd.sending == 0 {
                crowds.remove(&sending.key);
            }
        }
        // A place of which nobody hears is free again, which changes the crowd once more.
        turns.into_iter().for_each(|(answer, turn)| drop(answer.send(turn)));
    }
}

impl Crowd {
    // Those that are sent to who has got it now: as many as it serves at once, and half of all where there are more.
    fn sent_on(&mut self, to: &TaskNode) -> impl Iterator<Item = Reader> {
        self.served.retain(|other| other.worker != to.worker);
        self.served.push_back(to.clone());
        if self.served.len() > CROWD_KNOWN_MAX {
            self.served.pop_front();
        }
        let waiting = self.waiting.len();
        self.waiting.drain(..waiting.min(CROWD_SERVES_MAX).max(waiting / 2))
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{Instance, WorkerId};

    use super::*;

    fn key() -> Key {
        Key { object: "1@0:parts".parse().expect("an object"), instance: Instance(0) }
    }

    fn place(worker: u32) -> TaskNode {
        TaskNode { worker: WorkerId(worker), hostname: String::new(), address: String::new() }
    }

    /// A crowd of one object, and what its readers are at.
    struct Scene {
        crowds: Arc<Crowds>,
        waiting: Vec<(u32, oneshot::Receiver<Turn>)>,
        sending: Vec<(u32, Sending)>,
        said: Vec<String>,
    }

    impl Scene {
        fn of(readers: u32) -> Scene {
            let crowds = Arc::default();
            let mut scene = Scene { crowds, waiting: Vec::new(), sending: Vec::new(), said: Vec::new() };
            (1..=readers).for_each(|reader| scene.ask(reader));
            scene
        }

        fn ask(&mut self, reader: u32) {
            match self.crowds.enter(&key(), place(reader)) {
                Ok(turn) => self.hear(reader, turn),
                Err(turn) => self.waiting.push((reader, turn)),
            }
        }

        fn hear(&mut self, reader: u32, turn: Turn) {
            match turn {
                Turn::Here(sending) => {
                    self.said.push(format!("{reader} here"));
                    self.sending.push((reader, sending));
                }
                Turn::There(other) => self.said.push(format!("{reader} at {}", other.worker)),
            }
        }

        // One of those that are sent it is over; what was said since the last time.
        fn ends(&mut self, reader: u32, is_whole: bool) -> String {
            let place = self.sending.iter().position(|(other, _)| *other == reader).expect("it is sent it");
            let (_, sending) = self.sending.remove(place);
            match is_whole {
                true => sending.end(),
                false => drop(sending),
            }
            self.said()
        }

        fn said(&mut self) -> String {
            for (reader, mut turn) in std::mem::take(&mut self.waiting) {
                match turn.try_recv() {
                    Ok(turn) => self.hear(reader, turn),
                    Err(_) => self.waiting.push((reader, turn)),
                }
            }
            std::mem::take(&mut self.said).join(", ")
        }
    }

    #[test]
    fn eight_readers_are_a_tree_of_two_steps() {
        let mut scene = Scene::of(8);
        assert_eq!(scene.said(), "1 here, 2 here");
        assert_eq!(scene.ends(1, true), "3 here, 4 at 1, 5 at 1");
        assert_eq!(scene.ends(2, true), "6 here, 7 at 2, 8 at 2");
        scene.ask(9);
        scene.ask(10);
        scene.ask(1);
        assert_eq!(scene.said(), "9 at 1, 10 at 2, 1 at 2");
        assert_eq!((scene.ends(3, true), scene.ends(6, true)), (String::new(), String::new()));
        assert!(scene.crowds.crowds().is_empty(), "nothing is remembered when nobody is there");
    }

    #[test]
    fn a_large_crowd_is_halved() {
        let mut scene = Scene::of(20);
        scene.said();
        let said = scene.ends(1, true);
        assert_eq!(said.matches(" at 1").count(), 8, "{said}");
    }

    #[test]
    fn who_got_only_a_part_serves_nobody_and_who_has_gone_takes_no_place() {
        let mut scene = Scene::of(4);
        scene.said();
        assert_eq!(scene.ends(1, false), "3 here");
        scene.waiting.clear();
        assert_eq!(scene.ends(2, true), "");
        scene.ask(5);
        assert_eq!(scene.said(), "5 here");
        scene.crowds.crowds().get_mut(&key()).expect("there").served.clear();
        scene.ask(6);
        scene.ask(7);
        drop(scene.sending.remove(0));
        // It goes after its turn was told, and before it has heard of that.
        scene.waiting.remove(0);
        assert_eq!(scene.said(), "7 here");
    }
}
