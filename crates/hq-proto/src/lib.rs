//! What Headquarters says over the wire and writes into its journal: the `.proto` files in `proto/`,
//! the Rust code generated from them, and conversions to and from the types of the core.
//!
//! Bytes become core types here and nowhere else. Whoever sent them may say anything: each value is
//! checked against the rules its core type promises, nothing panics, and memory grows only with the
//! bytes received.

mod allocation;
mod attempt;
mod client_request;
mod client_response;
mod dependency;
mod ended;
mod error;
mod explanation;
mod feed;
mod hello;
mod idset;
mod job;
mod job_shape;
mod journal;
pub mod limits;
mod line;
mod load;
mod memory_needed;
mod node;
mod notice;
mod object;
mod output;
mod overview;
pub mod pull;
mod request;
mod resources;
mod sample;
mod shown;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;
mod worker;

pub use client_request::{decode_client_request, encode_client_request, request_number};
pub use client_response::{decode_client_response, encode_client_response};
pub use error::ProtoError;
pub use feed::{decode_submit, encode_submit};
pub use hello::{
    Hello, Passage, Role, VersionError, Versions, decode_hello, decode_passage, encode_hello, encode_passage,
};
pub use journal::{decode_record, encode_record};
pub use line::{OnLine, end_of_line, line_of, loss_of_line, on_line, pass_on_line};
pub use node::{
    PieceHead, decode_ask_relay, decode_from_node, decode_to_node, encode_ask_relay, encode_from_node,
    encode_to_node, piece_head, split_piece,
};
pub use resources::check_worker_config;
pub use worker::{decode_from_worker, decode_to_worker, encode_from_worker, encode_to_worker};

/// The generated types. `cargo xtask gen` writes them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    use crate::memory_needed::{Content, Field, Shape};

    include!("generated/hq.v1.rs");
    include!("generated/shapes.rs");
}
