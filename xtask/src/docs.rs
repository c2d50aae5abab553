//! Checks the documentation as its readers use it: types what they would type, and follows links.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::place::Place;
use crate::{console, generated, links};

/// Options of the chore.
#[derive(Args)]
pub(crate) struct Options {
    /// Replace what the pages show by what the commands print, where the two do not agree
    #[arg(long)]
    bless: bool,
    /// Only pages whose path contains one of these
    pages: Vec<String>,
}

/// What was found.
pub(crate) struct Findings {
    /// Commands that were as shown.
    pub commands: u32,
    /// Links that lead somewhere.
    pub links: u32,
    /// What was wrong.
    pub errors: Vec<String>,
}

/// Builds the program and checks the pages.
///
/// # Errors
/// When a page is wrong.
pub(crate) fn run(place: &Place, options: &Options) -> Result<(), String> {
    generated::build(place)?;
    let findings = check(place, options).map_err(|error| error.to_string())?;
    for error in &findings.errors {
        println!("{error}\n");
    }
    println!("{} commands executed, {} links followed", findings.commands, findings.links);
    println!("{} passed, {} failed", findings.commands, findings.errors.len());
    if findings.errors.is_empty() { Ok(()) } else { Err(String::new()) }
}

/// Checks all pages. The program must be built.
///
/// # Errors
/// When a page cannot be read or the shell not be started.
pub(crate) fn check_all(place: &Place) -> io::Result<Findings> {
    check(place, &Options { bless: false, pages: Vec::new() })
}

fn check(place: &Place, options: &Options) -> io::Result<Findings> {
    let pages = pages(place)?;
    let (links, errors) = links::check(place, &pages)?;
    let mut findings = Findings { commands: 0, links, errors };
    for page in pages {
        let name = page.to_string_lossy();
        if !options.pages.is_empty() && !options.pages.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        let result = console::execute(place, &page)?;
        findings.commands += result.passed;
        findings.errors.extend(result.errors);
        if options.bless {
            fs::write(place.root.join(&page), result.blessed)?;
        }
    }
    Ok(findings)
}

fn pages(place: &Place) -> io::Result<Vec<PathBuf>> {
    place.files(".", ".md")
}
