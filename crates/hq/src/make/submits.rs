//! From a plan to a job: one submit for the runs of a rule that ask for the same, each run an entry of it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use hq_client::options::PreparedFile;
use hq_make::{Digests, FileId, Files, Plan, Reason, Run, RunId, RunState};
use hq_model::dependency::Edges;
use hq_model::job::{Target, TaskIds};
use hq_model::request::{self, CPUS, GPUS, MEM, RANKS_MAX};
use hq_model::task::{EndBy, Retry, RetryOn};
use hq_model::{
    Amount, AmountRequest, Body, Dependencies, Entries, IdSet, JobSpec, OnClose, OutputSink, Policy, Request,
    ResourceRequest, Submit, TaskId, TaskSpec,
};
use serde::Serialize;

use super::digests::{Sha256, hex};
use super::files::Disk;
use super::home::Started;
use super::mark::Mark;
use crate::error::HqError;

/// Between SIGTERM and SIGKILL.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(5);
/// What Linux takes as one argument of a program, with its end.
const ARGUMENT_BYTES_MAX: usize = 128 << 10;
/// Spreads over so many numbers of nodes are tried.
const SPREADS_MAX: usize = request::VARIANTS_MAX;

/// What writes the script, and becomes it: no process more than the script itself has. Where others may write, what they have
/// put there under its name is neither written to nor run.
const WRITE_AND_RUN: &str = concat!(
    r#"if [[ -e $0 || -L $0 ]]; then [[ -f $0 && ! -L $0 && -O $0 ]] || "#,
    r#"{ printf '%s is not a file of yours: remove it, or make files elsewhere\n' "$0" >&2; exit 73; }; "#,
    r#"else set -C; fi; printf %s "$1" >"$0" || exit; set +C; text=$1; set --; eval "$text""#
);
/// What runs the text without writing it.
const RUN: &str = r#"text=$1; set --; eval "$text""#;
/// Before that, where inputs that were made anew may be what they were before.
const UNLESS_UNCHANGED: &str = r#"if "$HQ" task is-unchanged "$2"; then exit; fi; "#;

/// How runs are executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// What starts MPI programs.
    pub launcher: Option<String>,
    /// Write no scripts.
    pub no_scripts: bool,
    /// Of runs whose rule does not say it.
    pub retry: Option<u32>,
    /// Which failures are tried again.
    pub retry_on: RetryOn,
    /// How many may fail.
    pub max_fails: Option<u64>,
    /// How long after its run a file may be late.
    pub latency: Duration,
    /// Nothing starts that cannot have ended so long after the submit.
    pub within: Option<Duration>,
    /// Which of the plan's runs come first: one number each, the larger the sooner.
    pub priorities: Option<Vec<i32>>,
    /// What the tasks carry on a server that stays.
    pub mark: Option<Mark>,
}

/// A job that makes what a plan needs.
pub(crate) struct Submission {
    /// What is submitted.
    pub file: PreparedFile,
    /// The run of each task.
    pub runs: Vec<RunId>,
    /// The same, to be remembered.
    pub started: Vec<Started>,
}

// What a task is told of its run.
#[derive(Serialize)]
struct Entry<'a> {
    run: &'a str,
    dir: &'a str,
    script: &'a str,
    log: &'a str,
    out: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    locality: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchanged: Vec<(&'a str, String)>,
    text: &'a str,
}

// What runs have in common that are one submit.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Kind {
    rule: Arc<str>,
    request: String,
    retry: Option<u32>,
    time_limit: Option<Duration>,
    env: Vec<String>,
    outputs: usize,
    has_locality: bool,
    is_perhaps: bool,
    uses_mpi: bool,
    awaited: Vec<Vec<u8>>,
    priority: i32,
}

/// The name of a run that is unique in its plan.
pub(crate) fn name_of(run: &Run) -> String {
    match &*run.dir_shown {
        "" | "." => run.name.clone(),
        dir => format!("{dir}/{}", run.name),
    }
}

/// The job that makes what is needed.
///
/// # Errors
/// When a run has something that no task can have.
pub(crate) fn submission(
    plan: &Plan,
    name: &str,
    submit_dir: &[u8],
    how: &How,
) -> Result<Submission, HqError> {
    let groups = groups(plan, how);
    let mut task_of: Vec<Option<TaskId>> = vec![None; plan.runs.len()];
    let (mut runs, mut started, mut submits) = (Vec::new(), Vec::new(), Vec::new());
    for (_, group) in &groups {
        for run in group {
            task_of[run.index()] = Some(TaskId(u32::try_from(runs.len()).map_err(|_| too_many())?));
            runs.push(*run);
        }
    }
    started.reserve_exact(runs.len());
    let job = JobSpec { name: name.to_owned(), max_fails: how.max_fails, ..JobSpec::default() };
    for (kind, group) in groups {
        let Some(model) = group.first().map(|run| plan.run(*run)) else { continue };
        let Some(first) = task_of[model.id.index()] else { continue };
        let spec = spec_of(model, &kind, how)?;
        let mut entries = Vec::with_capacity(group.len());
        let mut edges = Vec::with_capacity(group.len());
        for run in group.iter().map(|run| plan.run(*run)) {
            entries.push(entry_of(plan, run)?);
            started.push(started_of(plan, run)?);
            edges.push(run.after.iter().filter_map(|before| task_of[before.index()]).collect::<Vec<_>>());
        }
        let last = TaskId(first.0 + u32::try_from(group.len() - 1).map_err(|_| too_many())?);
        let edges = Edges::new(edges).ok_or_else(too_many)?;
        let entries = Entries::new(entries.iter().map(Vec::as_slice)).ok_or_else(too_many)?;
        submits.push(Submit {
            target: Target::New(job.clone()),
            ids: TaskIds::Given(IdSet::range(first.0, last.0)),
            entries,
            keys: Entries::default(),
            dependencies: Arc::new(Dependencies { files: kind.awaited, edges, ..Dependencies::default() }),
            spec: Arc::new(spec),
            submit_dir: submit_dir.to_vec(),
        });
    }
    Ok(Submission { file: PreparedFile { job, submits, warnings: Vec::new() }, runs, started })
}

fn too_many() -> HqError {
    HqError::failed(
        "bad-input",
        "there are more runs, or more dependencies between them, than one job can have",
    )
    .hint("make only some of the targets at a time: --target NAME")
}

// The runs of each kind, in an order in which none waits for a later one. Kinds that wait for each other are split by how
// far their runs are from the beginning.
fn groups(plan: &Plan, how: &How) -> Vec<(Kind, Vec<RunId>)> {
    let mut kinds: HashMap<Kind, usize> = HashMap::new();
    let mut groups: Vec<(Kind, Vec<RunId>)> = Vec::new();
    let mut group_of: Vec<usize> = vec![usize::MAX; plan.runs.len()];
    // Most runs are as the one of their rule before them.
    let mut latest: HashMap<&str, &Run> = HashMap::new();
    for run in plan.needed() {
        let before = latest.insert(&run.rule, run);
        let group = match before.filter(|before| are_of_one_kind(before, run, how)) {
            Some(before) => group_of[before.id.index()],
            None => {
                let kind = kind_of(plan, run, how);
                *kinds.entry(kind.clone()).or_insert_with(|| {
                    groups.push((kind, Vec::new()));
                    groups.len() - 1
                })
            }
        };
        groups[group].1.push(run.id);
        group_of[run.id.index()] = group;
    }
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    for run in plan.needed() {
        let own = group_of[run.id.index()];
        let others = run.after.iter().map(|run| group_of[run.index()]);
        before[own].extend(others.filter(|group| *group != own && *group != usize::MAX));
    }
    let mut open: Vec<usize> = Vec::with_capacity(groups.len());
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    for (group, before) in before.iter_mut().enumerate() {
        before.sort_unstable();
        before.dedup();
        open.push(before.len());
        before.iter().for_each(|other| behind[*other].push(group));
    }
    let mut order: Vec<usize> = (0..groups.len()).filter(|group| open[*group] == 0).collect();
    let mut at = 0;
    while let Some(group) = order.get(at).copied() {
        at += 1;
        for next in &behind[group] {
            open[*next] -= 1;
            if open[*next] == 0 {
                order.push(*next);
            }
        }
    }
    let is_ordered: Vec<bool> = open.iter().map(|open| *open == 0).collect();
    let mut groups: Vec<Option<(Kind, Vec<RunId>)>> = groups.into_iter().map(Some).collect();
    let mut ordered: Vec<(Kind, Vec<RunId>)> =
        order.iter().filter_map(|group| groups[*group].take()).collect();
    let mut levels: BTreeMap<(u32, usize), Vec<RunId>> = BTreeMap::new();
    let mut level_of: HashMap<RunId, u32> = HashMap::new();
    // Needed runs come after those that they wait for.
    for run in plan.needed().filter(|run| !is_ordered[group_of[run.id.index()]]) {
        let level = run.after.iter().filter_map(|run| level_of.get(run)).max().map_or(0, |level| level + 1);
        level_of.insert(run.id, level);
        levels.entry((level, group_of[run.id.index()])).or_default().push(run.id);
    }
    let kinds: Vec<Option<Kind>> = groups.into_iter().map(|group| Some(group?.0)).collect();
    for ((_, group), runs) in levels {
        if let Some(kind) = &kinds[group] {
            ordered.push((kind.clone(), runs));
        }
    }
    ordered
}

fn kind_of(plan: &Plan, run: &Run, how: &How) -> Kind {
    Kind {
        rule: run.rule.clone(),
        request: format!("{:?}", run.resources),
        retry: run.retry,
        time_limit: run.time_limit,
        env: run.env.iter().map(|(name, _)| name.clone()).collect(),
        outputs: run.outputs.len(),
        has_locality: !run.locality.is_empty(),
        is_perhaps: matches!(run.state, RunState::Perhaps(_)),
        uses_mpi: uses_mpi(run),
        awaited: run.awaited.iter().map(|file| plan.file(*file).path.to_vec()).collect(),
        priority: how.priorities.as_ref().map_or(0, |all| all[run.id.index()]),
    }
}

// Whether the kinds of two runs of a rule are the same, as far as that is seen without writing them down.
fn are_of_one_kind(one: &Run, other: &Run, how: &How) -> bool {
    let is_perhaps = |run: &Run| matches!(run.state, RunState::Perhaps(_));
    how.priorities.is_none()
        && one.awaited.is_empty()
        && other.awaited.is_empty()
        && (one.retry, one.time_limit, one.outputs.len())
            == (other.retry, other.time_limit, other.outputs.len())
        && one.locality.is_empty() == other.locality.is_empty()
        && is_perhaps(one) == is_perhaps(other)
        && one.resources == other.resources
        && one.env.iter().map(|(name, _)| name).eq(other.env.iter().map(|(name, _)| name))
        && uses_mpi(one) == uses_mpi(other)
}

fn uses_mpi(run: &Run) -> bool {
    run.script.windows(b"HQ_MPIRUN".len()).any(|part| part == b"HQ_MPIRUN")
}

fn spec_of(run: &Run, kind: &Kind, how: &How) -> Result<TaskSpec, HqError> {
    let requests = requests(run, kind.uses_mpi)?;
    let is_alone = requests.iter().all(|request| request.nodes == 0);
    let text = if how.no_scripts { RUN } else { WRITE_AND_RUN };
    let text = if kind.is_perhaps { format!("{UNLESS_UNCHANGED}{text}") } else { text.to_owned() };
    let mut args: Vec<Vec<u8>> = vec![
        b"bash".to_vec(),
        b"-c".to_vec(),
        text.into(),
        b"%{ENTRY.script}".to_vec(),
        b"%{ENTRY.text}".to_vec(),
    ];
    if kind.is_perhaps {
        args.push(b"%{ENTRY.unchanged}".to_vec());
    }
    if !is_alone {
        // It is started once, on the first node, and finds what starts MPI programs in its environment.
        args.push(b"%{MPIRUN}".to_vec());
    }
    let log = || OutputSink::File { path: b"%{ENTRY.log}".to_vec(), on_close: OnClose::Keep };
    let env = run.env.iter().enumerate();
    let env =
        env.map(|(at, (name, _))| (name.clone().into_bytes(), format!("%{{ENTRY.env.{at}}}").into_bytes()));
    let env = env.chain(how.mark.as_ref().map(Mark::variable));
    let retry = run.retry.or(how.retry).unwrap_or(0);
    Ok(TaskSpec {
        body: Body::Program { args },
        env: env.collect(),
        cwd: b"%{ENTRY.dir}".to_vec(),
        stdout: log(),
        stderr: log(),
        outputs: (0..kind.outputs).map(|at| format!("%{{ENTRY.out.{at}}}").into_bytes()).collect(),
        output_patience: how.latency,
        requests,
        priority: kind.priority,
        time_limit: run.time_limit,
        end_by: how.within.map(EndBy::Within),
        kill_grace: KILL_GRACE,
        retry: Retry { max: retry, delay: Duration::ZERO, on: how.retry_on.clone() },
        expected: run.resources.time,
        locality: kind.has_locality.then(|| b"%{ENTRY.locality}".to_vec()),
        launcher: how.launcher.clone().unwrap_or_default(),
        ..TaskSpec::default()
    })
}

// What a run asks for: on one worker, or as ranks, spread over as many nodes as divide its resource sets.
fn requests(run: &Run, uses_mpi: bool) -> Result<Vec<Request>, HqError> {
    let asked = &run.resources;
    let time_request = asked.time.unwrap_or_default();
    let whole = |count: u64| AmountRequest::Some(Amount::whole(count), Policy::default());
    let request = |nodes: u32, ranks: u32, cpus: AmountRequest, gpus: Option<AmountRequest>, parts: u32| {
        // A rule may ask for none.
        let cpus = Some(cpus).filter(|_| asked.cpu > 0);
        let mut resources: Vec<ResourceRequest> =
            cpus.map(|amount| ResourceRequest { name: CPUS.into(), amount }).into_iter().collect();
        resources.extend(gpus.map(|amount| ResourceRequest { name: GPUS.into(), amount }));
        let others = asked.others.iter().map(|(name, amount)| (name.clone(), *amount));
        let mem = asked.mem.map(|amount| (MEM.to_owned(), amount));
        for (name, amount) in others.chain(mem) {
            let amount = match amount {
                AmountRequest::Some(amount, policy) => {
                    AmountRequest::Some(Amount(amount.0.div_ceil(u64::from(parts))), policy)
                }
                all => all,
            };
            resources.push(ResourceRequest { name, amount });
        }
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        Request { nodes, ranks, resources, time_request, ..Request::default() }
    };
    let total = asked.ranks_total();
    if total <= 1 && !uses_mpi {
        let gpus = (asked.gpu > 0).then(|| whole(asked.gpu.into()));
        let request = request(0, 0, whole(asked.cpu.into()), gpus, 1);
        return checked(vec![request], run);
    }
    let part = |count: u32| -> AmountRequest {
        let whole = Amount::whole(count.into());
        AmountRequest::Some(Amount(whole.0.div_ceil(u64::from(asked.ranks.max(1)))), Policy::default())
    };
    let gpus = (asked.gpu > 0).then(|| part(asked.gpu));
    let spreads = (1..=asked.nrs).filter(|nodes| asked.nrs.is_multiple_of(*nodes));
    let ranks_on = |nodes: &u32| u64::from(asked.nrs / nodes) * u64::from(asked.ranks);
    let found: Vec<Request> = spreads
        .filter(|nodes| ranks_on(nodes) <= RANKS_MAX.into())
        .take(SPREADS_MAX)
        .map(|nodes| {
            let ranks = u32::try_from(ranks_on(&nodes)).unwrap_or(RANKS_MAX);
            request(nodes, ranks, part(asked.cpu), gpus, asked.ranks.max(1))
        })
        .collect();
    checked(found, run)
}

fn checked(requests: Vec<Request>, run: &Run) -> Result<Vec<Request>, HqError> {
    let wrong =
        |what: String| HqError::failed("bad-input", format!("{}: rule `{}`: {what}", run.place, run.rule));
    if requests.is_empty() {
        return Err(wrong(format!("{} ranks are more than a task can have", run.resources.ranks_total())));
    }
    request::check_variants(&requests).map_err(|error| wrong(error.to_string()))?;
    Ok(requests)
}

fn entry_of(plan: &Plan, run: &Run) -> Result<Vec<u8>, HqError> {
    let wrong = |what: String| HqError::failed("bad-input", format!("{}: {what}", name_of(run)));
    let text = utf8(&run.script).ok_or_else(|| wrong("its script is not UTF-8".into()))?;
    if run.script.len() >= ARGUMENT_BYTES_MAX {
        let bytes = run.script.len();
        return Err(wrong(format!(
            "its script has {bytes} bytes, but at most {} are possible",
            ARGUMENT_BYTES_MAX - 1
        ))
        .hint("move part of it to a file that it calls"));
    }
    let not_utf8 =
        |path: &[u8]| wrong(format!("the path {} is not UTF-8", OsStr::from_bytes(path).display()));
    let out: Vec<&str> =
        run.outputs.iter().map(|file| path_in(plan, *file, &not_utf8)).collect::<Result<_, _>>()?;
    let unchanged: Vec<(&str, String)> = run
        .expected
        .iter()
        .map(|(file, digest)| Ok((path_in(plan, *file, &not_utf8)?, hex(digest))))
        .collect::<Result<_, HqError>>()?;
    let path = |path| utf8(path).ok_or_else(|| not_utf8(path));
    let locality = run.locality.join(",");
    let entry = Entry {
        run: &name_of(run),
        dir: path(&run.dir)?,
        script: path(&run.script_path)?,
        log: path(&run.log_path)?,
        out,
        env: run.env.iter().map(|(_, value)| value.as_str()).collect(),
        locality: &locality,
        unchanged,
        text,
    };
    Ok(serde_json::to_vec(&entry).map_err(std::io::Error::from)?)
}

fn path_in<'a>(
    plan: &'a Plan,
    file: FileId,
    not_utf8: &dyn Fn(&[u8]) -> HqError,
) -> Result<&'a str, HqError> {
    let path = &plan.file(file).path;
    utf8(path).ok_or_else(|| not_utf8(path))
}

fn started_of(plan: &Plan, run: &Run) -> Result<Started, HqError> {
    let disk = Disk::default();
    let outputs = run.outputs.iter().map(|file| {
        let path = &plan.file(*file).path;
        let before = if is_missing(run) { None } else { disk.facts(path)? };
        Ok((String::from_utf8_lossy(path).into_owned(), before.map(|facts| facts.mtime_ns)))
    });
    Ok(Started {
        name: name_of(run),
        outputs: outputs.collect::<Result<_, HqError>>()?,
        log: shown(plan, &run.log_path),
        text: hex(&Sha256.of_text(run.text())),
    })
}

// As people find it: relative to the directory of the call where it is below that.
fn shown(plan: &Plan, path: &[u8]) -> String {
    let below = path.strip_prefix(&plan.base[..]).and_then(|rest| rest.strip_prefix(b"/"));
    String::from_utf8_lossy(below.unwrap_or(path)).into_owned()
}

// The only output is not there: no look is needed.
fn is_missing(run: &Run) -> bool {
    matches!(run.state, RunState::Needed(Reason::Missing(_))) && run.outputs.len() == 1
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
