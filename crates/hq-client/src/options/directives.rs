//! `#HQ` lines of a script: options that travel with it.
//!
//! Only blank lines and comments may come before and between them, and they end within the first 32 KiB.
//! All lines are joined and split as a shell would split them.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStringExt;

use clap::Parser;

use super::entries::without_mark;
use super::error::OptionsError;
use super::job::WaitOptions;
use super::submit::CommonOptions;
use crate::limits::DIRECTIVES_BYTES_MAX;

/// What a script says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directives {
    /// Its options.
    pub common: CommonOptions,
    /// How its submitter waits.
    pub wait: WaitOptions,
    /// The interpreter of its first line, and that one's argument if there is one.
    pub interpreter: Vec<OsString>,
    /// It has `#HQ` lines.
    pub has_lines: bool,
    /// What lines of options for a batch system begin with, if it has such lines.
    pub foreign: Option<&'static str>,
}

/// What lines of options for other programs begin with.
const FOREIGN: [&str; 5] = ["#SBATCH", "#PBS", "#BSUB", "#LSF", "#FLUX:"];

/// What may stand on `#HQ` lines, and in configuration files for what neither those nor the command line say.
#[derive(Parser, Clone, Debug, Default)]
#[command(no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
pub struct Defaults {
    #[command(flatten)]
    pub(super) common: CommonOptions,
    #[command(flatten)]
    pub(super) wait: WaitOptions,
}

impl Defaults {
    /// Of options as on a command line.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(words: &[String]) -> Result<Defaults, String> {
        Defaults::try_parse_from(words).map_err(|error| message(&error))
    }

    /// These, and what others say beside them.
    pub fn over(self, others: Defaults) -> Defaults {
        Defaults { common: self.common.over(others.common), wait: self.wait.over(others.wait) }
    }
}

/// Reads the directives of a script. `script` is its name, for errors; no more of `content` is read than up to
/// its first command.
///
/// # Errors
/// When `#HQ` lines cannot be read, reach beyond the limit, cannot be split into words or are no options of a submit.
pub fn parse(script: &str, content: impl BufRead) -> Result<Directives, OptionsError> {
    let Prologue { words, interpreter, is_within_limit, foreign } =
        prologue(content).map_err(|source| OptionsError::Script { path: script.into(), source })?;
    if !is_within_limit {
        return Err(OptionsError::DirectivesTooLong { script: script.into() });
    }
    let args = split(&words).ok_or_else(|| OptionsError::DirectiveQuotes { script: script.into() })?;
    let lines = Defaults::try_parse_from(args)
        .map_err(|e| OptionsError::Directive { script: script.into(), message: message(&e) })?;
    let has_lines = !words.is_empty();
    Ok(Directives { common: lines.common, wait: lines.wait, interpreter, has_lines, foreign })
}

// What comes before the first command of a script.
struct Prologue {
    words: Vec<u8>,
    interpreter: Vec<OsString>,
    is_within_limit: bool,
    foreign: Option<&'static str>,
}

fn prologue(mut content: impl BufRead) -> io::Result<Prologue> {
    let mut found =
        Prologue { words: Vec::new(), interpreter: Vec::new(), is_within_limit: true, foreign: None };
    let mut line = Vec::new();
    let mut end = 0;
    let mut is_new_line = true;
    loop {
        let begins_line = is_new_line;
        line.clear();
        // Of a longer line the next round reads the rest.
        end += content.by_ref().take(DIRECTIVES_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        is_new_line = line.ends_with(b"\n");
        if line.is_empty() {
            return Ok(found);
        }
        if !begins_line {
            continue;
        }
        if end == line.len() {
            found.interpreter = interpreter(without_mark(&line));
        }
        let text = without_mark(&line).trim_ascii();
        if let Some(options) = directive(text) {
            if end - usize::from(is_new_line) > DIRECTIVES_BYTES_MAX {
                found.is_within_limit = false;
                return Ok(found);
            }
            found.words.extend_from_slice(options);
            found.words.push(b' ');
        } else if !text.is_empty() && !text.starts_with(b"#") {
            return Ok(found);
        }
        let is_begin = |prefix: &&&'static str| text.starts_with(prefix.as_bytes());
        found.foreign = found.foreign.or_else(|| FOREIGN.iter().find(is_begin).copied());
    }
}

fn directive(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"#HQ")?;
    match rest.first() {
        None | Some(b' ' | b'\t') => Some(rest),
        // `#HQX` is some comment.
        Some(_) => None,
    }
}

fn split(words: &[u8]) -> Option<Vec<OsString>> {
    let mut shell = shlex::bytes::Shlex::new(words);
    let args: Vec<_> = shell.by_ref().map(OsString::from_vec).collect();
    (!shell.had_error).then_some(args)
}

fn interpreter(content: &[u8]) -> Vec<OsString> {
    let Some(rest) = content.strip_prefix(b"#!") else {
        return Vec::new();
    };
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    // The kernel passes everything after the interpreter as one argument.
    let (program, argument) = match line.iter().position(u8::is_ascii_whitespace) {
        Some(at) => (&line[..at], line[at..].trim_ascii()),
        None => (line, &[][..]),
    };
    [program, argument]
        .into_iter()
        .filter(|w| !w.is_empty())
        .map(|w| OsString::from_vec(w.to_vec()))
        .collect()
}

/// The first paragraph of clap's text, without its own prefix, usage and hints about --help.
pub fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .take_while(|l| !l.starts_with("Usage:"))
        .filter(|l| !l.is_empty())
        .collect();
    let lines: Vec<_> = lines.into_iter().filter(|l| !l.starts_with("For more information")).collect();
    lines.join("; ")
}
