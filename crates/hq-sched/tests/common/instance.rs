//! Instances whose optimum is known: one in a file, as `oracle/optimum.py` writes them.

use hq_model::{
    Amount, AmountRequest, Policy, PoolKind, Request, ResourcePool, ResourceRequest, WorkerId,
    WorkerResources,
};
use hq_sched::{Class, ClassId, GroupFree, Options, PoolFree, Snapshot, Worker, plan};

fn pools(words: &[&str]) -> (WorkerResources, Vec<PoolFree>) {
    let mut resources = WorkerResources::default();
    let mut free = Vec::new();
    for word in words {
        let (name, text) = word.split_once('=').expect("NAME=DEF");
        let (kind, here) = match text.strip_prefix('~') {
            Some(sum) => {
                let sum = Amount::whole(sum.parse().expect("a sum"));
                (PoolKind::Sum(sum), PoolFree::Sum(sum))
            }
            None => {
                let sizes: Vec<u32> = text.split('+').map(|n| n.parse().expect("a size")).collect();
                let labels =
                    |(group, size): (usize, &u32)| (0..*size).map(|i| format!("{group}.{i}")).collect();
                let whole = |size: &u32| GroupFree { whole: *size, partial: Vec::new() };
                let kind = PoolKind::Groups(sizes.iter().enumerate().map(labels).collect());
                (kind, PoolFree::Groups(sizes.iter().map(whole).collect()))
            }
        };
        resources.pools.push(ResourcePool { name: name.into(), kind });
        free.push(here);
    }
    (resources, free)
}

fn request(text: &str) -> Request {
    let mut words = text.split_whitespace();
    let weight = words.next().and_then(|w| w.parse().ok()).expect("a weight");
    let resource = |word: &str| {
        let (name, amount) = word.split_once('=').expect("NAME=AMOUNT");
        let policy = if amount.ends_with('!') { Policy::CompactStrict } else { Policy::Compact };
        let amount = amount.trim_end_matches('!').parse().expect("an amount");
        ResourceRequest { name: name.into(), amount: AmountRequest::Some(amount, policy) }
    };
    Request { weight, resources: words.map(resource).collect(), ..Request::default() }
}

fn class(id: usize, ready: u64, variants: Vec<Request>) -> Class {
    Class {
        id: ClassId(id as u32),
        ready,
        priority: 0,
        path_us: 0,
        age: id as u64,
        variants,
        share: None,
        key: None,
        expected_us: None,
        waiting_us: 0,
    }
}

/// The snapshot, and a proven bound on what a plan for it can be worth.
pub(crate) fn read(text: &str) -> (Snapshot, u64) {
    let mut snapshot = Snapshot::default();
    let mut bound = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "shape" => snapshot.shapes.push(pools(&words[1..]).0),
            "workers" => {
                let free = pools(&words[4..]).1;
                let shape = words[3].parse().expect("a shape");
                for _ in 0..words[1].parse().expect("a count") {
                    let id = WorkerId(snapshot.workers.len() as u32 + 1);
                    let free = free.clone();
                    snapshot.workers.push(Worker {
                        id,
                        shape,
                        free,
                        life_us: None,
                        group: 0,
                        ends: vec![],
                        keys: vec![],
                    });
                }
            }
            "class" => {
                let (head, variants) = line.split_once(':').expect("class N: VARIANTS");
                let ready = head["class ".len()..].parse().expect("a count");
                let id = snapshot.classes.len();
                snapshot.classes.push(class(id, ready, variants.split('|').map(request).collect()));
            }
            "bound" => bound = words[1].parse().expect("a value"),
            other => panic!("a line starts with `{other}`"),
        }
    }
    (snapshot, bound)
}

/// What the plan for it is worth.
pub(crate) fn value(snapshot: &Snapshot) -> u64 {
    let plan = plan(snapshot, &Options::default());
    let weight = |line: &hq_sched::Line| {
        u64::from(snapshot.classes[line.class.0 as usize].variants[line.variant as usize].weight) * line.count
    };
    plan.lines.iter().map(weight).sum()
}
