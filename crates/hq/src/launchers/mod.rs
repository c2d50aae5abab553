//! The launchers of MPI programs, as data: those that come with the program, and those that users describe.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::config::{self, Heeded};
use crate::error::HqError;

const BUILTIN: &str = include_str!("builtin.toml");
/// The launcher that needs none: the workers start the ranks themselves.
pub(crate) const DIRECT: &str = "direct";

/// How ranks are started.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Launcher {
    /// What `--launcher` calls it.
    pub name: String,
    /// For people.
    pub about: String,
    /// Where it is there.
    pub probe: Probe,
    /// Before the program.
    pub args: Vec<String>,
    /// Its variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A line of the file that `%{HOSTFILE}` names.
    pub hostfile: Option<String>,
    /// The variable by which a rank knows its number.
    pub rank: String,
    /// Of which MPI it is: a text of these is in what the library calls itself. None: of any.
    #[serde(default)]
    pub library: Vec<String>,
    /// It was tried with this release.
    #[serde(default)]
    pub verified: bool,
}

/// How a launcher is found.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Must be set.
    pub variable: Option<String>,
    /// Executed.
    pub command: Vec<String>,
    /// Must be in what it prints.
    pub holds: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    launcher: Vec<Launcher>,
}

/// What the placeholders of a launcher stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places {
    /// Names of the nodes, the first one leading.
    pub hosts: Vec<String>,
    /// Ranks on each of them.
    pub ranks_per_node: u32,
    /// CPUs of each rank.
    pub cpus_per_rank: String,
    /// The file with the nodes.
    pub hostfile: String,
    /// The script that stands for ssh.
    pub agent: String,
}

/// All launchers, those of the user first.
///
/// # Errors
/// When the user's file cannot be read or is no such file.
pub(crate) fn all() -> Result<Vec<Launcher>, HqError> {
    let mut launchers = Vec::new();
    if let Some(path) = config::directory().map(|directory| directory.join("launchers.toml")) {
        match config::heeded(&path)? {
            Heeded::Text(text) => launchers = parse(&text, &path)?,
            Heeded::Missing => {}
            Heeded::Not(why) => {
                let text = format!("the launchers in {} are not used: {why}", path.display());
                return Err(HqError::failed("bad-input", text).hint(
                    "this file determines which programs are started, so only you may be able to write to it",
                ));
            }
        }
    }
    for launcher in parse(BUILTIN, Path::new("builtin.toml"))? {
        if launchers.iter().all(|known| known.name != launcher.name) {
            launchers.push(launcher);
        }
    }
    Ok(launchers)
}

/// A launcher of an MPI library, which calls itself so: one that lies beside a program of that before others.
///
/// # Errors
/// When there is none, or not the one of this name.
pub(crate) fn of_library(
    all: &[Launcher],
    program: &Path,
    library: &str,
    name: Option<&str>,
) -> Result<Launcher, HqError> {
    let is_of = |launcher: &&Launcher| match name {
        Some(name) => launcher.name == name,
        None => launcher.is_of(library),
    };
    let directory = program.parent().unwrap_or(Path::new("/"));
    let beside = all.iter().filter(is_of).filter_map(|launcher| launcher.in_directory(directory));
    let plain = all.iter().filter(is_of).cloned();
    let found = beside.chain(plain).find(Launcher::is_found);
    found.ok_or_else(|| {
        let of = name.map_or_else(|| format!("for {library}"), |name| format!("{name} for {library}"));
        HqError::failed(
            "no-launcher",
            format!("no launcher {of} was found, next to {} or in PATH", program.display()),
        )
        .hint(
            "install the launcher of the MPI library that mpi4py uses, or describe yours in launchers.toml; \
                `hq task mpirun --list` shows all",
        )
    })
}

fn parse(text: &str, path: &Path) -> Result<Vec<Launcher>, HqError> {
    let file: File = toml::from_str(text).map_err(|error| {
        HqError::failed("bad-input", format!("{} is not a valid list of launchers: {error}", path.display()))
    })?;
    let bad =
        file.launcher.iter().find(|launcher| launcher.args.is_empty() || launcher.probe.command.is_empty());
    match bad {
        Some(launcher) => {
            let text = format!("{}: launcher {} has no command", path.display(), launcher.name);
            Err(HqError::failed("bad-input", text))
        }
        None => Ok(file.launcher),
    }
}

impl Launcher {
    /// True when it may start programs of a library that calls itself so.
    fn is_of(&self, library: &str) -> bool {
        self.library.is_empty() || self.library.iter().any(|name| library.contains(name.as_str()))
    }

    /// The same one with its programs in this directory, if they are there.
    fn in_directory(&self, directory: &Path) -> Option<Launcher> {
        let mut there = self.clone();
        for word in [&mut there.probe.command[0], &mut there.args[0]] {
            let path = directory.join(&*word);
            *word = path.to_str().filter(|_| path.is_file())?.to_owned();
        }
        Some(there)
    }

    /// True when it is there: its variable is set, and its program answers as it should.
    pub(crate) fn is_found(&self) -> bool {
        let Probe { variable, command, holds } = &self.probe;
        if variable.as_ref().is_some_and(|name| std::env::var_os(name).is_none()) {
            return false;
        }
        let answer = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output();
        answer.is_ok_and(|answer| {
            let has = |text: &[u8]| String::from_utf8_lossy(text).contains(holds.as_str());
            has(&answer.stdout) || has(&answer.stderr)
        })
    }

    /// The whole command line for a program.
    pub(crate) fn command(&self, places: &Places, program: &[OsString]) -> Vec<OsString> {
        let args = self.args.iter().map(|arg| OsString::from(places.fill(arg)));
        args.chain(program.iter().cloned()).collect()
    }

    /// The variables that it wants and that nobody has set.
    pub(crate) fn variables(&self, places: &Places) -> Vec<(String, String)> {
        let unset = self.env.iter().filter(|(name, _)| std::env::var_os(name).is_none());
        unset.map(|(name, value)| (name.clone(), places.fill(value))).collect()
    }

    /// The content of its file of nodes.
    pub(crate) fn hosts(&self, places: &Places) -> Option<String> {
        let line = self.hostfile.as_ref()?;
        Some(places.hosts.iter().map(|host| places.fill(&line.replace("%{HOST}", host)) + "\n").collect())
    }
}

impl Places {
    fn fill(&self, text: &str) -> String {
        let (nodes, per_node) = (self.hosts.len() as u64, u64::from(self.ranks_per_node));
        let mut text = text.to_owned();
        for (name, value) in [
            ("%{HOSTFILE}", self.hostfile.clone()),
            ("%{HOSTS}", self.hosts.join(",")),
            ("%{NODES}", nodes.to_string()),
            ("%{RANKS}", (nodes * per_node).to_string()),
            ("%{RANKS_PER_NODE}", per_node.to_string()),
            ("%{CPUS_PER_RANK}", self.cpus_per_rank.clone()),
            ("%{AGENT}", self.agent.clone()),
        ] {
            text = text.replace(name, &value);
        }
        text
    }
}

/// What a shell executes that is given these words as ssh is: joined by blanks.
pub(crate) fn shell_text(words: &[OsString]) -> OsString {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    OsString::from_vec(words.join(&b' '))
}

/// Splits what an agent is called with: the node's name after options of ssh, and what to execute.
pub(crate) fn agent_words(words: &[OsString]) -> Option<(&OsStr, &[OsString])> {
    let at = words.iter().position(|word| !word.as_bytes().starts_with(b"-"))?;
    Some((&words[at], &words[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn places() -> Places {
        Places {
            hosts: vec!["n1".into(), "n2".into()],
            ranks_per_node: 4,
            cpus_per_rank: "2".into(),
            hostfile: "/t/hosts".into(),
            agent: "/t/agent".into(),
        }
    }

    #[test]
    fn what_comes_with_the_program_can_be_read_and_filled() {
        let launchers = parse(BUILTIN, Path::new("builtin.toml")).expect("the builtin launchers");
        let mut shown = String::new();
        for launcher in &launchers {
            let command = launcher.command(&places(), &["./a".into()]);
            let command: Vec<String> =
                command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert!(!command.join(" ").contains("%{"), "{command:?}");
            shown += &format!("{}: {}\n", launcher.name, command.join(" "));
            for (name, value) in launcher.variables(&places()) {
                assert!(!value.contains("%{"), "{name}={value}");
            }
        }
        insta::assert_snapshot!(shown);
        assert_eq!(launchers[0].hosts(&places()).as_deref(), Some("n1 slots=4\nn2 slots=4\n"));
    }

    #[test]
    fn a_launcher_is_of_the_mpi_whose_programs_it_starts() {
        let launchers = parse(BUILTIN, Path::new("builtin.toml")).expect("the builtin launchers");
        let of = |library: &str| -> Vec<&str> {
            let launchers = launchers.iter().filter(|launcher| launcher.is_of(library));
            launchers.map(|launcher| launcher.name.as_str()).collect()
        };
        assert_eq!(of("Open MPI v4.1.4, package: Debian")[..2], ["openmpi5", "openmpi4"]);
        assert_eq!(of("MPICH Version:      5.0.2")[..2], ["mpich", "pals"]);
        assert!(!of("Intel(R) MPI Library 2021.9").contains(&"openmpi4"));
        assert!(of("MPI VERSION    : CRAY MPICH version 8.1.9").contains(&"srun"));
    }

    #[test]
    fn one_beside_the_program_goes_first() {
        let place = tempfile::tempdir().expect("a directory");
        let launchers = parse(BUILTIN, Path::new("builtin.toml")).expect("the builtin launchers");
        let mpich =
            launchers.iter().find(|launcher| launcher.name == "mpich").expect("it comes with the program");
        assert_eq!(mpich.in_directory(place.path()), None);
        fs::write(place.path().join("mpiexec"), "").expect("a file");
        let there = mpich.in_directory(place.path()).expect("it is there");
        let path = place.path().join("mpiexec").display().to_string();
        assert_eq!((&there.args[0], &there.probe.command[0]), (&path, &path));
        let error =
            of_library(&[there], &place.path().join("python3"), "MPICH", None).expect_err("no program");
        assert!(error.text.starts_with("no launcher for MPICH was found, next to "), "{}", error.text);
    }

    #[test]
    fn an_agent_is_called_as_ssh_is() {
        let words: Vec<OsString> = ["-x", "-q", "n2", "echo", "a b"].map(OsString::from).to_vec();
        let (host, command) = agent_words(&words).expect("a host");
        assert_eq!((host, shell_text(command)), (OsStr::new("n2"), "echo a b".into()));
        assert_eq!(agent_words(&["-x".into()]), None);
    }

    #[test]
    fn a_file_of_the_user_is_checked() {
        let error = parse("[[launcher]]\nname = 3", Path::new("launchers.toml")).expect_err("no name");
        assert!(
            error.text.starts_with("launchers.toml is not a valid list of launchers: "),
            "{}",
            error.text
        );
    }
}
