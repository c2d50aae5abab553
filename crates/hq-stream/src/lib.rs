//! Files in which a worker, or the server, keeps what tasks print: their format, what writes them, and what reads them.
//!
//! A [`Writer`] appends to one file; a [`StreamFile`] reads one, also while it is written. Both block. Blocks may be compressed.
//! The format is in `docs/reference/stream-format.md`.
//!
//! # Promises
//! - What [`Writer::flush`] has returned for is in the file, as safe as what a program writes into a file of its own.
//! - After an error nothing that was taken is lost: the next call writes it to the same place. An append that fails has
//!   taken nothing.
//! - A reader cuts what a crash left unfinished, and says so; what was changed later is told with its place.
//! - Neither needs memory for more than a block, an index, and what was appended at once.

mod contents;
mod directory;
mod error;
mod file;
mod find;
mod follow;
mod format;
pub mod limits;
mod links;
mod open;
mod output;
mod pack;
mod reopen;
mod writer;

pub use contents::{Contents, Printed, Started};
pub use directory::{Directory, Found, Piece};
pub use error::{AppendError, Fault, IS_FOREIGN, StreamError};
pub use file::{Block, Entry, Scan, StreamFile};
pub use follow::Follow;
pub use format::{Attempt, Content, FILE_ENDING, Header};
pub use hq_model::Channel;
pub use links::own_target;
pub use open::{NO_FILE, open_file};
pub use output::Output;
pub use writer::Writer;
