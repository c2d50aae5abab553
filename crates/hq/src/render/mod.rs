//! Printing: the only place that writes results to standard output.
//!
//! A command returns a report, which is plain data; each report says here how it looks as tables and
//! sentences, as JSON, and in quiet mode.

mod alloc;
mod alloc_events;
pub(crate) mod error;
pub(crate) mod events;
mod explain;
mod hardware;
pub(crate) mod history_page;
mod job;
mod journal;
pub(crate) mod json;
mod misc;
mod server;
pub(crate) mod style;
mod submit;
pub(crate) mod table;
mod task;
pub(crate) mod text;
mod wait;
mod worker;

#[cfg(test)]
mod tests;

use std::io::{self, BufWriter, Write};

use crate::cli::{Colors, OutputMode};
use crate::error::HqError;
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
}

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

    /// Prints a report.
    pub(crate) fn print(&self, report: &mut dyn Report) -> Result<(), HqError> {
        let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
        match self.mode {
            OutputMode::Cli => report.cli(&mut out, self.style)?,
            OutputMode::Json => report.json(&mut out)?,
            OutputMode::Quiet => report.quiet(&mut out)?,
        }
        Ok(out.flush()?)
    }

    /// Prints a report before the command is done; in JSON everything is in the last one.
    pub(crate) fn announce(&self, report: &mut dyn Report) -> Result<(), HqError> {
        if self.mode == OutputMode::Json { Ok(()) } else { self.print(report) }
    }

    /// Prints warnings on standard error, for people only: scripts that asked for JSON find them in it, and
    /// those that asked for quiet take any text there for a failure.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if self.mode == OutputMode::Cli {
            for warning in warnings {
                let _ = writeln!(io::stderr(), "WARN {warning}");
            }
        }
    }

    /// Prints an error where the mode wants it.
    pub(crate) fn error(&self, error: &HqError) {
        let _ = match self.mode {
            OutputMode::Json => error::json(&mut io::stdout().lock(), error),
            OutputMode::Cli | OutputMode::Quiet => error::cli(&mut io::stderr().lock(), error),
        };
    }
}
