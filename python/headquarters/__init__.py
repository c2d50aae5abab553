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
    from .cluster import ClusterError as ClusterError
    from .cluster import LocalCluster as LocalCluster
    from .cluster import WorkerConfig as WorkerConfig

# Where each public name is defined.
_PLACES: dict[str, str] = {
    "ClusterError": ".cluster",
    "Forked": "._base",
    "LocalCluster": ".cluster",
    "NativeError": "._base",
    "ServerLost": "._base",
    "WorkerConfig": ".cluster",
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
