//! The journal as users meet it: damaged, foreign, of a later release, on a full disk, read and tended.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use hq_core::record::Record;
use hq_journal::{Journal, JournalId, Options, RealDisk};
use hq_model::{Epoch, Timestamp};
use serde_json::Value;

use crate::cluster::{Cluster, PATIENCE, Place, Process};

fn journal(place: &Place) -> PathBuf {
    place.server_dir().join("journal")
}

// The segments, oldest first.
fn segments(place: &Place) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(journal(place))
        .expect("a journal")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")))
        .collect();
    files.sort();
    files
}

fn flip_bit(path: &Path, offset: u64) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).expect("an offset");
    file.read_exact(&mut byte).expect("a byte");
    file.seek(SeekFrom::Start(offset)).expect("an offset");
    file.write_all(&[byte[0] ^ 4]).expect("a file");
}

// A server that made some jobs and was stopped.
fn stopped() -> Cluster {
    let mut cluster = Cluster::server();
    for name in ["first", "second", "third"] {
        cluster.ok(&format!("submit --name {name} true"));
    }
    stop(&mut cluster);
    cluster
}

fn stop(cluster: &mut Cluster) {
    cluster.ok("server stop");
    assert_eq!(cluster.server.take().map(Process::end), Some(0));
}

fn start_fails(cluster: &Cluster) -> String {
    cluster.fails(1, "server start --host localhost")
}

#[test]
fn a_flipped_bit_is_refused_with_its_place_and_can_be_repaired() {
    let mut cluster = stopped();
    let file = segments(&cluster).remove(0);
    let middle = fs::metadata(&file).expect("a file").len() / 2;
    flip_bit(&file, middle);
    let error = start_fails(&cluster);
    assert!(error.contains("is damaged at byte "), "{error}");
    assert!(error.contains("the checksum does not match"), "{error}");
    assert!(error.contains("hq journal repair"), "{error}");
    let checked = cluster.hq("journal check");
    assert_eq!(checked.exit, 1);
    assert!(
        checked.stdout.contains("Damaged: ") && checked.stdout.contains("hq journal repair "),
        "{checked:?}"
    );
    let repaired = cluster.ok("journal repair");
    assert!(repaired.contains("can be opened again") && repaired.contains("set aside: "), "{repaired}");
    assert!(
        repaired.contains(" Lost: everything from record ") && !repaired.contains("that is 0 bytes"),
        "{repaired}"
    );
    assert!(cluster.ok("journal check").contains("Intact: "));
    cluster.start_server("");
    assert!(cluster.json("job list --all").as_array().is_some_and(|jobs| jobs.len() < 3));
    cluster.ok("submit true");
}

#[test]
fn bytes_that_are_missing_in_the_middle_are_damage() {
    let mut cluster = Cluster::server();
    for _ in 0..10 {
        cluster.ok("submit true");
    }
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    let last = segments(&cluster).pop().expect("a segment");
    let bytes = fs::read(&last).expect("a file");
    let middle = bytes.len() / 2;
    fs::write(&last, [&bytes[..middle], &bytes[middle + 100..]].concat()).expect("a file");
    let error = start_fails(&cluster);
    assert!(error.contains("is damaged at byte "), "{error}");
    let checked = cluster.hq("journal check");
    assert_eq!(checked.exit, 1, "{checked:?}");
    let lost = cluster.json("journal repair")["records_lost"].as_u64();
    assert!(lost.is_some_and(|lost| lost > 2), "{lost:?}");
    cluster.start_server("");
    let jobs = cluster.json("job list --all").as_array().map_or(0, Vec::len);
    assert!((2..9).contains(&jobs), "{jobs}");
}

#[test]
fn records_that_are_in_no_file_any_more_are_missed() {
    let four = || {
        let mut cluster = stopped();
        for _ in 0..3 {
            cluster.start_server("");
            cluster.ok("submit true");
            stop(&mut cluster);
        }
        cluster
    };
    let missing = |found: &Value| found["missing"][0].clone();
    for (harm, place) in [("emptied", 1), ("removed", 1), ("removed", 0), ("emptied", 3)] {
        let cluster = four();
        let files = segments(&cluster);
        assert_eq!(files.len(), 4);
        let whole = cluster.json("journal check");
        let held = whole["files"][place]["records"].as_u64().expect("a number");
        match harm {
            "emptied" => fs::write(&files[place], "").expect("a file"),
            _ => fs::remove_file(&files[place]).expect("a file"),
        }
        let name = files[place].file_name().expect("a name").to_string_lossy().into_owned();
        let ran = cluster.hq("--output-mode json journal check");
        assert_eq!(ran.exit, 1, "{ran:?}");
        let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        // Nothing follows the last one that could tell.
        let known = if place == 3 { Value::Null } else { held.into() };
        assert_eq!(missing(&found), serde_json::json!({ "files": name, "records": known }), "{harm} {place}");
        let text = cluster.hq("journal check").stdout;
        let told = match place {
            3 => format!("Missing or unreadable: an unknown number of records of {name}."),
            _ => format!("Missing or unreadable: {held} records of {name}."),
        };
        assert!(text.contains(&told), "{text}");
        let repaired = cluster.ok("journal repair");
        assert!(repaired.contains(&told), "{repaired}");
    }
}

#[test]
fn a_journal_that_lies_elsewhere_is_found() {
    let mut cluster = Cluster::server_with("--journal elsewhere");
    cluster.ok("submit true");
    let intact = |cluster: &Cluster| assert!(cluster.ok("journal check").contains("Intact: "));
    intact(&cluster);
    stop(&mut cluster);
    intact(&cluster);
    assert_eq!(count(&lines(&cluster.ok("journal export")), "job-created"), 1);
    // The place of another server directory is its own.
    let error = cluster.fails(1, "--server-dir other journal check");
    assert!(error.contains("there is no journal in") && error.contains("other/journal"), "{error}");
    assert!(error.contains("it is `journal` in the server directory"), "{error}");
    let mut cluster = Cluster::server_with("--journal none");
    let error = cluster.fails(1, "journal check");
    assert!(error.contains("keeps no journal"), "{error}");
    stop(&mut cluster);
    cluster.start_server("");
    intact(&cluster);
}

#[test]
fn a_journal_that_is_taken_away_stops_changes_until_it_is_back() {
    let mut cluster = Cluster::new();
    let (started, go) = (cluster.pipe("started"), cluster.pipe("go"));
    cluster.write("task.sh", "echo > started\nread -r line < go\n");
    cluster.ok("submit --name runs sh task.sh");
    cluster.line_from(&started);
    fs::remove_dir_all(journal(&cluster)).expect("a directory");
    let held = Process::start(cluster.command(["submit", "--name", "held", "true"]));
    // Its files go one by one, so the first trouble found may be that of a single file.
    trouble_that(&cluster, |found| {
        found["error"].as_str().is_some_and(|error| error.contains("make an empty directory in its place"))
    });
    let error = cluster.fails(1, "submit --name refused true");
    assert!(error.contains("Nothing was changed: the server cannot keep changes now"), "{error}");
    assert!(error.contains("make an empty directory in its place"), "{error}");
    cluster.ok("job list --all");
    fs::write(&go, "\n").expect("a reader");

    fs::create_dir(journal(&cluster)).expect("it is gone");
    assert_eq!(held.end(), 0, "what was held is kept now");
    trouble(&cluster, false);
    cluster.ok("job wait 1,2");
    assert!(cluster.ok("journal check").contains("Intact: "));
    kill_and_start(&mut cluster);
    let jobs = cluster.json("job list --all");
    let names: Vec<_> = jobs.as_array().into_iter().flatten().map(|job| job["name"].clone()).collect();
    assert_eq!(names, ["runs", "held"]);
}

#[test]
fn a_torn_end_is_cut_and_mentioned() {
    let mut cluster = Cluster::server();
    for name in ["first", "second"] {
        cluster.ok(&format!("submit --name {name} true"));
    }
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    let last = segments(&cluster).pop().expect("a segment");
    let bytes = || fs::metadata(&last).expect("a file").len();
    let whole = bytes();
    OpenOptions::new().append(true).open(&last).and_then(|mut f| f.write_all(&[7; 33])).expect("a file");
    assert!(cluster.ok("journal check").contains("33 bytes"), "the torn end is no damage");
    cluster.start_server("");
    assert_eq!(bytes(), whole);
    let log = fs::read_to_string(cluster.server_dir().join("../server.log")).expect("a log");
    assert!(log.contains("the server before died in a write") && log.contains("bytes=33"), "{log}");
    assert_eq!(cluster.json("job list --all").as_array().map(Vec::len), Some(2));
}

#[test]
fn what_is_no_journal_is_named() {
    for (content, text) in [
        (Vec::new(), "it is empty"),
        (vec![0; 500], "it holds zeros"),
        ((0..500u32).map(|i| ((i * 7919) >> 3) as u8).collect(), "its first bytes are not a journal's"),
    ] {
        let cluster = stopped();
        fs::write(segments(&cluster).remove(0), content).expect("a file");
        let error = start_fails(&cluster);
        assert!(error.contains("is no journal file: ") && error.contains(text), "{error}");
    }
    let place = Place::new();
    place.write("file", "text");
    let error = place.fails(1, "server start --host localhost --journal file");
    assert!(error.contains("the journal directory") && error.contains("cannot be used"), "{error}");
    let error = place.fails(1, "journal check nowhere");
    assert!(error.contains("there is no journal in nowhere"), "{error}");
}

#[test]
fn a_file_of_another_journal_is_refused() {
    let mut cluster = stopped();
    cluster.start_server("");
    stop(&mut cluster);
    let other = stopped();
    fs::copy(segments(&other).remove(0), segments(&cluster).remove(0)).expect("a copy");
    let error = start_fails(&cluster);
    assert!(error.contains(" belongs to journal "), "{error}");
}

#[test]
fn two_servers_do_not_share_a_journal() {
    let cluster = Cluster::server();
    let path = journal(&cluster).display().to_string();
    let error =
        cluster.fails(1, &format!("--server-dir other server start --host localhost --journal {path}"));
    assert!(error.contains("is in use by process "), "{error}");
    // A lock file of a node that is gone holds nobody back.
    let mut cluster = stopped();
    fs::write(journal(&cluster).join("lock"), "4242 gone.example 1\n").expect("a file");
    cluster.start_server("");
}

#[test]
fn a_journal_of_a_later_release_names_it() {
    let place = Place::new();
    let path = journal(&place);
    fs::create_dir_all(&path).expect("a directory");
    let disk = RealDisk::open(&path).expect("a directory");
    let options = Options { create: Some(JournalId([1; 16])), ..Options::default() };
    let mut nothing = |_: u64, _: &[u8]| Ok::<(), String>(());
    let (mut journal, _) = Journal::open(disk, &options, &mut nothing).expect("a journal");
    let started = Record::ServerStarted { epoch: Epoch(1), uid: "abc123".into(), release: "9.8.7".into() };
    journal.append(&hq_proto::encode_record(Timestamp(5), &started));
    // Field 1500 may be skipped, field 900 may not: keys 12002 and 7202, each of length 1.
    journal.append(&[0xe2, 0x5d, 1, 7]);
    journal.append(&[0xa2, 0x38, 1, 7]);
    journal.close().expect("a journal");
    let error = place.fails(1, "server start --host localhost");
    assert!(error.contains("was written by hq 9.8.7, this is hq "), "{error}");
    assert!(error.contains("record 2 (kind 900)"), "{error}");
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["event"]["type"] == kind).count()
}

#[test]
fn events_are_exported_and_replayed_and_pruned() {
    let mut cluster = Cluster::new();
    cluster.ok("submit --wait --array 1-20 true");
    cluster.hq("submit --wait false");
    let exported = lines(&cluster.ok("journal export"));
    for (kind, number) in [
        ("server-start", 1),
        ("worker-connected", 1),
        ("job-created", 2),
        ("task-finished", 20),
        ("task-failed", 1),
        ("job-completed", 2),
    ] {
        assert_eq!(count(&exported, kind), number, "{kind}");
    }
    assert_eq!(lines(&cluster.ok("journal replay")), exported);
    assert_eq!(cluster.says("journal flush"), "The journal is on disk\n");
    cluster.ok("journal report ../server/journal page.html");
    let page = cluster.read("page.html");
    assert!(
        page.contains("20 executions finished, 1 failed, 0 were lost") && page.ends_with("</html>\n"),
        "{page}"
    );

    assert_eq!(cluster.says("journal prune"), "The journal was pruned\n");
    assert_eq!(cluster.json("job list --all"), serde_json::json!([]));
    let pruned = lines(&cluster.ok("journal replay"));
    assert_eq!((count(&pruned, "job-created"), count(&pruned, "task-finished")), (0, 0));
    let checked = cluster.ok("journal check");
    assert!(checked.contains("what a compaction left") && checked.contains("Intact: "), "{checked}");
    // Ids are not given again, and what was pruned is whole.
    stop(&mut cluster);
    cluster.start_server("");
    assert_eq!(cluster.json("submit true")["id"], 3);
}

#[test]
fn what_workers_offered_is_divided_and_attempts_are_written_for_other_programs() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --array 1-20 true");
    cluster.hq("submit --wait false");
    cluster.fails(1, "submit --wait --retry 1 false");
    let used = cluster.json("journal utilization");
    assert_eq!(used["attempts"], serde_json::json!({"finished": 20, "failed": 2, "lost": 1}));
    let sum = |account: &Value| -> f64 {
        account["parts"]
            .as_object()
            .expect("parts")
            .values()
            .map(|part| part.as_f64().expect("seconds"))
            .sum()
    };
    let offered = used["cpus"]["offered"].as_f64().expect("seconds");
    assert!(offered > 0.0 && (sum(&used["cpus"]) - offered).abs() < 1e-6, "{used}");
    let jobs: Vec<_> = used["jobs"].as_array().expect("jobs").iter().map(|job| &job["attempts"]).collect();
    assert_eq!(jobs, [20, 1, 2]);
    assert_eq!(used["workers"].as_array().map(Vec::len), Some(1));
    assert_eq!(used["allocations"][0]["id"], "none");
    for by in ["total", "allocation", "worker", "job"] {
        let table = cluster.ok(&format!("journal utilization --by {by}"));
        assert!(table.contains(" %"), "{table}");
    }
    assert!(cluster.ok("journal utilization --output-mode quiet").starts_with("work "));
    assert!(!cluster.ok("journal utilization").contains("Energy"), "nobody measured, and nobody asked");
    let estimated = cluster.ok("journal utilization --watts-per-cpu 10");
    assert!(estimated.contains(" estimated (10 W per CPU, "), "{estimated}");
    cluster.fails(2, "journal utilization --watts-per-cpu -1");

    cluster.ok("journal profile campaign/profile");
    assert!(!cluster.path("campaign/profile/otlp.jsonl").exists());
    cluster.ok("journal profile traces --format otlp");
    let traces: Value = serde_json::from_str(&cluster.read("traces/otlp.jsonl")).expect("JSON");
    let spans = &traces["resourceSpans"][0]["scopeSpans"][0]["spans"];
    // Three jobs and their attempts.
    assert_eq!(spans.as_array().map(Vec::len), Some(3 + 23));
    let table = cluster.read("campaign/profile/attempts.csv");
    assert_eq!(table.lines().filter(|line| line.contains(",work,")).count(), 20, "{table}");
    let trace: Value = serde_json::from_str(&cluster.read("campaign/profile/trace.json")).expect("JSON");
    let of_kind = |kind: &str| {
        trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == kind).count()
    };
    assert_eq!((of_kind("M"), of_kind("X")), (1, 23));
    let events = cluster.read("campaign/profile/headquarters.prof");
    assert!(events.lines().all(|line| line.split(',').count() == 7), "{events}");
    assert_eq!(events.matches(",DONE,").count(), 20, "{events}");
    assert_eq!(events.matches(",FAILED,").count(), 2, "{events}");
    let refused = cluster.fails(1, "journal profile campaign/profile/attempts.csv/below");
    assert!(
        refused.contains("the profile cannot be written to campaign/profile/attempts.csv/below"),
        "{refused}"
    );
}

#[test]
fn a_stream_goes_on_over_a_killed_server() {
    let mut cluster = Cluster::server();
    cluster.ok("submit --name before true");
    let mut command = cluster.command(["journal", "stream"]);
    let mut stream = command.stdout(Stdio::piped()).spawn().expect("hq can be run");
    let mut out = BufReader::new(stream.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("job-created") {
        assert!(out.read_line(&mut text).expect("lines") > 0, "{text}");
    }
    kill_and_start(&mut cluster);
    cluster.ok("submit --name after true");
    // It is connected again before the server is stopped.
    while text.matches("job-created").count() < 2 {
        assert!(out.read_line(&mut text).expect("lines") > 0, "{text}");
    }
    stop(&mut cluster);
    out.read_to_string(&mut text).expect("lines");
    assert!(stream.wait().expect("a child").success());
    let events = lines(&text);
    assert_eq!((count(&events, "job-created"), count(&events, "server-start")), (2, 2), "{events:?}");
}

fn kill_and_start(cluster: &mut Cluster) {
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    cluster.start_server("");
}

#[test]
fn waiting_clients_and_running_tasks_go_on_over_a_killed_server() {
    let mut cluster = Cluster::new();
    let (started, go) = (cluster.pipe("started"), cluster.pipe("go"));
    cluster.write(
        "task.sh",
        "echo \"$HQ_INSTANCE_ID\" > started\nread -r line < go\necho \"$line $HQ_INSTANCE_ID\"\n",
    );
    let submit = Process::start(cluster.command(["submit", "--wait", "--stdout", "out", "sh", "task.sh"]));
    assert_eq!(cluster.line_from(&started), "0");
    kill_and_start(&mut cluster);
    fs::write(go, "went on\n").expect("a reader");
    assert_eq!(submit.end(), 0);
    assert_eq!(cluster.read("out"), "went on 0\n", "it was not started again");
}

#[test]
fn ended_jobs_are_forgotten_by_the_rule_and_ids_are_not_given_again() {
    let mut cluster = Cluster::server_with("--keep-jobs 2");
    cluster.worker("--cpus 4");
    for _ in 0..4 {
        cluster.ok("submit --wait true");
    }
    let ids = |cluster: &Cluster| {
        let jobs = cluster.json("job list --all");
        jobs.as_array().expect("a list").iter().map(|job| job["id"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&cluster), [Some(3), Some(4)]);
    let limits = cluster.json("server info")["limits"].clone();
    assert_eq!(
        (&limits["ended jobs kept"], &limits["ended jobs kept for"]),
        (&2.into(), &serde_json::Value::Null)
    );
    stop(&mut cluster);
    cluster.start_server("--keep-jobs 0,1h");
    assert_eq!(ids(&cluster), []);
    assert_eq!(cluster.json("submit true")["id"], 5);
    let error = cluster.fails(2, "server start --keep-jobs 5,6");
    assert!(error.contains("give one number of jobs and one duration"), "{error}");
}

// A server whose journal is there.
fn on_a_small_disk(kib: u32) -> Cluster {
    Cluster::on_a_small_disk(Place::new(), kib, "true", "--journal disk/journal")
}

// Asks until the server says that its journal has, or has not, trouble.
fn trouble(cluster: &Cluster, is_there: bool) -> Value {
    trouble_that(cluster, |found| found.is_null() != is_there)
}

/// The journal's trouble once it is as wanted; null if there is none.
fn trouble_that(cluster: &Cluster, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let found = cluster.json("server info")["journal_trouble"].clone();
        if is_wanted(&found) {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "the journal's trouble is still {found}");
    }
}

#[test]
fn on_a_full_disk_nothing_is_changed_and_everything_goes_on_when_there_is_room() {
    let mut cluster = on_a_small_disk(256);
    cluster.worker("--cpus 4");
    let (started, go) = (cluster.pipe("started"), cluster.pipe("go"));
    cluster.write("task.sh", "echo > started\nread -r line < go\n");
    cluster.ok("submit --name runs sh task.sh");
    cluster.line_from(&started);
    let pid = cluster.json("server info")["pid"].as_u64().expect("a number");
    let disk = PathBuf::from(format!("/proc/{pid}/root"))
        .join(cluster.path("disk").strip_prefix("/").expect("absolute"));
    let mut filler = fs::File::create(disk.join("filler")).expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}

    let long = "x".repeat(50_000);
    let mut held = cluster.command(["submit", "--name", "held", "true", &long]);
    held.stderr(fs::File::create(cluster.path("held.err")).expect("a file"));
    let held = Process::start(held);
    let found = trouble(&cluster, true);
    assert!(found["error"].as_str().is_some_and(|error| error.contains("No space left")), "{found}");
    let error = cluster.fails(1, "submit --name refused true");
    assert!(error.contains("Nothing was changed: the server cannot keep changes now"), "{error}");
    let error = cluster.fails(1, "job cancel 1");
    assert!(error.contains("journal cannot be written"), "{error}");
    let table = cluster.ok("server info");
    assert!(table.contains("could not be written since "), "{table}");
    cluster.ok("job list --all");
    let begin = Instant::now();
    while !cluster.read("held.err").contains("it is read-only") {
        // Whoever is held is told why after a second.
        cluster.ok("job list --all");
        assert!(begin.elapsed() < PATIENCE, "it was not told: {}", cluster.read("held.err"));
    }
    // The task ends meanwhile; its report is held.
    fs::write(&go, "\n").expect("a reader");

    fs::remove_file(disk.join("filler")).expect("it is there");
    drop(filler);
    assert_eq!(held.end(), 0, "what was held is kept now");
    trouble(&cluster, false);
    cluster.ok("job wait 1,2");
    assert_eq!(cluster.json("submit true")["id"], 3, "what was refused took no id");
    let checked = cluster.ok(&format!("journal check {}", disk.join("journal").display()));
    assert!(checked.contains("Intact: "), "{checked}");
    stop(&mut cluster);
}

#[test]
fn a_server_whose_disk_is_full_stops_and_says_what_is_lost() {
    let mut cluster = on_a_small_disk(256);
    cluster.ok("submit --name kept true");
    let pid = cluster.json("server info")["pid"].as_u64().expect("a number");
    let disk = PathBuf::from(format!("/proc/{pid}/root"))
        .join(cluster.path("disk").strip_prefix("/").expect("absolute"));
    let mut filler = fs::File::create(disk.join("filler")).expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}
    let long = "x".repeat(50_000);
    let mut held = cluster.command(["submit", "--name", "held", "true", &long]);
    held.stderr(fs::File::create(cluster.path("held.err")).expect("a file"));
    let held = Process::start(held);
    trouble(&cluster, true);
    let said = cluster.hq("server stop");
    let lost = "WARN The journal could not be written before the end (";
    assert!(said.exit == 0 && said.stderr.contains(lost), "{said:?}");
    assert!(
        said.stderr.contains("No space left on device") && said.stderr.contains("acknowledged."),
        "{said:?}"
    );
    assert_eq!(held.end(), 3, "what was not acknowledged has no answer");
    assert_eq!(cluster.server.take().expect("it ran").end(), 1, "its own exit code says so, too");
}

#[test]
fn a_journal_of_another_server_is_refused() {
    let mut cluster = Cluster::server();
    cluster.ok("submit true");
    stop(&mut cluster);
    let mut other = Cluster::server();
    stop(&mut other);
    let theirs = other.server_dir().join("journal").display().to_string();
    let error = cluster.fails(1, &format!("server start --host localhost --journal {theirs}"));
    assert!(error.contains("belongs to server") && error.contains("--server-dir"), "{error}");
    cluster.start_server("");
    assert_eq!(cluster.json("submit true")["id"], 2, "its own is as it was");
    stop(&mut cluster);
}
