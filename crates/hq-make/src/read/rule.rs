//! Reads one rule.

use std::sync::Arc;

use super::{check_keys, files, loops, members, near, resources, text, warn_of_near};
use crate::makefile::{Member, Rule, Step, Text};
use crate::plan::Rerun;
use crate::problem::{Problem, did_you_mean};
use crate::value::Value;
use crate::yaml::{Entry, Node, What};

const KEYS: [&str; 11] =
    ["resource", "inp", "out", "loop", "setup", "script", "retry", "time_limit", "env", "locality", "rerun"];
const RESERVED: [&str; 2] = ["mpirun", "dirname"];

/// Reads a rule.
///
/// # Errors
/// The first thing that is wrong with it.
pub(super) fn read(file: &Arc<str>, entry: &Entry, warnings: &mut Vec<Problem>) -> Result<Rule, Problem> {
    let name = entry.key.clone();
    if name.is_empty() || name.contains('/') || name.contains('\0') || &*name == "." || &*name == ".." {
        let message = format!("`{name}` is not a valid rule name: scripts are named after the rule");
        return Err(Problem::bad(entry.place(file), message));
    }
    let members = members(file, entry, "rule")?;
    let find = |key: &str| members.iter().find(|member| &*member.key == key).filter(|m| !m.value.is_null());
    let missing = |key: &str, hint: &str| {
        let near = members.iter().find(|member| near(&member.key, &[key]).is_some());
        let hint = near.map_or(hint.to_owned(), |near| {
            format!("did you mean `{key}` instead of `{}` (line {})?", near.key, near.line)
        });
        Problem::bad(entry.place(file), format!("the rule `{name}` has no `{key}`")).hint(hint)
    };
    let script =
        find("script").ok_or_else(|| missing("script", "add the shell script that makes its files"))?;
    let script = text(file, &script.value, "`script`")?;
    let outputs = find("out")
        .ok_or_else(|| missing("out", "list the files that it makes: only they can require it"))?;
    let outputs = files(file, &outputs.value, "`out`", 0)?;
    if outputs.is_empty() {
        return Err(missing("out", "list the files that it makes: only they can require it"));
    }
    let inputs = find("inp").map_or(Ok(Vec::new()), |entry| files(file, &entry.value, "`inp`", 0))?;
    let looped = find("loop").map_or(Ok(None), |entry| loops(file, &entry.value, "inp", inputs.len()))?;
    check_keys(&inputs, looped.as_ref(), "inp")?;
    let setup = find("setup").map(|entry| text(file, &entry.value, "`setup`")).transpose()?;
    let rerun = find("rerun").map(|entry| rerun(file, &entry.value)).transpose()?;
    let mut steps = Vec::new();
    let mut fixed_resources = Some(crate::plan::Resources::default());
    for member in members {
        let step = match &*member.key {
            "inp" | "loop" if !steps.iter().any(|step| matches!(step, Step::Inputs)) => Step::Inputs,
            "inp" | "loop" | "out" | "setup" | "script" | "rerun" => continue,
            "resource" => {
                let entries = mapping(file, member)?;
                fixed_resources = resources::fixed(&entries)?;
                Step::Resource(entries)
            }
            "env" => Step::Env(mapping(file, member)?),
            "retry" => Step::Known("retry", Member::read(file, &member.value, false)?),
            "time_limit" => Step::Known("time_limit", Member::read(file, &member.value, false)?),
            "locality" => Step::Known("locality", Member::read(file, &member.value, false)?),
            key if RESERVED.contains(&key) => {
                let message = format!("`{key}` has a special meaning in templates; rename the attribute");
                return Err(Problem::bad(member.place(file), message));
            }
            _ => {
                warn_of_near(file, member, &KEYS, &format!("the rule `{name}`"), warnings);
                Step::Attribute(member.key.clone(), Member::read(file, &member.value, false)?)
            }
        };
        steps.push(step);
    }
    let place = entry.place(file);
    let mut rule = Rule {
        name,
        place,
        inputs,
        outputs,
        loops: looped,
        setup,
        script,
        rerun,
        steps,
        fixed_resources,
        names_resource: false,
        uses_mpirun: false,
    };
    rule.names_resource = names(rule.texts(), "resource");
    rule.uses_mpirun = names(rule.setup.iter().chain([&rule.script]), "mpirun");
    check_fixed(&rule)?;
    Ok(rule)
}

fn names<'a>(texts: impl IntoIterator<Item = &'a Text>, name: &str) -> bool {
    texts.into_iter().any(|text| text.template.fields().iter().any(|field| field.name == name))
}

fn rerun(file: &Arc<str>, node: &Node) -> Result<Rerun, Problem> {
    let written = match &node.what {
        What::Scalar(_, written) => written.clone(),
        _ => node.kind().into(),
    };
    match &*written {
        "exists" => Ok(Rerun::Exists),
        "mtime" => Ok(Rerun::Mtime),
        "hash" => Ok(Rerun::Hash),
        other => {
            Err(Problem::bad(node.place(file), format!("`rerun` is exists, mtime or hash, not `{other}`"))
                .maybe_hint(did_you_mean(other, ["exists", "mtime", "hash"])))
        }
    }
}

fn mapping(file: &Arc<str>, entry: &Entry) -> Result<Vec<(Arc<str>, Member)>, Problem> {
    match (&entry.value.what, Member::read(file, &entry.value, false)?) {
        (_, Member::Map(entries, _)) => Ok(entries),
        (What::Scalar(Value::None, _), _) => Ok(Vec::new()),
        _ => {
            let message = format!("`{}` is a mapping, not {}", entry.key, entry.value.kind());
            Err(Problem::bad(entry.value.place(file), message))
        }
    }
}

// What depends on no field is checked at once, also in rules that nobody asks for.
fn check_fixed(rule: &Rule) -> Result<(), Problem> {
    for step in &rule.steps {
        let Step::Known(key, member) = step else { continue };
        let value = match member {
            Member::Plain(value, _) => value.clone(),
            Member::Text(text) => match text.template.as_literal() {
                Some(literal) => Value::text(literal),
                None => continue,
            },
            Member::List(..) | Member::Map(..) => Value::list(Vec::new()),
        };
        match *key {
            "retry" => drop(resources::retry(&value, &member.place())?),
            "time_limit" => drop(resources::time_limit(&value, &member.place())?),
            _ => (),
        }
    }
    Ok(())
}
