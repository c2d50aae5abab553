//! The server process: a shell of threads, sockets and files around the pure server machine.
//!
//! | thread | does |
//! |---|---|
//! | `hq-io`, `hq-io-workers` (one or two each, for clients and for workers) | accepts, encrypts, decodes, encodes |
//! | `hq-core` | decides: feeds the machine, sends its effects where they belong |
//! | `hq-planner` | plans where the simple case does not do |
//! | `hq-files` | looks for files that tasks wait for |
//! | `hq-logs` | appends what tasks print into logs |
//! | `hq-journal` | writes and syncs records in groups, lets out what waited for them |
//! | `hq-compact` (now and then) | writes the records that rebuild the present, in place of the journal's history |
//! | `hq-events` (from the first reader on) | sends clients what the journal holds |
//! | `hq-batch` (one a batch system in use) | runs its commands |
//! | `hq-notice` (one a notice that is sent) | sends it |
//!
//! A message passes one bounded queue to the deciding thread, one to the journal if it
//! must wait for the disk, and one to its peer. When a queue is full, whoever fills it waits, except the
//! deciding thread: a client that does not read is not read from, and at last disconnected.

mod access;
mod acks;
mod batch;
mod claim;
mod clock;
mod decide;
mod descriptors;
mod detach;
pub mod directory;
mod embedded;
mod error;
mod events;
mod files;
mod identity;
mod inbox;
mod journal_thread;
pub mod limits;
mod lines;
mod listener;
mod logs;
mod memory;
mod memory_size;
mod notices;
mod object_relay;
mod options;
mod outbox;
mod planner;
mod process;
mod pullers;
mod sendable;
mod signals;
mod throttle;

pub use access::{GenerateAccess, generate_access};
pub use detach::{Child, Detached, Started, close_inherited, detach};
pub use embedded::{Embedded, EmbeddedOptions, Reach};
pub use error::ServerError;
pub use identity::new_uid;
pub use options::{Durability, JournalPlace, ServerOptions};
pub use process::Running;

use process::Surroundings;

/// Starts a server of its own, on all interfaces and with the signals of this process. It answers when
/// this returns.
///
/// # Errors
/// When the directory has a living server, or something cannot be had.
pub fn start(options: ServerOptions) -> Result<Running, ServerError> {
    let around =
        Surroundings { address: hq_net::ANY_ADDRESS, default_host: identity::node_name, has_signals: true };
    Running::start(options, around)
}

/// Starts a server and waits for its end.
///
/// # Errors
/// When it does not start, or does not end well.
pub fn run(options: ServerOptions) -> Result<(), ServerError> {
    start(options)?.wait()
}
