//! Listening for clients or workers.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hq_proto::{Hello, ProtoError, Role, VersionError};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::access::Endpoint;
use crate::ahead::Ahead;
use crate::connect::wrong_key;
use crate::frame::{FrameReceiver, FrameSender, NetError, over_tcp, over_tls};
use crate::half_open::{HalfOpen, Permit};
use crate::handshake::{Misunderstanding, greet};
use crate::keys::PublicKey;
use crate::limits::{BACKLOG, HANDSHAKE_TIME_MAX, HELLO_FRAME_MAX, LINGER_BYTES_MAX, LINGER_TIME_MAX};
use crate::silent::Silent;
use crate::socket;
use crate::tls::{peer_key, server_config};

/// All interfaces, IPv6 and IPv4. Where there is no IPv6, all of IPv4.
pub const ANY_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A port for clients or workers.
#[derive(Debug)]
pub struct Listener {
    silent: Silent,
    port: u16,
    role: Role,
    tls: Option<Arc<ServerConfig>>,
    // Whose key, beside those of the role, lets in, too.
    other: Option<(Role, PublicKey)>,
    half_open: Arc<HalfOpen>,
    /// That connections cannot be accepted was said.
    is_trouble_told: AtomicBool,
}

/// A connection whose first message is there, unread.
#[derive(Debug)]
pub struct Incoming {
    stream: TcpStream,
    permit: Permit,
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port cannot be had.
    #[error("cannot listen for {role}s on port {port} of {address}: {source}")]
    Port {
        /// For whom.
        role: Role,
        /// The address.
        address: IpAddr,
        /// The port; 0 was any.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// The access file is one for clients or workers.
    #[error("the access file has no private key of the server for {role}s")]
    NoServerKey {
        /// Which key.
        role: Role,
    },
}

impl ListenError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ListenError::Port { .. } => "choose another port, or omit it to let the server choose",
            ListenError::NoServerKey { .. } => {
                "start the server with the full file that `hq server generate-access` wrote"
            }
        }
    }
}

/// Why a connection was turned away.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// It took too long.
    #[error("no handshake within {} s", HANDSHAKE_TIME_MAX.as_secs())]
    Timeout,
    /// Others needed its place, and it had stopped in the middle.
    #[error("too many unfinished handshakes")]
    CutShort,
    /// It has no key, or another.
    #[error("not the key of a {role}: {reason}")]
    Key {
        /// Whose key it should be.
        role: Role,
        /// What was compared.
        reason: String,
    },
    /// It does not speak TLS as we do.
    #[error("TLS handshake failed: {0}")]
    Tls(#[source] io::Error),
    /// The connection broke, or a frame was too large.
    #[error(transparent)]
    Net(NetError),
    /// It closed the connection.
    #[error("closed before its hello")]
    Closed,
    /// Its first frame is no hello.
    #[error(transparent)]
    Hello(ProtoError),
    /// It came to the port of the other role.
    #[error("a {theirs} came to the port for a {ours}")]
    Role {
        /// Whom the port is for.
        ours: Role,
        /// Who came.
        theirs: Role,
    },
    /// No protocol version in common.
    #[error(transparent)]
    Version(Box<VersionError>),
}

impl Listener {
    /// Listens at `port` (0: any that is free) of `address`, for the holders of the endpoint's keys.
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    /// When the port cannot be had or the endpoint lacks the server's private key.
    pub fn bind(
        address: IpAddr,
        port: u16,
        endpoint: &Endpoint,
        role: Role,
    ) -> Result<Listener, ListenError> {
        Listener::bind_for(address, port, endpoint, role, None)
    }

    /// The same for the holder of another key, too, who comes in another role. Without keys nobody else comes.
    ///
    /// # Errors
    /// As above.
    pub fn bind_for(
        address: IpAddr,
        port: u16,
        endpoint: &Endpoint,
        role: Role,
        other: Option<(Role, PublicKey)>,
    ) -> Result<Listener, ListenError> {
        let tls = match &endpoint.keys {
            None => None,
            Some(keys) => {
                let secret = keys.server_secret.as_ref().ok_or(ListenError::NoServerKey { role })?;
                let others = other.map(|(_, key)| key);
                Some(server_config(secret, [keys.secret.public()].into_iter().chain(others).collect()))
            }
        };
        let error = |source| ListenError::Port { role, address, port, source };
        let socket = match listen(SocketAddr::new(address, port)) {
            Err(e) if address == ANY_ADDRESS && is_no_ipv6(&e) => {
                listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
            }
            result => result,
        };
        let socket = socket.map_err(error)?;
        let port = socket.local_addr().map_err(error)?.port();
        let silent = Silent::new(socket, tls.is_some()).map_err(error)?;
        let half_open = Arc::default();
        Ok(Listener { silent, port, role, tls, other, half_open, is_trouble_told: AtomicBool::new(false) })
    }

    /// The port it listens at.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next connection that has spoken, for [`Listener::handshake`] in a task of its own. Those that say
    /// nothing are never waited for. Dropping the future loses nothing.
    pub async fn accept(&self) -> (Incoming, SocketAddr) {
        loop {
            let source = self.silent.next_source();
            let permit = source.and_then(|source| self.half_open.enter(source.ip()));
            if let Some(permit) = permit
                && let Some(connection) = self.silent.take()
            {
                match TcpStream::from_std(connection.stream) {
                    Ok(stream) => return (Incoming { stream, permit }, connection.address),
                    Err(error) => self.in_trouble(&error),
                }
                continue;
            }
            tokio::select! {
                result = self.silent.change() => match result {
                    Ok(()) => self.is_trouble_told.store(false, Ordering::Relaxed),
                    Err(error) => self.in_trouble(&error),
                },
                () = self.half_open.left(), if source.is_some() => {}
            }
        }
    }

    fn in_trouble(&self, error: &io::Error) {
        if !self.is_trouble_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(role = %self.role, port = self.port, %error, "cannot accept connections");
        }
    }

    /// Lets the peer prove its key and agrees on a protocol version, within 15 s. Nothing the peer says
    /// is looked at before it has proved its key.
    ///
    /// # Errors
    /// When it cannot, does not in time, or the protocols differ. The connection is closed then.
    pub async fn handshake(
        &self,
        incoming: Incoming,
    ) -> Result<(FrameSender, FrameReceiver), HandshakeError> {
        let Incoming { stream, permit } = incoming;
        let mut greeting = pin!(timeout(HANDSHAKE_TIME_MAX, self.greet(stream)));
        // What the peer has said was answered when this is not ready.
        let greeting = poll_fn(|context| {
            let result = greeting.as_mut().poll(context);
            if result.is_pending() {
                permit.waits();
            }
            result
        });
        tokio::select! {
            result = greeting => match result {
                Ok(result) => result,
                Err(_) => Err(HandshakeError::Timeout),
            },
            () = permit.cut_short() => Err(HandshakeError::CutShort),
        }
    }

    async fn greet(&self, stream: TcpStream) -> Result<(FrameSender, FrameReceiver), HandshakeError> {
        socket::prepare(&stream).map_err(|e| HandshakeError::Net(NetError::Io(e)))?;
        let ((mut sender, mut receiver), role) = match &self.tls {
            None => (over_tcp(stream), self.role),
            Some(config) => self.tls(config, stream).await?,
        };
        match greet(&mut sender, &mut receiver, &Hello::current(role)).await {
            Ok(()) => Ok((sender, receiver)),
            Err(error) => Err(self.explain(error)),
        }
    }

    async fn tls(
        &self,
        config: &Arc<ServerConfig>,
        stream: TcpStream,
    ) -> Result<((FrameSender, FrameReceiver), Role), HandshakeError> {
        let accept = TlsAcceptor::from(config.clone()).accept(Ahead::new(stream)).into_fallible();
        match accept.await {
            Ok(stream) => {
                let role = self.role_of(peer_key(stream.get_ref().1));
                Ok((over_tls(stream.into()), role))
            }
            Err((error, stream)) => {
                linger(stream).await;
                Err(self.explain_io(error))
            }
        }
    }

    // The key alone says what somebody may be, whatever it says itself.
    fn role_of(&self, key: Option<PublicKey>) -> Role {
        let is_theirs = |other: &(Role, PublicKey)| key == Some(other.1);
        self.other.filter(is_theirs).map_or(self.role, |(role, _)| role)
    }

    fn explain(&self, error: Misunderstanding) -> HandshakeError {
        match error {
            Misunderstanding::Net(NetError::Io(error)) => self.explain_io(error),
            Misunderstanding::Net(error) => HandshakeError::Net(error),
            Misunderstanding::Silence => HandshakeError::Closed,
            Misunderstanding::Hello(error) => HandshakeError::Hello(error),
            Misunderstanding::Role { ours, theirs } => HandshakeError::Role { ours, theirs },
            Misunderstanding::Version(error) => HandshakeError::Version(error),
        }
    }

    fn explain_io(&self, error: io::Error) -> HandshakeError {
        let role = self.role;
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(reason)) => {
                let reason = match wrong_key(reason) {
                    Some(wrong) => wrong.to_string(),
                    None => format!("{reason:?}"),
                };
                HandshakeError::Key { role, reason }
            }
            Some(rustls::Error::NoCertificatesPresented) => {
                HandshakeError::Key { role, reason: "it showed none".to_owned() }
            }
            _ if error.kind() == io::ErrorKind::UnexpectedEof => HandshakeError::Closed,
            _ => HandshakeError::Tls(error),
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn is_no_ipv6(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL]
        .iter()
        .any(|e| code == Some(e.raw_os_error()))
}

// Closing with bytes unread would reset the connection, and the peer would never see the alert that
// says why. So we stop speaking and listen for a moment.
async fn linger(mut stream: Ahead<TcpStream>) {
    let mut seen = 0;
    let mut buffer = [0; HELLO_FRAME_MAX];
    let drain = async {
        stream.shutdown().await?;
        while seen < LINGER_BYTES_MAX {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => seen += count,
            }
        }
        io::Result::Ok(())
    };
    // However it ends, the connection is closed.
    let _ = timeout(LINGER_TIME_MAX, drain).await;
}
