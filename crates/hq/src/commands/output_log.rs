//! `hq output-log …`: reads the files that `hq submit --stream` and `--log` make. No server is asked.

use std::io::Write;

use clap::ValueEnum;
use hq_model::{IdSet, JobId, TaskId};
use hq_stream::{Contents, Directory, Found, Piece, Started, StreamError, StreamFile};

use super::{Context, Done};
use crate::cli::OutputMode;
use crate::cli::job::Channel;
use crate::cli::output_log::{CatArgs, OutputLogArgs, OutputLogCommand, ShowArgs, StreamJob};
use crate::error::HqError;
use crate::json_text::JsonText;
use crate::render::{Printer, Report, style::Style};
use crate::report::{StreamJobs, StreamSummary};
use crate::streams::{Damage, not_whole};

pub(super) fn run(context: &Context, args: OutputLogArgs) -> Result<Done, HqError> {
    let path = args.path;
    let directory = match Directory::open(&path, args.server_uid.as_deref())? {
        Found::Files(directory) => directory,
        Found::Nothing => {
            let of = args.server_uid.map_or_else(String::new, |uid| format!(" of server {uid}"));
            let text = format!("No log files found{of} in {}", path.display());
            return Err(HqError::failed("no-output", text).hint(
                "give the directory or file that was passed to hq submit --stream or --log; `hq job info JOB` shows \
                 it",
            ));
        }
        Found::Several(servers) => {
            let text = format!("Found streams from multiple server instances in {}", path.display());
            let style = Style::of_stderr();
            let servers: Vec<String> =
                servers.iter().map(|(uid, begun)| format!("{uid} (since {})", style.time(*begun))).collect();
            let hint =
                format!("choose one with --server-uid, the last is the latest: {}", servers.join(", "));
            return Err(HqError::failed("no-output", text).hint(hint));
        }
    };
    let mut warnings: Vec<String> = directory.passed_over.iter().map(ToString::to_string).collect();
    let contents = match wanted(&args.command) {
        Some((job, tasks)) => directory.contents_of(job, tasks)?,
        None => directory.contents()?,
    };
    let mut damage = Damage::of(&contents, true, &mut warnings)?;
    damage.add_files_of(&directory.passed_over);
    context.printer.damaged(&warnings);
    match args.command {
        OutputLogCommand::Summary => {
            let exit = exit_of(&damage, None, None);
            let damaged = damage.among(None, None);
            let summary = summary(path.display().to_string(), &directory, &contents)?;
            Ok(Done::ok(StreamSummary { damaged, ..summary })?.exit(exit))
        }
        OutputLogCommand::Jobs => {
            let exit = exit_of(&damage, None, None);
            Ok(Done::ok(StreamJobs(contents.jobs().collect()))?.exit(exit))
        }
        OutputLogCommand::Show(args) => show(context, directory, contents, &damage, &args),
        OutputLogCommand::Cat(args) => cat(context, directory, contents, &damage, args),
        OutputLogCommand::Export(args) => {
            let job = the_job(&contents, args.job, "export 1")?;
            let (tasks, exit) = the_tasks(&contents, &damage, job, args.task)?;
            let channels = [hq_stream::Channel::Stdout, hq_stream::Channel::Stderr];
            let [stdout, stderr] = channels.map(|channel| directory.pieces(&contents, job, &tasks, channel));
            let pieces = [stdout?, stderr?];
            Ok(Done::ok(Exported { directory, contents, job, tasks, pieces })?.exit(exit))
        }
    }
}

// The tasks that are asked for, and their job unless it is left out or written wrongly. Nothing where all are asked for.
fn wanted(command: &OutputLogCommand) -> Option<(Option<JobId>, &IdSet)> {
    let (job, tasks) = match command {
        OutputLogCommand::Cat(args) => match &args.what[..] {
            [job, _] => (
                job.parse::<StreamJob>().ok().and_then(StreamJob::id),
                args.task.as_ref().map(|given| &given.ids),
            ),
            _ => (None, args.task.as_ref().map(|given| &given.ids)),
        },
        OutputLogCommand::Export(args) => (args.job.and_then(StreamJob::id), args.task.as_ref()),
        OutputLogCommand::Summary | OutputLogCommand::Jobs | OutputLogCommand::Show(_) => return None,
    };
    Some((job, tasks?))
}

impl From<StreamError> for HqError {
    fn from(error: StreamError) -> HqError {
        let hint = match &error {
            StreamError::Io { .. } => {
                "streams and logs are read from the file system, which this machine must share with the workers \
                 (streams) or the server (logs)"
            }
            StreamError::Foreign { .. } => {
                "give the directory or file that was passed to hq submit --stream or --log; where the beginning is \
                 damaged, nothing of the file can be read"
            }
            StreamError::Copy { .. } | StreamError::Strange { .. } | StreamError::Newer { .. } => {
                return HqError::failed("no-output", error.to_string());
            }
        };
        HqError::failed("no-output", error.to_string()).hint(hint)
    }
}

fn summary(path: String, directory: &Directory, contents: &Contents) -> Result<StreamSummary, StreamError> {
    let mut summary = StreamSummary {
        path,
        files: directory.files() as u64,
        jobs: contents.jobs().count() as u64,
        ..StreamSummary::default()
    };
    for path in directory.paths() {
        summary.disk_bytes += StreamFile::open(path)?.length()?;
    }
    for (_, attempts) in contents.jobs().flat_map(|job| contents.tasks(job)) {
        summary.tasks += 1;
        for (at, Started { printed, .. }) in attempts.iter().rev().enumerate() {
            let into = if at == 0 { &mut summary.bytes } else { &mut summary.superseded_bytes };
            into[0] += printed.bytes[0];
            into[1] += printed.bytes[1];
            summary.superseded += u64::from(at > 0);
            if at == 0 {
                summary.streams += printed.is_opened.iter().filter(|opened| **opened).count() as u64;
                let open = printed.is_opened.iter().zip(printed.is_complete);
                summary.opened += open.filter(|(opened, complete)| **opened && !complete).count() as u64;
            }
        }
    }
    Ok(summary)
}

// The one that is given, or the only one: where there are several, an example says how one is given.
fn the_job(contents: &Contents, given: Option<StreamJob>, example: &str) -> Result<JobId, HqError> {
    if let (Some(StreamJob::Last), Some(last)) = (given, contents.jobs().last()) {
        return Ok(last);
    }
    if let Some(job) = given.and_then(StreamJob::id) {
        return match contents.jobs().any(|known| known == job) {
            true => Ok(job),
            false => Err(HqError::failed("no-output", format!("Job {job} not found"))
                .hint("`hq output-log DIR jobs` lists the jobs with output")),
        };
    }
    let mut jobs = contents.jobs();
    match (jobs.next(), jobs.next()) {
        (Some(job), None) => Ok(job),
        (None, _) => Err(HqError::failed("no-output", "No job has written there yet")),
        _ => Err(HqError::usage(format!("several jobs have written there: select one, as in `{example}`"))),
    }
}

// Those that were asked for, or all, and the exit status: what is not there or damaged is named, and is no success.
fn the_tasks(
    contents: &Contents,
    damage: &Damage,
    job: JobId,
    given: Option<IdSet>,
) -> Result<(IdSet, u8), HqError> {
    let all: IdSet = contents.tasks(job).map(|(task, _)| task).collect();
    let exit = exit_of(damage, Some(job), given.as_ref());
    let Some(given) = given else { return Ok((all, exit)) };
    let (found, missing) = (given.intersection(&all), given.difference(&all));
    if missing.is_empty() {
        return Ok((given, exit));
    }
    let (tasks, have) = if missing.len() == 1 { ("Task", "it has") } else { ("Tasks", "they have") };
    let text = format!("{tasks} {missing} not found");
    let why = match damage.among(Some(job), Some(&missing)) {
        0 => format!("{have} written nothing of job {job} there yet"),
        _ => "what was printed may have been in the damaged bytes".to_owned(),
    };
    if found.is_empty() {
        return Err(HqError::failed("no-output", text).hint(why));
    }
    Printer::refused(&format!("{text}: {why}"));
    Ok((found, 1))
}

// Says that something of what is printed is damaged, which is no success.
fn exit_of(damage: &Damage, job: Option<JobId>, tasks: Option<&IdSet>) -> u8 {
    let text = not_whole(damage.among(job, tasks));
    text.map_or(0, |text| {
        Printer::refused(&text);
        1
    })
}

fn cat(
    context: &Context,
    directory: Directory,
    contents: Contents,
    damage: &Damage,
    args: CatArgs,
) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "cat prints output unchanged and has no JSON output; use export, or another --output-mode",
        ));
    }
    let wrong = |text: &str, expected: &str| HqError::usage(format!("`{text}` is not an {expected}"));
    let (channel, job) = match &args.what[..] {
        [channel] => (channel, None),
        [job, channel, ..] => {
            (channel, Some(job.parse::<StreamJob>().map_err(|_| wrong(job, "id of a job"))?))
        }
        [] => return Err(HqError::usage("give the output channel: stdout or stderr")),
    };
    let channel = Channel::from_str(channel, false)
        .map_err(|_| wrong(channel, "output channel: use stdout or stderr"))?;
    let job = the_job(&contents, job, "cat 1 stdout")?;
    let (given, order) = args.task.map_or((None, None), |given| (Some(given.ids), Some(given.parts)));
    let (tasks, exit) = the_tasks(&contents, damage, job, given)?;
    let channel = hq_stream::Channel::from(channel);
    let number = usize::from(channel.number());
    let is_unfinished = |task: &TaskId| {
        let printed = contents.latest(job, *task).map(|latest| latest.printed);
        printed.is_some_and(|printed| printed.is_opened[number] && !printed.is_complete[number])
    };
    if let Some(task) = tasks.iter().find(is_unfinished).filter(|_| !args.allow_unfinished) {
        return Err(HqError::failed("no-output", format!("Stream for task {task} is not finished"))
            .hint("--allow-unfinished prints what is available"));
    }
    let order = order.unwrap_or_else(|| vec![tasks.clone()]);
    let mut pieces = Vec::new();
    for part in order {
        pieces.extend(directory.pieces(&contents, job, &part.intersection(&tasks), channel)?);
    }
    Ok(Done::ok(Copied { directory, pieces })?.exit(exit))
}

// Outputs are copied while they are printed.
struct Copied {
    directory: Directory,
    pieces: Vec<Piece>,
}

impl Report for Copied {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(self.directory.copy(&self.pieces, out)??)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(self.directory.copy(&self.pieces, out)??)
    }
}

fn show(
    context: &Context,
    directory: Directory,
    contents: Contents,
    damage: &Damage,
    args: &ShowArgs,
) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "show prints lines and has no JSON output; use export, or another --output-mode",
        ));
    }
    let job = args.job.map(|job| the_job(&contents, Some(job), "show --job 1")).transpose()?;
    let exit = exit_of(damage, job, None);
    Ok(Done::ok(Shown { directory, contents, job, channel: args.channel.map(Into::into) })?.exit(exit))
}

// Everything in order, line by line.
struct Shown {
    directory: Directory,
    contents: Contents,
    job: Option<JobId>,
    channel: Option<hq_stream::Channel>,
}

impl Shown {
    fn print(&self, out: &mut dyn Write) -> Result<(), HqError> {
        let chosen = self.contents.jobs().filter(|job| self.job.is_none_or(|own| own == *job));
        let (mut jobs, mut tasks) = (1, 1);
        for job in chosen {
            jobs = jobs.max(job.to_string().len());
            tasks = tasks.max(self.contents.tasks(job).last().map_or(1, |(task, _)| task.to_string().len()));
        }
        self.directory.in_order(&self.contents, |entry| {
            let hq_stream::Content::Bytes(channel, bytes) = entry.content else { return Ok(()) };
            let task = entry.attempt.task;
            if self.job.is_some_and(|job| job != task.job) || self.channel.is_some_and(|own| own != channel) {
                return Ok(());
            }
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                write!(out, "{:0jobs$}.{:0tasks$}:{}> ", task.job.0, task.task.0, channel.number())?;
                out.write_all(line)?;
                if !line.ends_with(b"\n") {
                    out.write_all(b"\n")?;
                }
            }
            Ok::<(), HqError>(())
        })
    }
}

impl Report for Shown {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.print(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.print(out)
    }
}

// A block of a task is in memory.
struct Exported {
    directory: Directory,
    contents: Contents,
    job: JobId,
    tasks: IdSet,
    pieces: [Vec<Piece>; 2],
}

impl Exported {
    fn print(&self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut before = "[";
        for task in self.tasks.iter() {
            let text = |channel: usize, out: &mut dyn Write| -> Result<(), HqError> {
                let pieces = &self.pieces[channel];
                let of_task = &pieces[pieces.partition_point(|piece| piece.task < task)..];
                let count = of_task.partition_point(|piece| piece.task == task);
                let mut text = JsonText::begin(out)?;
                self.directory.copy(&of_task[..count], &mut text)??;
                Ok(text.end()?)
            };
            let printed =
                self.contents.latest(self.job, task).map(|latest| latest.printed).unwrap_or_default();
            let opened = printed.is_opened.iter().zip(printed.is_complete);
            let is_finished = opened.into_iter().all(|(opened, complete)| !opened || complete);
            write!(out, "{before}\n{{\"id\":{task},\"finished\":{is_finished},\"stdout\":")?;
            text(0, out)?;
            out.write_all(b",\"stderr\":")?;
            text(1, out)?;
            out.write_all(b"}")?;
            before = ",";
        }
        let end = if before == "[" { "[]\n" } else { "\n]\n" };
        Ok(out.write_all(end.as_bytes())?)
    }
}

impl Report for Exported {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.print(out)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.print(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.print(out)
    }
}
