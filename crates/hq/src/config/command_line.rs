//! A command line with what the configuration adds to it.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, Parser};
use hq_client::options::{Defaults, message};

use super::{Config, Setting, VARIABLES, none_of, option_of, value};
use crate::arguments;
use crate::cli::{Cli, narrow};
use crate::error::HqError;

/// Commands whose settings are options as on `#HQ` lines, below those of the command line and the script.
pub(super) const SUBMITS: [&str; 2] = ["submit", "run"];
/// Short names of commands, and how they are called in configuration files.
const SHORT: [(&str, &str); 4] =
    [("job submit", "submit"), ("jobs", "job list"), ("wait", "job wait"), ("progress", "job progress")];

/// How a command is called in configuration files.
pub(super) fn full(command: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == command).map_or(command, |(_, name)| name)
}

/// Why a command line was not understood.
pub(crate) enum Refused {
    /// It is wrong, or asks for help.
    Arguments(clap::Error),
    /// The configuration is wrong.
    Config(HqError),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Refused {
        Refused::Arguments(error)
    }
}

impl From<HqError> for Refused {
    fn from(error: HqError) -> Refused {
        Refused::Config(error)
    }
}

/// What this process was told to do.
///
/// # Errors
/// What is wrong.
pub(crate) fn parse() -> Result<Cli, Refused> {
    let words = named(std::env::args_os().collect());
    let plain = match narrow::parse(&words) {
        Some(cli) => Ok(cli),
        None => Cli::try_parse_from(&words).and_then(arguments::without_help),
    };
    let is_asked_for_help = matches!(&plain, Err(error) if !error.use_stderr());
    if is_asked_for_help || matches!(&plain, Ok(cli) if !cli.heeds_configuration()) {
        return Ok(plain?);
    }
    let config = match Config::read() {
        Ok(config) => config,
        // What is wrong on the command line is nearer.
        Err(error) => return Err(plain.map_or_else(Refused::Arguments, |_| Refused::Config(error))),
    };
    let mut cli = if config.layers.is_empty() { plain? } else { with_settings(&words, plain, &config)? };
    cli.notes = config.warnings;
    Ok(cli)
}

/// Names under which this program is another command: what calls that one finds it.
const NAMES: [(&str, &str); 1] = [("pmake", "make")];

// The words with the command that the name of the program stands for.
fn named(mut words: Vec<OsString>) -> Vec<OsString> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    if let Some((_, command)) = NAMES.iter().find(|(name, _)| program.is_some_and(|program| program == *name))
    {
        words.insert(1, (*command).into());
    }
    words
}

fn with_settings(
    words: &[OsString],
    plain: Result<Cli, clap::Error>,
    config: &Config,
) -> Result<Cli, Refused> {
    // What is missing may come from a file.
    let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(words) else {
        return Ok(plain?);
    };
    let (path, given) = deepest(&matches);
    let name = full(&path);
    let mut root = Cli::command();
    root.build();
    let is_submit = SUBMITS.contains(&name);
    let is_of = |setting: &&Setting| setting.command.is_empty() || setting.command == name && !is_submit;
    let (mut added, mut wrong) = (Vec::new(), config.wrong().collect::<Vec<_>>());
    for setting in config.effective().iter().filter(is_of) {
        let is_free = is_free(&root, setting, given);
        match is_free
            .and_then(|is_free| if is_free { value::check(&root, setting).map(|()| true) } else { Ok(false) })
        {
            Ok(true) => added.push(setting.clone()),
            Ok(false) => {}
            Err(error) => wrong.push(error),
        }
    }
    if is_submit {
        let own = config.layers.iter().flatten().filter(|setting| setting.command == name);
        wrong.extend(own.filter_map(|setting| value::check(&root, setting).err()));
    }
    // What shows the files says itself what is wrong in them, of all commands; and what is wrong on the command line is nearer.
    if !wrong.is_empty() && (name == "config show" || plain.is_err() && config.wrong().next().is_some()) {
        return Ok(plain?);
    }
    none_of(wrong)?;
    let try_with =
        |added: &[Setting]| Cli::try_parse_from(together(words, added)).and_then(arguments::without_help);
    let mut cli = match (try_with(&added), plain) {
        (Ok(cli), _) => cli,
        (Err(_), Err(plain)) => return Err(plain.into()),
        (Err(error), Ok(_)) => {
            let wrong = added.iter().find_map(|one| Some((one, try_with(std::slice::from_ref(one)).err()?)));
            let (place, error) = wrong.map_or_else(
                || ("the configuration files contradict each other".to_owned(), error),
                |(setting, error)| (setting.place(), error),
            );
            return Err(HqError::usage(format!("{place}: {}", message(&error))).into());
        }
    };
    if is_submit {
        cli.defaults = defaults(name, config)?;
    }
    Ok(cli)
}

// What was given to the command that was named, and its name.
fn deepest(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut path, mut matches) = (Vec::new(), matches);
    while let Some((name, below)) = matches.subcommand() {
        path.push(name);
        matches = below;
    }
    (path.join(" "), matches)
}

// True when nothing that counts more says the same or the contrary.
fn is_free(root: &Command, setting: &Setting, given: &ArgMatches) -> Result<bool, HqError> {
    let (command, arg) = option_of(root, setting)?;
    let variable =
        VARIABLES.iter().find(|(option, _)| setting.command.is_empty() && *option == setting.option);
    if variable.is_some_and(|(_, name)| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return Ok(false);
    }
    let is_given = |id: &str| {
        let source = given.try_contains_id(id).is_ok().then(|| given.value_source(id)).flatten();
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let contrary = command.get_arg_conflicts_with(arg);
    let excludes = |other: &&clap::Arg| {
        command.get_arg_conflicts_with(other).iter().any(|one| one.get_id() == arg.get_id())
    };
    let excluding = command.get_arguments().filter(excludes);
    let others = contrary.iter().copied().chain(excluding);
    Ok(!is_given(arg.get_id().as_str()) && !others.into_iter().any(|other| is_given(other.get_id().as_str())))
}

// Options of every command stand before it, others behind it, but before words that are no options.
fn together(words: &[OsString], added: &[Setting]) -> Vec<OsString> {
    let of = |is_global: bool| {
        let settings = added.iter().filter(move |setting| setting.command.is_empty() == is_global);
        settings.flat_map(Setting::words).map(OsString::from)
    };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (first, rest) = words.split_at(words.len().min(1));
    let (rest, last) = rest.split_at(end.saturating_sub(1).min(rest.len()));
    first
        .iter()
        .cloned()
        .chain(of(true))
        .chain(rest.iter().cloned())
        .chain(of(false))
        .chain(last.iter().cloned())
        .collect()
}

// What submits take from the files.
fn defaults(name: &str, config: &Config) -> Result<Defaults, HqError> {
    let mut all = Defaults::default();
    for layer in &config.layers {
        let settings: Vec<&Setting> = layer.iter().filter(|setting| setting.command == name).collect();
        // Each is right by itself.
        let words: Vec<String> = settings.iter().flat_map(|one| one.words()).collect();
        let of_layer = Defaults::parse(&words)
            .map_err(|error| HqError::usage(format!("{}: {error}", settings[0].origin)))?;
        all = of_layer.over(all);
    }
    Ok(all)
}
