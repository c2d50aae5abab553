//! What a peer may not say, and how it is told.

use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::measures::MeasuresWriter;
use hq_core::record::FinishedSpan;
use hq_core::worker_messages::{FromWorker, Held, Report, RunBatch, TemplateId, ToWorker, WorkerHello};
use hq_model::job::{Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::task::{CrashLimit, Warning};
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Entries, IdSet, Instance, JobId, JobSpec, OnClose, OutputSink, Policy,
    PoolKind, Request, ResourcePool, ResourceRequest, Submit, TaskId, TaskSpec, Timestamp, Usage,
    WorkerResources,
};
use hq_proto::{
    decode_client_request, decode_from_worker, decode_to_worker, encode_client_request, encode_from_worker,
    encode_to_worker,
};

fn spec() -> TaskSpec {
    TaskSpec { body: Body::program(["true"]), requests: vec![Request::default()], ..TaskSpec::default() }
}

fn submit(ids: TaskIds, entries: &[&[u8]], spec: TaskSpec) -> Submit {
    let entries = Entries::new(entries.iter().copied()).expect("short");
    let target = Target::New(JobSpec::default());
    let (dependencies, spec) = (Arc::default(), Arc::new(spec));
    Submit { target, ids, entries, keys: Entries::default(), dependencies, spec, submit_dir: b"/".to_vec() }
}

fn request(change: impl FnOnce(&mut Request)) -> Submit {
    let mut spec = spec();
    change(&mut spec.requests[0]);
    submit(TaskIds::Next(1), &[], spec)
}

fn with(change: impl FnOnce(&mut TaskSpec)) -> Submit {
    let mut spec = spec();
    change(&mut spec);
    submit(TaskIds::Next(1), &[], spec)
}

fn resource(name: &str, units: u64) -> ResourceRequest {
    ResourceRequest { name: name.to_owned(), amount: AmountRequest::Some(Amount(units), Policy::Compact) }
}

fn said(submit: Submit) -> String {
    let bytes = encode_client_request(7, &ClientRequest::Submit { key: 1, submit: Box::new(submit) });
    match decode_client_request(&bytes) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn who_replaces_no_placeholders_of_entries_finds_no_program() {
    use hq_model::body::{EntryKind, Function};
    let form_of = |spec: TaskSpec| {
        let submit = submit(TaskIds::Next(1), &[], spec);
        let bytes = encode_client_request(7, &ClientRequest::Submit { key: 1, submit: Box::new(submit) });
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let says_so = |text: &str| text.contains("hq-placeholders-of-entries-need-a-newer-worker");
    let function = Function {
        name: "score:main".into(),
        interpreter: vec![b"python3".to_vec()],
        entry: EntryKind::Json,
        ..Function::default()
    };
    for body in [Body::program(["true"]), Body::Function(function)] {
        for (cwd, is_said) in [("%{ENTRY.dir}", true), ("%{TASK_ID}", false)] {
            let text = form_of(TaskSpec { body: body.clone(), cwd: cwd.into(), ..spec() });
            assert_eq!(says_so(&text), is_said, "{body:?} in {cwd}");
        }
    }
}

#[test]
fn impossible_submits() {
    let named = |name: &str| Submit {
        target: Target::New(JobSpec { name: name.to_owned(), ..JobSpec::default() }),
        ..submit(TaskIds::Next(1), &[], spec())
    };
    let several = |change: &dyn Fn(&mut Vec<Request>)| {
        let mut spec = spec();
        change(&mut spec.requests);
        submit(TaskIds::Next(1), &[], spec)
    };
    let cases = [
        submit(TaskIds::Next(1), &[], spec()),
        submit(TaskIds::Next(0), &[], spec()),
        submit(TaskIds::Given(IdSet::new()), &[], spec()),
        submit(TaskIds::Next(3), &[b"one", b"two"], spec()),
        submit(TaskIds::Given(IdSet::range(0, u32::MAX)), &[b"one"], spec()),
        named("two\nlines"),
        named(&"long".repeat(2000)),
        with(|spec| spec.body = Body::default()),
        with(|spec| spec.requests.clear()),
        with(|spec| spec.stdout = OutputSink::File { path: Vec::new(), on_close: OnClose::Keep }),
        with(|spec| spec.warning = Some(Warning { signal: 0, before: Duration::ZERO })),
        with(|spec| spec.warning = Some(Warning { signal: 65, before: Duration::ZERO })),
        with(|spec| spec.crash_limit = CrashLimit::Times(0)),
        several(&|requests| requests.resize(1000, Request::default())),
        several(&|requests| requests.push(Request { nodes: 2, ..Request::default() })),
        request(|request| request.resources = vec![resource("cpus", 0)]),
        request(|request| request.resources = vec![resource("cpus", u64::MAX)]),
        request(|request| request.resources = vec![resource("c p u", 1)]),
        request(|request| request.resources = vec![resource("cpus", 1), resource("cpus", 1)]),
        request(|request| request.resources = vec![resource("mem", 1), resource("cpus", 1)]),
        request(|request| (request.nodes, request.resources) = (1, vec![resource("cpus", 1)])),
    ];
    let shown: Vec<String> = cases.into_iter().map(said).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
        accepted
        tasks of a submit is 0, which is not in 1 to 4294967295
        ids of a submit is missing
        entries holds 2 values where 3 belong
        entries holds 1 values where 4294967296 belong
        name of a job must hold no newline or tab
        name of a job has 8000 bytes, the limit is 4096
        args must hold at least the program
        variants of a request must hold at least one
        path of an output must not be empty
        signal is 0, which is not in 1 to 64
        signal is 65, which is not in 1 to 64
        crash limit is 0, which is not in 1 to 4294967295
        variants of a request: 1000 resource variants are too many: the maximum is 32
        variants of a request: single-node and multi-node variants cannot be mixed
        amount of a resource is 0, which is not in 1 to 1125899906842624
        amount of a resource is 18446744073709551615, which is not in 1 to 1125899906842624
        name of a resource: `c p u` is not a valid resource name: a name begins with a letter and contains only letters, digits, `/`, `-` and `_`
        resources of a request must be sorted by name, each once
        resources of a request must be sorted by name, each once
        request: whole nodes are requested, so resources can only be given per rank
        ");
}

#[test]
fn a_selection_of_nothing() {
    let bytes =
        encode_client_request(1, &ClientRequest::JobInfo { jobs: Selector::Ids(IdSet::new()), page: None });
    insta::assert_snapshot!(decode_client_request(&bytes).expect_err("no ids"), @"selection is missing");
}

fn config() -> WorkerConfig {
    WorkerConfig::new(WorkerResources::cpus(4))
}

fn pool(name: &str, kind: PoolKind) -> ResourcePool {
    ResourcePool { name: name.to_owned(), kind }
}

fn range(first: u32, last: u32) -> PoolKind {
    PoolKind::Range { first, last }
}

fn groups(groups: &[&[&str]]) -> PoolKind {
    PoolKind::Groups(
        groups.iter().map(|labels| labels.iter().map(|label| (*label).to_owned()).collect()).collect(),
    )
}

fn told(message: FromWorker) -> String {
    match decode_from_worker(&encode_from_worker(&message)) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn hello(config: WorkerConfig, holds: Vec<Held>) -> FromWorker {
    let started = Timestamp(1);
    FromWorker::Hello(Box::new(WorkerHello {
        config,
        started,
        age: None,
        known_as: None,
        secret: None,
        holds,
        last_report: 0,
        follows: true,
        follows_calls: false,
        shows: false,
        stores: false,
        relays: false,
        objects: Vec::new(),
    }))
}

#[test]
fn impossible_workers() {
    let offers = |pools: Vec<ResourcePool>| {
        let resources = WorkerResources { pools, coupling: Vec::new() };
        hello(WorkerConfig { resources, ..config() }, Vec::new())
    };
    let coupled = |left: (&str, u32), right: (&str, u32)| {
        let mut config = config();
        config.resources.coupling.push(hq_model::resources::Coupling {
            left: (left.0.to_owned(), left.1),
            right: (right.0.to_owned(), right.1),
            weight: 256,
        });
        hello(config, Vec::new())
    };
    let holds = |running: IdSet, started: usize| {
        let held = Held {
            template: TemplateId { job: JobId(1), submit: 0 },
            instance: Instance(0),
            variant: None,
            queued: IdSet::new(),
            running,
            started: vec![Timestamp(5); started],
        };
        hello(config(), vec![held])
    };
    let cases = [
        hello(config(), Vec::new()),
        hello(WorkerConfig { heartbeat: Duration::ZERO, ..config() }, Vec::new()),
        hello(WorkerConfig { min_utilization: 10_001, ..config() }, Vec::new()),
        hello(WorkerConfig { hostname: "a\0b".to_owned(), ..config() }, Vec::new()),
        offers(vec![pool("cpus", range(0, u32::MAX))]),
        offers(vec![pool("cpus", groups(&[]))]),
        offers(vec![pool("cpus", groups(&[&["0"], &[]]))]),
        offers(vec![pool("cpus", groups(&[&["0"], &["0"]]))]),
        offers(vec![pool("cpus", range(0, 1)), pool("cpus", range(0, 1))]),
        offers(vec![pool("mem", range(0, 1)), pool("cpus", range(0, 1))]),
        offers(vec![pool("mem", PoolKind::Sum(Amount(u64::MAX)))]),
        offers(vec![pool("", range(0, 1))]),
        coupled(("cpus", 0), ("cpus", 1)),
        coupled(("cpus", 0), ("gpus", 0)),
        holds(IdSet::range(1, 2), 2),
        holds(IdSet::range(1, 2), 1),
        holds(IdSet::range(0, u32::MAX), 0),
    ];
    let shown: Vec<String> = cases.into_iter().map(told).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
        accepted
        heartbeat is 0, which is not in 1 to 18446744073709551615
        minimal utilization is 10001, which is not in 0 to 10000
        host name must not hold a zero byte
        indices of a pool is 4294967296, which is not in 1 to 1048576
        indices of a pool is 0, which is not in 1 to 1048576
        pool of a worker: `[[0],[]]` does not define resource `cpus`: every group needs at least one member
        pool of a worker: label `0` occurs twice in resource `cpus`
        pools of a worker must be `cpus` and then sorted by name, each once
        pools of a worker must be `cpus` and then sorted by name, each once
        sum of a pool is 18446744073709551615, which is not in 0 to 1125899906842624
        name of a resource: `` is not a valid resource name: a name begins with a letter and contains only letters, digits, `/`, `-` and `_`
        coupling must name groups of the worker's pools
        coupling must name groups of the worker's pools
        accepted
        start times of running tasks holds 1 values where 2 belong
        running tasks is 4294967296, which is not in 0 to 1048576
        ");
}

#[test]
fn impossible_reports() {
    let span = |ids: IdSet, count: u64| {
        let mut writer = MeasuresWriter::new(true);
        for at in 0..count {
            writer.push(Timestamp(at), &Usage::default());
        }
        let span = FinishedSpan {
            job: JobId(1),
            instance: Instance(0),
            ids,
            measures: writer.finish(),
            results: Entries::default(),
            variant: None,
        };
        FromWorker::Report(Report { number: 1, finished: vec![span], ..Report::default() })
    };
    let cases = [
        span(IdSet::range(1, 3), 3),
        span(IdSet::range(1, 3), 2),
        span(IdSet::range(1, 3), 4),
        span(IdSet::range(0, u32::MAX), 2),
        span(IdSet::new(), 0),
    ];
    let shown: Vec<String> = cases.into_iter().map(told).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
        accepted
        measures must describe each finished task
        measures must describe each finished task
        measures must describe each finished task
        ids of finished tasks must not be empty
        ");
}

#[test]
fn impossible_orders() {
    let run_after = |ids: IdSet, entries: &[&[u8]], leader: Option<u32>| {
        let batch = RunBatch {
            template: TemplateId { job: JobId(1), submit: 0 },
            content: None,
            ids,
            instance: Instance(0),
            services: Vec::new(),
            entries: Entries::new(entries.iter().copied()).expect("short"),
            nodes: Vec::new(),
            after: leader.map(|leader| (TaskId(leader), Instance(0))),
            variant: None,
            head_start: Duration::ZERO,
            inputs: Vec::new(),
            objects: Vec::new(),
        };
        match decode_to_worker(&encode_to_worker(&ToWorker::Run(vec![batch]))) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let run = |ids, entries| run_after(ids, entries, None);
    let shown = [
        run(IdSet::range(1, 2), &[b"a", b""]),
        run(IdSet::range(1, 2), &[b"a"]),
        run(IdSet::new(), &[]),
        run_after(IdSet::range(1, 1), &[], Some(0)),
        run_after(IdSet::range(1, 1), &[], Some(1)),
        run_after(IdSet::range(1, 2), &[], Some(0)),
    ];
    insta::assert_snapshot!(shown.join("\n"), @r"
        accepted
        entries holds 1 values where 2 belong
        ids of tasks to run is missing
        accepted
        task to follow must be another one, of one task
        task to follow must be another one, of one task
        ");
}

#[test]
fn words_of_later_releases() {
    // `Leaving` with a reason that does not exist yet.
    let mut bytes = Vec::new();
    prost::encoding::int32::encode(5, &99, &mut bytes);
    let error = decode_from_worker(&bytes).expect_err("no such reason");
    insta::assert_snapshot!(error, @"end of a worker has the unknown value 99");
    let mut bytes = Vec::new();
    prost::encoding::int32::encode(5, &0, &mut bytes);
    let error = decode_from_worker(&bytes).expect_err("no reason");
    insta::assert_snapshot!(error, @"end of a worker is missing");
}
