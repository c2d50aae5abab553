"""Lists on a real server, workers and interpreters."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import headquarters as hq
import lists_oracle
from headquarters.lists import Context, F


@pytest.fixture(scope="module")
def C(cluster):
    with hq.Executor(cluster=cluster) as executor:
        yield Context(executor=executor, procs=3)


def add(left, right):
    return left + right


@pytest.mark.parametrize(("slots", "seeds"), [(1, 2), (3, 3), (7, 2)])
def test_a_list_is_what_a_plain_list_is(slots, seeds):
    hq.by_value(lists_oracle)
    with hq.Executor(slots) as executor:
        C = Context(executor=executor)
        assert C.procs == slots
        for seed in range(seeds):
            lists_oracle.check(C, 100 * slots + seed)


def test_slices_are_as_many_as_calls_that_run_at_once(cluster):
    with hq.Executor(cluster=cluster) as executor:
        assert Context(executor=executor).procs == 2
        assert Context(executor=executor.options(cpus=2)).procs == 1
        assert Context(executor=executor, procs=5).procs == 5
    assert Context(cluster=cluster).procs == Context(cluster=cluster.server_dir).procs == 2


def test_results_of_any_size_come(C):
    large = C.iterates(3).map(lambda n: bytes([n]) * 3_000_000)
    assert large.map(len).reduce(add, 0) == 9_000_000
    assert [one[:1] for one in large.collect()] == [b"\0", b"\1", b"\2"]
    assert len(large.reduce(add, b"")) == 9_000_000
    by_letter = large.group(lambda one, out: out.update({k: [one[k::3]] for k in range(3)}), b"".join, 3)
    assert by_letter.map(len).collect() == [3_000_000] * 3


def test_what_a_function_raises_comes_with_its_traceback(C):
    def fails(n):
        return 1 // (n - 5)

    with pytest.raises(ZeroDivisionError) as raised:
        C.iterates(9).map(fails).reduce(add, 0)
    cause = str(raised.value.__cause__)
    assert "on slice 1 of 3 (task " in cause and "in fails\n" in cause


def test_an_interpreter_that_ends_is_told_with_its_slice(C):
    with pytest.raises(hq.RunnerDied, match=r"slice 2 of 3 \(task "):
        C.iterates(9).map(lambda n: os._exit(3) if n == 8 else n).collect()
    assert C.iterates(9).map(F + 1).reduce(add, 0) == 45


def test_results_that_are_nonsense_are_refused(C):
    with pytest.raises(TypeError, match="what has to leave its slice cannot be pickled"):
        C.iterates(3).map(lambda n: threading.Lock()).collect()
    with pytest.raises(TypeError, match="has to return a list, not a int"):
        C.iterates(3).flatMap(lambda n: n).len()


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(tmp_path):
    with hq.LocalCluster(workers=2, cpus=1) as cluster, cluster.executor() as executor:
        C = Context(executor=executor, procs=6)
        workers = [process.pid for process in cluster._children._processes[1:]]
        begun = tmp_path / "begun"

        def kill_once(n):
            # The first call that comes here kills the worker that it is of, as the launcher ends with that.
            if n == 7:
                try:
                    begun.mkdir()
                except FileExistsError:
                    return n
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)
                while True:
                    pass
            return n

        d = C.iterates(30).map(kill_once)
        assert d.reduce(add, 0) == sum(range(30))
        assert d.map(lambda n: bytes(20_000)).len() == 30 and begun.exists()


BYTES = 20_000


def long(n):
    return [n] * BYTES


def join(blocks):
    return [one for block in blocks for one in block]


def ends(left, right):
    # As long as what is joined, so that it stays in a store, too.
    return [left[0]] + right[1:]


NEXT = {
    "map": (lambda d: d.map(lambda one: one[0]).collect(), list(range(8))),
    "collect": (lambda d: [one[0] for one in d.collect()], list(range(8))),
    "reduce": (lambda d: d.reduce(ends, initial=[0])[:2], [0, 7]),
    "scan": (lambda d: [one[1] for one in d.scan(ends).collect()], list(range(8))),
    "group": (
        lambda d: d.group(lambda one, out: out.setdefault(one[0] % 3, []).append(one), join, 3).map(lambda one: one[::BYTES]).collect(),
        [[0, 3, 6], [1, 4, 7], [2, 5]],
    ),
    "repartition": (
        lambda d: d.repartition(len, lambda one, ranges: [one[i:j] for i, j in ranges], join, 4).map(lambda one: one[::BYTES]).collect(),
        [[0, 1], [2, 3], [4, 5], [6, 7]],
    ),
}


@pytest.fixture(scope="module")
def fragile():
    """A cluster of workers that are killed, each with a store of its own, and what kills those that are there."""
    with hq.LocalCluster(workers=2, cpus=1) as cluster, cluster.executor() as executor:

        def kill():
            before = {worker.id for worker in cluster.client().workers()}
            for process in [one for one in cluster._children._processes[1:] if one.poll() is None]:
                process.kill()
            ends = time.monotonic() + 60
            while before & {worker.id for worker in cluster.client().workers()}:
                assert time.monotonic() < ends, "killed workers are there for ever"
            cluster.wait_for_workers(2)

        yield Context(executor=executor, procs=4), kill


def test_slices_are_made_once_more_when_their_workers_are_killed(fragile):
    C, kill = fragile
    # Of each kind of question a list of its own, all lost at once.
    lists = {what: C.iterates(8).map(long) for what in NEXT}
    for future in [d.submit() for d in lists.values()]:
        future.result()
    kill()
    for what, (ask, expected) in NEXT.items():
        assert ask(lists[what]) == expected, what


def test_a_chain_is_made_once_more_from_its_beginning(fragile):
    C, kill = fragile
    d = C.iterates(8).map(long)
    d = d.group(lambda one, out: out.setdefault(one[0] % 4, []).append(one), join, 4)
    d = d.map(lambda one: one[::-1]).store("disk")
    assert d.len() == 4
    kill()
    assert d.map(lambda one: one[::BYTES]).collect() == [[4, 0], [5, 1], [6, 2], [7, 3]]
    kill()
    assert [one[0] for one in d.collect()] == [4, 5, 6, 7]


def test_an_executor_that_is_shut_down_in_the_middle_ends_the_list(cluster, tmp_path):
    executor = hq.Executor(cluster=cluster)
    C = Context(executor=executor, procs=4)
    begun = tmp_path / "begun"
    os.mkfifo(begun)

    def stop():
        begun.read_text()
        executor._session.interrupt()

    def spin(n):
        if n == 0:
            begun.write_text("begun")
            while True:
                pass
        return n

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(BaseException) as raised:
        C.iterates(8).map(spin).collect()
    thread.join(60)
    assert type(raised.value).__name__ in ("CancelledError", "ClusterStopped", "RuntimeError"), raised
    executor.shutdown()


def test_a_program_of_mpi_list_runs_on_workers(cluster, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from mpi_list import Context, DFM, F\n"
        "C = Context()\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "points = C.iterates(10).map(Point)\n"
        "assert all(isinstance(one, Point) for one in points.collect()) and points._node.slices is not None\n"
        "total = points.map(F('x') * 2).reduce(lambda a, b: a + b, 0)\n"
        "print(total, C.backend, C.procs)\n"
    )
    env = {**os.environ, "HQ_SERVER_DIR": cluster.server_dir}
    line = [sys.executable, "-m", "headquarters.alias", "mpi_list", str(program)]
    ran = subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "90 tasks 2\n", "")
    assert [*tmp_path.iterdir()] == [program]


def test_lists_within_a_call(executor):
    def within():
        from headquarters.lists import Context

        C = Context("tasks", procs=3)
        return C.iterates(10).map(lambda n: n * n).reduce(lambda a, b: a + b, 0)

    assert executor.submit(within).result(60) == 285
