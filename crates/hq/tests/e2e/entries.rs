//! Entries of tasks: where placeholders stand for them, and what is refused.

use crate::cluster::{Cluster, Place};

#[test]
fn placeholders_stand_for_entries_wherever_something_is_replaced() {
    let cluster = Cluster::new();
    let entries = r#"[{"dir":"a b","n":[1.50,"x"]},{"dir":"c","n":[null,{"k":2}]}]"#;
    cluster.write("list.json", entries);
    cluster.ok(
        "submit --wait --from-json list.json --cwd 'runs/%{ENTRY.dir}' --stdout 'o/%{ENTRY.dir}.out' --stderr none \
         --env 'N=<%{ENTRY.n.1}>' --output 'left-%{ENTRY.dir}' \
         -- sh -c 'echo \"$1|$2|$N|$HQ_ENTRY\"; touch \"left-$3\"' sh '%{ENTRY.n.0}' '%{ENTRY.n}' '%{ENTRY.dir}'",
    );
    assert_eq!(
        cluster.read("runs/a b/o/a b.out"),
        "1.50|[1.50,\"x\"]|<x>|{\"dir\":\"a b\",\"n\":[1.50,\"x\"]}\n"
    );
    assert_eq!(
        cluster.read("runs/c/o/c.out"),
        "|[null,{\"k\":2}]|<{\"k\":2}>|{\"dir\":\"c\",\"n\":[null,{\"k\":2}]}\n"
    );
    // All that shows files of tasks knows where they are.
    assert!(cluster.ok("job cat 1 stdout").starts_with("1.50|[1.50"));
    assert!(cluster.ok("task tail 1@1").starts_with("|[null"));
    let cwd = cluster.path("runs/a b");
    let shown = cluster.json("task info 1@0");
    assert_eq!(shown[0]["cwd"], cwd.display().to_string());
    assert_eq!(shown[0]["stdout"], cwd.join("o/a b.out").display().to_string());
    let listed = cluster.json("task list 1 --verbose");
    assert_eq!(listed["1"][1]["stdout"], cluster.path("runs/c/o/c.out").display().to_string());
    let job = cluster.ok("job info 1");
    assert!(job.contains("runs/%{ENTRY.dir}/o/%{ENTRY.dir}.out"), "{job}");
}

#[test]
fn what_failed_is_found_and_submitted_again_by_its_entry() {
    let cluster = Cluster::new();
    cluster.write("lines", "a one\nb two\n");
    cluster.hq("submit --wait --each-line lines --stderr 'e/%{ENTRY_2}' -- sh -c 'echo bad %{ENTRY_1} >&2; test -e fixed'");
    let texts = cluster.json("job failures 1").to_string();
    assert!(texts.contains("bad a") && texts.contains("bad b") && texts.contains("e/one"), "{texts}");
    cluster.write("fixed", "");
    cluster.ok("job resubmit 1");
    cluster.ok("job wait last");
    assert_eq!(cluster.ok("job cat 2 --tasks 1 stderr"), "bad b\n");
}

#[test]
fn what_stands_for_nothing_is_refused_before_anything_is_sent() {
    let place = Place::new();
    place.write("list.json", r#"[{"name":"a"},{"names":"b"}]"#);
    place.write("lines", "a\nb\n");
    for (line, told) in [
        (
            "run --from-json list.json -- echo '%{ENTRY.name}'",
            "entry 1 (the first is 0): %{ENTRY.name} has no value: there is no field `name`; there are `names`",
        ),
        (
            "run --each-line lines --cwd '%{ENTRY.name}' -- echo",
            "entry 0 (the first is 0): %{ENTRY.name} has no value",
        ),
        (
            "run --each-line lines --array 1 --output '%{ENTRY_2}' -- echo",
            "--output is empty with entry 1 (the first is 0)",
        ),
    ] {
        let ran = place.hq(line);
        assert!(ran.exit != 0 && ran.stderr.contains(told), "{line}: {ran:?}");
    }
    assert!(!place.path("job-1").exists());
}

#[test]
fn arrays_of_job_files_have_them_too() {
    let place = Place::new();
    place.write(
        "job.toml",
        "[array]\nentries = ['{\"x\": 1}', '{\"x\": 2}']\ncommand = ['echo', '%{ENTRY.x}']\nstdout = 'out-%{ENTRY.x}'\n",
    );
    let cluster = Cluster::new();
    cluster.write("job.toml", place.read("job.toml"));
    cluster.ok("job submit-file job.toml");
    cluster.ok("job wait last");
    assert_eq!((cluster.read("out-1"), cluster.read("out-2")), ("1\n".into(), "2\n".into()));
}
