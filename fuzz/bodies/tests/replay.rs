//! Replays the corpora, and small changes of each input, on stable: what a fuzzer once found stays found.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use hq_fuzz::TARGETS;

/// Changes tried per input.
const CHANGES: u64 = 2000;

#[test]
fn nothing_in_the_corpora_breaks_a_rule() {
    for (name, target) in TARGETS {
        for path in entries(&corpus().join(name)) {
            let bytes = fs::read(&path).expect("a readable input");
            for change in 0..=CHANGES {
                let bytes = changed(&bytes, change);
                let result = panic::catch_unwind(|| target(&bytes));
                assert!(
                    result.is_ok(),
                    "target {name}, input {}, change {change}: {bytes:?}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = |directory: &Path| -> Vec<String> {
        let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        entries(directory).iter().filter_map(stem).collect()
    };
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(found(&corpus()), sorted, "corpora");
    assert_eq!(found(&corpus().join("../fuzz_targets")), sorted, "programs");
    for name in names {
        let inputs = entries(&corpus().join(name)).len();
        assert!(
            inputs > 0,
            "the corpus of {name} is empty: see fuzz/README.md for how to write its first inputs"
        );
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths
}

// The input with some bytes changed, cut off or doubled, depending on `change` alone. 0 changes nothing.
fn changed(bytes: &[u8], change: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut state = change.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    };
    for _ in 0..change.min(4) {
        let at = next(bytes.len());
        match next(4) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << next(8),
            1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'-', b','][next(7)],
            2 => bytes.truncate(at),
            _ => {
                let piece = bytes[at..bytes.len().min(at + next(16))].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}
