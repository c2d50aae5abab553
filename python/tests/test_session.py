"""Cancelling, shutting down, losing the server, forking, keys, and who sends when, against a fake server."""

import concurrent.futures
import logging
import os
import sys
import re
import threading

import pytest

import fake
from headquarters import _errors as errors
from headquarters import _limits as limits


def test_cancel_tells_the_truth(make):
    executor, calls = make()
    futures = [executor.submit(abs, -i) for i in range(3)]
    calls.start(1)
    assert calls.submits, "what a worker has was sent"
    assert futures[0].cancel() and futures[0].cancelled() and futures[0].cancel()
    assert not futures[1].cancel() and futures[1].running() and not futures[2].running()
    calls.end(1, 0, b"\x80\x04K\x01.")
    assert futures[1].result() == 1 and not futures[1].cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        futures[0].result()
    assert calls.orders[:2] == [([(0, 0)], True), ([(1, 1)], True)]
    assert futures[2].explain() == "task 2 waits for the test" and futures[2].worker == 1
    futures[2].kill()
    with pytest.raises(concurrent.futures.CancelledError):
        futures[2].result(30)


def test_cancel_wakes_those_who_wait(make):
    executor, calls = make()
    future = executor.submit(abs, 1)
    seen = []
    future.add_done_callback(seen.append)
    waiter = threading.Thread(target=lambda: seen.append(concurrent.futures.wait([future]).done))
    waiter.start()
    assert future.cancel()
    waiter.join(30)
    assert not waiter.is_alive() and future in seen and {future} in seen


def test_100_000_are_canceled_by_one_order(make):
    executor, calls = make()
    futures = [executor.submit(abs, -1) for _ in range(100_000)]
    calls.until_submitted(1)
    calls.start(0)
    results = executor.starmap(abs, [(1,)] * 10_000)
    calls_before = len(calls.orders)
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in futures[1:]) and not futures[0].done()
    assert set(results.states) == {"canceled"}
    assert len(calls.orders) - calls_before == 1
    calls.end(0, 0, b"\x80\x04K\x01.")
    executor.shutdown()
    assert futures[0].result() == 1 and calls.is_closed


def test_shutdown_waits_for_what_runs_and_takes_nothing_new(make):
    executor, calls = make()
    future = executor.submit(abs, -1)
    executor.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(abs, [1])
    calls.run(0)
    executor.shutdown()
    assert future.done() and calls.is_closed
    executor.shutdown()


def test_shutdown_ends_when_calls_end_before_their_submit_is_answered(make):
    executor, calls = make(automatic=True)
    calls.answers.clear()
    assert executor.submit(abs, -1).result(60) == 1
    wakes = calls.wakes
    waits = threading.Thread(target=executor.shutdown, daemon=True)
    waits.start()
    calls.until_it_listens(wakes)
    calls.answers.set()
    waits.join(20)
    assert not waits.is_alive()


def test_a_with_block_ends_when_all_has(make):
    executor, calls = make(automatic=True)
    with executor as same:
        assert same is executor
        future = executor.submit(abs, -1)
    assert future.done()


def test_an_executor_nobody_has_ends_when_its_calls_have(make, monkeypatch):
    import gc

    from conftest import Cluster
    from headquarters._executor import Executor

    calls = fake.Calls()
    monkeypatch.setitem(sys.modules, "headquarters._native", fake.module([calls]))
    executor = Executor(cluster=Cluster())
    reader = executor._session._reader
    future = executor.submit(abs, -1)
    del executor
    gc.collect()
    calls.run(0)
    assert future.result() == 1
    reader.join(30)
    assert not reader.is_alive() and calls.is_closed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (fake.ServerLost("gone"), errors.ServerLost),
        (fake.NativeError("no-job", "job 7 is forgotten"), errors.JobAborted),
        (ZeroDivisionError("a fault of ours"), errors.HqError),
    ],
)
def test_a_lost_server_ends_everything(make, error, expected):
    executor, calls = make()
    futures = [executor.submit(abs, -1) for _ in range(10)]
    results = executor.starmap(abs, [(-1,)] * 10)
    values = executor.map(abs, [1, 2])
    calls.until_submitted(22)
    calls.lose(error)
    for future in futures:
        assert isinstance(future.exception(30), expected)
    assert isinstance(results.exception(9), expected)
    with pytest.raises(expected):
        next(values)
    executor._session._reader.join(30)
    with pytest.raises((expected, RuntimeError)):
        executor.submit(abs, -1)
    executor.shutdown()


def test_a_stopped_cluster_is_named(make):
    executor, calls = make()
    future = executor.submit(abs, -1)
    executor._session._cluster.stopped = True
    calls.lose(fake.ServerLost("gone"))
    assert isinstance(future.exception(30), errors.ClusterStopped)


def test_who_has_lost_the_server_is_told_how_to_go_on(make):
    executor, calls = make()
    future = executor.submit(abs, -1)
    calls.lose(fake.ServerLost("The server was lost: it hung up: what was acknowledged is safe; `hq server start` in the same directory continues"))
    said = (
        "The server was lost: it hung up: this executor has ended with it. What was acknowledged is safe: when `hq server start` in the same "
        "directory has started it again, Executor(cluster='/nowhere', job=7) finds the calls of submit_named, and makes more in that job"
    )
    with pytest.raises(errors.ServerLost, match=f"^{re.escape(said)}; a new Executor"):
        future.result(30)
    with pytest.raises(errors.ServerLost, match=f"^{re.escape(said)}; a new Executor"):
        executor.submit(abs, -1)


def test_of_refused_calls_only_the_guilty_fail(make):
    executor, calls = make()

    def refuse(batches):
        for batch in batches:
            if 13 in range(batch[3], batch[3] + len(batch[4])):
                raise fake.NativeError("invalid", "13 is no good number")

    calls.on_submit = refuse
    futures = [executor.submit(abs, -i) for i in range(30)]
    results = executor.starmap(abs, [(1,), (2,)])
    error = futures[13].exception(30)
    assert isinstance(error, errors.Refused) and error.code == "invalid"
    calls.run_all(31)
    assert [f.result(30) for f in futures if f is not futures[13]] == [i for i in range(30) if i != 13]
    assert list(results) == [1, 2]


def test_a_call_refused_for_a_failed_dependency_names_it(make):
    executor, calls = make(automatic=True)
    a = executor.submit(divmod, 1, 0)
    assert isinstance(a.exception(30), ZeroDivisionError)

    def refuse(batches):
        raise fake.NativeError("hopeless", "task 0 failed")

    calls.on_submit = refuse
    error = executor.submit(abs, a).exception(30)
    assert isinstance(error, errors.DependencyFailed) and isinstance(error.__cause__, ZeroDivisionError)


def test_a_closed_job_refuses_all(make):
    executor, calls = make()

    def refuse(batches):
        raise fake.NativeError("job-not-open", "job 7 is closed")

    calls.on_submit = refuse
    futures = [executor.submit(abs, -i) for i in range(30)]
    assert all(isinstance(future.exception(30), errors.JobAborted) for future in futures)


def test_a_key_is_called_once(make):
    executor, calls = make()
    first = executor.submit_named("a", abs, -1)
    assert executor.submit_named("a", abs, -1) is first
    calls.run_all(1)
    assert first.result(30) == 1
    calls.keys["old"] = first.task_id
    again = executor.submit_named("old", abs, -1)
    assert again.task_id == first.task_id and again.result(30) == 1
    assert executor.submit(abs, -2).task_id == 2
    calls.on_submit = lambda batches: (_ for _ in ()).throw(fake.NativeError("key-taken", "another one"))
    with pytest.raises(errors.Refused):
        executor.submit_named("b", abs, -1)
    calls.on_submit = None


def test_a_key_stays_with_its_call(make):
    executor, calls = make(automatic=True)
    first = executor.submit_named("a", abs, -1)
    for function, argument in ((abs, -2), (len, -1)):
        with pytest.raises(errors.Refused, match="The key `a` names task 0 already") as caught:
            executor.submit_named("a", function, argument)
        assert caught.value.code == "key-taken"
    assert executor.submit_named("a", abs, -1) is first and first.result(30) == 1


def test_what_ended_before_is_not_sent_again_but_for_its_key(make):
    calls = fake.Calls(job=3)
    calls.next_id = 2
    for task in range(2):
        calls.tasks[task] = None
        calls.end(task, 0, b"\x80\x04K\x2a.")
    calls.keys["answer"] = 1
    executor, _ = make(calls=calls, job=3)
    future = executor.submit_named("answer", abs, -1)
    assert future.ref == (3, 1) and future.result(30) == 42
    executor.shutdown()
    assert not calls.is_closed, "others may add to a job that was open before"


def test_neighbours_of_one_function_are_one_batch(make):
    executor, calls = make()
    gate = threading.Event()
    calls.on_submit = lambda batches: gate.wait()
    executor.submit(abs, 0).add_done_callback(str)
    futures = [executor.submit(abs, -1) for _ in range(100)]
    view = executor.options(cpus=2)
    futures += [view.submit(abs, -1) for _ in range(10)]
    futures += [executor.submit(len, "a") for _ in range(10)]
    gate.set()
    calls.until_submitted(121)
    sizes = [len(batch[4]) for batches in calls.submits for batch in batches]
    assert sum(sizes) == 121 and len(sizes) <= 4 and len(calls.submits) <= 3
    calls.run_all()
    assert sum(future.result() for future in futures) == 120


def test_many_threads_submit(make):
    executor, calls = make()

    def submit(start, out):
        out += [(i, executor.submit(abs, -i)) for i in range(start, start + 500)]

    outs = [[] for _ in range(8)]
    threads = [threading.Thread(target=submit, args=(i * 500, out)) for i, out in enumerate(outs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls.run_all(4000)
    for out in outs:
        for i, future in out:
            assert future.result(30) == i
    assert sorted(future.task_id for out in outs for _, future in out) == list(range(4000))


def test_a_callback_may_ask_and_submit(make):
    executor, calls = make(automatic=True)
    more = []
    executor.submit(abs, -1).add_done_callback(lambda f: more.append(executor.submit(abs, -1 - f.result())))
    executor.submit(abs, 0).result(30)
    while not more:
        executor.submit(abs, 0).result(30)
    assert more[0].result(30) == 2


def test_futures_of_another_executor_are_sent_first(make):
    one, calls_one = make()
    calls_two = fake.Calls(job=8)
    two, _ = make(calls=calls_two)
    a = one.submit(abs, -5)
    b = two.submit(abs, a)
    assert calls_one.tasks, "what another job waits for is with the server"
    calls_one.run(0)
    calls_two.run(0)
    assert b.result(30) == 5 and calls_two.submits[0][0][5] == [(0, [(7, 0)])]


@pytest.mark.parametrize(("linger", "waits"), [("1h", True), ("1h", False), (None, True)])
def test_a_program_that_ends_leaves_its_job_open_for_what_runs(make, linger, waits):
    import time

    executor, calls = make(automatic=not waits, linger=linger)
    future = executor.submit(abs, -1)
    if not waits:
        assert future.result(30) == 1
    executor._session.leave(time.monotonic() + 30)
    assert calls.is_closed == (linger is None or not waits)


def test_in_a_forked_process_everything_ends(make):
    executor, calls = make(automatic=True)
    done = executor.submit(abs, -1)
    assert done.result() == 1
    calls.is_automatic = False
    future = executor.submit(abs, -1)
    future.add_done_callback(str)
    results = executor.starmap(abs, [(1,)])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for what in (future.result, lambda: executor.submit(abs, 1), lambda: results[0], done.cancel, done.result):
            try:
                said.append(repr(what()))
            except BaseException as error:
                said.append(type(error).__name__)
        concurrent.futures.wait([future])
        executor.shutdown()
        os.write(write, " ".join(said).encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode()
    os.waitpid(child, 0)
    os.close(read)
    assert said == "Forked Forked Forked False 1"
    calls.run_all(3)
    assert future.result(30) == 1 and results[0] == 1


def test_the_interpreter_ends_without_shutdown():
    import subprocess

    here = os.path.dirname(__file__)
    program = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
import atexit, fake
calls = fake.Calls()
atexit.register(lambda: print(len(calls.tasks), calls.is_closed))
sys.modules["headquarters._native"] = fake.module([calls])
from headquarters._executor import Executor
executor = Executor(cluster="/nowhere")
future = executor.submit(abs, -1)
"""
    ran = subprocess.run([sys.executable, "-c", program, here], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout == "1 False\n"


def test_a_shutdown_says_what_it_waits_for(make, monkeypatch):
    monkeypatch.setattr(limits, "SILENT_SHUTDOWN_S", 0.01)
    executor, calls = make()
    future = executor.submit(abs, 1)
    calls.until_submitted(1)
    said = []

    class Ends(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            calls.end(0, 0, b"\x80\x04K\x01.")

    handler = Ends()
    logging.getLogger("headquarters").addHandler(handler)
    try:
        executor.shutdown()
    finally:
        logging.getLogger("headquarters").removeHandler(handler)
    assert set(said) == {"the executor waits for 1 call to end; the first, 7@0: task 0 waits for the test"}
    assert future.result() == 1
