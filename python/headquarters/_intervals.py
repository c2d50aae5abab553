"""A set of ids as closed intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Intervals:
    """Ids in ascending, separate intervals; what was added in one go costs one pass over them."""

    __slots__ = ("_all",)

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._all = list(intervals)

    @staticmethod
    def of(ids: Iterable[int]) -> list[tuple[int, int]]:
        """The intervals of ascending ids."""
        made: list[tuple[int, int]] = []
        first = last = -2
        for one in ids:
            if one <= last + 1:
                last = max(last, one)
                continue
            if first >= 0:
                made.append((first, last))
            first = last = one
        if first >= 0:
            made.append((first, last))
        return made

    def add(self, ids: Iterable[int]) -> None:
        """Adds ids in any order."""
        new = self.of(ids if isinstance(ids, range) else sorted(ids))
        if not new:
            return
        # Only what lies behind the first new one can change.
        start = max(0, bisect_right(self._all, (new[0][0], -1)) - 1)
        joined = self._all[:start]
        for first, last in sorted(self._all[start:] + new):
            if joined and first <= joined[-1][1] + 1:
                if last > joined[-1][1]:
                    joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        self._all = joined

    def remove(self, one: int) -> None:
        """Takes an id out, if it is there."""
        for at, (first, last) in enumerate(self._all):
            if first <= one <= last:
                self._all[at : at + 1] = [
                    part for part in ((first, one - 1), (one + 1, last)) if part[0] <= part[1]
                ]
                return

    def as_list(self) -> list[tuple[int, int]]:
        """All of them."""
        return self._all.copy()
