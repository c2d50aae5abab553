//! Room in a store: what goes, or moves to the spill, so that something new fits.

use super::{Area, Coming, Key, Shelf, Store, StoreError};

impl Store {
    /// Whether so many bytes can find room.
    ///
    /// # Errors
    /// When they cannot.
    pub(crate) fn check_room(&self, size: u64) -> Result<(), StoreError> {
        let coming = self.both(Store::bytes_coming);
        self.check_both(&self.shelf(), size, coming)
    }

    /// True when so many bytes fit into the store as it is.
    pub(crate) fn has_room(&self, size: u64) -> bool {
        let coming = self.bytes_coming(Area::Store);
        self.making_room(&self.shelf(), Area::Store, size, coming).is_ok()
    }

    // Of store and spill.
    fn both(&self, coming: Coming) -> [u64; 2] {
        [Area::Store, Area::Spill].map(|area| coming(self, area))
    }

    fn check_both(&self, shelf: &Shelf, size: u64, coming: [u64; 2]) -> Result<(), StoreError> {
        let in_store = self.making_room(shelf, Area::Store, size, coming[0]);
        let in_spill = self.making_room(shelf, Area::Spill, size, coming[1]);
        match (in_store, in_spill) {
            (Ok(_), _) | (_, Ok(_)) => Ok(()),
            (Err(taken), Err(spilled)) => Err(self.full(size, taken, spilled)),
        }
    }

    fn full(&self, wanted: u64, taken: u64, spilled: u64) -> StoreError {
        let spill = self.spill.as_ref().map(|spill| (spill.cap, spilled));
        StoreError::Full { wanted, cap: self.cap, taken, spill }
    }

    // What goes to make room for so many bytes beside those that are coming; what has to stay where that is not enough.
    fn making_room(&self, shelf: &Shelf, area: Area, size: u64, coming: u64) -> Result<Vec<Key>, u64> {
        if size == 0 {
            return Ok(Vec::new());
        }
        let cap = self.cap_of(area).saturating_sub(coming);
        shelf.making_room(area, size, cap).map_err(|taken| taken + coming)
    }

    // What the server has not judged may soon make room.
    pub(super) fn await_room(&self, size: u64, coming: Coming) {
        let coming = self.both(coming);
        let is_tight = |shelf: &mut Shelf| shelf.unheard > 0 && self.check_both(shelf, size, coming).is_err();
        // Whether there is room now shows when it is taken.
        drop(self.eased.wait_timeout_while(self.shelf(), self.patience, is_tight));
    }

    /// Makes room, in the store if possible, and says where. Those that were read least recently go first; those that readers here
    /// need stay, and those that the server counts on stay or move.
    pub(super) fn reserve(&self, size: u64, coming: Coming) -> Result<Area, StoreError> {
        // What clients that are gone have written may be what fills it.
        self.try_to_reserve(size, coming).or_else(|_| {
            self.remove_abandoned();
            self.try_to_reserve(size, coming)
        })
    }

    fn try_to_reserve(&self, size: u64, coming: Coming) -> Result<Area, StoreError> {
        let Err(taken) = self.room_in(Area::Store, size, coming) else { return Ok(Area::Store) };
        match self.room_in(Area::Spill, size, coming) {
            Ok(()) => Ok(Area::Spill),
            Err(spilled) => Err(self.full(size, taken, spilled)),
        }
    }

    /// Makes room for more of what is coming in.
    pub(super) fn reserve_more(&self, area: Area, more: u64) -> Result<(), StoreError> {
        self.reserve_in(area, more, Store::bytes_coming)
    }

    /// Makes room in one of the two.
    pub(super) fn reserve_in(&self, area: Area, size: u64, coming: Coming) -> Result<(), StoreError> {
        self.room_in(area, size, coming).map_err(|taken| match area {
            Area::Store => self.full(size, taken, self.shelf().room(Area::Spill).used),
            Area::Spill => self.full(size, self.shelf().room(Area::Store).used, taken),
        })
    }

    // Moves objects out of the store as long as that helps. Otherwise what has to stay.
    fn room_in(&self, area: Area, size: u64, coming: Coming) -> Result<(), u64> {
        loop {
            let Err(taken) = self.take_room(area, size, coming(self, area)) else { return Ok(()) };
            let may_move = self.shelf().room(Area::Store).guarded_bytes;
            let helps =
                area == Area::Store && taken.saturating_sub(may_move).saturating_add(size) <= self.cap;
            if !helps || !self.spill_oldest() {
                return Err(taken);
            }
        }
    }

    /// Removes what may go and counts the room as used. Otherwise what has to stay.
    pub(super) fn take_room(&self, area: Area, size: u64, coming: u64) -> Result<(), u64> {
        let mut gone = Vec::new();
        {
            let mut shelf = self.shelf();
            for key in self.making_room(&shelf, area, size, coming)? {
                if let Some(remains) = self.unshelve(&mut shelf, &key) {
                    gone.push((key, remains));
                }
            }
            shelf.take_up(area, size);
        }
        if !gone.is_empty() {
            self.tell_spilled();
        }
        for (key, remains) in gone {
            remains.remove();
            self.tell_lost(&key);
        }
        Ok(())
    }
}
