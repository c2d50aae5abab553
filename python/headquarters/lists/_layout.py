"""Which numbers of 0 … total-1 each of several parts has: all nearly the same count, in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """An even spread of `total` numbers over `parts`.

    Counts differ by one at most. The larger parts come first, or last with `is_larger_last`.
    """

    total: int
    parts: int
    is_larger_last: bool = False

    def start(self, part: int) -> int:
        """The first number of a part; that of the part behind the last one is the total."""
        count, more = divmod(self.total, self.parts)
        larger_before = max(0, part - (self.parts - more)) if self.is_larger_last else min(part, more)
        return part * count + larger_before

    def range(self, part: int) -> range:
        """The numbers of a part."""
        return range(self.start(part), self.start(part + 1))

    def part_of(self, number: int) -> int:
        """The part that has a number; 0 <= number < total."""
        count, more = divmod(self.total, self.parts)
        first, first_count = (self.parts - more, count) if self.is_larger_last else (more, count + 1)
        beyond = number - first * first_count
        if beyond < 0:
            return number // first_count
        return first + beyond // (count + 1 if self.is_larger_last else count)
