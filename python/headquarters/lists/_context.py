"""The ranks that have the parts of lists, as a program sees them, and the lists that it begins with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from .._base import StaysHere
from . import _guard as guard
from . import _stored as stored
from ._alone import SelfMPI
from ._backend import choose, load_mpi
from ._dfm import DFM
from ._failure import attempt
from ._layout import Layout
from ._lines import check_encoding, lines
from ._ranks import Alone, Ranks

T = TypeVar("T")


class Context(StaysHere):
    """The ranks of a program: `rank` is this one, `procs` how many there are.

    The back end is `"mpi"`, with the ranks of the communicator `comm` (all of the program without it), or `"serial"`, this
    process alone. Without one it is that of `HQ_LISTS_BACKEND`, else `mpi` where a launcher has started several ranks, else
    `serial`. All ranks make their context together. `comm` and `MPI` are those of mpi4py.

    `storage="disk"` keeps the elements of all lists on the disks of the ranks. `debug=True` raises ArgumentChanged when a
    function changes what it is given.
    """

    _instead = "a Context belongs to its process, and cannot be sent"

    def __init__(
        self,
        backend: str | None = None,
        *,
        comm: Any = None,
        storage: stored.Place = "memory",
        debug: bool = False,
    ) -> None:
        self.backend = choose(backend, comm is not None)
        self.storage: stored.Place = stored.checked(storage)
        self.debug = debug
        self.comm: Any
        self.MPI: Any
        self._ranks: Ranks
        if self.backend == "serial":
            self.MPI, self.comm, self._ranks = SelfMPI(), SelfMPI.COMM_SELF, Alone()
        else:
            self.MPI = load_mpi()
            from . import _mpi

            self.comm = self.MPI.COMM_WORLD if comm is None else comm
            if not isinstance(self.comm, self.MPI.Intracomm):
                raise TypeError(f"comm has to be a communicator of mpi4py, and no intercommunicator, not {self.comm!r}")
            self._ranks = _mpi.of(self.comm) if self.comm.Get_size() > 1 else Alone()
        self.rank = self._ranks.rank
        self.procs = self._ranks.procs
        self._subs: dict[tuple[int, ...], Context | None] = {}

    def __repr__(self) -> str:
        return f"<Context {self.backend!r}: rank {self.rank} of {self.procs}>"

    def iterates(self, n: int, robin: bool = False) -> DFM[int]:
        """The numbers 0 … n-1, each rank with nearly as many, in order.

        With `robin` they are dealt out one by one: rank p has p, p + procs, p + 2 procs …
        """
        n = guard.count(n, "iterates", "n")
        return DFM(self, range(self.rank, n, self.procs) if robin else Layout(n, self.procs).range(self.rank))

    def from_list(self, values: Iterable[T]) -> DFM[T]:
        """A list that all ranks have: each keeps its part."""
        if isinstance(values, (set, frozenset)):
            raise TypeError("from_list: a set has another order on each rank: sort it")
        whole: Sequence[T] | None
        whole, failure = attempt(lambda: values if isinstance(values, Sequence) else list(values))
        self._ranks.agree(f"from_list of {len(whole or ())} elements", failure)
        assert whole is not None, "what has failed was raised"
        own = Layout(len(whole), self.procs).range(self.rank)
        return DFM(self, whole[own.start : own.stop])

    def read_lines(self, path: str | os.PathLike[str], *, encoding: str = "utf-8") -> DFM[str]:
        """The lines of a file that all ranks see, without their ends. Each rank reads its part of the bytes only."""
        check_encoding(encoding)
        name = os.fspath(path)
        size, failure = attempt(lambda: os.stat(name).st_size)
        self._ranks.agree(f"read_lines of {size or 0} bytes", failure)
        # As a list of its own: what cannot be read is told like what a function raises.
        nothing: DFM[str] = DFM(self, ())
        return nothing._made(lambda: lines(name, size or 0, self.rank, self.procs, encoding))

    def sub(self, ranks: Iterable[int]) -> Context | None:
        """A context of some of the ranks, in this order; None on the others. All ranks call this."""
        chosen = tuple(guard.count(rank, "sub", "a rank") for rank in ranks)
        if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= self.procs:
            raise ValueError(f"sub takes different ranks of 0 … {self.procs - 1}, at least one, not {list(chosen)}")
        self._ranks.agree(f"sub({list(chosen)})")
        if chosen not in self._subs:
            self._subs[chosen] = self._new_sub(chosen)
        return self._subs[chosen]

    def _new_sub(self, chosen: tuple[int, ...]) -> Context | None:
        if self.backend == "serial":
            return Context("serial", storage=self.storage, debug=self.debug)
        is_in = self.rank in chosen
        comm = self.comm.Split(0 if is_in else self.MPI.UNDEFINED, chosen.index(self.rank) if is_in else 0)
        return Context("mpi", comm=comm, storage=self.storage, debug=self.debug) if is_in else None
