//! The command-line reference in the docs, printed by the binary itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Trouble, steps};

/// Writes `docs/reference/cli.md`; with `check` only says whether it is stale.
pub(crate) fn run(root: &Path, check: bool) -> Result<Option<PathBuf>, Trouble> {
    let hq = steps::build_hq(root, false)?;
    let output = Command::new(hq).args(["generate-reference"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let path = root.join("docs/reference/cli.md");
    if fs::read(&path).is_ok_and(|old| old == output.stdout) {
        return Ok(None);
    }
    if !check {
        fs::create_dir_all(root.join("docs/reference"))?;
        fs::write(&path, &output.stdout)?;
    }
    Ok(Some(path))
}
