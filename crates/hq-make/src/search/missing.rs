//! Files that are missing and that no rule makes: who asked for them, and what they are perhaps called.

use hq_model::{counted_are, similar};

use super::{Asker, Search};
use crate::makefile::Rule;
use crate::paths;
use crate::plan::FileId;
use crate::problem::{NO_RULE, Place, Problem};

/// Links of a chain that are shown.
const LINKS_MAX: usize = 24;
/// Characters of a name in a chain: rules that ask themselves for longer names end with very long ones.
const LINK_NAME_MAX: usize = 120;
/// Missing files that are reported one by one.
const REPORTED_MAX: usize = 200;
/// Missing files for which near names are looked for.
const HINTED_MAX: usize = 20;
/// Patterns of rules that a hint names.
const PATTERNS_MAX: usize = 5;

impl Search<'_> {
    /// Who asked for a file, from the target on.
    pub(super) fn chain(&self, file: FileId) -> Vec<String> {
        let mut links = Vec::new();
        let mut file = file;
        // Askers were there before what they ask for, so this ends.
        loop {
            let shown = brief(self.shown(file));
            match self.files[file.index()].asked_by {
                Asker::Target(target) => {
                    let target = &self.make.targets[target];
                    links.push(format!("target {} ({}) requires {shown}", target.name, target.place.line()));
                    break;
                }
                // An output that was asked for first by the run that makes it, too.
                Asker::Run(run) => {
                    let Some(node) = self.runs.get(run) else { break };
                    let rule = &self.make.rules[node.key.rule];
                    let first = node.outputs.iter().find(|output| {
                        !matches!(self.files[output.index()].asked_by, Asker::Run(asker) if asker >= run)
                    });
                    let Some(first) = first else { break };
                    let made = brief(self.shown(*first));
                    if !node.outputs.contains(&file) {
                        links.push(format!(
                            "rule {} ({}) makes {made} from {shown}",
                            rule.name,
                            rule.place.line()
                        ));
                    }
                    file = *first;
                }
            }
        }
        links.reverse();
        if links.len() > LINKS_MAX {
            let left = links.len() - LINKS_MAX;
            links.splice(LINKS_MAX / 2..LINKS_MAX / 2 + left, [format!("… {left} more …")]);
        }
        links
    }

    /// What is said of files that are missing and that no rule makes.
    pub(super) fn missing_problems(&self) -> Vec<Problem> {
        let missing: Vec<FileId> =
            (0..self.files.len() as u32).map(FileId).filter(|file| self.is_unmakable(*file)).collect();
        let mut problems = Vec::new();
        for (number, file) in missing.iter().enumerate().take(REPORTED_MAX) {
            let place = self.asked_at(*file);
            let problem =
                Problem::bad(place, format!("`{}` is missing, and no rule makes it", self.shown(*file)));
            let hint = (number < HINTED_MAX).then(|| self.near(*file)).flatten();
            problems.push(problem.coded(NO_RULE).chain(self.chain(*file)).maybe_hint(hint));
        }
        if missing.len() > REPORTED_MAX {
            let message = counted_are(
                missing.len() - REPORTED_MAX,
                "more file",
                "is missing, and no rule makes it",
                "are missing, and no rule makes them",
            );
            problems.push(Problem::bad(self.asked_at(missing[REPORTED_MAX]), message).coded(NO_RULE));
        }
        problems
    }

    /// Whether a file is missing that somebody asks for, no rule makes it, and nobody waits for it.
    pub(super) fn is_unmakable(&self, file: FileId) -> bool {
        let node = &self.files[file.index()];
        node.maker.is_none()
            && node.is_there == Some(false)
            && !self.wanted.wait_inputs
            && self.is_asked(file.index())
    }

    // Where the text stands that names the file first.
    fn asked_at(&self, file: FileId) -> Place {
        match self.files[file.index()].asked_by {
            Asker::Target(target) => {
                let target = &self.make.targets[target];
                target.outputs.first().map_or(target.place.clone(), |file| file.text.place())
            }
            Asker::Run(run) => {
                let node = &self.runs[run];
                let rule: &Rule = &self.make.rules[node.key.rule];
                let number = node.inputs.iter().position(|input| *input == file);
                let named = number.and_then(|number| rule.inputs.get(number));
                let looped = rule.loops.as_ref().and_then(|loops| loops.files.first());
                named.or(looped).map_or(rule.place.clone(), |file| file.text.place())
            }
        }
    }

    fn near(&self, file: FileId) -> Option<String> {
        let name = self.shown(file);
        let mut best: Option<(usize, String)> = None;
        let mut consider = |known: &str| {
            let fits = known.len().abs_diff(name.len()) <= 2 && known != name;
            let distance = if fits { similar::distance(&name, known) } else { 3 };
            if distance <= 2
                && 2 * distance <= name.len()
                && best.as_ref().is_none_or(|(before, text)| (distance, known) < (*before, text))
            {
                best = Some((distance, known.to_owned()));
            }
        };
        for (other, node) in self.files.iter().enumerate() {
            if node.maker.is_some() || node.is_there == Some(true) {
                consider(&self.shown(FileId(other as u32)));
            }
        }
        for context in &self.contexts.all {
            for literal in context.literals() {
                consider(&paths::shown(&self.wanted.base, &paths::join(&context.dir, literal)));
            }
        }
        if let Some((_, near)) = best {
            return Some(format!("did you mean `{near}`?"));
        }
        let end = name.rsplit_once('.').map(|(_, end)| end)?;
        let alike: Vec<String> = self
            .make
            .rules
            .iter()
            .flat_map(|rule| rule.outputs.iter().map(move |output| (rule, output)))
            .filter(|(_, output)| output.text.source.rsplit_once('.').is_some_and(|(_, other)| other == end))
            .map(|(rule, output)| {
                format!("`{}` (rule {}, {})", output.text.source, rule.name, rule.place.line())
            })
            .take(PATTERNS_MAX)
            .collect();
        (!alike.is_empty()).then(|| format!("rules make {}", alike.join(", ")))
    }

    /// The files that a name of the command line stands for.
    pub(super) fn files_called(&self, name: &str) -> Vec<FileId> {
        let path = paths::join(&self.wanted.base, name);
        if let Some(file) = self.file_index.get(&path[..]) {
            return vec![*file];
        }
        let dirs = self.contexts.all.iter().map(|context| paths::join(&context.dir, name));
        dirs.filter_map(|path| self.file_index.get(&path[..]).copied()).collect()
    }

    /// What is said of a name of the command line that stands for nothing.
    pub(super) fn nothing_called(&self, name: &str, what: &str) -> Problem {
        let files: Vec<String> = (0..self.files.len() as u32).map(|file| self.shown(FileId(file))).collect();
        let names = self.make.rules().chain(files.iter().map(String::as_str));
        let near = similar::nearest(name, names).map(|near| format!("did you mean `{near}`?"));
        let place = self.make.rules[0].place.clone();
        let problem = Problem::bad(place, format!("{what} is called `{name}`")).coded(NO_RULE);
        Problem { place: None, ..problem }.maybe_hint(near)
    }
}

fn brief(name: String) -> String {
    let count = name.chars().count();
    if count <= LINK_NAME_MAX {
        return name;
    }
    let half = LINK_NAME_MAX / 2;
    let begin: String = name.chars().take(half).collect();
    let end: String = name.chars().skip(count - half).collect();
    format!("{begin}…{end}")
}
