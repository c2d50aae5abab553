//! A job file takes little more memory than its tasks differ: counted by an allocator.

// An allocator cannot be written without.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hq_client::options::{PreparedFile, prepare_file};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let before = IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        MOST.fetch_max(before + layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: usize = 50_000;

// Bytes that a task took at most while such a file was read.
fn bytes_per_task(task: impl Fn(usize) -> String) -> (PreparedFile, usize) {
    let content: String = (0..TASKS).map(task).collect();
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let file = prepare_file(Path::new("job.toml"), &content, None, b"/home/someone").expect("a job");
    let most = MOST.load(Ordering::Relaxed) - before;
    (file, most / TASKS)
}

// One test: others beside it would be counted, too.
#[test]
fn a_task_of_a_job_file_takes_little_memory() {
    let (file, bytes) = bytes_per_task(|_| "[[task]]\ncommand = [\"./score\", \"%{TASK_ID}\"]\n".to_owned());
    assert_eq!(file.submits.len(), 1);
    assert!(bytes < 400, "{bytes} bytes for each of equal tasks");
    let (file, bytes) = bytes_per_task(|task| format!("[[task]]\ncommand = [\"./score\", \"{task}\"]\n"));
    assert_eq!(file.submits.len(), TASKS);
    assert!(bytes < 3_000, "{bytes} bytes for each of tasks that differ");
}
