//! Connections to workers by way of the server, for objects of those that cannot be reached.

use hq_core::node_messages::{AskRelay, FromNode, OF_SERVER, ToNode};
use hq_model::WorkerId;
use hq_net::{Endpoint, Role, connect};
use hq_proto::{decode_from_node, encode_ask_relay, encode_to_node};
use tokio::time::timeout;

use super::Unreached;
use crate::limits::PIECE_TIME_MAX;
use crate::objects::Connection;
use crate::options::ServerSource;

/// Asks a worker for an object, or to store one, as a worker or client: what follows are its pieces.
///
/// # Errors
/// Says why not: the server does not relay, or the worker does not come or refuses.
pub(crate) async fn ask(
    server: &Endpoint,
    role: Role,
    holder: WorkerId,
    first: &ToNode,
) -> Result<Connection, Unreached> {
    let first = [encode_ask_relay(AskRelay::From(holder)), encode_to_node(first)];
    let (sender, mut receiver) = reach(server, role, &first).await.map_err(Unreached::NoWay)?;
    loop {
        let answer = match timeout(PIECE_TIME_MAX, receiver.next()).await {
            Ok(answer) => answer.map_err(|error| Unreached::NoWay(error.to_string()))?,
            Err(_) => {
                let text = format!("the server said nothing for {} s", PIECE_TIME_MAX.as_secs());
                return Err(Unreached::NoWay(text));
            }
        };
        match answer.as_deref().map(decode_from_node) {
            Some(Ok(FromNode::Started { .. })) => return Ok((sender, receiver)),
            // It waits until there is room, or for the holder.
            Some(Ok(FromNode::Piece { bytes, is_last: false, .. })) if bytes.is_empty() => {}
            Some(Ok(FromNode::Refused { process: OF_SERVER, reason })) => {
                return Err(Unreached::NoWay(reason));
            }
            Some(Ok(FromNode::Refused { reason, .. })) if !reason.is_empty() => {
                return Err(Unreached::Refused(reason));
            }
            // As one of an earlier release does, which answers a client that it does not understand.
            _ => return Err(Unreached::NoWay("the server does not relay".to_owned())),
        }
    }
}

/// Goes to the server for who waits there.
///
/// # Errors
/// When there is no way to it.
pub(crate) async fn come(server: &ServerSource, ticket: u64) -> Result<Connection, String> {
    let endpoint = server.endpoint().map_err(|error| error.to_string())?;
    reach(&endpoint, Role::Worker, &[encode_ask_relay(AskRelay::For(ticket))]).await
}

async fn reach(server: &Endpoint, role: Role, first: &[Vec<u8>]) -> Result<Connection, String> {
    let connected = connect(server, role).await;
    let (mut sender, receiver) = connected.map_err(|error| error.to_string())?;
    for message in first {
        sender.send(message).await.map_err(|error| error.to_string())?;
    }
    sender.flush().await.map_err(|error| error.to_string())?;
    Ok((sender, receiver))
}
