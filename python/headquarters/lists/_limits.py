"""How much of a list travels at once, and as what."""

MESSAGE_BYTES_MAX = 1 << 30
"""The most bytes of one MPI message; what is longer travels as several, as the counts of MPI end at 2 GiB. At least 16."""

APART_BYTES = 64 * 1024
"""Buffers of elements (such as arrays) from this size on travel as they are, without being copied into the pickle."""

FIRST_BYTES = 256
"""What a broadcast sends at once: nothing follows where that is enough."""
