//! Objects of calls and clients: where they are, their bytes from workers that store them, and files that become objects.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hq_client::{Session, access_path};
use hq_core::client_messages::{ClientRequest, ClientResponse, WorkerFilter, WorkerInfo};
use hq_core::object_messages::{GiveObject, ObjectRequest, ObjectView};
use hq_core::worker_messages::TaskNode;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, ObjectName, TaskId, TaskRef, WorkerId};
use hq_net::AccessFile;
use hq_worker::objects::get::{Getter, Target};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{self, NativeError};
use crate::session::ask;
use crate::waiting::Ground;

/// Job, task and name of an object.
type Named = (u32, u32, String);

/// Where a worker stores objects, as a `dict`.
#[derive(IntoPyObject)]
pub(crate) struct Store {
    worker: u32,
    hostname: String,
    dir: String,
    size: u64,
    used: u64,
    spill: Option<String>,
    largest: u64,
}

/// How an object is, as a `dict`.
#[derive(IntoPyObject)]
pub(crate) struct Stored {
    state: &'static str,
    instance: u32,
    size: u64,
    copies: u64,
    holders: Vec<(u32, String)>,
    is_kept: bool,
    why: Option<String>,
}

/// The objects of a server, over a connection of its own, which is made when it is first needed.
#[pyclass(frozen, module = "headquarters._native")]
pub(crate) struct Objects {
    pid: u32,
    server_dir: PathBuf,
    session: Mutex<Option<Session>>,
    ground: Mutex<Option<Arc<Ground>>>,
    // It knows which workers do not answer. Made again where the server is another one.
    getter: Mutex<Option<(AccessFile, Arc<Getter>)>>,
}

#[pymethods]
impl Objects {
    #[new]
    pub(crate) fn new(server_dir: PathBuf) -> Objects {
        let (session, ground, getter) = (Mutex::default(), Mutex::default(), Mutex::default());
        Objects { pid: std::process::id(), server_dir, session, ground, getter }
    }

    /// The stores of the workers that are connected.
    fn stores(&self, python: Python<'_>) -> PyResult<Vec<Store>> {
        let workers = self.with(python, workers)?;
        Ok(workers.into_iter().filter_map(store).collect())
    }

    /// How many workers are connected that store no objects.
    fn storeless(&self, python: Python<'_>) -> PyResult<usize> {
        let workers = self.with(python, workers)?;
        Ok(workers.iter().filter(|worker| worker.config.object_store.is_none()).count())
    }

    /// How an object is; nothing when the server does not know it.
    fn info(&self, python: Python<'_>, job: u32, task: u32, name: &str) -> PyResult<Option<Stored>> {
        let object = object(job, task, name)?;
        Ok(self.with(python, |session| view(session, object))?.map(stored))
    }

    /// The task whose object has this name in a job; one that is stored where there are several.
    fn find(&self, python: Python<'_>, job: u32, name: &str) -> PyResult<Option<u32>> {
        self.with(python, |session| find(session, JobId(job), name))
    }

    /// Has the bytes of an object written into a file that is there, by a worker that stores it, or by way of the server.
    fn fetch(&self, python: Python<'_>, job: u32, task: u32, name: &str, path: PathBuf) -> PyResult<()> {
        let object = object(job, task, name)?;
        let found = self.with(python, |session| view(session, object.clone()))?;
        let view = found.filter(|view| view.copies > 0);
        let view =
            view.ok_or_else(|| refused("not-stored", format!("Object {object} is on no worker now.")))?;
        let getter = self.getter().map_err(|why| unreachable(&object, &why))?;
        let ground = self.ground()?;
        let mut target = InFile(OpenOptions::new().write(true).open(&path)?);
        python.detach(|| {
            let got = ground.until(getter.get(&view.copy, view.holders.clone(), &mut target))?;
            got.map_err(|error| unreachable(&object, &error.to_string()))
        })
    }

    /// Makes a file in the `put` directory of a worker's store an object of an open job. Gives its task and its instance.
    fn give(
        &self,
        python: Python<'_>,
        job: u32,
        name: &str,
        worker: u32,
        file: String,
    ) -> PyResult<(u32, u32)> {
        let name = object_name(name)?;
        self.with(python, |session| give(session, job, name, WorkerId(worker), file))
    }

    /// As `give`, for a file that is sent to the worker.
    fn put(
        &self,
        python: Python<'_>,
        job: u32,
        name: &str,
        worker: u32,
        path: PathBuf,
    ) -> PyResult<(u32, u32)> {
        let name = object_name(name)?;
        let worker = WorkerId(worker);
        let not_taken = |why: String| refused("not-stored", why);
        let unreachable = |why: &str| not_taken(format!("worker {worker} cannot be reached: {why}"));
        let getter = self.getter().map_err(|why| unreachable(&why))?;
        let found = self.with(python, workers)?.into_iter().find(|found| found.worker == worker);
        let holder = found.map(node).ok_or_else(|| unreachable("it is gone"))?;
        let mut source = File::open(&path)?;
        let size = source.metadata()?.len();
        let ground = self.ground()?;
        let sent = python.detach(|| ground.until(getter.put(&holder, size, &mut source)))?;
        // The file goes with the connection, unless it is an object by then.
        let (file, connection) = sent.map_err(|error| not_taken(error.to_string()))?;
        let given = self.with(python, |session| give(session, job, name, worker, file));
        drop(connection);
        given
    }

    /// These values are needed no more.
    fn release(&self, python: Python<'_>, objects: Vec<Named>) -> PyResult<()> {
        self.order(python, objects, ObjectRequest::Release)
    }

    /// They stay where stores have no room for more.
    fn keep(&self, python: Python<'_>, objects: Vec<Named>) -> PyResult<()> {
        self.order(python, objects, ObjectRequest::Keep)
    }

    /// They are removed everywhere.
    fn drop(&self, python: Python<'_>, objects: Vec<Named>) -> PyResult<()> {
        self.order(python, objects, ObjectRequest::Drop)
    }
}

impl Objects {
    fn with<T: Send>(
        &self,
        python: Python<'_>,
        work: impl FnOnce(&mut Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        if self.pid != std::process::id() {
            return Err(error::Forked::new_err(()));
        }
        python.detach(|| {
            let mut session: MutexGuard<'_, _> = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            if session.is_none() {
                *session =
                    Some(Session::connect(&self.server_dir).map_err(|error| error::of_client(&error))?);
            }
            session.as_mut().map_or_else(|| Err(error::unexpected()), work)
        })
    }

    fn ground(&self) -> PyResult<Arc<Ground>> {
        let mut ground = self.ground.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ground) = &*ground {
            return Ok(ground.clone());
        }
        let made = Arc::new(Ground::new()?);
        *ground = Some(made.clone());
        Ok(made)
    }

    fn order(
        &self,
        python: Python<'_>,
        objects: Vec<Named>,
        order: impl FnOnce(Vec<ObjectId>) -> ObjectRequest,
    ) -> PyResult<()> {
        let objects = objects.iter().map(|(job, task, name)| object(*job, *task, name));
        let request = order(objects.collect::<PyResult<_>>()?);
        self.with(python, |session| match ask(session, ClientRequest::Objects(request))? {
            ClientResponse::Done => Ok(()),
            _ => Err(error::unexpected()),
        })
    }

    // Whoever can ask workers; or why nobody can.
    fn getter(&self) -> Result<Arc<Getter>, String> {
        let access = AccessFile::load(&access_path(&self.server_dir)).map_err(|error| error.to_string())?;
        let mut getter = self.getter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, getter)) = &*getter
            && *of == access
        {
            return Ok(getter.clone());
        }
        let made = Arc::new(Getter::of(&access));
        *getter = Some((access, made.clone()));
        Ok(made)
    }
}

fn unreachable(object: &ObjectId, why: &str) -> PyErr {
    let hint = "have a call return what is needed of it, or ask on a node that reaches the workers";
    refused("unreachable", format!("Object {object} cannot be fetched: {why}; {hint}."))
}

fn workers(session: &mut Session) -> PyResult<Vec<WorkerInfo>> {
    let request = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    match ask(session, request)? {
        ClientResponse::Workers(workers) => {
            Ok(workers.into_iter().filter(|worker| worker.away_until.is_none()).collect())
        }
        _ => Err(error::unexpected()),
    }
}

fn node(worker: WorkerInfo) -> TaskNode {
    let (hostname, address) = (worker.config.hostname, worker.config.listen_address);
    TaskNode { worker: worker.worker, hostname, address }
}

fn store(worker: WorkerInfo) -> Option<Store> {
    let config = worker.config.object_store?;
    Some(Store {
        worker: worker.worker.0,
        hostname: worker.config.hostname,
        largest: config.largest(),
        dir: config.dir,
        size: config.size,
        used: worker.objects.bytes.saturating_sub(worker.spilled.bytes),
        spill: config.spill.map(|spill| spill.dir),
    })
}

fn view(session: &mut Session, object: ObjectId) -> PyResult<Option<ObjectView>> {
    match session.request(ClientRequest::Objects(ObjectRequest::Info(object))) {
        Ok(ClientResponse::Objects(mut page)) => Ok(page.objects.pop()),
        Ok(_) => Err(error::unexpected()),
        Err(error) if matches!(error.code(), "no-object" | "no-job" | "no-task") => Ok(None),
        Err(error) => Err(error::of_client(&error)),
    }
}

fn stored(view: ObjectView) -> Stored {
    Stored {
        state: view.state.phase().word(),
        instance: view.copy.instance.0,
        size: view.copy.size,
        copies: view.copies,
        holders: view.holders.into_iter().map(|holder| (holder.worker.0, holder.hostname)).collect(),
        is_kept: view.is_kept,
        why: view.state.why_gone().map(str::to_owned),
    }
}

fn find(session: &mut Session, job: JobId, name: &str) -> PyResult<Option<u32>> {
    let mut found = None;
    let mut after = None;
    loop {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        let request = ObjectRequest::List { jobs, phases: Vec::new(), after: after.clone() };
        let ClientResponse::Objects(page) = ask(session, ClientRequest::Objects(request))? else {
            return Err(error::unexpected());
        };
        for view in page.objects.iter().filter(|view| view.copy.object.name.as_str() == name) {
            let task = view.copy.object.task.task.0;
            if view.copies > 0 {
                return Ok(Some(task));
            }
            found = found.or(Some(task));
        }
        if page.next.is_none() || page.next <= after {
            return Ok(found);
        }
        after = page.next;
    }
}

fn give(
    session: &mut Session,
    job: u32,
    name: ObjectName,
    worker: WorkerId,
    file: String,
) -> PyResult<(u32, u32)> {
    let give = GiveObject { job: Ok(JobId(job)), name, worker, file, is_dir: false };
    match ask(session, ClientRequest::Objects(ObjectRequest::Give(Box::new(give))))? {
        ClientResponse::ObjectGiven(copy) => Ok((copy.object.task.task.0, copy.instance.0)),
        _ => Err(error::unexpected()),
    }
}

fn object(job: u32, task: u32, name: &str) -> PyResult<ObjectId> {
    Ok(ObjectId { task: TaskRef::new(JobId(job), TaskId(task)), name: object_name(name)? })
}

fn object_name(name: &str) -> PyResult<ObjectName> {
    name.parse().map_err(|error: hq_model::object::ObjectError| PyValueError::new_err(error.to_string()))
}

fn refused(code: &'static str, text: String) -> PyErr {
    NativeError::new_err((code, text))
}

/// A file that gets an object.
struct InFile(File);

impl Target for InFile {
    fn begin(&mut self) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}
