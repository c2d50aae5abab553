//! What is remembered of earlier runs: the text that made the outputs, and what the inputs held.
//!
//! It is a text of lines to which lines are appended. Each ends with a check, so a line that was torn, or that another
//! was written into, is skipped and counted; a record that is lost this way means that its run is adopted again.

use std::io;

use rustc_hash::FxHashMap;

use crate::plan::{Plan, Rerun, Run};
use crate::world::{Digests, Facts, Files};

/// The digest of a content or text.
pub type Digest = [u8; 32];

/// The first line of the file.
pub const HEADER: &str = "hq-make-known 1\n";
/// Of numbers as they are written.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct Known {
    runs: FxHashMap<Vec<u8>, KnownRun>,
    files: FxHashMap<Vec<u8>, (Facts, Digest)>,
    lines: usize,
    /// Lines that could not be understood.
    pub skipped: usize,
    /// It was written by a release with another format, and nothing of it is used.
    pub is_foreign: bool,
}

/// What is remembered of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownRun {
    /// The digest of its text.
    pub text: Digest,
    /// Inputs that are no newer than this count as taken in: they were adopted.
    pub until_ns: i64,
    /// What each input held; nothing in mode `mtime`.
    pub inputs: Vec<(Vec<u8>, Digest)>,
}

impl Known {
    /// Reads the file. What cannot be understood is skipped.
    pub fn read(bytes: &[u8]) -> Known {
        let mut known = Known::default();
        let Some(rest) = bytes.strip_prefix(HEADER.as_bytes()) else {
            known.is_foreign = bytes.contains(&b'\n');
            return known;
        };
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(&rest[..0], |end| &rest[..end]);
        known.take(whole);
        known
    }

    /// Takes in lines that were appended.
    pub fn take(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.lines += 1;
            match parse(line) {
                Some(Line::Run(key, run)) => drop(self.runs.insert(key, run)),
                Some(Line::File(path, facts, digest)) => drop(self.files.insert(path, (facts, digest))),
                None => self.skipped += 1,
            }
        }
    }

    /// The file anew, with only what counts, in an order that depends on nothing else.
    pub fn compacted(&self) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = self.runs.iter().map(|(key, run)| run_line(key, run)).collect();
        lines.extend(self.files.iter().map(|(path, (facts, digest))| file_line(path, facts, digest)));
        lines.sort_unstable();
        [HEADER.as_bytes(), &lines.concat()].concat()
    }

    /// How many lines of those that were read say nothing that still counts.
    pub fn stale(&self) -> usize {
        self.lines - self.runs.len() - self.files.len()
    }

    /// How many runs are remembered.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What is to be appended after a run has ended well, or was found unchanged at its start.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn ended(run: &Run, plan: &Plan, files: &dyn Files, digests: &dyn Digests) -> io::Result<Vec<u8>> {
        let mut cache = Cache::new(None, files, digests);
        cache.record(run, plan, false)?;
        if run.rerun == Rerun::Hash {
            for output in &run.outputs {
                let file = plan.file(*output);
                if let Some(facts) = files.facts(&file.path)? {
                    cache.digest(relative(&plan.base, &file.path), &file.path, facts)?;
                }
            }
        }
        Ok(cache.lines)
    }

    /// What is to be appended so that all that is there counts as up to date, whatever is newer or differs.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn adopt(plan: &Plan, files: &dyn Files, digests: &dyn Digests) -> io::Result<Vec<u8>> {
        let mut cache = Cache::new(None, files, digests);
        for run in &plan.runs {
            let mut are_there = run.rerun != Rerun::Exists;
            for file in run.outputs.iter().chain(&run.inputs) {
                are_there = are_there && files.is_there(&plan.file(*file).path)?;
            }
            if are_there {
                cache.record(run, plan, true)?;
            }
        }
        Ok(cache.lines)
    }

    /// Whether the inputs of a run that perhaps is needed ([`Run::expected`]) hold what they held before, so that it need
    /// not run.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn is_unchanged(
        run: &Run,
        plan: &Plan,
        files: &dyn Files,
        digests: &dyn Digests,
    ) -> io::Result<bool> {
        if run.expected.is_empty() {
            return Ok(false);
        }
        let mut cache = Cache::new(None, files, digests);
        for (input, expected) in &run.expected {
            let file = plan.file(*input);
            let Some(facts) = files.facts(&file.path)? else { return Ok(false) };
            if cache.digest(relative(&plan.base, &file.path), &file.path, facts)? != *expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn run(&self, run: &Run) -> Option<&KnownRun> {
        if self.runs.is_empty() { None } else { self.runs.get(&key(run)) }
    }
}

/// Digests of files: those that are remembered, as long as nothing of the file has changed, and new ones.
pub(crate) struct Cache<'a> {
    known: Option<&'a Known>,
    files: &'a dyn Files,
    digests: &'a dyn Digests,
    fresh: FxHashMap<Vec<u8>, Digest>,
    /// What is to be appended.
    pub lines: Vec<u8>,
}

impl<'a> Cache<'a> {
    pub(crate) fn new(known: Option<&'a Known>, files: &'a dyn Files, digests: &'a dyn Digests) -> Cache<'a> {
        Cache { known, files, digests, fresh: FxHashMap::default(), lines: Vec::new() }
    }

    /// The digest of what a file holds.
    pub(crate) fn digest(&mut self, name: &[u8], path: &[u8], facts: Facts) -> io::Result<Digest> {
        if let Some(digest) = self.fresh.get(name) {
            return Ok(*digest);
        }
        if let Some((before, digest)) = self.known.and_then(|known| known.files.get(name))
            && *before == facts
        {
            return Ok(*digest);
        }
        let digest = if facts.is_dir {
            // What a directory holds is many files: its own time must do.
            self.digests.of_text(format!("directory {}", facts.mtime_ns).as_bytes())
        } else {
            self.digests.digest(path)?
        };
        self.fresh.insert(name.to_vec(), digest);
        self.lines.extend_from_slice(&file_line(name, &facts, &digest));
        Ok(digest)
    }

    /// Remembers how the inputs of a run are now, and with which text it was made.
    pub(crate) fn record(&mut self, run: &Run, plan: &Plan, is_adopted: bool) -> io::Result<()> {
        if run.rerun == Rerun::Exists {
            return Ok(());
        }
        let mut known = KnownRun { text: self.digests.of_text(run.text()), until_ns: 0, inputs: Vec::new() };
        for input in &run.inputs {
            let file = plan.file(*input);
            let Some(facts) = self.files.facts(&file.path)? else { continue };
            if is_adopted {
                known.until_ns = known.until_ns.max(facts.mtime_ns);
            }
            if run.rerun == Rerun::Hash {
                let name = relative(&plan.base, &file.path);
                let digest = self.digest(name, &file.path, facts)?;
                known.inputs.push((name.to_vec(), digest));
            }
        }
        self.lines.extend_from_slice(&run_line(&key(run), &known));
        Ok(())
    }
}

/// A path as it is remembered: relative to the directory of the call where it is below it.
pub(crate) fn relative<'a>(base: &[u8], path: &'a [u8]) -> &'a [u8] {
    let below = path
        .strip_prefix(base)
        .and_then(|rest| if base == b"/" { Some(rest) } else { rest.strip_prefix(b"/") });
    below.filter(|below| !below.is_empty()).unwrap_or(path)
}

fn key(run: &Run) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    escape(run.dir_shown.as_bytes(), &mut key);
    let fields = run.vars.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    for field in [run.rule.as_bytes()].into_iter().chain(fields) {
        key.push(b' ');
        escape(field, &mut key);
    }
    key
}

enum Line {
    Run(Vec<u8>, KnownRun),
    File(Vec<u8>, Facts, Digest),
}

// `run DIGEST UNTIL KEY [PATH DIGEST]… CHECK` and `file KIND SIZE MTIME CTIME INODE DIGEST PATH CHECK`, with tabs between.
fn parse(line: &[u8]) -> Option<Line> {
    let end = line.iter().rposition(|byte| *byte == b'\t')?;
    if line[end + 1..] != check(&line[..end]) {
        return None;
    }
    let fields: Vec<&[u8]> = line[..end].split(|byte| *byte == b'\t').collect();
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<i64>().ok();
    match fields[..] {
        [b"run", text, until, key, ref inputs @ ..] if inputs.len() % 2 == 0 => {
            let inputs = inputs.chunks(2).map(|pair| Some((unescape(pair[0])?, digest(pair[1])?)));
            let run = KnownRun {
                text: digest(text)?,
                until_ns: number(until)?,
                inputs: inputs.collect::<Option<_>>()?,
            };
            Some(Line::Run(key.to_vec(), run))
        }
        [b"file", kind, size, mtime, ctime, inode, content, path] => {
            let unsigned = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
            let is_dir = match kind {
                b"dir" => true,
                b"file" => false,
                _ => return None,
            };
            let (mtime_ns, ctime_ns) = (number(mtime)?, number(ctime)?);
            let facts = Facts { is_dir, size: unsigned(size)?, mtime_ns, ctime_ns, inode: unsigned(inode)? };
            Some(Line::File(unescape(path)?, facts, digest(content)?))
        }
        _ => None,
    }
}

fn run_line(key: &[u8], run: &KnownRun) -> Vec<u8> {
    let mut line = b"run\t".to_vec();
    hex(&run.text, &mut line);
    line.extend_from_slice(format!("\t{}\t", run.until_ns).as_bytes());
    line.extend_from_slice(key);
    for (path, digest) in &run.inputs {
        line.push(b'\t');
        escape(path, &mut line);
        line.push(b'\t');
        hex(digest, &mut line);
    }
    finish(line)
}

fn file_line(path: &[u8], facts: &Facts, digest: &Digest) -> Vec<u8> {
    let kind = if facts.is_dir { "dir" } else { "file" };
    let Facts { size, mtime_ns, ctime_ns, inode, .. } = facts;
    let mut line = format!("file\t{kind}\t{size}\t{mtime_ns}\t{ctime_ns}\t{inode}\t").into_bytes();
    hex(digest, &mut line);
    line.push(b'\t');
    escape(path, &mut line);
    finish(line)
}

fn finish(mut line: Vec<u8>) -> Vec<u8> {
    let check = check(&line);
    line.push(b'\t');
    line.extend_from_slice(&check);
    line.push(b'\n');
    line
}

// FNV-1a: lines are torn, not forged.
fn check(line: &[u8]) -> [u8; 8] {
    let sum =
        line.iter().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    std::array::from_fn(|digit| DIGITS[(sum >> (28 - 4 * digit) & 15) as usize])
}

fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    if !bytes.iter().any(|byte| matches!(byte, b'\\' | b'\t' | b'\n' | b' ')) {
        return into.extend_from_slice(bytes);
    }
    for byte in bytes {
        match byte {
            b'\\' => into.extend_from_slice(b"\\\\"),
            b'\t' => into.extend_from_slice(b"\\t"),
            b'\n' => into.extend_from_slice(b"\\n"),
            b' ' => into.extend_from_slice(b"\\s"),
            byte => into.push(*byte),
        }
    }
}

fn unescape(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b't' => b'\t',
                b'n' => b'\n',
                b's' => b' ',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

fn hex(digest: &Digest, into: &mut Vec<u8>) {
    for byte in digest {
        into.extend([byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]));
    }
}

fn digest(field: &[u8]) -> Option<Digest> {
    let value = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    let (pairs, []) = field.as_chunks::<2>() else { return None };
    let mut digest = [0; 32];
    if pairs.len() != digest.len() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: Facts = Facts { is_dir: false, size: 7, mtime_ns: -1, ctime_ns: 2, inode: 3 };

    fn sample() -> Known {
        let mut known = Known::default();
        let inputs = vec![(b"a\tb \\\n\xff".to_vec(), [7; 32]), (Vec::new(), [8; 32])];
        known.runs.insert(b"sim an n 7".to_vec(), KnownRun { text: [1; 32], until_ns: -5, inputs });
        known.runs.insert(b". x".to_vec(), KnownRun { text: [2; 32], until_ns: 0, inputs: Vec::new() });
        known.files.insert(b"a b".to_vec(), (FACTS, [9; 32]));
        known
    }

    fn same(one: &Known, other: &Known) -> bool {
        one.runs == other.runs && one.files == other.files
    }

    #[test]
    fn what_is_written_is_read_again() {
        let known = sample();
        let again = Known::read(&known.compacted());
        assert!(same(&known, &again), "{again:?}");
        assert_eq!((again.skipped, again.len(), again.compacted()), (0, 2, known.compacted()));
    }

    #[test]
    fn a_torn_last_line_is_ignored_and_a_damaged_line_is_counted() {
        let bytes = sample().compacted();
        let torn = Known::read(&bytes[..bytes.len() - 3]);
        assert_eq!((torn.skipped, torn.len()), (0, 1));
        let mut mended = bytes[..bytes.len() - 3].to_vec();
        mended.extend_from_slice(&run_line(
            b". y",
            &KnownRun { text: [3; 32], until_ns: 0, inputs: Vec::new() },
        ));
        mended.extend_from_slice(&run_line(
            b". z",
            &KnownRun { text: [3; 32], until_ns: 0, inputs: Vec::new() },
        ));
        let mended = Known::read(&mended);
        assert_eq!(
            (mended.skipped, mended.len()),
            (1, 2),
            "the line that was written into the torn one is lost with it"
        );
    }

    #[test]
    fn lines_that_say_nothing_any_more_are_counted() {
        let mut known = Known::read(&sample().compacted());
        assert_eq!(known.stale(), 0);
        let run = KnownRun { text: [3; 32], until_ns: 0, inputs: Vec::new() };
        known.take(&[run_line(b". x", &run), run_line(b". new", &run), b"torn\n".to_vec()].concat());
        assert_eq!((known.stale(), known.skipped, known.len()), (2, 1, 3));
        assert_eq!(Known::read(&known.compacted()).stale(), 0);
    }

    #[test]
    fn another_format_is_not_used() {
        let known = Known::read(b"hq-make-known 2\nrun\n");
        assert!(known.is_foreign && known.is_empty());
        assert!(!Known::read(b"").is_foreign && !Known::read(b"hq-make-kn").is_foreign);
    }

    proptest! {
        #[test]
        fn cut_anywhere_it_holds_some_of_its_lines(cut in 0usize..600) {
            let bytes = sample().compacted();
            let known = Known::read(&bytes[..cut.min(bytes.len())]);
            prop_assert_eq!(known.skipped, 0);
            let whole = sample();
            prop_assert!(known.runs.iter().all(|(key, run)| whole.runs.get(key) == Some(run)));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = [HEADER.as_bytes(), &bytes].concat();
            let known = Known::read(&text);
            prop_assert!(same(&known, &Known::read(&known.compacted())));
        }
    }
}
