//! Log lines on standard error: `2026-11-21T04:00:00.000000Z INFO text`.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hq_model::Timestamp;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Switches logging on. `RUST_LOG` wins; else the level is debug with `--debug`, and `level` without it. With none of the
/// three nothing is set up, which is the quickest.
pub(crate) fn init(debug: bool, level: Option<LevelFilter>) {
    let has_colors =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let wanted = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let filter = match wanted.as_deref().map(Targets::from_str) {
        Some(Ok(filter)) => filter,
        _ if debug => Targets::new().with_default(LevelFilter::DEBUG),
        _ => match level {
            Some(level) => Targets::new().with_default(level),
            None => return,
        },
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(has_colors)
        .event_format(Format { is_long: debug })
        .with_filter(filter);
    // A second call, in a test say, changes nothing.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// Switches logging on, in detail, into this file.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn init_to(path: &Path) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} cannot be written: {error}", path.display()))
    };
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(named)?;
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(Arc::new(file))
        .with_ansi(false)
        .event_format(Format { is_long: true })
        .with_filter(Targets::new().with_default(LevelFilter::DEBUG));
    // As above.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    Ok(())
}

struct Format {
    is_long: bool,
}

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        write!(writer, "{} {} ", now(), meta.level())?;
        if self.is_long {
            write!(writer, "[{}:{}] ", meta.target(), meta.line().unwrap_or(0))?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The present time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
