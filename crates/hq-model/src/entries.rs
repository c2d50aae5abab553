//! The entries of a submit with `--each-line` or `--from-json`: one byte string a task.

use std::sync::Arc;

use crate::ByteString;

/// Entries in one block of bytes with offsets, so that a million short lines are two allocations.
/// Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    inner: Arc<Inner>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Inner {
    bytes: ByteString,
    // End of each entry in `bytes`.
    ends: Vec<u32>,
}

impl Entries {
    /// Builds from entries in order. `None` when they exceed 4 GiB together.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Option<Entries> {
        let mut inner = Inner::default();
        for entry in entries {
            inner.bytes.extend_from_slice(entry);
            inner.ends.push(u32::try_from(inner.bytes.len()).ok()?);
        }
        Some(Entries { inner: Arc::new(inner) })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.inner.ends.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.inner.ends.is_empty()
    }

    /// Length of all entries together, in bytes.
    pub fn bytes_len(&self) -> usize {
        self.inner.bytes.len()
    }

    /// Length of so many of them together, from number `first` on, in bytes.
    pub fn bytes_of(&self, first: usize, count: usize) -> usize {
        let ends = &self.inner.ends;
        let end_of = |count: usize| {
            let last = count.min(ends.len()).checked_sub(1);
            last.map_or(0, |last| ends[last] as usize)
        };
        end_of(first.saturating_add(count)) - end_of(first)
    }

    /// Entry number `index`, counted from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.inner.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.inner.ends[index - 1] as usize };
        Some(&self.inner.bytes[start..end])
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}
