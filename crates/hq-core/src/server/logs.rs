//! Which file what tasks print into a log goes to: the one that their submit names, and only what is said by a worker that
//! was handed the task.
//!
//! The path is told from the state when something is to be written: so a restarted server knows it, and no worker can name
//! a file.

use hq_model::paths::PathTemplates;
use hq_model::{ByteString, Compression, Stream, TaskRef, WorkerId};

use super::machine::Server;
use super::{ConnectionId, Effect};
use crate::log::{LogBatch, LogPart};
use crate::worker_messages::TemplateId;

impl Server {
    /// A worker says what tasks have printed.
    pub(super) fn log(
        &self,
        worker: WorkerId,
        connection: ConnectionId,
        batch: Box<LogBatch>,
        effects: &mut Vec<Effect>,
    ) {
        let mut parts: Vec<LogPart> = Vec::new();
        let mut last: Option<(TaskRef, Option<TemplateId>)> = None;
        let mut known: Option<(TemplateId, Option<(ByteString, Compression)>)> = None;
        for piece in &batch.pieces {
            let template = match last {
                Some((task, template)) if task == piece.task => template,
                _ => self.live.get(&worker).and_then(|live| live.template_of(piece.task)),
            };
            last = Some((piece.task, template));
            if known.as_ref().map(|(of, _)| *of) != template {
                known = template.map(|template| (template, self.log_of(template)));
            }
            let log = known.as_ref().and_then(|(_, log)| log.as_ref());
            let (path, compression) = log.map_or((None, Compression::None), |(path, own)| (Some(path), *own));
            match parts.last_mut() {
                Some(part) if part.path.as_ref() == path && part.compression == compression => {
                    part.pieces += 1;
                }
                _ => parts.push(LogPart { path: path.cloned(), compression, pieces: 1 }),
            }
        }
        effects.push(Effect::Log { connection, batch, parts });
    }

    // The file of a submit, and how it is stored.
    fn log_of(&self, template: TemplateId) -> Option<(ByteString, Compression)> {
        let submit = self.state.jobs.get(&template.job)?.submits.get(template.submit as usize)?;
        let paths = PathTemplates::new(&submit.task, &submit.submit_dir, &self.state.uid);
        match paths.stream(template.job)? {
            Stream::Log(path) => Some((path, submit.task.compression)),
            Stream::Directory(_) => None,
        }
    }
}
