"""The workers that have the slices of lists: how calls for slices are made, and what is said when one fails."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _pickling
from .._base import HqError
from .._errors import ArgumentsNotPicklable, DependencyFailed, RemoteError, RemoteTraceback
from . import _limits as limits
from ._carry import Carried, InFile, Inside, carried, dumps, remove
from ._current import sending
from ._errors import NoBackend
from ._work import Chain, Row, Sent, Work

if TYPE_CHECKING:
    from .._executor import Executor
    from .._future import Future
    from ._carry import Bundle
    from ._plan import Node


class Crew:
    """An executor, and the directory for what is too long to travel with calls and their ends."""

    def __init__(self, executor: Executor, procs: int | None, directory: str | os.PathLike[str] | None) -> None:
        self.executor = executor
        self.procs = _slots(executor) if procs is None else procs
        self.directory = os.path.join(_place(executor, directory), f".hq-lists-{executor.job_id}-{secrets.token_hex(4)}")
        self._end = weakref.finalize(self, _remove_directory, self.directory, os.getpid())

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
        return Sent(self.carried(data, limits.FUNCTION_BYTES), tuple(_pickling._paths(value)), by_value), nodes

    def packed(self, chain: Chain) -> Sent:
        """The steps of a chain in the form in which they are sent."""
        sent = [one for step in [*chain.steps, chain.answer] for one in step.sent]
        by_value = next((one.module for one in sent if one.module), "")
        return Sent(self.carried(dumps(chain), limits.FUNCTION_BYTES), (), by_value)

    def carried(self, data: bytes, inside_max: int = limits.INSIDE_BYTES) -> Carried:
        """A pickle in the form in which it travels."""
        return carried(data, self.directory, inside_max)

    def call(self, work: Work, rows: Iterable[Row]) -> list[Future[Bundle]]:
        """A call for each slice."""
        return self.calls(work, [(self._short(row),) for row in rows])

    def calls(self, function: Any, rows: Iterable[tuple[Any, ...]]) -> list[Future[Bundle]]:
        """Calls of one function, which is pickled once."""
        return self.executor._submit_rows(function, rows)

    def _short(self, row: Row) -> Row | Carried:
        parts = row.input if isinstance(row.input, tuple) else (row.input,)
        given = [*parts, *row.lists.values(), *(one for of_step in row.of_steps.values() for one in of_step)]
        size = sum(len(one.data) for one in given if isinstance(one, Inside))
        return row if size <= limits.ENTRY_BYTES else self.carried(dumps(row))

    def bundles(self, futures: Sequence[Future[Bundle]], names: Sequence[str]) -> list[Bundle]:
        """What calls have given, in their order. Raises what the first of them has raised; then those that wait are canceled."""
        bundles: list[Bundle] = []
        for at, future in enumerate(futures):
            try:
                bundles.append(future.result())
            except BaseException as error:
                self.executor._session.cancel(futures[at:])
                for bundle in bundles:
                    remove(bundle.path)
                if future.done() and isinstance(error, Exception) and not isinstance(error, DependencyFailed):
                    raise _of_slice(error, f"{names[at]} (task {future.task})") from error.__cause__
                raise
        return bundles


class Files:
    """Files of bundles, which are removed when nothing refers to them any more."""

    def __init__(self, bundles: Iterable[Bundle]) -> None:
        self._end = weakref.finalize(self, _remove_all, [bundle.path for bundle in bundles if bundle.path], os.getpid())
        # At the end of the program the directory goes as a whole.
        self._end.atexit = False

    @staticmethod
    def of(carried: Iterable[Carried]) -> Files:
        """The files that the program itself has written."""
        files = Files(())
        files._end = weakref.finalize(files, _remove_all, [one.path for one in carried if isinstance(one, InFile)], os.getpid())
        files._end.atexit = False
        return files


def _remove_all(paths: list[str], process: int) -> None:
    # They are not of a process that was forked.
    if os.getpid() == process:
        for path in paths:
            remove(path)


def _remove_directory(path: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def _of_slice(error: Exception, where: str) -> Exception:
    if isinstance(error, HqError) and not isinstance(error, RemoteError) and len(error.args) == 1:
        made = type(error)(f"{where}: {error}")
        made.__cause__ = error.__cause__
        return made
    cause = error.__cause__
    text = cause.text if isinstance(cause, RemoteTraceback) else f"{type(error).__name__}: {error}"
    error.__cause__ = RemoteTraceback(f"on {where}:\n{text}")
    return error


def _place(executor: Executor, directory: str | os.PathLike[str] | None) -> str:
    if directory is not None:
        return os.path.abspath(directory)
    # All of a local cluster is on this machine; of others the directory of the program is the one that is most likely seen.
    return tempfile.gettempdir() if _is_local(executor) else os.getcwd()


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
