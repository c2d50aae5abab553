//! Entries of a submit: the lines of a file, or the elements of a JSON array.

use std::path::Path;

use hq_model::entry::is_of_entry;
use hq_model::job::TaskIds;
use hq_model::key::check_key;
use hq_model::pattern::Pattern;
use hq_model::{Entries, Entry, IdSet};
use serde_json::value::RawValue;

use super::error::{OptionsError, shown};
use crate::limits::{ENTRIES_BYTES_MAX, JSON_DEPTH_MAX, SUBMIT_BYTES_MAX};

/// The lines of a file, without their ends; those numbered in `subset`, counted from 0, or all. Beside them
/// their numbers.
///
/// # Errors
/// When there is no line, or the subset chooses none.
pub fn each_line(
    path: &Path,
    content: &[u8],
    subset: Option<&IdSet>,
) -> Result<(IdSet, Entries), OptionsError> {
    let content = without_mark(content);
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    if content.is_empty() {
        return Err(OptionsError::NoEntries { path: path.into(), unit: "line" });
    }
    let lines: Vec<&[u8]> =
        content.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l)).collect();
    choose(path, &lines, subset, "line")
}

/// The elements of a JSON array as JSON without blanks; those numbered in `subset`, counted from 0, or all.
/// Beside them their numbers.
///
/// # Errors
/// When the file is no JSON, no array or an empty one, or the subset chooses nothing.
pub fn from_json(
    path: &Path,
    content: &[u8],
    subset: Option<&IdSet>,
) -> Result<(IdSet, Entries), OptionsError> {
    let content = without_mark(content);
    if content.trim_ascii().is_empty() {
        return Err(OptionsError::NoEntries { path: path.into(), unit: "element" });
    }
    let bad = |message: String| OptionsError::Json { path: path.into(), message };
    let text = std::str::from_utf8(content)
        .map_err(|e| bad(format!("byte {} is not UTF-8 text", e.valid_up_to())))?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    let found = match whole.get().as_bytes().first() {
        Some(b'[') => None,
        Some(b'{') => Some("an object"),
        Some(b'"') => Some("a string"),
        Some(b't' | b'f') => Some("a truth value"),
        Some(b'n') => Some("null"),
        _ => Some("a number"),
    };
    if let Some(found) = found {
        return Err(OptionsError::JsonNoArray { path: path.into(), found });
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    if elements.is_empty() {
        return Err(OptionsError::NoEntries { path: path.into(), unit: "element" });
    }
    let too_deep = elements.iter().position(|element| depth(element.get()) > JSON_DEPTH_MAX);
    if let Some(place) = too_deep {
        return Err(OptionsError::JsonDepth {
            path: path.into(),
            place,
            depth: depth(elements[place].get()),
        });
    }
    let elements: Vec<Vec<u8>> = elements.iter().map(|e| without_blanks(e.get())).collect();
    let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    choose(path, &elements, subset, "element")
}

/// A text without the mark that some editors write at the beginning of a file.
pub(super) fn without_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content)
}

/// The keys of tasks with these ids and entries, made from a text with placeholders of entries and %{TASK_ID}.
///
/// # Errors
/// When a key is none, or one text would name several tasks.
pub(super) fn keys(key: Option<&str>, ids: &TaskIds, entries: &Entries) -> Result<Entries, OptionsError> {
    keys_within(SUBMIT_BYTES_MAX, key, ids, entries)
}

fn keys_within(
    most: u64,
    key: Option<&str>,
    ids: &TaskIds,
    entries: &Entries,
) -> Result<Entries, OptionsError> {
    let Some(key) = key else { return Ok(Entries::default()) };
    let wrong = |message: String| OptionsError::Key { message };
    let pattern = Pattern::new(key.as_bytes());
    let of_entry: Vec<String> = pattern.names().filter(|name| is_of_entry(name)).map(str::to_owned).collect();
    let (has_entry, has_id) = (!of_entry.is_empty(), pattern.has("TASK_ID"));
    if let Some(name) = of_entry.first().filter(|_| entries.is_empty()) {
        return Err(wrong(format!("%{{{name}}} in it needs --each-line or --from-json")));
    }
    let ids = match ids {
        TaskIds::Given(ids) => Some(ids),
        TaskIds::Next(_) if has_id => {
            return Err(wrong("%{TASK_ID} in it needs --array: other ids are given by the server".into()));
        }
        TaskIds::Next(_) => None,
    };
    let count = ids.map_or(entries.len().max(1) as u64, IdSet::len);
    if count > 1 && !has_entry && !has_id {
        let message = format!("it would name {count} tasks; put %{{ENTRY}} or %{{TASK_ID}} into it");
        return Err(wrong(message));
    }
    let mut found = Vec::new();
    let mut room = (most as usize).saturating_sub(entries.bytes_len());
    let mut ids = ids.into_iter().flat_map(IdSet::iter);
    for place in 0..count as usize {
        let (id, mut text) = (ids.next(), Vec::new());
        let entry = Entry::new(entries.get(place).unwrap_or_default());
        let checked = entry.check(&of_entry);
        checked.map_err(|error| wrong(format!("entry {place} (the first is 0): {error}")))?;
        pattern.expand_into(&mut text, &|name, out| {
            match (name, id) {
                ("TASK_ID", Some(id)) => out.extend_from_slice(id.to_string().as_bytes()),
                _ => return entry.append(name, out),
            }
            true
        });
        check_key(&text).map_err(|error| wrong(error.to_string()))?;
        room = room.checked_sub(text.len()).ok_or_else(|| {
            let most = most >> 20;
            wrong(format!(
                "the keys and entries of {count} tasks take more than {most} MiB, the most that a submit carries: open a job with \
                 `hq job open`, and submit parts of it with --job"
            ))
        })?;
        found.push(text);
    }
    Entries::new(found.iter().map(Vec::as_slice))
        .ok_or_else(|| wrong("the keys are too long together".into()))
}

// How many lists and objects of a JSON value are within each other at most.
fn depth(json: &str) -> usize {
    let (mut in_string, mut is_escaped) = (false, false);
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in json.bytes() {
        match byte {
            _ if in_string => {
                in_string = is_escaped || byte != b'"';
                is_escaped = !is_escaped && byte == b'\\';
            }
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

// The text of a JSON value without blanks outside strings: numbers stay as they were written.
fn without_blanks(json: &str) -> Vec<u8> {
    let (mut in_string, mut is_escaped) = (false, false);
    json.bytes()
        .filter(|b| {
            if in_string {
                in_string = is_escaped || *b != b'"';
                is_escaped = !is_escaped && *b == b'\\';
                return true;
            }
            in_string = *b == b'"';
            !b.is_ascii_whitespace()
        })
        .collect()
}

fn choose(
    path: &Path,
    entries: &[&[u8]],
    subset: Option<&IdSet>,
    unit: &'static str,
) -> Result<(IdSet, Entries), OptionsError> {
    let count = u32::try_from(entries.len())
        .map_err(|_| OptionsError::TooManyTasks { count: entries.len() as u64 })?;
    let mut ids = IdSet::range(0, count - 1);
    if let Some(subset) = subset {
        let mut chosen = IdSet::new();
        for range in subset.ranges().take_while(|r| *r.start() < count) {
            chosen.insert_range(*range.start(), (*range.end()).min(count - 1));
        }
        ids = chosen;
    }
    if ids.is_empty() {
        let ids = subset.map(ToString::to_string).unwrap_or_default();
        return Err(OptionsError::NothingChosen { ids, path: path.into(), unit, count: entries.len() });
    }
    if let Some(id) = ids.iter().find(|id| entries[id.0 as usize].contains(&0)) {
        return Err(OptionsError::Nul { what: format!("{}: entry {id}", shown(path)) });
    }
    let chosen = Entries::new(ids.iter().map(|id| entries[id.0 as usize]));
    let chosen = chosen
        .ok_or_else(|| OptionsError::TooLarge { what: shown(path).into_owned(), max: ENTRIES_BYTES_MAX })?;
    Ok((ids, chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts((ids, entries): (IdSet, Entries)) -> (Vec<u32>, Vec<String>) {
        let texts = entries.iter().map(|e| String::from_utf8_lossy(e).into_owned()).collect();
        (ids.iter().map(|i| i.0).collect(), texts)
    }

    fn lines(content: &[u8], subset: Option<IdSet>) -> Result<(Vec<u32>, Vec<String>), String> {
        each_line(Path::new("f"), content, subset.as_ref()).map(texts).map_err(|e| e.to_string())
    }

    fn json(content: &str, subset: Option<IdSet>) -> Result<(Vec<u32>, Vec<String>), String> {
        from_json(Path::new("f"), content.as_bytes(), subset.as_ref()).map(texts).map_err(|e| e.to_string())
    }

    fn ok(ids: &[u32], texts: &[&str]) -> Result<(Vec<u32>, Vec<String>), String> {
        Ok((ids.to_vec(), texts.iter().map(|t| (*t).to_owned()).collect()))
    }

    #[test]
    fn the_mark_at_the_beginning_of_a_file_is_no_part_of_an_entry() {
        let all = |texts: &[&str]| Ok((vec![0, 1], texts.iter().map(|text| (*text).to_owned()).collect()));
        assert_eq!(lines("\u{feff}a\r\nb\n".as_bytes(), None), all(&["a", "b"]));
        assert_eq!(json("\u{feff}[1, 2]", None), all(&["1", "2"]));
        assert!(lines("\u{feff}".as_bytes(), None).is_err());
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_with_its_place() {
        let nested = |depth: usize| format!("[1, {}7{}]", "[".repeat(depth), "]".repeat(depth));
        assert!(json(&nested(JSON_DEPTH_MAX), None).is_ok());
        let refused = json(&nested(60_000), None).unwrap_err();
        assert!(refused.contains("element 1 (the first is 0) is nested 60000 levels deep"), "{refused}");
        // What is in texts, and beside each other, is not nested.
        assert_eq!(depth(r#"{"a[[\"{{": [[1], [2, {}]], "b": "\\"}"#), 4);
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(lines(b"a\nb\n", None), ok(&[0, 1], &["a", "b"]));
        assert_eq!(lines(b"a\r\n\nb", None), ok(&[0, 1, 2], &["a", "", "b"]));
        assert_eq!(lines(b"a\nb\nc\n", Some(IdSet::range(1, 900))), ok(&[1, 2], &["b", "c"]));
        assert_eq!(lines(b"", None).unwrap_err(), "f is empty: there is no line to create a task from");
        assert!(
            lines(b"a\n", Some(IdSet::range(5, 9))).unwrap_err().contains("f has 1 lines, counted from 0")
        );
    }

    #[test]
    fn lines_need_not_be_text() {
        let (_, entries) = each_line(Path::new("f"), b"\xff\xfe\n\x80", None).expect("bytes");
        assert_eq!(entries.iter().collect::<Vec<_>>(), [&b"\xff\xfe"[..], b"\x80"]);
    }

    #[test]
    fn elements_are_compact_and_exact() {
        let content = r#" [1.50, {"a b": [ 1, "x \" y" ]}, "s  t" , 1e400] "#;
        assert_eq!(
            json(content, None),
            ok(&[0, 1, 2, 3], &["1.50", r#"{"a b":[1,"x \" y"]}"#, "\"s  t\"", "1e400"])
        );
        assert_eq!(json("[1,2,3]", Some(IdSet::single(hq_model::TaskId(1)))), ok(&[1], &["2"]));
    }

    #[test]
    fn what_is_no_array_is_named() {
        for (content, what) in [
            ("{}", "an object"),
            ("\"x\"", "a string"),
            ("3", "a number"),
            ("null", "null"),
            ("true", "a truth value"),
        ] {
            let error = json(content, None).unwrap_err();
            assert!(error.ends_with(&format!("has to be an array: f holds {what}")), "{error}");
        }
        assert!(json("[1,\n 2", None).unwrap_err().contains("line 2"));
        assert!(json("[]", None).unwrap_err().contains("no element"));
        assert!(json(" \n", None).unwrap_err().contains("no element"));
    }

    #[test]
    fn keys_that_no_request_carries_are_refused_before_all_are_made() {
        let ids = TaskIds::Given(IdSet::range(0, u32::MAX));
        let error =
            keys_within(1 << 20, Some("k%{TASK_ID}"), &ids, &Entries::default()).expect_err("too many");
        assert!(error.to_string().contains("take more than 1 MiB"), "{error}");
        let few = TaskIds::Given(IdSet::range(0, 9));
        assert!(keys_within(20, Some("k%{TASK_ID}"), &few, &Entries::default()).is_ok());
        assert!(keys_within(19, Some("k%{TASK_ID}"), &few, &Entries::default()).is_err());
    }
}
