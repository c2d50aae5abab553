//! What `hq make` needs of this machine: the world that plans are made from, what is remembered in `.hq-make`, the way
//! from a plan to a job, and the lines that say how its runs go.
//!
//! What the two files mean is decided in `hq-make`.

mod again;
mod digests;
mod files;
mod home;
mod lines;
mod mark;
mod python;
mod settle;
mod submits;
mod tail;
mod taken;

pub(crate) use again::{HOME, MakingJob, Wanted, keep_from_making, making_jobs, taken_so_far, tasks_of};
pub(crate) use digests::{Sha256, hex};
pub(crate) use files::Disk;
pub(crate) use home::{FailedRun, Home, Job, LastRun, Place, Started, job_in, known_in, last_in, started_in};
pub(crate) use lines::{Ending, Follower};
pub(crate) use mark::Mark;
pub(crate) use python::Interpreter;
pub(crate) use settle::{Ran, StillRuns, completed, failed, half_done, settle, still_runs, too_late};
pub(crate) use submits::{How, KILL_GRACE, Submission, name_of, submission};
pub(crate) use tail::last_lines;
pub(crate) use taken::ended_lines;
