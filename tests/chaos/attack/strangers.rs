//! Somebody without keys opens connections and says nothing, hundreds a second: whoever speaks is served all the same.

use std::fs;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{SERVER, WORKER, memory_mb, size};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

/// Connections that are opened in a second.
const RATE: u32 = 300;
/// Of these so many are held at once: fewer than a process may have open.
const HELD_MAX: usize = 900;
/// Whoever has to wait until a silent connection is given up waits that long: nobody may.
const GIVEN_UP: Duration = hq_net::limits::HANDSHAKE_TIME_MAX;
/// What the silent may cost the server, in megabytes.
const MEMORY_MB: f64 = 64.0;

/// Opens connections until it is dropped.
struct Strangers {
    opened: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Strangers {
    fn at(port: u16) -> Strangers {
        let (opened, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&opened), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            while !end.load(Ordering::Relaxed) {
                if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                    count.fetch_add(1, Ordering::Relaxed);
                    held.push_back(stream);
                    if held.len() > HELD_MAX {
                        held.pop_front();
                    }
                }
                std::thread::sleep(Duration::from_secs(1) / RATE);
            }
        });
        Strangers { opened, ends, thread: Some(thread) }
    }

    // Until there are so many, or more.
    fn wait_for(&self, count: usize) {
        until("strangers connect", || match self.opened.load(Ordering::Relaxed) {
            opened if opened >= count => Ok(()),
            opened => Err(format!("{opened} of {count}")),
        });
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It says itself what went wrong.
            let _ = thread.join();
        }
    }
}

// The ports of clients and workers.
fn ports(cluster: &Cluster) -> [u16; 2] {
    let text = fs::read_to_string(cluster.server_dir().join("hq-current/access.json"));
    let access: serde_json::Value = serde_json::from_str(&text.expect("an access file")).expect("JSON");
    ["client", "worker"].map(|role| access[role]["port"].as_u64().expect("a port") as u16)
}

#[test]
fn attack_silent_strangers_do_not_keep_clients_waiting() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let before = memory_mb(cluster.server_pid());
    let strangers = Strangers::at(ports(&cluster)[0]);
    strangers.wait_for(400);
    let requests = size(20, 400);
    let mut longest = Duration::ZERO;
    for number in 0..requests {
        let answer = cluster.ask(&["job", "list"]);
        assert!(answer.is_success(), "request {number} beside {} strangers: {answer:?}", strangers.opened());
        longest = longest.max(answer.time);
    }
    let grown = memory_mb(cluster.server_pid()) - before;
    eprintln!(
        "{} silent connections: {requests} of {requests} requests answered, the slowest after {longest:.0?}; \
         the server grew by {grown:.0} MB",
        strangers.opened()
    );
    assert!(grown < MEMORY_MB, "the server grew by {grown:.0} MB");
    assert!(longest < GIVEN_UP, "a request waited for a silent connection: {longest:.1?}");
}

#[test]
fn attack_silent_strangers_do_not_keep_workers_away() {
    let cluster = Cluster::start_with(Where::Relayed, SERVER, WORKER).expect("a cluster");
    let strangers = Strangers::at(ports(&cluster)[1]);
    strangers.wait_for(400);
    let cuts = size(3, 30);
    let mut submits = Vec::new();
    for cut in 0..cuts {
        submits.push(cluster.submit(u64::from(cut), 20));
        cluster.cut_relay();
        // They must all be seen again, beside as many new strangers as the first time.
        strangers.wait_for(strangers.opened() + 400);
    }
    submits.iter_mut().for_each(|submit| assert!(submit.finish().is_some(), "a submit was refused"));
    cluster.wait_for_all();
    for cut in 0..cuts {
        let runs = cluster.runs(u64::from(cut));
        assert_eq!(runs.len(), 20, "cut {cut}: every task ran");
        assert!(runs.values().all(|instances| instances.len() == 1), "cut {cut}: each ran once: {runs:?}");
    }
    let lost = cluster.ok(&["--output-mode", "quiet", "worker", "list", "--filter", "offline"]);
    assert_eq!(lost.lines().count(), 0, "no worker was lost");
    eprintln!("{} silent connections, {cuts} cuts of all workers: none was lost", strangers.opened());
}
