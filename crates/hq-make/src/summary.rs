//! What a plan would do, in numbers: a line for each directory and rule, and the sum.

use hq_model::{counted, counted_are};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::explain::fold;
use crate::plan::{FileState, Plan, Run};

/// Runs of one rule in one directory.
#[derive(Clone, Debug)]
pub struct Line {
    /// The directory, as it is shown.
    pub dir: String,
    /// The rule.
    pub rule: String,
    /// Runs.
    pub runs: usize,
    /// Ranks of one run: the most.
    pub ranks: u64,
    /// CPUs of one run: the most.
    pub cpus: u64,
    /// GPUs of one run: the most.
    pub gpus: u64,
    /// How long one run takes: the longest.
    pub time: Option<Duration>,
    /// The files they make, folded, relative to the directory.
    pub files: String,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// In the order in which they could run.
    pub lines: Vec<Line>,
    /// Runs.
    pub runs: usize,
    /// Runs among these that perhaps need not run.
    pub perhaps: usize,
    /// Hours of CPUs, by the times that rules name.
    pub core_hours: f64,
    /// Runs whose rule names no time.
    pub without_time: usize,
    /// The longest way from a run to the end of what follows.
    pub longest: Duration,
    /// Files that are there and stay, of those that the plan looked at: wanted ones, and those that runs take.
    pub there: usize,
}

/// Sums up a plan.
pub fn summary(plan: &Plan) -> Summary {
    let mut index: FxHashMap<(&str, &str), usize> = FxHashMap::default();
    let mut lines: Vec<(Line, Vec<&Run>)> = Vec::new();
    let mut longest = vec![Duration::ZERO; plan.runs.len()];
    let (mut runs, mut perhaps, mut without_time, mut core_seconds) = (0, 0, 0, 0.0);
    for run in plan.needed() {
        runs += 1;
        perhaps += usize::from(matches!(run.state, crate::plan::RunState::Perhaps(_)));
        let time = run.resources.time.unwrap_or_default();
        without_time += usize::from(run.resources.time.is_none());
        core_seconds += time.as_secs_f64() * run.resources.cpus_total() as f64;
        let before = run.after.iter().map(|before| longest[before.index()]).max().unwrap_or_default();
        longest[run.id.index()] = before + time;
        let at = *index.entry((&run.dir_shown, &run.rule)).or_insert_with(|| {
            let line = Line {
                dir: run.dir_shown.to_string(),
                rule: run.rule.to_string(),
                runs: 0,
                ranks: 0,
                cpus: 0,
                gpus: 0,
                time: None,
                files: String::new(),
            };
            lines.push((line, Vec::new()));
            lines.len() - 1
        });
        let (line, of) = &mut lines[at];
        line.runs += 1;
        line.ranks = line.ranks.max(run.resources.ranks_total());
        line.cpus = line.cpus.max(run.resources.cpus_total());
        line.gpus = line.gpus.max(u64::from(run.resources.nrs) * u64::from(run.resources.gpu));
        line.time = line.time.max(run.resources.time);
        of.push(run);
    }
    let lines = lines.into_iter().map(|(line, of)| Line { files: files(plan, &of), ..line }).collect();
    Summary {
        lines,
        runs,
        perhaps,
        core_hours: core_seconds / 3600.0,
        without_time,
        longest: longest.into_iter().max().unwrap_or_default(),
        there: plan.files.iter().filter(|file| file.state == FileState::There).count(),
    }
}

// What the runs make: each output of the rule is one family.
fn files(plan: &Plan, runs: &[&Run]) -> String {
    let outputs = runs.iter().map(|run| run.outputs.len()).max().unwrap_or(0);
    let name = |run: &Run, at: usize| -> Option<String> {
        let path = &plan.file(*run.outputs.get(at)?).path;
        Some(crate::paths::shown(&run.dir, path))
    };
    let families = (0..outputs).map(|at| {
        let names: Vec<String> = runs.iter().filter_map(|run| name(run, at)).collect();
        fold(&names.iter().map(String::as_str).collect::<Vec<_>>())
    });
    families.collect::<Vec<_>>().join(" ")
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: Vec<[String; 6]> = self
            .lines
            .iter()
            .map(|line| {
                let gpus =
                    if line.gpus > 0 { format!(", {}", counted(line.gpus, "GPU")) } else { String::new() };
                [
                    format!("{}:", one_line(&line.dir)),
                    line.rule.clone(),
                    if line.runs > 1 { format!("{} ×", line.runs) } else { String::new() },
                    format!("{}, {}{gpus},", counted(line.ranks, "rank"), counted(line.cpus, "CPU")),
                    line.time.map_or("no time".to_owned(), minutes),
                    one_line(&line.files),
                ]
            })
            .collect();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        for row in &rows {
            let mut text = String::new();
            for (at, cell) in row.iter().enumerate().filter(|(at, _)| width(*at) > 0) {
                text += cell;
                if at < 5 {
                    text += &" ".repeat(
                        width(at) - cell.chars().count()
                            + usize::from(at != 3)
                            + usize::from(at != 0 && at != 3),
                    );
                    text += if at == 3 { " " } else { "" };
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        let perhaps =
            if self.perhaps > 0 { format!(" ({} of them perhaps)", self.perhaps) } else { String::new() };
        let runs = counted(self.runs, "run");
        let there = counted_are(self.there, "file", "exists", "exist");
        let unknown = if self.without_time > 0 && self.runs > 0 {
            format!(" ({} without a time)", counted(self.without_time, "run"))
        } else {
            String::new()
        };
        writeln!(
            f,
            "{runs}{perhaps}, {:.1} core-hours{unknown}, longest path {}; {there} already",
            self.core_hours,
            minutes(self.longest)
        )
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds >= 60 && time.subsec_nanos() == 0 && seconds.is_multiple_of(60) && seconds < 6000 {
        format!("{} min", seconds / 60)
    } else {
        hq_model::duration::format(time)
    }
}

// A name may hold anything; a line is a line.
fn one_line(name: &str) -> String {
    name.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Rerun;
    use crate::testing::{CHEMISTRY_RULES, CHEMISTRY_TARGETS, Disk, PAPER_RULES, PAPER_TARGETS, plan};

    #[test]
    fn a_plan_is_summed_up_by_directory_and_rule() {
        let disk = Disk::new("chloride/mol.xyz sodium/mol.xyz chloride/conf_2.xyz sodium/nm1.json");
        let chemistry = plan(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &disk, Rerun::Exists).expect("a plan");
        let disk = Disk::new("System1/0.param System1/1.param System1/2.param System1/system.top");
        let paper = plan(PAPER_RULES, PAPER_TARGETS, &disk, Rerun::Exists).expect("a plan");
        insta::assert_snapshot!(format!("{}\n{}", summary(&chemistry), summary(&paper)));
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        let none = plan("a: {out: [a], script: x}\n", "t: {out: [a]}\n", &Disk::new("a"), Rerun::Exists)
            .expect("a plan");
        assert_eq!(
            summary(&none).to_string(),
            "0 runs, 0.0 core-hours, longest path 0s; 1 file exists already\n"
        );
    }
}
