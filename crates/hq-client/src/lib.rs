//! The client library: sessions with a server, and the one definition of every option of a submit.

mod asking;
mod blocks;
mod connection;
pub mod error;
pub mod limits;
pub mod options;
pub mod session;
mod too_large;
mod whole;

pub use asking::{Asking, NextOf};
pub use blocks::blocks;
pub use error::ClientError;
pub use session::{Next, Session, Watch, access_path, request_key};
pub use too_large::TooLarge;
pub use whole::{NotSubmitted, SubmittedFile};
