"""Functions on ranks of a real MPI: that of the wheel beside the interpreter, whose launcher is found there."""

import os
import re
import signal
import sys
import time
import venv
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import headquarters as hq
from headquarters import _options

SHARED = Path("/dev/shm")


@pytest.fixture(scope="module")
def cluster():
    with hq.LocalCluster(cpus=4) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def shared_memory():
    """What MPI leaves there is removed, whatever has become of its ranks."""
    before = {path.name for path in SHARED.iterdir()}
    yield
    left = {path.name for path in SHARED.iterdir()} - before
    assert not [name for name in left if name.startswith("mpich_shm")], left


@pytest.fixture(scope="module")
def shared(cluster):
    """An executor whose worlds stay from test to test."""
    with hq.Executor(cluster=cluster) as executor:
        yield executor


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_launcher_of_ranks_cleans_up_when_their_worker_ends(is_busy):
    files = set(Path("/tmp").glob("hydra_hwloc_xmlfile_*"))
    with hq.LocalCluster(cpus=2) as cluster:
        executor = hq.Executor(cluster=cluster, ranks=2)
        assert executor.submit(lambda comm: comm.size).result(60) == 2
        if is_busy:
            executor.submit(lambda comm: time.sleep(1000))
    assert set(Path("/tmp").glob("hydra_hwloc_xmlfile_*")) == files


def whole(x, comm):
    return comm.size, comm.allreduce(x * (comm.rank + 1)), os.getpid(), int(os.environ["HQ_RANK"])


def test_the_value_is_that_of_rank_0_or_of_all(shared):
    on_three = shared.options(ranks=3)
    size, total, pid, rank = on_three.submit(whole, 2).result(60)
    assert (size, total, rank) == (3, 12, 0)
    rows = on_three.options(gather=True).submit(whole, 1).result(60)
    assert [row[3] for row in rows] == [0, 1, 2] and {row[1] for row in rows} == {6}
    # The same processes, of which none is another rank.
    assert rows[0][2] == pid and len({row[2] for row in rows}) == 3


def test_a_communicator_is_of_one_call(shared):
    def leaves(comm):
        # Nobody receives it.
        comm.isend("lost", (comm.rank + 1) % comm.size).Free()

    def looks(comm):
        comm.barrier()
        return comm.iprobe()

    on_two = shared.options(ranks=2, gather=True)
    for _ in range(5):
        on_two.submit(leaves).result(60)
        assert on_two.submit(looks).result(60) == [False, False]


def test_large_values_and_arguments_reach_all_ranks(shared):
    data = bytes(200_000)
    sizes = shared.options(ranks=2, gather=True).submit(lambda data, comm: (comm.rank, data), data).result(60)
    assert sizes == [(0, data), (1, data)]
    doubled = shared.options(ranks=2).submit(lambda data, comm: data * comm.size, shared.submit(bytes, 100_000))
    assert len(doubled.result(60)) == 200_000


def test_a_world_of_its_own(cluster):
    def f():
        from mpi4py import MPI

        return os.getpid(), MPI.COMM_WORLD.size, MPI.COMM_WORLD.allreduce(1)

    with hq.Executor(cluster=cluster, ranks=2, mpi="world") as executor:
        first, second = (executor.submit(f).result(60) for _ in range(2))
    assert first[1:] == second[1:] == (2, 2) and first[0] != second[0]


def test_prints_of_all_ranks_are_kept(shared):
    def says(comm):
        if comm.rank:
            print("one")
            print("two", file=sys.stderr)
        else:
            print("zero")

    future = shared.options(ranks=2).submit(says)
    future.result(60)
    assert future.output() == "zero\n[rank 1] one\n", future.output()


def test_an_exception_of_a_rank_is_that_of_the_call(shared):
    def fails(comm, waits):
        if comm.rank == 1:
            raise KeyError("one")
        if waits:
            comm.recv(source=1)
        return comm.rank

    on_two = shared.options(ranks=2)
    pids = on_two.options(gather=True).submit(lambda comm: os.getpid()).result(60)
    error = on_two.submit(fails, waits=False).exception(60)
    assert isinstance(error, KeyError) and error.args == ("one",)
    assert "On rank 1 of 2" in str(error.__cause__)
    error = on_two.options(gather=True).submit(fails, waits=False).exception(60)
    assert isinstance(error, KeyError)
    assert on_two.options(gather=True).submit(lambda comm: os.getpid()).result(60) == pids
    # Where others wait for it in vain, the world is another one afterwards.
    error = on_two.submit(fails, waits=True).exception(60)
    assert isinstance(error, KeyError) and "On rank 1 of 2" in str(error.__cause__)
    later = on_two.options(gather=True).submit(lambda comm: os.getpid()).result(60)
    assert not {*later} & {*pids}


def test_a_call_that_rank_0_returns_is_its_value(shared):
    def returns(comm):
        return hq.current().submit(pow, 2, comm.size) if not comm.rank else None

    assert shared.options(ranks=2).submit(returns).result(60) == 4


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "Rank 1 was ended before the function returned"),
        (lambda: os._exit(3), "Rank 1 exited with code 3 before the function returned"),
        (lambda: os._exit(0), "Rank 1 exited with code 0 before the function returned"),
        (lambda: os.closerange(3, 256), "On rank 1: The function has closed the connection"),
    ],
)
def test_only_the_call_of_a_rank_that_dies_fails(shared, end, said):
    def dies(comm):
        if comm.rank == 1:
            end()
        comm.barrier()

    on_two = shared.options(ranks=2)
    died, other = on_two.submit(dies), on_two.submit(lambda comm: comm.size)
    error = died.exception(60)
    assert isinstance(error, hq.RunnerDied) and said in str(error), error
    assert other.result(60) == 2
    assert on_two.submit(lambda comm: comm.size).result(60) == 2


def test_time_limits_and_kill_reach_all_ranks(shared, tmp_path):
    def hangs(directory, comm):
        Path(directory, str(comm.rank)).write_text(str(os.getpid()))
        comm.barrier()
        comm.recv(source=(comm.rank + 1) % comm.size)

    def pids():
        return [int(path.read_text()) for path in tmp_path.iterdir() if path.read_text()]

    error = shared.options(ranks=2, time_limit="2s", kill_grace="200ms").submit(hangs, str(tmp_path)).exception(60)
    assert isinstance(error, hq.TaskTimeout) and len(pids()) == 2
    running = shared.options(ranks=2, kill_grace="200ms").submit(hangs, str(tmp_path))
    while not running.running():
        pass
    running.kill()
    with pytest.raises(CancelledError):
        running.result(60)
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids()):
        assert time.monotonic() < until, pids()


def test_an_environment_without_mpi4py_says_so(cluster, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    env = hq.PythonEnv(venv=tmp_path / "bare")
    with hq.Executor(cluster=cluster, env=env) as executor:
        error = executor.options(ranks=2).submit(pow, 2, 3).exception(60)
    assert isinstance(error, hq.EnvironmentBroken) and "pip install mpi4py" in str(error), error


def test_options_are_checked():
    for options, text in [
        ({"gather": True}, "gather belongs to calls on ranks"),
        ({"ranks": 2, "cpus": 2}, "give cpus_per_rank"),
        ({"ranks": 3, "nodes": 2}, "give a multiple of 2"),
        ({"ranks": 2, "mpi": "cold"}, "give 'warm' or 'world'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            _options.to_json(_options.merged({}, options))


def test_tasks_of_jobs_have_ranks(cluster, tmp_path):
    job = hq.Job(default_workdir=tmp_path)
    summed = job.function(whole, args=(3,), ranks=2)
    client = cluster.client()
    submitted = client.submit(job)
    assert submitted.result(summed, 60)[:2] == (2, 9)


def test_a_decorated_function_has_ranks(shared):
    @hq.task(ranks=2)
    def size(comm):
        return comm.size

    assert size.on(shared).submit().result(60) == 2
