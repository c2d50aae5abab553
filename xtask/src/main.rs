//! Chores of the workspace: `cargo xtask demo|test|sim|bench|docs|gen|tidy`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod consoles;
mod demo;
mod r#gen;
mod leftovers;
mod packages;
mod reference;
mod steps;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the binary and run the main job on the embedded cluster.
    Demo,
    /// Install what the tests need and run everything.
    Test {
        /// Seconds for the simulator.
        #[arg(long, default_value_t = 180)]
        sim_seconds: u64,
    },
    /// Explore the simulator; options go to `hq-sim`.
    Sim {
        /// Options of `hq-sim`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure, as ratios against peers and limits of the same run.
    Bench {
        /// Only these rows.
        rows: Vec<String>,
    },
    /// Write the generated files: protobuf types and the command-line reference.
    Gen {
        /// Only say whether they are fresh.
        #[arg(long)]
        check: bool,
    },
    /// Execute the console blocks of the documents and compare what they print.
    Docs,
    /// Check files and folders against the house rules.
    Tidy,
}

fn main() -> ExitCode {
    let root = root();
    let result = match Arguments::parse().chore {
        Chore::Demo => demo::run(&root),
        Chore::Test { sim_seconds } => return test::run(&root, sim_seconds),
        Chore::Sim { arguments } => steps::sim(&root, &arguments),
        Chore::Bench { rows } => bench::run(&root, &rows),
        Chore::Gen { check } => generate(&root, check),
        Chore::Docs => consoles::run(&root),
        Chore::Tidy => tidy::run(&root),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a chore could not be done.
type Trouble = Box<dyn std::error::Error>;

fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

fn generate(root: &std::path::Path, check: bool) -> Result<(), Trouble> {
    let mut stale = Vec::new();
    if let r#gen::Outcome::Changed(files) = r#gen::run(root, check)? {
        stale.extend(files);
    }
    stale.extend(reference::run(root, check)?);
    for file in &stale {
        println!("{}: {}", if check { "stale" } else { "written" }, file.display());
    }
    if check && !stale.is_empty() {
        return Err("generated files are stale: run `cargo xtask gen`".into());
    }
    Ok(())
}
