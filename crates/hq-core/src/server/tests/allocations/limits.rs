//! What becomes of allocations that the batch system refuses, or does not take for now.

use super::*;

#[test]
fn a_round_ends_at_its_first_refusal_which_counts_once() {
    let mut world = World::asking(QueueParams { backlog: 12, ..params() }, 400);
    assert_eq!(world.orders(), "+1.1x1");
    world.refused(1);
    assert_eq!(world.fold.alloc.queues[&QueueId(1)].submit_failures, 1);
    world.wait(MINUTE / 2);
    assert_eq!(world.orders(), "", "what was refused is not asked for eleven times more");
    world.wait(MINUTE / 2);
    assert_eq!(world.orders(), "+1.2x1");
    world.refused(2);
    // Whoever corrects the arguments need not wait.
    let edited = Box::new(QueueParams { manager_args: vec![b"--partition=up".to_vec()], ..params() });
    world.alloc(AllocRequest::Edit { queue: QueueId(1), params: edited, dry_run: false });
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "shape 1 +1.3x1");
}

#[test]
fn an_edit_ends_what_failures_paused_and_not_what_a_user_paused() {
    let edit = |world: &mut World, backlog| {
        let params = Box::new(QueueParams { backlog, ..params() });
        world.alloc(AllocRequest::Edit { queue: QueueId(1), params, dry_run: false });
        world.wait(MINUTE / 60);
        world.orders()
    };
    let mut world = World::asking(params(), 1);
    for number in 1..=3 {
        world.submitted(number);
        world.wait(MINUTE * 2);
        world.states_are(&[(number, BatchState::Failed("exit status 127".into()))]);
        world.wait(MINUTE);
    }
    world.orders();
    assert!(matches!(world.explained().queue.status, QueueStatus::Paused(..)));
    assert_eq!(edit(&mut world, 2), "shape 1 +1.4x1");
    world.refused(4);
    world.alloc(AllocRequest::Pause { queue: QueueId(1) });
    assert!(!edit(&mut world, 3).contains('+'));
    assert!(matches!(world.explained().queue.status, QueueStatus::Paused(..)));
    world.restart();
    assert!(matches!(world.explained().queue.status, QueueStatus::Paused(..)));
}

#[test]
fn a_limit_of_the_site_is_waited_for_and_is_no_failure() {
    let mut world = World::asking(QueueParams { backlog: 12, ..params() }, 400);
    let not_now = |world: &mut World, number| {
        let error = "QOSMaxSubmitJobPerUserLimit".into();
        world.step(Input::Batch(BatchReport::NotNow { allocation: first(number), error }));
    };
    for number in 1..=2 {
        assert_eq!(world.orders(), format!("+1.{number}x1"));
        world.submitted(number);
        world.wait(MINUTE / 60);
    }
    assert_eq!(world.orders(), "+1.3x1");
    not_now(&mut world, 3);
    let told = "not accepted yet: QOSMaxSubmitJobPerUserLimit";
    assert_eq!(world.allocations(), format!("1.1 queued, 1.2 queued, 1.3 queued ({told})"));
    let next = world.explained().next;
    let words =
        "it asks for nothing: the batch system takes no more at present: QOSMaxSubmitJobPerUserLimit; ";
    assert!(next.starts_with(words), "{next}");
    assert_eq!(world.explained().demand[0].coming, 8, "of two allocations");
    // For hours: once a minute, with one number.
    for _ in 0..200 {
        world.wait(MINUTE / 2);
        assert!(!world.orders().contains('+'));
        world.wait(MINUTE / 2);
        assert!(world.orders().ends_with("+1.3x1"));
        not_now(&mut world, 3);
    }
    let queue = &world.fold.alloc.queues[&QueueId(1)];
    assert_eq!((queue.submit_failures, queue.last_number, &queue.paused), (0, 3, &None));
    // Something ends: at once.
    world.worker_of(2, 1);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.3x1", "it started: a limit on what waits may have room");
    not_now(&mut world, 3);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
    world.states_are(&[(1, BatchState::Finished), (2, BatchState::Queued)]);
    world.wait(MINUTE / 60);
    assert!(world.orders().ends_with("+1.3x1"));
    world.submitted(3);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.4x1", "and the next");
}

#[test]
fn what_was_not_taken_goes_with_the_tasks_it_was_for_and_with_its_queue() {
    let not_now = |world: &mut World, number| {
        let error = "Unable to contact slurm controller".into();
        world.step(Input::Batch(BatchReport::NotNow { allocation: first(number), error }));
    };
    let mut world = World::asking(params(), 1);
    not_now(&mut world, 1);
    world.ask(ClientRequest::Cancel { jobs: hq_model::selector::Selector::All, tasks: None, reason: None });
    world.wait(MINUTE / 60);
    assert_eq!(world.allocations(), "1.1 finished (canceled)");
    world.submit(1, |_| {});
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1 +1.2x1");
    not_now(&mut world, 2);
    // Another size of time is another allocation.
    let edited = Box::new(QueueParams { time_limit: HOUR * 2, ..params() });
    world.alloc(AllocRequest::Edit { queue: QueueId(1), params: edited, dry_run: false });
    world.wait(MINUTE);
    assert_eq!(world.orders(), "shape 1 +1.3x1");
    not_now(&mut world, 3);
    // A restart forgets why; the batch system is asked twice whether it is there.
    world.restart();
    assert!(world.orders().starts_with("=1.3"));
    for _ in 0..2 {
        world.step(Input::Batch(BatchReport::NotFound { allocation: first(3) }));
        world.wait(MINUTE);
    }
    assert!(world.orders().ends_with("+1.4x1"));
    not_now(&mut world, 4);
    world.alloc(AllocRequest::Remove { queue: QueueId(1), force: false });
    world.wait(MINUTE / 60);
    assert!(world.fold.alloc.queues.is_empty(), "nothing has to be canceled");
}

#[test]
fn after_a_restart_a_limit_costs_one_refused_submit_before_it_is_known_again() {
    let mut world = World::asking(QueueParams { backlog: 12, ..params() }, 400);
    let not_now = |world: &mut World, number| {
        let error = "QOSMaxSubmitJobPerUserLimit".into();
        world.step(Input::Batch(BatchReport::NotNow { allocation: first(number), error }));
    };
    for number in 1..=2 {
        world.submitted(number);
        world.wait(MINUTE / 60);
    }
    assert!(world.orders().ends_with("+1.3x1"));
    not_now(&mut world, 3);
    world.restart();
    let mut submits = Vec::new();
    for _ in 0..10 * 60 {
        let orders = world.orders();
        for order in orders.split(' ').filter(|order| order.starts_with(['+', '='])) {
            submits.push(order.to_owned());
            if order.starts_with('+') {
                not_now(&mut world, 4);
            } else {
                world.step(Input::Batch(BatchReport::NotFound { allocation: first(3) }));
            }
        }
        world.wait(MINUTE / 60);
        if submits.iter().any(|order| order == "+1.4x1") {
            break;
        }
    }
    assert_eq!(
        submits,
        ["=1.3", "=1.3", "+1.4x1"],
        "it is looked for what was not taken, then it is asked once"
    );
    let told = world.explained().next;
    assert!(
        told.contains("the batch system takes no more at present: QOSMaxSubmitJobPerUserLimit"),
        "{told}"
    );
    world.wait(MINUTE / 2);
    assert!(!world.orders().contains('+'), "as before the restart");
    let queue = &world.fold.alloc.queues[&QueueId(1)];
    assert_eq!((queue.submit_failures, queue.waiting()), (0, 3));
}

#[test]
fn a_budget_that_is_used_up_is_the_first_thing_told_of_a_queue() {
    let mut world = World::asking(QueueParams { budget: Some(HOUR), ..params() }, 1);
    world.submitted(1);
    world.wait(MINUTE / 60);
    let told = "it asks for nothing: its budget of 1 node hour has no room for one more node for 1h: 0 spent, 1 for allocations \
                that wait or run; `hq alloc edit` with a larger `--budget` raises it";
    assert_eq!(world.explained().next, told, "what is on its way takes all that waits");
    world.worker_of(1, 1);
    world.wait(MINUTE / 60);
    assert_eq!(world.explained().next, told, "nothing waits");
}
