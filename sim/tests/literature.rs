//! 23 298 tasks on 256 workers, with exact numbers of what is sent.

use hq_sim::experiment::{Mishap, TASKS, play};

#[track_caller]
fn check(seeds: std::ops::Range<u64>, mishap: Mishap, more: usize) {
    for seed in seeds {
        assert_eq!(play(seed, mishap), Ok(TASKS as usize + more), "seed {seed}, {mishap:?}");
    }
}

#[test]
fn without_a_fault_each_task_is_sent_once() {
    check(0..1, Mishap::None, 0);
}

#[test]
fn ten_lost_tasks_are_sent_again() {
    check(1..2, Mishap::TasksLost(10), 10);
}

#[test]
fn two_killed_workers_cost_the_twenty_tasks_that_ran_there() {
    check(2..3, Mishap::WorkersKilled(2), 20);
}

#[test]
fn a_killed_server_costs_nothing() {
    check(3..6, Mishap::ServerKilled, 0);
}
