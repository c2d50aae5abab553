//! Plays campaigns and prints what came out of each: to see which ones the allocator serves badly.
#![allow(clippy::print_stdout)]

use hq_sim::campaign::{Campaign, Measured, hours, play};

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100u64);
    let first = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let mut sum = Measured::default();
    let mut ratios = 0.0;
    for seed in first..first + count {
        let campaign = Campaign::draw(seed);
        let what = format!(
            "limit {:.1} wait {:.2} nodes {:?} waves {:?} failures {:?}",
            hours(campaign.partitions[0].params.time_limit.as_micros() as u64),
            hours(campaign.partitions[0].wait_us),
            campaign.partitions.iter().map(|p| p.params.max_workers_per_alloc).collect::<Vec<_>>(),
            campaign
                .waves
                .iter()
                .map(|w| format!(
                    "{:.1}h {}x{:.2}h{}",
                    hours(w.at_us),
                    w.tasks,
                    hours(w.runs_us.1),
                    if w.waits { " waits" } else { "" }
                ))
                .collect::<Vec<_>>(),
            (campaign.rejected, campaign.lost, campaign.killed),
        );
        match play(campaign) {
            Ok(one) => {
                sum.time.add(&one.time);
                let ratio = one.ideal_us as f64 / one.took_us as f64;
                ratios += ratio;
                println!(
                    "{seed}: {ratio:.3} of ideal {:.1} h, idle {:.3}, lost {:.3}, excess {} of {}, {} started, {} questions; {what}",
                    hours(one.ideal_us),
                    one.time.idle_us as f64 / one.time.asked_us.max(1) as f64,
                    one.time.lost_us as f64 / one.time.asked_us.max(1) as f64,
                    one.excess,
                    one.backlog,
                    one.started,
                    one.questions,
                );
            }
            Err(failure) => println!("{seed}: {} at {} µs; {what}", failure.what, failure.at_us),
        }
    }
    println!(
        "idle {:.4} of asked, work {:.4} of ideal",
        sum.time.idle_us as f64 / sum.time.asked_us.max(1) as f64,
        ratios / count as f64
    );
}
