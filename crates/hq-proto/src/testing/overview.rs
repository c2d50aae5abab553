//! Generators of everything in counts, and of questions for what is new.

use hq_core::client_messages::{ClientRequest, EventFilter, EventKind, Overview, Relayed};
use hq_core::overview::{Ended, ResourceUse, ServerProcess, WorkerCounts};
use hq_model::Epoch;

use super::*;

/// Any question for what is new.
pub(super) fn request() -> impl Strategy<Value = ClientRequest> {
    use ClientRequest::{AwaitEnds, Events, LatestJobs, Load, Overview, WatchJobs};
    let filter = (of(id_set()), vec(select(EventKind::ALL.to_vec()), 0..3))
        .prop_map(|(jobs, kinds)| EventFilter { jobs, kinds });
    prop_oneof![
        (any::<bool>(), any::<u64>(), filter).prop_map(|(follow, after, filter)| Events {
            follow,
            after,
            filter
        }),
        of(any::<u64>()).prop_map(|seen| Overview { seen }),
        (of(worker()), duration()).prop_map(|(worker, time)| Load { worker, time }),
        (selector(), any::<bool>(), any::<bool>())
            .prop_map(|(jobs, until_closed, notifications)| WatchJobs { jobs, until_closed, notifications }),
        (job(), id_set()).prop_map(|(job, known)| AwaitEnds { job, known }),
        (job_states(), text(), of(job()), any::<u32>())
            .prop_map(|(states, text, before, limit)| LatestJobs { states, text, before, limit }),
    ]
}

fn resource() -> impl Strategy<Value = ResourceUse> {
    (text(), any::<u64>(), any::<u64>()).prop_map(|(name, offered, taken)| ResourceUse {
        name,
        offered: Amount(offered),
        taken: Amount(taken),
    })
}

fn process() -> impl Strategy<Value = ServerProcess> {
    any::<(u64, u64, u64, bool, (u64, u64))>().prop_map(
        |(memory_bytes, journal_records, journal_pending, journal_fails, (transfers, bytes))| ServerProcess {
            memory_bytes,
            journal_records,
            journal_pending,
            journal_fails,
            relayed: Relayed { transfers, bytes },
        },
    )
}

fn ended() -> impl Strategy<Value = Ended> {
    any::<[u64; 5]>().prop_map(|[finished, failed, canceled, aborted, restarted]| Ended {
        finished,
        failed,
        canceled,
        aborted,
        restarted,
    })
}

fn workers() -> impl Strategy<Value = WorkerCounts> {
    any::<[u64; 4]>().prop_map(|[active, closed, away, idle]| WorkerCounts { active, closed, away, idle })
}

/// Any counts.
pub(super) fn overview() -> impl Strategy<Value = Overview> {
    let jobs = vec((select(JobState::ALL.to_vec()), any::<u64>()), 0..8);
    let server = (any::<u64>(), timestamp(), timestamp(), any::<u32>(), text(), text());
    let counts = (jobs, counters(), any::<u64>(), ended(), workers());
    let resources = (vec(resource(), 0..4), load::nodes_load());
    (server, counts, resources, process()).prop_map(|(server, counts, (resources, nodes), process)| {
        let (change, now, started, epoch, uid, version) = server;
        let (jobs, tasks, ready, ended, workers) = counts;
        Overview {
            change,
            now,
            started,
            epoch: Epoch(epoch),
            uid,
            version,
            jobs,
            tasks,
            ready,
            ended,
            workers,
            resources,
            nodes,
            process,
        }
    })
}
