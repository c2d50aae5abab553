"""Many calls of one function without a future for each: what they gave back is kept as bytes until it is asked for."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from . import _returned, validation
from ._base import StaysHere
from ._lending import while_waiting
from ._native_types import ABORTED, CANCELED, FINISHED
from ._future import because_of
from ._objects import Objects, Value
from ._outcome import PARTS, decode

if TYPE_CHECKING:
    from ._future import Future
    from ._native_types import End
    from ._session import Session

T = TypeVar("T")

_PENDING = 255
_LOCAL = 254
_WORDS = {_PENDING: "pending", FINISHED: "finished", 1: "failed", CANCELED: "canceled", ABORTED: "aborted", _LOCAL: "failed"}


class Block:
    """Calls with ids in a row. `changed` is notified, under itself, when some have ended and somebody waits."""

    __slots__ = ("changed", "count", "deps", "ends", "first", "holds", "left", "name", "session", "states", "waiters")

    def __init__(self, name: str, count: int, changed: threading.Condition) -> None:
        self.name = name
        self.first = 0
        self.count = count
        self.left = count
        self.states = bytearray([_PENDING]) * count
        self.ends: list[Any] = [None] * count
        self.deps: dict[int, tuple[Future[Any], ...]] = {}
        # What is in values and belongs to who has these, and whose calls they are.
        self.holds: dict[int, tuple[Any, ...]] = {}
        self.session: Session | None = None
        self.changed = changed
        self.waiters = 0

    def take(self, end: End, objects: Objects) -> bool:
        """Notes an end; False if it was known."""
        task, state, payload, _, _ = end
        at = task - self.first
        if self.states[at] != _PENDING:
            return False
        if state == FINISHED:
            # As bytes, or as what it has left in a store.
            value: Any = payload
            if payload and payload[0] == PARTS:
                held = objects.held_by(end)
                if held:
                    self.holds[at], self.session = held, objects._session
                value = objects.of_end(end) or payload
            self.ends[at] = value
        else:
            self.ends[at] = end
        if self.deps and state != ABORTED:
            # What it took is needed no more.
            self.deps.pop(at, None)
        self.states[at] = state
        self.left -= 1
        return True

    def fail(self, at: int, error: BaseException) -> None:
        """Ends a call with an exception that came about here, unless it has ended."""
        if self.states[at] == _PENDING:
            self.ends[at] = error
            self.states[at] = _LOCAL
            self.left -= 1
            self.deps.pop(at, None)

    def notify(self) -> None:
        """Wakes those that wait for one of the calls."""
        if self.waiters:
            with self.changed:
                self.changed.notify_all()

    def wait(self, at: int, until: float | None) -> bool:
        """Waits for the end of a call; False at the time `until` of the monotonic clock."""
        with self.changed:
            self.waiters += 1
            try:
                while self.states[at] == _PENDING:
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    with while_waiting():
                        self.changed.wait(left)
                return True
            finally:
                self.waiters -= 1

    def value(self, at: int) -> Any:
        """The value of a call that has ended, or its exception is raised."""
        state, end = self.states[at], self.ends[at]
        if state == CANCELED:
            raise CancelledError(f"task {self.first + at} was canceled")
        if state == _LOCAL:
            raise end
        if state == FINISHED:
            if isinstance(end, Value):
                return end.load()
            end = (self.first + at, FINISHED, end, "", "")
        value, error = self._decoded(at, end)
        if error is not None:
            if state == ABORTED:
                error = self._because_of_another(at) or error
            raise error
        return value

    def _decoded(self, at: int, end: End) -> tuple[Any, BaseException | None]:
        if not self.holds or self.session is None or at not in self.holds:
            return decode(end, self.name)
        with _returned.to(self.session):
            return decode(end, self.name)

    def _because_of_another(self, at: int) -> BaseException | None:
        return because_of(self.name, self.deps.get(at))

    def is_pending(self, task: int) -> bool:
        """True if this call of it has not ended."""
        return self.states[task - self.first] == _PENDING

    def pending(self) -> Iterator[int]:
        """The ids of calls that have not ended."""
        at = self.states.find(_PENDING)
        while at >= 0:
            yield self.first + at
            at = self.states.find(_PENDING, at + 1)


class Results(StaysHere, Sequence[T], Generic[T]):
    """The calls of one `starmap`, in order: an array of values that are there or will be.

    Indexing and iterating wait for the calls in question, and give their values, or raise: these are no futures. `states`,
    `exception(index)` and `task(index)` say which have failed, and why. A value is loaded each time it is asked for.
    """

    _instead = "an array of results stays in its process; give the values, as list(results)"

    def __init__(self, session: Session, blocks: list[Block], at: range | None = None) -> None:
        self._session = session
        self._blocks = blocks
        self._starts: list[int] = []
        count = 0
        for block in blocks:
            self._starts.append(count)
            count += block.count
        self._at = range(count) if at is None else at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Results[T]: ...
    def __getitem__(self, index: int | slice) -> T | Results[T]:
        if isinstance(index, slice):
            return Results(self._session, self._blocks, self._at[index])
        value: T = self._value(self._index(index))
        return value

    def __iter__(self) -> Iterator[T]:
        for at in self._at:
            yield self._value(at)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when all have ended; raises TimeoutError after `timeout` seconds."""
        validation.timeout("the timeout of wait", timeout)
        until = None if timeout is None else time.monotonic() + timeout
        for number, at in enumerate(self._at):
            block, place = self._place(at)
            if block.states[place] == _PENDING:
                self._session.hurry()
                if not block.wait(place, until):
                    what = f"call {number} of {len(self)} of {block.name} ({self.task(number)}) has not ended"
                    raise concurrent.futures.TimeoutError(f"{what} after {timeout} seconds; {self.done_count} have")

    def exception(self, index: int) -> BaseException | None:
        """The exception of a call, or None; waits for its end."""
        block, place = self._ended(self._index(index))
        try:
            block.value(place)
        except BaseException as error:
            return error
        return None

    @property
    def states(self) -> list[str]:
        """`pending`, `finished`, `failed`, `canceled` or `aborted`, one for each call, as far as is known here."""
        return [_WORDS[block.states[place]] for block, place in map(self._place, self._at)]

    @property
    def done_count(self) -> int:
        """How many have ended."""
        if len(self._at) == sum(block.count for block in self._blocks):
            return sum(block.count - block.left for block in self._blocks)
        return sum(block.states[place] != _PENDING for block, place in map(self._place, self._at))

    def done(self) -> bool:
        """True if all have ended."""
        return self.done_count == len(self._at)

    def task(self, index: int) -> str:
        """How the command line names a call."""
        block, place = self._place(self._index(index))
        return f"{self._session.job}@{block.first + place}"

    def cancel(self) -> int:
        """Cancels those that no worker has begun, and says how many these are."""
        ids = []
        for block, place in map(self._place, self._at):
            if block.states[place] == _PENDING:
                ids.append(block.first + place)
        return self._session.cancel_ids(ids)

    @property
    def name(self) -> str:
        """What the calls are called."""
        return self._blocks[0].name if self._blocks else "call"

    def _repr_html_(self) -> str:
        from ._notebook import of_results

        return of_results(self)

    def __repr__(self) -> str:
        return f"<Results: {self.done_count} of {len(self)} ended>"

    def _index(self, index: int) -> int:
        if not hasattr(index, "__index__"):
            raise validation.wrong("the index of a call", index, "give a whole number")
        try:
            return self._at[index]
        except IndexError:
            raise IndexError(f"there is no call {index}: there are {len(self)}, from 0") from None

    def _place(self, at: int) -> tuple[Block, int]:
        block = bisect_right(self._starts, at) - 1
        return self._blocks[block], at - self._starts[block]

    def _value(self, at: int) -> Any:
        block, place = self._ended(at)
        return block.value(place)

    def _ended(self, at: int) -> tuple[Block, int]:
        block, place = self._place(at)
        if block.states[place] == _PENDING:
            self._session.hurry()
            block.wait(place, None)
        return block, place
