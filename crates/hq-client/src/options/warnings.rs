//! What a user should know of a submit that is possible but perhaps not meant.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use hq_model::TaskSpec;

use super::directives::Directives;
use super::placeholders;
use super::same_paths::{Differs, Target};
use crate::limits;

/// Warnings about a submit of so many tasks, with what was said of the job's name and of keys.
pub(super) fn warnings(
    spec: &TaskSpec,
    (tasks, has_entries): (u64, bool),
    name: Option<&str>,
    key: Option<&str>,
) -> Vec<String> {
    let mut warnings = placeholders::warnings(spec, has_entries, name, key);
    for target in if tasks > 1 { Target::all(spec) } else { Vec::new() } {
        if target.differs() == Differs::Not {
            let (what, shown) = (target.what, String::from_utf8_lossy(&target.given));
            let use_it = match what {
                "input-object" => "get separate objects as",
                _ => "write to",
            };
            warnings.push(format!(
                "You have submitted an array job, but the `{what}` path does not contain the task ID placeholder. All {tasks} tasks \
                 {use_it} the same file {shown}: put %{{TASK_ID}} into the path"
            ));
        }
    }
    let files = tasks
        .saturating_mul([&spec.stdout, &spec.stderr].iter().filter_map(|sink| sink.path()).count() as u64);
    if files > limits::OUTPUT_FILES_QUIET {
        warnings.push(format!(
            "the job creates {files} output files, which puts load on shared file systems: consider --stream DIR, \
             --stdout none, --stderr :rm-if-empty or :rm-if-finished"
        ));
    }
    for (i, (key, _)) in spec.env.iter().enumerate() {
        let before = spec.env[..i].iter().filter(|(other, _)| other == key).count();
        if before == 1 {
            let key = String::from_utf8_lossy(key);
            warnings.push(format!(
                "Some environment variables were ignored. Check if you haven't used duplicate keys. {key} is set more than once; \
                 the last value is used"
            ));
        }
    }
    warnings
}

/// What a person may have meant: a command in one word, or lines of the script that mean nothing to `hq`. A script whose
/// interpreter is called for it needs not be found as a program.
pub(super) fn hints(command: &[OsString], submit_dir: &Path, script: &Directives) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(program) = command.first()
        && script.interpreter.is_empty()
        && !program.as_encoded_bytes().contains(&b'/')
        && submit_dir.join(program).is_file()
        && !is_in_path(program)
    {
        let text = program.to_string_lossy();
        hints.push(format!(
            "'{text}' is a file in this directory, but programs without a slash are looked for in PATH only: write ./{text}"
        ));
    }
    if let [one] = command
        && let text = one.to_string_lossy()
        && text.trim().contains(char::is_whitespace)
        && !Path::new(one).exists()
    {
        hints.push(format!(
            "'{text}' is one word, so it is taken as the name of a program: omit the quotes, or use a shell: sh -c \
             '{text}'"
        ));
    }
    hints.extend(script.foreign.map(|prefix| {
        format!("The script has {prefix} lines, which are ignored: options for hq must be on lines that begin with \
            #HQ")
    }));
    hints.extend_from_slice(&script.overlooked);
    hints
}

// On this machine; workers may have another PATH.
pub(super) fn is_in_path(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
