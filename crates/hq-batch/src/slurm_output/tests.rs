//! Tables over what Slurm prints.

use super::*;
use crate::script::words;

fn output(text: &str) -> Output {
    Output { command: "squeue".into(), exit: Some(0), stdout: text.into(), stderr: Vec::new() }
}

fn one(text: &str) -> String {
    let reports = squeue(&output(text)).expect("it is understood");
    let shown = |report: &JobReport| {
        let hopeless = if report.is_hopeless { " hopeless" } else { "" };
        format!("{:?}{hopeless}", report.state)
    };
    reports.iter().map(|(id, report)| format!("{id} {}", shown(report))).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_waits_says_why_and_when_it_is_expected_to_start() {
    for (line, reason) in [
        (
            "1|PENDING|Resources|2026-11-24T10:00:00",
            Some("Resources, expected to start at 2026-11-24T10:00:00"),
        ),
        ("1|PENDING|PartitionDown|N/A", Some("PartitionDown")),
        (
            "1|PENDING|ReqNodeNotAvail, UnavailableNodes:node1|N/A",
            Some("ReqNodeNotAvail, UnavailableNodes:node1"),
        ),
        ("1|RUNNING|None|2026-11-24T10:00:00", None),
    ] {
        let report = squeue(&output(line)).expect("it is understood").remove("1").expect("job 1");
        assert_eq!(report.reason.as_deref(), reason, "{line}");
    }
}

#[test]
fn the_details_of_a_job_tell_its_state() {
    let line = "JobId=17 JobName=hq-1-1 UserId=me(1000) Priority=1 JobState=PENDING Reason=JobHeldUser Dependency=(null) \
                ExitCode=0:0 TimeLimit=00:05:00";
    let report = shown(line).expect("it is understood");
    assert_eq!((report.state, report.reason.as_deref()), (BatchState::Held, Some("JobHeldUser")));
    assert_eq!(shown("slurm_load_jobs error"), None);
}

#[test]
fn every_state_has_a_meaning() {
    for (line, expected) in [
        ("1|PENDING|Priority", "1 Queued"),
        ("1|PENDING|Dependency", "1 Queued"),
        ("1|PENDING|JobHeldUser", "1 Held"),
        ("1|PENDING|JobHeldAdmin", "1 Held"),
        ("1|PENDING|PartitionTimeLimit", "1 Queued hopeless"),
        ("1|PENDING|QOSMaxWallDurationPerJobLimit", "1 Queued hopeless"),
        ("1|PENDING|QOSMaxJobsPerUserLimit", "1 Queued"),
        ("1|PENDING|DependencyNeverSatisfied", "1 Queued hopeless"),
        ("1|PENDING|BeginTime", "1 Queued"),
        ("1|CONFIGURING|None", "1 Queued"),
        ("1|REQUEUED|None", "1 Queued"),
        ("1|REQUEUE_FED|None", "1 Queued"),
        ("1|REQUEUE_HOLD|None", "1 Held"),
        ("1|SPECIAL_EXIT|None", "1 Held"),
        ("1|RESV_DEL_HOLD|None", "1 Held"),
        ("1|RUNNING|None", "1 Running"),
        ("1|COMPLETING|None", "1 Running"),
        ("1|RESIZING|None", "1 Running"),
        ("1|SIGNALING|None", "1 Running"),
        ("1|STAGE_OUT|None", "1 Running"),
        ("1|SUSPENDED|None", "1 Suspended"),
        ("1|STOPPED|None", "1 Suspended"),
        ("1|COMPLETED|None", "1 Finished"),
        ("1|CANCELLED|None", "1 Cancelled"),
        ("1|REVOKED|None", "1 Cancelled"),
        ("1|FAILED|NonZeroExitCode", "1 Failed(\"NonZeroExitCode\")"),
        ("1|FAILED|None", "1 Failed(\"FAILED\")"),
        ("1|TIMEOUT|TimeLimit", "1 TimedOut"),
        ("1|DEADLINE|DeadLine", "1 TimedOut"),
        ("1|PREEMPTED|None", "1 Preempted"),
        ("1|NODE_FAIL|NodeDown", "1 NodeFailed"),
        ("1|BOOT_FAIL|None", "1 NodeFailed"),
        ("1|OUT_OF_MEMORY|OutOfMemory", "1 OutOfMemory"),
        ("1|SOMETHING|None", "1 Unknown(\"SOMETHING\")"),
    ] {
        assert_eq!(one(line), expected, "{line}");
    }
}

#[test]
fn parts_of_arrays_are_one_job_and_titles_are_none() {
    assert_eq!(
        one("27_[2-5%2]|PENDING|JobArrayTaskLimit\n27_1|RUNNING|None\n27_0|COMPLETED|None"),
        "27 Running"
    );
    assert_eq!(one("30+0|COMPLETED|None\n30+1|PENDING|Resources"), "30 Queued");
    assert_eq!(one("CLUSTER: a\n1|RUNNING|None\nCLUSTER: b\n\n"), "1 Running");
    assert_eq!(one(""), "");
    let error = squeue(&output("slurm is down for maintenance")).expect_err("it is not a table").to_string();
    assert!(error.contains("slurm is down for maintenance"), "{error}");
}

#[test]
fn accounting_tells_of_the_ended() {
    let reports =
        sacct("5|CANCELLED by 1000|0:15\n5.batch|CANCELLED|0:15\n6|FAILED|3:0\n7|OUT_OF_MEMORY|0:125\n");
    let shown: Vec<_> = reports.iter().map(|(id, report)| format!("{id} {:?}", report.state)).collect();
    assert_eq!(shown, ["5 Cancelled", "6 Failed(\"exit status 3:0\")", "7 OutOfMemory"]);
}

#[test]
fn the_id_is_a_number_whatever_else_is_printed() {
    for (line, expected) in [
        ("17", Some("17")),
        ("17;west", Some("17;west")),
        ("Submitted batch job 17", Some("17")),
        ("17;", None),
        ("", None),
        ("seventeen", None),
        ("-1", None),
        ("Submitted batch job", None),
    ] {
        assert_eq!(id(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn lost_submissions_are_found_by_name_and_directory() {
    let key = |name: &str, directory: &str| (name.to_owned(), PathBuf::from(directory));
    let text = b"4|hq-1-1|/a/001\n5|hq-1-1|/b/001\n6|hq-1-1|/a/001\n7|hq-1-2|/a/0|2\nnonsense\n";
    let wanted = [key("hq-1-1", "/a/001"), key("hq-1-2", "/a/0|2"), key("hq-1-3", "/a/003")];
    let found: Vec<_> = named(text, &wanted).into_iter().map(|((name, _), id)| (name, id)).collect();
    assert_eq!(found, [("hq-1-1".into(), "6".into()), ("hq-1-2".into(), "7".into())]);
}

#[test]
fn errors_that_only_say_it_is_over_are_none() {
    assert!(all_are_gone("scancel: error: Kill job error on job id 9: Invalid job id specified\n"));
    assert!(!all_are_gone("scancel: error: Kill job error on job id 9: Access/permission denied\n"));
    assert!(!all_are_gone(""));
}

const SINFO: &str = "cpu*|3|4|4096|(null)|1:00:00|NO|node[0-2]
cpu*|1|8|8192|(null)|1:00:00|NO|node7
gpu|1|64|515000|gpu:a100:4(S:0-1),nvme:1|2-00:00:00|NO|node3
";

#[test]
fn the_shape_of_nodes_is_the_least_of_the_partition() {
    let check = |text: &str, args: &[&str], expected: &str| {
        let partition = option_value(&words(args), Some('p'), Some("partition"));
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| partition.as_ref().is_none_or(|name| line.starts_with(&format!("{name}|"))))
            .collect();
        let shape = shape(&lines.join("\n"), partition.is_some(), &words(args));
        let shown = shape.map(|shape| {
            let mib = shape.memory_bytes.map(|bytes| bytes >> 20);
            format!("{} {:?} {:?} {:?}", shape.cpus, mib, shape.gpus, shape.max_time)
        });
        assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{args:?}");
    };
    check(SINFO, &[], "4 Some(4096) [] Some(3600s)");
    check(SINFO, &["-c", "2", "--mem=1G"], "2 Some(1024) [] Some(3600s)");
    check(SINFO, &["-p", "gpu"], "64 Some(515000) [] Some(172800s)");
    check(SINFO, &["-p", "gpu", "--gres=gpu:2"], "64 Some(515000) [(\"a100\", 2)] Some(172800s)");
    check(
        SINFO,
        &["-p", "gpu", "--gpus-per-node", "a100:1"],
        "64 Some(515000) [(\"a100\", 1)] Some(172800s)",
    );
    check(SINFO, &["-pgpu", "--exclusive", "-c1"], "64 Some(515000) [(\"a100\", 4)] Some(172800s)");
    check(SINFO, &["-p", "nope"], "none");
    check("down*|0|4|1|(null)|infinite|NO|\n", &[], "none");
    check("all*|2|4|1|(null)|infinite|EXCLUSIVE|n[1-2]\n", &["-c", "2"], "4 None [] None");
}

#[test]
fn gpus_are_understood_however_they_are_asked_for() {
    for (args, gpus) in [
        (&["--gres=gpu:2"][..], 2),
        (&["--gpus=4"], 4),
        (&["-G1"], 1),
        (&["-G", "4", "-N", "2"], 2),
        (&["--gpus", "a100:2"], 2),
        (&["--gpus-per-node=3"], 3),
        (&["--gpus-per-task=1"], 1),
        (&["--gpus-per-task", "1", "-n", "2"], 2),
        (&["--gpus-per-task=1", "-n", "4", "-N2"], 2),
        (&["--gpus-per-task=2", "--ntasks-per-node=2"], 4),
        (&["--gpus-per-socket=1"], 1),
        (&[], 0),
    ] {
        let args = words(&[&["-p", "gpu"], args].concat());
        let lines: Vec<&str> = SINFO.lines().filter(|line| line.starts_with("gpu|")).collect();
        let shape = shape(&lines.join("\n"), true, &args).expect("a shape");
        let resources: Vec<_> = shape.gpu_resources().into_iter().collect();
        let expected: Vec<(&str, u32)> = if gpus > 0 { vec![("gpus/nvidia", gpus)] } else { Vec::new() };
        assert_eq!(resources, expected, "{args:?}");
    }
}

// What a real Slurm said of held jobs that were submitted with these arguments.
#[test]
fn what_was_granted_is_told_by_the_controller() {
    for (said, expected) in [
        (
            "NumNodes=1-1 NumCPUs=1 NumTasks=1 TRES=cpu=1,mem=1G,node=1 OverSubscribe=OK",
            "1 nodes, 1 cpus, 1024 MiB, []",
        ),
        (
            "NumNodes=2-2 NumCPUs=2 NumTasks=2 TRES=cpu=2,mem=2G,node=2 OverSubscribe=OK",
            "2 nodes, 1 cpus, 1024 MiB, []",
        ),
        (
            "NumNodes=1-1 NumCPUs=1 NumTasks=1 TRES=cpu=1,mem=1G OverSubscribe=NO",
            "1 nodes, 1 cpus, 1024 MiB, [] whole",
        ),
        (
            "NumNodes=1-1 NumCPUs=1 NumTasks=1 OverSubscribe=OK TresPerJob=gres:gpu:2",
            "1 nodes, 1 cpus, 0 MiB, [(\"\", 2)]",
        ),
        (
            "NumNodes=2 NumCPUs=8 NumTasks=2 OverSubscribe=OK TresPerJob=gres/gpu:a100:4",
            "2 nodes, 4 cpus, 0 MiB, [(\"a100\", 2)]",
        ),
        (
            "NumNodes=1-1 NumCPUs=2 NumTasks=2 OverSubscribe=OK TresPerTask=gres:gpu:1",
            "1 nodes, 2 cpus, 0 MiB, [(\"\", 2)]",
        ),
        (
            "ArrayJobId=19 ArrayTaskId=1-2 NumNodes=1-1 NumCPUs=1 NumTasks=1 OverSubscribe=OK TresPerNode=gres:gpu:1",
            "1 nodes, 1 cpus, 0 MiB, [(\"\", 1)] array",
        ),
    ] {
        let granted =
            granted(&format!("JobId=1 JobState=PENDING TimeLimit=00:05:00 {said}")).expect("understood");
        assert_eq!(granted.time_limit, Some(Duration::from_secs(300)));
        let nodes = granted.nodes.unwrap_or(0);
        let mib = granted.memory_bytes.unwrap_or(0) >> 20;
        let whole = if granted.is_whole { " whole" } else { "" };
        let array = if granted.is_array { " array" } else { "" };
        let told = format!(
            "{nodes} nodes, {} cpus, {mib} MiB, {:?}{whole}{array}",
            granted.cpus.unwrap_or(0),
            granted.gpus
        );
        assert_eq!(told, expected, "{said}");
    }
    assert_eq!(granted("slurm_load_jobs error: Invalid job id specified"), None);
    assert!(selects_whole_nodes("SchedulerType = sched/backfill\nSelectType              = select/linear\n"));
    assert!(!selects_whole_nodes(
        "SelectType              = select/cons_tres\nSelectTypeParameters = CR_CORE\n"
    ));
    let most = largest(SINFO, false).expect("of the default partition");
    assert_eq!((most.cpus, most.memory_bytes, most.gpus.len()), (8, Some(8192 << 20), 0));
}

#[test]
fn how_long_a_job_had_its_nodes_is_told() {
    let ran = |line: &str| {
        squeue(&output(line)).expect("it is understood").remove("1").and_then(|report| report.ran)
    };
    assert_eq!(ran("1|COMPLETED|None|2026-11-24T10:00:00|1:05"), Some(Duration::from_secs(65)));
    assert_eq!(ran("1|TIMEOUT|TimeLimit|2026-11-24T10:00:00|1-00:00:01"), Some(Duration::from_secs(86_401)));
    assert_eq!(ran("1|PENDING|Resources|N/A|0:00"), None);
    let accounted = sacct("5|FAILED|3:0|61\n").remove("5").and_then(|report| report.ran);
    assert_eq!(accounted, Some(Duration::from_secs(61)));
    let shown = shown("JobId=5 JobState=FAILED ExitCode=3:0 RunTime=00:01:01").and_then(|report| report.ran);
    assert_eq!(shown, Some(Duration::from_secs(61)));
}

#[test]
fn vendors_of_gpus_are_told_by_their_type() {
    let shape = NodeShape {
        gpus: vec![
            ("mi250".into(), 4),
            (String::new(), 1),
            ("a100".into(), 2),
            ("MIG".into(), 1),
            ("pvc".into(), 6),
        ],
        ..NodeShape::default()
    };
    let resources: Vec<_> = shape.gpu_resources().into_iter().collect();
    assert_eq!(resources, [("gpus/amd", 4), ("gpus/intel", 6), ("gpus/nvidia", 4)]);
}

#[test]
fn slurms_times_are_read() {
    let check = |text: &str, seconds: Option<u64>| {
        assert_eq!(time_limit(text), seconds.map(Duration::from_secs), "{text}");
    };
    check("30", Some(1800));
    check("30:00", Some(1800));
    check("1:00:00", Some(3600));
    check("2-00:00:00", Some(172_800));
    check("1-12", Some(129_600));
    check("1-12:30", Some(131_400));
    check("infinite", None);
    check("n/a", None);
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_printed_breaks_the_reading(
        text in r"([0-9a-zA-Z|:;,.()+*_\[\]=\- \n\x00é]{0,12}(\|PENDING\||gpu:|\|99999999999999999999|CANCELLED by )?){0,6}",
        is_asked: bool,
    ) {
        let _ = squeue(&output(&text));
        let _ = (sacct(&text), id(&text), time_limit(&text), memory(&text), gpus(&text));
        let _ = (shape(&text, is_asked, &words(&[&text.replace('\0', ""), "-c", &text, "--mem", &text, "--gres", &text]))).map(|s| s.gpu_resources());
        let _ = named(text.as_bytes(), &[("a".into(), "/a".into())]);
    }
}

#[test]
fn of_the_energy_of_a_job_its_largest_step_counts() {
    let text = "17|\n17.batch|120\n17.extern|900\n17.0|850\n18|0\n19.batch|18446744073709551614\nodd\n";
    assert_eq!(energy(text), BTreeMap::from([("17".to_owned(), 900)]));
}
