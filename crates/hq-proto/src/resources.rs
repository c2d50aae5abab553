//! Workers' configurations and what they offer, on the wire.

use std::time::Duration;

use hq_model::request::CPUS;
use hq_model::resources::Coupling;
use hq_model::worker::{Executor, Manager, OnServerLost, SpillConfig, StoreConfig, WorkerConfig};
use hq_model::{Amount, PoolKind, ResourcePool, WorkerResources};

use crate::ProtoError;
use crate::error::{in_range, model, present, rule, short};
use crate::generated::{self as form, resource_pool::Kind};
use crate::limits::{INDICES_MAX, RESOURCES_MAX};
use crate::request::resource_name;
use crate::wire::{Wire, list_from_wire, list_to_wire, name, nanos, wire_enum};

wire_enum!(OnServerLost = OnServerLost, "on-server-lost": Reconnect, FinishRunning, Stop);
wire_enum!(Manager = Manager, "manager": Slurm, Pbs);
wire_enum!(Executor = Executor, "executor": Process, Null, Pull);

impl Wire for WorkerConfig {
    type Form = form::WorkerConfig;

    fn to_wire(&self) -> form::WorkerConfig {
        let allocation = self.allocation.as_ref();
        form::WorkerConfig {
            pools: list_to_wire(&self.resources.pools),
            coupling: list_to_wire(&self.resources.coupling),
            hostname: self.hostname.clone(),
            group: self.group.clone(),
            work_dir: self.work_dir.clone(),
            listen_address: self.listen_address.clone(),
            heartbeat_ns: nanos(self.heartbeat),
            idle_timeout_ns: self.idle_timeout.map(nanos),
            time_limit_ns: self.time_limit.map(nanos),
            time_reserve_ns: nanos(self.time_reserve),
            overview_interval_ns: self.overview_interval.map(nanos),
            min_utilization: self.min_utilization,
            on_server_lost: self.on_server_lost.to_wire(),
            reconnect_timeout_ns: nanos(self.reconnect_timeout),
            allocation: allocation
                .map(|(manager, id)| form::Allocation { manager: manager.to_wire(), id: id.clone() }),
            executor: self.executor.to_wire(),
            pid: self.pid,
            origin: self.origin.as_ref().map(Wire::to_wire),
            object_store: self.object_store.as_ref().map(|store| form::ObjectStore {
                dir: store.dir.clone(),
                size: store.size,
                spill: store
                    .spill
                    .as_ref()
                    .map(|spill| form::ObjectSpill { dir: spill.dir.clone(), size: spill.size }),
            }),
        }
    }

    fn from_wire(config: form::WorkerConfig) -> Result<WorkerConfig, ProtoError> {
        in_range("heartbeat", config.heartbeat_ns, 1, u64::MAX)?;
        in_range("minimal utilization", u64::from(config.min_utilization), 0, hq_model::amount::UNITS)?;
        let allocation = config.allocation.map(|allocation| {
            Ok((Manager::from_wire(allocation.manager)?, name("allocation", allocation.id)?))
        });
        Ok(WorkerConfig {
            resources: resources(config.pools, config.coupling)?,
            hostname: name("host name", config.hostname)?,
            group: name("group", config.group)?,
            work_dir: name("working directory", config.work_dir)?,
            listen_address: name("address", config.listen_address)?,
            heartbeat: Duration::from_nanos(config.heartbeat_ns),
            idle_timeout: config.idle_timeout_ns.map(Duration::from_nanos),
            time_limit: config.time_limit_ns.map(Duration::from_nanos),
            time_reserve: Duration::from_nanos(config.time_reserve_ns),
            overview_interval: config.overview_interval_ns.map(Duration::from_nanos),
            min_utilization: config.min_utilization,
            on_server_lost: OnServerLost::from_wire(config.on_server_lost)?,
            reconnect_timeout: Duration::from_nanos(config.reconnect_timeout_ns),
            allocation: allocation.transpose()?,
            executor: Executor::from_wire(config.executor)?,
            pid: config.pid,
            origin: config.origin.map(Wire::from_wire).transpose()?,
            object_store: config.object_store.map(store).transpose()?,
        })
    }
}

/// Checks that a server takes what a worker says of itself.
///
/// # Errors
/// When a text is too long, or something else cannot be.
pub fn check_worker_config(config: &WorkerConfig) -> Result<(), ProtoError> {
    WorkerConfig::from_wire(config.to_wire()).map(drop)
}

fn store(store: form::ObjectStore) -> Result<StoreConfig, ProtoError> {
    let spill = store
        .spill
        .map(|spill| Ok(SpillConfig { dir: name("directory of a spill", spill.dir)?, size: spill.size }));
    let dir = name("directory of objects", store.dir)?;
    Ok(StoreConfig { dir, size: store.size, spill: spill.transpose()? })
}

/// Checks what a worker offers.
pub(crate) fn resources(
    pools: Vec<form::ResourcePool>,
    coupling: Vec<form::Coupling>,
) -> Result<WorkerResources, ProtoError> {
    in_range("pools of a worker", pools.len() as u64, 0, RESOURCES_MAX as u64)?;
    let pools: Vec<ResourcePool> = list_from_wire(pools)?;
    // `cpus` comes first, so it counts as smaller than every other name.
    let place = |pool: &ResourcePool| (pool.name != CPUS, pool.name.clone());
    let is_sorted = pools.is_sorted_by(|a, b| place(a) < place(b));
    rule("pools of a worker", is_sorted, "must be `cpus` and then sorted by name, each once")?;
    let resources = WorkerResources { pools, coupling: list_from_wire(coupling)? };
    for (pool, group) in resources.coupling.iter().flat_map(|c| [&c.left, &c.right]) {
        let groups = resources.pool(pool).map_or(0, |pool| pool.kind.group_count());
        rule("coupling", (*group as usize) < groups, "must name groups of the worker's pools")?;
    }
    Ok(resources)
}

impl Wire for ResourcePool {
    type Form = form::ResourcePool;

    fn to_wire(&self) -> form::ResourcePool {
        let kind = match &self.kind {
            PoolKind::Groups(groups) => {
                let groups = groups.iter().map(|labels| form::Group { labels: labels.clone() });
                Kind::Groups(form::Groups { groups: groups.collect() })
            }
            &PoolKind::Range { first, last } => Kind::Range(form::Range { first, last }),
            PoolKind::Sum(amount) => Kind::Sum(amount.0),
        };
        form::ResourcePool { name: self.name.clone(), kind: Some(kind) }
    }

    fn from_wire(pool: form::ResourcePool) -> Result<ResourcePool, ProtoError> {
        let kind = match present("kind of a pool", pool.kind)? {
            Kind::Groups(groups) => {
                let groups: Vec<Vec<String>> = groups.groups.into_iter().map(|group| group.labels).collect();
                let indices: u64 = groups.iter().map(|labels| labels.len() as u64).sum();
                in_range("indices of a pool", indices, 1, INDICES_MAX)?;
                PoolKind::Groups(groups)
            }
            Kind::Range(form::Range { first, last }) => {
                rule("range of a pool", first <= last, "must not end before it begins")?;
                in_range("indices of a pool", u64::from(last - first) + 1, 1, INDICES_MAX)?;
                PoolKind::Range { first, last }
            }
            Kind::Sum(units) => PoolKind::Sum(Amount(in_range("sum of a pool", units, 0, Amount::MAX.0)?)),
        };
        let pool = ResourcePool { name: resource_name(pool.name)?, kind };
        model("pool of a worker", pool.check())?;
        Ok(pool)
    }
}

impl Wire for Coupling {
    type Form = form::Coupling;

    fn to_wire(&self) -> form::Coupling {
        form::Coupling {
            left_pool: self.left.0.clone(),
            left_group: self.left.1,
            right_pool: self.right.0.clone(),
            right_group: self.right.1,
            weight: u32::from(self.weight),
        }
    }

    fn from_wire(coupling: form::Coupling) -> Result<Coupling, ProtoError> {
        Ok(Coupling {
            left: (coupling.left_pool, coupling.left_group),
            right: (coupling.right_pool, coupling.right_group),
            weight: short("weight of a coupling", coupling.weight)?,
        })
    }
}
