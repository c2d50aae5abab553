//! What a task asks for: amounts of named resources, in one or more variants.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::amount::AmountError;
use crate::memory::MemoryError;
use crate::{Amount, JobId};

/// The name of the CPU pool.
pub const CPUS: &str = "cpus";
/// The name of the memory pool; its unit is one MiB.
pub const MEM: &str = "mem";
/// How the names of resources begin that relays offer and pulled tasks ask for; what follows is their job, and behind that, after
/// a slash, a tag that whoever takes them must have. Nothing else may have such a name.
pub const PULLED: &str = "pulled/";
/// Any vendor's GPUs, in a request.
pub const GPUS: &str = "gpus";
/// The one pool that each worker has for tasks that mostly read and write files.
pub const IO: &str = "io";

/// How indices of a pool with groups are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// As few groups as have it now, the same from each as far as they can.
    #[default]
    Compact,
    /// As `Compact`, in as few groups as an idle worker would give; waits for them.
    CompactStrict,
    /// As few groups, one after the other, beginning with the one that has most free.
    Tight,
    /// As `Tight`, but waits.
    TightStrict,
    /// Spread over groups.
    Scatter,
}

/// How much of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmountRequest {
    /// The whole pool, all of it free.
    All,
    /// This amount, above zero.
    Some(Amount, Policy),
}

/// One resource of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRequest {
    /// Name of the pool.
    pub name: String,
    /// How much of it.
    pub amount: AmountRequest,
}

/// One variant of what a task asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Workers of one group; 0 for a task within one worker.
    pub nodes: u32,
    /// Ranks on each of the nodes, each of which takes `resources`; 0 when the program runs once, on the first node.
    pub ranks: u32,
    /// Nothing else runs on the nodes. Always so without ranks.
    pub exclusive: bool,
    /// Sorted by name, names unique. Empty for a multi-node request without ranks.
    pub resources: Vec<ResourceRequest>,
    /// The worker must live at least this long after the start.
    pub time_request: Duration,
    /// Scales this request's value to the scheduler, in 1/10000; 10000 is neutral.
    pub weight: u32,
}

impl Request {
    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let resources =
            self.resources.iter().map(|resource| size_of::<ResourceRequest>() + resource.name.len());
        size_of::<Request>() + resources.sum::<usize>()
    }
}

/// The neutral weight.
pub const WEIGHT_NEUTRAL: u32 = 10_000;

/// The largest number of nodes of a task.
pub const NODES_MAX: u32 = 100_000;

/// The largest number of ranks on a node.
pub const RANKS_MAX: u32 = 10_000;

/// The largest number of variants of a task.
pub const VARIANTS_MAX: usize = 32;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The amount is not one.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// The memory size is not one.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Nothing is asked for.
    #[error("Zero resources cannot be requested (`{0}`)")]
    Zero(String),
    /// The policy is not known.
    #[error("`{0}` is not a valid policy: use compact, compact!, tight, tight! or scatter")]
    Policy(String),
    /// The name is not one.
    #[error(
        "`{0}` is not a valid resource name: a name begins with a letter and contains only letters, digits, `/`, \
         `-` and `_`"
    )]
    Name(String),
    /// A resource is named twice.
    #[error("resource `{0}` is requested twice")]
    Twice(String),
    /// Too many alternatives.
    #[error("{0} resource variants are too many: the maximum is {VARIANTS_MAX}")]
    TooManyVariants(usize),
    /// Alternatives that cannot be compared.
    #[error("single-node and multi-node variants cannot be mixed")]
    MixedNodes,
    /// More nodes than there can be.
    #[error("{0} nodes are too many: the maximum is {NODES_MAX}")]
    TooManyNodes(u32),
    /// More ranks on a node than there can be.
    #[error("{0} ranks per node are too many: the maximum is {RANKS_MAX}")]
    TooManyRanks(u32),
    /// Ranks or resources without the nodes, or the other way round.
    #[error("{0}")]
    Nodes(&'static str),
}

/// Parses what follows `NAME=` in a task's request: `all`, or an amount and perhaps a policy.
///
/// # Errors
/// Says what is wrong and what could be written.
pub fn parse_amount(resource: &str, text: &str) -> Result<AmountRequest, RequestError> {
    let trimmed = text.trim();
    if trimmed == "all" {
        return Ok(AmountRequest::All);
    }
    let (amount, policy) = match trimmed.rsplit_once(char::is_whitespace) {
        // `4 GiB` is a size with a blank in it, `2 scatter` an amount with a policy.
        Some((_, unit)) if resource == MEM && unit.parse::<Policy>().is_err() => (trimmed, None),
        Some((amount, policy)) => (amount.trim_end(), Some(policy)),
        // `2compact` is as good.
        None => {
            let is_suffix = |policy: &&str| trimmed.len() > policy.len() && trimmed.ends_with(policy);
            let policy = POLICIES.into_iter().map(|(name, _)| name).find(is_suffix);
            (policy.map_or(trimmed, |policy| &trimmed[..trimmed.len() - policy.len()]), policy)
        }
    };
    let policy = policy.map_or(Ok(Policy::default()), str::parse)?;
    let amount = if resource == MEM { crate::memory::parse(amount)? } else { amount.parse()? };
    if amount == Amount::ZERO {
        return Err(RequestError::Zero(text.into()));
    }
    Ok(AmountRequest::Some(amount, policy))
}

/// Checks the name of a resource: a letter, then letters, digits, `/`, `-` and `_`.
///
/// # Errors
/// When it is none.
pub fn check_name(name: &str) -> Result<(), RequestError> {
    let mut bytes = name.bytes();
    let good = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-'));
    if good { Ok(()) } else { Err(RequestError::Name(name.into())) }
}

/// The part of a variable's name that stands for a resource: what is no letter or digit becomes `_`.
pub fn env_name(resource: &str) -> String {
    resource.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Checks a list of variants.
///
/// # Errors
/// When there are too many, or they mix single and several nodes, or one names a resource twice.
pub fn check_variants(requests: &[Request]) -> Result<(), RequestError> {
    if requests.len() > VARIANTS_MAX {
        return Err(RequestError::TooManyVariants(requests.len()));
    }
    if requests.iter().any(|r| (r.nodes > 0) != (requests[0].nodes > 0)) {
        return Err(RequestError::MixedNodes);
    }
    for request in requests {
        request.check_nodes()?;
        for pair in request.resources.windows(2) {
            if pair[0].name == pair[1].name {
                return Err(RequestError::Twice(pair[0].name.clone()));
            }
        }
    }
    Ok(())
}

/// Names of what is asked for by pulled tasks of a job with these tags, and offered by a relay where whoever has them asks.
pub fn pulled_names<T: AsRef<str>>(job: JobId, tags: &[T]) -> impl Iterator<Item = String> {
    let tags = tags.iter().map(move |tag| format!("{PULLED}{job}/{}", tag.as_ref()));
    std::iter::once(format!("{PULLED}{job}")).chain(tags)
}

impl Request {
    /// What a pulled task of a job asks for, which is given to those alone who have these tags.
    pub fn pulled<T: AsRef<str>>(job: JobId, tags: &[T]) -> Request {
        let amount = AmountRequest::Some(Amount::whole(1), Policy::default());
        let names = pulled_names(job, tags);
        let resources = names.map(|name| ResourceRequest { name, amount }).collect();
        Request { resources, weight: WEIGHT_NEUTRAL, ..Request::default() }
    }

    /// Tags that whoever takes the task must have; none where it is no pulled one.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let names = self.resources.iter().filter_map(|resource| resource.name.strip_prefix(PULLED));
        names.filter_map(|rest| rest.split_once('/').map(|(_, tag)| tag))
    }

    /// True when it asks for what only relays have.
    pub fn is_pulled(&self) -> bool {
        self.pulled_resource().is_some()
    }

    /// What it asks for that only relays of one bag have.
    pub fn pulled_resource(&self) -> Option<&str> {
        let mut names = self.resources.iter().map(|resource| resource.name.as_str());
        names.find(|name| name.starts_with(PULLED))
    }

    /// True when it takes nodes as a whole.
    pub fn takes_whole_nodes(&self) -> bool {
        self.nodes > 0 && (self.ranks == 0 || self.exclusive)
    }

    /// True when it asks for nothing at all, as generators and reducers do: it runs beside any number of others, also beside
    /// a task that takes whole nodes.
    pub fn takes_nothing(&self) -> bool {
        self.nodes == 0 && self.resources.is_empty()
    }

    /// Checks what is said of nodes and ranks.
    ///
    /// # Errors
    /// When it does not go together.
    pub fn check_nodes(&self) -> Result<(), RequestError> {
        let (nodes, ranks) = (self.nodes, self.ranks);
        if nodes > NODES_MAX {
            return Err(RequestError::TooManyNodes(nodes));
        }
        if ranks > RANKS_MAX {
            return Err(RequestError::TooManyRanks(ranks));
        }
        if nodes == 0 && (ranks > 0 || self.exclusive) {
            return Err(RequestError::Nodes(
                "ranks and exclusive nodes can only be used in requests for nodes",
            ));
        }
        if nodes > 0 && ranks == 0 && !self.resources.is_empty() {
            return Err(RequestError::Nodes(
                "whole nodes are requested, so resources can only be given per rank",
            ));
        }
        if ranks > 1 && self.resources.iter().any(|resource| resource.amount == AmountRequest::All) {
            return Err(RequestError::Nodes("several ranks on a node cannot each have all of a resource"));
        }
        Ok(())
    }
}

const POLICIES: [(&str, Policy); 5] = [
    ("compact", Policy::Compact),
    ("compact!", Policy::CompactStrict),
    ("tight", Policy::Tight),
    ("tight!", Policy::TightStrict),
    ("scatter", Policy::Scatter),
];

impl FromStr for Policy {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = POLICIES.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, policy)| policy).ok_or_else(|| RequestError::Policy(text.into()))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = POLICIES.into_iter().find(|(_, policy)| policy == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

/// Prints `all` or `2 compact`.
impl fmt::Display for AmountRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AmountRequest::All => f.write_str("all"),
            AmountRequest::Some(amount, policy) => write!(f, "{amount} {policy}"),
        }
    }
}

/// Prints `cpus: 2, mem: 4 GiB`, `cpus: 8 scatter`, or `nodes: 3`.
impl Request {
    /// What it asks for, a line for each thing, but for the time that it needs.
    pub fn lines(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.nodes > 0 {
            parts.push(format!("nodes: {}", self.nodes));
        }
        if self.ranks > 0 {
            parts.push(format!("ranks per node: {}", self.ranks));
        }
        if self.ranks > 0 && self.exclusive {
            parts.push("exclusive".to_owned());
        }
        for resource in &self.resources {
            parts.push(match resource.amount {
                AmountRequest::Some(amount, _) if resource.name == MEM => {
                    format!("mem: {}", crate::memory::format(amount))
                }
                // What everybody gets who names no policy need not be said.
                AmountRequest::Some(amount, Policy::Compact) => format!("{}: {amount}", resource.name),
                amount => format!("{}: {amount}", resource.name),
            });
        }
        parts
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.lines();
        if !self.time_request.is_zero() {
            parts.push(format!("time: {}", crate::duration::format(self.time_request)));
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_policies() {
        for (name, text, shown) in [
            ("cpus", "2", "2 compact"),
            ("cpus", "all", "all"),
            ("gpus", "0.5 scatter", "0.5 scatter"),
            ("cpus", "8 tight!", "8 tight!"),
            ("mem", "4GiB", "4096 compact"),
            ("mem", "4 GiB", "4096 compact"),
            ("mem", "2 scatter", "2 scatter"),
            ("mem", "4 GiB  tight", "4096 tight"),
            ("mem", "4GiBtight!", "4096 tight!"),
            ("cpus", "2compact", "2 compact"),
        ] {
            let parsed = parse_amount(name, text).map(|amount| amount.to_string());
            assert_eq!(parsed, Ok(shown.into()), "{name}={text}");
        }
        for (text, error) in [
            ("0", "Zero resources cannot be requested (`0`)"),
            ("1 loose", "`loose` is not a valid policy: use compact, compact!, tight, tight! or scatter"),
            ("-3", "`-3` is not an amount: use a number such as 2 or 0.5"),
        ] {
            assert_eq!(parse_amount("cpus", text).map_err(|e| e.to_string()), Err(error.into()));
        }
    }

    #[test]
    fn names_of_resources() {
        for name in ["cpus", "gpus/nvidia", "a1", "x-y_z"] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "1a", "/x", "a b", "ä"] {
            assert_eq!(check_name(name), Err(RequestError::Name(name.into())));
        }
        assert_eq!(env_name("gpus/nvidia"), "gpus_nvidia");
    }
}
