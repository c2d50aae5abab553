//! The process of a relay: programs in any language connect to its socket, create tasks, take them and say how they ended.
//!
//! One thread. What is decided is in [`hq_core::relay`]; here are the socket, the spellings of what is said there (frames,
//! lines of JSON and HTTP/1.1, told apart by the first byte), and the connections to the server: one as a worker for each bag that
//! somebody asks for, and two as a client. These may lead to the socket of another relay, which passes on what is said.

mod above;
mod answers;
mod bags;
mod base64;
mod below;
mod client;
mod connection;
mod contract;
mod frames;
mod half_said;
mod handle;
mod hop;
mod http;
pub mod limits;
mod numbers;
#[cfg(test)]
mod openapi_tests;
mod passage;
mod passing;
mod places;
mod rights;
mod server_link;
mod shared;
pub mod socket;
mod stream;
mod tunnel;

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tracing::{info, warn};

pub use above::Above;
pub use bags::{DEFAULT as DEFAULT_BAG, check_new_name as check_bag_name};
pub use base64::{decode as from_base64, encode as base64};
pub use hop::{ParentError, relays_above};
pub use passage::{PassageError, pass};
pub use rights::preface;
pub use socket::{Listening, SocketError};
pub use tunnel::{TunnelOptions, connect as connect_as_puller, run as run_tunnel};

/// How to run a relay.
#[derive(Debug)]
pub struct Options {
    /// The server, or another relay.
    pub above: Above,
    /// What the relay says of itself as a worker.
    pub config: WorkerConfig,
    /// It ends when nobody has said anything and nobody has had anything for so long.
    pub idle_timeout: Option<Duration>,
}

/// Why a relay could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Its socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The system refuses something that it needs.
    #[error("the relay cannot run here: {what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// What a relay is called by others, where it listens at this path.
pub fn name_of(hostname: &str, socket: &Path) -> String {
    format!("{hostname}:{}", socket.display())
}

/// Runs a relay until it is asked to end, its server has been stopped, or nobody needs it. To be called on a thread that
/// runs no other event loop.
///
/// # Errors
/// When the system refuses what it needs.
pub fn run(options: Options, listening: Listening) -> Result<(), RelayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RelayError::System { what: "no event loop", source })?;
    let result = LocalSet::new().block_on(&runtime, async {
        // A task as all others: what is beside them would be looked at whenever one of them is woken.
        match tokio::task::spawn_local(serve(options, listening)).await {
            Ok(served) => served,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    });
    runtime.shutdown_background();
    result
}

async fn serve(options: Options, mut listening: Listening) -> Result<(), RelayError> {
    let system = |what| move |source| RelayError::System { what, source };
    let listener = listening.listener().map_err(system("no event loop"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("no signal handlers"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(system("no signal handlers"))?;
    let secret = hq_net::worker_secret::draw().map_err(system("no randomness"))?;
    let own = name_of(&options.config.hostname, listening.path());
    let shared = shared::Shared::start(options, own, secret);
    let places = places::Places::new(1);
    let accepting =
        |listener| tokio::task::spawn_local(accept(listener, Rc::clone(&shared), Rc::clone(&places)));
    let mut accepted = accepting(listener);
    let mut look = tokio::time::interval(limits::SOCKET_LOOK_INTERVAL);
    let mut is_ending = false;
    let keeping = shared.keep_time();
    tokio::pin!(keeping);
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = &mut keeping => break,
            _ = look.tick(), if !is_ending => match listening.renew() {
                _ if shared.has_lost_its_server() => {
                    info!("{}", shared.way_up().how_it_ended());
                    break;
                }
                Ok(false) => continue,
                Ok(true) => {
                    warn!(path = %listening.path().display(), "the relay's socket had been removed, and is made again");
                    accepted.abort();
                    accepted = accepting(listening.listener().map_err(system("no event loop"))?);
                    continue;
                }
                // Nobody finds this one any more.
                Err(error @ SocketError::Taken { .. }) => warn!(%error, "the relay ends"),
                Err(error) => {
                    warn!(%error, "the relay's socket had been removed; that is tried again");
                    continue;
                }
            },
        }
        if std::mem::replace(&mut is_ending, true) {
            break;
        }
        info!("the relay gives back what is taken, and ends");
        shared.turn(|relay, now, effects| relay.interrupt(now, effects));
    }
    accepted.abort();
    shared.say_goodbye().await;
    Ok(())
}

async fn accept(listener: tokio::net::UnixListener, shared: Rc<shared::Shared>, places: Rc<places::Places>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match socket::check_peer(&stream) {
                Ok(()) => match places.take() {
                    Some(place) => {
                        tokio::task::spawn_local(connection::serve(stream, place, Rc::clone(&shared)));
                    }
                    None => places.turn_away(stream),
                },
                Err(error) => warn!(%error, "a connection is refused"),
            },
            Err(error) => {
                warn!(%error, "no connection can be taken at the moment (`ulimit -n`)");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}
