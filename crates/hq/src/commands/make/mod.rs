//! `hq make`: reads rules and targets, and shows, makes or removes what they ask for.

mod before;
mod ending;
mod following;
mod looking;
mod making;
mod places;
mod tending;

pub(super) use before::await_ended;

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::CommandFactory;
use hq_make::{Force, Known, Makefile, Plan, Problem, Rerun, Source, Wanted, World};
use tracing_subscriber::filter::LevelFilter;

use super::{Context, end_quietly_when_nobody_reads};
use crate::cli::make::{EVERYTHING, MakeArgs, RerunArg};
use crate::cli::{Cli, OutputMode};
use crate::error::HqError;
use crate::logging;
use crate::make::{Disk, Interpreter, Sha256, known_in};

/// Problems that are shown; the others are counted.
const PROBLEMS_SHOWN: usize = 20;
/// Longest file of rules or targets, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Sets when files are made again.
const RERUN_VARIABLE: &str = "HQ_MAKE_RERUN";

pub(super) fn make(context: &Context, args: MakeArgs) -> Result<u8, HqError> {
    if let Some(shell) = args.how.show_completion.or(args.how.install_completion) {
        clap_complete::generate(shell, &mut Cli::command(), "hq", &mut io::stdout());
        return Ok(0);
    }
    let look = &args.look;
    let is_look = look.dry_run || look.test || look.list || look.check || look.question || look.list_failed;
    let is_look = is_look || look.explain.is_some() || look.graph.is_some() || look.show_script.is_some();
    if args.place.follow {
        begin_short(context);
        return following::follow(context, &args);
    }
    if is_look {
        begin_short(context);
        return looking::look(context, &args);
    }
    if args.tend.adopt || args.tend.delete.is_some() {
        begin_short(context);
        return tending::tend(context, &args);
    }
    making::make(context, args)
}

// What changes nothing, or not for long.
fn begin_short(context: &Context) {
    end_quietly_when_nobody_reads();
    logging::init(context.debug, level(context));
}

fn level(context: &Context) -> Option<LevelFilter> {
    (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN)
}

/// The directory in which things are remembered.
fn home_path(args: &MakeArgs) -> PathBuf {
    PathBuf::from(&args.place.state)
}

/// Both files, read.
fn load(context: &Context, args: &MakeArgs) -> Result<Makefile, HqError> {
    let (rules, targets) = (text_of(args, &args.rules, "rules")?, text_of(args, &args.targets, "targets")?);
    let rules = Source { name: &args.rules, text: &rules };
    let targets = Source { name: &args.targets, text: &targets };
    let make = hq_make::read(rules, targets).map_err(|problems| refused(&problems))?;
    warn(context, &make.warnings);
    Ok(make)
}

fn text_of(args: &MakeArgs, name: &str, what: &str) -> Result<Vec<u8>, HqError> {
    let failed = |error: io::Error| {
        let text = match error.kind() {
            io::ErrorKind::NotFound => format!("there is no file `{name}`"),
            _ => format!("the {what} `{name}` cannot be read: {error}"),
        };
        let is_number = name.parse::<f64>().is_ok();
        let hint = if is_number {
            "the minutes are the third argument: hq make RULES TARGETS MINUTES".to_owned()
        } else if args.rules == "rules.yaml" && what == "rules" {
            "hq make looks for rules.yaml and targets.yaml in the current directory; `hq doc make` explains how to \
             write them"
                .to_owned()
        } else if args.force.iter().any(|forced| forced == EVERYTHING) {
            format!(
                "`--force={name}` remakes a rule or a file of that name; `--force` alone remakes everything"
            )
        } else {
            format!("give the {what}: hq make RULES TARGETS")
        };
        HqError::failed("bad-input", text).hint(hint)
    };
    let file = fs::File::open(name).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))));
    }
    Ok(text)
}

/// The plan for what is asked.
fn planned(
    context: &Context,
    args: &MakeArgs,
    make: &Makefile,
    known: &Known,
    rerun: Rerun,
) -> Result<Plan, HqError> {
    let base = std::env::current_dir()?.as_os_str().as_bytes().to_vec();
    let force = match &args.force[..] {
        [] => Force::None,
        names if names.iter().any(|name| name == EVERYTHING) => Force::All,
        names => Force::Named(names.to_vec()),
    };
    let workdir = args.how.workdir.as_ref().map(std::path::absolute).transpose()?;
    let look = &args.look;
    let wanted = Wanted {
        base,
        targets: args.only_targets.clone(),
        only: args.only.clone(),
        force,
        rerun,
        workdir: workdir.map(|path| path.as_os_str().as_bytes().to_vec()),
        check: args.look.check,
        look_behind: look.list
            || look.explain.is_some()
            || look.graph.is_some()
            || look.show_script.is_some(),
        wait_inputs: args.wait_inputs,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let disk = Disk::default();
    let world = World {
        files: &disk,
        digests: &Sha256,
        python: Some(&Interpreter),
        known,
        now_ns: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
    };
    let plan = hq_make::plan(make, &wanted, &world).map_err(|problems| refused(&problems))?;
    // Those of the files have been said.
    let new: Vec<Problem> =
        plan.warnings.iter().filter(|warning| !make.warnings.contains(warning)).cloned().collect();
    warn(context, &new);
    Ok(plan)
}

/// When files are made again: as it is said, or by the variable.
fn rerun(args: &MakeArgs) -> Result<Rerun, HqError> {
    let named = match args.rerun {
        Some(rerun) => Some(rerun),
        None => match std::env::var(RERUN_VARIABLE).ok().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => match text.as_str() {
                "exists" => Some(RerunArg::Exists),
                "mtime" => Some(RerunArg::Mtime),
                "hash" => Some(RerunArg::Hash),
                _ => {
                    return Err(HqError::usage(format!(
                        "{RERUN_VARIABLE} is `{text}`: use exists, mtime or hash"
                    )));
                }
            },
        },
    };
    Ok(match named.unwrap_or(RerunArg::Exists) {
        RerunArg::Exists => Rerun::Exists,
        RerunArg::Mtime => Rerun::Mtime,
        RerunArg::Hash => Rerun::Hash,
    })
}

/// What is remembered, where it counts.
fn remembered(args: &MakeArgs, make: &Makefile, rerun: Rerun) -> Known {
    if make.compares(rerun) { known_in(&home_path(args)) } else { Known::default() }
}

/// All problems as one error.
fn refused(problems: &[Problem]) -> HqError {
    let mut text: Vec<String> = problems.iter().take(PROBLEMS_SHOWN).map(ToString::to_string).collect();
    if problems.len() > PROBLEMS_SHOWN {
        text.push(format!("and {} more", problems.len() - PROBLEMS_SHOWN));
    }
    HqError::failed(problems.first().map_or("bad-input", |first| first.code), text.join("\n"))
}

fn warn(context: &Context, warnings: &[Problem]) {
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    context.printer.warn(&texts);
}
