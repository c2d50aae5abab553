//! Licences, sources and bans of dependencies, from `deny.toml`.
//!
//! cargo-deny does this and more (advisories); it takes minutes to build, so what needs no database
//! is checked here on every run.

use std::fs;

use serde::Deserialize;
use serde_json::Value;

use crate::imports;
use crate::place::Place;
use crate::tidy::Findings;

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "allow-registry")]
    registries: Vec<String>,
}

/// Checks every dependency of the workspace.
///
/// # Errors
/// When `deny.toml` cannot be read or cargo cannot say what the dependencies are.
pub(crate) fn check(place: &Place, findings: &mut Findings) -> Result<(), String> {
    let text =
        fs::read_to_string(place.root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let deny: Deny = toml::from_str(&text).map_err(|error| format!("deny.toml: {error}"))?;
    let metadata = imports::metadata(place, false)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        // Those without a source are the workspace's own.
        if let Some(source) = package["source"].as_str() {
            check_package(package, source, &deny, findings);
        }
    }
    Ok(())
}

fn check_package(package: &Value, source: &str, deny: &Deny, findings: &mut Findings) {
    let name = package["name"].as_str().unwrap_or_default();
    let is_known = deny.sources.registries.iter().any(|registry| source == format!("registry+{registry}"));
    findings.note(is_known, || format!("deny.toml: `{name}` comes from {source}, which is not allowed"));
    if let Some(banned) = deny.bans.deny.iter().find(|banned| banned.name == name) {
        findings.errors.push(format!("deny.toml: `{name}` is banned: {}", banned.reason));
    }
    let exceptions = deny.licenses.exceptions.iter().filter(|exception| exception.name == name);
    let mut allowed: Vec<&str> = deny.licenses.allow.iter().map(String::as_str).collect();
    allowed.extend(exceptions.flat_map(|exception| exception.allow.iter().map(String::as_str)));
    let licence = package["license"].as_str().unwrap_or_default();
    findings.note(is_allowed(licence, &allowed), || {
        format!("deny.toml: the license `{licence}` of `{name}` is not allowed")
    });
}

/// Whether an SPDX expression can be met with the allowed licences. `AND` binds more than `OR`; an old
/// slash means `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let is_met = any_of(&mut rest, allowed);
    is_met && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = all_of(rest, allowed);
    while let [word, tail @ ..] = rest
        && *word == "OR"
    {
        *rest = tail;
        is_met |= all_of(rest, allowed);
    }
    is_met
}

fn all_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = licence(rest, allowed);
    while let [word, tail @ ..] = rest
        && *word == "AND"
    {
        *rest = tail;
        is_met &= licence(rest, allowed);
    }
    is_met
}

fn licence(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let is_met = any_of(rest, allowed);
            if let [")", tail @ ..] = rest {
                *rest = tail;
                return is_met;
            }
            false
        }
        [name, "WITH", exception, tail @ ..] => {
            *rest = tail;
            allowed.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, tail @ ..] => {
            *rest = tail;
            allowed.contains(name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: bool) {
        assert_eq!(is_allowed(expression, &["MIT", "ISC", "A WITH B"]), expected, "{expression}");
    }

    #[test]
    fn expressions_are_met_by_allowed_licences() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0/MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR GPL-3.0) AND ISC", true);
        check("MIT OR GPL-3.0 AND GPL-2.0", true);
        check("A WITH B", true);
        check("A", false);
        check("", false);
        check("(MIT", false);
    }
}
