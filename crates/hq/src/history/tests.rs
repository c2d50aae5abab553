//! What the page of a report is told, from records as a server writes them.

use std::sync::Arc;
use std::time::Duration;

use hq_core::measures::MeasuresWriter;
use hq_core::record::{FailureKind, FinishedSpan, RestartCause};
use hq_model::dependency::{After, Condition, Edges, Mapping};
use hq_model::worker::WorkerConfig;
use hq_model::{Dependencies, Entries, Epoch, IdSet, Instance, JobSpec, TaskSpec};
use serde_json::{Value, json};

use super::bars::{Bar, Timeline, text_of, unit_us};
use super::columns::Columns;
use super::*;
use crate::accounts::{Attempt, Part};
use crate::render::tests::spec;

const SECOND: u64 = 1_000_000;

fn at(second: u64) -> Timestamp {
    Timestamp((1000 + second) * SECOND)
}

struct Journal(History);

impl Journal {
    fn new() -> Journal {
        Journal::of(None, None)
    }

    fn of(from: Option<u64>, to: Option<u64>) -> Journal {
        let after = |seconds| When::After(Duration::from_secs(seconds));
        Journal::between(from.map(after), to.map(after))
    }

    fn between(from: Option<When>, to: Option<When>) -> Journal {
        let mut journal = Journal(History::of(from, to));
        let (uid, release) = ("a1B2c3".into(), "1".into());
        journal.take(0, &Record::ServerStarted { epoch: Epoch(1), uid, release });
        journal
    }

    fn take(&mut self, second: u64, record: &Record) -> &mut Journal {
        self.0.take(at(second), record);
        self
    }

    fn worker(&mut self, id: u32, cpus: u32) -> &mut Journal {
        let hostname = format!("node{id}");
        let config = WorkerConfig { hostname, ..WorkerConfig::new(WorkerResources::cpus(cpus)) };
        self.take(0, &Record::WorkerJoined { worker: WorkerId(id), config: Box::new(config), secret: None })
    }

    fn submit(&mut self, second: u64, job: u32, tasks: u32, dependencies: Dependencies) -> &mut Journal {
        let record = Record::Submitted {
            job: JobId(job),
            key: 0,
            spec: Some(JobSpec { name: format!("job {job}"), ..JobSpec::default() }),
            ids: IdSet::range(1, tasks),
            entries: Entries::default(),
            entries_gone: Default::default(),
            keys: Entries::default(),
            dependencies: Arc::new(dependencies),
            task: Arc::new(TaskSpec { requests: Vec::new(), ..spec() }),
            submit_dir: b"/".to_vec(),
        };
        self.take(second, &record)
    }

    fn lease(&mut self, second: u64, worker: u32, job: u32, task: u32) -> &mut Journal {
        let (worker, job, ids) = (WorkerId(worker), JobId(job), IdSet::range(task, task));
        self.take(second, &Record::Leased { worker, job, ids })
    }

    // Is handed out when it starts.
    fn ran(&mut self, worker: u32, (job, task): (u32, u32), start: u64, end: u64) -> &mut Journal {
        let mut measures = MeasuresWriter::new(false);
        measures.push(at(start), &Usage { wall_us: (end - start) * SECOND, ..Usage::default() });
        let span = FinishedSpan {
            variant: None,
            job: JobId(job),
            instance: Instance(0),
            ids: IdSet::single(TaskId(task)),
            measures: measures.finish(),
            results: Entries::default(),
        };
        let finished = Record::Finished { worker: WorkerId(worker), span };
        self.lease(start, worker, job, task).take(end, &finished)
    }

    fn failed(
        &mut self,
        worker: u32,
        (job, task): (u32, u32),
        start: u64,
        end: u64,
        error: &str,
    ) -> &mut Journal {
        let failure = Failure {
            variant: None,
            task: TaskId(task),
            instance: Instance(0),
            worker: Some(WorkerId(worker)),
            kind: FailureKind::Exit(1),
            error: error.to_owned(),
            started: Some(at(start)),
            usage: Usage { wall_us: (end - start) * SECOND, ..Usage::default() },
            nodes: Vec::new(),
            result: Vec::new(),
        };
        self.lease(start, worker, job, task).take(end, &Record::Failed { job: JobId(job), failure })
    }

    fn document(self) -> Value {
        self.0.close().expect("something").document()
    }
}

fn after(job: u32, mapping: Mapping, tasks: Option<IdSet>) -> Dependencies {
    let condition = Condition::default();
    let after = vec![After { job: JobId(job), tasks, key: None, condition, mapping }];
    Dependencies { after, ..Dependencies::default() }
}

#[test]
fn a_report_of_nothing_says_so() {
    let document = Journal::new().document();
    assert_eq!(document["totals"]["attempts"], json!({"finished": 0, "failed": 0, "lost": 0}));
    assert_eq!((&document["workers"], &document["path"]["links"]), (&json!([]), &json!([])));
    assert_eq!(document["waits"]["quantiles_us"], json!([null, null, null, null, null]));
}

#[test]
fn workers_jobs_and_causes_are_counted() {
    let mut journal = Journal::new();
    journal.worker(1, 1).worker(2, 2).submit(1, 1, 4, Dependencies::default());
    journal.ran(1, (1, 1), 2, 6).ran(2, (1, 2), 2, 4);
    journal.failed(2, (1, 3), 4, 5, "no such ligand: 17").failed(2, (1, 4), 5, 8, "no such ligand: 18");
    let document = journal.document();
    assert_eq!(document["span_us"], 8 * SECOND);
    assert_eq!(document["totals"]["attempts"], json!({"finished": 2, "failed": 2, "lost": 0}));
    let workers: Vec<_> = document["workers"].as_array().expect("workers").iter().collect();
    let told = |worker: &Value| {
        ["id", "host", "cpus", "lanes", "work"].map(|name| worker[name].to_string()).join(" ")
    };
    assert_eq!([told(workers[0]), told(workers[1])], [r#"1 "node1" 1.0 1 0.5"#, r#"2 "node2" 2.0 1 0.125"#]);
    assert_eq!(workers[1]["attempts"], json!({"finished": 1, "failed": 2, "lost": 0}));
    let causes = &document["failures"]["causes"];
    assert_eq!(causes[0]["text"], "no such ligand: #");
    assert_eq!((&causes[0]["count"], &causes[0]["first"], &causes[1]), (&json!(2), &json!(3), &Value::Null));
    assert_eq!(document["failures"]["list"][1]["error"], "no such ligand: 18");
    let job = &document["jobs"]["rows"][0];
    assert_eq!((&job["finished"], &job["failed"], &job["cpu_seconds"]), (&json!(2), &json!(2), &json!(10.0)));
    assert_eq!(job["wait_us"], SECOND, "of 1, 1, 3 and 4 seconds the second one");
}

#[test]
fn a_part_of_the_time_leaves_out_the_rest() {
    let mut journal = Journal::of(Some(3), Some(6));
    journal.worker(1, 1).submit(0, 1, 3, Dependencies::default());
    journal.ran(1, (1, 1), 0, 2).failed(1, (1, 2), 2, 4, "broken").failed(1, (1, 3), 7, 8, "broken");
    let document = journal.document();
    assert_eq!((&document["from_us"], &document["span_us"]), (&json!(at(3).0), &json!(3 * SECOND)));
    assert_eq!(document["totals"]["attempts"], json!({"finished": 0, "failed": 1, "lost": 0}));
    assert_eq!(document["failures"]["total"], 1);
    let nothing = [(Some(20), None), (Some(6), Some(3))].map(|(from, to)| {
        let mut journal = Journal::of(from, to);
        journal.worker(1, 1).submit(9, 1, 1, Dependencies::default());
        journal.0.close().err()
    });
    assert_eq!(nothing, [Some((at(0), at(9))); 2]);
    let moments = |from, to| {
        let mut journal = Journal::between(Some(When::At(from)), Some(When::At(to)));
        journal.worker(1, 1).submit(9, 1, 1, Dependencies::default());
        journal
            .0
            .close()
            .map(|mut past| past.document())
            .map(|past| (past["from_us"].clone(), past["span_us"].clone()))
    };
    assert_eq!(moments(at(3), at(6)), Ok((json!(at(3).0), json!(3 * SECOND))));
    assert_eq!(moments(Timestamp(0), at(6)), Ok((json!(at(0).0), json!(6 * SECOND))), "it begins later");
    assert_eq!(moments(Timestamp(0), Timestamp(1)), Err((at(0), at(9))), "that was before");
}

// Job, task, when it could start, when it started and when it ended, in seconds.
fn path(document: &Value) -> Vec<[u64; 5]> {
    let links = document["path"]["links"].as_array().expect("links");
    let number = |value: &Value, scale| value.as_u64().expect("a number") / scale;
    links
        .iter()
        .map(|link| {
            let [ready, start, end] =
                ["ready_us", "start_us", "end_us"].map(|name| number(&link[name], SECOND));
            [number(&link["job"], 1), number(&link["task"], 1), ready, start, end]
        })
        .collect()
}

#[test]
fn the_critical_path_is_what_each_waited_for_last() {
    let mut journal = Journal::new();
    let edges = Edges::new([vec![], vec![TaskId(1)], vec![TaskId(1), TaskId(2)]]).expect("edges");
    journal.worker(1, 2);
    journal.submit(0, 1, 3, Dependencies { edges, ..Dependencies::default() });
    journal.submit(0, 2, 2, after(1, Mapping::All, None));
    journal.submit(0, 3, 2, after(2, Mapping::Window(0), Some(IdSet::range(1, 2))));
    journal.ran(1, (1, 1), 1, 3).ran(1, (1, 2), 4, 6).ran(1, (1, 3), 6, 7);
    journal.ran(1, (2, 1), 7, 20).ran(1, (2, 2), 8, 19);
    journal.ran(1, (3, 1), 20, 21).ran(1, (3, 2), 21, 25);
    let document = journal.document();
    let expected = [[1, 1, 0, 1, 3], [1, 2, 3, 4, 6], [1, 3, 6, 6, 7], [2, 2, 7, 8, 19], [3, 2, 19, 21, 25]];
    assert_eq!(path(&document), expected);
    let told = ["tasks", "ran_us", "waited_us"].map(|name| document["path"][name].clone());
    assert_eq!(told, [json!(5), json!(20 * SECOND), json!(5 * SECOND)]);
}

#[test]
fn attempts_before_the_last_one_belong_to_their_task_in_the_path() {
    let mut journal = Journal::new();
    journal.worker(1, 1).submit(0, 1, 1, Dependencies::default()).lease(1, 1, 1, 1);
    let (job, ids, instance) = (JobId(1), IdSet::range(1, 1), Instance(1));
    journal.take(4, &Record::Restarted { job, ids, instance, cause: RestartCause::Crash });
    let document = journal_after(journal);
    assert_eq!(path(&document), [[1, 1, 0, 1, 9]]);
    let link = &document["path"]["links"][0];
    assert_eq!((&link["attempts"], &link["last_start_us"]), (&json!(2), &json!(6 * SECOND)));
    assert_eq!(document["waits"]["quantiles_us"][0], 2 * SECOND, "from the end of the lost attempt");
    assert_eq!(document["totals"]["restarts"], 1);
}

fn journal_after(mut journal: Journal) -> Value {
    journal.ran(1, (1, 1), 6, 9);
    journal.document()
}

#[test]
fn waits_are_counted_from_the_moment_when_a_task_could_start() {
    let mut journal = Journal::new();
    journal.worker(1, 1).submit(0, 1, 1, Dependencies::default());
    journal.submit(0, 2, 1, after(1, Mapping::All, None));
    journal.ran(1, (1, 1), 5, 10).ran(1, (2, 1), 12, 13);
    let document = journal.document();
    assert_eq!(
        document["waits"]["quantiles_us"],
        json!([2_000_000, 2_000_000, 2_000_000, 2_000_000, 5_000_000])
    );
    let steps = document["waits"]["steps"].as_array().expect("steps");
    let filled: Vec<_> = steps.iter().filter(|step| step[1] != 0).collect();
    assert_eq!(filled, [&json!([3_000_000, 1]), &json!([10_000_000, 1])]);
}

#[test]
fn what_runs_waits_and_is_offered_is_averaged_over_columns() {
    let mut columns = Columns::new(at(0), at(10), 5);
    for (start, end, weight) in [(0, 10, 1.0), (1, 3, 4.0), (2, 4, 2.0), (3, 3, 9.0)] {
        columns.add(at(start), at(end), weight);
    }
    columns.add(Timestamp(0), at(1), 6.0);
    assert_eq!(columns.averages(), [6.0, 5.0, 1.0, 1.0, 1.0]);

    let mut journal = Journal::new();
    journal.worker(1, 2).submit(0, 1, 3, Dependencies::default()).submit(
        0,
        2,
        1,
        after(1, Mapping::All, None),
    );
    journal.ran(1, (1, 1), 0, 10).ran(1, (1, 2), 0, 5).ran(1, (1, 3), 5, 10).ran(1, (2, 1), 10, 20);
    let document = journal.document();
    let over_time = |name: &str| {
        let all = document["over_time"][name].as_array().expect("columns");
        [all[100].clone(), all[700].clone(), all[1500].clone()]
    };
    assert_eq!(over_time("running"), [json!(2.0), json!(2.0), json!(1.0)]);
    assert_eq!(over_time("cpus_offered"), [json!(2.0), json!(2.0), json!(2.0)]);
    assert_eq!(over_time("ready"), [json!(1.0), json!(0.0), json!(0.0)]);
    assert_eq!(over_time("blocked"), [json!(1.0), json!(1.0), json!(0.0)]);
}

fn attempt(worker: u32, task: u32, start_us: u64, end_us: u64, part: Part) -> Attempt {
    let (start, end) = (Timestamp(start_us), Timestamp(end_us));
    Attempt {
        worker: WorkerId(worker),
        job: JobId(1),
        task: TaskId(task),
        part,
        leased: start,
        start,
        end,
        leads: true,
    }
}

fn timeline(attempts: &[Attempt], bars_max: usize) -> Timeline {
    let mut lanes = Lanes::default();
    let lanes: Vec<u32> = attempts.iter().map(|attempt| lanes.lane(attempt)).collect();
    Timeline::new(attempts, &lanes, 1_000_000, bars_max)
}

#[test]
fn each_attempt_has_a_bar_and_what_runs_beside_another_a_lane() {
    let attempts = [
        attempt(1, 1, 0, 10, Part::Work),
        attempt(1, 2, 5, 20, Part::Failed),
        attempt(1, 3, 10, 30, Part::Lost),
        attempt(2, 4, 0, 40, Part::Work),
    ];
    let timeline = timeline(&attempts, 100);
    assert_eq!((timeline.resolution_us, timeline.left_out, timeline.bars()), (0, 0, 4));
    let lanes = &timeline.workers[&WorkerId(1)];
    assert_eq!(lanes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    // Two bars: 0 to 10, one that finished, of job 1 and task 1; 10 to 30, one that was lost. One bar: 5 to 20, failed.
    assert_eq!(text_of(lanes, Timestamp(0), 1), "CAKCCCAUDABAEBFPDBAAD");
    assert_eq!(text_of(&timeline.workers[&WorkerId(2)], Timestamp(0), 10), "BAECCI");
}

#[test]
fn many_attempts_are_one_bar_of_which_everything_is_counted() {
    let part = |task: u32| if task.is_multiple_of(10) { Part::Failed } else { Part::Work };
    let attempts: Vec<Attempt> = (0..1000)
        .map(|task| attempt(1, task, u64::from(task) * 1000, u64::from(task) * 1000 + 900, part(task)))
        .collect();
    let timeline = timeline(&attempts, 100);
    let bars = &timeline.workers[&WorkerId(1)][0];
    assert!((50..=100).contains(&bars.len()), "{}", bars.len());
    assert!(bars.iter().all(|bar| bar.end.0 - bar.start.0 <= timeline.resolution_us));
    let sum = |of: fn(&Bar) -> u64| bars.iter().map(of).sum::<u64>();
    assert_eq!((sum(|bar| bar.count.into()), sum(|bar| bar.failed.into())), (1000, 100));
    assert_eq!(sum(|bar| bar.busy_us), 900_000);
    assert!(bars.windows(2).all(|pair| pair[0].end <= pair[1].start));
}

#[test]
fn lanes_for_which_there_is_no_room_are_counted() {
    let attempts: Vec<Attempt> = (0..50).map(|task| attempt(1, task, 0, 1_000_000, Part::Work)).collect();
    let timeline = timeline(&attempts, 20);
    assert_eq!((timeline.bars(), timeline.left_out), (20, 30));
}

#[test]
fn nobody_sees_how_long_a_unit_of_time_is() {
    let day = 86_400 * SECOND;
    assert_eq!(
        [SECOND, 100 * SECOND, 101 * SECOND, day, 365 * day].map(unit_us),
        [1, 1, 10, 1_000, 1_000_000]
    );
}
