//! Reads what tasks have printed and print, for clients that watch: from the files and streams into which they print.
//!
//! One thread, which file systems may keep waiting. A read waits until there is something to tell; while one does, its
//! output is looked at every few milliseconds.

mod orders;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use hq_core::limits::{OUTPUT_READ_BYTES_MAX, OUTPUT_READS_OF_WORKER_MAX};
use hq_core::output_messages::{ReadAnswer, ReadFrom, ReadOrder, ReadState};
use hq_model::{Channel, Instance, TaskRef};
use hq_stream::Output;
use tokio::sync::mpsc::UnboundedSender;

use crate::limits;
use crate::streams::Key;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Somebody wants to read. What has ended prints no more.
    Read { order: ReadOrder, output: Output, has_ended: bool, life: u64 },
    /// The answer of a read is not wanted any more.
    Drop { number: u64 },
    /// No answer is: the server is lost.
    DropAll,
    /// A task has ended, with all that it has printed.
    Ended { task: TaskRef },
    /// What an attempt has printed into its stream is in this file.
    Written { key: Key, path: PathBuf },
}

/// An answer, and the life of the connection over which it was asked for.
pub(crate) type Answered = (u64, ReadAnswer);

/// The thread. It ends when nobody can tell it anything any more.
#[derive(Debug)]
pub(crate) struct Reader {
    queue: mpsc::Sender<Order>,
}

impl Reader {
    /// Answers go to `answers`.
    pub(crate) fn start(answers: UnboundedSender<Answered>) -> std::io::Result<Reader> {
        let (queue, orders) = mpsc::channel();
        let reading = Reading { answers, open: HashMap::new() };
        std::thread::Builder::new().name("reader".into()).spawn(move || reading.run(&orders))?;
        Ok(Reader { queue })
    }

    pub(crate) fn tell(&self, order: Order) {
        // The thread ends only when the queue does.
        let _ = self.queue.send(order);
    }

    /// For those who write what is read.
    pub(crate) fn sender(&self) -> mpsc::Sender<Order> {
        self.queue.clone()
    }
}

struct Reading {
    answers: UnboundedSender<Answered>,
    open: HashMap<(TaskRef, Instance, Channel), Open>,
}

// An output that is read, or was a moment ago.
struct Open {
    text: Output,
    has_ended: bool,
    waiting: Vec<Waiting>,
    // When it was read or answered last.
    used: Instant,
    answered: Option<Instant>,
}

struct Waiting {
    order: ReadOrder,
    until: Instant,
    life: u64,
}

impl Reading {
    fn run(mut self, orders: &mpsc::Receiver<Order>) {
        loop {
            let wait = match self.open.values().any(|open| !open.waiting.is_empty()) {
                true => limits::READER_LOOK,
                false => limits::READER_KEEP,
            };
            let first = if self.open.is_empty() {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(wait)
            };
            match first {
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(order) = orders.try_recv() {
                self.take(order);
            }
            self.look();
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Read { order, output, has_ended, life } => self.read(order, output, has_ended, life),
            Order::Drop { number } => {
                self.open
                    .values_mut()
                    .for_each(|open| open.waiting.retain(|read| read.order.number != number));
            }
            Order::DropAll => self.open.values_mut().for_each(|open| open.waiting.clear()),
            Order::Ended { task } => {
                let of_task = self.open.iter_mut().filter(|((other, ..), _)| *other == task);
                of_task.for_each(|(_, open)| open.has_ended = true);
            }
            Order::Written { key: (task, instance), path } => {
                for channel in Channel::ALL {
                    if let Some(open) = self.open.get_mut(&(task, instance, channel)) {
                        open.text.is_in(&path);
                    }
                }
            }
        }
    }

    fn read(&mut self, order: ReadOrder, output: Output, has_ended: bool, life: u64) {
        let waiting: usize = self.open.values().map(|open| open.waiting.len()).sum();
        if waiting >= OUTPUT_READS_OF_WORKER_MAX {
            let reason = format!("its worker is asked for {waiting} outputs already");
            // Nobody listens when the worker ends.
            let _ = self.answers.send((life, ReadAnswer::unreadable(order.number, reason)));
            return;
        }
        let key = (order.task, order.instance, order.channel);
        let now = Instant::now();
        let open = self.open.entry(key).or_insert_with(|| Open {
            text: output,
            has_ended,
            waiting: Vec::new(),
            used: now,
            answered: None,
        });
        open.has_ended |= has_ended;
        open.used = now;
        open.waiting.push(Waiting { until: now + order.wait, order, life });
    }

    fn look(&mut self) {
        let now = Instant::now();
        for open in self.open.values_mut().filter(|open| !open.waiting.is_empty()) {
            for read in std::mem::take(&mut open.waiting) {
                match open.answer(&read, now) {
                    Some(answer) => {
                        open.answered = Some(now);
                        let _ = self.answers.send((read.life, answer));
                    }
                    None => open.waiting.push(read),
                }
            }
        }
        self.open.retain(|_, open| !open.waiting.is_empty() || now < open.used + limits::READER_KEEP);
    }
}

impl Open {
    // Nothing when there is nothing to tell yet.
    fn answer(&mut self, read: &Waiting, now: Instant) -> Option<ReadAnswer> {
        let number = read.order.number;
        self.try_answer(read, now).unwrap_or_else(|reason| Some(ReadAnswer::unreadable(number, reason)))
    }

    fn try_answer(&mut self, read: &Waiting, now: Instant) -> Result<Option<ReadAnswer>, String> {
        let Waiting { order, until, .. } = read;
        let length = self.text.length(self.has_ended)?;
        let offset = match order.from {
            // It was cut off meanwhile: what is there now is read from its beginning.
            ReadFrom::Offset(offset) if offset > length => 0,
            ReadFrom::Offset(offset) => offset,
            ReadFrom::Lines(lines) => self.text.begin_of_lines(lines, length)?,
        };
        let is_over = now >= *until;
        let bytes_max = order.bytes_max.min(OUTPUT_READ_BYTES_MAX);
        let is_early = self.answered.is_some_and(|last| now < last + limits::READER_PAUSE);
        if !(self.has_ended || is_over)
            && (offset == length || is_early && length - offset < bytes_max.into())
        {
            return Ok(None);
        }
        let bytes = match offset < length {
            true => self.text.read(offset, bytes_max as usize)?,
            false => Vec::new(),
        };
        if bytes.is_empty() && offset < length {
            return Err("what it printed was removed or cut off while it was read".to_owned());
        }
        let is_all = self.has_ended && offset + bytes.len() as u64 >= length;
        let damage = if is_all { self.text.damage() } else { None };
        let state = match (is_all, damage) {
            (false, _) => ReadState::More,
            (true, None) => ReadState::Complete,
            // After all that is good, it is said what is not.
            (true, Some(_)) if !bytes.is_empty() => ReadState::More,
            (true, Some(damage)) => return Err(format!("a part of it is damaged: {damage}")),
        };
        Ok(Some(ReadAnswer { number: order.number, offset, length, bytes, state }))
    }
}

#[cfg(test)]
mod tests;
