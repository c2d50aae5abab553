//! The machine's own limit for real processes: a loop that does nothing but spawn, wait and put away what they print.

#![expect(unsafe_code, reason = "starts processes as the C library does, to compare with")]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use crate::row::BoxError;

/// Where what the programs print goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outputs<'a> {
    /// To `/dev/null`.
    Nowhere,
    /// Two files for each program, in this directory.
    Files(&'a Path),
    /// Through a pipe for each program into one file for each spawner, in this directory.
    Collected(&'a Path),
}

/// How long `spawners` threads take to run a program `count` times, each with `posix_spawn` and `waitpid` in a loop, as a C
/// program would do it.
///
/// # Errors
/// When one of the programs does not start or fails, or what it prints cannot be written.
pub(crate) fn run(
    program: &[&str],
    outputs: Outputs<'_>,
    count: u32,
    spawners: usize,
) -> Result<Duration, BoxError> {
    let program = &Program::new(program)?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..spawners)
            .map(|first| {
                scope.spawn(move || {
                    let mut spawner = Spawner::new(program, outputs, first)?;
                    (first..count as usize).step_by(spawners).try_for_each(|number| spawner.one(number))
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))))
    })?;
    Ok(begun.elapsed())
}

struct Program {
    words: Vec<CString>,
    // That of this process, as tasks have it, too: what it says of languages makes programs read files.
    environment: Vec<CString>,
}

impl Program {
    fn new(words: &[&str]) -> Result<Program, BoxError> {
        let entry = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Ok(Program {
            words: words.iter().map(|word| CString::new(*word)).collect::<Result<_, _>>()?,
            environment: std::env::vars_os().map(entry).collect::<Result<_, _>>()?,
        })
    }
}

// As C wants a list of texts, which must outlive it.
fn pointers(texts: &[CString]) -> Vec<*mut libc::c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

struct Spawner<'a> {
    program: &'a Program,
    outputs: Outputs<'a>,
    // What its programs print, where that is collected.
    file: Option<File>,
    buffer: Vec<u8>,
}

impl<'a> Spawner<'a> {
    fn new(program: &'a Program, outputs: Outputs<'a>, number: usize) -> io::Result<Spawner<'a>> {
        let file = match outputs {
            Outputs::Collected(directory) => Some(File::create(directory.join(number.to_string()))?),
            Outputs::Nowhere | Outputs::Files(_) => None,
        };
        Ok(Spawner { program, outputs, file, buffer: vec![0; 64 << 10] })
    }

    fn one(&mut self, number: usize) -> io::Result<()> {
        let text = |text: String| CString::new(text).map_err(io::Error::other);
        match self.outputs {
            Outputs::Nowhere => {
                let null = || Target::Path(c"/dev/null".into());
                wait(spawn(self.program, [null(), null()])?)
            }
            Outputs::Files(directory) => {
                let path = |suffix| text(format!("{}/{number}.{suffix}", directory.display()));
                let files = [Target::Path(path("stdout")?), Target::Path(path("stderr")?)];
                wait(spawn(self.program, files)?)
            }
            Outputs::Collected(_) => {
                let (read, write) = io::pipe()?;
                let end = write.as_raw_fd();
                let pid = spawn(self.program, [Target::Descriptor(end), Target::Descriptor(end)])?;
                drop(write);
                self.collect(read)?;
                wait(pid)
            }
        }
    }

    fn collect(&mut self, mut pipe: PipeReader) -> io::Result<()> {
        loop {
            let count = pipe.read(&mut self.buffer)?;
            if count == 0 {
                return Ok(());
            }
            if let Some(file) = &mut self.file {
                file.write_all(&self.buffer[..count])?;
            }
        }
    }
}

// What a program gets as one of its outputs.
enum Target {
    Path(CString),
    Descriptor(RawFd),
}

fn spawn(program: &Program, outputs: [Target; 2]) -> io::Result<libc::pid_t> {
    let (arguments, environment) = (pointers(&program.words), pointers(&program.environment));
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let mut pid = 0;
    // SAFETY: the actions are initialized before and destroyed after use; every pointer outlives the
    // calls; the arrays end with null pointers, and the program has a first word.
    unsafe {
        let mut actions = std::mem::zeroed();
        check(libc::posix_spawn_file_actions_init(&mut actions))?;
        let result = (|| {
            let null = c"/dev/null".as_ptr();
            check(libc::posix_spawn_file_actions_addopen(&mut actions, 0, null, libc::O_RDONLY, 0))?;
            for (number, output) in (1..).zip(&outputs) {
                check(match output {
                    Target::Path(path) => libc::posix_spawn_file_actions_addopen(
                        &mut actions,
                        number,
                        path.as_ptr(),
                        flags,
                        0o644,
                    ),
                    Target::Descriptor(end) => {
                        libc::posix_spawn_file_actions_adddup2(&mut actions, *end, number)
                    }
                })?;
            }
            let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
            check(libc::posix_spawn(
                &mut pid,
                arguments.read(),
                &actions,
                ptr::null(),
                arguments,
                environment,
            ))
        })();
        libc::posix_spawn_file_actions_destroy(&mut actions);
        result?;
    }
    Ok(pid)
}

fn wait(pid: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the pid is that of a child nobody else waits for; the status outlives the call.
    if unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        return Err(io::Error::last_os_error());
    }
    if status == 0 { Ok(()) } else { Err(io::Error::other(format!("the child ended with status {status}"))) }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
