//! Outputs as the file system of this machine has them.

use std::rc::Rc;

use hq_core::client_messages::TaskInfo;
use hq_core::output_messages::ReadFrom;
use hq_model::paths::Place;
use hq_model::{Channel, IdSet, Instance, TaskRef};
use hq_stream::{Attempt, Output};

use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::streams::was_written_to_its_end;
use crate::tasks::{ServerPages, TaskStream};

// So much is read at once.
const CHUNK: usize = 64 << 10;

/// What was read of an output of an instance: where it goes on, whatever becomes of what is before that.
#[derive(Debug, Default)]
pub(super) struct Kept(Option<(Instance, Output)>);

/// What was read.
pub(super) struct Read {
    /// Where it ends.
    pub(super) end: u64,
    /// What was read before is not there any more: this is from the beginning of what is there now.
    pub(super) is_cut_off: bool,
}

/// What is known of a task, and where it prints.
pub(super) struct Task {
    pub(super) info: TaskInfo,
    /// What it prints comes with what it leaves behind, unless that has a place.
    pub(super) is_packed_call: bool,
    task: TaskRef,
    server_uid: String,
    places: [Option<Place>; 2],
    may_be_gone: [bool; 2],
}

/// Asks for a task.
///
/// # Errors
/// When the server refuses or is lost.
pub(super) fn task(session: &SharedSession, task: TaskRef) -> Result<Option<Task>, HqError> {
    let ids = Some(IdSet::single(task.task));
    let pages = ServerPages::new(Rc::clone(session), &[task.job], ids, Vec::new()).with_submits();
    let mut stream = TaskStream::begin(pages)?;
    let Some(info) = stream.next_of(task.job)? else { return Ok(None) };
    let server_uid = session.borrow().server_uid().to_owned();
    Ok(Some(Task::new(task, info, &stream, server_uid)))
}

impl Task {
    /// The one that was told last.
    pub(super) fn new(task: TaskRef, info: TaskInfo, stream: &TaskStream, server_uid: String) -> Task {
        let places = Channel::ALL.map(|channel| stream.place_of(task.job, &info, channel));
        let may_be_gone = Channel::ALL.map(|channel| stream.why_gone(task.job, &info, channel).is_some());
        let is_packed_call =
            stream.submit_of(task.job, &info).is_some_and(|submit| submit.spec.body.is_packed_call());
        Task { info, is_packed_call, task, server_uid, places, may_be_gone }
    }

    /// Where it prints, unless nothing is kept of that or it has printed nothing.
    pub(super) fn place(&self, channel: Channel) -> Option<&Place> {
        self.places[usize::from(channel.number())].as_ref().filter(|_| self.info.started.is_some())
    }

    /// Reads what an instance has printed on a channel, from a place on, or from the beginning where what was `kept` of it
    /// is not there any more.
    ///
    /// # Errors
    /// The outer one is of `print`; the inner one says why it cannot be read here.
    pub(super) fn read(
        &self,
        channel: Channel,
        instance: Instance,
        from: ReadFrom,
        kept: &mut Kept,
        print: &mut dyn FnMut(&[u8]) -> Result<(), HqError>,
    ) -> Result<Result<Read, String>, HqError> {
        let place = self.places[usize::from(channel.number())].clone();
        let Some(place) = place.filter(|_| instance == self.info.instance) else {
            return Ok(Err("it is not here any more".to_owned()));
        };
        let before = kept.0.take().filter(|(of, _)| *of == instance).map(|(_, output)| output);
        let is_cut_off = before.as_ref().is_some_and(Output::is_left);
        let missing = match &place {
            Place::Stream(stream) if was_written_to_its_end(&self.info) => {
                let dir = String::from_utf8_lossy(stream.path()).into_owned();
                Some(format!("{dir}: what task {} printed is no longer there", self.task))
            }
            Place::Stream(_) | Place::File(_) => None,
        };
        let attempt = Attempt { task: self.task, instance };
        let new = || Output::new(place, &self.server_uid, attempt, channel);
        let mut printed = before.filter(|_| !is_cut_off).unwrap_or_else(new);
        let from = if is_cut_off { ReadFrom::Offset(0) } else { from };
        let must_be_there = !self.may_be_gone[usize::from(channel.number())];
        let begin = printed.length(must_be_there).and_then(|length| {
            let begin = match from {
                ReadFrom::Offset(offset) => offset,
                ReadFrom::Lines(lines) => printed.begin_of_lines(lines, length)?,
            };
            Ok((begin, length))
        });
        let (mut at, length) = match begin {
            Ok(begin) => begin,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(missing) = missing.filter(|_| !printed.is_in_a_stream()) {
            return Ok(Err(missing));
        }
        while at < length {
            match printed.read(at, CHUNK) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => {
                    at += bytes.len() as u64;
                    print(&bytes)?;
                }
                Err(reason) => return Ok(Err(reason)),
            }
        }
        if printed.is_in_a_stream() {
            kept.0 = Some((instance, printed));
        }
        Ok(Ok(Read { end: at, is_cut_off }))
    }
}
