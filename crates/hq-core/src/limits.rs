//! Every limit of the core, with its name and what happens when it is reached. Those that users meet are shown by
//! `hq server info --limits`.

use std::time::Duration;

/// Bytes of details (times, use, worker) of ended tasks that the server keeps; the oldest leave
/// first, their tasks then show a state and no times. About ten bytes a task.
pub const DETAIL_BYTES_MAX: usize = 16 << 20;
/// Bytes of details of failed tasks (error text, times, worker) that the server keeps over all jobs; the oldest leave
/// first, their tasks then show a state and no error.
pub const FAILURE_DETAILS_BYTES_MAX: usize = 32 << 20;
/// Earlier attempts of a task that are kept, of those that ran more than once; the oldest leave first.
pub const ATTEMPTS_OF_TASK_MAX: usize = 8;
/// Bytes of earlier attempts (times, workers, why they ended) that the server keeps over all jobs; the oldest leave first,
/// their tasks then show the later ones alone.
pub const ATTEMPTS_BYTES_MAX: usize = 16 << 20;
/// Causes of failures that are told apart in a job; failures of further ones are only counted together.
pub const CAUSES_MAX: usize = 32;
/// Longest text of a cause that is kept, in bytes.
pub const CAUSE_TEXT_MAX: usize = 400;
/// Workers that are remembered of a cause.
pub const CAUSE_WORKERS_MAX: usize = 1000;
/// About what is kept of one cause, in bytes.
pub const CAUSE_BYTES_MAX: usize = 128 + 2 * CAUSE_TEXT_MAX + 8 * CAUSE_WORKERS_MAX;
/// Longest error text kept for a failed task, in bytes; longer ones are cut.
pub const ERROR_TEXT_MAX: usize = 4096;
/// Longest text of a notification, in bytes; longer ones are refused.
pub const NOTIFY_TEXT_MAX: usize = 1024;
/// Bytes of notifications that a worker keeps until the server has them; over it, it refuses more, and `hq task notify` fails.
pub const WORDS_KEPT_BYTES_MAX: usize = 1 << 20;
/// Bytes of notifications that nobody hears and that the server keeps for who comes back; the oldest are dropped first.
pub const UNHEARD_BYTES_MAX: usize = 1 << 20;
/// How long it keeps them.
pub const UNHEARD_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest reason of a cancellation, in characters; longer ones are refused.
pub const CANCEL_REASON_MAX: usize = 200;
/// Ids of a request of which it is said one by one why they are refused; of the others, how many they are.
pub const REFUSED_MAX: usize = 100;
/// Progress messages to one watching client are at least this far apart; the last one is never held back.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Clients that watch everything in counts are told what has changed at least this far apart, as long as it goes on changing.
pub const OVERVIEW_INTERVAL: Duration = Duration::from_millis(250);
/// After a quiet time they are told so often without waiting that long.
pub const OVERVIEW_BURST: u32 = 8;
/// But never closer together than this.
pub const OVERVIEW_GAP: Duration = Duration::from_millis(25);
/// What workers tell of loads is news to clients that watch everything at most this often.
pub const LOADS_NEWS_INTERVAL: Duration = Duration::from_secs(5);
/// How long a step of each level of a series is, and how many of them are kept; older ones are only in the next level.
pub const SERIES_LEVELS: [(Duration, usize); 3] =
    [(Duration::from_secs(10), 60), (Duration::from_secs(60), 120), (Duration::from_secs(600), 288)];
/// Steps that a level of a series gets room for at a time.
pub const SERIES_ROOM: usize = 16;
/// Bytes that one series takes at most.
pub const SERIES_BYTES_MAX: usize = 36 << 10;
/// Workers of which the load over time is kept; of others, that of now alone.
pub const SERIES_WORKERS_MAX: usize = 2048;
/// Bytes of what is kept of the use of running tasks; of more tasks nothing is told until some of these have ended.
pub const TASK_USES_BYTES_MAX: usize = 48 << 20;
/// At most what one of them takes of that, all its points included.
pub const TASK_USE_BYTES: usize = 512;
/// Points of the use of a task over time; when there are more, each two become one.
pub const TASK_POINTS_MAX: usize = 24;
/// Jobs on a page of the latest ones.
pub const JOBS_PAGE_MAX: u32 = 10_000;
/// Bytes that one answer holds of what a task prints; a reader asks again for more.
pub const OUTPUT_READ_BYTES_MAX: u32 = 64 << 10;
/// How long a read waits for something to be printed; then the answer says that there is nothing, and the reader asks again.
pub const OUTPUT_READ_TIME_MAX: Duration = Duration::from_secs(30);
/// How much longer a worker may take to say that; then it counts as away.
pub const OUTPUT_READ_LATE: Duration = Duration::from_secs(15);
/// Reads of what tasks print that one client may have waiting; more are refused.
pub const OUTPUT_READS_OF_CLIENT_MAX: usize = 256;
/// Reads that wait at one worker; more are refused.
pub const OUTPUT_READS_OF_WORKER_MAX: usize = 256;
/// Reads that wait, of all clients; more are refused.
pub const OUTPUT_READS_MAX: usize = 16_384;
/// Requests of one client that wait for something to happen: to jobs that it follows, to workers, to anything. More are refused.
pub const WAITS_OF_CLIENT_MAX: usize = 1000;
/// About how many bytes all requests may take that wait for something to happen; over it, more are refused.
pub const WAITS_BYTES_MAX: usize = 256 << 20;
/// Intervals of ended tasks of which a worker knows that it ran them, so that what they printed can be read from it; those of
/// the lowest jobs are forgotten first.
pub const RAN_RANGES_MAX: usize = 10_000;
/// Most tasks sent to a worker beyond what fits on it now.
pub const BACKLOG_MAX: u64 = 262_144;
/// Most tasks sent to a worker that wait there one for the other, or one for each that runs.
pub const FOLLOWERS_MAX: u64 = 128;
/// The backlog is what the worker is expected to finish in this time.
pub const BACKLOG_TIME: Duration = Duration::from_millis(200);
/// A relay wants as many pulled tasks ahead as are taken there in so much time.
pub const PULL_AHEAD_TIME: Duration = Duration::from_millis(200);
/// And never more than these.
pub const PULL_AHEAD_MAX: u64 = 16_384;
/// A relay where nobody has asked for so long wants none ahead.
pub const PULL_IDLE_TIME: Duration = Duration::from_secs(1);
/// Most tasks that a relay can have at once.
pub const PULLED_ROOM_MAX: u64 = 1_000_000;
/// How long somebody has a pulled task without a word, where nothing else is said.
pub const PULL_LEASE: Duration = Duration::from_secs(3600);
/// What somebody had who cannot come back, without a label, is given back so long after the connection broke.
pub const PULL_GRACE: Duration = Duration::from_secs(30);
/// Somebody who asks for tasks waits so long for a server that does not answer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Sets of tags that are asked with at one relay.
pub const TAG_SETS_MAX: usize = 1_000;
/// Most pulled tasks that one session has at once.
pub const SESSION_TASKS_MAX: usize = 100_000;
/// Tasks of one session that are told with its name, since when it has them and for how long.
pub const HELD_SHOWN_MAX: usize = 100;
/// Attempts that were ended from outside, of which a relay still knows why.
pub const ENDED_ATTEMPTS_KEPT: usize = 100_000;
/// Longest result of a pulled task, in bytes.
pub const PULLED_RESULT_BYTES_MAX: usize = 4096;
/// What follows a task on a worker is said to what executes it beforehand where tasks of its kind take less than that, and
/// taken back when it takes longer.
pub const ARMED_TIME: Duration = Duration::from_millis(50);
/// How long what is armed behind one task is to take in all: several where they are short.
pub const ARMED_AHEAD: Duration = Duration::from_millis(10);
/// Most of them.
pub const ARMED_AHEAD_MAX: usize = 16;
/// How long what executes tasks keeps to itself that one of these has begun as it was said.
pub const ARMED_TOLD_MAX: Duration = Duration::from_millis(5);
/// How long what is armed behind one call of a function is to take in all. Where calls take longer, none is.
pub const CALLS_AHEAD: Duration = Duration::from_millis(1);
/// Most of them.
pub const CALLS_AHEAD_MAX: usize = 64;
/// A call that is armed is taken back when it has not begun by then.
pub const CALLS_ARMED_TIME: Duration = Duration::from_millis(10);
/// Request classes whose requests a worker remembers as resolved; over it, it forgets and resolves them again.
pub const CHOICES_KNOWN_MAX: usize = 4096;
/// Request classes that get a backlog in one round; the others get what fits at once.
pub const BACKLOG_CLASSES_MAX: usize = 256;
/// More tasks than that at once on a worker are counted by their amounts alone, also where some of them may not fit
/// together.
pub const TRIED_AT_ONCE_MAX: u64 = 512;
/// A task that does not fit on its worker yet may be overtaken by later ones of equal priority for so long; then
/// they wait for it.
pub const OVERTAKEN_MAX: Duration = Duration::from_secs(10);
/// A task that others wait for goes on a worker before those of equal priority that have waited there for so much longer, for each
/// step of the way from it to the end of its graph: for an eighth of an octave.
pub const HEAD_START_OF_STEP: Duration = Duration::from_millis(40);
/// And never before what has waited there for so much longer.
pub const HEAD_START_MAX: Duration = Duration::from_secs(20);
/// Tasks of a graph count as submitted so much earlier: its end goes on before what came a little earlier.
pub const LINKED_HEAD_START: Duration = Duration::from_secs(8);
/// A task that fits nowhere may be overtaken by tasks of lower priority for so long; then a worker is kept for it.
pub const OVERTAKEN_BY_LOWER_MAX: Duration = Duration::from_secs(1);
/// Room that is kept for a task is kept for so long at a time; then others may overtake it again for a while.
pub const KEPT_MAX: Duration = Duration::from_secs(600);
/// For so many classes that fit nowhere workers are kept at once.
pub const WAITERS_MAX: usize = 4;
/// Classes that can run nowhere are passed over in the search for those to keep workers for, up to so many in a round.
pub const UNFIT_CLASSES_MAX: usize = 16;
/// Where several classes wait, a worker gets a backlog only of tasks of which it is expected to finish so many one after
/// the other in the time of a backlog.
pub const MIXED_BACKLOG_WAVES: f64 = 4.0;
/// Names of bodies (of programs) of which it is remembered how long they take; over it, all are forgotten and learned again.
pub const NAMES_KNOWN_MAX: usize = 4096;
/// Ended tasks from which on their run time counts more than what was said with `--expect`.
pub const RUN_TIMES_SURE: u64 = 5;
/// Up to so many tasks of a report teach how long tasks take one by one, more by their mean.
pub const SPAN_LEARNED_SINGLY_MAX: u64 = 16;
/// After a restart, run times are learned again from so many of the latest reports of finished tasks.
pub const SPANS_LEARNED_AGAIN_MAX: usize = 4096;
/// How long a task is taken to run for the order of tasks as long as nothing is known.
pub const EXPECTED_DEFAULT: Duration = Duration::from_secs(1);
/// Edges followed back when a submit makes paths longer, beside four times its own; what lies further stays as it was.
pub const PATH_STEPS_MAX: u64 = 1000;
/// The paths of a job with more edges are not found again when it turns out how long its tasks take.
pub const PATHS_AGAIN_EDGES_MAX: usize = 100_000;
/// A worker with room is left alone when more is expected to end there within this part of a task's run time.
pub const GATHER_PART: u64 = 32;
/// It is left alone for this part of a task's run time in all.
pub const GATHER_TOTAL_PART: u64 = 8;
/// Workers on which so many tasks run are never left alone: there is always an end.
pub const GATHER_TASKS_MAX: u64 = 256;
/// Workers that are left alone at the same time.
pub const GATHER_WORKERS_MAX: usize = 256;
/// Rounds in which tasks are placed for one event; more would mean that there is no end, and wait for the next event.
pub const DISPATCH_ROUNDS_MAX: usize = 1000;
/// Request classes that are tried in one round although nothing of them fits; the next ones have to wait for another.
pub const MISSES_MAX: usize = 4096;
/// Locality keys that are remembered of a worker; the oldest are forgotten.
pub const KEYS_OF_WORKER_MAX: usize = 4096;
/// Locality keys that are looked at for one worker, the latest ones first.
pub const KEYS_LOOKED_AT_MAX: usize = 256;
/// Tasks of a submit with a locality key; more are refused.
pub const KEYED_TASKS_MAX: u64 = 1_000_000;
/// Longest locality key, in bytes, before its placeholders are replaced.
pub const LOCALITY_KEY_MAX: usize = 4096;
/// Classes of which an idle worker that starts only for enough of them is looked for a set of tasks.
pub const PICKY_CLASSES_MAX: usize = 64;
/// Steps of the search for such a set.
pub const PICKY_STEPS_MAX: usize = 4096;
/// Request classes of equal priority that are looked at, whether short tasks that wait on workers pass them over.
pub const PASSED_OVER_LOOKED_AT_MAX: usize = 4;
/// The simulator sees a fault where tasks that come later took the room of a class for so long without it getting anything. It has
/// its turn ten times in that time, in which others may come before it in order.
pub const PASSED_OVER_TIME_MAX: Duration = Duration::from_secs(200);
/// And so often.
pub const PASSED_OVER_TIMES_MAX: u32 = 20;
/// Request classes that are planned together when they compete; the next in order wait for the next plan.
pub const PLANNED_CLASSES_MAX: usize = 1024;
/// How long placement waits for a plan; then it goes on without.
pub const PLAN_TIME_MAX: Duration = Duration::from_secs(1);
/// Workers about which `hq task explain` speaks one by one.
pub const EXPLAINED_WORKERS_MAX: usize = 1000;
/// Tasks on one worker that `hq task explain` looks at to say who holds what.
pub const EXPLAINED_HOLDERS_MAX: usize = 256;
/// Groups of tasks that `hq job explain` tells apart; the tasks of others are counted.
pub const EXPLAINED_GROUPS_MAX: usize = 20;
/// Busy workers of which `hq job explain` looks for the one that is free first.
pub const EXPLAINED_BUSY_MAX: usize = 16;
/// Request classes that go before a task and are looked at one by one when it is explained; all others count as
/// going before it.
pub const AHEAD_LOOKED_AT_MAX: usize = 256;
/// Reasons that are named for which tasks go before one; the tasks of others are counted.
pub const AHEAD_NAMED_MAX: usize = 4;
/// Submits whose jobs are named or counted as going before a task; beyond it they are many.
pub const AHEAD_SUBMITS_MAX: usize = 4096;
/// Stretches of ids in a list of jobs or workers within a sentence; longer lists are counted.
pub const NAMED_RANGES_MAX: usize = 4;
/// Steps (shapes of workers, per distinct request) to find the tasks that nobody could ever run, in one list of jobs;
/// beyond it, tasks pass for runnable.
pub const UNRUNNABLE_STEPS_MAX: usize = 1_000_000;
/// Submits of a fed job that are looked through for lines that nobody could ever run whenever those who wait for it are told
/// something. A job with more of them is looked through only while nothing of it runs.
pub const FED_SUBMITS_LOOKED_AT_MAX: usize = 1000;
/// Jobs that are looked at to tell whether one waits for a job that is stalled. What is farther behind counts as going on.
pub const STALLED_LOOKED_AT_MAX: usize = 100;
/// Jobs whose layers and timelines are kept for the next question about them: those that were asked about last.
pub const SHAPES_MAX: usize = 8;
/// Tasks with single dependencies, and these, of a job whose layers are told. Beyond that nothing is said of layers.
pub const LAYER_STEPS_MAX: u64 = 2_000_000;
/// Layers of a job that are told; of more, neighbors are told as one.
pub const LAYERS_SHOWN: usize = 256;
/// Tasks of a template on a worker that are looked at to list those that are there.
pub const TASKS_ON_WORKER_SCANNED: usize = 10_000;
/// Steps of the timeline of a job. When it has become older, they become twice as long.
pub const TIMELINE_BARS: usize = 512;
/// Attempts of a job that took longest, of which it is told how long.
pub const SLOWEST_TOLD: usize = 10;
/// About how many attempts that have ended one question adds to a timeline; the next one adds more.
pub const TIMELINE_ATTEMPTS_PER_QUESTION: u64 = 200_000;
/// Most tasks that a page of a task list tells one by one where its reader knows no groups. So many short ones stay below
/// what readers of earlier releases decode unchecked.
pub const TASK_PAGE_MAX: u32 = 1000;
/// Intervals of one state that one page of a task list looks at.
pub const TASK_PAGE_RANGES: usize = 8192;
/// Tasks of one state in one page of a task list of which each has times of its own.
pub const TASK_PAGE_MEASURED: usize = 32_768;
/// Tasks of one state in one page of a task list that have nothing in common with others.
pub const TASK_PAGE_SINGLE: usize = 4096;
/// About how many bytes a page of a task list may have; the next one tells the rest.
pub const TASK_PAGE_BYTES: usize = 1 << 20;
/// About how many bytes of submits a page of what is known of jobs may have; the next one tells the rest.
pub const JOB_PAGE_BYTES: usize = 1 << 20;
/// About how many bytes of causes of failures one answer may have; the next one tells of the other jobs.
pub const FAILURES_PAGE_BYTES: usize = 1 << 20;
/// How long the client that makes a draft may be away before the draft is dropped: longer than clients look for a server
/// that they lost.
pub const DRAFT_GRACE: Duration = Duration::from_secs(15);
/// Longest wait before a retry; the doubling delay stops here.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(3600);
/// After which a task runs again that put itself back behind what has ended already.
pub const DEFER_PAUSE: Duration = Duration::from_secs(1);
/// A report of a worker is sent at most this long after what it reports, when the worker is busy.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(20);
/// A start is reported at most this long after it, if no end takes it along before.
pub const STARTS_INTERVAL: Duration = Duration::from_millis(25);
/// In an allocation, the failure of a task that was terminated from outside is held back for this time: its worker may
/// be about to hear that the allocation is ended.
pub const OUTSIDE_END_TIME: Duration = Duration::from_millis(300);
/// A task that has not ended so long after SIGKILL holds up the end of its worker no longer: its launcher is killed.
pub const UNKILLABLE_TIME: Duration = Duration::from_secs(10);
/// How long a worker that could not start a task asks for none; doubled while that goes on.
pub const NODE_FAULT_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest such time.
pub const NODE_FAULT_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most reports a worker keeps until the server has them on disk; over it, it starts nothing more.
pub const UNSAVED_REPORTS_MAX: usize = 4096;
/// Heartbeats that may be missing before a worker counts as lost.
pub const HEARTBEATS_MISSING_MAX: u32 = 2;
/// Answers to submits kept to answer a repeated request; the oldest leave first.
pub const REQUEST_KEYS_MAX: usize = 10_000;
/// Bytes of these answers; the oldest leave first.
pub const REQUEST_KEYS_BYTES_MAX: usize = 8 << 20;
/// About what a submit takes in memory beside what it says, with all that is known of it and what allocators add, in bytes.
pub const SUBMIT_BYTES: usize = 2560;
/// The same of a job beside its submits.
pub const JOB_BYTES: usize = 3584;
/// Bytes that all jobs and their submits may take, ended ones that are kept included: templates, entries, keys,
/// dependencies, and what is known of objects that their tasks leave. A submit that does not fit is refused.
pub const SUBMITS_BYTES_MAX: usize = 2 << 30;
/// Bytes that the submits of ended jobs, and the causes of their failures, may take, the one that ended last aside; the ones that ended first are forgotten
/// before the others.
pub const JOBS_KEPT_BYTES: usize = 256 << 20;
/// A server that was away for longer counts as away for so long when it is decided for how long ended jobs are kept: a
/// clock that jumped looks the same.
pub const TIME_AWAY_MAX: Duration = Duration::from_secs(24 * 3600);
/// A clock that is behind the journal by less is passed over in silence.
pub const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(10);
/// Such times that are remembered one by one; the oldest two become one.
pub const TIME_GAPS_MAX: usize = 100;
/// Templates that a worker keeps although it has no task of theirs; over it, it forgets them, and gets them again with
/// the next task.
pub const TEMPLATES_KEPT_MAX: usize = 1024;
/// Bytes of templates that a worker keeps although it has no task of theirs; over it, it forgets them likewise.
pub const TEMPLATES_KEPT_BYTES: usize = 16 << 20;
/// Longest name of a body of which it is remembered how long it takes, in bytes.
pub const NAME_KNOWN_BYTES: usize = 4096;
/// The least backlog of a worker for tasks whose speed is not known yet, over all that fits; the
/// number of tasks that fit on it if that is less.
pub const BACKLOG_START: u64 = 64;
/// How long a worker whose connection broke may take to come back before its tasks go elsewhere.
pub const WORKER_GRACE: Duration = Duration::from_secs(30);
/// The same where the worker's side closed the connection: it was killed most likely, and a worker that lives asks for a new
/// connection more often than this.
pub const WORKER_GRACE_CLOSED: Duration = Duration::from_secs(5);
/// Ended jobs that are kept, unless the server is told otherwise; the ones that ended first leave first.
pub const JOBS_KEPT: usize = 10_000;
/// How long ended jobs are kept, unless the server is told otherwise.
pub const JOBS_KEPT_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Ended workers that are kept; the ones that ended first leave first.
pub const WORKERS_KEPT: usize = 10_000;
/// Bytes of what they said of themselves; those that ended first are forgotten.
pub const WORKERS_KEPT_BYTES: usize = 64 << 20;
/// How long `server stop` waits for workers to end their tasks and leave.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(20);
/// SIGTERM so soon after the one before is the same one told twice; a later one ends a process at once.
pub const INTERRUPT_ECHO: Duration = Duration::from_secs(1);
/// Ended tasks in one report of a worker; over it, the report does not wait any longer. Keeps a report below a megabyte.
pub const REPORT_TASKS_MAX: usize = 32_768;
/// Bytes of results in one report of a worker; over it, those that ended later go into the next one.
pub const REPORT_RESULTS_BYTES_MAX: usize = 1 << 20;
/// Bytes of the result of one task.
pub const RESULT_BYTES_MAX: usize = 16 << 10;
/// Bytes of the results of all jobs that the server keeps; over it, the oldest are dropped.
pub const RESULTS_KEPT_BYTES_MAX: usize = 256 << 20;
/// Bytes of the entries of finished tasks that the server keeps, of all bags and fed jobs together; over it, the oldest are
/// dropped.
pub const ENDED_ENTRIES_BYTES_MAX: usize = 8 << 20;
/// Ended tasks that the reducer of a job has not acknowledged: from so many on, its generator waits.
pub const UNREDUCED_TASKS_MAX: u64 = 1_000_000;
/// Bytes of their results, likewise.
pub const UNREDUCED_BYTES_MAX: usize = 64 << 20;
/// Bytes of the place of a generator, and of the state of a reducer.
pub const FEED_TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of results in one answer to a client.
pub const RESULTS_PAGE_BYTES: usize = 1 << 20;
/// Results of others that one call gets as arguments, together, bytes.
pub const CALL_INPUTS_BYTES_MAX: usize = 8 << 20;
/// While others are queued, ends of tasks whose results a client waits for are told apart by this.
pub const AWAITED_REPORT_INTERVAL: Duration = Duration::from_millis(1);
/// A worker keeps an interpreter for the next call of a function for so long.
pub const RUNNER_IDLE_TIME: Duration = Duration::from_secs(60);
/// So many idle interpreters are kept where a worker has fewer CPUs.
pub const RUNNERS_IDLE_MIN: usize = 4;
/// A worker keeps a zygote, from which interpreters are forked, for so long after the last one.
pub const ZYGOTE_IDLE_TIME: Duration = Duration::from_secs(60);
/// Calls wait for a zygote that starts for so long; then interpreters are started one by one until it is ready.
pub const ZYGOTE_PATIENCE: Duration = Duration::from_secs(10);
/// A zygote that has not loaded what it should after this time is ended, as one that failed.
pub const ZYGOTE_START_TIME: Duration = Duration::from_secs(300);
/// A zygote is started so often in a row.
pub const ZYGOTE_TRIES: u32 = 3;
/// The pause after the first of these; the next one is four times as long.
pub const ZYGOTE_PAUSE: Duration = Duration::from_millis(100);
/// For so long after the last of these calls fail at once; then it is tried again.
pub const ZYGOTE_BROKEN_TIME: Duration = Duration::from_secs(10);
/// For so long interpreters of an environment that cannot be forked are started one by one.
pub const ZYGOTE_UNFIT_TIME: Duration = Duration::from_secs(600);
/// Most zygotes of a worker; interpreters of further environments are started one by one.
pub const ZYGOTES_MAX: usize = 16;
/// So many calls of functions wait for others without CPUs, for each CPU of a worker: the interpreter of each stays.
pub const LENDING_EACH_CPU_MAX: usize = 4;
/// So many do on a worker with few CPUs.
pub const LENDING_MAX_LEAST: usize = 64;
/// Queued batches that a worker tries in vain before it stops looking for one that fits.
pub const SCAN_BLOCKED_MAX: usize = 64;
/// Queued batches that a worker, or the server for it, looks at in search of what fits.
pub const SCAN_QUEUED_MAX: usize = 4096;
/// Tasks of the null executor passed in one go before the worker looks for messages again.
pub const NULL_TASKS_AT_ONCE: u32 = 8192;
/// Attempts of a task that had all the time of a worker and were ended with it, after which it waits for workers that live
/// longer.
pub const OUTLASTED_MAX: u32 = 2;
/// Submissions of a queue in a row that may be refused; then it pauses.
pub const SUBMIT_FAILURES_MAX: u32 = 10;
/// Allocations of a queue in a row that may fail; then it pauses.
pub const ALLOCATION_FAILURES_MAX: u32 = 3;
/// How long nothing is submitted after so many refusals in a row: one, two, and so on; the last one also for more.
pub const SUBMIT_DELAYS: [Duration; 4] =
    [Duration::from_secs(60), Duration::from_secs(900), Duration::from_secs(1800), Duration::from_secs(3600)];
/// When an allocation is submitted again that the batch system does not take at present, unless one of it starts or ends
/// before.
pub const NOT_NOW_RETRY: Duration = Duration::from_secs(60);
/// How long a queue that paused by itself waits before it tries again.
pub const PAUSE_RETRY: Duration = Duration::from_secs(3600);
/// What allocations are needed is decided at most this often.
pub const ALLOCATE_INTERVAL: Duration = Duration::from_millis(250);
/// Ended allocations that are kept of each queue; the oldest leave first.
pub const ALLOCATIONS_KEPT: usize = 1000;
/// Directories of ended allocations that are kept of each queue; the oldest are removed.
pub const ALLOCATION_DIRECTORIES_KEPT: usize = 20;
/// All workers of an allocation lost within this time after its start are a failure of it.
pub const EARLY_LOSS: Duration = Duration::from_secs(60);
/// First and longest time between two questions to a batch system about all its allocations; four times as long as
/// before while nothing new is said. Nobody asks about what waits no longer than others did.
pub const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(4 * 3600));
/// A batch system that does not know an allocation is asked again after this time; when it does not know it then, it is gone.
pub const DOUBT_INTERVAL: Duration = Duration::from_secs(10);
/// Allocations of a queue that started last, by which it is told how long they usually wait.
pub const WAITS_SEEN: usize = 10;
/// How often a batch system is asked at most because a user asks why something waits.
pub const WISH_INTERVAL: Duration = Duration::from_secs(10);
/// An allocation that has waited for so long is no reason any more to ask no other queue: the most, and the least where
/// those before it waited for a fraction of that.
pub const QUEUE_PATIENCE: Duration = Duration::from_secs(300);
/// As above.
pub const QUEUE_PATIENCE_LEAST: Duration = Duration::from_secs(30);
/// How long an allocation may wait while all tasks are over, where its queue has no idle timeout; then it is canceled.
pub const UNNEEDED_TIME: Duration = Duration::from_secs(300);
/// How long the batch job of an allocation may go on when its workers have left, with what comes after them; then it is canceled.
pub const WIND_UP_TIME: Duration = Duration::from_secs(300);
/// When canceling is tried again that a batch system refused: first, and at most; twice as long as before each time. Whoever asks
/// for it has it tried at once.
pub const CANCEL_RETRY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// How long a submission that was not answered may still turn out to have worked.
pub const UNCLEAR_TIME: Duration = Duration::from_secs(600);
/// How long the workers of an allocation that was perhaps requeued are reckoned with.
pub const RETURN_TIME: Duration = Duration::from_secs(150);
/// How long after its wall time an allocation of which nobody knows anything counts as over.
pub const OVERDUE_TIME: Duration = Duration::from_secs(3600);
/// Tasks handed to a busy worker for later count as waiting after this time: they may be longer than was thought.
pub const HANDED_TIME: Duration = Duration::from_secs(5);
/// How long it takes from the start of an allocation until its worker has something to do, about.
pub const START_UP_TIME: Duration = Duration::from_secs(5);
/// Workers that are asked for, with those that are there, while nothing at all is known of how long tasks take.
pub const PROBED_FEW: u64 = 4;
/// The same where allocations wait for `PROBED_WAIT` or longer: few would be waited for first, then the rest.
pub const PROBED_MAX: u64 = 16;
/// But at most one of so many workers that the tasks would fill.
pub const PROBED_PART: u64 = 5;
/// As above.
pub const PROBED_WAIT: Duration = Duration::from_secs(30);
/// Groups of tasks of a class by which it is told how much work they are.
pub const DEMAND_GROUPS_MAX: usize = 64;
/// Whether tasks of which nothing is known have become long is looked at this often.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// What became of the node time of an allocation that runs is written to the journal at most this often.
pub const MEASURE_INTERVAL: Duration = Duration::from_secs(300);
/// Workers of a queue that are thought of in one decision.
pub const DEMAND_WORKERS_MAX: usize = 1024;
/// Classes of waiting tasks that are thought of in one decision about allocations.
pub const DEMAND_CLASSES_MAX: usize = 256;
/// Allocations that are named when a server ends and the batch system has not canceled them.
pub const LEFT_NAMED_MAX: usize = 20;
/// Decisions kept of each queue.
pub const DECISIONS_KEPT: usize = 50;
/// Steps that may take turns while each of them is counted as one decision: asking, being refused, waiting, giving up.
pub const DECISIONS_IN_TURN: usize = 4;
/// Queues of allocations.
pub const QUEUES_MAX: usize = 1000;
/// A dependency is kept as single edges up to so many, else as one barrier for all.
pub const EDGES_OF_DEPENDENCY_MAX: u64 = 64;
/// Submits in one request; more are refused, and clients send several requests.
pub const SUBMITS_MAX: usize = 1000;
/// Jobs that one request makes at most.
pub const JOBS_MAX: usize = 1000;
/// Submits of a job of which tasks are submitted again by one request; more are refused.
pub const RESUBMIT_SUBMITS_MAX: usize = 20_000;
/// Dependencies of one submit on tasks of jobs, edges not counted.
pub const DEPENDENCIES_MAX: usize = 1000;
/// Waiting tasks that are looked through for one that waits for a task that puts itself back; behind more it cannot.
pub const DEFER_SEARCH_MAX: usize = 100_000;
/// Most tasks that want to be put back and wait until what follows them is not with a worker any more.
pub const DEFERRALS_MAX: usize = 10_000;
/// Characters of the ids of tasks whose end is the reason of another; above it, the first is named and the others are counted.
pub const ENDED_IDS_CHARS_MAX: usize = 40;
/// Files that are looked for at once; further ones when those are there.
pub const FILES_WATCHED_MAX: usize = 10_000;
/// Ids of tasks for what clients give to an open job begin here: other ids are given by clients.
pub const GIVEN_FROM: u32 = 3_000_000_000;
/// Files that workers are told to take and have not taken yet.
pub const GIVES_MAX: usize = 10_000;
/// Workers that store an object, of which one that is to get it is told.
pub const HOLDERS_TOLD_MAX: usize = 4;
/// Objects that a worker has fetched, or tries to, for tasks that wait on it.
pub const AHEAD_MAX: usize = 64;
/// Bytes of these.
pub const AHEAD_BYTES_MAX: u64 = 256 << 20;
/// Of these, on their way at once: fewer than a worker fetches, so that tasks which have started do not wait for them.
pub const AHEAD_COMING_MAX: usize = 2;
/// Objects of waiting tasks that are looked at for that.
pub const AHEAD_SCAN_MAX: usize = 256;
/// How often a task is tried that could not have an object which is stored.
pub const OBJECT_TRIES_MAX: u32 = 8;
/// How often, while every store is full of what users keep or programs hold and nothing of that is let go, a task is tried whose
/// object finds no room: after about 15 s.
pub const FULL_TRIES_MAX: u32 = 5;
/// Longest wait before it is tried again; the doubling delay stops here.
pub const OBJECT_DELAY_MAX: Duration = Duration::from_secs(60);
/// About what the locality key of a task takes in memory, in bytes: so much counts with its submit.
pub const LOCALITY_BYTES: usize = 120;
/// About what an object of a job takes in memory, in bytes: so much counts with its submit.
pub const OBJECT_BYTES: usize = 200;
/// How often the objects of a task are left once more before they are given up.
pub const REBUILDS_MAX: usize = 3;
/// Objects in one answer to a client.
pub const OBJECTS_PAGE: usize = 1000;
/// Objects that are looked at for one answer to a client, to find those that it asks for.
pub const OBJECTS_LOOKED_MAX: usize = 20_000;
/// Workers that store an object, of which a client is told that asks for this one.
pub const HOLDERS_SHOWN_MAX: usize = 64;
/// The same in a list.
pub const HOLDERS_LISTED_MAX: usize = 8;
/// Jobs that take an object, of which a client is told; the others are counted.
pub const READERS_SHOWN_MAX: usize = 64;
/// How long a worker that finishes what runs and then stops stays for objects that others are to take over, after its last task.
pub const HAND_ON_TIME_MAX: Duration = Duration::from_secs(600);
/// At least so many bytes a second are counted on for what a worker hands on before its time limit.
pub const HAND_ON_BYTES_PER_SECOND: u64 = 50 << 20;
/// Time that is counted on beside that of the bytes.
pub const HAND_ON_MARGIN: Duration = Duration::from_secs(10);
/// What a worker hands on whose time limit comes goes to one that ends itself so much later, or later still.
pub const TAKER_OUTLIVES_MIN: Duration = Duration::from_secs(60);
/// Objects named that go with a worker that is stopped; the others are counted.
pub const ALONE_NAMED_MAX: usize = 20;
/// Objects of which it is decided at once whether a worker must not remove them; further ones a moment later.
pub const GUARDS_JUDGED_MAX: usize = 10_000;
/// Tasks named in an error or an explanation; the others are counted.
pub const NAMED_TASKS_MAX: usize = 10;
/// Finished siblings from which on a task may be told to take long, and be started a second time.
pub const SPECULATE_SIBLINGS_MIN: u64 = 5;
/// A task that runs for less than this is never started a second time.
pub const SPECULATE_TIME_MIN: Duration = Duration::from_secs(1);
/// The tasks of a submit are looked through for those that take long at most this often.
pub const SPECULATE_LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Classes of tasks on several nodes that are looked at in one round of placement.
pub const MULTI_NODE_CLASSES_MAX: usize = 32;
/// Classes of higher priority of which a task on several nodes looks whether they go before it on its nodes.
pub const HIGHER_LOOKED_AT_MAX: usize = 16;
/// Tasks on several nodes for which workers are kept free at once.
pub const RESERVATIONS_MAX: usize = 4;
/// Things that can never happen and did, of which the log of a process tells; the others are counted.
pub const NEVER_TOLD_MAX: u64 = 100;
/// Notices that are sent at once; further ones wait.
pub const NOTICES_AT_ONCE: usize = 4;
/// Pauses before a notice is tried again that could not be sent. After the last one it is given up.
pub const NOTICE_PAUSES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];
/// Longest text in a notice, of an error or an explanation, in bytes.
pub const NOTICE_TEXT_BYTES_MAX: usize = 4096;
/// Memory for notices that wait; beyond it, only jobs are noted whose notices are made when there is room.
pub const NOTICES_BYTES_MAX: usize = 16 << 20;
/// Jobs that are looked at in one go for whether they stand still.
pub const STALLS_JUDGED_MAX: usize = 8;
/// Jobs behind each other that are looked at for whether the first one is stalled: who waits for more does not.
pub const STALL_DEPTH_MAX: u32 = 4;
