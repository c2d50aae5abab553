//! Directories as objects, and what is brought to each node before its first task.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::cluster::Cluster;
use crate::patience;

// A directory with a file, a program, an inner directory, and links: to a file, out of it, and to nothing.
fn make_tree(cluster: &Cluster, name: &str) {
    cluster.write(&format!("{name}/note"), "note\n");
    cluster.write(&format!("{name}/bin/run"), "#!/bin/sh\necho run \"$@\"\n");
    let path = |inner: &str| cluster.path(format!("{name}/{inner}"));
    fs::set_permissions(path("bin/run"), Permissions::from_mode(0o755)).expect("ours");
    for (to, inner) in [("../note", "bin/link"), ("/nowhere/at/all", "dangling"), ("../../out", "bin/out")] {
        symlink(to, path(inner)).expect("writable");
    }
}

// Three workers, each with a resource of its own, and one CPU.
fn three_workers() -> Cluster {
    let mut cluster = Cluster::server();
    for resource in ["a", "b", "c"] {
        worker(&mut cluster, resource);
    }
    cluster
}

fn worker(cluster: &mut Cluster, resource: &str) {
    cluster.worker(&format!("--cpus 1 --detect-resources none --resource {resource}=sum(1)"));
}

fn objects_in_use(cluster: &Cluster, worker: u32) -> u64 {
    cluster.json(&format!("worker info {worker}"))[0]["object_store"]["objects"].as_u64().expect("a number")
}

// The names of what a worker has in its store beside objects.
fn in_store(cluster: &Cluster, worker: u32, prefix: &str) -> Vec<String> {
    let info = cluster.json(&format!("worker info {worker}"));
    let dir = info[0]["object_store"]["dir"].as_str().expect("a directory");
    let names = fs::read_dir(dir).expect("there").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn a_directory_is_read_once_and_found_on_each_worker() {
    let cluster = three_workers();
    make_tree(&cluster, "tree");
    // Each of the tasks has a worker of its own: none ends before all run.
    let task = "touch began-$HQ_TASK_ID; until [ $(ls began-* | wc -l) = 3 ]; do :; done; \
                cd $HQ_BROADCAST_DIR/tree && cat bin/link && readlink dangling bin/out && ./bin/run $1 && \
                touch new 2>/dev/null && [ $(id -u) != 0 ] && echo writable; true";
    let said = cluster.ok(&format!(
        "submit --wait --array 1-3 --broadcast tree -- sh -c '{task}' sh %{{BROADCAST_DIR}}/tree/note"
    ));
    assert!(said.starts_with("Job submitted successfully, job ID: 2\n"), "{said}");
    let printed = cluster.ok("job cat 2 stdout");
    let one = |line: &str| line.ends_with("/tree/note") && line.starts_with("run /");
    assert_eq!(printed.lines().filter(|line| one(line)).count(), 3, "{printed}");
    assert_eq!(printed.lines().filter(|line| *line == "../../out").count(), 3, "{printed}");
    assert_eq!(printed.lines().filter(|line| *line == "/nowhere/at/all").count(), 3, "{printed}");
    assert!(!printed.contains("writable"), "{printed}");
    let object = &cluster.json("object info 1@0:tree")[0];
    assert_eq!((&object["copies"], &object["is_dir"]), (&3.into(), &true.into()), "{object}");
    let job = &cluster.json("job info 1")[0]["info"];
    assert_eq!(
        (job["name"].as_str(), job["task_count"].as_u64()),
        (Some("broadcast tree"), Some(1)),
        "{job}"
    );
    assert_eq!(cluster.json("job info last")[0]["info"]["id"], 2);

    // What the tasks had is gone with them, but for the object.
    for worker in 1..=3 {
        patience::until("a store without directories of tasks", || {
            let left = in_store(&cluster, worker, "broadcast-");
            if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
        });
        assert_eq!(objects_in_use(&cluster, worker), 1);
        assert_eq!(in_store(&cluster, worker, "d-").len(), 1, "unpacked once");
    }
    cluster.ok("object drop 1@0:tree");
    for worker in 1..=3 {
        patience::until("an empty store", || {
            let left = in_store(&cluster, worker, "d-");
            if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
        });
    }
}

#[test]
fn many_small_files_come_to_a_worker_that_joins_later() {
    let mut cluster = Cluster::server();
    worker(&mut cluster, "a");
    for number in 0..2_000 {
        cluster.write(&format!("many/{}/{number}", number % 10), number.to_string());
    }
    let count = "find $HQ_BROADCAST_DIR/files/ -type f | wc -l";
    cluster.ok(&format!("submit --wait --resource a=1 --broadcast files=many --stdout 1 -- sh -c '{count}'"));
    assert_eq!(cluster.read("1").trim(), "2000");
    // Nobody reads it any more.
    fs::remove_dir_all(cluster.path("many")).expect("writable");
    worker(&mut cluster, "b");
    cluster.ok(&format!("submit --wait --resource b=1 --broadcast 1@0:files --stdout 2 -- sh -c '{count}'"));
    assert_eq!(cluster.read("2").trim(), "2000");
    assert_eq!(cluster.json("object info 1@0:files")[0]["copies"], 2);
}

#[test]
fn a_file_is_found_in_the_store() {
    let cluster = three_workers();
    cluster.write("data/genome.fa", "ACGT\n");
    cluster.write(
        "job.sh",
        "#!/bin/sh\n#HQ --broadcast data/genome.fa\n#HQ --resource a=1\ncat $HQ_BROADCAST_DIR/*\n",
    );
    cluster.ok("submit --wait --stdout read --broadcast second=data/genome.fa job.sh");
    assert_eq!(cluster.read("read"), "ACGT\nACGT\n");
    assert!(!cluster.path("genome.fa").exists(), "nothing comes to the working directory");
}

#[test]
fn a_broadcast_is_left_once_more_when_its_only_worker_dies() {
    let mut cluster = Cluster::server();
    worker(&mut cluster, "a");
    make_tree(&cluster, "tree");
    cluster.ok("submit --wait --broadcast tree -- true");
    cluster.workers[0].signal(libc::SIGKILL);
    patience::until("a lost object", || {
        let state = cluster.json("object info 1@0:tree")[0]["state"].clone();
        if state == "lost" { Ok(()) } else { Err(state.to_string()) }
    });
    worker(&mut cluster, "b");
    cluster.ok("submit --wait --resource b=1 --broadcast 1@0:tree --stdout read -- sh -c 'cat $HQ_BROADCAST_DIR/tree/note'");
    assert_eq!(cluster.read("read"), "note\n");
}

#[test]
fn a_path_that_is_missing_is_told_with_the_worker() {
    let mut cluster = Cluster::server();
    cluster.ok("submit --broadcast missing -- true");
    let why = cluster.ok("task explain 2 0");
    assert!(why.contains("it waits for the broadcast of missing, task 1@0, which is waiting"), "{why}");
    let why = cluster.ok("job explain 2");
    assert!(why.contains("the broadcast of missing"), "{why}");
    worker(&mut cluster, "a");
    cluster.fails(1, "job wait 2");
    let path = cluster.path("missing").display().to_string();
    let error = cluster.ok("job info 1");
    assert!(error.contains(&format!("there is no {path} on worker 1")), "{error}");
}

#[test]
fn a_job_that_is_refused_leaves_nothing() {
    let cluster = three_workers();
    cluster.write("file", "x");
    cluster.ok("job open");
    for (exit, options, text) in [
        (1, "--broadcast file --after 99", "Job 99 not found"),
        (1, "--broadcast file --nodes 2", "A broadcast comes to one node of a task"),
        (2, "--broadcast file --job 1", "a path cannot be broadcast with --job, only an object"),
        (2, "--broadcast file --broadcast ./file", "two broadcasts have the name `file`: use NAME=PATH"),
        (2, "--broadcast .", "if the last part of a path cannot be"),
        (2, "--broadcast 'a:b=file'", "cannot be the name of an object"),
        (1, "--broadcast 9@0:x", "Job 9 not found"),
    ] {
        let error = cluster.fails(exit, &format!("submit {options} -- true"));
        assert!(error.contains(text), "{options}: {error}");
    }
    assert_eq!(cluster.ok("--output-mode quiet job list --all").lines().count(), 1);
    assert!(cluster.ok("object list").ends_with("0 objects\n"));
}

#[test]
fn a_worker_without_room_leaves_the_tasks_to_others() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none --resource slot=sum(1) --object-store large:100MiB");
    cluster.write("large.bin", vec![b'x'; 3 << 20]);
    cluster.ok("submit --wait --output-object large=large.bin -- true");
    cluster.worker("--cpus 1 --detect-resources none --resource slot=sum(1) --object-store small:1MiB");
    let sum = "wc -c < $HQ_BROADCAST_DIR/large";
    cluster
        .ok(&format!("submit --wait --array 1-4 --resource slot=1 --broadcast 1@0:large -- sh -c '{sum}'"));
    let workers = cluster.json("task list 2");
    let text = workers.to_string();
    assert_eq!(cluster.ok("job cat 2 stdout").matches("3145728").count(), 4, "{text}");
}

#[test]
fn directories_are_left_taken_put_and_got() {
    let mut cluster = Cluster::server();
    worker(&mut cluster, "a");
    worker(&mut cluster, "b");
    make_tree(&cluster, "given");
    cluster.ok("submit --wait --resource a=1 --output-object tree=out -- cp -a given out");
    let info = cluster.ok("object info 1@0:tree");
    assert!(info.contains("directory"), "{info}");
    // Twice at one path: the link is that of an object.
    for job in [2, 3] {
        let read = "cat in/tree/bin/link && readlink in/tree/dangling && test -L in/tree";
        cluster.ok(&format!(
            "submit --wait --resource b=1 --input-object tree=1@0:tree->in/tree -- sh -c '{read}'"
        ));
        assert_eq!(cluster.ok(&format!("job cat {job} stdout")), "note\n/nowhere/at/all\n");
    }
    // What is no object is not replaced.
    cluster.write("mine/file", "x");
    let taken = "submit --wait --resource b=1 --input-object tree=1@0:tree->mine -- true";
    cluster.fails(1, taken);
    let error = cluster.ok("job info 4");
    assert!(error.contains("something else already exists at"), "{error}");
    assert_eq!(cluster.read("mine/file"), "x");

    cluster.ok("object get 1@0:tree -o got");
    assert_eq!(cluster.read("got/bin/link"), "note\n");
    let mode = |path: &str| fs::metadata(cluster.path(path)).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode("got/bin/run"), mode("got/note")), (mode("given/bin/run"), mode("given/note")));
    let error = cluster.fails(2, "object get 1@0:tree -o got");
    assert!(error.contains("is a directory: give a path that does not exist yet"), "{error}");
    let error = cluster.fails(2, "object get 1@0:tree -o mine/file");
    assert!(error.contains("the object is a directory"), "{error}");

    let put = cluster.ok("object put got --name again");
    assert!(put.starts_with("Object 5@0:again: "), "{put}");
    cluster.ok("submit --wait --resource b=1 --broadcast 5@0:again --stdout read -- sh -c '$HQ_BROADCAST_DIR/again/bin/run x'");
    assert_eq!(cluster.read("read"), "run x\n");
}
