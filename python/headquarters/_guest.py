"""The session of a client in a job that another one has opened, as of a call that calls others: both submit to it.

What a call submits is sent together: when it waits for some of it, when it ends, or after a moment. And what
nobody waits for is heard late: a call that returns others, as most that call others do, hears of none of them.

Ids are taken in rows. The first id of a row is claimed by a call that is sent with it and alone. Whoever uses any id of a row
has used its first one, so the server refuses it to everybody else, and the rest of the row belongs to who has it.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from . import _limits as limits
from ._future import Future, fail
from ._intervals import Intervals
from ._lending import is_in_call, while_waiting
from ._session import NoIds, Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._group import Group
    from ._pickling import Code
    from ._results import Block


class Guest(Session):
    """Its calls have ids far behind those of the first client, and only their ends are heard."""

    # The next id of calls that are not gathered.
    _next_free = 0
    # In a call: what it submits is gathered, for the interpreter says when it ends.
    _gathers = False
    # Somebody asks for an end that the question which is out does not ask for.
    _is_looked_for = False
    _is_asking = False
    _finishing = 0
    # The thread that sends.
    _sender = 0
    # Nothing is to be heard, and the thread that hears sleeps until there is.
    _reader_rests = False

    def _begin(self) -> None:
        self._claiming = threading.Lock()
        self._to_hear = threading.Condition(self._lock)
        # Where a call ends; older interpreters do not say it.
        at_end = getattr(sys.modules.get("_hq_runner"), "at_end", None)
        if at_end is not None:
            self._gathers = self.hears_late = True
            self._ids_end = self._next
            at_end.append(self.send_gathered)
        super()._begin()

    def submit(
        self, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None
    ) -> Future[Any]:
        """Submits a call."""
        if not self._gathers:
            return self._submit_now(template, code, entry, deps)
        while True:
            try:
                future = super().submit(template, code, entry, deps)
            except NoIds:
                with self._claiming:
                    if self._next >= self._ids_end:
                        return self._claim(template, code, entry, deps)
                continue
            if self._reader_rests:
                with self._lock:
                    self._to_hear.notify()
            return future

    def _claim(self, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None) -> Future[Any]:
        future = self._submit_now(template, code, entry, deps, is_row=True)
        if future._task is not None:
            with self._lock:
                self._next, self._ids_end = future._task + 1, future._task + limits.GUEST_ROW
        return future

    def _submit_now(
        self, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None, is_row: bool = False
    ) -> Future[Any]:
        waits = [(0, self._sent_elsewhere(deps))] if deps else []
        try:
            task = self._send_now(template, code, [entry], waits, is_row=is_row)
        except errors.HqError as error:
            future: Future[Any] = Future(self, None, code.name, None)
            fail(future, error)
            return future
        future = Future(self, task, code.name, deps)
        with self._lock:
            self._pending[task] = future
        self._wake()
        return future

    # What is gathered.

    def send_gathered(self) -> None:
        """Sends all that is queued, and returns when the server has it, or has refused it."""
        if self._gathers and (self._queue or self._is_sending):
            self._flush()

    def _flush(self) -> None:
        # In this thread: another one would have to be woken up, and to get the interpreter to itself. Who fails what was refused
        # is in the middle of it.
        while (self._queue or self._is_sending) and self._sender != threading.get_ident():
            with self._lock:
                while self._is_sending and self._broken is None:
                    self._was_sent.wait()
                if self._broken is not None or not self._queue:
                    return
                groups = self._taken()
            try:
                self._send(groups)
            except Exception as error:
                self._break(error)
            finally:
                self._have_sent()

    def _next_groups(self) -> list[Group] | None:
        # What a call leaves queued while it does something else. To be woken up by each submit would take this thread, and the call
        # that has to share the interpreter with it, longer than the submit.
        if not self._gathers:
            return super()._next_groups()
        seen: Group | None = None
        looks = 0
        with self._lock:
            while True:
                if self._queue and not self._is_sending and (self._queue[0] is seen or self._leaves_now()):
                    return self._taken()
                if not self._queue and (self._is_shut or self._is_over or self._broken is not None):
                    return None
                seen = self._queue[0] if self._queue else None
                looks = looks + 1 if seen is None else 0
                if looks <= limits.GATHER_LOOKS:
                    self._to_send.wait(limits.GATHER_S)
                else:
                    self._writer_sleeps = True
                    self._to_send.wait()
                    self._writer_sleeps = False
                    looks = 0

    def _taken(self) -> list[Group]:
        self._sender = threading.get_ident()
        return super()._taken()

    def _have_sent(self) -> None:
        self._sender = 0
        super()._have_sent()

    def hurry(self) -> None:
        """Sends what is queued now, and hears of ends, because somebody waits."""
        if not self._gathers:
            return super().hurry()
        self._flush()
        with self._lock:
            self._is_looked_for = True
            self._to_hear.notify()
            is_asking = self._is_asking
        if is_asking:
            self._wake()

    def _refuse(self, group: Group, error: BaseException) -> None:
        futures = [self._pending.get(task) for task in range(group.first, group.first + len(group.entries))]
        super()._refuse(group, error)
        for future in futures:
            if future is not None:
                future._task = None

    def fork(self) -> None:
        """As of others."""
        super().fork()
        self._to_hear, self._claiming = threading.Condition(self._lock), threading.Lock()

    def sent_through(self, task: int, until: float | None = None) -> bool:
        """As of others."""
        if self._gathers and until is None:
            self._check()
            self._flush()
        return super().sent_through(task, until)

    def _wake(self) -> None:
        super()._wake()
        with self._lock:
            self._to_hear.notify()

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
        self._wake()

    def finish(self, wait: bool, cancel_futures: bool) -> None:
        """As a shutdown, after which more calls are taken: those of the next call in this interpreter."""
        if cancel_futures:
            self._cancel_all()
        if not wait:
            return
        self._finishing += 1
        try:
            if self._has_pending():
                self.hurry()
            with while_waiting(), self._lock:
                while self._has_pending():
                    self._all_ended.wait()
        finally:
            self._finishing -= 1

    def _send_now(
        self,
        template: int,
        code: Code,
        entries: list[bytes],
        waits: list[tuple[int, list[tuple[int, int]]]],
        keys: Sequence[str] = (),
        is_row: bool = False,
    ) -> int:
        # Gives the first of the ids. Nobody knows them before, so that others can be taken when these are. With `is_row` it is
        # the first of a row.
        self.check_open()
        # What it waits for may be queued.
        self._flush()
        while True:
            with self._lock:
                first = self._next_free
                if is_row or not first or first + len(entries) > limits.GIVEN_FROM:
                    first = random.randrange(limits.GUESTS_FROM, limits.GIVEN_FROM - 10**8, limits.GUEST_ROW)
                if not is_row:
                    self._next_free = first + len(entries)
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
        self._wake()
        return future

    def _known_now(self) -> list[tuple[int, int]] | None:
        with self._lock:
            self._is_asking = False
            until = None
            # A call that has ended needs its job no more. A program does, and the job stays open as long as it listens.
            while not self._is_shut and is_in_call():
                if not self._has_pending():
                    self._reader_rests = True
                    self._to_hear.wait()
                    self._reader_rests = False
                    until = None
                    continue
                if self._is_waited_for():
                    break
                # What these leave may be let go of when they have ended, which is not urgent.
                until = until or time.monotonic() + limits.UNHEARD_S
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._to_hear.wait(left)
            self._is_looked_for = False
            self._is_asking = True
            return self._all_others() if self._has_pending() or not self._is_shut else None

    def _is_waited_for(self) -> bool:
        # One that somebody looks at has a lock.
        return bool(
            not self._gathers
            or self._is_looked_for
            or self._finishing
            or self._blocks
            or any(future._lock is not None for future in self._pending.values())
        )

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
