//! `hq config …`.

use clap::CommandFactory;

use super::Done;
use crate::cli::Cli;
use crate::cli::config::ShowArgs;
use crate::config::{Config, Setting, VARIABLES, Value};
use crate::error::HqError;
use crate::report::Settings;

pub(super) fn show(args: &ShowArgs) -> Result<Done, HqError> {
    let config = Config::read()?;
    let mut root = Cli::command();
    root.build();
    config.check(&root)?;
    let mut settings = config.effective();
    for (option, name) in VARIABLES {
        if let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            settings.retain(|setting| !(setting.command.is_empty() && setting.option == option));
            let value = Value::Values(vec![value.to_string_lossy().into_owned()]);
            let (option, origin) = (option.to_owned(), name.to_owned());
            settings.insert(0, Setting { command: String::new(), option, value, origin });
        }
    }
    Done::ok(Settings { settings, with_origin: args.origin })
}
