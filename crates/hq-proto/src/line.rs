//! Lines: workers that share a connection, as those of a relay do.

use prost::Message;

use crate::ProtoError;
use crate::generated as form;
use crate::wire::decode;

/// Of which line of its connection a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLine {
    /// Its number; 0 where nothing is said of lines.
    pub line: u32,
    /// Nothing more is said there. The message has nothing else.
    pub ends: bool,
}

/// A message from or to a worker, said on a line.
pub fn on_line(mut message: Vec<u8>, line: u32) -> Vec<u8> {
    // Fields of a message may come in parts.
    message.extend(form::OnLine { line, ends: false }.encode_to_vec());
    message
}

/// Says that nothing more is said on a line.
pub fn end_of_line(line: u32) -> Vec<u8> {
    form::OnLine { line, ends: true }.encode_to_vec()
}

/// Of which line a message from or to a worker is.
///
/// # Errors
/// When it is none.
pub fn line_of(message: &[u8]) -> Result<OnLine, ProtoError> {
    let form::OnLine { line, ends } = decode("message on a line", message)?;
    Ok(OnLine { line, ends })
}

#[cfg(test)]
mod tests {
    use hq_core::worker_messages::{FromWorker, ToWorker};

    use super::*;
    use crate::{decode_from_worker, decode_to_worker, encode_from_worker, encode_to_worker};

    #[test]
    fn a_message_on_a_line_is_the_same_message() {
        for line in [0, 1, u32::MAX] {
            let (saved, said) = (ToWorker::Saved { report: 7 }, FromWorker::Heartbeat);
            let (to, from) =
                (on_line(encode_to_worker(&saved), line), on_line(encode_from_worker(&said), line));
            assert_eq!(decode_to_worker(&to), Ok(saved));
            assert_eq!(decode_from_worker(&from), Ok(said));
            for message in [to, from] {
                assert_eq!(line_of(&message), Ok(OnLine { line, ends: false }));
            }
            assert_eq!(line_of(&end_of_line(line)), Ok(OnLine { line, ends: true }));
        }
    }

    #[test]
    fn what_says_nothing_of_lines_is_of_the_first() {
        let said = encode_from_worker(&FromWorker::Heartbeat);
        assert_eq!(line_of(&said), Ok(OnLine { line: 0, ends: false }));
        assert!(line_of(b"GET / HTTP/1.1").is_err());
    }
}
