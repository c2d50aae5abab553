//! The order of runs: each after those it takes files from; and what to say where there is none.

use super::Search;
use crate::problem::{Problem, RULE_CYCLE};

/// Files of a circle that are shown.
const SHOWN_MAX: usize = 20;

impl Search<'_> {
    /// The runs, each after those whose files it takes.
    ///
    /// # Errors
    /// When runs need each other.
    pub(super) fn order(&self) -> Result<Vec<usize>, Problem> {
        let count = self.runs.len();
        let mut waits_for = vec![0_u32; count];
        // Users of each run, as one list with a start for each.
        let mut starts = vec![0_u32; count + 1];
        let makers =
            |run: usize| self.runs[run].inputs.iter().filter_map(|input| self.files[input.index()].maker);
        for (run, waits) in waits_for.iter_mut().enumerate() {
            for maker in makers(run) {
                *waits += 1;
                starts[maker + 1] += 1;
            }
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut users = vec![0_u32; starts[count] as usize];
        let mut free = starts.clone();
        for run in 0..count {
            for maker in makers(run) {
                users[free[maker] as usize] = run as u32;
                free[maker] += 1;
            }
        }
        // In layers, each in the order in which the search met its runs: neighbors stay neighbors.
        let mut order: Vec<usize> = (0..count).filter(|run| waits_for[*run] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            let run = order[at];
            at += 1;
            for user in &users[starts[run] as usize..starts[run + 1] as usize] {
                let waits = &mut waits_for[*user as usize];
                *waits -= 1;
                if *waits == 0 {
                    order.push(*user as usize);
                }
            }
        }
        if order.len() == count { Ok(order) } else { Err(self.circle(&waits_for)) }
    }

    // Every run that is left takes a file of another that is left: following these comes back.
    fn circle(&self, waits_for: &[u32]) -> Problem {
        let left = |run: usize| waits_for[run] > 0;
        let before = |run: usize| {
            let inputs = self.runs[run].inputs.iter();
            let mut makers =
                inputs.filter_map(|input| self.files[input.index()].maker.map(|maker| (*input, maker)));
            makers.find(|(_, maker)| left(*maker))
        };
        let first = (0..waits_for.len()).find(|run| left(*run)).unwrap_or(0);
        let mut met = vec![usize::MAX; waits_for.len()];
        let mut path = Vec::new();
        let mut run = first;
        while met[run] == usize::MAX {
            met[run] = path.len();
            let Some((input, maker)) = before(run) else { break };
            path.push((run, input));
            run = maker;
        }
        let circle = &path[met[run].min(path.len())..];
        // `a <- rule1 <- b <- rule2 <- a`: a file, the rule that makes it, the file that this needs.
        let mut links = Vec::new();
        if let Some((_, last)) = circle.last() {
            links.push(self.shown(*last));
        }
        for (run, input) in circle {
            links.push(self.make.rules[self.runs[*run].key.rule].name.to_string());
            links.push(self.shown(*input));
        }
        if links.len() > 2 * SHOWN_MAX {
            let dropped = links.len() - 2 * SHOWN_MAX;
            links.splice(SHOWN_MAX..SHOWN_MAX + dropped, [format!("… {dropped} more …")]);
        }
        let rule = &self.make.rules[self.runs[run].key.rule];
        let message = format!("files are needed to make themselves: {}", links.join(" <- "));
        Problem::bad(rule.place.clone(), message)
            .coded(RULE_CYCLE)
            .hint("one of these rules must not need that file, or must make it under another name")
    }
}
