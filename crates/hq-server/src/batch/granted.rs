//! Whether what the batch system makes of a queue's arguments is what the queue counts on. What the user wrote for the batch
//! system wins there, so contradictions are refused, with both values.

use std::time::Duration;

use hq_batch::{Granted, NodeShape};
use hq_model::allocation::QueueParams;
use hq_model::{counted, duration, memory};

/// Batch systems count wall times in minutes.
const TIME_STEP: Duration = Duration::from_secs(60);

/// What contradicts itself in a queue, of which a trial allocation was granted this.
///
/// # Errors
/// Says what, with both values and what to do.
pub(crate) fn check(
    params: &QueueParams,
    granted: &Granted,
    largest: Option<&NodeShape>,
) -> Result<(), String> {
    if granted.is_array {
        return Err(
            "The arguments after `--` create an array of batch jobs; omit that: the queue requests as many \
            allocations as needed"
                .into(),
        );
    }
    let workers = params.workers_per_allocation();
    if let Some(nodes) = granted.nodes.filter(|nodes| *nodes != workers) {
        return Err(format!(
            "The arguments after `--` request {}, but the queue {}; omit the number from the arguments, or use \
             --max-workers-per-alloc {nodes}",
            counted(nodes, "node"),
            counted(workers, "worker"),
        ));
    }
    if let Some(limit) = granted.time_limit
        && (limit < params.time_limit || limit >= params.time_limit + TIME_STEP)
    {
        return Err(format!(
            "The batch system gives an allocation {}, but --time-limit is {}; omit the time from the arguments \
             after `--`, or use the same in --time-limit",
            duration::format(limit),
            duration::format(params.time_limit),
        ));
    }
    if granted.is_whole {
        check_whole(params, largest)?;
    } else {
        check_offered(params, granted)?;
    }
    largest.map_or(Ok(()), |largest| check_exists(granted, largest))
}

// How many of something a worker offers, as the user says.
fn offered(params: &QueueParams, is_meant: &dyn Fn(&str) -> bool) -> u32 {
    let pools = params.resources.iter().filter(|pool| is_meant(&pool.name));
    let whole = pools.map(|pool| pool.kind.total().0.div_ceil(hq_model::amount::UNITS));
    u32::try_from(whole.sum::<u64>()).unwrap_or(u32::MAX)
}

// What it offers of a node that is its alone, against what nodes there have.
fn check_whole(params: &QueueParams, largest: Option<&NodeShape>) -> Result<(), String> {
    let cpus = offered(params, &|name| name == "cpus");
    match largest.filter(|largest| largest.cpus > 0 && largest.cpus < cpus) {
        Some(largest) => Err(format!(
            "Workers of the queue are said to offer {}, and no node there has more than {}; give --cpus {} at most, or leave it \
             out: each worker then finds what its node has",
            counted(cpus, "CPU"),
            largest.cpus,
            largest.cpus,
        )),
        None => Ok(()),
    }
}

// What the user says that a worker offers, against what it gets.
fn check_offered(params: &QueueParams, granted: &Granted) -> Result<(), String> {
    let cpus = offered(params, &|name| name == "cpus");
    if let Some(has) = granted.cpus.filter(|has| *has < cpus) {
        return Err(format!(
            "Workers of the queue are said to offer {}, and the batch system gives them {has}; ask for as many after `--`, or \
             for whole nodes (--exclusive, or -l place=excl)",
            counted(cpus, "CPU"),
        ));
    }
    let gpus = offered(params, &|name| name == "gpus" || name.starts_with("gpus/"));
    let has = granted.gpus.iter().map(|(_, count)| count).sum::<u32>();
    if has > 0 && has < gpus {
        return Err(format!(
            "Workers of the queue are said to offer {}, and the arguments after `--` ask for {has} a node; say the same in both",
            counted(gpus, "GPU"),
        ));
    }
    Ok(())
}

// What no node has is accepted by some, and waits for ever. CPUs come first: memory often goes with them.
fn check_exists(granted: &Granted, largest: &NodeShape) -> Result<(), String> {
    let shown = |bytes: u64| memory::format(hq_model::Amount::whole(bytes >> 20));
    let sum = |gpus: &[(String, u32)]| gpus.iter().map(|(_, count)| count).sum::<u32>();
    let mut never = Vec::new();
    if let Some(asked) = granted.cpus.filter(|asked| *asked > largest.cpus) {
        never.push((counted(asked, "CPU"), largest.cpus.to_string()));
    }
    let (asked, most) = (sum(&granted.gpus), sum(&largest.gpus));
    if asked > most {
        never.push((counted(asked, "GPU"), most.to_string()));
    }
    if let (Some(asked), Some(most)) = (granted.memory_bytes, largest.memory_bytes)
        && asked > most
    {
        never.push((format!("{} of memory", shown(asked)), shown(most)));
    }
    if never.is_empty() {
        return Ok(());
    }
    let never = never.iter().map(|(asked, most)| {
        format!("{asked} are asked for on each node, and no node there has more than {most}")
    });
    Err(format!("{}: that would wait forever", never.collect::<Vec<_>>().join("; ")))
}

#[cfg(test)]
mod tests {
    use hq_model::resources::parse_pool;

    use super::*;

    fn granted() -> Granted {
        Granted {
            nodes: Some(1),
            time_limit: Some(Duration::from_secs(300)),
            cpus: Some(1),
            ..Granted::default()
        }
    }

    fn params() -> QueueParams {
        QueueParams {
            max_workers_per_alloc: 1,
            time_limit: Duration::from_secs(300),
            ..QueueParams::default()
        }
    }

    fn with(pools: &[(&str, &str)]) -> QueueParams {
        let pools = pools.iter().map(|(name, kind)| parse_pool(name, kind).expect("a pool"));
        QueueParams { resources: pools.collect(), ..params() }
    }

    #[test]
    fn contradictions_are_named_with_both_values() {
        let gpus = |count| vec![(String::new(), count)];
        let two = QueueParams { max_workers_per_alloc: 2, ..params() };
        let limited = |seconds| Granted { time_limit: Some(Duration::from_secs(seconds)), ..granted() };
        for (params, granted, words) in [
            (params(), granted(), &[][..]),
            (params(), limited(359), &[]),
            (params(), Granted { nodes: Some(2), ..granted() }, &["2 nodes", "1 worker"]),
            (two, granted(), &["1 node,", "2 workers"]),
            (params(), limited(60), &["1m", "5m"]),
            (params(), limited(3600), &["1h", "5m"]),
            (params(), Granted { is_array: true, ..granted() }, &["array"]),
            (with(&[("cpus", "4")]), granted(), &["4 CPUs", "gives them 1"]),
            (with(&[("cpus", "4")]), Granted { is_whole: true, ..granted() }, &[]),
            (
                with(&[("cpus", "8")]),
                Granted { is_whole: true, ..granted() },
                &["offer 8 CPUs", "no node there has more than 4", "--cpus 4"],
            ),
            (
                with(&[("gpus/nvidia", "range(0-1)")]),
                Granted { gpus: gpus(1), ..granted() },
                &["2 GPUs", "ask for 1"],
            ),
            (with(&[("gpus/nvidia", "range(0-1)")]), granted(), &[]),
            (params(), Granted { memory_bytes: Some(100 << 30), ..granted() }, &["100", "4"]),
            (params(), Granted { gpus: gpus(3), ..granted() }, &["3 GPUs", "more than 2"]),
            // Memory that goes with the CPUs is not what was asked for.
            (
                params(),
                Granted { cpus: Some(9), memory_bytes: Some(9 << 30), ..granted() },
                &["9 CPUs are asked for on each node, and no node there has more than 4; 9 GiB"],
            ),
        ] {
            let largest =
                NodeShape { cpus: 4, memory_bytes: Some(4 << 30), gpus: gpus(2), ..NodeShape::default() };
            let said = check(&params, &granted, Some(&largest));
            assert_eq!(said.is_err(), !words.is_empty(), "{said:?}");
            let text = said.err().unwrap_or_default();
            assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
        }
    }
}
