//! What who hears of jobs alone is told of tasks.

use hq_core::client_messages::{EventFilter, EventKind};
use hq_core::measures::MeasuresWriter;
use hq_core::record::{FinishedSpan, Record};
use hq_model::{Entries, IdSet, Instance, JobId, Timestamp, Usage, WorkerId};
use hq_proto::{decode_record, encode_record};

#[test]
fn ends_without_times_arrive_however_few_they_are() {
    let filter = EventFilter { jobs: None, kinds: vec![EventKind::Job] };
    for count in [1, 255, 256, 1_000_000] {
        let mut writer = MeasuresWriter::new(true);
        (0..count).for_each(|_| writer.push(Timestamp(7), &Usage::default()));
        let span = FinishedSpan {
            job: JobId(3),
            instance: Instance(0),
            ids: IdSet::range(0, count - 1),
            measures: writer.finish(),
            results: Entries::default(),
            variant: None,
        };
        let record = Record::Finished { worker: WorkerId(1), span };
        let told = filter.part(&record).expect("an end").into_owned();
        let bytes = encode_record(Timestamp(9), &told);
        assert!(bytes.len() < 100, "{}", bytes.len());
        let (at, heard) = decode_record(&bytes).expect("a record");
        let Record::Finished { span, .. } = &heard else { panic!("{heard:?}") };
        assert_eq!((at, span.ids.len(), span.measures.iter().count()), (Timestamp(9), u64::from(count), 0));
    }
}
