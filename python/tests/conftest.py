import sys

import pytest

import fake


class Cluster:
    """A place without a server."""

    server_dir = "/nowhere"
    stopped = False


@pytest.fixture
def make(monkeypatch):
    """Makes an executor and its fake; all are shut down at the end."""
    from headquarters._executor import Executor

    made = []

    def make(automatic=False, calls=None, **options):
        calls = calls or fake.Calls()
        calls.is_automatic = automatic
        monkeypatch.setitem(sys.modules, "headquarters._native", fake.module([calls]))
        executor = Executor(cluster=Cluster(), **options)
        made.append((executor, calls))
        return executor, calls

    yield make
    for executor, calls in made:
        if calls.lost is None:
            calls.on_submit = None
            for task in sorted(calls.tasks):
                if task not in calls.ended:
                    calls.end(task, 2)
            executor.shutdown(wait=True, cancel_futures=True)
        # Not before: its threads write there as long as it is open.
        if calls.stores is not None:
            calls.stores.remove()
    fake.ALL_VALUES.clear()


@pytest.fixture(scope="module")
def cluster():
    """A real cluster, for a module of tests."""
    import headquarters as hq

    with hq.LocalCluster(cpus=2) as cluster:
        yield cluster


@pytest.fixture
def executor(cluster):
    """An executor there."""
    import headquarters as hq

    with hq.Executor(cluster=cluster) as executor:
        yield executor
