"""What tasks of all kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from .._base import StaysHere
from ..common import GenericPath
from ..ffi import TaskId
from ..ffi.protocol import Duration, PackedCall, ResourceRequest, TaskDescription, duration
from ..output import Stdio, build_stdio, table
from ..validation import CHECKS, ValidationException, flag, path, text, variables, wrong

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..client import Client
    from ..job import Job

T = TypeVar("T")
EnvType: TypeAlias = "Mapping[str, str]"
Resources: TypeAlias = "ResourceRequest | Sequence[ResourceRequest] | None"


class TaskOptions(TypedDict, total=False):
    """Options of a task beyond those of `hyperqueue`, as on the command line."""

    time_limit: Duration
    kill_grace: Duration
    retry: int
    retry_delay: Duration
    retry_on: str
    pin: str
    expect: Duration
    locality: str
    after: Sequence[int | str]
    after_any: Sequence[int | str]
    outputs: Sequence[str]
    output_objects: Sequence[str]
    input_objects: Sequence[str]
    broadcast: Sequence[str]
    output_patience: Duration
    end_by: Duration
    key: str
    ranks: int
    """So many processes in all, of MPI if it is a function; `resources` are those of each."""
    nodes: int
    cpus_per_rank: int | float | str
    gpus_per_rank: int | float | str
    mpi: str
    gather: bool
    launcher: str


_DURATIONS = {"time_limit", "kill_grace", "retry_delay", "expect", "output_patience", "end_by"}


class Task(StaysHere, ABC):
    """A task of a job: what it waits for, what it needs, and where it prints."""

    _instead = (
        "a task of a job is no argument of another one: name it in deps= and let it write a file, or use Executor.submit, "
        "whose futures stand for their values"
    )

    def __init__(
        self,
        task_id: TaskId,
        dependencies: Sequence[Task] = (),
        priority: int = 0,
        resources: Resources = None,
        env: EnvType | None = None,
        cwd: GenericPath | None = None,
        stdout: Stdio | None = None,
        stderr: Stdio | None = None,
        name: str | None = None,
        crash_limit: int | None = None,
        task_dir: bool = False,
        **options: Unpack[TaskOptions],
    ) -> None:
        unknown = options.keys() - TaskOptions.__annotations__.keys()
        if unknown:
            raise ValidationException(f"a task has no option {', '.join(sorted(unknown))}")
        self.task_id = task_id
        # The one that it was added to.
        self.job: Job | None = None
        self.dependencies = _all("deps", dependencies, Task, "tasks of this job")
        self.priority: int = CHECKS["priority"]("priority", priority)
        several = [resources] if isinstance(resources, ResourceRequest) else resources or ()
        self.resources = _all("resources", several, ResourceRequest, "ResourceRequest(cpus=2), or a list of such")
        self.env = variables("env", env or {})
        self.cwd = path("cwd", cwd) if cwd else None
        self.stdout = build_stdio(stdout, "stdout")
        self.stderr = build_stdio(stderr, "stderr")
        self.name = None if name is None else text("name", name)
        self.crash_limit = None if crash_limit is None else CHECKS["crash_limit"]("crash_limit", crash_limit)
        self.task_dir = flag("task_dir", task_dir)
        self.options = {key: CHECKS[key](key, value) for key, value in options.items()}
        self.ranks = {word: self.options.pop(word) for word in _OF_RANKS if word in self.options}
        if self.ranks and "ranks" not in self.ranks:
            raise ValidationException(f"{next(iter(self.ranks))} belongs to tasks on ranks: give ranks=, too")

    @property
    def label(self) -> str:
        """Its name, or its id if it has none."""
        return self.name if self.name is not None else str(self.task_id)

    def _requests(self) -> list[dict[str, Any]]:
        tables = [request.table() for request in self.resources]
        if not self.ranks:
            return tables
        for table in tables or [{}]:
            resources = table.setdefault("resources", {"cpus": 1})
            for word, pool in (("cpus_per_rank", "cpus"), ("gpus_per_rank", "gpus")):
                if word in self.ranks:
                    resources[pool] = self.ranks[word]
            table["ranks"] = self.ranks["ranks"]
            if "nodes" in self.ranks:
                table["n_nodes"] = self.ranks["nodes"]
            tables = tables or [table]
        return tables

    @abstractmethod
    def _body(self, client: Client) -> tuple[dict[str, Any], PackedCall | None]: ...

    def _build(self, client: Client) -> TaskDescription:
        body, call = self._body(client)
        written: dict[str, Any] = {
            **body,
            "env": self.env,
            "stdout": table(self.stdout),
            "stderr": table(self.stderr),
            "priority": self.priority,
            "deps": [dependency.task_id for dependency in self.dependencies],
            "request": self._requests(),
            "task_dir": self.task_dir,
        }
        if self.cwd is not None:
            written["cwd"] = self.cwd
        if self.crash_limit is not None:
            written["crash_limit"] = self.crash_limit
        for key, value in self.options.items():
            written[key] = duration(value) if key in _DURATIONS else value
        return TaskDescription(self.task_id, written, call)


_OF_RANKS = ("ranks", "nodes", "cpus_per_rank", "gpus_per_rank")


def _all(name: str, given: Iterable[T], kind: type[Any], instead: str) -> list[T]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong(name, given, f"give {instead}")
    several = list(given)
    for at, one in enumerate(several):
        if not isinstance(one, kind):
            raise wrong(f"{name}[{at}]", one, f"give {instead}")
    return several
