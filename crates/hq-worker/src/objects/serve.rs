//! Objects on their way to other workers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use hq_core::node_messages::FromNode;
use hq_model::checksum::Checksum;
use hq_net::FrameSender;
use hq_proto::encode_from_node;
use tokio::time::timeout;

use super::{Content, Key, Objects};
use crate::limits::{PIECE_MAX, PIECE_PAUSE};
use crate::ranks::NO_PROCESS;

/// An object that is being read.
struct Reading {
    file: File,
    offset: u64,
    content: Content,
    /// Of everything, where it is read from the beginning.
    checksum: Option<Checksum>,
}

impl Objects {
    /// Sends an object from a byte on; each piece is read when the one before has left.
    pub(crate) async fn serve(self: &Arc<Objects>, mut sender: FrameSender, key: Key, offset: u64) {
        if let Err(reason) = self.send_pieces(&mut sender, &key, offset).await {
            let refused = FromNode::Refused { process: NO_PROCESS, reason };
            // Who does not hear it sees the end of the connection.
            if sender.send(&encode_from_node(&refused)).await.is_err() {
                return;
            }
        }
        let _ = sender.close().await;
    }

    async fn send_pieces(&self, sender: &mut FrameSender, key: &Key, offset: u64) -> Result<(), String> {
        let place = self.serves.acquire();
        tokio::pin!(place);
        let _place = loop {
            match timeout(PIECE_PAUSE, &mut place).await {
                Ok(place) => break place.map_err(|_| "the worker is ending".to_owned())?,
                Err(_) => tell(sender, offset, Vec::new(), false).await?,
            }
        };
        let (store, wanted) = (self.store.clone(), key.clone());
        let opened = self.pieces.run(move || {
            let (mut file, content) = store.read(&wanted).map_err(|error| error.to_string())?;
            if offset > content.size {
                return Err(format!("it has {} bytes, not {offset}", content.size));
            }
            file.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
            Ok(Reading { file, offset, content, checksum: (offset == 0).then(Checksum::default) })
        });
        let mut reading = opened.await.unwrap_or_else(|| Err("the worker is ending".to_owned()))?;
        loop {
            let read = self.pieces.run(move || {
                let piece = reading.next();
                (reading, piece)
            });
            let Some((again, piece)) = read.await else { return Err("the worker is ending".to_owned()) };
            reading = again;
            let piece = match piece {
                Ok(piece) => piece,
                Err(reason) => {
                    let (store, key) = (self.store.clone(), key.clone());
                    self.pieces.order(move || store.lose(&key));
                    return Err(reason);
                }
            };
            let offset = reading.offset - piece.len() as u64;
            let is_last = reading.offset == reading.content.size;
            tell(sender, offset, piece, is_last).await?;
            if is_last {
                return Ok(());
            }
        }
    }
}

impl Reading {
    // What is damaged is not sent to its end.
    fn next(&mut self) -> Result<Vec<u8>, String> {
        let left = self.content.size - self.offset;
        let mut piece = vec![0; left.min(PIECE_MAX as u64) as usize];
        self.file
            .read_exact(&mut piece)
            .map_err(|error| format!("the stored file cannot be read: {error}"))?;
        self.offset += piece.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(&piece);
            if self.offset == self.content.size && checksum.value() != self.content.checksum {
                return Err("the stored file is damaged".to_owned());
            }
        }
        Ok(piece)
    }
}

async fn tell(sender: &mut FrameSender, offset: u64, bytes: Vec<u8>, is_last: bool) -> Result<(), String> {
    let piece = FromNode::Piece { offset, bytes, is_last };
    sender.send(&encode_from_node(&piece)).await.map_err(|error| error.to_string())?;
    sender.flush().await.map_err(|error| error.to_string())
}
