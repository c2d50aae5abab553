//! Compares what a command printed with what a page shows.
//!
//! What differs from run to run need not agree: `[..]` in a shown line stands for any text, a line
//! `...` for any lines. Durations and dates agree with each other whatever they say, and so do runs of
//! spaces or dashes, which only fill tables.

/// Any text within a line.
const ANY_TEXT: &str = "[..]";
/// Any lines.
const ANY_LINES: &str = "...";
/// Units of durations.
const UNITS: [&str; 8] = ["ns", "us", "µs", "ms", "s", "m", "h", "d"];

/// Whether all lines agree.
pub(crate) fn agree(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [ANY_LINES, rest @ ..] => (0..=printed.len()).any(|skipped| agree(rest, &printed[skipped..])),
        [line, rest @ ..] => printed
            .split_first()
            .is_some_and(|(first, others)| line_agrees(line, first) && agree(rest, others)),
    }
}

/// Whether a line agrees.
pub(crate) fn line_agrees(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (plain(shown), plain(printed));
    let mut parts = shown.split(ANY_TEXT);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

// The line without what differs from run to run.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.trim_end();
    while let Some(next) = rest.chars().next() {
        let is_word_start = !out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if next.is_ascii_digit() && is_word_start {
            if let Some(length) = date(rest) {
                out.push_str("<date>");
                rest = &rest[length..];
                continue;
            }
            if let Some(length) = duration(rest) {
                // Several parts, `1m 30s`, are one duration.
                if !out.ends_with("<time> ") {
                    out.push_str("<time>");
                } else {
                    out.pop();
                }
                rest = &rest[length..];
                continue;
            }
        }
        if !(out.ends_with(next) && (next == ' ' || next == '-' || next == '=')) {
            out.push(next);
        }
        rest = &rest[next.len_utf8()..];
    }
    out
}

// `2026-01-02T03:04:05Z` with or without fraction.
fn date(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let form = b"0000-00-00T00:00:00";
    let has_form = bytes.len() >= form.len()
        && form
            .iter()
            .zip(bytes)
            .all(|(form, byte)| if *form == b'0' { byte.is_ascii_digit() } else { form == byte });
    let rest = has_form.then(|| &text[form.len()..])?;
    let fraction = rest.strip_prefix('.').map_or(0, |digits| 1 + leading_digits(digits));
    Some(form.len() + fraction + usize::from(rest[fraction..].starts_with('Z')))
}

// A number with a unit.
fn duration(text: &str) -> Option<usize> {
    let mut length = leading_digits(text);
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + leading_digits(fraction);
    }
    let rest = &text[length..];
    let rest = rest
        .strip_prefix(' ')
        .filter(|rest| rest.starts_with("ms") || rest.starts_with("s "))
        .unwrap_or(rest);
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    UNITS.contains(&&rest[..letters]).then(|| text.len() - rest.len() + letters)
}

fn leading_digits(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shown: &str, printed: &str, expected: bool) {
        let (shown_lines, printed_lines): (Vec<_>, Vec<_>) =
            (shown.lines().collect(), printed.lines().collect());
        assert_eq!(agree(&shown_lines, &printed_lines), expected, "{shown:?} against {printed:?}");
    }

    #[test]
    fn lines_agree_up_to_what_differs_from_run_to_run() {
        check("same", "same", true);
        check("same", "other", false);
        check("a [..] c", "a b c", true);
        check("a [..]", "a ", false);
        check("[..]\nb", "\nb", true);
        check("x[..]y[..]z", "x1y2z", true);
        check("x[..]y[..]z", "x1z", false);
        check("took 43ms", "took 1.5s", true);
        check("took 43ms", "took 1m 30s", true);
        check("took 43ms", "took 43", false);
        check("job 3s", "job 3", false);
        check("at 2026-01-02T03:04:05Z", "at 2027-09-08T07:06:05.123Z", true);
        check("| a  |", "| a      |", true);
        check("+---+", "+------+", true);
        check("1\n...\n4", "1\n2\n3\n4", true);
        check("1\n...\n4", "1\n4", true);
        check("1\n...\n4", "1\n2", false);
        check("", "unexpected", false);
        check("missing", "", false);
    }
}
