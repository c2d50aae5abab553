//! How many connections there may be at once, and what those are told who come when there is no place.

use std::cell::Cell;
use std::rc::Rc;

use hq_model::counted_are;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tracing::warn;

use crate::answers::Answer;
use crate::contract::Problem;
use crate::{frames, limits};

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    taken: Cell<usize>,
    refused: Cell<usize>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Rc<Places>,
    is_refused: bool,
}

impl Places {
    /// As many as this process may have descriptors for, so many for each, whose limit is raised as far as it may be.
    pub(crate) fn new(files_each: usize) -> Rc<Places> {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let files = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
        Places::for_files(files, files_each)
    }

    // No limit means that of the kernel, which is larger than what is taken here.
    fn for_files(files: Option<u64>, files_each: usize) -> Rc<Places> {
        let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let most = files.saturating_sub(limits::DESCRIPTORS_RESERVED) / files_each;
        let most = most.clamp(1, limits::CONNECTIONS_MAX);
        Rc::new(Places { most, taken: Cell::new(0), refused: Cell::new(0) })
    }

    /// A place, unless all are taken.
    pub(crate) fn take(self: &Rc<Self>) -> Option<Place> {
        (self.taken.get() < self.most).then(|| {
            self.taken.set(self.taken.get() + 1);
            Place { all: Rc::clone(self), is_refused: false }
        })
    }

    /// Tells somebody for whom there is no place. Where many come at once, some are not told.
    pub(crate) fn turn_away(self: &Rc<Self>, mut stream: UnixStream) {
        warn!(most = self.most, "a connection too many is refused; `ulimit -n` may bound them");
        if self.refused.get() >= limits::REFUSED_AT_ONCE {
            return;
        }
        self.refused.set(self.refused.get() + 1);
        let place = Place { all: Rc::clone(self), is_refused: true };
        let problem = self.full();
        tokio::task::spawn_local(async move {
            // Who does not listen is not waited for.
            let _ = timeout(limits::PEER_LOOK_INTERVAL, refuse(&mut stream, problem)).await;
            drop(place);
        });
    }

    fn full(&self) -> Problem {
        let most = self.most;
        let way_out = match most < limits::CONNECTIONS_MAX {
            true => "start it with a larger `ulimit -n`, or connect fewer programs",
            false => "connect fewer programs, or start another relay with `hq pull relay --socket`",
        };
        Problem::new(
            "full",
            format!(
                "{} connected to this relay, and it can have no more: {way_out}",
                counted_are(most as u64, "program", "is", "are")
            ),
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let count = if self.is_refused { &self.all.refused } else { &self.all.taken };
        count.set(count.get() - 1);
    }
}

/// Answers the first request of somebody who is not served, in the spelling of that.
pub(crate) async fn refuse(stream: &mut UnixStream, problem: Problem) -> std::io::Result<()> {
    stream.readable().await?;
    let mut first = [0];
    if stream.try_read(&mut first)? == 0 {
        return Ok(());
    }
    let answer = Answer::Error(problem);
    let mut said = Vec::new();
    match first[0] {
        0 | 1 => frames::put(answer, &mut said),
        b'A'..=b'Z' => {
            let mut body = Vec::new();
            answer.put_json(&mut body);
            let (length, close) = (body.len(), "Connection: close");
            said = format!(
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{close}\r\n\r\n"
            )
            .into_bytes();
            said.extend(body);
        }
        _ => {
            answer.put_json(&mut said);
            said.push(b'\n');
        }
    }
    stream.write_all(&said).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    #[test]
    fn some_descriptors_are_kept_for_other_things() {
        for (files, most) in [(Some(1024), 960), (Some(10), 1), (Some(20_000), 10_000), (None, 10_000)] {
            assert_eq!(Places::for_files(files, 1).most, most, "{files:?}");
        }
        assert_eq!(Places::for_files(Some(1024), 2).most, 480);
    }

    #[test]
    fn who_comes_when_all_places_are_taken_is_told_the_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let places = Places::for_files(Some(66), 1);
            let taken = [places.take().expect("free"), places.take().expect("free")];
            assert!(places.take().is_none());
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            theirs.write_all(b"{\"status\":{}}\n").await.expect("somebody reads");
            places.turn_away(ours);
            let mut told = String::new();
            BufReader::new(theirs).read_line(&mut told).await.expect("an answer");
            assert!(
                told.contains("\"full\"")
                    && told.contains("2 programs are connected")
                    && told.contains("ulimit -n"),
                "{told}"
            );
            drop(taken);
            assert!(places.take().is_some());
        });
    }
}
