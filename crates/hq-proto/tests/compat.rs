//! What earlier releases said is understood: captures of `tests/compat`, one a release.

use std::fs;
use std::path::Path;

use hq_proto::{
    decode_client_request, decode_client_response, decode_from_worker, decode_record, decode_to_worker,
    encode_client_request, encode_client_response, encode_from_worker, encode_record, encode_to_worker,
};

#[test]
fn every_capture_is_understood_and_says_the_same_again() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let mut captures = 0;
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let frames = read(&fs::read(&path).expect("a file"), &path);
            assert!(frames >= 300, "{} has {frames} messages", path.display());
            captures += 1;
        }
    }
    assert!(captures > 0, "there is a capture of each release");
}

fn read(mut bytes: &[u8], path: &Path) -> usize {
    let mut frames = 0;
    while let Some((&kind, rest)) = bytes.split_first() {
        let (length, rest) = rest.split_first_chunk::<4>().expect("a length");
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        // What was understood can be said again, and is understood as the same.
        let again = match kind {
            b'q' => decode_client_request(frame).map(|(number, body)| {
                let again = encode_client_request(number, &body);
                decode_client_request(&again) == Ok((number, body))
            }),
            b'a' => decode_client_response(frame).map(|(number, body)| {
                let again = encode_client_response(number, &body);
                decode_client_response(&again) == Ok((number, body))
            }),
            b'w' => decode_to_worker(frame).map(|m| decode_to_worker(&encode_to_worker(&m)) == Ok(m)),
            b'f' => decode_from_worker(frame).map(|m| decode_from_worker(&encode_from_worker(&m)) == Ok(m)),
            b'r' => decode_record(frame).map(|(at, record)| {
                let again = encode_record(at, &record);
                decode_record(&again) == Ok((at, record))
            }),
            other => panic!("{}: frame {frames} is of kind {other}", path.display()),
        };
        assert_eq!(again, Ok(true), "{}: frame {frames} of kind {}", path.display(), char::from(kind));
        bytes = rest;
        frames += 1;
    }
    frames
}
