//! What tasks say to whoever waits for their jobs, kept like reports until the server has it.

use crate::limits::WORDS_KEPT_BYTES_MAX;
use crate::worker_messages::TaskWords;

/// Why words of a task are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsRefused {
    /// Too many wait for the server.
    #[error(
        "the worker keeps {} MiB of messages that the server has not taken yet, and no more; try again later",
        WORDS_KEPT_BYTES_MAX >> 20
    )]
    Full,
    /// The worker will not look for a server.
    #[error("the worker is ending, and its server is lost")]
    Ending,
}

/// Words that the server may not know.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    // In no report yet.
    said: Vec<TaskWords>,
    // What these and those in reports that are not saved count as.
    bytes: usize,
    // The server takes them in reports.
    is_heard: bool,
}

impl Words {
    /// Keeps what a task says.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn add(&mut self, words: TaskWords) -> Result<(), WordsRefused> {
        let bytes = self.bytes + words.bytes();
        if bytes > WORDS_KEPT_BYTES_MAX {
            return Err(WordsRefused::Full);
        }
        self.bytes = bytes;
        self.said.push(words);
        Ok(())
    }

    /// Whether the server takes them in reports.
    pub(super) fn server_hears(&mut self, hears: bool) {
        self.is_heard = hears;
    }

    /// True while there are some.
    pub(super) fn any(&self) -> bool {
        self.bytes > 0
    }

    /// True while some are in no report, and belong into one.
    pub(super) fn wait_for_report(&self) -> bool {
        self.is_heard && !self.said.is_empty()
    }

    /// Those for a report.
    pub(super) fn take(&mut self) -> Vec<TaskWords> {
        if self.is_heard { std::mem::take(&mut self.said) } else { Vec::new() }
    }

    /// Those for a server that takes none in reports. Whether it has them, nobody knows.
    pub(super) fn take_apart(&mut self) -> Vec<TaskWords> {
        if self.is_heard {
            return Vec::new();
        }
        let said = std::mem::take(&mut self.said);
        self.saved(&said);
        said
    }

    /// The server has these.
    pub(super) fn saved(&mut self, words: &[TaskWords]) {
        self.bytes -= words.iter().map(TaskWords::bytes).sum::<usize>();
    }
}
