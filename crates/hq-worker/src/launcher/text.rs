//! What people read when a task could not start or ended without success.

use std::borrow::Cow;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::wire::Stage;

/// What a failed start was about.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The program as the user wrote it.
    pub program: Vec<u8>,
    /// Paths that were tried.
    pub candidates: Vec<Vec<u8>>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// The task's private directory.
    pub task_dir: Vec<u8>,
    /// File for standard output.
    pub stdout: Vec<u8>,
    /// File for standard error.
    pub stderr: Vec<u8>,
    /// CPUs it was to be bound to.
    pub cpus: Vec<u32>,
    /// Bytes of arguments, with terminators and pointers.
    pub args_bytes: usize,
    /// Bytes of the environment, with terminators and pointers.
    pub env_bytes: usize,
    /// Bytes of the longest single argument or variable.
    pub string_bytes_max: usize,
}

/// Why a task did not start.
pub fn not_started(stage: Stage, errno: i32, subject: &Subject) -> String {
    let cause = cause(errno);
    let make = |what: &str, path: &[u8]| format!("cannot create the {what} {}: {cause}", show(path));
    match stage {
        Stage::Fork => format!("no process could be created for the task: {cause}"),
        Stage::TaskDir => make("task directory", &subject.task_dir),
        Stage::MakeCwd => make("working directory", &subject.cwd),
        Stage::EnterCwd => format!("cannot enter the working directory {}: {cause}", show(&subject.cwd)),
        Stage::Stdin => format!("cannot open the captured standard input: {cause}"),
        Stage::MakeStdoutDir => make("directory for the stdout file", &subject.stdout),
        Stage::Stdout => format!("cannot write the stdout file {}: {cause}", show(&subject.stdout)),
        Stage::MakeStderrDir => make("directory for the stderr file", &subject.stderr),
        Stage::Stderr => format!("cannot write the stderr file {}: {cause}", show(&subject.stderr)),
        Stage::Group => format!("cannot put the task into its control group: {cause}"),
        Stage::Affinity => format!(
            "cannot bind the task to CPUs {}: {cause}; the worker declares CPUs that its process may not use",
            subject.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
        ),
        Stage::Zygote => format!("no interpreter could be forked: {cause}"),
        Stage::Order => "the launcher could not read the order for this task".to_owned(),
        Stage::Exec => not_executed(errno, &cause, subject),
    }
}

fn not_executed(errno: i32, cause: &str, subject: &Subject) -> String {
    let program = show(&subject.program);
    let existing = || subject.candidates.iter().find(|path| fs::metadata(path_of(path)).is_ok());
    let name = String::from_utf8_lossy(&subject.program);
    let searched = if subject.program.contains(&b'/') { "" } else { " in any directory of the task's PATH" };
    let hint = match errno {
        libc::ENOENT => match existing() {
            Some(path) => interpreter_hint(path),
            None => format!(
                "No such file or directory (os error 2): the program that you have tried to execute (`{name}`) was not \
                 found{searched}{}",
                beside(subject).unwrap_or_default()
            ),
        },
        libc::ENOTDIR => "Not a directory (os error 20): a part of its path is not a directory".to_owned(),
        libc::EACCES => match existing() {
            Some(path) if path_of(path).is_dir() => "it is a directory".to_owned(),
            Some(path) if !is_executable(path) => {
                format!(
                    "Permission denied (os error 13): the script that you have tried to execute (`{name}`) is not \
                     executable; `chmod +x {}` makes it so",
                    show(path)
                )
            }
            _ => "Permission denied (os error 13): the file, its interpreter or a directory above it may not be used"
                .to_owned(),
        },
        libc::ENOEXEC => "the file is neither a program of this machine nor a script with a first line like \
             `#!/bin/sh`; add that line, or run it with its interpreter"
            .to_owned(),
        libc::E2BIG => return too_big(subject),
        libc::ETXTBSY => "the file is being written at the moment".to_owned(),
        _ => cause.to_owned(),
    };
    format!("Cannot execute {program}: {hint}")
}

// A program of that name in the working directory, which is looked into only for names with a slash.
fn beside(subject: &Subject) -> Option<String> {
    if subject.program.contains(&b'/') {
        return None;
    }
    let path = path_of(&subject.cwd).join(path_of(&subject.program));
    let name = String::from_utf8_lossy(&subject.program);
    path.is_file().then(|| {
        format!(
            "; the file {} exists, maybe you have meant `./{name}` instead?",
            show(path.as_os_str().as_encoded_bytes())
        )
    })
}

fn too_big(subject: &Subject) -> String {
    // The kernel's fixed limit for one string: 32 pages.
    // SAFETY: plain queries without pointers.
    let (total_max, page) = unsafe { (libc::sysconf(libc::_SC_ARG_MAX), libc::sysconf(libc::_SC_PAGESIZE)) };
    let string_max = 32 * page.max(4096) as usize;
    let program = show(&subject.program);
    if subject.string_bytes_max >= string_max {
        format!(
            "Cannot execute {program}: its longest argument or variable has {} bytes, and this system allows {} \
             for one; pass the data in a file or by --stdin",
            subject.string_bytes_max,
            string_max - 1
        )
    } else {
        format!(
            "Cannot execute {program}: its arguments have {} bytes and its environment {}, and this system \
             allows {} for both together; pass the data in a file or by --stdin",
            subject.args_bytes,
            subject.env_bytes,
            total_max.max(0)
        )
    }
}

fn interpreter_hint(path: &[u8]) -> String {
    let first_line = fs::File::open(path_of(path)).ok().and_then(|mut file| {
        let mut start = [0; 256];
        let count = std::io::Read::read(&mut file, &mut start).ok()?;
        let line = start[..count].split(|b| *b == b'\n').next()?.to_vec();
        line.starts_with(b"#!").then_some(line)
    });
    match first_line {
        Some(line) if line.ends_with(b"\r") => {
            "its first line ends with a carriage return (a DOS text file), so its interpreter is not found"
                .to_owned()
        }
        Some(line) => {
            format!("the interpreter in its first line `{}` does not exist", String::from_utf8_lossy(&line))
        }
        None => "the file exists, but the loader it needs does not (made for another system?)".to_owned(),
    }
}

fn is_executable(path: &[u8]) -> bool {
    fs::metadata(path_of(path)).is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// A path or word between quotes.
fn show(text: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(text))
}

fn cause(errno: i32) -> Cow<'static, str> {
    match errno {
        libc::ENOSPC => "no space left on the device".into(),
        libc::EDQUOT => "the disk quota is used up".into(),
        libc::EACCES => "permission denied".into(),
        libc::ENOENT => "no such file or directory".into(),
        libc::ENOTDIR => "a part of the path is not a directory".into(),
        libc::EISDIR => "it is a directory".into(),
        libc::EROFS => "the file system is read-only".into(),
        libc::EAGAIN => {
            "the limit on the number of processes is reached (see `ulimit -u` and the cgroup's pids.max)"
                .into()
        }
        libc::ENOMEM => "not enough memory".into(),
        libc::EINVAL => "invalid argument".into(),
        errno => {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            format!("{} (error {errno})", text[..end].to_lowercase()).into()
        }
    }
}

/// A task that exited with `code`, which is not 0.
pub fn exited(code: u8) -> String {
    format!("Program terminated with exit code {code}.")
}

/// A task that died from `signal`.
pub fn signaled(signal: u8) -> String {
    let code = 128 + u32::from(signal);
    format!(
        "Program terminated with exit code {code}. Received signal {signal} ({}).",
        hq_model::signal::name(signal)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stage: Stage, errno: i32, expected: &str) {
        let subject = Subject {
            program: b"prog".into(),
            candidates: vec![b"/nonexistent/bin/prog".into()],
            cwd: b"/work/\xff".into(),
            task_dir: b"/tmp/t".into(),
            stdout: b"/out/1.stdout".into(),
            stderr: b"/out/1.stderr".into(),
            cpus: vec![3, 9],
            args_bytes: 5_000_000,
            env_bytes: 2000,
            string_bytes_max: 10,
        };
        assert_eq!(not_started(stage, errno, &subject), expected);
    }

    #[test]
    fn what_went_wrong_is_named_with_its_path() {
        use libc::{EACCES, EAGAIN, EINVAL, EIO, EISDIR, ENOENT, ENOSPC, EROFS};
        check(
            Stage::Fork,
            EAGAIN,
            "no process could be created for the task: the limit on the number of processes is reached \
             (see `ulimit -u` and the cgroup's pids.max)",
        );
        check(
            Stage::TaskDir,
            ENOSPC,
            "cannot create the task directory \"/tmp/t\": no space left on the device",
        );
        check(
            Stage::MakeCwd,
            EROFS,
            "cannot create the working directory \"/work/\u{fffd}\": the file system is read-only",
        );
        check(
            Stage::EnterCwd,
            EACCES,
            "cannot enter the working directory \"/work/\u{fffd}\": permission denied",
        );
        check(
            Stage::Stdout,
            ENOSPC,
            "cannot write the stdout file \"/out/1.stdout\": no space left on the device",
        );
        check(Stage::Stderr, EISDIR, "cannot write the stderr file \"/out/1.stderr\": it is a directory");
        check(
            Stage::MakeStderrDir,
            EACCES,
            "cannot create the directory for the stderr file \"/out/1.stderr\": permission denied",
        );
        check(
            Stage::Affinity,
            EINVAL,
            "cannot bind the task to CPUs 3,9: invalid argument; the worker declares CPUs that its process may not use",
        );
        check(
            Stage::Exec,
            ENOENT,
            "Cannot execute \"prog\": No such file or directory (os error 2): the program that you have tried to execute (`prog`) \
             was not found in any directory of the task's PATH",
        );
        check(Stage::Exec, EIO, "Cannot execute \"prog\": input/output error (error 5)");
    }

    #[test]
    fn the_limit_of_the_system_is_said_with_the_sizes() {
        let subject = |longest: usize| Subject {
            program: b"prog".into(),
            args_bytes: 5_000_000,
            env_bytes: 2000,
            string_bytes_max: longest,
            ..Subject::default()
        };
        let all = not_started(Stage::Exec, libc::E2BIG, &subject(10));
        assert!(all.starts_with(
            "Cannot execute \"prog\": its arguments have 5000000 bytes and its environment 2000, and"
        ));
        let one = not_started(Stage::Exec, libc::E2BIG, &subject(200_000));
        assert!(
            one.starts_with(
                "Cannot execute \"prog\": its longest argument or variable has 200000 bytes, and"
            )
        );
    }

    #[test]
    fn ends_are_told_as_shells_count() {
        assert_eq!(exited(2), "Program terminated with exit code 2.");
        assert_eq!(signaled(9), "Program terminated with exit code 137. Received signal 9 (SIGKILL).");
    }
}
