//! `--broadcast`: the jobs in front of a job, each of which leaves a file or directory as an object.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use hq_core::client_messages::{NewJob, NewTasks};
use hq_model::broadcast::{Broadcast, BroadcastFrom};
use hq_model::job::{Target, TaskIds};
use hq_model::object::{ObjectRef, ObjectTask};
use hq_model::{
    Body, ByteString, IdSet, InputObject, JobSpec, ObjectName, OutputObject, OutputSink, Request, Submit,
    TaskId, TaskSpec,
};

use super::error::OptionsError;

/// Checks broadcasts against each other.
///
/// # Errors
/// When two of them have one name.
pub(super) fn check(broadcasts: &[Broadcast]) -> Result<(), OptionsError> {
    let mut names = BTreeSet::new();
    match broadcasts.iter().find(|broadcast| !names.insert(&broadcast.name)) {
        Some(twice) => {
            let text = format!("two broadcasts have the name `{}`: write NAME=PATH", twice.name);
            Err(OptionsError::Objects(text))
        }
        None => Ok(()),
    }
}

/// What tasks take of those that are objects.
pub(super) fn taken(broadcasts: &[Broadcast]) -> impl Iterator<Item = InputObject> {
    broadcasts.iter().filter_map(Broadcast::taken)
}

/// A task as it will be when those jobs have their numbers.
pub(super) fn with_paths(spec: &TaskSpec, broadcasts: &[Broadcast]) -> TaskSpec {
    let paths = broadcasts.iter().filter(|broadcast| matches!(broadcast.from, BroadcastFrom::Path(_)));
    let taken = paths.map(|Broadcast { name, .. }| {
        let from = ObjectRef { job: None, task: ObjectTask::One(TaskId(0)), name: name.clone() };
        InputObject::in_place(name.clone(), from)
    });
    let mut spec = spec.clone();
    spec.input_objects.extend(taken);
    spec
}

/// The jobs that leave files and directories, for tasks like this one, and the names of what they leave. Each has one task, which
/// does nothing: what it leaves is there before it begins.
pub(super) fn jobs(broadcasts: &[Broadcast], reader: &Submit) -> Vec<(NewJob, ObjectName)> {
    let base = Path::new(OsStr::from_bytes(&reader.submit_dir));
    let of = |broadcast: &Broadcast| match &broadcast.from {
        BroadcastFrom::Path(path) => {
            let path = base.join(path).into_os_string().into_vec();
            Some((job(&broadcast.name, path, reader), broadcast.name.clone()))
        }
        BroadcastFrom::Object(_) => None,
    };
    broadcasts.iter().filter_map(of).collect()
}

/// Checks that a job can be made together with those.
///
/// # Errors
/// When it is there already, or a generator makes its tasks.
pub(super) fn check_new(
    submit: &Submit,
    is_fed: bool,
    broadcasts: &[(NewJob, ObjectName)],
) -> Result<(), OptionsError> {
    let Some((_, name)) = broadcasts.first() else { return Ok(()) };
    let with = match submit.target {
        Target::Open(_) => "--job",
        Target::New(_) if is_fed => "--generate",
        Target::New(_) => return Ok(()),
    };
    Err(OptionsError::Objects(format!(
        "a path cannot be broadcast with {with}, only an object: `hq object put` makes one, or a task that leaves it with \
         --output-object {name}=PATH, and then --broadcast JOB@TASK:{name}"
    )))
}

fn job(name: &ObjectName, path: ByteString, reader: &Submit) -> NewJob {
    let output = OutputObject { name: name.clone(), path };
    let spec = TaskSpec {
        body: Body::program(["true"]),
        cwd: b"/".to_vec(),
        stdout: OutputSink::None,
        stderr: OutputSink::None,
        output_objects: vec![output],
        // It reads even where all CPUs are taken.
        requests: vec![Request::default()],
        priority: reader.spec.priority,
        ..TaskSpec::default()
    };
    let job = JobSpec { name: format!("broadcast {name}"), ..JobSpec::default() };
    let submit = Submit {
        target: Target::New(job.clone()),
        ids: TaskIds::Given(IdSet::single(TaskId(0))),
        entries: Default::default(),
        keys: Default::default(),
        dependencies: Arc::default(),
        spec: Arc::new(spec),
        submit_dir: reader.submit_dir.clone(),
    };
    NewJob { spec: job, after: Vec::new(), takes: Vec::new(), tasks: NewTasks::Submits(vec![submit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Submit {
        let spec = TaskSpec { priority: 7, ..TaskSpec::default() };
        Submit {
            submit_dir: b"/home/me".to_vec(),
            ..Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec)
        }
    }

    #[test]
    fn each_path_has_a_job_that_leaves_it() {
        let broadcasts = ["data/genome", "env=/opt/env", "p=1@0:parts"].map(|text| text.parse().expect(text));
        let jobs = jobs(&broadcasts, &reader());
        let told = jobs.iter().map(|(job, name)| {
            let NewTasks::Submits(submits) = &job.tasks else { panic!("tasks") };
            let spec = &submits[0].spec;
            format!("{} {name}: {} {}", job.spec.name, spec.output_objects[0], spec.priority)
        });
        let expected =
            ["broadcast genome genome: genome=/home/me/data/genome 7", "broadcast env env: env=/opt/env 7"];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let taken: Vec<String> = taken(&broadcasts).map(|taken| taken.to_string()).collect();
        assert_eq!(taken, ["p=1@0:parts->%{BROADCAST_DIR}/p"]);
        assert!(with_paths(&TaskSpec::default(), &broadcasts).has_broadcasts());
        assert!(!with_paths(&TaskSpec::default(), &[]).has_broadcasts());
    }
}
