//! How notices about jobs are sent: by a program, as a document that is posted to a URL, or as a mail. Blocking.
//!
//! Whatever a target does, sending ends: each way has a time limit, and of what is answered little is read.

mod document;
mod limits;
mod mail;
mod post;
mod program;
mod stderr;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hq_command::Stop;
use hq_model::{Notice, NoticeTarget};

pub use document::document;
pub use limits::{POST_TIME, PROGRAM_TIME};
pub use program::server_of;

/// Sends a notice. A program that tells it finds the server in this directory, if there is one, and ends with this stop, too.
///
/// # Errors
/// Says in words why it could not be sent.
pub fn send(notice: &Notice, server_dir: Option<&Path>, stop: &Stop) -> Result<(), String> {
    let said = stderr::last_line(notice);
    let said = said.as_deref();
    match &notice.target {
        NoticeTarget::Command(words) => {
            let document = format!("{}\n", document(notice, said));
            let variables = document::variables(notice, said);
            program::run(words, (&variables, server_dir), document.as_bytes(), &notice.submit_dir, stop)
        }
        NoticeTarget::Url(url) => post::post(url, &document(notice, said).to_string()),
        NoticeTarget::Mail(address) => mail::send(address, notice, said, stop),
    }
}

/// What is missing on this machine for a target, as far as that can be told.
pub fn missing(target: &NoticeTarget, directory: &Path) -> Option<String> {
    match target {
        NoticeTarget::Command(words) => {
            let program = words.first()?;
            let is_address = program.contains('@') && !program.contains('/');
            let mail = || format!("; `mailto:{program}` sends a mail");
            let hint = if is_address { mail() } else { String::new() };
            find_program(program, directory)
                .is_none()
                .then(|| format!("there is no program `{program}`{hint}"))
        }
        NoticeTarget::Url(_) => None,
        NoticeTarget::Mail(_) => mail::sendmail().is_none().then(|| mail::NO_SENDMAIL.to_owned()),
    }
}

// A program as it is found from a directory.
fn find_program(program: &str, directory: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(directory.join(program)).filter(|path| is_program(path));
    }
    find_in(program, std::env::var_os("PATH").as_deref())
}

fn find_in(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let places = path.into_iter().flat_map(std::env::split_paths);
    places.map(|place| place.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
