//! What stands after the colon of a field: fill, alignment, sign, width, grouping, precision, type.

use super::number;
use crate::limits::FORMAT_WIDTH_MAX;
use crate::value::Value;

/// The longest precision: what formats numbers takes no more.
const PRECISION_MAX: usize = 10_000;

/// A format, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub fill: Option<char>,
    pub align: Option<char>,
    pub sign: Option<char>,
    pub is_zero_positive: bool,
    pub is_alternate: bool,
    pub has_zero: bool,
    pub width: usize,
    pub grouping: Option<char>,
    pub precision: Option<usize>,
    pub kind: Option<char>,
}

impl Spec {
    /// Reads a format.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn parse(text: &str) -> Result<Spec, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut spec = Spec::default();
        let mut at = 0;
        let is_align = |char: Option<&char>| matches!(char, Some('<' | '>' | '=' | '^'));
        if is_align(chars.get(1)) {
            (spec.fill, spec.align, at) = (Some(chars[0]), Some(chars[1]), 2);
        } else if is_align(chars.first()) {
            (spec.align, at) = (Some(chars[0]), 1);
        }
        if let Some(sign @ ('+' | '-' | ' ')) = chars.get(at) {
            spec.sign = Some(*sign);
            at += 1;
        }
        if chars.get(at) == Some(&'z') {
            spec.is_zero_positive = true;
            at += 1;
        }
        if chars.get(at) == Some(&'#') {
            spec.is_alternate = true;
            at += 1;
        }
        if spec.fill.is_none() && chars.get(at) == Some(&'0') {
            spec.has_zero = true;
            at += 1;
        }
        if let Some(width) = digits(&chars, &mut at, FORMAT_WIDTH_MAX)? {
            spec.width = width;
        }
        while let Some(group @ (',' | '_')) = chars.get(at) {
            if spec.grouping.is_some() {
                return Err("only one of `,` and `_` groups digits".to_owned());
            }
            spec.grouping = Some(*group);
            at += 1;
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            let precision = digits(&chars, &mut at, PRECISION_MAX)?;
            spec.precision = Some(precision.ok_or("the precision is missing after the point")?);
        }
        spec.kind = chars.get(at).copied();
        if chars.len() > at + 1 || spec.kind == Some(' ') {
            return Err(format!("`{text}` is not a format"));
        }
        match (spec.grouping, spec.kind) {
            (Some(group), Some(kind @ ('n' | 's' | 'c'))) => {
                Err(format!("`{group}` cannot be used with `{kind}`"))
            }
            (Some(','), Some(kind @ ('b' | 'o' | 'x' | 'X'))) => {
                Err(format!("`,` cannot be used with `{kind}`"))
            }
            _ => Ok(spec),
        }
    }

    /// Whether only a number can be written so.
    pub(crate) fn number_kind(&self) -> Option<NumberKind> {
        match self.kind {
            Some('b' | 'c' | 'd' | 'o' | 'x' | 'X' | 'n') => Some(NumberKind::Int),
            Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => Some(NumberKind::Float),
            None if self.precision.is_none()
                && (self.has_zero
                    || self.sign.is_some()
                    || self.align == Some('=')
                    || self.grouping.is_some()) =>
            {
                Some(NumberKind::Int)
            }
            _ => None,
        }
    }

    /// Pads a text to its width; `sign` is how many characters go before the padding of `=`.
    pub(super) fn pad(&self, text: &str, sign: usize, fill: char, align: char) -> String {
        let length = text.chars().count();
        if length >= self.width {
            return text.to_owned();
        }
        let missing = self.width - length;
        let padding = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
        match align {
            '<' => text.to_owned() + &padding(missing),
            '^' => padding(missing / 2) + text + &padding(missing - missing / 2),
            '=' => {
                let at = text.char_indices().nth(sign).map_or(text.len(), |(at, _)| at);
                text[..at].to_owned() + &padding(missing) + &text[at..]
            }
            _ => padding(missing) + text,
        }
    }
}

/// What kind of number a format is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberKind {
    Int,
    Float,
}

fn digits(chars: &[char], at: &mut usize, most: usize) -> Result<Option<usize>, String> {
    let start = *at;
    let mut number = 0;
    while let Some(digit) = chars.get(*at).and_then(|char| char.to_digit(10)) {
        number = number * 10 + digit as usize;
        if number > most {
            return Err(format!("more than {most} characters are requested"));
        }
        *at += 1;
    }
    Ok((*at > start).then_some(number))
}

/// Writes a value.
///
/// # Errors
/// When a value of its type cannot be written so.
pub(crate) fn apply(value: &Value, spec: &Spec) -> Result<String, String> {
    match value {
        Value::Str(text) => string(text, spec),
        Value::Files(files) => string(&files.all(), spec),
        Value::Int(int) => number::int(*int, spec, "int"),
        Value::Bool(is) if *spec != Spec::default() => number::int(i64::from(*is), spec, "bool"),
        Value::Float(float) => number::float(*float, spec),
        _ if *spec == Spec::default() => Ok(value.str()),
        _ => Err(format!("a value of type {} takes no format", value.kind())),
    }
}

fn string(text: &str, spec: &Spec) -> Result<String, String> {
    let not = |what: &str| Err(format!("{what} is for numbers, but this is a string"));
    match spec {
        Spec { kind: Some(kind), .. } if *kind != 's' => return not(&format!("`{kind}`")),
        Spec { sign: Some(_), .. } => return not("a sign"),
        Spec { align: Some('='), .. } => return not("`=`"),
        Spec { grouping: Some(_), .. } => return not("grouping of digits"),
        Spec { is_alternate: true, .. } => return not("`#`"),
        Spec { is_zero_positive: true, .. } => return not("`z`"),
        _ => (),
    }
    let cut: String = match spec.precision {
        Some(most) => text.chars().take(most).collect(),
        None => text.to_owned(),
    };
    let fill = spec.fill.unwrap_or(if spec.has_zero { '0' } else { ' ' });
    Ok(spec.pad(&cut, 0, fill, spec.align.unwrap_or('<')))
}
