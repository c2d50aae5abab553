//! The `hq` program: reads the command line, runs one command, prints its report.

mod cli;
mod commands;
mod error;
mod failures;
mod history;
mod jobs;
mod launchers;
mod logging;
mod progress;
mod ranks;
mod reference;
mod render;
mod report;
mod signals;
mod tasks;
mod waiting;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hq_client::error::EXIT_USAGE;

use crate::cli::{Cli, Colors, OutputMode};
use crate::error::HqError;
use crate::render::{Printer, cannot_write};

// The allocator of musl is slow with many threads and many small pieces.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return bad_arguments(&error),
    };
    let mode = match cli.global.output_mode() {
        Ok(mode) => mode,
        Err(text) => {
            Printer::new(OutputMode::Cli, cli.global.colors).error(&HqError::usage(text));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let printer = Printer::new(mode, cli.global.colors);
    match commands::run(cli, printer) {
        Ok(exit) => ExitCode::from(exit),
        Err(error) => {
            printer.error(&error);
            ExitCode::from(error.exit)
        }
    }
}

// Help and version are answers; everything else is an error, as JSON if that was asked for.
fn bad_arguments(error: &clap::Error) -> ExitCode {
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !is_answer
        && !wants_json()
        && let Some(error) = negative(error)
    {
        Printer::new(OutputMode::Cli, Colors::Auto).error(&error);
        return ExitCode::from(EXIT_USAGE);
    }
    if is_answer || !wants_json() {
        commands::end_quietly_when_nobody_reads();
        let mut printed = error.print();
        if is_answer && !error.render().to_string().ends_with('\n') {
            printed = printed.and_then(|()| writeln!(std::io::stdout()));
        }
        if is_answer && let Err(error) = printed {
            let error = HqError::from(cannot_write(error));
            Printer::new(OutputMode::Cli, Colors::Never).error(&error);
            return ExitCode::from(error.exit);
        }
        return ExitCode::from(if is_answer { 0 } else { EXIT_USAGE });
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let error = negative(error).unwrap_or_else(|| HqError::usage(text));
    Printer::new(OutputMode::Json, Colors::Never).error(&error);
    ExitCode::from(EXIT_USAGE)
}

// What to say of a word such as `-1-3` that was taken for an option, though options have no digits in their short names.
fn negative(error: &clap::Error) -> Option<HqError> {
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if error.kind() != ErrorKind::UnknownArgument || !taken.strip_prefix('-').is_some_and(is_number) {
        return None;
    }
    let words = std::env::args().skip(1).take_while(|word| word != "--");
    let word =
        words.into_iter().find(|word| word.starts_with(taken.as_str())).unwrap_or_else(|| taken.clone());
    let text = format!("`{word}` is no value: ids, counts and times have no minus sign before them");
    Some(HqError::usage(text).hint("where it belongs to a command that is to run, write -- before that"))
}

// The mode as far as it can be seen when the command line is not understood.
fn wants_json() -> bool {
    let args: Vec<_> = std::env::args_os().take_while(|arg| arg != "--").collect();
    let at = args.iter().rposition(|arg| arg.to_string_lossy().starts_with("--output-mode"));
    match at {
        Some(at) if args[at] == "--output-mode" => args.get(at + 1).is_some_and(|mode| mode == "json"),
        Some(at) => args[at] == "--output-mode=json",
        None => std::env::var_os("HQ_OUTPUT_MODE").is_some_and(|mode| mode == "json"),
    }
}
