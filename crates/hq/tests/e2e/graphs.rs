//! Tasks with names, tasks that add tasks, and job files of many.

use crate::cluster::Cluster;

#[test]
fn a_named_task_is_made_once() {
    let mut cluster = Cluster::server();
    cluster.ok("job open --name grow");
    assert_eq!(cluster.ok("submit --job 1 --key first -- echo 1"), "Job submitted successfully, job ID: 1\n");
    let again = cluster.ok("submit --job 1 --key first -- echo 1");
    assert_eq!(again, "Job submitted successfully, job ID: 1\n1 task was there already\n");
    let other = cluster.fails(1, "submit --job 1 --key first -- echo 2");
    let expected = "The key `first` names task 0 of job 1 already, which has another command.";
    assert!(other.contains(expected), "{other}");
    cluster.write("lines", "a\nb c\n");
    cluster.ok("submit --job 1 --each-line lines --key 'line-%{ENTRY}' -- echo");
    assert_eq!(cluster.json("task info 1 2")[0]["key"], "line-b c");
    cluster.ok("submit --job 1 --key last --after '1@line-b c' -- true");
    let unknown = cluster.fails(1, "submit --job 1 --after 1@nobody -- true");
    assert!(unknown.contains("No task of job 1 has the key `nobody`."), "{unknown}");
    let several = cluster.fails(2, "submit --array 1-3 --key x -- true");
    assert!(several.contains("--key: it would name 3 tasks"), "{several}");
    // Another server of the directory knows the names, too.
    if let Some(server) = &cluster.server {
        server.signal(9);
    }
    cluster.server.take().map(crate::cluster::Process::end);
    cluster.start_server("");
    let known = cluster.json("submit --job 1 --key last --after '1@line-b c' -- true");
    assert_eq!(known["existing_tasks"], 1);
    let ran = cluster.ok("task info 1 3");
    assert!(ran.contains("| Key") && ran.contains("last"), "{ran}");
}

#[test]
fn a_task_adds_tasks_to_its_own_job() {
    let cluster = Cluster::new();
    cluster.ok("job open");
    cluster.write(
        "grow.sh",
        "set -e\n\
         for n in 1 2 3; do $HQ submit --job $HQ_JOB_ID --key step-$n -- sh -c \"echo $n >> steps\"; done\n\
         $HQ submit --job $HQ_JOB_ID --key sum --after $HQ_JOB_ID@step-1 --after $HQ_JOB_ID@step-2 \
           --after $HQ_JOB_ID@step-3 -- sh -c 'sort steps > sum'\n\
         $HQ job close $HQ_JOB_ID\n",
    );
    cluster.ok("submit --job 1 --key grow -- bash grow.sh");
    cluster.ok("job wait 1");
    assert_eq!(cluster.read("sum"), "1\n2\n3\n");
    assert_eq!(cluster.json("job list --all")[0]["task_stats"]["finished"], 5);
}

#[test]
fn a_job_file_names_tasks_and_those_of_its_open_job() {
    let cluster = Cluster::new();
    cluster.ok("job open");
    cluster.write(
        "graph.toml",
        "[[task]]\nid = 10\nkey = \"base\"\ncommand = [\"true\"]\n\
         [[task]]\nid = 11\nkey = \"top\"\ndeps = [\"base\"]\ncommand = [\"true\"]\n",
    );
    cluster.ok("job submit-file graph.toml --job 1");
    let again = cluster.ok("job submit-file graph.toml --job 1");
    assert!(again.ends_with("2 tasks were there already\n"), "{again}");
    cluster.write("more.toml", "[[task]]\nid = 20\ndeps = [\"top\", 10]\ncommand = [\"true\"]\n");
    cluster.ok("job submit-file more.toml --job 1");
    cluster.ok("job close 1");
    cluster.ok("job wait 1");
    let info = cluster.ok("task info 1 20");
    assert!(info.contains("1@10, 1@11"), "{info}");
}

#[test]
fn a_job_file_of_thousands_of_distinct_tasks_goes_in_few_requests() {
    let cluster = Cluster::server();
    let mut file = String::from("name = \"many\"\n");
    for task in 0..3_000 {
        file += &format!("[[task]]\nkey = \"task-{task}\"\ncommand = [\"echo\", \"{task}\"]\n");
        if task > 0 {
            file += &format!("deps = [\"task-{}\"]\n", task - 1);
        }
    }
    cluster.write("many.toml", file);
    cluster.ok("job submit-file many.toml");
    assert_eq!(cluster.json("job list --all")[0]["task_count"], 3_000);
    let events = cluster.ok("journal replay");
    assert_eq!(events.lines().filter(|line| line.contains("\"job-created\"")).count(), 3_000);
}
