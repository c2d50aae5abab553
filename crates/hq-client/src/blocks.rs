//! Many submits into one job, as few requests.

use hq_core::client_messages::ClientRequest;
use hq_core::limits::SUBMITS_MAX;
use hq_model::Submit;
use hq_model::job::Target;

use crate::error::ClientError;
use crate::limits::BLOCK_BYTES;
use crate::session::request_key;

/// Requests that submit all this to the open job `job`, in order: each holds as many as fit.
///
/// # Errors
/// When the system has no randomness.
pub fn blocks(job: hq_model::JobId, submits: Vec<Submit>) -> Result<Vec<ClientRequest>, ClientError> {
    let mut requests = Vec::new();
    let (mut block, mut bytes) = (Vec::new(), 0);
    for mut submit in submits {
        submit.target = Target::Open(job);
        let size = size_of(&submit);
        if !block.is_empty() && (bytes + size > BLOCK_BYTES || block.len() == SUBMITS_MAX) {
            requests.push(request(std::mem::take(&mut block))?);
            bytes = 0;
        }
        bytes += size;
        block.push(submit);
    }
    if !block.is_empty() {
        requests.push(request(block)?);
    }
    Ok(requests)
}

fn request(submits: Vec<Submit>) -> Result<ClientRequest, ClientError> {
    Ok(ClientRequest::SubmitAll { key: request_key()?, submits })
}

// About what it has on the wire.
fn size_of(submit: &Submit) -> usize {
    let spec = &submit.spec;
    let body = spec.body.bytes();
    let env: usize = spec.env.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    let texts = submit.entries.bytes_len() + submit.keys.bytes_len();
    128 + body + env + spec.stdin.len() + texts + submit.dependencies.edges.len() * 4
}
