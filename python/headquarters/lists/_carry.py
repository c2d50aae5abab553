"""Values on their way between calls and the program: short ones as bytes, the others in files that all of them see.

What one call gives to others is a bundle of blocks. It travels with the end of the call where it is short; else it is one file
in the directory of the context, with the ends of the blocks behind them.
"""

from __future__ import annotations

import errno
import os
import pickle
import secrets
import socket
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from . import _limits as limits
from ._errors import SliceLost

_COUNT = struct.Struct("<q")


@dataclass(frozen=True)
class Inside:
    """A pickle that travels as it is."""

    data: bytes


@dataclass(frozen=True)
class InFile:
    """A block of a bundle in a file."""

    path: str
    block: int
    host: str
    """Where it was written, for those who do not find it."""
    is_stream: bool = False
    """True for elements one after the other, each with a pickle of its own."""


Carried = Inside | InFile


@dataclass(frozen=True)
class Bundle:
    """Blocks that one call has made; empty ones stand for nothing."""

    blocks: tuple[bytes, ...]
    path: str = ""
    host: str = ""

    def part(self, number: int, is_stream: bool = False) -> Carried | None:
        """One of the blocks; None where it is known to be empty. Whether it is a stream is said by who asks."""
        if self.path:
            return InFile(self.path, number, self.host, is_stream)
        return Inside(self.blocks[number]) if self.blocks[number] else None


def dumps(value: Any) -> bytes:
    """The pickle of a value; what is of the program itself travels by value. Raises TypeError where there is none."""
    try:
        try:
            data = pickle.dumps(value, 5)
        except Exception:
            data = b""
        if data and b"__main__" not in data:
            return data
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]

        made: bytes = cloudpickle.dumps(value, 5)
        return made
    except Exception as error:
        raise TypeError(f"what has to leave its slice cannot be pickled: {type(error).__name__}: {error}") from error


class Outbox:
    """What a call is about to give: blocks, which are in a file as soon as they are more than travels."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._inside: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._ends = array("q")

    def add(self, block: bytes) -> None:
        """One more block."""
        self._size += len(block)
        if self._file is None and self._size <= limits.INSIDE_BYTES:
            self._inside.append(block)
        else:
            self._opened().write(block)
            self._end()

    def add_stream(self, elements: Iterable[Any]) -> Iterable[Any]:
        """A block of elements one after the other, which are never in memory together; gives them again, read from there."""
        file = self._opened()
        for element in elements:
            file.write(dumps(element))
        self._end()
        file.flush()
        return _elements(file.name, *self._range(len(self._ends) - 1))

    def close(self) -> Bundle:
        """The bundle."""
        if self._file is None:
            return Bundle(tuple(self._inside))
        with self._file as file:
            file.write(self._ends.tobytes() + _COUNT.pack(len(self._ends)))
        return Bundle((), file.name, socket.gethostname())

    def discard(self) -> None:
        """Leaves nothing behind."""
        if self._file is not None:
            self._file.close()
            remove(self._file.name)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            # Each attempt writes a file of its own, and says its name only when all of it is there.
            self._file = open(os.path.join(self._directory, secrets.token_hex(8)), "xb")
            for block in self._inside:
                self._file.write(block)
                self._end()
            self._inside.clear()
        return self._file

    def _end(self) -> None:
        assert self._file is not None, "a block ends in the file"
        self._ends.append(self._file.tell())

    def _range(self, block: int) -> tuple[int, int]:
        return (self._ends[block - 1] if block else 0), self._ends[block]


def carried(block: bytes, directory: str, inside_max: int = limits.INSIDE_BYTES) -> Carried:
    """A pickle in the form in which it travels."""
    if len(block) <= inside_max:
        return Inside(block)
    outbox = Outbox(directory)
    outbox.add(block)
    bundle = outbox.close()
    made = bundle.part(0)
    assert made is not None, "a pickle is not empty"
    return made


def value_of(what: Carried | None) -> Any:
    """The value that has come; None for nothing."""
    if what is None:
        return None
    if isinstance(what, Inside):
        return pickle.loads(what.data)
    if what.is_stream:
        return list(elements_of(what))
    with _opened(what) as file:
        start, end = _range_in(file, what)
        file.seek(start)
        data = file.read(end - start)
    return pickle.loads(data) if data else None


def elements_of(what: Carried) -> Iterable[Any]:
    """The elements of a slice; those of a stream are read one after the other."""
    if isinstance(what, InFile) and what.is_stream:
        with _opened(what) as file:
            return _elements(what.path, *_range_in(file, what))
    elements: list[Any] = value_of(what)
    return elements


def remove(path: str) -> None:
    """Removes a file that nobody needs any more."""
    try:
        os.unlink(path)
    except OSError:
        # It goes with its directory.
        pass


def _elements(path: str, start: int, end: int) -> Iterator[Any]:
    with open(path, "rb") as file:
        file.seek(start)
        while file.tell() < end:
            yield pickle.load(file)


def _opened(what: InFile) -> IO[bytes]:
    try:
        return open(what.path, "rb")
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
            raise
        here = socket.gethostname()
        why = f"it was written on {what.host}, and all workers and the program have to see it" if here != what.host else "it was removed"
        raise SliceLost(
            f"a part of a list is not to be found on {here}: {what.path}: {why}; Context(directory=...) names a directory for such files"
        ) from error


def _range_in(file: IO[bytes], what: InFile) -> tuple[int, int]:
    whole = file.seek(-_COUNT.size, os.SEEK_END)
    (count,) = _COUNT.unpack(file.read(_COUNT.size))
    ends = array("q")
    first = max(0, what.block - 1)
    file.seek(whole - 8 * count + 8 * first)
    ends.frombytes(file.read(8 * (what.block + 1 - first)))
    return (ends[0] if what.block else 0), ends[-1]
