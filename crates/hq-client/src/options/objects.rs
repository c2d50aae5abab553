//! Objects that tasks leave for others and take from others, from options and job files.

use clap::Args;
use hq_model::broadcast::Broadcast;
use hq_model::object::{BROADCAST_DIR, ObjectError, ObjectTask, check_objects};
use hq_model::{InputObject, OutputObject, TaskId};

use super::error::OptionsError;
use super::graph::Dep;
use super::job_values::named;

const OBJECTS: &str = "Objects";

/// The files that workers keep for other tasks.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = OBJECTS)]
pub struct ObjectOptions {
    /// A file or directory to store as an object for other tasks, wherever they run; can be repeated
    ///
    /// It is copied to the object store of the worker when the task has succeeded; if it is missing, the task has
    /// failed. No shared file system is needed. Paths are relative to the task's working directory; placeholders as
    /// for --stdout. See `hq object list`.
    ///
    /// Example: `--output-object parts=out/parts.bin`.
    #[arg(long = "output-object", value_name = "NAME=PATH")]
    pub left: Vec<OutputObject>,

    /// An object of another task that this task needs as a file; can be repeated
    ///
    /// The task waits until the other one has succeeded. The file, or a link to the directory, is then placed at PATH
    /// (by default NAME in the working directory), read-only; it is transferred once to each worker. `@TASK:NAME`
    /// refers to the same job, `last` as JOB to the last job created, and `%{TASK_ID}` as TASK to the task with the
    /// same id. Placeholders in PATH as for --stdout.
    ///
    /// Examples: `--input-object parts=1@0:parts`, `--input-object 'p=1@%{TASK_ID}:parts->in/parts.bin'`.
    #[arg(long = "input-object", value_name = "NAME=JOB@TASK:NAME[->PATH]")]
    pub taken: Vec<InputObject>,

    /// A file or directory that each node receives before its first task; can be repeated
    ///
    /// One worker reads PATH, relative to the submit directory, and the others receive it from each other, once each.
    /// Tasks wait for it and find it, read-only, as NAME in the directory $HQ_BROADCAST_DIR (%{BROADCAST_DIR} in
    /// arguments); by default, NAME is the last part of PATH. Instead of PATH, JOB@TASK:NAME refers to an existing
    /// object, such as one stored by `hq object put`.
    ///
    /// Examples: `--broadcast /data/genome`, `--broadcast env=venv`, `--broadcast 5@0:genome`.
    #[arg(long = "broadcast", value_name = "[NAME=]PATH")]
    pub broadcasts: Vec<Broadcast>,
}

impl ObjectOptions {
    pub(super) fn over(self, script: ObjectOptions) -> ObjectOptions {
        ObjectOptions {
            left: [script.left, self.left].concat(),
            taken: [script.taken, self.taken].concat(),
            broadcasts: [script.broadcasts, self.broadcasts].concat(),
        }
    }

    /// What tasks take, with what is broadcast to them and is an object.
    pub(super) fn all_taken(&self) -> Vec<InputObject> {
        let broadcasts = super::broadcast::taken(&self.broadcasts);
        self.taken.iter().cloned().chain(broadcasts).collect()
    }

    /// Checks them against each other.
    ///
    /// # Errors
    /// What does not go together.
    pub(super) fn check(&self) -> Result<(), OptionsError> {
        super::broadcast::check(&self.broadcasts)?;
        let broadcasts: Vec<InputObject> = super::broadcast::taken(&self.broadcasts).collect();
        // Each by itself, so that the error names the option at fault.
        for (option, left, taken) in [
            ("--output-object", &self.left[..], &[][..]),
            ("--input-object", &[], &self.taken),
            ("--broadcast", &[], &broadcasts),
            ("--input-object and --broadcast", &[], &self.all_taken()),
        ] {
            let checked = check_objects(left, taken);
            checked.map_err(|error| OptionsError::Objects { option, message: error.to_string() })?;
        }
        Ok(())
    }
}

/// What a table of a job file says of objects.
#[derive(Default)]
pub(super) struct TableObjects {
    pub(super) options: ObjectOptions,
    /// Those that tasks of the same file leave: which one of the inputs, and whose it is.
    pub(super) own: Vec<(usize, Dep)>,
}

impl TableObjects {
    /// True when a name stands for a task.
    pub(super) fn names_tasks(&self) -> bool {
        self.own.iter().any(|(_, task)| matches!(task, Dep::Name(_)))
    }

    /// Reads `output_objects`, `input_objects` and `broadcast`. There `@NAME:…` is of the task with that name or key.
    ///
    /// # Errors
    /// When one of them is none.
    pub(super) fn read(
        left: &[String],
        taken: &[String],
        broadcasts: &[String],
    ) -> Result<TableObjects, String> {
        let mut objects = TableObjects::default();
        for text in left {
            objects.options.left.push(named("output_objects", text.parse().map_err(of_error))?);
        }
        let mut all: Vec<(&str, String)> = taken.iter().map(|text| ("input_objects", text.clone())).collect();
        for text in broadcasts {
            all.push(("broadcast", in_place(text)?));
        }
        for (place, (key, text)) in all.into_iter().enumerate() {
            let (text, name) = match name_of_task(&text) {
                Some((text, name)) => (text, Some(name)),
                None => (text, None),
            };
            let input: InputObject = named(key, text.parse().map_err(of_error))?;
            match (name, input.from.job, input.from.task) {
                (Some(name), ..) => objects.own.push((place, Dep::Name(name))),
                (None, None, ObjectTask::One(task)) => objects.own.push((place, Dep::Id(task.0))),
                _ => {}
            }
            objects.options.taken.push(input);
        }
        Ok(objects)
    }
}

/// Puts the id of the task that a file calls by its name.
pub(super) fn put_task(input: &mut InputObject, task: TaskId) {
    input.from.task = ObjectTask::One(task);
}

fn of_error(error: ObjectError) -> String {
    error.to_string()
}

// What is broadcast, as what is taken.
fn in_place(text: &str) -> Result<String, String> {
    let (name, object) = match text.split_once('=') {
        Some((name, object)) => (Some(name), object),
        None => (None, text),
    };
    match object.split_once('@').and_then(|(_, rest)| rest.split_once(':')) {
        Some((_, of_task)) if !object.contains('/') => {
            let name = name.unwrap_or(of_task);
            Ok(format!("{name}={object}->%{{{BROADCAST_DIR}}}/{name}"))
        }
        _ => Err(format!(
            "broadcast: `{text}` is not JOB@TASK:NAME or @TASK:NAME: only `hq submit` can broadcast a path; here, \
             create an object with output_objects of a task or with `hq object put`"
        )),
    }
}

// `in=@prepare:parts` names a task of the file: the text with an id in its place, and the name.
fn name_of_task(text: &str) -> Option<(String, String)> {
    let (head, rest) = text.split_once("=@")?;
    let (task, tail) = rest.split_once(':')?;
    let is_id = task.is_empty() || task.starts_with("%{") || task.bytes().all(|byte| byte.is_ascii_digit());
    (!is_id && !head.contains('=')).then(|| (format!("{head}=@0:{tail}"), task.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_file_are_called_by_their_names() {
        let taken =
            ["a=@split:parts->in/a", "b=@3:parts", "c=1@3:parts", "d=2@%{TASK_ID}:x"].map(String::from);
        let objects = TableObjects::read(&["o=out".to_owned()], &taken, &[]).expect("objects");
        let own: Vec<String> = objects
            .own
            .iter()
            .map(|(place, dep)| match dep {
                Dep::Id(id) => format!("{place} {id}"),
                Dep::Name(name) => format!("{place} {name}"),
            })
            .collect();
        assert_eq!(own, ["0 split", "1 3"]);
        assert_eq!(objects.options.taken[0].to_string(), "a=@0:parts->in/a");
        let error = TableObjects::read(&[], &["a=@split".to_owned()], &[]).err();
        assert!(error.is_some_and(|error| error.starts_with("input_objects: `@split` is not JOB@TASK:NAME")));
        let error = TableObjects::read(&["a".to_owned()], &[], &[]).err();
        assert!(error.is_some_and(|error| error.starts_with("output_objects: `a` is not NAME=PATH")));
    }

    #[test]
    fn what_is_broadcast_in_a_file_is_an_object() {
        let of = |text: &str| TableObjects::read(&[], &["x=1@2:y".to_owned()], &[text.to_owned()]);
        let told = |text: &str| of(text).expect(text).options.taken[1].to_string();
        assert_eq!(told("5@0:genome"), "genome=5@0:genome->%{BROADCAST_DIR}/genome");
        assert_eq!(told("g=@build:index"), "g=@0:index->%{BROADCAST_DIR}/g");
        let own = of("@build:index").expect("an object").own;
        assert!(matches!(&own[..], [(1, Dep::Name(name))] if name == "build"));
        for text in ["genome", "/data/1@2:x", "g=data"] {
            let error = of(text).err().expect(text);
            assert!(error.contains("only `hq submit` can broadcast a path"), "{error}");
        }
    }

    #[test]
    fn an_error_names_the_option_that_it_is_about() {
        let check = |left: &[&str], taken: &[&str], broadcasts: &[&str], told: &str| {
            let objects = ObjectOptions {
                left: left.iter().map(|text| text.parse().expect(text)).collect(),
                taken: taken.iter().map(|text| text.parse().expect(text)).collect(),
                broadcasts: broadcasts.iter().map(|text| text.parse().expect(text)).collect(),
            };
            let error = objects.check().expect_err(told).to_string();
            assert!(error.starts_with(told), "{error}");
        };
        let own = "a=@%{TASK_ID}:x";
        check(&[], &[], &["a/x", "b/x"], "--broadcast: two broadcasts have the name `x`");
        check(&["a=x", "a=y"], &[], &[], "--output-object: two output objects have the name `a`");
        check(&[], &["a=1@0:x", "a=1@1:x"], &[], "--input-object: two input objects have the path `a`");
        check(&["b=x"], &[own], &["c"], "--input-object: `a=@%{TASK_ID}:x` is an output object of the task");
    }
}
