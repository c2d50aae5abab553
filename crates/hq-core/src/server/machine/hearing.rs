//! How a change is made: its record is applied to the state, heard by the rooms that are derived from it, and written.

use hq_model::Timestamp;

use super::Server;
use crate::record::Record;
use crate::server::Effect;
use crate::server::ended_entries::EndedEntries;
use crate::server::forecast::Forecast;
use crate::server::last_moments::LastMoments;
use crate::server::notices::Notices;
use crate::server::objects::Copies;
use crate::server::readiness::Readiness;
use crate::server::retention::Retention;

impl Server {
    /// Makes a change.
    pub(in crate::server) fn record(&mut self, at: Timestamp, record: Record, effects: &mut Vec<Effect>) {
        let together = self.together_before(&record);
        self.state.apply(at, &record);
        self.hear(&record);
        effects.push(Effect::Persist { at, record });
        self.end_together(together, effects);
    }

    // What is derived from the state hears what has changed there.
    fn hear(&mut self, record: &Record) {
        self.followers_end(record);
        self.readiness.hear(&self.state, record);
        for template in self.forecast.hear(&self.state, record) {
            self.queue_again(template);
        }
        self.retention.hear(&self.state, record);
        self.ended_entries.hear(&self.state, record);
        self.last_moments.hear(&self.state, record);
        self.copies.hear(&self.state, record);
        self.notices.hear(record);
        self.lingering.hear(&self.state, record);
        self.touched.extend(record.job());
        // How it is depends on how its generator and its reducer have ended.
        let own = record.job().filter(|own| self.state.jobs.get(own).is_none_or(|own| own.has_ended()));
        self.touched.extend(own.and_then(|own| self.state.feeders.get(&own)));
        self.watching.hear(record);
    }

    /// Makes anew what is derived from the state.
    pub(super) fn recount(&mut self) {
        self.readiness = Readiness::recount(&self.state);
        self.forecast = Forecast::recount(&self.state);
        self.retention = Retention::recount(self.options.keep_jobs, &self.state);
        self.ended_entries = EndedEntries::recount(&self.state);
        self.last_moments = LastMoments::recount(&self.state);
        self.copies = Copies::recount(&self.state);
        self.notices = Notices::recount(&self.state);
    }

    /// Compares what was heard record by record with a recount: for the simulator and tests.
    ///
    /// # Errors
    /// Says which room differs, and in what.
    pub fn check_recount(&self) -> Result<(), String> {
        self.readiness.check(&self.state)?;
        self.forecast.check(&self.state)?;
        self.retention.check(&self.state)?;
        self.ended_entries.check(&self.state)?;
        self.copies.check(&self.state)?;
        self.notices.check(&self.state)?;
        self.last_moments.check(&self.state)
    }
}
