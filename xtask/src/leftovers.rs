//! What a run leaves behind: processes it started, files in its private directories, changes to the
//! tree of the workspace. A run that passes leaves nothing.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{MARK, Place};

/// How long processes that were told to end may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Names of what is in a directory that was left.
const CONTENTS_MAX: usize = 8;

/// A process that carries the mark of a run.
pub(crate) struct Process {
    pid: i32,
    /// Its command line.
    pub command: String,
}

impl Process {
    /// Ends it at once.
    pub(crate) fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes that carry `mark` in their environment, this one excepted.
pub(crate) fn processes(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let own = std::process::id() as i32;
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<_> = pids
        .filter(|&pid| pid != own)
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        })
        .map(|pid| {
            let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned();
            Process { pid, command }
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// The processes that do not end by themselves in a moment, as sentences; they are killed.
pub(crate) fn end_processes(mark: &str) -> Vec<String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !processes(mark).is_empty() {
        thread::sleep(Duration::from_millis(20));
    }
    let left = processes(mark);
    left.iter().for_each(Process::kill);
    left.iter().map(|process| format!("process {} still runs: {}", process.pid, process.command)).collect()
}

/// What is left of a run, as sentences. Processes are given a moment, then they are killed.
pub(crate) fn check(place: &Place) -> Vec<String> {
    let mut found = end_processes(&place.mark);
    for directory in [&place.tmp, &place.home] {
        found.extend(files(directory));
    }
    found
}

// The entries of a directory that should be empty; they are removed.
fn files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        found.push(format!("{} was left{}", path.display(), contents(&path)));
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
    found.sort();
    found
}

// Some of what is in a directory: it tells whose it was.
fn contents(directory: &Path) -> String {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(entries) = left.pop().filter(|_| found.len() < CONTENTS_MAX).map(fs::read_dir) {
        for path in entries.into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.strip_prefix(directory).unwrap_or(&path);
            found.push(name.display().to_string());
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            }
        }
    }
    found.sort();
    found.truncate(CONTENTS_MAX);
    match found.is_empty() {
        true if directory.is_dir() => ", empty".to_owned(),
        true => String::new(),
        false => format!(", with {}", found.join(", ")),
    }
}

/// What git says has changed in the tree; `None` where there is no git.
pub(crate) fn changes(place: &Place) -> Option<String> {
    let output = place.command("git").args(["status", "--porcelain"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_that_was_left_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let left = dir.path().join(".tmpAbC");
        fs::create_dir_all(left.join("journal")).expect("a directory");
        fs::write(left.join("journal/lock"), "").expect("a file");
        fs::create_dir(dir.path().join("none")).expect("a directory");
        fs::write(dir.path().join("one"), "").expect("a file");
        let shown = |name: &str| dir.path().join(name).display().to_string();
        let expected = [
            format!("{} was left, with journal, journal/lock", shown(".tmpAbC")),
            format!("{} was left, empty", shown("none")),
            format!("{} was left", shown("one")),
        ];
        assert_eq!(files(dir.path()), expected);
        assert!(files(dir.path()).is_empty(), "they are removed");
    }
}
