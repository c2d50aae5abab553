"""The ranks, or workers, that have the parts of lists, as a program sees them, and the lists that it begins with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .._base import StaysHere
from . import _guard as guard
from . import _limits as limits
from . import _stored as stored
from ._alone import SelfMPI
from ._backend import choose, load_mpi
from ._dfm import DFM
from ._failure import attempt
from ._layout import Layout
from ._lines import check_encoding, lines
from ._ranks import Alone, Ranks

if TYPE_CHECKING:
    from .._executor import Executor, HasServerDir
    from ._crew import Crew

T = TypeVar("T")
default_is_eager = False
"""Whether lists on workers are computed at once where nothing is said: programs that were written for MPI may time their steps."""


class Context(StaysHere):
    """The ranks of a program: `rank` is this one, `procs` how many there are.

    The back end is `"mpi"`, with the ranks of the communicator `comm` (all of the program without it); `"tasks"`, with slices on
    the workers of an `executor`, or of a `cluster`; or `"serial"`, this process alone. Without one it is that of
    `HQ_LISTS_BACKEND`, else `mpi` where a launcher has started several ranks, else `tasks` where `HQ_SERVER_DIR` names a server, else
    `serial`. All ranks make their context together. `comm` and `MPI` are those of mpi4py.

    On workers the program is one process, and rank 0. `procs` is the number of slices, by default that of the calls which the
    workers can run at once. `eager=True` computes each list at once.

    `storage="disk"` keeps the elements of all lists on the disks of the ranks. `debug=True` raises ArgumentChanged when a
    function changes what it is given.
    """

    _instead = "a Context belongs to its process, and cannot be sent"

    def __init__(
        self,
        backend: str | None = None,
        *,
        comm: Any = None,
        executor: Executor | None = None,
        cluster: HasServerDir | str | os.PathLike[str] | None = None,
        procs: int | None = None,
        eager: bool | None = None,
        storage: stored.Place = "memory",
        debug: bool = False,
    ) -> None:
        if executor is not None and cluster is not None:
            raise TypeError("an executor is on a cluster already: give one of the two")
        self.backend = choose(backend, comm is not None, has_workers=executor is not None or cluster is not None)
        if self.backend != "tasks" and procs is not None:
            raise TypeError(f"procs is for lists on workers, not for the back end {self.backend!r}")
        self.storage: stored.Place = stored.checked(storage)
        self.debug = debug
        self.eager = default_is_eager if eager is None else eager
        self.comm: Any
        self.MPI: Any
        self._ranks: Ranks = Alone()
        self._crew: Crew | None = None
        if self.backend == "serial":
            self.MPI = SelfMPI()
            self.comm = self.MPI.COMM_SELF
        elif self.backend == "tasks":
            from ._crew import Crew

            self.MPI = SelfMPI("tasks")
            self.comm = self.MPI.COMM_SELF
            self._crew = Crew(_executor(executor, cluster), _procs(procs))
        else:
            self.MPI = load_mpi()
            from . import _mpi

            self.comm = self.MPI.COMM_WORLD if comm is None else comm
            if not isinstance(self.comm, self.MPI.Intracomm):
                raise TypeError(f"comm has to be a communicator of mpi4py, and no intercommunicator, not {self.comm!r}")
            if self.comm.Get_size() > 1:
                self._ranks = _mpi.of(self.comm)
        self.rank = self._ranks.rank
        self.procs = self._ranks.procs if self._crew is None else self._crew.procs
        self._subs: dict[tuple[int, ...], Context | None] = {}

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._crew is not None:
            from ._current import Here, sending

            if sending.nodes is not None:
                return Here, ()
        return super().__reduce__()

    def __repr__(self) -> str:
        return f"<Context {self.backend!r}: rank {self.rank} of {self.procs}>"

    def iterates(self, n: int, robin: bool = False) -> DFM[int]:
        """The numbers 0 … n-1, each rank with nearly as many, in order.

        With `robin` they are dealt out one by one: rank p has p, p + procs, p + 2 procs …
        """
        n = guard.count(n, "iterates", "n")
        if self._crew is not None:
            from ._spread import Spread, source

            layout = Layout(n, self.procs)
            slices = [range(number, n, self.procs) if robin else layout.range(number) for number in range(self.procs)]
            return Spread.of(self, source(self, slices))
        return DFM(self, range(self.rank, n, self.procs) if robin else Layout(n, self.procs).range(self.rank))

    def from_list(self, values: Iterable[T]) -> DFM[T]:
        """A list that all ranks have: each keeps its part."""
        if isinstance(values, (set, frozenset)):
            raise TypeError("from_list: a set has another order on each rank: sort it")
        if not isinstance(values, Iterable):
            raise TypeError(f"from_list: {values!r} is no list; give one, or something else that can be iterated over")
        whole: Sequence[T] | None
        whole, failure = attempt(lambda: values if isinstance(values, Sequence) else list(values))
        self._ranks.agree(f"from_list of {len(whole or ())} elements", failure)
        assert whole is not None, "what has failed was raised"
        if self._crew is not None:
            from ._spread import Spread, parts_of

            return Spread.of(self, parts_of(self, whole))
        own = Layout(len(whole), self.procs).range(self.rank)
        return DFM(self, whole[own.start : own.stop])

    def read_lines(self, path: str | os.PathLike[str], *, encoding: str = "utf-8") -> DFM[str]:
        """The lines of a file that all ranks see, without their ends. Each rank reads its part of the bytes only."""
        check_encoding(encoding)
        name = os.fspath(path)
        size, failure = attempt(lambda: os.stat(name).st_size)
        self._ranks.agree(f"read_lines of {size or 0} bytes", failure)
        if self._crew is not None:
            from ._spread import Spread, lines_of

            return Spread.of(self, lines_of(self, os.path.abspath(name), size or 0, encoding))
        # As a list of its own: what cannot be read is told like what a function raises.
        nothing: DFM[str] = DFM(self, ())
        return nothing._made(lambda: lines(name, size or 0, self.rank, self.procs, encoding))

    def sub(self, ranks: Iterable[int]) -> Context | None:
        """A context of some of the ranks, in this order; None on the others. All ranks call this.

        On workers the program stands for all ranks: it has a context with so many slices.
        """
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
        if self._crew is not None:
            return Context(
                executor=self._crew.executor,
                procs=len(chosen),
                eager=self.eager,
                storage=self.storage,
                debug=self.debug,
            )
        is_in = self.rank in chosen
        comm = self.comm.Split(0 if is_in else self.MPI.UNDEFINED, chosen.index(self.rank) if is_in else 0)
        return Context("mpi", comm=comm, storage=self.storage, debug=self.debug) if is_in else None


def _executor(executor: Executor | None, cluster: HasServerDir | str | os.PathLike[str] | None) -> Executor:
    from .. import _executor as executors

    if executor is not None:
        if not isinstance(executor, executors.Executor):
            raise TypeError(f"executor is a headquarters.Executor, not {executor!r}")
        return executor
    return executors.current() if cluster is None else executors.Executor(cluster=cluster, name="lists")


def _procs(procs: int | None) -> int | None:
    if procs is None:
        return None
    if not 1 <= guard.count(procs, "Context", "procs") <= limits.SLICES_MAX:
        raise ValueError(f"procs is the number of slices, 1 … {limits.SLICES_MAX}, not {procs}")
    return procs
