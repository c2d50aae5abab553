"""Clusters on this machine, below `LocalCluster`."""

from __future__ import annotations

from ..cluster import LocalCluster, WorkerConfig
from ..common import GenericPath


class Cluster:
    """A server and workers on this machine."""

    def __init__(self, directory: GenericPath | None = None) -> None:
        self.directory = directory
        self.ctx = LocalCluster(directory)

    def add_worker(self, cores: int) -> None:
        """Adds a worker with so many CPUs."""
        self.ctx.start_worker(WorkerConfig(cores=cores))

    @property
    def server_dir(self) -> str:
        """Directory of the server."""
        return self.ctx.server_dir

    def stop(self) -> None:
        """Ends all of it."""
        self.ctx.stop()
