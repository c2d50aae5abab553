"""Waiting for many futures."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION
from typing import Any, Literal, NamedTuple, TypeVar, overload

from . import validation
from ._lending import while_waiting

T = TypeVar("T")

__all__ = ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "as_completed", "gather", "wait"]

_WHEN = (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION)


class DoneAndPending(NamedTuple):
    """What `wait` gives back."""

    done: set[Any]
    not_done: set[Any]


def wait(fs: Iterable[concurrent.futures.Future[T]], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> DoneAndPending:
    """The futures that have ended and those that have not, as `concurrent.futures.wait`."""
    fs = _futures("wait", fs)
    validation.timeout("timeout", timeout)
    if return_when not in _WHEN:
        raise validation.wrong("return_when", return_when, f"give {FIRST_COMPLETED}, {FIRST_EXCEPTION} or {ALL_COMPLETED}", validation.ValidationException)
    with while_waiting():
        done, not_done = concurrent.futures.wait(fs, timeout, return_when)
    return DoneAndPending(set(done), set(not_done))


def as_completed(
    fs: Iterable[concurrent.futures.Future[Any]],
    timeout: float | None = None,
    with_results: bool = False,
    batches: bool = False,
) -> Iterator[Any]:
    """The futures in the order in which they end.

    `with_results` gives pairs of a future and its value, and raises where there is none; `batches` gives lists of all
    that have ended since. After `timeout` seconds from now, TimeoutError is raised.
    """
    validation.timeout("timeout", timeout)
    until = None if timeout is None else time.monotonic() + timeout
    return _as_completed(list(dict.fromkeys(_futures("as_completed", fs))), until, with_results, batches)


def _as_completed(
    fs: list[concurrent.futures.Future[Any]], until: float | None, with_results: bool, batches: bool
) -> Iterator[Any]:
    import queue

    ended: queue.SimpleQueue[concurrent.futures.Future[Any]] = queue.SimpleQueue()
    for future in fs:
        future.add_done_callback(ended.put)
    left = len(fs)
    # What is given out is not kept here, so that its value can be freed.
    fs.clear()
    while left:
        ready = []
        try:
            time_left = None if until is None else max(0.0, until - time.monotonic())
            try:
                ready.append(ended.get_nowait())
            except queue.Empty:
                with while_waiting():
                    ready.append(ended.get(timeout=time_left))
            while batches:
                ready.append(ended.get_nowait())
        except queue.Empty:
            if not ready:
                raise concurrent.futures.TimeoutError(f"{left} futures have not ended in time") from None
        left -= len(ready)
        given = [(future, future.result()) if with_results else future for future in ready]
        ready.clear()
        if batches:
            yield given
        else:
            yield given.pop()


def _futures(name: str, fs: Iterable[concurrent.futures.Future[T]]) -> list[concurrent.futures.Future[T]]:
    if isinstance(fs, concurrent.futures.Future):
        raise TypeError(f"{name} takes one list of futures: {name}([first, second])")
    if not isinstance(fs, Iterable):
        raise TypeError(f"{name} takes a list of futures, and not {fs!r}")
    listed = list(fs)
    for at, one in enumerate(listed):
        if not isinstance(one, concurrent.futures.Future):
            raise TypeError(f"{name} takes a list of futures, and element {at} is {one!r:.100}: submit(...) gives one")
    return listed


@overload
def gather(fs: Iterable[concurrent.futures.Future[T]], errors: Literal["raise", "skip"] = "raise") -> list[T]: ...
@overload
def gather(fs: Iterable[concurrent.futures.Future[T]], errors: Literal["return"]) -> list[T | BaseException]: ...
def gather(
    fs: Iterable[concurrent.futures.Future[T]], errors: Literal["raise", "return", "skip"] = "raise", *more: object
) -> list[T] | list[T | BaseException]:
    """The values in the order of the futures; waits for all of them.

    Of calls without a value, the first raises its exception, or theirs stand in the list, or they are left out.
    """
    fs = _futures("gather", fs)
    if more:
        raise TypeError("gather takes one list of futures: gather([first, second])")
    if errors not in ("raise", "return", "skip"):
        raise validation.wrong("errors", errors, "give 'raise', 'return' or 'skip'", validation.ValidationException)
    values: list[Any] = []
    for future in fs:
        try:
            values.append(future.result())
        except (Exception, concurrent.futures.CancelledError) as error:
            if errors == "raise" or not future.done():
                raise
            if errors == "return":
                values.append(error)
    return values
