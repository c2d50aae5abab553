//! What to execute: the template shared by all tasks of a submit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::result::ResultFrom;
use crate::{
    Body, ByteString, Channel, Compression, InputObject, Instance, JobId, ObjectId, ObjectName, OnClose,
    OutputObject, OutputSink, Request, Stream, TaskRef, Timestamp,
};

/// The template of the tasks of one submit. Strings may hold placeholders (`%{TASK_ID}`), expanded
/// by the worker for each task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpec {
    /// What each task executes.
    pub body: Body,
    /// Variables set for the task, in order; later ones win.
    pub env: Vec<(ByteString, ByteString)>,
    /// Fed to the task's standard input; the task reads end-of-file at once when empty.
    pub stdin: ByteString,
    /// Working directory; created if missing. Relative to the submit directory.
    pub cwd: ByteString,
    /// Where standard output goes.
    pub stdout: OutputSink,
    /// Where standard error goes.
    pub stderr: OutputSink,
    /// Where the stream goes, relative to the submit directory; there when a channel goes to it.
    pub stream: Option<Stream>,
    /// How what goes there is stored.
    pub compression: Compression,
    /// Paths of what each task is to leave behind, relative to the working directory; without all of them it has failed.
    pub outputs: Vec<ByteString>,
    /// How long these may be late after a success.
    pub output_patience: Duration,
    /// Files that each task leaves as objects for others; without all of them it has failed.
    pub output_objects: Vec<OutputObject>,
    /// Objects of others that each task waits for and takes as files.
    pub input_objects: Vec<InputObject>,
    /// Whose objects it leaves once more, since these were lost. Then what it leaves is not its own.
    pub rebuilds: Option<Rebuild>,
    /// What of a program is kept as its result.
    pub result: ResultFrom,
    /// Variants in order of preference; never empty.
    pub requests: Vec<Request>,
    /// CPU affinity.
    pub pin: Pin,
    /// Larger first.
    pub priority: i32,
    /// The task is ended and fails after this time.
    pub time_limit: Option<Duration>,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// Until when it is to have ended: what could not end in time does not start.
    pub end_by: Option<EndBy>,
    /// A signal sent this long before the time limit.
    pub warning: Option<Warning>,
    /// How often the task may be lost with its worker.
    pub crash_limit: CrashLimit,
    /// What becomes of it when it outlasts its workers.
    pub on_walltime: OnWalltime,
    /// What to do about failures.
    pub retry: Retry,
    /// When a task takes so long that it is started a second time elsewhere; never by default.
    pub speculate: Option<SpeculateFactor>,
    /// Those that wait for it may start when it says that it is ready, and not when it has ended.
    pub service: bool,
    /// How long one task is expected to run; learned from those that end when nothing is said.
    pub expected: Option<Duration>,
    /// Tasks with equal keys like to run on the same workers; may hold `%{JOB_ID}`, `%{TASK_ID}` and what
    /// stands for the task's [entry](crate::entry).
    pub locality: Option<ByteString>,
    /// Give each task a private directory, removed afterwards, and an error file in it.
    pub task_dir: bool,
    /// What `%{MPIRUN}` stands for: the name of a launcher, `none`, or nothing when that is to be found out.
    pub launcher: String,
}

impl TaskSpec {
    /// Where an output channel goes.
    pub fn sink(&self, channel: Channel) -> &OutputSink {
        match channel {
            Channel::Stdout => &self.stdout,
            Channel::Stderr => &self.stderr,
        }
    }

    /// True when files of its output channels may be removed when it has ended.
    pub fn may_remove_outputs(&self) -> bool {
        Channel::ALL.iter().any(|channel| self.sink(*channel).on_close() != OnClose::Keep)
    }

    /// True when results of its tasks are kept: what they leave behind travels with their ends.
    pub fn has_results(&self) -> bool {
        self.body.has_results() || self.result.is_some()
    }

    /// True when there is something to do about a task after its program has ended with success, before its end is told.
    pub fn has_aftermath(&self) -> bool {
        self.has_aftermath_in_files() || self.is_streamed()
    }

    /// Likewise, but for what it has printed into its stream.
    pub fn has_aftermath_in_files(&self) -> bool {
        let leaves_something = self.task_dir
            || !self.outputs.is_empty()
            || !self.output_objects.is_empty()
            || self.result.is_some();
        leaves_something || self.may_remove_outputs()
    }

    /// True when its tasks leave or take objects: only workers that store these run them.
    pub fn has_objects(&self) -> bool {
        !self.output_objects.is_empty() || !self.input_objects.is_empty()
    }

    /// True when its tasks take objects in place.
    pub fn has_broadcasts(&self) -> bool {
        self.input_objects.iter().any(InputObject::is_in_place)
    }

    /// The objects that its tasks leave as their own.
    pub fn own_objects(&self) -> &[OutputObject] {
        if self.rebuilds.is_some() { &[] } else { &self.output_objects }
    }

    /// True when its tasks may leave an object of this name: one that they declare, or the value of a call.
    pub fn may_leave(&self, name: &ObjectName) -> bool {
        self.output_objects.iter().any(|object| object.name == *name)
            || (self.body.is_packed_call() && *name == ObjectName::value())
    }

    /// Which object it is that an attempt of a task leaves under a name, and as which instance.
    pub fn object_left(&self, task: TaskRef, instance: Instance, name: &ObjectName) -> (ObjectId, Instance) {
        let name = name.clone();
        match self.rebuilds {
            None => (ObjectId { task, name }, instance),
            Some(rebuilt) => {
                let task = TaskRef::new(rebuilt.job, task.task);
                (ObjectId { task, name }, Instance(rebuilt.instance.0.saturating_add(instance.0)))
            }
        }
    }

    /// True when one of its output channels goes to the stream.
    pub fn is_streamed(&self) -> bool {
        self.stdout == OutputSink::Stream || self.stderr == OutputSink::Stream
    }

    /// True when workers start processes of it on all its nodes; else its program runs on the first one alone.
    pub fn starts_ranks(&self) -> bool {
        self.requests.iter().any(|request| request.ranks > 0) || self.body.names_launcher()
    }

    /// How long one of its tasks takes, as far as that is said: the time it is expected to run, else the shortest of its time
    /// requests.
    pub fn time_needed(&self) -> Duration {
        let asked = self.requests.iter().map(|request| request.time_request).min();
        self.expected.or(asked).unwrap_or_default()
    }

    /// The last moment at which one of its tasks may start, of a submit at that time.
    pub fn last_start(&self, submitted: Timestamp) -> Option<Timestamp> {
        let end = self.end_by?.after(submitted);
        let takes = u64::try_from(self.time_needed().as_micros()).unwrap_or(u64::MAX);
        Some(Timestamp(end.0.saturating_sub(takes)))
    }

    /// About what its texts take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let env: usize = self.env.iter().map(|(name, value)| 48 + name.len() + value.len()).sum();
        let outputs: usize = self.outputs.iter().map(|path| 24 + path.len()).sum();
        let left: usize = self.output_objects.iter().map(|object| 64 + object.path.len()).sum();
        let taken: usize = self.input_objects.iter().map(|object| 128 + object.path().len()).sum();
        let requests: usize = self.requests.iter().map(Request::bytes).sum();
        let key = self.locality.as_ref().map_or(0, |key| key.len());
        self.body.bytes() + env + outputs + left + taken + requests + key + self.stdin.len()
    }

    /// The same without what its tasks read.
    pub fn without_stdin(&self) -> TaskSpec {
        TaskSpec {
            stdin: ByteString::new(),
            body: self.body.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            stream: self.stream.clone(),
            compression: self.compression,
            outputs: self.outputs.clone(),
            output_patience: self.output_patience,
            output_objects: self.output_objects.clone(),
            input_objects: self.input_objects.clone(),
            rebuilds: self.rebuilds,
            result: self.result.clone(),
            requests: self.requests.clone(),
            pin: self.pin,
            priority: self.priority,
            time_limit: self.time_limit,
            end_by: self.end_by,
            kill_grace: self.kill_grace,
            warning: self.warning,
            crash_limit: self.crash_limit,
            on_walltime: self.on_walltime,
            retry: self.retry.clone(),
            speculate: self.speculate,
            service: self.service,
            expected: self.expected,
            locality: self.locality.clone(),
            task_dir: self.task_dir,
            launcher: self.launcher.clone(),
        }
    }
}

/// Until when a task is to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndBy {
    /// Until this moment.
    At(Timestamp),
    /// So long after its submit.
    Within(Duration),
}

impl EndBy {
    /// The moment, of a submit at that time.
    pub fn after(self, submitted: Timestamp) -> Timestamp {
        match self {
            EndBy::At(at) => at,
            EndBy::Within(time) => submitted.after(time),
        }
    }
}

/// How a task is bound to its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pin {
    /// Not at all.
    #[default]
    None,
    /// By the affinity mask.
    Taskset,
    /// By `OMP_PLACES` and `OMP_PROC_BIND`.
    Omp,
}

/// A warning before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warning {
    /// Signal number.
    pub signal: u8,
    /// How long before.
    pub before: Duration,
}

/// How often a task may be lost together with its worker. A worker that is stopped or whose time is over counts for
/// `NeverRestart` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashLimit {
    /// The task fails when it is lost once, whatever ended its worker, or may have been.
    NeverRestart,
    /// The task fails when it was lost this many times; at least 1.
    Times(u32),
    /// Restarted for ever.
    Unlimited,
}

impl Default for CrashLimit {
    fn default() -> Self {
        CrashLimit::Times(5)
    }
}

/// Tasks that run again because what they left was lost. They themselves stay finished: the tasks that have this in their
/// specification have their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The job of the finished tasks.
    pub job: JobId,
    /// What is left now counts as of this instance or a later one.
    pub instance: Instance,
}

/// What becomes of a task that began with its workers and was ended with their time, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnWalltime {
    /// It waits for workers that live longer.
    #[default]
    Wait,
    /// It fails.
    Fail,
}

impl OnWalltime {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            OnWalltime::Wait => "wait",
            OnWalltime::Fail => "fail",
        }
    }
}

/// Reads `wait` or `fail`.
impl FromStr for OnWalltime {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "wait" => Ok(OnWalltime::Wait),
            "fail" => Ok(OnWalltime::Fail),
            _ => Err(WordError::new(text, "what to do when the time of workers is over: use wait or fail")),
        }
    }
}

/// When and how a failed task runs again. Each run is a new instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Retries after the first run; 0 switches retrying off.
    pub max: u32,
    /// Wait before the first retry; doubled for each further one, up to an hour.
    pub delay: Duration,
    /// Which failures are retried.
    pub on: RetryOn,
}

/// The failures that are retried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RetryOn {
    /// Exit codes; with none of the three set, every failure is retried.
    pub codes: Vec<u8>,
    /// The task died from a signal.
    pub signal: bool,
    /// The task reached its time limit.
    pub timeout: bool,
}

/// A task that runs for longer than this many times the median of its finished siblings is started a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpeculateFactor(u32);

impl SpeculateFactor {
    /// In thousandths, from 1000: less would start every other task twice.
    pub fn from_thousandths(thousandths: u32) -> Option<SpeculateFactor> {
        (thousandths >= 1000).then_some(SpeculateFactor(thousandths))
    }

    /// In thousandths.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// So many times a duration in µs.
    pub fn times_us(self, duration_us: u64) -> u64 {
        duration_us.saturating_mul(u64::from(self.0)) / 1000
    }
}

/// Reads a number from 1, with up to three decimals.
impl FromStr for SpeculateFactor {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let thousandths = text.trim().parse::<f64>().map_or(0.0, |factor| (factor * 1000.0).round());
        let in_range = (1000.0..=f64::from(u32::MAX)).contains(&thousandths);
        let factor = if in_range { SpeculateFactor::from_thousandths(thousandths as u32) } else { None };
        factor.ok_or_else(|| WordError::new(text, "a factor of at least 1, for example 3 or 1.5"))
    }
}

impl fmt::Display for SpeculateFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / 1000.0).fmt(f)
    }
}

/// A text that is none of the words allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct WordError {
    text: String,
    expected: &'static str,
}

impl WordError {
    /// `text` was found where `expected` should be.
    pub fn new(text: &str, expected: &'static str) -> WordError {
        WordError { text: text.into(), expected }
    }
}

/// Reads `1,3-5,signal,timeout`.
impl FromStr for RetryOn {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || WordError::new(text, "a list of exit codes (1-255), `signal` and `timeout`");
        let mut on = RetryOn::default();
        for part in text.split(',').map(str::trim) {
            match part {
                "signal" => on.signal = true,
                "timeout" => on.timeout = true,
                codes => {
                    let (first, last) = codes.split_once('-').unwrap_or((codes, codes));
                    let first: u8 = first.parse().map_err(|_| bad())?;
                    let last: u8 = last.parse().map_err(|_| bad())?;
                    if first == 0 || first > last {
                        return Err(bad());
                    }
                    on.codes.extend(first..=last);
                }
            }
        }
        on.codes.sort_unstable();
        on.codes.dedup();
        Ok(on)
    }
}

/// Reads `never-restart`, `unlimited` or a number above 0.
impl FromStr for CrashLimit {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "never-restart" => Ok(CrashLimit::NeverRestart),
            "unlimited" => Ok(CrashLimit::Unlimited),
            count => match count.parse() {
                Ok(count) if count > 0 => Ok(CrashLimit::Times(count)),
                _ => Err(WordError::new(
                    text,
                    "a crash limit: use a number from 1 to 4294967295, never-restart or unlimited",
                )),
            },
        }
    }
}

impl fmt::Display for CrashLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrashLimit::NeverRestart => f.write_str("never-restart"),
            CrashLimit::Unlimited => f.write_str("unlimited"),
            CrashLimit::Times(count) => count.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_starts_earlier() {
        let (submitted, seconds) = (Timestamp(1_000_000_000), Duration::from_secs);
        let last = |end_by, expected: Option<u64>, asked: &[u64]| {
            let request = |time: &u64| Request { time_request: seconds(*time), ..Request::default() };
            let requests = asked.iter().map(request).collect();
            let expected = expected.map(seconds);
            let spec = TaskSpec { end_by, expected, requests, ..TaskSpec::default() };
            spec.last_start(submitted).map(|last| last.0 / 1_000_000)
        };
        let within = Some(EndBy::Within(seconds(600)));
        assert_eq!(last(None, Some(1), &[1]), None);
        assert_eq!(last(within, None, &[0]), Some(1600));
        assert_eq!(last(within, None, &[90, 60]), Some(1540), "the variant that takes least");
        assert_eq!(last(within, Some(30), &[90]), Some(1570), "what is expected counts first");
        assert_eq!(last(within, Some(3600), &[]), Some(0), "never");
        assert_eq!(last(Some(EndBy::At(Timestamp(500_000_000))), None, &[]), Some(500));
    }

    #[test]
    fn retry_rules() {
        let on: RetryOn = "3-5,1,signal".parse().expect("rules");
        assert_eq!(on, RetryOn { codes: vec![1, 3, 4, 5], signal: true, timeout: false });
        for text in ["0", "256", "5-3", "boom", ""] {
            assert!(text.parse::<RetryOn>().is_err(), "{text}");
        }
    }

    #[test]
    fn speculate_factors() {
        for (text, thousandths) in [("3", 3000), ("1.5", 1500), ("1", 1000), ("2.0004", 2000)] {
            let factor: SpeculateFactor = text.parse().expect(text);
            assert_eq!(factor.thousandths(), thousandths, "{text}");
        }
        assert_eq!("1.50".parse::<SpeculateFactor>().map(|factor| factor.to_string()), Ok("1.5".into()));
        for text in ["0.9", "-3", "", "x", "inf", "NaN", "1e9"] {
            assert!(text.parse::<SpeculateFactor>().is_err(), "{text}");
        }
    }

    #[test]
    fn crash_limits() {
        for text in ["5", "never-restart", "unlimited"] {
            assert_eq!(text.parse::<CrashLimit>().map(|limit| limit.to_string()), Ok(text.into()));
        }
        assert!("0".parse::<CrashLimit>().is_err());
    }
}
