//! Ids of tasks that stand in a file: the system has room for some 20 000 of them in an argument.

use std::fs::File;
use std::io::Read;

use hq_model::IdSet;

use super::values;
use crate::limits::IDS_FILE_BYTES_MAX;

/// A set of task ids with at least one in it, or `@` and the path of a file that has them, separated by commas, blanks or
/// line breaks.
///
/// # Errors
/// When these are no ids, or the file cannot be read.
pub fn ids_some(text: &str) -> Result<IdSet, String> {
    let Some(path) = text.strip_prefix('@') else { return values::ids_some(text) };
    let cannot = |error: std::io::Error| format!("cannot read the ids in {path}: {error}");
    let file = File::open(path).map_err(cannot)?;
    let mut content = String::new();
    file.take(IDS_FILE_BYTES_MAX + 1).read_to_string(&mut content).map_err(cannot)?;
    if content.len() as u64 > IDS_FILE_BYTES_MAX {
        return Err(format!("{path} has more than {} MiB", IDS_FILE_BYTES_MAX >> 20));
    }
    let parts: Vec<&str> = content
        .split(|between: char| between == ',' || between.is_whitespace())
        .filter(|part| !part.is_empty())
        .collect();
    if parts.is_empty() {
        return Err(format!("{path} contains no task id"));
    }
    values::ids_some(&parts.join(",")).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_stand_in_a_file_of_lines_or_lists() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ids");
        let given = format!("@{}", path.display());
        let check = |content: &str, expected: Result<&str, &str>| {
            std::fs::write(&path, content).expect("writable");
            match (ids_some(&given), expected) {
                (Ok(ids), Ok(expected)) => assert_eq!(ids.to_string(), expected, "{content:?}"),
                (Err(error), Err(expected)) => assert!(error.ends_with(expected), "{content:?}: {error}"),
                (found, _) => panic!("{content:?}: {found:?}"),
            }
        };
        check("3\n5-7\n", Ok("3,5-7"));
        check("1, 2,4\r\n9\t11,\n", Ok("1-2,4,9,11"));
        check(" \n", Err("contains no task id"));
        assert!(check_error("@/nowhere/at/all").starts_with("cannot read the ids in /nowhere/at/all: "));
        assert_eq!(ids_some("1-3").map(|ids| ids.to_string()), Ok("1-3".to_owned()));
        let many: Vec<String> = (0..1_000_000).map(|id| (2 * id).to_string()).collect();
        std::fs::write(&path, many.join("\n")).expect("writable");
        assert_eq!(ids_some(&given).map(|ids| ids.len()), Ok(1_000_000));
    }

    fn check_error(text: &str) -> String {
        ids_some(text).expect_err("it is refused")
    }
}
