//! Keys: ed25519, as 32 bytes in hexadecimal digits.
//!
//! A key is an identity by itself. There are no certificates, names or dates: each side knows the one
//! public key the other side must have.

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// The keys in one role's part of an access file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// With it clients, or workers, prove that they may connect.
    pub secret: SecretKey,
    /// By it they recognize the server.
    pub server: PublicKey,
    /// With it the server proves that it is the one. Only in the server's own file.
    pub server_secret: Option<SecretKey>,
}

/// A private key. Never printed, but for [`SecretKey::to_hex`].
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; KEY_BYTES]);

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits.
    #[error("a key is 64 hexadecimal digits")]
    Digits,
    /// The server's two keys do not belong together.
    #[error("server_key is not the public key of server_secret_key")]
    Mismatch,
}

impl Keys {
    /// Fresh keys for one role and its server.
    pub fn generate() -> Keys {
        let server_secret = SecretKey::generate();
        Keys {
            secret: SecretKey::generate(),
            server: server_secret.public(),
            server_secret: Some(server_secret),
        }
    }
}

impl SecretKey {
    /// A fresh key.
    pub fn generate() -> SecretKey {
        let mut bytes = [0; KEY_BYTES];
        // The system's source fails only where the kernel offers none at all: nothing could be safe there.
        SystemRandom::new().fill(&mut bytes).expect("the kernel gives random bytes");
        SecretKey(bytes)
    }

    /// Its public key.
    pub fn public(&self) -> PublicKey {
        let pair = Ed25519KeyPair::from_seed_unchecked(&self.0).expect("every 32 bytes are a private key");
        let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        PublicKey(public)
    }

    /// For the access file.
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// The PKCS #8 form of the key.
    pub(crate) fn to_der(&self) -> Vec<u8> {
        const PREFIX: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        [&PREFIX[..], &self.0].concat()
    }
}

impl PublicKey {
    /// The first 8 digits: enough for a person to compare.
    pub fn fingerprint(&self) -> String {
        to_hex(&self.0[..4])
    }

    /// The `SubjectPublicKeyInfo` form of the key, as TLS sends it.
    pub(crate) fn to_der(self) -> Vec<u8> {
        [&Self::DER_PREFIX[..], &self.0].concat()
    }

    /// The key in its `SubjectPublicKeyInfo` form.
    pub(crate) fn from_der(der: &[u8]) -> Option<PublicKey> {
        der.strip_prefix(&Self::DER_PREFIX)?.try_into().ok().map(PublicKey)
    }

    const DER_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
}

impl FromStr for SecretKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        from_hex(text).map(SecretKey)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        from_hex(text).map(PublicKey)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return Err(KeyError::Digits);
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16).ok_or(KeyError::Digits)?;
        let low = char::from(pair[1]).to_digit(16).ok_or(KeyError::Digits)?;
        *byte = (high * 16 + low) as u8;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let secret = SecretKey::generate();
        assert_eq!(secret.to_hex().parse(), Ok(secret.clone()));
        let public = secret.public();
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(PublicKey::from_der(&public.to_der()), Some(public));
    }

    #[test]
    fn a_public_key_is_the_one_of_the_standard() {
        // The first test vector of RFC 8032.
        let secret: SecretKey =
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60".parse().expect("64 digits");
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(secret.public().to_string(), public);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digit = "0".repeat(63);
        for text in ["", "12", &digit, &format!("{digit}g"), &format!("{digit}00"), &format!("{digit}é")] {
            assert_eq!(text.parse::<SecretKey>(), Err(KeyError::Digits), "{text:?}");
        }
    }

    #[test]
    fn a_private_key_is_never_printed() {
        let keys = Keys::generate();
        let shown = format!("{keys:?}");
        assert!(!shown.contains(&keys.secret.to_hex()), "{shown}");
    }
}
