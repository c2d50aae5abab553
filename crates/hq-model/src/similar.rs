//! Which name was perhaps meant by one that nobody knows.

/// Names of resources that workers find by themselves.
const FOUND: [&str; 5] = ["cpus", "gpus", "gpus/amd", "gpus/nvidia", "mem"];

/// What others call them.
const ALSO_CALLED: [(&str, &str); 11] = [
    ("amd", "gpus/amd"),
    ("core", "cpus"),
    ("cores", "cpus"),
    ("cpu", "cpus"),
    ("cuda", "gpus/nvidia"),
    ("gpu", "gpus"),
    ("gpu/amd", "gpus/amd"),
    ("gpu/nvidia", "gpus/nvidia"),
    ("memory", "mem"),
    ("nvidia", "gpus/nvidia"),
    ("ram", "mem"),
];

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
}
