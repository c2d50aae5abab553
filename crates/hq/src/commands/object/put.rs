//! `hq object put`: a file is copied into the store of a worker, on this machine if there is one, and becomes an object there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, WorkerFilter, WorkerInfo};
use hq_core::object_messages::{GiveObject, ObjectRequest, ObjectState, ObjectView};
use hq_core::worker_messages::TaskNode;
use hq_model::ObjectName;
use hq_model::selector::Selector;
use hq_net::AccessFile;
use hq_worker::objects::get::{GetError, Getter};
use hq_worker::objects::near::NearFile;
use hq_worker::tree::Listing;
use tokio::sync::oneshot;

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
    let mut putting = Putting { name, source, session: Some(session) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let put = runtime.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            put = putting.put(stores, Getter::of(&access)) => put,
            signal = signals.next() => Err(HqError::interrupted(signal, "Interrupted: the object was not stored")),
        }
    });
    Done::ok(ObjectPut(put?))
}

fn nameless() -> HqError {
    HqError::usage("standard input has no name: say what the object is called with --name NAME")
}

fn name_of(path: &Path) -> Result<ObjectName, HqError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_text = path.file_name().is_some_and(|name| name.to_str().is_some());
    match name.parse() {
        Ok(name) if is_text => Ok(name),
        Ok(_) => {
            let text =
                format!("`{name}` cannot be the name of an object, since it is not UTF-8; use --name NAME");
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
    HqError::failed("io", text).hint("TMPDIR says which directory is used for that")
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
            let text = format!("{shown} is no regular file");
            let hint = format!("to put what comes out of it: hq object put --name NAME - < {shown}");
            return Err(HqError::usage(text).hint(hint));
        }
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
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
        let shown = "standard input".to_owned();
        let mut file = temporary(&shown)?;
        let size =
            io::copy(&mut io::stdin().lock(), &mut file).map_err(|error| no_temporary(&shown, &error))?;
        Ok(Source { shown, file, size, is_dir: false })
    }

    fn failed(&self, error: io::Error) -> Failure {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("{} has become shorter than {} bytes meanwhile", self.shown, self.size)
            }
            _ => format!("{}: {error}", self.shown),
        };
        Failure::Final(HqError::failed("io", text))
    }
}

/// A worker that stores objects.
struct Store {
    node: TaskNode,
    dir: PathBuf,
    size: u64,
    free: u64,
}

impl Store {
    fn of(worker: WorkerInfo) -> Option<Store> {
        let config = worker.config.object_store?;
        let (hostname, address) = (worker.config.hostname, worker.config.listen_address);
        let node = TaskNode { worker: worker.worker, hostname, address };
        let free = config.size.saturating_sub(worker.objects.bytes);
        Some(Store { node, dir: config.dir.into(), size: config.size, free })
    }
}

// The emptiest first.
fn stores(session: &mut Session) -> Result<Vec<Store>, HqError> {
    let request = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    let ClientResponse::Workers(workers) = session.request(request)? else { return unexpected() };
    let here = workers.into_iter().filter(|worker| worker.away_until.is_none() && !worker.is_stopping);
    let mut stores: Vec<Store> = here.filter_map(Store::of).collect();
    if stores.is_empty() {
        let text = "No worker that is connected stores objects.";
        let hint = "`hq worker start` starts one that does (without --no-object-store)";
        return Err(HqError::failed("not-stored", text).hint(hint));
    }
    stores.sort_by_key(|store| std::cmp::Reverse(store.free));
    Ok(stores)
}

fn roomy(mut stores: Vec<Store>, source: &Source) -> Result<Vec<Store>, HqError> {
    let largest = stores.iter().map(|store| store.size).max().unwrap_or(0);
    stores.retain(|store| store.size >= source.size);
    if !stores.is_empty() {
        stores.truncate(TRIES);
        return Ok(stores);
    }
    let (size, largest) = (text::size_of(source.size), text::size_of(largest));
    let text = format!("{} has {size}, and the largest store of a worker holds {largest}.", source.shown);
    Err(HqError::failed("not-stored", text)
        .hint("`hq worker start --object-store DIR:SIZE` starts a worker with a larger one"))
}

/// Why a worker has not stored it.
enum Failure {
    /// Another one may.
    OfWorker(String),
    /// No other one will.
    Final(HqError),
}

struct Putting {
    name: ObjectName,
    source: Source,
    // Not there while it is asked.
    session: Option<Session>,
}

impl Putting {
    async fn put(
        &mut self,
        stores: Vec<Store>,
        getter: Result<Getter, &'static str>,
    ) -> Result<ObjectView, HqError> {
        let mut reasons: Vec<String> = Vec::new();
        let here = hostname();
        for store in stores.iter().filter(|store| store.node.hostname == here) {
            match self.put_near(store).await {
                Ok(view) => return Ok(view),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::OfWorker(why)) => reasons.push(format!("worker {}: {why}", store.node.worker)),
            }
        }
        match getter {
            Err(why) => reasons.push(why.to_owned()),
            Ok(getter) => {
                for store in &stores {
                    match self.put_far(&getter, store).await {
                        Ok(view) => return Ok(view),
                        Err(Failure::Final(error)) => return Err(error),
                        Err(Failure::OfWorker(why)) if reasons.contains(&why) => {}
                        Err(Failure::OfWorker(why)) => reasons.push(why),
                    }
                }
            }
        }
        let text = format!("No worker has stored {}: {}.", self.source.shown, reasons.join("; "));
        let hint = "run this command on a machine that has a worker or reaches one";
        Err(HqError::failed("not-stored", text).hint(hint))
    }

    async fn put_near(&mut self, store: &Store) -> Result<ObjectView, Failure> {
        let of_worker = |error: io::Error| Failure::OfWorker(error.to_string());
        let mut file = NearFile::make(&store.dir).map_err(of_worker)?;
        self.rewind()?;
        let (mut left, mut piece) = (self.source.size, vec![0; PIECE]);
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE as u64) as usize];
            let read = self.source.file.read_exact(piece);
            read.map_err(|error| self.source.failed(error))?;
            file.write_all(piece).map_err(of_worker)?;
            left -= piece.len() as u64;
            // A signal may have come.
            tokio::task::yield_now().await;
        }
        // The file goes unless it is an object by then.
        self.give(store, file.name().to_owned()).await
    }

    async fn put_far(&mut self, getter: &Getter, store: &Store) -> Result<ObjectView, Failure> {
        self.rewind()?;
        let sent = getter.put(&store.node, self.source.size, &mut self.source.file).await;
        let (file, connection) = sent.map_err(|error| match error {
            GetError::Here(error) => self.source.failed(error),
            GetError::There(why) | GetError::NotTaken(why) => Failure::OfWorker(why),
        })?;
        let given = self.give(store, file).await;
        drop(connection);
        given
    }

    fn rewind(&mut self) -> Result<(), Failure> {
        self.source.file.rewind().map_err(|error| self.source.failed(error))
    }

    // On a thread of its own, since a signal does not wait for the answer.
    async fn give(&mut self, store: &Store, file: String) -> Result<ObjectView, Failure> {
        let lost = || Failure::Final(ClientError::Unexpected.into());
        let mut session = self.session.take().ok_or_else(lost)?;
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
            // Nobody hears it who was interrupted.
            let _ = tell.send((session, answer));
        });
        let (session, answer) = told.await.map_err(|_| lost())?;
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
            Err(error) if OF_WORKER.contains(&error.code()) => Err(Failure::OfWorker(error.to_string())),
            Err(error) => Err(Failure::Final(error.into())),
        }
    }
}
