//! The functions and methods that our evaluator knows.

use std::cmp::Ordering;
use std::sync::Arc;

use super::operators::{self, index, iterate};
use super::{Refused, Steps};
use crate::value::Value;

/// Calls a function.
///
/// # Errors
/// When it is not known here, or does not take such values.
pub(super) fn call(
    name: &str,
    arguments: &[Value],
    named: &[(&str, Value)],
    steps: &mut Steps,
) -> Result<Value, Refused> {
    let misfit = || Refused::unknown(format!("`{name}` with such values"));
    if !named.is_empty() {
        return match (name, arguments, named) {
            ("sorted", [all], [("reverse", is)]) => {
                Ok(Value::list(sorted(all, operators::is_true(is), steps)?))
            }
            ("enumerate", [all], [("start", start)]) => enumerate(all, index(start)?, steps),
            _ => Err(misfit()),
        };
    }
    match (name, arguments) {
        ("range", [stop]) => Ok(Value::Range(0, index(stop)?, 1)),
        ("range", [start, stop]) => Ok(Value::Range(index(start)?, index(stop)?, 1)),
        ("range", [start, stop, step]) => match index(step)? {
            0 => Err(Refused::wrong("a step of zero")),
            step => Ok(Value::Range(index(start)?, index(stop)?, step)),
        },
        ("len", [of]) => length(of),
        ("str", []) => Ok(Value::text("")),
        ("str", [of]) => {
            let text = of.str();
            steps.take_length(text.len())?;
            Ok(Value::text(text))
        }
        ("repr", [of]) => {
            let text = of.repr();
            steps.take_length(text.len())?;
            Ok(Value::text(text))
        }
        ("int", [of]) => int(of),
        ("float", [of]) => float(of),
        ("bool", [of]) => Ok(Value::Bool(operators::is_true(of))),
        ("abs", [Value::Int(int)]) => int.checked_abs().map(Value::Int).ok_or_else(misfit),
        ("abs", [Value::Float(float)]) => Ok(Value::Float(float.abs())),
        ("list", []) => Ok(Value::list(Vec::new())),
        ("list", [of]) => Ok(Value::list(iterate(of, steps)?)),
        ("tuple", []) => Ok(Value::tuple(Vec::new())),
        ("tuple", [of]) => Ok(Value::tuple(iterate(of, steps)?)),
        ("set", []) => Ok(Value::Set(Arc::new(Vec::new()))),
        ("set", [of]) => {
            let values = iterate(of, steps)?;
            Ok(Value::Set(Arc::new(operators::distinct(values, steps)?)))
        }
        (
            "reversed",
            [of @ (Value::List(_) | Value::Tuple(_) | Value::Str(_) | Value::Range(..) | Value::Dict(_))],
        ) => {
            let mut values = iterate(of, steps)?;
            values.reverse();
            Ok(Value::list(values))
        }
        ("sorted", [of]) => Ok(Value::list(sorted(of, false, steps)?)),
        ("enumerate", [of]) => enumerate(of, 0, steps),
        ("zip", all) => {
            let all: Vec<Vec<Value>> = all.iter().map(|of| iterate(of, steps)).collect::<Result<_, _>>()?;
            let count = all.iter().map(Vec::len).min().unwrap_or(0);
            let row = |at: usize| Value::tuple(all.iter().map(|values| values[at].clone()).collect());
            Ok(Value::list((0..count).map(row).collect()))
        }
        ("sum", [of]) => sum(of, Value::Int(0), steps),
        ("sum", [of, start]) => sum(of, start.clone(), steps),
        ("min" | "max", [of]) => extreme(name, iterate(of, steps)?, steps),
        ("min" | "max", [_, _, ..]) => extreme(name, arguments.to_vec(), steps),
        ("any", [of]) => Ok(Value::Bool(iterate(of, steps)?.iter().any(operators::is_true))),
        ("all", [of]) => Ok(Value::Bool(iterate(of, steps)?.iter().all(operators::is_true))),
        ("round", [Value::Int(int)]) => Ok(Value::Int(*int)),
        ("divmod", [one, other]) => {
            let quotient = operators::binary("//", one, other, steps)?;
            Ok(Value::tuple(vec![quotient, operators::binary("%", one, other, steps)?]))
        }
        _ => Err(Refused::unknown(format!("`{name}` with {} arguments", arguments.len()))),
    }
}

fn length(of: &Value) -> Result<Value, Refused> {
    let length = match of {
        Value::List(values) | Value::Tuple(values) | Value::Set(values) => values.len() as u64,
        Value::Dict(pairs) => pairs.len() as u64,
        Value::Str(text) => text.chars().count() as u64,
        Value::Range(start, stop, step) => operators::range_length(*start, *stop, *step),
        other => return Err(Refused::wrong(format!("a value of type {} has no length", other.kind()))),
    };
    i64::try_from(length).map(Value::Int).map_err(|_| Refused::wrong("the length is too large"))
}

fn int(of: &Value) -> Result<Value, Refused> {
    match of {
        Value::Int(_) | Value::Bool(_) => Ok(Value::Int(index(of)?)),
        Value::Float(float) if float.is_finite() && float.abs() < 9.2e18 => {
            Ok(Value::Int(float.trunc() as i64))
        }
        Value::Str(text) => {
            let text = text.trim();
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Refused::unknown(format!("int() of the text `{text}`")));
            }
            text.parse().map(Value::Int).map_err(|_| Refused::unknown("a whole number of more than 64 bits"))
        }
        other => Err(Refused::unknown(format!("int() of a value of type {}", other.kind()))),
    }
}

fn float(of: &Value) -> Result<Value, Refused> {
    match of {
        Value::Int(int) => Ok(Value::Float(*int as f64)),
        Value::Float(float) => Ok(Value::Float(*float)),
        Value::Str(text) if matches!(&**text, "inf" | "-inf" | "nan") => {
            text.parse().map(Value::Float).map_err(|_| Refused::wrong("no number"))
        }
        Value::Str(text)
            if text.trim().bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) =>
        {
            text.trim()
                .parse()
                .map(Value::Float)
                .map_err(|_| Refused::wrong(format!("`{text}` is not a number")))
        }
        other => Err(Refused::unknown(format!("float() of a value of type {}", other.kind()))),
    }
}

// Equal values keep their order, also where it is reversed. A sort of our own may stop at what has no order.
fn sorted(of: &Value, is_reverse: bool, steps: &mut Steps) -> Result<Vec<Value>, Refused> {
    let mut values = iterate(of, steps)?;
    // A number that is none would make an order that depends on the algorithm.
    if values.iter().any(|value| matches!(value, Value::Float(float) if float.is_nan())) {
        return Err(Refused::unknown("sorting what has no order"));
    }
    let after = if is_reverse { Ordering::Less } else { Ordering::Greater };
    let mut width = 1;
    while width < values.len() {
        let mut merged = Vec::with_capacity(values.len());
        for pair in values.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut one, mut other) = (0, 0);
            while one < left.len() && other < right.len() {
                if operators::order(&left[one], &right[other], steps)? == Some(after) {
                    merged.push(right[other].clone());
                    other += 1;
                } else {
                    merged.push(left[one].clone());
                    one += 1;
                }
            }
            merged.extend_from_slice(&left[one..]);
            merged.extend_from_slice(&right[other..]);
        }
        values = merged;
        width *= 2;
    }
    Ok(values)
}

fn enumerate(of: &Value, start: i64, steps: &mut Steps) -> Result<Value, Refused> {
    let values = iterate(of, steps)?;
    let pairs =
        values.into_iter().zip(start..).map(|(value, number)| Value::tuple(vec![Value::Int(number), value]));
    Ok(Value::list(pairs.collect()))
}

fn sum(of: &Value, start: Value, steps: &mut Steps) -> Result<Value, Refused> {
    let mut total = start;
    for value in iterate(of, steps)? {
        if matches!(total, Value::Str(_)) || matches!(value, Value::Float(_)) {
            // Python adds numbers with a point more exactly than one by one.
            return Err(Refused::unknown("sum() of such values"));
        }
        total = operators::binary("+", &total, &value, steps)?;
    }
    Ok(total)
}

fn extreme(name: &str, values: Vec<Value>, steps: &mut Steps) -> Result<Value, Refused> {
    let mut values = values.into_iter();
    let mut best = values.next().ok_or_else(|| Refused::wrong(format!("`{name}` of nothing")))?;
    let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
    for value in values {
        if operators::order(&value, &best, steps)? == Some(wanted) {
            best = value;
        }
    }
    Ok(best)
}

/// Calls a method of a value.
///
/// # Errors
/// When it is not known here, or does not take such values.
pub(super) fn method(
    of: &Value,
    name: &str,
    arguments: &[Value],
    steps: &mut Steps,
) -> Result<Value, Refused> {
    let unknown = || Refused::unknown(format!("`.{name}` of a value of type {}", of.kind()));
    if let Value::Dict(pairs) = of {
        steps.take_length(pairs.len())?;
        return match (name, arguments) {
            ("keys", []) => Ok(Value::list(pairs.iter().map(|(key, _)| key.clone()).collect())),
            ("values", []) => Ok(Value::list(pairs.iter().map(|(_, value)| value.clone()).collect())),
            ("items", []) => {
                let tuple = |(key, value): &(Value, Value)| Value::tuple(vec![key.clone(), value.clone()]);
                Ok(Value::list(pairs.iter().map(tuple).collect()))
            }
            _ => Err(unknown()),
        };
    }
    let Value::Str(text) = of else { return Err(unknown()) };
    steps.take_length(text.len())?;
    match (name, arguments) {
        ("split", []) => {
            // Where Python sees a blank and we do not, it is asked.
            if !text.is_ascii() || text.bytes().any(|byte| (0x1c..=0x1f).contains(&byte) || byte == 0x0b) {
                return Err(unknown());
            }
            Ok(Value::list(text.split_ascii_whitespace().map(Value::text).collect()))
        }
        ("split", [Value::Str(by)]) if !by.is_empty() => {
            Ok(Value::list(text.split(&**by).map(Value::text).collect()))
        }
        ("join", [all]) => {
            let mut joined = String::new();
            for (number, value) in iterate(all, steps)?.iter().enumerate() {
                let Value::Str(part) = value else { return Err(Refused::wrong("only texts are joined")) };
                steps.take_length(part.len() + text.len())?;
                joined.push_str(if number > 0 { text } else { "" });
                joined.push_str(part);
            }
            Ok(Value::text(joined))
        }
        ("upper", []) if text.is_ascii() => Ok(Value::text(text.to_ascii_uppercase())),
        ("lower", []) if text.is_ascii() => Ok(Value::text(text.to_ascii_lowercase())),
        ("startswith", [Value::Str(with)]) => Ok(Value::Bool(text.starts_with(&**with))),
        ("endswith", [Value::Str(with)]) => Ok(Value::Bool(text.ends_with(&**with))),
        ("replace", [Value::Str(old), Value::Str(new)]) if !old.is_empty() => {
            steps.take_length(text.len().saturating_mul(new.len()))?;
            Ok(Value::text(text.replace(&**old, new)))
        }
        ("zfill", [Value::Int(width)]) if *width <= 10_000 && !text.starts_with(['+', '-']) => {
            let missing = usize::try_from(*width).unwrap_or(0).saturating_sub(text.chars().count());
            Ok(Value::text(format!("{}{text}", "0".repeat(missing))))
        }
        _ => Err(unknown()),
    }
}
