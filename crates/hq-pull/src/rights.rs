//! What somebody may say who has come as a puller to the server's port: only of the bags that its access file names.
//!
//! The server says so before it passes anything on, in words that no spelling begins with.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::relay::{Refusal, Which};
use hq_model::JobId;
use hq_model::dependency::After;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use crate::bags::DEFAULT;
use crate::connection::Reader;
use crate::contract::{BagRef, End, Problem, Request};
use crate::limits::RIGHTS_BYTES_MAX;

/// The first byte of what a server says of a puller.
pub(crate) const FIRST_BYTE: u8 = 2;
/// Labels of pullers begin with it, so that they never are those of others.
const LABELS: &str = "puller/";

/// What a connection may say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All that there is.
    #[default]
    All,
    /// What is about bags of these names.
    Bags(BTreeSet<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    bags: BTreeSet<String>,
}

/// What is to be said at the socket of a relay before anything that a puller says.
pub fn preface(bags: &[String]) -> Vec<u8> {
    let said = Said { bags: bags.iter().cloned().collect() };
    let text = serde_json::to_vec(&said).expect("texts have a JSON form");
    [&[FIRST_BYTE], &(text.len() as u32).to_be_bytes()[..], &text].concat()
}

/// Reads what [`preface`] says.
pub(crate) async fn read(reader: &mut Reader) -> std::io::Result<Rights> {
    let first = reader.read_u8().await?;
    debug_assert_eq!(first, FIRST_BYTE, "whoever calls has seen it");
    let length = reader.read_u32().await? as usize;
    if length > RIGHTS_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text).await?;
    let said: Said = serde_json::from_slice(&text)?;
    Ok(Rights::Bags(said.bags))
}

impl Rights {
    /// Says whether a request may be made. `known` are bags that were named before.
    ///
    /// # Errors
    /// `denied`, where it may not.
    pub(crate) fn check(&self, request: &Request, known: &BTreeMap<BagRef, JobId>) -> Result<(), Problem> {
        let Rights::Bags(names) = self else { return Ok(()) };
        let checker = Checker { names, known };
        match request {
            Request::Hello(_) | Request::Sync(_) | Request::Leave(_) => Ok(()),
            Request::Open(open) => checker.name(open.name.as_deref().unwrap_or(DEFAULT)),
            Request::Create(create) => {
                checker.bag(create.bag.as_ref())?;
                create.tasks.iter().try_for_each(|task| checker.after(&task.after_tasks))
            }
            Request::Next(next) => {
                checker.ends(None, &next.done)?;
                checker.taken(&next.bags, next.take > 0 || next.done.is_empty())
            }
            Request::Take(take) => checker.taken(&take.bags, true),
            Request::Complete(ends)
            | Request::Fail(ends)
            | Request::Release(ends)
            | Request::Defer(ends)
            | Request::Extend(ends) => checker.ends(ends.bag.as_ref(), &ends.tasks),
            Request::Look(look) => checker.bag(look.bag.as_ref()),
            Request::Close(close) => checker.bag(close.bag.as_ref()),
            Request::Status(status) => status.bags.iter().try_for_each(|bag| checker.bag(Some(bag))),
        }
    }

    /// The bags that it may speak of, where these are not all.
    pub(crate) fn bags(&self) -> Option<&BTreeSet<String>> {
        match self {
            Rights::All => None,
            Rights::Bags(names) => Some(names),
        }
    }

    /// The label of a session that somebody names.
    pub(crate) fn label(&self, said: &str) -> String {
        match self {
            Rights::All => said.to_owned(),
            Rights::Bags(_) => format!("{LABELS}{said}"),
        }
    }

    /// What is told of what counts for nothing: of a task of another bag the same, whoever has it and whatever its attempts are.
    /// `known` are bags that were named before.
    pub(crate) fn refused(
        &self,
        which: &Which,
        refusal: Refusal,
        known: &BTreeMap<BagRef, JobId>,
    ) -> Problem {
        let told = match (self, refusal) {
            (Rights::All, refusal) => refusal,
            (Rights::Bags(names), refusal) => {
                let job = match (&refusal, which) {
                    (Refusal::HeldByOther { task, .. }, _) | (_, Which::Task(task, _)) => Some(task.job),
                    (_, Which::Named(..)) => None,
                };
                let is_theirs = job.is_none_or(|job| (Checker { names, known }).job(job).is_ok());
                match refusal {
                    _ if !is_theirs => Refusal::NotHeld,
                    // Of others than pullers it cannot take the label.
                    Refusal::HeldByOther { task, label } => Refusal::HeldByOther {
                        task,
                        label: label.and_then(|label| label.strip_prefix(LABELS).map(str::to_owned)),
                    },
                    refusal => refusal,
                }
            }
        };
        Problem::new(told.code(), told.to_string())
    }

    /// What is told of a problem: nothing of other jobs.
    pub(crate) fn tell(&self, problem: Problem) -> Problem {
        match self {
            Rights::Bags(_) if problem.code == "no-bag" => {
                Problem::new("no-bag", "there is no such bag: `hq pull open NAME` makes one")
            }
            _ => problem,
        }
    }
}

struct Checker<'a> {
    names: &'a BTreeSet<String>,
    known: &'a BTreeMap<BagRef, JobId>,
}

impl Checker<'_> {
    fn bag(&self, bag: Option<&BagRef>) -> Result<(), Problem> {
        match bag {
            None => self.name(DEFAULT),
            Some(BagRef::Name(name)) => self.name(name),
            Some(BagRef::Id(id)) => self.job(JobId(*id)),
        }
    }

    fn name(&self, name: &str) -> Result<(), Problem> {
        match name.parse() {
            _ if self.names.contains(name) => Ok(()),
            Ok(id) => self.job(JobId(id)),
            Err(_) => Err(self.denied(&format!("the bag `{name}`"))),
        }
    }

    // An id is as good as the name that has led to it.
    fn job(&self, job: JobId) -> Result<(), Problem> {
        let is_theirs = |name: &String| self.known.get(&BagRef::Name(name.clone())) == Some(&job);
        match self.names.contains(&job.to_string()) || self.names.iter().any(is_theirs) {
            true => Ok(()),
            false => Err(self.denied(&format!("job {job}"))),
        }
    }

    fn taken(&self, bags: &[BagRef], takes: bool) -> Result<(), Problem> {
        match bags {
            [] if takes => self.bag(None),
            bags => bags.iter().try_for_each(|bag| self.bag(Some(bag))),
        }
    }

    // Tasks are those of its session, whatever their bag is called.
    fn ends(&self, bag: Option<&BagRef>, ends: &[End]) -> Result<(), Problem> {
        bag.map_or(Ok(()), |bag| self.bag(Some(bag)))?;
        let deferred = ends.iter().filter_map(|end| end.deferred.as_ref());
        deferred.into_iter().try_for_each(|deferred| self.after(&deferred.after_tasks))
    }

    // Whoever waits for a job learns how it ends. What is none is refused later, with its reason.
    fn after(&self, tasks: &[String]) -> Result<(), Problem> {
        let named = tasks.iter().filter_map(|text| text.parse::<After>().ok());
        named.into_iter().try_for_each(|after| self.job(after.job))
    }

    fn denied(&self, what: &str) -> Problem {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        let text =
            format!("this access file does not let you speak of {what}, but of bags {}", names.join(", "));
        Problem::new("denied", text)
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{TaskId, TaskRef};

    use super::*;
    use crate::contract::parse;

    fn check(line: &str) -> Result<(), String> {
        let rights = Rights::Bags(["dock".to_owned(), "pull".to_owned()].into());
        let known = BTreeMap::from([
            (BagRef::Name("dock".to_owned()), JobId(4)),
            (BagRef::Name("other".to_owned()), JobId(5)),
        ]);
        let request = parse(line.as_bytes()).expect(line);
        assert_eq!(Rights::All.check(&request, &known).map_err(|problem| problem.code), Ok(()));
        rights.check(&request, &known).map_err(|problem| {
            assert_eq!(problem.code, "denied", "{line}");
            problem.message
        })
    }

    #[test]
    fn what_is_about_bags_of_an_access_file_may_be_said() {
        for line in [
            r#"{"hello":{"label":"a"}}"#,
            r#"{"leave":{"label":"a"}}"#,
            r#"{"open":{}}"#,
            r#"{"create":{"bag":"dock","tasks":[{"name":"a","after_tasks":["4@1"]}]}}"#,
            r#"{"next":{"done":[{"id":"5@1"}]}}"#,
            r#"{"next":{"take":1,"bags":["dock",4,"4","pull"]}}"#,
            r#"{"take":{}}"#,
            r#"{"complete":{"tasks":[{"id":"5@1"}]}}"#,
            r#"{"look":{"bag":4,"names":["a"]}}"#,
            r#"{"close":{"bag":"dock"}}"#,
            r#"{"status":{}}"#,
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn all_else_is_denied_by_each_word_that_names_a_bag() {
        for (line, what) in [
            (r#"{"open":{"name":"other"}}"#, "the bag `other`"),
            (r#"{"create":{"bag":"other","tasks":[]}}"#, "the bag `other`"),
            (r#"{"create":{"bag":"dock","tasks":[{"name":"a","after_tasks":["4@1","7"]}]}}"#, "job 7"),
            (r#"{"next":{"take":1,"bags":["dock","other"]}}"#, "the bag `other`"),
            (r#"{"next":{"take":1,"bags":["dock",5]}}"#, "job 5"),
            (r#"{"take":{"bags":["5"]}}"#, "job 5"),
            (r#"{"next":{"done":[{"id":"4@1","deferred":{"after_tasks":["5@1"]}}]}}"#, "job 5"),
            (r#"{"complete":{"bag":"other","tasks":[]}}"#, "the bag `other`"),
            (r#"{"fail":{"bag":5,"tasks":[]}}"#, "job 5"),
            (r#"{"release":{"bag":5,"tasks":[]}}"#, "job 5"),
            (r#"{"defer":{"bag":5,"tasks":[]}}"#, "job 5"),
            (r#"{"extend":{"bag":5,"tasks":[]}}"#, "job 5"),
            (r#"{"look":{"bag":5,"names":[]}}"#, "job 5"),
            (r#"{"close":{"bag":5}}"#, "job 5"),
            (r#"{"status":{"bags":["other"]}}"#, "the bag `other`"),
        ] {
            let told =
                format!("this access file does not let you speak of {what}, but of bags `dock`, `pull`");
            assert_eq!(check(line), Err(told), "{line}");
        }
    }

    #[test]
    fn who_has_a_task_is_told_of_bags_of_an_access_file_alone() {
        let rights = Rights::Bags(["dock".to_owned()].into());
        let known = BTreeMap::from([(BagRef::Name("dock".to_owned()), JobId(4))]);
        let told = |rights: &Rights, job, label: Option<&str>| {
            let task = TaskRef::new(JobId(job), TaskId(1));
            let refusal = Refusal::HeldByOther { task, label: label.map(str::to_owned) };
            let problem = rights.refused(&Which::Task(task, None), refusal, &known);
            assert_eq!(problem.code, "not-held");
            problem.message
        };
        let another = "another one has it and not this session: `hq pull status` shows who";
        let named = "the session `n1` has it and not this session: `--as n1` speaks for that one";
        assert_eq!(told(&Rights::All, 5, Some("n1")), named);
        assert_eq!(told(&Rights::All, 5, None), another);
        assert_eq!(told(&rights, 4, Some("puller/n1")), named);
        assert_eq!(told(&rights, 4, Some("n1")), another);
        assert_eq!(told(&rights, 5, Some("puller/n1")), Refusal::NotHeld.to_string());
        let wrong_attempt = |rights: &Rights, job| {
            let which = Which::Task(TaskRef::new(JobId(job), TaskId(1)), Some("9".to_owned()));
            rights.refused(&which, Refusal::Stale, &known).code
        };
        assert_eq!((wrong_attempt(&Rights::All, 5), wrong_attempt(&rights, 4)), ("stale", "stale"));
        assert_eq!(wrong_attempt(&rights, 5), "not-held", "as with the right one");
    }

    #[test]
    fn a_puller_has_labels_of_its_own_and_hears_of_no_other_jobs() {
        let rights = Rights::Bags(["dock".to_owned()].into());
        assert_eq!((Rights::All.label("a"), rights.label("a")), ("a".to_owned(), "puller/a".to_owned()));
        let problem = || Problem::new("no-bag", "open jobs are `secret` (job 1)");
        assert!(!rights.tell(problem()).message.contains("secret"));
        assert!(Rights::All.tell(problem()).message.contains("secret"));
        assert_eq!(rights.tell(Problem::bad("x")).message, "x");
    }
}
