//! `hq worker deploy-ssh`: one ssh for each host, until all have ended.

use hq_model::counted_are;
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

use super::{Context, Done};
use crate::cli::worker::DeployArgs;
use crate::error::HqError;
use crate::report::Changed;

/// A line of the host file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

pub(super) fn deploy(context: &Context, args: DeployArgs) -> Result<Done, HqError> {
    let path = args.hostfile.display();
    let content = fs::read_to_string(&args.hostfile)
        .map_err(|e| HqError::failed("bad-input", format!("cannot read the host file {path}: {e}")))?;
    let hosts = hosts(&content)
        .map_err(|(line, text)| HqError::failed("bad-input", format!("{path}, line {line}: {text}")))?;
    if hosts.is_empty() {
        return Err(HqError::failed("bad-input", format!("the host file {path} contains no hosts")));
    }
    let binary = std::env::current_exe()?;
    let remote = remote_command(binary.into_os_string(), context, &args.worker_args)?;
    let mut running: Vec<(Host, Child)> = Vec::new();
    let mut failed = Vec::new();
    // Ctrl-C reaches every ssh, as they belong to this process group; each ends its worker with its terminal.
    for host in hosts {
        match ssh(&host, &remote, args.show_output) {
            Ok(child) => running.push((host, child)),
            Err(error) => failed.push(format!("{}: ssh cannot be run: {error}", host.name)),
        }
    }
    let count = running.len();
    for (host, mut child) in running {
        match child.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => failed.push(match status.code() {
                Some(code) => format!("{}: Worker exited with code {code}", host.name),
                None => format!("{}: {status}", host.name),
            }),
            Err(error) => failed.push(format!("{}: {error}", host.name)),
        }
    }
    if failed.is_empty() {
        let text = counted_are(count, "worker", "has ended", "have ended");
        return Done::ok(Changed { text, document: json!({ "workers_ended": count }) });
    }
    let error = format!("some workers failed: {}", failed.join("; "));
    Err(HqError::failed("deploy", error).hint("--show-output shows what ssh and the workers print"))
}

fn ssh(host: &Host, remote: &OsString, show_output: bool) -> std::io::Result<Child> {
    let mut command = Command::new("ssh");
    command.args(["-t", "-t"]);
    if let Some(port) = host.port {
        command.arg("-p").arg(port.to_string());
    }
    command.arg(&host.name).arg(remote).stdin(Stdio::null());
    if !show_output {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn()
}

// ssh joins its arguments and gives them to a shell, so they are quoted here.
fn remote_command(
    binary: OsString,
    context: &Context,
    worker_args: &[OsString],
) -> Result<OsString, HqError> {
    let server_dir = context.server_dir.clone().into_os_string();
    let fixed = [binary, "worker".into(), "start".into(), "--server-dir".into(), server_dir];
    let mut remote = OsString::new();
    for word in fixed.iter().chain(worker_args) {
        let quoted = shlex::bytes::try_quote(word.as_bytes())
            .map_err(|_| HqError::usage("an argument for the workers contains a NUL byte"))?;
        if !remote.is_empty() {
            remote.push(" ");
        }
        remote.push(std::ffi::OsStr::from_bytes(&quoted));
    }
    Ok(remote)
}

fn hosts(content: &str) -> Result<Vec<Host>, (usize, String)> {
    let mut hosts = Vec::new();
    for (i, line) in content.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |text: String| (i + 1, text);
        if line.starts_with('-') || line.contains(char::is_whitespace) {
            return Err(bad(format!("`{line}` is not a host; use host or host:port")));
        }
        // An address with several colons is one of IPv6, whose port stands after a bracket.
        let (name, port) = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None if line.matches(':').count() == 1 => match line.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (line, None),
            },
            None => (line, None),
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(bad(format!("`{line}` has no port from 1 to 65535 after the colon"))),
        };
        if name.is_empty() {
            return Err(bad(format!("`{line}` has no host name")));
        }
        hosts.push(Host { name: name.into(), port });
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_files() {
        let host = |name: &str, port| Host { name: name.into(), port };
        let good = "node1\n\n# comment\nme@node2:2222\n[fe80::1]:22\nfe80::2\n";
        let expected = vec![
            host("node1", None),
            host("me@node2", Some(2222)),
            host("fe80::1", Some(22)),
            host("fe80::2", None),
        ];
        assert_eq!(hosts(good), Ok(expected));
        for (bad, line) in [("a\nb:x", 2), ("-oProxyCommand=x", 1), ("a b", 1), (":22", 1), ("a:0", 1)] {
            assert_eq!(hosts(bad).map_err(|(line, _)| line), Err(line), "{bad}");
        }
    }
}
