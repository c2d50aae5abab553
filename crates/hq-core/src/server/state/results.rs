//! What finished tasks left behind, bounded: blocks as workers sent them, the oldest dropped first.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{Entries, IdSet, JobId, TaskId};

use crate::limits::RESULTS_KEPT_BYTES_MAX;
use crate::never;

/// The results of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    // In order of time.
    blocks: BTreeMap<u64, Block>,
    // Of jobs whose reducers have not acknowledged them: these are not dropped. Likewise in order.
    held_blocks: BTreeMap<u64, Block>,
    // Those jobs, with the bytes of their blocks.
    held: BTreeMap<JobId, usize>,
    // Of each job, by the first id of each interval of a block: the last one, and the block.
    by_job: BTreeMap<JobId, BTreeMap<u32, (u32, u64)>>,
    next: u64,
    bytes: usize,
}

/// Results of some tasks of a job.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    job: JobId,
    ids: IdSet,
    results: Entries,
}

// The numbers of blocks say their order and nothing else.
impl PartialEq for Results {
    fn eq(&self, other: &Results) -> bool {
        self.bytes == other.bytes
            && self.held == other.held
            && self.blocks.values().eq(other.blocks.values())
            && self.held_blocks.values().eq(other.held_blocks.values())
    }
}

impl Results {
    /// Adds the results of tasks that had none, and drops the oldest ones over the bound. An empty one is a result, too.
    pub fn add(&mut self, job: JobId, ids: &IdSet, results: &Entries) {
        if results.is_empty() {
            return;
        }
        let block = Block { job, ids: ids.clone(), results: results.clone() };
        let of_job = self.by_job.entry(job).or_default();
        of_job.extend(ids.ranges().map(|range| (*range.start(), (*range.end(), self.next))));
        match self.held.get_mut(&job) {
            Some(bytes) => {
                *bytes += block.bytes();
                self.held_blocks.insert(self.next, block);
            }
            None => {
                self.bytes += block.bytes();
                self.blocks.insert(self.next, block);
            }
        }
        self.next += 1;
        self.bound();
    }

    /// Adds what tasks of a job were told to have left. To say nothing is a result where one is promised, an empty one: `promised`
    /// are those tasks of which that is so.
    pub(super) fn add_told(&mut self, job: JobId, ids: &IdSet, told: &Entries, promised: &IdSet) {
        if told.is_empty() {
            let results = Entries::new(promised.iter().map(|_| &[][..])).unwrap_or_default();
            return self.add(job, promised, &results);
        }
        if told.iter().all(|result| !result.is_empty()) || promised == ids {
            return self.add(job, ids, told);
        }
        let is_one = |(task, result): &(TaskId, &[u8])| !result.is_empty() || promised.contains(*task);
        let left: Vec<_> = ids.iter().zip(told.iter()).filter(is_one).collect();
        let ids: IdSet = left.iter().map(|(task, _)| *task).collect();
        self.add(job, &ids, &Entries::new(left.into_iter().map(|(_, result)| result)).unwrap_or_default());
    }

    /// From now on those of a job, which has none yet, are kept until they are dropped by name.
    pub(super) fn hold(&mut self, job: JobId) {
        self.held.entry(job).or_insert(0);
    }

    /// They are as those of others again.
    pub(super) fn release(&mut self, job: JobId) {
        let Some(bytes) = self.held.remove(&job) else { return };
        self.bytes += bytes;
        let others = self.held_blocks.extract_if(.., |_, block| block.job == job);
        self.blocks.extend(others.collect::<Vec<_>>());
        self.bound();
    }

    /// Those of these tasks of a job are not needed any more. A block goes with the last of its tasks: `all` are those of which
    /// that was said so far.
    pub(super) fn drop_of(&mut self, job: JobId, ids: &IdSet, all: &IdSet) {
        let (Some(bytes), Some(listed)) = (self.held.get_mut(&job), self.by_job.get_mut(&job)) else {
            return;
        };
        let mut numbers = BTreeSet::new();
        for range in ids.ranges() {
            let before = listed.range(..*range.start()).next_back();
            let found = before.into_iter().chain(listed.range(range));
            numbers.extend(found.map(|(_, (_, number))| *number));
        }
        for number in numbers {
            if let Some(block) = self.held_blocks.get(&number).filter(|block| all.contains_all(&block.ids)) {
                *bytes -= block.bytes();
                for range in block.ids.ranges() {
                    listed.remove(range.start());
                }
                self.held_blocks.remove(&number);
            }
        }
        if listed.is_empty() {
            self.by_job.remove(&job);
        }
    }

    /// Bytes of those of a job that are kept for its reducer.
    pub fn held_bytes(&self, job: JobId) -> usize {
        self.held.get(&job).copied().unwrap_or(0)
    }

    fn bound(&mut self) {
        while self.bytes > RESULTS_KEPT_BYTES_MAX
            && let Some((_, oldest)) = self.blocks.pop_first()
        {
            self.bytes -= oldest.bytes();
            self.unlist(&oldest);
        }
    }

    /// Drops all of a job.
    pub fn forget(&mut self, job: JobId) {
        self.held.remove(&job);
        let Some(listed) = self.by_job.remove(&job) else { return };
        for (_, number) in listed.into_values() {
            // One that is of several intervals is listed several times.
            self.held_blocks.remove(&number);
            self.bytes -= self.blocks.remove(&number).map_or(0, |block| block.bytes());
        }
    }

    /// The results of those of `ids` that have some, as far as so many bytes of room hold them, and the first task for which
    /// there was none.
    pub fn page(&self, job: JobId, ids: &IdSet, room: &mut usize) -> (IdSet, Vec<&[u8]>, Option<TaskId>) {
        let (mut found, mut results) = (IdSet::new(), Vec::new());
        let Some(listed) = self.by_job.get(&job) else { return (found, results, None) };
        for range in ids.ranges() {
            let before = listed.range(..*range.start()).next_back();
            let within = listed.range(range.clone());
            for (first, (last, number)) in before.into_iter().chain(within) {
                let Some(block) = self.blocks.get(number).or_else(|| self.held_blocks.get(number)) else {
                    never!("block {number} of results of job {job} is listed and is not there");
                    continue;
                };
                let (first, last) = ((*first).max(*range.start()), (*last).min(*range.end()));
                for id in first..=last {
                    let result = block.ids.rank(TaskId(id)).and_then(|rank| block.results.get(rank as usize));
                    let Some(result) = result else { continue };
                    let Some(left) = room.checked_sub(result.len() + 8) else {
                        return (found, results, Some(TaskId(id)));
                    };
                    *room = left;
                    found.insert(TaskId(id));
                    results.push(result);
                }
            }
        }
        (found, results, None)
    }

    /// All blocks, oldest first, those that are kept for reducers behind the others.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (JobId, &IdSet, &Entries)> {
        self.blocks
            .values()
            .chain(self.held_blocks.values())
            .map(|block| (block.job, &block.ids, &block.results))
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn unlist(&mut self, block: &Block) {
        let Some(listed) = self.by_job.get_mut(&block.job) else { return };
        for range in block.ids.ranges() {
            listed.remove(range.start());
        }
        if listed.is_empty() {
            self.by_job.remove(&block.job);
        }
    }
}

impl Block {
    // The map entries around the packed bytes count, too.
    fn bytes(&self) -> usize {
        160 + self.ids.range_count() * 56 + self.results.bytes_len() + self.results.len() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(results: &mut Results, job: u32, first: u32, texts: &[&str]) {
        let entries = Entries::new(texts.iter().map(|text| text.as_bytes())).expect("little");
        let ids = IdSet::range(first, first + texts.len() as u32 - 1);
        results.add(JobId(job), &ids, &entries);
    }

    fn page(results: &Results, job: u32, ids: &str) -> String {
        let (found, results, next) = results.page(JobId(job), &ids.parse().expect("ids"), &mut 100_000);
        let texts: Vec<_> = results.into_iter().map(String::from_utf8_lossy).collect();
        format!("{found}: {}{}", texts.join(","), next.map_or(String::new(), |next| format!(" then {next}")))
    }

    #[test]
    fn results_are_found_by_task() {
        let mut results = Results::default();
        add(&mut results, 1, 10, &["a", "", "c"]);
        add(&mut results, 1, 0, &["x"]);
        add(&mut results, 2, 11, &["other"]);
        assert_eq!(page(&results, 1, "0-100"), "0,10-12: x,a,,c");
        assert_eq!(page(&results, 1, "11-12"), "11-12: ,c");
        assert_eq!(page(&results, 1, "5,13-20"), ": ");
        assert_eq!(page(&results, 3, "0-100"), ": ");
        results.forget(JobId(1));
        assert_eq!(page(&results, 1, "0-100"), ": ");
        assert_eq!(page(&results, 2, "0-100"), "11: other");
        results.forget(JobId(2));
        assert_eq!((results.bytes(), results.blocks.len(), results.by_job.len()), (0, 0, 0));
    }

    #[test]
    fn to_say_nothing_is_a_result_where_one_is_promised() {
        let told = |texts: &[&str], promised: &str| {
            let mut results = Results::default();
            let texts = Entries::new(texts.iter().map(|text| text.as_bytes())).expect("little");
            let promised = promised.parse().unwrap_or_default();
            results.add_told(JobId(1), &IdSet::range(3, 5), &texts, &promised);
            (page(&results, 1, "0-9"), results.blocks.len())
        };
        assert_eq!(told(&[], ""), (": ".to_owned(), 0));
        assert_eq!(told(&[], "3-5"), ("3-5: ,,".to_owned(), 1));
        assert_eq!(told(&[], "4"), ("4: ".to_owned(), 1));
        assert_eq!(told(&["a", "", ""], ""), ("3: a".to_owned(), 1));
        assert_eq!(told(&["a", "", ""], "3-4"), ("3-4: a,".to_owned(), 1));
        assert_eq!(told(&["a", "", "c"], "3-5"), ("3-5: a,,c".to_owned(), 1));
    }

    #[test]
    fn an_answer_ends_where_its_room_does() {
        let mut results = Results::default();
        add(&mut results, 1, 0, &["12345678", "12345678", "last"]);
        let mut room = 32;
        let (found, _, next) = results.page(JobId(1), &IdSet::range(0, 9), &mut room);
        assert_eq!((found, next, room), (IdSet::range(0, 1), Some(TaskId(2)), 0));
        assert_eq!(page(&results, 1, "2-9"), "2: last");
    }

    #[test]
    fn the_oldest_are_dropped_over_the_bound() {
        let mut results = Results::default();
        let large = "r".repeat(1 << 20);
        for task in 0..300 {
            add(&mut results, 1, task, &[&large]);
            assert!(results.bytes() <= RESULTS_KEPT_BYTES_MAX);
        }
        assert_eq!(page(&results, 1, "0-10"), ": ");
        let (found, ..) = results.page(JobId(1), &IdSet::single(TaskId(299)), &mut (2 << 20));
        assert_eq!(found, IdSet::single(TaskId(299)));
        assert_eq!(results.by_job[&JobId(1)].len(), results.blocks.len());
    }
}
