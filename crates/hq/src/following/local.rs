//! Outputs as the file system of this machine has them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;

use hq_core::client_messages::TaskInfo;
use hq_core::output_messages::ReadFrom;
use hq_model::{Channel, IdSet, Instance, OutputSink, TaskRef};
use hq_worker::printed::{Printed, Source};

use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::tasks::{ServerPages, TaskStream};

// So much is read at once.
const CHUNK: usize = 64 << 10;

/// What is known of a task, and where it prints.
pub(super) struct Task {
    pub(super) info: TaskInfo,
    task: TaskRef,
    sinks: [(OutputSink, Option<Source>); 2],
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
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let server_uid = session.borrow().server_uid().to_owned();
    let Some(submit) = stream.submit_of(task.job, &info) else { return Ok(None) };
    let paths = submit.paths.expand(task.job, task.task, info.instance);
    let of = |channel: Channel, own: Option<Vec<u8>>| {
        let sink = submit.spec.sink(channel).clone();
        let source = match &sink {
            OutputSink::None => None,
            OutputSink::File { .. } => own.map(|own| Source::File(path(own))),
            OutputSink::Stream => submit.paths.stream(task.job).map(|stream| Source::Stream {
                dir: path(stream.path().clone()),
                server_uid: server_uid.clone(),
            }),
        };
        (sink, source)
    };
    let sinks = [of(Channel::Stdout, paths.stdout), of(Channel::Stderr, paths.stderr)];
    Ok(Some(Task { info, task, sinks }))
}

impl Task {
    /// True when nothing is kept of what it prints on this channel.
    pub(super) fn goes_nowhere(&self, channel: Channel) -> bool {
        self.sinks[usize::from(channel.number())].0 == OutputSink::None
    }

    /// Reads what an instance has printed on a channel, from a place on, and gives where that ends.
    ///
    /// # Errors
    /// The outer one is of `print`; the inner one says why it cannot be read here.
    pub(super) fn read(
        mut self,
        channel: Channel,
        instance: Instance,
        from: ReadFrom,
        print: &mut dyn FnMut(&[u8]) -> Result<(), HqError>,
    ) -> Result<Result<u64, String>, HqError> {
        let (_, source) = &mut self.sinks[usize::from(channel.number())];
        let Some(source) = source.take().filter(|_| instance == self.info.instance) else {
            return Ok(Err("it is not here any more".to_owned()));
        };
        let mut printed = Printed::new(source, self.task, instance, channel);
        let begin = printed.length(true).and_then(|length| {
            let begin = match from {
                ReadFrom::Offset(offset) => offset,
                ReadFrom::Lines(lines) => printed.begin_of_lines(lines, length)?,
            };
            Ok((begin, length))
        });
        let (mut at, length) = match begin {
            Ok(begin) => begin,
            // One that has never started has printed nothing.
            Err(_) if self.info.started.is_none() => return Ok(Ok(0)),
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
