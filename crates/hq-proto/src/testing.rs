//! Generators of arbitrary valid messages, for the tests of this crate, the simulator and fuzzing.
//!
//! They reach for the edges (the largest id, empty sets, no entries, bytes that are no text), yet
//! only make what the core may hold.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hq_core::measures::{Measures, MeasuresWriter};
use hq_core::record::{Failure, FailureKind, FinishedSpan, Outlasted, RestartCause};
use hq_core::worker_messages::WorkerEnd;
use hq_model::body::{EntryKind, Function, Mpi};
use hq_model::dependency::{After, Condition, Edges, Mapping, NamedEdges};
use hq_model::job::{Counters, Share, Target, TaskIds};
use hq_model::resources::Coupling;
use hq_model::result::ResultFrom;
use hq_model::selector::Selector;
use hq_model::task::{CrashLimit, EndBy, OnWalltime, Pin, Retry, RetryOn, SpeculateFactor, Warning};
use hq_model::worker::{Executor, Manager, OnServerLost, SpillConfig, StoreConfig, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Body, ByteString, Compression, Dependencies, Entries, IdSet, Instance, JobId,
    JobSpec, JobState, OnClose, OutputSink, Policy, PoolKind, Request, ResourcePool, ResourceRequest, Stream,
    Submit, TaskId, TaskRef, TaskSpec, TaskState, Timestamp, Usage, WorkerId, WorkerResources, ZstdLevel,
};
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

mod allocation;
mod explanation;
mod feed;
mod job_shape;
mod load;
mod messages;
mod notice;
mod object;
mod output;
mod overview;
mod sample;
mod tasks;
mod worker_messages;

pub use messages::{client_request, client_response, record};
pub use worker_messages::{from_worker, report, run_batch, to_worker};

/// Any set of ids, the empty one and the largest id included.
pub fn id_set() -> impl Strategy<Value = IdSet> {
    let range = (edgy_id(), 0..200_u32).prop_map(|(first, more)| first..=first.saturating_add(more));
    vec(range, 0..6).prop_map(|ranges| ranges.into_iter().collect())
}

/// Any set of at least one id.
pub fn some_ids() -> impl Strategy<Value = IdSet> {
    (id_set(), edgy_id()).prop_map(|(mut ids, id)| {
        ids.insert(TaskId(id));
        ids
    })
}

/// A set of few ids, at least one: for messages that say something of each.
pub fn few_ids() -> impl Strategy<Value = IdSet> {
    vec(edgy_id(), 1..8).prop_map(|ids| ids.into_iter().map(TaskId).collect())
}

fn edgy_id() -> impl Strategy<Value = u32> {
    prop_oneof![0..20_u32, any::<u32>(), Just(u32::MAX)]
}

/// Any job.
pub fn job() -> impl Strategy<Value = JobId> {
    any::<u32>().prop_map(JobId)
}

/// Any worker.
pub fn worker() -> impl Strategy<Value = WorkerId> {
    any::<u32>().prop_map(WorkerId)
}

/// Any instance.
pub fn instance() -> impl Strategy<Value = Instance> {
    prop_oneof![0..3_u32, any::<u32>()].prop_map(Instance)
}

/// Any task.
pub fn task_ref() -> impl Strategy<Value = TaskRef> {
    (job(), edgy_id()).prop_map(|(job, task)| TaskRef::new(job, TaskId(task)))
}

/// Any time: near one another mostly, sometimes anywhere.
pub fn timestamp() -> impl Strategy<Value = Timestamp> {
    let now = 1_780_000_000_000_000_u64;
    prop_oneof![4 => now..now + 10_000_000, 1 => any::<u64>()].prop_map(Timestamp)
}

/// Any duration that has a form: up to 584 years.
pub fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![(0..100_000_u64).prop_map(Duration::from_secs), any::<u64>().prop_map(Duration::from_nanos)]
}

/// Bytes that need not be text.
pub fn byte_string() -> impl Strategy<Value = ByteString> {
    prop_oneof!["[ -~]{0,12}".prop_map(String::into_bytes), vec(any::<u8>(), 0..12)]
}

/// Text without control characters.
pub fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

/// The name of a resource.
pub fn resource_name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["cpus", "mem", "gpus", "gpus/nvidia"]).prop_map(str::to_owned),
        "[a-zA-Z][a-zA-Z0-9/]{0,6}"
    ]
}

/// Any amount above zero.
pub fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(1..100_u64).prop_map(Amount::whole), (1..=Amount::MAX.0).prop_map(Amount)]
}

fn policy() -> impl Strategy<Value = Policy> {
    use Policy::*;
    select(vec![Compact, CompactStrict, Tight, TightStrict, Scatter])
}

fn resource_requests() -> impl Strategy<Value = Vec<ResourceRequest>> {
    let amount = || {
        prop_oneof![
            Just(AmountRequest::All),
            (amount(), policy()).prop_map(|(a, p)| AmountRequest::Some(a, p))
        ]
    };
    btree_set(resource_name(), 0..4).prop_flat_map(move |names: BTreeSet<String>| {
        let amounts = vec(amount(), names.len());
        amounts.prop_map(move |amounts| {
            let pairs = names.iter().cloned().zip(amounts);
            pairs.map(|(name, amount)| ResourceRequest { name, amount }).collect()
        })
    })
}

/// Any variants of a request: all within one worker, or all over several.
pub fn requests() -> impl Strategy<Value = Vec<Request>> {
    let single =
        (resource_requests(), duration(), any::<u32>()).prop_map(|(resources, time_request, weight)| {
            Request { resources, time_request, weight, ..Request::default() }
        });
    let several = (1..100_u32, 0..9_u32, any::<bool>(), resource_requests(), duration(), any::<u32>())
        .prop_map(|(nodes, ranks, exclusive, mut resources, time_request, weight)| {
            resources.retain(|resource| ranks == 1 || ranks > 1 && resource.amount != AmountRequest::All);
            Request { nodes, ranks, exclusive, resources, time_request, weight }
        });
    prop_oneof![3 => vec(single, 1..4), 1 => vec(several, 1..3)]
}

fn output() -> impl Strategy<Value = OutputSink> {
    let path = vec(any::<u8>(), 1..10);
    let on_close =
        prop_oneof![Just(OnClose::Keep), Just(OnClose::RemoveIfFinished), Just(OnClose::RemoveIfEmpty)];
    prop_oneof![
        Just(OutputSink::None),
        Just(OutputSink::Stream),
        (path, on_close).prop_map(|(path, on_close)| OutputSink::File { path, on_close })
    ]
}

fn crash_limit() -> impl Strategy<Value = CrashLimit> {
    prop_oneof![
        Just(CrashLimit::NeverRestart),
        (1..=u32::MAX).prop_map(CrashLimit::Times),
        Just(CrashLimit::Unlimited)
    ]
}

/// Any reason to run again.
pub(crate) fn restart_cause() -> impl Strategy<Value = RestartCause> {
    prop_oneof![
        Just(RestartCause::Crash),
        Just(RestartCause::Left),
        timestamp().prop_map(|not_before| RestartCause::Retry { not_before }),
        timestamp().prop_map(|not_before| RestartCause::Unfetched { not_before }),
        (duration(), any::<bool>()).prop_map(|(life, waits)| RestartCause::TimeOver { life, waits })
    ]
}

/// Any task that outlasted its workers.
pub(crate) fn outlasted() -> impl Strategy<Value = (TaskId, Outlasted)> {
    (any::<u32>().prop_map(TaskId), any::<u32>(), duration())
        .prop_map(|(task, times, life)| (task, Outlasted { times, life }))
}

fn retry() -> impl Strategy<Value = Retry> {
    let on = (vec(any::<u8>(), 0..4), any::<bool>(), any::<bool>())
        .prop_map(|(codes, signal, timeout)| RetryOn { codes, signal, timeout });
    (any::<u32>(), duration(), on).prop_map(|(max, delay, on)| Retry { max, delay, on })
}

/// Any template.
pub fn task_spec() -> impl Strategy<Value = TaskSpec> {
    let env = vec((byte_string(), byte_string()), 0..4);
    let arg = prop_oneof![9 => byte_string(), 1 => Just(b"%{ENTRY.name}".to_vec())];
    let strings = (vec(arg, 1..5), env, byte_string(), byte_string(), output(), output());
    let pin = select(vec![Pin::None, Pin::Taskset, Pin::Omp]);
    let warning = (1..=64_u8, duration()).prop_map(|(signal, before)| Warning { signal, before });
    let times = (of(duration()), duration(), of(warning), of(duration()), of(byte_string()));
    let speculate = of((1000..=u32::MAX).prop_filter_map("a factor", SpeculateFactor::from_thousandths));
    let flags = (any::<bool>(), text());
    let rest = (requests(), pin, any::<i32>(), crash_limit(), (retry(), speculate), flags);
    let end_by = prop_oneof![timestamp().prop_map(EndBy::At), duration().prop_map(EndBy::Within)];
    let outputs = (vec(vec(any::<u8>(), 1..5), 0..3), duration(), of(end_by), object::of_spec());
    (strings, times, rest, outputs).prop_map(
        |(strings, times, rest, (outputs, output_patience, end_by, objects))| {
            let (args, env, stdin, cwd, stdout, stderr) = strings;
            let (time_limit, kill_grace, warning, expected, locality) = times;
            let (requests, pin, priority, crash_limit, (retry, speculate), flags) = rest;
            let (task_dir, launcher) = flags;
            let is_packed = priority % 3 == 0;
            let env_count = env.len();
            let is_streamed = stdout == OutputSink::Stream || stderr == OutputSink::Stream;
            let kind = if task_dir { Stream::Log } else { Stream::Directory };
            let stream = is_streamed.then(|| kind([b"s", &cwd[..]].concat()));
            let level = ZstdLevel::new(cwd.len() as u32).filter(|_| is_streamed);
            TaskSpec {
                body: match &launcher {
                    name if name.len() % 5 == 4 => Body::Pulled,
                    name if name.len() % 3 == 1 => Body::Function(Function {
                        name: "lab.score:Model.fit".into(),
                        interpreter: args,
                        arguments: cwd.clone(),
                        code: if is_packed { b"code".to_vec() } else { Vec::new() },
                        entry: match task_dir {
                            _ if is_packed => EntryKind::Packed,
                            true => EntryKind::Json,
                            false => EntryKind::Text,
                        },
                        mpi: if cwd.len() % 2 == 0 { Mpi::World } else { Mpi::Warm },
                        gathers: task_dir,
                    }),
                    _ => Body::Program { args },
                },
                env,
                stdin,
                cwd,
                stdout,
                stderr,
                compression: level.map_or(Compression::None, Compression::Zstd),
                service: pin == Pin::Omp,
                outputs,
                output_patience,
                result: match env_count % 5 {
                    0 => ResultFrom::LastLine,
                    1 => ResultFrom::Stdout,
                    2 => ResultFrom::File(b"%{TASK_ID}".to_vec()),
                    _ => ResultFrom::Nothing,
                },
                output_objects: objects.0,
                input_objects: objects.1,
                rebuilds: objects.2,
                end_by,
                requests,
                pin,
                priority,
                time_limit,
                kill_grace,
                warning,
                crash_limit,
                on_walltime: if priority % 2 == 0 { OnWalltime::Wait } else { OnWalltime::Fail },
                retry,
                speculate,
                expected,
                locality,
                task_dir,
                launcher,
                stream,
            }
        },
    )
}

/// Ids with a result each.
pub fn ids_with_results() -> impl Strategy<Value = (IdSet, Entries)> {
    few_ids().prop_flat_map(|ids| {
        let count = ids.len() as usize;
        let results = vec(byte_string(), count..=count);
        (
            Just(ids),
            results.prop_map(|list| Entries::new(list.iter().map(Vec::as_slice)).expect("a few bytes")),
        )
    })
}

/// Any job's name and limits.
pub fn job_spec() -> impl Strategy<Value = JobSpec> {
    let notices = vec(notice::rule(), 0..3);
    let times = (of(duration()), of(duration()), of(duration()));
    (text(), of(any::<u64>()), of(share()), any::<bool>(), (notices, byte_string()), times).prop_map(
        |(name, max_fails, share, is_draft, (notices, directory), (stall_after, linger, budget))| JobSpec {
            name,
            max_fails,
            share,
            is_draft,
            notices,
            stall_after,
            linger,
            budget,
            directory,
        },
    )
}

/// Any job's share.
pub fn share() -> impl Strategy<Value = Share> {
    (0..1u64 << 40, of(1..1u64 << 40), 1..=u32::MAX).prop_map(|(min, more, weight)| Share {
        min,
        max: more.map(|more| min + more),
        weight,
    })
}

/// Entries for so many tasks, or none.
pub fn entries(tasks: u64) -> impl Strategy<Value = Entries> {
    let tasks = tasks as usize;
    let some = vec(byte_string(), tasks)
        .prop_map(|list| Entries::new(list.iter().map(Vec::as_slice)).expect("a few bytes"));
    prop_oneof![Just(Entries::default()), some]
}

/// Few ids with entries for them.
pub fn ids_with_entries() -> impl Strategy<Value = (IdSet, Entries)> {
    let few = few_ids().prop_flat_map(|ids| {
        let entries = entries(ids.len());
        (Just(ids), entries)
    });
    prop_oneof![few, some_ids().prop_map(|ids| (ids, Entries::default()))]
}

/// Any submit.
pub fn submit() -> impl Strategy<Value = Submit> {
    let target = prop_oneof![job_spec().prop_map(Target::New), job().prop_map(Target::Open)];
    let next = (1..6_u32).prop_flat_map(|count| {
        let count_long = u64::from(count);
        (Just(TaskIds::Next(count)), entries(count_long), entries(count_long))
    });
    let given = ids_with_entries().prop_map(|(ids, entries)| (TaskIds::Given(ids), entries.clone(), entries));
    let ids = prop_oneof![given, next];
    (target, ids, dependencies(), task_spec(), byte_string()).prop_map(
        |(target, (ids, entries, keys), dependencies, spec, submit_dir)| Submit {
            target,
            ids,
            entries,
            keys,
            dependencies: Arc::new(dependencies),
            spec: Arc::new(spec),
            submit_dir,
        },
    )
}

/// Any dependencies; they need not fit the tasks that wait.
pub fn dependencies() -> impl Strategy<Value = Dependencies> {
    let condition = select(vec![Condition::Success, Condition::AnyEnd]);
    let mapping = prop_oneof![Just(Mapping::All), any::<u32>().prop_map(Mapping::Window)];
    let after = (job(), of(some_ids()), of(text()), condition, mapping)
        .prop_map(|(job, tasks, key, condition, mapping)| After { job, tasks, key, condition, mapping });
    let lists = vec(vec(any::<u32>().prop_map(TaskId), 0..3), 0..4);
    let file = byte_string().prop_map(|name| [b"/".to_vec(), name].concat());
    let named = vec(vec(byte_string(), 0..3), 0..4);
    (vec(after, 0..3), lists, vec(file, 0..3), named).prop_map(|(after, lists, files, named)| {
        let edges = Edges::new(lists).expect("few");
        let named = named.iter().map(|list| list.iter().map(Vec::as_slice));
        let named = NamedEdges::new(named).expect("few");
        Dependencies { after, files, edges, named }
    })
}

/// Any selection.
pub fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![Just(Selector::All), Just(Selector::Last), some_ids().prop_map(Selector::Ids)]
}

/// Some states of jobs.
pub fn job_states() -> impl Strategy<Value = Vec<JobState>> {
    vec(select(JobState::ALL.to_vec()), 0..4)
}

/// Some states of tasks.
pub fn task_states() -> impl Strategy<Value = Vec<TaskState>> {
    vec(select(TaskState::ALL.to_vec()), 0..4)
}

/// Any measured use.
pub fn usage() -> impl Strategy<Value = Usage> {
    let number = || prop_oneof![Just(0_u64), 0..1_000_000_u64, any::<u64>()];
    (number(), number(), number(), number(), number(), number()).prop_map(
        |(wall_us, user_us, system_us, rss_max_kib, blocks_read, blocks_written)| Usage {
            wall_us,
            user_us,
            system_us,
            rss_max_kib,
            blocks_read,
            blocks_written,
        },
    )
}

/// Counters of a job.
pub fn counters() -> impl Strategy<Value = Counters> {
    let number = || prop_oneof![Just(0_u64), 0..=1_u64 << 32];
    (number(), number(), number(), number(), number(), number()).prop_map(
        |(waiting, running, finished, failed, canceled, aborted)| Counters {
            waiting,
            running,
            finished,
            failed,
            canceled,
            aborted,
        },
    )
}

/// Measures of so many tasks.
pub fn measures(tasks: u64) -> impl Strategy<Value = Measures> {
    (any::<bool>(), vec((timestamp(), usage()), tasks as usize)).prop_map(|(has_usage, tasks)| {
        let mut writer = MeasuresWriter::new(has_usage);
        for (start, usage) in &tasks {
            // Without use, only the wall time is kept, of the sum too.
            let only_time = Usage { wall_us: usage.wall_us, ..Usage::default() };
            writer.push(*start, if has_usage { usage } else { &only_time });
        }
        writer.finish()
    })
}

/// Any span of finished tasks.
pub fn finished_span() -> impl Strategy<Value = FinishedSpan> {
    let ids = few_ids().prop_flat_map(|ids| {
        let (measures, results) = (measures(ids.len()), entries(ids.len()));
        (Just(ids), measures, results)
    });
    (job(), instance(), ids, of(edgy_id())).prop_map(|(job, instance, (ids, measures, results), variant)| {
        FinishedSpan { job, instance, ids, measures, results, variant }
    })
}

/// Any failure.
pub fn failure() -> impl Strategy<Value = Failure> {
    let kind = prop_oneof![
        any::<u8>().prop_map(FailureKind::Exit),
        any::<u8>().prop_map(FailureKind::Signal),
        select(vec![
            FailureKind::Timeout,
            FailureKind::Start,
            FailureKind::Crashes,
            FailureKind::Output,
            FailureKind::Lost,
            FailureKind::Puller,
            FailureKind::EndedEarly,
        ])
    ];
    let nodes = vec(worker(), 0..3);
    let result = vec(any::<u8>(), 0..20);
    let rest = (of(timestamp()), usage(), nodes, result, of(edgy_id()));
    (edgy_id(), instance(), of(worker()), kind, text(), rest).prop_map(
        |(task, instance, worker, kind, error, (started, usage, nodes, result, variant))| Failure {
            task: TaskId(task),
            instance,
            worker,
            kind,
            error,
            started,
            usage,
            nodes,
            result,
            variant,
        },
    )
}

/// Any reason for the end of a worker.
pub fn worker_end() -> impl Strategy<Value = WorkerEnd> {
    use WorkerEnd::*;
    select(vec![ConnectionLost, HeartbeatLost, Stopped, IdleTimeout, TimeLimit, Interrupted, LauncherLost])
}

fn pool_kind() -> impl Strategy<Value = PoolKind> {
    let groups = vec(1..4_usize, 1..4).prop_map(|sizes| {
        let mut next = 0;
        let mut label = || {
            next += 1;
            format!("GPU-{next}")
        };
        PoolKind::Groups(sizes.into_iter().map(|size| (0..size).map(|_| label()).collect()).collect())
    });
    prop_oneof![
        groups,
        (any::<u32>(), 0..1000_u32)
            .prop_map(|(first, more)| PoolKind::Range { first, last: first.saturating_add(more) }),
        amount().prop_map(PoolKind::Sum)
    ]
}

/// Anything a worker may offer.
pub fn worker_resources() -> impl Strategy<Value = WorkerResources> {
    let pools = btree_set(resource_name(), 0..5).prop_flat_map(|names| {
        let kinds = vec(pool_kind(), names.len());
        (Just(names), kinds).prop_map(|(names, kinds)| {
            let pools = names.into_iter().zip(kinds).map(|(name, kind)| ResourcePool { name, kind });
            WorkerResources::new(pools.collect(), Vec::new()).expect("names and labels are unique")
        })
    });
    (pools, any::<[u16; 3]>()).prop_map(|(mut resources, weights)| {
        let groups: Vec<(String, u32)> = resources
            .pools
            .iter()
            .flat_map(|pool| (0..pool.kind.labels().len() as u32).map(|group| (pool.name.clone(), group)))
            .collect();
        let pairs = groups.windows(2).zip(weights);
        let coupling = |(pair, weight): (&[(String, u32)], u16)| Coupling {
            left: pair[0].clone(),
            right: pair[1].clone(),
            weight,
        };
        resources.coupling = pairs.map(coupling).collect();
        resources
    })
}

/// Any configuration of a worker.
pub fn worker_config() -> impl Strategy<Value = WorkerConfig> {
    let texts = (text(), text(), text(), text());
    let heartbeat = (1..=u64::MAX).prop_map(Duration::from_nanos);
    let times = (heartbeat, of(duration()), of(duration()), duration(), of(duration()), duration());
    use OnServerLost::*;
    let words = (
        select(vec![Reconnect, FinishRunning, Stop]),
        (of((select(vec![Manager::Slurm, Manager::Pbs]), text())), of(allocation::allocation_ref())),
        select(vec![Executor::Process, Executor::Null, Executor::Pull]),
    );
    let spill = of((text(), any::<u64>()).prop_map(|(dir, size)| SpillConfig { dir, size }));
    let store = (text(), any::<u64>(), spill).prop_map(|(dir, size, spill)| StoreConfig { dir, size, spill });
    let store = of(store);
    (worker_resources(), texts, times, words, 0..=10_000_u32, (any::<u32>(), store)).prop_map(
        |(resources, texts, times, words, min_utilization, (pid, object_store))| {
            let (hostname, group, work_dir, listen_address) = texts;
            let (heartbeat, idle_timeout, time_limit, time_reserve, overview_interval, reconnect_timeout) =
                times;
            let (on_server_lost, (allocation, origin), executor) = words;
            WorkerConfig {
                resources,
                hostname,
                group,
                work_dir,
                listen_address,
                heartbeat,
                idle_timeout,
                time_limit,
                time_reserve,
                overview_interval,
                min_utilization,
                on_server_lost,
                reconnect_timeout,
                allocation,
                origin,
                executor,
                pid,
                object_store,
            }
        },
    )
}
