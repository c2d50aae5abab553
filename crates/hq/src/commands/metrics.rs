//! `hq metrics`.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hq_client::Session;
use tokio::net::TcpListener;
use tracing::warn;
use tracing_subscriber::filter::LevelFilter;

use super::{Context, end_quietly_when_nobody_reads};
use crate::cli::OutputMode;
use crate::cli::metrics::MetricsArgs;
use crate::error::HqError;
use crate::http;
use crate::logging;
use crate::metrics::{Seen, families, format, listen};
use crate::replaced::replace;
use crate::report::Metrics;
use crate::signals::Signals;

/// Prints metrics once, or offers them until a signal comes.
pub(super) fn metrics(context: &Context, args: &MetricsArgs) -> Result<u8, HqError> {
    let level = (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN);
    logging::init(context.debug, level);
    let source = Source::new(context, args.jobs);
    match (args.listen, &args.write) {
        (Some(address), _) => serve(context, address, args.allow_remote, source),
        (None, Some(path)) => write(path, args.interval, &source),
        (None, None) => {
            end_quietly_when_nobody_reads();
            let seen = Seen::ask(&mut context.connect()?, args.jobs)?;
            context.printer.print(&mut Metrics(families(Some(&seen))))?;
            Ok(0)
        }
    }
}

// Where the text comes from: a server that may be there or not.
struct Source {
    server_dir: std::path::PathBuf,
    jobs: u32,
    session: Mutex<Option<Session>>,
}

impl Source {
    fn new(context: &Context, jobs: u32) -> Source {
        Source { server_dir: context.server_dir.clone(), jobs, session: Mutex::default() }
    }

    // The present as text; without a server, that it is not there.
    fn text(&self) -> String {
        let seen = self.seen();
        if let Err(error) = &seen {
            warn!(error.text, "the server does not answer");
        }
        format::text(&families(seen.ok().as_ref()))
    }

    fn seen(&self) -> Result<Seen, HqError> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut live = match session.take() {
            Some(live) => live,
            None => Session::connect(&self.server_dir)?,
        };
        let seen = match Seen::ask(&mut live, self.jobs) {
            Ok(seen) => seen,
            // It may be another server of the same directory: the next question finds it.
            Err(_) => {
                live = Session::connect(&self.server_dir)?;
                Seen::ask(&mut live, self.jobs)?
            }
        };
        *session = Some(live);
        Ok(seen)
    }
}

fn serve(context: &Context, address: SocketAddr, allow_remote: bool, source: Source) -> Result<u8, HqError> {
    if !http::is_loopback(address.ip()) && !allow_remote {
        let text = format!("other machines could reach {address} and read job names there");
        return Err(HqError::usage(text).hint("listen on 127.0.0.1, or add --allow-remote"));
    }
    // A session has a runtime of its own, which must not end within this one: it is held until after that.
    let source = Arc::new(source);
    let asked = Arc::clone(&source);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        let cannot = |error: io::Error| HqError::failed("io", http::cannot_listen(address, &error));
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        context.printer.print(&mut crate::report::Plain(format!("http://{bound}/metrics\n").into_bytes()))?;
        let make = Arc::new(move || asked.text());
        tokio::select! {
            served = listen::serve(listener, allow_remote, make) => match served? {},
            _ = signals.next() => Ok(0),
        }
    })
}

fn write(path: &Path, interval: Duration, source: &Source) -> Result<u8, HqError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::catch() })?;
    let mut is_first = true;
    loop {
        let text = source.text();
        match replace(path, |out| io::Write::write_all(out, text.as_bytes())) {
            Ok(()) => {}
            Err(error) if is_first => {
                let text = format!("{} cannot be written: {error}", path.display());
                return Err(HqError::failed("io", text).hint(
                    "its directory must exist and be writable, because the file is replaced by a new one",
                ));
            }
            // What went well once may again: a disk is full for a while.
            Err(error) => {
                warn!(path = %path.display(), %error, "the file cannot be written; retrying")
            }
        }
        is_first = false;
        let is_over = runtime.block_on(async {
            tokio::select! {
                _ = signals.next() => true,
                () = tokio::time::sleep(interval) => false,
            }
        });
        if is_over {
            return Ok(0);
        }
    }
}
