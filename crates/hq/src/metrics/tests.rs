//! Metrics of an example, and a strict reader of the form that they are written in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_core::alloc::messages::{QueueInfo, QueueStatus};
use hq_core::client_messages::{JobSummary, Overview};
use hq_core::overview::{Ended, ResourceUse, ServerProcess, WorkerCounts};
use hq_model::allocation::{NodeTime, QueueParams};
use hq_model::job::Counters;
use hq_model::{Amount, Epoch, JobId, JobState, QueueId, Timestamp};

use super::{Seen, families, format};

fn seen() -> Seen {
    let resource = |name: &str, offered, taken| ResourceUse {
        name: name.into(),
        offered: Amount(offered),
        taken: Amount(taken),
    };
    let overview = Overview {
        change: 7,
        now: Timestamp(1_780_000_100_000_000),
        started: Timestamp(1_780_000_000_500_000),
        epoch: Epoch(3),
        uid: "abc123".into(),
        version: "0.1.0".into(),
        jobs: JobState::ALL.into_iter().zip([1, 2, 3, 4, 5, 6, 7]).collect(),
        tasks: Counters {
            waiting: 900_000,
            running: 64,
            finished: 99_000,
            failed: 936,
            ..Counters::default()
        },
        ready: 800_000,
        ended: Ended { finished: 1_000_000_000_000, failed: 936, restarted: 12, ..Ended::default() },
        workers: WorkerCounts { active: 8, closed: 1, away: 2, idle: 3 },
        resources: vec![resource("cpus", 640_000, 635_000), resource("gpus/amd", 40_000, 0)],
        nodes: crate::render::load::tests::history(Timestamp(1_780_000_100_000_000)).nodes,
        process: ServerProcess {
            memory_bytes: 50 << 20,
            journal_records: 12_345,
            ..ServerProcess::default()
        },
    };
    let name = "evil \"name\"\\ with\nlines \u{1b}[31m and ü".to_owned();
    let job = JobSummary {
        job: JobId(12),
        name,
        is_open: false,
        counters: Counters { waiting: 5, running: 1, ..Counters::default() },
        cancel_reason: None,
        unrunnable: 0,
        fed_end: Default::default(),
        stalled: None,
    };
    let long = JobSummary { job: JobId(13), name: "x".repeat(4096), ..job.clone() };
    let params = QueueParams {
        name: Some("short".into()),
        manager: "slurm".into(),
        time_limit: Duration::from_secs(3600),
        ..QueueParams::default()
    };
    let queue = QueueInfo {
        queue: QueueId(1),
        params,
        status: QueueStatus::Draining,
        added: Timestamp(0),
        known: None,
        counts: [1, 2, 3, 4],
        time: NodeTime { asked_us: 9, used_us: 1_500_000, idle_us: 2_000_000, lost_us: 0 },
        over_budget: None,
    };
    Seen { overview, queues: vec![queue], jobs: vec![job, long] }
}

#[test]
fn an_example() {
    insta::assert_snapshot!(format::text(&families(Some(&seen()))));
}

#[test]
fn without_a_server_it_is_said_that_it_is_not_there() {
    let text = format::text(&families(None));
    assert_eq!(text.lines().nth_back(1), Some("hq_up 0"));
    read(&text).expect("valid text");
}

#[test]
fn what_is_written_is_open_metrics() {
    let text = format::text(&families(Some(&seen())));
    let values = read(&text).expect("valid text");
    assert_eq!(values["hq_tasks_ended_total{outcome=finished}"], 1e12);
    assert_eq!(values["hq_tasks_ended_created{outcome=finished}"], 1_780_000_000.5);
    assert_eq!(values["hq_resource_taken{resource=cpus}"], 63.5);
    assert_eq!(values["hq_queue_node_seconds_total{kind=used,queue=1}"], 1.5);
    assert_eq!(
        values["hq_jobs_left_out"], 4.0,
        "three kinds of jobs have not ended, 6 jobs, two of which are told"
    );
    let evil = "hq_job_tasks{job=12,name=evil \"name\"\\ with\nlines \u{fffd}[31m and ü,state=running}";
    assert_eq!(values.get(evil), Some(&1.0), "{:?}", values.keys());
}

#[test]
fn the_reader_of_these_tests_is_strict() {
    for bad in [
        "",
        "a 1\n# EOF\n",
        "# TYPE a gauge\na 1\n",
        "# TYPE a gauge\na 1\n# EOF\nb 1\n",
        "# TYPE a gauge\n# HELP a x\na 1\na 2\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\nb 1\n# EOF\n",
        "# TYPE a counter\n# HELP a x\na 1\n# EOF\n",
        "# TYPE a counter\n# HELP a x\na_total -1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a seconds\n# HELP a x\na 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\na{b=\"c} 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\na{0=\"c\"} 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\na  1\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\n# EOF\n# EOF\n",
        "# TYPE a gauge\n# HELP a x\na 1\n# TYPE a gauge\n# HELP a x\n# EOF\n",
        "# TYPE 9 gauge\n# HELP 9 x\n9 1\n# EOF\n",
    ] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}

// Reads text by the rules of OpenMetrics 1.0, as far as it may be written here: gauges, counters and infos. Labels are told
// in the order of their names, so that a sample has one name.
fn read(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no end")?;
    let mut values = BTreeMap::new();
    let mut families: BTreeSet<String> = BTreeSet::new();
    let mut family = ("", "");
    for line in body.lines() {
        let fail = |what: &str| format!("{what}: {line}");
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (kind, name, rest) = (
                words.next().unwrap_or_default(),
                words.next().ok_or_else(|| fail("no name"))?,
                words.next(),
            );
            let rest = rest.filter(|rest| !rest.is_empty()).ok_or_else(|| fail("no text"))?;
            match kind {
                "TYPE" => {
                    if !["gauge", "counter", "info"].contains(&rest) || !is_name(name) {
                        return Err(fail("a bad type or name"));
                    }
                    if !families.insert(name.to_owned()) {
                        return Err(fail("a family comes twice"));
                    }
                    family = (name, rest);
                }
                "UNIT" if family.0 == name && name.ends_with(&format!("_{rest}")) && family.1 != "info" => {}
                "HELP" if family.0 == name => {}
                _ => return Err(fail("a bad comment")),
            }
            continue;
        }
        let end = line.find(['{', ' ']).ok_or_else(|| fail("no value"))?;
        let (name, mut rest) = line.split_at(end);
        let endings: &[&str] = match family.1 {
            "gauge" => &[""],
            "counter" => &["_total", "_created"],
            "info" => &["_info"],
            _ => return Err(fail("no type before it")),
        };
        if !endings.iter().any(|ending| name == format!("{}{ending}", family.0)) {
            return Err(fail("a sample of another family"));
        }
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = read_labels(inner, &mut labels).ok_or_else(|| fail("bad labels"))?;
        }
        let number = rest.strip_prefix(' ').ok_or_else(|| fail("no value"))?;
        let value: f64 = number.parse().map_err(|_| fail("no number"))?;
        if family.1 == "counter" && value < 0.0 || family.1 == "info" && value != 1.0 {
            return Err(fail("a value that cannot be"));
        }
        let labels: Vec<String> = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let sample =
            if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) };
        if values.insert(sample, value).is_some() {
            return Err(fail("a sample comes twice"));
        }
    }
    Ok(values)
}

fn is_name(name: &str) -> bool {
    let is_first = |char: char| char.is_ascii_alphabetic() || char == '_' || char == ':';
    name.starts_with(is_first) && name.chars().all(|char| is_first(char) || char.is_ascii_digit())
}

// What follows the closing brace.
fn read_labels<'a>(mut rest: &'a str, labels: &mut BTreeMap<String, String>) -> Option<&'a str> {
    loop {
        let (name, after) = rest.split_once("=\"")?;
        if !is_name(name) {
            return None;
        }
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (place, '"') => break place,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    char @ ('\\' | '"') => char,
                    _ => return None,
                }),
                (_, char) => value.push(char),
            }
        };
        if labels.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.strip_prefix('}'),
        }
    }
}
