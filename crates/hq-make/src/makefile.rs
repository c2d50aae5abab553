//! What the two files say, read but not yet filled in: rules and targets with their places.

use std::sync::Arc;

use crate::format::{FormatError, Scope, Template};
use crate::plan::{Rerun, Resources};
use crate::problem::{Place, Problem};
use crate::value::Value;
use crate::yaml::{Node, What};

/// Rules and targets, as the two files have them.
#[derive(Debug)]
pub struct Makefile {
    /// What is odd in them.
    pub warnings: Vec<Problem>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) targets: Vec<Target>,
    pub(crate) targets_file: Arc<str>,
}

impl Makefile {
    /// The names of all rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.name)
    }

    /// Whether it counts for any run what is remembered of earlier ones, where calls say `rerun`.
    pub fn compares(&self, rerun: Rerun) -> bool {
        self.rules.iter().any(|rule| rule.rerun.unwrap_or(rerun) != Rerun::Exists)
    }

    /// The names of all targets, in order.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|target| &*target.name)
    }

    /// Where a target begins.
    pub fn place_of_target(&self, name: &str) -> Option<&Place> {
        self.targets.iter().find(|target| *target.name == *name).map(|target| &target.place)
    }
}

/// A text with fields, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub template: Template,
    pub source: Arc<str>,
    node: Node,
    file: Arc<str>,
}

impl Text {
    /// Reads the text of a scalar: what was a number or a boolean is what Python prints of it.
    pub(crate) fn read(
        file: &Arc<str>,
        node: &Node,
        value: &Value,
        written: &Arc<str>,
    ) -> Result<Text, Problem> {
        let source = match value {
            Value::Str(_) => written.clone(),
            other => other.str().into(),
        };
        let mut text =
            Text { template: Template::literal(&source), source, node: node.clone(), file: file.clone() };
        text.template = Template::parse(&text.source).map_err(|error| text.problem(error))?;
        Ok(text)
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        self.node.place_within(&self.file, &self.source, 0)
    }

    /// Where a byte of it stands.
    pub(crate) fn place_at(&self, at: usize) -> Place {
        self.node.place_within(&self.file, &self.source, at)
    }

    /// What is wrong with it.
    pub(crate) fn problem(&self, error: FormatError) -> Problem {
        Problem::bad(self.place_at(error.at), error.message).maybe_hint(error.hint)
    }

    /// Fills in its fields.
    pub(crate) fn expand(&self, scope: &dyn Scope) -> Result<String, Problem> {
        match self.template.as_literal() {
            Some(text) => Ok(text.to_owned()),
            None => self.template.expand(scope).map_err(|error| self.problem(error)),
        }
    }
}

/// A value with texts in it that may have fields.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    /// A number, a boolean, nothing.
    Plain(Value, Place),
    Text(Text),
    List(Vec<Member>, Place),
    Map(Vec<(Arc<str>, Member)>, Place),
}

impl Member {
    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        match self {
            Member::Plain(_, place) | Member::List(_, place) | Member::Map(_, place) => place.clone(),
            Member::Text(text) => text.place(),
        }
    }

    /// Reads a value; with `as_is`, braces have no meaning in it.
    pub(crate) fn read(file: &Arc<str>, node: &Node, as_is: bool) -> Result<Member, Problem> {
        let place = node.place(file);
        Ok(match &node.what {
            What::Scalar(value @ Value::Str(_), written) if !as_is => {
                Member::Text(Text::read(file, node, value, written)?)
            }
            What::Scalar(value, _) => Member::Plain(value.clone(), place),
            What::List(items) => {
                let items: Result<_, _> = items.iter().map(|item| Member::read(file, item, as_is)).collect();
                Member::List(items?, place)
            }
            What::Map(entries) => {
                let read = |entry: &crate::yaml::Entry| {
                    Ok((entry.key.clone(), Member::read(file, &entry.value, as_is)?))
                };
                Member::Map(entries.iter().map(read).collect::<Result<_, Problem>>()?, place)
            }
        })
    }

    /// Its value, with all fields filled in.
    pub(crate) fn expand(&self, scope: &dyn Scope) -> Result<Value, Problem> {
        Ok(match self {
            Member::Plain(value, _) => value.clone(),
            Member::Text(text) => Value::text(text.expand(scope)?),
            Member::List(items, _) => {
                let items: Result<_, _> = items.iter().map(|item| item.expand(scope)).collect();
                Value::list(items?)
            }
            Member::Map(entries, _) => {
                let expand = |(key, member): &(Arc<str>, Member)| {
                    Ok((Value::text(key.clone()), member.expand(scope)?))
                };
                Value::dict(entries.iter().map(expand).collect::<Result<_, Problem>>()?)
            }
        })
    }

    /// All texts in it.
    pub(crate) fn texts(&self) -> Vec<&Text> {
        match self {
            Member::Plain(..) => Vec::new(),
            Member::Text(text) => vec![text],
            Member::List(items, _) => items.iter().flat_map(Member::texts).collect(),
            Member::Map(entries, _) => entries.iter().flat_map(|(_, member)| member.texts()).collect(),
        }
    }
}

/// One of the files of `inp` or `out`.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    /// Its key; its number in a list.
    pub key: Arc<str>,
    pub text: Text,
}

/// `loop`: variables, and the files they make.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub variables: Vec<(Arc<str>, Member)>,
    pub files: Vec<NamedFile>,
}

/// What is evaluated when a rule is filled in, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `inp`, with the files of `loop` after it.
    Inputs,
    /// `resource`.
    Resource(Vec<(Arc<str>, Member)>),
    /// `env`.
    Env(Vec<(Arc<str>, Member)>),
    /// Any other key that is known but the texts of the script: `retry`, `time_limit`, `locality`.
    Known(&'static str, Member),
    /// An attribute.
    Attribute(Arc<str>, Member),
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub name: Arc<str>,
    pub place: Place,
    pub inputs: Vec<NamedFile>,
    pub outputs: Vec<NamedFile>,
    pub loops: Option<Loop>,
    pub setup: Option<Text>,
    pub script: Text,
    pub rerun: Option<Rerun>,
    pub steps: Vec<Step>,
    /// What it asks for, where that depends on nothing.
    pub fixed_resources: Option<Resources>,
    /// Its texts name what it asks for.
    pub names_resource: bool,
    /// Its script names what starts MPI programs.
    pub uses_mpirun: bool,
}

impl Rule {
    /// All its texts with fields.
    pub(crate) fn texts(&self) -> Vec<&Text> {
        let mut all: Vec<&Text> = self.inputs.iter().chain(&self.outputs).map(|file| &file.text).collect();
        if let Some(loops) = &self.loops {
            all.extend(loops.variables.iter().flat_map(|(_, member)| member.texts()));
            all.extend(loops.files.iter().map(|file| &file.text));
        }
        for step in &self.steps {
            match step {
                Step::Inputs => (),
                Step::Resource(entries) | Step::Env(entries) => {
                    all.extend(entries.iter().flat_map(|(_, member)| member.texts()));
                }
                Step::Known(_, member) | Step::Attribute(_, member) => all.extend(member.texts()),
            }
        }
        all.extend(&self.setup);
        all.push(&self.script);
        all
    }
}

/// A target.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub name: Arc<str>,
    pub place: Place,
    pub dirname: Arc<str>,
    pub attributes: Vec<(Arc<str>, Value)>,
    pub outputs: Vec<NamedFile>,
    pub loops: Option<Loop>,
}
