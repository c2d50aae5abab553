"""Arrays of calls: order, memory, chunks, cancelling."""

import concurrent.futures
import itertools
import math

import pytest


def test_values_come_in_order(make):
    executor, calls = make(automatic=True)
    assert list(executor.map(pow, [1, 2, 3], itertools.count(2))) == [1, 8, 81]
    assert list(executor.map(abs, range(5000), chunksize=7)) == list(range(5000))
    assert {len(batch[4]) for batches in calls.submits[1:] for batch in batches} <= {7, 5000 % 7}
    assert list(executor.map(abs, [])) == []


def test_everything_is_submitted_before_the_first_value_is_asked_for(make):
    executor, calls = make()
    values = executor.map(abs, [-1, -2, -3])
    calls.until_submitted(3)
    for task in (2, 1, 0):
        calls.run(task)
    assert list(values) == [1, 2, 3]


@pytest.mark.parametrize("buffersize", [1, 2, 3, 10, 1000])
def test_a_buffer_bounds_what_is_taken(make, buffersize):
    executor, calls = make(automatic=True)
    taken = 0

    def numbers():
        nonlocal taken
        for taken in range(1, 301):
            yield -taken

    values = executor.map(abs, numbers(), buffersize=buffersize)
    assert taken == min(buffersize, 300)
    for given, value in enumerate(values):
        assert value == given + 1 and taken - given <= buffersize + 1
    assert given == 299


def test_the_first_failure_ends_a_map_and_cancels_the_rest(make):
    executor, calls = make()
    values = executor.map(math.sqrt, [4, -1, 9, 16])
    calls.until_submitted(4)
    calls.run(0)
    calls.run(1)
    assert next(values) == 2.0
    with pytest.raises(ValueError):
        next(values)
    assert calls.orders == [([(2, 3)], True)]


def test_a_map_has_a_time_limit(make):
    executor, calls = make()
    values = executor.map(abs, [1], timeout=0)
    with pytest.raises(concurrent.futures.TimeoutError):
        next(values)
    assert calls.orders == [([(0, 0)], True)]


def test_an_array_has_the_values_by_place(make):
    executor, calls = make()
    results = executor.starmap(math.sqrt, ((i * i,) for i in range(5000)))
    assert len(results) == 5000 and results.done_count == 0 and results.states[4999] == "pending"
    calls.until_submitted(5000)
    calls.run(4999)
    assert results[-1] == 4999 and not results.done() and results.task(4999) == "7@4999"
    with pytest.raises(concurrent.futures.TimeoutError):
        results.wait(timeout=0)
    assert results[4990:4998].cancel() == 8
    calls.run_all()
    results.wait()
    assert results.done() and list(results[10:13]) == [10, 11, 12]
    assert results[4980:].states == ["finished"] * 10 + ["canceled"] * 8 + ["finished"] * 2
    with pytest.raises(concurrent.futures.CancelledError):
        results[4990]
    with pytest.raises(IndexError):
        results[5000]


def test_futures_are_arguments_of_arrays(make):
    executor, calls = make(automatic=True)
    a = executor.submit(abs, -4)
    bad = executor.submit(math.sqrt, -1)
    results = executor.starmap(abs, [(a,), (bad,), (-1,)])
    assert results[0] == 4 and results[2] == 1
    assert isinstance(results.exception(1).__cause__, ValueError)


def test_rows_that_raise_raise(make):
    executor, _ = make(automatic=True)

    def numbers():
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError):
        executor.map(abs, numbers())
    with pytest.raises(OSError):
        executor.starmap(abs, ((n,) for n in numbers()))
