//! `hq job cat`: prints what tasks wrote, into files or streams. These are read here, so this machine must see the same
//! file system.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;

use hq_core::client_messages::TaskInfo;
use hq_model::left_behind::LeftBehind;
use hq_model::paths::Place;
use hq_model::{Channel, JobId, OutputSink, Stream, TaskRef, TaskState, counted};

use super::{Context, Done, job};
use crate::cli::OutputMode;
use crate::cli::job::CatArgs;
use crate::error::HqError;
use crate::following::{JobFollow, NOTHING_KEPT, follow_job};
use crate::jobs::{JobStream, ServerJobs};
use crate::render::{Printer, Report, style::Style};
use crate::report::Plain;
use crate::results::LeftReader;
use crate::streams::{Damaged, Streams};
use crate::tasks::{Gone, ServerPages, TaskStream};

pub(super) fn cat(context: &Context, args: CatArgs) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "hq job cat prints files unchanged and has no JSON output; use another --output-mode",
        ));
    }
    let channel = Channel::from(args.channel);
    let session = Rc::new(RefCell::new(context.connect()?));
    if args.follow {
        session.borrow_mut().wait_for_lost_server(None);
        let [job] = job::selected(&session, args.jobs)?[..] else {
            return Err(HqError::usage("only the output of a single job can be followed"));
        };
        let printer = context.printer;
        let what = JobFollow { job, tasks: args.tasks, channels: &[channel], until_closed: true, printer };
        follow_job(&session, what)?;
        return Done::ok(Plain(Vec::new()));
    }
    // Where nothing was ever written, there is no reason to go through the tasks, unless some of them must be there.
    let jobs = if args.tasks.is_none() && !args.print_task_header {
        let mut stream = JobStream::begin(ServerJobs::new(Rc::clone(&session), args.jobs))?;
        let mut jobs = Vec::new();
        while let Some(job) = stream.next_job()? {
            let (job, tasks) = (job.summary.job, job.summary.counters.total());
            if writes(&mut stream, channel)? {
                jobs.push(job);
            } else {
                let text = match tasks {
                    0 => format!("Job {job} has no tasks"),
                    _ => no_stream_of(job, channel),
                };
                context.printer.warn(&[text]);
            }
        }
        jobs
    } else {
        job::selected(&session, args.jobs)?
    };
    let server_uid = session.borrow().server_uid().to_owned();
    let left = LeftReader::new(Rc::clone(&session), &jobs, args.tasks.clone());
    let pages = ServerPages::new(session, &jobs, args.tasks.clone(), args.task_status).with_submits();
    let outputs = Outputs {
        jobs,
        tasks: TaskStream::begin(pages)?,
        left,
        channel,
        print_task_header: args.print_task_header,
        printer: context.printer,
        streams: Streams::new(server_uid, args.tasks, channel, Damaged::new(context.printer)),
    };
    Done::ok(outputs)
}

fn no_stream_of(job: JobId, channel: Channel) -> String {
    format!(
        "No task of job {job} has a `{}` stream associated with it: it is not written to files",
        channel.word()
    )
}

// Whether a submit of the job that was told last writes somewhere.
fn writes(jobs: &mut JobStream, channel: Channel) -> Result<bool, HqError> {
    while let Some(submit) = jobs.next_submit()? {
        if *submit.spec.sink(channel) != OutputSink::None || submit.spec.body.is_packed_call() {
            return Ok(true);
        }
    }
    Ok(false)
}

// Outputs are copied while they are listed.
struct Outputs {
    jobs: Vec<JobId>,
    tasks: TaskStream,
    left: LeftReader,
    channel: Channel,
    print_task_header: bool,
    printer: Printer,
    streams: Streams,
}

impl Report for Outputs {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.copy(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.copy(out)
    }
}

impl Outputs {
    fn copy(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut failures = Failures::default();
        for job in std::mem::take(&mut self.jobs) {
            let mut begun = Begun::default();
            let mut is_empty = true;
            while let Some(task) = self.tasks.next_of(job)? {
                is_empty = false;
                if self.print_task_header {
                    writeln!(out, "# Job {job}, task {}", task.task)?;
                }
                let place = self.tasks.place_of(job, &task, self.channel);
                begun.tasks += u64::from(place.is_some());
                let path = match place {
                    Some(Place::File(path)) => path,
                    Some(Place::Stream(stream)) => {
                        match self.streams.copy(job, &task, stream.path().clone(), out)? {
                            Ok(()) if task.started.is_none() => begun.add(task.state),
                            Ok(()) => {}
                            Err(error) => failures.add(error, Source::of(&stream)),
                        }
                        continue;
                    }
                    None => {
                        if self.tasks.submit_of(job, &task).is_some_and(|of| of.spec.body.is_packed_call()) {
                            begun.tasks += 1;
                            self.copy_left(job, &task, &mut begun, out)?;
                        }
                        continue;
                    }
                };
                let path = Path::new(OsStr::from_bytes(&path));
                match open(path) {
                    Ok(Some(mut file)) => {
                        io::copy(&mut file, out)?;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let is_missing =
                            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                        match self.tasks.why_gone(job, &task, self.channel).filter(|_| is_missing) {
                            Some(Gone::NeverStarted) => begun.add(task.state),
                            Some(Gone::Removed) => begun.removed += 1,
                            Some(Gone::Empty) => {}
                            None => {
                                let is_file = error.kind() != io::ErrorKind::InvalidInput;
                                let source = if is_file { Source::File } else { Source::NoFile };
                                failures.add(format!("{}: {error}", path.display()), source);
                            }
                        }
                    }
                }
            }
            if is_empty {
                self.printer
                    .warn(&[format!("No tasks were selected for job {job}, there is nothing to print")]);
            }
            if !is_empty && begun.tasks == 0 {
                self.printer.warn(&[no_stream_of(job, self.channel)]);
            }
            if let Some(text) = begun.nothing_of(job) {
                self.printer.warn(&[text]);
            }
            self.printer.damaged(&begun.not_all_of(job, self.channel));
        }
        failures.end().and(self.streams.end())
    }

    // What a call printed comes with what it left behind.
    fn copy_left(
        &mut self,
        job: JobId,
        task: &TaskInfo,
        begun: &mut Begun,
        out: &mut dyn Write,
    ) -> Result<(), HqError> {
        match task.state {
            TaskState::Finished | TaskState::Failed => {}
            TaskState::Running => {
                begun.running += 1;
                return Ok(());
            }
            TaskState::Waiting | TaskState::Canceled | TaskState::Aborted => {
                begun.add(task.state);
                return Ok(());
            }
        }
        let Some(left) = self.left.of(TaskRef::new(job, task.task))? else {
            // One that finished has left something; one that failed may have died before.
            begun.dropped += u64::from(task.state == TaskState::Finished);
            return Ok(());
        };
        if let LeftBehind::Packed(packed) = LeftBehind::of(&left.result) {
            let printed = packed.printed(self.channel);
            out.write_all(printed.bytes)?;
            begun.cut += u64::from(printed.lost > 0);
            begun.lost = begun.lost.saturating_add(printed.lost);
        }
        Ok(())
    }
}

// Nothing is kept of what went to a device, such as /dev/null.
fn open(path: &Path) -> io::Result<Option<File>> {
    if std::fs::metadata(path)?.file_type().is_char_device() {
        return Ok(None);
    }
    hq_stream::open_file(path).map(Some)
}

// How many tasks of a job would have output, and how many of them have none, and why.
#[derive(Default)]
struct Begun {
    tasks: u64,
    not_yet: u64,
    never: u64,
    // Whose output was removed when they finished.
    removed: u64,
    // Calls: those that run, those of which nothing is kept, those of which the beginning is not, and how much that is.
    running: u64,
    dropped: u64,
    cut: u64,
    lost: u64,
}

impl Begun {
    fn add(&mut self, state: TaskState) {
        self.not_yet += u64::from(state == TaskState::Waiting);
        self.never += u64::from(state != TaskState::Waiting);
    }

    // What to say of a job whose calls printed more than is shown.
    fn not_all_of(&self, job: JobId, channel: Channel) -> Vec<String> {
        let mut texts = Vec::new();
        let calls = |count: u64| counted(count, "call");
        if self.running > 0 {
            let running = calls(self.running);
            texts.push(format!(
                "{running} of job {job} still running: their output is available when they have ended"
            ));
        }
        if self.dropped > 0 {
            let dropped = calls(self.dropped);
            texts.push(format!("The output of {dropped} of job {job} is no longer kept"));
        }
        if self.cut > 0 {
            let (cut, lost, channel) = (calls(self.cut), self.lost, channel.word());
            texts.push(format!(
                "Only the end of the {channel} of {cut} of job {job} is kept: {lost} bytes are missing"
            ));
        }
        texts
    }

    // What to say of a job where something is not shown because of that.
    fn nothing_of(&self, job: JobId) -> Option<String> {
        let Begun { tasks, not_yet, never, removed, .. } = *self;
        if removed > 0 {
            let what = match removed {
                1 => format!("The output of 1 task of job {job} was removed when it"),
                _ => format!("The outputs of {removed} tasks of job {job} were removed when they"),
            };
            return Some(format!("{what} finished, as :rm-if-finished asks"));
        }
        let yet = if not_yet > 0 { " yet" } else { "" };
        (tasks > 0 && not_yet + never == tasks)
            .then(|| format!("None of these tasks of job {job} has started{yet}: they have no output"))
    }
}

// Where an output is read.
#[derive(Clone, Copy)]
enum Source {
    Log,
    // A file of a task, or of a worker.
    File,
    // A pipe or a device.
    NoFile,
}

impl Source {
    fn of(stream: &Stream) -> Source {
        match stream {
            Stream::Log(_) => Source::Log,
            Stream::Directory(_) => Source::File,
        }
    }
}

#[derive(Default)]
struct Failures {
    first: Option<(String, Source)>,
    // One that is missing as a whole is told of each of its tasks.
    last: String,
    count: u64,
}

impl Failures {
    fn add(&mut self, text: String, source: Source) {
        if text != self.last {
            self.count += 1;
            self.first.get_or_insert_with(|| (text.clone(), source));
            self.last = text;
        }
    }

    fn end(self) -> Result<(), HqError> {
        let Some((first, source)) = self.first else {
            return Ok(());
        };
        let more = if self.count > 1 {
            format!(" (and {})", counted(self.count - 1, "more file"))
        } else {
            String::new()
        };
        let hint = match source {
            Source::NoFile => NOTHING_KEPT,
            // It was found, and is another one.
            Source::Log if first.contains(hq_stream::IS_FOREIGN) => {
                "what is there now was not written by this job: `hq task info` says where its output went"
            }
            Source::Log => {
                "logs are read from the file system, which this machine must share with the server"
            }
            Source::File => {
                "outputs are read from the file system, which this machine must share with the workers"
            }
        };
        Err(HqError::failed("no-output", format!("cannot read the output: {first}{more}")).hint(hint))
    }
}
