"""The layer below clients and clusters, under the names that programs know."""

from __future__ import annotations

from typing import TypeAlias

JobId: TypeAlias = int
TaskId: TypeAlias = int


def get_version() -> str:
    """The version of the package and of the `hq` that comes with it."""
    from .._native import __version__

    return __version__
