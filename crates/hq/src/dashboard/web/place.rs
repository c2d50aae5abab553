//! Where the dashboard is served: a port of this machine that no other machine reaches, or a socket in a directory.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::net::{TcpListener, UnixListener};

use crate::error::HqError;
use crate::http::{Listener, cannot_listen, is_loopback};

/// The port of a laptop that is named where there is only a socket.
const LAPTOP_PORT: u16 = 8642;

/// Where to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WebPlace {
    /// At a port of this machine. Of 0, one that is free.
    Port(SocketAddr),
    /// At a socket, which `ssh -L` reaches.
    Socket(PathBuf),
}

impl FromStr for WebPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<WebPlace, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = std::path::absolute(path).map_err(|_| "give a path after `unix:`".to_owned())?;
            return Ok(WebPlace::Socket(path));
        }
        let address = match text.strip_prefix("localhost:").map(str::parse) {
            Some(Ok(port)) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            _ => text.parse().map_err(|_| {
                format!("`{text}` is not an address to serve on: use 127.0.0.1:PORT, [::1]:PORT or unix:PATH")
            })?,
        };
        if !is_loopback(address.ip()) {
            return Err(format!(
                "other machines could reach {address}, and the connection is not encrypted: serve on 127.0.0.1:{} \
                 or unix:PATH, and use `ssh -L` from other machines",
                address.port()
            ));
        }
        Ok(WebPlace::Port(address))
    }
}

/// A place that is listened at.
pub(super) struct Bound {
    place: WebPlace,
}

impl Bound {
    /// Begins to listen.
    pub(super) async fn listen(place: &WebPlace) -> Result<(Listener, Bound), HqError> {
        match place {
            WebPlace::Port(address) => {
                let cannot = |error: io::Error| {
                    HqError::failed("io", cannot_listen(*address, &error))
                        .hint("`--web` alone uses a free port")
                };
                let listener = TcpListener::bind(address).await.map_err(cannot)?;
                let bound = listener.local_addr().map_err(cannot)?;
                Ok((Listener::Tcp(listener), Bound { place: WebPlace::Port(bound) }))
            }
            WebPlace::Socket(path) => {
                let listener = socket(path).map_err(|error| {
                    HqError::failed("io", format!("cannot listen on {}: {error}", path.display())).hint(
                        "give a path of less than 100 bytes in a directory that you own, on a local disk",
                    )
                })?;
                Ok((Listener::Unix(listener), Bound { place: place.clone() }))
            }
        }
    }

    /// The address under which a browser finds a page with this token.
    pub(super) fn link(&self, token: &str) -> String {
        match &self.place {
            WebPlace::Port(address) => format!("http://{address}/?token={token}"),
            WebPlace::Socket(_) => format!("http://localhost:{LAPTOP_PORT}/?token={token}"),
        }
    }

    /// The command that lets a laptop find the same under the same address.
    pub(super) fn tunnel(&self) -> String {
        let user = std::env::var("USER").unwrap_or_else(|_| "USER".to_owned());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        match &self.place {
            WebPlace::Port(address) => format!("ssh -L {}:{address} {user}@{host}", address.port()),
            WebPlace::Socket(path) => {
                format!("ssh -L {LAPTOP_PORT}:{} {user}@{host}", path.display())
            }
        }
    }

    /// True where a browser of this machine finds nothing without a tunnel.
    pub(super) fn needs_tunnel(&self) -> bool {
        matches!(self.place, WebPlace::Socket(_))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let WebPlace::Socket(path) = &self.place {
            // Nothing goes wrong when it is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

// Whoever may rename what is in a directory can put a socket of their own in the place of ours, and is given the sessions.
fn check_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let about = std::fs::metadata(directory)?;
    let (owner, mode, own) = (about.uid(), about.mode() & 0o7777, rustix::process::geteuid().as_raw());
    let why = if owner != own && owner != 0 {
        format!("belongs to user {owner}, who could put another socket there")
    } else if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        format!("has mode {mode:04o}: others could put another socket there")
    } else {
        return Ok(());
    };
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the directory {} {why}", directory.display()),
    ))
}

// One that was left behind by a command that was killed is replaced.
fn socket(path: &Path) -> io::Result<UnixListener> {
    check_directory(path)?;
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WebPlace, String> {
        text.parse()
    }

    #[test]
    fn only_this_machine_is_served() {
        for text in ["127.0.0.1:0", "127.0.0.2:8642", "[::1]:8642", "localhost:8642"] {
            assert!(
                matches!(read(text), Ok(WebPlace::Port(address)) if address.ip().is_loopback()),
                "{text}"
            );
        }
        for (text, words) in [
            ("0.0.0.0:8642", "other machines could reach 0.0.0.0:8642"),
            ("[::]:8642", "other machines could reach [::]:8642"),
            ("10.0.0.1:80", "serve on 127.0.0.1:80 or unix:PATH"),
            ("8642", "`8642` is not an address to serve on: use 127.0.0.1:PORT"),
            ("example.org:80", "`example.org:80` is not an address"),
            ("localhost:http", "`localhost:http` is not an address"),
            ("unix:", "give a path after `unix:`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(read("unix:/run/a b"), Ok(WebPlace::Socket("/run/a b".into())));
    }

    #[test]
    fn a_socket_is_in_no_directory_in_which_others_could_replace_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        for (mode, is_safe) in [(0o777, false), (0o770, false), (0o1777, true), (0o755, true), (0o700, true)]
        {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
            assert_eq!(check_directory(&path).is_ok(), is_safe, "{mode:o}");
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
        let error = socket(&path).expect_err("others could replace it").to_string();
        assert!(error.contains("has mode 0777") && !path.exists(), "{error}");
    }

    #[test]
    fn a_socket_is_for_its_user_and_replaces_one_that_was_left_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            drop(socket(&path).expect("a socket"));
            assert!(path.exists(), "it was left behind");
            let place = WebPlace::Socket(path.clone());
            let (listener, bound) = Bound::listen(&place).await.expect("a socket");
            let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let refused = Bound::listen(&place).await.err().expect("somebody listens").text;
            assert!(refused.contains("cannot listen on"), "{refused}");
            assert!(bound.tunnel().starts_with(&format!("ssh -L {LAPTOP_PORT}:{} ", path.display())));
            drop((listener, bound));
            assert!(!path.exists());
            std::fs::write(&path, "mine").expect("a file");
            assert!(Bound::listen(&place).await.is_err());
            assert!(path.exists(), "a file is left alone");
        });
    }
}
