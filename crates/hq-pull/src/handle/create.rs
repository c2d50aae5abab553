//! Tasks are created: all of a request, or none.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary, RequestError};
use hq_model::dependency::{After, Dependencies, NamedEdges};
use hq_model::job::{Target, TaskIds};
use hq_model::key::check_pulled_name;
use hq_model::task::{CrashLimit, Retry};
use hq_model::{Body, Entries, JobId, Request, Submit, TaskSpec, pulled};

use super::dependencies;
use crate::answers::{Answer, Created};
use crate::bags::{self, For};
use crate::contract::{
    CREATE_BEFORE, Create, Deferred, LimitWord, Missing, NewTask, Problem, bytes_of, seconds,
};
use crate::limits;
use crate::shared::Shared;

// In place of a bag that is not known yet.
const NO_BAG: JobId = JobId(u32::MAX);

// What is said of a task that becomes part of its specification. Neighbours are mostly alike, and to make a specification and to
// compare it takes longer than all else that is done for a task.
#[derive(Clone, Debug, PartialEq)]
struct Options {
    priority: i32,
    retries: u32,
    crash_limit: Option<LimitWord>,
    time_limit: Option<f64>,
    expect: Option<f64>,
    needs: Vec<String>,
}

// Tasks that have all in common but their names, their payloads, and the names of tasks whose success they wait for.
struct Group {
    options: Options,
    spec: TaskSpec,
    // What else they wait for.
    after: Vec<After>,
    names: Vec<Vec<u8>>,
    entries: Vec<Vec<u8>>,
    waits: Vec<Vec<String>>,
}

pub(super) async fn create(shared: &Rc<Shared>, mut create: Create) -> Result<Answer, Problem> {
    let tasks = std::mem::take(&mut create.tasks);
    if tasks.is_empty() || tasks.len() > limits::TASKS_MAX {
        let (count, most) = (tasks.len(), limits::TASKS_MAX);
        return Err(Problem::bad(format!("a request creates 1 to {most} tasks, and not {count}")));
    }
    let count = tasks.len() as u64;
    // What can be refused without a bag makes none: that would cost the id of a job.
    let mut groups = groups_of(NO_BAG, tasks)?;
    let before_making = |jobs: &[JobSummary]| {
        check_others(&groups, jobs)?;
        match create.missing {
            Missing::Error => check_new(&groups),
            Missing::Done => Ok(()),
        }
    };
    let (bag, is_new) = bags::find_or_make(shared, create.bag.as_ref(), For::Creating, before_making).await?;
    groups.iter_mut().for_each(|group| group.move_to(NO_BAG, bag));
    let created = create_in(shared, bag, create, (groups, count)).await;
    if is_new && created.is_err() {
        bags::take_back(shared, bag).await;
    }
    created
}

async fn create_in(
    shared: &Rc<Shared>,
    mut bag: JobId,
    create: Create,
    (mut groups, count): (Vec<Group>, u64),
) -> Result<Answer, Problem> {
    let mut may_reopen = true;
    loop {
        let submits = groups.iter().map(|group| submit_of(bag, group)).collect();
        let request = ClientRequest::SubmitAll { key: random_key()?, submits };
        match shared.client.change(request).await {
            Ok(ClientResponse::Submitted { ids, .. }) => {
                let new = ids.len();
                return Ok(Answer::Created(Created { bag: bag.0, new, known: count - new }));
            }
            Ok(_) => return Err(bags::unexpected()),
            // Somebody has closed it meanwhile: the next one of its name is made.
            Err(problem) if problem.code == "job-not-open" && may_reopen => {
                may_reopen = false;
                bags::forget(shared, bag);
                let again = bags::find(shared, create.bag.as_ref(), For::Creating).await?;
                if again == bag {
                    return Err(problem);
                }
                groups.iter_mut().for_each(|group| group.move_to(bag, again));
                bag = again;
            }
            Err(problem) if problem.code == "unknown-name" && create.missing == Missing::Done => {
                // Which one it is, the server says in its words alone: each is looked for.
                if !drop_unknown(shared, bag, &mut groups).await? {
                    return Err(problem);
                }
            }
            Err(problem) => return Err(problem),
        }
    }
}

impl Group {
    fn move_to(&mut self, from: JobId, to: JobId) {
        let tags: Vec<&str> = self.spec.requests.iter().flat_map(Request::tags).collect();
        self.spec.requests = vec![Request::pulled(to, &tags)];
        for after in self.after.iter_mut().filter(|after| after.job == from && after.key.is_some()) {
            after.job = to;
        }
    }

    // Names of tasks that some of them wait for.
    fn wanted(&self) -> impl Iterator<Item = &String> {
        self.after.iter().filter_map(|after| after.key.as_ref()).chain(self.waits.iter().flatten())
    }
}

// Tasks of other bags, and jobs, that are waited for have to be there.
fn check_others(groups: &[Group], jobs: &[JobSummary]) -> Result<(), Problem> {
    let is_there = |id: JobId| jobs.iter().any(|job| job.job == id);
    let mut others = groups.iter().flat_map(|group| &group.after).map(|after| after.job);
    match others.find(|id| *id != NO_BAG && *id != After::LAST && !is_there(*id)) {
        Some(unknown) => Err(RequestError::NoJob(unknown).into()),
        None => Ok(()),
    }
}

// Names in a bag that is not there yet are those of tasks before.
fn check_new(groups: &[Group]) -> Result<(), Problem> {
    let mut before: BTreeSet<&[u8]> = BTreeSet::new();
    let unknown = |key: &str| {
        let text = format!("no task has the name `{key}`, for the bag is new: {CREATE_BEFORE}");
        Err(Problem::new("unknown-name", text))
    };
    for group in groups {
        for key in group.after.iter().filter_map(|after| after.key.as_ref()) {
            if !before.contains(key.as_bytes()) {
                return unknown(key);
            }
        }
        for (name, waits) in group.names.iter().zip(&group.waits) {
            if let Some(key) = waits.iter().find(|key| !before.contains(key.as_bytes())) {
                return unknown(key);
            }
            before.insert(name);
        }
    }
    Ok(())
}

// Leaves out what no task is named, and no task of the request before. Says whether that was something.
async fn drop_unknown(shared: &Rc<Shared>, bag: JobId, groups: &mut [Group]) -> Result<bool, Problem> {
    let wanted: BTreeSet<&String> = groups.iter().flat_map(Group::wanted).collect();
    let wanted: Vec<String> = wanted.into_iter().cloned().collect();
    let found = super::look::find(shared, bag, &wanted).await?;
    let mut before: BTreeSet<Vec<u8>> = found.into_keys().map(String::into_bytes).collect();
    let mut has_dropped = false;
    for group in groups {
        let count = group.after.len();
        group.after.retain(|after| after.key.as_ref().is_none_or(|key| before.contains(key.as_bytes())));
        has_dropped |= group.after.len() < count;
        for (name, waits) in group.names.iter().zip(&mut group.waits) {
            let count = waits.len();
            waits.retain(|key| before.contains(key.as_bytes()));
            has_dropped |= waits.len() < count;
            before.insert(name.clone());
        }
    }
    Ok(has_dropped)
}

fn groups_of(bag: JobId, tasks: Vec<NewTask>) -> Result<Vec<Group>, Problem> {
    let mut groups: Vec<Group> = Vec::new();
    for task in tasks {
        check_pulled_name(task.name.as_bytes())
            .map_err(|error| Problem::bad(format!("invalid name: {error}")))?;
        let options = options_of(&task);
        let alike = groups.last().filter(|group| group.options == options);
        let spec = alike.map_or_else(|| spec_of(bag, &options).map(Some), |_| Ok(None))?;
        let NewTask { name, after, after_any, after_tasks, payload, payload_base64, payload_bytes, .. } =
            task;
        let waits = after;
        let after = match after_any.is_empty() && after_tasks.is_empty() {
            true => Vec::new(),
            false => dependencies(bag, &Deferred { after: Vec::new(), after_any, after_tasks })?,
        };
        let payload = bytes_of(payload, payload_base64.as_deref(), payload_bytes, "payload")?;
        if payload.len() > pulled::PAYLOAD_BYTES_MAX {
            let (bytes, most) = (payload.len(), pulled::PAYLOAD_BYTES_MAX);
            return Err(Problem::bad(format!(
                "the payload of `{name}` has {bytes} bytes, and may have {most}"
            )));
        }
        let entry = pulled::entry_of(name.as_bytes(), &payload);
        let is_of =
            |group: &&mut Group| group.after == after && spec.as_ref().is_none_or(|spec| group.spec == *spec);
        if let Some(group) = groups.last_mut().filter(is_of) {
            group.names.push(name.into_bytes());
            group.entries.push(entry);
            group.waits.push(waits);
            continue;
        }
        if groups.len() == limits::GROUPS_MAX {
            let most = limits::GROUPS_MAX;
            return Err(Problem::bad(format!(
                "a request may hold {most} tasks that each wait for something else or have other options: send several"
            )));
        }
        let spec = spec.or_else(|| groups.last().map(|group| group.spec.clone())).unwrap_or_default();
        let (names, entries, waits) = (vec![name.into_bytes()], vec![entry], vec![waits]);
        groups.push(Group { options, spec, after, names, entries, waits });
    }
    Ok(groups)
}

fn options_of(task: &NewTask) -> Options {
    Options {
        priority: task.priority,
        retries: task.retries,
        crash_limit: task.crash_limit.clone(),
        time_limit: task.time_limit,
        expect: task.expect,
        needs: task.needs.clone(),
    }
}

fn spec_of(bag: JobId, task: &Options) -> Result<TaskSpec, Problem> {
    let time = |value: Option<f64>, what| value.map(|value| seconds(value, what, Duration::MAX)).transpose();
    let limit = match &task.crash_limit {
        None => None,
        Some(LimitWord::Number(number)) => Some(number.to_string()),
        Some(LimitWord::Word(word)) => Some(word.clone()),
    };
    let limit = limit.map(|text| text.parse::<CrashLimit>()).transpose();
    let crash_limit =
        limit.map_err(|error| Problem::bad(format!("crash_limit: {error}")))?.unwrap_or_default();
    let time_limit = time(task.time_limit, "time_limit")?;
    if time_limit.is_some_and(|limit| limit.is_zero()) {
        return Err(Problem::bad(
            "with a `time_limit` of 0 the task would be ended at once; leave it out for no limit",
        ));
    }
    let needs = pulled::tags_of(&task.needs).map_err(|error| Problem::bad(format!("needs: {error}")))?;
    Ok(TaskSpec {
        body: Body::Pulled,
        requests: vec![Request::pulled(bag, &needs)],
        priority: task.priority,
        retry: Retry { max: task.retries, ..Retry::default() },
        crash_limit,
        time_limit,
        expected: time(task.expect, "expect")?,
        ..TaskSpec::default()
    })
}

fn submit_of(bag: JobId, group: &Group) -> Submit {
    let ids = TaskIds::Next(group.names.len() as u32);
    let texts = |texts: &[Vec<u8>]| Entries::new(texts.iter().map(Vec::as_slice)).unwrap_or_default();
    let mut dependencies = Dependencies { after: group.after.clone(), ..Dependencies::default() };
    match &group.waits[..] {
        // What all of them wait for is one thing to wait for.
        [first, others @ ..] if others.iter().all(|waits| waits == first) => {
            let own = first.iter().map(|name| After { key: Some(name.clone()), ..After::of(bag) });
            dependencies.after.extend(own);
        }
        waits => {
            let lists = waits.iter().map(|waits| waits.iter().map(String::as_bytes));
            dependencies.named = NamedEdges::new(lists).unwrap_or_default();
        }
    }
    Submit {
        entries: texts(&group.entries),
        keys: texts(&group.names),
        dependencies: Arc::new(dependencies),
        ..Submit::new(Target::Open(bag), ids, group.spec.clone())
    }
}

fn random_key() -> Result<u128, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Problem::new("system", format!("no randomness: {error}")))?;
    Ok(u128::from_le_bytes(bytes) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NewTask {
        NewTask { name: name.to_owned(), ..NewTask::default() }
    }

    #[test]
    fn tasks_that_are_alike_are_one_submit() {
        let waits = |name: &str, after: &str| NewTask { after: vec![after.into()], ..named(name) };
        let any = NewTask { after_any: vec!["a".into()], ..named("e") };
        let tasks = vec![named("a"), named("b"), waits("c", "a"), waits("d", "b"), any];
        let groups = groups_of(JobId(1), tasks).expect("names");
        let sizes: Vec<usize> = groups.iter().map(|group| group.names.len()).collect();
        assert_eq!(sizes, [4, 1]);
        let submit = submit_of(JobId(1), &groups[0]);
        assert_eq!(submit.keys.get(1), Some(&b"b"[..]));
        assert_eq!(submit.entries.get(1), Some(&pulled::entry_of(b"b", b"")[..]));
        let list = |place| submit.dependencies.named.of(place).collect::<Vec<_>>();
        assert_eq!([list(1), list(2), list(3)], [vec![], vec![&b"a"[..]], vec![&b"b"[..]]]);
        assert_eq!(submit.dependencies.after, []);
        let alike = groups_of(JobId(1), vec![waits("c", "a"), waits("d", "a")]).expect("names");
        let submit = submit_of(JobId(1), &alike[0]);
        assert!(submit.dependencies.named.is_empty());
        assert_eq!(submit.dependencies.after[0].key.as_deref(), Some("a"));
    }

    #[test]
    fn what_is_said_of_a_task_is_of_it_alone() {
        let with = |name: &str, priority: i32| NewTask { priority, ..named(name) };
        let limited = |name: &str, limit: LimitWord| NewTask { crash_limit: Some(limit), ..named(name) };
        let any = NewTask { after_any: vec!["a".into()], ..with("d", 2) };
        let tasks = vec![named("a"), with("b", 2), with("c", 2), any, named("e")];
        let groups = groups_of(JobId(1), tasks).expect("names");
        let told = groups.iter().map(|group| (group.names.len(), group.spec.priority, group.after.len()));
        assert_eq!(told.collect::<Vec<_>>(), [(1, 0, 0), (2, 2, 0), (1, 2, 1), (1, 0, 0)]);
        let same = vec![limited("a", LimitWord::Number(3)), limited("b", LimitWord::Word("3".into()))];
        assert_eq!(groups_of(JobId(1), same).expect("names").len(), 1, "said in two ways");
    }

    #[test]
    fn a_name_that_no_task_has_makes_no_bag() {
        let waits = |name: &str, after: &[&str]| {
            let after = after.iter().map(|name| (*name).to_owned()).collect();
            NewTask { after, ..named(name) }
        };
        let any = |name: &str, after: &str| NewTask { after_any: vec![after.into()], ..named(name) };
        for (tasks, refused) in [
            (vec![waits("a", &[]), waits("b", &["a"]), any("c", "b")], None),
            (vec![waits("a", &["b"]), waits("b", &[])], Some("`b`")),
            (vec![waits("a", &[]), waits("b", &["a", "x"])], Some("`x`")),
            (vec![any("a", "y")], Some("`y`")),
            (vec![waits("a", &["a"])], Some("`a`")),
        ] {
            let groups = groups_of(NO_BAG, tasks).expect("names");
            let problem = check_new(&groups).err();
            let told = problem.as_ref().map(|problem| problem.message.as_str());
            assert_eq!(told.is_some(), refused.is_some(), "{told:?}");
            assert!(refused.is_none_or(|name| told.is_some_and(|told| told.contains(name))), "{told:?}");
        }
    }

    #[test]
    fn a_job_that_is_not_there_makes_no_bag() {
        let after = |task: &str| NewTask { after_tasks: vec![task.to_owned()], ..named("a") };
        let known = |id| JobSummary {
            job: JobId(id),
            name: String::new(),
            is_open: false,
            counters: hq_model::job::Counters::default(),
            cancel_reason: None,
            unrunnable: 0,
            fed_end: hq_model::job::FedEnd::ByTasks,
            stalled: None,
        };
        for (task, is_refused) in [("4@1", true), ("3@1", false), ("4", true)] {
            let groups = groups_of(NO_BAG, vec![after(task), named("b")]).expect("names");
            let problem = check_others(&groups, &[known(3)]).err().map(|problem| problem.message);
            assert_eq!(problem.is_some_and(|text| text.contains("Job 4 not found")), is_refused, "{task}");
        }
    }

    #[test]
    fn what_cannot_be_created_is_explained() {
        let refused = |task: NewTask| {
            let Err(problem) = groups_of(JobId(1), vec![task]) else { panic!("refused") };
            problem.message
        };
        assert!(refused(named("")).contains("a key is empty"));
        assert!(refused(named("a\0")).contains("control characters"));
        assert!(refused(named(&"x".repeat(5000))).contains("at most 4096"));
        let large = NewTask { payload: Some("x".repeat(1 << 20)), ..named("a") };
        assert!(refused(large).contains("may have 65536"));
        let bad = NewTask { crash_limit: Some(LimitWord::Word("often".into())), ..named("a") };
        assert!(refused(bad).contains("crash limit"));
        let bad = NewTask { needs: vec!["a b".into()], ..named("a") };
        assert!(refused(bad).contains("needs: `a b` is no tag"));
        let bad = NewTask { after_tasks: vec!["x".into()], ..named("a") };
        assert!(refused(bad).contains("is not JOB"));
    }
}
