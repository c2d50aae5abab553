"""The options of calls, and their form for the engine: the words of the `[[task]]` table of job files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._job_options import JobOptions, written
from .validation import CHECKS, ValidationException, wrong

if TYPE_CHECKING:
    import os

    from ._environment import PythonEnv as PythonEnv

    if sys.version_info >= (3, 12):
        from typing import Unpack as Unpack
    else:
        from typing_extensions import Unpack as Unpack


class TaskOptions(TypedDict, total=False):
    """What a call asks for. Durations are seconds, a timedelta, or a text such as `"10m"`."""

    cpus: int | float | str
    """CPUs of the call: a number, or a text such as `"4 compact"`; 1 if not given."""
    gpus: int | float | str
    memory: str | int
    """Memory: a text such as `"8 GiB"`, or MiB."""
    mem: str | int
    """Another word for `memory`."""
    resources: Mapping[str, int | float | str]
    """Amounts of any other pools."""
    time_request: float | str | timedelta
    """Time that the worker must have left."""
    time_limit: float | str | timedelta
    kill_grace: float | str | timedelta
    retry: int
    retry_delay: float | str | timedelta
    retry_on: str | int | Iterable[str | int]
    """Exit codes, `"signal"`, `"timeout"`."""
    priority: int
    crash_limit: int | Literal["never-restart", "unlimited"]
    on_walltime: Literal["wait", "fail"]
    """What becomes of a call that takes longer than its workers live."""
    expect: float | str | timedelta
    """How long the call will probably run; longer ones start first."""
    locality: str
    pin: Literal["taskset", "omp"] | bool
    cwd: str | os.PathLike[str]
    stdout: str | os.PathLike[str]
    stderr: str | os.PathLike[str]
    variables: Mapping[str, str]
    ranks: int
    """Call the function on so many ranks of MPI; amounts of `resources` and `memory` are those of each. A parameter `comm`
    gets the communicator, and what rank 0 returns is the value."""
    nodes: int
    """So many nodes for the ranks, as many on each; 1 if not given."""
    cpus_per_rank: int | float | str
    gpus_per_rank: int | float | str
    mpi: Literal["warm", "world"]
    """`"world"` starts a world of MPI for each call, whose `COMM_WORLD` has its ranks alone; `"warm"` keeps worlds."""
    gather: bool
    """The value is a list of what the ranks returned."""
    launcher: str
    """What starts the ranks, as `--launcher` names it; by default what belongs to the MPI that mpi4py uses."""
    env: PythonEnv | None
    """The interpreters of the calls; without one, that which runs here."""
    fresh: bool
    """Each call has an interpreter of its own, which ends with it."""


class ExecutorOptions(TaskOptions, JobOptions, total=False):
    """What an executor is made with: options of its calls, and who is told of its job."""


_DURATIONS = ("time_limit", "kill_grace", "retry_delay", "expect")
_PLAIN = ("retry", "retry_on", "priority", "crash_limit", "on_walltime", "locality", "pin", "cwd", "stdout", "stderr")
_OF_RANKS = ("nodes", "cpus_per_rank", "gpus_per_rank", "mpi", "gather", "launcher")
_KNOWN = frozenset(TaskOptions.__annotations__)


def merged(base: TaskOptions, more: TaskOptions) -> TaskOptions:
    """Both, with `more` counting where both say something; resources and variables are joined by name.

    Raises TypeError for a word that is no option, and what `validation` says of values.
    """
    checked = {word: _checked(word, value) for word, value in more.items()}
    result: dict[str, Any] = {**base, **checked}
    for word in ("resources", "variables"):
        here, there = base.get(word), checked.get(word)
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            result[word] = {**here, **there}
    if "mem" in more and "memory" in base and "memory" not in more:
        del result["memory"]
    if "memory" in more and "mem" in base and "mem" not in more:
        del result["mem"]
    if "mem" in result and "memory" in result:
        raise TypeError("memory and mem are the same option; give one of them")
    return result  # type: ignore[return-value]


def to_json(options: TaskOptions) -> str:
    """The options as the engine reads them; equal options give equal texts."""
    given: dict[str, Any] = dict(options)
    out: dict[str, Any] = {}
    request = _request(given)
    if request:
        out["request"] = [request]
    for word in _DURATIONS:
        if word in given:
            out[word] = written(given[word])
    for word in _PLAIN:
        if word in given:
            out[word] = given[word]
    for word in ("mpi", "gather", "launcher"):
        if word in given:
            out[word] = given[word]
    if "variables" in given:
        out["env"] = given["variables"]
    return json.dumps(out, sort_keys=True)


def _request(given: dict[str, Any]) -> dict[str, Any]:
    resources: dict[str, Any] = dict(given.get("resources", {}))
    request = _ranks(given, resources)
    for word, pool in (("cpus", "cpus"), ("gpus", "gpus"), ("memory", "mem"), ("mem", "mem")):
        if word not in given:
            continue
        if pool in resources:
            raise TypeError(f"{word} is given twice, once of them in resources")
        resources[pool] = given[word]
    if resources:
        request["resources"] = resources
    if "time_request" in given:
        request["time_request"] = written(given["time_request"])
    return request


def _ranks(given: dict[str, Any], resources: dict[str, Any]) -> dict[str, Any]:
    if "ranks" not in given:
        unused = next((word for word in _OF_RANKS if word in given), None)
        if unused is not None:
            raise TypeError(f"{unused} belongs to calls on ranks: give ranks=, too")
        return {}
    for word, instead in (("cpus", "cpus_per_rank"), ("gpus", "gpus_per_rank")):
        if word in given:
            raise TypeError(f"{word} belongs to calls without ranks: give {instead}, what each rank takes")
        if instead in given:
            if word in resources:
                raise TypeError(f"{instead} is given twice, once of them in resources")
            resources[word] = given[instead]
    resources.setdefault("cpus", 1)
    nodes = given.get("nodes", 1)
    if given["ranks"] % nodes:
        raise ValidationException(f"ranks={given['ranks']} cannot be as many on each of {nodes} nodes: give a multiple of {nodes}")
    return {"ranks": given["ranks"], **({"n_nodes": nodes} if nodes > 1 else {})}


_ELSEWHERE = {
    "mp_context": "calls run in interpreters that workers start, and nothing is forked; leave it out",
    "max_tasks_per_child": "give env=PythonEnv(max_calls=...) instead",
    "thread_name_prefix": "calls run in interpreters of their own, and not in threads; leave it out",
}


def _checked(word: str, value: object) -> Any:
    if word in _ELSEWHERE:
        raise TypeError(f"{word} belongs to executors of the standard library: {_ELSEWHERE[word]}")
    if word not in _KNOWN:
        import difflib

        close = difflib.get_close_matches(word, _KNOWN, 1)
        meant = f"; {close[0]} is one" if close else ""
        raise TypeError(f"{word!r} is no option of a call{meant}; there are: {', '.join(sorted(_KNOWN))}")
    if word == "env":
        from ._environment import PythonEnv

        if value is not None and not isinstance(value, PythonEnv):
            raise wrong(word, value, "give a PythonEnv; variables= sets variables")
        return value
    if word == "fresh":
        if not isinstance(value, bool):
            raise wrong(word, value, "give True or False")
        return value
    return CHECKS[word](word, value)
