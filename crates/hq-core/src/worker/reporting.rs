//! What a worker has to tell the server, gathered, numbered and kept until the server has it on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hq_model::{ByteString, Entries, IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, Usage};

use crate::limits::{REPORT_RESULTS_BYTES_MAX, REPORT_TASKS_MAX, UNSAVED_REPORTS_MAX};
use crate::measures::MeasuresWriter;
use crate::object_messages::ObjectNews;
use crate::record::{Failure, FinishedSpan};
use crate::worker::words::{Words, WordsRefused};
use crate::worker_messages::{Lends, Report, Started, TaskWords};

/// What happened since the last report, and the reports that are not saved yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Reporting {
    finished: BTreeMap<Attempts, Vec<Finished>>,
    finished_count: usize,
    // What the results of these take.
    results_bytes: usize,
    // Some end is waited for by a client.
    is_awaited: bool,
    failed: Vec<(JobId, Failure)>,
    canceled: BTreeMap<JobId, IdSet>,
    returned: BTreeMap<JobId, IdSet>,
    interrupted: BTreeMap<JobId, IdSet>,
    expired: BTreeMap<JobId, IdSet>,
    started: Vec<TaskRef>,
    // Of what was ended because the server asked for it, which may not know that it ran.
    ended_starts: Vec<Started>,
    // Calls that have lent their CPUs, or have them again.
    lends: BTreeSet<TaskRef>,
    words: Words,
    unsaved: VecDeque<Report>,
    last_number: u64,
}

// Those of a job that ran as one instance and, where there are several, as one variant.
type Attempts = (JobId, Instance, Option<u32>);

#[derive(Clone, Debug)]
struct Finished {
    task: TaskId,
    start: Timestamp,
    usage: Usage,
    result: ByteString,
}

impl Reporting {
    pub(super) fn finished(
        &mut self,
        task: TaskRef,
        (instance, variant): (Instance, Option<u32>),
        start: Timestamp,
        usage: Usage,
        result: ByteString,
    ) {
        self.results_bytes += result.len();
        let finished = Finished { task: task.task, start, usage, result };
        self.finished.entry((task.job, instance, variant)).or_default().push(finished);
        self.finished_count += 1;
    }

    pub(super) fn failed(&mut self, job: JobId, failure: Failure) {
        self.failed.push((job, failure));
    }

    pub(super) fn canceled(&mut self, job: JobId, ids: &IdSet) {
        add(&mut self.canceled, job, ids);
    }

    /// It ran until it was ended because the server asked for it.
    pub(super) fn canceled_running(&mut self, start: Started) {
        self.canceled(start.job, &IdSet::single(start.task));
        self.ended_starts.push(start);
    }

    pub(super) fn returned(&mut self, job: JobId, ids: &IdSet) {
        add(&mut self.returned, job, ids);
    }

    pub(super) fn interrupted(&mut self, job: JobId, ids: &IdSet) {
        add(&mut self.interrupted, job, ids);
    }

    /// The lease of whoever had taken it was over.
    pub(super) fn expired(&mut self, task: TaskRef) {
        add(&mut self.expired, task.job, &IdSet::single(task.task));
    }

    pub(super) fn started(&mut self, task: TaskRef) {
        self.started.push(task);
    }

    /// A call has lent its CPUs, or has some again: others wait for those.
    pub(super) fn lends(&mut self, task: TaskRef) {
        self.lends.insert(task);
        self.is_awaited = true;
    }

    /// A task says something to whoever waits for its job.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn says(&mut self, words: TaskWords) -> Result<(), WordsRefused> {
        self.words.add(words)?;
        self.is_awaited = true;
        Ok(())
    }

    /// Whether the server takes words in reports.
    pub(super) fn server_hears(&mut self, hears: bool) {
        self.words.server_hears(hears);
    }

    /// Words for a server that does not take them in reports.
    pub(super) fn take_words_apart(&mut self) -> Vec<TaskWords> {
        self.words.take_apart()
    }

    /// True when something that a task has said may not be known to the server.
    pub(super) fn has_words(&self) -> bool {
        self.words.any()
    }

    /// Forgets starts: a hello has just said what runs.
    pub(super) fn starts_are_known(&mut self) {
        self.started.clear();
    }

    /// A client waits for what has ended.
    pub(super) fn await_report(&mut self) {
        self.is_awaited = true;
    }

    /// True when a client waits for some end that was not told.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// True when there is something to report.
    pub(super) fn has_news(&self) -> bool {
        self.has_ends() || !self.started.is_empty()
    }

    /// True when there is more to report than starts.
    pub(super) fn has_ends(&self) -> bool {
        self.finished_count > 0
            || !self.lends.is_empty()
            || !self.failed.is_empty()
            || !self.canceled.is_empty()
            || !self.returned.is_empty()
            || !self.interrupted.is_empty()
            || !self.expired.is_empty()
            || self.words.wait_for_report()
    }

    /// What a task has left that has finished here as this instance, and of which the server may not know yet.
    pub(super) fn left_by(&self, task: TaskRef, instance: Instance) -> Option<&[u8]> {
        let attempt = (task.job, instance);
        let of_attempt = self.finished.iter().filter(|((job, instance, _), _)| (*job, *instance) == attempt);
        let mut gathered = of_attempt.flat_map(|(_, finished)| finished);
        let spans = self.unsaved.iter().rev().flat_map(|report| &report.finished);
        let mut spans = spans.filter(|span| (span.job, span.instance) == attempt);
        let gathered = gathered.find(|finished| finished.task == task.task);
        gathered.map(|finished| finished.result.as_slice()).or_else(|| {
            spans.find_map(|span| {
                let rank = span.ids.rank(task.task)?;
                Some(span.results.get(rank as usize).unwrap_or_default())
            })
        })
    }

    /// True when a task has ended by itself, and the server may not know it yet.
    pub(super) fn has_results(&self) -> bool {
        let is_result = |report: &Report| !report.finished.is_empty() || !report.failed.is_empty();
        self.finished_count > 0 || !self.failed.is_empty() || self.unsaved.iter().any(is_result)
    }

    /// Those tasks.
    pub(super) fn results(&self) -> Vec<(JobId, IdSet)> {
        let mut results = BTreeMap::new();
        for ((job, ..), finished) in &self.finished {
            finished.iter().for_each(|one| add(&mut results, *job, &IdSet::single(one.task)));
        }
        for report in &self.unsaved {
            report.finished.iter().for_each(|span| add(&mut results, span.job, &span.ids));
        }
        let failed = self.failed.iter().chain(self.unsaved.iter().flat_map(|report| &report.failed));
        failed.for_each(|(job, failure)| add(&mut results, *job, &IdSet::single(failure.task)));
        results.into_iter().collect()
    }

    /// True when so much has ended that a report should not wait any longer.
    pub(super) fn is_full(&self) -> bool {
        self.finished_count >= REPORT_TASKS_MAX
            || self.results_bytes >= REPORT_RESULTS_BYTES_MAX
            || self.failed.len() >= REPORT_TASKS_MAX / 64
    }

    /// True when no more may be started until the server has saved some.
    pub(super) fn is_stuck(&self) -> bool {
        self.unsaved.len() >= UNSAVED_REPORTS_MAX
    }

    /// Number of the last report that is not saved; 0 when all are.
    pub(super) fn last_unsaved(&self) -> u64 {
        self.unsaved.back().map_or(0, |report| report.number)
    }

    /// The reports that are not saved, in order.
    pub(super) fn unsaved(&self) -> impl Iterator<Item = &Report> {
        self.unsaved.iter()
    }

    /// Reports up to `number` are on disk.
    pub(super) fn saved(&mut self, number: u64) {
        while self.unsaved.front().is_some_and(|report| report.number <= number) {
            let report = self.unsaved.pop_front();
            report.iter().for_each(|report| self.words.saved(&report.words));
        }
    }

    /// Tasks are handed to this worker once more, so the server knows that it had given them back. Said again
    /// after that, it would be taken for the attempt that begins now.
    pub(super) fn handed_again(&mut self, job: JobId, ids: &IdSet) {
        for report in &mut self.unsaved {
            let given_back =
                [&mut report.returned, &mut report.canceled, &mut report.interrupted, &mut report.expired];
            for given_back in given_back {
                for (_, tasks) in given_back.iter_mut().filter(|(of, _)| *of == job) {
                    tasks.subtract(ids);
                }
                given_back.retain(|(_, tasks)| !tasks.is_empty());
            }
        }
    }

    /// The number of the report that is made next.
    pub(super) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// Makes a report of what happened, keeps it, and returns it. Ends whose results have no room in it are left for the
    /// next one. `is_leaving` says that nothing new is taken, and whether what runs may end, `room`
    /// how much a relay wants, `trouble` and `output_waits` why nothing can be started now and what tasks print waits, `objects` what there is to say of these, `runs` since when and as what a task runs, if it still does, and `lends` as what it
    /// runs and whether its CPUs are lent.
    pub(super) fn make(
        &mut self,
        has_usage: bool,
        (is_leaving, is_draining): (bool, bool),
        (room, (trouble, output_waits), objects): (Option<u64>, Troubles, Option<Box<ObjectNews>>),
        runs: impl Fn(TaskRef) -> Option<(Instance, Timestamp, Option<u32>)>,
        lends: impl Fn(TaskRef) -> Option<(Instance, bool)>,
    ) -> &Report {
        self.last_number += 1;
        self.is_awaited = false;
        let started = std::mem::take(&mut self.ended_starts);
        let mut report = Report {
            number: self.last_number,
            started,
            is_leaving,
            is_draining,
            room,
            trouble,
            output_waits,
            objects,
            words: self.words.take(),
            ..Report::default()
        };
        for task in std::mem::take(&mut self.started) {
            if let Some((instance, at, variant)) = runs(task) {
                report.started.push(Started { job: task.job, task: task.task, instance, at, variant });
            }
        }
        for task in std::mem::take(&mut self.lends) {
            if let Some((instance, is_lent)) = lends(task) {
                report.lends.push(Lends { job: task.job, task: task.task, instance, is_lent });
            }
        }
        let mut room = REPORT_RESULTS_BYTES_MAX;
        while room > 0
            && let Some(((job, instance, variant), mut tasks)) = self.finished.pop_first()
        {
            tasks.sort_unstable_by_key(|finished| finished.task);
            let fit = tasks.iter().take_while(|finished| {
                let has_room = room > 0;
                room = room.saturating_sub(finished.result.len());
                has_room
            });
            let rest = tasks.split_off(fit.count());
            if !rest.is_empty() {
                self.finished.insert((job, instance, variant), rest);
            }
            self.finished_count -= tasks.len();
            self.results_bytes -= tasks.iter().map(|finished| finished.result.len()).sum::<usize>();
            let mut measures = MeasuresWriter::new(has_usage);
            for finished in &tasks {
                measures.push(finished.start, &finished.usage);
            }
            let ids = ids_of(&tasks);
            let has_results = tasks.iter().any(|finished| !finished.result.is_empty());
            let results = tasks.iter().filter(|_| has_results).map(|finished| finished.result.as_slice());
            let results = Entries::new(results).unwrap_or_default();
            let measures = measures.finish();
            report.finished.push(FinishedSpan { job, instance, ids, measures, results, variant });
        }
        report.failed = std::mem::take(&mut self.failed);
        report.canceled = std::mem::take(&mut self.canceled).into_iter().collect();
        report.returned = std::mem::take(&mut self.returned).into_iter().collect();
        report.interrupted = std::mem::take(&mut self.interrupted).into_iter().collect();
        report.expired = std::mem::take(&mut self.expired).into_iter().collect();
        self.unsaved.push_back(report);
        self.unsaved.back().unwrap_or_else(|| unreachable!("it was pushed"))
    }
}

// Why nothing can be started, and why what tasks print waits.
type Troubles = (Option<String>, Option<String>);

fn add(map: &mut BTreeMap<JobId, IdSet>, job: JobId, ids: &IdSet) {
    if !ids.is_empty() {
        map.entry(job).or_default().union_with(ids);
    }
}

// Sorted by id.
fn ids_of(tasks: &[Finished]) -> IdSet {
    let mut ids = IdSet::new();
    let mut run: Option<(u32, u32)> = None;
    for finished in tasks {
        let id = finished.task.0;
        run = match run {
            Some((first, last)) if last + 1 == id => Some((first, id)),
            Some((first, last)) => {
                ids.insert_range(first, last);
                Some((id, id))
            }
            None => Some((id, id)),
        };
    }
    if let Some((first, last)) = run {
        ids.insert_range(first, last);
    }
    ids
}
