//! The files of the page, which are part of the program, and the headers that each answer has.

use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use ring::digest::{SHA256, digest};

use super::stream::Reply;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// What the page may do: use what comes from here, and nothing that is written into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file.
pub(super) struct File {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($path:literal, $content_type:expr, $file:literal) => {
        File { path: $path, content_type: $content_type, bytes: include_bytes!(concat!("assets/", $file)) }
    };
}

/// All of them.
pub(super) static FILES: [File; 19] = [
    file!("/", HTML, "index.html"),
    file!("/app.css", STYLE, "app.css"),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/app.js", SCRIPT, "app.js"),
    file!("/lib.js", SCRIPT, "lib.js"),
    file!("/data.js", SCRIPT, "data.js"),
    file!("/format.js", SCRIPT, "format.js"),
    file!("/basics.js", SCRIPT, "basics.js"),
    file!("/parts.js", SCRIPT, "parts.js"),
    file!("/overview.js", SCRIPT, "overview.js"),
    file!("/jobs.js", SCRIPT, "jobs.js"),
    file!("/job.js", SCRIPT, "job.js"),
    file!("/task.js", SCRIPT, "task.js"),
    file!("/workers.js", SCRIPT, "workers.js"),
    file!("/allocations.js", SCRIPT, "allocations.js"),
    file!("/vendor/preact.mjs", SCRIPT, "vendor/preact.mjs"),
    file!("/vendor/htm.module.js", SCRIPT, "vendor/htm.module.js"),
    file!("/vendor/uPlot.iife.min.js", SCRIPT, "vendor/uPlot.iife.min.js"),
    file!("/vendor/uPlot.min.css", STYLE, "vendor/uPlot.min.css"),
];

/// The page that a link leads to: the browser goes on by itself, so that it is our page that asks for the next one.
const OPENED: &str = include_str!("assets/opened.html");
/// What a wrong or used link leads to.
const REFUSED: &str = include_str!("assets/refused.html");

/// The file of a path.
pub(super) fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

impl File {
    /// As an answer; without its content when the browser has it.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<Reply> {
        let hash = digest(&SHA256, self.bytes);
        let tag: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let tag = format!("\"{tag}\"");
        // One or several, also as caches weaken them (RFC 9110, 13.1.2).
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
        let mut known = known.flat_map(|known| known.split(',')).map(str::trim);
        let is_known = known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
        let mut response = if is_known {
            answer(StatusCode::NOT_MODIFIED, self.content_type, Bytes::new())
        } else {
            answer(StatusCode::OK, self.content_type, Bytes::from_static(self.bytes))
        };
        let headers = response.headers_mut();
        // Asked for again each time: the next command may be of another release.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

/// The page that a link leads to.
pub(super) fn opened() -> Response<Reply> {
    answer(StatusCode::OK, HTML, Bytes::from_static(OPENED.as_bytes()))
}

/// The page that a wrong or used link leads to.
pub(super) fn refused() -> Response<Reply> {
    answer(StatusCode::FORBIDDEN, HTML, Bytes::from_static(REFUSED.as_bytes()))
}

/// A sentence.
pub(super) fn sentence(status: StatusCode, text: &'static str) -> Response<Reply> {
    answer(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

/// An answer with the headers that each has.
pub(super) fn answer(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Reply> {
    with_headers(status, content_type, Reply::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
}

/// The same of any body.
pub(super) fn with_headers(status: StatusCode, content_type: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/web/assets");

    #[test]
    fn every_file_is_served() {
        let mut there = BTreeSet::new();
        for folder in ["", "vendor/"] {
            for entry in std::fs::read_dir(Path::new(ASSETS).join(folder)).expect("files") {
                let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
                if [".js", ".mjs", ".css", ".svg"].iter().any(|end| name.ends_with(end)) {
                    there.insert(format!("/{folder}{name}"));
                }
            }
        }
        there.insert("/".to_owned());
        assert_eq!(FILES.iter().map(|file| file.path.to_owned()).collect::<BTreeSet<_>>(), there);
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for file in FILES.iter().filter(|file| !file.path.starts_with("/vendor/")) {
            let text = String::from_utf8_lossy(file.bytes).replace("http://www.w3.org/2000/svg", "");
            for word in ["http://", "https://", "innerHTML", "eval(", "style=\"", "onclick=\""] {
                assert!(!text.contains(word), "{}: {word}", file.path);
            }
        }
    }

    #[test]
    fn what_others_have_made_is_named_with_its_licence() {
        let read = |name: &str| {
            let path = Path::new(ASSETS).join("vendor").join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let list = read("README.md");
        for file in FILES.iter().filter_map(|file| Some((file, file.path.strip_prefix("/vendor/")?))) {
            let hash = digest(&SHA256, file.0.bytes);
            let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(list.contains(file.1) && list.contains(&hash), "{}: {hash}", file.1);
        }
        for licence in ["preact", "htm", "uPlot"] {
            assert!(read(&format!("LICENSE.{licence}")).len() > 500, "{licence}");
        }
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let file = find("/app.js").expect("a file");
        let response = file.answer(&HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
        let mut headers = HeaderMap::new();
        let tag = response.headers()[ETAG].to_str().expect("a text");
        for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(&known).expect("a header"));
            assert_eq!(file.answer(&headers).status(), StatusCode::NOT_MODIFIED, "{known}");
        }
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(file.answer(&headers).status(), StatusCode::OK);
        assert!(find("/../Cargo.toml").is_none());
    }
}
