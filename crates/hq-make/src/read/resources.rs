//! Reads what a rule asks for: resource sets, times, retries.

use std::sync::Arc;
use std::time::Duration;

use hq_model::{AmountRequest, duration as durations, request};

use crate::makefile::Member;
use crate::plan::Resources;
use crate::problem::{Place, Problem, did_you_mean};
use crate::value::Value;

const KEYS: [&str; 6] = ["time", "nrs", "cpu", "gpu", "ranks", "mem"];
/// What users of hq write, and what it is called here.
const ALSO_CALLED: [(&str, &str); 4] =
    [("cpus", "cpu"), ("gpus", "gpu"), ("rank", "ranks"), ("memory", "mem")];

/// What a rule asks for, where no field is in it.
///
/// # Errors
/// When a value cannot be.
pub(super) fn fixed(entries: &[(Arc<str>, Member)]) -> Result<Option<Resources>, Problem> {
    let mut values = Vec::new();
    let mut is_fixed = true;
    for (key, member) in entries {
        if let Some((_, meant)) = ALSO_CALLED.iter().find(|(other, _)| *other == &**key) {
            let message = format!("`{key}` of `resource` is called `{meant}` here");
            return Err(Problem::bad(member.place(), message));
        }
        if !KEYS.contains(&&**key) {
            request::check_name(key).map_err(|error| Problem::bad(member.place(), error.to_string()))?;
        }
        match member {
            Member::Text(text) if text.template.as_literal().is_none() => is_fixed = false,
            Member::Text(text) => {
                let literal = text.template.as_literal().unwrap_or_default();
                values.push((key.clone(), Value::text(literal), member.place()));
            }
            Member::Plain(value, place) => values.push((key.clone(), value.clone(), place.clone())),
            Member::List(_, place) | Member::Map(_, place) => {
                return Err(Problem::bad(place.clone(), format!("`{key}` of `resource` is one value")));
            }
        }
    }
    let read = resources(&values)?;
    Ok(is_fixed.then_some(read))
}

/// What a rule asks for.
///
/// # Errors
/// When a value cannot be.
pub(crate) fn resources(values: &[(Arc<str>, Value, Place)]) -> Result<Resources, Problem> {
    let mut read = Resources::default();
    let mut cpu = None;
    for (key, value, place) in values {
        match &**key {
            _ if *value == Value::None => (),
            "time" => read.time = Some(duration(value, place, "time")?),
            "nrs" => read.nrs = count(value, place, key, 1)?,
            "ranks" => read.ranks = count(value, place, key, 1)?,
            "cpu" => cpu = Some(count(value, place, key, 0)?),
            "gpu" => read.gpu = count(value, place, key, 0)?,
            name => {
                let text = value.str();
                let amount = request::parse_amount(name, &text).map_err(|error| {
                    Problem::bad(place.clone(), format!("`{name}: {text}`: {error}"))
                        .maybe_hint(did_you_mean(name, KEYS))
                })?;
                let is_nothing = matches!(amount, AmountRequest::Some(amount, _) if amount.0 == 0);
                match name {
                    _ if is_nothing => (),
                    "mem" => read.mem = Some(amount),
                    _ => read.others.push((name.to_owned(), amount)),
                }
            }
        }
    }
    read.cpu = cpu.unwrap_or(read.ranks);
    Ok(read)
}

fn count(value: &Value, place: &Place, key: &str, least: i64) -> Result<u32, Problem> {
    let number = match value {
        Value::Int(int) => Some(*int),
        Value::Float(float) if float.fract() == 0.0 => Some(*float as i64),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    };
    let most = i64::from(u32::MAX);
    number
        .filter(|number| (least..=most).contains(number))
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| {
            let message = format!("`{key}: {}`: use a whole number of at least {least}", value.str());
            Problem::bad(place.clone(), message)
        })
}

// A time: a number is minutes, a text with units is what every duration of hq is.
fn duration(value: &Value, place: &Place, key: &str) -> Result<Duration, Problem> {
    let minutes = match value {
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    };
    let seconds = match (minutes, value) {
        (Some(minutes), _) => Some(minutes * 60.0),
        (None, Value::Str(text)) if !text.contains(':') => {
            durations::parse(text).ok().map(|time| time.as_secs_f64())
        }
        _ => None,
    };
    let longest = 1000.0 * 366.0 * 86_400.0;
    match seconds {
        Some(seconds) if (0.0..=longest).contains(&seconds) => {
            Ok(Duration::from_micros((seconds * 1e6).round() as u64))
        }
        _ => {
            let message = format!("`{key}: {}`: use minutes, for example 90 or 1.5", value.str());
            Err(Problem::bad(place.clone(), message).hint("with units, you can also write `1h 30m`"))
        }
    }
}

/// When a run is ended.
///
/// # Errors
/// When it is no time, or nothing could run within it.
pub(crate) fn time_limit(value: &Value, place: &Place) -> Result<Duration, Problem> {
    let limit = duration(value, place, "time_limit")?;
    if limit.is_zero() {
        let message = format!("`time_limit: {}`: nothing can end within that time", value.str());
        return Err(Problem::bad(place.clone(), message).hint("without `time_limit`, nothing is ended"));
    }
    Ok(limit)
}

/// How often a run is tried again.
///
/// # Errors
/// When it is no number.
pub(crate) fn retry(value: &Value, place: &Place) -> Result<u32, Problem> {
    count(value, place, "retry", 0)
}
