//! What is done for a request, and what it is answered.

mod create;
mod look;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::relay::{BagState, Branch, Effect, How, Refusal, Relay, SessionId, TagsId, Which};
use hq_model::dependency::{After, Condition};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, TaskRef, Timestamp};
use hq_net::HalfSaid;

use crate::answers::{Answer, Closed, Given, Item, Left, Limits, Opened, Task, Welcome};
use crate::bags::{self, For};
use crate::client::NotChanged;
use crate::contract::{
    BagRef, Deferred, End, Ends, Hello, Next, Problem, Request, Take, bytes_of, lease, seconds, word,
};
use crate::limits;
use crate::rights::Rights;
use crate::shared::Shared;

/// Most tasks that one answer gives.
const TAKE_MAX: u32 = 16_384;

/// Who speaks on a connection.
#[derive(Debug)]
pub(crate) struct Speaker {
    shared: Rc<Shared>,
    session: SessionId,
    rights: Rights,
    // Asked with, where a question says no others.
    tags: TagsId,
}

impl Speaker {
    /// Somebody who has not said who it is.
    pub(crate) fn new(shared: &Rc<Shared>) -> Speaker {
        let session = shared.turn(|relay, now, effects| {
            let session = relay.enter(None, None, None);
            relay.connected(now, session, effects);
            session
        });
        shared.count_connection(1);
        Speaker { shared: Rc::clone(shared), session, rights: Rights::All, tags: TagsId::default() }
    }

    /// What all who speak have said of requests that are not complete.
    pub(crate) fn half_said(&self) -> &Arc<HalfSaid> {
        &self.shared.half_said
    }

    /// From now on it may say no more than this.
    pub(crate) fn may_only(&mut self, rights: Rights) {
        self.rights = rights;
    }

    /// Takes another label.
    pub(crate) fn become_label(
        &mut self,
        label: Option<&str>,
        lease: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<(), Problem> {
        if label.is_some_and(|label| {
            label.is_empty() || label.len() > limits::LABEL_BYTES_MAX || label.contains(char::is_control)
        }) {
            let most = limits::LABEL_BYTES_MAX;
            return Err(Problem::bad(format!(
                "a label is a text of 1 to {most} bytes without control characters"
            )));
        }
        let label = label.map(|label| self.rights.label(label));
        let before = self.session;
        self.session = self.shared.turn(|relay, now, effects| {
            let session = relay.enter(label.as_deref(), lease, grace);
            relay.connected(now, session, effects);
            relay.disconnected(now, before, effects);
            session
        });
        Ok(())
    }

    /// Does what is asked.
    pub(crate) async fn answer(&mut self, request: Request) -> Answer {
        if let Err(denied) = self.rights.check(&request, &self.shared.bags.borrow()) {
            return Answer::Error(denied);
        }
        let answered = match request {
            Request::Hello(hello) => self.hello(&hello),
            Request::Open(open) => {
                let name = open.name.unwrap_or_else(|| bags::DEFAULT.to_owned());
                let opened = bags::open(&self.shared, &name, open.max_fails).await;
                opened.map(|(bag, new)| Answer::Opened(Opened { bag: bag.0, name, new }))
            }
            Request::Create(create) => create::create(&self.shared, create).await,
            Request::Next(next) => self.next(next).await,
            Request::Take(Take { count, wait, bags, tags }) => {
                self.next(Next { done: Vec::new(), take: count.unwrap_or(1), wait, bags, tags }).await
            }
            Request::Complete(ends) => self.end_all(ends, |_| {}).await,
            Request::Fail(ends) => {
                self.end_all(ends, |end| {
                    end.failed.get_or_insert_with(|| "failed".to_owned());
                })
                .await
            }
            Request::Release(ends) => self.end_all(ends, |end| end.released = true).await,
            Request::Defer(ends) => {
                self.end_all(ends, |end| {
                    end.deferred.get_or_insert_default();
                })
                .await
            }
            Request::Extend(ends) => self.extend(ends).await,
            Request::Sync(_) => self.sync().await,
            Request::Look(look) => look::look(&self.shared, look).await,
            Request::Close(close) => self.close(close.bag.as_ref()).await,
            Request::Leave(leave) => self.leave(leave.label.as_deref()),
            Request::Status(status) => look::status(&self.shared, &status.bags, &self.rights).await,
        };
        answered.unwrap_or_else(|problem| Answer::Error(self.rights.tell(problem)))
    }

    fn hello(&mut self, hello: &Hello) -> Result<Answer, Problem> {
        if hello.version.is_some_and(|version| version != 1) {
            return Err(Problem::new("version", "this relay speaks version 1"));
        }
        let grace = hello.grace.map(|grace| seconds(grace, "grace", limits::LEASE_MAX)).transpose()?;
        let tags = self.tags_of(&hello.tags)?;
        self.become_label(hello.label.as_deref(), lease(hello.lease)?, grace)?;
        self.tags = tags;
        let (accepted, saved) = self.progress();
        Ok(Answer::Welcome(Welcome {
            version: 1,
            session: self.session.0.to_string(),
            accepted,
            saved,
            limits: Limits {
                take: TAKE_MAX.into(),
                tasks: limits::TASKS_MAX as u64,
                request_bytes: limits::REQUEST_BYTES_MAX as u64,
                name_bytes: hq_model::key::PULLED_NAME_BYTES_MAX as u64,
                payload_bytes: hq_model::pulled::PAYLOAD_BYTES_MAX as u64,
                result_bytes: hq_core::limits::PULLED_RESULT_BYTES_MAX as u64,
                session_tasks: hq_core::limits::SESSION_TASKS_MAX as u64,
            },
        }))
    }

    // The set of these tags.
    fn tags_of(&self, tags: &[String]) -> Result<TagsId, Problem> {
        let tags = hq_model::pulled::tags_of(tags).map_err(Problem::bad)?;
        self.shared.turn(|relay, _, _| relay.tags(&tags)).ok_or_else(|| {
            let most = hq_core::limits::TAG_SETS_MAX;
            Problem::new(
                "full",
                format!("tasks are asked for with {most} sets of tags at this relay, and there can be no more: use fewer"),
            )
        })
    }

    async fn next(&mut self, next: Next) -> Result<Answer, Problem> {
        let Next { done, take, wait, bags, tags } = next;
        let wait = seconds(wait, "wait", limits::WAIT_MAX)?;
        let tags = if tags.is_empty() { self.tags } else { self.tags_of(&tags)? };
        let (has_done, takes) = (!done.is_empty(), take > 0 || done.is_empty());
        // Before anything is done: what has ended must be told.
        let mut jobs = Vec::new();
        for bag in bags.iter().map(Some).chain(bags.is_empty().then_some(None)).filter(|_| takes) {
            jobs.push(bags::find(&self.shared, bag, For::Taking).await?);
        }
        let branches: Vec<Branch> = jobs.iter().map(|bag| Branch { bag: *bag, tags }).collect();
        self.check_branches(&branches)?;
        let take = take.min(TAKE_MAX);
        // What can be done at once is done in one turn: it is one look at everything, and one report to the server.
        let (items, given) = if done.iter().any(|end| end.deferred.is_some()) {
            (self.items(done, None).await, Vec::new())
        } else {
            self.shared.turn(|relay, now, effects| {
                let ended = done.into_iter().map(|end| self.end_now(relay, now, (end, None), effects));
                let items: Vec<Item> = ended.map(Item::of).collect();
                (items, relay.take_now(now, self.session, &branches, take, effects))
            })
        };
        let (mut tasks, mut state) = (None, None);
        if take > 0 && given.is_empty() && items.is_empty() {
            self.check_room()?;
        }
        if !given.is_empty() {
            (tasks, state) = (Some(given), Some("some"));
        } else if takes {
            let (given, found) = self.shared.ask(self.session, branches, take, wait).await;
            if found == BagState::Over {
                // There may be another one of that name by the time somebody asks again.
                jobs.iter().for_each(|job| bags::forget(&self.shared, *job));
            }
            state = Some(match word(found) {
                Ok(word) => word,
                Err(_) if items.is_empty() => return Err(self.shared.why_unknown().await),
                Err(_) => "unknown",
            });
            tasks = Some(given);
        }
        let tasks = tasks.map(|tasks| tasks.into_iter().map(Task::of).collect());
        let (accepted, saved) = self.progress();
        Ok(Answer::Given(Given { tasks, state, done: has_done.then_some(items), accepted, saved }))
    }

    // Whoever has too many tasks gets no more, however many there are.
    fn check_room(&self) -> Result<(), Problem> {
        if self.shared.look(|relay| relay.room(self.session)) > 0 {
            return Ok(());
        }
        let most = hq_core::limits::SESSION_TASKS_MAX;
        Err(Problem::new(
            "full",
            format!(
                "this session has {most} tasks, and can have no more: say of some how they ended, or give them back; or take \
                 more with another label (`--as`)"
            ),
        ))
    }

    // Each bag that is asked for, with each set of tags, is a worker of the server.
    fn check_branches(&self, asked: &[Branch]) -> Result<(), Problem> {
        let is_over = self.shared.look(|relay| relay.branches_with(asked) > limits::BAGS_MAX);
        if !is_over {
            return Ok(());
        }
        let (most, idle) = (limits::BAGS_MAX, limits::BAG_IDLE_TIMEOUT.as_secs());
        Err(Problem::new(
            "full",
            format!(
                "tasks of {most} bags are asked for at this relay, and there can be no more: one that nobody asks for makes room \
                 after {idle} s; use fewer bags, or another relay (`hq pull relay --socket`)"
            ),
        ))
    }

    // Ends of tasks, answered when they are on the server's disk.
    async fn end_all(&mut self, ends: Ends, change: impl Fn(&mut End)) -> Result<Answer, Problem> {
        let bag = self.bag_of(ends.bag.as_ref()).await?;
        let mut ends = ends.tasks;
        ends.iter_mut().for_each(change);
        let items = self.items(ends, bag).await;
        self.shared.saved(self.session).await?;
        Ok(self.said(items))
    }

    async fn sync(&self) -> Result<Answer, Problem> {
        self.shared.saved(self.session).await?;
        Ok(self.said(Vec::new()))
    }

    fn said(&self, items: Vec<Item>) -> Answer {
        let (accepted, saved) = self.progress();
        Answer::Given(Given { tasks: None, state: None, done: Some(items), accepted, saved })
    }

    fn progress(&self) -> (u64, u64) {
        self.shared.look(|relay| relay.progress(self.session))
    }

    // The bag that names of tasks are of, if one is named.
    async fn bag_of(&self, bag: Option<&BagRef>) -> Result<Option<JobId>, Problem> {
        match bag {
            Some(bag) => bags::named(&self.shared, bag).await.map(Some),
            None => Ok(None),
        }
    }

    async fn items(&mut self, ends: Vec<End>, bag: Option<JobId>) -> Vec<Item> {
        let mut items = Vec::with_capacity(ends.len());
        for end in ends {
            items.push(Item::of(self.end(end, bag).await));
        }
        items
    }

    async fn end(&mut self, mut end: End, bag: Option<JobId>) -> Result<(), Problem> {
        match end.deferred.take() {
            Some(deferred) => {
                let which = which(&mut end, bag)?;
                is_one_way(&end, true)?;
                self.defer(&which, &deferred).await
            }
            None => self.shared.turn(|relay, now, effects| self.end_now(relay, now, (end, bag), effects)),
        }
    }

    // A task of this session has ended, and is not put back.
    fn end_now(
        &self,
        relay: &mut Relay,
        now: Timestamp,
        (mut end, bag): (End, Option<JobId>),
        effects: &mut Vec<Effect>,
    ) -> Result<(), Problem> {
        let which = which(&mut end, bag)?;
        is_one_way(&end, false)?;
        let how = match end.failed {
            Some(mut message) => {
                let most = (0..=limits::MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at));
                message.truncate(most.unwrap_or(0).min(message.len()));
                How::Failed(message)
            }
            None if end.released => How::Released,
            None => {
                How::Finished(bytes_of(end.result, end.result_base64.as_deref(), end.result_bytes, "result")?)
            }
        };
        relay
            .end(now, self.session, &which, how, effects)
            .map_err(|refusal| self.refused(&which, refusal))?;
        Ok(())
    }

    fn refused(&self, which: &Which, refusal: Refusal) -> Problem {
        self.rights.refused(which, refusal, &self.shared.bags.borrow())
    }

    async fn defer(&mut self, which: &Which, deferred: &Deferred) -> Result<(), Problem> {
        let session = self.session;
        let (task, instance) = self
            .shared
            .turn(|relay, _, _| relay.defer(session, which))
            .map_err(|refusal| self.refused(which, refusal))?;
        let after = match dependencies(task.job, deferred) {
            Ok(after) if !after.is_empty() => after,
            other => {
                self.shared.turn(|relay, _, _| relay.not_deferred(task, instance));
                return Err(other.err().unwrap_or_else(|| {
                    Problem::bad(
                        "say behind what the task is put back: `after`, `after_any` or `after_tasks`",
                    )
                }));
            }
        };
        let asked = self.shared.client.change_or_wait(ClientRequest::Defer { task, instance, after });
        let NotChanged { problem, later } = match asked.await {
            Ok(_) => return Ok(()),
            Err(not_changed) => not_changed,
        };
        let shared = Rc::clone(&self.shared);
        let give_up = async move {
            // Where it may be put back yet, nobody may say how it ended before that is known.
            let answer = match later {
                Some(mut later) => later.recv().await,
                None => None,
            };
            if matches!(answer, None | Some(ClientResponse::Error(_))) {
                shared.turn(|relay, _, _| relay.not_deferred(task, instance));
            }
        };
        tokio::task::spawn_local(give_up);
        Err(problem)
    }

    async fn extend(&mut self, ends: Ends) -> Result<Answer, Problem> {
        let bag = self.bag_of(ends.bag.as_ref()).await?;
        let session = self.session;
        let mut items = Vec::with_capacity(ends.tasks.len());
        for mut end in ends.tasks {
            let extended = which(&mut end, bag).and_then(|which| {
                let lease = lease(end.lease)?;
                let extended = self
                    .shared
                    .turn(|relay, now, effects| relay.extend(now, session, &which, lease, effects));
                extended.map_err(|refusal| self.refused(&which, refusal))
            });
            items.push(Item::of(extended.map(drop)));
        }
        Ok(self.said(items))
    }

    async fn close(&mut self, bag: Option<&BagRef>) -> Result<Answer, Problem> {
        let job = bags::find(&self.shared, bag, For::Looking).await?;
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        self.shared.client.change(ClientRequest::CloseJobs { jobs }).await?;
        bags::forget(&self.shared, job);
        Ok(Answer::Closed(Closed { bag: job.0 }))
    }

    fn leave(&mut self, label: Option<&str>) -> Result<Answer, Problem> {
        let session = self.session;
        let returned = self.shared.turn(|relay, now, effects| match label {
            Some(label) => relay.leave(now, &self.rights.label(label), effects),
            None => Some(relay.release_all(now, session, effects)),
        });
        let label = label.unwrap_or_default();
        let returned = returned.ok_or_else(|| {
            Problem::new("no-session", format!("nobody with the label `{label}` has anything here"))
        })?;
        Ok(Answer::Left(Left { returned }))
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let session = self.session;
        self.shared.turn(|relay, now, effects| relay.disconnected(now, session, effects));
        self.shared.count_connection(-1);
    }
}

fn is_one_way(end: &End, is_deferred: bool) -> Result<(), Problem> {
    if [end.failed.is_some(), end.released, is_deferred].into_iter().filter(|way| *way).count() > 1 {
        return Err(Problem::bad("a task ends in one way: `failed`, `released` or `deferred`"));
    }
    Ok(())
}

// Of which task it is. A bag says which names are meant; an id says it by itself.
fn which(end: &mut End, bag: Option<JobId>) -> Result<Which, Problem> {
    match (end.id.take(), end.name.take()) {
        (Some(id), _) => {
            let parts =
                id.split_once('@').and_then(|(job, task)| Some((job.parse().ok()?, task.parse().ok()?)));
            let (job, task) =
                parts.ok_or_else(|| Problem::bad(format!("`{id}` is no id of a task, such as 4@17")))?;
            Ok(Which::Task(TaskRef::new(JobId(job), TaskId(task)), end.attempt.take()))
        }
        (None, Some(name)) => Ok(Which::Named(name.into_bytes(), bag)),
        (None, None) => Err(Problem::bad("say which task: `id`, with its `attempt`, or `name`")),
    }
}

// What is waited for: names of the same bag, and tasks of any job.
fn dependencies(bag: JobId, deferred: &Deferred) -> Result<Vec<After>, Problem> {
    let named =
        |condition| move |name: &String| After { key: Some(name.clone()), condition, ..After::of(bag) };
    let mut after: Vec<After> = deferred.after.iter().map(named(Condition::Success)).collect();
    after.extend(deferred.after_any.iter().map(named(Condition::AnyEnd)));
    for text in &deferred.after_tasks {
        after.push(text.parse().map_err(|error| Problem::bad(format!("{error}")))?);
    }
    Ok(after)
}
