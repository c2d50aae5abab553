//! Names of files: lexically normalised, joined, shown, and quoted for a shell.

use std::borrow::Cow;

use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};

/// A name without `.`, doubled slashes and `..` that can be resolved, nor a slash at its end.
pub(crate) fn normalise(name: &str) -> Cow<'_, str> {
    if is_normal(name.as_bytes()) {
        return Cow::Borrowed(name);
    }
    let bytes = normal_bytes(name.as_bytes());
    Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
}

fn is_normal(name: &[u8]) -> bool {
    let rest = name.strip_prefix(b"/").unwrap_or(name);
    !rest.is_empty() && rest.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

fn normal_bytes(name: &[u8]) -> Vec<u8> {
    let is_absolute = name.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => (),
            b".." => match parts.last() {
                Some(last) if *last != b".." => drop(parts.pop()),
                _ if is_absolute => (),
                _ => parts.push(part),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (is_absolute, joined.is_empty()) {
        (true, _) => [&b"/"[..], &joined].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

/// The absolute path of a name in a directory.
pub(crate) fn join(dir: &[u8], name: &str) -> Vec<u8> {
    if name.starts_with('/') {
        return if is_normal(name.as_bytes()) { name.into() } else { normal_bytes(name.as_bytes()) };
    }
    let mut path = Vec::with_capacity(dir.len() + name.len() + 1);
    path.extend_from_slice(dir);
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    if is_normal(name.as_bytes()) && dir.len() > 1 && is_normal(dir) { path } else { normal_bytes(&path) }
}

/// How a path is shown: relative to a directory it is below.
pub(crate) fn shown(base: &[u8], path: &[u8]) -> String {
    match &path[shown_at(base, path)..] {
        b"" => ".".to_owned(),
        shown => String::from_utf8_lossy(shown).into_owned(),
    }
}

/// Where in a path what is shown of it begins: at its end if it is the directory itself.
pub(crate) fn shown_at(base: &[u8], path: &[u8]) -> usize {
    match path.strip_prefix(base) {
        Some([b'/', ..]) => base.len() + 1,
        Some(rest) if rest.is_empty() || base == b"/" => base.len(),
        _ => 0,
    }
}

/// What keeps a name from being one of a file.
pub(crate) fn unfit(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty".to_owned());
    }
    if name.contains('\0') {
        return Some("it contains a NUL character".to_owned());
    }
    if name.len() > PATH_BYTES_MAX {
        return Some(format!("it has {} bytes, more than {PATH_BYTES_MAX}", name.len()));
    }
    if name.len() > NAME_BYTES_MAX
        && let Some(part) = name.split('/').find(|part| part.len() > NAME_BYTES_MAX)
    {
        return Some(format!("a part of it has {} bytes, more than {NAME_BYTES_MAX}", part.len()));
    }
    None
}

/// A name as a shell reads it back: as it is where that is safe, else in single quotes.
///
/// Names that are safe stay plain, so that what stands around them in a script (quotes, other text) stays right.
pub(crate) fn quote(name: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./+,:=@%^".contains(&byte);
    let is_safe = |char: char| u8::try_from(char).is_ok_and(is_plain) || char.is_alphanumeric();
    let is_text = || std::str::from_utf8(name).is_ok_and(|text| text.chars().all(is_safe));
    if !name.is_empty() && (name.iter().all(|byte| is_plain(*byte)) || is_text()) {
        return Cow::Borrowed(name);
    }
    let mut quoted = vec![b'\''];
    for byte in name {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    Cow::Owned(quoted)
}

/// The same for texts.
pub(crate) fn quote_text(name: &str) -> Cow<'_, str> {
    match quote(name.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(name),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn names_are_normalised_without_looking_at_files() {
        for (name, normal) in [
            ("a", "a"),
            ("./a", "a"),
            ("a//b/./c", "a/b/c"),
            ("a/../b", "b"),
            ("../a", "../a"),
            ("a/../../b", "../b"),
            ("/../a/", "/a"),
            ("a/", "a"),
            (".", "."),
            ("a/..", "."),
            ("/", "/"),
            ("...", "..."),
        ] {
            assert_eq!(normalise(name), normal, "{name}");
        }
    }

    #[test]
    fn names_are_joined_to_their_directory_and_shown_below_it() {
        for (dir, name, path, seen) in [
            ("/w/s", "a", "/w/s/a", "s/a"),
            ("/w/s", "../a", "/w/a", "a"),
            ("/w/s", "../../a", "/a", "/a"),
            ("/w/s", "/x/y", "/x/y", "/x/y"),
            ("/", "a", "/a", "/a"),
            ("/w", ".", "/w", "."),
            ("/wide", "a", "/wide/a", "/wide/a"),
        ] {
            let joined = join(dir.as_bytes(), name);
            assert_eq!(String::from_utf8_lossy(&joined), path);
            assert_eq!(shown(b"/w", &joined), seen);
        }
        assert_eq!(shown(b"/", b"/a"), "a");
    }

    #[test]
    fn a_shell_reads_quoted_names_back() {
        let names = [
            "a", "a b", "it's", "$HOME", "a\nb", "*", "~", "größe", "a=b,c", "{a,b}", "-n", "`x`", "a\\b",
            "!",
        ];
        for name in names {
            let script = format!("printf %s {}", quote_text(name));
            let output = Command::new("bash").args(["-c", &script]).output().expect("bash is there");
            assert_eq!(String::from_utf8_lossy(&output.stdout), name);
        }
        for plain in ["sim/out_7.npy", "n=1.dat", "größe.txt", "a+b,c:d@e%f^g"] {
            assert_eq!(quote_text(plain), plain);
        }
    }
}
