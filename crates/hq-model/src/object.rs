//! Objects: files that tasks leave for others, and take from others.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::dependency::After;
use crate::{ByteString, JobId, TaskId, TaskRef};

/// Most objects that one task leaves, and most that it takes.
pub const OBJECTS_OF_TASK_MAX: usize = 64;
/// Longest name of an object, in bytes.
pub const OBJECT_NAME_BYTES_MAX: usize = 255;

/// The placeholder for the directory of a task in which the objects are that it takes in place: in the store of its worker.
pub const BROADCAST_DIR: &str = "BROADCAST_DIR";
/// How a path below it begins.
const IN_PLACE: &str = "%{BROADCAST_DIR}/";

/// What stands for the id of the task that takes an object.
const SAME: &str = "%{TASK_ID}";

static VALUE: LazyLock<ObjectName> = LazyLock::new(|| ObjectName::of("value"));
static NO_NAME: LazyLock<ObjectName> = LazyLock::new(|| ObjectName::of(""));

/// The name of an object among those of its task. Clones share the text, and are one pointer: a server has many objects of few
/// names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<Box<str>>);

impl ObjectName {
    /// That of the value of a call, and of what a client gives without a name.
    pub fn value() -> ObjectName {
        VALUE.clone()
    }

    fn of(text: &str) -> ObjectName {
        ObjectName(Arc::new(text.into()))
    }

    /// The name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ObjectName {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match why_no_name(text) {
            Some(why) => Err(ObjectError::Name(text.into(), why)),
            None if text == VALUE.as_str() => Ok(ObjectName::value()),
            None => Ok(ObjectName::of(text)),
        }
    }
}

// What is wrong with it.
fn why_no_name(text: &str) -> Option<&'static str> {
    let has = |signs: &[char]| text.contains(signs);
    let why = [
        (text.trim().is_empty(), "it is blank"),
        (text.len() > OBJECT_NAME_BYTES_MAX, "it is longer than 255 bytes"),
        (matches!(text, "." | ".."), "it is a directory"),
        (has(&[':', '/', '=', '>', '→']), "it must not contain any of : / = > →"),
        (text.contains("%{"), "it must not contain a placeholder"),
        (text.contains(is_unseen), "it contains an invisible character"),
    ];
    why.into_iter().find_map(|(is_wrong, why)| is_wrong.then_some(why))
}

// What shows as nothing, ends lines or turns the direction of text: a name with it looks like another one.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// An object of a task; `3@17:parts` in text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The task that leaves it.
    pub task: TaskRef,
    /// Its name there.
    pub name: ObjectName,
}

impl ObjectId {
    /// Comes before all objects of a task in the order, and is none: where a range of them begins.
    pub fn before_all(task: TaskRef) -> ObjectId {
        ObjectId { task, name: NO_NAME.clone() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.task, self.name)
    }
}

/// Reads `JOB@TASK:NAME`.
impl FromStr for ObjectId {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse()? {
            ObjectRef { job: Some(job), task: ObjectTask::One(task), name } if job != After::LAST => {
                Ok(ObjectId { task: TaskRef::new(job, task), name })
            }
            _ => Err(ObjectError::Id(text.into())),
        }
    }
}

/// Whose object is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectTask {
    /// That of this task.
    One(TaskId),
    /// That of the task with the id of the one that takes it.
    Same,
}

/// Names an object for the tasks of a submit: `JOB@TASK:NAME`, `@TASK:NAME` in the same job; `last` as the job is the one that
/// was made last, `%{TASK_ID}` as the task the one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// The job; that of the submit when there is none. [`After::LAST`] only until the server has looked it up.
    pub job: Option<JobId>,
    /// The task.
    pub task: ObjectTask,
    /// The name of the object.
    pub name: ObjectName,
}

impl ObjectRef {
    /// The object that a task takes.
    pub fn of(&self, reader: TaskRef) -> ObjectId {
        let task = match self.task {
            ObjectTask::One(task) => task,
            ObjectTask::Same => reader.task,
        };
        ObjectId { task: TaskRef::new(self.job.unwrap_or(reader.job), task), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(After::LAST) => write!(f, "last")?,
            Some(job) => write!(f, "{job}")?,
            None => {}
        }
        match self.task {
            ObjectTask::One(task) => write!(f, "@{task}:{}", self.name),
            ObjectTask::Same => write!(f, "@{SAME}:{}", self.name),
        }
    }
}

impl FromStr for ObjectRef {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ObjectError::Reference(text.into());
        let (job, rest) = text.split_once('@').ok_or_else(bad)?;
        let (task, name) = rest.split_once(':').ok_or_else(bad)?;
        let job = match job.trim() {
            "" => None,
            "last" => Some(After::LAST),
            job => Some(job.parse().ok().filter(|&job| job > 0).map(JobId).ok_or_else(bad)?),
        };
        let task = match task.trim() {
            SAME => ObjectTask::Same,
            task => ObjectTask::One(TaskId(task.parse().map_err(|_| bad())?)),
        };
        Ok(ObjectRef { job, task, name: name.parse()? })
    }
}

/// An object that a task leaves: `NAME=PATH` in text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutputObject {
    /// Its name.
    pub name: ObjectName,
    /// The file, relative to the working directory of the task; may hold placeholders.
    pub path: ByteString,
}

impl fmt::Display for OutputObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, String::from_utf8_lossy(&self.path))
    }
}

impl FromStr for OutputObject {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, path)) if is_path(path) => {
                Ok(OutputObject { name: name.parse()?, path: path.as_bytes().to_vec() })
            }
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Err(ObjectError::Path(path.into())),
            _ => Err(ObjectError::Output(text.into())),
        }
    }
}

/// An object that a task takes: `NAME=JOB@TASK:NAME->PATH` in text, where the path may be left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputObject {
    /// What the task calls it.
    pub name: ObjectName,
    /// Which it is.
    pub from: ObjectRef,
    /// Where it is put, relative to the working directory of the task; may hold placeholders. Under its name without it.
    pub path: Option<ByteString>,
}

impl InputObject {
    /// One that is taken in place: a task finds it under its name in the directory of its broadcasts.
    pub fn in_place(name: ObjectName, from: ObjectRef) -> InputObject {
        let path = format!("{IN_PLACE}{name}").into_bytes();
        InputObject { name, from, path: Some(path) }
    }

    /// True when it is not brought to the working directory.
    pub fn is_in_place(&self) -> bool {
        self.path().starts_with(IN_PLACE.as_bytes())
    }

    /// Where it is put.
    pub fn path(&self) -> &[u8] {
        self.path.as_deref().unwrap_or(self.name.as_str().as_bytes())
    }
}

impl fmt::Display for InputObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.from)?;
        match &self.path {
            Some(path) => write!(f, "->{}", String::from_utf8_lossy(path)),
            None => Ok(()),
        }
    }
}

impl FromStr for InputObject {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ObjectError::Input(text.into());
        let (name, rest) = text.split_once('=').ok_or_else(bad)?;
        let (from, path) = match rest.split_once("->").or_else(|| rest.split_once('→')) {
            Some((from, path)) if is_path(path) => (from, Some(path.as_bytes().to_vec())),
            Some(_) => return Err(bad()),
            None => (rest, None),
        };
        Ok(InputObject { name: name.parse()?, from: from.parse()?, path })
    }
}

/// Checks the objects of one submit against each other.
///
/// # Errors
/// When there are too many, two that are left have one name, or two that are taken have one path.
pub fn check_objects(outputs: &[OutputObject], inputs: &[InputObject]) -> Result<(), ObjectError> {
    if outputs.len() > OBJECTS_OF_TASK_MAX || inputs.len() > OBJECTS_OF_TASK_MAX {
        return Err(ObjectError::TooMany(outputs.len().max(inputs.len())));
    }
    for (place, output) in outputs.iter().enumerate() {
        if outputs[..place].iter().any(|other| other.name == output.name) {
            return Err(ObjectError::NameTwice(output.name.to_string()));
        }
    }
    for (place, input) in inputs.iter().enumerate() {
        if inputs[..place].iter().any(|other| plain_path(other.path()) == plain_path(input.path())) {
            return Err(ObjectError::PathTwice(String::from_utf8_lossy(input.path()).into_owned()));
        }
        if input.from.job.is_none() && input.from.task == ObjectTask::Same {
            return Err(ObjectError::Own(input.to_string()));
        }
    }
    Ok(())
}

/// A path without what means nothing in it: `./a//b/.` is `a/b`. Two that are equal then are one place.
pub fn plain_path(path: &[u8]) -> PathBuf {
    let parts = Path::new(OsStr::from_bytes(path)).components();
    parts.filter(|part| !matches!(part, Component::CurDir)).collect()
}

// True for what can be the path of a file.
fn is_path(text: &str) -> bool {
    let names_file = Path::new(text).file_name().is_some() && !text.ends_with('/') && !text.ends_with("/.");
    names_file && !text.contains('\0')
}

// As it can be shown: also what `escape_debug` takes for a letter and shows as nothing.
fn escaped(text: &str) -> String {
    let escape = |c: char| match is_unseen(c) {
        true => c.escape_unicode().to_string(),
        false => c.escape_debug().to_string(),
    };
    text.chars().map(escape).collect()
}

/// A text that names no object, or objects that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No name.
    #[error("`{}` cannot be the name of an object: {}", escaped(.0), .1)]
    Name(String, &'static str),
    /// No reference.
    #[error(
        "`{}` is not JOB@TASK:NAME, or @TASK:NAME for the same job: JOB and TASK are numbers; JOB may be last, and TASK %{{TASK_ID}}",
        escaped(.0)
    )]
    Reference(String),
    /// Not one object.
    #[error("`{}` is not an object: use JOB@TASK:NAME, such as 1@0:parts", escaped(.0))]
    Id(String),
    /// No object that is left.
    #[error("`{}` is not NAME=PATH, such as parts=out/parts.bin", escaped(.0))]
    Output(String),
    /// What is left must be a file or a directory with a name of its own.
    #[error(
        "`{}` is not a file or directory in the working directory of the task: give its name without a trailing \
         `/`, such as parts=out/parts.bin", escaped(.0)
    )]
    Path(String),
    /// No object that is taken.
    #[error(
        "`{}` is not NAME=JOB@TASK:NAME or NAME=JOB@TASK:NAME->PATH, such as parts=1@0:parts->in/parts.bin",
        escaped(.0)
    )]
    Input(String),
    /// Nothing that is broadcast.
    #[error(
        "`{0}` is not PATH, NAME=PATH or JOB@TASK:NAME: if the last part of a path cannot be the name of an object, \
         use NAME=PATH, without : / = > in NAME"
    )]
    Broadcast(String),
    /// More than there may be.
    #[error("a task has {0} objects, but can have at most 64 output objects and 64 input objects")]
    TooMany(usize),
    /// Two of one name.
    #[error("two output objects have the name `{0}`")]
    NameTwice(String),
    /// Two at one place.
    #[error("two input objects have the path `{0}`")]
    PathTwice(String),
    /// A task cannot wait for itself.
    #[error("`{0}` is an output object of the task itself: give another task or another job")]
    Own(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for text in ["parts=1@0:parts", "x=@7:y", "x=last@7:y", "a=3@%{TASK_ID}:b->in/%{TASK_ID}.bin"] {
            assert_eq!(text.parse::<InputObject>().map(|input| input.to_string()), Ok(text.into()));
        }
        let arrow: InputObject = "a=3@1:b→in/b".parse().expect("an arrow");
        assert_eq!((arrow.path(), arrow.to_string().as_str()), (&b"in/b"[..], "a=3@1:b->in/b"));
        assert_eq!("parts=1@0:p".parse::<InputObject>().expect("no path").path(), b"parts");
        for text in ["", "a", "a=", "a=1:b", "a=1@b", "a=0@1:b", "a=1@x:b", "a=1@1:", "a=1@1:b->", "/=1@1:b"]
        {
            assert!(text.parse::<InputObject>().is_err(), "{text}");
        }
        assert_eq!("p=out/p.bin".parse::<OutputObject>().map(|o| o.to_string()), Ok("p=out/p.bin".into()));
        for text in
            ["", "p", "p=", "=x", "..=x", "a:b=x", "a\n=x", "a%{TASK_ID}=x", "p=/", "p=.", "p=d/", "p=d/.."]
        {
            assert!(text.parse::<OutputObject>().is_err(), "{text}");
        }
        let why = |text: &str| text.parse::<OutputObject>().expect_err(text).to_string();
        assert!(why("p=.").starts_with("`.` is not a file or directory"), "{}", why("p=."));
        assert!(why("p=").contains("is not NAME=PATH"));
        assert_eq!(
            why("a/b=x"),
            "`a/b` cannot be the name of an object: it must not contain any of : / = > →"
        );
        assert_eq!("3@17:parts".parse::<ObjectId>().map(|id| id.to_string()), Ok("3@17:parts".into()));
        assert!("@17:parts".parse::<ObjectId>().is_err());
        assert!("last@17:parts".parse::<ObjectId>().is_err());
        assert!("x".repeat(256).parse::<ObjectName>().is_err());
        assert!("x".repeat(255).parse::<ObjectName>().is_ok());
    }

    #[test]
    fn names_can_be_seen() {
        for text in
            [" ", "\u{3000}\t", "a\u{202e}b", "a\u{200b}", "a\u{2066}b", "\u{feff}a", "a\u{2028}b", "a\u{7}"]
        {
            let error = text.parse::<ObjectName>().expect_err(text).to_string();
            assert!(!error.contains(is_unseen), "{error:?}");
        }
        assert!(
            "a\u{202e}b"
                .parse::<ObjectName>()
                .expect_err("refused")
                .to_string()
                .starts_with("`a\\u{202e}b` cannot")
        );
        for text in ["a b", "größe", "数据", "a.b-c_d+e"] {
            assert!(text.parse::<ObjectName>().is_ok(), "{text}");
        }
    }

    #[test]
    fn ranges_begin_before_all_objects_of_a_task() {
        let task = TaskRef::new(JobId(3), TaskId(17));
        let begin = ObjectId::before_all(task);
        assert!(begin < "3@17:!".parse().expect("an object"));
        assert!(begin > "3@16:\u{10ffff}".parse().expect("an object"));
    }

    #[test]
    fn which_object() {
        let reader = TaskRef::new(JobId(2), TaskId(5));
        let of = |text: &str| text.parse::<ObjectRef>().expect(text).of(reader).to_string();
        assert_eq!(of("1@3:a"), "1@3:a");
        assert_eq!(of("1@%{TASK_ID}:a"), "1@5:a");
        assert_eq!(of("@3:a"), "2@3:a");
    }

    #[test]
    fn what_goes_together() {
        let check = |outputs: &[&str], inputs: &[&str]| {
            let outputs: Vec<OutputObject> = outputs.iter().map(|text| text.parse().expect(text)).collect();
            let inputs: Vec<InputObject> = inputs.iter().map(|text| text.parse().expect(text)).collect();
            check_objects(&outputs, &inputs)
        };
        assert_eq!(check(&["a=x", "b=x"], &["a=1@1:x", "b=1@1:x"]), Ok(()));
        assert_eq!(check(&["a=x", "a=y"], &[]), Err(ObjectError::NameTwice("a".into())));
        assert_eq!(check(&[], &["a=1@1:x", "b=1@2:x->a"]), Err(ObjectError::PathTwice("a".into())));
        assert_eq!(check(&[], &["a=1@1:x", "b=1@2:x->./a"]), Err(ObjectError::PathTwice("./a".into())));
        assert!(matches!(check(&[], &["a=@%{TASK_ID}:x"]), Err(ObjectError::Own(_))));
        let many: Vec<String> = (0..=OBJECTS_OF_TASK_MAX).map(|number| format!("o{number}=x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(check(&many, &[]), Err(ObjectError::TooMany(65)));
    }
}
