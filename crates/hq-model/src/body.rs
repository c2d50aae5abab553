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
    /// A function, called in an interpreter that stays for the next call.
    Function(Function),
    /// Nothing of ours: somebody asks a relay for the task, and says how it ended. Its key is its name, and its [entry](crate::pulled)
    /// says that name and a payload.
    Pulled,
    /// Nothing at all: a client has given an object, and its task is there to be named. It has finished as soon as it is there.
    Given,
}

/// A function of a module, and what it is called with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// `MODULE:NAME`. The module is looked for in the working directory, too, and the name may have dots. When there is
    /// code: what people call it.
    pub name: String,
    /// The function itself, as the client's library packs it for its runners; nothing else looks into it. Empty when the
    /// name says where it is.
    pub code: ByteString,
    /// The program of the interpreter and arguments for it, which come before ours; never empty.
    pub interpreter: Vec<ByteString>,
    /// JSON: an array of positional arguments, an object of named ones, or nothing.
    pub arguments: ByteString,
    /// What the entry of a task is, which comes before the other arguments.
    pub entry: EntryKind,
    /// Of one with ranks: which world they are.
    pub mpi: Mpi,
    /// Of one with ranks: it returns what each of them returned, as a list, and not what rank 0 did.
    pub gathers: bool,
}

/// Which world the ranks of a function are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mpi {
    /// One that stays for the next call on as many ranks; each call has a communicator of its own in it.
    #[default]
    Warm,
    /// One that is started for the call and ends with it.
    World,
}

/// What the entry of a task is to its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A text.
    #[default]
    Text,
    /// A value in JSON.
    Json,
    /// All its arguments, as the client's library packs them; so are its results and exceptions.
    Packed,
}

/// Most bytes of the code of a function.
pub const CODE_MAX: usize = 256 << 10;

impl Function {
    /// Checks what a function has to keep to.
    ///
    /// # Errors
    /// Which rule is broken, to come after the name of the option.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.interpreter.is_empty() {
            return Err("must have an interpreter");
        }
        if self.is_packed() {
            let is_name = !self.name.is_empty() && !self.name.chars().any(char::is_control);
            return match self.code.len() {
                0 => Err("must have code when its arguments are packed"),
                CODE_MAX.. => Err("must have less than 256 KiB of code"),
                _ if !is_name => Err("must have a name without control characters"),
                _ => Ok(()),
            };
        }
        if !self.code.is_empty() {
            return Err("must have packed arguments when it has code");
        }
        let is_identifier = |part: &str| {
            let mut letters = part.chars();
            letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        let is_dotted = |name: &str| name.split('.').all(is_identifier);
        match self.name.split_once(':') {
            Some((module, function)) if is_dotted(module) && is_dotted(function) => {}
            _ => return Err("must be a module and a function of it, for example `score:main`"),
        }
        Ok(())
    }

    /// True when it and what it is given are the client's alone to read.
    pub fn is_packed(&self) -> bool {
        self.entry == EntryKind::Packed
    }
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
            Body::Function(function) => function.name.is_empty(),
            Body::Pulled | Body::Given => false,
        }
    }

    /// What it is called. Tasks of one name are expected to take about as long.
    pub fn name(&self) -> &[u8] {
        match self {
            Body::Program { args } => args.first().map_or(&[], Vec::as_slice),
            Body::Function(function) => function.name.as_bytes(),
            Body::Pulled => b"(pulled)",
            Body::Given => b"(given)",
        }
    }

    /// Its texts, in which placeholders are replaced for each task.
    pub fn texts(&self) -> &[ByteString] {
        match self {
            Body::Program { args } => args,
            Body::Function(function) => &function.interpreter,
            Body::Pulled | Body::Given => &[],
        }
    }

    /// True when it says where the launcher of its ranks goes.
    pub fn names_launcher(&self) -> bool {
        self.texts().iter().any(|text| text.windows(MPIRUN.len()).any(|part| part == MPIRUN))
    }

    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        24 * self.texts().len() + self.texts_len()
    }

    /// Length of all that it says, in bytes.
    pub fn texts_len(&self) -> usize {
        let texts: usize = self.texts().iter().map(Vec::len).sum();
        let more = match self {
            Body::Program { .. } | Body::Pulled | Body::Given => 0,
            Body::Function(function) => function.name.len() + function.arguments.len() + function.code.len(),
        };
        texts + more
    }

    /// The function, if it is one.
    pub fn function(&self) -> Option<&Function> {
        match self {
            Body::Program { .. } | Body::Pulled | Body::Given => None,
            Body::Function(function) => Some(function),
        }
    }

    /// True when relays give it to whoever asks.
    pub fn is_pulled(&self) -> bool {
        matches!(self, Body::Pulled)
    }

    /// True when results of its tasks are kept: what they leave behind travels with their ends.
    pub fn has_results(&self) -> bool {
        !matches!(self, Body::Program { .. } | Body::Given)
    }

    /// True when a client waits for each result, and what its tasks wait for may be among their arguments.
    pub fn is_packed_call(&self) -> bool {
        self.function().is_some_and(Function::is_packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_a_module_and_a_name() {
        let check = |name: &str| {
            let interpreter = vec![b"python3".to_vec()];
            Function { name: name.to_owned(), interpreter, ..Function::default() }.check().is_ok()
        };
        for good in ["score:main", "lab.score:main", "score:Model.fit", "_a1:b", "größe:maß"] {
            assert!(check(good), "{good}");
        }
        for bad in
            ["", "score", "score:", ":main", "score.py:main", "a b:c", "a:b:c", "a..b:c", "1a:b", "a:b()"]
        {
            // A file is no module, but it reads like one with a dot in its name.
            assert_eq!(check(bad), bad == "score.py:main", "{bad}");
        }
    }

    #[test]
    fn code_comes_with_packed_arguments_and_a_name_for_people() {
        let function = |name: &str, code: usize, entry| Function {
            name: name.to_owned(),
            code: vec![0; code],
            interpreter: vec![b"python3".to_vec()],
            entry,
            ..Function::default()
        };
        let check = |name, code, entry| function(name, code, entry).check().is_ok();
        assert!(check("main.<locals>.<lambda>", 1, EntryKind::Packed));
        assert!(!check("f", 0, EntryKind::Packed) && !check("f", CODE_MAX, EntryKind::Packed));
        assert!(!check("", 1, EntryKind::Packed) && !check("a\tb", 1, EntryKind::Packed));
        assert!(!check("score:main", 1, EntryKind::Json));
    }
}
