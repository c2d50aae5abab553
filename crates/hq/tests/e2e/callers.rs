//! Programs that call `hq`, played as they do it: words, order, and what they read of the answer.

use std::fs;

use serde_json::Value;

use crate::cluster::{Cluster, Ran};
use crate::patience;

// Both channels as one text, as callers that merge them see it.
fn merged(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

// The script of one task as Nextflow writes it, in a work directory of its own, and the command run there.
fn nextflow_submit(cluster: &Cluster, name: &str, output: &str, program: &str) -> u32 {
    let work = cluster.path(name);
    fs::create_dir_all(&work).expect("a directory");
    let script = format!(
        "#!/bin/bash\n\
         #HQ --name nf-{name}\n\
         #HQ {output} {work}/.command.log\n\
         #HQ --cwd {work}\n\
         #HQ --resource mem=16\n\
         #HQ --cpus 1\n\
         #HQ --time-limit 3600sec\n\
         ### ---\n\
         NXF_WORK={work}\n\
         trap 'echo $? > .exitcode' EXIT\n\
         {program}\n",
        work = work.display()
    );
    fs::write(work.join(".command.run"), script).expect("writable");
    let mut command = cluster.command(["--output-mode=quiet", "submit", "--directives=file", ".command.run"]);
    let ran = Ran::from(command.current_dir(&work).output().expect("hq can be run"));
    assert_eq!(ran.exit, 0, "{ran:?}");
    merged(&ran).trim().parse().unwrap_or_else(|_| panic!("no number alone: {ran:?}"))
}

// What Nextflow reads of a poll: the states by job.
fn nextflow_poll(cluster: &Cluster) -> Vec<(u32, String)> {
    let ran = cluster.hq("--output-mode=quiet job list --all");
    assert_eq!(ran.exit, 0, "{ran:?}");
    let line = |line: &str| {
        let [id, state] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?} of {ran:?}") };
        (id.parse().expect("a number"), state.to_owned())
    };
    merged(&ran).lines().map(line).collect()
}

#[test]
fn nextflow_submits_polls_and_cancels() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2 --resource mem=sum(4096)");
    for output in ["--log", "--stream"] {
        let name = |kind: &str| format!("{kind}{output}");
        let good = nextflow_submit(&cluster, &name("good"), output, "echo aligned; echo warned >&2");
        let bad = nextflow_submit(&cluster, &name("bad"), output, "echo broke >&2; exit 3");
        let long = nextflow_submit(&cluster, &name("long"), output, "exec sleep 1000");
        let states = patience::answer(|| {
            let states = nextflow_poll(&cluster);
            let of =
                |id: u32| states.iter().find(|(job, _)| *job == id).map_or("", |(_, state)| state.as_str());
            let three = [good, bad, long].map(|id| of(id).to_owned());
            if three == ["FINISHED", "FAILED", "RUNNING"] { Ok(three) } else { Err(three) }
        });
        assert!(states.is_ok(), "{states:?}");
        assert_eq!(cluster.read(format!("{}/.exitcode", name("good"))), "0\n");
        assert_eq!(cluster.read(format!("{}/.exitcode", name("bad"))), "3\n");
        let log = format!("{}/.command.log", name("good"));
        assert_eq!(cluster.ok(&format!("output-log {log} cat {good} stdout")), "aligned\n");
        assert_eq!(cluster.ok(&format!("log {log} cat --task 0 stderr")), "warned\n");
        // Several at once, of which one is not there any more.
        cluster.ok(&format!("job forget {good}"));
        cluster.hq(&format!("job cancel {good},{long}"));
        let states = nextflow_poll(&cluster);
        assert!(states.contains(&(long, "CANCELED".to_owned())), "{states:?}");
        assert!(!states.iter().any(|(job, _)| *job == good), "{states:?}");
    }
}

#[test]
fn a_text_pipeline_runs_only_again_what_failed() {
    let cluster = Cluster::new();
    let lines: String = (0..40).map(|line| format!("document {line}\n")).collect();
    cluster.write("documents", &lines);
    cluster.write(
        "clean.sh",
        "#!/bin/bash\nif test ! -e repaired && test $((HQ_TASK_ID % 10)) = 7; then echo torn >&2; exit 1; fi\n\
         echo \"clean $HQ_ENTRY\"\n",
    );
    let submit = "submit --progress --max-fails 40 --stream=out --each-line documents";
    assert_eq!(cluster.hq(&format!("{submit} -- bash clean.sh")).exit, 1);
    let failed = cluster.ok("job task-ids last --filter=failed");
    assert_eq!(failed.trim(), "7,17,27,37");
    cluster.write("repaired", "");
    let again = format!("{submit} --array={} -- bash clean.sh", failed.trim());
    let ran = cluster.hq(&again);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let mut cleaned: Vec<_> = ["1", "2"]
        .iter()
        .flat_map(|job| {
            let text = cluster.ok(&format!("log out cat {job} stdout"));
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    cleaned.sort();
    let mut expected: Vec<_> = lines.lines().map(|line| format!("clean {line}")).collect();
    expected.sort();
    assert_eq!(cleaned, expected);
    assert_eq!(cluster.ok("log out cat --task 7,17 1 stderr"), "torn\ntorn\n");
}

#[test]
fn aiida_reads_counts_by_state() {
    let mut cluster = Cluster::server();
    cluster.write(
        "_aiidasubmit.sh",
        "#!/bin/bash\n#HQ --name=\"aiida-1\"\n#HQ --stdout=_scheduler-stdout.txt\n#HQ --stderr=_scheduler-stderr.txt\n\
         #HQ --time-request=10s\n#HQ --time-limit=20s\n#HQ --cpus=1\n#HQ --resource mem=100\n\necho computed\n",
    );
    let id = cluster.json("submit _aiidasubmit.sh")["id"].as_u64().expect("a number");
    let listed = cluster.json("job list --filter waiting,running");
    assert_eq!((&listed[0]["id"], &listed[0]["task_count"]), (&Value::from(id), &Value::from(1)));
    let stats = listed[0]["task_stats"].as_object().expect("counts").clone();
    let known = ["waiting", "running", "finished", "failed", "canceled", "aborted"];
    assert!(stats.keys().all(|state| known.contains(&state.as_str())), "{stats:?}");
    assert_eq!(stats.values().filter(|count| **count != 0).count(), 1, "{stats:?}");
    assert_eq!(cluster.hq("--output-mode=json job list --filter waiting,running").stderr, "");
    cluster.worker("--cpus 1 --resource mem=sum(1000)");
    cluster.ok("job wait all");
    assert_eq!(cluster.read("_scheduler-stdout.txt"), "computed\n");
    assert_eq!(cluster.json("job list --filter waiting,running"), Value::Array(Vec::new()));
    assert!(!cluster.hq(&format!("job cancel {id}")).stderr.contains("ERROR"));
}

#[test]
fn batchtools_and_balancers_read_one_number() {
    let cluster = Cluster::server();
    let submit = "submit --name=jobc0ffee --stdout=none --stderr=none --cpus=1 --resource mem=64MiB --time-limit=60s --time-request=10s -- Rscript -e x";
    let ran = cluster.hq(submit);
    assert_eq!(merged(&ran), "Job submitted successfully, job ID: 1\n");
    let listed = cluster.hq("job list --filter waiting --output-mode json");
    let listed: Value = serde_json::from_str(&merged(&listed)).expect("JSON and nothing else");
    assert_eq!(listed[0]["id"], 1);
    assert_eq!(cluster.ok("submit --output-mode=quiet --priority=3 -- ./model"), "2\n");
    let info = cluster.ok("job info 2");
    let state = info.lines().find(|line| line.contains("State")).expect("a row").split_whitespace().nth(3);
    assert_eq!(state, Some("WAITING"));
    // Wrappers go through the values of what is by job or by state.
    let tasks = cluster.json("task list 1");
    assert!(tasks.as_object().expect("by job").values().all(Value::is_array), "{tasks}");
    let summary = cluster.json("job summary");
    assert!(summary.as_object().expect("by state").values().all(Value::is_u64), "{summary}");
}
