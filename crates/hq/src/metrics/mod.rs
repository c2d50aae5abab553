//! How a cluster is, as metrics: which there are, what each means, and its values. How they are written is in `format`, who
//! gets them in `listen` and `file`.

pub(crate) mod format;
pub(crate) mod listen;

#[cfg(test)]
mod tests;

use hq_client::Session;
use hq_core::alloc::messages::{AllocRequest, AllocResponse, QueueInfo, QueueStatus};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary, Overview};
use hq_core::overview::NodesLoad;
use hq_model::allocation::AllocationState;
use hq_model::amount::UNITS;
use hq_model::{JobState, Timestamp};

use crate::commands::unexpected;
use crate::error::HqError;

/// Characters of a name that a label has.
const LABEL_CHARS_MAX: usize = 120;

/// What is asked of a server for one set of metrics.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Everything in counts.
    pub overview: Overview,
    /// Queues.
    pub queues: Vec<QueueInfo>,
    /// The latest jobs that have not ended.
    pub jobs: Vec<JobSummary>,
}

impl Seen {
    /// Asks for the present, with so many jobs.
    pub(crate) fn ask(session: &mut Session, jobs: u32) -> Result<Seen, HqError> {
        let ClientResponse::Overview(overview) = session.request(ClientRequest::Overview { seen: None })?
        else {
            return unexpected();
        };
        let ClientResponse::Alloc(AllocResponse::Queues(queues)) =
            session.request(ClientRequest::Alloc(AllocRequest::List))?
        else {
            return unexpected();
        };
        let states = vec![JobState::Running, JobState::Waiting, JobState::Opened];
        let latest = ClientRequest::LatestJobs { states, text: String::new(), before: None, limit: jobs };
        let ClientResponse::JobList(jobs) = session.request(latest)? else { return unexpected() };
        Ok(Seen { overview: *overview, queues, jobs })
    }
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A sum that only grows, from this time on if it begins anew with the server.
    Counter(Option<Timestamp>),
    /// Words, with the value 1.
    Info,
}

/// A metric with all its samples.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without the ending of its kind.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The unit, with which the name ends.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// A value, with the labels that tell it from others.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// Whole numbers are shown as such.
    pub value: f64,
}

impl Family {
    fn new(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Family {
        Family { name, kind, unit, help, samples: Vec::new() }
    }

    fn gauge(name: &'static str, help: &'static str) -> Family {
        Family::new(name, Kind::Gauge, "", help)
    }

    fn value(self, value: impl Into<Value>) -> Family {
        self.of([], value)
    }

    fn of<const N: usize>(mut self, labels: [(&'static str, &str); N], value: impl Into<Value>) -> Family {
        self.push(labels, value);
        self
    }

    fn push<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: impl Into<Value>) {
        let labels = labels.into_iter().map(|(name, value)| (name, short(value))).collect();
        self.samples.push(Sample { labels, value: value.into().0 });
    }
}

/// A number of a sample.
struct Value(f64);

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value(value as f64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value(f64::from(u8::from(value)))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value(value)
    }
}

/// All metrics. Without a server only that it is not there.
pub(crate) fn families(seen: Option<&Seen>) -> Vec<Family> {
    let up = Family::gauge("hq_up", "1 when the server answers, 0 when not").value(seen.is_some());
    let mut all = vec![up];
    let Some(Seen { overview, queues, jobs }) = seen else { return all };
    all.extend(of_server(overview));
    all.extend(of_tasks(overview));
    all.extend(of_workers(overview));
    all.extend(of_nodes(&overview.nodes));
    all.extend(of_queues(queues));
    all.extend(of_jobs(overview, jobs));
    all
}

fn of_server(overview: &Overview) -> Vec<Family> {
    let since = Kind::Counter(Some(overview.started));
    let process = &overview.process;
    vec![
        Family::new("hq_server", Kind::Info, "", "The server that answers")
            .of([("uid", &overview.uid), ("version", &overview.version)], 1_u64),
        Family::new(
            "hq_server_start_time_seconds",
            Kind::Gauge,
            "seconds",
            "When this server started, since 1970",
        )
        .value(seconds(overview.started)),
        Family::new("hq_server_starts", Kind::Counter(None), "", "Number of server starts with this journal")
            .value(u64::from(overview.epoch.0)),
        Family::new("hq_server_memory_bytes", Kind::Gauge, "bytes", "Memory of the server that is in use")
            .value(process.memory_bytes),
        Family::new("hq_journal_records", since, "", "Records that this server wrote to its journal")
            .value(process.journal_records),
        Family::gauge("hq_journal_pending", "Records of the journal that are not on disk yet")
            .value(process.journal_pending),
        Family::gauge(
            "hq_journal_failing",
            "1 while the journal cannot be written and nothing can be changed",
        )
        .value(process.journal_fails),
        Family::new(
            "hq_relayed_transfers",
            since,
            "",
            "Objects whose transfer through the server has started",
        )
        .value(process.relayed.transfers),
        Family::new("hq_relayed_bytes", since, "bytes", "Bytes of objects transferred through the server")
            .value(process.relayed.bytes),
    ]
}

fn of_tasks(overview: &Overview) -> Vec<Family> {
    let Overview { tasks, ended, .. } = overview;
    let since = Kind::Counter(Some(overview.started));
    let mut known = Family::gauge("hq_tasks", "Tasks of the jobs that the server knows, by state");
    for (state, count) in states(tasks) {
        known.push([("state", state)], count);
    }
    vec![
        known,
        Family::gauge("hq_tasks_ready", "Waiting tasks that only wait for free resources")
            .value(overview.ready),
        Family::new(
            "hq_tasks_ended",
            since,
            "",
            "Tasks that have ended since the server started, by outcome",
        )
        .of([("outcome", "finished")], ended.finished)
        .of([("outcome", "failed")], ended.failed)
        .of([("outcome", "canceled")], ended.canceled)
        .of([("outcome", "aborted")], ended.aborted),
        Family::new(
            "hq_tasks_restarted",
            since,
            "",
            "Attempts restarted since the server started: after a crash, a lost worker, or as a retry",
        )
        .value(ended.restarted),
    ]
}

fn of_workers(overview: &Overview) -> Vec<Family> {
    let workers = &overview.workers;
    let mut offered = Family::gauge(
        "hq_resource_offered",
        "How much of a resource connected workers offer, in units of requests",
    );
    let mut taken = Family::gauge("hq_resource_taken", "How much of it is used by tasks");
    for resource in &overview.resources {
        let labels = [("resource", resource.name.as_str())];
        offered.push(labels, resource.offered.0 as f64 / UNITS as f64);
        taken.push(labels, resource.taken.0 as f64 / UNITS as f64);
    }
    vec![
        Family::gauge(
            "hq_workers",
            "Workers: those that accept tasks, those that do not because they are stopping or cannot start any, \
             those whose connection is lost",
        )
        .of([("state", "active")], workers.active)
        .of([("state", "closed")], workers.closed)
        .of([("state", "away")], workers.away),
        Family::gauge("hq_workers_idle", "Active workers without running tasks").value(workers.idle),
        offered,
        taken,
    ]
}

// Where no worker tells, nothing is known, and zeros would say that all is idle.
fn of_nodes(nodes: &NodesLoad) -> Vec<Family> {
    if nodes.nodes == 0 {
        return Vec::new();
    }
    let parts = |number: u64| number as f64 / 1000.0;
    let bytes = |name, help| Family::new(name, Kind::Gauge, "bytes", help);
    let NodesLoad { load, tasks, .. } = nodes;
    vec![
        Family::gauge("hq_nodes_sampled", "Nodes whose workers report samples").value(nodes.nodes),
        Family::gauge("hq_node_cpus_busy", "CPUs of these nodes that are busy, regardless of who uses them")
            .value(parts(load.cpus.into())),
        Family::gauge("hq_node_cpus", "CPUs of these nodes").value(parts(nodes.cpus_total)),
        bytes("hq_node_memory_used_bytes", "Memory of these nodes that is in use, regardless of who uses it")
            .value(u64::from(load.memory_mib) << 20),
        bytes("hq_node_memory_bytes", "Memory of these nodes").value(nodes.memory_total_mib << 20),
        Family::gauge("hq_node_gpus_busy", "GPUs of these nodes that are busy, regardless of who uses them")
            .value(parts(load.gpus.into())),
        Family::gauge("hq_node_gpus", "GPUs that these nodes report").value(parts(nodes.gpus_total)),
        bytes("hq_node_network_bytes", "Network traffic of these nodes per second")
            .value(u64::from(load.network_kib) << 10),
        bytes("hq_node_disk_bytes", "Disk traffic of these nodes per second")
            .value(u64::from(load.disk_kib) << 10),
        Family::gauge("hq_tasks_cpus_busy", "CPUs that running tasks keep busy")
            .value(parts(tasks.load.cpus)),
        bytes("hq_tasks_memory_bytes", "Resident memory of running tasks").value(tasks.load.memory_bytes),
    ]
}

fn of_queues(queues: &[QueueInfo]) -> Vec<Family> {
    let mut info = Family::new("hq_queue", Kind::Info, "", "Queues that request workers from a batch system");
    let mut active = Family::gauge(
        "hq_queue_active",
        "1 when a queue requests allocations, 0 when it is paused or draining",
    );
    let mut allocations = Family::gauge("hq_allocations", "All allocations of a queue so far, by state");
    let mut time = Family::new(
        "hq_queue_node_seconds",
        Kind::Counter(None),
        "seconds",
        "Node time of a queue: with tasks (used), without (idle), held without a worker (lost)",
    );
    for queue in queues {
        let id = queue.queue.0.to_string();
        let name = queue.params.name.as_deref().unwrap_or_default();
        info.push([("queue", &id), ("name", name), ("manager", &queue.params.manager)], 1_u64);
        active.push([("queue", &id)], queue.status == QueueStatus::Active);
        for (state, count) in AllocationState::ALL.into_iter().zip(queue.counts) {
            allocations.push([("queue", &id), ("state", &state.to_string())], count);
        }
        for (kind, time_us) in
            [("used", queue.time.used_us), ("idle", queue.time.idle_us), ("lost", queue.time.lost_us)]
        {
            time.push([("queue", &id), ("kind", kind)], time_us as f64 / 1e6);
        }
    }
    vec![info, active, allocations, time]
}

fn of_jobs(overview: &Overview, jobs: &[JobSummary]) -> Vec<Family> {
    let mut known = Family::gauge("hq_jobs", "Jobs that the server knows, by state");
    for (state, count) in &overview.jobs {
        known.push([("state", state.word())], *count);
    }
    let mut tasks = Family::gauge("hq_job_tasks", "Tasks of the latest jobs that have not ended, by state");
    for job in jobs {
        let id = job.job.0.to_string();
        for (state, count) in states(&job.counters) {
            tasks.push([("job", &id), ("name", &job.name), ("state", state)], count);
        }
    }
    let unended = overview.jobs.iter().filter(|(state, _)| !state.is_terminal());
    let unended: u64 = unended.map(|(_, count)| count).sum();
    vec![
        known,
        tasks,
        Family::gauge(
            "hq_jobs_left_out",
            "Jobs that have not ended and are not in hq_job_tasks (see --jobs)",
        )
        .value(unended.saturating_sub(jobs.len() as u64)),
    ]
}

fn states(tasks: &hq_model::job::Counters) -> [(&'static str, u64); 6] {
    [
        ("waiting", tasks.waiting),
        ("running", tasks.running),
        ("finished", tasks.finished),
        ("failed", tasks.failed),
        ("canceled", tasks.canceled),
        ("aborted", tasks.aborted),
    ]
}

fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1e6
}

fn short(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(LABEL_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{short}…") } else { short }
}
