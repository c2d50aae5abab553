//! One connection: its first byte says how it speaks, lines of JSON or HTTP.

use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tracing::debug;

use crate::contract::{Problem, parse};
use crate::handle::Speaker;
use crate::shared::Shared;
use crate::{http, limits};

pub(crate) type Reader = BufReader<OwnedReadHalf>;
pub(crate) type Writer = BufWriter<OwnedWriteHalf>;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Serves a connection until it ends.
pub(crate) async fn serve(stream: UnixStream, shared: Rc<Shared>) {
    let (reading, writing) = stream.into_split();
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reading);
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, writing);
    let speaker = Speaker::new(&shared);
    let served = match reader.fill_buf().await {
        Ok(bytes) => match bytes.first() {
            None => Ok(()),
            Some(b'A'..=b'Z') => http::serve(&mut reader, &mut writer, speaker).await,
            Some(_) => lines(&mut reader, &mut writer, speaker).await,
        },
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        debug!(%error, "a connection has ended");
    }
}

async fn lines(reader: &mut Reader, writer: &mut Writer, mut speaker: Speaker) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = limits::REQUEST_BYTES_MAX as u64 + 1;
        let bytes = (&mut *reader).take(most).read_until(b'\n', &mut line).await?;
        if bytes == 0 {
            return writer.flush().await;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if bytes as u64 == most {
            let most = limits::REQUEST_BYTES_MAX;
            let problem = Problem::new("too-large", format!("a line may have {most} bytes"));
            write(writer, &problem.json()).await?;
            return writer.flush().await;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match parse(&line) {
            Ok(request) => match until_gone(reader, speaker.answer(request)).await {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Err(problem) => problem.json(),
        };
        write(writer, &answer).await?;
        // What is asked already is answered together.
        if !reader.buffer().contains(&b'\n') {
            writer.flush().await?;
        }
    }
}

/// The answer, unless whoever asked has gone before. Who has only closed its sending end, as `nc` does, is still there.
pub(crate) async fn until_gone<T>(reader: &Reader, answer: impl Future<Output = T>) -> Option<T> {
    let gone = async {
        let stream: &UnixStream = reader.get_ref().as_ref();
        // The end of a peer that was killed is heard at once. What it sent before, or that it sends no more, is heard as
        // well and once, and is no end.
        let mut hears = true;
        loop {
            tokio::select! {
                _ = stream.readable(), if hears => hears = false,
                () = tokio::time::sleep(limits::PEER_LOOK_INTERVAL) => {}
            }
            let mut descriptors = [PollFd::new(stream, PollFlags::empty())];
            let is_looked = poll(&mut descriptors, Some(&Timespec::default())).is_ok();
            if is_looked && descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
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

async fn write(writer: &mut Writer, answer: &Value) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    writer.write_all(&text).await
}
