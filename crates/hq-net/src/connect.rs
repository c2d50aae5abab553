//! Connecting to a server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hq_proto::{Hello, Role, VersionError};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::access::Endpoint;
use crate::ahead::Ahead;
use crate::frame::{FrameReceiver, FrameSender, NetError, over_tcp, over_tls};
use crate::handshake::{Misunderstanding, greet};
use crate::keys::Keys;
use crate::limits::{CONNECT_TIME_MAX, HANDSHAKE_TIME_MAX};
use crate::socket::{self, Quiet};
use crate::tls::{WrongKey, client_config, server_name};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name of the host means nothing here.
    #[error("the host {host} in the access file cannot be resolved here: {source}")]
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
    /// What is sent there is swallowed.
    #[error(
        "nothing answers at {host}:{port}: connecting to {} timed out after {} s",
        list(addresses), CONNECT_TIME_MAX.as_secs()
    )]
    Swallowed {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Its addresses.
        addresses: Vec<IpAddr>,
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
    #[error(
        "the program listening on {host}:{port} does not use the protocol given in the access file: {reason}"
    )]
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
                "publish a name or address that all nodes can resolve, with `hq server start --host`"
            }
            ConnectError::Unreachable { .. } => {
                "the server has ended, or a firewall is in between; start it with `hq server start`"
            }
            ConnectError::Swallowed { .. } => {
                "the node is down or a firewall is in between; if nodes can reach the server under another name or \
                 address, publish that with `hq server start --host`"
            }
            ConnectError::Timeout { .. } => {
                "check whether the server is running, and whether a firewall is in \
                between"
            }
            ConnectError::OtherServer { .. } | ConnectError::Refused { .. } => {
                "use the access file in the directory of the server that runs there now"
            }
            ConnectError::NoSense { .. } => {
                "check that host and port are those of the server, and that the access file is its current one"
            }
            ConnectError::Role { .. } => "client and worker ports are swapped in the access file",
            ConnectError::Version(_) => "use the same release of hq on all nodes",
        }
    }

    /// True when it may go away by itself, so that trying again makes sense.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            ConnectError::Host { .. }
                | ConnectError::Unreachable { .. }
                | ConnectError::Swallowed { .. }
                | ConnectError::Timeout { .. }
        )
    }
}

// As people read it.
fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// Connects, proves the keys of the endpoint and agrees on a protocol version, within 15 s.
///
/// Where the host is unknown, or nobody answers there, the server may run on this node all the same: its host may be a name
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
        let addresses: Vec<SocketAddr> = addresses.collect();
        self.first_of(&addresses, TcpStream::connect).await
    }

    // Each address has its part of the time: one that swallows what is sent there keeps nobody from the next.
    async fn first_of<T, F: Future<Output = io::Result<T>>>(
        &self,
        addresses: &[SocketAddr],
        dial: impl Fn(SocketAddr) -> F,
    ) -> Result<T, ConnectError> {
        let end = Instant::now() + CONNECT_TIME_MAX;
        let (mut swallowed, mut refused) = (Vec::new(), None);
        for (i, address) in addresses.iter().enumerate() {
            let part = (end - Instant::now()) / (addresses.len() - i) as u32;
            match timeout(part, dial(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => refused = Some(error),
                Err(_) => swallowed.push(address.ip()),
            }
        }
        if !swallowed.is_empty() {
            let (host, port) = self.place();
            return Err(ConnectError::Swallowed { host, port, addresses: swallowed });
        }
        Err(self.unreachable(refused.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())))
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
        let stream = connector.connect(server_name(), Ahead::new(Quiet(stream)));
        let stream = stream.await.map_err(|e| self.explain_io(&e))?;
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
                self.no_sense("it may require encryption, but the access file has no keys".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    // Of each address: a number as what is connected, nothing for one that swallows, or what the system says.
    async fn first_of(dials: &[Option<Result<u32, io::ErrorKind>>]) -> Result<u32, ConnectError> {
        let endpoint = Endpoint { host: "head".to_owned(), port: 7, keys: None };
        let addresses: Vec<SocketAddr> = (0..dials.len()).map(|i| ([10, 0, 0, i as u8], 7).into()).collect();
        let attempt = Attempt { endpoint: &endpoint, role: Role::Worker };
        let begin = Instant::now();
        let dial = |address: SocketAddr| async move {
            match dials[place_of(address)] {
                Some(result) => result.map_err(io::Error::from),
                None => std::future::pending().await,
            }
        };
        let result = attempt.first_of(&addresses, dial).await;
        assert!(begin.elapsed() <= CONNECT_TIME_MAX + std::time::Duration::from_millis(10));
        result
    }

    fn place_of(address: SocketAddr) -> usize {
        match address.ip() {
            IpAddr::V4(ip) => ip.octets()[3].into(),
            IpAddr::V6(_) => unreachable!("all are of the old kind"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_swallows_everything_keeps_nobody_from_the_next() {
        let refused = Some(Err(io::ErrorKind::ConnectionRefused));
        assert_eq!(first_of(&[None, refused, None, Some(Ok(4))]).await.expect("the last one answers"), 4);
        let error = first_of(&[None, refused, None]).await.expect_err("none answers");
        assert!(error.is_transient() && error.hint().contains("--host"), "{}", error.hint());
        insta::assert_snapshot!(error, @"nothing answers at head:7: connecting to 10.0.0.0, 10.0.0.2 timed out \
            after 10 s");
        let error = first_of(&[refused]).await.expect_err("it does not listen");
        insta::assert_snapshot!(error, @"no server answers at head:7: connection refused");
        let error = first_of(&[]).await.expect_err("no address");
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    }
}
