"""What stands for the communicator and for the module `MPI` where there is one process and no MPI.

A communicator of one process gives back what it is given. Only what programs of several ranks commonly use is here; for the
rest there is MPI itself.
"""

from __future__ import annotations

import time
from typing import Any


class SelfComm:
    """A communicator of one process, with the methods of mpi4py that take objects."""

    rank = 0
    size = 1

    def __init__(self, backend: str = "serial") -> None:
        self._backend = backend

    def Get_rank(self) -> int:
        """The rank of this process."""
        return 0

    def Get_size(self) -> int:
        """How many processes there are."""
        return 1

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """What this process has."""
        return obj

    def scatter(self, sendobj: list[Any], root: int = 0) -> Any:
        """The only one."""
        (only,) = sendobj
        return only

    def gather(self, sendobj: Any, root: int = 0) -> list[Any]:
        """A list of one."""
        return [sendobj]

    def allgather(self, sendobj: Any) -> list[Any]:
        """A list of one."""
        return [sendobj]

    def alltoall(self, sendobj: list[Any]) -> list[Any]:
        """The same list, of one."""
        (only,) = sendobj
        return [only]

    def reduce(self, sendobj: Any, op: Any = None, root: int = 0) -> Any:
        """What this process has."""
        return sendobj

    def allreduce(self, sendobj: Any, op: Any = None) -> Any:
        """What this process has."""
        return sendobj

    def scan(self, sendobj: Any, op: Any = None) -> Any:
        """What this process has."""
        return sendobj

    def exscan(self, sendobj: Any, op: Any = None) -> Any:
        """None: nobody comes before."""
        return None

    def barrier(self) -> None:
        """Waits for nobody."""

    def Barrier(self) -> None:
        """Waits for nobody."""

    def Abort(self, errorcode: int = 0) -> None:
        """Ends the process."""
        raise SystemExit(errorcode)

    def __getattr__(self, name: str) -> Any:
        if name.lower() in ("send", "recv", "isend", "irecv", "ssend", "bsend", "sendrecv", "probe", "iprobe", "mprobe"):
            whose = "there is one process" if self._backend == "serial" else "slices send each other nothing"
            raise RuntimeError(f"{name}: no messages between ranks here, {whose}; Context('mpi') has them")
        raise AttributeError(f"the communicator of the back end {self._backend!r} has no {name}; that of Context('mpi') has it")


class SelfMPI:
    """What programs use of the module `MPI` beside communicators."""

    SUM, PROD, MAX, MIN = "SUM", "PROD", "MAX", "MIN"
    LAND, LOR, LXOR, BAND, BOR, BXOR = "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR"

    def __init__(self, backend: str = "serial") -> None:
        self._backend = backend
        self.COMM_WORLD = self.COMM_SELF = SelfComm(backend)

    def Wtime(self) -> float:
        """Seconds since some time."""
        return time.perf_counter()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the back end {self._backend!r} has no MPI.{name}: use Context('mpi')")
