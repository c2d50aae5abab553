//! Runners that are worlds of MPI: several processes, which a launcher of MPI starts, and of which rank 0 speaks to the worker.
//!
//! No descriptor reaches a rank through such a launcher, so the ranks come to a socket in the worker's private directory and show
//! the token that they find in a variable: the first of them that says so is rank 0, and from then on the socket is what
//! standard input is to other runners. The parent of a rank that dies comes as well, and says how. What the launcher prints goes
//! into a file beside the socket; it is told where the world ends before its time.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_core::record::FailureKind;
use hq_core::worker::{Outcome, RunnerId, Start};
use hq_model::ByteString;
use hq_model::body::{Function, Mpi};
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

use super::ended::{CLOSED, CLOSED_TEXT};
use super::frames::{self, RankDied};
use super::{Heard, News, Runners, SIGTERM};
use crate::launcher::{MARK, Slot, text};
use crate::limits::{WORLD_END_GRACE, WORLD_LAST_WORDS_MAX, WORLD_START_LIMIT, WORLD_WORDS_LIMIT};
use crate::supervise::{Active, Supervisor};

/// What interpreters are started with; the rest is in a variable, which launchers of MPI hand on to all nodes.
pub(crate) const BOOTSTRAP: &[u8] =
    b"import os;exec(compile(os.environ['HQ_RUNNER_PROGRAM'],'<hq runner>','exec'))";
const PROGRAM: &str = include_str!("ranks.py");

const TOKEN: usize = 32;
/// What comes after the token.
const IS_RUNNER: u8 = b'R';
const HAS_DIED: u8 = b'D';
const SHARED_MEMORY: &str = "/dev/shm";
/// How lists of names in it end.
const MEMORY: &str = ".memory";
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

/// Where the ranks of a world come, as long as the world is there.
#[derive(Debug)]
pub(crate) struct World {
    socket: PathBuf,
    log: PathBuf,
    token: String,
    accepting: AbortHandle,
    // Names of what its MPI has in shared memory, and where whoever comes after a worker that was killed finds them.
    leaves: Vec<String>,
    memory: PathBuf,
    /// The first of its ranks that has died.
    pub(crate) died: Option<RankDied>,
}

impl World {
    /// Waits for ranks in a directory of the worker. What becomes of that is heard.
    ///
    /// # Errors
    /// When there is no socket, or no randomness.
    pub(crate) fn open(
        directory: &Path,
        runner: (RunnerId, Slot),
        heard: mpsc::UnboundedSender<Heard>,
    ) -> io::Result<World> {
        let mut secret = [0; TOKEN / 2];
        getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
        let token: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let socket = directory.join(format!("world-{}", runner.0.0));
        let log = directory.join(format!("world-{}.log", runner.0.0));
        let memory = directory.join(format!("world-{}{MEMORY}", runner.0.0));
        // The directory is private: who comes here is this user.
        let listener = UnixListener::bind(&socket)?;
        let accepting = tokio::spawn(accept(listener, token.clone(), runner, heard)).abort_handle();
        Ok(World { socket, log, token, accepting, leaves: Vec::new(), memory, died: None })
    }

    /// The variables for its ranks, NUL-terminated: what they execute, where they go, and who is to start them.
    pub(crate) fn append_variables(&self, launcher: &str, out: &mut ByteString) {
        let (socket, token) = (self.socket.display(), &self.token);
        let text = format!(
            "HQ_RUNNER={socket}:{token}\0HQ_RUNNER_PROGRAM={PROGRAM}\0HQ_RUNNER_LAUNCHER={launcher}\0"
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// Its MPI has these names in shared memory.
    pub(super) fn leaves(&mut self, names: Vec<String>) {
        self.leaves.extend(names);
        if let Err(error) = fs::write(&self.memory, self.leaves.join("\n")) {
            debug!(%error, "names in shared memory are known to this worker alone");
        }
    }

    /// Where its launcher prints.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// How a call ended with it, where that is known better than by the end of its launcher.
    pub(super) fn why(&self, is_ready: bool) -> Option<Outcome> {
        let early = "before the function returned";
        Some(match self.died {
            Some(RankDied { rank, end: Ok(signal) }) => {
                let text = format!("Rank {rank} was ended {early}: {}", text::signaled(signal));
                Outcome::Failed(FailureKind::Signal(signal), text)
            }
            // As if nothing were wrong, by `os._exit`.
            Some(RankDied { rank, end: Err(0) }) => {
                Outcome::Failed(FailureKind::Output, format!("Rank {rank} exited with code 0 {early}."))
            }
            Some(RankDied { rank, end: Err(CLOSED) }) => {
                Outcome::Failed(FailureKind::Output, format!("On rank {rank}: {CLOSED_TEXT}"))
            }
            Some(RankDied { rank, end: Err(code) }) => Outcome::Failed(
                FailureKind::Exit(code),
                format!("Rank {rank} exited with code {code} {early}."),
            ),
            None if !is_ready => {
                let words = self.last_words();
                let words = if words.is_empty() { "its launcher said nothing" } else { &words };
                Outcome::Failed(
                    FailureKind::Start,
                    format!("The ranks of the function were not started: {words}"),
                )
            }
            None => return None,
        })
    }

    // The last that its launcher has printed, for people; nothing when it was silent.
    fn last_words(&self) -> String {
        let Ok(bytes) = fs::read(&self.log) else { return String::new() };
        let from = bytes.len().saturating_sub(WORLD_LAST_WORDS_MAX as usize);
        String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
    }
}

impl Runners {
    /// The world that a runner is.
    pub(super) fn world(&mut self, id: RunnerId) -> Option<&mut World> {
        self.all.get_mut(&id).and_then(|runner| runner.world.as_mut())
    }

    /// Hears of it when a world has had its time to end.
    pub(super) fn give_up_later(&self, id: RunnerId) {
        let Some(slot) = self.all.get(&id).map(|runner| runner.slot) else { return };
        let heard = self.heard.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WORLD_END_GRACE).await;
            // The loop may have ended.
            let _ = heard.send(Heard::Runner((id, slot), News::Late));
        });
    }
}

impl Supervisor {
    /// Its launcher is told to end all ranks, and cleans up; what is left after a while is killed.
    pub(super) fn end_world(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get_mut(&id) else { return };
        runner.is_spent = true;
        let slot = runner.slot;
        self.end_slot(slot, SIGTERM);
        self.runners.give_up_later(id);
    }

    /// All worlds that are there are to end by themselves.
    pub(crate) fn end_worlds(&mut self) {
        let worlds = self.runners.all.iter().filter(|(_, runner)| runner.world.is_some());
        let ids: Vec<RunnerId> = worlds.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end_runner(id));
    }

    /// True while there is one.
    pub(crate) fn has_worlds(&self) -> bool {
        self.runners.all.values().any(|runner| runner.world.is_some())
    }

    /// Interrupts the call of a runner. Ranks are told by their launcher, which ends with them.
    pub(crate) fn interrupt_call(&mut self, slot: Slot, signal: u8) {
        match &self.slots[slot.index as usize].active {
            Some(Active::Runner(process)) if !process.first.ranks.is_empty() => self.end_slot(slot, signal),
            _ => self.launcher.signal(slot, signal),
        }
        self.call_is_ended(slot.index);
    }

    /// Ends a runner with a signal, and all that has come from its call; ranks began as those of the first one.
    pub(crate) fn end_slot(&mut self, slot: Slot, signal: u8) {
        let Some(Active::Runner(process)) = &self.slots[slot.index as usize].active else { return };
        let is_world = !process.first.ranks.is_empty();
        let (task, instance) = if is_world { process.attempts().0 } else { process.attempt() };
        let mut mark = MARK.to_vec();
        self.node.keys.append(task, instance, &mut mark);
        self.launcher.end(slot, signal, &mark);
    }
}

/// True when a world is started for this call alone: on several nodes the ranks belong to the task.
pub(super) fn is_alone(start: &Start) -> bool {
    let is_wanted = |function: &Function| function.mpi == Mpi::World;
    !start.ranks.is_empty()
        && (start.nodes.len() > 1 || start.template.spec.body.function().is_some_and(is_wanted))
}

impl Drop for World {
    fn drop(&mut self) {
        self.accepting.abort();
        // What MPI removes itself, unless it was killed.
        remove_named(Path::new(SHARED_MEMORY), self.leaves.iter().map(String::as_str));
        for path in [&self.socket, &self.log, &self.memory] {
            // All may be gone with their directory.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes what worlds have left in shared memory whose worker was killed; this was its directory.
pub(crate) fn remove_memory_of(directory: &Path) {
    remove_all_named(directory, Path::new(SHARED_MEMORY));
}

fn remove_all_named(directory: &Path, memory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_list = entry.file_name().to_str().is_some_and(|name| name.ends_with(MEMORY));
        if let Some(names) = is_list.then(|| fs::read_to_string(entry.path()).ok()).flatten() {
            remove_named(memory, names.lines());
        }
    }
}

// Only files of this user.
fn remove_named<'a>(memory: &Path, names: impl Iterator<Item = &'a str>) {
    let own = rustix::process::getuid().as_raw();
    for name in names.filter(|name| !name.contains('/')) {
        let path = memory.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|known| known.is_file() && known.uid() == own) {
            let _ = fs::remove_file(&path);
        }
    }
}

async fn accept(
    listener: UnixListener,
    token: String,
    runner: (RunnerId, Slot),
    heard: mpsc::UnboundedSender<Heard>,
) {
    let mut is_awaited = true;
    // The loop may have ended.
    let tell = |news| drop(heard.send(Heard::Runner(runner, news)));
    let (found, mut come) = mpsc::unbounded_channel();
    let start = tokio::time::sleep(WORLD_START_LIMIT);
    tokio::pin!(start);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of descriptors, most likely: others will give some back.
                    tokio::time::sleep(NO_DESCRIPTOR_PAUSE).await;
                    continue;
                };
                let (token, found) = (token.clone(), found.clone());
                tokio::spawn(async move {
                    if let Ok(Some(words)) = timeout(WORLD_WORDS_LIMIT, words_of(stream, &token)).await {
                        // Nobody waits for it when the world is gone.
                        let _ = found.send(words);
                    }
                });
            }
            Some(words) = come.recv() => match words {
                // Others that say so have no world of MPI: each of them took itself for rank 0.
                Words::Runner(_) if !is_awaited => {}
                Words::Runner(stream) => {
                    is_awaited = false;
                    tell(News::Came(stream));
                }
                Words::Died(died) => tell(News::RankDied(died)),
            },
            () = &mut start, if is_awaited => {
                is_awaited = false;
                tell(News::NobodyCame);
            }
        }
    }
}

enum Words {
    Runner(OwnedFd),
    Died(RankDied),
}

async fn words_of(mut stream: UnixStream, token: &str) -> Option<Words> {
    let mut words = [0; TOKEN + 1];
    stream.read_exact(&mut words).await.ok()?;
    if words[..TOKEN] != *token.as_bytes() {
        return None;
    }
    match words[TOKEN] {
        IS_RUNNER => Some(Words::Runner(stream.into_std().ok()?.into())),
        HAS_DIED => {
            let mut how = [0; 6];
            stream.read_exact(&mut how).await.ok()?;
            Some(Words::Died(frames::rank_died(how)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_worlds_of_a_killed_worker_have_named_is_removed() {
        let [directory, memory] = [(), ()].map(|()| tempfile::tempdir().expect("a temporary directory"));
        for name in ["mpich_1", "mpich_2", "other"] {
            fs::write(memory.path().join(name), "").expect("room");
        }
        fs::write(directory.path().join("other"), "").expect("room");
        let list = format!("mpich_1\nmpich_2\ngone\n{}/other\n../{}", directory.path().display(), "other");
        fs::write(directory.path().join(format!("world-3{MEMORY}")), list).expect("room");
        fs::write(directory.path().join("world-3.log"), "other").expect("room");
        remove_all_named(directory.path(), memory.path());
        let left = fs::read_dir(memory.path()).expect("a directory").flatten();
        assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["other"]);
        assert!(directory.path().join("other").exists(), "names have no directory");
    }
}
