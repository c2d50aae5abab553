//! Managers that are described by a file: what it says, and what it must say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::Deserialize;

use crate::error::BatchError;
use crate::limits;
use crate::request::BatchState;

/// Descriptions that are shipped in the program, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("flux", include_str!("../managers/flux.toml")),
    ("lsf", include_str!("../managers/lsf.toml")),
    ("oar", include_str!("../managers/oar.toml")),
];

/// States as descriptions name them.
const STATES: [(&str, BatchState); 10] = [
    ("queued", BatchState::Queued),
    ("held", BatchState::Held),
    ("running", BatchState::Running),
    ("suspended", BatchState::Suspended),
    ("finished", BatchState::Finished),
    ("cancelled", BatchState::Cancelled),
    ("timed-out", BatchState::TimedOut),
    ("preempted", BatchState::Preempted),
    ("node-failed", BatchState::NodeFailed),
    ("out-of-memory", BatchState::OutOfMemory),
];

/// A manager as its file describes it, complete and checked.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub name: String,
    pub is_verified: bool,
    /// What each header line begins with.
    pub directive: String,
    pub header: Header,
    pub submit: Vec<String>,
    /// The text around the id in the answer.
    pub id_before: String,
    pub id_after: String,
    pub status: Status,
    pub cancel: Vec<String>,
    /// Texts in the errors of `status` and `cancel` that mean: not known, or ended.
    pub gone: Vec<String>,
    /// Words in front of a command that start it once on every node.
    pub launch: Option<String>,
    /// Separator between hours, minutes and seconds, or none: the unit that wall times are counted in.
    pub time: TimeFormat,
}

#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub lines: Vec<String>,
    pub hold: Option<String>,
    pub after: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub command: Vec<String>,
    pub separator: String,
    pub id_column: usize,
    pub state_column: usize,
    pub name_column: Option<usize>,
    pub states: BTreeMap<String, BatchState>,
}

/// How a wall time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TimeFormat {
    /// `HH:MM:SS`.
    Clock,
    /// `HH:MM`, rounded up.
    HoursMinutes,
    /// Whole minutes, rounded up.
    Minutes,
    /// Whole seconds, rounded up.
    Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    header: RawHeader,
    #[serde(default)]
    submit: RawSubmit,
    #[serde(default)]
    status: RawStatus,
    #[serde(default)]
    cancel: RawCancel,
    launch: Option<RawLaunch>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeader {
    directive: Option<String>,
    lines: Option<Vec<String>>,
    hold: Option<String>,
    after: Option<String>,
    time: Option<TimeFormat>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSubmit {
    command: Option<Vec<String>>,
    id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatus {
    command: Option<Vec<String>>,
    separator: Option<String>,
    id_column: Option<usize>,
    state_column: Option<usize>,
    name_column: Option<usize>,
    #[serde(default)]
    states: BTreeMap<String, String>,
    #[serde(default)]
    gone: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCancel {
    command: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLaunch {
    prefix: String,
}

/// What may stand between `${` and `}` in descriptions.
pub(crate) const PLACEHOLDERS: [&str; 8] =
    ["script", "ids", "name", "nodes", "time", "stdout", "stderr", "after"];

// Commands are executed as it says: nobody else may have written it. A pipe is not waited for.
fn open_own(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let wrong = if !found.is_file() {
        "it is not a regular file"
    } else if found.uid() != geteuid().as_raw() && found.uid() != 0 {
        "it belongs to another user"
    } else if found.mode() & 0o002 != 0 {
        "everyone can write to it: use chmod o-w"
    } else {
        return Ok(file);
    };
    Err(io::Error::other(wrong))
}

impl Description {
    /// Reads `<config_dir>/managers/<name>.toml`, else takes the shipped one.
    ///
    /// # Errors
    /// When there is none, or it is unreadable, incomplete or wrong.
    pub(crate) fn find(name: &str, config_dir: &Path) -> Result<Description, BatchError> {
        let path = config_dir.join("managers").join(format!("{name}.toml"));
        let shipped = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
        let unknown = || BatchError::UnknownManager {
            name: name.to_owned(),
            shipped: SHIPPED.iter().map(|(name, _)| *name).collect(),
            path: path.clone(),
        };
        // A name is no path.
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(unknown());
        }
        let mut text = String::new();
        let read =
            open_own(&path).and_then(|file| file.take(limits::DESCRIPTION_BYTES).read_to_string(&mut text));
        match (read, shipped) {
            (Ok(_), _) => Description::parse(name, &path.display().to_string(), &text),
            (Err(error), Some((_, shipped))) if error.kind() == io::ErrorKind::NotFound => {
                Description::parse(name, &format!("{name} (shipped)"), shipped)
            }
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => Err(unknown()),
            (Err(source), _) => Err(BatchError::DescriptionUnreadable { path, source }),
        }
    }

    /// Reads a description's text; `origin` names it in errors.
    ///
    /// # Errors
    /// Names all keys that are missing, or the first that is wrong.
    pub(crate) fn parse(name: &str, origin: &str, text: &str) -> Result<Description, BatchError> {
        let wrong = |reason: String| BatchError::DescriptionWrong { origin: origin.to_owned(), reason };
        let raw: Raw = toml::from_str(text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        let missing = missing(&raw);
        if !missing.is_empty() {
            let keys = missing.into_iter().map(|key| format!("`{key}`")).collect();
            return Err(BatchError::DescriptionLacks { origin: origin.to_owned(), keys });
        }
        let Raw { verified, header, submit, status, cancel, launch } = raw;
        let id = submit.id.unwrap_or_default();
        let Some((id_before, id_after)) = id.split_once("${id}") else {
            return Err(wrong(format!("`submit.id` is `{id}` but does not contain `${{id}}`")));
        };
        let mut states = BTreeMap::new();
        for (word, meaning) in status.states {
            let known = STATES.iter().find(|(name, _)| *name == meaning).map(|(_, state)| state.clone());
            let state = match known {
                Some(state) => state,
                None if meaning == "failed" => BatchState::Failed(word.clone()),
                None => {
                    let names: Vec<_> = STATES.iter().map(|(name, _)| *name).chain(["failed"]).collect();
                    let names = names.join(", ");
                    return Err(wrong(format!("`status.states.{word}` is `{meaning}`, not one of {names}")));
                }
            };
            states.insert(word, state);
        }
        let description = Description {
            name: name.to_owned(),
            is_verified: verified,
            directive: header.directive.unwrap_or_default(),
            header: Header {
                lines: header.lines.unwrap_or_default(),
                hold: header.hold,
                after: header.after,
            },
            submit: submit.command.unwrap_or_default(),
            id_before: id_before.to_owned(),
            id_after: id_after.to_owned(),
            status: Status {
                command: status.command.unwrap_or_default(),
                separator: status.separator.unwrap_or_default(),
                id_column: status.id_column.unwrap_or(0),
                state_column: status.state_column.unwrap_or(1),
                name_column: status.name_column,
                states,
            },
            cancel: cancel.command.unwrap_or_default(),
            gone: status.gone,
            launch: launch.map(|launch| launch.prefix),
            time: header.time.unwrap_or(TimeFormat::Clock),
        };
        description.check_placeholders().map_err(wrong)?;
        Ok(description)
    }

    fn check_placeholders(&self) -> Result<(), String> {
        let header = self.header.lines.iter().chain(&self.header.hold).chain(&self.header.after);
        let all =
            header.chain(&self.submit).chain(&self.status.command).chain(&self.cancel).chain(&self.launch);
        for text in all {
            let mut rest = text.as_str();
            while let Some((_, after)) = rest.split_once("${") {
                let (name, after) = after.split_once('}').unwrap_or((after, ""));
                if !PLACEHOLDERS.contains(&name) {
                    let known = PLACEHOLDERS.join("}, ${");
                    return Err(format!("`{text}`: `${{{name}}}` is not one of ${{{known}}}"));
                }
                rest = after;
            }
        }
        for (key, command) in [("status", &self.status.command), ("cancel", &self.cancel)] {
            if !command.iter().any(|word| word.contains("${ids}")) {
                return Err(format!("`{key}.command` does not contain `${{ids}}`"));
            }
        }
        Ok(())
    }
}

/// The keys without which nothing works.
fn missing(raw: &Raw) -> Vec<&'static str> {
    let is_given = |command: &Option<Vec<String>>| command.as_ref().is_some_and(|words| !words.is_empty());
    [
        ("header.directive", raw.header.directive.is_some()),
        ("header.lines", raw.header.lines.is_some()),
        ("submit.command", is_given(&raw.submit.command)),
        ("submit.id", raw.submit.id.is_some()),
        ("status.command", is_given(&raw.status.command)),
        ("status.states", !raw.status.states.is_empty()),
        ("cancel.command", is_given(&raw.cancel.command)),
    ]
    .into_iter()
    .filter_map(|(key, is_given)| (!is_given).then_some(key))
    .collect()
}

#[cfg(test)]
mod tests;
