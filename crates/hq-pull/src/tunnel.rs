//! Pullers on a node whose access file lets them take tasks and do nothing else: without a relay of their own.
//!
//! A command has a way to the server for itself; for programs in any language a process listens where they look for a relay, and
//! opens one for each of them.

use std::cell::Cell;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hq_net::AccessFile;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, LocalSet};
use tracing::{debug, info, warn};

use crate::contract::Problem;
use crate::passage::{self, PassageError};
use crate::places::{self, Places};
use crate::socket::{Listening, SocketError, check_peer};
use crate::{RelayError, limits};

/// A connection to the relay of a server, for this process, and the process of that relay. A thread passes on what is said, as
/// long as this process lives.
///
/// # Errors
/// When the server cannot be reached, refuses it, or has no relay.
pub fn connect(access: &Path) -> Result<(BlockingStream, u32), PassageError> {
    let access = AccessFile::load(access)?;
    let (ours, theirs) = BlockingStream::pair()?;
    theirs.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (tell, told) = mpsc::channel::<Result<u32, PassageError>>();
    std::thread::Builder::new().name("hq-passage".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let opened = async {
                let socket = UnixStream::from_std(theirs)?;
                Ok::<_, PassageError>((passage::open(&access).await?, socket))
            };
            match opened.await {
                Ok((way, socket)) => {
                    // Whoever asked waits.
                    let _ = tell.send(Ok(way.relay));
                    if let Err(error) = way.pass(socket).await {
                        debug!(%error, "the way to the server has ended");
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    })?;
    let relay = told.recv().map_err(|_| PassageError::Cut("its thread has died".to_owned()))??;
    Ok((ours, relay))
}

/// How to listen for pullers of a node.
#[derive(Debug)]
pub struct TunnelOptions {
    /// Their access file, read again for each of them.
    pub access: PathBuf,
    /// It ends when nobody has been there for so long.
    pub idle_timeout: Option<Duration>,
}

// What all connections share.
struct Tunnel {
    access: PathBuf,
    places: Rc<Places>,
    connections: Cell<usize>,
    last_used: Cell<Instant>,
}

/// Listens where a relay would, and opens a way to the server for each that comes, until it is asked to end, there is no access
/// file any more, or nobody needs it. To be called on a thread that runs no other event loop.
///
/// # Errors
/// When the system refuses what it needs.
pub fn run(options: TunnelOptions, listening: Listening) -> Result<(), RelayError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| RelayError::System { what: "no event loop", source })?;
    let result = LocalSet::new().block_on(&runtime, serve(options, listening));
    runtime.shutdown_background();
    result
}

async fn serve(options: TunnelOptions, mut listening: Listening) -> Result<(), RelayError> {
    let system = |what| move |source| RelayError::System { what, source };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("no signal handlers"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(system("no signal handlers"))?;
    let tunnel = Rc::new(Tunnel {
        access: options.access,
        // Each needs a way to the server, too.
        places: Places::new(2),
        connections: Cell::new(0),
        last_used: Cell::new(Instant::now()),
    });
    let accept = |listening: &Listening| -> Result<JoinHandle<()>, RelayError> {
        let listener = listening.listener().map_err(system("no event loop"))?;
        Ok(tokio::task::spawn_local(accept(listener, Rc::clone(&tunnel))))
    };
    let mut accepting = accept(&listening)?;
    let mut look = tokio::time::interval(limits::SOCKET_LOOK_INTERVAL);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = look.tick() => {}
        }
        if tunnel.is_idle_for(options.idle_timeout) || !tunnel.access.exists() {
            info!("nobody needs this any more, or the access file has gone");
            return Ok(());
        }
        match listening.renew() {
            Ok(false) => {}
            Ok(true) => {
                accepting.abort();
                accepting = accept(&listening)?;
            }
            Err(error @ SocketError::Taken { .. }) => {
                warn!(%error, "nobody finds this one any more");
                return Ok(());
            }
            Err(error) => warn!(%error, "the socket had been removed; that is tried again"),
        }
    }
}

impl Tunnel {
    fn is_idle_for(&self, time: Option<Duration>) -> bool {
        self.connections.get() == 0 && time.is_some_and(|time| self.last_used.get().elapsed() >= time)
    }

    fn count(&self, by: isize) {
        self.connections.set(self.connections.get().saturating_add_signed(by));
        self.last_used.set(Instant::now());
    }
}

async fn accept(listener: UnixListener, tunnel: Rc<Tunnel>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match check_peer(&stream) {
                Ok(()) => match tunnel.places.take() {
                    Some(place) => {
                        let tunnel = Rc::clone(&tunnel);
                        tokio::task::spawn_local(async move {
                            tunnel.count(1);
                            pass_on(&tunnel, stream).await;
                            tunnel.count(-1);
                            drop(place);
                        });
                    }
                    None => tunnel.places.turn_away(stream),
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

async fn pass_on(tunnel: &Tunnel, mut stream: UnixStream) {
    let opened = async { passage::open(&AccessFile::load(&tunnel.access)?).await };
    let ended = match opened.await {
        Ok(way) => way.pass(stream).await.map_err(|error| error.to_string()),
        Err(error) => places::refuse(&mut stream, Problem::new("no-server", error.to_string()))
            .await
            .map_err(|error| error.to_string()),
    };
    if let Err(error) = ended {
        debug!(error, "a connection has ended");
    }
}
