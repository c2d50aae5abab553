//! The chores of the workspace: `cargo xtask demo|test|sim|chaos|attack|soak|matrix|bench|gen|tidy|docs|python`.
//!
//! Everything a person or a machine does to this repository beyond `cargo build` is here, so that it
//! runs the same way everywhere and needs no further tool.

// A chore talks to the person who started it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod chaos;
mod codes;
mod console;
mod demo;
mod docs;
mod examples;
mod exec;
mod r#gen;
mod generated;
mod imports;
mod interrupt;
mod leftovers;
mod licences;
mod links;
mod matrix;
mod openapi;
mod packages;
mod page;
mod place;
mod python;
mod sim;
mod steps;
mod test;
mod tidy;
mod wildcard;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::place::Place;

/// The chores of this workspace
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the program and run a small real job with it, everything on this machine
    Demo,
    /// Install what the tests need (as root), then run all of them
    Test(test::Options),
    /// Build the Python package as a wheel, and an environment that has it
    Python,
    /// Run the simulator for as long as asked; arguments go to it
    Sim {
        /// Arguments of the simulator
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill servers and workers of real clusters at random moments
    Chaos {
        /// Rounds in which the server is killed; workers are killed in two fifths as many
        #[arg(long, default_value_t = 500)]
        rounds: u32,
        /// What chance is made of: any text; by default the commit
        #[arg(long)]
        seed: Option<String>,
    },
    /// Attack real servers and workers: strangers, lazy clients, vanished directories, wrong clocks
    Attack {
        /// Only those whose names contain one of these
        names: Vec<String>,
    },
    /// Run two million null tasks with faults, and watch the server's memory
    Soak {
        /// For so long
        #[arg(long, default_value_t = 60)]
        minutes: u32,
        /// What chance is made of: any text; by default the commit
        #[arg(long)]
        seed: Option<String>,
    },
    /// Ask everything about jobs of a task up to a million, in every state and output mode
    Matrix {
        /// Tasks of the jobs
        #[arg(long, value_delimiter = ',', default_value = "1,2000,100000,1000000")]
        sizes: Vec<u32>,
    },
    /// Measure speed and memory against peers and the limits of this machine
    Bench {
        /// Arguments of the benchmarks: names, `--json FILE`, `--list`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write the files that are generated from others
    Gen {
        /// Only tell which of them are stale
        #[arg(long)]
        check: bool,
    },
    /// Check the form of the sources, which crate imports which, and the licenses of dependencies
    Tidy,
    /// Execute the console blocks of the documentation, and follow its links
    Docs(docs::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::watch();
    let place = match Place::prepare() {
        Ok(place) => place,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = match cli.chore {
        Chore::Demo => demo::run(&place),
        Chore::Test(options) => test::run(&place, &options),
        Chore::Python => python::run(&place),
        Chore::Sim { arguments } => sim::run(&place, &arguments),
        Chore::Bench { arguments } => bench::run(&place, &arguments),
        Chore::Chaos { rounds, seed } => chaos::run(&place, rounds, seed),
        Chore::Attack { names } => chaos::attack(&place, &names),
        Chore::Soak { minutes, seed } => chaos::soak(&place, minutes, seed),
        Chore::Matrix { sizes } => matrix::run(&place, &sizes),
        Chore::Gen { check } => generated::run(&place, check),
        Chore::Tidy => tidy::run(&place),
        Chore::Docs(options) => docs::run(&place, &options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_empty() {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
