"""Lists on workers as the program has them: what they are made from, and how their slices come about.

Nothing is computed before something is asked for. Then a chain of lists becomes one call for each slice. Lists of the chain that
the program still holds are stored by calls of their own, from which the others go on, so that each function sees each element
once, as in an MPI program.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import pickle
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _limits as limits
from ._carry import Bundle, Carried, InBundle, Inside, value_of
from ._crew import Crew, Held, part
from ._work import Chain, Input, Joined, Prefixes, Row, Sent, Step, Work

if TYPE_CHECKING:
    from .._future import Future
    from .._objects import Lazy
    from ._stored import Place

_NUMBERS = itertools.count()
_STORED = {"memory": Step("collect"), "disk": Step("stream")}


@dataclass
class Origin:
    """What the slices of a list are made from."""

    inputs: Sequence[Input] = ()
    parent: Node | None = None
    step: Step | None = None
    of_step: Sequence[tuple[Any, ...]] = ()
    """What each slice has of its own in the step."""
    named: Sequence[Node] = ()
    """Other lists whose slices the function of the step names."""


class Node:
    """A list: slices that are there (or read, or come from earlier lists), or a step on another list."""

    def __init__(self, crew: Crew, procs: int, place: Place, origin: Origin, given: Sequence[Lazy[Any]] = ()) -> None:
        self.crew, self.procs = crew, procs
        self.place: Place = place
        self.number = next(_NUMBERS)
        self.origin = origin
        # What the program has put into stores for the calls that make it: a slice that is lost is made of that once more.
        self.given = given
        self.handle: Callable[[], object | None] = lambda: None
        self.is_kept = False
        # The calls that store it, as long as it is not known how they end, and what it was before.
        self.storing: list[Future[Bundle]] = []
        self._before: tuple[Origin, Sequence[Lazy[Any]]] | None = None

    @property
    def slices(self) -> Sequence[range | Carried] | None:
        """What the elements of each slice are, where that needs no further call."""
        origin = self.origin
        found = [one for one in origin.inputs if isinstance(one, (range, Inside, InBundle))]
        return found if origin.step is None and len(found) == self.procs else None

    def hold(self, handle: object) -> None:
        """This object is what the program has of the list."""
        self.handle = weakref.ref(handle)

    def then(self, step: Step, named: Sequence[Node] = (), **more: Any) -> Node:
        """A list that is made of this one."""
        place, given = more.pop("place", self.place), more.pop("given", ())
        return Node(self.crew, self.procs, place, Origin(parent=self, step=step, named=named, **more), given)

    def begin(self) -> None:
        """Has all slices made, unless they are there, and does not wait for that."""
        self._forget_failure()
        if self.slices is not None:
            return
        self.is_kept = True
        run = Run(self, _STORED[self.place])
        self._before = self.origin, self.given
        self.storing, self.given = run.futures, run.given
        self.origin = Origin([InBundle(Held(future), 0, self.place == "disk") for future in run.futures])

    def store(self) -> Sequence[range | Carried]:
        """Makes all slices, unless they are there, and waits. Raises what has failed; then the next one tries again."""
        self.begin()
        self.settle()
        found = self.slices
        assert found is not None, "what was stored is there"
        return found

    def settle(self) -> None:
        """Waits for the calls that store it."""
        if self.storing:
            try:
                self.crew.wait(self.storing, _names(self.procs))
            except BaseException:
                self._restore()
                raise
            parts = [part(future, 0, self.place == "disk") for future in self.storing]
            self.origin = Origin([one for one in parts if one is not None])
            self.storing, self._before = [], None

    def promise(self, value: Any) -> concurrent.futures.Future[Any]:
        """A future of this value, for when all slices are there."""
        return self.crew.promise(self.storing, _names(self.procs)[: len(self.storing)], value)

    def _forget_failure(self) -> None:
        if any(future.done() and (future.cancelled() or future.exception() is not None) for future in self.storing):
            self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            (self.origin, self.given), self._before, self.storing = self._before, None, []


class Run:
    """The calls that make something of all slices of a list."""

    def __init__(
        self,
        node: Node,
        answer: Step,
        *,
        named: Sequence[Node] = (),
        of_answer: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        self._crew, self._procs = node.crew, node.procs
        # Whose failure is told, as these fail with them.
        self._first = _begun(node, answer, named)
        chain, source = _chain(node)
        lists = {other.number: other for one in chain for other in one.origin.named} | {one.number: one for one in named}
        steps = [one.origin.step for one in chain if one.origin.step is not None]
        shown = [step.name for step in steps[-3:]] + ([] if _stores(answer) else [answer.name])
        self.name = ".".join(shown) or "store"
        sent, put = node.crew.packed(Chain(tuple(steps), answer))
        of_lists = [one for of in [source, *chain, *lists.values()] for one in of.given]
        self.given = tuple({id(one): one for one in [*put, *of_lists]}.values())
        own = [(at, one.origin.of_step) for at, one in enumerate(chain) if one.origin.of_step]
        own += [(-1, of_answer)] if of_answer else []
        rows = [
            Row(
                number,
                source.origin.inputs[number],
                {at: of_step[number] for at, of_step in own},
                {key: _slice(other, number) for key, other in lists.items()},
            )
            for number in range(node.procs)
        ]
        self.futures = node.crew.call(Work(self.name, node.procs, sent, put), rows)

    def finish(self) -> None:
        """Waits for all calls, also for those that store what the program holds. Raises what has failed."""
        try:
            for node in self._first:
                node.settle()
        except BaseException:
            self._crew.cancel(self.futures)
            raise
        self._crew.wait(self.futures, _names(self._procs))

    def parts(self, block: int) -> tuple[Carried | None, ...]:
        """A block of the answer of each slice."""
        return tuple(part(future, block) for future in self.futures)

    def values(self) -> list[Any]:
        """The answer of each slice, where that is one block."""
        self.finish()
        return [value_of(one) for one in self.parts(0)]

    def joined(self, f: Sent) -> Any:
        """The answers of all slices as one, in a list of one; None where there is none."""
        level = self.futures
        joining = Joined(f"{self.name} joined", f)
        above: list[Any] = []
        while len(level) > 1:
            groups = [level[start : start + limits.JOINED_AT_ONCE] for start in range(0, len(level), limits.JOINED_AT_ONCE)]
            level = self._crew.calls(joining, [(group,) for group in groups])
            above += level
        try:
            self.finish()
        except BaseException:
            self._crew.cancel(above)
            raise
        # In the order in which they were made, so that the one that has failed is found, and not what waits for it.
        self._crew.wait(above, ["joining slices"] * len(above))
        return value_of(part(level[0], 0))

    def prefixes(self, f: Sent, initial: Sent | None) -> list[tuple[Carried | None]]:
        """For each slice what all slices before it come to."""
        joining = Prefixes(f"{self.name} joined", f, initial)
        futures = self._crew.calls(joining, [(self.futures,)])
        self.finish()
        self._crew.wait(futures, ["joining slices"])
        return [(part(futures[0], number),) for number in range(self._procs)]


def _stores(answer: Step) -> bool:
    return answer in _STORED.values()


def _begun(node: Node, answer: Step, named: Sequence[Node]) -> list[Node]:
    # Has the lists stored that functions name, and those on the way that the program holds; which of them are not there yet.
    held = [one for one in _chain(node)[0] if one.is_kept or one.handle() is not None]
    first = [*_named_by(node, named), *(one for one in held if one is not node or not _stores(answer))]
    for other in first:
        other.begin()
    return [other for other in first if other.storing]


def _names(procs: int) -> list[str]:
    return [f"slice {number} of {procs}" for number in range(procs)]


def _chain(node: Node) -> tuple[list[Node], Node]:
    # The lists whose steps are to be done, in their order, and the one that they begin with.
    chain = []
    while node.origin.parent is not None:
        chain.append(node)
        node = node.origin.parent
    if node.origin.step is not None:
        # What comes from earlier lists is made into elements first.
        chain.append(node)
    return chain[::-1], node


def _named_by(node: Node, more: Sequence[Node]) -> list[Node]:
    # The lists that have to be stored before, each behind those that it needs itself.
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(other, False) for other in [*more, *(one for link in _chain(node)[0] for one in link.origin.named)]]
    while stack:
        other, is_through = stack.pop()
        if is_through:
            order.append(other)
        elif other.number not in seen:
            seen.add(other.number)
            stack.append((other, True))
            stack += [(one, False) for link in _chain(other)[0] for one in link.origin.named]
    return order


def _slice(node: Node, number: int) -> Carried:
    slices = node.slices
    assert slices is not None, "what functions name was stored"
    one = slices[number]
    # A range has a short pickle, and is as good as a list of its numbers.
    return Inside(pickle.dumps(one, 5)) if isinstance(one, range) else one
