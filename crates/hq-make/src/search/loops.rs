//! Loops: their expressions, evaluated once each, and the rounds they make.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::fill::Stop;
use crate::expression::{self, Refused};
use crate::format::Scope;
use crate::limits::{LOOP_VALUES_MAX, PYTHON_CALLS_MAX};
use crate::makefile::Member;
use crate::problem::Problem;
use crate::value::Value;
use crate::world::Python;

/// Values of expressions, kept: many runs have the same.
#[derive(Default)]
pub(super) struct Expressions {
    known: FxHashMap<String, Result<Arc<Vec<Value>>, String>>,
    /// What only Python may know, until it was asked.
    asked: Vec<String>,
    asked_set: FxHashSet<String>,
    unknown: FxHashMap<String, String>,
    calls: usize,
}

/// Expressions of our own evaluator that are kept.
const KEPT_MAX: usize = 4096;

impl Expressions {
    fn values(&mut self, text: &str) -> Result<Arc<Vec<Value>>, Result<Refusal, Stop>> {
        if let Some(known) = self.known.get(text) {
            return known.clone().map_err(|message| Ok(Refusal { message, hint: None }));
        }
        match expression::values(text) {
            Ok(values) => {
                let values = Arc::new(values);
                if self.known.len() < KEPT_MAX {
                    self.known.insert(text.to_owned(), Ok(values.clone()));
                }
                Ok(values)
            }
            Err(Refused::Wrong(message)) => Err(Ok(Refusal { message, hint: None })),
            Err(Refused::Unknown(what)) => {
                if self.asked_set.insert(text.to_owned()) {
                    self.asked.push(text.to_owned());
                    self.unknown.insert(text.to_owned(), what);
                }
                Err(Err(Stop::Pending))
            }
        }
    }

    /// Has Python evaluate what waits for it.
    pub(super) fn ask(&mut self, python: Option<&dyn Python>) {
        let asked = std::mem::take(&mut self.asked);
        self.asked_set.clear();
        self.calls += 1;
        let refuse = |unknown: &FxHashMap<String, String>, text: &str, why: &str| {
            let what = unknown.get(text).map_or("it", String::as_str);
            Err(format!("{what} is not known to hq, and {why}"))
        };
        let answers: Vec<Result<Vec<Value>, String>> = match python {
            _ if self.calls > PYTHON_CALLS_MAX => {
                let why =
                    format!("its loops within each other call for Python more than {PYTHON_CALLS_MAX} times");
                asked.iter().map(|text| refuse(&self.unknown, text, &why)).collect()
            }
            None => asked.iter().map(|text| refuse(&self.unknown, text, "there is no Python here")).collect(),
            Some(python) => match python.evaluate(&asked) {
                Ok(answers) if answers.len() == asked.len() => answers,
                Ok(_) => {
                    asked.iter().map(|text| refuse(&self.unknown, text, "Python gave no answer")).collect()
                }
                Err(error) => {
                    let why = format!("Python could not be run: {error}");
                    asked.iter().map(|text| refuse(&self.unknown, text, &why)).collect()
                }
            },
        };
        for (text, answer) in asked.into_iter().zip(answers) {
            let answer = answer.and_then(|values| match values.len() {
                count if count > LOOP_VALUES_MAX => {
                    Err(format!("it has {count} values, more than {LOOP_VALUES_MAX}"))
                }
                _ => Ok(Arc::new(values)),
            });
            self.known.insert(text, answer);
        }
    }
}

/// Why an expression has no values.
struct Refusal {
    message: String,
    hint: Option<String>,
}

/// The variables of one round.
pub(super) type Round = Vec<(Arc<str>, Value)>;

/// A scope with the variables of a round before it.
pub(super) struct InRound<'a> {
    pub outer: &'a dyn Scope,
    pub round: &'a Round,
}

impl Scope for InRound<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let own = self.round.iter().rev().find(|(known, _)| &**known == name);
        own.map(|(_, value)| value.clone()).or_else(|| self.outer.get(name))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.round.iter().map(|(name, _)| name.to_string()).collect();
        names.extend(
            self.outer
                .names()
                .into_iter()
                .filter(|name| !self.round.iter().any(|(known, _)| **known == **name)),
        );
        names
    }
}

/// The rounds of a loop, in order: the last variable goes fastest.
///
/// # Errors
/// When an expression is wrong, or waits for Python.
pub(super) fn rounds(
    variables: &[(Arc<str>, Member)],
    scope: &dyn Scope,
    expressions: &mut Expressions,
) -> Result<Vec<Round>, Stop> {
    let mut rounds: Vec<Round> = vec![Vec::new()];
    for (name, member) in variables {
        let mut next = Vec::new();
        let mut is_pending = false;
        for round in &rounds {
            let inner = InRound { outer: scope, round };
            let values = match values(name, member, &inner, expressions) {
                Ok(values) => values,
                // The others are asked in the same breath.
                Err(Stop::Pending) => {
                    is_pending = true;
                    continue;
                }
                Err(wrong) => return Err(wrong),
            };
            if next.len() + values.len() > LOOP_VALUES_MAX {
                let message = format!("the loops have more than {LOOP_VALUES_MAX} iterations in total");
                return Err(Problem::bad(member.place(), message).into());
            }
            for value in values.iter() {
                let mut longer = round.clone();
                longer.push((name.clone(), value.clone()));
                next.push(longer);
            }
        }
        if is_pending {
            return Err(Stop::Pending);
        }
        rounds = next;
    }
    Ok(rounds)
}

fn values(
    name: &str,
    member: &Member,
    scope: &dyn Scope,
    expressions: &mut Expressions,
) -> Result<Arc<Vec<Value>>, Stop> {
    match member {
        Member::Text(text) => {
            let filled = text.expand(scope)?;
            expressions.values(filled.trim()).map_err(|refused| match refused {
                Err(stop) => stop,
                Ok(Refusal { message, hint }) => {
                    let written =
                        if *filled == *text.source { String::new() } else { format!(" (`{filled}`)") };
                    let message = format!("the loop over `{name}`: `{}`{written}: {message}", text.source);
                    Problem::bad(text.place(), message).maybe_hint(hint).into()
                }
            })
        }
        Member::List(..) => match member.expand(scope)? {
            Value::List(values) => Ok(values),
            _ => Ok(Arc::new(Vec::new())),
        },
        Member::Plain(value, place) => {
            let message = format!("the loop over `{name}`: cannot loop over {}", value.str());
            let hint = match value {
                Value::Int(int) => format!("write `\"range({int})\"`, or a list"),
                _ => "use a Python expression, for example `\"range(10)\"`, or a list".to_owned(),
            };
            Err(Problem::bad(place.clone(), message).hint(hint).into())
        }
        Member::Map(_, place) => {
            let message = format!("the loop over `{name}`: cannot loop over a mapping");
            Err(Problem::bad(place.clone(), message).hint("write a list").into())
        }
    }
}
