"""Calls within calls, without a server: their ids are others than those of the client."""

import random

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
