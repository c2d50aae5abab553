//! What must hold for any bytes that a stranger sends and any text that a user writes: nothing panics,
//! memory stays bounded, and what is understood is said again in a way that is understood the same.
//!
//! One function per fuzzing target. `fuzz/fuzz_targets` calls them with the fuzzer's bytes, the test
//! `replay` with the corpora.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::io::Write;
use std::str::FromStr;

use hq_core::node_messages::FromNode;
use hq_model::task::{CrashLimit, RetryOn};
use hq_model::worker::{Executor, Manager, OnServerLost};
use hq_model::{
    Amount, AmountRequest, IdSet, JobState, NoticeTarget, Policy, TaskState, duration, memory, request,
    resources, selector::Selector, signal,
};
use hq_net::{AccessFile, Role};
use hq_proto::{self as proto, PieceHead, pull};
use hq_stream::limits::BLOCK_BYTES;
use hq_stream::{Content, StreamFile};

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 17] = [
    ("frames", frames),
    ("hello", hello),
    ("client_request", client_request),
    ("client_response", client_response),
    ("to_worker", to_worker),
    ("from_worker", from_worker),
    ("to_node", to_node),
    ("from_node", from_node),
    ("pull_frame", pull_frame),
    ("passage", passage),
    ("record", record),
    ("access_file", access_file),
    ("grammar", grammar),
    ("stream_file", stream_file),
    ("make_files", make_files),
    ("make_expression", make_expression),
    ("make_template", make_template),
];

/// Frames from a stream; each frame is sent again and comes out the same.
pub fn frames(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime needs nothing from the system").block_on(async {
        let input = std::io::Cursor::new(bytes.to_vec());
        let (_, mut receiver) = hq_net::frames_over(input, tokio::io::sink(), Role::Worker);
        let mut count = 0;
        while let Ok(Some(frame)) = receiver.next().await {
            assert!(frame.len() <= bytes.len(), "a frame holds no more than what was read");
            count += 1;
        }
        assert!(count <= bytes.len() / 4, "every frame has a header");
    });
}

/// A hello.
pub fn hello(bytes: &[u8]) {
    if let Ok(hello) = proto::decode_hello(bytes) {
        let again = proto::decode_hello(&proto::encode_hello(&hello)).map_err(|error| error.to_string());
        assert_eq!(format!("{again:?}"), format!("{:?}", Ok::<_, String>(&hello)));
    }
}

/// What a server says first to a puller.
pub fn passage(bytes: &[u8]) {
    if let Ok(passage) = proto::decode_passage(bytes) {
        same(proto::decode_passage(&proto::encode_passage(&passage)), &passage);
    }
}

/// A request of a client.
pub fn client_request(bytes: &[u8]) {
    if let Ok((number, request)) = proto::decode_client_request(bytes) {
        let again = proto::decode_client_request(&proto::encode_client_request(number, &request));
        same(again, &(number, request));
    }
}

/// An answer to a client.
pub fn client_response(bytes: &[u8]) {
    if let Ok((number, response)) = proto::decode_client_response(bytes) {
        let again = proto::decode_client_response(&proto::encode_client_response(number, &response));
        same(again, &(number, response));
    }
}

/// A message to a worker.
pub fn to_worker(bytes: &[u8]) {
    if let Ok(message) = proto::decode_to_worker(bytes) {
        same(proto::decode_to_worker(&proto::encode_to_worker(&message)), &message);
    }
}

/// A message from a worker.
pub fn from_worker(bytes: &[u8]) {
    if let Ok(message) = proto::decode_from_worker(bytes) {
        same(proto::decode_from_worker(&proto::encode_from_worker(&message)), &message);
    }
}

/// What a worker says to another one: of processes of tasks on several nodes, and of objects.
pub fn to_node(bytes: &[u8]) {
    if let Ok(message) = proto::decode_to_node(bytes) {
        same(proto::decode_to_node(&proto::encode_to_node(&message)), &message);
    }
}

/// What it is answered. A piece whose bytes are not copied is the same as one that is read as a whole.
pub fn from_node(bytes: &[u8]) {
    let message = proto::decode_from_node(bytes);
    if let Ok(message) = &message {
        same(proto::decode_from_node(&proto::encode_from_node(message)), message);
    }
    if let Some(ask) = proto::decode_ask_relay(bytes) {
        assert_eq!(proto::decode_ask_relay(&proto::encode_ask_relay(ask)), Some(ask));
    }
    if let Some(PieceHead { offset, is_last, begin }) = proto::split_piece(bytes) {
        same(message, &FromNode::Piece { offset, is_last, bytes: bytes[begin..].to_vec() });
    }
}

/// What stands in a frame at the socket of a relay: a request, or an answer.
pub fn pull_frame(bytes: &[u8]) {
    let framed = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        put(&mut frame);
        assert_eq!(frame[..4], ((frame.len() - 4) as u32).to_be_bytes(), "a frame begins with its length");
        frame.split_off(4)
    };
    // Compared as bytes: a number that is none is not equal to itself.
    if let Ok(request) = pull::decode_request(bytes) {
        let said = framed(&|out| pull::put_request(&request, out));
        let again = pull::decode_request(&said).expect("what was encoded is decoded");
        assert_eq!(framed(&|out| pull::put_request(&again, out)), said);
    }
    if let Ok(answer) = pull::decode_answer(bytes) {
        let said = framed(&|out| pull::put_answer(&answer, out));
        let again = pull::decode_answer(&said).expect("what was encoded is decoded");
        assert_eq!(framed(&|out| pull::put_answer(&again, out)), said);
    }
}

/// A record of the journal.
pub fn record(bytes: &[u8]) {
    if let Ok((at, record)) = proto::decode_record(bytes) {
        same(proto::decode_record(&proto::encode_record(at, &record)), &(at, record));
    }
}

/// An access file.
pub fn access_file(bytes: &[u8]) {
    if let Ok(file) = AccessFile::parse(bytes) {
        assert_eq!(AccessFile::parse(file.to_json().as_bytes()).as_ref(), Ok(&file));
        for role in [None, Some(Role::Client), Some(Role::Worker)] {
            let part = file.without_server_keys(role);
            assert_eq!(AccessFile::parse(part.to_json().as_bytes()), Ok(part));
        }
    }
}

/// A file of what tasks printed: it is read to its end, and some of it by its indexes.
pub fn stream_file(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    let Ok(opened) = StreamFile::open(file.path()) else { return };
    let again = || StreamFile::open(file.path()).expect("what was opened before");
    let mut scan = opened.scan();
    let (mut held, mut tasks) = (0, BTreeSet::new());
    while let Some(block) = scan.next_block().expect("a file that can be read") {
        for entry in block.entries() {
            held += match entry.content {
                Content::Bytes(_, bytes) => bytes.len(),
                Content::End { .. } | Content::Lost(..) => 0,
            };
            tasks.insert(entry.attempt.task);
        }
    }
    // A block is at least its head; compressed, it may hold more than it has bytes.
    assert!(held <= bytes.len() / 24 * BLOCK_BYTES, "a block holds no more than it may");
    for task in tasks.into_iter().take(16) {
        let mut scan = again().find(task.job, &IdSet::single(task.task)).expect("a file that can be read");
        while let Some(block) = scan.next_block().expect("a file that can be read") {
            assert!(block.length() <= BLOCK_BYTES, "a block holds no more than it may");
        }
    }
}

/// Rules and targets, with a NUL byte between: they are planned and shown, or refused.
pub fn make_files(bytes: &[u8]) {
    hq_make::fuzzing::files(bytes);
}

/// An expression of a loop: it ends.
pub fn make_expression(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        hq_make::fuzzing::expression(text);
    }
}

/// A template: it is filled in, and as a pattern it matches only what it prints.
pub fn make_template(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        hq_make::fuzzing::template(text);
    }
}

/// Every text that a user may write: ranges, selectors, amounts, resources, durations, words.
pub fn grammar(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    reads_back::<IdSet>(text);
    reads_back::<Amount>(text);
    reads_back::<Selector>(text);
    reads_back::<NoticeTarget>(text);
    let _ = text.parse::<RetryOn>();
    reads_back::<CrashLimit>(text);
    reads_back::<JobState>(text);
    reads_back::<TaskState>(text);
    reads_back::<Policy>(text);
    reads_back::<OnServerLost>(text);
    reads_back::<Manager>(text);
    reads_back::<Executor>(text);
    if let Ok(time) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::format(time)).ok(), Some(time), "{text:?}");
    }
    if let Ok(amount) = memory::parse(text) {
        // Shown for people, with two decimals, and read in whole MiB.
        let again = memory::parse(&memory::format(amount)).expect("a size that is shown can be written");
        let bound = Amount::whole(1).0 + amount.0 / 200;
        assert!(again.0.abs_diff(amount.0) <= bound, "{text:?}: {amount} as {again}");
    }
    for resource in ["cpus", "mem", "gpus/nvidia"] {
        // Plain numbers from 2^24 on are bytes of memory, so that large amounts of MiB are not said by a number.
        let plain = |amount: Amount| resource != request::MEM || amount < Amount::whole(1 << 24);
        if let Ok(asked) = request::parse_amount(resource, text)
            && !matches!(asked, AmountRequest::Some(amount, _) if !plain(amount))
        {
            assert_eq!(request::parse_amount(resource, &asked.to_string()).ok(), Some(asked), "{text:?}");
        }
        if let Ok(pool) = resources::parse_pool(resource, text)
            && plain(pool.kind.total())
        {
            let printed = pool.kind.to_string();
            let again = resources::parse_pool(resource, &printed);
            assert_eq!(again.ok().as_ref(), Some(&pool), "{text:?} as {printed:?}");
        }
    }
    let _ = resources::parse_coupling(text);
    let _ = request::check_name(text);
    let _ = signal::parse(text);
    let names = hq_model::pattern::names(bytes);
    let expanded = hq_model::pattern::expand(bytes, &|_| None);
    assert_eq!(expanded, bytes, "unknown placeholders stay: {names:?}");
    // The text may be an entry, too, and the names in it ask for parts of that.
    let entry = hq_model::Entry::new(bytes);
    for name in names.iter().map(String::as_str).chain(["ENTRY", "ENTRY_2", "ENTRY.", "ENTRY.a.0"]) {
        if let Some(Ok(value)) = entry.value(name) {
            assert!(value.len() <= bytes.len(), "{name} is no longer than all of {text:?}");
        }
    }
}

fn same<T: PartialEq + Debug, E: Debug>(again: Result<T, E>, first: &T) {
    let again = again.expect("what was encoded is decoded");
    assert_eq!(&again, first, "what was said is understood the same");
}

fn reads_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().ok().as_ref(), Some(&value), "{text:?} as {printed:?}");
    }
}
