//! Starting a program on the nodes of the batch job that this process is in.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::{quote, script, slurm};

/// What an environment says of the batch job that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// How many nodes of it there are beside this machine.
    pub others: u32,
    /// This machine is one of its nodes. It is not where a shell outside of them belongs to the job, as `salloc` may
    /// leave it.
    pub is_here: bool,
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Srun { this: Option<String> },
    Pbsdsh,
}

impl Nodes {
    /// The nodes of the batch job of this environment; `read` reads a file. `None` without one, where there is no node but
    /// this one, and where the batch system has started several processes like this one, which each have their part.
    pub fn of(
        environment: &BTreeMap<String, String>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Nodes> {
        let nodes = slurm_nodes(environment).or_else(|| pbs_nodes(environment, read))?;
        (nodes.others > 0).then_some(nodes)
    }

    /// The program and its arguments that start `words` once on each of the other nodes, and wait for their ends.
    pub fn start_on_others(&self, words: &[OsString]) -> Vec<OsString> {
        match &self.way {
            Way::Srun { this } => {
                let srun = slurm::on_each_node(self.others);
                let this = this.as_ref().map(|this| format!("--exclude={this}").into());
                srun.into_iter().map(OsString::from).chain(this).chain(words.iter().cloned()).collect()
            }
            Way::Pbsdsh => {
                let mut text = b"on_node=".to_vec();
                let mut words_text = b"exec ".to_vec();
                quote::shell_words(words.iter().map(OsString::as_os_str), &mut words_text);
                quote::shell(&OsString::from_vec(words_text), &mut text);
                // The first node of the file is this one.
                text.extend_from_slice(b"\nskipped=1");
                text.extend_from_slice(script::PBSDSH.as_bytes());
                vec!["bash".into(), "-c".into(), OsString::from_vec(text)]
            }
        }
    }
}

fn slurm_nodes(environment: &BTreeMap<String, String>) -> Option<Nodes> {
    let text = |name: &str| environment.get(name).filter(|text| !text.is_empty());
    let number = |name: &str| text(name)?.parse::<u32>().ok();
    text("SLURM_JOB_ID")?;
    // A step of several tasks has one of us in each.
    if text("SLURM_STEP_ID").is_some() && number("SLURM_STEP_NUM_TASKS").is_some_and(|tasks| tasks > 1) {
        return None;
    }
    let all = number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES"))?;
    let this = text("SLURMD_NODENAME").cloned();
    let is_here = this.is_some();
    Some(Nodes { others: all.saturating_sub(is_here.into()), is_here, way: Way::Srun { this } })
}

fn pbs_nodes(environment: &BTreeMap<String, String>, read: &dyn Fn(&str) -> Option<String>) -> Option<Nodes> {
    environment.get("PBS_JOBID").filter(|id| !id.is_empty())?;
    // Started by `pbsdsh` or an MPI: the others are there, too.
    if environment.get("PBS_TASKNUM").is_some_and(|task| task != "1") {
        return None;
    }
    let file = read(environment.get("PBS_NODEFILE")?)?;
    let names: BTreeSet<&str> = file.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let others = u32::try_from(names.len()).ok()?.checked_sub(1)?;
    Some(Nodes { others, is_here: true, way: Way::Pbsdsh })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(variables: &[(&str, &str)], file: Option<&str>) -> Option<Nodes> {
        let environment = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Nodes::of(&environment, &|_| file.map(str::to_owned))
    }

    #[test]
    fn nodes_are_those_of_the_batch_job() {
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "4"), ("SLURMD_NODENAME", "n1")];
        let found = |nodes: Option<Nodes>| nodes.map(|nodes| (nodes.others, nodes.is_here));
        assert_eq!(found(nodes(&slurm, None)), Some((3, true)));
        assert_eq!(found(nodes(&slurm[..2], None)), Some((4, false)), "a shell of salloc on another machine");
        let step = |tasks: &'static str| {
            [&slurm[..], &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", tasks)]].concat()
        };
        assert_eq!(found(nodes(&step("1"), None)), Some((3, true)));
        assert_eq!(found(nodes(&step("4"), None)), None, "each of four has its own node");
        let one = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "1"), ("SLURMD_NODENAME", "n1")];
        assert_eq!(found(nodes(&one, None)), None);
        assert_eq!(found(nodes(&[], None)), None);
        let pbs = [("PBS_JOBID", "0.pbs"), ("PBS_NODEFILE", "/nodes")];
        assert_eq!(found(nodes(&pbs, Some("a\na\nb\nc\n"))), Some((2, true)));
        assert_eq!(found(nodes(&pbs, Some("a\na\n"))), None);
        assert_eq!(found(nodes(&pbs, None)), None);
        assert_eq!(
            found(nodes(&[&pbs[..], &[("PBS_TASKNUM", "3")]].concat(), Some("a\nb\n"))),
            None,
            "pbsdsh has started one on each node"
        );
    }

    #[test]
    fn each_batch_system_starts_programs_in_its_way() {
        let words: Vec<OsString> = ["/opt/hq", "worker", "it's"].map(OsString::from).into();
        let text = |nodes: &Nodes| {
            let words = nodes.start_on_others(&words);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "4"), ("SLURMD_NODENAME", "n1")];
        let srun = text(&nodes(&slurm, None).expect("nodes"));
        assert_eq!(
            (srun[0].as_str(), &srun[srun.len() - 4..]),
            ("srun", &["--exclude=n1", "/opt/hq", "worker", "it's"].map(String::from)[..])
        );
        assert!(
            srun.contains(&"--ntasks=3".to_owned()) && srun.contains(&"--nodes=3".to_owned()),
            "{srun:?}"
        );
        let pbs = [("PBS_JOBID", "0.pbs"), ("PBS_NODEFILE", "/nodes")];
        let pbs = text(&nodes(&pbs, Some("a\nb\n")).expect("nodes"));
        assert_eq!(pbs[..2], ["bash", "-c"]);
        assert!(
            pbs[2].starts_with("on_node='exec /opt/hq worker '\\''it'\\''\\'\\'''\\''s'\\'''\nskipped=1\n"),
            "{}",
            pbs[2]
        );
    }
}
