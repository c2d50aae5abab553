"""Calls within calls, without a server: their ids are others than those of the client."""

import random
import sys
import types

import pytest

import fake
from headquarters import _errors as errors
from headquarters import _limits as limits


@pytest.fixture
def guest(make):
    return lambda calls: make(calls=calls, automatic=True, job=7)


def test_ids_that_are_taken_are_not_used(guest, monkeypatch):
    calls = fake.Calls(job=7)
    choices = iter([limits.GUESTS_FROM, limits.GUESTS_FROM + 5000])
    monkeypatch.setattr(random, "randrange", lambda *range: next(choices))
    taken = limits.GUESTS_FROM
    calls.tasks[taken] = None
    executor, _ = guest(calls)
    future = executor.submit(abs, -3)
    assert future.result(60) == 3 and future.task_id == limits.GUESTS_FROM + 5000
    assert executor.submit(abs, -4).task_id == future.task_id + 1


def test_arrays_and_names(guest):
    executor, calls = guest(fake.Calls(job=7))
    results = executor.starmap(pow, [(2, i) for i in range(5000)])
    assert list(results)[:4] == [1, 2, 4, 8] and results[-1] == 2**4999
    assert list(executor.map(abs, range(-3, 0))) == [3, 2, 1]
    assert executor.submit_named("one", abs, -1) is executor.submit_named("one", abs, -1)
    assert executor.submit_named("one", abs, -1).result(60) == 1
    assert min(task for task in calls.tasks if task != executor.submit_named("one", abs, -1).task_id) >= limits.GUESTS_FROM


def test_only_its_own_ends_are_asked_for(guest):
    executor, calls = guest(fake.Calls(job=7))
    session = executor._session
    assert session._all_others() == [(0, limits.TASK_MAX)]
    future = executor.submit(abs, -1)
    future.result(60)
    session._pending[10] = session._pending[11] = session._pending[limits.TASK_MAX] = future
    assert session._all_others() == [(0, 9), (12, limits.TASK_MAX - 1)]
    session._pending.clear()


def test_what_is_refused_fails(guest):
    executor, calls = guest(fake.Calls(job=7))

    def refuse(batches):
        raise fake.NativeError("job-not-open", "job 7 is closed")

    calls.on_submit = refuse
    assert isinstance(executor.submit(abs, -1).exception(60), errors.JobAborted)
    assert isinstance(executor.starmap(abs, [(1,)]).exception(0), errors.JobAborted)
    calls.on_submit = None


def test_a_program_that_comes_back_listens_also_while_it_has_no_calls(guest):
    calls = fake.Calls(job=7)
    executor, _ = guest(calls)
    calls.until_it_listens(-1)
    wakes = calls.wakes
    assert executor.submit(abs, -3).result(60) == 3
    calls.until_it_listens(wakes)


def test_what_is_said_of_a_job_is_of_a_new_one(guest, make):
    with pytest.raises(ValueError, match="on_stall is '/bin/true': it belongs to a new job"):
        make(calls=fake.Calls(job=7), job=7, on_stall="/bin/true")


@pytest.fixture
def moment():
    """Nothing leaves by itself, and nothing is heard by itself."""
    return 600


@pytest.fixture
def in_call(guest, monkeypatch, moment):
    """A guest in a call, what it has sent, and what ends the call."""
    module = types.ModuleType("_hq_runner")
    module.at_end, module.waits, module.goes_on = [], lambda: False, lambda: None
    module.ref, module.lazy = sys.modules["_hq_runner"].ref, sys.modules["_hq_runner"].lazy
    monkeypatch.setitem(sys.modules, "_hq_runner", module)
    monkeypatch.setattr(limits, "GATHER_S", moment)
    monkeypatch.setattr(limits, "UNHEARD_S", moment)
    calls = fake.Calls(job=7)
    sent = []
    submit = calls.submit

    def note(batches):
        sent.append([(batch[3], len(batch[4])) for batch in batches])
        return submit(batches)

    calls.submit = note
    executor, _ = guest(calls)
    executor._session.is_within = True
    return executor, sent, lambda: [end() for end in module.at_end]


def test_what_a_call_submits_leaves_together_when_it_ends(in_call):
    executor, sent, end = in_call
    first = executor.submit(abs, -1).task_id
    assert sent == [[(first, 1)]] and first % limits.GUEST_ROW == 0, "a row is claimed at once"
    futures = [executor.submit(abs, -n) for n in range(3)]
    total = executor.submit(sum, futures)
    assert len(sent) == 1
    end()
    assert sent[1:] == [[(first + 1, 3), (first + 4, 1)]]
    assert total.result(60) == 3
    end()
    assert len(sent) == 2


def test_what_a_call_waits_for_leaves_at_once_and_is_heard(in_call):
    executor, sent, _ = in_call
    executor.submit(abs, -1)
    assert executor.submit(abs, -2).result(60) == 2
    assert [len(batches) for batches in sent] == [1, 1]
    polled = executor.submit(abs, -3)
    while not polled.done():
        pass
    assert polled.result() == 3
    assert list(executor.map(abs, [-4, -5])) == [4, 5]


def test_a_call_that_is_returned_is_with_the_server(in_call):
    executor, sent, _ = in_call
    executor.submit(abs, -1)
    future = executor.submit(abs, -2)
    assert future._hq_returned() == (7, future.task_id)
    assert [len(batches) for batches in sent] == [1, 1]


def test_a_call_that_is_refused_is_not_returned(in_call):
    executor, _, end = in_call
    executor.submit(abs, -1)

    def refuse(batches):
        raise fake.NativeError("job-not-open", "job 7 is closed")

    executor._session._calls.submit = refuse
    future = executor.submit(abs, -2)
    with pytest.raises(errors.JobAborted):
        future._hq_returned()
    end()
    assert isinstance(future.exception(60), errors.JobAborted)
    assert isinstance(executor.submit(abs, -2).exception(60), errors.JobAborted)


def test_a_row_that_is_used_up_is_followed_by_another_one(in_call, monkeypatch):
    executor, sent, end = in_call
    monkeypatch.setattr(limits, "GUEST_ROW", 10)
    futures = [executor.submit(abs, -n) for n in range(25)]
    end()
    assert [future.result(60) for future in futures] == list(range(25))
    rows = [first for batches in sent for first, count in batches if count == 1]
    assert len(sent) == 6 and len({future.task_id for future in futures}) == 25
    assert all(first % 10 == 0 for first in rows)


@pytest.mark.parametrize("moment", [1e-3])
def test_what_a_call_submits_leaves_while_it_does_something_else(in_call):
    executor, sent, _ = in_call
    futures = [executor.submit(abs, -n) for n in range(3)]
    # Nobody waits for them, as far as they know.
    while any(future._state == "PENDING" for future in futures):
        pass
    assert sum(count for batches in sent for _, count in batches) == 3
