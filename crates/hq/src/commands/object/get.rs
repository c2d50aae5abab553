//! `hq object get`: an object comes from a worker that stores it, and goes into a file or to standard output.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader, IsTerminal, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hq_client::{ClientError, Session};
use hq_core::object_messages::{ObjectRequest, ObjectView};
use hq_model::ObjectId;
use hq_net::AccessFile;
use hq_worker::objects::get::{GetError, Getter, Target};
use hq_worker::tree::{Access, unpack};

use super::{Context, Done, HERE, beside, named};
use crate::cli::OutputMode;
use crate::cli::object::GetArgs;
use crate::error::HqError;
use crate::objects::ask;
use crate::render::StandardOutput;
use crate::report::{ObjectGot, ObjectsGot, Plain};
use crate::signals::Signals;

/// Bytes of an archive that are read at once.
const PIECE: usize = 1 << 20;

pub(super) fn get(context: &Context, args: GetArgs) -> Result<Done, HqError> {
    if !args.objects.is_single() {
        return get_several(context, args);
    }
    let place = Place::of(args.output.as_deref(), context.printer.mode)?;
    let (mut session, mut objects) = named(context, vec![args.objects], &HERE)?;
    let view = view_of(&mut session, objects.remove(0))?;
    drop(session);
    let got = until_signal("the object was not written", fetch(&getter(context)?, view, place))?;
    match got {
        ObjectGot { path: None, .. } => Done::ok(Plain(Vec::new())),
        got => Done::ok(got),
    }
}

// Each in a file of its own. What cannot be had is named, and the rest written.
fn get_several(context: &Context, args: GetArgs) -> Result<Done, HqError> {
    let Some(dir) = args.output.filter(|path| path != Path::new("-")) else {
        return Err(HqError::usage("several objects are written to a directory: give one with -o DIR"));
    };
    let (mut session, objects) = named(context, vec![args.objects], &HERE)?;
    let getter = getter(context)?;
    let (mut got, mut failed) = (Vec::new(), Vec::new());
    for object in objects {
        let path = dir.join(object.task.task.to_string()).join(object.name.as_str());
        let ready = made_for(&path).and_then(|()| Ok((Place::file(&path)?, view_of(&mut session, object)?)));
        let what = "not all objects were written";
        match ready.and_then(|(place, view)| until_signal(what, fetch(&getter, view, place))) {
            Ok(one) => got.push(one),
            Err(error) if error.code == "interrupted" => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    let last = if got.is_empty() { failed.pop() } else { None };
    failed.iter().for_each(|error| context.refusal()(&error.text));
    match last {
        Some(error) => Err(error),
        None => Done::ok(ObjectsGot(got)),
    }
}

// The directory of a file.
fn made_for(path: &Path) -> Result<(), HqError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(|error| HqError::failed("io", format!("{}: {error}", dir.display())))
}

fn until_signal<T>(what: &str, work: impl Future<Output = Result<T, HqError>>) -> Result<T, HqError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            done = work => done,
            signal = signals.next() => Err(HqError::interrupted(signal, format!("Interrupted: {what}"))),
        }
    })
}

fn view_of(session: &mut Session, object: ObjectId) -> Result<ObjectView, HqError> {
    let mut page = ask(session, ObjectRequest::Info(object))?;
    page.objects.pop().map_or_else(super::unexpected, Ok)
}

async fn fetch(getter: &Getter, view: ObjectView, mut place: Place) -> Result<ObjectGot, HqError> {
    if view.copy.is_dir {
        place.will_be_dir()?;
    }
    check_stored(&view)?;
    let got = getter.get(&view.copy, view.holders.clone(), &mut place).await;
    got.map_err(|error| not_got(&view, error))?;
    Ok(ObjectGot { path: place.end()?, copy: view.copy })
}

// Whoever can ask workers.
fn getter(context: &Context) -> Result<Getter, HqError> {
    let path = hq_client::access_path(&context.server_dir);
    Ok(Getter::of(&AccessFile::load(&path).map_err(ClientError::Access)?))
}

fn check_stored(view: &ObjectView) -> Result<(), HqError> {
    let object = &view.copy.object;
    if let Some(why) = view.state.why_not_stored(object) {
        return Err(HqError::failed("not-stored", format!("Object {object} {why}")));
    }
    if view.copies == 0 {
        let text = format!("Object {object} is not on any connected worker.");
        let hint = "a worker that stored it may come back: try again later";
        return Err(HqError::failed("not-stored", text).hint(hint));
    }
    Ok(())
}

fn not_got(view: &ObjectView, error: GetError) -> HqError {
    match error {
        GetError::Here(error) => error.into(),
        GetError::There(reason) | GetError::NotTaken(reason) | GetError::Unreached(reason) => {
            let object = &view.copy.object;
            let text = format!("Object {object} cannot be fetched from {}: {reason}.", holders(view));
            HqError::failed("unreachable", text).hint(other_way(view))
        }
    }
}

fn holders(view: &ObjectView) -> String {
    let names: Vec<String> =
        view.holders.iter().map(|holder| format!("{} ({})", holder.worker, holder.hostname)).collect();
    let workers = if names.len() == 1 { "worker" } else { "workers" };
    format!("{workers} {}", names.join(", "))
}

fn other_way(view: &ObjectView) -> String {
    let object = &view.copy.object;
    let name = &object.name;
    format!(
        "`hq object info {object}` shows whether it is still stored; if so, let a task copy it to a place where you \
         can read it: hq submit --input-object '{name}={object}' -- cp '{name}' PATH; or run this command on a \
         machine that can reach the workers"
    )
}

/// Where the object goes.
enum Place {
    /// As it comes.
    Stream { out: Box<dyn Write + Send>, path: Option<PathBuf>, has_begun: bool },
    /// A file beside, which takes this name when all is there.
    File { path: PathBuf, beside: tempfile::NamedTempFile, is_dir: bool },
}

impl Place {
    fn of(path: Option<&Path>, mode: OutputMode) -> Result<Place, HqError> {
        match path {
            Some(path) if path != Path::new("-") => Place::file(path),
            None if io::stdout().is_terminal() => Err(HqError::usage(
                "standard output is a terminal: give a file with -o FILE, or print it anyway with -o -",
            )),
            _ if mode == OutputMode::Json => Err(HqError::usage(
                "hq object get prints objects unchanged and has no JSON output; give a file with -o FILE",
            )),
            _ => Ok(Place::Stream {
                out: Box::new(StandardOutput(io::stdout())),
                path: None,
                has_begun: false,
            }),
        }
    }

    fn file(path: &Path) -> Result<Place, HqError> {
        let failed = |error: io::Error| HqError::failed("io", format!("{}: {error}", path.display()));
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let text = format!(
                    "{} is a directory: give a path that does not exist yet, or a file to be replaced",
                    path.display()
                );
                return Err(HqError::usage(text));
            }
            // A pipe or a device stays what it is.
            Ok(found) if !found.is_file() => {
                let out = OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(Place::Stream {
                    out: Box::new(out),
                    path: Some(path.to_owned()),
                    has_begun: false,
                });
            }
            _ => {}
        }
        // What a link leads to is replaced, and not the link.
        let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).map_err(failed)?;
        let dir = path.parent().unwrap_or(Path::new("/"));
        fs::metadata(dir).map_err(|error| HqError::failed("io", format!("{}: {error}", dir.display())))?;
        beside::remove_left(dir);
        let mode = Permissions::from_mode(0o666);
        let beside = tempfile::Builder::new().prefix(&beside::prefix()).permissions(mode).tempfile_in(dir);
        Ok(Place::File { beside: beside.map_err(failed)?, path, is_dir: false })
    }

    // What comes is the archive of a directory. Standard output gets it as it is.
    fn will_be_dir(&mut self) -> Result<(), HqError> {
        match self {
            Place::File { path, is_dir, .. } if fs::symlink_metadata(&path).is_err() => *is_dir = true,
            Place::File { path, .. } => {
                let text = format!("{} already exists, and the object is a directory", path.display());
                return Err(HqError::usage(text).hint("give a directory that does not exist yet"));
            }
            Place::Stream { .. } => {}
        }
        Ok(())
    }

    // The file, if it is one, is there now.
    fn end(self) -> Result<Option<PathBuf>, HqError> {
        match self {
            Place::Stream { mut out, .. } => {
                out.flush()?;
                Ok(None)
            }
            Place::File { path, beside, is_dir: true } => {
                unpack_to(&path, beside)?;
                Ok(Some(path))
            }
            Place::File { path, beside, is_dir: false } => {
                let failed = |error| HqError::failed("io", format!("{}: {error}", path.display()));
                beside.persist(&path).map_err(|error| failed(error.error))?;
                Ok(Some(path))
            }
        }
    }
}

// It appears as a whole.
fn unpack_to(path: &Path, archive: tempfile::NamedTempFile) -> Result<(), HqError> {
    let failed = |error: io::Error| HqError::failed("io", format!("{}: {error}", path.display()));
    let mut archive = archive.into_file();
    archive.rewind().map_err(failed)?;
    let around = path.parent().unwrap_or(Path::new("/"));
    let beside = tempfile::Builder::new().prefix(&beside::prefix()).tempdir_in(around).map_err(failed)?;
    let inner = beside.path().join("object");
    unpack(BufReader::with_capacity(PIECE, archive), &inner, Access::AsItWas)
        .map_err(|error| HqError::failed("io", error.to_string()))?;
    // A directory moves only where it may be written to.
    let permissions = fs::metadata(&inner).map_err(failed)?.permissions();
    let moved = fs::set_permissions(&inner, Permissions::from_mode(0o700))
        .and_then(|()| fs::rename(&inner, path))
        .and_then(|()| fs::set_permissions(path, permissions));
    moved.map_err(failed)
}

fn of_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Target for Place {
    fn begin(&mut self) -> io::Result<()> {
        match self {
            Place::Stream { has_begun: false, .. } => Ok(()),
            Place::Stream { has_begun: true, .. } => Err(io::Error::other(
                "the data sent by a worker differs from what was stored, and some of it has already been written: \
                 discard it, and get the object again into a file (-o FILE), which appears only if it is correct",
            )),
            Place::File { beside, .. } => {
                let file: &mut File = beside.as_file_mut();
                file.set_len(0)?;
                file.rewind()
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Place::Stream { out, path, has_begun } => {
                *has_begun |= !bytes.is_empty();
                let written = out.write_all(bytes);
                written.map_err(|error| match path {
                    Some(path) => of_file(path, &error),
                    None => error,
                })
            }
            Place::File { path, beside, .. } => {
                beside.as_file_mut().write_all(bytes).map_err(|error| of_file(path, &error))
            }
        }
    }
}
