//! House rules that a program can check: files open with what they are for, are not too long, have no
//! unfinished places; crates import what the architecture allows.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Trouble;

/// Longest source file, in lines.
const LINES_MAX: usize = 800;

/// What each crate may import of ours.
const IMPORTS: [(&str, &[&str]); 9] = [
    ("hq-model", &[]),
    ("hq-journal", &[]),
    ("hq-core", &["hq-model"]),
    ("hq-proto", &["hq-model", "hq-core"]),
    ("hq-net", &["hq-proto"]),
    ("hq-server", &["hq-model", "hq-core", "hq-journal", "hq-proto", "hq-net"]),
    ("hq-worker", &["hq-model", "hq-core", "hq-proto", "hq-net"]),
    ("hq-client", &["hq-model", "hq-core", "hq-proto", "hq-net"]),
    ("hq", &["hq-model", "hq-core", "hq-proto", "hq-net", "hq-client", "hq-server", "hq-worker"]),
];

/// Checks everything and names what breaks a rule.
pub(crate) fn run(root: &Path) -> Result<(), Trouble> {
    let mut broken = Vec::new();
    for file in sources(root) {
        let text = fs::read_to_string(&file)?;
        check_source(&file, &text, &mut broken);
    }
    for (name, allowed) in IMPORTS {
        let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml"))?;
        check_imports(name, allowed, &manifest, &mut broken);
    }
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n").into()) }
}

fn check_source(file: &Path, text: &str, broken: &mut Vec<String>) {
    let mut complain = |what: &str| broken.push(format!("{}: {what}", file.display()));
    if !text.starts_with("//!") {
        complain("does not open with what it is for (`//!`)");
    }
    if text.lines().count() > LINES_MAX {
        complain("is too long: split it by idea");
    }
    if text.lines().any(|line| line.ends_with(' ')) {
        complain("has trailing blanks");
    }
    // Spelled in parts, so that this file passes its own rule.
    for unfinished in [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ig", "nore")] {
        if text.contains(unfinished) {
            complain(&format!("has an unfinished place: {unfinished}"));
        }
    }
}

fn check_imports(name: &str, allowed: &[&str], manifest: &str, broken: &mut Vec<String>) {
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("");
    let dependencies = dependencies.split("\n[").next().unwrap_or("");
    for line in dependencies.lines().filter(|line| line.starts_with("hq-")) {
        let import = line.split(['.', ' ', '=']).next().unwrap_or(line);
        if !allowed.contains(&import) {
            broken.push(format!("crate {name} may not import {import}"));
        }
    }
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "sim", "xtask"].map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !["target", "generated"].iter().any(|skip| path.ends_with(skip)) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_named() {
        let mut broken = Vec::new();
        check_source(Path::new("a.rs"), "fn a() {} \n", &mut broken);
        check_imports("hq-core", &["hq-model"], "[dependencies]\nhq-net.workspace = true\n", &mut broken);
        assert_eq!(
            broken,
            [
                "a.rs: does not open with what it is for (`//!`)",
                "a.rs: has trailing blanks",
                "crate hq-core may not import hq-net"
            ]
        );
    }
}
