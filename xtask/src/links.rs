//! Follows the links from one page to another: the file must exist, and so must the heading.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::place::Place;

/// The links of `pages` that lead nowhere, as sentences, and how many lead somewhere.
///
/// # Errors
/// When a page cannot be read.
pub(crate) fn check(place: &Place, pages: &[PathBuf]) -> io::Result<(u32, Vec<String>)> {
    let (mut passed, mut errors) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(place.root.join(page))?;
        for link in links(&text) {
            match follow(place, page, &link)? {
                None => passed += 1,
                Some(why) => errors.push(format!("{}: the link to {link} {why}", page.display())),
            }
        }
    }
    Ok((passed, errors))
}

// Why a link leads nowhere.
fn follow(place: &Place, page: &Path, link: &str) -> io::Result<Option<&'static str>> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        place.root.join(page)
    } else {
        place.root.join(page).parent().unwrap_or(&place.root).join(file)
    };
    if !target.exists() {
        return Ok(Some("finds no file"));
    }
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return Ok(None);
    }
    let found = anchors(&fs::read_to_string(&target)?).contains(anchor);
    Ok((!found).then_some("finds no such heading"))
}

// The relative links outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

// The anchors that headings give, in the way code forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

// The lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found() {
        let page = "# A page: `hq run`\n[a](b.md#c), [d](https://e)\n```\n[no](x)\n```\n";
        assert_eq!(links(page), ["b.md#c"]);
        assert!(anchors(page).contains("a-page-hq-run"));
    }
}
