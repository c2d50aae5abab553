//! Attempts as files for other programs: a table, a trace for Chrome and Perfetto, and events in the columns of RADICAL-Pilot.
//! What OpenTelemetry reads is in `traces`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use hq_model::{Timestamp, WorkerId};
use serde_json::json;

use super::lanes::Lanes;
use super::{Attempt, Gathered, Part};
use crate::cli::journal::ProfileFormat;
use crate::replaced::replace;

// Writes one of the files.
type Content = fn(&Gathered, &mut BufWriter<File>) -> io::Result<()>;

// Of which moment of an attempt a line tells.
type Moment = fn(&Attempt) -> Timestamp;

impl Gathered {
    /// Writes files into a directory, which is made. How many attempts there are.
    pub(crate) fn write_profile(&self, dir: &Path, formats: &[ProfileFormat]) -> io::Result<u64> {
        std::fs::create_dir_all(dir)?;
        let write = |name: &str, part: Content| {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            replace(&dir.join(name), |out| part(self, out)).map_err(named)
        };
        for format in formats {
            match format {
                ProfileFormat::Csv => write("attempts.csv", Gathered::table)?,
                ProfileFormat::Chrome => write("trace.json", Gathered::trace)?,
                ProfileFormat::Radical => write("headquarters.prof", Gathered::events)?,
                ProfileFormat::Otlp => write("otlp.jsonl", Gathered::traces)?,
            }
        }
        Ok(self.attempts.iter().filter(|attempt| attempt.leads).count() as u64)
    }

    fn table(&self, out: &mut BufWriter<File>) -> io::Result<()> {
        writeln!(out, "job,name,task,worker,node,outcome,handed_out,started,ended,cpus,gpus")?;
        for attempt in &self.attempts {
            let taken = self.taken_by(attempt);
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{}",
                attempt.job,
                field(self.name(attempt)),
                attempt.task,
                attempt.worker,
                field(self.node(attempt.worker)),
                attempt.part.word(),
                seconds(attempt.leased),
                seconds(attempt.start),
                seconds(attempt.end),
                taken.cpus(),
                taken.gpus(),
            )?;
        }
        Ok(())
    }

    // Workers are processes, and attempts that run at the same time are on lanes, which are threads.
    fn trace(&self, out: &mut BufWriter<File>) -> io::Result<()> {
        let mut places: Vec<u32> = (0u32..).zip(&self.attempts).map(|(place, _)| place).collect();
        places.sort_unstable_by_key(|place| {
            let attempt = &self.attempts[*place as usize];
            (attempt.worker, attempt.start, attempt.job, attempt.task)
        });
        let attempts = places.into_iter().map(|place| &self.attempts[place as usize]);
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        for (place, (id, offer)) in self.offers.iter().enumerate() {
            let name = format!("worker {id} ({})", offer.hostname);
            let event = json!({"ph": "M", "name": "process_name", "pid": id.0, "args": {"name": name}});
            write!(out, "{}{event}", if place > 0 { ",\n" } else { "" })?;
        }
        let mut lanes = Lanes::default();
        for attempt in attempts {
            let event = json!({
                "ph": "X",
                "name": self.name(attempt),
                "cat": attempt.part.word(),
                "ts": attempt.start.0,
                "dur": attempt.end.0 - attempt.start.0,
                "pid": attempt.worker.0,
                "tid": lanes.lane(attempt),
                "args": {"job": attempt.job.0, "task": attempt.task.0, "outcome": attempt.part.word()},
            });
            write!(out, ",\n{event}")?;
        }
        out.write_all(b"\n]}\n")?;
        Ok(())
    }

    fn events(&self, out: &mut BufWriter<File>) -> io::Result<()> {
        let mut lines: Vec<(Timestamp, u8, String)> = Vec::new();
        for (id, offer) in &self.offers {
            let pilot = format!("pilot.{:04}", id.0);
            lines.push((
                offer.joined,
                0,
                format!("advance,worker,,{pilot},PMGR_ACTIVE,{}", field(&offer.hostname)),
            ));
            if let Some(ended) = offer.ended {
                lines.push((ended, 9, format!("advance,worker,,{pilot},DONE,")));
            }
        }
        lines.sort_unstable();
        // Neither the texts of millions of attempts nor their times would have room: their places are sorted.
        let moments: [(u8, Moment); 3] =
            [(1, |attempt| attempt.leased), (2, |attempt| attempt.start), (3, |attempt| attempt.end)];
        let mut queues = moments.map(|(kind, at)| {
            let leads = (0u32..).zip(&self.attempts).filter(|(_, attempt)| attempt.leads);
            let mut places: Vec<u32> = leads.map(|(place, _)| place).collect();
            places.sort_unstable_by_key(|place| (at(&self.attempts[*place as usize]), *place));
            let attempts = places.into_iter().map(|place| &self.attempts[place as usize]);
            attempts.map(move |attempt| (at(attempt), kind, attempt)).peekable()
        });
        writeln!(out, "#time,event,comp,thread,uid,state,msg")?;
        let mut lines = lines.into_iter().peekable();
        let mut next = || {
            let heads = queues.iter_mut().enumerate();
            let heads =
                heads.filter_map(|(queue, head)| head.peek().map(|(at, kind, _)| (*at, *kind, queue)));
            heads.min().and_then(|(_, _, queue)| queues[queue].next())
        };
        while let Some((at, kind, attempt)) = next() {
            while let Some((at, _, line)) = lines.next_if(|line| (line.0, line.1) <= (at, kind)) {
                writeln!(out, "{},{line}", seconds(at))?;
            }
            self.event(out, at, kind, attempt)?;
        }
        for (at, _, line) in lines {
            writeln!(out, "{},{line}", seconds(at))?;
        }
        Ok(())
    }

    fn event(&self, out: &mut BufWriter<File>, at: Timestamp, kind: u8, attempt: &Attempt) -> io::Result<()> {
        let (at, pilot) = (seconds(at), attempt.worker.0);
        let task = format!("task.{}.{}", attempt.job, attempt.task);
        match kind {
            1 => writeln!(out, "{at},schedule_ok,server,,{task},AGENT_SCHEDULING,pilot.{pilot:04}"),
            2 => writeln!(out, "{at},exec_start,worker,,{task},AGENT_EXECUTING,pilot.{pilot:04}"),
            _ => {
                writeln!(out, "{at},exec_stop,worker,,{task},AGENT_EXECUTING,{}", attempt.part.word())?;
                match attempt.part {
                    Part::Work => writeln!(out, "{at},advance,server,,{task},DONE,"),
                    Part::Failed => writeln!(out, "{at},advance,server,,{task},FAILED,"),
                    // It goes on elsewhere.
                    _ => Ok(()),
                }
            }
        }
    }

    /// The name of its job.
    pub(super) fn name(&self, attempt: &Attempt) -> &str {
        self.names.get(&attempt.job).map_or("", String::as_str)
    }

    /// The name of a node; empty where it is forgotten.
    pub(super) fn node(&self, worker: WorkerId) -> &str {
        self.offers.get(&worker).map_or("", |offer| offer.hostname.as_str())
    }
}

// Seconds since 1970, exactly.
fn seconds(at: Timestamp) -> String {
    format!("{}.{:06}", at.0 / 1_000_000, at.0 % 1_000_000)
}

// As RFC 4180 has it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
