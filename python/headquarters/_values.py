"""Files of values: a pickle, and beside it the buffers that it refers to, which are never copied.

What is mapped here may be written to; what is written stays in this process.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _limits as limits

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC = b"HQVALUE1"
# The mark, the nonce, the number of buffers, nothing.
_HEAD = struct.Struct("<8s16sII")
_SECTION = struct.Struct("<QQ")
_ALIGNED = 64
# The most that is written by one call of the system.
_WRITE_BYTES = 1 << 30
_MAPPED: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class Packed(NamedTuple):
    """A value as bytes: its pickle, and what lies beside it."""

    data: bytes
    buffers: list[memoryview]

    @property
    def size(self) -> int:
        """Bytes of its file."""
        sections = self._sections()
        return sections[-1][0] + sections[-1][1]

    def digest(self) -> str:
        """Names what is in it."""
        import hashlib

        found = hashlib.sha256()
        for part in self._parts():
            found.update(struct.pack("<Q", len(part)))
            found.update(part)
        return found.hexdigest()

    def write(self, file: int, nonce: bytes) -> None:
        """Writes the file of the value into an empty one."""
        sections = self._sections()
        head = _HEAD.pack(_MAGIC, nonce, len(self.buffers), 0) + b"".join(_SECTION.pack(*one) for one in sections)
        _write(file, memoryview(head), 0)
        for (offset, _), part in zip(sections, self._parts()):
            _write(file, part, offset)
        # The last section may have no bytes.
        os.ftruncate(file, self.size)

    def _parts(self) -> list[memoryview]:
        return [memoryview(self.data), *self.buffers]

    def _sections(self) -> list[tuple[int, int]]:
        parts = self._parts()
        at = _HEAD.size + _SECTION.size * len(parts)
        sections = []
        for part in parts:
            at = -(-at // _ALIGNED) * _ALIGNED
            sections.append((at, len(part)))
            at += len(part)
        return sections


def beside(buffers: list[memoryview], larger_than: int) -> Any:
    """What pickle asks of each buffer: those that are larger go into this list, the others into the pickle."""

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes <= larger_than:
            return True
        buffers.append(raw)
        return False

    return stays


def nonce_of(file: int) -> bytes | None:
    """The nonce in the file of a value; None when it is no such file."""
    head = os.pread(file, _HEAD.size, 0)
    return head[8:24] if len(head) == _HEAD.size and head.startswith(_MAGIC) else None


def load(file: int, writable: bool = True, resolve: Callable[[int, int], Any] | None = None) -> Any:
    """The value in a file; `resolve` gives what references to tasks stand for in it. Raises ValueError when it is not whole."""
    size = os.fstat(file).st_size
    whole = _bytes(file, size, writable)
    if size < _HEAD.size:
        raise ValueError(f"the file of the value is cut off: it has {size} bytes")
    mark, _, count, _ = _HEAD.unpack_from(whole)
    start = _HEAD.size + _SECTION.size * (1 + count)
    if mark != _MAGIC or start > size:
        raise ValueError("the file of the value has another form, or is cut off")
    parts = []
    for at in range(_HEAD.size, start, _SECTION.size):
        offset, length = _SECTION.unpack_from(whole, at)
        if offset < start or offset + length > size:
            raise ValueError(f"the file of the value is cut off: bytes {offset} to {offset + length} of {size} are missing")
        parts.append(whole[offset : offset + length])
    if resolve is not None:
        return _WithReferences(parts[0], parts[1:], resolve).load()
    return pickle.loads(parts[0], buffers=parts[1:])


class _WithReferences(pickle.Unpickler):
    # Whatever references mean in this process: here they are values that the program has.
    def __init__(self, data: memoryview, buffers: list[memoryview], resolve: Callable[[int, int], Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._resolve = resolve

    def find_class(self, module: str, name: str) -> Any:
        return self._resolve if module == "_hq_runner" else super().find_class(module, name)


def _bytes(file: int, size: int, writable: bool) -> memoryview:
    # A mapping takes whole pages, and in Python before 3.13 a descriptor as long as it lives.
    if size <= limits.MAPPED_FROM or (len(_MAPPED) >= limits.MAPPINGS_MAX and size <= limits.READ_BYTES_MAX):
        read = bytearray(size)
        count = os.preadv(file, [read], 0) if size else 0
        whole = memoryview(read)[:count]
        return whole if writable else whole.toreadonly()
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    arguments: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    mapped = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=protection, **arguments)
    _MAPPED.add(mapped)
    return memoryview(mapped)


def _write(file: int, part: memoryview, offset: int) -> None:
    part = part.cast("B") if part.format != "B" or part.ndim != 1 else part
    done = 0
    while done < len(part):
        done += os.pwrite(file, part[done : done + _WRITE_BYTES], offset + done)
