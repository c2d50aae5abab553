//! HTTP/1.1 at the socket: `POST /v1/pull/NAME` with what is inside of the request of that name.

use tokio::io::AsyncWriteExt;

use crate::answers::Answer;
use crate::connection::{Reader, Writer, until_gone};
use crate::contract::{NAMES, Problem, parse_inside};
use crate::half_said::Coming;
use crate::handle::Speaker;
use crate::limits;

/// How the paths begin.
const PREFIX: &str = "/v1/pull/";
/// What describes all of them.
const OPENAPI_PATH: &str = "/v1/pull/openapi.json";
/// Made from `pull.proto` by `cargo xtask gen`.
pub(crate) const OPENAPI: &str = include_str!("../../../docs/reference/pull-openapi.json");

#[derive(Debug)]
struct Head {
    method: String,
    path: String,
    label: Option<String>,
    length: Option<usize>,
    is_chunked: bool,
    closes: bool,
    expects_go_ahead: bool,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    reader: &mut Reader,
    writer: &mut Writer,
    mut speaker: Speaker,
) -> std::io::Result<()> {
    loop {
        let head = match read_head(reader, Coming::new(speaker.half_said())).await? {
            None => return writer.flush().await,
            Some(Ok(head)) => head,
            Some(Err((problem, is_in_first_line))) => {
                let status = match problem.code {
                    "full" => 408,
                    "too-large" if is_in_first_line => 414,
                    "too-large" => 431,
                    _ => 400,
                };
                // What follows cannot be told from this.
                respond(writer, status, &json(&Answer::Error(problem)), true).await?;
                return writer.flush().await;
            }
        };
        if (head.method.as_str(), head.path.as_str(), head.length) == ("GET", OPENAPI_PATH, None) {
            respond(writer, 200, OPENAPI.as_bytes(), head.closes).await?;
            writer.flush().await?;
            if head.closes {
                return Ok(());
            }
            continue;
        }
        let closes = match handle(reader, writer, &mut speaker, &head).await? {
            Some((status, answer)) => {
                let closes = head.closes || matches!(status, 408 | 411 | 413);
                respond(writer, status, &json(&answer), closes).await?;
                closes
            }
            None => return Ok(()),
        };
        writer.flush().await?;
        if closes {
            return Ok(());
        }
    }
}

// `None`: whoever asked has gone.
async fn handle(
    reader: &mut Reader,
    writer: &mut Writer,
    speaker: &mut Speaker,
    head: &Head,
) -> std::io::Result<Option<(u16, Answer)>> {
    let refuse = |status, code, text: String| Ok(Some((status, Answer::Error(Problem::new(code, text)))));
    if head.is_chunked {
        return refuse(411, "length-required", "say how long the body is, with Content-Length".to_owned());
    }
    let length = match (head.method.as_str(), head.length) {
        ("GET", None) => 0,
        (_, Some(length)) if length > limits::REQUEST_BYTES_MAX => {
            let most = limits::REQUEST_BYTES_MAX;
            let text = format!("a body may have {most} bytes, and this one has {length}: say it in several");
            return refuse(413, "too-large", text);
        }
        (_, Some(length)) => length,
        (_, None) => {
            return refuse(
                411,
                "length-required",
                "say how long the body is, with Content-Length".to_owned(),
            );
        }
    };
    if head.expects_go_ahead && length > 0 {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        writer.flush().await?;
    }
    let mut body = Coming::new(speaker.half_said());
    if let Err(problem) = body.whole(reader, length).await? {
        return Ok(Some((408, Answer::Error(problem))));
    }
    if body.bytes().len() < length {
        return Ok(None);
    }
    let Some(name) = head.path.strip_prefix(PREFIX).filter(|name| NAMES.contains(name)) else {
        let text = format!("there is no {}: the paths are {PREFIX}{{{}}}", head.path, NAMES.join(","));
        return refuse(404, "not-found", text);
    };
    match head.method.as_str() {
        "POST" => {}
        "GET" if name == "status" => {}
        method => return refuse(405, "bad-request", format!("{method} means nothing here: use POST")),
    }
    if let Some(label) = &head.label
        && let Err(problem) = speaker.become_label(Some(label), None, None)
    {
        return Ok(Some((400, Answer::Error(problem))));
    }
    let is_empty = body.bytes().iter().all(u8::is_ascii_whitespace);
    let answer = match parse_inside(name, if is_empty { b"{}" } else { body.bytes() }) {
        Some(Ok(request)) => until_gone(reader, speaker.answer(request)).await,
        Some(Err(problem)) => Some(Answer::Error(problem)),
        None => return refuse(404, "not-found", format!("there is no {}", head.path)),
    };
    Ok(answer.map(|answer| (status_of(&answer), answer)))
}

// The head of the next request, or what is wrong with it, and whether that is in its first line; `None` at the end.
async fn read_head(
    reader: &mut Reader,
    mut coming: Coming,
) -> std::io::Result<Option<Result<Head, (Problem, bool)>>> {
    loop {
        let before = coming.bytes().len();
        if let Err(problem) = coming.until(reader, b'\n', limits::HTTP_HEAD_BYTES_MAX + 1).await? {
            return Ok(Some(Err((problem, before == 0))));
        }
        let head = coming.bytes();
        if head.len() == before {
            let problem = Problem::bad("the head is cut off: it ends with an empty line");
            return Ok((!head.is_empty()).then_some(Err((problem, false))));
        }
        if head.len() > limits::HTTP_HEAD_BYTES_MAX {
            let most = limits::HTTP_HEAD_BYTES_MAX;
            let problem =
                Problem::new("too-large", format!("a head may have {most} bytes, and this one has more"));
            return Ok(Some(Err((problem, before == 0))));
        }
        // Between requests there may be empty lines.
        if head == b"\r\n" || head == b"\n" {
            coming.clear();
        } else if head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n") {
            return Ok(Some(parse_head(head).map_err(|problem| (problem, false))));
        }
    }
}

fn parse_head(bytes: &[u8]) -> Result<Head, Problem> {
    let mut fields = [httparse::EMPTY_HEADER; limits::HTTP_FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(bytes);
    match parsed {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => {
            return Err(Problem::bad("the head is cut off: it ends with an empty line"));
        }
        Err(error) => {
            if error == httparse::Error::TooManyHeaders {
                let most = limits::HTTP_FIELDS_MAX;
                let text = format!("a head may have {most} fields, and this one has more");
                return Err(Problem::new("too-large", text));
            }
            return Err(Problem::bad(format!(
                "this is no HTTP/1.1: {error}; requests that are not HTTP begin with `{{`, or with the length of a frame"
            )));
        }
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        label: None,
        length: None,
        is_chunked: false,
        closes: request.version == Some(0),
        expects_go_ahead: false,
    };
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("as", label)) => head.label = Some(unescaped(label)?),
            _ => return Err(Problem::bad(format!("`{part}` means nothing here: use ?as=LABEL"))),
        }
    }
    for field in request.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let length =
                value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten();
            let length = length.ok_or_else(|| {
                Problem::bad(format!("Content-Length is `{value}`, which is no number of bytes"))
            })?;
            if head.length.replace(length).is_some_and(|before| before != length) {
                return Err(Problem::bad("Content-Length is said twice, and differs"));
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            head.is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            head.closes |= value.eq_ignore_ascii_case("close");
        } else if field.name.eq_ignore_ascii_case("expect") {
            head.expects_go_ahead = value.eq_ignore_ascii_case("100-continue");
        }
    }
    Ok(head)
}

fn unescaped(text: &str) -> Result<String, Problem> {
    let bad = || Problem::bad(format!("`{text}` is no label: escape it as in URLs"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().ok_or_else(bad)?, rest.next().ok_or_else(bad)?];
                let digits = std::str::from_utf8(&digits).map_err(|_| bad())?;
                u8::from_str_radix(digits, 16).map_err(|_| bad())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

fn status_of(answer: &Answer) -> u16 {
    let Answer::Error(problem) = answer else { return 200 };
    match problem.code {
        "bad-request" | "version" | "invalid" => 400,
        "denied" => 403,
        "no-bag" | "no-job" | "no-session" | "unknown-name" => 404,
        "too-large" => 413,
        "no-server" | "read-only" | "stopping" => 503,
        "full" => 429,
        _ => 409,
    }
}

fn json(answer: &Answer) -> Vec<u8> {
    let mut text = Vec::new();
    answer.put_json(&mut text);
    text.push(b'\n');
    text
}

async fn respond(writer: &mut Writer, status: u16, text: &[u8], closes: bool) -> std::io::Result<()> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        431 => "Request Header Fields Too Large",
        429 => "Too Many Requests",
        _ => "Service Unavailable",
    };
    let retry = if status == 429 || status == 503 { "Retry-After: 1\r\n" } else { "" };
    let close = if closes { "Connection: close\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{retry}{close}\r\n",
        text.len()
    );
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(text).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, String> {
        parse_head(text.as_bytes()).map_err(|problem| problem.message)
    }

    #[test]
    fn heads_are_read() {
        let found =
            head("POST /v1/pull/take?as=node+1%2e2 HTTP/1.1\r\ncontent-length: 12\r\n\r\n").expect("a head");
        assert_eq!((found.method.as_str(), found.path.as_str()), ("POST", "/v1/pull/take"));
        assert_eq!((found.label.as_deref(), found.length), (Some("node 1.2"), Some(12)));
        assert!(head("GET / HTTP/1.0\r\n\r\n").expect("a head").closes);
        assert!(head("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").expect("a head").is_chunked);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "POST\r\n\r\n",
            "POST / HTTP/9\r\n\r\n",
            "POST / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "POST /?as=%zz HTTP/1.1\r\n\r\n",
            "POST /?bag=1 HTTP/1.1\r\n\r\n",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
    }
}
