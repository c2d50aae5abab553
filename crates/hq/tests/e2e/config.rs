//! Configuration files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cluster::{Cluster, Place};

fn user_file(place: &Place, text: &str) {
    let directory = place.root().join("hq");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("config.toml"), text).expect("writable");
}

#[test]
fn options_come_from_files_where_nothing_else_says_them() {
    let cluster = Cluster::new();
    user_file(
        &cluster,
        "colors = 'never'\n[submit]\nenv = ['A=user', 'B=user']\nname = 'user'\nstream = 'all'\n[job.list]\nall = true\n",
    );
    cluster.write("hq.toml", "[submit]\nenv = ['B=project']\nname = 'project'\npriority = 7\n");
    cluster.write("a.sh", "#!/bin/sh\n#HQ --name script\necho $A $B $C\n");
    let ran = cluster.hq("submit --wait --env C=given a.sh");
    assert_eq!((ran.exit, ran.stdout.as_str()), (0, "Job submitted successfully, job ID: 1\n"), "{ran:?}");
    assert_eq!(cluster.ok("output-log all cat 1 stdout"), "user project given\n");
    cluster.ok("submit --wait --log one --env A=given -- sh -c 'echo $A'");
    assert_eq!(cluster.ok("output-log one cat 2 stdout"), "given\n");
    let jobs = cluster.json("job list");
    assert_eq!((&jobs[0]["name"], &jobs[1]["name"]), (&"script".into(), &"project".into()));
    let info = cluster.json("job info 2");
    assert_eq!(info[0]["submits"][0]["array"]["priority"], 7);
    // They hold in directories below, too.
    fs::create_dir(cluster.path("below")).expect("a directory");
    let mut command = cluster.command(["submit", "true"]);
    assert!(command.current_dir(cluster.path("below")).status().expect("hq can be run").success());
    assert_eq!(cluster.json("job list")[2]["name"], "project");
}

#[test]
fn what_is_wrong_in_a_file_is_named_and_what_others_can_write_is_left_out() {
    let place = Place::new();
    place.write("hq.toml", "[worker.start]\nidle-timeout = 'soon'\n[submit]\ncpu = 1\n");
    let error = place.fails(2, "worker start");
    assert!(error.contains("hq.toml: [worker start] idle-timeout: invalid value 'soon'"), "{error}");
    let error = place.fails(2, "submit true");
    assert!(error.contains("hq.toml: [submit] cpu: `hq submit` has no option --cpu"), "{error}");
    assert!(error.contains("did you mean `cpus`?"), "{error}");
    place.write("hq.toml", "colours = 'never'\n[submit]\ncpu = 1\npriority = 'high'\n[wait]\nx = 1\n");
    for line in ["submit true", "config show"] {
        let error = place.fails(2, line);
        for wrong in ["hq.toml: colours: ", "hq.toml: [submit] cpu: ", "hq.toml: [submit] priority: "] {
            assert_eq!(error.matches(wrong).count(), 1, "{line}: {error}");
        }
    }
    let ran = place.hq("--output-mode json config show");
    assert_eq!((ran.exit, ran.stderr.as_str()), (2, ""), "{ran:?}");
    fs::set_permissions(place.path("hq.toml"), fs::Permissions::from_mode(0o666)).expect("it is ours");
    let ran = place.hq("config show");
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.stderr.contains("hq.toml is ignored: everyone can write to it"), "{ran:?}");
    assert!(!ran.stdout.contains("submit"), "{ran:?}");
}

#[test]
fn where_an_option_comes_from_is_shown() {
    let place = Place::new();
    user_file(&place, "server-dir = 'a'\n[submit]\ncpus = 2\nname = 'user'\n");
    place.write("hq.toml", "[submit]\ncpus = 3\n");
    let shown = place.json("config show");
    let of = |at: usize| {
        let setting = &shown["settings"][at];
        let text = |key: &str| setting[key].as_str().expect("a text").to_owned();
        let origin = text("origin").rsplit('/').next().map(str::to_owned).expect("a name");
        [text("command"), text("option"), text("value"), origin]
    };
    // The variable stands above the file.
    assert_eq!(of(0)[..2], ["".to_owned(), "server-dir".to_owned()]);
    assert_eq!(of(0)[3], "HQ_SERVER_DIR");
    assert_eq!(of(1), ["submit", "cpus", "3", "hq.toml"]);
    assert_eq!(of(2), ["submit", "name", "user", "config.toml"]);
    assert_eq!(shown["settings"][3], serde_json::Value::Null);
}
