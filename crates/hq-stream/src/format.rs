//! How headers, blocks and entries look as bytes.

use crc32c::{crc32c, crc32c_append};
use hq_model::{Channel, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};

use crate::limits::{BLOCK_BYTES, FORMAT_VERSION, INDEX_BYTES, SERVER_UID_BYTES};

/// How names of stream files end.
pub const FILE_ENDING: &str = ".hqs";

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The server whose tasks these are.
    pub server_uid: String,
    /// Who writes.
    pub worker: WorkerId,
    /// When it was begun.
    pub created: Timestamp,
}

/// One start of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The task.
    pub task: TaskRef,
    /// The start.
    pub instance: Instance,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// These bytes were printed.
    Bytes(Channel, &'a [u8]),
    /// Nothing more comes on these channels.
    End {
        /// Standard output is complete.
        stdout: bool,
        /// Standard error is complete.
        stderr: bool,
    },
    /// So many bytes of a channel had been printed before what follows, and are not in the file any more.
    Lost(Channel, u64),
}

impl Content<'_> {
    // What an index says of it.
    pub(crate) fn bits(&self) -> u8 {
        match self {
            Content::Bytes(channel, _) | Content::Lost(channel, _) => bit(*channel),
            Content::End { stdout, stderr } => u8::from(*stdout) << 2 | u8::from(*stderr) << 3,
        }
    }
}

pub(crate) const MAGIC: [u8; 8] = *b"\x89HQSTRM\n";
pub(crate) const FIXED_HEADER_BYTES: usize = 25;
pub(crate) const HEADER_BYTES_MAX: usize = FIXED_HEADER_BYTES + SERVER_UID_BYTES + 4;
pub(crate) const HEAD_BYTES: usize = 24;
pub(crate) const ENTRY_BYTES: usize = 25;
/// What an entry has behind its head that says how much was lost.
pub(crate) const LOST_BYTES: usize = 8;
/// What an index says before its lines.
pub(crate) const SUMMARY_BYTES: usize = 48;
/// A line of an index.
pub(crate) const LINE_BYTES: usize = 24;
const END: u8 = 0x10;
const LOST: u8 = 0x20;

/// The bit of a channel in what an index says of an attempt.
pub(crate) fn bit(channel: Channel) -> u8 {
    1 << channel.number()
}

impl Header {
    pub(crate) fn encode(&self, version: u16) -> Vec<u8> {
        let uid = self.server_uid.as_bytes();
        let uid_bytes = u8::try_from(uid.len()).expect("the id of a server was checked to be short");
        let mut out = Vec::with_capacity(HEADER_BYTES_MAX);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&version.to_le_bytes());
        let length = FIXED_HEADER_BYTES + uid.len() + 4;
        out.extend_from_slice(&u16::try_from(length).expect("a header is short").to_le_bytes());
        out.extend_from_slice(&self.worker.0.to_le_bytes());
        out.extend_from_slice(&self.created.0.to_le_bytes());
        out.push(uid_bytes);
        out.extend_from_slice(uid);
        let check = crc32c(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    // The header at the start of `bytes`, its length and its version. An error is the version that is too new, if that is
    // known.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, usize, u16), Option<u16>> {
        if bytes.len() < 12 || bytes[..8] != MAGIC {
            return Err(None);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version > FORMAT_VERSION {
            return Err(Some(version));
        }
        let length = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        if length < FIXED_HEADER_BYTES + 4 || bytes.len() < length {
            return Err(None);
        }
        let (content, check) = bytes[..length].split_at(length - 4);
        let uid_bytes = usize::from(content[FIXED_HEADER_BYTES - 1]);
        if u32_at(check, 0) != crc32c(content) || FIXED_HEADER_BYTES + uid_bytes != content.len() {
            return Err(None);
        }
        let server_uid = String::from_utf8(content[FIXED_HEADER_BYTES..].to_vec()).map_err(|_| None)?;
        let header = Header {
            server_uid,
            worker: WorkerId(u32_at(content, 12)),
            created: Timestamp(u64_at(content, 16)),
        };
        Ok((header, length, version))
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Entries.
    Data,
    Index,
    /// Entries, compressed.
    Packed,
    /// Entries that say what was lost: kind 4, which an earlier release takes for a damaged block, and tells so.
    Lost,
}

/// What is before the payload of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
    /// Where the last index before this block begins; 0 when there is none.
    pub(crate) last_index: u64,
    check: u32,
}

impl Head {
    /// The head of a block at `offset`, in front of this payload.
    pub(crate) fn encode(kind: Kind, last_index: u64, offset: u64, payload: &[u8]) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        let length = u32::try_from(payload.len()).expect("a block is short");
        let kind: u32 = match kind {
            Kind::Data => 1,
            Kind::Index => 2,
            Kind::Packed => 3,
            Kind::Lost => 4,
        };
        out[..4].copy_from_slice(&length.to_le_bytes());
        out[4..8].copy_from_slice(&kind.to_le_bytes());
        out[8..16].copy_from_slice(&last_index.to_le_bytes());
        out[16..20].copy_from_slice(&crc32c(payload).to_le_bytes());
        let check = head_check(&out, offset);
        out[20..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// The head at `offset`, if there is one. `bytes` has at least its length.
    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Option<Head> {
        let length = usize::try_from(u32_at(bytes, 0)).ok()?;
        let (kind, longest) = match u32_at(bytes, 4) {
            1 => (Kind::Data, BLOCK_BYTES),
            2 => (Kind::Index, INDEX_BYTES),
            3 => (Kind::Packed, BLOCK_BYTES),
            4 => (Kind::Lost, BLOCK_BYTES),
            _ => return None,
        };
        if length > longest || u32_at(bytes, 20) != head_check(bytes, offset) {
            return None;
        }
        Some(Head { kind, length, last_index: u64_at(bytes, 8), check: u32_at(bytes, 16) })
    }

    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.length && crc32c(payload) == self.check
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        (HEAD_BYTES + self.length) as u64
    }
}

// The offset is part of it, so that a copy of a block, printed by a task for instance, is not taken for one.
fn head_check(bytes: &[u8], offset: u64) -> u32 {
    crc32c_append(crc32c(&offset.to_le_bytes()), &bytes[..20])
}

pub(crate) fn push_key(out: &mut Vec<u8>, attempt: Attempt) {
    for number in [attempt.task.job.0, attempt.task.task.0, attempt.instance.0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

pub(crate) fn key_at(bytes: &[u8], at: usize) -> Attempt {
    let task = TaskRef::new(JobId(u32_at(bytes, at)), TaskId(u32_at(bytes, at + 4)));
    Attempt { task, instance: Instance(u32_at(bytes, at + 8)) }
}

pub(crate) fn push_entry(out: &mut Vec<u8>, attempt: Attempt, at: Timestamp, content: Content<'_>) {
    push_key(out, attempt);
    out.extend_from_slice(&at.0.to_le_bytes());
    let lost;
    let (kind, bytes) = match content {
        Content::Bytes(channel, bytes) => (channel.number(), bytes),
        Content::End { stdout, stderr } => (END | u8::from(stdout) | u8::from(stderr) << 1, [].as_slice()),
        Content::Lost(channel, bytes) => {
            lost = bytes.to_le_bytes();
            (LOST | channel.number(), lost.as_slice())
        }
    };
    out.push(kind);
    out.extend_from_slice(&u32::try_from(bytes.len()).expect("an entry fits into a block").to_le_bytes());
    out.extend_from_slice(bytes);
}

/// An entry as it is read.
pub(crate) type Line<'a> = (Attempt, Timestamp, Content<'a>);

/// The first entry of `bytes`, and what is behind it; nothing when these are no entries.
pub(crate) fn take_entry(bytes: &[u8]) -> Option<(Line<'_>, &[u8])> {
    let head = bytes.get(..ENTRY_BYTES)?;
    let length = usize::try_from(u32_at(head, 21)).ok()?;
    let (body, rest) = bytes[ENTRY_BYTES..].split_at_checked(length)?;
    let content = match head[20] {
        0 => Content::Bytes(Channel::Stdout, body),
        1 => Content::Bytes(Channel::Stderr, body),
        kind if kind & !3 == END && length == 0 => {
            Content::End { stdout: kind & 1 != 0, stderr: kind & 2 != 0 }
        }
        kind if kind & !1 == LOST && length == LOST_BYTES => {
            let channel = if kind & 1 == 0 { Channel::Stdout } else { Channel::Stderr };
            Content::Lost(channel, u64_at(body, 0))
        }
        _ => return None,
    };
    Some(((key_at(head, 0), Timestamp(u64_at(head, 12)), content), rest))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
