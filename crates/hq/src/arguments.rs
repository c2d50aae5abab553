//! What is said of a command line that is not understood: as people can read it, or as JSON where that was asked for.

use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use hq_client::error::EXIT_USAGE;
use hq_model::{IdSet, similar};

use crate::cli::{Cli, Colors, OutputMode};
use crate::commands;
use crate::error::HqError;
use crate::render::{self, Printer, cannot_write};

/// Another option is looked for from so many letters on.
const SUGGESTED_FROM: usize = 3;

/// `hq help COMMAND` and `hq version` as the options of that name, which are answered like errors.
pub(crate) fn without_help(cli: Cli) -> Result<Cli, clap::Error> {
    let of_program = |words: Vec<String>| Cli::try_parse_from(std::iter::once("hq".to_owned()).chain(words));
    match cli.command {
        crate::cli::Command::Help { mut command } => {
            command.push("--help".to_owned());
            of_program(command)
        }
        crate::cli::Command::Version => of_program(vec!["--version".to_owned()]),
        _ => Ok(cli),
    }
}

/// Says what is wrong with what is read beside the command line.
pub(crate) fn wrong(error: &HqError) -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mode = if wants_json(before_command(&words)) { OutputMode::Json } else { OutputMode::Cli };
    render::units::set_version(version_wanted(before_command(&words)));
    Printer::new(mode, Colors::Auto).error(error);
    ExitCode::from(error.exit)
}

// The words that may be options.
fn before_command(words: &[String]) -> &[String] {
    words.get(1..).unwrap_or_default().split(|word| word == "--").next().unwrap_or_default()
}

/// Says what is wrong. Help and version are answers; everything else is an error.
pub(crate) fn refused(mut error: clap::Error) -> ExitCode {
    leave_out_hidden(&mut error);
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = before_command(&words);
    suggest_option(&mut error, words);
    render::units::set_version(version_wanted(words));
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let explained = || negative(&error, words).or_else(|| several_ids(&error, words));
    if !is_answer && wants_json(words) {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        let error = explained().unwrap_or_else(|| HqError::usage(text));
        Printer::new(OutputMode::Json, Colors::Never).error(&error);
        return ExitCode::from(EXIT_USAGE);
    }
    if !is_answer && let Some(error) = explained() {
        Printer::new(OutputMode::Cli, Colors::Auto).error(&error);
        return ExitCode::from(EXIT_USAGE);
    }
    commands::end_quietly_when_nobody_reads();
    let mut printed = error.print();
    if is_answer && !error.render().to_string().ends_with('\n') {
        printed = printed.and_then(|()| writeln!(std::io::stdout()));
    }
    if is_answer && let Err(error) = printed {
        let error = HqError::from(cannot_write(error));
        Printer::new(OutputMode::Cli, Colors::Never).error(&error);
        return ExitCode::from(error.exit);
    }
    ExitCode::from(if is_answer { 0 } else { EXIT_USAGE })
}

// Of the commands that could stand there, those that help names.
fn leave_out_hidden(error: &mut clap::Error) {
    let Some(ContextValue::String(parent)) = error.get(ContextKind::InvalidSubcommand) else { return };
    if error.get(ContextKind::ValidSubcommand).is_none() {
        return;
    }
    let parent = named_by(parent.split(' '));
    let shown = parent.get_subcommands().filter(|command| !command.is_hide_set());
    let shown = shown.map(|command| command.get_name().to_owned()).collect();
    error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
}

// The command that these words name, with options between them.
fn named_by<'a>(words: impl Iterator<Item = &'a str>) -> Command {
    let mut command = Cli::command();
    // Commands below commands are described then.
    command.build();
    for word in words {
        if let Some(below) = command.find_subcommand(word) {
            command = below.clone();
        }
    }
    command
}

// Where a command takes words of a program, an option with a typing error is not to be taken for one of these.
fn suggest_option(error: &mut clap::Error, words: &[String]) {
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    if error.get(ContextKind::SuggestedArg).is_some() {
        error.remove(ContextKind::Suggested);
        return;
    }
    let Some(name) = taken.strip_prefix("--").filter(|name| name.len() >= SUGGESTED_FROM) else { return };
    let command = named_by(words.iter().map(String::as_str));
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
    let alike = shown.filter(|option| option.as_bytes().first() == name.as_bytes().first());
    if let Some(option) = similar::nearest(name, alike) {
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{option}")));
    }
}

// What to say of a word such as `-1-3` that was taken for an option, though options have no digits in their short names.
fn negative(error: &clap::Error, words: &[String]) -> Option<HqError> {
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if error.kind() != ErrorKind::UnknownArgument || !taken.strip_prefix('-').is_some_and(is_number) {
        return None;
    }
    let word = words.iter().find(|word| word.starts_with(taken.as_str())).unwrap_or(taken);
    let text = format!("`{word}` is not a valid value: ids, counts and times cannot be negative");
    Some(HqError::usage(text).hint("if it belongs to a command to run, put -- before the command"))
}

// What to say of ids with blanks between them: to commands that take several they are one word.
fn several_ids(error: &clap::Error, words: &[String]) -> Option<HqError> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => ContextKind::InvalidValue,
        _ => return None,
    };
    let Some(ContextValue::String(wrong)) = error.get(context) else { return None };
    // Those that end in a dash or a comma were meant as such, too.
    let is_ids = |word: &String| word.trim_matches([',', '-']).parse::<IdSet>().is_ok();
    // The word that has no place is one of them, or follows them.
    let place = words.iter().position(|word| word == wrong)?;
    let end = words[place..].iter().position(|word| !is_ids(word)).map_or(words.len(), |end| place + end);
    let first = words[..end].iter().rposition(|word| !is_ids(word))? + 1;
    let ids = &words[first..end];

    let command = named_by(words[..first].iter().map(String::as_str));
    let takes: Vec<&str> = command
        .get_positionals()
        .filter_map(|arg| arg.get_value_names()?.first())
        .map(clap::builder::Str::as_str)
        .collect();
    let (job, ids) = match takes[..] {
        ["JOBS" | "WORKERS", ..] => (String::new(), ids),
        ["JOB", "TASKS", ..] => (format!("{} ", ids.first()?), ids.get(1..)?),
        _ => return None,
    };
    let is_several = ids.len() > 1;
    let ids: Vec<&str> = ids.iter().map(|word| word.trim_matches(',')).collect();
    let name = command.get_bin_name().unwrap_or("hq");
    is_several.then(|| {
        HqError::usage(format!("give several ids as one word: `{}`", ids.join(",")))
            .hint(format!("use {name} {job}{}", ids.join(",")))
    })
}

// Whether JSON was asked for, as far as it can be seen when the command line is not understood.
fn wants_json(words: &[String]) -> bool {
    let at = words.iter().rposition(|word| word.starts_with("--output-mode"));
    match at {
        Some(at) if words[at] == "--output-mode" => words.get(at + 1).is_some_and(|mode| mode == "json"),
        Some(at) => words[at] == "--output-mode=json",
        None => std::env::var_os("HQ_OUTPUT_MODE").is_some_and(|mode| mode == "json"),
    }
}

// The version of documents that was asked for, as far as that can be seen.
fn version_wanted(words: &[String]) -> u32 {
    const OPTION: &str = "--output-version";
    let value = words.iter().enumerate().rev().find_map(|(at, word)| match word.strip_prefix(OPTION)? {
        "" => words.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    });
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(render::json::SCHEMA_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Cli::command()
            .try_get_matches_from(std::iter::once("hq").chain(line.split(' ')))
            .expect_err("it is wrong");
        several_ids(&error, &words)?.hint
    }

    #[test]
    fn ids_with_blanks_between_them_are_told_as_one_word() {
        for (line, hint) in [
            ("task list 19 28 16", Some("use hq task list 19,28,16")),
            ("task list --verbose 19 28", Some("use hq task list 19,28")),
            ("job cancel 1, 3-5", Some("use hq job cancel 1,3-5")),
            ("worker stop 1 2 --drain", Some("use hq worker stop 1,2")),
            ("--output-mode json job cat 1 2 stdout", Some("use hq job cat 1,2")),
            ("task info 3 1 7-9", Some("use hq task info 3 1,7-9")),
            ("job info 1 2 3-", Some("use hq job info 1,2,3-")),
            ("wait 4 5", Some("use hq wait 4,5")),
            ("task explain 3 1 7", None),
            ("worker wait 1 2", None),
            ("job info 1 x", None),
            ("job info 1,", None),
        ] {
            assert_eq!(explained(line).as_deref(), hint, "{line}");
        }
    }

    #[test]
    fn an_option_with_a_typing_error_is_told_as_one() {
        for (line, option) in [
            ("submit --ary 1-3", Some("--array")),
            ("submit --nmae x true", Some("--name")),
            ("submit --zzz true", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let all = std::iter::once("hq").chain(line.split(' '));
            let mut error = Cli::command().try_get_matches_from(all).expect_err("it is wrong");
            suggest_option(&mut error, &words);
            let text = error.to_string();
            match option {
                Some(option) => {
                    assert!(text.contains(option) && !text.contains("as a value"), "{line}: {text}");
                }
                None => assert!(text.contains("as a value"), "{line}: {text}"),
            }
        }
    }

    #[test]
    fn the_version_of_documents_is_seen_in_a_line_that_is_not_understood() {
        for (line, version) in [
            ("--output-mode json --output-version 0 job info", 0),
            ("--output-version=0 job info", 0),
            ("--output-version 0 --output-version 1 job", 1),
            ("job info --output-version", 1),
            ("job info", 1),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(version_wanted(&words), version, "{line}");
        }
    }

    #[test]
    fn commands_that_help_does_not_name_are_not_offered() {
        for (line, shown) in [("--debug", "run, submit, make, job"), ("task --debug", "list, info, explain")]
        {
            let words = std::iter::once("hq").chain(line.split(' '));
            let mut error = Cli::command().try_get_matches_from(words).expect_err("a command is missing");
            leave_out_hidden(&mut error);
            let text = error.to_string();
            assert!(text.contains(&format!("[subcommands: {shown}")), "{text}");
            for hidden in ["jobs", "wait", "agent", "generate-reference", "event-log", "help"] {
                assert!(!text.contains(&format!(", {hidden}")), "{hidden}: {text}");
            }
        }
    }
}
