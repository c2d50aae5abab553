//! The relay's connections to the server as a client: many questions at once, asked again when one was lost.
//!
//! Answers on one keep their order, and one to a change waits as long as the journal cannot be written. So who only looks has a
//! connection of its own, and who waits for something to be saved finds out over that one why it takes long.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_net::{Backoff, FrameReceiver, FrameSender, Role};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use crate::above::{NotThere, WayUp};
use crate::contract::{Problem, no_server};
use crate::limits;

/// Asks the server.
#[derive(Debug)]
pub(crate) struct Client {
    changes: Way,
    looks: Way,
    // The journal could not be written when that was looked at last.
    is_failing: Cell<bool>,
}

// To one connection.
#[derive(Clone, Debug)]
struct Way {
    calls: mpsc::UnboundedSender<Call>,
    // The last attempt to reach the server has failed.
    is_away: watch::Receiver<bool>,
    // How often a connection was lost.
    losses: watch::Receiver<u64>,
}

/// Says when a connection is lost.
#[derive(Debug)]
pub(crate) struct Losses([watch::Receiver<u64>; 2]);

impl Losses {
    /// Returns when one has been lost since this was asked for.
    pub(crate) async fn any(&mut self) {
        let [changes, looks] = &mut self.0;
        // Without a link there is nothing to lose, and nobody who asks.
        tokio::select! {
            _ = changes.changed() => {}
            _ = looks.changed() => {}
        }
    }
}

#[derive(Debug)]
struct Call {
    request: ClientRequest,
    answers: mpsc::UnboundedSender<ClientResponse>,
}

/// Why something was not changed, or was not said to be.
#[derive(Debug)]
pub(crate) struct NotChanged {
    /// What is told of it.
    pub(crate) problem: Problem,
    /// Where it may be changed later, that is said here.
    pub(crate) later: Option<mpsc::UnboundedReceiver<ClientResponse>>,
}

impl From<Problem> for NotChanged {
    fn from(problem: Problem) -> NotChanged {
        NotChanged { problem, later: None }
    }
}

impl Client {
    /// Connects when there is something to ask. `gone` is told when the server has been stopped, as far as can be seen.
    pub(crate) fn start(way_up: &Rc<WayUp>, gone: &mpsc::UnboundedSender<()>) -> Client {
        Client {
            changes: Way::start(way_up, gone),
            looks: Way::start(way_up, gone),
            is_failing: Cell::new(false),
        }
    }

    /// The answer to a question, which changes nothing.
    pub(crate) async fn look(&self, request: ClientRequest) -> Result<ClientResponse, Problem> {
        let mut answers = self.looks.follow(request);
        self.looks.answer(&mut answers).await
    }

    /// The answer to what changes something and may be repeated. While the journal cannot be written it is refused: one that
    /// could not be sent to the server is not sent later.
    pub(crate) async fn change(&self, request: ClientRequest) -> Result<ClientResponse, Problem> {
        self.change_or_wait(request).await.map_err(|not_changed| not_changed.problem)
    }

    /// The same for those who want to know what becomes of it.
    pub(crate) async fn change_or_wait(&self, request: ClientRequest) -> Result<ClientResponse, NotChanged> {
        if let Some(error) = self.known_trouble().await {
            return Err(Problem::from(RequestError::ReadOnly(error)).into());
        }
        let mut answers = self.changes.follow(request);
        let trouble = tokio::select! {
            answer = self.changes.answer(&mut answers) => return Ok(answer?),
            trouble = self.trouble() => trouble,
        };
        let problem = Problem::new(
            "read-only",
            format!(
                "the server cannot keep changes now, its journal cannot be written ({trouble}): nothing is acknowledged, and it \
                 may be done when there is room; make room or put back what is gone, and ask again: what was done is not done twice"
            ),
        );
        Err(NotChanged { problem, later: Some(answers) })
    }

    /// All answers to a request, until they are dropped.
    pub(crate) fn follow(&self, request: ClientRequest) -> mpsc::UnboundedReceiver<ClientResponse> {
        self.changes.follow(request)
    }

    /// The same for what changes nothing.
    pub(crate) fn follow_look(&self, request: ClientRequest) -> mpsc::UnboundedReceiver<ClientResponse> {
        self.looks.follow(request)
    }

    /// Says when one of the connections is lost from now on.
    pub(crate) fn losses(&self) -> Losses {
        let since_now = |way: &Way| {
            let mut losses = way.losses.clone();
            losses.mark_unchanged();
            losses
        };
        Losses([since_now(&self.changes), since_now(&self.looks)])
    }

    /// Returns what ails the journal once something has been waited for that long and it cannot be written.
    pub(crate) async fn trouble(&self) -> String {
        loop {
            if !self.is_failing.get() {
                sleep(limits::TROUBLE_LOOK_INTERVAL).await;
            }
            if let Some(error) = self.journal_trouble().await {
                return error;
            }
        }
    }

    /// The same, where that was found out before and is still so.
    pub(crate) async fn known_trouble(&self) -> Option<String> {
        if self.is_failing.get() { self.journal_trouble().await } else { None }
    }

    // Why the journal cannot be written, if the server says that it cannot.
    async fn journal_trouble(&self) -> Option<String> {
        let info = self.look(ClientRequest::ServerInfo).await;
        let trouble = match info {
            Ok(ClientResponse::ServerInfo(info)) => info.journal_trouble,
            _ => None,
        };
        self.is_failing.set(trouble.is_some());
        trouble.map(|(_, error)| error)
    }
}

impl Way {
    fn start(way_up: &Rc<WayUp>, gone: &mpsc::UnboundedSender<()>) -> Way {
        let (calls, waiting) = mpsc::unbounded_channel();
        let (away, is_away) = watch::channel(false);
        let (lost, losses) = watch::channel(0);
        let (way_up, gone) = (Rc::clone(way_up), gone.clone());
        let link = Link { way_up, gone, away, lost, waiting, open: BTreeMap::new(), last: 0 };
        tokio::task::spawn_local(link.run());
        Way { calls, is_away, losses }
    }

    fn follow(&self, request: ClientRequest) -> mpsc::UnboundedReceiver<ClientResponse> {
        let (answers, heard) = mpsc::unbounded_channel();
        // Where nobody listens any more, the relay ends.
        let _ = self.calls.send(Call { request, answers });
        heard
    }

    async fn answer(
        &self,
        answers: &mut mpsc::UnboundedReceiver<ClientResponse>,
    ) -> Result<ClientResponse, Problem> {
        let mut is_away = self.is_away.clone();
        let stays_away = async {
            sleep(limits::SERVER_AWAY_MAX).await;
            // Without a link there is no answer, either.
            let _ = is_away.wait_for(|is_away| *is_away).await;
        };
        let answer = tokio::select! {
            answer = timeout(limits::SERVER_TIME_MAX, answers.recv()) => answer.ok().flatten(),
            () = stays_away => None,
        };
        match answer.ok_or_else(no_server)? {
            ClientResponse::Error(error) => Err(error.into()),
            answer => Ok(answer),
        }
    }
}

struct Link {
    way_up: Rc<WayUp>,
    gone: mpsc::UnboundedSender<()>,
    away: watch::Sender<bool>,
    lost: watch::Sender<u64>,
    waiting: mpsc::UnboundedReceiver<Call>,
    open: BTreeMap<u64, Call>,
    last: u64,
}

impl Link {
    async fn run(mut self) {
        // Nobody is connected before there is something to ask.
        let Some(call) = self.waiting.recv().await else { return };
        self.last += 1;
        self.open.insert(self.last, call);
        loop {
            let (mut sender, mut receiver) = self.connect().await;
            self.away.send_replace(false);
            if let Err(error) = self.talk(&mut sender, &mut receiver).await {
                info!(%error, "the server is lost to questions");
                self.lost.send_modify(|losses| *losses += 1);
            } else {
                return;
            }
        }
    }

    // Until the connection is lost; without error when nobody asks any more.
    async fn talk(&mut self, sender: &mut FrameSender, receiver: &mut FrameReceiver) -> Result<(), String> {
        self.drop_unheard();
        for (number, call) in &self.open {
            send(sender, *number, &call.request).await?;
        }
        sender.flush().await.map_err(|error| error.to_string())?;
        loop {
            tokio::select! {
                call = self.waiting.recv() => {
                    let Some(call) = call else { return Ok(()) };
                    if call.answers.is_closed() {
                        continue;
                    }
                    self.last += 1;
                    send(sender, self.last, &call.request).await?;
                    sender.flush().await.map_err(|error| error.to_string())?;
                    self.open.insert(self.last, call);
                }
                frame = receiver.next() => {
                    let frame = frame.map_err(|error| error.to_string())?.ok_or("it said goodbye")?;
                    self.hear(&frame)?;
                }
            }
        }
    }

    fn hear(&mut self, frame: &[u8]) -> Result<(), String> {
        let (number, response) =
            hq_proto::decode_client_response(frame).map_err(|error| error.to_string())?;
        let Some(call) = self.open.get(&number) else { return Ok(()) };
        let is_last = !response.is_followed();
        let is_unheard = call.answers.send(response).is_err();
        if is_last || is_unheard {
            self.open.remove(&number);
        }
        Ok(())
    }

    async fn connect(&mut self) -> (FrameSender, FrameReceiver) {
        let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
        let mut missing_since = None;
        loop {
            match self.way_up.connect(Role::Client).await {
                Ok(connection) => return connection,
                Err(NotThere::Missing(_)) => {
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > limits::STOPPED_AFTER {
                        let _ = self.gone.send(());
                    }
                }
                Err(NotThere::Other(error)) => {
                    missing_since = None;
                    debug!(%error, "the server is not there");
                }
            }
            self.away.send_replace(true);
            // Somebody who asks is not to wait for the rest of a long pause.
            tokio::select! {
                () = sleep(backoff.next_pause()) => {}
                Some(call) = self.waiting.recv() => {
                    self.last += 1;
                    self.open.insert(self.last, call);
                    backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
                    sleep(limits::RECONNECT_PAUSE_MIN).await;
                }
            }
        }
    }

    // Who has waited for too long has gone, and has been told that nothing is done.
    fn drop_unheard(&mut self) {
        self.open.retain(|_, call| !call.answers.is_closed());
    }
}

async fn send(sender: &mut FrameSender, number: u64, request: &ClientRequest) -> Result<(), String> {
    let frame = hq_proto::encode_client_request(number, request);
    sender.send(&frame).await.map_err(|error| error.to_string())
}
