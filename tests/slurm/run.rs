//! `hq run` in a job of Slurm: on all of its nodes.

use super::{SHARED, patience::until, server};

// A batch job on two nodes that does this with these files, and what it printed and what is in its directory when it has
// ended.
pub(super) fn in_batch_job(
    name: &str,
    files: &[(&str, &str)],
    script: &str,
) -> Option<(String, Vec<String>)> {
    let slurm = SHARED.as_ref()?;
    // Its directory and its variables, not its server.
    let place = server(slurm);
    let dir = place.path(name);
    std::fs::create_dir(&dir).expect("a directory");
    for (file, text) in files {
        std::fs::write(dir.join(file), text).expect("a file");
    }
    let hq = env!("CARGO_BIN_EXE_hq");
    std::fs::write(dir.join("job"), format!("#!/bin/bash\n{}\n", script.replace("HQ", hq)))
        .expect("a script");
    let text = dir.display().to_string();
    let args = [
        "--wait",
        "--nodes=2",
        "--exclusive",
        "--partition=cpu",
        "--chdir",
        &text,
        "--output=printed",
        "job",
    ];
    let (conf, job) = (slurm.conf(), dir.join("job"));
    let status = std::process::Command::new("sbatch")
        .args(&args[..args.len() - 1])
        .arg(job)
        .env("SLURM_CONF", conf)
        .output()
        .expect("sbatch can be run");
    let printed = std::fs::read_to_string(dir.join("printed")).unwrap_or_default();
    assert!(status.status.success(), "{status:?}: {printed}");
    let names = || {
        let entries = std::fs::read_dir(&dir).expect("a directory");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    until("nothing of ours is left", || {
        // What `hq make` remembers is to stay.
        let is_left = |name: &String| name.starts_with(".hq") && name != ".hq-make";
        let left: Vec<String> = names().into_iter().filter(is_left).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    Some((printed, names()))
}

#[test]
fn a_run_in_a_batch_job_uses_all_of_its_nodes() {
    // Each fills a node, and both must run at once to end.
    let script = "mkfifo meeting\nHQ run --cpus all --array 1-2 --stdout none --stderr none -- \
                  sh -c 'test %{TASK_ID} = 1 && echo here >meeting || read word <meeting; echo $SLURMD_NODENAME >node-%{TASK_ID}; cat node-*'";
    let Some((printed, names)) = in_batch_job("wide", &[], script) else { return };
    assert!(printed.contains("2 finished"), "{printed}");
    assert!(names.contains(&"node-1".to_owned()) && names.contains(&"node-2".to_owned()), "{names:?}");
}

#[test]
fn a_run_that_is_to_stay_here_uses_one_node() {
    let script = "HQ run --here --nodes 2 -- true; echo \"exit $?\"";
    let Some((printed, _)) = in_batch_job("here", &[], script) else { return };
    assert!(printed.contains("This machine is one node, but each task requests 2"), "{printed}");
    assert!(printed.contains("exit 1"), "{printed}");
}
