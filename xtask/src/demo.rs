//! `cargo xtask demo`: counts words of a shipped text on the embedded cluster, a task a chapter.

use std::path::Path;
use std::process::Command;

use crate::{Trouble, steps};

/// Builds the binary and runs the demo, checking its result.
pub(crate) fn run(root: &Path) -> Result<(), Trouble> {
    let hq = steps::build_hq(root, false)?;
    let work = tempfile::tempdir()?;
    let demo = root.join("examples/words");
    let status = Command::new("bash").arg(demo.join("run.sh")).arg(&hq).current_dir(work.path()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the demo ended with {status}").into()) }
}
