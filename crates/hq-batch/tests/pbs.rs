//! Against a stand-in for PBS (`tests/pbs/`), whose commands answer as PBS's do. Needs Python.

mod common;
#[path = "../../../tests/pbs/stand_in.rs"]
mod stand_in;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use common::{Lab, until};
use hq_batch::{AllocationRequest, BatchError, BatchState, Manager};
use stand_in::Pbs;

fn manager(pbs: &Pbs, lab: &Lab) -> Manager {
    let variables = vec![("PATH".into(), pbs.path().into()), ("HOME".into(), lab.dir().into())];
    Manager::find("pbs", Path::new("/nonexistent")).expect("built in").with_environment(variables)
}

fn state(manager: &Manager, id: &str) -> Option<BatchState> {
    manager.states(&[id.to_owned()]).expect("an answer").remove(id)
}

fn reaches(manager: &Manager, id: &str, wanted: Option<&BatchState>) {
    until(&format!("job {id} is {wanted:?}"), || {
        let seen = state(manager, id);
        (seen.as_ref() == wanted).then_some(()).ok_or(format!("{seen:?}"))
    });
}

#[test]
fn a_held_job_waits_is_found_again_and_is_cancelled() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let request = AllocationRequest { hold: true, ..lab.request("held", "true") };
    let id = manager.submit(&request).expect("it is taken");
    assert_eq!(id, "0.pbs0");
    assert_eq!(state(&manager, &id), Some(BatchState::Held));
    let wanted =
        [(request.name.clone(), request.directory.clone()), ("other".to_owned(), request.directory.clone())];
    let found = manager.find_submitted(&wanted).expect("an answer");
    assert_eq!(found, BTreeMap::from([(request.name.clone(), id.clone())]));
    manager.cancel(std::slice::from_ref(&id)).expect("it is canceled");
    assert_eq!(state(&manager, &id), Some(BatchState::Cancelled));
    let ids = [id, "99.pbs0".to_owned()];
    manager.cancel(&ids).expect("also of what has ended or is unknown");
    assert_eq!(manager.states(&ids).expect("an answer").len(), 1, "an unknown id is absent");
}

#[test]
fn workers_run_once_per_node_with_their_arguments() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let odd: Vec<OsString> =
        vec!["it's".into(), "\"$HOME\"\n".into(), OsString::from_vec(vec![0xff, b'*']), OsString::new()];
    let worker = r#"printf '%s\0' "$@" "$STARTED" >"$LAB/args.$PBS_NODENUM""#;
    for (workers, args, nodes) in
        [(1, &[][..], &["0"][..]), (2, &["-l", "select=2:ncpus=2:mpiprocs=2"][..], &["0", "2"][..])]
    {
        let mut request = AllocationRequest {
            workers,
            manager_args: args.iter().map(OsString::from).collect(),
            start_command: Some("STARTED=yes; export STARTED; cat # reads nothing".into()),
            stop_command: Some(format!("echo >'{}'/stop.{workers}.$PBS_NODENUM", lab.dir().display())),
            ..lab.request(&format!("args-{workers}"), worker)
        };
        request.worker_args.extend(odd.clone());
        let id = manager.submit(&request).expect("it is taken");
        reaches(&manager, &id, Some(&BatchState::Finished));
        let expected = common::zero_ended(odd.iter().cloned().chain(["yes".into()]));
        for node in nodes {
            assert_eq!(
                lab.files(&format!("args.{node}")).into_values().next(),
                Some(expected.clone()),
                "{node}"
            );
        }
        assert_eq!(lab.files(&format!("stop.{workers}.")).len(), nodes.len());
        assert_eq!(hq_batch::exit_left(&request.directory), Some(0));
        assert!(request.directory.join("stdout").exists() && request.directory.join("stderr").exists());
    }
}

#[test]
fn ends_are_told_apart() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let fails = manager.submit(&lab.request("fails", "exit 7")).expect("it is taken");
    reaches(&manager, &fails, Some(&BatchState::Failed("exit status 7".into())));
    let long = r#"trap 'echo >"$LAB/term.1"; exit 0' TERM; echo >"$LAB/up.1"; while :; do read -t 1 <>"$LAB/never"; done"#;
    let late = AllocationRequest { time_limit: Duration::from_secs(1), ..lab.request("late", long) };
    let late = manager.submit(&late).expect("it is taken");
    reaches(&manager, &late, Some(&BatchState::TimedOut));
    fs::remove_file(lab.dir().join("up.1")).expect("it ran");
    let stop = format!("echo >'{}'/stop.1", lab.dir().display());
    let cancelled = AllocationRequest { stop_command: Some(stop), ..lab.request("cancelled", long) };
    let id = manager.submit(&cancelled).expect("it is taken");
    until("the worker runs", || (lab.files("up.").len() == 1).then_some(()).ok_or("it does not".into()));
    pbs.run("qdel", &[&id]);
    reaches(&manager, &id, Some(&BatchState::Cancelled));
    assert_eq!((lab.files("term.").len(), lab.files("stop.").len()), (1, 1), "both ended by themselves");
}

#[test]
fn every_release_tells_of_all_ids() {
    let old = ["--no-groups"];
    let new = ["--first-only"];
    let both = ["--first-only", "--no-groups"];
    let forgetful = ["--first-only", "--no-history"];
    for options in [&[][..], &old, &new, &both, &forgetful] {
        let Some(pbs) = Pbs::start(options) else { return };
        let lab = Lab::new();
        let manager = manager(&pbs, &lab);
        let request = |name: &str| AllocationRequest { hold: true, ..lab.request(name, "true") };
        let requests = ["one", "two", "three"].map(request);
        let mut ids: Vec<String> = requests.iter().map(|one| manager.submit(one).expect("taken")).collect();
        ids.push("99.pbs0".into());
        let states = manager.states(&ids).expect("an answer");
        assert_eq!(states.len(), 3, "{options:?}: {states:?}");
        assert!(states.values().all(|state| *state == BatchState::Held), "{states:?}");
        let wanted = requests.map(|one| (one.name, one.directory));
        assert_eq!(manager.find_submitted(&wanted).expect("an answer").len(), 3, "{options:?}");
    }
}

#[test]
fn who_is_away_has_not_said_that_nothing_is_there() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let request = AllocationRequest { hold: true, ..lab.request("away", "true") };
    let id = manager.submit(&request).expect("it is taken");
    fs::write(pbs.dir().join("down"), "").expect("written");
    manager.states(std::slice::from_ref(&id)).expect_err("no answer");
    manager.find_submitted(&[(request.name.clone(), request.directory.clone())]).expect_err("no answer");
    let error = manager.submit(&request).expect_err("nobody takes it");
    assert!(error.is_passing(), "{error}");
}

#[test]
fn without_history_the_end_is_what_the_script_left() {
    let Some(pbs) = Pbs::start(&["--no-history"]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let request = lab.request("forgotten", "exit 3");
    let id = manager.submit(&request).expect("it is taken");
    reaches(&manager, &id, None);
    assert_eq!(hq_batch::exit_left(&request.directory), Some(3));
    let held = AllocationRequest { hold: true, ..lab.request("held", "true") };
    let held_id = manager.submit(&held).expect("it is taken");
    assert_eq!(state(&manager, &held_id), Some(BatchState::Held));
    let wanted = [(held.name.clone(), held.directory.clone()), (request.name, request.directory)];
    let found = manager.find_submitted(&wanted).expect("an answer");
    assert_eq!(found.into_values().collect::<Vec<_>>(), [held_id]);
}

#[test]
fn what_pbs_refuses_is_said_in_its_words() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let check = |args: &[&str], minutes: u64, status: i32, words: &str| {
        let request = AllocationRequest {
            manager_args: args.iter().map(OsString::from).collect(),
            time_limit: Duration::from_secs(60 * minutes),
            ..lab.request("refused", "true")
        };
        match manager.submit(&request).expect_err("it is refused") {
            BatchError::Refused { exit, stderr, .. } => assert_eq!((exit, &*stderr), (Some(status), words)),
            other => panic!("{other}"),
        }
    };
    check(&["-q", "nope"], 5, 170, "qsub: Unknown queue");
    check(&["-l", "foo=1"], 5, 187, "qsub: Unknown resource Resource_List.foo");
    check(&["-l", "select=1:ngpus=1"], 5, 187, "qsub: Unknown resource: ngpus");
    check(&[], 999, 188, "qsub: Job violates queue and/or server resource limits");
    fs::write(pbs.dir().join("down"), "").expect("written");
    check(&[], 5, 162, "Connection refused\nqsub: cannot connect to server pbs0 (errno=15010)");
    assert!(matches!(manager.states(&["0.pbs0".into()]), Err(BatchError::Refused { .. })));
}

#[test]
fn what_waits_says_why_and_chains_hold() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let report = |id: &String| {
        let report = manager.reports(std::slice::from_ref(id)).expect("an answer").remove(id).expect("known");
        (report.state, report.is_hopeless)
    };
    let never = AllocationRequest {
        manager_args: vec!["-lselect=9".into(), "-lplace=scatter".into()],
        ..lab.request("never", "true")
    };
    let never = manager.submit(&never).expect("it is accepted all the same");
    assert_eq!(report(&never), (BatchState::Queued, true));
    let first = manager.submit(&lab.request("first", r#"read -r <>"$LAB/never""#)).expect("it is taken");
    let second = AllocationRequest { after: Some(first.clone()), ..lab.request("second", "true") };
    let second = manager.submit(&second).expect("it is taken");
    assert_eq!(report(&first), (BatchState::Running, false));
    assert_eq!(report(&second), (BatchState::Queued, false));
    manager.cancel(&[first, never]).expect("they are canceled");
    reaches(&manager, &second, Some(&BatchState::Finished));
}

#[test]
fn every_state_is_understood() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let lab = Lab::new();
    let manager = manager(&pbs, &lab);
    let held = AllocationRequest { hold: true, ..lab.request("odd", "true") };
    let id = manager.submit(&held).expect("it is taken");
    for (changes, expected) in [
        (&["job_state=T"][..], BatchState::Queued),
        (&["job_state=W"], BatchState::Queued),
        (&["job_state=S"], BatchState::Suspended),
        (&["job_state=U"], BatchState::Suspended),
        (&["job_state=B"], BatchState::Running),
        (&["job_state=E"], BatchState::Running),
        (&["job_state=X", "Exit_status=0"], BatchState::Finished),
        (&["job_state=F", "Exit_status=-27"], BatchState::OutOfMemory),
        (&["job_state=F", "Exit_status=-20"], BatchState::NodeFailed),
        (&["job_state=M"], BatchState::Unknown("M (moved to another server)".into())),
    ] {
        // A job that waits for its time is looked after by PBS: here its time is far away.
        let changes: Vec<&str> = changes.iter().copied().chain(["not_before=9999999999"]).collect();
        pbs.tell("set", &[&[id.as_str()][..], &changes].concat());
        assert_eq!(state(&manager, &id), Some(expected), "{changes:?}");
    }
}

#[test]
fn nodes_are_described_before_the_first_job() {
    let Some(pbs) = Pbs::start(&["--vnodes", "2", "--ngpus", "2"]) else { return };
    let lab = Lab::new();
    let shown = |args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        manager(&pbs, &lab).node_shape(&args).map(|shape| {
            let gib = shape.memory_bytes.map(|bytes| bytes >> 30);
            format!("{} {gib:?} {:?} {:?}", shape.cpus, shape.gpus, shape.max_time)
        })
    };
    assert_eq!(shown(&["-q", "workq"]).as_deref(), Some("1 Some(8) [] Some(3600s)"));
    assert_eq!(shown(&["-l", "place=excl"]).as_deref(), Some("4 Some(8) [(\"\", 2)] None"));
    assert_eq!(shown(&["-l", "select=1:ncpus=2:ngpus=1"]).as_deref(), Some("2 None [(\"\", 1)] None"));
}

#[test]
fn missing_commands_and_garbage_are_named() {
    let lab = Lab::new();
    let with_path = |path: OsString| {
        Manager::find("pbs", Path::new("/nonexistent"))
            .expect("built in")
            .with_environment(vec![("PATH".into(), path)])
    };
    let error = with_path(lab.dir().into()).submit(&lab.request("none", "true")).expect_err("missing");
    assert!(matches!(&error, BatchError::CommandMissing { command } if command == "qsub"), "{error}");
    lab.program("qsub", "echo Welcome; echo 'Have a nice day'");
    lab.program("qstat", "echo '<html>busy</html>'");
    let error = with_path(lab.path()).submit(&lab.request("garbage", "true")).expect_err("no id");
    assert!(matches!(error, BatchError::NotUnderstood { .. }) && error.is_in_doubt());
    let error = with_path(lab.path()).states(&["1.pbs0".into()]).expect_err("no answer");
    assert!(error.to_string().ends_with("`<html>busy</html>`"), "{error}");
}
