//! What tasks say to whoever waits for their jobs.

use super::*;
use crate::limits::{NOTIFY_TEXT_MAX, WORDS_KEPT_BYTES_MAX};
use crate::worker::WordsRefused;
use crate::worker_messages::TaskWords;

/// In words.
pub(super) fn told(words: &TaskWords) -> String {
    format!("says {}/{} {}", words.task, words.instance, words.text.escape_ascii())
}

impl World {
    pub(super) fn welcome_of(&mut self, idle_timeout: Option<Duration>, hears: bool) {
        let welcome = Welcome {
            worker: WorkerId(1),
            epoch: Epoch(1),
            server_uid: "abc123".into(),
            idle_timeout,
            hears,
        };
        self.step(Input::Server(ToWorker::Welcome(welcome)));
    }

    fn hears(&mut self, task: u32, text: &[u8]) -> Result<(), WordsRefused> {
        let task = TaskRef::new(JobId(1), TaskId(task));
        let heard = self.worker.hear(TaskWords { task, instance: Instance(2), text: text.to_vec() });
        self.step(Input::Tick);
        heard
    }
}

#[test]
fn what_is_said_while_the_server_is_away_is_told_in_order_and_before_the_ends() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 2, |_| {});
    world.did();
    assert_eq!(world.hears(0, b"first"), Ok(()));
    assert_eq!(world.did(), "says 1@0/2 first");
    world.step(Input::ServerLost);
    assert_eq!(world.hears(1, b"second"), Ok(()));
    assert_eq!(world.hears(0, b"third"), Ok(()));
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "");
    world.step(Input::ServerFound);
    world.did();
    world.welcome(None);
    let did = world.did();
    assert!(did.contains("says 1@1/2 second, says 1@0/2 third, finished 1:0"), "{did}");
    assert!(did.contains("says 1@0/2 first"), "nobody knows whether the server had it: {did}");
    world.saves();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.did();
    world.welcome(None);
    assert_eq!(world.did(), "", "it had all of that");
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 2, |_| {});
    world.step(Input::ServerLost);
    let text = [b'x'; NOTIFY_TEXT_MAX];
    let mut kept = 0;
    while world.hears(0, &text).is_ok() {
        kept += 1;
    }
    assert!((500..=WORDS_KEPT_BYTES_MAX / NOTIFY_TEXT_MAX).contains(&kept), "{kept}");
    assert_eq!(world.hears(0, &text), Err(WordsRefused::Full));
    world.step(Input::ServerFound);
    world.welcome(None);
    assert_eq!(world.hears(0, &text), Err(WordsRefused::Full), "the server may not have them");
    world.saves();
    assert_eq!(world.hears(0, &text), Ok(()));
}

#[test]
fn a_worker_that_ends_without_its_server_says_so() {
    let mut world = World::new(|config| config.on_server_lost = OnServerLost::Stop);
    world.run(1, "0", 2, |_| {});
    world.step(Input::ServerLost);
    assert_eq!(world.hears(0, b"no"), Err(WordsRefused::Ending));
    let mut world = World::new(|config| config.on_server_lost = OnServerLost::FinishRunning);
    world.run(1, "0", 2, |spec| spec.kill_grace = Duration::ZERO);
    world.step(Input::ServerLost);
    assert_eq!(world.hears(0, b"later"), Ok(()));
    world.end(1, 0, Outcome::Finished);
    assert!(!world.did().contains("exit"), "it looks for a server first");
}

#[test]
fn a_server_of_an_earlier_release_is_told_at_once_or_when_it_is_back() {
    let mut world = World::new(|_| {});
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.welcome_of(None, false);
    world.run(1, "0", 2, |_| {});
    world.did();
    assert_eq!(world.hears(0, b"now"), Ok(()));
    assert_eq!(world.did(), "notify 1@0");
    world.step(Input::ServerLost);
    assert_eq!(world.hears(0, b"then"), Ok(()));
    world.step(Input::ServerFound);
    world.did();
    world.welcome_of(None, false);
    assert_eq!(world.did(), "notify 1@0");
}
