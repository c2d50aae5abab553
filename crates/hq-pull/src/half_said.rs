//! A request at the socket of a relay that comes, and what has come of it: it counts with all others that are not complete.
//!
//! Where these take too much, who began first is told so and must go: a request that is on its way is there within milliseconds,
//! and the oldest one is of somebody who has stopped in the middle.

use std::sync::Arc;
use std::time::Duration;

use hq_net::HalfSaid;
use hq_net::half_said::Part;
use hq_net::limits::HALF_SAID_GRACE;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};

use crate::connection::Reader;
use crate::contract::Problem;
use crate::limits::{BELOW_HALF_SAID_BYTES_MAX, HALF_SAID_BYTES_MAX, KEPT_BYTES_MAX};

/// Of all clients of a relay. The oldest goes at once.
pub(crate) fn of_relay() -> Arc<HalfSaid> {
    HalfSaid::new(HALF_SAID_BYTES_MAX, Duration::ZERO)
}

/// Of all relays below one. What comes on slowly is waited for.
pub(crate) fn of_relays_below() -> Arc<HalfSaid> {
    HalfSaid::new(BELOW_HALF_SAID_BYTES_MAX, HALF_SAID_GRACE)
}

/// A request that comes, and its bytes as far as they have come.
#[derive(Debug)]
pub(crate) struct Coming {
    all: Arc<HalfSaid>,
    // As long as the request is not complete.
    part: Option<Part>,
    bytes: Vec<u8>,
}

impl Coming {
    /// Nothing of it has come.
    pub(crate) fn new(all: &Arc<HalfSaid>) -> Coming {
        Coming { all: Arc::clone(all), part: None, bytes: Vec::new() }
    }

    /// What has come.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The next request comes.
    pub(crate) fn clear(&mut self) {
        self.complete();
        self.bytes.clear();
        // Many may be connected, and have asked for much once.
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    /// Reads on until a byte has come, or so many in all, or the end.
    ///
    /// # Errors
    /// The inner one when there is no room for what has come.
    pub(crate) async fn until(
        &mut self,
        reader: &mut Reader,
        last: u8,
        most: usize,
    ) -> std::io::Result<Result<(), Problem>> {
        self.read(reader, Some(last), most).await
    }

    /// Reads on until so many bytes have come in all, or the end.
    ///
    /// # Errors
    /// As above.
    pub(crate) async fn whole(
        &mut self,
        reader: &mut Reader,
        length: usize,
    ) -> std::io::Result<Result<(), Problem>> {
        self.read(reader, None, length).await
    }

    async fn read(
        &mut self,
        reader: &mut Reader,
        last: Option<u8>,
        most: usize,
    ) -> std::io::Result<Result<(), Problem>> {
        while self.bytes.len() < most {
            if !self.bytes.is_empty() && reader.buffer().is_empty() {
                let part = self.part.get_or_insert_with(|| self.all.begin());
                if part.takes(self.bytes.capacity(), self.bytes.len()).await.is_err() {
                    return Ok(Err(self.refused()));
                }
            }
            let there = match self.part.as_ref().map(Part::cut) {
                None => reader.fill_buf().await?.len(),
                Some(cut) => tokio::select! {
                    biased;
                    () = cut.notified() => return Ok(Err(self.refused())),
                    there = reader.fill_buf() => there?.len(),
                },
            };
            if there == 0 {
                break;
            }
            // All of this is there: it waits for nobody.
            let mut some = (&mut *reader).take(there.min(most - self.bytes.len()) as u64);
            match last {
                Some(last) => some.read_until(last, &mut self.bytes).await?,
                None => some.read_to_end(&mut self.bytes).await?,
            };
            if last.is_some() && self.bytes.last().copied() == last {
                break;
            }
        }
        self.complete();
        Ok(Ok(()))
    }

    fn refused(&mut self) -> Problem {
        self.bytes = Vec::new();
        self.complete();
        Problem::new(
            "full",
            format!(
                "requests of which only a part has come take more than {HALF_SAID_BYTES_MAX} bytes, and this is the oldest: say it again, \
                 and all of it at once"
            ),
        )
    }

    // Nothing more is to come: it does not count any more.
    fn complete(&mut self) {
        self.part = None;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::io::BufReader;
    use tokio::task::yield_now;

    use super::*;
    use crate::stream::{Reading, split};

    fn of_at_most(bytes_max: usize) -> Arc<HalfSaid> {
        HalfSaid::new(bytes_max, Duration::ZERO)
    }

    fn connection() -> (UnixStream, BufReader<Reading>) {
        let (theirs, ours) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        let ours = tokio::net::UnixStream::from_std(ours).expect("a socket");
        let (reading, _) = split(ours).expect("a socket");
        (theirs, BufReader::new(reading))
    }

    // Reads a line, and says what became of it.
    async fn line(all: Arc<HalfSaid>, mut reader: BufReader<Reading>) -> Result<usize, String> {
        let mut coming = Coming::new(&all);
        let read = coming.until(&mut reader, b'\n', 1 << 20).await.expect("a socket");
        read.map(|()| coming.bytes().len()).map_err(|problem| problem.code.to_owned())
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            yield_now().await;
        }
    }

    #[test]
    fn the_oldest_that_has_stopped_in_the_middle_goes_and_the_others_are_heard() {
        run(async {
            let all = of_at_most(100_000);
            let mut peers = Vec::new();
            let mut readers = Vec::new();
            for count in 1..=4 {
                let (mut peer, reader) = connection();
                peer.write_all(&[b'x'; 30_000]).expect("there is room");
                readers.push(tokio::task::spawn_local(line(Arc::clone(&all), reader)));
                peers.push(peer);
                // What is half said of the first ones is known before the next one begins.
                let known = || {
                    let (bytes, parts) = all.size();
                    count.min(3) == parts && bytes >= 30_000 * count.min(3)
                };
                until(known).await;
            }
            assert!(all.size().0 <= 100_000);
            assert_eq!(readers.remove(0).await.expect("no panic"), Err("full".to_owned()));
            for peer in &mut peers[1..] {
                peer.write_all(b"\n").expect("there is room");
            }
            for reader in readers {
                assert_eq!(reader.await.expect("no panic"), Ok(30_001));
            }
            assert_eq!(all.size(), (0, 0));
        });
    }

    #[test]
    fn what_comes_whole_and_who_goes_in_the_middle_count_no_more() {
        run(async {
            let all = of_at_most(100_000);
            let (mut peer, reader) = connection();
            peer.write_all(b"whole\n").expect("there is room");
            assert_eq!(line(Arc::clone(&all), reader).await, Ok(6));
            let (mut peer, reader) = connection();
            peer.write_all(b"half").expect("there is room");
            let reading = tokio::task::spawn_local(line(Arc::clone(&all), reader));
            until(|| all.size().0 > 0).await;
            reading.abort();
            assert!(reading.await.expect_err("it was ended").is_cancelled());
            assert_eq!(all.size().0, 0);
        });
    }

    #[test]
    fn a_head_counts_between_its_lines() {
        run(async {
            let all = of_at_most(100_000);
            let (mut peer, mut reader) = connection();
            let reading = tokio::task::spawn_local({
                let all = Arc::clone(&all);
                async move {
                    let mut coming = Coming::new(&all);
                    for _ in 0..2 {
                        coming.until(&mut reader, b'\n', 1 << 20).await.expect("a socket").expect("room");
                    }
                    coming.bytes().len()
                }
            });
            peer.write_all(b"GET / HTTP/1.1\n").expect("there is room");
            until(|| all.size().0 >= 15).await;
            peer.write_all(b"\n").expect("there is room");
            assert_eq!(reading.await.expect("no panic"), 16);
            assert_eq!(all.size().0, 0);
        });
    }
}
