//! What a plain word in YAML is, as PyYAML has it: rules and targets were written for that.
//!
//! So `yes`, `on` and `True` are true, `010` is eight, `1:30` is ninety, and `1e3` is a text.

use granit_parser::Tag;

use crate::value::Value;

/// The value of a scalar.
///
/// # Errors
/// When it does not fit its tag, or is a number larger than ours.
pub(super) fn value(text: &str, is_plain: bool, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return if is_plain { plain(text) } else { Ok(Value::text(text)) };
    };
    if tag.handle() == "" && tag.suffix() == "!" || tag.original() == "!" {
        return Ok(Value::text(text));
    }
    let misfit = || format!("`{text}` does not fit its tag `{}`", tag.original());
    match tag.core_suffix() {
        Some("str") => Ok(Value::text(text)),
        Some("null") => Ok(Value::None),
        Some("bool") => boolean(text).map(Value::Bool).ok_or_else(misfit),
        Some("int") => integer(text)?.map(Value::Int).ok_or_else(misfit),
        Some("float") => {
            let whole = integer(text)?.map(|int| int as f64);
            float(text).or(whole).or_else(|| text.parse().ok()).map(Value::Float).ok_or_else(misfit)
        }
        _ => Err(format!("the tag `{}` is not known here", tag.original())),
    }
}

fn plain(text: &str) -> Result<Value, String> {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Ok(Value::None);
    }
    if let Some(is) = boolean(text) {
        return Ok(Value::Bool(is));
    }
    if let Some(int) = integer(text)? {
        return Ok(Value::Int(int));
    }
    Ok(float(text).map_or_else(|| Value::text(text), Value::Float))
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

// [-+]?0b[0-1_]+ | [-+]?0[0-7_]+ | [-+]?(?:0|[1-9][0-9_]*) | [-+]?0x[0-9a-fA-F_]+ | [-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+
fn integer(text: &str) -> Result<Option<i64>, String> {
    let (is_negative, rest) = sign(text);
    let of = |digits: &str, radix: u32| -> Option<Result<i128, ()>> {
        let fits = !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix));
        let digits = digits.replace('_', "");
        fits.then(|| {
            i128::from_str_radix(if digits.is_empty() { "0" } else { &digits }, radix).map_err(|_| ())
        })
    };
    let number = if let Some(digits) = rest.strip_prefix("0b") {
        of(digits, 2)
    } else if let Some(digits) = rest.strip_prefix("0x") {
        of(digits, 16)
    } else if rest == "0" {
        Some(Ok(0))
    } else if let Some(digits) = rest.strip_prefix('0') {
        of(digits, 8)
    } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
        match rest.split_once(':') {
            None => of(rest, 10),
            Some(_) => sixties(rest),
        }
    } else {
        None
    };
    match number {
        None => Ok(None),
        Some(number) => number
            .ok()
            .map(|number| if is_negative { -number } else { number })
            .and_then(|number| i64::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| format!("the number {text} is larger than {}; use quotes for a string", i64::MAX)),
    }
}

fn sixties(text: &str) -> Option<Result<i128, ()>> {
    let mut parts = text.split(':');
    let first = parts.next()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !is_number(first) {
        return None;
    }
    let mut total: Result<i128, ()> = first.replace('_', "").parse().map_err(|_| ());
    for part in parts {
        let is_below = part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit());
        let digit: i128 = part.parse().ok().filter(|digit| is_below && *digit < 60)?;
        total = total.and_then(|total: i128| total.checked_mul(60).ok_or(())).map(|total| total + digit);
    }
    Some(total)
}

// [-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)? | [-+]?\.[0-9][0-9_]*(?:[eE][-+][0-9]+)? | sixties with a fraction
// | [-+]?\.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
fn float(text: &str) -> Option<f64> {
    let (is_negative, rest) = sign(text);
    let signed = |number: f64| Some(if is_negative { -number } else { number });
    match rest {
        ".inf" | ".Inf" | ".INF" => return signed(f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if text == rest => return Some(f64::NAN),
        _ => (),
    }
    let (whole, fraction) = rest.split_once('.')?;
    let (fraction, exponent) = match fraction.find(['e', 'E']) {
        Some(at) => (&fraction[..at], &fraction[at + 1..]),
        None => (fraction, "+0"),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let has_power = exponent.len() > 1
        && exponent.starts_with(['+', '-'])
        && exponent[1..].bytes().all(|byte| byte.is_ascii_digit());
    let starts_well = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if whole.contains(':') {
        let minutes = sixties(whole)?.ok()?;
        let fits = digits(fraction) && exponent == "+0" && !rest.contains(['e', 'E']);
        let below: f64 = format!("0.{}", fraction.replace('_', "")).parse().ok().filter(|_| fits)?;
        return signed(minutes as f64 + below);
    }
    let is_number = has_power
        && digits(whole)
        && digits(fraction)
        && (starts_well(whole) || whole.is_empty() && starts_well(fraction));
    if !is_number {
        return None;
    }
    let text = format!("{}.{}e{exponent}", if whole.is_empty() { "0" } else { whole }, fraction);
    signed(text.replace('_', "").replace(".e", ".0e").parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: &str) {
        let read =
            plain(text).map_or_else(|error| error, |value| format!("{} {}", value.kind(), value.str()));
        assert_eq!(read, value, "{text}");
    }

    // What PyYAML 6 makes of each.
    #[test]
    fn plain_words_are_what_pyyaml_makes_of_them() {
        for (text, is) in [
            ("", "NoneType None"),
            ("~", "NoneType None"),
            ("null", "NoneType None"),
            ("yes", "bool True"),
            ("Off", "bool False"),
            ("y", "str y"),
            ("tRue", "str tRue"),
            ("7", "int 7"),
            ("-7", "int -7"),
            ("+1_000", "int 1000"),
            ("010", "int 8"),
            ("08", "str 08"),
            ("0x1F", "int 31"),
            ("0b101", "int 5"),
            ("0o17", "str 0o17"),
            ("1:30", "int 90"),
            ("1:30:00", "int 5400"),
            ("1:99", "str 1:99"),
            ("190:20:30", "int 685230"),
            ("1.5", "float 1.5"),
            ("1.", "float 1.0"),
            (".5", "float 0.5"),
            ("1e3", "str 1e3"),
            ("1.0e3", "str 1.0e3"),
            ("1.0e+3", "float 1000.0"),
            ("1.5e-3", "float 0.0015"),
            ("-.inf", "float -inf"),
            (".nan", "float nan"),
            ("1:30.5", "float 90.5"),
            ("2024-01-31", "str 2024-01-31"),
            ("1-2", "str 1-2"),
            (".", "str ."),
            ("1.2.3", "str 1.2.3"),
            ("9223372036854775807", "int 9223372036854775807"),
            (
                "9223372036854775808",
                "the number 9223372036854775808 is larger than 9223372036854775807; use quotes for a string",
            ),
        ] {
            check(text, is);
        }
    }
}
