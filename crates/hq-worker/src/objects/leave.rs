//! What a task leaves as objects: stored after its success, before its end is told.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_model::{ByteString, ObjectId};

use super::{Content, Key, Objects, StoreError};
use crate::outputs::Aftermath;

/// The objects that one attempt is to leave.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// Where they go.
    pub(crate) objects: Arc<Objects>,
    /// What they are called, and where the files are.
    pub(crate) files: Vec<(Key, ByteString)>,
}

impl Leaves {
    /// Has the objects of an attempt that ended well stored, then does all else that is to be done after it and tells its
    /// end. On a thread of its own, for files may be large.
    pub(crate) fn store(
        self,
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
    fn store_all(&self) -> Result<Vec<(Key, Content)>, Outcome> {
        let mut stored: Vec<(Key, Content)> = Vec::new();
        for (key, path) in &self.files {
            let path = Path::new(OsStr::from_bytes(path));
            match self.objects.store.add(key.clone(), path) {
                Ok(content) => stored.push((key.clone(), content)),
                Err(error) => {
                    stored.iter().for_each(|(key, _)| self.objects.store.remove(&key.object));
                    return Err(refused(&key.object, path, &error));
                }
            }
        }
        Ok(stored)
    }
}

// What is wrong with the file is the fault of the task. That there is no room, or the disk fails, is not: it runs once more, in a
// while or elsewhere.
fn refused(object: &ObjectId, file: &Path, error: &StoreError) -> Outcome {
    let is_of_file = matches!(error, StoreError::NoFile(_))
        || matches!(error, StoreError::Io { path, .. } if path == file)
        || matches!(error, StoreError::Full { wanted, cap, .. } if wanted > cap);
    match is_of_file {
        true => Outcome::Failed(FailureKind::Output, text(object, file, error)),
        false => {
            Outcome::Unfetched { object: object.clone(), holders: Vec::new(), reason: error.to_string() }
        }
    }
}

fn text(object: &ObjectId, file: &Path, error: &StoreError) -> String {
    let (name, path) = (&object.name, file.display());
    match error {
        StoreError::Io { path: of, source } if of == file && source.kind() == io::ErrorKind::NotFound => {
            format!(
                "Its object {name} is missing: there is no {path}, although the program exited with code 0"
            )
        }
        error => format!("Its object {name} ({path}) cannot be stored: {error}"),
    }
}
