//! Targets that have a directory and attributes in common, and what rules make for them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::format::NumberKind;
use crate::format::{Piece, Scope, Spec, Template};
use crate::makefile::{Makefile, Rule, Step, Target};
use crate::paths;
use crate::pattern::{Kind, Part, Pattern, TooHard, VARIABLES_MAX};
use crate::problem::{AMBIGUOUS_RULE, Problem};
use crate::value::Value;

/// Targets with one directory and the same attributes.
pub(super) struct Context {
    pub dir: Arc<[u8]>,
    /// The same for all contexts of that directory.
    pub dir_number: usize,
    pub dir_shown: Arc<str>,
    pub targets: Vec<usize>,
    pub attributes: Rc<Vec<(Arc<str>, Value)>>,
    rules: Rc<Compiled>,
}

impl Context {
    /// The variables of a rule.
    pub(super) fn variables(&self, rule: usize) -> &[(Arc<str>, Kind)] {
        &self.rules.variables[rule]
    }

    /// Whether the outputs of a rule name attributes of the rule.
    pub(super) fn names_own(&self, rule: usize) -> bool {
        self.rules.names_own[rule]
    }

    /// All names that rules make without variables, and their outputs as they are written.
    pub(super) fn literals(&self) -> impl Iterator<Item = &str> {
        self.rules.literals.keys().map(String::as_str)
    }
}

/// All contexts.
#[derive(Default)]
pub(super) struct Contexts {
    pub all: Vec<Context>,
    index: FxHashMap<(Vec<u8>, String), usize>,
    dirs: FxHashMap<Arc<[u8]>, usize>,
    compiled: FxHashMap<String, Rc<Compiled>>,
}

/// The outputs of all rules, for certain values of the attributes that they name.
struct Compiled {
    /// Per rule, its template variables in order.
    variables: Vec<Vec<(Arc<str>, Kind)>>,
    /// Per rule, whether its outputs name attributes of its own.
    names_own: Vec<bool>,
    literals: FxHashMap<String, Vec<usize>>,
    /// The same without names.
    kinds: Vec<Vec<Kind>>,
    /// Outputs with variables, and their rules.
    patterns: Vec<(usize, Pattern)>,
    /// The patterns by what they begin with, and how long these beginnings are.
    by_prefix: FxHashMap<String, Vec<usize>>,
    prefix_lengths: Vec<usize>,
}

/// The attributes of a target.
struct Attributes<'a>(&'a [(Arc<str>, Value)], &'a [(Arc<str>, Value)]);

impl Scope for Attributes<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let all = self.0.iter().chain(self.1);
        all.clone().find(|(known, _)| &**known == name).map(|(_, value)| value.clone())
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().chain(self.1).map(|(name, _)| name.to_string()).collect()
    }
}

impl Contexts {
    /// The context of a target.
    ///
    /// # Errors
    /// When an output of a rule cannot be one.
    pub(super) fn of(&mut self, make: &Makefile, target: usize, base: &[u8]) -> Result<usize, Vec<Problem>> {
        let Target { dirname, attributes, .. } = &make.targets[target];
        let dir = paths::join(base, dirname);
        let mut signature = String::new();
        for (name, value) in attributes {
            signature += &format!("{name:?}={}\0", value.repr());
        }
        // The name of the directory is an attribute as it is written.
        let key = (dir.clone(), format!("{dirname}\0{signature}"));
        if let Some(known) = self.index.get(&key) {
            self.all[*known].targets.push(target);
            return Ok(*known);
        }
        let mut known = attributes.clone();
        known.push(("dirname".into(), Value::Str(dirname.clone())));
        let used = used_names(make);
        let relevant: Vec<String> = known
            .iter()
            .filter(|(name, _)| used.contains(&**name))
            .map(|(name, value)| format!("{name:?}={}", value.repr()))
            .collect();
        let relevant = relevant.join("\0");
        let rules = match self.compiled.get(&relevant) {
            Some(rules) => rules.clone(),
            None => {
                let rules = Rc::new(compile(make, &known)?);
                self.compiled.insert(relevant, rules.clone());
                rules
            }
        };
        let dir: Arc<[u8]> = dir.into();
        let next = self.dirs.len();
        let dir_number = *self.dirs.entry(dir.clone()).or_insert(next);
        self.all.push(Context {
            dir_shown: paths::shown(base, &dir).into(),
            dir,
            dir_number,
            targets: vec![target],
            attributes: Rc::new(known),
            rules,
        });
        self.index.insert(key, self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    /// The rule that makes a file, and the values of its variables.
    ///
    /// # Errors
    /// When there are several.
    pub(super) fn find(
        &self,
        make: &Makefile,
        context: usize,
        name: &str,
    ) -> Result<Option<(usize, Vec<Value>)>, Problem> {
        let context = &self.all[context];
        let rules = &context.rules;
        if let Some(makers) = rules.literals.get(name) {
            return match makers[..] {
                [] => Ok(None),
                [rule] => Ok(Some((rule, Vec::new()))),
                [one, other, ..] => Err(several(make, name, one, other)),
            };
        }
        let mut found: Option<(usize, Vec<Value>)> = None;
        for length in &rules.prefix_lengths {
            let Some(prefix) = name.get(..*length) else { continue };
            for number in rules.by_prefix.get(prefix).into_iter().flatten() {
                let (rule, pattern) = &rules.patterns[*number];
                let ways = pattern
                    .matches(name, &rules.kinds[*rule])
                    .map_err(|TooHard| too_hard(make, name, *rule))?;
                for values in ways {
                    match &found {
                        None => found = Some((*rule, values)),
                        Some((known, before)) if known == rule && *before == values => (),
                        Some((known, before)) if known == rule => {
                            return Err(two_ways(
                                make,
                                name,
                                *rule,
                                &rules.variables[*rule],
                                before,
                                &values,
                            ));
                        }
                        Some((known, _)) => return Err(several(make, name, *known, *rule)),
                    }
                }
            }
        }
        Ok(found)
    }
}

fn several(make: &Makefile, name: &str, one: usize, other: usize) -> Problem {
    let (one, other) = (&make.rules[one.min(other)], &make.rules[one.max(other)]);
    let message = format!(
        "`{name}` is made by the rule {} and by the rule {} ({})",
        other.name,
        one.name,
        one.place.line()
    );
    Problem::bad(other.place.clone(), message)
        .coded(AMBIGUOUS_RULE)
        .hint("rename an output; a name without variables takes precedence over one with variables")
}

fn too_hard(make: &Makefile, name: &str, rule: usize) -> Problem {
    let rule = &make.rules[rule];
    let message = format!("`{name}` could be an output of the rule {} in too many ways to try", rule.name);
    Problem::bad(rule.place.clone(), message).coded(AMBIGUOUS_RULE).hint("put text between its variables")
}

fn two_ways(
    make: &Makefile,
    name: &str,
    rule: usize,
    variables: &[(Arc<str>, Kind)],
    one: &[Value],
    other: &[Value],
) -> Problem {
    let say = |values: &[Value]| {
        let pairs: Vec<String> = variables
            .iter()
            .zip(values)
            .map(|((name, _), value)| format!("{name} = {}", value.str()))
            .collect();
        pairs.join(", ")
    };
    let rule = &make.rules[rule];
    let message = format!(
        "`{name}` is an output of the rule {} in two ways: with {}, and with {}",
        rule.name,
        say(one),
        say(other)
    );
    Problem::bad(rule.outputs[0].text.place(), message)
        .coded(AMBIGUOUS_RULE)
        .hint("put text between the variables that their values do not have, or a format such as `{n:03d}`")
}

// Names in outputs, and in the attributes of rules, which may stand in outputs.
fn used_names(make: &Makefile) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    for rule in &make.rules {
        let attributes = rule.steps.iter().filter_map(|step| match step {
            Step::Attribute(_, member) => Some(member.texts()),
            _ => None,
        });
        let texts = rule.outputs.iter().map(|file| &file.text).chain(attributes.flatten());
        used.extend(texts.flat_map(|text| text.template.fields()).map(|field| &*field.name));
    }
    used
}

fn compile(make: &Makefile, attributes: &[(Arc<str>, Value)]) -> Result<Compiled, Vec<Problem>> {
    let mut compiled = Compiled {
        variables: Vec::new(),
        names_own: Vec::new(),
        kinds: Vec::new(),
        literals: FxHashMap::default(),
        patterns: Vec::new(),
        by_prefix: FxHashMap::default(),
        prefix_lengths: Vec::new(),
    };
    let mut problems = Vec::new();
    for (number, rule) in make.rules.iter().enumerate() {
        match outputs(rule, attributes) {
            Ok((variables, patterns)) => {
                let fields = rule.outputs.iter().flat_map(|file| file.text.template.fields());
                let is_known = |name: &str| {
                    attributes.iter().any(|(known, _)| **known == *name)
                        || variables.iter().any(|(known, _)| **known == *name)
                };
                compiled.names_own.push(fields.into_iter().any(|field| !is_known(&field.name)));
                compiled.variables.push(variables);
                for pattern in patterns {
                    match pattern.as_literal() {
                        Some(name) => {
                            let makers = compiled.literals.entry(name.to_owned()).or_default();
                            if !makers.contains(&number) {
                                makers.push(number);
                            }
                        }
                        None => {
                            let at = compiled.patterns.len();
                            compiled.by_prefix.entry(pattern.prefix().to_owned()).or_default().push(at);
                            compiled.patterns.push((number, pattern));
                        }
                    }
                }
            }
            Err(problem) => {
                compiled.names_own.push(false);
                compiled.variables.push(Vec::new());
                problems.push(problem);
            }
        }
    }
    compiled.kinds = compiled.variables.iter().map(|of| of.iter().map(|(_, kind)| *kind).collect()).collect();
    let lengths: BTreeSet<usize> = compiled.by_prefix.keys().map(String::len).collect();
    compiled.prefix_lengths = lengths.into_iter().collect();
    if problems.is_empty() { Ok(compiled) } else { Err(problems) }
}

type Outputs = (Vec<(Arc<str>, Kind)>, Vec<Pattern>);

fn outputs(rule: &Rule, attributes: &[(Arc<str>, Value)]) -> Result<Outputs, Problem> {
    let own = own_attributes(rule, attributes);
    let scope = Attributes(attributes, &own);
    let kinds = kinds(rule);
    let mut variables: Vec<(Arc<str>, Kind)> = Vec::new();
    let mut patterns = Vec::new();
    let mut first: Option<Vec<usize>> = None;
    for file in &rule.outputs {
        let mut parts = Vec::new();
        let mut here = Vec::new();
        for piece in &file.text.template.pieces {
            let field = match piece {
                Piece::Literal(text) => {
                    parts.push(Part::Literal(text.clone()));
                    continue;
                }
                Piece::Field(field) => field,
            };
            let wrong = |message: String| Problem::bad(file.text.place_at(field.at), message);
            if scope.get(&field.name).is_some() {
                let template = Template { pieces: vec![piece.clone()] };
                parts.push(Part::Literal(template.expand(&scope).map_err(|error| file.text.problem(error))?));
                continue;
            }
            if field.name.is_empty() || field.name.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong(format!("`{{{}}}` is not the name of a template variable", field.shown()))
                    .hint("give it a name, for example `{n}`; double literal braces"));
            }
            if !field.path.is_empty() || field.conversion.is_some() {
                let message = format!(
                    "`{{{}}}` is not an attribute, and a template variable is written as `{{{}}}`",
                    field.shown(),
                    field.name
                );
                return Err(wrong(message));
            }
            let spec = match field.spec.as_literal() {
                Some("") => None,
                Some(spec) => Some(Spec::parse(spec).map_err(&wrong)?),
                None => {
                    return Err(wrong(format!(
                        "the format of the template variable `{}` has a field",
                        field.name
                    )));
                }
            };
            let at = match variables.iter().position(|(name, _)| **name == *field.name) {
                Some(at) => at,
                None => {
                    let kind = kinds.get(&*field.name).copied().unwrap_or(Kind::Text);
                    variables.push((field.name.as_str().into(), kind));
                    variables.len() - 1
                }
            };
            if variables.len() > VARIABLES_MAX {
                return Err(wrong(format!("more than {VARIABLES_MAX} template variables")));
            }
            if !here.contains(&at) {
                here.push(at);
            }
            parts.push(Part::Variable(at, spec));
        }
        here.sort_unstable();
        let names = |set: &[usize]| {
            let names: Vec<&str> = set.iter().map(|at| &*variables[*at].0).collect();
            if names.is_empty() {
                "no variables".to_owned()
            } else {
                format!("the variables {}", names.join(", "))
            }
        };
        match &first {
            Some(before) if *before != here => {
                let message = format!(
                    "this output of the rule {} has {}, the first has {}: one could not be determined from the other",
                    rule.name,
                    names(&here),
                    names(before)
                );
                return Err(Problem::bad(file.text.place(), message)
                    .hint("use the same variables in all outputs, or split it into two rules"));
            }
            Some(_) => (),
            None => first = Some(here),
        }
        patterns.push(Pattern::new(parts));
    }
    Ok((variables, patterns))
}

// Attributes of a rule that depend on nothing but those of the target.
fn own_attributes(rule: &Rule, attributes: &[(Arc<str>, Value)]) -> Vec<(Arc<str>, Value)> {
    let mut own = Vec::new();
    for step in &rule.steps {
        if let Step::Attribute(name, member) = step
            && let Ok(value) = member.expand(&Attributes(attributes, &own))
        {
            own.push((name.clone(), value));
        }
    }
    own
}

// A variable with the format of a number anywhere in its rule is a number: no other value could be written so.
fn kinds(rule: &Rule) -> FxHashMap<&str, Kind> {
    let looped: Vec<&str> =
        rule.loops.iter().flat_map(|loops| &loops.variables).map(|(name, _)| &**name).collect();
    let in_loop: Vec<*const _> =
        rule.loops.iter().flat_map(|loops| &loops.files).map(|file| std::ptr::from_ref(&file.text)).collect();
    let mut kinds = FxHashMap::default();
    for text in rule.texts() {
        for field in text.template.fields() {
            // Below a loop, the name is that of the loop.
            if looped.contains(&&*field.name) && in_loop.contains(&std::ptr::from_ref(text)) {
                continue;
            }
            let spec = field.spec.as_literal().and_then(|spec| Spec::parse(spec).ok());
            let kind = match spec.and_then(|spec| spec.number_kind()) {
                Some(NumberKind::Int) if field.path.is_empty() && field.conversion.is_none() => Kind::Int,
                Some(NumberKind::Float) if field.path.is_empty() && field.conversion.is_none() => Kind::Float,
                _ => continue,
            };
            let known = kinds.entry(&*field.name).or_insert(kind);
            // A whole number can be written as one with a point, not the other way round.
            if kind == Kind::Int {
                *known = Kind::Int;
            }
        }
    }
    kinds
}
