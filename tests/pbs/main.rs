//! Allocations end to end: the real program and a stand-in for PBS.

#[allow(dead_code, reason = "shared with the tests against Slurm")]
#[path = "../allocations.rs"]
mod allocations;
#[path = "../patience.rs"]
mod patience;
#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../../crates/hq/tests/e2e/cluster.rs"]
mod place;
#[allow(dead_code, reason = "shared with the tests of hq-batch")]
mod stand_in;

use std::path::Path;

use allocations::{allocations, one_finishes, reaches};
use patience::until;
use place::{Cluster, Place};
use stand_in::Pbs;

fn server(pbs: &Pbs) -> Cluster {
    Cluster::server_in(vec![("PATH", pbs.path())])
}

#[test]
fn work_without_workers_brings_an_allocation_that_vanishes_when_idle() {
    // The second time as most sites have it: PBS forgets a job that has ended.
    for options in [&[][..], &["--no-history"]] {
        let Some(pbs) = Pbs::start(options) else { return };
        let server = server(&pbs);
        server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s -- -q workq");
        server.ok("submit --wait -- sh -c 'echo $PBS_JOBNAME >name'");
        assert_eq!(server.read("name"), "hq-1-1\n");
        reaches(&server, 1, &["finished"]);
        assert!(!pbs.run("qstat", &["-f", "-F", "json"]).contains("Jobs"), "nothing is left there");
    }
}

#[test]
fn several_nodes_have_a_worker_each() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    server.pipe("meeting");
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s --max-workers-per-alloc 2 --cpus 2 \
         -- -l select=2:ncpus=2:mpiprocs=2 -l place=scatter");
    // Each task fills a worker, and both must run at once to end.
    let meet = "test %{TASK_ID} = 1 && echo here >meeting || read word <meeting";
    let task = format!("sh -c '{meet}; echo $PBS_JOBID >%{{TASK_ID}}'");
    server.ok(&format!("submit --wait --array 1-2 --cpus 2 -- {task}"));
    assert_eq!(server.read("1"), server.read("2"), "one allocation");
    reaches(&server, 1, &["finished"]);
}

#[test]
fn what_pbs_refuses_is_an_error_at_once() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    let error = server.fails(1, "alloc add pbs --time-limit 5m -- -q nope");
    assert!(error.contains("Unknown queue"), "{error}");
    let error = server.fails(1, "alloc add pbs --time-limit 2h -- -q workq");
    assert!(error.contains("1h"), "the longest time is named: {error}");
}

#[test]
fn what_contradicts_the_queue_is_refused_with_both_values() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    for (args, words) in [
        ("-- -q workq -l walltime=20", ["20s", "5m"]),
        ("-- -q workq -l select=2:ncpus=1", ["2 nodes", "1 worker"]),
        ("--max-workers-per-alloc 2 -- -q workq -l select=1", ["1 node", "2 workers"]),
        ("--cpus 4 -- -q workq -l select=1:ncpus=2", ["4 CPUs", "gives them 2"]),
    ] {
        let error = server.fails(1, &format!("alloc add pbs --time-limit 5m {args}"));
        assert!(words.iter().all(|word| error.contains(word)), "{args}: {error}");
    }
}

#[test]
fn a_worker_gets_what_it_offers_and_offers_what_it_got() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s -- -q workq");
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s --cpus 4 -- -q workq");
    let queues = server.json("alloc list");
    assert!(queues[0]["known_worker_resources"].to_string().contains("cpus"), "{queues}");
    // One CPU is too little for it, and the second queue asks for four.
    server.ok("submit --wait --cpus 2 -- sh -c 'echo $PBS_JOBID >id'");
    assert!(allocations(&server, 1).is_empty(), "a node of PBS gives one CPU when nobody says more");
    let id = server.read("id").trim().to_owned();
    let job = pbs.run("qstat", &["-x", "-f", "-F", "json", &id]);
    assert!(job.contains("\"ncpus\": 4"), "{job}");
}

#[test]
fn a_limit_on_jobs_is_waited_for_with_what_was_accepted() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    server.pipe("never");
    server.ok("alloc add pbs --backlog 12 --cpus 1 --time-limit 5m --idle-timeout 1s -- -q generic");
    server.ok("submit --array 1-20 -- sh -c 'read word <>never'");
    reaches(&server, 1, &["running", "running", "running", "queued"]);
    let words = "would exceed queue generic's per-user limit";
    until("the limit is told", || {
        let told = [server.ok("alloc explain 1"), server.ok("job explain 1")];
        told.iter().all(|text| text.contains(words)).then_some(()).ok_or_else(|| told.join("\n"))
    });
    let error = allocations(&server, 1)[3]["detail"].to_string();
    assert!(error.contains("not accepted yet") && error.contains(words), "{error}");
    assert_eq!(server.json("alloc list")[0]["state"], "Active", "this is not a failure");
    // What it was for is gone, and so is it.
    server.ok("job cancel 1");
    reaches(&server, 1, &["finished"; 4]);
    server.ok("submit --wait -- true");
}

#[test]
fn a_start_that_failed_says_what_it_printed() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    let start = "echo no module named compilers >&2; false";
    server.ok(&format!("alloc add pbs --time-limit 5m --worker-start-cmd '{start}' -- -q workq"));
    server.ok("submit -- true");
    until("the batch job ends", || {
        let all = allocations(&server, 1);
        let directory = all.first().and_then(|one| one["workdir"].as_str()).unwrap_or("/nonexistent");
        Path::new(directory).join("exit").exists().then_some(()).ok_or_else(|| format!("{all:?}"))
    });
    // Whoever asks why makes the server ask at once.
    until("the cause is told", || {
        let told = [server.ok("alloc explain 1"), server.ok("alloc info 1")];
        let is_told = told.iter().all(|text| text.contains("no module named compilers"));
        is_told.then_some(()).ok_or_else(|| told.join("\n"))
    });
}

#[test]
fn an_allocation_that_starts_while_the_server_is_away_waits_for_it() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let mut server = server(&pbs);
    let away = |server: &mut Cluster, is_killed: bool| {
        if is_killed {
            server.server.as_ref().expect("it runs").signal(9);
        } else {
            server.ok("server stop");
        }
        drop(server.server.take());
    };
    away(&mut server, false);
    // Once it was stopped in order, and has left nothing to be found by; once it was killed.
    for (queue, is_killed) in [(1, false), (2, true)] {
        server.start_server("--keep-allocations");
        server.ok("alloc add pbs --time-limit 5m --idle-timeout 2m -- -q workq -h");
        server.ok("submit -- true");
        reaches(&server, queue, &["queued"]);
        until("PBS has it", || {
            let id = allocations(&server, queue)[0]["id"].to_string();
            id.contains("pbs0").then_some(()).ok_or(id)
        });
        let one = allocations(&server, queue).remove(0);
        away(&mut server, is_killed);
        pbs.run("qrls", &[one["id"].as_str().expect("an id")]);
        let stderr = Path::new(one["workdir"].as_str().expect("a path")).join("stderr");
        until("its worker looks for the server", || {
            let text = std::fs::read_to_string(&stderr).unwrap_or_default();
            text.contains("waiting up to 2m for one").then_some(()).ok_or(text)
        });
        server.start_server("--keep-allocations");
        server.ok("job wait last");
        reaches(&server, queue, &["running"]);
        server.ok(&format!("alloc remove --force {queue}"));
        away(&mut server, false);
    }
}

#[test]
fn an_allocation_deleted_by_somebody_else_is_replaced() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    server.pipe("never");
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s -- -q workq");
    server.ok("submit -- sh -c 'test $HQ_INSTANCE_ID != 0 || read word <>never'");
    reaches(&server, 1, &["running"]);
    let id = allocations(&server, 1)[0]["id"].as_str().expect("an id").to_owned();
    pbs.run("qdel", &[&id]);
    one_finishes(&server);
    assert_eq!(allocations(&server, 1).len(), 2, "another allocation served it");
    assert_eq!(server.json("alloc list")[0]["state"], "Active");
}

// Each part fills a worker, and both must run at once to end; then a program has a rank on each node.
const RULES: &str = r#"
part:
  out: ["part_{n}"]
  script: |
    test {n} = 1 && echo here > meeting || read word < meeting
    echo $PBS_NODENUM > part_{n}
ranks:
  resource: {nrs: 2, ranks: 1, cpu: 1}
  inp: [part_1, part_2]
  out: [ranks]
  script: |
    {mpirun} sh -c 'echo $HQ_RANK $PBS_NODENUM' > ranks
"#;

#[test]
fn files_are_made_on_all_nodes_of_a_batch_job() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let place = Place::new();
    place.pipe("meeting");
    place.write("rules.yaml", RULES);
    place.write("targets.yaml", "all: {out: [ranks]}\n");
    let (hq, work, root) = (env!("CARGO_BIN_EXE_hq"), place.work(), place.root());
    let script = format!(
        "cd {}; export TMPDIR={}\n{hq} make --cpus 1 --launcher direct >printed 2>&1\n{hq} make >>printed 2>&1\nmv printed ended\n",
        work.display(),
        root.display(),
    );
    place.write("job", script);
    let job = place.path("job").display().to_string();
    let null = ["-o", "/dev/null", "-e", "/dev/null"];
    pbs.run("qsub", &[&null[..], &["-l", "select=2:ncpus=1", "-l", "place=scatter", &job]].concat());
    until("the batch job ends", || {
        if place.path("ended").exists() {
            return Ok(());
        }
        Err(std::fs::read_to_string(place.path("printed")).unwrap_or_default())
    });
    let printed = place.read("ended");
    let ending = ": 3 completed\nNothing to do: the wanted file exists\n";
    assert!(printed.ends_with(ending), "{printed}");
    let mut nodes = [place.read("part_1"), place.read("part_2")];
    nodes.sort();
    assert_eq!(nodes, ["0\n", "1\n"], "a part on each node: {printed}");
    let mut ranks: Vec<String> = place.read("ranks").lines().map(str::to_owned).collect();
    ranks.sort();
    let [first, second] = &ranks[..] else { panic!("{ranks:?}") };
    let of = |line: &str| line.split_once(' ').map(|(rank, node)| (rank.to_owned(), node.to_owned()));
    let (first, second) = (of(first).expect("a rank"), of(second).expect("a rank"));
    assert_eq!((&*first.0, &*second.0), ("0", "1"), "each rank once");
    assert_ne!(first.1, second.1, "one rank on each node");
}
