//! `hq-sim`: explores seeds until one breaks a promise or the time is over.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Parser;
use hq_core::mark;
use hq_sim::{Options, run};

/// Explores seeds of the simulator.
#[derive(Parser)]
struct Arguments {
    /// Stop after so many seconds.
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// First seed: a number, or any text (a commit hash), which is scrambled into one.
    #[arg(long, default_value = "0")]
    seed: String,
    /// Stop after so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Look for room that is left beside tasks that fit, and for servers and workers that count differently, too.
    #[arg(long)]
    strict: bool,
    /// Say which marks were reached, by how many seeds, and by which first.
    #[arg(long)]
    marks: bool,
}

/// By mark: how many seeds reached it, and the first of them.
type Marks = BTreeMap<&'static str, (u64, u64)>;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let first = first_seed(&arguments.seed);
    let begin = Instant::now();
    let until = begin + Duration::from_secs(arguments.seconds);
    let threads = arguments.threads.max(1);
    let results: Vec<_> = std::thread::scope(|scope| {
        let explore = |thread: u64| {
            move || {
                let (mut seeds, mut steps, mut marks) = (0u64, 0u64, Marks::new());
                let most = arguments.seeds.unwrap_or(u64::MAX);
                while Instant::now() < until && seeds * threads + thread < most {
                    let seed = first.wrapping_add(seeds * threads + thread);
                    let playing = Playing(seed);
                    let options = Options { seed, is_strict: arguments.strict, ..Options::default() };
                    let result = run(Options { is_hasty: true, ..options });
                    drop(playing);
                    for mark in mark::take() {
                        marks.entry(mark).or_insert((0, seed)).0 += 1;
                    }
                    match result {
                        Ok(outcome) => steps += outcome.steps,
                        Err(found) => {
                            // Once more, for the story.
                            let failure = run(options).err();
                            return (seeds, steps, marks, Some(failure.unwrap_or(found)));
                        }
                    }
                    seeds += 1;
                }
                (seeds, steps, marks, None)
            }
        };
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(explore(thread))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let seeds: u64 = results.iter().map(|result| result.0).sum();
    let steps: u64 = results.iter().map(|result| result.1).sum();
    println!(
        "{seeds} seeds from {first} in {seconds:.1} s: {:.0} seeds/s, {:.0} steps/s",
        seeds as f64 / seconds,
        steps as f64 / seconds
    );
    if arguments.marks {
        let mut all = Marks::new();
        for (mark, (count, seed)) in results.iter().flat_map(|result| &result.2) {
            let known = all.entry(mark).or_insert((0, *seed));
            *known = (known.0 + count, known.1.min(*seed));
        }
        all.iter().for_each(|(mark, (count, seed))| println!("{count:>8} {seed:>20} {mark}"));
    }
    let failures: Vec<_> = results.iter().filter_map(|result| result.3.as_ref()).collect();
    // A thread that panicked gives no result: the machine's own assertion is its story.
    for failure in &failures {
        println!("\nseed {} broke a promise at step {}, {} µs:", failure.seed, failure.step, failure.at_us);
        println!("  {}", failure.what);
        for line in &failure.story {
            println!("  {line}");
        }
    }
    if failures.is_empty() && results.len() as u64 == threads {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}

/// The seed that is played, named when one of the machine's own assertions ends the play.
struct Playing(u64);

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {} broke an assertion", self.0);
        }
    }
}

fn first_seed(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
