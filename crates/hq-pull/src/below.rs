//! Relays below this one: what they say to the server is passed on, over the connections that this one has.
//!
//! Their workers have lines of this relay's connection, and their questions are asked by this relay, as far as a relay asks such.
//! So they are to the server what this one is, and it has no more connections for them. When the server is lost, so are they,
//! and they come again: nothing that they say waits here for another connection.

use std::rc::Rc;
use std::sync::Arc;

use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_net::queue::bounded_bytes;
use hq_net::{FrameReceiver, FrameSender};
use hq_proto::{decode_client_request, decode_from_worker, encode_client_response, line_of};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::hop::{self, Come, Wish};
use crate::limits;
use crate::passing::BelowId;
use crate::places::Place;
use crate::server_link::Word;
use crate::shared::Shared;

/// Serves a connection of a relay below until it ends.
pub(crate) async fn serve(stream: UnixStream, _place: Place, shared: Rc<Shared>) {
    let Come { wish, name, mut sender, mut receiver } =
        match hop::welcome(stream, shared.way_up().relays_with_this()).await {
            Ok(come) => come,
            Err(error) => return debug!(error, "a relay that came below is not served"),
        };
    receiver.count_in(Arc::clone(shared.below_said()));
    sender.set_patience(limits::BELOW_STALL_MAX);
    let ended = match wish {
        Wish::Nothing => return,
        Wish::Lines => {
            let here = shared.enter_below(&name);
            info!(relay = name, "a relay has come below this one");
            let ended = pass_lines(&shared, here.id(), sender, receiver).await;
            info!(relay = name, ?ended, "a relay below this one has gone");
            ended
        }
        Wish::Questions => {
            let _here = shared.counted();
            pass_questions(&shared, sender, receiver).await
        }
    };
    if let Err(error) = ended {
        debug!(relay = name, error, "the connection of a relay below has ended");
    }
}

// The reason why nothing can be passed on is the last word.
async fn refuse(mut sender: FrameSender, reason: &str) -> Result<(), String> {
    sender.send(reason.as_bytes()).await.map_err(|error| error.to_string())?;
    sender.close().await.map_err(|error| error.to_string())
}

fn room(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes))
}

// Waits until so many bytes have room.
async fn place(room: &Arc<Semaphore>, bytes: usize, most: usize) -> OwnedSemaphorePermit {
    let bytes = u32::try_from(bytes.min(most)).unwrap_or(u32::MAX);
    Arc::clone(room).acquire_many_owned(bytes).await.expect("it is never closed")
}

// --- lines ---

async fn pass_lines(
    shared: &Rc<Shared>,
    below: BelowId,
    mut sender: FrameSender,
    mut receiver: FrameReceiver,
) -> Result<(), String> {
    let (to, mut queue) = bounded_bytes(limits::BELOW_QUEUE_BYTES_MAX);
    shared.say(Word::Enter(below, to));
    let opened = tokio::select! {
        opened = timeout(limits::SERVER_WAIT, queue.recv()) => opened.ok().flatten(),
        // Nothing is said before it is told that it may.
        said = receiver.next() => return Err(format!("it spoke too early, or has gone: {:?}", said.map(|said| said.is_some()))),
    };
    let Some(opened) = opened else {
        return refuse(sender, "the server is not there").await;
    };
    let hears = async {
        let mut next = Some(opened);
        while let Some(frame) = next {
            sender.send(&frame).await.map_err(|error| error.to_string())?;
            next = queue.try_recv();
            if next.is_none() {
                sender.flush().await.map_err(|error| error.to_string())?;
                next = queue.recv().await;
            }
        }
        // The server is lost, or this one was too slow.
        sender.close().await.map_err(|error| error.to_string())
    };
    let room = room(limits::BELOW_SAID_BYTES_MAX);
    let says = async {
        while let Some(frame) = receiver.next().await.map_err(|error| error.to_string())? {
            let line = line_of(&frame).map_err(|error| error.to_string())?;
            if line.line == 0 {
                return Err("it speaks on no line".to_owned());
            }
            // The server would give up the whole connection, and with it all others.
            if !line.ends {
                decode_from_worker(&frame).map_err(|error| error.to_string())?;
            }
            let place = place(&room, frame.len(), limits::BELOW_SAID_BYTES_MAX).await;
            shared.say(Word::Pass { below, line, frame, place });
        }
        Ok(())
    };
    tokio::select! {
        ended = hears => ended,
        ended = says => ended,
    }
}

// --- questions ---

// What is answered to which question, and the room of that until it is sent.
type Said = (u64, ClientResponse, Option<OwnedSemaphorePermit>);

async fn pass_questions(
    shared: &Rc<Shared>,
    mut sender: FrameSender,
    receiver: FrameReceiver,
) -> Result<(), String> {
    let mut losses = shared.client.losses();
    // Whoever asks there is told so where the server is away.
    if let Err(problem) = shared.client.look(ClientRequest::ServerInfo).await {
        return refuse(sender, &problem.message).await;
    }
    let text = |error: hq_net::NetError| error.to_string();
    sender.send(&[]).await.map_err(text)?;
    sender.flush().await.map_err(text)?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let answers = async {
        while let Some(mut said) = told.recv().await {
            let mut places = Vec::new();
            loop {
                let (number, answer, place): Said = said;
                sender.send(&encode_client_response(number, &answer)).await.map_err(text)?;
                places.push(place);
                match told.try_recv() {
                    Ok(next) => said = next,
                    Err(_) => break,
                }
            }
            sender.flush().await.map_err(text)?;
        }
        Ok(())
    };
    tokio::select! {
        ended = answers => ended,
        ended = ask_all(shared, receiver, tell) => ended,
        // What was asked is asked again by who asked, unless it was told meanwhile that it is not done.
        () = losses.any() => Ok(()),
    }
}

async fn ask_all(
    shared: &Rc<Shared>,
    mut receiver: FrameReceiver,
    tell: mpsc::UnboundedSender<Said>,
) -> Result<(), String> {
    let room = room(limits::BELOW_ASKED_BYTES_MAX);
    while let Some(frame) = receiver.next().await.map_err(|error| error.to_string())? {
        let (number, request) = decode_client_request(&frame).map_err(|error| error.to_string())?;
        let least = match request {
            ClientRequest::WatchJobs { .. } => limits::BELOW_WATCH_BYTES,
            _ => limits::BELOW_QUESTION_BYTES_MIN,
        };
        let place = place(&room, frame.len().max(least), limits::BELOW_ASKED_BYTES_MAX).await;
        drop(frame);
        match asked_by_relays(&request) {
            Some(asked) => {
                let answers = match asked {
                    Asked::Look => shared.client.follow_look(request),
                    Asked::Change => shared.client.follow(request),
                };
                tokio::task::spawn_local(pass_answers(number, answers, tell.clone(), place));
            }
            None => {
                warn!(number, "a relay below asks what no relay does");
                let refusal = RequestError::Invalid("A relay does not ask this.".to_owned());
                // Who has gone hears nothing.
                let _ = tell.send((number, ClientResponse::Error(refusal), Some(place)));
            }
        }
    }
    Ok(())
}

// All answers to a question, until who asked has gone: then nothing is done for it any more that was not begun.
async fn pass_answers(
    number: u64,
    mut answers: mpsc::UnboundedReceiver<ClientResponse>,
    tell: mpsc::UnboundedSender<Said>,
    place: OwnedSemaphorePermit,
) {
    let mut place = Some(place);
    loop {
        let answer = tokio::select! {
            biased;
            () = tell.closed() => return,
            answer = answers.recv() => answer,
        };
        let Some(answer) = answer else { return };
        let is_last = !answer.is_followed();
        let place = if is_last { place.take() } else { None };
        if tell.send((number, answer, place)).is_err() || is_last {
            return;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Look,
    Change,
}

// What a relay asks its server; all else is refused.
fn asked_by_relays(request: &ClientRequest) -> Option<Asked> {
    match request {
        ClientRequest::ServerInfo
        | ClientRequest::JobInfo { .. }
        | ClientRequest::ListJobs { .. }
        | ClientRequest::ListTasks { .. }
        | ClientRequest::Results { .. } => Some(Asked::Look),
        ClientRequest::OpenJob { .. }
        | ClientRequest::Defer { .. }
        | ClientRequest::CloseJobs { .. }
        | ClientRequest::ForgetJobs { .. }
        | ClientRequest::WatchJobs { .. } => Some(Asked::Change),
        // Tasks for whoever asks a relay, and no programs.
        ClientRequest::SubmitAll { submits, .. } => {
            let all = submits.iter().all(|submit| submit.spec.body.is_pulled());
            all.then_some(Asked::Change)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hq_model::job::{Target, TaskIds};
    use hq_model::{Body, ByteString, JobId, Submit, TaskSpec};

    use super::*;

    #[test]
    fn what_no_relay_asks_is_not_passed_on() {
        let submit = |bodies: &[Body]| {
            let spec = |body: &Body| TaskSpec { body: body.clone(), ..TaskSpec::default() };
            let of = |body| Submit::new(Target::Open(JobId(1)), TaskIds::Next(1), spec(body));
            ClientRequest::SubmitAll { key: 1, submits: bodies.iter().map(of).collect() }
        };
        let program = || Body::Program { args: vec![ByteString::from("true")] };
        assert_eq!(asked_by_relays(&ClientRequest::ServerInfo), Some(Asked::Look));
        assert_eq!(asked_by_relays(&submit(&[Body::Pulled, Body::Pulled])), Some(Asked::Change));
        assert_eq!(asked_by_relays(&submit(&[Body::Pulled, program()])), None);
        assert_eq!(asked_by_relays(&ClientRequest::StopServer), None);
    }
}
