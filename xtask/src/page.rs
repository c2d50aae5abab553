//! The commands of a Markdown page: its console blocks, and the hidden ones that prepare them.
//!
//! In a block that is opened with ```` ```console ````, a line `$ COMMAND` is typed by the reader, lines
//! `> …` directly below continue it, and the lines after that are what it prints. A command that ends
//! with `# exits with N` must do so; all others must succeed. A comment `<!-- console … -->` holds
//! commands that run like the others, unseen, with nothing compared.

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageCommand {
    /// Index of the line that begins it.
    pub line: usize,
    /// What is typed; may have several lines.
    pub text: String,
    /// Indices of the lines that show what it prints.
    pub shown: std::ops::Range<usize>,
    /// Its exit code.
    pub exit: i32,
    /// Whether nothing is compared.
    pub is_hidden: bool,
}

impl PageCommand {
    /// Whether it goes on running beside the next ones; what it prints is then not compared.
    pub(crate) fn is_background(&self) -> bool {
        self.text.trim_end().ends_with('&') && !self.text.trim_end().ends_with("&&")
    }
}

/// The commands of a page, in their order.
pub(crate) fn commands(text: &str) -> Vec<PageCommand> {
    let lines: Vec<_> = text.lines().collect();
    let mut commands = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let end = |from: usize, close: &str| {
            (from..lines.len()).find(|&at| lines[at] == close).unwrap_or(lines.len())
        };
        match lines[index] {
            "```console" => {
                let close = end(index + 1, "```");
                visible(&lines, index + 1..close, &mut commands);
                index = close;
            }
            "<!-- console" => {
                let close = end(index + 1, "-->");
                let text = lines[index + 1..close].join("\n");
                let shown = close..close;
                commands.push(PageCommand { line: index + 1, text, shown, exit: 0, is_hidden: true });
                index = close;
            }
            // Other blocks may show what would be a command elsewhere.
            line if line.starts_with("```") && line.len() > 3 => index = end(index + 1, "```"),
            _ => {}
        }
        index += 1;
    }
    commands
}

fn visible(lines: &[&str], block: std::ops::Range<usize>, commands: &mut Vec<PageCommand>) {
    let mut index = block.start;
    while index < block.end {
        let Some(first) = lines[index].strip_prefix("$ ") else {
            // Output before any command belongs to none; it is compared with nothing on purpose: empty.
            index += 1;
            continue;
        };
        let line = index;
        let mut text = first.to_owned();
        index += 1;
        while let Some(more) = lines[..block.end]
            .get(index)
            .and_then(|line| line.strip_prefix("> ").or((*line == ">").then_some("")))
        {
            text.push('\n');
            text.push_str(more);
            index += 1;
        }
        let from = index;
        while index < block.end && !lines[index].starts_with("$ ") {
            index += 1;
        }
        let exit = exit_code(&text);
        commands.push(PageCommand { line, text, shown: from..index, exit, is_hidden: false });
    }
}

fn exit_code(text: &str) -> i32 {
    text.rsplit_once("# exits with ").and_then(|(_, code)| code.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_with_what_they_print() {
        let page = "# Page\n\n<!-- console\necho > a\n-->\n```console\n$ one\nout\n$ two <<E\n> text\n> E\n$ three # exits with 2\nlast\n```\n```text\n$ not this\n```\n";
        let found: Vec<_> =
            commands(page).into_iter().map(|c| (c.line, c.text, c.shown, c.exit, c.is_hidden)).collect();
        assert_eq!(
            found,
            [
                (3, "echo > a".to_owned(), 4..4, 0, true),
                (6, "one".to_owned(), 7..8, 0, false),
                (8, "two <<E\ntext\nE".to_owned(), 11..11, 0, false),
                (11, "three # exits with 2".to_owned(), 12..13, 2, false),
            ]
        );
    }

    #[test]
    fn a_command_in_the_background_is_one() {
        let is_background = |text: &str| {
            PageCommand { line: 0, text: text.to_owned(), shown: 0..0, exit: 0, is_hidden: false }
                .is_background()
        };
        assert!(is_background("hq worker start &"));
        assert!(!is_background("a && b"));
    }
}
