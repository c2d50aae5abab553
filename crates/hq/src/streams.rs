//! What many tasks printed into streams, read together.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hq_core::client_messages::TaskInfo;
use hq_core::record::FailureKind;
use hq_model::{ByteString, Channel, IdSet, JobId, TaskRef, TaskState, Timestamp, counted};
use hq_stream::{Contents, Directory, Fault, Piece, Started, StreamError, StreamFile};

use crate::error::HqError;
use crate::render::Printer;

/// Ranges of tasks of a job, and jobs, that are named where bytes of them are damaged.
const TASKS_NAMED_MAX: usize = 8;
const JOBS_NAMED_MAX: usize = 4;

/// Streams of a server, of which one job's is open at a time.
pub(crate) struct Streams {
    server_uid: String,
    // Only these, if some were named.
    tasks: Option<IdSet>,
    channel: Channel,
    open: Option<Open>,
    damaged: Damaged,
    // Tasks that have ended without success and of which nothing is there, with the first of them.
    silent: u64,
    first_silent: Option<TaskRef>,
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
    // Those among them of which the end of the channel is there.
    complete: IdSet,
    // Ascending by task.
    pieces: Vec<Piece>,
}

impl Streams {
    /// Those of a server, one of the two outputs of each task or of each of these. What is damaged is warned of, and
    /// counted, by `damaged`.
    pub(crate) fn new(
        server_uid: String,
        tasks: Option<IdSet>,
        channel: Channel,
        damaged: Damaged,
    ) -> Streams {
        Streams { server_uid, tasks, channel, open: None, damaged, silent: 0, first_silent: None }
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
        let has_ended = task.started.is_some() && task.state.is_terminal();
        if has_ended && !content.tasks.contains(task.task) {
            if !was_written_to_its_end(task) {
                self.silent += 1;
                self.first_silent.get_or_insert(TaskRef::new(job, task.task));
                return Ok(Ok(()));
            }
            let dir = String::from_utf8_lossy(&open.dir);
            return Ok(Err(format!(
                "{dir}: what task {} of job {job} printed is no longer there",
                task.task
            )));
        }
        let first = content.pieces.partition_point(|piece| piece.task < task.task);
        let end = content.pieces.partition_point(|piece| piece.task <= task.task);
        let copied = content.directory.copy(&content.pieces[first..end], out)?;
        let is_cut = task.state == TaskState::Finished && !content.complete.contains(task.task);
        Ok(match copied {
            Ok(()) if is_cut => Err(format!(
                "{}: the end of what task {} of job {job} printed is no longer there",
                String::from_utf8_lossy(&open.dir),
                task.task
            )),
            copied => copied.map_err(|error| error.to_string()),
        })
    }

    /// Says what may be missing of what was copied.
    ///
    /// # Errors
    /// When files were damaged.
    pub(crate) fn end(&mut self) -> Result<(), HqError> {
        if let Some(first) = self.first_silent.take() {
            let text = match std::mem::take(&mut self.silent) {
                1 => format!(
                    "No output of task {first} is there: it was ended before it printed, or it was removed"
                ),
                tasks => format!(
                    "No output of {tasks} tasks is there, of which {first} is the first: they were ended before they \
                     printed, or it was removed"
                ),
            };
            self.damaged.printer.warn(&[text]);
        }
        self.damaged.end()
    }

    // Nothing where no task has begun to write.
    fn read(&mut self, job: JobId, dir: &[u8]) -> Result<Option<Content>, StreamError> {
        let tasks = self.tasks.as_ref();
        let Some((directory, contents)) = self.damaged.look_at(dir, &self.server_uid, job, tasks)? else {
            return Ok(None);
        };
        let tasks: IdSet = contents.tasks(job).map(|(task, _)| task).collect();
        let number = usize::from(self.channel.number());
        let is_complete =
            |attempts: &[Started]| attempts.last().is_some_and(|last| last.printed.is_complete[number]);
        let complete =
            contents.tasks(job).filter(|(_, attempts)| is_complete(attempts)).map(|(task, _)| task).collect();
        let pieces = directory.pieces(&contents, job, &tasks, self.channel)?;
        Ok(Some(Content { directory, tasks, complete, pieces }))
    }
}

/// The parts of files with output of what is read, or that may have had some, that are damaged. Clones are the same:
/// each part is told, and counted, once.
#[derive(Clone, Debug)]
pub(crate) struct Damaged {
    printer: Printer,
    found: Rc<RefCell<FoundDamage>>,
}

#[derive(Debug, Default)]
struct FoundDamage {
    parts: BTreeSet<(PathBuf, u64)>,
    told: BTreeSet<String>,
    // Files that were there while something was followed, and those among them that are not what they were.
    watched: BTreeMap<PathBuf, Watched>,
    lost: BTreeSet<PathBuf>,
    cut_off: BTreeSet<TaskRef>,
}

// How a file was when it was seen last.
#[derive(Debug)]
struct Watched {
    identity: (u64, u64),
    created: Timestamp,
    length: u64,
}

impl Damaged {
    /// Nothing is known yet.
    pub(crate) fn new(printer: Printer) -> Damaged {
        Damaged { printer, found: Rc::default() }
    }

    /// Where it is told.
    pub(crate) fn printer(&self) -> Printer {
        self.printer
    }

    /// Finds out what a directory has of a job, or of some of its tasks, and warns of what is damaged. Nothing where no
    /// task of this server has begun to write.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn look_at(
        &self,
        dir: &[u8],
        server_uid: &str,
        job: JobId,
        tasks: Option<&IdSet>,
    ) -> Result<Option<(Directory, Contents)>, StreamError> {
        let Some(directory) = Directory::of_server(Path::new(OsStr::from_bytes(dir)), server_uid)? else {
            return Ok(None);
        };
        let contents = match tasks {
            Some(tasks) => directory.contents_of_any(job, tasks)?,
            None => directory.contents()?,
        };
        let is_told =
            |error: &&StreamError| matches!(error, StreamError::Copy { .. } | StreamError::Strange { .. });
        let left_out = directory.passed_over.iter().filter(is_told);
        let mut warnings: Vec<String> = left_out.map(ToString::to_string).collect();
        let damage = Damage::of(&contents, false, &mut warnings)?;
        let found = &mut *self.found.borrow_mut();
        found.parts.extend(damage.parts_among(Some(job), tasks).map(|part| (part.path.clone(), part.offset)));
        warnings.retain(|warning| found.told.insert(warning.clone()));
        self.printer.damaged(&warnings);
        Ok(Some((directory, contents)))
    }

    /// Finds out which files of a directory are there, and warns of those that are not what they were: what was in them
    /// may be missing in what is followed.
    pub(crate) fn watch(&self, dir: &[u8], server_uid: &str) {
        let dir = Path::new(OsStr::from_bytes(dir));
        let found = &mut *self.found.borrow_mut();
        let of_dir = found.watched.keys().filter(|path| path.starts_with(dir)).cloned();
        let mut paths: BTreeSet<PathBuf> = of_dir.collect();
        if let Ok(Some(directory)) = Directory::of_server(dir, server_uid) {
            paths.extend(directory.paths().iter().cloned());
        }
        let mut warnings = Vec::new();
        for path in paths {
            let now = Watched::of(&path);
            let before = found.watched.remove(&path);
            if let Some(what) = before.and_then(|before| before.what_became(now.as_ref())) {
                warnings.push(format!(
                    "{} {what} while it was followed: what it had before may be missing",
                    path.display()
                ));
                found.lost.insert(path.clone());
            }
            if let Ok(now) = now {
                found.watched.insert(path, now);
            }
        }
        self.printer.damaged(&warnings);
    }

    /// What a task printed was read from a file that is not there any more: perhaps not all of it.
    pub(crate) fn is_cut_off(&self, task: TaskRef) {
        self.found.borrow_mut().cut_off.insert(task);
    }

    /// Says that what was printed is not all.
    ///
    /// # Errors
    /// When files were damaged.
    pub(crate) fn end(&self) -> Result<(), HqError> {
        self.end_with("the warnings name the files and the tasks; everything else was printed")
    }

    /// Says that what was followed is not all: of what was damaged in between, more may be there than was printed.
    ///
    /// # Errors
    /// When files were damaged.
    pub(crate) fn end_following(&self) -> Result<(), HqError> {
        self.end_with(
            "the warnings name the files and the tasks; `hq job cat` prints everything that is there now",
        )
    }

    fn end_with(&self, hint: &str) -> Result<(), HqError> {
        let found = self.found.borrow();
        let is_lost = !(found.lost.is_empty() && found.cut_off.is_empty());
        let lost = is_lost.then(|| {
            "The output is not complete: files with it were removed or changed while it was followed"
                .to_owned()
        });
        match not_whole(found.parts.len() as u64).or(lost) {
            Some(text) => Err(HqError::failed("damaged-output", text).hint(hint)),
            None => Ok(()),
        }
    }
}

impl Watched {
    fn of(path: &Path) -> Result<Watched, StreamError> {
        let file = StreamFile::open(path)?;
        let failed = |error| StreamError::Io { path: path.into(), error };
        let found = fs::metadata(path).map_err(failed)?;
        let created = file.header().created;
        Ok(Watched { identity: (found.dev(), found.ino()), created, length: found.len() })
    }

    // Nothing where it is the same, or longer.
    fn what_became(&self, now: Result<&Watched, &StreamError>) -> Option<&'static str> {
        match now {
            Err(error) if error.is_missing() => Some("was removed"),
            Err(StreamError::Foreign { .. }) => Some("was emptied, or its beginning was damaged,"),
            // It may be the same.
            Err(_) => None,
            // The number of a file that was removed may be given again.
            Ok(now) if now.identity != self.identity || now.created != self.created => {
                Some("was removed or emptied, and began anew,")
            }
            Ok(now) if now.length < self.length => Some("was cut off"),
            Ok(_) => None,
        }
    }
}

/// Its worker told its end after what it had printed was safe, and something is written even where that is nothing.
pub(crate) fn was_written_to_its_end(task: &TaskInfo) -> bool {
    let is_so = |failure| {
        !matches!(
            failure,
            FailureKind::Crashes | FailureKind::Lost | FailureKind::EndedEarly | FailureKind::Start
        )
    };
    match task.state {
        TaskState::Finished => true,
        TaskState::Failed => task.failure.is_some_and(is_so),
        TaskState::Waiting | TaskState::Running | TaskState::Canceled | TaskState::Aborted => false,
    }
}

/// Parts of files that are damaged.
#[derive(Debug)]
pub(crate) struct Damage(Vec<DamagedPart>);

#[derive(Debug)]
struct DamagedPart {
    path: PathBuf,
    offset: u64,
    // The tasks of which it had output, where that is known.
    tasks: Option<BTreeMap<JobId, IdSet>>,
}

impl Damage {
    /// Finds it, and what to say of it. A write that is not finished may be that of a task that runs: it is told on demand.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn of(
        contents: &Contents,
        is_torn_told: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Damage, StreamError> {
        let mut parts = Vec::new();
        for (path, fault) in &contents.faults {
            let place = path.display();
            if matches!(fault, Fault::Torn { .. }) {
                warnings.extend(is_torn_told.then(|| format!("{place}: {fault}")));
                continue;
            }
            let tasks = Directory::tasks_in(path, fault)?;
            let whose = match &tasks {
                Some(tasks) => whose(tasks),
                None => "it is not known which tasks had output there".to_owned(),
            };
            warnings.push(format!("{place}: {fault}; {whose}"));
            parts.push(DamagedPart { path: path.clone(), offset: fault.offset(), tasks });
        }
        Ok(Damage(parts))
    }

    /// Counts files whose beginning is damaged, too: whatever was in them is missing.
    pub(crate) fn add_files_of(&mut self, passed_over: &[StreamError]) {
        let paths = passed_over.iter().filter_map(|error| match error {
            // A pipe or a directory was no stream file ever.
            StreamError::Foreign { path } if path.is_file() => Some(path.clone()),
            _ => None,
        });
        self.0.extend(paths.map(|path| DamagedPart { path, offset: 0, tasks: None }));
    }

    /// How many parts had, or may have had, output of these: of a job, some of its tasks if any are named, or of all.
    pub(crate) fn among(&self, job: Option<JobId>, some: Option<&IdSet>) -> u64 {
        self.parts_among(job, some).count() as u64
    }

    /// Tasks of a job of which damaged parts had output, as far as that is known.
    pub(crate) fn tasks_of(&self, job: JobId) -> impl Iterator<Item = &IdSet> {
        self.0.iter().filter_map(move |part| part.tasks.as_ref()?.get(&job))
    }

    fn parts_among(&self, job: Option<JobId>, some: Option<&IdSet>) -> impl Iterator<Item = &DamagedPart> {
        let is_of = move |tasks: &BTreeMap<JobId, IdSet>| match job {
            None => true,
            Some(job) => tasks.get(&job).is_some_and(|own| some.is_none_or(|some| some.intersects(own))),
        };
        self.0.iter().filter(move |part| part.tasks.as_ref().is_none_or(is_of))
    }
}

// Of which tasks damaged bytes were.
fn whose(tasks: &BTreeMap<JobId, IdSet>) -> String {
    let of_job = |(job, tasks): (&JobId, &IdSet)| match tasks.len() {
        1 => format!("task {job}@{tasks}"),
        count if tasks.range_count() > TASKS_NAMED_MAX => format!("{count} tasks of job {job}"),
        _ => format!("tasks {job}@{tasks}"),
    };
    let jobs: Vec<String> = tasks.iter().take(JOBS_NAMED_MAX).map(of_job).collect();
    let more = match tasks.len().saturating_sub(JOBS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and of {}", counted(more as u64, "more job")),
    };
    format!("they had output of {}{more}", jobs.join(", "))
}

/// What to say where so many parts with output that was asked for are damaged; nothing where none is.
pub(crate) fn not_whole(damaged: u64) -> Option<String> {
    let parts = counted(damaged, "part");
    let verb = if damaged == 1 { "is" } else { "are" };
    (damaged > 0).then(|| format!("The output is not complete: {parts} of the files with it {verb} damaged"))
}
