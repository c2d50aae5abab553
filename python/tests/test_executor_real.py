"""The executor on a real server, worker and interpreters."""

import asyncio
import concurrent.futures
import json
import logging
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading

import pytest

import headquarters as hq
from headquarters import _limits as limits
from headquarters import _outcome
from headquarters._binary import find


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def spin():
    while True:
        pass


def test_a_private_cluster_serves_and_ends():
    with hq.Executor(5) as executor:
        assert [executor.submit(pow, 2, i).result(60) for i in range(5)] == [1, 2, 4, 8, 16]
    with pytest.raises(RuntimeError):
        executor.submit(pow, 2, 2)


def test_values_and_exceptions(executor):
    offset = 3
    assert executor.submit(lambda x: x + offset, 4).result(60) == 7
    error = executor.submit(math.sqrt, -1).exception(60)
    assert isinstance(error, ValueError) and error.__cause__ is not None
    assert isinstance(executor.submit(threading.Lock).exception(60), hq.ResultNotPicklable)
    assert executor.submit(bytes, 20_000).result(60) == bytes(20_000)
    assert executor.submit(os.getpid).result(60) != os.getpid()


def test_only_the_call_that_kills_its_interpreter_fails(executor):
    futures = [executor.submit(abs, -i) for i in range(20)]
    died = executor.submit(kill_self)
    futures += [executor.submit(abs, -i) for i in range(20, 40)]
    assert isinstance(died.exception(60), hq.RunnerDied)
    assert [future.result(60) for future in futures] == list(range(40))


def test_a_time_limit_ends_a_call(executor):
    future = executor.options(time_limit="200ms", kill_grace="100ms").submit(spin)
    assert isinstance(future.exception(60), hq.TaskTimeout)


def test_cancel_and_kill(executor):
    running = [executor.submit(spin) for _ in range(2)]
    waiting = executor.submit(abs, -1)
    while not all(future.running() for future in running):
        pass
    assert waiting.cancel() and not running[0].cancel()
    for future in running:
        future.kill()
    for future in running:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)


def test_futures_as_arguments_and_failed_ones(executor):
    a = executor.submit(pow, 2, 3)
    b = executor.submit(sum, [a, a, 1])
    assert b.result(60) == 17
    chain = executor.submit(abs, -1)
    for _ in range(50):
        chain = executor.submit(abs, chain)
    assert chain.result(60) == 1
    bad = executor.submit(math.sqrt, -1)
    error = executor.submit(abs, bad).exception(60)
    assert isinstance(error, hq.DependencyFailed) and isinstance(error.__cause__, ValueError)


def test_futures_of_another_job(cluster, executor):
    with hq.Executor(cluster=cluster) as other:
        assert other.submit(abs, executor.submit(abs, -4)).result(60) == 4


def test_maps_and_arrays(executor):
    assert list(executor.map(abs, range(-3000, 0))) == list(range(3000, 0, -1))
    assert sum(executor.map(abs, range(20_000), buffersize=500)) == sum(range(20_000))
    results = executor.starmap(pow, ((i, 2) for i in range(3000)))
    assert results[2999] == 2999**2 and list(results[5:8]) == [25, 36, 49]
    assert set(results.states[:1]) == {"finished"}


def test_prints_are_kept(executor):
    future = executor.submit(print, "hello", flush=True)
    assert future.result(60) is None and future.output() == "hello\n"


def left_by(future):
    # What the call left behind, before it is unpickled.
    concurrent.futures.wait([future], 60)
    return future._end[2]


def test_what_a_call_leaves_is_a_bare_pickle_and_parts_only_where_there_is_more(executor):
    def both(size, value):
        print("o" * size)
        print("e" * size, file=sys.stderr)
        return value

    assert left_by(executor.submit(abs, -7)) == pickle.dumps(7, 5)
    small = left_by(executor.submit(both, 3, 7))
    assert small == b"E\x01\x04\x00ooo\n\x02\x04\x00eee\n" + pickle.dumps(7, 5)
    # What is cut is counted, also where more was printed than is ever kept.
    large = left_by(executor.submit(both, 3_000_000, 7))
    parts, value = _outcome._parts(large)
    assert [len(parts[kind]) for kind in (1, 2)] == [4096, 4096] and value == pickle.dumps(7, 5)
    assert [int.from_bytes(parts[kind], "little") for kind in (3, 4)] == [3_000_001 - 4096] * 2
    # The value goes first.
    for size in (10_000, 16_300, 16_350):
        left = left_by(executor.submit(both, 4000, b"v" * size))
        parts, value = _outcome._parts(left)
        assert len(left) <= 16_384 and pickle.loads(value) == b"v" * size
        kept = sum(len(parts.get(kind, b"")) for kind in (1, 2))
        lost = sum(int.from_bytes(parts.get(kind, b""), "little") for kind in (3, 4))
        assert kept + lost == (8002 if left[:1] == b"E" else 0)
        assert left[:1] == b"\x80" or len(left) > 16_380 or kept == 8002


def test_a_value_that_comes_with_prints_is_an_argument_like_others(executor):
    def loud():
        print("loud")
        return 5

    assert executor.submit(abs, executor.submit(loud)).result(60) == 5


def test_how_a_call_failed_is_plain_text(executor):
    def fail():
        print("before")
        raise LookupError("no \N{SNOWMAN}: " + "x" * 3000)

    left = left_by(executor.submit(fail))
    parts, exception = _outcome._parts(left)
    assert (parts[1], parts[5], parts[6]) == (b"before\n", b"raised", b"LookupError")
    text = parts[7].decode()
    assert text.startswith("no \N{SNOWMAN}: xxx") and "x\n...\nx" in text and len(text) < 1024
    assert parts[8].startswith(b"Traceback") and isinstance(pickle.loads(exception), LookupError)
    assert len(left) <= 16_384


def test_an_initializer_runs_once_for_each_interpreter(cluster):
    def start():
        import builtins

        builtins.started = getattr(builtins, "started", 0) + 1

    def started():
        import builtins

        return builtins.started

    with hq.Executor(cluster=cluster, initializer=start) as executor:
        assert {future.result(60) for future in [executor.submit(started) for _ in range(10)]} == {1}
    with hq.Executor(cluster=cluster, initializer=kill_self.__call__, initargs=(1,)) as executor:
        assert isinstance(executor.submit(abs, 1).exception(60), hq.EnvironmentBroken)


def test_a_key_is_called_once_for_all_clients(cluster, executor):
    first = executor.submit_named("answer", pow, 2, 4)
    assert first.result(60) == 16
    with hq.Executor(cluster=cluster, job=executor.job_id) as other:
        again = other.submit_named("answer", pow, 2, 4)
        assert again.ref == first.ref and again.result(60) == 16


def test_the_calls_of_a_closed_job_are_found_by_their_keys(cluster):
    with hq.Executor(cluster=cluster) as executor:
        executor.submit_named("answer", pow, 2, 4)
        executor.submit_named("wrong", math.sqrt, -1)
    with hq.Executor(cluster=cluster, job=executor.job_id) as again:
        assert again.submit_named("answer", pow, 2, 4).result(60) == 16
        assert isinstance(again.submit_named("wrong", math.sqrt, -1).exception(60), ValueError)
        with pytest.raises(hq.JobAborted, match=r"Job \d+ is not open: an executor closes its job at the end of its `with`"):
            again.submit_named("new", pow, 2, 5)
        assert "is not open: an executor closes" in str(again.submit(pow, 2, 5).exception(60))


def test_a_key_stays_with_its_call(cluster, executor):
    executor.submit_named("fold-7", pow, 2, 4)
    with hq.Executor(cluster=cluster, job=executor.job_id) as other:
        for one in (executor, other):
            with pytest.raises(hq.Refused, match="The key `fold-7` names task 0 of job .* has another set of arguments"):
                one.submit_named("fold-7", pow, 2, 5)
            with pytest.raises(hq.Refused, match="has another function"):
                one.submit_named("fold-7", abs, 2)


def test_shutdown_cancels_100_000(cluster):
    executor = hq.Executor(cluster=cluster)
    futures = [executor.submit(abs, -1) for _ in range(100_000)]
    executor.shutdown(wait=True, cancel_futures=True)
    assert all(future.done() for future in futures)


def test_a_stopped_cluster_ends_all_futures():
    cluster = hq.LocalCluster(cpus=1)
    executor = hq.Executor(cluster=cluster)
    future = executor.submit(spin)
    while not future.running():
        pass
    cluster.stop()
    assert isinstance(future.exception(120), (hq.ServerLost, hq.ClusterStopped, concurrent.futures.CancelledError))


def test_a_server_that_is_killed_ends_all_futures():
    with hq.LocalCluster(cpus=1) as cluster, hq.Executor(cluster=cluster) as executor:
        futures = [executor.submit(spin) for _ in range(3)]
        results = executor.starmap(abs, [(1,)])
        while not futures[0].running():
            pass
        line = [os.fspath(find()), "--server-dir", cluster.server_dir, "--output-mode", "json", "server", "info"]
        server = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)["pid"]
        os.kill(server, signal.SIGKILL)
        assert all(isinstance(future.exception(60), hq.ClusterStopped) for future in futures)
        assert isinstance(results.exception(0), hq.ClusterStopped)
        with pytest.raises(hq.ClusterStopped):
            executor.submit(abs, -1)
    assert cluster.stopped


def test_asyncio(executor):
    from headquarters import aio

    async def main():
        ex = aio.Executor.of(executor)
        return sorted([await future async for future in ex.as_completed(ex.submit(abs, -i) for i in range(20))])

    assert asyncio.run(main()) == list(range(20))


def test_the_interpreter_ends_without_shutdown():
    import subprocess

    program = "import headquarters as hq; print(hq.Executor(1).submit(abs, -1).result()); hq.Executor(1).submit(abs, 1)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


LEAVES = """
import os, sys
import headquarters as hq

executor = hq.Executor(cluster=sys.argv[1], name="left", linger=1)
print(executor.job_id, executor.submit(pow, 2, 3).result(60), flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_job_of_a_program_that_was_killed_is_closed(tmp_path):
    with hq.LocalCluster(cpus=1, journal=True) as cluster:
        ran = subprocess.run([sys.executable, "-c", LEAVES, cluster.server_dir], capture_output=True, text=True, timeout=120)
        job, value = map(int, ran.stdout.split())
        assert (ran.returncode, value) == (-signal.SIGKILL, 8)
        client = cluster.client()
        client.connection.session.wait([job], None, True)
        assert (client.job(job).state, client.job(job).is_open) == ("finished", False)
        (closed,) = (event.data for event in client.events() if event.type == "job-close")
        assert closed["job"] == job and closed["reason"].endswith("no client was connected for 1s"), closed


ENDS = """
import sys
import headquarters as hq

def outer(path):
    with open(path) as told:
        told.read()
    return hq.current().submit(abs, -5).result()

executor = hq.Executor(cluster=sys.argv[1], linger=1)
future = executor.submit(outer, sys.argv[2])
while not future.running():
    pass
print(future.task)
"""


def test_what_runs_when_its_program_ends_may_still_make_calls(cluster, tmp_path):
    waits = tmp_path / "waits"
    os.mkfifo(waits)
    line = [sys.executable, "-c", ENDS, cluster.server_dir, os.fspath(waits)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120)
    job = int(ran.stdout.partition("@")[0])
    waits.write_text("now")
    client = cluster.client()
    client.connection.session.wait([job], None, True)
    info = client.job(job)
    assert (info.state, info.finished, info.is_open) == ("finished", 2, False)


def test_a_job_that_a_client_has_opened_goes_on(cluster):
    client = cluster.client()
    job = client.open_job("long")
    for _ in range(2):
        with hq.Executor(cluster=cluster, job=job) as executor:
            assert executor.submit_named("once", pow, 2, 3).result(60) == 8
            assert executor.submit(abs, -1).result(60) == 1
    assert (client.job(job).is_open, client.job(job).finished) == (True, 3)
    client.close_job(job)
    assert not client.job(job).is_open


def test_somebody_is_told_of_an_executor(cluster, tmp_path):
    # Who opens it for reading waits for the command.
    told = tmp_path / "told"
    os.mkfifo(told)
    with hq.Executor(cluster=cluster, name="watched", on_finish=f"sh -c 'cat > {told}'", stall_after="1h") as executor:
        assert executor.submit(pow, 2, 3).result(60) == 8
    document = json.loads(told.read_text())
    assert (document["reason"], document["job"]["id"], document["job"]["name"]) == ("end", executor.job_id, "watched")


def test_a_worker_that_is_killed_is_replaced():
    with hq.LocalCluster(cpus=1) as cluster, cluster.executor() as executor:
        assert executor.submit(abs, -1).result(60) == 1
        os.kill(cluster._children._processes[1].pid, signal.SIGKILL)
        assert executor.submit(abs, -2).result(60) == 2


class Evil:
    def __reduce__(self):
        raise SystemExit(3)


def raise_evil():
    error = ValueError("with an argument that cannot be pickled")
    error.evil = Evil()
    raise error


def test_what_wants_to_exit_while_it_is_pickled_is_an_end_like_others(executor):
    assert isinstance(executor.submit(Evil).exception(60), hq.ResultNotPicklable)
    assert isinstance(executor.submit(raise_evil).exception(60), hq.RemoteError)


def nested(depth):
    if not depth:
        return 1
    inner = hq.current()
    first, second = inner.submit(nested, depth - 1), inner.starmap(nested, [(0,), (0,)])
    third = next(iter(hq.as_completed([inner.submit(nested, 0)])))
    return first.result() + sum(second) + third.result()


def test_calls_within_calls_come_to_their_end_with_fewer_cpus(executor):
    # Each of two CPUs would be held by one that waits.
    futures = [executor.submit(nested, 5) for _ in range(4)]
    assert [future.result(120) for future in futures] == [16] * 4
    assert {future.job_id for future in futures} == {executor.job_id}
    # The client's own calls go on having ids in a row.
    assert executor.submit(abs, -1).task_id == futures[-1].task_id + 1


def test_futures_among_the_arguments_of_calls_within_calls_are_their_values(executor):
    def outer():
        inner = hq.current()
        three = inner.submit(abs, -3)
        return inner.submit(pow, three, 2).result() + inner.submit(lambda: three).result()

    assert executor.submit(outer).result(60) == 12


def test_a_with_block_within_a_call_is_of_that_call(executor):
    def block():
        with hq.current() as inner:
            future = inner.submit(abs, -3)
        assert future.done()
        return future.result()

    assert [executor.submit(block).result(60) for _ in range(4)] == [3] * 4


def test_a_key_means_the_same_within_calls(executor):
    def named():
        return hq.current().submit_named("three", abs, -3).task

    def deeper():
        return hq.current().submit(named).result()

    assert executor.submit(named).result(60) == executor.submit(deeper).result(60)
    # The client's own calls are not in the way of it.
    assert executor.submit(abs, -1).result(60) == 1


def test_a_call_that_fails_within_a_call_fails_there(executor):
    def outer():
        try:
            hq.current().submit(divmod, 1, 0).result()
        except ZeroDivisionError as error:
            return str(error)

    assert "zero" in executor.submit(outer).result(60)


def test_the_mask_of_files_is_put_back(executor):
    def mask(new):
        return os.umask(new)

    assert len({executor.submit(mask, 0o777).result(60) for _ in range(6)}) == 1


def test_each_call_finds_its_own_number_and_place_whatever_others_have_changed(executor):
    on_signal = signal.signal

    def change(how):
        if how == "own":
            os.environ["HQ_TASK_ID"] = "none"
        elif how == "more":
            os.environ["LEFT"] = "x"
        elif how == "less":
            del os.environ["HQ_TASK_ID"]
        elif how == "none":
            os.environ.clear()
        elif how == "others":
            os.environ |= {"LEFT": "x", "HQ_TASK_ID": "none"}
        elif how == "below":
            os.environ._data.update({b"LEFT": b"x"})
        elif how == "signals":
            on_signal(signal.SIGUSR1, lambda *_: None)
        elif how == "place":
            os.chdir("/")
        elif how == "outputs":
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)

    def look(_):
        print("seen", flush=True)
        programs = subprocess.run(["printenv", "HQ_TASK_ID"], capture_output=True, text=True).stdout.strip()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        return os.environ["HQ_TASK_ID"], programs, os.environ.get("LEFT"), os.getcwd()

    here = os.getcwd()
    # More than those after which variables are kept in another way.
    for how in ["nothing", "own", "more", "less", "none", "others", "below", "signals", "place", "outputs"] * 25:
        executor.submit(change, how).result(60)
        looks = [executor.submit(look, n) for n in range(2)]
        for one in looks:
            assert one.result(60) == (str(one.task_id), str(one.task_id), None, here), how
            assert one.output() == "seen\n", how


def test_an_interrupt_ends_what_runs_and_what_waits(cluster):
    with pytest.raises(KeyboardInterrupt), hq.Executor(cluster=cluster) as executor:
        futures = [executor.submit(spin) for _ in range(4)] + [executor.map(abs, range(10))]
        while not futures[0].running():
            pass
        raise KeyboardInterrupt
    assert all(future.cancelled() for future in futures[:4])


def test_the_decorator_is_there_beside_the_package(executor):
    import headquarters.task.task as module

    @hq.task(cpus=1)
    def double(x):
        return 2 * x

    assert double(2) == 4 and module.Task is hq.Task
    assert double.on(executor).submit(4).result(60) == 8


class Heard(logging.Handler):
    """What the package says, and how often."""

    def __init__(self):
        super().__init__()
        self.texts = queue.SimpleQueue()

    def emit(self, record):
        self.texts.put(record.getMessage())


def test_a_call_that_could_never_run_here_is_told_once(monkeypatch):
    monkeypatch.setattr(limits, "UNFIT_S", 0.05)
    heard = Heard()
    logging.getLogger("headquarters").addHandler(heard)
    try:
        with hq.Executor(1) as executor:
            assert executor.submit(abs, -1).result(60) == 1
            never = executor.options(gpus=1)
            futures = [never.submit(abs, -2), *(never.submit(abs, -3) for _ in range(3))]
            said = heard.texts.get(timeout=60)
            assert said.startswith(f"call {futures[0].task} waits for ever, and so does each with its options: no worker could ever run it")
            assert said.endswith("no worker has gpus")
            array = executor.options(cpus=64).starmap(abs, [(-1,), (-2,)])
            said = heard.texts.get(timeout=60)
            assert said.startswith(f"call {array.task(0)} waits for ever") and "cpus: 64 asked for" in said
            executor.shutdown(cancel_futures=True)
        assert heard.texts.empty()
    finally:
        logging.getLogger("headquarters").removeHandler(heard)


def test_a_call_under_a_key_has_a_worker_as_well():
    with hq.Executor() as executor:
        assert executor.submit_named("a", abs, -1).result(60) == 1


class NoNumber:
    def __reduce__(self):
        return int, ("abc",)


class TwoWords(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def raise_two_words():
    raise TwoWords("a", "b")


def test_what_cannot_be_made_again_says_why(executor):
    error = executor.submit(print, NoNumber()).exception(60)
    assert type(error) is hq.ArgumentsNotPicklable
    assert str(error).startswith(
        "print: its arguments were sent, and the interpreter of the call cannot load them: invalid literal for int()"
    )
    error = executor.submit(raise_two_words).exception(60)
    assert type(error) is hq.RemoteError and error.text == "a b"
    first, second = str(error).splitlines()
    assert first.endswith("TwoWords: a b")
    assert second.startswith("(This exception cannot be made again here: ") and "super().__init__" in second
