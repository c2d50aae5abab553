//! `hq submit`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use hq_client::limits::JOB_FILE_BYTES_MAX;
use hq_client::options::feed::Fed;
use hq_client::options::{
    JobFile, OptionsError, Prepared, PreparedFile, PreparedJobs, SubmitOptions, Surroundings, WaitOptions,
    behind, prepare, prepare_job_file,
};
use hq_client::{ClientError, NotSubmitted, Session, SubmittedFile, Watch, request_key};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobPage, NewJob, NewTasks, RequestError};
use hq_model::dependency::After;
use hq_model::job::Target;
use hq_model::paths::PathTemplates;
use hq_model::selector::Selector;
use hq_model::{
    Body, ByteString, Channel, IdSet, JobId, JobSpec, ObjectName, Stream, Submit, TaskSpec, TaskState,
    counted_are, pattern,
};
use hq_stream::StreamFile;

use super::before::Before;
use super::job::feed_of;
use super::make::await_ended;
use super::{Context, Done, exit_of, unexpected};
use crate::cli::OutputMode;
use crate::cli::job::{ResubmitArgs, SubmitFileArgs};
use crate::error::HqError;
use crate::following::{JobFollow, follow_job};
use crate::jobs::only;
use crate::make::keep_from_making;
use crate::progress::Progress;
use crate::render::Printer;
use crate::render::submit::fields;
use crate::report::{Feeders, SubmitWaited, Submitted, Waited};
use crate::telling::{Teller, missing_targets};
use crate::waiting::{Follow, NotifyCommand, follow};

// Options that are asked for most, and that few programs have.
const OFTEN_BEHIND: [&str; 9] = [
    "--array",
    "--each-line",
    "--from-json",
    "--cpus",
    "--gpus",
    "--mem",
    "--nodes",
    "--time-limit",
    "--time-request",
];

/// Waits for the tasks that an open job has.
const WAIT_FOR_OPEN: &str = "hq job wait --without-close";

// What to do about a file of which only a part is submitted.
const WITH_KEYS: &str =
    "if all tasks have keys, the file can be submitted again, and only missing tasks are added";

pub(super) fn submit(context: &Context, options: SubmitOptions) -> Result<Done, HqError> {
    let Prepared { mut submit, fed, broadcasts, wait, warnings, hints } = prepared(context, options)?;
    if wait.follow && context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "--follow prints output unchanged and has no JSON output; use another --output-mode",
        ));
    }
    let on_notify = wait
        .on_notify
        .as_deref()
        .map(|text| NotifyCommand::parse(text, context.printer.mode, Some(&context.server_dir)))
        .transpose()?;
    context.printer.warn(&warnings);
    context.printer.hint(&hints);
    context.printer.hint(&behind_the_program(&submit));
    context.printer.hint(job_file_as_program(&submit).as_slice());
    let mut session = context.connect()?;
    if let Some(fed) = fed {
        return submit_fed(context, session, fed, (wait, on_notify), warnings);
    }
    if submit.target == Target::Open(After::LAST) {
        submit.target = Target::Open(last_job(&mut session)?);
    }
    let unusable = unusable_log(&submit.spec, &submit.submit_dir, session.server_uid());
    let unusable =
        unusable.map(|why| format!("{why}. If it is the same on the server's machine, the tasks will fail"));
    context.printer.warn(unusable.as_slice());
    let missing = missing_broadcasts(&broadcasts);
    context.printer.warn(&missing);
    let warnings = warnings.into_iter().chain(unusable).chain(missing).collect();
    if !broadcasts.is_empty() {
        return submit_behind(context, session, (broadcasts, submit), (wait, on_notify), warnings);
    }
    let before = Before::new(&submit, session.server_uid());
    if !wait.waits() {
        let response = session.request(request(submit)?)?;
        let submitted = submitted(response, warnings, |more| context.printer.advise(more, false))?;
        context.printer.warn(before.outputs_of(submitted.job).as_slice());
        context.hint_of_workers(&mut session);
        return Done::ok(submitted);
    }
    session.wait_for_lost_server(wait.reconnect_timeout);
    context.hint_of_workers(&mut session);
    if wait.follow {
        return submit_and_follow(context, session, submit, warnings, wait.allow_failures);
    }
    // An open job would be waited for until it is closed.
    let again = match (&submit.target, wait.progress) {
        (Target::Open(_), _) => WAIT_FOR_OPEN,
        (Target::New(_), true) => "hq job progress",
        (Target::New(_), false) => "hq job wait",
    };
    let is_open = matches!(submit.target, Target::Open(_));
    let (mut submitted, mut watch) =
        send_and_watch(context, &mut session, submit, warnings, on_notify.is_some())?;
    context.printer.announce(&mut submitted)?;
    if is_open {
        context.printer.note(&waits_for_open(submitted.job));
    }
    context.printer.warn(before.outputs_of(submitted.job).as_slice());
    let followed = wait_for(context, &mut watch, &submitted, (&wait, on_notify, again));
    drop(watch);
    waited(context, session, submitted, followed, wait.allow_failures)
}

fn waits_for_open(job: JobId) -> String {
    format!("Job {job} is open: waiting for all tasks that it has now, also those of other submits")
}

// Shows how a new job goes on until it is over.
fn wait_for(
    context: &Context,
    watch: &mut Watch<'_>,
    submitted: &Submitted,
    (wait, on_notify, again): (&WaitOptions, Option<NotifyCommand>, &str),
) -> Result<Waited, HqError> {
    let shows = wait.progress && context.printer.mode == OutputMode::Cli;
    let progress = if shows { Progress::shown() } else { Progress::hidden() };
    follow(
        watch,
        Follow { on_notify, progress, teller: Teller::default() },
        (again, &Selector::Ids(submitted.jobs())),
    )
}

// What is said of it then.
fn waited(
    context: &Context,
    session: Session,
    submitted: Submitted,
    followed: Result<Waited, HqError>,
    allow_failures: bool,
) -> Result<Done, HqError> {
    match followed {
        Ok(waited) => {
            let exit = exit_of(&waited, allow_failures);
            let notes = context.notes_of_waited(session, &waited);
            Ok(Done::ok(SubmitWaited { submitted, waited })?.exit(exit).noting(notes))
        }
        Err(error) => Err(HqError { done: Some(Box::new(fields(&submitted))), ..error }),
    }
}

// A job whose tasks a generator makes: it is over when it is closed.
fn submit_fed(
    context: &Context,
    mut session: Session,
    Fed { spec, generator, reducer }: Fed,
    (wait, on_notify): (WaitOptions, Option<NotifyCommand>),
    warnings: Vec<String>,
) -> Result<Done, HqError> {
    if wait.follow {
        return Err(HqError::usage(
            "--follow needs existing tasks, but a generator creates them later; use --wait",
        ));
    }
    let tasks = NewTasks::Fed { generator: Box::new(generator), reducer: reducer.map(Box::new) };
    let jobs = PreparedJobs {
        jobs: vec![NewJob { spec, after: Vec::new(), takes: Vec::new(), tasks }],
        places: vec![0],
        warnings,
    };
    let submitted = submit_jobs(context, &mut session, jobs, wait.waits())?;
    context.hint_of_workers(&mut session);
    end_of(context, session, submitted, (wait, on_notify), true)
}

// A job behind those that leave what is broadcast to its tasks: all of them are there, or none.
fn submit_behind(
    context: &Context,
    mut session: Session,
    (broadcasts, submit): (Vec<(NewJob, ObjectName)>, Submit),
    (wait, on_notify): (WaitOptions, Option<NotifyCommand>),
    warnings: Vec<String>,
) -> Result<Done, HqError> {
    let Target::New(spec) = submit.target.clone() else { return unexpected() };
    let names: Vec<ObjectName> = broadcasts.iter().map(|(_, name)| name.clone()).collect();
    let jobs = behind(broadcasts, spec, vec![submit]);
    let places = (0..jobs.len()).collect();
    let jobs = PreparedJobs { jobs, places, warnings };
    let submitted = submit_jobs(context, &mut session, jobs, wait.waits())?;
    // Of those in front nobody has asked: they stand beside it.
    let broadcasts = submitted.together.iter().map(|(job, _)| *job).zip(names).collect();
    let submitted = Submitted { together: Vec::new(), broadcasts, ..submitted };
    context.hint_of_workers(&mut session);
    match wait.follow {
        true => {
            session.wait_for_lost_server(wait.reconnect_timeout);
            follow_submitted(context, session, submitted, wait.allow_failures)
        }
        false => end_of(context, session, submitted, (wait, on_notify), true),
    }
}

// Paths that are to be broadcast and are not on this machine. A worker may find them all the same.
fn missing_broadcasts(broadcasts: &[(NewJob, ObjectName)]) -> Vec<String> {
    let submits = broadcasts.iter().filter_map(|(job, _)| match &job.tasks {
        NewTasks::Submits(submits) => submits.first(),
        NewTasks::Fed { .. } => None,
    });
    let paths = submits.flat_map(|submit| &submit.spec.output_objects).map(|output| &output.path);
    let paths = paths.filter(|path| !path.windows(2).any(|two| two == b"%{"));
    let missing = paths.map(|path| Path::new(OsStr::from_bytes(path))).filter(|path| !path.exists());
    missing
        .map(|path| {
            format!(
                "--broadcast: {} does not exist on this machine; if the worker that reads it cannot find it either, \
                 the tasks are aborted",
                path.display()
            )
        })
        .collect()
}

// Jobs that are there already, as far as some of these wait for them, and the name of one that does.
fn waits_of(jobs: &[NewJob]) -> BTreeMap<JobId, String> {
    let mut waits = BTreeMap::new();
    for job in jobs {
        let submits: Vec<&Submit> = match &job.tasks {
            NewTasks::Submits(submits) => submits.iter().collect(),
            NewTasks::Fed { generator, .. } => vec![&**generator],
        };
        for after in submits.iter().flat_map(|submit| &submit.dependencies.after) {
            waits.entry(after.job).or_insert_with(|| job.spec.name.clone());
        }
    }
    waits
}

// Makes jobs together.
fn submit_jobs(
    context: &Context,
    session: &mut Session,
    jobs: PreparedJobs,
    does_wait: bool,
) -> Result<Submitted, HqError> {
    let PreparedJobs { jobs, places, mut warnings } = jobs;
    let names: Vec<String> = jobs.iter().map(|job| job.spec.name.clone()).collect();
    let waits = waits_of(&jobs);
    let is_fed = |place: &usize| matches!(jobs[*place].tasks, NewTasks::Fed { .. });
    let fed: Vec<usize> = (0..jobs.len()).filter(is_fed).collect();
    let request = ClientRequest::SubmitJobs { key: request_key()?, jobs };
    let answer = session.request(request).map_err(|error| match &error {
        ClientError::Refused(RequestError::NoJob(id)) if waits.contains_key(id) => {
            let text = format!("Job {id} not found: job `{}` depends on it", waits[id]);
            HqError { text, ..error.into() }
        }
        _ => error.into(),
    })?;
    let ClientResponse::JobsSubmitted { jobs, warnings: more } = answer else {
        return unexpected();
    };
    context.printer.advise(&more, does_wait);
    warnings.extend(more);
    let mut together: Vec<(usize, (JobId, String))> =
        places.into_iter().zip(jobs.iter().copied().zip(names)).collect();
    together.sort_by_key(|(place, _)| *place);
    let together: Vec<(JobId, String)> = together.into_iter().map(|(_, job)| job).collect();
    let Some(job) = jobs.last().copied() else { return unexpected() };
    let together = if together.len() == 1 { Vec::new() } else { together };
    let feeders = feeders_of(session, &fed.into_iter().map(|place| jobs[place]).collect::<Vec<_>>());
    Ok(Submitted { job, together, feeders, broadcasts: Vec::new(), existing: 0, warnings })
}

// The jobs of their generators and reducers. These are submitted: nothing goes wrong when this cannot be told.
fn feeders_of(session: &mut Session, fed: &[JobId]) -> Vec<Feeders> {
    let of = |job: &JobId| {
        let feed = feed_of(session, &only([*job])).ok().flatten()?.feed;
        Some(Feeders { job: *job, generator: feed.generator, reducer: feed.reducer })
    };
    fed.iter().filter_map(of).collect()
}

// Shows what was submitted, at once or when it has ended.
fn end_of(
    context: &Context,
    mut session: Session,
    mut submitted: Submitted,
    (wait, on_notify): (WaitOptions, Option<NotifyCommand>),
    until_closed: bool,
) -> Result<Done, HqError> {
    if !wait.waits() {
        return Done::ok(submitted);
    }
    session.wait_for_lost_server(wait.reconnect_timeout);
    context.printer.announce(&mut submitted)?;
    let again = if until_closed { "hq job wait" } else { WAIT_FOR_OPEN };
    if !until_closed {
        context.printer.note(&waits_for_open(submitted.job));
    }
    let (jobs, notifications) = (Selector::Ids(submitted.jobs()), on_notify.is_some());
    let request = ClientRequest::WatchJobs { jobs, until_closed, notifications };
    let followed = {
        let mut watch = session.watch(request)?;
        wait_for(context, &mut watch, &submitted, (&wait, on_notify, again))
    };
    waited(context, session, submitted, followed, wait.allow_failures)
}

fn submit_and_follow(
    context: &Context,
    mut session: Session,
    submit: Submit,
    warnings: Vec<String>,
    allow_failures: bool,
) -> Result<Done, HqError> {
    let response = session.request(request(submit)?)?;
    let submitted = submitted(response, warnings, |more| context.printer.warn(more))?;
    follow_submitted(context, session, submitted, allow_failures)
}

fn follow_submitted(
    context: &Context,
    session: Session,
    mut submitted: Submitted,
    allow_failures: bool,
) -> Result<Done, HqError> {
    context.printer.announce(&mut submitted)?;
    let session = Rc::new(RefCell::new(session));
    let (job, printer) = (submitted.job, context.printer);
    let what = JobFollow { job, tasks: None, channels: &Channel::ALL, until_closed: false, printer };
    let waited = follow_job(&session, what)?;
    let exit = exit_of(&waited, allow_failures);
    let has_trouble = waited.jobs.iter().any(|job| job.counters.failed + job.counters.aborted > 0);
    let job = only([job]);
    let notes = if has_trouble { context.notes_of(session, job.clone(), &job) } else { Vec::new() };
    Ok(Done::ok(SubmitWaited { submitted, waited })?.exit(exit).noting(notes))
}

/// Submits the tasks of a job file.
pub(super) fn submit_file(context: &Context, args: SubmitFileArgs) -> Result<Done, HqError> {
    let submit_dir = std::env::current_dir().map_err(OptionsError::NoDirectory)?;
    let content = read_job_file(&args.file)?;
    let (early, open) = match args.job {
        Some(After::LAST) => {
            let mut session = context.connect()?;
            let job = last_job(&mut session)?;
            (Some(session), Some(job))
        }
        open => (None, open),
    };
    let wait = WaitOptions {
        wait: args.wait,
        progress: args.progress,
        allow_failures: args.allow_failures,
        ..WaitOptions::default()
    };
    if wait.allow_failures && !wait.waits() {
        return Err(OptionsError::Needs("--allow-failures", "--wait or --progress").into());
    }
    let file = prepare_job_file(&args.file, &content, open, submit_dir.as_os_str().as_bytes())?;
    drop(content);
    let (JobFile::One(PreparedFile { warnings, .. }) | JobFile::Jobs(PreparedJobs { warnings, .. })) = &file;
    context.printer.warn(warnings);
    let specs: Vec<&JobSpec> = match &file {
        JobFile::One(file) => vec![&file.job],
        JobFile::Jobs(jobs) => jobs.jobs.iter().map(|job| &job.spec).collect(),
    };
    specs.iter().for_each(|spec| context.printer.warn(&missing_targets(spec, &submit_dir)));
    let mut session = match early {
        Some(session) => session,
        None => context.connect()?,
    };
    let submitted = match file {
        JobFile::Jobs(jobs) => submit_jobs(context, &mut session, jobs, wait.waits())?,
        JobFile::One(file) => {
            let advise = &mut |warnings: &[String]| context.printer.advise(warnings, wait.waits());
            let submitted = session.submit_file(file, open, advise);
            let SubmittedFile { job, existing, warnings } =
                submitted.map_err(|refused| with_hint(refused, open))?;
            Submitted {
                job,
                together: Vec::new(),
                feeders: Vec::new(),
                broadcasts: Vec::new(),
                existing,
                warnings,
            }
        }
    };
    // Nobody closes a job that was open before because this file was submitted to it.
    end_of(context, session, submitted, (wait, None), open.is_none())
}

// What of an open job's tasks is there all the same.
fn with_hint(refused: NotSubmitted, open: Option<JobId>) -> HqError {
    let NotSubmitted { error, new, is_in_parts } = refused;
    let error = HqError::from(error);
    match (open, new) {
        (Some(job), 0) if is_in_parts => {
            error.hint(format!("some tasks of the file may be in job {job}; {WITH_KEYS}"))
        }
        (Some(job), 1..) => error.hint(format!(
            "{} in job {job}, and perhaps some that come later in the file; {WITH_KEYS}",
            counted_are(new, "task", "of the file is", "of the file are")
        )),
        _ => error,
    }
}

/// Submits tasks of a job again. The server has them, so nothing but their ids is sent.
pub(super) fn resubmit(context: &Context, args: ResubmitArgs) -> Result<Done, HqError> {
    let states = [(args.failed, TaskState::Failed), (args.canceled, TaskState::Canceled)];
    let states = states.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, state)| state).collect();
    let jobs = args.job;
    let request =
        ClientRequest::Resubmit { key: request_key()?, jobs: jobs.clone(), tasks: args.tasks, states };
    let mut session = context.connect()?;
    let not_made = keep_from_making(&mut session, &jobs)?;
    if let Some((ran, runs)) = &not_made.ran {
        await_ended(context, &mut session, ran, *runs)?;
    }
    let response = session.request(request)?;
    Done::ok(submitted(response, Vec::new(), |more| context.printer.advise(more, false))?)
}

/// The job that was made last.
pub(super) fn last_job(session: &mut Session) -> Result<JobId, HqError> {
    let page = Some(JobPage { tasks: Some(IdSet::new()), from: None });
    match session.request(ClientRequest::JobInfo { jobs: Selector::Last, page })? {
        ClientResponse::JobDetails { jobs, .. } => match &jobs[..] {
            [job] => Ok(job.summary.job),
            _ => unexpected(),
        },
        _ => unexpected(),
    }
}

fn read_job_file(path: &Path) -> Result<String, HqError> {
    let what = "the job file";
    let failed = |source| OptionsError::Read { what, path: path.into(), source };
    let open = || -> std::io::Result<Box<dyn Read>> {
        Ok(if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(File::open(path)?) })
    };
    let mut content = Vec::new();
    let max = JOB_FILE_BYTES_MAX;
    open().and_then(|file| file.take(max + 1).read_to_end(&mut content)).map_err(failed)?;
    if content.len() as u64 > max {
        return Err(OptionsError::TooLarge { what: path.display().to_string(), max }.into());
    }
    let message = "it is not text in UTF-8".to_owned();
    Ok(String::from_utf8(content).map_err(|_| OptionsError::JobFile { path: path.into(), message })?)
}

/// A submit of what the user said, in the current directory.
// Why the log of a submit cannot be written, as far as this machine sees the file that the server would write.
pub(super) fn unusable_log(spec: &TaskSpec, submit_dir: &[u8], server_uid: &str) -> Option<String> {
    let templates = PathTemplates::new(spec, submit_dir, server_uid);
    let Some(Stream::Log(path)) = templates.stream(None) else { return None };
    if !pattern::names(&path).is_empty() {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(&path));
    let there = std::fs::metadata(path).ok().filter(|there| !there.is_file() || there.len() > 0)?;
    let shown = path.display();
    let why = match StreamFile::open(path) {
        _ if there.is_dir() => format!("{shown} is a directory; --stream DIR writes into one"),
        Err(error) => error.to_string(),
        Ok(file) if file.header().server_uid != server_uid => {
            format!("{shown} is the log of another server, {}; use another name", file.header().server_uid)
        }
        Ok(_) => return None,
    };
    Some(why)
}

pub(super) fn prepared(context: &Context, options: SubmitOptions) -> Result<Prepared, HqError> {
    let submit_dir = std::env::current_dir().map_err(hq_client::options::OptionsError::NoDirectory)?;
    let mut stdin = Stdin { is_said: !std::io::stdin().is_terminal(), printer: context.printer };
    let defaults = context.defaults.clone();
    let directory = submit_dir.clone();
    let mut prepared = prepare(options, &mut Surroundings { submit_dir, stdin: &mut stdin, defaults })?;
    if let Target::New(spec) = &prepared.submit.target {
        prepared.warnings.extend(missing_targets(spec, &directory));
    }
    Ok(prepared)
}

// Standard input, which says that it is read where somebody has to write it.
struct Stdin {
    is_said: bool,
    printer: Printer,
}

impl Read for Stdin {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if !std::mem::replace(&mut self.is_said, true) {
            self.printer.note("Reading standard input; press Ctrl-D at the beginning of a line to end it");
        }
        std::io::stdin().lock().read(into)
    }
}

// Options of submits that stand behind the program, where nothing says that they are its own.
fn behind_the_program(submit: &Submit) -> Vec<String> {
    let Body::Program { args } = &submit.spec.body else { return Vec::new() };
    if std::env::args_os().any(|word| word == "--") {
        return Vec::new();
    }
    let option = |word: &ByteString| {
        let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
        OFTEN_BEHIND.into_iter().find(|option| option.as_bytes() == name)
    };
    let found = args.iter().skip(1).find_map(option);
    let hint = found.map(|option| {
        format!("{option} comes after the program and is passed to it; options for hq must come before: hq submit \
            {option} … PROGRAM")
    });
    hint.into_iter().collect()
}

// What is meant for `hq job submit-file`.
fn job_file_as_program(submit: &Submit) -> Option<String> {
    let Body::Program { args } = &submit.spec.body else { return None };
    let path = Path::new(OsStr::from_bytes(args.first()?));
    let is_meant = path.extension().is_some_and(|extension| extension == "toml") && path.is_file();
    let name = path.display();
    is_meant.then(|| format!("{name} looks like a job file: `hq job submit-file {name}` submits its tasks"))
}

/// Sends a submit and follows its tasks, from before the first of them can say something.
pub(super) fn send_and_watch<'a>(
    context: &Context,
    session: &'a mut Session,
    submit: Submit,
    warnings: Vec<String>,
    notifications: bool,
) -> Result<(Submitted, Watch<'a>), HqError> {
    let (response, watch) = session.submit_and_watch(request(submit)?, notifications)?;
    // Who waits for what will never be is told so, wherever that is read.
    Ok((submitted(response, warnings, |more| context.printer.warn(more))?, watch))
}

fn request(submit: Submit) -> Result<ClientRequest, HqError> {
    Ok(ClientRequest::Submit { key: request_key()?, submit: Box::new(submit) })
}

// Shows what the server warns of.
fn submitted(
    response: ClientResponse,
    mut warnings: Vec<String>,
    show: impl FnOnce(&[String]),
) -> Result<Submitted, HqError> {
    match response {
        ClientResponse::Submitted { job, existing, warnings: more, .. } => {
            show(&more);
            warnings.extend(more);
            Ok(Submitted {
                job,
                together: Vec::new(),
                feeders: Vec::new(),
                broadcasts: Vec::new(),
                existing: existing.len(),
                warnings,
            })
        }
        _ => unexpected(),
    }
}
