"""What tasks of all kinds have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ..common import GenericPath
from ..ffi import TaskId
from ..ffi.protocol import Duration, PackedCall, ResourceRequest, TaskDescription, duration
from ..output import Stdio, build_stdio, table
from ..validation import ValidationException

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..client import Client

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
    key: str


_DURATIONS = {"time_limit", "kill_grace", "retry_delay", "expect"}


class Task(ABC):
    """A task of a job: what it waits for, what it needs, and where it prints."""

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
        self.dependencies = dependencies
        self.priority = priority
        self.resources = resources
        self.env = dict(env or {})
        self.cwd = os.fspath(cwd) if cwd else None
        self.stdout = build_stdio(stdout, "stdout")
        self.stderr = build_stdio(stderr, "stderr")
        self.name = name
        self.crash_limit = crash_limit
        self.task_dir = task_dir
        self.options = options

    @property
    def label(self) -> str:
        """Its name, or its id if it has none."""
        return self.name if self.name is not None else str(self.task_id)

    @abstractmethod
    def _body(self, client: Client) -> tuple[dict[str, Any], PackedCall | None]: ...

    def _build(self, client: Client) -> TaskDescription:
        body, call = self._body(client)
        requests = [self.resources] if isinstance(self.resources, ResourceRequest) else list(self.resources or ())
        written: dict[str, Any] = {
            **body,
            "env": self.env,
            "stdout": table(self.stdout),
            "stderr": table(self.stderr),
            "priority": self.priority,
            "deps": [dependency.task_id for dependency in self.dependencies],
            "request": [request.table() for request in requests],
            "task_dir": self.task_dir,
        }
        if self.cwd is not None:
            written["cwd"] = self.cwd
        if self.crash_limit is not None:
            written["crash_limit"] = self.crash_limit
        for key, value in self.options.items():
            if key in _DURATIONS:
                written[key] = duration(value)  # type: ignore[arg-type]
            elif key in ("after", "after_any"):
                written[key] = [str(job) for job in value]  # type: ignore[attr-defined]
            else:
                written[key] = value
        return TaskDescription(self.task_id, written, call)
