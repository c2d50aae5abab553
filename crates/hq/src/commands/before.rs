//! Directories of outputs that were there before their job, as where `hq run` or an earlier server wrote: files of the same
//! names are overwritten, and whoever submits is told.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hq_model::job::Target;
use hq_model::paths::PathTemplates;
use hq_model::{JobId, Submit};

/// Clocks of file systems may differ by so much from that of this machine.
const CLOCKS: Duration = Duration::from_secs(2);

/// How it was before a submit.
pub(super) struct Before {
    at: SystemTime,
    // Of a new job.
    paths: Option<PathTemplates>,
}

impl Before {
    /// Now.
    pub(super) fn new(submit: &Submit, server_uid: &str) -> Before {
        let is_new = matches!(submit.target, Target::New(_));
        let paths = is_new.then(|| PathTemplates::new(&submit.spec, &submit.submit_dir, server_uid));
        Before { at: SystemTime::now(), paths }
    }

    /// What to say of the directory that has the number of this job in its name, if it was there before.
    pub(super) fn outputs_of(&self, job: JobId) -> Option<String> {
        let paths = self.paths.as_ref()?;
        let (own, any) = (paths.expand_for_all(job), paths.expand_for_all(None));
        let [stdout, stderr] = [(own.stdout, any.stdout), (own.stderr, any.stderr)];
        let directories = [stdout, stderr].into_iter().filter_map(|(own, any)| of_job(&own?, &any?));
        let found = directories.into_iter().find(|directory| self.was_there(directory))?;
        Some(format!(
            "{} existed before job {job}, perhaps from `hq run` or another server: outputs of this job overwrite \
             files with the same names in it",
            found.display()
        ))
    }

    fn was_there(&self, directory: &Path) -> bool {
        let Ok(found) = fs::metadata(directory) else { return false };
        // Where the file system does not know when it was made: a task that has begun meanwhile has changed it since.
        let made = found.created().or_else(|_| found.modified());
        found.is_dir() && made.is_ok_and(|made| made + CLOCKS < self.at)
    }
}

// The directory that differs from job to job; nothing where only the name of the file does.
fn of_job(own: &[u8], any: &[u8]) -> Option<PathBuf> {
    let [own, any] = [own, any].map(|path| Path::new(OsStr::from_bytes(path)));
    let same = own.components().zip(any.components()).take_while(|(own, any)| own == any).count();
    let directory: PathBuf = own.components().take(same + 1).collect();
    (directory != own).then_some(directory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hq_model::job::TaskIds;
    use hq_model::{JobSpec, OnClose, OutputSink, TaskSpec};

    use super::*;

    #[test]
    fn only_directories_of_that_job_that_were_there_are_named() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("job-7")).expect("writable");
        let file = |path: &str| OutputSink::File { path: path.as_bytes().to_vec(), on_close: OnClose::Keep };
        let of = |path: &str, later: Duration| {
            let spec = TaskSpec { stdout: file(path), cwd: b".".to_vec(), ..TaskSpec::default() };
            let target = Target::New(JobSpec::default());
            let submit = Submit {
                submit_dir: root.path().as_os_str().as_bytes().to_vec(),
                ..Submit::new(target, TaskIds::Next(1), Arc::new(spec))
            };
            let mut before = Before::new(&submit, "uid");
            before.at += later;
            [7, 8].map(|job| before.outputs_of(JobId(job)).is_some())
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(of("job-%{JOB_ID}/%{TASK_ID}", hour), [true, false]);
        assert_eq!(of("%{CWD}/job-%{JOB_ID}/%{TASK_ID}", hour), [true, false]);
        assert_eq!(of("job-%{JOB_ID}/%{TASK_ID}", Duration::ZERO), [false, false], "made just now");
        assert_eq!(of("job-7", hour), [false, false]);
        assert_eq!(of("job-7/%{JOB_ID}", hour), [false, false]);
    }
}
