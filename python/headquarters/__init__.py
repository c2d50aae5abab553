"""Headquarters: a task runtime for clusters.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import aio as aio
    from ._base import Forked as Forked
    from ._base import HqError as HqError
    from ._base import NativeError as NativeError
    from ._base import ServerLost as ServerLost
    from ._environment import EnvironmentReport as EnvironmentReport
    from ._environment import PythonEnv as PythonEnv
    from ._errors import ArgumentsNotPicklable as ArgumentsNotPicklable
    from ._errors import ClusterStopped as ClusterStopped
    from ._errors import DependencyFailed as DependencyFailed
    from ._errors import EnvironmentBroken as EnvironmentBroken
    from ._errors import JobAborted as JobAborted
    from ._errors import NotStored as NotStored
    from ._errors import ObjectLost as ObjectLost
    from ._errors import Refused as Refused
    from ._errors import RemoteError as RemoteError
    from ._errors import RemoteTraceback as RemoteTraceback
    from ._errors import ResultLost as ResultLost
    from ._errors import ResultNotPicklable as ResultNotPicklable
    from ._errors import ResultTooLarge as ResultTooLarge
    from ._errors import RunnerDied as RunnerDied
    from ._errors import TaskTimeout as TaskTimeout
    from ._errors import TooManyCrashes as TooManyCrashes
    from ._executor import Executor as Executor
    from ._executor import current as current
    from ._future import Future as Future
    from ._notebook import progress as progress
    from ._objects import Lazy as Lazy
    from ._objects import Ref as Ref
    from ._objects import get as get
    from ._objects import lazy as lazy
    from ._job_options import JobOptions as JobOptions
    from ._options import TaskOptions as TaskOptions
    from ._pickling import by_value as by_value
    from ._results import Results as Results
    from ._waiting import as_completed as as_completed
    from ._waiting import gather as gather
    from ._waiting import wait as wait
    from . import mpi as mpi
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
    from .task.task import Task as Task
    from .validation import ValidationException as ValidationException
    from .visualization import visualize_job as visualize_job
    from ._task import task as task

# Where each public name is defined.
_PLACES: dict[str, str] = {
    "ArgumentsNotPicklable": "._errors",
    "Client": ".client",
    "ClientConnection": ".ffi.client",
    "ClusterError": ".cluster",
    "ClusterStopped": "._errors",
    "DependencyFailed": "._errors",
    "EnvironmentBroken": "._errors",
    "EnvironmentReport": "._environment",
    "Event": ".client",
    "Executor": "._executor",
    "FailedJobsException": ".client",
    "Forked": "._base",
    "Future": "._future",
    "HqError": "._base",
    "Job": ".job",
    "JobAborted": "._errors",
    "JobInfo": ".client",
    "Lazy": "._objects",
    "LocalCluster": ".cluster",
    "NativeError": "._base",
    "JobOptions": "._job_options",
    "NotStored": "._errors",
    "ObjectLost": "._errors",
    "PythonEnv": "._environment",
    "Ref": "._objects",
    "Refused": "._errors",
    "RemoteError": "._errors",
    "RemoteTraceback": "._errors",
    "ResourceRequest": ".ffi.protocol",
    "ResultLost": "._errors",
    "ResultNotPicklable": "._errors",
    "ResultTooLarge": "._errors",
    "Results": "._results",
    "RunnerDied": "._errors",
    "ServerLost": "._base",
    "StdioDef": ".output",
    "SubmittedJob": ".job",
    "Task": ".task.task",
    "TaskInfo": ".client",
    "TaskOptions": "._options",
    "TaskTimeout": "._errors",
    "TooManyCrashes": "._errors",
    "ValidationException": ".validation",
    "WorkerConfig": ".cluster",
    "WorkerInfo": ".client",
    "aio": ".aio",
    "as_completed": "._waiting",
    "by_value": "._pickling",
    "current": "._executor",
    "gather": "._waiting",
    "get": "._objects",
    "get_version": ".ffi",
    "progress": "._notebook",
    "lazy": "._objects",
    "mpi": ".mpi",
    "visualize_job": ".visualization",
    "wait": "._waiting",
    "task": ".task",
}

__all__ = list(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(place, __name__)
    # The package of tasks is also the decorator.
    value = module if place == "." + name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
