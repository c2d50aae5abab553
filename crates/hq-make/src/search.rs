//! From what is wanted to a plan: which rules make the wanted files, and what these need in turn.
//!
//! The search goes from file to file by a queue, never by its own stack, so a chain may be as long as memory allows. A
//! rule is filled in only where one of its outputs is asked for.

mod behind;
mod context;
mod cycle;
mod fill;
mod loops;
mod missing;
mod names;
mod state;
mod wanted;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::limits::RUNS_MAX;
use crate::makefile::Makefile;
use crate::paths;
use crate::plan::{FileId, Force, Plan, Rerun, RunId, Wanted};
use crate::problem::{AMBIGUOUS_RULE, Problem};
use crate::value::Value;
use crate::world::{Facts, World};

use behind::Asked;
use context::{Context, Contexts};
use fill::{Filled, Stop};
use loops::Expressions;

/// Makes the plan.
///
/// What cannot be made is in [`Plan::missing`], so that the rest may go on; everything else that is wrong is an error,
/// before anything runs.
///
/// # Errors
/// All that is wrong.
pub fn plan(make: &Makefile, wanted: &Wanted, world: &World) -> Result<Plan, Vec<Problem>> {
    let call_rerun = wanted.rerun;
    let mut forced = Forced::Nothing;
    match &wanted.force {
        Force::None => (),
        Force::All => forced = Forced::All,
        Force::Named(names) => {
            let mut everything = Search::new(make, wanted, world, Forced::LookAtAll);
            // What is wrong is found again below, where it matters.
            let _ = everything.run();
            forced = Forced::Runs(everything.forced_runs(names)?);
        }
    }
    let mut search = Search::new(make, wanted, world, forced);
    search.run()?;
    search.into_plan(call_rerun)
}

/// A run, whatever the targets that ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RunKey {
    /// The number of its directory.
    dir: usize,
    rule: usize,
    /// The values of its variables, each with a NUL at its end.
    values: Rc<str>,
}

/// What is made although it need not be.
enum Forced {
    Nothing,
    All,
    /// Nothing, but files that exist do not end the search.
    LookAtAll,
    Runs(FxHashSet<RunKey>),
}

/// A file that the search came across.
struct FileNode {
    path: Arc<[u8]>,
    maker: Option<usize>,
    is_target: bool,
    /// No rule makes it in a context that asked for it.
    has_no_rule: bool,
    is_there: Option<bool>,
    facts: Option<Option<Facts>>,
    asked_by: Asker,
}

#[derive(Clone, Copy)]
enum Asker {
    Target(usize),
    Run(usize),
}

/// A run that the search came across.
struct RunNode {
    key: RunKey,
    context: usize,
    vars: Vec<Value>,
    inputs: Vec<FileId>,
    outputs: Vec<FileId>,
    filled: Filled,
    rerun: Rerun,
}

struct Search<'a> {
    make: &'a Makefile,
    wanted: &'a Wanted,
    world: &'a World<'a>,
    forced: Forced,
    /// Mode `exists` everywhere, and nothing is forced: a file that is there ends the search at once.
    stops_at_files: bool,
    contexts: Contexts,
    expressions: Expressions,
    files: Vec<FileNode>,
    file_index: FxHashMap<Arc<[u8]>, FileId>,
    runs: Vec<RunNode>,
    run_index: FxHashMap<RunKey, usize>,
    /// Runs that other contexts ask for, too, and that were compared.
    compared: FxHashSet<(usize, usize)>,
    seen: FxHashSet<(FileId, usize)>,
    queue: VecDeque<(FileId, usize, String)>,
    targets: Vec<FileId>,
    asked: Option<Asked>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'a> Search<'a> {
    fn new(make: &'a Makefile, wanted: &'a Wanted, world: &'a World<'a>, forced: Forced) -> Search<'a> {
        let modes = make.rules.iter().all(|rule| rule.rerun.unwrap_or(wanted.rerun) == Rerun::Exists);
        Search {
            make,
            wanted,
            world,
            stops_at_files: modes && !wanted.look_behind && matches!(forced, Forced::Nothing),
            forced,
            contexts: Contexts::default(),
            expressions: Expressions::default(),
            files: Vec::new(),
            file_index: FxHashMap::default(),
            runs: Vec::new(),
            run_index: FxHashMap::default(),
            compared: FxHashSet::default(),
            seen: FxHashSet::default(),
            queue: VecDeque::new(),
            targets: Vec::new(),
            asked: None,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Goes from the wanted files to all that they need.
    fn run(&mut self) -> Result<(), Vec<Problem>> {
        self.want()?;
        let mut deferred = Vec::new();
        loop {
            while let Some((file, context, name)) = self.queue.pop_front() {
                match self.visit(file, context, &name) {
                    Ok(()) => (),
                    Err(Stop::Pending) => deferred.push((file, context, name)),
                    Err(Stop::Wrong(problem)) => self.wrong(*problem),
                }
                if self.runs.len() > RUNS_MAX {
                    self.wrong(Problem::bad(
                        self.make.rules[0].place.clone(),
                        format!("more than {RUNS_MAX} runs"),
                    ));
                    return Err(std::mem::take(&mut self.problems));
                }
            }
            if deferred.is_empty() {
                break;
            }
            // Expressions that only Python knows are evaluated together.
            self.expressions.ask(self.world.python);
            self.queue.extend(deferred.drain(..));
        }
        if self.problems.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.problems)) }
    }

    // The same text is filled in for many runs: what is wrong with it is said once.
    fn wrong(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.place == problem.place && known.message == problem.message)
        {
            self.problems.push(problem);
        }
    }

    fn file(&mut self, path: Vec<u8>, asked_by: Asker) -> FileId {
        if let Some(known) = self.file_index.get(&path[..]) {
            return *known;
        }
        let path: Arc<[u8]> = path.into();
        let id = FileId(u32::try_from(self.files.len()).expect("fewer files than RUNS_MAX allows"));
        self.file_index.insert(path.clone(), id);
        self.files.push(FileNode {
            path,
            maker: None,
            is_target: false,
            has_no_rule: false,
            is_there: None,
            facts: None,
            asked_by,
        });
        id
    }

    // What rules call a file: a name that goes another way into the directory is relative to it.
    fn within(&self, context: usize, name: String, file: FileId) -> String {
        if !name.starts_with(['/', '.']) {
            return name;
        }
        let path = &self.files[file.index()].path;
        let below =
            path.strip_prefix(&self.contexts.all[context].dir[..]).and_then(|rest| rest.strip_prefix(b"/"));
        below.map_or(name, |below| String::from_utf8_lossy(below).into_owned())
    }

    fn shown(&self, file: FileId) -> String {
        paths::shown(&self.wanted.base, &self.files[file.index()].path)
    }

    fn io_problem(&self, file: FileId, error: &std::io::Error) -> Problem {
        let place = self.make.rules.first().map(|rule| rule.place.clone());
        let message = format!("`{}` cannot be examined: {error}", self.shown(file));
        Problem {
            place: None,
            ..Problem::bad(place.unwrap_or_else(|| self.make.targets[0].place.clone()), message)
        }
        .chain(self.chain(file))
    }

    fn is_there(&mut self, file: FileId) -> Result<bool, Problem> {
        let node = &mut self.files[file.index()];
        if let Some(known) = node.is_there {
            return Ok(known);
        }
        match self.world.files.is_there(&node.path) {
            Ok(is) => {
                node.is_there = Some(is);
                Ok(is)
            }
            Err(error) => Err(self.io_problem(file, &error)),
        }
    }

    fn facts(&mut self, file: FileId) -> Result<Option<Facts>, Problem> {
        let node = &mut self.files[file.index()];
        if let Some(known) = node.facts {
            return Ok(known);
        }
        match self.world.files.facts(&node.path) {
            Ok(facts) => {
                node.facts = Some(facts);
                node.is_there = Some(facts.is_some());
                Ok(facts)
            }
            Err(error) => Err(self.io_problem(file, &error)),
        }
    }

    // A file that something needs: what makes it, unless the search ends here.
    fn visit(&mut self, file: FileId, context: usize, name: &str) -> Result<(), Stop> {
        if !self.seen.contains(&(file, context)) {
            let ends_here = self.stops_at_files && self.is_there(file)?;
            if !ends_here {
                self.visit_maker(file, context, name)?;
            }
            self.seen.insert((file, context));
        }
        Ok(())
    }

    fn visit_maker(&mut self, file: FileId, context: usize, name: &str) -> Result<(), Stop> {
        let found = self
            .contexts
            .find(self.make, context, name)
            .map_err(|problem| problem.chain(self.chain(file)))?;
        let Some((rule, vars)) = found else {
            self.is_there(file)?;
            self.files[file.index()].has_no_rule = true;
            return Ok(());
        };
        let mut values = String::new();
        for value in &vars {
            value.write_str(&mut values);
            values.push('\0');
        }
        let key = RunKey { dir: self.contexts.all[context].dir_number, rule, values: values.into() };
        let rerun = self.make.rules[rule].rerun.unwrap_or(self.wanted.rerun);
        let stops_at_files = rerun == Rerun::Exists && !self.wanted.look_behind && !self.is_forced(&key);
        if stops_at_files && self.is_there(file)? {
            return Ok(());
        }
        match self.run_index.get(&key) {
            Some(run) => self.compare(*run, context),
            None => self.add_run(key, context, vars, rerun, file),
        }
    }

    fn is_forced(&self, key: &RunKey) -> bool {
        match &self.forced {
            Forced::Nothing => false,
            Forced::All | Forced::LookAtAll => true,
            Forced::Runs(runs) => runs.contains(key),
        }
    }

    // Two targets ask for one run: it must be the same run for both.
    fn compare(&mut self, run: usize, context: usize) -> Result<(), Stop> {
        let node = &self.runs[run];
        if node.context == context || !self.compared.insert((run, context)) {
            return Ok(());
        }
        let (rule, first) = (node.key.rule, node.context);
        let filled =
            fill::fill(self.make, rule, &self.contexts.all[context], &node.vars, &mut self.expressions);
        let filled = match filled {
            Ok(filled) => filled,
            Err(stop) => {
                // It is compared when Python has answered.
                self.compared.remove(&(run, context));
                return Err(stop);
            }
        };
        if filled.same(&self.runs[run].filled) {
            return Ok(());
        }
        let rule = &self.make.rules[rule];
        let target = |context: usize| {
            let target = &self.make.targets[self.contexts.all[context].targets[0]];
            format!("target {} ({})", target.name, target.place.line())
        };
        let (one, other) = (target(first), target(context));
        let node = &self.runs[run];
        let name = names::name(rule, &node.vars);
        let message = format!(
            "{one} and {other} both require the run `{name}` in the same directory, with different scripts"
        );
        Err(Problem::bad(rule.place.clone(), message)
            .hint("use separate directories for the targets, or the same attributes")
            .into())
    }

    fn add_run(
        &mut self,
        key: RunKey,
        context: usize,
        vars: Vec<Value>,
        rerun: Rerun,
        asked_for: FileId,
    ) -> Result<(), Stop> {
        let rule = key.rule;
        let mut filled =
            fill::fill(self.make, rule, &self.contexts.all[context], &vars, &mut self.expressions)
                .map_err(|stop| stop.chain(|| self.chain(asked_for)))?;
        let run = self.runs.len();
        let dir = self.contexts.all[context].dir.clone();
        let mut outputs = Vec::with_capacity(filled.outputs.len());
        for name in &filled.outputs {
            let output = self.file(paths::join(&dir, name), Asker::Run(run));
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        for output in &outputs {
            if let Some(other) = self.files[output.index()].maker {
                return Err(self.made_twice(*output, rule, &vars, other).into());
            }
        }
        for output in &outputs {
            self.files[output.index()].maker = Some(run);
        }
        let mut inputs = Vec::with_capacity(filled.inputs.len());
        let mut known = FxHashSet::default();
        let mut families = Vec::with_capacity(filled.inputs.len());
        for (name, family) in std::mem::take(&mut filled.inputs).into_iter().zip(&filled.families) {
            let input = self.file(paths::join(&dir, &name), Asker::Run(run));
            if known.insert(input) {
                inputs.push(input);
                families.push(*family);
                if !self.seen.contains(&(input, context)) {
                    let name = self.within(context, name, input);
                    self.queue.push_back((input, context, name));
                }
            }
        }
        filled.families = families;
        self.run_index.insert(key.clone(), run);
        self.runs.push(RunNode { key, context, vars, inputs, outputs, filled, rerun });
        Ok(())
    }

    fn made_twice(&self, file: FileId, rule: usize, vars: &[Value], other: usize) -> Problem {
        let rule = &self.make.rules[rule];
        let node = &self.runs[other];
        let other_rule = &self.make.rules[node.key.rule];
        let message = format!(
            "`{}` is made by the run `{}` and by `{}` ({})",
            self.shown(file),
            names::name(rule, vars),
            names::name(other_rule, &node.vars),
            other_rule.place.line()
        );
        Problem::bad(rule.place.clone(), message).coded(AMBIGUOUS_RULE).hint(
            "each file must be made by a single run: include what distinguishes the runs in the name of an \
                output",
        )
    }

    // The runs that a name forces, and all that are made from what they make.
    fn forced_runs(&self, names: &[String]) -> Result<FxHashSet<RunKey>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut is_forced = vec![false; self.runs.len()];
        for name in names {
            if let Some(rule) = self.make.rules.iter().position(|rule| *rule.name == **name) {
                for (run, node) in self.runs.iter().enumerate() {
                    is_forced[run] |= node.key.rule == rule;
                }
                continue;
            }
            let makers =
                self.files_called(name).into_iter().filter_map(|file| self.files[file.index()].maker);
            let makers: Vec<usize> = makers.collect();
            if makers.is_empty() {
                problems
                    .push(self.nothing_called(name, "no rule, and no file that a rule makes for a target,"));
            }
            makers.into_iter().for_each(|run| is_forced[run] = true);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut users: FxHashMap<FileId, Vec<usize>> = FxHashMap::default();
        for (run, node) in self.runs.iter().enumerate() {
            for input in &node.inputs {
                users.entry(*input).or_default().push(run);
            }
        }
        let mut queue: Vec<usize> = (0..self.runs.len()).filter(|run| is_forced[*run]).collect();
        while let Some(run) = queue.pop() {
            for output in &self.runs[run].outputs {
                for user in users.get(output).into_iter().flatten() {
                    if !std::mem::replace(&mut is_forced[*user], true) {
                        queue.push(*user);
                    }
                }
            }
        }
        let keys = self.runs.iter().zip(&is_forced).filter(|(_, is)| **is).map(|(node, _)| node.key.clone());
        Ok(keys.collect())
    }

    fn context(&self, run: usize) -> &Context {
        &self.contexts.all[self.runs[run].context]
    }

    fn run_id(order: &[u32], run: usize) -> RunId {
        RunId(order[run])
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Stop {
        Stop::Wrong(Box::new(problem))
    }
}

#[cfg(test)]
mod tests;
