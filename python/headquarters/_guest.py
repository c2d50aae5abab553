"""The session of a client in a job that another one has opened, as of a call that calls others: both submit to it."""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from . import _limits as limits
from ._future import Future, fail
from ._intervals import Intervals
from ._lending import is_in_call, while_waiting
from ._session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._pickling import Code
    from ._results import Block


class Guest(Session):
    """Its calls are submitted at once, with ids far behind those of the first client, and only their ends are heard."""

    _next_free = 0

    def submit(
        self, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None
    ) -> Future[Any]:
        """Submits a call."""
        waits = [(0, self._sent_elsewhere(deps))] if deps else []
        try:
            task = self._send_now(template, code, [entry], waits)
        except errors.HqError as error:
            future: Future[Any] = Future(self, None, code.name, None)
            fail(future, error)
            return future
        future = Future(self, task, code.name, deps)
        with self._lock:
            self._pending[task] = future
            self._was_sent.notify_all()
        self._wake()
        return future

    def submit_block(
        self, template: int, code: Code, block: Block, entries: list[bytes], deps: dict[int, tuple[Future[Any], ...]]
    ) -> None:
        """Submits the calls of a block."""
        waits = [(at, self._sent_elsewhere(of)) for at, of in deps.items()]
        block.deps = deps
        try:
            first = self._send_now(template, code, entries, waits)
        except errors.HqError as error:
            for at in range(block.count):
                block.fail(at, error)
            block.notify()
            return
        with self._lock:
            block.first = first
            at = bisect_right(self._block_firsts, first)
            self._blocks.insert(at, block)
            self._block_firsts.insert(at, first)
            self._was_sent.notify_all()
        self._wake()

    def finish(self, wait: bool, cancel_futures: bool) -> None:
        """As a shutdown, after which more calls are taken: those of the next call in this interpreter."""
        if cancel_futures:
            self._cancel_all()
        if wait:
            with while_waiting(), self._lock:
                while self._has_pending():
                    self._all_ended.wait()

    def _send_now(
        self,
        template: int,
        code: Code,
        entries: list[bytes],
        waits: list[tuple[int, list[tuple[int, int]]]],
        keys: Sequence[str] = (),
    ) -> int:
        # Gives the first of the ids. Nobody knows them before, so that others can be taken when these are.
        self.check_open()
        while True:
            with self._lock:
                if not self._next_free or self._next_free + len(entries) > limits.GIVEN_FROM:
                    self._next_free = random.randrange(limits.GUESTS_FROM, limits.GIVEN_FROM - 10**8, 1000)
                first = self._next_free
                self._next_free += len(entries)
            try:
                ids = self._calls.submit([(template, code.name, code.data, first, entries, waits, list(keys))])
                return ids[0] if ids else first
            except Exception as refused:
                error = self._reason(refused)
            if error.code != "task-exists":
                raise error
            with self._lock:
                self._next_free = 0

    def submit_named(
        self, key: str, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None
    ) -> Future[Any]:
        """Submits a call under a key at once; if the job has the key already, the future is that of the call there."""
        waits = [(0, self._sent_elsewhere(deps))] if deps else []
        try:
            task = self._send_now(template, code, [entry], waits, [key])
        except errors.Refused:
            # The key is there under another id, or it is of another call, which is said again.
            try:
                (task,) = self._calls.submit([(template, code.name, code.data, 0, [entry], waits, [key])])
            except Exception as refused:
                raise self._reason(refused) from refused
        with self._lock:
            # What is under the key is this call, else it would have been refused.
            known = self._keyed.get(key)
            if known is not None:
                return known[1]
            future: Future[Any] = Future(self, task, code.name, deps)
            self._keyed[key] = b"", future
            self._pending[task] = future
            self._was_sent.notify_all()
        self._wake()
        return future

    def _known_now(self) -> list[tuple[int, int]] | None:
        with self._lock:
            # A call that has ended needs its job no more. A program does, and the job stays open as long as it listens.
            while not self._has_pending() and not self._is_shut and is_in_call():
                self._was_sent.wait()
            return self._all_others() if self._has_pending() or not self._is_shut else None

    def _all_others(self) -> list[tuple[int, int]]:
        awaited = sorted([*self._pending, *(task for block in self._blocks for task in block.pending())])
        known, at = [], 0
        for first, last in Intervals.of(awaited):
            if first > at:
                known.append((at, first - 1))
            at = last + 1
        if at <= limits.TASK_MAX:
            known.append((at, limits.TASK_MAX))
        return known
