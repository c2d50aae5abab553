//! Arrays with the null executor: how fast tasks pass, what encryption costs, how much memory they take.

use crate::cluster::Bench;
use crate::measure::{median_of, memory_mb};
use crate::row::{BoxError, Row};

pub(crate) const NULL: [&str; 4] = ["--executor", "null", "--cpus", "2"];
const PLAIN: [&str; 2] =
    ["--disable-client-authentication-and-encryption", "--disable-worker-authentication-and-encryption"];
/// Rounds of what is measured in turns.
const ROUNDS: usize = 3;

/// A million tasks; twice as many; the million with sixteen workers.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn array(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1_000_000);
    let cluster = bench.cluster(&[], 1, &NULL)?;
    cluster.array(count / 10)?;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(cluster.array(count)?.as_secs_f64());
        two.push(cluster.array(2 * count)?.as_secs_f64());
    }
    drop(cluster);
    let many = bench.cluster(&[], 16, &NULL)?;
    many.array(count / 10)?;
    let sixteen =
        (0..ROUNDS).map(|_| Ok(many.array(count)?.as_secs_f64())).collect::<Result<Vec<_>, BoxError>>()?;
    let (one, two, sixteen) = (median_of(one), median_of(two), median_of(sixteen));
    let rate = f64::from(count) / one;
    Ok(vec![
        Row::at_most("null-array: rate", format!("{rate:.0} tasks/s"), "1 000 000 tasks/s", 1e6 / rate, 1.0),
        // Five per cent are the noise of a shared machine.
        Row::at_most(
            "null-array: twice the tasks",
            format!("{one:.2} s, {two:.2} s"),
            "twice the time",
            two / one,
            2.1,
        ),
        Row::at_most(
            "null-array: 16 workers",
            format!("{sixteen:.2} s"),
            "no slower than one",
            sixteen / one,
            1.05,
        ),
    ])
}

/// The null array with encryption and without, in turns.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn encryption(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(2_000_000);
    let (encrypted, plain) = (bench.cluster(&[], 1, &NULL)?, bench.cluster(&PLAIN, 1, &NULL)?);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (first, second) = (encrypted.array(count)?.as_secs_f64(), plain.array(count)?.as_secs_f64());
        // The first round warms up.
        if round > 0 {
            with.push(first);
            without.push(second);
        }
    }
    let (with, without) = (median_of(with), median_of(without));
    let value = format!("{with:.2} s with, {without:.2} s without");
    Ok(vec![Row::at_most("encryption", value, "at most 10 % slower", with / without, 1.1)])
}

/// A hundred million tasks: the reply to the submit, and the server's memory until they are done.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn memory(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(100_000_000);
    let mut cluster = bench.cluster(&[], 0, &[])?;
    let ids = format!("1-{count}");
    let reply = cluster.run(&["submit", "--array", &ids, "--stdout=none", "--stderr=none", "--", "true"])?;
    let reply_ms = reply.as_secs_f64() * 1e3;
    cluster.start("worker", &NULL)?;
    let done = cluster.run(&["job", "wait", "last"])?;
    let (now, peak) = memory_mb(cluster.server_pid());
    let rate = f64::from(count) / done.as_secs_f64();
    Ok(vec![
        Row::at_most("array-memory: reply", format!("{reply_ms:.1} ms"), "50 ms", reply_ms / 50.0, 1.0),
        Row::at_most(
            "array-memory: server",
            format!("{peak:.0} MB at most, {now:.0} MB after"),
            "100 MB throughout",
            peak / 100.0,
            1.0,
        ),
        Row::shown("array-memory: rate", format!("{rate:.0} tasks/s"), 1e6 / rate),
    ])
}
