//! What happens, as server-sent events: counts whenever they have changed, and events of the journal from a cursor on.
//!
//! Counts are asked for once for all who watch, and a watcher that reads slowly misses some, never the latest. Events of the
//! journal have a session each, since each watcher is at another place.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hq_core::client_messages::{EventKind, FROM_NOW};
use hq_model::IdSet;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::super::source;
use super::routes::{Query, invalid};
use crate::error::HqError;
use crate::event_stream::{self, Wanted};
use crate::http::Held;
use crate::render::events::Events;

/// Who watches at once; more are told to come back later.
pub(super) const WATCHERS_MAX: usize = 64;
/// Those of them that read the journal.
pub(super) const READERS_MAX: usize = 16;
/// How often a watcher to whom there is nothing to say is told that it is still connected. One that has gone is noticed by that, and its place
/// is free.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a watcher may read nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of events that are told together.
const PIECE_BYTES: usize = 64 * 1024;
/// Parts of a stream that wait to be read.
const PARTS_MAX: usize = 4;

/// The body of an answer.
pub(super) enum Reply {
    /// All of it.
    Whole(Option<Bytes>),
    /// As it comes. The place among those who watch is given back with it.
    Parts {
        /// What comes.
        parts: mpsc::Receiver<Bytes>,
        /// The place.
        _place: OwnedSemaphorePermit,
    },
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = match self.get_mut() {
            Reply::Whole(bytes) => Poll::Ready(bytes.take()),
            Reply::Parts { parts, .. } => parts.poll_recv(context),
        };
        part.map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Reply::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Reply::Parts { .. } => SizeHint::default(),
        }
    }
}

/// Two ends of a stream.
pub(super) fn channel() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    mpsc::channel(PARTS_MAX)
}

/// What a watcher wants to hear.
#[derive(Debug, PartialEq)]
pub(super) struct Watched {
    /// The counts.
    pub has_overview: bool,
    /// Events of these kinds.
    pub kinds: Vec<EventKind>,
    jobs: Option<IdSet>,
    cursor: Cursor,
}

/// Where the events of a journal begin.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    /// With what happens now.
    Now,
    /// With the first that is known.
    Begin,
    /// Behind the record before this one, of the journal of this server.
    After(String, u64),
}

impl Watched {
    /// Reads a request, with what a browser says that comes back.
    pub(super) fn parse(query: &Query, last_id: Option<&str>) -> Result<Watched, HqError> {
        let words = query.list("kind", |word| Ok(word.to_owned()))?;
        let mut watched = Watched {
            has_overview: words.is_empty(),
            kinds: Vec::new(),
            jobs: None,
            cursor: cursor(last_id.unwrap_or_else(|| query.text("after")))?,
        };
        for word in words {
            match word.as_str() {
                "overview" => watched.has_overview = true,
                "server" => watched.kinds.push(EventKind::Server),
                "job" => watched.kinds.push(EventKind::Job),
                "task" => watched.kinds.push(EventKind::Task),
                "worker" => watched.kinds.push(EventKind::Worker),
                "allocation" => watched.kinds.push(EventKind::Allocation),
                _ => {
                    let kinds = "overview, server, job, task, worker or allocation";
                    return Err(invalid(format!("`kind={word}` is not valid; use {kinds}")));
                }
            }
        }
        let jobs = query.text("jobs");
        if !jobs.is_empty() {
            let ids = jobs.parse().map_err(|error| invalid(format!("`jobs={jobs}`: {error}")))?;
            watched.jobs = Some(ids);
        }
        Ok(watched)
    }

    fn wanted(&self, uid: &str) -> Wanted {
        let after = match &self.cursor {
            Cursor::Now => FROM_NOW,
            Cursor::After(of, next) if of == uid => *next,
            // The journal of another server is read from its beginning.
            Cursor::Begin | Cursor::After(..) => 0,
        };
        Wanted { follow: true, after, jobs: self.jobs.clone(), kinds: self.kinds.clone() }
    }
}

fn cursor(text: &str) -> Result<Cursor, HqError> {
    match text {
        "" => return Ok(Cursor::Now),
        "0" => return Ok(Cursor::Begin),
        _ => {}
    }
    let parts = text.rsplit_once('-').and_then(|(uid, next)| Some((uid, next.parse().ok()?)));
    match parts {
        Some((uid, next)) => Ok(Cursor::After(uid.to_owned(), next)),
        None => {
            Err(invalid(format!("`{text}` is not an id of an event; omit it, or use 0 for all past events")))
        }
    }
}

/// Tells counts when they have changed, and that all is well when not, until nobody reads. Who takes
/// nothing for as long as `patience` is cut off.
pub(super) async fn tell_overviews(
    mut frames: watch::Receiver<Bytes>,
    has_overview: bool,
    tell: mpsc::Sender<Bytes>,
    (held, patience): (Held, Duration),
) {
    let mut frame = if has_overview { frames.borrow_and_update().clone() } else { alive() };
    loop {
        match timeout(patience, tell.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            // What is on the way would wait for ever.
            Err(_) => return held.end(),
        }
        frame = tokio::select! {
            changed = frames.changed(), if has_overview => match changed {
                Ok(()) => frames.borrow_and_update().clone(),
                Err(_) => return,
            },
            () = sleep(HEARTBEAT) => alive(),
            () = tell.closed() => return,
        };
    }
}

// A comment, which readers skip.
fn alive() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// An event with a name of its own.
pub(super) fn named(name: &str, data: &serde_json::Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Tells events of the journal until nobody reads. `begun` hears whether there are any.
pub(super) fn tell_events(
    server_dir: &Path,
    uid: &str,
    watched: &Watched,
    tell: &mpsc::Sender<Bytes>,
    begun: oneshot::Sender<Result<(), HqError>>,
) {
    let mut begun = Some(begun);
    let wanted = watched.wanted(uid);
    let mut events = Events::new(Pieces { lines: Vec::new(), uid, tell });
    let read = source::open(server_dir).map_err(HqError::from).and_then(|mut session| {
        session.wait_for_lost_server(None);
        let gone = std::pin::pin!(tell.closed());
        event_stream::read(&mut session, wanted, &mut events, gone, |events, next| {
            if let Some(begun) = begun.take() {
                // Whoever asked may be gone.
                let _ = begun.send(Ok(()));
            }
            events.out().end(next);
            Ok(())
        })
    });
    if let Err(error) = read {
        match begun.take() {
            Some(begun) => drop(begun.send(Err(error))),
            None => drop(tell.blocking_send(named("lost", &serde_json::json!({ "error": error.text })))),
        }
    }
}

// Lines of events that are told in pieces while more of them are made: a record may stand for a million.
struct Pieces<'a> {
    lines: Vec<u8>,
    uid: &'a str,
    tell: &'a mpsc::Sender<Bytes>,
}

impl Pieces<'_> {
    // All events of an answer are there; `next` is the record behind them.
    fn end(&mut self, next: u64) {
        let lines = std::mem::take(&mut self.lines);
        if !lines.is_empty() {
            // When nobody reads any more, the reading ends.
            let _ = self.tell.blocking_send(frame(&lines, Some((self.uid, next))));
        }
    }
}

impl io::Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= PIECE_BYTES
            && let Some(last) = self.lines.iter().rposition(|byte| *byte == b'\n')
            // The last line of an answer has the id, so one is kept back.
            && let Some(end) = self.lines[..last].iter().rposition(|byte| *byte == b'\n')
        {
            let rest = self.lines.split_off(end + 1);
            let lines = std::mem::replace(&mut self.lines, rest);
            let told = self.tell.blocking_send(frame(&lines, None));
            told.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// Lines as events. Whoever has the last one of an answer, which has the id, goes on behind all of them.
fn frame(lines: &[u8], id: Option<(&str, u64)>) -> Bytes {
    let mut frame = Vec::with_capacity(lines.len() + lines.len() / 8 + 128);
    let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        if let (None, Some((uid, next))) = (lines.peek(), id) {
            frame.extend_from_slice(format!("id: {uid}-{next}\n").as_bytes());
        }
        frame.extend_from_slice(b"data: ");
        frame.extend_from_slice(line);
        frame.extend_from_slice(b"\n\n");
    }
    frame.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::routes::{Name, ROUTES};
    use super::*;

    fn watched(text: &str, last_id: Option<&str>) -> Result<Watched, String> {
        let route = ROUTES.iter().find(|route| route.name == Name::Events).expect("a route");
        let query = Query::parse(route, Some(text)).expect("known words");
        Watched::parse(&query, last_id).map_err(|error| error.text)
    }

    #[test]
    fn a_watcher_says_what_it_wants() {
        let none = watched("", None).expect("fine");
        assert_eq!((none.has_overview, none.kinds, none.cursor), (true, vec![], Cursor::Now));
        let some = watched("kind=job,task&jobs=1-3&after=0", None).expect("fine");
        assert_eq!((some.has_overview, some.kinds.len(), some.cursor), (false, 2, Cursor::Begin));
        assert_eq!(some.jobs.map(|jobs| jobs.to_string()).as_deref(), Some("1-3"));
        for (text, words) in [
            ("kind=tasks", "`kind=tasks` is not valid; use overview, server"),
            ("jobs=x", "`jobs=x`: "),
            ("after=x", "`x` is not an id of an event"),
            ("after=uid-x", "`uid-x` is not an id of an event"),
        ] {
            let error = watched(text, None).expect_err(text);
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn who_comes_back_goes_on_where_it_was() {
        let again = |text| watched(text, Some("a-b-17")).expect("fine");
        assert_eq!(
            again("kind=task&after=0").wanted("a-b").after,
            17,
            "the browser knows better than its address"
        );
        assert_eq!(again("kind=task").wanted("another").after, 0);
    }

    #[test]
    fn the_last_line_has_the_id() {
        let text = frame(b"{\"a\":1}\n{\"b\":2}\n", Some(("uid", 7)));
        assert_eq!(&text[..], b"data: {\"a\":1}\n\nid: uid-7\ndata: {\"b\":2}\n\n");
    }

    #[test]
    fn many_events_of_one_answer_are_told_in_pieces() {
        let (tell, mut told) = mpsc::channel(1000);
        let mut pieces = Pieces { lines: Vec::new(), uid: "uid", tell: &tell };
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..1000 {
            // A line may come in parts.
            line.as_bytes().chunks(700).for_each(|part| pieces.write_all(part).expect("somebody reads"));
            assert!(pieces.lines.len() <= PIECE_BYTES + 2000, "{}", pieces.lines.len());
        }
        pieces.end(7);
        drop(tell);
        let mut all = Vec::new();
        while let Some(piece) = told.blocking_recv() {
            assert!(piece.len() < 2 * PIECE_BYTES, "{}", piece.len());
            all.extend_from_slice(&piece);
        }
        let data = format!("data: {line}\n");
        assert_eq!(all, format!("{}id: uid-7\n{data}", data.repeat(999)).into_bytes());
    }

    #[test]
    fn who_reads_nothing_keeps_no_more_than_the_latest() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (write, frames) = watch::channel(Bytes::from_static(b"0"));
            let (tell, mut parts) = mpsc::channel(1);
            let held = Held::default();
            let telling = tokio::spawn(tell_overviews(frames, true, tell, (held.clone(), Duration::ZERO)));
            for number in 1..100 {
                write.send_replace(Bytes::from(number.to_string()));
                tokio::task::yield_now().await;
            }
            held.ended().await;
            telling.await.expect("it ends");
            let mut read = 0;
            while parts.recv().await.is_some() {
                read += 1;
            }
            assert!(read <= 2, "{read}");
        });
    }
}
