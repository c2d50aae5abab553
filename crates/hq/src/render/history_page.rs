//! The page of `hq journal report`: one file with everything that it needs, so that it can be sent to somebody else.
//!
//! Its scripts are those of the web dashboard and one more. What came from users is only in the document, where no markup can
//! begin, and the page may ask nobody for anything.

use std::io::{self, Write};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::history::Past;

macro_rules! dashboard {
    ($file:literal) => {
        include_str!(concat!("../dashboard/web/assets/", $file))
    };
}

/// What scripts import, by the names under which the dashboard serves it.
const MODULES: [(&str, &str); 6] = [
    ("/vendor/preact.mjs", dashboard!("vendor/preact.mjs")),
    ("/vendor/htm.module.js", dashboard!("vendor/htm.module.js")),
    ("/lib.js", dashboard!("lib.js")),
    ("/format.js", dashboard!("format.js")),
    ("/basics.js", dashboard!("basics.js")),
    ("/timeline.js", include_str!("report/timeline.js")),
];
/// What draws charts, which is no module.
const CHARTS: &str = dashboard!("vendor/uPlot.iife.min.js");
/// The page itself.
const PAGE: &str = include_str!("report/report.js");
const STYLES: &str =
    concat!(dashboard!("vendor/uPlot.min.css"), dashboard!("app.css"), include_str!("report/report.css"));

/// Writes the page.
pub(crate) fn write(out: &mut dyn Write, past: &mut Past) -> io::Result<()> {
    let modules = imports();
    let page = renamed(PAGE);
    let policy = policy(&[&modules, CHARTS, &page]);
    let document = past.document();
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
    writeln!(out, "<title>Headquarters: server {}</title>", escape(past.server()))?;
    writeln!(out, "<style>{STYLES}</style>")?;
    writeln!(out, "<script type=\"importmap\">{modules}</script>\n</head>\n<body>")?;
    writeln!(out, "<div id=\"app\"></div>")?;
    writeln!(out, "<noscript><p class=\"plain\">{}</p></noscript>", escape(&in_words(&document)))?;
    writeln!(out, "<script type=\"application/json\" id=\"past\">{}</script>", text_of(&document))?;
    writeln!(out, "<script>{CHARTS}</script>\n<script type=\"module\">{page}</script>\n</body>\n</html>")
}

// Names of modules and where they are: in the page.
fn imports() -> String {
    let modules = MODULES.iter().map(|(name, text)| {
        let text = hq_pull::base64(renamed(text).as_bytes());
        (inner_name(name), format!("data:text/javascript;base64,{text}").into())
    });
    let modules: serde_json::Map<String, Value> = modules.collect();
    json!({ "imports": modules }).to_string()
}

// A module in the page has no address, so no path leads from it to others: names do.
fn renamed(script: &str) -> String {
    let names = MODULES.iter().map(|(name, _)| name);
    names.fold(script.to_owned(), |script, name| {
        script.replace(&format!("from \"{name}\""), &format!("from \"{}\"", inner_name(name)))
    })
}

fn inner_name(name: &str) -> String {
    format!("hq{name}")
}

// Only these scripts run, and nobody is asked for anything.
fn policy(scripts: &[&str]) -> String {
    let hash =
        |text: &str| format!("'sha256-{}'", hq_pull::base64(digest(&SHA256, text.as_bytes()).as_ref()));
    let scripts: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    format!(
        "default-src 'none'; script-src {} data:; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        scripts.join(" "),
        hash(STYLES),
    )
}

// For a page whose scripts may not run.
fn in_words(document: &Value) -> String {
    let totals = &document["totals"]["attempts"];
    format!(
        "This page needs JavaScript, all of which is included. {} executions finished, {} failed, {} were lost.",
        totals["finished"], totals["failed"], totals["lost"],
    )
}

// In which no tag can begin.
fn text_of(document: &Value) -> String {
    document.to_string().replace('<', "\\u003c")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
