//! Python of this machine, for the expressions that need it.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use hq_make::{Python, Value, python};

/// The interpreter.
const PYTHON: &str = "python3";

/// `python3`, if there is one.
pub(crate) struct Interpreter;

impl Python for Interpreter {
    fn evaluate(&self, expressions: &[String]) -> Result<Vec<Result<Vec<Value>, String>>, String> {
        let failed = |error: std::io::Error| format!("{PYTHON} cannot be run: {error}");
        let mut child = Command::new(PYTHON)
            .args(["-I", "-c", python::PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let request = python::request(expressions);
        let stdin = child.stdin.take();
        // It answers while it reads: neither may wait for the other.
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // One that ends early says why itself.
                stdin.map(|mut stdin| stdin.write_all(&request))
            });
            child.wait_with_output().map_err(failed)
        })?;
        python::answers(&output.stdout, expressions.len()).map_err(|error| match output.status.signal() {
            Some(libc::SIGXCPU | libc::SIGKILL) => format!("{PYTHON} was ended after 20 s of computing"),
            _ => format!("{PYTHON} ended with {}: {error}", output.status),
        })
    }
}
