//! Placeholders that mean nothing where they are written, and the one that was perhaps meant.

use hq_model::entry::{ENTRY, is_of_entry};
use hq_model::object::BROADCAST_DIR;
use hq_model::similar::distance;
use hq_model::{TaskSpec, pattern};

// Where a text stands, and what is replaced in it.
struct Place<'a> {
    name: &'a str,
    known: &'a [&'a str],
    // Braces after a percent sign are of other programs, too: of theirs names are warned of that could be ours.
    is_of_programs: bool,
}

/// What is replaced in the arguments of a task only.
const MPIRUN: &str = "MPIRUN";
/// What is replaced in keys; keys of locality are checked elsewhere.
const OF_KEYS: [&str; 2] = [ENTRY, "TASK_ID"];

/// Warnings of a task's placeholders. `name` and `key` are what was said of the job's name and of keys.
pub(super) fn warnings(
    spec: &TaskSpec,
    has_entries: bool,
    name: Option<&str>,
    key: Option<&str>,
) -> Vec<String> {
    let mut known = pattern::KNOWN.to_vec();
    known.extend(Some(ENTRY).filter(|_| has_entries));
    let known = &known[..];
    let broadcasts: &[&str] = if spec.has_broadcasts() { &[BROADCAST_DIR] } else { &[] };
    let in_store = &[known, broadcasts].concat()[..];
    let of_args = [in_store, &[MPIRUN]].concat();
    let not_itself: Vec<&str> = known.iter().copied().filter(|name| *name != "CWD").collect();
    let mut found = Vec::new();
    let mut check =
        |text: &[u8], place: &Place<'_>| {
            found.extend(unclosed(text).map(|name| {
                format!("`%{{{name}` in {} has no closing brace; it is left unchanged", place.name)
            }));
            for name in unknown(text, place) {
                let lacks_entries = !has_entries && is_of_entry(&name) && !place.known.is_empty();
                let warning = if lacks_entries { without_entries(&name, place) } else { told(&name, place) };
                if !found.contains(&warning) {
                    found.push(warning);
                }
            }
        };
    let path = |name| Place { name, known, is_of_programs: false };
    for (option, output) in [("stdout path", &spec.stdout), ("stderr path", &spec.stderr)] {
        if let Some(text) = output.path() {
            check(text, &path(option));
        }
    }
    check(&spec.cwd, &Place { known: &not_itself, ..path("working directory path") });
    spec.outputs.iter().for_each(|text| check(text, &path("--output")));
    spec.result.path().iter().for_each(|text| check(text, &path("--result")));
    spec.output_objects.iter().for_each(|left| check(&left.path, &path("--output-object")));
    let taken_at = Place { name: "--input-object", known: in_store, is_of_programs: false };
    spec.input_objects.iter().for_each(|taken| check(taken.path(), &taken_at));
    for text in spec.body.texts() {
        check(text, &Place { name: "the command", known: &of_args, is_of_programs: true });
    }
    for (name, value) in &spec.env {
        check(name, &Place { name: "the name of a variable", known: &[], is_of_programs: true });
        check(value, &Place { name: "--env", known: in_store, is_of_programs: true });
    }
    check(name.unwrap_or_default().as_bytes(), &Place { known: &[], ..path("--name") });
    found.extend(key.into_iter().flat_map(|key| of_text(key.as_bytes(), "--key", &OF_KEYS)));
    found
}

/// Warnings of placeholders in a text in which only those of `known` are replaced.
pub(super) fn of_text(text: &[u8], name: &str, known: &[&str]) -> Vec<String> {
    let place = Place { name, known, is_of_programs: false };
    let mut found: Vec<String> = unknown(text, &place).iter().map(|name| told(name, &place)).collect();
    found.dedup();
    found
}

fn unknown(text: &[u8], place: &Place<'_>) -> Vec<String> {
    if !text.windows(2).any(|pair| pair == b"%{") {
        return Vec::new();
    }
    let mut names = pattern::names(text);
    names.retain(|name| {
        let could_be_ours = || {
            name.bytes().all(|b| !b.is_ascii_lowercase()) || is_ours(name) || nearest(name, place).is_some()
        };
        !is_replaced(name, place) && (!place.is_of_programs || could_be_ours())
    });
    names
}

// The first name of ours after which the brace is not closed.
fn unclosed(text: &[u8]) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"%{") {
        rest = &rest[at + 2..];
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        let end = rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(rest.len());
        let name = String::from_utf8_lossy(&rest[..end]);
        let is_closed = rest.iter().find(|byte| matches!(byte, b'}' | b'{')) == Some(&b'}');
        if !is_closed && is_ours(&name) {
            return Some(name.into_owned());
        }
    }
    None
}

// Where one placeholder of entries is replaced, all are.
fn is_replaced(name: &str, place: &Place<'_>) -> bool {
    place.known.contains(if is_of_entry(name) { &ENTRY } else { &name })
}

fn told(name: &str, place: &Place<'_>) -> String {
    let at = place.name;
    if is_ours(name) && !is_replaced(&capital(name), place) {
        return format!("%{{{name}}} is not replaced in {at}");
    }
    let meant = nearest(name, place).map_or_else(String::new, |meant| format!(" (%{{{meant}}} is known)"));
    format!("Found unknown placeholder `{name}` in {at}{meant}; it is left unchanged")
}

fn without_entries(name: &str, place: &Place<'_>) -> String {
    format!(
        "%{{{name}}} is left unchanged in {}: the tasks have no entries; use --each-line FILE, --from-json FILE or \
         `entries` in a job file",
        place.name
    )
}

// As it would be known; names of fields are in the case in which they are.
fn capital(name: &str) -> String {
    match name.split_once('.') {
        Some((first, field)) => format!("{}.{field}", first.to_ascii_uppercase()),
        None => name.to_ascii_uppercase(),
    }
}

// True of what is replaced somewhere, in whatever case it is written.
fn is_ours(name: &str) -> bool {
    let upper = capital(name);
    is_of_entry(&upper)
        || upper == MPIRUN
        || upper == BROADCAST_DIR
        || pattern::KNOWN.contains(&upper.as_str())
}

// The known name that is nearly the same, or of which it is the beginning or the end.
fn nearest(name: &str, place: &Place<'_>) -> Option<String> {
    let upper = capital(name);
    if is_of_entry(&upper) && is_replaced(&upper, place) {
        return Some(upper);
    }
    let far = |known: &str| {
        let is_part = upper.len() > 1 && (known.starts_with(&upper) || known.ends_with(&upper));
        let distance = distance(&upper, known);
        (is_part || distance <= upper.len() / 3).then_some((!is_part, distance))
    };
    let known = place.known.iter().filter_map(|known| Some((far(known)?, *known)));
    known.min().map(|(_, known)| known.to_owned())
}

#[cfg(test)]
mod tests {
    use hq_model::Body;

    use super::*;

    fn check(change: impl FnOnce(&mut TaskSpec), expected: &[&str]) {
        let mut spec = TaskSpec { body: Body::program(["cmd"]), ..TaskSpec::default() };
        change(&mut spec);
        assert_eq!(warnings(&spec, true, None, None), expected);
    }

    #[test]
    fn what_is_replaced_somewhere_is_told_where_it_is_not() {
        let all =
            "%{ENTRY}%{ENTRY_2}%{ENTRY.a.0}%{SERVER_UID}%{JOB_ID}%{TASK_ID}%{INSTANCE_ID}%{SUBMIT_DIR}%{CWD}";
        check(|spec| spec.body = Body::program([format!("{all}%{{MPIRUN}}")]), &[]);
        check(|spec| spec.env = vec![(b"A".to_vec(), all.into())], &[]);
        check(|spec| spec.outputs = vec![all.into()], &[]);
        check(|spec| spec.outputs = vec![b"%{MPIRUN}".to_vec()], &["%{MPIRUN} is not replaced in --output"]);
        check(
            |spec| spec.env = vec![(b"%{ENTRY.a}".to_vec(), Vec::new())],
            &["%{ENTRY.a} is not replaced in the name of a variable"],
        );
        check(
            |spec| spec.env = vec![(b"A%{TASK_ID}".to_vec(), Vec::new())],
            &["%{TASK_ID} is not replaced in the name of a variable"],
        );
        assert_eq!(
            warnings(&TaskSpec::default(), true, Some("run-%{JOB_ID}"), Some("%{ENTRY}-%{JOB_ID}")),
            ["%{JOB_ID} is not replaced in --name", "%{JOB_ID} is not replaced in --key",]
        );
    }

    #[test]
    fn a_brace_that_is_not_closed_is_told() {
        let told = |at: &str| format!("`%{{TASK_ID` in {at} has no closing brace; it is left unchanged");
        check(|spec| spec.outputs = vec![b"a/%{TASK_ID".to_vec()], &[&told("--output")]);
        check(|spec| spec.body = Body::program(["%{TASK_ID-%{JOB_ID}"]), &[&told("the command")]);
        check(|spec| spec.body = Body::program(["date +%{x", "%{TASK_ID}", "${A%{B", "%{"]), &[]);
    }

    #[test]
    fn an_entry_of_tasks_without_entries_is_told_with_the_way_to_some() {
        let mut spec = TaskSpec { body: Body::program(["cmd", "%{ENTRY}"]), ..TaskSpec::default() };
        let told = "%{ENTRY} is left unchanged in the command: the tasks have no entries; use --each-line FILE, \
            --from-json FILE or `entries` in a job file";
        assert_eq!(warnings(&spec, false, None, None), [told]);
        spec.body = Body::program(["cmd"]);
        spec.outputs = vec![b"%{ENTRY.a}".to_vec()];
        let told = told.replace("ENTRY}", "ENTRY.a}").replace("the command", "--output");
        assert_eq!(warnings(&spec, false, None, None), [told]);
    }

    #[test]
    fn the_nearest_name_is_told() {
        for (name, meant) in [
            ("TASK", "TASK_ID"),
            ("TASKID", "TASK_ID"),
            ("task_id", "TASK_ID"),
            ("JOB-ID", ""),
            ("JOBID", "JOB_ID"),
            ("INSTANCE", "INSTANCE_ID"),
            ("UID", "SERVER_UID"),
            ("SUBMITDIR", "SUBMIT_DIR"),
            ("WORKDIR", ""),
        ] {
            let of_text = |text: &str| {
                let spec = TaskSpec { outputs: vec![text.into()], ..TaskSpec::default() };
                warnings(&spec, true, None, None).concat()
            };
            let told = of_text(&format!("%{{{name}}}"));
            let meant = if meant.is_empty() { String::new() } else { format!(" (%{{{meant}}} is known)") };
            let expected =
                format!("Found unknown placeholder `{name}` in --output{meant}; it is left unchanged");
            assert_eq!(told, if name.contains('-') { String::new() } else { expected }, "{name}");
        }
    }

    #[test]
    fn names_in_another_case_are_told() {
        check(
            |spec| spec.body = Body::program(["run %{entry} %{Entry_2}"]),
            &[
                "Found unknown placeholder `entry` in the command (%{ENTRY} is known); it is left unchanged",
                "Found unknown placeholder `Entry_2` in the command (%{ENTRY_2} is known); it is left unchanged",
            ],
        );
        check(
            |spec| spec.outputs = vec![b"%{entry.aB}".to_vec(), b"%{Cwd}".to_vec()],
            &[
                "Found unknown placeholder `entry.aB` in --output (%{ENTRY.aB} is known); it is left unchanged",
                "Found unknown placeholder `Cwd` in --output (%{CWD} is known); it is left unchanged",
            ],
        );
        check(
            |spec| spec.env = vec![(b"A%{task_id}".to_vec(), b"%{Job_id}".to_vec())],
            &[
                "%{task_id} is not replaced in the name of a variable",
                "Found unknown placeholder `Job_id` in --env (%{JOB_ID} is known); it is left unchanged",
            ],
        );
        assert_eq!(
            warnings(&TaskSpec::default(), true, None, Some("%{entry}")),
            ["Found unknown placeholder `entry` in --key (%{ENTRY} is known); it is left unchanged"]
        );
    }

    #[test]
    fn formats_of_other_programs_are_left_alone() {
        check(|spec| spec.body = Body::program(["curl -w %{http_code} %{time_total}"]), &[]);
        check(
            |spec| spec.body = Body::program(["echo %{task_id}"]),
            &[
                "Found unknown placeholder `task_id` in the command (%{TASK_ID} is known); it is left unchanged",
            ],
        );
    }
}
