//! The time limit of a worker, and tasks that have an eye on the time.

use super::*;

#[test]
fn a_worker_ends_itself_before_its_time_is_over() {
    let mut world = World::new(|config| {
        config.time_limit = Some(Duration::from_secs(100));
        config.time_reserve = Duration::from_secs(30);
    });
    world.run(1, "0", 0, |_| {});
    world.did();
    world.wait(Duration::from_secs(70));
    world.end(1, 0, failed());
    assert_eq!(world.did(), "signal 1@0 15, interrupted 1:0, exit TimeLimit");
}

#[test]
fn tasks_have_the_time_that_they_asked_for() {
    let seconds = Duration::from_secs;
    let asks = |time: u64| move |spec: &mut TaskSpec| spec.requests[0].time_request = seconds(time);
    let mut world = World::new(|config| {
        config.time_limit = Some(seconds(100));
        config.time_reserve = seconds(10);
    });
    world.wait(seconds(2));
    world.run(1, "0", 0, asks(98));
    world.run(2, "0", 0, asks(80));
    assert_eq!(world.did(), "start 1@0/0, start 2@0/0");
    world.run(3, "0", 0, asks(97));
    world.run(4, "0", 0, |spec| spec.priority = -1);
    world.wait(seconds(2));
    world.end(2, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 4@0/0", "it is too late for 3, which holds up nobody");
    world.wait(seconds(86));
    world.end(4, 0, Outcome::Finished);
    world.run(5, "0", 0, |_| {});
    world.wait(seconds(1));
    assert_eq!(world.did(), "finished 2:0, finished 4:0", "nothing new starts in the reserve");
    world.wait(seconds(7));
    assert_eq!(world.did(), "", "the first one has most of the reserve");
    world.wait(seconds(1));
    world.end(1, 0, failed());
    assert_eq!(world.did(), "signal 1@0 15, returned 3:0, returned 5:0, interrupted 1:0, exit TimeLimit");
}

#[test]
fn a_task_is_warned_before_its_limit_or_the_end_of_its_worker() {
    let warning = hq_model::task::Warning { signal: 10, before: Duration::from_secs(20) };
    for (limit, after) in [(Some(60), 40), (Some(90), 50), (None, 50)] {
        let mut world = World::new(|config| {
            config.time_limit = Some(Duration::from_secs(100));
            config.time_reserve = Duration::from_secs(30);
        });
        world.run(1, "0", 0, |spec| {
            spec.time_limit = limit.map(Duration::from_secs);
            spec.warning = Some(warning);
        });
        world.did();
        world.wait(Duration::from_secs(after - 1));
        assert_eq!(world.did(), "", "{limit:?}");
        world.wait(Duration::from_secs(1));
        assert_eq!(world.did(), "signal 1@0 10", "{limit:?}");
    }
}

#[test]
fn what_could_not_end_in_time_is_not_started() {
    let mut world = World::new(|_| {});
    let seconds = Duration::from_secs;
    // It may start within 40 s.
    world.wait(seconds(1));
    world.run(1, "0-3", 0, |spec| {
        spec.end_by = Some(hq_model::task::EndBy::Within(seconds(100)));
        spec.expected = Some(seconds(60));
    });
    assert!(world.did().starts_with("start 1@0/0, start 1@1/0"));
    world.end(1, 0, Outcome::Finished);
    assert!(world.did().contains("start 1@2/0"));
    world.wait(seconds(41));
    world.did();
    world.end(1, 1, Outcome::Finished);
    assert!(!world.did().contains("start"), "it is too late");
    world.run(2, "0", 0, |_| {});
    assert!(world.did().contains("start 2@0/0"), "and holds up nobody");
}
