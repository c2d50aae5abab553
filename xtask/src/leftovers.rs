//! After a full run no process and no file of ours is left.

use std::fs;
use std::path::Path;

use crate::Trouble;

/// Processes and temporary files that were there before.
#[derive(Debug, Default)]
pub(crate) struct Before {
    processes: Vec<u32>,
    files: Vec<std::path::PathBuf>,
}

/// Looks before the run.
pub(crate) fn look() -> Before {
    Before { processes: processes().into_iter().map(|p| p.0).collect(), files: files() }
}

/// Looks after the run and names what is new.
pub(crate) fn check(before: &Before) -> Result<(), Trouble> {
    let processes: Vec<String> = (processes().into_iter())
        .filter(|(pid, _)| !before.processes.contains(pid))
        .map(|(pid, name)| format!("process {pid} ({name})"))
        .collect();
    let files = files().into_iter().filter(|file| !before.files.contains(file));
    let left: Vec<String> = processes.into_iter().chain(files.map(|f| f.display().to_string())).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left over: {}", left.join(", ")).into()) }
}

fn processes() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let named = pids.filter_map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let program = line.split(|b| *b == 0).next().map(|p| String::from_utf8_lossy(p).into_owned())?;
        let name = Path::new(&program).file_name()?.to_string_lossy().into_owned();
        (name == "hq").then_some((pid, program))
    });
    named.collect()
}

fn files() -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return Vec::new() };
    let ours = |name: &str| name.starts_with("hq-");
    entries.flatten().filter(|e| e.file_name().to_str().is_some_and(ours)).map(|e| e.path()).collect()
}
