//! What a quiet connection costs the server in memory, and how fast peers get in: encrypted and plain.
//!
//! Server and peers run in processes of their own, which this program starts from its own file.

#![allow(clippy::print_stdout)]

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use hq_net::{AccessFile, Endpoint, Listener, Role, connect};
use tokio::runtime::Builder;

const PEERS: usize = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peers", file] => peers(Path::new(file)),
        ["server", name] => server(name, name == "encrypted"),
        _ => {
            println!("{:>10} {:>14} {:>16}", "", "KiB per peer", "handshakes per s");
            // Each in a fresh process: memory that one has freed would hide what the other takes.
            for name in ["encrypted", "plain"] {
                again().args(["server", name]).status().expect("another process");
            }
        }
    }
}

fn again() -> Command {
    Command::new(std::env::current_exe().expect("this program"))
}

fn server(name: &str, encrypt: bool) {
    let mut file = AccessFile::generate("idle00", ("127.0.0.1", 0), ("127.0.0.1", 0), encrypt, encrypt);
    let path = std::env::temp_dir().join(format!("hq-idle-{}.json", std::process::id()));
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
        let endpoint = file.worker.as_mut().expect("a full file");
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = Listener::bind(address, 0, endpoint, Role::Worker).expect("a free port");
        *endpoint = Endpoint { port: listener.port(), ..endpoint.clone() };
        file.save(&path).expect("a writable directory for temporary files");
        let mut child =
            again().arg("peers").arg(&path).stdin(Stdio::piped()).spawn().expect("a second process");
        let before = resident_kib();
        let listener = Arc::new(listener);
        let (mut begin, mut handshakes) = (None, Vec::new());
        for _ in 0..PEERS {
            let (incoming, _) = listener.accept().await;
            begin.get_or_insert_with(Instant::now);
            let listener = listener.clone();
            handshakes.push(tokio::spawn(async move { listener.handshake(incoming).await }));
        }
        let mut connections = Vec::new();
        for handshake in handshakes {
            connections.push(handshake.await.expect("no panic").expect("the right key"));
        }
        let time = begin.expect("someone came").elapsed();
        let memory = (resident_kib() - before) as f64 / PEERS as f64;
        println!("{name:>10} {memory:>14.1} {:>16.0}", PEERS as f64 / time.as_secs_f64());
        drop(child.stdin.take());
        child.wait().expect("it ends");
    });
    std::fs::remove_file(&path).expect("it is there");
}

fn peers(path: &Path) {
    let file = AccessFile::load(path).expect("the file of the server");
    let endpoint = file.endpoint(Role::Worker).expect("a full file");
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
        let mut connections = Vec::new();
        for _ in 0..PEERS {
            connections.push(connect(endpoint, Role::Worker).await.expect("the right key"));
        }
        // Until the server has seen enough and closes our input.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("a pipe");
    });
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux machine");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory is listed");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number of KiB")
}
