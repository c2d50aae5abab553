//! PBS: `qsub`, `qstat`, `qdel`, `qselect`, `pbsnodes`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::command::{Output, Runner};
use crate::error::BatchError;
use crate::manager::Submission;
use crate::request::{AllocationRequest, Granted, JobReport, NodeShape};
use crate::script::{self, Launch, directive};
use crate::{
    pbs_output::{self as output, Jobs},
    quote,
};

const PREFIX: &str = "#PBS";
/// Exit status of `qstat` and `qdel` for ids that are not known.
const UNKNOWN_ID: i32 = 153;
/// Exit status of `qdel`, and of `qstat` without `-x`, for jobs that have ended.
const ENDED: i32 = 35;
/// Exit status of `qstat` for an option that it does not know.
const USAGE: i32 = 2;

pub(crate) fn prepare(request: &AllocationRequest) -> Submission {
    let (user_line, args) = script::user_header(PREFIX, &request.manager_args, quote::pbs_header);
    Submission { program: "qsub".into(), args, script: script(request, user_line) }
}

fn script(request: &AllocationRequest, user_line: Option<Vec<u8>>) -> Vec<u8> {
    let asked = output::asked_resources(&request.manager_args);
    let has = |name: &str| asked.iter().any(|(key, _)| key == name);
    let mut header = Vec::new();
    let mut option = |text: String| header.push(directive(PREFIX, &text));
    // Two requests for chunks of nodes exclude each other; the user's says more than ours.
    if !has("select") && !has("nodes") && !has("ncpus") {
        // A chunk that asks for nothing is one CPU.
        let cpus = request.cpus.map_or_else(String::new, |cpus| format!(":ncpus={cpus}"));
        option(format!("-l select={}{cpus}", request.workers));
    }
    if request.workers > 1 && !has("place") && !has("nodes") {
        // Otherwise two chunks may share a node.
        option("-l place=scatter".to_owned());
    }
    option(format!("-N {}", script::job_name(&request.name)));
    for (name, file) in [("-o", "stdout"), ("-e", "stderr")] {
        let path = script::output_path(&request.directory, file);
        option(format!("{name} {path}"));
    }
    if !has("walltime") {
        option(format!("-l walltime={}", script::clock(request.time_limit)));
    }
    // Whatever shell the user logs in with, it is bash that reads the script.
    option("-S /bin/bash".to_owned());
    // What the job prints can be read while it runs.
    option("-k oed".to_owned());
    // A job that begins anew under its old id would be an allocation nobody asked for.
    option("-r n".to_owned());
    if request.hold {
        option("-h".to_owned());
    }
    if let Some(after) = &request.after {
        option(format!("-W depend=afterany:{after}"));
    }
    header.extend(user_line);
    let launch = if request.workers > 1 { Launch::Pbsdsh } else { Launch::Here };
    script::script(&header, request, &launch)
}

/// The id in the answer of `qsub`: `12.server`. Lines before it are what sites print.
pub(crate) fn submitted(answer: Output) -> Result<String, BatchError> {
    let text = answer.text();
    let id = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    match id.filter(|id| output::is_id(id)) {
        Some(id) => Ok(id.to_owned()),
        None => Err(answer.not_understood("the id of a job")),
    }
}

/// Asks for all ids at once, ended ones included; without those where the server keeps no history.
pub(crate) fn reports(runner: &Runner, ids: &[String]) -> Result<BTreeMap<String, JobReport>, BatchError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut jobs = described(runner, ids)?;
    Ok(ids
        .iter()
        .filter_map(|id| {
            let known = jobs.remove(id).or_else(|| {
                // Servers may answer with a longer name of themselves.
                let same = jobs.keys().find(|job| output::is_same_id(job, id))?.clone();
                jobs.remove(&same)
            })?;
            Some((id.clone(), output::report(&known)))
        })
        .collect())
}

/// What is said of these, by the ids that PBS uses. Some releases print only the first of several ids, unless they are
/// to put the ids together by server; others do not know that option. So an id of which nothing is said is asked for
/// alone before it counts as unknown.
fn described(runner: &Runner, ids: &[String]) -> Result<Jobs, BatchError> {
    let (mut jobs, unnamed) = asked(runner, ids)?;
    for id in unnamed.iter().filter(|_| ids.len() > 1) {
        jobs.extend(asked(runner, std::slice::from_ref(id))?.0);
    }
    Ok(jobs)
}

/// What is printed of these, and those of which nothing is said, no error either.
fn asked(runner: &Runner, ids: &[String]) -> Result<(Jobs, Vec<String>), BatchError> {
    let ask = |options: &[&str]| {
        let mut args = script::words(options);
        args.extend(ids.iter().map(OsString::from));
        runner.run(OsStr::new("qstat"), &args, None)
    };
    let ask = |history: &[&str]| {
        let answer = ask(&[&["-E", "-f", "-F", "json"], history].concat())?;
        match answer.exit {
            Some(USAGE) => ask(&[&["-f", "-F", "json"], history].concat()),
            _ => Ok(answer),
        }
    };
    let mut answer = ask(&["-x"])?;
    if output::keeps_no_history(&answer) {
        answer = ask(&[])?;
    }
    // Of several ids the good ones are printed, whatever is said of the others.
    if !matches!(answer.exit, Some(0 | UNKNOWN_ID | ENDED)) {
        return Err(answer.refused());
    }
    let jobs = output::jobs(&answer)?;
    let errors = answer.errors();
    let is_said =
        |id: &&String| jobs.keys().any(|job| output::is_same_id(job, id)) || output::names(&errors, id);
    let unnamed = ids.iter().filter(|id| !is_said(id)).cloned().collect();
    Ok((jobs, unnamed))
}

pub(crate) fn cancel(runner: &Runner, ids: &[String]) -> Result<(), BatchError> {
    let args: Vec<OsString> = ids.iter().map(OsString::from).collect();
    let answer = runner.run(OsStr::new("qdel"), &args, None)?;
    match answer.exit {
        Some(0) => Ok(()),
        Some(_) if output::all_are_gone(&answer.errors()) => Ok(()),
        _ => Err(answer.refused()),
    }
}

pub(crate) fn find(
    runner: &Runner,
    wanted: &[(String, PathBuf)],
) -> Result<BTreeMap<(String, PathBuf), String>, BatchError> {
    let mut candidates = Vec::new();
    for (name, _) in wanted {
        let mut answer = runner.run(OsStr::new("qselect"), &script::words(&["-x", "-N", name]), None)?;
        if answer.exit != Some(0) || output::keeps_no_history(&answer) {
            answer = runner.run(OsStr::new("qselect"), &script::words(&["-N", name]), None)?;
        }
        let answer = answer.demand()?;
        candidates
            .extend(answer.text().lines().map(str::trim).filter(|id| output::is_id(id)).map(str::to_owned));
    }
    if candidates.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(output::named(&described(runner, &candidates)?, wanted))
}

/// What the server made of a job.
pub(crate) fn granted(runner: &Runner, id: &str) -> Option<Granted> {
    let jobs = described(runner, &[id.to_owned()]).ok()?;
    jobs.into_iter().next().map(|(id, job)| output::granted(&id, &job))
}

/// The number of nodes in `-l select=2:ncpus=4+1:ncpus=8`, or in `-l nodes=2`.
pub(crate) fn nodes_asked(manager_args: &[OsString]) -> Option<u32> {
    output::nodes_asked(&output::asked_resources(manager_args))
}

/// What the arguments ask for per node; else the least of the nodes that may serve the queue.
pub(crate) fn node_shape(runner: &Runner, manager_args: &[OsString]) -> Option<NodeShape> {
    let queue = script::option_value(manager_args, Some('q'), None)
        .map(|destination| destination.split('@').next().unwrap_or_default().to_owned())
        .filter(|queue| !queue.is_empty());
    let max_time = queue.as_ref().and_then(|queue| {
        let args = script::words(&["-Q", "-f", "-F", "json", queue]);
        output::queue_time(&runner.run(OsStr::new("qstat"), &args, None).ok()?, queue)
    });
    let asked = output::asked_resources(manager_args);
    if let Some(shape) = output::asked_shape(&asked) {
        return Some(NodeShape { max_time, ..shape });
    }
    let args = script::words(&["-a", "-F", "json"]);
    let answer = runner.run(OsStr::new("pbsnodes"), &args, None).ok()?.demand().ok()?;
    let mut shape = output::least_node(&answer, queue.as_deref())?;
    // A chunk that asks for nothing is one CPU, unless the placing takes whole nodes.
    if !asked.iter().any(|(key, value)| key == "place" && value.contains("excl")) {
        shape.gpus.clear();
        shape.cpus = 1;
    }
    Some(NodeShape { max_time, ..shape })
}
