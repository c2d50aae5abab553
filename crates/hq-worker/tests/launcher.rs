//! The launcher with real processes.

#![expect(unsafe_code, reason = "asks the kernel about processes")]

#[path = "launcher/armed.rs"]
mod armed;
#[path = "launcher/forked.rs"]
mod forked;
mod harness;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hq_model::Usage;
use hq_worker::launcher::{End, Ended, Launcher, Order, Slot, Stage, memory_file};

fn main() {
    let launcher = Launcher::fork().expect("the first thing this process does");
    let blocked_at_birth = blocked_signals(launcher.pid());
    match std::env::args().nth(1).as_deref() {
        Some("helper-until-killed") => helper(launcher, None),
        Some("helper-kills-launcher") => helper(launcher, Some(libc::SIGKILL)),
        Some("helper-freezes-launcher") => helper(launcher, Some(libc::SIGSTOP)),
        _ => {}
    }
    let mut lab = Lab { launcher, blocked_at_birth, generation: 0, early: Vec::new() };
    let own: &[Test] = &[
        ("a_launcher_is_born_deaf", a_launcher_is_born_deaf),
        ("exit_codes_and_signals_are_reported", exit_codes_and_signals_are_reported),
        ("a_signal_reaches_the_whole_group", a_signal_reaches_the_whole_group),
        ("a_signal_before_the_start_is_delivered_after_it", a_signal_before_the_start_is_delivered_after_it),
        ("what_a_task_leaves_behind_is_killed", what_a_task_leaves_behind_is_killed),
        ("a_start_that_hangs_can_be_killed", a_start_that_hangs_can_be_killed),
        ("what_is_to_end_before_its_program_never_begins", what_is_to_end_before_its_program_never_begins),
        ("starts_that_hang_do_not_hold_up_others", starts_that_hang_do_not_hold_up_others),
        ("much_output_goes_to_its_file", much_output_goes_to_its_file),
        ("both_channels_share_one_file", both_channels_share_one_file),
        ("bytes_that_are_no_text_pass", bytes_that_are_no_text_pass),
        ("what_cannot_be_executed_is_told_apart", what_cannot_be_executed_is_told_apart),
        ("too_many_arguments_are_refused_by_the_system", too_many_arguments_are_refused_by_the_system),
        ("programs_are_tried_in_order", programs_are_tried_in_order),
        ("standard_input_starts_at_the_beginning", standard_input_starts_at_the_beginning),
        ("missing_directories_are_made", missing_directories_are_made),
        ("directories_that_cannot_be_made_are_named", directories_that_cannot_be_made_are_named),
        ("use_is_measured", use_is_measured),
        ("affinity_is_set", affinity_is_set),
        ("a_task_over_its_memory_is_ended_as_a_whole", a_task_over_its_memory_is_ended_as_a_whole),
        ("a_task_starts_clean", a_task_starts_clean),
        ("the_environment_is_base_less_dropped_plus_own", the_environment_is_base_less_dropped_plus_own),
        ("each_of_many_starts_ends_once", each_of_many_starts_ends_once),
        ("tasks_die_with_a_killed_worker", tasks_die_with_a_killed_worker),
        (
            "everything_dies_with_a_launcher_that_is_killed_or_frozen",
            everything_dies_with_a_launcher_that_is_killed_or_frozen,
        ),
        (
            "what_left_its_session_ends_with_a_task_that_is_ended",
            what_left_its_session_ends_with_a_task_that_is_ended,
        ),
        (
            "what_left_its_session_outlives_a_task_that_ends_by_itself",
            what_left_its_session_outlives_a_task_that_ends_by_itself,
        ),
        ("a_start_that_fails_while_it_is_ended_is_told", a_start_that_fails_while_it_is_ended_is_told),
    ];
    harness::main(&mut lab, &[own, &armed::ALL, forked::ALL].concat())
}

/// A test and its name.
type Test = (&'static str, fn(&mut Lab));

struct Lab {
    launcher: Launcher,
    blocked_at_birth: u64,
    generation: u32,
    early: Vec<Ended>,
}

/// What a test says of a task; the rest has defaults.
#[derive(Default)]
struct Task<'a> {
    programs: &'a [&'a [u8]],
    args: &'a [&'a [u8]],
    env: &'a [&'a [u8]],
    env_dropped: &'a [u32],
    cwd: &'a [u8],
    task_dir: &'a [u8],
    stdout: &'a [u8],
    stderr: &'a [u8],
    cpus: &'a [u32],
    memory_bytes: u64,
    stdin: Option<Arc<OwnedFd>>,
    after: Option<Slot>,
}

impl Lab {
    fn start(&mut self, task: &Task<'_>) -> Slot {
        self.generation += 1;
        let slot = Slot { index: self.generation % 50, generation: self.generation };
        self.start_as(slot, task);
        slot
    }

    fn start_as(&mut self, slot: Slot, task: &Task<'_>) {
        let block =
            |strings: &[&[u8]]| strings.iter().flat_map(|s| [s, &b"\0"[..]].concat()).collect::<Vec<u8>>();
        let order = Order {
            slot,
            after: task.after,
            programs: &block(if task.programs.is_empty() { &task.args[..1] } else { task.programs }),
            args: &block(task.args),
            env: &block(task.env),
            env_dropped: task.env_dropped,
            cwd: if task.cwd.is_empty() { b"/" } else { task.cwd },
            task_dir: task.task_dir,
            stdout: task.stdout,
            stderr: task.stderr,
            cpus: task.cpus,
            groups: b"",
            memory_bytes: task.memory_bytes,
            has_stdin: task.stdin.is_some(),
            is_stdin_socket: false,
            is_forked: false,
        };
        self.launcher.start(&order, task.stdin.as_ref()).expect("an order");
        assert!(self.launcher.flush().expect("a living launcher"));
    }

    fn wait(&mut self, slot: Slot) -> Ended {
        loop {
            if let Some(at) = self.early.iter().position(|ended| ended.slot == slot) {
                return self.early.remove(at);
            }
            self.launcher.wait().expect("poll works");
            self.launcher.receive(&mut self.early).expect("a living launcher");
        }
    }

    fn run(&mut self, task: &Task<'_>) -> End {
        let slot = self.start(task);
        self.wait(slot).end
    }

    fn shell(&mut self, script: &str) -> End {
        self.run(&Task { args: &[b"/bin/sh", b"-c", script.as_bytes()], ..Task::default() })
    }

    /// What a script prints.
    fn output(&mut self, dir: &Path, task: Task<'_>) -> String {
        let path = dir.join("output");
        let end = self.run(&Task { stdout: path.as_os_str().as_bytes(), ..task });
        assert_eq!(end, End::Exited(0));
        fs::read_to_string(path).expect("the output file")
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A named pipe: reading it waits for the writer.
fn pipe(dir: &Path) -> PathBuf {
    let path = dir.join("pipe");
    let name = std::ffi::CString::new(bytes(&path)).expect("no NUL");
    // SAFETY: a NUL-terminated path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

/// Waits until a process is gone; fails after a while.
fn assert_gone(pid: i32) {
    // SAFETY: a plain system call; the new descriptor is ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if fd < 0 {
        return;
    }
    // SAFETY: as above.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, 20_000) }, 1, "process {pid} still lives");
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn exit_codes_and_signals_are_reported(lab: &mut Lab) {
    for code in [0, 1, 3, 255] {
        assert_eq!(lab.shell(&format!("exit {code}")), End::Exited(code));
    }
    for signal in [1, 2, 9, 11, 15] {
        assert_eq!(lab.shell(&format!("ulimit -c 0; kill -{signal} $$")), End::Signaled(signal));
    }
}

fn a_signal_reaches_the_whole_group(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let script = format!("sleep 1000 & echo $! >{}; wait", pipe.display());
    let slot = lab.start(&Task { args: &[b"/bin/sh", b"-c", script.as_bytes()], ..Task::default() });
    let child: i32 = fs::read_to_string(&pipe).expect("readable").trim().parse().expect("a process id");
    lab.launcher.signal(slot, libc::SIGTERM as u8);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(15));
    assert_gone(child);
    // The slot's task has ended: nothing happens.
    lab.launcher.signal(slot, libc::SIGTERM as u8);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.shell("exit 0"), End::Exited(0));
}

fn a_signal_before_the_start_is_delivered_after_it(lab: &mut Lab) {
    let slot = Slot { index: 50, generation: 1 };
    lab.launcher.signal(slot, libc::SIGTERM as u8);
    lab.launcher.signal(slot, libc::SIGKILL as u8);
    assert!(lab.launcher.flush().expect("a living launcher"));
    lab.start_as(slot, &Task { args: &[b"/bin/sleep", b"1000"], ..Task::default() });
    assert!(matches!(lab.wait(slot).end, End::Signaled(9 | 15)));
}

fn what_a_task_leaves_behind_is_killed(lab: &mut Lab) {
    let dir = temp();
    let script = "sleep 1000 & echo $!; (trap '' HUP TERM; sleep 1000) & echo $!";
    let output =
        lab.output(dir.path(), Task { args: &[b"/bin/sh", b"-c", script.as_bytes()], ..Task::default() });
    let pids: Vec<i32> = output.lines().map(|line| line.parse().expect("a process id")).collect();
    assert_eq!(pids.len(), 2);
    pids.into_iter().for_each(assert_gone);
}

fn a_start_that_hangs_can_be_killed(lab: &mut Lab) {
    let dir = temp();
    // Opening a pipe that nobody reads waits for a reader.
    let pipe = pipe(dir.path());
    let slot = lab.start(&Task { args: &[b"/bin/true"], stdout: bytes(&pipe), ..Task::default() });
    lab.launcher.signal(slot, libc::SIGTERM as u8);
    lab.launcher.signal(slot, libc::SIGKILL as u8);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(9));
}

fn what_is_to_end_before_its_program_never_begins(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let begun = dir.path().join("begun");
    let args: &[&[u8]] = &[b"/usr/bin/touch", bytes(&begun)];
    let slot = lab.start(&Task { args, stdout: bytes(&pipe), ..Task::default() });
    // Nobody ever reads the pipe: without SIGKILL it would hang for ever.
    lab.launcher.end(slot, libc::SIGTERM as u8, b"HQ_ACCESS_KEY=hanging");
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(9));
    // What is asked for before the order has come is of no other kind.
    let early = Slot { index: 51, generation: 1 };
    lab.launcher.end(early, libc::SIGTERM as u8, b"HQ_ACCESS_KEY=early");
    assert!(lab.launcher.flush().expect("a living launcher"));
    lab.start_as(early, &Task { args, stdout: bytes(&pipe), ..Task::default() });
    assert_eq!(lab.wait(early).end, End::Signaled(9));
    assert!(!begun.exists());
}

fn starts_that_hang_do_not_hold_up_others(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let hanging = Task { args: &[b"/bin/echo", b"line"], stdout: bytes(&pipe), ..Task::default() };
    let slots: Vec<Slot> = (0..9).map(|i| Slot { index: 60 + i, generation: 1 }).collect();
    slots.iter().for_each(|slot| lab.start_as(*slot, &hanging));
    assert_eq!(lab.shell("exit 0"), End::Exited(0));
    let lines = fs::read_to_string(&pipe).expect("readable");
    assert!(lines.starts_with("line\n"), "{lines}");
    for slot in slots {
        lab.launcher.signal(slot, libc::SIGKILL as u8);
        assert!(lab.launcher.flush().expect("a living launcher"));
        let end = lab.wait(slot).end;
        assert!(matches!(end, End::Exited(0) | End::Signaled(9 | 13)), "{end:?}");
    }
}

fn much_output_goes_to_its_file(lab: &mut Lab) {
    let dir = temp();
    let path = dir.path().join("out");
    let args: &[&[u8]] = &[b"/usr/bin/head", b"-c", b"67108864", b"/dev/zero"];
    assert_eq!(lab.run(&Task { args, stdout: bytes(&path), ..Task::default() }), End::Exited(0));
    assert_eq!(fs::metadata(&path).expect("the output file").len(), 64 << 20);
    let again: &[&[u8]] = &[b"/bin/echo", b"short"];
    assert_eq!(lab.run(&Task { args: again, stdout: bytes(&path), ..Task::default() }), End::Exited(0));
    assert_eq!(fs::read(&path).expect("the output file"), b"short\n", "a new start begins a new file");
}

fn both_channels_share_one_file(lab: &mut Lab) {
    let dir = temp();
    let path = dir.path().join("both");
    let task = Task {
        args: &[b"/bin/sh", b"-c", b"echo one; echo two >&2; echo three"],
        stdout: bytes(&path),
        stderr: bytes(&path),
        ..Task::default()
    };
    assert_eq!(lab.run(&task), End::Exited(0));
    assert_eq!(fs::read(&path).expect("the output file"), b"one\ntwo\nthree\n");
}

fn bytes_that_are_no_text_pass(lab: &mut Lab) {
    let dir = temp();
    let cwd = dir.path().join(OsStr::from_bytes(b"d\xffr"));
    let out = dir.path().join(OsStr::from_bytes(b"o\xfe t"));
    let task = Task {
        args: &[b"/bin/sh", b"-c", b"printf '%s|%s|' \"$1\" \"$V\"; pwd", b"sh", b"a\xff\xc3\x28\n"],
        env: &[b"V=\x80\x81"],
        cwd: bytes(&cwd),
        stdout: bytes(&out),
        ..Task::default()
    };
    assert_eq!(lab.run(&task), End::Exited(0));
    let expected = [b"a\xff\xc3\x28\n|\x80\x81|", bytes(&cwd), b"\n"].concat();
    assert_eq!(fs::read(&out).expect("the output file"), expected);
}

fn what_cannot_be_executed_is_told_apart(lab: &mut Lab) {
    let dir = temp();
    let file = |name: &str, content: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        path
    };
    let cases = [
        (dir.path().join("missing"), libc::ENOENT),
        (file("plain", "#!/bin/sh\n", 0o644), libc::EACCES),
        (dir.path().to_owned(), libc::EACCES),
        (file("interpreter", "#!/nonexistent/shell\n", 0o755), libc::ENOENT),
        (file("format", "no program\n", 0o755), libc::ENOEXEC),
        (dir.path().join("plain/below"), libc::ENOTDIR),
    ];
    for (path, errno) in cases {
        let end = lab.run(&Task { args: &[bytes(&path)], ..Task::default() });
        match end {
            End::NotStarted(Stage::Exec, found) if found == errno => {}
            // The last candidate decides; a path through a file is as missing as any.
            other => panic!("{}: {other:?}", path.display()),
        }
    }
}

fn too_many_arguments_are_refused_by_the_system(lab: &mut Lab) {
    let long = vec![b'x'; 100_000];
    let mut args: Vec<&[u8]> = vec![b"/bin/true"];
    args.extend([&long[..]; 8]);
    assert_eq!(
        lab.run(&Task { args: &args, ..Task::default() }),
        End::Exited(0),
        "800 000 bytes are allowed"
    );
    let too_long = vec![b'x'; 200_000];
    let end = lab.run(&Task { args: &[b"/bin/true", &too_long], ..Task::default() });
    assert_eq!(end, End::NotStarted(Stage::Exec, libc::E2BIG));
    args.extend([&long[..]; 60]);
    let end = lab.run(&Task { args: &args, ..Task::default() });
    assert_eq!(end, End::NotStarted(Stage::Exec, libc::E2BIG));
}

fn programs_are_tried_in_order(lab: &mut Lab) {
    let dir = temp();
    let plain = dir.path().join("true");
    fs::write(&plain, "no program").expect("writable");
    let task = Task {
        programs: &[b"/nonexistent/true", bytes(&plain), b"/bin/true"],
        args: &[b"true"],
        ..Task::default()
    };
    assert_eq!(lab.run(&task), End::Exited(0));
    let task = Task { programs: &[bytes(&plain), b"/nonexistent/true"], args: &[b"true"], ..Task::default() };
    assert_eq!(lab.run(&task), End::NotStarted(Stage::Exec, libc::EACCES), "the found one is the trouble");
}

fn standard_input_starts_at_the_beginning(lab: &mut Lab) {
    let dir = temp();
    let stdin = Arc::new(memory_file(b"line\n\xff\n").expect("an anonymous file"));
    for _ in 0..2 {
        let path = dir.path().join("out");
        let task = Task {
            args: &[b"/bin/cat"],
            stdin: Some(stdin.clone()),
            stdout: bytes(&path),
            ..Task::default()
        };
        assert_eq!(lab.run(&task), End::Exited(0));
        assert_eq!(fs::read(&path).expect("the output file"), b"line\n\xff\n");
    }
    let long: Vec<Vec<u8>> = (0..10).map(|_| vec![b'y'; 50_000]).collect();
    let mut args: Vec<&[u8]> = vec![b"/bin/sh", b"-c", b"read x; test \"$x\" = line"];
    args.extend(long.iter().map(Vec::as_slice));
    let end = lab.run(&Task { args: &args, stdin: Some(stdin), ..Task::default() });
    assert_eq!(end, End::Exited(0), "beside an order that is in a file itself");
    assert_eq!(lab.shell("read x"), End::Exited(1), "without input there is the end of the file at once");
}

fn missing_directories_are_made(lab: &mut Lab) {
    let dir = temp();
    let cwd = dir.path().join("a/b");
    let task_dir = dir.path().join("private");
    let (out, err) = (dir.path().join("c/d/out"), dir.path().join("e/err"));
    for _ in 0..2 {
        let task = Task {
            args: &[b"/bin/sh", b"-c", b"pwd; echo e >&2; rmdir \"$1\"", b"sh", bytes(&task_dir)],
            cwd: bytes(&cwd),
            task_dir: bytes(&task_dir),
            stdout: bytes(&out),
            stderr: bytes(&err),
            ..Task::default()
        };
        assert_eq!(lab.run(&task), End::Exited(0));
        assert_eq!(fs::read_to_string(&out).expect("the output file"), format!("{}\n", cwd.display()));
        assert_eq!(fs::read(&err).expect("the output file"), b"e\n");
        for gone in ["a", "c", "e"] {
            fs::remove_dir_all(dir.path().join(gone)).expect("it was made");
        }
    }
    let task = Task { args: &[b"/bin/true"], task_dir: bytes(&task_dir), ..Task::default() };
    assert_eq!(lab.run(&task), End::Exited(0));
    let mode = fs::metadata(&task_dir).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

fn directories_that_cannot_be_made_are_named(lab: &mut Lab) {
    let dir = temp();
    let file = dir.path().join("file");
    fs::write(&file, "").expect("writable");
    let below = file.join("below");
    let args: &[&[u8]] = &[b"/bin/true"];
    let mut check = |task: Task<'_>, stage: Stage, errno: i32| {
        assert_eq!(lab.run(&task), End::NotStarted(stage, errno));
    };
    check(Task { args, cwd: bytes(&below), ..Task::default() }, Stage::EnterCwd, libc::ENOTDIR);
    check(Task { args, cwd: b"/proc/nowhere", ..Task::default() }, Stage::MakeCwd, libc::ENOENT);
    check(Task { args, stdout: bytes(dir.path()), ..Task::default() }, Stage::Stdout, libc::EISDIR);
    check(Task { args, stderr: b"/proc/no/where", ..Task::default() }, Stage::MakeStderrDir, libc::ENOENT);
    check(Task { args, task_dir: bytes(&file), ..Task::default() }, Stage::TaskDir, libc::EEXIST);
}

fn use_is_measured(lab: &mut Lab) {
    let script = b"i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let slot = lab.start(&Task { args: &[b"/bin/sh", b"-c", script], ..Task::default() });
    let Usage { wall_us, user_us, system_us, rss_max_kib, .. } = lab.wait(slot).usage;
    assert!(user_us > 0, "it computed");
    assert!(wall_us + 20_000 >= user_us + system_us, "one thread: {wall_us} {user_us} {system_us}");
    assert!((100..1_000_000).contains(&rss_max_kib), "{rss_max_kib} KiB");
    let slot =
        lab.start(&Task { args: &[b"/usr/bin/head", b"-c", b"67108864", b"/dev/zero"], ..Task::default() });
    assert!(lab.wait(slot).usage.wall_us > 0);
    let slot = lab.start(&Task { args: &[b"/nonexistent/program"], ..Task::default() });
    assert_eq!(lab.wait(slot).usage.rss_max_kib, 0, "there was no process");
}

fn affinity_is_set(lab: &mut Lab) {
    let dir = temp();
    let allowed = fs::read_to_string("/proc/self/status").expect("/proc");
    let list = allowed.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    let last: u32 = list.rsplit([',', '-']).next().expect("a number").parse().expect("a number");
    let args: &[&[u8]] = &[b"/bin/grep", b"Cpus_allowed_list", b"/proc/self/status"];
    let found = lab.output(dir.path(), Task { args, cpus: &[last], ..Task::default() });
    assert_eq!(found, format!("Cpus_allowed_list:\t{last}\n"));
    let end = lab.run(&Task { args, cpus: &[8000], ..Task::default() });
    assert_eq!(end, End::NotStarted(Stage::Affinity, libc::EINVAL));
}

fn a_task_starts_clean(lab: &mut Lab) {
    let dir = temp();
    let args: &[&[u8]] = &[b"/bin/grep", b"-E", b"^Sig(Blk|Ign)", b"/proc/self/status"];
    let signals = lab.output(dir.path(), Task { args, ..Task::default() });
    for line in signals.lines() {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    let args: &[&[u8]] = &[b"/bin/ls", b"/proc/self/fd"];
    // The last one is the directory being listed.
    assert_eq!(lab.output(dir.path(), Task { args, ..Task::default() }), "0\n1\n2\n3\n");
    let script = b"read -r pid comm state parent group rest </proc/$$/stat; echo $((pid == group))";
    let group = lab.output(dir.path(), Task { args: &[b"/bin/sh", b"-c", script], ..Task::default() });
    assert_eq!(group, "1\n", "each task leads a group of its own");
}

fn the_environment_is_base_less_dropped_plus_own(lab: &mut Lab) {
    let dir = temp();
    let base: Vec<Vec<u8>> = lab.launcher.environment().iter().map(|v| v.as_bytes().to_vec()).collect();
    let task =
        Task { args: &[b"/usr/bin/env", b"-0"], env: &[b"A=1", b"B="], env_dropped: &[0], ..Task::default() };
    let output = lab.output(dir.path(), task);
    let mut expected: Vec<&[u8]> = base[1..].iter().map(Vec::as_slice).collect();
    expected.extend([&b"A=1"[..], b"B="]);
    let found: Vec<&[u8]> = output.as_bytes().split(|b| *b == 0).filter(|v| !v.is_empty()).collect();
    assert_eq!(found, expected);
}

fn each_of_many_starts_ends_once(lab: &mut Lab) {
    let count = 400;
    let slots: Vec<Slot> = (0..count).map(|i| Slot { index: 100 + i, generation: 1 }).collect();
    for slot in &slots {
        let program: &[u8] = if slot.index % 5 == 0 { b"/nonexistent/program" } else { b"/bin/true" };
        lab.start_as(*slot, &Task { args: &[program], ..Task::default() });
    }
    for slot in &slots {
        let expected =
            if slot.index % 5 == 0 { End::NotStarted(Stage::Exec, libc::ENOENT) } else { End::Exited(0) };
        assert_eq!(lab.wait(*slot).end, expected);
    }
    assert_eq!(lab.early, []);
}

/// A worker of its own process, for tests that kill it: starts a task with a child and a runaway, says their
/// process ids and waits for its end.
fn helper(launcher: Launcher, signal: Option<i32>) -> ! {
    let mut lab = Lab { launcher, blocked_at_birth: 0, generation: 0, early: Vec::new() };
    let dir = temp();
    let pipe = pipe(dir.path());
    let script = format!(
        "trap '' TERM HUP; sleep 1000 & a=$!; setsid sleep 1000 & echo $$ $a $! >{}; wait",
        pipe.display()
    );
    lab.start(&Task { args: &[b"/bin/sh", b"-c", script.as_bytes()], ..Task::default() });
    let pids = fs::read_to_string(&pipe).expect("readable");
    drop(dir);
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", lab.launcher.pid(), pids.trim()).expect("a reader");
    out.flush().expect("a reader");
    if let Some(signal) = signal {
        // SAFETY: a plain system call on a child of ours.
        unsafe { libc::kill(lab.launcher.pid() as i32, signal) };
        if signal == libc::SIGKILL {
            lab.launcher.wait().expect("poll works");
            assert!(
                lab.launcher.receive(&mut lab.early).is_err(),
                "the worker sees that its launcher is gone"
            );
        }
        lab.launcher.kill(Duration::ZERO);
        std::process::exit(0);
    }
    loop {
        std::thread::park();
    }
}

/// Process ids of a helper's launcher, its task, the task's child and its runaway.
fn start_helper(mode: &str) -> (std::process::Child, Vec<i32>) {
    let mut helper = Command::new(std::env::current_exe().expect("this program"))
        .arg(mode)
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let mut line = Vec::new();
    let mut output = helper.stdout.take().expect("a pipe");
    let mut byte = [0];
    while output.read(&mut byte).expect("readable") == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let text = String::from_utf8(line).expect("numbers");
    let pids: Vec<i32> = text.split_whitespace().map(|w| w.parse().expect("a process id")).collect();
    assert_eq!(pids.len(), 4);
    (helper, pids)
}

fn a_launcher_is_born_deaf(lab: &mut Lab) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP] {
        assert_ne!(lab.blocked_at_birth >> (signal - 1) & 1, 0, "signal {signal} would end it");
    }
    assert_eq!(blocked_signals(std::process::id()), 0, "this process hears them");
}

/// The signals that a process blocks, as the bits of a mask.
fn blocked_signals(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("Linux says it");
    u64::from_str_radix(mask.trim(), 16).expect("a mask")
}

fn tasks_die_with_a_killed_worker(_: &mut Lab) {
    let (mut helper, pids) = start_helper("helper-until-killed");
    // SAFETY: a plain system call on the group of a child of ours.
    unsafe { libc::kill(-(helper.id() as i32), libc::SIGKILL) };
    helper.wait().expect("our child");
    pids.into_iter().for_each(assert_gone);
}

fn everything_dies_with_a_launcher_that_is_killed_or_frozen(_: &mut Lab) {
    for mode in ["helper-kills-launcher", "helper-freezes-launcher"] {
        let (mut helper, pids) = start_helper(mode);
        assert!(helper.wait().expect("our child").success());
        assert_eq!(living(&pids), NOBODY, "{mode}");
    }
}

const NOBODY: [i32; 0] = [];

/// Those of these processes that run.
fn living(pids: &[i32]) -> Vec<i32> {
    let state = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    pids.iter().copied().filter(|pid| state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))).collect()
}

/// A task that starts processes which leave its session: one that says so, one that is nobody's child any more, one
/// without a variable in its environment, one with a child. Gives its start and them all, when all of them have left.
fn start_with_runaways(lab: &mut Lab, mark: &[u8], end: &str) -> (Slot, Vec<i32>) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let script = format!(
        "trap '' TERM; : >{0}/pids; \
         setsid sh -c 'echo $$ >>{0}/pids; exec sleep 1000' & \
         (setsid sh -c 'trap \"\" TERM; sleep 1000 & echo $! >>{0}/pids; echo $$ >>{0}/pids; wait' &); \
         setsid env -i /bin/sh -c 'echo $$ >>{0}/pids; exec /bin/sleep 1000' & \
         while test $(wc -l <{0}/pids) -lt 4; do sleep 0.01; done; cat {0}/pids >{1}; {end}",
        dir.path().display(),
        pipe.display()
    );
    let args: &[&[u8]] = &[b"/bin/sh", b"-c", script.as_bytes()];
    let slot = lab.start(&Task { args, env: &[mark], ..Task::default() });
    let text = fs::read_to_string(&pipe).expect("readable");
    let pids: Vec<i32> = text.lines().map(|pid| pid.parse().expect("a process id")).collect();
    assert_eq!(pids.len(), 4);
    (slot, pids)
}

fn what_left_its_session_ends_with_a_task_that_is_ended(lab: &mut Lab) {
    let (one, other) = (b"HQ_ACCESS_KEY=/x:1.1.0.aa", b"HQ_ACCESS_KEY=/x:1.2.0.bb");
    let (kept, kept_pids) = start_with_runaways(lab, other, "wait");
    let (slot, pids) = start_with_runaways(lab, one, "wait");
    lab.launcher.end(slot, libc::SIGTERM as u8, one);
    lab.launcher.end(slot, libc::SIGKILL as u8, one);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(libc::SIGKILL as u8));
    assert_eq!(living(&pids), NOBODY, "the end is told when nothing is left");
    assert_eq!(living(&kept_pids).len(), 4, "another task's");
    lab.launcher.end(kept, libc::SIGKILL as u8, other);
    assert!(lab.launcher.flush().expect("a living launcher"));
    lab.wait(kept);
    assert_eq!(living(&kept_pids), NOBODY);
}

fn what_left_its_session_outlives_a_task_that_ends_by_itself(lab: &mut Lab) {
    let (slot, pids) = start_with_runaways(lab, b"HQ_ACCESS_KEY=/x:1.3.0.cc", "exit 0");
    assert_eq!(lab.wait(slot).end, End::Exited(0));
    assert_eq!(living(&pids).len(), 4);
    for pid in pids {
        // SAFETY: a plain system call on a process that this test made.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        assert_gone(pid);
    }
}

fn a_start_that_fails_while_it_is_ended_is_told(lab: &mut Lab) {
    let slot = Slot { index: 90, generation: 1 };
    let mark = b"HQ_ACCESS_KEY=/x:1.4.0.dd";
    lab.launcher.end(slot, libc::SIGTERM as u8, mark);
    assert!(lab.launcher.flush().expect("a living launcher"));
    // It comes to no process at all.
    lab.start_as(slot, &Task { args: &[b"/bin/true"], task_dir: b"/dev/null/below", ..Task::default() });
    assert_eq!(lab.wait(slot).end, End::NotStarted(Stage::TaskDir, libc::ENOTDIR));
}

fn a_task_over_its_memory_is_ended_as_a_whole(lab: &mut Lab) {
    let hog = "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 60";
    let held = |script: &str, lab: &mut Lab| {
        let args: &[&[u8]] = &[b"/bin/sh", b"-c", script.as_bytes()];
        lab.run(&Task { args, memory_bytes: 40 << 20, ..Task::default() })
    };
    for script in [hog.to_owned(), format!("({hog}) & wait"), format!("setsid sh -c \"{hog}\" & wait")] {
        match held(&script, lab) {
            End::OverMemory(kib) => assert!(kib > 40 << 10, "{script}: {kib}"),
            other => panic!("{script}: {other:?}"),
        }
    }
    // What grew and went between two looks is seen at the end.
    let short = "x=$(head -c 60000000 /dev/zero | tr '\\0' x)";
    assert!(matches!(held(short, lab), End::OverMemory(_)));
    assert_eq!(held("exit 3", lab), End::Exited(3));
}
