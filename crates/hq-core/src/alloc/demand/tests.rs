//! What is asked for, of queues and tasks in a few lines.

use hq_model::{Policy, ResourceRequest};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn pools(parts: &[(&str, u64)]) -> WorkerResources {
    let pool = |(name, count): &(&str, u64)| ResourcePool {
        name: (*name).into(),
        kind: PoolKind::Sum(Amount::whole(*count)),
    };
    WorkerResources { pools: parts.iter().map(pool).collect(), coupling: Vec::new() }
}

fn request(parts: &[(&str, u64)]) -> Request {
    let resource = |(name, count): &(&str, u64)| ResourceRequest {
        name: (*name).into(),
        amount: AmountRequest::Some(Amount::whole(*count), Policy::Compact),
    };
    Request { resources: parts.iter().map(resource).collect(), weight: 10_000, ..Request::default() }
}

fn class(requests: &[Request], waiting: u64) -> Class<'_> {
    // Long enough for as many workers as there may be.
    let work = Work { tasks: waiting, each: Some(HOUR * 1000), ..Work::default() };
    Class { priority: 0, requests, waiting, work }
}

fn offer(queue: u32, resources: WorkerResources) -> Offer {
    Offer {
        queue: QueueId(queue),
        resources,
        is_known: true,
        life: HOUR,
        pending: Vec::new(),
        allocations: 10,
        workers: u32::MAX,
        per_allocation: 1,
        staff: 0,
        min_utilization: 0,
        for_any_task: true,
        cost: Cost::default(),
    }
}

fn soon(workers: u32) -> Pending {
    Pending { number: 1, workers, here: 0, life: HOUR, due: Duration::ZERO, is_slow: false }
}

fn new(matched: &Matched) -> Vec<(u32, Vec<u32>)> {
    matched.new.iter().map(|(queue, sizes)| (queue.0, sizes.clone())).collect()
}

#[test]
fn as_many_workers_as_the_tasks_fill() {
    let one = [request(&[("cpus", 1)])];
    for (waiting, sizes) in [(1, vec![1]), (4, vec![1]), (5, vec![1, 1]), (1000, vec![1; 10])] {
        let matched = matched(&[class(&one, waiting)], &[offer(1, pools(&[("cpus", 4)]))]);
        assert_eq!(new(&matched), [(1, sizes)], "{waiting}");
    }
    let offer = Offer { per_allocation: 4, allocations: 2, workers: 7, ..offer(1, pools(&[("cpus", 4)])) };
    assert_eq!(new(&matched(&[class(&one, 1000)], std::slice::from_ref(&offer))), [(1, vec![4, 3])]);
    assert_eq!(new(&matched(&[class(&one, 9)], &[offer])), [(1, vec![3])]);
}

#[test]
fn what_is_on_its_way_is_not_asked_for_again() {
    let one = [request(&[("cpus", 1)])];
    let offer = Offer { pending: vec![soon(2), soon(1)], ..offer(1, pools(&[("cpus", 4)])) };
    let all = matched(&[class(&one, 12)], std::slice::from_ref(&offer));
    assert_eq!((new(&all), all.classes[0].coming[&QueueId(1)]), (vec![], 12));
    assert_eq!(new(&matched(&[class(&one, 13)], &[offer])), [(1, vec![1])]);
}

#[test]
fn one_that_has_waited_for_long_is_no_reason_to_leave_another_queue_alone() {
    let one = [request(&[("cpus", 1)])];
    let slow = Pending { is_slow: true, ..soon(1) };
    let slow = Offer { pending: vec![slow], ..offer(1, pools(&[("cpus", 4)])) };
    let asked =
        |waiting: u64, other: &Offer| new(&matched(&[class(&one, waiting)], &[slow.clone(), other.clone()]));
    // The other queue, and what goes beyond it stays with the first.
    let other = Offer { allocations: 2, ..offer(2, pools(&[("cpus", 4)])) };
    assert_eq!(asked(4, &other), [(2, vec![1])]);
    assert_eq!(asked(13, &other), [(1, vec![1]), (2, vec![1, 1])]);
    // Both have been asked.
    assert_eq!(asked(4, &Offer { pending: vec![soon(1)], ..other.clone() }), []);
    // A queue alone waits.
    assert_eq!(new(&matched(&[class(&one, 4)], std::slice::from_ref(&slow))), []);
}

#[test]
fn of_queues_that_are_alike_the_one_with_fewest_workers_is_asked() {
    let one = [request(&[("cpus", 1)])];
    let first = Offer { staff: 2, ..offer(1, pools(&[("cpus", 4)])) };
    let second = offer(2, pools(&[("cpus", 4)]));
    assert_eq!(new(&matched(&[class(&one, 4)], &[first.clone(), second])), [(2, vec![1])]);
    // But none that leaves GPUs idle.
    let with_gpus = offer(2, pools(&[("cpus", 4), ("gpus/nvidia", 2)]));
    assert_eq!(new(&matched(&[class(&one, 4)], &[first, with_gpus])), [(1, vec![1])]);
}

#[test]
fn queues_share_the_work() {
    let (cpu, gpu) = ([request(&[("cpus", 1)])], [request(&[("cpus", 1), ("gpus", 1)])]);
    let offers = [offer(1, pools(&[("cpus", 4), ("gpus/nvidia", 2)])), offer(2, pools(&[("cpus", 4)]))];
    // The GPU tasks leave two CPUs of each of their two workers free.
    let all = matched(&[class(&cpu, 8), class(&gpu, 4)], &offers);
    assert_eq!(new(&all), [(1, vec![1, 1]), (2, vec![1])]);
    assert_eq!(all.classes[0].new, BTreeMap::from([(QueueId(1), 4), (QueueId(2), 4)]));
    // Without GPU tasks, no GPU node is asked for.
    assert_eq!(new(&matched(&[class(&cpu, 8)], &offers)), [(2, vec![1, 1])]);
    // Unless the other queue may not ask.
    let closed = [offers[0].clone(), Offer { allocations: 0, ..offers[1].clone() }];
    assert_eq!(new(&matched(&[class(&cpu, 8)], &closed)), [(1, vec![1, 1])]);
}

#[test]
fn variants_take_what_there_is() {
    let variants = [request(&[("cpus", 1), ("gpus", 1)]), request(&[("cpus", 4)])];
    let cpu = offer(1, pools(&[("cpus", 4)]));
    assert_eq!(new(&matched(&[class(&variants, 2)], std::slice::from_ref(&cpu))), [(1, vec![1, 1])]);
    let gpu = Offer { allocations: 1, ..offer(2, pools(&[("cpus", 4), ("gpus/amd", 2)])) };
    // The preferred variant first, then the other one.
    assert_eq!(new(&matched(&[class(&variants, 4)], &[cpu, gpu])), [(1, vec![1, 1]), (2, vec![1])]);
}

#[test]
fn what_never_fits_is_not_asked_for_and_said() {
    let offer = offer(1, pools(&[("cpus", 4)]));
    for (request, text) in [
        (request(&[("cpus", 5)]), "cpus: a worker of this queue has 4, the tasks ask for 5"),
        (request(&[("gpus", 1)]), "a worker of this queue has no gpus"),
        (
            Request { time_request: HOUR * 2, ..request(&[("cpus", 1)]) },
            "a worker of this queue takes tasks for 1h, the tasks ask for 2h",
        ),
        (
            Request { nodes: 1, ranks: 5, ..request(&[("cpus", 1)]) },
            "cpus: a worker of this queue has 4, the tasks ask for 5",
        ),
        (
            Request { nodes: 2, ..Request::default() },
            "an allocation of this queue has 1 worker at most, the tasks ask for 2 nodes",
        ),
    ] {
        let requests = [request];
        let all = matched(&[class(&requests, 3)], std::slice::from_ref(&offer));
        assert_eq!((new(&all), all.classes[0].left), (vec![], 3));
        assert_eq!(offer.why_not(&requests).as_deref(), Some(text));
    }
}

#[test]
fn one_worker_is_asked_for_to_see_what_it_offers() {
    let one = [request(&[("cpus", 1)])];
    let unknown = Offer { is_known: false, per_allocation: 4, ..offer(1, WorkerResources::default()) };
    assert_eq!(new(&matched(&[class(&one, 1000)], std::slice::from_ref(&unknown))), [(1, vec![1])]);
    let asked = Offer { pending: vec![soon(1)], ..unknown.clone() };
    assert_eq!(new(&matched(&[class(&one, 1000)], &[asked])), []);
    // What was declared is enough for tasks that ask for nothing else.
    let declared = Offer { resources: pools(&[("cpus", 4)]), ..unknown };
    assert_eq!(new(&matched(&[class(&one, 10)], std::slice::from_ref(&declared))), [(1, vec![3])]);
    let gpu = [request(&[("cpus", 1), ("gpus", 1)])];
    assert_eq!(new(&matched(&[class(&gpu, 10)], &[declared])), [(1, vec![1])]);
}

#[test]
fn a_task_on_several_nodes_gets_an_allocation_of_its_size() {
    let several = [Request { nodes: 3, ..Request::default() }];
    let offer = Offer { per_allocation: 4, ..offer(1, pools(&[("cpus", 4)])) };
    assert_eq!(new(&matched(&[class(&several, 2)], std::slice::from_ref(&offer))), [(1, vec![3, 3])]);
    let coming = Offer { pending: vec![soon(2), soon(3)], ..offer.clone() };
    assert_eq!(new(&matched(&[class(&several, 2)], &[coming])), [(1, vec![3])]);
    // Some of its workers are there before the others.
    let coming = Offer { pending: vec![Pending { here: 1, ..soon(2) }], ..offer };
    assert_eq!(new(&matched(&[class(&several, 1)], std::slice::from_ref(&coming))), []);
    let one = [request(&[("cpus", 4)])];
    let all = matched(&[class(&one, 3)], &[coming]);
    assert_eq!(all.classes[0].coming[&QueueId(1)], 2, "what is there takes no more of these");
}

#[test]
fn workers_that_would_start_nothing_are_not_asked_for() {
    let one = [request(&[("cpus", 1)])];
    let picky = Offer { min_utilization: 5_000, ..offer(1, pools(&[("cpus", 4)])) };
    assert_eq!(new(&matched(&[class(&one, 5)], std::slice::from_ref(&picky))), [(1, vec![1])]);
    assert_eq!(new(&matched(&[class(&one, 6)], &[picky])), [(1, vec![1, 1])]);
}

#[test]
fn larger_priority_goes_first_where_not_all_may_be_asked_for() {
    let (cpu, gpu) = ([request(&[("cpus", 4)])], [request(&[("gpus", 1)])]);
    let offer = Offer { allocations: 1, ..offer(1, pools(&[("cpus", 4), ("gpus", 1)])) };
    let first = Class { priority: 1, ..class(&cpu, 3) };
    let all = matched(&[class(&gpu, 9), first], &[offer]);
    assert_eq!((all.classes[0].left, all.classes[1].left), (8, 2));
}

#[test]
fn a_declared_pool_goes_before_what_nodes_have() {
    let declared = pools(&[("cpus", 2)]).pools;
    let nodes = pools(&[("cpus", 8), ("mem", 100)]);
    let shape = shape(&declared, Some(&nodes));
    let shown: Vec<_> = shape.pools.iter().map(|p| (p.name.as_str(), p.kind.total().to_string())).collect();
    assert_eq!(shown, [("cpus", "2".to_owned()), ("mem", "100".to_owned())]);
}
