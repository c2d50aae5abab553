//! What runs took: their inputs as they were when they began, as far as that can be told.

use std::collections::HashSet;
use std::io;

use hq_make::{Digests, Facts, Files, Known, Plan, Rerun, Run};

use super::{Disk, Sha256};

/// What is to be remembered of a run that has ended well. In mode `exists` only where something is remembered already, which
/// would be wrong otherwise. What an input holds that was written since the run began is not what the run took.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn ended_lines(run: &Run, plan: &Plan, is_anything_known: bool) -> io::Result<Vec<u8>> {
    if run.rerun == Rerun::Exists && !is_anything_known {
        return Ok(Vec::new());
    }
    let disk = Disk::default();
    let began = disk.facts(&run.script_path)?.map(|facts| facts.mtime_ns);
    let mut changed = HashSet::new();
    for input in &run.inputs {
        let path = &plan.file(*input).path;
        let is_later = |facts: &Facts| began.is_some_and(|began| facts.mtime_ns > began);
        if disk.facts(path)?.as_ref().is_some_and(is_later) {
            changed.insert(&path[..]);
        }
    }
    let as_taken = AsTaken { changed, disk };
    match run.rerun {
        Rerun::Exists => {
            let mut run = run.clone();
            run.rerun = Rerun::Hash;
            Known::ended(&run, plan, &as_taken, &as_taken)
        }
        Rerun::Mtime | Rerun::Hash => Known::ended(run, plan, &as_taken, &as_taken),
    }
}

// Files of which some have changed since a run took them: nobody knows any more what they held.
struct AsTaken<'a> {
    changed: HashSet<&'a [u8]>,
    disk: Disk,
}

impl Files for AsTaken<'_> {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        let facts = self.disk.facts(path)?;
        // Of another time than the file has now, so that it is read again.
        Ok(facts.map(|facts| match self.changed.contains(path) {
            true => Facts { mtime_ns: facts.mtime_ns.wrapping_sub(1), ..facts },
            false => facts,
        }))
    }
}

impl Digests for AsTaken<'_> {
    fn digest(&self, path: &[u8]) -> io::Result<[u8; 32]> {
        if self.changed.contains(path) { Ok([0; 32]) } else { Sha256.digest(path) }
    }

    fn of_text(&self, text: &[u8]) -> [u8; 32] {
        Sha256.of_text(text)
    }
}
