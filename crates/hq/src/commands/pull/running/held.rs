//! Which tasks this command has, which programs work on them, and which of these are to end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::program::Fault;

/// A task as it was given. The same task may come anew while a program of an earlier attempt is still there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt {
    id: String,
    attempt: String,
}

impl Attempt {
    pub(super) fn of(task: &Value) -> Attempt {
        let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
        Attempt { id: text("id"), attempt: text("attempt") }
    }

    /// What is said of it begins like this.
    pub(super) fn item(&self) -> Value {
        json!({"id": self.id, "attempt": self.attempt})
    }
}

/// All of them. Relays are named by their processes.
#[derive(Debug, Default)]
pub(super) struct Held {
    // With the relays that gave them.
    taken: BTreeMap<Attempt, Pid>,
    // Of those that are taken, whose program has been told to end, for they are over.
    over: BTreeSet<Attempt>,
    // Programs, with the relays of their tasks, and these.
    programs: HashMap<Pid, (Pid, Attempt)>,
    // Relays that have gone.
    lost: HashSet<Pid>,
}

impl Held {
    /// There is a relay of this number. Numbers of processes come again.
    pub(super) fn found(&mut self, relay: Pid) {
        self.lost.remove(&relay);
    }

    pub(super) fn take(&mut self, tasks: &[Value], relay: Pid) {
        self.taken.extend(tasks.iter().map(|task| (Attempt::of(task), relay)));
    }

    /// Those that a relay gave.
    pub(super) fn of(&self, relay: Pid) -> Vec<Attempt> {
        self.taken.iter().filter(|(_, of)| **of == relay).map(|(task, _)| task.clone()).collect()
    }

    /// It has ended here.
    pub(super) fn let_go(&mut self, task: &Attempt) {
        self.taken.remove(task);
        self.over.remove(task);
    }

    /// Why no program may begin on it, or what it did counts for nothing.
    pub(super) fn fault(&self, task: &Attempt, relay: Pid) -> Result<(), Fault> {
        if self.lost.contains(&relay) {
            return Err(Fault::Lost);
        }
        if self.over.contains(task) { Err(Fault::Over) } else { Ok(()) }
    }

    pub(super) fn begin(&mut self, program: Pid, relay: Pid, task: Attempt) {
        self.programs.insert(program, (relay, task));
    }

    pub(super) fn end(&mut self, program: Pid) {
        self.programs.remove(&program);
    }

    pub(super) fn programs(&self) -> impl ExactSizeIterator<Item = Pid> {
        self.programs.keys().copied()
    }

    /// A relay has gone: what it gave is given to others. How many tasks those are, and their programs; none when that was known.
    pub(super) fn lose(&mut self, relay: Pid) -> Option<(usize, Vec<Pid>)> {
        if !self.lost.insert(relay) {
            return None;
        }
        let before = self.taken.len();
        self.taken.retain(|_, of| *of != relay);
        let Held { taken, over, .. } = self;
        over.retain(|task| taken.contains_key(task));
        let programs = self.programs.iter().filter(|(_, (of, _))| *of == relay).map(|(program, _)| *program);
        Some((before - self.taken.len(), programs.collect()))
    }

    /// These are over before their programs are: what these are told, at first to end as they like.
    pub(super) fn end_over(&mut self, tasks: Vec<Attempt>) -> Vec<(Pid, Signal)> {
        let mut told = Vec::new();
        for task in tasks {
            // It may have ended meanwhile.
            if !self.taken.contains_key(&task) {
                continue;
            }
            let signal = if self.over.contains(&task) { Signal::KILL } else { Signal::TERM };
            let programs = self.programs.iter().filter(|(_, (_, of))| *of == task);
            told.extend(programs.map(|(program, _)| (*program, signal)));
            self.over.insert(task);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("a number")
    }

    fn task(attempt: &str) -> Value {
        json!({"id": "4@1", "attempt": attempt})
    }

    // A task of relay 1 whose program, 10, has been told to end.
    fn over() -> Held {
        let mut held = Held::default();
        held.take(&[task("1.0")], pid(1));
        held.begin(pid(10), pid(1), Attempt::of(&task("1.0")));
        assert_eq!(held.end_over(vec![Attempt::of(&task("1.0"))]), [(pid(10), Signal::TERM)]);
        held
    }

    fn faults(held: &Held, attempt: &str, relay: i32) -> String {
        format!("{:?}", held.fault(&Attempt::of(&task(attempt)), pid(relay)))
    }

    #[test]
    fn a_task_that_is_taken_anew_after_its_relay_has_gone_is_not_over() {
        let mut held = over();
        assert_eq!(held.lose(pid(1)), Some((1, vec![pid(10)])));
        assert_eq!(held.lose(pid(1)), None, "it was known");
        assert_eq!(faults(&held, "1.0", 1), "Err(Lost)");
        // Another relay may give the very same attempt, and the number of a process comes again.
        for relay in [2, 1] {
            held.found(pid(relay));
            held.take(&[task("1.0")], pid(relay));
            assert_eq!(faults(&held, "1.0", relay), "Ok(())");
            held.lose(pid(relay));
        }
    }

    #[test]
    fn a_task_that_ended_while_it_was_told_to_is_not_over_when_it_is_taken_anew() {
        let mut held = over();
        assert_eq!(faults(&held, "1.0", 1), "Err(Over)");
        held.end(pid(10));
        held.let_go(&Attempt::of(&task("1.0")));
        held.take(&[task("1.0")], pid(1));
        assert_eq!(faults(&held, "1.0", 1), "Ok(())");
    }

    #[test]
    fn a_program_of_an_earlier_attempt_is_ended_and_the_one_of_the_present_attempt_is_not() {
        let mut held = over();
        held.take(&[task("1.1")], pid(1));
        assert_eq!(faults(&held, "1.1", 1), "Ok(())");
        held.begin(pid(11), pid(1), Attempt::of(&task("1.1")));
        let said: Vec<Attempt> = held.of(pid(1));
        assert_eq!(said.len(), 2);
        assert_eq!(held.end_over(vec![Attempt::of(&task("1.0"))]), [(pid(10), Signal::KILL)]);
        held.end(pid(10));
        held.let_go(&Attempt::of(&task("1.0")));
        assert_eq!(held.end_over(vec![Attempt::of(&task("1.0"))]), [], "it has ended");
        assert_eq!(held.programs().collect::<Vec<_>>(), [pid(11)]);
    }
}
