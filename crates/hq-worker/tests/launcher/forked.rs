//! Starts that a zygote forks.

use std::os::unix::net::UnixStream;

use super::*;

pub(super) const ALL: &[Test] = &[
    ("what_a_zygote_forks_is_a_start_like_all_others", what_a_zygote_forks_is_a_start_like_all_others),
    ("a_zygote_that_does_not_fork_is_told_apart", a_zygote_that_does_not_fork_is_told_apart),
];

// Reads an order, and does what its first argument says, `order` and the two sockets at hand; what it forks twice has the
// launcher as its parent, and does what the second one says when it was let go on.
const ZYGOTE: &str = r#"
import os, socket, struct, sys, time
orders = socket.socket(fileno=0)
while True:
    order, control, _, _ = orders.recvmsg(1 << 17, socket.CMSG_SPACE(8))
    if not order:
        sys.exit()
    given, answer = struct.unpack("2i", control[0][2])
    answer = socket.socket(fileno=answer)
    exec(sys.argv[1])
    os.close(given)
    answer.close()
"#;
const FORKS: &str = r#"
between = os.fork()
if between == 0:
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.001)
    os.setpgid(0, 0)
    answer.send(struct.pack("=iii", os.getpid(), 0, 0))
    assert answer.recv(1) == b"\1"
    exec(sys.argv[2])
os.waitpid(between, 0)
"#;

fn pair() -> (OwnedFd, OwnedFd) {
    let kind = rustix::net::SocketType::SEQPACKET;
    let flags = rustix::net::SocketFlags::CLOEXEC;
    rustix::net::socketpair(rustix::net::AddressFamily::UNIX, kind, flags, None).expect("sockets")
}

// Starts a zygote; gives its start and our end of its socket.
fn zygote(lab: &mut Lab, does: &str, then: &str) -> (Slot, Arc<OwnedFd>) {
    let (ours, theirs) = pair();
    lab.generation += 1;
    let slot = Slot { index: lab.generation % 50, generation: lab.generation };
    let args: Vec<u8> = ["python3", "-c", ZYGOTE, does, then]
        .iter()
        .flat_map(|arg| [arg.as_bytes(), b"\0"].concat())
        .collect();
    let programs = std::env::var_os("PATH").expect("a path");
    let programs = std::env::split_paths(&programs).map(|dir| dir.join("python3"));
    let programs: Vec<u8> = programs.flat_map(|path| [bytes(&path), b"\0"].concat()).collect();
    let order = Order {
        slot,
        programs: &programs,
        args: &args,
        cwd: b"/",
        has_stdin: true,
        is_stdin_socket: true,
        ..Order::default()
    };
    lab.launcher.start(&order, Some(&Arc::new(theirs))).expect("an order");
    (slot, Arc::new(ours))
}

// Has it fork a process; gives its start and our end of its socket.
fn fork(lab: &mut Lab, zygote: &Arc<OwnedFd>, memory_bytes: u64) -> (Slot, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    lab.generation += 1;
    let slot = Slot { index: lab.generation % 50, generation: lab.generation };
    let (has_stdin, is_forked) = (true, true);
    let order = Order {
        slot,
        args: b"x\0",
        programs: b"x\0",
        memory_bytes,
        has_stdin,
        is_forked,
        ..Order::default()
    };
    assert!(lab.launcher.fork_from(zygote, &order, &Arc::new(theirs.into())));
    assert!(lab.launcher.flush().expect("a living launcher"));
    (slot, ours)
}

fn what_a_zygote_forks_is_a_start_like_all_others(lab: &mut Lab) {
    let code = "os.write(given, str(os.getppid()).encode()); n = os.read(given, 1); os._exit(7)";
    let (mother, socket) = zygote(lab, FORKS, code);
    let (slot, mut runner) = fork(lab, &socket, 0);
    let mut said = [0; 16];
    let length = runner.read(&mut said).expect("it lives");
    let parent = std::str::from_utf8(&said[..length]).expect("a number");
    assert_eq!(parent, lab.launcher.pid().to_string());
    runner.write_all(b"x").expect("it reads");
    let ended = lab.wait(slot);
    assert_eq!(ended.end, End::Exited(7));
    assert!(ended.usage.wall_us > 0 && ended.usage.rss_max_kib > 0, "{:?}", ended.usage);
    // Signals reach it, before and after it is there.
    let (slot, _runner) = fork(lab, &socket, 0);
    lab.launcher.signal(slot, 9);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(9));
    let (slot, mut runner) = fork(lab, &socket, 0);
    assert!(runner.read(&mut said).expect("it lives") > 0);
    lab.launcher.signal(slot, 15);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(slot).end, End::Signaled(15));
    let (slot, _runner) = fork(lab, &socket, 1 << 20);
    assert!(matches!(lab.wait(slot).end, End::OverMemory(_)), "an interpreter needs more");
    // It outlives the zygote, which ends by itself.
    let (slot, mut runner) = fork(lab, &socket, 0);
    assert!(runner.read(&mut said).expect("it lives") > 0);
    drop(socket);
    assert_eq!(lab.wait(mother).end, End::Exited(0));
    drop(runner);
    assert_eq!(lab.wait(slot).end, End::Exited(7));
}

fn a_zygote_that_does_not_fork_is_told_apart(lab: &mut Lab) {
    for (does, errno) in [
        ("pass", libc::ECHILD),
        ("os._exit(0)", libc::ECHILD),
        // Not its child, and not even there.
        ("answer.send(struct.pack('=iii', 1, 0, 0))", libc::ESRCH),
        ("answer.send(struct.pack('=iii', 1 << 30, 0, 0))", libc::ESRCH),
    ] {
        let (mother, socket) = zygote(lab, does, "");
        let (slot, _runner) = fork(lab, &socket, 0);
        assert_eq!(lab.wait(slot).end, End::NotStarted(Stage::Zygote, errno), "{does}");
        drop(socket);
        lab.wait(mother);
    }
    let (mother, socket) = zygote(lab, "answer.send(struct.pack('=iii', 5, 10, 2))", "");
    let (slot, _runner) = fork(lab, &socket, 0);
    assert_eq!(lab.wait(slot).end, End::NotStarted(Stage::Group, 2));
    drop(socket);
    assert_eq!(lab.wait(mother).end, End::Exited(0));
    let (mother, socket) = zygote(lab, "os._exit(0)", "");
    let (slot, _runner) = fork(lab, &socket, 0);
    lab.wait(mother);
    lab.wait(slot);
    // Nobody reads there.
    let (slot, _runner) = fork(lab, &socket, 0);
    assert!(matches!(lab.wait(slot).end, End::NotStarted(Stage::Zygote, _)));
}
