//! Writes a capture of what this release says: messages of every kind, and records of the journal. Each release
//! commits one to `tests/compat`, where later ones must be able to read it.
//!
//! `cargo run -p hq-proto --features testing --example capture > tests/compat/protocol-VERSION.bin`

use std::io::{self, Write};

use hq_proto::testing as any_valid;
use hq_proto::{
    encode_client_request, encode_client_response, encode_from_worker, encode_record, encode_to_worker,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// Messages of each kind.
const COUNT: u64 = 60;

fn main() -> io::Result<()> {
    let mut runner = TestRunner::deterministic();
    let mut out = io::stdout().lock();
    for number in 0..COUNT {
        let request = draw(&mut runner, any_valid::client_request());
        frame(&mut out, b'q', &encode_client_request(number, &request))?;
        let answer = draw(&mut runner, any_valid::client_response());
        frame(&mut out, b'a', &encode_client_response(number, &answer))?;
        frame(&mut out, b'w', &encode_to_worker(&draw(&mut runner, any_valid::to_worker())))?;
        frame(&mut out, b'f', &encode_from_worker(&draw(&mut runner, any_valid::from_worker())))?;
        let at = draw(&mut runner, any_valid::timestamp());
        frame(&mut out, b'r', &encode_record(at, &draw(&mut runner, any_valid::record())))?;
    }
    Ok(())
}

fn draw<S: Strategy>(runner: &mut TestRunner, strategy: S) -> S::Value {
    strategy.new_tree(runner).expect("no value is refused").current()
}

// A letter for the kind, the length in four bytes, lowest first, and the bytes.
fn frame(out: &mut dyn Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&[kind])?;
    out.write_all(&u32::try_from(bytes.len()).map_err(io::Error::other)?.to_le_bytes())?;
    out.write_all(bytes)
}
