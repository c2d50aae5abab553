//! Where answers come from: a server, asked by two threads so that the screen waits for nobody.
//!
//! One asks for everything in counts and is answered when something has changed: one question at a time, so nothing piles
//! up for a dashboard that does not read. The other asks what the screen wants to know.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, Overview};

use super::wants::{Action, Want};
use crate::commands::unexpected;
use crate::error::HqError;

/// The counts are asked for at most so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
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
        let mut sessions = (open(server_dir)?, open(server_dir)?);
        let ((questions, asked), (tell, news)) = (channel(), channel());
        // Asked here once: a server of a release that does not know the question refuses, and so does the command.
        let ClientResponse::Overview(first) = sessions.0.request(ClientRequest::Overview { seen: None })?
        else {
            return unexpected();
        };
        let seen = Some(first.change);
        // The other end is held below.
        let _ = tell.send(News::Overview(first));
        let (watching, asking) = (tell.clone(), tell);
        let (dir_watched, dir_asked) = (server_dir.to_owned(), server_dir.to_owned());
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("hq-watch").spawn(move || watch((sessions.0, seen), &dir_watched, &watching))?;
        named("hq-ask").spawn(move || answer(sessions.1, &dir_asked, &asked, &asking))?;
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

// A session that says at once when the server is lost, so that the screen can.
fn open(server_dir: &Path) -> Result<Session, ClientError> {
    let mut session = Session::connect(server_dir)?;
    session.wait_for_lost_server(Some(Duration::ZERO));
    Ok(session)
}

// Until nobody listens.
fn watch((mut session, mut seen): (Session, Option<u64>), server_dir: &Path, tell: &Sender<News>) {
    loop {
        let news = match session.request(ClientRequest::Overview { seen }) {
            Ok(ClientResponse::Overview(overview)) => {
                seen = Some(overview.change);
                News::Overview(overview)
            }
            Ok(_) => News::Lost("it answers something else: is it of another release?".to_owned()),
            Err(error) => News::Lost(error.to_string()),
        };
        let is_lost = matches!(news, News::Lost(_));
        if tell.send(news).is_err() {
            return;
        }
        if is_lost {
            thread::sleep(RETRY);
            seen = None;
            // It may be another one of the same directory.
            if let Ok(again) = open(server_dir) {
                session = again;
            }
        } else {
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

// Until nobody asks.
fn answer(mut session: Session, server_dir: &Path, asked: &Receiver<Question>, tell: &Sender<News>) {
    while let Ok(question) = asked.recv() {
        let news = match question {
            Question::Want(want, request) => {
                let mut answer = session.request(request.clone());
                if answer.as_ref().is_err_and(is_lost)
                    && let Ok(again) = open(server_dir)
                {
                    session = again;
                    answer = session.request(request);
                }
                match answer {
                    Err(error) if is_lost(&error) => News::Lost(error.to_string()),
                    answer => News::Answer(want, answer.map_err(|error| error.to_string())),
                }
            }
            // What changes something is not repeated: it may have been done.
            Question::Action(action, request) => {
                News::Done(action, session.request(request).map_err(|error| error.to_string()))
            }
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

fn is_lost(error: &ClientError) -> bool {
    !matches!(error, ClientError::Refused(_))
}
