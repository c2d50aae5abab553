//! The life of a server directory: start, refusal of a second server, clean end, continuation, --fresh.

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Client, Worker, runtime, spec, start, stop, try_start, watch};
use hq_core::client_messages::{ClientRequest, ClientResponse, ServerInfo};
use hq_net::{AccessFile, Role};
use hq_server::directory::access_path;
use hq_server::{JournalPlace, Running, ServerError, ServerOptions};

fn access(dir: &Path) -> AccessFile {
    AccessFile::load(&access_path(dir)).expect("an access file")
}

fn info(access: &AccessFile) -> ServerInfo {
    runtime().block_on(async {
        match Client::connect(access).await.ask(ClientRequest::ServerInfo).await {
            ClientResponse::ServerInfo(info) => *info,
            other => panic!("{other:?}"),
        }
    })
}

// Submits one task; gives the id of its job.
fn submit(access: &AccessFile, key: u128) -> u32 {
    runtime().block_on(async { Client::connect(access).await.submit(key, 1, spec()).await.0 })
}

// A free port of which the system hands out none by itself, so that nobody takes it between two servers.
fn quiet_port(number: u16) -> u16 {
    let begin = 10_000 + (std::process::id() % 10_000) as u16 * 2 + number;
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    (begin..32_000).step_by(2).find(is_free).expect("one of many is free")
}

#[test]
fn a_server_answers_as_soon_as_it_has_started_and_says_all_about_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    let access = access(dir.path());
    let mode = fs::metadata(access_path(dir.path())).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let keys = access.endpoint(Role::Client).expect("a part").keys.clone().expect("encrypted");
    assert!(keys.server_secret.is_none(), "the server's private key is not for clients");

    let info = info(&access);
    assert_eq!(info.uid, access.server_uid);
    assert_eq!(info.epoch.0, 1);
    assert_eq!(info.pid, std::process::id());
    assert_eq!(info.client_port, access.endpoint(Role::Client).expect("a part").port);
    assert_eq!(info.worker_port, access.endpoint(Role::Worker).expect("a part").port);
    let real = fs::canonicalize(dir.path()).expect("a directory");
    assert_eq!(info.server_dir, real.join("001").into_os_string().into_encoded_bytes());
    assert_eq!(info.journal, Some(real.join("journal").into_os_string().into_encoded_bytes()));
    let queue = info.limits.iter().find(|(name, _)| name == "queue to a client");
    assert_eq!(queue.map(|(_, value)| value.to_string()).as_deref(), Some("64 MiB"));

    stop(server);
    assert!(!access_path(dir.path()).exists(), "a clean end removes the access file");
    assert!(dir.path().join("001").exists());
}

#[test]
fn a_second_server_on_the_directory_is_refused_while_the_first_lives() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = start(dir.path());
    let port = first.info().client_port;
    let error = try_start(ServerOptions::new(dir.path())).err().expect("a refusal");
    let (pid, real) = (std::process::id(), fs::canonicalize(dir.path()).expect("a directory"));
    let expected = format!(
        "Server at {0} is already online, please stop it first using `hq server stop --server-dir {0}`; it runs at \
         127.0.0.1:{port}, pid {pid}",
        real.display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(!dir.path().join("002").exists(), "the refused start leaves nothing");
    stop(first);
    stop(start(dir.path()));
}

#[test]
fn a_server_that_answers_without_a_lock_is_noticed_too() {
    // As on a network file system where each node sees its own locks only.
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let first = start(elsewhere.path());
    fs::create_dir(dir.path().join("001")).expect("writable");
    fs::copy(access_path(elsewhere.path()), dir.path().join("001/access.json")).expect("writable");
    std::os::unix::fs::symlink("001", dir.path().join("hq-current")).expect("writable");
    let error = try_start(ServerOptions::new(dir.path())).err().expect("a refusal");
    assert!(matches!(error, ServerError::Running { pid: None, .. }), "{error}");
    stop(first);
}

#[test]
fn the_access_file_of_a_server_that_died_is_no_hindrance() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = start(dir.path());
    let stale = fs::read(access_path(dir.path())).expect("a file");
    stop(first);
    std::os::unix::fs::symlink("001", dir.path().join("hq-current")).expect("writable");
    fs::write(access_path(dir.path()), stale).expect("writable");
    let second = start(dir.path());
    assert_eq!(info(&access(dir.path())).epoch.0, 2);
    stop(second);
}

#[test]
fn a_new_start_continues_name_keys_ports_and_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = ServerOptions::new(dir.path());
    options.client_port = Some(quiet_port(0));
    options.worker_port = Some(quiet_port(1));
    let first = try_start(options).expect("a server");
    let before = access(dir.path());
    assert_eq!(submit(&before, 1), 1);
    assert_eq!(submit(&before, 2), 2);
    stop(first);

    let second = start(dir.path());
    assert_eq!(second.instance_dir().file_name(), Some("002".as_ref()));
    let after = access(dir.path());
    assert_eq!(after, before);
    assert_eq!(info(&after).epoch.0, 2);
    // A request repeated over the restart is done once.
    assert_eq!(submit(&after, 2), 2);
    assert_eq!(submit(&after, 3), 3);
    runtime().block_on(async {
        let mut client = Client::connect(&after).await;
        assert_eq!(client.jobs().await, [1, 2, 3]);
        let worker = tokio::spawn(Worker::connect(&after).await.work());
        for job in 1..=3 {
            assert_eq!(watch(&mut client, hq_model::JobId(job)).await, (1, 1));
        }
        worker.abort();
    });
    stop(second);
}

#[test]
fn a_port_that_was_taken_meanwhile_is_replaced_but_a_given_one_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    stop(start(dir.path()));
    let taken = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = taken.local_addr().expect("it is bound").port();
    // As if the first server had had it.
    let identity = dir.path().join("identity.json");
    let mut kept = AccessFile::load(&identity).expect("an identity");
    kept.client.as_mut().expect("a part").port = port;
    kept.save(&identity).expect("writable");
    let second = start(dir.path());
    assert_ne!(second.info().client_port, port);
    stop(second);

    let mut options = ServerOptions::new(dir.path());
    options.client_port = Some(port);
    let error = try_start(options).err().expect("a refusal");
    assert!(matches!(error, ServerError::Listen(_)), "{error}");
    assert!(!dir.path().join("003").exists(), "the failed start leaves nothing");
}

#[test]
fn fresh_puts_the_journal_aside_and_begins_at_job_1_under_a_new_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = start(dir.path());
    let before = access(dir.path());
    assert_eq!(submit(&before, 1), 1);
    stop(first);

    let mut options = ServerOptions::new(dir.path());
    options.fresh = true;
    let second = try_start(options).expect("a server");
    let after = access(dir.path());
    assert_ne!(after.server_uid, before.server_uid);
    assert_ne!(after.client, before.client);
    assert_eq!(submit(&after, 1), 1);
    assert_eq!(info(&after).epoch.0, 1);
    stop(second);
    assert!(dir.path().join("journal.001").is_dir());
}

#[test]
fn a_server_without_a_journal_does_not_replace_one_with_a_journal() {
    for place in [JournalPlace::Default, JournalPlace::Path("elsewhere".into())] {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = match place {
            JournalPlace::Path(name) => JournalPlace::Path(dir.path().join(name)),
            place => place,
        };
        let with = |journal: &JournalPlace, fresh| {
            try_start(ServerOptions { journal: journal.clone(), fresh, ..ServerOptions::new(dir.path()) })
        };
        let first = with(&journal, false).expect("a server");
        let before = access(dir.path());
        assert_eq!(submit(&before, 1), 1);
        stop(first);
        let error = with(&JournalPlace::None, false).err().expect("a refusal");
        assert!(matches!(error, ServerError::JournalNotUsed { .. }), "{error}");
        assert!(error.hint().contains("--fresh"), "{}", error.hint());
        let continued = with(&journal, false).expect("a server");
        assert_eq!(access(dir.path()).server_uid, before.server_uid);
        assert_eq!(submit(&access(dir.path()), 2), 2);
        stop(continued);

        for fresh in [true, false] {
            let without = with(&JournalPlace::None, fresh).expect("a server");
            assert_eq!(info(&access(dir.path())).journal, None);
            assert_eq!(submit(&access(dir.path()), 7), 1);
            stop(without);
        }
        let aside = match journal {
            JournalPlace::Default => JournalPlace::Path(dir.path().join("journal.001")),
            elsewhere => elsewhere,
        };
        let again = with(&aside, false).expect("a server");
        assert_eq!(access(dir.path()).server_uid, before.server_uid);
        assert_eq!(submit(&access(dir.path()), 8), 3);
        stop(again);
    }
}

#[test]
fn a_journal_of_an_unknown_server_is_not_passed_over_and_an_empty_one_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let without =
        || try_start(ServerOptions { journal: JournalPlace::None, ..ServerOptions::new(dir.path()) });
    fs::create_dir(dir.path().join("journal")).expect("writable");
    stop(without().expect("a server"));
    fs::write(dir.path().join("journal/segment-0000000001"), "").expect("writable");
    let error = without().err().expect("a refusal");
    assert!(matches!(error, ServerError::JournalNotUsed { .. }), "{error}");
}

#[test]
fn a_journal_that_is_not_where_it_was_is_not_begun_anew_without_a_word() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |place: &str| {
        let mut options = ServerOptions::new(dir.path());
        options.journal = JournalPlace::Path(dir.path().join(place));
        options
    };
    let first = try_start(at("mounted")).expect("a server");
    let before = access(dir.path());
    assert_eq!(submit(&before, 1), 1);
    stop(first);
    fs::rename(dir.path().join("mounted"), dir.path().join("elsewhere")).expect("a journal");
    for options in [at("mounted"), ServerOptions::new(dir.path())] {
        let error = try_start(options).err().expect("a refusal");
        assert!(matches!(error, ServerError::NoJournal { .. }), "{error}");
        assert!(error.to_string().contains(&before.server_uid), "{error}");
    }
    assert!(!dir.path().join("mounted").exists(), "nothing was made in its place");
    // As it is in what a file system would be mounted on, and on one that is new.
    for other in ["lost+found", "lock", "NOT_MOUNTED"] {
        fs::create_dir_all(dir.path().join("mounted").join(other)).expect("writable");
        let error = try_start(at("mounted")).err().expect("a refusal");
        assert!(matches!(error, ServerError::NoJournal { .. }), "{other}: {error}");
    }
    let second = try_start(at("elsewhere")).expect("a server");
    assert_eq!(submit(&access(dir.path()), 2), 2);
    stop(second);
    let third = try_start(ServerOptions { fresh: true, ..at("new") }).expect("a server");
    assert_eq!(submit(&access(dir.path()), 3), 1);
    stop(third);
}

#[test]
fn a_journal_that_others_may_write_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    stop(start(dir.path()));
    let journal = dir.path().join("journal");
    let file = fs::read_dir(&journal).expect("a journal").next().expect("a file").expect("a name").path();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    for (path, lax, strict) in [(&journal, 0o770, 0o700), (&file, 0o666, 0o600)] {
        set_mode(path, lax);
        let error = try_start(ServerOptions::new(dir.path())).err().expect("a refusal");
        assert!(error.to_string().contains("other users can write"), "{error}");
        assert!(error.hint().contains("chmod -R go-w"), "{}", error.hint());
        set_mode(path, strict);
    }
    stop(start(dir.path()));
}

#[test]
fn a_journal_elsewhere_belongs_to_one_server_at_a_time() {
    let dirs = tempfile::tempdir().expect("a directory");
    let journal = dirs.path().join("deep/journal");
    let options = |name: &str| {
        let mut options = ServerOptions::new(dirs.path().join(name));
        options.journal = JournalPlace::Path(journal.clone());
        options
    };
    let first = try_start(options("one")).expect("a server");
    let before = access(&dirs.path().join("one"));
    assert_eq!(submit(&before, 1), 1);
    let error = try_start(options("two")).err().expect("a refusal");
    assert!(matches!(error, ServerError::Journal { .. }), "{error}");
    stop(first);
    // It goes on from another directory, under its name.
    let second = try_start(options("two")).expect("a server");
    let after = access(&dirs.path().join("two"));
    assert_eq!(after.server_uid, before.server_uid);
    assert_eq!(submit(&after, 2), 2);
    stop(second);
}

#[test]
fn a_client_can_end_the_server_and_the_directory_is_free_when_it_knows() {
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let server: Running = start(dir.path());
        let access = access(dir.path());
        runtime().block_on(async {
            let answer = Client::connect(&access).await.ask(ClientRequest::StopServer).await;
            assert_eq!(answer, ClientResponse::Done);
        });
        assert!(!access_path(dir.path()).exists());
        server.wait().expect("a clean end");
    }
}
