"""Large values on a real server, workers and interpreters."""

import gc
import logging
import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

import headquarters as hq
from headquarters import _limits as limits

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def three():
    """A cluster with three workers of one CPU."""
    with hq.LocalCluster(workers=3, cpus=1) as cluster:
        cluster.wait_for_workers(3)
        yield cluster


@pytest.fixture
def executor(three):
    with hq.Executor(cluster=three) as executor:
        yield executor


def array(size, fill=1):
    return numpy.full(size, fill, dtype="u1")


def write_and_sum(values):
    before = int(values.sum())
    values[:] = 0
    return before, int(values.sum())


def files_of(cluster):
    """What the stores of the workers of a cluster have."""
    from headquarters._native_types import open_objects

    found = []
    for store in open_objects(cluster.server_dir).stores():
        found += [name for name in os.listdir(store["dir"]) if name.startswith("v-")]
        found += os.listdir(os.path.join(store["dir"], "put"))
    return found


def until(condition):
    """Waits for what comes soon; each look asks the server."""
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, "it does not come"


def test_100_mb_there_and_back_by_several_workers(executor):
    made = executor.submit(array, 100 * MEGABYTE)
    sums = [executor.submit(write_and_sum, made) for _ in range(6)]
    assert [one.result(120) for one in sums] == [(100 * MEGABYTE, 0)] * 6
    assert len({one.worker for one in sums}) > 1
    value = made.result()
    assert value.nbytes == 100 * MEGABYTE and value.all() and made.result() is value
    value[:] = 0
    assert executor.submit(write_and_sum, made).result(120) == (100 * MEGABYTE, 0)
    assert made.stored().where()["is_near"]


def test_put_is_there_for_all_of_them(executor):
    ref = executor.put(array(20 * MEGABYTE))
    for value in ([ref], {"a": {"b": ref}}):
        assert executor.submit(_dig, value).result(60) == 20 * MEGABYTE
    assert sum(executor.map(_dig, [ref] * 10)) == 200 * MEGABYTE
    assert ref.get().all() and ref.where()["state"] == "stored"
    again = executor.put(ref.get())
    assert executor.submit(numpy.array_equal, ref, again).result(60)


def _dig(value):
    while not isinstance(value, numpy.ndarray):
        value = list(value.values())[0] if isinstance(value, dict) else value[0]
    return int(value.sum())


def test_many_refs_at_once(executor):
    refs = [executor.put(array(20_000 + at)) for at in range(50)]
    assert executor.submit(_sizes, refs).result(60) == [20_000 + at for at in range(50)]
    made = [executor.submit(array, 20_000 + at) for at in range(50)]
    assert executor.submit(_sizes, made).result(60) == [20_000 + at for at in range(50)]
    assert [len(value) for value in hq.get(made)] == [20_000 + at for at in range(50)]


def _sizes(values):
    return [len(value) for value in values]


def test_a_lazy_value_is_loaded_by_who_asks(executor):
    ref = executor.put(array(MEGABYTE))
    assert executor.submit(_asked, hq.lazy(ref)).result(60) == (MEGABYTE, True)
    assert executor.submit(_asked, hq.lazy(executor.submit(array, MEGABYTE))).result(60) == (MEGABYTE, True)


def _asked(handle):
    return int(handle.get().sum()), handle.nbytes > MEGABYTE


def test_large_arguments_go_through_a_store(executor):
    values = array(3 * MEGABYTE)
    futures = [executor.submit(_both, values, key=values) for _ in range(4)]
    assert [future.result(60) for future in futures] == [6 * MEGABYTE] * 4
    assert list(executor.map(len, [b"x" * 2 * MEGABYTE, [values, values]])) == [2 * MEGABYTE, 2]
    keyed = executor.submit_named("a", _both, values, key=1)
    assert executor.submit_named("a", _both, values.copy(), key=1) is keyed and keyed.result(60) == 3 * MEGABYTE + 1
    with pytest.raises(hq.Refused):
        executor.submit_named("a", _both, values + 1, key=1)


def _both(first, key):
    return int(first.sum()) + int(numpy.sum(key))


def test_a_key_holds_for_large_arguments_of_a_program_that_starts_again(three):
    values = array(3 * MEGABYTE)
    first = hq.Executor(cluster=three, name="again")
    assert first.submit_named("a", _both, values, key=1).result(60) == 3 * MEGABYTE + 1
    again = hq.Executor(cluster=three, job=first.job_id)
    assert again.submit_named("a", _both, values.copy(), key=1).result(60) == 3 * MEGABYTE + 1
    again.shutdown()
    first.shutdown()


def test_values_that_nobody_needs_go(three):
    with hq.Executor(cluster=three) as executor:
        of_job = f"v-{executor.job_id}-"
        made, ref = executor.submit(array, MEGABYTE), executor.put(array(MEGABYTE))
        assert executor.submit(_both, made, ref).result(60) == 2 * MEGABYTE
        kept = executor.put(array(MEGABYTE)).keep()
        assert sum(name.startswith(of_job) for name in files_of(three)) >= 3
        name = f"{of_job}{kept._value.named.task}-0"
        del made, ref, kept
        gc.collect()
        until(lambda: [one for one in files_of(three) if one.startswith(of_job)] == [name])


def test_drop_and_what_comes_after(executor):
    ref = executor.put(array(MEGABYTE))
    ref.drop()
    with pytest.raises(hq.ObjectLost, match="it was dropped"):
        ref.get()
    assert isinstance(executor.submit(_dig, ref).exception(60), hq.ObjectLost)
    assert executor.put(array(MEGABYTE)).get().all()


def test_what_does_not_pickle_leaves_nothing(three, executor):
    before = files_of(three)
    with pytest.raises(hq.ArgumentsNotPicklable, match=r"the value\[1\] cannot be sent"):
        executor.put([array(MEGABYTE), (one for one in ())])
    error = executor.submit(_a_generator).exception(60)
    assert isinstance(error, hq.ResultNotPicklable)
    assert sorted(files_of(three)) == sorted(before)


def _a_generator():
    return [array(MEGABYTE), (one for one in ())]


def test_within_calls(executor):
    assert executor.submit(_nested, 3 * MEGABYTE).result(120) == 3 * MEGABYTE + 2 * MEGABYTE


def _nested(size):
    inner = hq.current()
    made = inner.submit(array, size)
    ref = inner.put(array(MEGABYTE))
    parts = [inner.submit(_dig, [made]), inner.submit(_dig, [ref]), inner.submit(_dig, [array(MEGABYTE)])]
    assert made.result().all()
    return sum(part.result() for part in parts)


def test_refs_and_futures_come_back(three, executor):
    made = executor.submit(_gives, MEGABYTE)
    small, large = made.result(120), executor.submit(_gives, MEGABYTE, 100_000).result(120)
    for value in (small, large):
        assert isinstance(value["ref"], hq.Ref) and value["ref"].nbytes > MEGABYTE
        assert value["ref"].get().sum() == MEGABYTE
        assert value["call"].result(60) == 81
        assert value["stored"].result(120).sum() == 2 * MEGABYTE
    # Among the arguments of a call they are Refs as well, and values where they are arguments themselves.
    assert executor.submit(_looks, made).result(120) == MEGABYTE
    assert executor.submit(numpy.sum, small["ref"]).result(60) == MEGABYTE
    of_job = f"v-{executor.job_id}-"
    assert sum(name.startswith(of_job) for name in files_of(three)) >= 4
    del value, small, made
    gc.collect()
    assert large["ref"].get().sum() == MEGABYTE
    del large
    until(lambda: not any(name.startswith(of_job) for name in files_of(three)))


@pytest.mark.parametrize("waits", [False, True])
def test_calls_that_are_returned_may_return_refs(executor, waits):
    found = executor.submit(_digs, 3, waits).result(120)
    assert isinstance(found, hq.Ref)
    gc.collect()
    # The interpreters that have let go of it have said all they have to say.
    assert executor.submit(len, found).result(60) == 4 and found.get() == "deep"
    assert executor.put([found]).get() == ["deep"]


def _digs(depth, waits):
    inner = hq.current()
    if depth == 0:
        return inner.put("deep")
    found = inner.submit(_digs, depth - 1, waits)
    if waits:
        found.result(120)
    return found


def _gives(size, more=0):
    inner = hq.current()
    doubled = inner.submit(array, 2 * size)
    return {"ref": inner.put(array(size)), "call": inner.submit(pow, 3, 4), "stored": doubled, "more": array(more)}


def _looks(value):
    assert isinstance(value["ref"], hq.Ref)
    return int(value["ref"].get().sum())


def test_two_executors_of_one_server(three):
    with hq.Executor(cluster=three) as first, hq.Executor(cluster=three) as second:
        ref, made = first.put(array(MEGABYTE)), first.submit(array, MEGABYTE)
        assert second.submit(_both, ref, made).result(60) == 2 * MEGABYTE


def _link(before, place):
    """Gives what is before it on, in another way at each place."""
    found = before.get() if isinstance(before, hq.Ref) else before
    count = int(found if isinstance(found, int) else found.flat[0]) + 1
    kind = place % 6
    if kind == 1:
        return numpy.full(MEGABYTE // 4, count, dtype="u4")
    if kind == 2:
        return hq.current().put(numpy.full(10, count))
    if kind == 3:
        return hq.current().submit(int, count)
    if kind == 4:
        print(f"link {place}")
    if kind == 5:
        return hq.current().put(count)
    return count


def test_a_chain_of_calls_gives_each_what_the_one_before_it_returned(three):
    with hq.Executor(cluster=three) as executor:
        plain = executor.submit(abs, 0)
        for place in range(300):
            plain = executor.submit(_link, plain, 6 * place)
        assert plain.result(120) == 300
        mixed = [executor.submit(abs, 0)]
        for place in range(60):
            mixed.append(executor.submit(_link, mixed[-1], place))
        last = mixed[-1].result(120)
        assert (last.get() if isinstance(last, hq.Ref) else last) == 60
        assert mixed[5].output() == "link 4\n"
        failed = [executor.submit(abs, 0)]
        for place in range(20):
            failed.append(executor.submit(_link, failed[-1] if place != 10 else "no number", 0))
        assert isinstance(failed[11].exception(60), AttributeError)
        assert isinstance(failed[-1].exception(60), hq.DependencyFailed)
        assert failed[10].result(60) == 10


def test_calls_go_where_their_values_are(three):
    with hq.Executor(cluster=three) as executor:
        made = [executor.submit(array, MEGABYTE) for _ in range(6)]
        hq.wait(made, 60)
        for one in [*made, *made]:
            # One at a time, with none of the above running still, so that there is room everywhere.
            assert executor.submit(_dig, [one]).result(60) == MEGABYTE
        assert all(len(one.stored().where()["workers"]) == 1 for one in made)


def _parts(value):
    return [int(value["put"].sum()), int(value["made"][0].sum()), int(value["late"].get().sum()), value["short"]]


def test_what_is_put_may_hold_others(three):
    with hq.Executor(cluster=three) as executor:
        put, made, short = executor.put(array(MEGABYTE)), executor.submit(array, MEGABYTE), executor.submit(abs, -1)
        whole = executor.put({"put": put, "made": [made], "late": hq.lazy(made), "short": short})
        assert executor.submit(_parts, whole).result(60) == [MEGABYTE, MEGABYTE, MEGABYTE, 1]
        del put, made, short
        assert executor.submit(_parts, executor.put(whole)).result(60) == [MEGABYTE, MEGABYTE, MEGABYTE, 1]
        assert whole.get()["put"].all() and whole.get()["made"][0].all() and whole.get()["short"] == 1


def test_values_of_an_executor_that_has_ended(three):
    with hq.Executor(cluster=three) as first:
        made, ref = first.submit(array, MEGABYTE), first.put(array(MEGABYTE))
    assert made.result().all() and ref.get().all()
    with hq.Executor(cluster=three) as second:
        assert second.submit(_dig, ref).result(60) == second.submit(_dig, made).result(60)
    with hq.Executor(1) as private:
        made = private.submit(array, MEGABYTE)
    assert made.result().all()


def test_a_lost_value_is_made_once_more(three):
    with hq.LocalCluster(workers=1, cpus=1) as cluster, hq.Executor(cluster=cluster) as executor:
        cluster.wait_for_workers(1)
        first = executor.submit(array, MEGABYTE)
        second = executor.submit(_plus_one, first)
        put = executor.put(array(MEGABYTE))
        assert second.exception(60) is None
        (worker,) = cluster.client().workers()
        os.kill(worker.pid, signal.SIGKILL)
        until(lambda: second.stored().where()["state"] == "lost")
        assert executor.submit(_dig, [second]).result(60) == 2 * MEGABYTE
        assert (second.result() == 2).all() and first.result().all()
        with pytest.raises(hq.ObjectLost, match=r"the value of \d+@\d+ .* cannot be had"):
            put.get()


def _plus_one(values):
    return values + 1


def test_a_value_that_is_lost_is_made_once_more_for_the_program(three):
    with hq.LocalCluster(workers=1, cpus=1) as cluster, hq.Executor(cluster=cluster) as executor:
        cluster.wait_for_workers(1)
        made = executor.submit(array, MEGABYTE)
        assert made.exception(60) is None
        (worker,) = cluster.client().workers()
        os.kill(worker.pid, signal.SIGKILL)
        assert made.result().all()


def start_worker(cluster, name, *words):
    log = open(os.path.join(cluster.server_dir, name), "ab")
    argv = cluster._argv("worker", "start", "--manager", "none", "--cpus", "1", *words)
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)


class Heard(logging.Handler):
    """Hands on what is logged."""

    def __init__(self):
        super().__init__()
        self.said = queue.SimpleQueue()

    def emit(self, record):
        self.said.put(record.getMessage())


@pytest.mark.parametrize("store", ["--no-object-store", "--object-store={}/small:1MiB"])
def test_no_store_or_one_that_is_too_small(store, tmp_path, monkeypatch):
    cluster = hq.LocalCluster(workers=0)
    worker = start_worker(cluster, "worker-x", store.format(tmp_path))
    cluster._workers = 1
    try:
        cluster.wait_for_workers(1)
        with hq.Executor(cluster=cluster) as executor:
            with pytest.raises(hq.NotStored, match="there is no worker that stores|the largest store of a worker has"):
                executor.put(array(3 * MEGABYTE))
            error = executor.submit(array, 3 * MEGABYTE).exception(60)
            assert isinstance(error, (hq.ResultTooLarge, hq.NotStored)), error
            assert executor.submit(len, "x" * 500_000).result(60) == 500_000
            error = executor.submit(len, "x" * 3 * MEGABYTE).exception(60)
            assert isinstance(error, hq.ArgumentsNotPicklable) and "Not put into a store" in str(error)
            if store == "--no-object-store":
                monkeypatch.setattr(limits, "STORELESS_S", 0)
                heard = Heard()
                logging.getLogger("headquarters").addHandler(heard)
                waits = executor.submit(str, executor.submit(abs, -1))
                text = heard.said.get(timeout=60)
                assert text.startswith("no worker stores values (there is 1, without an object store)"), text
                logging.getLogger("headquarters").removeHandler(heard)
                assert waits.cancel()
    finally:
        worker.stdin.close()
        worker.wait(60)
        cluster.stop()


@pytest.fixture(scope="module")
def far():
    """A cluster with two workers that are called as if they were elsewhere."""
    cluster = hq.LocalCluster(workers=0)
    workers = [start_worker(cluster, f"far-{at}", "--hostname", f"far-{at}") for at in range(2)]
    cluster._workers = 2
    cluster.wait_for_workers(2)
    yield cluster
    for worker in workers:
        worker.stdin.close()
        worker.wait(60)
    cluster.stop()


def test_values_on_other_nodes(far):
    with hq.Executor(cluster=far) as executor:
        made = executor.submit(array, 20 * MEGABYTE)
        value = made.result()
        assert value.all() and value.nbytes == 20 * MEGABYTE and not made.stored().where()["is_near"]
        value[:] = 0
        assert executor.submit(_dig, [made]).result(60) == 20 * MEGABYTE
        assert [len(value) for value in executor.map(array, range(20_000, 20_030))] == list(range(20_000, 20_030))


def test_values_are_put_on_other_nodes(far):
    with hq.Executor(cluster=far) as executor:
        ref = executor.put(array(20 * MEGABYTE))
        sums = [executor.submit(_dig, [ref]) for _ in range(4)]
        assert [one.result(60) for one in sums] == [20 * MEGABYTE] * 4 and ref.get().all()
        assert executor.submit(_dig, array(MEGABYTE)).result(60) == MEGABYTE
    assert not [name for name in files_of(far) if name.startswith("n-")]


def test_a_program_that_is_killed_in_a_put_leaves_nothing(three, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, sys, numpy\n"
        "import headquarters as hq\n"
        "from headquarters import _values\n"
        "write = _values._write\n"
        "def killed(file, part, offset):\n"
        "    write(file, part, offset)\n"
        "    if offset:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "_values._write = killed\n"
        "hq.Executor(cluster=sys.argv[1]).put(numpy.zeros(100_000))\n"
    )
    ran = subprocess.run([sys.executable, str(script), three.server_dir], timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert [name for name in files_of(three) if name.startswith("c-")]
    with hq.Executor(cluster=three) as executor:
        # Each store looks when it takes the next one.
        refs = [executor.put(array(MEGABYTE)) for _ in range(12)]
        until(lambda: not [name for name in files_of(three) if name.startswith("c-")])
        assert len(refs) == 12


def test_values_of_jobs(three):
    job = hq.Job(name="large", default_workdir=Path(three.server_dir))
    task = job.function(array, args=(MEGABYTE,))
    submitted = three.client().submit(job)
    assert submitted.result(task, timeout=60).all()


def test_a_cluster_without_workers_starts_one_for_a_put():
    with hq.LocalCluster() as cluster, hq.Executor(cluster=cluster) as executor:
        ref = executor.put(array(MEGABYTE))
        assert executor.submit(_dig, [ref]).result(60) == MEGABYTE
