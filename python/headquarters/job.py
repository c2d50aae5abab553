"""Jobs as programs build them: tasks that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ._job_options import JobOptions, checked
from .common import GenericPath
from .ffi import JobId, TaskId
from .ffi.protocol import JobDescription
from .output import Stdio, default_stderr, default_stdout
from .task.function import PythonFunction
from .task.program import ExternalProgram, ProgramArgs
from .task.task import EnvType, Resources, Task, TaskOptions
from .validation import ValidationException, line, path, texts, variables, whole, wrong

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

DEFAULT_NAME = "PyAPI job"


class Job:
    """Tasks that are submitted together.

    :param default_workdir: Working directory of tasks that name none.
    :param max_fails: How many tasks may fail before the rest is given up; None for any number.
    :param default_env: Variables of all tasks.
    :param name: Name of the job.
    :param broadcast: What each node gets once, before the first task there: `[NAME=]PATH` or `[NAME=]JOB@TASK:NAME`. Programs
        find it in the directory `HQ_BROADCAST_DIR`.

    All other keywords say who is told of the job (`on_finish`, `on_failure`, `on_stall`, `notify`, `stall_after`), and how many
    node hours its tasks may use (`budget`).
    """

    def __init__(
        self,
        default_workdir: GenericPath | None = None,
        max_fails: int | None = 1,
        default_env: EnvType | None = None,
        name: str | None = None,
        broadcast: Sequence[str] = (),
        **options: Unpack[JobOptions],
    ) -> None:
        self.tasks: list[Task] = []
        self.task_map: dict[TaskId, Task] = {}
        self.max_fails = None if max_fails is None else whole("max_fails", max_fails)
        self.default_workdir = None if default_workdir is None else Path(path("default_workdir", default_workdir)).resolve()
        self.default_env = variables("default_env", default_env or {})
        self.name = None if name is None else line("name", name)
        self.broadcast = texts("broadcast", broadcast)
        checked(options)
        self.job_options: JobOptions = options

    def task_by_id(self, id: TaskId) -> Task | None:
        """The task with this id."""
        return self.task_map.get(id)

    def program(
        self,
        args: ProgramArgs,
        *,
        env: EnvType | None = None,
        cwd: GenericPath | None = None,
        stdout: Stdio | None = default_stdout(),
        stderr: Stdio | None = default_stderr(),
        stdin: str | bytes | None = None,
        deps: Sequence[Task] = (),
        name: str | None = None,
        task_dir: bool = False,
        priority: int = 0,
        resources: Resources = None,
        crash_limit: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> ExternalProgram:
        """Adds a task that executes a program.

        :param args: The program and its arguments; a text is split as a shell does.
        :param stdout: File for what it prints; None for nowhere.
        :param stdin: What it reads.
        :param deps: Tasks that must have finished before.
        :param task_dir: Give it a private directory.
        :param resources: What it needs; of several, what fits first.
        :param crash_limit: How often it may be lost with its worker.
        """
        task = ExternalProgram(
            len(self.tasks),
            args,
            stdin=stdin,
            env={**self.default_env, **variables("env", env or {})},
            cwd=cwd or self.default_workdir,
            dependencies=deps,
            stdout=stdout,
            stderr=stderr,
            name=name,
            task_dir=task_dir,
            priority=priority,
            resources=resources,
            crash_limit=crash_limit,
            **options,
        )
        self._add_task(task)
        return task

    def function(
        self,
        fn: Callable[..., Any],
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: EnvType | None = None,
        cwd: GenericPath | None = None,
        stdout: Stdio | None = default_stdout(),
        stderr: Stdio | None = default_stderr(),
        deps: Sequence[Task] = (),
        name: str | None = None,
        priority: int = 0,
        resources: Resources = None,
        crash_limit: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> PythonFunction:
        """Adds a task that calls a function; options are those of programs.

        :param args: Its positional arguments.
        :param kwargs: Its named arguments.
        """
        task = PythonFunction(
            len(self.tasks),
            fn,
            args=args,
            kwargs=kwargs,
            env={**self.default_env, **variables("env", env or {})},
            cwd=cwd or self.default_workdir,
            dependencies=deps,
            stdout=stdout,
            stderr=stderr,
            name=name,
            priority=priority,
            resources=resources,
            crash_limit=crash_limit,
            **options,
        )
        self._add_task(task)
        return task

    def _add_task(self, task: Task) -> None:
        for dependency in task.dependencies:
            # The server knows it by its number, which may be that of another task here.
            if dependency.job is not self:
                whose = _called(dependency.job, "another job")
                raise ValidationException(
                    f"task {dependency.task_id} of {whose} is no task of {_called(self, 'this job')}: give tasks of this job, or "
                    f"after=[f'{{submitted.id}}@{dependency.task_id}'], where submitted is what submitting that job gave"
                )
        task.job = self
        self.tasks.append(task)
        self.task_map[task.task_id] = task

    def _build(self, client: Client) -> JobDescription:
        tasks = [task._build(client) for task in self.tasks]
        return JobDescription(self.name or DEFAULT_NAME, self.max_fails, tasks, checked(self.job_options), self.broadcast)


def _called(job: Job | None, unnamed: str) -> str:
    return f"job {job.name}" if job is not None and job.name is not None else unnamed


@dataclass
class SubmittedJob:
    """A job that a server has."""

    job: Job
    id: JobId
    _client: Client | None = field(default=None, repr=False, compare=False)

    def result(self, task: Task | TaskId, timeout: float | None = None) -> Any:
        """What the function of a task returned, or its exception is raised; waits for its end, at most `timeout` seconds."""
        if isinstance(task, Task) and task.job is not self.job:
            raise wrong("task", task, f"it is no task of job {self.id}; give one of these")
        task_id = task.task_id if isinstance(task, Task) else task
        if self._client is None:
            raise LookupError("this job was not submitted by a client")
        return self._client.result(self, task_id, timeout)


HasJobId: TypeAlias = "JobId | SubmittedJob"


def get_job_id(job: HasJobId, name: str = "job") -> JobId:
    """The id of a job, which the caller has been given as `name`."""
    if isinstance(job, SubmittedJob):
        return job.id
    if isinstance(job, Job):
        raise wrong(name, job, "it is not submitted; give what Client.submit has returned for it, or the id of a job")
    if not isinstance(job, int):
        raise wrong(name, job, "give the id of a job, or what Client.submit has returned")
    return whole(name, job)
