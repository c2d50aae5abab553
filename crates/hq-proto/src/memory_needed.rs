//! How much memory a message will need, told from its bytes before it is decoded.
//!
//! Two bytes are enough to say "one more element", whatever its size in memory: a frame of such bytes
//! would take a hundred times its length. Nothing that hq says comes near the limit.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::ProtoError;
use crate::generated::SHAPES;
use crate::limits::{MEMORY_FACTOR_MAX, MEMORY_FREE, MEMORY_UNCHECKED_MAX};

/// A message, with its fields that may need memory beyond the message itself.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) fields: &'static [Field],
}

pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) is_repeated: bool,
    pub(crate) content: Content,
}

#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// A message, by its place in the table.
    Message(usize),
    /// A string or bytes.
    Bytes,
    /// Packed numbers.
    Numbers,
}

/// Most memory that a packed number takes; on the wire it is at least a byte.
const NUMBER_SIZE: usize = size_of::<u64>();

/// An error when `bytes`, decoded as the generated type `type_name`, would need too much memory.
pub(crate) fn check(message: &'static str, type_name: &str, bytes: &[u8]) -> Result<(), ProtoError> {
    check_in(SHAPES, MEMORY_FACTOR_MAX, message, type_name, bytes)
}

/// The same, of the messages of another package, and with their own limit.
pub(crate) fn check_in(
    table: &[Shape],
    factor_max: usize,
    message: &'static str,
    type_name: &str,
    bytes: &[u8],
) -> Result<(), ProtoError> {
    if bytes.len() <= MEMORY_UNCHECKED_MAX {
        return Ok(());
    }
    let name = type_name.rsplit("::").next();
    let shape = table.iter().find(|shape| Some(shape.name) == name);
    let shape = shape.expect("each generated message is in the generated table");
    match bytes_needed(table, shape, bytes) {
        Some(needed) if needed > MEMORY_FREE + factor_max * bytes.len() => {
            Err(ProtoError::Inflated { message, length: bytes.len(), factor_max })
        }
        // Damaged bytes are decoded up to the damage only, which the decoder then reports.
        _ => Ok(()),
    }
}

// The memory behind a message; `None` when the bytes are damaged.
fn bytes_needed(table: &[Shape], shape: &Shape, mut bytes: &[u8]) -> Option<usize> {
    let mut needed = 0;
    while !bytes.is_empty() {
        let (number, wire_type) = decode_key(&mut bytes).ok()?;
        let field = shape.fields.iter().find(|field| field.number == number);
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, number, &mut bytes, DecodeContext::default()).ok()?;
            needed += if field.is_some() { NUMBER_SIZE } else { 0 };
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
        let (content, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        if let Some(field) = field {
            needed += bytes_of_field(table, field, content)?;
        }
    }
    Some(needed)
}

fn bytes_of_field(table: &[Shape], field: &Field, content: &[u8]) -> Option<usize> {
    let (element, behind) = match field.content {
        Content::Message(place) => (table[place].size, bytes_needed(table, &table[place], content)?),
        Content::Bytes => (size_of::<Vec<u8>>(), content.len()),
        Content::Numbers => return Some(NUMBER_SIZE * content.len()),
    };
    // A single field lies within its message.
    Some(if field.is_repeated { element + behind } else { behind })
}

#[cfg(test)]
mod tests {
    use hq_core::client_messages::{AlikeTasks, ClientResponse, JobSummary, TaskInfo};
    use hq_core::limits::TASK_PAGE_MAX;
    use hq_core::worker_messages::{FromWorker, Report, Started};
    use hq_model::job::Counters;
    use hq_model::{IdSet, Instance, JobId, TaskId, TaskState, Timestamp};

    use super::*;
    use crate::{
        decode_client_response, decode_from_worker, decode_to_worker, encode_client_response,
        encode_from_worker,
    };

    const MANY: u32 = 20_000;

    #[test]
    fn a_frame_of_empty_elements_is_refused() {
        // Batches of a run: field 2 of the message, field 1 in it, no bytes.
        let inner = [0x0a, 0].repeat(1 << 20);
        let mut bytes = vec![0x12];
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend(inner);
        let error = decode_to_worker(&bytes).expect_err("far too much memory");
        insta::assert_snapshot!(error, @"message to a worker of 2097157 bytes needs more than 24 times that in memory");
    }

    #[test]
    fn the_shortest_honest_lists_pass() {
        let task = |i| TaskInfo {
            task: TaskId(i),
            submit: 0,
            state: TaskState::Waiting,
            instance: Instance(0),
            crashes: 0,
            worker: None,
            started: None,
            ended: None,
            usage: None,
            error: None,
            dependencies: Vec::new(),
            key: None,
            nodes: Vec::new(),
            failure: None,
            entry: None,
            entry_gone: false,
            load: None,
            too_late: None,
            attempts: Vec::new(),
        };
        let page = (0..TASK_PAGE_MAX).map(|i| (JobId(1), task(i))).collect();
        let alone =
            |i| AlikeTasks { job: JobId(1), ids: IdSet::range(i, i), common: task(i), measures: None };
        let summary = |i| JobSummary {
            job: JobId(i),
            name: String::new(),
            is_open: false,
            counters: Counters { finished: 1, ..Counters::default() },
            cancel_reason: None,
            unrunnable: 0,
            fed_end: Default::default(),
            stalled: None,
        };
        for answer in [
            ClientResponse::Tasks {
                tasks: Vec::new(),
                groups: (0..MANY).map(alone).collect(),
                next: None,
                now: None,
            },
            ClientResponse::JobList((0..MANY).map(summary).collect()),
            ClientResponse::Jobs((0..MANY).map(JobId).collect()),
            ClientResponse::TaskIds((0..MANY).map(|i| (JobId(i), IdSet::range(0, 0))).collect()),
        ] {
            let bytes = encode_client_response(1, &answer);
            assert!(bytes.len() > MEMORY_UNCHECKED_MAX);
            assert!(decode_client_response(&bytes).is_ok());
        }
        let page = ClientResponse::Tasks { tasks: page, groups: Vec::new(), next: None, now: None };
        assert!(decode_client_response(&encode_client_response(1, &page)).is_ok());
        let started = |i| Started {
            job: JobId(1),
            task: TaskId(i),
            instance: Instance(0),
            at: Timestamp(u64::from(i)),
            variant: Some(1),
        };
        let report = Report { started: (0..MANY).map(started).collect(), ..Report::default() };
        assert!(decode_from_worker(&encode_from_worker(&FromWorker::Report(report))).is_ok());
    }

    #[test]
    fn what_is_decoded_is_in_the_table() {
        for name in ["Hello", "ClientRequest", "ClientResponse", "ToWorker", "FromWorker", "Record"] {
            assert!(SHAPES.iter().any(|shape| shape.name == name), "{name}");
        }
    }
}
