//! Quoting for the shells and headers that read our scripts: any byte but zero comes out as it went in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes that mean nothing to a shell, wherever they stand.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&byte)
}

/// Appends a word for a POSIX shell.
pub(crate) fn shell(word: &OsStr, out: &mut Vec<u8>) {
    let word = word.as_bytes();
    // A leading `=` or `~` means something to some shells; assignments begin with a name.
    if !word.is_empty() && word.iter().all(|byte| is_plain(*byte)) && !word.contains(&b'=') {
        out.extend_from_slice(word);
        return;
    }
    out.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => out.extend_from_slice(br"'\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

/// Appends words for a POSIX shell, with blanks between.
pub(crate) fn shell_words<'a>(words: impl IntoIterator<Item = &'a OsStr>, out: &mut Vec<u8>) {
    for (at, word) in words.into_iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        shell(word, out);
    }
}

/// A word for a line of `#SBATCH`: Slurm knows double quotes and the backslash, and takes `#` for a comment.
/// None if no line can carry it.
pub(crate) fn slurm_header(word: &OsStr) -> Option<Vec<u8>> {
    let word = word.as_bytes();
    if word.contains(&b'\n') || word.contains(&0) {
        return None;
    }
    if !word.is_empty() && word.iter().all(|byte| is_plain(*byte)) {
        return Some(word.to_vec());
    }
    let mut out = vec![b'"'];
    for byte in word {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    Some(out)
}

/// A word for a line of `#PBS`: one kind of quotes, no backslash. None if no line can carry it.
pub(crate) fn pbs_header(word: &OsStr) -> Option<Vec<u8>> {
    let word = word.as_bytes();
    if word.iter().any(|byte| matches!(byte, b'\n' | b'\\' | 0)) {
        return None;
    }
    if !word.is_empty() && word.iter().all(|byte| is_plain(*byte)) {
        return Some(word.to_vec());
    }
    let quote = [b'"', b'\''].into_iter().find(|quote| !word.contains(quote))?;
    Some([&[quote], word, &[quote]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    /// What a shell makes of words that we quoted.
    fn through(shell_name: &str, words: &[OsString]) -> Vec<OsString> {
        let mut script = b"printf '%s\\0' ".to_vec();
        shell_words(words.iter().map(OsString::as_os_str), &mut script);
        let output =
            Command::new(shell_name).arg("-c").arg(OsString::from_vec(script)).output().expect("a shell");
        assert!(output.status.success(), "{output:?}");
        let mut words: Vec<_> = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(words.pop(), Some(vec![]), "each word ends with a zero byte");
        words.into_iter().map(OsString::from_vec).collect()
    }

    #[test]
    fn what_people_write_stays_readable() {
        let check = |word: &str, expected: &str| {
            let mut out = Vec::new();
            shell(OsStr::new(word), &mut out);
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        };
        check("--time-limit", "--time-limit");
        check("/opt/hq/bin/hq", "/opt/hq/bin/hq");
        check("cpus=range(1-4)", "'cpus=range(1-4)'");
        check("A=1", "'A=1'");
        check("", "''");
        check("it's", r"'it'\''s'");
        check("~", "'~'");
    }

    #[test]
    fn headers_carry_what_they_can() {
        let text = |quoted: Option<Vec<u8>>| quoted.map(|bytes| String::from_utf8(bytes).expect("text"));
        let check = |word: &str, slurm: Option<&str>, pbs: Option<&str>| {
            assert_eq!(text(slurm_header(OsStr::new(word))).as_deref(), slurm, "{word}");
            assert_eq!(text(pbs_header(OsStr::new(word))).as_deref(), pbs, "{word}");
        };
        check("--gres=gpu:2", Some("--gres=gpu:2"), Some("--gres=gpu:2"));
        check("a b", Some("\"a b\""), Some("\"a b\""));
        check("a#b", Some("\"a#b\""), Some("\"a#b\""));
        check("a\"b", Some(r#""a\"b""#), Some("'a\"b'"));
        check("a\"'b", Some(r#""a\"'b""#), None);
        check("a\\b", Some(r#""a\\b""#), None);
        check("a\nb", None, None);
        check("", Some("\"\""), Some("\"\""));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_gives_back_every_word(words in proptest::collection::vec(
            proptest::collection::vec(1u8..=255, 0..20).prop_map(OsString::from_vec), 1..6))
        {
            prop_assert_eq!(&through("bash", &words), &words);
            prop_assert_eq!(&through("sh", &words), &words);
        }

        #[test]
        fn a_shell_gives_back_what_looks_like_shell(words in proptest::collection::vec(
            "[ '\"$`\\\\!*?~#&|;<>(){}=\n\ta-c]{0,12}", 1..6))
        {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            prop_assert_eq!(&through("bash", &words), &words);
        }
    }
}
