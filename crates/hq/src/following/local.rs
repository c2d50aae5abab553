//! Outputs as the file system of this machine has them.

use std::rc::Rc;

use hq_core::client_messages::TaskInfo;
use hq_core::output_messages::ReadFrom;
use hq_model::paths::Place;
use hq_model::{Channel, IdSet, Instance, TaskRef};
use hq_stream::{Attempt, Output};

use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::tasks::{ServerPages, TaskStream};

// So much is read at once.
const CHUNK: usize = 64 << 10;

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

    /// Reads what an instance has printed on a channel, from a place on, and gives where that ends.
    ///
    /// # Errors
    /// The outer one is of `print`; the inner one says why it cannot be read here.
    pub(super) fn read(
        &self,
        channel: Channel,
        instance: Instance,
        from: ReadFrom,
        print: &mut dyn FnMut(&[u8]) -> Result<(), HqError>,
    ) -> Result<Result<u64, String>, HqError> {
        let place = self.places[usize::from(channel.number())].clone();
        let Some(place) = place.filter(|_| instance == self.info.instance) else {
            return Ok(Err("it is not here any more".to_owned()));
        };
        let attempt = Attempt { task: self.task, instance };
        let mut printed = Output::new(place, &self.server_uid, attempt, channel);
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
        Ok(Ok(at))
    }
}
