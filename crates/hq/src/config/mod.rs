//! Configuration files: what options are where the command line does not give them.

mod command_line;
mod value;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use hq_model::similar;
use rustix::fs::OFlags;

use self::command_line::SUBMITS;
pub(crate) use self::command_line::{Refused, parse};
use crate::error::HqError;

/// Name of a user's file, in the configuration directory.
const USER_FILE: &str = "config.toml";
/// Name of a project's file, in the current directory or one above it.
const PROJECT_FILE: &str = "hq.toml";
/// The most bytes that are read of a file.
const BYTES_MAX: u64 = 1 << 20;
/// Options of submits of which each file adds those with names of their own.
const ADDED: [&str; 2] = ["env", "resource"];
/// The variables that stand above files, by option.
pub(crate) const VARIABLES: [(&str, &str); 3] =
    [("server-dir", "HQ_SERVER_DIR"), ("output-mode", "HQ_OUTPUT_MODE"), ("debug", "HQ_DEBUG")];

/// One option of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The command, such as `worker start`; empty for options of every command.
    pub command: String,
    /// The option, without its dashes.
    pub option: String,
    /// What it is.
    pub value: Value,
    /// The file that says so, or a variable.
    pub origin: String,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// It is given, or not, and has no value.
    Flag(bool),
    /// It is given with each of these.
    Values(Vec<String>),
}

impl Setting {
    /// As words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let option = &self.option;
        match &self.value {
            Value::Flag(is_given) => is_given.then(|| format!("--{option}")).into_iter().collect(),
            Value::Values(values) => values.iter().map(|value| format!("--{option}={value}")).collect(),
        }
    }

    /// Takes out what `next`, which counts more, says otherwise. False when nothing is left.
    fn is_left_by(&mut self, next: &Setting) -> bool {
        if (&self.command, &self.option) != (&next.command, &next.option) {
            return true;
        }
        let is_added = SUBMITS.contains(&&self.command[..]) && ADDED.contains(&&self.option[..]);
        let (Value::Values(own), Value::Values(others)) = (&mut self.value, &next.value) else {
            return false;
        };
        let name = |value: &str| value.split('=').next().unwrap_or_default().to_owned();
        own.retain(|value| is_added && !others.iter().any(|other| name(other) == name(value)));
        !own.is_empty()
    }

    /// Its place in a file, for people.
    pub(crate) fn place(&self) -> String {
        match &self.command[..] {
            "" => format!("{}: {}", self.origin, self.option),
            command => format!("{}: [{command}] {}", self.origin, self.option),
        }
    }
}

/// A table of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The command, such as `worker start`.
    pub command: String,
    /// The file.
    pub origin: String,
}

/// What the files say, those that count less first.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The settings of each file.
    pub layers: Vec<Vec<Setting>>,
    /// The tables of each file, which are named like commands.
    pub tables: Vec<Table>,
    /// Files that were left out, and why.
    pub warnings: Vec<String>,
    /// What is in the files and can be of no command.
    wrong: Vec<String>,
}

/// Where users keep what belongs to no server: `$HQ_CONFIG_DIR`, or `hq` in `$XDG_CONFIG_HOME`, or `~/.config/hq`.
pub(crate) fn directory() -> Option<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    dir("HQ_CONFIG_DIR")
        .or_else(|| Some(dir("XDG_CONFIG_HOME")?.join("hq")))
        .or_else(|| Some(dir("HOME")?.join(".config/hq")))
}

/// A file of the user's own.
pub(crate) enum Heeded {
    /// There is none.
    Missing,
    /// It may not be heeded, and why.
    Not(&'static str),
    /// What it says.
    Text(String),
}

/// The text of a file that is there and may be heeded: whoever can write it decides what commands do.
///
/// # Errors
/// When it cannot be read, or is none.
pub(crate) fn heeded(path: &Path) -> Result<Heeded, HqError> {
    let cannot = |error: std::io::Error| HqError::usage(format!("cannot read {}: {error}", path.display()));
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(Heeded::Missing),
        Err(error) => return Err(cannot(error)),
    };
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        return Err(HqError::usage(format!("{} is not a regular file", path.display())));
    }
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me && found.uid() != 0 {
        return Ok(Heeded::Not("it belongs to another user"));
    }
    if found.mode() & 0o002 != 0 {
        return Ok(Heeded::Not("everyone can write to it: use chmod o-w"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(HqError::usage(format!("{} is larger than {} KiB", path.display(), BYTES_MAX >> 10)));
    }
    Ok(Heeded::Text(text))
}

impl Config {
    /// Reads the files of the user and of the project.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(crate) fn read() -> Result<Config, HqError> {
        let mut config = Config::default();
        let user = directory().map(|directory| directory.join(USER_FILE));
        for path in user.into_iter().chain(project_file()) {
            if let Some(text) = config.text_of(&path)? {
                config.add(&path.display().to_string(), &text);
            }
        }
        Ok(config)
    }

    fn text_of(&mut self, path: &Path) -> Result<Option<String>, HqError> {
        match heeded(path)? {
            Heeded::Text(text) => return Ok(Some(text)),
            Heeded::Missing => {}
            Heeded::Not(why) => self.warnings.push(format!("{} is ignored: {why}", path.display())),
        }
        Ok(None)
    }

    // Takes what a file says, in its order.
    fn add(&mut self, origin: &str, text: &str) {
        self.layers.push(Vec::new());
        match text.parse::<toml::Table>() {
            Ok(table) => self.collect(origin, "", table),
            Err(error) => self.wrong.push(format!("{origin} is not valid TOML: {error}")),
        }
    }

    fn collect(&mut self, origin: &str, command: &str, table: toml::Table) {
        for (key, value) in table {
            if let toml::Value::Table(below) = value {
                let command = if command.is_empty() { key } else { format!("{command} {key}") };
                let command = command_line::full(&command).to_owned();
                self.tables.push(Table { command: command.clone(), origin: origin.to_owned() });
                self.collect(origin, &command, below);
                continue;
            }
            let (command, origin) = (command.to_owned(), origin.to_owned());
            let mut setting = Setting { command, option: key, value: Value::Flag(false), origin };
            match value_of(value) {
                Ok(value) => {
                    setting.value = value;
                    self.layers.last_mut().expect("one for each file").push(setting);
                }
                Err(what) => self.wrong.push(format!("{}: {what}", setting.place())),
            }
        }
    }

    /// What counts for an option that two files have.
    pub(crate) fn effective(&self) -> Vec<Setting> {
        let mut all: Vec<Setting> = Vec::new();
        for setting in self.layers.iter().flatten() {
            all.retain_mut(|other| other.is_left_by(setting));
            all.push(setting.clone());
        }
        all.sort_by(|a, b| (&a.command, &a.option).cmp(&(&b.command, &b.option)));
        all
    }

    /// What is wrong whatever the command is.
    fn wrong(&self) -> impl Iterator<Item = HqError> {
        self.wrong.iter().map(HqError::usage)
    }

    /// Looks whether each command and option there is, and takes each value.
    ///
    /// # Errors
    /// All that there is not, or that is not taken.
    pub(crate) fn check(&self, root: &Command) -> Result<(), HqError> {
        // Those of a table that is wrong as a whole are not named once more.
        let unknown = |table: &&Table| command_of(root, &table.origin, &table.command).is_err();
        let unknown: Vec<&Table> = self.tables.iter().filter(unknown).collect();
        let is_below = |command: &str, table: &Table| {
            command.strip_prefix(&table.command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let is_known = |origin: &str, command: &str| {
            !unknown.iter().any(|table| table.origin == origin && is_below(command, table))
        };
        let first = |table: &&&Table| {
            let above = table.command.rsplit_once(' ').map_or("", |(above, _)| above);
            is_known(&table.origin, above)
        };
        let tables = unknown.iter().filter(first);
        let tables = tables.filter_map(|table| command_of(root, &table.origin, &table.command).err());
        let settings = self.layers.iter().flatten();
        let settings = settings.filter(|setting| is_known(&setting.origin, &setting.command));
        let settings = settings.filter_map(|setting| value::check(root, setting).err());
        none_of(self.wrong().chain(tables).chain(settings).collect())
    }
}

// Success where nothing is wrong, and else all that is as one error.
fn none_of(mut wrong: Vec<HqError>) -> Result<(), HqError> {
    match wrong.len() {
        0 => Ok(()),
        1 => Err(wrong.remove(0)),
        _ => Err(HqError::usage(wrong.iter().map(HqError::in_one_line).collect::<Vec<_>>().join("\n"))),
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

// The file in the current directory or the nearest one above it, but not above the user's own directories.
fn project_file() -> Option<PathBuf> {
    let present = std::env::current_dir().ok()?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let me = rustix::process::geteuid().as_raw();
    for directory in present.ancestors() {
        let path = directory.join(PROJECT_FILE);
        if fs::symlink_metadata(&path).is_ok() {
            return Some(path);
        }
        let is_ours = fs::metadata(directory).is_ok_and(|found| found.uid() == me);
        if !is_ours || Some(directory) == home.as_deref() {
            return None;
        }
    }
    None
}

fn value_of(value: toml::Value) -> Result<Value, &'static str> {
    let values =
        |values: Vec<toml::Value>| values.into_iter().map(scalar).collect::<Option<_>>().map(Value::Values);
    match value {
        toml::Value::Boolean(is_given) => Ok(Value::Flag(is_given)),
        toml::Value::Array(all) => values(all).ok_or("not a list of values"),
        value => values(vec![value]).ok_or("not a value"),
    }
}

fn scalar(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

// The command that a table of a file is of.
fn command_of<'a>(root: &'a Command, origin: &str, name: &str) -> Result<&'a Command, HqError> {
    let mut command = root;
    for word in name.split(' ').filter(|word| !word.is_empty()) {
        command = command.find_subcommand(word).ok_or_else(|| {
            let names = command.get_subcommands().filter(|below| !below.is_hide_set()).map(Command::get_name);
            let text = format!("{origin}: there is no command `hq {name}`");
            HqError::usage(text).hint(meant(word, names))
        })?;
    }
    Ok(command)
}

// The command that a setting is of, and its option.
fn option_of<'a>(root: &'a Command, setting: &Setting) -> Result<(&'a Command, &'a Arg), HqError> {
    let command = command_of(root, &setting.origin, &setting.command)?;
    let longs = || command.get_arguments().filter(|arg| arg.get_long().is_some());
    let is_named = |arg: &&Arg| {
        let also = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(&setting.option) || also.contains(&&setting.option[..])
    };
    longs().find(is_named).map(|arg| (command, arg)).ok_or_else(|| {
        let name =
            if setting.command.is_empty() { "hq".to_owned() } else { format!("hq {}", setting.command) };
        let text = format!("{}: `{name}` has no option --{}", setting.place(), setting.option);
        HqError::usage(text).hint(meant(&setting.option, longs().filter_map(Arg::get_long)))
    })
}

fn meant<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    similar::nearest(word, names).map_or_else(String::new, |name| format!("did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn config(files: &[(&str, &str)]) -> Config {
        let mut config = Config::default();
        files.iter().for_each(|(origin, text)| config.add(origin, text));
        config
    }

    fn of(text: &str) -> Vec<(String, Vec<String>)> {
        config(&[("f", text)]).layers[0]
            .iter()
            .map(|setting| (setting.command.clone(), setting.words()))
            .collect()
    }

    #[test]
    fn tables_are_commands_and_keys_are_options() {
        let text = "server-dir = '/a'\n[submit]\ncpus = 2\nenv = ['A=1', 'B=2']\ntask-dir = true\n[worker.start]\nweight = 0.5\nno-hyper-threading = false\n";
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("", words(&["--server-dir=/a"])),
            ("submit", words(&["--cpus=2"])),
            ("submit", words(&["--env=A=1", "--env=B=2"])),
            ("submit", words(&["--task-dir"])),
            ("worker start", Vec::new()),
            ("worker start", words(&["--weight=0.5"])),
        ];
        let mut found = of(text);
        found.sort();
        assert_eq!(found, expected.map(|(command, words)| (command.to_owned(), words)));
    }

    #[test]
    fn the_file_that_counts_more_replaces_an_option() {
        let user = ("user", "[submit]\ncpus = 1\nname = 'a'\n");
        let config = config(&[user, ("project", "[submit]\ncpus = 2\n")]);
        let places: Vec<_> =
            config.effective().iter().map(|setting| (setting.place(), setting.words())).collect();
        assert_eq!(places[0], ("project: [submit] cpus".to_owned(), vec!["--cpus=2".to_owned()]));
        assert_eq!(places[1].0, "user: [submit] name");
    }

    #[test]
    fn variables_and_resources_of_submits_are_added_by_name() {
        let user = ("user", "[submit]\nenv = ['A=1', 'B=2']\n[job.submit]\nresource = 'fpga=1'\n");
        let config = config(&[user, ("project", "[submit]\nenv = 'A=3'\nresource = 'fpga=2'\n")]);
        let found: Vec<String> = config
            .effective()
            .iter()
            .map(|setting| format!("{} {}", setting.place(), setting.words().join(" ")))
            .collect();
        let expected = [
            "user: [submit] env --env=B=2",
            "project: [submit] env --env=A=3",
            "project: [submit] resource --resource=fpga=2",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_no_option_is_is_refused() {
        for (text, expected) in [
            ("[submit]\nx = 1979-05-27\n", "f: [submit] x: not a value"),
            ("x = [[1]]\n", "f: x: not a list of values"),
            (
                "x = [[1]]\n[submit]\nx = 1979-05-27\n",
                "f: x: not a list of values\nf: [submit] x: not a value",
            ),
        ] {
            let mut wrong = config(&[("f", text)]).wrong;
            wrong.sort_by_key(|error| error.contains('['));
            assert_eq!(wrong.join("\n"), expected);
        }
        assert!(config(&[("f", "x = ")]).wrong[0].starts_with("f is not valid TOML: "));
    }

    #[test]
    fn all_that_is_wrong_is_named_with_what_was_meant() {
        let text = "debg = true\nwhen = 1979-05-27\n[sumbit]\n[jbo.wait]\nx = 1\n[submit]\ncpsu = 1\ntime-limit = 'never'\npriority = 3\n\
                    [worker.start]\ncpus = true\nheartbeat = '1s'\nno-hyper-threading = 'yes'\n";
        let config = config(&[("f", text)]);
        let mut root = crate::cli::Cli::command();
        root.build();
        let error = config.check(&root).expect_err("much is wrong").text;
        let expected = [
            "f: there is no command `hq jbo` (did you mean `job`?)",
            "f: there is no command `hq sumbit` (did you mean `submit`?)",
            "f: debg: `hq` has no option --debg (did you mean `debug`?)",
            "f: when: not a value",
            "f: [submit] cpsu: `hq submit` has no option --cpsu (did you mean `cpus`?)",
            "f: [submit] time-limit: ",
            "f: [worker start] cpus: ",
            "f: [worker start] no-hyper-threading: ",
        ];
        let mut lines: Vec<&str> = error.lines().collect();
        lines.sort_unstable();
        let mut expected_lines = expected;
        expected_lines.sort_unstable();
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, expected) in lines.iter().zip(expected_lines) {
            assert!(line.starts_with(expected), "{line}");
        }
    }
}
