//! Why tasks of a job failed, each cause once: failures whose texts are the same but for numbers.
//!
//! Numbers that differ from task to task are shown as `#`. Those that say what went wrong, such as an exit code, tell
//! causes apart. So a million failures are as many causes as a person would name, at the cost of these.

use std::collections::BTreeSet;

use hq_model::{ByteString, Instance, JobId, TaskId, WorkerId, counted};

use crate::limits::{CAUSE_TEXT_MAX, CAUSE_WORKERS_MAX, CAUSES_MAX};
use crate::record::{Failure, FailureKind};

/// Stands for a number that is another one in each task.
const DIFFERS: &str = "#";
/// At the end of a text that goes on.
const GOES_ON: &str = "…";
/// A number behind one of these words is a part of the cause.
const TELLING: [&str; 6] = ["code", "signal", "status", "errno", "error", "line"];
/// Between such a word and its number.
const BETWEEN: [u8; 4] = [b' ', b':', b'=', b'('];
/// Words of so many hexadecimal digits, of which one at least is a number, are numbers.
const HEX_WORD_MIN: usize = 12;

/// What some failures of a job have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureCause {
    /// The kind of all of them.
    pub kind: FailureKind,
    /// What all their errors say.
    pub text: String,
    /// How many there were.
    pub count: u64,
    /// Where the attempts ran, of at most [`CAUSE_WORKERS_MAX`] workers.
    pub workers: BTreeSet<WorkerId>,
    /// The task that failed first.
    pub first: TaskId,
    /// Where its attempt ran, if it did.
    pub first_worker: Option<WorkerId>,
    /// Its error, of which a long one is cut.
    pub first_error: String,
}

impl FailureCause {
    // The cause of a failure of which nothing like it was known.
    fn of(failure: &Failure) -> FailureCause {
        let text = shortened(&failure.error);
        FailureCause {
            kind: failure.kind,
            first_error: text.clone(),
            text,
            count: 0,
            workers: BTreeSet::new(),
            first: failure.task,
            first_worker: failure.worker,
        }
    }

    // Counts a failure if it has this cause.
    fn takes(&mut self, failure: &Failure, text: &str) -> bool {
        if self.kind != failure.kind {
            return false;
        }
        match compare(&self.text, text) {
            Alike::Not => return false,
            Alike::Wholly => {}
            Alike::ButForNumbers => self.text = merged(&self.text, text),
        }
        self.count += 1;
        for worker in failure.worker.iter().chain(&failure.nodes) {
            if self.workers.len() < CAUSE_WORKERS_MAX {
                self.workers.insert(*worker);
            }
        }
        true
    }

    /// True for an error that counts here, or would.
    pub fn has_text(&self, error: &str) -> bool {
        compare(&self.text, &shortened(error)) != Alike::Not
    }

    /// About what it takes in memory and in messages, in bytes.
    pub fn bytes(&self) -> usize {
        128 + self.text.len() + self.first_error.len() + self.workers.len() * 8
    }
}

/// Why tasks of a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailures {
    /// The job.
    pub job: JobId,
    /// How many tasks it has.
    pub tasks: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The causes that are told apart, in the order in which they came up, each with the instance of its first task.
    pub causes: Vec<(FailureCause, Instance)>,
    /// Why tasks were given up.
    pub aborted: Option<Aborted>,
    /// The file that has the standard error of the first failure, absolute, where that is in one; else empty.
    pub first_stderr: ByteString,
    /// Why its generator or its reducer makes no more of it, where one stopped before all was made; the rest of a sentence that
    /// begins with the job.
    pub stopped: Option<String>,
}

/// Why tasks of a job were given up by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// How many were.
    pub count: u64,
    /// The first of them.
    pub first: TaskId,
    /// Why that one was.
    pub reason: String,
}

impl Aborted {
    /// As a sentence about a job.
    pub fn words(&self, job: JobId) -> String {
        let Aborted { count, first, reason } = self;
        let were = if *count == 1 { "was" } else { "were" };
        format!("{} of job {job} {were} aborted, task {first} first: {reason}", counted(*count, "task"))
    }
}

impl JobFailures {
    /// Failures of causes that are not told apart.
    pub fn others(&self) -> u64 {
        self.failed.saturating_sub(self.causes.iter().map(|(cause, _)| cause.count).sum())
    }
}

/// Counts a failure where it belongs; not at all where it is one cause too many.
pub fn note(causes: &mut Vec<FailureCause>, failure: &Failure) {
    let text = shortened(&failure.error);
    if causes.iter_mut().any(|cause| cause.takes(failure, &text)) || causes.len() >= CAUSES_MAX {
        return;
    }
    let mut new = FailureCause::of(failure);
    new.takes(failure, &text);
    causes.push(new);
}

/// What two texts have in common, if they differ only in numbers that tell nothing.
pub fn alike_in(left: &str, right: &str) -> Option<String> {
    match compare(left, right) {
        Alike::Not => None,
        Alike::Wholly => Some(left.to_owned()),
        Alike::ButForNumbers => Some(merged(left, right)),
    }
}

/// The beginning of a text that is too long to keep.
pub fn shortened(text: &str) -> String {
    let text = text.trim_end();
    if text.len() <= CAUSE_TEXT_MAX {
        return text.to_owned();
    }
    format!("{}{GOES_ON}", &text[..text.floor_char_boundary(CAUSE_TEXT_MAX)])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alike {
    Not,
    Wholly,
    // They differ in numbers that tell nothing.
    ButForNumbers,
}

fn compare(left: &str, right: &str) -> Alike {
    let (mut lefts, mut rights) = (Pieces::of(left), Pieces::of(right));
    let (left_goes_on, right_goes_on) = (left.ends_with(GOES_ON), right.ends_with(GOES_ON));
    let mut alike = Alike::Wholly;
    loop {
        match (lefts.next(), rights.next()) {
            (None, None) => return alike,
            // Of one of them more is known, since its numbers are shorter.
            (None, Some(_)) if left_goes_on => return alike,
            (Some(_), None) if right_goes_on => return alike,
            (Some(Piece::Number(left)), Some(Piece::Number(right))) => {
                if left != right && left != DIFFERS {
                    alike = Alike::ButForNumbers;
                }
            }
            (Some(Piece::Text(left)), Some(Piece::Text(right))) if left == right => {}
            (Some(Piece::Text(left)), Some(Piece::Text(right)))
                if left_goes_on && lefts.is_at_end() && right.starts_with(left)
                    || right_goes_on && rights.is_at_end() && left.starts_with(right) =>
            {
                return alike;
            }
            _ => return Alike::Not,
        }
    }
}

// The left one, with what differs left open. They are alike.
fn merged(left: &str, right: &str) -> String {
    let mut rights = Pieces::of(right);
    let mut text = String::with_capacity(left.len());
    for piece in Pieces::of(left) {
        match (piece, rights.next()) {
            (Piece::Number(left), Some(Piece::Number(right))) if left != right => text.push_str(DIFFERS),
            (Piece::Number(part) | Piece::Text(part), _) => text.push_str(part),
        }
    }
    if left.ends_with(GOES_ON) {
        text.push_str(GOES_ON);
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    // Must be the same.
    Text(&'a str),
    // May differ.
    Number(&'a str),
}

// A text in pieces, without the sign that it goes on. Numbers that tell something are text.
struct Pieces<'a> {
    rest: &'a str,
    // What comes next is inside a word.
    in_word: bool,
    is_telling: bool,
}

impl<'a> Pieces<'a> {
    fn of(text: &'a str) -> Pieces<'a> {
        let rest = text.strip_suffix(GOES_ON).unwrap_or(text);
        Pieces { rest, in_word: false, is_telling: false }
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn cut(&mut self, length: usize) -> &'a str {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        piece
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let bytes = self.rest.as_bytes();
        let first = *bytes.first()?;
        let length = |is_part: fn(&u8) -> bool| bytes.iter().take_while(|byte| is_part(byte)).count();
        let is_telling = std::mem::take(&mut self.is_telling);
        let number = |piece| if is_telling { Piece::Text(piece) } else { Piece::Number(piece) };
        if first == DIFFERS.as_bytes()[0] {
            self.in_word = true;
            return Some(Piece::Number(self.cut(1)));
        }
        if first.is_ascii_alphanumeric() {
            let word = length(u8::is_ascii_alphanumeric);
            if !std::mem::replace(&mut self.in_word, true) && is_hex(&bytes[..word]) {
                return Some(number(self.cut(word)));
            }
            if first.is_ascii_digit() {
                return Some(number(self.cut(number_length(bytes))));
            }
            let word = self.cut(length(u8::is_ascii_alphabetic));
            self.is_telling = TELLING.iter().any(|telling| word.eq_ignore_ascii_case(telling));
            return Some(Piece::Text(word));
        }
        self.in_word = false;
        let between = length(|byte| BETWEEN.contains(byte));
        if between > 0 {
            self.is_telling = is_telling;
            return Some(Piece::Text(self.cut(between)));
        }
        // All else: it ends at the boundary of a character, for it ends before an ASCII one.
        let others = length(|byte| {
            !byte.is_ascii_alphanumeric() && !BETWEEN.contains(byte) && *byte != DIFFERS.as_bytes()[0]
        });
        Some(Piece::Text(self.cut(others)))
    }
}

// Digits, with points between them.
fn number_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += bytes[length..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        match bytes.get(length..length + 2) {
            Some([b'.', digit]) if digit.is_ascii_digit() => length += 1,
            _ => return length,
        }
    }
}

// An address or a hash.
fn is_hex(word: &[u8]) -> bool {
    match word {
        [b'0', b'x' | b'X', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit),
        _ => {
            word.len() >= HEX_WORD_MIN
                && word.iter().all(u8::is_ascii_hexdigit)
                && word.iter().any(u8::is_ascii_digit)
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::Usage;

    use super::*;

    fn failure(task: u32, kind: FailureKind, error: &str) -> Failure {
        Failure {
            task: TaskId(task),
            instance: Instance(0),
            worker: Some(WorkerId(1 + task % 3)),
            kind,
            error: error.into(),
            started: None,
            usage: Usage::default(),
            nodes: Vec::new(),
            result: Vec::new(),
            variant: None,
        }
    }

    fn causes(failures: impl IntoIterator<Item = Failure>) -> Vec<FailureCause> {
        let mut causes = Vec::new();
        failures.into_iter().for_each(|failure| note(&mut causes, &failure));
        causes
    }

    // The causes of failures with these texts, in the order in which they came.
    fn check(errors: &[&str], expected: &[&str]) {
        let failures = (0..).zip(errors).map(|(task, error)| failure(task, FailureKind::Exit(1), error));
        let told: Vec<String> =
            causes(failures).iter().map(|cause| format!("{} {}", cause.count, cause.text)).collect();
        assert_eq!(told, expected, "{errors:?}");
    }

    #[test]
    fn numbers_of_tasks_are_left_open_and_those_of_causes_kept() {
        check(&["Program terminated with exit code 7."], &["1 Program terminated with exit code 7."]);
        let codes = ["exit code 7", "exit code 1", "exit code 7"];
        check(&codes, &["2 exit code 7", "1 exit code 1"]);
        check(
            &["exit code 137. Received signal 9 (SIGKILL).", "exit code 139. Received signal 11 (SIGSEGV)."],
            &[
                "1 exit code 137. Received signal 9 (SIGKILL).",
                "1 exit code 139. Received signal 11 (SIGSEGV).",
            ],
        );
        check(
            &["cannot read /in/17/part-3.dat: error 2", "cannot read /in/400/part-3.dat: error 2"],
            &["2 cannot read /in/#/part-3.dat: error 2"],
        );
        check(&["task 5 took 2.5 s", "task 6 took 11 s", "task 7 took 0.25 s"], &["3 task # took # s"]);
        check(&["at 0x7ffe01 in f", "at 0x80aa in f"], &["2 at # in f"]);
        check(&["blob 0123456789ab", "blob fedcba987654"], &["2 blob #"]);
        check(&["node17 is full", "node18 is full", "disk is full"], &["2 node# is full", "1 disk is full"]);
        check(&["line 3: x", "line=4: x", "Line (3): x"], &["1 line 3: x", "1 line=4: x", "1 Line (3): x"]);
        check(&["größer als 3 µm", "größer als 4 µm"], &["2 größer als # µm"]);
        check(&["", "", "x"], &["2 ", "1 x"]);
    }

    #[test]
    fn what_was_left_open_takes_any_number() {
        check(&["a1b2", "a1b3", "a9b3", "a#b#", "a1b2c"], &["4 a#b#", "1 a1b2c"]);
    }

    #[test]
    fn long_texts_are_cut_and_still_alike() {
        let long = |task: u32, end: &str| format!("task {task}: {}{end}", "word ".repeat(CAUSE_TEXT_MAX));
        let failures =
            [1, 22, 333, 4_444_444].map(|task| failure(task, FailureKind::Exit(1), &long(task, "x")));
        let found = causes(failures);
        assert_eq!((found.len(), found[0].count), (1, 4));
        assert!(found[0].text.starts_with("task #: word ") && found[0].text.ends_with('…'));
        assert!(found[0].text.len() <= CAUSE_TEXT_MAX + GOES_ON.len());
    }

    #[test]
    fn the_kind_tells_causes_apart_and_the_first_task_is_remembered() {
        let exits = |task, code| failure(task, FailureKind::Exit(code), "no license left");
        let found = causes([
            exits(8, 1),
            exits(3, 2),
            exits(4, 1),
            failure(5, FailureKind::Signal(1), "no license left"),
        ]);
        let told: Vec<_> = found.iter().map(|cause| (cause.kind, cause.count, cause.first.0)).collect();
        let expected =
            [(FailureKind::Exit(1), 2, 8), (FailureKind::Exit(2), 1, 3), (FailureKind::Signal(1), 1, 5)];
        assert_eq!(told, expected);
        assert_eq!(found[0].workers, BTreeSet::from([WorkerId(2), WorkerId(3)]));
        assert_eq!(found[0].first_worker, Some(WorkerId(3)));
    }

    #[test]
    fn causes_beyond_the_limit_are_left_to_be_counted() {
        let words = (0..1000_u32).map(|task| "x".repeat(1 + task as usize));
        let found = causes((0..).zip(words).map(|(task, word)| failure(task, FailureKind::Start, &word)));
        assert_eq!(found.len(), CAUSES_MAX);
        assert!(found.iter().all(|cause| cause.count == 1));
    }
}
