//! What `%{MPIRUN}` stands for: a command of ours that finds a launcher on the spot, and becomes it.

use hq_model::body::MPIRUN;
use hq_model::{ByteString, TaskSpec};

/// The launcher that is used when a command with ranks names none.
const DIRECT: &str = "direct";
/// No launcher: the command runs once, whatever its ranks.
const NONE: &str = "none";

/// The arguments of a task with `%{MPIRUN}` replaced. Where a task has ranks and its command leaves their start to us,
/// it is put before the command.
pub(crate) fn expand(spec: &TaskSpec, given: &[ByteString], hq: &[u8]) -> Vec<ByteString> {
    let has_ranks = spec.requests.iter().any(|request| request.ranks > 0);
    if !spec.body.names_launcher() {
        if !has_ranks || spec.launcher == NONE {
            return given.to_vec();
        }
        let launcher = if spec.launcher.is_empty() { DIRECT } else { &spec.launcher };
        return words(hq, launcher).into_iter().chain(given.iter().cloned()).collect();
    }
    let words = words(hq, &spec.launcher);
    let in_shell = shell(&words);
    let mut args = Vec::with_capacity(given.len() + words.len());
    for arg in given {
        if arg == MPIRUN {
            args.extend(words.iter().cloned());
        } else {
            args.push(replace(arg, &in_shell));
        }
    }
    args
}

/// The same for a shell, as the value of `HQ_MPIRUN`.
pub(crate) fn for_shell(spec: &TaskSpec, hq: &[u8]) -> ByteString {
    shell(&words(hq, &spec.launcher))
}

fn words(hq: &[u8], launcher: &str) -> Vec<ByteString> {
    let mut words = vec![hq.to_vec(), b"task".to_vec(), b"mpirun".to_vec()];
    if !launcher.is_empty() && launcher != NONE {
        words.push(format!("--launcher={launcher}").into_bytes());
    }
    words.push(b"--".to_vec());
    words
}

// A variable is split at blanks and not unquoted: what holds none needs no quotes.
fn shell(words: &[ByteString]) -> ByteString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-=+:,@%".contains(byte);
    let quoted = words.iter().map(|word| {
        if word.iter().all(plain) {
            return word.clone();
        }
        let inner: ByteString = word
            .iter()
            .flat_map(|byte| if *byte == b'\'' { b"'\\''".to_vec() } else { vec![*byte] })
            .collect();
        [&b"'"[..], &inner, b"'"].concat()
    });
    quoted.collect::<Vec<_>>().join(&b' ')
}

fn find(text: &[u8]) -> Option<usize> {
    text.windows(MPIRUN.len()).position(|window| window == MPIRUN)
}

fn replace(text: &[u8], with: &[u8]) -> ByteString {
    let mut out = ByteString::new();
    let mut rest = text;
    while let Some(at) = find(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + MPIRUN.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use hq_model::{Body, Request};

    use super::*;

    fn check(args: &[&str], launcher: &str, ranks: u32, expected: &str) {
        let spec = TaskSpec {
            body: Body::program(args.iter().copied()),
            requests: vec![Request { nodes: 2, ranks, ..Request::default() }],
            launcher: launcher.into(),
            ..TaskSpec::default()
        };
        let args = expand(&spec, spec.body.texts(), b"/bin/hq");
        let args: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        assert_eq!(args.join("|"), expected, "{launcher}");
    }

    #[test]
    fn the_placeholder_becomes_words_or_a_text_for_a_shell() {
        check(&["%{MPIRUN}", "./a"], "", 2, "/bin/hq|task|mpirun|--|./a");
        check(&["%{MPIRUN}", "./a"], "srun", 2, "/bin/hq|task|mpirun|--launcher=srun|--|./a");
        check(&["sh", "-c", "cd x && %{MPIRUN} ./a"], "", 0, "sh|-c|cd x && /bin/hq task mpirun -- ./a");
    }

    #[test]
    fn ranks_without_it_are_started_by_us() {
        check(&["./a", "b c"], "", 2, "/bin/hq|task|mpirun|--launcher=direct|--|./a|b c");
        check(&["./a"], "openmpi4", 2, "/bin/hq|task|mpirun|--launcher=openmpi4|--|./a");
        check(&["./a"], "none", 2, "./a");
        check(&["./a"], "", 0, "./a");
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        let words = words(b"/my dir/it's/hq", "");
        assert_eq!(String::from_utf8_lossy(&shell(&words)), r"'/my dir/it'\''s/hq' task mpirun --");
    }
}
