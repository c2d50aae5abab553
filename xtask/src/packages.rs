//! The programs and data that tests need beyond Rust, and how they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place::Place;
use crate::{exec, steps::Outcome};

/// How long installing may take.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
/// Where Debian puts the data of `bowtie2-examples`, from the root of its file system.
const BOWTIE2_DATA: &str = "usr/share/doc/bowtie2/examples";

/// Something a test needs.
struct Need {
    /// The package of Debian.
    package: &'static str,
    /// A program it brings, or a file.
    brings: &'static str,
    /// What is left out without it.
    left_out: &'static str,
}

/// What tells that Python finds Open Babel.
pub(crate) const OPENBABEL_PYTHON: &str = "/usr/lib/python3/dist-packages/openbabel/pybel.py";
/// The structure of HIV-1 protease in PyMOL's tutorial.
pub(crate) const PROTEASE: &str = "/usr/share/pymol/data/tut/1hpv.pdb";

const NEEDS: [Need; 18] = [
    Need { package: "git", brings: "git", left_out: "the check that tests change no file" },
    Need { package: "iproute2", brings: "ip", left_out: "the chaos between network namespaces" },
    Need { package: "iptables", brings: "iptables", left_out: "the chaos with lost packets" },
    Need { package: "faketime", brings: "faketime", left_out: "the test with a wrong clock" },
    Need {
        package: "python3",
        brings: "python3",
        left_out: "the example `bowtie2` and the tests against batch systems",
    },
    Need { package: "make", brings: "make", left_out: "the comparison of file rules with GNU make" },
    Need { package: "slurm-wlm", brings: "slurmctld", left_out: "the tests against Slurm" },
    Need { package: "openmpi-bin", brings: "mpirun.openmpi", left_out: "MPI programs with Open MPI" },
    Need { package: "libopenmpi-dev", brings: "mpicc.openmpi", left_out: "MPI programs with Open MPI" },
    Need { package: "mpich", brings: "mpiexec.mpich", left_out: "MPI programs with MPICH" },
    Need { package: "libmpich-dev", brings: "mpicc.mpich", left_out: "MPI programs with MPICH" },
    Need { package: "chromium", brings: "chromium", left_out: "the test of the dashboard in a browser" },
    Need { package: "bowtie2", brings: "bowtie2", left_out: "the example `bowtie2`" },
    Need {
        package: "bowtie2-examples",
        brings: "/usr/share/doc/bowtie2/examples/reads/reads_1.fq.gz",
        left_out: "the example `bowtie2`",
    },
    Need { package: "openbabel", brings: "obabel", left_out: "the examples `screening` and `make`" },
    Need {
        package: "python3-openbabel",
        brings: OPENBABEL_PYTHON,
        left_out: "the examples `screening` and `make`",
    },
    Need { package: "autodock-vina", brings: "vina", left_out: "the examples `screening` and `make`" },
    Need { package: "pymol-data", brings: PROTEASE, left_out: "the examples `screening` and `make`" },
];

/// Installs what is missing, as root; otherwise lists it and what is therefore left out.
///
/// # Errors
/// When installing fails.
pub(crate) fn install(place: &Place, log: &Path) -> Result<Outcome, String> {
    let missing: Vec<_> = NEEDS.iter().filter(|need| !is_there(need.brings)).collect();
    if missing.is_empty() {
        return Ok(Outcome::Passed(0, String::new()));
    }
    let names: Vec<_> = missing.iter().map(|need| need.package).collect();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !is_there("apt-get") {
        let lost: Vec<_> =
            missing.iter().map(|need| format!("{} (for {})", need.package, need.left_out)).collect();
        return Ok(Outcome::LeftOut(format!(
            "missing: {}; a package manager installs them",
            lost.join(", ")
        )));
    }
    // The lists of packages may be missing or old; fetching them first takes a few seconds.
    let mut update = apt_get();
    update.arg("update");
    let updated = exec::run(&mut update, INSTALL_LIMIT, log, &place.mark);
    let mut install = apt_get();
    install.args(["install", "--yes", "--no-install-recommends"]).args(&names);
    exec::demand(&mut install, INSTALL_LIMIT, log, &place.mark).map_err(|error| match updated {
        Ok(ended) if !ended.is_ok() => format!("{}\n{error}", ended.text),
        _ => error,
    })?;
    Ok(Outcome::Passed(0, format!("installed {}", names.join(", "))))
}

/// The directory of Bowtie 2's example data, fetched if need be: images for containers leave out what
/// packages put below `/usr/share/doc`.
///
/// # Errors
/// Says what is missing.
pub(crate) fn bowtie2_data(place: &Place, log: &Path) -> Result<PathBuf, String> {
    let unpacked = place.target.join("xtask-data/bowtie2-examples");
    let places = [Path::new("/").join(BOWTIE2_DATA), unpacked.join(BOWTIE2_DATA)];
    let find = || places.iter().find(|dir| dir.join("reads/reads_1.fq.gz").exists()).cloned();
    if let Some(found) = find() {
        return Ok(found);
    }
    let missing = |error: String| format!("the data of the package bowtie2-examples is missing: {error}");
    fs::create_dir_all(&unpacked).map_err(|error| missing(error.to_string()))?;
    let mut download = apt_get();
    download.args(["download", "bowtie2-examples"]).current_dir(&unpacked);
    exec::demand(&mut download, INSTALL_LIMIT, log, &place.mark).map_err(missing)?;
    let mut unpack = Command::new("sh");
    unpack.args(["-c", "dpkg-deb --extract bowtie2-examples_*.deb ."]).current_dir(&unpacked);
    exec::demand(&mut unpack, INSTALL_LIMIT, log, &place.mark).map_err(missing)?;
    find().ok_or_else(|| missing("it holds no reads".to_owned()))
}

/// Whether a program is on the path, or a file exists.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_absolute() && Path::new(program).exists()
        || !program.starts_with('/') && std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300", "--quiet"]);
    command
}
