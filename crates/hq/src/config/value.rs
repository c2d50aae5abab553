//! Whether a command takes the value that a file has for one of its options.

use clap::Command;
use clap::error::ErrorKind;
use hq_client::options::{Defaults, message};

use super::command_line::SUBMITS;
use super::{Setting, option_of};
use crate::error::HqError;

/// Looks whether there is such an option and its command takes the value.
///
/// # Errors
/// Says which option, of which file, and why.
pub(super) fn check(root: &Command, setting: &Setting) -> Result<(), HqError> {
    option_of(root, setting)?;
    let error = match SUBMITS.contains(&&setting.command[..]) {
        true => Defaults::parse(&setting.words()).err().map(|error| error.to_string()),
        false => refused(root, setting),
    };
    error.map_or(Ok(()), |error| Err(HqError::usage(format!("{}: {error}", setting.place()))))
}

// What else a command line needs is missing here, which is no fault of the value.
fn refused(root: &Command, setting: &Setting) -> Option<String> {
    let command = setting.command.split(' ').filter(|word| !word.is_empty());
    let words = ["hq"].into_iter().chain(command).map(str::to_owned).chain(setting.words());
    let error = root.clone().try_get_matches_from(words).err()?;
    let is_of_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::NoEquals
            | ErrorKind::TooManyValues
            | ErrorKind::TooFewValues
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::ArgumentConflict
    );
    is_of_value.then(|| message(&error))
}
