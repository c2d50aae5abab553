//! What only shows: plans, explanations, pictures, scripts.

use std::fs;
use std::io::Write;

use hq_make::{FileId, Plan, Rerun, Run, RunState, picture};
use serde_json::{Value, json};

use super::{Context, home_path, load, planned, remembered, rerun};
use crate::cli::make::{GraphOfArg, MakeArgs};
use crate::error::HqError;
use crate::make::{job_in, last_in, name_of};
use crate::render::make::{Failures, Shown};

pub(super) fn look(context: &Context, args: &MakeArgs) -> Result<u8, HqError> {
    if args.look.list_failed {
        let last = last_in(&home_path(args)).unwrap_or_default();
        let exit = u8::from(!last.failed.is_empty());
        context.printer.print(&mut Failures(last.failed))?;
        return Ok(exit);
    }
    let make = load(context, args)?;
    // Only this mode looks at what is behind files that are there.
    let rerun = match rerun(args)? {
        Rerun::Exists if args.look.show_script.is_some() => Rerun::Mtime,
        rerun => rerun,
    };
    let plan = planned(context, args, &make, &remembered(args), rerun)?;
    if job_in(&home_path(args)).is_some() {
        context.printer.note(
            "A run was interrupted here, or still goes on: what it has left unfinished counts as it is until `hq make` has looked at it",
        );
    }
    let is_incomplete = !plan.missing.is_empty();
    let exit = u8::from(is_incomplete);
    if args.look.question {
        return Ok(u8::from(!plan.is_done()));
    }
    let mut shown = if args.look.list {
        list(&plan)
    } else if let Some(files) = &args.look.explain {
        Shown::of(hq_make::explain(&plan, files), json!({ "runs": runs(&plan) }))
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
    let text = format!("{} runs, {} files: nothing is wrong\n", plan.runs.len(), plan.files.len());
    Shown::of(text, json!({ "runs": plan.runs.len(), "files": plan.files.len() }))
}

fn scripts(plan: &Plan) -> Shown {
    let mut text = String::new();
    for run in plan.needed() {
        text.push_str(&format!("# {}\n{}\n", name_of(run), String::from_utf8_lossy(&run.script)));
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
            Err(HqError::failed("bad-input", format!("no run is called `{name}`")).hint(hint))
        }
        _ => {
            let names: Vec<String> = found.iter().take(4).map(|run| name_of(run)).collect();
            let text = format!("{} runs are called `{name}`: {} …", found.len(), names.join(", "));
            Err(HqError::failed("bad-input", text).hint("name one with its directory"))
        }
    }
}

fn graph(args: &MakeArgs, plan: &Plan, file: &str) -> Result<Shown, HqError> {
    let form = match file.rsplit_once('.').map(|(_, form)| form) {
        Some("dot") => picture::GraphAs::Dot,
        Some("svg") => picture::GraphAs::Svg,
        Some("json") => picture::GraphAs::Json,
        _ => {
            return Err(HqError::usage(format!(
                "--graph {file}: the name ends in none of .dot, .svg and .json"
            )));
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
    let text: String = plan.runs.iter().map(|run| format!("{:<8} {}\n", state(run), name_of(run))).collect();
    Shown::of(text, runs(plan)).quiet(plan.runs.iter().map(|run| name_of(run) + "\n").collect())
}

fn state(run: &Run) -> &'static str {
    match run.state {
        RunState::There => "there",
        RunState::Needed(_) => "needed",
        RunState::Perhaps(_) => "perhaps",
        RunState::Cannot(_) => "cannot",
    }
}

fn runs(plan: &Plan) -> Value {
    let files =
        |files: &[FileId]| files.iter().map(|file| plan.file(*file).shown.clone()).collect::<Vec<_>>();
    let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let one = |run: &Run| {
        json!({
            "name": name_of(run), "rule": run.rule, "dir": run.dir_shown, "targets": run.targets, "state": state(run),
            "inputs": files(&run.inputs), "outputs": files(&run.outputs), "script": path(&run.script_path),
            "log": path(&run.log_path), "place": run.place.to_string(),
            "rerun": match run.rerun { Rerun::Exists => "exists", Rerun::Mtime => "mtime", Rerun::Hash => "hash" },
        })
    };
    plan.runs.iter().map(one).collect()
}
