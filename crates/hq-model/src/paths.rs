//! Where a task works and writes: the one place that turns a template's paths into those of a task.
//!
//! A relative working directory and a relative place of a stream are taken from the submit directory, relative
//! output files from the working directory. Used by the worker to open files and by clients to find them.

use crate::entry::Entry;
use crate::pattern::Pattern;
use crate::{ByteString, Channel, Instance, JobId, OutputSink, Stream, TaskRef, TaskSpec};

/// The paths of the tasks of one submit, prepared.
#[derive(Clone, Debug)]
pub struct PathTemplates {
    submit_dir: ByteString,
    server_uid: String,
    cwd: Pattern,
    stdout: Option<Pattern>,
    stderr: Option<Pattern>,
    outputs: Vec<Pattern>,
    result: Option<Pattern>,
    stream: Option<(Stream, Pattern)>,
    is_streamed: [bool; 2],
}

/// The paths of one task, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPaths {
    /// Working directory.
    pub cwd: ByteString,
    /// Standard output's file, if it goes to one.
    pub stdout: Option<ByteString>,
    /// Standard error's file, if it goes to one.
    pub stderr: Option<ByteString>,
    /// What it is to leave behind.
    pub outputs: Vec<ByteString>,
    /// The file that its result is in, if it is in one of its own.
    pub result: Option<ByteString>,
    /// Whether standard output and standard error go to the stream.
    pub is_streamed: [bool; 2],
}

/// Where an attempt prints on a channel, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into a file of its own.
    File(ByteString),
    /// Into the stream of its tasks.
    Stream(Stream),
}

impl PathTemplates {
    /// Prepares the paths of a template.
    pub fn new(spec: &TaskSpec, submit_dir: &[u8], server_uid: &str) -> PathTemplates {
        let file = |sink: &OutputSink| sink.path().map(|path| Pattern::new(path));
        PathTemplates {
            submit_dir: submit_dir.to_vec(),
            server_uid: server_uid.to_owned(),
            cwd: Pattern::new(&spec.cwd),
            stdout: file(&spec.stdout),
            stderr: file(&spec.stderr),
            outputs: spec.outputs.iter().map(|path| Pattern::new(path)).collect(),
            result: spec.result.path().map(|path| Pattern::new(path)),
            stream: spec.stream.as_ref().map(|stream| (stream.clone(), Pattern::new(stream.path()))),
            is_streamed: [&spec.stdout, &spec.stderr].map(|sink| *sink == OutputSink::Stream),
        }
    }

    /// Where the stream of a job's tasks is, absolute, if they have one. Without a job its number stays a placeholder.
    pub fn stream(&self, job: impl Into<Option<JobId>>) -> Option<Stream> {
        let job = job.into();
        let (stream, path) = self.stream.as_ref()?;
        Some(stream.at(absolute(&self.submit_dir, path, &|name, out| self.of_job(job, name, out))))
    }

    /// Where an attempt prints on a channel, if that is kept.
    pub fn place(
        &self,
        channel: Channel,
        task: TaskRef,
        instance: Instance,
        entry: Option<&Entry<'_>>,
    ) -> Option<Place> {
        if self.is_streamed[usize::from(channel.number())] {
            return self.stream(task.job).map(Place::Stream);
        }
        let paths = self.expand(task, instance, entry);
        let file = match channel {
            Channel::Stdout => paths.stdout,
            Channel::Stderr => paths.stderr,
        };
        file.map(Place::File)
    }

    /// The paths of one task; without an instance its number stays a placeholder, and without its entry what is said of
    /// that.
    pub fn expand(
        &self,
        task: TaskRef,
        instance: impl Into<Option<Instance>>,
        entry: Option<&Entry<'_>>,
    ) -> TaskPaths {
        let instance = instance.into();
        self.expand_with(&|name, out| {
            match (name, instance) {
                ("TASK_ID", _) => push_number(out, task.task.0),
                ("INSTANCE_ID", Some(instance)) => push_number(out, instance.0),
                _ => {
                    return self.of_job(Some(task.job), name, out)
                        || entry.is_some_and(|entry| entry.append(name, out));
                }
            }
            true
        })
    }

    /// The paths of all tasks of a job: what differs from task to task stays a placeholder. Without a job its number does, too.
    pub fn expand_for_all(&self, job: impl Into<Option<JobId>>) -> TaskPaths {
        let job = job.into();
        self.expand_with(&|name, out| self.of_job(job, name, out))
    }

    // What all tasks of a job have in common.
    fn of_job(&self, job: Option<JobId>, name: &str, out: &mut ByteString) -> bool {
        match (name, job) {
            ("SERVER_UID", _) => out.extend_from_slice(self.server_uid.as_bytes()),
            ("JOB_ID", Some(job)) => push_number(out, job.0),
            ("SUBMIT_DIR", _) => out.extend_from_slice(&self.submit_dir),
            _ => return false,
        }
        true
    }

    fn expand_with(&self, common: &dyn Fn(&str, &mut ByteString) -> bool) -> TaskPaths {
        let cwd = absolute(&self.submit_dir, &self.cwd, common);
        let file = |pattern: &Pattern| {
            absolute(&cwd, pattern, &|name, out| {
                if name == "CWD" {
                    out.extend_from_slice(&cwd);
                    return true;
                }
                common(name, out)
            })
        };
        let (stdout, stderr) = (self.stdout.as_ref().map(file), self.stderr.as_ref().map(file));
        let outputs = self.outputs.iter().map(file).collect();
        let result = self.result.as_ref().map(file);
        TaskPaths { cwd, stdout, stderr, outputs, result, is_streamed: self.is_streamed }
    }
}

fn absolute(base: &[u8], pattern: &Pattern, lookup: &dyn Fn(&str, &mut ByteString) -> bool) -> ByteString {
    let mut path = ByteString::with_capacity(base.len() + 32);
    pattern.expand_into(&mut path, lookup);
    if path.first() == Some(&b'/') {
        return path;
    }
    let mut whole = base.to_vec();
    if !path.is_empty() {
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(&path);
    }
    whole
}

fn push_number(out: &mut ByteString, number: u32) {
    use std::io::Write;
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnClose, TaskId};

    const TASK: TaskRef = TaskRef { job: JobId(3), task: TaskId(17) };

    fn check(cwd: &str, stdout: &str, expected: (&str, &str)) {
        let entry = Entry::new(&br#"["x", {"d": "/e"}]"#[..]);
        let spec = TaskSpec {
            cwd: cwd.into(),
            stdout: OutputSink::File { path: stdout.into(), on_close: OnClose::Keep },
            ..TaskSpec::default()
        };
        let paths = PathTemplates::new(&spec, b"/home/u", "uid").expand(TASK, Instance(1), Some(&entry));
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let found = (text(&paths.cwd), text(paths.stdout.as_deref().unwrap_or_default()));
        assert_eq!((found.0.as_str(), found.1.as_str()), expected);
    }

    #[test]
    fn relative_paths_have_their_base() {
        check("%{SUBMIT_DIR}", "%{CWD}/job-%{JOB_ID}/%{TASK_ID}.out", ("/home/u", "/home/u/job-3/17.out"));
        check("work", "out.%{INSTANCE_ID}", ("/home/u/work", "/home/u/work/out.1"));
        check("/tmp/%{TASK_ID}", "/x", ("/tmp/17", "/x"));
        check("", "%{SERVER_UID}", ("/home/u", "/home/u/uid"));
        check("%{ENTRY.0}", "%{ENTRY.1.d}/%{ENTRY.0}", ("/home/u/x", "/e/x"));
        check("%{ENTRY.2}", "%{ENTRY_9}", ("/home/u/%{ENTRY.2}", "/home/u/%{ENTRY.2}"));
    }

    #[test]
    fn what_differs_between_tasks_stays_a_placeholder() {
        let stdout = b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.%{INSTANCE_ID}".to_vec();
        let spec = TaskSpec {
            cwd: "run-%{TASK_ID}-%{ENTRY}".into(),
            stdout: OutputSink::File { path: stdout, on_close: OnClose::Keep },
            ..TaskSpec::default()
        };
        let paths = PathTemplates::new(&spec, b"/home/u", "uid").expand_for_all(JobId(3));
        assert_eq!(String::from_utf8_lossy(&paths.cwd), "/home/u/run-%{TASK_ID}-%{ENTRY}");
        let stdout = paths.stdout.unwrap_or_default();
        assert_eq!(
            String::from_utf8_lossy(&stdout),
            "/home/u/run-%{TASK_ID}-%{ENTRY}/job-3/%{TASK_ID}.%{INSTANCE_ID}"
        );
    }

    #[test]
    fn each_channel_has_its_place() {
        let spec = TaskSpec {
            stdout: OutputSink::File { path: b"%{TASK_ID}.out".to_vec(), on_close: OnClose::Keep },
            stderr: OutputSink::Stream,
            stream: Some(Stream::Log(b"log-%{JOB_ID}".to_vec())),
            ..TaskSpec::default()
        };
        let templates = PathTemplates::new(&spec, b"/home/u", "uid");
        let place = |channel| templates.place(channel, TASK, Instance(0), None);
        assert_eq!(place(Channel::Stdout), Some(Place::File(b"/home/u/17.out".to_vec())));
        assert_eq!(place(Channel::Stderr), Some(Place::Stream(Stream::Log(b"/home/u/log-3".to_vec()))));
        assert_eq!(templates.stream(None), Some(Stream::Log(b"/home/u/log-%{JOB_ID}".to_vec())));
        let nowhere = PathTemplates::new(&TaskSpec::default(), b"/home/u", "uid");
        assert_eq!(nowhere.place(Channel::Stdout, TASK, Instance(0), None), None);
    }

    #[test]
    fn a_stream_is_beside_the_submit() {
        for (dir, expected) in
            [("out", "/home/u/out"), ("%{SUBMIT_DIR}/j%{JOB_ID}-%{SERVER_UID}", "/home/u/j3-uid")]
        {
            for kind in [Stream::Directory, Stream::Log] {
                let stream = Some(kind(dir.into()));
                let spec = TaskSpec { stream, cwd: "/tmp".into(), ..TaskSpec::default() };
                let stream = PathTemplates::new(&spec, b"/home/u", "uid").stream(JobId(3));
                assert_eq!(stream, Some(kind(expected.into())));
            }
        }
        assert_eq!(PathTemplates::new(&TaskSpec::default(), b"/home/u", "uid").stream(JobId(3)), None);
    }
}
