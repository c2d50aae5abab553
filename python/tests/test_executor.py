"""Values, exceptions and the other ends of calls, against a fake server in this process."""

import concurrent.futures
import math
import pickle
import sys
import threading

import pytest

import fake
from headquarters import _errors as errors
from headquarters import _waiting


def test_a_value_comes_back(make):
    executor, _ = make(automatic=True)
    future = executor.submit(pow, 2, 5)
    assert future.result() == 32
    assert future.exception() is None and future.done() and not future.cancelled()
    assert future.task == "7@0" and future.ref == (7, 0)
    assert executor.submit(int, "ff", base=16).result() == 255


def test_an_exception_is_the_same_here_with_its_traceback_and_notes(make):
    def fails():
        error = KeyError("lost")
        error.__notes__ = ["look under the bed"]
        raise error

    executor, _ = make(automatic=True)
    future = executor.submit(fails)
    with pytest.raises(KeyError) as caught:
        future.result()
    assert caught.value.__notes__ == ["look under the bed"]
    assert "in fails" in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_made_here_says_what_it_was(make):
    class Odd(Exception):
        pass

    def fails():
        raise Odd("very")

    executor, _ = make(automatic=True)
    error = executor.submit(fails).exception()
    assert type(error) is errors.RemoteError and error.type_name.endswith("Odd") and error.text == "very"


@pytest.mark.parametrize(
    ("state", "payload", "kind", "expected"),
    [
        (1, None, "signal", errors.RunnerDied),
        (1, None, "exit", errors.RunnerDied),
        (1, None, "timeout", TimeoutError),
        (1, None, "timeout", errors.TaskTimeout),
        (1, fake.failed("raised", b"", "KeyboardInterrupt", "", "tb"), "timeout", errors.TaskTimeout),
        (1, None, "start", errors.EnvironmentBroken),
        (1, None, "something", errors.RemoteError),
        (1, fake.failed("not-loaded", b"", "", "no module x", ""), "exit", errors.EnvironmentBroken),
        (1, fake.failed("arguments", b"", "", "no module x", ""), "exit", errors.ArgumentsNotPicklable),
        (1, fake.failed("not-picklable", b"", "", "a lock", ""), "exit", errors.ResultNotPicklable),
        (1, fake.failed("too-large", b"", "", "20 KiB > 16 KiB", ""), "exit", errors.ResultTooLarge),
        (0, b"\x80no pickle", "", errors.RemoteError),
        (0, b"E\x01\xff\xffcut off", "", errors.RemoteError),
        (1, b"E\x05", "exit", errors.RemoteError),
        (1, b"P", "", errors.RemoteError),
        (2, None, "", concurrent.futures.CancelledError),
        (3, None, "", errors.JobAborted),
    ],
)
def test_every_end_has_its_exception(make, state, payload, kind, expected):
    executor, calls = make()
    future = executor.submit(abs, -1)
    results = executor.starmap(abs, [(-1,)])
    calls.start(0)
    calls.start(1)
    for task in (0, 1):
        calls.end(task, state, payload, kind, "")
    with pytest.raises(expected):
        future.result(30)
    with pytest.raises(expected):
        results[0]


def test_a_user_can_end_only_the_call(make):
    def leave():
        raise SystemExit(3)

    executor, _ = make(automatic=True)
    assert isinstance(executor.submit(leave).exception(), SystemExit)
    assert executor.submit(abs, -1).result() == 1


def test_arguments_that_cannot_be_sent_are_named(make):
    class Model:
        def __init__(self):
            self.lock = threading.Lock()

    class Holder:
        def __init__(self):
            self.model = Model()

    executor, calls = make(automatic=True)
    error = executor.submit(abs, Holder()).exception()
    assert isinstance(error, errors.ArgumentsNotPicklable) and error.path == "args[0].model.lock"
    error = executor.submit(abs, x={"a": [1, threading.Lock()]}).exception()
    assert error.path == "kwargs['x']['a'][1]"
    lock = threading.Lock()
    error = executor.submit(lambda: lock).exception()
    assert error.path == "function.<lock>"
    error = executor.submit(len, "x" * 1_100_000).exception()
    assert "more than 1048576" in str(error)
    values = executor.map(len, ["a", lock, "ab"])
    assert next(values) == 1
    with pytest.raises(errors.ArgumentsNotPicklable):
        next(values)
    results = executor.starmap(len, [(lock,), ("a",), (lock,), ("abc",), ("ab",)])
    assert results[3] == 3 and results[4] == 2 and results[1] == 1
    assert isinstance(results.exception(2), errors.ArgumentsNotPicklable) and results.done()


def test_futures_anywhere_in_the_arguments_are_their_values(make):
    executor, calls = make()
    a = executor.submit(pow, 2, 3)
    b = executor.submit(sum, [a, {"x": a}["x"], 1])
    c = executor.submit(lambda: b)
    c_waits = [wait for batches in calls.submits for batch in batches for wait in batch[5]]
    calls.is_automatic = True
    d = executor.submit(abs, 1)
    assert d.result() == 1
    calls.run_all()
    assert b.result() == 17 and c.result() == 17
    waits = [wait for batches in calls.submits for batch in batches for wait in batch[5]]
    assert c_waits == waits[: len(c_waits)] and ([(7, 0)] in [refs for _, refs in waits])
    with pytest.raises(TypeError, match="only as an argument"):
        pickle.dumps(a)


def test_a_call_whose_dependency_failed_says_so(make):
    executor, calls = make(automatic=True)
    a = executor.submit(math.sqrt, -1)
    b = executor.submit(abs, a)
    c = executor.submit(abs, b)
    error = b.exception()
    assert isinstance(error, errors.DependencyFailed) and isinstance(error.__cause__, ValueError)
    error = c.exception()
    assert isinstance(error, errors.DependencyFailed) and error.__cause__ is a.exception()
    chain = c
    for _ in range(2000):
        chain = executor.submit(abs, chain)
    error = chain.exception()
    assert error.__cause__ is a.exception() and len(str(error)) < 200


def test_a_call_that_has_returned_one_without_a_value_says_which(make, monkeypatch):
    executor, calls = make()
    future, results = executor.submit(abs, -1), executor.starmap(abs, [(-1,)])
    calls.until_submitted(2)
    monkeypatch.setattr(calls, "info", lambda task: {"error": f"ValueError: no {task}"})
    for task in (0, 1):
        calls.end(task, 3, None, "", "Task 7@1000000005 failed, for which this task waits.")
    error = future.exception(30)
    assert type(error) is errors.DependencyFailed
    assert str(error) == "abs has returned 7@1000000005, which has no value: ValueError: no 1000000005"
    error = results.exception(0)
    assert type(error) is errors.DependencyFailed and "7@1000000005 failed" in str(error)


def test_a_callback_that_wants_to_exit_harms_nothing(make):
    executor, calls = make()
    first, second = executor.submit(abs, -1), executor.submit(abs, -2)
    first.add_done_callback(lambda _: sys.exit(1))
    calls.run_all(2)
    assert (first.result(), second.result()) == (1, 2)
    third = executor.submit(abs, -3)
    calls.run_all(3)
    assert third.result() == 3


def test_an_interpreter_that_exits_without_a_word_has_died(make):
    executor, calls = make()
    future = executor.submit(abs, -1)
    future._session.sent_through(future.task_id)
    calls.end(future.task_id, 1, None, "output", "The interpreter exited with code 0 before the function returned.")
    assert isinstance(future.exception(), errors.RunnerDied)


def test_the_cause_may_come_after_the_abort(make):
    executor, calls = make()
    a = executor.submit(abs, -1)
    b = executor.submit(abs, a)
    c = executor.submit(abs, -3)
    calls.until_submitted(3)
    calls.end(1, 3, None, "", "task 0 failed")
    calls.run(2)
    assert c.result() == 3 and not b.done()
    calls.end(0, 1, None, "signal", "signal 9")
    assert isinstance(b.exception().__cause__, errors.RunnerDied)


def test_ends_come_in_any_order(make):
    executor, calls = make()
    futures = [executor.submit(abs, -i) for i in range(100)]
    calls.until_submitted(100)
    for task in [*range(99, 50, -2), *range(1, 51, 2), *range(98, -1, -2)]:
        calls.run(task)
    assert [future.result(30) for future in futures] == list(range(100))


def test_the_functions_of_the_standard_library_know_them(make):
    executor, calls = make()
    futures = [executor.submit(abs, -i) for i in range(10)]
    called = []
    futures[3].add_done_callback(called.append)
    done, not_done = concurrent.futures.wait(futures, timeout=0)
    assert not done and len(not_done) == 10
    calls.until_submitted(10)
    calls.run(3)
    done, not_done = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
    assert done == {futures[3]}
    calls.run_all()
    assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == list(range(10))
    assert called == [futures[3]]
    assert _waiting.wait(futures).done == set(futures)
    with pytest.raises(concurrent.futures.TimeoutError):
        executor.submit(abs, 1).result(timeout=0)


def test_waiting_for_many(make):
    executor, calls = make(automatic=True)
    futures = [executor.submit(math.sqrt, i) for i in (4, -1, 9)]
    with pytest.raises(ValueError):
        _waiting.gather(futures)
    assert _waiting.gather(futures, errors="skip") == [2.0, 3.0]
    both = _waiting.gather(futures, errors="return")
    assert both[0] == 2.0 and isinstance(both[1], ValueError)
    pairs = dict(_waiting.as_completed([futures[0], futures[2]], with_results=True))
    assert pairs == {futures[0]: 2.0, futures[2]: 3.0}
    assert sum(map(len, _waiting.as_completed(futures, batches=True))) == 3
    calls.is_automatic = False
    with pytest.raises(concurrent.futures.TimeoutError):
        list(_waiting.as_completed([executor.submit(abs, 1)], timeout=0))


def test_what_is_printed_is_kept_and_repeated_here(make, capsys):
    executor, calls = make(echo=True)
    future, quiet = executor.submit(abs, -1), executor.submit(abs, -1)
    calls.until_submitted(2)
    calls.end(0, 0, b"E\x01\x06\x00hello\n\x02\x03\x00oh\n" + pickle.dumps(1))
    calls.run(1)
    assert future.result() == 1 and future.output() == "hello\n" and future.output("stderr") == "oh\n"
    assert quiet.output() == ""
    executor.shutdown()
    assert capsys.readouterr() == ("hello\n", "oh\n")


def test_what_calls_within_a_call_inherit(make, monkeypatch):
    from headquarters._environment import INHERITED, PythonEnv, of_this_call

    executor, calls = make()
    assert calls.templates[0][1] == [] and of_this_call() == (None, {})
    env = PythonEnv("/bin/python", "module load a", env={"ITS": "b"}, sys_path=["/lib"], preload=["json"], fork=False, max_calls=3)
    executor.options(env=env, variables={"MINE": "a"})
    variables = dict(calls.templates[-1][1])
    assert set(variables) == {"ITS", INHERITED, "HQ_PYTHON_RECYCLE"}
    for name, value in {**variables, "MINE": "a"}.items():
        monkeypatch.setenv(name, value)
    same, own = of_this_call()
    assert same is not None and own == {"MINE": "a"}
    assert (same.args, same.env, same.sys_path, same.preload) == (env.args, {"ITS": "b"}, ("/lib",), ("json",))
    assert (same.fork, same.max_calls, same.max_growth) == (False, 3, env.max_growth)
    # So calls within these have interpreters like theirs.
    within = executor.options(env=same, variables=own)
    assert within._template == executor.options(env=env, variables={"MINE": "a"})._template
    monkeypatch.setenv(INHERITED, "of somebody else")
    assert of_this_call() == (None, {})


def test_options_are_words_of_job_files(make):
    executor, calls = make(priority=1)
    view = executor.options(cpus=4, gpus=1, memory="8 GiB", time_limit=90, retry=2, retry_on=["signal", 3], pin=True)
    view.options(variables={"A": "1"}, resources={"fpga": 2}, cwd="x", time_limit="10m")
    import json

    texts = [json.loads(options) for options, _, _ in calls.templates]
    assert texts[0] == {"priority": 1}
    assert texts[1] == {
        "priority": 1, "request": [{"resources": {"cpus": 4, "gpus": 1, "mem": "8 GiB"}}], "time_limit": "90s",
        "retry": 2, "retry_on": "signal,3", "pin": "taskset",
    }  # fmt: skip
    assert texts[2]["env"] == {"A": "1"} and texts[2]["time_limit"] == "10m" and texts[2]["cwd"] == "x"
    executor.options(cpus=4, gpus=1, memory="8 GiB", time_limit=90, retry=2, retry_on=["signal", 3], pin=True)
    assert len(calls.templates) == 3, "equal options are one template"
    with pytest.raises(ValueError, match="no amount"):
        executor.options(cpus="bad")
    with pytest.raises(TypeError, match="no option"):
        executor.options(cpu=4)
