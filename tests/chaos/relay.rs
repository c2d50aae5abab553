//! Stands between workers and their server, and passes on what they say some time later: the kernel has no delay to
//! offer everywhere.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A relay; its threads end with the connections.
pub(crate) struct Relay {
    port: u16,
    // Both ends of each connection since the last cut.
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Listens on a port of the loopback, and passes on to `server` what arrives there, `delay` later.
    pub(crate) fn start(server: u16, delay: Duration) -> std::io::Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let streams = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&streams);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let ends = [(&client, &server), (&server, &client)];
                for (from, to) in ends {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    pass_on(from, to, delay);
                }
                if let Ok(mut known) = known.lock() {
                    known.extend([client, server]);
                }
            }
        });
        Ok(Relay { port, streams })
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were made since the last cut.
    pub(crate) fn connections(&self) -> usize {
        self.streams.lock().map_or(0, |streams| streams.len() / 2)
    }

    /// Cuts all connections; what is under way is lost.
    pub(crate) fn cut(&self) {
        let Ok(mut streams) = self.streams.lock() else { return };
        for stream in streams.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
