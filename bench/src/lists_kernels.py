"""A phase of kernels whose time varies, as a list on workers: how long the first worker waits for the last one at its end.

lists_kernels.py KERNELS ROUNDS; prints seconds as JSON: with a slice for each worker, as ranks have, and with many.
"""

import json
import os
import random
import sys
import time

import headquarters
from headquarters.lists import Context

SLOTS = 8
# Seconds of a kernel in the middle, and how much they vary.
KERNEL_S, SIGMA = 0.001, 1.0
SLICES_OF_SLOT = 128


def run(number, kernels):
    # They wait, so that there may be more of them than CPUs.
    for seed in kernels:
        time.sleep(random.Random(seed).lognormvariate(0, SIGMA) * KERNEL_S)
    return [(os.getpid(), time.time())]


def phase(executor, kernels, procs):
    begun = time.time()
    context = Context(executor=executor, procs=procs)
    last = {}
    for worker, end in context.iterates(SLOTS * kernels).nodeMap(run).collect():
        last[worker] = max(end, last.get(worker, 0))
    ends = sorted(last.values())
    # Who got nothing has waited from the beginning.
    first = ends[0] if len(ends) == SLOTS else begun
    return ends[-1] - first, ends[-1] - begun


if __name__ == "__main__":
    kernels, rounds = map(int, sys.argv[1:])
    with headquarters.Executor(SLOTS) as executor:
        phase(executor, 16, SLOTS)
        cases = {"static": SLOTS, "ours": SLOTS * min(SLICES_OF_SLOT, kernels)}
        took = {name: [phase(executor, kernels, procs) for _ in range(rounds)] for name, procs in cases.items()}
    middle = {name: sorted(of)[rounds // 2] for name, of in took.items()}
    print(json.dumps({name: idle for name, (idle, _) in middle.items()} | {f"{name}_whole": whole for name, (_, whole) in middle.items()}))
