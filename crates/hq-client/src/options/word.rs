//! Values of job files that can be written in several ways. What is none of them is refused with the value and with what it
//! may be.

use std::fmt::{self, Display, Formatter};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A number, or a text as on the command line.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Word::Whole(number) => number.fmt(f),
            Word::Number(number) => number.fmt(f),
            Word::Text(text) => text.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Word;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word::Whole(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
                Ok(i64::try_from(number).map_or(Word::Number(number as f64), Word::Whole))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Word, E> {
                Ok(Word::Number(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// What a task reads: a text, or bytes one by one.
pub(super) struct Stdin(Vec<u8>);

impl Stdin {
    /// Its bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Stdin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stdin, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Stdin;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a list of bytes as numbers from 0 to 255")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Stdin, E> {
                Ok(Stdin(text.as_bytes().to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Stdin, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element::<u8>()? {
                    bytes.push(byte);
                }
                Ok(Stdin(bytes))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One text, or several.
#[derive(Clone, Debug)]
pub(super) enum Texts {
    One(String),
    Several(Vec<String>),
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Texts;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    texts.push(text);
                }
                Ok(Texts::Several(texts))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Line<T> {
        key: T,
    }

    fn refused<T: DeserializeOwned + fmt::Debug>(line: &str) -> String {
        toml::from_str::<Line<T>>(line).expect_err(line).to_string()
    }

    impl fmt::Debug for Stdin {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    #[test]
    fn what_is_none_of_the_ways_is_told_with_what_it_may_be() {
        for (error, what) in [
            (refused::<Word>("key = [1]"), "expected a number or a string"),
            (refused::<Word>("key = true"), "invalid type: boolean `true`, expected a number or a string"),
            (
                refused::<Texts>("key = 5"),
                "invalid type: integer `5`, expected a string, or a list of strings",
            ),
            (refused::<Texts>("key = [\"a\", 5]"), "invalid type: integer `5`, expected a string"),
            (
                refused::<Stdin>("key = true"),
                "expected a string, or a list of bytes as numbers from 0 to 255",
            ),
            (refused::<Stdin>("key = [256]"), "256"),
        ] {
            assert!(error.contains(what) && error.contains("key = "), "{error}");
        }
    }

    #[test]
    fn all_ways_are_read() {
        let word = |text: &str| toml::from_str::<Line<Word>>(text).expect(text).key.to_string();
        assert_eq!(["key = 1", "key = 0.5", "key = \"2m\""].map(word), ["1", "0.5", "2m"]);
        let json = serde_json::from_str::<Line<Word>>(r#"{"key": 18446744073709551615}"#).expect("a number");
        assert_eq!(json.key.to_string(), "18446744073709552000");
        let bytes = |text: &str| toml::from_str::<Line<Stdin>>(text).expect(text).key.into_bytes();
        assert_eq!(["key = \"ab\"", "key = [97, 98]"].map(bytes), [b"ab", b"ab"]);
    }
}
