//! Plays the long form of `tests/chaos`, whose short form is among the tests.

use crate::exec;
use crate::place::Place;
use crate::sim::commit;

/// Builds with optimisation and plays so many rounds.
///
/// # Errors
/// When it does not build, or a promise is broken.
pub(crate) fn run(place: &Place, rounds: u32, seed: Option<String>) -> Result<(), String> {
    play(place, "HQ_CHAOS_ROUNDS", rounds, seed, &["--skip", "soak"])
}

/// Builds with optimisation and soaks for so many minutes.
///
/// # Errors
/// When it does not build, or a promise is broken.
pub(crate) fn soak(place: &Place, minutes: u32, seed: Option<String>) -> Result<(), String> {
    play(place, "HQ_SOAK_MINUTES", minutes, seed, &["soak"])
}

fn play(place: &Place, name: &str, value: u32, seed: Option<String>, which: &[&str]) -> Result<(), String> {
    let seed = seed.unwrap_or_else(|| commit(place));
    println!("seed {seed}");
    let mut command = place.cargo("test");
    command.args(["--quiet", "--locked", "--release", "--package", "hq", "--test", "chaos"]);
    command.args(["--", "--nocapture", "--test-threads", "1"]).args(which);
    command.env(name, value.to_string()).env("HQ_CHAOS_SEED", seed);
    exec::watched(&mut command)
}
