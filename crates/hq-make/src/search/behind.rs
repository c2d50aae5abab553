//! What mode `exists` does not look at: runs behind files that are there. Where they are to be shown, the search goes on to
//! them; what they would need is asked for by nobody.

use super::Search;
use crate::plan::{Rerun, RunState};

/// What something asks for, where the search went on behind files that are there.
pub(super) struct Asked {
    /// Per file.
    files: Vec<bool>,
    /// Per run, whether the search would have come to it.
    runs: Vec<bool>,
}

impl Search<'_> {
    /// Finds out what is asked for, from the targets on. Whether files are there must be known of all outputs.
    pub(super) fn ask(&mut self, order: &[usize]) {
        if !self.wanted.look_behind {
            return;
        }
        let mut asked = Asked { files: vec![false; self.files.len()], runs: vec![false; self.runs.len()] };
        for target in &self.targets {
            asked.files[target.index()] = true;
        }
        for run in order.iter().rev() {
            let node = &self.runs[*run];
            let stops_at_files = node.rerun == Rerun::Exists && !self.is_forced(&node.key);
            let is_made = |output: usize| {
                asked.files[output] && !(stops_at_files && self.files[output].is_there == Some(true))
            };
            if node.outputs.iter().any(|output| is_made(output.index())) {
                asked.runs[*run] = true;
                node.inputs.iter().for_each(|input| asked.files[input.index()] = true);
            }
        }
        self.asked = Some(asked);
    }

    /// Whether something asks for a file.
    pub(super) fn is_asked(&self, file: usize) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked.files[file])
    }

    /// How a run stands that nobody asks for; nothing of one that somebody does.
    pub(super) fn state_behind(&self, run: usize) -> Option<RunState> {
        if self.asked.as_ref().is_none_or(|asked| asked.runs[run]) {
            return None;
        }
        let is_there = |output: &crate::plan::FileId| self.files[output.index()].is_there == Some(true);
        let is_whole = self.runs[run].outputs.iter().all(is_there);
        Some(if is_whole { RunState::There } else { RunState::Unasked })
    }
}
