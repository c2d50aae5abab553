//! Interpreters from which runners are forked, as processes: how they are started, what they say, and how they end.
//!
//! The machine decides when there is one. Its socket carries packets: from the worker texts at the beginning, from the launcher
//! orders, and a word of the zygote about what it has loaded. What it prints is kept in memory, for who asks why it failed.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;

use hq_core::worker::{Input, ZygoteId};
use hq_core::worker_messages::Template;
use hq_model::TaskSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, info, warn};

use super::Heard;
use super::starting::PROGRAM;
use crate::launcher::{End, Ended, Slot, memory_file, packet_sockets, text};
use crate::limits::{LAST_WORDS_MAX, ZYGOTE_PACKET_MAX, ZYGOTES_REMEMBERED};
use crate::supervise::{Active, Supervisor};

const ZYGOTE: &str = include_str!("zygote.py");
const READY: u8 = b'R';
const UNFIT: u8 = b'U';
const BROKEN: u8 = b'B';
const SIGKILL: u8 = 9;
/// What a zygote is told beside the orders of the launcher.
const LOAD: &[u8] = b"L";
/// What descends from a zygote ends with it, and nothing else: its runners do not.
const NO_MARK: &[u8] = b"HQ_ACCESS_KEY=none";

/// The zygotes of a worker.
#[derive(Debug, Default)]
pub(crate) struct Zygotes {
    all: HashMap<ZygoteId, Zygote>,
    // Environments in which nothing can be forked, and why. The last ones.
    unfit: VecDeque<(Arc<Template>, String)>,
}

#[derive(Debug)]
struct Zygote {
    template: Arc<Template>,
    slot: Slot,
    // Our end of its socket.
    socket: Arc<OwnedFd>,
    is_ready: bool,
    // Why it cannot do what it should.
    broken: Option<String>,
    // It was told to end.
    is_ending: bool,
    // What it prints.
    printed: OwnedFd,
    subject: text::Subject,
}

impl Zygotes {
    /// Where the launcher finds a zygote that can fork.
    pub(super) fn socket(&self, id: ZygoteId) -> Option<Arc<OwnedFd>> {
        let zygote = self.all.get(&id).filter(|zygote| zygote.is_ready && !zygote.is_ending)?;
        Some(zygote.socket.clone())
    }

    /// Why interpreters for such functions are not forked; empty where that is not known.
    pub(super) fn why_not(&self, spec: &TaskSpec) -> &str {
        let is_of = |other: &TaskSpec| other.body.texts() == spec.body.texts() && other.env == spec.env;
        let found = self.unfit.iter().rev().find(|(template, _)| is_of(&template.spec));
        found.map_or("", |(_, why)| why)
    }

    fn is_unfit(&mut self, template: Arc<Template>, why: String) {
        if self.unfit.len() == ZYGOTES_REMEMBERED {
            self.unfit.pop_front();
        }
        self.unfit.push_back((template, why));
    }
}

impl Supervisor {
    /// Starts a zygote for functions of this template.
    pub(crate) fn start_zygote(&mut self, id: ZygoteId, template: Arc<Template>) {
        if let Err(why) = self.try_to_start_zygote(id, &template) {
            debug!(zygote = id.0, why, "runners are started one by one");
            self.zygotes.is_unfit(template, why.clone());
            self.ended.push(Input::ZygoteUnfit { zygote: id });
            self.ended.push(Input::ZygoteEnded { zygote: id, why });
        }
    }

    fn try_to_start_zygote(&mut self, id: ZygoteId, template: &Arc<Template>) -> Result<(), String> {
        let prepared = self.prepared_for(template)?;
        let no_file = |error: std::io::Error| format!("there is no file or socket for it: {error}");
        let (ours, theirs) = packet_sockets().map_err(no_file)?;
        let stream = ours.try_clone().and_then(|ours| UnixStream::from_std(StdStream::from(ours)));
        let (stream, theirs) = (stream.map_err(no_file)?, Arc::new(theirs));
        let printed = memory_file(b"").map_err(no_file)?;
        let slot = self.take_slot();
        let path = format!("/proc/{}/fd/{}", std::process::id(), printed.as_raw_fd());
        let order = prepared.zygote_order(slot, path.into_bytes(), &self.node, &mut self.buffers);
        let sent = match &order {
            Some(order) => self.launcher.start(order, Some(&theirs)).map_err(no_file),
            None => Err("its program, working directory or variables differ from task to task".to_owned()),
        };
        if let Err(error) = sent {
            self.free.push(slot.index);
            return Err(error);
        }
        let subject = prepared.subject_of_zygote(&self.buffers);
        let texts = [ZYGOTE.to_owned(), self.launcher.pid().to_string(), PROGRAM.to_owned()];
        tokio::spawn(talk(stream, id, texts, self.runners.heard.clone()));
        self.slots[slot.index as usize].active = Some(Active::Zygote(id));
        let zygote = Zygote {
            template: template.clone(),
            slot,
            socket: Arc::new(ours),
            is_ready: false,
            broken: None,
            is_ending: false,
            printed,
            subject,
        };
        self.zygotes.all.insert(id, zygote);
        Ok(())
    }

    /// A zygote is to load what calls need that call others.
    pub(crate) fn load_package(&mut self, id: ZygoteId) {
        let told = self.zygotes.socket(id).map(|socket| {
            let socket = StdStream::from(socket.try_clone()?);
            (&socket).write_all(LOAD)
        });
        if let Some(Err(error)) = told {
            debug!(zygote = id.0, %error, "each interpreter loads the package by itself");
        }
    }

    /// The machine has no use for a zygote.
    pub(crate) fn end_zygote(&mut self, id: ZygoteId) {
        if let Some(zygote) = self.zygotes.all.get_mut(&id) {
            zygote.is_ending = true;
            self.launcher.end(zygote.slot, SIGKILL, NO_MARK);
        }
    }

    /// A zygote says something.
    pub(super) fn zygote_says(&mut self, id: ZygoteId, packet: &[u8]) {
        let Some(zygote) = self.zygotes.all.get_mut(&id).filter(|zygote| !zygote.is_ready) else { return };
        let text = String::from_utf8_lossy(&packet[1..]).into_owned();
        match packet[0] {
            READY => {
                debug!(zygote = id.0, "interpreters can be forked");
                zygote.is_ready = true;
                self.ended.push(Input::ZygoteReady { zygote: id, is_of_job: text != "0" });
            }
            BROKEN => zygote.broken = Some(text),
            // Who says what zygotes do not say may do as a runner.
            word => {
                let why = if word == UNFIT { text } else { "it does not say what it should".to_owned() };
                info!(zygote = id.0, why, "interpreters are started one by one");
                zygote.is_ending = true;
                self.launcher.end(zygote.slot, SIGKILL, NO_MARK);
                let template = zygote.template.clone();
                self.zygotes.is_unfit(template, why);
                self.ended.push(Input::ZygoteUnfit { zygote: id });
            }
        }
    }

    /// The process of a zygote has ended.
    pub(crate) fn zygote_ended(&mut self, id: ZygoteId, report: Ended) {
        let Some(zygote) = self.zygotes.all.remove(&id) else { return };
        let why = zygote.broken.clone().unwrap_or_else(|| zygote.how_it_ended(report.end));
        if !zygote.is_ending {
            warn!(zygote = id.0, why, "an interpreter from which others are forked has ended");
        }
        self.ended.push(Input::ZygoteEnded { zygote: id, why });
    }
}

impl Zygote {
    fn how_it_ended(&self, end: End) -> String {
        let words = self.template.spec.body.texts().iter().map(|word| String::from_utf8_lossy(word));
        let words = words.collect::<Vec<_>>().join(" ");
        let how = match end {
            End::NotStarted(stage, errno) => {
                return format!(
                    "The interpreter `{words}` cannot be started: {}",
                    text::not_started(stage, errno, &self.subject)
                );
            }
            End::Exited(code) => format!("exited with code {code}"),
            End::Signaled(signal) => format!("was ended by signal {signal}"),
            End::OverMemory(_) | End::Recalled | End::Begun => "ended".to_owned(),
        };
        let said = self.last_words();
        let said = match said.trim() {
            "" => ", and said nothing".to_owned(),
            said => format!(". It said:\n{said}"),
        };
        format!("The interpreter `{words}` {how} before it could call a function{said}")
    }

    fn last_words(&self) -> String {
        let Ok(file) = self.printed.try_clone().map(std::fs::File::from) else { return String::new() };
        let size = file.metadata().map_or(0, |found| found.len());
        let from = size.saturating_sub(LAST_WORDS_MAX as u64);
        let mut words = vec![0; (size - from) as usize];
        let read = file.read_exact_at(&mut words, from);
        read.map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&words).into_owned())
    }
}

// Says what it needs, and hears what it says. Each write and each read is a packet.
async fn talk(mut stream: UnixStream, id: ZygoteId, texts: [String; 3], heard: UnboundedSender<Heard>) {
    for text in texts {
        let length = (text.len() as u32).to_le_bytes();
        if stream.write_all(&length).await.is_err() || stream.write_all(text.as_bytes()).await.is_err() {
            // The launcher tells how it ended.
            return;
        }
    }
    let mut packet = vec![0; ZYGOTE_PACKET_MAX];
    while let Ok(length @ 1..) = stream.read(&mut packet).await {
        if heard.send(Heard::Zygote(id, packet[..length].to_vec())).is_err() {
            return;
        }
    }
}
