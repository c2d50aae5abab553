//! `hq object …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hq_client::options::values;
use hq_core::object_messages::ObjectPhase;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, ObjectName, TaskRef};

use super::job::selector;

/// Store files as objects that other tasks can use, and manage them
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
/// Sorted by job, task and name, with their sizes. Workers also store copies of the objects that their tasks use; the
/// size shown is that of one copy.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object list\n  hq object list last --state stored\n  hq object list 1,3-5\n  hq object \
                  list 33@1-40:parts"
)]
pub(crate) struct ListArgs {
    /// Job ids such as `1,3-5`, `last` or `all`; or objects of a job, such as `33@1-40:parts` or `33@1-40`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", default_value = "all", value_parser = listed)]
    pub jobs: Listed,
    /// Only objects in one of these states
    ///
    /// A comma-separated list of awaited, stored, lost, gone.
    #[arg(long, visible_alias = "filter", value_name = "STATES", value_delimiter = ',', value_parser = phase)]
    pub state: Vec<ObjectPhase>,
}

/// Show details of objects
///
/// Shows their sizes, the workers that store them, and the jobs with tasks that still need them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object info 1@0:parts\n  hq object info last@0:parts")]
pub(crate) struct InfoArgs {
    /// Objects such as `1@0:parts`: the job (or `last`), the task and the name; `33@1-40:parts` for several tasks,
    /// `33@1-40` or `33` for all objects of those tasks or that job
    #[arg(value_name = "OBJECTS", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Store a file or directory as an object that tasks can use
///
/// A worker stores a copy, preferably a worker on this machine. Otherwise the data is sent over the connections that
/// workers use among themselves, or through the server if this machine cannot reach a worker or the access file has
/// no section for workers. The object belongs to a new finished job with the same name, and is kept until it is
/// dropped. Its id, which `hq submit --input-object` accepts, is printed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object put reads.fq\n  hq object put --name reads data/2024-05.fq\n  hq object put genome/\n  \
                  seq 5 | hq object put --name five -"
)]
pub(crate) struct PutArgs {
    /// The file or directory; `-` for standard input. Standard input and directory archives are first written to a
    /// temporary file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Name of the object [default: the last part of the path]
    #[arg(long, value_name = "NAME")]
    pub name: Option<ObjectName>,
}

/// Write an object to a file or to standard output
///
/// The data is fetched in pieces from a worker that stores the object, over the connections that workers use among
/// themselves, or through the server if this machine cannot reach a worker or the access file has no section for
/// workers. If a worker is lost, the transfer continues from another one; the data is verified against what was
/// stored. The file appears when it is complete. If the object is a directory, a directory is created, which must not
/// exist yet; standard output receives a tar archive. If several objects are given, those that are stored are written
/// to a directory, and the others are reported.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object get 1@0:parts -o parts.bin\n  hq object get 1@0:tree -o tree\n  hq object get \
                  last@0:tree | tar -x\n  hq object get 33@1-40:parts -o parts"
)]
pub(crate) struct GetArgs {
    /// An object such as `1@0:parts`: the job (or `last`), the task and the name; or several, such as
    /// `33@1-40:parts`, `33@1-40` or `33`
    #[arg(value_name = "OBJECTS", value_parser = object)]
    pub objects: ObjectArg,
    /// Where to write; `-` for standard output, which is also the default unless it is a terminal. For several
    /// objects, a directory in which each object is TASK/NAME
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Keep objects even if stores are full
///
/// A full store makes room by removing objects that no task needs, least recently read first. A kept object stays on
/// one of the workers that store it until it is dropped or its job is forgotten. Objects that do not exist are
/// reported; the others are kept.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object keep 1@0:parts 1@1:parts\n  hq object keep 33@1-40:parts")]
pub(crate) struct KeepArgs {
    /// Objects such as `1@0:parts`: the job (or `last`), the task and the name; `33@1-40:parts` for several tasks,
    /// `33@1-40` or `33` for all objects of those tasks or that job
    #[arg(value_name = "OBJECTS", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Remove objects from all workers
///
/// Objects that an unfinished task needs are not dropped. These and objects that do not exist are reported, the
/// others are dropped, and the command exits with 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object drop 1@0:parts 1@1:parts\n  hq object drop 33@1-40:parts 34")]
pub(crate) struct DropArgs {
    /// Objects such as `1@0:parts`: the job (or `last`), the task and the name; `33@1-40:parts` for several tasks,
    /// `33@1-40` or `33` for all objects of those tasks or that job
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
    let bad = || "use JOB@TASK:NAME, such as 1@0:parts, last@0-9:parts, 1@0 or 1".to_owned();
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
        format!("`{wanted}` is not an object state; use {words}")
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
        let unknown = "`over` is not an object state; use awaited, stored, lost, gone";
        assert_eq!(phase("over"), Err(unknown.into()));
    }
}
