//! Why files will be made, or will not: a tree of sentences.

mod fold;

use hq_model::counted;
use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::limits::EXPLAIN_LINES_MAX;
use crate::plan::{FileId, FileState, Plan, Reason, Rerun, Run, RunId, RunState};

pub(crate) use fold::fold;

/// Values of a variable that are named.
const VALUES_MAX: usize = 8;

/// Explains files, or those that the targets ask for if none is named: one line for each, and below it what it needs.
///
/// A file is named as it is shown, as an absolute path, or by the end of its path; names that stand for none say nothing.
/// Files of a loop are one line.
pub fn explain(plan: &Plan, paths: &[String]) -> String {
    let mut explainer = Explainer { plan, lines: Vec::new(), explained: FxHashSet::default() };
    let mut roots = Vec::new();
    for path in paths {
        roots.extend(files_called(plan, path));
    }
    if paths.is_empty() {
        roots.clone_from(&plan.targets);
    }
    for root in roots {
        explainer.tree(root);
    }
    let mut lines = explainer.lines;
    if lines.len() > EXPLAIN_LINES_MAX {
        let left = lines.len() - EXPLAIN_LINES_MAX;
        lines.truncate(EXPLAIN_LINES_MAX);
        lines.push(format!("… {}: give a single file to see everything", counted(left, "more line")));
    }
    // A name may hold anything; a line is a line.
    lines.iter().map(|line| format!("{}\n", line.replace(char::is_control, " "))).collect()
}

/// The files that a name stands for: as it is shown, as an absolute path, or by the end of its path.
pub fn files_called(plan: &Plan, path: &str) -> Vec<FileId> {
    let ids = || (0..plan.files.len() as u32).map(FileId);
    let normal = crate::paths::normalise(path);
    let absolute = crate::paths::join(&plan.base, path);
    let exact: Vec<FileId> = ids().filter(|file| *plan.file(*file).path == *absolute).collect();
    if !exact.is_empty() {
        return exact;
    }
    ids()
        .filter(|file| {
            plan.file(*file).shown().strip_suffix(&*normal).is_some_and(|rest| rest.ends_with('/'))
        })
        .collect()
}

/// Why a run is needed, or cannot run, in words; nothing if neither.
pub fn why(plan: &Plan, run: &Run) -> Option<String> {
    match &run.state {
        RunState::There | RunState::Unasked => None,
        RunState::Needed(reason) | RunState::Perhaps(reason) => Some(reason_in(plan, reason)),
        RunState::Cannot(input) => Some(format!("{} cannot be made", plan.file(*input).shown())),
    }
}

fn reason_in(plan: &Plan, reason: &Reason) -> String {
    let shown = |file: &FileId| plan.file(*file).shown();
    match reason {
        Reason::Missing(file) => format!("{} is missing", shown(file)),
        Reason::Forced => "as requested".to_owned(),
        Reason::Newer { input, output } => format!("{} is newer than {}", shown(input), shown(output)),
        Reason::MadeAnew { input } => format!("{} is remade", shown(input)),
        Reason::TextDiffers => "its rule has changed since it was made".to_owned(),
        Reason::ContentDiffers(input) => {
            format!("{} has changed since it was made", shown(input))
        }
        Reason::OtherInputs => "it is made from different files than before".to_owned(),
    }
}

struct Explainer<'a> {
    plan: &'a Plan,
    lines: Vec<String>,
    explained: FxHashSet<RunId>,
}

enum Item {
    File(FileId),
    Family(Vec<FileId>),
}

impl Explainer<'_> {
    // Chains are long, so this goes by a list of its own.
    fn tree(&mut self, root: FileId) {
        let mut open = vec![(0, Item::File(root))];
        while let Some((depth, item)) = open.pop() {
            if self.lines.len() > EXPLAIN_LINES_MAX + 1 {
                return;
            }
            let indent = "  ".repeat(depth.min(40));
            let needs = if depth > 0 { "needs " } else { "" };
            let (text, run) = match &item {
                Item::File(file) => (self.file(*file), self.maker_to_explain(*file)),
                Item::Family(files) => {
                    let run = files.iter().find_map(|file| self.maker_to_explain(*file));
                    (self.family(files), run)
                }
            };
            let Some(run) = run else {
                self.lines.push(format!("{indent}{needs}{text}"));
                continue;
            };
            if !self.explained.insert(run) {
                self.lines.push(format!("{indent}{needs}{text} (see above)"));
                continue;
            }
            self.lines.push(format!("{indent}{needs}{text}"));
            let run = self.plan.run(run);
            let mut items = families(run);
            items.reverse();
            open.extend(items.into_iter().map(|item| (depth + 1, item)));
        }
    }

    fn maker_to_explain(&self, file: FileId) -> Option<RunId> {
        self.plan
            .file(file)
            .maker
            .filter(|maker| !matches!(self.plan.run(*maker).state, RunState::There | RunState::Unasked))
    }

    fn file(&self, id: FileId) -> String {
        let file = self.plan.file(id);
        let shown = file.shown();
        let maker = file.maker.map(|maker| self.plan.run(maker));
        let by = |run: &Run| format!("{} ({})", run.rule, run.place.line());
        match (file.state, maker) {
            (_, Some(run)) if run.is_to_run() => match &run.state {
                RunState::Perhaps(reason) => format!(
                    "{shown}: will be made by {} if its inputs change: {}",
                    by(run),
                    self.reason(reason, id)
                ),
                RunState::Needed(reason) => {
                    format!("{shown}: will be made by {}, because {}", by(run), self.reason(reason, id))
                }
                RunState::There | RunState::Unasked | RunState::Cannot(_) => {
                    format!("{shown}: exists")
                }
            },
            (FileState::Unmakable, Some(run)) => match &run.state {
                RunState::Cannot(input) => format!(
                    "{shown}: is missing, and {} cannot make it, because {} cannot be made",
                    by(run),
                    self.plan.file(*input).shown()
                ),
                _ => format!("{shown}: is missing, but nothing requires {} to make it", by(run)),
            },
            (FileState::Unmakable, None) => {
                let near = self
                    .plan
                    .missing
                    .iter()
                    .find(|problem| problem.message.starts_with(&format!("`{shown}` ")));
                match near.and_then(|problem| problem.hint.as_ref()) {
                    Some(hint) => format!("{shown}: is missing, and no rule makes it; {hint}"),
                    None => format!("{shown}: is missing, and no rule makes it"),
                }
            }
            (FileState::Awaited, _) => format!("{shown}: is missing, and will be waited for"),
            (_, Some(run)) => match run.rerun {
                Rerun::Exists => format!("{shown}: exists"),
                Rerun::Mtime => format!("{shown}: exists; no input of {} is newer", by(run)),
                Rerun::Hash => format!("{shown}: exists; the inputs of {} are unchanged", by(run)),
            },
            (_, None) => format!("{shown}: exists"),
        }
    }

    fn reason(&self, reason: &Reason, of: FileId) -> String {
        match reason {
            Reason::Missing(file) if *file == of => "it is missing".to_owned(),
            Reason::Newer { input, output } if *output == of => {
                format!("{} is newer", self.plan.file(*input).shown())
            }
            _ => reason_in(self.plan, reason),
        }
    }

    // `bind_{0..119}.json: 118 are there; 2 will be made by ebind (rules.yaml:1): n = 7, 55`
    fn family(&self, files: &[FileId]) -> String {
        let names: Vec<_> = files.iter().map(|file| self.plan.file(*file).shown()).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let mut there = 0;
        let mut missing = Vec::new();
        let mut awaited = 0;
        let mut made: BTreeMap<(&str, String), Vec<&Run>> = BTreeMap::new();
        for file in files {
            let file = self.plan.file(*file);
            let maker = file.maker.map(|maker| self.plan.run(maker)).filter(|run| run.is_to_run());
            match (maker, file.state) {
                (Some(run), _) => made.entry((&run.rule, run.place.line())).or_default().push(run),
                (None, FileState::There | FileState::Made) => there += 1,
                (None, FileState::Awaited) => awaited += 1,
                (None, FileState::Unmakable) => missing.push(file.shown()),
            }
        }
        let are = |count: usize| if count == 1 { "1 is".to_owned() } else { format!("{count} are") };
        let mut parts = Vec::new();
        if there > 0 {
            parts.push(format!("{} there", are(there)));
        }
        for ((rule, place), runs) in &made {
            parts.push(format!("{} will be made by {rule} ({place}){}", runs.len(), values(runs)));
        }
        if awaited > 0 {
            parts.push(format!("{} waited for", are(awaited)));
        }
        if !missing.is_empty() {
            let some = missing.iter().take(VALUES_MAX).map(|name| &**name).collect::<Vec<_>>().join(", ");
            let more = if missing.len() > VALUES_MAX { ", …" } else { "" };
            parts.push(format!("{} missing and cannot be made: {some}{more}", are(missing.len())));
        }
        format!("{}: {}", fold(&names), parts.join("; "))
    }
}

// The first variable in which the runs differ, with its values.
fn values(runs: &[&Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let differs =
        (0..first.vars.len()).find(|at| runs.iter().any(|run| run.vars.get(*at) != first.vars.get(*at)));
    let Some(at) = differs.or(if first.vars.is_empty() { None } else { Some(first.vars.len() - 1) }) else {
        return String::new();
    };
    let some: Vec<&str> = runs.iter().take(VALUES_MAX).map(|run| run.vars[at].1.as_str()).collect();
    let more = if runs.len() > VALUES_MAX { ", …" } else { "" };
    format!(": {} = {}{more}", first.vars[at].0, some.join(", "))
}

// The inputs of a run; those of one loop together.
fn families(run: &Run) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut at = 0;
    while at < run.inputs.len() {
        let family = run.families.get(at).copied();
        let end = (at..run.inputs.len())
            .find(|other| run.families.get(*other).copied() != family)
            .unwrap_or(run.inputs.len());
        let end = end.max(at + 1);
        match &run.inputs[at..end] {
            [one] => items.push(Item::File(*one)),
            several => items.push(Item::Family(several.to_vec())),
        }
        at = end;
    }
    items
}

#[cfg(test)]
mod tests;
