//! A world for tests: files in memory with times that are numbers, digests that are sums, no Python.

use std::collections::BTreeMap;
use std::io;

use crate::known::{Digest, Known};
use crate::plan::{Plan, Rerun, Run, Wanted};
use crate::problem::Problem;
use crate::read::{Source, read};
use crate::value::Value;
use crate::world::{Digests, Facts, Files, Python, World};

/// Files by their absolute paths: their times and contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub files: BTreeMap<Vec<u8>, (i64, String)>,
    pub known: Known,
}

/// The directory of the call.
pub(crate) const BASE: &str = "/w";

impl Disk {
    /// Files below the base, each as old as its number says: `a=3`; without one, 1.
    pub(crate) fn new(files: &str) -> Disk {
        let mut disk = Disk::default();
        for word in files.split_whitespace() {
            let (name, time) = word.split_once('=').unwrap_or((word, "1"));
            disk.write(name, time.parse().expect("a time"), name);
        }
        disk
    }

    pub(crate) fn write(&mut self, name: &str, time: i64, content: &str) {
        self.files.insert(crate::paths::join(BASE.as_bytes(), name), (time, content.to_owned()));
    }

    /// Does what a run does: its outputs hold what its inputs held, unless `writes` says otherwise.
    pub(crate) fn execute(&mut self, plan: &Plan, run: &Run, time: i64, writes: Option<&str>) {
        for output in &run.outputs {
            let content = writes.map_or_else(
                || {
                    let inputs =
                        run.inputs.iter().map(|input| self.files[&*plan.file(*input).path].1.clone());
                    inputs.collect::<Vec<_>>().join("+") + &String::from_utf8_lossy(run.text())
                },
                str::to_owned,
            );
            self.files.insert(plan.file(*output).path.to_vec(), (time, content));
        }
        let lines = Known::ended(run, plan, self, &Sums).expect("no errors here");
        self.known.take(&lines);
    }
}

impl Files for Disk {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        if path.ends_with(b"forbidden") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let fact = |(time, content): &(i64, String)| Facts {
            is_dir: false,
            size: content.len() as u64,
            mtime_ns: *time,
            ctime_ns: *time,
            inode: 7,
        };
        Ok(self.files.get(path).map(fact))
    }
}

impl Digests for Disk {
    fn digest(&self, path: &[u8]) -> io::Result<Digest> {
        let (_, content) = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Sums.of_text(content.as_bytes()))
    }

    fn of_text(&self, text: &[u8]) -> Digest {
        Sums.of_text(text)
    }
}

/// Digests of texts alone.
struct Sums;

impl Digests for Sums {
    fn digest(&self, _: &[u8]) -> io::Result<Digest> {
        Ok([0; 32])
    }

    fn of_text(&self, text: &[u8]) -> Digest {
        let mut digest = [0_u8; 32];
        for (at, byte) in text.iter().enumerate() {
            let sum = &mut digest[at % 32];
            *sum = sum.wrapping_mul(31).wrapping_add(*byte).wrapping_add(at as u8);
        }
        digest[0] = digest[0].wrapping_add(text.len() as u8);
        digest
    }
}

/// A Python that knows two expressions, and counts how often it is asked.
#[derive(Default)]
pub(crate) struct Parrot(pub std::cell::Cell<usize>);

impl Python for Parrot {
    fn evaluate(&self, expressions: &[String]) -> Result<Vec<Result<Vec<Value>, String>>, String> {
        self.0.set(self.0.get() + 1);
        let answer =
            |text: &String| match text.strip_prefix("special(").and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => Ok(vec![Value::text(format!("{inner}1")), Value::text(format!("{inner}2"))]),
                None => Err(format!("NameError: {text}")),
            };
        Ok(expressions.iter().map(answer).collect())
    }
}

/// A plan for all targets.
pub(crate) fn plan(rules: &str, targets: &str, disk: &Disk, rerun: Rerun) -> Result<Plan, Vec<Problem>> {
    plan_of(rules, targets, disk, &Wanted { rerun, ..Wanted::default() }, None)
}

/// A plan.
pub(crate) fn plan_of(
    rules: &str,
    targets: &str,
    disk: &Disk,
    wanted: &Wanted,
    python: Option<&dyn Python>,
) -> Result<Plan, Vec<Problem>> {
    let make = read(
        Source { name: "rules.yaml", text: rules.as_bytes() },
        Source { name: "targets.yaml", text: targets.as_bytes() },
    )?;
    let wanted = Wanted { base: BASE.into(), ..wanted.clone() };
    let world = World { files: disk, digests: disk, python, known: &disk.known, now_ns: 1_000_000_000_000 };
    crate::search::plan(&make, &wanted, &world)
}

/// The names of the runs that are to run, in order; `?` after those that perhaps are.
pub(crate) fn needed(plan: &Plan) -> String {
    let name = |run: &Run| match run.state {
        crate::plan::RunState::Perhaps(_) => format!("{}?", run.name),
        _ => run.name.clone(),
    };
    plan.needed().map(name).collect::<Vec<_>>().join(" ")
}

/// All messages.
pub(crate) fn said(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Rules and targets in the manner of pmake's first publication.
pub(crate) const PAPER_RULES: &str = "\
simulate:
  resource: {time: 120, nrs: 10, cpu: 42, gpu: 6, ranks: 6}
  inp:
    param: \"{n}.param\"
  out:
    trj: \"{n}.trj\"
  setup: module load cuda
  script: |
    {mpirun} simulate {inp[param]} {out[trj]}

analyze:
  resource: {time: 15, nrs: 1, cpu: 1}
  inp:
    top: system.top
  loop:
    f: \"range(0,{frames})\"
    inp:
      trj: \"{f}.trj\"
  out:
    npy: \"an_{method}.npy\"
  script: |
    {mpirun} python average.py {inp[top]} {out[npy]} {inp[trj]}
";

/// Its targets.
pub(crate) const PAPER_TARGETS: &str = "\
water:
  dirname: System1
  frames: 3
  loop:
    method: \"['rdf', 'msd']\"
    out:
      npy: \"an_{method}.npy\"
";

/// Rules with anchors, merges and mappings, as projects of chemists have them.
pub(crate) const CHEMISTRY_RULES: &str = "\
ebind:
  resource: &small
    time: 10
    nrs: 1
    cpu: 4
  inp:
    conf: conf_{n}.xyz
  out:
    bind: bind_{n}.json
  setup: &env |
    module load chem
    export OMP_NUM_THREADS=4
  script: |
    python ebind.py {inp[conf]} {charge} > {out[bind]}

dg_nm1_n:
  resource: {<<: *small, time: 4}
  inp:
  loop:
    n: \"range({confs})\"
    inp:
      bind: bind_{n}.json
  out:
    min: min_nm1.npy
  setup: *env
  script: |
    python collect.py {out[min]} {inp[bind]}

conformer:
  resource:
    <<: *small
    gpu: 1
  inp: [mol.xyz]
  out: [\"conf_{n}.xyz\"]
  script: make-conformer -i {inp[0]} --seed {n:d} -o {out[0]}

rrho:
  resource: {<<: *small, time: 15, cpu: 1}
  inp:
    min: min_nm1.npy
  out:
    nm1: nm1.json
  script: |
    awk '{{print $1}}' {inp[min]} > {out[nm1]}
";

/// Their targets.
pub(crate) const CHEMISTRY_TARGETS: &str = "\
chloride: &ion
  dirname: chloride
  charge: -1
  confs: 4
  out: {nm1: nm1.json}
sodium:
  <<: *ion
  dirname: sodium
  charge: 1
";
