//! Generators of whole messages and records.

use super::feed::fed_end;
use super::notice;
use super::worker_messages::worker_secret;
use super::*;
use hq_core::cause::{Aborted, FailureCause, JobFailures};
use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobBudget, JobDetail, JobEnds, JobPage, JobResults, JobSummary, PageStart,
    Relayed, RequestError, ServerInfo, SubmitInfo, WorkerFilter, WorkerInfo,
};
use hq_core::clock_gap::ClockGap;
use hq_core::limit_value::LimitValue;
use hq_core::object_messages::ObjectsHeld;
use hq_core::record::{BudgetChange, JobProgress, Record, SecondAttempt};

/// Any request of a client.
pub fn client_request() -> impl Strategy<Value = ClientRequest> {
    use ClientRequest::*;
    let filter = select(vec![WorkerFilter::All, WorkerFilter::Running, WorkerFilter::Offline]);
    prop_oneof![
        select(vec![ServerInfo, StopServer, CountJobs, FlushJournal, PruneJournal]),
        overview::request(),
        (any::<u128>(), submit()).prop_map(|(key, submit)| Submit { key, submit: Box::new(submit) }),
        (task_ref(), instance(), dependencies()).prop_map(|(task, instance, waits)| Defer {
            task,
            instance,
            after: waits.after
        }),
        (task_ref(), instance(), byte_string()).prop_map(|(task, instance, text)| Ready {
            task,
            instance,
            text
        }),
        (any::<u128>(), vec(submit(), 0..3)).prop_map(|(key, submits)| SubmitAll { key, submits }),
        (any::<u128>(), job_spec()).prop_map(|(key, spec)| OpenJob { key, spec }),
        (any::<u128>(), vec(feed::new_job(), 0..3)).prop_map(|(key, jobs)| SubmitJobs { key, jobs }).boxed(),
        feed::feed_request().prop_map(|request| Feed(Box::new(request))),
        object::request().prop_map(Objects),
        (any::<u128>(), selector(), of(id_set()), task_states())
            .prop_map(|(key, jobs, tasks, states)| Resubmit { key, jobs, tasks, states }),
        selector().prop_map(|jobs| CloseJobs { jobs }),
        (selector(), of(super::duration())).prop_map(|(jobs, budget)| SetBudget { jobs, budget }),
        output::output_read().prop_map(ReadOutput),
        job_states().prop_map(|states| ListJobs { states }),
        (selector(), of(job_page())).prop_map(|(jobs, page)| JobInfo { jobs, page }),
        (selector(), of(id_set()), of(text())).prop_map(|(jobs, tasks, reason)| Cancel {
            jobs,
            tasks,
            reason
        }),
        (selector(), job_states()).prop_map(|(jobs, states)| ForgetJobs { jobs, states }),
        (selector(), of(id_set()), task_states(), of(task_ref()), any::<(u32, bool, bool)>()).prop_map(
            |(jobs, tasks, states, after, (limit, grouped, with_entries))| ListTasks {
                jobs,
                tasks,
                states,
                after,
                limit,
                grouped,
                with_entries
            }
        ),
        (selector(), task_states()).prop_map(|(jobs, states)| TaskIds { jobs, states }),
        (selector(), filter).prop_map(|(workers, filter)| ListWorkers { workers, filter }),
        (selector(), any::<bool>()).prop_map(|(workers, drain)| StopWorkers { workers, drain }),
        any::<u32>().prop_map(|count| WaitWorkers { count }),
        allocation::alloc_request().prop_map(Alloc),
        selector().prop_map(|jobs| ExplainJobs { jobs }),
        job().prop_map(|job| JobShape { job }),
        (worker(), any::<u32>()).prop_map(|(worker, limit)| WorkerTasks { worker, limit }),
        (selector(), of(job())).prop_map(|(jobs, from)| JobFailures { jobs, from }),
        (selector(), of(id_set()), of(task_ref()), any::<bool>())
            .prop_map(|(jobs, tasks, from, with_failed)| Results { jobs, tasks, from, with_failed }),
        (job(), id_set()).prop_map(|(job, tasks)| CancelWaiting { job, tasks }),
        (selector(), any::<u32>()).prop_map(|(jobs, task)| ExplainTask { jobs, task: TaskId(task) }),
    ]
}

/// Any answer to a client.
pub fn client_response() -> impl Strategy<Value = ClientResponse> {
    (vec(request_error(), 0..3), whole_response()).prop_map(|(refused, rest)| match refused.is_empty() {
        true => rest,
        false => ClientResponse::Partly { refused, rest: Box::new(rest) },
    })
}

fn whole_response() -> impl Strategy<Value = ClientResponse> {
    use ClientResponse::*;
    let canceled = (job(), id_set(), any::<u64>());
    prop_oneof![
        select(vec![Done, WatchEnded]),
        request_error().prop_map(Error),
        server_info().prop_map(|info| ServerInfo(Box::new(info))),
        (job(), id_set(), vec((any::<u32>(), edgy_id().prop_map(TaskId)), 0..3), vec(text(), 0..3))
            .prop_map(|(job, ids, existing, warnings)| Submitted { job, ids, existing, warnings }),
        (vec(job(), 0..5), vec(text(), 0..3)).prop_map(|(jobs, warnings)| JobsSubmitted { jobs, warnings }),
        vec(job(), 0..5).prop_map(Jobs),
        object::page().prop_map(|page| Objects(Box::new(page))),
        object::copy().prop_map(ObjectGiven),
        vec(job_summary(), 0..4).prop_map(JobList),
        vec((select(JobState::ALL.to_vec()), any::<u64>()), 0..8).prop_map(JobCounts),
        (vec(job_detail(), 0..3), of(page_start()), of(timestamp()))
            .prop_map(|(jobs, next, now)| JobDetails { jobs, next, now }),
        vec(canceled, 0..4).prop_map(Canceled),
        (
            vec((job(), tasks::task_info()), 0..4),
            vec(tasks::alike_tasks(), 0..3),
            of(task_ref()),
            of(timestamp())
        )
            .prop_map(|(tasks, groups, next, now)| Tasks { tasks, groups, next, now }),
        vec((job(), id_set()), 0..4).prop_map(TaskIds),
        explanation::task_explanation().prop_map(|explained| Explained(Box::new(explained))),
        vec(explanation::job_explanation(), 0..3).prop_map(ExplainedJobs),
        (vec(job_failures(), 0..3), of(job())).prop_map(|(jobs, next)| Failures { jobs, next }),
        (vec(job_results(), 0..3), of(task_ref())).prop_map(|(jobs, next)| Results { jobs, next }),
        job_ends().prop_map(|ends| Ends(Box::new(ends))),
        feed::feed_state().prop_map(|state| Feed(Box::new(state))),
        overview::overview().prop_map(|overview| Overview(Box::new(overview))),
        load::history().prop_map(|history| Load(Box::new(history))),
        job_shape::job_shape().prop_map(|shape| JobShape(Box::new(shape))),
        vec(job_summary(), 0..4).prop_map(Progress),
        output::output().prop_map(Output),
        (task_ref(), instance(), worker(), byte_string())
            .prop_map(|(task, instance, worker, text)| { Notification { task, instance, worker, text } }),
        vec(worker_info(), 0..3).prop_map(Workers),
        (
            vec(worker(), 0..5),
            vec(worker(), 0..3),
            vec(worker(), 0..3),
            vec(object::object_id(), 0..3),
            any::<u64>()
        )
            .prop_map(|(workers, away, stopping, alone, alone_count)| WorkersStopped {
                workers,
                away,
                stopping,
                alone,
                alone_count
            }),
        allocation::alloc_response().prop_map(Alloc),
        (vec((timestamp(), record()), 0..3), any::<u64>())
            .prop_map(|(records, next)| Events { records, next }),
    ]
}

fn request_error() -> impl Strategy<Value = RequestError> {
    (one_request_error(), prop_oneof![3 => Just(0), 1 => any::<u64>()]).prop_map(|(error, others)| {
        match others {
            0 => error,
            others => RequestError::OneOfMany { error: Box::new(error), others },
        }
    })
}

fn one_request_error() -> impl Strategy<Value = RequestError> {
    use RequestError::*;
    prop_oneof![
        select(vec![NoJobs, NoWorkers, Stopping, NoJournal]),
        text().prop_map(ReadOnly),
        text().prop_map(Journal),
        job().prop_map(NoJob),
        job().prop_map(Forgotten),
        job().prop_map(JobNotOpen),
        (job(), any::<u64>(), any::<u64>()).prop_map(|(job, failed, limit)| TooManyFailed {
            job,
            failed,
            limit
        }),
        task_ref().prop_map(|task| TaskExists(task.job, task.task)),
        task_ref().prop_map(|task| NoTask(task.job, task.task)),
        job().prop_map(JobAlive),
        (job(), text(), any::<u32>(), text()).prop_map(|(job, key, task, difference)| KeyTaken {
            job,
            key,
            task: TaskId(task),
            difference
        }),
        (job(), text()).prop_map(|(job, key)| NoKey(job, key)),
        (object::object_id(), text()).prop_map(|(object, names)| NoObject(object, names)),
        (object::object_id(), text()).prop_map(|(object, why)| NotStored(object, why)),
        (object::object_id(), task_ref()).prop_map(|(object, task)| ObjectNeeded(object, task)),
        task_ref().prop_map(NoService),
        any::<(u64, u64)>().prop_map(|(held, wanted)| Full { held, wanted }),
        (task_ref(), instance(), text()).prop_map(|(task, instance, now)| NotRunning { task, instance, now }),
        (job(), text(), select(TaskState::ALL.to_vec())).prop_map(|(job, tasks, state)| Hopeless {
            job,
            tasks,
            state
        }),
        (job(), text()).prop_map(|(job, tasks)| Cycle(job, tasks)),
        worker().prop_map(NoWorker),
        worker().prop_map(WorkerEnded),
        (worker(), timestamp()).prop_map(|(worker, until)| WorkerAway { worker, until }),
        text().prop_map(Invalid),
        text().prop_map(NothingToDo),
        any::<u32>().prop_map(|queue| NoQueue(hq_model::QueueId(queue))),
        text().prop_map(NoAllocation),
        Just(QueueBusy),
        text().prop_map(Batch),
    ]
}

fn limit_value() -> impl Strategy<Value = LimitValue> {
    prop_oneof![
        any::<u64>().prop_map(LimitValue::Count),
        any::<u64>().prop_map(LimitValue::Bytes),
        any::<u64>().prop_map(|micros| LimitValue::Time(std::time::Duration::from_micros(micros))),
        Just(LimitValue::None),
        text().prop_map(LimitValue::Text),
    ]
}

fn server_info() -> impl Strategy<Value = ServerInfo> {
    let place = || (text(), any::<u16>());
    let names = (text(), any::<u32>(), timestamp(), any::<u32>(), text());
    let gap = of((any::<bool>(), 1..1_u64 << 60)).prop_map(|gap| {
        gap.map(|(is_behind, micros)| {
            let gap = std::time::Duration::from_micros(micros);
            if is_behind { ClockGap::Behind(gap) } else { ClockGap::Ahead(gap) }
        })
    });
    let journal = (of(byte_string()), of((timestamp(), text())), gap, any::<u64>(), of(text()));
    (names, place(), place(), byte_string(), journal, vec((text(), limit_value()), 0..3)).prop_map(
        |(
            names,
            client,
            worker,
            server_dir,
            (journal, journal_trouble, clock_gap, internal_errors, stop_waits),
            limits,
        )| {
            let (uid, epoch, started, pid, version) = names;
            ServerInfo {
                uid,
                epoch: hq_model::Epoch(epoch),
                started,
                pid,
                version,
                client_host: client.0,
                client_port: client.1,
                worker_host: worker.0,
                worker_port: worker.1,
                server_dir,
                journal,
                journal_trouble,
                clock_gap,
                internal_errors,
                output_reads: internal_errors / 2,
                load_bytes: internal_errors / 3,
                relayed: (internal_errors % 2 == 0)
                    .then_some(Relayed { transfers: 3, bytes: internal_errors }),
                stop_waits,
                limits,
            }
        },
    )
}

fn job_summary() -> impl Strategy<Value = JobSummary> {
    (job(), text(), any::<bool>(), counters(), of(text()), any::<u64>(), fed_end(), of(text())).prop_map(
        |(job, name, is_open, counters, cancel_reason, unrunnable, fed_end, stalled)| JobSummary {
            job,
            name,
            is_open,
            counters,
            cancel_reason,
            unrunnable,
            fed_end,
            stalled,
        },
    )
}

fn job_failures() -> impl Strategy<Value = JobFailures> {
    let aborted = (any::<u64>(), edgy_id().prop_map(TaskId), text())
        .prop_map(|(count, first, reason)| Aborted { count, first, reason });
    let causes = vec((cause(), instance()), 0..3);
    (job(), any::<(u64, u64)>(), causes, of(aborted), byte_string(), of(text())).prop_map(
        |(job, (tasks, failed), causes, aborted, first_stderr, stopped)| JobFailures {
            job,
            tasks,
            failed,
            causes,
            aborted,
            first_stderr,
            stopped,
        },
    )
}

fn job_ends() -> impl Strategy<Value = JobEnds> {
    let failed = vec(failure().prop_map(|failure| (failure.task, failure.kind, failure.error)), 0..3);
    let aborted = vec((some_ids(), text()), 0..3);
    (job(), id_set(), id_set(), failed, aborted, ids_with_results(), any::<bool>()).prop_map(
        |(job, finished, canceled, failed, aborted, (ids, results), is_over)| JobEnds {
            job,
            finished,
            canceled,
            failed,
            aborted,
            ids,
            results,
            is_over,
        },
    )
}

fn job_results() -> impl Strategy<Value = JobResults> {
    (job(), ids_with_results(), id_set(), id_set(), id_set(), id_set()).prop_map(
        |(job, (ids, results), texts, failed, dropped, without)| JobResults {
            job,
            ids,
            results,
            texts,
            failed,
            dropped,
            without,
        },
    )
}

fn cause() -> impl Strategy<Value = FailureCause> {
    (failure(), text(), any::<u64>()).prop_map(|(first, text, count)| FailureCause {
        kind: first.kind,
        text,
        count,
        workers: first.nodes.into_iter().collect(),
        first: first.task,
        first_worker: first.worker,
        first_error: first.error,
    })
}

fn page_start() -> impl Strategy<Value = PageStart> {
    (job(), edgy_id()).prop_map(|(job, place)| PageStart { job, place })
}

fn job_page() -> impl Strategy<Value = JobPage> {
    (of(id_set()), of(page_start())).prop_map(|(tasks, from)| JobPage { tasks, from })
}

fn job_detail() -> impl Strategy<Value = JobDetail> {
    let submit = ((edgy_id(), any::<u64>()), id_set(), task_spec(), byte_string(), timestamp()).prop_map(
        |((index, stdin_bytes), ids, spec, submit_dir, submitted)| SubmitInfo {
            index,
            ids,
            spec: Arc::new(spec),
            stdin_bytes,
            submit_dir,
            submitted,
        },
    );
    let times = (timestamp(), of(timestamp()));
    (
        job_summary(),
        (of(any::<u64>()), of(super::share()), of((of(super::duration()), super::duration()))),
        times,
        vec(submit, 0..3),
        usage(),
        (
            vec(worker(), 0..4),
            of(feed::feed_state().prop_map(Box::new)),
            vec(notice::info(), 0..3),
            of(any::<u64>()),
        ),
    )
        .prop_map(
            |(
                summary,
                (max_fails, share, budget),
                (submitted, ended),
                submits,
                usage,
                (workers, feed, notices, ending),
            )| {
                JobDetail {
                    summary,
                    max_fails,
                    share,
                    budget: budget.map(|(limit, used)| JobBudget { limit, used }),
                    submitted,
                    ended,
                    submits,
                    usage,
                    workers,
                    feed,
                    notices,
                    ending,
                }
            },
        )
}

fn worker_info() -> impl Strategy<Value = WorkerInfo> {
    let multi_node = (of((task_ref(), worker())), any::<bool>());
    let tasks = (any::<u64>(), any::<u64>(), of((task_ref(), timestamp())), multi_node);
    let ended = of((timestamp(), worker_end()));
    let closed = (any::<bool>(), any::<bool>(), of(timestamp()), of(text()), any::<u64>());
    let taken = vec(any::<u64>().prop_map(Amount), 0..4);
    let sample = (of((timestamp(), sample::node_sample())), of(load::tasks_sum()));
    let held = || (any::<u64>(), any::<u64>()).prop_map(|(count, bytes)| ObjectsHeld { count, bytes });
    let seen = (of(duration()), taken, sample, (held(), held()));
    (worker(), worker_config(), timestamp(), ended, tasks, closed, seen).prop_map(
        |(
            worker,
            config,
            started,
            ended,
            tasks,
            (is_draining, is_stopping, away_until, trouble, internal_errors),
            (idle_timeout, taken, (sample, used), (objects, spilled)),
        )| {
            let (tasks_assigned, tasks_running, last_task, (multi_node, is_reserved)) = tasks;
            WorkerInfo {
                worker,
                config,
                started,
                ended,
                tasks_assigned,
                tasks_running,
                last_task,
                is_draining,
                is_stopping,
                away_until,
                trouble,
                internal_errors,
                idle_timeout,
                multi_node,
                is_reserved,
                taken,
                sample: sample.map(|(at, sample)| (at, Box::new(sample))),
                tasks: used,
                objects,
                spilled,
            }
        },
    )
}

fn budget_change() -> impl Strategy<Value = BudgetChange> {
    prop_oneof![
        of(super::duration()).prop_map(BudgetChange::Set),
        super::duration().prop_map(BudgetChange::Spent),
    ]
}

fn job_progress() -> impl Strategy<Value = JobProgress> {
    let counts = || vec((edgy_id().prop_map(TaskId), any::<u32>()), 0..3);
    let sets = (id_set(), id_set(), id_set(), vec((id_set(), timestamp()), 0..3));
    let parts =
        (vec((worker(), id_set()), 0..3), vec((id_set(), text()), 0..3), vec((instance(), id_set()), 0..3));
    let delayed = vec((edgy_id().prop_map(TaskId), timestamp()), 0..3);
    let counted = (counts(), counts(), delayed);
    let rest = (any::<bool>(), timestamp(), of(text()), usage(), vec(worker(), 0..3));
    let second = (edgy_id().prop_map(TaskId), instance(), of(worker()))
        .prop_map(|(task, instance, worker)| (task, SecondAttempt { worker, instance }));
    let deferred = (edgy_id().prop_map(TaskId), dependencies()).prop_map(|(task, waits)| (task, waits.after));
    let ready = vec((edgy_id().prop_map(TaskId), byte_string()), 0..3);
    let value_of = (edgy_id().prop_map(TaskId), task_ref());
    let seconds = (vec(second, 0..3), vec(deferred, 0..3), ready, vec(value_of, 0..3));
    let nodes = vec((edgy_id().prop_map(TaskId), vec(worker(), 1..4)), 0..3);
    let feed = of(feed::feed().prop_map(Box::new));
    let told =
        (vec((any::<u32>(), notice::told()), 0..3), any::<bool>(), of(super::duration()), any::<u64>());
    let more = (seconds, nodes, vec(cause(), 0..3), vec(outlasted(), 0..3), feed, told);
    (sets, parts, counted, rest, more).prop_map(
        |(sets, parts, counted, rest, (seconds, nodes, causes, outlasted, feed, told))| JobProgress {
            is_open: rest.0,
            last_end: rest.1,
            cancel_reason: rest.2,
            leased: parts.0.into_iter().collect(),
            finished: sets.0,
            failed: sets.1,
            canceled: sets.2,
            too_late: sets.3,
            abort_reasons: parts.1,
            instances: parts.2.into_iter().collect(),
            crashes: counted.0.into_iter().collect(),
            retries: counted.1.into_iter().collect(),
            delayed: counted.2.into_iter().collect(),
            usage: rest.3,
            workers: rest.4.into_iter().collect(),
            seconds: seconds.0.into_iter().collect(),
            deferred: seconds.1.into_iter().collect(),
            values_of: seconds.3.into_iter().collect(),
            files: seconds.2.iter().map(|(_, text): &(TaskId, _)| Vec::clone(text)).collect(),
            ready: seconds.2.into_iter().collect(),
            nodes: nodes.into_iter().collect(),
            causes,
            outlasted: outlasted.into_iter().collect(),
            feed,
            told: told.0.into_iter().collect(),
            is_stalled: told.1,
            budget: told.2,
            spent_us: told.3,
        },
    )
}

/// Any record.
pub fn record() -> impl Strategy<Value = Record> {
    use Record::*;
    let tasks = (ids_with_entries(), dependencies());
    let submitted = (job(), any::<u128>(), of(job_spec()), tasks, task_spec(), byte_string()).prop_map(
        |(job, key, spec, ((ids, entries), dependencies), task, submit_dir)| Submitted {
            job,
            key,
            spec,
            ids,
            keys: entries.clone(),
            entries,
            entries_gone: Default::default(),
            dependencies: Arc::new(dependencies),
            task: Arc::new(task),
            submit_dir,
        },
    );
    prop_oneof![
        (any::<u32>(), text(), text()).prop_map(|(epoch, uid, release)| ServerStarted {
            epoch: hq_model::Epoch(epoch),
            uid,
            release
        }),
        (job(), any::<u128>(), job_spec()).prop_map(|(job, key, spec)| JobOpened { job, key, spec }),
        submitted,
        job().prop_map(|job| JobClosed { job }),
        (job(), duration()).prop_map(|(job, linger)| JobLeft { job, linger }),
        (job(), budget_change()).prop_map(|(job, change)| Budget { job, change }),
        object::change().prop_map(|change| Objects(Box::new(change))),
        job().prop_map(|job| JobForgotten { job }),
        (worker(), job(), id_set()).prop_map(|(worker, job, ids)| Leased { worker, job, ids }),
        (job(), edgy_id().prop_map(TaskId), vec(worker(), 1..4))
            .prop_map(|(job, task, workers)| LeasedNodes { job, task, workers }),
        (worker(), job(), id_set()).prop_map(|(worker, job, ids)| Returned { worker, job, ids }),
        (job(), id_set(), instance(), restart_cause()).prop_map(|(job, ids, instance, cause)| Restarted {
            job,
            ids,
            instance,
            cause
        }),
        (worker(), job(), edgy_id().prop_map(TaskId), instance())
            .prop_map(|(worker, job, task, instance)| Speculated { worker, job, task, instance }),
        (job(), vec(byte_string(), 0..3)).prop_map(|(job, files)| FilesFound { job, files }),
        (job(), edgy_id().prop_map(TaskId), byte_string()).prop_map(|(job, task, text)| ServiceReady {
            job,
            task,
            text
        }),
        (job(), edgy_id().prop_map(TaskId), instance(), dependencies(), of(timestamp()), of(task_ref()))
            .prop_map(|(job, task, instance, waits, not_before, value_of)| {
                Deferred { job, task, instance, after: waits.after, not_before, value_of }
            }),
        (job(), edgy_id().prop_map(TaskId), instance()).prop_map(|(job, task, instance)| AttemptDropped {
            job,
            task,
            instance
        }),
        (worker(), finished_span()).prop_map(|(worker, span)| Finished { worker, span }),
        (job(), failure()).prop_map(|(job, failure)| Failed { job, failure }),
        (job(), id_set(), of(text()), of(timestamp())).prop_map(|(job, ids, reason, end_by)| Canceled {
            job,
            ids,
            reason,
            end_by
        }),
        (job(), id_set(), text()).prop_map(|(job, ids, reason)| Aborted { job, ids, reason }),
        (worker(), worker_config(), of(worker_secret())).prop_map(|(worker, config, secret)| WorkerJoined {
            worker,
            config: Box::new(config),
            secret
        }),
        load::point().prop_map(|point| LoadKept { point: Box::new(point) }),
        (worker(), sample::node_sample())
            .prop_map(|(worker, sample)| WorkerSampled { worker, sample: Box::new(sample) }),
        (worker(), worker_end(), any::<bool>()).prop_map(|(worker, end, is_away)| WorkerEnded {
            worker,
            end,
            is_away
        }),
        worker().prop_map(|worker| WorkerForgotten { worker }),
        (job(), worker()).prop_map(|(job, worker)| IdsGiven { job, worker }),
        (job(), job_progress()).prop_map(|(job, p)| JobKept { job, progress: Box::new(p) }),
        (worker(), finished_span(), vec((edgy_id().prop_map(TaskId), vec(worker(), 1..3)), 0..3))
            .prop_map(|(worker, span, nodes)| DetailKept { worker, span, nodes }),
        (job(), failure()).prop_map(|(job, failure)| FailureKept { job, failure }),
        (job(), id_set()).prop_map(|(job, ids)| EntriesDropped { job, ids }),
        (job(), ids_with_results()).prop_map(|(job, (ids, results))| ResultsKept { job, ids, results }),
        (job(), vec(failure(), 0..3)).prop_map(|(job, attempts)| EndedEarly { job, attempts }),
        (job(), vec(tasks::past_attempt(), 0..3)).prop_map(|(job, attempts)| AttemptsEnded { job, attempts }),
        (any::<u128>(), job(), id_set()).prop_map(|(key, job, ids)| Answered { key, job, ids }),
        (job(), feed::feed_change()).prop_map(|(job, change)| Feed { job, change: Box::new(change) }),
        vec((timestamp(), any::<u64>()), 0..3).prop_map(|gaps| TimeSkipped { gaps }),
        allocation::alloc_record().prop_map(|record| Alloc(Box::new(record))),
        notice::record(),
    ]
}
