//! What scripts and logs are called, and what stands in a script.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Search, fill::Filled};
use crate::limits::NAME_BYTES_MAX;
use crate::makefile::Rule;
use crate::paths;
use crate::plan::Run;
use crate::problem::Problem;
use crate::value::Value;

/// What stands before the text of a script, about.
const HEAD_BYTES: usize = 64;

/// What the script and the log of a run are called, without their endings.
pub(super) fn name(rule: &Rule, vars: &[Value]) -> String {
    let mut name = rule.name.to_string();
    for value in vars {
        name.push('.');
        value.write_str(&mut name);
    }
    name
}

/// The text of a script, and where in it what the rule says begins.
pub(super) fn script(dir: &[u8], filled: &Filled) -> (Vec<u8>, usize) {
    let mut text = Vec::with_capacity(HEAD_BYTES + dir.len() + filled.setup.len() + filled.script.len());
    text.extend_from_slice(b"#!/usr/bin/env bash\n");
    if filled.uses_mpirun {
        let ranks = filled.resources.ranks_total();
        text.extend_from_slice(format!(": \"${{HQ_MPIRUN:=mpirun -n {ranks}}}\"\n").as_bytes());
    }
    text.extend_from_slice(b"set -e\ncd ");
    text.extend_from_slice(&paths::quote(dir));
    text.push(b'\n');
    let text_at = text.len();
    for (key, value) in &filled.env {
        text.extend_from_slice(format!("export {key}={}\n", paths::quote_text(value)).as_bytes());
    }
    for part in [&filled.setup, &filled.script] {
        text.extend_from_slice(part.as_bytes());
        if !part.is_empty() && !part.ends_with('\n') {
            text.push(b'\n');
        }
    }
    (text, text_at)
}

impl Search<'_> {
    /// Says where scripts and logs go.
    ///
    /// # Errors
    /// When a name is too long, or that of a file which is made or needed.
    pub(super) fn name_scripts(&self, runs: &mut [Run]) -> Result<(), Vec<Problem>> {
        let workdir: Option<Arc<[u8]>> = self.wanted.workdir.as_deref().map(Arc::from);
        let dir = |run: &Run| workdir.clone().unwrap_or_else(|| run.dir.clone());
        let mut names: FxHashMap<(Arc<[u8]>, &str), u32> = FxHashMap::default();
        for run in runs.iter() {
            *names.entry((dir(run), &run.name)).or_default() += 1;
        }
        let is_double: Vec<bool> = runs.iter().map(|run| names[&(dir(run), &*run.name)] > 1).collect();
        let mut problems: Vec<Problem> = Vec::new();
        for (run, is_double) in runs.iter_mut().zip(is_double) {
            let into = dir(run);
            if is_double {
                // Runs of several directories in one, or values with points in them: their names are told apart.
                run.name = format!("{}.{}", run.name, identity(run));
            }
            if run.name.len() + 4 > NAME_BYTES_MAX {
                let message = format!("the name `{}.log` has more than {NAME_BYTES_MAX} bytes", run.name);
                problems.push(Problem::bad(run.place.clone(), message));
                continue;
            }
            // Whatever the rule is called, its files are below the directory.
            let root = if run.name.starts_with('/') { "./" } else { "" };
            let path = |end: &str| paths::join(&into, &[root, &run.name, end].concat());
            let (script, log) = (path(".sh"), path(".log"));
            for path in [&script, &log] {
                if let Some(file) = self.file_index.get(&path[..]) {
                    let what = if *path == script { "script" } else { "log" };
                    let message = format!("`{}` is the {what} of the run `{}`", self.shown(*file), run.name);
                    let problem = Problem::bad(run.place.clone(), message).chain(self.chain(*file));
                    problems.push(problem.hint("rename the file or the rule"));
                }
            }
            (run.script_path, run.log_path) = (script, log);
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

// Six letters that depend on nothing but the run.
fn identity(run: &Run) -> String {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(b"\0") {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(run.dir_shown.as_bytes());
    add(run.rule.as_bytes());
    for (name, value) in &run.vars {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    format!("{:06x}", sum >> 40)
}
