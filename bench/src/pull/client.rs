//! A program that takes tasks, as a compiled client would: frames by the generated types, JSON without any library, with texts
//! that are put together and looked through.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hq_proto::pull as form;
use hq_proto::pull::answer::Body as Answered;
use hq_proto::pull::request::Body;

use crate::row::BoxError;

/// Tasks that are created with one request.
const CREATED_AT_ONCE: u32 = 10_000;
/// Tasks of the graph that do not wait for each other.
const LAYER: u32 = 1000;

/// How it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Frames of `pull.proto`.
    Frames,
    /// Lines of JSON.
    Lines,
    /// HTTP/1.1 with JSON in its bodies.
    Http,
}

impl Spelling {
    /// For people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Spelling::Frames => "frames",
            Spelling::Lines => "lines",
            Spelling::Http => "HTTP",
        }
    }
}

/// A connection to a relay, and what was taken over it.
pub(super) struct Puller {
    stream: UnixStream,
    spelling: Spelling,
    bag: String,
    // Ids and attempts of what was taken with the last question.
    taken: Vec<(String, String)>,
    question: String,
    message: Vec<u8>,
    answer: Vec<u8>,
    // Where in `answer` the JSON begins.
    body: usize,
}

impl Puller {
    pub(super) fn connect(socket: &Path, spelling: Spelling, bag: &str) -> Result<Puller, BoxError> {
        Ok(Puller {
            stream: UnixStream::connect(socket)?,
            spelling,
            bag: bag.to_owned(),
            taken: Vec::new(),
            question: String::new(),
            message: Vec::new(),
            answer: Vec::new(),
            body: 0,
        })
    }

    /// Bytes of the last question and its answer.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.message.len(), self.answer.len())
    }

    /// Completes what it has, and takes others. How many these are.
    pub(super) fn next(&mut self, take: u32) -> Result<u32, BoxError> {
        if self.spelling == Spelling::Frames {
            return self.next_frame(take);
        }
        self.question.clear();
        self.question.push_str("{\"done\":[");
        for (number, (id, attempt)) in self.taken.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(self.question, "{comma}{{\"id\":\"{id}\",\"attempt\":\"{attempt}\"}}")?;
        }
        write!(self.question, "],\"take\":{take},\"wait\":10,\"bags\":[\"{}\"]}}", self.bag)?;
        self.ask("next")?;
        self.taken.clear();
        let text = std::str::from_utf8(&self.answer[self.body..])?;
        if text.contains("\"error\"") {
            return Err(text.to_owned().into());
        }
        let mut rest = text;
        while let Some(begin) = rest.find("\"id\":\"") {
            rest = &rest[begin + 6..];
            let (id, after) = rest.split_once('"').ok_or("a cut id")?;
            let begin = after.find("\"attempt\":\"").ok_or("no attempt")?;
            let (attempt, after) = after[begin + 11..].split_once('"').ok_or("a cut attempt")?;
            self.taken.push((id.to_owned(), attempt.to_owned()));
            rest = after;
        }
        Ok(self.taken.len() as u32)
    }

    fn next_frame(&mut self, take: u32) -> Result<u32, BoxError> {
        let ended = self.taken.drain(..);
        let done = ended.map(|(id, attempt)| form::End {
            id: Some(id),
            attempt: Some(attempt),
            ..form::End::default()
        });
        let (done, bags) = (done.collect(), vec![self.bag.clone()]);
        match self.ask_frame(Body::Next(form::Next { done, take, wait: 10.0, bags, tags: Vec::new() }))? {
            Answered::Given(given) => {
                if let Some(refused) = given.done.into_iter().find_map(|item| item.error) {
                    return Err(refused.into());
                }
                self.taken.extend(given.tasks.into_iter().map(|task| (task.id, task.attempt)));
                Ok(self.taken.len() as u32)
            }
            other => Err(format!("{other:?}").into()),
        }
    }

    fn ask_frame(&mut self, body: Body) -> Result<Answered, BoxError> {
        self.message.clear();
        form::put_request(&form::Request { body: Some(body) }, &mut self.message);
        self.exchange()?;
        let answer = form::decode_answer(&self.answer[form::LENGTH_BYTES..])?;
        answer.body.ok_or_else(|| "an answer of a later release".into())
    }

    /// Creates tasks that wait for nothing.
    pub(super) fn create(&mut self, count: u32) -> Result<(), BoxError> {
        for first in (0..count).step_by(CREATED_AT_ONCE as usize) {
            let end = count.min(first + CREATED_AT_ONCE);
            let name = |task: u32| format!("t{task}");
            if self.spelling == Spelling::Frames {
                let tasks =
                    (first..end).map(|task| form::NewTask { name: name(task), ..form::NewTask::default() });
                let create = form::Create { bag: self.bag.clone(), tasks: tasks.collect(), missing: 0 };
                match self.ask_frame(Body::Create(create))? {
                    Answered::Created(_) => continue,
                    other => return Err(format!("{other:?}").into()),
                }
            }
            let tasks = (first..end).map(|task| format!("{{\"name\":\"{}\"}}", name(task)));
            self.create_all(&tasks.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Creates tasks of which each waits for the three before it in its column of a thousand.
    pub(super) fn create_graph(&mut self, count: u32) -> Result<(), BoxError> {
        for first in (0..count).step_by(CREATED_AT_ONCE as usize) {
            let end = count.min(first + CREATED_AT_ONCE);
            let after = |task: u32| {
                let before = (1..=3).filter_map(|step| task.checked_sub(step * LAYER));
                before.map(|task| format!("\"t{task}\"")).collect::<Vec<_>>().join(",")
            };
            let task = |task: u32| format!("{{\"name\":\"t{task}\",\"after\":[{}]}}", after(task));
            self.create_all(&(first..end).map(task).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn create_all(&mut self, tasks: &[String]) -> Result<(), BoxError> {
        self.question = format!("{{\"bag\":\"{}\",\"tasks\":[{}]}}", self.bag, tasks.join(","));
        self.ask_well("create")
    }

    /// No more will be created.
    pub(super) fn close(&mut self) -> Result<(), BoxError> {
        if self.spelling == Spelling::Frames {
            return self.ask_frame(Body::Close(form::Close { bag: self.bag.clone() })).map(drop);
        }
        self.question = format!("{{\"bag\":\"{}\"}}", self.bag);
        self.ask_well("close")
    }

    /// Returns when all is saved.
    pub(super) fn sync(&mut self) -> Result<(), BoxError> {
        if self.spelling == Spelling::Frames {
            return self.ask_frame(Body::Sync(form::Nothing {})).map(drop);
        }
        self.question = "{}".to_owned();
        self.ask_well("sync")
    }

    /// Asks for the state of a task that is not there: one question of the relay to its server.
    pub(super) fn look(&mut self) -> Result<(), BoxError> {
        self.question = format!("{{\"bag\":\"{}\",\"names\":[\"nobody\"]}}", self.bag);
        self.ask("look")
    }

    fn ask_well(&mut self, name: &str) -> Result<(), BoxError> {
        self.ask(name)?;
        let text = std::str::from_utf8(&self.answer[self.body..])?;
        if text.contains("\"error\"") { Err(text.to_owned().into()) } else { Ok(()) }
    }

    // Asks what is inside of a request.
    fn ask(&mut self, name: &str) -> Result<(), BoxError> {
        self.message.clear();
        let (body, length) = (&self.question, self.question.len());
        match self.spelling {
            Spelling::Frames => return Err("frames are put together elsewhere".into()),
            Spelling::Lines => writeln!(self.message, "{{\"{name}\":{body}}}")?,
            Spelling::Http => write!(
                self.message,
                "POST /v1/pull/{name} HTTP/1.1\r\nHost: hq\r\nContent-Length: {length}\r\n\r\n{body}"
            )?,
        }
        self.exchange()
    }

    // Sends the message, and reads the whole answer.
    fn exchange(&mut self) -> Result<(), BoxError> {
        self.stream.write_all(&self.message)?;
        self.answer.clear();
        let mut wanted = None;
        while wanted.is_none_or(|wanted| self.answer.len() < wanted) {
            let before = self.answer.len();
            self.answer.resize(before + (256 << 10), 0);
            let read = self.stream.read(&mut self.answer[before..])?;
            self.answer.truncate(before + read);
            if read == 0 {
                return Err("the relay has closed the connection".into());
            }
            if wanted.is_none() {
                wanted = self.length()?;
            }
        }
        Ok(())
    }

    // Bytes of the whole answer, when that can be told.
    fn length(&mut self) -> Result<Option<usize>, BoxError> {
        if self.spelling == Spelling::Frames {
            let Some(length) = self.answer.first_chunk() else { return Ok(None) };
            return Ok(Some(form::LENGTH_BYTES + u32::from_be_bytes(*length) as usize));
        }
        if self.spelling == Spelling::Lines {
            return Ok((self.answer.last() == Some(&b'\n')).then_some(self.answer.len()));
        }
        let Some(head) = self.answer.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&self.answer[..head])?;
        let length = text.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        self.body = head + 4;
        Ok(Some(self.body + length.ok_or("an answer without a length")?.trim().parse::<usize>()?))
    }
}
