"""Joining the values of ranks with a function of the user, from left to right.

The function runs between messages. Where it fails, what has failed travels in the place of the value, so that nobody waits.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ._failure import Failure, failure_of
from ._ranks import Ranks

NOTHING: Any = object()
"""Where there is no value."""


@dataclass(frozen=True)
class Part:
    """What one or several neighbouring ranks have: a value, nothing, or what has failed."""

    value: Any = None
    is_empty: bool = False
    failure: Failure | None = None


def part(value: Any) -> Part:
    """A value, or NOTHING."""
    return Part(is_empty=True) if value is NOTHING else Part(value)


def fold(f: Callable[[Any, Any], Any], elements: Iterable[Any], start: Any) -> Any:
    """Elements joined from left to right behind `start`, which may be NOTHING.

    What stands on the left at first is a copy, as the function may change its left argument.
    """
    rest = iter(elements)
    first = next(rest, NOTHING) if start is NOTHING else start
    if first is NOTHING:
        return NOTHING
    return functools.reduce(f, rest, _copied(first))


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"reduce begins with a copy of a {type(value).__name__}, and that cannot be copied: {type(error).__name__}: {error}"
        ) from error


class Joining:
    """The steps of ranks that join their values."""

    def __init__(self, ranks: Ranks, f: Callable[[Any, Any], Any]) -> None:
        self._ranks = ranks
        self._f = f
        # What was raised here, as it was raised.
        self._own: BaseException | None = None

    def to_first(self, mine: Part) -> Part:
        """The values of all ranks on rank 0; on the others what they have sent on."""
        rank, stride = self._ranks.rank, 1
        while stride < self._ranks.procs:
            if rank % (2 * stride) == stride:
                self._shift(mine, rank - stride, None)
                break
            if rank + stride < self._ranks.procs:
                mine = self._join(mine, self._shift(None, None, rank + stride))
            stride *= 2
        return mine

    def before(self, mine: Part) -> Part:
        """The values of all ranks before this one."""
        rank, procs, distance = self._ranks.rank, self._ranks.procs, 1
        before, all_so_far = Part(is_empty=True), mine
        while distance < procs:
            to = rank + distance if rank + distance < procs else None
            source = rank - distance if rank >= distance else None
            came = self._shift(all_so_far if to is not None else None, to, source)
            if came is not None:
                before, all_so_far = self._join(came, before), self._join(came, all_so_far)
            distance *= 2
        return before

    def value(self, joined: Part) -> Any:
        """The value, or NOTHING. Raises what has failed."""
        if joined.failure is None:
            return NOTHING if joined.is_empty else joined.value
        if joined.failure.rank == self._ranks.rank and self._own is not None:
            raise self._own
        raise joined.failure.exception()

    def _join(self, left: Part, right: Part) -> Part:
        if left.failure is not None or right.is_empty:
            return left
        if right.failure is not None or left.is_empty:
            return right
        try:
            return Part(self._f(left.value, right.value))
        except BaseException as error:
            return self._failed(error)

    def _shift(self, mine: Part | None, to: int | None, source: int | None) -> Any:
        if mine is not None:
            try:
                packed = self._ranks.packed(mine)
            except TypeError as error:
                packed = self._ranks.packed(self._failed(error))
        else:
            packed = None
        try:
            return self._ranks.shift(packed, to, source)
        except Exception as error:
            # It has come, and cannot be loaded.
            return self._failed(error)

    def _failed(self, error: BaseException) -> Part:
        self._own = self._own or error
        return Part(failure=failure_of(error, self._ranks.rank))
