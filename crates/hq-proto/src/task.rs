//! Task templates on the wire, and the entries of their tasks.

use std::time::Duration;

use hq_model::body::{EntryKind, Function, Mpi};
use hq_model::object::check_objects;
use hq_model::request::check_variants;
use hq_model::result::ResultFrom;
use hq_model::task::{CrashLimit, EndBy, OnWalltime, Pin, Rebuild, Retry, RetryOn, SpeculateFactor, Warning};
use hq_model::{
    Body, ByteString, Compression, Entries, Instance, JobId, OnClose, OutputSink, Request, Stream, TaskSpec,
    Timestamp, ZstdLevel,
};

use crate::ProtoError;
use crate::error::{byte, count, in_range, model, present, rule};
use crate::generated::{self as form, crash_limit::Limit};
use crate::wire::{Wire, list_from_wire, list_to_wire, name, nanos, required, wire_enum};

/// Where workers write that know nothing of streams.
const UNSTREAMED: [&[u8]; 2] =
    [b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout", b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stderr"];
/// What workers start that know nothing of functions: they say that there is no such program.
const UNCALLED: &[u8] = b"hq-functions-need-a-newer-worker";
/// What workers start that replace no placeholders of entries: likewise.
const UNFILLED: &[u8] = b"hq-placeholders-of-entries-need-a-newer-worker";
/// What workers start that know nothing of relays.
const UNPULLED: &[u8] = b"hq-pulled-tasks-need-a-newer-worker";
/// What no worker starts.
const GIVEN: &[u8] = b"hq-given";
/// Signals are numbered 1 to 64 on Linux.
const SIGNAL_MAX: u64 = 64;

impl Wire for Rebuild {
    type Form = form::Rebuild;

    fn to_wire(&self) -> form::Rebuild {
        form::Rebuild { job: self.job.0, instance: self.instance.0 }
    }

    fn from_wire(rebuild: form::Rebuild) -> Result<Rebuild, ProtoError> {
        Ok(Rebuild { job: JobId(rebuild.job), instance: Instance(rebuild.instance) })
    }
}

wire_enum!(Pin = Pin, "pin": None, Taskset, Omp);

impl Wire for TaskSpec {
    type Form = form::TaskSpec;

    fn to_wire(&self) -> form::TaskSpec {
        let mut args = vec![UNCALLED.to_vec()];
        let mut function = self.body.function().map(Wire::to_wire);
        let mut texts = self.body.texts().to_vec();
        let mut with_entries = Vec::new();
        if !texts.is_empty() && (self.result.is_some() || !self.names_of_entry().is_empty()) {
            with_entries = std::mem::replace(&mut texts, vec![UNFILLED.to_vec()]);
        }
        match &mut function {
            None if self.body.is_pulled() => args = vec![UNPULLED.to_vec()],
            None if self.body == Body::Given => args = vec![GIVEN.to_vec()],
            None => args = texts,
            Some(function) => function.interpreter = texts,
        }
        let (directory, log) = match &self.stream {
            Some(Stream::Directory(path)) => (Some(path), None),
            Some(Stream::Log(path)) => (None, Some(path)),
            None => (None, None),
        };
        form::TaskSpec {
            args,
            function,
            with_entries,
            pulled: self.body.is_pulled(),
            given: self.body == Body::Given,
            env: self.env.iter().map(variable_to_wire).collect(),
            stdin: self.stdin.clone(),
            cwd: self.cwd.clone(),
            stdout: output_to_wire(&self.stdout, self.stream.as_ref(), UNSTREAMED[0]),
            stderr: output_to_wire(&self.stderr, self.stream.as_ref(), UNSTREAMED[1]),
            requests: list_to_wire(&self.requests),
            pin: self.pin.to_wire(),
            priority: self.priority,
            time_limit_ns: self.time_limit.map(nanos),
            kill_grace_ns: nanos(self.kill_grace),
            warning: self.warning.as_ref().map(Wire::to_wire),
            crash_limit: Some(self.crash_limit.to_wire()),
            retry: Some(self.retry.to_wire()),
            fails_at_walltime: self.on_walltime == OnWalltime::Fail,
            task_dir: self.task_dir,
            outputs: self.outputs.clone(),
            output_patience_ns: nanos(self.output_patience),
            result: result_to_wire(&self.result),
            output_objects: list_to_wire(&self.output_objects),
            input_objects: list_to_wire(&self.input_objects),
            rebuilds: self.rebuilds.as_ref().map(Wire::to_wire),
            end_by_us: match self.end_by {
                Some(EndBy::At(at)) => Some(at.0),
                _ => None,
            },
            end_within_ns: match self.end_by {
                Some(EndBy::Within(time)) => Some(nanos(time)),
                _ => None,
            },
            service: self.service,
            speculate_thousandths: self.speculate.map(SpeculateFactor::thousandths),
            expected_ns: self.expected.map(nanos),
            locality: self.locality.clone(),
            launcher: self.launcher.clone(),
            stream: directory.cloned(),
            log: log.cloned(),
            zstd_level: zstd_level(self.compression),
        }
    }

    fn from_wire(mut spec: form::TaskSpec) -> Result<TaskSpec, ProtoError> {
        if !spec.with_entries.is_empty() {
            let texts = std::mem::take(&mut spec.with_entries);
            match &mut spec.function {
                None => spec.args = texts,
                Some(function) => function.interpreter = texts,
            }
        }
        rule("args", !spec.args.is_empty(), "must hold at least the program")?;
        // Journals have been written where these have none.
        if spec.given && spec.requests.is_empty() {
            spec.requests = list_to_wire(&[Request::default()]);
        }
        rule("variants of a request", !spec.requests.is_empty(), "must hold at least one")?;
        rule("log", spec.stream.is_none() || spec.log.is_none(), "must not be there beside a stream")?;
        let stream = spec.stream.map(Stream::Directory).or(spec.log.map(Stream::Log));
        let requests: Vec<Request> = list_from_wire(spec.requests)?;
        model("variants of a request", check_variants(&requests))?;
        let spec = TaskSpec {
            body: match spec.function {
                _ if spec.pulled => Body::Pulled,
                _ if spec.given => Body::Given,
                Some(function) => Body::Function(Function::from_wire(function)?),
                None => Body::Program { args: spec.args },
            },
            env: spec.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
            stdin: spec.stdin,
            cwd: spec.cwd,
            stdout: output_from_wire(spec.stdout)?,
            stderr: output_from_wire(spec.stderr)?,
            requests,
            pin: Pin::from_wire(spec.pin)?,
            priority: spec.priority,
            time_limit: spec.time_limit_ns.map(Duration::from_nanos),
            kill_grace: Duration::from_nanos(spec.kill_grace_ns),
            warning: spec.warning.map(Warning::from_wire).transpose()?,
            crash_limit: required("crash limit", spec.crash_limit)?,
            on_walltime: if spec.fails_at_walltime { OnWalltime::Fail } else { OnWalltime::Wait },
            retry: required("retry", spec.retry)?,
            speculate: spec.speculate_thousandths.map(speculate_from_wire).transpose()?,
            task_dir: spec.task_dir,
            outputs: outputs_from_wire(spec.outputs)?,
            output_patience: Duration::from_nanos(spec.output_patience_ns),
            result: result_from_wire(spec.result),
            output_objects: list_from_wire(spec.output_objects)?,
            input_objects: list_from_wire(spec.input_objects)?,
            rebuilds: spec.rebuilds.map(Wire::from_wire).transpose()?,
            end_by: match (spec.end_by_us, spec.end_within_ns) {
                (Some(at), _) => Some(EndBy::At(Timestamp(at))),
                (None, within) => within.map(|time| EndBy::Within(Duration::from_nanos(time))),
            },
            service: spec.service,
            expected: spec.expected_ns.map(Duration::from_nanos),
            locality: spec.locality,
            launcher: name("name of a launcher", spec.launcher)?,
            stream,
            compression: compression_from_wire(spec.zstd_level)?,
        };
        model("objects", check_objects(&spec.output_objects, &spec.input_objects))?;
        let has_path = spec.stream.as_ref().map(|stream| !stream.path().is_empty());
        rule(
            "path of a stream",
            has_path == spec.is_streamed().then_some(true),
            "must be there where a channel goes to it",
        )?;
        Ok(spec)
    }
}

fn result_to_wire(from: &ResultFrom) -> Option<form::ResultFrom> {
    let file = from.path().cloned().unwrap_or_default();
    from.is_some().then(|| form::ResultFrom { is_stdout: *from == ResultFrom::Stdout, file })
}

fn result_from_wire(from: Option<form::ResultFrom>) -> ResultFrom {
    match from {
        None => ResultFrom::Nothing,
        Some(from) if from.is_stdout => ResultFrom::Stdout,
        Some(from) if from.file.is_empty() => ResultFrom::LastLine,
        Some(from) => ResultFrom::File(from.file),
    }
}

wire_enum!(EntryKind = EntryKind, "kind of an entry": Text, Json, Packed);

impl Wire for Function {
    type Form = form::Function;

    fn to_wire(&self) -> form::Function {
        form::Function {
            name: self.name.clone(),
            interpreter: self.interpreter.clone(),
            arguments: self.arguments.clone(),
            code: self.code.clone(),
            entry: self.entry.to_wire(),
            has_own_world: self.mpi == Mpi::World,
            gathers: self.gathers,
        }
    }

    fn from_wire(function: form::Function) -> Result<Function, ProtoError> {
        let function = Function {
            name: name("name of a function", function.name)?,
            interpreter: function.interpreter,
            arguments: function.arguments,
            code: function.code,
            entry: EntryKind::from_wire(function.entry)?,
            mpi: if function.has_own_world { Mpi::World } else { Mpi::Warm },
            gathers: function.gathers,
        };
        function.check().map_err(|rule| ProtoError::Rule { field: "function", rule })?;
        Ok(function)
    }
}

fn zstd_level(compression: Compression) -> u32 {
    match compression {
        Compression::None => 0,
        Compression::Zstd(level) => u32::from(level.get()),
    }
}

fn compression_from_wire(zstd_level: u32) -> Result<Compression, ProtoError> {
    if zstd_level == 0 {
        return Ok(Compression::None);
    }
    in_range("level of zstd", u64::from(zstd_level), 1, u64::from(ZstdLevel::MAX.get()))?;
    Ok(ZstdLevel::new(zstd_level).map_or(Compression::None, Compression::Zstd))
}

fn outputs_from_wire(outputs: Vec<ByteString>) -> Result<Vec<ByteString>, ProtoError> {
    rule("path of an output", outputs.iter().all(|path| !path.is_empty()), "must not be empty")?;
    Ok(outputs)
}

fn speculate_from_wire(thousandths: u32) -> Result<SpeculateFactor, ProtoError> {
    let factor = SpeculateFactor::from_thousandths(thousandths);
    factor.ok_or(ProtoError::Rule { field: "factor of speculation", rule: "must be at least 1" })
}

pub(crate) fn variable_to_wire((name, value): &(ByteString, ByteString)) -> form::Variable {
    form::Variable { name: name.clone(), value: value.clone() }
}

fn output_to_wire(output: &OutputSink, stream: Option<&Stream>, unstreamed: &[u8]) -> Option<form::Output> {
    match output {
        OutputSink::None => None,
        OutputSink::File { path, on_close } => Some(form::Output {
            path: path.clone(),
            remove_if_finished: *on_close == OnClose::RemoveIfFinished,
            remove_if_empty: *on_close == OnClose::RemoveIfEmpty,
            ..form::Output::default()
        }),
        OutputSink::Stream => {
            let is_logged = matches!(stream, Some(Stream::Log(_)));
            let path = unstreamed.to_vec();
            Some(form::Output { path, is_streamed: !is_logged, is_logged, ..form::Output::default() })
        }
    }
}

fn output_from_wire(output: Option<form::Output>) -> Result<OutputSink, ProtoError> {
    let Some(output) = output else { return Ok(OutputSink::None) };
    if output.is_streamed || output.is_logged {
        return Ok(OutputSink::Stream);
    }
    rule("path of an output", !output.path.is_empty(), "must not be empty")?;
    let on_close = match output {
        form::Output { remove_if_finished: true, .. } => OnClose::RemoveIfFinished,
        form::Output { remove_if_empty: true, .. } => OnClose::RemoveIfEmpty,
        _ => OnClose::Keep,
    };
    Ok(OutputSink::File { path: output.path, on_close })
}

impl Wire for Warning {
    type Form = form::Warning;

    fn to_wire(&self) -> form::Warning {
        form::Warning { signal: u32::from(self.signal), before_ns: nanos(self.before) }
    }

    fn from_wire(warning: form::Warning) -> Result<Warning, ProtoError> {
        in_range("signal", u64::from(warning.signal), 1, SIGNAL_MAX)?;
        Ok(Warning {
            signal: byte("signal", warning.signal)?,
            before: Duration::from_nanos(warning.before_ns),
        })
    }
}

impl Wire for CrashLimit {
    type Form = form::CrashLimit;

    fn to_wire(&self) -> form::CrashLimit {
        let limit = match *self {
            CrashLimit::NeverRestart => Limit::NeverRestart(form::Nothing {}),
            CrashLimit::Times(times) => Limit::Times(times),
            CrashLimit::Unlimited => Limit::Unlimited(form::Nothing {}),
        };
        form::CrashLimit { limit: Some(limit) }
    }

    fn from_wire(limit: form::CrashLimit) -> Result<CrashLimit, ProtoError> {
        match present("crash limit", limit.limit)? {
            Limit::NeverRestart(_) => Ok(CrashLimit::NeverRestart),
            Limit::Times(times) => {
                in_range("crash limit", u64::from(times), 1, u64::from(u32::MAX))?;
                Ok(CrashLimit::Times(times))
            }
            Limit::Unlimited(_) => Ok(CrashLimit::Unlimited),
        }
    }
}

impl Wire for Retry {
    type Form = form::Retry;

    fn to_wire(&self) -> form::Retry {
        form::Retry {
            max: self.max,
            delay_ns: nanos(self.delay),
            codes: self.on.codes.iter().map(|&code| u32::from(code)).collect(),
            on_signal: self.on.signal,
            on_timeout: self.on.timeout,
        }
    }

    fn from_wire(retry: form::Retry) -> Result<Retry, ProtoError> {
        let codes = retry.codes.into_iter().map(|code| byte("exit code", code));
        let on = RetryOn {
            codes: codes.collect::<Result<_, _>>()?,
            signal: retry.on_signal,
            timeout: retry.on_timeout,
        };
        Ok(Retry { max: retry.max, delay: Duration::from_nanos(retry.delay_ns), on })
    }
}

/// The form of entries; absent when there are none.
pub(crate) fn entries_to_wire(entries: &Entries) -> Option<form::Entries> {
    if entries.is_empty() {
        return None;
    }
    let mut out = form::Entries { data: Vec::new(), lengths: Vec::with_capacity(entries.len()) };
    out.data.reserve_exact(entries.iter().map(<[u8]>::len).sum());
    for entry in entries.iter() {
        out.data.extend_from_slice(entry);
        // All entries together are at most 4 GiB.
        out.lengths.push(entry.len() as u32);
    }
    Some(out)
}

/// The entries of `tasks` tasks: one for each, or none at all.
pub(crate) fn entries_from_wire(entries: Option<form::Entries>, tasks: u64) -> Result<Entries, ProtoError> {
    let Some(entries) = entries else { return Ok(Entries::default()) };
    count("entries", entries.lengths.len() as u64, tasks)?;
    let bytes: u64 = entries.lengths.iter().map(|&length| u64::from(length)).sum();
    count("bytes of entries", entries.data.len() as u64, bytes)?;
    let mut rest = entries.data.as_slice();
    let cut = entries.lengths.iter().map(|&length| {
        let (entry, after) = rest.split_at(length as usize);
        rest = after;
        entry
    });
    Entries::new(cut).ok_or(ProtoError::Rule { field: "entries", rule: "must be at most 4 GiB together" })
}
