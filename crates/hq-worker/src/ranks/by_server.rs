//! Connections to other workers by way of the server, for objects of those that cannot be reached.

use hq_core::node_messages::{AskRelay, Fetch, FromNode, ToNode};
use hq_model::WorkerId;
use hq_net::{Role, connect};
use hq_proto::{decode_from_node, encode_ask_relay, encode_to_node};
use tokio::time::timeout;

use crate::limits::PIECE_TIME_MAX;
use crate::objects::Connection;
use crate::options::ServerSource;

/// Asks a worker for an object: what follows are its pieces.
///
/// # Errors
/// Says why not: the server does not relay, or the worker does not come or refuses.
pub(crate) async fn ask(server: &ServerSource, holder: WorkerId, fetch: Fetch) -> Result<Connection, String> {
    let first = [encode_ask_relay(AskRelay::From(holder)), encode_to_node(&ToNode::Fetch(fetch))];
    let (sender, mut receiver) = reach(server, &first).await?;
    loop {
        let answer = match timeout(PIECE_TIME_MAX, receiver.next()).await {
            Ok(answer) => answer.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("the server said nothing for {} s", PIECE_TIME_MAX.as_secs())),
        };
        match answer.as_deref().map(decode_from_node) {
            Some(Ok(FromNode::Started { .. })) => return Ok((sender, receiver)),
            // It waits until there is room, or for the holder.
            Some(Ok(FromNode::Piece { bytes, is_last: false, .. })) if bytes.is_empty() => {}
            Some(Ok(FromNode::Refused { reason, .. })) => return Err(reason),
            // As one of an earlier release does.
            _ => return Err("the server does not relay".to_owned()),
        }
    }
}

/// Goes to the server for who waits there.
///
/// # Errors
/// When there is no way to it.
pub(crate) async fn come(server: &ServerSource, ticket: u64) -> Result<Connection, String> {
    reach(server, &[encode_ask_relay(AskRelay::For(ticket))]).await
}

async fn reach(server: &ServerSource, first: &[Vec<u8>]) -> Result<Connection, String> {
    let endpoint = server.endpoint().map_err(|error| error.to_string())?;
    let connected = connect(&endpoint, Role::Worker).await;
    let (mut sender, receiver) = connected.map_err(|error| error.to_string())?;
    for message in first {
        sender.send(message).await.map_err(|error| error.to_string())?;
    }
    sender.flush().await.map_err(|error| error.to_string())?;
    Ok((sender, receiver))
}
