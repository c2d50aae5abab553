//! What tasks print into a log, and what became of it.

use hq_core::log::{LogBatch, LogEntry, LogPiece, Written};
use hq_model::{Instance, JobId, TaskId, TaskRef, Timestamp};

use crate::ProtoError;
use crate::error::{present, rule};
use crate::generated::{self as form, log_answer::End};
use crate::wire::{Wire, cut_name, list_from_wire, list_to_wire, name};

/// An end, with which channels are complete.
const END: u32 = 0x10;

pub(super) fn answer_to_wire(number: u64, written: &Written) -> form::LogAnswer {
    let end = match written {
        Written::Done => End::Written(form::Nothing {}),
        Written::Busy => End::Busy(form::Nothing {}),
        Written::NoRoom(text) => End::NoRoom(cut_name(text)),
        Written::Refused(text) => End::Refused(cut_name(text)),
    };
    form::LogAnswer { number, end: Some(end) }
}

pub(super) fn answer_from_wire(answer: form::LogAnswer) -> Result<(u64, Written), ProtoError> {
    let written = match present("end of a batch for a log", answer.end)? {
        End::Written(_) => Written::Done,
        End::Busy(_) => Written::Busy,
        End::NoRoom(text) => Written::NoRoom(name("why a log has no room", text)?),
        End::Refused(text) => Written::Refused(name("why a log is refused", text)?),
    };
    Ok((answer.number, written))
}

impl Wire for LogBatch {
    type Form = form::LogBatch;

    fn to_wire(&self) -> form::LogBatch {
        form::LogBatch {
            number: self.number,
            is_again: self.is_again,
            pieces: list_to_wire(&self.pieces),
            content: self.content.clone(),
        }
    }

    fn from_wire(batch: form::LogBatch) -> Result<LogBatch, ProtoError> {
        let pieces: Vec<LogPiece> = list_from_wire(batch.pieces)?;
        let length: u64 = pieces.iter().map(|piece| u64::from(piece.length())).sum();
        rule("content of a log", length == batch.content.len() as u64, "must be as long as its pieces")?;
        Ok(LogBatch { number: batch.number, is_again: batch.is_again, pieces, content: batch.content })
    }
}

impl Wire for LogPiece {
    type Form = form::LogPiece;

    fn to_wire(&self) -> form::LogPiece {
        let (kind, offset, length) = match self.entry {
            LogEntry::Printed { is_stderr, offset, length } => (u32::from(is_stderr), offset, length),
            LogEntry::End { stdout, stderr } => (END | u32::from(stdout) | u32::from(stderr) << 1, 0, 0),
        };
        form::LogPiece {
            job: self.task.job.0,
            task: self.task.task.0,
            instance: self.instance.0,
            at_us: self.at.0,
            kind,
            offset,
            length,
        }
    }

    fn from_wire(piece: form::LogPiece) -> Result<LogPiece, ProtoError> {
        let form::LogPiece { kind, offset, length, .. } = piece;
        let is_end = kind & !3 == END;
        rule("kind of a piece of a log", is_end || kind <= 1, "must be a channel or an end")?;
        rule("length of an end in a log", !is_end || length == 0 && offset == 0, "must be nothing")?;
        let entry = match is_end {
            true => LogEntry::End { stdout: kind & 1 != 0, stderr: kind & 2 != 0 },
            false => LogEntry::Printed { is_stderr: kind == 1, offset, length },
        };
        let task = TaskRef::new(JobId(piece.job), TaskId(piece.task));
        Ok(LogPiece { task, instance: Instance(piece.instance), at: Timestamp(piece.at_us), entry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_log_is_cut_to_what_its_reader_takes() {
        for text in ["é".repeat(4000), format!("a{}", "é".repeat(4000)), "x".repeat(4096)] {
            for (said, is_refused) in
                [(Written::Refused(text.clone()), true), (Written::NoRoom(text.clone()), false)]
            {
                let heard = answer_from_wire(answer_to_wire(7, &said)).expect("it is read");
                let (7, Written::Refused(heard) | Written::NoRoom(heard)) = heard else {
                    panic!("{heard:?}")
                };
                assert!(text.starts_with(heard.trim_end_matches('…')) && heard.len() > 4080, "{is_refused}");
            }
        }
    }
}
