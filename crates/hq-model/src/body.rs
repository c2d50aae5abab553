//! What a task executes. A new kind of it is a variant here; the compiler then names the places that have to decide.

use crate::ByteString;

/// What stands in a command for the launcher of its ranks.
pub const MPIRUN: &[u8] = b"%{MPIRUN}";

/// What the tasks of a submit execute. Texts may hold placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A program, in a process of its own. It finds its task's entry in the variable `HQ_ENTRY`.
    Program {
        /// The program and its arguments; never empty.
        args: Vec<ByteString>,
    },
}

/// Nothing yet: no submit of it is taken.
impl Default for Body {
    fn default() -> Self {
        Body::Program { args: Vec::new() }
    }
}

impl Body {
    /// A program and its arguments.
    pub fn program<T: Into<ByteString>>(args: impl IntoIterator<Item = T>) -> Body {
        Body::Program { args: args.into_iter().map(Into::into).collect() }
    }

    /// True when there is nothing to execute.
    pub fn is_empty(&self) -> bool {
        match self {
            Body::Program { args } => args.is_empty(),
        }
    }

    /// What it is called. Tasks of one name are expected to take about as long.
    pub fn name(&self) -> &[u8] {
        match self {
            Body::Program { args } => args.first().map_or(&[], Vec::as_slice),
        }
    }

    /// Its texts, in which placeholders are replaced for each task.
    pub fn texts(&self) -> &[ByteString] {
        match self {
            Body::Program { args } => args,
        }
    }

    /// True when it says where the launcher of its ranks goes.
    pub fn names_launcher(&self) -> bool {
        self.texts().iter().any(|text| text.windows(MPIRUN.len()).any(|part| part == MPIRUN))
    }

    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.texts().iter().map(|text| 24 + text.len()).sum()
    }
}
