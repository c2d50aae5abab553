//! What worker and launcher say to each other: one packet an order, one packet some reports.
//!
//! Both ends are the same program (one was forked from the other), so this is a private layout in
//! native byte order. An order is written once into the worker's outbox and read in place by the
//! thread that executes it.

use std::ffi::c_char;

use hq_model::Usage;

/// Names a start of a task between worker and launcher: a place in a dense table, and how often the place
/// has been used. The worker reuses a place only after its end was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The place.
    pub index: u32,
    /// How often it has been used, counted from 1.
    pub generation: u32,
}

impl Slot {
    /// As one number, never 0.
    pub(super) fn as_number(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// The slot of such a number.
    pub(super) fn from_number(number: u64) -> Slot {
        Slot { index: (number >> 32) as u32, generation: number as u32 }
    }
}

/// A process to start. All strings are bytes without NUL.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order<'a> {
    /// Its name from now on.
    pub slot: Slot,
    /// It waits for the end of this start, and begins in the same moment when that exits with 0.
    pub after: Option<Slot>,
    /// Paths to try one after the other; NUL-terminated strings.
    pub programs: &'a [u8],
    /// Arguments, the program's name first; NUL-terminated strings.
    pub args: &'a [u8],
    /// `KEY=VALUE`, NUL-terminated strings, added to the base environment.
    pub env: &'a [u8],
    /// Positions in the base environment of variables left out.
    pub env_dropped: &'a [u32],
    /// Working directory, absolute.
    pub cwd: &'a [u8],
    /// A private directory to make first; none when empty.
    pub task_dir: &'a [u8],
    /// File for standard output, absolute; `/dev/null` when empty.
    pub stdout: &'a [u8],
    /// File for standard error, absolute; `/dev/null` when empty. The same file as `stdout` shares its position.
    pub stderr: &'a [u8],
    /// CPUs to be bound to; not bound when empty.
    pub cpus: &'a [u32],
    /// Files of control groups that it enters, by writing there; NUL-terminated paths.
    pub groups: &'a [u8],
    /// Bytes of resident memory over which it is ended, with all that it started; 0 without a limit.
    pub memory_bytes: u64,
    /// Standard input comes from the file sent along with the order, else it is empty.
    pub has_stdin: bool,
    /// That is a socket, which is used as it is. A file is opened anew.
    pub is_stdin_socket: bool,
    /// Nothing is executed: the process is forked from a zygote, whose socket comes along, too.
    pub is_forked: bool,
}

const HEADER_WORDS: usize = 14;
const FLAG_STDIN: u32 = 1;
const FLAG_IN_FILE: u32 = 2;
const FLAG_STDIN_SOCKET: u32 = 4;
const FLAG_FORKED: u32 = 8;

impl Order<'_> {
    /// Appends the packet to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let socket = if self.is_stdin_socket { FLAG_STDIN_SOCKET } else { 0 };
        let forked = if self.is_forked { FLAG_FORKED } else { 0 };
        let flags = socket | forked | if self.has_stdin { FLAG_STDIN } else { 0 };
        let after = self.after.unwrap_or_default();
        let words = [
            self.slot.index,
            self.slot.generation,
            flags,
            strings_count(self.programs),
            strings_count(self.args),
            strings_count(self.env),
            self.env_dropped.len() as u32,
            self.cpus.len() as u32,
            0,
            strings_count(self.groups),
            self.memory_bytes as u32,
            (self.memory_bytes >> 32) as u32,
            after.index,
            after.generation,
        ];
        put_words(out, &words);
        put_words(out, self.env_dropped);
        put_words(out, self.cpus);
        for text in [self.cwd, self.task_dir, self.stdout, self.stderr] {
            out.extend_from_slice(text);
            out.push(0);
        }
        out.extend_from_slice(self.programs);
        out.extend_from_slice(self.args);
        out.extend_from_slice(self.env);
        out.extend_from_slice(self.groups);
    }
}

/// The packet that says: this order of `length` bytes is in the file sent along (the last one, when there are two).
pub(super) fn encode_in_file(order: &Order<'_>, length: u32, out: &mut Vec<u8>) {
    let flags = FLAG_IN_FILE | if order.has_stdin { FLAG_STDIN } else { 0 };
    let (slot, after) = (order.slot, order.after.unwrap_or_default());
    let ends = [after.index, after.generation];
    put_words(out, &[slot.index, slot.generation, flags, 0, 0, 0, 0, 0, length, 0, 0, 0, ends[0], ends[1]]);
}

/// A received order with pointers into its packet, reused from order to order.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) slot: Slot,
    pub(super) has_stdin: bool,
    pub(super) is_stdin_socket: bool,
    pub(super) is_forked: bool,
    pub(super) env_dropped: Vec<u32>,
    pub(super) cpus: Vec<u32>,
    /// cwd, task directory, stdout, stderr: start and end in the packet, the NUL behind it.
    pub(super) paths: [(usize, usize); 4],
    /// Null-terminated arrays of pointers into the packet.
    pub(super) programs: Vec<*const c_char>,
    pub(super) args: Vec<*const c_char>,
    pub(super) env: Vec<*const c_char>,
    pub(super) groups: Vec<*const c_char>,
    pub(super) memory_bytes: u64,
}

/// Length of the order that is in a file, when this packet says so.
pub(super) fn length_in_file(packet: &[u8]) -> Option<usize> {
    let flags = word(packet, 2)?;
    if flags & FLAG_IN_FILE == 0 { None } else { word(packet, 8).map(|w| w as usize) }
}

/// The slot and whether a file for standard input comes along, from any packet.
pub(super) fn slot_of(packet: &[u8]) -> Option<(Slot, bool)> {
    let slot = Slot { index: word(packet, 0)?, generation: word(packet, 1)? };
    Some((slot, word(packet, 2)? & FLAG_STDIN != 0))
}

/// The start whose end an order waits for, from any packet.
pub(super) fn after_of(packet: &[u8]) -> Option<Slot> {
    let slot = Slot { index: word(packet, 12)?, generation: word(packet, 13)? };
    (slot.generation > 0).then_some(slot)
}

impl Received {
    /// Reads a packet; the pointers are valid as long as `packet` stays where it is. `base` goes first
    /// into the environment.
    pub(super) fn decode(&mut self, packet: &[u8], base: &[*const c_char]) -> Option<()> {
        (self.slot, self.has_stdin) = slot_of(packet)?;
        self.is_stdin_socket = word(packet, 2)? & FLAG_STDIN_SOCKET != 0;
        self.is_forked = word(packet, 2)? & FLAG_FORKED != 0;
        let counts = [word(packet, 3)?, word(packet, 4)?, word(packet, 5)?, word(packet, 9)?];
        self.memory_bytes = u64::from(word(packet, 10)?) | u64::from(word(packet, 11)?) << 32;
        let (dropped, cpus) = (word(packet, 6)? as usize, word(packet, 7)? as usize);
        self.env_dropped.clear();
        self.cpus.clear();
        for i in 0..dropped {
            self.env_dropped.push(word(packet, HEADER_WORDS + i)?);
        }
        for i in 0..cpus {
            self.cpus.push(word(packet, HEADER_WORDS + dropped + i)?);
        }
        let mut strings = Strings { packet, at: (HEADER_WORDS + dropped + cpus) * 4 };
        for path in &mut self.paths {
            *path = strings.next()?;
        }
        self.env.clear();
        let mut next_dropped = self.env_dropped.iter().copied().peekable();
        for (position, variable) in base.iter().enumerate() {
            if next_dropped.peek() == Some(&(position as u32)) {
                next_dropped.next();
            } else {
                self.env.push(*variable);
            }
        }
        self.programs.clear();
        self.args.clear();
        self.groups.clear();
        let lists = [&mut self.programs, &mut self.args, &mut self.env, &mut self.groups];
        for (list, count) in lists.into_iter().zip(counts) {
            for _ in 0..count {
                let (start, _) = strings.next()?;
                list.push(packet[start..].as_ptr().cast());
            }
            list.push(std::ptr::null());
        }
        Some(())
    }
}

struct Strings<'a> {
    packet: &'a [u8],
    at: usize,
}

impl Strings<'_> {
    fn next(&mut self) -> Option<(usize, usize)> {
        let start = self.at;
        let rest = self.packet.get(start..)?;
        // SAFETY: the pointer and the length describe `rest`.
        let nul = unsafe { libc::memchr(rest.as_ptr().cast(), 0, rest.len()) };
        if nul.is_null() {
            return None;
        }
        let end = start + (nul as usize - rest.as_ptr() as usize);
        self.at = end + 1;
        Some((start, end))
    }
}

/// What the launcher was doing when a start went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Making the process.
    Fork,
    /// Making the task's private directory.
    TaskDir,
    /// Making the working directory.
    MakeCwd,
    /// Changing to the working directory.
    EnterCwd,
    /// Opening standard input.
    Stdin,
    /// Making the directory of the file for standard output.
    MakeStdoutDir,
    /// Opening the file for standard output.
    Stdout,
    /// Making the directory of the file for standard error.
    MakeStderrDir,
    /// Opening the file for standard error.
    Stderr,
    /// Entering its control groups.
    Group,
    /// Binding to CPUs.
    Affinity,
    /// Executing the program.
    Exec,
    /// Reading the order.
    Order,
    /// Having a zygote fork it.
    Zygote,
}

impl Stage {
    /// True when it is the node that cannot start tasks, and this one could start elsewhere.
    pub fn is_of_node(self, errno: i32) -> bool {
        match self {
            Stage::Fork | Stage::TaskDir | Stage::Stdin | Stage::Group | Stage::Order | Stage::Zygote => true,
            _ => matches!(errno, libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE),
        }
    }

    pub(super) const ALL: [Stage; 14] = [
        Stage::Fork,
        Stage::TaskDir,
        Stage::MakeCwd,
        Stage::EnterCwd,
        Stage::Stdin,
        Stage::MakeStdoutDir,
        Stage::Stdout,
        Stage::MakeStderrDir,
        Stage::Stderr,
        Stage::Group,
        Stage::Affinity,
        Stage::Exec,
        Stage::Order,
        Stage::Zygote,
    ];
}

/// How a start went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exited with this code.
    Exited(u8),
    /// The process died from this signal.
    Signaled(u8),
    /// It used more resident memory than it was held to: so many KiB.
    OverMemory(u32),
    /// There was never a process: where it went wrong, and the system's error number.
    NotStarted(Stage, i32),
    /// There was never a process: it waited for another start, and was called back or that one did not end well.
    Recalled,
    /// No end: the start for which it waited has ended, and it has begun. Its end comes later.
    Begun,
}

/// The end of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The slot of the process that ended.
    pub slot: Slot,
    /// How.
    pub end: End,
    /// What it used.
    pub usage: Usage,
}

const REPORT_WORDS: usize = 8;
// Above all stages.
const RECALLED: u64 = 1 << 16;
const BEGUN: u64 = RECALLED + 1;

impl Ended {
    /// Bytes of one report.
    pub(super) const BYTES: usize = REPORT_WORDS * 8;

    /// What is told of a start that waited for another one.
    pub(super) fn of_waiting(slot: Slot, end: End) -> Ended {
        Ended { slot, end, usage: Usage::default() }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let end = match self.end {
            End::Exited(code) => u64::from(code),
            End::Signaled(signal) => 1 << 32 | u64::from(signal),
            End::OverMemory(kib) => u64::from(u32::MAX) << 32 | u64::from(kib),
            End::NotStarted(stage, errno) => (2 + stage as u64) << 32 | u64::from(errno as u32),
            End::Recalled => RECALLED << 32,
            End::Begun => BEGUN << 32,
        };
        let usage = &self.usage;
        for word in [
            self.slot.as_number(),
            end,
            usage.wall_us,
            usage.user_us,
            usage.system_us,
            usage.rss_max_kib,
            usage.blocks_read,
            usage.blocks_written,
        ] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Ended> {
        let word = |i: usize| Some(u64::from_ne_bytes(bytes.get(i * 8..i * 8 + 8)?.try_into().ok()?));
        let (slot, end) = (word(0)?, word(1)?);
        let end = match end >> 32 {
            0 => End::Exited(end as u8),
            1 => End::Signaled(end as u8),
            tag if tag == u64::from(u32::MAX) => End::OverMemory(end as u32),
            RECALLED => End::Recalled,
            BEGUN => End::Begun,
            stage => End::NotStarted(*Stage::ALL.get(stage as usize - 2)?, end as u32 as i32),
        };
        Some(Ended {
            slot: Slot::from_number(slot),
            end,
            usage: Usage {
                wall_us: word(2)?,
                user_us: word(3)?,
                system_us: word(4)?,
                rss_max_kib: word(5)?,
                blocks_read: word(6)?,
                blocks_written: word(7)?,
            },
        })
    }
}

/// A signal for the process group of a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalOrder {
    pub(super) slot: Slot,
    pub(super) signal: u8,
}

/// The signal that calls a start back that waits for another one.
pub(super) const RECALL: u8 = 0;

impl SignalOrder {
    /// Without the mark that may follow.
    pub(super) const BYTES: usize = 16;

    /// With a `mark`, which is not empty, the task is to be ended with all that it started.
    pub(super) fn encode(&self, mark: &[u8], out: &mut Vec<u8>) {
        put_words(out, &[self.slot.index, self.slot.generation, u32::from(self.signal), mark.len() as u32]);
        out.extend_from_slice(mark);
    }

    /// The order, and how many bytes of a mark follow.
    pub(super) fn decode(bytes: &[u8]) -> Option<(SignalOrder, usize)> {
        let slot = Slot { index: word(bytes, 0)?, generation: word(bytes, 1)? };
        Some((SignalOrder { slot, signal: word(bytes, 2)? as u8 }, word(bytes, 3)? as usize))
    }
}

fn strings_count(block: &[u8]) -> u32 {
    block.iter().filter(|b| **b == 0).count() as u32
}

fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_ne_bytes());
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(index * 4..index * 4 + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn texts(list: &[*const c_char]) -> Vec<Vec<u8>> {
        let strings = list.iter().take_while(|p| !p.is_null());
        // SAFETY: the pointers are to NUL-terminated strings in a packet that the caller holds.
        strings.map(|p| unsafe { CStr::from_ptr(*p) }.to_bytes().to_vec()).collect()
    }

    #[test]
    fn an_order_comes_out_as_it_went_in() {
        let order = Order {
            slot: Slot { index: 7, generation: 9 },
            after: Some(Slot { index: 3, generation: 5 }),
            programs: b"/bin/x\0/usr/bin/x\0",
            args: b"x\0\0\xff\xfe\0",
            env: b"A=1\0B=\0",
            env_dropped: &[1],
            cwd: b"/tmp",
            task_dir: b"",
            stdout: b"/tmp/o",
            stderr: b"",
            cpus: &[3, 64],
            groups: b"/g/cgroup.procs\0",
            memory_bytes: 5 << 32 | 7,
            has_stdin: true,
            is_stdin_socket: true,
            is_forked: true,
        };
        let mut packet = Vec::new();
        order.encode(&mut packet);
        let base = [c"HOME=/".as_ptr(), c"A=0".as_ptr(), c"Z=1".as_ptr()];
        let mut received = Received::default();
        received.decode(&packet, &base).expect("a whole order");
        assert_eq!((received.slot, received.has_stdin), (order.slot, true));
        assert!(received.is_stdin_socket && received.is_forked);
        assert_eq!(after_of(&packet), order.after);
        assert_eq!(received.cpus, [3, 64]);
        assert_eq!(received.paths.map(|(a, b)| packet[a..b].to_vec()), [&b"/tmp"[..], b"", b"/tmp/o", b""]);
        assert_eq!(texts(&received.programs), [&b"/bin/x"[..], b"/usr/bin/x"]);
        assert_eq!(texts(&received.args), [&b"x"[..], b"", b"\xff\xfe"]);
        assert_eq!(received.memory_bytes, order.memory_bytes);
        assert_eq!(texts(&received.groups), [&b"/g/cgroup.procs"[..]]);
        assert_eq!(texts(&received.env), [&b"HOME=/"[..], b"Z=1", b"A=1", b"B="]);
        for cut in 0..packet.len() {
            assert!(received.decode(&packet[..cut], &base).is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn reports_come_out_as_they_went_in() {
        let usage = Usage { wall_us: 5, user_us: 4, system_us: 3, rss_max_kib: 2, ..Usage::default() };
        let slot = Slot { index: 1, generation: u32::MAX };
        let mut ends = vec![End::Exited(255), End::Signaled(9), End::OverMemory(u32::MAX)];
        ends.extend([End::Recalled, End::Begun]);
        ends.extend(Stage::ALL.map(|stage| End::NotStarted(stage, libc::ENOENT)));
        for end in ends {
            let ended = Ended { slot, end, usage };
            let mut bytes = Vec::new();
            ended.encode(&mut bytes);
            assert_eq!(bytes.len(), Ended::BYTES);
            assert_eq!(Ended::decode(&bytes), Some(ended));
        }
    }
}
