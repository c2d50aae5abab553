//! JSON as entries of tasks have it: read once, asked by the names of fields and the places of items.
//!
//! What is printed as JSON is a part of the text, byte for byte: numbers stay as they were written. Strings may hold bytes
//! that are no UTF-8, as lines of files do.

use std::ops::Range;

use crate::ByteString;

/// How deep arrays and objects may stand in each other.
const DEPTH_MAX: usize = 128;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json {
    // Where it stands in the text.
    text: Range<usize>,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Null,
    /// A number, or a truth value.
    Scalar(&'static str),
    Text(ByteString),
    Array(Vec<Json>),
    Object(Vec<(ByteString, Json)>),
}

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {place}: {what}")]
pub struct JsonError {
    /// Where, counted from 0.
    pub place: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Why there is nothing of that name in a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotThere {
    /// An object without such a field.
    #[error("there is no field `{name}`; {}", fields(.there))]
    Field {
        /// What was asked for.
        name: String,
        /// Its fields.
        there: Vec<String>,
    },
    /// An array that is shorter, or is asked for something that is no number.
    #[error("there is no item `{name}`; {}", items(*.count))]
    Item {
        /// What was asked for.
        name: String,
        /// How many items it has.
        count: usize,
    },
    /// What has no parts.
    #[error("there is no `{name}` in {of}")]
    Part {
        /// What was asked for.
        name: String,
        /// What was asked.
        of: &'static str,
    },
}

/// Fields that are named where one is not there.
const FIELDS_NAMED: usize = 12;

fn fields(there: &[String]) -> String {
    let named: Vec<String> = there.iter().take(FIELDS_NAMED).map(|name| format!("`{name}`")).collect();
    match there.len().saturating_sub(named.len()) {
        _ if named.is_empty() => "there are none".to_owned(),
        0 => format!("there are {}", named.join(", ")),
        more => format!("there are {} and {more} more", named.join(", ")),
    }
}

fn items(count: usize) -> String {
    match count {
        0 => "there are none".to_owned(),
        1 => "there is one, 0".to_owned(),
        _ => format!("there are 0 to {}", count - 1),
    }
}

impl Json {
    /// Reads a text that holds one value.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &[u8]) -> Result<Json, JsonError> {
        let mut reader = Reader { text, at: 0 };
        let json = reader.value(0)?;
        reader.blanks();
        if reader.at < text.len() {
            Err(reader.wrong("there is something after the value"))
        } else {
            Ok(json)
        }
    }

    /// What is in it by these names and places, one after the other.
    ///
    /// # Errors
    /// Which of them is not there.
    pub fn find<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Result<&Json, NotThere> {
        let mut found = self;
        for name in path {
            found = found.part(name)?;
        }
        Ok(found)
    }

    fn part(&self, name: &str) -> Result<&Json, NotThere> {
        let none_of = |of| NotThere::Part { name: name.to_owned(), of };
        match &self.value {
            Value::Object(fields) => {
                // Of fields with one name the last one counts, as nearly everywhere.
                let found = fields.iter().rev().find(|(key, _)| key == name.as_bytes());
                found.map(|(_, value)| value).ok_or_else(|| NotThere::Field {
                    name: name.to_owned(),
                    there: fields.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect(),
                })
            }
            Value::Array(items) => {
                let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
                let place = name.parse::<usize>().ok().filter(|_| is_number);
                place
                    .and_then(|place| items.get(place))
                    .ok_or_else(|| NotThere::Item { name: name.to_owned(), count: items.len() })
            }
            Value::Null => Err(none_of("null")),
            Value::Text(_) => Err(none_of("a text")),
            Value::Scalar(what) => Err(none_of(what)),
        }
    }

    /// The value as a word: a text without its quotes, nothing for null, everything else as it stands in `text`, of which
    /// this was read.
    pub fn word<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        match &self.value {
            Value::Null => &[],
            Value::Text(word) => word,
            Value::Scalar(_) | Value::Array(_) | Value::Object(_) => {
                text.get(self.text.clone()).unwrap_or_default()
            }
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &'static str) -> JsonError {
        JsonError { place: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.blanks();
        let begin = self.at;
        if depth > DEPTH_MAX {
            return Err(self.wrong("arrays and objects are nested too deeply"));
        }
        let value = match self.peek() {
            None => return Err(self.wrong("a value is missing")),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.name()?,
        };
        Ok(Json { text: begin..self.at, value })
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Json>, JsonError> {
        self.at += 1;
        self.blanks();
        let mut items = Vec::new();
        if self.takes(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.takes(b']') {
                return Ok(items);
            }
            if !self.takes(b',') {
                return Err(self.wrong("a comma or the end of an array is missing"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Vec<(ByteString, Json)>, JsonError> {
        self.at += 1;
        self.blanks();
        let mut fields = Vec::new();
        if self.takes(b'}') {
            return Ok(fields);
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("the name of a field is missing"));
            }
            let name = self.string()?;
            self.blanks();
            if !self.takes(b':') {
                return Err(self.wrong("a colon is missing"));
            }
            fields.push((name, self.value(depth + 1)?));
            self.blanks();
            if self.takes(b'}') {
                return Ok(fields);
            }
            if !self.takes(b',') {
                return Err(self.wrong("a comma or the end of an object is missing"));
            }
        }
    }

    fn name(&mut self) -> Result<Value, JsonError> {
        let names = [
            (&b"null"[..], Value::Null),
            (b"true", Value::Scalar("a truth value")),
            (b"false", Value::Scalar("a truth value")),
        ];
        for (name, value) in names {
            if self.text[self.at..].starts_with(name) {
                self.at += name.len();
                return Ok(value);
            }
        }
        Err(self.wrong("not a value"))
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _ = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        Ok(Value::Scalar("a number"))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == begin { Err(self.wrong("a digit is missing")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<ByteString, JsonError> {
        self.at += 1;
        let mut word = ByteString::new();
        loop {
            match self.peek() {
                None => return Err(self.wrong("the end of a string is missing")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(word);
                }
                Some(b'\\') => self.escape(&mut word)?,
                Some(..0x20) => return Err(self.wrong("a control character stands in a text")),
                Some(byte) => {
                    self.at += 1;
                    word.push(byte);
                }
            }
        }
    }

    fn escape(&mut self, word: &mut ByteString) -> Result<(), JsonError> {
        let Some(letter) = self.text.get(self.at + 1).copied() else {
            return Err(self.wrong("the end of a string is missing"));
        };
        let byte = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let first = self.unit()?;
                let code = match first {
                    0xd800..0xdc00 if self.text[self.at..].starts_with(b"\\u") => {
                        let second = self.unit()?;
                        let low = second.wrapping_sub(0xdc00);
                        if low < 0x400 { 0x10000 + ((first - 0xd800) << 10) + low } else { first }
                    }
                    code => code,
                };
                let letter =
                    char::from_u32(code).ok_or_else(|| self.wrong("half of a surrogate pair is missing"))?;
                word.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.wrong("invalid escape sequence")),
        };
        self.at += 2;
        word.push(byte);
        Ok(())
    }

    // Four digits behind `\u`.
    fn unit(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at + 2..self.at + 6).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.wrong("four digits are missing"))?;
        self.at += 6;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, path: &str) -> Result<String, String> {
        let json = Json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let path = path.split('.').filter(|name| !name.is_empty());
        let found = json.find(path).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(found.word(text.as_bytes())).into_owned())
    }

    #[test]
    fn values_are_words() {
        let text = r#"{"s":"a \"b\" \u00e9\ud83d\ude00\n","n":1.50,"e":-1e400,"t":true,"z":null,"l":[1, "x",[]],"o":{"k":2}}"#;
        for (path, expected) in [
            ("s", "a \"b\" é😀\n"),
            ("n", "1.50"),
            ("e", "-1e400"),
            ("t", "true"),
            ("z", ""),
            ("l", r#"[1, "x",[]]"#),
            ("l.1", "x"),
            ("l.2", "[]"),
            ("o", r#"{"k":2}"#),
            ("o.k", "2"),
            ("", text),
        ] {
            assert_eq!(word(text, path).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(word(r#"{"a":1,"a":2}"#, "a").as_deref(), Ok("2"));
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        for (text, path, expected) in [
            (r#"{"a":1,"b":2}"#, "c", "there is no field `c`; there are `a`, `b`"),
            ("{}", "c", "there is no field `c`; there are none"),
            ("[1,2]", "2", "there is no item `2`; there are 0 to 1"),
            ("[1]", "x", "there is no item `x`; there is one, 0"),
            ("[1]", "+0", "there is no item `+0`; there is one, 0"),
            ("7", "x", "there is no `x` in a number"),
            (r#"{"a":"b"}"#, "a.b", "there is no `b` in a text"),
            ("null", "x", "there is no `x` in null"),
        ] {
            assert_eq!(word(text, path), Err(expected.to_owned()), "{text} {path}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let deep = "[".repeat(DEPTH_MAX + 2);
        for (text, expected) in [
            ("", "byte 0: a value is missing"),
            ("[1", "byte 2: a comma or the end of an array is missing"),
            ("[1,]", "byte 3: not a value"),
            (r#"{"a" 1}"#, "byte 5: a colon is missing"),
            ("{1:2}", "byte 1: the name of a field is missing"),
            ("1 2", "byte 2: there is something after the value"),
            ("01", "byte 1: there is something after the value"),
            ("1.", "byte 2: a digit is missing"),
            ("\"a", "byte 2: the end of a string is missing"),
            ("\"\\", "byte 1: the end of a string is missing"),
            ("\"a\nb\"", "byte 2: a control character stands in a text"),
            (r#""\x""#, "byte 1: invalid escape sequence"),
            (r#""\u12""#, "byte 1: four digits are missing"),
            (r#""\ud800""#, "byte 7: half of a surrogate pair is missing"),
            ("nul", "byte 0: not a value"),
            (deep.as_str(), "byte 129: arrays and objects are nested too deeply"),
        ] {
            assert_eq!(word(text, ""), Err(expected.to_owned()), "{text}");
        }
    }

    // As another reader of JSON has it.
    fn agrees(text: &str) -> Result<(), String> {
        let theirs = serde_json::from_str::<serde_json::Value>(text);
        let ours = Json::parse(text.as_bytes());
        match (&theirs, &ours) {
            (Ok(theirs), Ok(ours)) => same(theirs, ours, text),
            // It reads numbers into a form that cannot hold all of them.
            (Err(error), Ok(_)) if error.to_string().starts_with("number out of range") => Ok(()),
            (Err(_), Err(_)) => Ok(()),
            _ => Err(format!("{theirs:?} {ours:?}")),
        }
    }

    fn same(theirs: &serde_json::Value, ours: &Json, text: &str) -> Result<(), String> {
        let word = String::from_utf8_lossy(ours.word(text.as_bytes())).into_owned();
        match theirs {
            serde_json::Value::Null => assert_eq!(word, ""),
            serde_json::Value::String(theirs) => assert_eq!(&word, theirs),
            serde_json::Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    let part = ours.part(&place.to_string()).map_err(|error| error.to_string())?;
                    same(item, part, text)?;
                }
            }
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    same(value, ours.part(name).map_err(|error| error.to_string())?, text)?;
                }
            }
            serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
                let again: serde_json::Value = serde_json::from_str(&word).map_err(|e| e.to_string())?;
                assert_eq!(&again, theirs);
            }
        }
        Ok(())
    }

    proptest::proptest! {
        #[test]
        fn it_is_read_as_others_read_it(text in r#"([\[\]{},:"0-9a\.\-+eE \\nul]|true|null|"a"|"\\u00e9"|\{"k":|é){0,24}"#) {
            proptest::prop_assert_eq!(agrees(&text), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_without_harm(text: Vec<u8>) {
            if let Ok(json) = Json::parse(&text) {
                let _ = json.word(&text);
            }
        }
    }
}
