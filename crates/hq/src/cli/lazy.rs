//! Commands below commands, described only when they are asked for: the whole tree takes longer to build than
//! everything else that a short command does.

use clap::{ArgMatches, Command, Error, FromArgMatches, Subcommand};

/// The subcommands of a command that most command lines do not name.
///
/// The variant that holds it must have a help text itself: that of `T` is not known before. Options cannot be lazy:
/// help would show them after the global ones.
#[derive(Debug)]
pub(crate) struct Lazy<T>(pub T);

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Lazy)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Subcommand> Subcommand for Lazy<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(T::augment_subcommands)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(T::augment_subcommands_for_update)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}
