//! Room in a store: what goes so that something new fits.

use super::{Coming, Key, Shelf, Store, StoreError};

impl Store {
    /// Whether so many bytes can find room.
    ///
    /// # Errors
    /// When they cannot.
    pub(crate) fn check_room(&self, size: u64) -> Result<(), StoreError> {
        let coming = self.bytes_coming();
        self.making_room(&self.shelf(), size, coming).map(drop)
    }

    // What goes to make room for so many bytes beside those that are coming.
    fn making_room(&self, shelf: &Shelf, size: u64, coming: u64) -> Result<Vec<Key>, StoreError> {
        if size == 0 {
            return Ok(Vec::new());
        }
        let full = |taken: u64| StoreError::Full { wanted: size, cap: self.cap, taken: taken + coming };
        shelf.making_room(size, self.cap.saturating_sub(coming)).map_err(full)
    }

    // What the server has not judged may soon make room.
    pub(super) fn await_room(&self, size: u64, coming: Coming) {
        let coming = coming(self);
        let is_tight =
            |shelf: &mut Shelf| shelf.unheard > 0 && self.making_room(shelf, size, coming).is_err();
        // Whether there is room now shows when it is taken.
        drop(self.eased.wait_timeout_while(self.shelf(), self.patience, is_tight));
    }

    // Those that were read least recently go first; those that readers here need stay, and those that the server counts on.
    pub(super) fn reserve(&self, size: u64, coming: Coming) -> Result<(), StoreError> {
        // What clients that are gone have written may be what fills it.
        self.try_to_reserve(size, coming(self)).or_else(|_| {
            self.remove_abandoned();
            self.try_to_reserve(size, coming(self))
        })
    }

    fn try_to_reserve(&self, size: u64, coming: u64) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        {
            let mut shelf = self.shelf();
            for key in self.making_room(&shelf, size, coming)? {
                if let Some(remains) = self.unshelve(&mut shelf, &key) {
                    gone.push((key, remains));
                }
            }
            shelf.used += size;
        }
        for (key, remains) in gone {
            remains.remove();
            self.tell_lost(&key);
        }
        Ok(())
    }
}
