//! What is said is understood, whatever it is; what is no message is refused and harms nobody.

use hq_core::measures::MeasuresWriter;
use hq_core::record::{FinishedSpan, Record};
use hq_model::{Entries, IdSet, Instance, JobId, Timestamp, Usage, WorkerId};
use hq_proto::testing as any_valid;
use hq_proto::{
    ProtoError, decode_client_request, decode_client_response, decode_from_worker, decode_hello,
    decode_record, decode_to_worker, encode_client_request, encode_client_response, encode_from_worker,
    encode_record, encode_to_worker, line_of, request_number,
};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests(number: u64, request in any_valid::client_request()) {
        let bytes = encode_client_request(number, &request);
        prop_assert_eq!(request_number(&bytes), Some(number));
        prop_assert_eq!(decode_client_request(&bytes), Ok((number, request)));
    }

    #[test]
    fn answers(number: u64, response in any_valid::client_response()) {
        let bytes = encode_client_response(number, &response);
        prop_assert_eq!(decode_client_response(&bytes), Ok((number, response)));
    }

    #[test]
    fn messages_to_workers(message in any_valid::to_worker()) {
        prop_assert_eq!(decode_to_worker(&encode_to_worker(&message)), Ok(message));
    }

    #[test]
    fn messages_from_workers(message in any_valid::from_worker()) {
        prop_assert_eq!(decode_from_worker(&encode_from_worker(&message)), Ok(message));
    }

    #[test]
    fn records(at in any_valid::timestamp(), record in any_valid::record()) {
        prop_assert_eq!(decode_record(&encode_record(at, &record)), Ok((at, record)));
    }

    #[test]
    fn unknown_fields_do_not_hurt(message in any_valid::to_worker(), field in 10_000..11_000_u32, value: u64) {
        let mut bytes = encode_to_worker(&message);
        prost::encoding::uint64::encode(field, &value, &mut bytes);
        prop_assert_eq!(decode_to_worker(&bytes), Ok(message));
    }

    #[test]
    fn arbitrary_bytes_harm_nobody(bytes in vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    #[test]
    fn damaged_messages_harm_nobody(
        at in any_valid::timestamp(),
        record in any_valid::record(),
        message in any_valid::from_worker(),
        request in any_valid::client_request(),
        place: prop::sample::Index,
        value: u8,
    ) {
        let all = [encode_record(at, &record), encode_from_worker(&message), encode_client_request(1, &request)];
        for mut bytes in all {
            let place = place.index(bytes.len());
            decode_all(&bytes[..place]);
            bytes[place] = value;
            decode_all(&bytes);
        }
    }
}

fn decode_all(bytes: &[u8]) {
    let _ = decode_hello(bytes);
    let _ = decode_client_request(bytes);
    let _ = request_number(bytes);
    let _ = decode_client_response(bytes);
    let _ = decode_to_worker(bytes);
    let _ = decode_from_worker(bytes);
    let _ = line_of(bytes);
    let _ = decode_record(bytes);
}

#[test]
fn records_of_neighbouring_tasks_are_short() {
    let at = Timestamp(1_780_000_000_123_456);
    let ids = IdSet::range(400_001, 400_064);
    let leased = Record::Leased { worker: WorkerId(17), job: JobId(300), ids: ids.clone() };
    assert_eq!(encode_record(at, &leased).len(), 22);

    // The null executor: about 5 µs each, times only.
    let mut writer = MeasuresWriter::new(false);
    for i in 0..64 {
        writer.push(Timestamp(at.0 - 900 + 5 * i), &Usage { wall_us: 5, ..Usage::default() });
    }
    let span = FinishedSpan {
        job: JobId(300),
        instance: Instance(0),
        ids,
        measures: writer.finish(),
        results: Entries::default(),
        variant: None,
    };
    assert_eq!(encode_record(at, &Record::Finished { worker: WorkerId(17), span }).len(), 32 + 2 * 64);
}

#[test]
fn a_record_of_a_later_release_says_whether_it_may_be_skipped() {
    for (number, critical) in [(24, true), (999, true), (1009, false), (70_000, false)] {
        let mut bytes = Vec::new();
        prost::encoding::fixed64::encode(1, &5, &mut bytes);
        prost::encoding::bytes::encode(number, &b"something new".to_vec(), &mut bytes);
        assert_eq!(decode_record(&bytes), Err(ProtoError::UnknownRecord { number, critical }));
    }
    assert!(matches!(decode_record(&[]), Err(ProtoError::Missing { .. })));
}

#[test]
fn records_that_count_together_are_read_again() {
    let at = Timestamp(1_780_000_000_123_456);
    let part = |job| Record::JobClosed { job: JobId(job) };
    let together = Record::Together { records: vec![part(1), part(2)] };
    let bytes = encode_record(at, &together);
    assert_eq!(decode_record(&bytes), Ok((at, together.clone())));
    let nested = encode_record(at, &Record::Together { records: vec![part(1), together] });
    assert!(decode_record(&nested).is_err());
}

#[test]
fn a_message_of_a_later_release_is_named() {
    let mut bytes = Vec::new();
    prost::encoding::uint64::encode(1, &5, &mut bytes);
    prost::encoding::bytes::encode(40, &b"something new".to_vec(), &mut bytes);
    let error = decode_client_request(&bytes).expect_err("no such request");
    insta::assert_snapshot!(error, @"unknown kind 40 of request: it comes from a later release of hq");
    assert_eq!(request_number(&bytes), Some(5), "so it can be answered");
}

#[test]
fn a_record_of_many_tasks_keeps_what_they_used_together() {
    let mut writer = MeasuresWriter::new(true);
    for at in 0..1_000 {
        writer.push(Timestamp(7_000 + at * 3), &Usage { wall_us: at, user_us: 2 * at, ..Usage::default() });
    }
    let (ids, measures) = (IdSet::range(0, 999), writer.finish());
    let span = FinishedSpan {
        job: JobId(1),
        instance: Instance(0),
        ids,
        measures,
        results: Entries::default(),
        variant: None,
    };
    let record = Record::Finished { worker: WorkerId(1), span };
    let at = Timestamp(9_000);
    let bytes = encode_record(at, &record);
    assert_eq!(decode_record(&bytes), Ok((at, record)));
}
