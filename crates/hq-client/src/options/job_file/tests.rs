//! How job files are read, and what is said of those that are none.

use super::*;

fn read(content: &str) -> Result<PreparedFile, String> {
    prepare_file(Path::new("job.toml"), content, None, b"/here").map_err(|error| error.to_string())
}

#[test]
fn tasks_have_variants_in_order_of_preference() {
    let file = read(
        r#"
        name = "mixed"
        max_fails = 2
        [[task]]
        command = ["./fit", "%{TASK_ID}"]
        priority = -1
        time_limit = "1h 30m"
        crash_limit = 3
        stdout = { path = "fit.txt", on_close = "rm-if-finished" }
        stderr = "none"
        env = { A = "1" }
        [[task.request]]
        resources = { cpus = 1, "gpus/nvidia" = 0.5 }
        weight = 2.5
        [[task.request]]
        resources = { cpus = "4 compact!", mem = "2GiB" }
        time_request = "10m"
        [[task]]
        id = 7
        command = ["true"]
        [[task]]
        command = ["true"]
        "#,
    )
    .expect("a job");
    assert_eq!((file.job.name.as_str(), file.job.max_fails), ("mixed", Some(2)));
    let ids: Vec<String> = file.submits.iter().map(|submit| format!("{:?}", submit.ids)).collect();
    let given = |ids: &str| format!("{:?}", TaskIds::Given(ids.parse().expect("ids")));
    assert_eq!(ids, [given("8"), given("7,9")]);
    let requests: Vec<String> = file.submits[0].spec.requests.iter().map(ToString::to_string).collect();
    assert_eq!(requests, ["cpus: 1, gpus/nvidia: 0.5", "cpus: 4 compact!, mem: 2 GiB, time: 10m"]);
    assert_eq!(file.submits[0].spec.requests[0].weight, 25_000);
    assert_eq!(file.submits[1].spec.requests[0].to_string(), "cpus: 1");
}

#[test]
fn an_array_has_ids_or_entries() {
    let ids = |lines: &str| {
        let file = read(&format!("[array]\ncommand = [\"true\"]\n{lines}"))?;
        Ok((file.submits[0].ids.clone(), file.submits[0].entries.len()))
    };
    assert_eq!(ids("ids = \"1-10:3\""), Ok((TaskIds::Given("1-10:3".parse().expect("ids")), 0)));
    assert_eq!(ids("entries = [\"a\", \"b\"]"), Ok((TaskIds::Given(IdSet::range(0, 1)), 2)));
    let error: Result<(TaskIds, usize), String> = Err("job.toml: array: there are 3 ids and 1 entry".into());
    assert_eq!(ids("ids = \"1-3\"\nentries = [\"a\"]"), error);
}

#[test]
fn tasks_come_after_those_they_wait_for() {
    let file = read(
        r#"
        [[task]]
        id = 3
        command = ["rank"]
        deps = ["left", 5]
        [[task]]
        id = 5
        command = ["dock"]
        deps = [1]
        [[task]]
        id = 4
        name = "left"
        command = ["dock"]
        deps = [1]
        [[task]]
        id = 1
        command = ["prepare"]
        "#,
    )
    .expect("a graph");
    let shown = |submit: &Submit| {
        let TaskIds::Given(ids) = &submit.ids else { panic!("ids") };
        let lists = ids.iter().zip(submit.dependencies.edges.iter());
        let lists: Vec<String> = lists.map(|(id, list)| format!("{id} after {list:?}")).collect();
        format!("{ids}: {}", lists.join(", "))
    };
    let submits: Vec<String> = file.submits.iter().map(shown).collect();
    let task = |id| format!("[TaskId({id})]");
    assert_eq!(
        submits,
        [
            "1: ".to_owned(),
            format!("4-5: 4 after {}, 5 after {}", task(1), task(1)),
            "3: 3 after [TaskId(4), TaskId(5)]".to_owned(),
        ]
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (content, expected) in [
        ("", "job.toml: there are no tasks: write [[task]] tables, or one [array]"),
        ("[[task]]\ncommand=[]", "job.toml: task 1: there is no command"),
        ("[[task]]\nid=7\ncommand=[]", "job.toml: task with id 7: there is no command"),
        (
            "[[task]]\ncommand=[\"a\"]\ndeps=[1]",
            "deps of task 1 of the file: there is no task with id 1 in the file",
        ),
        (
            "[[task]]\ncommand=[\"a\"]\nname=\"x\"\ndeps=[\"y\"]\n[[task]]\ncommand=[\"b\"]\nname=\"y\"\ndeps=[\"x\"]",
            "deps: tasks wait for each other in a cycle: `x` -> `y` -> `x`",
        ),
        ("[[task]]\ncommand=[\"a\"]\ndeps=[\"x\"]", "no task of the file is named `x`"),
        ("[[task]]\ncommand=[\"a\"]\nafter=[\"x\"]", "after: `x` is not JOB, JOB@TASKS or JOB@KEY"),
        ("[[task]]\ncommand=[\"a\"]\nkey=\"7\"", "task 1: key: the key `7` begins with a digit"),
        (
            "[[task]]\ncommand=[\"a\"]\nkey=\"x\"\n[[task]]\ncommand=[\"b\"]\nkey=\"x\"",
            "task 2: the key `x` is already used by task 1 of the file",
        ),
        (
            "[[task]]\ncommand=[\"a\"]\nname=\"x\"\n[[task]]\nid=9\ncommand=[\"b\"]\nname=\"x\"",
            "task with id 9: the name `x` is already used by task 1 of the file",
        ),
        ("[array]\ncommand=[\"a\"]\nkey=\"x\"", "array: key belongs to [[task]]"),
        ("[[task]]\ncommand=[\"a\"]\neach=true", "each and window need after or after_any"),
        ("[array]\ncommand=[\"a\"]\ndeps=[1]", "name and deps belong to [[task]]; an array has after"),
        ("[[task]]\ncommand=[\"a\"]\npin=\"x\"", "pin: `x` is neither none, taskset nor omp"),
        ("[[task]]\ncommand=[\"a\"]\ntimelimit=1", "unknown field `timelimit`"),
        (
            "[[task]]\nid=1\ncommand=[\"a\"]\n[[task]]\nid=1\ncommand=[\"a\"]",
            "Task 1 is defined multiple times.",
        ),
        (
            "[[task]]\nid=4294967295\ncommand=[\"a\"]\n[[task]]\ncommand=[\"a\"]",
            "task 2: No task id is left behind the largest of the file; ids go up to 4294967295.",
        ),
        ("[[task]]\ncommand=[\"a\"]\n[array]\ncommand=[\"a\"]", "cannot be mixed"),
        (
            "[[task]]\ncommand=[\"a\"]\n[[task.request]]\nresources={cpus=0}",
            "task 1: request: cpus = 0: Zero resources cannot be requested",
        ),
        (
            "[[task]]\ncommand=[\"a\"]\n[[task.request]]\nresources={cpus=1.00001}",
            "task 1: request: cpus = 1.00001",
        ),
        (
            "[[task]]\ncommand=[\"a\"]\n[[task.request]]\nn_nodes=2\n[[task.request]]\nresources={cpus=1}",
            "single-node and multi-node variants cannot be mixed",
        ),
        (
            "[[task]]\ncommand=[\"a\"]\n[[task.request]]\nn_nodes=2\nresources={cpus=1}",
            "n_nodes requests whole workers; omit resources, or use ranks_per_node",
        ),
        ("not toml", "job.toml: TOML parse error"),
        ("name=\"\"\n[[task]]\ncommand=[\"a\"]", "job.toml: name: the name is empty"),
        ("[[task]]\ncommand=[\"a\"]\ncwd=\"\"", "task 1: cwd: the path is empty"),
        ("[[task]]\ncommand=[\"a\"]\noutputs=[\"x\",\"\"]", "task 1: outputs: the path is empty"),
        ("[[task]]\ncommand=[\"a\"]\nafter_files=[\"\"]", "task 1: after_files: the path is empty"),
        ("[[task]]\ncommand=[\"a\"]\nlocality=\"\"", "task 1: locality: the key is empty"),
        ("[[task]]\ncommand=[\"a\"]\nlauncher=\"\"", "task 1: launcher: the name is empty"),
        (
            "[[task]]\ncommand=[\"a\"]\ntime_limit=0",
            "task 1: time_limit: with a time limit of zero, a task would be ended at once",
        ),
        ("[[task]]\ncommand=[\"a\\u0000\"]", "task 1: the command contains a NUL byte"),
    ] {
        let error = read(content).expect_err(content);
        assert!(error.contains(expected), "{content:?}: {error}");
    }
}
