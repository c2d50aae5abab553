//! The first frame in each direction: who speaks, and which versions of the protocol.
//!
//! It is the one message that all releases must be able to read for ever.

use std::fmt;

use prost::Message;

use crate::ProtoError;
use crate::generated as form;
use crate::limits::NAME_BYTES_MAX;
use crate::wire::{Wire, decode, wire_enum};

/// Who connects to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A client: the command line, a library.
    Client,
    /// A worker.
    Worker,
    /// Whoever takes pulled tasks, and nothing else.
    Puller,
}

wire_enum!(Role = Role, "role": Client, Worker, Puller);

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Puller => "puller",
        })
    }
}

/// The protocol versions someone speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u32,
    /// The newest, not below `oldest`.
    pub newest: u32,
}

/// Two peers have no protocol version in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this hq {our_release} speaks protocol {} to {}, the other side's hq {their_release} speaks {} to {}: \
     install a newer hq on {} side",
    ours.oldest, ours.newest, theirs.oldest, theirs.newest,
    if ours.newest < theirs.oldest { "this" } else { "the other" }
)]
pub struct VersionError {
    /// What we speak.
    pub ours: Versions,
    /// Our release.
    pub our_release: String,
    /// What they speak.
    pub theirs: Versions,
    /// Their release.
    pub their_release: String,
}

impl Versions {
    /// What this release speaks.
    pub const CURRENT: Versions = Versions { oldest: 1, newest: 2 };
    /// Since this one a connection to the port for workers may have lines.
    pub const WITH_LINES: u32 = 2;
}

/// What each side says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions it speaks.
    pub versions: Versions,
    /// Who connects; from the listener, whom it expects.
    pub role: Role,
    /// Its release, for people.
    pub release: String,
}

impl Hello {
    /// What this release says.
    pub fn current(role: Role) -> Hello {
        Hello { versions: Versions::CURRENT, role, release: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// The newest version that both speak.
    ///
    /// # Errors
    /// When there is none.
    pub fn agree(&self, theirs: &Hello) -> Result<u32, VersionError> {
        let version = self.versions.newest.min(theirs.versions.newest);
        if version < self.versions.oldest.max(theirs.versions.oldest) {
            return Err(VersionError {
                ours: self.versions,
                our_release: self.release.clone(),
                theirs: theirs.versions,
                their_release: theirs.release.clone(),
            });
        }
        Ok(version)
    }
}

/// The bytes of a hello.
pub fn encode_hello(hello: &Hello) -> Vec<u8> {
    let form = form::Hello {
        oldest: hello.versions.oldest,
        newest: hello.versions.newest,
        role: hello.role.to_wire(),
        release: hello.release.clone(),
    };
    form.encode_to_vec()
}

/// The hello in `bytes`.
///
/// # Errors
/// When they are none.
pub fn decode_hello(bytes: &[u8]) -> Result<Hello, ProtoError> {
    let form: form::Hello = decode("hello", bytes)?;
    let versions = Versions { oldest: form.oldest, newest: form.newest };
    let versions_are_possible = versions.oldest > 0 && versions.newest >= versions.oldest;
    crate::error::rule("versions", versions_are_possible, "must be a range above zero")?;
    // Shown to people and written to logs: control characters stay out.
    let release: String =
        form.release.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX / 64).collect();
    Ok(Hello { versions, role: Role::from_wire(form.role)?, release })
}

/// What a server says to a puller after the hellos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// What follows in both directions is what is said at the socket of a relay, which is this process.
    Relay(u32),
    /// There is none, and why.
    Refused(String),
}

/// The bytes of what a server says first to a puller.
pub fn encode_passage(passage: &Passage) -> Vec<u8> {
    let form = match passage {
        Passage::Relay(relay) => form::Passage { relay: *relay, refused: String::new() },
        Passage::Refused(refused) => form::Passage { relay: 0, refused: refused.clone() },
    };
    form.encode_to_vec()
}

/// What a server says first to a puller.
///
/// # Errors
/// When the bytes are no such thing.
pub fn decode_passage(bytes: &[u8]) -> Result<Passage, ProtoError> {
    let form: form::Passage = decode("passage", bytes)?;
    let refused: String = form.refused.chars().filter(|c| !c.is_control()).collect();
    if !refused.is_empty() {
        return Ok(Passage::Refused(refused));
    }
    crate::error::rule("relay", form.relay > 0, "must be a process")?;
    Ok(Passage::Relay(form.relay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_puller_is_told_which_relay_answers_or_why_none_does() {
        for passage in [Passage::Relay(17), Passage::Refused("no more processes".to_owned())] {
            assert_eq!(decode_passage(&encode_passage(&passage)), Ok(passage));
        }
        assert!(decode_passage(b"").is_err() && decode_passage(b"\xff").is_err());
        let told = decode_passage(&encode_passage(&Passage::Refused("a\x1bb".to_owned())));
        assert_eq!(told, Ok(Passage::Refused("ab".to_owned())));
        let said = encode_passage(&Passage::Refused("\x1b".to_owned()));
        assert!(decode_passage(&said).is_err(), "no reason is left, and no process is named");
    }

    fn hello(oldest: u32, newest: u32, release: &str) -> Hello {
        Hello { versions: Versions { oldest, newest }, role: Role::Worker, release: release.to_owned() }
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        for (a, b, common) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((1, 2), (3, 4), None),
            ((4, 4), (1, 3), None),
        ] {
            let (a, b) = (hello(a.0, a.1, "1"), hello(b.0, b.1, "2"));
            assert_eq!(a.agree(&b).ok(), common, "{a:?} {b:?}");
            assert_eq!(b.agree(&a).ok(), common, "{b:?} {a:?}");
        }
    }

    #[test]
    fn a_mismatch_says_what_to_upgrade() {
        let (old, new) = (hello(1, 2, "0.1.0"), hello(3, 4, "0.9.0"));
        insta::assert_snapshot!(old.agree(&new).expect_err("no common version"), @"this hq 0.1.0 speaks protocol 1 to 2, the other side's hq 0.9.0 speaks 3 to 4: install a newer hq on this side");
        insta::assert_snapshot!(new.agree(&old).expect_err("no common version"), @"this hq 0.9.0 speaks protocol 3 to 4, the other side's hq 0.1.0 speaks 1 to 2: install a newer hq on the other side");
    }

    #[test]
    fn what_is_said_is_understood() {
        let said = hello(1, 7, "0.3.0");
        assert_eq!(decode_hello(&encode_hello(&said)), Ok(said));
    }

    #[test]
    fn an_impossible_hello_is_refused() {
        for versions in [(0, 1), (2, 1), (0, 0)] {
            assert!(decode_hello(&encode_hello(&hello(versions.0, versions.1, ""))).is_err(), "{versions:?}");
        }
        assert!(decode_hello(b"GET / HTTP/1.1\r\n").is_err());
    }

    #[test]
    fn fields_of_later_releases_do_not_hurt() {
        let said = hello(1, 1, "0.3.0");
        let mut bytes = encode_hello(&said);
        bytes.extend_from_slice(&[0xfa, 0x01, 3, 1, 2, 3]);
        assert_eq!(decode_hello(&bytes), Ok(said));
    }
}
