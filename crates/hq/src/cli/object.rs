//! `hq object …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hq_client::options::values;
use hq_core::object_messages::ObjectPhase;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, ObjectName, TaskRef};

use super::job::selector;

/// Put, show, get, keep and drop files for other tasks
#[derive(Subcommand, Debug)]
pub(crate) enum ObjectCommand {
    List(ListArgs),
    Info(InfoArgs),
    Put(PutArgs),
    Get(GetArgs),
    Keep(KeepArgs),
    Drop(DropArgs),
}

/// List the objects of jobs
///
/// In order of jobs, tasks and names, and how many bytes are stored. A worker stores a copy of what its tasks take of others,
/// too; the size is that of one copy.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object list\n  hq object list last --state stored\n  hq object list 1,3-5\n  hq object \
                  list 33@1-40:parts"
)]
pub(crate) struct ListArgs {
    /// Ids such as `1,3-5`, `last` or `all`; or some objects of a job, such as `33@1-40:parts` or `33@1-40`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", default_value = "all", value_parser = listed)]
    pub jobs: Listed,
    /// Only objects in one of these states
    ///
    /// A comma list of awaited, stored, lost, gone.
    #[arg(long, visible_alias = "filter", value_name = "STATES", value_delimiter = ',', value_parser = phase)]
    pub state: Vec<ObjectPhase>,
}

/// Show all about objects
///
/// How large they are, which workers store them, and which jobs have tasks that still take them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object info 1@0:parts\n  hq object info last@0:parts")]
pub(crate) struct InfoArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name; `33@1-40:parts` for several tasks, `33@1-40` and `33` for
    /// all that these leave
    #[arg(value_name = "OBJECTS", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Make a file or directory an object that tasks can take
///
/// A worker takes a copy into its store, one on this machine if there is one. Elsewhere the bytes go over the connections that
/// workers use among themselves, and by way of the server where this machine reaches no worker or the access file has no part for
/// workers. The object belongs to a finished job of its own, which has its name, and is kept until it is dropped. Its id is
/// printed, which `hq submit --input-object` takes.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object put reads.fq\n  hq object put --name reads data/2024-05.fq\n  hq object put genome/\n  \
                  seq 5 | hq object put --name five -"
)]
pub(crate) struct PutArgs {
    /// The file or directory; `-` is standard input. That, and the archive of a directory, is written to a temporary file first
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// What the object is called, which is the last part of the path otherwise
    #[arg(long, value_name = "NAME")]
    pub name: Option<ObjectName>,
}

/// Write an object into a file, or to standard output
///
/// The bytes come from a worker that stores it, piece by piece, over the connections that workers use among themselves, and by way
/// of the server where this machine reaches no worker or the access file has no part for workers. Where one of them is cut off, the
/// next one goes on; the bytes are checked against what was stored. The file appears when it is complete. Where the object is a directory,
/// so does the directory, which must not be there yet; standard output gets the tar archive. Of several objects those that are stored
/// are written into a directory, and the rest is named.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object get 1@0:parts -o parts.bin\n  hq object get 1@0:tree -o tree\n  hq object get \
                  last@0:tree | tar -x\n  hq object get 33@1-40:parts -o parts"
)]
pub(crate) struct GetArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name; or several, as `33@1-40:parts`, `33@1-40` and `33`
    #[arg(value_name = "OBJECTS", value_parser = object)]
    pub objects: ObjectArg,
    /// Where to; `-` is standard output, as is nothing where that is no terminal. Of several objects a directory, in which each is
    /// TASK/NAME
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Keep objects where stores are full
///
/// A store that has no room makes some by removing what no task needs and what was read least recently. What is kept stays on one
/// of the workers that store it, until it is dropped or its job is forgotten. What is not there is named, and the rest kept.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object keep 1@0:parts 1@1:parts\n  hq object keep 33@1-40:parts")]
pub(crate) struct KeepArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name; `33@1-40:parts` for several tasks, `33@1-40` and `33` for
    /// all that these leave
    #[arg(value_name = "OBJECTS", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Remove objects from all workers
///
/// One that a task takes which has not ended is not dropped. It is named, as are those that are not there; the rest is dropped,
/// and the command exits with 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object drop 1@0:parts 1@1:parts\n  hq object drop 33@1-40:parts 34")]
pub(crate) struct DropArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name; `33@1-40:parts` for several tasks, `33@1-40` and `33` for
    /// all that these leave
    #[arg(value_name = "OBJECTS", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectArg {
    /// The job whose tasks leave them; the last one where there is none.
    pub job: Option<JobId>,
    /// Their tasks; all where there are none.
    pub tasks: Option<IdSet>,
    /// What they are called; all where there is nothing.
    pub name: Option<ObjectName>,
}

impl ObjectArg {
    /// The object, where a single one is named. It need not be there.
    pub(crate) fn single(&self, job: JobId) -> Option<ObjectId> {
        let task = self.tasks.as_ref().filter(|tasks| tasks.len() == 1)?.first()?;
        Some(ObjectId { task: TaskRef::new(job, task), name: self.name.clone()? })
    }

    /// True where a single one is named.
    pub(crate) fn is_single(&self) -> bool {
        self.single(JobId(1)).is_some()
    }

    /// True when it may be one of these, as far as its task and its name say.
    pub(crate) fn means(&self, object: &ObjectId) -> bool {
        self.tasks.as_ref().is_none_or(|tasks| tasks.contains(object.task.task))
            && self.name.as_ref().is_none_or(|name| *name == object.name)
    }
}

fn object(text: &str) -> Result<ObjectArg, String> {
    let bad = || "write JOB@TASK:NAME, such as 1@0:parts, last@0-9:parts, 1@0 or 1".to_owned();
    let (job, rest) = text.split_once('@').map_or((text, None), |(job, rest)| (job, Some(rest)));
    let job = match job {
        "last" => None,
        number => Some(number.parse().ok().filter(|job: &u32| *job > 0).map(JobId).ok_or_else(bad)?),
    };
    let Some(rest) = rest else { return Ok(ObjectArg { job, tasks: None, name: None }) };
    let (tasks, name) = rest.split_once(':').map_or((rest, None), |(tasks, name)| (tasks, Some(name)));
    // What is no list of ids is no object; what is wrong with one says more.
    let is_list = tasks.chars().all(|c| c.is_ascii_digit() || ",-_ ".contains(c)) && !tasks.is_empty();
    let tasks = Some(values::ids_some(tasks).map_err(|error| if is_list { error } else { bad() })?);
    let name = name.map(|name| name.parse().map_err(|_| bad())).transpose()?;
    Ok(ObjectArg { job, tasks, name })
}

/// Objects of which jobs, or which objects of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// All of these jobs.
    Jobs(Selector),
    /// These.
    Objects(ObjectArg),
}

fn listed(text: &str) -> Result<Listed, String> {
    if text.contains('@') { object(text).map(Listed::Objects) } else { selector(text).map(Listed::Jobs) }
}

fn phase(text: &str) -> Result<ObjectPhase, String> {
    let wanted = text.trim();
    let found = ObjectPhase::ALL.into_iter().find(|phase| phase.word().eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| {
        let words = ObjectPhase::ALL.map(ObjectPhase::word).join(", ");
        format!("`{wanted}` is no state of an object; use {words}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_job_task_and_name() {
        let one = |text: &str| {
            object(text).map(|arg| arg.single(arg.job.unwrap_or(JobId(9))).map(|id| id.to_string()))
        };
        assert_eq!(one("3@17:parts"), Ok(Some("3@17:parts".into())));
        assert_eq!(one("last@17:parts"), Ok(Some("9@17:parts".into())));
        for text in ["3", "last", "3@17", "3@1-4:parts"] {
            assert_eq!(one(text), Ok(None), "{text}");
        }
        for text in
            ["", "3@17:", "@17:parts", "last@x:parts", "3@%{TASK_ID}:parts", "0@1:x", "3@", "3:parts", "all"]
        {
            assert!(object(text).is_err(), "{text}");
        }
        assert_eq!(object("last@9-1:o"), Err("range `9-1` ends before it begins".into()));
        let several = object("3@1-4:parts").expect("several");
        let means = |text: &str| several.means(&text.parse().expect(text));
        assert!(means("3@4:parts") && !means("3@5:parts") && !means("3@4:note"));
        assert!(object("3").expect("a job").means(&"3@5:note".parse().expect("an object")));
        assert_eq!(listed("1,3-5"), selector("1,3-5").map(Listed::Jobs));
        assert_eq!(listed("last@0-3"), object("last@0-3").map(Listed::Objects));
        assert_eq!(phase(" Stored"), Ok(ObjectPhase::Stored));
        let unknown = "`over` is no state of an object; use awaited, stored, lost, gone";
        assert_eq!(phase("over"), Err(unknown.into()));
    }
}
