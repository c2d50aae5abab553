"""Heat spreads over a plate, which lies in strips in the stores of three workers: a call for each strip and round, which takes
what the call of the round before has left. One of the workers is killed meanwhile.

`python heat.py [MB]` says how much each strip takes, 100 MB by default. The same program in one process gives the same, and the
example compares the two.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import headquarters as hq

STRIPS = 3
ROUNDS = 4
STEPS = 3
"""Steps of a round: a strip needs so many rows of its neighbours."""


def sides(megabytes: float) -> tuple[int, int]:
    """Rows and columns of a strip of so many megabytes."""
    cells = int(megabytes * 1e6 / 8)
    columns = max(16, int(cells**0.5))
    return max(2 * STEPS, -(-cells // columns)), columns


def start(number: int, rows: int, columns: int) -> Any:
    """A strip at the beginning."""
    import numpy as np

    row, column = np.ogrid[number * rows : (number + 1) * rows, 0:columns]
    return 100.0 * ((row // 50 + column // 50) % 2)


def step(plate: Any) -> Any:
    """What it is a moment later; the cells around it stay as they are."""
    import numpy as np

    later: Any = np.empty_like(plate)
    later[:] = plate
    # A few rows at a time need little memory beside the two plates.
    for first in range(1, len(plate) - 1, 64):
        last = min(first + 64, len(plate) - 1)
        middle = plate[first:last, 1:-1]
        around = plate[first - 1 : last - 1, 1:-1] + plate[first + 1 : last + 1, 1:-1]
        around += plate[first:last, :-2]
        around += plate[first:last, 2:]
        later[first:last, 1:-1] = middle + 0.2 * (around - 4 * middle)
    return later


def edges(strip: Any) -> tuple[Any, Any]:
    """The first and the last rows of a strip."""
    return strip[:STEPS].copy(), strip[-STEPS:].copy()


def advance(strip: Any, above: tuple[Any, Any] | None, below: tuple[Any, Any] | None) -> Any:
    """A strip a round later, by the edges of its neighbours."""
    import numpy as np

    parts = [strip] if above is None else [above[1], strip]
    plate = np.concatenate(parts if below is None else [*parts, below[0]])
    for _ in range(STEPS):
        plate = step(plate)
    return plate[0 if above is None else STEPS : len(plate) - (0 if below is None else STEPS)]


def same(strip: Any, number: int, whole: Any) -> bool:
    """True if this strip is that of the whole plate."""
    import numpy as np

    return bool(np.array_equal(strip, whole[number * len(strip) : (number + 1) * len(strip)]))


def main(megabytes: float = 100) -> None:
    import numpy as np

    rows, columns = sides(megabytes)
    with hq.LocalCluster(workers=STRIPS, cpus=1) as cluster, hq.Executor(cluster=cluster, name="heat") as executor:
        cluster.wait_for_workers(STRIPS)
        strips = [executor.submit(start, number, rows, columns) for number in range(STRIPS)]
        for number in range(ROUNDS):
            outer: list[Any] = [None, *(executor.submit(edges, strip) for strip in strips), None]
            strips = [executor.submit(advance, strip, outer[at], outer[at + 2]) for at, strip in enumerate(strips)]
            if number == ROUNDS // 2:
                kill_worker_of(cluster, strips[0])
        refs = [strip.stored() for strip in strips]
        size = min(ref.nbytes for ref in refs)
        whole = np.concatenate([start(number, rows, columns) for number in range(STRIPS)])
        for _ in range(ROUNDS * STEPS):
            whole = step(whole)
        for number, strip in enumerate(strips):
            assert same(strip.result(), number, whole), f"strip {number} is another one in one process"
    assert size >= megabytes * 1e6
    print(f"{STRIPS} strips of {size / 1e6:.0f} MB, {ROUNDS * STEPS} steps: {whole.mean():.3f} degrees, as in one process")


def kill_worker_of(cluster: hq.LocalCluster, future: hq.Future[Any]) -> None:
    """Kills the worker that has the value of a call, and with it the value."""
    future.exception()
    processes = {worker.id: worker.pid for worker in cluster.client().workers()}
    os.kill(processes[future.worker], signal.SIGKILL)


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:2]))
