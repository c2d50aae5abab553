"""Who has the parts of lists: the ranks of an MPI program, or this process alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ._errors import NoBackend

VARIABLE = "HQ_LISTS_BACKEND"
_BACKENDS = ("mpi", "serial")
# What launchers tell the processes that they start: how many there are. Ours is the last, as it may start one of the others.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "Open MPI"),
    ("MV2_COMM_WORLD_SIZE", "MVAPICH"),
    ("PMI_SIZE", "MPICH, or one with its interface"),
    ("JSM_NAMESPACE_SIZE", "jsrun"),
    ("SLURM_STEP_NUM_TASKS", "srun"),
    ("HQ_RANKS", "hq itself, without MPI"),
)


def launched(variables: Mapping[str, str]) -> tuple[int, str]:
    """How many ranks a launcher has started, and what says so; (1, "") without one."""
    # Workers that srun has started hand its variables on to their tasks, which it has not started.
    is_of_worker = "HQ_JOB_ID" in variables and "HQ_NUM_NODES" not in variables
    for name, launcher in _LAUNCHERS:
        if is_of_worker and launcher == "srun":
            continue
        if (text := variables.get(name, "")).isdecimal() and int(text) > 1:
            return int(text), f"{name}={text}, which is set by the launcher of {launcher}"
    return 1, ""


def choose(asked: str | None, has_comm: bool, variables: Mapping[str, str] = os.environ) -> str:
    """The back end: the one that was asked for, else that of the environment, else `mpi` for several ranks, else `serial`."""
    name = asked if asked is not None else variables.get(VARIABLE) or None
    of = "" if asked is not None or name is None else f", which {VARIABLE} names"
    if name == "tasks":
        raise NoBackend(
            f"the back end 'tasks'{of} is not there: it is to keep lists on the workers of a server, and these cannot keep data "
            "between tasks yet; there are 'mpi' and 'serial'"
        )
    if name is not None and name not in _BACKENDS:
        raise ValueError(f"there is no back end {name!r}{of}; there are 'mpi' and 'serial'")
    if has_comm and name == "serial":
        raise ValueError(f"the back end 'serial'{of} takes no communicator")
    if name is not None:
        return name
    return "mpi" if has_comm or launched(variables)[0] > 1 else "serial"


def load_mpi(variables: Mapping[str, str] = os.environ) -> Any:
    """The module `mpi4py.MPI`. Raises NoBackend where it is missing, or is of another MPI than the launcher."""
    ranks, why = launched(variables)
    try:
        mpi: Any = import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        several = f"{ranks} ranks were started ({why}), and " if why else ""
        raise NoBackend(
            f"{several}mpi4py cannot be loaded ({error}): install it with `pip install mpi4py`, for the MPI of the launcher; "
            f"or set {VARIABLE}=serial, with which each process is a program of its own"
        ) from error
    world = mpi.COMM_WORLD.Get_size()
    if world == 1 and ranks > 1:
        library = mpi.Get_library_version().splitlines()[0].partition(",")[0].strip()
        raise NoBackend(
            f"{ranks} ranks were started ({why}), and mpi4py, which uses {library}, sees one: start the program with the mpiexec "
            "of that MPI (`hq submit -- '%{MPIRUN}' python3 …` looks for one), or install mpi4py for the MPI of the launcher"
        )
    return mpi
