"""Names for functions that are called on ranks of MPI: `def solve(x: float, comm: headquarters.mpi.Comm) -> float`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Comm: TypeAlias = Any
    """The communicator of a call: that of mpi4py, which need not be there where functions are submitted."""
else:

    def __getattr__(name):
        if name != "Comm":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mpi4py.MPI import Comm

        return Comm
