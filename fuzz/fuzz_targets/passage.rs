#![no_main]
//! Hands the fuzzer's bytes to `hq_fuzz::passage`, which says what must hold.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hq_fuzz::passage(bytes));
