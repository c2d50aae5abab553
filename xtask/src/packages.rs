//! What the tests need from the system: installed as root on Debian, otherwise listed.

use std::path::Path;
use std::process::Command;

use crate::{Trouble, steps};

/// A program, the Debian package it comes from, and what is left out without it.
const NEEDED: [(&str, &str, &str); 2] = [
    ("bowtie2", "bowtie2", "the alignment example"),
    ("/usr/share/doc/bowtie2/examples", "bowtie2-examples", "the alignment example"),
];

/// Installs what is missing; returns what stays missing, with what is left out for it.
pub(crate) fn install(root: &Path) -> Result<Vec<&'static str>, Trouble> {
    let missing: Vec<_> = NEEDED.iter().filter(|needed| !is_there(needed.0)).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = missing.iter().map(|needed| needed.1).collect();
    // SAFETY: asks for a number and touches nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root && is_there("apt-get") {
        println!("installing {}", names.join(" "));
        steps::run(root, "apt-get", &["-qq", "update"])?;
        let mut arguments = vec!["-qq", "install", "--yes", "--no-install-recommends"];
        arguments.extend(&names);
        steps::run(root, "apt-get", &arguments)?;
        return Ok(Vec::new());
    }
    println!("missing packages: {} (install them to run every test)", names.join(" "));
    let mut left_out: Vec<&str> = missing.iter().map(|needed| needed.2).collect();
    left_out.dedup();
    Ok(left_out)
}

fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        return Path::new(what).exists();
    }
    Command::new("sh").args(["-c", &format!("command -v {what}")]).output().is_ok_and(|o| o.status.success())
}
