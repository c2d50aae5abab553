//! The relay's connection to the server as a worker, one for each bag.

use std::rc::Rc;

use hq_core::worker::Input;
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::JobId;
use hq_net::{AccessFile, Backoff, FrameReceiver, FrameSender, Role};
use hq_proto::{decode_to_worker, encode_from_worker};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::limits;
use crate::shared::Shared;

/// Connects for a bag, and again when the connection is lost, until what is sent ends.
pub(crate) async fn serve(shared: Rc<Shared>, bag: JobId, mut words: mpsc::UnboundedReceiver<FromWorker>) {
    let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
    loop {
        match connect(&shared).await {
            Ok((sender, receiver)) => {
                backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
                // What was said to a connection before is said again by who says hello.
                while words.try_recv().is_ok() {}
                shared.turn(|relay, now, effects| relay.hear(now, bag, Input::ServerFound, effects));
                match talk(&shared, bag, sender, receiver, &mut words).await {
                    Ok(()) => return,
                    Err(reason) => {
                        warn!(%bag, reason, "the server is lost");
                        shared.turn(|relay, now, effects| relay.hear(now, bag, Input::ServerLost, effects));
                    }
                }
            }
            Err(error) => info!(%bag, error, "the server is not there"),
        }
        if words.is_closed() && words.is_empty() {
            return;
        }
        sleep(backoff.next_pause()).await;
    }
}

async fn connect(shared: &Shared) -> Result<(FrameSender, FrameReceiver), String> {
    let access = AccessFile::load(shared.access()).map_err(|error| error.to_string())?;
    let endpoint = access.endpoint(Role::Worker).map_err(|error| error.to_string())?;
    hq_net::connect(endpoint, Role::Worker).await.map_err(|error| error.to_string())
}

// Until the connection is lost; without error when all is said.
async fn talk(
    shared: &Rc<Shared>,
    bag: JobId,
    mut sender: FrameSender,
    mut receiver: FrameReceiver,
    words: &mut mpsc::UnboundedReceiver<FromWorker>,
) -> Result<(), String> {
    loop {
        tokio::select! {
            frame = receiver.next() => {
                let frame = frame.map_err(|error| error.to_string())?.ok_or("it said goodbye")?;
                let mut heard = vec![read(&frame)?];
                while let Ok(Some(frame)) = receiver.try_next() {
                    heard.push(read(&frame)?);
                }
                shared.turn(|relay, now, effects| {
                    for message in heard {
                        relay.hear(now, bag, Input::Server(message), effects);
                    }
                });
            }
            message = words.recv() => {
                let Some(message) = message else { break };
                let mut next = Some(message);
                while let Some(message) = next {
                    let frame = encode_from_worker(&message);
                    sender.send(&frame).await.map_err(|error| error.to_string())?;
                    next = words.try_recv().ok();
                }
                sender.flush().await.map_err(|error| error.to_string())?;
            }
        }
    }
    let goodbye = async {
        if sender.close().await.is_ok() {
            while let Ok(Some(_)) = receiver.next().await {}
        }
    };
    if timeout(limits::FAREWELL_LIMIT, goodbye).await.is_err() {
        debug!(%bag, "the server did not say goodbye in time");
    }
    Ok(())
}

fn read(frame: &[u8]) -> Result<ToWorker, String> {
    decode_to_worker(frame).map_err(|error| error.to_string())
}
