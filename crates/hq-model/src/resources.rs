//! What a worker offers: pools of indexed resources, perhaps in groups, and sums.

use std::cmp::Reverse;
use std::fmt;

use crate::Amount;
use crate::request::GPUS;

/// The content of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// Distinct things with labels, in groups (NUMA nodes, say). A pool without groups has one.
    /// Labels are unique over all groups; every group has at least one.
    Groups(Vec<Vec<String>>),
    /// Distinct things numbered `first..=last`, one group.
    Range {
        /// First index.
        first: u32,
        /// Last index.
        last: u32,
    },
    /// A divisible amount without indices, such as memory.
    Sum(Amount),
}

/// A named pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourcePool {
    /// A letter, then letters, digits, `/`, `-` and `_`.
    pub name: String,
    /// What is in it.
    pub kind: PoolKind,
}

/// All a worker offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerResources {
    /// Pools, `cpus` first, the others sorted by name; names unique.
    pub pools: Vec<ResourcePool>,
    /// Groups of different pools that belong together (a GPU and the cores beside it).
    pub coupling: Vec<Coupling>,
}

/// A preference for taking two groups together: `cpus[0]:gpus[0]=256`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coupling {
    /// Pool and group index.
    pub left: (String, u32),
    /// Pool and group index.
    pub right: (String, u32),
    /// Strength; [`COUPLING_WEIGHT`] by default.
    pub weight: u16,
}

/// The strength of a coupling of which nothing else is said.
pub const COUPLING_WEIGHT: u16 = 256;

impl PoolKind {
    /// All of the pool.
    pub fn total(&self) -> Amount {
        match self {
            PoolKind::Groups(groups) => Amount::whole(groups.iter().map(|g| g.len() as u64).sum()),
            PoolKind::Range { first, last } => Amount::whole(u64::from(last - first) + 1),
            PoolKind::Sum(amount) => *amount,
        }
    }

    /// How many groups there are; none in a sum.
    pub fn group_count(&self) -> usize {
        match self {
            PoolKind::Groups(groups) => groups.len(),
            PoolKind::Range { .. } => 1,
            PoolKind::Sum(_) => 0,
        }
    }

    /// The labels group by group; none for a sum.
    pub fn labels(&self) -> Vec<Vec<String>> {
        match self {
            PoolKind::Groups(groups) => groups.clone(),
            PoolKind::Range { first, last } => vec![(*first..=*last).map(|i| i.to_string()).collect()],
            PoolKind::Sum(_) => Vec::new(),
        }
    }
}

impl WorkerResources {
    /// About what they take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let items = |pool: &ResourcePool| match &pool.kind {
            PoolKind::Groups(groups) => {
                let labels = groups.iter().flatten().map(|label| size_of::<String>() + label.len());
                groups.len() * size_of::<Vec<String>>() + labels.sum::<usize>()
            }
            PoolKind::Range { .. } | PoolKind::Sum(_) => 0,
        };
        let pools = self.pools.iter().map(|pool| size_of::<ResourcePool>() + pool.name.len() + items(pool));
        let coupling = self.coupling.iter();
        let coupling = coupling.map(|of| size_of::<Coupling>() + of.left.0.len() + of.right.0.len());
        pools.sum::<usize>() + coupling.sum::<usize>()
    }

    /// So many CPUs, from 1 on, and nothing else.
    #[must_use]
    pub fn cpus(count: u32) -> WorkerResources {
        let kind = PoolKind::Range { first: 0, last: count.saturating_sub(1) };
        WorkerResources {
            pools: vec![ResourcePool { name: crate::request::CPUS.to_owned(), kind }],
            coupling: Vec::new(),
        }
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&ResourcePool> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// Which pool gives what is requested under a name: the one that is called so; for `gpus` otherwise the GPUs of
    /// any vendor, of the one with most where there are several.
    pub fn giver(&self, name: &str) -> Option<usize> {
        if let Some(exact) = self.pools.iter().position(|pool| pool.name == name) {
            return Some(exact);
        }
        let is_vendors =
            |pool: &ResourcePool| pool.name.strip_prefix(GPUS).is_some_and(|n| n.starts_with('/'));
        let vendors = self.pools.iter().enumerate().filter(|(_, pool)| name == GPUS && is_vendors(pool));
        // Of equal ones the first.
        vendors.max_by_key(|(at, pool)| (pool.kind.total(), Reverse(*at))).map(|(at, _)| at)
    }
}

/// Why a definition of what a worker offers is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// Not of the grammar.
    #[error("`{text}` does not define resource `{name}`: {hint}")]
    Malformed {
        /// Name of the pool.
        name: String,
        /// The definition.
        text: String,
        /// What is wrong or could be written.
        hint: &'static str,
    },
    /// Not a name.
    #[error(transparent)]
    Name(#[from] crate::request::RequestError),
    /// A label occurs twice.
    #[error("label `{label}` occurs twice in resource `{name}`")]
    Label {
        /// Name of the pool.
        name: String,
        /// The label.
        label: String,
    },
    /// A pool is defined twice.
    #[error("Resource {0} defined twice")]
    Twice(String),
    /// A coupling that is none.
    #[error("`{0}` is not a valid coupling: use cpus[0]:gpus[0]=256,cpus[1]:gpus[1]")]
    Coupling(String),
    /// A coupling of a pool that is not there.
    #[error("Resource not found: {0}")]
    NotFound(String),
    /// A coupling of a group that is not there.
    #[error("Invalid group id {group} for resource '{name}'")]
    Group {
        /// Name of the pool.
        name: String,
        /// Index of the group.
        group: u32,
    },
    /// A coupling that would make no difference.
    #[error("Resource '{0}' has only a single group")]
    SingleGroup(String),
}

const HINT: &str = "use range(0-3), [a,b], [[a,b],[c,d]] or sum(100)";
const CPU_HINT: &str = "use 8, 2x4, range(0-7), [0,1,2] or [[0,1],[2,3]]";
/// Largest number of indices in a pool.
pub const INDICES_MAX: u32 = 1 << 20;
const TOO_LARGE: &str = "it is too large: counts and indices go up to 1048576";
const _: () = assert!(INDICES_MAX == 1_048_576);

/// Parses what follows `NAME=` in the definition of a worker's pool.
///
/// # Errors
/// Says what is wrong and what could be written.
pub fn parse_pool(name: &str, text: &str) -> Result<ResourcePool, ResourceError> {
    crate::request::check_name(name)?;
    let is_cpus = name == crate::request::CPUS;
    let hint = if is_cpus { CPU_HINT } else { HINT };
    let bad = |hint| ResourceError::Malformed { name: name.into(), text: text.into(), hint };
    let plain = without_blanks(text);
    let number = |text: &str| {
        let digits = text.replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad(hint));
        }
        digits.parse().ok().filter(|n| *n <= INDICES_MAX).ok_or_else(|| bad(TOO_LARGE))
    };
    let kind = if let Some(inner) = enclosed(&plain, "range(", ")") {
        let (first, last) = inner.split_once('-').ok_or_else(|| bad(hint))?;
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(bad("a range must go from the smaller to the larger number"));
        }
        PoolKind::Range { first, last }
    } else if let Some(inner) = enclosed(&plain, "sum(", ")") {
        if is_cpus {
            return Err(bad("Resource kind `sum` cannot be used with CPUs"));
        }
        let amount = if name == crate::request::MEM {
            crate::memory::parse(inner).map_err(|_| bad("use sum(64GiB) or sum(65536), in MiB"))?
        } else {
            let text = "use a number with at most four decimals, such as sum(2.5); only mem can have units such as \
                GiB";
            inner.parse().map_err(|_| bad(text))?
        };
        if amount == Amount::ZERO {
            return Err(bad("a sum must be greater than zero"));
        }
        PoolKind::Sum(amount)
    } else if plain.starts_with('[') {
        PoolKind::Groups(groups(&plain).ok_or_else(|| bad(hint))?)
    } else if let Some((count, size)) = plain.split_once('x').filter(|_| is_cpus) {
        let (count, size) = (number(count)?, number(size)?);
        if count == 0 || size == 0 {
            return Err(bad("there must be at least one group of at least one CPU"));
        }
        if count.checked_mul(size).is_none_or(|all| all > INDICES_MAX) {
            return Err(bad(TOO_LARGE));
        }
        let group = |g: u32| (g * size..(g + 1) * size).map(|i| i.to_string()).collect();
        PoolKind::Groups((0..count).map(group).collect())
    } else if is_cpus {
        match number(&plain)? {
            0 => return Err(bad("a worker must have at least one CPU")),
            count => PoolKind::Range { first: 0, last: count - 1 },
        }
    } else {
        return Err(bad(hint));
    };
    let pool = ResourcePool { name: name.into(), kind };
    pool.check()?;
    Ok(pool)
}

/// Parses couplings: `cpus[0]:gpus[0]=256,cpus[1]:gpus[1]`.
///
/// # Errors
/// When the text is of another form.
pub fn parse_coupling(text: &str) -> Result<Vec<Coupling>, ResourceError> {
    let bad = || ResourceError::Coupling(text.into());
    let side = |text: &str| {
        let (name, group) = text.strip_suffix(']')?.split_once('[')?;
        crate::request::check_name(name).ok()?;
        Some((name.to_owned(), group.parse().ok()?))
    };
    let plain: String = text.split_whitespace().collect();
    let mut couplings = Vec::new();
    for part in plain.split(',') {
        let (pair, weight) = part.split_once('=').unwrap_or((part, "256"));
        let (left, right) = pair.split_once(':').ok_or_else(bad)?;
        let (left, right) = side(left).zip(side(right)).ok_or_else(bad)?;
        let weight = weight.parse().map_err(|_| bad())?;
        couplings.push(Coupling { left, right, weight });
    }
    Ok(couplings)
}

impl ResourcePool {
    /// Checks that groups have members and labels are unique.
    ///
    /// # Errors
    /// Names the label, or the empty group.
    pub fn check(&self) -> Result<(), ResourceError> {
        let PoolKind::Groups(groups) = &self.kind else { return Ok(()) };
        if groups.is_empty() || groups.iter().any(Vec::is_empty) {
            return Err(ResourceError::Malformed {
                name: self.name.clone(),
                text: self.kind.to_string(),
                hint: "every group needs at least one member",
            });
        }
        let mut labels: Vec<&String> = groups.iter().flatten().collect();
        labels.sort_unstable();
        match labels.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ResourceError::Label { name: self.name.clone(), label: pair[0].clone() }),
            None => Ok(()),
        }
    }
}

impl WorkerResources {
    /// Puts pools in order and checks them, their names and the couplings.
    ///
    /// # Errors
    /// Names what is there twice or not at all.
    pub fn new(
        mut pools: Vec<ResourcePool>,
        coupling: Vec<Coupling>,
    ) -> Result<WorkerResources, ResourceError> {
        pools.sort_by(|a, b| {
            let rest = |pool: &ResourcePool| pool.name != crate::request::CPUS;
            (rest(a), &a.name).cmp(&(rest(b), &b.name))
        });
        for pool in &pools {
            crate::request::check_name(&pool.name)?;
            pool.check()?;
        }
        if let Some(pair) = pools.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(ResourceError::Twice(pair[0].name.clone()));
        }
        let resources = WorkerResources { pools, coupling };
        for coupling in &resources.coupling {
            for (name, group) in [&coupling.left, &coupling.right] {
                let pool = resources.pool(name).ok_or_else(|| ResourceError::NotFound(name.clone()))?;
                if *group as usize >= pool.kind.group_count() {
                    return Err(ResourceError::Group { name: name.clone(), group: *group });
                }
            }
        }
        Ok(resources)
    }

    /// Checks that couplings said by hand make a difference: both pools have several groups.
    ///
    /// # Errors
    /// Names the pool that has one.
    pub fn check_coupling(&self) -> Result<(), ResourceError> {
        let names = self.coupling.iter().flat_map(|coupling| [&coupling.left.0, &coupling.right.0]);
        let has_one = |name: &&String| self.pool(name).is_some_and(|pool| pool.kind.group_count() == 1);
        match names.into_iter().find(has_one) {
            Some(name) => Err(ResourceError::SingleGroup(name.clone())),
            None => Ok(()),
        }
    }
}

/// Prints the grammar that [`parse_pool`] reads.
impl fmt::Display for PoolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |label: &String| match label.contains(char::is_whitespace) {
            true => format!("'{label}'"),
            false => label.clone(),
        };
        let list =
            |labels: &Vec<String>| format!("[{}]", labels.iter().map(label).collect::<Vec<_>>().join(","));
        match self {
            PoolKind::Range { first, last } => write!(f, "range({first}-{last})"),
            PoolKind::Sum(amount) => write!(f, "sum({amount})"),
            PoolKind::Groups(groups) if groups.len() == 1 => f.write_str(&list(&groups[0])),
            PoolKind::Groups(groups) => {
                let groups: Vec<String> = groups.iter().map(list).collect();
                write!(f, "[{}]", groups.join(","))
            }
        }
    }
}

impl fmt::Display for Coupling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((left, a), (right, b)) = (&self.left, &self.right);
        write!(f, "{left}[{a}]:{right}[{b}]={}", self.weight)
    }
}

fn enclosed<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

// Blanks between words mean nothing; inside quotes they belong to the label.
fn without_blanks(text: &str) -> String {
    let mut quote = None;
    let keep = |c: &char| match quote {
        Some(open) => {
            if *c == open {
                quote = None;
            }
            true
        }
        None => {
            quote = Some(*c).filter(|c| matches!(c, '"' | '\''));
            !c.is_whitespace()
        }
    };
    text.chars().filter(keep).collect()
}

// `[a,b]` is one group, `[[a,b],[c]]` several. Labels may be quoted.
fn groups(text: &str) -> Option<Vec<Vec<String>>> {
    let inner = enclosed(text, "[", "]")?;
    if !inner.starts_with('[') {
        return Some(vec![labels(inner)?]);
    }
    let mut groups = Vec::new();
    let mut rest = inner;
    loop {
        let end = rest.find(']')?;
        groups.push(labels(rest[..end].strip_prefix('[')?)?);
        rest = &rest[end + 1..];
        if rest.is_empty() {
            return Some(groups);
        }
        rest = rest.strip_prefix(',')?;
    }
}

fn labels(text: &str) -> Option<Vec<String>> {
    let label = |text: &str| {
        let plain = enclosed(text, "\"", "\"").or_else(|| enclosed(text, "'", "'")).unwrap_or(text);
        let good = !plain.is_empty() && !plain.contains(['"', '\'', '[', ']', ',', '(', ')']);
        good.then(|| plain.to_owned())
    };
    text.split(',').map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_and_printed() {
        for (name, text, printed) in [
            ("cpus", "4", "range(0-3)"),
            ("cpus", "2x2", "[[0,1],[2,3]]"),
            ("cpus", "[0, 1, 5]", "[0,1,5]"),
            ("gpus", "range(1-2)", "range(1-2)"),
            ("gpus/nvidia", "[\"a\",b]", "[a,b]"),
            ("x", "[[a,b],[c]]", "[[a,b],[c]]"),
            ("x", "[ 'b c' , d ]", "['b c',d]"),
            ("mem", "sum(4GiB)", "sum(4096)"),
            ("power", "sum(2.5)", "sum(2.5)"),
        ] {
            let kind = parse_pool(name, text).map(|pool| pool.kind);
            assert_eq!(kind.as_ref().map(ToString::to_string), Ok(printed.into()), "{name}={text}");
            assert_eq!(parse_pool(name, printed).map(|pool| pool.kind), kind);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_could_be_written() {
        for (name, text, error) in [
            (
                "cpus",
                "99999999",
                "`99999999` does not define resource `cpus`: it is too large: counts and indices go up to 1048576",
            ),
            (
                "cpus",
                "2000x2000",
                "`2000x2000` does not define resource `cpus`: it is too large: counts and indices go up to 1048576",
            ),
            (
                "x",
                "range(1-9999999999)",
                "`range(1-9999999999)` does not define resource `x`: it is too large: counts and indices go up to 1048576",
            ),
            ("cpus", "0", "`0` does not define resource `cpus`: a worker must have at least one CPU"),
            (
                "cpus",
                "sum(4)",
                "`sum(4)` does not define resource `cpus`: Resource kind `sum` cannot be used with CPUs",
            ),
            (
                "cpus",
                "0x4",
                "`0x4` does not define resource `cpus`: there must be at least one group of at least one CPU",
            ),
            (
                "gpus",
                "4",
                "`4` does not define resource `gpus`: use range(0-3), [a,b], [[a,b],[c,d]] or sum(100)",
            ),
            (
                "gpus",
                "range(3-1)",
                "`range(3-1)` does not define resource `gpus`: a range must go from the smaller to the larger number",
            ),
            ("x", "sum(0)", "`sum(0)` does not define resource `x`: a sum must be greater than zero"),
            ("gpus", "[a,a]", "label `a` occurs twice in resource `gpus`"),
            (
                "gpus",
                "[[a],[]]",
                "`[[a],[]]` does not define resource `gpus`: use range(0-3), [a,b], [[a,b],[c,d]] or sum(100)",
            ),
            (
                "1x",
                "sum(1)",
                "`1x` is not a valid resource name: a name begins with a letter and contains only letters, digits, \
                 `/`, `-` and `_`",
            ),
        ] {
            assert_eq!(parse_pool(name, text).map_err(|e| e.to_string()), Err(error.into()));
        }
    }

    #[test]
    fn couplings_name_groups_that_exist() {
        let pools =
            || vec![parse_pool("gpus", "[[a],[b]]").expect("pool"), parse_pool("cpus", "2x2").expect("pool")];
        let coupling = parse_coupling("cpus[0]:gpus[0], cpus[1]:gpus[1]=10").expect("coupling");
        let shown: Vec<String> = coupling.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["cpus[0]:gpus[0]=256", "cpus[1]:gpus[1]=10"]);
        let resources = WorkerResources::new(pools(), coupling).expect("resources");
        assert_eq!(resources.pools[0].name, "cpus");
        for (text, expected) in [
            ("cpus[2]:gpus[0]", "Invalid group id 2 for resource 'cpus'"),
            ("cpus[0]:gpus[3]", "Invalid group id 3 for resource 'gpus'"),
            ("foo[0]:goo[1]", "Resource not found: foo"),
            ("cpus[0]:one[0]", "Resource 'one' has only a single group"),
            ("one[0]:cpus[0]", "Resource 'one' has only a single group"),
        ] {
            let mut pools = pools();
            pools.push(parse_pool("one", "[a,b]").expect("pool"));
            let made = WorkerResources::new(pools, parse_coupling(text).expect("coupling"));
            let error = made.and_then(|resources| resources.check_coupling()).map_err(|e| e.to_string());
            assert_eq!(error, Err(expected.into()), "{text}");
        }
        assert_eq!(resources.check_coupling(), Ok(()));
        assert!(parse_coupling("cpus:gpus").is_err());
    }

    #[test]
    fn gpus_are_given_by_any_vendors_pool() {
        let giver = |pools: &[(&str, &str)]| {
            let pools = pools.iter().map(|(name, text)| parse_pool(name, text).expect("a pool")).collect();
            let resources = WorkerResources::new(pools, Vec::new()).expect("resources");
            resources.giver("gpus").map(|at| resources.pools[at].name.clone())
        };
        assert_eq!(giver(&[("cpus", "4")]), None);
        assert_eq!(giver(&[("cpus", "4"), ("gpusets/x", "[a]")]), None);
        assert_eq!(giver(&[("gpus/amd", "[0]"), ("gpus/nvidia", "[0,1]")]).as_deref(), Some("gpus/nvidia"));
        assert_eq!(giver(&[("gpus/amd", "[0]"), ("gpus/nvidia", "[0]")]).as_deref(), Some("gpus/amd"));
        assert_eq!(giver(&[("gpus", "[0]"), ("gpus/nvidia", "[0,1]")]).as_deref(), Some("gpus"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_surprise(text in ".*") {
            let _ = parse_pool("cpus", &text);
            let _ = parse_pool("x", &text);
            let _ = parse_coupling(&text);
        }
    }
}
