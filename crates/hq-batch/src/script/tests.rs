//! Scripts are read as snapshots, and run by a real shell with stand-ins for what starts on other nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::Manager;

fn manager(name: &str) -> Manager {
    Manager::find(name, Path::new("/nonexistent")).expect("it is built in or shipped")
}

fn request(directory: &Path) -> AllocationRequest {
    AllocationRequest {
        name: "hq-1-1".into(),
        workers: 1,
        cpus: None,
        time_limit: Duration::from_secs(5400),
        directory: directory.to_owned(),
        manager_args: Vec::new(),
        worker_args: words(&["/opt/hq", "worker", "start", "--time-limit", "1h 30m", "--manager", "slurm"]),
        log_filter: None,
        start_command: None,
        stop_command: None,
        wrap_command: None,
        hold: false,
        after: None,
    }
}

fn shown(name: &str, request: &AllocationRequest) -> String {
    String::from_utf8(manager(name).script(request).expect("a script")).expect("text")
}

fn full(request: AllocationRequest) -> AllocationRequest {
    AllocationRequest {
        workers: 2,
        manager_args: words(&["--partition=gpu", "-A", "it's #1"]),
        log_filter: Some("hq_worker=debug,warn".into()),
        start_command: Some("module load cuda # needed".into()),
        stop_command: Some("rm -rf \"$TMPDIR/x\"".into()),
        wrap_command: Some("numactl --localalloc".into()),
        hold: true,
        after: Some("41".into()),
        ..request
    }
}

#[test]
fn a_script_for_slurm() {
    let request = request(Path::new("/home/u/.hq/1/autoalloc/1/001"));
    insta::assert_snapshot!("slurm_one_node", shown("slurm", &request));
    insta::assert_snapshot!("slurm_two_nodes", shown("slurm", &full(request)));
}

#[test]
fn a_script_for_pbs() {
    let request = request(Path::new("/home/u/.hq/1/autoalloc/1/001"));
    insta::assert_snapshot!("pbs_one_node", shown("pbs", &request));
    insta::assert_snapshot!("pbs_two_nodes", shown("pbs", &full(request)));
}

#[test]
fn scripts_for_shipped_descriptions() {
    let request = request(Path::new("/home/u/.hq/1/autoalloc/1/001"));
    for name in ["flux", "lsf"] {
        let request = AllocationRequest { manager_args: words(&["-q", "debug"]), ..full(request.clone()) };
        insta::assert_snapshot!(format!("{name}_two_nodes"), shown(name, &request));
    }
    insta::assert_snapshot!("oar_one_node", shown("oar", &request));
    let error = manager("oar").script(&full(request)).expect_err("nobody says how").to_string();
    assert!(error.contains("`launch.prefix`"), "{error}");
}

#[test]
fn what_a_user_asks_for_replaces_ours() {
    let request = request(Path::new("/d"));
    let header = |args: &[&str], workers| {
        let script =
            shown("pbs", &AllocationRequest { manager_args: words(args), workers, ..request.clone() });
        script.lines().filter(|line| line.starts_with("#PBS -l")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        header(&["-l", "select=2:ncpus=4"], 2),
        "#PBS -l place=scatter; #PBS -l walltime=01:30:00; #PBS -l select=2:ncpus=4"
    );
    assert_eq!(
        header(&["-lselect=2,place=scatter:excl"], 2),
        "#PBS -l walltime=01:30:00; #PBS -lselect=2,place=scatter:excl"
    );
    assert_eq!(header(&["-l", "walltime=60"], 1), "#PBS -l select=1; #PBS -l walltime=60");
}

#[test]
fn what_workers_offer_is_asked_for_where_nothing_else_is() {
    let request = request(Path::new("/d"));
    let asked = |manager: &str, args: &[&str]| {
        let request = AllocationRequest { manager_args: words(args), cpus: Some(4), ..request.clone() };
        let script = shown(manager, &request);
        script.lines().filter(|line| line.contains("=4")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(asked("pbs", &["-q", "workq"]), "#PBS -l select=1:ncpus=4");
    assert_eq!(asked("pbs", &["-l", "select=1:ncpus=2"]), "");
    assert_eq!(asked("slurm", &["-p", "cpu"]), "#SBATCH --cpus-per-task=4");
    for own in ["-c2", "--cpus-per-task=2", "-n2", "--ntasks-per-node=2", "--exclusive"] {
        assert_eq!(asked("slurm", &[own]), "", "{own}");
    }
}

#[test]
fn what_a_script_leaves_tells_how_it_was_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(crate::left(dir.path()), crate::Left::Nothing);
    fs::write(begun_file(dir.path()), "").expect("written");
    assert_eq!(crate::left(dir.path()), crate::Left::Begun);
    for (text, status, was_signalled, was_late) in [
        ("0 \n", 0, false, false),
        ("3\n", 3, false, false),
        ("0 early\n", 0, true, false),
        ("0 late\n", 0, true, true),
    ] {
        fs::write(exit_file(dir.path()), text).expect("written");
        assert_eq!(crate::left(dir.path()), crate::Left::Ended { status, was_signalled, was_late }, "{text}");
    }
}

#[test]
fn arguments_that_no_header_carries_go_to_the_command_line() {
    let args = words(&["--comment", "two\nlines"]);
    assert_eq!(user_header("#SBATCH", &args, quote::slurm_header), (None, args.clone()));
    let args = words(&["--comment", "one line"]);
    let line = b"#SBATCH --comment \"one line\"".to_vec();
    assert_eq!(user_header("#SBATCH", &args, quote::slurm_header), (Some(line), vec![]));
}

#[test]
fn names_and_times_are_what_managers_take() {
    for (name, expected) in
        [("hq-1-1", "hq-1-1"), ("my queue/7", "my_queue_7"), ("-x", "hq-x"), ("é", "hq_"), ("", "hq")]
    {
        assert_eq!(job_name(name), expected);
    }
    assert_eq!(job_name(&"x".repeat(1000)).len(), limits::NAME_BYTES);
    for (millis, expected) in
        [(0, "00:00:01"), (59_001, "00:01:00"), (5_400_000, "01:30:00"), (360_000_000, "100:00:00")]
    {
        assert_eq!(clock(Duration::from_millis(millis)), expected);
    }
}

#[test]
fn options_are_found_as_getopt_finds_them() {
    let check = |args: &[&str], expected: Option<&str>| {
        assert_eq!(option_value(&words(args), Some('p'), Some("partition")).as_deref(), expected, "{args:?}");
    };
    check(&["-p", "gpu"], Some("gpu"));
    check(&["-pgpu"], Some("gpu"));
    check(&["--partition", "gpu"], Some("gpu"));
    check(&["--partition=cpu", "-p", "gpu"], Some("gpu"));
    check(&["--part", "gpu"], None);
    check(&["-c", "4"], None);
    check(&["-p"], None);
}

#[test]
fn a_zero_byte_is_refused() {
    let mut request = request(Path::new("/d"));
    request.stop_command = Some("a\0b".into());
    assert!(matches!(manager("slurm").script(&request), Err(BatchError::ZeroByte { .. })));
}

/// A directory with a worker that notes its arguments, and stand-ins for what starts on other nodes.
struct Node {
    dir: TempDir,
}

/// Notes arguments, and how it was ended; ends as it is told.
const WORKER: &str = r#"#!/bin/bash
printf '%s\0' "$@" >"$OUT/args"
echo worker >>"$OUT/log"
trap 'echo terminated >>"$OUT/log"; exit 9' TERM
if [ -n "$HANG" ]; then echo >"$READY"; while :; do read -r -t 1 <>"$OUT/fifo"; done; fi
exit "${EXIT:-0}"
"#;

/// Runs the command after its options as often as `--ntasks` says; the worst status is its own.
const SRUN: &str = r#"#!/bin/bash
echo "srun" >>"$OUT/log"
while [ "${1#-}" != "$1" ]; do case $1 in --ntasks=*) n=${1#*=} ;; esac; shift; done
worst=0
for _ in $(seq "$n"); do "$@"; s=$?; [ "$s" -le "$worst" ] || worst=$s; done
exit "$worst"
"#;

/// Runs a command for one line of the node file.
const PBSDSH: &str = r#"#!/bin/bash
[ "$1 $3" = "-n --" ] || exit 2
echo "pbsdsh $2" >>"$OUT/log"
shift 3
exec "$@"
"#;

impl Node {
    fn new() -> Node {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in [("worker", WORKER), ("srun", SRUN), ("pbsdsh", PBSDSH)] {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        fs::write(dir.path().join("nodes"), "a\na\nb\na\n").expect("written");
        Node { dir }
    }

    fn request(&self, worker_args: Vec<OsString>) -> AllocationRequest {
        let mut args = vec![self.dir.path().join("worker").into_os_string()];
        args.extend(worker_args);
        AllocationRequest { worker_args: args, ..request(self.dir.path()) }
    }

    fn command(&self, manager_name: &str, request: &AllocationRequest) -> Command {
        let script = self.dir.path().join("hq-submit.sh");
        fs::write(&script, manager(manager_name).script(request).expect("a script")).expect("written");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [self.dir.path().as_os_str().as_bytes(), b":", path.as_bytes()].concat();
        let mut command = Command::new("bash");
        command
            .arg(script)
            .env("PATH", OsString::from_vec(path.clone()))
            .env("BASH_ENV", "/dev/null")
            // A login shell reads the user's files; those here keep the path.
            .env("HOME", self.dir.path())
            .env("OUT", self.dir.path())
            .env("PBS_NODEFILE", self.dir.path().join("nodes"));
        command
    }

    fn run(&self, manager: &str, request: &AllocationRequest) -> Output {
        self.command(manager, request).output().expect("bash")
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(file)).unwrap_or_default()
    }

    fn log(&self) -> String {
        let text = String::from_utf8(self.read("log")).expect("text");
        text.lines().collect::<Vec<_>>().join(" ")
    }
}

fn zero_ended(words: &[OsString]) -> Vec<u8> {
    words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_worker_gets_its_arguments_byte_by_byte(
        args in proptest::collection::vec(
            proptest::collection::vec(1u8..=255, 0..12).prop_map(OsString::from_vec), 1..4),
        workers in 1u32..3,
    ) {
        let node = Node::new();
        let request = AllocationRequest { workers, ..node.request(args.clone()) };
        let expected = zero_ended(&args);
        for manager in ["slurm", "pbs"] {
            fs::remove_file(node.dir.path().join("args")).ok();
            let output = node.run(manager, &request);
            prop_assert_eq!(output.status.code(), Some(0), "{:?}", output);
            prop_assert_eq!(node.read("args"), expected.clone(), "{}: {:?}", manager, output);
        }
    }
}

#[test]
fn start_worker_and_stop_run_in_order_and_the_workers_status_is_kept() {
    let check = |start: &str, exit: &str, log: &str, status: i32| {
        for (manager, workers, wrapped) in [("slurm", 1, "env"), ("slurm", 2, "env"), ("pbs", 2, "FOO=1")] {
            let node = Node::new();
            // Nodes of PBS start side by side; one of them shows the order.
            fs::write(node.dir.path().join("nodes"), "a\na\n").expect("written");
            let request = AllocationRequest {
                workers,
                start_command: Some(start.into()),
                stop_command: Some("echo stop >>\"$OUT/log\"; false".into()),
                wrap_command: Some(wrapped.into()),
                ..node.request(words(&["a b"]))
            };
            let output = node.command(manager, &request).env("EXIT", exit).output().expect("bash");
            assert_eq!(output.status.code(), Some(status), "{manager} {workers} {start}: {output:?}");
            let seen = node.log();
            let times = if (manager, workers) == ("slurm", 2) { 2 } else { 1 };
            assert_eq!(seen.matches(log).count(), times, "{manager} {workers} {start}: {seen}");
            assert_eq!(crate::exit_left(node.dir.path()), Some(status));
        }
    };
    check("echo start >>\"$OUT/log\" # it's a comment", "0", "start worker stop", 0);
    check("echo start >>\"$OUT/log\"", "7", "start worker stop", 7);
    check("true;\nfalse", "0", "stop", 1);
    check("exit 5", "0", "stop", 5);
    check("set -e; true", "7", "worker stop", 7);
}

#[test]
fn on_pbs_each_node_starts_once_whatever_its_processes() {
    let node = Node::new();
    let request = AllocationRequest { workers: 2, ..node.request(words(&["x"])) };
    assert_eq!(node.run("pbs", &request).status.code(), Some(0));
    let mut log: Vec<_> = node.log().split(' ').map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["0", "2", "pbsdsh", "pbsdsh", "worker", "worker"]);
}

#[test]
fn a_signal_for_the_whole_job_ends_the_worker_and_then_stops() {
    use std::os::unix::process::CommandExt;
    let node = Node::new();
    let at = |name: &str| -> PathBuf { node.dir.path().join(name) };
    for fifo in ["fifo", "ready"] {
        assert!(Command::new("mkfifo").arg(at(fifo)).status().expect("mkfifo").success());
    }
    let request = AllocationRequest {
        stop_command: Some("echo stop >>\"$OUT/log\"".into()),
        ..node.request(words(&["x"]))
    };
    let mut child = node
        .command("slurm", &request)
        .env("HANG", "yes")
        .env("READY", at("ready"))
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("bash");
    fs::read(at("ready")).expect("the worker runs");
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(child.wait().expect("it ends").code(), Some(9));
    assert_eq!(node.log(), "worker terminated stop");
    let ended = crate::Left::Ended { status: 9, was_signalled: true, was_late: false };
    assert_eq!(crate::left(node.dir.path()), ended);
}
