//! A long text as a string of JSON, written piece by piece.

use std::io::{self, Write};

/// Turns bytes into the inside of a JSON string: what is no UTF-8 becomes U+FFFD, as `String::from_utf8_lossy` has it. Of what was
/// written, at most the beginning of a character is kept.
pub(crate) struct JsonText<'a> {
    out: &'a mut dyn Write,
    rest: Vec<u8>,
}

impl<'a> JsonText<'a> {
    /// Begins the string.
    pub(crate) fn begin(out: &'a mut dyn Write) -> io::Result<JsonText<'a>> {
        out.write_all(b"\"")?;
        Ok(JsonText { out, rest: Vec::new() })
    }

    /// Ends it.
    pub(crate) fn end(self) -> io::Result<()> {
        let end = if self.rest.is_empty() { "\"" } else { "\u{fffd}\"" };
        self.out.write_all(end.as_bytes())
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        let quoted = serde_json::to_string(text)?;
        self.out.write_all(&quoted.as_bytes()[1..quoted.len() - 1])
    }
}

impl Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut left = &all[..];
        for chunk in all.utf8_chunks() {
            self.put(chunk.valid())?;
            left = &left[chunk.valid().len()..];
            let invalid = chunk.invalid();
            // At the end it may go on with what comes next.
            let may_go_on = invalid.len() == left.len()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                break;
            }
            if !invalid.is_empty() {
                self.put("\u{fffd}")?;
            }
            left = &left[invalid.len()..];
        }
        self.rest = left.to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_of_any_bytes_is_the_text_of_all() {
        let all = b"plain \"quoted\"\n\t\0 \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \xff\xe2\x82 cut \xf0\x9f\x98\xe2\x82";
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let mut out = Vec::new();
                let mut text = JsonText::begin(&mut out).expect("a vector");
                for part in [&all[..first], &all[first..second], &all[second..]] {
                    text.write_all(part).expect("a vector");
                    assert!(text.rest.len() < 4);
                }
                text.end().expect("a vector");
                let expected = serde_json::to_string(&String::from_utf8_lossy(all)).expect("a text");
                assert_eq!(String::from_utf8(out).expect("a text"), expected, "{first} {second}");
            }
        }
    }
}
