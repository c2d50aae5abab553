"""What the extension offers for calls: its types, the numbers of states, and how it is loaded."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .validation import read_elsewhere

if TYPE_CHECKING:
    from ._native import Batch as Batch
    from ._native import Calls as Calls
    from ._native import End as End
    from ._native import Objects as Objects
    from ._native import Store as Store
    from ._native import Stored as Stored

FINISHED = 0
FAILED = 1
CANCELED = 2
ABORTED = 3


def open_calls(server_dir: str, options: str, *, job: int | None = None) -> Calls:
    """Opens a job with these options on a server, or attaches to an open one."""
    # By its name: what stands there may be another one that serves calls.
    native: Any = import_module("headquarters._native")
    with read_elsewhere():
        calls: Calls = native.Calls(server_dir, options, job=job)
    return calls


def open_objects(server_dir: str) -> Objects:
    """The objects of a server."""
    native: Any = import_module("headquarters._native")
    objects: Objects = native.Objects(server_dir)
    return objects
