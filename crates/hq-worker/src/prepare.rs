//! Turns tasks into orders for the launcher.
//!
//! What the tasks of a submit share is worked out once per template and variant; a task then costs a few
//! copies into buffers that are used again.

mod zygotes;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use hq_core::output_messages::ReadOrder;
use hq_core::worker::Start;
use hq_core::worker_messages::Template;
use hq_model::entry::is_of_entry;
use hq_model::object::BROADCAST_DIR;
use hq_model::paths::{PathTemplates, Place, TaskPaths};
use hq_model::pattern::{KNOWN, Pattern};
use hq_model::task::Pin;
use hq_model::{
    Body, ByteString, Compression, Entry, Instance, OutputSink, Stream, TaskId, TaskRef, TaskSpec, WorkerId,
};

use crate::declared::{Declared, Promised, Writers};
use crate::enforce::Limits;
use crate::environment::{Node, VariantEnvironment};
use crate::launcher::text::Subject;
use crate::launcher::{Order, Slot, memory_file};
use crate::mpirun;
use crate::objects::{self, Key};
use crate::ranks::AskStart;
use crate::results::ResultFile;
use crate::runners;
use crate::sinks::{self, Sink};

/// What stands for the program of the worker itself at the beginning of a command.
const OWN_PROGRAM: &[u8] = b"%{HQ}";

/// What the tasks of one template share.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) template: Arc<Template>,
    paths: PathTemplates,
    args: Vec<Text>,
    /// All arguments, NUL-terminated, when none has placeholders.
    args_block: Option<ByteString>,
    /// Where the program is looked for, when that does not differ from task to task.
    programs_block: Option<ByteString>,
    variants: Vec<VariantEnvironment>,
    stdin: Option<Arc<OwnedFd>>,
    /// Placeholders that stand for something of the entry of each task.
    names_of_entry: Vec<String>,
    has_broadcasts: bool,
}

/// Buffers for one order, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    programs: ByteString,
    args: ByteString,
    pub(crate) env: ByteString,
    dropped: Vec<u32>,
    cpus: Vec<u32>,
    pub(crate) cwd: ByteString,
    pub(crate) task_dir: ByteString,
    broadcast_dir: ByteString,
    pub(crate) stdout: ByteString,
    pub(crate) stderr: ByteString,
    /// Of the next process only: the variable by which the ranks of a function find their worker; else empty.
    pub(crate) world: ByteString,
    /// Of the next task only: what it opens for channels that go to a stream; else empty.
    pub(crate) streams: [ByteString; 2],
}

impl Buffers {
    /// What an error text needs to know of the process whose order was filled in last.
    pub(crate) fn subject_of_process(&self) -> Subject {
        Subject {
            program: strings(&self.args).next().unwrap_or_default().to_vec(),
            candidates: strings(&self.programs).map(|path| against(&self.cwd, path)).collect(),
            cwd: self.cwd.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            cpus: self.cpus.clone(),
            ..Subject::default()
        }
    }
}

/// A text of the template.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Plain(ByteString),
    Varying(Pattern),
}

impl Text {
    pub(crate) fn new(text: &[u8]) -> Text {
        let pattern = Pattern::new(text);
        if pattern.names().any(|name| KNOWN.contains(&name) || name == BROADCAST_DIR || is_of_entry(name)) {
            Text::Varying(pattern)
        } else {
            Text::Plain(text.into())
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Text::Plain(_))
    }

    pub(crate) fn append(&self, out: &mut ByteString, values: &Values<'_>) {
        match self {
            Text::Plain(text) => out.extend_from_slice(text),
            Text::Varying(pattern) => pattern.expand_into(out, &|name, out| values.append(name, out)),
        }
    }
}

/// What placeholders stand for in one task.
pub(crate) struct Values<'a> {
    pub(crate) start: &'a Start,
    pub(crate) server_uid: &'a str,
    pub(crate) cwd: &'a [u8],
    /// Empty where the task has no broadcasts.
    pub(crate) broadcast_dir: &'a [u8],
}

impl Values<'_> {
    fn append(&self, name: &str, out: &mut ByteString) -> bool {
        let task = self.start.task;
        match name {
            "SERVER_UID" => out.extend_from_slice(self.server_uid.as_bytes()),
            "JOB_ID" => put_number(out, task.job.0),
            "TASK_ID" => put_number(out, task.task.0),
            "INSTANCE_ID" => put_number(out, self.start.instance.0),
            "SUBMIT_DIR" => out.extend_from_slice(&self.start.template.submit_dir),
            "CWD" => out.extend_from_slice(self.cwd),
            BROADCAST_DIR if !self.broadcast_dir.is_empty() => out.extend_from_slice(self.broadcast_dir),
            _ => return self.start.entry.as_ref().is_some_and(|entry| entry.append(name, out)),
        }
        true
    }
}

/// Appends decimal digits.
pub(crate) fn put_number(out: &mut ByteString, number: u32) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number}");
}

impl Prepared {
    /// Works out what does not differ from task to task.
    ///
    /// # Errors
    /// The text for people when such tasks cannot be started here at all.
    pub(crate) fn new(template: &Arc<Template>, node: &Node) -> Result<Prepared, String> {
        let spec = &template.spec;
        check_strings(spec, &template.submit_dir)?;
        let stdin = if spec.stdin.is_empty() {
            None
        } else {
            let file = memory_file(&spec.stdin);
            Some(Arc::new(file.map_err(|e| format!("cannot keep the captured standard input: {e}"))?))
        };
        let args = match &spec.body {
            // A generator or a reducer, which this very program looks after.
            Body::Program { args } if args[0] == OWN_PROGRAM => {
                [&node.hq].into_iter().chain(&args[1..]).cloned().collect()
            }
            Body::Program { args } => mpirun::expand(spec, args, &node.hq),
            Body::Pulled | Body::Given => return Err("only relays have pulled tasks".to_owned()),
            Body::Function(function) => {
                let program = if spec.starts_ranks() { runners::RANKS_BOOTSTRAP } else { runners::BOOTSTRAP };
                let words = [&b"-c"[..], program].map(<[u8]>::to_vec);
                function.interpreter.iter().cloned().chain(words).collect()
            }
        };
        let args: Vec<Text> = args.iter().map(|arg| Text::new(arg)).collect();
        let variants =
            (0..spec.requests.len().max(1)).map(|v| VariantEnvironment::new(spec, template, v, node));
        let mut prepared = Prepared {
            template: template.clone(),
            paths: PathTemplates::new(spec, &template.submit_dir, &node.server_uid),
            args_block: None,
            programs_block: None,
            variants: variants.collect(),
            stdin,
            args,
            names_of_entry: spec.names_of_entry(),
            has_broadcasts: spec.has_broadcasts(),
        };
        let plain = |text: &Text| match text {
            Text::Plain(text) => Some(text.clone()),
            Text::Varying(_) => None,
        };
        if prepared.args.iter().all(Text::is_plain) {
            let block = prepared.args.iter().filter_map(plain).flat_map(|arg| [arg, vec![0]].concat());
            prepared.args_block = Some(block.collect());
        }
        if let (Some(Some(program)), Some(path)) = (prepared.args.first().map(plain), search_path(spec, node))
        {
            let mut block = ByteString::new();
            append_candidates(&program, &path, &mut block);
            prepared.programs_block = Some(block);
        }
        Ok(prepared)
    }

    /// Appends the variables of each rank of a function.
    pub(crate) fn append_ranks(&self, start: &Start, node: &Node, out: &mut Vec<ByteString>) {
        self.variant(start).append_ranks(start, node, out);
    }

    /// True when a task has a private directory: programs on several nodes always have.
    pub(crate) fn has_task_dir(&self, start: &Start) -> bool {
        let spec = &self.template.spec;
        spec.task_dir || !start.nodes.is_empty() && spec.body.function().is_none()
    }

    /// True when something is to be removed or read after such a task has ended.
    pub(crate) fn has_aftermath(&self, is_success: bool) -> bool {
        !is_success || self.template.spec.has_aftermath()
    }

    /// Fills in the order for one task.
    ///
    /// # Errors
    /// The text for people when it cannot be started.
    pub(crate) fn order<'a>(
        &'a self,
        (slot, after): (Slot, Option<Slot>),
        start: &Start,
        node: &Node,
        limits: &'a Limits,
        buffers: &'a mut Buffers,
    ) -> Result<(Order<'a>, Option<&'a Arc<OwnedFd>>), String> {
        self.fill(start, node, buffers)?;
        if limits.is_bound && buffers.cpus.is_empty() && node.cpus_of(start, &mut buffers.cpus).is_err() {
            // Labels that are no CPU numbers: there is nothing to bind to.
            buffers.cpus.clear();
        }
        let variant = self.variant(start);
        let order = Order {
            slot,
            after,
            programs: self.programs_block.as_deref().unwrap_or(&buffers.programs),
            args: self.args_block.as_deref().unwrap_or(&buffers.args),
            env: &buffers.env,
            env_dropped: &variant.dropped,
            cwd: &buffers.cwd,
            task_dir: &buffers.task_dir,
            stdout: &buffers.stdout,
            stderr: &buffers.stderr,
            cpus: &buffers.cpus,
            groups: &limits.groups,
            memory_bytes: limits.memory_bytes,
            has_stdin: self.stdin.is_some(),
            is_stdin_socket: false,
            is_forked: false,
        };
        Ok((order, self.stdin.as_ref()))
    }

    /// Fills in the order for a process of a task on several nodes. Its outputs go to these paths.
    ///
    /// # Errors
    /// The text for people when it cannot be started.
    pub(crate) fn process_order<'a>(
        &'a self,
        slot: Slot,
        start: &Start,
        asked: &AskStart,
        [stdout, stderr]: &[String; 2],
        node: &'a Node,
        buffers: &'a mut Buffers,
    ) -> Result<(Order<'a>, Option<&'a Arc<OwnedFd>>), String> {
        let process = &asked.start;
        let rank = process.rank;
        let ranks = match rank {
            Some(rank) => start.ranks.get(rank.local as usize).map_or(&[][..], std::slice::from_ref),
            None => &start.ranks,
        };
        buffers.env.clear();
        let own = self.variant(start).process_variables(start, asked, node);
        for variable in &process.env {
            let name = variable_name(variable);
            let is_of_node = strings(&own).any(|own| variable_name(own) == name);
            if !is_of_node && !is_of_first_node(name, start) {
                buffers.env.extend_from_slice(variable);
                buffers.env.push(0);
            }
        }
        buffers.env.extend_from_slice(&own);
        buffers.args.clear();
        for arg in &process.args {
            buffers.args.extend_from_slice(arg);
            buffers.args.push(0);
        }
        buffers.programs.clear();
        let program = process.args.first().map_or(&b""[..], Vec::as_slice);
        let path = strings(&buffers.env).filter_map(|v| v.strip_prefix(b"PATH=")).next_back();
        append_candidates(program, path.unwrap_or(node.base_path()), &mut buffers.programs);
        buffers.cwd.clone_from(&process.cwd);
        buffers.task_dir.clear();
        buffers.stdout = stdout.clone().into_bytes();
        buffers.stderr = stderr.clone().into_bytes();
        buffers.cpus.clear();
        if self.template.spec.pin == Pin::Taskset {
            for rank in ranks {
                node.cpus_in(rank, &mut buffers.cpus)?;
            }
        }
        // As launchers do: only the first rank reads what was captured.
        let stdin = self.stdin.as_ref().filter(|_| rank.is_some_and(|rank| rank.rank == 0));
        let order = Order {
            slot,
            after: None,
            programs: &buffers.programs,
            args: &buffers.args,
            env: &buffers.env,
            env_dropped: node.all_of_base(),
            cwd: &buffers.cwd,
            task_dir: &buffers.task_dir,
            stdout: &buffers.stdout,
            stderr: &buffers.stderr,
            cpus: &buffers.cpus,
            groups: &[],
            memory_bytes: 0,
            has_stdin: stdin.is_some(),
            is_stdin_socket: false,
            is_forked: false,
        };
        Ok((order, stdin))
    }

    /// What an error text needs to know about a task that did not start.
    pub(crate) fn subject(&self, start: &Start, node: &Node) -> Subject {
        let mut buffers = Buffers::default();
        if self.fill(start, node, &mut buffers).is_err() {
            return Subject::default();
        }
        let programs = self.programs_block.as_deref().unwrap_or(&buffers.programs);
        let args = self.args_block.as_deref().unwrap_or(&buffers.args);
        let dropped = &self.variant(start).dropped;
        let base = node.base.iter().enumerate().filter(|(i, _)| dropped.binary_search(&(*i as u32)).is_err());
        let env: Vec<&[u8]> = base.map(|(_, v)| v.as_slice()).chain(strings(&buffers.env)).collect();
        // As the kernel counts: each string with its NUL and a pointer.
        let cost = |text: &[u8]| text.len() + 1 + size_of::<usize>();
        Subject {
            program: strings(args).next().unwrap_or_default().to_vec(),
            candidates: strings(programs).map(|path| against(&buffers.cwd, path)).collect(),
            args_bytes: strings(args).map(cost).sum(),
            env_bytes: env.iter().map(|text| cost(text)).sum(),
            string_bytes_max: strings(args).chain(env).map(<[u8]>::len).max().unwrap_or(0),
            cwd: buffers.cwd,
            task_dir: buffers.task_dir,
            stdout: buffers.stdout,
            stderr: buffers.stderr,
            cpus: buffers.cpus,
        }
    }

    /// Where its output channels go.
    pub(crate) fn sinks(&self, start: &Start) -> Vec<Sink> {
        sinks::of_task(&self.template.spec, self.paths_of(start))
    }

    /// Whether its placeholders stand for something of its entry that a program can be given.
    ///
    /// # Errors
    /// The text for people when it cannot be started.
    pub(crate) fn check_entry(&self, start: &Start) -> Result<(), String> {
        let Some(entry) = start.entry.as_ref().filter(|_| !self.names_of_entry.is_empty()) else {
            return Ok(());
        };
        entry.check(&self.names_of_entry).map_err(|error| error.to_string())
    }

    fn paths_of(&self, start: &Start) -> TaskPaths {
        self.paths.expand(start.task, start.instance, start.entry.as_ref())
    }

    /// Where its stream goes, how it is stored, and which of its channels go there, if any does.
    pub(crate) fn stream(&self, start: &Start) -> Option<(Stream, Compression, [bool; 2])> {
        let spec = &self.template.spec;
        let channels = [&spec.stdout, &spec.stderr].map(|sink| *sink == OutputSink::Stream);
        let stream = self.paths.stream(start.task.job).filter(|_| channels.contains(&true))?;
        Some((stream, spec.compression, channels))
    }

    /// Where an attempt prints on a channel, if that is kept.
    pub(crate) fn place(&self, order: &ReadOrder) -> Option<Place> {
        let entry = order.entry.as_deref().map(Entry::new);
        self.paths.place(order.channel, order.task, order.instance, entry.as_ref())
    }

    /// What it is to leave behind.
    pub(crate) fn promised(&self, start: &Start) -> Promised {
        let spec = &self.template.spec;
        if spec.outputs.is_empty() {
            return Promised::default();
        }
        // What another task of the submit, or another attempt of this one, would write to.
        let of = |task, instance| self.paths.expand(task, instance, None).outputs;
        let (task, instance) = (start.task, start.instance);
        let anonymous = of(task, instance);
        let of_sibling = of(TaskRef::new(task.job, TaskId(task.task.0 ^ 1)), instance);
        let of_attempt = of(task, Instance(instance.0 ^ 1));
        let paths = self.paths_of(start).outputs.into_iter().enumerate();
        let declared = paths.map(|(place, path)| {
            let is_own = path != of_sibling[place];
            let is_speculated = spec.speculate.is_some() && anonymous[place] == of_attempt[place];
            let writers = match (is_speculated, is_own, self.template.has_siblings) {
                (true, _, _) | (_, false, true) => Writers::Others,
                (false, true, _) => Writers::Attempt,
                (false, false, false) => Writers::Submit,
            };
            Declared::new(path, writers)
        });
        Promised::new(declared.collect(), instance, spec.output_patience)
    }

    /// Where its result will be, if it is to have one. What would print into nothing prints into a file of the worker's.
    pub(crate) fn result_file(&self, start: &Start, node: &Node) -> Option<ResultFile> {
        let from = self.template.spec.result.clone();
        if !from.is_some() {
            return None;
        }
        let paths = self.paths_of(start);
        Some(match if from.is_printed() { paths.stdout } else { paths.result } {
            Some(path) => ResultFile { from, path, is_own: false },
            None => {
                let mut path = ByteString::new();
                node.append_result_file(start, &mut path);
                ResultFile { from, path, is_own: true }
            }
        })
    }

    /// What it leaves as objects, and in which files.
    pub(crate) fn objects_left(&self, start: &Start, node: &Node) -> Vec<(Key, ByteString)> {
        let spec = &self.template.spec;
        let outputs = &spec.output_objects;
        let paths = self.paths_in(start, node, outputs.iter().map(|output| output.path.as_slice()));
        let keys = outputs.iter().map(|output| {
            let (object, instance) = spec.object_left(start.task, start.instance, &output.name);
            Key { object, instance }
        });
        keys.zip(paths).collect()
    }

    /// The objects that it takes, and their places; and its directory of broadcasts, where it has some.
    pub(crate) fn objects_taken(
        &self,
        start: &Start,
        node: &Node,
        own: WorkerId,
    ) -> (Vec<objects::Place>, Option<PathBuf>) {
        let mut broadcasts = ByteString::new();
        self.append_broadcast_dir(start, node, &mut broadcasts);
        let broadcasts = (!broadcasts.is_empty()).then(|| PathBuf::from(OsString::from_vec(broadcasts)));
        let paths = self.paths_in(start, node, start.objects.iter().map(|source| source.path.as_slice()));
        let places = start.objects.iter().zip(paths);
        let places =
            places.map(|(source, path)| objects::Place::new(source, path, own, broadcasts.as_deref()));
        (places.collect(), broadcasts)
    }

    // Nothing where it has no broadcasts.
    fn append_broadcast_dir(&self, start: &Start, node: &Node, out: &mut ByteString) {
        if self.has_broadcasts {
            node.append_broadcast_dir(start, out);
        }
    }

    // Paths with placeholders, as seen from its working directory.
    fn paths_in<'a>(
        &self,
        start: &Start,
        node: &Node,
        paths: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<ByteString> {
        let cwd = self.paths_of(start).cwd;
        let mut broadcast_dir = ByteString::new();
        self.append_broadcast_dir(start, node, &mut broadcast_dir);
        let (server_uid, cwd, broadcast_dir) = (node.server_uid.as_str(), &cwd[..], &broadcast_dir[..]);
        let values = Values { start, server_uid, cwd, broadcast_dir };
        let expanded = paths.map(|path| {
            let mut out = ByteString::new();
            Text::new(path).append(&mut out, &values);
            against(cwd, &out)
        });
        expanded.collect()
    }

    fn variant(&self, start: &Start) -> &VariantEnvironment {
        &self.variants[(start.variant as usize).min(self.variants.len() - 1)]
    }

    /// Works out what is of one task.
    ///
    /// # Errors
    /// The text for people when it cannot be started.
    pub(crate) fn fill(&self, start: &Start, node: &Node, buffers: &mut Buffers) -> Result<(), String> {
        self.check_entry(start)?;
        let paths = self.paths_of(start);
        buffers.cwd = paths.cwd;
        let [stdout, stderr] = std::mem::take(&mut buffers.streams);
        buffers.stdout = paths.stdout.unwrap_or(stdout);
        if buffers.stdout.is_empty() && self.template.spec.result.is_printed() {
            node.append_result_file(start, &mut buffers.stdout);
        }
        buffers.stderr = paths.stderr.unwrap_or(stderr);
        buffers.task_dir.clear();
        if self.has_task_dir(start) {
            node.append_task_dir(start, &mut buffers.task_dir);
        }
        buffers.broadcast_dir.clear();
        self.append_broadcast_dir(start, node, &mut buffers.broadcast_dir);
        let values = Values {
            start,
            server_uid: &node.server_uid,
            cwd: &buffers.cwd,
            broadcast_dir: &buffers.broadcast_dir,
        };
        if self.args_block.is_none() {
            buffers.args.clear();
            for arg in &self.args {
                arg.append(&mut buffers.args, &values);
                buffers.args.push(0);
            }
        }
        let variant = self.variant(start);
        buffers.env.clear();
        variant.append(&mut buffers.env, &values, node, &buffers.task_dir);
        buffers.env.append(&mut buffers.world);
        if let Some(entry) = &start.entry {
            append_entry(&self.template.spec.body, entry.text(), &mut buffers.env)?;
        }
        if self.programs_block.is_none() {
            buffers.programs.clear();
            let args = self.args_block.as_deref().unwrap_or(&buffers.args);
            let program = strings(args).next().unwrap_or_default();
            let path = strings(&buffers.env).filter_map(|v| v.strip_prefix(b"PATH=")).next_back();
            append_candidates(program, path.unwrap_or(node.base_path()), &mut buffers.programs);
        }
        buffers.cpus.clear();
        if self.template.spec.pin == Pin::Taskset {
            node.cpus_of(start, &mut buffers.cpus)?;
        }
        Ok(())
    }
}

// A task's entry is any bytes. A program finds it in a variable, and a function is called with it.
fn append_entry(body: &Body, entry: &[u8], env: &mut ByteString) -> Result<(), String> {
    if body.function().is_some() {
        return Ok(());
    }
    if entry.contains(&0) {
        return Err("the task's entry holds a NUL byte, which no environment variable can".to_owned());
    }
    env.extend_from_slice(b"HQ_ENTRY=");
    env.extend_from_slice(entry);
    env.push(0);
    Ok(())
}

fn variable_name(variable: &[u8]) -> &[u8] {
    variable.split(|byte| *byte == b'=').next().unwrap_or_default()
}

// Means something only where the program of the task runs.
fn is_of_first_node(name: &[u8], start: &Start) -> bool {
    let files = [&b"HQ_NODE_FILE"[..], b"HQ_HOST_FILE", b"HQ_TASK_DIR", b"HQ_ERROR_FILENAME"];
    name.starts_with(b"HQ_RESOURCE_VALUES_") || start.is_part && files.contains(&name)
}

/// The strings of a block of NUL-terminated ones.
pub(crate) fn strings(block: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let block = block.strip_suffix(b"\0");
    block.into_iter().flat_map(|block| block.split(|b| *b == 0))
}

/// The `PATH` of such tasks; `None` when it differs from task to task.
fn search_path(spec: &TaskSpec, node: &Node) -> Option<ByteString> {
    match spec.env.iter().rfind(|(name, _)| name == b"PATH") {
        None => Some(node.base_path().to_vec()),
        Some((_, value)) => match Text::new(value) {
            Text::Plain(value) => Some(value),
            Text::Varying(_) => None,
        },
    }
}

/// The paths where a program may be, NUL-terminated. One with a slash is taken as it is, from the
/// task's working directory.
fn append_candidates(program: &[u8], path: &[u8], out: &mut ByteString) {
    if program.contains(&b'/') || program.is_empty() {
        out.extend_from_slice(program);
        out.push(0);
        return;
    }
    for directory in path.split(|b| *b == b':') {
        // An empty entry is the working directory.
        out.extend_from_slice(if directory.is_empty() { b"." } else { directory });
        if out.last() != Some(&b'/') {
            out.push(b'/');
        }
        out.extend_from_slice(program);
        out.push(0);
    }
}

fn against(cwd: &[u8], path: &[u8]) -> ByteString {
    if path.first() == Some(&b'/') { path.to_vec() } else { [cwd, b"/", path].concat() }
}

fn check_strings(spec: &TaskSpec, submit_dir: &[u8]) -> Result<(), String> {
    let has_nul = |text: &[u8]| text.contains(&0);
    let sink = |sink: &OutputSink| sink.path().is_some_and(|path| has_nul(path));
    let bad = if spec.body.is_empty() {
        return Err("the task has no program".to_owned());
    } else if spec.body.texts().iter().any(|arg| has_nul(arg)) {
        "an argument"
    } else if spec.env.iter().any(|(name, value)| has_nul(name) || has_nul(value)) {
        "an environment variable"
    } else if has_nul(&spec.cwd)
        || has_nul(submit_dir)
        || sink(&spec.stdout)
        || sink(&spec.stderr)
        || spec.outputs.iter().chain(spec.result.path()).any(|path| has_nul(path))
        || spec.output_objects.iter().any(|object| has_nul(&object.path))
        || spec.input_objects.iter().any(|object| has_nul(object.path()))
    {
        "a path"
    } else if spec.env.iter().any(|(name, _)| name.is_empty() || name.contains(&b'=')) {
        return Err("the name of an environment variable is empty or holds `=`".to_owned());
    } else {
        return Ok(());
    };
    Err(format!("{bad} of the task contains a NUL byte, which cannot be passed to a program"))
}

/// Removes directories and files of a task; what is gone already does not matter.
pub(crate) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
