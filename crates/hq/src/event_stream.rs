//! Events of a server as they come: the past from a cursor on, then what happens.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::Pin;

use hq_client::{Next, Session, Watch};
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter, EventKind, FROM_NOW};
use hq_core::record::JobProgress;
use hq_model::{IdSet, JobId, JobState, TaskId, TaskState};

use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;
use crate::logging;
use crate::render::events::Events;

/// Which events are wanted.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Also what happens from now on.
    pub follow: bool,
    /// From this record on.
    pub after: u64,
    /// Only of these jobs.
    pub jobs: Option<IdSet>,
    /// Only of these kinds; all when there are none.
    pub kinds: Vec<EventKind>,
}

impl Wanted {
    fn records(&self) -> EventFilter {
        EventFilter { jobs: self.jobs.clone(), kinds: self.kinds.clone() }
    }

    // True when what was before must be known to tell what comes: that a job is complete.
    fn needs_past(&self) -> bool {
        let is_within = self.after != 0 && self.after != FROM_NOW;
        is_within && (self.kinds.is_empty() || self.kinds.contains(&EventKind::Job))
    }
}

/// Reads until all was told, or until the other thing has come. `told` hears of each answer once its events are printed, with
/// the record that comes next.
pub(crate) fn read<W: Write, F: Future<Output = ()>>(
    session: &mut Session,
    wanted: Wanted,
    events: &mut Events<W>,
    mut until: Pin<&mut F>,
    mut told: impl FnMut(&mut Events<W>, u64) -> Result<(), HqError>,
) -> Result<(), HqError> {
    if wanted.needs_past() {
        recall(session, wanted.after, events)?;
    }
    let filter = wanted.records();
    events.only(wanted.kinds);
    let request = |after| ClientRequest::Events { follow: wanted.follow, after, filter: filter.clone() };
    let mut watch = session.watch(request(wanted.after))?;
    // Without the past, the stream begins with how jobs are once nothing of what follows is missed.
    let mut begins =
        wanted.after == FROM_NOW && (filter.kinds.is_empty() || filter.kinds.contains(&EventKind::Job));
    loop {
        let response = match watch.next_or(until.as_mut())? {
            Next::Response(response) => response,
            Next::Other(()) => return Ok(()),
        };
        match response {
            ClientResponse::Events { records, next } => {
                // Servers of earlier releases know no filter.
                for (at, record) in &records {
                    if let Some(record) = filter.part(record) {
                        events.print(*at, &record)?;
                    }
                }
                if std::mem::take(&mut begins) {
                    begin(&mut watch, wanted.jobs.as_ref(), events)?;
                }
                told(events, next)?;
                watch.resume_with(request(next));
            }
            ClientResponse::Done => return Ok(()),
            _ => return unexpected(),
        }
    }
}

// Reads what was before this record without printing it. All of it is asked for, since only then each record has its number:
// the last one of an answer that before the next.
fn recall<W: Write>(session: &mut Session, before: u64, events: &mut Events<W>) -> Result<(), HqError> {
    let request = |after| ClientRequest::Events { follow: false, after, filter: EventFilter::default() };
    let mut watch = session.watch(request(0))?;
    loop {
        match watch.next_response()? {
            ClientResponse::Events { records, next } => {
                let is_later = usize::try_from(next.saturating_sub(before)).unwrap_or(usize::MAX);
                for (at, record) in &records[..records.len().saturating_sub(is_later)] {
                    events.recall(*at, record);
                }
                watch.resume_with(request(next));
            }
            ClientResponse::Done => return Ok(()),
            _ => return unexpected(),
        }
    }
}

// How jobs are now: those that are named, or all that have not ended. An event that comes after that may tell of a task
// whose end is in it.
fn begin(
    watch: &mut Watch<'_>,
    jobs: Option<&IdSet>,
    events: &mut Events<impl std::io::Write>,
) -> Result<(), HqError> {
    let states = match jobs {
        Some(_) => Vec::new(),
        None => vec![JobState::Running, JobState::Waiting, JobState::Opened],
    };
    let ClientResponse::JobList(mut list) = watch.request(ClientRequest::ListJobs { states })? else {
        return unexpected();
    };
    list.retain(|job| jobs.is_none_or(|jobs| jobs.contains(TaskId(job.job.0))));
    if list.is_empty() {
        return Ok(());
    }
    let all = only(list.iter().map(|job| job.job));
    let mut ids_in = |states: Vec<TaskState>| -> Result<BTreeMap<JobId, IdSet>, HqError> {
        match watch.request(ClientRequest::TaskIds { jobs: all.clone(), states })? {
            ClientResponse::TaskIds(ids) => Ok(ids.into_iter().collect()),
            _ => unexpected(),
        }
    };
    let mut ids = ids_in(Vec::new())?;
    let [mut finished, mut failed, mut canceled, mut aborted] = [
        ids_in(vec![TaskState::Finished])?,
        ids_in(vec![TaskState::Failed])?,
        ids_in(vec![TaskState::Canceled])?,
        ids_in(vec![TaskState::Aborted])?,
    ];
    let now = logging::now();
    for job in list {
        // One that was forgotten meanwhile has none.
        let Some(ids) = ids.remove(&job.job) else { continue };
        let of = |ids: &mut BTreeMap<JobId, IdSet>| ids.remove(&job.job).unwrap_or_default();
        let aborted = of(&mut aborted);
        let progress = JobProgress {
            is_open: job.is_open,
            finished: of(&mut finished),
            failed: of(&mut failed),
            canceled: of(&mut canceled),
            abort_reasons: if aborted.is_empty() { Vec::new() } else { vec![(aborted, String::new())] },
            cancel_reason: job.cancel_reason.clone(),
            ..JobProgress::default()
        };
        events.begin_with(now, &job, ids, progress)?;
    }
    Ok(())
}
