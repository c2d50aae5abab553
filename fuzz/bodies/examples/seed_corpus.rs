//! Writes the first inputs of the corpora: valid messages of every kind, and texts of the grammar.
//! The same files come out every time.
//!
//!     cargo run --package hq-fuzz --example seed_corpus

use std::fs;
use std::io;
use std::path::Path;

use hq_core::node_messages::{Fetch, FromNode, ProcessEnd, Rank, StartProcess, ToNode};
use hq_core::worker_messages::TaskNode;
use hq_model::{Compression, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId, ZstdLevel};
use hq_net::{AccessFile, Role};
use hq_proto::{self as proto, Passage, pull, testing};
use hq_stream::{Attempt, Channel, Header, Writer};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Inputs per kind of message.
const INPUTS: usize = 24;
/// Longer inputs are left out: a fuzzer makes its way better from short ones.
const BYTES_MAX: usize = 2048;

const TEXTS: [&str; 44] = [
    "1",
    "1-10",
    "1-100:7",
    "0,2,4-9:2",
    "1_000-2_000",
    "4294967295",
    "5-1",
    "1-5,3",
    "all",
    "last",
    "1,last",
    "2.5",
    "0.0001",
    "1_0.5",
    "2 compact",
    "2 compact!",
    "0.5 tight",
    "3 scatter",
    "all",
    "4x8",
    "[a,b,\"c d\"]",
    "[[0,1],[2,3]]",
    "range(1-10)",
    "sum(64GiB)",
    "sum(1.5)",
    "64GB",
    "4GiB",
    "1024",
    "17179869184",
    "1h 30m",
    "90s",
    "100ms",
    "01:30:00",
    "2:05",
    "3600",
    "1,2-5,signal,timeout",
    "never-restart",
    "unlimited",
    "cpus[0]:gpus[0]=16,cpus[1]:gpus[1]",
    "SIGTERM",
    "USR1",
    "%{CWD}/job-%{JOB_ID}/%{TASK_ID}.out",
    "%{",
    "finished",
];

// Rules, a NUL byte, targets.
const MAKE_FILES: [&str; 5] = [
    "a: {inp: [b], out: [a], script: x}\nb: {inp: [c], out: [b], script: y, rerun: hash}\n",
    "s: &s\n  resource: {time: 120, nrs: 2, cpu: 4, mem: 4GiB}\n  inp: {p: \"{n}.p\"}\n  out: {t: \"{n}.t\"}\n  setup: m\n  script: |\n    {mpirun} s {inp[p]} {out[t]}\nt: {<<: *s, out: ['{n}.u']}\n\0w: {dirname: d, frames: 3, loop: {n: 'range({frames})', out: ['{n}.t', '{n}.u']}}\n",
    "a: {loop: {m: 'range({n})', k: [x, y], inp: ['b_{m}_{k}']}, out: ['a_{n:02d}', 'c_{n:02d}'], script: '{inp[0]}', env: {A: '{n}'}, retry: 1}\nb: {out: ['b_{i}_{j}'], script: x}\n\0t: {out: [a_03, c_11]}\n",
    "r1: {inp: [b], out: [a], script: x}\nr2: {inp: [a], out: [b], script: y}\n",
    "a: {out: ['{x}_{y}', '{y}/{x}'], script: '{{}}', locality: [k, '{x}'], time_limit: 1h}\n\0t: &t {out: [p_q]}\nu: {<<: [*t], v: yes}\n",
];

const EXPRESSIONS: [&str; 10] = [
    "range(0,120)",
    "[x*x for x in range(5) if x % 2]",
    "['a', \"b\"] + list(zip('abc', range(2)))",
    "{'a': 1, 'b': [2.5, None]}.items()",
    "sorted({3, 1, 2}, reverse=True)[1:-1:2]",
    "[str(n).zfill(3) for n in range(7, 0, -3)]",
    "1 if 2 ** 10 // 3 > -7 % 5 and not None else ()",
    "'\\x41\\u00e9' r'\\d'",
    "max([len(x) for x in 'a b c'.split()], 4)",
    "[(a, b) for a, (b, c) in enumerate([(1, 2), (3, 4)], start=1)]",
];

const TEMPLATES: [&str; 10] = [
    "an_{n:03d}.npy",
    "{x:>+10.2f}{s!r}",
    "{l[0]}{d[k]}{d.k}",
    "{{}} {n} }}",
    "{n:{n}}",
    "{n:#_x}/{s:*^9}",
    "a_{p}_{q}.x",
    "{z:.2%}{p:,}",
    "./{a}/../{b}//c",
    "{a[",
];

fn main() -> io::Result<()> {
    let mut runner = TestRunner::deterministic();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let put = |target: &str, inputs: Vec<Vec<u8>>| -> io::Result<()> {
        let directory = corpus.join(target);
        fs::create_dir_all(&directory)?;
        for (number, input) in inputs.iter().filter(|input| input.len() <= BYTES_MAX).enumerate() {
            fs::write(directory.join(format!("seed-{number:02}")), input)?;
        }
        Ok(())
    };
    put(
        "client_request",
        some(&mut runner, testing::client_request(), |m| proto::encode_client_request(7, m)),
    )?;
    put(
        "client_response",
        some(&mut runner, testing::client_response(), |m| proto::encode_client_response(7, m)),
    )?;
    put("to_worker", some(&mut runner, testing::to_worker(), proto::encode_to_worker))?;
    put("from_worker", some(&mut runner, testing::from_worker(), proto::encode_from_worker))?;
    put(
        "record",
        some(&mut runner, testing::record(), |m| proto::encode_record(Timestamp(1_700_000_000_000_000), m)),
    )?;
    put("to_node", to_node().iter().map(proto::encode_to_node).collect())?;
    put("from_node", from_node())?;
    put("pull_frame", pull_frames())?;
    put("passage", passages())?;
    put("grammar", TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect())?;
    put("make_files", MAKE_FILES.iter().map(|text| text.as_bytes().to_vec()).collect())?;
    put("make_expression", EXPRESSIONS.iter().map(|text| text.as_bytes().to_vec()).collect())?;
    put("make_template", TEMPLATES.iter().map(|text| text.as_bytes().to_vec()).collect())?;
    put("hello", vec![Vec::new(), vec![8, 1, 16, 1], vec![10, 2, 8, 1, 16, 1], vec![0xff; 16]])?;
    put("frames", frames())?;
    put("access_file", access_files())?;
    put("stream_file", stream_files()?)
}

fn some<M: std::fmt::Debug>(
    runner: &mut TestRunner,
    any: impl Strategy<Value = M>,
    encode: impl Fn(&M) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    (0..INPUTS)
        .map(|_| encode(&any.new_tree(runner).expect("the generators reject nothing").current()))
        .collect()
}

// The last one gives a reason of which nothing may be shown.
fn passages() -> Vec<Vec<u8>> {
    let said = [Passage::Relay(17), Passage::Refused("no more".into()), Passage::Refused("\x1b".into())];
    said.iter().map(proto::encode_passage).chain([Vec::new(), vec![8, 0], vec![0xff; 4]]).collect()
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |payload: &[u8]| [&(payload.len() as u32).to_le_bytes()[..], payload].concat();
    vec![
        Vec::new(),
        frame(b""),
        frame(b"hello"),
        [frame(b"a"), frame(b"bc"), frame(b"")].concat(),
        [frame(b"cut off"), vec![9, 0, 0, 0, 1]].concat(),
        u32::MAX.to_le_bytes().to_vec(),
        frame(&[7; 300]),
    ]
}

fn to_node() -> Vec<ToNode> {
    let task = TaskRef::new(JobId(3), TaskId(7));
    let node = |worker| TaskNode { worker, hostname: "n9".into(), address: "n9:4000".into() };
    let fetch = |from| {
        let object = "3@7:parts".parse().expect("an object");
        ToNode::Fetch(Fetch { worker: WorkerId(9), object, instance: Instance(2), offset: 1 << 40, from })
    };
    let start = |rank| {
        let (args, env) = (vec![b"a".to_vec(), b"\xff".to_vec()], vec![b"K=V".to_vec()]);
        ToNode::Start(StartProcess { process: 4, rank, args, env, cwd: b"/tmp".to_vec() })
    };
    vec![
        ToNode::Hello { task, instance: Instance(2), worker: WorkerId(9), node: 1 },
        start(Some(Rank { local: 1, rank: 5, ranks: 8 })),
        start(None),
        ToNode::Signal { process: 4, signal: 15 },
        fetch(None),
        fetch(Some(node(WorkerId(8)))),
        ToNode::Put { worker: WorkerId(9), size: 1 << 33 },
        ToNode::Piece { bytes: b"some bytes".to_vec(), is_last: true },
    ]
}

// A piece is said in two ways.
fn from_node() -> Vec<Vec<u8>> {
    let node = TaskNode { worker: WorkerId(9), hostname: "n9".into(), address: "n9:4000".into() };
    let all = [
        FromNode::Started { process: 4 },
        FromNode::Refused { process: 4, reason: "no such program".to_owned() },
        FromNode::Output { process: 4, is_error: true, bytes: b"warned\n".to_vec() },
        FromNode::Ended { process: 4, end: ProcessEnd::Exited(3) },
        FromNode::Ended { process: 4, end: ProcessEnd::Signaled(9) },
        FromNode::Piece { offset: 300, bytes: b"some bytes".to_vec(), is_last: false },
        FromNode::Put { file: "put-1".to_owned() },
        FromNode::Busy { others: vec![node] },
    ];
    let piece = [proto::piece_head(300, true, 4), b"last".to_vec()].concat();
    all.iter().map(proto::encode_from_node).chain([piece]).collect()
}

fn pull_frames() -> Vec<Vec<u8>> {
    use pull::request::Body;
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let named = |name: &str| pull::End { name: Some(name.to_owned()), ..pull::End::default() };
    let deferred = pull::Deferred { after: texts(&["b"]), ..pull::Deferred::default() };
    let ends = pull::Ends {
        tasks: vec![named("a"), pull::End { deferred: Some(deferred), ..named("c") }],
        ..pull::Ends::default()
    };
    let done = vec![pull::End {
        id: Some("4@1".to_owned()),
        attempt: Some("3.0".to_owned()),
        result: b"-7.3".to_vec(),
        ..pull::End::default()
    }];
    let task = pull::NewTask {
        name: "a".to_owned(),
        payload: b"ligand 1".to_vec(),
        after: texts(&["b"]),
        priority: -1,
        expect: Some(1.5),
        ..pull::NewTask::default()
    };
    let hello = pull::Hello { label: Some("n".to_owned()), grace: Some(9.5), ..pull::Hello::default() };
    let requests = [
        Body::Hello(hello),
        Body::Open(pull::Open { name: Some("dock".to_owned()), max_fails: Some(3) }),
        Body::Create(pull::Create { bag: "dock".to_owned(), tasks: vec![task], missing: 1 }),
        Body::Next(pull::Next {
            done,
            take: 2,
            wait: 1.5,
            bags: texts(&["dock", "4"]),
            tags: texts(&["gpu"]),
        }),
        Body::Take(pull::Take { count: Some(1), ..pull::Take::default() }),
        Body::Complete(ends.clone()),
        Body::Defer(ends),
        Body::Sync(pull::Nothing {}),
        Body::Look(pull::Look { bag: "dock".to_owned(), names: texts(&["a"]) }),
        Body::Status(pull::Status { bags: Vec::new() }),
    ];
    let framed = requests.map(|body| {
        let mut frame = Vec::new();
        pull::put_request(&pull::Request { body: Some(body) }, &mut frame);
        frame.split_off(pull::LENGTH_BYTES)
    });
    let held = pull::Held { id: "4@1".to_owned(), name: "a".to_owned(), held: 1.5, left: 58.5 };
    let session = pull::Session { connected: true, taken: 1, tasks: vec![held], ..pull::Session::default() };
    let status = pull::Standing {
        bags: vec![pull::Bag::default()],
        sessions: vec![session],
        above: Vec::new(),
        below: Vec::new(),
    };
    let given = pull::Given { tasks: vec![pull::Task::default()], accepted: 2, ..pull::Given::default() };
    let answers = [pull::answer::Body::Status(status), pull::answer::Body::Given(given)].map(|body| {
        let mut frame = Vec::new();
        pull::put_answer(&pull::Answer { body: Some(body) }, &mut frame);
        frame.split_off(pull::LENGTH_BYTES)
    });
    framed.into_iter().chain(answers).collect()
}

// Keys of their own kind: no file here belongs to a server.
fn access_files() -> Vec<Vec<u8>> {
    let plain = AccessFile::generate("aB3dE6", ("login1", 4000), ("10.0.0.1", 4001), false, false);
    let key = "11".repeat(32);
    let with_keys = format!(
        r#"{{"version":"0.1.0","server_uid":"aB3dE6","client":{{"host":"h","port":1,"secret_key":"{key}","server_key":"{key}"}}}}"#
    );
    let full = plain.to_json();
    vec![
        full.clone().into_bytes(),
        plain.without_server_keys(Some(Role::Worker)).to_json().into_bytes(),
        full.as_bytes()[..full.len() / 2].to_vec(),
        with_keys.into_bytes(),
        b"{}".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
    ]
}

// One with a few tasks and two indexes, the same without its end, and one that holds a copy of itself.
fn stream_files() -> io::Result<Vec<Vec<u8>>> {
    let dir = tempfile::tempdir()?;
    let header = Header { server_uid: "uid".to_owned(), worker: WorkerId(1), created: Timestamp(1) };
    let mut writer = Writer::create(dir.path(), &header)?;
    for task in 0..4 {
        let attempt = Attempt { task: TaskRef::new(JobId(1), TaskId(task)), instance: Instance(task % 2) };
        writer.append(attempt, Channel::Stdout, Timestamp(2), b"printed\n")?;
        writer.append(attempt, Channel::Stderr, Timestamp(3), b"warned\n")?;
        writer.end(attempt, &[Channel::Stdout, Channel::Stderr], Timestamp(4))?;
        if task % 2 == 1 {
            writer.finish()?;
        }
    }
    let whole = fs::read(writer.path())?;
    let attempt = Attempt { task: TaskRef::new(JobId(2), TaskId(0)), instance: Instance(0) };
    writer.append(attempt, Channel::Stdout, Timestamp(5), &whole)?;
    writer.flush()?;
    let copied = fs::read(writer.path())?;
    writer.compress(Compression::Zstd(ZstdLevel::DEFAULT));
    writer.append(attempt, Channel::Stderr, Timestamp(6), &[b'a'; 5000])?;
    writer.finish()?;
    let packed = fs::read(writer.path())?;
    Ok(vec![whole[..whole.len() - 30].to_vec(), whole, copied, packed])
}
