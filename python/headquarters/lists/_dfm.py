"""A list that is spread over ranks, and what can be done with it.

What a function of the user raises on one rank is kept there until the next collective, and then raised on all ranks: so all
of them stay at the same place of the program. Hence each collective does what may fail first, agrees, and then lets values
travel.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from .._base import StaysHere
from . import _guard as guard
from ._failure import attempt
from ._fold import NOTHING, Joining, Part, fold, part
from ._layout import Layout
from ._shuffle import addressed, cut, new_elements, sorted_out
from ._stored import Place, checked, kept

if TYPE_CHECKING:
    from ._context import Context

T = TypeVar("T")
U = TypeVar("U")
_EACH, _FIRST, _SECOND = slice(0, None), slice(0, 1), slice(1, 2)


class DFM(StaysHere, Generic[T]):
    """An ordered list, of which each rank has a part: `DFM(context, elements)` with the elements of this rank.

    The methods are called by all ranks. `map`, `flatMap`, `filter`, `nodeMap` and `store` are local: no rank waits for another.
    """

    _instead = "a DFM belongs to its rank, and cannot be sent: send its elements, `E`"

    def __new__(cls, context: Context, elements: Iterable[T]) -> DFM[T]:
        if context.backend != "tasks":
            return super().__new__(cls)
        from ._spread import Spread

        return object.__new__(Spread)

    def __init__(self, context: Context, elements: Iterable[T]) -> None:
        self.C = context
        self._place: Place = context.storage
        self._elements: Sequence[T] = kept(elements, self._place)
        self._failure: Exception | None = None

    @property
    def E(self) -> Sequence[T]:
        """The elements of this rank: a list, or a sequence that reads from the disk. Raises what has failed while they were made."""
        if self._failure is not None:
            raise self._failure
        return self._elements

    @E.setter
    def E(self, elements: Iterable[T]) -> None:
        self._elements, self._failure = kept(elements, self._place), None

    def __repr__(self) -> str:
        state = "failed" if self._failure is not None else f"{len(self._elements)} elements here"
        return f"<DFM: {state}, rank {self.C.rank} of {self.C.procs}>"

    def map(self, f: Callable[[T], U]) -> DFM[U]:
        """What a function makes of each element."""
        f = self._function(f, "map", _EACH)
        return self._made(lambda: map(f, self._elements))

    def flatMap(self, f: Callable[[T], Iterable[U]]) -> DFM[U]:
        """The elements of the lists that a function makes of each element, one list after the other."""
        f = self._function(f, "flatMap", _EACH)
        return self._made(lambda: itertools.chain.from_iterable(guard.list_of(f(element)) for element in self._elements))

    def filter(self, f: Callable[[T], Any]) -> DFM[T]:
        """The elements for which a function is true. They stay where they are, so ranks may have very different counts."""
        f = self._function(f, "filter", _EACH)
        return self._made(lambda: filter(f, self._elements))

    def nodeMap(self, f: Callable[[int, list[T]], list[U]]) -> DFM[U]:
        """The list that a function makes of the rank and the list of its elements."""
        f = self._function(f, "nodeMap", _SECOND)

        return self._made(lambda: guard.whole_list(f(self.C.rank, list(self._elements))))

    def store(self, where: Place) -> DFM[T]:
        """The same list with its elements on the `"disk"` of each rank, or in `"memory"`; so is what is made of it."""
        return self._made(lambda: self._elements, checked(where))

    def submit(self) -> concurrent.futures.Future[DFM[T]]:
        """Begins to compute the list, and gives a future of it; so several lists are at work at once.

        The future is one of the standard library, and ends with what has failed, or with this list. Ranks, and one process,
        compute a list where it is made: there the future has ended, and what has failed is raised at the next collective.
        """
        made: concurrent.futures.Future[DFM[T]] = concurrent.futures.Future()
        made.set_result(self)
        return made

    def len(self) -> int:
        """How many elements all ranks have."""
        self._agree("len()")
        return sum(self._ranks.counts(len(self._elements)))

    def __len__(self) -> int:
        raise TypeError("len() asks one rank, and the elements are on all of them: write d.len()")

    def __bool__(self) -> bool:
        # It is there, whatever all ranks have of it.
        return True

    def reduce(self, f: Callable[[Any, Any], U], x0: Any = NOTHING, distribute: bool = True, *, initial: Any = NOTHING) -> U:
        """All elements joined from left to right by an associative function.

        Each rank begins with a copy of `x0`, so that comes in once for each rank; `initial=` comes in once, on the left. Without
        `distribute` the result is on rank 0 alone, and None elsewhere. The function may change its left argument and return it.
        """
        if (x0 is NOTHING) == (initial is NOTHING):
            raise TypeError("reduce takes either x0, which comes in once for each rank, or initial=, which comes in once")
        f = self._function(f, "reduce", _SECOND)
        start = x0 if initial is NOTHING or self.C.rank else initial
        folded, failure = attempt(lambda: fold(f, self._usable(), start))
        self._agree(f"reduce({'x0' if initial is NOTHING else 'initial'}, distribute={bool(distribute)})", failure)
        joining = Joining(self._ranks, f)
        total = joining.to_first(part(folded))
        told = total if distribute or total.failure is not None else Part()
        told = self._ranks.bcast(told, 0)
        value = joining.value(told)
        result: U = total.value if self.C.rank == 0 else value
        return result

    def scan(self, f: Callable[[Any, Any], U], *, exclusive: bool = False, initial: Any = NOTHING) -> DFM[U]:
        """For each element, all elements up to it joined from left to right by an associative function.

        `initial=` stands before all of them. With `exclusive` the element itself is left out, so the first one is `initial`.
        The function may not change its arguments.
        """
        if exclusive and initial is NOTHING:
            raise TypeError("scan with exclusive=True takes initial=, which the first element becomes")
        f = self._function(f, "scan", _EACH)
        local, failure = attempt(lambda: kept(itertools.accumulate(self._usable(), f), self._place))
        has_initial = "" if initial is NOTHING else ", initial"
        self._agree(f"scan(exclusive={bool(exclusive)}{has_initial})", failure)
        assert local is not None, "what has failed was raised"
        joining = Joining(self._ranks, f)
        before = joining.before(part(local[-1] if local else NOTHING))

        def joined() -> Iterable[U]:
            left = joining.value(before)
            if initial is not NOTHING:
                left = initial if left is NOTHING else f(initial, left)
            if left is NOTHING:
                return local
            if not exclusive:
                return (f(left, one) for one in local)
            # The last one is for the next rank.
            firsts = itertools.islice(local, max(0, len(local) - 1))
            return itertools.chain([left] if local else [], (f(left, one) for one in firsts))

        return self._made(joined)

    def collect(self, root: int | None = 0) -> list[T] | None:
        """The whole list on rank `root`, and None on the others; with `root=None` on all ranks."""
        if root is not None and guard.count(root, "collect", "root") >= self.C.procs:
            raise ValueError(f"collect: there is no rank {root}, only 0 … {self.C.procs - 1}")
        to = root or 0
        own, failure = attempt(lambda: self._usable() if self.C.rank == to else self._ranks.packed(list(self._usable())))
        self._agree(f"collect(root={root})", failure)
        gathered, failure = attempt(lambda: self._ranks.gather(own, to))
        self._agree(f"the end of collect(root={root})", failure)
        whole = list(itertools.chain.from_iterable(gathered)) if gathered is not None else None
        return self._ranks.bcast(whole, 0) if root is None else whole

    def head(self, n: int = 10) -> list[T]:
        """The first n elements, on all ranks."""
        n = guard.count(n, "head", "n")
        self._agree(f"head({n})")
        counts = self._ranks.counts(min(n, len(self._elements)))
        first: list[T] = []
        failure = None
        for rank, before in enumerate(itertools.accumulate(counts, initial=0)):
            if rank < self.C.procs and counts[rank] and before < n:
                mine = list(self._elements[: n - before]) if rank == self.C.rank else None
                came, failed = attempt(functools.partial(self._ranks.bcast, mine, rank))
                first += came or []
                failure = failure or failed
        self._agree(f"the end of head({n})", failure)
        return first

    def repartition(
        self,
        llen: Callable[[T], int],
        split: Callable[[T, list[tuple[int, int]]], Sequence[Any]],
        concat: Callable[[list[Any]], U],
        N: int,
        *,
        keep_empty: bool = False,
    ) -> DFM[U]:
        """The records within all elements as N elements of nearly the same size, the larger ones last.

        `llen(element)` is how many records an element has, `split(element, [(from, to), …])` gives a block of them for each
        range, and `concat(blocks)` makes a new element. New elements without records are left out unless `keep_empty`.
        """
        llen, split = self._function(llen, "repartition", _EACH), self._function(split, "repartition", _FIRST)
        concat, n = self._function(concat, "repartition", _EACH), guard.count(N, "repartition", "N")
        what = f"repartition(N={n}, keep_empty={bool(keep_empty)})"
        lengths, failure = attempt(
            lambda: [guard.count(llen(element), "repartition", "what llen returns") for element in self._usable()]
        )
        self._agree(what, failure)
        assert lengths is not None, "what has failed was raised"
        totals = self._ranks.counts(sum(lengths))
        if sum(totals) and not n:
            raise ValueError(f"repartition: {sum(totals)} records have no place in 0 elements")
        layout = Layout(sum(totals), n, is_larger_last=True)
        values, failure = attempt(
            lambda: addressed(cut(self._elements, lengths, sum(totals[: self.C.rank]), layout, split), self._ranks, n)
        )
        return self._exchanged(f"the blocks of {what}", values, failure, n, concat, keep_empty)

    def group(
        self,
        f: Callable[[T, dict[int, list[Any]]], object],
        concat: Callable[[list[Any]], U],
        N: int,
        *,
        keep_empty: bool = False,
        order: Literal["rank", "element"] = "rank",
    ) -> DFM[U]:
        """N new elements of the parts that a function sorts out: `f(element, out)` fills `out[i]`, a list, with 0 <= i < N.

        `concat(parts)` makes new element i of all lists of that number, in the order of ranks. All elements of a rank fill the
        same dict, so parts may be joined there; with `order="element"` each has an empty one, and parts are in the order of
        elements, whatever the number of ranks. Numbers without parts are left out unless `keep_empty`.
        """
        f, concat = self._function(f, "group", _FIRST), self._function(concat, "group", _EACH)
        n = guard.count(N, "group", "N")
        if order not in ("rank", "element"):
            raise ValueError(f"group: order is 'rank' or 'element', not {order!r}")
        values, failure = attempt(lambda: addressed(sorted_out(self._usable(), f, n, order == "element"), self._ranks, n))
        what = f"group(N={n}, keep_empty={bool(keep_empty)}, order={order})"
        return self._exchanged(what, values, failure, n, concat, keep_empty)

    def _exchanged(
        self,
        what: str,
        values: list[Any] | None,
        failure: Exception | None,
        n: int,
        concat: Callable[[Any], U],
        keep_empty: bool,
    ) -> DFM[U]:
        self._agree(what, failure)
        assert values is not None, "what has failed was raised"
        return self._made(lambda: new_elements(self._ranks.exchange(values), self._ranks, n, concat, keep_empty))

    @property
    def _ranks(self) -> Any:
        return self.C._ranks

    def _usable(self) -> Sequence[T]:
        # Elements for a collective; none where they could not be made, which the agreement says.
        return self._elements if self._failure is None else ()

    def _agree(self, what: str, failure: Exception | None = None) -> None:
        self.C._ranks.agree(what, self._failure or failure)

    def _function(self, given: Any, of: str, unchanged: slice) -> Callable[..., Any]:
        f = guard.function(given, of)
        return guard.unchanging(f, of, unchanged) if self.C.debug else f

    def _made(self, make: Callable[[], Iterable[U]], place: Place | None = None) -> DFM[U]:
        # A list whose elements are made here and now; what fails meanwhile is raised at the next collective.
        made: DFM[U] = DFM.__new__(DFM, self.C, ())
        made.C, made._place, made._failure, made._elements = self.C, place or self._place, self._failure, ()
        if self._failure is not None:
            return made
        try:
            made._elements = kept(make(), made._place)
        except Exception as error:
            made._failure = error
            self.C._ranks.note(error)
        return made
