//! `hq pull run`: a program for each task, until the bag is over.
//!
//! Each program has a slot: a thread with a line to the relay. The next slot begins when the last one that had nothing gets a task,
//! so there are never more than one that nothing came for, whatever `-j` allows.

mod held;
mod program;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::{counted, counted_are};
use rustix::process::{Pid, Rlimit, Signal, kill_process_group};
use serde_json::{Value, json};

use self::held::{Attempt, Held};
use self::program::{Fault, execute};
use super::talk::{NO_RELAY, has_gone};
use super::{Context, Done, Line, bag, is_for_pullers, worker};
use crate::cli::pull::RunArgs;
use crate::error::HqError;
use crate::open_files;
use crate::render::Printer;
use crate::report::Pulled;
use crate::signals::Signals;

/// What is taken is given back by itself when this process says nothing for so long.
const LEASE: Duration = Duration::from_secs(60);
/// So often it says that what it has is being worked on, and hears what is not wanted any more.
const LOOK: Duration = Duration::from_secs(5);
/// The same when it has died, with its connections.
const GRACE: Duration = Duration::from_secs(10);
/// One question for tasks waits so long: a server that is away for longer is lost. A relay is waited for as long.
const WAIT: Duration = Duration::from_secs(20);
/// Between attempts to reach another relay.
const RELAY_PAUSE: Duration = Duration::from_millis(200);
/// Open files of a slot, with those of its program while it starts, and of all else here.
const FILES_EACH: u64 = 6;
/// As above.
const FILES_RESERVED: u64 = 16;
/// Between questions to a server that cannot keep changes.
const ROOM_PAUSE: Duration = Duration::from_secs(1);
/// The code of what it answers.
const READ_ONLY: &str = "read-only";

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    finished: u64,
    // Those whose end nobody wanted to hear any more.
    over: u64,
}

// What happens to slots.
enum News {
    Ended(Result<Counts, HqError>),
    Signal(u8),
}

// What all threads share.
struct Crew {
    args: RunArgs,
    printer: Printer,
    server_dir: PathBuf,
    label: String,
    // What a program may have open, where this command may have more.
    files: Rlimit,
    tell: Sender<News>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Held,
    // Tasks that have failed, and have not finished since, as far as is known here.
    failed: HashSet<String>,
    // Slots: all, those that have taken something, and those that ask.
    slots: u32,
    busy: u32,
    asking: u32,
    // No further slot can be had.
    is_complete: bool,
    // A slot has failed: what runs is the last.
    has_failed: bool,
    // Who looks has been told that the server cannot keep changes.
    is_read_only: bool,
    // Or that nothing can be taken.
    is_waiting: bool,
    // Nothing is begun any more.
    stopped_by: Option<u8>,
}

impl State {
    fn is_ending(&self) -> bool {
        self.has_failed || self.stopped_by.is_some()
    }

    // A slot ends, which asks until then.
    fn leave(&mut self) {
        self.slots -= 1;
        self.asking = self.asking.saturating_sub(1);
    }
}

impl Crew {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // A line of one who takes tasks.
    fn open(&self) -> Result<Line, HqError> {
        let (lease, grace) = (LEASE.as_secs_f64(), GRACE.as_secs_f64());
        let mut line = Line::open_in(&self.server_dir)?;
        line.ask(&json!({"hello": {"label": self.label, "lease": lease, "grace": grace, "tags": self.args.tag.tags}}))?;
        self.state().held.found(line.relay());
        Ok(line)
    }

    // What a relay gave that has gone is given to others: nothing of it may run on beside them.
    fn lose(&self, relay: Pid) {
        let mut state = self.state();
        let Some((count, programs)) = state.held.lose(relay) else { return };
        for program in programs {
            // One that has just ended has not been waited for: its number is nobody else's.
            let _ = kill_process_group(program, Signal::KILL);
        }
        drop(state);
        let what = match count {
            0 => String::new(),
            count => format!(": the tasks taken from it ({}) go to others", counted(count as u64, "task")),
        };
        self.printer.note(&format!("The relay is gone{what}; looking for another one"));
    }

    // A question was answered with nothing, and none of the slots has anything.
    fn say_that_nothing_comes(&self) {
        let mut state = self.state();
        if state.busy == 0 && !std::mem::replace(&mut state.is_waiting, true) {
            drop(state);
            self.printer.note(
                "Waiting: there is nothing to take, because others have the rest, or it waits for something; `hq pull \
                 status` shows who has tasks",
            );
        }
    }

    // A slot that asks, unless there are as many as there may be.
    fn reserve(&self) -> bool {
        // Slots that hold all files would leave none for programs.
        let files = self.files.maximum.unwrap_or(u64::MAX);
        let most = (files.saturating_sub(FILES_RESERVED) / FILES_EACH).max(1);
        if u64::from(self.state().slots) >= most && u64::from(self.args.jobs) > most {
            self.stay_with(most, &format!("it may have {files} open files (`ulimit -Hn`)"));
        }
        let mut state = self.state();
        let is_wanted = state.asking == 0 && state.slots < self.args.jobs;
        if !is_wanted || state.is_complete || state.is_ending() {
            return false;
        }
        (state.slots, state.asking) = (state.slots + 1, state.asking + 1);
        true
    }

    // One that was reserved. Without a line it makes one for itself.
    fn start_slot(self: &Arc<Self>, line: Option<Line>) -> std::io::Result<()> {
        let crew = Arc::clone(self);
        start_thread(move || {
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| match line {
                Some(line) => work(line, &crew),
                None => crew.open().map_or_else(|error| Ok(crew.stay(&error)), |line| work(line, &crew)),
            }));
            let died = |_| Err(HqError::failed("internal", "A thread of this command has died."));
            // Where nobody hears it, the command has ended.
            let _ = crew.tell.send(News::Ended(ended.unwrap_or_else(died)));
        })
    }

    // A slot has got something: the next one asks, so that whatever else is there is worked on beside it.
    fn grow(self: &Arc<Self>) {
        if self.reserve()
            && let Err(error) = self.start_slot(None)
        {
            self.stay(&error.into());
            self.state().leave();
        }
    }

    // Those that there are go on without one more.
    fn stay(&self, error: &HqError) -> Counts {
        // When the relay has gone, all find that out by themselves.
        if error.code != NO_RELAY {
            let slots = self.state().slots;
            self.stay_with(u64::from(slots) - 1, &error.text);
        }
        Counts::default()
    }

    fn stay_with(&self, programs: u64, why: &str) {
        if !std::mem::replace(&mut self.state().is_complete, true) {
            let programs = counted(programs, "program");
            self.printer.note(&format!("At most {programs} can run at once here: {why}"));
        }
    }

    // Asks until the server can keep what it is told, which counts once however often it is told.
    fn ask_patiently(&self, line: &mut Line, request: &Value) -> Result<Value, HqError> {
        loop {
            match line.ask(request) {
                Err(error) if error.code == READ_ONLY && self.state().stopped_by.is_none() => {
                    self.wait_for_room(&error);
                }
                answer => return answer,
            }
        }
    }

    fn wait_for_room(&self, error: &HqError) {
        let is_told = std::mem::replace(&mut self.state().is_read_only, true);
        if !is_told {
            self.printer.note(&format!("This command waits: {}", error.text));
        }
        std::thread::sleep(ROOM_PAUSE);
    }

    fn end_over(&self, tasks: Vec<Attempt>) {
        let mut state = self.state();
        for (program, signal) in state.held.end_over(tasks) {
            // As above.
            let _ = kill_process_group(program, signal);
        }
    }

    // The first signal lets the programs end; each has a process group of its own, so that a terminal tells them nothing either.
    fn stop(&self, signal: u8) {
        let mut state = self.state();
        if state.stopped_by.replace(signal).is_none() {
            let programs = counted_are(state.held.programs().len() as u64, "program", "finishes", "finish");
            self.printer.note(&format!(
                "Signal {signal}: no more tasks are started, and {programs} first; a second signal kills running \
                 programs"
            ));
            return;
        }
        // Their tasks are given back: nothing may run on beside those who take them next.
        for program in state.held.programs() {
            // As above.
            let _ = kill_process_group(program, Signal::KILL);
        }
    }
}

pub(super) fn run(context: &Context, args: RunArgs) -> Result<Done, HqError> {
    // An option with its value in one word, as in `-j4`, is taken for the program.
    let first = args.command[0].to_string_lossy();
    if first.starts_with('-') {
        let text =
            format!("`{first}` is not a program; give option values as separate words, such as `-j 4`");
        return Err(HqError::usage(text));
    }
    let label = format!("{}.{}", worker(&args.worker), std::process::id());
    let (tell, news) = channel();
    let crew = Arc::new(Crew {
        args,
        printer: context.printer,
        server_dir: context.server_dir.clone(),
        label: label.clone(),
        files: open_files::raise(),
        tell: tell.clone(),
        state: Mutex::default(),
    });
    {
        let (line, crew) = (crew.open()?, Arc::clone(&crew));
        start_thread(move || tend(line, &crew))?;
    }
    tell_signals(tell)?;
    let line = crew.open()?;
    crew.reserve();
    crew.start_slot(Some(line))?;
    let ended = hear(&crew, &news);
    let left = match &ended {
        Ok(_) => 0,
        // Others need not wait until the lease is over; where that cannot be said, they do.
        Err(_) => Line::to_existing(context)
            .and_then(|mut line| line.ask(&json!({"leave": {"label": label}})).ok())
            .and_then(|answer| answer["left"]["returned"].as_u64())
            .unwrap_or_default(),
    };
    let sum = match (ended, crew.state().stopped_by) {
        (Ok(sum), _) => sum,
        (Err(_), Some(signal)) => {
            let tasks = counted_are(left, "task", "was", "were");
            return Err(HqError::interrupted(
                signal,
                format!("Stopped by signal {signal}: {tasks} given back."),
            ));
        }
        (Err(error), None) => return Err(error),
    };
    let failed = crew.state().failed.len();
    let is_well = failed == 0 && sum.over == 0;
    let answer = json!({"finished": sum.finished, "failed": failed, "over": sum.over});
    Ok(Done::ok(Pulled { answer, names_only: false })?.exit(if is_well { 0 } else { EXIT_FAILED }))
}

// Until all slots have ended, or, after a signal, nothing is being worked on; the second one waits for nothing.
fn hear(crew: &Crew, news: &Receiver<News>) -> Result<Counts, HqError> {
    let mut sum = Counts::default();
    let mut first_error = None;
    loop {
        match news.recv() {
            Ok(News::Ended(ended)) => {
                crew.state().leave();
                match ended {
                    Ok(counts) => {
                        sum.finished += counts.finished;
                        sum.over += counts.over;
                    }
                    Err(error) => {
                        // Others would come to the same end, and would wait for what this one has.
                        crew.state().has_failed = true;
                        first_error.get_or_insert(error);
                    }
                }
            }
            Ok(News::Signal(signal)) => {
                let is_second = crew.state().stopped_by.is_some();
                crew.stop(signal);
                if is_second {
                    return Err(stopped());
                }
            }
            Err(_) => return Err(stopped()),
        }
        let state = crew.state();
        if state.is_ending() && state.busy == 0 {
            return Err(first_error.unwrap_or_else(stopped));
        }
        if state.slots == 0 {
            return first_error.map_or(Ok(sum), Err);
        }
    }
}

fn start_thread(act: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(act).map(drop)
}

fn stopped() -> HqError {
    HqError::failed("interrupted", "Stopped by a signal.")
}

// Signals of this process become news.
fn tell_signals(tell: Sender<News>) -> Result<(), HqError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch()?
    };
    start_thread(move || {
        runtime.block_on(async { while tell.send(News::Signal(signals.next().await)).is_ok() {} });
    })?;
    Ok(())
}

// Says again and again that what is taken is being worked on, and looks whether the relay is there that gave it.
fn tend(mut line: Line, crew: &Crew) {
    loop {
        if !line.ends_within(LOOK) && extend(&mut line, crew) {
            continue;
        }
        crew.lose(line.relay());
        match again(crew) {
            Ok(another) => line = another,
            // Whoever works sees the same.
            Err(_) => return,
        }
    }
}

// False when the relay has gone.
fn extend(line: &mut Line, crew: &Crew) -> bool {
    let relay = line.relay();
    let mut tasks = crew.state().held.of(relay);
    if tasks.is_empty() {
        return true;
    }
    let said: Vec<Value> = tasks.iter().map(Attempt::item).collect();
    let answer = line.ask(&json!({"extend": {"tasks": said}}));
    let items = answer.as_ref().ok().and_then(|answer| answer["done"].as_array());
    let mut items = items.into_iter().flatten();
    tasks.retain(|_| items.next().is_some_and(|item| item["error"].is_string()));
    crew.end_over(tasks);
    !is_gone(&answer)
}

fn is_gone<T>(result: &Result<T, HqError>) -> bool {
    result.as_ref().is_err_and(|error| error.code == NO_RELAY)
}

// A line to another relay, after one has gone. Not to one that would only find out that the server is being stopped.
fn again(crew: &Crew) -> Result<Line, HqError> {
    let begin = Instant::now();
    loop {
        if crew.state().stopped_by.is_some() {
            return Err(stopped());
        }
        let error = match look_for_server(crew).and_then(|()| crew.open()) {
            Ok(line) => return Ok(line),
            Err(error) => error,
        };
        // Without an access file the server has ended.
        if matches!(error.code, "no-access" | "stopping") || begin.elapsed() >= WAIT {
            return Err(error);
        }
        std::thread::sleep(RELAY_PAUSE);
    }
}

fn look_for_server(crew: &Crew) -> Result<(), HqError> {
    // Who may only take tasks is told by the relay.
    if is_for_pullers(&crew.server_dir)? {
        return Ok(());
    }
    match Session::connect(&crew.server_dir)?.request(ClientRequest::ServerInfo)? {
        ClientResponse::ServerInfo(info) if info.stop_waits.is_some() => {
            Err(HqError { exit: EXIT_NO_SERVER, ..HqError::failed("stopping", "The server is stopping.") })
        }
        _ => Ok(()),
    }
}

// Takes blocks of tasks, and says with the next question how they ended.
fn work(mut line: Line, crew: &Arc<Crew>) -> Result<Counts, HqError> {
    let mut counts = Counts::default();
    let mut ends = Ends::default();
    let mut last = Instant::now();
    loop {
        match round(&mut line, crew, (&mut ends, &mut counts), &mut last) {
            Ok(true) => return Ok(counts),
            Ok(false) => {}
            Err(error) if error.code == READ_ONLY && crew.state().stopped_by.is_none() => {
                crew.wait_for_room(&error);
                last = Instant::now();
            }
            Err(error) if error.code == NO_RELAY => {
                crew.lose(line.relay());
                line = again(crew)?;
                (ends, last) = (Ends::default(), Instant::now());
            }
            Err(error) => return Err(error),
        }
    }
}

// How tasks ended of which nobody knows yet.
#[derive(Default)]
struct Ends {
    said: Vec<Value>,
    // In the same order, whether they have finished.
    finished: Vec<(String, bool)>,
    over: u64,
}

impl Ends {
    // Somebody knows them, but for those that the answer says nobody waits for.
    fn count(&mut self, crew: &Crew, answer: &Value, counts: &mut Counts) {
        counts.over += std::mem::take(&mut self.over);
        let mut state = crew.state();
        for (at, (task, has_finished)) in self.finished.drain(..).enumerate() {
            if answer["done"][at]["error"].is_string() {
                counts.over += 1;
            } else if has_finished {
                counts.finished += 1;
                state.failed.remove(&task);
            } else {
                state.failed.insert(task);
            }
        }
    }
}

// One question, and the work on what it gives. True when there is no more to do.
fn round(
    line: &mut Line,
    crew: &Arc<Crew>,
    (ends, counts): (&mut Ends, &mut Counts),
    last: &mut Instant,
) -> Result<bool, HqError> {
    let args = &crew.args;
    let left = args.patience.map_or(WAIT, |patience| patience.saturating_sub(last.elapsed()).min(WAIT));
    let mut request = json!({"next": {
        "done": std::mem::take(&mut ends.said),
        "take": args.block,
        "wait": left.as_secs_f64(),
        "bags": [bag(&args.bag)],
    }});
    let mut answer = line.ask(&request).inspect_err(|_| {
        // It was not heard.
        ends.said = request["next"]["done"].as_array_mut().map(std::mem::take).unwrap_or_default();
    })?;
    ends.count(crew, &answer, counts);
    let tasks = answer["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if tasks.is_empty() {
        let is_patient = args.patience.is_none_or(|patience| last.elapsed() < patience);
        if answer["state"] != "over" && is_patient {
            crew.say_that_nothing_comes();
            return Ok(false);
        }
        // What was said must be on the server's disk before this is over.
        crew.ask_patiently(line, &json!({"sync": {}}))?;
        return Ok(true);
    }
    let relay = line.relay();
    {
        let mut state = crew.state();
        if state.is_ending() {
            return Err(stopped());
        }
        (state.busy, state.asking) = (state.busy + 1, state.asking - 1);
        state.held.take(&tasks, relay);
        (state.is_read_only, state.is_waiting) = (false, false);
    }
    crew.grow();
    let worked = work_on(crew, (&tasks, relay), ends);
    let is_stopped = crew.state().is_ending();
    let told = match (worked.is_err() && !is_gone(&worked)) || is_stopped {
        true if !ends.said.is_empty() => tell(line, crew, (ends, counts)),
        _ => Ok(()),
    };
    {
        let mut state = crew.state();
        (state.busy, state.asking) = (state.busy - 1, state.asking + 1);
    }
    told.and(worked)?;
    if is_stopped {
        return Err(stopped());
    }
    *last = Instant::now();
    Ok(false)
}

// Says how tasks ended, and waits until that is on the server's disk.
fn tell(line: &mut Line, crew: &Crew, (ends, counts): (&mut Ends, &mut Counts)) -> Result<(), HqError> {
    let complete = json!({"complete": {"tasks": std::mem::take(&mut ends.said)}});
    let answer = crew.ask_patiently(line, &complete)?;
    ends.count(crew, &answer, counts);
    crew.ask_patiently(line, &json!({"sync": {}})).map(|_| ())
}

fn key(task: &Value, name: &str) -> String {
    task[name].as_str().unwrap_or_default().to_owned()
}

// A block of tasks. Those that are not in `ends` afterwards are to be given back.
fn work_on(crew: &Crew, (tasks, relay): (&[Value], Pid), ends: &mut Ends) -> Result<(), HqError> {
    for task in tasks {
        let attempt = Attempt::of(task);
        let mut end = attempt.item();
        match execute(crew, task, relay) {
            Ok(result) => {
                ends.finished.push((key(task, "id"), true));
                match result.map(String::from_utf8) {
                    Some(Ok(text)) => end["result"] = json!(text),
                    Some(Err(bytes)) => end["result_base64"] = json!(hq_pull::base64(bytes.as_bytes())),
                    None => {}
                }
            }
            Err(Fault::Failed(message)) => {
                ends.finished.push((key(task, "id"), false));
                end["failed"] = json!(message);
            }
            // That is no fault of the task, and would be the same with all others.
            Err(Fault::NotStarted(message)) => return Err(HqError::failed("bad-input", message)),
            Err(Fault::Interrupted) => return Err(stopped()),
            Err(Fault::Lost) => return Err(has_gone()),
            Err(Fault::Over) => {
                crew.state().held.let_go(&attempt);
                ends.over += 1;
                continue;
            }
        }
        crew.state().held.let_go(&attempt);
        ends.said.push(end);
    }
    Ok(())
}
