#![no_main]
//! Hands the fuzzer's bytes to `hq_fuzz::pull_frame`, which says what must hold.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hq_fuzz::pull_frame(bytes));
