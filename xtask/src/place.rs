//! Where chores run: the workspace, its build directory, and a private place for homes and
//! temporary files, so that nothing of the person who runs them plays a part.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Marks every process that a chore started, through the environment.
pub(crate) const MARK: &str = "HQ_XTASK_RUN";
/// Variables with these beginnings would change what the program does.
const UNWANTED: [&str; 8] = ["HQ_", "SLURM_", "PBS_", "CUDA_", "ROCR_", "OMP_", "INSTA_", "PROPTEST_"];

/// The directories of a run.
pub(crate) struct Place {
    /// The workspace.
    pub root: PathBuf,
    /// The build directory of the workspace.
    pub target: PathBuf,
    /// `HOME` of everything that is started; empty at first.
    pub home: PathBuf,
    /// `TMPDIR` of everything that is started; empty at first.
    pub tmp: PathBuf,
    /// The value of [`MARK`] of this run.
    pub mark: String,
    // Removed at the end.
    _private: TempDir,
}

impl Place {
    /// Finds the workspace and makes the private directories.
    pub(crate) fn prepare() -> io::Result<Place> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned();
        // This program lies in TARGET/PROFILE/.
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(2).unwrap_or(&root).to_owned();
        let system_tmp = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        // Short, since sockets below it must have short paths.
        let private = tempfile::Builder::new().prefix("hqx-").rand_bytes(5).tempdir_in(system_tmp)?;
        let (home, tmp) = (private.path().join("home"), private.path().join("tmp"));
        fs::create_dir(&home)?;
        fs::create_dir(&tmp)?;
        let mark = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(Place { root, target, home, tmp, mark, _private: private })
    }

    /// A command that runs in the workspace, with the environment that chores promise.
    pub(crate) fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if UNWANTED.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        for (variable, below_home) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if let (None, Some(home)) = (std::env::var_os(variable), std::env::var_os("HOME")) {
                command.env(variable, Path::new(&home).join(below_home));
            }
        }
        command
            .current_dir(&self.root)
            .env("HOME", &self.home)
            .env("TMPDIR", &self.tmp)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env(MARK, &self.mark)
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .env_remove("RUST_LOG")
            .env_remove("RUST_BACKTRACE");
        command
    }

    /// `cargo` for this workspace, with the dependencies of the lock file.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut command = self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg(subcommand);
        command
    }

    /// A program of the workspace, built for debugging.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }

    /// The files below `below` with the suffix, relative to the workspace and sorted; hidden and built
    /// ones are left out.
    pub(crate) fn files(&self, below: &str, suffix: &str) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        self.walk(Path::new(below), suffix, &mut found)?;
        found.sort();
        Ok(found)
    }

    // Walks the tree instead of asking git, since a release may be unpacked without it.
    fn walk(&self, below: &Path, suffix: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(below))? {
            let entry = entry?;
            let name = entry.file_name();
            let path = if below == Path::new(".") { PathBuf::from(&name) } else { below.join(&name) };
            let is_hidden = name.to_string_lossy().starts_with('.') && name != ".ci" && name != ".cargo";
            let is_built = entry.path() == self.target || name == "target" || name == "artifacts";
            if is_hidden || is_built {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.walk(&path, suffix, found)?;
            } else if kind.is_file() && name.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
        Ok(())
    }
}
