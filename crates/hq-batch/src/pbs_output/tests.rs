//! Tables over what PBS prints.

use serde_json::json;

use super::*;
use crate::script::words;

fn output(text: &str) -> Output {
    Output { command: "qstat".into(), exit: Some(0), stdout: text.into(), stderr: Vec::new() }
}

fn state(job: &Value) -> String {
    let report = report(job.as_object().expect("an object"));
    let hopeless = if report.is_hopeless { " hopeless" } else { "" };
    format!("{:?}{hopeless}", report.state)
}

#[test]
fn every_state_has_a_meaning() {
    for (job, expected) in [
        (json!({"job_state": "Q"}), "Queued"),
        (
            json!({"job_state": "Q", "comment": "Can Never Run: Insufficient amount of resource: ncpus"}),
            "Queued hopeless",
        ),
        (json!({"job_state": "Q", "comment": "Not Running: Not enough free nodes available"}), "Queued"),
        (json!({"job_state": "T"}), "Queued"),
        (json!({"job_state": "W"}), "Queued"),
        (json!({"job_state": "H", "substate": 20}), "Held"),
        (json!({"job_state": "H", "substate": 22}), "Queued"),
        (json!({"job_state": "R", "substate": 42}), "Running"),
        (json!({"job_state": "B"}), "Running"),
        (json!({"job_state": "E"}), "Running"),
        (json!({"job_state": "S"}), "Suspended"),
        (json!({"job_state": "U"}), "Suspended"),
        (json!({"job_state": "X", "Exit_status": 0}), "Finished"),
        (json!({"job_state": "M"}), "Unknown(\"M (moved to another server)\")"),
        (json!({"job_state": "F", "Exit_status": 0, "substate": 92}), "Finished"),
        (json!({"job_state": "F", "Exit_status": "0"}), "Finished"),
        // Its script ends in order when it is told to.
        (json!({"job_state": "F", "Exit_status": 0, "substate": 91}), "Cancelled"),
        (json!({"job_state": "F", "Exit_status": 0, "substate": 93}), "TimedOut"),
        (json!({"job_state": "F", "Exit_status": 3, "substate": 93}), "Failed(\"exit status 3\")"),
        (json!({"job_state": "F", "Exit_status": 271, "substate": 91}), "Cancelled"),
        (json!({"job_state": "F", "substate": 91}), "Cancelled"),
        (json!({"job_state": "F", "Exit_status": -29, "substate": 93}), "TimedOut"),
        (json!({"job_state": "F", "Exit_status": 271, "substate": 93}), "TimedOut"),
        (json!({"job_state": "F", "Exit_status": -27, "substate": 93}), "OutOfMemory"),
        (json!({"job_state": "F", "Exit_status": -20}), "NodeFailed"),
        (json!({"job_state": "F", "Exit_status": 265, "substate": 92}), "Failed(\"signal 9\")"),
        (json!({"job_state": "F", "Exit_status": -3}), "Failed(\"PBS could not run it (Exit_status -3)\")"),
        (json!({"job_state": "F", "Exit_status": 271, "comment": "Job preempted by 7.pbs0"}), "Preempted"),
        (json!({"job_state": "Z"}), "Unknown(\"Z\")"),
        (json!({}), "Unknown(\"\")"),
    ] {
        assert_eq!(state(&job), expected, "{job}");
    }
}

#[test]
fn what_was_granted_is_told_by_the_server() {
    let granted =
        |list: Value| granted("1.pbs0", json!({"Resource_List": list}).as_object().expect("an object"));
    let one = granted(json!({"ncpus": 1, "nodect": 1, "select": 1, "walltime": "00:00:20"}));
    assert_eq!((one.nodes, one.cpus, one.time_limit), (Some(1), Some(1), Some(Duration::from_secs(20))));
    let two = granted(json!({"ncpus": 8, "nodect": 2, "ngpus": 2, "mem": "8gb", "place": "scatter:excl"}));
    assert_eq!(
        (two.nodes, two.cpus, two.memory_bytes, two.is_whole),
        (Some(2), Some(4), Some(4 << 30), true)
    );
    assert_eq!(two.gpus, [(String::new(), 1)]);
    let asked = |text: &str| nodes_asked(&asked_resources(&words(&["-l", text])));
    for (text, nodes) in [
        ("select=2:ncpus=4", Some(2)),
        ("select=2:ncpus=4+1:ncpus=8", Some(3)),
        ("select=ncpus=4", Some(1)),
        ("nodes=3:ppn=2", Some(3)),
        ("nodes=pbs1+pbs2", None),
        ("walltime=60", None),
    ] {
        assert_eq!(asked(text), nodes, "{text}");
    }
}

const QSTAT: &str = r#"{
    "timestamp":1795228047,
    "pbs_version":"23.06.06",
    "pbs_server":"pbs0",
    "Jobs":{
        "0.pbs0":{
            "Job_Name":"hq-1-1",
            "Job_Owner":"u@login",
            "job_state":"R",
            "queue":"workq",
            "exec_vnode":"(pbs1:ncpus=2)+(pbs2:ncpus=2)",
            "Resource_List":{
                "ncpus":4,
                "walltime":"00:01:00"
            },
            "Variable_List":{
                "PBS_O_WORKDIR":"/home/u/001",
                "PROMPT":"BROKEN"
            }
        },
        "12[].pbs0":{
            "Job_Name":"sweep",
            "job_state":"B",
            "Output_Path":"login:/home/u/002/stdout"
        }
    }
}"#;

#[test]
fn jobs_are_read_also_from_what_is_almost_json() {
    for text in [QSTAT.to_owned(), QSTAT.replace("BROKEN", "\\u@\"$\t\"")] {
        let jobs = jobs(&output(&text)).expect("it is understood");
        let shown: Vec<_> =
            jobs.iter().map(|(id, job)| format!("{id} {}", state(&Value::Object(job.clone())))).collect();
        assert_eq!(shown, ["0.pbs0 Running", "12[].pbs0 Running"]);
    }
    let empty = r#"{"timestamp":1,"pbs_version":"23.06.06","pbs_server":"pbs0"}"#;
    assert!(jobs(&output(empty)).expect("no jobs").is_empty());
    assert!(jobs(&output("")).expect("nothing").is_empty());
    assert!(matches!(jobs(&output("<html>")), Err(BatchError::NotUnderstood { .. })));
    assert!(matches!(jobs(&output("[1]")), Err(BatchError::NotUnderstood { .. })));
}

#[test]
fn lost_submissions_are_found_by_name_and_directory() {
    let key = |name: &str, directory: &str| (name.to_owned(), PathBuf::from(directory));
    let jobs = jobs(&output(QSTAT)).expect("it is understood");
    let wanted = [key("hq-1-1", "/home/u/001"), key("hq-1-1", "/home/u/009"), key("sweep", "/home/u/002")];
    let found: Vec<_> = named(&jobs, &wanted).into_values().collect();
    assert_eq!(found, ["0.pbs0", "12[].pbs0"]);
}

#[test]
fn ids_are_recognised() {
    for (text, is) in [
        ("12.pbs0", true),
        ("12[].pbs0", true),
        ("12", true),
        ("12.pbs0.site.example", true),
        ("pbs0", false),
        ("", false),
        ("12 pbs0", false),
        ("12.", false),
        ("qsub: waiting for 12.pbs0", false),
    ] {
        assert_eq!(is_id(text), is, "{text}");
    }
    assert!(is_same_id("12.pbs0", "12.pbs0.site"));
    assert!(is_same_id("12", "12.pbs0"));
    assert!(!is_same_id("12.pbs0", "12.pbs01"));
    assert!(!is_same_id("12.pbs0", "13.pbs0"));
}

#[test]
fn what_is_asked_for_is_the_shape() {
    let check = |args: &[&str], expected: &str| {
        let shape = asked_shape(&asked_resources(&words(args)));
        let shown = shape.map(|shape| {
            let gib = shape.memory_bytes.map(|bytes| bytes >> 30);
            format!("{} {gib:?} {:?}", shape.cpus, shape.gpus)
        });
        assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{args:?}");
    };
    check(&["-l", "select=2:ncpus=36:mem=96gb:ngpus=4,walltime=60"], "36 Some(96) [(\"\", 4)]");
    check(&["-lselect=1:ncpus=8+1:ncpus=4"], "4 None []");
    check(&["-l", "select=2"], "none");
    check(&["-q", "gpu"], "none");
}

#[test]
fn virtual_nodes_of_a_host_are_one_node() {
    let vnode = |host: &str, state: &str, gpus: u32| {
        json!({"state": state, "resources_available":
            {"host": host, "vnode": host, "ncpus": 4, "mem": "8388608kb", "ngpus": gpus}})
    };
    let mut other = vnode("c", "free", 0);
    other["queue"] = json!("special");
    let document = json!({"nodes": {
        "a[0]": vnode("a", "free", 1),
        "a[1]": vnode("a", "job-busy", 1),
        "b[0]": vnode("b", "free", 1),
        "b[1]": vnode("b", "free", 2),
        "d": vnode("d", "down,offline", 0),
        "c": other,
    }});
    let answer = output(&document.to_string());
    let shape = least_node(&answer, Some("workq")).expect("a node");
    assert_eq!((shape.cpus, shape.memory_bytes, shape.gpus), (8, Some(16 << 30), vec![(String::new(), 2)]));
    assert_eq!(least_node(&answer, Some("special")).map(|shape| shape.cpus), Some(4));
    assert_eq!(least_node(&output("nothing"), None), None);
}

#[test]
fn a_queue_says_its_longest_time() {
    let answer = output(r#"{"Queue":{"workq":{"resources_max":{"walltime":"48:00:30"}}}}"#);
    assert_eq!(queue_time(&answer, "workq"), Some(Duration::from_secs(48 * 3600 + 30)));
    assert_eq!(queue_time(&answer, "other"), None);
}

#[test]
fn sizes_have_units() {
    for (text, expected) in [
        ("8388608kb", Some(8 << 30)),
        ("16gb", Some(16 << 30)),
        ("1024", Some(1024)),
        ("2mw", Some(16 << 20)),
        ("4w", Some(32)),
        ("many", None),
        ("1xb", None),
    ] {
        assert_eq!(bytes(text), expected, "{text}");
    }
}

#[test]
fn errors_that_only_say_it_is_over_are_none() {
    assert!(all_are_gone("qdel: Job has finished 0.pbs0\nqdel: Unknown Job Id 999.pbs0\n"));
    assert!(!all_are_gone("qdel: Unknown Job Id 9.pbs0\nqdel: Unauthorized Request  8.pbs0\n"));
    assert!(!all_are_gone(""));
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_printed_breaks_the_reading(
        text in r#"([0-9a-zA-Z|:;,.()+*_\[\]=\- \n\x00é"{}]{0,12}("Jobs":\{|\n"1.pbs0":\{\n|"job_state":|99999999999999999999)?){0,6}"#,
    ) {
        for text in [text.clone(), format!("{{\"Jobs\":{{\n{text}"), format!("{{\"nodes\":{{\"a\":{text}}}}}")] {
            for (_, job) in jobs(&output(&text)).unwrap_or_default() {
                report(&job);
            }
            let _ = (least_node(&output(&text), Some("q")), queue_time(&output(&text), "q"));
        }
        let _ = (is_id(&text), bytes(&text), is_same_id(&text, "1.pbs0"));
        let _ = asked_shape(&asked_resources(&words(&["-l", &text, "-lselect=", &text])));
    }
}
