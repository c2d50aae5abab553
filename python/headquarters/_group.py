"""Calls that wait to be sent as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native_types import Batch
    from ._pickling import Code
    from ._results import Block


class Group:
    """Calls that wait to be sent as one batch: same options, same function, ids in a row."""

    __slots__ = ("block", "code", "entries", "first", "size", "template", "waits")

    def __init__(self, template: int, code: Code, first: int, block: Block | None) -> None:
        self.template = template
        self.code = code
        self.first = first
        self.entries: list[bytes] = []
        self.waits: list[tuple[int, list[tuple[int, int]]]] = []
        self.size = 0
        self.block = block

    def batch(self) -> Batch:
        return (self.template, self.code.name, self.code.data, self.first, self.entries, self.waits, [])

    def halves(self) -> tuple[Group, Group]:
        """The same calls as two groups."""
        middle = len(self.entries) // 2
        left = Group(self.template, self.code, self.first, self.block)
        right = Group(self.template, self.code, self.first + middle, self.block)
        left.entries, right.entries = self.entries[:middle], self.entries[middle:]
        left.waits = [wait for wait in self.waits if wait[0] < middle]
        right.waits = [(at - middle, refs) for at, refs in self.waits if at >= middle]
        return left, right
