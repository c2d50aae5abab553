//! Submits of one request are there all together or not at all, acknowledged or not.

use std::collections::BTreeMap;

use hq_core::client_messages::ClientRequest;
use hq_core::server::state::State;
use hq_model::ByteString;

/// Blocks that clients have asked for, by the directory that their submits name, with how many these are.
#[derive(Debug, Default)]
pub struct Blocks(BTreeMap<ByteString, usize>);

impl Blocks {
    /// A client asks.
    pub fn asked(&mut self, request: &ClientRequest) {
        if let ClientRequest::SubmitAll { submits, .. } = request {
            self.0.insert(submits[0].submit_dir.clone(), submits.len());
        }
    }

    /// Compares with what a server has. A request without a key may have been done again.
    ///
    /// # Errors
    /// Names a block of which a part is there.
    pub fn check(&self, state: &State) -> Result<(), String> {
        for (id, job) in &state.jobs {
            let mut found: BTreeMap<&ByteString, usize> = BTreeMap::new();
            let of_blocks = job.submits.iter().filter(|submit| self.0.contains_key(&submit.submit_dir));
            of_blocks.for_each(|submit| *found.entry(&submit.submit_dir).or_default() += 1);
            for (block, count) in found {
                let all = self.0[block];
                if count % all != 0 {
                    let block = String::from_utf8_lossy(block);
                    return Err(format!("job {id} has {count} submits of block {block}, which has {all}"));
                }
            }
        }
        Ok(())
    }
}
