"""How parts of elements find the ranks that make new elements of them: what is common to `repartition` and `group`."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ._layout import Layout
from ._ranks import Ranks

Parts = dict[int, list[Any]]
"""For each number of a new element its parts, in order."""


def cut(elements: Sequence[Any], lengths: list[int], start: int, layout: Layout, split: Callable[[Any, Any], Any]) -> Parts:
    """The blocks of records that go to each new element. `start` is the number of the first record here."""
    parts: Parts = {}
    for element, length in zip(elements, lengths, strict=True):
        if not length:
            continue
        first, last = layout.part_of(start), layout.part_of(start + length - 1)
        cuts = [layout.start(number) - start for number in range(first + 1, last + 1)]
        ranges = list(zip([0, *cuts], [*cuts, length], strict=True))
        blocks = list(split(element, ranges))
        if len(blocks) != len(ranges):
            raise ValueError(
                f"split of repartition gave {len(blocks)} blocks for {len(ranges)} ranges of an element "
                f"with {length} records: {ranges}"
            )
        for number, block in enumerate(blocks, first):
            parts.setdefault(number, []).append(block)
        start += length
    return parts


def sorted_out(elements: Iterable[Any], f: Callable[[Any, Any], Any], n: int, is_by_element: bool) -> Parts:
    """The parts that the function of `group` makes of elements; all of them fill one dict unless it is by element."""
    out: dict[Any, Any] = {}
    if not is_by_element:
        for element in elements:
            f(element, out)
        return _checked(out, n)
    merged: Parts = {}
    for element in elements:
        out = {}
        f(element, out)
        for key, parts in _checked(out, n).items():
            merged.setdefault(key, []).extend(parts)
    return merged


def _checked(out: dict[Any, Any], n: int) -> Parts:
    # The usual case is seen without looking at each key in Python.
    if {*map(type, out)} <= {int} and {*map(type, out.values())} <= {list} and (not out or 0 <= min(out) <= max(out) < n):
        return out
    return {_key(key, n): _list_of(parts, key) for key, parts in out.items()}


def _key(key: Any, n: int) -> int:
    try:
        number = operator.index(key)
    except TypeError:
        raise TypeError(f"group: a key is a whole number, not {key!r}") from None
    if not 0 <= number < n:
        raise ValueError(f"group: key {number} is not among 0 … {n - 1}" if n else f"group: key {number}, and N is 0")
    return number


def _list_of(parts: Any, key: Any) -> list[Any]:
    if isinstance(parts, (list, tuple)):
        return list(parts)
    raise TypeError(f"group: out[{key!r}] has to be a list of parts, not a {type(parts).__name__}")


def addressed(parts: Parts, ranks: Ranks, n: int) -> list[Any]:
    """What goes to each rank: the numbers of new elements that it will have, and their parts."""
    layout = Layout(n, ranks.procs)
    numbers = sorted(parts)
    values: list[Any] = []
    for rank in range(ranks.procs):
        own = layout.range(rank)
        these = numbers[bisect_left(numbers, own.start) : bisect_left(numbers, own.stop)]
        value = (these, [parts[number] for number in these])
        values.append(value if rank == ranks.rank else ranks.packed(value) if these else None)
    return values


def new_elements(came: list[Any], ranks: Ranks, n: int, concat: Callable[[Any], Any], keep_empty: bool) -> Iterator[Any]:
    """The new elements of this rank, in order, of what came from all ranks."""
    merged = _merged([value for value in came if value is not None], came[ranks.rank])
    if keep_empty:
        return (concat(merged.pop(number, [])) for number in Layout(n, ranks.procs).range(ranks.rank))
    # Each list of parts is dropped as soon as it is used.
    return map(concat, map(merged.pop, sorted(merged)))


def _merged(values: list[Any], own: Any) -> Parts:
    # Lists that came are ours, and may grow; those from here are of the user's function.
    merged: Parts = {}
    for value in values:
        numbers, lists = value
        if value is own and len(values) > 1:
            lists = [*map(list, lists)]
        if not merged:
            merged = dict(zip(numbers, lists, strict=True))
            continue
        for number, parts in zip(numbers, lists, strict=True):
            if number in merged:
                merged[number] += parts
            else:
                merged[number] = parts
    return merged
