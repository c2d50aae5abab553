//! What is asked and answered to show what tasks print.

use std::time::Duration;

use hq_core::output_messages::{
    Output, OutputRead, OutputState, ReadAnswer, ReadFrom, ReadOrder, ReadState, Seen,
};
use hq_model::{Channel, Instance, WorkerId};

use crate::ProtoError;
use crate::error::present;
use crate::generated::{self as form, output_answer, read_answer, read_from};
use crate::wire::{Wire, nanos, required};

impl Wire for ReadFrom {
    type Form = form::ReadFrom;

    fn to_wire(&self) -> form::ReadFrom {
        let place = match self {
            ReadFrom::Offset(offset) => read_from::Place::Offset(*offset),
            ReadFrom::Lines(lines) => read_from::Place::Lines(*lines),
        };
        form::ReadFrom { place: Some(place) }
    }

    fn from_wire(from: form::ReadFrom) -> Result<ReadFrom, ProtoError> {
        Ok(match present("place where a read begins", from.place)? {
            read_from::Place::Offset(offset) => ReadFrom::Offset(offset),
            read_from::Place::Lines(lines) => ReadFrom::Lines(lines),
        })
    }
}

impl Wire for OutputRead {
    type Form = form::OutputRead;

    fn to_wire(&self) -> form::OutputRead {
        let (seen, seen_all) = match self.seen {
            Seen::Nothing => (None, false),
            Seen::Part(instance) => (Some(instance.0), false),
            Seen::All(instance) => (Some(instance.0), true),
        };
        form::OutputRead {
            task: Some(self.task.to_wire()),
            is_stderr: self.channel == Channel::Stderr,
            seen,
            seen_all,
            from: Some(self.from.to_wire()),
            bytes_max: self.bytes_max,
            wait_ns: nanos(self.wait),
            even_ended: self.even_ended,
        }
    }

    fn from_wire(read: form::OutputRead) -> Result<OutputRead, ProtoError> {
        Ok(OutputRead {
            task: required("task to read", read.task)?,
            channel: channel(read.is_stderr),
            seen: match read.seen.map(Instance) {
                None => Seen::Nothing,
                Some(instance) if read.seen_all => Seen::All(instance),
                Some(instance) => Seen::Part(instance),
            },
            from: required("place where a read begins", read.from)?,
            bytes_max: read.bytes_max,
            wait: Duration::from_nanos(read.wait_ns),
            even_ended: read.even_ended,
        })
    }
}

impl Wire for Output {
    type Form = form::OutputAnswer;

    fn to_wire(&self) -> form::OutputAnswer {
        use output_answer::State;
        let nothing = form::Nothing {};
        let state = match &self.state {
            OutputState::More => State::More(nothing),
            OutputState::Complete => State::Complete(nothing),
            OutputState::Waits => State::Waits(nothing),
            OutputState::Away(worker) => State::Away(worker.0),
            OutputState::Ended => State::Ended(nothing),
            OutputState::Nowhere => State::Nowhere(nothing),
            OutputState::Unreadable(reason) => State::Unreadable(reason.clone()),
        };
        form::OutputAnswer {
            instance: self.instance.0,
            offset: self.offset,
            length: self.length,
            bytes: self.bytes.clone(),
            state: Some(state),
        }
    }

    fn from_wire(answer: form::OutputAnswer) -> Result<Output, ProtoError> {
        use output_answer::State;
        let state = match present("state of an output", answer.state)? {
            State::More(_) => OutputState::More,
            State::Complete(_) => OutputState::Complete,
            State::Waits(_) => OutputState::Waits,
            State::Away(worker) => OutputState::Away(WorkerId(worker)),
            State::Ended(_) => OutputState::Ended,
            State::Nowhere(_) => OutputState::Nowhere,
            State::Unreadable(reason) => OutputState::Unreadable(reason),
        };
        let form::OutputAnswer { instance, offset, length, bytes, .. } = answer;
        Ok(Output { instance: Instance(instance), offset, length, bytes, state })
    }
}

impl Wire for ReadOrder {
    type Form = form::ReadOrder;

    fn to_wire(&self) -> form::ReadOrder {
        form::ReadOrder {
            number: self.number,
            task: Some(self.task.to_wire()),
            instance: self.instance.0,
            is_stderr: self.channel == Channel::Stderr,
            from: Some(self.from.to_wire()),
            bytes_max: self.bytes_max,
            wait_ns: nanos(self.wait),
            entry: self.entry.clone(),
        }
    }

    fn from_wire(order: form::ReadOrder) -> Result<ReadOrder, ProtoError> {
        Ok(ReadOrder {
            number: order.number,
            task: required("task to read", order.task)?,
            instance: Instance(order.instance),
            channel: channel(order.is_stderr),
            from: required("place where a read begins", order.from)?,
            bytes_max: order.bytes_max,
            wait: Duration::from_nanos(order.wait_ns),
            entry: order.entry,
        })
    }
}

impl Wire for ReadAnswer {
    type Form = form::ReadAnswer;

    fn to_wire(&self) -> form::ReadAnswer {
        use read_answer::State;
        let state = match &self.state {
            ReadState::More => State::More(form::Nothing {}),
            ReadState::Complete => State::Complete(form::Nothing {}),
            ReadState::Unreadable(reason) => State::Unreadable(reason.clone()),
        };
        form::ReadAnswer {
            number: self.number,
            offset: self.offset,
            length: self.length,
            bytes: self.bytes.clone(),
            state: Some(state),
        }
    }

    fn from_wire(answer: form::ReadAnswer) -> Result<ReadAnswer, ProtoError> {
        use read_answer::State;
        let state = match present("state of an output", answer.state)? {
            State::More(_) => ReadState::More,
            State::Complete(_) => ReadState::Complete,
            State::Unreadable(reason) => ReadState::Unreadable(reason),
        };
        let form::ReadAnswer { number, offset, length, bytes, .. } = answer;
        Ok(ReadAnswer { number, offset, length, bytes, state })
    }
}

fn channel(is_stderr: bool) -> Channel {
    if is_stderr { Channel::Stderr } else { Channel::Stdout }
}
