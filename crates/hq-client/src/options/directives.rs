//! `#HQ` lines of a script: options that travel with it.
//!
//! Only blank lines and comments may come before and between them, and they end within the first 32 KiB.
//! Each line is split as a shell would split it, and the words of all are options.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStringExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser};
use hq_model::{IdSet, TaskId};

use super::entries::without_mark;
use super::error::OptionsError;
use super::job::WaitOptions;
use super::submit::{CommonOptions, SubmitOptions};
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
    /// Lines that look as if they had options and are not read, in words.
    pub overlooked: Vec<String>,
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
/// where such lines may be.
///
/// # Errors
/// When `#HQ` lines cannot be read, reach beyond the limit, cannot be split into words or are no options of a submit.
pub fn parse(script: &str, content: impl BufRead) -> Result<Directives, OptionsError> {
    let prologue =
        prologue(content).map_err(|source| OptionsError::Script { path: script.into(), source })?;
    if !prologue.is_within_limit {
        return Err(OptionsError::DirectivesTooLong { script: script.into() });
    }
    let args: Result<Vec<_>, _> =
        prologue.lines.iter().map(|(line, options)| split(script, *line, options)).collect();
    let options = Defaults::try_parse_from(args?.into_iter().flatten())
        .map_err(|e| OptionsError::Directive { script: script.into(), message: refused(&e) })?;
    Ok(Directives {
        common: options.common,
        wait: options.wait,
        has_lines: !prologue.lines.is_empty(),
        overlooked: prologue.overlooked(script),
        interpreter: prologue.interpreter,
        foreign: prologue.foreign,
    })
}

// What is wrong with the options of such lines. Some options of a submit mean nothing there.
fn refused(error: &clap::Error) -> String {
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else { return message(error) };
    let name = taken.split('=').next().unwrap_or_default().trim_start_matches('-');
    let submit = SubmitOptions::augment_args(clap::Command::new("submit"));
    let is_of_submit = submit.get_arguments().any(|arg| arg.get_long() == Some(name));
    match error.kind() {
        ErrorKind::UnknownArgument if is_of_submit => {
            format!("--{name} is not allowed on such a line; give it on the command line")
        }
        _ => message(error),
    }
}

// What a script says before its first command, and what looks as if it did.
#[derive(Default)]
struct Prologue {
    // The options of `#HQ` lines, by the numbers of these, from 1.
    lines: Vec<(u32, Vec<u8>)>,
    interpreter: Vec<OsString>,
    is_within_limit: bool,
    foreign: Option<&'static str>,
    // Comments that were perhaps meant for `#HQ` lines.
    similar: IdSet,
    // The first command, and the `#HQ` lines behind it.
    command: Option<u32>,
    late: IdSet,
}

impl Prologue {
    fn overlooked(&self, script: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let mut say = |lines: &IdSet, why: &str| match lines.len() {
            0 => {}
            1 => texts.push(format!("Line {lines} of {script} is ignored by hq: {why}")),
            _ => texts.push(format!("Lines {lines} of {script} are ignored by hq: {why}")),
        };
        say(&self.similar, "options must be on lines that begin with #HQ and a space");
        let command = self.command.unwrap_or_default();
        say(&self.late, &format!("#HQ lines must come before the first command, which is in line {command}"));
        texts
    }
}

fn prologue(mut content: impl BufRead) -> io::Result<Prologue> {
    let mut found = Prologue { is_within_limit: true, ..Prologue::default() };
    let mut line = Vec::new();
    let (mut end, mut number) = (0, 0);
    let mut is_new_line = true;
    loop {
        let begins_line = is_new_line;
        line.clear();
        // Of a longer line the next round reads the rest.
        end += content.by_ref().take(DIRECTIVES_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        is_new_line = line.ends_with(b"\n");
        let is_within_limit = end - usize::from(is_new_line) <= DIRECTIVES_BYTES_MAX;
        if line.is_empty() || (found.command.is_some() && !is_within_limit) {
            return Ok(found);
        }
        if !begins_line {
            continue;
        }
        number += 1;
        if number == 1 {
            found.interpreter = interpreter(without_mark(&line));
        }
        let text = without_mark(&line).trim_ascii_start();
        match directive(text) {
            Some(_) if found.command.is_some() => {
                found.late.insert(TaskId(number));
            }
            Some(options) if is_within_limit => found.lines.push((number, options.to_vec())),
            Some(_) => {
                found.is_within_limit = false;
                return Ok(found);
            }
            None => found.other_line(number, text),
        }
    }
}

impl Prologue {
    // A line that has no options.
    fn other_line(&mut self, number: u32, text: &[u8]) {
        if self.command.is_some() || text.is_empty() {
            return;
        }
        if !text.starts_with(b"#") {
            self.command = Some(number);
        } else if is_similar(text) {
            self.similar.insert(TaskId(number));
        }
        let is_begin = |prefix: &&&'static str| text.starts_with(prefix.as_bytes());
        self.foreign = self.foreign.or_else(|| FOREIGN.iter().find(is_begin).copied());
    }
}

fn directive(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"#HQ")?;
    match rest.first() {
        None | Some(b' ' | b'\t' | b'\r' | b'\n') => Some(rest.strip_suffix(b"\n").unwrap_or(rest)),
        // `#HQX` is some comment.
        Some(_) => None,
    }
}

// A comment that has options behind something like `#HQ`.
fn is_similar(comment: &[u8]) -> bool {
    let text = comment.strip_prefix(b"#").unwrap_or(comment).trim_ascii_start();
    let Some((mark, options)) = text.split_at_checked(2) else { return false };
    mark.eq_ignore_ascii_case(b"hq") && options.trim_ascii_start().starts_with(b"--")
}

// The words of one line, as a shell reads them: a `#` at the beginning of one ends the line.
fn split(script: &str, line: u32, options: &[u8]) -> Result<Vec<OsString>, OptionsError> {
    let options = options.strip_suffix(b"\r").unwrap_or(options);
    let mut shell = shlex::bytes::Shlex::new(options);
    let args: Vec<_> = shell.by_ref().map(OsString::from_vec).collect();
    match (shell.had_error, options.ends_with(b"\\")) {
        (false, _) => Ok(args),
        (true, true) => Err(OptionsError::DirectiveGoesOn { script: script.into(), line }),
        (true, false) => Err(OptionsError::DirectiveQuotes { script: script.into(), line }),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Result<Directives, String> {
        parse("s.sh", script.as_bytes()).map_err(|error| error.to_string())
    }

    fn name(script: &str) -> Option<String> {
        read(script).expect(script).common.job.name
    }

    #[test]
    fn a_comment_ends_its_own_line_only() {
        let script = "#!/bin/bash\n#HQ --name first   # what it's\n#HQ --cpus 2\n#HQ --bogus\nsleep 3\n";
        let error = read(script).expect_err("an unknown option");
        assert!(error.contains("unexpected argument '--bogus' found"), "{error}");
        let error = read(&script.replace("--bogus", "--job 1")).expect_err("an option of the command line");
        assert!(
            error.ends_with("--job is not allowed on such a line; give it on the command line"),
            "{error}"
        );
        let script = script.replace("#HQ --bogus\n", "#HQ # nothing\n#HQ --array 1-2\n");
        let found = read(&script).expect("options");
        assert_eq!(found.common.job.name.as_deref(), Some("first"));
        assert!(
            found.common.task.resources.cpus.is_some() && found.common.array.array.is_some(),
            "{found:?}"
        );
    }

    #[test]
    fn words_of_all_lines_are_options() {
        assert_eq!(name("#HQ --name\r\n#HQ 'a # b'\r\n").as_deref(), Some("a # b"));
        assert_eq!(name("#HQ --name a#b\n").as_deref(), Some("a#b"));
        assert_eq!(name("#HQ --name b\\ \n").as_deref(), Some("b "));
        assert_eq!(name("#HQ\n#HQ --name end").as_deref(), Some("end"));
    }

    #[test]
    fn what_is_left_open_names_its_line() {
        let quote = "line 2 of s.sh has an unclosed quote: each #HQ line is parsed separately";
        for line in ["#HQ --name 'x", "#HQ --name \"x", "#HQ --name it's"] {
            assert_eq!(read(&format!("#HQ --cpus 1\n{line}\n#HQ --array '1-3'\n")), Err(quote.into()));
        }
        let goes_on = "line 1 of s.sh ends with a backslash, but a #HQ line cannot continue on the next line: \
            remove the backslash, and begin the next line with #HQ as well";
        for end in ["\n", "\r\n"] {
            assert_eq!(read(&format!("#HQ --cpus 1 \\{end}#HQ --name x\n")), Err(goes_on.into()));
        }
    }

    #[test]
    fn lines_that_look_like_options_and_are_none_are_named() {
        let similar = "are ignored by hq: options must be on lines that begin with #HQ and a space";
        let late = "is ignored by hq: #HQ lines must come before the first command, which is in line";
        for (script, expected) in [
            ("#HQ--array 1-3\n# HQ --cpus 2\n#hq --name x\n", vec![format!("Lines 1-3 of s.sh {similar}")]),
            ("#HQ --cpus 1\n\necho\n# a\n#HQ --name x\n", vec![format!("Line 5 of s.sh {late} 3")]),
            ("# hq is run as\n#HQX --y\n#HQ: --x\n# --hq\n#\n#h\necho '#HQ'\n# HQ --x\n", vec![]),
        ] {
            assert_eq!(read(script).expect(script).overlooked, expected);
        }
        let far = format!("true\n{}\n#HQ --name x\n", "x".repeat(DIRECTIVES_BYTES_MAX));
        assert_eq!(read(&far).expect("no options").overlooked, [""; 0]);
    }
}
