"""Ends of calls, each brought about in a real interpreter, worker, server or client."""

import asyncio
import atexit
import builtins
import concurrent.futures
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import headquarters as hq
from headquarters._binary import find

GONE = 60
TIMES_OUT = {"time_limit": "200ms", "kill_grace": "100ms"}


def spin():
    while True:
        pass


def hold_in_c():
    # Keeps the lock of the interpreter: no handler of a signal runs.
    ctypes.PyDLL(None).sleep(GONE)


def ignore_and_spin():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    spin()


def exit_at_once(code):
    os._exit(code)


def crash():
    faulthandler.disable()
    ctypes.string_at(0)


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (exit_at_once, (3,), "The interpreter exited with code 3 before the function returned"),
        (exit_at_once, (0,), "The interpreter exited with code 0 before the function returned"),
        (crash, (), "signal 11"),
        (kill_self, (), "signal 9"),
    ],
)
def test_an_interpreter_that_dies_ends_its_call(executor, function, args, said):
    error = executor.submit(function, *args).exception(GONE)
    assert type(error) is hq.RunnerDied and said in str(error), error
    assert executor.submit(abs, -1).result(GONE) == 1


@pytest.mark.parametrize("close", [lambda: os.closerange(0, 1000), lambda: os.closerange(3, 1000)])
def test_a_function_that_closes_all_descriptors_is_told_so(executor, close):
    error = executor.submit(close).exception(GONE)
    assert type(error) is hq.RunnerDied and "has closed the connection between its interpreter" in str(error), error


def leave_a_thread():
    threading.Thread(target=time.sleep, args=(1000,)).start()


def leave_a_hook():
    atexit.register(time.sleep, 1000)


def break_the_interpreter():
    builtins.len = None


@pytest.mark.parametrize("leave", [leave_a_thread, leave_a_hook])
def test_an_interpreter_that_fails_ends_whatever_was_left_in_it(executor, leave):
    alone = executor.options(variables={"ALONE": leave.__name__})
    alone.submit(leave).result(GONE)
    error = alone.submit(break_the_interpreter).exception(GONE)
    assert type(error) is hq.RunnerDied and "exited with code 1" in str(error), error


def leave_a_timer_and_a_mask():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    signal.signal(signal.SIGPROF, lambda *_: None)
    signal.setitimer(signal.ITIMER_PROF, 1000)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    return os.getpid()


def timers_and_mask():
    timers = [signal.getitimer(timer)[0] for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
    return os.getpid(), timers, signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_timers_and_blocked_signals_do_not_reach_the_next_call(executor):
    alone = executor.options(variables={"ALONE": "timers"})
    pid = alone.submit(leave_a_timer_and_a_mask).result(GONE)
    assert alone.submit(timers_and_mask).result(GONE) == (pid, [0.0, 0.0], set())


@pytest.mark.parametrize("error", [SystemExit(3), SystemExit("words"), SystemExit(), KeyboardInterrupt("me"), GeneratorExit()])
def test_what_ends_programs_is_raised_by_calls(executor, error):
    def fail():
        raise error

    def pid_and(value):
        return os.getpid(), value

    raised = executor.submit(fail).exception(GONE)
    assert type(raised) is type(error) and raised.args == error.args
    with pytest.raises(type(error)):
        executor.submit(fail).result(GONE)
    assert executor.submit(pid_and, 1).result(GONE)[1] == 1


def test_the_code_of_an_exit_is_the_one_that_is_shown(cluster, executor):
    future = executor.submit(sys.exit, 3)
    assert isinstance(future.exception(GONE), SystemExit)
    line = [os.fspath(find()), "--server-dir", cluster.server_dir, "--output-mode", "json", "task", "info", future.task]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert '"exit_code":3' in told.replace(" ", "")


@pytest.mark.parametrize("function", [spin, hold_in_c, ignore_and_spin])
def test_a_time_limit_ends_whatever_runs(executor, function):
    error = executor.options(**TIMES_OUT).submit(function).exception(GONE)
    assert type(error) is hq.TaskTimeout and isinstance(error, TimeoutError)


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()


class OwnError(Exception):
    def __init__(self, lock):
        super().__init__("mine")
        self.lock = lock


def test_what_cannot_be_pickled_is_named(executor):
    error = executor.submit(abs, [Unpicklable()]).exception(GONE)
    assert type(error) is hq.ArgumentsNotPicklable and error.path == "args[0][0].lock", error
    error = executor.submit(Unpicklable).exception(GONE)
    assert type(error) is hq.ResultNotPicklable and "lock" in str(error)

    def fail():
        raise OwnError(threading.Lock())

    error = executor.submit(fail).exception(GONE)
    assert type(error) is hq.RemoteError and (error.type_name.rpartition(".")[2], error.text) == ("OwnError", "mine")
    assert "in fail" in str(error.__cause__)


def test_threads_that_are_left_hold_nobody_up(executor):
    def leave():
        threading.Thread(target=threading.Event().wait).start()
        return os.getpid()

    assert all(executor.submit(leave).result(GONE) for _ in range(3))


def test_a_process_that_is_forked_gives_no_value(executor):
    def fork():
        return "child" if os.fork() == 0 else "parent"

    assert [executor.submit(fork).result(GONE) for _ in range(3)] == ["parent"] * 3


def test_a_gigabyte_of_prints_is_cut(executor):
    def tell():
        line = "x" * (1 << 20)
        for _ in range(1 << 10):
            sys.stdout.write(line)
        print("\nend")
        return Path("/proc/self/statm").read_text().split()[1]

    future = executor.submit(tell)
    assert int(future.result(GONE)) * os.sysconf("SC_PAGE_SIZE") < 200 << 20
    assert future.output().endswith("x\nend\n") and len(future.output()) == 4096


def test_memory_that_is_not_there_is_an_exception(executor):
    def eat():
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, before[1]))
        try:
            return len(bytearray(1 << 40))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    assert type(executor.submit(eat).exception(GONE)) is MemoryError


def test_cancel_before_during_and_after(executor):
    running = [executor.submit(spin) for _ in range(2)]
    before = executor.submit(abs, -1)
    while not all(future.running() for future in running):
        pass
    assert before.cancel() and before.cancelled()
    assert not running[0].cancel() and not running[0].done()
    for future in running:
        future.kill()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(GONE)
    after = executor.submit(abs, -1)
    assert after.result(GONE) == 1 and not after.cancel() and not after.cancelled()
    after.kill()
    assert after.result() == 1


def test_two_clients_with_one_name_are_two_jobs(cluster):
    with hq.Executor(cluster=cluster, name="same") as one, hq.Executor(cluster=cluster, name="same") as other:
        assert one.job_id != other.job_id
        assert [ex.submit_named("key", abs, n).result(GONE) for ex, n in ((one, -1), (other, -2))] == [1, 2]


def test_a_forked_client_says_so(cluster, executor):
    future = executor.submit(spin)
    pid = os.fork()
    if pid == 0:
        try:
            for use in (lambda: executor.submit(abs, -1), future.result, lambda: cluster.client()):
                try:
                    use()
                except hq.Forked:
                    continue
                os._exit(1)
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    future.kill()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(GONE)


def test_interpreters_that_are_not_there(executor):
    future = executor.options(env=hq.PythonEnv("/nowhere/python")).submit(abs, -1)
    error = future.exception(GONE)
    assert type(error) is hq.EnvironmentBroken and "/nowhere/python" in str(error), error
    hangs = hq.PythonEnv(prologue="while :; do :; done")
    assert type(executor.options(env=hangs, **TIMES_OUT).submit(abs, -1).exception(GONE)) is hq.TaskTimeout


def test_interpreters_and_workers_that_are_killed():
    with hq.LocalCluster(cpus=1) as cluster, cluster.executor() as executor:
        pid = executor.submit(os.getpid).result(GONE)
        future = executor.submit(spin)
        while not future.running():
            pass
        os.kill(pid, signal.SIGKILL)
        error = future.exception(GONE)
        assert type(error) is hq.RunnerDied and "signal 9" in str(error), error
        often = executor.options(crash_limit=1).submit(spin)
        while not often.running():
            pass
        os.kill(cluster._children._processes[-1].pid, signal.SIGKILL)
        assert type(often.exception(GONE)) is hq.TooManyCrashes


def test_failures_beyond_the_limit_of_a_job_abort_the_rest(cluster):
    with hq.Executor(cluster=cluster, max_fails=0) as executor:
        waits = [executor.submit(spin) for _ in range(4)]
        failed = executor.options(priority=1).submit(int, "x")
        waits[0].kill()
        assert type(failed.exception(GONE)) is ValueError
        ends = [future.exception(GONE) for future in waits[1:]]
        assert {type(error) for error in ends} == {hq.JobAborted}, ends


SCRIPT = """
import sys
import headquarters as hq
from alone import triple

FACTOR = 2

def double(x):
    return FACTOR * x

hq.by_value(sys.modules["alone"])
with hq.Executor(cluster=sys.argv[1]) as executor:
    print(executor.submit(double, 4).result(60), executor.submit(triple, 4).result(60))
"""


@pytest.mark.parametrize("how", ["script", "text"])
def test_functions_that_only_the_client_has(cluster, tmp_path, how):
    alone = tmp_path / "hidden"
    alone.mkdir()
    (alone / "alone.py").write_text("def triple(x):\n    return 3 * x\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    # As a text it has no file, as what is typed into a notebook.
    argv = [os.fspath(tmp_path / "script.py")] if how == "script" else ["-c", SCRIPT]
    # The module is found by the client alone: the worker knows this directory by no other way.
    environment = {**os.environ, "PYTHONPATH": os.fspath(alone)}
    ran = subprocess.run(
        [sys.executable, *argv, cluster.server_dir], capture_output=True, text=True, timeout=GONE, env=environment
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "8 12\n", "")


class Server:
    """A server and a worker that are started like any others, so that the server can be started once more."""

    def __init__(self, place):
        self.dir = os.fspath(place / "server")
        self.processes = []
        self.hq = os.fspath(find())

    def start(self, *words):
        line = [self.hq, "--server-dir", self.dir, *words, "--lifeline"]
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def start_server(self):
        process = self.start("server", "start", "--host", "localhost")
        process.stdout.readline()
        return process

    def end(self):
        for process in reversed(self.processes):
            process.stdin.close()
            process.wait(GONE)
            process.stdout.close()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.end()


def test_calls_wait_for_a_server_that_is_away(server):
    process = server.start_server()
    server.start("worker", "start", "--cpus", "1")
    with hq.Executor(cluster=server.dir) as executor:
        assert executor.submit(abs, -1).result(GONE) == 1
        process.kill()
        process.wait(GONE)
        futures = [executor.submit(abs, -n) for n in range(3)]
        with pytest.raises(concurrent.futures.TimeoutError):
            futures[0].result(0)
        server.start_server()
        assert hq.gather(futures) == [0, 1, 2]


def test_a_call_over_its_memory_is_killed_and_says_so(server):
    server.start_server()
    server.start("worker", "start", "--cpus", "1", "--enforce", "memory")
    with hq.Executor(cluster=server.dir) as executor:

        def eat():
            kept = []
            while True:
                kept.append(b"x" * (1 << 20))

        error = executor.options(memory="64 MiB").submit(eat).exception(GONE)
        assert type(error) is hq.RunnerDied and "memory" in str(error), error
        assert executor.submit(abs, -1).result(GONE) == 1


def test_within_a_call_all_ways_of_waiting_lend_cpus(executor):
    def inner(depth):
        return outer(depth - 1) if depth else 1

    def outer(depth):
        here = hq.current()
        futures = [here.submit(inner, depth) for _ in range(2)]
        concurrent.futures.wait(futures)
        more = [here.submit(inner, 0) for _ in range(2)]
        return sum(future.result() for future in concurrent.futures.as_completed([*futures, *more]))

    assert executor.submit(outer, 3).result(GONE) > 0

    async def awaits(depth):
        here = hq.aio.Executor.of(hq.current())
        if not depth:
            return 1
        values = await asyncio.gather(*(here.submit(awaits, depth - 1) for _ in range(2)))
        return sum(values) + sum([await future async for future in here.as_completed([here.submit(awaits, 0)])])

    assert executor.submit(awaits, 3).result(GONE) == 15

    async def wraps(depth):
        # A loop knows what it waits for as a future of its own.
        if not depth:
            return 1
        wrapped = [asyncio.wrap_future(hq.current().submit(wraps, depth - 1)) for _ in range(2)]
        return await wrapped[0] + await asyncio.wait_for(wrapped[1], GONE)

    assert executor.submit(wraps, 3).result(GONE) == 8
    with hq.Executor(1) as one:
        assert one.submit(wraps, 2).result(GONE) == 4


def fib(n):
    here = hq.current()
    return n if n < 2 else here.submit(int.__add__, here.submit(fib, n - 1), here.submit(fib, n - 2))


def test_a_call_that_returns_a_call_ends_with_its_value(executor):
    assert executor.submit(fib, 6).result(GONE) == 8
    # Who takes it gets the value, too, and nobody holds a CPU meanwhile.
    with hq.Executor(1) as one:
        assert one.submit(str, one.submit(fib, 5)).result(GONE) == "5"


def returns(function, *args):
    return hq.current().submit(function, *args)


async def returns_later(*args):
    return hq.aio.Executor.of(hq.current()).submit(*args)


def test_what_a_call_returns_may_fail_be_large_or_end_before(executor):
    error = executor.submit(returns, int, "x").exception(GONE)
    assert type(error) is hq.DependencyFailed and "invalid literal" in str(error), error
    assert executor.submit(returns, bytes, 100_000).result(GONE) == bytes(100_000)
    assert executor.submit(len, executor.submit(returns, bytes, 100_000)).result(GONE) == 100_000
    assert executor.submit(returns_later, abs, -3).result(GONE) == 3

    def late():
        future = hq.current().submit(abs, -4)
        future.result()
        return future

    assert executor.submit(late).result(GONE) == 4
    assert [*executor.map(returns, [abs] * 5, range(-5, 0))] == [5, 4, 3, 2, 1]
