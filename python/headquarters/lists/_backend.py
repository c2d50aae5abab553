"""Who has the parts of lists: the ranks of an MPI program, workers, or this process alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ._errors import NoBackend

VARIABLE = "HQ_LISTS_BACKEND"
_BACKENDS = ("mpi", "tasks", "serial")
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


def choose(asked: str | None, has_comm: bool, variables: Mapping[str, str] = os.environ, *, has_workers: bool = False) -> str:
    """The back end: the one that was asked for, else that of the environment, else `mpi` for several ranks, else `tasks` where
    there is a server, else `serial`. Who gives a communicator, or workers, has chosen."""
    given = "mpi" if has_comm else "tasks" if has_workers else None
    of_environment = variables.get(VARIABLE) or None
    name = asked if asked is not None else given or of_environment
    of = f", which {VARIABLE} names" if asked is None and given is None else ""
    if has_comm and has_workers:
        raise ValueError("a communicator has lists on ranks, and an executor or a cluster on workers: give one of them")
    if name is not None and name not in _BACKENDS:
        raise ValueError(f"there is no back end {name!r}{of}; there are 'mpi', 'tasks' and 'serial'")
    if has_comm and name != "mpi":
        raise ValueError(f"the back end {name!r} takes no communicator")
    if has_workers and name != "tasks":
        raise ValueError(f"the back end {name!r} takes no executor and no cluster: these are for 'tasks'")
    if name is not None:
        return name
    if launched(variables)[0] > 1:
        return "mpi"
    # A task has a place on a worker for itself: it takes more of them only when it says so.
    return "tasks" if variables.get("HQ_SERVER_DIR") and "HQ_JOB_ID" not in variables else "serial"


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
