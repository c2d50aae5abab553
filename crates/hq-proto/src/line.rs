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
    /// Whoever speaks there is behind the other end of the connection, and does not end with it. Where the line ends: it is not
    /// reached any more, and may live.
    pub is_passed: bool,
}

/// A message from or to a worker, said on a line.
pub fn on_line(mut message: Vec<u8>, line: u32) -> Vec<u8> {
    // Fields of a message may come in parts.
    message.extend(form::OnLine { line, ends: false, passed: false }.encode_to_vec());
    message
}

/// A message from a worker, which came on a line of another connection, said on this one of a connection to its server. Of a
/// field that is there twice the last one counts.
pub fn pass_on_line(mut message: Vec<u8>, line: u32) -> Vec<u8> {
    message.extend(form::OnLine { line, ends: false, passed: true }.encode_to_vec());
    message
}

/// Says that nothing more is said on a line.
pub fn end_of_line(line: u32) -> Vec<u8> {
    form::OnLine { line, ends: true, passed: false }.encode_to_vec()
}

/// Says that nothing more is said on a line, because whoever spoke there, behind the one who says this, is not reached any
/// more. It may live, and come again.
pub fn loss_of_line(line: u32) -> Vec<u8> {
    form::OnLine { line, ends: true, passed: true }.encode_to_vec()
}

/// Of which line a message from or to a worker is.
///
/// # Errors
/// When it is none.
pub fn line_of(message: &[u8]) -> Result<OnLine, ProtoError> {
    let form::OnLine { line, ends, passed } = decode("message on a line", message)?;
    Ok(OnLine { line, ends, is_passed: passed })
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
                assert_eq!(line_of(&message), Ok(OnLine { line, ends: false, is_passed: false }));
            }
            assert_eq!(line_of(&end_of_line(line)), Ok(OnLine { line, ends: true, is_passed: false }));
        }
    }

    #[test]
    fn what_says_nothing_of_lines_is_of_the_first() {
        let said = encode_from_worker(&FromWorker::Heartbeat);
        assert_eq!(line_of(&said), Ok(OnLine { line: 0, ends: false, is_passed: false }));
        assert!(line_of(b"GET / HTTP/1.1").is_err());
    }

    #[test]
    fn what_is_passed_on_is_the_same_message_on_another_line() {
        let said = FromWorker::Heartbeat;
        let mut message = on_line(encode_from_worker(&said), 7);
        for line in [300, 1] {
            message = pass_on_line(message, line);
            assert_eq!(line_of(&message), Ok(OnLine { line, ends: false, is_passed: true }));
        }
        assert_eq!(decode_from_worker(&message), Ok(said));
        assert_eq!(line_of(&loss_of_line(7)), Ok(OnLine { line: 7, ends: true, is_passed: true }));
        let back = on_line(on_line(encode_to_worker(&ToWorker::Saved { report: 7 }), 300), 7);
        assert_eq!(line_of(&back), Ok(OnLine { line: 7, ends: false, is_passed: false }));
        assert_eq!(decode_to_worker(&back), Ok(ToWorker::Saved { report: 7 }));
    }
}
