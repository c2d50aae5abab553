//! `hq task mpirun` and `hq task agent`: a task starts its ranks.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::{Context, Done};
use crate::cli::task::{AgentArgs, MpirunArgs};
use crate::error::HqError;
use crate::launchers::{self, DIRECT, Launcher, Places};
use crate::ranks::{self, Program};
use crate::report::{LauncherList, LauncherRow};

pub(super) fn mpirun(_context: &Context, args: MpirunArgs) -> Result<Done, HqError> {
    let launchers = launchers::all()?;
    if args.list {
        return Done::ok(list(&launchers));
    }
    if args.command.is_empty() {
        return Err(HqError::usage("no program to start: give it after the options"));
    }
    let mut places = places()?;
    if let Some(program) = &args.beside {
        let library = args.library.as_deref().unwrap_or_default();
        let launcher = launchers::of_library(&launchers, program, library, args.launcher.as_deref())?;
        if launcher.hostfile.is_some() && places.hosts.len() == 1 {
            // It starts nothing elsewhere: no name has to be known for that.
            places.hosts = vec!["localhost".into()];
        }
        return become_launcher(&launcher, places, &args.command);
    }
    let name = match args.launcher.as_deref() {
        Some(DIRECT) => DIRECT,
        Some(name) => name,
        None => launchers.iter().find(|one| one.is_found()).map_or(DIRECT, |found| found.name.as_str()),
    };
    if name == DIRECT {
        let program = Program {
            args: args.command,
            nodes: places.hosts,
            ranks_per_node: places.ranks_per_node,
            start_timeout: args.start_timeout,
        };
        let exit = ranks::start(program)?;
        return Ok(Done::ok(crate::report::Nothing)?.exit(exit));
    }
    let Some(launcher) = launchers.iter().find(|one| one.name == name) else {
        let known: Vec<&str> = launchers.iter().map(|one| one.name.as_str()).chain([DIRECT]).collect();
        let text = format!("there is no launcher {name}; known launchers are {}", known.join(", "));
        return Err(HqError::usage(text));
    };
    become_launcher(launcher, places, &args.command)
}

pub(super) fn agent(args: AgentArgs) -> Result<Done, HqError> {
    let Some((host, command)) = launchers::agent_words(&args.words) else {
        return Err(HqError::usage("give the name of a node and a command"));
    };
    let host = host.to_string_lossy();
    let hosts = places()?.hosts;
    let Some(node) = hosts.iter().position(|known| *known == host) else {
        let text = format!("{host} is not a node of this task; its nodes are {}", hosts.join(", "));
        return Err(HqError::failed("no-node", text));
    };
    let exit = ranks::run_on(node as u32, launchers::shell_text(command))?;
    Ok(Done::ok(crate::report::Nothing)?.exit(exit))
}

fn list(launchers: &[Launcher]) -> LauncherList {
    let row = |launcher: &Launcher| LauncherRow {
        name: launcher.name.clone(),
        about: launcher.about.clone(),
        rank: launcher.rank.clone(),
        is_found: launcher.is_found(),
        is_verified: launcher.verified,
    };
    let direct = LauncherRow {
        name: DIRECT.into(),
        about: "The workers start the ranks themselves".into(),
        rank: "HQ_RANK".into(),
        is_found: true,
        is_verified: true,
    };
    LauncherList(launchers.iter().map(row).chain([direct]).collect())
}

// Where the ranks go: names of nodes as launchers need them, each once.
fn places() -> Result<Places, HqError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let file = variable("HQ_NODE_FILE").ok_or_else(|| {
        HqError::usage(
            "HQ_NODE_FILE is not set: this works only inside a task with --nodes or --ranks-per-node",
        )
    })?;
    let text = fs::read_to_string(&file).map_err(|error| {
        HqError::failed("io", format!("the list of nodes {file} cannot be read: {error}"))
    })?;
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_known_before = |at: usize| names[..at].contains(&names[at]);
    // Several workers on one node: launchers must tell them apart, and need not know what they are called.
    let hosts = if (0..names.len()).any(is_known_before) {
        (0..names.len()).map(|at| format!("hq-node-{at}")).collect()
    } else {
        names
    };
    let ranks_per_node = variable("HQ_RANKS_PER_NODE").and_then(|ranks| ranks.parse().ok()).unwrap_or(1);
    let cpus = variable("HQ_CPUS_PER_RANK").unwrap_or_default();
    let cpus = cpus.split(['.', ' ']).next().filter(|cpus| cpus.parse::<u32>().is_ok_and(|cpus| cpus > 0));
    let cpus_per_rank = cpus.unwrap_or("1").to_owned();
    Ok(Places { hosts, ranks_per_node, cpus_per_rank, ..Places::default() })
}

fn become_launcher(launcher: &Launcher, mut places: Places, program: &[OsString]) -> Result<Done, HqError> {
    // Beside the list of nodes, which goes with the task.
    let dir = std::env::var_os("HQ_NODE_FILE").map(PathBuf::from).unwrap_or_default();
    let dir = dir.with_file_name(format!("mpirun-{}", std::process::id()));
    let write = || -> io::Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(&dir)?;
        let (agent, hostfile) = (dir.join("agent"), dir.join("hosts"));
        let hq = std::env::current_exe()?.into_os_string().into_vec();
        let quoted = shlex::bytes::try_quote(&hq).map_err(io::Error::other)?.into_owned();
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&agent)?;
        file.write_all(&[b"#!/bin/sh\nexec ", &quoted[..], b" task agent \"$@\"\n"].concat())?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o700))?;
        fs::write(&hostfile, launcher.hosts(&places).unwrap_or_default())?;
        Ok((agent, hostfile))
    };
    let (agent, hostfile) = write().map_err(|error| {
        let text = format!(
            "the list of nodes for {} cannot be written to {}: {error}",
            launcher.name,
            dir.display()
        );
        HqError::failed("io", text)
    })?;
    places.agent = agent.to_string_lossy().into_owned();
    places.hostfile = hostfile.to_string_lossy().into_owned();
    let words = launcher.command(&places, program);
    let error = Command::new(&words[0]).args(&words[1..]).envs(launcher.variables(&places)).exec();
    let text = format!("{} cannot be executed: {error}", words[0].to_string_lossy());
    Err(HqError::failed("no-launcher", text)
        .hint("`hq task mpirun --list` shows the launchers available here"))
}
