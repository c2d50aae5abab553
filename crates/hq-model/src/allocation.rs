//! Queues of allocations: what the server asks a batch system for on the user's behalf, and the words for
//! how that goes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::task::WordError;
use crate::{ByteString, QueueId, ResourcePool, duration};

/// The longest name of a queue, in bytes.
pub const QUEUE_NAME_MAX: usize = 100;

/// One allocation: its queue, and its number there from 1. `2.17` in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationRef {
    /// The queue.
    pub queue: QueueId,
    /// The number within it.
    pub number: u32,
}

impl AllocationRef {
    /// Allocation `number` of `queue`.
    pub fn new(queue: QueueId, number: u32) -> Self {
        AllocationRef { queue, number }
    }
}

impl fmt::Display for AllocationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.queue, self.number)
    }
}

impl FromStr for AllocationRef {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('.');
        let parsed = parts.and_then(|(queue, number)| Some((queue.parse().ok()?, number.parse().ok()?)));
        match parsed {
            Some((queue, number)) => Ok(AllocationRef { queue: QueueId(queue), number }),
            None => Err(WordError::new(text, "an allocation: use QUEUE.NUMBER, for example 1.3")),
        }
    }
}

/// What a queue asks its batch system for, again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueParams {
    /// The user's name for it; part of the names of batch jobs.
    pub name: Option<String>,
    /// The batch system: `slurm`, `pbs`, or the name of a described one.
    pub manager: String,
    /// Allocations that may wait in the batch system at once; at least 1.
    pub backlog: u32,
    /// Nodes of one allocation at most, each with one worker; at least 1.
    pub max_workers_per_alloc: u32,
    /// Workers of this queue at most, waiting ones included.
    pub max_worker_count: Option<u32>,
    /// Wall time of one allocation.
    pub time_limit: Duration,
    /// Passed to the batch system as they are.
    pub manager_args: Vec<ByteString>,
    /// Options of the worker that the user gave, as they are.
    pub worker_args: Vec<ByteString>,
    /// What the user says a worker offers. `cpus` first, names unique.
    pub resources: Vec<ResourcePool>,
    /// The user says that a worker offers that and nothing else.
    pub resources_are_all: bool,
    /// Fraction of a worker's CPUs that must be used before anything starts there, in 1/10000.
    pub min_utilization: u32,
    /// The worker ends after this time; at most `time_limit`.
    pub worker_time_limit: Option<Duration>,
    /// A worker without a task for this long ends.
    pub idle_timeout: Option<Duration>,
    /// A shell command that runs before the worker, on each node.
    pub start_command: Option<String>,
    /// A shell command that runs after it.
    pub stop_command: Option<String>,
    /// What the worker's command is passed to.
    pub wrap_command: Option<String>,
    /// The next allocation is queued while one runs, to start when that ends.
    pub chain: bool,
    /// Allocations that wait are kept when nothing is left for them to do.
    pub keep_waiting: bool,
    /// Workers with GPUs are asked for also for tasks that need none.
    pub for_any_task: bool,
    /// What matters where more workers end the work sooner, and cost more node time.
    pub goal: Goal,
    /// Node time that its allocations may take at most, all together.
    pub budget: Option<Duration>,
}

/// Reads a number of node hours.
///
/// # Errors
/// When it is none, not more than nothing, or more than a budget may have.
pub fn parse_node_hours(text: &str) -> Result<Duration, WordError> {
    let bad = || WordError::new(text, "a number of node hours: use a number above 0, such as 500 or 0.5");
    let hours = text.trim().parse::<f64>().map_err(|_| bad())?;
    if hours.is_nan() || hours <= 0.0 {
        return Err(bad());
    }
    if hours > NODE_HOURS_MAX {
        return Err(WordError::new(
            text,
            "a budget: the maximum is 5000000 node hours; without a budget, there is no limit",
        ));
    }
    Ok(Duration::from_millis((hours * 3.6e6).round().max(1.0) as u64))
}

/// Node time in hours, as near as can be to the number that was written.
pub fn in_hours(time: Duration) -> f64 {
    time.as_nanos() as f64 / 3.6e12
}

/// Prints node time in hours with their name: `1 node hour`, `2.5 node hours`.
pub fn node_hours_told(time: Duration) -> String {
    let hours = node_hours(time);
    format!("{hours} node hour{}", if hours == "1" { "" } else { "s" })
}

/// Prints node time in hours, without digits that say nothing.
pub fn node_hours(time: Duration) -> String {
    let hours = time.as_secs_f64() / 3600.0;
    let text = if hours < 0.01 { format!("{hours:.6}") } else { format!("{hours:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Most node hours that a budget may have: in nanoseconds they fit into 64 bits.
const NODE_HOURS_MAX: f64 = 5e6;

/// What matters where more workers end the work sooner, and cost more node time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Goal {
    /// That the work ends soon: a worker may cost more than it does, within bounds.
    #[default]
    Makespan,
    /// That few node hours are spent.
    NodeHours,
}

impl Goal {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Goal::Makespan => "makespan",
            Goal::NodeHours => "nodehours",
        }
    }
}

impl FromStr for Goal {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "makespan" => Ok(Goal::Makespan),
            "nodehours" => Ok(Goal::NodeHours),
            _ => Err(WordError::new(text, "a goal: use makespan or nodehours")),
        }
    }
}

/// What is wrong with the parameters of a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Nothing could ever be queued.
    #[error("Backlog has to be at least 1")]
    Backlog,
    /// An allocation without nodes.
    #[error("An allocation has at least 1 worker")]
    Workers,
    /// No worker could ever run.
    #[error("The maximum number of workers must be at least 1")]
    WorkerCount,
    /// No time.
    #[error("The time limit of a queue must be at least 1 second")]
    Time,
    /// The worker would be killed by the batch system.
    #[error(
        "Worker time limit cannot be larger than queue time limit: {} are more than {}; give a shorter --worker-time-limit or a \
         longer --time-limit",
        duration::format(*worker), duration::format(*queue)
    )]
    WorkerTime {
        /// Of a worker.
        worker: Duration,
        /// Of an allocation.
        queue: Duration,
    },
    /// Nothing could ever be asked for.
    #[error(
        "A budget of {} is too small: one node for the time limit of {} takes {}; give a larger budget or a \
         shorter time limit",
        node_hours_told(*budget), duration::format(*time), node_hours(*time)
    )]
    Budget {
        /// What all allocations may take.
        budget: Duration,
        /// What a node of one takes.
        time: Duration,
    },
    /// The name cannot be part of a file name and of a batch job's name.
    #[error(
        "`{0}` is not a valid queue name: use up to {QUEUE_NAME_MAX} letters, digits, `-`, `_` and `.`, not \
         starting with `.` or `-`"
    )]
    Name(String),
    /// The manager's name cannot be one.
    #[error("`{0}` is not a known batch system: use slurm, pbs or the name of a file that describes one")]
    Manager(String),
    /// Bytes that no program can be given.
    #[error("An argument cannot contain a zero byte")]
    ZeroByte,
}

impl QueueParams {
    /// The name of an allocation's job in the batch system.
    pub fn job_name(&self, allocation: AllocationRef) -> String {
        let AllocationRef { queue, number } = allocation;
        match &self.name {
            Some(name) => format!("{name}-{number}"),
            None => format!("hq-{queue}-{number}"),
        }
    }

    /// Checks what can be checked without the batch system.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), ParamsError> {
        if self.backlog == 0 {
            return Err(ParamsError::Backlog);
        }
        if self.max_workers_per_alloc == 0 {
            return Err(ParamsError::Workers);
        }
        if self.max_worker_count == Some(0) {
            return Err(ParamsError::WorkerCount);
        }
        if self.time_limit < Duration::from_secs(1) {
            return Err(ParamsError::Time);
        }
        let queue = self.time_limit;
        if let Some(worker) = self.worker_time_limit.filter(|worker| *worker > queue) {
            return Err(ParamsError::WorkerTime { worker, queue });
        }
        if let Some(name) = self.name.as_ref().filter(|name| !is_plain(name)) {
            return Err(ParamsError::Name(name.clone()));
        }
        if !is_plain(&self.manager) {
            return Err(ParamsError::Manager(self.manager.clone()));
        }
        let commands = [&self.start_command, &self.stop_command, &self.wrap_command];
        let in_commands = commands.into_iter().flatten().any(|command| command.contains('\0'));
        if in_commands || self.manager_args.iter().chain(&self.worker_args).any(|arg| arg.contains(&0)) {
            return Err(ParamsError::ZeroByte);
        }
        Ok(())
    }

    /// Checks that a budget lets ask for something. Queues that were made before anybody checked it stay as they are.
    ///
    /// # Errors
    /// When it is too small for one node.
    pub fn check_budget(&self) -> Result<(), ParamsError> {
        let time = self.time_limit;
        match self.budget.filter(|budget| *budget < time) {
            Some(budget) => Err(ParamsError::Budget { budget, time }),
            None => Ok(()),
        }
    }

    /// The time limit of a worker of this queue: tasks may ask for that much.
    pub fn worker_life(&self) -> Duration {
        self.worker_time_limit.unwrap_or(self.time_limit)
    }

    /// Workers of one allocation at most, the limit on all workers included.
    pub fn workers_per_allocation(&self) -> u32 {
        self.max_worker_count.map_or(self.max_workers_per_alloc, |all| all.min(self.max_workers_per_alloc))
    }
}

// Harmless in a path and in the name of a batch job.
fn is_plain(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty()
        && name.len() <= QUEUE_NAME_MAX
        && name.chars().all(inner)
        && !name.starts_with(['.', '-'])
}

/// How an allocation is shown and filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationState {
    /// It waits in the batch system.
    Queued,
    /// Its workers run.
    Running,
    /// It ended as it should, or through nobody's fault.
    Finished,
    /// It ended with an error, or was never accepted.
    Failed,
}

impl AllocationState {
    /// All of them.
    pub const ALL: [AllocationState; 4] = [
        AllocationState::Queued,
        AllocationState::Running,
        AllocationState::Finished,
        AllocationState::Failed,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            AllocationState::Queued => "queued",
            AllocationState::Running => "running",
            AllocationState::Finished => "finished",
            AllocationState::Failed => "failed",
        }
    }
}

impl fmt::Display for AllocationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for AllocationState {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = AllocationState::ALL.into_iter().find(|state| state.word() == text);
        found.ok_or_else(|| WordError::new(text, "a state: use queued, running, finished or failed"))
    }
}

/// What a batch system says of a job, whatever words it has for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// It waits for nodes; also again, after it ran.
    Queued,
    /// It waits until somebody lets it go.
    Held,
    /// It has its nodes.
    Running,
    /// It has its nodes and is stopped.
    Suspended,
    /// It ended with success.
    Finished,
    /// It ended with an error.
    Failed(String),
    /// Somebody ended it.
    Canceled,
    /// Its wall time was over.
    TimedOut,
    /// It had to make place.
    Preempted,
    /// A node of it failed.
    NodeFailed,
    /// It used more memory than it asked for.
    OutOfMemory,
    /// The batch system does not know it (any more), or says something unheard of.
    Unknown(String),
}

/// Why an allocation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationEnd {
    /// Its workers ended as they should, for example because nothing was left to do.
    Finished,
    /// Its time was over.
    TimedOut,
    /// The server or its user ended it, or somebody else did.
    Canceled,
    /// It had to make place for another job.
    Preempted,
    /// A node of it failed.
    NodeFailed,
    /// It used more memory than it asked for.
    OutOfMemory,
    /// Its batch job failed: the batch system's words.
    Failed(String),
    /// All its workers were lost soon after the start.
    WorkersLost,
    /// The batch system took it not: its words.
    Refused(String),
    /// Nobody knows what became of it.
    Vanished(String),
}

impl AllocationEnd {
    /// True when it ended with an error.
    pub fn is_failure(&self) -> bool {
        match self {
            AllocationEnd::Finished
            | AllocationEnd::TimedOut
            | AllocationEnd::Canceled
            | AllocationEnd::Preempted => false,
            AllocationEnd::NodeFailed
            | AllocationEnd::OutOfMemory
            | AllocationEnd::Failed(_)
            | AllocationEnd::WorkersLost
            | AllocationEnd::Refused(_)
            | AllocationEnd::Vanished(_) => true,
        }
    }

    /// True when the next one of its queue is likely to end like that, too.
    pub fn is_fault_of_queue(&self) -> bool {
        matches!(self, AllocationEnd::Failed(_) | AllocationEnd::OutOfMemory | AllocationEnd::WorkersLost)
    }

    /// The state it is shown as.
    pub fn state(&self) -> AllocationState {
        if self.is_failure() { AllocationState::Failed } else { AllocationState::Finished }
    }
}

/// For people.
impl fmt::Display for AllocationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocationEnd::Finished => f.write_str("ended by itself"),
            AllocationEnd::TimedOut => f.write_str("its time was over"),
            AllocationEnd::Canceled => f.write_str("canceled"),
            AllocationEnd::Preempted => f.write_str("preempted"),
            AllocationEnd::NodeFailed => f.write_str("a node failed"),
            AllocationEnd::OutOfMemory => f.write_str("out of memory"),
            AllocationEnd::Failed(text) => write!(f, "failed: {text}"),
            AllocationEnd::WorkersLost => f.write_str("its workers were lost soon after the start"),
            AllocationEnd::Refused(text) => write!(f, "not accepted: {text}"),
            AllocationEnd::Vanished(text) => write!(f, "its end is not known: {text}"),
        }
    }
}

/// Why a queue asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseCause {
    /// A user wants it so.
    User,
    /// So many submissions in a row were refused; the last time with these words.
    Submissions(u32, String),
    /// So many allocations in a row failed; the last one like this.
    Allocations(u32, String),
}

impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PauseCause::User => f.write_str("paused by a user"),
            PauseCause::Submissions(count, last) => {
                write!(
                    f,
                    "{} in a row failed, the last one with: {last}",
                    crate::counted(*count, "submission")
                )
            }
            PauseCause::Allocations(count, last) => {
                write!(f, "{} in a row failed, the last one: {last}", crate::counted(*count, "allocation"))
            }
        }
    }
}

/// Node time of allocations, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTime {
    /// Asked for: nodes times wall time.
    pub asked_us: u64,
    /// With a worker that had tasks.
    pub used_us: u64,
    /// With a worker that had none.
    pub idle_us: u64,
    /// Held without a worker: before it started, and after it was lost.
    pub lost_us: u64,
}

impl NodeTime {
    /// What was held of nodes, whatever became of it.
    pub fn held(&self) -> Duration {
        Duration::from_micros(self.used_us.saturating_add(self.idle_us).saturating_add(self.lost_us))
    }

    /// Adds another one.
    pub fn add(&mut self, other: &NodeTime) {
        self.asked_us = self.asked_us.saturating_add(other.asked_us);
        self.used_us = self.used_us.saturating_add(other.used_us);
        self.idle_us = self.idle_us.saturating_add(other.idle_us);
        self.lost_us = self.lost_us.saturating_add(other.lost_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> QueueParams {
        QueueParams {
            manager: "slurm".into(),
            backlog: 1,
            max_workers_per_alloc: 1,
            time_limit: Duration::from_secs(3600),
            ..QueueParams::default()
        }
    }

    #[test]
    fn node_hours_are_read_and_printed() {
        for (text, printed) in
            [("500", "500"), (" 0.5 ", "0.5"), ("1e-9", "0"), ("0.0001", "0.0001"), ("12.3456", "12.346")]
        {
            assert_eq!(parse_node_hours(text).map(node_hours), Ok(printed.to_owned()), "{text}");
        }
        for text in ["0", "-1", "NaN", "1h", ""] {
            let error = parse_node_hours(text).expect_err(text).to_string();
            assert!(error.contains("use a number above 0"), "{error}");
        }
        for text in ["inf", "1e12", "5000001"] {
            let error = parse_node_hours(text).expect_err(text).to_string();
            assert!(error.contains("the maximum is 5000000 node hours"), "{error}");
        }
        let most = parse_node_hours("5000000").expect("the most");
        assert_eq!(Duration::from_nanos(u64::try_from(most.as_nanos()).expect("it fits")), most);
    }

    #[test]
    fn a_budget_that_is_too_small_for_one_node_is_refused_with_both_values() {
        let hour = Duration::from_secs(3600);
        let with = |budget| QueueParams {
            budget: Some(budget),
            time_limit: hour * 4,
            max_workers_per_alloc: 9,
            ..params()
        };
        assert_eq!(with(hour * 4).check_budget(), Ok(()));
        assert_eq!(
            with(hour / 2).check_budget().map_err(|error| error.to_string()),
            Err("A budget of 0.5 node hours is too small: one node for the time limit of 4h takes 4; give a larger budget or \
                 a shorter time limit"
                .to_owned())
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_the_words_that_scripts_know() {
        assert_eq!(params().check(), Ok(()));
        let hour = Duration::from_secs(3600);
        for (params, text) in [
            (QueueParams { backlog: 0, ..params() }, "Backlog has to be at least 1"),
            (
                QueueParams { worker_time_limit: Some(hour * 2), ..params() },
                "Worker time limit cannot be larger than queue time limit: 2h are more than 1h; give a shorter \
                 --worker-time-limit or a longer --time-limit",
            ),
            (QueueParams { max_workers_per_alloc: 0, ..params() }, "An allocation has at least 1 worker"),
            (
                QueueParams { manager_args: vec![b"a\0b".to_vec()], ..params() },
                "An argument cannot contain a zero byte",
            ),
        ] {
            assert_eq!(params.check().map_err(|e| e.to_string()), Err(text.to_owned()));
        }
        for name in ["../x", "", "a b", "-n", "x\n"] {
            assert!(QueueParams { name: Some(name.into()), ..params() }.check().is_err(), "{name}");
        }
    }

    #[test]
    fn references_are_parsed_and_printed() {
        let one = AllocationRef::new(QueueId(2), 17);
        assert_eq!(one.to_string(), "2.17");
        assert_eq!("2.17".parse(), Ok(one));
        for text in ["2", "2.", "a.1", "1.2.3"] {
            assert!(text.parse::<AllocationRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn wall_time_and_preemption_are_no_failures() {
        assert!(!AllocationEnd::TimedOut.is_failure());
        assert!(!AllocationEnd::Preempted.is_failure());
        assert!(AllocationEnd::NodeFailed.is_failure() && !AllocationEnd::NodeFailed.is_fault_of_queue());
        assert!(AllocationEnd::Failed("exit code 1".into()).is_fault_of_queue());
    }
}
