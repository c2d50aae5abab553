//! Mails, through the `sendmail` of the system. Job names are words of users: what goes into a header is encoded.

use std::path::{Path, PathBuf};

use hq_command::Stop;
use hq_model::Notice;

use crate::limits::SUBJECT_CHARS;
use crate::{find_in, is_program, program};

/// Said where there is none.
pub(crate) const NO_SENDMAIL: &str = "there is no `sendmail` in PATH, /usr/sbin or /usr/lib";
const PLACES: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];
/// Bytes of text in one encoded word: with its frame, base64 of it stays below the 75 characters that one may have.
const WORD_BYTES: usize = 42;

/// Sends a mail.
///
/// # Errors
/// When there is no `sendmail`, or it does not take the mail.
pub(crate) fn send(address: &str, notice: &Notice, said: Option<&str>, stop: &Stop) -> Result<(), String> {
    let sendmail = sendmail().ok_or_else(|| NO_SENDMAIL.to_owned())?;
    let words = [sendmail.to_string_lossy().into_owned(), "-i".into(), "-t".into()];
    program::run(&words, (&[], None), mail(address, notice, said).as_bytes(), b"/", stop)
}

/// The program of the system.
pub(crate) fn sendmail() -> Option<PathBuf> {
    let in_path = find_in("sendmail", std::env::var_os("PATH").as_deref());
    in_path.or_else(|| PLACES.iter().map(|place| Path::new(place).to_owned()).find(|place| is_program(place)))
}

fn mail(address: &str, notice: &Notice, said: Option<&str>) -> String {
    let subject: String = notice.title().chars().take(SUBJECT_CHARS).collect();
    let mut body = notice.title();
    body.push('\n');
    if !notice.details().is_empty() {
        body.push('\n');
        body.push_str(notice.details());
        body.push('\n');
    }
    if let Some(said) = said {
        body.push_str(&format!("\nThe last line of its stderr: {said}\n"));
    }
    let info = format!("\nSee `hq job info {0}` and `hq job failures {0}` for details.\n", notice.job);
    format!(
        "To: {address}\nSubject: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n{}",
        header(&subject),
        lines_of(&base64((body + &info).as_bytes()))
    )
}

// A text as it may stand in a header, whatever is in it.
fn header(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && text.len() <= 70 {
        return text.to_owned();
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if word.len() + c.len_utf8() > WORD_BYTES {
            words.push(std::mem::take(&mut word));
        }
        word.push(c);
    }
    words.push(word);
    let encoded: Vec<String> =
        words.iter().map(|word| format!("=?UTF-8?B?{}?=", base64(word.as_bytes()))).collect();
    encoded.join("\n ")
}

fn lines_of(text: &str) -> String {
    let mut lines = String::new();
    for chunk in text.as_bytes().chunks(76) {
        lines.extend(chunk.iter().map(|byte| char::from(*byte)));
        lines.push('\n');
    }
    lines
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let padded = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let all = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for place in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * place)) as usize & 63];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_where_a_header_would_not_take_them() {
        assert_eq!(header("Job 7 (score) has ended"), "Job 7 (score) has ended");
        assert_eq!(header("é"), "=?UTF-8?B?w6k=?=");
        assert_eq!(header("a\r\nBcc: b"), "=?UTF-8?B?YQ0KQmNjOiBi?=");
        let long = header(&"x".repeat(100));
        assert!(long.lines().all(|line| line.len() <= 76 && line.trim_start().starts_with("=?UTF-8?B?")));
        assert_eq!(long.lines().count(), 3);
    }

    #[test]
    fn base64_is_as_others_have_it() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }
}
