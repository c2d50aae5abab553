//! Who a server is: its name, keys, hosts and ports, kept from one start to the next.

use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::Path;

use hq_net::{AccessError, AccessFile, Endpoint, Keys, Role};
use tracing::warn;

use crate::error::ServerError;
use crate::options::ServerOptions;

/// Letters and digits of a server's name.
const UID_CHARACTERS: usize = 6;

/// An identity before the ports are bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Identity {
    /// Name, hosts, keys, and the ports to try.
    pub(crate) access: AccessFile,
    /// The port for clients must be that one.
    pub(crate) client_port_is_fixed: bool,
    /// The port for workers must be that one.
    pub(crate) worker_port_is_fixed: bool,
}

/// A new name for a server: six letters and digits.
///
/// # Errors
/// When the system has no randomness.
pub fn new_uid() -> Result<String, ServerError> {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut uid = String::new();
    while uid.len() < UID_CHARACTERS {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| ServerError::System {
            what: "no random bytes",
            source: io::Error::other(e.to_string()),
        })?;
        // 248 = 4 * 62: each character is equally likely.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        uid.extend(
            fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)])).take(UID_CHARACTERS - uid.len()),
        );
    }
    Ok(uid)
}

/// Decides who a starting server is. `saved` is the identity of the time before, `journal_uid` the
/// name in the journal that it continues, if it does.
pub(crate) fn choose(
    options: &ServerOptions,
    saved: Option<AccessFile>,
    journal_uid: Option<&str>,
    default_host: &dyn Fn() -> String,
) -> Result<Identity, ServerError> {
    let given = options.access_file.as_deref().map(load_given).transpose()?;
    if let (Some(given), Some(journal)) = (&given, journal_uid)
        && given.server_uid != journal
    {
        let access = given.server_uid.clone();
        return Err(ServerError::OtherServer { access, journal: journal.to_owned() });
    }
    let saved = saved.filter(|saved| journal_uid == Some(saved.server_uid.as_str()));
    let uid = match (&given, journal_uid) {
        (Some(given), _) => given.server_uid.clone(),
        (None, Some(journal)) => journal.to_owned(),
        (None, None) => new_uid()?,
    };
    let endpoint = |role: Role, port: Option<u16>, encrypt: bool| {
        let part = |file: &AccessFile| file.endpoint(role).ok().cloned();
        let from_file = given.as_ref().and_then(part);
        let is_given = from_file.is_some();
        let before = from_file.or_else(|| saved.as_ref().and_then(part));
        let host = match (&options.host, &before) {
            (Some(host), _) => host.clone(),
            (None, Some(endpoint)) if is_given => endpoint.host.clone(),
            (None, _) => default_host(),
        };
        let keys = match &before {
            _ if !encrypt => None,
            // A file made for running without keys is followed.
            Some(endpoint) if is_given => endpoint.keys.clone(),
            Some(endpoint) => Some(endpoint.keys.clone().unwrap_or_else(Keys::generate)),
            None => Some(Keys::generate()),
        };
        let is_fixed = port.is_some_and(|port| port != 0) || is_given;
        let port = port.or(before.map(|endpoint| endpoint.port)).unwrap_or(0);
        (Endpoint { host, port, keys }, is_fixed && port != 0)
    };
    let (client, client_port_is_fixed) = endpoint(Role::Client, options.client_port, options.encrypt_clients);
    let (worker, worker_port_is_fixed) = endpoint(Role::Worker, options.worker_port, options.encrypt_workers);
    let version = options.version.clone();
    let pulled = given.as_ref().or(saved.as_ref());
    let puller = pulled.and_then(|file| puller_part(file.puller.as_ref()?, &client));
    let pull_bags =
        pulled.filter(|_| puller.is_some()).map(|file| file.pull_bags.clone()).unwrap_or_default();
    let access = AccessFile {
        version,
        server_uid: uid,
        client: Some(client),
        worker: Some(worker),
        puller,
        pull_bags,
    };
    Ok(Identity { access, client_port_is_fixed, worker_port_is_fixed })
}

// Pullers come where clients come, to a server that proves the same key; where it proves none, nobody can tell them from clients.
fn puller_part(puller: &Endpoint, client: &Endpoint) -> Option<Endpoint> {
    let server = client.keys.as_ref()?.server;
    let keys = puller.keys.clone().filter(|keys| keys.server == server)?;
    Some(Endpoint { keys: Some(keys), ..client.clone() })
}

// A full file: a server needs both parts.
fn load_given(path: &Path) -> Result<AccessFile, ServerError> {
    let file = AccessFile::load(path).map_err(|error| match error {
        AccessError::Missing { path } => ServerError::NoAccessFile { path },
        error => error.into(),
    })?;
    file.endpoint(Role::Client)?;
    file.endpoint(Role::Worker)?;
    Ok(file)
}

/// The name under which this node is published: its own name, as long as that means something here.
pub(crate) fn node_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if (name.as_str(), 0).to_socket_addrs().is_ok_and(|mut found| found.next().is_some()) {
        return name;
    }
    let address = own_address().unwrap_or_else(|| "127.0.0.1".to_owned());
    let hint = "use --host to give the name that other nodes use";
    warn!(name, address, hint, "the name of this node is unknown to itself; publishing an address instead");
    address
}

// The address this node would use to speak to others. Nothing is sent.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    // An address kept for documentation: a route to anywhere is all that matters.
    socket.connect(("192.0.2.1", 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then(|| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(options: &ServerOptions, saved: Option<AccessFile>, journal: Option<&str>) -> Identity {
        choose(options, saved, journal, &|| "node".to_owned()).expect("an identity")
    }

    fn saved() -> AccessFile {
        AccessFile::generate("aB3dE6", ("old", 4000), ("old", 4001), true, true)
    }

    fn keys(access: &AccessFile, role: Role) -> Option<Keys> {
        access.endpoint(role).expect("both parts").keys.clone()
    }

    fn ports(identity: &Identity) -> (u16, u16, bool, bool) {
        let port = |role| identity.access.endpoint(role).expect("both parts").port;
        let fixed = (identity.client_port_is_fixed, identity.worker_port_is_fixed);
        (port(Role::Client), port(Role::Worker), fixed.0, fixed.1)
    }

    #[test]
    fn names_are_six_letters_and_digits_and_differ() {
        let (one, two) = (new_uid().expect("random"), new_uid().expect("random"));
        for uid in [&one, &two] {
            assert!(uid.len() == 6 && uid.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{uid}");
        }
        assert_ne!(one, two);
    }

    #[test]
    fn a_journal_is_continued_under_its_name_with_the_same_keys_and_ports() {
        let saved = saved();
        let identity = chosen(&ServerOptions::new("d"), Some(saved.clone()), Some("aB3dE6"));
        assert_eq!(identity.access.server_uid, "aB3dE6");
        assert_eq!(ports(&identity), (4000, 4001, false, false));
        for role in [Role::Client, Role::Worker] {
            assert_eq!(keys(&identity.access, role), keys(&saved, role));
        }
        // The node may have changed.
        assert_eq!(identity.access.endpoint(Role::Client).expect("a part").host, "node");
    }

    #[test]
    fn without_the_journal_of_that_name_keys_and_name_are_new() {
        let saved = saved();
        for journal in [None, Some("ZZZZZZ")] {
            let identity = chosen(&ServerOptions::new("d"), Some(saved.clone()), journal);
            assert_eq!(ports(&identity), (0, 0, false, false));
            assert_ne!(keys(&identity.access, Role::Client), keys(&saved, Role::Client));
            assert_ne!(identity.access.server_uid, saved.server_uid);
            assert!(journal.is_none_or(|journal| identity.access.server_uid == journal));
        }
    }

    #[test]
    fn given_ports_and_missing_keys_are_respected() {
        let mut options = ServerOptions::new("d");
        options.client_port = Some(5000);
        options.encrypt_workers = false;
        options.host = Some("given".to_owned());
        let identity = chosen(&options, Some(saved()), Some("aB3dE6"));
        assert_eq!(ports(&identity), (5000, 4001, true, false));
        assert_eq!(keys(&identity.access, Role::Worker), None);
        assert!(keys(&identity.access, Role::Client).is_some());
        assert_eq!(identity.access.endpoint(Role::Worker).expect("a part").host, "given");
    }

    #[test]
    fn an_access_file_made_ahead_decides() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let path = temporary.path().join("access.json");
        let file = AccessFile::generate("fIl3aa", ("c", 7000), ("w", 7001), true, false);
        file.save(&path).expect("writable");
        let mut options = ServerOptions::new("d");
        options.access_file = Some(path.clone());
        let identity = chosen(&options, Some(saved()), None);
        assert_eq!(identity.access.server_uid, "fIl3aa");
        assert_eq!(
            (identity.access.client.clone(), identity.access.worker.clone()),
            (file.client, file.worker)
        );
        assert_eq!(ports(&identity), (7000, 7001, true, true));

        let other = choose(&options, None, Some("aB3dE6"), &|| String::new());
        assert!(matches!(other, Err(ServerError::OtherServer { .. })), "{other:?}");
        let part = identity.access.without_server_keys(Some(Role::Client));
        part.save(&path).expect("writable");
        assert!(matches!(choose(&options, None, None, &|| String::new()), Err(ServerError::Access(_))));
    }
}
