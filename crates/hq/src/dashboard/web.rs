//! The dashboard in a browser: this command serves it on this machine, and asks the server as any other client does.
//!
//! `routes` says what can be asked, `answers` and `stream` answer, `guard` says who may, `files` has the page.

mod answers;
mod askers;
mod files;
mod guard;
mod openapi;
mod place;
mod present;
mod routes;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;

use hq_client::error::EXIT_NO_SERVER;
use hq_model::{JobId, QueueId, TaskId, TaskRef, WorkerId};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use self::answers::Asked;
use self::askers::{ANSWER_TIME, Askers};
use self::guard::Guard;
use self::place::Bound;
use self::present::Present;
use self::routes::{Found, Name, Query, Route};
use self::stream::{PATIENCE, READERS_MAX, Reply, WATCHERS_MAX, Watched};
use super::wants::Action;
use crate::error::HqError;
use crate::http::{self, Held};
use crate::render;
use crate::signals::Signals;

pub(crate) use self::place::WebPlace;

/// Where a browser comes back to after it was cut off.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A link that opens the dashboard once.
pub(crate) struct Served {
    /// The address.
    pub link: String,
    /// The command that makes it reachable from another machine.
    pub tunnel: String,
    /// Without that it is reachable from nowhere.
    pub needs_tunnel: bool,
    /// The one before was used.
    pub is_next: bool,
}

/// Serves until a signal comes. `tell` hears of each link.
pub(crate) fn serve(
    server_dir: PathBuf,
    place: &WebPlace,
    allows_actions: bool,
    mut tell: impl FnMut(Served) -> Result<(), HqError>,
) -> Result<(), HqError> {
    let (guard, first) = Guard::new()?;
    let (next, mut links) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        guard,
        present: Present::watch(&server_dir, allows_actions)?,
        askers: Askers::start(&server_dir)?,
        allows_actions,
        watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
        readers: Arc::new(Semaphore::new(READERS_MAX)),
        links: next,
        server_dir,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        let (listener, bound) = Bound::listen(place).await?;
        let link = |token: &str, is_next| Served {
            link: bound.link(token),
            tunnel: bound.tunnel(),
            needs_tunnel: bound.needs_tunnel(),
            is_next,
        };
        tell(link(&first, false))?;
        let answered = Arc::clone(&shared);
        let serving = http::serve(listener, None, move |request, held| {
            let shared = Arc::clone(&answered);
            async move { shared.answer(request, held).await }
        });
        let mut serving = std::pin::pin!(serving);
        loop {
            tokio::select! {
                served = &mut serving => match served? {},
                Some(token) = links.recv() => tell(link(&token, true))?,
                _ = signals.next() => return Ok(()),
            }
        }
    })
}

// What all requests share.
struct Shared {
    guard: Guard,
    present: Present,
    askers: Askers,
    allows_actions: bool,
    watchers: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    links: mpsc::UnboundedSender<String>,
    server_dir: PathBuf,
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>, held: Held) -> Response<Reply> {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let Some(host) = guard::host(headers) else {
            let text = "Open this address as 127.0.0.1, [::1] or localhost: another name may belong to a foreign \
                page.\n";
            if uri.path().starts_with("/api/") {
                return refusal(&HqError::failed("foreign-host", text.trim_end()));
            }
            return files::sentence(StatusCode::MISDIRECTED_REQUEST, text);
        };
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        if let Some(file) = files::find(uri.path()) {
            if !is_read {
                return only(&Method::GET);
            }
            let token = uri.query().filter(|_| uri.path() == "/").and_then(token);
            // A link may be followed from anywhere, which says no origin.
            if token.is_some() && headers.contains_key(ORIGIN) && !guard::is_same_origin(headers, host) {
                return foreign_origin();
            }
            return match token {
                Some(token) if *method == Method::GET => self.open(&token, headers),
                _ => file.answer(headers),
            };
        }
        if !uri.path().starts_with("/api/") {
            return files::sentence(StatusCode::NOT_FOUND, "Not found: the dashboard is at /.\n");
        }
        if !guard::is_same_site(headers, host) {
            return foreign_origin();
        }
        if !self.guard.knows(headers) {
            let error = HqError::failed("no-session", "this browser has no session with this dashboard");
            return refusal(&error.hint("open the latest link printed by the command; each link works once"));
        }
        let (route, ids) = match routes::find(method, uri.path()) {
            Found::Route(route, ids) => (route, ids),
            Found::Only(method) => return only(&method),
            Found::NoId(name, word) => return refusal(&routes::no_id(name, &word)),
            Found::Nothing => {
                let error = HqError::failed("no-path", format!("there is nothing at {}", uri.path()));
                return refusal(&error.hint("see GET /api/v1/openapi.json"));
            }
        };
        if route.is_order && !guard::is_same_origin(headers, host) {
            let error =
                HqError::failed("foreign-origin", "a request that changes something must have an origin");
            return refusal(&error.hint(format!("send the header `Origin: http://{host}`")));
        }
        let answered = match Query::parse(route, uri.query()) {
            Ok(query) if route.name == Name::Events => {
                let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
                self.events(&query, last_id, held).await
            }
            Ok(query) => {
                let document = self.document(route, &ids, &query).await;
                document.map(|document| json(StatusCode::OK, &versioned(document)))
            }
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| refusal(&error))
    }

    // A browser that has a session already may open its link again.
    fn open(&self, token: &str, headers: &hyper::HeaderMap) -> Response<Reply> {
        match self.guard.trade(token) {
            Ok(Some(opened)) => {
                // The command may be ending.
                let _ = self.links.send(opened.next);
                let mut response = files::opened();
                if let Ok(cookie) = HeaderValue::from_str(&opened.cookie) {
                    response.headers_mut().insert(SET_COOKIE, cookie);
                }
                response
            }
            Ok(None) if self.guard.knows(headers) => files::opened(),
            Ok(None) => files::refused(),
            Err(error) => refusal(&error),
        }
    }

    async fn document(&self, route: &Route, ids: &[u32], query: &Query) -> Result<Value, HqError> {
        let id = |place: usize| ids.get(place).copied().unwrap_or_default();
        let job = JobId(id(0));
        let task = TaskRef::new(job, TaskId(id(1)));
        let asked = match route.name {
            Name::Overview => return Ok(self.present.overview()),
            Name::Series => return Ok(self.present.series()),
            // Streams are answered before.
            Name::Description | Name::Events => return openapi::document(),
            Name::Load => Asked::load(query)?,
            Name::Jobs => Asked::jobs(query)?,
            Name::Job => Asked::Job(job),
            Name::Failures => Asked::Failures(job),
            Name::Layers => Asked::Layers(job),
            Name::Timeline => Asked::Timeline(job),
            Name::Tasks => Asked::tasks(job, query)?,
            Name::Task => Asked::Task(task),
            Name::Explain => Asked::Explain(task),
            Name::Output => Asked::output(task, query)?,
            Name::Workers => Asked::workers(query)?,
            Name::Worker => Asked::Worker(WorkerId(id(0))),
            Name::WorkerTasks => Asked::tasks_on(WorkerId(id(0)), query)?,
            Name::Allocations => Asked::Allocations,
            Name::Queue => Asked::Queue(QueueId(id(0))),
            Name::Cancel => return self.act(Action::Cancel(job)).await,
            Name::Resubmit => return self.act(Action::Resubmit(job)).await,
            Name::Stop => return self.act(Action::Drain(WorkerId(id(0)))).await,
            Name::Pause => return self.act(Action::Pause(QueueId(id(0)))).await,
            Name::Resume => return self.act(Action::Resume(QueueId(id(0)))).await,
        };
        self.askers.ask(move |asker| asker.ask(|session| asked.answer(session))).await
    }

    async fn act(&self, action: Action) -> Result<Value, HqError> {
        if !self.allows_actions {
            let error = HqError::failed("not-allowed", "this dashboard is read-only");
            return Err(error.hint("restart it with `hq dashboard --web --allow-actions`"));
        }
        self.askers.ask(move |asker| answers::act(asker, action)).await
    }

    async fn events(
        &self,
        query: &Query,
        last_id: Option<&str>,
        held: Held,
    ) -> Result<Response<Reply>, HqError> {
        let watched = Watched::parse(query, last_id)?;
        let full = |max: usize, what: &str| {
            HqError::failed("busy", format!("{max} {what} already"))
                .hint("close a page that is open elsewhere")
        };
        let watcher = Arc::clone(&self.watchers).try_acquire_owned();
        let watcher = watcher.map_err(|_| full(WATCHERS_MAX, "pages and programs watch this dashboard"))?;
        let (tell, parts) = stream::channel();
        let has_overview = watched.has_overview;
        if !watched.kinds.is_empty() {
            let reader = Arc::clone(&self.readers).try_acquire_owned();
            let reader = reader.map_err(|_| full(READERS_MAX, "programs read the journal here"))?;
            let (begun, has_begun) = oneshot::channel();
            let (dir, uid, tell) = (self.server_dir.clone(), self.present.uid(), tell.clone());
            let read = move || {
                let _reader = reader;
                stream::tell_events(&dir, &uid, &watched, &tell, begun);
            };
            std::thread::Builder::new().name("hq-events".to_owned()).spawn(read)?;
            match timeout(ANSWER_TIME, has_begun).await {
                Ok(Ok(begun)) => begun?,
                _ => return Err(HqError::failed("no-answer", "the server sends no events: try again")),
            }
        }
        tokio::spawn(stream::tell_overviews(
            self.present.frames(),
            has_overview,
            tell,
            (held.clone(), PATIENCE),
        ));
        held.hold();
        let reply = Reply::Parts { parts, _place: watcher };
        Ok(files::with_headers(StatusCode::OK, "text/event-stream", reply))
    }
}

// The token of a link.
fn token(query: &str) -> Option<String> {
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(routes::decode)
}

// Documents with fixed keys say of which form they are; the description has one of its own.
fn versioned(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut().filter(|fields| !fields.contains_key("openapi")) {
        fields.entry("schema_version").or_insert_with(|| render::json::SCHEMA_VERSION.into());
    }
    document
}

fn json(status: StatusCode, document: &Value) -> Response<Reply> {
    files::answer(status, "application/json", Bytes::from(document.to_string()))
}

fn refusal(error: &HqError) -> Response<Reply> {
    json(status(error), &render::error_document(error))
}

fn foreign_origin() -> Response<Reply> {
    let error = HqError::failed("foreign-origin", "the request came from a page of another origin");
    refusal(&error.hint("open the printed link, and use that page"))
}

fn only(method: &Method) -> Response<Reply> {
    let error = HqError::failed("method", format!("only {method} is allowed here"));
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, &render::error_document(&error));
    let methods = if *method == Method::GET { "GET, HEAD" } else { "POST" };
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

// What HTTP calls an error.
fn status(error: &HqError) -> StatusCode {
    match error.code {
        "no-session" => StatusCode::UNAUTHORIZED,
        "foreign-origin" | "not-allowed" => StatusCode::FORBIDDEN,
        "no-job" | "no-task" | "no-worker" | "no-queue" | "no-path" => StatusCode::NOT_FOUND,
        "invalid" => StatusCode::BAD_REQUEST,
        "foreign-host" => StatusCode::MISDIRECTED_REQUEST,
        "busy" => StatusCode::SERVICE_UNAVAILABLE,
        "no-answer" => StatusCode::GATEWAY_TIMEOUT,
        _ if error.exit == EXIT_NO_SERVER => StatusCode::SERVICE_UNAVAILABLE,
        "internal" | "io" | "system" | "unexpected-answer" => StatusCode::INTERNAL_SERVER_ERROR,
        // The server could not do it now.
        _ => StatusCode::CONFLICT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_status() {
        for (code, number) in [
            ("no-session", 401),
            ("not-allowed", 403),
            ("read-only", 409),
            ("no-task", 404),
            ("invalid", 400),
            ("no-journal", 409),
            ("worker-away", 409),
        ] {
            assert_eq!(status(&HqError::failed(code, "")).as_u16(), number, "{code}");
        }
        let lost = HqError::from(hq_client::ClientError::Lost(String::new()));
        assert_eq!(status(&lost).as_u16(), 503);
    }

    #[test]
    fn a_link_has_a_token() {
        assert_eq!(token("token=abc"), Some("abc".to_owned()));
        assert_eq!(token("a=1&token=a%62c"), Some("abc".to_owned()));
        assert_eq!(token("tokens=abc"), None);
    }
}
