//! What a task leaves as objects, and the value of a call: stored after its success, before its end is told.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_model::{ByteString, ObjectId, WorkerId};

use super::{Content, Hold, Key, Objects, PutFile, StoreError};
use crate::outputs::Aftermath;

/// The objects that one attempt is to leave.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// This worker.
    pub(crate) worker: WorkerId,
    /// Where they go.
    pub(crate) objects: Arc<Objects>,
    /// What they are called, and where the files are.
    pub(crate) files: Vec<(Key, ByteString)>,
    /// What the function returned, where that is a file.
    pub(crate) value: Option<Value>,
}

/// The value of a call.
#[derive(Debug)]
pub(crate) struct Value {
    /// Which object it is.
    pub(crate) key: Key,
    /// The name of the function.
    pub(crate) function: String,
    /// Where its runner has written it.
    pub(crate) file: PutFile,
}

impl Leaves {
    /// Has the objects of an attempt that ended well stored, then does all else that is to be done after it and tells its
    /// end. On a thread of its own, for files may be large.
    pub(crate) fn store(
        mut self,
        mut aftermath: Aftermath,
        clean: fn(Aftermath) -> Input,
        tell: impl FnOnce(Input) + Send + 'static,
    ) {
        let objects = self.objects.clone();
        objects.files.order(move || {
            let stored = self.store_all();
            if let (Err(refused), Input::Ended { outcome, .. }) = (&stored, &mut aftermath.input) {
                *outcome = refused.clone();
            }
            let input = clean(aftermath);
            for (key, content) in stored.unwrap_or_default() {
                match &input {
                    Input::Ended { outcome: Outcome::Finished, .. } => {
                        self.objects.store.tell_stored(&key, content);
                    }
                    // Something else of it was missing.
                    _ => self.objects.store.remove(&key.object),
                }
            }
            tell(input);
        });
    }

    // All of them or none.
    fn store_all(&mut self) -> Result<Vec<(Key, Content)>, Outcome> {
        let mut stored: Vec<(Key, Content)> = Vec::new();
        for (key, path) in &self.files {
            let path = Path::new(OsStr::from_bytes(path));
            match self.objects.store.add(key.clone(), path) {
                Ok(content) => stored.push((key.clone(), content)),
                Err(error) => {
                    self.forget(&stored);
                    return Err(refused(self.worker, &key.object, path, &error));
                }
            }
        }
        if let Some(Value { key, function, file }) = self.value.take() {
            match file.adopt(key.clone(), Hold::Unheard) {
                Ok(content) => stored.push((key, content)),
                Err(error) => {
                    self.forget(&stored);
                    return Err(value_refused(&key.object, &function, &error));
                }
            }
        }
        Ok(stored)
    }

    fn forget(&self, stored: &[(Key, Content)]) {
        stored.iter().for_each(|(key, _)| self.objects.store.remove(&key.object));
    }
}

// That it fits nowhere here, or is no file, is the fault of the function.
fn value_refused(object: &ObjectId, function: &str, error: &StoreError) -> Outcome {
    match error {
        StoreError::NoFile(_) | StoreError::Foreign(_) => {}
        error if error.never_fits() => {}
        error => return no_room_now(object, error),
    }
    let text = format!("The value of {function} cannot be stored: {error}");
    Outcome::Failed(FailureKind::Output, text)
}

/// An object for which there is no room at the moment: its task runs once more, in a while or elsewhere.
pub(crate) fn not_now(object: &ObjectId, reason: String) -> Outcome {
    Outcome::Unfetched { object: object.clone(), holders: Vec::new(), reason, wanted: 0 }
}

fn no_room_now(object: &ObjectId, error: &StoreError) -> Outcome {
    let wanted = if let StoreError::Full { wanted, .. } = error { *wanted } else { 0 };
    let reason = error.to_string();
    Outcome::Unfetched { object: object.clone(), holders: Vec::new(), reason, wanted }
}

// What is wrong with the file is the fault of the task. That there is no room, or the disk fails, is not: it runs once more, in a
// while or elsewhere.
fn refused(worker: WorkerId, object: &ObjectId, file: &Path, error: &StoreError) -> Outcome {
    let is_of_file = matches!(error, StoreError::NoFile(_) | StoreError::Tree(_))
        || matches!(error, StoreError::Io { path, .. } if path == file)
        || error.never_fits();
    match is_of_file {
        true => Outcome::Failed(FailureKind::Output, text(worker, object, file, error)),
        false => no_room_now(object, error),
    }
}

fn text(worker: WorkerId, object: &ObjectId, file: &Path, error: &StoreError) -> String {
    let (name, path) = (&object.name, file.display());
    match error {
        StoreError::Io { path: of, source } if of == file && source.kind() == io::ErrorKind::NotFound => {
            format!("Its object {name} is missing: there is no {path} on worker {worker}")
        }
        error => format!("Its object {name} ({path}) cannot be stored: {error}"),
    }
}
