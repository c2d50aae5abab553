//! The messages of the socket of a relay, as frames: a length of four bytes, the highest first, and that many bytes of a
//! `Request` there, of an `Answer` back.
//!
//! These are the generated types themselves: what they mean is checked by the relay, in one place for all spellings. The
//! first byte of a frame is 0 or 1, which begins neither JSON nor HTTP.

use prost::Message;

use crate::ProtoError;
use crate::limits::PULL_MEMORY_FACTOR_MAX;
use crate::memory_needed::check_in;

pub use form::*;

/// Bytes before each message.
pub const LENGTH_BYTES: usize = 4;

/// The generated types. `cargo xtask gen` writes them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod form {
    use crate::memory_needed::{Content, Field, Shape};

    include!("generated/hq.pull.v1.rs");
    include!("generated/shapes_pull.rs");
}

/// Reads a request.
///
/// # Errors
/// When the bytes are none, or it would need far more memory than it has bytes.
pub fn decode_request(bytes: &[u8]) -> Result<Request, ProtoError> {
    decode("pull request", bytes)
}

/// Reads an answer.
///
/// # Errors
/// As for requests.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, ProtoError> {
    decode("pull answer", bytes)
}

/// Appends a request as a frame.
pub fn put_request(request: &Request, out: &mut Vec<u8>) {
    put(request, out);
}

/// Appends an answer as a frame.
pub fn put_answer(answer: &Answer, out: &mut Vec<u8>) {
    put(answer, out);
}

fn decode<M: Message + Default>(name: &'static str, bytes: &[u8]) -> Result<M, ProtoError> {
    check_in(form::SHAPES, PULL_MEMORY_FACTOR_MAX, name, std::any::type_name::<M>(), bytes)?;
    M::decode(bytes).map_err(|error| ProtoError::Damaged { message: name, reason: error.to_string() })
}

fn put(message: &impl Message, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend([0; LENGTH_BYTES]);
    message.encode_raw(out);
    let length = (out.len() - begin - LENGTH_BYTES) as u32;
    out[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_length_and_a_message() {
        let take = Take { count: Some(2), bags: vec!["dock".to_owned()], ..Take::default() };
        let request = Request { body: Some(request::Body::Take(take)) };
        let mut frame = Vec::new();
        put_request(&request, &mut frame);
        assert_eq!(frame[..6], [0, 0, 0, 10, 0x2a, 8], "{frame:?}");
        assert_eq!(decode_request(&frame[LENGTH_BYTES..]), Ok(request));
        assert!(decode_request(&frame[..LENGTH_BYTES + 3]).is_err());
    }

    #[test]
    fn short_names_are_no_flood_and_empty_tasks_are() {
        let of = |tasks: Vec<NewTask>| {
            let create = Create { tasks, ..Create::default() };
            let mut frame = Vec::new();
            put_request(&Request { body: Some(request::Body::Create(create)) }, &mut frame);
            decode_request(&frame[LENGTH_BYTES..])
        };
        assert!(of(vec![NewTask { name: "a".to_owned(), ..NewTask::default() }; 20_000]).is_ok());
        let flood = of(vec![NewTask::default(); 100_000]);
        assert!(matches!(flood, Err(ProtoError::Inflated { .. })), "{:?}", flood.map(|_| ()));
    }
}
