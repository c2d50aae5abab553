//! What is wrong with rules and targets, and where: every message names its file, line and column.

use std::fmt;
use std::sync::Arc;

use hq_model::similar;

/// A place in one of the two files; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as it is shown in messages.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Place {
    /// The place without its column, for sentences: `rules.yaml:14`.
    pub fn line(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What the files, or an expression in them, say that cannot be.
pub const BAD_INPUT: &str = "bad-input";
/// A file is needed that is not there and that no rule makes.
pub const NO_RULE: &str = "no-rule";
/// A file could be made in two ways.
pub const AMBIGUOUS_RULE: &str = "ambiguous-rule";
/// A file is needed to make itself.
pub const RULE_CYCLE: &str = "rule-cycle";

/// Something that is wrong, for people.
///
/// `Display` prints the place and the message, then one line for each link of the chain, then the hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind it is: [`BAD_INPUT`], [`NO_RULE`], [`AMBIGUOUS_RULE`] or [`RULE_CYCLE`].
    pub code: &'static str,
    /// Where.
    pub place: Option<Place>,
    /// One sentence that names the thing and the value.
    pub message: String,
    /// Who asked for it: target, rule, file, from the first to the last.
    pub chain: Vec<String>,
    /// What could be done.
    pub hint: Option<String>,
}

impl Problem {
    /// Something the files say that cannot be.
    pub fn bad(place: Place, message: impl Into<String>) -> Problem {
        Problem {
            code: BAD_INPUT,
            place: Some(place),
            message: message.into(),
            chain: Vec::new(),
            hint: None,
        }
    }

    /// The same with a code of its own.
    #[must_use]
    pub fn coded(mut self, code: &'static str) -> Problem {
        self.code = code;
        self
    }

    /// The same with what could be done.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// The same with what could be done, if anything is known.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Problem {
        self.hint = hint.or(self.hint);
        self
    }

    /// The same with who asked for it.
    #[must_use]
    pub fn chain(mut self, chain: Vec<String>) -> Problem {
        self.chain = chain;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        for link in &self.chain {
            write!(f, "\n  {link}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// `did you mean …?`, where one of the names is near.
pub(crate) fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let others = names.into_iter().filter(|name| *name != word);
    // At least one letter is right.
    let near = similar::nearest(word, others).filter(|name| similar::distance(word, name) < word.len());
    near.map(|name| format!("did you mean `{name}`?"))
}
