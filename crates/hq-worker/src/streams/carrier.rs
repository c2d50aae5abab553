//! The thread that carries: it waits for pipes, orders and time, reads, and lets the ends go that are in their files.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hq_core::worker::Input;
use hq_stream::Channel;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::file::{Ended, StreamFile, Written};
use super::{Done, Key, LogLink, Order, Place, Wake};
use crate::limits;
use crate::reader;

// Of the queue among the pipes.
const WAKE: u64 = u64::MAX;

/// Everything the thread has.
#[derive(Debug)]
pub(super) struct Carrier {
    orders: mpsc::Receiver<Order>,
    wake: Arc<Wake>,
    done: Done,
    epoll: OwnedFd,
    pipes: HashMap<u64, Pipe>,
    // Pipes that are not watched now, and from when on they are: in steps, so that many are looked at together.
    later: VecDeque<(Instant, u64)>,
    begun: Instant,
    attempts: HashMap<Key, (Place, Vec<u64>)>,
    // Of these; their ends do not wait for room.
    hurried: HashSet<Key>,
    files: HashMap<Place, StreamFile>,
    link: Arc<LogLink>,
    followed: HashMap<Key, Followed>,
    next_pipe: u64,
    buffer: Vec<u8>,
    // Why something waits for room, as it was told last.
    waits: Option<String>,
    is_closing: bool,
}

// Who waits for what an attempt prints, and until when.
#[derive(Debug)]
struct Followed {
    until: Instant,
    reader: mpsc::Sender<reader::Order>,
}

#[derive(Debug)]
struct Pipe {
    end: OwnedFd,
    key: Key,
    channel: Channel,
    place: Place,
    is_watched: bool,
    is_at_end: bool,
    bytes: usize,
    // It is read as soon as something is there.
    is_bulk: bool,
    // Since when so many bytes were read.
    recently: (Instant, usize),
}

impl Pipe {
    fn count(&mut self, bytes: usize, now: Instant) {
        self.bytes = self.bytes.saturating_add(bytes);
        if now >= self.recently.0 + limits::STREAM_LOOK {
            self.is_bulk = self.recently.1 >= limits::STREAM_BULK;
            self.recently = (now, 0);
        }
        self.recently.1 += bytes;
        self.is_bulk |= self.recently.1 >= limits::STREAM_BULK;
    }
}

impl Carrier {
    pub(super) fn new(
        orders: mpsc::Receiver<Order>,
        wake: Arc<Wake>,
        done: Done,
        link: Arc<LogLink>,
    ) -> io::Result<Carrier> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake.event, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Carrier {
            orders,
            wake,
            done,
            epoll,
            pipes: HashMap::new(),
            later: VecDeque::new(),
            begun: Instant::now(),
            attempts: HashMap::new(),
            hurried: HashSet::new(),
            files: HashMap::new(),
            link,
            followed: HashMap::new(),
            next_pipe: 0,
            buffer: vec![0; limits::STREAM_CHUNK],
            waits: None,
            is_closing: false,
        })
    }

    pub(super) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(limits::STREAM_EVENTS);
        while !self.is_closing {
            events.clear();
            if self.may_sleep() {
                let timeout = self.timeout();
                // Interrupted, it looks at everything all the same.
                let spare = rustix::buffer::spare_capacity(&mut events);
                let _ = epoll::wait(&self.epoll, spare, timeout.as_ref());
            }
            self.take_orders();
            self.look_again();
            for event in &events {
                match event.data.u64() {
                    WAKE => {}
                    pipe => self.read(pipe),
                }
            }
            self.end_and_flush();
            self.tell_waits();
        }
        self.close();
    }

    // Of each a line, which names it.
    fn tell_waits(&mut self) {
        let lines: BTreeSet<&str> = self.files.values().filter_map(StreamFile::lacks).collect();
        let lines: Vec<&str> = lines.into_iter().take(limits::STREAM_WAITS_TOLD).collect();
        let why = Some(lines.join("\n")).filter(|lines| !lines.is_empty());
        if self.waits != why {
            self.waits.clone_from(&why);
            // When the loop has ended nobody wants to know.
            let _ = self.done.told.send(Input::OutputWaits(why));
        }
    }

    // False when it is to look once more, because beginnings and ends of a moment ago have not woken it.
    fn may_sleep(&mut self) -> bool {
        let looks = !self.later.is_empty() || self.files.values().any(|file| !file.ends.is_empty());
        let is_stalled = self.files.values().any(StreamFile::is_stalled);
        self.wake.is_stalled.store(is_stalled, Ordering::Relaxed);
        let dozes = looks && !is_stalled && !self.files.values().any(|file| file.prints_much);
        let has_dozed = self.wake.dozes.swap(dozes, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        dozes || !has_dozed
    }

    fn timeout(&self) -> Option<Timespec> {
        let look = self.later.front().map(|(at, _)| *at);
        let next = self.files.values().filter_map(StreamFile::wakeup).chain(look).min()?;
        let wait = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        Timespec::try_from(wait).ok()
    }

    fn take_orders(&mut self) {
        let mut count = [0; 8];
        // Nothing is there when it was a pipe or time that woke it.
        let _ = rustix::io::read(&self.wake.event, &mut count);
        loop {
            match self.orders.try_recv() {
                Ok(Order::Open { key, place, pipes, since }) => self.open(key, place, pipes, since),
                Ok(Order::End { key, aftermath, may_wait }) => {
                    let is_hurried = self.hurried.contains(&key);
                    self.ended(Ended { key, aftermath, since: Instant::now(), may_wait, is_hurried });
                }
                Ok(Order::WaitNoMore { of }) => {
                    self.hurried.extend(self.attempts.keys().filter(|key| of.contains(key.0)));
                    self.files.values_mut().for_each(|file| file.wait_no_more(of));
                }
                Ok(Order::Forget { key }) => self.forget(key),
                Ok(Order::Answered { number, answer }) => {
                    self.files.values_mut().any(|file| file.answered(number, &answer));
                }
                Ok(Order::LinkChanged) => {
                    self.files.values_mut().for_each(|file| file.link_changed(&self.link));
                }
                Ok(Order::Follow { key, until, reader }) => self.follow(key, until, reader),
                Err(mpsc::TryRecvError::Empty) => return,
                Err(mpsc::TryRecvError::Disconnected) => {
                    self.is_closing = true;
                    return;
                }
            }
        }
    }

    fn open(&mut self, key: Key, place: Place, pipes: Vec<(Channel, OwnedFd)>, since: Instant) {
        self.make_room();
        let file =
            self.files.entry(place.clone()).or_insert_with(|| StreamFile::new(place.clone(), &self.link));
        file.add_attempt(key);
        let is_bulk = file.prints_much;
        let mut numbers = Vec::with_capacity(pipes.len());
        for (channel, end) in pipes {
            let number = self.next_pipe;
            self.next_pipe += 1;
            numbers.push(number);
            let place = place.clone();
            let pipe = Pipe {
                end,
                key,
                channel,
                place,
                is_watched: false,
                is_at_end: false,
                bytes: 0,
                is_bulk,
                recently: (since, 0),
            };
            self.pipes.insert(number, pipe);
            if is_bulk {
                self.watch(number);
            } else {
                self.look_later(since, number);
            }
        }
        self.attempts.insert(key, (place, numbers));
    }

    // With many files open, the one that nobody has used for longest is closed.
    fn make_room(&mut self) {
        if self.files.len() < limits::STREAM_FILES_MAX {
            return;
        }
        let idle = self.files.iter().filter(|(_, file)| file.attempts == 0 && file.dirty.is_none());
        let oldest = idle.filter(|(_, file)| !file.is_stalled()).min_by_key(|(_, file)| file.used);
        if let Some(place) = oldest.map(|(place, _)| place.clone())
            && let Some(file) = self.files.remove(&place)
        {
            file.finish();
        }
    }

    fn watch(&mut self, number: u64) {
        if let Some(pipe) = self.pipes.get_mut(&number)
            && !pipe.is_watched
            && !pipe.is_at_end
        {
            // Without it, it is read at the end of its task.
            pipe.is_watched =
                epoll::add(&self.epoll, &pipe.end, EventData::new_u64(number), EventFlags::IN).is_ok();
        }
    }

    fn unwatch(&mut self, number: u64) {
        if let Some(pipe) = self.pipes.get_mut(&number)
            && std::mem::take(&mut pipe.is_watched)
        {
            let _ = epoll::delete(&self.epoll, &pipe.end);
        }
    }

    // Once, so that all have their turn. While there is no room for it, it is not looked at.
    fn read(&mut self, number: u64) {
        let Some(pipe) = self.pipes.get(&number) else { return };
        let is_stalled = self.files.get(&pipe.place).is_none_or(StreamFile::is_stalled);
        if is_stalled && let Some(file) = self.files.get_mut(&pipe.place) {
            file.lacks_room();
        }
        if is_stalled || self.carry(number, limits::STREAM_CHUNK) == 0 {
            self.unwatch(number);
        } else if self.pipes.get(&number).is_some_and(|pipe| !pipe.is_bulk) {
            self.unwatch(number);
            self.look_later(Instant::now(), number);
        }
    }

    fn look_later(&mut self, since: Instant, number: u64) {
        let at = since.saturating_duration_since(self.begun) + limits::STREAM_LOOK;
        let (at, step) = (at.as_nanos() as u64, limits::STREAM_GATHER.as_nanos() as u64);
        self.later.push_back((self.begun + Duration::from_nanos(at.next_multiple_of(step)), number));
    }

    // What has come in the meantime wakes it.
    fn look_again(&mut self) {
        let now = Instant::now();
        while let Some((_, number)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            let file = self.pipes.get(&number).and_then(|pipe| self.files.get_mut(&pipe.place));
            match file {
                Some(file) if file.is_stalled() => file.lacks_room(),
                Some(_) => self.watch(number),
                None => {}
            }
        }
    }

    // Gives how much it was; nothing at the end of the pipe.
    fn carry(&mut self, number: u64, bytes_max: usize) -> usize {
        let Some(pipe) = self.pipes.get_mut(&number) else { return 0 };
        let bytes_max = bytes_max.min(self.buffer.len());
        let count = match rustix::io::read(&pipe.end, &mut self.buffer[..bytes_max]) {
            Ok(count) => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return usize::MAX,
            Err(_) => 0,
        };
        if count == 0 {
            pipe.is_at_end = true;
            return 0;
        }
        pipe.count(count, Instant::now());
        if let Some(file) = self.files.get_mut(&pipe.place) {
            file.append(pipe.key, pipe.channel, &self.buffer[..count]);
            if !self.followed.is_empty() && self.followed.contains_key(&pipe.key) {
                file.is_awaited = true;
            }
        }
        count
    }

    fn ended(&mut self, ended: Ended) {
        let file = self.attempts.get(&ended.key).and_then(|(place, _)| self.files.get_mut(place));
        match file {
            Some(file) => file.ended(ended),
            None => self.tell(ended),
        }
    }

    // What it has printed so far is put into the file, and so is from now on whatever it prints.
    fn follow(&mut self, key: Key, until: Instant, reader: mpsc::Sender<reader::Order>) {
        let Some((place, _)) = self.attempts.get(&key) else { return };
        self.followed.insert(key, Followed { until, reader });
        if let Some(file) = self.files.get_mut(place) {
            file.is_awaited = true;
        }
    }

    // Says where what is awaited of a file is, and forgets who does not wait any more.
    fn tell_followers(&mut self, place: &Place, now: Instant) {
        let Some(path) = self.files.get(place).and_then(StreamFile::path) else { return };
        let attempts = &self.attempts;
        self.followed.retain(|key, followed| {
            if attempts.get(key).is_some_and(|(of, _)| of == place) {
                let told = reader::Order::Written { key: *key, path: path.to_owned() };
                return now < followed.until && followed.reader.send(told).is_ok();
            }
            true
        });
    }

    fn forget(&mut self, key: Key) {
        let Some((place, pipes)) = self.attempts.remove(&key) else { return };
        self.hurried.remove(&key);
        let path = self.files.get(&place).and_then(StreamFile::path);
        if let (Some(followed), Some(path)) = (self.followed.remove(&key), path) {
            // Whoever reads looks there again when the end is told.
            let _ = followed.reader.send(reader::Order::Written { key, path: path.to_owned() });
        }
        for number in pipes {
            self.unwatch(number);
            self.pipes.remove(&number);
        }
        if let Some(file) = self.files.get_mut(&place) {
            file.forget(key);
        }
    }

    fn tell(&self, ended: Ended) {
        self.wake.ends.fetch_sub(1, Ordering::Relaxed);
        self.done.tell(ended.aftermath);
    }

    // The ends of one turn share one flush.
    fn end_and_flush(&mut self) {
        let now = Instant::now();
        let due = |file: &StreamFile| file.wakeup().is_some_and(|at| at <= now);
        let has_some =
            |file: &StreamFile| file.is_awaited || file.has_ends_due(now) || !file.unflushed.is_empty();
        let wanted =
            self.files.iter().filter(|(_, file)| due(file) || (!file.is_stalled() && has_some(file)));
        let wanted: Vec<Place> = wanted.map(|(place, _)| place.clone()).collect();
        for place in wanted {
            self.end_and_flush_one(&place, now);
        }
    }

    fn end_and_flush_one(&mut self, place: &Place, now: Instant) {
        let mut told = Vec::new();
        let was_stalled = self.files.get(place).is_some_and(StreamFile::is_stalled);
        if was_stalled {
            told.extend(self.files.get_mut(place).map(StreamFile::flush).unwrap_or_default());
        }
        let is_due = self.is_closing || self.files.get(place).is_some_and(|file| file.has_ends_due(now));
        while is_due
            && let Some(file) = self.files.get_mut(place).filter(|file| !file.is_stalled())
            && let Some(ended) = file.ends.pop_front()
        {
            let is_complete = self.drain(ended.key);
            let Some(file) = self.files.get_mut(place) else { return };
            if is_complete { file.unflushed.push(ended) } else { file.ends.push_front(ended) }
        }
        let Some(file) = self.files.get_mut(place) else { return };
        if !file.is_stalled() {
            told.extend(file.flush());
            self.tell_followers(place, now);
        }
        let Some(file) = self.files.get_mut(place) else { return };
        let over = file.overdue();
        let is_over = file.is_over(now);
        let has_room = file.takes_again() || was_stalled && !file.is_stalled();
        if is_over && let Some(file) = self.files.remove(place) {
            file.finish();
        }
        for ended in over {
            self.forget(ended.key);
            self.tell(ended);
        }
        told.into_iter().for_each(|ended| self.tell(ended));
        if has_room {
            let of_place = self.pipes.iter().filter(|(_, pipe)| pipe.place == *place);
            let pipes: Vec<u64> = of_place.map(|(number, _)| *number).collect();
            pipes.into_iter().for_each(|number| self.watch(number));
        }
    }

    // Reads what is in the pipes of a task of which nothing is left, and no more: what a process printed that outlives its
    // task would never end. False when there was no room for all.
    fn drain(&mut self, key: Key) -> bool {
        let Some((place, pipes)) = self.attempts.get(&key).cloned() else { return true };
        let mut channels = Vec::with_capacity(pipes.len());
        let mut prints_much = false;
        for number in pipes {
            let Some(channel) = self.pipes.get(&number).map(|pipe| pipe.channel) else { continue };
            channels.push(channel);
            // Mostly this is all that there is.
            let first = self.carry(number, usize::MAX);
            let may_be_more = first >= limits::STREAM_CHUNK && first != usize::MAX;
            if self.files.get(&place).is_some_and(StreamFile::is_stalled) {
                return false;
            }
            let pipe = self.pipes.get(&number).filter(|_| may_be_more);
            let mut left = pipe.and_then(|pipe| rustix::io::ioctl_fionread(&pipe.end).ok()).unwrap_or(0);
            while left > 0 {
                let count = self.carry(number, usize::try_from(left).unwrap_or(usize::MAX));
                if count == 0 || count == usize::MAX {
                    break;
                }
                left = left.saturating_sub(count as u64);
                if self.files.get(&place).is_some_and(StreamFile::is_stalled) {
                    return false;
                }
            }
            prints_much |= self.pipes.get(&number).is_some_and(|pipe| pipe.bytes > limits::STREAM_MUCH);
        }
        let written = self.files.get_mut(&place).map(|file| {
            file.prints_much = prints_much;
            file.end(key, &channels)
        });
        if written == Some(Written::NoRoom) {
            return false;
        }
        self.forget(key);
        true
    }

    // Nothing runs any more. What finds no room now is lost.
    fn close(mut self) {
        let places: Vec<Place> = self.files.keys().cloned().collect();
        let now = Instant::now();
        for place in &places {
            self.end_and_flush_one(place, now);
        }
        let keys: Vec<Key> = self.attempts.keys().copied().collect();
        for key in keys {
            let place = self.attempts.get(&key).map(|(place, _)| place.clone());
            let is_stalled =
                place.and_then(|place| self.files.get(&place)).is_some_and(StreamFile::is_stalled);
            if !is_stalled {
                self.drain(key);
            }
        }
        for (_, mut file) in std::mem::take(&mut self.files) {
            file.flush().into_iter().for_each(|ended| self.tell(ended));
            file.finish();
        }
    }
}
