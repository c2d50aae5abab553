//! How much memory a message or record takes, roughly and quickly: what bounded queues count.
//!
//! Every kind is counted with all that it holds, so that no kind of message can fill the memory while it counts
//! as little. What is shared counts as if it were not.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::alloc::AllocRecord;
use hq_core::alloc::decisions::Decision;
use hq_core::alloc::messages::{
    AllocResponse, AllocationInfo, DemandLine, QueueExplanation, QueueInfo, QueueStatus,
};
use hq_core::attempt::PastAttempt;
use hq_core::cause::{Aborted, FailureCause, JobFailures};
use hq_core::client_messages::{
    AlikeTasks, ClientResponse, JobDetail, JobEnds, JobResults, JobSummary, NoticeInfo, ServerInfo,
    SubmitInfo, TaskInfo, WorkerInfo,
};
use hq_core::explanation::{JobExplanation, Lack, Reason, TaskExplanation, TaskGroup, WorkerMatch};
use hq_core::feed::{Feed, FeedChange, FeedState};
use hq_core::limit_value::LimitValue;
use hq_core::log::Written;
use hq_core::object_messages::{ObjectChange, ObjectEnd, ObjectSource, ObjectState, ObjectView, TaskObjects};
use hq_core::record::{Failure, FinishedSpan, JobProgress, NoticeChange, Outlasted, Record, SecondAttempt};
use hq_core::task_use::TaskUse;
use hq_core::worker_messages::{CallInput, RunBatch, TaskNode, Template, ToWorker, WorkerEnd};
use hq_model::allocation::{AllocationEnd, BatchState, PauseCause, QueueParams};
use hq_model::dependency::After;
use hq_model::notice::{Told, ToldEnd};
use hq_model::resources::Coupling;
use hq_model::sample::GpuSample;
use hq_model::worker::{Manager, SpillConfig, StoreConfig, WorkerConfig};
use hq_model::{
    Amount, Body, Dependencies, Entries, IdSet, Instance, JobId, JobSpec, JobState, NodeSample, NoticeRule,
    NoticeTarget, ObjectId, OutputSink, PoolKind, Request, ResourcePool, ResourceRequest, Stream, TaskId,
    TaskRef, TaskSpec, Timestamp, WorkerId, WorkerResources,
};

/// What anything takes at least, in bytes: the message itself, and its place in queues.
const LEAST: usize = 256;

/// Bytes of an answer.
pub(crate) fn of_response(response: &ClientResponse) -> usize {
    use ClientResponse as Is;
    let more = match response {
        Is::Done | Is::WatchEnded => 0,
        // Its text has all that it holds.
        Is::Error(error) => error.to_string().len(),
        Is::Partly { refused, rest } => {
            refused.iter().map(|error| LEAST + error.to_string().len()).sum::<usize>() + of_response(rest)
        }
        Is::ServerInfo(info) => info.heap(),
        Is::Submitted { ids, existing, warnings, .. } => ids.heap() + existing.heap() + warnings.heap(),
        Is::JobsSubmitted { jobs, warnings } => jobs.heap() + warnings.heap(),
        Is::Jobs(jobs) => jobs.heap(),
        Is::JobList(jobs) | Is::Progress(jobs) => jobs.heap(),
        Is::JobCounts(counts) => counts.heap(),
        Is::ObjectGiven(copy) => of_object_id(&copy.object),
        Is::Objects(page) => page.objects.iter().map(of_object_view).sum::<usize>() + LEAST,
        Is::Overview(overview) => {
            size_of_val(overview.as_ref())
                + overview.resources.len() * LEAST
                + size_of_val(overview.jobs.as_slice())
                + overview.uid.heap()
                + overview.version.heap()
        }
        Is::JobShape(shape) => {
            size_of_val(shape.as_ref())
                + size_of_val(shape.layers.as_slice())
                + size_of_val(shape.timeline.bars.as_slice())
                + size_of_val(shape.slowest.as_slice())
        }
        Is::Load(history) => size_of_val(history.as_ref()) + size_of_val(history.points.as_slice()),
        Is::JobDetails { jobs, .. } => jobs.heap(),
        Is::Canceled(jobs) => jobs.heap(),
        Is::Tasks { tasks, groups, .. } => tasks.heap() + groups.heap(),
        Is::TaskIds(jobs) => jobs.heap(),
        Is::Explained(explanation) => explanation.heap(),
        Is::ExplainedJobs(jobs) => jobs.heap(),
        Is::Failures { jobs, .. } => jobs.heap(),
        Is::Results { jobs, .. } => jobs.heap(),
        Is::Feed(state) => state.heap(),
        Is::Ends(ends) => {
            ends.heap() + ends.failed.iter().map(|failed| LEAST + failed.2.heap()).sum::<usize>()
        }
        Is::Output(output) => output.bytes.heap(),
        Is::Notification { text, .. } => text.heap(),
        Is::Workers(workers) => workers.heap(),
        Is::WorkersStopped { workers, away, stopping, alone, alone_count: _ } => {
            workers.heap() + away.heap() + stopping.heap() + of_object_ids(alone)
        }
        Is::Alloc(response) => of_alloc_response(response),
        Is::Events { records, .. } => records.iter().map(|(_, record)| of_record(record)).sum(),
    };
    LEAST + more
}

fn of_alloc_response(response: &AllocResponse) -> usize {
    match response {
        AllocResponse::Added(_) => 0,
        AllocResponse::Queues(queues) => queues.heap(),
        AllocResponse::Details { queue, allocations } => queue.heap() + allocations.heap(),
        AllocResponse::Found(allocation) => allocation.heap(),
        AllocResponse::Explained(explanation) => explanation.heap(),
    }
}

/// Bytes of a message to a worker.
pub(crate) fn of_worker_message(message: &ToWorker) -> usize {
    let more = match message {
        ToWorker::Welcome(welcome) => welcome.server_uid.heap(),
        ToWorker::Run(batches) => batches.iter().map(of_batch).sum(),
        ToWorker::Cancel { ids, .. } | ToWorker::Retract { ids, .. } => ids.heap(),
        ToWorker::Logged { written: Written::NoRoom(text) | Written::Refused(text), .. } => text.heap(),
        // A name has at most as many bytes as anything is thought to take.
        ToWorker::TakeFile { object, file, is_dir: _ } => of_object_id(object) + file.heap(),
        ToWorker::FreeObjects(objects) => of_object_ids(objects),
        ToWorker::BringObjects(sources) => sources.iter().map(of_source).sum(),
        ToWorker::GuardObjects { guard, release } => of_object_ids(guard) + of_object_ids(release),
        ToWorker::Saved { .. }
        | ToWorker::Weighed { .. }
        | ToWorker::Stop { .. }
        | ToWorker::Logged { .. }
        | ToWorker::ReadOutput(_)
        | ToWorker::Relay { .. }
        | ToWorker::DropRead { .. } => 0,
    };
    LEAST + more
}

/// Bytes of some tasks for a worker.
pub(crate) fn of_batch(batch: &RunBatch) -> usize {
    let content = batch.content.as_ref().map_or(0, Heap::heap);
    LEAST
        + content
        + batch.ids.heap()
        + batch.entries.heap()
        + batch.services.heap()
        + batch.nodes.heap()
        + batch.inputs.heap()
        + batch.objects.iter().map(of_objects).sum::<usize>()
}

/// Bytes of the objects that a task takes.
fn of_object_id(object: &ObjectId) -> usize {
    LEAST + object.name.as_str().len()
}

fn of_object_ids(objects: &[ObjectId]) -> usize {
    objects.iter().map(of_object_id).sum()
}

fn of_object_end(end: &ObjectEnd) -> usize {
    match end {
        ObjectEnd::Dropped => 0,
        ObjectEnd::Lost(text) => text.len(),
    }
}

fn of_object_view(view: &ObjectView) -> usize {
    let end = match &view.state {
        ObjectState::Gone(end) => of_object_end(end),
        ObjectState::Lost { words, .. } => words.len(),
        ObjectState::Awaited | ObjectState::Stored => 0,
    };
    let object = of_object_id(&view.copy.object);
    object + view.holders.heap() + view.readers.len() * size_of::<JobId>() + end
}

/// Bytes of what some tasks take.
fn of_source(source: &ObjectSource) -> usize {
    LEAST + source.path.heap() + source.holders.heap()
}

pub(crate) fn of_objects(objects: &TaskObjects) -> usize {
    LEAST + objects.tasks.heap() + objects.inputs.iter().map(of_source).sum::<usize>()
}

/// Bytes of a record.
pub(crate) fn of_record(record: &Record) -> usize {
    use Record as Is;
    let more = match record {
        Is::JobClosed { .. }
        | Is::JobLeft { .. }
        | Is::Budget { .. }
        | Is::JobForgotten { .. }
        | Is::Speculated { .. }
        | Is::AttemptDropped { .. }
        | Is::WorkerEnded { .. }
        | Is::WorkerForgotten { .. }
        | Is::IdsGiven { .. } => 0,
        Is::Together { records } => records.iter().map(of_record).sum(),
        Is::Feed { change, .. } => {
            size_of_val(change.as_ref())
                + match change.as_ref() {
                    FeedChange::Made { .. } | FeedChange::GivenUp(_) => 0,
                    FeedChange::Fed { cursor, .. } => cursor.heap(),
                    FeedChange::Reduced { ids, state, .. } => ids.heap() + state.heap(),
                }
        }
        Is::Objects(change) => {
            size_of_val(change.as_ref())
                + match change.as_ref() {
                    ObjectChange::Stored(copies) => {
                        copies.iter().map(|copy| of_object_id(&copy.object)).sum()
                    }
                    ObjectChange::Kept(objects) | ObjectChange::Released(objects) => of_object_ids(objects),
                    ObjectChange::Gone { objects, why } => of_object_ids(objects) + of_object_end(why),
                }
        }
        Is::LoadKept { point } => size_of_val(point.as_ref()),
        Is::TimeSkipped { gaps } => gaps.heap(),
        Is::ResultsKept { ids, results, .. } => ids.heap() + results.heap(),
        Is::ServerStarted { uid, release, .. } => uid.heap() + release.heap(),
        Is::JobOpened { spec, .. } => spec.heap(),
        Is::Submitted { spec, ids, entries, entries_gone, keys, dependencies, task, submit_dir, .. } => {
            spec.heap()
                + ids.heap()
                + boxed(entries_gone.as_ref())
                + entries.heap()
                + keys.heap()
                + boxed(dependencies.as_ref())
                + boxed(task.as_ref())
                + submit_dir.heap()
        }
        Is::Leased { ids, .. }
        | Is::Returned { ids, .. }
        | Is::EntriesDropped { ids, .. }
        | Is::Restarted { ids, .. }
        | Is::Answered { ids, .. } => ids.heap(),
        Is::Canceled { ids, reason, .. } => ids.heap() + reason.heap(),
        Is::Aborted { ids, reason, .. } => ids.heap() + reason.heap(),
        Is::LeasedNodes { workers, .. } => workers.heap(),
        Is::Deferred { after, .. } => after.heap(),
        Is::FilesFound { files, .. } => files.heap(),
        Is::Notice { change: NoticeChange::Due(notice), .. } => notice.bytes(),
        Is::Notice { change: NoticeChange::GivenUp(error), .. } => error.heap(),
        Is::Notice { change: NoticeChange::Sent, .. } => 0,
        Is::ServiceReady { text, .. } => text.heap(),
        Is::Finished { span, .. } => span.heap(),
        Is::DetailKept { span, nodes, .. } => span.heap() + nodes.heap(),
        Is::EndedEarly { attempts, .. } => attempts.heap(),
        Is::AttemptsEnded { attempts, .. } => attempts.heap(),
        Is::Failed { failure, .. } | Is::FailureKept { failure, .. } => failure.heap(),
        Is::WorkerJoined { config, .. } => config.heap(),
        Is::WorkerSampled { sample, .. } => boxed(sample.as_ref()),
        Is::JobKept { progress, .. } => progress.heap(),
        Is::Alloc(record) => size_of::<AllocRecord>() + of_alloc_record(record),
    };
    LEAST.max(size_of::<Record>()) + more
}

fn of_alloc_record(record: &AllocRecord) -> usize {
    use AllocRecord as Is;
    match record {
        Is::QueueResumed { .. }
        | Is::QueueDrained { .. }
        | Is::QueueRemoved { .. }
        | Is::Started { .. }
        | Is::Measured { .. }
        | Is::Requeued { .. }
        | Is::QueueIdGiven { .. } => 0,
        Is::QueueAdded { params, .. } | Is::QueueEdited { params, .. } => params.heap(),
        Is::QueuePaused { cause, .. } => cause.heap(),
        Is::ShapeLearned { resources, .. } => resources.heap(),
        Is::Planned { directory, .. } => directory.heap(),
        Is::Submitted { batch_id, .. } => batch_id.heap(),
        Is::Ended { end, .. } => end.heap(),
        Is::QueueKept { state, .. } => {
            let known = state.known.as_ref().map_or(0, |(resources, _)| resources.heap());
            let paused = state.paused.as_ref().map_or(0, |(_, cause)| cause.heap());
            // Its allocations are records of their own.
            size_of_val(state.as_ref()) + boxed(state.params.as_ref()) + known + paused
        }
        Is::AllocationKept { state, .. } => {
            let ended = state.ended.as_ref().map_or(0, |(_, end)| end.heap());
            // The nodes of a tree have places for eleven.
            let connected = state.connected.len().next_multiple_of(11) * 2 * size_of::<WorkerId>();
            size_of_val(state.as_ref()) + state.directory.heap() + state.batch_id.heap() + connected + ended
        }
    }
}

/// Bytes of a template.
pub(crate) fn of_task(task: &TaskSpec) -> usize {
    task.heap()
}

/// Memory behind a value, which the size of its type does not count.
trait Heap {
    /// True when there never is any.
    const IS_FLAT: bool = false;
    fn heap(&self) -> usize;
}

// A value that is allocated by itself.
fn boxed<T: Heap>(value: &T) -> usize {
    // With the two counts of an `Arc`.
    size_of::<T>() + 2 * size_of::<usize>() + value.heap()
}

macro_rules! flat {
    ($($type:ty),*) => {$(
        impl Heap for $type {
            const IS_FLAT: bool = true;
            fn heap(&self) -> usize { 0 }
        }
    )*};
}

macro_rules! sum_of {
    ($($type:ty: $($field:ident)*;)*) => {$(
        impl Heap for $type {
            fn heap(&self) -> usize { 0 $(+ self.$field.heap())* }
        }
    )*};
}

flat!(u8, u16, u32, u64, usize, JobId, TaskId, WorkerId, Instance, Timestamp, TaskRef, JobState, Manager);
flat!(Amount, WorkerEnd, Outlasted, SecondAttempt, hq_core::alloc::ShapeSource);

sum_of! {
    ServerInfo: uid version client_host worker_host server_dir journal journal_trouble stop_waits limits;
    JobSummary: name cancel_reason stalled;
    JobDetail: summary submits workers feed notices;
    NoticeInfo: rule told trouble;
    NoticeRule: target;
    Told: end;
    ToldEnd: error;
    TaskInfo: error dependencies key nodes load attempts;
    AlikeTasks: ids common measures;
    WorkerInfo: config taken sample;
    NodeSample: cpus gpus;
    GpuSample: id;
    WorkerConfig: resources hostname group work_dir listen_address allocation object_store;
    StoreConfig: dir spill;
    SpillConfig: dir;
    WorkerResources: pools coupling;
    ResourcePool: name kind;
    Coupling: left right;
    TaskExplanation: reasons workers;
    JobExplanation: reasons groups;
    TaskGroup: ids reasons;
    Reason: text;
    WorkerMatch: variants;
    QueueInfo: params status known over_budget;
    QueueParams: name manager manager_args worker_args resources start_command stop_command wrap_command;
    AllocationInfo: batch_id detail connected ended seen directory;
    QueueExplanation: queue next facts demand decisions;
    DemandLine: request why_not;
    Decision: text;
    TaskNode: hostname address;
    JobSpec: name notices directory;
    After: tasks key;
    FinishedSpan: ids measures results;
    Failure: error nodes result;
    PastAttempt: nodes error;
    CallInput: result;
    FeedState: feed entries;
    Feed: cursor state reduced;
    JobEnds: finished canceled aborted ids results;
    JobProgress: cancel_reason leased finished failed canceled too_late abort_reasons instances crashes retries delayed workers
        seconds deferred ready files nodes causes outlasted feed told;
    FailureCause: text workers first_error;
    JobFailures: causes aborted first_stderr;
    Aborted: reason;
    JobResults: ids results texts failed dropped without;
    Request: resources;
    ResourceRequest: name;
}

impl Heap for NoticeTarget {
    fn heap(&self) -> usize {
        hq_model::notice::target_bytes(self)
    }
}

impl Heap for TaskUse {
    fn heap(&self) -> usize {
        size_of_val(self.points.as_slice())
    }
}

impl Heap for SubmitInfo {
    fn heap(&self) -> usize {
        self.ids.heap() + boxed(self.spec.as_ref()) + self.submit_dir.heap()
    }
}

impl Heap for Template {
    fn heap(&self) -> usize {
        boxed(self.spec.as_ref()) + self.submit_dir.heap()
    }
}

impl Heap for TaskSpec {
    fn heap(&self) -> usize {
        self.body.heap()
            + self.env.heap()
            + self.stdin.heap()
            + self.cwd.heap()
            + self.stdout.heap()
            + self.stderr.heap()
            + self.outputs.heap()
            + self.requests.heap()
            + self.retry.on.codes.heap()
            + self.locality.heap()
            + self.stream.heap()
            + self.launcher.heap()
    }
}

impl Heap for LimitValue {
    fn heap(&self) -> usize {
        match self {
            LimitValue::Text(text) => text.heap(),
            LimitValue::Count(_) | LimitValue::Bytes(_) | LimitValue::Time(_) | LimitValue::None => 0,
        }
    }
}

impl Heap for Body {
    fn heap(&self) -> usize {
        match self {
            Body::Program { args } => args.heap(),
            Body::Pulled | Body::Given => 0,
            Body::Function(function) => {
                function.name.heap()
                    + function.interpreter.heap()
                    + function.arguments.heap()
                    + function.code.heap()
            }
        }
    }
}

impl Heap for Dependencies {
    fn heap(&self) -> usize {
        // A list for each task, and where each ends.
        let edges = self.edges.len() * size_of::<TaskId>() + self.edges.lists() * size_of::<u32>();
        let named = self.named.keys().heap() + self.named.lists() * size_of::<u32>();
        self.after.heap() + self.files.heap() + edges + named
    }
}

impl Heap for Stream {
    fn heap(&self) -> usize {
        self.path().heap()
    }
}

impl Heap for OutputSink {
    fn heap(&self) -> usize {
        match self {
            OutputSink::None | OutputSink::Stream => 0,
            OutputSink::File { path, .. } => path.heap(),
        }
    }
}

impl Heap for PoolKind {
    fn heap(&self) -> usize {
        match self {
            PoolKind::Groups(groups) => groups.heap(),
            PoolKind::Range { .. } | PoolKind::Sum(_) => 0,
        }
    }
}

impl Heap for Lack {
    fn heap(&self) -> usize {
        match self {
            Lack::Resource { name, .. } => name.heap(),
            Lack::Time { .. } | Lack::Group { .. } => 0,
        }
    }
}

impl Heap for QueueStatus {
    fn heap(&self) -> usize {
        match self {
            QueueStatus::Active | QueueStatus::Draining => 0,
            QueueStatus::Paused(_, reason) => reason.heap(),
        }
    }
}

impl Heap for PauseCause {
    fn heap(&self) -> usize {
        match self {
            PauseCause::User => 0,
            PauseCause::Submissions(_, text) | PauseCause::Allocations(_, text) => text.heap(),
        }
    }
}

impl Heap for AllocationEnd {
    fn heap(&self) -> usize {
        use AllocationEnd as Is;
        match self {
            Is::Finished
            | Is::TimedOut
            | Is::Canceled
            | Is::Preempted
            | Is::NodeFailed
            | Is::OutOfMemory
            | Is::WorkersLost => 0,
            Is::Failed(text) | Is::Refused(text) | Is::Vanished(text) => text.heap(),
        }
    }
}

impl Heap for BatchState {
    fn heap(&self) -> usize {
        match self {
            BatchState::Failed(text) | BatchState::Unknown(text) => text.heap(),
            _ => 0,
        }
    }
}

impl Heap for hq_core::measures::Measures {
    fn heap(&self) -> usize {
        self.bytes().len()
    }
}

impl Heap for IdSet {
    fn heap(&self) -> usize {
        self.range_count() * size_of::<(u32, u32)>()
    }
}

impl Heap for Entries {
    fn heap(&self) -> usize {
        self.bytes_len() + self.len() * size_of::<u32>()
    }
}

impl Heap for String {
    fn heap(&self) -> usize {
        self.len()
    }
}

impl<T: Heap> Heap for Box<T> {
    fn heap(&self) -> usize {
        boxed(self.as_ref())
    }
}

impl<T: Heap> Heap for Option<T> {
    const IS_FLAT: bool = T::IS_FLAT;
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, Heap::heap)
    }
}

impl<T: Heap> Heap for Vec<T> {
    fn heap(&self) -> usize {
        let own = self.len() * size_of::<T>();
        if T::IS_FLAT { own } else { own + self.iter().map(Heap::heap).sum::<usize>() }
    }
}

// A tree has nodes of eleven places, of which nearly half may be free, and what leads to them.
fn nodes<T>(len: usize) -> usize {
    len.div_ceil(5) * (11 * size_of::<T>() + 14 * size_of::<usize>())
}

impl<K: Heap, V: Heap> Heap for BTreeMap<K, V> {
    fn heap(&self) -> usize {
        nodes::<(K, V)>(self.len()) + self.iter().map(|(key, value)| key.heap() + value.heap()).sum::<usize>()
    }
}

impl<T: Heap> Heap for BTreeSet<T> {
    fn heap(&self) -> usize {
        nodes::<T>(self.len()) + self.iter().map(Heap::heap).sum::<usize>()
    }
}

impl<A: Heap, B: Heap> Heap for (A, B) {
    const IS_FLAT: bool = A::IS_FLAT && B::IS_FLAT;
    fn heap(&self) -> usize {
        self.0.heap() + self.1.heap()
    }
}

impl<A: Heap, B: Heap, C: Heap> Heap for (A, B, C) {
    const IS_FLAT: bool = A::IS_FLAT && B::IS_FLAT && C::IS_FLAT;
    fn heap(&self) -> usize {
        self.0.heap() + self.1.heap() + self.2.heap()
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "counts in an allocator")]

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    use hq_proto::testing;
    use proptest::prelude::*;

    use super::*;

    /// Counts the bytes that each thread has and has not given back.
    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    thread_local! {
        static BYTES: Cell<isize> = const { Cell::new(0) };
    }

    // SAFETY: all is left to the system's allocator.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // At the end of a thread nobody counts any more.
            let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    // Bytes behind a copy of a value; what is shared is not copied.
    fn held<T: Clone>(value: &T) -> usize {
        let before = BYTES.get();
        let copy = value.clone();
        let held = BYTES.get() - before;
        drop(copy);
        usize::try_from(held).expect("a copy gives nothing back") + size_of::<T>()
    }

    proptest! {
        #[test]
        fn an_answer_counts_as_at_least_what_it_holds(answer in testing::client_response()) {
            let (held, size) = (held(&answer), of_response(&answer));
            prop_assert!(size >= held, "{} of {} bytes: {:?}", size, held, answer);
        }

        #[test]
        fn a_message_to_a_worker_counts_as_at_least_what_it_holds(message in testing::to_worker()) {
            let (held, size) = (held(&message), of_worker_message(&message));
            prop_assert!(size >= held, "{} of {} bytes: {:?}", size, held, message);
        }

        #[test]
        fn a_record_counts_as_at_least_what_it_holds(record in testing::record()) {
            let (held, size) = (held(&record), of_record(&record));
            prop_assert!(size >= held, "{} of {} bytes: {:?}", size, held, record);
        }
    }

    #[test]
    fn what_is_shared_counts_too() {
        let spec = TaskSpec { body: Body::program([vec![0; 10_000]]), ..TaskSpec::default() };
        let template = |spec: TaskSpec| Template {
            id: hq_core::worker_messages::TemplateId { job: JobId(1), submit: 0 },
            spec: std::sync::Arc::new(spec),
            submit_dir: Vec::new(),
            submitted: Timestamp(0),
            has_siblings: false,
        };
        let more = template(spec).heap() - template(TaskSpec::default()).heap();
        assert!(more >= 10_000);
    }
}
