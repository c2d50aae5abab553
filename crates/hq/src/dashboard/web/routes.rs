//! What can be asked of the dashboard over HTTP: paths, what they take, and what they mean. Requests and the description of
//! the interface are both read from this table.

use std::ops::RangeInclusive;

use hyper::Method;

use crate::error::HqError;

/// A path, with the names of its parts that are ids in braces.
pub(super) struct Route {
    /// It changes something, and is asked with `POST`; otherwise with `GET`.
    pub is_order: bool,
    /// As the description has it.
    pub path: &'static str,
    /// What is asked.
    pub name: Name,
    /// What it does in a sentence.
    pub about: &'static str,
    /// What may stand behind the `?`.
    pub query: &'static [Parameter],
    /// The name of what is answered.
    pub schema: &'static str,
}

/// What may stand behind the `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// It is a number.
    pub is_number: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Overview,
    Series,
    Load,
    Jobs,
    Job,
    Failures,
    Layers,
    Timeline,
    Tasks,
    Task,
    Explain,
    Output,
    Workers,
    Worker,
    WorkerTasks,
    Allocations,
    Queue,
    Events,
    Description,
    Cancel,
    Resubmit,
    Stop,
    Pause,
    Resume,
}

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, is_number: false }
}

const fn number(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, is_number: true }
}

const fn get(path: &'static str, name: Name, about: &'static str, schema: &'static str) -> Route {
    Route { is_order: false, path, name, about, query: &[], schema }
}

const fn post(path: &'static str, name: Name, about: &'static str) -> Route {
    Route { is_order: true, path, name, about, query: &[], schema: "Done" }
}

impl Route {
    const fn with(self, query: &'static [Parameter]) -> Route {
        Route { query, ..self }
    }

    /// How it is asked.
    pub(super) fn method(&self) -> Method {
        if self.is_order { Method::POST } else { Method::GET }
    }
}

/// All of them.
pub(super) static ROUTES: [Route; 24] = [
    get("/api/v1/overview", Name::Overview, "All counts.", "Overview"),
    get("/api/v1/series", Name::Series, "The counts over time since the dashboard was started.", "Series"),
    get("/api/v1/load", Name::Load, "The load of nodes over time: CPUs, memory, GPUs, network, disks.", "Load").with(&[
        number("worker", "Only the node of this worker; by default, all nodes."),
        text("time", "How far to go back: `1h` (the default), at most two days."),
    ]),
    get("/api/v1/jobs", Name::Jobs, "Jobs, a page at a time.", "Jobs").with(&[
        text("text", "Only jobs with this text in their name (ignoring case), or with this id."),
        text("state", "Only jobs in one of these states, separated by commas."),
        text("sort", "`latest` (the default), or `name`, `busy`, `failed` among the latest thousand matching jobs."),
        number("before", "With `latest`: only jobs before this one; use `next` of the previous page."),
        number("limit", "Maximum number of results: 100 by default, at most 1000."),
    ]),
    get("/api/v1/jobs/{job}", Name::Job, "A job, as printed by `hq job info`, with its first submissions.", "Job"),
    get(
        "/api/v1/jobs/{job}/failures",
        Name::Failures,
        "Why tasks of a job failed, as printed by `hq job failures`.",
        "Failures",
    ),
    get(
        "/api/v1/jobs/{job}/layers",
        Name::Layers,
        "Progress of each layer of a job's graph: tasks with the same number of dependencies in sequence.",
        "Layers",
    ),
    get(
        "/api/v1/jobs/{job}/timeline",
        Name::Timeline,
        "How many tasks of a job ran at what time, by their last attempts, and which of these took longest.",
        "Timeline",
    ),
    get("/api/v1/jobs/{job}/tasks", Name::Tasks, "Tasks of a job, a page at a time.", "Tasks").with(&[
        text("state", "Only tasks in one of these states, separated by commas."),
        number("after", "Only tasks after this one; use `next` of the previous page."),
        number("limit", "Maximum number of results: 100 by default, at most 1000."),
    ]),
    get("/api/v1/jobs/{job}/tasks/{task}", Name::Task, "A task, as printed by `hq task info`.", "Task"),
    get(
        "/api/v1/jobs/{job}/tasks/{task}/explain",
        Name::Explain,
        "What a task is waiting for, as printed by `hq task explain`.",
        "Explanation",
    ),
    get("/api/v1/jobs/{job}/tasks/{task}/output", Name::Output, "The end of a task's output.", "Output")
        .with(&[text("channel", "`stdout` (the default) or `stderr`.")]),
    get("/api/v1/workers", Name::Workers, "Workers, a page at a time.", "Workers").with(&[
        text("state", "`running` (the default), `offline` or `all`."),
        number("after", "Only workers after this one; use `next` of the previous page."),
        number("limit", "Maximum number of results: 100 by default, at most 1000."),
    ]),
    get("/api/v1/workers/{worker}", Name::Worker, "A worker, as printed by `hq worker info`.", "Worker"),
    get(
        "/api/v1/workers/{worker}/tasks",
        Name::WorkerTasks,
        "Tasks that are on a worker now: those that run there first.",
        "WorkerTasks",
    )
    .with(&[number("limit", "Maximum number of results: 100 by default, at most 1000.")]),
    get(
        "/api/v1/allocations",
        Name::Allocations,
        "Queues, as printed by `hq alloc list`, each with its latest 200 allocations.",
        "Allocations",
    ),
    get(
        "/api/v1/queues/{queue}/explain",
        Name::Queue,
        "What a queue requests and why, as printed by `hq alloc explain`.",
        "QueueExplanation",
    ),
    get("/api/v1/events", Name::Events, "Events as they happen, as server-sent events.", "Event").with(&[
        text("kind", "Only these kinds, separated by commas: `overview` (the default), `server`, `job`, `task`, \
            `worker`, `allocation`."),
        text("jobs", "Only events of these jobs, such as `1-3,7`."),
        text("after", "Continue after the event with this `id`, like the header `Last-Event-ID`; `0` for all past events."),
    ]),
    get("/api/v1/openapi.json", Name::Description, "This description.", "Description"),
    post("/api/v1/jobs/{job}/cancel", Name::Cancel, "Cancels all tasks of a job that have not ended."),
    post(
        "/api/v1/jobs/{job}/resubmit",
        Name::Resubmit,
        "Resubmits the failed and canceled tasks of a job as a new job.",
    ),
    post("/api/v1/workers/{worker}/stop", Name::Stop, "Lets a worker finish its running tasks and then stops it."),
    post("/api/v1/queues/{queue}/pause", Name::Pause, "Stops requesting allocations for a queue."),
    post("/api/v1/queues/{queue}/resume", Name::Resume, "Requests allocations for a queue again."),
];

/// What a path leads to.
pub(super) enum Found {
    /// To this, with the ids in the path.
    Route(&'static Route, Vec<u32>),
    /// To something that takes this method alone.
    Only(Method),
    /// To something, but for an id that is none.
    NoId(&'static str, String),
    /// Nowhere.
    Nothing,
}

/// Looks a path up. `HEAD` is as `GET`.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut found = Found::Nothing;
    for route in &ROUTES {
        match ids(route.path, path) {
            None => {}
            Some(Err((name, word))) => found = Found::NoId(name, word),
            Some(Ok(ids)) if route.method() == *method => return Found::Route(route, ids),
            Some(Ok(_)) => found = Found::Only(route.method()),
        }
    }
    found
}

type Ids = Result<Vec<u32>, (&'static str, String)>;

// The ids in a path of this form.
fn ids(form: &'static str, path: &str) -> Option<Ids> {
    let (mut parts, mut words) = (form.split('/'), path.split('/'));
    let mut ids = Ok(Vec::new());
    loop {
        match (parts.next(), words.next()) {
            (None, None) => return Some(ids),
            (Some(part), Some(word)) => {
                match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                    Some(name) => match (word.parse(), &mut ids) {
                        (Ok(id), Ok(ids)) => ids.push(id),
                        (Err(_), Ok(_)) => ids = Err((name, word.to_owned())),
                        (_, Err(_)) => {}
                    },
                    None if part == word => {}
                    None => return None,
                }
            }
            _ => return None,
        }
    }
}

/// What stands behind the `?` of a request.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Reads it. What the route does not take is an error: a word that is not understood would be left out in silence.
    pub(super) fn parse(route: &Route, text: Option<&str>) -> Result<Query, HqError> {
        let mut all: Vec<(&'static str, String)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name), decode(value));
            let Some(known) = route.query.iter().find(|known| known.name == name) else {
                let takes: Vec<&str> = route.query.iter().map(|known| known.name).collect();
                let takes = if takes.is_empty() { "nothing".to_owned() } else { takes.join(", ") };
                return Err(invalid(format!("`{name}` is not known; {} accepts {takes}", route.path)));
            };
            if all.iter().any(|(before, _)| *before == known.name) {
                return Err(invalid(format!("`{name}` is given twice")));
            }
            all.push((known.name, value));
        }
        Ok(Query(all))
    }

    /// A text; empty when it is not given.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// A number that may be an id, if it is given.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, HqError> {
        self.number_in(name, 0..=u32::MAX)
    }

    /// A number within these bounds, if it is given.
    pub(super) fn number_in(&self, name: &str, allowed: RangeInclusive<u32>) -> Result<Option<u32>, HqError> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| allowed.contains(number));
        let (first, last) = (allowed.start(), allowed.end());
        let wrong = || invalid(format!("`{name}={value}` is not a number from {first} to {last}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// Words with commas between them.
    pub(super) fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, HqError> {
        let words = self.text(name).split(',').filter(|word| !word.is_empty());
        words.map(|word| read(word).map_err(|error| invalid(format!("`{name}`: {error}")))).collect()
    }
}

/// The error of a request that cannot be understood.
pub(super) fn invalid(text: String) -> HqError {
    HqError::failed("invalid", text).hint("see GET /api/v1/openapi.json")
}

/// The error of a request about something with an id that is none. A number that is larger than all ids is not found,
/// as others are not.
pub(super) fn no_id(name: &'static str, word: &str) -> HqError {
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return invalid(format!("`{word}` is not an id of a {name}: ids are numbers"));
    }
    let (code, title) = match name {
        "job" => ("no-job", "Job"),
        "task" => ("no-task", "Task"),
        "worker" => ("no-worker", "Worker"),
        _ => ("no-queue", "Queue"),
    };
    HqError::failed(code, format!("{title} {word} not found: ids go up to {}.", u32::MAX))
}

/// A text as it was before a browser wrote it into an address.
pub(super) fn decode(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let (mut decoded, mut place) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(place) {
        place += 1;
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => match (digit(bytes.get(place)), digit(bytes.get(place + 1))) {
                (Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    place += 2;
                }
                _ => decoded.push(b'%'),
            },
            byte => decoded.push(*byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &Method, path: &str) -> String {
        match find(method, path) {
            Found::Route(route, ids) => format!("{:?} {ids:?}", route.name),
            Found::Only(method) => format!("only {method}"),
            Found::NoId(name, word) => format!("no {name}: {word}"),
            Found::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn paths_lead_where_the_table_says() {
        for (method, path, expected) in [
            (Method::GET, "/api/v1/overview", "Overview []"),
            (Method::HEAD, "/api/v1/overview", "Overview []"),
            (Method::GET, "/api/v1/jobs/3/tasks/17", "Task [3, 17]"),
            (Method::GET, "/api/v1/jobs/3/cancel", "only POST"),
            (Method::POST, "/api/v1/jobs/3/cancel", "Cancel [3]"),
            (Method::DELETE, "/api/v1/jobs/3", "only GET"),
            (Method::GET, "/api/v1/workers/3/tasks", "WorkerTasks [3]"),
            (Method::GET, "/api/v1/jobs/x", "no job: x"),
            (Method::GET, "/api/v1/jobs/4294967296", "no job: 4294967296"),
            (Method::GET, "/api/v1/jobs/", "no job: "),
            (Method::GET, "/api/v1/jobs/3/", "nothing"),
            (Method::GET, "/api/v2/jobs", "nothing"),
            (Method::GET, "/api/v1/jobs/3/../4", "nothing"),
        ] {
            assert_eq!(found(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_number_larger_than_all_ids_is_not_found() {
        for (name, word, code) in [
            ("job", "4294967296", "no-job"),
            ("task", "99999999999999999999", "no-task"),
            ("worker", "4294967296", "no-worker"),
            ("queue", "4294967296", "no-queue"),
            ("job", "x", "invalid"),
            ("job", "", "invalid"),
            ("task", "-1", "invalid"),
        ] {
            let error = no_id(name, word);
            assert_eq!(error.code, code, "{name} {word}");
            assert!(error.text.contains(word), "{}", error.text);
        }
    }

    #[test]
    fn every_route_is_found_by_its_path() {
        for route in &ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let path = ["job", "task", "worker", "queue"].iter().fold(path, |path, name| {
                path.split('/')
                    .map(|part| if part == *name { "7" } else { part })
                    .collect::<Vec<_>>()
                    .join("/")
            });
            match find(&route.method(), &path) {
                Found::Route(found, _) => assert_eq!(found.name, route.name),
                _ => panic!("{path}"),
            }
        }
    }

    #[test]
    fn a_query_is_read_or_refused() {
        let route = ROUTES.iter().find(|route| route.name == Name::Jobs).expect("a route");
        let query = Query::parse(route, Some("text=a%20b%2f+c&limit=7&state=running,failed")).expect("known");
        assert_eq!((query.text("text"), query.number("limit").expect("a number")), ("a b/ c", Some(7)));
        assert_eq!(query.number("before").expect("none"), None);
        let words = query.list("state", |word| Ok(word.to_owned())).expect("words");
        assert_eq!(words, ["running", "failed"]);
        for (text, words) in [
            ("colour=red", "`colour` is not known; /api/v1/jobs accepts text, state, sort, before, limit"),
            ("limit=1&limit=2", "`limit` is given twice"),
        ] {
            assert_eq!(Query::parse(route, Some(text)).expect_err(text).text, words);
        }
        for (text, words) in [
            ("limit=-1", "`limit=-1` is not a number from 1 to 1000"),
            ("limit=abc", "`limit=abc` is not a number from 1 to 1000"),
            ("limit=", "`limit=` is not a number from 1 to 1000"),
            ("limit", "`limit=` is not a number from 1 to 1000"),
            ("limit=1001", "`limit=1001` is not a number from 1 to 1000"),
        ] {
            let query = Query::parse(route, Some(text)).expect("known");
            assert_eq!(query.number_in("limit", 1..=1000).expect_err(text).text, words);
        }
        let query = Query::parse(route, Some("before=")).expect("known");
        let error = query.number("before").expect_err("no number").text;
        assert_eq!(error, "`before=` is not a number from 0 to 4294967295");
    }

    #[test]
    fn what_is_no_code_stays() {
        for (text, plain) in [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%C3%A4", "ä"), ("%ff", "\u{fffd}")]
        {
            assert_eq!(decode(text), plain, "{text}");
        }
    }
}
