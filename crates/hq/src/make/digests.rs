//! Digests of contents and texts: SHA-256.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use hq_make::Digests;
use ring::digest::{Context, SHA256, digest};

/// What is read at once.
const BLOCK: usize = 1 << 18;

/// The digests.
pub(crate) struct Sha256;

impl Digests for Sha256 {
    fn digest(&self, path: &[u8]) -> io::Result<[u8; 32]> {
        let mut file = File::open(OsStr::from_bytes(path))?;
        // What is no file, as a pipe, would be waited for.
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut context = Context::new(&SHA256);
        let mut block = vec![0; BLOCK];
        loop {
            match file.read(&mut block) {
                Ok(0) => return Ok(whole(context.finish().as_ref())),
                Ok(bytes) => context.update(&block[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn of_text(&self, text: &[u8]) -> [u8; 32] {
        whole(digest(&SHA256, text).as_ref())
    }
}

/// A digest as text.
pub(crate) fn hex(digest: &[u8; 32]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn whole(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    // SHA-256 has so many bytes.
    digest.copy_from_slice(&bytes[..32]);
    digest
}
