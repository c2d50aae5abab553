"""Refs and Futures in what calls return, without a server: what arrives, and how long its value stays."""

import gc

import pytest

import fake
import headquarters as hq
from headquarters import _errors as errors
from headquarters._stores import Named


# What calls are within.
_within = {}


def current():
    return _within["executor"]


def put(value):
    return current().put(value)


def table():
    return {"table": put([1, 2, 3]), "rows": 3}


def large():
    return [b"y" * 100_000, put(7)]


def calls_of_this_call():
    return [current().submit(pow, 2, 5), current().submit(int, "x")]


def of_another():
    return _within["other"].submit(abs, -1)


def handle():
    return hq.lazy(put(1))


@pytest.fixture
def store():
    made = fake.Objects()
    yield made
    made.remove()


@pytest.fixture
def session(make, store):
    """An executor whose calls are made here, as if they were within a call of its job."""
    calls = fake.Calls()
    calls.stores = store
    executor, calls = make(automatic=True, calls=calls)
    executor._session.is_within = True
    _within["executor"] = executor
    yield executor, calls
    _within.clear()


def released(store, count):
    """Waits until so many values were released, and gives them."""
    gc.collect()
    with store.changed:
        assert store.changed.wait_for(lambda: len(store.released) >= count, 30)
    return [Named(*one) for one in store.released]


def test_a_ref_arrives_as_a_ref(session, store):
    executor, _ = session
    future = executor.submit(table)
    value = future.result(60)
    assert isinstance(value["table"], hq.Ref) and value["rows"] == 3
    assert value["table"].get() == [1, 2, 3]
    assert future.result() is value and store.released == []
    named = value["table"]._value.named
    del value, future
    assert released(store, 1) == [named]


def test_its_value_stays_as_long_as_a_future_that_nobody_has_looked_into(session, store):
    executor, _ = session
    future = executor.submit(put, b"x" * 100)
    assert future.exception(60) is None and store.released == []
    ref = future.result()
    del future
    gc.collect()
    assert store.released == [] and ref.get() == b"x" * 100
    del ref
    assert len(released(store, 1)) == 1


def test_in_a_value_that_stays_in_a_store(session, store):
    executor, _ = session
    future = executor.submit(large)
    assert future.exception(60) is None
    gc.collect()
    assert store.released == []
    ref = future.result()[1]
    assert ref.get() == 7
    outer = future._value.named
    inner = ref._value.named
    del future
    assert released(store, 1) == [outer]
    del ref
    assert released(store, 2) == [outer, inner]


def test_in_arrays_of_results(session, store):
    executor, _ = session
    results = executor.starmap(put, [(1,), (2,)])
    assert [ref.get() for ref in results] == [1, 2]
    gc.collect()
    assert store.released == []
    assert [ref.get() for ref in executor.map(put, [3, 4])] == [3, 4]


def test_a_future_arrives_as_a_future(session):
    executor, calls = session
    future = executor.submit(calls_of_this_call)
    power, wrong = future.result(60)
    calls.run_all()
    assert power.result(60) == 32
    assert isinstance(wrong.exception(60), ValueError)
    assert executor.submit(max, power, 3).result(60) == 32


def test_what_is_of_another_executor_does_not_travel(session, make):
    executor, _ = session
    _within["other"], _ = make(automatic=True)
    future = executor.submit(of_another)
    error = future.exception(60)
    assert isinstance(error, errors.ResultNotPicklable) and "return its value instead" in str(error)
    error = executor.submit(handle).exception(60)
    assert isinstance(error, errors.ResultNotPicklable) and "return the Ref or the Future itself" in str(error)


def test_it_is_nothing_to_who_does_not_know_its_executor():
    from headquarters import _returned

    with pytest.raises(LookupError, match="known to the executor of job 7 only"):
        _returned.arrived(True, 7, 1, 10, b"", "f")
