//! Notices about jobs: commands, URLs and mails, from the server and from a client that waits.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::cluster::{Cluster, Process};
use crate::patience;

impl Cluster {
    fn script(&self, name: &str, content: &str) {
        self.write(name, format!("#!/bin/sh\n{content}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a file");
    }

    // What became of the notices of a job, when all of them have been sent or given up.
    fn notices_of(&self, job: &str) -> Vec<String> {
        let states = || {
            let notices = &self.json(&format!("job info {job}"))[0]["notices"];
            let word = |notice: &Value| format!("{} {}", notice["on"], notice["state"]).replace('"', "");
            let states: Vec<String> = notices.as_array().expect("notices").iter().map(word).collect();
            match states.iter().any(|state| state.ends_with(" due")) {
                true => Err(states),
                false => Ok(states),
            }
        };
        patience::answer(states).expect("all are sent in the end")
    }
}

// Answers one request with these bytes, and gives what was posted.
fn answer_once(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().expect("a peer");
    let request = read_request(&mut stream);
    stream.write_all(answer.as_bytes()).expect("a peer that listens");
    request
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a request");
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).expect("a text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").trim().parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    format!("{head}{}", String::from_utf8(body).expect("a text"))
}

#[test]
fn a_command_is_told_of_the_end_and_of_the_first_failure() {
    let cluster = Cluster::new();
    let (ended, failed) = (cluster.pipe("ended"), cluster.pipe("failed"));
    cluster.script(
        "told.sh",
        "echo \"$1 $HQ_NOTICE_REASON $HQ_JOB_ID $HQ_JOB_NAME $HQ_JOB_STATE $HQ_TASKS_FAILED\" > ended",
    );
    cluster.script("failed.sh", "cat > failed");
    let out = cluster.ok(
        "submit --array 1-2 --name 'a b' --on-finish './told.sh \"x y\"' --on-failure ./failed.sh -- sh -c 'echo no such ligand >&2; exit 1'",
    );
    assert!(!out.contains("cannot be told"), "{out}");
    let document: Value = serde_json::from_str(&cluster.line_from(&failed)).expect("JSON");
    assert_eq!((&document["reason"], &document["job"]["name"]), (&"failure".into(), &"a b".into()));
    assert!(document["failure"]["error"].as_str().expect("an error").contains("exit code 1"), "{document}");
    assert_eq!(document["failure"]["stderr_last_line"], "no such ligand");
    assert_eq!(cluster.line_from(&ended), "x y end 1 a b failed 2");
    assert_eq!(cluster.notices_of("1"), ["end sent", "failure sent"]);
    assert!(cluster.ok("job info 1").contains("end: ./told.sh 'x y' (sent "));
    let events = cluster.ok("journal replay");
    assert!(events.contains("job-notice-due") && events.contains("job-notice-sent"), "{events}");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_document_is_posted_and_redirects_are_not_followed() {
    let cluster = Cluster::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook?secret=1", listener.local_addr().expect("an address"));
    cluster.ok(&format!("submit --on-finish {url} -- true"));
    let request = answer_once(&listener, "HTTP/1.1 204 No Content\r\n\r\n");
    assert!(request.starts_with("post /hook?secret=1 http/1.1"), "{request}");
    assert!(request.contains("content-type: application/json"), "{request}");
    let document = request.rsplit("\r\n\r\n").next().expect("a body");
    let document: Value = serde_json::from_str(document).expect("JSON");
    assert_eq!((&document["reason"], &document["job"]["state"]), (&"end".into(), &"finished".into()));
    assert_eq!(cluster.notices_of("1"), ["end sent"]);
    assert!(!cluster.ok("job info 1").contains("secret"));
    cluster.ok(&format!("submit --on-finish {url} -- true"));
    answer_once(
        &listener,
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    );
    let trouble = || {
        let notice = cluster.json("job info 2")[0]["notices"][0].clone();
        notice["error"].as_str().map(str::to_owned).ok_or(notice)
    };
    let trouble = patience::answer(trouble).expect("it is said why it was not sent");
    assert_eq!(trouble, "the answer was 302 Found: redirects are not followed");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn mails_go_through_sendmail_and_names_of_jobs_stay_out_of_headers() {
    let bin = tempfile::tempdir().expect("a directory");
    let sendmail = bin.path().join("sendmail");
    fs::write(&sendmail, "#!/bin/sh\n{ echo \"$@\"; cat; } > \"$(dirname \"$0\")/mail\"\n").expect("a file");
    fs::set_permissions(&sendmail, fs::Permissions::from_mode(0o755)).expect("a file");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").expect("a path"));
    let mut cluster = Cluster::server_in(vec![("PATH", path)]);
    cluster.worker("--cpus 1");
    cluster.ok("submit --name 'Bcc: you@example.org é' --on-finish mailto:me@example.org -- true");
    assert_eq!(cluster.notices_of("1"), ["end sent"]);
    let mail = fs::read_to_string(bin.path().join("mail")).expect("a mail");
    let (head, body) = mail.split_once("\n\n").expect("a body");
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines[..2], ["-i -t", "To: me@example.org"]);
    assert!(lines[2].starts_with("Subject: =?UTF-8?B?"), "{head}");
    assert!(!lines.iter().any(|line| line.starts_with("Bcc")), "{head}");
    assert!(body.lines().all(|line| line.len() <= 76), "{body}");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_server_that_was_killed_while_it_told_tells_again() {
    let mut cluster = Cluster::new();
    let (told, go) = (cluster.pipe("told"), cluster.pipe("go"));
    cluster.script("told.sh", "echo \"$HQ_JOB_ID\" > told; cat go > /dev/null");
    cluster.ok("submit --on-finish ./told.sh -- true");
    assert_eq!(cluster.line_from(&told), "1");
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    // The one that was started goes on by itself.
    fs::write(&go, "go").expect("a reader");
    cluster.start_server("");
    assert_eq!(cluster.line_from(&told), "1");
    fs::write(&go, "go").expect("a reader");
    assert_eq!(cluster.notices_of("1"), ["end sent"]);
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_client_that_waits_tells_by_itself() {
    let cluster = Cluster::new();
    let told = cluster.pipe("told");
    cluster.script(
        "told.sh",
        "echo \"$HQ_NOTICE_REASON $HQ_JOB_ID\" >> all; test $HQ_NOTICE_REASON = failure || cat all > told",
    );
    cluster.ok("submit -- false");
    let waiting = Process::start(cluster.command(["job", "wait", "1", "--notify", "./told.sh"]));
    assert_eq!(cluster.line_from(&told), "failure 1");
    assert_eq!(waiting.end(), 1);
    assert_eq!(cluster.read("all"), "failure 1\nend 1\n");
    let ran = cluster.hq("job wait 1 --notify 'sh -c \"echo no; exit 3\"'");
    assert_eq!(ran.exit, 1);
    assert!(ran.stderr.contains("`sh` ended with exit code 3: no"), "{ran:?}");
    let ran = cluster.hq("run --on-finish 'sh -c \"echo $HQ_JOB_STATE > ended\"' -- true");
    assert_eq!((ran.exit, cluster.read("ended").as_str()), (0, "finished\n"), "{ran:?}");
}

#[test]
fn what_is_no_target_is_refused_and_what_is_not_there_is_warned_of() {
    let cluster = Cluster::server();
    let refused = cluster.fails(2, "submit --on-finish ftp://example.org -- true");
    assert!(refused.contains("only http:// and https:// URLs are supported"), "{refused}");
    let refused = cluster.fails(2, "submit --notify 'mailto:a@b, c@d' -- true");
    assert!(refused.contains("use a single plain address"), "{refused}");
    let refused = cluster.fails(2, "submit --stall-after 0s --notify true -- true");
    assert!(refused.contains("must be at least one second"), "{refused}");
    let warned = cluster.hq("submit --notify no-such-program -- true");
    assert_eq!(warned.exit, 0);
    assert!(warned.stderr.contains("there is no program `no-such-program`"), "{warned:?}");
    cluster.ok("job open --on-finish true");
    let refused = cluster.fails(2, "submit --job 2 --on-finish true -- true");
    assert!(
        refused.contains("Parameter --on-finish is not allowed when submitting to an open job."),
        "{refused}"
    );
    cluster.write("job.toml", "on_finish = ['true', 'mailto:me@example.org']\nnotify = 'x y'\nstall_after = '2h'\n[[task]]\ncommand = ['true']\n");
    cluster.ok("job submit-file job.toml");
    assert_eq!(cluster.json("job info 3")[0]["notices"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_client_that_tells_is_ended_by_a_signal_with_its_programs_and_tells_all_at_once() {
    let cluster = Cluster::server();
    cluster.ok("job open");
    cluster.ok("job close 1");
    let (told, held) = (cluster.pipe("told"), cluster.pipe("held"));
    // One hangs, and holds a pipe as long as anything of it runs. The other one is told all the same.
    cluster.script("hang.sh", "exec 9> held; setsid sleep 1000 & sleep 1000");
    let targets = ["job", "wait", "1", "--notify", "./hang.sh", "--notify", "sh -c 'echo $HQ_JOB_ID > told'"];
    let mut command = cluster.command(targets);
    command.stderr(fs::File::create(cluster.path("said")).expect("a file"));
    let waiting = Process::start(command);
    assert_eq!(cluster.line_from(&told), "1");
    let mut pipe = fs::File::open(&held).expect("somebody holds it");
    waiting.signal(15);
    assert_eq!(waiting.end(), 128 + 15);
    pipe.read_to_end(&mut Vec::new()).expect("nobody holds it any more");
    let said = cluster.read("said");
    assert!(said.contains("Interrupted: all awaited jobs have ended, but "), "{said}");
}

#[test]
fn a_server_that_stops_ends_the_programs_that_tell_and_the_next_one_tells_again() {
    let mut cluster = Cluster::server();
    let (told, held) = (cluster.pipe("told"), cluster.pipe("held"));
    let script =
        "mkdir first || { echo again > told; exit 0; }; exec 9> held; setsid sleep 1000 & sleep 1000";
    cluster.script("told.sh", script);
    cluster.ok("submit --on-finish ./told.sh -- true");
    cluster.ok("job cancel 1");
    let mut pipe = fs::File::open(&held).expect("somebody holds it");
    let server = cluster.server.take().expect("a server");
    // It waits for nobody then.
    server.signal(15);
    server.end();
    pipe.read_to_end(&mut Vec::new()).expect("nobody holds it any more");
    cluster.start_server("");
    assert_eq!(cluster.line_from(&told), "again");
    assert_eq!(cluster.notices_of("1"), ["end sent"]);
}

#[test]
fn whoever_stops_a_server_that_tells_is_told_what_it_waits_for() {
    let cluster = Cluster::server();
    let (begun, go) = (cluster.pipe("begun"), cluster.pipe("go"));
    cluster.script("told.sh", "echo begun > begun; cat go");
    cluster.ok("submit --on-finish ./told.sh -- true");
    cluster.ok("job cancel 1");
    assert_eq!(cluster.line_from(&begun), "begun");
    let mut command = cluster.command(["server", "stop"]);
    command.stderr(fs::File::create(cluster.path("said")).expect("a file"));
    let stopping = Process::start(command);
    patience::until("what it waits for", || match fs::read_to_string(cluster.path("said")) {
        Ok(said) if said.contains("for 1 notice that is being sent") => Ok(()),
        said => Err(format!("{said:?}")),
    });
    fs::write(&go, "go").expect("a reader");
    assert_eq!(stopping.end(), 0);
}
