//! The `[[task]]` tables of a job file: read part by part, so that a long file needs little memory, and made into few
//! submits, since neighbors that differ in their ids only are one array.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use hq_model::key::check_key;
use hq_model::{Dependencies, Entries, IdSet, JobId, Submit, TaskId, TaskSpec};
use serde::Deserialize;

use super::error::OptionsError;
use super::graph::{Dep, Graph, maps_all};
use super::job_file::{File, SERVICE_WITHOUT_KEY, SubmitsOf, Task, Together, checked};
use super::objects::put_task;
use super::placeholders::of_text;
use super::same_paths::OfTables;
use crate::limits;

/// The tasks of a file, checked one by one.
#[derive(Default)]
pub(super) struct Tables {
    tables: Vec<Table>,
    first_name: String,
    // What the file says of it.
    together: Together,
    warnings: Vec<String>,
    paths: OfTables,
    has_same_paths: bool,
}

// A task: what it has in common with its neighbors, and what it has for itself.
struct Table {
    spec: Arc<TaskSpec>,
    dependencies: Arc<Dependencies>,
    id: Option<u32>,
    name: Option<String>,
    key: Option<String>,
    deps: Vec<Dep>,
    // Which of its inputs is an object of another task of the file.
    own: Vec<(usize, Dep)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    task: Vec<Task>,
}

impl Tables {
    /// Reads a job file; what is not in `[[task]]` tables is given beside them.
    ///
    /// # Errors
    /// When it is no TOML, or a table has values that are none.
    pub(super) fn read(
        path: &Path,
        content: &str,
        submit_dir: &[u8],
    ) -> Result<(File, Tables), OptionsError> {
        let mut tables = Tables::default();
        if let Some(file) = tables.read_parts(path, content, submit_dir)? {
            return Ok((file, tables));
        }
        let wrong = |error: toml::de::Error| OptionsError::JobFile {
            path: path.into(),
            message: match is_one_table(content, "job") {
                true => "job: use [[job]], because there can be several".to_owned(),
                false => error.to_string().trim_end().to_owned(),
            },
        };
        Tables::of(path, toml::from_str(content).map_err(wrong)?, submit_dir)
    }

    /// Takes the `[[task]]` tables out of a file that was read as a whole.
    ///
    /// # Errors
    /// When a table has values that are none.
    pub(super) fn of(path: &Path, mut file: File, submit_dir: &[u8]) -> Result<(File, Tables), OptionsError> {
        let together = file.together();
        let together = together.map_err(|message| OptionsError::JobFile { path: path.into(), message })?;
        let mut tables = Tables { together, ..Tables::default() };
        tables.add(path, file.task.take().unwrap_or_default(), submit_dir)?;
        Ok((file, tables))
    }

    // `None` when it must be read as a whole: it is short, has something that looks like a table within a text, or is
    // wrong, which is told best with the place in the file.
    fn read_parts(
        &mut self,
        path: &Path,
        content: &str,
        submit_dir: &[u8],
    ) -> Result<Option<File>, OptionsError> {
        let (head, parts) = split(content);
        if parts.len() < 2 {
            return Ok(None);
        }
        let Some(file) = toml::from_str::<File>(head).ok().filter(|file| file.task.is_none()) else {
            return Ok(None);
        };
        // What is wrong with it is told when the file is read as a whole.
        let Ok(together) = file.together() else { return Ok(None) };
        self.together = together;
        for part in parts {
            let Ok(Part { task }) = toml::from_str(part) else { return Ok(None) };
            self.add(path, task, submit_dir)?;
        }
        Ok(Some(file))
    }

    fn add(&mut self, path: &Path, tasks: Vec<Task>, submit_dir: &[u8]) -> Result<(), OptionsError> {
        for mut task in tasks {
            let place = self.tables.len() + 1;
            let id = task.id;
            let table = || id.map_or_else(|| format!("task {place}"), |id| format!("task with id {id}"));
            let wrong =
                |message: String| OptionsError::JobFileTable { path: path.into(), table: table(), message };
            if task.ids.is_some() || task.entries.is_some() {
                return Err(wrong("ids and entries belong to [array]; a task has one id".into()));
            }
            if place == 1 {
                self.first_name = task.job_name();
            }
            let dependencies = task.dependencies(submit_dir).map_err(wrong)?;
            let (name, key, deps) = (task.name.take(), task.key.take(), std::mem::take(&mut task.deps));
            if task.service && key.is_none() {
                return Err(wrong(SERVICE_WITHOUT_KEY.into()));
            }
            let keys = key.iter().flat_map(|key| of_text(key.as_bytes(), "key", &[]));
            let files = dependencies.files.iter().flat_map(|file| of_text(file, "after_files", &[]));
            for warning in keys.chain(files) {
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
            if let Some(key) = &key {
                check_key(key.as_bytes()).map_err(|error| wrong(format!("key: {error}")))?;
            }
            let own = task.objects().map_err(wrong)?.own;
            let spec = task.spec(self.together.clone()).map_err(wrong)?;
            let last = self.tables.last();
            if !self.has_same_paths {
                let same = self.paths.note(&spec, &table());
                self.has_same_paths = same.is_some();
                self.warnings.extend(same);
            }
            let spec = match last.filter(|last| *last.spec == spec) {
                Some(last) => Arc::clone(&last.spec),
                None => {
                    for warning in checked(&spec, &Entries::default(), (1, false)).map_err(wrong)? {
                        if !self.warnings.contains(&warning) {
                            self.warnings.push(warning);
                        }
                    }
                    Arc::new(spec)
                }
            };
            let dependencies = match last.filter(|last| *last.dependencies == dependencies) {
                Some(last) => Arc::clone(&last.dependencies),
                None => Arc::new(dependencies),
            };
            self.tables.push(Table { spec, dependencies, id, name, key, deps, own });
        }
        Ok(())
    }

    /// True when there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// What the first one is called.
    pub(super) fn first_name(&self) -> Option<&str> {
        (!self.is_empty()).then_some(self.first_name.as_str())
    }

    /// Their submits, in the order of the file or, where some wait for others, in one in which they can be submitted;
    /// and what the user should know. `job` is the open job they go to.
    ///
    /// # Errors
    /// When an id, a name or a key is given twice, or they wait for each other.
    pub(super) fn submits(
        mut self,
        of: &SubmitsOf<'_>,
        job: Option<JobId>,
    ) -> Result<(Vec<Submit>, Vec<String>), OptionsError> {
        let in_file = |message: String| OptionsError::JobFile { path: of.path.into(), message };
        let mut ids = Ids::new(&self.tables).map_err(in_file)?;
        let has_edges = self.tables.iter().any(|table| !table.deps.is_empty() || !table.own.is_empty());
        let mut graph = Graph::default();
        let mut arrays = Arrays { of, is_one_by_one: has_edges, submits: Vec::new(), array: None };
        let wrong_in = |place: usize, given: Option<u32>, message: String| {
            let name = match given {
                Some(id) => format!("task with id {id}"),
                None => format!("task {}", place + 1),
            };
            of.wrong(&name, message)
        };
        let mut numbered: Vec<TaskId> = Vec::with_capacity(self.tables.len());
        for (place, table) in self.tables.iter_mut().enumerate() {
            let wrong = |message: String| wrong_in(place, table.id, message);
            let id = TaskId(ids.of(table.id).map_err(wrong)?);
            if let Some(key) = &table.key {
                graph.note_key(key, id).map_err(wrong)?;
            }
            let mut deps = std::mem::take(&mut table.deps);
            deps.extend(table.own.iter().map(|(_, task)| task.clone()));
            graph.add(id, table.name.take(), deps).map_err(wrong)?;
            numbered.push(id);
        }
        for ((place, table), id) in self.tables.into_iter().enumerate().zip(numbered) {
            let wrong = |message: String| wrong_in(place, table.id, message);
            let mut spec = table.spec;
            for (input, task) in &table.own {
                let Dep::Name(name) = task else { continue };
                let task = graph
                    .named_task(name)
                    .ok_or_else(|| wrong(format!("input_objects: no task of the file is named `{name}`")))?;
                put_task(&mut Arc::make_mut(&mut spec).input_objects[*input], task);
            }
            arrays.add(id, table.key, spec, table.dependencies);
        }
        let mut submits = arrays.end();
        if has_edges {
            submits = graph.in_order(submits, job).map_err(in_file)?;
        }
        Ok((submits, self.warnings))
    }
}

// What comes before the first table, and the tables in parts.
fn split(content: &str) -> (&str, Vec<&str>) {
    let mut starts = Vec::new();
    let (mut at, mut tables) = (0, 0);
    for line in content.split_inclusive('\n') {
        if is_task(line) {
            if tables % limits::TABLES_PER_PART == 0 {
                starts.push(at);
            }
            tables += 1;
        }
        at += line.len();
    }
    let head = &content[..starts.first().copied().unwrap_or(content.len())];
    let ends = starts.iter().skip(1).copied().chain([content.len()]);
    (head, starts.iter().zip(ends).map(|(start, end)| &content[*start..end]).collect())
}

fn is_task(line: &str) -> bool {
    let name = line.trim_start().strip_prefix("[[").map(str::trim_start);
    name.and_then(|name| name.strip_prefix("task")).is_some_and(|rest| rest.trim_start().starts_with("]]"))
}

// Which ids tasks without one get.
struct Ids {
    // Behind the largest; nothing when there is none.
    next: Option<u32>,
}

impl Ids {
    fn new(tables: &[Table]) -> Result<Ids, String> {
        let mut seen = BTreeSet::new();
        for id in tables.iter().filter_map(|table| table.id) {
            if !seen.insert(id) {
                return Err(format!("Task {id} is defined multiple times."));
            }
        }
        Ok(Ids { next: seen.last().map_or(Some(0), |last| last.checked_add(1)) })
    }

    fn of(&mut self, given: Option<u32>) -> Result<u32, String> {
        if let Some(id) = given {
            return Ok(id);
        }
        let id = self.next.ok_or_else(|| {
            format!("No task id is left behind the largest of the file; ids go up to {}.", u32::MAX)
        })?;
        self.next = id.checked_add(1);
        Ok(id)
    }
}

// Gathers neighbors that differ in their ids and keys only.
struct Arrays<'a> {
    of: &'a SubmitsOf<'a>,
    is_one_by_one: bool,
    submits: Vec<Submit>,
    array: Option<Array>,
}

struct Array {
    ids: IdSet,
    last: TaskId,
    keys: Vec<String>,
    spec: Arc<TaskSpec>,
    dependencies: Arc<Dependencies>,
}

impl Arrays<'_> {
    fn add(&mut self, id: TaskId, key: Option<String>, spec: Arc<TaskSpec>, dependencies: Arc<Dependencies>) {
        let is_alike = |array: &&mut Array| {
            array.last < id
                && array.keys.is_empty() == key.is_none()
                && Arc::ptr_eq(&array.spec, &spec)
                && Arc::ptr_eq(&array.dependencies, &dependencies)
                && maps_all(&dependencies)
        };
        match self.array.as_mut().filter(|array| !self.is_one_by_one && is_alike(array)) {
            Some(array) => {
                array.ids.insert(id);
                array.last = id;
                array.keys.extend(key);
            }
            None => {
                let keys = key.into_iter().collect();
                let array = Array { ids: IdSet::single(id), last: id, keys, spec, dependencies };
                let before = self.array.replace(array);
                self.push(before);
            }
        }
    }

    fn push(&mut self, array: Option<Array>) {
        let Some(Array { ids, keys, spec, dependencies, .. }) = array else { return };
        // A file is far too short for more keys than fit.
        let keys = Entries::new(keys.iter().map(String::as_bytes)).unwrap_or_default();
        self.submits.push(Submit { keys, ..self.of.submit(ids, spec, dependencies) });
    }

    fn end(mut self) -> Vec<Submit> {
        let last = self.array.take();
        self.push(last);
        self.submits
    }
}

// True where one table is written as if it were the only one.
fn is_one_table(content: &str, key: &str) -> bool {
    let file = content.parse::<toml::Table>();
    file.is_ok_and(|file| file.get(key).is_some_and(toml::Value::is_table))
}

#[cfg(test)]
mod tests {
    use hq_model::job::TaskIds;

    use super::super::job_file::{PreparedFile, prepare_file};
    use super::*;

    fn read(content: &str) -> Result<PreparedFile, String> {
        prepare_file(Path::new("job.toml"), content, None, b"/here").map_err(|error| error.to_string())
    }

    // `ids[keys] program` of each submit.
    fn submits(content: &str) -> Vec<String> {
        let shown = |submit: &Submit| {
            let TaskIds::Given(ids) = &submit.ids else { panic!("ids") };
            let keys: Vec<_> = submit.keys.iter().map(String::from_utf8_lossy).collect();
            format!("{ids}[{}] {}", keys.join(","), String::from_utf8_lossy(submit.spec.body.name()))
        };
        read(content).expect("a job").submits.iter().map(shown).collect()
    }

    #[test]
    fn neighbours_that_differ_in_their_ids_only_are_one_array() {
        let same = "[[task]]\ncommand = [\"a\"]\n";
        assert_eq!(submits(&same.repeat(100_000)), ["0-99999[] a"]);
        let of = |id: u32| format!("[[task]]\nid = {id}\ncommand = [\"a\"]\n");
        assert_eq!(submits(&[1, 2, 9, 5].map(of).concat()), ["1-2,9[] a", "5[] a"], "their order stays");
        let other = "[[task]]\ncommand = [\"b\"]\n";
        assert_eq!(submits(&[same, same, other, same].concat()), ["0-1[] a", "2[] b", "3[] a"]);
        let named = |name: &str| format!("{same}name = \"{name}\"\n");
        assert_eq!(submits(&["x", "y"].map(named).concat()), ["0-1[] a"]);
        let keyed = |key: &str| format!("{same}key = \"{key}\"\n");
        assert_eq!(
            submits(&[&keyed("x"), &keyed("y"), same].map(|text| text.to_owned()).concat()),
            ["0-1[x,y] a", "2[] a"]
        );
        let each = format!("{same}after = [\"1\"]\neach = true\n");
        assert_eq!(submits(&each.repeat(2)), ["0[] a", "1[] a"], "places in a submit count");
    }

    #[test]
    fn objects_of_other_tasks_of_the_file_come_first() {
        let file = "[[task]]\nname = \"work\"\ncommand = [\"a\"]\ninput_objects = [\"in=@split:parts\", \"x=1@2:y\"]\n\
                    [[task]]\nkey = \"split\"\ncommand = [\"b\"]\noutput_objects = [\"parts=p.bin\"]\n";
        assert_eq!(submits(file), ["1[split] b", "0[] a"]);
        let read_file = read(file).expect("a job");
        let spec = &read_file.submits[1].spec;
        assert_eq!(spec.input_objects[0].to_string(), "in=@1:parts");
        assert_eq!(spec.input_objects[1].to_string(), "x=1@2:y");
        let of = |line: &str| {
            read(&format!("[[task]]\ncommand = [\"a\"]\nname = \"me\"\n{line}\n")).expect_err(line)
        };
        let wrong = |line: &str, expected: &str| {
            let error = of(line);
            assert!(error.contains(expected), "{error}");
        };
        wrong("input_objects = [\"in=@who:x\"]", "no task of the file is named `who`");
        wrong("input_objects = [\"in=@9:x\"]", "there is no task with id 9 in the file");
        wrong("input_objects = [\"in=@me:x\"]", "wait for each other in a cycle");
        wrong("input_objects = [\"in\"]", "task 1: input_objects: `in` is not NAME=JOB@TASK:NAME");
        wrong("output_objects = [\"a=x\", \"a=y\"]", "two output objects have the name `a`");
        let array = "[array]\ncommand = [\"a\"]\ninput_objects = [\"in=@x:y\"]";
        assert!(read(array).expect_err("an array").contains("only a [[task]] names another one"));
    }

    #[test]
    fn placeholders_of_keys_and_awaited_files_are_warned_of() {
        let of = |content: &str| read(content).expect("a job").warnings;
        let key = "Found unknown placeholder `JOB_IDD` in key; it is left unchanged";
        let file = "%{TASK_ID} is not replaced in after_files";
        let tables = "[[task]]\ncommand = [\"a\"]\nkey = \"x%{JOB_IDD}\"\nafter_files = [\"r-%{TASK_ID}\"]\n";
        assert_eq!(of(tables), [key, file]);
        assert_eq!(
            of("[array]\nids = \"1-2\"\ncommand = [\"a\"]\nafter_files = [\"r-%{TASK_ID}\"]\n"),
            [file]
        );
    }

    #[test]
    fn a_long_file_is_read_in_parts_as_it_is_read_as_a_whole() {
        let count = 2 * limits::TABLES_PER_PART + 1;
        let task = |id: usize| format!("  [[ task ]] # {id}\ncommand = [\"a\"]\nenv = {{ A = \"1\" }}\n");
        let tasks: String = (0..count).map(task).collect();
        let all = format!("0-{}[] a", count - 1);
        let head = "name = \"n\"\n";
        assert_eq!(submits(&[head, &tasks].concat()), [&*all]);
        let text = "[[task]]\nid = 0\ncommand = [\"b\", \"\"\"\n[[task]]\n\"\"\"]\n";
        let within = submits(&[head, text, &tasks].concat());
        assert_eq!(within, ["0[] b".to_owned(), format!("1-{count}[] a")], "in a text it is not a table");
        for (content, expected) in [
            ([head, &tasks, "[array]\ncommand = [\"a\"]\n"].concat(), "cannot be mixed"),
            ([head, &tasks, "[[task]]\ncommand = 1\n"].concat(), "TOML parse error at line"),
            ([head, &tasks, "[[task]]\ncommand = []\n"].concat(), "task 2002: there is no command"),
            (["task = []\n", &tasks].concat(), "TOML parse error"),
        ] {
            let error = read(&content).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
