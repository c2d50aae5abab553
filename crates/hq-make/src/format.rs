//! Templates with fields in braces, as Python's `str.format` has them: `{a}`, `{a[k]}`, `{a.b}`, `{a!r}`, `{a:03d}`,
//! and doubled braces for braces.

mod number;
mod spec;

use std::sync::Arc;

use crate::limits::TEXT_BYTES_MAX;
use crate::problem::did_you_mean;
use crate::value::Value;

pub(crate) use number::float_repr;
pub(crate) use spec::{NumberKind, Spec, apply};

/// A text with fields.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub pieces: Vec<Piece>,
}

/// A part of a template.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Literal(String),
    Field(Field),
}

/// What stands between two braces.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub path: Vec<Access>,
    pub conversion: Option<char>,
    /// The format, with fields of its own perhaps.
    pub spec: Arc<Template>,
    /// Where its brace stands in the text, in bytes.
    pub at: usize,
}

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    Attribute(String),
    Item(String),
}

/// Why a text is no template, or could not be filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FormatError {
    /// Where, in bytes.
    pub at: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl FormatError {
    fn new(at: usize, message: impl Into<String>) -> FormatError {
        FormatError { at, message: message.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> FormatError {
        FormatError { hint: Some(hint.into()), ..self }
    }
}

/// What the fields of a template may name.
pub(crate) trait Scope {
    /// The value of a name.
    fn get(&self, name: &str) -> Option<Value>;
    /// All names.
    fn names(&self) -> Vec<String>;
}

/// How deep formats may have fields in them: that of `str.format`.
const DEPTH: usize = 2;
const DOUBLE: &str = "double literal braces: `{{` and `}}`";

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// When a brace is alone, or a field is none.
    pub(crate) fn parse(text: &str) -> Result<Template, FormatError> {
        parse_at(text, 0, DEPTH)
    }

    /// A text without fields.
    pub(crate) fn literal(text: &str) -> Template {
        Template { pieces: vec![Piece::Literal(text.to_owned())] }
    }

    /// The fields, those of formats included.
    pub(crate) fn fields(&self) -> Vec<&Field> {
        let mut all = Vec::new();
        for piece in &self.pieces {
            if let Piece::Field(field) = piece {
                all.push(field);
                all.extend(field.spec.fields());
            }
        }
        all
    }

    /// The text, if there are no fields.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match &self.pieces[..] {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Fills in all fields.
    ///
    /// # Errors
    /// When a field is not known, or its value cannot be written as its format says.
    pub(crate) fn expand(&self, scope: &dyn Scope) -> Result<String, FormatError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Field(field) => field.expand_into(scope, &mut text)?,
            }
            if text.len() > TEXT_BYTES_MAX {
                return Err(FormatError::new(
                    0,
                    format!("the text would be longer than {TEXT_BYTES_MAX} bytes"),
                ));
            }
        }
        Ok(text)
    }
}

impl Field {
    /// As it is written, without its format.
    pub(crate) fn shown(&self) -> String {
        let mut shown = self.name.clone();
        for access in &self.path {
            match access {
                Access::Attribute(name) => shown += &format!(".{name}"),
                Access::Item(key) => shown += &format!("[{key}]"),
            }
        }
        shown
    }

    fn expand_into(&self, scope: &dyn Scope, to: &mut String) -> Result<(), FormatError> {
        let Some(mut value) = scope.get(&self.name) else { return Err(self.unknown(scope)) };
        // A file of a rule, which most fields are.
        if let (Value::Files(files), [Access::Item(key)], None, Some("")) =
            (&value, &self.path[..], self.conversion, self.spec.as_literal())
            && let Some(text) = files.get(key)
        {
            to.push_str(text);
            return Ok(());
        }
        for access in &self.path {
            value = part(&value, access)
                .map_err(|message| FormatError::new(self.at, format!("`{{{}}}`: {message}", self.shown())))?;
        }
        let value = match self.conversion {
            None => value,
            Some('s') => Value::text(value.str()),
            Some('r') => Value::text(value.repr()),
            Some(_) => Value::text(ascii(&value.repr())),
        };
        let spec = match self.spec.as_literal() {
            Some("") => {
                value.write_str(to);
                return Ok(());
            }
            Some(spec) => spec.to_owned(),
            None => self.spec.expand(scope)?,
        };
        let formatted = Spec::parse(&spec).and_then(|spec| apply(&value, &spec));
        formatted
            .map(|text| to.push_str(&text))
            .map_err(|message| FormatError::new(self.at, format!("`{{{}:{spec}}}`: {message}", self.shown())))
    }

    fn unknown(&self, scope: &dyn Scope) -> FormatError {
        let error = FormatError::new(self.at, format!("`{{{}}}` is not known here", self.shown()));
        if self.name.is_empty() || self.name.bytes().all(|byte| byte.is_ascii_digit()) {
            return error.hint(DOUBLE);
        }
        let names = scope.names();
        let there = if names.is_empty() {
            "there are no names here".to_owned()
        } else {
            format!("the names here are {}", names.join(", "))
        };
        match did_you_mean(&self.name, names.iter().map(String::as_str)) {
            Some(meant) => error.hint(format!("{meant} {there}")),
            None => error.hint(format!("{there}; {DOUBLE}")),
        }
    }
}

/// A part of a value.
fn part(value: &Value, access: &Access) -> Result<Value, String> {
    match (value, access) {
        (Value::Files(files), Access::Item(key)) => match files.get(key) {
            Some(text) => Ok(Value::text(text)),
            None => {
                let keys: Vec<&str> = files.by_key.iter().map(|(key, _)| &**key).collect();
                let keys = if keys.is_empty() {
                    "there are none".to_owned()
                } else {
                    format!("the keys are {}", keys.join(", "))
                };
                Err(format!("there is no key `{key}`; {keys}"))
            }
        },
        (Value::Dict(pairs), Access::Item(key) | Access::Attribute(key)) => {
            let found = pairs.iter().find(|(known, _)| known.str() == *key);
            let keys = || pairs.iter().map(|(key, _)| key.str()).collect::<Vec<_>>().join(", ");
            found
                .map(|(_, value)| value.clone())
                .ok_or_else(|| format!("there is no key `{key}`; the keys are {}", keys()))
        }
        (Value::List(values) | Value::Tuple(values), Access::Item(index)) => {
            let at: usize = index.parse().map_err(|_| format!("`{index}` is not an item index"))?;
            values
                .get(at)
                .cloned()
                .ok_or_else(|| format!("there are {} items, counted from 0, so no item {at}", values.len()))
        }
        (Value::Str(text), Access::Item(index)) => {
            let at: usize = index.parse().map_err(|_| format!("a text has no key `{index}`"))?;
            let char = text.chars().nth(at).map(|char| Value::text(char.to_string()));
            char.ok_or_else(|| format!("the text `{text}` has no character {at}"))
        }
        (Value::Int(int), Access::Attribute(name)) if name == "real" || name == "numerator" => {
            Ok(Value::Int(*int))
        }
        (Value::Int(_), Access::Attribute(name)) if name == "imag" => Ok(Value::Int(0)),
        (Value::Int(_), Access::Attribute(name)) if name == "denominator" => Ok(Value::Int(1)),
        (value, Access::Item(key)) => Err(format!("a value of type {} has no `[{key}]`", value.kind())),
        (value, Access::Attribute(name)) => Err(format!("a value of type {} has no `.{name}`", value.kind())),
    }
}

fn ascii(text: &str) -> String {
    let mut plain = String::new();
    for char in text.chars() {
        match char as u32 {
            0..=0x7f => plain.push(char),
            code @ 0x80..=0xff => plain += &format!("\\x{code:02x}"),
            code @ 0x100..=0xffff => plain += &format!("\\u{code:04x}"),
            code => plain += &format!("\\U{code:08x}"),
        }
    }
    plain
}

fn parse_at(text: &str, offset: usize, depth: usize) -> Result<Template, FormatError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let Some(brace) = rest.find(['{', '}']) else {
            literal.push_str(rest);
            break;
        };
        literal.push_str(&rest[..brace]);
        at += brace;
        let is_open = bytes[at] == b'{';
        if bytes.get(at + 1) == Some(&bytes[at]) {
            literal.push(char::from(bytes[at]));
            at += 2;
            continue;
        }
        if !is_open {
            return Err(FormatError::new(offset + at, "a `}` without its `{`").hint(DOUBLE));
        }
        if depth == 0 {
            return Err(FormatError::new(offset + at, "a field in the format of a field in a format"));
        }
        let (field, length) = parse_field(&text[at..], offset + at, depth)?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Field(field));
        at += length;
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(Template { pieces })
}

// A field from its brace on, and how many bytes it has with both braces.
fn parse_field(text: &str, at: usize, depth: usize) -> Result<(Field, usize), FormatError> {
    let open = || FormatError::new(at, "a `{` without its `}`").hint(DOUBLE);
    let bytes = text.as_bytes();
    let mut end = 1;
    let mut in_bracket = false;
    loop {
        match bytes.get(end) {
            None => return Err(open()),
            Some(b'{') => {
                return Err(FormatError::new(at, "a `{` within the name of a field").hint(DOUBLE));
            }
            Some(b'[') => in_bracket = true,
            Some(b']') => in_bracket = false,
            Some(b'}' | b':' | b'!') if !in_bracket => break,
            Some(_) => (),
        }
        end += 1;
    }
    let (name, path) = parse_name(&text[1..end]).map_err(|message| {
        FormatError::new(at, format!("`{{{}}}`: {message}", &text[1..end])).hint(DOUBLE)
    })?;
    let mut conversion = None;
    if bytes[end] == b'!' {
        let char = text[end + 1..].chars().next().ok_or_else(open)?;
        if !matches!(char, 'r' | 's' | 'a') {
            let message = format!("`!{char}` is not a conversion: use !s, !r or !a");
            return Err(FormatError::new(at, message).hint(DOUBLE));
        }
        conversion = Some(char);
        end += 2;
        match bytes.get(end) {
            Some(b':' | b'}') => (),
            None => return Err(open()),
            Some(_) => {
                return Err(
                    FormatError::new(at, format!("`!{char}` is followed by `:` or `}}`")).hint(DOUBLE)
                );
            }
        }
    }
    let mut spec = Template { pieces: Vec::new() };
    if bytes[end] == b':' {
        let start = end + 1;
        let mut open_braces = 1;
        loop {
            end += 1;
            match bytes.get(end) {
                None => return Err(open()),
                Some(b'{') => open_braces += 1,
                Some(b'}') => open_braces -= 1,
                Some(_) => (),
            }
            if open_braces == 0 {
                break;
            }
        }
        spec = parse_at(&text[start..end], at + start, depth - 1)?;
    }
    Ok((Field { name, path, conversion, spec: Arc::new(spec), at }, end + 1))
}

fn parse_name(text: &str) -> Result<(String, Vec<Access>), String> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let name = text[..end].to_owned();
    let mut path = Vec::new();
    let mut rest = &text[end..];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err("nothing follows the dot".to_owned());
            }
            path.push(Access::Attribute(after[..end].to_owned()));
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').ok_or("a `[` without its `]`")?;
            if end == 0 {
                return Err("there is nothing between the brackets".to_owned());
            }
            path.push(Access::Item(after[..end].to_owned()));
            rest = &after[end + 1..];
        } else {
            return Err("only a dot or a bracket may follow a bracket".to_owned());
        }
    }
    Ok((name, path))
}

#[cfg(test)]
mod tests;
