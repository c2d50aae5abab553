//! What worker and runner say to each other: frames of a length, a kind and a body, little endian.

use std::os::unix::ffi::OsStrExt;

use hq_core::limits::RESULT_BYTES_MAX;
use hq_core::worker_messages::CallInput;

use crate::limits::RUNNER_FRAME_MAX;
use crate::objects::Taken;

const CALL: u8 = 1;
const CODE: u8 = 3;
const GO_ON: u8 = 4;
const READY: u8 = 1;
const DONE: u8 = 2;
const WAITS: u8 = 3;
const WANTS: u8 = 4;
const SPENT: u8 = 5;
const LEAVES: u8 = 6;
const WORN: u8 = 7;

/// Stands in the queue where no call comes any more.
pub(crate) const END: u64 = 0;

const IS_PREPARED: u8 = 1;
const HAS_ENTRY: u8 = 2;
const ENTRY_IS_JSON: u8 = 4;
const IS_PACKED: u8 = 8;
const HAS_OWN_WORLD: u8 = 16;
const GATHERS: u8 = 32;

/// Bytes before each body.
const HEADER: usize = 5;

/// A call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call<'a> {
    /// Tells it from the calls before.
    pub(crate) number: u64,
    /// Outputs are open and directories made: the runner was started for it.
    pub(crate) is_prepared: bool,
    /// `MODULE:NAME`, or what people call it when it is packed.
    pub(crate) name: &'a [u8],
    /// JSON; none when empty.
    pub(crate) arguments: &'a [u8],
    pub(crate) entry: Option<&'a [u8]>,
    pub(crate) entry_is_json: bool,
    /// Of a function that was told with its code: the number of that.
    pub(crate) code: Option<u32>,
    /// What others have left behind that are among its arguments.
    pub(crate) inputs: &'a [CallInput],
    pub(crate) cwd: &'a [u8],
    /// Nowhere when empty.
    pub(crate) stdout: &'a [u8],
    pub(crate) stderr: &'a [u8],
    pub(crate) submit_dir: &'a [u8],
    /// None when empty.
    pub(crate) task_dir: &'a [u8],
    /// `KEY=VALUE`, NUL-terminated.
    pub(crate) environment: &'a [u8],
    /// The file into which a large value goes; none when empty.
    pub(crate) put: &'a [u8],
    /// Where values are that are among its arguments.
    pub(crate) taken: &'a [Taken],
    /// Variables of each rank, `KEY=VALUE`, NUL-terminated; of a call without ranks none.
    pub(crate) ranks: &'a [Vec<u8>],
    /// Its communicator is that of the whole world.
    pub(crate) has_own_world: bool,
    /// It returns what each rank returned.
    pub(crate) gathers: bool,
}

impl Call<'_> {
    /// The frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = [
            (self.is_prepared, IS_PREPARED),
            (self.entry.is_some(), HAS_ENTRY),
            (self.entry_is_json, ENTRY_IS_JSON),
            (self.code.is_some(), IS_PACKED),
            (self.has_own_world, HAS_OWN_WORLD),
            (self.gathers, GATHERS),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        let parts = [
            self.name,
            self.arguments,
            self.entry.unwrap_or_default(),
            self.cwd,
            self.stdout,
            self.stderr,
            self.submit_dir,
            self.task_dir,
            self.environment,
            &inputs(self.inputs),
            self.put,
            &taken(self.taken),
            &ranks(self.ranks),
        ];
        let mut body = Vec::with_capacity(64 + parts.iter().map(|part| 4 + part.len()).sum::<usize>());
        body.extend_from_slice(&self.number.to_le_bytes());
        body.extend_from_slice(&[flags, parts.len() as u8]);
        body.extend_from_slice(&self.code.unwrap_or_default().to_le_bytes());
        parts.iter().for_each(|part| body.extend_from_slice(&(part.len() as u32).to_le_bytes()));
        parts.iter().for_each(|part| body.extend_from_slice(part));
        frame(CALL, &body)
    }
}

// Job, task and length of each, and its bytes.
fn inputs(inputs: &[CallInput]) -> Vec<u8> {
    let mut out = Vec::new();
    for CallInput { of, result, .. } in inputs {
        out.extend_from_slice(&of.job.0.to_le_bytes());
        out.extend_from_slice(&of.task.0.to_le_bytes());
        put(&mut out, result);
    }
    out
}

// Job, task and length of each path, and the path.
fn taken(taken: &[Taken]) -> Vec<u8> {
    let mut out = Vec::new();
    for Taken { of, path, .. } in taken {
        out.extend_from_slice(&of.job.0.to_le_bytes());
        out.extend_from_slice(&of.task.0.to_le_bytes());
        put(&mut out, path.as_os_str().as_bytes());
    }
    out
}

// Length of each block, and the block.
fn ranks(ranks: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    ranks.iter().for_each(|variables| put(&mut out, variables));
    out
}

/// The frame that tells the code of a function, and which calls it is for.
pub(crate) fn code(number: u32, code: &[u8]) -> Vec<u8> {
    frame(CODE, &[&number.to_le_bytes(), code].concat())
}

/// The frame that lets a call that waited go on.
pub(crate) fn go_on(number: u64) -> Vec<u8> {
    frame(GO_ON, &number.to_le_bytes())
}

/// A text, as they come before all frames: the runner's program, and the names of the variables that are of a task.
pub(crate) fn text_before(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 4);
    put(&mut out, text);
    out
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.push(kind);
    out.extend_from_slice(body);
    out
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    out.extend_from_slice(part);
}

/// What a runner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It waits for calls.
    Ready { version: String },
    /// A call has ended.
    Done(Done),
    /// A call waits for what others return.
    Waits { number: u64 },
    /// A call that waited wants to go on.
    Wants { number: u64 },
    /// The call that it has is its last one: what its ranks do is not known any more.
    Spent,
    /// Names in `/dev/shm` that a world of MPI leaves there when it is ended by force.
    Leaves { names: Vec<String> },
    /// It takes no other call after this one, whose end comes next: it has had so many, or has grown by so much.
    Worn { number: u64 },
}

/// How a rank has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankDied {
    pub(crate) rank: u32,
    /// The signal that ended it, or else its exit code.
    pub(crate) end: Result<u8, u8>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) number: u64,
    pub(crate) status: Status,
    pub(crate) wall_us: u64,
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) rss_max_kib: u64,
    pub(crate) result: Vec<u8>,
    /// For people.
    pub(crate) text: String,
}

/// What became of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It returned what can be said.
    Value,
    /// It raised an exception, with this exit code.
    Raised(u8),
    /// There is no such module or function.
    NotLoaded,
    /// What it returned is nothing that can be told: JSON does not know it, or it cannot be pickled.
    NotTold,
    /// Its outputs or directories could not be made.
    NotStarted,
    /// What it returned takes too much room; the text is how much.
    TooLarge,
    /// What it returned is in the file that it was told.
    Stored,
    /// It could not be written there; the text is why.
    NotStored,
}

/// What the first frame of some bytes says, and how long it is; nothing when it is not whole.
///
/// # Errors
/// When no runner says so much, or it makes no sense.
pub(crate) fn decode_next(bytes: &[u8]) -> Result<Option<(Said, usize)>, String> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let (kind, length) = header(*head)?;
    match rest.get(..length) {
        None => Ok(None),
        Some(body) => Ok(Some((decode(kind, body)?, HEADER + length))),
    }
}

// The kind of a frame and how many bytes of body follow, from its first bytes.
fn header(bytes: [u8; HEADER]) -> Result<(u8, usize), String> {
    let [a, b, c, d, kind] = bytes;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match length <= RUNNER_FRAME_MAX {
        true => Ok((kind, length)),
        false => Err(format!("it sent {length} bytes at once, but at most {RUNNER_FRAME_MAX} are accepted")),
    }
}

// What is said in the body of a frame.
fn decode(kind: u8, body: &[u8]) -> Result<Said, String> {
    let said = match kind {
        READY => ready(body),
        DONE => done(body),
        WAITS => number(body).map(|number| Said::Waits { number }),
        WANTS => number(body).map(|number| Said::Wants { number }),
        SPENT => body.is_empty().then_some(Said::Spent),
        LEAVES => leaves(body),
        WORN => number(body).map(|number| Said::Worn { number }),
        _ => return Err(format!("frames of kind {kind} are not known")),
    };
    said.ok_or_else(|| format!("a frame of kind {kind} with {} bytes is damaged", body.len()))
}

fn ready(body: &[u8]) -> Option<Said> {
    let (_, rest) = body.split_at_checked(8)?;
    Some(Said::Ready { version: text(rest) })
}

fn number(body: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(body.try_into().ok()?))
}

// Names without a directory; a peer may say nothing else.
fn leaves(body: &[u8]) -> Option<Said> {
    let names = body.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names: Option<Vec<String>> = names.map(|name| String::from_utf8(name.to_vec()).ok()).collect();
    let names =
        names.filter(|names| names.iter().all(|name| !name.contains('/') && name != "." && name != ".."))?;
    Some(Said::Leaves { names })
}

/// How a rank has died, as its parent says it: its number, the signal, and the exit code, `u32`, `u8`, `u8`.
pub(crate) fn rank_died(body: [u8; 6]) -> RankDied {
    let [a, b, c, d, signal, code] = body;
    RankDied { rank: u32::from_le_bytes([a, b, c, d]), end: if signal > 0 { Ok(signal) } else { Err(code) } }
}

fn done(body: &[u8]) -> Option<Said> {
    let (head, rest) = body.split_at_checked(50)?;
    let word = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
    let status = match head[8] {
        0 => Status::Value,
        1 => Status::Raised(head[9].max(1)),
        2 => Status::NotLoaded,
        3 => Status::NotTold,
        4 => Status::NotStarted,
        5 => Status::TooLarge,
        6 => Status::Stored,
        7 => Status::NotStored,
        _ => return None,
    };
    let (result, words) = rest.split_at_checked(half(42)?)?;
    let is_whole = words.len() == half(46)? && result.len() <= RESULT_BYTES_MAX;
    is_whole.then_some(())?;
    Some(Said::Done(Done {
        number: word(0)?,
        status,
        wall_us: word(10)?,
        user_us: word(18)?,
        system_us: word(26)?,
        rss_max_kib: word(34)?,
        result: result.to_vec(),
        text: text(words),
    }))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // As the runner's program does it.
    fn done_body(number: u64, status: u8, code: u8, result: &[u8], words: &str) -> Vec<u8> {
        let mut body = number.to_le_bytes().to_vec();
        body.extend([status, code]);
        [5_u64, 6, 7, 8].iter().for_each(|measure| body.extend(measure.to_le_bytes()));
        body.extend((result.len() as u32).to_le_bytes());
        body.extend((words.len() as u32).to_le_bytes());
        body.extend(result);
        body.extend(words.as_bytes());
        body
    }

    #[test]
    fn ends_of_calls_are_understood_whole_or_not_at_all() {
        let body = done_body(9, 1, 0, b"[1]", "ValueError: no");
        let Ok(Said::Done(done)) = decode(DONE, &body) else { panic!("an end") };
        assert_eq!((done.number, done.status, done.result.as_slice()), (9, Status::Raised(1), &b"[1]"[..]));
        assert_eq!((done.wall_us, done.rss_max_kib, done.text.as_str()), (5, 8, "ValueError: no"));
        for cut in 0..body.len() {
            assert!(decode(DONE, &body[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(DONE, &[&body[..], b"x"].concat()).is_err());
        assert!(decode(DONE, &done_body(1, 8, 0, b"", "")).is_err());
        assert!(decode(DONE, &done_body(1, 0, 0, &vec![b'1'; RESULT_BYTES_MAX + 1], "")).is_err());
        assert!(decode(WAITS, &body).is_err() && decode(8, &body).is_err());
        assert_eq!(decode(WAITS, &body[..8]), Ok(Said::Waits { number: 9 }));
        assert_eq!(decode(WANTS, &body[..8]), Ok(Said::Wants { number: 9 }));
        assert_eq!(decode(WORN, &body[..8]), Ok(Said::Worn { number: 9 }));
        assert!(header([255; HEADER]).is_err());
    }

    #[test]
    fn a_call_says_where_values_are() {
        let put = b"/store/put/r-1-1";
        let bytes = Call { put, ..Call::default() }.encode();
        let body = &bytes[HEADER..];
        // Three more parts than in version 2.
        assert_eq!(body[9], 13);
        let lengths = body[14..14 + 4 * 13].chunks(4);
        let lengths: Vec<u32> =
            lengths.map(|length| u32::from_le_bytes(length.try_into().expect("four"))).collect();
        assert_eq!(lengths[10..], [put.len() as u32, 0, 0]);
        assert!(body.ends_with(put));
        for (number, status) in [(6, Status::Stored), (7, Status::NotStored)] {
            let Ok(Said::Done(done)) = decode(DONE, &done_body(1, number, 0, b"", "full")) else {
                panic!("an end")
            };
            assert_eq!((done.status, done.text.as_str()), (status, "full"));
        }
    }

    #[test]
    fn frames_are_understood_one_after_the_other_and_only_when_they_are_whole() {
        let one = frame(DONE, &done_body(1, 0, 0, b"[1]", ""));
        let two = [&one[..], &frame(WAITS, &9_u64.to_le_bytes())].concat();
        for cut in 0..one.len() {
            assert_eq!(decode_next(&two[..cut]), Ok(None), "cut at {cut}");
        }
        let Ok(Some((Said::Done(_), length))) = decode_next(&two) else { panic!("an end") };
        assert_eq!(decode_next(&two[length..]), Ok(Some((Said::Waits { number: 9 }, HEADER + 8))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_understood(kind in 0_u8..9, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(kind, &body);
            let _ = decode_next(&body);
        }
    }
}
