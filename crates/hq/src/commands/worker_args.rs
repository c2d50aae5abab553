//! Options of workers as a queue keeps them: one `--option=value` each, so that a later one takes the place of an
//! earlier one.

use hq_model::allocation::QueueParams;
use hq_model::request::MEM;
use hq_model::{PoolKind, ResourcePool, WorkerResources};

use crate::cli::worker::{Detect, OnServerLostArg, SAMPLE_INTERVAL, SharedArgs};
use crate::error::HqError;

/// Adds the options that differ from their defaults to those of a queue.
///
/// # Errors
/// When the resources are no definition of a worker.
pub(super) fn put(
    params: &mut QueueParams,
    shared: &SharedArgs,
    on_server_lost: Option<OnServerLostArg>,
) -> Result<(), HqError> {
    for pool in shared.cpus.iter().chain(&shared.resources) {
        params.resources.retain(|old| old.name != pool.name);
        params.resources.push(pool.clone());
    }
    let sorted = WorkerResources::new(std::mem::take(&mut params.resources), Vec::new());
    params.resources = sorted.map_err(|error| HqError::usage(error.to_string()))?.pools;
    if let Some(pool) = &shared.cpus {
        set(params, "--cpus=", &pool.kind.to_string());
    }
    for pool in &shared.resources {
        set(params, &format!("--resource={}=", pool.name), &definition(pool));
    }
    match &shared.detect_resources {
        Detect::All => {}
        Detect::None => set(params, "--detect-resources=", "none"),
        Detect::Some(kinds) => set(params, "--detect-resources=", &kinds.join(",")),
    }
    if shared.no_detect_resources {
        set(params, "--detect-resources=", "none");
    }
    params.resources_are_all = params.worker_args.iter().any(|arg| arg == b"--detect-resources=none")
        && params.resources.iter().any(|pool| pool.name == hq_model::request::CPUS);
    if let Some(couplings) = &shared.coupling {
        let list: Vec<String> = couplings.0.iter().map(ToString::to_string).collect();
        let list = if list.is_empty() { "none".to_owned() } else { list.join(",") };
        set(params, "--coupling=", &list);
    }
    if let Some(group) = &shared.group {
        set(params, "--group=", group);
    }
    if shared.no_hyper_threading {
        set(params, "--no-hyper-threading", "");
    }
    if let Some(timeout) = shared.idle_timeout {
        set(params, "--idle-timeout=", &hq_model::duration::format(timeout));
        params.idle_timeout = Some(timeout);
    }
    if shared.sample_interval != SAMPLE_INTERVAL {
        set(params, "--sample-interval=", &hq_model::duration::format(shared.sample_interval));
    }
    if !shared.overview_interval.is_zero() {
        set(params, "--overview-interval=", &hq_model::duration::format(shared.overview_interval));
    }
    if shared.min_utilization > 0 {
        set(params, "--min-utilization=", &(f64::from(shared.min_utilization) / 10_000.0).to_string());
        params.min_utilization = shared.min_utilization;
    }
    if let Some(spill) = &shared.object_spill {
        let size = spill.bytes.map_or(String::new(), |bytes| format!(":{}MiB", bytes >> 20));
        set(params, "--object-spill=", &format!("{}{size}", spill.dir.display()));
    }
    if shared.enforce.is_on() {
        set(params, "--enforce=", &shared.enforce.to_string());
    }
    if let Some(what) = on_server_lost {
        let word = match what {
            OnServerLostArg::Reconnect => "reconnect",
            OnServerLostArg::FinishRunning => "finish-running",
            OnServerLostArg::Stop => "stop",
        };
        set(params, "--on-server-lost=", word);
    }
    Ok(())
}

/// Takes all options of workers away.
pub(super) fn unset(params: &mut QueueParams) {
    params.worker_args.clear();
    params.resources.clear();
    params.resources_are_all = false;
    params.idle_timeout = None;
    params.min_utilization = 0;
}

fn set(params: &mut QueueParams, option: &str, value: &str) {
    params.worker_args.retain(|arg| !arg.starts_with(option.as_bytes()));
    params.worker_args.push(format!("{option}{value}").into_bytes());
}

// Memory with its unit: a number alone may mean bytes.
pub(super) fn definition(pool: &ResourcePool) -> String {
    match &pool.kind {
        PoolKind::Sum(amount) if pool.name == MEM => format!("sum({amount} MiB)"),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hq_model::resources::parse_pool;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Given {
        #[command(flatten)]
        args: SharedArgs,
    }

    fn args(params: &QueueParams) -> Vec<String> {
        params.worker_args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
    }

    #[test]
    fn options_are_kept_as_a_worker_takes_them() {
        let given =
            ["--cpus=2x2", "--resource", "mem=sum(64GiB)", "--idle-timeout", "3m", "--min-utilization=0.5"];
        let given = given.into_iter().chain(["--object-spill", "/scratch/a b:2GiB"]);
        let given = Given::try_parse_from(given).expect("options").args;
        let mut params = QueueParams::default();
        put(&mut params, &given, Some(OnServerLostArg::Stop)).expect("resources");
        insta::assert_snapshot!(args(&params).join("\n"), @r"
        --cpus=[[0,1],[2,3]]
        --resource=mem=sum(65536 MiB)
        --idle-timeout=3m
        --min-utilization=0.5
        --object-spill=/scratch/a b:2048MiB
        --on-server-lost=stop
        ");
        let again = Given::try_parse_from(args(&params).iter().take(5)).expect("they are options again").args;
        assert_eq!((again.cpus, again.resources), (given.cpus, given.resources));
        assert_eq!(again.object_spill, given.object_spill);
        let mem = parse_pool("mem", "sum(1GiB)").expect("a pool");
        let later = SharedArgs { cpus: None, resources: vec![mem], idle_timeout: None, ..given };
        put(&mut params, &later, None).expect("resources");
        assert_eq!(args(&params).iter().filter(|arg| arg.starts_with("--resource")).count(), 1);
        assert_eq!(params.resources.len(), 2);
        unset(&mut params);
        assert_eq!(params, QueueParams::default());
    }
}
