"""The workers that have the slices of lists: how calls for slices are made, and what is said when one fails."""

from __future__ import annotations

import concurrent.futures
import os
import threading
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _pickling
from .._base import HqError
from .._errors import ArgumentsNotPicklable, DependencyFailed, RemoteError, RemoteTraceback
from .._objects import Lazy
from . import _limits as limits
from ._carry import Bundle, Carried, InBundle, Inside
from ._current import sending
from ._errors import NoBackend
from ._work import Chain, Row, Sent, Work

if TYPE_CHECKING:
    from .._executor import Executor
    from .._future import Future
    from ._plan import Node

T = TypeVar("T")


class Crew:
    """An executor for the calls that work on slices."""

    def __init__(self, executor: Executor, procs: int | None) -> None:
        self.executor = executor
        self.procs = _slots(executor) if procs is None else procs

    def sent(self, value: Any, what: str) -> tuple[Sent, list[Node]]:
        """A function or another value of the program in the form in which it is sent, and the lists that it names."""
        nodes: list[Node] = []
        sending.nodes = nodes
        try:
            data, futures, is_by_value = _pickling.dumps_function(value)
        except ArgumentsNotPicklable as error:
            # The place within a function that cannot be sent is named.
            raise TypeError(f"{what}: {error}") from error
        finally:
            sending.nodes = None
        if futures:
            raise TypeError(f"{what}: a Future cannot go with a function of a list: give its result()")
        by_value = "__main__" if is_by_value else ""
        return Sent(self.carried(data), tuple(_pickling._paths(value)), by_value), nodes

    def packed(self, chain: Chain) -> tuple[Sent, tuple[Lazy[Any], ...]]:
        """The steps of a chain in the form in which they are sent, and what was put into stores for them."""
        sent = [one for step in [*chain.steps, chain.answer] for one in step.sent]
        by_value = next((one.module for one in sent if one.module), "")
        data, _ = _pickling._collected(chain, None, "the steps")
        what = self.carried(data)
        given = [one.what.bundle for one in sent if isinstance(one.what, InBundle)]
        given += [what.bundle] if isinstance(what, InBundle) else []
        return Sent(what, (), by_value), tuple(given)

    def carried(self, data: bytes) -> Carried:
        """A pickle of the program in the form in which it travels."""
        if len(data) <= limits.GIVEN_BYTES:
            return Inside(data)
        bundle = Bundle(data, array("q", [len(data)]))
        return InBundle(Held(self.executor.put(bundle)._future), 0)

    def call(self, work: Work, rows: Iterable[Row]) -> list[Future[Bundle]]:
        """A call for each slice."""
        return self.calls(work, [(row,) for row in rows])

    def calls(self, function: Any, rows: Iterable[tuple[Any, ...]]) -> list[Future[Bundle]]:
        """Calls of one function, which is pickled once."""
        return self.executor._submit_rows(function, rows)

    def wait(self, futures: Sequence[Future[Bundle]], names: Sequence[str]) -> None:
        """Waits for calls. Raises what the first of them has raised; then those that wait are canceled."""
        for at, future in enumerate(futures):
            try:
                future.exception()
                error = self._failed(future, names[at])
            except BaseException as interrupt:
                error = interrupt
            if error is not None:
                self.cancel(futures[at:])
                raise error from error.__cause__

    def promise(self, futures: Sequence[Future[Bundle]], names: Sequence[str], value: T) -> concurrent.futures.Future[T]:
        """A future that has this value when all calls have ended, else what the first of them has raised."""
        made: concurrent.futures.Future[T] = concurrent.futures.Future()
        # To cancel it cancels no call.
        made.set_running_or_notify_cancel()
        lock, left = threading.Lock(), len(futures)

        def ended(_: object) -> None:
            nonlocal left
            with lock:
                left -= 1
                is_last = left == 0
            if is_last:
                # Of several that have failed the first one is told.
                told = next(filter(None, map(self._failed, futures, names)), None)
                made.set_exception(told) if told is not None else made.set_result(value)

        for future in futures:
            future.add_done_callback(ended)
        if not futures:
            made.set_result(value)
        return made

    def _failed(self, future: Future[Bundle], name: str) -> BaseException | None:
        # What a call that has ended has raised, with the name of the slice.
        if future.cancelled():
            return concurrent.futures.CancelledError(f"{name} (task {future.task}) was canceled")
        error = future.exception()
        if isinstance(error, Exception) and not isinstance(error, DependencyFailed):
            return _of_slice(error, f"{name} (task {future.task})")
        return error

    def cancel(self, futures: Sequence[Future[Bundle]]) -> None:
        """Cancels calls that no worker has begun."""
        self.executor._session.cancel(futures)


class Held(Lazy[Bundle]):
    """What the program has of a bundle: among the arguments of a call a handle, as all that is lazy."""

    def get(self) -> Bundle:
        """The bundle, mapped anew each time, so that nothing of it stays here. Waits for its call."""
        if self._future.exception() is None and self._future._value is not None:
            bundle: Bundle = self._future._value.load(writable=False)
            return bundle
        return self._future.result()


def part(future: Future[Bundle], block: int, is_stream: bool = False) -> Carried | None:
    """A block of what a call has given; None where it is known to be empty. What is short is here."""
    if future._value is not None or is_stream:
        return InBundle(Held(future), block, is_stream)
    data = bytes(future.result().block(block))
    return Inside(data) if data else None


def _of_slice(error: Exception, where: str) -> Exception:
    if isinstance(error, HqError) and not isinstance(error, RemoteError) and len(error.args) == 1:
        made = type(error)(f"{where}: {error}")
        made.__cause__ = error.__cause__
        return made
    cause = error.__cause__
    if isinstance(cause, RemoteTraceback) and cause.text.startswith(f"on {where}:\n"):
        # It was told before.
        return error
    text = cause.text if isinstance(cause, RemoteTraceback) else f"{type(error).__name__}: {error}"
    error.__cause__ = RemoteTraceback(f"on {where}:\n{text}")
    return error


def _is_local(executor: Executor) -> bool:
    return hasattr(executor._session._cluster, "_ensure_worker")


def _slots(executor: Executor) -> int:
    from ..client import Client

    cluster: Any = executor._session._cluster
    server_dir = getattr(cluster, "server_dir", cluster) or os.environ.get("HQ_SERVER_DIR")
    if _is_local(executor):
        # Those that were just started may not be connected yet.
        cluster._ensure_worker()
        cluster.wait_for_workers(cluster._workers_alive())
    of_call = executor._options.get("cpus", 1)
    each = of_call if isinstance(of_call, (int, float)) and of_call > 0 else 1
    slots = sum(int(cpus_of(worker.resources.get("cpus", "")) / each) for worker in Client(server_dir).workers())
    if not slots:
        raise NoBackend(f"no worker with {each} CPUs is connected yet, so the number of slices is not known: give procs=")
    return min(limits.SLICES_MAX, slots)


def cpus_of(offered: str) -> int:
    """How many CPUs a worker has that offers `range(0-7)`, `sum(8)`, or lists of their names."""
    if offered.startswith("range("):
        first, _, last = offered[6:-1].partition("-")
        return int(last) - int(first) + 1
    if offered.startswith("sum("):
        return int(float(offered[4:-1]))
    return sum(1 for name in offered.translate({ord("["): ",", ord("]"): ","}).split(",") if name)
