//! The script of a batch job: a header for the manager, and on each node the start command, the worker and the stop
//! command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use crate::error::BatchError;
use crate::request::AllocationRequest;
use crate::{limits, quote};

/// How workers get onto the nodes of an allocation.
pub(crate) enum Launch {
    /// The script runs on the only node.
    Here,
    /// Words in front of `bash -c TEXT`, run once, that start it once on every node.
    Prefix(String),
    /// `pbsdsh` once per node: its own way to start everywhere counts MPI processes, not nodes.
    Pbsdsh,
}

/// Refuses what no script can carry.
///
/// # Errors
/// [`BatchError::ZeroByte`] names what holds one.
pub(crate) fn check(request: &AllocationRequest) -> Result<(), BatchError> {
    let has = |word: &OsStr| word.as_bytes().contains(&0);
    let commands = [&request.start_command, &request.stop_command, &request.wrap_command];
    let parts = [
        ("an argument for the manager", request.manager_args.iter().any(|word| has(word))),
        ("an argument of the worker", request.worker_args.iter().any(|word| has(word))),
        ("a start, stop or wrap command", commands.iter().any(|text| text.iter().any(|t| t.contains('\0')))),
        ("RUST_LOG", request.log_filter.as_deref().is_some_and(has)),
        ("the directory", has(request.directory.as_os_str())),
    ];
    match parts.into_iter().find(|(_, is_bad)| *is_bad) {
        Some((what, _)) => Err(BatchError::ZeroByte { what }),
        None => Ok(()),
    }
}

/// A whole script: the header lines, then what runs.
pub(crate) fn script(header: &[Vec<u8>], request: &AllocationRequest, launch: &Launch) -> Vec<u8> {
    let mut out = b"#!/bin/bash\n".to_vec();
    for line in header {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    // Managers give a meaning to some characters in paths: then the script finds its files itself.
    if plain_path(&request.directory).is_none() {
        for (redirection, file) in [(b"exec >".as_slice(), "stdout"), (b"exec 2>", "stderr")] {
            out.extend_from_slice(redirection);
            quote::shell(request.directory.join(file).as_os_str(), &mut out);
            out.push(b'\n');
        }
    }
    // The exit status is left where the server finds it: not every manager remembers it. The shell outlives the
    // signals that end the worker, to do so.
    out.extend_from_slice(
        format!("trap ended=1 TERM INT\nlimit={}\nleft=", whole_seconds(request.time_limit)).as_bytes(),
    );
    quote::shell(exit_file(&request.directory).as_os_str(), &mut out);
    out.extend_from_slice(b"\nrm -f \"$left\"\n: >\"$left.begun\"\n");
    // PBS hands the script to the shell as its standard input, which nothing else may read.
    match launch {
        Launch::Here => {
            out.extend_from_slice(b"(\n");
            out.extend_from_slice(&on_node(request));
            out.extend_from_slice(b") </dev/null\n");
        }
        Launch::Prefix(prefix) => {
            out.extend_from_slice(b"on_node=");
            quote::shell(OsStr::from_bytes(&on_node(request)), &mut out);
            out.extend_from_slice(format!("\n{prefix} bash -c \"$on_node\" </dev/null\n").as_bytes());
        }
        Launch::Pbsdsh => {
            out.extend_from_slice(b"on_node=");
            quote::shell(OsStr::from_bytes(&on_node(request)), &mut out);
            out.extend_from_slice(PBSDSH.as_bytes());
        }
    }
    out.extend_from_slice(AT_END.as_bytes());
    out
}

/// The word that a script leaves behind its status when it was told to end because its time was over.
pub(crate) const LATE: &str = "late";

/// Leaves the status, and whether somebody told the script to end, before or after its time was over.
const AT_END: &str = r#"status=$?
if [ -n "${ended-}" ]; then
    [ "$SECONDS" -lt "$limit" ] && ended=early || ended=late
fi
(umask 077; echo "$status ${ended-}" >"$left")
exit "$status"
"#;

/// Starts once on every node of `$PBS_NODEFILE`, but for the first `$skipped`, and waits for all, also when signals cut a
/// wait short. The file names a node as often as it has MPI processes. A login shell's path may lack PBS.
pub(crate) const PBSDSH: &str = r#"
pbsdsh=$(command -v pbsdsh) ||
    pbsdsh=$(. "${PBS_CONF_FILE:-/etc/pbs.conf}" 2>/dev/null; echo "${PBS_EXEC:-/opt/pbs}/bin/pbsdsh")
nodes=()
while read -r node; do
    case " ${seen-} " in *" $node "*) nodes+=("") ;; *) nodes+=("$node"); seen="${seen-} $node" ;; esac
done <"$PBS_NODEFILE"
started=()
for index in "${!nodes[@]}"; do
    [ -n "${nodes[index]}" ] && [ "$index" -ge "${skipped-0}" ] || continue
    "$pbsdsh" -n "$index" -- bash -l -c "$on_node" &
    started+=($!)
done
worst=0
for pid in "${started[@]}"; do
    wait "$pid"; one=$?
    while [ "$one" -gt 128 ] && kill -0 "$pid" 2>/dev/null; do wait "$pid"; one=$?; done
    [ "$one" -le "$worst" ] || worst=$one
done
(exit "$worst")
"#;

/// What runs on each node, in a shell of its own.
fn on_node(request: &AllocationRequest) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |text: &[u8]| {
        out.extend_from_slice(text);
        out.push(b'\n');
    };
    // A signal for the whole job reaches the worker by itself; this shell stays until it has ended.
    line(b"trap : TERM INT");
    if let Some(stop) = &request.stop_command {
        line(b"stop() {\nstatus=$?\ntrap - EXIT\nset +e");
        line(stop.as_bytes());
        line(b"exit \"$status\"\n}\ntrap stop EXIT");
    }
    if let Some(filter) = &request.log_filter {
        let mut export = b"export RUST_LOG=".to_vec();
        quote::shell(filter, &mut export);
        line(&export);
    }
    let mut worker = Vec::new();
    if let Some(wrap) = &request.wrap_command {
        worker.extend_from_slice(wrap.trim().as_bytes());
        worker.push(b' ');
    }
    quote::shell_words(request.worker_args.iter().map(OsString::as_os_str), &mut worker);
    match &request.start_command {
        Some(start) => {
            line(b"{");
            line(start.as_bytes());
            line(&[b"} && ", worker.as_slice()].concat());
        }
        None => line(&worker),
    }
    line(b"exit \"$?\"");
    out
}

/// Where a script leaves its exit status.
pub(crate) fn exit_file(directory: &Path) -> std::path::PathBuf {
    directory.join("exit")
}

/// What a script leaves when it begins.
pub(crate) fn begun_file(directory: &Path) -> std::path::PathBuf {
    directory.join("exit.begun")
}

/// A name every manager takes for a job.
pub(crate) fn job_name(name: &str) -> String {
    let mut name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    // PBS wants a letter or digit first; what begins with `-` would be an option.
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name.insert_str(0, "hq");
    }
    name.truncate(limits::NAME_BYTES);
    name
}

/// A wall time as `HH:MM:SS`, rounded up to seconds. At least one second.
pub(crate) fn clock(duration: Duration) -> String {
    let seconds = whole_seconds(duration);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Seconds, rounded up. At least one.
fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// A header line: a directive, an option's beginning, and a value that stands as it is.
pub(crate) fn directive(prefix: &str, text: &str) -> Vec<u8> {
    format!("{prefix} {text}").into_bytes()
}

/// The user's arguments as one header line, and those that only a command line can carry. An argument that cannot
/// stand in a header takes all others with it, so that options and their values stay together.
pub(crate) fn user_header(
    prefix: &str,
    args: &[OsString],
    quoted: fn(&OsStr) -> Option<Vec<u8>>,
) -> (Option<Vec<u8>>, Vec<OsString>) {
    if args.is_empty() {
        return (None, Vec::new());
    }
    match args.iter().map(|arg| quoted(arg)).collect::<Option<Vec<_>>>() {
        Some(words) => (Some([prefix.as_bytes(), b" ", &words.join(&b' ')].concat()), Vec::new()),
        None => (None, args.to_vec()),
    }
}

/// Where the manager shall write one of the job's outputs. Nowhere, if the path cannot be told to it; the script then
/// writes it.
pub(crate) fn output_path(directory: &Path, file: &str) -> String {
    plain_path(&directory.join(file)).unwrap_or_else(|| "/dev/null".to_owned())
}

/// A path as text, if it is made of characters that no manager gives a meaning to.
fn plain_path(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@=".contains(c)).then(|| text.to_owned())
}

/// The value of an option among the user's arguments: `-p X`, `-pX`, `--partition X`, `--partition=X`. The last
/// one counts.
pub(crate) fn option_value(args: &[OsString], short: Option<char>, long: Option<&str>) -> Option<String> {
    let mut found = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(arg) = arg.to_str() else { continue };
        let next = || rest.as_slice().first().and_then(|value| value.to_str()).map(str::to_owned);
        if let Some(body) = arg.strip_prefix("--") {
            let Some(long) = long else { continue };
            match body.split_once('=') {
                Some((name, value)) if name == long => found = Some(value.to_owned()),
                None if body == long => found = next(),
                _ => {}
            }
        } else if let (Some(body), Some(short)) = (arg.strip_prefix('-'), short)
            && let Some(value) = body.strip_prefix(short)
        {
            found = if value.is_empty() { next() } else { Some(value.to_owned()) };
        }
    }
    found
}

/// Joins words of a command that are known to be text.
pub(crate) fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(|word| OsString::from_vec(word.as_bytes().to_vec())).collect()
}

#[cfg(test)]
mod tests;
