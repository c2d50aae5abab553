//! Executes the commands of a page in one shell and compares what they print with what is shown.
//!
//! A page has a home of its own with nothing in it; in printed text that home is `/home/me`, and the
//! page begins in `/home/me/work`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::page::{self, PageCommand};
use crate::place::Place;
use crate::{exec, leftovers, wildcard};

/// How long all commands of a page may take together.
const PAGE_LIMIT: Duration = Duration::from_secs(180);
/// What the reader sees instead of the page's private home.
const SHOWN_HOME: &str = "/home/me";

/// What came of a page.
pub(crate) struct PageResult {
    /// Commands whose output and exit code were as shown.
    pub passed: u32,
    /// What was wrong.
    pub errors: Vec<String>,
    /// The page with what was printed in place of what did not agree.
    pub blessed: String,
}

/// Executes the page at `path`, relative to the workspace.
///
/// # Errors
/// When the page cannot be read or the shell not be started.
pub(crate) fn execute(place: &Place, path: &Path) -> io::Result<PageResult> {
    let text = fs::read_to_string(place.root.join(path))?;
    let commands = page::commands(&text);
    if commands.is_empty() {
        return Ok(PageResult { passed: 0, errors: Vec::new(), blessed: text });
    }
    let home = place.home.join("me");
    let work = home.join("work");
    fs::create_dir_all(&work)?;
    let script = place.tmp.join("page.sh");
    fs::write(&script, shell_script(&commands, &place.mark))?;
    let search = std::env::var("PATH").unwrap_or_default();
    let mut shell = place.command("bash");
    shell
        .args(["--noprofile", "--norc"])
        .arg(&script)
        .current_dir(&work)
        .env("HOME", &home)
        .env("PATH", format!("{}:{search}", place.target.join("debug").display()))
        .env("HQ_PAGE_LOGS", &place.tmp);
    let name = path.to_string_lossy().replace('/', "-");
    let log = place.target.join("xtask-logs").join(format!("page-{name}.log"));
    let ended = exec::run(&mut shell, PAGE_LIMIT, &log, &place.mark)?;
    let printed = ended.text.replace(&*home.to_string_lossy(), SHOWN_HOME);
    let mut result = compare(path, &text, &commands, &printed, &place.mark);
    if let Err(why) = ended.status {
        result.errors.push(format!("{}: its shell {why}", path.display()));
    }
    for left in leftovers::end_processes(&place.mark) {
        result.errors.push(format!("{}: {left}", path.display()));
    }
    for directory in [&place.home, &place.tmp] {
        for entry in fs::read_dir(directory)? {
            let left = entry?.path();
            let is_own = left == home || left.extension().is_some_and(|e| e == "sh" || e == "background");
            if !is_own {
                result.errors.push(format!("{}: leaves {}", path.display(), left.display()));
            }
            if left.is_dir() { fs::remove_dir_all(&left)? } else { fs::remove_file(&left)? }
        }
    }
    Ok(result)
}

// Each command is followed by a line with its exit code. What goes on in the background prints to
// a file, since nobody can say when.
fn shell_script(commands: &[PageCommand], mark: &str) -> String {
    let mut script = String::from("exec 2>&1\n");
    for (index, command) in commands.iter().enumerate() {
        if command.is_background() {
            script += &format!("{{ {}\n}} >$HQ_PAGE_LOGS/{index}.background 2>&1\n", command.text);
        } else {
            script += &format!("{}\n", command.text);
        }
        script += &format!("printf '\\n%s %s\\n' {mark} $?\n");
    }
    script
}

fn compare(path: &Path, text: &str, commands: &[PageCommand], printed: &str, mark: &str) -> PageResult {
    let page: Vec<_> = text.lines().collect();
    let mut result = PageResult { passed: 0, errors: Vec::new(), blessed: String::new() };
    let mut rest = printed;
    let mut copied = 0;
    for command in commands {
        let place = format!("{}:{}", path.display(), command.line + 1);
        let Some((output, exit, after)) = next_output(rest, mark) else {
            result.errors.push(format!("{place}: `{}` did not end; it printed:\n{rest}", command.text));
            break;
        };
        rest = after;
        let lines: Vec<_> = output.lines().map(str::trim_end).collect();
        let shown = &page[command.shown.clone()];
        let is_compared = !command.is_hidden && !command.is_background();
        let agrees = !is_compared || wildcard::agree(shown, &lines);
        if exit != command.exit {
            result.errors.push(format!(
                "{place}: `{}` exits with {exit}, not {}; it printed:\n{output}",
                command.text, command.exit
            ));
        } else if !agrees {
            result.errors.push(format!(
                "{place}: `{}` printed:\n{}\nbut the page shows:\n{}",
                command.text,
                lines.join("\n"),
                shown.join("\n")
            ));
        } else {
            result.passed += 1;
        }
        result.blessed += &joined(&page[copied..command.shown.start]);
        result.blessed += &joined(if agrees { shown } else { &lines });
        copied = command.shown.end;
    }
    result.blessed += &joined(&page[copied..]);
    result
}

// What the next command printed, its exit code, and what follows.
fn next_output<'a>(printed: &'a str, mark: &str) -> Option<(&'a str, i32, &'a str)> {
    let sign = format!("\n{mark} ");
    let at = printed.find(&sign)?;
    let (exit, after) = printed[at + sign.len()..].split_once('\n')?;
    // The end of the last line was added by the sign if the command printed none.
    Some((&printed[..at], exit.parse().ok()?, after))
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "```console\n$ one\nout 1\n$ two  # exits with 3\n```\nend\n";

    #[track_caller]
    fn check(printed: &str, passed: u32, errors: usize, blessed: &str) {
        let result = compare(Path::new("p.md"), PAGE, &page::commands(PAGE), printed, "MARK");
        assert_eq!((result.passed, result.errors.len()), (passed, errors), "{:?}", result.errors);
        assert_eq!(result.blessed, blessed);
    }

    #[test]
    fn what_is_printed_is_compared_with_what_is_shown() {
        check("out 1\n\nMARK 0\n\nMARK 3\n", 2, 0, PAGE);
    }

    #[test]
    fn other_output_is_an_error_and_can_be_taken_over() {
        check("out 2\n\nMARK 0\n\nMARK 3\n", 1, 1, &PAGE.replace("out 1", "out 2"));
    }

    #[test]
    fn another_exit_code_is_an_error() {
        check("out 1\n\nMARK 1\n\nMARK 3\n", 1, 1, PAGE);
    }

    #[test]
    fn a_command_that_never_ended_is_an_error() {
        check("out 1\n\nMARK 0\nhalf", 1, 1, PAGE);
    }
}
