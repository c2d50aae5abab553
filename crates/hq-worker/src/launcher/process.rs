//! The launcher process: what it holds, its threads, and how it ends.
//!
//! Four kinds of thread share one table. Spawners take orders from a packet socket (the kernel hands
//! each order to one of them) and start processes; reapers wait, one at a time, for their ends and report them;
//! the control thread delivers signals and notices that the worker has died, then kills everything.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::armed::{Reaping, Waiting};
use super::endings::Endings;
use super::telling::Telling;
use super::wire::{End, Ended, RECALL, SignalOrder, Slot};
use super::{endings, family, reap, spawn, watch};
use crate::limits;

static ONE: u64 = 1;

/// What all threads of the launcher share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Orders come in here, reports go out.
    pub(super) orders: OwnedFd,
    /// Signals come in here; its end says that the worker is gone.
    pub(super) control: OwnedFd,
    /// The environment that tasks start from.
    pub(super) environment: Vec<CString>,
    /// Process id of the launcher.
    pub(super) pid: i32,
    /// The worker is gone: nothing is started any more.
    closing: AtomicBool,
    /// Spawners that have an order in hand.
    spawners_busy: AtomicUsize,
    /// Counts processes that were made; changes under the table's lock.
    started_count: AtomicU64,
    /// What each spawner is at, as many as there may ever be, and then each reaper, which may start something, too.
    pub(super) spawners: Vec<Spawning>,
    /// How many spawners there are.
    spawners_count: AtomicUsize,
    /// Wakes the control thread when all spawners are busy and it does not look at them already.
    all_busy: OwnedFd,
    is_watched: AtomicBool,
    /// A thread looks at the memory of tasks.
    looks_at_memory: AtomicBool,
    /// Tasks that are being ended, and whether there is a thread that does that.
    pub(super) endings: Endings,
    ends_tasks: AtomicBool,
    pub(super) reaping: Reaping,
    pub(super) telling: Telling,
    table: Mutex<Table>,
    /// Something was started while there were no processes to wait for.
    started: Condvar,
    /// There are no processes any more.
    childless: Condvar,
}

/// What a spawner is at.
#[derive(Debug, Default)]
pub(super) struct Spawning {
    /// The process it is just making; written by the kernel before that process runs.
    pub(super) newborn: AtomicI32,
    /// The start it works at, 0 when it waits for orders.
    slot: AtomicU64,
    /// That start is to be killed; the new process looks here before it does anything that may hang.
    pub(super) is_killed: AtomicBool,
    /// The new process is about to become its program; set before it looks at `is_killed` for the last time.
    pub(super) is_at_program: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<SlotState>,
    running: HashMap<i32, Running>,
    /// Ends of processes that their spawner has not entered yet.
    early: HashMap<i32, Exit>,
    /// Orders that wait for the end of a start, by that.
    pub(super) armed: HashMap<Slot, Waiting>,
    reaper_sleeps: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotState {
    pub(super) generation: u32,
    /// 0 before the start and after the end.
    pid: i32,
    pub(super) ended: bool,
    /// It was called back before its order came.
    pub(super) is_recalled: bool,
    pending_signal: u8,
    /// Its end is reported when nothing of it is left.
    is_ending: bool,
}

/// A process that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    slot: Slot,
    started: Instant,
    /// What it is held to; 0 for nothing.
    memory_bytes: u64,
    /// What it used when it was ended for that.
    over_kib: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) end: End,
    pub(super) usage: hq_model::Usage,
    pub(super) at: Instant,
}

/// Whose end the reaper saw.
pub(super) enum Who {
    /// A task's; to be reported.
    Task(Ended),
    /// That of a task that is being ended; to be reported later.
    Ending,
    /// That of a process that its spawner will enter or abandon, and report.
    Newborn,
    /// That of something a task left behind.
    Stranger,
}

impl Exit {
    fn report(self, running: Running) -> Ended {
        let wall = self.at.saturating_duration_since(running.started);
        let usage = hq_model::Usage { wall_us: wall.as_micros() as u64, ..self.usage };
        // What grew and ended between two looks counts, too.
        let is_over = usage.rss_max_kib.saturating_mul(1024) > running.memory_bytes;
        let end = if running.memory_bytes > 0 && (running.over_kib > 0 || is_over) {
            let kib = if running.over_kib > 0 { running.over_kib } else { usage.rss_max_kib };
            End::OverMemory(u32::try_from(kib).unwrap_or(u32::MAX))
        } else {
            self.end
        };
        Ended { slot: running.slot, end, usage }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A spawner begins with an order. False when the launcher is closing and nothing may start.
    pub(super) fn begin(&self, spawner: usize, slot: Slot) -> bool {
        let busy = self.spawners_busy.fetch_add(1, Ordering::SeqCst) + 1;
        let spawning = &self.spawners[spawner];
        spawning.is_killed.store(false, Ordering::SeqCst);
        spawning.slot.store(slot.as_number(), Ordering::SeqCst);
        let state = *self.lock().slot(slot);
        if state.is_ending || i32::from(state.pending_signal) == libc::SIGKILL {
            spawning.is_killed.store(true, Ordering::SeqCst);
        }
        if self.closing.load(Ordering::SeqCst) {
            self.done(spawner);
            return false;
        }
        // Reapers that start something count, too: then it is looked once too often.
        let is_last = busy >= self.spawners_count.load(Ordering::SeqCst);
        if is_last && !self.is_watched.swap(true, Ordering::SeqCst) {
            // SAFETY: eight bytes, as an event counter takes them.
            unsafe { libc::write(self.all_busy.as_raw_fd(), (&raw const ONE).cast(), size_of_val(&ONE)) };
        }
        true
    }

    /// A spawner is done with its order.
    pub(super) fn done(&self, spawner: usize) {
        self.spawners[spawner].slot.store(0, Ordering::SeqCst);
        self.spawners_busy.fetch_sub(1, Ordering::SeqCst);
    }

    /// Enters a process that has reached its program. Gives a report when it has ended already.
    pub(super) fn enter(
        &self,
        spawner: usize,
        pid: i32,
        slot: Slot,
        started: Instant,
        memory_bytes: u64,
    ) -> Option<Ended> {
        let mut table = self.lock();
        self.spawners[spawner].newborn.store(0, Ordering::SeqCst);
        let running = Running { slot, started, memory_bytes, over_kib: 0 };
        if let Some(exit) = table.early.remove(&pid) {
            table.slot(slot).ended = true;
            return Some(exit.report(running));
        }
        self.enter_in(&mut table, pid, slot, started, memory_bytes);
        None
    }

    /// Enters a process that runs. False when it is known already.
    pub(super) fn enter_in(
        &self,
        table: &mut Table,
        pid: i32,
        slot: Slot,
        started: Instant,
        memory_bytes: u64,
    ) -> bool {
        if table.running.contains_key(&pid) {
            return false;
        }
        table.running.insert(pid, Running { slot, started, memory_bytes, over_kib: 0 });
        let state = table.slot(slot);
        state.pid = pid;
        let signal = std::mem::take(&mut state.pending_signal);
        if signal != 0 {
            kill_group(pid, i32::from(signal));
        }
        self.wake_reaper(table);
        true
    }

    /// From now on the memory of tasks that are held to some is looked at.
    pub(super) fn look_at_memory(&'static self) {
        let is_new = !self.looks_at_memory.swap(true, Ordering::SeqCst);
        // Without a thread, what a task used is seen at its end.
        if is_new && thread("memory", move || watch::run(self)).is_err() {
            self.looks_at_memory.store(false, Ordering::SeqCst);
        }
    }

    /// Processes of tasks that are held to some memory, in bytes.
    pub(super) fn held_to_memory(&self) -> Vec<(i32, u64)> {
        let table = self.lock();
        let held = table.running.iter().filter(|(_, running)| running.memory_bytes > 0);
        held.map(|(pid, running)| (*pid, running.memory_bytes)).collect()
    }

    /// A task uses too much memory: kills its group. False when it has ended.
    pub(super) fn is_over_memory(&self, pid: i32, kib: u64) -> bool {
        let mut table = self.lock();
        let Some(running) = table.running.get_mut(&pid) else { return false };
        running.over_kib = kib.max(1);
        kill_group(pid, libc::SIGKILL);
        true
    }

    /// Forgets a process that never reached its program; it has been or is being reaped as a stranger.
    pub(super) fn abandon(&self, spawner: usize, pid: i32) {
        let mut table = self.lock();
        self.spawners[spawner].newborn.store(0, Ordering::SeqCst);
        table.early.remove(&pid);
        self.wake_reaper(&table);
    }

    /// Marks a slot whose start has failed for good.
    pub(super) fn failed(&self, slot: Slot) {
        let mut table = self.lock();
        let state = table.slot(slot);
        state.ended = true;
        state.pending_signal = 0;
    }

    /// Tells the worker of the end of a start that was over before it was entered, or whoever is ending it. Gives what waited
    /// for it and is to begin.
    pub(super) fn report(&self, report: Ended) -> Option<Waiting> {
        let mut reports = Vec::with_capacity(2 * Ended::BYTES);
        let mut table = self.lock();
        let waiting = table.take_armed(report.slot);
        if table.slot(report.slot).is_ending {
            self.endings.ended(report);
            waiting.into_iter().for_each(|waiting| table.drop_waiting(waiting, &mut reports));
            drop(table);
            self.tell(&reports);
            return None;
        }
        drop(table);
        let follower = self.follow(report, waiting, true, &mut reports);
        self.tell_end(&reports, follower.as_ref());
        follower
    }

    /// Tells the worker of an end, and of what begins with that. It is in no hurry where it has said what follows that.
    pub(super) fn tell_end(&self, reports: &[u8], follower: Option<&Waiting>) {
        if follower.is_some_and(|follower| self.is_followed(follower.slot)) {
            self.tell_soon(reports);
        } else {
            self.tell(reports);
        }
    }

    /// The process of a start, while it runs.
    pub(super) fn pid_of(&self, slot: Slot) -> Option<i32> {
        let mut table = self.lock();
        let state = table.slot(slot);
        (state.generation == slot.generation && state.pid != 0).then_some(state.pid)
    }

    /// The processes of all tasks.
    pub(super) fn running_pids(&self) -> Vec<i32> {
        self.lock().running.keys().copied().collect()
    }

    /// A task is to be ended with all that it started: what has `mark` in its environment is of it.
    fn end(&'static self, order: SignalOrder, mark: Vec<u8>) {
        let is_new = !self.ends_tasks.swap(true, Ordering::SeqCst);
        if is_new && thread("endings", move || endings::run(self)).is_err() {
            self.ends_tasks.store(false, Ordering::SeqCst);
            // The system has no room for a thread: its group has to do.
            return self.signal(order);
        }
        let mut table = self.lock();
        let state = table.slot(order.slot);
        if state.generation == order.slot.generation && !state.ended {
            state.is_ending = true;
            // Under the lock, so that its end comes after it.
            self.endings.order(order, mark);
        }
    }

    fn wake_reaper(&self, table: &Table) {
        self.started_count.fetch_add(1, Ordering::SeqCst);
        if table.reaper_sleeps {
            self.started.notify_one();
        }
    }

    /// The reaper has seen a process end, and has not removed it yet. Beside, what waited for that.
    pub(super) fn ended(&self, pid: i32, exit: Exit) -> (Who, Option<Waiting>) {
        let mut table = self.lock();
        if let Some(running) = table.running.remove(&pid) {
            let state = table.slot(running.slot);
            state.pid = 0;
            state.ended = true;
            let is_ending = state.is_ending;
            let waiting = table.take_armed(running.slot);
            if is_ending {
                self.endings.ended(exit.report(running));
                return (Who::Ending, waiting);
            }
            return (Who::Task(exit.report(running)), waiting);
        }
        // A spawner that has not come to enter its process will find the end here; it takes its
        // number from `newborn` under this lock.
        if self.spawners.iter().any(|spawning| spawning.newborn.load(Ordering::SeqCst) == pid) {
            table.early.insert(pid, exit);
            return (Who::Newborn, None);
        }
        (Who::Stranger, None)
    }

    /// How many starts there have been; what [`Shared::wait_for_start`] compares with.
    pub(super) fn started_count(&self) -> u64 {
        self.started_count.load(Ordering::SeqCst)
    }

    /// Blocks until more than `seen` processes have been started.
    pub(super) fn wait_for_start(&self, seen: u64) {
        let mut table = self.lock();
        table.reaper_sleeps = true;
        if self.spawners_busy.load(Ordering::SeqCst) == 0 {
            self.childless.notify_all();
        }
        while self.started_count.load(Ordering::SeqCst) == seen {
            table = self.started.wait(table).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        table.reaper_sleeps = false;
    }

    /// Delivers a signal, now or as soon as the task has started.
    pub(super) fn signal(&self, order: SignalOrder) {
        let mut guard = self.lock();
        let table = &mut *guard;
        let state = table.slot(order.slot);
        if state.generation != order.slot.generation || state.ended {
            return;
        }
        if state.pid != 0 {
            kill_group(state.pid, i32::from(order.signal));
        } else {
            // SIGKILL is the last word.
            if i32::from(state.pending_signal) != libc::SIGKILL {
                state.pending_signal = order.signal;
            }
            let is_ending = state.is_ending;
            if i32::from(order.signal) == libc::SIGKILL {
                self.kill_newborn(table, order.slot, true);
            } else if is_ending {
                // A program that has not begun has nothing to tidy up, and shall not begin for that.
                self.kill_newborn(table, order.slot, false);
            }
        }
    }

    /// Kills a process that may hang before it has come to its program: in a pipe that nobody reads, on a
    /// file system that does not answer. One that has come there is only killed `at_program`, too.
    fn kill_newborn(&self, table: &Table, slot: Slot, at_program: bool) {
        let at_it = |spawning: &&Spawning| spawning.slot.load(Ordering::SeqCst) == slot.as_number();
        if let Some(spawning) = self.spawners.iter().find(at_it) {
            spawning.is_killed.store(true, Ordering::SeqCst);
            let pid = spawning.newborn.load(Ordering::SeqCst);
            let may_be_killed = at_program || !spawning.is_at_program.load(Ordering::SeqCst);
            if pid != 0 && may_be_killed && !table.early.contains_key(&pid) {
                // SAFETY: a plain system call. The process has not been reaped: its end would be in `early`.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }

    /// The orders that the first of the spawners have in hand.
    fn in_hand(&self, count: usize) -> Vec<u64> {
        self.spawners[..count].iter().map(|spawning| spawning.slot.load(Ordering::SeqCst)).collect()
    }

    /// Adds spawners. False when the system refuses a thread.
    fn add_spawners(&'static self, count: usize) -> bool {
        let first = self.spawners_count.load(Ordering::SeqCst);
        for number in first..(first + count).min(limits::SPAWNERS_MAX) {
            if thread("spawner", move || spawn::run(self, number)).is_err() {
                return false;
            }
            self.spawners_count.store(number + 1, Ordering::SeqCst);
        }
        true
    }

    /// Ends everything that descends from the launcher, then the launcher.
    fn close(&self) -> ! {
        let deadline = Instant::now() + limits::CLEANUP_LIMIT;
        let mut table = self.lock();
        self.closing.store(true, Ordering::SeqCst);
        loop {
            for pid in table.running.keys() {
                kill_group(*pid, libc::SIGKILL);
            }
            for slot in self.in_hand(self.spawners.len()).into_iter().filter(|slot| *slot != 0) {
                self.kill_newborn(&table, Slot::from_number(slot), true);
            }
            drop(table);
            let processes = family::processes();
            let mut all = family::with_descendants(&processes, vec![self.pid]);
            all.remove(&self.pid);
            all.into_iter().for_each(family::kill);
            table = self.lock();
            let childless = table.reaper_sleeps && self.spawners_busy.load(Ordering::SeqCst) == 0;
            if childless || Instant::now() > deadline {
                // SAFETY: ends the process at once, all threads with it; nothing is left to be flushed.
                unsafe { libc::_exit(0) }
            }
            table = self
                .childless
                .wait_timeout(table, limits::CLEANUP_PAUSE)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
    }
}

impl Table {
    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotState {
        let index = slot.index as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, SlotState::default());
        }
        let state = &mut self.slots[index];
        if state.generation < slot.generation {
            *state = SlotState { generation: slot.generation, ..SlotState::default() };
        }
        state
    }
}

/// Sends a signal to a process group; one that is gone does not matter.
pub(super) fn kill_group(group: i32, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(-group, signal) };
}

/// The launcher's whole life. `environment` is what tasks start from.
pub(super) fn run(orders: OwnedFd, control: OwnedFd, environment: Vec<CString>) -> ! {
    prepare(&[orders.as_raw_fd(), control.as_raw_fd()]);
    // SAFETY: a plain system call; the new descriptor is ours.
    let all_busy = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // Leaked because the threads live as long as the process.
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        orders,
        control,
        environment,
        // SAFETY: a plain system call.
        pid: unsafe { libc::getpid() },
        closing: AtomicBool::new(false),
        spawners_busy: AtomicUsize::new(0),
        started_count: AtomicU64::new(0),
        spawners: (0..limits::SPAWNERS_MAX + limits::REAPERS_MAX).map(|_| Spawning::default()).collect(),
        spawners_count: AtomicUsize::new(0),
        all_busy,
        is_watched: AtomicBool::new(false),
        looks_at_memory: AtomicBool::new(false),
        endings: Endings::default(),
        ends_tasks: AtomicBool::new(false),
        reaping: Reaping::default(),
        telling: Telling::default(),
        table: Mutex::default(),
        started: Condvar::new(),
        childless: Condvar::new(),
    }));
    let reaper = |number| thread("reaper", move || reap::run(shared, limits::SPAWNERS_MAX + number));
    let has_reaper = reaper(0).is_ok();
    shared.hold_reports();
    // Without more of them nothing begins at the end of something else.
    let _ = (1..(cpus + 1).clamp(2, limits::REAPERS_MAX)).try_for_each(reaper);
    if !has_reaper || !shared.add_spawners(cpus.clamp(2, limits::SPAWNERS_FIRST)) {
        // The worker sees the end of the socket and says that its launcher is gone.
        std::process::exit(1);
    }
    control_loop(shared)
}

/// A thread of the launcher.
pub(super) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
    builder.spawn(body).map(drop)
}

fn control_loop(shared: &'static Shared) -> ! {
    // The orders in hand when all spawners were busy at the last look.
    let mut watched: Option<Vec<u64>> = None;
    loop {
        let mut polls = [shared.control.as_raw_fd(), shared.all_busy.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let timeout = if watched.is_some() { limits::SPAWNERS_LOOK.as_millis() as i32 } else { -1 };
        // SAFETY: two valid entries.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as _, timeout) };
        if ready == 0 {
            watched = look_at_spawners(shared, watched.take());
        } else if ready > 0 {
            if polls[1].revents != 0 {
                let mut count = 0u64;
                // SAFETY: eight bytes, as an event counter gives them.
                unsafe { libc::read(polls[1].fd, (&raw mut count).cast(), size_of_val(&count)) };
                watched.get_or_insert_with(Vec::new);
            }
            if polls[0].revents != 0 {
                take_signal(shared);
            }
        } else if last_error() != libc::EINTR {
            shared.close();
        }
    }
}

fn take_signal(shared: &'static Shared) {
    let mut buffer = [0u8; SignalOrder::BYTES];
    // SAFETY: the buffer is as long as said.
    let got = unsafe {
        libc::recv(shared.control.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_WAITALL)
    };
    if got != buffer.len() as isize {
        if got >= 0 || last_error() != libc::EINTR {
            shared.close();
        }
        return;
    }
    let Some((order, mark_bytes)) = SignalOrder::decode(&buffer) else { return };
    if mark_bytes == 0 {
        return if order.signal == RECALL { shared.recall(order.slot) } else { shared.signal(order) };
    }
    let mut mark = vec![0; mark_bytes];
    // SAFETY: the buffer is as long as said.
    let got = unsafe {
        libc::recv(shared.control.as_raw_fd(), mark.as_mut_ptr().cast(), mark.len(), libc::MSG_WAITALL)
    };
    // Every signal is blocked here, so nothing interrupts this.
    if got == mark.len() as isize { shared.end(order, mark) } else { shared.close() }
}

/// When every spawner hangs at the same order as at the last look, others take over the work. Gives what to
/// compare with at the next look, if one is needed.
fn look_at_spawners(shared: &'static Shared, before: Option<Vec<u64>>) -> Option<Vec<u64>> {
    let in_hand = shared.in_hand(shared.spawners_count.load(Ordering::SeqCst));
    if in_hand.contains(&0) {
        shared.is_watched.store(false, Ordering::SeqCst);
        return None;
    }
    if before.is_some_and(|before| before == in_hand) {
        // Without another thread things stay as they are.
        shared.add_spawners(in_hand.len());
    }
    Some(in_hand)
}

/// Makes a plain background process of a fork of the worker.
fn prepare(keep: &[RawFd]) {
    // SAFETY: system calls on this process with valid arguments; no other thread exists yet.
    unsafe {
        // A group of its own: what kills the worker's group leaves the launcher to clean up.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"hq-launcher".as_ptr());
        // Everything is blocked for good, and nothing is ignored or handled: tasks then start with the
        // default of every signal and only have to clear the mask.
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        // The system call itself: the library keeps some signals to itself, and one that was ignored by
        // whoever started the worker would stay so. Zero is the default with no flags.
        let default = [0u64; 8];
        let nowhere = std::ptr::null_mut::<u64>();
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nowhere, 8usize);
        }
        // Tasks inherit 0, 1 and 2; a new output file takes the place of 1 or 2.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
    }
    close_others(keep);
    // SAFETY: as above.
    unsafe { libc::chdir(c"/".as_ptr()) };
}

fn close_others(keep: &[RawFd]) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok())).collect();
    for fd in open {
        if fd > 2 && !keep.contains(&fd) {
            // SAFETY: a fork of the worker before its start owns nothing but what is kept.
            unsafe { libc::close(fd) };
        }
    }
}

/// The error number of the last system call of this thread.
pub(super) fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sends bytes as one packet; waits while the worker's buffer is full.
pub(super) fn send(shared: &Shared, bytes: &[u8]) {
    loop {
        // SAFETY: pointer and length describe `bytes`.
        let sent = unsafe {
            libc::send(shared.orders.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        // Otherwise the worker is gone, which the control thread sees too.
        if sent >= 0 || last_error() != libc::EINTR {
            return;
        }
    }
}

/// A table of pointers to the base environment.
#[derive(Debug)]
pub(super) struct BasePointers(pub(super) Vec<*const c_char>);

impl BasePointers {
    pub(super) fn new(shared: &'static Shared) -> Self {
        BasePointers(shared.environment.iter().map(|v| v.as_ptr()).collect())
    }
}
