//! What the tasks of a job print, as it comes: running tasks are followed, so many at once, and those that have ended
//! meanwhile are printed as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use hq_client::error::where_tasks_are;
use hq_client::{Asking, ClientError, NextOf};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::output_messages::{Output, ReadFrom};
use hq_model::paths::Place;
use hq_model::{ByteString, Channel, IdSet, Instance, JobId, TaskRef, TaskState};

use super::lines::{Line, Prefix};
use super::local::{self, Kept};
use super::reader::{Begins, Heard, Reader};
use super::task::begins_anew;
use super::{WAIT, WATCH_PAUSE, Watching};
use crate::error::HqError;
use crate::jobs::{SharedSession, only};
use crate::render::Printer;
use crate::report::Waited;
use crate::signals::Signals;
use crate::streams::{Damaged, Streams};
use crate::tasks::{ServerPages, TaskStream};
use crate::waiting::{Known, Warned};

/// Tasks that are followed at once. Of others that run, lines come when there is room for them, or at their end.
const FOLLOWED_MAX: usize = 64;
/// Ended tasks that are printed before running ones have their turn.
const ENDED_AT_ONCE: u64 = 1000;
/// The name of the request that follows the job.
const JOB: u64 = 0;

/// What is followed.
pub(crate) struct JobFollow<'a> {
    /// The job.
    pub job: JobId,
    /// Only these of its tasks.
    pub tasks: Option<IdSet>,
    /// Only these outputs: standard output goes to standard output, and standard error to standard error, unless it is
    /// followed alone.
    pub channels: &'a [Channel],
    /// An open job has ended only when it is closed.
    pub until_closed: bool,
    /// Where people are told what is missing.
    pub printer: Printer,
}

struct Following<'a> {
    what: JobFollow<'a>,
    session: &'a SharedSession,
    asking: Asking,
    readers: BTreeMap<u64, (Reader, Line, Kept)>,
    last_name: u64,
    // Followed now, with how many readers each.
    followed: BTreeMap<TaskRef, usize>,
    // All of it is printed.
    done: IdSet,
    // They have ended, and are to be printed.
    ended: IdSet,
    prefix: Prefix,
    known: Known,
    warned: Warned,
    is_over: bool,
    // First of all that could not be read, and how many.
    unreadable: Option<(String, u64)>,
    // Those that were named and are not there.
    unknown: IdSet,
    // Of which it was said that they begin anew.
    begun_anew: BTreeSet<(TaskRef, Instance)>,
    damaged: Damaged,
    // What they printed was not read here, or not only.
    read_elsewhere: IdSet,
    watching: Watching,
    // Streams that followed tasks print into, and the tasks of which these are known.
    streams: BTreeSet<ByteString>,
    placed: IdSet,
}

/// Prints what is written to it.
struct Through<'a> {
    print: &'a mut dyn FnMut(&[u8]) -> Result<(), HqError>,
    // Why that failed.
    error: Option<HqError>,
}

impl Write for Through<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.print)(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints what the tasks of a job print until it has ended, or all of the tasks that were named have.
///
/// # Errors
/// When the server refuses or is lost, an output can be read nowhere, or a signal came.
pub(crate) fn follow_job(session: &SharedSession, what: JobFollow<'_>) -> Result<Waited, HqError> {
    let begin = Instant::now();
    let damaged = Damaged::new(what.printer);
    let mut following = Following {
        what,
        session,
        asking: Asking::default(),
        readers: BTreeMap::new(),
        last_name: JOB,
        followed: BTreeMap::new(),
        done: IdSet::new(),
        ended: IdSet::new(),
        prefix: Prefix::None,
        known: Known::new(),
        warned: Warned::default(),
        is_over: false,
        unreadable: None,
        unknown: IdSet::new(),
        begun_anew: BTreeSet::new(),
        damaged,
        read_elsewhere: IdSet::new(),
        watching: Watching::default(),
        streams: BTreeSet::new(),
        placed: IdSet::new(),
    };
    following.run()?;
    following.watch()?;
    following.look_for_damage()?;
    if !following.unknown.is_empty() {
        let (unknown, job) = (&following.unknown, following.what.job);
        let are = if unknown.len() == 1 { "Task" } else { "Tasks" };
        let text = format!("{are} {unknown} not found in job {job}.");
        return Err(HqError::failed("no-task", text).hint(where_tasks_are(job)));
    }
    if let Some((first, count)) = following.unreadable {
        let more = if count > 1 { format!(" (and {} outputs more)", count - 1) } else { String::new() };
        return Err(HqError::failed("no-output", format!("{first}{more}")));
    }
    following.damaged.end_following()?;
    Ok(Waited { jobs: following.known.into_values().collect(), duration: begin.elapsed() })
}

impl Following<'_> {
    fn run(&mut self) -> Result<(), HqError> {
        let mut signals = self.session.borrow().enter(Signals::catch)?;
        self.asking.ask(
            JOB,
            ClientRequest::WatchJobs {
                jobs: only([self.what.job]),
                until_closed: self.what.until_closed,
                notifications: false,
            },
        );
        loop {
            let (has_ended, has_streams) = (!self.ended.is_empty(), !self.streams.is_empty());
            let other = async {
                tokio::select! {
                    biased;
                    signal = signals.next() => Some(signal),
                    () = std::future::ready(()), if has_ended => None,
                    () = tokio::time::sleep(WATCH_PAUSE), if has_streams => None,
                }
            };
            let next = self.session.borrow_mut().next_of(&mut self.asking, pin!(other))?;
            // Before what is there is read: then it is known when it is not there any more.
            if self.watching.is_due() || self.placed.is_empty() && !self.followed.is_empty() {
                self.watch()?;
            }
            match next {
                NextOf::Response(_, ClientResponse::Error(error)) => {
                    return Err(ClientError::from(error).into());
                }
                NextOf::Response(JOB, response) => self.job_is(response)?,
                NextOf::Response(name, ClientResponse::Output(output)) => self.hear(name, output)?,
                NextOf::Response(..) => return Err(ClientError::Unexpected.into()),
                NextOf::Other(Some(signal)) => return Err(self.interrupted(signal)),
                NextOf::Other(None) if self.ended.is_empty() => {}
                NextOf::Other(None) => self.print_ended()?,
            }
            let named = self.what.tasks.as_ref().is_some_and(|tasks| tasks.difference(&self.done).is_empty());
            if named || self.is_over && self.readers.is_empty() && self.ended.is_empty() {
                return Ok(());
            }
        }
    }

    fn interrupted(&self, signal: u8) -> HqError {
        let job = self.what.job;
        let again = format!("`hq job cat --follow {job} stdout` shows the output of its tasks again");
        match self.is_over {
            true => HqError::interrupted(signal, format!("Interrupted; job {job} has ended")).hint(again),
            false => HqError::interrupted(signal, format!("Interrupted; job {job} continues"))
                .hint(format!("{again}, `hq job wait {job}` waits for its end")),
        }
    }

    fn job_is(&mut self, response: ClientResponse) -> Result<(), HqError> {
        match response {
            ClientResponse::Progress(jobs) => {
                self.warned.warn_of(&jobs);
                self.known.extend(jobs.into_iter().map(|job| (job.job, job)));
            }
            ClientResponse::WatchEnded => self.is_over = true,
            _ => return Err(ClientError::Unexpected.into()),
        }
        let mut prefix = self.prefix;
        let all = self.tasks_in(Vec::new())?;
        let is_open = self.known.get(&self.what.job).is_some_and(|job| job.is_open);
        // An open job may still get them.
        if let Some(tasks) = self.what.tasks.as_mut().filter(|_| !is_open) {
            self.unknown.union_with(&tasks.difference(&all));
            *tasks = all.clone();
        }
        if is_open && self.what.tasks.is_none() || all.len() > 1 {
            prefix = Prefix::Task { digits: all.last().map_or(1, |last| last.to_string().len()) };
        }
        if matches!(self.prefix, Prefix::None) {
            self.prefix = prefix;
        }
        self.look()
    }

    fn tasks_in(&self, states: Vec<TaskState>) -> Result<IdSet, HqError> {
        let request = ClientRequest::TaskIds { jobs: only([self.what.job]), states };
        let ClientResponse::TaskIds(jobs) = self.session.borrow_mut().request(request)? else {
            return Err(ClientError::Unexpected.into());
        };
        let ids = jobs.into_iter().next().map_or_else(IdSet::new, |(_, ids)| ids);
        Ok(match &self.what.tasks {
            Some(tasks) => ids.intersection(tasks),
            None => ids,
        })
    }

    // Finds out what has ended, and follows others instead.
    fn look(&mut self) -> Result<(), HqError> {
        let states = vec![TaskState::Finished, TaskState::Failed, TaskState::Canceled, TaskState::Aborted];
        let mut ended = self.tasks_in(states)?.difference(&self.done);
        ended.subtract(&self.followed.keys().map(|task| task.task).collect());
        self.ended = ended;
        for state in [TaskState::Running, TaskState::Waiting] {
            if self.followed.len() < FOLLOWED_MAX {
                let mut others = self.tasks_in(vec![state])?.difference(&self.done);
                others.subtract(&self.followed.keys().map(|task| task.task).collect());
                let room = FOLLOWED_MAX - self.followed.len();
                for task in others.take_first(room as u64).iter() {
                    let task = TaskRef::new(self.what.job, task);
                    self.follow(task, |channel| Reader::new(task, channel, ReadFrom::Offset(0)));
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, task: TaskRef, reader: impl Fn(Channel) -> Reader) {
        self.followed.insert(task, self.what.channels.len());
        for channel in self.what.channels {
            self.last_name += 1;
            let reader = reader(*channel);
            self.asking.ask(self.last_name, reader.request(WAIT));
            self.readers.insert(self.last_name, (reader, Line::default(), Kept::default()));
        }
    }

    fn hear(&mut self, name: u64, output: Output) -> Result<(), HqError> {
        let Some((mut reader, mut line, mut kept)) = self.readers.remove(&name) else { return Ok(()) };
        let of = (reader.task, reader.channel);
        match reader.hear(output) {
            Heard::Printed { bytes, begins } => {
                if let Some(begins) = begins {
                    self.print(of.1, |prefix, out| line.end(prefix, of, out))?;
                    // Both outputs of an instance begin.
                    let is_known = match begins {
                        Begins::Instance(instance) => !self.begun_anew.insert((reader.task, instance)),
                        Begins::CutOff => false,
                    };
                    if !is_known {
                        self.what.printer.note(&begins_anew(reader.task, begins));
                    }
                }
                self.print(of.1, |prefix, out| line.print(prefix, of, &bytes, out))?;
            }
            Heard::Waits => {}
            Heard::Look { instance, reason } => {
                if let Some(found) = local::task(self.session, reader.task)? {
                    let goes_on = matches!(found.info.state, TaskState::Waiting | TaskState::Running);
                    let place = reader.place_in(instance);
                    let print = &mut |bytes: &[u8]| {
                        self.print(of.1, |prefix, out| line.print(prefix, of, bytes, out))
                    };
                    match found.read(of.1, instance, place, &mut kept, print)? {
                        Ok(read) => {
                            if read.is_cut_off {
                                self.what.printer.note(&begins_anew(reader.task, Begins::CutOff));
                                self.damaged.is_cut_off(reader.task);
                            }
                            reader.has_read(instance, read.end, (goes_on, reason.is_none()));
                        }
                        Err(here) => {
                            if reader.is_not_here(instance, reason.as_deref(), goes_on) {
                                self.cannot_read(of, reason.unwrap_or_default(), &here);
                            }
                        }
                    }
                }
            }
            Heard::Ended => {
                self.print(of.1, |prefix, out| line.end(prefix, of, out))?;
                return self.has_ended(reader.task);
            }
        }
        self.asking.ask(name, reader.request(WAIT));
        self.readers.insert(name, (reader, line, kept));
        Ok(())
    }

    fn has_ended(&mut self, task: TaskRef) -> Result<(), HqError> {
        let Some(left) = self.followed.get_mut(&task) else { return Ok(()) };
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        self.followed.remove(&task);
        self.done.insert(task.task);
        self.read_elsewhere.insert(task.task);
        self.ended.remove(task.task);
        self.look()
    }

    // Some of those that ended without having been followed.
    fn print_ended(&mut self) -> Result<(), HqError> {
        let job = self.what.job;
        let some = self.ended.take_first(ENDED_AT_ONCE);
        let server_uid = self.session.borrow().server_uid().to_owned();
        let channels = self.what.channels;
        let streams = |channel: &Channel| {
            Streams::new(server_uid.clone(), Some(some.clone()), *channel, self.damaged.clone())
        };
        let mut streams: Vec<Streams> = channels.iter().map(streams).collect();
        let pages = ServerPages::new(Rc::clone(self.session), &[job], Some(some.clone()), Vec::new());
        let mut tasks = TaskStream::begin(pages.with_submits())?;
        while let Some(info) = tasks.next_of(job)? {
            let task = TaskRef::new(job, info.task);
            let found = local::Task::new(task, info, &tasks, server_uid.clone());
            let mut elsewhere = false;
            for (channel, streams) in channels.iter().zip(&mut streams) {
                let of = (task, *channel);
                let mut line = Line::default();
                let mut print =
                    |bytes: &[u8]| self.print(*channel, |prefix, out| line.print(prefix, of, bytes, out));
                let read = match found.place(*channel) {
                    None => continue,
                    Some(Place::Stream(stream)) => {
                        let mut through = Through { print: &mut print, error: None };
                        let copied = streams.copy(job, &found.info, stream.path().clone(), &mut through);
                        match (through.error, copied) {
                            (Some(error), _) => return Err(error),
                            (None, copied) => copied?.is_ok(),
                        }
                    }
                    Some(Place::File(_)) => {
                        let from = ReadFrom::Offset(0);
                        let kept = &mut Kept::default();
                        found.read(*channel, found.info.instance, from, kept, &mut print)?.is_ok()
                    }
                };
                elsewhere |= !read;
                self.print(*channel, |prefix, out| line.end(prefix, of, out))?;
            }
            if elsewhere {
                self.follow(task, |channel| Reader::of_ended(task, channel));
            } else {
                self.done.insert(task.task);
            }
        }
        // Those that are forgotten meanwhile.
        let followed: IdSet = self.followed.keys().map(|task| task.task).collect();
        self.done.union_with(&some.difference(&followed));
        Ok(())
    }

    // Notes which files are there of the streams that are followed: what becomes of them is told.
    fn watch(&mut self) -> Result<(), HqError> {
        let mut new: IdSet = self.followed.keys().map(|task| task.task).collect();
        new.subtract(&self.placed);
        if !new.is_empty() {
            let streams = self.streams_of(&new)?;
            self.streams.extend(streams);
            self.placed.union_with(&new);
        }
        let server_uid = self.session.borrow().server_uid().to_owned();
        self.streams.iter().for_each(|stream| self.damaged.watch(stream, &server_uid));
        Ok(())
    }

    // The streams that tasks print into.
    fn streams_of(&self, tasks: &IdSet) -> Result<BTreeSet<ByteString>, HqError> {
        let job = self.what.job;
        let pages = ServerPages::new(Rc::clone(self.session), &[job], Some(tasks.clone()), Vec::new());
        let mut listed = TaskStream::begin(pages.with_submits())?;
        let mut streams = BTreeSet::new();
        while let Some(info) = listed.next_of(job)? {
            for channel in self.what.channels {
                if let Some(Place::Stream(stream)) = listed.place_of(job, &info, *channel) {
                    streams.insert(stream.path().clone());
                }
            }
        }
        Ok(streams)
    }

    // Whoever reads a part of a stream alone does not say what is damaged of it.
    fn look_for_damage(&self) -> Result<(), HqError> {
        let (job, tasks) = (self.what.job, &self.read_elsewhere);
        if tasks.is_empty() {
            return Ok(());
        }
        let dirs = self.streams_of(tasks)?;
        let server_uid = self.session.borrow().server_uid().to_owned();
        for dir in dirs {
            // What cannot be read here was read elsewhere.
            let _ = self.damaged.look_at(&dir, &server_uid, job, Some(tasks));
        }
        Ok(())
    }

    fn cannot_read(&mut self, (task, channel): (TaskRef, Channel), there: String, here: &str) {
        let text = super::task::unreadable(task, channel, &there, here).text;
        self.unreadable.get_or_insert((text, 0)).1 += 1;
    }

    fn print(
        &self,
        channel: Channel,
        print: impl FnOnce(Prefix, &mut dyn Write) -> Result<(), HqError>,
    ) -> Result<(), HqError> {
        let to_stderr = channel == Channel::Stderr && self.what.channels.len() > 1;
        let mut out: Box<dyn Write> =
            if to_stderr { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) };
        print(self.prefix, &mut out)?;
        Ok(out.flush()?)
    }
}
