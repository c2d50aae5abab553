//! Compresses the entries of a block, and takes them out again within a bound.

use std::fmt;

use hq_model::Compression;
use zstd::bulk::{Compressor, Decompressor};

use crate::limits::BLOCK_BYTES;

/// Makes blocks smaller. What it needs for that is used again for each.
pub(crate) struct Packer {
    compression: Compression,
    context: Option<Compressor<'static>>,
    packed: Vec<u8>,
}

impl Packer {
    pub(crate) fn new(compression: Compression) -> Packer {
        Packer { compression, context: None, packed: Vec::new() }
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The entries, smaller. Nothing where they are to be stored as they are, or would not become smaller.
    pub(crate) fn pack(&mut self, entries: &[u8]) -> Option<&[u8]> {
        let Compression::Zstd(level) = self.compression else { return None };
        if self.context.is_none() {
            // Without memory for it they are stored as they are.
            self.context = Compressor::new(i32::from(level.get())).ok();
        }
        self.packed.resize(BLOCK_BYTES, 0);
        let room = &mut self.packed[..entries.len().saturating_sub(1)];
        let length = self.context.as_mut()?.compress_to_buffer(entries, room).ok()?;
        Some(&self.packed[..length])
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packer").field(&self.compression).finish()
    }
}

/// Takes blocks out again, one after the other.
#[derive(Default)]
pub(crate) struct Unpacker {
    context: Option<Decompressor<'static>>,
    pub(crate) packed: Vec<u8>,
}

impl Unpacker {
    /// The entries in `packed`. False when these are none, or more than a block holds: whatever a file claims, no more memory
    /// than that is used.
    pub(crate) fn unpack(&mut self, into: &mut Vec<u8>) -> bool {
        if self.context.is_none() {
            self.context = Decompressor::new().ok();
        }
        let Some(context) = &mut self.context else { return false };
        into.resize(BLOCK_BYTES, 0);
        let length = context.decompress_to_buffer(&self.packed, &mut into[..]);
        into.truncate(length.as_ref().copied().unwrap_or(0));
        length.is_ok()
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hq_model::ZstdLevel;

    use super::*;

    fn packer() -> Packer {
        Packer::new(Compression::Zstd(ZstdLevel::DEFAULT))
    }

    #[test]
    fn what_claims_to_be_huge_is_refused_within_a_block() {
        let mut unpacker = Unpacker::default();
        let mut into = Vec::new();
        // Frames of a kilobyte that hold gigabytes and a megabyte, and one that says that it holds an exabyte.
        let zeros = vec![0; 1 << 20];
        let mut many = Vec::new();
        (0..4096).for_each(|_| many.extend(Compressor::new(3).unwrap().compress(&zeros).unwrap()));
        let claims = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
        for hostile in [Compressor::new(3).unwrap().compress(&zeros).unwrap(), many, claims] {
            unpacker.packed = hostile;
            assert!(!unpacker.unpack(&mut into));
            assert!(into.is_empty() && into.capacity() <= 2 * BLOCK_BYTES);
        }
        unpacker.packed = packer().pack(&[7; 4000]).unwrap().to_vec();
        assert!(unpacker.unpack(&mut into), "it goes on after what was refused");
        assert_eq!(into, [7; 4000]);
    }

    #[test]
    fn what_would_not_become_smaller_stays_as_it_is() {
        let mut packer = packer();
        let mut noise = vec![0; BLOCK_BYTES];
        getrandom::fill(&mut noise).unwrap();
        assert_eq!(packer.pack(&noise), None);
        assert_eq!(packer.pack(b"a"), None);
        assert!(packer.pack(&noise.repeat(2)[..BLOCK_BYTES]).is_none());
        assert!(packer.pack(&[0; BLOCK_BYTES]).is_some_and(|packed| packed.len() < 100));
        assert_eq!(Packer::new(Compression::None).pack(&[0; BLOCK_BYTES]), None);
    }
}
