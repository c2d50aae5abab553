//! What is asked of the thread that reads outputs: started with the first order.

use std::sync::Arc;
use std::time::Instant;

use hq_core::output_messages::{ReadAnswer, ReadOrder};
use hq_core::worker_messages::Template;
use hq_model::{Stream, paths};
use hq_stream::{Attempt, Output};

use super::{Order, Reader};
use crate::limits::FOLLOW_SLACK;
use crate::supervise::Supervisor;

impl Supervisor {
    /// Has it read what a task prints. Where that cannot be, why.
    pub(crate) fn read(&mut self, order: ReadOrder, template: &Arc<Template>, has_ended: bool, life: u64) {
        let number = order.number;
        if let Err(reason) = self.try_to_read(order, template, has_ended, life) {
            // The loop that takes it lives as long as this.
            let _ = self.answers.send((life, ReadAnswer::unreadable(number, reason)));
        }
    }

    fn try_to_read(
        &mut self,
        order: ReadOrder,
        template: &Arc<Template>,
        has_ended: bool,
        life: u64,
    ) -> Result<(), String> {
        let place = self.prepared_for(template)?.place(&order);
        let place = place.ok_or_else(|| format!("the {} of it goes nowhere", order.channel.word()))?;
        if matches!(place, paths::Place::Stream(Stream::Log(_))) {
            return Err("it goes into a log, which the server writes".to_owned());
        }
        if self.reader.is_none() {
            let started = Reader::start(self.answers.clone());
            self.reader = Some(started.map_err(|error| format!("no thread to read outputs: {error}"))?);
        }
        let (Some(reader), streams) = (&self.reader, &self.streams) else { return Ok(()) };
        let key = (order.task, order.instance);
        let until = Instant::now() + order.wait + FOLLOW_SLACK;
        let is_stream = matches!(place, paths::Place::Stream(_));
        let attempt = Attempt { task: order.task, instance: order.instance };
        let output = Output::new(place, &self.node.server_uid, attempt, order.channel);
        reader.tell(Order::Read { order, output, has_ended, life });
        if let Some(streams) = streams.as_ref().filter(|_| is_stream && !has_ended) {
            streams.follow(key, until, reader.sender());
        }
        Ok(())
    }

    /// Tells who reads outputs, if somebody does.
    pub(crate) fn tell_reader(&self, order: Order) {
        if let Some(reader) = &self.reader {
            reader.tell(order);
        }
    }
}
