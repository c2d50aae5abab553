//! Attempts as traces of OpenTelemetry, in its JSON: a trace for each job, in which each attempt is a span.
//!
//! Each line is a request as exporters make it, which the file receiver of a collector reads. Ids come from what they stand for, so
//! that a journal that is read twice gives the same spans.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use hq_model::{JobId, Timestamp};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{Attempt, Gathered, Part};

/// Spans of a line.
const SPANS_MAX: usize = 500;
/// As the protocol numbers them.
const KIND_INTERNAL: u32 = 1;
const STATUS_OK: u32 = 1;
const STATUS_ERROR: u32 = 2;

impl Gathered {
    pub(super) fn traces(&self, out: &mut BufWriter<File>) -> io::Result<()> {
        let mut jobs: BTreeMap<JobId, (Timestamp, Timestamp)> = BTreeMap::new();
        for attempt in &self.attempts {
            let job = jobs.entry(attempt.job).or_insert((attempt.leased, attempt.end));
            *job = (job.0.min(attempt.leased), job.1.max(attempt.end));
        }
        let of_jobs = jobs.iter().map(|(job, span)| self.job_span(*job, *span));
        let mut spans = of_jobs.chain(self.attempts.iter().map(|attempt| self.span(attempt)));
        loop {
            let some: Vec<Value> = spans.by_ref().take(SPANS_MAX).collect();
            if some.is_empty() {
                return Ok(());
            }
            writeln!(out, "{}", self.request(some))?;
        }
    }

    fn request(&self, spans: Vec<Value>) -> Value {
        let resource = [text("service.name", "headquarters"), text("service.instance.id", &self.uid)];
        let scope = json!({"name": "hq", "version": env!("CARGO_PKG_VERSION")});
        let scoped = json!([{"scope": scope, "spans": spans}]);
        json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": scoped}]})
    }

    fn job_span(&self, job: JobId, (start, end): (Timestamp, Timestamp)) -> Value {
        let name = self.names.get(&job).map_or("", String::as_str);
        json!({
            "traceId": self.trace_id(job),
            "spanId": self.job_id(job),
            "name": if name.is_empty() { format!("job {job}") } else { name.to_owned() },
            "kind": KIND_INTERNAL,
            "startTimeUnixNano": nanoseconds(start),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": [number("hq.job", job.0.into())],
        })
    }

    fn span(&self, attempt: &Attempt) -> Value {
        let Attempt { worker, job, task, part, leased, start, end, .. } = *attempt;
        let (code, message) = match part {
            Part::Work => (STATUS_OK, ""),
            Part::Failed => (STATUS_ERROR, "failed"),
            _ => (STATUS_ERROR, "lost"),
        };
        let taken = self.taken_by(attempt);
        json!({
            "traceId": self.trace_id(job),
            "spanId": self.id(&format!("attempt {job} {task} {worker} {} {}", leased.0, start.0), 8),
            "parentSpanId": self.job_id(job),
            "name": format!("task {job}@{task}"),
            "kind": KIND_INTERNAL,
            "startTimeUnixNano": nanoseconds(start),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": [
                number("hq.job", job.0.into()),
                number("hq.task", task.0.into()),
                number("hq.worker", worker.0.into()),
                text("host.name", self.node(worker)),
                json!({"key": "hq.cpus", "value": {"doubleValue": taken.cpus()}}),
                json!({"key": "hq.gpus", "value": {"doubleValue": taken.gpus()}}),
                text("hq.outcome", part.word()),
            ],
            "events": [{"timeUnixNano": nanoseconds(leased), "name": "handed out"}],
            "status": {"code": code, "message": message},
        })
    }

    fn trace_id(&self, job: JobId) -> String {
        self.id(&format!("trace {job}"), 16)
    }

    fn job_id(&self, job: JobId) -> String {
        self.id(&format!("job {job}"), 8)
    }

    // So many bytes, in hexadecimal digits.
    fn id(&self, of: &str, bytes: usize) -> String {
        let hash = digest(&SHA256, format!("{} {of}", self.uid).as_bytes());
        hash.as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
    }
}

// 64 bits are texts in this JSON.
fn nanoseconds(at: Timestamp) -> String {
    (u128::from(at.0) * 1000).to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use hq_model::{TaskId, WorkerId};

    use super::*;

    fn attempt(task: u32, part: Part) -> Attempt {
        let (leased, start, end) = (Timestamp(1), Timestamp(2), Timestamp(1_000_000));
        let (worker, job) = (WorkerId(1), JobId(3));
        Attempt { worker, job, task: TaskId(task), part, leased, start, end, leads: true }
    }

    #[test]
    fn each_line_is_a_request_of_a_trace_for_each_job() {
        let mut gathered = Gathered::default();
        gathered.uid = "a1B2c3".into();
        gathered.names.insert(JobId(3), "dock".into());
        gathered.attempts = (0..SPANS_MAX as u32).map(|task| attempt(task, Part::Work)).collect();
        gathered.attempts.push(attempt(7_000, Part::Failed));
        let (mut file, mut written) = (tempfile::tempfile().expect("a file"), String::new());
        let mut out = BufWriter::new(file.try_clone().expect("the file"));
        gathered.traces(&mut out).and_then(|()| out.flush()).expect("room");
        std::io::Seek::rewind(&mut file).and_then(|()| file.read_to_string(&mut written)).expect("a text");
        let lines: Vec<Value> =
            written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let spans = |line: &Value| {
            line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
        };
        let (first, second) = (spans(&lines[0]), spans(&lines[1]));
        assert_eq!((lines.len(), first.len(), second.len()), (2, SPANS_MAX, 2));
        let (job, failed) = (&first[0], &second[1]);
        assert_eq!((&job["name"], &job["parentSpanId"]), (&json!("dock"), &Value::Null));
        assert_eq!((&failed["traceId"], &failed["parentSpanId"]), (&job["traceId"], &job["spanId"]));
        assert_eq!(
            (&failed["startTimeUnixNano"], &failed["endTimeUnixNano"]),
            (&json!("2000"), &json!("1000000000"))
        );
        assert_eq!(failed["status"], json!({"code": 2, "message": "failed"}));
        let length = |id: &Value| id.as_str().map_or(0, str::len);
        assert_eq!((length(&job["traceId"]), length(&job["spanId"])), (32, 16));
        let mut ids: Vec<_> = first.iter().chain(&second).map(|span| span["spanId"].to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), SPANS_MAX + 2);
    }
}
