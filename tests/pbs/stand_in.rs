//! Installs the stand-in for PBS of this directory for a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A stand-in whose jobs end with it.
pub(crate) struct Pbs {
    root: TempDir,
}

impl Pbs {
    /// None, with a line that says so, where Python is not installed.
    pub(crate) fn start(options: &[&str]) -> Option<Pbs> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|dir| dir.join("python3").is_file()) {
            left_out();
            return None;
        }
        let pbs = Pbs { root: tempfile::tempdir().expect("a directory") };
        pbs.tell("install", options);
        Some(pbs)
    }

    /// Where it lives. Its commands are in `bin`.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("pbs")
    }

    /// Runs a command of `pbs.py`.
    pub(crate) fn tell(&self, verb: &str, args: &[&str]) {
        let output = self.command(verb, args);
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs one of PBS's commands.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(self.dir().join("bin").join(program)).args(args).output().expect("it runs");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The search path that finds its commands first.
    pub(crate) fn path(&self) -> String {
        format!("{}:{}", self.dir().join("bin").display(), std::env::var("PATH").unwrap_or_default())
    }

    fn command(&self, verb: &str, args: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pbs/pbs.py");
        Command::new("python3").arg(script).arg(verb).arg(self.dir()).args(args).output().expect("python3")
    }
}

impl Drop for Pbs {
    fn drop(&mut self) {
        self.command("end", &[]);
    }
}

/// Says, to a person, what a run did not test.
#[allow(clippy::print_stderr)]
fn left_out() {
    eprintln!("left out: the tests against the stand-in for PBS: install python3");
}
