//! Interpreters that functions are called in, and what functions leave behind.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_core::worker::{RunnerId, Start, ZygoteId};
use hq_model::body::Mpi;
use hq_model::{IdSet, Instance, JobId, TaskRef};

/// The runners of a worker: each has one call at a time, and serves one job and one number of ranks; a world that was started for
/// one call has no other.
#[derive(Debug, Default)]
pub struct Runners {
    all: BTreeMap<RunnerId, Runner>,
    last: RunnerId,
    // Calls that have left something here.
    left: BTreeSet<(TaskRef, Instance)>,
    // Calls that wait for others; whether they want to go on.
    waiting: BTreeMap<TaskRef, bool>,
    // How often each has been started, and whether it is there.
    zygotes: BTreeMap<ZygoteId, (u32, bool)>,
    // Those that have loaded what takes to call others.
    loaded: BTreeSet<(ZygoteId, u32)>,
}

#[derive(Debug)]
struct Runner {
    job: JobId,
    call: Option<TaskRef>,
    ranks: usize,
    is_for_one: bool,
}

impl Runners {
    /// A call has left something.
    pub fn leaves(&mut self, task: TaskRef, instance: Instance) {
        self.left.insert((task, instance));
    }

    /// A task starts. True when a call begins in a runner that was there.
    ///
    /// # Errors
    /// When a function has no runner, or not this one.
    pub fn starts(&mut self, start: &Start) -> Result<bool, String> {
        let (task, is_function) = (start.task, start.template.spec.body.function().is_some());
        let Some(runs_in) = start.runs_in else {
            // Ranks on other nodes are started from the first.
            return if is_function && !start.is_part {
                Err(format!("function {task} is not called anywhere"))
            } else {
                Ok(false)
            };
        };
        if !is_function || start.is_part {
            return Err(format!("{task} is called here, and is a program or is called elsewhere"));
        }
        let id = runs_in.runner;
        if runs_in.is_new {
            if id <= self.last {
                return Err(format!("runner {id:?} is started for {task}, and its number was given before"));
            }
            if let Some(zygote) = runs_in.zygote.filter(|zygote| !self.zygotes.contains_key(zygote)) {
                return Err(format!("runner {id:?} is forked from {zygote:?}, which was never started"));
            }
            self.last = id;
            let function = start.template.spec.body.function();
            let is_for_one =
                start.nodes.len() > 1 || function.is_some_and(|function| function.mpi == Mpi::World);
            let runner = Runner { job: task.job, call: Some(task), ranks: start.ranks.len(), is_for_one };
            self.all.insert(id, runner);
            return Ok(false);
        }
        match self.all.get_mut(&id) {
            None => Err(format!("task {task} is called in runner {id:?}, which is not there")),
            Some(Runner { job, .. }) if *job != task.job => {
                Err(format!("runner {id:?} of job {job} is given {task}"))
            }
            Some(Runner { call: Some(other), .. }) => {
                Err(format!("runner {id:?} runs {other} and is given {task}"))
            }
            Some(Runner { is_for_one: true, .. }) => {
                Err(format!("runner {id:?} was for one call, and is given {task}"))
            }
            Some(Runner { ranks, .. }) if *ranks != start.ranks.len() => {
                Err(format!("runner {id:?} has {ranks} ranks and is given {task} with {}", start.ranks.len()))
            }
            Some(runner) => {
                runner.call = Some(task);
                Ok(true)
            }
        }
    }

    /// A task has ended. Where it was called, if it was a function.
    pub fn call_ended(&mut self, task: TaskRef) -> Option<RunnerId> {
        self.waiting.remove(&task);
        let found = self.all.iter_mut().find(|(_, runner)| runner.call == Some(task))?;
        found.1.call = None;
        Some(*found.0)
    }

    /// A call begins to wait for others, or wants to go on. False when it is over or does so already.
    pub fn waits(&mut self, task: TaskRef, wants: bool) -> bool {
        let is_there = self.all.values().any(|runner| runner.call == Some(task));
        is_there && self.waiting.insert(task, wants) != Some(wants)
    }

    /// True when a call waits for others, or for its CPUs.
    pub fn is_waiting(&self, task: TaskRef) -> bool {
        self.waiting.contains_key(&task)
    }

    /// A call goes on.
    ///
    /// # Errors
    /// When it did not want to.
    pub fn goes_on(&mut self, task: TaskRef) -> Result<(), String> {
        match self.waiting.remove(&task) {
            Some(false) => Err(format!("task {task} is to go on and waits for others")),
            // It may have ended by now.
            Some(true) | None => Ok(()),
        }
    }

    /// A runner is told to end.
    ///
    /// # Errors
    /// When it is not there, or has a call.
    pub fn ends(&mut self, id: RunnerId) -> Result<(), String> {
        match self.all.remove(&id) {
            None => Err(format!("runner {id:?} is ended and is not there")),
            Some(Runner { call: Some(task), .. }) => {
                Err(format!("runner {id:?} is ended while it runs {task}"))
            }
            Some(Runner { call: None, .. }) => Ok(()),
        }
    }

    /// A runner dies. Nothing when it is gone already; else the call that it had.
    pub fn dies(&mut self, id: RunnerId) -> Option<Option<TaskRef>> {
        let call = self.all.remove(&id).map(|runner| runner.call);
        call.flatten().map(|task| self.waiting.remove(&task));
        call
    }

    /// A zygote is started. How often that was done before.
    ///
    /// # Errors
    /// When it is there, or was tried too often.
    pub fn starts_zygote(&mut self, id: ZygoteId) -> Result<u32, String> {
        let (tries, is_there) = self.zygotes.entry(id).or_default();
        if std::mem::replace(is_there, true) {
            return Err(format!("{id:?} is started and is there"));
        }
        *tries += 1;
        Ok(*tries)
    }

    /// A zygote is told to load what takes to call others. It may be gone.
    ///
    /// # Errors
    /// When it was never started, or has been told before.
    pub fn loads(&mut self, id: ZygoteId) -> Result<(), String> {
        let Some((tries, _)) = self.zygotes.get(&id) else {
            return Err(format!("{id:?} is to load something and was never there"));
        };
        if !self.loaded.insert((id, *tries)) {
            return Err(format!("{id:?} is told twice what to load"));
        }
        Ok(())
    }

    /// A zygote is told to end. False when it is gone already.
    ///
    /// # Errors
    /// When it was never started.
    pub fn ends_zygote(&mut self, id: ZygoteId) -> Result<bool, String> {
        match self.zygotes.get_mut(&id) {
            None => Err(format!("{id:?} is ended and was never there")),
            Some((_, is_there)) => Ok(std::mem::replace(is_there, false)),
        }
    }

    /// A zygote dies. False when it is gone already.
    pub fn zygote_dies(&mut self, id: ZygoteId) -> bool {
        self.zygotes.get_mut(&id).is_some_and(|(_, is_there)| std::mem::replace(is_there, false))
    }

    /// All are gone.
    pub fn clear(&mut self) {
        self.zygotes.clear();
        self.loaded.clear();
        self.all.clear();
        self.waiting.clear();
        self.last = RunnerId::default();
    }
}

/// What the function of a task leaves behind, as interpreters pack it: a value, or where that is in a store.
pub fn result_of(task: TaskRef, is_stored: bool) -> Vec<u8> {
    match is_stored {
        false => [&[0x80], format!("result of {task}").as_bytes()].concat(),
        true => [b"E\x09\x18\0", &[task.task.0 as u8; 24][..]].concat(),
    }
}

/// Looks at what a call is given of others, where a server knows what it takes.
///
/// # Errors
/// When that is not what they have left, or something is missing.
pub fn check_inputs(state: Option<&State>, runners: &Runners, start: &Start) -> Result<(), String> {
    let left_here = &runners.left;
    let wrong = start.inputs.iter().find(|input| {
        input.result != result_of(input.of, false) && input.result != result_of(input.of, true)
    });
    match wrong {
        Some(input) => {
            return Err(format!("{} is given {:?} as what {} left", start.task, input.result, input.of));
        }
        None if !start.template.spec.body.is_packed_call() => return Ok(()),
        None => {}
    }
    let Some(job) = state.and_then(|state| state.jobs.get(&start.task.job)) else { return Ok(()) };
    // One that waits for more since it was called, or for another call, may have been told of before that.
    if job.deferred.contains_key(&start.task.task) || job.values_of.contains_key(&start.task.task) {
        return Ok(());
    }
    let given: BTreeSet<TaskRef> = (start.inputs.iter().map(|input| input.of))
        .chain(start.objects.iter().map(|source| source.copy.object.task))
        .collect();
    let after = job.dependencies_of(start.task.job, start.task.task).into_iter();
    let taken = after.filter_map(|after| Some((after.job, after.tasks?)));
    let taken =
        taken.flat_map(|(job, tasks)| tasks.iter().map(|task| TaskRef::new(job, task)).collect::<Vec<_>>());
    // Workers that only do as if leave nothing.
    let has_left = |of: &TaskRef| {
        let mut room = usize::MAX;
        let known = state.map(|state| state.results.page(of.job, &IdSet::single(of.task), &mut room).0);
        // The attempt that counts.
        let instance = state.and_then(|state| Some(state.jobs.get(&of.job)?.instance_of(of.task)));
        known.is_some_and(|known| !known.is_empty())
            || instance.is_some_and(|instance| left_here.contains(&(*of, instance)))
    };
    let missing: Vec<String> =
        taken.filter(|of| !given.contains(of) && has_left(of)).map(|of| of.to_string()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("call {} begins without what {} left", start.task, missing.join(", "))),
    }
}

/// Looks at the results that a server takes down.
///
/// # Errors
/// When one is not that of its task.
pub fn check_results(effects: &[Effect]) -> Result<(), String> {
    for effect in effects {
        let Effect::Persist { record: Record::Finished { span, .. }, .. } = effect else { continue };
        for (task, result) in span.ids.iter().zip(span.results.iter()) {
            let task = TaskRef::new(span.job, task);
            let known = [Vec::new(), result_of(task, false), result_of(task, true)];
            if !known.iter().any(|known| known == result) {
                return Err(format!("task {task} has the result {:?}", String::from_utf8_lossy(result)));
            }
        }
    }
    Ok(())
}
