//! A batch system, whichever: submit, ask, cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Runner;
use crate::description::Description;
use crate::error::BatchError;
use crate::request::{AllocationRequest, BatchState, Granted, JobReport, NodeShape};
use crate::{described, limits, pbs, script, slurm};

/// The script's file in an allocation's directory.
const SCRIPT: &str = "hq-submit.sh";
/// The file that holds the batch id.
const JOB_ID: &str = "jobid";

/// A batch system and how its commands are run.
#[derive(Clone, Debug)]
pub struct Manager {
    kind: Kind,
    runner: Runner,
}

#[derive(Clone, Debug)]
enum Kind {
    Slurm,
    Pbs,
    Described(Box<Description>),
}

impl Manager {
    /// The manager of a name: `slurm` and `pbs` are built in; any other is read from
    /// `<config_dir>/managers/<name>.toml` or, if there is none, from the descriptions shipped in the program.
    ///
    /// # Errors
    /// When nothing describes it, or the description is incomplete or wrong.
    pub fn find(name: &str, config_dir: &Path) -> Result<Manager, BatchError> {
        let kind = match name {
            "slurm" => Kind::Slurm,
            "pbs" => Kind::Pbs,
            name => Kind::Described(Box::new(Description::find(name, config_dir)?)),
        };
        let runner = Runner { time_limit: limits::COMMAND_TIME, environment: Vec::new() };
        Ok(Manager { kind, runner })
    }

    /// The same with another time limit for each of its commands.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Manager {
        self.runner.time_limit = limit;
        self
    }

    /// The same with variables that are set for its commands, over the server's own.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(OsString, OsString)>) -> Manager {
        self.runner.environment = variables;
        self
    }

    /// Its name, as users call it.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Slurm => "slurm",
            Kind::Pbs => "pbs",
            Kind::Described(description) => &description.name,
        }
    }

    /// The energy that jobs have used, in joules, as the accounting has it: nothing of those of which it has none, and nothing at all
    /// where this manager accounts for no energy. Of a job the step counts that used most: steps share their nodes.
    ///
    /// # Errors
    /// When the accounting does not answer.
    pub fn energy(&self, ids: &[String]) -> Result<BTreeMap<String, u64>, BatchError> {
        match self.kind {
            Kind::Slurm => slurm::energy(&self.runner, ids),
            Kind::Pbs | Kind::Described(_) => Ok(BTreeMap::new()),
        }
    }

    /// Whether it has been tried against the real batch system. Shipped descriptions of others are written from
    /// manuals only.
    pub fn is_verified(&self) -> bool {
        match &self.kind {
            Kind::Slurm | Kind::Pbs => true,
            Kind::Described(description) => description.is_verified,
        }
    }

    /// The script that [`Manager::submit`] would write.
    ///
    /// # Errors
    /// When something cannot be written into any script, or the description does not say how.
    pub fn script(&self, request: &AllocationRequest) -> Result<Vec<u8>, BatchError> {
        Ok(self.prepare(request)?.script)
    }

    /// Writes the script into the allocation's directory and submits it. Returns the batch id, which is also
    /// written to `jobid`.
    ///
    /// # Errors
    /// When the files cannot be written or the manager refuses. If [`BatchError::is_in_doubt`], the job may exist:
    /// ask [`Manager::find_submitted`] before trying again.
    pub fn submit(&self, request: &AllocationRequest) -> Result<String, BatchError> {
        let submission = self.prepare(request)?;
        make_private(&request.directory)?;
        // What an earlier try left would be taken for the answer of this one.
        let _ = fs::remove_file(request.directory.join(JOB_ID));
        let path = request.directory.join(SCRIPT);
        write(&path, &submission.script)?;
        let mut args = submission.args;
        args.push(path.into_os_string());
        let output =
            self.runner.run(submission.program.as_ref(), &args, Some(&request.directory))?.demand()?;
        let id = match &self.kind {
            Kind::Slurm => slurm::submitted(output)?,
            Kind::Pbs => pbs::submitted(output)?,
            Kind::Described(description) => described::submitted(description, output)?,
        };
        write(&request.directory.join(JOB_ID), id.as_bytes())?;
        Ok(id)
    }

    /// The states of batch jobs, asked for in bulk. Ids that the manager does not know, or no longer, are absent.
    ///
    /// # Errors
    /// When the manager does not answer, refuses, or says what is not understood.
    pub fn states(&self, ids: &[String]) -> Result<BTreeMap<String, BatchState>, BatchError> {
        Ok(self.reports(ids)?.into_iter().map(|(id, report)| (id, report.state)).collect())
    }

    /// The same, with the manager's reasons.
    ///
    /// # Errors
    /// As [`Manager::states`].
    pub fn reports(&self, ids: &[String]) -> Result<BTreeMap<String, JobReport>, BatchError> {
        let mut reports = BTreeMap::new();
        for ids in distinct(ids).chunks(limits::IDS_PER_COMMAND) {
            reports.extend(match &self.kind {
                Kind::Slurm => slurm::reports(&self.runner, ids)?,
                Kind::Pbs => pbs::reports(&self.runner, ids)?,
                Kind::Described(description) => described::reports(description, &self.runner, ids)?,
            });
        }
        Ok(reports)
    }

    /// Cancels batch jobs, waiting or running. Those that have ended or are unknown are no error: the goal is
    /// reached. Returns before the jobs have ended.
    ///
    /// # Errors
    /// When the manager does not answer or refuses.
    pub fn cancel(&self, ids: &[String]) -> Result<(), BatchError> {
        for ids in distinct(ids).chunks(limits::IDS_PER_COMMAND) {
            match &self.kind {
                Kind::Slurm => slurm::cancel(&self.runner, ids)?,
                Kind::Pbs => pbs::cancel(&self.runner, ids)?,
                Kind::Described(description) => described::cancel(description, &self.runner, ids)?,
            }
        }
        Ok(())
    }

    /// The least that nodes asked for with these arguments will have. None if the manager does not say.
    pub fn node_shape(&self, manager_args: &[OsString]) -> Option<NodeShape> {
        match &self.kind {
            Kind::Slurm => slurm::node_shape(&self.runner, manager_args),
            Kind::Pbs => pbs::node_shape(&self.runner, manager_args),
            Kind::Described(_) => None,
        }
    }

    /// What the manager made of a batch job that waits: its nodes and what it has of each. None if it does not say.
    pub fn granted(&self, id: &str) -> Option<Granted> {
        match &self.kind {
            Kind::Slurm => slurm::granted(&self.runner, id),
            Kind::Pbs => pbs::granted(&self.runner, id),
            Kind::Described(_) => None,
        }
    }

    /// The most that a node has which these arguments ask for. None if the manager does not say.
    pub fn largest_node(&self, manager_args: &[OsString]) -> Option<NodeShape> {
        match &self.kind {
            Kind::Slurm => slurm::largest_node(&self.runner, manager_args),
            Kind::Pbs | Kind::Described(_) => None,
        }
    }

    /// The number of nodes that arguments ask for, whatever the request says.
    pub fn nodes_asked(&self, manager_args: &[OsString]) -> Option<u32> {
        match &self.kind {
            Kind::Slurm => slurm::nodes_asked(manager_args),
            Kind::Pbs => pbs::nodes_asked(manager_args),
            Kind::Described(_) => None,
        }
    }

    /// The batch ids of submissions whose answer was lost, by the request's name: of those jobs of this user that
    /// bear the name and were submitted from the directory. A name that is absent was not submitted, or has ended
    /// so long ago that the manager has forgotten it. Described managers, which do not tell a job's directory,
    /// go by the file that the job's script leaves, or by the name alone.
    ///
    /// # Errors
    /// As [`Manager::states`].
    pub fn find_submitted(
        &self,
        requests: &[(String, PathBuf)],
    ) -> Result<BTreeMap<String, String>, BatchError> {
        if requests.is_empty() {
            return Ok(BTreeMap::new());
        }
        let wanted: Vec<(String, PathBuf)> =
            requests.iter().map(|(name, directory)| (script::job_name(name), directory.clone())).collect();
        let found = match &self.kind {
            Kind::Slurm => slurm::find(&self.runner, &wanted)?,
            Kind::Pbs => pbs::find(&self.runner, &wanted)?,
            Kind::Described(description) => described::find(description, &self.runner, &wanted)?,
        };
        Ok(requests
            .iter()
            .zip(&wanted)
            .filter_map(|((name, _), wanted)| Some((name.clone(), found.get(wanted)?.clone())))
            .collect())
    }

    fn prepare(&self, request: &AllocationRequest) -> Result<Submission, BatchError> {
        script::check(request)?;
        match &self.kind {
            Kind::Slurm => Ok(slurm::prepare(request)),
            Kind::Pbs => Ok(pbs::prepare(request)),
            Kind::Described(description) => described::prepare(description, request),
        }
    }
}

/// The exit status that an allocation's script left in its directory, for managers that forget their jobs. None if
/// it has not ended, or was killed before it could.
pub fn exit_left(directory: &Path) -> Option<i32> {
    match left(directory) {
        Left::Ended { status, .. } => Some(status),
        Left::Nothing | Left::Begun => None,
    }
}

/// What an allocation's script left in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: it never ran, as far as is seen.
    Nothing,
    /// It began.
    Begun,
    /// It ended.
    Ended {
        /// With this status.
        status: i32,
        /// Somebody told it to end.
        was_signalled: bool,
        /// It was so told when its time was over.
        was_late: bool,
    },
}

/// What an allocation's script left in its directory, for managers that forget their jobs.
pub fn left(directory: &Path) -> Left {
    let text = fs::read_to_string(script::exit_file(directory)).unwrap_or_default();
    let mut words = text.split_whitespace();
    match words.next().and_then(|status| status.parse().ok()) {
        Some(status) => {
            let why = words.next();
            Left::Ended { status, was_signalled: why.is_some(), was_late: why == Some(script::LATE) }
        }
        None if script::begun_file(directory).exists() => Left::Begun,
        None => Left::Nothing,
    }
}

/// A command line that lacks the script's path, and the script.
pub(crate) struct Submission {
    pub program: String,
    pub args: Vec<OsString>,
    pub script: Vec<u8>,
}

/// Ids without repetitions, in order.
fn distinct(ids: &[String]) -> Vec<String> {
    ids.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Makes a directory that is the user's alone: a script holds what the user would not tell everybody.
fn make_private(directory: &Path) -> Result<(), BatchError> {
    let failed = |source| BatchError::Write { path: directory.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(failed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BatchError> {
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(path)?;
        io::Write::write_all(&mut file, bytes)
    };
    write().map_err(|source| BatchError::Write { path: path.to_owned(), source })
}
