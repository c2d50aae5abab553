//! Functions of Python as tasks, in interpreters that stay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::patience;

const MODULE: &str = r#"
import os, signal, sys

def double(line, by=2):
    print("got", line)
    return float(line) * by

def where():
    print("here")
    print("there", file=sys.stderr)
    return [os.getpid(), int(os.environ["HQ_TASK_ID"]), os.getcwd(), os.environ.get("LEFT")]

def leaves():
    os.environ["LEFT"] = "x"
    os.chdir("/")
    sys.stdout.write("no newline")
    sys.stdout.close()
    sys.stderr = None

def fails(n):
    print("about to fail", file=sys.stderr)
    raise ValueError(f"negative: {n}")

def exits(code):
    sys.exit(code)

def dies(how):
    print("last words", flush=True)
    if isinstance(how, str):
        os.kill(os.getpid(), getattr(signal, how))
    os._exit(how)

def large(count):
    return "x" * count

def strange():
    return object()

def waits():
    print("waits", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("interrupted")
        raise

def ignores():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ignores", flush=True)
    while True:
        signal.pause()

def records(item, **rest):
    return {"item": item, **rest}

async def later(n):
    return n + 1

def loud(n):
    for _ in range(n):
        print("y" * 99)

def directory():
    path = os.environ["HQ_TASK_DIR"]
    open(os.path.join(path, "scratch"), "w").close()
    return oct(os.stat(path).st_mode & 0o777)

def closes():
    # Everything but what it prints to.
    os.closerange(3, 1000)

def pools(n):
    import multiprocessing
    for _ in range(n):
        with multiprocessing.Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
    process = multiprocessing.Process(target=signal.pause)
    process.start()
    process.terminate()
    process.join()
    return process.exitcode

def forks(code):
    child = os.fork()
    if child == 0:
        if code is None:
            return "child"
        sys.exit(code)
    return os.waitpid(child, 0)[1]

class Model:
    @staticmethod
    def fit(x):
        return x * x
"#;

fn cluster() -> Cluster {
    let mut cluster = Cluster::server();
    cluster.write("lab.py", MODULE);
    cluster.worker("--cpus 2");
    cluster
}

fn results(cluster: &Cluster, job: &str) -> Vec<Value> {
    let listed = cluster.json(&format!("job result {job}"));
    listed.as_array().expect("a list").iter().map(|one| one["result"].clone()).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    patience::until(what, || if is_so() { Ok(()) } else { Err("not yet".to_owned()) });
}

// The error of the only task of the last job.
fn error_of(cluster: &Cluster, submit: &str) -> String {
    let ran = cluster.hq(&format!("submit --wait {submit}"));
    assert_eq!(ran.exit, 1, "{submit}: {ran:?}");
    let tasks = cluster.json("task list last");
    let tasks = tasks.as_object().and_then(|jobs| jobs.values().next()).expect("a job").clone();
    tasks[0]["error"].as_str().unwrap_or_else(|| panic!("{submit}: {tasks}")).to_owned()
}

#[test]
fn functions_get_arguments_and_return_results() {
    let cluster = cluster();
    cluster.write("lines", "1\n2.5\n-3\n");
    cluster.ok("submit --wait --function lab:double --each-line lines --args-json '{\"by\":10}'");
    assert_eq!(cluster.ok("job result 1"), "0: 10.0\n1: 25.0\n2: -30.0\n");
    assert_eq!(cluster.ok("job result 1 --tasks 1"), "25.0\n");
    assert_eq!(cluster.ok("--output-mode quiet job result 1"), "10.0\n25.0\n-30.0\n");
    assert_eq!(cluster.ok("job cat 1 stdout"), "got 1\ngot 2.5\ngot -3\n");
    cluster.write("items.json", "[{\"a\": 1}, [2], null]");
    cluster.ok("submit --wait --function lab:records --from-json items.json --args-json '{\"k\":\"v\"}'");
    assert_eq!(
        results(&cluster, "2"),
        [
            json!({"item": {"a": 1}, "k": "v"}),
            json!({"item": [2], "k": "v"}),
            json!({"item": null, "k": "v"})
        ]
    );
    for (function, arguments, expected) in [
        ("later", "[1]", "2"),
        ("Model.fit", "[7]", "49"),
        ("exits", "[0]", "null"),
        ("large", "[3]", "\"xxx\""),
    ] {
        cluster.ok(&format!("submit --wait --function lab:{function} --args-json {arguments}"));
        assert_eq!(cluster.ok("job result last"), format!("0: {expected}\n"), "{function}");
    }
    let info = cluster.json("job info 1");
    assert_eq!(info[0]["submits"][0]["array"]["function"]["name"], "lab:double", "{info}");
    assert_eq!(info[0]["info"]["name"], "lab:double", "{info}");
}

#[test]
fn interpreters_stay_within_a_job_and_nothing_of_a_task_is_left_for_the_next() {
    let cluster = cluster();
    let home = fs::canonicalize(cluster.path(".")).expect("a directory");
    cluster.ok("submit --wait --function lab:where --array 1-50");
    let first = results(&cluster, "1");
    let pids: std::collections::BTreeSet<i64> =
        first.iter().map(|one| one[0].as_i64().expect("a pid")).collect();
    assert!(pids.len() <= 2, "{pids:?}");
    assert_eq!(
        first.iter().map(|one| one[1].as_u64()).collect::<Vec<_>>(),
        (1..=50).map(Some).collect::<Vec<_>>()
    );
    // Another job has its own: the module may be another one by then.
    cluster.write("lab.py", MODULE.replace("LEFT\")]", "LEFT\"), \"new\"]"));
    cluster.write(
        "job.toml",
        "[[task]]\nid = 1\nfunction = 'lab:leaves'\n[[task]]\nid = 2\nfunction = 'lab:where'\ndeps = [1]\n",
    );
    cluster.ok("job submit-file job.toml");
    cluster.ok("job wait 2");
    let after = results(&cluster, "2 --tasks 2");
    assert!(!pids.contains(&after[0][0].as_i64().expect("a pid")), "{after:?}");
    assert_eq!(after[0].as_array().expect("a list")[2..], [json!(home), Value::Null, json!("new")]);
    assert_eq!(cluster.ok("job cat 2 --tasks 1 stdout"), "no newline");
    assert_eq!(cluster.ok("job cat 2 --tasks 2 stdout"), "here\n");
    assert_eq!(cluster.ok("job cat 2 --tasks 2 stderr"), "there\n");
}

#[test]
fn every_end_of_a_function_is_told() {
    let cluster = cluster();
    let error = |submit: &str| error_of(&cluster, submit);
    assert_eq!(error("--function lab:fails --args-json [3]"), "ValueError: negative: 3");
    let stderr = cluster.ok("job cat last stderr");
    assert!(stderr.starts_with("about to fail\nTraceback") && !stderr.contains("hq runner"), "{stderr}");
    assert_eq!(error("--function lab:exits --args-json [7]"), "SystemExit: 7");
    assert_eq!(
        error("--function lab:dies --args-json [3]"),
        "The interpreter exited with code 3 before the function returned."
    );
    assert_eq!(cluster.ok("job cat last stdout"), "last words\n");
    assert_eq!(
        error("--function lab:dies --args-json [0]"),
        "The interpreter exited with code 0 before the function returned."
    );
    let died = error("--function lab:dies --args-json '[\"SIGSEGV\"]'");
    assert!(died.contains("signal 11 (SIGSEGV)"), "{died}");
    let closes = error("--function lab:closes --time-limit 60s");
    assert!(closes.starts_with("The function has closed the connection between its interpreter"), "{closes}");
    let large = error("--function lab:large --args-json [20000]");
    assert!(
        large.starts_with("The result of lab:large takes 20002 bytes as JSON, but at most 16384"),
        "{large}"
    );
    let strange = error("--function lab:strange");
    assert!(
        strange.starts_with("The result of lab:strange cannot be said in JSON: TypeError: "),
        "{strange}"
    );
    let nan = error("--function lab:double --args-json '[\"nan\"]'");
    assert!(nan.starts_with("The result of lab:double cannot be said in JSON: ValueError: "), "{nan}");
    let missing = error("--function nolab:double");
    assert!(missing.contains("cannot be loaded: ModuleNotFoundError: No module named 'nolab'"), "{missing}");
    let missing = error("--function lab:nothing");
    assert!(missing.contains("cannot be loaded: AttributeError: "), "{missing}");
    let missing = error("--function lab:where --python ./no/python");
    assert!(missing.contains("no/python") && missing.contains("No such file or directory"), "{missing}");
    let wrong = error("--function lab:double --args-json [1,2,3]");
    assert!(wrong.starts_with("TypeError: "), "{wrong}");
    let limit = error("--function lab:waits --time-limit 1s");
    assert_eq!(
        (limit.as_str(), cluster.ok("job cat last stdout")),
        ("Time limit reached", "waits\ninterrupted\n".into())
    );
    assert_eq!(error("--function lab:ignores --time-limit 1s --kill-grace 100ms"), "Time limit reached");
    let unopened = error("--function lab:where --stdout /proc/nowhere/out");
    assert!(unopened.contains("/proc/nowhere"), "{unopened}");
    // What people ask for and is not there is one document of an error, or is said beside what is there.
    let ran = cluster.hq("--output-mode json job result 1");
    let document: Value = serde_json::from_str(&ran.stdout).expect("one document");
    assert_eq!((ran.exit, document["code"].as_str()), (1, Some("no-result")), "{ran:?}");
    cluster.ok("job open");
    cluster.ok("submit --wait --job last --function lab:later --args-json '[1]'");
    cluster.hq("submit --wait --job last --function lab:strange");
    let ran = cluster.hq("--output-mode json job result last --tasks 0-1");
    let document: Value = serde_json::from_str(&ran.stdout).expect("one document");
    assert_eq!((ran.exit, &document[0]["result"]), (1, &json!(2)), "{ran:?}");
    assert!(ran.stderr.contains("task 1 of job "), "{ran:?}");
    assert_eq!(cluster.ok("job result last"), "0: 2\n");
    for mode in ["json", "quiet"] {
        let ran = cluster.hq(&format!("--output-mode {mode} job result last"));
        assert!(ran.stderr.contains("WARN task 1 of job ") && ran.exit == 0, "{mode}: {ran:?}");
    }
    // A worker that had all of this goes on.
    cluster.ok("submit --wait --function lab:later --args-json [1]");
    let ran = cluster.hq("job result 1");
    assert_eq!((ran.exit, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("Task 0 of job 1 has no result"), "{ran:?}");
}

#[test]
fn a_canceled_function_ends_and_failures_are_retried() {
    let cluster = cluster();
    cluster.ok("submit --function lab:waits");
    until("it runs", || cluster.ok("job cat 1 stdout") == "waits\n");
    cluster.ok("job cancel 1");
    until("it was interrupted", || cluster.ok("job cat 1 stdout") == "waits\ninterrupted\n");
    cluster.write(
        "once.py",
        "import os\ndef f():\n    if os.environ['HQ_INSTANCE_ID'] == '0': os._exit(9)\n    return 1\n",
    );
    cluster.ok("submit --wait --function once:f --retry 1");
    assert_eq!(cluster.ok("job result last"), "0: 1\n");
}

#[test]
fn what_functions_print_goes_where_tasks_print() {
    let cluster = cluster();
    cluster.ok("submit --wait --function lab:loud --args-json [3000] --array 1-4 --stream s");
    let all = cluster.ok("output-log s cat 1 stdout");
    assert_eq!((all.lines().count(), all.len()), (12_000, 1_200_000));
    cluster.ok("submit --wait --function lab:loud --args-json [3] --array 1-40 --log l");
    assert_eq!(cluster.ok("output-log l cat 2 stdout").lines().count(), 120);
    cluster.ok("submit --wait --function lab:loud --args-json [2] --array 1-9 --stdout o/%{TASK_ID}/out --stderr none");
    for task in 1..10 {
        let text = fs::read_to_string(cluster.path(format!("o/{task}/out"))).expect("an output");
        assert_eq!(text.lines().count(), 2, "task {task}");
    }
    cluster.ok("submit --wait --function lab:directory --array 1-9 --task-dir");
    assert_eq!(results(&cluster, "last"), vec![json!("0o700"); 9]);
}

#[test]
fn results_survive_the_server_and_a_compaction() {
    let mut cluster = cluster();
    cluster.write("lines", (0..2000).map(|line| format!("{line}\n")).collect::<String>());
    // An open job is none that `journal prune` forgets.
    cluster.ok("job open");
    cluster.ok("submit --wait --job 1 --function lab:double --each-line lines --stdout none --stderr none");
    let expected: Vec<Value> = (0..2000).map(|line| json!(f64::from(line) * 2.0)).collect();
    assert_eq!(results(&cluster, "1"), expected);
    cluster.server = None;
    cluster.start_server("");
    assert_eq!(results(&cluster, "1"), expected);
    cluster.ok("journal prune");
    cluster.server = None;
    cluster.start_server("");
    assert_eq!(results(&cluster, "1"), expected);
    cluster.ok("job close 1");
    cluster.ok("job forget 1");
    assert_eq!(cluster.hq("job result 1").exit, 1);
}

#[test]
fn nothing_of_an_interpreter_outlives_its_worker() {
    let mut cluster = cluster();
    cluster.ok("submit --wait --function lab:where");
    let pid = results(&cluster, "1")[0][0].as_u64().expect("a pid");
    let process = PathBuf::from(format!("/proc/{pid}"));
    assert!(process.exists(), "it waits for another call");
    cluster.workers.clear();
    assert!(!process.exists(), "an interpreter is left");
}

#[test]
fn an_interpreter_is_a_command() {
    let cluster = cluster();
    let script = "#!/bin/sh\nexport WRAPPED=yes\nexec python3 \"$@\"\n";
    cluster.write("wrap.sh", script);
    fs::set_permissions(cluster.path("wrap.sh"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    cluster
        .write("w.py", "import os, sys\ndef f(): return [os.environ.get('WRAPPED'), sys.flags.dev_mode]\n");
    let mut command =
        cluster.command(["submit", "--wait", "--function", "w:f", "--python", "./wrap.sh -X dev"]);
    assert!(command.output().expect("hq can be run").status.success());
    assert_eq!(cluster.ok("job result last"), "0: [\"yes\",true]\n");
}

#[test]
fn processes_that_a_function_forks_are_its_own() {
    let cluster = cluster();
    cluster.ok("submit --wait --function lab:pools --args-json '[40]' --array 1-4 --time-limit 100s");
    assert_eq!(results(&cluster, "1"), vec![json!(-15); 4]);
    assert_eq!(cluster.ok("job cat 1 stderr"), "");
    for (code, status) in [("0", 0), ("3", 3 << 8), ("null", 0)] {
        cluster.ok(&format!("submit --wait --function lab:forks --args-json '[{code}]' --time-limit 60s"));
        assert_eq!(cluster.ok("job result last"), format!("0: {status}\n"), "{code}");
    }
}

#[test]
fn an_interpreter_that_lies_fails_its_call_and_harms_nothing() {
    let cluster = cluster();
    for (name, says, expected) in [
        ("much", r"b'\xff' * 100", "it sent 4294967295 bytes at once"),
        ("unknown", r"b'\x00\x00\x00\x00\x09'", "frames of kind 9 are not known"),
        ("damaged", r"b'\x01\x00\x00\x00\x02x'", "a frame of kind 2 with 1 bytes is damaged"),
        ("other", r"b'\x32\x00\x00\x00\x02' + b'\x07' * 8 + b'\x00' * 42", "a call that it does not have"),
    ] {
        let liar =
            format!("#!/usr/bin/env python3\nimport os, signal\nos.write(0, {says})\nsignal.pause()\n");
        cluster.write(name, liar);
        fs::set_permissions(cluster.path(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let error = error_of(&cluster, &format!("--function lab:where --python ./{name}"));
        assert!(
            error.starts_with("The interpreter was killed") && error.contains(expected),
            "{name}: {error}"
        );
    }
    // One that never speaks is ended by the limit of its call.
    cluster.write("silent", "#!/bin/sh\nexec sleep 1000\n");
    fs::set_permissions(cluster.path("silent"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    assert_eq!(
        error_of(&cluster, "--function lab:where --python ./silent --time-limit 1s"),
        "Time limit reached"
    );
    cluster.ok("submit --wait --function lab:where");
}

#[test]
fn what_goes_with_no_function_is_refused() {
    let cluster = cluster();
    for (options, expected) in [
        ("--function lab.py:double", "give the name of the module, not of its file: lab:double"),
        ("--function lab", "a module and a function"),
        ("--function lab:double --args-json 5", "use a list of arguments, [5]"),
        ("--function lab:double --args-json '{'", "this is not valid JSON"),
        ("--function lab:double --nodes 2", "--nodes of a function works only together with --ranks"),
        ("--function lab:double --stdin=lab.py", "--function cannot be used together with --stdin"),
        ("--function lab:double x", "pass arguments of the function with --args-json"),
        ("--args-json [1] -- true", "--args-json works only together with --function"),
        ("--python p -- true", "--python works only together with --function"),
    ] {
        let error = cluster.fails(2, &format!("submit {options}"));
        assert!(error.contains(expected), "{options}: {error}");
    }
    for (table, expected) in [
        ("function = 'lab:double'\ncommand = ['true']", "command and function cannot be used together"),
        ("function = 'lab'", "function: it must be a module"),
        ("command = ['true']\nargs = [1]", "args and python belong to a function"),
        ("function = 'lab:double'\nstdin = 'x'", "a function has no standard input"),
    ] {
        cluster.write("bad.toml", format!("[[task]]\n{table}\n"));
        let ran = cluster.hq("job submit-file bad.toml");
        assert!(ran.exit != 0 && ran.stderr.contains(expected), "{table}: {ran:?}");
    }
}

#[test]
fn a_first_call_that_cannot_be_prepared_leaves_no_interpreter_behind_that_others_wait_for() {
    let cluster = cluster();
    let call =
        |id: u32, rest: &str| format!("[[task]]\nid = {id}\nfunction = 'math:sqrt'\nargs = [4]\n{rest}\n");
    cluster.write("job.toml", call(0, "cwd = \"a\\u0000b\"") + &call(1, ""));
    cluster.ok("job submit-file job.toml");
    cluster.hq("job wait 1");
    let printed = cluster.ok("job result 1");
    assert!(printed.contains("2.0"), "{printed}");
}
