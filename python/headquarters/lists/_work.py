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
from typing import Any

from . import _limits as limits
from ._carry import Bundle, Carried, InBundle, Outbox, dumps, elements_of, value_of
from ._current import current
from ._fold import NOTHING, fold
from ._guard import count, list_of, whole_list
from ._layout import Layout
from ._lines import lines
from ._shuffle import addressed, cut, new_elements, sorted_out


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
    """The steps of several lists, and what is made of the last one."""

    steps: tuple[Step, ...]
    answer: Step


class Work:
    """The function that is called for each slice; `chain` comes packed, however long it is."""

    def __init__(self, name: str, procs: int, chain: Sent, given: tuple[Any, ...]) -> None:
        self.__qualname__ = name
        self._procs, self._chain = procs, chain
        # What functions of the chain are in where they are long: so the call waits for it.
        self._given = given

    def __call__(self, row: Row) -> Bundle:
        """The blocks of the answer."""
        current.begin(row.number, self._procs, row.lists)
        try:
            return self._run(row)
        finally:
            current.begin(0, 1, {})

    def _run(self, row: Row) -> Bundle:
        elements = _begin(row, self._procs)
        steps, answer, functions = self._loaded
        for at, (step, of_step) in enumerate(steps, 1):
            elements = _STEPS[step.name](elements, *of_step, *step.given, *row.of_steps.get(at - 1, ()))
            if not at % limits.STEPS_NESTED:
                elements = list(elements)
        outbox = Outbox()
        if answer.name == "stream":
            outbox.add_stream(elements)
        else:
            for block in _ANSWERS[answer.name](elements, *functions, *answer.given, *row.of_steps.get(-1, ())):
                outbox.add(block)
        return outbox.close()

    @functools.cached_property
    def _loaded(self) -> tuple[list[tuple[Step, list[Any]]], Step, list[Any]]:
        chain: Chain = self._chain.load()
        steps = [(step, [sent.load() for sent in step.sent]) for step in chain.steps]
        return steps, chain.answer, [sent.load() for sent in chain.answer.sent]


class Joined:
    """The call that joins the values of several slices, of which each may be missing."""

    def __init__(self, name: str, f: Sent) -> None:
        self.__qualname__ = name
        self._f = f

    def __call__(self, bundles: list[Bundle]) -> Bundle:
        """Bundles of one block each."""
        f = self._f.load()
        values = [came[0] for came in map(_came, bundles) if came is not None]
        outbox = Outbox()
        outbox.add(_packed(functools.reduce(f, values) if values else NOTHING))
        return outbox.close()


class Prefixes:
    """The call that joins, for each slice, the values of all slices before it."""

    def __init__(self, name: str, f: Sent, initial: Sent | None) -> None:
        self.__qualname__ = name
        self._f, self._initial = f, initial

    def __call__(self, bundles: list[Bundle]) -> Bundle:
        """Bundles of one block each."""
        f = self._f.load()
        left = NOTHING if self._initial is None else self._initial.load()[0]
        outbox = Outbox()
        for bundle in bundles:
            outbox.add(_packed(left))
            if (came := _came(bundle)) is not None:
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


def _came(bundle: Bundle) -> Any:
    return value_of(InBundle(bundle, 0))


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
    "len": lambda elements: [dumps(sum(1 for _ in elements))],
    "reduce": _folded,
    "scan": _last,
    "head": _head,
    "collect": lambda elements: [dumps(list(elements))],
    "repartition": _lengths,
    "cut": _cut,
    "group": _sorted_out,
}

