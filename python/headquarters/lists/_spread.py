"""A list whose slices are calls on workers: the methods of a `DFM`, in one program that stands for all ranks.

What waits for others in an MPI program is computed at once here; all the rest when it is asked for. Methods let go of their list
before they begin, so that one which the program does not hold is known to be needed no more.
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import _guard as guard
from ._carry import InBundle, dumps, elements_of, value_of
from ._crew import Crew
from ._current import Slice, sending
from ._dfm import DFM
from ._fold import NOTHING
from ._layout import Layout
from ._plan import Node, Origin, Run
from ._stored import Place, checked
from ._work import Input, Lines, Sent, Step

if TYPE_CHECKING:
    from .._objects import Lazy
    from ._context import Context

T = TypeVar("T")
U = TypeVar("U")
_EACH, _FIRST, _SECOND = slice(0, None), slice(0, 1), slice(1, 2)


class Spread(DFM[T]):
    """A list on workers. `DFM(context, elements)` has these elements in slice 0, as the program is rank 0; the others are empty."""

    def __init__(self, context: Context, elements: Iterable[T]) -> None:
        self._begin(context, source(context, [list(elements), *[[]] * (context.procs - 1)]))

    @classmethod
    def of(cls, context: Context, node: Node) -> Spread[Any]:
        """What the program has of a list."""
        made: Any = cls.__new__(cls, context, ())
        made._begin(context, node)
        spread: Spread[Any] = made
        return spread

    def _begin(self, context: Context, node: Node) -> None:
        self.C, self._node = context, node
        node.hold(self)
        if context.eager:
            node.store()

    def __reduce__(self) -> str | tuple[object, ...]:
        if sending.nodes is None:
            return super().__reduce__()
        sending.nodes.append(self._node)
        return Slice, (self._node.number,)

    def __repr__(self) -> str:
        state = "not computed" if self._node.slices is None else "computed"
        return f"<DFM: {self._node.procs} slices on workers, {state}>"

    @property
    def E(self) -> Sequence[T]:
        """The elements of slice 0."""
        first = self._node.store()[0]
        return list(first if isinstance(first, range) else elements_of(first))

    @E.setter
    def E(self, elements: Iterable[T]) -> None:
        before = self._node
        slices: list[Input] = list(before.store())
        slices[0] = first = self._crew.carried(dumps(list(elements)))
        self._node = Node(self._crew, self.C.procs, "memory", Origin(slices), [*before.given, *put_of([first])])
        self._node.hold(self)

    def map(self, f: Callable[[T], U]) -> DFM[U]:
        return self._then("map", f, _EACH)

    def flatMap(self, f: Callable[[T], Iterable[U]]) -> DFM[U]:
        return self._then("flatMap", f, _EACH)

    def filter(self, f: Callable[[T], Any]) -> DFM[T]:
        return self._then("filter", f, _EACH)

    def nodeMap(self, f: Callable[[int, list[T]], list[U]]) -> DFM[U]:
        return self._then("nodeMap", f, _SECOND)

    def store(self, where: Place) -> DFM[T]:
        return Spread.of(self.C, self._node.then(Step("store"), place=checked(where)))

    def submit(self) -> concurrent.futures.Future[DFM[T]]:
        self._node.begin()
        return self._node.promise(self)

    def len(self) -> int:
        node = self._node
        del self
        if node.slices is not None and all(isinstance(one, range) for one in node.slices):
            return sum(len(one) for one in node.slices if isinstance(one, range))
        return sum(Run(node, Step("len")).values())

    def reduce(self, f: Callable[[Any, Any], U], x0: Any = NOTHING, distribute: bool = True, *, initial: Any = NOTHING) -> U:
        if (x0 is NOTHING) == (initial is NOTHING):
            raise TypeError("reduce takes either x0, which comes in once for each rank, or initial=, which comes in once")
        node, (function, named) = self._node, self._sent(f, "reduce", _SECOND)
        start, _ = self._crew.sent([initial if x0 is NOTHING else x0], "the beginning of reduce")
        del self
        run = Run(node, Step("reduce", (function, start), (x0 is NOTHING,)), named=named)
        (total,) = run.joined(function)
        joined: U = total
        return joined

    def scan(self, f: Callable[[Any, Any], U], *, exclusive: bool = False, initial: Any = NOTHING) -> DFM[U]:
        if exclusive and initial is NOTHING:
            raise TypeError("scan with exclusive=True takes initial=, which the first element becomes")
        function, named = self._sent(f, "scan", _EACH)
        start = None if initial is NOTHING else self._crew.sent([initial], "the beginning of scan")[0]
        self._node.is_kept = True
        run = Run(self._node, Step("scan", (function,)), named=named)
        before = run.prefixes(function, start)
        step = Step("scan", (function,), (bool(exclusive),))
        given = [*run.given, *put_of([] if start is None else [start.what])]
        return Spread.of(self.C, self._node.then(step, named, of_step=before, given=given))

    def collect(self, root: int | None = 0) -> list[T] | None:
        procs = self.C.procs
        if root is not None and guard.count(root, "collect", "root") >= procs:
            raise ValueError(f"collect: there is no rank {root}, only 0 … {procs - 1}")
        node = self._node
        del self
        whole = list(itertools.chain.from_iterable(_all(node)))
        return None if root else whole

    def head(self, n: int = 10) -> list[T]:
        n = guard.count(n, "head", "n")
        node = self._node
        del self
        first = _all(node) if node.slices is not None else Run(node, Step("head", (), (n,))).values()
        return list(itertools.islice(itertools.chain.from_iterable(first), n))

    def repartition(
        self,
        llen: Callable[[T], int],
        split: Callable[[T, list[tuple[int, int]]], Sequence[Any]],
        concat: Callable[[list[Any]], U],
        N: int,
        *,
        keep_empty: bool = False,
    ) -> DFM[U]:
        lengths_of, of_llen = self._sent(llen, "repartition", _EACH)
        cut, of_split = self._sent(split, "repartition", _FIRST)
        joined, of_concat = self._sent(concat, "repartition", _EACH)
        n = guard.count(N, "repartition", "N")
        # Its elements are counted first, and cut then.
        self._node.is_kept = True
        lengths: list[list[int]] = Run(self._node, Step("repartition", (lengths_of,)), named=of_llen).values()
        starts = list(itertools.accumulate(map(sum, lengths), initial=0))
        if starts[-1] and not n:
            raise ValueError(f"repartition: {starts[-1]} records have no place in 0 elements")
        own = [(self._crew.carried(dumps(of_slice)), start) for of_slice, start in zip(lengths, starts)]
        run = Run(self._node, Step("cut", (cut,), (n, self.C.procs, starts[-1])), named=of_split, of_answer=own)
        given = put_of(lengths_of_slice for lengths_of_slice, _ in own)
        return self._sorted(run, joined, of_concat, n, keep_empty, given)

    def group(
        self,
        f: Callable[[T, dict[int, list[Any]]], object],
        concat: Callable[[list[Any]], U],
        N: int,
        *,
        keep_empty: bool = False,
        order: Literal["rank", "element"] = "rank",
    ) -> DFM[U]:
        function, of_f = self._sent(f, "group", _FIRST)
        joined, of_concat = self._sent(concat, "group", _EACH)
        n = guard.count(N, "group", "N")
        if order not in ("rank", "element"):
            raise ValueError(f"group: order is 'rank' or 'element', not {order!r}")
        answer = Step("group", (function,), (n, self.C.procs, order == "element"))
        return self._sorted(Run(self._node, answer, named=of_f), joined, of_concat, n, keep_empty)

    def _sorted(
        self, run: Run, concat: Sent, named: list[Node], n: int, keep_empty: bool, given: Sequence[Lazy[Any]] = ()
    ) -> DFM[Any]:
        run.finish()
        inputs = [run.parts(to) for to in range(self.C.procs)]
        step = Step("new", (concat,), (n, bool(keep_empty)))
        origin = Origin(inputs, step=step, named=named)
        return Spread.of(self.C, Node(self._crew, self.C.procs, self._node.place, origin, [*run.given, *given]))

    def _then(self, name: str, f: Any, unchanged: slice) -> DFM[Any]:
        function, named = self._sent(f, name, unchanged)
        return Spread.of(self.C, self._node.then(Step(name, (function,)), named))

    def _sent(self, f: Any, of: str, unchanged: slice) -> tuple[Sent, list[Node]]:
        sent, named = self._crew.sent(self._function(f, of, unchanged), f"the function of {of}")
        for other in named:
            if other.procs != self.C.procs:
                raise ValueError(f"the function of {of} names a list with {other.procs} slices, and is used on {self.C.procs}")
        return sent, named

    @property
    def _crew(self) -> Crew:
        crew = self.C._crew
        assert crew is not None, "a list on workers has some"
        return crew


def source(context: Context, slices: Iterable[list[Any]] | list[range]) -> Node:
    """A list whose slices the program has."""
    crew = context._crew
    assert crew is not None, "a list on workers has some"
    inputs = [one if isinstance(one, range) else crew.carried(dumps(one)) for one in slices]
    return Node(crew, context.procs, context.storage, Origin(inputs), put_of(inputs))


def lines_of(context: Context, path: str, size: int, encoding: str) -> Node:
    """The lines of a file that all workers see, each slice with its part."""
    crew = context._crew
    assert crew is not None, "a list on workers has some"
    inputs = [Lines(path, size, encoding)] * context.procs
    return Node(crew, context.procs, context.storage, Origin(inputs, step=Step("store")))


def parts_of(context: Context, values: Sequence[T]) -> Node:
    """A list of values, spread evenly."""
    own = [Layout(len(values), context.procs).range(number) for number in range(context.procs)]
    return source(context, [list(values[one.start : one.stop]) for one in own])


def _all(node: Node) -> Iterator[Iterable[Any]]:
    # The elements of all slices, one after the other. What nobody holds is not stored for it.
    if node.slices is None and node.handle() is None:
        return iter(Run(node, Step("collect")).values())
    return (one if isinstance(one, range) else value_of(one) for one in node.store())


def put_of(inputs: Iterable[Input]) -> list[Lazy[Any]]:
    """What the program has put into stores of these."""
    return [one.bundle for one in inputs if isinstance(one, InBundle)]
