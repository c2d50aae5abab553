//! What earlier releases said is understood: captures of `tests/compat`, one a release.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobDetail, JobPage, JobSummary, PageStart, SubmitInfo,
};
use hq_core::record::Record;
use hq_model::job::{Counters, JobSpec};
use hq_model::selector::Selector;
use hq_model::{Body, Entries, IdSet, JobId, Request, TaskId, TaskSpec, Timestamp, Usage};
use prost::Message;

use hq_proto::{
    decode_client_request, decode_client_response, decode_from_worker, decode_record, decode_to_worker,
    encode_client_request, encode_client_response, encode_from_worker, encode_record, encode_to_worker,
};

#[test]
fn every_capture_is_understood_and_says_the_same_again() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let mut captures = 0;
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let frames = read(&fs::read(&path).expect("a file"), &path);
            assert!(frames >= 300, "{} has {frames} messages", path.display());
            captures += 1;
        }
    }
    assert!(captures > 0, "there is a capture of each release");
}

fn read(mut bytes: &[u8], path: &Path) -> usize {
    let mut frames = 0;
    while let Some((&kind, rest)) = bytes.split_first() {
        let (length, rest) = rest.split_first_chunk::<4>().expect("a length");
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        // What was understood can be said again, and is understood as the same.
        let again = match kind {
            b'q' => decode_client_request(frame).map(|(number, body)| {
                let again = encode_client_request(number, &body);
                decode_client_request(&again) == Ok((number, body))
            }),
            b'a' => decode_client_response(frame).map(|(number, body)| {
                let again = encode_client_response(number, &body);
                decode_client_response(&again) == Ok((number, body))
            }),
            b'w' => decode_to_worker(frame).map(|m| decode_to_worker(&encode_to_worker(&m)) == Ok(m)),
            b'f' => decode_from_worker(frame).map(|m| decode_from_worker(&encode_from_worker(&m)) == Ok(m)),
            b'r' => decode_record(frame).map(|(at, record)| {
                let again = encode_record(at, &record);
                decode_record(&again) == Ok((at, record))
            }),
            other => panic!("{}: frame {frames} is of kind {other}", path.display()),
        };
        assert_eq!(again, Ok(true), "{}: frame {frames} of kind {}", path.display(), char::from(kind));
        bytes = rest;
        frames += 1;
    }
    frames
}

// The fields of these messages that releases before pages of jobs know.
mod before {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct ClientRequest {
        #[prost(uint64, tag = "1")]
        pub(crate) request: u64,
        #[prost(message, optional, tag = "9")]
        pub(crate) job_info: Option<Selector>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Selector {
        #[prost(message, optional, tag = "2")]
        pub(crate) last: Option<Nothing>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Nothing {}

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct ClientResponse {
        #[prost(uint64, tag = "1")]
        pub(crate) request: u64,
        #[prost(message, optional, tag = "9")]
        pub(crate) job_details: Option<JobDetails>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct JobDetails {
        #[prost(message, repeated, tag = "1")]
        pub(crate) jobs: Vec<JobDetail>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct JobDetail {
        #[prost(bytes = "vec", optional, tag = "1")]
        pub(crate) summary: Option<Vec<u8>>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) submits: Vec<SubmitInfo>,
        #[prost(bytes = "vec", optional, tag = "6")]
        pub(crate) usage: Option<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct SubmitInfo {
        #[prost(uint32, repeated, tag = "1")]
        pub(crate) ids: Vec<u32>,
        #[prost(bytes = "vec", optional, tag = "2")]
        pub(crate) spec: Option<Vec<u8>>,
        #[prost(bytes = "vec", tag = "3")]
        pub(crate) submit_dir: Vec<u8>,
    }
}

#[test]
fn a_page_of_jobs_is_all_at_once_to_servers_before() {
    let page = JobPage { tasks: Some(IdSet::range(3, 4)), from: Some(PageStart::of(JobId(7))) };
    let asked = ClientRequest::JobInfo { jobs: Selector::Last, page: Some(page) };
    let bytes = encode_client_request(5, &asked);
    assert_eq!(decode_client_request(&bytes), Ok((5, asked)));
    let known = before::ClientRequest::decode(&bytes[..]).expect("a request that they know");
    assert_eq!(known.job_info, Some(before::Selector { last: Some(before::Nothing {}) }));
    // What they ask themselves says nothing of pages.
    let whole = ClientRequest::JobInfo { jobs: Selector::Last, page: None };
    assert_eq!(decode_client_request(&known.encode_to_vec()), Ok((5, whole)));
}

fn details() -> JobDetail {
    let spec = TaskSpec {
        body: Body::program(["true"]),
        requests: vec![Request::default()],
        stdin: b"input".to_vec(),
        ..TaskSpec::default()
    };
    let submit = |index: u32| SubmitInfo {
        index,
        ids: IdSet::range(10 * index, 10 * index + 9),
        spec: Arc::new(spec.clone()),
        stdin_bytes: 5,
        submit_dir: b"/home".to_vec(),
        submitted: Timestamp(0),
    };
    JobDetail {
        summary: JobSummary {
            job: JobId(1),
            name: "true".into(),
            is_open: false,
            counters: Counters::default(),
            cancel_reason: None,
            unrunnable: 0,
            fed_end: Default::default(),
            stalled: None,
        },
        max_fails: None,
        budget: None,
        share: None,
        submitted: Timestamp(0),
        ended: None,
        submits: vec![submit(0), submit(1), submit(2)],
        usage: Usage::default(),
        workers: Vec::new(),
        feed: None,
        notices: Vec::new(),
        ending: None,
    }
}

#[test]
fn answers_of_servers_before_are_whole_and_say_the_places_of_submits_by_their_order() {
    let answer = ClientResponse::JobDetails { jobs: vec![details()], next: None, now: None };
    let bytes = encode_client_response(5, &answer);
    let known = before::ClientResponse::decode(&bytes[..]).expect("an answer that they know");
    let submits = &known.job_details.as_ref().expect("details").jobs[0].submits;
    assert_eq!(submits.iter().map(|submit| submit.ids.len()).collect::<Vec<_>>(), [2, 2, 2]);
    // Neither places nor lengths are in it.
    let again = known.encode_to_vec();
    assert!(again.len() < bytes.len());
    assert_eq!(decode_client_response(&again), Ok((5, answer)));
}

#[test]
fn a_given_file_without_a_request_gets_one() {
    let written = |requests: Vec<Request>| Record::Submitted {
        job: JobId(1),
        key: 0,
        spec: Some(JobSpec { name: "note".into(), ..JobSpec::default() }),
        ids: IdSet::single(TaskId(0)),
        entries: Entries::default(),
        entries_gone: Default::default(),
        keys: Entries::default(),
        dependencies: Arc::default(),
        task: Arc::new(TaskSpec { body: Body::Given, requests, ..TaskSpec::default() }),
        submit_dir: Vec::new(),
    };
    let read = decode_record(&encode_record(Timestamp(7), &written(Vec::new())));
    assert_eq!(read, Ok((Timestamp(7), written(vec![Request::default()]))));
}
