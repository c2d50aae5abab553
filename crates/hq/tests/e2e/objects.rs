//! Files that tasks leave for others: listed, got, kept and dropped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::cluster::{Cluster, Process, Ran};
use crate::patience;

fn with_an_object() -> Cluster {
    leaves_an_object(Cluster::server())
}

// With two workers; each of them gets what asks for its resource. The task of job 1 has left two objects on the first one.
fn leaves_an_object(mut cluster: Cluster) -> Cluster {
    cluster.worker("--cpus 1 --detect-resources none --resource a=sum(1) --hostname nodeA");
    cluster.worker("--cpus 1 --detect-resources none --resource b=sum(1) --hostname nodeB");
    let leave = "seq 300000 > parts.bin; echo note > note";
    cluster.ok(&format!(
        "submit --wait --resource a=1 --output-object parts=parts.bin --output-object note=note -- sh -c '{leave}'"
    ));
    cluster
}

#[test]
fn objects_are_listed_and_got_from_the_workers_that_store_them() {
    let cluster = with_an_object();
    let list = cluster.ok("object list");
    assert!(list.contains("| 1@0:note  | STORED | 5 B     | 1 "), "{list}");
    assert!(list.ends_with("2 objects: 2 stored (1.9 MiB)\n"), "{list}");
    assert_eq!(cluster.ok("--output-mode quiet object list last"), "1@0:note STORED\n1@0:parts STORED\n");
    let info = &cluster.json("object info last@0:parts")[0];
    assert_eq!((&info["size"], &info["copies"]), (&1_988_895.into(), &1.into()), "{info}");
    assert_eq!(info["workers"], serde_json::json!([{ "id": 1, "hostname": "nodeA" }]));

    let meant = fs::read(cluster.path("parts.bin")).expect("there");
    assert_eq!(cluster.ok("object get 1@0:note"), "note\n");
    assert_eq!(cluster.ok("object get 1@0:note -o -"), "note\n");
    let path = cluster.path("got.bin").display().to_string();
    let said = cluster.says("object get 1@0:parts -o got.bin");
    assert_eq!(said, format!("Object 1@0:parts (1.9 MiB) is in {path}\n"));
    assert!(fs::read(cluster.path("got.bin")).expect("there") == meant);
    fs::write(cluster.path("plain"), "").expect("writable");
    let mode = |name: &str| fs::metadata(cluster.path(name)).expect("there").permissions().mode();
    assert_eq!(mode("got.bin"), mode("plain"), "as other files are made");
    // A file that is there is replaced, through a link, too.
    std::os::unix::fs::symlink("got.bin", cluster.path("link")).expect("writable");
    let got = cluster.json("object get 1@0:note -o link");
    assert_eq!((got["size"].as_u64(), got["path"].as_str()), (Some(5), Some(path.as_str())));
    assert_eq!(cluster.read("got.bin"), "note\n");
    let left = fs::read_dir(cluster.work()).expect("there").flatten();
    let left: Vec<_> = left.filter(|file| file.file_name().to_string_lossy().starts_with(".hq")).collect();
    assert!(left.is_empty(), "{left:?}");

    // Somebody takes it on the other worker, and both have it then.
    cluster.ok("submit --wait --resource b=1 --input-object in=1@0:parts->in/parts.bin -- cmp in/parts.bin parts.bin");
    let list = cluster.ok("object list 1");
    assert!(list.contains("| 1@0:parts | STORED | 1.9 MiB | 1, 2 "), "{list}");
    assert!(list.ends_with("2 objects: 2 stored (1.9 MiB; 3.8 MiB in all copies)\n"), "{list}");
    let store = &cluster.json("worker info 2")[0]["object_store"];
    assert_eq!((&store["objects"], &store["used"]), (&1.into(), &1_988_895.into()), "{store}");
    let shown = cluster.ok("worker info 2");
    assert!(shown.contains("1.9 MiB of ") && shown.contains(" in 1 object "), "{shown}");
}

#[test]
fn an_object_comes_from_the_next_worker_when_one_is_gone() {
    let mut cluster = with_an_object();
    cluster.ok("submit --wait --resource b=1 --input-object in=1@0:note -- cat in");
    cluster.ok("worker stop 1");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    assert_eq!(cluster.ok("object get 1@0:note"), "note\n");
    let lost = &cluster.json("object info 1@0:parts")[0];
    assert_eq!((&lost["state"], &lost["rebuilt_by"]), (&"lost".into(), &serde_json::Value::Null), "{lost}");
    let error = cluster.fails(1, "object get 1@0:parts");
    assert!(error.contains("Object 1@0:parts is lost: it was last on worker 1 (nodeA)"), "{error}");
}

#[test]
fn a_lost_object_is_left_once_more_for_those_that_need_it() {
    let mut cluster = with_an_object();
    cluster.ok("submit --wait --resource a=1 --input-object in=1@0:note --output-object two=two -- sh -c 'cat in in > two'");
    cluster.ok("worker stop 1");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    cluster.ok("submit --resource b=1 --input-object in=2@0:two --stdout read -- cat in");
    assert_eq!(cluster.json("object info 2@0:two")[0]["rebuilt_by"], 4);
    let why = cluster.ok("task explain 3 0");
    assert!(why.contains("it waits for task 4@0 of `rebuild 2@0`, which is waiting"), "{why}");
    cluster.worker("--cpus 1 --detect-resources none --resource a=sum(1) --hostname nodeC");
    cluster.ok("job wait 3");
    assert_eq!(cluster.read("read"), "note\nnote\n");
    assert_eq!(cluster.json("job info last")[0]["info"]["id"], 3, "nobody has submitted the others");
    let jobs = cluster.ok("--output-mode quiet job list --all");
    assert_eq!(jobs, "1 FINISHED\n2 FINISHED\n3 FINISHED\n4 FINISHED\n5 FINISHED\n");
    assert_eq!(cluster.json("job info 5")[0]["info"]["name"], "rebuild 1@0");
    assert_eq!(cluster.ok("object get 1@0:note"), "note\n");
}

#[test]
fn what_is_kept_or_needed_outlives_a_full_store() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none --object-store store:10MiB");
    let leave = |name: &str| {
        format!("submit --wait --output-object {name}={name} -- sh -c 'head -c 4000000 /dev/zero > {name}'")
    };
    cluster.ok(&leave("a"));
    assert_eq!(cluster.says("object keep 1@0:a"), "Object 1@0:a kept\n");
    // It is not read, and it is the oldest.
    for name in ["b", "c", "d"] {
        cluster.ok(&leave(name));
    }
    let states = "1@0:a STORED\n2@0:b LOST\n3@0:c LOST\n4@0:d STORED\n";
    assert_eq!(cluster.ok("--output-mode quiet object list"), states);
    assert_eq!(cluster.ok("--output-mode quiet object list 2-4 --state lost"), "2@0:b LOST\n3@0:c LOST\n");
    // Somebody waits for the last one, so that there is no room for another.
    cluster.ok("submit --cpus 2 --input-object d=4@0:d -- true");
    cluster.ok(&leave("e").replace("--wait ", ""));
    let full = "the object store may hold 10485760 bytes, of which 8000000 are in use and cannot be removed";
    patience::until("the task without room", || {
        let why = cluster.ok("task explain 6 0");
        let is_said =
            why.contains("object 6@0:e, which it leaves, could not be stored") && why.contains(full);
        if is_said { Ok(()) } else { Err(why) }
    });
    let error = cluster.fails(1, "object drop 4@0:d");
    assert!(error.contains("Object 4@0:d is needed by task 5@0, which has not ended."), "{error}");
    cluster.ok("job cancel 5");
    assert_eq!(cluster.says("object drop 4@0:d 1@0:a"), "Object 4@0:d dropped\nObject 1@0:a dropped\n");
    // There is room at the next try.
    cluster.ok("job wait 6");
    assert_eq!(cluster.json("worker info 1")[0]["object_store"]["used"], 4_000_000);
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_way_out() {
    let cluster = with_an_object();
    cluster.ok("submit --cpus 2 --output-object later=later -- true");
    cluster.ok("object drop 1@0:parts");
    let codes = |line: &str| -> (String, String) {
        let ran: Ran = cluster.hq(&format!("--output-mode json {line}"));
        assert_eq!(ran.exit, 1, "{line}: {ran:?}");
        let error: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        (error["code"].as_str().expect("a code").into(), error["error"].as_str().expect("a text").into())
    };
    for (line, code, text) in [
        ("object info 9@0:x", "no-job", "Job 9 not found."),
        ("object keep 1@7:x", "no-task", "Task 7 not found in job 1."),
        ("object drop 1@0:x", "no-object", "Task 1@0 leaves no object `x`. It leaves parts, note."),
        ("object keep 2@0:later", "not-stored", "`hq job wait 2` waits until it has."),
        ("object get 2@0:later -o x", "not-stored", "is not there yet: task 2@0 has not finished."),
        ("object drop 1@0:parts", "not-stored", "Object 1@0:parts is gone: it was dropped."),
        ("object list 9", "no-job", "Job 9 not found."),
        ("object get 1@0:note -o nowhere/x", "io", "nowhere: No such file or directory"),
    ] {
        let (found, error) = codes(line);
        assert!(found == code && error.contains(text), "{line}: {found}: {error}");
    }
    for (line, text) in [
        ("object info 1@x", "use JOB@TASK:NAME, such as 1@0:parts"),
        ("object get 1", "several objects are written to a directory: give one with -o DIR"),
        ("object list --state over", "use awaited, stored, lost, gone"),
        ("--output-mode json object get 1@0:note", "has no JSON output; give a file with -o FILE"),
        ("object get 1@0:note -o .", "is a directory"),
    ] {
        let ran = cluster.hq(line);
        assert!(ran.exit == 2 && format!("{}{}", ran.stdout, ran.stderr).contains(text), "{line}: {ran:?}");
    }
    // What is there is shown all the same.
    let ran = cluster.hq("--output-mode quiet object info 1@0:note 1@0:x");
    assert_eq!((ran.exit, ran.stdout.as_str()), (1, "1@0:note STORED\n"));
    assert!(ran.stderr.contains("Task 1@0 leaves no object `x`"), "{ran:?}");
    // What is there is kept and dropped all the same.
    for (what, done) in [("keep", "kept"), ("drop", "dropped")] {
        let ran = cluster.hq(&format!("object {what} 1@0:note 1@0:parts 9@0:x"));
        let errors = "ERROR Object 1@0:parts is gone: it was dropped.\nERROR Job 9 not found.\n";
        let said = format!("{errors}Object 1@0:note {done}\n");
        assert_eq!((ran.exit, ran.stdout, ran.stderr), (1, String::new(), said), "{what}");
    }
    let error = cluster.fails(1, "object drop 1@0:note 1@0:parts");
    assert!(error.contains("1@0:note is gone") && error.contains("1@0:parts is gone"), "{error}");
}

#[test]
fn tasks_take_objects_of_the_last_job() {
    let cluster = with_an_object();
    cluster.ok("submit --wait --resource a=1 --input-object in=last@0:note --stdout read -- cat in");
    assert_eq!(cluster.read("read"), "note\n");
    let error = cluster.fails(1, "submit --input-object in=last@0:note -- cat in");
    assert!(error.contains("Task 2@0 leaves no object `note`"), "{error}");
    cluster.ok("submit --wait --resource a=1 --output-object two=read -- true");
    cluster.write("script", "#!/bin/sh\n#HQ --resource a=1 --input-object in=last@0:two->given\ncat given\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(cluster.path("script"), mode).expect("ours");
    cluster.ok("submit --wait --directives=file --stdout again ./script");
    assert_eq!(cluster.read("again"), "note\n");
}

#[test]
fn a_client_that_may_not_get_an_object_by_way_of_the_server_is_told_why() {
    let cluster = deaf("--no-relay");
    let error = cluster.fails(1, "object get 1@0:note");
    assert!(error.contains("the server does not encrypt worker connections"), "{error}");
    let switch = "by way of the server: the server does not relay (`hq server start --no-relay`)";
    assert!(error.contains(switch), "{error}");
    assert!(error.contains("hq submit --input-object 'note=1@0:note' -- cp 'note' PATH"), "{error}");
    let error = cluster.fails(1, "object put note");
    let told = format!(
        "No worker has stored note: worker 1 (other): the server does not encrypt worker connections, so workers do \
         not accept connections; {switch}"
    );
    assert!(error.contains(&told) && error.contains("on a machine that has a worker"), "{error}");
}

// A worker of another machine, which no client reaches, since the server does not encrypt, so that it listens to nobody.
fn deaf(options: &str) -> Cluster {
    let mut cluster =
        Cluster::server_with(&format!("--disable-worker-authentication-and-encryption {options}"));
    cluster.worker("--cpus 1 --detect-resources none --hostname other --object-store 8MiB:8MiB");
    cluster.write("parts.bin", "0123456789".repeat(300_000));
    cluster.ok("submit --wait --output-object note=note --output-object parts=parts.bin --output-object tree=tree -- sh -c 'echo note > note; mkdir tree; echo leaf > tree/leaf'");
    cluster
}

#[test]
fn a_client_gets_and_puts_by_way_of_the_server() {
    let cluster = deaf("");
    assert_eq!(cluster.ok("object get 1@0:note"), "note\n");
    cluster.ok("object get 1@0:parts -o got");
    assert!(cluster.read("got") == cluster.read("parts.bin"));
    cluster.ok("object get 1@0 -o all");
    assert_eq!(cluster.read("all/0/tree/leaf"), "leaf\n");
    let relayed = cluster.json("server info")["relayed"].clone();
    let (transfers, bytes) = (relayed["transfers"].as_u64(), relayed["bytes"].as_u64());
    assert!(transfers >= Some(5) && bytes >= Some(6_000_000), "{relayed}");
    assert_eq!(
        cluster.ok("object put --name more parts.bin"),
        "Object 2@0:more: 2.9 MiB on worker 1 (other).\n"
    );
    assert_eq!(files_to_be_objects(&cluster, 1), [""; 0]);
    cluster.ok("submit --wait --input-object more=2@0:more -- cmp more parts.bin");
    let after = cluster.json("server info")["relayed"].clone();
    assert!(after["transfers"].as_u64() > transfers, "{after}");
    assert!(
        after["bytes"].as_u64() >= bytes.map(|bytes| bytes + 3_000_000),
        "what is put counts, too: {after}"
    );
}

#[test]
fn what_a_worker_does_not_take_by_way_of_the_server_is_refused_in_its_words() {
    let cluster = deaf("");
    // Its store is full of what stays.
    cluster.ok("object keep 1@0:parts");
    cluster.ok("object put --name more parts.bin");
    let error = cluster.fails(1, "object put --name third parts.bin");
    assert!(
        error.contains("worker 1 (other): ") && error.contains("make room with `hq object drop`"),
        "{error}"
    );
    assert!(!error.contains("by way of the server"), "it was reached: {error}");
}

// The names of files that are to be objects of a worker.
fn files_to_be_objects(cluster: &Cluster, worker: u32) -> Vec<String> {
    let info = cluster.json(&format!("worker info {worker}"));
    let dir = info[0]["object_store"]["dir"].as_str().expect("a directory");
    let files = fs::read_dir(format!("{dir}/put")).expect("there").flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_file_is_put_where_tasks_take_it() {
    for (options, node) in [("", None), ("--hostname other", Some("other"))] {
        let mut cluster = Cluster::server();
        cluster.worker(&format!("--cpus 1 --detect-resources none {options}"));
        cluster.write("data/reads.fq", "ACGT".repeat(700_000));
        let info = cluster.json("worker info 1");
        let node = node.unwrap_or_else(|| info[0]["configuration"]["hostname"].as_str().expect("a name"));
        let put = cluster.ok("object put data/reads.fq");
        assert_eq!(put, format!("Object 1@0:reads.fq: 2.7 MiB on worker 1 ({node}).\n"));
        cluster.ok("submit --wait --input-object in=1@0:reads.fq -- cmp in data/reads.fq");
        assert_eq!(files_to_be_objects(&cluster, 1), [""; 0]);
        assert_eq!(cluster.json("job info 1")[0]["info"]["name"], "reads.fq");

        cluster.write("empty", "");
        let put = cluster.json("object put --name none empty");
        assert_eq!(put, cluster.json("object info 3@0:none"));
        assert_eq!((&put[0]["size"], &put[0]["is_kept"]), (&0.into(), &true.into()), "{put}");

        let mut command =
            cluster.command(["--output-mode", "quiet", "object", "put", "--name", "lines", "-"]);
        command.stdin(fs::File::open(cluster.path("data/reads.fq")).expect("there"));
        let ran: Ran = command.output().expect("hq can be run").into();
        assert_eq!((ran.exit, ran.stdout.as_str()), (0, "4@0:lines\n"), "{ran:?}");
        cluster.ok("object get last@0:lines -o got");
        assert!(cluster.read("got") == cluster.read("data/reads.fq"));
    }
}

#[test]
fn what_was_put_outlives_the_server() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    cluster.write("note", "note");
    cluster.ok("object put note");
    cluster.server.take().expect("a server").signal(libc::SIGKILL);
    cluster.start_server("");
    cluster.ok("worker wait 1");
    assert_eq!(cluster.ok("object get 1@0:note"), "note");
    assert_eq!(cluster.json("job info 1")[0]["info"]["name"], "note");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_file_on_the_node_of_a_worker_needs_no_connection_to_it() {
    let mut cluster = Cluster::server_with("--disable-worker-authentication-and-encryption --no-relay");
    cluster.write("note", "note");
    cluster.worker("--cpus 1 --detect-resources none --hostname other");
    let error = cluster.fails(1, "object put note");
    assert!(
        error.contains("No worker has stored note: worker 1 (other): the server does not encrypt"),
        "{error}"
    );
    cluster.worker("--cpus 1 --detect-resources none");
    let put = cluster.ok("object put note");
    assert!(put.starts_with("Object 1@0:note: 4 B on worker 2 ("), "{put}");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_file_that_the_kernel_writes_while_it_is_read_is_put_whole() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    cluster.write("empty", "");
    for (path, id) in
        [("/proc/version", "1@0:version"), ("/sys/kernel/fscaps", "2@0:fscaps"), ("empty", "3@0:empty")]
    {
        let put = cluster.ok(&format!("object put {path}"));
        assert!(put.starts_with(&format!("Object {id}: ")), "{put}");
        let whole = std::fs::read(cluster.path(path)).expect(path);
        assert_eq!(cluster.ok(&format!("object get {id}")).as_bytes(), whole, "{path}");
    }
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn what_cannot_be_put_is_refused_with_a_way_out() {
    let mut cluster = Cluster::server();
    cluster.write("note", "note");
    cluster.write("a:b", "note");
    cluster.pipe("pipe");
    let check = |cluster: &Cluster, exit: i32, line: &str, texts: [&str; 2]| {
        let error = cluster.fails(exit, &format!("object put {line}"));
        assert!(texts.iter().all(|text| error.contains(text)), "{line}: {error}");
    };
    check(&cluster, 1, "note", ["No connected worker stores objects", "`hq worker start`"]);
    check(&cluster, 1, "missing", ["missing: No such file", ""]);
    check(&cluster, 2, "/", ["/ has no name that can be used for the object", "--name NAME"]);
    check(&cluster, 2, "pipe", ["pipe is not a regular file", "hq object put --name NAME - < pipe"]);
    check(&cluster, 2, "a:b", ["`a:b` cannot be the name of an object", "use --name NAME"]);
    check(&cluster, 2, "--name a/b note", ["`a/b` cannot be the name of an object", "--name"]);
    check(&cluster, 2, "-", ["standard input has no name", "--name NAME"]);
    cluster.worker("--cpus 1 --detect-resources none --no-object-store");
    check(&cluster, 1, "note", ["No connected worker stores objects", "--no-object-store"]);
    cluster.worker("--cpus 1 --detect-resources none --object-store store:1MiB");
    cluster.write("large", vec![b'x'; 3 << 20]);
    let sizes = "large has 3.0 MiB, but the largest object store of a worker holds 1.0 MiB";
    check(&cluster, 1, "large", [sizes, "--object-store DIR:SIZE"]);
    assert!(cluster.ok("object list").ends_with("0 objects\n"));
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_full_store_refuses_a_file_once_and_before_it_comes() {
    for options in ["", "--hostname other"] {
        let mut cluster = Cluster::server();
        cluster.worker(&format!("--cpus 1 --detect-resources none --object-store store:1MiB {options}"));
        cluster.write("large", vec![b'x'; 700_000]);
        cluster.ok("object put --name a large");
        let error = cluster.fails(1, "object put --name b large");
        let why = "700000 bytes do not fit: the object store may hold 1048576 bytes, of which 700000 are in use and \
            cannot be removed.";
        assert!(
            error.contains("No worker has stored large: worker 1 (") && error.contains(&format!("): {why}")),
            "{error}"
        );
        assert!(error.contains("make room with `hq object drop`"), "{error}");
        assert_eq!(error.matches("do not fit").count(), 1, "{error}");
        assert!(!error.contains("..") && !error.contains("cannot be reached"), "{error}");
        cluster.ok("object drop 1@0:a");
        assert_eq!(cluster.ok("--output-mode quiet object put --name c large"), "2@0:c\n");
        assert_eq!(files_to_be_objects(&cluster, 1), [""; 0]);
    }
}

#[test]
fn sixteen_times_a_store_goes_through_its_spill() {
    let mut cluster = Cluster::server();
    let stores = "--object-store store:1MiB --object-spill spill:64MiB";
    cluster.worker(&format!("--cpus 1 --detect-resources none {stores}"));
    for n in 0..10 {
        cluster.write("part", vec![b'a' + n; 1 << 20]);
        cluster.ok("object put part");
    }
    cluster.write("large", vec![b'x'; 6 << 20]);
    cluster.ok("object put --name large large");
    let store = &cluster.json("worker info 1")[0]["object_store"];
    assert_eq!((&store["size"], &store["spill"]["size"]), (&(1 << 20).into(), &(64 << 20).into()));
    let held = |of: &str| store["used"].as_u64().zip(store["spill"][of].as_u64());
    assert!(held("used").is_some_and(|(used, spilled)| used <= 1 << 20 && spilled >= 15 << 20), "{store}");
    let text = cluster.ok("worker info 1");
    assert!(text.contains("spill: ") && text.contains("of 64.0 MiB in"), "{text}");
    let inputs: String =
        (0..10).map(|n| format!(" --input-object part{n}={}@0:part->in-{n}", n + 1)).collect();
    let program = "for n in 0 1 2 3 4 5 6 7 8 9; do head -c 1 in-$n; tail -c 1 in-$n; wc -c < in-$n; done";
    cluster.ok(&format!("submit --wait --stdout ends{inputs} -- sh -c '{program}'"));
    let expected: String = ('a'..='j').map(|letter| format!("{letter}{letter}1048576\n")).collect();
    assert_eq!(cluster.read("ends"), expected);
    cluster.ok("object get 11@0:large -o got");
    assert!(std::fs::read(cluster.path("got")).is_ok_and(|got| got == vec![b'x'; 6 << 20]));
    // Both have their limits, which the refusal names.
    cluster.write("larger", vec![b'y'; 60 << 20]);
    let error = cluster.fails(1, "object put --name larger larger");
    assert!(error.contains("its spill may hold 67108864, of which"), "{error}");
}

#[test]
fn a_worker_that_is_drained_hands_on_what_is_kept() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    cluster.write("note", "note");
    cluster.ok("object put note");
    let named = "1 object that is kept has no other copy, no worker can store it, and it is lost with the worker: \
        1@0:note\n";
    cluster.worker("--cpus 1 --detect-resources none");
    let said = cluster.says("worker stop --drain 1");
    assert!(!said.contains("no other copy"), "{said}");
    patience::until("the end of the worker", || {
        let state = cluster.json("worker info 1")[0]["ended"].clone();
        if state.is_null() { Err("it has not ended".to_owned()) } else { Ok(()) }
    });
    assert_eq!(cluster.ok("object get 1@0:note"), "note");
    let said = cluster.says("worker stop --drain 2");
    assert!(said.ends_with(named), "{said}");
}

#[test]
fn another_worker_stores_what_a_frozen_one_does_not_take() {
    for options in ["", "--hostname other"] {
        let mut cluster = Cluster::server();
        for size in ["20MiB", "10MiB"] {
            cluster
                .worker(&format!("--cpus 1 --detect-resources none --object-store {size}:{size} {options}"));
        }
        cluster.write("note", "note");
        cluster.workers[0].signal(libc::SIGSTOP);
        let ran = cluster.hq("object put note");
        cluster.workers[0].signal(libc::SIGCONT);
        assert!(ran.exit == 0 && ran.stdout.contains(":note: 4 B on worker 2 ("), "{ran:?}");
        assert!(ran.stderr.starts_with("Waiting for worker 1 ("), "{ran:?}");
        cluster.ok("object put --name other note");
        assert!(cluster.ok("object list").ends_with("2 objects: 2 stored (8 B)\n"));
        assert_eq!(files_to_be_objects(&cluster, 1), [""; 0]);
    }
}

// Two workers that cannot reach each other, since the server does not encrypt, and so none of them listens.
fn apart(options: &str) -> Cluster {
    leaves_an_object(Cluster::server_with(&format!(
        "--disable-worker-authentication-and-encryption {options}"
    )))
}

#[test]
fn what_cannot_be_fetched_directly_passes_by_way_of_the_server() {
    let cluster = apart("");
    assert_eq!(cluster.json("server info")["relayed"], serde_json::json!({ "transfers": 0, "bytes": 0 }));
    cluster.ok("submit --wait --resource b=1 --input-object parts=1@0:parts->in/parts --input-object note=1@0:note->in/note -- cmp in/parts parts.bin");
    assert_eq!(cluster.read("in/note"), "note\n");
    // A machine that is stalled may have cut one, which is then asked for again.
    let relayed = cluster.json("server info")["relayed"].clone();
    assert!(
        relayed["transfers"].as_u64() >= Some(2) && relayed["bytes"].as_u64() >= Some(1_988_900),
        "{relayed}"
    );
    // Both have it now, and nothing more passes.
    cluster.ok(
        "submit --wait --resource b=1 --input-object parts=1@0:parts->in/parts -- cmp in/parts parts.bin",
    );
    assert_eq!(cluster.json("server info")["relayed"], relayed);
    assert!(cluster.ok("server info").contains("| Objects relayed"), "it is shown once there are some");
}

#[test]
fn a_server_that_relays_nothing_lets_readers_say_so() {
    let cluster = apart("--no-relay");
    cluster.ok("submit --resource b=1 --input-object note=1@0:note->in/note -- cat in/note");
    patience::until("the reason", || {
        let said = cluster.ok("task explain 2 0");
        let is_told =
            said.contains("by way of the server: the server does not relay (`hq server start --no-relay`)");
        if is_told && said.contains("worker 1: ") { Ok(()) } else { Err(said) }
    });
    assert!(cluster.json("server info")["relayed"].is_null());
    cluster.ok("job cancel 2");
}

#[test]
fn what_waiting_tasks_take_comes_while_others_run() {
    let mut cluster = Cluster::server();
    for resource in ["a", "b"] {
        cluster.worker(&format!("--cpus 1 --detect-resources none --resource {resource}=sum(1)"));
    }
    let leave = "echo $HQ_TASK_ID > p-$HQ_TASK_ID";
    cluster.ok(&format!(
        "submit --array 1-3 --wait --resource a=1 --output-object p=p-%{{TASK_ID}} -- sh -c '{leave}'"
    ));
    let take = "while ! test -e go; do sleep 0.01; done";
    cluster.ok(&format!(
        "submit --array 1-3 --resource b=1 --input-object p=1@%{{TASK_ID}}:p->in-%{{TASK_ID}} -- sh -c '{take}'"
    ));
    patience::until("the object of a task that waits", || {
        let copies = cluster.json("object info 1@2:p")[0]["copies"].clone();
        if copies == 2 { Ok(()) } else { Err(copies.to_string()) }
    });
    cluster.write("go", "");
    cluster.ok("job wait all");
    assert_eq!(cluster.read("in-3"), "3\n");
}

#[test]
fn closed_standard_input_is_no_object() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    let put = |from: &str| {
        let hq = cluster.command(["--output-mode", "quiet", "object", "put", "--name", "x", "-"]);
        let mut shell = std::process::Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("exec \"$@\" {from}"))
            .arg("sh")
            .arg(hq.get_program())
            .args(hq.get_args());
        shell.current_dir(cluster.work());
        hq.get_envs().for_each(|(name, value)| {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        });
        let ran: Ran = shell.output().expect("sh can be run").into();
        ran
    };
    let ran = put("<&-");
    assert!(ran.exit == 2 && ran.stderr.contains("standard input is closed"), "{ran:?}");
    assert_eq!(put("</dev/null").stdout, "1@0:x\n");
}

#[test]
fn a_put_that_is_interrupted_leaves_nothing() {
    for options in ["", "--hostname other"] {
        let mut cluster = Cluster::server();
        cluster.worker(&format!("--cpus 1 --detect-resources none {options}"));
        cluster.write("note", "note");
        cluster.workers[0].signal(libc::SIGSTOP);
        let mut command = cluster.command(["object", "put", "note"]);
        command.stdout(Stdio::null()).stderr(fs::File::create(cluster.path("said")).expect("writable"));
        let put = Process::start(command);
        put.until_it_catches(libc::SIGINT);
        put.signal(libc::SIGINT);
        assert_eq!(put.end(), 130);
        assert!(cluster.read("said").ends_with("ERROR Interrupted: the object was not stored\n"));
        cluster.workers[0].signal(libc::SIGCONT);
        // What the worker was told before it has done by then.
        assert_eq!(cluster.ok("object put --name other note").lines().count(), 1);
        assert_eq!(files_to_be_objects(&cluster, 1), [""; 0]);
        assert!(cluster.ok("object list").ends_with("1 object: 1 stored (4 B)\n"));
    }
}

#[test]
fn several_objects_of_a_job_are_named_at_once() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 4 --detect-resources none");
    let leave = "echo %{TASK_ID} > a-%{TASK_ID}; echo b > b-%{TASK_ID}";
    cluster.ok(&format!(
        "submit --wait --array 1-3 --output-object a=a-%{{TASK_ID}} --output-object b=b-%{{TASK_ID}} -- sh -c '{leave}'"
    ));
    assert_eq!(cluster.ok("--output-mode quiet object list 1@2-9:a"), "1@2:a STORED\n1@3:a STORED\n");
    assert_eq!(cluster.ok("--output-mode quiet object list last@3"), "1@3:a STORED\n1@3:b STORED\n");
    let holes = cluster.hq("--output-mode quiet object list 1-3");
    assert_eq!((holes.exit, holes.stdout.lines().count()), (1, 6), "{holes:?}");
    assert!(
        holes.stderr.contains("Job 2 not found.") && holes.stderr.contains("Job 3 not found."),
        "{holes:?}"
    );
    let got = cluster.hq("object get 1@2-4:a -o got");
    assert_eq!(
        (got.exit, cluster.read("got/2/a").as_str(), cluster.read("got/3/a").as_str()),
        (1, "2\n", "3\n")
    );
    assert!(got.stderr.contains("Task 4 of job 1 has no object `a` that is stored."), "{got:?}");
    let kept = cluster.hq("object keep 1@1-2:b 1@9:b 7");
    assert_eq!(kept.exit, 1, "{kept:?}");
    assert!(kept.stderr.contains("Object 1@1:b kept\nObject 1@2:b kept"), "{kept:?}");
    assert!(kept.stderr.contains("Job 7 not found."), "{kept:?}");
    let dropped = cluster.says("object drop 1");
    assert_eq!(dropped.lines().count(), 6, "{dropped}");
    let error = cluster.fails(1, "object drop 1");
    assert!(error.contains("Job 1 has no object that is stored or lost."), "{error}");
    fs::create_dir(cluster.path("tree")).expect("writable");
    let mut command = cluster.command(["object", "put", "."]);
    command.current_dir(cluster.path("tree"));
    let put: Ran = command.output().expect("hq runs").into();
    assert!(put.stderr.contains("Object 2@0:tree") || put.stdout.contains("Object 2@0:tree"), "{put:?}");
}
