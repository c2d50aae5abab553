//! Which rule makes a file: names are compared with the outputs of rules.
//!
//! A field of an output that names an attribute is filled in; every other is a template variable, which stands for one
//! or more characters but `/`. With a format it stands for exactly what that format prints.

use crate::format::{Spec, apply};
use crate::limits::MATCH_STEPS_MAX;
use crate::value::Value;

/// Template variables of one rule; more make names that nobody reads.
pub(crate) const VARIABLES_MAX: usize = 32;

/// What a template variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number: a format for whole numbers is used with it somewhere in the rule.
    Int,
    /// A number.
    Float,
}

/// A part of an output.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Literal(String),
    /// A variable, by its place among those of the rule.
    Variable(usize, Option<Spec>),
}

/// An output with its variables.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub parts: Vec<Part>,
}

/// The name could be compared in too many ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooHard;

impl Pattern {
    /// Parts in normal form: what [`crate::paths::normalise`] does to names.
    pub(crate) fn new(parts: Vec<Part>) -> Pattern {
        let mut components: Vec<Vec<Part>> = vec![Vec::new()];
        for part in parts {
            match part {
                Part::Literal(text) => {
                    for (number, piece) in text.split('/').enumerate() {
                        if number > 0 {
                            components.push(Vec::new());
                        }
                        if let (Some(last), false) = (components.last_mut(), piece.is_empty()) {
                            push_literal(last, piece);
                        }
                    }
                }
                variable => {
                    if let Some(last) = components.last_mut() {
                        last.push(variable);
                    }
                }
            }
        }
        let literal = |component: &[Part]| match component {
            [] => Some(String::new()),
            [Part::Literal(text)] => Some(text.clone()),
            _ => None,
        };
        let is_absolute = components.len() > 1 && components[0].is_empty();
        let mut kept: Vec<Vec<Part>> = Vec::new();
        for component in components {
            match literal(&component).as_deref() {
                Some("" | ".") => (),
                Some("..") => match kept.last().map(|last| literal(last)) {
                    Some(Some(last)) if last == ".." => kept.push(component),
                    Some(_) => drop(kept.pop()),
                    None if is_absolute => (),
                    None => kept.push(component),
                },
                _ => kept.push(component),
            }
        }
        let mut parts = Vec::new();
        for (number, component) in kept.into_iter().enumerate() {
            if number > 0 || is_absolute {
                push_literal(&mut parts, "/");
            }
            for part in component {
                match part {
                    Part::Literal(text) => push_literal(&mut parts, &text),
                    variable => parts.push(variable),
                }
            }
        }
        Pattern { parts }
    }

    /// The name, if there are no variables.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some("."),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text before the first variable.
    pub(crate) fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    /// The text after the last variable.
    fn suffix(&self) -> &str {
        match self.parts.last() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    /// The values of the variables with which this is the name: of two or more ways, two.
    ///
    /// # Errors
    /// When there are too many ways to try.
    pub(crate) fn matches(&self, name: &str, kinds: &[Kind]) -> Result<Vec<Vec<Value>>, TooHard> {
        if !name.starts_with(self.prefix()) || !name.ends_with(self.suffix()) {
            return Ok(Vec::new());
        }
        let mut search =
            Search { kinds, bound: vec![None; kinds.len()], found: Vec::new(), steps_left: MATCH_STEPS_MAX };
        search.parts(&self.parts, name)?;
        Ok(search.found)
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Literal(last)) => last.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

struct Search<'a> {
    kinds: &'a [Kind],
    bound: Vec<Option<Value>>,
    found: Vec<Vec<Value>>,
    steps_left: u32,
}

impl Search<'_> {
    // Goes as deep as there are parts: an output has few variables.
    fn parts(&mut self, parts: &[Part], rest: &str) -> Result<(), TooHard> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(TooHard)?;
        match parts.split_first() {
            None => {
                if rest.is_empty() {
                    self.found
                        .push(self.bound.iter().map(|value| value.clone().unwrap_or(Value::None)).collect());
                }
                Ok(())
            }
            Some((Part::Literal(text), after)) => match rest.strip_prefix(&**text) {
                Some(rest) => self.parts(after, rest),
                None => Ok(()),
            },
            Some((Part::Variable(variable, spec), after)) => {
                let most = rest.find('/').unwrap_or(rest.len());
                match after {
                    [] => self.variable(*variable, spec.as_ref(), after, rest, rest.len(), most),
                    [Part::Literal(last)] => {
                        let end =
                            rest.len().checked_sub(last.len()).filter(|end| rest.is_char_boundary(*end));
                        match end {
                            Some(end) => self.variable(*variable, spec.as_ref(), after, rest, end, most),
                            None => Ok(()),
                        }
                    }
                    _ => {
                        for end in 1..=most {
                            if rest.is_char_boundary(end) && self.found.len() < 2 {
                                self.variable(*variable, spec.as_ref(), after, rest, end, most)?;
                            }
                        }
                        Ok(())
                    }
                }
            }
        }
    }

    fn variable(
        &mut self,
        variable: usize,
        spec: Option<&Spec>,
        after: &[Part],
        rest: &str,
        end: usize,
        most: usize,
    ) -> Result<(), TooHard> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(TooHard)?;
        if end == 0 || end > most {
            return Ok(());
        }
        if let Some(Part::Literal(next)) = after.first()
            && !rest[end..].starts_with(&**next)
        {
            return Ok(());
        }
        let Some(value) = value_of(&rest[..end], self.kinds[variable], spec) else { return Ok(()) };
        match &self.bound[variable] {
            Some(before) if *before != value => Ok(()),
            Some(_) => self.parts(after, &rest[end..]),
            None => {
                self.bound[variable] = Some(value);
                let result = self.parts(after, &rest[end..]);
                self.bound[variable] = None;
                result
            }
        }
    }
}

/// The value that is printed as this text; none if no value of its kind is.
pub(crate) fn value_of(text: &str, kind: Kind, spec: Option<&Spec>) -> Option<Value> {
    let default = Spec::default();
    let spec = spec.unwrap_or(&default);
    let candidate = match kind {
        Kind::Text if *spec == default => return Some(Value::text(text)),
        Kind::Text => {
            let fill = spec.fill.unwrap_or(if spec.has_zero { '0' } else { ' ' });
            let bare = match spec.align.unwrap_or('<') {
                '>' => text.trim_start_matches(fill),
                '^' => text.trim_matches(fill),
                _ => text.trim_end_matches(fill),
            };
            Value::text(if text.chars().count() == spec.width { bare } else { text })
        }
        Kind::Int => Value::Int(int_of(text, spec)?),
        Kind::Float => Value::Float(float_of(text, spec)?),
    };
    let again = apply(&candidate, spec).ok()?;
    (again == text).then_some(candidate)
}

fn bare_digits(text: &str, spec: &Spec) -> String {
    let fill = spec.fill.unwrap_or(' ');
    let trimmed = if fill.is_alphanumeric() { text } else { text.trim_matches(fill) };
    let trimmed = match (fill.is_alphanumeric() && fill != '0', spec.align) {
        (true, Some('<')) => trimmed.trim_end_matches(fill),
        (true, Some('^')) => trimmed.trim_matches(fill),
        (true, _) => trimmed.trim_start_matches(fill),
        (false, _) => trimmed,
    };
    let inner_fill = (spec.align == Some('=') && fill != '-').then_some(fill);
    trimmed
        .chars()
        .filter(|char| Some(*char) != spec.grouping && (Some(*char) != inner_fill || fill == '0'))
        .collect()
}

fn int_of(text: &str, spec: &Spec) -> Option<i64> {
    if spec.kind == Some('c') {
        let fill = spec.fill.unwrap_or(' ');
        let mut chars = text.chars().filter(|char| text.chars().count() == 1 || *char != fill);
        return chars.next().filter(|_| chars.next().is_none()).map(|char| i64::from(char as u32));
    }
    let digits = bare_digits(text, spec);
    let digits = digits.trim_start_matches(' ');
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (radix, prefix) = match spec.kind {
        Some('b') => (2, "0b"),
        Some('o') => (8, "0o"),
        Some('x') => (16, "0x"),
        Some('X') => (16, "0X"),
        _ => (10, ""),
    };
    let digits = if spec.is_alternate { digits.strip_prefix(prefix).unwrap_or(digits) } else { digits };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok().and_then(|number| i64::try_from(sign * number).ok())
}

fn float_of(text: &str, spec: &Spec) -> Option<f64> {
    let digits = bare_digits(text, spec);
    let digits = digits.trim_start_matches(' ');
    match digits.strip_suffix('%') {
        Some(digits) if spec.kind == Some('%') => digits.parse::<f64>().ok().map(|number| number / 100.0),
        _ => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
