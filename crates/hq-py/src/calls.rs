//! An open job of calls: what is submitted to it, and how its tasks end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hq_client::options::{call_spec, open_spec};
use hq_client::session::Next;
use hq_client::{Session, request_key};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobEnds};
use hq_model::body::{Body, EntryKind, Function};
use hq_model::dependency::{After, Dependencies, Edges};
use hq_model::job::{Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::{Entries, IdSet, JobId, JobSpec, JobState, Submit, TaskId, TaskSpec};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::sync::Notify;

use crate::error;
use crate::jobs;
use crate::objects::Objects;
use crate::session::ask;

/// Submits of one request.
const SUBMITS_MAX: usize = hq_core::limits::SUBMITS_MAX;
/// Specifications that are kept for the next call of the same function.
const SPECS_MAX: usize = 1000;

/// Ids of calls of those that come to a job of another client begin here, as in `_limits.py`.
const GUESTS_FROM: u32 = 1_000_000_000;

/// First and last id of each interval.
type Intervals = Vec<(u32, u32)>;

/// What calls have in common, where they begin, and their arguments: template, name, code, first id, entries, what some of
/// them wait for, keys.
type Batch = (usize, String, Vec<u8>, u32, Vec<Vec<u8>>, Vec<(u32, Vec<(u32, u32)>)>, Vec<String>);

/// How a task ended: its id, its state, what it left behind, the kind of its failure, and why.
type End<'py> = (u32, u8, Option<Bound<'py, PyBytes>>, &'static str, String);

/// An open job of calls. All of its methods may be called by several threads; one of them may wait for ends meanwhile.
#[pyclass(frozen, module = "headquarters._native")]
pub(crate) struct Calls {
    pid: u32,
    id: JobId,
    first: u32,
    server_dir: PathBuf,
    dir: Vec<u8>,
    asking: Mutex<Session>,
    hearing: Mutex<Session>,
    woken: Notify,
    templates: Mutex<Templates>,
}

#[derive(Default)]
struct Templates {
    all: Vec<TaskSpec>,
    specs: HashMap<(usize, String, Vec<u8>), Arc<TaskSpec>>,
}

#[pymethods]
impl Calls {
    #[new]
    #[pyo3(signature = (server_dir, options, *, job = None))]
    fn new(python: Python<'_>, server_dir: PathBuf, options: &str, job: Option<u32>) -> PyResult<Calls> {
        python.detach(|| {
            let connect = || Session::connect(&server_dir).map_err(|error| error::of_client(&error));
            let (mut asking, mut hearing) = (connect()?, connect()?);
            hearing.wait_for_lost_server(None);
            let (id, first) = match job {
                Some(job) => (JobId(job), next_id(&mut asking, JobId(job))?),
                None => {
                    let spec = open_spec(options).map_err(PyValueError::new_err)?;
                    (open(&mut asking, spec)?, 0)
                }
            };
            let dir = std::env::current_dir()?.into_os_string();
            Ok(Calls {
                pid: std::process::id(),
                id,
                first,
                server_dir,
                dir: std::os::unix::ffi::OsStringExt::into_vec(dir),
                asking: Mutex::new(asking),
                hearing: Mutex::new(hearing),
                woken: Notify::new(),
                templates: Mutex::default(),
            })
        })
    }

    /// Id of the job.
    #[getter]
    fn job(&self) -> u32 {
        self.id.0
    }

    /// The first id that no task of the job had when it was opened here.
    #[getter]
    fn next_id(&self) -> u32 {
        self.first
    }

    /// The objects of its server.
    fn objects(&self) -> Objects {
        Objects::new(self.server_dir.clone())
    }

    /// Names the server.
    #[getter]
    fn server_uid(&self) -> String {
        lock(&self.asking).server_uid().to_owned()
    }

    /// What calls have in common: options in JSON, as in the `[[task]]` of a job file, variables and the words of the
    /// interpreter. Returns its number here.
    fn template(
        &self,
        options: &str,
        env: Vec<(String, String)>,
        interpreter: Vec<String>,
    ) -> PyResult<usize> {
        let interpreter = interpreter.into_iter().map(String::into_bytes).collect();
        let function = Function { interpreter, entry: EntryKind::Packed, ..Function::default() };
        let mut spec = call_spec(options, function).map_err(PyValueError::new_err)?;
        spec.env.extend(env.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())));
        let mut templates = lock(&self.templates);
        templates.all.push(spec);
        Ok(templates.all.len() - 1)
    }

    /// Submits calls, all or none. Returns the ids of batches with keys.
    fn submit(&self, python: Python<'_>, batches: Vec<Batch>) -> PyResult<Vec<u32>> {
        self.with(python, &self.asking, |session| {
            let mut submits = Vec::with_capacity(batches.len());
            // Of each call with a key, its place among all calls.
            let (mut keyed, mut place) = (Vec::new(), 0);
            for batch in batches {
                let count = batch.4.len() as u32;
                if !batch.6.is_empty() {
                    keyed.extend(place..place + count);
                }
                place += count;
                self.add_submits(batch, &mut submits)?;
            }
            if submits.is_empty() {
                return Ok(Vec::new());
            }
            if submits.len() > SUBMITS_MAX {
                return Err(PyValueError::new_err(format!("more than {SUBMITS_MAX} kinds of calls at once")));
            }
            let key = request_key().map_err(|error| error::of_client(&error))?;
            let request = ClientRequest::SubmitAll { key, submits };
            let ClientResponse::Submitted { ids, existing, .. } = ask(session, request)? else {
                return Err(error::unexpected());
            };
            let existing: HashMap<u32, TaskId> = existing.into_iter().collect();
            // Ids are given in order of places, to those that are new.
            let mut new = ids.iter();
            let given = (0..place).map(|place| (place, existing.get(&place).copied().or_else(|| new.next())));
            let given: HashMap<u32, TaskId> =
                given.filter_map(|(place, task)| task.map(|task| (place, task))).collect();
            let id = |place: &u32| given.get(place).map(|task| task.0).ok_or_else(error::unexpected);
            keyed.iter().map(id).collect()
        })
    }

    /// Waits until tasks have ended that are not among the known ones, and says how. An empty list after `wake`, and `None`
    /// when the job is over and all is known.
    fn ends<'py>(&self, python: Python<'py>, known: Intervals) -> PyResult<Option<Vec<End<'py>>>> {
        let ends = self.with(python, &self.hearing, |session| {
            let request = ClientRequest::AwaitEnds { job: self.id, known: id_set(&known) };
            let mut watch = session.watch(request).map_err(|error| error::of_client(&error))?;
            let woken = pin!(self.woken.notified());
            match watch.next_or(woken).map_err(|error| error::of_client(&error))? {
                Next::Response(ClientResponse::Ends(ends)) => Ok(Some(ends)),
                Next::Response(_) => Err(error::unexpected()),
                Next::Other(()) => Ok(None),
            }
        })?;
        let Some(ends) = ends else { return Ok(Some(Vec::new())) };
        Ok(Some(list(python, *ends)).filter(|ends| !ends.is_empty()))
    }

    /// Has the thread return that waits for ends, or the next one that would.
    fn wake(&self) {
        self.woken.notify_one();
    }

    /// Cancels tasks, those that no worker has or all, and returns those that this has canceled.
    fn cancel(&self, python: Python<'_>, ids: Intervals, only_waiting: bool) -> PyResult<Intervals> {
        self.with(python, &self.asking, |session| {
            let tasks = id_set(&ids);
            let request = match only_waiting {
                true => ClientRequest::CancelWaiting { job: self.id, tasks },
                false => ClientRequest::Cancel { jobs: only(self.id), tasks: Some(tasks), reason: None },
            };
            let ClientResponse::Canceled(canceled) = ask(session, request)? else {
                return Err(error::unexpected());
            };
            Ok(canceled.iter().flat_map(|(_, ids, _)| ids.ranges()).map(|r| (*r.start(), *r.end())).collect())
        })
    }

    /// What is known of a task.
    fn info<'py>(&self, python: Python<'py>, task: u32) -> PyResult<Bound<'py, PyDict>> {
        let found = self.with(python, &self.asking, |session| {
            let request = ClientRequest::ListTasks {
                jobs: only(self.id),
                tasks: Some(IdSet::single(TaskId(task))),
                states: Vec::new(),
                after: None,
                limit: 1,
                grouped: false,
                with_entries: false,
            };
            match ask(session, request)? {
                ClientResponse::Tasks { mut tasks, .. } => Ok(tasks.pop()),
                _ => Err(error::unexpected()),
            }
        })?;
        let dict = PyDict::new(python);
        let Some((_, info)) = found else { return Ok(dict) };
        let seconds = |time: hq_model::Timestamp| time.0 as f64 / 1e6;
        dict.set_item("state", info.state.word())?;
        dict.set_item("instance", info.instance.0)?;
        dict.set_item("worker", info.worker.map(|worker| worker.0))?;
        dict.set_item("started", info.started.map(seconds))?;
        dict.set_item("ended", info.ended.map(seconds))?;
        dict.set_item("error", info.error)?;
        if let Some(usage) = info.usage {
            let used = PyDict::new(python);
            used.set_item("wall_s", usage.wall_us as f64 / 1e6)?;
            used.set_item("user_s", usage.user_us as f64 / 1e6)?;
            used.set_item("system_s", usage.system_us as f64 / 1e6)?;
            used.set_item("rss_max_kib", usage.rss_max_kib)?;
            dict.set_item("usage", used)?;
        }
        Ok(dict)
    }

    /// Why a task waits, in words.
    fn explain(&self, python: Python<'_>, task: u32) -> PyResult<String> {
        self.with(python, &self.asking, |session| {
            let request = ClientRequest::ExplainTask { jobs: only(self.id), task: TaskId(task) };
            match ask(session, request)? {
                ClientResponse::Explained(told) => {
                    let reasons: Vec<String> = told.reasons.into_iter().map(|reason| reason.text).collect();
                    Ok(if reasons.is_empty() { format!("it is {}", told.state) } else { reasons.join("\n") })
                }
                _ => Err(error::unexpected()),
            }
        })
    }

    /// True when more calls can be added.
    fn is_open(&self, python: Python<'_>) -> PyResult<bool> {
        self.with(python, &self.asking, |session| Ok(jobs::info(session, self.id.0)?.is_open))
    }

    /// No more calls come: the job ends when its tasks have.
    fn close(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, &self.asking, |session| {
            ask(session, ClientRequest::CloseJobs { jobs: only(self.id) }).map(|_| ())
        })
    }
}

impl Calls {
    fn with<T: Send>(
        &self,
        python: Python<'_>,
        session: &Mutex<Session>,
        work: impl FnOnce(&mut Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        if self.pid != std::process::id() {
            return Err(error::Forked::new_err(()));
        }
        python.detach(|| work(&mut lock(session)))
    }

    fn spec(&self, template: usize, name: String, code: Vec<u8>) -> PyResult<Arc<TaskSpec>> {
        let mut templates = lock(&self.templates);
        let key = (template, name, code);
        if let Some(spec) = templates.specs.get(&key) {
            return Ok(spec.clone());
        }
        let mut spec = templates
            .all
            .get(template)
            .cloned()
            .ok_or_else(|| PyValueError::new_err(format!("there is no template {template}")))?;
        if let Body::Function(function) = &mut spec.body {
            (function.name, function.code) = (key.1.clone(), key.2.clone());
            function.check().map_err(|rule| PyValueError::new_err(format!("a function {rule}")))?;
        }
        let spec = Arc::new(spec);
        if templates.specs.len() >= SPECS_MAX {
            templates.specs.clear();
        }
        templates.specs.insert(key, spec.clone());
        Ok(spec)
    }

    // One submit of a batch, but for those that wait for tasks of other jobs: each of these comes alone.
    fn add_submits(&self, batch: Batch, submits: &mut Vec<Submit>) -> PyResult<()> {
        let (template, name, code, first, entries, waits, keys) = batch;
        let spec = self.spec(template, name, code)?;
        let mut own: HashMap<u32, Vec<TaskId>> = HashMap::new();
        let mut others: HashMap<u32, Vec<After>> = HashMap::new();
        for (index, targets) in waits {
            for (job, task) in targets {
                match JobId(job) == self.id {
                    true => own.entry(index).or_default().push(TaskId(task)),
                    false => {
                        let tasks = Some(IdSet::single(TaskId(task)));
                        let after = After { tasks, ..After::of(JobId(job)) };
                        others.entry(index).or_default().push(after);
                    }
                }
            }
        }
        let count = entries.len() as u32;
        let mut begin = 0;
        while begin < count {
            let alone = others.remove(&begin);
            let end = match alone {
                Some(_) => begin + 1,
                None => (begin + 1..count).find(|index| others.contains_key(index)).unwrap_or(count),
            };
            let range = begin as usize..end as usize;
            let lists: Vec<Vec<TaskId>> = match own.is_empty() {
                true => Vec::new(),
                false => (begin..end).map(|index| own.remove(&index).unwrap_or_default()).collect(),
            };
            let edges = Edges::new(lists);
            let too_many = || PyValueError::new_err("too many calls at once");
            let dependencies = Dependencies {
                after: alone.unwrap_or_default(),
                edges: edges.ok_or_else(too_many)?,
                ..Dependencies::default()
            };
            let of_keys = keys.get(range.clone()).unwrap_or_default();
            submits.push(Submit {
                target: Target::Open(self.id),
                // A key that is there keeps its id, whatever the next one would have been.
                ids: match of_keys.is_empty() || first >= GUESTS_FROM {
                    true => TaskIds::Given(IdSet::range(first + begin, first + end - 1)),
                    false => TaskIds::Next(end - begin),
                },
                entries: Entries::new(entries[range].iter().map(Vec::as_slice)).ok_or_else(too_many)?,
                keys: Entries::new(of_keys.iter().map(String::as_bytes)).ok_or_else(too_many)?,
                dependencies: Arc::new(dependencies),
                spec: spec.clone(),
                submit_dir: self.dir.clone(),
            });
            begin = end;
        }
        Ok(())
    }
}

/// The open job of this name that was made last.
#[pyfunction]
pub(crate) fn find_open_job(python: Python<'_>, server_dir: PathBuf, name: &str) -> PyResult<Option<u32>> {
    python.detach(|| {
        let mut session = Session::connect(&server_dir).map_err(|error| error::of_client(&error))?;
        let request = ClientRequest::ListJobs { states: vec![JobState::Opened] };
        let ClientResponse::JobList(jobs) = ask(&mut session, request)? else {
            return Err(error::unexpected());
        };
        let found = jobs.into_iter().filter(|job| job.is_open && job.name == name);
        Ok(found.map(|job| job.job.0).max())
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn only(job: JobId) -> Selector {
    Selector::Ids(IdSet::single(TaskId(job.0)))
}

fn id_set(intervals: &Intervals) -> IdSet {
    let mut ids = IdSet::new();
    intervals
        .iter()
        .filter(|(first, last)| first <= last)
        .for_each(|(first, last)| ids.insert_range(*first, *last));
    ids
}

fn open(session: &mut Session, spec: JobSpec) -> PyResult<JobId> {
    let key = request_key().map_err(|error| error::of_client(&error))?;
    match ask(session, ClientRequest::OpenJob { key, spec })? {
        ClientResponse::Submitted { job, .. } => Ok(job),
        _ => Err(error::unexpected()),
    }
}

fn next_id(session: &mut Session, job: JobId) -> PyResult<u32> {
    match ask(session, ClientRequest::TaskIds { jobs: only(job), states: Vec::new() })? {
        ClientResponse::TaskIds(jobs) => {
            // Those far behind are of others.
            let own = IdSet::range(0, GUESTS_FROM - 1);
            let last = jobs.iter().filter_map(|(_, ids)| ids.intersection(&own).last()).max();
            Ok(last.map_or(0, |last| last.0 + 1))
        }
        _ => Err(error::unexpected()),
    }
}

fn list(python: Python<'_>, ends: JobEnds) -> Vec<End<'_>> {
    const FINISHED: u8 = 0;
    const FAILED: u8 = 1;
    const CANCELED: u8 = 2;
    const ABORTED: u8 = 3;
    let mut results = ends.ids.iter().zip(ends.results.iter()).peekable();
    let mut left_behind = HashMap::new();
    let mut list = Vec::with_capacity(ends.finished.len() as usize + ends.failed.len());
    let failed: std::collections::HashSet<TaskId> = ends.failed.iter().map(|failed| failed.0).collect();
    for task in ends.finished.iter() {
        let mut payload = None;
        while let Some((id, result)) = results.next_if(|(id, _)| *id <= task) {
            let bytes = PyBytes::new(python, result);
            if failed.contains(&id) {
                left_behind.insert(id, bytes);
            } else {
                payload = Some(bytes);
            }
        }
        list.push((task.0, FINISHED, payload, "", String::new()));
    }
    left_behind.extend(results.map(|(id, result)| (id, PyBytes::new(python, result))));
    for (task, kind, error) in ends.failed {
        list.push((task.0, FAILED, left_behind.remove(&task), kind.word(), error));
    }
    list.extend(ends.canceled.iter().map(|task| (task.0, CANCELED, None, "", String::new())));
    for (ids, reason) in ends.aborted {
        list.extend(ids.iter().map(|task| (task.0, ABORTED, None, "", reason.clone())));
    }
    list
}
