//! Whoever is told of a job is told what has happened, at least once, and once more only where a server died in between.

use std::collections::BTreeMap;

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_core::server::state::job::Job;
use hq_model::notice::{Moment, NoticeEvent};
use hq_model::{JobId, Notice, Timestamp};

/// One of so many notices cannot be sent.
const LOST_ONE_IN: u64 = 4;

/// What was told.
#[derive(Debug, Default)]
pub struct Notices {
    // How often each was sent with success, and in which life of the server at last.
    told: BTreeMap<(JobId, u32, Timestamp), u64>,
    tries: u64,
    /// How many were told, by moment.
    pub count: [u64; 3],
}

impl Notices {
    /// A server wants these effects: what it decides to tell has happened.
    ///
    /// # Errors
    /// When it has not.
    pub fn persisted(&mut self, state: &State, effects: &[Effect]) -> Result<(), String> {
        let notices = effects.iter().filter_map(|effect| match effect {
            Effect::Persist {
                record: Record::Notice { change: hq_core::record::NoticeChange::Due(notice), .. },
                ..
            } => Some(notice),
            _ => None,
        });
        for notice in notices {
            let Some(job) = state.jobs.get(&notice.job) else { continue };
            if let Some(wrong) = untrue(notice, job) {
                return Err(format!("it is told that `{}`, and {wrong}", notice.title()));
            }
        }
        Ok(())
    }

    /// A notice leaves a server in one of its lives. Gives whether it arrives.
    ///
    /// # Errors
    /// When the same server has told it before.
    pub fn sent(&mut self, life: u64, notice: &Notice) -> Result<bool, String> {
        self.tries += 1;
        if self.tries.is_multiple_of(LOST_ONE_IN) {
            return Ok(false);
        }
        self.count[notice.event.moment() as usize] += 1;
        match self.told.insert((notice.job, notice.rule, notice.at), life) {
            Some(before) if before == life => Err(format!("it is told twice that `{}`", notice.title())),
            _ => Ok(true),
        }
    }

    /// A server starts with this state.
    ///
    /// # Errors
    /// When somebody was told what it does not know of.
    pub fn restarted(&self, state: &State) -> Result<(), String> {
        for (id, rule, _) in self.told.keys() {
            if state.jobs.get(id).is_some_and(|job| !job.told.contains_key(rule)) {
                return Err(format!(
                    "somebody was told of job {id}, and the server that starts knows nothing of it"
                ));
            }
        }
        Ok(())
    }

    /// All is over, and everything was told.
    ///
    /// # Errors
    /// Names what was not.
    pub fn check(&self, state: &State) -> Result<(), String> {
        if let Some((_, notice)) = state.notices.iter().next() {
            return Err(format!("nobody was told that `{}`", notice.title()));
        }
        for (id, job) in &state.jobs {
            for (rule, number) in job.spec.notices.iter().zip(0_u32..) {
                let has_happened = match rule.on {
                    Moment::End => job.has_ended(),
                    Moment::Failure => !job.failed.is_empty(),
                    Moment::Stall => false,
                };
                let told = job.told.get(&number);
                if has_happened && told.is_none() {
                    return Err(format!("nobody was told of the {} of job {id}", rule.on.word()));
                }
                let is_sent = told.filter(|told| told.end.as_ref().is_some_and(|end| end.error.is_none()));
                if is_sent.is_some_and(|told| !self.told.contains_key(&(*id, number, told.since))) {
                    return Err(format!("the {} of job {id} counts as told, and was not", rule.on.word()));
                }
            }
        }
        Ok(())
    }
}

// Why a notice is not true.
fn untrue(notice: &Notice, job: &Job) -> Option<String> {
    match &notice.event {
        NoticeEvent::End if !job.has_ended() => Some("it goes on".to_owned()),
        NoticeEvent::Failure { task, .. } if !job.failed.contains(*task) => Some("it has not".to_owned()),
        NoticeEvent::Stall { .. } if job.tasks_ended() => Some("nothing is left of it".to_owned()),
        _ => None,
    }
}
