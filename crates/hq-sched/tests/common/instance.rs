//! Instances whose optimum is known: one in a file, as `oracle/optimum.py` writes them.

use hq_model::{Amount, WorkerId};
use hq_sched::{Class, ClassId, Shape, Snapshot, Take, Variant, Worker, limits, plan};

const RESOURCES: [&str; 3] = ["cpus", "mem", "gpus"];

fn resource(name: &str) -> u32 {
    RESOURCES.iter().position(|known| *known == name).expect("a resource") as u32
}

// `NAME=NUMBER`
fn number(word: &str) -> (&str, &str) {
    word.split_once('=').expect("NAME=NUMBER")
}

fn amount(text: &str) -> Amount {
    text.parse().expect("an amount")
}

// Pools are in the order of the words.
fn shape(words: &[&str]) -> Shape {
    let words: Vec<(&str, &str)> = words.iter().map(|word| number(word)).collect();
    let giver = |name: &&str| words.iter().position(|word| word.0 == *name).map(|pool| pool as u32);
    Shape {
        totals: words.iter().map(|word| amount(word.1)).collect(),
        givers: RESOURCES.iter().map(giver).collect(),
    }
}

fn variant(text: &str) -> Variant {
    let mut words = text.split_whitespace();
    let weight = words.next().and_then(|word| word.parse().ok()).expect("a weight");
    let mut variant = Variant { weight, takes: Vec::new(), time_us: 0 };
    for (name, text) in words.map(number) {
        match (name, text) {
            ("time", seconds) => variant.time_us = seconds.parse::<u64>().expect("seconds") * 1_000_000,
            (_, "all") => variant.takes.push((resource(name), Take::All)),
            _ => variant.takes.push((resource(name), Take::Some(amount(text)))),
        }
    }
    variant
}

/// The snapshot, and a proven bound on what a plan for it can be worth.
pub(crate) fn read(text: &str) -> (Snapshot, u64) {
    let mut snapshot = Snapshot::default();
    let mut bound = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "shape" => snapshot.shapes.push(shape(&words[1..])),
            // `workers N of SHAPE life=SECONDS POOLS`
            "workers" => {
                let shape = words[3].parse().expect("a shape");
                let (life, pools) = words[4..].split_at(usize::from(words[4].starts_with("life=")));
                let life_us =
                    life.first().map(|word| number(word).1.parse::<u64>().expect("seconds") * 1_000_000);
                let free: Vec<Amount> = pools.iter().map(|word| amount(number(word).1)).collect();
                for _ in 0..words[1].parse().expect("a count") {
                    let id = WorkerId(snapshot.workers.len() as u32 + 1);
                    snapshot.workers.push(Worker { id, shape, free: free.clone(), life_us });
                }
            }
            // `class READY: VARIANT | VARIANT`
            "class" => {
                let (head, variants) = line.split_once(':').expect("class READY: VARIANTS");
                let ready = head["class ".len()..].parse().expect("a count");
                let id = ClassId(snapshot.classes.len() as u32);
                let variants = variants.split('|').map(variant).collect();
                snapshot.classes.push(Class { id, ready, variants, share: None });
            }
            "bound" => bound = words[1].parse().expect("a value"),
            other => panic!("a line starts with `{other}`"),
        }
    }
    (snapshot, bound)
}

/// What the plan for it is worth.
pub(crate) fn value(snapshot: &Snapshot) -> u64 {
    let plan = plan(snapshot, limits::STEPS);
    let weight = |line: &hq_sched::Line| {
        u64::from(snapshot.classes[line.class.0 as usize].variants[line.variant as usize].weight) * line.count
    };
    plan.lines.iter().map(weight).sum()
}
