//! Replays the corpora, and small changes of each input, on stable: what a fuzzer once found stays found.

use std::fs;
use std::panic;
use std::path::Path;

use hq_fuzz::TARGETS;

/// Changes tried per input.
const CHANGES: u64 = 40;

#[test]
fn nothing_in_the_corpora_breaks_a_rule() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    for (name, target) in TARGETS {
        let mut inputs = Vec::new();
        for entry in fs::read_dir(corpus.join(name)).expect("every target has a corpus") {
            let path = entry.expect("a readable directory").path();
            inputs.push((fs::read(&path).expect("a readable input"), path));
        }
        inputs.sort();
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for (bytes, path) in inputs {
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
