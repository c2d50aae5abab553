//! Access files made ahead of a server, so that ports and keys are known before it starts.

use std::path::PathBuf;

use hq_net::{AccessFile, Role};

use crate::error::ServerError;
use crate::identity::{new_uid, node_name};

/// What `hq server generate-access` is asked for.
#[derive(Clone, Debug, Default)]
pub struct GenerateAccess {
    /// The full file, for the server: it holds the server's private keys.
    pub file: PathBuf,
    /// A file for clients alone.
    pub client_file: Option<PathBuf>,
    /// A file for workers alone.
    pub worker_file: Option<PathBuf>,
    /// A file for those who take pulled tasks alone.
    pub pull_file: Option<PathBuf>,
    /// The bags of which these may know.
    pub pull_bags: Vec<String>,
    /// Published name for clients; the node's name by default.
    pub client_host: Option<String>,
    /// Published name for workers; the node's name by default.
    pub worker_host: Option<String>,
    /// Port for clients.
    pub client_port: u16,
    /// Port for workers.
    pub worker_port: u16,
    /// Write over files that exist.
    pub overwrite: bool,
}

/// Writes access files with fresh keys, each readable by its owner only. Gives the server's name.
///
/// # Errors
/// When a file exists already or cannot be written, or the system has no randomness.
pub fn generate_access(options: &GenerateAccess) -> Result<String, ServerError> {
    let parts = [
        (&options.client_file, Role::Client),
        (&options.worker_file, Role::Worker),
        (&options.pull_file, Role::Puller),
    ];
    let files = [Some(&options.file)].into_iter().chain(parts.map(|(file, _)| file.as_ref()));
    if let Some(path) = files.flatten().find(|path| !options.overwrite && path.exists()) {
        return Err(ServerError::FileExists { path: path.clone() });
    }
    let host = |host: &Option<String>| host.clone().unwrap_or_else(node_name);
    let client = (host(&options.client_host), options.client_port);
    let worker = (host(&options.worker_host), options.worker_port);
    let uid = new_uid()?;
    let full = AccessFile::generate(uid.clone(), client, worker, true, true);
    let full = match &options.pull_file {
        Some(_) => full.with_puller(options.pull_bags.clone()),
        None => full,
    };
    full.save(&options.file)?;
    for (file, role) in parts {
        if let Some(file) = file {
            full.without_server_keys(Some(role)).save(file)?;
        }
    }
    Ok(uid)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn split_files_hold_one_role_and_no_private_key_of_the_server() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| temporary.path().join(name);
        let options = GenerateAccess {
            file: path("full"),
            client_file: Some(path("client")),
            worker_file: Some(path("worker")),
            pull_file: Some(path("pull")),
            pull_bags: vec!["dock".to_owned()],
            client_host: Some("login".to_owned()),
            worker_host: Some("10.1.0.1".to_owned()),
            client_port: 7000,
            worker_port: 7001,
            overwrite: false,
        };
        let uid = generate_access(&options).expect("writable");
        let load = |name: &str| {
            let mode = fs::metadata(path(name)).expect("written").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            AccessFile::load(&path(name)).expect("whole")
        };
        let full = load("full");
        assert_eq!(full.server_uid, uid);
        assert_eq!(load("client"), full.without_server_keys(Some(Role::Client)));
        assert_eq!(load("worker"), full.without_server_keys(Some(Role::Worker)));
        let puller = load("pull");
        assert_eq!(puller, full.without_server_keys(Some(Role::Puller)));
        assert!(puller.is_for_pullers() && !full.is_for_pullers());
        assert_eq!(puller.pull_bags, ["dock"]);
        let client = full.endpoint(Role::Client).expect("both parts");
        assert_eq!((client.host.as_str(), client.port), ("login", 7000));
    }
}
