"""Lists that are spread over the ranks of an MPI program, and the same program in one process.

A `DFM` is one ordered list of which each rank has a part. Its methods are those of mpi-list, with the same meaning; what is
ours is keyword only. `F` writes short functions: `lines.map(F.split()[0])`.

>>> C = Context("serial")
>>> C.iterates(4).map(lambda n: n * n).reduce(lambda a, b: a + b, 0)
14
"""

from __future__ import annotations

from ._context import Context as Context
from ._dfm import DFM as DFM
from ._errors import ArgumentChanged as ArgumentChanged
from ._errors import NoBackend as NoBackend
from ._errors import RanksDiffer as RanksDiffer
from ._placeholder import F as F

__all__ = ["ArgumentChanged", "Context", "DFM", "F", "NoBackend", "RanksDiffer"]
