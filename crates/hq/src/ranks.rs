//! The direct start: the ranks of a task are started by the workers of its nodes, watched from here, and end together.

use hq_model::counted;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use hq_core::node_messages::{FromNode, ProcessEnd, Rank, StartProcess, ToNode};
use hq_worker::ranks::client::{Asking, Node, NodeError};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::HqError;
use crate::render::StandardOutput;
use crate::signals::Signals;

/// Between SIGTERM and SIGKILL for ranks whose task is over.
const GRACE: Duration = Duration::from_secs(5);
/// How long the ends of killed ranks are waited for.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Between the loss of a node and the failure that follows from it.
const LOST_NODE_WAIT: Duration = Duration::from_secs(2);
/// What a rank has written of a line is passed on at this length, in bytes.
const LINE_MAX: usize = 64 << 10;
/// Words of nodes that wait to be taken in.
const QUEUE: usize = 256;
const SIGTERM: u8 = 15;
// Those that are to end a program: SIGHUP, SIGINT, SIGTERM.
const ENDING: [u8; 3] = [1, 2, SIGTERM];
const SIGKILL: u8 = 9;

/// What to start.
pub(crate) struct Program {
    /// Program and arguments of each rank.
    pub args: Vec<OsString>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// When all must have started.
    pub start_timeout: Duration,
}

/// Starts the ranks and waits for their end. Returns the exit status: that of the first rank that failed.
pub(crate) fn start(program: Program) -> Result<u8, HqError> {
    runtime()?.block_on(async {
        let mut launch = Launch::begin(program)?;
        launch.run().await
    })
}

/// Runs a command in a shell on a node of the task, passes on what it writes, and returns its exit status.
pub(crate) fn run_on(node: u32, command: OsString) -> Result<u8, HqError> {
    runtime()?.block_on(async {
        let args = vec![b"/bin/sh".to_vec(), b"-c".to_vec(), command.into_vec()];
        let (mut asking, mut saying) = Node::open(&access_key()?, node).await.map_err(node_error)?.split();
        let start = StartProcess { process: 0, rank: None, args, env: environment(), cwd: directory()? };
        asking.ask(&ToNode::Start(start)).await.map_err(node_error)?;
        let mut signals = signals()?;
        loop {
            let said = tokio::select! {
                said = saying.next() => said.map_err(node_error)?,
                number = signals.next() => {
                    asking.ask(&ToNode::Signal { process: 0, signal: number }).await.map_err(node_error)?;
                    continue;
                }
            };
            match said {
                // Pieces are of objects, which are not asked for here.
                FromNode::Started { .. }
                | FromNode::Piece { .. }
                | FromNode::Busy { .. }
                | FromNode::Put { .. } => {}
                FromNode::Output { is_error, bytes, .. } => write(is_error, &bytes)?,
                FromNode::Ended { end, .. } => return Ok(status(end)),
                FromNode::Refused { reason, .. } => return Err(HqError::failed("no-start", reason)),
            }
        }
    })
}

struct Launch {
    names: Vec<String>,
    ranks: Vec<RankState>,
    words: mpsc::Receiver<Word>,
    asking: BTreeMap<u32, Asking>,
    signals: Signals,
    start_until: Instant,
    // The first failure: the exit status, and what happened.
    failure: Option<(u8, String)>,
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
    has_lost_node: bool,
}

#[derive(Default)]
struct RankState {
    node: u32,
    has_started: bool,
    has_ended: bool,
    // The beginning of a line, of standard output and error.
    lines: [Vec<u8>; 2],
}

enum Word {
    Open(u32, Asking),
    Said(u32, FromNode),
    Lost(u32, NodeError),
}

impl Launch {
    fn begin(program: Program) -> Result<Launch, HqError> {
        let Program { args, nodes: names, ranks_per_node, start_timeout } = program;
        let count = names.len() as u32 * ranks_per_node;
        let (key, env, cwd) = (access_key()?, environment(), directory()?);
        let args: Vec<Vec<u8>> = args.into_iter().map(OsString::into_vec).collect();
        let (sender, words) = mpsc::channel(QUEUE);
        let signals = signals()?;
        for node in 0..names.len() as u32 {
            let starts = (0..ranks_per_node).map(|local| StartProcess {
                process: node * ranks_per_node + local,
                rank: Some(Rank { local, rank: node * ranks_per_node + local, ranks: count }),
                args: args.clone(),
                env: env.clone(),
                cwd: cwd.clone(),
            });
            let (key, starts, sender) = (key.clone(), starts.collect(), sender.clone());
            tokio::spawn(async move {
                if let Err(error) = follow(&key, node, starts, start_timeout, &sender).await {
                    // When nobody listens the launch is over.
                    let _ = sender.send(Word::Lost(node, error)).await;
                }
            });
        }
        let rank = |rank| RankState { node: rank / ranks_per_node, ..RankState::default() };
        Ok(Launch {
            ranks: (0..count).map(rank).collect(),
            names,
            words,
            asking: BTreeMap::new(),
            signals,
            start_until: Instant::now() + start_timeout,
            failure: None,
            kill_at: None,
            give_up_at: None,
            has_lost_node: false,
        })
    }

    async fn run(&mut self) -> Result<u8, HqError> {
        while self.ranks.iter().any(|rank| !rank.has_ended) {
            let is_starting = self.failure.is_none() && self.ranks.iter().any(|rank| !rank.has_started);
            let until = if is_starting { Some(self.start_until) } else { None };
            let wakeup = [until, self.kill_at, self.give_up_at].into_iter().flatten().min();
            tokio::select! {
                word = self.words.recv() => match word {
                    Some(word) => self.take(word).await?,
                    None => break,
                },
                number = self.signals.next() => self.signaled(number).await,
                () = sleep_until(wakeup.unwrap_or_else(Instant::now)), if wakeup.is_some() => {
                    let now = Instant::now();
                    if until.is_some_and(|until| until <= now) {
                        self.fail_to_start().await;
                    }
                    if self.kill_at.take_if(|at| *at <= now).is_some() {
                        self.signal_all(SIGKILL).await;
                        self.give_up_at = Some(now + LAST_WAIT);
                    }
                    if self.give_up_at.is_some_and(|at| at <= now) {
                        break;
                    }
                }
            }
        }
        for rank in 0..self.ranks.len() {
            self.flush_lines(rank)?;
        }
        if self.has_lost_node {
            // The server starts the task again when it knows that a node is gone; it should hear of that first.
            tokio::time::sleep(LOST_NODE_WAIT).await;
        }
        match self.failure.take() {
            Some((exit, text)) => Err(HqError { exit, ..HqError::failed("rank-failed", text) }),
            None => Ok(0),
        }
    }

    async fn take(&mut self, word: Word) -> Result<(), HqError> {
        match word {
            Word::Open(node, asking) => {
                self.asking.insert(node, asking);
                if self.failure.is_some() {
                    // Too late: nothing is to start any more.
                    self.signal_all(SIGKILL).await;
                }
            }
            Word::Said(node, said) => self.said(node, said).await?,
            Word::Lost(node, error) => {
                let name = self.names[node as usize].clone();
                let left = self.ranks.iter().filter(|rank| rank.node == node && !rank.has_ended).count();
                if left > 0 {
                    self.fail(1, format!("node {node} ({name}) with {}: {error}", counted(left, "rank")))
                        .await;
                    self.has_lost_node = true;
                }
                self.asking.remove(&node);
                for rank in self.ranks.iter_mut().filter(|rank| rank.node == node) {
                    rank.has_ended = true;
                }
            }
        }
        Ok(())
    }

    async fn said(&mut self, node: u32, said: FromNode) -> Result<(), HqError> {
        let name = self.names[node as usize].clone();
        match said {
            FromNode::Started { process } => {
                if let Some(rank) = self.ranks.get_mut(process as usize) {
                    rank.has_started = true;
                }
            }
            // Of objects, which are not asked for here.
            FromNode::Piece { .. } | FromNode::Busy { .. } | FromNode::Put { .. } => {}
            FromNode::Output { process, is_error, bytes } => {
                self.output(process as usize, is_error, &bytes)?
            }
            FromNode::Refused { process, reason } => {
                if let Some(rank) = self.ranks.get_mut(process as usize) {
                    rank.has_ended = true;
                }
                self.fail(1, format!("rank {process} on node {node} ({name}) did not start: {reason}")).await;
            }
            FromNode::Ended { process, end } => {
                let Some(rank) = self.ranks.get_mut(process as usize) else { return Ok(()) };
                rank.has_ended = true;
                self.flush_lines(process as usize)?;
                let how = match end {
                    ProcessEnd::Exited(0) => return Ok(()),
                    ProcessEnd::Exited(code) => format!("terminated with exit code {code}"),
                    ProcessEnd::Signaled(number) => format!("was killed by signal {number}"),
                };
                self.fail(status(end), format!("rank {process} on node {node} ({name}) {how}")).await;
            }
        }
        Ok(())
    }

    async fn fail_to_start(&mut self) {
        let missing: Vec<String> = (self.ranks.iter().enumerate())
            .filter(|(_, rank)| !rank.has_started)
            .map(|(number, rank)| format!("{number} on {}", self.names[rank.node as usize]))
            .collect();
        let shown = missing.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
        let more = if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
        self.fail(1, format!("these ranks did not start in time: {shown}{more}")).await;
        for rank in self.ranks.iter_mut().filter(|rank| !rank.has_started) {
            rank.has_ended = true;
        }
    }

    // The first failure is the one that is told. The other ranks end.
    async fn fail(&mut self, exit: u8, text: String) {
        if self.failure.is_none() {
            self.failure = Some((exit, text));
            self.signal_all(SIGTERM).await;
            self.kill_at = Some(Instant::now() + GRACE);
        }
    }

    // What is sent to this process is for all ranks. Where it ends them, those of nodes that were not reached do not start any
    // more: perhaps nobody answers there, because the task was canceled.
    async fn signaled(&mut self, number: u8) {
        self.signal_all(number).await;
        if ENDING.contains(&number) && self.asking.len() < self.names.len() {
            let text = format!("signal {number} came before all ranks had started");
            self.failure.get_or_insert((128 + number, text));
            for rank in &mut self.ranks {
                rank.has_ended |= !self.asking.contains_key(&rank.node);
            }
        }
    }

    async fn signal_all(&mut self, number: u8) {
        for (process, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| !rank.has_ended) {
            if let Some(asking) = self.asking.get_mut(&rank.node) {
                // A node that is lost is told of by the one who listens to it.
                let _ = asking.ask(&ToNode::Signal { process: process as u32, signal: number }).await;
            }
        }
    }

    // Line by line, so that those of several ranks do not mix.
    fn output(&mut self, rank: usize, is_error: bool, bytes: &[u8]) -> io::Result<()> {
        let Some(state) = self.ranks.get_mut(rank) else { return Ok(()) };
        let line = &mut state.lines[usize::from(is_error)];
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if line.len() + bytes.len() > LINE_MAX => bytes.len(),
            None => 0,
        };
        if whole > 0 {
            line.extend_from_slice(&bytes[..whole]);
            write(is_error, line)?;
            line.clear();
        }
        line.extend_from_slice(&bytes[whole..]);
        Ok(())
    }

    fn flush_lines(&mut self, rank: usize) -> io::Result<()> {
        for (channel, line) in self.ranks[rank].lines.iter_mut().enumerate() {
            write(channel == 1, line)?;
            line.clear();
        }
        Ok(())
    }
}

async fn follow(
    key: &[u8],
    node: u32,
    starts: Vec<StartProcess>,
    start_timeout: Duration,
    words: &mpsc::Sender<Word>,
) -> Result<(), NodeError> {
    let opened = timeout(start_timeout, Node::open(key, node)).await;
    let (mut asking, mut saying) = opened.map_err(|_| NodeError::Lost { node })??.split();
    for start in starts {
        asking.ask(&ToNode::Start(start)).await?;
    }
    // When nobody listens the launch is over.
    let _ = words.send(Word::Open(node, asking)).await;
    loop {
        let said = saying.next().await?;
        if words.send(Word::Said(node, said)).await.is_err() {
            return Ok(());
        }
    }
}

// What the ranks of a task get, too.
fn signals() -> io::Result<Signals> {
    Signals::of(&[
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ])
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn access_key() -> Result<Vec<u8>, HqError> {
    let key = std::env::var_os("HQ_ACCESS_KEY").unwrap_or_default().into_vec();
    if key.is_empty() { Err(node_error(NodeError::Key)) } else { Ok(key) }
}

fn environment() -> Vec<Vec<u8>> {
    let variables = std::env::vars_os().map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'='));
    variables.collect()
}

fn directory() -> Result<Vec<u8>, HqError> {
    Ok(std::env::current_dir()?.into_os_string().into_vec())
}

fn node_error(error: NodeError) -> HqError {
    HqError::failed("no-node", error.to_string())
}

// As shells say it.
fn status(end: ProcessEnd) -> u8 {
    match end {
        ProcessEnd::Exited(code) => code,
        ProcessEnd::Signaled(number) => 128_u8.saturating_add(number),
    }
}

fn write(is_error: bool, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if is_error {
        io::stderr().lock().write_all(bytes)
    } else {
        let mut out = StandardOutput(io::stdout().lock());
        out.write_all(bytes)?;
        out.flush()
    }
}
