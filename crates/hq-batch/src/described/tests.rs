//! Described managers against commands made of shell text.

use std::path::Path;

use super::*;
use crate::Manager;

fn manager(dir: &Path, commands: &str) -> Manager {
    let managers = dir.join("managers");
    fs::create_dir_all(&managers).expect("made");
    let text = format!(
        r##"{commands}
[header]
directive = "#X"
lines = []
"##
    );
    fs::write(managers.join("x.toml"), text).expect("written");
    Manager::find("x", dir).expect("it is whole")
}

const COMMANDS: &str = r##"
[submit]
command = ["sh", "-c", 'test -f "$0" && echo welcome && echo "Job <17> is submitted to <normal>."', "${script}"]
id = "Job <${id}>"
[status]
command = ["sh", "-c", 'echo "ID STAT"; echo "17 RUN"; echo "18 WHAT"; echo "19 EXIT"; echo "Job <20> is not found" >&2; echo "$@" >&2; exit 1', "stat", "${ids}"]
states = { RUN = "running", EXIT = "failed" }
gone = ["is not found", "17 18 19 20"]
[cancel]
command = ["sh", "-c", 'echo "$0: permission denied" >&2; exit 255', "${ids}"]
"##;

#[test]
fn a_described_manager_submits_answers_and_refuses() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = manager(dir.path(), COMMANDS);
    let request = AllocationRequest {
        name: "q".into(),
        workers: 1,
        cpus: None,
        time_limit: Duration::from_secs(61),
        directory: dir.path().join("001"),
        manager_args: Vec::new(),
        worker_args: vec!["true".into()],
        log_filter: None,
        start_command: None,
        stop_command: None,
        wrap_command: None,
        hold: false,
        after: None,
    };
    assert_eq!(manager.submit(&request).expect("it is taken"), "17");
    assert_eq!(fs::read_to_string(dir.path().join("001/jobid")).expect("written"), "17");
    let ids: Vec<String> = ["17", "18", "19", "20"].map(String::from).into();
    let states: Vec<_> = manager.states(&ids).expect("an answer").into_iter().collect();
    assert_eq!(
        states,
        [
            ("17".into(), BatchState::Running),
            ("18".into(), BatchState::Unknown("WHAT".into())),
            ("19".into(), BatchState::Failed("EXIT".into())),
        ]
    );
    let error = manager.cancel(&ids[..1]).expect_err("it refuses").to_string();
    assert!(error.ends_with("exit status 255: 17: permission denied"), "{error}");
    let held = AllocationRequest { hold: true, ..request.clone() };
    let error = manager.submit(&held).expect_err("nobody says how").to_string();
    assert!(error.contains("`header.hold`"), "{error}");
    let wanted = [("q".to_owned(), dir.path().join("001")), ("q".to_owned(), dir.path().join("002"))];
    let found = manager.find_submitted(&wanted).expect("an answer");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [("q".to_owned(), "17".to_owned())]);
}

#[test]
fn times_are_written_as_asked() {
    let check = |format, expected: &str| assert_eq!(time(Duration::from_secs(3661), format), expected);
    check(TimeFormat::Clock, "01:01:01");
    check(TimeFormat::HoursMinutes, "01:02");
    check(TimeFormat::Minutes, "62");
    check(TimeFormat::Seconds, "3661");
}
