//! How objects look.

use std::collections::VecDeque;

use hq_core::object_messages::{ObjectCopy, ObjectEnd, ObjectState, ObjectView};
use hq_core::worker_messages::TaskNode;
use hq_model::ObjectId;

use super::*;
use crate::objects::{ObjectPages, ObjectStream};
use crate::report::{ObjectDetails, ObjectGot, ObjectList, ObjectPut, ObjectsDone, ObjectsGot};

fn id(text: &str) -> ObjectId {
    text.parse().expect(text)
}

fn holder(worker: u32) -> TaskNode {
    let (hostname, address) = (format!("node{worker}"), format!("10.0.0.{worker}:4000"));
    TaskNode { worker: WorkerId(worker), hostname, address }
}

fn awaited(text: &str) -> ObjectView {
    ObjectView {
        copy: ObjectCopy { object: id(text), instance: Instance(0), size: 0, checksum: 0, is_dir: false },
        state: ObjectState::Awaited,
        copies: 0,
        holders: Vec::new(),
        is_kept: false,
        reader_count: 1,
        readers: vec![JobId(2)],
    }
}

fn stored(text: &str, size: u64, workers: &[u32]) -> ObjectView {
    ObjectView {
        copy: ObjectCopy { object: id(text), instance: Instance(1), size, checksum: 0xfeed, is_dir: false },
        state: ObjectState::Stored,
        copies: workers.len() as u64,
        holders: workers.iter().map(|worker| holder(*worker)).collect(),
        reader_count: 0,
        readers: Vec::new(),
        ..awaited(text)
    }
}

fn in_each_state() -> Vec<ObjectView> {
    let lost = "it was last on worker 1 (node1), which is gone".to_owned();
    let never = "task 1@5 failed, and left nothing".to_owned();
    vec![
        awaited("1@0:parts"),
        stored("1@1:parts", 7, &[1]),
        ObjectView {
            is_kept: true,
            copies: 9,
            reader_count: 70,
            readers: (2..=4).map(JobId).collect(),
            ..stored("1@2:parts", 5_000_000, &[1, 2])
        },
        stored("1@3:parts", 1 << 40, &[]),
        ObjectView { state: ObjectState::Gone(ObjectEnd::Dropped), ..stored("1@4:parts", 7, &[]) },
        ObjectView { state: ObjectState::Gone(ObjectEnd::Lost(lost)), ..stored("1@4:z", 7, &[]) },
        ObjectView {
            state: ObjectState::Gone(ObjectEnd::Lost(never)),
            reader_count: 0,
            readers: Vec::new(),
            ..awaited("1@5:parts")
        },
    ]
}

struct Given(VecDeque<Vec<ObjectView>>);

impl ObjectPages for Given {
    fn next_page(&mut self) -> Result<Option<Vec<ObjectView>>, HqError> {
        Ok(self.0.pop_front())
    }
}

fn list(pages: Vec<Vec<ObjectView>>) -> ObjectList {
    ObjectList(ObjectStream::begin(Given(pages.into())).expect("pages"))
}

#[test]
fn lists_of_objects() {
    let pages = || {
        let mut all = in_each_state();
        let last = all.split_off(3);
        vec![all, Vec::new(), last]
    };
    insta::assert_snapshot!("object_list_empty", show(&mut list(Vec::new())));
    insta::assert_snapshot!("object_list_one", show(&mut list(vec![vec![stored("1@1:parts", 7, &[1])]])));
    insta::assert_snapshot!("object_list", show(&mut list(pages())));
    insta::assert_snapshot!("object_list_json", json(&mut list(pages())));
    insta::assert_snapshot!("object_list_empty_json", json(&mut list(Vec::new())));
    insta::assert_snapshot!("object_list_quiet", quiet(&mut list(pages())));
}

#[test]
fn all_about_objects() {
    insta::assert_snapshot!("object_info", show(&mut ObjectDetails(in_each_state())));
    insta::assert_snapshot!("object_info_json", json(&mut ObjectDetails(in_each_state().split_off(4))));
    insta::assert_snapshot!("object_info_quiet", quiet(&mut ObjectDetails(in_each_state())));
}

#[test]
fn what_was_done_with_objects() {
    let mut done = ObjectsDone { objects: vec![id("1@0:a"), id("1@1:a")], done: "kept" };
    assert_eq!(show(&mut done), "Object 1@0:a kept\nObject 1@1:a kept\n");
    let document: serde_json::Value = serde_json::from_str(&json(&mut done)).expect("JSON");
    assert_eq!(document, serde_json::json!({ "kept": ["1@0:a", "1@1:a"], "schema_version": 1 }));
    assert_eq!(quiet(&mut done), "");
    let mut got =
        ObjectGot { copy: stored("1@1:parts", 5_000, &[1]).copy, path: Some("/w/parts.bin".into()) };
    insta::assert_snapshot!("object_got", format!("{}{}", show(&mut got), json(&mut got)));
    assert_eq!(quiet(&mut got), "");
    let got =
        |id: &str, path: &str| ObjectGot { copy: stored(id, 5_000, &[1]).copy, path: Some(path.into()) };
    let mut several = ObjectsGot(vec![got("1@1:parts", "/w/1/parts"), got("1@2:parts", "/w/2/parts")]);
    insta::assert_snapshot!("objects_got", format!("{}{}", show(&mut several), json(&mut several)));
    let mut put = ObjectPut(ObjectView { is_kept: true, ..stored("1@0:reads.fq", 12 << 20, &[3]) });
    insta::assert_snapshot!("object_put", format!("{}{}{}", show(&mut put), quiet(&mut put), json(&mut put)));
}

#[test]
fn long_names_and_reasons_fit_the_terminal() {
    let long = || {
        let words = "a store needed room ".repeat(30);
        let name = format!("1@0:{}", "n".repeat(255));
        let gone = ObjectView { state: ObjectState::Gone(ObjectEnd::Lost(words)), ..stored(&name, 7, &[]) };
        vec![gone, stored("1@1:parts", 5_000_000, &[1, 2])]
    };
    let fits = |report: &mut dyn Report, width: usize| {
        let mut out = Vec::new();
        report.cli(&mut out, Style { width: Some(width), ..Style::default() }).expect("shown");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.matches('n').count() >= 255, "all of the name is shown: {text}");
    };
    for width in [60, 80, 120] {
        fits(&mut list(vec![long()]), width);
        fits(&mut ObjectDetails(long()), width);
    }
}
