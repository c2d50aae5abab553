//! How fast frames go back and forth over loopback, encrypted and plain, and the ratio of the two.
//!
//! Both sides run on one thread each; plain and encrypted rounds alternate, the median of each counts.

#![allow(clippy::print_stdout)]

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use hq_net::{AccessFile, Endpoint, FrameReceiver, FrameSender, Listener, Role, connect};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

const ROUNDS: usize = 7;
/// Bytes of a frame, frames in flight, frames of a round.
const SHAPES: [(usize, usize, usize); 5] =
    [(64, 1, 20_000), (64, 64, 400_000), (1024, 64, 200_000), (16 << 10, 16, 40_000), (4 << 20, 2, 100)];

fn main() {
    println!("{:>9} {:>9} {:>14} {:>14} {:>7}", "bytes", "in flight", "plain µs", "encrypted µs", "ratio");
    for (size, in_flight, count) in SHAPES {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (times, encrypt) in times.iter_mut().zip([false, true]) {
                times.push(round(size, in_flight, count, encrypt));
            }
        }
        let [plain, encrypted] = times.map(|mut times| {
            times.sort();
            times[ROUNDS / 2].as_secs_f64() * 1e6 / count as f64
        });
        println!("{size:>9} {in_flight:>9} {plain:>14.2} {encrypted:>14.2} {:>7.2}", encrypted / plain);
    }
}

fn round(size: usize, in_flight: usize, count: usize, encrypt: bool) -> Duration {
    let mut file = AccessFile::generate("speed0", ("127.0.0.1", 0), ("127.0.0.1", 0), encrypt, encrypt);
    let (ready, port) = std::sync::mpsc::channel();
    let endpoint = file.worker.take().expect("a full file");
    let server = endpoint.clone();
    let echo = thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let listener = Listener::bind(address, 0, &server, Role::Worker).expect("a free port");
            ready.send(listener.port()).expect("the other thread waits");
            let (incoming, _) = listener.accept().await;
            let (sender, receiver) = listener.handshake(incoming).await.expect("the right key");
            answer(sender, receiver).await;
        });
    });
    let endpoint = Endpoint { port: port.recv().expect("it listens"), ..endpoint };
    let time = Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
        let (sender, receiver) = connect(&endpoint, Role::Worker).await.expect("the right key");
        ask(sender, receiver, size, in_flight, count).await
    });
    echo.join().expect("no panic");
    time
}

async fn answer(mut sender: FrameSender, mut receiver: FrameReceiver) {
    while let Some(frame) = receiver.next().await.expect("connected") {
        sender.send(&frame).await.expect("connected");
        while let Some(frame) = receiver.try_next().expect("connected") {
            sender.send(&frame).await.expect("connected");
        }
        sender.flush().await.expect("connected");
    }
}

async fn ask(
    mut sender: FrameSender,
    mut receiver: FrameReceiver,
    size: usize,
    in_flight: usize,
    count: usize,
) -> Duration {
    let frame = vec![7; size];
    let room = Semaphore::new(in_flight);
    let begin = Instant::now();
    // Side by side: two peers that both write and do not read would wait for each other.
    let write = async {
        let mut sent = 0;
        while sent < count {
            room.acquire().await.expect("never closed").forget();
            let more = room.forget_permits((count - sent - 1).min(in_flight));
            for _ in 0..=more {
                sender.send(&frame).await.expect("connected");
            }
            sent += 1 + more;
            sender.flush().await.expect("connected");
        }
        sender
    };
    let read = async {
        let mut received = 0;
        while received < count {
            receiver.next().await.expect("connected").expect("an echo");
            let mut more = 1;
            while receiver.try_next().expect("connected").is_some() {
                more += 1;
            }
            received += more;
            room.add_permits(more);
        }
    };
    let (sender, ()) = tokio::join!(write, read);
    let time = begin.elapsed();
    sender.close().await.expect("connected");
    time
}
