//! Speed and memory of the program as ratios: each number beside a peer or a limit of the machine that
//! is measured in the same run.
//!
//! Everything goes through the public program, but for simulated workers, which speak its protocol.

// A benchmark's result is what it prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod accounts;
mod allocations;
mod bare;
mod calls;
#[path = "../../tests/campaign.rs"]
mod campaign;
mod cluster;
mod distinct;
mod functions;
mod generate;
mod graph;
mod idle;
mod journal;
mod latency;
mod lists;
mod locality;
mod make;
mod measure;
mod named;
mod null;
mod objects;
mod outputs;
mod page;
mod peers;
mod planning;
mod pull;
mod python;
mod quality;
mod ranks;
mod row;
mod sampling;
mod scheduling;
mod spawn;
mod startup;
mod storm;
mod stream;
mod values;
mod virtual_cluster;
mod watching;
mod workflows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::cluster::Bench;
use crate::row::{BoxError, Row};

// What is measured within this process has the allocator of the released program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures speed and memory as ratios
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// The program to measure
    #[arg(long, hide = true)]
    hq: PathBuf,
    /// Write the results as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only list the benchmarks
    #[arg(long)]
    list: bool,
    /// A tenth of the tasks: shows whether everything works, proves nothing
    #[arg(long)]
    quick: bool,
    /// Answer questions at this socket, as what is compared with
    #[arg(long, hide = true)]
    echo: Option<PathBuf>,
    /// Only these benchmarks
    names: Vec<String>,
}

/// A benchmark: its name, what it measures, and how.
type Benchmark = (&'static str, &'static str, fn(&Bench) -> Result<Vec<Row>, BoxError>);

const ALL: &[Benchmark] = &[
    ("null-array", "a million tasks with the null executor; twice as many; 16 workers", null::array),
    ("encryption", "the null array encrypted against plain", null::encryption),
    ("array-memory", "submitting and finishing an array of 100 million tasks", null::memory),
    ("spawn", "50 000 programs against a bare spawn-and-wait loop", spawn::run),
    ("make", "`hq make` against ninja, snakemake, `hq run` and `make -j`", make::run),
    ("latency", "one program with `submit --wait` on an idle server", latency::one),
    ("startup", "`hq --version` and `hq job list` against an empty program", startup::run),
    ("idle", "a server with 1 000 idle workers", idle::run),
    ("sampling", "a worker that looks at 128 running tasks, as often as is usual", sampling::run),
    (
        "watching",
        "what happens, told to one client and to a hundred, and what a dashboard costs",
        watching::run,
    ),
    ("page", "the page of the dashboard, of a large cluster, in a browser", page::run),
    ("accounts", "a journal of a million executions: utilization, and a report", accounts::run),
    ("steady", "`submit --wait` 5 000 times from 8 clients", latency::steady),
    ("restart", "a killed server with a million finished tasks", journal::restart),
    ("storm", "a killed server with 1 000 workers and 8 000 running tasks", storm::run),
    ("journal-size", "bytes of the journal for a program", journal::size),
    ("journal-cost", "the null array with a journal against none", journal::cost),
    ("group-commit", "submits from 16 clients against the syncs of the disk", journal::group_commit),
    ("chain", "1 000 dependent programs against as many spawns one after the other", graph::chain),
    ("layers", "10 000 tasks of the null executor, each waiting for three", graph::layers),
    ("arrays", "a million tasks after a million others, element by element", graph::arrays),
    ("graph-memory", "submitting a million tasks with three dependencies each", graph::memory),
    ("named", "named tasks created one by one and in blocks of 256", named::run),
    ("pull", "pulled tasks taken and completed one by one and in blocks, beside bare round trips", pull::run),
    (
        "generate",
        "lines of a generator: the first task, 10 million of them, the lag of the reducer",
        generate::run,
    ),
    ("ranks", "4 ranks on each of 4 workers, started by the workers, against one spawn", ranks::direct),
    ("planning", "a round of planning for many classes and workers", planning::run),
    ("quality", "plans against the proven optimum", quality::run),
    ("distinct", "tasks that all differ, on declared cores, against the ideal", distinct::run),
    (
        "allocations",
        "1 000 drawn workloads on a simulated cluster, against an ideal allocator",
        allocations::run,
    ),
    ("hindsight", "what is asked for against the best fixed number of workers", allocations::hindsight),
    ("campaign", "commands to the batch system for 100 allocations, simulated", allocations::commands),
    ("slurm", "the first task without a worker against the same sbatch script", allocations::slurm),
    ("slurm-work", "short tasks, bursts and long tasks on a real Slurm: node time", allocations::slurm_work),
    (
        "distinct-virtual",
        "the tasks of `distinct` in virtual time: what deciding alone loses",
        scheduling::distinct,
    ),
    ("mixed", "60 000 tasks of 1 to 32 s on 1 200 slots, in virtual time", scheduling::mixed),
    ("placement", "placing tasks on 131 072 cores, filling them and while others end", scheduling::placement),
    ("shares", "four jobs with shares against the fluid model, in virtual time", scheduling::shares),
    ("workflows", "workflows of WfCommons against the best list schedule, in virtual time", workflows::run),
    ("locality", "tasks with locality keys against none, in virtual time", scheduling::locality),
    (
        "locality-files",
        "searches in real files that workers keep, with locality keys against none",
        locality::files,
    ),
    ("outputs", "10 000 programs that print 10 KiB: nowhere, into files, into a stream", outputs::run),
    ("stream-memory", "memory while one task prints 10 GiB into a stream", outputs::memory),
    ("stream-compressed", "what compressing 256 MiB of log lines costs and saves", outputs::compressed),
    ("stream-cat", "what one of a million tasks printed, out of 1 and of 16 stream files", stream::cat),
    ("functions", "20 000 calls of a Python function against a pool of processes", functions::run),
    (
        "python",
        "calls of the Python package against a pool of processes, Dask and what is demanded",
        calls::run,
    ),
    (
        "lists",
        "lists of the Python package on ranks of MPI, in turns with mpi_list, and on workers",
        lists::run,
    ),
    ("values", "values of Python calls: put, got, more than a store holds, read where they are", values::run),
    ("objects", "files for other tasks: left, sent, many, to many readers, lost", objects::run),
    ("peers", "2 000 programs with other tools", peers::run),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(path) = &arguments.echo {
        return pull::echo(path).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if arguments.list {
        for (name, what, _) in ALL {
            println!("{name:<14} {what}");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = arguments.names.iter().find(|name| !ALL.iter().any(|known| known.0 == *name)) {
        eprintln!("error: there is no benchmark `{unknown}`; --list lists them");
        return ExitCode::from(2);
    }
    let bench = Bench { hq: arguments.hq, is_quick: arguments.quick };
    let mut rows = Vec::new();
    let mut is_fine = true;
    row::print_head();
    for (name, _, measure) in ALL {
        if !arguments.names.is_empty() && !arguments.names.iter().any(|wanted| wanted == name) {
            continue;
        }
        match measure(&bench) {
            Ok(measured) => {
                for row in measured {
                    row::print(&row);
                    rows.push(row);
                }
            }
            Err(error) => {
                eprintln!("error: {name}: {error}");
                is_fine = false;
            }
        }
    }
    if let Some(path) = arguments.json
        && let Err(error) = std::fs::write(&path, row::json(&rows))
    {
        eprintln!("error: {}: {error}", path.display());
        is_fine = false;
    }
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
