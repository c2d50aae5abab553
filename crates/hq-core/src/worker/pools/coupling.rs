//! Groups of different pools that belong together, such as a GPU and the cores beside it: a task that takes of several
//! such pools gets what is close to each other, as far as its policies and what is free allow. A strict policy waits for
//! it: until what it concerns is as close to each other as an idle worker would give it.

use std::cmp::Reverse;

use hq_model::{Amount, AmountRequest, Policy, WorkerResources};

use super::{Indexed, Plan, Pool, Pools, ResolvedPart, ResolvedRequest};
use crate::mark;

/// Couplings by the places of their pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Coupling(Vec<Pair>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    // Pool and group.
    left: (usize, usize),
    right: (usize, usize),
    weight: u64,
}

impl Coupling {
    pub(super) fn new(resources: &WorkerResources) -> Coupling {
        let place = |(name, group): &(String, u32)| {
            let pool = resources.pools.iter().position(|pool| pool.name == *name)?;
            Some((pool, *group as usize))
        };
        let pair = |coupling: &hq_model::resources::Coupling| {
            let (left, right) = place(&coupling.left).zip(place(&coupling.right))?;
            Some(Pair { left, right, weight: u64::from(coupling.weight) })
        };
        Coupling(resources.coupling.iter().filter_map(pair).collect())
    }

    pub(super) fn has(&self, pool: usize) -> bool {
        self.0.iter().any(|pair| pair.left.0 == pool || pair.right.0 == pool)
    }

    // How close each group of a pool is to what is taken already: parts of it times weights.
    fn near(&self, pool: usize, groups: usize, chosen: &[(usize, &Plan, u64)]) -> Vec<u64> {
        let mut near = vec![0; groups];
        for pair in &self.0 {
            for (here, there) in [(pair.left, pair.right), (pair.right, pair.left)] {
                if here.0 == pool && here.1 < groups {
                    near[here.1] += pair.weight * part(chosen, there);
                }
            }
        }
        near
    }

    // How much of what was chosen is close to each other: weighted, and of strict policies alone.
    fn score(&self, needs: &ResolvedRequest, chosen: &[(usize, &Plan, u64)]) -> (u64, u64) {
        let is_strict =
            |pool: usize| needs.each.iter().any(|need| need.pool as usize == pool && need.is_strict());
        let mut score = (0, 0);
        for pair in &self.0 {
            let close = part(chosen, pair.left).min(part(chosen, pair.right));
            score.0 += pair.weight * close;
            if is_strict(pair.left.0) || is_strict(pair.right.0) {
                score.1 += close;
            }
        }
        score
    }
}

// Where to take from, for each need that coupling concerns.
struct Choice {
    plans: Vec<Option<Plan>>,
    score: u64,
    // What counts of that for strict policies.
    close: u64,
    groups: usize,
    // Units that stay free in those groups.
    left: u64,
}

// Which part of what is taken of a pool is of one of its groups, in 1/1000.
fn part(chosen: &[(usize, &Plan, u64)], (pool, group): (usize, usize)) -> u64 {
    let of_pool = chosen.iter().filter(|(other, ..)| *other == pool);
    of_pool
        .map(|(_, plan, amount)| {
            let units: u64 = plan.units().filter(|(other, _)| *other == group).map(|(_, units)| units).sum();
            units.saturating_mul(1000) / amount.max(&1)
        })
        .sum()
}

impl Pools {
    /// True when coupling is a condition for a strict policy.
    pub(super) fn is_coupled(&self, needs: &ResolvedRequest) -> bool {
        needs.each.iter().any(|need| need.is_strict() && self.coupling.has(need.pool as usize))
    }

    /// How close to each other strict policies can have what they concern.
    pub(super) fn closest(&self, needs: &ResolvedRequest) -> u64 {
        self.choose(needs).map_or(0, |choice| choice.close)
    }

    /// Where to take from, for each of the needs that coupling concerns; empty where it makes no difference. `None` when
    /// what is free is not as close to each other as strict policies want it.
    pub(super) fn near(&self, needs: &ResolvedRequest) -> Option<Vec<Option<Plan>>> {
        if self.coupling.0.is_empty() {
            return Some(Vec::new());
        }
        match self.choose(needs) {
            // What is close to nothing is taken as if there were no coupling.
            Some(choice) if choice.score > 0 => Some(choice.plans),
            _ => (needs.close == 0).then(Vec::new),
        }
    }

    // The best choice that is close enough. A policy that is not strict gives way where nothing is close enough with it.
    fn choose(&self, needs: &ResolvedRequest) -> Option<Choice> {
        self.choose_by(needs, false).or_else(|| {
            let evenly = if needs.close > 0 { self.choose_by(needs, true) } else { None };
            mark!("a policy gives way to a strict one", evenly.is_some());
            evenly
        })
    }

    // Each group that may be taken from is tried as the first; the others follow it. With `gives_way` strict policies are
    // first, and the others take the same of each group beside what these have. Cost: groups times needs.
    fn choose_by(&self, needs: &ResolvedRequest, gives_way: bool) -> Option<Choice> {
        let coupled = |need: &ResolvedPart| -> Option<(&Indexed, Amount, Policy)> {
            match (&self.pools[need.pool as usize], need.amount) {
                (_, AmountRequest::Some(_, Policy::Scatter) | AmountRequest::All) => None,
                (Pool::Indexed(indexed), AmountRequest::Some(amount, policy)) => {
                    self.coupling.has(need.pool as usize).then_some((indexed, amount, policy))
                }
                (Pool::Sum { .. }, _) => None,
            }
        };
        let concerned: Vec<usize> =
            (0..needs.each.len()).filter(|at| coupled(&needs.each[*at]).is_some()).collect();
        let mut best: Option<Choice> = None;
        let mut pools: Vec<u32> = needs.each.iter().map(|need| need.pool).collect();
        pools.sort_unstable();
        // What takes twice of one pool (`gpus` and `gpus/nvidia`) is taken one after the other.
        let is_twice = pools.windows(2).any(|pair| pair[0] == pair[1]);
        if concerned.len() < 2 || is_twice {
            return None;
        }
        let follows = |at: &usize| gives_way && !needs.each[*at].is_strict();
        if gives_way && !concerned.iter().any(follows) {
            return None;
        }
        for first in concerned.iter().filter(|at| !follows(at)) {
            let Some((indexed, ..)) = coupled(&needs.each[*first]) else { continue };
            for group in 0..indexed.groups.len() {
                let mut plans: Vec<Option<Plan>> = vec![None; needs.each.len()];
                let mut order: Vec<usize> = concerned.clone();
                order.sort_by_key(|at| (at != first, follows(at)));
                for at in &order {
                    let need = &needs.each[*at];
                    let Some((indexed, amount, policy)) = coupled(need) else { continue };
                    let near = if at == first {
                        (0..indexed.groups.len()).map(|other| u64::from(other == group)).collect()
                    } else {
                        let chosen = chosen(needs, &plans);
                        self.coupling.near(need.pool as usize, indexed.groups.len(), &chosen)
                    };
                    plans[*at] = match follows(at) {
                        true => indexed.plan_beside(amount, &near),
                        false => indexed.plan(amount, policy, need.groups_max, &near),
                    };
                }
                if concerned.iter().any(|at| plans[*at].is_none()) {
                    if gives_way {
                        continue;
                    }
                    return None;
                }
                let (score, close) = self.coupling.score(needs, &chosen(needs, &plans));
                let left = |at: &usize| -> u64 {
                    let Some(((indexed, ..), plan)) = coupled(&needs.each[*at]).zip(plans[*at].as_ref())
                    else {
                        return 0;
                    };
                    plan.units().map(|(group, _)| indexed.groups[group].whole.len() as u64).sum()
                };
                let choice = Choice {
                    score,
                    close,
                    groups: plans.iter().flatten().map(Plan::group_count).sum(),
                    left: concerned.iter().map(left).sum(),
                    plans,
                };
                let order = |choice: &Choice| (Reverse(choice.score), choice.groups, choice.left);
                if close >= needs.close && best.as_ref().is_none_or(|best| order(&choice) < order(best)) {
                    best = Some(choice);
                }
            }
        }
        best
    }
}

fn chosen<'a>(needs: &ResolvedRequest, plans: &'a [Option<Plan>]) -> Vec<(usize, &'a Plan, u64)> {
    let with_need = needs.each.iter().zip(plans);
    with_need
        .filter_map(|(need, plan)| {
            let AmountRequest::Some(amount, _) = need.amount else { return None };
            Some((need.pool as usize, plan.as_ref()?, amount.0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use hq_model::request::parse_amount;
    use hq_model::resources::{parse_coupling, parse_pool};
    use hq_model::{Request, ResourceRequest};

    use super::super::super::Grant;
    use super::*;

    // Takes the requests one after the other: `cpus=2 gpus=1`; says `cpus 0,1 gpus 0` of each.
    fn check(pools: &[(&str, &str)], coupling: &str, requests: &[&str], expected: &[&str]) {
        let pools = pools.iter().map(|(name, text)| parse_pool(name, text).expect("a pool")).collect();
        let coupling = parse_coupling(coupling).expect("couplings");
        let resources = WorkerResources::new(pools, coupling).expect("resources");
        let mut pools = Pools::new(&resources);
        let mut taken = Vec::new();
        let mut found = Vec::new();
        for text in requests {
            let part = |part: &str| {
                let (name, amount) = part.split_once('=').expect("name and amount");
                let amount = parse_amount(name, &amount.replace('_', " ")).expect("an amount");
                ResourceRequest { name: name.into(), amount }
            };
            let request = Request { resources: text.split(' ').map(part).collect(), ..Request::default() };
            let needs = pools.needs(&request).expect("it could fit");
            let mut grant = Grant::default();
            if !pools.take(&needs, &mut grant) {
                found.push("no".to_owned());
                continue;
            }
            let word = |given: &super::super::GrantedResource| {
                let pool = &resources.pools[given.pool as usize];
                let labels: Vec<String> = pool.kind.labels().concat();
                let indices: Vec<&str> =
                    given.indices.iter().map(|i| labels[i.0 as usize].as_str()).collect();
                format!("{} {}", pool.name, indices.join(","))
            };
            found.push(grant.resources.iter().map(word).collect::<Vec<_>>().join(" "));
            taken.push(grant);
        }
        assert_eq!(found, expected);
        taken.iter().for_each(|grant| pools.free(grant));
        assert!(pools.is_free());
    }

    const NODE: [(&str, &str); 2] = [("cpus", "2x4"), ("gpus", "[[a,b],[c,d]]")];
    const PAIRS: &str = "cpus[0]:gpus[0],cpus[1]:gpus[1]";

    #[test]
    fn cores_are_those_beside_the_gpu() {
        check(
            &NODE,
            PAIRS,
            &["cpus=3", "cpus=2 gpus=1", "cpus=2 gpus=1", "cpus=1 gpus=1", "cpus=1 gpus=1"],
            &["cpus 0,1,2", "cpus 4,5 gpus c", "cpus 6,7 gpus d", "cpus 3 gpus a", "no"],
        );
    }

    #[test]
    fn what_is_not_free_beside_it_is_taken_elsewhere() {
        check(
            &NODE,
            PAIRS,
            &["cpus=4", "gpus=2", "cpus=2 gpus=2"],
            &["cpus 0,1,2,3", "gpus a,b", "cpus 4,5 gpus c,d"],
        );
        check(
            &NODE,
            PAIRS,
            &["cpus=4", "cpus=3", "gpus=1_tight", "cpus=1 gpus=2"],
            &["cpus 0,1,2,3", "cpus 4,5,6", "gpus a", "cpus 7 gpus c,d"],
        );
    }

    #[test]
    fn large_requests_take_both_sides_and_a_stronger_coupling_wins() {
        check(&NODE, PAIRS, &["cpus=6 gpus=3"], &["cpus 0,1,2,4,5,6 gpus a,b,c"]);
        check(&NODE, PAIRS, &["cpus=6_tight gpus=3"], &["cpus 0,1,2,3,4,5 gpus a,b,c"]);
        let crossed = "cpus[0]:gpus[0]=10,cpus[0]:gpus[1]=300";
        check(&NODE, crossed, &["cpus=1 gpus=1"], &["cpus 0 gpus c"]);
    }

    #[test]
    fn one_pool_under_two_names_is_taken_from_twice() {
        let node = [("cpus", "2x2"), ("gpus/nvidia", "[[a],[b]]")];
        let pairs = "cpus[0]:gpus/nvidia[0],cpus[1]:gpus/nvidia[1]";
        check(
            &node,
            pairs,
            &["cpus=1 gpus=1 gpus/nvidia=1", "cpus=1 gpus=1"],
            &["cpus 0 gpus/nvidia a gpus/nvidia b", "no"],
        );
    }

    #[test]
    fn policies_and_fractions_keep_their_meaning() {
        check(&NODE, PAIRS, &["cpus=2_scatter gpus=1"], &["cpus 0,4 gpus a"]);
        check(
            &NODE,
            PAIRS,
            &["cpus=5_tight", "cpus=1 gpus=0.5", "cpus=1 gpus=0.5"],
            &["cpus 0,1,2,3,4", "cpus 5 gpus c", "cpus 6 gpus c"],
        );
        check(&NODE, PAIRS, &["cpus=1", "cpus=4_compact! gpus=1"], &["cpus 0", "cpus 4,5,6,7 gpus c"]);
    }

    const COUPLED: [(&str, &str); 2] =
        [("cpus", "[[1,2,3],[4,5,6]]"), ("foo", "[[10,20,30,40],[50,60,70,80]]")];
    const BOTH: &str = "cpus[0]:foo[0],cpus[1]:foo[1]";

    #[test]
    fn a_strict_policy_waits_for_what_is_close() {
        check(
            &COUPLED,
            BOTH,
            &[
                "cpus=1 foo=3_compact!",
                "cpus=1 foo=3_compact!",
                "cpus=1 foo=1_compact!",
                "cpus=1 foo=1_compact!",
            ],
            &["cpus 1 foo 10,20,30", "cpus 4 foo 50,60,70", "cpus 2 foo 40", "cpus 5 foo 80"],
        );
        // The CPUs of one group are in use, and what is free beside them is not for tasks elsewhere.
        check(
            &COUPLED,
            BOTH,
            &["cpus=3", "foo=4", "cpus=1 foo=1_compact!", "cpus=1_compact! foo=1", "cpus=1 foo=1"],
            &["cpus 1,2,3", "foo 10,20,30,40", "cpus 4 foo 50", "cpus 5 foo 60", "cpus 6 foo 70"],
        );
        check(
            &COUPLED,
            BOTH,
            &["cpus=3", "foo=4", "foo=3_tight", "foo=1", "cpus=1 foo=1_compact!", "cpus=1 foo=1"],
            &["cpus 1,2,3", "foo 10,20,30,40", "foo 50,60,70", "foo 80", "no", "no"],
        );
        check(
            &[("cpus", "[[1],[2]]"), ("foo", "[[a],[b]]")],
            BOTH,
            &["cpus=1", "foo=1_tight", "cpus=1 foo=1_tight!"],
            &["cpus 1", "foo a", "cpus 2 foo b"],
        );
    }

    #[test]
    fn a_policy_that_is_not_strict_gives_way_to_one_that_is() {
        // With both CPUs of the second group two of five would be beside them, and on an idle worker three are: one of each
        // group has more beside it.
        let node = [("cpus", "2x2"), ("foo", "[[a,b,c],[d,e,f,g]]")];
        let task = "cpus=2_tight foo=5_compact!";
        check(&node, BOTH, &[task], &["cpus 0,1 foo a,b,c,d,e"]);
        let shown = ["cpus 0", "foo d,e", "cpus 1,2 foo a,b,c,f,g"];
        check(&node, BOTH, &["cpus=0.5", "foo=2_tight", task], &shown);
        // Where it has only what another one left.
        check(
            &node,
            BOTH,
            &["cpus=0.5", "cpus=2", "foo=2_tight", task],
            &["cpus 0", "cpus 2,3", "foo d,e", "no"],
        );
    }

    #[test]
    fn parts_of_an_index_are_beside_what_they_belong_to() {
        // On an idle worker 2.5 are beside the CPUs: whichever these are, and whether or not something else takes of what is
        // not.
        let node = [("cpus", "2x2"), ("foo", "[[a,b,c],[d,e,f,g]]")];
        let taken = ["cpus=2_tight!", "foo=1_tight", "cpus=2_tight! foo=4.5"];
        check(&node, BOTH, &["cpus=2_tight! foo=4.5"], &["cpus 0,1 foo a,b,c,d,e"]);
        check(&node, BOTH, &[taken[0], taken[2]], &["cpus 0,1", "cpus 2,3 foo a,b,d,e,f"]);
        check(&node, BOTH, &taken, &["cpus 0,1", "foo d", "cpus 2,3 foo a,b,e,f,g"]);
    }

    #[test]
    fn a_strict_policy_never_crosses_whatever_is_free() {
        let check = |taken: &[&str], strict: &str, expected: &str| {
            let mut requests = taken.to_vec();
            requests.push(strict);
            let shown = |text: &&str| match *text {
                "cpus=3" => "cpus 1,2,3",
                "foo=2" => "foo 10,20",
                "foo=4" => "foo 50,60,70,80",
                _ => "foo 30,40",
            };
            let mut all: Vec<&str> = taken.iter().map(shown).collect();
            all.push(expected);
            check(&COUPLED, BOTH, &requests, &all);
        };
        // CPUs of the second group are free, and of `foo` only the first.
        check(&["cpus=3", "foo=2", "foo=4"], "cpus=1 foo=1_compact!", "no");
        check(&["cpus=3", "foo=2", "foo=4"], "cpus=1_tight! foo=1", "no");
        check(&["cpus=3", "foo=2", "foo=4"], "cpus=1 foo=1", "cpus 4 foo 30");
    }
}
