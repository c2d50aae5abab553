//! Generators of what server and workers say to each other.

use super::*;
use hq_core::WorkerSecret;
use hq_core::log::{LogBatch, LogEntry, LogPiece, Written};
use hq_core::object_messages::TaskObjects;
use hq_core::worker_messages::{
    CallInput, FromWorker, Held, Lends, Report, RunBatch, Started, TaskNode, TaskWords, Template, TemplateId,
    ToWorker, Welcome, WorkerHello,
};

fn template_id() -> impl Strategy<Value = TemplateId> {
    (job(), any::<u32>()).prop_map(|(job, submit)| TemplateId { job, submit })
}

// Often none.
fn variant_of(instance: Instance) -> Option<u32> {
    instance.0.is_multiple_of(3).then_some(instance.0 / 3)
}

/// Any tasks of one template.
pub fn run_batch() -> impl Strategy<Value = RunBatch> {
    let content = of((task_spec(), byte_string()));
    let node = (worker(), text(), text()).prop_map(|(worker, hostname, address)| TaskNode {
        worker,
        hostname,
        address,
    });
    let objects = vec(vec(object::source(), 1..3), 0..3);
    (template_id(), content, instance(), ids_with_entries(), (vec(node, 0..4), objects), of(instance()))
        .prop_map(|(template, content, instance, (ids, entries), (mut nodes, objects), leader)| {
            let content = content.map(|(spec, submit_dir)| Template {
                id: template,
                spec: Arc::new(spec),
                submit_dir,
                submitted: Timestamp(u64::from(instance.0)),
                has_siblings: ids.len() > 1,
            });
            if ids.len() != 1 {
                nodes.clear();
            }
            let services = vec![(b"key".to_vec(), b"text".to_vec()); ids.len().min(2) as usize];
            let other = ids.first().map(|task| TaskId(task.0 ^ 1)).filter(|_| ids.len() == 1);
            let after = other.zip(leader);
            let variant = variant_of(instance);
            let head_start = Duration::from_millis(ids.len());
            let inputs = ids.iter().take(2).map(|task| CallInput {
                task,
                of: TaskRef::new(template.job, TaskId(task.0 ^ 1)),
                result: vec![1; services.len()],
            });
            let inputs = inputs.collect();
            let objects = ids
                .iter()
                .zip(objects)
                .map(|(task, inputs)| TaskObjects { tasks: IdSet::single(task), inputs })
                .collect();
            RunBatch {
                template,
                content,
                ids,
                instance,
                entries,
                nodes,
                services,
                after,
                variant,
                head_start,
                inputs,
                objects,
            }
        })
}

/// Any message to a worker.
pub fn to_worker() -> impl Strategy<Value = ToWorker> {
    let welcome = (worker(), any::<u32>(), text(), of(duration()), any::<bool>()).prop_map(
        |(worker, epoch, server_uid, idle_timeout, hears)| Welcome {
            worker,
            epoch: hq_model::Epoch(epoch),
            server_uid,
            idle_timeout,
            hears,
        },
    );
    prop_oneof![
        welcome.prop_map(ToWorker::Welcome),
        vec(run_batch(), 0..3).prop_map(ToWorker::Run),
        (job(), id_set(), any::<bool>()).prop_map(|(job, ids, are_elsewhere)| ToWorker::Cancel {
            job,
            ids,
            are_elsewhere
        }),
        (job(), id_set()).prop_map(|(job, ids)| ToWorker::Retract { job, ids }),
        any::<u64>().prop_map(|report| ToWorker::Saved { report }),
        any::<u64>().prop_map(|report| ToWorker::Weighed { report }),
        any::<bool>().prop_map(|drain| ToWorker::Stop { drain }),
        (any::<u64>(), written()).prop_map(|(number, written)| ToWorker::Logged { number, written }),
        output::read_order().prop_map(ToWorker::ReadOutput),
        any::<u64>().prop_map(|number| ToWorker::DropRead { number }),
        vec(object::object_id(), 0..3).prop_map(ToWorker::FreeObjects),
        vec(object::source(), 0..3).prop_map(ToWorker::BringObjects),
        any::<u64>().prop_map(|ticket| ToWorker::Relay { ticket }),
        (vec(object::object_id(), 0..3), vec(object::object_id(), 0..3))
            .prop_map(|(guard, release)| ToWorker::GuardObjects { guard, release }),
        (object::object_id(), any::<bool>()).prop_map(|(object, is_dir)| ToWorker::TakeFile {
            object,
            file: "c17".to_owned(),
            is_dir
        }),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        Just(Written::Done),
        Just(Written::Busy),
        text().prop_map(Written::NoRoom),
        text().prop_map(Written::Refused),
    ]
}

/// Any message from a worker.
pub fn from_worker() -> impl Strategy<Value = FromWorker> {
    let start = (timestamp(), of(duration()));
    let objects = (any::<[bool; 5]>(), vec(object::copy(), 0..3));
    let known_as = (of(worker()), of(worker_secret()));
    let hello = (worker_config(), start, known_as, vec(held(), 0..3), any::<u64>(), objects).prop_map(
        |(
            config,
            (started, age),
            (known_as, secret),
            holds,
            last_report,
            ([follows, follows_calls, shows, stores, relays], objects),
        )| {
            WorkerHello {
                shows,
                stores,
                relays,
                objects,
                config,
                started,
                age,
                known_as,
                secret,
                holds,
                last_report,
                follows,
                follows_calls,
            }
        },
    );
    prop_oneof![
        hello.prop_map(|hello| FromWorker::Hello(Box::new(hello))),
        report().prop_map(FromWorker::Report),
        Just(FromWorker::Heartbeat),
        (sample::node_sample(), of(sample::tasks_sample())).prop_map(|(node, tasks)| FromWorker::Sampled {
            node: Box::new(node),
            tasks: tasks.map(Box::new),
        }),
        (task_ref(), byte_string()).prop_map(|(task, text)| FromWorker::Notify { task, text }),
        worker_end().prop_map(|end| FromWorker::Leaving { end }),
        log_batch().prop_map(|batch| FromWorker::Log(Box::new(batch))),
        output::read_answer().prop_map(FromWorker::Output),
    ]
}

/// Any secret of a worker.
pub(super) fn worker_secret() -> impl Strategy<Value = WorkerSecret> {
    any::<[u8; 32]>().prop_map(WorkerSecret)
}

fn log_batch() -> impl Strategy<Value = LogBatch> {
    let printed = (any::<bool>(), any::<u64>(), 0..20_u32)
        .prop_map(|(is_stderr, offset, length)| LogEntry::Printed { is_stderr, offset, length });
    let end = any::<[bool; 2]>().prop_map(|[stdout, stderr]| LogEntry::End { stdout, stderr });
    let piece = (task_ref(), instance(), timestamp(), prop_oneof![printed, end])
        .prop_map(|(task, instance, at, entry)| LogPiece { task, instance, at, entry });
    (any::<u64>(), any::<bool>(), vec(piece, 0..5)).prop_map(|(number, is_again, pieces)| {
        let length = pieces.iter().map(|piece| piece.length() as usize).sum();
        LogBatch { number, is_again, pieces, content: (0..length).map(|at| at as u8).collect() }
    })
}

fn held() -> impl Strategy<Value = Held> {
    let running = vec((edgy_id(), timestamp()), 0..5).prop_map(|tasks| {
        let tasks: std::collections::BTreeMap<u32, Timestamp> = tasks.into_iter().collect();
        let ids: IdSet = tasks.keys().map(|&id| TaskId(id)).collect();
        (ids, tasks.into_values().collect::<Vec<_>>())
    });
    (template_id(), instance(), id_set(), running).prop_map(
        |(template, instance, queued, (running, started))| Held {
            template,
            instance,
            variant: variant_of(instance),
            queued,
            running,
            started,
        },
    )
}

/// Any report of a worker.
pub fn report() -> impl Strategy<Value = Report> {
    let started = (task_ref(), instance(), timestamp()).prop_map(|(task, instance, at)| Started {
        job: task.job,
        task: task.task,
        instance,
        at,
        variant: variant_of(instance),
    });
    // A worker does not say which worker it is.
    let failed = (job(), failure())
        .prop_map(|(job, failure)| (job, Failure { worker: None, nodes: Vec::new(), ..failure }));
    let tasks = || vec((job(), id_set()), 0..3);
    let lends = (task_ref(), instance(), any::<bool>())
        .prop_map(|(TaskRef { job, task }, instance, is_lent)| Lends { job, task, instance, is_lent });
    let words = (task_ref(), instance(), byte_string()).prop_map(|(task, instance, text)| TaskWords {
        task,
        instance,
        text,
    });
    (
        any::<u64>(),
        vec(started, 0..4),
        vec(finished_span(), 0..3),
        vec(failed, 0..3),
        tasks(),
        tasks(),
        tasks(),
        any::<bool>(),
        (of(text()), any::<u64>(), vec(lends, 0..3), of(object::news()), vec(words, 0..3)),
    )
        .prop_map(
            |(
                number,
                started,
                finished,
                failed,
                canceled,
                returned,
                interrupted,
                is_leaving,
                (trouble, internal_errors, lends, objects, words),
            )| {
                Report {
                    lends,
                    number,
                    started,
                    finished,
                    failed,
                    canceled,
                    returned,
                    expired: interrupted.clone(),
                    room: Some(internal_errors).filter(|errors| errors % 2 == 1),
                    interrupted,
                    objects: objects.map(Box::new),
                    words,
                    is_leaving,
                    is_draining: is_leaving && number % 2 == 1,
                    output_waits: trouble.clone().filter(|_| number % 3 == 1),
                    trouble,
                    internal_errors,
                }
            },
        )
}
