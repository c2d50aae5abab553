//! Slurm: `sbatch`, `squeue`, `sacct`, `scancel`, `sinfo`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::command::{Output, Runner};
use crate::error::BatchError;
use crate::manager::Submission;
use crate::request::{AllocationRequest, Granted, JobReport, NodeShape};
use crate::script::{self, Launch, directive};
use crate::{quote, slurm_output as output};

const PREFIX: &str = "#SBATCH";
/// So many jobs are asked for at once where there may be very many.
const IDS_AT_ONCE: usize = 500;

pub(crate) fn prepare(request: &AllocationRequest) -> Submission {
    let (user_line, mut args) = script::user_header(PREFIX, &request.manager_args, quote::slurm_header);
    // `--parsable`: the id alone. It stands first, so that nothing of the user's can swallow it.
    args.insert(0, "--parsable".into());
    Submission { program: "sbatch".into(), args, script: script(request, user_line) }
}

fn script(request: &AllocationRequest, user_line: Option<Vec<u8>>) -> Vec<u8> {
    let mut header = Vec::new();
    let mut option = |text: String| header.push(directive(PREFIX, &text));
    option(format!("--nodes={}", request.workers));
    option(format!("--job-name={}", script::job_name(&request.name)));
    for (name, file) in [("output", "stdout"), ("error", "stderr")] {
        let path = script::output_path(&request.directory, file);
        option(format!("--{name}={path}"));
    }
    option(format!("--time={}", script::clock(request.time_limit)));
    if let Some(cpus) = request.cpus.filter(|_| !output::says_of_cpus(&request.manager_args)) {
        option(format!("--cpus-per-task={cpus}"));
    }
    // A job that begins anew under its old id would be an allocation nobody asked for.
    option("--no-requeue".to_owned());
    if request.hold {
        option("--hold".to_owned());
    }
    if let Some(after) = &request.after {
        let (id, _) = output::split_cluster(after);
        option(format!("--dependency=afterany:{id}"));
    }
    header.extend(user_line);
    let launch = if request.workers > 1 {
        Launch::Prefix(on_each_node(request.workers).join(" "))
    } else {
        Launch::Here
    };
    script::script(&header, request, &launch)
}

/// The words in front of a program that start it once on each of so many nodes. One that ends early does not take the
/// others with it, and each gets its whole node.
pub(crate) fn on_each_node(nodes: u32) -> Vec<String> {
    let (tasks, nodes) = (format!("--ntasks={nodes}"), format!("--nodes={nodes}"));
    let fixed = ["--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none"].map(str::to_owned);
    ["srun".to_owned(), "--overlap".to_owned(), tasks, nodes].into_iter().chain(fixed).collect()
}

/// The id in the answer of `sbatch --parsable`: `17`, or `17;cluster`. Lines before it are what sites print.
pub(crate) fn submitted(answer: Output) -> Result<String, BatchError> {
    let text = answer.text();
    let id = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).and_then(output::id);
    id.ok_or_else(|| answer.not_understood("the number of a job"))
}

/// Asks the controller for all ids at once, the accounting for those that it does not print, and then the controller
/// for each of the rest: `squeue` may print nothing and succeed while a controller restarts.
pub(crate) fn reports(runner: &Runner, ids: &[String]) -> Result<BTreeMap<String, JobReport>, BatchError> {
    let mut reports = BTreeMap::new();
    for (cluster, ids) in by_cluster(ids) {
        let numbers: Vec<&str> = ids.iter().map(|id| output::split_cluster(id).0).collect();
        let mut answer = queue(runner, &["--jobs", &numbers.join(",")], cluster)?;
        let mut is_none_known = is_unknown(&answer);
        if is_none_known && numbers.len() > 1 {
            // One bad id may spoil the answer for the others; the user's jobs are all of them.
            answer = queue(runner, &[&user()], cluster)?;
            is_none_known = false;
        }
        let mut known = if is_none_known { BTreeMap::new() } else { output::squeue(&answer.demand()?)? };
        let forgotten: Vec<&str> =
            numbers.iter().copied().filter(|number| !known.contains_key(*number)).collect();
        if !forgotten.is_empty() {
            known.extend(accounted(runner, &forgotten, cluster));
        }
        for number in forgotten {
            if !known.contains_key(number) {
                known.extend(shown(runner, number, cluster)?.map(|report| (number.to_owned(), report)));
            }
        }
        for id in ids {
            if let Some(report) = known.remove(output::split_cluster(id).0) {
                reports.insert(id.clone(), report);
            }
        }
    }
    Ok(reports)
}

fn queue(runner: &Runner, which: &[&str], cluster: Option<&str>) -> Result<Output, BatchError> {
    let mut args = script::words(&["--noheader", "--states=all", "--format=%i|%T|%r|%S|%M"]);
    args.extend(script::words(which));
    args.extend(clusters(cluster));
    runner.run(OsStr::new("squeue"), &args, None)
}

fn user() -> String {
    format!("--user={}", rustix::process::geteuid().as_raw())
}

/// What the accounting says. Many sites have none; then ended jobs stay unknown.
fn accounted(runner: &Runner, numbers: &[&str], cluster: Option<&str>) -> BTreeMap<String, JobReport> {
    let mut args = script::words(&[
        "--noheader",
        "--parsable2",
        "--allocations",
        "--format=JobID,State,ExitCode,ElapsedRaw",
        "--jobs",
        &numbers.join(","),
    ]);
    args.extend(clusters(cluster));
    match runner.run(OsStr::new("sacct"), &args, None) {
        Ok(answer) if answer.exit == Some(0) => output::sacct(&answer.text()),
        _ => BTreeMap::new(),
    }
}

/// What the accounting has of the energy of jobs, in joules.
pub(crate) fn energy(runner: &Runner, ids: &[String]) -> Result<BTreeMap<String, u64>, BatchError> {
    let mut energies = BTreeMap::new();
    for (cluster, ids) in by_cluster(ids) {
        for ids in ids.chunks(IDS_AT_ONCE) {
            let numbers: Vec<&str> = ids.iter().map(|id| output::split_cluster(id).0).collect();
            let format = "--format=JobID,ConsumedEnergyRaw";
            let mut args =
                script::words(&["--noheader", "--parsable2", format, "--jobs", &numbers.join(",")]);
            args.extend(clusters(cluster));
            let known = output::energy(&runner.run(OsStr::new("sacct"), &args, None)?.demand()?.text());
            energies.extend(ids.iter().filter_map(|id| {
                known.get(output::split_cluster(id).0).map(|joules| ((*id).clone(), *joules))
            }));
        }
    }
    Ok(energies)
}

/// What the controller says of one job; nothing if it says that there is none.
fn shown(runner: &Runner, number: &str, cluster: Option<&str>) -> Result<Option<JobReport>, BatchError> {
    let mut args: Vec<OsString> = clusters(cluster).into_iter().collect();
    args.extend(script::words(&["--oneliner", "show", "job", number]));
    let answer = runner.run(OsStr::new("scontrol"), &args, None)?;
    if answer.exit.is_some_and(|exit| exit != 0) && is_no_job(&answer) {
        return Ok(None);
    }
    let answer = answer.demand()?;
    match output::shown(&answer.text()) {
        Some(report) => Ok(Some(report)),
        None => Err(answer.not_understood("the state of a job")),
    }
}

pub(crate) fn cancel(runner: &Runner, ids: &[String]) -> Result<(), BatchError> {
    for (cluster, ids) in by_cluster(ids) {
        let mut args: Vec<OsString> = clusters(cluster).into_iter().collect();
        args.extend(ids.iter().map(|id| OsString::from(output::split_cluster(id).0)));
        let answer = runner.run(OsStr::new("scancel"), &args, None)?;
        let is_gone = answer.exit.is_some() && output::all_are_gone(&answer.errors());
        if answer.exit != Some(0) && !is_gone {
            return Err(answer.refused());
        }
    }
    Ok(())
}

pub(crate) fn find(
    runner: &Runner,
    wanted: &[(String, PathBuf)],
) -> Result<BTreeMap<(String, PathBuf), String>, BatchError> {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let user = format!("--user={}", rustix::process::geteuid().as_raw());
    let args = script::words(&[
        "--noheader",
        "--states=all",
        &user,
        "--format=%i|%j|%Z",
        "--name",
        &names.join(","),
    ]);
    let answer = runner.run(OsStr::new("squeue"), &args, None)?.demand()?;
    Ok(output::named(&answer.stdout, wanted))
}

/// What the controller made of a job.
pub(crate) fn granted(runner: &Runner, id: &str) -> Option<Granted> {
    let (number, cluster) = output::split_cluster(id);
    let mut args: Vec<OsString> = clusters(cluster).into_iter().collect();
    args.extend(script::words(&["--oneliner", "show", "job", number]));
    let granted =
        output::granted(&runner.run(OsStr::new("scontrol"), &args, None).ok()?.demand().ok()?.text())?;
    Some(Granted { is_whole: granted.is_whole || gives_whole_nodes(runner, cluster), ..granted })
}

/// Whether the cluster shares no node among jobs, whatever they ask for.
fn gives_whole_nodes(runner: &Runner, cluster: Option<&str>) -> bool {
    let mut args: Vec<OsString> = clusters(cluster).into_iter().collect();
    args.extend(script::words(&["show", "config"]));
    let answer = runner.run(OsStr::new("scontrol"), &args, None).and_then(Output::demand);
    answer.is_ok_and(|answer| output::selects_whole_nodes(&answer.text()))
}

/// The number of nodes in `-N 2`; none of a range.
pub(crate) fn nodes_asked(manager_args: &[OsString]) -> Option<u32> {
    script::option_value(manager_args, Some('N'), Some("nodes"))?.parse().ok()
}

/// The most that a node of the partition has.
pub(crate) fn largest_node(runner: &Runner, manager_args: &[OsString]) -> Option<NodeShape> {
    let (text, is_asked) = partition(runner, manager_args)?;
    output::largest(&text, is_asked)
}

/// What the partition's nodes have, unless the arguments ask for less.
pub(crate) fn node_shape(runner: &Runner, manager_args: &[OsString]) -> Option<NodeShape> {
    let (text, is_asked) = partition(runner, manager_args)?;
    output::shape(&text, is_asked, manager_args)
}

/// The lines of `sinfo` about the partition that the arguments name, and whether they name one.
fn partition(runner: &Runner, manager_args: &[OsString]) -> Option<(String, bool)> {
    let mut args = script::words(&["--noheader", "--exact", "--format=%P|%D|%c|%m|%G|%l|%h|%N"]);
    let partitions = script::option_value(manager_args, Some('p'), Some("partition"));
    if let Some(partitions) = &partitions {
        args.push(format!("--partition={partitions}").into());
    }
    args.extend(clusters(script::option_value(manager_args, Some('M'), Some("clusters")).as_deref()));
    let answer = runner.run(OsStr::new("sinfo"), &args, None).ok()?.demand().ok()?;
    Some((answer.text(), partitions.is_some()))
}

/// Whether `squeue` knows none of the ids: it says so only if it was asked for one.
fn is_unknown(answer: &Output) -> bool {
    answer.exit == Some(1) && is_no_job(answer)
}

fn is_no_job(answer: &Output) -> bool {
    answer.errors().contains("Invalid job id")
}

fn clusters(cluster: Option<&str>) -> Option<OsString> {
    cluster.map(|cluster| format!("--clusters={cluster}").into())
}

fn by_cluster(ids: &[String]) -> BTreeMap<Option<&str>, Vec<&String>> {
    let mut clusters = BTreeMap::<_, Vec<_>>::new();
    for id in ids {
        clusters.entry(output::split_cluster(id).1).or_default().push(id);
    }
    clusters
}
