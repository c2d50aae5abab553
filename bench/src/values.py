"""One case of the benchmark of Python values, each beside what the machine can do; prints numbers as JSON.

values.py CASE SERVER_DIR BYTES DIRECTORY

What is compared with a disk is written to the directory.
"""

import json
import mmap
import pathlib
import sys
import tempfile
import time

import numpy

import headquarters

ROUNDS = 5


def filled(size, number=0):
    return numpy.full(size // 8, number, dtype=numpy.int64)


def least(seconds):
    # What the machine does beside it only adds.
    return min(seconds)


def copied(array):
    # Into pages that nobody has touched before, of the size of those of files.
    begun = time.perf_counter()
    pages = mmap.mmap(-1, array.nbytes)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    numpy.frombuffer(pages, array.dtype)[:] = array
    return time.perf_counter() - begun


def put(executor, size):
    array = filled(size, 1)
    executor.put(array[:1024]).drop()
    ours, copies = [], []
    for _ in range(ROUNDS):
        copies.append(copied(array))
        begun = time.perf_counter()
        ref = executor.put(array)
        ours.append(time.perf_counter() - begun)
        ref.drop()
    return {"seconds": least(ours), "copy": least(copies)}


def get(executor, size):
    # The first time that each of some values of a call is asked for: it is mapped where it lies.
    took = {}
    for length in sorted({64 * 1024, 1024 * 1024, size}):
        refs = [executor.submit(filled, length, number).stored() for number in range(ROUNDS)]
        seconds = []
        for number, ref in enumerate(refs):
            begun = time.perf_counter()
            array = ref.get()
            seconds.append(time.perf_counter() - begun)
            assert array[0] == array[-1] == number
            del array
        took[length] = least(seconds)
    array = filled(size, 1)
    return {"seconds": max(took.values()), "copy": copied(array), "each": {str(length): one for length, one in took.items()}}


def spill(executor, size):
    # Objects that all live, of 16 times what the store has room for: what has none goes to its spill, on a disk.
    count, part = 64, size // 64
    begun, refs, why = time.perf_counter(), [], ""
    try:
        for number in range(count):
            refs.append(executor.put(filled(part, number)))
        for number, ref in enumerate(refs):
            assert int(ref.get().sum()) == number * (part // 8)
    except headquarters.HqError as error:
        why = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "disk": through_files(count, part), "stored": len(refs), "count": count, "why": why}


def through_files(count, part):
    # The same through files on that disk.
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=sys.argv[4]) as directory:
        paths = [pathlib.Path(directory) / str(number) for number in range(count)]
        for number, path in enumerate(paths):
            filled(part, number).tofile(path)
        for number, path in enumerate(paths):
            assert int(numpy.memmap(path, numpy.int64, "r").sum()) == number * (part // 8)
    return time.perf_counter() - begun


def total(array):
    return int(array.sum())


def near(executor, size):
    # Many tasks read few large values, which lie on several workers.
    count, each = 100, 10
    futures = [executor.submit(filled, size, number) for number in range(count)]
    headquarters.wait(futures)
    begun = time.perf_counter()
    sums = [executor.submit(total, future) for _ in range(each) for future in futures]
    assert sum(one.result() for one in sums) == each * (size // 8) * sum(range(count))
    seconds = time.perf_counter() - begun
    holders = [len(future.stored().where()["workers"]) for future in futures]
    array, reads = filled(size, 1), []
    for _ in range(ROUNDS):
        begun_read = time.perf_counter()
        total(array)
        reads.append(time.perf_counter() - begun_read)
    fetched = sum(holders) - count
    return {"seconds": seconds, "read": least(reads) * count * each, "fetched": fetched, "reads": count * each}


CASES = {"put": put, "get": get, "spill": spill, "near": near}

if __name__ == "__main__":
    case, server, size = sys.argv[1:4]
    with headquarters.Executor(cluster=server) as executor:
        print(json.dumps(CASES[case](executor, int(size))))
