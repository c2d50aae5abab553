"""A wave on a string, of which each rank of MPI has a part: a call on four ranks for each speed, in a world that stays.

`python waves.py [POINTS]`. Needs mpi4py and an MPI, such as that of the wheel `mpich`. The same program in one process gives the
same, and the example compares the two.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import headquarters as hq

RANKS = 4
STEPS = 200
SPEEDS = (0.25, 0.5, 0.75)


def shape(points: int) -> list[float]:
    """The string before it is let go."""
    return [math.exp(-((40 * at / points - 12) ** 2)) for at in range(points)]


def step(before: list[float], now: list[float], left: float, right: float, speed: float) -> list[float]:
    """A part of the string a moment later, by the points beside it."""
    around = [left, *now, right]
    bends = [around[at] - 2 * around[at + 1] + around[at + 2] for at in range(len(now))]
    return [2 * now[at] - before[at] + speed**2 * bends[at] for at in range(len(now))]


def serial(points: int, speed: float) -> list[float]:
    """The whole string after all steps."""
    before = now = shape(points)
    for _ in range(STEPS):
        before, now = now, step(before, now, 0.0, 0.0, speed)
    return now


def parallel(points: int, speed: float, comm: hq.mpi.Comm = None) -> list[float] | None:
    """The same on ranks; rank 0 gets the whole string."""
    first, last = (points * (comm.rank + more) // comm.size for more in (0, 1))
    before = now = shape(points)[first:last]
    for _ in range(STEPS):
        left: Any = 0.0
        right: Any = 0.0
        if comm.rank > 0:
            left = comm.sendrecv(now[0], comm.rank - 1, source=comm.rank - 1)
        if comm.rank < comm.size - 1:
            right = comm.sendrecv(now[-1], comm.rank + 1, source=comm.rank + 1)
        before, now = now, step(before, now, left, right, speed)
    parts = comm.gather(now)
    return None if parts is None else [point for part in parts for point in part]


def main(points: int = 2000) -> None:
    with hq.LocalCluster(cpus=RANKS) as cluster, hq.Executor(cluster=cluster, name="waves") as executor:
        on_ranks = executor.options(ranks=RANKS)
        futures = [on_ranks.submit(parallel, points, speed) for speed in SPEEDS]
        for speed, future in zip(SPEEDS, futures):
            assert future.result() == serial(points, speed), f"with {speed} it is another one in one process"
    print(f"{len(SPEEDS)} strings of {points} points on {RANKS} ranks, {STEPS} steps: as in one process")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
