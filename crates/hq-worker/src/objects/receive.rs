//! Files that clients put into the store over the network: written to the directory `put` piece by piece, and kept there until they
//! are objects or the client is gone.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hq_core::node_messages::{FromNode, ToNode};
use hq_net::{FrameReceiver, FrameSender};
use hq_proto::{decode_to_node, encode_from_node};
use tokio::time::timeout;

use super::{Objects, PutFile, StoreError};
use crate::limits::{PIECE_MAX, PIECE_TIME_MAX};
use crate::ranks::NO_PROCESS;

impl Objects {
    /// Why a file of this size cannot become an object, if that is known before it comes.
    pub(crate) async fn refuses_size(&self, size: u64) -> Option<String> {
        let store = self.store.clone();
        let checked = self.pieces.run(move || store.check_announced(size)).await;
        checked?.err().map(|error| error.to_string())
    }

    /// Takes in a file of so many bytes. Returns when the client has gone: then it is an object or it is removed.
    pub(crate) async fn receive(
        self: &Arc<Objects>,
        mut sender: FrameSender,
        mut receiver: FrameReceiver,
        size: u64,
    ) {
        let name = format!("n-{}", self.received.fetch_add(1, Ordering::Relaxed));
        let file = PutFile::new(self, name);
        let (answer, is_whole) = match self.write_pieces(&mut receiver, &file, size).await {
            Ok(()) => (FromNode::Put { file: file.name().to_owned() }, true),
            Err(reason) => (FromNode::Refused { process: NO_PROCESS, reason }, false),
        };
        // Who does not hear it has gone.
        let _ = sender.send(&encode_from_node(&answer)).await;
        let _ = sender.flush().await;
        if is_whole {
            // It says nothing more until its object is there, or it wants it no more.
            let _ = receiver.next().await;
        }
        drop(file);
        let _ = sender.close().await;
    }

    async fn write_pieces(
        &self,
        receiver: &mut FrameReceiver,
        file: &PutFile,
        size: u64,
    ) -> Result<(), String> {
        let ending = || "the worker is ending".to_owned();
        let text = |error: StoreError| error.to_string();
        let (store, name) = (self.store.clone(), file.name().to_owned());
        let create = move || store.announce(&name, size).and_then(|()| store.create_put(&name));
        let created = self.pieces.run(create).await.ok_or_else(ending)?;
        let mut writing = Some(created.map_err(text)?);
        let mut left = size;
        loop {
            let frame = match timeout(PIECE_TIME_MAX, receiver.next()).await {
                Ok(Ok(Some(frame))) => frame,
                Ok(_) => return Err("the connection ended".to_owned()),
                Err(_) => return Err(format!("nothing was received for {} s", PIECE_TIME_MAX.as_secs())),
            };
            let Ok(ToNode::Piece { bytes, is_last }) = decode_to_node(&frame) else {
                return Err("what comes is not a piece of a file".to_owned());
            };
            let fits = bytes.len() <= PIECE_MAX && bytes.len() as u64 <= left;
            if !fits || is_last != (bytes.len() as u64 == left) {
                return Err(format!("what comes are not the {size} bytes that were said"));
            }
            left -= bytes.len() as u64;
            let Some(out) = writing.take() else { return Err(ending()) };
            let path = file.path();
            let written = self.pieces.run(move || write(out, &bytes)).await.ok_or_else(ending)?;
            writing = Some(written.map_err(|source| text(StoreError::Io { path, source }))?);
            if is_last {
                return Ok(());
            }
        }
    }
}

fn write(mut file: File, bytes: &[u8]) -> std::io::Result<File> {
    file.write_all(bytes)?;
    Ok(file)
}
