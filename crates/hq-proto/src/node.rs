//! Messages between the launcher of a task on several nodes and the workers of these nodes.

use hq_core::node_messages::{AskRelay, Fetch, FromNode, ProcessEnd, Rank, StartProcess, ToNode};
use hq_core::worker_messages::TaskNode;
use hq_model::{Instance, WorkerId};
use prost::Message;
use prost::encoding::{WireType, bool, decode_key, decode_varint, encode_key, encode_varint, uint64};

use crate::ProtoError;
use crate::error::{byte, present, rule};
use crate::generated::{self as form, ask_relay, from_node, process_ended, to_node};
use crate::object::file_name;
use crate::wire::{Wire, decode, no_kind, required};

/// Others that are named instead of an object.
const OTHERS_MAX: usize = 16;

/// The bytes of a message to a node.
pub fn encode_to_node(message: &ToNode) -> Vec<u8> {
    use to_node::Body;
    let body = match message {
        ToNode::Hello { task, instance, worker, node } => Body::Hello(form::NodeHello {
            task: Some(task.to_wire()),
            instance: instance.0,
            worker: worker.0,
            node: *node,
        }),
        ToNode::Start(start) => Body::Start(form::StartProcess {
            process: start.process,
            rank: start.rank.map(|rank| form::Rank { local: rank.local, rank: rank.rank, ranks: rank.ranks }),
            args: start.args.clone(),
            env: start.env.clone(),
            cwd: start.cwd.clone(),
        }),
        ToNode::Signal { process, signal } => {
            Body::Signal(form::SignalProcess { process: *process, signal: u32::from(*signal) })
        }
        ToNode::Fetch(fetch) => Body::Fetch(form::FetchObject {
            worker: fetch.worker.0,
            object: Some(fetch.object.to_wire()),
            instance: fetch.instance.0,
            offset: fetch.offset,
            from: fetch.from.as_ref().map(Wire::to_wire),
        }),
        ToNode::Put { worker, size } => Body::Put(form::PutFile { worker: worker.0, size: *size }),
        ToNode::Piece { bytes, is_last } => {
            Body::Piece(form::FilePiece { bytes: bytes.clone(), is_last: *is_last })
        }
    };
    form::ToNode { body: Some(body) }.encode_to_vec()
}

/// The message to a node in `bytes`.
///
/// # Errors
/// When they are none, or say something that cannot be.
pub fn decode_to_node(bytes: &[u8]) -> Result<ToNode, ProtoError> {
    use to_node::Body;
    let message: form::ToNode = decode("message to a node", bytes)?;
    Ok(match message.body.ok_or_else(|| no_kind("message to a node", bytes, 1..5))? {
        Body::Hello(hello) => ToNode::Hello {
            task: required("task of a node", hello.task)?,
            instance: Instance(hello.instance),
            worker: WorkerId(hello.worker),
            node: hello.node,
        },
        Body::Start(start) => {
            rule("args", !start.args.is_empty(), "must hold at least the program")?;
            let has_nul = |text: &Vec<u8>| text.contains(&0);
            let texts = start.args.iter().chain(&start.env).chain([&start.cwd]);
            rule("texts of a process", !texts.into_iter().any(has_nul), "must not hold a zero byte")?;
            ToNode::Start(StartProcess {
                process: start.process,
                rank: start.rank.map(|rank| Rank { local: rank.local, rank: rank.rank, ranks: rank.ranks }),
                args: start.args,
                env: start.env,
                cwd: start.cwd,
            })
        }
        Body::Signal(signal) => {
            ToNode::Signal { process: signal.process, signal: byte("signal", signal.signal)? }
        }
        Body::Fetch(fetch) => ToNode::Fetch(Fetch {
            worker: WorkerId(fetch.worker),
            object: required("object that is fetched", fetch.object)?,
            instance: Instance(fetch.instance),
            offset: fetch.offset,
            from: fetch.from.map(TaskNode::from_wire).transpose()?,
        }),
        Body::Put(put) => ToNode::Put { worker: WorkerId(put.worker), size: put.size },
        Body::Piece(piece) => ToNode::Piece { bytes: piece.bytes, is_last: piece.is_last },
    })
}

/// The bytes of a message from a node.
pub fn encode_from_node(message: &FromNode) -> Vec<u8> {
    use from_node::Body;
    let body = match message {
        FromNode::Started { process } => Body::Started(*process),
        FromNode::Refused { process, reason } => {
            Body::Refused(form::ProcessRefused { process: *process, reason: reason.clone() })
        }
        FromNode::Output { process, is_error, bytes } => {
            Body::Output(form::ProcessOutput { process: *process, is_error: *is_error, bytes: bytes.clone() })
        }
        FromNode::Ended { process, end } => {
            let end = match end {
                ProcessEnd::Exited(code) => process_ended::End::Exited(u32::from(*code)),
                ProcessEnd::Signaled(signal) => process_ended::End::Signaled(u32::from(*signal)),
            };
            Body::Ended(form::ProcessEnded { process: *process, end: Some(end) })
        }
        FromNode::Piece { offset, bytes, is_last } => {
            Body::Piece(form::ObjectPiece { offset: *offset, bytes: bytes.clone(), is_last: *is_last })
        }
        FromNode::Put { file } => Body::Put(file.clone()),
        FromNode::Busy { others } => {
            Body::Busy(form::ObjectBusy { others: others.iter().map(Wire::to_wire).collect() })
        }
    };
    form::FromNode { body: Some(body) }.encode_to_vec()
}

/// The message from a node in `bytes`.
///
/// # Errors
/// When they are none, or say something that cannot be.
pub fn decode_from_node(bytes: &[u8]) -> Result<FromNode, ProtoError> {
    use from_node::Body;
    let message: form::FromNode = decode("message from a node", bytes)?;
    Ok(match message.body.ok_or_else(|| no_kind("message from a node", bytes, 1..7))? {
        Body::Started(process) => FromNode::Started { process },
        Body::Refused(refused) => FromNode::Refused { process: refused.process, reason: refused.reason },
        Body::Output(output) => {
            FromNode::Output { process: output.process, is_error: output.is_error, bytes: output.bytes }
        }
        Body::Ended(ended) => {
            let end = match present("end of a process", ended.end)? {
                process_ended::End::Exited(code) => ProcessEnd::Exited(byte("exit code", code)?),
                process_ended::End::Signaled(signal) => ProcessEnd::Signaled(byte("signal", signal)?),
            };
            FromNode::Ended { process: ended.process, end }
        }
        Body::Piece(piece) => {
            FromNode::Piece { offset: piece.offset, bytes: piece.bytes, is_last: piece.is_last }
        }
        Body::Put(file) => FromNode::Put { file: file_name(file)? },
        Body::Busy(busy) => {
            rule("others", busy.others.len() <= OTHERS_MAX, "must not be more than 16")?;
            let others = busy.others.into_iter().map(TaskNode::from_wire).collect::<Result<_, _>>()?;
            FromNode::Busy { others }
        }
    })
}

/// The bytes of what a connection begins with by which an object is to pass.
pub fn encode_ask_relay(ask: AskRelay) -> Vec<u8> {
    let ask = match ask {
        AskRelay::From(holder) => ask_relay::Ask::Holder(holder.0),
        AskRelay::For(ticket) => ask_relay::Ask::Ticket(ticket),
    };
    form::AskRelay { ask: Some(ask) }.encode_to_vec()
}

/// What a connection to the server begins with, if it is that. All else is for
/// [`decode_from_worker`](crate::decode_from_worker) or [`decode_client_request`](crate::decode_client_request), which may be long:
/// this looks at the first bytes alone.
pub fn decode_ask_relay(message: &[u8]) -> Option<AskRelay> {
    let mut rest = message;
    let (field, kind) = decode_key(&mut rest).ok()?;
    let is_ask = ASK_FIELDS.contains(&field) && kind == WireType::Varint;
    match form::AskRelay::decode(is_ask.then_some(message)?).ok()?.ask? {
        ask_relay::Ask::Holder(holder) => Some(AskRelay::From(WorkerId(holder))),
        ask_relay::Ask::Ticket(ticket) => Some(AskRelay::For(ticket)),
    }
}

/// The fields of [`AskRelay`], which no message of a worker or client has as numbers.
const ASK_FIELDS: std::ops::RangeInclusive<u32> = 190..=191;

/// Fields of a piece, and that of the piece in a message.
const PIECE: u32 = 5;
const PIECE_OFFSET: u32 = 1;
const PIECE_BYTES: u32 = 2;
const PIECE_IS_LAST: u32 = 3;

/// What a message with a piece says before its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceHead {
    /// Where they belong.
    pub offset: u64,
    /// Nothing comes after them.
    pub is_last: bool,
    /// Where in the message they begin; they are the rest of it.
    pub begin: usize,
}

/// The beginning of a [`FromNode::Piece`] whose bytes, so many, follow it: so these need not be copied.
pub fn piece_head(offset: u64, is_last: bool, length: usize) -> Vec<u8> {
    let mut fields = Vec::new();
    uint64::encode(PIECE_OFFSET, &offset, &mut fields);
    bool::encode(PIECE_IS_LAST, &is_last, &mut fields);
    encode_key(PIECE_BYTES, WireType::LengthDelimited, &mut fields);
    encode_varint(length as u64, &mut fields);
    let mut head = Vec::new();
    encode_key(PIECE, WireType::LengthDelimited, &mut head);
    encode_varint((fields.len() + length) as u64, &mut head);
    head.append(&mut fields);
    head
}

/// The beginning of a message, if it is a [`FromNode::Piece`] that ends with its bytes. All others are for [`decode_from_node`].
pub fn split_piece(message: &[u8]) -> Option<PieceHead> {
    let mut rest = message;
    let is_piece = decode_key(&mut rest).ok()? == (PIECE, WireType::LengthDelimited);
    let length = decode_varint(&mut rest).ok()?;
    let mut head = (is_piece && length == rest.len() as u64).then(PieceHead::default)?;
    loop {
        match decode_key(&mut rest).ok()? {
            (PIECE_OFFSET, WireType::Varint) => head.offset = decode_varint(&mut rest).ok()?,
            (PIECE_IS_LAST, WireType::Varint) => head.is_last = decode_varint(&mut rest).ok()? != 0,
            (PIECE_BYTES, WireType::LengthDelimited) => {
                let length = decode_varint(&mut rest).ok()?;
                head.begin = message.len() - rest.len();
                return (length == rest.len() as u64).then_some(head);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, TaskId, TaskRef};

    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let hello = ToNode::Hello {
            task: TaskRef::new(JobId(3), TaskId(7)),
            instance: Instance(2),
            worker: WorkerId(9),
            node: 1,
        };
        let start = |rank| {
            ToNode::Start(StartProcess {
                process: 4,
                rank,
                args: vec![b"a".to_vec(), b"\xff".to_vec()],
                env: vec![b"K=V".to_vec()],
                cwd: b"/tmp".to_vec(),
            })
        };
        let rank = Rank { local: 1, rank: 5, ranks: 8 };
        let other = TaskNode { worker: WorkerId(9), hostname: "n9".into(), address: "n9:1".into() };
        let fetch = |from| {
            ToNode::Fetch(Fetch {
                worker: WorkerId(9),
                object: "3@7:parts".parse().expect("an object"),
                instance: Instance(2),
                offset: 1 << 40,
                from,
            })
        };
        let fetches = [fetch(None), fetch(Some(other.clone()))];
        let signal = ToNode::Signal { process: 4, signal: 15 };
        let put = ToNode::Put { worker: WorkerId(9), size: 1 << 40 };
        let piece = ToNode::Piece { bytes: vec![0, 255], is_last: true };
        let others = [hello, start(None), start(Some(rank)), signal, put, piece];
        for message in others.into_iter().chain(fetches) {
            assert_eq!(decode_to_node(&encode_to_node(&message)), Ok(message));
        }
        for message in [
            FromNode::Started { process: 4 },
            FromNode::Refused { process: 4, reason: "no".into() },
            FromNode::Output { process: 4, is_error: true, bytes: vec![0, 255] },
            FromNode::Ended { process: 4, end: ProcessEnd::Exited(255) },
            FromNode::Ended { process: 4, end: ProcessEnd::Signaled(9) },
            FromNode::Piece { offset: 1 << 40, bytes: vec![0, 255], is_last: true },
            FromNode::Put { file: "c17".into() },
            FromNode::Busy { others: vec![other] },
        ] {
            assert_eq!(decode_from_node(&encode_from_node(&message)), Ok(message));
        }
    }

    #[test]
    fn what_a_relayed_connection_begins_with_is_no_word_of_a_worker_or_client() {
        for ask in [AskRelay::From(WorkerId(0)), AskRelay::From(WorkerId(u32::MAX)), AskRelay::For(1 << 40)] {
            let message = encode_ask_relay(ask);
            assert_eq!(decode_ask_relay(&message), Some(ask));
            assert!(crate::decode_from_worker(&message).is_err());
            assert!(crate::decode_client_request(&message).is_err());
            assert_eq!(decode_ask_relay(&message[..message.len() - 1]), None);
        }
        let heartbeat = crate::encode_from_worker(&hq_core::worker_messages::FromWorker::Heartbeat);
        assert_eq!(decode_ask_relay(&heartbeat), None);
        assert_eq!(decode_ask_relay(b""), None);
    }

    #[test]
    fn a_piece_is_understood_however_it_is_read() {
        for (offset, is_last, length) in
            [(0, false, 1), (1 << 40, true, 300), (7, true, 0), (5, false, 70_000)]
        {
            let bytes: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let head = piece_head(offset, is_last, length);
            let message = [head.clone(), bytes.clone()].concat();
            let piece = FromNode::Piece { offset, bytes, is_last };
            assert_eq!(decode_from_node(&message), Ok(piece.clone()));
            assert_eq!(split_piece(&message), Some(PieceHead { offset, is_last, begin: head.len() }));
            // Others may write their fields in another order.
            let other = split_piece(&encode_from_node(&piece));
            assert!(other.is_none_or(|other| other.offset == offset && other.is_last == is_last));
            for cut in [message.len() - 1, head.len() - 1, 1, 0] {
                assert_eq!(split_piece(&message[..cut.min(message.len())]), None, "{cut} of {length}");
            }
            assert_eq!(split_piece(&[message, vec![0]].concat()), None);
        }
        assert_eq!(split_piece(&encode_from_node(&FromNode::Started { process: 4 })), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let start = |args: Vec<Vec<u8>>, env: Vec<Vec<u8>>| {
            let start = StartProcess { args, env, ..StartProcess::default() };
            decode_to_node(&encode_to_node(&ToNode::Start(start)))
        };
        assert!(start(Vec::new(), Vec::new()).is_err());
        assert!(start(vec![b"a\0b".to_vec()], Vec::new()).is_err());
        assert!(start(vec![b"a".to_vec()], vec![b"K=\0".to_vec()]).is_err());
        let other = TaskNode { worker: WorkerId(1), hostname: String::new(), address: String::new() };
        let busy = FromNode::Busy { others: vec![other; OTHERS_MAX + 1] };
        assert!(decode_from_node(&encode_from_node(&busy)).is_err());
        assert!(decode_to_node(b"").is_err());
        assert!(decode_from_node(b"\xff").is_err());
        for file in ["", "..", "a/b"] {
            assert!(decode_from_node(&encode_from_node(&FromNode::Put { file: file.into() })).is_err());
        }
    }
}
