//! Which records of a damaged journal are in none of its files any more, as far as its segments tell.
//!
//! Each segment says which record it begins with. So what is between two segments is known by number, even where a file is
//! empty, or gone.

use crate::check::FileReport;
use crate::format::{FileKind, FileName, JournalId};
use crate::layout::{Layout, Opened};
use crate::note::Note;

/// Records that had been kept and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRecords {
    /// The file they were in, or the first and the last of several.
    pub files: String,
    /// How many there were; `None` where no later file says.
    pub records: Option<u64>,
}

/// A part of the sequence of segments: a file, or those that are not there between two.
struct Part {
    first: FileName,
    last: FileName,
    /// The number of its first record, if anything says it.
    begins: Option<u64>,
    /// How many whole records are in it.
    found: u64,
    /// Whether something is wrong with it, so that more may have been in it.
    is_harmed: bool,
}

/// Counts what is missing from the first file that is wrong on, where record `next_seq` is due.
pub(crate) fn missing_records<F>(
    layout: &Layout,
    opened: &[Option<Opened<F>>],
    files: &[FileReport],
    (id, note): (Option<JournalId>, Option<Note>),
    (problem, next_seq): (usize, u64),
) -> Vec<MissingRecords> {
    let mut parts: Vec<Part> = Vec::new();
    let mut due = layout.due(problem);
    let gap = |due: &mut FileName, before: u64| {
        let gap = (due.number < before).then(|| Part {
            first: *due,
            last: FileName::segment(before - 1),
            begins: None,
            found: 0,
            is_harmed: true,
        });
        *due = FileName::segment(before.saturating_add(1));
        gap
    };
    for (index, &name) in layout.files.iter().enumerate().skip(problem) {
        if name.kind == FileKind::Snapshot {
            // How many records it held is said nowhere. Those of the segments behind it are known by number.
            continue;
        }
        parts.extend(gap(&mut due, name.number));
        let own = opened[index].as_ref().filter(|file| Some(file.header.id) == id);
        let found = files[index].records_behind;
        let proven = id.and_then(|id| Note::proven_bytes(note, id, name));
        let is_short = proven.is_some_and(|bytes| files[index].bytes < bytes);
        let is_harmed = match own {
            Some(_) => index == problem || is_short,
            None => found == 0,
        };
        let begins = own.map(|file| file.header.first_seq);
        parts.push(Part { first: name, last: name, begins, found, is_harmed });
    }
    if let Some(note) = note.filter(|note| Some(note.id) == id) {
        parts.extend(gap(&mut due, note.number.saturating_add(1)));
    }
    // The part that is wrong may have been read up to there.
    let after_snapshot = layout.files.get(problem).is_some_and(|file| file.kind == FileKind::Snapshot);
    if let Some(first) = parts.first_mut().filter(|_| !after_snapshot) {
        first.begins = Some(next_seq);
    }
    let mut missing = Vec::new();
    let mut rest = parts.as_slice();
    while let Some(first) = rest.first() {
        let count = 1 + rest[1..].iter().take_while(|part| part.begins.is_none()).count();
        let (group, behind) = rest.split_at(count);
        rest = behind;
        let found: u64 = group.iter().map(|part| part.found).sum();
        let records = match (first.begins, behind.first().and_then(|part| part.begins)) {
            (Some(from), Some(to)) => Some(to.saturating_sub(from).saturating_sub(found)),
            _ => group.iter().all(|part| !part.is_harmed).then_some(0),
        };
        if records != Some(0) {
            // Those that are as they were are not named.
            let named = |part: &&Part| part.is_harmed;
            let from = group.iter().find(named).unwrap_or(first).first;
            let to = group.iter().rfind(named).unwrap_or(first).last;
            let is_before_all = problem == 0
                && from != to
                && layout.files.first().is_some_and(|first| to.number < first.number);
            let files = match from == to {
                _ if is_before_all => layout.missing(0),
                true => from.to_string(),
                false => format!("{from} to {to}"),
            };
            missing.push(MissingRecords { files, records });
        }
    }
    missing
}
