"""How `map` and `starmap` make blocks of calls, and in which order their values come back."""

from __future__ import annotations

import concurrent.futures
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from . import _limits as limits
from . import validation
from ._arguments import entry_of
from ._errors import HqError
from ._results import _PENDING, Block

if TYPE_CHECKING:
    from ._future import Future
    from ._pickling import Code
    from ._session import Session

T = TypeVar("T")


class Blocks:
    """Submits rows of arguments block by block, all with one function and one template."""

    def __init__(self, session: Session, template: int, code: Code, rows: Iterable[tuple[Any, ...]], calls_max: int | None) -> None:
        self._session = session
        self._template = template
        self._code = code
        self._rows = iter(rows)
        self._calls_max = min(calls_max or limits.BLOCK_CALLS, limits.SUBMIT_CALLS_MAX)
        self._changed = threading.Condition()

    def submit(self, calls_max: int | None = None) -> Block | None:
        """Submits the next calls, at most so many; None when there are no more."""
        entries: list[bytes] = []
        wrong: dict[int, HqError] = {}
        deps: dict[int, tuple[Future[Any], ...]] = {}
        size = 0
        always = self._code.futures
        for (row,) in zip(itertools.islice(self._rows, min(calls_max or self._calls_max, self._calls_max))):
            try:
                entry, futures = entry_of(self._session.objects, row, {})
            except HqError as error:
                wrong[len(entries) + len(wrong)] = error
                if size == 0 and not entries:
                    continue
                break
            if wrong:
                # Calls that can be sent have ids in a row: this one begins a block.
                self._rows = itertools.chain([row], self._rows)
                break
            if futures or always:
                deps[len(entries)] = (*always, *futures)
            entries.append(entry)
            size += len(entry)
            if size >= limits.SUBMIT_BYTES:
                break
        count = len(entries) + len(wrong)
        if count == 0:
            return None
        block = Block(self._code.name, count, self._changed)
        for at, reason in wrong.items():
            block.fail(at, reason)
        if entries:
            self._session.submit_block(self._template, self._code, block, entries, deps)
        else:
            block.first = -count - 1
        return block


def in_order(
    session: Session, blocks: Blocks, *, buffersize: int | None, timeout: float | None
) -> Iterator[Any]:
    """The values in the order of the calls. The first calls are submitted before this returns."""
    validation.timeout("the timeout of map", timeout)
    until = None if timeout is None else time.monotonic() + timeout
    ahead: deque[Block] = deque()
    out = 0

    def fill() -> None:
        nonlocal out
        while buffersize is None or out < buffersize:
            block = blocks.submit(None if buffersize is None else buffersize - out)
            if block is None:
                return
            out += block.count
            ahead.append(block)

    def values() -> Iterator[Any]:
        nonlocal out
        # Few and long blocks: the next ones are submitted when a quarter of the room is free.
        step = max(1, (buffersize or 0) // 4)
        place = -1
        try:
            while ahead:
                block = ahead[0]
                for at in range(block.count):
                    place += 1
                    if buffersize is not None and buffersize - out >= step:
                        fill()
                    if block.states[at] == _PENDING:
                        session.hurry()
                        if not block.wait(at, until):
                            what = f"element {place} of the map of {block.name} ({session.job}@{block.first + at})"
                            raise concurrent.futures.TimeoutError(f"{what} has not ended after {timeout} seconds")
                    out -= 1
                    value = block.value(at)
                    block.ends[at] = None
                    block.holds.pop(at, None)
                    yield value
                ahead.popleft()
                if buffersize is not None and not ahead:
                    fill()
        finally:
            ids = [task for block in ahead for task in block.pending()]
            if ids:
                session.cancel_ids(ids)

    fill()
    return values()


def all_blocks(blocks: Blocks) -> list[Block]:
    """Submits everything."""
    submit: Callable[[], Block | None] = blocks.submit
    return list(iter(submit, None))
