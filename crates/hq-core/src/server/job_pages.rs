//! Pages of what is known of jobs.
//!
//! A job of many different tasks has a submit for each of them, with a program, an environment and paths of its own. A page
//! ends where it would become long, so the answer to one request is never as long as a job, and who asks about a few
//! tasks is told what these execute and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, Timestamp, WorkerId};

use super::job::{Job, SubmitState, WORKERS_MAX};
use super::machine::{Answer, Server};
use crate::client_messages::{ClientResponse, JobBudget, JobDetail, JobPage, PageStart, SubmitInfo};

/// What a job and a submit cost of a page beside their texts.
const ITEM_BYTES: usize = 256;

// What goes into a page.
struct Room {
    // All at once, with what tasks read.
    is_whole: bool,
    bytes_left: usize,
}

impl Server {
    /// All about these jobs at once, or a page of about so many bytes.
    pub(super) fn job_info(
        &self,
        now: Timestamp,
        jobs: &Selector,
        page: Option<&JobPage>,
        page_bytes: usize,
    ) -> Answer {
        let (tasks, from) = page.map_or((None, None), |page| (page.tasks.as_ref(), page.from));
        let mut room = Room { is_whole: page.is_none(), bytes_left: page_bytes };
        let (mut details, mut whole) = (Vec::new(), Vec::new());
        let mut next = None;
        for id in self.select_jobs(jobs)? {
            let place = match from {
                Some(from) if id < from.job => continue,
                Some(from) if id == from.job => from.place,
                _ => 0,
            };
            if room.is_used_up() && !details.is_empty() {
                next = Some(PageStart::of(id));
                break;
            }
            let job = &self.state.jobs[&id];
            if tasks.is_none() && place == 0 {
                whole.push(id);
            }
            let (submits, more) = match tasks {
                None => submits_from(job, place, &mut room),
                Some(tasks) => submits_of(job, tasks, place, &mut room),
            };
            details.push(self.job_detail(id, job, submits));
            if let Some(place) = more {
                next = Some(PageStart { job: id, place });
                break;
            }
        }
        let unrunnable = self.unrunnable(now, &whole);
        let ending = self.ending_of_jobs();
        for detail in &mut details {
            let ending_of = |ending: &BTreeMap<JobId, u64>| ending.get(&detail.summary.job).copied();
            detail.ending = ending.as_ref().map(|ending| ending_of(ending).unwrap_or_default());
            detail.summary.unrunnable = unrunnable.get(&detail.summary.job).copied().unwrap_or_default();
        }
        Ok(ClientResponse::JobDetails { jobs: details, next, now: Some(now) })
    }

    fn job_detail(&self, id: JobId, job: &Job, submits: Vec<SubmitInfo>) -> JobDetail {
        JobDetail {
            feed: job.feed.is_some().then(|| Box::new(self.feed_state(id))),
            summary: self.summary(id, job),
            max_fails: job.spec.max_fails,
            share: job.spec.share,
            budget: job.spec.budget.map(|_| JobBudget { limit: job.budget, used: job.node_time() }),
            submitted: job.submitted,
            ended: job.has_ended().then_some(job.last_end),
            submits,
            usage: job.usage,
            workers: self.workers_of(id, job),
            notices: self.notice_infos(id, job),
            ending: None,
        }
    }

    // What was canceled or given up counts as ended at once, while its programs have their grace: how many of such tasks
    // workers have. Nothing, where some may be on workers that are away.
    fn ending_of_jobs(&self) -> Option<BTreeMap<JobId, u64>> {
        if self.live.values().any(|live| live.connection.is_none() && !live.is_relay) {
            return None;
        }
        let mut ending: BTreeMap<JobId, IdSet> = BTreeMap::new();
        for (template, held) in self.live.values().flat_map(|live| live.held()) {
            let Some(job) = self.state.jobs.get(&template.job) else { continue };
            for over in [&job.canceled, &job.aborted] {
                let here = held.ids.intersection(over);
                if !here.is_empty() {
                    ending.entry(template.job).or_default().union_with(&here);
                }
            }
        }
        Some(ending.into_iter().map(|(job, ids)| (job, ids.len())).collect())
    }

    // Those that ended tasks of a job, and those on which some run.
    fn workers_of(&self, id: JobId, job: &Job) -> Vec<WorkerId> {
        let mut workers = job.workers.clone();
        for (task, run) in self.running.of_job(id) {
            workers.insert(run.worker);
            workers.extend(job.nodes.get(task).into_iter().flatten());
        }
        workers.into_iter().take(WORKERS_MAX).collect()
    }
}

// The submits from that one on, and the first one that has no room.
fn submits_from(job: &Job, first: u32, room: &mut Room) -> (Vec<SubmitInfo>, Option<u32>) {
    room.take(ITEM_BYTES + 4 * job.workers.len());
    let mut submits = Vec::new();
    for (index, submit) in job.submits.iter().enumerate().skip(first as usize) {
        if room.is_used_up() && !submits.is_empty() {
            return (submits, Some(index as u32));
        }
        submits.push(room.put(index as u32, submit, submit.ids.clone()));
    }
    (submits, None)
}

// The submits of those of these tasks that do not come before `first`, in the order of the tasks, and the first task
// that has no room.
fn submits_of(job: &Job, tasks: &IdSet, first: u32, room: &mut Room) -> (Vec<SubmitInfo>, Option<u32>) {
    room.take(ITEM_BYTES + 4 * job.workers.len());
    let (mut submits, mut told) = (Vec::new(), BTreeSet::new());
    for range in tasks.ranges().filter(|range| *range.end() >= first) {
        for (ids, index) in job.owners_in((*range.start()).max(first)..=*range.end()) {
            if !told.insert(index) {
                continue;
            }
            if room.is_used_up() && !submits.is_empty() {
                return (submits, Some(*ids.start()));
            }
            let submit = &job.submits[index as usize];
            submits.push(room.put(index, submit, submit.ids.intersection(tasks)));
        }
    }
    (submits, None)
}

impl Room {
    fn is_used_up(&self) -> bool {
        !self.is_whole && self.bytes_left == 0
    }

    fn take(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    fn put(&mut self, index: u32, submit: &SubmitState, ids: IdSet) -> SubmitInfo {
        let stdin_bytes = submit.task.stdin.len();
        let texts = submit.task.bytes() - stdin_bytes + submit.submit_dir.len();
        self.take(ITEM_BYTES + texts + 8 * ids.range_count());
        let leaves_out = !self.is_whole && stdin_bytes > 0;
        let spec = if leaves_out { Arc::new(submit.task.without_stdin()) } else { submit.task.clone() };
        let (submit_dir, submitted) = (submit.submit_dir.clone(), submit.submitted);
        SubmitInfo { index, ids, spec, stdin_bytes: stdin_bytes as u64, submit_dir, submitted }
    }
}
