//! The access file: where a server listens, and the keys that let someone in.
//!
//! The server's own file holds everything. Clients and workers get it without the server's private
//! keys, perhaps with the part of one role only. Whoever can read a role's part can act in that role.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hq_proto::Role;
use serde::{Deserialize, Serialize};

use crate::keys::{KeyError, Keys, SecretKey};
use crate::limits::ACCESS_FILE_MAX;
use crate::trust;

/// Name of the link in a server directory to that of the server's latest start.
pub const CURRENT: &str = "hq-current";

/// The content of an access file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFile {
    /// Release of hq that wrote it; for people.
    pub version: String,
    /// Names the server: six letters and digits.
    pub server_uid: String,
    /// For clients; absent in a file for workers only.
    pub client: Option<Endpoint>,
    /// For workers; absent in a file for clients only.
    pub worker: Option<Endpoint>,
    /// For those who take pulled tasks and do nothing else, at the port for clients; absent unless it was asked for.
    pub puller: Option<Endpoint>,
    /// The bags of which these may know.
    pub pull_bags: Vec<String>,
}

/// Where and how to connect in one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address of the server's host.
    pub host: String,
    /// Port; 0 before the server has chosen one.
    pub port: u16,
    /// `None` switches authentication and encryption off.
    pub keys: Option<Keys>,
}

/// The server directory of what `hq run` has started, which has no server: nothing can be made there. `HQ_RUN` says so.
pub const NO_SERVER_DIR: &str = "/dev/null/hq-run-has-no-server";

/// True for a path within [`NO_SERVER_DIR`].
pub fn has_no_server(path: &Path) -> bool {
    path.starts_with(NO_SERVER_DIR)
}

/// Why an access file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// There is no such file.
    #[error("no access file at {}", path.display())]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("the access file {} cannot be read: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("the access file {} cannot be written: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is cut off or no access file at all.
    #[error("{} is not a valid access file: {reason}", path.display())]
    Invalid {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// It, or a directory on the way to it, belongs to another user.
    #[error("{} belongs to user {owner} and not to you (user {own}): it may lead to another server", path.display())]
    Foreign {
        /// Its path.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
        /// Number of this user.
        own: u32,
    },
    /// Others may do with it, or with a directory on the way to it, what only its owner should.
    #[error(
        "other users may {harm} {} (mode {mode:04o}): fix it with `chmod {safe_mode:o} {}`",
        path.display(), for_shell(path)
    )]
    Exposed {
        /// Its path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What others may do.
        harm: &'static str,
        /// A mode that is safe.
        safe_mode: u32,
    },
    /// It was made for another role.
    #[error("the access file of server {server_uid} has no section for a {role}")]
    NoRole {
        /// The server.
        server_uid: String,
        /// The part that was asked for.
        role: Role,
    },
}

// As a shell takes it for one word.
fn for_shell(path: &Path) -> String {
    let path = path.to_string_lossy();
    shlex::try_quote(&path).unwrap_or(Cow::Borrowed(&path)).into_owned()
}

impl AccessError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            AccessError::Missing { path } | AccessError::Read { path, .. } if has_no_server(path) => {
                "use `hq submit` for tasks that need a server; `hq run --env HQ_SERVER_DIR=DIR` lets tasks use another one"
            }
            AccessError::Missing { .. } => {
                "start a server with `hq server start`, or give its directory with --server-dir"
            }
            AccessError::Read { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                "--server-dir and HQ_SERVER_DIR must be a directory, but this is a file"
            }
            AccessError::Read { .. } => "only the user who started the server may read it",
            AccessError::Write { .. } => "check the permissions and the free space of the server directory",
            AccessError::Invalid { .. } => {
                "copy it again from the server, or create a new one with `hq server generate-access`"
            }
            AccessError::Foreign { .. } => {
                "use your own directory and access file; set the directory with --server-dir"
            }
            AccessError::Exposed { .. } => {
                "first make sure that it has not been tampered with; anyone who could read the keys still knows \
                 them: `hq server start` creates new ones in an empty directory"
            }
            AccessError::NoRole { .. } => {
                "use the file that `hq server generate-access` wrote for this role, or the full one"
            }
        }
    }
}

impl AccessFile {
    /// A full file with fresh keys, for a server that will listen there. A role that is not encrypted
    /// gets no keys.
    pub fn generate(
        uid: impl Into<String>,
        client: (impl Into<String>, u16),
        worker: (impl Into<String>, u16),
        encrypt_client: bool,
        encrypt_worker: bool,
    ) -> AccessFile {
        let endpoint = |host: String, port: u16, encrypt: bool| {
            Some(Endpoint { host, port, keys: encrypt.then(Keys::generate) })
        };
        AccessFile {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server_uid: uid.into(),
            client: endpoint(client.0.into(), client.1, encrypt_client),
            worker: endpoint(worker.0.into(), worker.1, encrypt_worker),
            puller: None,
            pull_bags: Vec::new(),
        }
    }

    /// Adds a part for those who take tasks of these bags, with a fresh key. Where clients are not encrypted there is none: no
    /// key would tell one from the other.
    pub fn with_puller(mut self, bags: Vec<String>) -> AccessFile {
        let part = self.client.as_ref().and_then(|client| {
            let keys = Keys { secret: SecretKey::generate(), ..client.keys.clone()? };
            Some(Endpoint { keys: Some(keys), ..client.clone() })
        });
        self.pull_bags = part.as_ref().map(|_| bags).unwrap_or_default();
        self.puller = part;
        self
    }

    /// What clients and workers get: the part of `role`, or all, without the server's private keys.
    pub fn without_server_keys(&self, role: Option<Role>) -> AccessFile {
        let part = |endpoint: &Option<Endpoint>, of: Role| {
            let endpoint = endpoint.as_ref().filter(|_| role.is_none_or(|role| role == of))?;
            let keys = endpoint.keys.as_ref().map(|keys| Keys { server_secret: None, ..keys.clone() });
            Some(Endpoint { keys, ..endpoint.clone() })
        };
        AccessFile {
            version: self.version.clone(),
            server_uid: self.server_uid.clone(),
            client: part(&self.client, Role::Client),
            worker: part(&self.worker, Role::Worker),
            puller: part(&self.puller, Role::Puller),
            pull_bags: match role {
                None | Some(Role::Puller) => self.pull_bags.clone(),
                Some(Role::Client | Role::Worker) => Vec::new(),
            },
        }
    }

    /// True for a file that lets somebody take pulled tasks, and nothing else.
    pub fn is_for_pullers(&self) -> bool {
        self.puller.is_some() && self.client.is_none() && self.worker.is_none()
    }

    /// The same server as it is reached from its own node, under whatever name others know it.
    pub fn on_this_node(&self) -> AccessFile {
        let here = |endpoint: &Option<Endpoint>| {
            endpoint.as_ref().map(|endpoint| Endpoint { host: "127.0.0.1".to_owned(), ..endpoint.clone() })
        };
        AccessFile {
            client: here(&self.client),
            worker: here(&self.worker),
            puller: here(&self.puller),
            ..self.clone()
        }
    }

    /// The part for a role.
    ///
    /// # Errors
    /// When the file has none.
    pub fn endpoint(&self, role: Role) -> Result<&Endpoint, AccessError> {
        let endpoint = match role {
            Role::Client => &self.client,
            Role::Worker => &self.worker,
            Role::Puller => &self.puller,
        };
        endpoint.as_ref().ok_or_else(|| AccessError::NoRole { server_uid: self.server_uid.clone(), role })
    }

    /// Reads a file. Only this user, or root, can have written it, and nobody else can read it; within a server
    /// directory this holds for the directories and the link, too.
    ///
    /// # Errors
    /// When it is missing, not safe, cannot be read, is cut off or no access file.
    pub fn load(path: &Path) -> Result<AccessFile, AccessError> {
        let file = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if parent.ends_with(CURRENT) => {
                let server_dir = parent.parent().unwrap_or(Path::new(""));
                trust::open_private_in(server_dir, CURRENT.as_ref(), name)?
            }
            _ => trust::open_private(path)?,
        };
        let mut text = Vec::new();
        let read = file.take(ACCESS_FILE_MAX).read_to_end(&mut text);
        read.map_err(|source| AccessError::Read { path: path.to_owned(), source })?;
        AccessFile::parse(&text).map_err(|reason| AccessError::Invalid { path: path.to_owned(), reason })
    }

    /// Writes the file, readable by its owner only. It appears whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), AccessError> {
        write(path, &self.to_json()).map_err(|source| AccessError::Write { path: path.to_owned(), source })
    }

    /// The content of a file with this text; else what is wrong with it, and where.
    ///
    /// # Errors
    /// When it is no access file.
    pub fn parse(text: &[u8]) -> Result<AccessFile, String> {
        let file: JsonFile = serde_json::from_slice(text).map_err(|e| {
            if e.is_eof() { format!("it is cut off after {} bytes", text.len()) } else { e.to_string() }
        })?;
        let part = |endpoint: Option<JsonEndpoint>, of: Role| {
            endpoint.map(|endpoint| endpoint.parse().map_err(|e| format!("{of}: {e}"))).transpose()
        };
        Ok(AccessFile {
            version: file.version,
            server_uid: file.server_uid,
            client: part(file.client, Role::Client)?,
            worker: part(file.worker, Role::Worker)?,
            puller: part(file.puller, Role::Puller)?,
            pull_bags: file.pull_bags,
        })
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let part = |endpoint: &Option<Endpoint>| endpoint.as_ref().map(JsonEndpoint::new);
        let file = JsonFile {
            version: self.version.clone(),
            server_uid: self.server_uid.clone(),
            client: part(&self.client),
            worker: part(&self.worker),
            puller: part(&self.puller),
            pull_bags: self.pull_bags.clone(),
        };
        let mut text = serde_json::to_string_pretty(&file).expect("strings and numbers have a JSON form");
        text.push('\n');
        text
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(temporary);
    // A leftover of a process that died with our id would carry its own permissions.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to tell; a leftover is removed by the next attempt.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[derive(Serialize, Deserialize)]
#[serde(expecting = "an access file")]
struct JsonFile {
    version: String,
    server_uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<JsonEndpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<JsonEndpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    puller: Option<JsonEndpoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pull_bags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(expecting = "host, port and keys")]
struct JsonEndpoint {
    host: String,
    port: u16,
    // Required, so that a file whose keys were lost does not mean "no encryption".
    #[serde(deserialize_with = "Option::deserialize")]
    secret_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_secret_key: Option<String>,
}

impl JsonEndpoint {
    fn new(endpoint: &Endpoint) -> JsonEndpoint {
        let keys = endpoint.keys.as_ref();
        JsonEndpoint {
            host: endpoint.host.clone(),
            port: endpoint.port,
            secret_key: keys.map(|keys| keys.secret.to_hex()),
            server_key: keys.map(|keys| keys.server.to_string()),
            server_secret_key: keys.and_then(|keys| keys.server_secret.as_ref()).map(|key| key.to_hex()),
        }
    }

    fn parse(self) -> Result<Endpoint, String> {
        let key = |name: &'static str| move |e: KeyError| format!("{name}: {e}");
        let keys = match (self.secret_key, self.server_key) {
            (None, None) if self.server_secret_key.is_none() => None,
            (Some(secret), Some(server)) => {
                let server_secret = self.server_secret_key.map(|text| text.parse());
                let keys = Keys {
                    secret: secret.parse().map_err(key("secret_key"))?,
                    server: server.parse().map_err(key("server_key"))?,
                    server_secret: server_secret.transpose().map_err(key("server_secret_key"))?,
                };
                if keys.server_secret.as_ref().is_some_and(|secret| secret.public() != keys.server) {
                    return Err(KeyError::Mismatch.to_string());
                }
                Some(keys)
            }
            _ => return Err("secret_key and server_key must be given together".to_owned()),
        };
        Ok(Endpoint { host: self.host, port: self.port, keys })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn full() -> AccessFile {
        AccessFile::generate("aB3dE6", ("login1", 4000), ("10.0.0.1", 4001), true, true)
    }

    #[test]
    fn what_is_saved_is_loaded_and_only_the_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("access.json");
        for file in [
            full(),
            full().without_server_keys(None),
            full().without_server_keys(Some(Role::Client)),
            full().without_server_keys(Some(Role::Worker)),
            AccessFile::generate("x", ("h", 0), ("h", 0), true, false),
            full().with_puller(vec!["dock".to_owned()]),
            full().with_puller(vec!["dock".to_owned()]).without_server_keys(Some(Role::Puller)),
        ] {
            file.save(&path).expect("the directory is writable");
            assert_eq!(AccessFile::load(&path).expect("what was saved"), file);
            let mode = fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1, "no temporary file is left");
    }

    #[test]
    fn what_others_get_holds_no_private_key_of_the_server() {
        let file = full();
        let secret = |role| {
            let keys = file.endpoint(role).expect("a full file").keys.as_ref().expect("encrypted");
            keys.server_secret.as_ref().expect("a full file").to_hex()
        };
        let (client, worker) = (secret(Role::Client), secret(Role::Worker));
        assert!(file.to_json().contains(&client) && file.to_json().contains(&worker));
        for given in [None, Some(Role::Client), Some(Role::Worker)] {
            let text = file.without_server_keys(given).to_json();
            assert!(!text.contains(&client) && !text.contains(&worker), "{given:?}");
        }
    }

    #[test]
    fn a_split_file_has_no_part_for_the_other_role() {
        let split = full().without_server_keys(Some(Role::Worker));
        assert!(split.endpoint(Role::Worker).is_ok());
        let error = split.endpoint(Role::Client).expect_err("a file for workers");
        insta::assert_snapshot!(error, @"the access file of server aB3dE6 has no section for a client");
    }

    #[test]
    fn a_puller_has_a_key_of_its_own_at_the_port_for_clients_and_none_where_clients_have_none() {
        let file = full().with_puller(vec!["dock".to_owned()]);
        let [client, puller] = [Role::Client, Role::Puller].map(|role| file.endpoint(role).expect("there"));
        assert_eq!((&puller.host, puller.port), (&client.host, client.port));
        let [client, puller] = [client, puller].map(|part| part.keys.as_ref().expect("encrypted"));
        assert!(puller.server == client.server && puller.secret != client.secret);
        assert_eq!(file.without_server_keys(Some(Role::Client)).pull_bags, [""; 0]);
        let open =
            AccessFile::generate("x", ("h", 0), ("h", 0), false, true).with_puller(vec!["dock".to_owned()]);
        assert!(open.puller.is_none() && open.pull_bags.is_empty());
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let text = full().to_json();
        for end in 0..text.trim_end().len() {
            assert!(AccessFile::parse(&text.as_bytes()[..end]).is_err(), "cut after {end} bytes");
        }
    }

    #[test]
    fn an_invalid_file_says_what_is_wrong() {
        let key = "0".repeat(64);
        let role = |fields: &str| {
            format!(r#"{{"version":"1","server_uid":"u","client":{{"host":"h","port":1{fields}}}}}"#)
        };
        let cases = [
            String::new(),
            "hello".to_owned(),
            "[]".to_owned(),
            r#"{"version":"1"}"#.to_owned(),
            role(""),
            role(r#","secret_key":null,"server_key":"00""#),
            role(&format!(r#","secret_key":"{key}""#)),
            role(&format!(r#","secret_key":"{key}","server_key":"12""#)),
            role(&format!(r#","secret_key":"{key}","server_key":"{key}","server_secret_key":"{key}""#)),
            role(r#","secret_key":null"#).replace(":1,", ":70000,"),
        ];
        let shown: Vec<String> = cases
            .iter()
            .map(|text| AccessFile::parse(text.as_bytes()).expect_err("an invalid file"))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        it is cut off after 0 bytes
        expected value at line 1 column 1
        invalid length 0, expected an access file at line 1 column 2
        missing field `server_uid` at line 1 column 15
        missing field `secret_key` at line 1 column 62
        client: secret_key and server_key must be given together
        client: secret_key and server_key must be given together
        client: server_key: a key is 64 hexadecimal digits
        client: server_key is not the public key of server_secret_key
        invalid value: integer `70000`, expected u16 at line 1 column 65
        ");
    }

    #[test]
    fn no_file_and_no_permission_are_told_apart() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let missing = AccessFile::load(&dir.path().join("access.json"));
        assert!(matches!(missing, Err(AccessError::Missing { .. })), "{missing:?}");
        let directory = AccessFile::load(dir.path());
        assert!(matches!(directory, Err(AccessError::Read { .. })), "{directory:?}");
        let nowhere = full().save(&dir.path().join("none/access.json"));
        assert!(matches!(nowhere, Err(AccessError::Write { .. })), "{nowhere:?}");
    }
}
