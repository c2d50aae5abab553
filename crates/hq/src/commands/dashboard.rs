//! `hq dashboard`.

use std::path::Path;

use hq_core::record::Record;
use hq_model::Timestamp;
use tracing_subscriber::filter::LevelFilter;

use super::Context;
use crate::cli::OutputMode;
use crate::cli::dashboard::DashboardArgs;
use crate::dashboard::{Look, Replayer, Source, live, replayed, serve};
use crate::error::HqError;
use crate::logging;

/// Records that a replay holds in memory.
const RECORDS_MAX: usize = 20_000_000;

/// Shows the dashboard until the user ends it.
pub(super) fn dashboard(context: &Context, args: &DashboardArgs) -> Result<u8, HqError> {
    if let Some(place) = &args.web {
        let level = (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN);
        logging::init(context.debug, level);
        let tell = |mut served| context.printer.print(&mut served);
        serve(context.server_dir.clone(), place, args.allow_actions, tell)?;
        return Ok(0);
    }
    // Nothing is logged: a line of a log would tear the screen.
    let look = Look { has_colors: context.printer.has_colors(), has_mouse: !args.no_mouse };
    match args.journal() {
        Some(journal) => {
            let mut replayer = load(journal)?;
            replayed(&mut replayer, look.check()?)?;
        }
        None => {
            let look = look.check()?;
            live(&Source::connect(&context.server_dir)?, look)?;
        }
    }
    Ok(0)
}

// What can be read of a journal. Of a damaged one, that is what comes before the damage.
fn load(path: &Path) -> Result<Replayer, HqError> {
    let mut records: Vec<(Timestamp, Record)> = Vec::new();
    let read = super::journal::read(path, &mut |at, record| {
        if records.len() >= RECORDS_MAX {
            let text = format!("{} holds more than {RECORDS_MAX} records", path.display());
            return Err(HqError::failed("journal", text)
                .hint("`hq journal export` prints all of them, `hq journal report` creates an HTML report"));
        }
        records.push((at, record));
        Ok(())
    });
    let damage = match read {
        Ok(()) => None,
        Err(error) if records.is_empty() || records.len() >= RECORDS_MAX => return Err(error),
        Err(error) => Some(error.text),
    };
    let nothing = || {
        HqError::failed("journal", format!("{} holds no records yet", path.display()))
            .hint("a server writes its first record when it starts")
    };
    Replayer::new(records, damage).ok_or_else(nothing)
}
