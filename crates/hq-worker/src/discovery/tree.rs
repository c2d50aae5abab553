//! Small text files below a directory that stands for the node's root.

use std::fs;
use std::path::{Path, PathBuf};

/// The node's files, real or made up.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Tree {
        Tree { root: root.to_owned() }
    }

    /// The trimmed text of a file; `None` when it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path.trim_start_matches('/'))).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Names in a directory, sorted; numbers in them count as numbers.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path.trim_start_matches('/')));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (trailing_number(name), name.clone()));
        names
    }

    /// True when there is such a file or directory.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path.trim_start_matches('/')).exists()
    }
}

/// The number that a name ends with.
pub(super) fn trailing_number(name: &str) -> Option<u32> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

/// A list of numbers as the kernel writes it: `0-3,8`. What makes no sense in it is left out.
pub(super) fn number_list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>())
            && first <= last
            && last < 1 << 20
        {
            numbers.extend(first..=last);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
