//! Connecting to a server.

use std::io;
use std::net::Ipv4Addr;

use hq_proto::{Hello, Role, VersionError};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::access::Endpoint;
use crate::frame::{FrameReceiver, FrameSender, NetError, over_tcp, over_tls};
use crate::handshake::{Misunderstanding, greet};
use crate::keys::Keys;
use crate::limits::HANDSHAKE_TIME_MAX;
use crate::socket::{self, Quiet};
use crate::tls::{WrongKey, client_config, server_name};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name of the host means nothing here.
    #[error("the host {host} of the access file is unknown here: {source}")]
    Host {
        /// The host.
        host: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("no server answers at {host}:{port}: {source}")]
    Unreachable {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// It took too long.
    #[error("the server at {host}:{port} did not answer within {} s", HANDSHAKE_TIME_MAX.as_secs())]
    Timeout {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// Another server listens there.
    #[error("the server at {host}:{port} is not the one of this access file: {reason}")]
    OtherServer {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The keys compared.
        reason: String,
    },
    /// The server does not know the key of the access file.
    #[error("the server at {host}:{port} refuses the {role} key of this access file")]
    Refused {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Whose key.
        role: Role,
    },
    /// What listens there says things that make no sense.
    #[error("what listens at {host}:{port} does not talk as this access file says: {reason}")]
    NoSense {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What it said.
        reason: String,
    },
    /// The port is for the other role.
    #[error("{host}:{port} is the server's port for a {theirs}, not for a {ours}")]
    Role {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Who connects.
        ours: Role,
        /// Who may.
        theirs: Role,
    },
    /// No protocol version in common.
    #[error(transparent)]
    Version(Box<VersionError>),
}

impl ConnectError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ConnectError::Host { .. } => {
                "publish a name or address that all nodes know, with `hq server start --host`"
            }
            ConnectError::Unreachable { .. } => {
                "the server has ended, or a firewall is between; start it with `hq server start`"
            }
            ConnectError::Timeout { .. } => "look whether the server is alive, and for a firewall in between",
            ConnectError::OtherServer { .. } | ConnectError::Refused { .. } => {
                "use the access file in the directory of the server that runs there now"
            }
            ConnectError::NoSense { .. } => {
                "see that host and port are those of the server, and that the access file is its present one"
            }
            ConnectError::Role { .. } => "client and worker ports are swapped in the access file",
            ConnectError::Version(_) => "use the same release of hq on all nodes",
        }
    }

    /// True when it may go away by itself, so that trying again makes sense.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            ConnectError::Host { .. } | ConnectError::Unreachable { .. } | ConnectError::Timeout { .. }
        )
    }
}

/// Connects, proves the keys of the endpoint and agrees on a protocol version, within 15 s.
///
/// Where the host is unknown, or nobody listens there, the server may run on this node all the same: its host may be a name
/// that only others know. With keys, that can be tried without harm.
///
/// # Errors
/// When nobody answers, one side does not accept the other's key, or the protocols differ.
pub async fn connect(endpoint: &Endpoint, role: Role) -> Result<(FrameSender, FrameReceiver), ConnectError> {
    let attempt = Attempt { endpoint, role };
    match timeout(HANDSHAKE_TIME_MAX, attempt.run()).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Timeout { host: endpoint.host.clone(), port: endpoint.port }),
    }
}

// The name of a host that is this one need not be looked up, which takes longer than the handshake.
fn is_this_node(host: &str) -> bool {
    rustix::system::uname().nodename().to_bytes() == host.as_bytes()
}

struct Attempt<'a> {
    endpoint: &'a Endpoint,
    role: Role,
}

impl Attempt<'_> {
    async fn run(&self) -> Result<(FrameSender, FrameReceiver), ConnectError> {
        let is_here = is_this_node(&self.endpoint.host);
        if is_here && let Some(connected) = self.on_this_node().await {
            return Ok(connected);
        }
        let error = match self.tcp().await {
            Ok(stream) => return self.over(stream).await,
            Err(error) => error,
        };
        let may_be_here = self.endpoint.keys.is_some() && !is_here;
        match if may_be_here { self.on_this_node().await } else { None } {
            Some(connected) => Ok(connected),
            None => Err(error),
        }
    }

    async fn on_this_node(&self) -> Option<(FrameSender, FrameReceiver)> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.endpoint.port)).await.ok()?;
        self.over(stream).await.ok()
    }

    async fn over(&self, stream: TcpStream) -> Result<(FrameSender, FrameReceiver), ConnectError> {
        socket::prepare(&stream).map_err(|source| self.unreachable(source))?;
        let (mut sender, mut receiver) = match &self.endpoint.keys {
            None => over_tcp(stream),
            Some(keys) => self.tls(stream, keys).await?,
        };
        let hello = Hello::current(self.role);
        greet(&mut sender, &mut receiver, &hello).await.map_err(|e| self.explain(e))?;
        Ok((sender, receiver))
    }

    async fn tcp(&self) -> Result<TcpStream, ConnectError> {
        let Endpoint { host, port, .. } = self.endpoint;
        let addresses = lookup_host((host.as_str(), *port))
            .await
            .map_err(|source| ConnectError::Host { host: host.clone(), source })?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(self.unreachable(last))
    }

    fn unreachable(&self, source: io::Error) -> ConnectError {
        let (host, port) = self.place();
        ConnectError::Unreachable { host, port, source }
    }

    async fn tls(
        &self,
        stream: TcpStream,
        keys: &Keys,
    ) -> Result<(FrameSender, FrameReceiver), ConnectError> {
        let connector = TlsConnector::from(client_config(&keys.secret, keys.server));
        let stream =
            connector.connect(server_name(), Quiet(stream)).await.map_err(|e| self.explain_io(&e))?;
        Ok(over_tls(stream.into()))
    }

    fn explain(&self, error: Misunderstanding) -> ConnectError {
        match error {
            Misunderstanding::Net(NetError::Io(error)) => self.explain_io(&error),
            Misunderstanding::Version(error) => ConnectError::Version(error),
            Misunderstanding::Role { ours, theirs } => {
                let (host, port) = self.place();
                ConnectError::Role { host, port, ours, theirs }
            }
            Misunderstanding::Net(NetError::TooLarge { .. }) if self.endpoint.keys.is_none() => {
                self.no_sense("it may want encryption, but the access file has no keys".to_owned())
            }
            other => self.no_sense(other.to_string()),
        }
    }

    fn explain_io(&self, error: &io::Error) -> ConnectError {
        let (host, port) = self.place();
        let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return match error.kind() {
                // Killed while it shook hands.
                kind @ (io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                    self.unreachable(kind.into())
                }
                _ => self.no_sense(error.to_string()),
            };
        };
        match tls {
            rustls::Error::InvalidCertificate(reason) => {
                let reason = match wrong_key(reason) {
                    Some(wrong) => wrong.to_string(),
                    None => format!("{reason:?}"),
                };
                ConnectError::OtherServer { host, port, reason }
            }
            rustls::Error::AlertReceived(_) => ConnectError::Refused { host, port, role: self.role },
            other => self.no_sense(other.to_string()),
        }
    }

    fn no_sense(&self, reason: String) -> ConnectError {
        let (host, port) = self.place();
        ConnectError::NoSense { host, port, reason }
    }

    fn place(&self) -> (String, u16) {
        (self.endpoint.host.clone(), self.endpoint.port)
    }
}

/// The wrong key that made a verifier say no.
pub(crate) fn wrong_key(error: &rustls::CertificateError) -> Option<WrongKey> {
    match error {
        rustls::CertificateError::Other(other) => other.0.downcast_ref().copied(),
        _ => None,
    }
}
