//! What a task waits for, said of the present: what goes before it, what each worker lacks, and what queues do about it.

mod ahead;
mod job;
mod verdict;

use hq_model::object::ObjectTask;
use hq_model::selector::Selector;
use hq_model::{
    IdSet, InputObject, JobId, ObjectName, TaskId, TaskRef, TaskState, Timestamp, WorkerId, counted,
    counted_are,
};

use super::fleet::{Fleet, match_of};
use super::live::LiveWorker;
use super::machine::{Answer, Server};
use super::queue::ClassId;
use super::requests::shown_state;
use super::workers::too_long;
use crate::alloc::policy;
use crate::client_messages::{ClientResponse, RequestError};
use crate::explanation::{Reason, ReasonKind, TaskExplanation, WorkerMatch};
use crate::limits::{EXPLAINED_WORKERS_MAX, NAMED_RANGES_MAX, NAMED_TASKS_MAX};
use crate::record::{NEVER, Outlasted};
use crate::worker_messages::TemplateId;
pub(super) use verdict::about;
use verdict::{away, in_time, leaving, too_late};

/// Why tasks of a draft wait.
const NOT_WHOLE: &str = "the job is not submitted as a whole yet";

impl Server {
    /// Says what a task waits for.
    pub(super) fn explain(&self, now: Timestamp, jobs: &Selector, task: TaskId) -> Answer {
        let [id] = self.select_jobs(jobs)?[..] else {
            return Err(RequestError::Invalid("One job at a time can be explained.".into()));
        };
        let job = &self.state.jobs[&id];
        let (Some(state), Some(submit)) = (job.state_of(task), job.submit_of(task)) else {
            return Err(RequestError::NoTask(id, task));
        };
        let whole = TaskRef::new(id, task);
        let run = self.running.of(id, task);
        let state = shown_state(state, run.is_some());
        let leased = job.leased.iter().find(|(_, ids)| ids.contains(task)).map(|(worker, _)| *worker);
        let template = TemplateId { job: id, submit };
        let mut workers = Vec::new();
        let mut reasons = match (state, run, leased) {
            (TaskState::Waiting, _, Some(_)) if self.readiness.is_blocked(whole) => {
                self.dependency_reasons(id, task)
            }
            (TaskState::Waiting, _, None) if job.is_draft() => {
                vec![Reason::new(ReasonKind::Dependency, NOT_WHOLE)]
            }
            (TaskState::Waiting, _, Some(worker)) => self.handed_out(now, worker, template, task),
            (TaskState::Waiting, _, None) => {
                workers = self.matches(now, template);
                self.waiting(now, template, task)
            }
            (TaskState::Running, Some(run), _) => {
                let time = about(now.since(run.since));
                let is_away = self.away_reason(now, run.worker);
                let (kind, text) = match (self.relay_of(run.worker), &is_away) {
                    (Some(host), _) => (ReasonKind::Puller, taken(id, host, &time)),
                    (None, None) => (ReasonKind::Running, format!("it has run there for {time}")),
                    (None, Some(_)) => {
                        (ReasonKind::Running, "it ran there when that was last heard of".into())
                    }
                };
                let others = job.nodes.get(&task).map_or(&[][..], |workers| &workers[1..]);
                let other = |worker: &WorkerId| {
                    Reason::new(ReasonKind::Running, "it is one of its nodes").on(*worker)
                };
                let first = Reason::new(kind, text).on(run.worker);
                let waits = self.lending_reason(run.worker, template, task);
                let waits = waits.into_iter().chain(self.output_reason(run.worker, template));
                let all = [first].into_iter().chain(is_away).chain(waits);
                let of_other = |worker| [Some(other(worker)), self.away_reason(now, *worker)];
                all.chain(others.iter().flat_map(of_other).flatten()).collect()
            }
            (ended, ..) => {
                let why =
                    job.abort_reasons.iter().find(|(ids, _)| ids.contains(task)).map(|(_, why)| why.as_str());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let how = match ended {
                    TaskState::Failed => "it has failed",
                    TaskState::Canceled => "it was canceled",
                    TaskState::Aborted => "it was aborted",
                    _ => "it has finished",
                };
                vec![Reason::new(ReasonKind::Ended, format!("it does not wait: {how}{why}"))]
            }
        };
        if state == TaskState::Waiting {
            reasons.extend(self.too_late_reason(now, template));
        }
        let unresolved = match state {
            TaskState::Waiting => self.unresolved(id, task).iter().map(|(_, open)| open.len()).sum(),
            _ => 0,
        };
        Ok(ClientResponse::Explained(Box::new(TaskExplanation {
            task: whole,
            state,
            dependencies: self.dependency_count(id, task),
            unresolved,
            reasons,
            workers,
        })))
    }

    // Of a worker without a connection that has tasks.
    fn away_reason(&self, now: Timestamp, worker: WorkerId) -> Option<Reason> {
        self.live.get(&worker).and_then(|live| away(now, worker, live))
    }

    // Of a call that waits for others.
    fn lending_reason(&self, worker: WorkerId, template: TemplateId, task: TaskId) -> Option<Reason> {
        let held = self.live.get(&worker)?.held().get(&template)?;
        let text = "it waits for calls that it has made, and lends them its CPUs";
        held.has_lent(task).then(|| Reason::new(ReasonKind::Running, text).on(worker))
    }

    // Of a task that prints into a stream or a log, where some of these have no room on its worker.
    fn output_reason(&self, worker: WorkerId, template: TemplateId) -> Option<Reason> {
        let submit = self.state.jobs.get(&template.job)?.submits.get(template.submit as usize)?;
        let why = self.live.get(&worker)?.output_waits.as_ref()?;
        let stream = submit.task.stream.as_ref()?;
        let path = String::from_utf8_lossy(stream.path());
        let why = why_of(why, &path, template.job);
        let text = format!("when it prints, it waits until there is room: {why}");
        Some(Reason::new(ReasonKind::Running, text).on(worker))
    }

    // Of a task that a worker has for later.
    fn handed_out(
        &self,
        now: Timestamp,
        worker: WorkerId,
        template: TemplateId,
        task: TaskId,
    ) -> Vec<Reason> {
        let text = "it is handed to this worker and starts there as soon as it fits";
        let reason = Reason::new(ReasonKind::HandedOut, text).on(worker);
        let text = "it is handed to this worker, and goes elsewhere when that gives it back or leaves";
        let elsewhere = Reason::new(ReasonKind::HandedOut, text).on(worker);
        let Some(live) = self.live.get(&worker) else { return vec![reason] };
        if live.is_relay && live.connection.is_some() {
            return vec![is_with_relay(template.job, 1).on(worker)];
        }
        let waits = live.held().get(&template).is_some_and(|held| held.waiting.contains(task));
        if let Some(is_away) = away(now, worker, live) {
            return vec![elsewhere, is_away];
        }
        if let Some(text) = leaving(now, live) {
            return vec![elsewhere, Reason::new(ReasonKind::Closed, text).on(worker)];
        }
        let class = self.classes.get(&template).copied();
        let choices = live.ways(class, self.requests_of(template));
        match choices.first().filter(|_| waits) {
            Some(_) if choices.iter().all(|choice| !live.has_time(now, choice.time_request)) => {
                vec![elsewhere, too_late(now, worker, live, &choices)]
            }
            Some(_) => {
                let ways = in_time(now, live, &choices);
                let is_full = ways.iter().all(|needs| live.capacity().room(needs) <= 0);
                let busy = is_full.then(|| self.busy(now, worker, live, &ways, true));
                std::iter::once(reason).chain(busy).collect()
            }
            None => vec![reason],
        }
    }

    // Of a task that nobody has.
    fn waiting(&self, now: Timestamp, template: TemplateId, task: TaskId) -> Vec<Reason> {
        let whole = TaskRef::new(template.job, task);
        let mut reasons = self.of_server();
        let requests = self.requests_of(template);
        let fleet = self.fleet(now);
        let is_pulled = requests.iter().any(hq_model::Request::is_pulled);
        let is_able = is_pulled || fleet.could_run(requests);
        if !is_able {
            reasons.extend(self.unfit(now, &fleet, template));
        }
        if self.readiness.waits_for_time(whole) {
            let job = &self.state.jobs[&template.job];
            let Outlasted { times, life } = job.outlasted.get(&task).copied().unwrap_or_default();
            reasons.push(Reason::new(ReasonKind::Unfit, too_long(times, life)));
            return reasons;
        }
        if self.readiness.is_blocked(whole) {
            reasons.extend(self.dependency_reasons(template.job, task));
            return reasons;
        }
        let delayed = self.state.jobs[&template.job].delayed.get(&task);
        if let Some(at) = delayed.filter(|at| **at > now && **at < NEVER) {
            let why = match self.state.jobs[&template.job].deferred.contains_key(&task) {
                true => "it put itself back behind what has ended, and runs again",
                false => self.copies.why_back(whole).unwrap_or("it failed and is tried again"),
            };
            let text = format!("{why} in {}", about(at.since(now)));
            reasons.push(Reason::new(ReasonKind::Delay, text).until(Some(*at)));
            return reasons;
        }
        if let Some(spent) = self.budget_reason(template.job) {
            reasons.push(spent);
            return reasons;
        }
        let Some(class) = self.classes.get(&template).copied() else {
            return reasons;
        };
        if is_pulled {
            reasons.extend(self.share_reason(class, template.job));
            reasons.push(self.waits_for_puller(template.job, requests));
            return reasons;
        }
        if is_able {
            reasons.extend(self.of_nodes(class));
            reasons.extend(self.share_reason(class, template.job));
            reasons.extend(self.ahead(&fleet, class, whole, template));
            reasons.extend(self.of_queues(now, class));
        }
        let workers = || self.live.iter().filter(|(_, live)| !live.is_relay);
        for (worker, live) in workers().take(EXPLAINED_WORKERS_MAX) {
            reasons.push(self.verdict(
                now,
                *worker,
                live,
                fleet.group_size(self, *worker),
                (Some(class), requests),
                true,
            ));
        }
        let more = workers().count().saturating_sub(EXPLAINED_WORKERS_MAX);
        if more > 0 {
            reasons.push(Reason::new(
                ReasonKind::Other,
                format!("{} not shown", counted_are(more, "more worker", "is", "are")),
            ));
        }
        reasons
    }

    // What holds all tasks back.
    fn of_server(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if let Some((_, error)) = &self.options.info.journal_trouble {
            let text = format!("the server starts nothing while its journal cannot be written ({error})");
            reasons.push(Reason::new(ReasonKind::Server, text));
        }
        if self.is_stopping() {
            reasons.push(Reason::new(ReasonKind::Server, "the server is stopping"));
        }
        reasons
    }

    // Of tasks that no worker could ever run, as far as is known.
    fn unfit(&self, now: Timestamp, fleet: &Fleet<'_>, template: TemplateId) -> Vec<Reason> {
        let requests = self.requests_of(template);
        if fleet.is_empty() {
            let is_nobody = self.live.values().all(|live| live.is_relay);
            let nobody = if is_nobody { "is connected" } else { "takes anything new" };
            let wanted: Vec<String> = requests.iter().map(ToString::to_string).collect();
            return vec![Reason::new(
                ReasonKind::NoWorker,
                format!(
                    "no worker {nobody}, and no allocation queue could bring one; it needs one with {}",
                    wanted.join(", or one with ")
                ),
            )];
        }
        let text = format!(
            "no worker could ever run it, not even one that a queue may start: {}",
            fleet.what_lacks(requests)
        );
        let mut reasons = vec![Reason::new(ReasonKind::Unfit, text)];
        reasons.extend(self.queues_that_cannot(now, requests));
        reasons
    }

    fn queues_that_cannot(&self, now: Timestamp, requests: &[hq_model::Request]) -> Vec<Reason> {
        let offers = self.offers(now).into_iter().take(NAMED_TASKS_MAX);
        let why = |(offer, _): (crate::alloc::demand::Offer, _)| {
            let why = offer.why_not(requests).or_else(|| offer.spares(requests))?;
            let text = format!("allocation queue {}: {why}", offer.queue);
            Some(Reason::new(ReasonKind::Queue, text).of(offer.queue))
        };
        offers.filter_map(why).collect()
    }

    pub(super) fn share_reason(&self, class: ClassId, job: JobId) -> Option<Reason> {
        let max = self.share_of(job).max.unwrap_or_default();
        (self.share_room(class) == 0).then(|| {
            let tasks = counted(max, "task");
            let text = format!("its job has {tasks} handed out, as many as its share allows");
            Reason::new(ReasonKind::Share, text)
        })
    }

    // Of a task on several nodes that could run.
    fn of_nodes(&self, class: ClassId) -> Option<Reason> {
        let nodes = self.queue.key(class).requests.iter().map(|request| request.nodes).min()?;
        let are = if nodes == 1 { "is" } else { "are" };
        let needed = format!("it needs {} of one group that {are} free at once", counted(nodes, "worker"));
        let text = match self.reservations.count() {
            0 => needed,
            kept => format!(
                "{needed}; {} nothing new of its priority or below until such tasks have started",
                counted_are(kept, "worker", "gets", "get")
            ),
        };
        (nodes > 0).then(|| Reason::new(ReasonKind::Busy, text))
    }

    // What queues of allocations do for tasks of a class.
    fn of_queues(&self, now: Timestamp, class: ClassId) -> Vec<Reason> {
        if self.state.alloc.queues.is_empty() {
            return Vec::new();
        }
        let offers = self.offers(now);
        let waiting = self.waiting_classes(now);
        let matched = self.match_demand(now, &waiting, &offers);
        let served = waiting.iter().position(|(other, _)| *other == class);
        let served = served.and_then(|at| matched.classes.get(at));
        let requests = &self.queue.key(class).requests;
        let mut reasons = Vec::new();
        for (offer, permit) in offers.iter().take(NAMED_TASKS_MAX) {
            let id = offer.queue;
            let Some(queue) = self.state.alloc.queues.get(&id) else { continue };
            let name = match &queue.params.name {
                Some(name) => format!("allocation queue {id} ({name})"),
                None => format!("allocation queue {id}"),
            };
            let coming = served.and_then(|served| served.coming.get(&id)).copied().unwrap_or(0);
            let new = served.and_then(|served| served.new.get(&id)).copied().unwrap_or(0);
            let text = if let Some(why) = offer.why_not(requests) {
                format!("{name}: {why}")
            } else if coming > 0 {
                let rest = permit.why_none.as_ref().filter(|_| served.is_some_and(|served| served.left > 0));
                let rest =
                    rest.map_or_else(String::new, |why| format!("; for others it asks for nothing: {why}"));
                let why = self.waiting_reasons(id, queue).map_or_else(String::new, |why| format!("; {why}"));
                format!("{name}: workers that are on their way will take {coming} of these tasks{why}{rest}")
            } else if let Some(why) = offer.spares(requests) {
                format!("{name}: {why}")
            } else if let Some(why) = &permit.why_none {
                let hint = match (&queue.paused, policy::retries_at(queue)) {
                    (Some(_), Some(_)) => format!("; `hq alloc resume {id}` ends that"),
                    _ => String::new(),
                };
                format!("{name} could bring a worker for it, and asks for nothing: {why}{hint}")
            } else if new > 0 {
                format!("{name}: workers for {new} of these tasks are being asked for")
            } else if let Some(held) = served.and_then(|served| served.held) {
                format!("{name} asks for nothing more: {}", held.told())
            } else {
                format!("{name} asks for nothing more: what is there or on its way is enough")
            };
            reasons.push(Reason::new(ReasonKind::Queue, text).of(id));
        }
        reasons
    }

    // Of a task that waits for others.
    fn dependency_reasons(&self, id: JobId, task: TaskId) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let mut say = |text: String| reasons.push(Reason::new(ReasonKind::Dependency, text));
        for (job, open) in self.unresolved(id, task) {
            let name = self.state.jobs.get(&job).filter(|_| job != id).map(|known| &known.spec.name);
            let named = name.map_or_else(String::new, |name| format!(" of `{name}`"));
            let job_name = name.map_or_else(String::new, |name| format!(" (`{name}`)"));
            for task in open.iter().take(NAMED_TASKS_MAX) {
                let whole = TaskRef::new(job, task);
                let runs = self.running.of(job, task).is_some();
                let state = self.state.task_state(whole).map(|state| shown_state(state, runs));
                let state = state.map_or_else(String::new, |state| format!(", which is {state}"));
                say(match self.broadcast_of(id, whole) {
                    Some(object) => format!("it waits for the broadcast of {object}, task {whole}{state}"),
                    None => format!("it waits for task {whole}{named}{state}"),
                });
            }
            let more = open.len().saturating_sub(NAMED_TASKS_MAX as u64);
            if more > 0 {
                say(format!("it waits for {} of job {job}", counted(more, "more task")));
            }
            if open.is_empty() {
                say(format!("it waits for job {job}{job_name}, {}", self.why_open(job)));
            }
        }
        for file in self.files_missing(id, task).iter().take(NAMED_TASKS_MAX) {
            say(format!("it waits for the file {}", String::from_utf8_lossy(file)));
        }
        reasons
    }

    // What a task leaves that is broadcast to the tasks of a job.
    fn broadcast_of(&self, id: JobId, task: TaskRef) -> Option<&ObjectName> {
        let submits = &self.state.jobs.get(&id)?.submits;
        let mut inputs = submits.iter().flat_map(|submit| &submit.task.input_objects);
        let is_of = |input: &&InputObject| {
            let from = &input.from;
            input.is_in_place() && from.job == Some(task.job) && from.task == ObjectTask::One(task.task)
        };
        inputs.find(is_of).map(|input| &input.name)
    }

    // What has to happen for an open job to end.
    fn why_open(&self, id: JobId) -> String {
        let job = self.state.jobs.get(&id);
        match job.is_some_and(|job| job.feed.is_some()) {
            true => format!("which {}", self.why_fed_on(id)),
            false => format!("which is open; `hq job close {id}` closes it"),
        }
    }

    // The same of one that is fed, as what it does.
    fn why_fed_on(&self, id: JobId) -> String {
        let feed = self.state.jobs.get(&id).and_then(|job| job.feed.as_ref());
        match (self.why_stalled(id), feed) {
            (Some(why), _) => format!("is stalled: {why}"),
            (None, Some(feed)) if !feed.is_decomposed => {
                format!("gets more tasks from its generator, job {}", feed.generator)
            }
            (None, _) => "ends with its reducer".to_owned(),
        }
    }

    // How workers match what a submit asks for.
    fn matches(&self, now: Timestamp, template: TemplateId) -> Vec<WorkerMatch> {
        let (requests, fleet) = (self.requests_of(template), self.fleet(now));
        let of = |(worker, live): (&WorkerId, &LiveWorker)| WorkerMatch {
            worker: *worker,
            variants: match_of(live, fleet.group_size(self, *worker), now, requests),
        };
        self.live.iter().take(EXPLAINED_WORKERS_MAX).map(of).collect()
    }

    // The host of a relay.
    fn relay_of(&self, worker: WorkerId) -> Option<&str> {
        let config = &self.state.workers.get(&worker)?.config;
        self.live.get(&worker).filter(|live| live.is_relay).map(|_| config.hostname.as_str())
    }

    fn requests_of(&self, template: TemplateId) -> &[hq_model::Request] {
        let job = self.state.jobs.get(&template.job);
        let submit = job.and_then(|job| job.submits.get(template.submit as usize));
        submit.map_or(&[], |submit| &submit.task.requests)
    }
}

// Of a pulled task that somebody has. Only the relay knows who.
fn taken(job: JobId, host: &str, time: &str) -> String {
    format!(
        "somebody took it from the relay on {host} {time} ago; `hq pull status {job}` there says who, and `hq pull exit WHO` \
         gives it back"
    )
}

impl Server {
    // Of a pulled task that could be taken, by those who have its tags.
    fn waits_for_puller(&self, job: JobId, requests: &[hq_model::Request]) -> Reason {
        let tags: Vec<&str> = requests.iter().flat_map(hq_model::Request::tags).collect();
        let asked: String = tags.iter().map(|tag| format!(" --tag {tag}")).collect();
        let (noun, list) = (if tags.len() == 1 { "tag" } else { "tags" }, tags.join(", "));
        let has_tags = |live: &LiveWorker| {
            let has = |name: &String| live.resources.pools.iter().any(|pool| pool.name == *name);
            hq_model::request::pulled_names(job, &tags).all(|name| has(&name))
        };
        let is_there = || self.live.values().any(|live| live.is_relay && has_tags(live));
        let text = match tags.is_empty() {
            true => format!("it waits until somebody takes it, as `hq pull steal --bag {job}` does"),
            false if is_there() => {
                format!(
                    "it waits until somebody with the {noun} {list} takes it, as `hq pull steal --bag {job}{asked}` does"
                )
            }
            false => format!(
                "it waits for somebody with the {noun} {list}, and nobody with that asks for tasks of bag {job}: `hq pull steal \
                 --bag {job}{asked}` does"
            ),
        };
        Reason::new(ReasonKind::Puller, text)
    }
}

// Of pulled tasks that a relay has. It says a little later that somebody has taken one.
fn is_with_relay(job: JobId, count: u64) -> Reason {
    let text = match count {
        1 => "it waits until somebody takes it, or has just been taken",
        _ => "they wait until somebody takes them, or have just been taken",
    };
    Reason::new(ReasonKind::Puller, format!("{text}, as by `hq pull steal --bag {job}`"))
}

// Jobs or workers in a sentence: by their ids, or how many there are.
fn named(what: &str, ids: &IdSet) -> String {
    match ids.len() {
        1 => format!("{what} {ids}"),
        more if ids.range_count() > NAMED_RANGES_MAX => format!("{more} {what}s"),
        _ => format!("{what}s {ids}"),
    }
}

// Of several streams and logs that have no room, a worker says a line for each, which names it: that of this one, or all where it is
// not found among them, as with other placeholders.
fn why_of(lines: &str, path: &str, job: JobId) -> String {
    let path = path.replace("%{JOB_ID}", &job.to_string());
    let ends = [format!("/{}:", path.trim_start_matches('/')), format!(" {path}:")];
    let own = lines.lines().find(|line| ends.iter().any(|end| line.contains(end)));
    own.map_or_else(|| lines.replace('\n', "; "), str::to_owned)
}
