//! Operators on values, as Python has them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Refused, Steps};
use crate::format;
use crate::value::Value;

/// Whether a value counts as true.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::None => false,
        Value::Bool(is) => *is,
        Value::Int(int) => *int != 0,
        Value::Float(float) => *float != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::List(values) | Value::Tuple(values) | Value::Set(values) => !values.is_empty(),
        Value::Dict(pairs) => !pairs.is_empty(),
        Value::Range(start, stop, step) => range_length(*start, *stop, *step) > 0,
        Value::Files(files) => !files.by_key.is_empty(),
    }
}

/// How many numbers a range has.
pub(super) fn range_length(start: i64, stop: i64, step: i64) -> u64 {
    let span =
        if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let step = i128::from(step).abs().max(1);
    if span <= 0 { 0 } else { u64::try_from((span + step - 1) / step).unwrap_or(u64::MAX) }
}

/// What a loop over a value goes through.
///
/// # Errors
/// When it is not iterable, or too long.
pub(super) fn iterate(value: &Value, steps: &mut Steps) -> Result<Vec<Value>, Refused> {
    match value {
        Value::List(values) | Value::Tuple(values) | Value::Set(values) => {
            steps.take_length(values.len())?;
            Ok(values.to_vec())
        }
        Value::Dict(pairs) => {
            steps.take_length(pairs.len())?;
            Ok(pairs.iter().map(|(key, _)| key.clone()).collect())
        }
        Value::Str(text) => {
            steps.take_length(text.len())?;
            Ok(text.chars().map(|char| Value::text(char.to_string())).collect())
        }
        Value::Range(start, stop, step) => {
            let length = range_length(*start, *stop, *step);
            if length > crate::limits::LOOP_VALUES_MAX as u64 {
                return Err(super::too_many(usize::try_from(length).unwrap_or(usize::MAX)));
            }
            steps.take(length + 1)?;
            // Some last steps would not fit, but no number goes beyond the end.
            let number = |at: i64| Value::Int(start.wrapping_add(at.wrapping_mul(*step)));
            Ok((0..length as i64).map(number).collect())
        }
        other => Err(Refused::wrong(format!("cannot loop over a value of type {}", other.kind()))),
    }
}

/// Values without those that stand before; lists and mappings cannot be compared so.
///
/// # Errors
/// As said.
pub(super) fn distinct(values: Vec<Value>, steps: &mut Steps) -> Result<Vec<Value>, Refused> {
    steps.take_length(values.len())?;
    let mut seen: std::collections::HashSet<String> = std::collections::HashSet::new();
    let mut kept = Vec::new();
    for value in values {
        if seen.insert(hashed(&value)?) {
            kept.push(value);
        }
    }
    Ok(kept)
}

/// A mapping; later values of a key win, at the place of the first.
///
/// # Errors
/// When a key cannot be one.
pub(super) fn dict(pairs: Vec<(Value, Value)>, steps: &mut Steps) -> Result<Value, Refused> {
    steps.take_length(pairs.len())?;
    let mut index: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for (key, value) in pairs {
        match index.entry(hashed(&key)?) {
            std::collections::hash_map::Entry::Occupied(at) => kept[*at.get()].1 = value,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(kept.len());
                kept.push((key, value));
            }
        }
    }
    Ok(Value::Dict(Arc::new(kept)))
}

// A text that is equal where values are: 1, 1.0 and True are.
fn hashed(value: &Value) -> Result<String, Refused> {
    match value {
        Value::Str(text) => Ok(format!("s{text}")),
        Value::None => Ok("n".to_owned()),
        Value::Bool(is) => Ok(format!("i{}", i64::from(*is))),
        Value::Int(int) => Ok(format!("i{int}")),
        Value::Float(float) => match whole(*float) {
            Some(int) => Ok(format!("i{int}")),
            None => Ok(format!("f{}", format::float_repr(*float))),
        },
        Value::Tuple(values) => {
            let parts: Result<Vec<_>, _> = values.iter().map(hashed).collect();
            Ok(format!("t{:?}", parts?))
        }
        Value::Range(..) => Ok(value.repr()),
        other => Err(Refused::wrong(format!("a value of type {} cannot be a key", other.kind()))),
    }
}

fn whole(float: f64) -> Option<i64> {
    let is_whole = float.fract() == 0.0 && (-9.2e18..=9.2e18).contains(&float);
    is_whole.then_some(float as i64)
}

/// A sign before a value.
///
/// # Errors
/// When it has none.
pub(super) fn unary(sign: &str, of: &Value) -> Result<Value, Refused> {
    match (sign, number(of)) {
        ("-", Some(Number::Int(int))) => int.checked_neg().map(Value::Int).ok_or_else(too_large),
        ("+", Some(Number::Int(int))) => Ok(Value::Int(int)),
        ("~", Some(Number::Int(int))) => Ok(Value::Int(!int)),
        ("-", Some(Number::Float(float))) => Ok(Value::Float(-float)),
        ("+", Some(Number::Float(float))) => Ok(Value::Float(float)),
        _ => Err(Refused::wrong(format!("`{sign}` cannot be applied to a value of type {}", of.kind()))),
    }
}

fn too_large() -> Refused {
    Refused::unknown("a whole number of more than 64 bits")
}

enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn float(&self) -> f64 {
        match self {
            Number::Int(int) => *int as f64,
            Number::Float(float) => *float,
        }
    }
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Int(int) => Some(Number::Int(*int)),
        Value::Bool(is) => Some(Number::Int(i64::from(*is))),
        Value::Float(float) => Some(Number::Float(*float)),
        _ => None,
    }
}

/// A sign between two values.
///
/// # Errors
/// When they do not go together.
pub(super) fn binary(sign: &str, left: &Value, right: &Value, steps: &mut Steps) -> Result<Value, Refused> {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return match (left, right) {
            (Number::Int(left), Number::Int(right)) => ints(sign, left, right),
            (left, right) => floats(sign, left.float(), right.float()),
        };
    }
    match (sign, left, right) {
        ("+", Value::Str(one), Value::Str(other)) => {
            steps.take_length(one.len() + other.len())?;
            Ok(Value::text(format!("{one}{other}")))
        }
        ("+", Value::List(one), Value::List(other)) => Ok(Value::list(joined(one, other, steps)?)),
        ("+", Value::Tuple(one), Value::Tuple(other)) => Ok(Value::tuple(joined(one, other, steps)?)),
        ("*", Value::Str(_) | Value::List(_) | Value::Tuple(_), Value::Int(_) | Value::Bool(_)) => {
            repeated(left, index(right)?, steps)
        }
        ("*", Value::Int(_) | Value::Bool(_), Value::Str(_) | Value::List(_) | Value::Tuple(_)) => {
            repeated(right, index(left)?, steps)
        }
        ("|", Value::Set(one), Value::Set(other)) => {
            let all = joined(one, other, steps)?;
            Ok(Value::Set(Arc::new(distinct(all, steps)?)))
        }
        ("|", Value::Dict(one), Value::Dict(other)) => {
            steps.take_length(one.len() + other.len())?;
            dict(one.iter().chain(other.iter()).cloned().collect(), steps)
        }
        ("%", Value::Str(_), _) => Err(Refused::unknown("a text with `%`")),
        ("&" | "-" | "^", Value::Set(_), Value::Set(_)) => Err(Refused::unknown(format!("`{sign}` of sets"))),
        _ => {
            Err(Refused::wrong(format!("`{sign}` cannot be applied to {} and {}", left.kind(), right.kind())))
        }
    }
}

fn joined(one: &[Value], other: &[Value], steps: &mut Steps) -> Result<Vec<Value>, Refused> {
    steps.take_length(one.len() + other.len())?;
    Ok(one.iter().chain(other).cloned().collect())
}

fn repeated(value: &Value, count: i64, steps: &mut Steps) -> Result<Value, Refused> {
    let count = usize::try_from(count).unwrap_or(0);
    let length = match value {
        Value::Str(text) => text.len(),
        Value::List(values) | Value::Tuple(values) => values.len(),
        _ => 0,
    };
    steps.take_length(length.saturating_mul(count))?;
    Ok(match value {
        Value::Str(text) => Value::text(text.repeat(count)),
        Value::Tuple(values) => Value::tuple(many(values, count)),
        Value::List(values) => Value::list(many(values, count)),
        other => other.clone(),
    })
}

fn many(values: &[Value], count: usize) -> Vec<Value> {
    (0..count).flat_map(|_| values.iter().cloned()).collect()
}

fn ints(sign: &str, left: i64, right: i64) -> Result<Value, Refused> {
    let zero = || Refused::wrong("a division by zero");
    let int = match sign {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" if right == 0 => return Err(zero()),
        // Larger ones are rounded only once by Python.
        "/" if left.unsigned_abs() > 1 << 53 || right.unsigned_abs() > 1 << 53 => None,
        "/" => return Ok(Value::Float(left as f64 / right as f64)),
        "//" | "%" if right == 0 => return Err(zero()),
        "//" => left.checked_div(right).map(|quotient| {
            if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
        }),
        "%" => left
            .checked_rem(right)
            .map(|rest| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }),
        "**" if right < 0 && left == 0 => return Err(zero()),
        "**" if right < 0 => return floats("**", left as f64, right as f64),
        "**" => match u32::try_from(right) {
            Ok(power) => left.checked_pow(power),
            Err(_) => None,
        },
        "<<" | ">>" if right < 0 => return Err(Refused::wrong("a shift by a negative number")),
        "<<" => (right < 63).then(|| left.checked_mul(1 << right)).flatten(),
        ">>" => Some(left >> right.min(63)),
        "&" => Some(left & right),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        _ => return Err(Refused::wrong(format!("`{sign}` cannot be applied to whole numbers"))),
    };
    int.map(Value::Int).ok_or_else(too_large)
}

fn floats(sign: &str, left: f64, right: f64) -> Result<Value, Refused> {
    if right == 0.0 && matches!(sign, "/" | "//" | "%") {
        return Err(Refused::wrong("a division by zero"));
    }
    let float = match sign {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        "**" if left < 0.0 && right.fract() != 0.0 => return Err(Refused::unknown("a complex number")),
        "**" if left == 0.0 && right < 0.0 => return Err(Refused::wrong("a division by zero")),
        "**" => {
            let power = left.powf(right);
            if power.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(Refused::wrong("the result is too large"));
            }
            power
        }
        "//" | "%" => {
            let mut rest = left % right;
            let mut quotient = (left - rest) / right;
            if rest != 0.0 && (rest < 0.0) != (right < 0.0) {
                rest += right;
                quotient -= 1.0;
            } else if rest == 0.0 {
                rest = 0.0_f64.copysign(right);
            }
            if sign == "%" {
                rest
            } else if quotient == 0.0 {
                0.0_f64.copysign(left / right)
            } else {
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
        }
        _ => return Err(Refused::wrong(format!("`{sign}` cannot be applied to floating-point numbers"))),
    };
    Ok(Value::Float(float))
}

/// Whether two values stand so to each other.
///
/// # Errors
/// When they have no order.
pub(super) fn compare(sign: &str, left: &Value, right: &Value, steps: &mut Steps) -> Result<bool, Refused> {
    match sign {
        "==" => equal(left, right, steps),
        "!=" => Ok(!equal(left, right, steps)?),
        "in" => contains(right, left, steps),
        "not in" => Ok(!contains(right, left, steps)?),
        "is" | "is not" => {
            let are_same = match (left, right) {
                (Value::None, Value::None) => true,
                (Value::Bool(one), Value::Bool(other)) => one == other,
                (Value::None | Value::Bool(_), _) | (_, Value::None | Value::Bool(_)) => false,
                _ => return Err(Refused::unknown("`is` between such values")),
            };
            Ok(are_same == (sign == "is"))
        }
        _ => {
            let order = order(left, right, steps)?;
            Ok(match sign {
                "<" => order == Some(Ordering::Less),
                ">" => order == Some(Ordering::Greater),
                "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            })
        }
    }
}

/// Whether two values are equal.
///
/// # Errors
/// When comparing them takes too long.
pub(super) fn equal(left: &Value, right: &Value, steps: &mut Steps) -> Result<bool, Refused> {
    steps.take(1)?;
    match (left, right) {
        (Value::List(one), Value::List(other)) | (Value::Tuple(one), Value::Tuple(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.iter().zip(other.iter()) {
                if !equal(one, other, steps)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Dict(_), Value::Dict(_))
        | (Value::Set(_), Value::Set(_))
        | (Value::Range(..), Value::Range(..)) => {
            Err(Refused::unknown(format!("`==` between values of type {}", left.kind())))
        }
        (Value::Str(one), Value::Str(other)) => {
            steps.take_length(one.len().min(other.len()))?;
            Ok(one == other)
        }
        (Value::None, Value::None) => Ok(true),
        _ => Ok(match (number(left), number(right)) {
            (Some(Number::Int(one)), Some(Number::Int(other))) => one == other,
            (Some(one), Some(other)) => one.float() == other.float(),
            _ => false,
        }),
    }
}

/// How two values are ordered; not at all if one is no number.
///
/// # Errors
/// When they have no order.
pub(super) fn order(left: &Value, right: &Value, steps: &mut Steps) -> Result<Option<Ordering>, Refused> {
    steps.take(1)?;
    if let (Some(one), Some(other)) = (number(left), number(right)) {
        return Ok(match (one, other) {
            (Number::Int(one), Number::Int(other)) => Some(one.cmp(&other)),
            (one, other) => one.float().partial_cmp(&other.float()),
        });
    }
    match (left, right) {
        (Value::Str(one), Value::Str(other)) => {
            steps.take_length(one.len().min(other.len()))?;
            Ok(Some(one.cmp(other)))
        }
        (Value::List(one), Value::List(other)) | (Value::Tuple(one), Value::Tuple(other)) => {
            for (one, other) in one.iter().zip(other.iter()) {
                if !equal(one, other, steps)? {
                    return order(one, other, steps);
                }
            }
            Ok(Some(one.len().cmp(&other.len())))
        }
        (Value::Set(_), Value::Set(_)) => Err(Refused::unknown("the order of sets")),
        _ => Err(Refused::wrong(format!("{} and {} cannot be ordered", left.kind(), right.kind()))),
    }
}

fn contains(all: &Value, one: &Value, steps: &mut Steps) -> Result<bool, Refused> {
    match (all, one) {
        (Value::Str(all), Value::Str(one)) => {
            steps.take_length(all.len())?;
            Ok(all.contains(&**one))
        }
        (Value::Str(_), _) => Err(Refused::wrong(format!("a value of type {} is in no text", one.kind()))),
        (Value::Range(start, stop, step), Value::Int(int)) => {
            let from = i128::from(*int) - i128::from(*start);
            let is_between = if *step > 0 { int >= start && int < stop } else { int <= start && int > stop };
            Ok(is_between && from % i128::from(*step) == 0)
        }
        // What cannot be a key is in no mapping and in no set; but a set is looked for as its frozen twin.
        (Value::Dict(_), _) | (Value::Set(_), _) if !matches!((all, one), (Value::Set(_), Value::Set(_))) => {
            let wanted = hashed(one)?;
            for value in iterate(all, steps)? {
                if hashed(&value)? == wanted {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => {
            for value in iterate(all, steps)? {
                if equal(&value, one, steps)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// A whole number, as positions and counts are.
///
/// # Errors
/// When it is none.
pub(super) fn index(value: &Value) -> Result<i64, Refused> {
    match value {
        Value::Int(int) => Ok(*int),
        Value::Bool(is) => Ok(i64::from(*is)),
        other => Err(Refused::wrong(format!("a value of type {} is not a whole number", other.kind()))),
    }
}

/// An item of a value.
///
/// # Errors
/// When there is none.
pub(super) fn item(of: &Value, key: &Value, steps: &mut Steps) -> Result<Value, Refused> {
    if let Value::Dict(pairs) = of {
        steps.take_length(pairs.len())?;
        let wanted = hashed(key)?;
        for (known, value) in pairs.iter() {
            if hashed(known)? == wanted {
                return Ok(value.clone());
            }
        }
        return Err(Refused::wrong(format!("there is no key {}", key.repr())));
    }
    let at = index(key)?;
    let length = match of {
        Value::List(values) | Value::Tuple(values) => values.len() as u64,
        Value::Str(text) => {
            steps.take_length(text.len())?;
            text.chars().count() as u64
        }
        Value::Range(start, stop, step) => range_length(*start, *stop, *step),
        other => return Err(Refused::wrong(format!("a value of type {} has no items", other.kind()))),
    };
    let place = if at < 0 { i128::from(length) + i128::from(at) } else { i128::from(at) };
    let place = u64::try_from(place).ok().filter(|place| *place < length);
    let place =
        place.ok_or_else(|| Refused::wrong(format!("there are only {length} items, so no item {at}")))?;
    Ok(match of {
        Value::List(values) | Value::Tuple(values) => values[place as usize].clone(),
        Value::Str(text) => Value::text(text.chars().nth(place as usize).unwrap_or_default().to_string()),
        Value::Range(start, _, step) => {
            Value::Int((i128::from(*start) + i128::from(place) * i128::from(*step)) as i64)
        }
        other => other.clone(),
    })
}

/// A part of a list, tuple, text or range.
///
/// # Errors
/// When it has no parts.
pub(super) fn slice(of: &Value, bounds: [Option<i64>; 3], steps: &mut Steps) -> Result<Value, Refused> {
    let (values, length) = match of {
        Value::Range(start, stop, step) => (Vec::new(), i128::from(range_length(*start, *stop, *step))),
        Value::List(_) | Value::Tuple(_) | Value::Str(_) => {
            let values = iterate(of, steps)?;
            let length = values.len() as i128;
            (values, length)
        }
        other => return Err(Refused::wrong(format!("a value of type {} has no parts", other.kind()))),
    };
    let step = i128::from(bounds[2].unwrap_or(1));
    if step == 0 {
        return Err(Refused::wrong("a step of zero"));
    }
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |bound: Option<i64>, default: i128| match bound {
        None => default,
        Some(at) if at < 0 => (i128::from(at) + length).clamp(lowest, highest),
        Some(at) => i128::from(at).clamp(lowest, highest),
    };
    let (first, last) = if step > 0 { (0, length) } else { (length - 1, -1) };
    let (mut at, end) = (bound(bounds[0], first), bound(bounds[1], last));
    if let Value::Range(start, _, by) = of {
        let place =
            |at: i128| i64::try_from(i128::from(*start) + at * i128::from(*by)).map_err(|_| too_large());
        let step = i64::try_from(step * i128::from(*by)).map_err(|_| too_large())?;
        return Ok(Value::Range(place(at)?, place(end)?, step));
    }
    let mut kept = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        kept.push(values[at as usize].clone());
        at += step;
    }
    Ok(match of {
        Value::Tuple(_) => Value::tuple(kept),
        Value::Str(_) => Value::text(kept.iter().map(Value::str).collect::<String>()),
        _ => Value::list(kept),
    })
}
