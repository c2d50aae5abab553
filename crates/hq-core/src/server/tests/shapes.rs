//! Layers and timelines of jobs.

use hq_model::dependency::{After, Dependencies, Edges, Mapping};

use super::*;
use crate::client_messages::JobShape;
use crate::job_shape::SlowTask;
use crate::limits::{LAYERS_SHOWN, SLOWEST_TOLD, TIMELINE_BARS};

const SECOND: u64 = 1_000_000;

impl World {
    fn shape(&mut self, job: u32) -> JobShape {
        match self.ask(ClientRequest::JobShape { job: JobId(job) }) {
            ClientResponse::JobShape(shape) => *shape,
            other => panic!("{other:?}"),
        }
    }

    // `first-last task: waiting running finished failed` of each layer.
    fn layers(&mut self, job: u32) -> String {
        let shape = self.shape(job);
        let told = shape.layers.iter().map(|layer| {
            let c = layer.counters;
            format!(
                "{}-{} {}: {} {} {} {}",
                layer.first, layer.last, layer.task, c.waiting, c.running, c.finished, c.failed
            )
        });
        told.collect::<Vec<_>>().join(", ")
    }

    // Tasks whose times are these have finished, in seconds from the beginning of the world.
    fn ran(&mut self, job: u32, first: u32, times: &[(u64, u64)]) {
        let mut measures = MeasuresWriter::new(false);
        for (start, end) in times {
            let usage = Usage { wall_us: (end - start) * SECOND, ..Usage::default() };
            measures.push(Timestamp((start + 1) * SECOND), &usage);
        }
        let ids = IdSet::range(first, first + times.len() as u32 - 1);
        let span = FinishedSpan { ids, measures: measures.finish(), ..finished(JobId(job), first, first, 0) };
        self.reports(1, |report| report.finished.push(span));
    }

    fn adds(&mut self, target: Target, count: u32, after: Vec<After>, lists: &[&[u32]]) {
        let lists = lists.iter().map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>());
        let edges = Edges::new(lists).expect("few");
        let dependencies = Arc::new(Dependencies { after, edges, ..Dependencies::default() });
        let submit = Submit { dependencies, ..Submit::new(target, TaskIds::Next(count), one_cpu()) };
        match self.answer_to(submit) {
            ClientResponse::Submitted { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn opens(&mut self) {
        let spec = JobSpec { name: "open".into(), ..JobSpec::default() };
        self.ask(ClientRequest::OpenJob { key: 9, spec });
    }
}

fn new() -> Target {
    Target::New(JobSpec { name: "graph".into(), ..JobSpec::default() })
}

#[test]
fn an_array_is_one_layer() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(1_000_000, |_| {});
    assert_eq!(world.layers(1), "1-1 0: 1000000 0 0 0");
    world.reports(1, |report| report.started.push(started(JobId(1), 1, 0)));
    world.ran(1, 0, &[(0, 0)]);
    assert_eq!(world.layers(1), "1-1 0: 999998 1 1 0");
}

#[test]
fn tasks_are_one_layer_behind_the_last_of_those_they_wait_for() {
    let mut world = World::new();
    world.worker(1, 4);
    // 4 waits for what comes behind it in the list, and for the end of a chain.
    world.adds(new(), 6, Vec::new(), &[&[], &[0], &[0], &[1, 2], &[5, 0], &[3]]);
    assert_eq!(
        world.layers(1),
        "1-1 0: 1 0 0 0, 2-2 1: 2 0 0 0, 3-3 3: 1 0 0 0, 4-4 5: 1 0 0 0, 5-5 4: 1 0 0 0"
    );
    world.ran(1, 0, &[(0, 0)]);
    world.reports(1, |report| report.failed.push((JobId(1), failed(1, 0, 1))));
    world.reports(1, |report| report.started.push(started(JobId(1), 2, 0)));
    let shape = world.shape(1);
    let second = shape.layers[1].counters;
    assert_eq!((shape.depth, second.running, second.failed, second.waiting), (5, 1, 1, 0));
    assert_eq!(shape.layers[4].counters.aborted, 1, "what waited for the failed one was given up");
}

#[test]
fn submits_to_an_open_job_are_layers_as_wholes_or_by_element() {
    let mut world = World::new();
    world.opens();
    let open = || Target::Open(JobId(1));
    let after = |text: &str| -> After { text.parse().expect("a dependency") };
    world.adds(open(), 4, Vec::new(), &[]);
    world.adds(open(), 4, vec![after("1@0-3")], &[]);
    assert_eq!(world.layers(1), "1-1 0: 4 0 0 0, 2-2 4: 4 0 0 0");
    world.adds(open(), 4, Vec::new(), &[&[0], &[4], &[8], &[]]);
    assert_eq!(world.layers(1), "1-1 0: 5 0 0 0, 2-2 4: 5 0 0 0, 3-3 9: 2 0 0 0");
    // Element by element behind tasks of several layers, beside which their neighbours count, too.
    let each = |size| After { mapping: Mapping::Window(size), ..after("1@8-11") };
    world.adds(open(), 4, vec![each(0)], &[]);
    assert_eq!(world.layers(1), "1-1 0: 5 0 0 0, 2-2 4: 6 0 0 0, 3-3 9: 3 0 0 0, 4-4 13: 2 0 0 0");
    world.adds(open(), 4, vec![each(1)], &[]);
    assert_eq!(world.layers(1), "1-1 0: 5 0 0 0, 2-2 4: 6 0 0 0, 3-3 9: 3 0 0 0, 4-4 13: 6 0 0 0");
}

#[test]
fn many_layers_are_told_as_few() {
    let mut world = World::new();
    let lists: Vec<Vec<u32>> =
        (0..100_000).map(|task: u32| task.checked_sub(1).into_iter().collect()).collect();
    let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
    world.adds(new(), 100_000, Vec::new(), &lists);
    let shape = world.shape(1);
    assert_eq!(shape.depth, 100_000);
    assert!(shape.layers.len() <= LAYERS_SHOWN, "{}", shape.layers.len());
    let (first, last) = (&shape.layers[0], &shape.layers[shape.layers.len() - 1]);
    assert_eq!((first.first, first.last, first.counters.waiting), (1, 391, 391));
    assert_eq!(
        (last.last, shape.layers.iter().map(|layer| layer.counters.waiting).sum()),
        (100_000, 100_000u64)
    );
    assert!(shape.layers.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
}

// How long all ran together, in seconds.
fn sum(shape: &JobShape) -> f64 {
    let timeline = &shape.timeline;
    let until = timeline.bars.len() as f64 * timeline.step.as_secs_f64();
    let whole = shape.now.since(timeline.from).as_secs_f64();
    let short = |place: usize| if place + 1 == timeline.bars.len() { (until - whole).max(0.0) } else { 0.0 };
    let long = |place| timeline.step.as_secs_f64() - short(place);
    timeline.bars.iter().enumerate().map(|(place, bar)| bar.running_milli as f64 / 1000.0 * long(place)).sum()
}

#[test]
fn a_timeline_says_how_many_ran_when() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(10, |_| {});
    world.wait(Duration::from_secs(100));
    world.ran(1, 0, &[(10, 60), (10, 30), (50, 60)]);
    let shape = world.shape(1);
    let timeline = &shape.timeline;
    assert_eq!((timeline.attempts, timeline.is_complete), (3, true));
    assert!((sum(&shape) - 80.0).abs() < 0.1, "{}", sum(&shape));
    let running_at = |second: u64| {
        let place = (second as f64 / timeline.step.as_secs_f64()) as usize;
        timeline.bars[place].running_milli
    };
    assert_eq!([5, 20, 40, 55, 70].map(running_at), [0, 2000, 1000, 2000, 0]);
    let ended: u32 = timeline.bars.iter().map(|bar| bar.ended).sum();
    assert_eq!(ended, 3);
}

#[test]
fn a_timeline_has_what_runs_and_what_failed_and_what_came_since() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(10, |_| {});
    world.wait(Duration::from_secs(10));
    world.reports(1, |report| {
        report.started.push(Started { at: Timestamp(11 * SECOND), ..started(JobId(1), 5, 0) })
    });
    world.wait(Duration::from_secs(30));
    assert!((sum(&world.shape(1)) - 30.0).abs() < 0.2, "{}", sum(&world.shape(1)));
    let failure = Failure {
        started: Some(Timestamp(21 * SECOND)),
        usage: Usage { wall_us: 10 * SECOND, ..Usage::default() },
        ..failed(6, 0, 1)
    };
    world.reports(1, |report| report.failed.push((JobId(1), failure)));
    let shape = world.shape(1);
    let failed: u32 = shape.timeline.bars.iter().map(|bar| bar.failed).sum();
    assert_eq!((failed, shape.timeline.attempts), (1, 1));
    assert!((sum(&shape) - 40.0).abs() < 0.2, "{}", sum(&shape));
    // Much later, the worker is lost with what ran there; the steps are longer, and the sum of what ended is the same.
    world.wait(Duration::from_secs(100_000));
    let later = world.shape(1);
    assert!(later.timeline.step > shape.timeline.step && later.timeline.bars.len() <= TIMELINE_BARS);
    assert!((sum(&later) - 10.0).abs() < 1.0, "{}", sum(&later));
    assert_eq!(later.timeline.bars.iter().map(|bar| bar.failed).sum::<u32>(), 1);
}

#[test]
fn clocks_that_are_wrong_add_nothing_beside_the_life_of_a_job() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(10, |_| {});
    world.wait(Duration::from_secs(10));
    world.ran(1, 0, &[(50_000, 50_001), (0, 90_000)]);
    let shape = world.shape(1);
    assert_eq!(shape.timeline.attempts, 2);
    assert!(shape.timeline.step < Duration::from_secs(1), "{:?}", shape.timeline.step);
    assert!(sum(&shape) <= 11.0, "{}", sum(&shape));
}

#[test]
fn what_is_kept_of_jobs_is_bounded_and_found_again() {
    let mut world = World::new();
    world.worker(1, 4);
    for job in 1..=20 {
        world.submit(3, |_| {});
        assert_eq!(world.layers(job), "1-1 0: 3 0 0 0");
    }
    world.ran(1, 0, &[(0, 0)]);
    assert_eq!(world.layers(1), "1-1 0: 2 0 1 0");
    assert!(matches!(world.ask(ClientRequest::JobShape { job: JobId(77) }), ClientResponse::Error(_)));
}

#[test]
fn the_tasks_that_took_longest_are_told_with_their_workers() {
    let mut world = World::new();
    world.worker(1, 32);
    world.submit(100, |_| {});
    world.ran(1, 0, &[(0, 5), (0, 30), (5, 6), (6, 16)]);
    world.reports(1, |report| report.started.push(started(JobId(1), 4, 0)));
    world.wait(Duration::from_secs(40));
    world.reports(1, |report| report.failed.push((JobId(1), failed(4, 0, 1))));
    let told = |world: &mut World| -> Vec<String> {
        let slowest = world.shape(1).slowest;
        let text = |slow: &SlowTask| {
            let failed = if slow.state == TaskState::Failed { " failed" } else { "" };
            format!(
                "{} {} s on {}{failed}",
                slow.task,
                slow.took.as_secs(),
                slow.worker.map_or(0, |worker| worker.0)
            )
        };
        slowest.iter().map(text).collect()
    };
    let all = told(&mut world);
    assert!(all.contains(&"1 30 s on 1".to_owned()), "{all:?}");
    assert!(all.iter().any(|text| text.starts_with("4 ") && text.ends_with(" failed")), "{all:?}");
    assert_eq!(all.len(), 5);
    // Only the longest ones are kept, whenever they come.
    world.ran(1, 10, &[(0, 1), (0, 9), (0, 50), (0, 8), (0, 7), (0, 6), (0, 11), (0, 12)]);
    let all = told(&mut world);
    assert_eq!(all.len(), SLOWEST_TOLD);
    let place = |text: &str| all.iter().position(|other| other == text);
    assert!(place("12 50 s on 1") < place("1 30 s on 1"), "{all:?}");
    assert_eq!(place("10 1 s on 1"), None);
}
