//! What a store holds, where it lies, and in which order it makes room.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hq_model::{Instance, ObjectId};

use super::{Content, Hold, Key, Tree};

/// Where files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// The directory of the store.
    Store,
    /// The directory for what finds no room there.
    Spill,
}

/// What is in one of them.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes of entries, and of what is coming in.
    pub(super) used: u64,
    /// Objects.
    pub(super) count: u64,
    /// Bytes of these.
    pub(super) bytes: u64,
    /// Those that may go, by when they were read.
    free: BTreeMap<u64, Key>,
    /// Those that the server counts on, by when they were read.
    guarded: BTreeMap<u64, Key>,
    /// Bytes of these.
    pub(super) guarded_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) entries: BTreeMap<Key, Entry>,
    /// How many the server has not judged yet.
    pub(super) unheard: usize,
    store: Room,
    spill: Room,
    /// Files in the directory `put`: those that were announced with their size, and those whose room is counted by now (nothing).
    pub(super) coming: BTreeMap<String, (Area, Option<u64>)>,
    /// How many objects lie in the spill, and their bytes, as the server was told.
    pub(super) told_spilled: (u64, u64),
    /// Counts reads and files.
    clock: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) content: Content,
    pub(super) path: PathBuf,
    pub(super) area: Area,
    pub(super) written: (i64, i64),
    pub(super) last_read: u64,
    pub(super) hold: Hold,
    /// Readers here that need it.
    pub(super) pins: u32,
    /// Where it is unpacked.
    pub(super) tree: Option<Arc<Tree>>,
}

/// What the place of an entry depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing {
    area: Area,
    hold: Hold,
    last_read: u64,
    size: u64,
}

impl Entry {
    // What is unpacked of it counts once more.
    fn bytes_in(&self, area: Area) -> u64 {
        let of_tree = self.tree.as_ref().is_some_and(|tree| tree.area() == area);
        let times = u64::from(self.area == area) + u64::from(of_tree);
        self.content.size.saturating_mul(times)
    }

    fn standing(&self) -> Standing {
        Standing { area: self.area, hold: self.hold, last_read: self.last_read, size: self.content.size }
    }
}

impl Shelf {
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn room(&self, area: Area) -> &Room {
        match area {
            Area::Store => &self.store,
            Area::Spill => &self.spill,
        }
    }

    fn room_mut(&mut self, area: Area) -> &mut Room {
        match area {
            Area::Store => &mut self.store,
            Area::Spill => &mut self.spill,
        }
    }

    /// Something comes in.
    pub(super) fn take_up(&mut self, area: Area, size: u64) {
        self.room_mut(area).used += size;
    }

    /// It has not come, or has gone.
    pub(super) fn give_back(&mut self, area: Area, size: u64) {
        self.room_mut(area).used -= size;
    }

    fn place(&mut self, key: &Key, standing: Standing) {
        let Standing { area, hold, last_read, size } = standing;
        let room = self.room_mut(area);
        room.count += 1;
        room.bytes += size;
        match hold {
            Hold::Free => drop(room.free.insert(last_read, key.clone())),
            Hold::Unheard => self.unheard += 1,
            Hold::Guarded => {
                room.guarded.insert(last_read, key.clone());
                room.guarded_bytes += size;
            }
        }
    }

    fn displace(&mut self, standing: Standing) {
        let Standing { area, hold, last_read, size } = standing;
        let room = self.room_mut(area);
        room.count -= 1;
        room.bytes -= size;
        match hold {
            Hold::Free => drop(room.free.remove(&last_read)),
            Hold::Unheard => self.unheard -= 1,
            Hold::Guarded => {
                room.guarded.remove(&last_read);
                room.guarded_bytes -= size;
            }
        }
    }

    /// Its bytes are in use already.
    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        self.place(&key, entry.standing());
        self.entries.insert(key, entry);
    }

    /// Its bytes are not in use any more.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.displace(entry.standing());
        for area in [Area::Store, Area::Spill] {
            self.give_back(area, entry.bytes_in(area));
        }
        Some(entry)
    }

    /// Changes what its place depends on. Which bytes are in use is told apart.
    pub(super) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) -> Option<&Entry> {
        let entry = self.entries.get_mut(key)?;
        let before = entry.standing();
        change(entry);
        let after = entry.standing();
        if after != before {
            self.displace(before);
            self.place(key, after);
        }
        self.entries.get(key)
    }

    /// What is unpacked of an object is not meant any more; its bytes are not in use.
    pub(super) fn take_tree(&mut self, key: &Key) -> Option<Arc<Tree>> {
        let entry = self.entries.get_mut(key)?;
        let size = entry.content.size;
        let tree = entry.tree.take()?;
        self.give_back(tree.area(), size);
        Some(tree)
    }

    pub(super) fn keys_of(&self, object: &ObjectId) -> Vec<Key> {
        let of = |instance| Key { object: object.clone(), instance };
        let keys = self.entries.range(of(Instance(0))..=of(Instance(u32::MAX)));
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// What goes to make room for so many bytes, in this order; what has to stay where that is not enough.
    pub(super) fn making_room(&self, area: Area, size: u64, cap: u64) -> Result<Vec<Key>, u64> {
        let room = self.room(area);
        let mut left = room.used;
        let mut going = Vec::new();
        let mut may_go = room.free.values();
        while left.saturating_add(size) > cap {
            let Some(key) = may_go.next() else { return Err(left) };
            if let Some(entry) = self.entries.get(key).filter(|entry| entry.pins == 0) {
                left -= entry.bytes_in(area);
                going.push(key.clone());
            }
        }
        Ok(going)
    }

    /// The objects of the store that the server counts on and nobody reads now, those that were read least recently first.
    pub(super) fn oldest_guarded(&self, most: usize) -> Vec<Key> {
        let is_idle = |key: &&Key| self.entries.get(*key).is_some_and(|entry| entry.pins == 0);
        self.store.guarded.values().filter(is_idle).take(most).cloned().collect()
    }
}
