//! How fast commands begin and end: against an empty program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_model::job::{Target, TaskIds};
use hq_model::{Body, JobSpec, Request, ResourceRequest, Submit, TaskSpec, request};

use crate::cluster::Bench;
use crate::measure::median;
use crate::row::{BoxError, Row};

/// How often each is started.
const STARTS: u32 = 200;
/// `hq --version` may take so many times as long as an empty program.
const STARTS_MAX: f64 = 3.0;
/// A long list may take so many seconds.
const LIST_S: f64 = 0.05;

/// `hq --version` and `hq job list`, with 10 000 waiting jobs in the server, in turns with an empty program.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let jobs = bench.tasks(10_000);
    let cluster = bench.cluster(&[], 0, &[])?;
    let mut session = Session::connect(&cluster.server_dir())?;
    for _ in 0..jobs {
        let submit = Submit::new(
            Target::New(JobSpec { name: "waiting".to_owned(), ..JobSpec::default() }),
            TaskIds::Next(1),
            TaskSpec { body: Body::program(["true"]), requests: vec![one_cpu()?], ..TaskSpec::default() },
        );
        let key = hq_client::session::request_key()?;
        session.request(ClientRequest::Submit { key, submit: Box::new(submit) })?;
    }
    let (mut empty, mut version, mut list) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.tasks(STARTS) {
        empty.push(time(&mut Command::new("/bin/true"))?);
        version.push(time(&mut cluster.command(&["--version"]))?);
        list.push(time(&mut cluster.command(&["job", "list"]))?);
    }
    let (empty, version, list) = (median(empty), median(version), median(list));
    let shown = |seconds: f64| format!("{:.2} ms, an empty program {:.2} ms", seconds * 1e3, empty * 1e3);
    let version = Row::at_most(
        "startup: hq --version",
        shown(version),
        "below 3 × an empty program",
        version / empty,
        STARTS_MAX,
    );
    let name = format!("startup: job list, {jobs} jobs");
    let list = Row::at_most(&name, shown(list), "below 50 ms", list / LIST_S, 1.0);
    Ok(vec![version, list])
}

/// One CPU.
pub(crate) fn one_cpu() -> Result<Request, BoxError> {
    let amount = request::parse_amount("cpus", "1")?;
    let resources = vec![ResourceRequest { name: "cpus".to_owned(), amount }];
    Ok(Request { resources, weight: request::WEIGHT_NEUTRAL, ..Request::default() })
}

fn time(command: &mut Command) -> Result<Duration, BoxError> {
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    let elapsed = begun.elapsed();
    let name = Path::new(command.get_program()).display().to_string();
    if status.success() { Ok(elapsed) } else { Err(format!("{name} ended with {status}").into()) }
}
