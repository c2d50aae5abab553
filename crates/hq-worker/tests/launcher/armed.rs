//! Starts that wait for the end of another one.

use super::*;

pub(crate) const ALL: [Test; 9] = [
    ("what_follows_a_start_begins_at_its_end", what_follows_a_start_begins_at_its_end),
    ("nothing_follows_another_end", nothing_follows_another_end),
    ("what_is_called_back_never_begins", what_is_called_back_never_begins),
    ("what_has_begun_is_a_start_like_others", what_has_begun_is_a_start_like_others),
    ("followers_that_hang_hold_up_nobody", followers_that_hang_hold_up_nobody),
    ("a_row_of_followers_begins_one_after_the_other", a_row_of_followers_begins_one_after_the_other),
    (
        "those_behind_one_that_is_called_back_come_back_with_it",
        those_behind_one_that_is_called_back_come_back_with_it,
    ),
    ("each_of_a_long_row_is_answered_once", each_of_a_long_row_is_answered_once),
    ("each_of_many_followers_is_answered_once", each_of_many_followers_is_answered_once),
];

fn sh(script: &str) -> [&[u8]; 3] {
    [b"/bin/sh", b"-c", script.as_bytes()]
}

/// A start that ends when something is written to a pipe.
fn held(lab: &mut Lab, pipe: &Path, then: &str) -> Slot {
    let script = format!("read line <{}; {then}", pipe.display());
    lab.start(&Task { args: &sh(&script), ..Task::default() })
}

fn let_go(pipe: &Path) {
    fs::write(pipe, "\n").expect("a reader");
}

impl Lab {
    fn arm(&mut self, after: Slot, script: &str) -> Slot {
        self.start(&Task { args: &sh(script), after: Some(after), ..Task::default() })
    }

    fn recall(&mut self, slot: Slot) {
        self.launcher.recall(slot);
        assert!(self.launcher.flush().expect("a living launcher"));
    }

    /// Until the launcher has read all orders so far: one that waits for what is over comes back at once.
    fn settle(&mut self) {
        for _ in 0..4 {
            let over = self.start(&Task { args: &[b"/bin/true"], ..Task::default() });
            assert_eq!(self.wait(over).end, End::Exited(0));
            let late = self.arm(over, "exit 1");
            assert_eq!(self.wait(late).end, End::Recalled);
        }
    }
}

fn what_follows_a_start_begins_at_its_end(lab: &mut Lab) {
    let dir = temp();
    let (pipe, file) = (pipe(dir.path()), dir.path().join("file"));
    let leader = held(lab, &pipe, "exit 0");
    let follower = lab.arm(leader, &format!("echo follower >{}; exit 3", file.display()));
    lab.settle();
    assert!(!file.exists());
    let_go(&pipe);
    assert_eq!(lab.wait(follower).end, End::Begun);
    assert_eq!(lab.wait(leader).end, End::Exited(0));
    let end = lab.wait(follower);
    assert_eq!(end.end, End::Exited(3));
    assert!(end.usage.wall_us > 0);
    assert_eq!(fs::read(&file).expect("it ran"), b"follower\n");
    assert_eq!(lab.early, []);
}

fn nothing_follows_another_end(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    for then in ["exit 1", "kill -9 $$"] {
        let leader = held(lab, &pipe, then);
        let follower = lab.arm(leader, "exit 0");
        lab.settle();
        let_go(&pipe);
        assert_eq!(lab.wait(follower).end, End::Recalled, "{then}");
        lab.wait(leader);
    }
    let leader = lab.start(&Task { args: &[b"/nonexistent/program"], ..Task::default() });
    let follower = lab.arm(leader, "exit 0");
    assert_eq!(lab.wait(follower).end, End::Recalled);
    assert_eq!(lab.wait(leader).end, End::NotStarted(Stage::Exec, libc::ENOENT));
    let leader = held(lab, &pipe, "exit 0");
    let follower = lab.arm(leader, "exit 0");
    lab.settle();
    lab.launcher.end(leader, libc::SIGKILL as u8, b"HQ_ACCESS_KEY=nobody");
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(follower).end, End::Recalled);
    assert_eq!(lab.wait(leader).end, End::Signaled(9));
    assert_eq!(lab.early, []);
}

fn what_is_called_back_never_begins(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let leader = held(lab, &pipe, "exit 0");
    let follower = lab.arm(leader, "exit 0");
    lab.settle();
    lab.recall(follower);
    assert_eq!(lab.wait(follower).end, End::Recalled);
    lab.recall(follower);
    let next = lab.arm(leader, "exit 4");
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(next).end, End::Begun);
    assert_eq!(lab.wait(leader).end, End::Exited(0));
    assert_eq!(lab.wait(next).end, End::Exited(4));
    assert_eq!(lab.early, []);
}

fn what_has_begun_is_a_start_like_others(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let leader = held(lab, &pipe, "exit 0");
    let follower = held_after(lab, leader, &pipe);
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(follower).end, End::Begun);
    // Too late.
    lab.recall(follower);
    let last = lab.arm(follower, "exit 5");
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(follower).end, End::Exited(0));
    assert_eq!(lab.wait(last).end, End::Begun);
    assert_eq!(lab.wait(last).end, End::Exited(5));
    let leader_end = lab.wait(leader).end;
    assert_eq!((leader_end, lab.early.len()), (End::Exited(0), 0));
    let leader = held(lab, &pipe, "exit 0");
    let follower = held_after(lab, leader, &pipe);
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(follower).end, End::Begun);
    lab.launcher.signal(follower, libc::SIGTERM as u8);
    assert!(lab.launcher.flush().expect("a living launcher"));
    assert_eq!(lab.wait(follower).end, End::Signaled(15));
    assert_eq!(lab.wait(leader).end, End::Exited(0));
}

fn held_after(lab: &mut Lab, leader: Slot, pipe: &Path) -> Slot {
    lab.arm(leader, &format!("read line <{}", pipe.display()))
}

fn followers_that_hang_hold_up_nobody(lab: &mut Lab) {
    let dir = temp();
    let (pipe, outputs) = (pipe(dir.path()), dir.path().join("sub"));
    fs::create_dir(&outputs).expect("a directory");
    let nobody_reads = super::pipe(&outputs);
    let mut hanging = Vec::new();
    for pair in 0..8 {
        let leader = Slot { index: 600 + pair, generation: 1 };
        let follower = Slot { index: 700 + pair, generation: 1 };
        let script = format!("read line <{}", pipe.display());
        lab.start_as(leader, &Task { args: &sh(&script), ..Task::default() });
        let args: &[&[u8]] = &[b"/bin/echo", b"line"];
        let task = Task { args, stdout: bytes(&nobody_reads), after: Some(leader), ..Task::default() };
        lab.start_as(follower, &task);
        lab.settle();
        let_go(&pipe);
        assert_eq!(lab.wait(leader).end, End::Exited(0));
        match lab.wait(follower).end {
            End::Begun => hanging.push(follower),
            end => assert_eq!(end, End::Recalled, "no thread is left to start it"),
        }
    }
    assert!((1..8).contains(&hanging.len()), "{hanging:?}");
    assert_eq!(lab.shell("exit 0"), End::Exited(0));
    for slot in hanging {
        lab.launcher.signal(slot, libc::SIGKILL as u8);
        assert!(lab.launcher.flush().expect("a living launcher"));
        assert_eq!(lab.wait(slot).end, End::Signaled(9));
    }
}

fn a_row_of_followers_begins_one_after_the_other(lab: &mut Lab) {
    let dir = temp();
    let (pipe, file) = (pipe(dir.path()), dir.path().join("file"));
    let leader = held(lab, &pipe, "exit 0");
    let mut row = vec![leader];
    for number in 0..6 {
        let then = if number == 3 { "exit 7" } else { "exit 0" };
        let script = format!("echo {number} >>{}; read line <{}; {then}", file.display(), pipe.display());
        row.push(lab.arm(row[number], &script));
    }
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(leader).end, End::Exited(0));
    for (number, slot) in row[1..].iter().enumerate() {
        match number {
            0..=3 => {
                assert_eq!(lab.wait(*slot).end, End::Begun, "{number}");
                lab.settle();
                let_go(&pipe);
                let code = if number == 3 { 7 } else { 0 };
                assert_eq!(lab.wait(*slot).end, End::Exited(code), "{number}");
            }
            _ => assert_eq!(lab.wait(*slot).end, End::Recalled, "{number}"),
        }
    }
    assert_eq!(fs::read(&file).expect("they ran"), b"0\n1\n2\n3\n");
    assert_eq!(lab.early, []);
}

fn those_behind_one_that_is_called_back_come_back_with_it(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let leader = held(lab, &pipe, "exit 0");
    let first = lab.arm(leader, "exit 0");
    let second = lab.arm(first, "exit 1");
    let third = lab.arm(second, "exit 1");
    lab.settle();
    lab.recall(second);
    for slot in [second, third] {
        assert_eq!(lab.wait(slot).end, End::Recalled);
    }
    // Behind what is over.
    let late = lab.arm(third, "exit 1");
    assert_eq!(lab.wait(late).end, End::Recalled);
    let_go(&pipe);
    assert_eq!(lab.wait(leader).end, End::Exited(0));
    assert_eq!(lab.wait(first).end, End::Begun);
    assert_eq!(lab.wait(first).end, End::Exited(0));
    assert_eq!(lab.early, []);
}

fn each_of_a_long_row_is_answered_once(lab: &mut Lab) {
    let dir = temp();
    let pipe = pipe(dir.path());
    let leader = held(lab, &pipe, "exit 0");
    let row: Vec<Slot> = (0..700).map(|i| Slot { index: 3000 + i, generation: 1 }).collect();
    for (number, slot) in row.iter().enumerate() {
        let after = if number == 0 { leader } else { row[number - 1] };
        lab.start_as(*slot, &Task { args: &[b"/bin/true"], after: Some(after), ..Task::default() });
    }
    lab.settle();
    let_go(&pipe);
    assert_eq!(lab.wait(leader).end, End::Exited(0));
    let mut is_over = false;
    for slot in row {
        match lab.wait(slot).end {
            End::Begun => {
                assert!(!is_over, "it waited for one that did not begin");
                assert_eq!(lab.wait(slot).end, End::Exited(0));
            }
            end => {
                // Whoever saw the end before it had nobody to take its place.
                assert_eq!(end, End::Recalled);
                is_over = true;
            }
        }
    }
    assert_eq!(lab.early, []);
}

fn each_of_many_followers_is_answered_once(lab: &mut Lab) {
    let count = 400;
    let slots: Vec<Slot> = (0..count).map(|i| Slot { index: 1000 + i, generation: 1 }).collect();
    let (mut begun, mut recalled) = (0, 0);
    for pair in slots.chunks(2) {
        lab.start_as(pair[0], &Task { args: &[b"/bin/true"], ..Task::default() });
        lab.start_as(pair[1], &Task { args: &[b"/bin/true"], after: Some(pair[0]), ..Task::default() });
        if pair[0].index % 3 == 0 {
            lab.recall(pair[1]);
        }
        assert_eq!(lab.wait(pair[0]).end, End::Exited(0));
        match lab.wait(pair[1]).end {
            End::Begun => {
                begun += 1;
                assert_eq!(lab.wait(pair[1]).end, End::Exited(0));
            }
            end => {
                recalled += 1;
                assert_eq!(end, End::Recalled);
            }
        }
    }
    assert_eq!((begun + recalled, lab.early.len()), (count / 2, 0));
}
