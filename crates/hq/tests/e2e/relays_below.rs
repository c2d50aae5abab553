//! Relays below others: who takes tasks there, what becomes of these when a relay, the one above it or the server is killed, and
//! what is told of a parent that is none.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::cluster::{Cluster, PATIENCE, Place, Process, Ran};
use crate::patience;

const SIGKILL: i32 = 9;

// A relay that runs, and where it listens.
struct Relay {
    process: Process,
    socket: PathBuf,
}

impl Relay {
    // Of a place, at the end of this path there; below another one, or else connected to the place's server.
    fn start(place: &Place, name: &str, parent: Option<&Path>) -> Relay {
        let socket = place.root().join("own").join(name);
        let mut command = place.command(["pull", "relay", "--socket"]);
        command.arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(parent) = parent {
            command.arg("--parent").arg(parent);
        }
        let relay = Relay { process: Process::start(command), socket };
        patience::answer(|| UnixStream::connect(&relay.socket)).expect("it listens");
        relay
    }

    fn kill(self) {
        self.process.signal(SIGKILL);
        self.process.end();
    }

    // A command that speaks to this relay.
    fn command(&self, place: &Place, line: &str) -> std::process::Command {
        let mut command = place.command(shlex::split(line).expect("words"));
        command.env("HQ_PULL_SOCKET", &self.socket);
        command
    }

    fn hq(&self, place: &Place, line: &str) -> Ran {
        self.command(place, line).output().expect("hq can be run").into()
    }

    fn ok(&self, place: &Place, line: &str) -> String {
        let ran = self.hq(place, line);
        assert_eq!(ran.exit, 0, "hq {line}: {ran:?}");
        ran.stdout
    }

    // Somebody with this label, who waits for a task.
    fn waits(&self, label: &str) -> BufReader<UnixStream> {
        let mut line = UnixStream::connect(&self.socket).expect("it listens");
        line.set_read_timeout(Some(PATIENCE)).expect("a socket");
        line.write_all(format!("{{\"hello\":{{\"label\":\"{label}\"}}}}\n").as_bytes()).expect("it reads");
        let mut line = BufReader::new(line);
        assert!(answer(&mut line).contains("welcome"));
        line.get_mut().write_all(b"{\"take\":{\"wait\":600}}\n").expect("it reads");
        line
    }
}

fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim_end().to_owned()
}

fn answer(line: &mut BufReader<UnixStream>) -> String {
    let mut text = String::new();
    line.read_line(&mut text).expect("an answer");
    text
}

// Two nodes: one with the server, and one that has nothing of it.
fn nodes(options: &str) -> (Cluster, Place) {
    (Cluster::server_with(options), Place::new())
}

#[test]
fn each_task_is_done_once_whichever_relay_of_a_tree_it_is_taken_from() {
    let (cluster, far) = nodes("");
    let top = Relay::start(&cluster, "top", None);
    let middle = Relay::start(&far, "middle", Some(&top.socket));
    let bottom = Relay::start(&far, "bottom", Some(&middle.socket));
    far.write("tasks", (0..300).map(|task| format!("t{task}\n")).collect::<String>());
    assert_eq!(bottom.ok(&far, "pull addfile tasks --bag tree"), "300 new in bag 1\n");
    bottom.ok(&far, "pull close tree");
    let done = far.path("done");
    let each =
        format!("pull run --bag tree -j 4 --block 4 -- sh -c 'echo $HQ_PULL_NAME >> {}'", done.display());
    let running = [(&top, &*cluster), (&middle, &far), (&bottom, &far)].map(|(relay, place)| {
        let mut command = relay.command(place, &each);
        command.stdout(Stdio::null());
        Process::start(command)
    });
    for running in running {
        assert_eq!(running.end(), 0);
    }
    let done = fs::read_to_string(done).expect("a file");
    let mut done: Vec<&str> = done.lines().collect();
    assert_eq!(done.len(), 300);
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), 300, "each once");
    let waited = bottom.ok(&far, "pull wait tree");
    assert!(waited.contains("finished, 0 waiting, 0 taken, 300 finished, 0 failed"), "{waited}");
    assert_eq!(cluster.json("job list --all")[0]["task_stats"]["finished"], 300);

    let last = |status: String| status.lines().last().unwrap_or_default().replace(&hostname(), "NODE");
    let [far_above, above] = [&top, &middle].map(|relay| relay.socket.display());
    let told = last(bottom.ok(&far, "pull status"));
    assert_eq!(told, format!("This relay is below the relays NODE:{above}, NODE:{far_above}"));
    let told = last(top.ok(&cluster, "pull status"));
    assert_eq!(told, format!("This relay is above the relay NODE:{above}"));
    cluster.ok("server stop");
    for relay in [top, middle, bottom] {
        assert_eq!(relay.process.end(), 0);
    }
}

#[test]
fn a_relay_whose_parent_is_killed_keeps_what_is_taken_and_those_who_wait() {
    let (cluster, far) = nodes("");
    let top = Relay::start(&cluster, "top", None);
    let below = Relay::start(&far, "below", Some(&top.socket));
    below.ok(&far, "pull create a");
    below.ok(&far, "pull create b a");
    assert_eq!(below.ok(&far, "pull steal -q --as one"), "a\n");
    let mut waiting = below.waits("two");
    top.kill();
    let mut command = below.command(&far, "pull complete a --as one --result done");
    command.stdout(Stdio::null());
    let completing = Process::start(command);
    let refused = below.hq(&far, "pull create c");
    assert!(refused.exit == 3 && refused.stderr.contains("the server does not answer"), "{refused:?}");

    let top = Relay::start(&cluster, "top", None);
    assert_eq!(completing.end(), 0, "its end was kept, and counts");
    let given = answer(&mut waiting);
    assert!(given.contains("\"name\":\"b\""), "{given}");
    let created = || match below.hq(&far, "pull create c") {
        Ran { exit: 0, .. } => Ok(()),
        ran => Err(format!("{ran:?}")),
    };
    patience::until("the way to the server", created);
    below.ok(&far, "pull complete b --as two");
    assert_eq!(below.ok(&far, "pull look a b c"), "a finished done\nb finished\nc waiting\n");
    let status = top.ok(&cluster, "pull status 1");
    assert!(status.contains("1 waiting, 0 taken, 2 finished, 0 failed"), "{status}");
}

#[test]
fn what_was_taken_from_a_relay_that_is_killed_goes_to_others_and_is_done_once() {
    let (cluster, far) = nodes("--worker-grace 1s");
    let top = Relay::start(&cluster, "top", None);
    let below = Relay::start(&far, "below", Some(&top.socket));
    for task in ["a", "b"] {
        below.ok(&far, &format!("pull create {task}"));
    }
    assert_eq!(below.ok(&far, "pull steal -q --as one"), "a\n");
    below.ok(&far, "pull complete a --as one");
    assert_eq!(below.ok(&far, "pull steal -q --as one"), "b\n");
    assert_eq!(top.hq(&cluster, "pull steal -q --as two").exit, 1, "nothing is left");
    below.kill();
    assert_eq!(top.ok(&cluster, "pull steal -q --wait --as two"), "b\n");
    let below = Relay::start(&far, "below", Some(&top.socket));
    let stale = below.hq(&far, "pull complete b --as one");
    assert!(stale.exit == 1 && stale.stderr.contains("nobody has such a task here"), "{stale:?}");
    top.ok(&cluster, "pull complete b --as two");
    assert_eq!(below.ok(&far, "pull look a b"), "a finished\nb finished\n");
}

#[test]
fn what_was_taken_far_below_a_server_that_is_killed_stays_taken() {
    let (mut cluster, far) = nodes("");
    let top = Relay::start(&cluster, "top", None);
    let middle = Relay::start(&far, "middle", Some(&top.socket));
    let bottom = Relay::start(&far, "bottom", Some(&middle.socket));
    bottom.ok(&far, "pull create a");
    assert_eq!(bottom.ok(&far, "pull steal -q --as one"), "a\n");
    let mut waiting = bottom.waits("two");
    let server = cluster.server.take().expect("running");
    server.signal(SIGKILL);
    server.end();
    cluster.start_server("");
    bottom.ok(&far, "pull complete a --as one");
    let created = || match bottom.hq(&far, "pull create b") {
        Ran { exit: 0, .. } => Ok(()),
        ran => Err(format!("{ran:?}")),
    };
    patience::until("the way to the server", created);
    let given = answer(&mut waiting);
    assert!(given.contains("\"name\":\"b\""), "{given}");
    assert_eq!(bottom.ok(&far, "pull look a b"), "a finished\nb running\n");
}

#[test]
fn a_relay_whose_parent_has_a_parent_has_the_whole_grace_of_workers_too() {
    let (cluster, far) = nodes("");
    let top = Relay::start(&cluster, "top", None);
    let middle = Relay::start(&far, "middle", Some(&top.socket));
    let bottom = Relay::start(&far, "bottom", Some(&middle.socket));
    for relay in [&middle, &bottom] {
        let name = relay.socket.file_name().expect("a name").to_string_lossy();
        // Of one bag the first relay would have both, one of them ahead.
        relay.ok(&far, &format!("pull create {name} --bag of-{name}"));
        let stolen = relay.ok(&far, &format!("pull steal -q --bag of-{name} --as {name}"));
        assert_eq!(stolen, format!("{name}\n"));
    }
    middle.kill();
    // What it had is given to others after the short grace of those who were killed.
    assert_eq!(top.ok(&cluster, "pull steal -q --wait --bag of-middle --as other"), "middle\n");
    let middle = Relay::start(&far, "middle", Some(&top.socket));
    bottom.ok(&far, "pull complete bottom --as bottom");
    top.ok(&cluster, "pull complete middle --as other");
    for name in ["middle", "bottom"] {
        let looked = middle.ok(&far, &format!("pull look {name} --bag of-{name}"));
        assert_eq!(looked, format!("{name} finished\n"));
    }
}

#[test]
fn a_parent_that_is_none_is_named_with_a_way_out() {
    let (cluster, far) = nodes("");
    let own = far.root().join("own");
    let refused = |place: &Place, exit: i32, parent: &Path, socket: &Path| {
        let (parent, socket) = (parent.display(), socket.display());
        place.fails(exit, &format!("pull relay --parent {parent} --socket {socket}"))
    };
    let nobody = own.join("nobody");
    let said = refused(&far, 3, &nobody, &own.join("child"));
    assert!(said.contains(&format!("no relay listens at {}: ", nobody.display())), "{said}");
    assert!(said.contains("start that relay first") && !own.join("child").exists(), "{said}");

    let other = far.root().join("other");
    let listener = UnixListener::bind(&other).expect("a free path");
    let speaks = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        stream.write_all(b"220 ready\r\n").expect("it reads");
        // Until it has heard that.
        let _ = BufReader::new(stream).lines().last();
    });
    let said = refused(&far, 3, &other, &own.join("child"));
    assert!(said.contains(&format!("what listens at {} is no relay", other.display())), "{said}");
    speaks.join().expect("no panic");

    let top = Relay::start(&cluster, "top", None);
    for garbage in [&b"\x03L\n\xff\xff\xff\xff"[..], b"\x03X\n", b"\x03Q\n\0\0\0\0", b"\x03"] {
        UnixStream::connect(&top.socket).expect("it listens").write_all(garbage).expect("it reads");
    }
    top.ok(&cluster, "pull status");
    let said = refused(&cluster, 2, &top.socket, &top.socket);
    assert!(said.contains("cannot be below itself") && said.contains("--socket"), "{said}");
    let below = Relay::start(&far, "below", Some(&top.socket));
    let path = top.socket.clone();
    top.kill();
    let said = refused(&cluster, 2, &below.socket, &path);
    assert!(
        said.contains("is this one or below this one") && said.contains("nearer to the server"),
        "{said}"
    );

    // Without an access file there is no socket that all find.
    let said = far.fails(3, &format!("pull relay --parent {}", below.socket.display()));
    assert!(said.contains("--socket"), "{said}");
}
