"""What ranks of an MPI program do with lists, run by test_lists_mpi.py: `lists_ranks.py all SEEDS`, or the name of one function.

Each function that begins with `rank` is run by all ranks one after the other; its name is printed when it has come to its end.
"""

import sys
import threading
from functools import reduce
from pathlib import Path

import numpy as np

import lists_oracle
from headquarters import RemoteError
from headquarters.lists import DFM, Context, RanksDiffer, _limits


def raises(kind, text, do):
    try:
        do()
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def add(left, right):
    return left + right


def fails_on(rank, C):
    def f(value):
        if C.rank == rank:
            raise KeyError(f"rank {rank}")
        return value

    return f


def ranks_hold_what_plain_lists_hold(C, seeds):
    whole = _limits.MESSAGE_BYTES_MAX, _limits.APART_BYTES
    for seed in range(seeds):
        # Half of them with messages that are far too short for what travels.
        _limits.MESSAGE_BYTES_MAX, _limits.APART_BYTES = (64, 100) if seed % 2 else whole
        lists_oracle.check(C, seed)
    _limits.MESSAGE_BYTES_MAX, _limits.APART_BYTES = whole


def ranks_all_raise_what_one_has_raised(C, _):
    last = C.procs - 1
    d = C.iterates(4 * C.procs)
    failed = d.map(fails_on(last, C))
    error = raises(KeyError, f"rank {last}", d.len)
    cause = str(error.__cause__)
    assert C.rank == last or (f"on rank {last}" in cause and "in f\n" in cause), cause
    # It was raised once. What is made of the failed list goes on failing.
    assert d.len() == 4 * C.procs
    for again in (failed, failed.map(str), failed.store("disk"), failed.filter(bool).flatMap(lambda value: [value])):
        raises(KeyError, f"rank {last}", again.len)
    if C.rank == last:
        raises(KeyError, f"rank {last}", lambda: failed.E)
    else:
        assert len(failed.E) == 4
    failed.E = [1]
    assert failed.len() == C.procs


def ranks_all_raise_what_fails_within_a_collective(C, _):
    last = C.procs - 1
    d = C.iterates(2 * C.procs)
    fails = fails_on(last, C)
    split = lambda element, ranges: [element] * len(ranges)  # noqa: E731
    for within in (
        lambda: d.reduce(lambda left, right: fails(left) + right, 0),
        lambda: d.scan(lambda left, right: fails(left) + right).len(),
        lambda: d.group(lambda element, out: fails(element), list, 3).len(),
        lambda: d.group(lambda element, out: out.update({C.rank: [element]}), fails, C.procs).len(),
        lambda: d.repartition(lambda element: fails(1), split, list, 3).len(),
        lambda: d.repartition(lambda element: 1, lambda element, ranges: fails([element]), list, 3).len(),
        lambda: d.repartition(lambda element: 1, split, fails, C.procs).len(),
        lambda: d.flatMap(lambda element: fails([element])).head(),
        lambda: d.nodeMap(lambda rank, part: fails(part)).collect(),
        lambda: d.filter(fails).collect(root=None),
    ):
        raises(KeyError, f"rank {last}", within)
        assert d.len() == 2 * C.procs


def ranks_all_raise_what_fails_between_them(C, _):
    # Values of two ranks meet, which no rank can join.
    def f(left, right):
        if left[0] != right[0]:
            raise ArithmeticError(f"{left[0]} and {right[0]}")
        return left

    d = DFM(C, [(C.rank, 1)] * 3)
    for distribute in (True, False):
        raises(ArithmeticError, "0 and 1", lambda: d.reduce(f, (C.rank, 0), distribute))
    raises(ArithmeticError, " and ", d.scan(f).len)
    assert d.len() == 3 * C.procs


def ranks_raise_what_cannot_be_sent_in_other_words(C, _):
    class Odd(Exception):
        """Of a function, so no other process can make it."""

    def odd(value):
        if C.rank == 0:
            raise Odd("odd")
        return value

    kind = Odd if C.rank == 0 else RemoteError
    raises(kind, "odd", C.iterates(2 * C.procs).map(odd).len)


def ranks_say_that_an_element_cannot_be_sent(C, _):
    d = DFM(C, [threading.Lock()] if C.rank == C.procs - 1 else [])
    for action in (d.collect, lambda: d.collect(root=None), d.head):
        raises(TypeError, "cannot be pickled", action)
    # What stays on its rank needs no pickle.
    assert d.map(id).len() == d.group(lambda lock, out: None, list, 3, keep_empty=True).len() - 2 == 1
    raises(TypeError, "cannot be pickled", lambda: d.group(lambda lock, out: out.update({0: [lock]}), list, C.procs).len())
    raises(TypeError, "cannot be copied", lambda: d.reduce(lambda left, right: right, initial=threading.Lock()))
    raises(TypeError, "cannot be pickled", lambda: d.reduce(lambda left, right: right, 0))
    raises(TypeError, "cannot be pickled", DFM(C, [threading.Lock()]).scan(lambda left, right: right).len)
    assert d.len() == 1


class Trap:
    """Can be sent, and not be loaded."""

    def __reduce__(self):
        return int, ("trap",)


def ranks_all_raise_what_cannot_be_loaded(C, _):
    # On the last rank, so that the others come to receive it; large, so that it is on its way until then.
    trap = [Trap(), bytes(1_000_000)]
    d = DFM(C, [trap] if C.rank == C.procs - 1 else [[bytes(1_000_000)]])

    def to_all(element, out):
        out.update({number: [element] for number in range(C.procs)})

    for action in (
        d.collect,
        lambda: d.collect(root=None),
        d.head,
        lambda: d.reduce(lambda left, right: right, 0),
        lambda: DFM(C, [trap]).scan(lambda left, right: trap).len(),
        lambda: d.group(to_all, list, C.procs).len(),
    ):
        raises(ValueError, "trap", action)
    assert d.len() == C.procs


def ranks_that_call_something_else_are_named(C, _):
    d = C.iterates(9)
    nothing = C.iterates(0)
    for others, ours, text in (
        (d.len, d.head, "rank 0 at collective"),
        (d.collect, lambda: d.collect(root=1), "collect(root=1)"),
        (d.collect, lambda: d.collect(root=None), "collect(root=None)"),
        (lambda: d.head(3), lambda: d.head(4), "head(4)"),
        (lambda: d.reduce(add, 0), lambda: d.reduce(add, 0, False), "distribute=False"),
        (lambda: d.reduce(add, 0), lambda: d.reduce(add, initial=0), "reduce(initial"),
        (lambda: d.scan(add), lambda: d.scan(add, initial=0), "initial"),
        (lambda: nothing.group(print, list, 2), lambda: nothing.group(print, list, 3), "N=3"),
        (lambda: nothing.repartition(len, print, list, 2), lambda: nothing.repartition(len, print, list, 3), "N=3"),
        (lambda: C.from_list("abc"), lambda: C.from_list("ab"), "from_list of 2"),
        (lambda: C.sub([0]), lambda: C.sub([1]), "sub([1])"),
        (d.len, lambda: C.read_lines(__file__), "read_lines of"),
    ):
        raises(RanksDiffer, text, ours if C.rank == 0 else others)
    # One that only some ranks call is seen at the next one, and the ranks are together again.
    if C.rank == 0:
        raises(RanksDiffer, "rank 0 at collective", d.len)
    else:
        raises(RanksDiffer, "head(10)", d.head)
    assert d.len() == 9


def ranks_give_the_list_to_everybody(C, _):
    # mpi_list 0.4.0 gives None to all with root=None.
    assert C.iterates(7).collect(root=None) == list(range(7))


def ranks_reduce_arrays_of_any_shape(C, _):
    # mpi_list loses their shapes, wants as many elements as ranks, and cuts off longer ones.
    for n in (0, 1, C.procs - 1, 2 * C.procs + 1):
        arrays = C.iterates(n).map(lambda i: np.full((2, 3), i + 1))
        total = np.full((2, 3), n * (n + 1) // 2)
        assert np.array_equal(arrays.reduce(add, np.zeros((2, 3), int)), total)
        assert np.array_equal(arrays.reduce(add, 0), total if n else 0)
        ragged = C.iterates(n).map(lambda i: np.arange(i + 1))
        joined = ragged.reduce(lambda left, right: np.concatenate([left, right]), initial=np.zeros(0, int))
        assert np.array_equal(joined, reduce(lambda left, i: [*left, *range(i + 1)], range(n), []))
        joined[:] = 0


def ranks_send_arrays_as_they_are(C, _):
    arrays = C.iterates(2 * C.procs).map(lambda i: np.asfortranarray(np.full((100, 200), i)))
    for number, array in enumerate(arrays.collect(root=None)):
        assert array.shape == (100, 200) and array.flags.f_contiguous and (array == number).all()
        array += 1


def ranks_refuse_keys_that_are_none(C, _):
    d = C.iterates(2 * C.procs)
    last = C.procs - 1
    for key, n, kind in ((3, 3, ValueError), (-1, 3, ValueError), (0, 0, ValueError), ("a", 3, TypeError), (1.0, 3, TypeError)):

        def sort_out(element, out, key=key):
            if C.rank == last:
                out[key] = [element]

        for order in ("rank", "element"):
            raises(kind, repr(key), lambda: d.group(sort_out, list, n, order=order))
    raises(TypeError, "a list of parts", lambda: d.group(lambda element, out: out.update({0: "ab"}), list, 3))
    assert d.group(lambda element, out: out.update({np.int64(1): (element,)}), list, 3).len() == 1


def ranks_take_no_elements_at_all(C, _):
    nothing = C.iterates(0)
    assert (nothing.len(), nothing.head(), nothing.collect(root=None)) == (0, [], [])
    assert nothing.reduce(add, 100) == 100 * C.procs and nothing.reduce(add, initial=100) == 100
    assert nothing.scan(add).len() == nothing.scan(add, exclusive=True, initial=1).len() == 0
    assert nothing.group(lambda element, out: 1 / 0, list, 0).len() == 0
    assert nothing.group(lambda element, out: 1 / 0, list, 5, keep_empty=True).collect(root=None) == [[]] * 5
    assert nothing.repartition(len, lambda element, ranges: 1 / 0, list, 0).len() == 0
    assert nothing.repartition(len, lambda element, ranges: 1 / 0, list, 5, keep_empty=True).len() == 5
    raises(ValueError, "0 elements", lambda: C.iterates(3).repartition(lambda element: 1, lambda *_: [0], list, 0))


def ranks_cut_into_more_pieces_than_tags_of_mpi(C, _):
    # mpi_list has a tag of its own for each, of which there are 32 767.
    n = 40_000
    one = DFM(C, [range(n)] if C.rank == C.procs - 1 else [])
    cut = one.repartition(len, lambda element, ranges: [element[start:end] for start, end in ranges], lambda b: b[0][0], n)
    assert cut.reduce(add, initial=0) == n * (n - 1) // 2 and cut.head(3) == [0, 1, 2]


def ranks_begin_with_their_x0(C, _):
    assert C.iterates(4).reduce(add, 100) == 6 + 100 * C.procs


def ranks_keep_their_own_messages(C, _):
    # Those of the program are on another communicator.
    if C.rank < 2:
        requests = [C.comm.isend("theirs", dest=1 - C.rank, tag=1)]
    assert C.iterates(5).collect(root=None) == [0, 1, 2, 3, 4]
    if C.rank < 2:
        assert C.comm.recv(source=1 - C.rank, tag=1) == "theirs"
        requests[0].wait()


def ranks_share_what_has_failed_between_contexts(C, _):
    C.iterates(C.procs).map(fails_on(0, C))
    raises(KeyError, "rank 0", Context().iterates(1).len)


def ranks_read_what_is_there(C, _):
    raises(FileNotFoundError, "no-such", lambda: C.read_lines("/no-such-file"))
    assert C.read_lines(__file__).collect(root=None) == Path(__file__).read_text().splitlines()
    assert C.iterates(1).len() == 1


def alone(C, seeds):
    assert C.procs == 1 and C.backend == "mpi"
    ranks_hold_what_plain_lists_hold(C, seeds)
    # Nothing has to go anywhere.
    assert len(DFM(C, [threading.Lock()]).collect(root=None)) == 1
    raises(KeyError, "rank 0", lambda: C.iterates(1).map(fails_on(0, C)))


# How ranks may end: each is a program of its own.


def end_well(C, _):
    C.iterates(3).len()


def end_early(C, _):
    if C.rank == 1:
        sys.exit(0)
    C.iterates(3).len()


def end_early_while_others_are_in_a_sub(C, _):
    S = C.sub([2, 1])
    if C.rank == 1:
        sys.exit(0)
    (S or C).iterates(3).len()


def end_with_an_exception(C, _):
    if C.rank == 1:
        raise LookupError("not found")
    C.iterates(3).len()


def end_within_a_collective(C, _):
    def f(left, right):
        if left > 0:
            sys.exit(3)
        return left + right

    DFM(C, [C.rank + 1] if C.rank < 2 else []).reduce(f, 0)


def end_with_a_failure_that_nothing_follows(C, _):
    C.iterates(3).map(fails_on(1, C))


def end_without_memory(C, _):
    d = DFM(C, [bytes(400_000_000)] if C.rank == 1 else [])
    if C.rank == 0:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, used + 200_000_000))
    d.collect()


if __name__ == "__main__":
    case, seeds = sys.argv[1:]
    context = Context("mpi")
    if case != "all":
        globals()[case](context, int(seeds))
        sys.exit(0)
    for name, run in list(globals().items()):
        if name.startswith("ranks_"):
            run(context, int(seeds))
            context.comm.Barrier()
            if context.rank == 0:
                print(name, flush=True)
