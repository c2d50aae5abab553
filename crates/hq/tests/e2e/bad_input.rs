//! Bad input gets a clear error, and nothing is lost.

use crate::cluster::{Cluster, Place, is_alive};

#[test]
fn bad_arguments_exit_with_2_and_name_the_argument() {
    let place = Place::new();
    for (line, word) in [
        ("submit --array 5-1 true", "--array"),
        ("submit --array 1-10:20 true", "--array"),
        ("submit --array 1-5,3 true", "--array"),
        ("submit --array -1-3 true", "--array <IDS>': `-1-3` is neither an id nor a range"),
        ("submit --time-limit -5s true", "--time-limit <DURATION>'"),
        ("submit --share -1..5 true", "--share <MIN..MAX>'"),
        ("submit --cpus -1x true", "--cpus <REQUEST>'"),
        ("worker start --time-limit -5m", "--time-limit <DURATION>'"),
        ("job wait 1 --reconnect-timeout -5s", "--reconnect-timeout <DURATION>'"),
        ("job info -1-3", "`-1-3` is not a valid value: ids, counts and times cannot be negative"),
        ("submit --array -1 true", "`-1` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
        ("job info -1", "`-1` is neither an id nor a range"),
        ("task info 1 -1", "`-1` is neither an id nor a range"),
        ("submit --cpus 0 true", "--cpus"),
        ("submit --cpus 1.23456 true", "--cpus"),
        ("submit --cpus=-1 true", "`-1` is not an amount"),
        (
            "submit --cpus '2 loose' true",
            "`loose` is not a valid policy: use compact, compact!, tight, tight! or scatter",
        ),
        ("submit --cpus 99999999999999999999 true", "is too large"),
        ("submit --resource gpus=-0.5 true", "`-0.5` is not an amount"),
        ("submit --resource memory=2GiB true", "only mem can have units, as in mem=2GiB"),
        ("submit --ary 1-3 true", "a similar argument exists: '--array'"),
        ("job open --name=", "the name is empty; omit the option to use the default name"),
        ("worker start --cpus 99999999", "it is too large: counts and indices go up to 1048576"),
        ("submit --resource gpus=0.0 true", "Zero resources cannot be requested"),
        ("submit --resource gpus=0.00001 true", "more than four decimals"),
        ("submit --resource mem=-4GiB true", "--resource"),
        ("submit --resource mem=0 true", "Zero resources cannot be requested"),
        ("submit --resource gpus true", "--resource"),
        ("submit --resource x=1 --resource x=1 true", "Resource 'x' defined more than once"),
        ("submit --priority 2147483648 true", "`2147483648` is not a valid priority"),
        ("submit --share 5..2 true", "--share"),
        ("submit --time-limit soon true", "--time-limit"),
        ("submit --resource 1x=2 true", "1x"),
        ("submit --unknown true", "--unknown"),
        ("submit", "no command was given"),
        ("submit --job x true", "`x` is not a valid id: use a number"),
        ("submit --priority x true", "`x` is not a valid priority"),
        ("submit --retry -1 true", "`-1` is not a valid number: use a whole number from 0"),
        ("submit --max-fails -1 true", "`-1` is not a valid number"),
        ("worker address last", "`last` is not a valid id"),
        ("server start --host=", "--host"),
        ("server generate-access f --client-port 7 --worker-port 7", "both are 7"),
        ("server generate-access f --client-port 7 --worker-port 8 --pull-file g --pull-bag 17", "no number"),
        (
            "server generate-access f --client-port 7 --worker-port 8 --pull-file g --pull-bag all",
            "for other jobs",
        ),
        ("job info", "JOBS"),
        ("job cancel 1-", "JOBS"),
        ("worker start --cpus none", "--cpus"),
        ("worker start --cpus 0", "a worker must have at least one CPU"),
        ("worker start --cpus 0x4", "at least one group of at least one CPU"),
        ("worker start --cpus [[0,1],[1,2]]", "label `1` occurs twice in resource `cpus`"),
        ("worker start --resource x=[[a],[]]", "does not define resource `x`"),
        ("worker start --resource x=range(3-1)", "from the smaller to the larger number"),
        ("task explain last 1-2", "select a single task by its id"),
        ("task explain last x", "neither an id nor a range"),
        ("worker start --resource x=sum(-1)", "at most four decimals"),
        ("worker start --resource x=sum(0)", "must be greater than zero"),
        ("worker start --resource x=sum(1) --resource x=[a]", "Resource x defined twice"),
        ("worker start --coupling cpus[0]", "is not a valid coupling"),
        ("worker start --coupling cpus[0]:x[0]=-1", "is not a valid coupling"),
        ("nonsense", "nonsense"),
        ("submit --name= true", "--name <NAME>': the name is empty"),
        ("submit --after-file= true", "--after-file <PATH>': the path is empty"),
        ("submit --cwd= true", "--cwd <PATH>': the path is empty"),
        ("run --launcher= true", "--launcher <NAME>': the name is empty"),
        (
            "submit --time-limit 0 true",
            "with a time limit of zero, a task would be ended at once; omit the option \
            for no limit",
        ),
        ("worker start --time-limit 0s", "the worker would end at once"),
        ("alloc add slurm --time-limit 0", "must be longer than zero"),
        ("submit --retry=9999999999 true", "`9999999999` is too large: the maximum is 4294967295"),
        ("submit --nodes=-1 true", "`-1` is not a valid number: use a whole number from 0"),
        ("alloc add slurm --time-limit 1h --backlog 0", "Backlog has to be at least 1"),
        ("submit --nodes 99999999 true", "99999999 nodes are too many: the maximum is 100000"),
        ("submit --array 1,,2 true", "there is nothing between the commas in `1,,2`"),
        ("submit --array 1-3, true", "there is nothing after the comma in `1-3,`"),
        (
            "submit --after 5000000000 true",
            "the job id in `5000000000` is too large: ids go up to 4294967295",
        ),
        ("submit --job 5000000000 true", "use a number from 1 to 4294967295"),
        ("task list 19 28 16", "give several ids as one word: `19,28,16`"),
        ("--output-version 2 job list", "--output-version"),
    ] {
        let error = place.fails(2, line);
        assert!(error.contains(word), "{line}: {error}");
        let ran = place.hq(&format!("--output-mode=json {line}"));
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a document");
        assert_eq!((ran.exit, &document["code"], ran.stderr.as_str()), (2, &"usage".into(), ""), "{line}");
    }
}

#[test]
fn bad_files_are_named_and_nothing_is_submitted() {
    let cluster = Cluster::server();
    cluster.write("empty", "");
    cluster.write("nul", "a\nb\0c\n");
    cluster.write("object", "{\"a\": 1}");
    cluster.write("torn", "[1,\n2,");
    for (line, text) in [
        ("submit --each-line missing true", "cannot read the entries in missing: No such file"),
        ("submit --each-line . true", "cannot read the entries in .: Is a directory"),
        ("submit --each-line empty true", "empty is empty: there is no line to create a task from"),
        (
            "submit --each-line nul true",
            "nul: entry 1 contains a NUL byte, which cannot be passed to a program",
        ),
        ("run --each-line nul true", "nul: entry 1 contains a NUL byte"),
        ("job submit-file torn", "torn"),
        ("submit --from-json object true", "has to be an array: object holds an object"),
        ("submit --from-json torn true", "torn is not valid JSON: EOF while parsing a value at line 2"),
        (
            "submit --directives=file missing",
            "Could not parse directives from missing: No such file or directory",
        ),
        ("submit --stdin=missing true", "cannot read the tasks' standard input missing"),
    ] {
        let error = cluster.fails(1, line);
        assert!(error.contains(text), "{line}: {error}");
    }
    assert!(cluster.fails(2, "submit -- ''").contains("the command is an empty string"));
    assert_eq!(cluster.json("job list --all"), serde_json::json!([]));
}

#[test]
fn arguments_the_system_does_not_take_are_refused_plainly() {
    let cluster = Cluster::new();
    let long = "x".repeat(100_000);
    let ran = cluster.run(["submit", "--wait", "--", "sh", "-c", "echo ${#1}", "sh", &long]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(cluster.ok("job cat 1 stdout"), "100000\n");
    cluster.write("entries", "y".repeat(200_000));
    let error = cluster.fails(1, "submit --each-line entries true");
    assert!(error.contains("entry 0 has 200009 bytes; Linux passes at most 131071"), "{error}");
}

#[test]
fn what_fails_on_the_worker_fails_with_its_reason() {
    let cluster = Cluster::new();
    cluster.write("not-executable", "echo hi\n");
    cluster.write("file", "");
    for (line, texts) in [
        ("submit --wait -- no-such-program", ["no-such-program", "No such file or directory"]),
        ("submit --wait -- ./not-executable", ["not-executable", "executable"]),
        ("submit --wait --cwd file/sub -- true", ["file/sub", "director"]),
        ("submit --wait --stdout file/out -- true", ["file/out", "irectory"]),
        ("submit --wait --time-limit 50ms --kill-grace 10ms -- sleep 1000", ["Time limit", "reached"]),
        ("submit --wait -- sh -c 'kill -9 $$'", ["signal 9", "SIGKILL"]),
    ] {
        cluster.fails(1, line);
        let error = cluster.json("task info last 0")[0]["error"].clone();
        let error = error.as_str().unwrap_or_default();
        assert!(texts.iter().all(|text| error.contains(text)), "{line}: {error}");
    }
}

#[test]
fn variables_are_no_arguments() {
    let place = Place::new();
    let run = |variable: &str, value: &str, line: &str| -> crate::cluster::Ran {
        let mut command = place.command(line.split_whitespace());
        command.env(variable, value).output().expect("hq can be run").into()
    };
    for line in ["", "job"] {
        let help = run("HQ_OUTPUT_MODE", "quiet", line);
        assert_eq!(help.exit, 2);
        assert!(help.stderr.contains("Commands:"), "{help:?}");
    }
    let usage = place.fails(2, "job cat 1");
    assert!(!usage.contains("--server-dir"), "{usage}");
    let home = run("HQ_SERVER_DIR", "", "job list");
    assert!(home.exit == 3 && home.stderr.contains(".hq-server"), "{home:?}");
    assert_eq!(run("HQ_OUTPUT_MODE", "", "job list").exit, 3);
    let unknown = run("HQ_OUTPUT_MODE", "yaml", "job list");
    assert_eq!(unknown.exit, 2);
    assert!(unknown.stderr.contains("HQ_OUTPUT_MODE is `yaml`: use cli, json or quiet"), "{unknown:?}");
    assert!(run("HQ_OUTPUT_MODE", "json", "job list").stdout.contains("no-access"));
    let unknown = run("HQ_DEBUG", "xyz", "job list");
    assert_eq!(
        (unknown.exit, unknown.stderr.as_str()),
        (2, "ERROR HQ_DEBUG is `xyz`: use 1 or 0, yes or no\n")
    );
    for (value, line) in
        [("On", "job list"), ("OFF", "job list"), ("", "job list"), ("xyz", "--debug job list")]
    {
        assert_eq!(run("HQ_DEBUG", value, line).exit, 3, "{value}");
    }
}

#[test]
fn a_full_disk_under_the_outputs_is_named() {
    let place = Place::new();
    std::fs::create_dir(place.path("small")).expect("a directory");
    // A disk of its own, seen by this run alone.
    let script = "mount -t tmpfs -o size=64k tmpfs small && \
                  exec \"$0\" run --stdout small/out --stderr none -- sh -c 'yes | head -c 100000; exit 3'";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_hq")]);
    command.current_dir(place.work()).env("TMPDIR", place.work()).env_remove("HQ_SERVER_DIR");
    let output = command.output().expect("unshare can be run");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(shown.contains("No space is left on the disk of its output"), "{shown}");
}

#[test]
fn a_task_that_ignores_sigterm_is_killed_with_its_children() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("running");
    cluster.ok("submit --kill-grace 100ms -- sh -c 'trap \"\" TERM; sleep 1000 & echo $! > running; while :; do wait; done'");
    let child = cluster.line_from(&pipe);
    cluster.ok("job cancel 1");
    cluster.fails(1, "job wait 1");
    // A task that needs the whole worker starts when nothing of the other is left.
    cluster.ok("submit --cpus all --wait true");
    assert!(!is_alive(&child), "the child {child} lives");
}

#[test]
fn no_server_exits_with_3() {
    let place = Place::new();
    for line in ["job list", "submit true", "server info", "server stop", "worker list", "job wait last"] {
        let error = place.fails(3, line);
        assert!(
            error.contains("No running instance of HQ found at") && error.contains("hint:"),
            "{line}: {error}"
        );
    }
    let ran = place.hq("--output-mode json job list");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a document");
    assert_eq!((ran.exit, &document["code"]), (3, &"no-access".into()));
}

#[test]
fn priorities_at_both_ends_of_the_range_are_ordered() {
    let mut cluster = Cluster::server();
    for priority in [i32::MIN, 0, i32::MAX] {
        cluster.ok(&format!("submit --priority={priority} --stdout none -- sh -c 'echo {priority} >>order'"));
    }
    cluster.worker("--cpus 1");
    cluster.ok("job wait all");
    let order: Vec<String> = cluster.read("order").lines().map(str::to_owned).collect();
    assert_eq!(order, ["2147483647", "0", "-2147483648"]);
}
