//! The `[[job]]` tables of a job file: jobs of their own, submitted together, which may wait for each other by their names.

use std::collections::BTreeMap;
use std::path::Path;

use hq_core::client_messages::{NewJob, NewTasks};
use hq_model::dependency::{After, Condition, Edges, find_cycle};
use hq_model::{IdSet, JobId, TaskId};

use super::error::OptionsError;
use super::job_feed::job_tasks;
use super::job_file::{File, PreparedFile, prepared};
use super::job_tables::Tables;

/// Keys of a `[[job]]` table that are not those of its tasks.
const OF_JOB: [&str; 24] = [
    "name",
    "max_fails",
    "share",
    "share_weight",
    "budget",
    "on_finish",
    "on_failure",
    "on_stall",
    "notify",
    "stall_after",
    "stream",
    "log",
    "compress",
    "task",
    "array",
    "after",
    "after_any",
    "generate",
    "generate_json",
    "ahead",
    "reduce",
    "reduce_failed",
    "reduce_order",
    "data_layer",
];

/// Jobs that are submitted together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreparedJobs {
    /// The jobs, each behind those that it waits for.
    pub jobs: Vec<NewJob>,
    /// For each of them its place in the file, from 0.
    pub places: Vec<usize>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What a job file is of.
#[derive(Clone, Debug, PartialEq)]
pub enum JobFile {
    /// Tasks of one job.
    One(PreparedFile),
    /// Jobs that are made together, or one with a generator.
    Jobs(PreparedJobs),
}

// A job, and the places of those that it waits for.
struct Table {
    label: String,
    job: NewJob,
}

/// As [`super::prepare_file`], of a file that may have several jobs or a generator, too.
///
/// # Errors
/// As there; and when such a file is to go to an open job.
pub fn prepare_job_file(
    path: &Path,
    content: &str,
    job: Option<JobId>,
    submit_dir: &[u8],
) -> Result<JobFile, OptionsError> {
    let wrong = |message: String| OptionsError::JobFile { path: path.into(), message };
    let (mut file, tables) = Tables::read(path, content, submit_dir)?;
    let groups = file.job.take().filter(|jobs| !jobs.is_empty());
    let is_fed = file.generate.is_some();
    if job.is_some() && (groups.is_some() || is_fed) {
        return Err(wrong("[[job]] tables and generators create their own jobs; omit --job".into()));
    }
    if let Some(groups) = groups {
        let beside = file.beside_jobs().or((!tables.is_empty()).then_some("task"));
        if let Some(key) = beside {
            return Err(wrong(format!("{key} and [[job]] cannot be combined: each job has its own")));
        }
        return Ok(JobFile::Jobs(jobs(path, groups, submit_dir)?));
    }
    if file.after.is_some() || file.after_any.is_some() {
        return Err(wrong("after and after_any belong in [array], [[task]] or [[job]]".into()));
    }
    if is_fed {
        let (job, warnings) = job_tasks(path, file, tables, submit_dir)?;
        return Ok(JobFile::Jobs(PreparedJobs { jobs: vec![job], places: vec![0], warnings }));
    }
    Ok(JobFile::One(prepared(path, file, tables, (job, false), submit_dir)?))
}

// Reads the tables.
fn jobs(path: &Path, tables: Vec<toml::Table>, submit_dir: &[u8]) -> Result<PreparedJobs, OptionsError> {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let labels: Vec<String> = (tables.iter().enumerate())
        .map(|(place, table)| match table.get("name").and_then(toml::Value::as_str) {
            Some(name) => format!("job `{name}`"),
            None => format!("job {}", place + 1),
        })
        .collect();
    for (place, table) in tables.iter().enumerate() {
        if let Some(name) = table.get("name").and_then(toml::Value::as_str)
            && let Some(other) = names.insert(name.to_owned(), place)
        {
            return Err(OptionsError::JobFileTable {
                path: path.into(),
                table: format!("job {}", place + 1),
                message: format!("the name `{name}` is already used by job {} of the file", other + 1),
            });
        }
    }
    let mut found = Vec::with_capacity(tables.len());
    let mut warnings = Vec::new();
    for (label, table) in labels.into_iter().zip(tables) {
        let inner = table_of(path, table, &names, submit_dir);
        let (job, more) = inner.map_err(|error| within(path, &label, error))?;
        for warning in more {
            let warning = format!("{label}: {warning}");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        found.push(Table { label, job });
    }
    let order = order(&found).map_err(|message| OptionsError::JobFile { path: path.into(), message })?;
    Ok(in_order(found, order, warnings))
}

fn table_of(
    path: &Path,
    mut table: toml::Table,
    names: &BTreeMap<String, usize>,
    submit_dir: &[u8],
) -> Result<(NewJob, Vec<String>), OptionsError> {
    let wrong = |message: String| OptionsError::JobFile { path: path.into(), message };
    // Short for its ids.
    if let Some(toml::Value::String(ids)) = table.get("array").cloned() {
        table.remove("array");
        if table.insert("ids".into(), ids.into()).is_some() {
            return Err(wrong("array and ids both define the tasks; keep only one of them".into()));
        }
    }
    let (mut head, of_tasks): (toml::Table, toml::Table) =
        table.into_iter().partition(|(key, _)| OF_JOB.contains(&key.as_str()));
    if !of_tasks.is_empty() {
        if let Some(other) = ["array", "task"].into_iter().find(|key| head.contains_key(*key)) {
            let key = of_tasks.keys().next().map_or("", String::as_str);
            return Err(wrong(format!("{key} is next to {other}, but belongs inside it")));
        }
        head.insert("array".into(), of_tasks.into());
    }
    let file: File = head.try_into().map_err(|error: toml::de::Error| wrong(with_key(&error)))?;
    let (mut file, tables) = Tables::of(path, file, submit_dir)?;
    let mut after = Vec::new();
    let mut others = Vec::new();
    let listed = [("after", Condition::Success), ("after_any", Condition::AnyEnd)];
    for ((key, condition), texts) in listed.into_iter().zip(file.take_after()) {
        for text in texts {
            match (names.get(&text), text.parse::<After>()) {
                (Some(place), _) => {
                    after.push(After { condition, ..After::of(JobId(*place as u32)) });
                }
                (None, Ok(other)) => others.push(After { condition, ..other }),
                (None, Err(_)) => {
                    let whole =
                        text.split_once('@').map(|(job, _)| job).filter(|job| names.contains_key(*job));
                    let message = match whole {
                        Some(job) => format!(
                            "{key}: `{text}` names tasks of a job of this file; tables wait for whole jobs: use `{job}`"
                        ),
                        None => format!("{key}: no job of the file is named `{text}`"),
                    };
                    return Err(wrong(message));
                }
            }
        }
    }
    let (mut job, warnings) = job_tasks(path, file, tables, submit_dir)?;
    if !others.is_empty() {
        let submits = match &mut job.tasks {
            NewTasks::Submits(submits) => submits.iter_mut().collect::<Vec<_>>(),
            NewTasks::Fed { generator, .. } => vec![&mut **generator],
        };
        for submit in submits {
            std::sync::Arc::make_mut(&mut submit.dependencies).after.extend(others.iter().cloned());
        }
    }
    job.after = after;
    Ok((job, warnings))
}

// What is wrong with a value, with its key; an unknown key with those of the job, too.
fn with_key(error: &toml::de::Error) -> String {
    let (message, whole) = (error.message(), error.to_string());
    let key = whole.rsplit_once("\nin `").and_then(|(_, key)| key.trim_end().strip_suffix('`'));
    // The tasks of a table that has no table of its own for them.
    let key = key.map(|key| key.strip_prefix("array.").unwrap_or(key)).filter(|key| *key != "array");
    if message.starts_with("unknown field") && message.contains("`command`") {
        let of_job: Vec<String> =
            OF_JOB.iter().filter(|key| **key != "data_layer").map(|key| format!("`{key}`")).collect();
        return format!("{message}; or of the job {}", of_job.join(", "));
    }
    key.map_or_else(|| message.to_owned(), |key| format!("{key}: {message}"))
}

// What is wrong within a table, with its name.
fn within(path: &Path, label: &str, error: OptionsError) -> OptionsError {
    let (table, message) = match error {
        OptionsError::JobFileTable { table, message, .. } if table == "array" => (label.to_owned(), message),
        OptionsError::JobFileTable { table, message, .. } => (format!("{label}: {table}"), message),
        OptionsError::JobFile { message, .. } => (label.to_owned(), message),
        other => (label.to_owned(), other.to_string()),
    };
    OptionsError::JobFileTable { path: path.into(), table, message }
}

// The places of the tables, so that each comes behind those that it waits for; else as in the file.
fn order(tables: &[Table]) -> Result<Vec<usize>, String> {
    let waits: Vec<Vec<TaskId>> = tables
        .iter()
        .map(|table| table.job.after.iter().map(|after| TaskId(after.job.0)).collect())
        .collect();
    let mut order = Vec::with_capacity(tables.len());
    let mut is_there = vec![false; tables.len()];
    while order.len() < tables.len() {
        let is_next =
            |place: &usize| !is_there[*place] && waits[*place].iter().all(|on| is_there[on.0 as usize]);
        let Some(next) = (0..tables.len()).find(is_next) else {
            let ids = IdSet::range(0, tables.len() as u32 - 1);
            let found = Edges::new(&waits).and_then(|edges| find_cycle(&ids, &edges));
            let words: Vec<&str> =
                found.iter().flatten().map(|id| tables[id.0 as usize].label.as_str()).collect();
            return Err(format!("jobs wait for each other in a cycle: {}", words.join(" -> ")));
        };
        is_there[next] = true;
        order.push(next);
    }
    Ok(order)
}

fn in_order(tables: Vec<Table>, order: Vec<usize>, warnings: Vec<String>) -> PreparedJobs {
    let mut sent_at = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, place)| sent_at[*place] = at);
    let mut jobs: Vec<(usize, NewJob)> =
        tables.into_iter().enumerate().map(|(place, table)| (sent_at[place], table.job)).collect();
    jobs.sort_by_key(|(at, _)| *at);
    let mut jobs: Vec<NewJob> = jobs.into_iter().map(|(_, job)| job).collect();
    for after in jobs.iter_mut().flat_map(|job| &mut job.after) {
        after.job = JobId(sent_at[after.job.0 as usize] as u32);
    }
    PreparedJobs { jobs, places: order, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<PreparedJobs, String> {
        match prepare_job_file(Path::new("job.toml"), content, None, b"/here") {
            Ok(JobFile::Jobs(jobs)) => Ok(jobs),
            Ok(JobFile::One(file)) => panic!("{file:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    // `name after places: tasks` of each job, as it is sent.
    fn shown(content: &str) -> Vec<String> {
        let of = |job: &NewJob| {
            let after: Vec<String> =
                job.after.iter().map(|after| format!("{}{:?}", after.job, after.condition)).collect();
            let tasks = match &job.tasks {
                NewTasks::Submits(submits) => format!("{} submits", submits.len()),
                NewTasks::Fed { reducer, .. } => format!("fed, reduced: {}", reducer.is_some()),
            };
            format!("{} after {after:?}: {tasks}", job.spec.name).replace('"', "")
        };
        read(content).expect("jobs").jobs.iter().map(of).collect()
    }

    const GROUP: &str = r#"
        [[job]]
        name = "lookup"
        after = ["chains"]
        after_any = ["prepare"]
        generate = "./lookup.py table"
        command = ["./step", "%{ENTRY}"]
        [[job]]
        name = "chains"
        generate = ["./chains.py", "--length", "10000"]
        generate_json = true
        ahead = 7
        command = ["./step", "%{ENTRY}"]
        result = "last-line"
        reduce = ["./merge.py", "table"]
        reduce_order = "id"
        priority = 5
        share = "8.."
        [[job]]
        name = "prepare"
        array = "1-3"
        command = ["./prepare"]
        [[job]]
        [job.array]
        entries = ["a", "b"]
        command = ["/bin/plain", "%{ENTRY}"]
        [[job]]
        name = "graph"
        [[job.task]]
        command = ["a"]
        name = "first"
        [[job.task]]
        command = ["b"]
        deps = ["first"]
        "#;

    #[test]
    fn each_table_is_a_job_behind_those_that_it_waits_for() {
        let jobs = read(GROUP).expect("jobs");
        assert_eq!(jobs.places, [1, 2, 0, 3, 4]);
        assert_eq!(jobs.warnings, Vec::<String>::new());
        assert_eq!(
            shown(GROUP),
            [
                "chains after []: fed, reduced: true",
                "prepare after []: 1 submits",
                "lookup after [0Success, 1AnyEnd]: fed, reduced: false",
                "plain after []: 1 submits",
                "graph after []: 2 submits",
            ]
        );
        let NewTasks::Fed { generator, reducer } = &jobs.jobs[0].tasks else { panic!("fed") };
        let words = |own: &hq_model::Submit| {
            let words = own.spec.body.texts().iter().map(|word| String::from_utf8_lossy(word).into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(generator), "%{HQ} feed generate --json --ahead=7 -- ./chains.py --length 10000");
        let reducer = reducer.as_ref().expect("a reducer");
        assert_eq!(words(reducer), "%{HQ} feed reduce --in-order -- ./merge.py table");
        assert_eq!((generator.spec.priority, jobs.jobs[0].spec.share.is_some()), (5, true));
        let template = hq_proto::decode_submit(&generator.spec.stdin).expect("a submit");
        assert_eq!(template.spec.result, hq_model::result::ResultFrom::LastLine);
    }

    #[test]
    fn other_jobs_may_be_waited_for_by_their_numbers() {
        let jobs = read("[[job]]\nafter=[\"7@0-3\"]\ncommand=[\"a\"]\n").expect("jobs");
        let NewTasks::Submits(submits) = &jobs.jobs[0].tasks else { panic!("tasks") };
        assert_eq!(submits[0].dependencies.after.len(), 1);
        assert_eq!(jobs.jobs[0].after, Vec::new());
    }

    #[test]
    fn mistakes_are_named_with_the_job() {
        let a = "[[job]]\nname=\"a\"\ncommand=[\"x\"]\n";
        for (content, expected) in [
            (a.repeat(2), "job.toml: job 2: the name `a` is already used by job 1 of the file"),
            (
                format!("{a}array=\"1-3\"\nids=\"1-2\"\n"),
                "job `a`: array and ids both define the tasks; keep only one of them",
            ),
            (format!("{a}after=[\"b\"]\n"), "job.toml: job `a`: after: no job of the file is named `b`"),
            (format!("{a}after_any=[\"b c\"]\n"), "job `a`: after_any: no job of the file is named `b c`"),
            (
                format!("{a}[[job]]\nname=\"b\"\nafter=[\"a@1-8\"]\ncommand=[\"x\"]\n"),
                "tables wait for whole jobs: use `a`",
            ),
            (
                format!("{a}after=[\"b\"]\n[[job]]\nname=\"b\"\ncommand=[\"x\"]\nafter_any=[\"a\"]\n"),
                "job.toml: jobs wait for each other in a cycle: job `a` -> job `b` -> job `a`",
            ),
            (format!("{a}after=[\"a\"]\n"), "in a cycle: job `a` -> job `a`"),
            (format!("{a}cpus=1\n"), "job.toml: job `a`: unknown field `cpus`"),
            (format!("{a}ahead=5\n"), "job `a`: generate_json, ahead and reduce need generate"),
            (format!("{a}generate=[]\n"), "job `a`: generate: it names no program"),
            (format!("{a}generate=\"'x\"\n"), "job `a`: generate: it has an unclosed quote"),
            (
                format!("{a}generate=\"x\"\nahead=0\n"),
                "job `a`: ahead: with 0, no task would ever be created",
            ),
            (
                format!("{a}generate=\"x\"\nids=\"1-3\"\n"),
                "job `a`: generate creates the tasks: omit ids and entries",
            ),
            (
                format!("{a}generate=\"x\"\nreduce=\"x\"\nreduce_order=\"size\"\n"),
                "job `a`: reduce_order: `size` is not id",
            ),
            (format!("{a}generate=\"x\"\nkey=\"k\"\n"), "job `a`: key belongs to [[task]]"),
            (format!("{a}share=\"9..1\"\n"), "job `a`: "),
            (
                format!("{a}[job.array]\ncommand=[\"x\"]\n"),
                "job `a`: command is next to array, but belongs inside it",
            ),
            (
                "[[job]]\nname=\"a\"\n[[job.task]]\ncommand=[]\n".into(),
                "job `a`: task 1: there is no command",
            ),
            (
                "[[job]]\nname=\"a\"\ngenerate=\"x\"\n[[job.task]]\ncommand=[\"x\"]\n".into(),
                "job `a`: generate creates the tasks",
            ),
            ("[[job]]\nname=\"a\"\n".into(), "job `a`: there are no tasks"),
            ("[[job]]\nname=\"\"\ncommand=[\"x\"]\n".into(), "job ``: name: the name is empty"),
            (
                "[[job]]\nname=3\ncommand=[\"x\"]\n".into(),
                "job 1: name: invalid type: integer `3`, expected a string",
            ),
            (
                format!("{a}generate=5\n"),
                "job `a`: generate: invalid type: integer `5`, expected a string, or a list of strings",
            ),
            (format!("{a}after=[999]\n"), "job `a`: after: invalid type: integer `999`, expected a string"),
            (
                "[[job]]\nname=\"a\"\ncommand=\"true\"\n".into(),
                "job `a`: command: invalid type: string \"true\", expected a sequence",
            ),
            (format!("{a}cpus=1\n"), "or of the job `name`, `max_fails`"),
            ("[job]\nname=\"a\"\n".into(), "job.toml: job: use [[job]], because there can be several"),
            (
                format!("name=\"all\"\n{a}"),
                "job.toml: name and [[job]] cannot be combined: each job has its own",
            ),
            (format!("{a}[[task]]\ncommand=[\"x\"]\n"), "job.toml: task and [[job]] cannot be combined"),
            (format!("{a}[array]\ncommand=[\"x\"]\n"), "job.toml: array and [[job]] cannot be combined"),
            ("job = []\n".into(), "job.toml: there are no tasks"),
            (
                "after=[\"1\"]\n[array]\ncommand=[\"x\"]\n".into(),
                "job.toml: after and after_any belong in [array], [[task]] or [[job]]",
            ),
        ] {
            let error = read(&content).expect_err(&content);
            assert!(error.contains(expected), "{content:?}: {error}");
        }
    }

    #[test]
    fn a_file_of_one_job_may_have_a_generator() {
        let jobs = read(
            "name=\"n\"\ngenerate=\"./g\"\nreduce=\"./r\"\nreduce_failed=true\n[array]\ncommand=[\"x\"]\n",
        );
        let jobs = jobs.expect("a job").jobs;
        assert!(matches!(&jobs[..], [NewJob { tasks: NewTasks::Fed { .. }, .. }]), "{jobs:?}");
        let error = read("generate=\"./g\"\n").expect_err("no tasks");
        assert!(error.contains("there are no tasks"), "{error}");
        let into = prepare_job_file(
            Path::new("f"),
            "generate=\"./g\"\n[array]\ncommand=[\"x\"]\n",
            Some(JobId(3)),
            b"/",
        );
        let error = into.expect_err("no open job").to_string();
        assert!(error.contains("--job"), "{error}");
    }
}
