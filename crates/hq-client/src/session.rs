//! A client's session with a server: blocking calls over one connection, made again when it breaks.
//!
//! A request that may be repeated (all but stopping and waiting ones) is sent again over a new
//! connection when the old one breaks before the answer. Submits carry a key, so the server does them once.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError, ServerInfo};
use hq_core::limits::STOP_TIME_MAX;
use hq_core::object_messages::ObjectRequest;
use hq_core::record::RequestKey;
use hq_model::job::Target;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, duration};
use hq_net::{AccessFile, Role};
use tokio::runtime::Runtime;
use tokio::time::timeout_at;
use tracing::warn;

use crate::asking::{Asking, NextOf};
use crate::connection::{Connection, NoAnswer};
use crate::error::ClientError;
use crate::limits;
use crate::too_large::TooLarge;

pub use hq_net::access::CURRENT;
/// Name of the access file in it.
pub const ACCESS: &str = "access.json";

/// The access file of a server directory.
pub fn access_path(server_dir: &Path) -> PathBuf {
    server_dir.join(CURRENT).join(ACCESS)
}

/// A fresh key for a request that must be done once.
///
/// # Errors
/// When the system has no randomness.
pub fn request_key() -> Result<RequestKey, ClientError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| ClientError::System(std::io::Error::other(e.to_string())))?;
    Ok(u128::from_le_bytes(bytes))
}

/// A session.
pub struct Session {
    runtime: Runtime,
    source: Source,
    access: AccessFile,
    connection: Connection,
    patience: Patience,
    refusals: Refusals,
}

// Why some of what requests named was refused, while the rest was done.
#[derive(Default)]
struct Refusals {
    heard: Vec<RequestError>,
    tell: Option<TellRefusal>,
}

type TellRefusal = Box<dyn FnMut(&RequestError) + Send>;

impl Refusals {
    // Each once, though every page of an answer has them.
    fn hear(&mut self, refused: Vec<RequestError>) {
        for error in refused {
            if !self.heard.contains(&error) {
                if let Some(tell) = &mut self.tell {
                    tell(&error);
                }
                self.heard.push(error);
            }
        }
    }

    fn accept(&mut self, response: ClientResponse) -> Result<ClientResponse, ClientError> {
        match response {
            ClientResponse::Error(error) => Err(error.into()),
            ClientResponse::Partly { refused, rest } => {
                self.hear(refused);
                self.accept(*rest)
            }
            response => Ok(response),
        }
    }
}

enum Source {
    File(PathBuf),
    Memory(Box<AccessFile>),
}

impl Session {
    /// Connects to the server of a directory.
    ///
    /// # Errors
    /// When there is no access file for clients, or nobody answers.
    pub fn connect(server_dir: &Path) -> Result<Session, ClientError> {
        Session::open(Source::File(access_path(server_dir)))
    }

    /// Connects to the server an access file in memory names.
    ///
    /// # Errors
    /// When the file is not for clients, or nobody answers.
    pub fn connect_to(access: AccessFile) -> Result<Session, ClientError> {
        Session::open(Source::Memory(Box::new(access)))
    }

    fn open(source: Source) -> Result<Session, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let access = source.load()?;
        let connection = runtime.block_on(dial(&access))?;
        let patience = Patience { time: limits::RECONNECT_TIME, is_explicit: false };
        Ok(Session { runtime, source, access, connection, patience, refusals: Refusals::default() })
    }

    /// From now on this is told once of each thing that a request names and that is refused, while the rest is done.
    pub fn tell_refusals(&mut self, tell: impl FnMut(&RequestError) + Send + 'static) {
        self.refusals.tell = Some(Box::new(tell));
    }

    /// How long to look for a lost server while a [`Watch`] waits. Without a time: as long as [`limits::WATCH_RECONNECT_TIME`],
    /// and not at all for a server that ended cleanly.
    pub fn wait_for_lost_server(&mut self, time: Option<Duration>) {
        self.patience = match time {
            Some(time) => Patience { time, is_explicit: true },
            None => Patience { time: limits::WATCH_RECONNECT_TIME, is_explicit: false },
        };
    }

    /// Name of the server.
    pub fn server_uid(&self) -> &str {
        &self.access.server_uid
    }

    /// Asks, and gives the one answer. A refusal is an error.
    ///
    /// # Errors
    /// When the server refuses or is lost, or the request is too large to be sent.
    pub fn request(&mut self, request: ClientRequest) -> Result<ClientResponse, ClientError> {
        let repeats = may_repeat(&request);
        let Session { runtime, source, access, connection, patience, refusals } = self;
        runtime.block_on(async {
            let mut repeats_left = if repeats { limits::REPEATS_MAX } else { 0 };
            loop {
                let lost = match ask(access, connection, &request).await {
                    Ok(response) => return refusals.accept(response),
                    Err(lost) => lost,
                };
                if repeats_left == 0 {
                    return Err(lost.into());
                }
                repeats_left -= 1;
                *connection = reconnect(source, access, *patience, lost).await?;
            }
        })
    }

    /// Asks many things, in order, without waiting for one answer before the next request is sent. The answers come in
    /// the same order, up to the first refusal, which then is the last; requests behind it may have been done.
    ///
    /// All must be requests that may be repeated: submits and questions.
    ///
    /// # Errors
    /// When the server is lost, or a request is too large; then none was sent, as far as that can be seen without encoding it.
    pub fn request_all(&mut self, requests: &[ClientRequest]) -> Result<Vec<ClientResponse>, ClientError> {
        self.request_all_behind(None, requests)
    }

    /// The same, where each new connection begins with a request that has been answered already: it says who asks.
    ///
    /// # Errors
    /// When the server is lost, or a request is too large; then none was sent, as far as that can be seen without encoding it.
    pub fn request_all_behind(
        &mut self,
        first: Option<&ClientRequest>,
        requests: &[ClientRequest],
    ) -> Result<Vec<ClientResponse>, ClientError> {
        requests.iter().try_for_each(TooLarge::check)?;
        let Session { runtime, source, access, connection, patience, .. } = self;
        runtime.block_on(async {
            let mut answers = Vec::with_capacity(requests.len());
            let mut repeats_left = limits::REPEATS_MAX;
            loop {
                let lost = match ask_ahead(access, connection, requests, &mut answers).await {
                    Ok(()) => return Ok(answers),
                    Err(lost) if repeats_left == 0 => return Err(lost.into()),
                    Err(lost) => lost,
                };
                repeats_left -= 1;
                *connection = reconnect(source, access, *patience, lost).await?;
                if let Some(first) = first {
                    // What is lost with its answer is asked again with the rest.
                    let _ = ask(access, connection, first).await;
                }
            }
        })
    }

    /// Begins to follow what a watching request tells.
    ///
    /// # Errors
    /// When the server is lost.
    pub fn watch(&mut self, request: ClientRequest) -> Result<Watch<'_>, ClientError> {
        let mut watch = Watch::new(self, request);
        watch.begin()?;
        Ok(watch)
    }

    /// Submits, and follows the job from the moment it exists: what its tasks say at once is not missed.
    /// The answer to the submit is given beside the watch.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub fn submit_and_watch(
        &mut self,
        submit: ClientRequest,
        notifications: bool,
    ) -> Result<(ClientResponse, Watch<'_>), ClientError> {
        let of = |jobs| ClientRequest::WatchJobs { jobs, until_closed: false, notifications };
        let only = |job: JobId| Selector::Ids(IdSet::single(TaskId(job.0)));
        // A new job is the last one when the server reads the second request, unless another client's
        // submit comes in between; then it is followed over a connection of its own.
        let guess = match &submit {
            ClientRequest::Submit { submit, .. } => match submit.target {
                Target::Open(job) => only(job),
                Target::New(_) => Selector::Last,
            },
            _ => return Err(ClientError::Unexpected),
        };
        let Session { runtime, access, connection, .. } = self;
        let early = runtime.block_on(async {
            let number = connection.send(&[&submit, &of(guess)]).await.ok()?;
            Some((answer(access, connection, number - 1).await.ok()?, number))
        });
        let (response, number) = match early {
            Some((ClientResponse::Error(error), _)) => return Err(error.into()),
            Some((response, number)) => (response, Some(number)),
            // Lost: the key makes a repeated submit harmless.
            None => (self.request(submit)?, None),
        };
        let ClientResponse::Submitted { job, .. } = response else {
            return Err(ClientError::Unexpected);
        };
        // From here on nothing may fail before the caller knows the job.
        let mut watch = Watch::new(self, of(only(job)));
        watch.number = number;
        watch.guessed = number.map(|_| job);
        Ok((response, watch))
    }

    /// The next answer to one of many requests, or the other thing, if there is no answer yet. When the server is lost and
    /// comes back, all of them are asked again.
    ///
    /// # Errors
    /// When the server is lost.
    pub fn next_of<F: Future>(
        &mut self,
        asking: &mut Asking,
        mut other: Pin<&mut F>,
    ) -> Result<NextOf<F::Output>, ClientError> {
        let Session { runtime, source, access, connection, patience, refusals } = self;
        let mut repeats_left = limits::REPEATS_MAX;
        loop {
            // Not beside the other thing: what is sent is sent whole.
            let lost = match runtime.block_on(asking.send(connection)) {
                Ok(()) => {
                    let heard = runtime.block_on(async {
                        tokio::select! {
                            biased;
                            answer = asking.next(connection) => Ok(answer),
                            output = other.as_mut() => Err(output),
                        }
                    });
                    match heard {
                        Ok(Ok((name, refused @ ClientResponse::Error(_)))) => {
                            return Ok(NextOf::Response(name, refused));
                        }
                        Ok(Ok((name, response))) => {
                            return Ok(NextOf::Response(name, refusals.accept(response)?));
                        }
                        Ok(Err(lost)) => NoAnswer::Lost(lost),
                        Err(output) => return Ok(NextOf::Other(output)),
                    }
                }
                Err(lost) => lost,
            };
            if repeats_left == 0 {
                return Err(lost.into());
            }
            repeats_left -= 1;
            let again = runtime.block_on(async {
                tokio::select! {
                    biased;
                    output = other.as_mut() => Err(output),
                    again = reconnect(source, access, *patience, lost) => Ok(again),
                }
            });
            match again {
                Ok(again) => *connection = again?,
                Err(output) => return Ok(NextOf::Other(output)),
            }
        }
    }

    /// Makes something that belongs to this session's runtime, as signal streams that [`Watch::next_or`] waits for.
    pub fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
        let _guard = self.runtime.enter();
        make()
    }

    /// Waits for something else on this session's runtime.
    pub fn wait_for<F: Future>(&mut self, other: F) -> F::Output {
        self.runtime.block_on(other)
    }
}

async fn ask(
    access: &AccessFile,
    connection: &mut Connection,
    request: &ClientRequest,
) -> Result<ClientResponse, NoAnswer> {
    let number = connection.send(&[request]).await?;
    Ok(answer(access, connection, number).await?)
}

// Asks what is not answered yet, some requests ahead of the answers.
async fn ask_ahead(
    access: &AccessFile,
    connection: &mut Connection,
    requests: &[ClientRequest],
    answers: &mut Vec<ClientResponse>,
) -> Result<(), NoAnswer> {
    let mut sent = answers.len();
    let mut numbers = std::collections::VecDeque::new();
    while answers.len() < requests.len() {
        if numbers.len() <= limits::REQUESTS_AHEAD / 2 && sent < requests.len() {
            let end = requests.len().min(answers.len() + limits::REQUESTS_AHEAD);
            let next: Vec<&ClientRequest> = requests[sent..end].iter().collect();
            let last = connection.send(&next).await?;
            numbers.extend(last + 1 - next.len() as u64..=last);
            sent = end;
        }
        let Some(number) = numbers.pop_front() else { break };
        let answer = answer(access, connection, number).await?;
        let is_refused = matches!(answer, ClientResponse::Error(_));
        answers.push(answer);
        if is_refused {
            // Answers to those that were sent beyond it are not for anybody.
            for number in numbers {
                connection.answer(number).await?;
            }
            break;
        }
    }
    Ok(())
}

// Over a connection of its own: answers on one keep their order.
async fn server_info(access: &AccessFile) -> Option<Box<ServerInfo>> {
    let mut connection = dial(access).await.ok()?;
    let number = connection.send(&[&ClientRequest::ServerInfo]).await.ok()?;
    match connection.answer(number).await.ok()? {
        ClientResponse::ServerInfo(info) => Some(info),
        _ => None,
    }
}

// The answer to that request. When it is long in coming because the server cannot write its journal, or stops and waits for
// something, the user is told.
async fn answer(
    access: &AccessFile,
    connection: &mut Connection,
    number: u64,
) -> Result<ClientResponse, String> {
    answer_or_word(access, connection, number, &mut Overdue::default()).await
}

/// When whoever waits for an answer is told why there is none yet.
struct Overdue {
    // None once there is nothing more to tell.
    at: Option<Instant>,
    is_stopping: bool,
}

impl Default for Overdue {
    fn default() -> Overdue {
        Overdue { at: Some(Instant::now() + limits::ANSWER_TIME), is_stopping: false }
    }
}

// The same. It may be dropped and begun again before there is an answer.
async fn answer_or_word(
    access: &AccessFile,
    connection: &mut Connection,
    number: u64,
    overdue: &mut Overdue,
) -> Result<ClientResponse, String> {
    while let Some(at) = overdue.at {
        if let Ok(answer) = timeout_at(at.into(), connection.answer(number)).await {
            return answer;
        }
        let info = server_info(access).await;
        overdue.at = None;
        let Some(info) = info else { break };
        if let Some((_, error)) = info.journal_trouble {
            warn!(
                error,
                "the server cannot write its journal right now: it is read-only and will answer once it can write; \
                 the request may then be carried out even if nobody is waiting for it"
            );
        } else if let Some(what) = info.stop_waits {
            if overdue.is_stopping {
                let most = duration::format(STOP_TIME_MAX);
                warn!("the server is stopping; it waits at most {most} for {what}");
            } else {
                // Most of them are done in the next moment.
                *overdue = Overdue { is_stopping: true, ..Overdue::default() };
            }
        }
    }
    connection.answer(number).await
}

// Tries for a while to reach the same server again, where that would help.
async fn reconnect(
    source: &Source,
    access: &mut AccessFile,
    patience: Patience,
    reason: NoAnswer,
) -> Result<Connection, ClientError> {
    let lost = match reason {
        NoAnswer::TooLarge(error) => return Err(error.into()),
        NoAnswer::Lost(lost) => lost,
    };
    let begin = Instant::now();
    let mut delay = limits::RECONNECT_DELAY;
    loop {
        // A server that ended cleanly has removed its access file: there is nothing to wait for.
        let found = match source.load() {
            Ok(found) => found,
            Err(_) if patience.is_explicit && begin.elapsed() < patience.time => {
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(limits::RECONNECT_DELAY_MAX);
                continue;
            }
            Err(_) => return Err(ClientError::Lost(lost)),
        };
        if found.server_uid != access.server_uid {
            return Err(ClientError::Replaced {
                expected: access.server_uid.clone(),
                found: found.server_uid,
            });
        }
        *access = found;
        match dial(access).await {
            Ok(connection) => return Ok(connection),
            Err(_) if begin.elapsed() < patience.time => tokio::time::sleep(delay).await,
            Err(_) => return Err(ClientError::Lost(lost)),
        }
        delay = (delay * 2).min(limits::RECONNECT_DELAY_MAX);
    }
}

impl Source {
    fn load(&self) -> Result<AccessFile, ClientError> {
        match self {
            Source::File(path) => Ok(AccessFile::load(path)?),
            Source::Memory(access) => Ok(AccessFile::clone(access)),
        }
    }
}

async fn dial(access: &AccessFile) -> Result<Connection, ClientError> {
    Ok(Connection::open(access.endpoint(Role::Client)?).await?)
}

fn may_repeat(request: &ClientRequest) -> bool {
    !matches!(
        request,
        ClientRequest::StopServer
            | ClientRequest::StopWorkers { .. }
            | ClientRequest::WaitWorkers { .. }
            | ClientRequest::ForgetJobs { .. }
            | ClientRequest::CloseJobs { .. }
    ) && !is_new_given(request)
}

// Each time it would be another job.
fn is_new_given(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::Objects(ObjectRequest::Give(give)) if give.job.is_err())
}

// How long a lost server is looked for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    time: Duration,
    // Also for one that ended cleanly.
    is_explicit: bool,
}

/// A stream of answers to one request. When the server is lost and comes back, it is asked again.
pub struct Watch<'a> {
    session: &'a mut Session,
    request: ClientRequest,
    // None when the connection it was sent over is gone.
    number: Option<u64>,
    // The job that the first answer must be about: the request was sent before its id was known.
    guessed: Option<JobId>,
    // Counts losses since the last answer.
    repeats_left: u32,
    // The first answer.
    overdue: Overdue,
}

/// What came first.
pub enum Next<T> {
    /// An answer.
    Response(ClientResponse),
    /// The other thing that was waited for.
    Other(T),
}

impl Watch<'_> {
    fn new(session: &mut Session, request: ClientRequest) -> Watch<'_> {
        Watch {
            session,
            request,
            number: None,
            guessed: None,
            repeats_left: limits::REPEATS_MAX,
            overdue: Overdue::default(),
        }
    }

    /// As [`Session::enter`].
    pub fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
        self.session.enter(make)
    }

    /// As [`Session::wait_for`].
    pub fn wait_for<F: Future>(&mut self, other: F) -> F::Output {
        self.session.wait_for(other)
    }

    fn begin(&mut self) -> Result<(), ClientError> {
        let Watch { session, request, number, .. } = self;
        let Session { runtime, source, access, connection, patience, .. } = &mut **session;
        *number = Some(runtime.block_on(begin(source, access, connection, patience, request))?);
        Ok(())
    }

    /// What is asked again when the server was lost and came back.
    pub fn resume_with(&mut self, request: ClientRequest) {
        self.request = request;
    }

    /// The next answer. After [`ClientResponse::WatchEnded`] there is none.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub fn next_response(&mut self) -> Result<ClientResponse, ClientError> {
        match self.next_or(std::pin::pin!(std::future::pending::<()>()))? {
            Next::Response(response) => Ok(response),
            Next::Other(()) => Err(ClientError::Unexpected),
        }
    }

    /// The next answer, or the other thing, whatever comes first.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub fn next_or<F: Future>(&mut self, mut other: Pin<&mut F>) -> Result<Next<F::Output>, ClientError> {
        let Watch { session, request, number, guessed, repeats_left, overdue } = self;
        let Session { runtime, source, access, connection, patience, refusals } = &mut **session;
        let answered = async {
            loop {
                let current = match *number {
                    Some(current) => current,
                    None => {
                        let again = begin(source, access, connection, patience, request).await?;
                        *number = Some(again);
                        again
                    }
                };
                let lost = match answer_or_word(access, connection, current, overdue).await {
                    Ok(response) if guessed.is_some_and(|job| !is_about(&response, job)) => {
                        "the job is followed over a connection of its own".to_owned()
                    }
                    // News of the others follow.
                    Ok(response @ ClientResponse::Partly { .. }) => {
                        refusals.accept(response)?;
                        continue;
                    }
                    Ok(ClientResponse::Error(error)) => return Err(error.into()),
                    Ok(response) => {
                        *guessed = None;
                        *repeats_left = limits::REPEATS_MAX;
                        overdue.at = None;
                        return Ok(Next::Response(response));
                    }
                    Err(lost) if *repeats_left == 0 => return Err(ClientError::Lost(lost)),
                    Err(lost) => {
                        *repeats_left -= 1;
                        lost
                    }
                };
                (*number, *guessed) = (None, None);
                *connection = reconnect(source, access, *patience, NoAnswer::Lost(lost)).await?;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                output = other.as_mut() => Ok(Next::Other(output)),
                answer = answered => answer,
            }
        })
    }

    /// Asks something else meanwhile.
    ///
    /// # Errors
    /// When the server refuses or is lost, or the request is too large to be sent.
    pub fn request(&mut self, request: ClientRequest) -> Result<ClientResponse, ClientError> {
        let Session { runtime, access, connection, refusals, .. } = &mut *self.session;
        match runtime.block_on(ask(access, connection, &request)) {
            Ok(response) => refusals.accept(response),
            Err(reason) => Err(reason.into()),
        }
    }
}

fn is_about(response: &ClientResponse, job: JobId) -> bool {
    matches!(response, ClientResponse::Progress(jobs) if matches!(jobs.as_slice(), [one] if one.job == job))
}

async fn begin(
    source: &Source,
    access: &mut AccessFile,
    connection: &mut Connection,
    patience: &Patience,
    request: &ClientRequest,
) -> Result<u64, ClientError> {
    let mut repeats_left = limits::REPEATS_MAX;
    loop {
        match connection.send(&[request]).await {
            Ok(number) => return Ok(number),
            Err(lost) if repeats_left == 0 => return Err(lost.into()),
            Err(lost) => *connection = reconnect(source, access, *patience, lost).await?,
        }
        repeats_left -= 1;
    }
}
