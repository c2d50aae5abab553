//! One connection: its first byte says how it speaks, frames, lines of JSON or HTTP.

use std::pin::Pin;
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::UnixStream;
use tracing::debug;

use crate::answers::Answer;
use crate::contract::{Problem, parse};
use crate::half_said::Coming;
use crate::handle::Speaker;
use crate::passage::has_gone;
use crate::places::Place;
use crate::rights::{self, Rights};
use crate::shared::Shared;
use crate::stream::{Reading, Writing, reunite, split};
use crate::{below, frames, hop, http, limits};

pub(crate) type Reader = BufReader<Reading>;
pub(crate) type Writer = BufWriter<Writing>;

/// Bytes that are read at once, and of answers that are written at once. Each connection has both.
const BUFFER_BYTES: usize = 32 << 10;

/// Serves a connection until it ends. One that has said nothing yet needs no room for what it may say.
pub(crate) async fn serve(stream: UnixStream, place: Place, shared: Rc<Shared>) {
    let cannot = |error| debug!(%error, "a connection cannot be served");
    let (reading, writing) = match split(stream) {
        Ok(ends) => ends,
        Err(error) => return cannot(error),
    };
    if reading.has_something().await.is_err() {
        return;
    }
    if reading.first_byte() == Some(hop::FIRST_BYTE) {
        return match reunite(reading, writing) {
            Ok(stream) => relaying(stream, place, shared).await,
            Err(error) => cannot(error),
        };
    }
    speaking(reading, writing, shared).await;
}

// As below.
fn relaying(stream: UnixStream, place: Place, shared: Rc<Shared>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(below::serve(stream, place, shared))
}

// Not async: what it makes must not count as part of whoever waits for it.
fn speaking(reading: Reading, writing: Writing, shared: Rc<Shared>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(serve_speaking(reading, writing, shared))
}

async fn serve_speaking(reading: Reading, writing: Writing, shared: Rc<Shared>) {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reading);
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, writing);
    let speaker = Speaker::new(&shared);
    if let Err(error) = spoken(&mut reader, &mut writer, speaker).await {
        debug!(%error, "a connection has ended");
    }
}

async fn spoken(reader: &mut Reader, writer: &mut Writer, mut speaker: Speaker) -> std::io::Result<()> {
    let mut first = reader.fill_buf().await?.first().copied();
    // Once: what follows is said by somebody else.
    if first == Some(rights::FIRST_BYTE) {
        let rights: Rights = rights::read(reader).await?;
        speaker.may_only(rights);
        first = reader.fill_buf().await?.first().copied();
    }
    match first {
        None => Ok(()),
        // Only who may do all can pass on what others do.
        Some(hop::FIRST_BYTE) => {
            let problem = Problem::new("denied", "its holder may take tasks, and have no relays below");
            write(writer, &mut Vec::new(), &Answer::Error(problem)).await?;
            writer.flush().await
        }
        // The first of the four bytes of a length.
        Some(0 | 1) => frames::serve(reader, writer, speaker).await,
        Some(b'A'..=b'Z') => http::serve(reader, writer, speaker).await,
        Some(_) => lines(reader, writer, speaker).await,
    }
}

async fn lines(reader: &mut Reader, writer: &mut Writer, mut speaker: Speaker) -> std::io::Result<()> {
    let (mut line, mut said) = (Coming::new(speaker.half_said()), Vec::new());
    loop {
        line.clear();
        if let Err(problem) = line.until(reader, b'\n', limits::REQUEST_BYTES_MAX + 1).await? {
            write(writer, &mut said, &Answer::Error(problem)).await?;
            return writer.flush().await;
        }
        let text = line.bytes();
        if text.is_empty() {
            return writer.flush().await;
        }
        if text.len() > limits::REQUEST_BYTES_MAX && !text.ends_with(b"\n") {
            let most = limits::REQUEST_BYTES_MAX;
            let problem = Problem::new(
                "too-large",
                format!("a line may have {most} bytes, and this one has more: say it in several"),
            );
            write(writer, &mut said, &Answer::Error(problem)).await?;
            return writer.flush().await;
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match parse(text) {
            Ok(request) => match until_gone(reader, speaker.answer(request)).await {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Err(problem) => Answer::Error(problem),
        };
        write(writer, &mut said, &answer).await?;
        // What is asked already is answered together.
        if !reader.buffer().contains(&b'\n') {
            writer.flush().await?;
        }
    }
}

/// The answer, unless whoever asked has gone before. Who has only closed its sending end, as `nc` does, is still there.
pub(crate) async fn until_gone<T>(reader: &Reader, answer: impl Future<Output = T>) -> Option<T> {
    let gone = async {
        let stream = reader.get_ref().socket();
        // The end of a peer that was killed is heard at once. What it sent before, or that it sends no more, is heard as
        // well and once, and is no end.
        let mut hears = true;
        loop {
            tokio::select! {
                _ = stream.readable(), if hears => hears = false,
                () = tokio::time::sleep(limits::PEER_LOOK_INTERVAL) => {}
            }
            if has_gone(stream) {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        () = gone => None,
    }
}

async fn write(writer: &mut Writer, said: &mut Vec<u8>, answer: &Answer) -> std::io::Result<()> {
    said.clear();
    answer.put_json(said);
    said.push(b'\n');
    write_all(writer, said).await
}

/// Writes an answer, and keeps no more of its room than most need.
pub(crate) async fn write_all(writer: &mut Writer, said: &mut Vec<u8>) -> std::io::Result<()> {
    writer.write_all(said).await?;
    said.clear();
    said.shrink_to(limits::KEPT_BYTES_MAX);
    Ok(())
}
