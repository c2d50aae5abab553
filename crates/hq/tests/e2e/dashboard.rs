//! `hq dashboard` on a terminal: against a server that goes and comes back, from a journal, and where it cannot be shown.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::cluster::{Cluster, Place, Process};
use crate::patience;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

// A terminal of 100 columns and 30 rows with a dashboard on it.
struct Screen {
    process: Process,
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    is_over: Arc<AtomicBool>,
}

impl Screen {
    fn open(place: &Place, line: &str) -> Screen {
        // No other program that is started meanwhile may have it, or it would never be gone.
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("its size");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let slave = options.open(OsStr::from_bytes(name.as_bytes())).expect("its other end");
        let mut command = place.command(shlex::split(line).expect("words"));
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(slave.try_clone().expect("another descriptor"));
        command.stdout(slave).stderr(Stdio::null());
        let process = Process::start(command);
        let keys = File::from(master);
        let mut reader = keys.try_clone().expect("another descriptor");
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let written = Arc::clone(&shown);
        let is_over = Arc::<AtomicBool>::default();
        let is_closed = Arc::clone(&is_over);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            while !is_closed.load(Ordering::Relaxed) {
                if poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&look)) == Ok(0) {
                    continue;
                }
                // A terminal without a program at its other end cannot be read.
                let Ok(count @ 1..) = reader.read(&mut bytes) else { break };
                written.lock().expect("nobody panics").extend_from_slice(&bytes[..count]);
            }
        });
        Screen { process, keys, shown, reader, is_over }
    }

    // The terminal goes away, as when a connection to it is cut.
    fn close(self) -> Process {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().expect("nobody panics");
        self.process
    }

    fn press(&mut self, keys: &str) {
        self.shown.lock().expect("nobody panics").clear();
        self.keys.write_all(keys.as_bytes()).expect("the dashboard reads");
    }

    // Waits until these words were drawn since the last key.
    #[track_caller]
    fn until(&self, words: &str) {
        patience::until("the screen", || {
            let text = self.text();
            if text.contains(words) { Ok(()) } else { Err(format!("no `{words}` in {text}")) }
        });
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics")).into_owned()
    }
}

#[test]
fn a_job_is_found_opened_and_canceled() {
    let cluster = Cluster::new();
    cluster.ok("submit --name campaign --array 1-3 -- sleep 1000");
    let mut screen = Screen::open(&cluster, "dashboard");
    screen.until("\u{1b}[?1049h");
    screen.until("running");
    screen.press("2");
    screen.until("campaign");
    screen.press("\r");
    screen.until("sleep");
    screen.press("c");
    screen.until("Cancel");
    screen.press("y");
    patience::until("the job is canceled", || {
        match cluster.json("job info 1")[0]["info"]["task_stats"]["canceled"].as_u64() {
            Some(3) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    screen.until("canceled");
    screen.press("q");
    let shown = Arc::clone(&screen.shown);
    assert_eq!(screen.process.end(), 0);
    patience::until("the terminal is as it was", || {
        let text = String::from_utf8_lossy(&shown.lock().expect("nobody panics")).into_owned();
        if text.contains("\u{1b}[?1049l") && text.contains("\u{1b}[?1000l") { Ok(()) } else { Err(text) }
    });
}

#[test]
fn a_server_that_is_killed_is_missed_and_found_again() {
    let mut cluster = Cluster::new();
    cluster.ok("submit --name campaign -- sleep 1000");
    let mut screen = Screen::open(&cluster, "dashboard --no-mouse");
    screen.press("2");
    screen.until("campaign");
    if let Some(server) = cluster.server.take() {
        server.signal(SIGKILL);
        server.end();
    }
    screen.until("does not answer");
    cluster.start_server("");
    screen.until("restarted");
    screen.press("1");
    screen.until("Overview");
    screen.process.signal(SIGTERM);
    let shown = Arc::clone(&screen.shown);
    assert_eq!(screen.process.end(), 0);
    patience::until("the terminal is as it was", || {
        let text = String::from_utf8_lossy(&shown.lock().expect("nobody panics")).into_owned();
        if text.contains("\u{1b}[?1049l") { Ok(()) } else { Err(text) }
    });
}

#[test]
fn a_journal_is_replayed_also_as_other_releases_say_it() {
    let mut cluster = Cluster::new();
    cluster.ok("submit --wait --name past --array 1-5 -- true");
    cluster.ok("server stop");
    cluster.server.take().map(Process::end);
    let journal = cluster.server_dir().join("journal");
    for words in ["--replay", "replay"] {
        let mut screen = Screen::open(&cluster, &format!("dashboard {words} {}", journal.display()));
        screen.until("replay");
        screen.press(">2");
        screen.until("past");
        screen.press(" ");
        screen.press("q");
        assert_eq!(screen.process.end(), 0);
    }
}

#[test]
fn a_dashboard_ends_with_its_terminal() {
    let mut cluster = Cluster::new();
    let screen = Screen::open(&cluster, "dashboard");
    screen.until("Overview");
    assert_eq!(screen.close().end(), 129);
    cluster.ok("server stop");
    cluster.server.take().map(Process::end);
    let journal = cluster.server_dir().join("journal");
    let screen = Screen::open(&cluster, &format!("dashboard --replay {}", journal.display()));
    screen.until("replay");
    assert_eq!(screen.close().end(), 129);
}

#[test]
fn where_it_cannot_be_shown_it_says_so() {
    let cluster = Cluster::server();
    let error = cluster.fails(1, "dashboard");
    assert!(error.contains("needs a terminal") && error.contains("hq job list"), "{error}");
    let error = cluster.fails(1, "dashboard --replay no/such");
    assert!(error.contains("there is no journal in no/such"), "{error}");
    cluster.fails(2, "dashboard --replay");
    cluster.fails(2, "dashboard stars");
    let place = Place::new();
    assert!(place.fails(1, "dashboard").contains("needs a terminal"));
}

#[test]
fn what_was_asked_for_is_compared_with_what_was_used() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --cpus 2 --array 1-20 -- true");
    cluster.hq("submit --wait --cpus 1 --time-limit 1h -- false");
    let table = cluster.ok("job efficiency");
    assert!(cluster.ok("job efficiency --watts-per-cpu 10").contains("estimated at 10 W per CPU"));
    assert!(
        table.contains("cpus: 2") && table.contains("1, 1 failed") && table.contains("--cpus 1"),
        "{table}"
    );
    let document = cluster.json("job efficiency 1");
    let kinds = document["kinds"].as_array().expect("kinds");
    assert_eq!(kinds.len(), 1, "{document}");
    assert_eq!((&kinds[0]["tasks"], &kinds[0]["asked"]["cpus"]), (&20.into(), &2.0.into()));
    assert!(kinds[0]["used"]["memory_bytes_99"].as_u64().is_some_and(|bytes| bytes > 0), "{document}");
    assert_eq!(cluster.ok("--output-mode quiet job efficiency").lines().count(), 2);
    let nothing = "No task of these jobs has finished, so there is nothing to compare\n";
    cluster.ok("submit --resource none=1 -- true");
    assert_eq!(cluster.ok("job efficiency last"), nothing);
    cluster.ok("job cancel last");
    assert_eq!(cluster.ok("job efficiency last"), nothing);
    cluster.ok("job open");
    assert_eq!(cluster.ok("job efficiency last"), nothing);
    cluster.fails(1, "job efficiency 99");
}
