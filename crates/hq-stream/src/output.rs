//! What an attempt has printed on one channel, read by its place in that: from its own file, or from a stream.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hq_model::paths::Place;
use hq_model::{ByteString, Channel};

use crate::directory::Directory;
use crate::follow::Follow;
use crate::format::Attempt;
use crate::limits;
use crate::open::open_file;

/// One output.
#[derive(Debug)]
pub struct Output(Text);

#[derive(Debug)]
enum Text {
    File { path: PathBuf, file: Option<File> },
    Stream { path: PathBuf, server_uid: String, attempt: Attempt, channel: Channel, file: StreamText },
}

#[derive(Debug)]
enum StreamText {
    // Nothing of it is in a file, as far as is known.
    Unknown,
    In(PathBuf),
    Open(Box<Follow>),
    // It was looked for, and there is nothing.
    Nothing,
}

impl Output {
    /// What an attempt prints on a channel, into this place, of a server of this name.
    pub fn new(place: Place, server_uid: &str, attempt: Attempt, channel: Channel) -> Output {
        let path = |bytes: ByteString| PathBuf::from(OsString::from_vec(bytes));
        Output(match place {
            Place::File(own) => Text::File { path: path(own), file: None },
            Place::Stream(stream) => {
                let (path, server_uid) = (path(stream.path().clone()), server_uid.to_owned());
                Text::Stream { path, server_uid, attempt, channel, file: StreamText::Unknown }
            }
        })
    }

    /// The file of a stream that has what was written so far.
    pub fn is_in(&mut self, path: &Path) {
        if let Text::Stream { file: file @ StreamText::Unknown, .. } = &mut self.0 {
            *file = StreamText::In(path.to_owned());
        }
    }

    /// How much there is. What has ended must be somewhere.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn length(&mut self, has_ended: bool) -> Result<u64, String> {
        match &mut self.0 {
            Text::File { path, file } => {
                let file = match file {
                    Some(file) => file,
                    None => match open_file(path) {
                        Ok(opened) => file.insert(opened),
                        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_ended => return Ok(0),
                        Err(error) => return Err(cannot_read(path, &error)),
                    },
                };
                file.metadata().map(|data| data.len()).map_err(|error| cannot_read(path, &error))
            }
            Text::Stream { path, server_uid, attempt, channel, file } => loop {
                *file = match file {
                    StreamText::Open(follow) => return follow.length().map_err(|error| error.to_string()),
                    StreamText::Nothing => return Ok(0),
                    StreamText::Unknown if !has_ended => return Ok(0),
                    StreamText::Unknown => find(path, server_uid, *attempt, *channel)?,
                    StreamText::In(path) => {
                        let follow = Follow::open(path, *attempt, *channel);
                        StreamText::Open(Box::new(follow.map_err(|error| error.to_string())?))
                    }
                }
            },
        }
    }

    /// Whether what the attempt prints into its stream goes elsewhere than where it was read: the file was removed or
    /// renamed, or what was there was cut off. What is there now is read by a new one.
    pub fn is_left(&self) -> bool {
        matches!(&self.0, Text::Stream { file: StreamText::Open(follow), .. } if follow.is_left())
    }

    /// Whether something of the attempt was found in a stream, if only its end.
    pub fn is_in_a_stream(&self) -> bool {
        matches!(&self.0, Text::Stream { file: StreamText::Open(follow), .. } if follow.is_there())
    }

    /// What was passed over of a stream because it is damaged, and may have had something of the attempt.
    pub fn damage(&self) -> Option<String> {
        let Text::Stream { file: StreamText::Open(follow), .. } = &self.0 else { return None };
        follow.damage().map(|fault| format!("{}: {fault}", follow.path().display()))
    }

    /// Reads from a place on, of which at most so much is there as was told.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&mut self, offset: u64, bytes_max: usize) -> Result<Vec<u8>, String> {
        match &mut self.0 {
            Text::File { path, file: Some(file) } => {
                let mut bytes = vec![0; bytes_max];
                let count = loop {
                    match file.read_at(&mut bytes, offset) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        read => break read.map_err(|error| cannot_read(path, &error))?,
                    }
                };
                bytes.truncate(count);
                Ok(bytes)
            }
            Text::Stream { file: StreamText::Open(follow), .. } => {
                follow.read(offset, bytes_max).map_err(|error| error.to_string())
            }
            Text::File { .. } | Text::Stream { .. } => Ok(Vec::new()),
        }
    }

    /// Where the last so many lines begin, as far as that is not too far from the end.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn begin_of_lines(&mut self, lines: u32, length: u64) -> Result<u64, String> {
        let first = length.saturating_sub(limits::LINES_BYTES);
        let (mut begin, mut lines_left) = (length, lines);
        while begin > first && lines_left > 0 {
            let from = begin.saturating_sub(limits::LINES_CHUNK).max(first);
            let bytes = self.read(from, (begin - from) as usize)?;
            // The line break at the end belongs to the last line.
            let is_break = |(at, byte): &(usize, &u8)| **byte == b'\n' && from + *at as u64 + 1 < length;
            for (at, _) in bytes.iter().enumerate().rev().filter(is_break) {
                lines_left -= 1;
                if lines_left == 0 {
                    return Ok(from + at as u64 + 1);
                }
            }
            begin = from;
        }
        Ok(begin)
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

// Looks through the files of a directory, or the one of a log, for one that has something of it.
fn find(dir: &Path, server_uid: &str, attempt: Attempt, channel: Channel) -> Result<StreamText, String> {
    let directory = Directory::of_server(dir, server_uid).map_err(|error| error.to_string())?;
    let directory =
        directory.ok_or_else(|| format!("{}: no stream of this server is there", dir.display()))?;
    for path in directory.paths() {
        let mut follow = Follow::open(path, attempt, channel).map_err(|error| error.to_string())?;
        follow.length().map_err(|error| error.to_string())?;
        if follow.is_there() {
            return Ok(StreamText::Open(Box::new(follow)));
        }
    }
    Ok(StreamText::Nothing)
}
