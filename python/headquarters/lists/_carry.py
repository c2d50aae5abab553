"""Values on their way between calls and the program: short ones as bytes, the others in the stores of workers.

What one call gives to others is a bundle of blocks, and is what that call returns. So it travels with the end of the call where
it is short, and stays in the store of its worker where it is long: then it is made once more where it is lost.
"""

from __future__ import annotations

import mmap
import pickle
import struct
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

_LENGTH = struct.Struct("<q")


@dataclass(frozen=True)
class Inside:
    """A pickle that travels as it is."""

    data: bytes


@dataclass(frozen=True)
class InBundle:
    """A block of what a call gives, or of what the program has put into a store."""

    bundle: Any
    """What the program has of it, or what a call is given for it; its `get()` is the bundle."""
    block: int
    is_stream: bool = False
    """True for elements one after the other, each with a pickle of its own."""


Carried = Inside | InBundle


class Bundle:
    """Blocks that one call has made; empty ones stand for nothing."""

    __slots__ = ("_data", "_ends")

    def __init__(self, data: bytes | bytearray | memoryview, ends: array[int]) -> None:
        self._data = memoryview(data)
        self._ends = ends

    def block(self, number: int) -> memoryview:
        """The bytes of a block. Of a bundle that is mapped nothing else is read."""
        return self._data[self._ends[number - 1] if number else 0 : self._ends[number]]

    def __reduce__(self) -> tuple[Any, ...]:
        # In one piece, so that it lies beside the pickle, and is mapped and not read.
        return _bundle, (pickle.PickleBuffer(self._data), self._ends.tobytes())


def _bundle(data: Any, ends: bytes) -> Bundle:
    return Bundle(data, array("q", ends))


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
    """What a call is about to give: blocks in memory, or in a file without a name as soon as one of them is a stream."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._file: IO[bytes] | None = None
        self._ends = array("q")

    def add(self, block: bytes) -> None:
        """One more block."""
        if self._file is None:
            self._data += block
        else:
            self._file.write(block)
        self._end()

    def add_stream(self, elements: Iterable[Any]) -> Iterable[Any]:
        """A block of elements one after the other, which are never in memory together; gives them again, read from there."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="hq-list-")
            self._file.write(self._data)
            self._data.clear()
        start = self._file.tell()
        for element in elements:
            data = dumps(element)
            self._file.write(_LENGTH.pack(len(data)) + data)
        self._end()
        return _elements(self._mapped()[start:])

    def close(self) -> Bundle:
        """The bundle."""
        return Bundle(self._data if self._file is None else self._mapped(), self._ends)

    def _end(self) -> None:
        self._ends.append(len(self._data) if self._file is None else self._file.tell())

    def _mapped(self) -> memoryview:
        # Its pages are those of the file, and no memory of their own.
        assert self._file is not None, "a stream is in a file"
        self._file.flush()
        if not self._file.tell():
            return memoryview(b"")
        return memoryview(mmap.mmap(self._file.fileno(), self._file.tell(), prot=mmap.PROT_READ))


def value_of(what: Carried | None) -> Any:
    """The value that has come; None for nothing."""
    if what is None:
        return None
    if isinstance(what, Inside):
        return pickle.loads(what.data)
    if what.is_stream:
        return list(elements_of(what))
    data = bundle_of(what.bundle).block(what.block)
    return pickle.loads(data) if len(data) else None


def elements_of(what: Carried) -> Iterable[Any]:
    """The elements of a slice; those of a stream are read one after the other."""
    if isinstance(what, InBundle) and what.is_stream:
        return _elements(bundle_of(what.bundle).block(what.block))
    elements: list[Any] = value_of(what)
    return elements


def bundle_of(what: Any) -> Bundle:
    """The bundle behind what stands for one: itself, where there are no handles."""
    found: Bundle = what if isinstance(what, Bundle) else what.get()
    return found


def _elements(block: memoryview) -> Iterator[Any]:
    at = 0
    while at < len(block):
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(block, at)[0]
        yield pickle.loads(block[start:at])
