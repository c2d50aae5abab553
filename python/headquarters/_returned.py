"""Refs and Futures in what a call returns: they arrive as what they are, and belong to whoever gets the value.

The call that returns them lets go of their values, and says beside its own value which they are. So these stay as long as the
future does that the value came with, and as long as what has arrived.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._lending import is_in_call
from ._stores import Named

if TYPE_CHECKING:
    from ._future import Future
    from ._session import Session

# Whether it is a Ref, its job, its task, and the size and the nonce of the value of a Ref; as the runner counts them.
_FORM = struct.Struct("<BIIQ16s")


class _Arriving(threading.local):
    # Whose value is being unpickled; None where it is none that a call has returned to this process.
    session: Session | None = None


_arriving = _Arriving()


def is_returning() -> bool:
    """True while what a call returns is pickled."""
    return getattr(sys.modules.get("_hq_runner"), "returned", None) is not None


def given_back(future: Future[Any], is_ref: bool) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """What pickle is told of a future, or of the Ref of one, in what a call returns; None where nothing is returned."""
    if not is_returning():
        return None
    _check_within(future)
    future._check_sent()
    session, task = future._session, future._task
    assert task is not None, "what was not sent is not pickled"
    value = future._value if is_ref else None
    size, nonce = (value.size, value.nonce or b"") if value is not None else (0, b"")
    sys.modules["_hq_runner"].returned.append(_FORM.pack(is_ref, session.job, task, size, nonce))
    if value is None or not value.is_held:
        _hand_over(session, task, future._holds)
    return arrived, (is_ref, session.job, task, size, nonce, future._code_name)


def given_away(future: Future[Any]) -> None:
    """A call that another one returns instead of a value: what it leaves is not let go of when that one has ended."""
    _check_within(future)
    assert future._task is not None, "what was not sent is not returned"
    _hand_over(future._session, future._task, future._holds)


def _check_within(future: Future[Any]) -> None:
    if not future._session.is_within:
        raise TypeError(
            f"{future.task} is of another executor than headquarters.current(), and ends with that: return its value instead"
        )


def _hand_over(session: Session, task: int, holds: tuple[Any, ...]) -> None:
    # With all that came with its value, if that is here already.
    session.objects.hand_over(Named(session.job, task))
    for one in holds:
        future = getattr(one, "_future", one)
        _hand_over(session, future._task, future._holds)


def held(session: Session, part: bytes) -> tuple[Any, ...]:
    """What a call has returned besides its value."""
    with to(session):
        whole = part[: len(part) - len(part) % _FORM.size]
        return tuple(
            arrived(bool(is_ref), job, task, size, nonce, "call") for is_ref, job, task, size, nonce in _FORM.iter_unpack(whole)
        )


@contextmanager
def to(session: Session) -> Iterator[None]:
    """What is unpickled in this block was returned to this session."""
    before, _arriving.session = _arriving.session, session
    try:
        yield
    finally:
        _arriving.session = before


def arrived(is_ref: bool, job: int, task: int, size: int, nonce: bytes, name: str) -> Any:
    """A Ref or a Future that a call has returned, here."""
    from ._objects import Ref

    session = _arriving.session
    # What is among the arguments of a call belongs to its client.
    is_owned = session is not None and session.job == job
    if session is None or not is_owned:
        session = _within(job, task)
    if not is_ref:
        return session.adopted(task, name, is_owned)
    return Ref(session.objects.arrived(Named(job, task), size, nonce, is_owned))


def _within(job: int, task: int) -> Session:
    from . import _executor

    server_dir = os.environ.get("HQ_SERVER_DIR")
    if not is_in_call() or server_dir is None:
        raise LookupError(f"task {job}@{task} is known to the executor of job {job} only: ask that for the value it is in")
    return _executor.within(server_dir, job)
