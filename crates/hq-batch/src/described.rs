//! Speaks to a manager as its description says.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::{Output, Runner};
use crate::description::{Description, TimeFormat};
use crate::error::BatchError;
use crate::manager::Submission;
use crate::quote;
use crate::request::{AllocationRequest, BatchState, JobReport};
use crate::script::{self, Launch, directive};

pub(crate) fn prepare(
    description: &Description,
    request: &AllocationRequest,
) -> Result<Submission, BatchError> {
    let path = |file: &str| script::output_path(&request.directory, file);
    let values = [
        ("name", script::job_name(&request.name)),
        ("nodes", request.workers.to_string()),
        ("time", time(request.time_limit, description.time)),
        ("stdout", path("stdout")),
        ("stderr", path("stderr")),
        ("after", request.after.clone().unwrap_or_default()),
    ];
    let fill = |text: &str| {
        values
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    };
    let optional = |wanted: bool, line: &Option<String>, what: &'static str, key: &'static str| match line {
        _ if !wanted => Ok(None),
        Some(line) => Ok(Some(line.clone())),
        None => Err(BatchError::NotDescribed { manager: description.name.clone(), what, key }),
    };
    let hold = optional(request.hold, &description.header.hold, "hold a job", "header.hold")?;
    let after = optional(request.after.is_some(), &description.header.after, "chain a job", "header.after")?;
    let mut header: Vec<Vec<u8>> = description
        .header
        .lines
        .iter()
        .chain(&hold)
        .chain(&after)
        .map(|line| directive(&description.directive, &fill(line)))
        .collect();
    // How such a manager unquotes its header is not known: only what needs no quotes goes there.
    let (user_line, user_args) =
        script::user_header(&description.directive, &request.manager_args, plain_header);
    header.extend(user_line);
    let launch = match (&description.launch, request.workers) {
        (Some(prefix), 2..) => Launch::Prefix(fill(prefix)),
        (None, 2..) => {
            return Err(BatchError::NotDescribed {
                manager: description.name.clone(),
                what: "start a worker on each of several nodes",
                key: "launch.prefix",
            });
        }
        _ => Launch::Here,
    };
    let script = script::script(&header, request, &launch);
    let (program, rest) =
        description.submit.split_first().map_or(("", &[][..]), |(p, rest)| (p.as_str(), rest));
    // The script's path comes last, where the caller puts it.
    let mut args: Vec<OsString> =
        rest.iter().filter(|word| *word != "${script}").map(|word| fill(word).into()).collect();
    args.extend(user_args);
    Ok(Submission { program: program.to_owned(), args, script })
}

/// The id in the answer to a submission.
pub(crate) fn submitted(description: &Description, answer: Output) -> Result<String, BatchError> {
    let text = answer.text();
    let id = text.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(&description.id_before)?;
        let id = match description.id_after.as_str() {
            "" => rest.split_whitespace().next()?,
            after => rest.split_once(after)?.0.trim(),
        };
        (!id.is_empty() && !id.contains(char::is_whitespace)).then(|| id.to_owned())
    });
    id.ok_or_else(|| answer.not_understood("an id, as `submit.id` shows it"))
}

pub(crate) fn reports(
    description: &Description,
    runner: &Runner,
    ids: &[String],
) -> Result<BTreeMap<String, JobReport>, BatchError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let answer = run(&description.status.command, runner, ids)?;
    let is_fine = answer.exit == Some(0) || answer.exit.is_some() && is_gone(description, &answer);
    if !is_fine {
        return Err(answer.refused());
    }
    let rows = rows(description, &answer.text());
    Ok(rows.into_iter().filter(|row| ids.contains(&row.id)).map(|row| (row.id, row.state.into())).collect())
}

pub(crate) fn cancel(description: &Description, runner: &Runner, ids: &[String]) -> Result<(), BatchError> {
    let answer = run(&description.cancel, runner, ids)?;
    if answer.exit == Some(0) || answer.exit.is_some() && is_gone(description, &answer) {
        Ok(())
    } else {
        Err(answer.refused())
    }
}

/// Goes by what the submission left: a description does not say how to look for names.
pub(crate) fn find(
    description: &Description,
    runner: &Runner,
    wanted: &[(String, PathBuf)],
) -> Result<BTreeMap<(String, PathBuf), String>, BatchError> {
    let mut found = BTreeMap::new();
    for key in wanted {
        if let Ok(id) = fs::read_to_string(key.1.join("jobid"))
            && !id.trim().is_empty()
        {
            found.insert(key.clone(), id.trim().to_owned());
        }
    }
    let Some(_) = description.status.name_column else { return Ok(found) };
    let answer = run(&description.status.command, runner, &[])?;
    if answer.exit == Some(0) {
        for row in rows(description, &answer.text()) {
            for key in wanted {
                if row.name.as_deref() == Some(&key.0) && !row.state.is_ended() {
                    found.entry(key.clone()).or_insert_with(|| row.id.clone());
                }
            }
        }
    }
    Ok(found)
}

struct Row {
    id: String,
    state: BatchState,
    name: Option<String>,
}

/// The lines of a status answer. Lines with too few columns are titles.
fn rows(description: &Description, text: &str) -> Vec<Row> {
    let status = &description.status;
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = match status.separator.as_str() {
                "" => line.split_whitespace().collect(),
                separator => line.split(separator).map(str::trim).collect(),
            };
            let id = (*fields.get(status.id_column)?).to_owned();
            let word = *fields.get(status.state_column)?;
            let state =
                status.states.get(word).cloned().unwrap_or_else(|| BatchState::Unknown(word.to_owned()));
            let name = status.name_column.and_then(|at| fields.get(at)).map(|name| (*name).to_owned());
            (!id.is_empty()).then_some(Row { id, state, name })
        })
        .collect()
}

fn run(command: &[String], runner: &Runner, ids: &[String]) -> Result<Output, BatchError> {
    let (program, rest) = command.split_first().map_or(("", &[][..]), |(p, rest)| (p.as_str(), rest));
    let mut args: Vec<OsString> = Vec::new();
    for word in rest {
        if word == "${ids}" {
            args.extend(ids.iter().map(OsString::from));
        } else {
            args.push(word.replace("${ids}", &ids.join(",")).into());
        }
    }
    runner.run(OsStr::new(program), &args, None)
}

/// Whether every line of an error says that a job is not known or has ended.
fn is_gone(description: &Description, answer: &Output) -> bool {
    let errors = answer.errors();
    let mut lines = errors.lines().filter(|line| !line.trim().is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| description.gone.iter().any(|text| line.contains(text)))
}

fn time(limit: Duration, format: TimeFormat) -> String {
    let seconds = (limit.as_secs() + u64::from(limit.subsec_nanos() > 0)).max(1);
    let minutes = seconds.div_ceil(60);
    match format {
        TimeFormat::Clock => script::clock(limit),
        TimeFormat::HoursMinutes => format!("{:02}:{:02}", minutes / 60, minutes % 60),
        TimeFormat::Minutes => minutes.to_string(),
        TimeFormat::Seconds => seconds.to_string(),
    }
}

fn plain_header(word: &OsStr) -> Option<Vec<u8>> {
    quote::slurm_header(word).filter(|quoted| !quoted.starts_with(b"\""))
}

#[cfg(test)]
mod tests;
