//! Requests that no frame can carry: they are refused before anything of them leaves.

use std::fmt;

use hq_core::client_messages::{ClientRequest, NewTasks};
use hq_core::feed::FeedOrder;
use hq_model::Submit;
use hq_net::limits::CLIENT_FRAME_MAX;

const MIB: usize = 1 << 20;

/// A request that is larger than a request may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What it has on the wire, in bytes, or a little less.
    pub bytes: usize,
    /// What it may have, in bytes.
    pub most: usize,
    /// It submits tasks: the largest part of them, and its bytes.
    pub part: Option<(&'static str, usize)>,
}

impl TooLarge {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self.part {
            Some(_) => {
                "use `hq job open` and several submissions with --job; put large data into files that the tasks \
                 read, or into objects (`hq object put`)"
            }
            None => "ask for less at once",
        }
    }

    /// What is known of a request by its parts, without encoding it.
    pub(crate) fn check(request: &ClientRequest) -> Result<(), TooLarge> {
        check(&submits(request), CLIENT_FRAME_MAX)
    }

    /// The same of requests that each have one of these submits, or more.
    pub(crate) fn check_each(submits: &[Submit]) -> Result<(), TooLarge> {
        submits.iter().try_for_each(|submit| check(&[submit], CLIENT_FRAME_MAX))
    }

    /// A request that takes so many bytes.
    pub(crate) fn of(request: &ClientRequest, bytes: usize, most: usize) -> TooLarge {
        of(&submits(request), bytes, most)
    }
}

impl std::error::Error for TooLarge {}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.part.is_some() { "The submit" } else { "The request" };
        write!(f, "{what} has {}, but the maximum is {} MiB", size(self.bytes), self.most / MIB)?;
        match self.part {
            Some((part, bytes)) => write!(f, ": {part} alone have {}. Nothing was sent.", size(bytes)),
            None => write!(f, ". Nothing was sent."),
        }
    }
}

// Never rounded to what is allowed.
fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes < MIB => format!("{bytes} bytes"),
        bytes if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        bytes => format!("{:.1} MiB", (bytes as f64 / MIB as f64 * 10.0).ceil() / 10.0),
    }
}

fn check(submits: &[&Submit], most: usize) -> Result<(), TooLarge> {
    let bytes = parts(submits).iter().map(|part| part.1).sum();
    if bytes > most { Err(of(submits, bytes, most)) } else { Ok(()) }
}

fn of(submits: &[&Submit], bytes: usize, most: usize) -> TooLarge {
    let part = parts(submits).into_iter().max_by_key(|part| part.1).filter(|part| part.1 > 0);
    TooLarge { bytes, most, part }
}

// Each with its bytes, without what says where they begin and end.
fn parts(submits: &[&Submit]) -> [(&'static str, usize); 5] {
    let mut found = [
        ("its entries", 0),
        ("its keys", 0),
        ("the arguments and functions of its tasks", 0),
        ("the variables of its tasks", 0),
        ("the contents of standard input", 0),
    ];
    for submit in submits {
        let spec = &submit.spec;
        let env = spec.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        let body = spec.body.texts_len();
        let sizes = [submit.entries.bytes_len(), submit.keys.bytes_len(), body, env, spec.stdin.len()];
        found.iter_mut().zip(sizes).for_each(|(part, bytes)| part.1 += bytes);
    }
    found
}

fn submits(request: &ClientRequest) -> Vec<&Submit> {
    match request {
        ClientRequest::Submit { submit, .. } => vec![submit],
        ClientRequest::SubmitAll { submits, .. } => submits.iter().collect(),
        ClientRequest::SubmitJobs { jobs, .. } => jobs.iter().flat_map(|job| of_job(&job.tasks)).collect(),
        ClientRequest::Feed(request) => match &request.order {
            FeedOrder::Add { submits, .. } => submits.iter().collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn of_job(tasks: &NewTasks) -> Vec<&Submit> {
    match tasks {
        NewTasks::Submits(submits) => submits.iter().collect(),
        NewTasks::Fed { generator, reducer } => {
            [Some(generator), reducer.as_ref()].into_iter().flatten().map(|own| &**own).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_core::feed::FeedRequest;
    use hq_model::job::{Target, TaskIds};
    use hq_model::{Body, Entries, Instance, JobId, JobSpec, TaskId, TaskRef, TaskSpec};

    use super::*;

    fn submit(entries: &[&str], stdin: &str) -> Submit {
        let spec = TaskSpec { body: Body::program(["cat"]), stdin: stdin.into(), ..TaskSpec::default() };
        let mut submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec);
        submit.entries = Entries::new(entries.iter().map(|entry| entry.as_bytes())).expect("short ones");
        submit
    }

    fn said(request: &ClientRequest, most: usize) -> String {
        check(&submits(request), most).map_or_else(|error| error.to_string(), |()| "fits".to_owned())
    }

    #[test]
    fn what_is_too_large_is_said_with_its_largest_part() {
        let long = "x".repeat(MIB + MIB / 2);
        let one = |submit| ClientRequest::Submit { key: 1, submit: Box::new(submit) };
        let cases = [
            (one(submit(&["a"], "b")), "fits"),
            (
                one(submit(&["a", &long], "b")),
                "The submit has 1.6 MiB, but the maximum is 1 MiB: its entries alone have 1.6 MiB. Nothing was sent.",
            ),
            (
                ClientRequest::SubmitAll {
                    key: 1,
                    submits: vec![submit(&[&long], ""), submit(&[], &long), submit(&[&long], "")],
                },
                "The submit has 4.6 MiB, but the maximum is 1 MiB: its entries alone have 3 MiB. Nothing was sent.",
            ),
            (
                ClientRequest::Feed(Box::new(FeedRequest {
                    by: TaskRef::new(JobId(1), TaskId(0)),
                    instance: Instance(0),
                    order: FeedOrder::Add {
                        at: 0,
                        submits: vec![submit(&[], &long)],
                        cursor: None,
                        is_last: false,
                    },
                })),
                "The submit has 1.6 MiB, but the maximum is 1 MiB: the contents of standard input alone have 1.5 MiB. \
                 Nothing was sent.",
            ),
        ];
        for (request, expected) in cases {
            assert_eq!(said(&request, MIB), expected);
        }
    }

    #[test]
    fn what_is_known_by_parts_is_never_more_than_what_is_sent() {
        let request = ClientRequest::Submit { key: 1, submit: Box::new(submit(&["", "a", "bc"], "d")) };
        let bytes = hq_proto::encode_client_request(1, &request).len();
        assert_eq!(said(&request, bytes), "fits");
        assert!(parts(&submits(&request)).iter().map(|part| part.1).sum::<usize>() > 0);
    }

    #[test]
    fn what_submits_nothing_has_no_parts() {
        let error = TooLarge::of(&ClientRequest::ServerInfo, MIB + 1, MIB);
        assert_eq!(error.to_string(), "The request has 1.1 MiB, but the maximum is 1 MiB. Nothing was sent.");
    }
}
