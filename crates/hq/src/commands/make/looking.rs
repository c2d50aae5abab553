//! What only shows: plans, explanations, pictures, scripts.

use std::fs;
use std::io::Write;
use std::path::Path;

use hq_client::Session;
use hq_make::{FileId, FileState, Plan, Rerun, Run, RunState, picture};
use hq_model::counted;
use serde_json::{Value, json};

use super::before::{jobs_of, may_go_on, on_server};
use super::{Context, home_path, load, planned, remembered, rerun};
use crate::cli::make::{GraphOfArg, MakeArgs};
use crate::error::HqError;
use crate::make::{
    FailedRun, Job, Place, failed, half_done, job_in, last_in, name_of, started_in, still_runs,
};
use crate::render::make::{Failures, Shown};
use crate::render::text::one_line;

pub(super) fn look(context: &Context, args: &MakeArgs) -> Result<u8, HqError> {
    if args.look.list_failed {
        let failed = failed_in(context, &home_path(args))?;
        let exit = u8::from(!failed.is_empty());
        context.printer.print(&mut Failures(failed))?;
        return Ok(exit);
    }
    let make = load(context, args)?;
    let rerun = rerun(args)?;
    let plan = planned(context, args, &make, &remembered(args, &make, rerun), rerun)?;
    if let Some(what) = unfinished(&home_path(args))? {
        context
            .printer
            .note(&format!("{what} unfinished files are treated as they are until the next `hq make`"));
    }
    let is_incomplete = !plan.missing.is_empty();
    let exit = u8::from(is_incomplete);
    if args.look.question {
        return Ok(u8::from(!plan.is_done()));
    }
    let mut shown = if args.look.list {
        list(&plan)
    } else if let Some(files) = &args.look.explain {
        all_are_known(&plan, files)?;
        let document = json!({ "files": explained(&plan, files), "runs": runs(&plan) });
        Shown::of(hq_make::explain(&plan, files), document)
    } else if let Some(file) = &args.look.graph {
        graph(args, &plan, file)?
    } else if let Some(name) = &args.look.show_script {
        script(&plan, name)?
    } else if args.look.test {
        scripts(&plan)
    } else if args.look.check {
        checked(&plan)
    } else {
        dry_run(&plan)
    };
    context.printer.print(&mut shown)?;
    if is_incomplete && !args.look.list {
        return Err(super::refused(&plan.missing));
    }
    Ok(exit)
}

// What has failed of the last job: as its server says, or as whoever saw its end has remembered.
fn failed_in(context: &Context, home: &Path) -> Result<Vec<FailedRun>, HqError> {
    let last = last_in(home).unwrap_or_default();
    let Some(remembered) = job_in(home) else { return Ok(last.failed) };
    let Place::Server { uid, dir } = &remembered.place else {
        context.printer.note("A run was interrupted here, or is still active: this is of the one before");
        return Ok(last.failed);
    };
    let asked = of_job_on_server(home, &remembered, (uid, dir));
    match asked {
        Ok(Some(failed)) => Ok(failed),
        _ if last.mark.is_some() && last.mark == remembered.mark => Ok(last.failed),
        Ok(None) => {
            let job = remembered.job.map_or_else(|| "the job".to_owned(), |job| format!("job {job}"));
            let text = format!(
                "It is not known what failed: {job} of the server in {}, which made files here last, is forgotten",
                dir.display()
            );
            Err(HqError::failed("no-job", text)
                .hint("`hq make --list` shows what is missing, and `hq make` makes it"))
        }
        Err(error) => Err(error),
    }
}

// Nothing where it is not known there any more.
fn of_job_on_server(
    home: &Path,
    remembered: &Job,
    (uid, dir): (&str, &Path),
) -> Result<Option<Vec<FailedRun>>, HqError> {
    let mut session = Session::connect(dir).map_err(|error| {
        let job = remembered.job.map_or_else(|| "a job".to_owned(), |job| format!("job {job}"));
        HqError::from(error)
            .hint(format!("{job} of the server in {} was the last to make files here", dir.display()))
    })?;
    if session.server_uid() != uid {
        return Ok(None);
    }
    let jobs = jobs_of(&mut session, home, remembered)?;
    if !jobs.iter().any(|job| job.is_same) {
        return Ok(None);
    }
    Ok(Some(failed(&mut session, &on_server(&jobs), &started_in(home)?)?))
}

// Whose files may be half done: of a job on a server, it is known whether some are.
fn unfinished(home: &Path) -> Result<Option<String>, HqError> {
    let Some(remembered) = job_in(home) else { return Ok(None) };
    let unknown = || Ok(Some("A run was interrupted here, or is still active: its".to_owned()));
    let Place::Server { uid, dir } = &remembered.place else { return unknown() };
    let session = Session::connect(dir).ok().filter(|session| session.server_uid() == uid);
    let (Some(mut session), Ok(runs)) = (session, started_in(home)) else { return unknown() };
    let jobs = jobs_of(&mut session, home, &remembered)?;
    if let Some(job) = jobs.iter().rev().find(|job| !job.has_ended) {
        return Ok(Some(format!("Job {} is making files here: its", job.job)));
    }
    let ran = on_server(&jobs);
    if !half_done(&mut session, &ran, &runs)?.is_empty() {
        return Ok(Some("A run was interrupted here: its".to_owned()));
    }
    // Their programs may go on writing for a moment.
    let is_ending = may_go_on(still_runs(&mut session, &ran, runs.len())?);
    Ok(is_ending.then(|| "Runs that were canceled here may still be ending: their".to_owned()))
}

// Nobody asks for what is not known: the name is wrong.
fn all_are_known(plan: &Plan, names: &[String]) -> Result<(), HqError> {
    let mut unknown = names.iter().filter(|name| hq_make::files_called(plan, name).is_empty());
    let Some(name) = unknown.next() else { return Ok(()) };
    let shown: Vec<_> = plan.files.iter().map(|file| file.shown()).collect();
    let alike = shown.iter().map(|other| &**other).filter(|other| other.len().abs_diff(name.len()) <= 2);
    let hint = hq_model::similar::nearest(name, alike)
        .map_or("`hq make --explain` without names explains all wanted files".into(), |near| {
            format!("did you mean `{near}`?")
        });
    let more = match unknown.count() {
        0 => String::new(),
        more => format!(", nor {more} more of these names"),
    };
    let text = format!("no target needs a file `{}`{more}", one_line(name));
    Err(HqError::failed("bad-input", text).hint(one_line(&hint)))
}

fn dry_run(plan: &Plan) -> Shown {
    let summary = hq_make::summary::summary(plan);
    let lines: Vec<Value> = summary
        .lines
        .iter()
        .map(|line| {
            json!({
                "dir": line.dir, "rule": line.rule, "runs": line.runs, "ranks": line.ranks, "cpus": line.cpus, "gpus": line.gpus,
                "time": line.time.map(|time| time.as_secs_f64()), "files": line.files,
            })
        })
        .collect();
    let document = json!({
        "lines": lines, "runs": summary.runs, "perhaps": summary.perhaps, "core_hours": summary.core_hours,
        "without_time": summary.without_time, "longest_way": summary.longest.as_secs_f64(), "there": summary.there,
    });
    Shown::of(summary.to_string(), document)
}

fn checked(plan: &Plan) -> Shown {
    let text = format!(
        "{}, {}: nothing is wrong\n",
        counted(plan.runs.len(), "run"),
        counted(plan.files.len(), "file")
    );
    Shown::of(text, json!({ "runs": plan.runs.len(), "files": plan.files.len() }))
}

fn scripts(plan: &Plan) -> Shown {
    let mut text = String::new();
    for run in plan.needed() {
        text.push_str(&format!("# {}\n{}\n", one_line(&name_of(run)), String::from_utf8_lossy(&run.script)));
    }
    Shown::of(text, json!({ "runs": runs(plan) }))
}

fn script(plan: &Plan, name: &str) -> Result<Shown, HqError> {
    let found: Vec<&Run> = plan.runs.iter().filter(|run| run.name == name || name_of(run) == name).collect();
    match found[..] {
        [run] => {
            let text = String::from_utf8_lossy(&run.script).into_owned();
            Ok(Shown::of(text.clone(), json!({ "name": name_of(run), "script": text })))
        }
        [] => {
            let names: Vec<String> = plan.runs.iter().map(name_of).collect();
            let near = hq_model::similar::nearest(name, names.iter().map(String::as_str));
            let hint =
                near.map_or("`hq make --list` shows all".into(), |near| format!("did you mean `{near}`?"));
            Err(HqError::failed("bad-input", format!("there is no run `{name}`")).hint(hint))
        }
        _ => {
            let names: Vec<String> = found.iter().take(4).map(|run| name_of(run)).collect();
            let text = format!("{} runs are called `{name}`: {} …", found.len(), names.join(", "));
            Err(HqError::failed("bad-input", text).hint("give one with its directory"))
        }
    }
}

fn graph(args: &MakeArgs, plan: &Plan, file: &str) -> Result<Shown, HqError> {
    let form = match file.rsplit_once('.').map(|(_, form)| form) {
        Some("dot") => picture::GraphAs::Dot,
        Some("svg") => picture::GraphAs::Svg,
        Some("json") => picture::GraphAs::Json,
        _ => {
            return Err(HqError::usage(format!("--graph {file}: the name must end in .dot, .svg or .json")));
        }
    };
    let of = match args.how.graph_of {
        GraphOfArg::Rules => picture::GraphOf::Rules,
        GraphOfArg::Runs => picture::GraphOf::Runs,
        GraphOfArg::Files => picture::GraphOf::Files,
    };
    let failed = last_in(&home_path(args)).unwrap_or_default().failed;
    let failed: Vec<_> = plan
        .needed()
        .filter(|run| failed.iter().any(|failed| failed.name == name_of(run)))
        .map(|run| run.id)
        .collect();
    let text = picture::graph(plan, of, form, &failed);
    let written = fs::File::create(file).and_then(|mut out| out.write_all(text.as_bytes()));
    written.map_err(|error| HqError::failed("io", format!("{file} cannot be written: {error}")))?;
    Ok(Shown::message(format!("The graph is in {file}\n"), json!({ "file": file })))
}

fn list(plan: &Plan) -> Shown {
    let text: String =
        plan.runs.iter().map(|run| format!("{:<8} {}\n", state(run), one_line(&name_of(run)))).collect();
    Shown::of(text, runs(plan)).quiet(plan.runs.iter().map(|run| one_line(&name_of(run)) + "\n").collect())
}

fn state(run: &Run) -> &'static str {
    match run.state {
        RunState::There => "there",
        RunState::Needed(_) => "needed",
        RunState::Perhaps(_) => "perhaps",
        RunState::Unasked => "unasked",
        RunState::Cannot(_) => "cannot",
    }
}

// The files that are asked about, those of the targets if none is.
fn explained(plan: &Plan, names: &[String]) -> Value {
    let files: Vec<FileId> = match names {
        [] => plan.targets.clone(),
        names => names.iter().flat_map(|name| hq_make::files_called(plan, name)).collect(),
    };
    let one = |id: &FileId| {
        let file = plan.file(*id);
        let run = file.maker.map(|maker| plan.run(maker)).filter(|run| run.state != RunState::There);
        let state = match file.state {
            FileState::There => "there",
            FileState::Made => "made",
            FileState::Awaited => "awaited",
            FileState::Unmakable => "missing",
        };
        json!({
            "file": file.shown(), "state": state, "run": run.map(name_of), "reason": run.and_then(reason),
            "why": run.and_then(|run| hq_make::why(plan, run)),
        })
    };
    files.iter().map(one).collect()
}

fn reason(run: &Run) -> Option<&'static str> {
    match &run.state {
        RunState::Needed(reason) | RunState::Perhaps(reason) => Some(reason.word()),
        RunState::There | RunState::Unasked | RunState::Cannot(_) => None,
    }
}

fn runs(plan: &Plan) -> Value {
    let files =
        |files: &[FileId]| files.iter().map(|file| plan.file(*file).shown().into_owned()).collect::<Vec<_>>();
    let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let one = |run: &Run| {
        json!({
            "name": name_of(run), "rule": &*run.rule, "dir": &*run.dir_shown, "targets": run.targets.iter().map(|target| &**target).collect::<Vec<_>>(), "state": state(run),
            "reason": reason(run), "why": hq_make::why(plan, run),
            "inputs": files(&run.inputs), "outputs": files(&run.outputs), "script": path(&run.script_path),
            "log": path(&run.log_path), "place": run.place.to_string(),
            "rerun": match run.rerun { Rerun::Exists => "exists", Rerun::Mtime => "mtime", Rerun::Hash => "hash" },
        })
    };
    plan.runs.iter().map(one).collect()
}
