//! What many tasks printed into streams, read together.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_core::client_messages::TaskInfo;
use hq_model::{ByteString, Channel, IdSet, JobId, TaskState};
use hq_stream::{Directory, Fault, Piece, StreamError};

use crate::render::Printer;

/// Streams of a server, of which one job's is open at a time.
pub(crate) struct Streams {
    server_uid: String,
    // Only these, if some were named.
    tasks: Option<IdSet>,
    channel: Channel,
    printer: Printer,
    open: Option<Open>,
}

struct Open {
    job: JobId,
    dir: ByteString,
    // Nothing where no task has begun to write.
    content: Result<Option<Content>, String>,
}

struct Content {
    directory: Directory,
    // Those of which something is there, if only their end.
    tasks: IdSet,
    // Ascending by task.
    pieces: Vec<Piece>,
}

impl Streams {
    /// Those of a server, one of the two outputs of each task or of each of these. `printer` warns of what is damaged.
    pub(crate) fn new(
        server_uid: String,
        tasks: Option<IdSet>,
        channel: Channel,
        printer: Printer,
    ) -> Streams {
        Streams { server_uid, tasks, channel, printer, open: None }
    }

    /// Copies what a task printed into a directory. Calls for one job and directory follow one another.
    ///
    /// # Errors
    /// When `out` cannot be written: the outer error. When the stream cannot be read, or does not have what it must have,
    /// what to say of it.
    pub(crate) fn copy(
        &mut self,
        job: JobId,
        task: &TaskInfo,
        dir: ByteString,
        out: &mut dyn Write,
    ) -> io::Result<Result<(), String>> {
        if self.open.as_ref().is_none_or(|open| open.job != job || open.dir != dir) {
            let content = self.read(job, &dir).map_err(|error| error.to_string());
            self.open = Some(Open { job, dir, content });
        }
        let Some(open) = &mut self.open else { return Ok(Ok(())) };
        let content = match &open.content {
            Ok(Some(content)) => content,
            // At its end a task has written something, if only that.
            Ok(None) => {
                let may_be_empty = matches!(task.state, TaskState::Waiting | TaskState::Running);
                let missing =
                    || format!("{}: no stream of this server is there", String::from_utf8_lossy(&open.dir));
                return Ok(if task.started.is_none() || may_be_empty { Ok(()) } else { Err(missing()) });
            }
            Err(error) => return Ok(Err(error.clone())),
        };
        if task.state == TaskState::Finished && !content.tasks.contains(task.task) {
            let dir = String::from_utf8_lossy(&open.dir);
            return Ok(Err(format!(
                "{dir}: what task {} of job {job} printed is no longer there",
                task.task
            )));
        }
        let first = content.pieces.partition_point(|piece| piece.task < task.task);
        let end = content.pieces.partition_point(|piece| piece.task <= task.task);
        let copied = content.directory.copy(&content.pieces[first..end], out)?;
        Ok(copied.map_err(|error| error.to_string()))
    }

    // Nothing where no task has begun to write.
    fn read(&self, job: JobId, dir: &[u8]) -> Result<Option<Content>, StreamError> {
        let Some(directory) = Directory::of_server(Path::new(OsStr::from_bytes(dir)), &self.server_uid)?
        else {
            return Ok(None);
        };
        let contents = match &self.tasks {
            Some(tasks) => directory.contents_of_any(job, tasks)?,
            None => directory.contents()?,
        };
        // A write that is not finished is that of a task that runs.
        let damage = contents.faults.iter().filter(|(_, fault)| matches!(fault, Fault::Damaged { .. }));
        let damage = damage.map(|(path, fault)| format!("{}: {fault}", path.display()));
        let copies = directory.passed_over.iter().filter(|error| matches!(error, StreamError::Copy { .. }));
        self.printer.damaged(&copies.map(ToString::to_string).chain(damage).collect::<Vec<_>>());
        let tasks: IdSet = contents.tasks(job).map(|(task, _)| task).collect();
        let pieces = directory.pieces(&contents, job, &tasks, self.channel)?;
        Ok(Some(Content { directory, tasks, pieces }))
    }
}
