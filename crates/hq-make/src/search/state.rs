//! Which runs are needed, and why: the three rules for that.

use hq_model::counted;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::context::Context;
use super::names::{name, script};
use super::{Search, fill::Filled};
use crate::known::{Cache, relative};
use crate::paths;
use crate::plan::{FileId, FileState, Plan, Reason, Rerun, Run, RunId, RunState, WantedFile};
use crate::problem::Problem;
use crate::value::Value;
use crate::world::Facts;

/// Clocks may differ so much before somebody is told.
const SKEW_NS: i64 = 2_000_000_000;

impl Search<'_> {
    /// The plan of what was found.
    pub(super) fn into_plan(mut self, rerun: Rerun) -> Result<Plan, Vec<Problem>> {
        let order = self.order().map_err(|problem| vec![problem])?;
        let mut place = vec![0_u32; self.runs.len()];
        for (at, run) in order.iter().enumerate() {
            place[*run] = at as u32;
        }
        let mut plan =
            Plan { base: self.wanted.base.clone(), targets: self.targets.clone(), ..Plan::default() };
        for file in 0..self.files.len() {
            let id = FileId(file as u32);
            // What a run makes without being asked for it was not looked at.
            if self.files[file].is_there.is_none() {
                self.is_there(id).map_err(|problem| vec![problem])?;
            }
            let node = &self.files[file];
            plan.files.push(WantedFile {
                path: node.path.clone(),
                shown_at: paths::shown_at(&self.wanted.base, &node.path) as u32,
                maker: node.maker.map(|maker| Self::run_id(&place, maker)),
                is_target: node.is_target,
                state: FileState::There,
            });
        }
        self.ask(&order);
        let targets: Vec<Arc<[Arc<str>]>> = self.contexts.all.iter().map(|of| self.targets_of(of)).collect();
        plan.runs.reserve_exact(order.len());
        for (at, run) in order.iter().enumerate() {
            plan.runs.push(self.take_run(*run, at, &targets));
        }
        self.name_scripts(&mut plan.runs)?;
        let known = self.world.known;
        let mut cache = Cache::new(Some(known), self.world.files, self.world.digests);
        let mut future = FxHashMap::default();
        for (at, node) in order.iter().enumerate() {
            let state =
                self.state(&plan, *node, at, &mut cache, &mut future).map_err(|problem| vec![problem])?;
            let run = &mut plan.runs[at];
            run.state = state.state;
            run.expected = state.expected;
            let run = &plan.runs[at];
            if run.state == RunState::There && state.is_to_adopt {
                cache
                    .record(run, &plan, false)
                    .map_err(|error| vec![self.io_problem(run.outputs[0], &error)])?;
            }
        }
        plan.adopted = std::mem::take(&mut cache.lines);
        self.finish(&mut plan);
        let count = future.len();
        if let Some((file, ahead_ns)) =
            future.into_iter().max_by_key(|(file, ahead_ns): &(FileId, i64)| (*ahead_ns, *file))
        {
            let ahead = hq_model::duration::format(std::time::Duration::from_secs(
                ahead_ns.unsigned_abs() / 1_000_000_000,
            ));
            let others = match count {
                1 => " is".to_owned(),
                count => format!(" and {} are", counted(count - 1, "other")),
            };
            let message = format!(
                "{}{others} from the future, by {ahead}: clocks differ, so it is unknown which files are newer",
                plan.files[file.index()].shown()
            );
            let place = self.make.rules[0].place.clone();
            plan.warnings.push(Problem { place: None, ..Problem::bad(place, message) });
        }
        plan.missing = self.missing_problems();
        plan.warnings.append(&mut self.warnings);
        plan.warnings.extend(self.make.warnings.iter().cloned());
        if rerun == Rerun::Exists && plan.runs.iter().all(|run| run.rerun == Rerun::Exists) {
            plan.adopted.clear();
        }
        if self.wanted.check {
            plan.warnings.extend(self.unasked());
        }
        Ok(plan)
    }

    fn targets_of(&self, context: &Context) -> Arc<[Arc<str>]> {
        context.targets.iter().map(|target| self.make.targets[*target].name.clone()).collect()
    }

    fn take_run(&mut self, run: usize, at: usize, targets: &[Arc<[Arc<str>]>]) -> Run {
        let filled: Filled = std::mem::take(&mut self.runs[run].filled);
        let context = self.context(run);
        let node = &self.runs[run];
        let rule = &self.make.rules[node.key.rule];
        let (script, text_at) = script(&context.dir, &filled);
        let variables = context.variables(node.key.rule);
        Run {
            id: RunId(at as u32),
            rule: rule.name.clone(),
            targets: targets[node.context].clone(),
            dir: context.dir.clone(),
            dir_shown: context.dir_shown.clone(),
            vars: variables
                .iter()
                .zip(&node.vars)
                .map(|((name, _), value): (&(_, _), &Value)| (name.clone(), value.str()))
                .collect(),
            name: name(rule, &node.vars),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            script,
            script_path: Vec::new(),
            log_path: Vec::new(),
            resources: filled.resources,
            retry: filled.retry,
            time_limit: filled.time_limit,
            env: filled.env,
            locality: filled.locality,
            after: Vec::new(),
            awaited: Vec::new(),
            state: RunState::There,
            rerun: node.rerun,
            expected: Vec::new(),
            place: rule.place.clone(),
            text_at,
            families: filled.families,
        }
    }

    // The runs before it are decided already.
    fn state(
        &mut self,
        plan: &Plan,
        node: usize,
        at: usize,
        cache: &mut Cache<'_>,
        future: &mut FxHashMap<FileId, i64>,
    ) -> Result<Decided, Problem> {
        if let Some(state) = self.state_behind(node) {
            return Ok(Decided::plainly(state));
        }
        let run = &plan.runs[at];
        let is_there = |search: &Search<'_>, file: FileId| search.files[file.index()].is_there == Some(true);
        let maker = |file: FileId| plan.files[file.index()].maker.map(|maker| &plan.runs[maker.index()]);
        for input in &run.inputs {
            // In mode `exists`, what is there can be used, even if it could not be made again.
            let is_usable = run.rerun == Rerun::Exists && is_there(self, *input);
            let cannot = match maker(*input) {
                Some(maker) => matches!(maker.state, RunState::Cannot(_)),
                None => self.is_unmakable(*input),
            };
            if cannot && !is_usable {
                return Ok(Decided::plainly(RunState::Cannot(*input)));
            }
        }
        if self.is_forced(&self.runs[node].key) {
            let made = run.inputs.iter().find(|input| maker(**input).is_some_and(|run| run.is_to_run()));
            let is_named = !matches!(self.forced, super::Forced::All);
            let reason = match made {
                Some(input) if is_named => Reason::MadeAnew { input: *input },
                _ => Reason::Forced,
            };
            return Ok(Decided::plainly(RunState::Needed(reason)));
        }
        if let Some(missing) = run.outputs.iter().find(|output| !is_there(self, **output)) {
            return Ok(Decided::plainly(RunState::Needed(Reason::Missing(*missing))));
        }
        if run.rerun == Rerun::Exists {
            return Ok(Decided::plainly(RunState::There));
        }
        let text = self.world.digests.of_text(run.text());
        let known = self.world.known.run(run);
        if known.is_some_and(|known| known.text != text) {
            return Ok(Decided::plainly(RunState::Needed(Reason::TextDiffers)));
        }
        if let (Rerun::Hash, Some(known)) = (run.rerun, known)
            && (!known.inputs.is_empty() || run.inputs.is_empty())
        {
            return self.by_content(plan, run, known, cache);
        }
        if let Some(input) = run.inputs.iter().find(|input| maker(**input).is_some_and(|run| run.is_to_run()))
        {
            return Ok(Decided::plainly(RunState::Needed(Reason::MadeAnew { input: *input })));
        }
        let until_ns = known.map_or(i64::MIN, |known| known.until_ns);
        match self.newer(run, until_ns, future)? {
            Some((input, output)) => Ok(Decided::plainly(RunState::Needed(Reason::Newer { input, output }))),
            None => Ok(Decided {
                state: RunState::There,
                expected: Vec::new(),
                is_to_adopt: known.is_none() || run.rerun == Rerun::Hash,
            }),
        }
    }

    fn by_content(
        &mut self,
        plan: &Plan,
        run: &Run,
        known: &crate::known::KnownRun,
        cache: &mut Cache<'_>,
    ) -> Result<Decided, Problem> {
        let mut expected = Vec::with_capacity(run.inputs.len());
        let mut made = None;
        if known.inputs.len() != run.inputs.len() {
            return Ok(Decided::plainly(RunState::Needed(Reason::OtherInputs)));
        }
        for (input, (path, digest)) in run.inputs.iter().zip(&known.inputs) {
            let name = relative(&plan.base, &plan.files[input.index()].path);
            if name != path {
                return Ok(Decided::plainly(RunState::Needed(Reason::OtherInputs)));
            }
            expected.push((*input, *digest));
            let maker = plan.files[input.index()].maker.map(|maker| &plan.runs[maker.index()]);
            if maker.is_some_and(|maker| maker.is_to_run()) {
                made = made.or(Some(*input));
                continue;
            }
            let Some(facts) = self.facts(*input)? else { continue };
            let now = cache
                .digest(name, &plan.files[input.index()].path, facts)
                .map_err(|error| self.io_problem(*input, &error))?;
            if now != *digest {
                return Ok(Decided::plainly(RunState::Needed(Reason::ContentDiffers(*input))));
            }
        }
        Ok(match made {
            Some(input) => {
                Decided { state: RunState::Perhaps(Reason::MadeAnew { input }), expected, is_to_adopt: false }
            }
            None => Decided::plainly(RunState::There),
        })
    }

    // An input that is newer than the oldest output.
    fn newer(
        &mut self,
        run: &Run,
        until_ns: i64,
        future: &mut FxHashMap<FileId, i64>,
    ) -> Result<Option<(FileId, FileId)>, Problem> {
        let mut oldest: Option<(i64, FileId)> = None;
        for output in &run.outputs {
            if let Some(Facts { mtime_ns, .. }) = self.facts(*output)?
                && oldest.is_none_or(|(time, _)| mtime_ns < time)
            {
                oldest = Some((mtime_ns, *output));
            }
        }
        let Some((oldest_ns, output)) = oldest else { return Ok(None) };
        let mut found = None;
        for input in &run.inputs {
            let Some(Facts { mtime_ns, .. }) = self.facts(*input)? else { continue };
            let ahead_ns = mtime_ns.saturating_sub(self.world.now_ns);
            if ahead_ns > SKEW_NS {
                future.insert(*input, ahead_ns);
            }
            if mtime_ns > oldest_ns && mtime_ns > until_ns && found.is_none() {
                found = Some((*input, output));
            }
        }
        Ok(found)
    }

    // What follows from the states of all runs.
    fn finish(&self, plan: &mut Plan) {
        for (number, node) in self.files.iter().enumerate() {
            let maker = plan.files[number].maker.map(|maker| &plan.runs[maker.index()]);
            let is_there = node.is_there == Some(true);
            plan.files[number].state = match maker {
                Some(run) if run.is_to_run() => FileState::Made,
                Some(run) if matches!(run.state, RunState::Cannot(_)) && !is_there => FileState::Unmakable,
                _ if is_there => FileState::There,
                _ if self.wanted.wait_inputs && node.maker.is_none() => FileState::Awaited,
                _ => FileState::Unmakable,
            };
        }
        for at in 0..plan.runs.len() {
            if !plan.runs[at].is_to_run() {
                continue;
            }
            let makers = plan.runs[at].inputs.iter().filter_map(|input| plan.files[input.index()].maker);
            let mut after: Vec<RunId> = makers.filter(|maker| plan.runs[maker.index()].is_to_run()).collect();
            after.sort_unstable();
            after.dedup();
            let awaited = plan.runs[at].inputs.iter().copied();
            plan.runs[at].awaited =
                awaited.filter(|input| plan.files[input.index()].state == FileState::Awaited).collect();
            plan.runs[at].after = after;
        }
    }

    // What stands in rules that nobody asks for: names that nothing could give.
    fn unasked(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (number, rule) in self.make.rules.iter().enumerate() {
            if self.runs.iter().any(|run| run.key.rule == number) {
                continue;
            }
            let mut known: Vec<&str> = vec!["inp", "out", "mpirun", "dirname", "resource"];
            known.extend(
                rule.outputs.iter().flat_map(|file| file.text.template.fields()).map(|field| &*field.name),
            );
            known.extend(rule.loops.iter().flat_map(|loops| &loops.variables).map(|(name, _)| &**name));
            known.extend(rule.steps.iter().filter_map(|step| match step {
                crate::makefile::Step::Attribute(name, _) => Some(&**name),
                _ => None,
            }));
            known.extend(
                self.make.targets.iter().flat_map(|target| &target.attributes).map(|(name, _)| &**name),
            );
            for text in rule.texts() {
                for field in text.template.fields() {
                    if !known.contains(&&*field.name) {
                        let message = format!(
                            "`{{{}}}` of the rule {} is neither a variable of its outputs nor an attribute",
                            field.shown(),
                            rule.name
                        );
                        let near = crate::problem::did_you_mean(&field.name, known.iter().copied());
                        problems.push(Problem::bad(text.place_at(field.at), message).maybe_hint(near));
                    }
                }
            }
        }
        problems
    }
}

/// How a run stands.
struct Decided {
    state: RunState,
    expected: Vec<(FileId, [u8; 32])>,
    is_to_adopt: bool,
}

impl Decided {
    fn plainly(state: RunState) -> Decided {
        Decided { state, expected: Vec::new(), is_to_adopt: false }
    }
}
