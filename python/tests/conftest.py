"""A cluster that the tests of a file share, each in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headquarters import Client, LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(workers=1, cpus=4, resources={"gpus": 2}, journal=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.chdir(tmp_path)
    return cluster.client()
