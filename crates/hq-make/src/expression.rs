//! Expressions of loops, as Python has them: `range(0, 120)`, lists, comprehensions, arithmetic.
//!
//! Our own evaluator knows what users write, needs no Python, and ends: it counts its steps. What it does not know is
//! Python's business ([`Refused::Unknown`]); what Python would refuse, too, is refused at once.

mod evaluate;
mod functions;
mod lexer;
mod operators;
mod parser;

use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_STEPS_MAX, LOOP_VALUES_MAX};
use crate::value::Value;

/// Why an expression has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Our evaluator does not know this: Python may.
    Unknown(String),
    /// It is wrong.
    Wrong(String),
}

impl Refused {
    fn unknown(what: impl Into<String>) -> Refused {
        Refused::Unknown(what.into())
    }

    fn wrong(what: impl Into<String>) -> Refused {
        Refused::Wrong(what.into())
    }
}

/// The values that a loop over an expression goes through.
///
/// # Errors
/// When our evaluator does not know it, or it is wrong.
pub(crate) fn values(text: &str) -> Result<Vec<Value>, Refused> {
    let value = evaluate(text)?;
    let mut steps = Steps { left: EXPRESSION_STEPS_MAX };
    let values = operators::iterate(&value, &mut steps)?;
    if values.len() > LOOP_VALUES_MAX {
        return Err(too_many(values.len()));
    }
    Ok(values)
}

/// What is said of a loop with too many values.
pub(crate) fn too_many(count: usize) -> Refused {
    Refused::wrong(format!("it has {count} values, more than {LOOP_VALUES_MAX}"))
}

/// The value of an expression.
///
/// # Errors
/// When our evaluator does not know it, or it is wrong.
pub(crate) fn evaluate(text: &str) -> Result<Value, Refused> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(Refused::wrong(format!("it has {} bytes, more than {EXPRESSION_BYTES_MAX}", text.len())));
    }
    literal(text)
}

/// The value of an expression of any length.
///
/// # Errors
/// When our evaluator does not know it, or it is wrong.
pub(crate) fn literal(text: &str) -> Result<Value, Refused> {
    let expression = parser::parse(text)?;
    let mut steps = Steps { left: EXPRESSION_STEPS_MAX };
    evaluate::run(&expression, &mut steps)
}

/// Steps that are left: each value that is made or looked at is one.
pub(crate) struct Steps {
    left: u64,
}

impl Steps {
    /// Takes some.
    fn take(&mut self, count: u64) -> Result<(), Refused> {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Refused::wrong(format!("it takes more than {EXPRESSION_STEPS_MAX} steps")))
            }
        }
    }

    fn take_length(&mut self, length: usize) -> Result<(), Refused> {
        self.take(length as u64 + 1)
    }
}

#[cfg(test)]
mod tests;
