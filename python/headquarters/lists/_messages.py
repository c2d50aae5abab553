"""Values as bytes: one head, and large buffers as they are.

The head has the pickle, or says how long it is, and the lengths of the blocks that follow. Blocks are the pickle where it is
long, and the buffers of large arrays, which are not copied.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import Any

from . import _limits as limits

# How many blocks follow, and how long the pickle is that is within the head.
_BEGIN = struct.Struct("<qq")


@dataclass(frozen=True)
class Packed:
    """A value that is ready to travel."""

    head: bytes
    blocks: list[memoryview]


def pack(value: Any) -> Packed:
    """A value as bytes. Raises TypeError where it has no pickle."""
    blocks: list[memoryview] = []

    def goes_within(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < limits.APART_BYTES:
            return True
        blocks.append(raw)
        return False

    try:
        stream = pickle.dumps(value, 5, buffer_callback=goes_within)
    except Exception as error:
        raise TypeError(f"what has to go to another rank cannot be pickled: {type(error).__name__}: {error}") from error
    if len(stream) >= limits.APART_BYTES:
        blocks.insert(0, memoryview(stream))
        stream = b""
    lengths = struct.pack(f"<{len(blocks)}q", *(block.nbytes for block in blocks))
    return Packed(_BEGIN.pack(len(blocks), len(stream)) + lengths + stream, blocks)


def head_length(begin: bytes | bytearray | memoryview) -> int:
    """The length of a head of which at least the first 16 bytes are here."""
    count, inside = _BEGIN.unpack_from(begin)
    return int(_BEGIN.size + 8 * count + inside)


def block_lengths(head: bytes | bytearray | memoryview) -> list[int]:
    """The lengths of the blocks that follow a head."""
    count, _ = _BEGIN.unpack_from(head)
    return list(struct.unpack_from(f"<{count}q", head, _BEGIN.size))


def unpack(head: bytes | bytearray | memoryview, blocks: list[bytearray]) -> Any:
    """The value. It keeps the blocks that are buffers of arrays."""
    count, inside = _BEGIN.unpack_from(head)
    if inside:
        return pickle.loads(memoryview(head)[_BEGIN.size + 8 * count :], buffers=blocks)
    return pickle.loads(blocks[0], buffers=blocks[1:])


def pieces(block: bytes | bytearray | memoryview, bytes_max: int) -> list[memoryview]:
    """A block as messages that are short enough."""
    view = memoryview(block).cast("B")
    return [view[at : at + bytes_max] for at in range(0, view.nbytes, bytes_max)]
