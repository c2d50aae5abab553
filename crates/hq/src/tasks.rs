//! Tasks of jobs as a stream: read from the server a page at a time, so that a list of a million needs the memory of a page.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::iter::Peekable;
use std::rc::Rc;
use std::sync::Arc;

use hq_client::ClientError;
use hq_client::limits::TASK_PAGE;
use hq_core::client_messages::{AlikeTasks, ClientRequest, ClientResponse, SubmitInfo, TaskInfo};
use hq_core::record::FailureKind;
use hq_model::paths::{PathTemplates, Place, TaskPaths};
use hq_model::selector::Selector;
use hq_model::{Channel, Entry, IdSet, JobId, OnClose, TaskId, TaskRef, TaskSpec, TaskState, Timestamp};

use crate::error::HqError;
use crate::jobs::{JobPages, ServerJobs, SharedSession, only};
use crate::logging;

/// Some tasks: told one by one, ascending, and told together.
#[derive(Default)]
pub(crate) struct Page {
    /// One by one.
    pub tasks: Vec<(JobId, TaskInfo)>,
    /// Together.
    pub groups: Vec<AlikeTasks>,
    /// The submits that they came with, if these were asked for.
    pub submits: Submits,
}

/// Submits by job and place.
pub(crate) type Submits = BTreeMap<(JobId, u32), Rc<TaskSubmit>>;

/// What tasks of one submit have in common.
pub(crate) struct TaskSubmit {
    /// What they execute.
    pub spec: Arc<TaskSpec>,
    /// Where their files are.
    pub paths: PathTemplates,
}

impl TaskSubmit {
    /// Of a submit to a server of this name.
    pub(crate) fn new(submit: SubmitInfo, server_uid: &str) -> TaskSubmit {
        let paths = PathTemplates::new(&submit.spec, &submit.submit_dir, server_uid);
        TaskSubmit { spec: submit.spec, paths }
    }
}

/// Where pages come from.
pub(crate) trait Pages {
    /// The next page, all of it behind the one before; `None` after the last one.
    fn next_page(&mut self) -> Result<Option<Page>, HqError>;

    /// The time of the server when it told the latest page, if it says.
    fn now(&self) -> Option<Timestamp> {
        None
    }

    /// The last task of the latest page, if there are more behind it.
    fn after(&self) -> Option<TaskRef> {
        None
    }
}

/// Pages of a server.
pub(crate) struct ServerPages {
    session: SharedSession,
    jobs: Selector,
    tasks: Option<IdSet>,
    states: Vec<TaskState>,
    after: Option<TaskRef>,
    now: Option<Timestamp>,
    limit: u32,
    grouped: bool,
    with_entries: bool,
    is_single: bool,
    is_done: bool,
    // Those of the page before, if they are wanted; all those of servers that tell all or nothing.
    submits: Option<Submits>,
    keeps_submits: bool,
}

impl ServerPages {
    /// Tasks of these jobs: only `tasks`, only those in `states` (all when empty). What they wait for is left out, and what
    /// they execute.
    pub(crate) fn new(
        session: SharedSession,
        jobs: &[JobId],
        tasks: Option<IdSet>,
        states: Vec<TaskState>,
    ) -> ServerPages {
        ServerPages {
            session,
            jobs: only(jobs.iter().copied()),
            tasks,
            states,
            after: None,
            now: None,
            limit: TASK_PAGE,
            grouped: true,
            with_entries: false,
            is_single: false,
            is_done: jobs.is_empty(),
            submits: None,
            keeps_submits: false,
        }
    }

    /// With what they execute and where their files are.
    pub(crate) fn with_submits(self) -> ServerPages {
        ServerPages { submits: Some(Submits::new()), ..self }
    }

    /// With what they wait for.
    pub(crate) fn with_waits(self) -> ServerPages {
        ServerPages { grouped: false, ..self }
    }

    /// With their entries.
    pub(crate) fn with_entries(self) -> ServerPages {
        ServerPages { with_entries: true, ..self }
    }

    /// Only one page: so many tasks behind this one.
    pub(crate) fn single(self, after: Option<TaskRef>, limit: u32) -> ServerPages {
        ServerPages { after, limit, grouped: false, is_single: true, ..self }
    }

    // The submits of these tasks: those of the page before need not be asked for.
    fn submits_of(&mut self, tasks: &[(JobId, TaskInfo)], groups: &[AlikeTasks]) -> Result<Submits, HqError> {
        let Some(known) = &mut self.submits else { return Ok(Submits::new()) };
        let singly = tasks.iter().map(|(job, task)| ((*job, task.submit), task.task));
        let together = groups
            .iter()
            .filter_map(|group| group.ids.first().map(|task| ((group.job, group.common.submit), task)));
        let needed: BTreeMap<(JobId, u32), TaskId> = singly.chain(together).collect();
        let missing = || needed.iter().filter(|(submit, _)| !known.contains_key(submit));
        let jobs: BTreeSet<JobId> = missing().map(|((job, _), _)| *job).collect();
        if !jobs.is_empty() {
            let ids: IdSet = missing().map(|(_, task)| *task).collect();
            let server_uid = self.session.borrow().server_uid().to_owned();
            let mut pages = ServerJobs::new(Rc::clone(&self.session), only(jobs)).of_tasks(ids.clone());
            while let Some(page) = pages.next_page()? {
                for job in page {
                    let id = job.summary.job;
                    for submit in job.submits {
                        self.keeps_submits |= !submit.ids.iter().all(|task| ids.contains(task));
                        let index = submit.index;
                        known.insert((id, index), Rc::new(TaskSubmit::new(submit, &server_uid)));
                    }
                }
            }
        }
        if !self.keeps_submits {
            known.retain(|submit, _| needed.contains_key(submit));
        }
        Ok(known.clone())
    }
}

impl Pages for ServerPages {
    fn next_page(&mut self) -> Result<Option<Page>, HqError> {
        if self.is_done {
            return Ok(None);
        }
        let request = ClientRequest::ListTasks {
            jobs: self.jobs.clone(),
            tasks: self.tasks.clone(),
            states: self.states.clone(),
            after: self.after,
            limit: self.limit,
            grouped: self.grouped,
            with_entries: self.with_entries,
        };
        let ClientResponse::Tasks { tasks, groups, next, now } =
            self.session.borrow_mut().request(request)?
        else {
            return Err(ClientError::Unexpected.into());
        };
        self.now = now;
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.after {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = next.is_none() || self.is_single;
        self.after = next;
        let submits = self.submits_of(&tasks, &groups)?;
        Ok(Some(Page { tasks, groups, submits }))
    }

    fn now(&self) -> Option<Timestamp> {
        self.now
    }

    fn after(&self) -> Option<TaskRef> {
        self.after
    }
}

/// A stream of tasks, job by job.
pub(crate) struct TaskStream {
    pages: Box<dyn Pages>,
    page: Merged,
    submits: Submits,
    // Those that are told alike come together.
    is_together: bool,
    // Those that came with the one that was told last.
    alike: Option<IdSet>,
}

impl TaskStream {
    /// A stream of these pages, of which the first is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(pages: impl Pages + 'static) -> Result<TaskStream, HqError> {
        TaskStream::of(pages, false)
    }

    /// The same, where tasks that differ in nothing but their ids come as the first of them: [`TaskStream::alike`] says which
    /// these are.
    pub(crate) fn together(pages: impl Pages + 'static) -> Result<TaskStream, HqError> {
        TaskStream::of(pages, true)
    }

    fn of(mut pages: impl Pages + 'static, is_together: bool) -> Result<TaskStream, HqError> {
        let mut first = pages.next_page()?.unwrap_or_default();
        let submits = std::mem::take(&mut first.submits);
        let page = Merged::new(first, is_together);
        Ok(TaskStream { pages: Box::new(pages), page, submits, is_together, alike: None })
    }

    /// All tasks that the one stands for that was told last; `None` where that is itself.
    pub(crate) fn alike(&self) -> Option<&IdSet> {
        self.alike.as_ref()
    }

    /// The time of the server when it told the latest page; that of this machine where it does not say.
    pub(crate) fn now(&self) -> Timestamp {
        self.pages.now().unwrap_or_else(logging::now)
    }

    /// The last task of the latest page, if there are more behind it.
    pub(crate) fn after(&self) -> Option<TaskRef> {
        self.pages.after()
    }

    /// The next task of that job, `None` when the stream has gone on to a later one or ended.
    pub(crate) fn next_of(&mut self, job: JobId) -> Result<Option<TaskInfo>, HqError> {
        loop {
            match self.page.next_job() {
                Some(next) if next == job => {
                    let next = self.page.next();
                    return Ok(next.map(|(task, alike)| {
                        self.alike = alike;
                        task
                    }));
                }
                Some(_) => return Ok(None),
                None => match self.pages.next_page()? {
                    Some(mut page) => {
                        self.submits = std::mem::take(&mut page.submits);
                        self.page = Merged::new(page, self.is_together);
                    }
                    None => return Ok(None),
                },
            }
        }
    }

    /// What the task that was told last executes, if that was asked for.
    pub(crate) fn submit_of(&self, job: JobId, task: &TaskInfo) -> Option<&TaskSubmit> {
        self.submits.get(&(job, task.submit)).map(Rc::as_ref)
    }

    /// Where a task prints this output, if that is kept: as its present or last instance.
    pub(crate) fn place_of(&self, job: JobId, task: &TaskInfo, channel: Channel) -> Option<Place> {
        let entry = task.entry.as_deref().map(Entry::new);
        let of = TaskRef::new(job, task.task);
        self.submit_of(job, task)?.paths.place(channel, of, task.instance, entry.as_ref())
    }

    /// Why there may be nothing where a task prints.
    pub(crate) fn why_gone(&self, job: JobId, task: &TaskInfo, channel: Channel) -> Option<Gone> {
        let on_close = self.submit_of(job, task).map(|submit| submit.spec.sink(channel).on_close());
        match on_close.unwrap_or_default() {
            _ if task.started.is_none() || task.state == TaskState::Waiting => Some(Gone::NeverStarted),
            // It failed before its files were made.
            _ if task.failure == Some(FailureKind::Start) => Some(Gone::NeverStarted),
            OnClose::RemoveIfFinished if task.state == TaskState::Finished => Some(Gone::Removed),
            OnClose::Keep | OnClose::RemoveIfFinished => None,
            OnClose::RemoveIfEmpty => Some(Gone::Empty),
        }
    }

    /// The files of the task that was told last, if they were asked for: of its present or last instance.
    pub(crate) fn paths_of(&self, job: JobId, task: &TaskInfo) -> Option<TaskPaths> {
        let submit = self.submit_of(job, task)?;
        let entry = task.entry.as_deref().map(Entry::new);
        Some(submit.paths.expand(TaskRef::new(job, task.task), task.instance, entry.as_ref()))
    }
}

/// Why there may be nothing where a task prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It has not begun.
    NeverStarted,
    /// It finished, and was to be removed then.
    Removed,
    /// It was to be removed if there is nothing in it.
    Empty,
}

// A task, and those that are told with it, where they are several.
type Told = (JobId, TaskInfo, Option<IdSet>);
type Source = Peekable<Box<dyn Iterator<Item = Told>>>;

// The tasks of a page, ascending, made one by one.
struct Merged {
    sources: Vec<Source>,
    // What each source has next.
    heads: BinaryHeap<Reverse<(JobId, TaskId, usize)>>,
}

impl Merged {
    fn new(page: Page, is_together: bool) -> Merged {
        let alone: Box<dyn Iterator<Item = Told>> =
            Box::new(page.tasks.into_iter().map(|(job, task)| (job, task, None)));
        let mut sources = vec![alone.peekable()];
        for group in page.groups {
            let job = group.job;
            // Where each has times of its own, they are told one by one.
            let is_one = is_together && group.measures.is_none() && group.ids.len() > 1;
            let tasks: Box<dyn Iterator<Item = Told>> = match group.ids.first().filter(|_| is_one) {
                Some(task) => {
                    let first = TaskInfo { task, ..group.common };
                    Box::new(std::iter::once((job, first, Some(group.ids))))
                }
                None => Box::new(group.into_tasks().map(move |task| (job, task, None))),
            };
            sources.push(tasks.peekable());
        }
        let mut merged = Merged { sources, heads: BinaryHeap::new() };
        (0..merged.sources.len()).for_each(|source| merged.queue(source));
        merged
    }

    fn queue(&mut self, source: usize) {
        if let Some((job, task, _)) = self.sources[source].peek() {
            self.heads.push(Reverse((*job, task.task, source)));
        }
    }

    fn next_job(&self) -> Option<JobId> {
        self.heads.peek().map(|Reverse((job, ..))| *job)
    }

    fn next(&mut self) -> Option<(TaskInfo, Option<IdSet>)> {
        let Reverse((.., source)) = self.heads.pop()?;
        let (_, task, alike) = self.sources[source].next()?;
        self.queue(source);
        Some((task, alike))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::render::tests::task;

    struct Given(VecDeque<Page>);

    impl Pages for Given {
        fn next_page(&mut self) -> Result<Option<Page>, HqError> {
            Ok(self.0.pop_front())
        }
    }

    fn pages() -> Given {
        let group = |job, ids: &str, state| AlikeTasks {
            job: JobId(job),
            ids: ids.parse().expect("ids"),
            common: task(0, state),
            measures: None,
        };
        let first = Page {
            tasks: vec![(JobId(1), task(2, TaskState::Running)), (JobId(2), task(0, TaskState::Failed))],
            groups: vec![
                group(1, "5-6,9", TaskState::Waiting),
                group(1, "1,7", TaskState::Canceled),
                group(2, "1", TaskState::Waiting),
            ],
            ..Page::default()
        };
        let last = Page { groups: vec![group(2, "4-5", TaskState::Aborted)], ..Page::default() };
        Given([first, Page::default(), last].into())
    }

    fn told(mut stream: TaskStream) -> String {
        let mut all = Vec::new();
        for job in [1, 2, 3] {
            while let Some(task) = stream.next_of(JobId(job)).expect("pages") {
                let ids = stream.alike().map_or(task.task.to_string(), ToString::to_string);
                all.push(format!("{job}@{ids} {}", task.state.word()));
            }
        }
        all.join(", ")
    }

    #[test]
    fn what_is_told_together_comes_in_order() {
        let expected = "1@1 canceled, 1@2 running, 1@5 waiting, 1@6 waiting, 1@7 canceled, 1@9 waiting, \
                        2@0 failed, 2@1 waiting, 2@4 aborted, 2@5 aborted";
        assert_eq!(told(TaskStream::begin(pages()).expect("pages")), expected);
    }

    #[test]
    fn what_is_alike_comes_together_where_that_is_asked_for() {
        let expected = "1@1,7 canceled, 1@2 running, 1@5-6,9 waiting, 2@0 failed, 2@1 waiting, 2@4-5 aborted";
        assert_eq!(told(TaskStream::together(pages()).expect("pages")), expected);
    }
}
