//! Reads rules and targets: every key is checked, every text is a template with its place.

mod resources;
mod rule;
mod target;

use std::sync::Arc;

use hq_model::similar;

use crate::makefile::{Loop, Makefile, Member, NamedFile, Text};
use crate::problem::{Place, Problem};
use crate::value::Value;
use crate::yaml::{self, Entry, Node, What};

pub(crate) use resources::{resources, retry, time_limit};

/// One of the two files.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, as messages show it.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a [u8],
}

/// Reads both files.
///
/// # Errors
/// All that is wrong in them, each with its place.
pub fn read(rules: Source, targets: Source) -> Result<Makefile, Vec<Problem>> {
    read_in_order(rules, targets).map_err(|problems| match read_in_order(targets, rules) {
        // What is wrong with each would lead astray.
        Ok(_) => {
            let message =
                format!("{} has targets, and {} rules: they look swapped", rules.name, targets.name);
            let start = Place { file: rules.name.into(), line: 1, column: 1 };
            vec![Problem::bad(start, message).hint("the rules are the first argument: hq make RULES TARGETS")]
        }
        Err(_) => problems,
    })
}

fn read_in_order(rules: Source, targets: Source) -> Result<Makefile, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let rules_file: Arc<str> = rules.name.into();
    let targets_file: Arc<str> = targets.name.into();
    let mut read_rules = Vec::new();
    match entries(&rules_file, rules.text, "rules") {
        Ok(entries) => {
            for entry in entries.iter() {
                match rule::read(&rules_file, entry, &mut warnings) {
                    Ok(rule) => read_rules.push(rule),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        Err(problem) => problems.push(problem),
    }
    let mut read_targets = Vec::new();
    match entries(&targets_file, targets.text, "targets") {
        Ok(entries) => {
            for entry in entries.iter() {
                match target::read(&targets_file, entry, &mut warnings) {
                    Ok(target) => read_targets.push(target),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        Err(problem) => problems.push(problem),
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Makefile { warnings, rules: read_rules, targets: read_targets, targets_file })
}

fn entries(file: &Arc<str>, text: &[u8], of: &str) -> Result<Arc<Vec<Entry>>, Problem> {
    let start = Place { file: file.clone(), line: 1, column: 1 };
    let root = yaml::read(file, text)?;
    match root.as_ref().map(|node| (&node.what, node)) {
        Some((What::Map(entries), _)) if !entries.is_empty() => Ok(entries.clone()),
        Some((What::Scalar(Value::None, _) | What::Map(_), _)) | None => {
            Err(Problem::bad(start, format!("the file contains no {of}"))
                .hint("a file is a mapping from names: see `hq doc make-files`"))
        }
        Some((_, node)) => Err(Problem::bad(
            node.place(file),
            format!("the file of {of} is a mapping from their names, not {}", node.kind()),
        )),
    }
}

/// The entries of a rule or target.
fn members<'a>(file: &Arc<str>, entry: &'a Entry, of: &str) -> Result<&'a [Entry], Problem> {
    match &entry.value.what {
        What::Map(entries) => Ok(entries),
        _ if entry.value.is_null() => {
            Err(Problem::bad(entry.place(file), format!("the {of} `{}` is empty", entry.key)))
        }
        _ => {
            let message = format!("the {of} `{}` is a mapping, not {}", entry.key, entry.value.kind());
            Err(Problem::bad(entry.value.place(file), message))
        }
    }
}

/// Warns of an attribute that is nearly the name of a key with a meaning.
fn warn_of_near(file: &Arc<str>, entry: &Entry, known: &[&str], of: &str, warnings: &mut Vec<Problem>) {
    if let Some(near) = near(&entry.key, known) {
        let message = format!("`{}` of {of} is treated as an attribute; did you mean `{near}`?", entry.key);
        warnings.push(Problem::bad(entry.place(file), message));
    }
}

const ALSO_CALLED: [(&str, &str); 7] = [
    ("input", "inp"),
    ("inputs", "inp"),
    ("output", "out"),
    ("outputs", "out"),
    ("directory", "dirname"),
    ("resources", "resource"),
    ("commands", "script"),
];

/// The key that is one edit away, two letters that changed places included, or that is called so elsewhere.
fn near<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    if let Some((_, meant)) = ALSO_CALLED.iter().find(|(other, _)| *other == key)
        && let Some(meant) = known.iter().find(|known| *known == meant)
    {
        return Some(meant);
    }
    let is_near = |known: &&str| similar::distance(key, known) == 1 || are_swapped(key, known);
    known.iter().copied().find(|known| key.len() > 2 && is_near(known))
}

// Whether two letters beside each other have changed places.
fn are_swapped(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let Some(at) = one.iter().zip(other).position(|(a, b)| a != b) else { return false };
    match (&one[at..], &other[at..]) {
        ([a, b, rest @ ..], [c, d, others @ ..]) => (a, b) == (d, c) && rest == others,
        _ => false,
    }
}

/// Reads a text; numbers and booleans are texts, too.
fn text(file: &Arc<str>, node: &Node, what: &str) -> Result<Text, Problem> {
    match &node.what {
        What::Scalar(Value::None, _) => Err(Problem::bad(node.place(file), format!("{what} is empty"))),
        What::Scalar(value, written) => Text::read(file, node, value, written),
        _ => Err(Problem::bad(node.place(file), format!("{what} must be a string, not {}", node.kind()))),
    }
}

/// Reads the files of `inp` or `out`: a list, a mapping, one name, or nothing. Keys of a list count from `first`.
fn files(file: &Arc<str>, node: &Node, what: &str, first: usize) -> Result<Vec<NamedFile>, Problem> {
    let name = |node: &Node, of: &str| -> Result<Text, Problem> {
        let text = text(file, node, of)?;
        if text.source.is_empty() {
            return Err(Problem::bad(text.place(), format!("{of} is empty")));
        }
        if text.source.contains('\0') {
            return Err(Problem::bad(
                text.place(),
                format!("{of} has a NUL character, which no name can have"),
            ));
        }
        Ok(text)
    };
    match &node.what {
        What::Scalar(Value::None, _) => Ok(Vec::new()),
        What::Scalar(..) => Ok(vec![NamedFile { key: first.to_string().into(), text: name(node, what)? }]),
        What::List(items) => {
            let read = |(number, item): (usize, &Node)| {
                let key = (first + number).to_string().into();
                Ok(NamedFile { key, text: name(item, &format!("a file of {what}"))? })
            };
            items.iter().enumerate().map(read).collect()
        }
        What::Map(entries) => {
            let read = |entry: &Entry| {
                let text = name(&entry.value, &format!("`{}` of {what}", entry.key))?;
                Ok(NamedFile { key: entry.key.clone(), text })
            };
            entries.iter().map(read).collect()
        }
    }
}

/// Reads `loop`: variables, and `inp` or `out` below them.
fn loops(file: &Arc<str>, node: &Node, files_key: &str, first: usize) -> Result<Option<Loop>, Problem> {
    let entries = match &node.what {
        What::Map(entries) => entries,
        _ if node.is_null() => return Ok(None),
        _ => {
            let message = format!("`loop` is a mapping of variables and `{files_key}`, not {}", node.kind());
            return Err(Problem::bad(node.place(file), message));
        }
    };
    let mut variables = Vec::new();
    let mut found = None;
    for entry in entries.iter() {
        if &*entry.key == files_key {
            found = Some(files(file, &entry.value, &format!("`{files_key}` of `loop`"), first)?);
            continue;
        }
        if entry.value.is_null() {
            return Err(Problem::bad(entry.place(file), format!("`{}` of `loop` has no values", entry.key))
                .hint("use a Python expression, for example `\"range(10)\"`, or a list"));
        }
        if entry.key.is_empty() || entry.key.contains(['{', '}', '[', ']', '.', '!', ':']) {
            let message = format!("`{}` is not a valid variable name: no field could name it", entry.key);
            return Err(Problem::bad(entry.place(file), message));
        }
        variables.push((entry.key.clone(), Member::read(file, &entry.value, false)?));
    }
    let Some(files) = found else {
        let message = format!("`loop` has no `{files_key}`, which lists the files that it creates");
        return Err(Problem::bad(node.place(file), message).hint(format!("add `{files_key}:` below `loop`")));
    };
    if variables.is_empty() {
        return Err(Problem::bad(node.place(file), "`loop` has no variables")
            .hint("write `n: \"range(10)\"` below it, for example"));
    }
    Ok(Some(Loop { variables, files }))
}

/// An error where a key stands both in `inp` (or `out`) and below `loop`.
fn check_keys(files: &[NamedFile], loops: Option<&Loop>, what: &str) -> Result<(), Problem> {
    for other in loops.into_iter().flat_map(|loops| &loops.files) {
        if let Some(first) = files.iter().find(|file| file.key == other.key) {
            let message =
                format!("`{}` is in `{what}` of `loop`, and also at {}", other.key, first.text.place());
            return Err(Problem::bad(other.text.place(), message).hint("rename one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
