//! From the options of a worker and what its node offers to its configuration.

use hq_model::request::{CPUS, IO};
use hq_model::worker::{Executor, Manager, OnServerLost, WorkerConfig, time_reserve};
use hq_model::{Amount, PoolKind, ResourcePool, WorkerResources, duration};
use hq_worker::discovery::{self, Detected, Kinds, ask, batch};

use crate::cli::worker::{Detect, ExecutorArg, ManagerArg, OnServerLostArg, SharedArgs, StartArgs};
use crate::error::HqError;

/// How a worker with these options describes itself.
pub(super) fn config(args: &StartArgs) -> Result<WorkerConfig, HqError> {
    let shared = &args.shared;
    let allocation = allocation(args.manager)?;
    let time_left = || allocation.as_ref().and_then(|(manager, id)| ask::time_left(*manager, id));
    let node_name = || batch::node_name(allocation.as_ref()?.0, &ask::environment());
    let group = || allocation.as_ref().map_or_else(|| "default".to_owned(), |(_, id)| id.clone());
    let time_limit = args.time_limit.or_else(time_left);
    if let (Some(limit), Some(reserve)) = (time_limit, args.time_reserve)
        && reserve >= limit
    {
        let [limit, reserve] = [limit, reserve].map(duration::format);
        return Err(HqError::usage(format!(
            "--time-reserve {reserve} leaves no time of the time limit, {limit}"
        )));
    }
    Ok(WorkerConfig {
        resources: resources(shared)?,
        hostname: args.hostname.clone().or_else(node_name).unwrap_or_else(hostname),
        group: shared.group.clone().unwrap_or_else(group),
        work_dir: String::new(),
        listen_address: String::new(),
        heartbeat: args.heartbeat,
        idle_timeout: shared.idle_timeout,
        time_limit,
        time_reserve: args.time_reserve.unwrap_or_else(|| time_reserve(time_limit)),
        overview_interval: Some(shared.overview_interval).filter(|interval| !interval.is_zero()),
        min_utilization: shared.min_utilization,
        on_server_lost: match args.on_server_lost {
            OnServerLostArg::Reconnect => OnServerLost::Reconnect,
            OnServerLostArg::FinishRunning => OnServerLost::FinishRunning,
            OnServerLostArg::Stop => OnServerLost::Stop,
        },
        reconnect_timeout: args.reconnect_timeout,
        allocation,
        origin: args.allocation,
        executor: match args.executor {
            ExecutorArg::Process => Executor::Process,
            ExecutorArg::Null => Executor::Null,
        },
        pid: std::process::id(),
        // Known once it is open.
        object_store: None,
    })
}

/// What a worker would find on this machine.
pub(super) fn detect(hyper_threading: bool) -> Detected {
    discovery::detect(&ask::this_node(Kinds::ALL, hyper_threading))
}

fn resources(shared: &SharedArgs) -> Result<WorkerResources, HqError> {
    let declared: Vec<ResourcePool> = shared.cpus.iter().chain(&shared.resources).cloned().collect();
    let mut kinds = match &shared.detect_resources {
        _ if shared.no_detect_resources => Kinds::NONE,
        Detect::All => Kinds::ALL,
        Detect::None => Kinds::NONE,
        Detect::Some(names) => Kinds::named(names.iter().map(String::as_str)),
    };
    let is_declared = |name: &str| declared.iter().any(|pool| pool.name == name);
    // Every task asks for CPUs, so a worker without any could run nothing.
    if kinds == Kinds::NONE && !is_declared(CPUS) {
        let text = "You have to specify --cpus explicitly when opting out of CPU automatic detection";
        return Err(HqError::failed("bad-input", text));
    }
    kinds.cpus = !is_declared(CPUS);
    kinds.mem &= !is_declared(hq_model::request::MEM);
    kinds.nvidia &= !is_declared(discovery::NVIDIA);
    kinds.amd &= !is_declared(discovery::AMD);
    kinds.intel &= !is_declared(discovery::INTEL);
    let found = discovery::detect(&ask::this_node(kinds, !shared.no_hyper_threading));
    for note in &found.notes {
        tracing::debug!("{note}");
    }
    let mut pools = found.resources.pools;
    if !is_declared(IO) {
        pools.push(ResourcePool { name: IO.to_owned(), kind: PoolKind::Sum(Amount::whole(1)) });
    }
    pools.extend(declared);
    // What is said by hand takes the place of what was found.
    let coupling = shared.coupling.clone().map_or(found.resources.coupling, |c| c.0);
    let made = WorkerResources::new(pools, coupling).and_then(|resources| {
        // What was found may couple several groups with the only one of another resource.
        if shared.coupling.is_some() {
            resources.check_coupling()?;
        }
        Ok(resources)
    });
    made.map_err(|e| HqError::usage(e.to_string()))
}

fn allocation(manager: ManagerArg) -> Result<Option<(Manager, String)>, HqError> {
    let environment = ask::environment();
    let (manager, variable) = match manager {
        ManagerArg::Detect => return Ok(batch::allocation(&environment)),
        ManagerArg::None => return Ok(None),
        ManagerArg::Slurm => (Manager::Slurm, "SLURM_JOB_ID"),
        ManagerArg::Pbs => (Manager::Pbs, "PBS_JOBID"),
    };
    match batch::allocation_of(manager, &environment) {
        Some(allocation) => Ok(Some(allocation)),
        None => Err(HqError::usage(format!(
            "--manager {manager} was given, but this is not one of its jobs: {variable} is not set"
        ))),
    }
}

/// The name of this node.
pub(super) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
