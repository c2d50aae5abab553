//! What is brought to each node before the first task there that wants it: a file, a directory, or an object that is there.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::object::{ObjectError, ObjectRef, ObjectTask};
use crate::{InputObject, ObjectName};

/// Something that is broadcast: `[NAME=]PATH` or `[NAME=]JOB@TASK:NAME` in text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broadcast {
    /// What tasks find it as.
    pub name: ObjectName,
    /// What it is.
    pub from: BroadcastFrom,
}

/// Where a broadcast comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BroadcastFrom {
    /// A file or directory, which one worker reads.
    Path(String),
    /// An object that is there, or will be.
    Object(ObjectRef),
}

impl Broadcast {
    /// What a task takes of it, where it is an object.
    pub fn taken(&self) -> Option<InputObject> {
        match &self.from {
            BroadcastFrom::Path(_) => None,
            BroadcastFrom::Object(object) => Some(InputObject::in_place(self.name.clone(), object.clone())),
        }
    }
}

impl fmt::Display for Broadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            BroadcastFrom::Path(path) => write!(f, "{}={path}", self.name),
            BroadcastFrom::Object(object) => write!(f, "{}={object}", self.name),
        }
    }
}

impl FromStr for Broadcast {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ObjectError::Broadcast(text.into());
        // What stands before the sign is a name, unless it is the beginning of a path.
        let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        let (name, what) = match named {
            Some((name, what)) => (Some(name.parse::<ObjectName>()?), what),
            None => (None, text),
        };
        if what.is_empty() || what.contains('\0') {
            return Err(bad());
        }
        let object = what.parse().ok().filter(|object: &ObjectRef| {
            let is_one = matches!(object.task, ObjectTask::One(_));
            object.job.is_some() && is_one
        });
        if let Some(object) = object {
            let name = name.unwrap_or_else(|| object.name.clone());
            return Ok(Broadcast { name, from: BroadcastFrom::Object(object) });
        }
        let last = || Path::new(what).file_name().and_then(|name| name.to_str()).ok_or_else(bad);
        let name = match name {
            Some(name) => name,
            // It may be a path, or begin with a name that is none.
            None => last()?.parse().map_err(|error| match text.contains('=') {
                true => bad(),
                false => error,
            })?,
        };
        Ok(Broadcast { name, from: BroadcastFrom::Path(what.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for (text, whole) in [
            ("genome", "genome=genome"),
            ("/data/genome", "genome=/data/genome"),
            ("data/env/", "env=data/env/"),
            ("env=../venv", "env=../venv"),
            ("/data/a=b", "a=b=/data/a=b"),
            ("here=.", "here=."),
            ("a=b=c", "a=b=c"),
            ("1@0:parts", "parts=1@0:parts"),
            ("p=1@0:parts", "p=1@0:parts"),
        ] {
            let told = text.parse::<Broadcast>().map(|broadcast| broadcast.to_string());
            match text == "/data/a=b" {
                // No name of an object has such a sign in it.
                true => assert!(told.is_err(), "{told:?}"),
                false => assert_eq!(told.as_deref(), Ok(whole), "{text}"),
            }
        }
        for text in ["", "a=", "=a", ".", "..", "/", "a:b", "a:b=x", "x=a\0"] {
            assert!(text.parse::<Broadcast>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_there_is_taken_in_place() {
        let of = |text: &str| text.parse::<Broadcast>().expect(text).taken();
        assert_eq!(of("genome"), None);
        let taken = of("p=1@0:parts").expect("an object");
        assert!(taken.is_in_place());
        assert_eq!(taken.to_string(), "p=1@0:parts->%{BROADCAST_DIR}/p");
        assert!(!"p=1@0:parts".parse::<InputObject>().expect("an object").is_in_place());
    }
}
