//! Starts the Slurm cluster of this directory for a test, and speaks to it with its own commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cluster that ends, and whose directory vanishes, when this process ends.
pub(crate) struct Slurm {
    dir: PathBuf,
}

impl Slurm {
    /// None, with a line that says so, where Slurm is not installed.
    pub(crate) fn start(options: &[&str]) -> Option<Slurm> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |program: &&str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
        if !["slurmctld", "slurmd", "sbatch", "python3"].iter().all(is_there) {
            left_out("the tests against Slurm: install slurm-wlm and python3");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("hq-slurm").tempdir().expect("a directory").keep();
        let owner = std::process::id().to_string();
        let slurm = Slurm { dir };
        slurm.tell("up", &[&["--owner", &owner][..], options].concat());
        Some(slurm)
    }

    /// Runs a command of `cluster.py`.
    pub(crate) fn tell(&self, verb: &str, args: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slurm/cluster.py");
        let output = Command::new("python3")
            .arg(script)
            .arg(verb)
            .arg(&self.dir)
            .args(args)
            .output()
            .expect("python3");
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The value of `SLURM_CONF` that leads to it.
    pub(crate) fn conf(&self) -> String {
        // As the cluster itself says it: its directory may be reached by a shorter name.
        let text = fs::read_to_string(self.dir.join("env.sh")).expect("it is up");
        text.trim().trim_start_matches("export SLURM_CONF='").trim_end_matches('\'').to_owned()
    }

    /// A command of Slurm, with what it prints.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> String {
        let output =
            Command::new(program).args(args).env("SLURM_CONF", self.conf()).output().expect("it runs");
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// Says, to a person, what a run did not test.
#[allow(clippy::print_stderr)]
pub(crate) fn left_out(what: &str) {
    eprintln!("left out: {what}");
}
