//! Tasks that take a whole node.

use super::*;

#[test]
fn a_whole_node_starts_beside_what_takes_nothing_and_beside_nothing_else() {
    let mut world = World::new(|_| ());
    let whole = |spec: &mut TaskSpec| spec.requests = vec![Request { nodes: 1, ..Request::default() }];
    let nothing = |spec: &mut TaskSpec| spec.requests = vec![Request::default()];
    world.run(1, "0", 0, nothing);
    world.run(2, "0", 0, |_| ());
    assert_eq!(world.did(), "start 1@0/0, start 2@0/0");
    world.run(3, "0", 0, whole);
    assert_eq!(world.did(), "");
    world.end(2, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 3@0/0, finished 2:0");
    world.run(2, "1", 0, |_| ());
    assert_eq!(world.did(), "");
    world.run(1, "1", 0, nothing);
    assert_eq!(world.did(), "start 1@1/0");
    world.end(3, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 2@1/0, finished 3:0");
}
