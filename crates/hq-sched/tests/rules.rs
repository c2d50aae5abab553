//! The rules of planning, as examples: each file in `rules/` tells a rule and shows it on workers and tasks.
//!
//! Tables of a file, found by their heading: `Workers`, `Tasks`, perhaps `Shares`, then what is expected: `Plan`, and
//! where they matter `Held` and `Waiting`. Columns that are not there have neutral values.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::amount::UNITS;
use hq_model::{
    Amount, AmountRequest, Policy, PoolKind, Request, ResourcePool, ResourceRequest, WorkerId,
    WorkerResources,
};
use hq_sched::{
    Class, ClassId, End, Options, Plan, PoolFree, ShareGroup, Snapshot, Waiting, Worker, all_free, plan,
};

type Row = BTreeMap<String, String>;

// Tables by heading.
fn tables(text: &str) -> BTreeMap<String, Vec<Row>> {
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let (mut heading, mut columns) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title.trim().to_owned();
            tables.insert(heading.clone(), Vec::new());
            columns.clear();
        }
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        if columns.is_empty() {
            columns = cells;
        } else if !cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
            assert_eq!(cells.len(), columns.len(), "each row has all cells: {line}");
            let row = columns.iter().cloned().zip(cells).collect();
            tables.get_mut(&heading).expect("a table has a heading").push(row);
        }
    }
    tables
}

fn cell<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column).map(String::as_str).filter(|cell| !cell.is_empty())
}

fn number<T: std::str::FromStr>(row: &Row, column: &str, default: T) -> T {
    cell(row, column).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{column}: {text}")))
}

fn micros(text: &str) -> u64 {
    hq_model::duration::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).as_micros() as u64
}

fn amount(text: &str) -> Amount {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

// `8 cpus, 2x2 gpus/nvidia, sum 100 mem`
fn offers(text: &str) -> WorkerResources {
    let pool = |part: &str| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let kind = match words[..] {
            ["sum", size, _] => PoolKind::Sum(amount(size)),
            [size, _] => {
                let (groups, size) = size.split_once('x').unwrap_or(("1", size));
                let groups: u32 = groups.parse().expect("groups");
                let size: u32 = size.parse().expect("a size");
                let group = |g: u32| (g * size..(g + 1) * size).map(|label| label.to_string()).collect();
                PoolKind::Groups((0..groups).map(group).collect())
            }
            _ => panic!("an offer reads AMOUNT NAME: {part}"),
        };
        ResourcePool { name: words[words.len() - 1].into(), kind }
    };
    WorkerResources { pools: text.split(',').map(pool).collect(), coupling: Vec::new() }
}

// `3 cpus until 10s, 1 cpus`: what runs; taken from the first groups.
fn occupy(worker: &mut Worker, offers: &WorkerResources, text: &str) {
    for part in text.split(',') {
        let (taken, until) = part.split_once(" until ").map_or((part, None), |(t, u)| (t, Some(u.trim())));
        let (size, name) = taken.trim().split_once(' ').expect("AMOUNT NAME");
        let pool = offers.giver(name.trim()).expect("a pool");
        let size = amount(size);
        match &mut worker.free[pool] {
            PoolFree::Sum(free) => free.0 -= size.0,
            PoolFree::Groups(groups) => {
                let mut wholes = (size.0 / UNITS) as u32;
                for group in groups {
                    let here = group.whole.min(wholes);
                    group.whole -= here;
                    wholes -= here;
                }
            }
        }
        let in_us = until.map(micros);
        worker.ends.push(End { in_us, frees: vec![(pool as u32, size)] });
    }
}

// `2 cpus + 30 mem`; with `!` after the amount within one group; `weight 2` in front.
fn request(text: &str, time: Duration) -> Request {
    let (weight, parts) = match text.trim().strip_prefix("weight ") {
        Some(rest) => rest.split_once(' ').expect("weight F REQUEST"),
        None => ("1", text.trim()),
    };
    let weight = amount(weight).0 as u32;
    if let Some(nodes) = parts.strip_suffix(" nodes") {
        let nodes = nodes.parse().expect("nodes");
        return Request { nodes, weight, time_request: time, ..Request::default() };
    }
    let resource = |part: &str| {
        let (size, name) = part.trim().split_once(' ').expect("AMOUNT NAME");
        let amount = match size.strip_suffix('!') {
            Some(size) => AmountRequest::Some(amount(size), Policy::CompactStrict),
            None if size == "all" => AmountRequest::All,
            None => AmountRequest::Some(amount(size), Policy::Compact),
        };
        ResourceRequest { name: name.trim().into(), amount }
    };
    let resources = parts.split('+').map(resource).collect();
    Request { resources, weight, time_request: time, ..Request::default() }
}

struct Rule {
    snapshot: Snapshot,
    names: Vec<String>,
}

impl Rule {
    fn read(tables: &BTreeMap<String, Vec<Row>>) -> Rule {
        let mut snapshot = Snapshot::default();
        for row in &tables["Workers"] {
            let offers = offers(cell(row, "offers").expect("what a worker offers"));
            let known = snapshot.shapes.iter().position(|shape| *shape == offers);
            let shape = known.unwrap_or(snapshot.shapes.len());
            if known.is_none() {
                snapshot.shapes.push(offers.clone());
            }
            let mut worker = Worker {
                id: WorkerId(number(row, "worker", 0)),
                shape: shape as u32,
                free: all_free(&offers),
                life_us: cell(row, "ends in").map(micros),
                group: number(row, "group", 0),
                ends: Vec::new(),
                keys: cell(row, "ran").map(|key| vec![key.bytes().map(u64::from).sum()]).unwrap_or_default(),
            };
            if let Some(text) = cell(row, "runs") {
                occupy(&mut worker, &offers, text);
            }
            snapshot.workers.push(worker);
        }
        let mut names = Vec::new();
        for (at, row) in tables["Tasks"].iter().enumerate() {
            let time = Duration::from_micros(cell(row, "time request").map_or(0, micros));
            let variants = cell(row, "request").expect("a request").split(" or ");
            names.push(cell(row, "task").expect("a name").to_owned());
            snapshot.classes.push(Class {
                id: ClassId(at as u32),
                ready: number(row, "ready", 1),
                priority: number(row, "priority", 0),
                path_us: cell(row, "path").map_or(0, micros),
                age: number(row, "age", at as u64),
                variants: variants.map(|text| request(text, time)).collect(),
                share: cell(row, "share").map(|share| share.parse().expect("a share")),
                key: cell(row, "key").map(|key| key.bytes().map(u64::from).sum()),
                expected_us: cell(row, "takes").map(micros),
                waiting_us: cell(row, "waits for").map_or(0, micros),
            });
        }
        for row in tables.get("Shares").into_iter().flatten() {
            snapshot.shares.push(ShareGroup {
                running: number(row, "running", 0),
                min: number(row, "min", 0),
                max: cell(row, "max").map(|max| max.parse().expect("a maximum")),
                weight: (number(row, "weight", 1.0f64) * UNITS as f64) as u32,
                carried: 0,
            });
        }
        Rule { snapshot, names }
    }

    fn name(&self, class: ClassId) -> &str {
        &self.names[class.0 as usize]
    }

    // The plan as the tables say it.
    fn tell(&self, plan: &Plan) -> BTreeMap<&'static str, Vec<String>> {
        let mut by_worker: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for line in &plan.lines {
            let variant = if line.variant == 0 { String::new() } else { format!(" as {}", line.variant + 1) };
            let text = format!("{} {}{variant}", line.count, self.name(line.class));
            by_worker.entry(line.worker.0).or_default().push(text);
        }
        for line in &plan.nodes {
            for worker in &line.workers {
                by_worker.entry(worker.0).or_default().push(format!("a node of {}", self.name(line.class)));
            }
        }
        let mut told: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let lines = by_worker.iter().map(|(worker, tasks)| format!("{worker}: {}", tasks.join(", ")));
        told.insert("Plan", lines.collect());
        let hold = |hold: &hq_sched::Hold| format!("{}: {}", hold.worker.0, self.name(hold.class));
        told.insert("Held", plan.holds.iter().map(hold).collect());
        let waiting = |waiting: &hq_sched::WaitingClass| {
            format!("{} {}: {}", waiting.count, self.name(waiting.class), self.reason(&waiting.reason))
        };
        told.insert("Waiting", plan.waiting.iter().map(waiting).collect());
        told
    }

    fn reason(&self, reason: &Waiting) -> String {
        let after = |us: u64| format!("{}s", us / 1_000_000);
        match reason {
            Waiting::NoWorkerEver { missing, wanted, offered } => {
                let wanted = wanted.map_or("all".into(), |wanted| wanted.to_string());
                format!("no worker ever: {wanted} {missing}, at most {offered} offered")
            }
            Waiting::TimeLimit { wanted_us, longest_us } => {
                format!("needs {}, the longest life is {}", after(*wanted_us), after(*longest_us))
            }
            Waiting::Busy { resource, earliest_us: Some(us) } => {
                format!("{resource} busy until {}", after(*us))
            }
            Waiting::Busy { resource, earliest_us: None } => format!("{resource} busy"),
            Waiting::Behind { class } => format!("behind {}", self.name(*class)),
            Waiting::Held { class } => format!("room held for {}", self.name(*class)),
            Waiting::Share => "share is full".into(),
        }
    }
}

fn expected(rows: &[Row], first: &str, second: &str) -> Vec<String> {
    rows.iter().map(|row| format!("{}: {}", row[first], row[second])).collect()
}

#[test]
fn the_planner_keeps_its_rules() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("rules").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 15, "the rules are committed");
    let mut broken = Vec::new();
    for file in files {
        let tables = tables(&std::fs::read_to_string(&file).expect("a rule"));
        let rule = Rule::read(&tables);
        let told = rule.tell(&plan(&rule.snapshot, &Options::default()));
        for (table, first, second) in
            [("Plan", "worker", "starts"), ("Held", "worker", "for"), ("Waiting", "tasks", "because")]
        {
            let Some(rows) = tables.get(table) else { continue };
            let expected = expected(rows, first, second);
            if expected != told[table] {
                broken.push(format!(
                    "{}, {table}:\n  expected {expected:#?}\n  planned {:#?}",
                    file.display(),
                    told[table]
                ));
            }
        }
        assert!(tables.contains_key("Plan"), "a rule shows a plan: {}", file.display());
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
