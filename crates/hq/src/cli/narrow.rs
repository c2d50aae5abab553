//! Command lines of commands in loops of scripts, read with the options of that command alone: to describe all the others takes
//! longer than everything else that a short command does.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Subcommand};
use hq_client::options::Defaults;

use super::lazy::Lazy;
use super::{Cli, Command, GlobalOptions};

/// What these words say, where the first one names such a command and nothing is wrong with the others. Whatever else there is
/// to say, the whole description of the program says.
pub(crate) fn parse(words: &[OsString]) -> Option<Cli> {
    let name = words.get(1)?.to_str()?;
    let (global, command) = match name {
        "job" => below(words, name, |command| Command::Job(Lazy(command))),
        "task" => below(words, name, |command| Command::Task(Lazy(command))),
        "object" => below(words, name, |command| Command::Object(Lazy(command))),
        "pull" => below(words, name, |command| Command::Pull(Lazy(command))),
        "worker" => below(words, name, |command| Command::Worker(Lazy(command))),
        "server" => below(words, name, |command| Command::Server(Lazy(command))),
        "alloc" => below(words, name, |command| Command::Alloc(Lazy(command))),
        "feed" => below(words, name, Command::Feed),
        _ => None,
    }?;
    Some(Cli { global, command, defaults: Defaults::default(), notes: Vec::new() })
}

fn below<T: Subcommand>(
    words: &[OsString],
    name: &str,
    of: impl FnOnce(T) -> Command,
) -> Option<(GlobalOptions, Command)> {
    let command = T::augment_subcommands(clap::Command::new(name.to_owned()).subcommand_required(true));
    let root = clap::Command::new("hq").disable_help_subcommand(true).subcommand_required(true);
    let root = GlobalOptions::augment_args(root).subcommand(command);
    let mut matches = root.try_get_matches_from(words).ok()?;
    let (_, mut deeper) = matches.remove_subcommand()?;
    let command = T::from_arg_matches_mut(&mut deeper).ok()?;
    let global = GlobalOptions::from_arg_matches_mut(&mut matches).ok()?;
    Some((global, of(command)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_line_says_what_it_says_to_the_whole_program() {
        let lines = [
            "hq pull steal -q --bag dock",
            "hq pull complete 1@3 --output-mode json",
            "hq pull create a b --payload x --server-dir /tmp/s",
            "hq job list --all --output-mode=quiet",
            "hq job info last --debug",
            "hq job wait 1-3",
            "hq job submit -- true",
            "hq task list 4 --tasks 1-3",
            "hq worker list --colors never",
            "hq server info",
            "hq alloc list",
            "hq object list",
        ];
        for line in lines {
            let whole = Cli::try_parse_from(words(line)).expect(line);
            let narrow = parse(&words(line)).expect(line);
            assert_eq!(format!("{narrow:?}"), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_or_asks_for_help_is_left_to_the_whole_program() {
        let lines = [
            "hq",
            "hq pull",
            "hq pull --help",
            "hq pull steal --help",
            "hq pull steall",
            "hq pull complete --no-such",
            "hq --debug pull steal",
            "hq job --version",
            "hq jobs",
            "hq submit -- true",
        ];
        for line in lines {
            assert!(parse(&words(line)).is_none(), "{line}");
        }
    }
}
