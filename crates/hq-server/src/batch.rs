//! Batch systems: a thread for each that is in use carries out what the core orders, one order after the other, and
//! tells what came of it. The core never waits for a command.

mod granted;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hq_batch::{AllocationRequest, BatchError, Left, Manager, NodeShape};
use hq_core::alloc::{BatchOrder, BatchReport, Said};
use hq_core::server::Input;
use hq_model::allocation::{BatchState, QueueParams};
use hq_model::{AllocationRef, Amount, PoolKind, QueueId, ResourcePool, WorkerResources, duration};
use tracing::{debug, info, warn};

use crate::directory::ALLOCATIONS;
use crate::inbox::{Event, Inbox, Room};
use crate::limits::{ALLOCATION_IDLE_TIMEOUT, ALLOCATION_LAST_BYTES, ALLOCATION_LAST_LINES};

/// The way to all batch systems.
#[derive(Debug)]
pub(crate) struct Batch {
    place: Place,
    inbox: Arc<Inbox>,
    desks: Mutex<BTreeMap<String, Sender<BatchOrder>>>,
}

/// What scripts name, and where descriptions of batch systems are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The program that is started as a worker.
    pub(crate) hq: PathBuf,
    /// The directory by which workers find the server.
    pub(crate) server_dir: PathBuf,
    /// Where described batch systems are looked for.
    pub(crate) config_dir: PathBuf,
}

impl Batch {
    /// No thread yet.
    pub(crate) fn new(place: Place, inbox: Arc<Inbox>) -> Batch {
        Batch { place, inbox, desks: Mutex::default() }
    }

    /// Has an order carried out.
    pub(crate) fn send(&self, order: BatchOrder) {
        let manager = match &order {
            BatchOrder::Submit { params, .. }
            | BatchOrder::Recover { params, .. }
            | BatchOrder::Try { params, .. }
            | BatchOrder::AskShape { params, .. } => params.manager.clone(),
            BatchOrder::Cancel { manager, .. }
            | BatchOrder::AskStates { manager, .. }
            | BatchOrder::Remove { manager, .. } => manager.clone(),
        };
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desks.entry(manager.clone()).or_insert_with(|| self.open(&manager));
        if let Err(unsent) = desk.send(order) {
            // Its thread could not be made or has broken: what was ordered has not happened.
            desks.remove(&manager);
            if let Some(report) = failed(&unsent.0, "the server has no thread for it") {
                self.inbox.push(Event::input(Input::Batch(report)), Room::none());
            }
        }
    }

    fn open(&self, manager: &str) -> Sender<BatchOrder> {
        let (sender, orders) = channel();
        let (name, place, inbox) = (manager.to_owned(), self.place.clone(), self.inbox.clone());
        let desk = move || Desk { manager: find(&name, &place), name, place }.work(&orders, &inbox);
        if let Err(error) = std::thread::Builder::new().name("hq-batch".into()).spawn(desk) {
            warn!(%error, manager, "no thread for a batch system");
        }
        sender
    }
}

fn find(name: &str, place: &Place) -> Result<Manager, String> {
    Manager::find(name, &place.config_dir).map_err(|error| error.to_string())
}

struct Desk {
    name: String,
    place: Place,
    manager: Result<Manager, String>,
}

impl Desk {
    fn work(mut self, orders: &Receiver<BatchOrder>, inbox: &Inbox) {
        while let Ok(order) = orders.recv() {
            if self.manager.is_err() {
                // It may have been described or installed since.
                self.manager = find(&self.name, &self.place);
            }
            let report = match &self.manager {
                Ok(manager) => self.carry_out(manager, &order),
                Err(error) => failed(&order, error),
            };
            if let Some(report) = report {
                inbox.push(Event::input(Input::Batch(report)), Room::none());
            }
        }
    }

    fn carry_out(&self, manager: &Manager, order: &BatchOrder) -> Option<BatchReport> {
        Some(match order {
            BatchOrder::Submit { allocation, params, workers, directory, after } => {
                let mut request = self.request(manager, params, *workers, path(directory), Some(*allocation));
                request.after.clone_from(after);
                self.submit(manager, *allocation, &request)
            }
            BatchOrder::Recover { allocation, params, directory } => {
                let name = job_name(params, Some(*allocation));
                recover(manager, *allocation, name, path(directory))
            }
            BatchOrder::Cancel { allocations, .. } => {
                let (which, ids): (Vec<_>, Vec<_>) = allocations.iter().cloned().unzip();
                let result = manager.cancel(&ids).map_err(|error| error.to_string());
                info!(?ids, ?result, manager = self.name, "allocations canceled");
                BatchReport::Canceled { allocations: which, result }
            }
            BatchOrder::AskStates { jobs, .. } => {
                let states = self.states(manager, jobs);
                debug!(?states, manager = self.name, "asked for allocations");
                BatchReport::States { manager: self.name.clone(), states }
            }
            BatchOrder::Try { ticket, params, directory } => {
                let result = self.try_out(manager, params, &path(directory));
                BatchReport::Tried { ticket: *ticket, result }
            }
            BatchOrder::AskShape { queue, params } => shape(manager, *queue, params),
            BatchOrder::Remove { directory, .. } => {
                remove(&path(directory));
                return None;
            }
        })
    }

    fn states(&self, manager: &Manager, jobs: &[(String, Vec<u8>)]) -> Result<Vec<(String, Said)>, String> {
        let ids: Vec<String> = jobs.iter().map(|(id, _)| id.clone()).collect();
        let mut reports = manager.reports(&ids).map_err(|error| error.to_string())?;
        let mut states = Vec::with_capacity(jobs.len());
        for (id, directory) in jobs {
            let directory = path(directory);
            let left = hq_batch::left(&directory);
            let report = reports.remove(id);
            let ran = report.as_ref().and_then(|report| report.ran);
            let (said, reason) = match (report, left) {
                // It would wait for ever, and in the way of others.
                (Some(report), _) if report.is_hopeless => {
                    let reason = report.reason.unwrap_or_else(|| "no reason is given".to_owned());
                    warn!(id, reason, manager = self.name, "an allocation can never start and is canceled");
                    manager.cancel(std::slice::from_ref(id)).map_err(|error| error.to_string())?;
                    (BatchState::Failed(format!("it could never start: {reason}")), None)
                }
                (Some(report), _) => (state(report.state), report.reason),
                // The batch system has forgotten it; its script left how it ended.
                (None, Left::Ended { was_late: true, .. }) => (BatchState::TimedOut, None),
                (None, Left::Ended { was_signalled: true, .. }) => (BatchState::Canceled, None),
                (None, Left::Ended { status: 0, .. }) => (BatchState::Finished, None),
                (None, Left::Ended { status, .. }) => {
                    (BatchState::Failed(format!("exit status {status}")), None)
                }
                (None, Left::Begun | Left::Nothing) => {
                    (BatchState::Unknown("the batch system does not know it".into()), None)
                }
            };
            let has_ended = matches!(said, BatchState::Finished | BatchState::Failed(_));
            let last_lines = has_ended.then(|| last_lines(&directory)).flatten();
            let never_began = left == Left::Nothing && directory.exists();
            states.push((id.clone(), Said { state: said, reason, last_lines, ran, never_began }));
        }
        Ok(states)
    }

    fn submit(&self, manager: &Manager, which: AllocationRef, request: &AllocationRequest) -> BatchReport {
        match manager.submit(request) {
            Ok(batch_id) => {
                info!(allocation = %which, batch_id, workers = request.workers, "allocation submitted");
                BatchReport::Submitted { allocation: which, batch_id }
            }
            Err(error) => {
                warn!(allocation = %which, %error, "allocation not submitted");
                if error.is_in_doubt() {
                    // It may wait there all the same.
                    return match find_submitted(manager, request.name.clone(), request.directory.clone()) {
                        Ok(Some(batch_id)) => BatchReport::Submitted { allocation: which, batch_id },
                        Ok(None) | Err(_) => {
                            BatchReport::Unclear { allocation: which, error: error.to_string() }
                        }
                    };
                }
                if error.is_passing() {
                    return BatchReport::NotNow { allocation: which, error: error.to_string() };
                }
                BatchReport::Refused { allocation: which, error: error.to_string() }
            }
        }
    }

    fn try_out(
        &self,
        manager: &Manager,
        params: &QueueParams,
        directory: &Path,
    ) -> Result<Option<WorkerResources>, String> {
        let nodes = manager.node_shape(&arguments(&params.manager_args));
        if let Some(longest) = nodes.as_ref().and_then(|nodes| nodes.max_time)
            && params.time_limit > longest
        {
            return Err(format!(
                "A time limit of {} is more than the {} that the batch system allows there; such an \
                 allocation would wait forever",
                duration::format(params.time_limit),
                duration::format(longest)
            ));
        }
        let workers = params.workers_per_allocation();
        let request = AllocationRequest {
            hold: true,
            ..self.request(manager, params, workers, directory.into(), None)
        };
        let submitted = manager.submit(&request).map_err(|error| {
            if error.is_in_doubt() {
                return format!("{}\n{}", refused(&error), withdraw(manager, &request));
            }
            match error.is_passing() {
                true => format!(
                    "{error}\nThe batch system accepts no jobs at the moment, so this could not be tested. Use \
                     --no-dry-run to skip the test; the queue then waits until jobs are accepted"
                ),
                false => refused(&error),
            }
        });
        let granted = submitted.and_then(|id| {
            let granted = manager.granted(&id);
            let result = manager.cancel(std::slice::from_ref(&id));
            let failed = |error| {
                format!("Could not cancel allocation {id}, which was submitted to test the queue: {error}")
            };
            result.map(|()| granted).map_err(failed)
        });
        remove(directory);
        let nodes = match granted? {
            Some(granted) => {
                let largest = manager.largest_node(&request.manager_args);
                granted::check(params, &granted, largest.as_ref())?;
                granted.shape(nodes)
            }
            None => nodes,
        };
        Ok(nodes.and_then(|nodes| resources(&nodes, params)))
    }

    fn request(
        &self,
        manager: &Manager,
        params: &QueueParams,
        workers: u32,
        directory: PathBuf,
        which: Option<AllocationRef>,
    ) -> AllocationRequest {
        let manager_args = arguments(&params.manager_args);
        let cpus = params.resources.iter().find(|pool| pool.name == "cpus").map(|pool| pool.kind.total());
        AllocationRequest {
            name: job_name(params, which),
            // On each node that comes, a worker starts.
            workers: manager.nodes_asked(&manager_args).unwrap_or(workers),
            cpus: cpus.and_then(|cpus| u32::try_from(cpus.0.div_ceil(hq_model::amount::UNITS)).ok()),
            time_limit: params.time_limit,
            directory,
            manager_args,
            worker_args: self.worker(params, which),
            // Who wants to see more of the server wants to see more of its workers.
            log_filter: std::env::var_os("RUST_LOG").filter(|filter| !filter.is_empty()),
            start_command: params.start_command.clone(),
            stop_command: params.stop_command.clone(),
            wrap_command: params.wrap_command.clone(),
            hold: false,
            after: None,
        }
    }

    // The command of a worker. What the user gave comes last, and wins where it may.
    fn worker(&self, params: &QueueParams, which: Option<AllocationRef>) -> Vec<OsString> {
        let given = arguments(&params.worker_args);
        let is_given = |option: &str| {
            given
                .iter()
                .any(|arg| arg == option || arg.as_bytes().starts_with(format!("{option}=").as_bytes()))
        };
        let mut args: Vec<OsString> = vec![self.place.hq.clone().into(), "worker".into(), "start".into()];
        let mut add = |option: &str, value: OsString| args.extend([option.into(), value]);
        add("--server-dir", self.place.server_dir.clone().into());
        let is_built_in = matches!(self.name.as_str(), "slurm" | "pbs");
        add("--manager", if is_built_in { self.name.clone().into() } else { "none".into() });
        if let Some(which) = which {
            add("--allocation", which.to_string().into());
            if !is_built_in && !is_given("--group") {
                add("--group", format!("allocation-{which}").into());
            }
        }
        let idle_timeout = params.idle_timeout.unwrap_or(ALLOCATION_IDLE_TIMEOUT);
        if !is_given("--idle-timeout") {
            add("--idle-timeout", seconds(idle_timeout).into());
        }
        // A server that is started again finds its workers; one that stays away costs no more than idling does.
        if !is_given("--on-server-lost") {
            add("--on-server-lost", "reconnect".into());
            add("--reconnect-timeout", seconds(idle_timeout).into());
        }
        // Without a command before it, a worker starts when its allocation does: then nobody has to be asked.
        if let Some(limit) = params.worker_time_limit {
            add("--time-limit", seconds(limit).into());
        } else if params.start_command.is_none() || !is_built_in {
            add("--time-limit", seconds(params.time_limit).into());
        }
        args.extend(given);
        args
    }
}

// What an order comes to that could not be carried out at all.
fn failed(order: &BatchOrder, error: &str) -> Option<BatchReport> {
    let error = error.to_owned();
    Some(match order {
        BatchOrder::Submit { allocation, .. } => BatchReport::Refused { allocation: *allocation, error },
        BatchOrder::Recover { allocation, .. } => BatchReport::Unclear { allocation: *allocation, error },
        BatchOrder::Cancel { allocations, .. } => {
            let allocations = allocations.iter().map(|(which, _)| *which).collect();
            BatchReport::Canceled { allocations, result: Err(error) }
        }
        BatchOrder::AskStates { manager, .. } => {
            BatchReport::States { manager: manager.clone(), states: Err(error) }
        }
        BatchOrder::Try { ticket, .. } => BatchReport::Tried { ticket: *ticket, result: Err(error) },
        BatchOrder::AskShape { queue, .. } => BatchReport::Shape { queue: *queue, resources: None },
        BatchOrder::Remove { .. } => return None,
    })
}

// Begins as programs expect it that read what `hq alloc add` says.
fn refused(error: &BatchError) -> String {
    let program = |command: &str| command.split(' ').next().unwrap_or_default().to_owned();
    match error {
        BatchError::CommandMissing { command } => {
            format!("Could not submit allocation: {} start failed: {error}", program(command))
        }
        BatchError::Refused { command, stderr, .. } => {
            let program = program(command);
            // What it said comes once.
            let error = error.to_string();
            let error = error
                .strip_suffix(stderr.as_str())
                .map_or(error.as_str(), |rest| rest.trim_end_matches(": "));
            format!("Could not submit allocation: {program} execution failed: {error}\nStderr: {stderr}")
        }
        error => format!("Could not submit allocation: {error}"),
    }
}

// A trial whose submission was not answered may wait there all the same. Says what became of it.
fn withdraw(manager: &Manager, request: &AllocationRequest) -> String {
    let how = match manager.name() {
        "slurm" => format!("`scancel --name={}` cancels it", request.name),
        "pbs" => format!("`qselect -N {}` finds it, and `qdel` cancels it", request.name),
        _ => "look for it and cancel it".to_owned(),
    };
    match find_submitted(manager, request.name.clone(), request.directory.clone()) {
        Ok(Some(id)) => match manager.cancel(std::slice::from_ref(&id)) {
            Ok(()) => format!("The trial had been submitted anyway, as {id}, and was canceled: try again."),
            Err(error) => {
                format!(
                    "The trial was submitted anyway, as {id}, and could not be canceled ({error}): {how}."
                )
            }
        },
        Ok(None) => {
            format!("The batch system does not show the trial `{}` yet; if it appears: {how}.", request.name)
        }
        Err(error) => {
            format!("The trial `{}` may have been submitted anyway ({error}): {how}.", request.name)
        }
    }
}

fn job_name(params: &QueueParams, which: Option<AllocationRef>) -> String {
    which.map_or_else(|| "hq-trial".to_owned(), |which| params.job_name(which))
}

fn recover(manager: &Manager, which: AllocationRef, name: String, directory: PathBuf) -> BatchReport {
    // The id that the submission left behind.
    let left = fs::read_to_string(directory.join("jobid")).unwrap_or_default();
    if !left.trim().is_empty() {
        return BatchReport::Submitted { allocation: which, batch_id: left.trim().to_owned() };
    }
    match find_submitted(manager, name, directory) {
        Ok(Some(batch_id)) => BatchReport::Submitted { allocation: which, batch_id },
        Ok(None) => BatchReport::NotFound { allocation: which },
        Err(error) => BatchReport::Unclear { allocation: which, error },
    }
}

fn find_submitted(manager: &Manager, name: String, directory: PathBuf) -> Result<Option<String>, String> {
    let found = manager.find_submitted(&[(name, directory)]).map_err(|error| error.to_string())?;
    Ok(found.into_values().next())
}

fn shape(manager: &Manager, queue: QueueId, params: &QueueParams) -> BatchReport {
    let nodes = manager.node_shape(&arguments(&params.manager_args));
    BatchReport::Shape { queue, resources: nodes.and_then(|nodes| resources(&nodes, params)) }
}

// What a worker would find on such a node. Nothing is said where the user's options make that hard to tell.
fn resources(nodes: &NodeShape, params: &QueueParams) -> Option<WorkerResources> {
    let is_special = |arg: &Vec<u8>| {
        arg == b"--no-hyper-threading"
            || arg.starts_with(b"--detect-resources")
            || arg == b"--no-detect-resources"
    };
    if nodes.cpus == 0 || params.worker_args.iter().any(is_special) {
        return None;
    }
    let counted = |name: &str, count: u32| ResourcePool {
        name: name.to_owned(),
        kind: PoolKind::Range { first: 0, last: count - 1 },
    };
    let mut pools = vec![counted("cpus", nodes.cpus)];
    if let Some(mib) = nodes.memory_bytes.map(|bytes| bytes >> 20).filter(|mib| *mib > 0) {
        pools.push(ResourcePool { name: "mem".into(), kind: PoolKind::Sum(Amount::whole(mib)) });
    }
    pools.extend(nodes.gpu_resources().into_iter().map(|(name, count)| counted(name, count)));
    WorkerResources::new(pools, Vec::new()).ok()
}

// How what an allocation printed ends: on standard error, else on standard output.
fn last_lines(directory: &Path) -> Option<String> {
    ["stderr", "stdout"].iter().find_map(|file| {
        let mut file = hq_stream::open_file(&directory.join(file)).ok()?;
        let size = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(ALLOCATION_LAST_BYTES))).ok()?;
        let mut end = Vec::new();
        file.take(ALLOCATION_LAST_BYTES).read_to_end(&mut end).ok()?;
        let text = String::from_utf8_lossy(&end);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(ALLOCATION_LAST_LINES)..];
        (!last.is_empty()).then(|| last.join(" | "))
    })
}

fn remove(directory: &Path) {
    // Nothing but what was made here.
    if !directory.components().any(|part| part.as_os_str() == ALLOCATIONS) {
        return;
    }
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            warn!(path = %directory.display(), %error, "the files of an old allocation cannot be removed");
        }
        _ => {}
    }
}

fn state(state: hq_batch::BatchState) -> BatchState {
    use hq_batch::BatchState as Said;
    match state {
        Said::Queued => BatchState::Queued,
        Said::Held => BatchState::Held,
        Said::Running => BatchState::Running,
        Said::Suspended => BatchState::Suspended,
        Said::Finished => BatchState::Finished,
        Said::Failed(text) => BatchState::Failed(text),
        Said::Cancelled => BatchState::Canceled,
        Said::TimedOut => BatchState::TimedOut,
        Said::Preempted => BatchState::Preempted,
        Said::NodeFailed => BatchState::NodeFailed,
        Said::OutOfMemory => BatchState::OutOfMemory,
        Said::Unknown(text) => BatchState::Unknown(text),
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn arguments(args: &[Vec<u8>]) -> Vec<OsString> {
    args.iter().map(|arg| OsStr::from_bytes(arg).to_owned()).collect()
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_batch_system_said_comes_once() {
        let error = BatchError::Refused {
            command: "sbatch --parsable".into(),
            exit: Some(1),
            stderr: "sbatch: error: no partition".into(),
        };
        let expected = "Could not submit allocation: sbatch execution failed: `sbatch --parsable` ended with exit status 1\n\
                        Stderr: sbatch: error: no partition";
        assert_eq!(refused(&error), expected);
    }

    #[test]
    fn a_trial_whose_answer_was_lost_is_looked_for_and_canceled() {
        let lab = tempfile::tempdir().expect("a directory");
        let program = |name: &str, text: &str| {
            let path = lab.path().join(name);
            let there = lab.path().display();
            fs::write(&path, format!("#!/bin/sh\ncd '{there}'\n{text}\n")).expect("written");
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
        };
        let timed_out = "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1";
        let directory = lab.path().join("autoalloc/trial-1");
        let path = std::env::join_paths(
            [lab.path().to_owned()].into_iter().chain(std::env::split_paths("/usr/bin:/bin")),
        );
        let manager = Manager::find("slurm", lab.path())
            .expect("built in")
            .with_environment(vec![("PATH".into(), path.expect("a path"))]);
        let place = Place {
            hq: "/bin/true".into(),
            server_dir: lab.path().to_owned(),
            config_dir: lab.path().to_owned(),
        };
        let desk = Desk { name: "slurm".into(), place, manager: Err(String::new()) };
        let params = QueueParams {
            manager: "slurm".into(),
            backlog: 1,
            max_workers_per_alloc: 1,
            time_limit: Duration::from_secs(300),
            ..QueueParams::default()
        };
        program("sinfo", "exit 1");
        program("sbatch", timed_out);
        program("squeue", &format!("echo '42|hq-trial|{}'", directory.display()));
        program("scancel", "echo \"$@\" > canceled");
        let error = desk.try_out(&manager, &params, &directory).expect_err("its answer was lost");
        assert!(error.contains("Socket timed out"), "{error}");
        assert!(
            error.ends_with("The trial had been submitted anyway, as 42, and was canceled: try again."),
            "{error}"
        );
        assert_eq!(fs::read_to_string(lab.path().join("canceled")).expect("it ran"), "42\n");
        program("squeue", "exit 0");
        let error = desk.try_out(&manager, &params, &directory).expect_err("its answer was lost");
        assert!(error.ends_with("if it appears: `scancel --name=hq-trial` cancels it."), "{error}");
    }
}
