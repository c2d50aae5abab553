//! So many ranks in all, and functions on ranks.

use hq_model::body::Mpi;

use super::*;

#[test]
fn ranks_are_as_many_on_each_node() {
    let place = Place::new();
    for (line, expected) in [
        ("--ranks 4 cmd", "nodes: 1, ranks per node: 4, cpus: 1"),
        ("--nodes 2 --ranks 8 --cpus-per-rank 2 cmd", "nodes: 2, ranks per node: 4, cpus: 2"),
    ] {
        assert_eq!(place.submit(line).spec.requests[0].to_string(), expected, "{line}");
    }
}

#[test]
fn a_function_may_have_ranks() {
    let place = Place::new();
    for (line, mpi, gathers) in [
        ("--function a:b --ranks 4", Mpi::Warm, false),
        ("--function a:b --ranks 4 --mpi world --gather --launcher mpich", Mpi::World, true),
    ] {
        let spec = place.submit(line).spec;
        let function = spec.body.function().expect("a function");
        assert_eq!((spec.requests[0].ranks, function.mpi, function.gathers), (4, mpi, gathers), "{line}");
    }
    for (line, expected) in [
        (
            "--function a:b --nodes 2",
            "--nodes of a function works only together with --ranks or --ranks-per-node",
        ),
        ("--function a:b --gather", "--gather works only together with --ranks or --ranks-per-node"),
        ("--ranks 2 --mpi world cmd", "--mpi works only together with --function"),
        (
            "--function a:b --ranks 2 --launcher direct",
            "--function cannot be used together with --launcher direct or none, which do not start MPI",
        ),
        (
            "--nodes 2 --ranks 3 cmd",
            "--ranks 3 is the total number of ranks, which cannot be divided evenly among 2 nodes: give a multiple \
             of 2, or --ranks-per-node",
        ),
    ] {
        assert_eq!(place.error(line), expected, "{line}");
    }
}
