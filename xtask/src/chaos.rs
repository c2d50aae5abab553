//! Plays the long forms of `tests/chaos`, whose short forms are among the tests.

use crate::exec;
use crate::place::Place;
use crate::sim::commit;

/// Builds with optimization and plays so many rounds.
///
/// # Errors
/// When it does not build, or a promise is broken.
pub(crate) fn run(place: &Place, rounds: u32, seed: Option<String>) -> Result<(), String> {
    play(place, "HQ_CHAOS_ROUNDS", &rounds.to_string(), seed, &["--skip", "soak", "--skip", "attack"])
}

/// Builds with optimization and soaks for so many minutes.
///
/// # Errors
/// When it does not build, or a promise is broken.
pub(crate) fn soak(place: &Place, minutes: u32, seed: Option<String>) -> Result<(), String> {
    play(place, "HQ_SOAK_MINUTES", &minutes.to_string(), seed, &["soak"])
}

/// Builds with optimization and plays the attacks, or those whose names contain one of `names`.
///
/// # Errors
/// When it does not build, or an attack succeeds.
pub(crate) fn attack(place: &Place, names: &[String]) -> Result<(), String> {
    let names: Vec<&str> =
        if names.is_empty() { vec!["attack"] } else { names.iter().map(String::as_str).collect() };
    play(place, "HQ_ATTACK", "long", None, &names)
}

fn play(place: &Place, name: &str, value: &str, seed: Option<String>, which: &[&str]) -> Result<(), String> {
    let seed = seed.unwrap_or_else(|| commit(place));
    println!("seed {seed}");
    let mut command = place.cargo("test");
    command.args(["--quiet", "--locked", "--release", "--package", "hq", "--test", "chaos"]);
    command.args(["--", "--nocapture", "--test-threads", "1"]).args(which);
    command.env(name, value).env("HQ_CHAOS_SEED", seed);
    exec::watched(&mut command)
}
