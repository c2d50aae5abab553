//! Several workers on real connections: which are used again, and who is sent on to whom.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use super::*;
use crate::limits::{CROWD_SERVES_MAX, CROWD_SIZE_MIN};
use crate::objects::crowd::Turn;

/// Between a worker and those that ask it: counts their connections, and may cut them.
struct Way {
    place: TaskNode,
    used: Arc<AtomicUsize>,
    connections: Arc<Mutex<JoinSet<()>>>,
    accepting: JoinHandle<()>,
}

impl Way {
    async fn to(worker: &Listening) -> Way {
        let there = worker.place.address.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (used, connections) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<JoinSet<()>>>::default());
        let (count, all) = (used.clone(), connections.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let there = there.clone();
                all.lock().expect("no panic").spawn(async move {
                    let mut far = TcpStream::connect(there).await.expect("it listens");
                    drop(copy_bidirectional(&mut near, &mut far).await);
                });
            }
        });
        Way { place: TaskNode { address, ..worker.place.clone() }, used, connections, accepting }
    }

    async fn cut(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock().expect("no panic"));
        connections.shutdown().await;
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn fetch(to: &Listening, task: u32, content: Content, from: &TaskNode) -> Result<(), Unfetched> {
    let wanted = Wanted { key: key(task), content, holders: vec![from.clone()] };
    to.objects.fetch(&to.peer, wanted).await
}

#[test]
fn one_connection_serves_for_many_objects_and_is_made_anew_where_it_is_cut() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (from, to) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        let way = Way::to(&from).await;
        let give = |task| add(&from.objects.store, dir.path(), task, &bytes(1000)).expect("stored");
        for task in 1..=3 {
            assert_eq!(fetch(&to, task, give(task), &way.place).await, Ok(()));
        }
        assert_eq!(way.used(), 1);
        way.cut().await;
        assert_eq!(fetch(&to, 4, give(4), &way.place).await, Ok(()));
        assert_eq!(way.used(), 2);
        // Who is refused asks over a new one next time.
        assert!(fetch(&to, 9, content(b"x"), &way.place).await.is_err());
        assert_eq!(fetch(&to, 5, give(5), &way.place).await, Ok(()));
        assert_eq!(way.used(), 3);
    });
}

#[test]
fn fifty_readers_go_on_elsewhere_when_the_worker_is_gone_that_serves_them() {
    const READERS: usize = 50;
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (first, second) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        let bytes = bytes(3 << 20);
        for worker in [&first, &second] {
            add(&worker.objects.store, dir.path(), 1, &bytes).expect("stored");
        }
        let way = Way::to(&first).await;
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 0, keys: Some(keys) };
        let getter = Arc::new(get::Getter::new(Some(&endpoint), None));
        let Content { size, checksum, .. } = content(&bytes);
        let copy = ObjectCopy { object: object(1), instance: Instance(0), size, checksum, is_dir: false };
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let (getter, copy) = (getter.clone(), copy.clone());
            let holders = vec![way.place.clone(), second.place.clone()];
            readers.spawn(async move {
                let mut got = Got::default();
                getter.get(&copy, holders, &mut got).await.map(|()| got.bytes)
            });
        }
        while way.used() < READERS {
            yield_now().await;
        }
        way.accepting.abort();
        way.cut().await;
        while let Some(got) = readers.join_next().await {
            assert!(got.expect("no panic").expect("the other one gives it") == bytes);
        }
    });
}

#[test]
fn who_ends_each_connection_is_asked_over_new_ones() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (from, to) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        from.peer.keep_none();
        let way = Way::to(&from).await;
        for task in 1..=3 {
            let content = add(&from.objects.store, dir.path(), task, &bytes(1000)).expect("stored");
            assert_eq!(fetch(&to, task, content, &way.place).await, Ok(()));
        }
        assert_eq!(way.used(), 3);
    });
}

#[test]
fn who_asks_a_busy_worker_is_sent_on_to_another_that_has_got_it() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let workers: Vec<Listening> = (1..=4).map(|number| listening(dir.path(), number, &keys)).collect();
        let [first, second, third, fourth] = &workers[..] else { panic!("four") };
        let bytes = bytes(CROWD_SIZE_MIN as usize);
        let content = add(&first.objects.store, dir.path(), 1, &bytes).expect("stored");
        let way = Way::to(second).await;
        for reader in [third, fourth] {
            reader.peer.set_place("n", &reader.place.address);
        }
        assert_eq!(fetch(second, 1, content, &first.place).await, Ok(()));
        // As many are sent it as may be, one of which has got it.
        let crowds = &first.objects.crowds;
        let enter = |place: &TaskNode| match crowds.enter(&key(1), place.clone()) {
            Ok(Turn::Here(sending)) => sending,
            turn => panic!("{turn:?}"),
        };
        let mut sendings: Vec<_> = (0..CROWD_SERVES_MAX).map(|_| enter(&way.place)).collect();
        sendings.remove(0).end();
        sendings.push(enter(&first.place));
        assert_eq!(fetch(third, 1, content, &first.place).await, Ok(()));
        assert_eq!(way.used(), 1);
        // It has not got it any more: then it is had where it was asked for first.
        second.objects.store.remove(&object(1));
        assert_eq!(fetch(fourth, 1, content, &first.place).await, Ok(()));
        assert!(way.used() > 1);
    });
}

#[test]
fn who_asks_while_others_are_sent_it_waits_for_a_place() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (from, to) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        let content = add(&from.objects.store, dir.path(), 1, &bytes(CROWD_SIZE_MIN as usize));
        let content = content.expect("stored");
        to.peer.set_place("n2", &to.place.address);
        let crowds = &from.objects.crowds;
        let enter = || crowds.enter(&key(1), holder(7, String::new())).expect("a place");
        let sendings: Vec<Turn> = (0..CROWD_SERVES_MAX).map(|_| enter()).collect();
        let place_is_given = async {
            while crowds.waiting() == 0 {
                yield_now().await;
            }
            drop(sendings);
        };
        let (fetched, ()) = tokio::join!(fetch(&to, 1, content, &from.place), place_is_given);
        assert_eq!(fetched, Ok(()));
    });
}

#[test]
fn who_asks_for_what_is_just_coming_waits_for_it() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (from, to) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        let coming = &from.objects.coming;
        let of_this = || coming.lock().expect("no panic");
        of_this().insert(key(1), Vec::new());
        let it_comes = async {
            while of_this()[&key(1)].is_empty() {
                yield_now().await;
            }
            add(&from.objects.store, dir.path(), 1, b"abc").expect("stored");
            let waiting = of_this().remove(&key(1)).expect("it is coming");
            waiting.into_iter().for_each(|answer| answer.send(Ok(())).expect("it is waited for"));
        };
        let (fetched, ()) = tokio::join!(fetch(&to, 1, content(b"abc"), &from.place), it_comes);
        assert_eq!(fetched, Ok(()));
    });
}
