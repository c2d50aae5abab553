//! TLS 1.3 with raw public keys (RFC 7250), both sides pinned to the one key the other must have.
//!
//! There is nothing to trust but the key: no certificates, no names, no dates, since the clocks of
//! nodes are wrong. Signatures are checked by the provider as always. Sessions are never resumed, so
//! each connection proves both keys.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError, PeerIncompatible,
    ServerConfig, SignatureScheme,
};

use crate::keys::{PublicKey, SecretKey};

/// The peer's key is not the one it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the key {}, found {}", expected.fingerprint(), shown(found))]
pub(crate) struct WrongKey {
    /// The pinned key; of several, the first.
    pub(crate) expected: PublicKey,
    /// The key it has, when it is one of our kind.
    pub(crate) found: Option<PublicKey>,
}

fn shown(found: &Option<PublicKey>) -> String {
    found.map_or_else(|| "no key of hq".to_owned(), |key| key.fingerprint())
}

/// How to connect to a server.
pub(crate) fn client_config(secret: &SecretKey, server: PublicKey) -> Arc<ClientConfig> {
    let provider = provider();
    let resolver = AlwaysResolvesClientRawPublicKeys::new(certified(secret, &provider));
    let mut config = ClientConfig::builder_with_details(provider.clone(), Arc::new(NoTime))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has suites of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(vec![server], &provider)))
        .with_client_cert_resolver(Arc::new(resolver));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(config)
}

/// How to accept the holders of some keys, of which there is at least one.
pub(crate) fn server_config(secret: &SecretKey, peers: Vec<PublicKey>) -> Arc<ServerConfig> {
    let provider = provider();
    let resolver = AlwaysResolvesServerRawPublicKeys::new(certified(secret, &provider));
    let mut config = ServerConfig::builder_with_details(provider.clone(), Arc::new(NoTime))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has suites of TLS 1.3")
        .with_client_cert_verifier(Arc::new(Pinned::new(peers, &provider)))
        .with_cert_resolver(Arc::new(resolver));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

// One key exchange, and the cheapest of the ciphers first: on hardware with AES instructions the
// shorter key saves a quarter of the time, and nobody breaks either.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    })
}

// No date is looked at, and that of the system panics when its clock shows a time before 1970.
#[derive(Debug)]
struct NoTime;

impl TimeProvider for NoTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// The name that TLS wants; it is neither sent nor compared.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("hq").expect("a valid name")
}

fn certified(secret: &SecretKey, provider: &CryptoProvider) -> Arc<CertifiedKey> {
    let der = PrivatePkcs8KeyDer::from(secret.to_der());
    let key = provider.key_provider.load_private_key(der.into()).expect("the provider knows ed25519");
    let public = CertificateDer::from(secret.public().to_der());
    Arc::new(CertifiedKey::new(vec![public], key))
}

/// The key that a peer has proved.
pub(crate) fn peer_key(connection: &rustls::CommonState) -> Option<PublicKey> {
    PublicKey::from_der(connection.peer_certificates()?.first()?)
}

/// Accepts some keys.
#[derive(Debug)]
struct Pinned {
    expected: Vec<PublicKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(expected: Vec<PublicKey>, provider: &CryptoProvider) -> Pinned {
        Pinned { expected, algorithms: provider.signature_verification_algorithms }
    }

    fn check_key(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let found = PublicKey::from_der(presented);
        if found.is_some_and(|found| self.expected.contains(&found)) {
            return Ok(());
        }
        let wrong = WrongKey { expected: self.expected[0], found };
        Err(CertificateError::Other(OtherError(Arc::new(wrong))).into())
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

fn only_tls13() -> rustls::Error {
    PeerIncompatible::Tls12NotOffered.into()
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check_key(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check_key(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
