//! Notices that a waiting client sends itself: the ends of jobs, and their first failures.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStringExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use hq_client::Watch;
use hq_command::Stop;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_core::limits::NOTICE_TEXT_BYTES_MAX;
use hq_model::notice::{Moment, NoticeEvent, NoticeTarget, cut};
use hq_model::{JobId, JobSpec, Notice, NoticeRule, counted_are};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::jobs::only;
use crate::logging::now;

/// Whom a client tells of the jobs that it waits for. Each target has a thread, so none waits for another, and each is told of
/// things in their order. Programs that tell end with this.
pub(crate) struct Teller {
    rules: Vec<NoticeRule>,
    server_dir: Option<PathBuf>,
    told: BTreeSet<(JobId, Moment)>,
    stop: Stop,
    threads: BTreeMap<String, mpsc::Sender<Notice>>,
    tell_end: UnboundedSender<Told>,
    ends: UnboundedReceiver<Told>,
    // Of those that were begun, so many have not ended.
    left: usize,
    // And so many could not be told.
    failed: usize,
}

/// Why somebody was not told, in words.
type Told = Result<(), String>;

impl Default for Teller {
    fn default() -> Teller {
        Teller::new(Vec::new(), None)
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.stop.end();
    }
}

impl Teller {
    /// Tells as a job says it. Programs that tell find the server in this directory; those of `hq run` find none.
    pub(crate) fn new(rules: Vec<NoticeRule>, server_dir: Option<PathBuf>) -> Teller {
        let (tell_end, ends) = unbounded_channel();
        let (told, stop, threads) = (BTreeSet::new(), Stop::default(), BTreeMap::new());
        Teller { rules, server_dir, told, stop, threads, tell_end, ends, left: 0, failed: 0 }
    }

    /// Tells all of these of ends and first failures.
    pub(crate) fn of_targets(targets: &[NoticeTarget], server_dir: &Path) -> Teller {
        let rules = targets.iter().flat_map(|target| {
            [Moment::End, Moment::Failure].map(|on| NoticeRule { on, target: target.clone() })
        });
        Teller::new(rules.collect(), Some(server_dir.to_owned()))
    }

    /// Looks at jobs as they were told, and begins to tell what is new.
    pub(crate) fn look(&mut self, watch: &mut Watch<'_>, jobs: &[JobSummary]) {
        for job in if self.rules.is_empty() { &[] } else { jobs } {
            if job.counters.failed > 0 && self.told.insert((job.job, Moment::Failure)) {
                let event = first_failure(watch, job.job);
                self.tell(job, &event);
            }
            let has_ended = !job.is_open && job.counters.terminal() == job.counters.total();
            if has_ended && self.told.insert((job.job, Moment::End)) {
                self.tell(job, &NoticeEvent::End);
            }
        }
        while let Ok(told) = self.ends.try_recv() {
            self.heard(told);
        }
    }

    /// Waits until all are told, or for a signal: then those who are not told by now never are. What is said of that.
    pub(crate) fn finish(
        mut self,
        watch: &mut Watch<'_>,
        signal: impl Future<Output = u8>,
    ) -> Result<(), (u8, String)> {
        watch.wait_for(async {
            let mut signal = std::pin::pin!(signal);
            while self.left > 0 {
                tokio::select! {
                    biased;
                    signal = &mut signal => return Err((signal, self.not_told())),
                    Some(told) = self.ends.recv() => self.heard(told),
                }
            }
            Ok(())
        })
    }

    fn not_told(&self) -> String {
        let notices = counted_are(self.left + self.failed, "notice", "was", "were");
        format!("Interrupted: all awaited jobs have ended, but {notices} not sent")
    }

    // Whoever is told may fail as he likes; the wait goes on.
    fn heard(&mut self, told: Told) {
        self.left -= 1;
        if let Err(why) = told {
            self.failed += 1;
            warn!("{why}");
        }
    }

    fn tell(&mut self, job: &JobSummary, event: &NoticeEvent) {
        let directory = std::env::current_dir().unwrap_or_default().into_os_string().into_vec();
        let rules = self.rules.iter().zip(0..).filter(|(rule, _)| rule.on == event.moment());
        let notice = |(rule, number): (&NoticeRule, u32)| Notice {
            job: job.job,
            name: job.name.clone(),
            rule: number,
            target: rule.target.clone(),
            at: now(),
            state: job.state(),
            counters: job.counters,
            submit_dir: directory.clone(),
            event: event.clone(),
        };
        let notices: Vec<Notice> = rules.map(notice).collect();
        for notice in notices {
            self.left += 1;
            let (dir, stop, tell_end) = (&self.server_dir, &self.stop, &self.tell_end);
            let thread = self.threads.entry(notice.target.to_string());
            let thread = thread.or_insert_with(|| start(dir.clone(), stop.clone(), tell_end.clone()));
            // It ends after this.
            let _ = thread.send(notice);
        }
    }
}

// Tells one target, one notice after the other.
fn start(dir: Option<PathBuf>, stop: Stop, tell_end: UnboundedSender<Told>) -> mpsc::Sender<Notice> {
    let (sender, notices) = mpsc::channel::<Notice>();
    std::thread::spawn(move || {
        for notice in notices {
            let sent = std::panic::catch_unwind(AssertUnwindSafe(|| {
                hq_notice::send(&notice, dir.as_deref(), &stop)
            }));
            let sent = sent.unwrap_or_else(|_| Err("a thread of this command has died".to_owned()));
            let (target, moment, job) = (notice.target.shown(), word(notice.event.moment()), notice.job);
            let why = |error| format!("{target} could not be notified of the {moment} of job {job}: {error}");
            if tell_end.send(sent.map_err(why)).is_err() {
                return;
            }
        }
    });
    sender
}

fn word(moment: Moment) -> &'static str {
    match moment {
        Moment::End => "end",
        Moment::Failure => "first failure",
        Moment::Stall => "standstill",
    }
}

// Nothing goes wrong when it cannot be told.
fn first_failure(watch: &mut Watch<'_>, job: JobId) -> NoticeEvent {
    let answer = watch.request(ClientRequest::JobFailures { jobs: only([job]), from: None });
    let jobs = match answer {
        Ok(ClientResponse::Failures { jobs, .. }) => jobs,
        _ => Vec::new(),
    };
    let first = jobs.first().and_then(|job| Some((job, job.causes.first()?)));
    let first = first.map(|(job, (cause, _))| {
        (cause.first, cut(&cause.first_error, NOTICE_TEXT_BYTES_MAX), job.first_stderr.clone())
    });
    let (task, error, stderr) = first.unwrap_or_default();
    NoticeEvent::Failure { task, error, stderr }
}

/// What to say of a job whose targets are not there on this machine. The server may run on another one.
pub(crate) fn missing_targets(spec: &JobSpec, directory: &Path) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for rule in &spec.notices {
        let why = hq_notice::missing(&rule.target, directory);
        let warning = why.map(|why| format!("`{}` cannot be notified from here: {why}", rule.target.shown()));
        warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
    }
    warnings
}
