"""Lists on workers beside a call for each slice of the same; prints seconds as JSON.

lists_workers.py SLICES ROUNDS
"""

import json
import sys
import time

import headquarters
from headquarters.lists import Context


def plus(n):
    return n + 1


def add(left, right):
    return left + right


def whole(numbers):
    total = 0
    for n in numbers:
        total = add(total, plus(n))
    return total


def of_list(context, executor, slices):
    # Functions that do next to nothing: what is left is what lists cost.
    return context.iterates(slices).map(plus).reduce(add, 0)


def of_calls(context, executor, slices):
    futures = [executor.submit(whole, range(number, number + 1)) for number in range(slices)]
    return sum(future.result() for future in futures)


if __name__ == "__main__":
    slices, rounds = map(int, sys.argv[1:])
    with headquarters.Executor(2) as executor:
        context = Context(executor=executor, procs=slices)
        cases = {"ours": of_list, "theirs": of_calls}
        took = {name: [] for name in cases}
        for _ in range(rounds + 1):
            for name, case in cases.items():
                begun = time.perf_counter()
                assert case(context, executor, slices) == slices * (slices + 1) // 2
                took[name].append(time.perf_counter() - begun)
    # The least of several, as what the machine does beside it only adds; the first round starts the interpreters.
    print(json.dumps({name: min(seconds[1:]) for name, seconds in took.items()}))
