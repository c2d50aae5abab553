//! Making: on a server of our own, or as a job of one that stays.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use hq_client::{NotSubmitted, Session, SubmittedFile};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::explanation::ReasonKind;
use hq_make::{Digests, Known, Plan, Rerun, Run, RunId, RunState, order};
use hq_model::{JobId, TaskId, counted};
use hq_worker::launcher::Launcher;
use tokio::sync::watch;

use super::before::{Before, GoesOn, Taken, clear, job_name, take};
use super::ending::{END_TIME, Written, cancel_aside, goes_unanswered, until_written};
use super::following::{Ends, follow_to_the_end};
use super::{Context, home_path, level, load, places, planned, refused, remembered, rerun};
use crate::cli::make::{MakeArgs, OrderArg};
use crate::commands::{end_quietly_when_nobody_reads, unexpected, worker};
use crate::embedded::{Cluster, ClusterOptions, Workers, check_fits, interrupted_twice, nodes_of_batch_job};
use crate::error::{EXIT_SIGNAL, HqError};
use crate::jobs::only;
use crate::logging;
use crate::make::{
    Disk, Ending, Follower, Home, How, Job, LastRun, Mark, Place, Ran, Sha256, Started, Submission,
    ended_lines, hex, name_of, submission,
};
use crate::render::make::Shown;
use crate::render::text;
use crate::signals::{HeldSignals, Signals};

pub(super) fn make(context: &Context, args: MakeArgs) -> Result<u8, HqError> {
    // What is wrong with the files is said before anything is made.
    let make = load(context, &args)?;
    let home = match take(&home_path(&args), args.place.submit)? {
        Taken::Home(home) => home,
        Taken::GoesOn(goes_on) => {
            logging::init(context.debug, level(context));
            let rerun = rerun(&args)?;
            let plan = planned(context, &args, &make, &remembered(&args, &make, rerun), rerun)?;
            return join(context, &args, &goes_on, &plan);
        }
    };
    let launcher = if args.place.submit { None } else { Some(Launcher::fork()?) };
    match &args.how.log {
        Some(path) => logging::init_to(path)?,
        None => logging::init(context.debug, level(context)),
    }
    let rerun = rerun(&args)?;
    let maker = Maker { context, args: &args, home: &home };
    let before = Before::of(context, &home, args.place.submit)?;
    // The program ends with both: to give back what a hundred thousand runs hold, one by one, would only take time.
    let known = ManuallyDrop::new(remembered(&args, &make, rerun));
    home.tidy(&known)?;
    let mut plan = ManuallyDrop::new(planned(context, &args, &make, &known, rerun)?);
    if let Some(goes_on) = &before.goes_on {
        return join(context, &args, goes_on, &plan);
    }
    if maker.absorb(&plan, &before)? {
        *plan = planned(context, &args, &make, &remembered(&args, &make, rerun), rerun)?;
    }
    home.end()?;
    home.remember(&plan.adopted)?;
    if !plan.missing.is_empty() && !args.how.keep_going {
        return Err(refused(&plan.missing).hint("`-k` makes what can be made anyway"));
    }
    if plan.needed().next().is_none() {
        end_quietly_when_nobody_reads();
        home.say_last(&LastRun::default())?;
        return maker.nothing_to_do(&plan);
    }
    places::prepare(&make, &plan, args.how.workdir.as_deref())?;
    match launcher {
        None => maker.submit(&plan),
        Some(launcher) => maker.run(&plan, launcher),
    }
}

struct Maker<'a> {
    context: &'a Context,
    args: &'a MakeArgs,
    home: &'a Home,
}

impl Maker<'_> {
    // Remembers what has ended well without that anybody has seen it. True when something was.
    fn absorb(&self, plan: &Plan, before: &Before) -> Result<bool, HqError> {
        if before.completed.is_empty() || plan.runs.iter().all(|run| run.rerun == Rerun::Exists) {
            return Ok(false);
        }
        let names: HashMap<String, &Started> =
            before.completed.iter().map(|run| (run.name.clone(), run)).collect();
        let mut lines = Vec::new();
        for run in &plan.runs {
            let is_same = |started: &&&Started| started.text == hex(&Sha256.of_text(run.text()));
            if names.get(&name_of(run)).filter(is_same).is_some() {
                lines.extend(Known::ended(run, plan, &Disk::default(), &Sha256)?);
            }
        }
        self.home.remember(&lines)?;
        Ok(!lines.is_empty())
    }

    fn nothing_to_do(&self, plan: &Plan) -> Result<u8, HqError> {
        let (there, missing) = (plan.targets.len(), plan.missing.len());
        let text = match there {
            1 => "Nothing to do: the wanted file exists\n".to_owned(),
            count => format!("Nothing to do: all {count} wanted files exist\n"),
        };
        if missing > 0 {
            return Err(refused(&plan.missing));
        }
        let document = serde_json::json!({ "completed": 0, "unchanged": 0, "failed": [], "not_run": 0, "not_in_time": 0, "missing": 0, "duration": 0.0 });
        self.context.printer.print(&mut Shown::of(text, document))?;
        Ok(0)
    }

    fn how(&self, plan: &Plan, node: order::Node, mark: Option<Mark>) -> How {
        let how = &self.args.how;
        let max_fails = if how.fail_fast { Some(0) } else { how.max_fails };
        let priorities = match self.args.order {
            OrderArg::Path => None,
            OrderArg::Cost => Some(order::cost(plan, node)),
        };
        How {
            launcher: how.launcher.clone(),
            no_scripts: how.no_scripts,
            retry: how.retry,
            retry_on: how.retry_on.clone().unwrap_or_default(),
            max_fails,
            latency: how.latency,
            within: self.args.minutes,
            priorities,
            mark,
        }
    }

    fn submission(&self, plan: &Plan, node: order::Node, mark: Option<Mark>) -> Result<Submission, HqError> {
        let dir = std::env::current_dir()?;
        let name = job_name()?;
        submission(plan, &name, dir.as_os_str().as_bytes(), &self.how(plan, node, mark))
    }

    fn submit(&self, plan: &Plan) -> Result<u8, HqError> {
        end_quietly_when_nobody_reads();
        let mut session = self.context.connect()?;
        let mark = Mark::new(self.home.path(), logging::now());
        // What nodes there will be is not known.
        let node = order::Node { cpus: 0, gpus: 0 };
        let Submission { file, runs: _, started } = self.submission(plan, node, Some(mark.clone()))?;
        let place =
            Place::Server { uid: session.server_uid().to_owned(), dir: self.context.server_dir.clone() };
        let job = Job { place, job: None, runs: started.len(), mark: Some(mark.text().to_owned()) };
        self.home.begin(&job, &started)?;
        let submitted =
            session.submit_file(file, None, &mut |warnings| self.context.printer.advise(warnings, false));
        let SubmittedFile { job: id, .. } =
            submitted.map_err(|NotSubmitted { error, .. }| HqError::from(error))?;
        self.home.note(&Job { job: Some(id.0), ..job })?;
        self.warn_of_unfit(&mut session, id, &started)?;
        if self.args.place.wait || self.args.place.progress {
            self.context.hint_of_workers(&mut session);
            return self.wait(&mut session, (id, &mark), &started, plan);
        }
        self.context.hint_of_workers(&mut session);
        let text = format!("Job {id} makes the files: {}\n", counted(started.len() as u64, "run"));
        let document = serde_json::json!({ "id": id.0, "runs": started.len() });
        self.context.printer.print(&mut Shown::of(text, document).quiet(format!("{id}\n")))?;
        Ok(u8::from(!plan.missing.is_empty()))
    }

    // What waits for a worker that cannot come waits for ever.
    fn warn_of_unfit(&self, session: &mut Session, job: JobId, runs: &[Started]) -> Result<(), HqError> {
        let ClientResponse::ExplainedJobs(jobs) =
            session.request(ClientRequest::ExplainJobs { jobs: only([job]) })?
        else {
            return unexpected();
        };
        for group in jobs.iter().flat_map(|job| &job.groups) {
            let reason = group.reasons.iter().find(|reason| reason.kind == ReasonKind::Unfit);
            let run = group.ids.iter().next().and_then(|task| runs.get(task.0 as usize));
            let (Some(reason), Some(run)) = (reason, run) else { continue };
            let others = match group.ids.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let name = text::one_line(&run.name);
            self.context.printer.warn(&[format!("{name}{others}: {}", reason.text)]);
        }
        Ok(())
    }

    fn wait(
        &self,
        session: &mut Session,
        (job, mark): (JobId, &Mark),
        runs: &[Started],
        plan: &Plan,
    ) -> Result<u8, HqError> {
        session.wait_for_lost_server(None);
        let ended = follow_to_the_end(self.context, session, job, runs).map_err(|error| {
            let hint = error.hint.clone();
            match hint {
                Some(_) => error,
                None => error.hint("`hq make --follow` follows it again"),
            }
        })?;
        // The server forgets the job some day.
        self.home.say_last(&LastRun { failed: ended.failed.clone(), mark: Some(mark.text().to_owned()) })?;
        Ok(ended.exit().max(u8::from(!plan.missing.is_empty())))
    }

    fn run(&self, plan: &Plan, launcher: Launcher) -> Result<u8, HqError> {
        let nodes = if self.args.place.here { None } else { nodes_of_batch_job() };
        let (cpus, resources) = (&self.args.place.cpus, &self.args.place.resources);
        let (config, worker_args) = worker::config_with(cpus.as_ref(), resources)?;
        let node = node_of(&config);
        let Submission { file, runs, started } = self.submission(plan, node, None)?;
        let count = nodes.as_ref().map_or(1, |nodes| nodes.others + u32::from(nodes.is_here));
        for submit in &file.submits {
            check_fits(&config.resources, count, &submit.spec.requests)
                .map_err(|error| in_rule(error, plan, &runs, submit))?;
        }
        // From here on a signal waits until there is something that can be ended in order.
        let held = HeldSignals::hold()?;
        let options =
            ClusterOptions { state: Some(self.home.state()), jobs_before: 0, is_shared: nodes.is_some() };
        let mut cluster = Cluster::start(options)?;
        let mut session = Session::connect_to(cluster.access().clone())?;
        let job = Job { place: Place::Here, job: None, runs: started.len(), mark: None };
        self.home.begin(&job, &started)?;
        let submitted = session.submit_file(file, None, &mut |_| {});
        let SubmittedFile { job: id, .. } =
            submitted.map_err(|NotSubmitted { error, .. }| HqError::from(error))?;
        self.home.note(&Job { job: Some(id.0), ..job })?;
        let workers = Workers {
            launcher,
            config,
            nodes,
            worker_args: worker_args.iter().map(OsString::from).collect(),
        };
        cluster.start_workers(workers)?;
        let mut signals = session.enter(Signals::catch)?;
        held.release()?;
        let begin = Instant::now();
        let (ends, signal) =
            match self.follow(&mut cluster, &mut session, &mut signals, (id, plan, &runs, &started))? {
                Followed::Over(ends, signal) if ends.are_good() && signal.is_none() => (ends, signal),
                // More is asked, and signals are not heard meanwhile: so it is to be answered.
                Followed::Over(ends, signal) => match until_written(&mut session, &mut signals, signal)? {
                    Written::Yes(signal) => (ends, signal),
                    Written::NotInTime(signal) => {
                        return Err(self.end_unwritten(cluster, session, signals, signal));
                    }
                },
                Followed::Unwritten(signal) => {
                    return Err(self.end_unwritten(cluster, session, signals, signal));
                }
            };
        let mut ended = ends.ended(&mut session, id, &started, begin)?;
        let signal = cluster.end_workers(&mut session, &mut signals, signal)?;
        if ended.exit() != 0 {
            // Nodes that were lost have moved nothing.
            clear(self.context, &mut session, &Ran::Here(id), &started)?;
        }
        drop(session);
        cluster.stop()?;
        self.home.end()?;
        end_quietly_when_nobody_reads();
        self.home.say_last(&LastRun { failed: ended.failed.clone(), mark: None })?;
        ended.missing = plan.missing.len();
        self.context.printer.print(&mut ended)?;
        if !plan.missing.is_empty() {
            self.context.printer.error(&refused(&plan.missing));
        }
        Ok(signal.map_or(ended.exit(), |signal| EXIT_SIGNAL + signal))
    }

    // Tasks have their grace, and the next one finds the job as it was when the journal could be written last.
    fn end_unwritten(
        &self,
        mut cluster: Cluster,
        mut session: Session,
        mut signals: Signals,
        signal: u8,
    ) -> HqError {
        if let Err(error) = cluster.end_without_server(&mut session, &mut signals, (signal, END_TIME)) {
            return error;
        }
        let state = self.home.path().display();
        HqError::interrupted(signal, format!("Interrupted; the journal in {state} cannot be written")).hint(
            "the next `hq make` moves aside what was left half done, and may make again what was made last",
        )
    }

    // Says how the runs go, and remembers how they ended.
    fn follow(
        &self,
        cluster: &mut Cluster,
        session: &mut Session,
        signals: &mut Signals,
        (job, plan, runs, started): (JobId, &Plan, &[RunId], &[Started]),
    ) -> Result<Followed, HqError> {
        let run_of = |task: TaskId| plan.run(runs[task.0 as usize]);
        let ends = RefCell::new(Ends::default());
        let mut first = None;
        let is_anything_known = self.home.knows_anything();
        let mut hear = |task: TaskId, ending: &Ending| -> Result<&'static str, HqError> {
            let run = run_of(task);
            let mut is_unchanged = false;
            if *ending == Ending::Completed {
                let disk = Disk::default();
                if matches!(run.state, RunState::Perhaps(_)) {
                    is_unchanged = Known::is_unchanged(run, plan, &disk, &Sha256)?;
                }
                // One that did not begin took nothing: its inputs are what they were.
                let lines = match is_unchanged {
                    true => Known::ended(run, plan, &disk, &Sha256)?,
                    false => ended_lines(run, plan, is_anything_known)?,
                };
                self.home.remember(&lines)?;
            }
            Ok(ends.borrow_mut().hear(task, ending, is_unchanged))
        };
        enum Event {
            Signal(u8),
            WorkerEnded(HqError),
            NotCanceled,
        }
        let access = cluster.access().clone();
        let (asked, is_unwritten) = (Cell::new(None), Cell::new(false));
        let (canceled, cancels) = watch::channel(false);
        let next = async || {
            tokio::select! {
                signal = signals.next() => Event::Signal(signal),
                end = cluster.worker_ended() => Event::WorkerEnded(end),
                () = goes_unanswered(asked.get(), cancels.clone()) => Event::NotCanceled,
            }
        };
        let act = |_: &mut Session, progress: &mut crate::progress::Progress, event| match event {
            Event::Signal(signal) if first.is_none() => {
                first = Some(signal);
                progress.end();
                self.context
                    .printer
                    .note("Canceling: running tasks are being ended; press Ctrl-C again to exit immediately");
                asked.set(Some(tokio::time::Instant::now()));
                cancel_aside(&access, job, canceled.clone())
            }
            Event::Signal(signal) => Err(interrupted_twice(signal)),
            Event::WorkerEnded(end) => Err(end),
            Event::NotCanceled => {
                is_unwritten.set(true);
                Err(HqError::failed("journal", "the job cannot be canceled"))
            }
        };
        let followed =
            Follower::new(job, started, self.context.printer).follow(session, &mut hear, next, act);
        match (followed, first) {
            (Err(_), Some(signal)) if is_unwritten.get() => Ok(Followed::Unwritten(signal)),
            (followed, first) => followed.map(|()| Followed::Over(ends.into_inner(), first)),
        }
    }
}

// Somebody else makes the files already: nothing is submitted.
fn join(
    context: &Context,
    args: &MakeArgs,
    GoesOn { job, runs, tasks }: &GoesOn,
    plan: &Plan,
) -> Result<u8, HqError> {
    end_quietly_when_nobody_reads();
    let its_runs = tasks.iter().filter_map(|task| runs.get(task.0 as usize));
    let texts: HashMap<&str, &str> = its_runs.map(|run| (run.name.as_str(), run.text.as_str())).collect();
    let is_other =
        |run: &&Run| texts.get(name_of(run).as_str()) != Some(&hex(&Sha256.of_text(run.text())).as_str());
    let other = plan.needed().find(is_other);
    if other.is_some() || !args.force.is_empty() {
        let what = match other {
            Some(run) if texts.contains_key(name_of(run).as_str()) => {
                format!("with a different script for {}", name_of(run))
            }
            Some(run) => format!("and {} is not among them", name_of(run)),
            None => "and --force would remake them".to_owned(),
        };
        return Err(HqError::failed("make-busy", format!("Job {job} is making files here, {what}")).hint(
            format!(
                "wait for it with `hq make --follow` or end it with `hq job cancel {job}`, then repeat this \
                 command"
            ),
        ));
    }
    let mut session = context.connect()?;
    if args.place.wait || args.place.progress {
        context.printer.note(&format!("Job {job} is already making the files"));
        return Ok(follow_to_the_end(context, &mut session, *job, runs)?.exit());
    }
    let text = format!("Job {job} is already making the files\n");
    let document = serde_json::json!({ "id": job.0, "runs": tasks.len() });
    context.printer.print(&mut Shown::of(text, document).quiet(format!("{job}\n")))?;
    Ok(0)
}

// How the runs went.
enum Followed {
    // All have ended: after this signal, if there was one.
    Over(Ends, Option<u8>),
    // After this signal they could not be canceled.
    Unwritten(u8),
}

fn node_of(config: &hq_model::worker::WorkerConfig) -> order::Node {
    let total = |name: &str| -> u32 {
        let pools = config.resources.pools.iter().filter(|pool| {
            pool.name == name || pool.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
        });
        let wholes: u64 = pools.map(|pool| pool.kind.total().0 / hq_model::Amount::whole(1).0).sum();
        u32::try_from(wholes).unwrap_or(u32::MAX)
    };
    order::Node { cpus: total(hq_model::request::CPUS), gpus: total(hq_model::request::GPUS) }
}

// Whose request it is that does not fit.
fn in_rule(error: HqError, plan: &Plan, runs: &[RunId], submit: &hq_model::Submit) -> HqError {
    let hq_model::job::TaskIds::Given(ids) = &submit.ids else { return error };
    let run = ids.first().and_then(|task| runs.get(task.0 as usize)).map(|run| plan.run(*run));
    match run {
        Some(run) => HqError { text: format!("{}: rule `{}`: {}", run.place, run.rule, error.text), ..error },
        None => error,
    }
}
