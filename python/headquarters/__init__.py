"""Headquarters: a task runtime for clusters.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._base import Forked as Forked
    from ._base import NativeError as NativeError
    from ._base import ServerLost as ServerLost
    from ._executor import Executor as Executor
    from .client import Client as Client
    from .client import Event as Event
    from .client import FailedJobsException as FailedJobsException
    from .client import JobInfo as JobInfo
    from .client import TaskInfo as TaskInfo
    from .client import WorkerInfo as WorkerInfo
    from .cluster import ClusterError as ClusterError
    from .cluster import LocalCluster as LocalCluster
    from .cluster import WorkerConfig as WorkerConfig
    from .ffi import get_version as get_version
    from .ffi.client import ClientConnection as ClientConnection
    from .ffi.protocol import ResourceRequest as ResourceRequest
    from .job import Job as Job
    from .job import SubmittedJob as SubmittedJob
    from .output import StdioDef as StdioDef
    from .task.function import PythonEnv as PythonEnv
    from .task.task import Task as Task
    from .validation import ValidationException as ValidationException
    from .visualization import visualize_job as visualize_job

# Where each public name is defined.
_PLACES: dict[str, str] = {
    "Client": ".client",
    "ClientConnection": ".ffi.client",
    "ClusterError": ".cluster",
    "Event": ".client",
    "Executor": "._executor",
    "FailedJobsException": ".client",
    "Forked": "._base",
    "Job": ".job",
    "JobInfo": ".client",
    "LocalCluster": ".cluster",
    "NativeError": "._base",
    "PythonEnv": ".task.function",
    "ResourceRequest": ".ffi.protocol",
    "ServerLost": "._base",
    "StdioDef": ".output",
    "SubmittedJob": ".job",
    "Task": ".task.task",
    "TaskInfo": ".client",
    "ValidationException": ".validation",
    "WorkerConfig": ".cluster",
    "WorkerInfo": ".client",
    "get_version": ".ffi",
    "visualize_job": ".visualization",
}

__all__ = list(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(place, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
