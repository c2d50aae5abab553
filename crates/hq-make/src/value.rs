//! Values as Python has them: what YAML holds, what loops go through, what is put into templates.

use std::fmt::Write;
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number; larger ones are refused.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Str(Arc<str>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A tuple.
    Tuple(Arc<Vec<Value>>),
    /// A mapping, in its order.
    Dict(Arc<Vec<(Value, Value)>>),
    /// A set, in the order in which it was filled.
    Set(Arc<Vec<Value>>),
    /// `range(start, stop, step)`.
    Range(i64, i64, i64),
    /// Files of a rule, as they are written in a script.
    Files(Arc<Files>),
}

/// Files of a rule by key, each text ready for a shell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    /// For each key the files, with blanks between.
    pub by_key: Vec<(Arc<str>, String)>,
}

impl Files {
    /// All of them.
    pub fn all(&self) -> String {
        self.by_key.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Those of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.by_key.iter().find(|(known, _)| **known == *key).map(|(_, text)| text.as_str())
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Str(text.into())
    }

    /// A list.
    pub fn list(values: Vec<Value>) -> Value {
        Value::List(Arc::new(values))
    }

    /// A tuple.
    pub fn tuple(values: Vec<Value>) -> Value {
        Value::Tuple(Arc::new(values))
    }

    /// A mapping.
    pub fn dict(pairs: Vec<(Value, Value)>) -> Value {
        Value::Dict(Arc::new(pairs))
    }

    /// What Python calls its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Dict(_) => "dict",
            Value::Set(_) => "set",
            Value::Range(..) => "range",
            Value::Files(_) => "files",
        }
    }

    /// What Python's `str()` prints.
    pub fn str(&self) -> String {
        match self {
            Value::Str(text) => text.to_string(),
            Value::Files(files) => files.all(),
            _ => self.repr(),
        }
    }

    /// The same, at the end of a text.
    pub fn write_str(&self, to: &mut String) {
        match self {
            Value::Str(text) => to.push_str(text),
            _ => self.write_repr(to),
        }
    }

    /// What Python's `repr()` prints.
    pub fn repr(&self) -> String {
        let mut text = String::new();
        self.write_repr(&mut text);
        text
    }

    // Values are as deep as a file or an expression is nested, which is bounded.
    fn write_repr(&self, to: &mut String) {
        match self {
            Value::None => to.push_str("None"),
            Value::Bool(true) => to.push_str("True"),
            Value::Bool(false) => to.push_str("False"),
            Value::Int(int) => write(to, int),
            Value::Float(float) => to.push_str(&crate::format::float_repr(*float)),
            Value::Str(text) => write_str_repr(text, to),
            Value::List(values) => between(to, "[", values, "]"),
            Value::Tuple(values) if values.len() == 1 => {
                to.push('(');
                values[0].write_repr(to);
                to.push_str(",)");
            }
            Value::Tuple(values) => between(to, "(", values, ")"),
            Value::Set(values) if values.is_empty() => to.push_str("set()"),
            Value::Set(values) => between(to, "{", values, "}"),
            Value::Dict(pairs) => {
                to.push('{');
                for (number, (key, value)) in pairs.iter().enumerate() {
                    to.push_str(if number > 0 { ", " } else { "" });
                    key.write_repr(to);
                    to.push_str(": ");
                    value.write_repr(to);
                }
                to.push('}');
            }
            Value::Range(start, stop, 1) => write(to, &format_args!("range({start}, {stop})")),
            Value::Range(start, stop, step) => write(to, &format_args!("range({start}, {stop}, {step})")),
            Value::Files(files) => to.push_str(&files.all()),
        }
    }
}

fn write(to: &mut String, what: &dyn std::fmt::Display) {
    let _ = write!(to, "{what}");
}

fn between(to: &mut String, open: &str, values: &[Value], close: &str) {
    to.push_str(open);
    for (number, value) in values.iter().enumerate() {
        to.push_str(if number > 0 { ", " } else { "" });
        value.write_repr(to);
    }
    to.push_str(close);
}

fn write_str_repr(text: &str, to: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    to.push(quote);
    for char in text.chars() {
        match char {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            char if char == quote => {
                to.push('\\');
                to.push(char);
            }
            char if (char as u32) < 0x20 || (0x7f..0xa1).contains(&(char as u32)) || char == '\u{ad}' => {
                write(to, &format_args!("\\x{:02x}", char as u32));
            }
            char => to.push(char),
        }
    }
    to.push(quote);
}
