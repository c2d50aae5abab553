//! Connections: each direction keeps its order and delays as the seed says; a connection can be cut,
//! or fall silent in one direction without anybody noticing.

use std::collections::BTreeMap;

use hq_model::Timestamp;

use crate::rng::Rng;

/// One connection between the server and a worker or client.
#[derive(Debug)]
pub struct Connection {
    /// Index of the worker or client.
    pub peer: usize,
    /// The peer is a worker.
    pub is_worker: bool,
    /// Nothing said by the server arrives any more.
    pub mute_down: bool,
    /// Nothing said by the peer arrives any more.
    pub mute_up: bool,
    last_down: Timestamp,
    last_up: Timestamp,
}

/// All connections by id.
#[derive(Debug, Default)]
pub struct Network {
    connections: BTreeMap<u64, Connection>,
    next: u64,
    delay_max: u64,
}

impl Network {
    /// No connections yet; messages take up to `delay_max` µs.
    pub fn new(delay_max: u64) -> Network {
        Network { delay_max, ..Network::default() }
    }

    /// Opens a connection.
    pub fn open(&mut self, peer: usize, is_worker: bool, now: Timestamp) -> u64 {
        self.next += 1;
        let connection =
            Connection { peer, is_worker, mute_down: false, mute_up: false, last_down: now, last_up: now };
        self.connections.insert(self.next, connection);
        self.next
    }

    /// The connection, if it is still there.
    pub fn get(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Ends a connection; what is under way is lost.
    pub fn close(&mut self, id: u64) -> Option<Connection> {
        self.connections.remove(&id)
    }

    /// True when nothing is on its way on a connection, and nothing is lost there.
    pub fn is_quiet(&self, id: u64, now: Timestamp) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let is_heard = connection.last_down < now && connection.last_up < now;
            is_heard && !connection.mute_down && !connection.mute_up
        })
    }

    /// Ids of all connections.
    pub fn ids(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    /// When a message sent now arrives; `None` when it never does.
    pub fn arrival(&mut self, id: u64, up: bool, now: Timestamp, rng: &mut Rng) -> Option<Timestamp> {
        let delay = rng.between(20, self.delay_max.max(20));
        let connection = self.connections.get_mut(&id)?;
        let (mute, last) = if up {
            (connection.mute_up, &mut connection.last_up)
        } else {
            (connection.mute_down, &mut connection.last_down)
        };
        if mute {
            return None;
        }
        *last = Timestamp(last.0.max(now.0 + delay));
        Some(*last)
    }
}
