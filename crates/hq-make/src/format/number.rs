//! Numbers as Python writes them.

use super::spec::Spec;

/// Writes a whole number.
///
/// # Errors
/// When the format is not for whole numbers.
pub(super) fn int(number: i64, spec: &Spec, of: &str) -> Result<String, String> {
    let kind = spec.kind.unwrap_or('d');
    if matches!(kind, 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') {
        return float(number as f64, spec);
    }
    if spec.precision.is_some() {
        return Err("a precision is not allowed for whole numbers".to_owned());
    }
    if spec.is_zero_positive {
        return Err("`z` is not allowed for whole numbers".to_owned());
    }
    let digits = match kind {
        'c' => {
            let char = u32::try_from(number).ok().and_then(char::from_u32);
            let char = char.ok_or_else(|| format!("{number} is not a character"))?;
            if spec.sign.is_some() || spec.is_alternate {
                return Err("a character has no sign".to_owned());
            }
            let (fill, align) = fill_and_align(spec, '<');
            return Ok(spec.pad(&char.to_string(), 0, fill, if align == '=' { '>' } else { align }));
        }
        'd' | 'n' => number.unsigned_abs().to_string(),
        'b' => format!("{:b}", number.unsigned_abs()),
        'o' => format!("{:o}", number.unsigned_abs()),
        'x' => format!("{:x}", number.unsigned_abs()),
        'X' => format!("{:X}", number.unsigned_abs()),
        _ => return Err(format!("`{kind}` is not a format for a value of type {of}")),
    };
    let prefix = match kind {
        'b' | 'o' | 'x' | 'X' if spec.is_alternate => format!("0{kind}"),
        _ => String::new(),
    };
    let every = if matches!(kind, 'd' | 'n') { 3 } else { 4 };
    Ok(assemble(number < 0, &prefix, &digits, "", every, spec))
}

/// Writes a number.
///
/// # Errors
/// When the format is not for numbers.
pub(super) fn float(number: f64, spec: &Spec) -> Result<String, String> {
    let kind = spec.kind.unwrap_or(' ');
    let precision = spec.precision.unwrap_or(6);
    let size = number.abs();
    let alternate = spec.is_alternate;
    let text = match kind {
        _ if number.is_nan() => "nan".to_owned(),
        _ if number.is_infinite() => "inf".to_owned(),
        'f' | 'F' => fixed(size, precision, alternate),
        '%' => fixed(size * 100.0, precision, alternate),
        'e' | 'E' => {
            let (digits, exponent) = scientific(size, precision);
            power(&digits, exponent, alternate)
        }
        'g' | 'G' | 'n' => general(size, precision.max(1), alternate, false),
        ' ' => match spec.precision {
            Some(precision) => general(size, precision.max(1), alternate, true),
            None if alternate => keep_point(&float_repr(size)),
            None => float_repr(size),
        },
        kind => return Err(format!("`{kind}` is not a format for a value of type float")),
    };
    let text = if matches!(kind, 'E' | 'F' | 'G') { text.to_uppercase() } else { text };
    let is_zero = !text
        .chars()
        .take_while(|c| *c != 'e' && *c != 'E')
        .any(|c| matches!(c, '1'..='9' | 'n' | 'N' | 'i' | 'I'));
    let is_negative = number.is_sign_negative() && !number.is_nan() && !(spec.is_zero_positive && is_zero);
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(end);
    let rest = if kind == '%' { format!("{rest}%") } else { rest.to_owned() };
    Ok(assemble(is_negative, "", whole, &rest, 3, spec))
}

fn fill_and_align(spec: &Spec, default: char) -> (char, char) {
    let fill = spec.fill.unwrap_or(if spec.has_zero { '0' } else { ' ' });
    let align = match spec.align {
        Some(align) => align,
        None if spec.has_zero && default == '>' => '=',
        None => default,
    };
    (fill, align)
}

// Sign, prefix, digits in groups, and the rest; padded.
fn assemble(is_negative: bool, prefix: &str, digits: &str, rest: &str, every: usize, spec: &Spec) -> String {
    let sign = match spec.sign {
        _ if is_negative => "-",
        Some('+') => "+",
        Some(' ') => " ",
        _ => "",
    };
    let (fill, align) = fill_and_align(spec, '>');
    let head = format!("{sign}{prefix}");
    let digits = match spec.grouping {
        None => digits.to_owned(),
        Some(group) => {
            let is_zero_padded = fill == '0' && align == '=';
            let room = spec.width.saturating_sub(head.len() + rest.len());
            let mut count = digits.len();
            // Zeros that pad are grouped, too, so that the whole may be one wider than asked for.
            while is_zero_padded && !digits.is_empty() && count + (count - 1) / every < room {
                count += 1;
            }
            let padded = format!("{}{digits}", "0".repeat(count - digits.len()));
            let mut grouped = String::new();
            for (number, digit) in padded.chars().enumerate() {
                if number > 0 && (padded.len() - number).is_multiple_of(every) {
                    grouped.push(group);
                }
                grouped.push(digit);
            }
            grouped
        }
    };
    spec.pad(&format!("{head}{digits}{rest}"), head.len(), fill, align)
}

fn fixed(size: f64, precision: usize, keeps_point: bool) -> String {
    if size.is_infinite() {
        return "inf".to_owned();
    }
    let text = format!("{size:.precision$}");
    if keeps_point { keep_point(&text) } else { text }
}

fn keep_point(text: &str) -> String {
    if text.contains('.') {
        return text.to_owned();
    }
    let end = text.find('e').unwrap_or(text.len());
    format!("{}.{}", &text[..end], &text[end..])
}

// The digits of a number, the first before the point, and its power of ten.
fn scientific(size: f64, precision: usize) -> (String, i32) {
    split_power(&format!("{size:.precision$e}"))
}

fn split_power(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn power(digits: &str, exponent: i32, keeps_point: bool) -> String {
    let (first, others) = digits.split_at(1);
    let point = if others.is_empty() && !keeps_point { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{others}e{sign}{:02}", exponent.abs())
}

// `g`, and what is written where only a precision is given: that keeps a digit after the point.
fn general(size: f64, precision: usize, keeps_zeros: bool, keeps_digit: bool) -> String {
    let (digits, exponent) = scientific(size, precision - 1);
    let digits = if keeps_zeros { &digits[..] } else { digits.trim_end_matches('0') };
    let digits = if digits.is_empty() { "0" } else { digits };
    let point = exponent + 1;
    let most = i32::try_from(precision).unwrap_or(i32::MAX) - i32::from(keeps_digit);
    place_point(digits, point, point <= -4 || point > most, keeps_zeros, keeps_digit)
}

fn place_point(digits: &str, point: i32, is_power: bool, keeps_point: bool, keeps_digit: bool) -> String {
    if is_power {
        return power(digits, point - 1, keeps_point);
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if point <= 0 {
        format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
    } else if point >= count {
        let whole = format!("{digits}{}", "0".repeat((point - count) as usize));
        match (keeps_digit, keeps_point) {
            (true, _) => format!("{whole}.0"),
            (false, true) => format!("{whole}."),
            (false, false) => whole,
        }
    } else {
        format!("{}.{}", &digits[..point as usize], &digits[point as usize..])
    }
}

/// What Python's `repr()` prints of a number: the shortest text that is read as the same.
pub(crate) fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let (digits, exponent) = split_power(&shortest(number.abs()));
    let point = exponent + 1;
    format!("{sign}{}", place_point(&digits, point, point <= -4 || point > 16, false, true))
}

/// The shortest text with a power that is read as `number`, and of two such that are as near the one with the even last
/// digit, as Python has it. Rust leaves open which of the two it prints.
fn shortest(number: f64) -> String {
    let some = format!("{number:e}");
    let decimals = split_power(&some).0.len().saturating_sub(1);
    let nearest = format!("{number:.decimals$e}");
    if nearest.parse() == Ok(number) { nearest } else { some }
}
