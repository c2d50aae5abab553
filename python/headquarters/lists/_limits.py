"""How much of a list travels at once, and as what."""

MESSAGE_BYTES_MAX = 1 << 30
"""The most bytes of one MPI message; what is longer travels as several, as the counts of MPI end at 2 GiB. At least 16."""

APART_BYTES = 64 * 1024
"""Buffers of elements (such as arrays) from this size on travel as they are, without being copied into the pickle."""

FIRST_BYTES = 256
"""What a broadcast sends at once: nothing follows where that is enough."""

GIVEN_BYTES = 64 * 1024
"""What the program gives a call on a worker, a function with what it refers to or a part of a list, travels with it up to this
size; more is put into a store."""

SLICES_MAX = 4096
"""The most slices of a list on workers."""

JOINED_AT_ONCE = 8
"""How many values of slices one call joins."""

STEPS_NESTED = 100
"""Steps of a chain through which elements run one by one; then all elements of a slice are in memory once."""
