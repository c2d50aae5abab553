"""One case of the benchmark of lists, as the ranks of an MPI program; the first prints seconds as JSON.

lists.py CASE COUNT ROUNDS
"""

import json
import sys
import time

import headquarters.lists
import mpi_list
from mpi4py import MPI


def reduced(context, count):
    total = context.iterates(count).map(lambda n: n + 1).reduce(lambda a, b: a + b, 0)
    assert total == count * (count + 1) // 2


def grouped(context, count):
    # Each rank has parts for all keys.
    def sort_out(rank, out):
        for key in range(count):
            out[key] = [rank]

    assert context.iterates(context.procs).group(sort_out, sum, count).len() == count


def grouped_once(context, count):
    # Each key is on one rank.
    def sort_out(key, out):
        out.setdefault(key, []).append(key)

    assert context.iterates(count).group(sort_out, sum, count).len() == count


if __name__ == "__main__":
    case, count, rounds = globals()[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
    contexts = {"ours": headquarters.lists.Context("mpi"), "theirs": mpi_list.Context()}
    took = {name: [] for name in contexts}
    for _ in range(rounds):
        for name, context in contexts.items():
            MPI.COMM_WORLD.Barrier()
            begun = time.perf_counter()
            case(context, count)
            MPI.COMM_WORLD.Barrier()
            took[name].append(time.perf_counter() - begun)
    if MPI.COMM_WORLD.Get_rank() == 0:
        # The least of several: what the machine does beside it only adds.
        print(json.dumps({name: min(seconds) for name, seconds in took.items()}))
