//! Processes of tasks: they end by themselves, by signals, or could never be made.

use std::time::Duration;

use hq_core::mark;
use hq_core::record::FailureKind;
use hq_core::worker::{Input as WorkerInput, Outcome as TaskOutcome, RunnerId, Start, ZygoteId};
use hq_model::{Instance, ObjectName, TaskRef, Timestamp};

use crate::canary::Canary;
use crate::nodes::Process;
use crate::observers::{check_inputs, lives_long_enough, result_of};
use crate::world::{Event, World};

impl World {
    /// Whatever starts a process, this is what is looked at.
    pub(crate) fn starts(&mut self, node: usize, start: &Start) -> Result<(), String> {
        let processes = &self.nodes[node].processes;
        self.observers.nodes.starts(start, processes)?;
        if let Some(worker) = &self.nodes[node].worker {
            lives_long_enough(self.now.since(self.nodes[node].started), worker.config(), start)?;
        }
        if !start.is_part {
            self.observers.attempts.ordered(start.task, start.instance);
            self.observers.objects.started(start, self.observers.attempts.machine_lost)?;
            let state = self.server.as_ref().map(|server| server.state());
            check_inputs(state, &self.nodes[node].runners, start)?;
        }
        if !start.objects.is_empty() {
            self.reused_runners += u64::from(self.nodes[node].runners.starts(start)?);
            self.stages(node, start);
            return Ok(());
        }
        self.begins(node, start, None)
    }

    /// A process is made, with the number that it has already.
    pub(crate) fn begins(&mut self, node: usize, start: &Start, number: Option<u64>) -> Result<(), String> {
        if !start.is_part {
            let handed = self.nodes[node].handed.get(&(start.task, start.instance));
            let epoch = handed.copied().unwrap_or_default();
            let of_server = self.server.as_ref().map(|server| server.state().epoch);
            let is_lost = self.observers.attempts.machine_lost;
            mark!(
                "what a server before handed out is started",
                is_lost && of_server.is_some_and(|own| own != epoch)
            );
            self.observers.started(start.task, start.instance, epoch)?;
            if self.options.canary == Some(Canary::StartsTwice) && self.rng.chance(20) {
                self.observers.started(start.task, start.instance, epoch)?;
            }
        }
        // One that was staged has its runner already.
        if number.is_none() {
            self.reused_runners += u64::from(self.nodes[node].runners.starts(start)?);
        }
        self.start_process(node, start, number);
        Ok(())
    }

    /// The launcher is told what follows a task.
    pub(crate) fn arms(&mut self, node: usize, start: Start, after: TaskRef) {
        let known = &mut self.nodes[node];
        let task = start.task;
        // Sometimes nobody there is free to start it later.
        let runs = known.processes.contains_key(&after) && !known.staging.contains_key(&after);
        let is_there = runs || known.armed.values().any(|start| start.task == after);
        if is_there && start.objects.is_empty() && !self.rng.chance(50) {
            known.armed.insert(after, start);
        } else {
            self.launcher_says(node, vec![WorkerInput::Recalled { task }], None);
        }
    }

    /// The launcher is to give it back. What has begun runs on.
    pub(crate) fn recalls(&mut self, node: usize, task: TaskRef) {
        let known = &mut self.nodes[node];
        let leader = known.armed.iter().find(|(_, start)| start.task == task).map(|(leader, _)| *leader);
        if let Some(leader) = leader {
            if self.options.canary != Some(Canary::StartsRecalled) {
                known.armed.remove(&leader);
            }
            let mut said = Vec::new();
            self.goes_back(node, task, &mut said);
            self.launcher_says(node, said, None);
        }
    }

    // A task that was armed does not begin, nor what is armed after it.
    fn goes_back(&mut self, node: usize, task: TaskRef, said: &mut Vec<WorkerInput>) {
        let mut next = Some(task);
        while let Some(task) = next {
            said.push(WorkerInput::Recalled { task });
            next = self.nodes[node].armed.remove(&task).map(|start| start.task);
        }
    }

    // The worker hears it a little later, and in order.
    pub(crate) fn launcher_says(&mut self, node: usize, inputs: Vec<WorkerInput>, begun: Option<Instance>) {
        let longest = [0, 0, 5_000, 100_000][self.rng.between(0, 3) as usize];
        let after = self.rng.between(0, longest);
        let known = &mut self.nodes[node];
        known.says_from = known.says_from.max(Timestamp(self.now.0 + after));
        let (at, launcher) = (known.says_from, known.launcher);
        self.at_time(at, Event::LauncherSays { node, launcher, inputs, begun });
    }

    pub(crate) fn launcher_said(
        &mut self,
        node: usize,
        launcher: u64,
        inputs: Vec<WorkerInput>,
        begun: Option<Instance>,
    ) -> Result<(), String> {
        let known = &mut self.nodes[node];
        if known.launcher != launcher {
            return Ok(());
        }
        if known.frozen_until > self.now {
            let at = known.frozen_until;
            known.says_from = known.says_from.max(at);
            self.at_time(at, Event::LauncherSays { node, launcher, inputs, begun });
            return Ok(());
        }
        let life = known.life;
        let task = inputs.iter().find_map(|input| match input {
            WorkerInput::Begun { task } => Some(*task),
            _ => None,
        });
        let worker = known.worker.as_ref();
        let is_late = task.is_some_and(|task| worker.is_some_and(|worker| worker.calls_back(task)));
        self.begun.1 += u64::from(is_late);
        self.worker_steps(node, inputs)?;
        if let (Some(task), Some(instance)) = (task, begun)
            && self.nodes[node].worker.as_ref().is_some_and(|worker| worker.lets_run(task))
        {
            self.observers.order.started((node, life), task, instance)?;
        }
        Ok(())
    }

    fn start_process(&mut self, node: usize, start: &Start, number: Option<u64>) {
        let task = start.task;
        self.processes += u64::from(number.is_none());
        let number = number.unwrap_or(self.processes);
        let stubborn = self.rng.chance(self.faults.stubborn_per_mille);
        let process = Process { stubborn, ..Process::new(number, start, self.now) };
        self.nodes[node].processes.insert(task, process);
        if start.is_part {
            return;
        }
        let spec = &start.template.spec;
        let left = spec.output_objects.iter();
        let mut left: Vec<_> = left.map(|left| spec.object_left(task, start.instance, &left.name)).collect();
        // Most calls return much. Takes nothing from the chances.
        if spec.body.is_packed_call() && self.nodes[node].store.is_some() && number % 4 != 1 {
            left.push(spec.object_left(task, start.instance, &ObjectName::value()));
        }
        if !left.is_empty() {
            self.nodes[node].leaves.insert(task, left);
        }
        if self.faults.has_feeds && self.feeds(node, start, number) {
            return;
        }
        if self.nodes[node].relay_of.is_some() && self.takes(node, task, number) {
            return;
        }
        if self.nodes[node].relay_of.is_none()
            && self.faults.not_started_per_mille > 0
            && self.rng.chance(self.faults.not_started_per_mille)
        {
            let (life, after) = (self.nodes[node].life, self.rng.between(100, 300_000));
            let outcome = TaskOutcome::NotStarted("no process could be made".into());
            self.at(after, Event::ProcessEnds { node, life, task, number, outcome });
            return;
        }
        let outcome = if self.rng.chance(self.faults.failing_per_mille) {
            TaskOutcome::Failed(FailureKind::Exit(1), "exit code 1".into())
        } else {
            TaskOutcome::Finished
        };
        let (shortest, longest) = match self.faults.runs_us {
            Some(range) => range,
            None => (100, [2_000, 500_000, 30_000_000][self.rng.between(0, 2) as usize]),
        };
        let after = match &self.campaign {
            Some(campaign) => campaign.runs(task),
            None => self.rng.between(shortest, longest),
        };
        let life = self.nodes[node].life;
        self.at(after, Event::ProcessEnds { node, life, task, number, outcome });
        // Some functions wait for what others return, while they run. Takes nothing from the chances.
        if start.runs_in.is_some() && number % 4 == 1 {
            let waits = Event::CallWaits { node, life, task, number, wants: false };
            self.at(after * (number % 7) / 7, waits);
        }
    }

    /// A call begins to wait for others, or wants to go on.
    pub(crate) fn call_waits(&mut self, node: usize, life: u64, task: TaskRef, number: u64, wants: bool) {
        let known = &mut self.nodes[node];
        if !known.runs(life, task, number) || !known.runners.waits(task, wants) {
            return;
        }
        if wants {
            return self.launcher_says(node, vec![WorkerInput::CallWants { task }], None);
        }
        self.waits += 1;
        self.launcher_says(node, vec![WorkerInput::CallWaits { task }], None);
        let after = (number * 7_919 % 5_000_000) >> (number % 13);
        self.at(after, Event::CallWaits { node, life, task, number, wants: true });
    }

    pub(crate) fn signal(&mut self, node: usize, task: TaskRef, signal: u8) {
        let Some(process) = self.nodes[node].processes.get(&task).copied() else { return };
        if signal != 9 && process.stubborn {
            return;
        }
        let life = self.nodes[node].life;
        let outcome = TaskOutcome::Failed(FailureKind::Signal(signal), format!("signal {signal}"));
        let after = self.rng.between(100, 50_000);
        self.at(after, Event::ProcessEnds { node, life, task, number: process.number, outcome });
    }

    /// An interpreter begins to load what runners are forked with. Some cannot be forked, or die. Takes nothing from the
    /// chances.
    pub(crate) fn starts_zygote(&mut self, node: usize, zygote: ZygoteId) -> Result<(), String> {
        let known = &mut self.nodes[node];
        let (life, tries) = (known.life, known.runners.starts_zygote(zygote)?);
        let number = u64::from(zygote.0) * 7_919 + life * 31 + node as u64 + u64::from(tries) * 101;
        let after = [100, 20_000, 3_000_000][(number % 3) as usize] * (1 + number % 5);
        let dies = Event::ZygoteDies { node, life, zygote };
        let says = match number % 16 {
            // It hangs for as long as it may.
            0 => return Ok(()),
            1..5 => {
                self.at(after, dies);
                return Ok(());
            }
            5 | 6 => WorkerInput::ZygoteUnfit { zygote },
            _ => WorkerInput::ZygoteReady { zygote, is_of_job: number.is_multiple_of(3) },
        };
        let is_unfit = matches!(says, WorkerInput::ZygoteUnfit { .. });
        if is_unfit || number % 16 < 12 {
            self.at(after * (2 + number % 40), dies);
        }
        self.launcher_says(node, vec![says], None);
        Ok(())
    }

    /// A zygote dies by itself, if it is there.
    pub(crate) fn zygote_dies(&mut self, node: usize, life: u64, zygote: ZygoteId) {
        let known = &mut self.nodes[node];
        if known.life == life && known.runners.zygote_dies(zygote) {
            let why = "no such file".to_owned();
            self.launcher_says(node, vec![WorkerInput::ZygoteEnded { zygote, why }], None);
        }
    }

    /// A runner dies by itself, and with it the call that it has: one that it is given before its worker hears of that, too.
    pub(crate) fn runner_dies(&mut self, node: usize, life: u64, runner: RunnerId) -> Result<(), String> {
        let known = &self.nodes[node];
        if known.life != life {
            return Ok(());
        }
        // After all that it has said.
        let heard = known.frozen_until.max(known.says_from.after(Duration::from_micros(1)));
        if heard > self.now {
            self.at_time(heard, Event::RunnerDies { node, life, runner });
            return Ok(());
        }
        let Some(call) = self.nodes[node].runners.dies(runner) else { return Ok(()) };
        let mut said = vec![WorkerInput::RunnerEnded { runner }];
        call.map(|task| self.nodes[node].staging.remove(&task));
        if let Some((task, process)) =
            call.and_then(|task| Some((task, self.nodes[node].processes.remove(&task)?)))
        {
            let outcome = TaskOutcome::Failed(FailureKind::Signal(9), "signal 9".into());
            said.insert(0, WorkerInput::ended(task, outcome, process.usage(self.now)));
        }
        // Those behind it have not begun.
        if let Some(follower) = call.and_then(|task| self.nodes[node].armed.remove(&task)) {
            self.goes_back(node, follower.task, &mut said);
        }
        self.worker_steps(node, said)
    }

    pub(crate) fn process_ends(
        &mut self,
        node: usize,
        life: u64,
        task: TaskRef,
        number: u64,
        mut outcome: TaskOutcome,
    ) -> Result<(), String> {
        let known = &mut self.nodes[node];
        let process = known.processes.get(&task).filter(|process| process.number == number).copied();
        let Some(process) = process.filter(|_| known.life == life) else { return Ok(()) };
        if known.frozen_until > self.now {
            let at = known.frozen_until;
            self.at_time(at, Event::ProcessEnds { node, life, task, number, outcome });
            return Ok(());
        }
        if known.runners.is_waiting(task)
            && !matches!(outcome, TaskOutcome::Failed(FailureKind::Signal(_), _))
        {
            // It returns when it has gone on.
            self.at(100_000, Event::ProcessEnds { node, life, task, number, outcome });
            return Ok(());
        }
        known.processes.remove(&task);
        // A runner that was to be started for a call that was not begun is not made.
        let unmade = known.staging.remove(&task).and_then(|start| start.runs_in);
        let unmade = unmade.filter(|runs_in| runs_in.is_new).map(|runs_in| runs_in.runner);
        let left = known.leaves.remove(&task).unwrap_or_default();
        if let TaskOutcome::NotStarted(_) = &outcome {
            self.observers.not_started(task, process.instance);
        }
        if self.options.canary == Some(Canary::LosesEnds) && self.rng.chance(20) {
            return Ok(());
        }
        let has_exited_well = outcome == TaskOutcome::Finished;
        let mut stored = Vec::new();
        if has_exited_well {
            let missing;
            (stored, missing) = self.stores(node, &process, left);
            outcome = missing.unwrap_or(outcome);
        }
        let is_success = outcome == TaskOutcome::Finished;
        let runner = self.nodes[node].runners.call_ended(task);
        let follower = self.nodes[node].armed.remove(&task);
        // A program follows a success; a runner goes on after an exception, but not after a call that was interrupted.
        let was_called = runner.is_some() && matches!(outcome, TaskOutcome::Failed(FailureKind::Exit(_), _));
        let mut goes_on = is_success || was_called;
        let has_stored = runner.is_some() && !stored.is_empty();
        let mut said = stored;
        said.push(WorkerInput::ended(task, outcome, process.usage(self.now)));
        if process.is_streamed {
            return self.exits(node, (task, number), said, is_success, (follower, is_success));
        }
        if let Some(runner) = unmade {
            self.nodes[node].runners.dies(runner);
            said.push(WorkerInput::RunnerEnded { runner });
            goes_on = false;
        } else if let (Some(runner), Some(WorkerInput::Ended { result, .. })) = (runner, said.last_mut()) {
            if is_success {
                *result = result_of(task, has_stored);
                self.nodes[node].runners.leaves(task, process.instance);
            }
            // Takes nothing from the chances.
            match number % 16 {
                3 => {
                    self.nodes[node].runners.dies(runner);
                    said.push(WorkerInput::RunnerEnded { runner });
                    goes_on = false;
                }
                7 => self.at(number % 1_000_000, Event::RunnerDies { node, life, runner }),
                _ => {}
            }
        }
        // What it has returned is put into the store while the next one runs.
        if has_stored && goes_on && follower.is_some() {
            return self.exits(node, (task, number), said, is_success, (follower, goes_on));
        }
        self.goes_on(node, said, (follower, goes_on))
    }

    // Its end comes when what it has printed is safe. Takes nothing from the chances.
    fn exits(
        &mut self,
        node: usize,
        (task, number): (TaskRef, u64),
        ended: Vec<WorkerInput>,
        is_success: bool,
        (follower, follows): (Option<Start>, bool),
    ) -> Result<(), String> {
        let said = vec![WorkerInput::Exited { task, is_success }];
        self.goes_on(node, said, (follower, follows))?;
        let known = &self.nodes[node];
        let takes = [0, 100, 20_000, 3_000_000][(number % 4) as usize];
        let at = known.says_from.max(self.now).after(Duration::from_micros(takes));
        let launcher = known.launcher;
        self.at_time(at, Event::LauncherSays { node, launcher, inputs: ended, begun: None });
        Ok(())
    }

    // What the launcher says, with what it does next.
    fn goes_on(
        &mut self,
        node: usize,
        mut said: Vec<WorkerInput>,
        (follower, follows): (Option<Start>, bool),
    ) -> Result<(), String> {
        let Some(start) = follower else {
            // What it said in this very moment may not have been heard yet.
            mark!("a launcher says two things in one moment", self.nodes[node].says_from == self.now);
            if self.nodes[node].says_from < self.now {
                return self.worker_steps(node, said);
            }
            self.launcher_says(node, said, None);
            return Ok(());
        };
        let task = start.task;
        if follows {
            self.begun.0 += 1;
            self.calls_begun += u64::from(start.runs_in.is_some());
            said.push(WorkerInput::Begun { task });
            self.starts(node, &start)?;
        } else {
            self.goes_back(node, task, &mut said);
        }
        self.launcher_says(node, said, follows.then_some(start.instance));
        Ok(())
    }
}
