//! `--broadcast`: the jobs in front of a job, each of which leaves a file or directory as an object.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use hq_core::client_messages::{self, NewJob, NewTasks};
use hq_model::broadcast::{Broadcast, BroadcastFrom};
use hq_model::job::{Target, TaskIds};
use hq_model::object::{ObjectError, ObjectRef, ObjectTask, check_objects};
use hq_model::pattern::Pattern;
use hq_model::{
    Body, ByteString, IdSet, InputObject, JobSpec, ObjectName, OutputObject, OutputSink, Request, Submit,
    TaskId, TaskSpec,
};

use super::error::OptionsError;
use super::job_file::PreparedFile;

/// Checks broadcasts against each other.
///
/// # Errors
/// When two of them have one name.
pub(super) fn check(broadcasts: &[Broadcast]) -> Result<(), OptionsError> {
    let mut names = BTreeSet::new();
    match broadcasts.iter().find(|broadcast| !names.insert(&broadcast.name)) {
        Some(twice) => Err(wrong(format!("two broadcasts have the name `{}`: use NAME=PATH", twice.name))),
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
            // Where the path begins with the directory of the submit, it is no relative one.
            let mut filled = Vec::new();
            Pattern::new(path.as_bytes()).expand_into(&mut filled, &|name, out| {
                let is_known = name == "SUBMIT_DIR";
                out.extend_from_slice(if is_known { &reader.submit_dir } else { &[] });
                is_known
            });
            let path = base.join(OsStr::from_bytes(&filled)).into_os_string().into_vec();
            Some((job(&broadcast.name, path, reader), broadcast.name.clone()))
        }
        BroadcastFrom::Object(_) => None,
    };
    broadcasts.iter().filter_map(of).collect()
}

/// Jobs that leave what is broadcast, and behind them the job whose tasks get it.
pub fn behind(broadcasts: Vec<(NewJob, ObjectName)>, spec: JobSpec, submits: Vec<Submit>) -> Vec<NewJob> {
    let (mut jobs, names): (Vec<NewJob>, Vec<ObjectName>) = broadcasts.into_iter().unzip();
    let takes = (0..).zip(names).map(|(job, name)| client_messages::TakenBroadcast { job, name }).collect();
    jobs.push(NewJob { spec, after: Vec::new(), takes, tasks: NewTasks::Submits(submits) });
    jobs
}

impl PreparedFile {
    /// Broadcasts files, directories and objects to all tasks, as `--broadcast` does. Gives the jobs that go before it.
    ///
    /// # Errors
    /// When one of them is none, two have one name, or a task cannot have any.
    pub fn broadcast(&mut self, texts: &[String]) -> Result<Vec<(NewJob, ObjectName)>, OptionsError> {
        let parsed =
            texts.iter().map(|text| text.parse().map_err(|error: ObjectError| wrong(error.to_string())));
        let broadcasts: Vec<Broadcast> = parsed.collect::<Result<_, _>>()?;
        check(&broadcasts)?;
        let Some(reader) = self.submits.first().filter(|_| !broadcasts.is_empty()) else {
            return Ok(Vec::new());
        };
        if self.submits.iter().any(|submit| submit.spec.body.function().is_some()) {
            let text = "functions of a job cannot receive broadcasts; give them a path, or use an Executor and its \
                put";
            return Err(wrong(text.to_owned()));
        }
        let jobs = jobs(&broadcasts, reader);
        check_new(reader, false, &jobs)?;
        for submit in &mut self.submits {
            let spec = Arc::make_mut(&mut submit.spec);
            spec.input_objects.extend(taken(&broadcasts));
            check_objects(&spec.output_objects, &spec.input_objects)
                .map_err(|error| wrong(error.to_string()))?;
        }
        Ok(jobs)
    }
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
    Err(wrong(format!(
        "a path cannot be broadcast with {with}, only an object: create one with `hq object put`, or in a task with \
         --output-object {name}=PATH, and then use --broadcast JOB@TASK:{name}"
    )))
}

fn wrong(message: String) -> OptionsError {
    OptionsError::Objects { option: "--broadcast", message }
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

    #[test]
    fn all_tasks_of_what_a_program_has_made_get_it() {
        let read =
            |content: &str, job| super::super::prepare_json("job", content, job, b"/home/me").expect("a job");
        let tasks = r#"{"task": [{"command": ["a"]}, {"command": ["b"]}]}"#;
        let mut file = read(tasks, None);
        let jobs = file.broadcast(&["g=data".to_owned(), "5@0:x".to_owned()]).expect("broadcasts");
        assert_eq!(jobs.len(), 1);
        let taken: Vec<usize> = file.submits.iter().map(|submit| submit.spec.input_objects.len()).collect();
        assert_eq!(taken, [1, 1]);
        let all = behind(jobs, file.job, file.submits);
        assert_eq!((all.len(), all[1].takes.len(), all[1].takes[0].job), (2, 1, 0));
        for (content, job, texts, expected) in [
            (tasks, Some(hq_model::JobId(3)), vec!["data"], "a path cannot be broadcast with --job"),
            (tasks, None, vec!["a/x", "b/x"], "two broadcasts have the name `x`"),
            (
                r#"{"task": [{"function": "a:b"}]}"#,
                None,
                vec!["data"],
                "functions of a job cannot receive broadcasts",
            ),
        ] {
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            let error = read(content, job).broadcast(&texts).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    fn reader() -> Submit {
        let spec = TaskSpec { priority: 7, ..TaskSpec::default() };
        Submit {
            submit_dir: b"/home/me".to_vec(),
            ..Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec)
        }
    }

    #[test]
    fn each_path_has_a_job_that_leaves_it() {
        let broadcasts = ["data/genome", "env=/opt/env", "p=1@0:parts", "b=%{SUBMIT_DIR}/e"]
            .map(|text| text.parse().expect(text));
        let jobs = jobs(&broadcasts, &reader());
        let told = jobs.iter().map(|(job, name)| {
            let NewTasks::Submits(submits) = &job.tasks else { panic!("tasks") };
            let spec = &submits[0].spec;
            format!("{} {name}: {} {}", job.spec.name, spec.output_objects[0], spec.priority)
        });
        let expected = [
            "broadcast genome genome: genome=/home/me/data/genome 7",
            "broadcast env env: env=/opt/env 7",
            "broadcast b b: b=/home/me/e 7",
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let taken: Vec<String> = taken(&broadcasts).map(|taken| taken.to_string()).collect();
        assert_eq!(taken, ["p=1@0:parts->%{BROADCAST_DIR}/p"]);
        assert!(with_paths(&TaskSpec::default(), &broadcasts).has_broadcasts());
        assert!(!with_paths(&TaskSpec::default(), &[]).has_broadcasts());
    }
}
