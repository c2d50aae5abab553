//! The rules of planning, as examples: each file in `rules/` tells a rule and shows it on workers and tasks.
//!
//! Tables of a file, found by their heading: `Workers`, `Tasks`, perhaps `Shares`, then what is expected: `Plan`. Columns
//! that are not there have neutral values.

use std::collections::BTreeMap;

use hq_model::amount::UNITS;
use hq_model::{Amount, WorkerId};
use hq_sched::limits::STEPS;
use hq_sched::{Class, ClassId, Plan, Shape, ShareGroup, Snapshot, Take, Variant, Worker, plan};

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

const RESOURCES: [&str; 2] = ["cpus", "gpus"];

// `2 cpus`, `all cpus`
fn take(text: &str) -> (u32, Take) {
    let (size, name) = text.trim().split_once(' ').expect("AMOUNT NAME");
    let resource = RESOURCES.iter().position(|known| *known == name).expect("a resource") as u32;
    (resource, if size == "all" { Take::All } else { Take::Some(amount(size)) })
}

// `8 cpus, 2 gpus`: pools in that order.
fn offers(text: &str) -> Shape {
    let mut shape = Shape { totals: Vec::new(), givers: vec![None; RESOURCES.len()] };
    for (resource, total) in text.split(',').map(take) {
        let Take::Some(total) = total else { panic!("an offer has an amount: {text}") };
        shape.givers[resource as usize] = Some(shape.totals.len() as u32);
        shape.totals.push(total);
    }
    shape
}

// `2 cpus + 1 gpus`; `weight 2` in front.
fn variant(text: &str, time_us: u64) -> Variant {
    let (weight, parts) = match text.trim().strip_prefix("weight ") {
        Some(rest) => rest.split_once(' ').expect("weight F REQUEST"),
        None => ("1", text),
    };
    Variant { weight: amount(weight).0 as u32, takes: parts.split('+').map(take).collect(), time_us }
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
            let shape = known.unwrap_or_else(|| {
                snapshot.shapes.push(offers.clone());
                snapshot.shapes.len() - 1
            });
            let mut free = offers.totals;
            for (resource, taken) in cell(row, "runs").into_iter().flat_map(|text| text.split(',')).map(take)
            {
                let Take::Some(taken) = taken else { panic!("what runs has an amount") };
                free[offers.givers[resource as usize].expect("a pool") as usize].0 -= taken.0;
            }
            let life_us = cell(row, "ends in").map(micros);
            snapshot.workers.push(Worker {
                id: WorkerId(number(row, "worker", 0)),
                shape: shape as u32,
                free,
                life_us,
            });
        }
        let mut names = Vec::new();
        for (at, row) in (0..).zip(&tables["Tasks"]) {
            let time_us = cell(row, "time request").map_or(0, micros);
            let variants = cell(row, "request").expect("a request").split(" or ");
            names.push(cell(row, "task").expect("a name").to_owned());
            snapshot.classes.push(Class {
                id: ClassId(at),
                ready: number(row, "ready", 1),
                variants: variants.map(|text| variant(text, time_us)).collect(),
                share: cell(row, "share").map(|share| share.parse().expect("a share")),
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

    // The plan as its table says it.
    fn tell(&self, plan: &Plan) -> Vec<String> {
        let mut by_worker: BTreeMap<WorkerId, Vec<String>> = BTreeMap::new();
        for line in &plan.lines {
            let variant = if line.variant == 0 { String::new() } else { format!(" as {}", line.variant + 1) };
            let text = format!("{} {}{variant}", line.count, self.names[line.class.0 as usize]);
            by_worker.entry(line.worker).or_default().push(text);
        }
        by_worker.iter().map(|(worker, tasks)| format!("{}: {}", worker.0, tasks.join(", "))).collect()
    }
}

#[test]
fn the_planner_keeps_its_rules() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("rules").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 9, "the rules are committed");
    let mut broken = Vec::new();
    for file in files {
        let tables = tables(&std::fs::read_to_string(&file).expect("a rule"));
        let rule = Rule::read(&tables);
        let told = rule.tell(&plan(&rule.snapshot, STEPS));
        let expected: Vec<String> =
            tables["Plan"].iter().map(|row| format!("{}: {}", row["worker"], row["starts"])).collect();
        if expected != told {
            broken.push(format!("{}:\n  expected {expected:#?}\n  planned {told:#?}", file.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
