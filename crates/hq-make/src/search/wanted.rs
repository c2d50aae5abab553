//! The files that targets ask for, or those that the call names.

use std::sync::Arc;

use super::fill::Stop;
use super::loops::{InRound, rounds};
use super::{Asker, Search};
use crate::format::Scope;
use crate::makefile::{NamedFile, Target};
use crate::paths;
use crate::problem::{NO_RULE, Problem, did_you_mean};
use crate::value::Value;

/// The names that a target sees: its own.
struct Own(std::rc::Rc<Vec<(Arc<str>, Value)>>);

impl Scope for Own {
    fn get(&self, name: &str) -> Option<Value> {
        self.0.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.clone())
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.to_string()).collect()
    }
}

impl Search<'_> {
    /// Puts what is wanted into the queue.
    pub(super) fn want(&mut self) -> Result<(), Vec<Problem>> {
        let mut waiting = self.chosen_targets()?;
        let mut contexts = Vec::new();
        let mut wanted: Vec<(usize, usize, String)> = Vec::new();
        for target in &waiting {
            match self.contexts.of(self.make, *target, &self.wanted.base) {
                Ok(context) => contexts.push((*target, context)),
                Err(problems) => {
                    problems.into_iter().for_each(|problem| self.wrong(problem));
                    return Err(std::mem::take(&mut self.problems));
                }
            }
        }
        while !waiting.is_empty() {
            let mut later = Vec::new();
            for target in waiting {
                let context =
                    contexts.iter().find(|(known, _)| *known == target).map_or(0, |(_, context)| *context);
                match self.names_of(target, context) {
                    Ok(names) => wanted.extend(names.into_iter().map(|name| (target, context, name))),
                    Err(Stop::Pending) => later.push(target),
                    Err(Stop::Wrong(problem)) => self.wrong(*problem),
                }
            }
            if !later.is_empty() {
                self.expressions.ask(self.world.python);
            }
            waiting = later;
        }
        if !self.problems.is_empty() {
            return Err(std::mem::take(&mut self.problems));
        }
        // Which waited for Python makes no difference to the order.
        wanted.sort_by_key(|(target, _, _)| *target);
        if !self.wanted.only.is_empty() {
            wanted = self.only(&wanted)?;
        }
        for (target, context, name) in wanted {
            let path = paths::join(&self.contexts.all[context].dir, &name);
            let file = self.file(path, Asker::Target(target));
            let node = &mut self.files[file.index()];
            if !std::mem::replace(&mut node.is_target, true) {
                self.targets.push(file);
            }
            let name = self.within(context, name, file);
            self.queue.push_back((file, context, name));
        }
        Ok(())
    }

    fn chosen_targets(&self) -> Result<Vec<usize>, Vec<Problem>> {
        if self.wanted.targets.is_empty() {
            return Ok((0..self.make.targets.len()).collect());
        }
        let mut chosen = Vec::new();
        let mut problems = Vec::new();
        for name in &self.wanted.targets {
            match self.make.targets.iter().position(|target| *target.name == **name) {
                Some(target) if chosen.contains(&target) => (),
                Some(target) => chosen.push(target),
                None => {
                    let place = self.make.targets[0].place.clone();
                    let message = format!("there is no target `{name}` in {}", self.make.targets_file);
                    let problem = Problem { place: None, ..Problem::bad(place, message) };
                    problems.push(problem.maybe_hint(did_you_mean(name, self.make.targets())));
                }
            }
        }
        chosen.sort_unstable();
        if problems.is_empty() { Ok(chosen) } else { Err(problems) }
    }

    fn names_of(&mut self, target: usize, context: usize) -> Result<Vec<String>, Stop> {
        let Target { outputs, loops, .. } = &self.make.targets[target];
        let scope = Own(self.contexts.all[context].attributes.clone());
        let mut names = Vec::new();
        for file in outputs {
            names.push(self.name_of(target, file, &scope)?);
        }
        if let Some(block) = loops {
            let rounds = rounds(&block.variables, &scope, &mut self.expressions)?;
            for file in &block.files {
                for round in &rounds {
                    names.push(self.name_of(target, file, &InRound { outer: &scope, round })?);
                }
            }
        }
        Ok(names)
    }

    fn name_of(&self, target: usize, file: &NamedFile, scope: &dyn Scope) -> Result<String, Problem> {
        let name = file.text.expand(scope)?;
        if let Some(why) = paths::unfit(&name) {
            let short: String = name.chars().take(60).collect();
            let target = &self.make.targets[target].name;
            let message = format!("`{short}` of the target {target} cannot be the name of a file: {why}");
            return Err(Problem::bad(file.text.place(), message));
        }
        Ok(paths::normalise(&name).into_owned())
    }

    fn only(
        &mut self,
        wanted: &[(usize, usize, String)],
    ) -> Result<Vec<(usize, usize, String)>, Vec<Problem>> {
        let mut chosen = Vec::new();
        for name in &self.wanted.only {
            let found = self.called(name, wanted).map_err(|problem| vec![problem])?;
            if found.is_empty() {
                let names: Vec<String> = wanted
                    .iter()
                    .map(|(_, context, name)| {
                        paths::shown(&self.wanted.base, &paths::join(&self.contexts.all[*context].dir, name))
                    })
                    .collect();
                let message = format!("no target requires `{name}`, and no rule makes it for one");
                let problem = Problem::bad(self.make.targets[0].place.clone(), message).coded(NO_RULE);
                let near = did_you_mean(name, names.iter().map(String::as_str));
                self.problems.push(Problem { place: None, ..problem }.maybe_hint(near));
            }
            chosen.extend(found);
        }
        if self.problems.is_empty() { Ok(chosen) } else { Err(std::mem::take(&mut self.problems)) }
    }

    // A name is relative to the directory of the call, else to that of a target; what is wanted goes first.
    fn called(
        &self,
        name: &str,
        wanted: &[(usize, usize, String)],
    ) -> Result<Vec<(usize, usize, String)>, Problem> {
        let from_base = paths::join(&self.wanted.base, name);
        let path_of = |context: usize, name: &str| paths::join(&self.contexts.all[context].dir, name);
        let is_called =
            |(_, context, wanted): &&(usize, usize, String)| path_of(*context, wanted) == from_base;
        if let Some(found) = wanted.iter().find(is_called) {
            return Ok(vec![found.clone()]);
        }
        let normal = paths::normalise(name);
        let found: Vec<_> = wanted.iter().filter(|(_, _, wanted)| *wanted == normal).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let mut makeable = Vec::new();
        for (context, of) in self.contexts.all.iter().enumerate() {
            let below = from_base.strip_prefix(&of.dir[..]).and_then(|rest| rest.strip_prefix(b"/"));
            let below = below.and_then(|rest| std::str::from_utf8(rest).ok());
            for name in below.into_iter().chain([&*normal]) {
                if self.contexts.find(self.make, context, name)?.is_some() {
                    makeable.push((of.targets[0], context, name.to_owned()));
                    break;
                }
            }
        }
        Ok(makeable)
    }
}
