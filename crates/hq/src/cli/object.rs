//! `hq object …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hq_core::object_messages::ObjectPhase;
use hq_model::selector::Selector;
use hq_model::{JobId, ObjectId, ObjectName, TaskRef};

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
    after_help = "Examples:\n  hq object list\n  hq object list last --state stored\n  hq object list 1,3-5"
)]
pub(crate) struct ListArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", default_value = "all", value_parser = selector)]
    pub jobs: Selector,
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
    /// Such as `1@0:parts`: the job or `last`, the task and the name
    #[arg(value_name = "OBJECT", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Make a file or directory an object that tasks can take
///
/// A worker takes a copy into its store, one on this machine if there is one. Elsewhere the bytes go over the connections that
/// workers use among themselves: this machine must reach the port of a worker, and the access file must have the part for
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
/// The bytes come from a worker that stores it, piece by piece, over the connections that workers use among themselves: this
/// machine must reach its port, and the access file must have the part for workers. Where one of them is cut off, the next
/// one goes on; the bytes are checked against what was stored. The file appears when it is complete. Where the object is a directory,
/// so does the directory, which must not be there yet; standard output gets the tar archive.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq object get 1@0:parts -o parts.bin\n  hq object get 1@0:tree -o tree\n  hq object get \
                  last@0:tree | tar -x"
)]
pub(crate) struct GetArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name
    #[arg(value_name = "OBJECT", value_parser = object)]
    pub object: ObjectArg,
    /// Where to; `-` is standard output, as is nothing where that is no terminal
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Keep objects where stores are full
///
/// A store that has no room makes some by removing what no task needs and what was read least recently. What is kept stays on one
/// of the workers that store it, until it is dropped or its job is forgotten. What is not there is named, and the rest kept.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object keep 1@0:parts 1@1:parts")]
pub(crate) struct KeepArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name
    #[arg(value_name = "OBJECT", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Remove objects from all workers
///
/// One that a task takes which has not ended is not dropped. It is named, as are those that are not there; the rest is dropped,
/// and the command exits with 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq object drop 1@0:parts 1@1:parts")]
pub(crate) struct DropArgs {
    /// Such as `1@0:parts`: the job or `last`, the task and the name
    #[arg(value_name = "OBJECT", required = true, value_parser = object)]
    pub objects: Vec<ObjectArg>,
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectArg {
    named: ObjectId,
    /// Of the last job, whichever is named.
    pub is_of_last: bool,
}

impl ObjectArg {
    /// The object, where `last` is this job.
    pub(crate) fn id(self, last: Option<JobId>) -> ObjectId {
        match last.filter(|_| self.is_of_last) {
            Some(job) => ObjectId { task: TaskRef::new(job, self.named.task.task), ..self.named },
            None => self.named,
        }
    }
}

fn object(text: &str) -> Result<ObjectArg, String> {
    let (is_of_last, id) = match text.strip_prefix("last@") {
        Some(rest) => (true, format!("1@{rest}")),
        None => (false, text.to_owned()),
    };
    let named = id.parse::<ObjectId>();
    let named = named.map_err(|_| "write JOB@TASK:NAME, such as 1@0:parts or last@0:parts".to_owned())?;
    Ok(ObjectArg { named, is_of_last })
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
        let read = |text: &str| object(text).map(|arg| arg.id(Some(JobId(9))).to_string());
        assert_eq!(read("3@17:parts"), Ok("3@17:parts".into()));
        assert_eq!(read("last@17:parts"), Ok("9@17:parts".into()));
        for text in
            ["", "3", "3@17", "3@17:", "@17:parts", "last", "last@x:parts", "3@%{TASK_ID}:parts", "0@1:x"]
        {
            assert!(object(text).is_err(), "{text}");
        }
        assert_eq!(phase(" Stored"), Ok(ObjectPhase::Stored));
        let unknown = "`over` is no state of an object; use awaited, stored, lost, gone";
        assert_eq!(phase("over"), Err(unknown.into()));
    }
}
