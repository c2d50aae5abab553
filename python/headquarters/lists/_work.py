"""What one call on a worker does: the steps of a chain of lists, one after the other, for one slice.

A chain is one call for each slice, however long it is: elements run through all steps. Functions are pickled when they are
given to a list, so they mean what they meant there.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from . import _limits as limits
from ._carry import Bundle, Carried, InFile, Inside, Outbox, dumps, elements_of, value_of
from ._current import current
from ._fold import NOTHING, fold
from ._guard import count, list_of, whole_list
from ._layout import Layout
from ._lines import lines
from ._shuffle import addressed, cut, new_elements, sorted_out
from ._stored import Place


@dataclass(frozen=True)
class Sent:
    """A function, or another value of the program, as it is sent."""

    what: Carried
    paths: tuple[str, ...] = ()
    """Where its modules are looked for."""
    module: str = ""
    """`__main__` if it is sent by value; the name makes sure that it meets the same release of Python."""

    def load(self) -> Any:
        sys.path += [path for path in self.paths if path not in sys.path and os.path.isdir(path)]
        return value_of(self.what)


@dataclass(frozen=True)
class Step:
    """What is done with all elements of a slice: the name of a function below, and what it is given."""

    name: str
    sent: tuple[Sent, ...] = ()
    given: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Lines:
    """The part of a file whose lines are the elements of a slice."""

    path: str
    size: int
    encoding: str


Parts = tuple[Carried | None, ...]
"""What each slice of an earlier list gives to a slice of a new one."""
Input = range | Lines | Carried | Parts
"""What the elements of a slice come from."""


@dataclass(frozen=True)
class Row:
    """What the call for a slice is given, beside what is the same for all."""

    number: int
    input: Input
    of_steps: dict[int, Any]
    """For some steps what each slice has of its own."""
    lists: dict[int, Carried]
    """The slices of the same number of other lists that functions name."""


@dataclass(frozen=True)
class Chain:
    """The steps of several lists, behind which of them all elements are stored, and where, and what is made of the last."""

    steps: tuple[Step, ...]
    kept: tuple[tuple[int, Place], ...]
    answer: Step


class Work:
    """The function that is called for each slice; `chain` comes packed, however long it is."""

    def __init__(self, name: str, directory: str, procs: int, chain: Sent) -> None:
        self.__qualname__ = name
        self._directory, self._procs, self._chain = directory, procs, chain

    def __call__(self, row: Row | Carried) -> Bundle:
        """The blocks of lists that are kept, and those of the answer."""
        if isinstance(row, (Inside, InFile)):
            row = cast(Row, value_of(row))
        current.begin(row.number, self._procs, row.lists)
        outbox = Outbox(self._directory)
        try:
            self._run(row, outbox)
            return outbox.close()
        except BaseException:
            outbox.discard()
            raise
        finally:
            current.begin(0, 1, {})

    def _run(self, row: Row, outbox: Outbox) -> None:
        elements = _begin(row, self._procs)
        steps, kept, answer, functions = self._loaded
        aside: list[bytes] = []
        for at, (step, of_step) in enumerate(steps, 1):
            elements = _STEPS[step.name](elements, *of_step, *step.given, *row.of_steps.get(at - 1, ()))
            if at in kept:
                elements = self._store(elements, kept[at], aside, outbox)
            elif not at % limits.STEPS_NESTED:
                elements = list(elements)
        blocks = _ANSWERS[answer.name](elements, *functions, *answer.given, *row.of_steps.get(-1, ()))
        for block in [*aside, *blocks]:
            outbox.add(block)

    def _store(self, elements: Iterable[Any], place: Place, aside: list[bytes], outbox: Outbox) -> Iterable[Any]:
        if place == "disk":
            for block in aside:
                outbox.add(block)
            aside.clear()
            return outbox.add_stream(elements)
        elements = list(elements)
        aside.append(dumps(elements))
        return elements

    @functools.cached_property
    def _loaded(self) -> tuple[list[tuple[Step, list[Any]]], dict[int, Place], Step, list[Any]]:
        chain: Chain = self._chain.load()
        steps = [(step, [sent.load() for sent in step.sent]) for step in chain.steps]
        return steps, dict(chain.kept), chain.answer, [sent.load() for sent in chain.answer.sent]


class Joined:
    """The call that joins the values of several slices, of which each may be missing."""

    def __init__(self, name: str, directory: str, f: Sent) -> None:
        self.__qualname__ = name
        self._directory, self._f = directory, f

    def __call__(self, at: int, bundles: list[Bundle]) -> Bundle:
        """`at` says which block of each bundle it is."""
        f = self._f.load()
        values = [came[0] for bundle in bundles if (came := value_of(bundle.part(at))) is not None]
        outbox = Outbox(self._directory)
        outbox.add(_packed(functools.reduce(f, values) if values else NOTHING))
        return outbox.close()


class Prefixes:
    """The call that joins, for each slice, the values of all slices before it."""

    def __init__(self, name: str, directory: str, f: Sent, initial: Sent | None) -> None:
        self.__qualname__ = name
        self._directory, self._f, self._initial = directory, f, initial

    def __call__(self, at: int, bundles: list[Bundle]) -> Bundle:
        """`at` says which block of each bundle it is."""
        f = self._f.load()
        left = NOTHING if self._initial is None else self._initial.load()[0]
        outbox = Outbox(self._directory)
        for bundle in bundles:
            outbox.add(_packed(left))
            if (came := value_of(bundle.part(at))) is not None:
                left = came[0] if left is NOTHING else f(left, came[0])
        return outbox.close()


class _Slice:
    # What is common to ranks and slices where parts find their new elements.
    rank = 0

    def __init__(self, procs: int) -> None:
        self.procs = procs

    def packed(self, value: Any) -> bytes:
        return dumps(value)


def _begin(row: Row, procs: int) -> Iterable[Any]:
    if isinstance(row.input, range):
        return row.input
    if isinstance(row.input, Lines):
        return lines(row.input.path, row.input.size, row.number, procs, row.input.encoding)
    if isinstance(row.input, tuple):
        # Those from which nothing came say so.
        return [value_of(part) for part in row.input]
    return elements_of(row.input)


def _packed(value: Any) -> bytes:
    # In a list of one, so that nothing can be told from None.
    return b"" if value is NOTHING else dumps([value])


def _flat(elements: Iterable[Any], f: Callable[[Any], Any]) -> Iterable[Any]:
    return itertools.chain.from_iterable(list_of(f(element)) for element in elements)


def _accumulated(elements: Iterable[Any], f: Any, is_exclusive: bool, before: Carried | None) -> Iterator[Any]:
    left = value_of(before)
    if left is None:
        return itertools.accumulate(elements, f)
    from_left = itertools.accumulate(elements, f, initial=left[0])
    if not is_exclusive:
        return itertools.islice(from_left, 1, None)
    # The last one is for the next slice.
    return (one for one, _ in itertools.pairwise(from_left))


def _new(came: Any, concat: Callable[[Any], Any], n: int, keep_empty: bool) -> Iterable[Any]:
    came = list(came)
    ranks: Any = _Slice(len(came))
    ranks.rank = current.rank
    return new_elements(came, ranks, n, concat, keep_empty)


_STEPS: dict[str, Callable[..., Iterable[Any]]] = {
    "map": lambda elements, f: map(f, elements),
    "flatMap": _flat,
    "filter": lambda elements, f: filter(f, elements),
    "nodeMap": lambda elements, f: whole_list(f(current.rank, list(elements))),
    "store": lambda elements: elements,
    "scan": _accumulated,
    "new": _new,
}


def _folded(elements: Iterable[Any], f: Any, start: Any, is_once: bool) -> list[bytes]:
    # In a list of one, as it is when it comes.
    left = NOTHING if is_once and current.rank else start[0]
    return [_packed(fold(f, elements, left))]


def _last(elements: Iterable[Any], f: Any) -> list[bytes]:
    last = collections.deque(itertools.accumulate(elements, f), 1)
    return [_packed(last[0] if last else NOTHING)]


def _head(elements: Iterable[Any], n: int) -> list[bytes]:
    rest = iter(elements)
    first = list(itertools.islice(rest, n))
    # What fails behind them fails here, too.
    collections.deque(rest, 0)
    return [dumps(first)]


def _lengths(elements: Iterable[Any], llen: Callable[[Any], Any]) -> list[bytes]:
    return [dumps([count(llen(element), "repartition", "what llen returns") for element in elements])]


def _cut(elements: Iterable[Any], split: Any, n: int, procs: int, total: int, lengths: Carried, start: int) -> list[bytes]:
    parts = cut(list(elements), value_of(lengths), start, Layout(total, n, is_larger_last=True), split)
    return _addressed(parts, procs, n)


def _sorted_out(elements: Iterable[Any], f: Any, n: int, procs: int, is_by_element: bool) -> list[bytes]:
    return _addressed(sorted_out(elements, f, n, is_by_element), procs, n)


def _addressed(parts: Any, procs: int, n: int) -> list[bytes]:
    ranks: Any = _Slice(procs)
    # Of no rank, so that all of it is packed.
    ranks.rank = -1
    return [block or b"" for block in addressed(parts, ranks, n)]


_ANSWERS: dict[str, Callable[..., list[bytes]]] = {
    "nothing": lambda elements: [],
    "len": lambda elements: [dumps(sum(1 for _ in elements))],
    "reduce": _folded,
    "scan": _last,
    "head": _head,
    "collect": lambda elements: [dumps(list(elements))],
    "repartition": _lengths,
    "cut": _cut,
    "group": _sorted_out,
}

