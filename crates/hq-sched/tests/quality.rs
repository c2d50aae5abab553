//! How good plans are: against bounds on the optimum that an exact solver proved (`oracle/optimum.py`), and against
//! trying everything on tiny instances.

#[path = "common/instance.rs"]
mod instance;

use instance::{read, value};

#[test]
fn plans_reach_98_percent_of_the_proven_bound_on_average_and_95_at_worst() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/instances");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("instances").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 20, "the instances are committed");
    let mut ratios = Vec::new();
    for file in files {
        let (snapshot, bound) = read(&std::fs::read_to_string(&file).expect("an instance"));
        let reached = value(&snapshot);
        assert!(reached <= bound + 1, "{}: {reached} over the bound {bound}", file.display());
        let ratio = (reached * 1_000_000).checked_div(bound).unwrap_or(1_000_000);
        ratios.push((ratio, file.file_name().expect("a name").to_owned()));
    }
    ratios.sort();
    let average = ratios.iter().map(|r| r.0).sum::<u64>() / ratios.len() as u64;
    let worst = &ratios[..ratios.len().min(8)];
    assert!(average >= 980_000 && worst[0].0 >= 950_000, "average {average} ppm, worst {worst:?}");
}

// All ways to place up to three classes on up to two workers with CPUs and memory.
fn everything(free: &mut [(u64, u64)], classes: &[(u64, u64, u64, u64)]) -> u64 {
    let Some(((ready, weight, cpus, mem), rest)) = classes.split_first().map(|(c, r)| (*c, r)) else {
        return 0;
    };
    let mut best = everything(free, rest);
    if ready > 0 {
        for at in 0..free.len() {
            if free[at].0 >= cpus && free[at].1 >= mem {
                free[at] = (free[at].0 - cpus, free[at].1 - mem);
                let mut again = classes.to_vec();
                again[0].0 -= 1;
                best = best.max(weight + everything(free, &again));
                free[at] = (free[at].0 + cpus, free[at].1 + mem);
            }
        }
    }
    best
}

#[test]
fn tiny_instances_come_close_to_trying_everything() {
    let mut state = 1u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut reached, mut optimum) = (0, 0);
    for _ in 0..150 {
        let mut free: Vec<(u64, u64)> = (0..1 + draw(2)).map(|_| (2 + draw(5), 3 + draw(6))).collect();
        let classes: Vec<(u64, u64, u64, u64)> =
            (0..1 + draw(3)).map(|_| (1 + draw(3), 5_000 + draw(20_000), 1 + draw(4), 1 + draw(4))).collect();
        let mut text = String::new();
        for (at, (cpus, mem)) in free.iter().enumerate() {
            text += &format!("shape cpus={cpus} mem={mem}\nworkers 1 of {at} cpus={cpus} mem={mem}\n");
        }
        for (ready, weight, cpus, mem) in &classes {
            text += &format!("class {ready}: {weight} cpus={cpus} mem={mem}\n");
        }
        let best = everything(&mut free, &classes);
        let here = value(&read(&text).0);
        assert!(here <= best && here * 100 >= best * 80, "{here} of {best}:\n{text}");
        reached += here;
        optimum += best;
    }
    assert!(reached * 1000 >= optimum * 985, "{reached} of {optimum}");
}
