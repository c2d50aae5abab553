//! What is there already: taken for up to date, or removed.

use hq_model::counted;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use hq_make::{Files, Known, Plan, Rerun, Run};
use serde_json::json;

use super::before::Before;
use super::{Context, home_path, load, planned, remembered, rerun};
use crate::cli::make::MakeArgs;
use crate::error::HqError;
use crate::make::{Disk, Home, Sha256};
use crate::render::make::Shown;

/// Files that are named before they are removed.
const NAMED_MAX: usize = 20;

pub(super) fn tend(context: &Context, args: &MakeArgs) -> Result<u8, HqError> {
    let make = load(context, args)?;
    let home = Home::take(&home_path(args))?;
    // A job of a server may still make files.
    Before::of(context, &home, false)?;
    // Only these look at files behind those that are there.
    let rerun = match (&args.tend.delete, rerun(args)?) {
        (None, Rerun::Exists) => {
            return Err(HqError::usage("--adopt is for --rerun mtime and --rerun hash")
                .hint("in mode `exists`, existing files are always up to date"));
        }
        (Some(_), Rerun::Exists) => Rerun::Mtime,
        (_, rerun) => rerun,
    };
    let plan = planned(context, args, &make, &remembered(args, &make, rerun), rerun)?;
    let mut shown = match &args.tend.delete {
        None => adopt(&home, &plan)?,
        Some(of) => delete(args, &plan, of.as_deref(), &known_names(&make))?,
    };
    context.printer.print(&mut shown)?;
    Ok(0)
}

fn known_names(make: &hq_make::Makefile) -> Vec<String> {
    make.rules().chain(make.targets()).map(str::to_owned).collect()
}

fn adopt(home: &Home, plan: &Plan) -> Result<Shown, HqError> {
    let lines = Known::adopt(plan, &Disk::default(), &Sha256)?;
    home.remember(&lines)?;
    let mut known = Known::default();
    known.take(&lines);
    let text = match known.len() {
        1 => "The files of 1 run count as up to date\n".to_owned(),
        count => format!("The files of {count} runs count as up to date\n"),
    };
    Ok(Shown::message(text, json!({ "runs": known.len() })))
}

fn delete(args: &MakeArgs, plan: &Plan, of: Option<&str>, names: &[String]) -> Result<Shown, HqError> {
    if let Some(of) = of.filter(|of| !names.iter().any(|name| name == of)) {
        let near = hq_model::similar::nearest(of, names.iter().map(String::as_str));
        let hint = near.map_or_else(String::new, |near| format!("did you mean `{near}`?"));
        return Err(HqError::failed("bad-input", format!("there is no rule or target `{of}`")).hint(hint));
    }
    let is_of =
        |run: &&Run| of.is_none_or(|of| *run.rule == *of || run.targets.iter().any(|target| **target == *of));
    let disk = Disk::default();
    let mut files = Vec::new();
    for run in plan.runs.iter().filter(is_of) {
        for file in &run.outputs {
            let file = plan.file(*file);
            // What is in a directory may be other people's.
            if disk.facts(&file.path)?.is_some_and(|facts| !facts.is_dir) {
                files.push(file);
            }
        }
    }
    let count = match files.len() {
        0 => return Ok(Shown::message("There is nothing to remove\n".into(), json!({ "removed": [] }))),
        count => counted(count, "file"),
    };
    if !args.tend.yes {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(HqError::usage(format!(
                "--delete would remove {count}, but cannot ask for confirmation here"
            ))
            .hint("use `--yes` to remove them without confirmation"));
        }
        let mut err = io::stderr().lock();
        for file in files.iter().take(NAMED_MAX) {
            writeln!(err, "  {}", crate::render::text::one_line(&file.shown()))?;
        }
        if files.len() > NAMED_MAX {
            writeln!(err, "  and {} more", files.len() - NAMED_MAX)?;
        }
        write!(err, "Remove {count}? [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(HqError::failed("interrupted", "Nothing was removed"));
        }
    }
    for file in &files {
        match fs::remove_file(OsStr::from_bytes(&file.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HqError::failed("io", format!("{} cannot be removed: {error}", file.shown())));
            }
            _ => {}
        }
    }
    let removed: Vec<_> = files.iter().map(|file| file.shown()).collect();
    Ok(Shown::message(format!("{count} removed\n"), json!({ "removed": removed })))
}
