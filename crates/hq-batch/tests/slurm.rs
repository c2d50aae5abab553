//! Against a real Slurm in a directory (`tests/slurm/`). Left out where Slurm is not installed.

#[path = "../../../tests/slurm/cluster.rs"]
mod cluster;
mod common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use cluster::Slurm;
use common::{Lab, until};
use hq_batch::{AllocationRequest, BatchError, BatchState, Manager};

fn manager(slurm: &Slurm) -> Manager {
    let manager = Manager::find("slurm", Path::new("/nonexistent")).expect("built in");
    manager.with_environment(variables(slurm))
}

fn variables(slurm: &Slurm) -> Vec<(OsString, OsString)> {
    vec![("SLURM_CONF".into(), slurm.conf().into())]
}

/// The cluster that most tests share.
static SHARED: LazyLock<Option<Slurm>> = LazyLock::new(|| Slurm::start(&[]));

fn state(manager: &Manager, id: &str) -> Option<BatchState> {
    manager.states(&[id.to_owned()]).expect("an answer").remove(id)
}

fn reaches(manager: &Manager, id: &str, wanted: &BatchState) {
    until(&format!("job {id} is {wanted:?}"), || {
        let seen = state(manager, id);
        (seen.as_ref() == Some(wanted)).then_some(()).ok_or(format!("{seen:?}"))
    });
}

#[test]
fn a_held_job_waits_is_found_again_and_is_cancelled() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let request = AllocationRequest { hold: true, ..lab.request("held", "true") };
    let id = manager.submit(&request).expect("it is taken");
    assert_eq!(state(&manager, &id), Some(BatchState::Held));
    assert_eq!(fs::read_to_string(request.directory.join("jobid")).expect("written"), id);
    let mode = fs::metadata(&request.directory).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "what a script holds is the user's alone");
    let wanted = [
        (request.name.clone(), request.directory.clone()),
        (request.name.clone(), lab.dir().to_owned()),
        ("other".to_owned(), request.directory.clone()),
    ];
    let found = manager.find_submitted(&wanted).expect("an answer");
    assert_eq!(found, BTreeMap::from([(request.name.clone(), id.clone())]));
    for _ in 0..2 {
        manager.cancel(std::slice::from_ref(&id)).expect("also of what has ended");
        reaches(&manager, &id, &BatchState::Cancelled);
    }
    let unknown = ["999999".to_owned(), id];
    assert_eq!(manager.states(&unknown).expect("an answer").len(), 1, "an unknown id is absent");
    assert!(manager.states(&unknown[..1]).expect("an answer").is_empty());
    manager.cancel(&unknown).expect("nothing is left to cancel");
}

#[test]
fn workers_run_on_each_node_with_their_arguments() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let odd: Vec<OsString> =
        vec!["it's".into(), "\"$HOME\"\n".into(), OsString::from_vec(vec![0xff, b'*']), OsString::new()];
    let mut request = AllocationRequest {
        workers: 2,
        manager_args: vec!["--comment".into(), r#"a "b" \c #d"#.into(), "--mem=100".into()],
        start_command: Some("export STARTED='on node'; date >/dev/null # fine".into()),
        stop_command: Some(format!("echo stopped >>'{}'/stop.$SLURM_PROCID", lab.dir().display())),
        wrap_command: Some("env FROM=wrap".into()),
        ..lab.request(
            "odd %j 'name'",
            r#"printf '%s\0' "$@" "$STARTED" "$FROM" >"$LAB/args.$SLURMD_NODENAME""#,
        )
    };
    request.worker_args.extend(odd.clone());
    let id = manager.submit(&request).expect("it is taken");
    reaches(&manager, &id, &BatchState::Finished);
    let expected = common::zero_ended(odd.into_iter().chain(["on node".into(), "wrap".into()]));
    let args = lab.files("args.");
    assert_eq!(args.len(), 2, "one worker per node: {:?}", args.keys());
    assert!(args.values().all(|seen| *seen == expected), "{args:?}");
    assert_eq!(lab.files("stop.").len(), 2, "each node stops");
    assert_eq!(hq_batch::exit_left(&request.directory), Some(0));
    assert!(request.directory.join("stdout").exists() && request.directory.join("stderr").exists());
    let comment = slurm.command("squeue", &["-h", "-t", "all", "-j", &id, "-o", "%k"]);
    assert_eq!(comment.trim_end(), r#"a "b" \c #d"#, "the header's quotes are Slurm's");
}

#[test]
fn a_directory_may_have_any_name() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let request = AllocationRequest {
        directory: lab.dir().join("a %j\\'\"b"),
        ..lab.request("dir", "echo \"said $1\"")
    };
    let id = manager.submit(&request).expect("it is taken");
    reaches(&manager, &id, &BatchState::Finished);
    assert_eq!(fs::read_to_string(request.directory.join("stdout")).expect("it is there"), "said \n");
}

#[test]
fn a_worker_that_fails_is_a_failed_job_and_stops_all_the_same() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let request = AllocationRequest {
        stop_command: Some(format!("echo >'{}'/stop.1", lab.dir().display())),
        ..lab.request("fails", "exit 7")
    };
    let id = manager.submit(&request).expect("it is taken");
    reaches(&manager, &id, &BatchState::Failed("NonZeroExitCode".into()));
    assert_eq!(lab.files("stop.").len(), 1);
    assert_eq!(hq_batch::exit_left(&request.directory), Some(7));
}

#[test]
fn cancelling_lets_workers_end_by_themselves_and_stop() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    for workers in [1, 2] {
        let worker = r#"trap 'read -t 0.5 <>"$LAB/never"; echo >"$LAB/term.$SLURM_JOB_NUM_NODES.${SLURM_PROCID-0}"; exit 0' TERM
            echo >"$LAB/up.$SLURM_JOB_NUM_NODES.${SLURM_PROCID-0}"; while :; do read -t 1 <>"$LAB/never"; done"#;
        let stop = format!("echo >'{}'/stop.$SLURM_JOB_NUM_NODES.${{SLURM_PROCID-0}}", lab.dir().display());
        let request = AllocationRequest {
            workers,
            stop_command: Some(stop),
            ..lab.request(&format!("cancelled-{workers}"), worker)
        };
        let id = manager.submit(&request).expect("it is taken");
        let count = |what: &str| lab.files(&format!("{what}.{workers}.")).len();
        until("the workers run", || {
            (count("up") == workers as usize).then_some(()).ok_or(format!("{} do", count("up")))
        });
        assert_eq!(state(&manager, &id), Some(BatchState::Running));
        // Behind our back.
        slurm.command("scancel", &[&id]);
        reaches(&manager, &id, &BatchState::Cancelled);
        assert_eq!((count("term"), count("stop")), (workers as usize, workers as usize), "{workers} workers");
    }
}

#[test]
fn what_slurm_refuses_is_said_in_its_words() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let check = |args: &[&str], minutes: u64, words: &str| {
        let request = AllocationRequest {
            manager_args: args.iter().map(OsString::from).collect(),
            time_limit: Duration::from_secs(60 * minutes),
            ..lab.request("refused", "true")
        };
        let error = manager.submit(&request).expect_err("it is refused");
        assert!(error.to_string().contains(words), "{error}");
        assert!(
            matches!(&error, BatchError::Refused { exit: Some(_), .. }) && !error.is_in_doubt(),
            "{error}"
        );
    };
    check(&["--partition=nope"], 5, "invalid partition specified: nope");
    check(&[], 9999, "Requested time limit is invalid");
    check(&["--nodes=77"], 5, "Batch job submission failed");
    check(&["--constraint=nope"], 5, "Invalid feature specification");
    check(&["--no-such-option"], 5, "--no-such-option");
    // What only a command line can carry reaches Slurm too.
    check(&["--partition=no\npe"], 5, "invalid partition specified: no");
}

#[test]
fn a_chained_job_waits_and_states_come_in_bulk() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let first = lab.request("first", r#"echo >"$LAB/up.1"; read -r <>"$LAB/never""#);
    let first = manager.submit(&first).expect("it is taken");
    let second = AllocationRequest { after: Some(first.clone()), ..lab.request("second", "true") };
    let second = manager.submit(&second).expect("it is taken");
    reaches(&manager, &first, &BatchState::Running);
    let ids = [first.clone(), second.clone(), "999999".to_owned()];
    let reports = manager.reports(&ids).expect("an answer");
    assert_eq!(reports[&second].state, BatchState::Queued);
    assert_eq!(reports[&second].reason.as_deref(), Some("Dependency"));
    assert_eq!(reports.len(), 2);
    slurm.command("scontrol", &["suspend", &first]);
    assert_eq!(state(&manager, &first), Some(BatchState::Suspended));
    slurm.command("scontrol", &["resume", &first]);
    manager.cancel(&[first]).expect("it is canceled");
    reaches(&manager, &second, &BatchState::Finished);
}

#[test]
fn a_partition_that_is_down_keeps_jobs_waiting_with_its_reason() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    let request =
        AllocationRequest { manager_args: vec!["--partition=down".into()], ..lab.request("down", "true") };
    let id = manager.submit(&request).expect("it is taken");
    until("the reason is known", || {
        let reports = manager.reports(std::slice::from_ref(&id)).expect("an answer");
        let report = format!("{:?}", reports[&id]);
        report.contains("Queued, reason: Some(\"PartitionDown\")").then_some(()).ok_or(report)
    });
    manager.cancel(&[id]).expect("it is canceled");
}

#[test]
fn nodes_are_described_before_the_first_job() {
    let Some(slurm) = &*SHARED else { return };
    let manager = manager(slurm);
    let shown = |args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        manager.node_shape(&args).map(|shape| {
            let mib = shape.memory_bytes.map(|bytes| bytes >> 20);
            format!("{} {mib:?} {:?} {:?}", shape.cpus, shape.gpus, shape.max_time)
        })
    };
    assert_eq!(shown(&[]).as_deref(), Some("4 Some(4096) [] Some(3600s)"));
    assert_eq!(
        shown(&["-p", "gpu", "--gres=gpu:1"]).as_deref(),
        Some("4 Some(4096) [(\"\", 1)] Some(1800s)")
    );
    assert_eq!(shown(&["-pgpu", "--exclusive"]).as_deref(), Some("4 Some(4096) [(\"\", 2)] Some(1800s)"));
    assert_eq!(shown(&["--partition=nope"]), None);
}

#[test]
fn a_lost_node_is_told_from_a_failure() {
    let Some(slurm) = &*SHARED else { return };
    let (manager, lab) = (manager(slurm), Lab::new());
    // The only node of its partition, so that no other test is disturbed.
    let request = AllocationRequest {
        manager_args: vec!["--partition=gpu".into()],
        ..lab.request("lost", r#"echo >"$LAB/up.1"; read -r <>"$LAB/never""#)
    };
    let id = manager.submit(&request).expect("it is taken");
    until("the worker runs", || (lab.files("up.").len() == 1).then_some(()).ok_or("it does not".into()));
    slurm.command("scontrol", &["update", "NodeName=node3", "State=DOWN", "Reason=test"]);
    reaches(&manager, &id, &BatchState::NodeFailed);
}

#[test]
fn a_controller_that_is_gone_is_waited_for_only_so_long() {
    let Some(slurm) = Slurm::start(&["--nodes", "1", "--gpu-nodes", "0"]) else { return };
    let lab = Lab::new();
    let id = manager(&slurm).submit(&lab.request("before", "true")).expect("it is taken");
    // What runs while its controller dies may be lost with it, by rights.
    reaches(&manager(&slurm), &id, &BatchState::Finished);
    slurm.tell("crash", &["head"]);
    let hasty = manager(&slurm).with_time_limit(Duration::from_secs(1));
    let error = hasty.states(std::slice::from_ref(&id)).expect_err("nobody answers");
    assert!(matches!(error, BatchError::TimedOut { .. }), "{error}");
    let error = hasty.submit(&lab.request("meanwhile", "true")).expect_err("nobody answers");
    assert!(error.is_in_doubt(), "{error}");
    slurm.tell("start", &["head"]);
    let id = manager(&slurm).submit(&lab.request("after", "true")).expect("it is taken");
    reaches(&manager(&slurm), &id, &BatchState::Finished);
    slurm.tell("down", &[]);
}

#[test]
fn a_submission_whose_answer_is_lost_is_found_again() {
    let Some(slurm) = &*SHARED else { return };
    let lab = Lab::new();
    let request = AllocationRequest { hold: true, ..lab.request("lost answer", "true") };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("sbatch"));
    let real = places.find(|path| path.is_file()).expect("installed");
    // Submits, then hangs; or submits, then answers nonsense.
    for (end, is_timeout) in [("exec sleep 600", true), ("echo welcome to the cluster", false)] {
        lab.program("sbatch", &format!("'{}' \"$@\" >/dev/null; {end}", real.display()));
        let mut variables = variables(slurm);
        variables.push(("PATH".into(), lab.path()));
        let manager = manager(slurm).with_environment(variables).with_time_limit(Duration::from_secs(5));
        let error = manager.submit(&request).expect_err("the answer is lost");
        assert!(error.is_in_doubt(), "{error}");
        assert_eq!(matches!(error, BatchError::TimedOut { .. }), is_timeout, "{error}");
        let wanted = [(request.name.clone(), request.directory.clone())];
        let id =
            manager.find_submitted(&wanted).expect("an answer").remove(&request.name).expect("it is found");
        assert_eq!(state(&manager, &id), Some(BatchState::Held));
        manager.cancel(&[id]).expect("it is canceled");
    }
}

#[test]
fn an_empty_list_of_jobs_is_not_believed_alone() {
    let Some(slurm) = &*SHARED else { return };
    let lab = Lab::new();
    lab.program("squeue", "");
    let mut variables = variables(slurm);
    variables.push(("PATH".into(), lab.path()));
    let manager = manager(slurm).with_environment(variables);
    let id = manager
        .submit(&AllocationRequest { hold: true, ..lab.request("silent", "true") })
        .expect("it is taken");
    let unknown = "4000000".to_owned();
    let states = manager.states(&[id.clone(), unknown]).expect("an answer");
    assert_eq!(states, BTreeMap::from([(id.clone(), BatchState::Held)]), "what nobody knows is absent");
    lab.program("scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    manager.states(std::slice::from_ref(&id)).expect_err("nothing is known");
    manager.cancel(&[id]).expect("it is canceled");
}

#[test]
fn a_missing_command_is_named() {
    let lab = Lab::new();
    let manager = Manager::find("slurm", Path::new("/nonexistent"))
        .expect("built in")
        .with_environment(vec![("PATH".into(), lab.dir().into())]);
    let missing = |error: BatchError| match error {
        BatchError::CommandMissing { command } => command,
        other => panic!("{other}"),
    };
    assert_eq!(missing(manager.submit(&lab.request("none", "true")).expect_err("missing")), "sbatch");
    assert_eq!(missing(manager.states(&["1".into()]).expect_err("missing")), "squeue");
    assert_eq!(missing(manager.cancel(&["1".into()]).expect_err("missing")), "scancel");
    assert_eq!(manager.node_shape(&[]), None);
}
