//! Which layer of its graph each task of a job is in, and how the tasks of each layer stand.
//!
//! Tasks that wait for none of their own job are in the first layer, those that wait for some are one behind the last of these. A
//! submit without single dependencies is in one layer as a whole, so an array costs nothing; otherwise each of its tasks has a
//! number. What tasks put themselves behind later changes nothing.

use hq_model::dependency::{After, Mapping};
use hq_model::{IdSet, JobId, TaskId};

use crate::job_shape::Layer;
use crate::limits::{LAYER_STEPS_MAX, LAYERS_SHOWN};
use crate::server::job::{Job, SubmitState};

/// The layers of a job, as far as its submits are known.
#[derive(Debug, Default)]
pub(super) struct Layers {
    // Of each submit.
    submits: Vec<Place>,
    // First and last id of each range of a submit, ascending, with the submit and the rank of the first.
    ranges: Vec<(u32, u32, u32, u32)>,
    // Of each layer, its tasks and the first of them.
    sizes: Vec<(u64, TaskId)>,
    // What was looked at; from a bound on, nothing is said.
    steps: u64,
}

// In which layer the tasks of a submit are, counted from 0.
#[derive(Debug)]
enum Place {
    All(u32),
    Each(Vec<u32>),
}

// Not found yet.
const UNKNOWN: u32 = u32::MAX;

impl Place {
    fn of(&self, rank: u64) -> u32 {
        match self {
            Place::All(layer) => *layer,
            Place::Each(layers) => layers.get(rank as usize).copied().unwrap_or(0),
        }
    }
}

impl Layers {
    /// How many layers there are, and how their tasks stand; nothing when it would take too long to say.
    pub(super) fn count(
        &mut self,
        own: JobId,
        job: &Job,
        running: impl Iterator<Item = TaskId>,
    ) -> (u32, Vec<Layer>) {
        self.extend(own, job);
        let sets = [&job.finished, &job.failed, &job.canceled, &job.aborted];
        let ranges: u64 = sets.iter().map(|set| set.range_count() as u64).sum();
        if self.sizes.is_empty() || self.steps > LAYER_STEPS_MAX || self.steps + ranges > 2 * LAYER_STEPS_MAX
        {
            return (0, Vec::new());
        }
        let mut layers: Vec<Layer> =
            (1..).zip(&self.sizes).map(|(layer, size)| empty(layer, size.1)).collect();
        self.each(&job.finished, |layer, count| layers[layer].counters.finished += count);
        self.each(&job.failed, |layer, count| layers[layer].counters.failed += count);
        self.each(&job.canceled, |layer, count| layers[layer].counters.canceled += count);
        self.each(&job.aborted, |layer, count| layers[layer].counters.aborted += count);
        self.each(&running.collect(), |layer, count| layers[layer].counters.running += count);
        for (layer, (size, _)) in layers.iter_mut().zip(&self.sizes) {
            let known = layer.counters.total();
            layer.counters.waiting = size.saturating_sub(known);
        }
        (layers.len() as u32, folded(layers))
    }

    // Looks at the submits that are new.
    fn extend(&mut self, own: JobId, job: &Job) {
        if self.submits.len() == job.submits.len() {
            return;
        }
        for index in self.submits.len()..job.submits.len() {
            let submit = &job.submits[index];
            self.steps += submit.ids.range_count() as u64;
            if self.steps > LAYER_STEPS_MAX {
                break;
            }
            let place = self.place(own, job, index);
            self.measure(&submit.ids, &place);
            self.submits.push(place);
            let mut rank = 0;
            for range in submit.ids.ranges() {
                self.ranges.push((*range.start(), *range.end(), index as u32, rank));
                rank += range.end() - range.start() + 1;
            }
        }
        self.ranges.sort_unstable();
    }

    fn measure(&mut self, ids: &IdSet, place: &Place) {
        let mut add = |layer: u32, count: u64, first: TaskId| {
            if self.sizes.len() <= layer as usize {
                self.sizes.resize(layer as usize + 1, (0, TaskId(u32::MAX)));
            }
            let size = &mut self.sizes[layer as usize];
            *size = (size.0 + count, size.1.min(first));
        };
        match (place, ids.first()) {
            (Place::All(layer), Some(first)) => add(*layer, ids.len(), first),
            (Place::Each(layers), _) => ids.iter().zip(layers).for_each(|(task, layer)| add(*layer, 1, task)),
            (Place::All(_), None) => {}
        }
    }

    // The layers of a submit; those of the submits before it are known.
    fn place(&mut self, own: JobId, job: &Job, index: usize) -> Place {
        let submit = &job.submits[index];
        let mut base = 0;
        let mut windows = Vec::new();
        for after in submit.dependencies.after.iter().filter(|after| after.job == own) {
            let Some(tasks) = &after.tasks else { continue };
            let (least, most) = self.span(job, tasks);
            match after.mapping {
                Mapping::Window(size) if least != most => windows.push((after, size)),
                _ => base = base.max(most + 1),
            }
        }
        if submit.dependencies.edges.is_empty() && windows.is_empty() {
            return Place::All(base);
        }
        self.steps += submit.ids.len() + submit.dependencies.edges.len() as u64;
        if self.steps > LAYER_STEPS_MAX {
            return Place::All(base);
        }
        let mut least = vec![base; submit.ids.len() as usize];
        for (after, size) in windows {
            self.add_window(job, (after, size), &mut least);
        }
        self.add_edges(job, submit, least)
    }

    // The first and the last layer that some tasks are in.
    fn span(&mut self, job: &Job, tasks: &IdSet) -> (u32, u32) {
        let (mut least, mut most) = (UNKNOWN, 0);
        for (index, ids) in job.by_submit(tasks) {
            self.steps += 1;
            let Some(place) = self.submits.get(index as usize) else { continue };
            match place {
                Place::All(layer) => (least, most) = (least.min(*layer), most.max(*layer)),
                Place::Each(_) => {
                    self.steps += ids.len();
                    let all = &job.submits[index as usize].ids;
                    for layer in ids.iter().filter_map(|task| Some(place.of(all.rank(task)?))) {
                        (least, most) = (least.min(layer), most.max(layer));
                    }
                }
            }
        }
        (least.min(most), most)
    }

    // Each waits for those at its place, and for so many beside.
    fn add_window(&mut self, job: &Job, (after, size): (&After, u32), least: &mut [u32]) {
        let Some(tasks) = &after.tasks else { return };
        let layers: Vec<u32> = tasks.iter().map(|task| self.layer_of(job, task)).collect();
        self.steps +=
            layers.len() as u64 + least.len() as u64 * (2 * u64::from(size) + 1).min(layers.len() as u64);
        if self.steps > LAYER_STEPS_MAX {
            return;
        }
        for (place, layer) in least.iter_mut().enumerate() {
            let first = place.saturating_sub(size as usize).min(layers.len());
            let last = (place + size as usize + 1).min(layers.len());
            let most = layers[first..last].iter().max().map_or(0, |most| most + 1);
            *layer = (*layer).max(most);
        }
    }

    fn layer_of(&self, job: &Job, task: TaskId) -> u32 {
        let found = job.submit_of(task).and_then(|index| {
            let place = self.submits.get(index as usize)?;
            Some(place.of(job.submits[index as usize].ids.rank(task)?))
        });
        found.unwrap_or(0)
    }

    // Each is behind what it waits for, which may be of its own submit.
    fn add_edges(&self, job: &Job, submit: &SubmitState, least: Vec<u32>) -> Place {
        let edges = &submit.dependencies.edges;
        let mut layers = vec![UNKNOWN; least.len()];
        // A task whose layer is being found, and which of its edges is next. There are no cycles.
        let mut stack: Vec<(usize, usize, u32)> = Vec::new();
        for rank in 0..least.len() {
            if layers[rank] == UNKNOWN {
                stack.push((rank, 0, least[rank]));
            }
            while let Some((rank, next, layer)) = stack.pop() {
                let Some(target) = edges.of(rank).get(next) else {
                    layers[rank] = layer;
                    continue;
                };
                let own = submit.ids.rank(*target).map(|rank| rank as usize);
                match own {
                    Some(before) if layers[before] == UNKNOWN => {
                        stack.push((rank, next, layer));
                        stack.push((before, 0, least[before]));
                    }
                    Some(before) => stack.push((rank, next + 1, layer.max(layers[before] + 1))),
                    None => stack.push((rank, next + 1, layer.max(self.layer_of(job, *target) + 1))),
                }
            }
        }
        Place::Each(layers)
    }

    // Tells of some tasks how many are in which layer.
    fn each(&self, set: &IdSet, mut add: impl FnMut(usize, u64)) {
        if let [(size, _)] = self.sizes[..] {
            add(0, set.len().min(size));
            return;
        }
        let mut at = 0;
        for range in set.ranges() {
            let (first, last) = range.into_inner();
            while self.ranges.get(at).is_some_and(|range| range.1 < first) {
                at += 1;
            }
            let mut place = at;
            while let Some(&(begin, end, submit, rank)) =
                self.ranges.get(place).filter(|range| range.0 <= last)
            {
                let (from, to) = (begin.max(first), end.min(last));
                match &self.submits[submit as usize] {
                    Place::All(layer) => add(*layer as usize, u64::from(to - from) + 1),
                    Place::Each(layers) => {
                        let from = (rank + from - begin) as usize;
                        let count = (to - begin.max(first)) as usize + 1;
                        layers[from..from + count].iter().for_each(|layer| add(*layer as usize, 1));
                    }
                }
                place += 1;
            }
        }
    }
}

fn empty(layer: u32, task: TaskId) -> Layer {
    Layer { first: layer, last: layer, task, ..Layer::default() }
}

// Neighbours as one, where there are more than are told.
fn folded(layers: Vec<Layer>) -> Vec<Layer> {
    let together = layers.len().div_ceil(LAYERS_SHOWN).max(1);
    let fold = |part: &[Layer]| {
        let mut all = part[0].clone();
        for layer in &part[1..] {
            all.last = layer.last;
            all.task = all.task.min(layer.task);
            all.counters.add(&layer.counters);
        }
        all
    };
    layers.chunks(together).map(fold).collect()
}
