//! Many requests at once over one connection, answered in any order.

use std::collections::{BTreeMap, HashMap};

use hq_core::client_messages::{ClientRequest, ClientResponse};

use crate::connection::{Connection, NoAnswer};

/// Requests that wait for answers, each with a name that its asker has chosen.
#[derive(Debug, Default)]
pub struct Asking {
    open: BTreeMap<u64, ClientRequest>,
    unsent: Vec<u64>,
    // Over the connection of this number, by the numbers of the requests there.
    over: u64,
    sent: HashMap<u64, u64>,
}

/// What came first.
pub enum NextOf<T> {
    /// An answer to the request of this name.
    Response(u64, ClientResponse),
    /// The other thing that was waited for.
    Other(T),
}

impl Asking {
    /// Asks with the next look for answers.
    pub fn ask(&mut self, name: u64, request: ClientRequest) {
        self.open.insert(name, request);
        self.unsent.push(name);
    }

    /// The answers to this request are not wanted any more.
    pub fn forget(&mut self, name: u64) {
        self.open.remove(&name);
    }

    pub(crate) async fn send(&mut self, connection: &mut Connection) -> Result<(), NoAnswer> {
        if self.over != connection.number {
            self.over = connection.number;
            self.sent.clear();
            self.unsent = self.open.keys().copied().collect();
        }
        let names = std::mem::take(&mut self.unsent);
        let (names, requests): (Vec<u64>, Vec<&ClientRequest>) =
            names.iter().filter_map(|name| Some((*name, self.open.get(name)?))).unzip();
        if requests.is_empty() {
            return Ok(());
        }
        let last = connection.send(&requests).await?;
        self.sent.extend((last + 1 - names.len() as u64..=last).zip(names));
        Ok(())
    }

    // Nothing is lost when it is dropped before it is done.
    pub(crate) async fn next(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(u64, ClientResponse), String> {
        loop {
            let (number, response) = connection.any().await?;
            let Some(name) = self.sent.get(&number).copied() else { continue };
            if !response.is_followed() {
                self.sent.remove(&number);
            }
            if !self.open.contains_key(&name) {
                continue;
            }
            if !response.is_followed() {
                self.open.remove(&name);
            }
            return Ok((name, response));
        }
    }
}
