//! `hq server start` and `info`.

use std::io::Write;
use std::time::Duration;

use hq_core::client_messages::ServerInfo;
use hq_core::clock_gap::ClockGap;
use hq_core::limit_value::LimitValue;
use hq_model::duration;
use serde_json::json;

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, text};
use crate::error::HqError;
use crate::report::Server;

impl Report for Server {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let info = &self.info;
        let journal = info.journal.as_deref().map_or(text::NONE.into(), text::bytes);
        let mut rows: Vec<(&str, Cell)> = Vec::new();
        if self.rows.directory {
            rows.push(("Server directory", self.server_dir.display().to_string().into()));
        }
        rows.extend([
            ("Server UID", info.uid.as_str().into()),
            ("Client host", info.client_host.as_str().into()),
            ("Client port", info.client_port.to_string().into()),
            ("Worker host", info.worker_host.as_str().into()),
            ("Worker port", info.worker_port.to_string().into()),
            ("Version", info.version.as_str().into()),
            ("Pid", info.pid.to_string().into()),
            ("Start date", style.time(info.started).into()),
            ("Journal path", journal.into()),
        ]);
        let is_inside = self.rows.inside;
        if is_inside {
            rows.push(("Instance directory", text::bytes(&info.server_dir).into()));
            rows.push(("Starts", info.epoch.to_string().into()));
        }
        if is_inside || info.journal_trouble.is_some() {
            rows.push(("Journal state", journal_state(info).into()));
        }
        if is_inside || info.clock_gap.is_some() {
            rows.push(("Clock", clock(info).into()));
        }
        if is_inside {
            rows.push(("Samples kept", text::size_of(info.load_bytes).into()));
        }
        if is_inside || info.relayed.is_some_and(|relayed| relayed.transfers > 0) {
            rows.push(("Objects relayed", relayed(info).into()));
        }
        if info.internal_errors > 0 {
            let text = text::internal_errors(info.internal_errors, "server");
            rows.push(("Internal errors", text.into()));
        }
        if self.rows.limits {
            let limits = info.limits.iter().map(|(name, value)| format!("{name}: {value}"));
            rows.push(("Limits", limits.collect::<Vec<_>>().join("\n").into()));
        }
        Ok(table::record(out, style, rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let info = &self.info;
        let limits: serde_json::Map<String, serde_json::Value> =
            info.limits.iter().map(|(name, value)| (name.clone(), number(value))).collect();
        let document = json!({
            "server_dir": self.server_dir.display().to_string(),
            "server_uid": info.uid,
            "client_host": info.client_host,
            "client_port": info.client_port,
            "worker_host": info.worker_host,
            "worker_port": info.worker_port,
            "version": info.version,
            "pid": info.pid,
            "start_date": json::time(info.started),
            "journal_path": info.journal.as_deref().map(text::bytes),
            "journal_trouble": info.journal_trouble.as_ref().map(|(since, error)| {
                json!({ "since": json::time(*since), "error": error })
            }),
            "clock_behind": match info.clock_gap {
                Some(ClockGap::Behind(gap)) => Some(json::seconds(gap)),
                _ => None,
            },
            "clock_ahead": match info.clock_gap {
                Some(ClockGap::Ahead(gap)) => Some(json::seconds(gap)),
                _ => None,
            },
            "internal_errors": info.internal_errors,
            "output_reads": info.output_reads,
            "load_bytes": info.load_bytes,
            "relayed": info.relayed.map(|relayed| {
                json!({ "transfers": relayed.transfers, "bytes": relayed.bytes })
            }),
            "instance_dir": text::bytes(&info.server_dir),
            "starts": info.epoch.0,
            "limits": limits,
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.server_dir.display())?)
    }
}

fn journal_state(info: &ServerInfo) -> String {
    match (&info.journal, &info.journal_trouble) {
        (_, Some((since, error))) => {
            format!("could not be written since {since}: {error}; no changes are possible until it can")
        }
        (Some(_), None) => "written".to_owned(),
        (None, None) => text::NONE.to_owned(),
    }
}

fn relayed(info: &ServerInfo) -> String {
    match info.relayed {
        Some(relayed) => format!("{} ({})", relayed.transfers, text::size_of(relayed.bytes)),
        None => "switched off".to_owned(),
    }
}

fn clock(info: &ServerInfo) -> String {
    match info.clock_gap {
        None if info.journal.is_none() => text::NONE.to_owned(),
        None => "agrees with the journal".to_owned(),
        Some(ClockGap::Behind(gap)) => format!(
            "the machine's clock was {} behind the journal at the start: the server's times are ahead of it by that \
             much",
            duration::format(rounded(gap))
        ),
        Some(ClockGap::Ahead(gap)) => format!(
            "the last record was {} old at the start: the server was down, or a clock is or was wrong",
            duration::format(rounded(gap))
        ),
    }
}

// A limit without its unit.
fn number(value: &LimitValue) -> serde_json::Value {
    match value {
        LimitValue::Count(number) | LimitValue::Bytes(number) => (*number).into(),
        LimitValue::Time(time) => json::seconds(*time),
        LimitValue::None => serde_json::Value::Null,
        LimitValue::Text(text) => text.as_str().into(),
    }
}

// Fractions of a second say nothing of clocks.
fn rounded(gap: Duration) -> Duration {
    Duration::from_secs(gap.as_secs())
}
