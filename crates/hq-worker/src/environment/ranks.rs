//! Variables of ranks: which of them each is, and what it was given.

use std::io::Write;

use hq_core::node_messages::Rank;
use hq_core::worker::Start;
use hq_model::ByteString;

use super::{Node, VariantEnvironment};
use crate::prepare::strings;

impl VariantEnvironment {
    /// Appends the variables of each rank of a function: what it has was given here where it runs here.
    pub(crate) fn append_ranks(&self, start: &Start, node: &Node, out: &mut Vec<ByteString>) {
        let here = start.ranks.len() as u32;
        let ranks = here * start.nodes.len() as u32;
        for rank in 0..ranks {
            let mut own = ByteString::new();
            append_numbers(rank / here, Rank { local: rank % here, rank, ranks }, &mut own);
            if rank < here {
                self.append_given(start, rank, false, node, &mut own);
            }
            out.push(own);
        }
    }

    // What a rank on this node was given.
    pub(super) fn append_given(
        &self,
        start: &Start,
        local: u32,
        says_threads: bool,
        node: &Node,
        out: &mut ByteString,
    ) {
        let Some(grant) = start.ranks.get(local as usize) else { return };
        for (resource, variables) in grant.resources.iter().zip(&self.resources) {
            let before = out.len();
            self.append_resource(resource, variables, node, out);
            if says_threads && variables.is_cpus {
                let kept = strings(&out[before..]).filter(|own| !own.starts_with(b"OMP_NUM_THREADS="));
                let kept: ByteString = kept.flat_map(|own| [own, b"\0"].concat()).collect();
                out.truncate(before);
                out.extend(kept);
            }
        }
    }
}

/// Appends which of all ranks it is.
pub(super) fn append_numbers(node_rank: u32, rank: Rank, out: &mut ByteString) {
    for (name, value) in [
        ("HQ_RANK", rank.rank),
        ("HQ_RANKS", rank.ranks),
        ("HQ_NODE_RANK", node_rank),
        ("HQ_LOCAL_RANK", rank.local),
    ] {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{name}={value}\0");
    }
}
