//! `hq make` in a job of Slurm: rules whose ranks are on both of its nodes.

use super::left_out;
use super::run::in_batch_job;

// Each of two sets takes all CPUs that a node is said to have, so a simulation takes both nodes. What the ranks say is
// analyzed in two ways, each over all simulations, and the results are compared.
const RULES: &str = r#"
simulate:
  resource: {time: 2, nrs: 2, ranks: 1, cpu: 2}
  inp:
    param: "{n}.param"
  out:
    trj: "{n}.trj"
  script: |
    {mpirun} sh ../rank.sh {rank} {inp[param]} > {out[trj]}

analyze:
  resource: {time: 1, cpu: 1}
  loop:
    n: "range(1, {frames} + 1)"
    inp:
      trj: "{n}.trj"
  out:
    kinds: "kinds_{column}"
  script: |
    cut -d ' ' -f {column} {inp[trj]} | sort -u | wc -l > {out[kinds]}

compare:
  resource: {time: 1, cpu: 1}
  loop:
    column: "range(1, 4)"
    inp:
      kinds: "kinds_{column}"
  out:
    all: compared
  script: |
    echo $(cat {inp[kinds]}) > {out[all]}
"#;

// What a rank is called, where it is, and what it was given. Open MPI hands its own variables to all ranks, so there the
// node is that of the daemon which started them.
const RANK: &str = r#"
eval "rank=\$$1"
node=$SLURMD_NODENAME
case $1 in OMPI_*) node=$(tr '\0' '\n' <"/proc/$PPID/environ" | sed -n 's/^SLURMD_NODENAME=//p') ;; esac
echo "$rank $node $(cat "$2")"
"#;

// A batch job on two nodes makes files with this launcher, whose ranks have their number in a variable.
fn is_made_on_both_nodes(launcher: &str, rank: &str, prepare: &str) {
    let targets = format!("run: {{dirname: run, frames: 2, rank: {rank}, out: [compared]}}\n");
    let script = format!(
        "mkdir run; echo cold >run/1.param; echo hot >run/2.param\n{prepare}\n\
         HQ make --cpus 2 --launcher {launcher} || cat run/*.log\n\
         HQ make\n\
         sort run/1.trj; sort run/2.trj; cat run/compared"
    );
    let files = [("rules.yaml", RULES), ("targets.yaml", &targets), ("rank.sh", RANK)];
    let Some((printed, _)) = in_batch_job(&format!("make-{launcher}"), &files, &script) else { return };
    assert!(printed.contains(": 6 completed\nNothing to do: the wanted file exists\n"), "{printed}");
    let lines: Vec<Vec<&str>> = printed.lines().rev().take(5).map(|line| line.split(' ').collect()).collect();
    let [compared, hot_1, hot_0, cold_1, cold_0] = &lines[..] else { panic!("{printed}") };
    for (ranks, given) in [([cold_0, cold_1], "cold"), ([hot_0, hot_1], "hot")] {
        assert_eq!(ranks.map(|rank| rank[0]), ["0", "1"], "each rank once: {printed}");
        assert_eq!(ranks.map(|rank| rank[2]), [given; 2], "{printed}");
        assert!(ranks.iter().all(|rank| rank[1].starts_with("node")), "{printed}");
        assert_ne!(ranks[0][1], ranks[1][1], "one rank on each node: {printed}");
    }
    assert_eq!(compared[..], ["2", "2", "2"], "ranks, nodes and what they were given: {printed}");
}

#[test]
fn ranks_of_a_rule_are_started_on_both_nodes_by_srun() {
    is_made_on_both_nodes("srun", "SLURM_PROCID", "");
}

#[test]
fn ranks_of_a_rule_are_started_on_both_nodes_by_their_workers() {
    is_made_on_both_nodes("direct", "HQ_RANK", "");
}

#[test]
fn ranks_of_a_rule_are_started_on_both_nodes_by_open_mpi() {
    if std::process::Command::new("mpirun.openmpi").arg("--version").output().is_err() {
        return left_out("Open MPI in a batch job: install openmpi-bin");
    }
    let prepare = r#"printf '#!/bin/sh\nexec mpirun.openmpi "$@"\n' >mpirun; chmod +x mpirun; export PATH=$PWD:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"#;
    is_made_on_both_nodes("openmpi4", "OMPI_COMM_WORLD_RANK", prepare);
}
