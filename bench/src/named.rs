//! Named tasks that a client creates while it goes: one by one, some requests ahead of the answers, and in blocks.
//! Each answer means that the task is on disk.

use std::sync::Arc;
use std::time::Instant;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::job::{Target, TaskIds};
use hq_model::{Body, Entries, JobId, JobSpec, Submit, TaskSpec};

use crate::cluster::Bench;
use crate::measure::median_of;
use crate::row::{BoxError, Row};
use crate::startup::one_cpu;

/// Tasks of a block.
const BLOCK: u32 = 256;
const ROUNDS: u32 = 5;

/// Named tasks created one by one, and in blocks of 256.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 0, &[])?;
    let mut session = Session::connect(&cluster.server_dir())?;
    let case = |session: &mut Session, count: u32, block: u32| -> Result<f64, BoxError> {
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            rates.push(rate(session, count, block)?);
        }
        Ok(median_of(rates))
    };
    let single = case(&mut session, bench.tasks(20_000), 1)?;
    let blocks = case(&mut session, bench.tasks(1_000_000), BLOCK)?;
    let shown = |rate: f64| format!("{rate:.0} tasks/s");
    Ok(vec![
        Row::at_most("named: one by one", shown(single), "20 000 tasks/s", 2e4 / single, 1.0),
        Row::at_most("named: blocks of 256", shown(blocks), "500 000 tasks/s", 5e5 / blocks, 1.0),
    ])
}

// Tasks a second, from the first request to the last answer.
fn rate(session: &mut Session, count: u32, block: u32) -> Result<f64, BoxError> {
    let key = hq_client::request_key()?;
    let spec = JobSpec { name: "named".to_owned(), ..JobSpec::default() };
    let ClientResponse::Submitted { job, .. } = session.request(ClientRequest::OpenJob { key, spec })? else {
        return Err("no job was opened".into());
    };
    let spec = TaskSpec {
        body: Body::program(["true"]),
        requests: vec![one_cpu()?],
        cwd: b"/".to_vec(),
        ..TaskSpec::default()
    };
    let spec = Arc::new(spec);
    let begun = Instant::now();
    // As a client that makes its tasks while it goes: not all requests are there before the first is sent.
    for first in (0..count).step_by((block * 64) as usize) {
        let end = count.min(first + block * 64);
        let starts = (first..end).step_by(block as usize);
        let requests = starts.map(|start| request(job, start..end.min(start + block), &spec));
        let requests: Vec<ClientRequest> = requests.collect::<Result<_, BoxError>>()?;
        for answer in session.request_all(&requests)? {
            if let ClientResponse::Error(error) = answer {
                return Err(error.into());
            }
        }
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn request(job: JobId, tasks: std::ops::Range<u32>, spec: &Arc<TaskSpec>) -> Result<ClientRequest, BoxError> {
    let count = tasks.len() as u32;
    let keys: Vec<Vec<u8>> = tasks.map(|task| format!("ligand-{task}").into_bytes()).collect();
    let submit = Submit {
        keys: Entries::new(keys.iter().map(Vec::as_slice)).ok_or("the keys are too long")?,
        ..Submit::new(Target::Open(job), TaskIds::Next(count), spec.clone())
    };
    Ok(ClientRequest::Submit { key: hq_client::request_key()?, submit: Box::new(submit) })
}
