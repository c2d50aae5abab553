//! The `hq` program: reads the command line, runs one command, prints its report.

mod accounts;
mod arguments;
mod cli;
mod commands;
mod config;
mod dashboard;
mod efficiency;
mod embedded;
mod error;
mod event_stream;
mod failures;
mod following;
mod history;
mod http;
mod jobs;
mod json_text;
mod launchers;
mod lifeline;
mod logging;
mod make;
mod metg;
mod metrics;
mod objects;
mod open_files;
mod pages;
mod progress;
mod ranks;
mod reference;
mod render;
mod replaced;
mod report;
mod results;
mod signals;
mod streams;
mod tasks;
mod telling;
mod waiting;

use std::process::ExitCode;

use hq_client::error::EXIT_USAGE;

use crate::cli::OutputMode;
use crate::config::Refused;
use crate::error::HqError;
use crate::render::Printer;

// The allocator of musl is slow with many threads and many small pieces.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    signals::outlive_large_files();
    let cli = match config::parse() {
        Ok(cli) => cli,
        Err(Refused::Arguments(error)) => return arguments::refused(error),
        Err(Refused::Config(error)) => return arguments::wrong(&error),
    };
    let mode = match cli.global.output_mode() {
        Ok(mode) => mode,
        Err(text) => {
            Printer::new(OutputMode::Cli, cli.global.colors).error(&HqError::usage(text));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if let Some(version) = cli.global.output_version {
        render::units::set_version(version);
    }
    let printer = Printer::new(mode, cli.global.colors);
    match open_files::check().and_then(|()| commands::run(cli, printer)) {
        Ok(exit) => ExitCode::from(exit),
        Err(error) => {
            printer.error(&error);
            ExitCode::from(error.exit)
        }
    }
}
