//! Where the outputs of a run went, said in a line for each channel.

use hq_model::job::TaskIds;
use hq_model::{ByteString, JobId, Submit, TaskId, pattern};

use crate::report::Waited;

/// Where outputs go, with placeholders only for what differs between tasks.
pub(super) struct OutputPaths {
    outputs: Vec<(&'static str, ByteString, bool)>,
    // Set when there is only one.
    task: Option<TaskId>,
    cwd: ByteString,
    submit_dir: ByteString,
    server_uid: String,
}

impl OutputPaths {
    /// Of a submit to the server of that name.
    pub(super) fn new(submit: &Submit, server_uid: &str) -> OutputPaths {
        let spec = &submit.spec;
        let outputs = [("Stdout", &spec.stdout), ("Stderr", &spec.stderr)]
            .into_iter()
            .filter_map(|(channel, output)| {
                Some((channel, output.path()?.clone(), output.is_removed_if_finished()))
            })
            .collect();
        let task = match &submit.ids {
            TaskIds::Given(ids) if ids.len() == 1 => ids.first(),
            TaskIds::Next(1) => Some(TaskId(0)),
            TaskIds::Given(_) | TaskIds::Next(_) => None,
        };
        OutputPaths {
            outputs,
            task,
            cwd: spec.cwd.clone(),
            submit_dir: submit.submit_dir.clone(),
            server_uid: server_uid.to_owned(),
        }
    }

    /// The paths of the job, but for files that have been removed again.
    pub(super) fn show(&self, waited: &Waited, job: JobId) -> Vec<(&'static str, String)> {
        let total: u64 = waited.jobs.iter().map(|job| job.counters.total()).sum();
        let known = |name: &str| match name {
            "JOB_ID" => Some(job.to_string().into_bytes()),
            "SUBMIT_DIR" => Some(self.submit_dir.clone()),
            "SERVER_UID" => Some(self.server_uid.clone().into_bytes()),
            "TASK_ID" => self.task.map(|task| task.to_string().into_bytes()),
            _ => None,
        };
        let cwd = join(&self.submit_dir, pattern::expand(&self.cwd, &known));
        let all_removed = waited.all_finished() && total > 0;
        self.outputs
            .iter()
            .filter(|(_, _, removed)| !(*removed && all_removed))
            .map(|(channel, path, _)| {
                let with_cwd = |name: &str| if name == "CWD" { Some(cwd.clone()) } else { known(name) };
                let path = join(&cwd, pattern::expand(path, &with_cwd));
                (*channel, String::from_utf8_lossy(&path).into_owned())
            })
            .collect()
    }
}

fn join(base: &[u8], path: ByteString) -> ByteString {
    if path.first() == Some(&b'/') {
        return path;
    }
    [base, b"/", &path].concat()
}
