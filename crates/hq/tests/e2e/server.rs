//! Servers as users start, see and stop them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::cluster::{Cluster, Place, Process};
use crate::patience;

#[test]
fn a_server_describes_itself() {
    let cluster = Cluster::server();
    let info = cluster.json("server info");
    assert_eq!(info["server_dir"], cluster.server_dir().display().to_string());
    assert_eq!((&info["client_host"], &info["schema_version"]), (&"localhost".into(), &1.into()));
    assert_eq!(info["server_uid"].as_str().map(str::len), Some(6));
    assert_eq!(
        cluster.ok("--output-mode quiet server info"),
        format!("{}\n", cluster.server_dir().display())
    );
    let table = cluster.ok("server info");
    for row in ["Server UID", "Client host", "Worker port", "Pid", "Start date", "Journal path"] {
        assert!(table.contains(&format!("| {row} ")), "{row}: {table}");
    }
    assert_eq!(table.lines().count(), 9 + 2, "{table}");
    let table = cluster.ok("server info --verbose");
    for row in ["Server directory", "Instance directory", "Starts", "Journal state", "Clock", "Samples kept"]
    {
        assert!(table.contains(&format!("| {row} ")), "{row}: {table}");
    }
    assert!(!table.contains("queue to a client"), "{table}");
    assert!(cluster.ok("server info --limits").contains("queue to a client: 64 MiB"));
    assert_eq!(info["limits"].as_object().map(serde_json::Map::is_empty), Some(false));
    let access = cluster.server_dir().join("hq-current/access.json");
    assert_eq!(fs::metadata(access).expect("an access file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn stopping_is_clean_and_a_restart_continues() {
    let mut cluster = Cluster::new();
    cluster.ok("submit --wait --name before true");
    cluster.ok("server stop");
    assert_eq!(cluster.server.take().map(crate::cluster::Process::end), Some(0));
    assert!(cluster.fails(3, "job list").contains("No running instance of HQ found at"));
    cluster.start_server("");
    assert_eq!(cluster.json("job list --all")[0]["name"], "before");
    assert_eq!(cluster.json("submit true")["id"], 2);
    assert!(cluster.server_dir().join("002").is_dir());
}

#[test]
fn fresh_begins_again_and_none_keeps_nothing() {
    let mut cluster = Cluster::server();
    cluster.ok("submit true");
    cluster.ok("server stop");
    cluster.server.take().map(crate::cluster::Process::end);
    cluster.start_server("--fresh");
    assert_eq!(cluster.json("submit true")["id"], 1);
    cluster.ok("server stop");
    cluster.server.take().map(crate::cluster::Process::end);
    let error = cluster.fails(1, "server start --journal none");
    for text in ["has a journal; without it, job ids would start at 1 again", "--fresh", "--server-dir"] {
        assert!(error.contains(text), "{text}: {error}");
    }
    cluster.start_server("--journal none --fresh");
    assert_eq!(cluster.json("server info")["journal_path"], serde_json::Value::Null);
    let table = cluster.ok("server info --verbose");
    assert!(!table.contains("agrees with the journal"), "{table}");
    cluster.ok("submit true");
    cluster.ok("server stop");
    cluster.server.take().map(crate::cluster::Process::end);
    cluster.start_server("--journal none");
    assert_eq!(cluster.json("job list --all"), serde_json::json!([]));
}

#[test]
fn signals_stop_a_server_cleanly_or_are_survived() {
    for signal in [2, 15] {
        let mut cluster = Cluster::server();
        let server = cluster.server.take().expect("a server");
        server.signal(1);
        cluster.ok("server info");
        server.signal(signal);
        assert_eq!(server.end(), 0, "signal {signal}");
        assert!(cluster.server_dir().join("hq-current").symlink_metadata().is_err());
    }
}

#[test]
fn a_second_server_is_refused() {
    let cluster = Cluster::server();
    let error = cluster.fails(1, "server start");
    assert!(
        error.contains("is already online, please stop it first using `hq server stop --server-dir "),
        "{error}"
    );
    let pid = cluster.json("server info")["pid"].to_string();
    for text in [
        &cluster.server_dir().display().to_string(),
        &format!("pid {pid}"),
        "hq server info",
        "hq server stop",
    ] {
        assert!(error.contains(text), "{text}: {error}");
    }
    cluster.ok("server info");
}

#[test]
fn a_server_goes_to_the_background() {
    let place = Place::new();
    let started = place.json("server start --host localhost --detach");
    let info = place.json("server info");
    assert_eq!(started["server_uid"], info["server_uid"]);
    let log = place.server_dir().join("001/server.log");
    assert!(fs::read_to_string(log).expect("a log").contains("INFO"));
    let error = place.fails(1, "server start --detach");
    assert_eq!(error.matches("is already online").count(), 1, "{error}");
    let error = place.fails(1, "server start --access-file missing --server-dir other");
    assert!(error.contains("no access file at missing") && error.contains("generate-access"), "{error}");
    place.ok("server stop");
}

// There is no room for what is printed into it.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reading, mut writing) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writing, true).expect("a pipe");
    while writing.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writing, false).expect("a pipe");
    (reading, writing)
}

#[test]
fn a_start_in_the_background_that_is_interrupted_leaves_no_server() {
    let place = Place::new();
    // There is no room for what it prints: so it is interrupted when the server runs, and nobody has been told where.
    let (reading, writing) = full_pipe();
    let mut command = place.command(["server", "start", "--host", "localhost", "--detach"]);
    command.stdout(writing);
    let start = Process::start(command);
    place.ok("server wait --timeout 60s");
    let pid = Pid::from_raw(start.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::INT).expect("it waits");
    assert_eq!(start.end(), 130);
    drop(reading);
    patience::until("the server has ended", || match place.hq("server info").exit {
        3 => Ok(()),
        exit => Err(format!("`server info` exits with {exit}")),
    });
    patience::until("another one starts", || match place.hq("server start --host localhost --detach") {
        ran if ran.exit == 0 => Ok(()),
        ran => Err(format!("{ran:?}")),
    });
    place.ok("server stop");
}

#[test]
fn a_server_ends_when_it_is_told_so_although_nobody_reads_what_it_prints() {
    let place = Place::new();
    let (_reading, writing) = full_pipe();
    let mut command = place.command(["server", "start", "--host", "localhost"]);
    command.stdout(writing);
    let server = Process::start(command);
    place.ok("server wait --timeout 60s");
    place.ok("server stop");
    assert_eq!(server.end(), 0);
}

#[test]
fn a_server_whose_published_name_means_nothing_here_is_reached_and_stopped_from_its_own_node() {
    let place = Place::new();
    // No resolver asks anybody for a name with so long a part.
    let unknown = "x".repeat(64);
    let ran = place.hq(&format!("server start --detach --host {unknown}"));
    assert!(ran.exit == 0 && ran.stdout.contains(&unknown), "{ran:?}");
    assert!(
        ran.stderr.contains(&format!("WARN the host name {unknown} cannot be resolved on this machine")),
        "{ran:?}"
    );
    assert_eq!(place.json("server info")["client_host"], unknown);
    let error = place.fails(1, "server start --detach --host localhost");
    assert!(error.contains("it runs at x") && !error.contains("waiting"), "{error}");
    place.ok("server stop");
    // What is refused leaves nothing either.
    let error = place.fails(1, "server start --detach --journal none");
    assert!(error.contains("has a journal") && !place.server_dir().join("002").exists(), "{error}");
}

#[test]
fn waiting_for_a_server_ends_after_its_time() {
    let place = Place::new();
    let error = place.fails(3, "server wait --timeout 50ms");
    assert!(error.contains("Timeout after 50ms: "), "{error}");
}

#[test]
fn access_can_be_made_ahead_and_split() {
    let (cluster, ports) = Cluster::server_with_access("--client-file c.json --worker-file w.json");
    assert_eq!(cluster.json("server info")["client_port"], ports[0]);
    let elsewhere = |file: &str| {
        let dir = cluster.path(format!("dir-{file}"));
        fs::create_dir_all(dir.join("hq-current")).expect("a directory");
        fs::copy(cluster.path(file), dir.join("hq-current/access.json")).expect("a copy");
        dir.display().to_string()
    };
    cluster.ok(&format!("--server-dir {} job list", elsewhere("c.json")));
    let error = cluster.fails(3, &format!("--server-dir {} job list", elsewhere("w.json")));
    assert!(error.contains("has no section for a client"), "{error}");
}

#[test]
fn without_keys_nobody_gets_in() {
    let cluster = Cluster::server();
    let other = Cluster::server();
    let access = |place: &Place| {
        let path = place.server_dir().join("hq-current/access.json");
        let text = fs::read_to_string(path).expect("an access file");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let (mut mixed, theirs) = (access(&cluster), access(&other));
    let port = mixed["client"]["port"].clone();
    mixed["client"] = theirs["client"].clone();
    mixed["client"]["port"] = port;
    let dir = cluster.path("mixed/hq-current");
    fs::create_dir_all(&dir).expect("a directory");
    let write = |text: &str| {
        fs::write(dir.join("access.json"), text).expect("a file");
        fs::set_permissions(dir.join("access.json"), fs::Permissions::from_mode(0o600)).expect("ours");
    };
    write(&mixed.to_string());
    let error = cluster.fails(3, "--server-dir mixed job list");
    assert!(error.contains("is not the one of this access file"), "{error}");
    let text = access(&cluster).to_string();
    write(&text[..text.len() / 2]);
    let error = cluster.fails(3, "--server-dir mixed job list");
    assert!(error.contains("is not a valid access file: it is cut off"), "{error}");
    cluster.ok("job list");
}

#[test]
fn an_access_file_is_not_written_over_unasked() {
    let place = crate::cluster::Place::new();
    let line = "server generate-access full.json --client-port 7001 --worker-port 7002 --host here";
    place.ok(line);
    let before = place.read("full.json");
    let error = place.fails(1, line);
    assert!(error.contains("already exists") && error.contains("--overwrite"), "{error}");
    assert_eq!(place.read("full.json"), before);
    place.ok(&format!("{line} --overwrite"));
    assert_ne!(place.read("full.json"), before);
}

#[test]
fn a_server_without_a_journal_prunes_and_forgets_nothing() {
    let mut cluster = Cluster::server_with("--journal none");
    cluster.worker("--cpus 1");
    cluster.ok("submit --wait -- true");
    for line in ["journal prune", "journal flush", "journal replay"] {
        let ran = cluster.hq(&format!("--output-mode json {line}"));
        assert!(ran.exit == 1 && ran.stdout.contains("\"no-journal\""), "{line}: {ran:?}");
    }
    assert_eq!(cluster.json("job list --all").as_array().map(Vec::len), Some(1));
}

#[test]
fn a_directory_that_others_may_write_is_refused_by_all() {
    let place = Place::new();
    let lax = place.path("lax and wide");
    fs::create_dir(&lax).expect("a directory");
    fs::set_permissions(&lax, fs::Permissions::from_mode(0o777)).expect("our directory");
    for (line, exit) in
        [("server start", 1), ("server start --detach", 1), ("worker start", 3), ("job list", 3)]
    {
        let ran = place.hq(&format!("--output-mode json --server-dir 'lax and wide' {line}"));
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a document");
        assert_eq!((ran.exit, &document["code"]), (exit, &"no-access".into()), "{line}");
        let command = format!("chmod 700 '{}'", lax.display());
        assert!(ran.stdout.contains(&command), "{line}: {}", ran.stdout);
    }
}

#[test]
fn a_worker_waits_for_a_server_that_is_about_to_start() {
    let mut cluster = Cluster { workers: Vec::new(), server: None, place: crate::cluster::Place::new() };
    let mut command = cluster.command(["worker", "start", "--cpus", "1"]);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(std::process::Stdio::null()).stderr(writer);
    cluster.workers.push(crate::cluster::Process::start(command));
    let mut said = [0; 16];
    std::io::Read::read_exact(&mut reader, &mut said).expect("it says that it waits");
    assert_eq!(&said, b"No server answer");
    cluster.start_server("");
    cluster.ok("worker wait 1");
}

#[test]
fn a_dump_has_workers_and_tasks_that_have_not_ended() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2 --group east");
    cluster.ok("submit --wait -- true");
    cluster.ok("submit --array 1-3000 --cpus 5 -- true");
    cluster.ok("submit --array 0-4294967295 --cpus 5 -- true");
    cluster.ok("server debug-dump dump.json");
    let dump: serde_json::Value = serde_json::from_str(&cluster.read("dump.json")).expect("a document");
    let dump = &dump["tako"];
    assert_eq!(dump["workers"][0]["id"], 1);
    assert_eq!(dump["worker_groups"], serde_json::json!({ "east": [1] }));
    let tasks = dump["tasks"]["2"].as_array().expect("tasks");
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!((&tasks[0]["ids"], &tasks[0]["state"]), (&"1-3000".into(), &"waiting".into()));
    assert_eq!(dump["tasks"]["3"][0]["ids"], "0-4294967295");
    let ended = dump["tasks"]["1"].as_array().map_or(0, Vec::len);
    assert_eq!(ended, 0);
    let error = cluster.fails(1, "server debug-dump nowhere/dump.json");
    assert!(error.contains("nowhere/dump.json cannot be written"), "{error}");
}

#[test]
fn a_limit_on_the_size_of_files_is_outlived_as_a_full_disk_is() {
    let cluster = Cluster::server();
    let server = cluster.server.as_ref().expect("a server");
    let set_limit = |limit| {
        let limit = Rlimit { current: limit, maximum: None };
        prlimit(Pid::from_raw(server.id() as i32), Resource::Fsize, limit).expect("our own child");
    };
    set_limit(Some(0));
    let submit = || cluster.run(["submit", "--", "true", &"x".repeat(45_000)]);
    // One that came before the server knows would wait until there is room.
    let begun = Process::start(cluster.command(["--output-mode", "quiet", "submit", "true"]));
    patience::until("the server says so", || {
        let said = cluster.ok("server info --verbose");
        if said.contains("File too large") { Ok(()) } else { Err(said) }
    });
    let refused = submit();
    assert!(refused.exit == 1 && refused.stderr.contains("File too large"), "{refused:?}");
    set_limit(None);
    assert_eq!(begun.end(), 0);
    patience::until("there is room", || match submit() {
        ran if ran.exit == 0 => Ok(()),
        ran => Err(ran.stderr),
    });
    // What it starts is ended by its own limits.
    let script = format!("ulimit -f 0; {} run -- true 2>&1; echo $?", env!("CARGO_BIN_EXE_hq"));
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(cluster.work())
        .env("TMPDIR", cluster.root())
        .output();
    let said = String::from_utf8_lossy(&ran.expect("a shell").stdout).into_owned();
    assert!(said.contains("`ulimit -f`") && said.ends_with("\n1\n"), "{said}");
}

#[test]
fn a_server_that_may_have_too_few_open_files_says_so_and_does_not_start() {
    let place = Place::new();
    let start = |limit: &str, options: &str| {
        let hq = env!("CARGO_BIN_EXE_hq");
        let script =
            format!("ulimit -n {limit}; exec timeout 60 {hq} server start --host localhost {options}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(place.work()).env("HQ_SERVER_DIR", place.server_dir());
        command
    };
    for options in ["", "--detach"] {
        let said = start("64", options).output().expect("sh can be run");
        let text = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        let words = ["at least 256 open files", "the limit here is 64", "nofile"];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    assert!(place.fails(3, "job list").contains("No running instance"), "there is no current server");
    let few = format!("ulimit -n 7; {} job list", env!("CARGO_BIN_EXE_hq"));
    let said = std::process::Command::new("sh").args(["-c", &few]).output().expect("sh can be run");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && text.contains("at least 32 open files"), "{said:?}");
    // A soft limit is raised.
    let said = start("-S 64", "--detach").output().expect("sh can be run");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let pid = place.json("server info")["pid"].as_u64().expect("a number");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert!(!files.contains(" 64 "), "{files}");
    place.ok("server stop");
}
