//! Holders that are made up: who is asked for what, and who is to blame when it does not come.

use super::*;

/// What a made-up worker does when it is asked.
#[derive(Clone, Copy)]
pub(super) enum Does {
    SendAll,
    /// It cannot be reached, and by way of the server it sends everything, or half of it, or refuses.
    ComeByServer,
    ComeByServerOnce,
    StayAway,
    SendWrongly,
    SendOnePiece,
    Refuse,
    /// The second one has it, too; who does not go there is sent it.
    SendOn,
}

#[derive(Default)]
pub(super) struct MadeUp {
    pub(super) does: BTreeMap<WorkerId, Does>,
    pub(super) bytes: Vec<u8>,
    pub(super) asked: Mutex<Vec<(u32, u64)>>,
}

impl MadeUp {
    fn pieces(&self, does: Does, offset: u64) -> Vec<FromNode> {
        let mut pieces = Vec::new();
        for (number, piece) in self.bytes.chunks(4).enumerate() {
            let at = number as u64 * 4;
            let mut bytes = piece.to_vec();
            if matches!(does, Does::SendWrongly) {
                bytes[0] ^= 1;
            }
            let is_last = at + bytes.len() as u64 == self.bytes.len() as u64;
            if at >= offset {
                pieces.push(FromNode::Piece { offset: at, bytes, is_last });
            }
        }
        match does {
            Does::SendOnePiece | Does::ComeByServerOnce => pieces.truncate(1),
            Does::Refuse => pieces = vec![FromNode::Refused { process: 0, reason: "no".into() }],
            Does::SendOn => pieces = vec![FromNode::Busy { others: vec![holder(2, String::new())] }],
            Does::SendAll | Does::SendWrongly | Does::ComeByServer | Does::StayAway => {}
        }
        pieces
    }
}

impl Peer for MadeUp {
    async fn ask(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, Unreached> {
        self.asked.lock().expect("no panic").push((place.worker.0, fetch.offset));
        if let Does::ComeByServer | Does::ComeByServerOnce | Does::StayAway = self.does[&place.worker] {
            return Err(Unreached::NoWay("it is far away".to_owned()));
        }
        Ok(self.gives(place.worker, &fetch))
    }

    async fn ask_by_server(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, String> {
        assert_eq!(fetch.from, None, "it is not sent on to where it cannot go");
        self.asked.lock().expect("no panic").push((BY_SERVER + place.worker.0, fetch.offset));
        match self.does[&place.worker] {
            Does::StayAway => Err("it did not come".to_owned()),
            _ => Ok(self.gives(place.worker, &fetch)),
        }
    }

    fn has_server(&self) -> bool {
        true
    }

    fn place(&self) -> Option<TaskNode> {
        Some(holder(99, String::new()))
    }
}

// In lists of who was asked.
const BY_SERVER: u32 = 100;

impl MadeUp {
    fn gives(&self, worker: WorkerId, fetch: &Fetch) -> Connection {
        let (near, far) = tokio::io::duplex(1 << 10);
        let (far_read, far_write) = tokio::io::split(far);
        let (mut sender, _) = frames_over(far_read, far_write, Role::Worker);
        let does = match self.does[&worker] {
            Does::SendOn if fetch.from.is_none() => Does::SendAll,
            does => does,
        };
        let pieces = self.pieces(does, fetch.offset);
        tokio::spawn(async move {
            for piece in pieces {
                if sender.send(&encode_from_node(&piece)).await.is_err() {
                    return;
                }
            }
            drop(sender.close().await);
        });
        let (read, write) = tokio::io::split(near);
        frames_over(read, write, Role::Worker)
    }
}

// What workers do that are asked in this order, whom that asks for which offset, and who is to blame at the end.
fn check(does: &[Does], asked: &[(u32, u64)], blamed: Option<&[u32]>) {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, _lost) = store(dir.path(), 100);
        let objects = Objects::new(store);
        let bytes = bytes(10);
        let holders: Vec<TaskNode> =
            (1..=does.len() as u32).map(|worker| holder(worker, String::new())).collect();
        let does = holders.iter().map(|place| place.worker).zip(does.iter().copied()).collect();
        let made_up = Arc::new(MadeUp { does, bytes: bytes.clone(), ..MadeUp::default() });
        let wanted = Wanted { key: key(1), content: content(&bytes), holders };
        // Two readers on this node.
        let both =
            tokio::join!(objects.fetch(&made_up, wanted.clone()), objects.fetch(&made_up, wanted.clone()));
        let found = both.0.as_ref().err().map(|error| error.holders.iter().map(|worker| worker.0).collect());
        assert_eq!(found, blamed.map(<[u32]>::to_vec), "{both:?}");
        assert_eq!(both.0, both.1);
        assert_eq!(*made_up.asked.lock().expect("no panic"), asked);
        let stored = objects.store.content(&key(1));
        assert_eq!(stored, blamed.is_none().then_some(wanted.content));
    });
}

#[test]
fn two_readers_fetch_once() {
    check(&[Does::SendAll, Does::SendAll], &[(1, 0)], None);
}

#[test]
fn the_next_holder_goes_on_where_one_was_cut() {
    use Does::{Refuse, SendAll, SendOnePiece};
    check(&[SendOnePiece, Refuse, SendAll], &[(1, 0), (2, 4), (3, 4)], None);
    check(&[SendOnePiece], &[(1, 0), (1, 4), (1, 8)], None);
}

#[test]
fn who_cannot_be_reached_is_asked_by_way_of_the_server_after_all_others() {
    use Does::{ComeByServer, ComeByServerOnce, Refuse, SendAll, SendOnePiece, StayAway};
    check(&[ComeByServer, SendAll], &[(1, 0), (2, 0)], None);
    check(&[ComeByServer, Refuse], &[(1, 0), (2, 0), (101, 0)], None);
    check(&[SendOnePiece, StayAway, ComeByServer], &[(1, 0), (2, 4), (3, 4), (102, 4), (103, 4)], None);
    // Cut in the middle: from the beginning of the list, from where it stopped.
    check(&[ComeByServerOnce], &[(1, 0), (101, 0), (1, 4), (101, 4), (1, 8), (101, 8)], None);
    check(&[StayAway, Refuse], &[(1, 0), (2, 0), (101, 0)], Some(&[2, 1]));
}

#[test]
fn who_was_not_reached_is_named_with_both_reasons() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, _lost) = store(dir.path(), 100);
        let objects = Objects::new(store);
        let does = [(WorkerId(1), Does::StayAway)].into();
        let made_up = Arc::new(MadeUp { does, bytes: bytes(10), ..MadeUp::default() });
        let wanted =
            Wanted { key: key(1), content: content(&bytes(10)), holders: vec![holder(1, String::new())] };
        let unfetched = objects.fetch(&made_up, wanted).await.expect_err("nobody gives it");
        let reason = "worker 1: it is far away; by way of the server: it did not come";
        assert_eq!(unfetched, Unfetched { holders: vec![WorkerId(1)], reason: reason.to_owned() });
    });
}

#[test]
fn who_sends_wrong_bytes_is_named() {
    use Does::{Refuse, SendAll, SendOnePiece, SendWrongly};
    check(&[SendWrongly, SendAll], &[(1, 0), (2, 0)], None);
    check(&[SendWrongly, Refuse], &[(1, 0), (2, 0)], Some(&[1, 2]));
    check(&[SendOnePiece, SendWrongly], &[(1, 0), (2, 4), (2, 0)], Some(&[1, 2]));
}

#[test]
fn who_is_sent_on_goes_there_and_comes_back_but_not_for_ever() {
    use Does::{Refuse, SendAll, SendOn};
    check(&[SendOn, SendAll], &[(1, 0), (2, 0)], None);
    let mut asked = [(1, 0), (2, 0)].repeat(crate::limits::SENT_ON_MAX as usize);
    asked.push((1, 0));
    check(&[SendOn, Refuse], &asked, None);
}

#[test]
fn an_object_for_which_there_is_no_room_is_not_asked_for() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, _lost) = store(dir.path(), 5);
        let objects = Objects::new(store);
        let wanted =
            Wanted { key: key(1), content: content(&bytes(10)), holders: vec![holder(1, String::new())] };
        let unfetched = objects.fetch(&Arc::new(MadeUp::default()), wanted).await.expect_err("no room");
        assert_eq!(unfetched.holders, [WorkerId(0); 0]);
        assert!(unfetched.reason.starts_with("10 bytes can never fit"), "{}", unfetched.reason);
    });
}
