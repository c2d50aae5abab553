//! A [`Disk`] in memory that loses power, fills up and fails on command, the same way each time.
//!
//! It is as bad as file systems may be: what was not synced is kept, cut at any byte or replaced by zeros page by
//! page; names that were made, changed or removed since the last sync of the directory are so or not, each by
//! itself; after a failed sync the bytes look right until the power goes, and are gone then, even when a later sync
//! succeeds.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile, DiskNote, Place};
use crate::error::{Holder, LockError};

/// Bytes that are kept or lost together.
const PAGE_BYTES: usize = 4096;
/// Notes of which a crash leaves one.
const NOTES_KEPT: usize = 8;

/// A directory in memory. Clones are the same directory: the simulator keeps one and gives one away.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// How the disk misbehaves until told otherwise. The default is a disk without faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// All files together have at most this many bytes; an append beyond writes what fits and fails.
    pub capacity_bytes: Option<u64>,
    /// How many of the next appends fail, each after it wrote half of its bytes.
    pub appends_failing: u32,
    /// How many of the next syncs fail, of files and of the directory.
    pub syncs_failing: u32,
    /// After this many more changes (appends, syncs, changes of names), every call fails until the crash. The
    /// change that meets the end is an append that is half done, or nothing.
    pub power_after: Option<u64>,
    /// Time that an append takes, in microseconds.
    pub append_us: u64,
    /// Time that a sync takes, in microseconds.
    pub sync_us: u64,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    files: Vec<SimData>,
    names: BTreeMap<String, usize>,
    /// The names as they were when the directory was synced, and what changed since.
    synced_names: BTreeMap<String, usize>,
    changes: Vec<Change>,
    /// What the note said since the last crash, the latest last.
    notes: Vec<Vec<u8>>,
    /// Counts crashes: what was open before one is closed after it.
    boot: u64,
    locked: bool,
    spent_us: u64,
    operations: u64,
}

#[derive(Debug, Default)]
struct SimData {
    bytes: Vec<u8>,
    synced: usize,
    /// What a failed sync forgot, though it can still be read.
    forgotten: Vec<(usize, usize)>,
    /// How many have it open.
    users: u32,
}

#[derive(Debug)]
enum Change {
    Create { name: String, file: usize },
    Rename { from: String, to: String, file: usize },
    Remove { name: String },
}

impl SimDisk {
    /// An empty directory on a disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says how the disk misbehaves from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// How it misbehaves from now on, with what is left of the counted faults.
    pub fn faults(&self) -> Faults {
        self.state().faults
    }

    /// The time that calls have taken since this was last asked, in microseconds.
    pub fn take_spent_us(&self) -> u64 {
        std::mem::take(&mut self.state().spent_us)
    }

    /// How many changes (appends, syncs, changes of names) were asked for so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The power goes and comes back. `choose(n)` returns a number below `n` and decides what is left of
    /// everything that was not synced. All open files and the lock are gone, the faults stay except that the
    /// power is back.
    pub fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let state = &mut *self.state();
        let note = choose(state.notes.len() as u64 + 1) as usize;
        state.notes = note.checked_sub(1).map(|note| state.notes[note].clone()).into_iter().collect();
        let mut names = std::mem::take(&mut state.synced_names);
        for change in std::mem::take(&mut state.changes) {
            if choose(2) == 1 {
                change.apply(&mut names);
            }
        }
        for &file in names.values() {
            state.files[file].crash(choose);
        }
        state.restart(names);
    }

    /// The process dies and the disk stays: all open files and the lock are gone, every byte and name is there.
    pub fn kill(&mut self) {
        let state = &mut *self.state();
        state.boot += 1;
        state.locked = false;
        state.faults.power_after = None;
    }

    /// Every name there is.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|&file| state.files[file].bytes.clone())
    }

    /// Puts a file there, synced with its name.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let state = &mut *self.state();
        let synced = bytes.len();
        state.files.push(SimData { bytes, synced, ..SimData::default() });
        let file = state.files.len() - 1;
        state.names.insert(name.to_owned(), file);
        state.synced_names.insert(name.to_owned(), file);
    }

    /// Changes one bit of a file, counted from the lowest of the first byte; `false` when it has no such bit.
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let state = &mut *self.state();
        let Some(&file) = state.names.get(name) else { return false };
        match state.files[file].bytes.get_mut((bit / 8) as usize) {
            Some(byte) => {
                *byte ^= 1 << (bit % 8);
                true
            }
            None => false,
        }
    }

    /// A copy of everything as it is now, without faults, lock and open files.
    pub fn fork(&self) -> Self {
        let fork = Self::new();
        for name in self.names() {
            fork.put(&name, self.bytes(&name).unwrap_or_default());
        }
        fork.state().notes = self.state().notes.last().cloned().into_iter().collect();
        fork
    }

    /// The note is lost, or of a release that did not write one.
    pub fn forget_note(&self) {
        self.state().notes.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between calls, whatever a panicking test did with its own part.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name, file);
            }
            Self::Rename { from, to, file } => {
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
            Self::Remove { name } => {
                names.remove(&name);
            }
        }
    }
}

impl SimData {
    fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let unsynced = self.bytes.len() - self.synced;
        self.bytes.truncate(self.synced + choose(unsynced as u64 + 1) as usize);
        let mut from = self.synced;
        while from < self.bytes.len() {
            let to = self.bytes.len().min((from / PAGE_BYTES + 1) * PAGE_BYTES);
            if choose(4) == 0 {
                self.bytes[from..to].fill(0);
            }
            from = to;
        }
        for (from, to) in std::mem::take(&mut self.forgotten) {
            let to = to.min(self.bytes.len());
            if from < to && choose(4) != 0 {
                self.bytes[from..to].fill(0);
            }
        }
        self.synced = self.bytes.len();
    }
}

impl State {
    fn restart(&mut self, names: BTreeMap<String, usize>) {
        // Files without a name are gone.
        let mut files = Vec::new();
        let mut kept = BTreeMap::new();
        for (name, file) in names {
            files.push(SimData { users: 0, ..std::mem::take(&mut self.files[file]) });
            kept.insert(name, files.len() - 1);
        }
        self.files = files;
        self.synced_names = kept.clone();
        self.names = kept;
        self.boot += 1;
        self.locked = false;
        self.faults.power_after = None;
    }

    /// Whether the power is on and the caller's files are of this boot.
    fn alive(&self, boot: u64) -> io::Result<()> {
        if self.faults.power_after == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        if self.boot != boot {
            return Err(io::Error::other("the file was open before the crash"));
        }
        Ok(())
    }

    /// Counts a change; `Err` when the power goes with it.
    fn change(&mut self, boot: u64) -> io::Result<()> {
        self.alive(boot)?;
        self.operations += 1;
        if let Some(left) = &mut self.faults.power_after {
            *left -= 1;
            if *left == 0 {
                return Err(io::Error::other("the power went off"));
            }
        }
        Ok(())
    }

    fn fail_sync(&mut self) -> io::Result<()> {
        self.spent_us += self.faults.sync_us;
        if self.faults.syncs_failing > 0 {
            self.faults.syncs_failing -= 1;
            return Err(io::Error::other("the sync failed"));
        }
        Ok(())
    }

    /// Frees the bytes of files without a name that nobody has open.
    fn forget_removed(&mut self) {
        let mut named = vec![false; self.files.len()];
        self.names.values().for_each(|&file| named[file] = true);
        for (data, _) in self.files.iter_mut().zip(named).filter(|(data, named)| !named && data.users == 0) {
            data.bytes = Vec::new();
            data.synced = 0;
        }
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|&file| self.files[file].bytes.len() as u64).sum()
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;
    type Note = SimNote;

    fn lock(&self) -> Result<SimLock, LockError> {
        let mut state = self.state();
        if state.locked {
            let directory = self.path("");
            let holder = Holder::Process { pid: 1, host: "simulated".to_owned() };
            return Err(LockError::Held { directory, holder, file: self.path("lock") });
        }
        state.locked = true;
        Ok(SimLock { disk: self.clone(), boot: state.boot })
    }

    fn is_held(&self, _: &SimLock) -> bool {
        true
    }

    fn renew(&self, _: &mut SimLock) -> Result<(), LockError> {
        Ok(())
    }

    fn place_of(&self, file: &SimFile, name: &str) -> io::Result<Place> {
        let state = self.state();
        state.alive(file.boot)?;
        Ok(match state.names.get(name) {
            None => Place::Empty,
            Some(there) if *there == file.file => Place::Own,
            Some(_) => Place::Taken,
        })
    }

    fn open_note(&self) -> io::Result<SimNote> {
        let state = self.state();
        state.alive(state.boot)?;
        Ok(SimNote { disk: self.clone(), boot: state.boot })
    }

    fn read_note(&self) -> io::Result<Vec<u8>> {
        let state = self.state();
        state.alive(state.boot)?;
        Ok(state.notes.last().cloned().unwrap_or_default())
    }

    fn remove_note(&self) -> io::Result<()> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        state.notes.clear();
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive(state.boot)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = &mut *self.state();
        state.alive(state.boot)?;
        let &file = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        state.files[file].users += 1;
        Ok(SimFile { disk: self.clone(), file, boot: state.boot })
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        state.files.push(SimData { users: 1, ..SimData::default() });
        let file = state.files.len() - 1;
        state.names.insert(name.to_owned(), file);
        state.changes.push(Change::Create { name: name.to_owned(), file });
        Ok(SimFile { disk: self.clone(), file, boot: state.boot })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        state.changes.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(Change::Remove { name: name.to_owned() });
        Ok(())
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        let &file = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let data = &mut state.files[file];
        data.bytes.truncate(bytes as usize);
        data.synced = data.synced.min(data.bytes.len());
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let state = &mut *self.state();
        state.change(state.boot)?;
        state.fail_sync()?;
        state.synced_names = state.names.clone();
        state.changes.clear();
        state.forget_removed();
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        if name.is_empty() { "journal".to_owned() } else { format!("journal/{name}") }
    }
}

/// The lock of a [`SimDisk`].
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    boot: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.locked = false;
        }
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    file: usize,
    boot: u64,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.files[self.file].users -= 1;
        }
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.alive(self.boot)?;
        Ok(state.files[self.file].bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        state.alive(self.boot)?;
        let bytes = &state.files[self.file].bytes;
        let from = bytes.len().min(offset as usize);
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.spent_us += state.faults.append_us;
        state.alive(self.boot)?;
        let powered = state.change(self.boot);
        let free = match state.faults.capacity_bytes {
            Some(capacity) => capacity.saturating_sub(state.used_bytes()),
            None => u64::MAX,
        };
        let fits = bytes.len().min(usize::try_from(free).unwrap_or(usize::MAX));
        let (count, result) = if powered.is_err() {
            (fits / 2, powered)
        } else if state.faults.appends_failing > 0 {
            state.faults.appends_failing -= 1;
            (fits / 2, Err(io::Error::other("the write failed")))
        } else if fits < bytes.len() {
            (fits, Err(io::ErrorKind::StorageFull.into()))
        } else {
            (fits, Ok(()))
        };
        state.files[self.file].bytes.extend_from_slice(&bytes[..count]);
        result
    }

    fn sync(&mut self) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.change(self.boot)?;
        let result = state.fail_sync();
        let file = &mut state.files[self.file];
        match &result {
            Ok(()) => file.synced = file.bytes.len(),
            Err(_) => file.forgotten.push((file.synced, file.bytes.len())),
        }
        result
    }
}

/// The open note of a [`SimDisk`].
#[derive(Debug)]
pub struct SimNote {
    disk: SimDisk,
    boot: u64,
}

impl DiskNote for SimNote {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.alive(self.boot)?;
        // A crash leaves one of those that the system has not written yet: the last few stand for all.
        if state.notes.len() >= NOTES_KEPT {
            state.notes.remove(0);
        }
        state.notes.push(bytes.to_vec());
        Ok(())
    }
}
