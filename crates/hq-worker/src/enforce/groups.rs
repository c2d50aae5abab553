//! Control groups of versions 1 and 2: where this worker can make some, those of its tasks, and what is left to remove.
//!
//! Version 1 has a tree for each controller. In version 2 a group that has processes of its own cannot hand controllers
//! to groups below it: the worker moves into a group beside those of its tasks, if it is alone in its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hq_model::Amount;
use hq_model::amount::UNITS;
use rustix::process::{Pid, Signal, kill_process};

use super::Enforce;
use crate::limits::{GROUP_REMOVAL_LIMIT, GROUP_REMOVAL_PAUSE};

const MOUNT: &str = "sys/fs/cgroup";
const PREFIX: &str = "hq-";
const PERIOD_US: u64 = 100_000;

/// Who is behind the files: the kernel, or nobody, in tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// The system's own.
    #[default]
    Real,
    /// Plain files: a group's files have to be removed with it.
    Fake,
}

/// The groups of one worker.
#[derive(Debug, Default)]
pub(super) struct Groups {
    root: PathBuf,
    kernel: Kernel,
    trees: Vec<Tree>,
    // Groups of ended tasks that something still ran in.
    left: Vec<PathBuf>,
    notes: Vec<String>,
}

// A tree in which groups are made.
#[derive(Debug)]
struct Tree {
    version: u8,
    // The worker's group for its tasks.
    own: PathBuf,
    memory: bool,
    cpu: bool,
    // Version 2: the group that the worker was in, when it moved itself out of it.
    moved_from: Option<PathBuf>,
}

// Where a process is, in one tree.
#[derive(Debug, PartialEq)]
struct Place {
    version: u8,
    controllers: Vec<String>,
    directory: PathBuf,
}

impl Groups {
    /// Makes a group of this process in each tree that is needed, as far as that is possible.
    pub(super) fn make(root: &Path, kernel: Kernel, enforce: Enforce, launcher: u32) -> Groups {
        let (trees, left, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups = Groups { root: root.into(), kernel, trees, left, notes };
        let own = std::process::id();
        let name = format!("{PREFIX}{own}-{}", birth(root, own).unwrap_or(0));
        for place in places(root) {
            groups.remove_stale(&place.directory);
            let has = |controller: &str| place.controllers.iter().any(|c| c == controller);
            let memory = enforce.memory && has("memory") && !groups.has_memory();
            let cpu = enforce.cpu && has("cpu") && !groups.has_cpu();
            if !memory && !cpu {
                continue;
            }
            let made = match place.version {
                1 => make_1(&place.directory, &name),
                _ => make_2(&place.directory, &name, [memory, cpu], [own, launcher]),
            };
            match made {
                Ok(moved_from) => groups.trees.push(Tree {
                    version: place.version,
                    own: place.directory.join(&name),
                    memory,
                    cpu,
                    moved_from,
                }),
                Err(why) => groups
                    .notes
                    .push(format!("cannot create control groups in {}: {why}", place.directory.display())),
            }
        }
        groups
    }

    /// What could not be made.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    pub(super) fn has_memory(&self) -> bool {
        self.trees.iter().any(|tree| tree.memory)
    }

    /// True where the kernel ends a single process of a task that is over its memory, and not all of them.
    pub(super) fn end_in_part(&self) -> bool {
        self.trees.iter().any(|tree| tree.memory && tree.version == 1)
    }

    pub(super) fn has_cpu(&self) -> bool {
        self.trees.iter().any(|tree| tree.cpu)
    }

    /// Makes the groups of a task. Gives their directories.
    pub(super) fn make_task(
        &self,
        name: &str,
        memory_bytes: Option<u64>,
        cpus: Option<Amount>,
    ) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let mut made = Vec::new();
        for tree in &self.trees {
            let memory = memory_bytes.filter(|_| tree.memory);
            let cpus = cpus.filter(|_| tree.cpu);
            if memory.is_none() && cpus.is_none() {
                continue;
            }
            let directory = tree.own.join(name);
            let result =
                make_dir(&directory).and_then(|()| set_limits(&directory, tree.version, memory, cpus));
            made.push(directory);
            if let Err(error) = result {
                let directory = made.last().cloned().unwrap_or_default();
                for directory in made {
                    let _ = remove(&directory, self.kernel);
                }
                return Err((directory, error));
            }
        }
        Ok(made)
    }

    /// Removes the groups of a task, now or as soon as nothing runs in them.
    pub(super) fn remove_task(&mut self, directories: Vec<PathBuf>) {
        self.left.extend(directories);
        let kernel = self.kernel;
        self.left.retain(|directory| {
            kill_all(directory);
            remove(directory, kernel).is_err()
        });
    }

    // Groups of workers that are not there any more.
    fn remove_stale(&self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| {
                let mut numbers = rest.trim_end_matches(".worker").split('-').map(str::parse::<u64>);
                Some((numbers.next()?.ok()? as u32, numbers.next()?.ok()?))
            });
            if let Some((pid, born)) = owner
                && birth(&self.root, pid) != Some(born)
            {
                remove_tree(&entry.path(), self.kernel);
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for tree in &self.trees {
            remove_tree(&tree.own, self.kernel);
            if let Some(group) = &tree.moved_from {
                // Only a group without controllers for those below it takes processes back.
                let _ = fs::write(group.join("cgroup.subtree_control"), "-memory -cpu");
                let _ = fs::write(group.join("cgroup.procs"), std::process::id().to_string());
                remove_tree(&tree.own.with_extension("worker"), self.kernel);
            }
        }
    }
}

// Where this process is, the tree of version 2 first.
fn places(root: &Path) -> Vec<Place> {
    let mount = root.join(MOUNT);
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut places = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_matches('/');
        // In a container the path may be that of the host: then the group that is mounted is the own one.
        let in_mount = |mount: PathBuf| {
            let group = mount.join(path);
            if path.is_empty() || !group.is_dir() { mount } else { group }
        };
        if controllers.is_empty() {
            let mounts = [mount.clone(), mount.join("unified")];
            for tree in mounts.into_iter().filter(|mount| mount.join("cgroup.controllers").exists()) {
                let directory = in_mount(tree);
                let known = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
                let controllers = known.split_whitespace().map(str::to_owned).collect();
                places.insert(0, Place { version: 2, controllers, directory });
            }
            continue;
        }
        let names: Vec<String> = controllers.split(',').map(str::to_owned).collect();
        let mounts =
            std::iter::once(mount.join(controllers)).chain(names.iter().map(|name| mount.join(name)));
        if let Some(tree) = mounts.into_iter().find(|mount| mount.is_dir()) {
            places.push(Place { version: 1, controllers: names, directory: in_mount(tree) });
        }
    }
    places
}

fn make_1(group: &Path, name: &str) -> Result<Option<PathBuf>, String> {
    make_dir(&group.join(name)).map_err(|error| error.to_string())?;
    Ok(None)
}

// Gives the group that the worker has left for this.
fn make_2(group: &Path, name: &str, wanted: [bool; 2], own: [u32; 2]) -> Result<Option<PathBuf>, String> {
    let words = ["memory", "cpu"].into_iter().zip(wanted).filter(|(_, is_wanted)| *is_wanted);
    let order: Vec<String> = words.map(|(word, _)| format!("+{word}")).collect();
    let order = order.join(" ");
    let said = |error: io::Error| error.to_string();
    let control = group.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control).map_err(said)?;
    let is_enabled = |word: &str| enabled.split_whitespace().any(|one| one == &word[1..]);
    let mut moved_from = None;
    if !order.split(' ').all(is_enabled) {
        let inside = fs::read_to_string(group.join("cgroup.procs")).map_err(said)?;
        let strangers =
            inside.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| !own.contains(pid));
        let strangers = strangers.count();
        if strangers > 0 {
            return Err(format!(
                "{strangers} other processes are in it (start the worker in a group of its own)"
            ));
        }
        let beside = group.join(name).with_extension("worker");
        make_dir(&beside).map_err(said)?;
        for pid in own {
            fs::write(beside.join("cgroup.procs"), pid.to_string()).map_err(said)?;
        }
        moved_from = Some(group.to_owned());
        fs::write(&control, &order).map_err(said)?;
    }
    let made = make_dir(&group.join(name));
    made.and_then(|()| fs::write(group.join(name).join("cgroup.subtree_control"), &order)).map_err(said)?;
    Ok(moved_from)
}

fn set_limits(directory: &Path, version: u8, memory: Option<u64>, cpus: Option<Amount>) -> io::Result<()> {
    let quota = |cpus: Amount| (cpus.0.saturating_mul(PERIOD_US) / UNITS).max(1000);
    let set = |name: &str, value: String| fs::write(directory.join(name), value);
    if let Some(bytes) = memory {
        let (limit, swap) = match version {
            1 => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes.to_string())),
            _ => ("memory.max", ("memory.swap.max", "0".to_owned())),
        };
        set(limit, bytes.to_string())?;
        // Where swap is not accounted, there is nothing to forbid.
        let _ = set(swap.0, swap.1);
        if version != 1 {
            // A task that is over ends as a whole.
            let _ = set("memory.oom.group", "1".into());
        }
    }
    match (cpus, version) {
        (None, _) => Ok(()),
        (Some(cpus), 1) => {
            set("cpu.cfs_period_us", PERIOD_US.to_string())?;
            set("cpu.cfs_quota_us", quota(cpus).to_string())
        }
        (Some(cpus), _) => set("cpu.max", format!("{} {PERIOD_US}", quota(cpus))),
    }
}

/// The most memory that a group used, when the kernel killed something in it for that.
pub(super) fn killed_for_memory(directory: &Path) -> Option<u64> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let kills = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
    };
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let killed = text("memory.events").or_else(|| text("memory.oom_control")).and_then(kills)?;
    let used = number("memory.peak").or_else(|| number("memory.max_usage_in_bytes"));
    (killed > 0).then(|| used.or_else(|| number("memory.max")).unwrap_or(0))
}

fn make_dir(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn remove(directory: &Path, kernel: Kernel) -> io::Result<()> {
    let removed = match kernel {
        Kernel::Real => fs::remove_dir(directory),
        Kernel::Fake => fs::remove_dir_all(directory),
    };
    crate::prepare::ignore_missing(removed)
}

/// Ends whatever runs in a group.
pub(super) fn kill_all(directory: &Path) {
    let inside = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let pids = inside.lines().filter_map(|line| line.trim().parse::<i32>().ok()).filter(|pid| *pid > 1);
    for pid in pids.filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

// A worker's group with all that is below it, the killed processes in them included.
fn remove_tree(directory: &Path, kernel: Kernel) {
    let deadline = Instant::now() + GROUP_REMOVAL_LIMIT;
    let mut below: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    below.push(directory.to_owned());
    for group in below {
        while remove(&group, kernel).is_err() {
            kill_all(&group);
            if Instant::now() > deadline {
                return;
            }
            std::thread::sleep(GROUP_REMOVAL_PAUSE);
        }
    }
}

// When a process was made, in ticks since the system's start; with its number that names it for good.
fn birth(root: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read(root.join(format!("proc/{pid}/stat"))).ok()?;
    let end = stat.iter().rposition(|b| *b == b')')?;
    String::from_utf8_lossy(&stat[end + 1..]).split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Enforce = Enforce { memory: true, cpu: true };

    // A node with these files below its root.
    fn node(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn read(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(path)).unwrap_or_else(|error| format!("{error}"))
    }

    fn names(root: &Path, path: &str) -> Vec<String> {
        let entries = fs::read_dir(root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with(PREFIX));
        names.sort();
        names
    }

    #[test]
    fn version_2_where_the_worker_is_alone_in_its_group() {
        let own = std::process::id();
        let procs = format!("{own}\n77\n");
        let root = node(&[
            ("proc/self/cgroup", "0::/user/job\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
            ("sys/fs/cgroup/user/job/cgroup.controllers", "cpu memory pids\n"),
            ("sys/fs/cgroup/user/job/cgroup.subtree_control", "\n"),
            ("sys/fs/cgroup/user/job/cgroup.procs", &procs),
            ("sys/fs/cgroup/user/job/hq-4000000000-5/task-1-1-0/memory.max", "1"),
            ("sys/fs/cgroup/user/job/hq-4000000000-5.worker/memory.max", "1"),
        ]);
        let mut groups = Groups::make(root.path(), Kernel::Fake, BOTH, 77);
        assert_eq!(groups.take_notes(), Vec::<String>::new());
        assert!(groups.has_memory() && groups.has_cpu());
        let job = "sys/fs/cgroup/user/job";
        let mine = format!("hq-{own}-0");
        assert_eq!(
            names(root.path(), job),
            [mine.clone(), format!("{mine}.worker")],
            "the stale one is gone"
        );
        assert_eq!(read(root.path(), &format!("{job}/cgroup.subtree_control")), "+memory +cpu");
        assert_eq!(read(root.path(), &format!("{job}/{mine}/cgroup.subtree_control")), "+memory +cpu");
        assert_eq!(
            read(root.path(), &format!("{job}/{mine}.worker/cgroup.procs")),
            "77",
            "the last one to move"
        );
        let made = groups.make_task("task-1-2-0", Some(64 << 20), Some(Amount(15_000))).expect("groups");
        let task = format!("{job}/{mine}/task-1-2-0");
        assert_eq!(made, [root.path().join(&task)]);
        for (file, value) in [
            ("memory.max", "67108864"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("cpu.max", "150000 100000"),
        ] {
            assert_eq!(read(root.path(), &format!("{task}/{file}")), value, "{file}");
        }
        assert_eq!(killed_for_memory(&made[0]), None);
        fs::write(made[0].join("memory.events"), "oom 3\noom_kill 1\n").expect("a file");
        assert_eq!(killed_for_memory(&made[0]), Some(64 << 20));
        fs::write(made[0].join("memory.peak"), "67000000\n").expect("a file");
        assert_eq!(killed_for_memory(&made[0]), Some(67_000_000));
        groups.remove_task(made);
        drop(groups);
        assert_eq!(names(root.path(), job), Vec::<String>::new());
    }

    #[test]
    fn version_2_beside_other_processes_is_left_alone() {
        let root = node(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", ""),
            ("sys/fs/cgroup/cgroup.procs", "1\n2\n"),
        ]);
        let mut groups = Groups::make(root.path(), Kernel::Fake, BOTH, 77);
        assert!(!groups.has_memory() && !groups.has_cpu());
        let notes = groups.take_notes().concat();
        assert!(notes.contains("2 other processes are in it"), "{notes}");
        assert_eq!(
            groups.make_task("task-1-2-0", Some(1), None).expect("nothing to make"),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let root = node(&[
            ("proc/self/cgroup", "9:memory:/slurm/job_7\n4:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", ""),
            ("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n"),
        ]);
        let groups = Groups::make(root.path(), Kernel::Fake, BOTH, 77);
        let made = groups.make_task("task-1-2-0", Some(1 << 20), Some(Amount::whole(2))).expect("groups");
        let of = |path: &str| root.path().join(format!("{path}/hq-{}-0/task-1-2-0", std::process::id()));
        assert_eq!(made, [of("sys/fs/cgroup/memory/slurm/job_7"), of("sys/fs/cgroup/cpu,cpuacct")]);
        assert_eq!(fs::read_to_string(made[0].join("memory.limit_in_bytes")).expect("a limit"), "1048576");
        assert_eq!(fs::read_to_string(made[1].join("cpu.cfs_quota_us")).expect("a limit"), "200000");
        let only_memory = groups.make_task("task-1-3-0", Some(1 << 20), None).expect("groups");
        assert_eq!(only_memory.len(), 1);
    }

    #[test]
    fn nothing_can_be_made_where_there_is_nothing() {
        let root = node(&[]);
        let groups = Groups::make(root.path(), Kernel::Fake, BOTH, 77);
        assert!(!groups.has_memory() && !groups.has_cpu());
    }
}
