//! What the dashboard shows, as data: which screen, what is known for it, what was chosen. No terminal, no server, no
//! clock: keys, answers and the time come in, questions and orders go out.

mod heard;
mod keys;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use hq_core::alloc::messages::{AllocationInfo, QueueExplanation, QueueInfo};
use hq_core::cause::JobFailures;
use hq_core::client_messages::{JobDetail, JobSummary, Overview, TaskInfo, WorkerInfo};
use hq_core::explanation::TaskExplanation;
use hq_core::job_shape::JobShape;
use hq_core::load_history::LoadHistory;
use hq_model::{Channel, JobId, JobState, QueueId, TaskRef, TaskState, Timestamp, WorkerId};

use super::series::Series;
use super::wants::{Action, Want};

pub(crate) use keys::{Key, Order};

/// How long an answer may take before it is said that none comes, in ms.
pub(crate) const PATIENCE_MS: u64 = 3_000;
/// How often the same is asked at most, in ms.
const REFRESH_MS: u64 = 1_000;
/// Samples of nodes come no more often than this, in ms.
const LOAD_REFRESH_MS: u64 = 10_000;
/// And of a list of many workers: so many more ms for each.
const REFRESH_MS_PER_WORKER: u64 = 2;

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// Everything in counts.
    Overview,
    /// Jobs.
    Jobs,
    /// One of them.
    Job(JobId),
    /// A task.
    Task(TaskRef),
    /// Workers.
    Workers,
    /// Queues and allocations.
    Queues,
}

impl Screen {
    /// Those that have a key of their own, with their names.
    pub(crate) const TABS: [(char, &'static str, Screen); 4] = [
        ('1', "Overview", Screen::Overview),
        ('2', "Jobs", Screen::Jobs),
        ('3', "Workers", Screen::Workers),
        ('4', "Allocations", Screen::Queues),
    ];
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Link {
    /// Nothing is known yet.
    Connecting,
    /// It answers.
    Live,
    /// It does not, for this reason, since then in ms.
    Lost(String, u64),
    /// There is none: a journal is replayed.
    Replay(Replay),
}

/// How far a replay is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    /// Its first moment.
    pub begin: Timestamp,
    /// Its last one.
    pub end: Timestamp,
    /// The one that is shown.
    pub at: Timestamp,
    /// Seconds of the past in one of the present.
    pub speed: f64,
    /// Time is stalled.
    pub is_paused: bool,
    /// Where the journal is damaged: what comes after that is not shown.
    pub damage: Option<String>,
}

/// In which order jobs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The latest first.
    Latest,
    /// By name.
    Name,
    /// Those with most tasks that run or wait first.
    Busy,
    /// Those with most failures first.
    Failed,
}

impl Sort {
    /// Puts jobs in this order.
    pub(crate) fn apply(self, jobs: &mut [JobSummary]) {
        let busy = |job: &JobSummary| job.counters.running + job.counters.waiting;
        jobs.sort_by_key(|job| std::cmp::Reverse(job.job));
        match self {
            Sort::Latest => {}
            Sort::Name => jobs.sort_by_cached_key(|job| job.name.to_lowercase()),
            Sort::Busy => jobs.sort_by_key(|job| std::cmp::Reverse(busy(job))),
            Sort::Failed => jobs.sort_by_key(|job| std::cmp::Reverse(job.counters.failed)),
        }
    }
}

/// What keys mean now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mode {
    /// They choose.
    Choose,
    /// They write what is searched for.
    Search,
    /// They answer a question.
    Confirm(Action),
    /// They close the help.
    Help,
}

/// Everything.
pub(crate) struct Model {
    /// Screens that were opened, the last of which is shown.
    pub screens: Vec<Screen>,
    /// What keys mean.
    pub mode: Mode,
    /// How the server is reached.
    pub link: Link,
    /// Everything in counts, as it was last, and when that was heard in ms.
    pub overview: Option<(Overview, u64)>,
    /// The same over time.
    pub series: Series,
    /// Jobs as they came, and as they are listed.
    pub jobs: Vec<JobSummary>,
    /// In which order.
    pub sort: Sort,
    /// Only these states; all when empty.
    pub states: Vec<JobState>,
    /// Only jobs with this text.
    pub search: String,
    /// The job that is shown.
    pub job: Option<JobDetail>,
    /// Why its tasks failed.
    pub failures: Option<JobFailures>,
    /// How far the layers of its graph are, and how many of its tasks ran when.
    pub shape: Option<JobShape>,
    /// That is shown in the place of its tasks.
    pub shows_graph: bool,
    /// Some of its tasks, and whether there are more.
    pub tasks: (Vec<TaskInfo>, bool),
    /// Some of those that run.
    pub running: Vec<TaskInfo>,
    /// A worker, and tasks that are there now.
    pub on_worker: Option<(WorkerId, Vec<(JobId, TaskInfo)>)>,
    /// How the job that is shown was over time.
    pub job_series: Series,
    /// Only tasks in this state.
    pub filter: Option<TaskState>,
    /// The task that is shown.
    pub task: Option<TaskInfo>,
    /// What it waits for.
    pub reasons: Option<TaskExplanation>,
    /// What it prints, and on which channel.
    pub output: Option<Vec<u8>>,
    /// Which of its channels is shown.
    pub channel: Channel,
    /// Workers.
    pub workers: Vec<WorkerInfo>,
    /// How loaded nodes were: all, or that of the worker that is chosen.
    pub load: Option<LoadHistory>,
    /// Queues.
    pub queues: Vec<QueueInfo>,
    /// Allocations of the queue that is chosen.
    pub allocations: Vec<AllocationInfo>,
    /// And why it asks for no more.
    pub explanation: Option<QueueExplanation>,
    /// The latest word about an action or a refusal, and until when in ms.
    pub message: Option<(String, u64)>,
    /// Nothing may be ordered.
    pub is_read_only: bool,
    // Which line is chosen, by screen.
    chosen: BTreeMap<u8, usize>,
    // What was asked and not answered: since when in ms.
    asked: BTreeMap<Want, u64>,
    // When something was heard last, and whether it may have changed since.
    heard: BTreeMap<Want, (u64, bool)>,
}

impl Model {
    /// Before anything is known.
    pub(crate) fn new(link: Link) -> Model {
        let is_read_only = matches!(link, Link::Replay(_));
        Model {
            screens: vec![Screen::Overview],
            mode: Mode::Choose,
            link,
            overview: None,
            series: Series::default(),
            jobs: Vec::new(),
            sort: Sort::Latest,
            states: Vec::new(),
            search: String::new(),
            job: None,
            failures: None,
            shape: None,
            shows_graph: false,
            tasks: (Vec::new(), false),
            running: Vec::new(),
            on_worker: None,
            job_series: Series::default(),
            filter: None,
            task: None,
            reasons: None,
            output: None,
            channel: Channel::Stdout,
            workers: Vec::new(),
            load: None,
            queues: Vec::new(),
            allocations: Vec::new(),
            explanation: None,
            message: None,
            is_read_only,
            chosen: BTreeMap::new(),
            asked: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    /// The screen that is shown.
    pub(crate) fn screen(&self) -> Screen {
        self.screens.last().copied().unwrap_or(Screen::Overview)
    }

    /// The time that is shown, as the server counts it: what it said last, and what has passed since.
    pub(crate) fn time(&self, now_ms: u64) -> Timestamp {
        match (&self.link, &self.overview) {
            (Link::Replay(replay), _) => replay.at,
            (_, Some((overview, heard_ms))) => {
                overview.now.after(std::time::Duration::from_millis(now_ms.saturating_sub(*heard_ms)))
            }
            (_, None) => Timestamp(0),
        }
    }

    /// Which line of the screen's list is chosen.
    pub(crate) fn line(&self) -> usize {
        let chosen = self.chosen.get(&self.place()).copied().unwrap_or(0);
        chosen.min(self.lines().saturating_sub(1))
    }

    /// How many lines its list has.
    pub(crate) fn lines(&self) -> usize {
        match self.screen() {
            Screen::Overview | Screen::Task(_) => 0,
            Screen::Jobs => self.jobs.len(),
            Screen::Job(_) if self.shows_graph => 0,
            Screen::Job(_) => self.tasks.0.len(),
            Screen::Workers => self.workers.len(),
            Screen::Queues => self.queues.len(),
        }
    }

    /// What is to be asked now. Each want is asked once and then again when something has changed, but not too often.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Want> {
        if matches!(self.link, Link::Lost(..)) {
            return Vec::new();
        }
        let mut due = self.wants();
        due.retain(|want| {
            !self.asked.contains_key(want)
                && self.heard.get(want).is_none_or(|&(heard_ms, may_have_changed)| {
                    (may_have_changed || self.is_live(*want)) && now_ms >= heard_ms + self.refresh_ms(*want)
                })
        });
        for want in &due {
            self.asked.insert(*want, now_ms);
        }
        due
    }

    /// For how long something was asked in vain, in ms.
    pub(crate) fn waits_ms(&self, now_ms: u64) -> u64 {
        self.asked.values().map(|since| now_ms.saturating_sub(*since)).max().unwrap_or(0)
    }

    /// Asks for everything anew: another server answers, or another time is shown.
    pub(crate) fn forget_answers(&mut self) {
        self.asked.clear();
        self.heard.clear();
    }

    // What the present screen wants to know.
    fn wants(&self) -> Vec<Want> {
        match self.screen() {
            Screen::Overview => vec![Want::Load(None)],
            Screen::Jobs => vec![Want::Jobs],
            Screen::Job(job) => {
                vec![
                    Want::Job(job),
                    Want::Failures(job),
                    Want::Tasks(job),
                    Want::Running(job),
                    Want::Shape(job),
                ]
            }
            Screen::Task(task) => {
                let mut wants = vec![Want::Task(task)];
                match self.task.as_ref().map(|info| info.state) {
                    Some(TaskState::Waiting) => wants.push(Want::Reasons(task)),
                    Some(_) if !self.is_read_only => wants.push(Want::Output(task, self.channel)),
                    _ => {}
                }
                wants
            }
            Screen::Workers => {
                let chosen = self.chosen_worker();
                let of_worker = chosen.map(|worker| [Want::Load(Some(worker)), Want::OnWorker(worker)]);
                [Want::Workers].into_iter().chain(of_worker.into_iter().flatten()).collect()
            }
            Screen::Queues => {
                let chosen = self.queues.get(self.line()).map(|queue| queue.queue);
                let of_queue = chosen.map(|queue| [Want::Queue(queue), Want::Explanation(queue)]);
                [Want::Queues].into_iter().chain(of_queue.into_iter().flatten()).collect()
            }
        }
    }

    // What changes without anybody being told: what a task prints.
    fn is_live(&self, want: Want) -> bool {
        let runs = self.task.as_ref().is_some_and(|task| task.state == TaskState::Running);
        matches!(want, Want::Output(..)) && runs
    }

    fn refresh_ms(&self, want: Want) -> u64 {
        match want {
            Want::Workers => REFRESH_MS + self.workers.len() as u64 * REFRESH_MS_PER_WORKER,
            Want::Load(_) => LOAD_REFRESH_MS,
            _ => REFRESH_MS,
        }
    }

    // A number for each kind of screen, by which its chosen line is remembered.
    fn place(&self) -> u8 {
        match self.screen() {
            Screen::Overview => 0,
            Screen::Jobs => 1,
            Screen::Job(_) => 2,
            Screen::Task(_) => 3,
            Screen::Workers => 4,
            Screen::Queues => 5,
        }
    }

    fn chosen_job(&self) -> Option<JobId> {
        match self.screen() {
            Screen::Jobs => self.jobs.get(self.line()).map(|job| job.job),
            Screen::Job(job) => Some(job),
            Screen::Task(task) => Some(task.job),
            _ => None,
        }
    }

    fn chosen_worker(&self) -> Option<WorkerId> {
        let worker = self.workers.get(self.line()).map(|worker| worker.worker);
        worker.filter(|_| self.screen() == Screen::Workers)
    }

    fn chosen_queue(&self) -> Option<(QueueId, &QueueInfo)> {
        let queue = self.queues.get(self.line()).map(|queue| (queue.queue, queue));
        queue.filter(|_| self.screen() == Screen::Queues)
    }
}
