//! Printing: the only place that writes results to standard output.
//!
//! A command returns a report, which is plain data; each report says here how it looks as tables and
//! sentences, as JSON, and in quiet mode.

mod alloc;
mod alloc_events;
pub(crate) mod attempts;
mod bench;
mod cancel;
pub(crate) mod config;
mod efficiency;
mod error;
pub(crate) mod events;
mod explain;
pub(crate) mod failures;
mod feed;
mod hardware;
pub(crate) mod history_page;
mod job;
mod job_document;
mod journal;
pub(crate) mod json;
pub(crate) mod load;
pub(crate) mod make;
mod metrics;
mod misc;
mod notices;
mod object;
mod output_log;
pub(crate) mod overview;
mod pull;
pub(crate) mod results;
mod sample;
mod server;
pub(crate) mod shape;
pub(crate) mod style;
pub(crate) mod submit;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod text;
pub(crate) mod units;
mod utilization;
mod wait;
mod worker;

#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Colors, OutputMode};
use crate::error::HqError;
pub(crate) use job::unrunnable;
use style::Style;

/// What a command has found out or done. Streams may be read while they are printed, so an error can still occur.
pub(crate) trait Report {
    /// For people.
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError>;

    /// One JSON document; by default an empty object.
    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(b"{}\n")?)
    }

    /// As little as possible; by default nothing.
    fn quiet(&mut self, _out: &mut dyn Write) -> Result<(), HqError> {
        Ok(())
    }

    /// True when what people are told is that something was done, and no answer: it goes to standard error, so that scripts
    /// read nothing but answers.
    fn is_message(&self) -> bool {
        false
    }

    /// What was done that must not be done again, to be said when the report cannot be printed.
    fn done(&self) -> Option<String> {
        None
    }
}

/// What a report prints as JSON.
pub(crate) fn document(report: &mut dyn Report) -> Result<Value, HqError> {
    let mut text = Vec::new();
    report.json(&mut text)?;
    Ok(serde_json::from_slice(&text).map_err(io::Error::from)?)
}

/// What is printed of an error as JSON.
pub(crate) fn error_document(error: &HqError) -> Value {
    error::document(error)
}

/// Standard output, whose errors say what they are of.
pub(crate) struct StandardOutput<W>(pub W);

impl<W: Write> Write for StandardOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(cannot_write)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(cannot_write)
    }
}

/// This error as one of standard output.
pub(crate) fn cannot_write(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// A command that only waits says for what after this time.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    /// The form.
    pub mode: OutputMode,
    style: Style,
}

impl Printer {
    /// A printer to standard output.
    pub(crate) fn new(mode: OutputMode, colors: Colors) -> Printer {
        Printer { mode, style: Style::of_stdout(colors) }
    }

    /// True when colors may be used.
    pub(crate) fn has_colors(&self) -> bool {
        self.style.has_colors
    }

    /// Prints a report.
    pub(crate) fn print(&self, report: &mut dyn Report) -> Result<(), HqError> {
        if self.mode == OutputMode::Cli && report.is_message() {
            let mut text = Vec::new();
            report.cli(&mut text, self.style)?;
            let _ = io::stderr().write_all(&text);
            return Ok(());
        }
        let mut out = BufWriter::with_capacity(64 * 1024, StandardOutput(io::stdout().lock()));
        let printed = match self.mode {
            OutputMode::Cli => report.cli(&mut out, self.style),
            OutputMode::Json => report.json(&mut out),
            OutputMode::Quiet => report.quiet(&mut out),
        };
        printed.and_then(|()| Ok(out.flush()?)).map_err(|mut error| {
            if let Some(done) = report.done() {
                error.text = format!("{}; {done}", error.text);
            }
            error
        })
    }

    /// Prints a report before the command is done; in JSON everything is in the last one.
    pub(crate) fn announce(&self, report: &mut dyn Report) -> Result<(), HqError> {
        if self.mode == OutputMode::Json { Ok(()) } else { self.print(report) }
    }

    /// Prints warnings on standard error, for people only: scripts that asked for JSON find them in it, and
    /// those that asked for quiet take any text there for a failure.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if self.mode == OutputMode::Cli {
            Printer::alarm(warnings);
        }
    }

    /// True where a person reads what is said beside the answer.
    pub(crate) fn is_read(&self) -> bool {
        self.mode == OutputMode::Cli && io::stderr().is_terminal()
    }

    /// Says what a person may want to know, where one reads it.
    pub(crate) fn hint(&self, hints: &[String]) {
        if self.is_read() {
            hints.iter().for_each(|hint| self.note(hint));
        }
    }

    /// Says on standard error, whatever the mode, that what is printed is not all that was written.
    pub(crate) fn damaged(&self, warnings: &[String]) {
        Printer::alarm(warnings);
    }

    /// Says on standard error, whatever the mode, why what is waited for may never come.
    pub(crate) fn alarm(warnings: &[String]) {
        for warning in warnings {
            let _ = writeln!(io::stderr(), "WARN {}", Style::of_stderr().times_in(warning));
        }
    }

    /// Says on standard error, whatever the mode, why something that was named is left out of what is done.
    pub(crate) fn refused(text: &str) {
        let _ = writeln!(io::stderr(), "ERROR {}", Style::of_stderr().times_in(text));
    }

    /// Prints what the server warns of, where somebody reads it: tools that take both channels for one text must find nothing
    /// there but the answer. Whoever waits for what will never be is told so, wherever that is read.
    pub(crate) fn advise(&self, warnings: &[String], does_wait: bool) {
        if does_wait || self.is_read() {
            self.warn(warnings);
        }
    }

    /// Says on standard error what is going on, for people only.
    pub(crate) fn note(&self, text: &str) {
        if self.mode == OutputMode::Cli {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// As [`Printer::note`], after a second, unless what is given back is dropped before.
    pub(crate) fn say_later(self, text: String) -> mpsc::Sender<()> {
        let (done, heard) = mpsc::channel();
        std::thread::spawn(move || {
            if heard.recv_timeout(SILENCE_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                self.note(&text);
            }
        });
        done
    }

    /// Prints an error where the mode wants it, and on standard error when that cannot be written.
    pub(crate) fn error(&self, error: &HqError) {
        let mut out = io::stdout().lock();
        let is_said =
            self.mode == OutputMode::Json && error::json(&mut out, error).and_then(|()| out.flush()).is_ok();
        if !is_said {
            let _ = error::cli(&mut io::stderr().lock(), error);
        }
    }
}
