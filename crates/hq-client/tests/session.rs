//! Sessions against a server that follows a script: lost connections, repeated requests, watches.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread::JoinHandle;

use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER};
use hq_client::limits::REPEATS_MAX;
use hq_client::{ClientError, Next, Session, access_path};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary, RequestError};
use hq_model::job::{Counters, Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::{Body, Entries, IdSet, JobId, JobSpec, Submit, TaskId, TaskSpec};
use hq_net::limits::CLIENT_FRAME_MAX;
use hq_net::{AccessFile, Listener, Role};
use tempfile::TempDir;

/// What the server does with the next request of a connection.
#[derive(Clone)]
enum Step {
    /// Answers it so.
    Answer(Vec<ClientResponse>),
    /// Answers the request `back` before it so, then it so.
    AnswerBoth(Vec<ClientResponse>, Vec<ClientResponse>),
    /// Reads it, and nothing more.
    Read,
}

/// A server: for each connection its steps, after which the connection is closed.
struct Script {
    dir: TempDir,
    thread: JoinHandle<Vec<ClientRequest>>,
}

impl Script {
    fn play(connections: Vec<Vec<Step>>) -> Script {
        let dir = TempDir::new().expect("a directory");
        let path = access_path(dir.path());
        std::fs::create_dir(path.parent().expect("a parent")).expect("a directory");
        let (tell_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let local = "127.0.0.1";
                let mut access = AccessFile::generate("aB3dE6", (local, 0), (local, 0), true, true);
                let endpoint = access.client.as_mut().expect("a full file");
                let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
                let listener = Listener::bind(address, 0, endpoint, Role::Client).expect("a port");
                endpoint.port = listener.port();
                access.without_server_keys(None).save(&path).expect("an access file");
                tell_ready.send(()).expect("a listener");
                let mut seen = Vec::new();
                for steps in connections {
                    serve(&listener, steps, &mut seen).await;
                }
                std::fs::remove_file(&path).expect("an access file");
                seen
            })
        });
        ready.recv().expect("a server");
        Script { dir, thread }
    }

    fn session(&self) -> Session {
        Session::connect(self.dir.path()).expect("a server")
    }

    /// The requests the server has seen, once it has played all.
    fn seen(self) -> Vec<ClientRequest> {
        self.thread.join().expect("a server")
    }
}

async fn serve(listener: &Listener, steps: Vec<Step>, seen: &mut Vec<ClientRequest>) {
    let (incoming, _) = listener.accept().await;
    let (mut sender, mut receiver) = listener.handshake(incoming).await.expect("the right key");
    let mut before = 0;
    for step in steps {
        let frame = receiver.next().await.expect("a connection").expect("a request");
        let (number, request) = hq_proto::decode_client_request(&frame).expect("a request");
        seen.push(request);
        let (earlier, own) = match step {
            Step::Answer(own) => (Vec::new(), own),
            Step::AnswerBoth(earlier, own) => (earlier, own),
            Step::Read => (Vec::new(), Vec::new()),
        };
        let answers = earlier.iter().map(|a| (before, a)).chain(own.iter().map(|a| (number, a)));
        for (number, answer) in answers {
            let frame = hq_proto::encode_client_response(number, answer);
            sender.send(&frame).await.expect("a connection");
        }
        sender.flush().await.expect("a connection");
        before = number;
    }
    let _ = sender.close().await;
}

fn submit(target: Target) -> ClientRequest {
    let submit = Submit::new(
        target,
        TaskIds::Next(1),
        TaskSpec { body: Body::program(["true"]), requests: vec![Default::default()], ..TaskSpec::default() },
    );
    ClientRequest::Submit { key: 7, submit: Box::new(submit) }
}

fn new_job() -> ClientRequest {
    submit(Target::New(JobSpec::default()))
}

fn submitted(job: u32) -> ClientResponse {
    ClientResponse::Submitted {
        job: JobId(job),
        ids: IdSet::range(0, 0),
        existing: Vec::new(),
        warnings: Vec::new(),
    }
}

fn progress(job: u32, finished: u64) -> ClientResponse {
    let counters = Counters { finished, waiting: 1 - finished, ..Counters::default() };
    let job = JobId(job);
    ClientResponse::Progress(vec![JobSummary {
        job,
        name: "j".into(),
        is_open: false,
        counters,
        cancel_reason: None,
        unrunnable: 0,
        fed_end: Default::default(),
        stalled: None,
    }])
}

fn watch(job: u32) -> ClientRequest {
    let jobs = Selector::Ids(IdSet::single(TaskId(job)));
    ClientRequest::WatchJobs { jobs, until_closed: false, notifications: false }
}

fn answer(responses: &[ClientResponse]) -> Step {
    Step::Answer(responses.to_vec())
}

#[test]
fn what_no_frame_can_carry_is_refused_and_the_connection_goes_on() {
    // One by what is known of its parts, one only when it is encoded: its entry just fits, and what is around it does not.
    for over in [1 << 20, 0] {
        let script = Script::play(vec![vec![answer(&[submitted(3)])]]);
        let mut session = script.session();
        let large = || {
            let ClientRequest::Submit { mut submit, .. } = new_job() else { unreachable!("a submit") };
            let entry = vec![b'x'; CLIENT_FRAME_MAX + over];
            submit.entries = Entries::new([entry.as_slice()]).expect("one of 128 MiB");
            ClientRequest::Submit { key: 7, submit }
        };
        let mut errors = vec![
            session.request(large()).expect_err("too large"),
            session.submit_and_watch(large(), false).map(|_| ()).expect_err("too large"),
        ];
        if over > 0 {
            errors.push(session.request_all(&[new_job(), large()]).expect_err("too large"));
        }
        for error in errors {
            let (code, text) = (error.code(), error.to_string());
            assert_eq!((code, error.exit_code()), ("request-too-large", EXIT_FAILED), "{text}");
            assert!(text.contains("but the maximum is 128 MiB: its entries alone have 12"), "{text}");
            assert!(error.hint().is_some_and(|hint| hint.contains("hq job open")), "{text}");
        }
        assert_eq!(session.request(new_job()).expect("an answer"), submitted(3));
        assert_eq!(script.seen(), [new_job()]);
    }
}

#[test]
fn a_submit_is_repeated_with_its_key_when_the_connection_breaks() {
    let script = Script::play(vec![vec![Step::Read], Vec::new(), vec![answer(&[submitted(3)])]]);
    let response = script.session().request(new_job()).expect("an answer");
    assert_eq!(response, submitted(3));
    assert_eq!(script.seen(), [new_job(), new_job()]);
}

#[test]
fn a_request_is_not_repeated_for_ever() {
    let connections = 1 + REPEATS_MAX as usize;
    let script = Script::play(vec![vec![Step::Read]; connections]);
    let error = script.session().request(new_job()).expect_err("lost");
    assert!(matches!(error, ClientError::Lost(_)), "{error}");
    assert_eq!(error.exit_code(), EXIT_NO_SERVER);
    assert_eq!(script.seen().len(), connections);
}

#[test]
fn what_is_not_harmless_is_not_repeated() {
    let script = Script::play(vec![vec![Step::Read]]);
    let stop = ClientRequest::StopWorkers { workers: Selector::All, drain: true };
    assert!(matches!(script.session().request(stop), Err(ClientError::Lost(_))));
    assert_eq!(script.seen().len(), 1);
}

#[test]
fn a_server_that_ended_cleanly_is_not_waited_for() {
    let script = Script::play(vec![vec![Step::Read]]);
    let mut session = script.session();
    let error = session.request(new_job()).expect_err("lost");
    assert!(matches!(error, ClientError::Lost(_)), "{error}");
}

#[test]
fn a_refusal_is_an_error_with_a_code() {
    let refusal = ClientResponse::Error(RequestError::NoJob(JobId(9)));
    let script = Script::play(vec![vec![answer(&[refusal])]]);
    let error = script.session().request(watch(9)).expect_err("refused");
    assert_eq!(
        (error.exit_code(), error.code(), error.to_string().as_str()),
        (EXIT_FAILED, "no-job", "Job 9 not found.")
    );
    script.seen();
}

#[test]
fn another_server_in_the_same_place_is_not_taken_for_the_old_one() {
    let script = Script::play(vec![vec![Step::Read], Vec::new()]);
    let mut session = script.session();
    let path = access_path(script.dir.path());
    let mut other = AccessFile::load(&path).expect("an access file");
    other.server_uid = "Zzzzz9".into();
    other.save(&path).expect("an access file");
    let error = session.request(new_job()).expect_err("replaced");
    assert!(matches!(&error, ClientError::Replaced { found, .. } if found == "Zzzzz9"), "{error}");
    assert_eq!(error.exit_code(), EXIT_NO_SERVER);
    // The last connection of the script.
    drop(session);
    let _ = Session::connect(script.dir.path());
    script.seen();
}

#[test]
fn a_watch_is_begun_again_after_a_loss() {
    let script = Script::play(vec![
        vec![answer(&[progress(1, 0)])],
        vec![answer(&[progress(1, 1), ClientResponse::WatchEnded])],
    ]);
    let mut session = script.session();
    let mut following = session.watch(watch(1)).expect("a server");
    let responses: Vec<_> = (0..3).map(|_| following.next_response().expect("an answer")).collect();
    assert_eq!(responses, [progress(1, 0), progress(1, 1), ClientResponse::WatchEnded]);
    assert_eq!(script.seen(), [watch(1), watch(1)]);
}

#[test]
fn something_else_can_be_waited_for_and_asked_meanwhile() {
    let script = Script::play(vec![vec![
        Step::Read,
        Step::AnswerBoth(vec![progress(1, 0)], vec![ClientResponse::Done]),
    ]]);
    let mut session = script.session();
    let mut following = session.watch(watch(1)).expect("a server");
    let other = std::pin::pin!(async { 5 });
    assert!(matches!(following.next_or(other), Ok(Next::Other(5))));
    assert_eq!(following.request(ClientRequest::CountJobs).expect("an answer"), ClientResponse::Done);
    assert_eq!(following.next_response().expect("kept meanwhile"), progress(1, 0));
}

#[test]
fn a_submitted_job_is_followed_from_the_start() {
    let script = Script::play(vec![vec![
        answer(&[submitted(4)]),
        answer(&[progress(4, 0), progress(4, 1), ClientResponse::WatchEnded]),
    ]]);
    let mut session = script.session();
    let (response, mut following) = session.submit_and_watch(new_job(), false).expect("a server");
    assert_eq!(response, submitted(4));
    let responses: Vec<_> = (0..3).map(|_| following.next_response().expect("an answer")).collect();
    assert_eq!(responses, [progress(4, 0), progress(4, 1), ClientResponse::WatchEnded]);
}

#[test]
fn anothers_job_is_not_taken_for_the_submitted_one() {
    let script = Script::play(vec![
        vec![answer(&[submitted(4)]), answer(&[progress(5, 0)])],
        vec![answer(&[progress(4, 1), ClientResponse::WatchEnded])],
    ]);
    let mut session = script.session();
    let (_, mut following) = session.submit_and_watch(new_job(), false).expect("a server");
    assert_eq!(following.next_response().expect("an answer"), progress(4, 1));
    let seen = script.seen();
    assert_eq!(seen[2], watch(4));
}

#[test]
fn a_submit_to_an_open_job_is_followed_by_its_id() {
    let refusal = ClientResponse::Error(RequestError::JobNotOpen(JobId(2)));
    let script = Script::play(vec![vec![answer(&[refusal]), answer(&[progress(2, 1)])]]);
    let mut session = script.session();
    let error =
        session.submit_and_watch(submit(Target::Open(JobId(2))), false).map(|_| ()).expect_err("refused");
    assert_eq!(error.code(), "job-not-open");
    assert_eq!(script.seen()[1], watch(2));
}

#[test]
fn without_an_access_file_there_is_no_server() {
    let error = Session::connect(Path::new("/nonexistent")).map(|_| ()).expect_err("nobody");
    assert_eq!((error.exit_code(), error.code()), (EXIT_NO_SERVER, "no-access"));
    assert_eq!(error.to_string(), "No running instance of HQ found at \"/nonexistent\".");
    assert!(error.hint().is_some());
}
