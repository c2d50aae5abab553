"""The sessions of this process: they end with it, with their cluster, and in a process that it forks."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import TYPE_CHECKING

from . import _errors as errors
from . import _limits as limits

if TYPE_CHECKING:
    from ._session import Session

SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()
"""Those that have not ended."""

ENDED = "the server of the cluster ended by itself before the call did"


def cluster_ended(cluster: object, reason: str) -> None:
    """A cluster has ended by itself: the calls there end, too."""
    for session in list(SESSIONS):
        if session._cluster is cluster:
            session.lose(errors.ClusterStopped(reason))


def _leave_all() -> None:
    until = time.monotonic() + limits.EXIT_S
    for session in list(SESSIONS):
        session.leave(until)


def _fork_all() -> None:
    for session in list(SESSIONS):
        session.fork()
    SESSIONS.clear()


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_fork_all)
