"""What functions of a list refer to by name, while they run on a worker: the slice that is worked on.

A context among the variables of a function stands for that slice, and another list for its elements of the same number.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ._alone import SelfMPI
from ._carry import Carried, elements_of

if TYPE_CHECKING:
    from ._plan import Node


class _Sending(threading.local):
    # The lists met while a function is pickled; None while nothing of ours is.
    nodes: list[Node] | None = None


sending = _Sending()


class Current:
    """The slice that is worked on in this process."""

    def __init__(self) -> None:
        self.rank = 0
        self.procs = 1
        self.lists: dict[int, Carried] = {}
        self._loaded: dict[int, list[Any]] = {}

    def begin(self, rank: int, procs: int, lists: dict[int, Carried]) -> None:
        """Another slice."""
        self.rank, self.procs, self.lists = rank, procs, lists
        self._loaded = {}

    def elements(self, number: int) -> list[Any]:
        """Those that another list has in this slice."""
        if number not in self._loaded:
            if number not in self.lists:
                raise RuntimeError("a list that a function names has elements while the function works on a slice")
            self._loaded[number] = list(elements_of(self.lists[number]))
        return self._loaded[number]


current = Current()


class Here:
    """What a `Context` is within a function on a worker."""

    backend = "tasks"
    MPI = SelfMPI("tasks")
    comm = MPI.COMM_SELF

    @property
    def rank(self) -> int:
        """The number of the slice that is worked on."""
        return current.rank

    @property
    def procs(self) -> int:
        """How many slices there are."""
        return current.procs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"within a function of a list a Context has rank and procs, and no {name}: the program makes lists")


class Slice:
    """What another list is within a function on a worker: its elements of the same slice."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.C = Here()

    @property
    def E(self) -> list[Any]:
        """The elements."""
        return current.elements(self._number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"within a function of a list another list has E and C, and no {name}: the program calls methods")
