"""The elements of one rank on its disk, so that a list may be larger than memory."""

from __future__ import annotations

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar, overload

T = TypeVar("T")
Place = Literal["memory", "disk"]


class OnDisk(Sequence[T]):
    """Elements in a file without a name, which ends with the process. Each use of an element reads it anew."""

    def __init__(self, elements: Iterable[T]) -> None:
        self._file = tempfile.TemporaryFile(prefix="hq-list-")
        self._ends = array("q", [0])
        end = 0
        for element in elements:
            end += self._file.write(pickle.dumps(element, 5))
            self._ends.append(end)
        self._file.flush()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[T]:
        return (self._read(number) for number in range(len(self)))

    @overload
    def __getitem__(self, which: int) -> T: ...
    @overload
    def __getitem__(self, which: slice) -> list[T]: ...
    def __getitem__(self, which: int | slice) -> T | list[T]:
        # The range knows what a negative number is, and which are too large.
        numbers = range(len(self))[which]
        return self._read(numbers) if isinstance(numbers, int) else [self._read(number) for number in numbers]

    def __repr__(self) -> str:
        return f"<{len(self)} elements on disk>"

    def _read(self, number: int) -> T:
        at, end = self._ends[number], self._ends[number + 1]
        data = bytearray()
        while len(data) < end - at:
            part = os.pread(self._file.fileno(), end - at - len(data), at + len(data))
            if not part:
                raise EOFError(f"element {number} of a stored list is cut off")
            data += part
        element: T = pickle.loads(data)
        return element


def checked(place: Any) -> Place:
    """The place of this name."""
    if place == "memory" or place == "disk":
        return "memory" if place == "memory" else "disk"
    raise ValueError(f"storage is 'memory' or 'disk', not {place!r}")


def kept(elements: Iterable[T], place: Place) -> Sequence[T]:
    """These elements in their place; on the disk no more than one of them is in memory at a time."""
    return list(elements) if place == "memory" else OnDisk(elements)
