//! What is in stream files, of each attempt.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hq_stream::{Channel, Content, Fault, StreamFile};

/// What an attempt printed on its two channels, and how often it was told that each is complete.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ends: [u32; 2],
}

impl Printed {
    pub(crate) fn new(stdout: &str, stderr: &str, ends: [u32; 2]) -> Printed {
        Printed { stdout: stdout.to_owned(), stderr: stderr.to_owned(), ends }
    }
}

/// Everything in some files, by job, task and instance.
pub(crate) fn read(files: impl IntoIterator<Item = PathBuf>) -> BTreeMap<(u32, u32, u32), Printed> {
    let mut all: BTreeMap<(u32, u32, u32), Printed> = BTreeMap::new();
    for path in files {
        let mut scan = StreamFile::open(&path).expect("a stream file").scan();
        while let Some(block) = scan.next_block().expect("a block") {
            for entry in block.entries() {
                let task = entry.attempt.task;
                let of = all.entry((task.job.0, task.task.0, entry.attempt.instance.0)).or_default();
                match entry.content {
                    Content::Bytes(Channel::Stdout, bytes) => of.stdout += &String::from_utf8_lossy(bytes),
                    Content::Bytes(Channel::Stderr, bytes) => of.stderr += &String::from_utf8_lossy(bytes),
                    Content::End { stdout, stderr } => {
                        of.ends[0] += u32::from(stdout);
                        of.ends[1] += u32::from(stderr);
                    }
                    // Told with the faults.
                    Content::Lost(..) => {}
                }
            }
        }
        let damaged =
            scan.faults().iter().find(|fault| matches!(fault, Fault::Damaged { .. } | Fault::Lost { .. }));
        assert_eq!(damaged, None, "{}", path.display());
    }
    all
}
