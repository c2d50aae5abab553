//! `.hq-make`: who makes files here now, what is remembered of files, and what was started.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hq_make::{Known, known};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::mark::Mark;
use crate::embedded::StateDir;
use crate::error::HqError;

/// Who makes files here.
const LOCK: &str = "lock";
/// What is remembered of files and scripts.
const KNOWN: &str = "known";
/// The job that was started last, and where.
const JOB: &str = "job.json";
/// Its runs, a line each, in the order of its tasks.
const STARTED: &str = "started";
/// Where the last job was that was not here, which may be run again there.
const SERVER: &str = "server.json";
/// How the last one ended.
const LAST: &str = "last.json";
/// How long one that was killed has for the end of its tasks.
const DEAD_TIME: Duration = Duration::from_secs(30);
/// Time between two looks at its lock.
const DEAD_PAUSE: Duration = Duration::from_millis(20);
/// So many lines of what is remembered may be out of date, beside as many as there are runs, before the file is written anew.
const STALE_LINES: usize = 1000;

/// The directory, ours as long as this lives.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    // Also held by the launcher, which is forked later: so nobody begins before the last task of one that was killed
    // has ended.
    _lock: File,
}

/// Who makes files in a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Its machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it began, as people read it.
    pub since: String,
}

/// Where a job is that makes files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// On a server of our own, in this directory.
    Here,
    /// On the server of this name, found by this directory.
    Server {
        /// Six letters and digits.
        uid: String,
        /// Its directory.
        dir: PathBuf,
    },
}

/// A job that makes files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Where it is.
    pub place: Place,
    /// Its number there; none before it is known.
    pub job: Option<u32>,
    /// How many runs it has.
    pub runs: usize,
    /// What its tasks carry on a server that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Job {
    /// What its tasks carry.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark.as_deref().map(Mark::of_text)
    }
}

/// A run of a job, as it was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Started {
    /// How it is called: `chloride/an.7`.
    pub name: String,
    /// Its outputs, each with the time at which it was written, in ns since 1970, if it was there.
    pub outputs: Vec<(String, Option<i64>)>,
    /// Where its outputs are printed.
    pub log: String,
    /// The digest of what counts as the text of its script.
    pub text: String,
}

/// How a job ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LastRun {
    /// Runs that failed.
    pub failed: Vec<FailedRun>,
    /// What the tasks carried of a job on a server that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FailedRun {
    /// How it is called.
    pub name: String,
    /// Why, in words.
    pub error: String,
    /// Its log.
    pub log: String,
}

impl Home {
    /// Takes the directory, made for its owner alone if it is missing. One that another process has is waited for if that
    /// process is dead and only its tasks are left.
    ///
    /// # Errors
    /// When it cannot be used, or somebody makes files here now.
    pub(crate) fn take(path: &Path) -> Result<Home, HqError> {
        let path = std::path::absolute(path)?;
        let failed = |error: io::Error| {
            HqError::failed("io", format!("the directory {} cannot be used: {error}", path.display()))
        };
        let path = hq_stream::own_target(&path).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let mut lock =
            hq_stream::own_target(&path.join(LOCK)).and_then(|lock| options.open(lock)).map_err(failed)?;
        let begin = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let owner = owner_in(&mut lock);
                    let is_dead = owner.as_ref().is_some_and(Owner::is_dead);
                    if !is_dead || begin.elapsed() > DEAD_TIME {
                        return Err(busy(&path, owner));
                    }
                    std::thread::sleep(DEAD_PAUSE);
                }
                // Without locks a living owner on this machine is known by its process.
                Err(_) => match owner_in(&mut lock).filter(|owner| !owner.is_dead() && owner.is_here()) {
                    Some(owner) if owner.pid != std::process::id() => return Err(busy(&path, Some(owner))),
                    _ => break,
                },
            }
        }
        let mut home = Home { path, _lock: lock };
        home.say_owner().map_err(|error| home.not_written(LOCK, &error))?;
        Ok(home)
    }

    fn say_owner(&mut self) -> io::Result<()> {
        let mut lock = &self._lock;
        lock.set_len(0)?;
        lock.rewind()?;
        serde_json::to_writer(&mut lock, &Owner::of_this_process()).map_err(io::Error::from)?;
        lock.flush()
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a server of our own keeps its journal.
    pub(crate) fn state(&self) -> StateDir {
        StateDir::within(&self.path)
    }

    /// Remembers a job before it is made.
    pub(crate) fn begin(&self, job: &Job, runs: &[Started]) -> Result<(), HqError> {
        self.write(STARTED, |out| {
            let mut line = Vec::new();
            for run in runs {
                line.clear();
                serde_json::to_writer(&mut line, run)?;
                line.push(b'\n');
                out.write_all(&line)?;
            }
            Ok(())
        })?;
        self.note(job)
    }

    /// Remembers what is known of the job now.
    pub(crate) fn note(&self, job: &Job) -> Result<(), HqError> {
        self.write(JOB, |out| Ok(serde_json::to_writer(out, job)?))
    }

    /// The job that was begun and whose end nobody has seen.
    pub(crate) fn unended(&self) -> Option<Job> {
        job_in(&self.path)
    }

    /// The runs of that job.
    pub(crate) fn started(&self) -> Result<Vec<Started>, HqError> {
        started_in(&self.path)
    }

    /// The server that had a job whose end has been seen.
    pub(crate) fn server_before(&self) -> Option<Place> {
        serde_json::from_slice(&fs::read(self.path.join(SERVER)).ok()?).ok()
    }

    /// Forgets it: it is not there any more.
    pub(crate) fn forget_server(&self) -> Result<(), HqError> {
        remove(&self.path.join(SERVER))
    }

    /// Forgets the job: its end has been seen. Where it was is kept: others may run its tasks again there.
    pub(crate) fn end(&self) -> Result<(), HqError> {
        if let Some(Job { place: place @ Place::Server { .. }, .. }) = self.unended() {
            self.write(SERVER, |out| Ok(serde_json::to_writer(out, &place)?))?;
        }
        for name in [JOB, STARTED] {
            remove(&self.path.join(name))?;
        }
        match fs::remove_dir_all(self.state().server_dir()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Remembers how the last job ended.
    pub(crate) fn say_last(&self, last: &LastRun) -> Result<(), HqError> {
        self.write(LAST, |out| Ok(serde_json::to_writer(out, last)?))
    }

    /// Adds to what is remembered of files.
    pub(crate) fn remember(&self, lines: &[u8]) -> Result<(), HqError> {
        if lines.is_empty() {
            return Ok(());
        }
        let append = || {
            let path = hq_stream::own_target(&self.path.join(KNOWN))?;
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let mut file = options.open(path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(known::HEADER.as_bytes())?;
            }
            file.write_all(lines)
        };
        append().map_err(|error| self.not_written(KNOWN, &error))
    }

    /// Whether something is remembered of files.
    pub(crate) fn knows_anything(&self) -> bool {
        fs::metadata(self.path.join(KNOWN)).is_ok_and(|file| file.len() > 0)
    }

    /// Writes what is remembered anew when most of it is out of date, or of another release.
    pub(crate) fn tidy(&self, known: &Known) -> Result<(), HqError> {
        if known.is_foreign || known.skipped > 0 || known.stale() > known.len() + STALE_LINES {
            self.write(KNOWN, |out| out.write_all(&known.compacted()))?;
        }
        Ok(())
    }

    // Whole or not at all.
    fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), HqError> {
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
            let mut out = BufWriter::new(&mut file);
            content(&mut out)?;
            out.flush()?;
            drop(out);
            file.persist(self.path.join(name))?;
            Ok(())
        };
        write().map_err(|error| self.not_written(name, &error))
    }

    fn not_written(&self, name: &str, error: &io::Error) -> HqError {
        HqError::failed("io", format!("{} cannot be written: {error}", self.path.join(name).display()))
    }
}

fn remove(path: &Path) -> Result<(), HqError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// What is remembered of files in a directory, which may be another one's.
pub(crate) fn known_in(path: &Path) -> Known {
    Known::read(&fs::read(path.join(KNOWN)).unwrap_or_default())
}

/// How the last job of a directory ended, if that is known.
pub(crate) fn last_in(path: &Path) -> Option<LastRun> {
    serde_json::from_slice(&fs::read(path.join(LAST)).ok()?).ok()
}

/// The job of a directory whose end nobody has seen.
pub(crate) fn job_in(path: &Path) -> Option<Job> {
    serde_json::from_slice(&fs::read(path.join(JOB)).ok()?).ok()
}

/// The runs of that job.
pub(crate) fn started_in(path: &Path) -> Result<Vec<Started>, HqError> {
    let file = File::open(path.join(STARTED))?;
    let mut runs = Vec::new();
    for line in BufReader::new(file).lines() {
        runs.push(serde_json::from_str(&line?).map_err(io::Error::from)?);
    }
    Ok(runs)
}

impl Owner {
    fn of_this_process() -> Owner {
        Owner {
            host: host(),
            pid: std::process::id(),
            since: jiff::Zoned::now().strftime("%F %T").to_string(),
        }
    }

    fn is_here(&self) -> bool {
        self.host == host()
    }

    fn is_dead(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        self.is_here() && pid.is_none_or(|pid| test_kill_process(pid).is_err())
    }
}

/// Keeps everybody from beginning to make files in a directory, as long as this lives.
#[derive(Debug)]
pub(crate) struct KeptOut(#[expect(dead_code, reason = "its lock ends with it")] File);

/// Keeps others out of a directory, if anybody was ever there. One that only follows a job of a server, as `goes_on` says, is no
/// trouble: that server knows what it makes.
///
/// # Errors
/// When somebody makes files there, or is about to.
pub(crate) fn keep_out(
    path: &Path,
    goes_on: impl FnOnce(&Job) -> Result<bool, HqError>,
) -> Result<Option<KeptOut>, HqError> {
    let opened = OpenOptions::new().read(true).write(true).open(path.join(LOCK));
    let Ok(mut lock) = opened else { return Ok(None) };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(KeptOut(lock))),
        Err(rustix::io::Errno::WOULDBLOCK) => match job_in(path) {
            Some(job) if goes_on(&job)? => Ok(None),
            _ => Err(busy(path, owner_in(&mut lock))),
        },
        Err(_) => Ok(None),
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn owner_in(lock: &mut File) -> Option<Owner> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn busy(path: &Path, owner: Option<Owner>) -> HqError {
    let who = match owner {
        Some(Owner { host, pid, since }) => format!("process {pid} on {host}, since {since},"),
        None => "another process".to_owned(),
    };
    let dir = path.parent().unwrap_or(path).display();
    HqError::failed("make-busy", format!("{who} makes files in {dir}"))
        .hint("`hq make --follow` shows its progress")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(name: &str) -> Started {
        let outputs = vec![("/w/a b".to_owned(), None), ("/w/c".to_owned(), Some(17))];
        Started { name: name.into(), outputs, log: "/w/log".into(), text: String::new() }
    }

    #[test]
    fn a_job_is_remembered_until_its_end_was_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".hq-make");
        let home = Home::take(&path).expect("free");
        assert!(home.unended().is_none());
        let job = Job { place: Place::Here, job: None, runs: 2, mark: None };
        home.begin(&job, &[started("a"), started("b\n")]).expect("writable");
        home.note(&Job { job: Some(3), ..job }).expect("writable");
        assert_eq!(home.unended().and_then(|job| job.job), Some(3));
        let names: Vec<String> = home.started().expect("readable").into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["a", "b\n"]);
        home.end().expect("writable");
        assert!(home.unended().is_none() && home.started().is_err());
        assert!(home.server_before().is_none());
        let place = Place::Server { uid: "a1b2c3".into(), dir: "/s".into() };
        home.note(&Job { place: place.clone(), job: Some(3), runs: 2, mark: None }).expect("writable");
        home.end().expect("writable");
        assert_eq!(home.server_before(), Some(place));
        home.forget_server().expect("writable");
        assert!(home.server_before().is_none());
    }

    #[test]
    fn a_directory_has_one_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::take(dir.path()).expect("free");
        let error = Home::take(dir.path()).expect_err("taken");
        assert!(error.text.starts_with(&format!("process {} on ", std::process::id())), "{}", error.text);
        assert_eq!(error.code, "make-busy");
        drop(home);
        Home::take(dir.path()).expect("free again");
    }

    #[test]
    fn whoever_makes_files_is_seen_by_others_and_kept_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let never = |_: &Job| -> Result<bool, HqError> { panic!("nobody is there") };
        assert!(keep_out(dir.path(), never).expect("nobody was ever here").is_none());
        let home = Home::take(dir.path()).expect("free");
        assert_eq!(keep_out(dir.path(), never).expect_err("taken").code, "make-busy");
        let place = Place::Server { uid: "a1B2c3".into(), dir: "/s".into() };
        home.note(&Job { place, job: Some(3), runs: 2, mark: None }).expect("writable");
        let follows = |goes_on| keep_out(dir.path(), move |job| Ok(job.job == Some(3) && goes_on));
        assert!(follows(true).expect("its server knows more").is_none());
        assert_eq!(follows(false).expect_err("it is about to make files").code, "make-busy");
        drop(home);
        let kept_out = keep_out(dir.path(), never).expect("free again").expect("a lock");
        assert_eq!(keep_out(dir.path(), |_| Ok(false)).expect_err("one at a time").code, "make-busy");
        drop(kept_out);
        Home::take(dir.path()).expect("free again");
    }

    #[test]
    fn what_is_remembered_has_one_header() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::take(dir.path()).expect("free");
        home.remember(b"").expect("nothing to do");
        assert!(!dir.path().join(KNOWN).exists());
        home.remember(b"one\n").expect("writable");
        home.remember(b"two\n").expect("writable");
        let text = fs::read_to_string(dir.path().join(KNOWN)).expect("text");
        assert_eq!(text, format!("{}one\ntwo\n", known::HEADER));
        assert_eq!(known_in(dir.path()).skipped, 2, "neither is a line of it");
        home.tidy(&known_in(dir.path())).expect("writable");
        assert_eq!(known_in(dir.path()).skipped, 0);
    }
}
