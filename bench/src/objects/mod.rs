//! Files of tasks for others: what leaving and taking them costs beside copying them and sending them as they are.

mod loss;
mod many;
mod plain;
mod readers;
mod rig;
mod whole;

use crate::cluster::Bench;
use crate::row::{BoxError, Row};

const MIB: u64 = 1 << 20;

/// All that is measured of objects.
///
/// # Errors
/// When a cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = whole::run(bench)?;
    rows.extend(many::moved(bench)?);
    rows.push(readers::run(bench)?);
    rows.push(loss::run(bench)?);
    rows.push(many::memory(bench)?);
    Ok(rows)
}
