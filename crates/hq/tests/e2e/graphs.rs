//! Tasks with names, tasks that add tasks, and job files of many.

use crate::cluster::Cluster;

#[test]
fn a_named_task_is_made_once() {
    let mut cluster = Cluster::server();
    cluster.ok("job open --name grow");
    assert_eq!(cluster.ok("submit --job 1 --key first -- echo 1"), "Job submitted successfully, job ID: 1\n");
    let again = cluster.ok("submit --job 1 --key first -- echo 1");
    assert_eq!(again, "Job submitted successfully, job ID: 1\n1 task already existed\n");
    let other = cluster.fails(1, "submit --job 1 --key first -- echo 2");
    let expected = "The key `first` names task 0 of job 1 already, which has another command.";
    assert!(other.contains(expected), "{other}");
    cluster.write("lines", "a\nb c\n");
    cluster.ok("submit --job 1 --each-line lines --key 'line-%{ENTRY}' -- echo");
    assert_eq!(cluster.json("task info 1 2")[0]["key"], "line-b c");
    cluster.ok("submit --job 1 --key last --after '1@line-b c' -- true");
    for line in ["submit --job 1 --after 1@nobody -- true", "task info 1@nobody", "task tail 1@nobody"] {
        let unknown = cluster.fails(1, line);
        assert!(unknown.contains("No task of job 1 has the key `nobody`."), "{line}: {unknown}");
    }
    assert_eq!(cluster.json("task info '1@line-b c'")[0]["id"], 2);
    assert_eq!(cluster.json("task info last@first")[0]["id"], 0);
    for command in ["task", "job"] {
        let explained = cluster.json(&format!("{command} explain 1@last"));
        assert_eq!(explained["task_id"]["job_task_id"], 3, "{command}");
    }
    let unread = cluster.hq("task tail '1@line-b c'");
    assert!(!unread.stderr.contains("neither an id nor a range"), "{unread:?}");
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
    crate::events::keep_their_schema(&cluster);
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
    crate::events::keep_their_schema(&cluster);
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
    assert!(again.ends_with("2 tasks already existed\n"), "{again}");
    cluster.write("more.toml", "[[task]]\nid = 20\ndeps = [\"top\", 10]\ncommand = [\"true\"]\n");
    cluster.ok("job submit-file more.toml --job last");
    cluster.ok("submit --job last --key end --after 1@20 -- true");
    cluster.ok("job close 1");
    cluster.ok("job wait 1");
    let info = cluster.ok("task info 1 20");
    assert!(info.contains("| Dependencies | 10-11 "), "{info}");
    crate::events::keep_their_schema(&cluster);
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
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_job_file_that_is_refused_in_the_middle_leaves_nothing() {
    let cluster = Cluster::new();
    let mut file = String::new();
    for task in 0..2_500 {
        file += &format!("[[task]]\ncommand = [\"touch\", \"started-{task}\"]\n");
    }
    cluster.write("refused.toml", file + "after = [\"77\"]\n");
    let refused = cluster.fails(1, "job submit-file refused.toml");
    assert!(refused.contains("Job 77 not found"), "{refused}");
    assert_eq!(cluster.json("job list --all"), serde_json::json!([]));
    assert!(!cluster.path("started-0").exists());
    // What an open job had taken before stays there, and the user is told.
    cluster.ok("job open");
    let refused = cluster.fails(1, "job submit-file refused.toml --job last");
    assert!(
        refused.contains("2000 tasks of the file are in job 2, and perhaps some that come later"),
        "{refused}"
    );
    assert_eq!(cluster.json("job list --all")[0]["task_count"], 2_000);
    // A part behind the refused one is in.
    cluster.ok("job open");
    cluster.ok("submit --job 3 --array 5 -- true");
    let tasks = (0..1_500).map(|task| format!("[[task]]\nid = {task}\ncommand = [\"echo\", \"{task}\"]\n"));
    cluster.write("taken.toml", tasks.collect::<String>());
    let refused = cluster.fails(1, "job submit-file taken.toml --job 3");
    assert!(refused.contains("Task 5 already exists in job 3"), "{refused}");
    assert!(refused.contains("some tasks of the file may be in job 3"), "{refused}");
    assert_eq!(cluster.json("job info 3")[0]["info"]["task_count"], 501);
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_task_puts_itself_back_behind_what_it_made() {
    let cluster = Cluster::new();
    cluster.ok("job open");
    cluster.write(
        "decide.sh",
        "if test ! -e sum; then\n\
         $HQ submit --job $HQ_JOB_ID --key add -- sh -c 'echo 3 > sum'\n\
         $HQ task defer --after $HQ_JOB_ID@add\n\
         echo this line is never reached\n\
         fi\n\
         echo $(cat sum) by instance $HQ_INSTANCE_ID\n\
         $HQ job close $HQ_JOB_ID >&2\n",
    );
    cluster.ok("submit --job 1 --stdout decided -- bash decide.sh");
    cluster.ok("job wait 1");
    assert_eq!(cluster.read("decided"), "3 by instance 1\n");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn who_puts_a_task_back_is_that_task() {
    let cluster = Cluster::new();
    let outside = cluster.fails(1, "task defer --after 1");
    assert!(outside.contains("This works only inside a running task"), "{outside}");
    cluster.ok("submit --wait -- true");
    let old = cluster
        .command(["task", "defer", "--after", "1"])
        .envs([("HQ_JOB_ID", "1"), ("HQ_TASK_ID", "0"), ("HQ_INSTANCE_ID", "0")])
        .output()
        .expect("hq can be run");
    let old = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(old.contains("Task 1@0 does not run as instance 0 any more: it is finished"), "{old}");
    cluster.write("self.sh", "$HQ task defer --after $HQ_JOB_ID@$HQ_TASK_ID 2>&1; true");
    cluster.ok("submit --wait --stdout said -- bash self.sh");
    let said = cluster.read("said");
    assert!(said.contains("Tasks of job 2 wait for each other: 0 -> 0."), "{said}");
    cluster.write(
        "other.sh",
        "HQ_TASK_ID=7 $HQ task defer --after 1 2>&1; HQ_TASK_ID=7 $HQ task ready 2>&1; true",
    );
    cluster.ok("submit --wait --stdout said -- bash other.sh");
    let said = cluster.read("said");
    assert_eq!(said.matches("This runs in task 3@0 (instance 0), but HQ_JOB_ID").count(), 2, "{said}");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn outputs_that_were_promised_must_be_there() {
    let cluster = Cluster::new();
    cluster.fails(1, "submit --wait --array 1-2 --output 'out-%{TASK_ID}' -- sh -c 'test %{TASK_ID} = 2 || echo 1 > out-1'");
    let tasks = cluster.json("task list 1");
    assert_eq!((&tasks["1"][0]["state"], &tasks["1"][1]["state"]), (&"finished".into(), &"failed".into()));
    let error = tasks["1"][1]["error"].as_str().expect("an error");
    assert!(error.ends_with("out-2 is missing, although the program exited with code 0"), "{error}");
    // What attempts left that failed is no result.
    cluster.fails(1, "submit --wait --retry 1 --output half -- sh -c 'test ! -e half && echo $HQ_INSTANCE_ID > half; exit 3'");
    assert_eq!((cluster.read("half.failed-0"), cluster.read("half.failed-1")), ("0\n".into(), "1\n".into()));
    assert!(!cluster.path("half").exists());
    cluster.write("job.toml", "[[task]]\ncommand = [\"true\"]\noutputs = [\"nothing\"]\n");
    cluster.ok("job submit-file job.toml");
    cluster.fails(1, "job wait 3");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn tasks_start_when_their_service_is_ready() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("go");
    cluster.ok("job open");
    let needs = cluster.fails(2, "submit --job 1 --service -- true");
    assert!(needs.contains("--service works only together with --key"), "{needs}");
    cluster.ok("submit --job 1 --service --key db -- sh -c 'cat go; $HQ task ready here:7; exec sleep 1000'");
    cluster.ok("submit --job 1 --key use --after 1@db --stdout used -- sh -c 'echo $HQ_SERVICE_db'");
    let why = cluster.ok("task explain 1 1");
    assert!(why.contains("it waits for task 1@0"), "{why}");
    std::fs::write(&pipe, "").expect("the service reads");
    cluster.ok("submit --after 1@use --wait -- true");
    assert_eq!(cluster.read("used"), "here:7\n");
    cluster.write("no.sh", "$HQ task ready 2>&1; true");
    cluster.ok("submit --wait --stdout no -- bash no.sh");
    assert!(cluster.read("no").contains("Task 3@0 is no service"));
    cluster.ok("job cancel 1");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn tasks_wait_for_files() {
    let cluster = Cluster::new();
    cluster.ok("submit --after-file flag -- cat flag");
    let why = cluster.ok("task explain 1 0");
    let path = cluster.path("flag");
    assert!(why.contains(&format!("it waits for the file {}", path.display())), "{why}");
    cluster.write("flag", "it is here");
    cluster.ok("job wait 1");
    assert_eq!(cluster.ok("job cat 1 stdout"), "it is here");
    cluster.write("job.toml", "[[task]]\ncommand = [\"true\"]\nafter_files = [\"flag\", \"second\"]\n");
    cluster.ok("job submit-file job.toml");
    cluster.write("second", "");
    cluster.ok("job wait 2");
}

#[test]
fn a_job_file_that_is_too_large_is_refused_at_once() {
    let cluster = Cluster::server();
    let file = std::fs::File::create(cluster.path("large.toml")).expect("a file");
    file.set_len(100_000_000).expect("a sparse file");
    let error = cluster.fails(1, "job submit-file large.toml");
    assert!(error.contains("large.toml is larger than 64 MiB"), "{error}");
    let forgotten = {
        cluster.ok("submit --array 1-3 -- true");
        cluster.ok("job cancel 1");
        cluster.fails(1, "submit --after 1 -- true")
    };
    assert!(forgotten.contains("could never run: canceled already"), "{forgotten}");
    cluster.ok("job forget 1");
    let forgotten = cluster.fails(1, "submit --after 1 -- true");
    assert!(forgotten.contains("Job 1 not found."), "{forgotten}");
}
