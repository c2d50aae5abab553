//! Jobs whose tasks a generator makes and whose results a reducer takes, and results of programs.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Process};
use crate::patience;

// Numbers from 1 to 300; it dies once. Where it is, it says now and then.
const NUMBERS: &str = r##"#!/bin/sh
i=${HQ_CURSOR:-0}
while [ $i -lt 300 ]; do
  i=$((i+1))
  echo $i
  if [ $((i % 10)) = 0 ]; then echo "#hq cursor $i"; fi
  if [ $i = 105 ] && mkdir generator-died 2>/dev/null; then kill -9 $$; fi
done
"##;

// The sum of all results; it dies once.
const SUM: &str = r##"#!/bin/sh
sum=${HQ_STATE:-0}
n=0
while read -r line; do
  result=${line#*'"result":"'}
  result=${result%%\"*}
  sum=$((sum + result))
  n=$((n+1))
  if [ $((n % 7)) = 0 ]; then echo "#hq saved $n $sum"; fi
  if [ $n = 50 ] && mkdir reducer-died 2>/dev/null; then kill -9 $$; fi
done
echo $sum
"##;

fn cluster() -> Cluster {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 4");
    cluster
}

fn script(cluster: &Cluster, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    cluster.write(name, text);
    let path = cluster.work().join(name);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

fn submit(cluster: &Cluster, options: &str) -> Value {
    cluster.json(&format!("submit --stdout none --stderr none {options}"))
}

fn count(cluster: &Cluster, job: &str, state: &str) -> u64 {
    let info = cluster.json(&format!("job info {job}"));
    info[0]["info"]["task_stats"][state].as_u64().unwrap_or_default()
}

// Waits for all three jobs, and gives what the tasks of the others say when one has failed.
fn wait(cluster: &Cluster) {
    let ran = cluster.hq("job wait 3");
    let others = cluster.hq("task list --verbose 1-2");
    assert_eq!(ran.exit, 0, "{ran:?} {others:?}");
}

#[test]
fn a_program_has_the_result_that_it_prints_or_writes() {
    let cluster = cluster();
    let wait = "submit --wait --array 1-2";
    cluster.ok(&format!("{wait} --result last-line -- sh -c 'echo first; echo $HQ_TASK_ID'"));
    assert_eq!(cluster.ok("job result 1"), "1: 1\n2: 2\n");
    assert_eq!(cluster.json("job result 1")[0]["result"], json!("1"), "a text and no number");
    cluster.ok(&format!("{wait} --result file:score.%{{TASK_ID}} --stdout none -- sh -c 'echo E$HQ_TASK_ID > score.$HQ_TASK_ID'"));
    assert_eq!(cluster.ok("job result 2"), "1: E1\n2: E2\n");
    cluster.ok("submit --wait --result stdout --stdout none --stderr none -- printf 'a\\nb\\n'");
    assert_eq!(cluster.ok("job result 3"), "0: a\\nb\n");
    assert_eq!(cluster.json("task info 3 0")[0]["result"], json!("a\nb"));
    let failed =
        cluster.hq("submit --wait --result last-line -- sh -c 'head -c 5000 /dev/zero | tr \\\\0 x'");
    assert_eq!(failed.exit, 1, "{failed:?}");
    let error = cluster.json("task info 4 0")[0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("has 5000 bytes, but at most 4096 are kept"), "{error}");
    let failed = cluster.hq("submit --wait --result file:missing -- true");
    assert_eq!(failed.exit, 1, "{failed:?}");
    let error = cluster.json("task info 5 0")[0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("missing, is missing, although the program exited with code 0"), "{error}");
    let failed = cluster.hq("submit --result last-line --log all.log -- true");
    assert!(failed.stderr.contains("cannot be used together"), "{failed:?}");
}

#[test]
fn each_line_is_a_task_and_each_result_is_reduced_once() {
    let mut cluster = cluster();
    script(&cluster, "numbers", NUMBERS);
    script(&cluster, "sum", SUM);
    let options = "--retry 5 --generate ./numbers --ahead 20 --result last-line --reduce ./sum -- sh -c 'echo $HQ_ENTRY'";
    assert_eq!(submit(&cluster, options)["id"], 3);
    patience::until("some have finished", || match count(&cluster, "3", "finished") {
        60.. => Ok(()),
        found => Err(format!("{found}")),
    });
    cluster.server = None;
    cluster.start_server("");
    wait(&cluster);
    assert_eq!(cluster.ok("job result 3"), "45150\n");
    assert_eq!(count(&cluster, "3", "finished"), 300);
    for died in ["generator-died", "reducer-died"] {
        assert!(cluster.work().join(died).exists(), "{died}");
    }
    let info = &cluster.json("job info 3")[0]["feed"];
    assert_eq!(
        (&info["made"], &info["reduced"], &info["state"]),
        (&json!(300), &json!(300), &json!("decomposed"))
    );
}

#[test]
fn the_word_behind_a_sum_is_found_and_the_rest_is_not_tried() {
    let cluster = cluster();
    // All words of four of these letters, by their first two; it never ends by itself.
    script(
        &cluster,
        "spaces",
        "#!/bin/sh\nfor a in a b c d; do for b in a b c d; do echo $a$b; done; done\nwhile :; do echo zz; done\n",
    );
    script(
        &cluster,
        "try",
        "#!/bin/sh\nfor c in a b c d; do for d in a b c d; do\n\
         sum=$(printf %s \"$HQ_ENTRY$c$d\" | md5sum); [ \"${sum%% *}\" = \"$1\" ] && found=$HQ_ENTRY$c$d\n\
         done; done; echo ${found:-none}\n",
    );
    script(
        &cluster,
        "found",
        "#!/bin/sh\nwhile read -r line; do case $line in *'\"result\":\"none\"'*) ;; *'\"result\":\"'*)\n\
         word=${line#*'\"result\":\"'}; echo '#hq end'; echo ${word%%\\\"*}; exit;; esac; done; echo nothing\n",
    );
    // That of "bdac".
    let sum = "8e1de46c8e8a5fa3f5e7a7a2b0ba1d95";
    let sum = std::process::Command::new("sh")
        .args(["-c", "printf %s bdac | md5sum"])
        .output()
        .map_or(sum.to_owned(), |out| {
            String::from_utf8_lossy(&out.stdout).split(' ').next().unwrap_or("").to_owned()
        });
    submit(
        &cluster,
        &format!("--generate ./spaces --ahead 8 --result last-line --reduce ./found -- ./try {sum}"),
    );
    let ran = cluster.hq("job wait 3");
    assert_eq!(ran.exit, 0, "what is enough is a success: {ran:?}");
    assert_eq!(cluster.ok("job result 3"), "bdac\n");
    assert_eq!(count(&cluster, "1", "canceled"), 1, "the generator");
}

#[test]
fn what_is_wrong_with_a_generator_or_a_reducer_is_said() {
    let cluster = cluster();
    script(
        &cluster,
        "other",
        "#!/bin/sh\nif mkdir once 2>/dev/null; then echo a; sleep 0; exit 3; else echo b; fi\n",
    );
    let cases = [
        (
            "--generate 'sh -c \"echo a; echo first >&2; echo no license >&2; exit 3\"'",
            1,
            "the generator exited with code 3: no license",
        ),
        ("--generate ./nowhere", 1, "`./nowhere` cannot be started"),
        ("--generate 'echo [1]' --generate-json", 1, "line 1 of the generator: it is not an object: `[1]`"),
        ("--generate 'echo \"#hq moon\"'", 1, "line 1 of the generator: unknown directive `#hq moon`"),
        (
            "--generate 'sh -c \"head -c 200000 /dev/zero\"'",
            1,
            "line 1 of the generator has more than 131072 bytes",
        ),
        (
            "--generate 'sh -c \"echo a; head -c 131063 /dev/zero | tr \\\\0 x; echo\"'",
            1,
            "line 2 of the generator: its entry has 131063 bytes, but at most 131062 fit into the variable HQ_ENTRY",
        ),
        ("--retry 1 --generate ./other", 1, "is `b` after the restart of the generator, but was `a` before"),
        ("--generate 'echo a' --reduce true", 2, "the reducer exited before the end of its input"),
        (
            "--generate 'echo a' --reduce 'echo \"#hq saved 5 x\"'",
            2,
            "line 1 of the reducer: it acknowledges too many: 5 lines",
        ),
        ("--generate 'echo a' --reduce 'echo \"#hq saved x\"'", 2, "it needs the number of lines read"),
        (
            "--generate 'echo a' --reduce 'echo \"#hq foo\"'",
            2,
            "line 1 of the reducer: unknown directive `#hq foo`; only `#hq saved N TEXT` and `#hq end` are supported",
        ),
    ];
    let mut before = 0;
    for (options, failing, expected) in cases {
        let jobs = if options.contains("--reduce") { 3 } else { 2 };
        let job = before + failing;
        submit(&cluster, &format!("--result last-line {options} -- sleep 1000"));
        let ran = cluster.hq(&format!("job wait {job}"));
        assert_eq!(ran.exit, 1, "{options}: {ran:?}");
        let error = cluster.json(&format!("task info {job} 0"))[0]["error"].as_str().unwrap_or("").to_owned();
        assert!(error.contains(expected), "{options}: {error}");
        before += jobs;
        cluster.hq(&format!("job cancel {before}"));
    }
    for (options, expected) in [
        ("--generate ''", "it names no program"),
        ("--generate a --ahead 0", "no task would ever be created"),
        ("--generate a --array 1-3", "cannot be used together"),
        ("--reduce a", "works only together with --generate"),
    ] {
        let ran = cluster.hq(&format!("submit {options} -- true"));
        assert!(ran.exit == 2 && ran.stderr.contains(expected), "{options}: {ran:?}");
    }
}

#[test]
fn a_reducer_is_told_why_a_line_has_no_result() {
    let cluster = cluster();
    let task = "sh -c 'test $HQ_ENTRY = 2 || exec sleep 1000'";
    submit(
        &cluster,
        &format!("--generate 'seq 2' --reduce 'sh -c \"cat > reduced\"' --reduce-failed -- {task}"),
    );
    patience::until("one has finished", || match count(&cluster, "3", "finished") {
        1 => Ok(()),
        found => Err(format!("{found}")),
    });
    cluster.ok("job cancel 3 --tasks 0");
    assert_eq!(cluster.hq("job wait 3").exit, 1);
    let told: Vec<Value> =
        cluster.read("reduced").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let canceled =
        json!({"task": 0, "entry": "1", "state": "canceled", "result": null, "error": "it was canceled"});
    assert!(told.len() == 2 && told.contains(&canceled), "{told:?}");
}

#[test]
fn a_line_that_no_worker_can_run_is_told_to_whoever_waits() {
    let cluster = cluster();
    let line =
        r#"{"entry":"large one","resources":{"cpus":1000},"expect":90,"locality":"here","priority":7}"#;
    cluster.write("large.sh", format!("echo '{line}'\n"));
    cluster.write("said", "");
    // Whoever reads JSON is told so while the wait goes on, too.
    let mut command = cluster.command(
        shlex::split(
            "--output-mode json submit --wait --end-by 2h --generate 'sh large.sh' --generate-json -- true",
        )
        .expect("words"),
    );
    command.stderr(std::fs::File::create(cluster.path("said")).expect("a file"));
    let waiting = Process::start(command);
    let warning = "Job 2: 1 task fits no current or expected worker; see `hq job explain 2`";
    patience::until("a warning", || match cluster.read("said") {
        said if said.contains(warning) => Ok(()),
        said => Err(said),
    });
    let shown = &cluster.json("task info 2 0")[0];
    assert_eq!(
        (&shown["entry"], &shown["expect"], &shown["locality"], &shown["priority"]),
        (&json!("large one"), &json!(90.0), &json!("here"), &json!(7))
    );
    assert!(cluster.ok("task info 2 0").contains("large one"));
    let end = cluster.json("job info 2")[0]["submits"][0]["array"]["end_by"].clone();
    assert!(end.as_str().is_some_and(|end| end.ends_with('Z')), "{end}");
    cluster.ok("job cancel 2");
    assert_eq!(waiting.end(), 1);
}

#[test]
fn a_canceled_job_takes_its_generator_along() {
    let cluster = cluster();
    submit(&cluster, "--generate 'sh -c \"while :; do echo x; done\"' --ahead 5 --reduce cat -- sleep 1000");
    patience::until("some run", || match count(&cluster, "3", "running") {
        1.. => Ok(()),
        found => Err(format!("{found}")),
    });
    cluster.ok("job cancel 3");
    assert_eq!(cluster.hq("job wait 1-3").exit, 1);
    assert_eq!(count(&cluster, "1", "canceled") + count(&cluster, "2", "canceled"), 2);
    assert_eq!(count(&cluster, "3", "running"), 0);
}

// Each key twice, and all of it again after a death; kinds in turn.
const KEYED: &str = r##"
import json, os, sys
for n in range(40):
    kind = ["cpu", "gpu", "io"][n % 3]
    line = json.dumps({"entry": n, "key": f"k{n}", "kind": kind})
    print(line)
    print(line, flush=True)
    if n == 25 and not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), 9)
"##;

const COUNT: &str = r##"
import collections, json, sys
seen = collections.Counter()
for line in sys.stdin:
    line = json.loads(line)
    seen[line["result"]] += 1
print(" ".join(f"{n}x{result}" for result, n in sorted(seen.items())))
"##;

#[test]
fn lines_with_keys_are_one_task_each_and_ask_for_what_they_need() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2 --resource gpus=[0,1]");
    cluster.write("keyed.py", KEYED);
    cluster.write("count.py", COUNT);
    let task = "sh -c 'echo cpus:$HQ_RESOURCE_REQUEST_cpus,gpus:$HQ_RESOURCE_REQUEST_gpus,io:$HQ_RESOURCE_REQUEST_io'";
    cluster.ok(&format!(
        "submit --retry 2 --stdout none --stderr none --generate 'python3 keyed.py' --generate-json --result last-line --reduce 'python3 count.py' -- {task}"
    ));
    wait(&cluster);
    let counted = cluster.ok("job result 3");
    assert_eq!(
        counted,
        "13xcpus:,gpus:,io:1 compact 13xcpus:,gpus:1 compact,io: 14xcpus:1 compact,gpus:,io:\n"
    );
    assert_eq!(count(&cluster, "3", "finished"), 40);
}

#[test]
fn a_wrong_line_is_told_with_its_number() {
    let cluster = cluster();
    for (lines, expected) in [
        (
            r#"{"entry":1,"key":"a"}\n{"entry":2}"#,
            "line 2 of the generator: it has no `key`, but earlier lines have one",
        ),
        (r#"{"entry":1,"kind":"tape"}"#, "line 1 of the generator: `kind` is `tape`"),
        (
            r#"{"entry":1}\n{"entry":2,"resources":{"cpus":-1}}"#,
            "line 2 of the generator: `resources`: cpus = -1",
        ),
        (r#"{"entry":1,"key":"a"}\n{"entry":2,"key":"a"}"#, "key `a`"),
    ] {
        cluster.write("bad.sh", format!("printf '{lines}\\n'\n"));
        let job =
            submit(&cluster, "--generate 'sh bad.sh' --generate-json -- true")["id"].as_u64().expect("a job");
        let generator = job - 1;
        assert_eq!(cluster.hq(&format!("job wait {generator}")).exit, 1);
        let error = cluster.json(&format!("task info {generator} 0"))[0]["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(error.contains(expected), "{lines}: {error}");
        cluster.ok(&format!("job cancel {job}"));
    }
}

#[test]
fn a_job_whose_generator_or_reducer_has_failed_says_so_and_is_not_waited_for() {
    let cluster = cluster();
    for (options, own, ending, what) in [
        ("--generate 'sh -c \"echo a; echo no license >&2; exit 3\"'", 1, 2, "generator"),
        ("--generate 'echo a' --reduce 'sh -c \"echo no license >&2; exit 3\"'", 5, 6, "reducer"),
    ] {
        let ran = cluster.hq(&format!("submit --wait --stdout none --stderr none {options} -- true"));
        let why = format!(
            "Job {ending} is stalled: its {what}, job {own}, has failed: the {what} exited with code 3: no license; \
             `hq job resubmit {own}` goes on where it was, `hq job cancel {ending}` ends all"
        );
        assert!(ran.exit == 1 && ran.stderr.contains(&why), "{ran:?}");
        let listed = cluster.ok("job list");
        assert!(listed.contains(&why), "{listed}");
        let info = cluster.json(&format!("job info {ending}"));
        let told = info[0]["info"]["stalled"].as_str().unwrap_or_default().to_owned();
        assert!(why.ends_with(&told) && !told.is_empty(), "{info}");
        let explained = cluster.ok(&format!("job explain {ending}"));
        assert!(explained.contains(&told), "{explained}");
        let failures = cluster.ok(&format!("job failures {ending}"));
        let found = format!("Job {ending}: no task failed; it is stalled: {told}\n");
        assert_eq!(failures, found);
        let ran = cluster.hq(&format!("job wait {ending}"));
        assert!(ran.exit == 1 && ran.stderr.contains(&why), "{ran:?}");
        // Who waits for what is behind it is told the same, and not left waiting.
        let behind = ending + 1;
        let ran = cluster.hq(&format!("submit --wait --after {ending} -- true"));
        let told = format!(
            "Job {behind} is stalled: it waits for job {ending} (`true`), which is stalled: its {what}"
        );
        assert!(ran.exit == 1 && ran.stderr.contains(&told), "{ran:?}");
        let canceled = cluster.hq(&format!("job cancel {ending}"));
        let said = format!("Job {ending} canceled: no more tasks will be created");
        assert!(canceled.exit == 0 && canceled.stderr.contains(&said), "{canceled:?}");
        assert_eq!(cluster.json(&format!("job info {ending}"))[0]["info"]["stalled"], Value::Null);
    }
}

// It says where it is after every line when it is started again, and had said nothing before.
const MORE_CURSORS: &str = r##"#!/bin/sh
mkdir once 2>/dev/null && first=yes
for i in 1 2 3 4 5 6; do
  echo $i
  if [ -z "$first" ]; then echo "#hq cursor $i"; fi
  if [ "$first" ] && [ $i = 4 ]; then exit 3; fi
done
"##;

#[test]
fn a_generator_may_say_more_often_where_it_is_after_a_restart() {
    let cluster = cluster();
    script(&cluster, "cursors", MORE_CURSORS);
    let made = submit(&cluster, "--retry 1 --generate ./cursors -- true");
    assert_eq!((&made["id"], &made["generator"], &made["reducer"]), (&json!(2), &json!(1), &Value::Null));
    let ran = cluster.hq("job wait 2");
    assert_eq!((ran.exit, count(&cluster, "2", "finished")), (0, 6), "{ran:?}");
}

#[test]
fn a_worker_drains_although_a_generator_has_no_end() {
    let mut cluster = cluster();
    submit(&cluster, "--generate 'sh -c \"while :; do echo x; done\"' --ahead 5 -- sleep 0");
    patience::until("some have finished", || match count(&cluster, "2", "finished") {
        1.. => Ok(()),
        found => Err(format!("{found}")),
    });
    cluster.worker("--cpus 4");
    cluster.ok("worker stop --drain 1");
    patience::until("the first worker has ended", || {
        match cluster.json("worker list --all")[0]["ended"].is_null() {
            false => Ok(()),
            true => Err(cluster.ok("worker list --all")),
        }
    });
    let before = count(&cluster, "2", "finished");
    patience::until("it goes on", || match count(&cluster, "2", "finished") {
        found if found > before + 10 => Ok(()),
        found => Err(format!("{found}")),
    });
    cluster.ok("job cancel 2");
}

// Its result is too long; the next attempt has to read all lines again, and says something shorter.
const TOO_LONG: &str = r##"#!/bin/sh
n=0
while read -r line; do n=$((n+1)); done
if mkdir once 2>/dev/null; then head -c 5000 /dev/zero | tr '\0' x; echo; else echo $n; fi
"##;

#[test]
fn a_reducer_whose_result_is_too_long_reads_all_of_it_again() {
    let cluster = cluster();
    script(&cluster, "count", TOO_LONG);
    submit(
        &cluster,
        "--retry 1 --generate 'seq 1 20' --result last-line --reduce ./count -- sh -c 'echo $HQ_ENTRY'",
    );
    wait(&cluster);
    assert_eq!(cluster.ok("job result 3"), "20\n");
    let dropped = cluster.hq("job result all");
    assert!(dropped.stderr.contains("no longer kept: its reducer has taken them"), "{dropped:?}");
    cluster.ok("job forget 2");
    let forgotten = cluster.hq("job result 3");
    assert!(
        forgotten
            .stderr
            .contains("The result of job 3 is that of its reducer, job 2, which has been forgotten"),
        "{forgotten:?}"
    );
}

#[test]
fn a_job_that_is_closed_waits_for_its_reducer_whose_result_is_any_bytes() {
    let cluster = cluster();
    script(&cluster, "endless", "#!/bin/sh\necho 1; echo '#hq cursor 1'; exec sleep 1000\n");
    script(&cluster, "bytes", "#!/bin/sh\ncat >/dev/null; test -e go || exit 3; printf '\\377\\n'\n");
    submit(&cluster, "--generate ./endless --reduce ./bytes -- true");
    patience::until("its task has ended", || match count(&cluster, "3", "finished") {
        1 => Ok(()),
        found => Err(format!("{found}")),
    });
    let none = cluster.fails(1, "job result 3");
    assert!(none.contains("Job 3 has no result: its reducer, job 2, has not finished"), "{none}");
    cluster.ok("job close 3");
    let waited = cluster.fails(1, "job wait 3");
    assert!(waited.contains("its reducer, job 2, has failed: the reducer exited with code 3"), "{waited}");
    cluster.write("go", "");
    cluster.ok("job resubmit 2");
    cluster.ok("job wait 3");
    assert_eq!(cluster.json("job result 3")[0]["result_base64"], "/w==");
    script(&cluster, "silent", "#!/bin/sh\ncat >/dev/null\n");
    cluster.ok("submit --wait --stdout none --generate 'echo 1' --reduce ./silent -- true");
    assert_eq!(cluster.ok("job result last"), "\n", "it printed nothing");
}

#[test]
fn a_state_that_goes_backwards_is_refused() {
    let cluster = cluster();
    script(
        &cluster,
        "back",
        "#!/bin/sh\nfor n in 1 2 3 4; do read -r line; done; echo '#hq saved 3 c'; echo '#hq saved 3 d'; echo '#hq saved 2 b'; \
         cat >/dev/null\n",
    );
    submit(&cluster, "--generate 'seq 4' --reduce ./back -- true");
    let waited = cluster.fails(1, "job wait 3");
    assert!(
        waited.contains(
            "line 3 of the reducer: it acknowledges fewer than before: 2 lines, but its last saved \
            state covers 3"
        ),
        "{waited}"
    );
}
