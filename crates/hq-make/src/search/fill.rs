//! A rule with its variables bound: all its texts, in the order in which names become known.

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::loops::{Expressions, InRound, rounds};
use crate::format::Scope;
use crate::makefile::{Loop, Makefile, NamedFile, Rule, Step};
use crate::paths;
use crate::plan::Resources;
use crate::problem::Problem;
use crate::read;
use crate::value::{Files, Value};

/// Why something is not filled in.
pub(super) enum Stop {
    /// It waits for what Python says.
    Pending,
    Wrong(Box<Problem>),
}

impl Stop {
    /// The same with who asked.
    pub(super) fn chain(self, chain: impl FnOnce() -> Vec<String>) -> Stop {
        match self {
            Stop::Wrong(problem) if problem.chain.is_empty() => Stop::Wrong(Box::new(problem.chain(chain()))),
            other => other,
        }
    }
}

/// A rule, filled in.
#[derive(Default)]
pub(super) struct Filled {
    pub inputs: Vec<String>,
    /// Per input, which file of the rule it is one of.
    pub families: Vec<u32>,
    pub outputs: Vec<String>,
    pub setup: String,
    pub script: String,
    pub uses_mpirun: bool,
    pub resources: Resources,
    pub retry: Option<u32>,
    pub time_limit: Option<Duration>,
    pub env: Vec<(String, String)>,
    pub locality: Vec<String>,
}

impl Filled {
    /// Whether two runs are the same run.
    pub(super) fn same(&self, other: &Filled) -> bool {
        (&self.setup, &self.script, &self.outputs, &self.env)
            == (&other.setup, &other.script, &other.outputs, &other.env)
            && self.resources == other.resources
    }
}

/// The names that a rule sees. What was declared earlier wins.
struct Names<'a> {
    context: &'a Context,
    variables: &'a [(Arc<str>, crate::pattern::Kind)],
    values: &'a [Value],
    members: Vec<(&'a str, Value)>,
    is_script: bool,
}

impl Scope for Names<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        if let Some((_, value)) = self.context.attributes.iter().find(|(known, _)| &**known == name) {
            return Some(value.clone());
        }
        if let Some(at) = self.variables.iter().position(|(known, _)| &**known == name) {
            return Some(self.values[at].clone());
        }
        if self.is_script && name == "mpirun" {
            return Some(Value::text("$HQ_MPIRUN"));
        }
        self.members.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.variables.iter().map(|(name, _)| name.to_string()).collect();
        names.extend(self.members.iter().map(|(name, _)| (*name).to_owned()));
        names.extend(self.context.attributes.iter().map(|(name, _)| name.to_string()));
        if self.is_script {
            names.push("mpirun".to_owned());
        }
        names
    }
}

/// Fills in a rule.
///
/// # Errors
/// When a field is not known, a value cannot be, or Python is waited for.
pub(super) fn fill(
    make: &Makefile,
    rule: usize,
    context: &Context,
    values: &[Value],
    expressions: &mut Expressions,
) -> Result<Filled, Stop> {
    let variables = context.variables(rule);
    let names_own = context.names_own(rule);
    let rule = &make.rules[rule];
    let mut names = Names { context, variables, values, members: Vec::new(), is_script: false };
    let mut filled = Filled::default();
    // Attributes that outputs name are known before all others, as when the name was matched.
    let mut attributes: Vec<(&str, Value)> = Vec::new();
    if names_own {
        for step in &rule.steps {
            if let Step::Attribute(name, member) = step
                && let Ok(value) = member.expand(&names)
            {
                attributes.push((name, value.clone()));
                names.members.push((name, value));
            }
        }
    }
    let (outputs, _, out) = files(rule, &rule.outputs, &[], &names, expressions)?;
    filled.outputs = outputs;
    names.members.clear();
    names.members.push(("out", out));
    for step in &rule.steps {
        match step {
            Step::Inputs => {
                let looped: &[Loop] = rule.loops.as_slice();
                let (inputs, families, inp) = files(rule, &rule.inputs, looped, &names, expressions)?;
                filled.inputs = inputs;
                filled.families = families;
                names.members.push(("inp", inp));
            }
            Step::Resource(entries) => {
                if let Some(fixed) = &rule.fixed_resources {
                    filled.resources = fixed.clone();
                }
                if rule.fixed_resources.is_none() || rule.names_resource {
                    let mut values = Vec::new();
                    for (key, member) in entries {
                        values.push((key.clone(), member.expand(&names)?, member.place()));
                    }
                    if rule.fixed_resources.is_none() {
                        filled.resources = read::resources(&values)?;
                    }
                    let pairs = values.into_iter().map(|(key, value, _)| (Value::Str(key), value));
                    names.members.push(("resource", Value::dict(pairs.collect())));
                }
            }
            Step::Env(entries) => {
                for (key, member) in entries {
                    if key.is_empty() || key.contains(['=', '\0']) {
                        let message = format!("`{key}` is not a valid name of an environment variable");
                        return Err(Problem::bad(member.place(), message).into());
                    }
                    let value = member.expand(&names)?.str();
                    if value.contains('\0') {
                        let message = format!("the value of `{key}` has a NUL character");
                        return Err(Problem::bad(member.place(), message).into());
                    }
                    filled.env.push((key.to_string(), value));
                }
            }
            Step::Known(key, member) => {
                let value = member.expand(&names)?;
                match *key {
                    "retry" => filled.retry = Some(read::retry(&value, &member.place())?),
                    "time_limit" => {
                        filled.time_limit = Some(read::time_limit(&value, &member.place())?);
                    }
                    _ => match value {
                        Value::List(keys) => filled.locality = keys.iter().map(Value::str).collect(),
                        Value::None => (),
                        one => filled.locality = vec![one.str()],
                    },
                }
            }
            Step::Attribute(name, member) => {
                let known = attributes.iter().find(|(known, _)| *known == &**name);
                let value = match known {
                    Some((_, value)) => value.clone(),
                    None => member.expand(&names)?,
                };
                names.members.push((name, value));
            }
        }
    }
    if !names.members.iter().any(|(name, _)| *name == "inp") {
        names.members.push(("inp", Value::Files(Arc::default())));
    }
    names.is_script = true;
    if let Some(setup) = &rule.setup {
        filled.setup = setup.expand(&names)?;
    }
    filled.script = rule.script.expand(&names)?;
    filled.uses_mpirun = rule.uses_mpirun;
    for (text, what) in [(&filled.setup, "setup"), (&filled.script, "script")] {
        if text.contains('\0') {
            let message =
                format!("`{what}` of the rule {} has a NUL character, which bash does not read", rule.name);
            return Err(Problem::bad(rule.script.place(), message).into());
        }
    }
    Ok(filled)
}

// The names of files, and what scripts see of them.
fn files(
    rule: &Rule,
    fixed: &[NamedFile],
    loops: &[Loop],
    scope: &dyn Scope,
    expressions: &mut Expressions,
) -> Result<(Vec<String>, Vec<u32>, Value), Stop> {
    let mut all = Vec::with_capacity(fixed.len());
    let mut families = Vec::with_capacity(fixed.len());
    let mut by_key = Vec::with_capacity(fixed.len());
    for file in fixed {
        let name = name(rule, file, scope)?;
        families.push(by_key.len() as u32);
        by_key.push((file.key.clone(), paths::quote_text(&name).into_owned()));
        all.push(name);
    }
    for block in loops {
        let rounds = rounds(&block.variables, scope, expressions)?;
        for file in &block.files {
            let mut text = String::new();
            for round in &rounds {
                let name = name(rule, file, &InRound { outer: scope, round })?;
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(&paths::quote_text(&name));
                families.push(by_key.len() as u32);
                all.push(name);
            }
            by_key.push((file.key.clone(), text));
        }
    }
    Ok((all, families, Value::Files(Arc::new(Files { by_key }))))
}

fn name(rule: &Rule, file: &NamedFile, scope: &dyn Scope) -> Result<String, Problem> {
    let name = file.text.expand(scope)?;
    if let Some(why) = paths::unfit(&name) {
        let short: String = name.chars().take(60).collect();
        let message = format!("`{short}` of the rule {} cannot be the name of a file: {why}", rule.name);
        let problem = Problem::bad(file.text.place(), message);
        return Err(if name.len() > crate::limits::NAME_BYTES_MAX {
            problem.hint("does the rule require itself with longer and longer names?")
        } else {
            problem
        });
    }
    Ok(match paths::normalise(&name) {
        std::borrow::Cow::Borrowed(_) => name,
        std::borrow::Cow::Owned(normal) => normal,
    })
}
