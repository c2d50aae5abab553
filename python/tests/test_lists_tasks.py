"""Lists on workers that are this process: what becomes a call, what is stored, and what fails."""

import gc
import os
import threading

import pytest

import fake
import headquarters as hq
import lists_oracle
from headquarters.lists import DFM, ArgumentChanged, Context, F, _limits
from headquarters.lists._crew import cpus_of


@pytest.fixture
def workers(make):
    """Makes contexts on an executor whose calls are made here."""
    executor, calls = make(automatic=True)
    calls.stores = fake.Objects()

    def workers(procs=3, **options):
        return Context(executor=executor, procs=procs, **options)

    workers.calls, workers.executor = calls, executor
    return workers


@pytest.fixture
def C(workers):
    return workers()


def add(left, right):
    return left + right


def names(calls):
    """What calls were made."""
    return [task[0] for task in calls.tasks.values()]


@pytest.mark.parametrize("inside", [fake.RESULT_MAX, 0])
@pytest.mark.parametrize("seed", range(12))
def test_a_list_is_what_a_plain_list_is(workers, seed, inside, monkeypatch):
    # Half of them with everything in stores.
    monkeypatch.setattr(fake, "RESULT_MAX", inside)
    if not inside:
        monkeypatch.setattr(_limits, "GIVEN_BYTES", 0)
    storage = "disk" if seed % 3 == 2 else "memory"
    lists_oracle.check(workers(1 + seed % 7, storage=storage, eager=seed % 4 == 3), seed)


def test_a_chain_is_one_call_for_each_slice(C, workers):
    count = C.iterates(10).map(F * 2).filter(F > 4).flatMap(lambda n: [n, n]).len()
    assert count == 14
    assert names(workers.calls) == ["map.filter.flatMap.len"] * 3


def test_values_are_joined_by_one_more_call(C, workers):
    total = C.iterates(10).map(F * 2).reduce(add, 0)
    assert total == 90
    assert names(workers.calls) == ["map.reduce"] * 3 + ["map.reduce joined"]


def test_many_values_are_joined_by_a_tree(workers):
    C = workers(65)
    text = C.iterates(1000).map(str).reduce(add, initial="")
    assert text == "".join(map(str, range(1000)))
    assert len(workers.calls.tasks) == 65 + 9 + 2 + 1


def test_what_the_program_knows_needs_no_call(C, workers):
    assert C.iterates(10).len() == 10 and C.iterates(10).collect() == list(range(10)) and C.iterates(10).head(3) == [0, 1, 2]
    assert C.from_list("abc").collect() == [*"abc"]
    assert not workers.calls.tasks


def test_nothing_is_computed_before_it_is_asked_for(C, workers):
    d = C.iterates(10).map(lambda n: 1 / 0)
    assert not workers.calls.tasks and "not computed" in repr(d)
    with pytest.raises(ZeroDivisionError):
        d.len()


def test_eager_lists_are_computed_at_once(workers):
    C = workers(eager=True)
    with pytest.raises(ZeroDivisionError):
        C.iterates(10).map(lambda n: 1 / n)


def test_a_list_that_is_held_is_computed_once(C, workers):
    seen = C.iterates(10).map(lambda n: os.urandom(8))
    text = seen.map(bytes.hex)
    first = text.collect()
    count = len(workers.calls.tasks)
    assert text.collect() == first and len(workers.calls.tasks) == count
    # The middle of the chain was stored, too.
    assert seen.map(bytes.hex).collect() == first == [one.hex() for one in seen.collect()]
    assert "computed" in repr(seen) and "not computed" not in repr(seen)


def test_a_list_that_nobody_holds_is_not_stored(C, workers):
    total = C.iterates(3).map(lambda n: bytes(100_000)).map(len).reduce(add, 0)
    count = C.iterates(3).map(lambda n: bytes(100_000)).len()
    assert (total, count) == (300_000, 3)
    assert not workers.calls.stores.known


def test_functions_mean_what_they_meant_when_they_were_given(C):
    d = C.iterates(3)
    for k in (1, 10, 100):
        d = d.map(lambda n: n + k)
    assert d.collect() == [111, 112, 113]


def test_a_context_within_a_function_is_the_slice(C):
    assert C.iterates(3).map(lambda n: (n, C.rank, C.procs)).collect() == [(0, 0, 3), (1, 1, 3), (2, 2, 3)]
    assert C.iterates(1).map(lambda n: (C.comm.allreduce(n), C.MPI.COMM_WORLD.size)).collect() == [(0, 1)]
    with pytest.raises(AttributeError, match="no iterates: the program makes lists"):
        C.iterates(3).map(lambda n: C.iterates(n)).len()
    with pytest.raises(RuntimeError, match="slices send each other nothing"):
        C.iterates(3).map(lambda n: C.comm.send(n, 1)).len()


def test_another_list_within_a_function_is_its_slice_of_the_same_number(C):
    d = C.iterates(10)
    squares = d.map(lambda n: n * n)
    zipped = d.nodeMap(lambda rank, part: list(zip(part, squares.E)))
    assert zipped.collect() == [(n, n * n) for n in range(10)]
    # Also a list that is made of one that names another, and so on.
    for _ in range(1100):
        before = d
        d = C.iterates(3).map(lambda n: before.E[0] + n)
    # 0, 4 and 7 are the first of the slices.
    assert d.collect() == [0, 4 + 1100, 7 + 2200]
    with pytest.raises(AttributeError, match="has E and C, and no len"):
        C.iterates(3).map(lambda n: squares.len()).len()


@pytest.mark.parametrize(
    ("offered", "cpus"),
    [("range(0-7)", 8), ("range(3-3)", 1), ("sum(4)", 4), ("sum(2.5)", 2), ("[0,1,2]", 3), ("[[0,1],[2,3]]", 4), ("[]", 0), ("", 0)],
)
def test_cpus_of_workers_are_counted(offered, cpus):
    assert cpus_of(offered) == cpus


def test_a_list_with_another_number_of_slices_is_refused(C, workers):
    other = workers(2).iterates(3)
    with pytest.raises(ValueError, match="names a list with 2 slices, and is used on 3"):
        C.iterates(3).map(lambda n: other.E)


def test_a_chain_may_be_long(C, workers):
    d = C.iterates(3)
    for _ in range(3000):
        d = d.map(F + 1)
    assert d.collect() == [3000, 3001, 3002]


def test_elements_of_the_program_are_those_of_slice_0(C):
    d = DFM(C, [1, 2])
    assert d.E == [1, 2] and d.nodeMap(lambda rank, part: [(rank, len(part))]).collect() == [(0, 2), (1, 0), (2, 0)]
    d.E = [3]
    assert d.collect() == [3] and d.len() == 1
    assert isinstance(d, DFM) and d.C is C


def test_slices_are_released_when_nobody_needs_them(C, workers):
    stores = workers.calls.stores

    def until_there_are(count):
        gc.collect()
        stores.until_released(len(stores.known) - count)
        assert len({*stores.known} - {*stores.released}) == count

    d = C.iterates(3).map(lambda n: bytes(20_000))
    assert d.len() == 3
    until_there_are(3)
    e = d.group(lambda element, out: out.update({k: [element] for k in range(3)}), len, 3)
    until_there_are(6)
    assert e.collect() == [3, 3, 3]
    until_there_are(3)
    # What the program gives is needed as long as something may be made of it once more.
    given = C.from_list([bytes(70_000)] * 3).map(len)
    until_there_are(6)
    assert given.collect() == [70_000] * 3
    until_there_are(6)
    del d, e, given
    until_there_are(0)


def test_long_functions_are_released_with_what_is_made_by_them(C, workers):
    stores, large = workers.calls.stores, bytes(100_000)
    total = C.iterates(3).map(lambda n: len(large)).reduce(add, 0)
    assert total == 300_000
    gc.collect()
    stores.until_released(1)
    assert len(stores.known) == 1
    d = C.iterates(3).map(lambda n: len(large))
    assert d.collect() == [100_000] * 3 and len(stores.known) == 2
    gc.collect()
    assert len(stores.released) == 1
    del d
    gc.collect()
    stores.until_released(2)


def test_a_slice_that_is_lost_is_named(C, workers):
    d = C.iterates(3).map(lambda n: bytes(20_000))
    d.len()
    workers.calls.stores.drop([(7, 1, "value")])
    with pytest.raises(hq.ObjectLost, match=r"the value of 7@1 \(20\d+ bytes\) cannot be had: it was dropped"):
        d.collect()


def test_a_list_that_was_submitted_is_computed_while_the_program_goes_on(make):
    executor, calls = make()
    C = Context(executor=executor, procs=2)
    lists = [C.iterates(4).map(F + k) for k in (10, 20)]
    futures = [one.submit() for one in lists]
    calls.until_submitted(4)
    assert not any(future.done() for future in futures) and not futures[0].cancel()
    # What is made of one of them is submitted behind it.
    more = lists[1].map(F * 2).submit()
    calls.until_submitted(6)
    calls.run_all()
    assert [future.result(30) for future in futures] == lists and more.result(30).collect() == [40, 42, 44, 46]
    assert lists[0].submit().result(30) is lists[0] and len(calls.tasks) == 6


def test_a_list_that_was_submitted_and_fails_says_so_and_is_tried_again(C, tmp_path):
    failed = tmp_path / "failed"

    def fails(n):
        if n == 1 and not failed.exists():
            failed.touch()
            raise LookupError("no 1")
        return n

    d = C.iterates(3).map(fails)
    with pytest.raises(LookupError, match="no 1") as raised:
        d.submit().result(30)
    assert str(raised.value.__cause__).count("on slice 1 of 3 (task 7@1):\n") == 1
    assert d.submit().result(30).collect() == [0, 1, 2]


def test_a_list_of_one_process_is_there_when_it_is_submitted():
    d = Context("serial").iterates(3)
    assert d.submit().result(0) is d


def test_what_fails_says_in_which_slice(C, workers):
    def fails(n):
        if n >= 4:
            raise LookupError(f"no {n}")
        return n

    with pytest.raises(LookupError, match="no 4") as raised:
        C.iterates(9).map(fails).reduce(add, 0)
    cause = str(raised.value.__cause__)
    assert "on slice 1 of 3 (task 7@1):\n" in cause and "in fails\n" in cause
    with pytest.raises(LookupError, match="joining") as raised:
        C.iterates(9).reduce(lambda left, right: left + right if right < 10 else fail("joining"), 10)
    assert "on joining slices (task" in str(raised.value.__cause__)
    with pytest.raises(LookupError, match="joining"):
        C.iterates(9).scan(lambda left, right: left + right if right != 12 else fail("joining")).collect()


def fail(text):
    raise LookupError(text)


@pytest.mark.parametrize(
    ("do", "kind", "text"),
    [
        (lambda C: C.iterates(3).map(3), TypeError, "map takes a function, not 3"),
        (lambda C: C.iterates(3).flatMap(str).len(), TypeError, "has to return a list, not a str"),
        (lambda C: C.iterates(3).nodeMap(lambda rank, part: None).len(), TypeError, "not a NoneType"),
        (lambda C: C.iterates(3).reduce(add), TypeError, "either x0"),
        (lambda C: C.iterates(3).scan(add, exclusive=True), TypeError, "takes initial="),
        (lambda C: C.iterates(3).collect(3), ValueError, "there is no rank 3, only 0 … 2"),
        (lambda C: C.iterates(3).head(-1), ValueError, "n is -1"),
        (lambda C: C.iterates(3).group(add, list, -1), ValueError, "N is -1"),
        (lambda C: C.iterates(3).group(add, list, 3, order="any"), ValueError, "'rank' or 'element', not 'any'"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update({3: [n]}), list, 3), ValueError, "key 3 is not among 0 … 2"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update({0: [n]}), list, 0), ValueError, "key 0, and N is 0"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update(a=[n]), list, 3), TypeError, "not 'a'"),
        (lambda C: C.iterates(3).repartition(lambda n: -1, print, list, 2), ValueError, "what llen returns is -1"),
        (lambda C: C.iterates(3).repartition(lambda n: 1, lambda n, r: [n], list, 0), ValueError, "3 records have no place"),
        (lambda C: C.iterates(2).repartition(lambda n: 3, lambda n, r: [n], list, 3), ValueError, "gave 1 blocks for 2 ranges"),
        (lambda C: C.iterates(3).store("tape"), ValueError, "'memory' or 'disk', not 'tape'"),
        (lambda C: C.read_lines("/no-such-file"), FileNotFoundError, "no-such-file"),
        (lambda C: C.iterates(3).map(lambda n: threading.Lock()).collect(), TypeError, "what has to leave its slice cannot be pickled"),
        (lambda C: C.iterates(3).reduce(add, threading.Lock()), TypeError, "the beginning of reduce: function[0] cannot be sent"),
        (lambda C: C.from_list([threading.Lock()]), TypeError, "what has to leave its slice cannot be pickled"),
        (lambda C: DFM(C, [C]), TypeError, "a Context belongs to its process"),
        (lambda C: DFM(C, [C.iterates(3)]), TypeError, "a DFM belongs to its rank"),
        (lambda C: C.comm.send(1, dest=0), RuntimeError, "no messages between ranks here"),
        (lambda C: C.MPI.INT, AttributeError, "the back end 'tasks' has no MPI.INT"),
        (lambda C: C.sub([3]), ValueError, "different ranks of 0 … 2"),
        (lambda C: Context(executor=C._crew.executor, procs=0), ValueError, "1 … 4096, not 0"),
        (lambda C: Context(executor=C._crew.executor, procs=1.5), TypeError, "procs is a whole number"),
    ],
)
def test_bad_input_is_refused_and_named(C, do, kind, text):
    with pytest.raises(kind) as raised:
        do(C)
    assert text in str(raised.value)


def test_a_function_that_cannot_be_sent_is_named(C, workers):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="the function of map: function.<lock> cannot be sent"):
        C.iterates(3).map(lambda n: lock)
    future = workers.executor.submit(abs, -1)
    with pytest.raises(TypeError, match="a Future cannot go with a function of a list"):
        C.iterates(3).map(lambda n: future)


def test_functions_may_refer_to_large_values(C):
    large = bytes(1_000_000)
    assert C.iterates(3).map(lambda n: len(large)).reduce(add, 0) == 3_000_000


def test_debug_finds_arguments_that_were_changed(workers):
    def sort_in_place(values):
        values.sort()
        return values

    with pytest.raises(ArgumentChanged, match="has changed its argument"):
        workers(debug=True).from_list([[3, 1], [2, 0]]).map(sort_in_place).collect()


def test_an_executor_that_is_shut_down_says_so(C, workers):
    d = C.iterates(3).map(F + 1)
    workers.executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        d.collect()


def test_a_shutdown_while_slices_wait_ends_them(make):
    executor, calls = make()
    C = Context(executor=executor, procs=3)
    raised = []

    def collect():
        try:
            C.iterates(3).map(F + 1).collect()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    calls.until_submitted(3)
    executor.shutdown(wait=False, cancel_futures=True)
    thread.join(60)
    assert isinstance(raised[0], hq.HqError | __import__("concurrent.futures").futures.CancelledError), raised


def test_calls_that_wait_are_canceled_when_one_fails(make):
    executor, calls = make()
    C = Context(executor=executor, procs=3)
    raised = []

    def collect():
        try:
            C.iterates(3).map(lambda n: 1 // n).collect()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    calls.until_submitted(3)
    calls.run(0)
    thread.join(60)
    assert isinstance(raised[0], ZeroDivisionError)
    assert [calls.ended[task][1] for task in (1, 2)] == [2, 2]


@pytest.fixture(autouse=True)
def values_of_calls():
    yield
    fake.ALL_VALUES.clear()
