//! Sets of task ids kept as intervals: a million neighbors cost as much as one.
//!
//! Sorted, disjoint, inclusive ranges that never touch (touching ranges are merged), so that equal
//! sets have equal representations. Operations cost by ranges, never by ids.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::TaskId;
use crate::ids::digits_of;

/// A set of task ids.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct IdSet {
    // A plain vector: sets are built by appending, cut at the front or read in order. Insertion in
    // the middle moves 8 bytes a range, which beats a tree up to tens of thousands of ranges.
    ranges: Vec<(u32, u32)>,
    len: u64,
}

impl IdSet {
    /// The empty set.
    pub const fn new() -> Self {
        IdSet { ranges: Vec::new(), len: 0 }
    }

    /// The ids `first..=last`.
    pub fn range(first: u32, last: u32) -> Self {
        let mut set = IdSet::new();
        set.insert_range(first, last);
        set
    }

    /// One id.
    pub fn single(id: TaskId) -> Self {
        IdSet::range(id.0, id.0)
    }

    /// Number of ids.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when no id is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges: what the set costs.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges in ascending order.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u32>> + ExactSizeIterator + '_ {
        self.ranges.iter().map(|&(a, b)| a..=b)
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.ranges.iter().flat_map(|&(a, b)| (a..=b).map(TaskId))
    }

    /// The ids in ascending order, when the set is not needed any more.
    pub fn into_ids(self) -> impl Iterator<Item = TaskId> {
        self.ranges.into_iter().flat_map(|(a, b)| (a..=b).map(TaskId))
    }

    /// The smallest id.
    pub fn first(&self) -> Option<TaskId> {
        self.ranges.first().map(|r| TaskId(r.0))
    }

    /// The largest id.
    pub fn last(&self) -> Option<TaskId> {
        self.ranges.last().map(|r| TaskId(r.1))
    }

    /// True when `id` is in the set.
    pub fn contains(&self, id: TaskId) -> bool {
        let i = self.ranges.partition_point(|r| r.1 < id.0);
        self.ranges.get(i).is_some_and(|r| r.0 <= id.0)
    }

    /// The position of `id` among the ids in ascending order.
    pub fn rank(&self, id: TaskId) -> Option<u64> {
        let mut before = 0;
        for &(a, b) in &self.ranges {
            if id.0 < a {
                return None;
            }
            if id.0 <= b {
                return Some(before + u64::from(id.0 - a));
            }
            before += u64::from(b - a) + 1;
        }
        None
    }

    /// Number of ids that are smaller than `id`.
    pub fn count_below(&self, id: TaskId) -> u64 {
        let below = self.ranges.iter().take_while(|range| range.0 < id.0);
        below.map(|range| u64::from(range.1.min(id.0 - 1) - range.0) + 1).sum()
    }

    /// The ids at the places `first..=last` in ascending order, as far as there are.
    pub fn slice(&self, first: u64, last: u64) -> IdSet {
        let mut slice = IdSet::new();
        let mut before = 0;
        for range in &self.ranges {
            let count = width(range);
            if before > last {
                break;
            }
            let (from, to) = (first.max(before), last.min(before + count - 1));
            if from <= to {
                // Both are within the range: the differences fit.
                slice.insert_range(range.0 + (from - before) as u32, range.0 + (to - before) as u32);
            }
            before += count;
        }
        slice
    }

    /// The whole range that holds `id`.
    pub fn range_around(&self, id: TaskId) -> Option<RangeInclusive<u32>> {
        let i = self.ranges.partition_point(|r| r.1 < id.0);
        self.ranges.get(i).filter(|r| r.0 <= id.0).map(|r| r.0..=r.1)
    }

    /// Adds one id; true when it was not there.
    pub fn insert(&mut self, id: TaskId) -> bool {
        let before = self.len;
        self.insert_range(id.0, id.0);
        self.len != before
    }

    /// Adds `first..=last`; nothing when `first > last`.
    pub fn insert_range(&mut self, first: u32, last: u32) {
        if first > last {
            return;
        }
        // Ranges that end before `first - 1` stay as they are; those up to `last + 1` are merged.
        let from = self.ranges.partition_point(|r| u64::from(r.1) + 1 < u64::from(first));
        let to = from + self.ranges[from..].partition_point(|r| u64::from(r.0) <= u64::from(last) + 1);
        if from == to {
            self.ranges.insert(from, (first, last));
            self.len += u64::from(last - first) + 1;
            return;
        }
        let merged = (self.ranges[from].0.min(first), self.ranges[to - 1].1.max(last));
        let old: u64 = self.ranges[from..to].iter().map(width).sum();
        self.ranges[from] = merged;
        self.ranges.drain(from + 1..to);
        self.len = self.len - old + width(&merged);
    }

    /// Removes one id; true when it was there.
    pub fn remove(&mut self, id: TaskId) -> bool {
        let before = self.len;
        self.remove_range(id.0, id.0);
        self.len != before
    }

    /// Removes `first..=last`.
    pub fn remove_range(&mut self, first: u32, last: u32) {
        if first > last {
            return;
        }
        let from = self.ranges.partition_point(|r| r.1 < first);
        let to = from + self.ranges[from..].partition_point(|r| r.0 <= last);
        if from == to {
            return;
        }
        let old: u64 = self.ranges[from..to].iter().map(width).sum();
        let head = (self.ranges[from].0, first.wrapping_sub(1));
        let tail = (last.wrapping_add(1), self.ranges[to - 1].1);
        let keep_head = self.ranges[from].0 < first;
        let keep_tail = self.ranges[to - 1].1 > last;
        let kept = [(keep_head, head), (keep_tail, tail)];
        let kept: Vec<_> = kept.into_iter().filter(|k| k.0).map(|k| k.1).collect();
        self.len = self.len - old + kept.iter().map(width).sum::<u64>();
        self.ranges.splice(from..to, kept);
    }

    /// Adds all ids of `other`.
    pub fn union_with(&mut self, other: &IdSet) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        // Appending and small additions are the common cases; a large one is merged in one pass.
        if other.range_count() <= 8 {
            for &(a, b) in &other.ranges {
                self.insert_range(a, b);
            }
            return;
        }
        let mut all = Vec::with_capacity(self.ranges.len() + other.ranges.len());
        all.extend_from_slice(&self.ranges);
        all.extend_from_slice(&other.ranges);
        all.sort_unstable();
        *self = IdSet::from_sorted(all);
    }

    /// Removes all ids of `other`.
    pub fn subtract(&mut self, other: &IdSet) {
        if other.range_count() <= 8 {
            for &(a, b) in &other.ranges {
                self.remove_range(a, b);
            }
            return;
        }
        *self = self.difference(other);
    }

    /// The ids in both.
    pub fn intersection(&self, other: &IdSet) -> IdSet {
        let mut out = Vec::new();
        let (mut i, mut j) = (0, 0);
        if let (Some(a), Some(b)) = (self.ranges.first(), other.ranges.first()) {
            i = self.ranges.partition_point(|r| r.1 < b.0);
            j = other.ranges.partition_point(|r| r.1 < a.0);
        }
        while let (Some(a), Some(b)) = (self.ranges.get(i), other.ranges.get(j)) {
            let (low, high) = (a.0.max(b.0), a.1.min(b.1));
            if low <= high {
                out.push((low, high));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        IdSet::from_sorted(out)
    }

    /// The ids in both from `first` on, looked for in so many steps, and the last id up to which that is all: `None` when
    /// it is all there is.
    pub fn common_from(&self, other: &IdSet, first: TaskId, steps: usize) -> (IdSet, Option<TaskId>) {
        let mut out = Vec::new();
        let mut mine = &self.ranges[self.ranges.partition_point(|r| r.1 < first.0)..];
        let mut others = &other.ranges[other.ranges.partition_point(|r| r.1 < first.0)..];
        let mut all_up_to = None;
        for _ in 0..steps.max(1) {
            let (Some(a), Some(b)) = (mine.first(), others.first()) else {
                return (IdSet::from_sorted(out), None);
            };
            let (low, high) = (a.0.max(b.0).max(first.0), a.1.min(b.1));
            if low <= high {
                out.push((low, high));
            }
            all_up_to = Some(TaskId(high));
            // Whatever one of them does not have is skipped in the other.
            mine = &mine[mine.partition_point(|r| r.1 <= high)..];
            others = &others[others.partition_point(|r| r.1 <= high)..];
            if let (Some(a), Some(b)) = (mine.first(), others.first()) {
                mine = &mine[mine.partition_point(|r| r.1 < b.0)..];
                others = &others[others.partition_point(|r| r.1 < a.0)..];
            }
        }
        let is_all = mine.is_empty() || others.is_empty();
        (IdSet::from_sorted(out), all_up_to.filter(|_| !is_all))
    }

    /// The ids of `self` that are not in `other`.
    pub fn difference(&self, other: &IdSet) -> IdSet {
        let mut out = Vec::new();
        let first = self.first().map_or(0, |first| first.0);
        let mut j = other.ranges.partition_point(|r| r.1 < first);
        for &(mut low, high) in &self.ranges {
            let mut whole = true;
            while let Some(b) = other.ranges.get(j) {
                if b.1 < low {
                    j += 1;
                    continue;
                }
                if b.0 > high {
                    break;
                }
                if b.0 > low {
                    out.push((low, b.0 - 1));
                }
                if b.1 >= high {
                    whole = false;
                    break;
                }
                low = b.1 + 1;
                j += 1;
            }
            if whole {
                out.push((low, high));
            }
        }
        IdSet::from_sorted(out)
    }

    /// True when the two sets share an id.
    pub fn intersects(&self, other: &IdSet) -> bool {
        !self.intersection(other).is_empty()
    }

    /// True when every id of `other` is in `self`.
    pub fn contains_all(&self, other: &IdSet) -> bool {
        other.ranges.iter().all(|&(a, b)| {
            let i = self.ranges.partition_point(|r| r.1 < a);
            self.ranges.get(i).is_some_and(|r| r.0 <= a && b <= r.1)
        })
    }

    /// Removes and returns the `count` smallest ids (all when there are fewer).
    pub fn take_first(&mut self, count: u64) -> IdSet {
        let mut taken = IdSet::new();
        let mut whole = 0;
        for range in &mut self.ranges {
            let wanted = count - taken.len;
            if wanted == 0 {
                break;
            }
            if width(range) <= wanted {
                taken.push_back(*range);
                whole += 1;
            } else {
                let cut = range.0 + (wanted - 1) as u32;
                taken.push_back((range.0, cut));
                range.0 = cut + 1;
            }
        }
        self.ranges.drain(..whole);
        self.len -= taken.len;
        taken
    }

    /// Removes and returns the `count` largest ids (all when there are fewer).
    pub fn take_last(&mut self, count: u64) -> IdSet {
        if count >= self.len {
            return std::mem::take(self);
        }
        let kept = self.take_first(self.len - count);
        std::mem::replace(self, kept)
    }

    fn push_back(&mut self, range: (u32, u32)) {
        self.len += width(&range);
        self.ranges.push(range);
    }

    // Ranges sorted by start; overlaps and touching neighbors are merged.
    fn from_sorted(ranges: Vec<(u32, u32)>) -> IdSet {
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (a, b) in ranges {
            match out.last_mut() {
                Some(last) if u64::from(a) <= u64::from(last.1) + 1 => last.1 = last.1.max(b),
                _ => out.push((a, b)),
            }
        }
        let len = out.iter().map(width).sum();
        IdSet { ranges: out, len }
    }
}

fn width(range: &(u32, u32)) -> u64 {
    u64::from(range.1 - range.0) + 1
}

impl FromIterator<TaskId> for IdSet {
    fn from_iter<I: IntoIterator<Item = TaskId>>(ids: I) -> Self {
        let mut ranges: Vec<(u32, u32)> = ids.into_iter().map(|id| (id.0, id.0)).collect();
        ranges.sort_unstable();
        IdSet::from_sorted(ranges)
    }
}

impl FromIterator<RangeInclusive<u32>> for IdSet {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u32>>>(ranges: I) -> Self {
        let mut ranges: Vec<(u32, u32)> =
            ranges.into_iter().map(|r| (*r.start(), *r.end())).filter(|r| r.0 <= r.1).collect();
        ranges.sort_unstable();
        IdSet::from_sorted(ranges)
    }
}

/// Prints the int-array grammar: `1-3,7`.
impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(a, b)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if a == b {
                write!(f, "{comma}{a}")?;
            } else {
                write!(f, "{comma}{a}-{b}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// A text that is no list of ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdSetError {
    /// Nothing is in it.
    #[error("the list of ids is empty: use 1,3-5 or 1-100:10")]
    Empty,
    /// Nothing is where an id should be.
    #[error("there is nothing {place} in `{around}`: use 1,3-5 or 1-100:10, without spaces")]
    Gap {
        /// Which side of which comma.
        place: &'static str,
        /// That comma and its neighbors.
        around: String,
    },
    /// A part is no number or range.
    #[error("`{0}` is neither an id nor a range: use 5, 1-10 or 1-10:2")]
    Malformed(String),
    /// A task, where jobs are selected.
    #[error(
        "`{text}` is task {task} of job {job}, and what is selected here are jobs: give {job}, and `--tasks {task}` where the \
         command has that"
    )]
    OfTask {
        /// What was given.
        text: String,
        /// Its job.
        job: u32,
        /// The task.
        task: u32,
    },
    /// A number does not fit.
    #[error("`{0}` is too large: ids go up to 4294967295")]
    TooLarge(String),
    /// The range goes backwards.
    #[error("range `{0}` ends before it begins")]
    Backwards(String),
    /// The step cannot be.
    #[error("the step of `{0}` must be at least 1 and at most the size of the range")]
    Step(String),
    /// An id is named twice.
    #[error("`{0}` overlaps with another part of the list")]
    Overlap(String),
    /// More separate ids than are kept.
    #[error("the list has more than {RANGES_MAX} separate ranges")]
    TooMany,
}

/// Most separate ranges that a list may have.
pub const RANGES_MAX: usize = 1 << 24;

/// Reads the int-array grammar: `1-3,7,10-100:10`, with underscores between thousands.
impl FromStr for IdSet {
    type Err = IdSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Err(IdSetError::Empty);
        }
        let mut parts = Vec::new();
        let mut before = None;
        let mut texts = text.split(',').map(str::trim).peekable();
        while let Some(part) = texts.next() {
            if part.is_empty() {
                return Err(gap(before, texts.peek().copied()));
            }
            before = Some(part);
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(part, step)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(part, first)?, number(part, last)?),
                None if range.len() < part.len() => return Err(IdSetError::Malformed(part.into())),
                None => (number(part, range)?, number(part, range)?),
            };
            if first > last {
                return Err(IdSetError::Backwards(part.into()));
            }
            if step == 0 || step > 1 && step > last - first {
                return Err(IdSetError::Step(part.into()));
            }
            let count = if step == 1 { 1 } else { ((last - first) / step) as usize + 1 };
            if parts.len() + count > RANGES_MAX {
                return Err(IdSetError::TooMany);
            }
            match step {
                1 => parts.push((first, last, part)),
                _ => parts.extend((first..=last).step_by(step as usize).map(|id| (id, id, part))),
            }
        }
        parts.sort_unstable_by_key(|part| (part.0, part.1));
        if let Some(pair) = parts.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            return Err(IdSetError::Overlap(pair[1].2.into()));
        }
        Ok(IdSet::from_sorted(parts.into_iter().map(|(first, last, _)| (first, last)).collect()))
    }
}

// What is said of a part without anything in it, between the parts before and after it.
fn gap(before: Option<&str>, after: Option<&str>) -> IdSetError {
    let (place, around) = match (before, after) {
        (Some(before), Some(after)) => ("between the commas", format!("{before},,{after}")),
        (Some(before), None) => ("after the comma", format!("{before},")),
        (None, after) => ("before the comma", format!(",{}", after.unwrap_or_default())),
    };
    IdSetError::Gap { place, around }
}

fn number(part: &str, text: &str) -> Result<u32, IdSetError> {
    let digits = digits_of(text.trim()).filter(|digits| !digits.is_empty());
    let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let digits = digits.ok_or_else(|| IdSetError::Malformed(part.into()))?;
    digits.parse().map_err(|_| IdSetError::TooLarge(part.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_and_printed() {
        for (text, printed) in [
            ("5", "5"),
            ("1-3,7", "1-3,7"),
            ("7, 1-3", "1-3,7"),
            ("1-3,4-6", "1-6"),
            ("1-10:3", "1,4,7,10"),
            ("1_000-1_002", "1000-1002"),
            ("0-4294967295", "0-4294967295"),
        ] {
            assert_eq!(text.parse::<IdSet>().map(|set| set.to_string()), Ok(printed.into()), "{text}");
        }
    }

    #[test]
    fn bad_lists_are_refused_with_their_reason() {
        for (text, error) in [
            ("17_5", "`17_5` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
            ("5_", "`5_` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
            ("1000_000", "`1000_000` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
            ("", "the list of ids is empty: use 1,3-5 or 1-100:10"),
            ("a-b", "`a-b` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
            ("1,,2", "there is nothing between the commas in `1,,2`: use 1,3-5 or 1-100:10, without spaces"),
            ("7, 1-3,", "there is nothing after the comma in `1-3,`: use 1,3-5 or 1-100:10, without spaces"),
            (",1", "there is nothing before the comma in `,1`: use 1,3-5 or 1-100:10, without spaces"),
            (",", "there is nothing before the comma in `,`: use 1,3-5 or 1-100:10, without spaces"),
            ("5-1", "range `5-1` ends before it begins"),
            ("1-10:0", "the step of `1-10:0` must be at least 1 and at most the size of the range"),
            ("1-10:20", "the step of `1-10:20` must be at least 1 and at most the size of the range"),
            ("1-5,3", "`3` overlaps with another part of the list"),
            ("99999999999", "`99999999999` is too large: ids go up to 4294967295"),
            ("0-4294967295:2", "the list has more than 16777216 separate ranges"),
            ("5:2", "`5:2` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
        ] {
            assert_eq!(text.parse::<IdSet>().map_err(|e| e.to_string()), Err(error.into()));
        }
    }

    fn model(set: &IdSet) -> BTreeSet<u32> {
        set.iter().map(|id| id.0).collect()
    }

    // Small ids, some of them at the upper end of the range.
    fn ids() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let start = prop_oneof![0u32..60, (u32::MAX - 60)..=u32::MAX];
        prop::collection::vec((start, 0u32..6), 0..14)
    }

    fn build(ranges: &[(u32, u32)]) -> IdSet {
        ranges.iter().map(|(start, width)| *start..=start.saturating_add(*width)).collect()
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_set(a in ids(), b in ids(), count in 0u64..40) {
            let (a, b) = (build(&a), build(&b));
            let (ma, mb) = (model(&a), model(&b));
            prop_assert_eq!(a.len(), ma.len() as u64);
            let mut union = a.clone();
            union.union_with(&b);
            prop_assert_eq!(model(&union), ma.union(&mb).copied().collect());
            prop_assert_eq!(&union, &union.to_string().parse().unwrap_or_default());
            let mut rest = a.clone();
            rest.subtract(&b);
            prop_assert_eq!(&rest, &a.difference(&b));
            prop_assert_eq!(model(&rest), ma.difference(&mb).copied().collect());
            prop_assert_eq!(rest.len(), model(&rest).len() as u64);
            prop_assert_eq!(model(&a.intersection(&b)), ma.intersection(&mb).copied().collect());
            let mut first = Some(TaskId(0));
            let mut common = IdSet::new();
            while let Some(from) = first {
                let (part, all_up_to) = a.common_from(&b, from, count as usize % 3);
                let last = all_up_to.unwrap_or(TaskId(u32::MAX));
                prop_assert!(from <= last && part.last().is_none_or(|id| id <= last));
                common.union_with(&part);
                first = last.0.checked_add(1).map(TaskId);
            }
            prop_assert_eq!(&common, &a.intersection(&b));
            prop_assert_eq!(a.intersects(&b), !ma.is_disjoint(&mb));
            prop_assert_eq!(a.contains_all(&b), mb.is_subset(&ma));
            let mut left = a.clone();
            let taken = left.take_first(count);
            prop_assert_eq!(model(&taken), ma.iter().take(count as usize).copied().collect());
            prop_assert_eq!(model(&left), ma.iter().skip(count as usize).copied().collect());
            prop_assert_eq!(left.len(), model(&left).len() as u64);
            let mut left = a.clone();
            let taken = left.take_last(count);
            prop_assert_eq!(model(&taken), ma.iter().rev().take(count as usize).copied().collect());
            for (rank, id) in ma.iter().enumerate() {
                prop_assert_eq!(a.rank(TaskId(*id)), Some(rank as u64));
                prop_assert_eq!(a.count_below(TaskId(*id)), rank as u64);
            }
        }

        #[test]
        fn one_at_a_time_is_the_same(a in ids(), b in ids()) {
            let mut set = build(&a);
            let mut expected = model(&set);
            for id in build(&b).iter() {
                prop_assert_eq!(set.contains(id), expected.contains(&id.0));
                if id.0 % 2 == 0 {
                    prop_assert_eq!(set.insert(id), expected.insert(id.0));
                } else {
                    prop_assert_eq!(set.remove(id), expected.remove(&id.0));
                }
                prop_assert_eq!(model(&set), expected.clone());
                prop_assert_eq!(set.len(), expected.len() as u64);
            }
        }

        #[test]
        fn no_text_is_a_surprise(text in "[0-9,:_a -]{0,12}") {
            let _ = text.parse::<IdSet>();
        }
    }
}
