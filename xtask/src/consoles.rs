//! Executes the console blocks of the documents and compares what they print.
//!
//! A block is a fence marked `console`; its lines beginning with `$ ` are commands, run in order by one
//! `bash` in an empty directory with a server directory of its own. What follows must be printed; `[..]` stands for
//! anything within a line. A server started with `&` is ended after its document.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Trouble, steps};

/// Executes all documents.
pub(crate) fn run(root: &Path) -> Result<(), Trouble> {
    let hq = steps::build_hq(root, false)?;
    let mut documents = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") && !path.ends_with("reference/cli.md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    let mut wrong = Vec::new();
    for document in documents {
        wrong.extend(execute(&document, &hq)?);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

struct Line {
    command: String,
    expected: Vec<String>,
}

fn execute(document: &Path, hq: &Path) -> Result<Vec<String>, Trouble> {
    let lines = commands(&fs::read_to_string(document)?);
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let home = tempfile::tempdir()?;
    let bin = home.path().join("bin");
    let work = home.path().join("work");
    fs::create_dir_all(&bin)?;
    fs::create_dir_all(&work)?;
    std::os::unix::fs::symlink(hq, bin.join("hq"))?;
    // A mark after each command tells the outputs apart.
    let mut script = String::from("trap 'hq server stop >/dev/null 2>&1; wait' EXIT\n");
    for (number, line) in lines.iter().enumerate() {
        script.push_str(&line.command);
        script.push_str(&format!("\necho '\u{1}{number}'\n"));
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .arg("-c")
        .arg(format!("exec 2>&1\n{script}"))
        .current_dir(&work)
        .env("PATH", path)
        .env("HOME", home.path())
        .env_remove("HQ_SERVER_DIR")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut wrong = Vec::new();
    for (number, (line, printed)) in lines.iter().zip(split(&text, lines.len())).enumerate() {
        if !agrees(&line.expected, &printed) {
            wrong.push(format!(
                "{}: command {} `{}`\n  should print:\n{}\n  but prints:\n{}",
                document.display(),
                number + 1,
                line.command,
                indent(&line.expected),
                indent(&printed)
            ));
        }
    }
    Ok(wrong)
}

fn commands(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            lines.push(Line { command: command.into(), expected: Vec::new() });
        } else if inside && let Some(last) = lines.last_mut() {
            last.expected.push(line.into());
        }
    }
    lines
}

fn split(text: &str, count: usize) -> Vec<Vec<String>> {
    let mut rest = text;
    let mut parts = Vec::new();
    for number in 0..count {
        let mark = format!("\u{1}{number}\n");
        let (part, after) = rest.split_once(&mark).unwrap_or((rest, ""));
        parts.push(part.lines().map(|line| line.trim_end().to_owned()).collect());
        rest = after;
    }
    parts
}

fn agrees(expected: &[String], printed: &[String]) -> bool {
    let expected: Vec<&String> = expected.iter().filter(|line| !line.trim().is_empty()).collect();
    let printed: Vec<&String> = printed.iter().filter(|line| !line.trim().is_empty()).collect();
    expected.len() == printed.len() && expected.iter().zip(&printed).all(|(e, p)| line_agrees(e, p))
}

fn line_agrees(expected: &str, printed: &str) -> bool {
    let mut parts = expected.trim_end().split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    open || rest.is_empty()
}

fn indent(lines: &[String]) -> String {
    lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_anything_within_a_line() {
        for (expected, printed, agree) in [
            ("job 1", "job 1", true),
            ("took [..] s", "took 1.5 s", true),
            ("took [..]", "took 1.5 s", true),
            ("took [..] s", "took 1.5 m", false),
            ("a", "ab", false),
        ] {
            assert_eq!(line_agrees(expected, printed), agree, "{expected} {printed}");
        }
    }
}
