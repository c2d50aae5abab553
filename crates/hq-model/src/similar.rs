//! Which name was perhaps meant by one that nobody knows.

use crate::AmountRequest;

/// Names of resources that workers find by themselves.
const FOUND: [&str; 6] = ["cpus", "gpus", "gpus/amd", "gpus/intel", "gpus/nvidia", "mem"];

/// What others call them.
const ALSO_CALLED: [(&str, &str); 14] = [
    ("amd", "gpus/amd"),
    ("core", "cpus"),
    ("cores", "cpus"),
    ("cpu", "cpus"),
    ("cuda", "gpus/nvidia"),
    ("gpu", "gpus"),
    ("gpu/amd", "gpus/amd"),
    ("gpu/intel", "gpus/intel"),
    ("gpu/nvidia", "gpus/nvidia"),
    ("intel", "gpus/intel"),
    ("memory", "mem"),
    ("ncpus", "cpus"),
    ("nvidia", "gpus/nvidia"),
    ("ram", "mem"),
];

/// Options of a submit that others write as resources.
const OPTIONS: [(&str, &str); 6] = [
    ("mpiprocs", "--ranks-per-node"),
    ("n_nodes", "--nodes"),
    ("node", "--nodes"),
    ("nodes", "--nodes"),
    ("ranks", "--ranks-per-node"),
    ("walltime", "--time-limit"),
];

/// What was perhaps meant where so much of a resource is asked for that no worker has: another resource, as [`resource`]
/// says, or an option of a submit.
pub fn hint<'a>(
    name: &str,
    amount: AmountRequest,
    offered: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, option)) = OPTIONS.iter().find(|(other, _)| *other == lower) {
        return Some(match amount {
            AmountRequest::Some(amount, _) if *option != "--time-limit" => {
                format!("did you mean `{option} {amount}`?")
            }
            _ => format!("did you mean `{option}`?"),
        });
    }
    resource(name, offered).map(|meant| format!("did you mean `{meant}`?"))
}

/// The resource that was perhaps meant by a name that no worker has: one that workers find by themselves, or one of those
/// that are `offered`.
pub fn resource<'a>(name: &str, offered: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    if FOUND.contains(&name) {
        return None;
    }
    if let Some((_, meant)) = ALSO_CALLED.iter().find(|(other, _)| *other == lower) {
        return Some(meant);
    }
    let known = FOUND.into_iter().chain(offered);
    let near = known.map(|known| (distance(&lower, &known.to_ascii_lowercase()), known));
    near.filter(|(distance, known)| *distance <= lower.len() / 3 && *known != name)
        .min()
        .map(|(_, known)| known)
}

/// So many letters may be wrong in a name that is still understood.
const TYPING_ERRORS: usize = 2;

/// The nearest of some names, where few letters of it are wrong.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (distance(word, name), name));
    near.min().filter(|(distance, _)| *distance <= TYPING_ERRORS).map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or changed.
pub fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let above = row.clone();
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            row[j + 1] = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, Policy};

    #[test]
    fn names_that_are_nearly_known_or_that_others_use_are_recognised() {
        for (name, meant) in [
            ("gpu", Some("gpus")),
            ("GPUs", Some("gpus")),
            ("memory", Some("mem")),
            ("Memory", Some("mem")),
            ("cpu", Some("cpus")),
            ("cpsu", None),
            ("gpus/nvidai", Some("gpus/nvidia")),
            ("licences", Some("licenses")),
            ("licenses", None),
            ("fpgas", None),
            ("gpus", None),
            ("x", None),
        ] {
            assert_eq!(resource(name, ["licenses", "y"]), meant, "{name}");
        }
    }

    #[test]
    fn options_that_are_written_as_resources_are_recognised() {
        let some = |count| AmountRequest::Some(Amount::whole(count), Policy::default());
        for (name, amount, said) in [
            ("nodes", some(3), Some("did you mean `--nodes 3`?")),
            ("Nodes", AmountRequest::All, Some("did you mean `--nodes`?")),
            ("mpiprocs", some(8), Some("did you mean `--ranks-per-node 8`?")),
            ("walltime", some(60), Some("did you mean `--time-limit`?")),
            ("gpu", some(1), Some("did you mean `gpus`?")),
            ("notes", some(1), None),
        ] {
            assert_eq!(hint(name, amount, []).as_deref(), said, "{name}");
        }
    }
}
