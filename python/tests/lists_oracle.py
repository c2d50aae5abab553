"""What lists have to be, whatever has their parts: each method beside the same with plain lists.

A list is drawn with the elements of each rank; the number of ranks is that of the context. Texts are joined in the functions, so
that a wrong order shows. On workers the program is all ranks: a part is then that of a slice.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
import tempfile

from headquarters.lists import DFM, Context


class Blob:
    """An element with a buffer that can travel apart from its pickle, as those of arrays do."""

    def __init__(self, data):
        self.data = bytearray(data)

    def __reduce_ex__(self, protocol):
        return Blob, (pickle.PickleBuffer(self.data) if protocol >= 5 else bytes(self.data),)

    def __eq__(self, other):
        return bytes(self.data) == bytes(other.data)

    def __len__(self):
        return len(self.data)


def join(left, right):
    return left + right


def spread(drawn, values, procs):
    """Values cut into parts of any lengths, many of them empty."""
    cuts = sorted(drawn.randint(0, len(values)) for _ in range(procs - 1))
    return [values[start:end] for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]


def even(values, parts, larger_last=False):
    """Values cut into parts whose lengths differ by one at most."""
    count, more = divmod(len(values), parts)
    sizes = [count + (number < more) for number in range(parts)]
    ends = list(itertools.accumulate(sizes[::-1] if larger_last else sizes, initial=0))
    return [values[start:end] for start, end in itertools.pairwise(ends)]


def whole(parts):
    return [element for part in parts for element in part]


def of_parts(C, parts):
    """A list of which each rank has its part."""
    if C.backend == "tasks":
        return C.iterates(C.procs).flatMap(lambda number: parts[number])
    return DFM(C, parts[C.rank])


def holds(made, parts):
    """Each rank has its part of what is expected."""
    C = made.C
    if C.backend == "tasks":
        assert made.nodeMap(lambda number, part: [part]).collect(root=None) == parts
    assert list(made.E) == parts[C.rank], (C.rank, list(made.E), parts)


def check(C: Context, seed: int) -> None:
    """All methods on a list that is drawn."""
    drawn = random.Random(seed)
    procs = C.procs
    words = ["".join(drawn.choices("abc", k=drawn.choice([0, 1, 2, 40]))) for _ in range(drawn.choice([0, 1, 3, 20]))]
    parts = spread(drawn, words, procs)
    d = of_parts(C, parts)
    if drawn.random() < 0.5:
        d = d.store("disk")
    for step in (local, roots_and_heads, reductions, scans, repartitions, groups, beginnings, subs, blobs):
        step(C, d, parts, drawn)


def local(C, d, parts, drawn):
    holds(d, parts)
    holds(d.map(len), [[len(word) for word in part] for part in parts])
    holds(d.filter(lambda word: "a" in word), [[word for word in part if "a" in word] for part in parts])
    holds(d.flatMap(list), [[letter for word in part for letter in word] for part in parts])
    holds(d.nodeMap(lambda rank, part: [rank, *part[::-1]]), [[rank, *part[::-1]] for rank, part in enumerate(parts)])
    place = drawn.choice(["memory", "disk"])
    holds(d.store(place).map(str.upper).store("memory"), [[word.upper() for word in part] for part in parts])


def roots_and_heads(C, d, parts, drawn):
    assert d.len() == len(whole(parts))
    assert d.collect(root=None) == whole(parts)
    root = drawn.randrange(C.procs)
    assert d.collect(root) == (whole(parts) if C.rank == root else None)
    assert d.collect() == (whole(parts) if C.rank == 0 else None)
    for n in (0, 1, drawn.randint(0, 25)):
        assert d.head(n) == whole(parts)[:n]
    assert d.head() == whole(parts)[:10]


def reductions(C, d, parts, drawn):
    for_each = "".join("<" + "".join(part) for part in parts)
    assert d.reduce(join, "<") == for_each
    assert d.reduce(join, "<", False) == (for_each if C.rank == 0 else None)
    assert d.reduce(join, initial="<") == "<" + "".join(whole(parts))
    at_first = d.reduce(join, distribute=False, initial="<")
    assert at_first == ("<" + "".join(whole(parts)) if C.rank == 0 else None)
    # What is on the left may be changed, and is nobody else's.
    letters, start = d.map(list), []
    before = letters.map(list).collect(root=None)
    assert letters.reduce(list.__iadd__, start) == letters.reduce(list.__iadd__, initial=start) == list("".join(whole(parts)))
    assert start == [] and letters.collect(root=None) == before


def scans(C, d, parts, drawn):
    words = whole(parts)
    sums = list(itertools.accumulate(words))
    again = [len(part) for part in parts]

    def cut(values):
        ends = list(itertools.accumulate(again, initial=0))
        return [values[start:end] for start, end in itertools.pairwise(ends)]

    holds(d.scan(join), cut(sums))
    holds(d.scan(join, initial="<"), cut(["<" + one for one in sums]))
    holds(d.scan(join, exclusive=True, initial="<"), cut(["<" + one for one in ["", *sums][: len(words)]]))


def repartitions(C, d, parts, drawn):
    records = "".join(whole(parts))
    n = drawn.choice([1, 2, 7, len(records) + 3, 0 if not records else 4])

    def split(word, ranges):
        assert ranges == sorted(ranges) and ranges[0][0] == 0 and ranges[-1][1] == len(word)
        return [word[start:end] for start, end in ranges]

    new = even(records, n, larger_last=True) if n else []
    for keep_empty in (False, True):
        expected = [[one for one in part if one or keep_empty] for part in even(new, C.procs)]
        holds(d.repartition(len, split, "".join, n, keep_empty=keep_empty), expected)


def groups(C, d, parts, drawn):
    n = drawn.choice([3, 5, 100])

    def sort_out(word, out):
        for letter in word:
            out.setdefault(ord(letter) - ord("a"), []).append(word)

    def pairs(word, out):
        # Sees what the elements before it have left.
        out.setdefault(len(word) % n, []).append((word, len(out.get(len(word) % n, []))))

    by_letter = [[word for word in whole(parts) for one in word if one == letter] for letter in "abc"]
    for order, keep_empty in itertools.product(("rank", "element"), (False, True)):
        rows = even(by_letter + [[]] * (n - 3), C.procs)
        expected = [[row for row in part if row or keep_empty] for part in rows]
        holds(d.group(sort_out, list, n, order=order, keep_empty=keep_empty), expected)
    alone = {number: [(word, 0) for word in whole(parts) if len(word) % n == number] for number in range(n)}
    expected = [[row for row in part if row] for part in even([alone[number] for number in range(n)], C.procs)]
    holds(d.group(pairs, list, n, order="element"), expected)
    together = {number: [] for number in range(n)}
    for part in parts:
        for number in range(n):
            together[number] += [(word, at) for at, word in enumerate(w for w in part if len(w) % n == number)]
    expected = [[row for row in part if row] for part in even([together[number] for number in range(n)], C.procs)]
    holds(d.group(pairs, list, n), expected)


def beginnings(C, d, parts, drawn):
    n = drawn.choice([0, 1, C.procs, 17])
    numbers = list(range(n))
    holds(C.iterates(n), even(numbers, C.procs))
    assert C.iterates(n).len() == n
    holds(C.iterates(n, robin=True), [numbers[rank :: C.procs] for rank in range(C.procs)])
    holds(C.from_list(whole(parts)), even(whole(parts), C.procs))
    ends = drawn.choice(["\n", "\r\n"])
    text = ends.join(whole(parts)) + drawn.choice(["", ends])
    with tempfile.NamedTemporaryFile("w", newline="", suffix=f"-{C.rank}") as file:
        file.write(text)
        file.flush()
        # Each rank has a file of its own with the same text.
        read = C.read_lines(file.name)
        with open(file.name, newline=None) as again:
            expected = [line.rstrip("\n") for line in again]
        assert read.collect(root=None) == expected, (text, read.E)
        assert len(read.E) <= os.stat(file.name).st_size + 1


def subs(C, d, parts, drawn):
    some = drawn.sample(range(C.procs), drawn.randint(1, C.procs))
    S = C.sub(some)
    if C.backend == "tasks":
        assert (S.rank, S.procs) == (0, len(some))
        holds(of_parts(S, [parts[rank] for rank in some]), [parts[rank] for rank in some])
    else:
        assert (S is None) == (C.rank not in some)
        if S is not None:
            assert (S.rank, S.procs) == (some.index(C.rank), len(some)) and C.sub is not None
            holds(DFM(S, parts[C.rank]), [parts[rank] for rank in some])
    assert C.sub(some) is S


def blobs(C, d, parts, drawn):
    sizes = [[drawn.choice([0, 3, 200, 1000]) for _ in part] for part in parts]
    made = [[Blob(drawn.randbytes(size)) for size in part] for part in sizes]
    b = of_parts(C, made)
    assert b.collect(root=None) == whole(made)
    whole_blob = Blob(b"".join(bytes(one.data) for one in whole(made)))
    assert b.reduce(lambda left, right: Blob(left.data + right.data), Blob(b"")) == whole_blob
    n = 4
    new = [Blob(one) for one in even(bytes(whole_blob.data), n, larger_last=True)]
    cut = b.repartition(
        len,
        lambda blob, ranges: [Blob(blob.data[start:end]) for start, end in ranges],
        lambda found: Blob(b"".join(bytes(one.data) for one in found)),
        n,
        keep_empty=True,
    )
    holds(cut, even(new, C.procs))
