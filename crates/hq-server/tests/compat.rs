//! Journals of earlier releases, one a directory of `tests/compat`, are continued.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Client, runtime, stop, try_start};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::server::Keep;
use hq_server::ServerOptions;

fn journals() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.is_dir()).collect()
}

// Each job in a line, as the server shows it.
fn jobs(dir: &Path) -> String {
    // However long ago that was.
    let keep_jobs = Keep { jobs: None, time: None };
    let options = ServerOptions { keep_jobs, ..ServerOptions::new(dir) };
    let server = try_start(options).expect("a server");
    let access = server.access().clone();
    let list = runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        client.ask(ClientRequest::ListJobs { states: Vec::new() }).await
    });
    let ClientResponse::JobList(jobs) = list else { panic!("{list:?}") };
    stop(server);
    let line = |job: &hq_core::client_messages::JobSummary| {
        let c = &job.counters;
        format!(
            "{} {} open={} waiting={} running={} finished={} failed={} canceled={} aborted={} {}\n",
            job.job,
            job.name,
            job.is_open,
            c.waiting,
            c.running,
            c.finished,
            c.failed,
            c.canceled,
            c.aborted,
            job.cancel_reason.as_deref().unwrap_or("-")
        )
    };
    jobs.iter().map(line).collect()
}

#[test]
fn a_server_continues_every_journal() {
    let journals = journals();
    assert!(!journals.is_empty(), "there is a journal of each release");
    for journal in journals {
        let expected = fs::read_to_string(journal.join("jobs.txt")).expect("what it holds");
        let dir = tempfile::tempdir().expect("a directory");
        let copy = dir.path().join("journal");
        fs::create_dir(&copy).expect("a directory");
        for entry in fs::read_dir(&journal).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            if name != "jobs.txt" {
                fs::copy(&path, copy.join(name)).expect("a copy");
            }
        }
        assert_eq!(jobs(dir.path()), expected, "{}", journal.display());
        // Once more, from what it wrote itself.
        assert_eq!(jobs(dir.path()), expected, "{}", journal.display());
    }
}
