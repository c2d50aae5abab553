//! How far one channel of a task was read, and what to do about each answer. No IO.

use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::limits::OUTPUT_READ_BYTES_MAX;
use hq_core::output_messages::{Output, OutputRead, OutputState, ReadFrom, Seen};
use hq_model::{Channel, Instance, TaskRef};

/// A reader of one channel of a task.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) task: TaskRef,
    pub(super) channel: Channel,
    seen: Seen,
    from: ReadFrom,
    // What is here was read while it ran: more of it may be here at its end.
    is_partial: bool,
    // Why nobody else could say it.
    why_not: Option<String>,
    // Its worker is asked although it has ended.
    even_ended: bool,
}

/// What is to be done about an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// Print this, and ask again.
    Printed { bytes: Vec<u8>, begins: Option<Begins> },
    /// Ask again: it waits to run.
    Waits,
    /// Read what its own file system has of this instance, tell so, and ask again. `reason`: why nobody else can say it.
    Look { instance: Instance, reason: Option<String> },
    /// There is no more, and will not be.
    Ended,
}

/// What was printed does not go on where the last of it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// The task has started again.
    Instance(Instance),
    /// It was cut off.
    CutOff,
}

impl Reader {
    pub(super) fn new(task: TaskRef, channel: Channel, from: ReadFrom) -> Reader {
        Reader {
            task,
            channel,
            seen: Seen::Nothing,
            from,
            is_partial: false,
            why_not: None,
            even_ended: false,
        }
    }

    /// One of a task that has ended, and whose file is not here.
    pub(super) fn of_ended(task: TaskRef, channel: Channel) -> Reader {
        Reader { even_ended: true, ..Reader::new(task, channel, ReadFrom::Offset(0)) }
    }

    /// What to ask.
    pub(super) fn request(&self, wait: Duration) -> ClientRequest {
        ClientRequest::ReadOutput(OutputRead {
            task: self.task,
            channel: self.channel,
            seen: self.seen,
            from: self.from,
            bytes_max: OUTPUT_READ_BYTES_MAX,
            wait,
            even_ended: self.even_ended,
        })
    }

    /// Where to read an instance from.
    pub(super) fn place_in(&self, instance: Instance) -> ReadFrom {
        match self.seen {
            Seen::Part(seen) | Seen::All(seen) if seen != instance => ReadFrom::Offset(0),
            _ => self.from,
        }
    }

    /// Takes an answer in.
    pub(super) fn hear(&mut self, output: Output) -> Heard {
        let Output { instance, offset, bytes, state, .. } = output;
        match state {
            OutputState::More | OutputState::Complete => {
                let before = match self.seen {
                    Seen::Nothing => None,
                    Seen::Part(seen) | Seen::All(seen) => Some(seen),
                };
                let begins = match (before, self.from) {
                    (Some(before), _) if before != instance => Some(Begins::Instance(instance)),
                    (_, ReadFrom::Offset(expected)) if offset < expected => Some(Begins::CutOff),
                    _ => None,
                };
                let is_complete = state == OutputState::Complete;
                self.seen = if is_complete { Seen::All(instance) } else { Seen::Part(instance) };
                self.from = ReadFrom::Offset(offset + bytes.len() as u64);
                Heard::Printed { bytes, begins }
            }
            OutputState::Waits => Heard::Waits,
            OutputState::Away(_) => Heard::Look { instance, reason: None },
            OutputState::Ended
                if self.seen == Seen::All(instance) && std::mem::take(&mut self.is_partial) =>
            {
                let why = self.why_not.take().unwrap_or_else(|| "it was not kept elsewhere".to_owned());
                Heard::Look { instance, reason: Some(why) }
            }
            OutputState::Ended if self.seen == Seen::All(instance) => Heard::Ended,
            // What is here already need not be asked for; what was begun elsewhere goes on there.
            OutputState::Ended if self.seen == Seen::Nothing => Heard::Look { instance, reason: None },
            OutputState::Ended => {
                self.even_ended = true;
                Heard::Waits
            }
            OutputState::Nowhere => Heard::Ended,
            OutputState::Unreadable(reason) => Heard::Look { instance, reason: Some(reason) },
        }
    }

    /// All that is here of an instance was read, up to this place. More may come of one that goes on; where nobody else
    /// `knows` of that, when it has ended.
    pub(super) fn has_read(&mut self, instance: Instance, end: u64, (goes_on, knows): (bool, bool)) {
        self.is_partial = goes_on && !knows;
        self.why_not = None;
        self.seen = if goes_on && knows { Seen::Part(instance) } else { Seen::All(instance) };
        self.from = ReadFrom::Offset(end);
    }

    /// Nothing of an instance is here, or not yet of one that goes on. True when nobody will have it.
    pub(super) fn is_not_here(&mut self, instance: Instance, reason: Option<&str>, goes_on: bool) -> bool {
        match reason {
            Some(why) => {
                self.why_not = Some(why.to_owned());
                self.from = self.place_in(instance);
                self.seen = Seen::All(instance);
                self.is_partial = goes_on;
                !goes_on
            }
            None => {
                self.even_ended = true;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, TaskId, WorkerId};

    use super::*;

    fn output(instance: u32, offset: u64, bytes: &str, state: OutputState) -> Output {
        Output { instance: Instance(instance), offset, length: 0, bytes: bytes.into(), state }
    }

    fn printed(bytes: &str, begins: Option<Begins>) -> Heard {
        Heard::Printed { bytes: bytes.into(), begins }
    }

    fn asks(reader: &Reader) -> (Seen, ReadFrom, bool) {
        match reader.request(Duration::ZERO) {
            ClientRequest::ReadOutput(read) => (read.seen, read.from, read.even_ended),
            other => panic!("{other:?}"),
        }
    }

    fn reader() -> Reader {
        Reader::new(TaskRef::new(JobId(1), TaskId(0)), Channel::Stdout, ReadFrom::Lines(10))
    }

    #[test]
    fn it_goes_on_where_the_last_answer_ended() {
        let (mut reader, one) = (reader(), Instance(1));
        assert_eq!(reader.hear(output(0, 0, "", OutputState::Waits)), Heard::Waits);
        assert_eq!(asks(&reader), (Seen::Nothing, ReadFrom::Lines(10), false));
        assert_eq!(reader.hear(output(1, 7, "abc", OutputState::More)), printed("abc", None));
        assert_eq!(asks(&reader), (Seen::Part(one), ReadFrom::Offset(10), false));
        assert_eq!(reader.hear(output(1, 10, "d", OutputState::Complete)), printed("d", None));
        assert_eq!(asks(&reader), (Seen::All(one), ReadFrom::Offset(11), false));
        assert_eq!(reader.hear(output(1, 0, "", OutputState::Ended)), Heard::Ended);
    }

    #[test]
    fn it_says_where_the_output_begins_anew() {
        let mut reader = reader();
        reader.hear(output(0, 0, "abc", OutputState::Complete));
        let again = Some(Begins::Instance(Instance(1)));
        assert_eq!(reader.hear(output(1, 0, "x", OutputState::More)), printed("x", again));
        assert_eq!(reader.hear(output(1, 0, "y", OutputState::More)), printed("y", Some(Begins::CutOff)));
        assert_eq!(asks(&reader), (Seen::Part(Instance(1)), ReadFrom::Offset(1), false));
    }

    #[test]
    fn what_has_ended_is_looked_for_here_first_unless_it_was_begun_elsewhere() {
        let mut fresh = reader();
        let look =
            |reason: Option<&str>| Heard::Look { instance: Instance(0), reason: reason.map(str::to_owned) };
        assert_eq!(fresh.hear(output(0, 0, "", OutputState::Ended)), look(None));
        assert!(!fresh.is_not_here(Instance(0), None, false));
        assert_eq!(asks(&fresh), (Seen::Nothing, ReadFrom::Lines(10), true));
        let gone = OutputState::Unreadable("gone".into());
        assert_eq!(fresh.hear(output(0, 0, "", gone)), look(Some("gone")));
        assert!(fresh.is_not_here(Instance(0), Some("gone"), false));
        assert_eq!(fresh.hear(output(0, 0, "", OutputState::Ended)), Heard::Ended);
        let mut begun = reader();
        begun.hear(output(0, 0, "abc", OutputState::More));
        assert_eq!(begun.hear(output(0, 0, "", OutputState::Ended)), Heard::Waits);
        assert_eq!(asks(&begun), (Seen::Part(Instance(0)), ReadFrom::Offset(3), true));
    }

    #[test]
    fn what_only_a_file_says_is_read_once_more_at_the_end() {
        let mut reader = reader();
        let look = |reason: &str| Heard::Look { instance: Instance(0), reason: Some(reason.into()) };
        assert_eq!(reader.hear(output(0, 0, "", OutputState::Unreadable("a log".into()))), look("a log"));
        reader.has_read(Instance(0), 8, (true, false));
        assert_eq!(asks(&reader), (Seen::All(Instance(0)), ReadFrom::Offset(8), false));
        assert_eq!(reader.hear(output(0, 0, "", OutputState::Ended)), look("it was not kept elsewhere"));
        reader.has_read(Instance(0), 9, (false, false));
        assert_eq!(reader.hear(output(0, 0, "", OutputState::Ended)), Heard::Ended);
    }

    #[test]
    fn while_a_worker_is_away_its_file_is_read_and_then_it_is_asked_again() {
        let mut reader = reader();
        reader.hear(output(0, 0, "abc", OutputState::More));
        let look = Heard::Look { instance: Instance(0), reason: None };
        assert_eq!(reader.hear(output(0, 0, "", OutputState::Away(WorkerId(1)))), look);
        assert_eq!(reader.place_in(Instance(0)), ReadFrom::Offset(3));
        assert_eq!(reader.place_in(Instance(1)), ReadFrom::Offset(0));
        reader.has_read(Instance(0), 8, (true, true));
        assert_eq!(asks(&reader), (Seen::Part(Instance(0)), ReadFrom::Offset(8), false));
    }
}
