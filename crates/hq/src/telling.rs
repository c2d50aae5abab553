//! Notices that a waiting client sends itself: the ends of jobs, and their first failures.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use hq_client::Watch;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_core::limits::NOTICE_TEXT_BYTES_MAX;
use hq_model::notice::{Moment, NoticeEvent, NoticeTarget, cut};
use hq_model::{JobId, JobSpec, Notice, NoticeRule};
use tracing::warn;

use crate::jobs::only;
use crate::logging::now;

/// Whom a client tells of the jobs that it waits for.
#[derive(Default)]
pub(crate) struct Teller {
    rules: Vec<NoticeRule>,
    told: BTreeSet<(JobId, Moment)>,
}

impl Teller {
    /// Tells as a job says it.
    pub(crate) fn new(rules: Vec<NoticeRule>) -> Teller {
        Teller { rules, told: BTreeSet::new() }
    }

    /// Tells all of these of ends and first failures.
    pub(crate) fn of_targets(targets: &[NoticeTarget]) -> Teller {
        let rules = targets.iter().flat_map(|target| {
            [Moment::End, Moment::Failure].map(|on| NoticeRule { on, target: target.clone() })
        });
        Teller::new(rules.collect())
    }

    /// Looks at jobs as they were told, and tells what is new.
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
    }

    // Whoever is told may fail as he likes; the wait goes on.
    fn tell(&self, job: &JobSummary, event: &NoticeEvent) {
        let directory = std::env::current_dir().unwrap_or_default().into_os_string().into_vec();
        for (rule, number) in self.rules.iter().zip(0..).filter(|(rule, _)| rule.on == event.moment()) {
            let notice = Notice {
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
            if let Err(error) = hq_notice::send(&notice) {
                warn!(
                    "{} was not told of the {} of job {}: {error}",
                    rule.target.shown(),
                    word(rule.on),
                    job.job
                );
            }
        }
    }
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
    let first = jobs.first().and_then(|job| job.causes.first());
    let first = first.map(|(cause, _)| (cause.first, cut(&cause.first_error, NOTICE_TEXT_BYTES_MAX)));
    let (task, error) = first.unwrap_or_default();
    NoticeEvent::Failure { task, error }
}

/// What to say of a job whose targets are not there on this machine. The server may run on another one.
pub(crate) fn missing_targets(spec: &JobSpec, directory: &Path) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for rule in &spec.notices {
        let why = hq_notice::missing(&rule.target, directory);
        let warning = why.map(|why| format!("`{}` cannot be told here: {why}", rule.target.shown()));
        warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
    }
    warnings
}
