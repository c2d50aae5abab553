"""Lists on workers as the program has them: what they are made from, and how their slices come about.

Nothing is computed before something is asked for. Then a chain of lists becomes one call for each slice. Lists of the chain that
the program still holds are stored by the same call, so that each function sees each element once, as in an MPI program.
"""

from __future__ import annotations

import itertools
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _limits as limits
from ._carry import Bundle, Carried, InFile, Inside, remove, value_of
from ._crew import Crew, Files
from ._work import Chain, Input, Joined, Prefixes, Row, Sent, Step, Work

if TYPE_CHECKING:
    from ._stored import Place

_NUMBERS = itertools.count()
_NOTHING = Step("nothing")


class Node:
    """A list: slices that are there (or read, or come from earlier lists), or a step on another list."""

    def __init__(
        self,
        crew: Crew,
        procs: int,
        place: Place,
        *,
        inputs: Sequence[Input] = (),
        files: Sequence[Files] = (),
        parent: Node | None = None,
        step: Step | None = None,
        of_step: Sequence[tuple[Any, ...]] = (),
        named: Sequence[Node] = (),
    ) -> None:
        self.crew, self.procs = crew, procs
        self.place: Place = place
        self.number = next(_NUMBERS)
        self.inputs, self.files = inputs, files
        self.parent, self.step = parent, step
        # What each slice has of its own in the step.
        self.of_step = of_step
        # Other lists whose slices the function of the step names.
        self.named = named
        self.handle: Callable[[], object | None] = lambda: None
        self.is_kept = False

    @property
    def slices(self) -> Sequence[range | Carried] | None:
        """What the elements of each slice are, where that needs no call."""
        found = [one for one in self.inputs if isinstance(one, (range, Inside, InFile))]
        return found if self.step is None and len(found) == self.procs else None

    def hold(self, handle: object) -> None:
        """This object is what the program has of the list."""
        self.handle = weakref.ref(handle)

    def then(self, step: Step, named: Sequence[Node] = (), **more: Any) -> Node:
        """A list that is made of this one."""
        return Node(self.crew, self.procs, more.pop("place", self.place), parent=self, step=step, named=named, **more)

    def store(self) -> Sequence[range | Carried]:
        """Makes all slices, unless they are there."""
        if self.slices is None:
            self.is_kept = True
            Run(self, _NOTHING).finish()
        found = self.slices
        assert found is not None, "what was stored is there"
        return found

    def _stored(self, bundles: list[Bundle], block: int, files: Files) -> None:
        is_stream = self.place == "disk"
        parts = [bundle.part(block, is_stream) for bundle in bundles]
        self.inputs = [part for part in parts if part is not None]
        self.files = [files]
        self.parent = self.step = None
        self.of_step = self.named = ()


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
        for other in _named_by(node, named):
            other.store()
        chain, first = _chain(node)
        self._crew, self._procs = node.crew, node.procs
        self._kept = [(at, one) for at, one in enumerate(chain, 1) if one.is_kept or one.handle() is not None]
        steps = [one.step for one in chain if one.step is not None]
        self.name = ".".join(step.name for step in [*steps[-3:], answer] if step is not _NOTHING) or "store"
        kept: tuple[tuple[int, Place], ...] = tuple((at, one.place) for at, one in self._kept)
        work = Work(self.name, node.crew.directory, node.procs, node.crew.packed(Chain(tuple(steps), kept, answer)))
        lists = {other.number: other for one in chain for other in one.named} | {other.number: other for other in named}
        own = [(at, one.of_step) for at, one in enumerate(chain) if one.of_step] + ([(-1, of_answer)] if of_answer else [])
        rows = [
            Row(
                number,
                first.inputs[number],
                {at: of_step[number] for at, of_step in own},
                {key: _slice(other, number) for key, other in lists.items()},
            )
            for number in range(node.procs)
        ]
        # What the calls read is not removed before they have ended.
        self._needed = [first.files, [other.files for other in lists.values()]]
        self.futures = node.crew.call(work, rows)

    @property
    def block(self) -> int:
        """Which block of each bundle is the first of the answer."""
        return len(self._kept)

    def finish(self) -> list[Bundle]:
        """Waits for all calls; then what they have stored is there. Raises what has failed."""
        names = [f"slice {number} of {self._procs}" for number in range(self._procs)]
        bundles = self._crew.bundles(self.futures, names)
        self.files = Files(bundles)
        for block, (_, node) in enumerate(self._kept):
            node._stored(bundles, block, self.files)
        return bundles

    def values(self) -> list[Any]:
        """The answer of each slice, where that is one block."""
        return [value_of(bundle.part(self.block)) for bundle in self.finish()]

    def joined(self, f: Sent) -> Any:
        """The answers of all slices as one, in a list of one; None where there is none."""
        level, at = self.futures, self.block
        joining = Joined(f"{self.name} joined", self._crew.directory, f)
        above: list[Any] = []
        while len(level) > 1:
            groups = [level[start : start + limits.JOINED_AT_ONCE] for start in range(0, len(level), limits.JOINED_AT_ONCE)]
            level, at = self._crew.calls(joining, [(at, group) for group in groups]), 0
            above += level
        bundles = self.finish()
        if not above:
            return value_of(bundles[0].part(at))
        # In the order in which they were made, so that the one that has failed is found, and not what waits for it.
        ended = self._crew.bundles(above, ["joining slices"] * len(above))
        try:
            return value_of(ended[-1].part(at))
        finally:
            for bundle in ended:
                remove(bundle.path)

    def prefixes(self, f: Sent, initial: Sent | None) -> tuple[list[tuple[Carried | None]], Files]:
        """For each slice what all slices before it come to."""
        joining = Prefixes(f"{self.name} joined", self._crew.directory, f, initial)
        futures = self._crew.calls(joining, [(self.block, self.futures)])
        self.finish()
        (bundle,) = self._crew.bundles(futures, ["joining slices"])
        return [(bundle.part(number),) for number in range(self._procs)], Files([bundle])


def _chain(node: Node) -> tuple[list[Node], Node]:
    # The lists whose steps are to be done, in their order, and the one that they begin with.
    chain = []
    while node.parent is not None:
        chain.append(node)
        node = node.parent
    if node.step is not None:
        # What comes from earlier lists is made into elements first.
        chain.append(node)
    return chain[::-1], node


def _named_by(node: Node, more: Sequence[Node]) -> list[Node]:
    # The lists that have to be stored before, each behind those that it needs itself.
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(other, False) for other in [*more, *(one for link in _chain(node)[0] for one in link.named)]]
    while stack:
        other, is_through = stack.pop()
        if is_through:
            order.append(other)
        elif other.number not in seen and other.slices is None:
            seen.add(other.number)
            stack.append((other, True))
            stack += [(one, False) for link in _chain(other)[0] for one in link.named]
    return order


def _slice(node: Node, number: int) -> Carried:
    slices = node.slices
    assert slices is not None, "what functions name was stored"
    one = slices[number]
    # A range has a short pickle, and is as good as a list of its numbers.
    return Inside(pickle.dumps(one, 5)) if isinstance(one, range) else one
