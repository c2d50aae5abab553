//! Directories as one file: a tar archive of directories, plain files and symbolic links, made and unpacked.
//!
//! Links are kept as texts and never followed. Permissions and the times of files and directories, in seconds, are kept; owners
//! are not. What is unpacked never gets out of its directory: files are made before links, each in a directory that came before.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use hq_model::checksum::Checksum;
use tar::{Archive, Builder, Entry, EntryType, Header};

use crate::limits::{CHANGE_STEP, TREE_ENTRIES_MAX};

/// Bytes of a header of an archive; contents are filled up to multiples of it.
const BLOCK: u64 = 512;
/// Longer names of links, in bytes, get an entry of their own.
const LINK_BYTES_MAX: usize = 100;
/// Longer paths have an entry of their own.
const PATH_BYTES_MAX: usize = 100;

/// Why a directory is not packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// To what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A socket, a pipe, a device.
    #[error(
        "{} is a pipe, a socket or a device: an object can contain only files, directories and symbolic \
         links", .0.display()
    )]
    Special(PathBuf),
    /// Somebody writes to it.
    #[error("{} was changed while it was read", .0.display())]
    Changed(PathBuf),
    /// More than there may be.
    #[error(
        "{} contains more than {TREE_ENTRIES_MAX} files and directories: pack them into an archive", .0.display()
    )]
    TooMany(PathBuf),
    /// An archive that we have not made.
    #[error("the archive has an invalid entry: {0}")]
    Foreign(String),
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Io { path, source }
}

/// What is in a directory.
#[derive(Debug)]
pub struct Listing {
    root: PathBuf,
    // Each behind the directory that it is in.
    entries: Vec<Listed>,
}

#[derive(Debug)]
struct Listed {
    // From the directory on; empty for itself.
    path: PathBuf,
    mode: u32,
    modified: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Dir,
    File { size: u64 },
    Link { to: PathBuf },
}

impl Listing {
    /// Looks at all that is in a directory.
    ///
    /// # Errors
    /// When something cannot be read, or is nothing that can be kept.
    pub fn of(root: &Path) -> Result<Listing, TreeError> {
        let found = fs::metadata(root).map_err(at(root))?;
        let mut listing =
            Listing { root: root.to_owned(), entries: vec![Listed::new(PathBuf::new(), &found, Kind::Dir)] };
        let mut next = 0;
        while let Some(entry) = listing.entries.get(next) {
            if matches!(entry.kind, Kind::Dir) {
                let dir = entry.path.clone();
                listing.look_into(&dir)?;
            }
            next += 1;
        }
        Ok(listing)
    }

    // In order of names, so that a directory has one archive.
    fn look_into(&mut self, dir: &Path) -> Result<(), TreeError> {
        let full = self.root.join(dir);
        let entries = fs::read_dir(&full).map_err(at(&full))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(at(&full))?.file_name());
        }
        if self.entries.len() + names.len() > TREE_ENTRIES_MAX {
            return Err(TreeError::TooMany(self.root.clone()));
        }
        names.sort_unstable();
        for name in names {
            let (path, full) = (dir.join(&name), full.join(&name));
            let found = fs::symlink_metadata(&full).map_err(at(&full))?;
            let kind = match found.file_type() {
                kind if kind.is_dir() => Kind::Dir,
                kind if kind.is_file() => Kind::File { size: found.len() },
                kind if kind.is_symlink() => Kind::Link { to: fs::read_link(&full).map_err(at(&full))? },
                _ => return Err(TreeError::Special(full)),
            };
            self.entries.push(Listed::new(path, &found, kind));
        }
        Ok(())
    }

    /// Bytes of the archive.
    pub fn archive_size(&self) -> u64 {
        // Two blocks end it.
        self.entries.iter().map(Listed::archive_size).sum::<u64>() + 2 * BLOCK
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// When something cannot be read any more, or the archive not be written.
    pub fn pack(&self, out: impl Write) -> Result<(), TreeError> {
        let mut builder = Builder::new(out);
        for entry in &self.entries {
            entry.pack(&self.root, &mut builder)?;
        }
        builder.into_inner().and_then(|mut out| out.flush()).map_err(at(&self.root))
    }
}

impl Listed {
    fn new(path: PathBuf, found: &Metadata, kind: Kind) -> Listed {
        let modified = found.mtime().try_into().unwrap_or(0);
        Listed { path, mode: found.mode() & 0o777, modified, kind }
    }

    // What the archive calls it.
    fn name(&self) -> &Path {
        if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path }
    }

    fn archive_size(&self) -> u64 {
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK) * BLOCK;
        let long = |bytes: usize, max: usize| match bytes > max {
            true => BLOCK + blocks(bytes as u64 + 1),
            false => 0,
        };
        let own = match &self.kind {
            Kind::Dir => 0,
            Kind::File { size } => blocks(*size),
            Kind::Link { to } => long(to.as_os_str().len(), LINK_BYTES_MAX),
        };
        BLOCK + long(self.path.as_os_str().len(), PATH_BYTES_MAX) + own
    }

    fn pack(&self, root: &Path, builder: &mut Builder<impl Write>) -> Result<(), TreeError> {
        let full = root.join(&self.path);
        let mut header = Header::new_gnu();
        header.set_mode(self.mode);
        header.set_mtime(self.modified);
        header.set_size(0);
        match &self.kind {
            Kind::Dir => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, self.name(), io::empty()).map_err(at(&full))
            }
            Kind::Link { to } => {
                header.set_entry_type(EntryType::Symlink);
                let text = to.as_os_str().as_bytes();
                let appended = match text.len() <= LINK_BYTES_MAX {
                    // As it is, and not as a path that is put in order.
                    true => header
                        .set_link_name_literal(text)
                        .and_then(|()| builder.append_data(&mut header, self.name(), io::empty())),
                    false => builder.append_link(&mut header, self.name(), to),
                };
                appended.map_err(at(&full))
            }
            Kind::File { size } => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(*size);
                self.pack_file(&full, *size, header, builder)
            }
        }
    }

    fn pack_file(
        &self,
        full: &Path,
        size: u64,
        mut header: Header,
        builder: &mut Builder<impl Write>,
    ) -> Result<(), TreeError> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(full);
        let mut file = opened.map_err(at(full))?.take(size);
        builder.append_data(&mut header, self.name(), &mut file).map_err(at(full))?;
        let after = file.get_ref().metadata().map_err(at(full))?;
        match file.limit() == 0 && after.len() == size {
            true => Ok(()),
            false => Err(TreeError::Changed(full.to_owned())),
        }
    }
}

/// What those who unpack may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the permissions were.
    AsItWas,
    /// Nobody may write to it.
    ReadOnly,
}

impl Access {
    fn permissions(self, mode: u32, is_dir: bool) -> Permissions {
        // What could not be read could not have been packed.
        let read = if is_dir { 0o500 } else { 0o400 };
        Permissions::from_mode(match self {
            Access::AsItWas => mode & 0o777,
            Access::ReadOnly => (mode & 0o555) | read,
        })
    }
}

/// Unpacks an archive into a directory, which is made. What is there of it after an error is to be removed.
///
/// # Errors
/// When the archive has something in it that no directory has, or the system refuses something.
pub fn unpack(archive: impl Read, target: &Path, access: Access) -> Result<(), TreeError> {
    DirBuilder::new().mode(0o700).create(target).map_err(at(target))?;
    let mut unpacking = Unpacking {
        target,
        access,
        dirs: HashSet::from([PathBuf::new()]),
        later: Vec::new(),
        links: Vec::new(),
        count: 0,
    };
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(at(target))? {
        unpacking.add(entry.map_err(at(target))?)?;
    }
    unpacking.finish()
}

struct Unpacking<'a> {
    target: &'a Path,
    access: Access,
    // Directories that were made.
    dirs: HashSet<PathBuf>,
    // What they are to be when all is in them.
    later: Vec<(PathBuf, u32, u64)>,
    links: Vec<(PathBuf, PathBuf)>,
    count: usize,
}

impl Unpacking<'_> {
    fn add(&mut self, mut entry: Entry<'_, impl Read>) -> Result<(), TreeError> {
        self.count += 1;
        if self.count > TREE_ENTRIES_MAX {
            return Err(TreeError::TooMany(self.target.to_owned()));
        }
        let path = self.inside(&entry.path_bytes())?;
        let full = self.target.join(&path);
        let header = entry.header();
        let mode = header.mode().map_err(at(&full))?;
        let modified = header.mtime().map_err(at(&full))?;
        match header.entry_type() {
            EntryType::Directory => {
                if !path.as_os_str().is_empty() {
                    DirBuilder::new().mode(0o700).create(&full).map_err(at(&full))?;
                    self.dirs.insert(path.clone());
                }
                self.later.push((path, mode, modified));
            }
            EntryType::Regular => {
                let create = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&full);
                let mut file = create.map_err(at(&full))?;
                io::copy(&mut entry, &mut file).map_err(at(&full))?;
                file.set_times(times(modified)).map_err(at(&full))?;
                file.set_permissions(self.access.permissions(mode, false)).map_err(at(&full))?;
            }
            EntryType::Symlink => {
                let to = entry.link_name_bytes().unwrap_or_default();
                self.links.push((full, PathBuf::from(OsStr::from_bytes(&to))));
            }
            other => {
                let text = format!("{} is of the kind {:?}", path.display(), char::from(other.as_byte()));
                return Err(TreeError::Foreign(text));
            }
        }
        Ok(())
    }

    // A path in a directory that was made.
    fn inside(&self, path: &[u8]) -> Result<PathBuf, TreeError> {
        let path = Path::new(OsStr::from_bytes(path));
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(part) => plain.push(part),
                Component::CurDir => {}
                _ => return Err(TreeError::Foreign(format!("{} leads out of it", path.display()))),
            }
        }
        let is_inside = plain.parent().is_none_or(|dir| self.dirs.contains(dir));
        match is_inside && !path.as_os_str().is_empty() {
            true => Ok(plain),
            false => Err(TreeError::Foreign(format!("{} is in no directory", path.display()))),
        }
    }

    // Links come last, so that nothing goes through them.
    fn finish(self) -> Result<(), TreeError> {
        for (path, to) in &self.links {
            symlink(to, path).map_err(at(path))?;
        }
        for (path, mode, modified) in self.later.into_iter().rev() {
            let full = self.target.join(path);
            let set = File::open(&full).and_then(|dir| {
                dir.set_times(times(modified))?;
                dir.set_permissions(self.access.permissions(mode, true))
            });
            set.map_err(at(&full))?;
        }
        Ok(())
    }
}

/// What shows whether something in a directory was changed. Nobody can set when the system last noted a change of a file, or of
/// what a directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Print {
    entries: u64,
    checksum: u64,
    // Of the last change, in seconds and nanoseconds.
    last: (i64, i64),
}

impl Print {
    /// How long it takes until each change that follows has another time: the clock of the kernel goes in steps.
    pub(crate) fn settles_in(&self, now: SystemTime) -> Duration {
        let (seconds, nanos) = self.last;
        let last = Duration::new(seconds.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0));
        // A clock that was set back is not waited for.
        let age = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(last);
        CHANGE_STEP.saturating_sub(age)
    }
}

/// Looks at all that is in a directory, and at itself.
///
/// # Errors
/// When something cannot be looked at.
pub(crate) fn print_of(root: &Path) -> Result<Print, TreeError> {
    let mut print = Print::default();
    let mut dirs = vec![root.to_owned()];
    print.add(&fs::symlink_metadata(root).map_err(at(root))?);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(at(&dir))? {
            let entry = entry.map_err(at(&dir))?;
            // Of a link it is the link.
            let found = entry.metadata().map_err(at(&entry.path()))?;
            print.add(&found);
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(print)
}

impl Print {
    // In whatever order they come.
    fn add(&mut self, found: &Metadata) {
        let changed = (found.ctime(), found.ctime_nsec());
        let mut bytes = Vec::with_capacity(32);
        for part in [found.ino(), found.len(), changed.0 as u64, changed.1 as u64] {
            bytes.extend(part.to_le_bytes());
        }
        self.entries += 1;
        self.checksum = self.checksum.wrapping_add(Checksum::of(&bytes));
        self.last = self.last.max(changed);
    }
}

fn times(modified: u64) -> FileTimes {
    // What the clock of the system does not know is its beginning.
    let since = Duration::from_secs(modified);
    FileTimes::new().set_modified(SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn packed(root: &Path) -> Vec<u8> {
        let listing = Listing::of(root).expect("readable");
        let mut bytes = Vec::new();
        listing.pack(&mut bytes).expect("packed");
        assert_eq!(listing.archive_size(), bytes.len() as u64);
        bytes
    }

    // All that is there, with permissions and times.
    fn told(root: &Path) -> Vec<String> {
        let listing = Listing::of(root).expect("readable");
        let of = |entry: &Listed| {
            let Listed { path, mode, modified, kind } = entry;
            match kind {
                Kind::Link { to } => format!("{} -> {}", path.display(), to.display()),
                kind => format!("{} {mode:o} {modified} {kind:?}", path.display()),
            }
        };
        listing.entries.iter().map(of).collect()
    }

    fn make(root: &Path) {
        let long = "long".repeat(50);
        fs::create_dir_all(root.join(&long).join("b")).expect("writable");
        fs::create_dir(root.join("empty")).expect("writable");
        for (name, mode) in [("run", 0o755), ("secret", 0o400), ("empty.txt", 0o644)] {
            fs::write(root.join(name), if name == "run" { "#!/bin/sh\n" } else { "" }).expect("writable");
            fs::set_permissions(root.join(name), Permissions::from_mode(mode)).expect("ours");
        }
        fs::write(root.join(&long).join("b/data"), vec![7; 1000]).expect("writable");
        for (name, to) in [
            ("here", "./run"),
            ("dangling", "nowhere//at/all/"),
            ("out", "../../../etc/passwd"),
            ("absolute", "/etc"),
            ("far", "x/".repeat(80).as_str()),
            ("same", long.as_str()),
        ] {
            symlink(to, root.join(name)).expect("writable");
        }
        for name in ["run", "empty"] {
            File::open(root.join(name)).and_then(|file| file.set_times(times(1_000_000_000))).expect("ours");
        }
        fs::set_permissions(root.join("empty"), Permissions::from_mode(0o550)).expect("ours");
    }

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).expect("writable");
        make(&from);
        let archive = packed(&from);
        unpack(archive.as_slice(), &to, Access::AsItWas).expect("unpacked");
        assert_eq!(told(&to), told(&from));
        assert_eq!(packed(&to), archive);
        assert_eq!(fs::read(to.join("run")).expect("there"), b"#!/bin/sh\n");
    }

    #[test]
    fn what_is_unpacked_to_be_shared_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).expect("writable");
        make(&from);
        unpack(packed(&from).as_slice(), &to, Access::ReadOnly).expect("unpacked");
        for entry in Listing::of(&to).expect("readable").entries {
            assert!(matches!(entry.kind, Kind::Link { .. }) || entry.mode & 0o222 == 0, "{entry:?}");
        }
        crate::remove::remove_dir_all(&to).expect("removed");
    }

    #[test]
    fn each_change_shows_in_the_print() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("root");
        fs::create_dir(&root).expect("writable");
        make(&root);
        let taken = || print_of(&root).expect("readable");
        let mut before = taken();
        let mut check = |change: &dyn Fn()| {
            // The clock of the kernel has gone on since the last change.
            while !before.settles_in(SystemTime::now()).is_zero() {
                std::thread::yield_now();
            }
            assert_eq!(taken(), before);
            change();
            let after = taken();
            assert_ne!(after, before);
            before = after;
        };
        let run = root.join("run");
        check(&|| {
            let was = fs::metadata(&run).expect("there").modified().expect("known");
            fs::write(&run, "#!/bin/sn\n").expect("writable");
            let file = File::options().write(true).open(&run).expect("there");
            file.set_modified(was).expect("ours");
        });
        check(&|| fs::set_permissions(&run, Permissions::from_mode(0o700)).expect("ours"));
        check(&|| fs::remove_file(root.join("dangling")).expect("writable"));
        check(&|| fs::write(root.join("more"), "").expect("writable"));
        check(&|| fs::rename(root.join("more"), root.join("less")).expect("writable"));
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_waited_for_long() {
        let print = Print { last: (1_000, 5), ..Print::default() };
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        for (now, wait) in [(0, 10), (1_000_000, 10), (1_000_004, 6), (1_000_011, 0), (9_000_000, 0)] {
            assert_eq!(print.settles_in(at(now)).as_millis(), wait, "{now}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("in")).expect("writable");
        let path = dir.path().join("in/socket");
        let _socket = UnixListener::bind(&path).expect("a socket");
        let error = Listing::of(dir.path()).expect_err("refused").to_string();
        assert!(error.starts_with(&format!("{} is a pipe, a socket or a device", path.display())), "{error}");
    }

    #[test]
    fn files_that_change_meanwhile_are_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("file");
        fs::write(&path, "12345").expect("writable");
        let listing = Listing::of(dir.path()).expect("readable");
        for content in ["123", "1234567"] {
            fs::write(&path, content).expect("writable");
            let error = listing.pack(io::sink()).expect_err("changed").to_string();
            assert_eq!(error, format!("{} was changed while it was read", path.display()));
        }
    }

    // An archive of entries: kind, path, target of a link.
    fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (kind, path, to) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_mtime(0);
            header.set_size(0);
            header.as_gnu_mut().expect("of this kind").name[..path.len()].copy_from_slice(path.as_bytes());
            if !to.is_empty() {
                header.set_link_name_literal(to).expect("short");
            }
            header.set_cksum();
            builder.append(&header, io::empty()).expect("memory");
        }
        builder.into_inner().expect("memory")
    }

    #[test]
    fn nothing_is_written_outside() {
        use EntryType::{Directory, Fifo, Link, Regular, Symlink};
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("outside")).expect("writable");
        let outside = dir.path().join("outside").display().to_string();
        let through = [(Symlink, "a", outside.as_str()), (Regular, "a/file", "")];
        let link_through = [(Symlink, "a", outside.as_str()), (Symlink, "a/file", "x")];
        let replaced = [(Directory, "a", ""), (Symlink, "a", outside.as_str()), (Regular, "a/file", "")];
        let absolute = format!("{outside}/file");
        for (number, entries) in [
            &[(Regular, "../file", "")][..],
            &[(Regular, "a/../../file", "")],
            &[(Directory, "..", "")],
            &[(Regular, absolute.as_str(), "")],
            &[(Symlink, "../link", "x")],
            &[(Link, "hard", "/etc/passwd")],
            &[(Fifo, "pipe", "")],
            &[(EntryType::Char, "null", "")],
            &[(EntryType::GNUSparse, "sparse", "")],
            &[(Regular, "a", ""), (Regular, "a", "")],
            &[(Regular, "nowhere/file", "")],
            &through,
            &link_through,
            &replaced,
        ]
        .into_iter()
        .enumerate()
        {
            let to = dir.path().join(format!("to-{number}"));
            let unpacked = unpack(archive(entries).as_slice(), &to, Access::AsItWas);
            assert!(unpacked.is_err(), "{entries:?}");
            assert!(fs::read_dir(&outside).expect("there").next().is_none(), "{entries:?}");
        }
        let left: Vec<_> =
            fs::read_dir(dir.path()).expect("there").flatten().map(|e| e.file_name()).collect();
        assert!(left.iter().all(|name| name == "outside" || name.as_bytes().starts_with(b"to-")), "{left:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_archive_makes_trouble(bytes: Vec<u8>) {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let _ = unpack(bytes.as_slice(), &dir.path().join("to"), Access::ReadOnly);
        }
    }
}
