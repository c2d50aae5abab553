//! Notices about jobs, on the wire and in the journal.

use std::time::Duration;

use hq_core::client_messages::NoticeInfo;
use hq_core::record::{NoticeChange, Record};
use hq_model::notice::{Moment, NoticeEvent, RULES_MAX, Told, ToldEnd};
use hq_model::{JobId, Notice, NoticeRule, NoticeTarget, TaskId, Timestamp};

use crate::ProtoError;
use crate::error::{count, in_range, present};
use crate::generated::{self as form, notice::Event, notice_record::Change};
use crate::wire::{Wire, list_from_wire, nanos, required, wire_enum};

wire_enum!(Moment = Moment, "moment of a notice": End, Failure, Stall);

impl Wire for NoticeRule {
    type Form = form::NoticeRule;

    fn to_wire(&self) -> form::NoticeRule {
        form::NoticeRule { on: self.on.to_wire(), target: self.target.to_string() }
    }

    fn from_wire(rule: form::NoticeRule) -> Result<NoticeRule, ProtoError> {
        Ok(NoticeRule { on: Moment::from_wire(rule.on)?, target: target(&rule.target)? })
    }
}

/// The rules of a job.
pub(crate) fn rules_from_wire(rules: Vec<form::NoticeRule>) -> Result<Vec<NoticeRule>, ProtoError> {
    in_range("rules about notices", rules.len() as u64, 0, RULES_MAX as u64)?;
    list_from_wire(rules)
}

fn target(text: &str) -> Result<NoticeTarget, ProtoError> {
    text.parse().map_err(|error: hq_model::notice::TargetError| ProtoError::Model {
        field: "target of a notice",
        reason: error.to_string(),
    })
}

impl Wire for Told {
    type Form = form::Told;

    fn to_wire(&self) -> form::Told {
        form::Told {
            since_us: self.since.0,
            end_us: self.end.as_ref().map(|end| end.at.0),
            error: self.end.as_ref().and_then(|end| end.error.clone()),
        }
    }

    fn from_wire(told: form::Told) -> Result<Told, ProtoError> {
        let end = told.end_us.map(|at| ToldEnd { at: Timestamp(at), error: told.error });
        Ok(Told { since: Timestamp(told.since_us), end })
    }
}

impl Wire for NoticeInfo {
    type Form = form::NoticeInfo;

    fn to_wire(&self) -> form::NoticeInfo {
        form::NoticeInfo {
            rule: Some(self.rule.to_wire()),
            told: self.told.as_ref().map(Wire::to_wire),
            trouble: self.trouble.clone(),
        }
    }

    fn from_wire(info: form::NoticeInfo) -> Result<NoticeInfo, ProtoError> {
        Ok(NoticeInfo {
            rule: required("rule of a notice", info.rule)?,
            told: info.told.map(Told::from_wire).transpose()?,
            trouble: info.trouble,
        })
    }
}

/// The form of what becomes of a notice.
pub(crate) fn record_to_wire(job: JobId, rule: u32, change: &NoticeChange) -> form::NoticeRecord {
    let change = match change {
        NoticeChange::Due(notice) => Change::Due(notice_to_wire(notice)),
        NoticeChange::Sent => Change::Sent(form::Nothing {}),
        NoticeChange::GivenUp(error) => Change::GivenUp(error.clone()),
    };
    form::NoticeRecord { job: job.0, rule, change: Some(change) }
}

/// What becomes of a notice.
pub(crate) fn record_from_wire(record: form::NoticeRecord) -> Result<Record, ProtoError> {
    let (job, rule) = (JobId(record.job), record.rule);
    let change = match present("change of a notice", record.change)? {
        Change::Due(notice) => NoticeChange::Due(Box::new(notice_from_wire(job, rule, notice)?)),
        Change::Sent(_) => NoticeChange::Sent,
        Change::GivenUp(error) => NoticeChange::GivenUp(error),
    };
    Ok(Record::Notice { job, rule, change })
}

fn notice_to_wire(notice: &Notice) -> form::Notice {
    let event = match &notice.event {
        NoticeEvent::End => Event::End(form::Nothing {}),
        NoticeEvent::Failure { task, error, stderr } => {
            let (error, stderr) = (error.clone(), stderr.clone());
            Event::Failure(form::FirstFailure { task: task.0, error, stderr })
        }
        NoticeEvent::Stall { quiet, explanation } => {
            Event::Stall(form::Stall { quiet_ns: nanos(*quiet), explanation: explanation.clone() })
        }
    };
    form::Notice {
        at_us: notice.at.0,
        name: notice.name.clone(),
        target: notice.target.to_string(),
        state: notice.state.to_wire(),
        counters: Some(notice.counters.to_wire()),
        submit_dir: notice.submit_dir.clone(),
        event: Some(event),
    }
}

fn notice_from_wire(job: JobId, rule: u32, notice: form::Notice) -> Result<Notice, ProtoError> {
    let event = match present("event of a notice", notice.event)? {
        Event::End(_) => NoticeEvent::End,
        Event::Failure(form::FirstFailure { task, error, stderr }) => {
            NoticeEvent::Failure { task: TaskId(task), error, stderr }
        }
        Event::Stall(stall) => {
            NoticeEvent::Stall { quiet: Duration::from_nanos(stall.quiet_ns), explanation: stall.explanation }
        }
    };
    Ok(Notice {
        job,
        name: notice.name,
        rule,
        target: target(&notice.target)?,
        at: Timestamp(notice.at_us),
        state: Wire::from_wire(notice.state)?,
        counters: required("counters of a notice", notice.counters)?,
        submit_dir: notice.submit_dir,
        event,
    })
}

/// What was told of a job, by the places of its rules.
pub(crate) fn told_from_wire(told: Vec<form::ToldNotice>) -> Result<Vec<(u32, Told)>, ProtoError> {
    let known = told.len() as u64;
    let told = told.into_iter().map(|told| Ok((told.rule, required("what was told", told.told)?)));
    let told = told.collect::<Result<std::collections::BTreeMap<_, _>, ProtoError>>()?;
    count("rules about notices", told.len() as u64, known)?;
    Ok(told.into_iter().collect())
}
