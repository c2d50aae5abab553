//! Job files of several jobs.

use serde_json::json;

use crate::cluster::Cluster;

const GROUP: &str = r#"
[[job]]
name = "collect"
after = ["search"]
command = ["sh", "-c", "cat sum > collected; ls part-* | wc -l >> collected"]

[[job]]
name = "parts"
entries = ["a", "b"]
command = ["touch", "part-%{ENTRY}"]
stdout = "none"
stderr = "none"

[[job]]
name = "search"
after = ["parts"]
after_any = ["odd"]
generate = ["seq", "1", "20"]
ahead = 5
command = ["sh", "-c", "echo $((HQ_ENTRY * 2))"]
result = "last-line"
stdout = "none"
stderr = "none"
reduce = "python3 sum.py"

[[job]]
name = "odd"
[[job.task]]
name = "first"
command = ["true"]
[[job.task]]
deps = ["first"]
command = ["true"]
"#;

const SUM: &str = r#"
import json, sys
total = sum(int(json.loads(line)["result"]) for line in sys.stdin)
open("sum", "w").write(f"{total}\n")
print(total)
"#;

fn cluster() -> Cluster {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 4");
    cluster.write("sum.py", SUM);
    cluster.write("group.toml", GROUP);
    cluster
}

fn names(cluster: &Cluster) -> Vec<String> {
    let list = cluster.json("job list --all");
    list.as_array()
        .expect("a list")
        .iter()
        .map(|job| job["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn each_table_of_a_file_is_a_job_that_waits_for_others() {
    let cluster = cluster();
    let said = cluster.ok("job submit-file --wait group.toml");
    assert!(
        said.starts_with(
            "Jobs submitted successfully, job IDs: 6 (collect), 1 (parts), 5 (search), 2 (odd)\n\
             Job 3 generates the tasks of job 5, job 4 reduces them\n"
        ),
        "{said}"
    );
    assert_eq!(names(&cluster), ["parts", "odd", "search: generate", "search: reduce", "search", "collect"]);
    let collected = std::fs::read_to_string(cluster.work().join("collected")).expect("collected");
    assert_eq!(collected.split_whitespace().collect::<Vec<_>>(), ["420", "2"]);
    assert_eq!(cluster.ok("job result 5"), "420\n");
    assert_eq!(cluster.ok("--output-mode quiet job submit-file group.toml"), "12\n7\n11\n8\n");
    let shown = cluster.json("job submit-file --wait group.toml");
    let of = |id: u32, name: &str| json!({ "id": id, "name": name });
    let search = json!({ "id": 17, "name": "search", "generator": 15, "reducer": 16 });
    assert_eq!(shown["jobs"], json!([of(18, "collect"), of(13, "parts"), search, of(14, "odd")]));
    assert_eq!(shown["wait"]["finished"], json!(4), "{shown}");
    assert_eq!(shown["id"], json!(18), "the last one");
}

#[test]
fn nothing_is_submitted_of_a_file_with_a_mistake() {
    let cluster = cluster();
    cluster.write("unknown.toml", "[[job]]\nname='a'\nafter=['b']\ncommand=['true']\n");
    let ran = cluster.hq("job submit-file unknown.toml");
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.stderr.contains("unknown.toml: job `a`: after: no job of the file is named `b`"), "{ran:?}");
    // The server refuses the second one.
    cluster.write(
        "refused.toml",
        "[[job]]\nname='a'\ncommand=['true']\n[[job]]\nname='b'\nafter=['77']\ncommand=['true']\n",
    );
    let ran = cluster.hq("job submit-file --wait refused.toml");
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.stderr.contains("Job `b`: Job 77 not found"), "{ran:?}");
    cluster.write("alone.toml", "[[job]]\nname='a'\nafter=['999']\ngenerate='seq 3'\ncommand=['true']\n");
    let ran = cluster.hq("job submit-file alone.toml");
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.stderr.contains("Job 999 not found: job `a` depends on it"), "{ran:?}");
    assert_eq!(names(&cluster), Vec::<String>::new());
}

#[test]
fn a_file_of_one_job_and_lines_of_a_script_may_name_a_generator() {
    let cluster = cluster();
    cluster.write("one.toml", "name='one'\ngenerate='seq 1 3'\nreduce='python3 sum.py'\n[array]\ncommand=['sh', '-c', 'echo $HQ_ENTRY']\nresult='last-line'\nstdout='none'\nstderr='none'\n");
    cluster.ok("job submit-file --wait one.toml");
    assert_eq!(cluster.ok("job result 3"), "6\n");
    cluster.write("step.sh", "#!/bin/sh\n#HQ --generate 'seq 1 4' --reduce 'python3 sum.py' --result last-line\n#HQ --stdout none --stderr none\necho $HQ_ENTRY\n");
    cluster.ok("submit --wait step.sh");
    assert_eq!(cluster.ok("job result 6"), "10\n");
}

#[test]
fn a_thousand_jobs_of_few_words_are_one_file() {
    let cluster = Cluster::server();
    let jobs: String = (0..1000)
        .map(|job| {
            format!("[[job]]\nname = \"j{job}\"\ncommand = [\"true\"]\nstdout = \"none\"\nstderr = \"none\"\narray = \"1-2\"\n")
        })
        .collect();
    cluster.write("jobs.toml", jobs);
    cluster.ok("job submit-file jobs.toml");
    assert_eq!(cluster.json("job list --all").as_array().expect("a list").len(), 1000);
}
