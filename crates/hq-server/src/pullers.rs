//! Pullers on other nodes, who come to the port for clients: what they say is passed on to the relay of this node.
//!
//! That is a process beside the server, as for all others who take tasks, so that what is taken survives the server. It is told
//! of which bags somebody may speak before it hears anything of him.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hq_net::{AccessFile, FrameReceiver, FrameSender, NetError};
use hq_proto::{Passage, encode_passage};
use rustix::net::sockopt::socket_peercred;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::error::ServerError;
use crate::limits::{RELAY_PAUSE, RELAY_START_TIME};

/// A relay that was started for pullers ends when nobody has needed it for so long.
const RELAY_IDLE: &str = "10m";
/// Most bytes of what one says that does not start.
const RELAY_WORDS_MAX: u64 = 4096;

/// All that is done for pullers.
#[derive(Debug)]
pub(crate) struct Pullers {
    hq: PathBuf,
    server_dir: PathBuf,
    // Where the relay of this node listens.
    socket: PathBuf,
    bags: Vec<String>,
    // One is started at a time.
    starting: Mutex<()>,
}

impl Pullers {
    /// For the server of a directory.
    ///
    /// # Errors
    /// When it is not known what program this is.
    pub(crate) fn new(server_dir: &Path, access: &AccessFile) -> Result<Pullers, ServerError> {
        let hq = std::env::current_exe();
        Ok(Pullers {
            hq: hq.map_err(ServerError::system("the path of this program is not known"))?,
            server_dir: server_dir.to_owned(),
            socket: hq_pull::socket::path_to(access),
            bags: access.pull_bags.clone(),
            starting: Mutex::default(),
        })
    }

    /// Passes on what one of them says and is answered, until one side has gone.
    ///
    /// # Errors
    /// Says how it ended.
    pub(crate) async fn serve(
        &self,
        mut sender: FrameSender,
        receiver: FrameReceiver,
    ) -> Result<(), NetError> {
        let (passage, relay) = match self.relay().await {
            Ok((stream, relay)) => (Passage::Relay(relay), Some(stream)),
            Err(error) => {
                warn!(error, "no relay can be had for pullers");
                (Passage::Refused(error), None)
            }
        };
        sender.send(&encode_passage(&passage)).await?;
        sender.flush().await?;
        match relay {
            Some(relay) => hq_pull::pass(relay, sender, receiver).await,
            None => sender.close().await,
        }
    }

    // A connection to the relay that has been told what may be said there, and its process.
    async fn relay(&self) -> Result<(UnixStream, u32), String> {
        let stream = match self.connect() {
            Ok(stream) => stream,
            Err(_) => self.start().await?,
        };
        let introduce = async {
            let relay = socket_peercred(&stream)?.pid.as_raw_nonzero().get();
            stream.set_nonblocking(true)?;
            let mut stream = UnixStream::from_std(stream)?;
            stream.write_all(&hq_pull::preface(&self.bags)).await?;
            Ok((stream, relay.unsigned_abs()))
        };
        introduce.await.map_err(|error: std::io::Error| format!("the relay does not listen: {error}"))
    }

    fn connect(&self) -> std::io::Result<std::os::unix::net::UnixStream> {
        hq_pull::socket::connect(&self.socket)
    }

    async fn start(&self) -> Result<std::os::unix::net::UnixStream, String> {
        let _one_at_a_time = self.starting.lock().await;
        if let Ok(stream) = self.connect() {
            return Ok(stream);
        }
        let said = timeout(RELAY_START_TIME, self.begin()).await;
        said.map_err(|_| "it does not start in time".to_owned())??;
        let begin = Instant::now();
        loop {
            match self.connect() {
                Ok(stream) => return Ok(stream),
                // One that was there already may have to make its socket again.
                Err(_) if begin.elapsed() < RELAY_START_TIME => sleep(RELAY_PAUSE).await,
                Err(error) => {
                    return Err(format!("it does not listen at {}: {error}", self.socket.display()));
                }
            }
        }
    }

    // Starts a relay, and waits until it says that it listens, or that another one does.
    async fn begin(&self) -> Result<(), String> {
        let words = ["pull", "relay", "--background", "--idle-timeout", RELAY_IDLE].map(OsString::from);
        let begun = Command::new(&self.hq)
            .arg("--server-dir")
            .arg(&self.server_dir)
            .args(words)
            .env_remove("HQ_PULL_SOCKET")
            .env_remove("HQ_OUTPUT_MODE")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = begun.map_err(|error| format!("{} cannot be run: {error}", self.hq.display()))?;
        let mut said = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut said).await.map_err(|error| error.to_string())?;
        }
        if !said.is_empty() {
            info!(relay = ?child.id(), "a relay was started for pullers");
            drop(child.stderr.take());
            // So that it does not stay in the table of processes when it ends.
            tokio::spawn(async move { child.wait().await });
            return Ok(());
        }
        let mut text = String::new();
        if let Some(err) = child.stderr.take() {
            err.take(RELAY_WORDS_MAX).read_to_string(&mut text).await.map_err(|error| error.to_string())?;
        }
        // It has closed its output: it ends.
        let _ = child.wait().await;
        match text.contains("listens at") {
            true => Ok(()),
            false => Err(text.trim().trim_start_matches("ERROR ").to_owned()),
        }
    }
}
