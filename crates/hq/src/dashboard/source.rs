//! Where answers come from: a server, asked by two threads so that the screen waits for nobody.
//!
//! One asks for everything in counts and is answered when something has changed: one question at a time, so nothing piles
//! up for a dashboard that does not read. The other asks what the screen wants to know.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use hq_client::error::EXIT_NO_SERVER;
use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, Overview};
use hq_model::{Pace, Timestamp};

use super::wants::{Action, Want};
use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::SharedSession;

/// The counts are asked for at most so often while they go on changing.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// After a quiet time they are asked for so often without waiting that long, but at least this far apart.
const LOOK_BURST: u32 = 8;
const LOOK_GAP: Duration = Duration::from_millis(25);
/// How long to wait before a server that was lost is looked for again.
const RETRY: Duration = Duration::from_secs(1);

/// What is asked.
pub(crate) enum Question {
    /// For a screen.
    Want(Want, ClientRequest),
    /// Of a user.
    Action(Action, ClientRequest),
}

/// What comes back.
pub(crate) enum News {
    /// Everything in counts.
    Overview(Box<Overview>),
    /// The server does not answer, and why.
    Lost(String),
    /// An answer, or a refusal.
    Answer(Want, Result<ClientResponse, String>),
    /// What became of an order.
    Done(Action, Result<ClientResponse, String>),
}

/// A server that is asked beside everything else.
pub(crate) struct Source {
    questions: Sender<Question>,
    news: Receiver<News>,
}

impl Source {
    /// Connects to the server of a directory.
    pub(crate) fn connect(server_dir: &Path) -> Result<Source, HqError> {
        let (watcher, first) = Watcher::connect(server_dir)?;
        let session = open(server_dir)?;
        let ((questions, asked), (tell, news)) = (channel(), channel());
        // The other end is held below.
        let _ = tell.send(News::Overview(first));
        let (watching, dir) = (tell.clone(), server_dir.to_owned());
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("hq-watch").spawn(move || watcher.run(|news| watching.send(news).is_ok()))?;
        named("hq-ask").spawn(move || answer(Asker::new(dir, session), &asked, &tell))?;
        Ok(Source { questions, news })
    }

    /// Asks.
    pub(crate) fn ask(&self, question: Question) {
        // The thread lives as long as this.
        let _ = self.questions.send(question);
    }

    /// What has come, without waiting.
    pub(crate) fn news(&self) -> impl Iterator<Item = News> + '_ {
        self.news.try_iter()
    }
}

/// Asks for everything in counts again and again.
pub(crate) struct Watcher {
    server_dir: PathBuf,
    session: Session,
    seen: Option<u64>,
}

impl Watcher {
    /// Connects, and asks once: a server of a release that does not know the question refuses, and so does the command.
    pub(crate) fn connect(server_dir: &Path) -> Result<(Watcher, Box<Overview>), HqError> {
        let mut session = open(server_dir)?;
        let ClientResponse::Overview(first) = session.request(ClientRequest::Overview { seen: None })? else {
            return unexpected();
        };
        let seen = Some(first.change);
        Ok((Watcher { server_dir: server_dir.to_owned(), session, seen }, first))
    }

    /// Tells what has changed, or that the server is lost, until nobody listens.
    pub(crate) fn run(mut self, mut tell: impl FnMut(News) -> bool) {
        let mut pace = Pace::new(LOOK_GAP, LOOK_INTERVAL, LOOK_BURST);
        // No clock that anybody sets.
        let begun = Instant::now();
        let since = || Timestamp(0).after(begun.elapsed());
        loop {
            let news = match self.session.request(ClientRequest::Overview { seen: self.seen }) {
                Ok(ClientResponse::Overview(overview)) => {
                    self.seen = Some(overview.change);
                    News::Overview(overview)
                }
                Ok(_) => News::Lost("it sent an unexpected answer: is it a different release?".to_owned()),
                Err(error) => News::Lost(error.to_string()),
            };
            let is_lost = matches!(news, News::Lost(_));
            if !tell(news) {
                return;
            }
            if is_lost {
                thread::sleep(RETRY);
                self.seen = None;
                // It may be another one of the same directory.
                if let Ok(again) = open(&self.server_dir) {
                    self.session = again;
                }
            } else {
                pace.told(since());
                thread::sleep(pace.next().since(since()));
            }
        }
    }
}

/// Asks what is asked, over a session that is made again when the server was lost.
pub(crate) struct Asker {
    server_dir: PathBuf,
    session: SharedSession,
}

impl Asker {
    /// Over a session with the server of this directory.
    pub(crate) fn new(server_dir: PathBuf, session: Session) -> Asker {
        Asker { server_dir, session: Rc::new(RefCell::new(session)) }
    }

    /// Asks something that may be asked again.
    pub(crate) fn ask<T>(
        &mut self,
        mut question: impl FnMut(&SharedSession) -> Result<T, HqError>,
    ) -> Result<T, HqError> {
        match question(&self.session) {
            Err(error) if is_lost(&error) => {
                self.session = Rc::new(RefCell::new(open(&self.server_dir)?));
                question(&self.session)
            }
            answer => answer,
        }
    }

    /// Orders something. It is not repeated, since it may have been done; so the session is made sure of before.
    pub(crate) fn order(&mut self, request: ClientRequest) -> Result<ClientResponse, HqError> {
        self.ask(|session| Ok(session.borrow_mut().request(ClientRequest::Overview { seen: None })?))?;
        Ok(self.session.borrow_mut().request(request)?)
    }
}

/// A session that says at once when the server is lost, so that the screen can.
pub(crate) fn open(server_dir: &Path) -> Result<Session, ClientError> {
    let mut session = Session::connect(server_dir)?;
    session.wait_for_lost_server(Some(Duration::ZERO));
    Ok(session)
}

// Until nobody asks.
fn answer(mut asker: Asker, asked: &Receiver<Question>, tell: &Sender<News>) {
    while let Ok(question) = asked.recv() {
        let news = match question {
            Question::Want(want, request) => {
                match asker.ask(|session| Ok(session.borrow_mut().request(request.clone())?)) {
                    Err(error) if is_lost(&error) => News::Lost(error.text),
                    answer => News::Answer(want, answer.map_err(|error| error.text)),
                }
            }
            Question::Action(action, request) => {
                News::Done(action, asker.order(request).map_err(|error| error.text))
            }
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

/// True when the server does not answer, and did not refuse.
pub(crate) fn is_lost(error: &HqError) -> bool {
    error.exit == EXIT_NO_SERVER
}
