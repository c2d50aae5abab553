//! `hq journal utilization`.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hq_model::{WorkerId, counted};
use serde_json::{Map, Value, json};

use super::json::{self as form, SCHEMA_VERSION};
use super::style::Style;
use super::table::{Cell, record, table};
use super::{Report, text};
use crate::accounts::{Account, EnergySum, PARTS, Part};
use crate::cli::journal::Rows;
use crate::error::HqError;
use crate::report::Utilization;

impl Report for Utilization {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        match self.rows {
            Rows::Total => self.total(out, style),
            Rows::Allocation => self.shares(out, style, "Allocation", self.allocations()),
            Rows::Worker => self.shares(out, style, "Worker", self.workers()),
            Rows::Job => self.jobs(out, style),
        }
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let accounts = &self.accounts;
        let row = |id: Value, name: Value, pair: &(Account, Account)| json!({"id": id, "name": name, "cpus": document(&pair.0), "gpus": document(&pair.1)});
        let costing = |mut row: Value, node_hours: f64| {
            if let Some(price) = self.cost {
                row["node_hours"] = node_hours.into();
                row["cost"] = (node_hours * price).into();
            }
            row
        };
        let allocations: Vec<Value> = self
            .allocations()
            .iter()
            .map(|(name, _, pair, hours)| costing(row(json!(name), Value::Null, pair), *hours))
            .collect();
        let workers: Vec<Value> = accounts
            .workers
            .iter()
            .map(|(id, pair)| {
                let row = row(json!(id.0), json!(self.gathered.offers[id].hostname), pair);
                costing(row, accounts.node_hours([id].into_iter()))
            })
            .collect();
        let jobs: Vec<Value> = accounts
            .jobs
            .iter()
            .map(|(id, job)| {
                let mut row = row(json!(id.0), json!(self.gathered.names.get(id)), &(job.cpus, job.gpus));
                row["attempts"] = json!(job.attempts);
                costing(row, accounts.node_hours_of_cpu(job.cpus.total_seconds()))
            })
            .collect();
        let mut document = json!({
            "schema_version": SCHEMA_VERSION,
            "server_uid": self.gathered.uid,
            "from": form::time(accounts.from),
            "to": form::time(accounts.to),
            "time_to_completion": form::seconds(Duration::from_micros(accounts.ttc_us)),
            "time_to_execution": form::seconds(Duration::from_micros(accounts.ttx_us)),
            "attempts": {"finished": accounts.attempts[0], "failed": accounts.attempts[1], "lost": accounts.attempts[2]},
            "attempts_left_out": self.gathered.left_out,
            "cpus": document(&accounts.cpus),
            "gpus": document(&accounts.gpus),
            "allocations": allocations,
            "workers": workers,
            "jobs": jobs,
        });
        let energy = self.energy();
        if energy != EnergySum::default() {
            document["energy"] = json!({
                "measured_joules": energy.measured,
                "measured_workers": energy.measured_workers,
                "measured_of": energy.measured_of.iter().map(|of| of.word()).collect::<Vec<_>>(),
                "accounted_joules": energy.accounted,
                "accounted_workers": energy.accounted_workers,
                "estimated_joules": energy.estimated,
                "estimated_workers": energy.estimated_workers,
                "watts_per_cpu": self.watts_per_cpu,
            });
        }
        if self.cost.is_some() {
            document = costing(document, accounts.node_hours(accounts.presence_us.keys()));
        }
        Ok(form::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for part in PARTS {
            writeln!(out, "{} {:.3}", part.word(), self.accounts.cpus.seconds(part))?;
        }
        writeln!(out, "offered {:.3}", self.accounts.cpus.total_seconds())?;
        Ok(())
    }
}

/// A name, what is said of it, its CPU and GPU time, and its node hours.
type Row = (String, String, (Account, Account), f64);

impl Utilization {
    fn total(&self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let accounts = &self.accounts;
        let (cpus, gpus) = (&accounts.cpus, &accounts.gpus);
        let has_gpus = gpus.total() > 0;
        let mut header = vec!["Time of workers", "CPU", "Share"];
        if has_gpus {
            header.extend(["GPU", "GPU share"]);
        }
        header.extend(self.cost.map(|_| "Cost"));
        let of_cpu = |seconds| self.cost_of(accounts.node_hours_of_cpu(seconds));
        let mut rows = Vec::new();
        for part in PARTS {
            // What there was nothing of is shown only where its absence says something.
            if is_rare(part) && cpus.seconds(part) == 0.0 && gpus.seconds(part) == 0.0 {
                continue;
            }
            let mut row: Vec<Cell> = vec![name(part).into()];
            row.extend([hours(cpus.seconds(part)).into(), share(cpus, part).into()]);
            if has_gpus {
                row.extend([hours(gpus.seconds(part)).into(), share(gpus, part).into()]);
            }
            row.extend(of_cpu(cpus.seconds(part)));
            rows.push(row);
        }
        let mut row: Vec<Cell> = vec!["Offered".into(), hours(cpus.total_seconds()).into(), "100 %".into()];
        if has_gpus {
            row.extend([hours(gpus.total_seconds()).into(), "100 %".into()]);
        }
        row.extend(self.cost_of(accounts.node_hours(accounts.presence_us.keys())));
        rows.push(row);
        table(out, style, &header, &rows)?;
        let [finished, failed, lost] = accounts.attempts;
        let mut rows = vec![
            ("Looked at", format!("{} to {}", style.time(accounts.from), style.time(accounts.to)).into()),
            ("Workers", accounts.workers.len().to_string().into()),
            ("Attempts", format!("{finished} finished, {failed} failed or canceled, {lost} lost").into()),
            ("First submit to last end (TTC)", text::measured(Duration::from_micros(accounts.ttc_us)).into()),
            ("At least one task ran (TTX)", text::measured(Duration::from_micros(accounts.ttx_us)).into()),
        ];
        rows.extend(self.energy_words().map(|words| ("Energy", words.into())));
        record(out, style, rows)?;
        if self.gathered.left_out > 0 {
            let attempts = counted(self.gathered.left_out, "attempt");
            writeln!(
                out,
                "Not counted: {attempts} that do not fit into memory; use --start-time and --end-time."
            )?;
        }
        Ok(())
    }

    fn energy(&self) -> EnergySum {
        EnergySum::of(&self.gathered, &self.accounts, &self.slurm, self.watts_per_cpu)
    }

    // Always with the word that says how it is known.
    fn energy_words(&self) -> Option<String> {
        let sum = self.energy();
        let measured = (sum.measured_workers > 0).then(|| {
            let workers = counted(sum.measured_workers, "worker");
            let of: Vec<&str> = sum.measured_of.iter().map(|of| of.words()).collect();
            format!("{} measured ({}, {workers})", text::energy(sum.measured), of.join(", "))
        });
        let accounted = (sum.accounted_workers > 0).then(|| {
            let workers = counted(sum.accounted_workers, "worker");
            format!("{} accounted by Slurm ({workers})", text::energy(sum.accounted))
        });
        let estimated = self.watts_per_cpu.filter(|_| sum.estimated_workers > 0).map(|watts| {
            let workers = counted(sum.estimated_workers, "worker");
            format!("{} estimated ({watts} W per CPU, {workers})", text::energy(sum.estimated))
        });
        let words: Vec<String> = [measured, accounted, estimated].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn allocations(&self) -> Vec<Row> {
        let mut sums: BTreeMap<&str, (u64, (Account, Account), f64)> = BTreeMap::new();
        for (id, pair) in &self.accounts.workers {
            let allocation = self.gathered.offers[id].allocation.as_deref().unwrap_or("none");
            let sum = sums.entry(allocation).or_default();
            sum.0 += 1;
            sum.1.0.take(&pair.0);
            sum.1.1.take(&pair.1);
            sum.2 += self.accounts.node_hours([id].into_iter());
        }
        sums.into_iter()
            .map(|(name, (workers, pair, hours))| (name.to_owned(), counted(workers, "worker"), pair, hours))
            .collect()
    }

    fn workers(&self) -> Vec<Row> {
        let rows = self.accounts.workers.iter();
        let row = |(id, pair): (&WorkerId, &(Account, Account))| {
            let hours = self.accounts.node_hours([id].into_iter());
            (id.to_string(), self.gathered.offers[id].hostname.clone(), *pair, hours)
        };
        rows.map(row).collect()
    }

    // What so many node hours cost, where that is asked for.
    fn cost_of(&self, node_hours: f64) -> Option<Cell> {
        self.cost.map(|price| format!("{:.2}", node_hours * price).into())
    }

    fn shares(&self, out: &mut dyn Write, style: Style, what: &str, rows: Vec<Row>) -> Result<(), HqError> {
        let of = if what == "Worker" { "Node" } else { "Workers" };
        let cpus = &self.accounts.cpus;
        let parts = || PARTS.iter().filter(|part| !is_rare(**part) || cpus.seconds(**part) > 0.0);
        let mut header = vec![what, of, "CPU time"];
        header.extend(parts().map(|part| head(*part)));
        header.extend(self.cost.map(|_| "Cost"));
        let mut lines = Vec::new();
        for (name, of, (cpus, _), node_hours) in rows {
            let mut row: Vec<Cell> = vec![name.into(), of.into(), hours(cpus.total_seconds()).into()];
            row.extend(parts().map(|part| Cell::from(share(&cpus, *part))));
            row.extend(self.cost_of(node_hours));
            lines.push(row);
        }
        Ok(table(out, style, &header, &lines)?)
    }

    fn jobs(&self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let has_gpus = self.accounts.gpus.total() > 0;
        let mut header = vec!["Job", "Name", "Attempts", "CPU time", "Work", "Failed", "Lost"];
        header.extend(has_gpus.then_some("GPU time"));
        header.extend(self.cost.map(|_| "Cost"));
        let mut rows = Vec::new();
        for (id, job) in &self.accounts.jobs {
            let name = self.gathered.names.get(id).map_or("", String::as_str);
            let mut row: Vec<Cell> = vec![
                id.to_string().into(),
                name.into(),
                job.attempts.to_string().into(),
                hours(job.cpus.total_seconds()).into(),
            ];
            row.extend([Part::Work, Part::Failed, Part::Lost].map(|part| Cell::from(share(&job.cpus, part))));
            row.extend(has_gpus.then(|| Cell::from(hours(job.gpus.total_seconds()))));
            row.extend(self.cost_of(self.accounts.node_hours_of_cpu(job.cpus.total_seconds())));
            rows.push(row);
        }
        Ok(table(out, style, &header, &rows)?)
    }
}

fn document(account: &Account) -> Value {
    let mut parts = Map::new();
    for part in PARTS {
        parts.insert(part.word().to_owned(), json!(account.seconds(part)));
    }
    json!({"offered": account.total_seconds(), "parts": parts})
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Work => "Work: attempts that finished or are running",
        Part::Failed => "Failed or canceled",
        Part::Lost => "Lost: crashes, retries, second attempts",
        Part::Starting => "Start of tasks",
        Part::NoRoom => "Idle: ready tasks did not fit",
        Part::OverBudget => "Idle: the budget of the job was used up",
        Part::Dependencies => "Idle: tasks were waiting for others",
        Part::Leaving => "Idle: the worker was about to end",
        Part::NoWork => "Idle: no tasks",
        Part::Unknown => "Not known: before a compaction",
    }
}

// Shown only where there is some.
fn is_rare(part: Part) -> bool {
    matches!(part, Part::OverBudget | Part::Unknown)
}

// The same over a column.
fn head(part: Part) -> &'static str {
    match part {
        Part::Work => "Work",
        Part::Failed => "Failed",
        Part::Lost => "Lost",
        Part::Starting => "Start",
        Part::NoRoom => "No room",
        Part::OverBudget => "Budget",
        Part::Dependencies => "Waiting",
        Part::Leaving => "Leaving",
        Part::NoWork => "No task",
        Part::Unknown => "Not known",
    }
}

// `1.25 h` from an hour on, else seconds.
fn hours(seconds: f64) -> String {
    if seconds >= 3600.0 { format!("{:.2} h", seconds / 3600.0) } else { format!("{seconds:.1} s") }
}

fn share(account: &Account, part: Part) -> String {
    let total = account.total_seconds();
    if total == 0.0 { String::new() } else { format!("{:.1} %", 100.0 * account.seconds(part) / total) }
}
