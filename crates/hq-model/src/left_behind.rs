//! What a call of a function left behind: JSON, a pickle, or parts that everybody can read before a pickle, as
//! `docs/reference/runner-protocol.md` has them. Nothing is unpickled.
//!
//! The bytes come from an interpreter in which a user's code ran, so they may be anything.

use std::borrow::Cow;

use crate::{JobId, TaskId, TaskRef};

const PARTS: u8 = b'E';
const PICKLE: u8 = 0x80;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STDOUT_LOST: u8 = 3;
const STDERR_LOST: u8 = 4;
const FAILURE: u8 = 5;
const TYPE: u8 = 6;
const TEXT: u8 = 7;
const TRACEBACK: u8 = 8;
const OBJECT: u8 = 9;
const HELD: u8 = 10;
const VALUE_OF: u8 = 11;
/// Kind and length of a part.
const PART_HEAD: usize = 3;

/// What a call left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftBehind<'a> {
    /// What a function returned that is no packed call: JSON, as far as its interpreter told the truth.
    Json(&'a [u8]),
    /// What a packed call left.
    Packed(Packed<'a>),
    /// Nothing that is known.
    Unknown,
}

/// What a packed call left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The value or the exception, for the client; empty where an exception could not be pickled, and where the value is an object.
    pub pickle: &'a [u8],
    /// Bytes of the object `value` of its task, where that is what it returned.
    pub object: Option<u64>,
    /// The call that it has returned instead of a value: it ends with the value of that.
    pub value_of: Option<TaskRef>,
    /// References are in the value, which belong to who gets it.
    pub has_references: bool,
    /// What it printed to standard output.
    pub stdout: Printed<'a>,
    /// What it printed to standard error.
    pub stderr: Printed<'a>,
    /// How it failed, if it did.
    pub failure: Option<Raised<'a>>,
}

/// The last of what a call printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Printed<'a> {
    /// That.
    pub bytes: &'a [u8],
    /// How many bytes before are not kept.
    pub lost: u64,
}

/// How a call failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raised<'a> {
    /// `raised`, or what else went wrong.
    pub kind: Cow<'a, str>,
    /// Type of the exception.
    pub type_name: Cow<'a, str>,
    /// What it says.
    pub text: Cow<'a, str>,
    /// Where it was raised, as Python prints that.
    pub traceback: Cow<'a, str>,
}

impl LeftBehind<'_> {
    /// What these bytes are.
    pub fn of(bytes: &[u8]) -> LeftBehind<'_> {
        match bytes {
            [PICKLE, ..] => LeftBehind::Packed(Packed { pickle: bytes, ..Packed::default() }),
            [PARTS, parts @ ..] => Packed::of(parts).map_or(LeftBehind::Unknown, LeftBehind::Packed),
            _ => LeftBehind::Json(bytes),
        }
    }
}

impl<'a> Packed<'a> {
    fn of(mut rest: &'a [u8]) -> Option<Packed<'a>> {
        let mut packed = Packed::default();
        let mut raised = Raised::default();
        let mut has_failed = false;
        while let Some(kind) = rest.first().copied().filter(|kind| *kind != PICKLE) {
            let (head, behind) = rest.split_at_checked(PART_HEAD)?;
            let (part, behind) =
                behind.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
            rest = behind;
            let text = || String::from_utf8_lossy(part);
            match kind {
                STDOUT => packed.stdout.bytes = part,
                STDERR => packed.stderr.bytes = part,
                STDOUT_LOST => packed.stdout.lost = u64::from_le_bytes(part.try_into().ok()?),
                STDERR_LOST => packed.stderr.lost = u64::from_le_bytes(part.try_into().ok()?),
                FAILURE => (has_failed, raised.kind) = (true, text()),
                TYPE => raised.type_name = text(),
                TEXT => raised.text = text(),
                TRACEBACK => raised.traceback = text(),
                OBJECT => packed.object = Some(u64::from_le_bytes(*part.first_chunk()?)),
                HELD => packed.has_references = true,
                VALUE_OF => packed.value_of = Some(value_of(part)?),
                128.. => return None,
                _ => {}
            }
        }
        packed.pickle = rest;
        packed.failure = has_failed.then_some(raised);
        Some(packed)
    }

    /// True when the pickle is all of the value: another call can have it as an argument as it is.
    pub fn is_value_alone(&self) -> bool {
        let is_elsewhere = self.object.is_some() || self.value_of.is_some() || self.has_references;
        !self.pickle.is_empty() && self.failure.is_none() && !is_elsewhere
    }

    /// What it printed on a channel.
    pub fn printed(&self, channel: crate::Channel) -> Printed<'a> {
        match channel {
            crate::Channel::Stdout => self.stdout,
            crate::Channel::Stderr => self.stderr,
        }
    }
}

fn value_of(part: &[u8]) -> Option<TaskRef> {
    let (job, task) = part.split_first_chunk()?;
    let task = u32::from_le_bytes(task.try_into().ok()?);
    Some(TaskRef::new(JobId(u32::from_le_bytes(*job)), TaskId(task)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        out.push(kind);
        out.extend((bytes.len() as u16).to_le_bytes());
        out.extend(bytes);
    }

    // As the runner's program does it.
    fn written(packed: &Packed<'_>) -> Vec<u8> {
        let mut out = vec![PARTS];
        for (kind, lost, printed) in
            [(STDOUT, STDOUT_LOST, packed.stdout), (STDERR, STDERR_LOST, packed.stderr)]
        {
            if !printed.bytes.is_empty() {
                part(kind, printed.bytes, &mut out);
            }
            if printed.lost > 0 {
                part(lost, &printed.lost.to_le_bytes(), &mut out);
            }
        }
        if let Some(Raised { kind, type_name, text, traceback }) = &packed.failure {
            for (number, text) in [(FAILURE, kind), (TYPE, type_name), (TEXT, text), (TRACEBACK, traceback)] {
                part(number, text.as_bytes(), &mut out);
            }
        }
        if packed.has_references {
            part(HELD, &[0; 33], &mut out);
        }
        if let Some(task) = packed.value_of {
            part(VALUE_OF, &[task.job.0.to_le_bytes(), task.task.0.to_le_bytes()].concat(), &mut out);
        }
        out.extend(packed.pickle);
        out
    }

    #[test]
    fn each_form_is_told_from_the_others() {
        assert_eq!(LeftBehind::of(b"[1]"), LeftBehind::Json(b"[1]"));
        assert_eq!(LeftBehind::of(b"NaN"), LeftBehind::Json(b"NaN"));
        let pickle = &b"\x80\x05K\x01."[..];
        let bare = Packed { pickle, ..Packed::default() };
        assert_eq!(LeftBehind::of(pickle), LeftBehind::Packed(bare.clone()));
        assert_eq!(LeftBehind::of(&written(&bare)), LeftBehind::Packed(bare.clone()));
        // A part of a later release is skipped; what cannot be one is not.
        let later = [b"E\x0c\x02\x00xy", pickle].concat();
        assert_eq!(LeftBehind::of(&later), LeftBehind::Packed(bare));
        let object = Packed { object: Some(20_480), ..Packed::default() };
        let stored = b"E\x09\x0a\x00\x00\x50\0\0\0\0\0\0xy";
        assert_eq!(LeftBehind::of(stored), LeftBehind::Packed(object));
        let value_of = Some(TaskRef::new(JobId(3), TaskId(258)));
        let returned = Packed { value_of, ..Packed::default() };
        assert_eq!(LeftBehind::of(b"E\x0b\x08\x00\x03\0\0\0\x02\x01\0\0"), LeftBehind::Packed(returned));
        assert_eq!(LeftBehind::of(b"E\x0b\x05\x00\x03\0\0\0\x02"), LeftBehind::Unknown);
        for unknown in
            [&b"E\x01"[..], b"E\x01\x05\x00abc", b"E\x03\x01\x00x", b"E\x09\x01\x00x", b"E\xff\x00\x00"]
        {
            assert_eq!(LeftBehind::of(unknown), LeftBehind::Unknown, "{unknown:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (stdout, stderr) in any::<(Vec<u8>, Vec<u8>)>(),
            lost in any::<(u64, u64)>(),
            failure in proptest::option::of(any::<(String, String, String, String)>()),
            rest in any::<Option<Vec<u8>>>(),
            value_of in any::<Option<(u32, u32)>>(),
            has_references: bool,
        ) {
            let pickle = rest.map_or(Vec::new(), |rest| [&[PICKLE][..], &rest].concat());
            let failure = failure.map(|(kind, type_name, text, traceback)| Raised {
                kind: kind.into(),
                type_name: type_name.into(),
                text: text.into(),
                traceback: traceback.into(),
            });
            let packed = Packed {
                pickle: &pickle,
                object: None,
                value_of: value_of.map(|(job, task)| TaskRef::new(JobId(job), TaskId(task))),
                has_references,
                stdout: Printed { bytes: &stdout, lost: lost.0 },
                stderr: Printed { bytes: &stderr, lost: lost.1 },
                failure,
            };
            let bytes = written(&packed);
            prop_assert_eq!(LeftBehind::of(&bytes), LeftBehind::Packed(packed));
        }

        #[test]
        fn any_bytes_are_something_and_no_larger_than_they_are(bytes in any::<Vec<u8>>()) {
            let bytes = [&[PARTS][..], &bytes].concat();
            if let LeftBehind::Packed(packed) = LeftBehind::of(&bytes) {
                let parts = [packed.pickle, packed.stdout.bytes, packed.stderr.bytes];
                prop_assert!(parts.iter().map(|part| part.len()).sum::<usize>() < bytes.len());
            }
        }
    }
}
