//! `hq object put`: a file is copied into the store of a worker, on this machine if there is one, and becomes an object there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError, WorkerFilter, WorkerInfo};
use hq_core::object_messages::{GiveObject, ObjectRequest, ObjectState, ObjectView};
use hq_core::worker_messages::TaskNode;
use hq_model::ObjectName;
use hq_model::selector::Selector;
use hq_net::AccessFile;
use hq_worker::objects::get::{GetError, Getter, Reached, by_neither_way};
use hq_worker::objects::near::NearFile;
use hq_worker::tree::Listing;
use rustix::fs::OFlags;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Context, Done, unexpected};
use crate::cli::object::PutArgs;
use crate::commands::worker_config::hostname;
use crate::error::HqError;
use crate::render::text;
use crate::report::ObjectPut;
use crate::signals::Signals;

/// Workers that are asked to store a file before the command fails.
const TRIES: usize = 3;
/// Bytes copied between two looks for a signal.
const PIECE: usize = 1 << 20;
/// After so long it is said for whom the command waits.
const SILENT_TIME: Duration = Duration::from_secs(2);
/// After so long another worker is asked, where there is one.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Codes of refusals that another worker may not have.
const OF_WORKER: [&str; 5] = ["not-stored", "invalid", "no-worker", "worker-ended", "worker-away"];

pub(super) fn put(context: &Context, args: PutArgs) -> Result<Done, HqError> {
    let (name, file) = match args.path.as_path() == Path::new("-") {
        true => (args.name.ok_or_else(nameless)?, None),
        false => {
            let name = args.name.map_or_else(|| name_of(&args.path), Ok)?;
            (name, Some(Source::of_file(&args.path)?))
        }
    };
    let mut session = context.connect()?;
    let stores = stores(&mut session)?;
    let source = file.map_or_else(Source::of_standard_input, Ok)?;
    let stores = roomy(stores, &source)?;
    let access =
        AccessFile::load(&hq_client::access_path(&context.server_dir)).map_err(ClientError::Access)?;
    let getter = Getter::of(&access);
    let mut putting = Putting { context, name, source, session: Some(session) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let put = runtime.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            put = putting.put(stores, &getter) => put,
            signal = signals.next() => Err(HqError::interrupted(signal, "Interrupted: the object was not stored")),
        }
    });
    Done::ok(ObjectPut(put?))
}

fn nameless() -> HqError {
    HqError::usage("standard input has no name: give the object a name with --name NAME")
}

// `.` and `..` have the names of the directories that they are.
fn name_of(path: &Path) -> Result<ObjectName, HqError> {
    let whole = if path.file_name().is_none() { fs::canonicalize(path).ok() } else { None };
    let Some(name) = whole.as_deref().unwrap_or(path).file_name() else {
        let text = format!(
            "{} has no name that can be used for the object: give one with --name NAME",
            path.display()
        );
        return Err(HqError::usage(text));
    };
    let is_text = name.to_str().is_some();
    let name = name.to_string_lossy();
    match name.parse() {
        Ok(name) if is_text => Ok(name),
        Ok(_) => {
            let text =
                format!("`{name}` cannot be the name of an object, because it is not UTF-8; use --name NAME");
            Err(HqError::usage(text))
        }
        Err(error) => Err(HqError::usage(format!("{error}; use --name NAME"))),
    }
}

/// What is to be an object.
struct Source {
    shown: String,
    file: File,
    size: u64,
    // The file is the archive of a directory.
    is_dir: bool,
}

fn temporary(shown: &str) -> Result<File, HqError> {
    tempfile::tempfile_in(std::env::temp_dir()).map_err(|error| no_temporary(shown, &error))
}

fn no_temporary(shown: &str, error: &io::Error) -> HqError {
    let text = format!("{shown} cannot be written to a file in {}: {error}", std::env::temp_dir().display());
    HqError::failed("io", text).hint("the directory for this is set by TMPDIR")
}

impl Source {
    fn of_file(path: &Path) -> Result<Source, HqError> {
        let shown = path.display().to_string();
        let failed = |error: io::Error| HqError::failed("io", format!("{shown}: {error}"));
        // A pipe without a writer would be waited for.
        let found = fs::metadata(path).map_err(failed)?;
        if found.is_dir() {
            return Source::of_dir(path, shown);
        }
        if !found.is_file() {
            let text = format!("{shown} is not a regular file");
            let hint = format!("to store what can be read from it: hq object put --name NAME - < {shown}");
            return Err(HqError::usage(text).hint(hint));
        }
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        // The kernel writes files like those in /proc while they are read, and says that they are empty, or of one page.
        if size == 0 || is_of_the_kernel(&file) {
            return Source::of_what_is_read(file, shown);
        }
        Ok(Source { shown, file, size, is_dir: false })
    }

    // Its archive, in a file without a name.
    fn of_dir(path: &Path, shown: String) -> Result<Source, HqError> {
        let mut file = temporary(&shown)?;
        let packed =
            Listing::of(path).and_then(|listing| listing.pack(BufWriter::with_capacity(PIECE, &mut file)));
        packed.map_err(|error| HqError::failed("io", error.to_string()))?;
        let size = file.stream_position()?;
        Ok(Source { shown, file, size, is_dir: true })
    }

    // In a file without a name, since its size must be known.
    fn of_standard_input() -> Result<Source, HqError> {
        if is_nothing(&io::stdin()) {
            let text = "standard input is closed, so there is nothing to store";
            let hint = "give a file, or store the output of a program: COMMAND | hq object put --name NAME -";
            return Err(HqError::usage(text).hint(hint));
        }
        Source::of_what_is_read(io::stdin().lock(), "standard input".to_owned())
    }

    fn of_what_is_read(mut from: impl Read, shown: String) -> Result<Source, HqError> {
        let mut file = temporary(&shown)?;
        let size = io::copy(&mut from, &mut file).map_err(|error| no_temporary(&shown, &error))?;
        Ok(Source { shown, file, size, is_dir: false })
    }

    fn failed(&self, error: io::Error) -> HqError {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("{} has become shorter than {} bytes in the meantime", self.shown, self.size)
            }
            _ => format!("{}: {error}", self.shown),
        };
        HqError::failed("io", text)
    }
}

// Where whoever started this program has closed standard input, the runtime opens the null device for reading and writing.
fn is_nothing(input: &impl AsFd) -> bool {
    let writes = rustix::fs::fcntl_getfl(input).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    let null = fs::metadata("/dev/null").map(|null| null.rdev());
    let found = rustix::fs::fstat(input).map(|found| found.st_rdev);
    writes && null.is_ok_and(|null| found.is_ok_and(|found| found == null))
}

// Of a file system whose files have no size.
fn is_of_the_kernel(file: &File) -> bool {
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    const CGROUP2: i64 = 0x6367_7270;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type, PROC | SYSFS | CGROUP2))
}

/// A worker that stores objects.
struct Store {
    node: TaskNode,
    // Where a file for it is written on its machine.
    dir: PathBuf,
    // Bytes of the store itself, and where its spill is.
    spill: Option<(u64, PathBuf)>,
    // Of the largest file that it takes.
    size: u64,
    free: u64,
}

impl Store {
    fn of(worker: WorkerInfo) -> Option<Store> {
        let config = worker.config.object_store?;
        let (hostname, address) = (worker.config.hostname, worker.config.listen_address);
        let node = TaskNode { worker: worker.worker, hostname, address };
        let free = config.all().saturating_sub(worker.objects.bytes);
        let size = config.largest();
        let spill = config.spill.map(|spill| (config.size, spill.dir.into()));
        Some(Store { node, dir: config.dir.into(), spill, size, free })
    }

    // What is larger than the store itself goes to its spill.
    fn is_for(&mut self, bytes: u64) {
        if let Some((_, dir)) = self.spill.take_if(|(size, _)| *size < bytes) {
            self.dir = dir;
        }
    }
}

// The emptiest first.
fn stores(session: &mut Session) -> Result<Vec<Store>, HqError> {
    let request = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    let ClientResponse::Workers(workers) = session.request(request)? else { return unexpected() };
    let here = workers.into_iter().filter(|worker| worker.away_until.is_none() && !worker.is_stopping);
    let mut stores: Vec<Store> = here.filter_map(Store::of).collect();
    if stores.is_empty() {
        let text = "No connected worker stores objects.";
        let hint = "start one with `hq worker start` (without --no-object-store)";
        return Err(HqError::failed("not-stored", text).hint(hint));
    }
    stores.sort_by_key(|store| std::cmp::Reverse(store.free));
    Ok(stores)
}

fn roomy(mut stores: Vec<Store>, source: &Source) -> Result<Vec<Store>, HqError> {
    let largest = stores.iter().map(|store| store.size).max().unwrap_or(0);
    stores.retain(|store| store.size >= source.size);
    stores.iter_mut().for_each(|store| store.is_for(source.size));
    if !stores.is_empty() {
        stores.truncate(TRIES);
        return Ok(stores);
    }
    let (size, largest) = (text::size_of(source.size), text::size_of(largest));
    let text =
        format!("{} has {size}, but the largest object store of a worker holds {largest}.", source.shown);
    Err(HqError::failed("not-stored", text)
        .hint("`hq worker start --object-store DIR:SIZE` starts a worker with a larger one"))
}

/// Why a worker has not stored it.
enum Failure {
    /// Its store is not found on this machine.
    Hidden(String),
    /// It does not answer.
    Unreached(String),
    /// There is no way to it, unless by way of the server.
    Apart(String),
    /// It does not take the file now; another one may.
    Refused(String),
    /// No other one will.
    Final(HqError),
}

impl From<HqError> for Failure {
    fn from(error: HqError) -> Failure {
        Failure::Final(error)
    }
}

/// Which workers have not stored it, and why.
#[derive(Default)]
struct Reasons {
    of_workers: Vec<String>,
    has_refusal: bool,
}

impl Reasons {
    fn add(&mut self, store: &Store, why: &str) {
        let TaskNode { worker, hostname, .. } = &store.node;
        // Who speaks of itself is named once.
        let why = why.strip_prefix(&format!("worker {worker} on {hostname}")).unwrap_or(why);
        let why = why.trim_start_matches(':').trim().trim_end_matches('.');
        self.of_workers.push(format!("worker {worker} ({hostname}): {why}"));
    }

    // What no other worker would change is an error.
    fn hear(&mut self, store: &Store, failure: Failure) -> Result<(), HqError> {
        match failure {
            Failure::Final(error) => return Err(error),
            Failure::Hidden(why) | Failure::Unreached(why) | Failure::Apart(why) => self.add(store, &why),
            Failure::Refused(why) => {
                self.has_refusal = true;
                self.add(store, &why);
            }
        }
        Ok(())
    }

    fn error(&self, source: &Source) -> HqError {
        let text = format!("No worker has stored {}: {}.", source.shown, self.of_workers.join("; "));
        let hint = match self.has_refusal {
            true => {
                "see what is stored with `hq object list` and make room with `hq object drop`, or start a worker \
                 with a larger store with `hq worker start --object-store DIR:SIZE`"
            }
            false => "run this command on a machine that has a worker or can reach one",
        };
        HqError::failed("not-stored", text).hint(hint)
    }
}

struct Putting<'a> {
    context: &'a Context,
    name: ObjectName,
    source: Source,
    // Not there while it is asked.
    session: Option<Session>,
}

impl Putting<'_> {
    // Each worker is asked, those on this machine first and, where these cannot be found here, over the network. The last resort is
    // the way of the server, to those that cannot be reached.
    async fn put(&mut self, stores: Vec<Store>, getter: &Getter) -> Result<ObjectView, HqError> {
        let (mut reasons, mut apart) = (Reasons::default(), Vec::new());
        let here = hostname();
        let (near, far): (Vec<Store>, Vec<Store>) =
            stores.into_iter().partition(|store| store.node.hostname == here);
        let mut ways: Vec<(Store, bool)> = near.into_iter().map(|store| (store, true)).collect();
        ways.extend(far.into_iter().map(|store| (store, false)));
        for (place, (store, is_near)) in ways.iter().enumerate() {
            let is_last = place + 1 == ways.len();
            let mut put = match is_near {
                true => self.put_near(store, is_last).await,
                false => self.put_far(getter, store, is_last).await,
            };
            // A machine of this name may be another one, or hide its directories.
            if let Err(Failure::Hidden(why)) = &put {
                let why = why.clone();
                put = self.put_far(getter, store, is_last).await.map_err(|failure| match failure {
                    Failure::Unreached(far) => Failure::Unreached(format!("{why}; {far}")),
                    Failure::Apart(far) => Failure::Apart(format!("{why}; {far}")),
                    failure => failure,
                });
            }
            match put {
                Ok(view) => return Ok(view),
                Err(Failure::Apart(why)) => apart.push((store, why)),
                Err(failure) => reasons.hear(store, failure)?,
            }
        }
        for (place, (store, why)) in apart.iter().enumerate() {
            let is_last = place + 1 == apart.len();
            let reached = getter.reach_by_server(&store.node, self.source.size);
            let put = match self.in_time(store, reached, is_last).await {
                Ok(reached) => self.send(store, reached).await,
                Err(failure) => Err(failure),
            };
            match put {
                Ok(view) => return Ok(view),
                Err(Failure::Apart(there)) => reasons.add(store, &by_neither_way(why, &there)),
                Err(failure) => reasons.hear(store, failure)?,
            }
        }
        Err(reasons.error(&self.source))
    }

    async fn put_near(&mut self, store: &Store, is_last: bool) -> Result<ObjectView, Failure> {
        let mut file = NearFile::make(&store.dir).map_err(|error| Failure::Hidden(error.to_string()))?;
        self.rewind()?;
        let (mut left, mut piece) = (self.source.size, vec![0; PIECE]);
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE as u64) as usize];
            let read = self.source.file.read_exact(piece);
            read.map_err(|error| self.source.failed(error))?;
            file.write_all(piece).map_err(|error| Failure::Refused(error.to_string()))?;
            left -= piece.len() as u64;
            // A signal may have come.
            tokio::task::yield_now().await;
        }
        let mut answer = self.give(store, file.name().to_owned())?;
        let time = if is_last { Duration::MAX } else { ANSWER_TIME };
        let mut answered = self.patiently(store, &mut answer, time).await;
        if answered.is_none() {
            if file.withdraw() {
                self.connect_again().await?;
                return Err(Failure::Unreached(no_answer()));
            }
            // It is an object already, or refused.
            answered = Some(answer.await);
        }
        self.given(store, answered)
    }

    async fn put_far(
        &mut self,
        getter: &Getter,
        store: &Store,
        is_last: bool,
    ) -> Result<ObjectView, Failure> {
        let reached = getter.reach(&store.node, self.source.size);
        let reached = self.in_time(store, reached, is_last).await?;
        self.send(store, reached).await
    }

    async fn in_time(
        &self,
        store: &Store,
        reached: impl Future<Output = Result<Reached, GetError>>,
        is_last: bool,
    ) -> Result<Reached, Failure> {
        let time = if is_last { Duration::MAX } else { ANSWER_TIME };
        let reached = self.patiently(store, reached, time).await;
        let reached = reached.ok_or_else(|| Failure::Apart(no_answer()))?;
        reached.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: GetError) -> Failure {
        match error {
            GetError::Here(error) => Failure::Final(self.source.failed(error)),
            GetError::There(why) | GetError::Unreached(why) => Failure::Apart(why),
            GetError::NotTaken(why) => Failure::Refused(why),
        }
    }

    async fn send(&mut self, store: &Store, reached: Reached) -> Result<ObjectView, Failure> {
        self.rewind()?;
        let sent = reached.send(&mut self.source.file).await;
        let (file, connection) = sent.map_err(|error| self.failure(error))?;
        let answer = self.give(store, file)?;
        let answered = self.patiently(store, answer, Duration::MAX).await;
        drop(connection);
        self.given(store, answered)
    }

    // What comes of something in that time; says after a moment who is waited for.
    async fn patiently<T>(
        &self,
        store: &Store,
        awaited: impl Future<Output = T>,
        time: Duration,
    ) -> Option<T> {
        tokio::pin!(awaited);
        if let Ok(value) = timeout(SILENT_TIME.min(time), &mut awaited).await {
            return Some(value);
        }
        if time > SILENT_TIME {
            let TaskNode { worker, hostname, .. } = &store.node;
            let text = format!("Waiting for worker {worker} ({hostname}) to accept {}", self.source.shown);
            self.context.printer.note(&text);
        }
        match time {
            Duration::MAX => Some(awaited.await),
            time => timeout(time.saturating_sub(SILENT_TIME), awaited).await.ok(),
        }
    }

    fn rewind(&mut self) -> Result<(), HqError> {
        self.source.file.rewind().map_err(|error| self.source.failed(error))
    }

    // Over the connection before somebody still waits, to hear that there is no such file.
    async fn connect_again(&mut self) -> Result<(), HqError> {
        let (tell, told) = oneshot::channel();
        let dir = self.context.server_dir.clone();
        std::thread::spawn(move || drop(tell.send(Session::connect(&dir))));
        self.session = Some(told.await.map_err(|_| ClientError::Unexpected)??);
        Ok(())
    }

    // On a thread of its own, since a signal does not wait for the answer.
    fn give(&mut self, store: &Store, file: String) -> Result<oneshot::Receiver<Answered>, HqError> {
        let mut session = self.session.take().ok_or(ClientError::Unexpected)?;
        let name = self.name.clone();
        let give = GiveObject {
            job: Err(name.to_string()),
            name,
            worker: store.node.worker,
            file,
            is_dir: self.source.is_dir,
        };
        let request = ClientRequest::Objects(ObjectRequest::Give(Box::new(give)));
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let answer = session.request(request);
            // Nobody hears it who was interrupted, or asks another worker.
            let _ = tell.send((session, answer));
        });
        Ok(told)
    }

    fn given(
        &mut self,
        store: &Store,
        answered: Option<Result<Answered, oneshot::error::RecvError>>,
    ) -> Result<ObjectView, Failure> {
        let lost = || Failure::Final(ClientError::Unexpected.into());
        let (session, answer) = answered.and_then(Result::ok).ok_or_else(lost)?;
        self.session = Some(session);
        match answer {
            Ok(ClientResponse::ObjectGiven(copy)) => Ok(ObjectView {
                copy,
                state: ObjectState::Stored,
                copies: 1,
                holders: vec![store.node.clone()],
                is_kept: true,
                reader_count: 0,
                readers: Vec::new(),
            }),
            Ok(_) => Err(lost()),
            Err(ClientError::Refused(RequestError::NotStored(_, why))) => {
                Err(Failure::Refused(why.trim_start_matches("is not stored: ").to_owned()))
            }
            Err(error) if OF_WORKER.contains(&error.code()) => Err(Failure::Unreached(error.to_string())),
            Err(error) => Err(Failure::Final(error.into())),
        }
    }
}

type Answered = (Session, Result<ClientResponse, ClientError>);

fn no_answer() -> String {
    format!("no answer in {} s", ANSWER_TIME.as_secs())
}
