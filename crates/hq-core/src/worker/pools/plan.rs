//! From which groups of a pool an amount is taken, as its policy says: the fewest that have it, evenly (`compact`) or one
//! after the other from the fullest (`tight`), or all of them in turn (`scatter`).

use std::cmp::Reverse;

use hq_model::amount::UNITS;
use hq_model::{Amount, Policy};

use super::{Group, Indexed};
use crate::mark;

/// How many whole indices of which groups, and the group that gives a part of an index.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) wholes: Vec<(usize, usize)>,
    pub(super) part: Option<(usize, u64)>,
}

impl Plan {
    /// Units taken of each group.
    pub(super) fn units(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.wholes.iter().map(|(group, wholes)| (*group, *wholes as u64 * UNITS)).chain(self.part)
    }

    /// Groups that something is taken from.
    pub(super) fn group_count(&self) -> usize {
        let other = self.part.is_some_and(|part| self.wholes.iter().all(|whole| whole.0 != part.0));
        self.wholes.len() + usize::from(other)
    }
}

impl Indexed {
    /// Where an amount is taken from; nothing when it is not free, or not in as few groups as a strict policy wants. Of
    /// groups that do as well, those with more in `near` are preferred.
    pub(super) fn plan(
        &self,
        amount: Amount,
        policy: Policy,
        groups_max: usize,
        near: &[u64],
    ) -> Option<Plan> {
        let (wholes, units) = (amount.wholes() as usize, amount.fraction());
        if matches!(policy, Policy::Scatter) {
            return self.spread(&(0..self.groups.len()).collect::<Vec<_>>(), wholes, units);
        }
        let is_tight = matches!(policy, Policy::Tight | Policy::TightStrict);
        let near = |group: &usize| Reverse(near.get(*group).copied().unwrap_or(0));
        let free = |group: &usize| self.groups[*group].whole.len();
        // One group that has it all: the one that is left with least, or with most to fill it first.
        let fits = (0..self.groups.len()).filter(|group| self.groups[*group].has(wholes, units));
        let one = match is_tight {
            true => fits.min_by_key(|group| (near(group), Reverse(free(group)), *group)),
            false => fits.min_by_key(|group| (near(group), free(group), *group)),
        };
        if let Some(group) = one {
            let wholes = Vec::from_iter((wholes > 0).then_some((group, wholes)));
            return Some(Plan { wholes, part: (units > 0).then_some((group, units)) });
        }
        // Several, the fullest first; others, if they are no more.
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        let has_part = |group: &usize| units > 0 && self.groups[*group].has_begun(units);
        order.sort_by_key(|group| (Reverse(free(group)), !has_part(group)));
        let fewest = self.first_enough(&order, wholes, units)?;
        let mut groups = order[..fewest].to_vec();
        order.sort_by_key(near);
        if let Some(count) = self.first_enough(&order, wholes, units).filter(|count| *count <= fewest) {
            groups = order[..count].to_vec();
        }
        let plan =
            if is_tight { self.fill(&groups, wholes, units) } else { self.spread(&groups, wholes, units) }?;
        let is_strict = matches!(policy, Policy::CompactStrict | Policy::TightStrict);
        (!is_strict || plan.group_count() <= groups_max).then_some(plan)
    }

    /// The same of each group that has something in `near`, those with most in it first; nothing when these have not enough.
    pub(super) fn plan_beside(&self, amount: Amount, near: &[u64]) -> Option<Plan> {
        let mut groups: Vec<usize> = (0..near.len()).filter(|group| near[*group] > 0).collect();
        groups.sort_by_key(|group| Reverse(near[*group]));
        self.spread(&groups, amount.wholes() as usize, amount.fraction())
    }

    // How many groups of an order have so much together.
    fn first_enough(&self, order: &[usize], wholes: usize, units: u64) -> Option<usize> {
        let (mut free, mut has_part) = (0, units == 0);
        let enough = |group: &usize| {
            free += self.groups[*group].whole.len();
            has_part |= self.groups[*group].has_begun(units);
            free >= wholes + usize::from(!has_part)
        };
        order.iter().position(enough).map(|at| at + 1)
    }

    // One group after the other. They have enough.
    fn fill(&self, groups: &[usize], wholes: usize, units: u64) -> Option<Plan> {
        let mut left = wholes;
        let mut counts = Vec::with_capacity(groups.len());
        for group in groups {
            let count = self.groups[*group].whole.len().min(left);
            left -= count;
            counts.push((*group, count));
        }
        let part = match units {
            0 => None,
            units => {
                // Where it goes on.
                let has = |(group, count): &&(usize, usize)| self.groups[*group].has(*count, units);
                Some((
                    counts.iter().rfind(|count| count.1 > 0 && has(count)).or(counts.iter().find(has))?.0,
                    units,
                ))
            }
        };
        counts.retain(|(_, count)| *count > 0);
        (left == 0).then_some(Plan { wholes: counts, part })
    }

    // One index of each group in turn.
    fn spread(&self, groups: &[usize], wholes: usize, units: u64) -> Option<Plan> {
        let mut counts: Vec<(usize, usize)> = groups.iter().map(|group| (*group, 0)).collect();
        let mut left = wholes;
        while left > 0 {
            let before = left;
            for (group, count) in &mut counts {
                if left > 0 && *count < self.groups[*group].whole.len() {
                    *count += 1;
                    left -= 1;
                }
            }
            if left == before {
                return None;
            }
        }
        let part = match units {
            0 => None,
            units => {
                let has = counts.iter().filter(|(group, count)| self.groups[*group].has(*count, units));
                // The first of those that give as much: what is near comes first.
                let chosen = has.clone().min_by_key(|(_, count)| *count)?;
                let mut others = has.filter(|other| other.1 == chosen.1);
                mark!("a part of an index is taken where it is near", others.any(|other| other.0 < chosen.0));
                Some((chosen.0, units))
            }
        };
        counts.retain(|(_, count)| *count > 0);
        Some(Plan { wholes: counts, part })
    }
}

impl Group {
    /// True when so many whole indices and a part of another one are free.
    pub(super) fn has(&self, wholes: usize, units: u64) -> bool {
        self.whole.len() >= wholes + usize::from(units > 0 && !self.has_begun(units))
    }

    /// True when so much is left of an index of which a part is taken.
    pub(super) fn has_begun(&self, units: u64) -> bool {
        self.parts.values().any(|free| *free >= units)
    }
}
