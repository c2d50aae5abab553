//! Generator and reducer in job files: the options of the command line as keys, and the jobs that they make.

use std::path::Path;

use hq_core::client_messages::{NewJob, NewTasks};
use serde::Deserialize;

use super::error::OptionsError;
use super::feed::{self, Fed, FeedOptions, ReduceOrder, Words};
use super::job_file::{File, PreparedFile, prepared};
use super::job_tables::Tables;
use super::job_values::{named, option};
use super::word::Texts;

/// A command, as words or as a shell would split it.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct FeedCommand(Texts);

impl FeedCommand {
    fn words(self) -> Result<Words, String> {
        match self.0 {
            Texts::One(text) => feed::command(&text),
            Texts::Several(words) if words.is_empty() => Err("it names no program".into()),
            Texts::Several(words) => Ok(Words(words)),
        }
    }
}

impl File {
    /// What is said of a generator or a reducer needs one.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn check_feed(&self) -> Result<(), String> {
        if self.reduce.is_none() && (self.reduce_failed || self.reduce_order.is_some()) {
            return Err("reduce_failed and reduce_order need reduce".into());
        }
        if self.generate.is_none() && (self.generate_json || self.ahead.is_some() || self.reduce.is_some()) {
            return Err("generate_json, ahead and reduce need generate".into());
        }
        Ok(())
    }

    /// The generator and the reducer, taken out.
    pub(super) fn take_feed(&mut self) -> Result<FeedOptions, String> {
        let words = |key: &str, command: Option<FeedCommand>| -> Result<Option<Words>, String> {
            command.map(|command| named(key, command.words())).transpose()
        };
        let order = match self.reduce_order.take().as_deref() {
            None => None,
            Some("id") => Some(ReduceOrder::Id),
            Some(other) => return Err(format!("reduce_order: `{other}` is not id")),
        };
        Ok(FeedOptions {
            generate: words("generate", self.generate.take())?,
            generate_json: std::mem::take(&mut self.generate_json),
            ahead: option("ahead", self.ahead.take(), feed::ahead)?,
            reduce: words("reduce", self.reduce.take())?,
            reduce_failed: std::mem::take(&mut self.reduce_failed),
            reduce_order: order,
        })
    }
}

/// A new job as a file or a table of it says; what it waits for is not looked at.
pub(super) fn job_tasks(
    path: &Path,
    mut file: File,
    tables: Tables,
    submit_dir: &[u8],
) -> Result<(NewJob, Vec<String>), OptionsError> {
    let wrong = |message: String| OptionsError::JobFile { path: path.into(), message };
    file.check_feed().map_err(wrong)?;
    let feed = file.take_feed().map_err(wrong)?;
    let is_fed = feed.generate.is_some();
    let has_ids = file.array.as_ref().is_some_and(|array| array.ids.is_some() || array.entries.is_some());
    if is_fed && (has_ids || !tables.is_empty()) {
        let what = if has_ids { "omit ids and entries" } else { "describe them in [array]" };
        return Err(wrong(format!("generate creates the tasks: {what}")));
    }
    let PreparedFile { job: spec, mut submits, mut warnings } =
        prepared(path, file, tables, (None, is_fed), submit_dir)?;
    let fed = match submits.first() {
        Some(template) => feed.fed(template).map_err(|error| wrong(error.to_string()))?,
        None => None,
    };
    warnings.extend(feed.warnings());
    let tasks = match fed {
        Some(Fed { generator, reducer, .. }) => {
            NewTasks::Fed { generator: Box::new(generator), reducer: reducer.map(Box::new) }
        }
        None => NewTasks::Submits(std::mem::take(&mut submits)),
    };
    Ok((NewJob { spec, after: Vec::new(), takes: Vec::new(), tasks }, warnings))
}
