"""Clients of a server: submit jobs, wait for them, look at what is there."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _binary, validation
from ._base import NativeError, StaysHere
from .common import GenericPath
from ._job_options import JobOptions, of_new_jobs, opened
from .ffi import JobId, TaskId
from .ffi.client import ClientConnection, FailedTaskContext, TaskFailureMap
from .job import DEFAULT_NAME, HasJobId, Job, SubmittedJob, get_job_id
from .task.function import PythonEnv

if TYPE_CHECKING:
    from ._job_options import Unpack
    from ._native_types import End
    from .cluster import LocalCluster

MAX_PRINTED_TASKS = 5
_STATES = ("waiting", "running", "finished", "failed", "canceled", "aborted")
JobMap: TypeAlias = "dict[JobId, Job]"
_log = logging.getLogger("headquarters")


class FailedJobsException(Exception):
    """Tasks of jobs that were waited for have failed."""

    def __init__(self, failed_tasks: TaskFailureMap, job_map: JobMap) -> None:
        super().__init__(failed_tasks, job_map)
        self.failed_tasks = failed_tasks
        self.job_map = job_map

    def task_label(self, job_id: JobId, task_id: TaskId) -> str:
        """What a task is called."""
        job = self.job_map.get(job_id)
        task = job and job.task_by_id(task_id)
        return task.label if task else str(task_id)

    def __str__(self) -> str:
        text = ""
        for job_id, tasks in self.failed_tasks.items():
            text += f"The following tasks of job `{job_id}` have failed:\n"
            for task_id, context in islice(tasks.items(), MAX_PRINTED_TASKS):
                text += f"Task {self.task_label(job_id, task_id)} (id={task_id}):\n{context.error}\n"
                text += "You can find more information here:\n"
                places = [("Working directory", context.cwd), ("Stdout", context.stdout), ("Stderr", context.stderr)]
                text += "".join(f"{what}: {place}\n" for what, place in places if place)
        return text + "\n"


@dataclass(frozen=True)
class JobInfo:
    """How a job is. Times are seconds since 1970.

    `max_fails`, `submitted` and `ended` are None in what `Client.jobs` gives, which asks little of the server; `Client.job` fills them.
    """

    id: JobId
    name: str
    state: str
    is_open: bool
    waiting: int
    running: int
    finished: int
    failed: int
    canceled: int
    aborted: int
    cancel_reason: str | None
    max_fails: int | None
    submitted: float | None
    ended: float | None


@dataclass(frozen=True)
class TaskInfo:
    """How a task is. Times are seconds since 1970."""

    job: JobId
    id: TaskId
    state: str
    worker: int | None
    started: float | None
    ended: float | None
    error: str | None
    crashes: int
    key: str | None
    cwd: os.PathLike[str]
    stdout: os.PathLike[str] | None
    stderr: os.PathLike[str] | None


@dataclass(frozen=True)
class WorkerInfo:
    """How a worker is. Times are seconds since 1970."""

    id: int
    hostname: str
    group: str
    pid: int
    resources: dict[str, str]
    started: float
    ended: float | None
    tasks_running: int
    tasks_assigned: int
    is_draining: bool


@dataclass(frozen=True)
class Event:
    """Something that happened, as `hq journal stream` prints it."""

    time: str
    type: str
    data: dict[str, Any]


class Client(StaysHere):
    """A connection to a server.

    :param server_dir: Directory of the server; by default that of `HQ_SERVER_DIR`, else `~/.hq-server`.
    :param python_env: How interpreters for functions are started.
    """

    _instead = "a client stays in its process; give its server_dir, and make a Client of that"

    def __init__(
        self,
        server_dir: GenericPath | None = None,
        python_env: PythonEnv | None = None,
        *,
        _cluster: LocalCluster | None = None,
    ) -> None:
        if python_env is not None and not isinstance(python_env, PythonEnv):
            raise validation.wrong("python_env", python_env, "give a PythonEnv, such as PythonEnv('python3')")
        self.connection = ClientConnection(validation.path("server_dir", server_dir) if server_dir else None)
        self.python_env = python_env or PythonEnv()
        self._cluster = _cluster

    @property
    def server_dir(self) -> str:
        """Directory of the server."""
        return self.connection.directory

    def submit(self, job: Job, open_job: HasJobId | None = None) -> SubmittedJob:
        """Submits all tasks of a job or none; to an open job if one is given."""
        if not isinstance(job, Job):
            raise validation.wrong("job", job, "give a Job; functions are called by an Executor")
        if not job.tasks:
            raise ValueError("Submitted job must have at least a single task")
        if self._cluster is not None:
            self._cluster._ensure_worker()
        to = None if open_job is None else get_job_id(open_job, "open_job")
        if to is not None:
            of_new_jobs(job.job_options)
        job_id = self.connection.submit_job(job._build(self), to)
        _log.info("Submitted job %d with %d tasks", job_id, len(job.tasks))
        return SubmittedJob(job, job_id, self)

    def wait_for_jobs(self, jobs: Sequence[HasJobId], raise_on_error: bool = True) -> bool:
        """Waits until these jobs have ended. True if all of their tasks finished; otherwise it raises FailedJobsException,
        unless it is not to."""
        if isinstance(jobs, (str, bytes)) or not isinstance(jobs, Iterable):
            raise validation.wrong("jobs", jobs, "give a list of jobs, such as [submitted] or [3]")
        jobs = list(jobs)
        failed = self.connection.wait_for_jobs([get_job_id(job, f"jobs[{at}]") for at, job in enumerate(jobs)], _progress())
        if failed and raise_on_error:
            names = {job.id: job.job for job in jobs if isinstance(job, SubmittedJob)}
            raise FailedJobsException(self.connection.get_failed_tasks(failed), names)
        return not failed

    def get_failed_tasks(self, job: HasJobId) -> dict[TaskId, FailedTaskContext]:
        """Why tasks of a job failed."""
        job_id = get_job_id(job)
        return self.connection.get_failed_tasks([job_id])[job_id]

    def result(self, job: HasJobId, task: TaskId, timeout: float | None = None) -> Any:
        """What the function of a task returned, or its exception is raised; waits for its end, at most `timeout` seconds.

        Raises LookupError for a task that leaves nothing, such as a program, and FailedJobsException for one that failed.
        """
        from . import _native_types as states
        from ._outcome import decode, stored

        job_id = get_job_id(job)
        name = f"task {job_id}@{task}"
        end = self._end_of(job_id, task, timeout)
        if end[1] == states.CANCELED:
            raise concurrent.futures.CancelledError(f"{name} was canceled")
        if end[2] is None and end[1] == states.FAILED:
            names = {job.id: job.job} if isinstance(job, SubmittedJob) else {}
            context = self.get_failed_tasks(job_id)[task]
            raise FailedJobsException({job_id: {task: context}}, names)
        if end[2] is None and end[1] == states.FINISHED:
            raise LookupError(f"{name} has left no result")
        value, error = decode(end, name)
        if error is not None:
            raise error
        found = stored(end[2])
        return value if found is None else self._load(job_id, task, found[1])

    def _load(self, job: JobId, task: TaskId, nonce: bytes) -> Any:
        from . import _values
        from ._errors import ObjectLost, from_native
        from ._native_types import open_objects
        from ._stores import Named, NotThere, Stores

        try:
            file = Stores(open_objects(self.server_dir)).open(Named(job, task), nonce)
        except NotThere as missing:
            raise ObjectLost(f"the value of task {job}@{task} cannot be had: {missing.why}") from missing
        except Exception as error:
            raise from_native(error) from error
        try:
            return _values.load(file)
        finally:
            os.close(file)

    def _end_of(self, job: JobId, task: TaskId, timeout: float | None) -> End:
        from ._errors import from_native
        from ._native_types import open_calls

        validation.whole("task", task)
        validation.timeout("timeout", timeout)
        # Says which of job and task is not there.
        self.connection.session.results(job, [task])
        calls = open_calls(self.server_dir, "{}", job=job)
        others = [(first, last) for first, last in ((0, task - 1), (task + 1, 2**32 - 1)) if first <= last]
        heard: queue.SimpleQueue[list[End] | BaseException | None] = queue.SimpleQueue()

        def hear() -> None:
            try:
                heard.put(calls.ends(others))
            except BaseException as error:
                heard.put(from_native(error))

        # By another thread, so that this one can be interrupted.
        threading.Thread(target=hear, name=f"hq-result-{job}", daemon=True).start()
        try:
            ends = heard.get(timeout=timeout)
        except queue.Empty:
            what = f"task {job}@{task} has not ended within {timeout} seconds"
            raise concurrent.futures.TimeoutError(f"{what}: {calls.explain(task)}") from None
        finally:
            calls.wake()
        if isinstance(ends, BaseException):
            raise ends
        if not ends:
            raise LookupError(f"job {job} has no task {task}")
        return ends[0]

    def jobs(self) -> list[JobInfo]:
        """All jobs, without `max_fails`, `submitted` and `ended`: `job` says these of one."""
        return [JobInfo(**job) for job in self.connection.session.jobs()]

    def job(self, job: HasJobId) -> JobInfo:
        """One job."""
        return JobInfo(**self.connection.session.job(get_job_id(job)))

    def tasks(self, job: HasJobId, states: Sequence[str] = ()) -> list[TaskInfo]:
        """Tasks of a job: those in one of these states, or all."""
        job, states = get_job_id(job), validation.texts("states", states)
        for at, state in enumerate(states):
            if state not in _STATES:
                known = ", ".join(_STATES)
                raise validation.wrong(f"states[{at}]", state, f"give states of tasks: {known}", validation.ValidationException)
        return [TaskInfo(**task) for task in self.connection.session.tasks(job, states)]

    def cancel(self, job: HasJobId, tasks: Sequence[TaskId] | None = None, reason: str | None = None) -> int:
        """Cancels a job, or tasks of it; gives how many tasks were canceled."""
        job = get_job_id(job)
        listed = None if tasks is None else list(validation.many("tasks", tasks, "[0, 1]"))
        only = None if listed is None else [validation.whole(f"tasks[{at}]", task) for at, task in enumerate(listed)]
        return self.connection.session.cancel(job, only, None if reason is None else validation.text("reason", reason))

    def forget(self, job: HasJobId) -> None:
        """Drops an ended job, so that the server has more room."""
        job_id = get_job_id(job)
        try:
            self.connection.forget_job(job_id)
        except NativeError as error:
            raise NativeError(error.code, f"Cannot forget job {job_id}. {error}") from None

    def open_job(
        self, name: str = DEFAULT_NAME, max_fails: int | None = None, **options: Unpack[JobOptions]
    ) -> JobId:
        """Makes a job that takes tasks until it is closed. All other keywords say who is told of it, as those of `Job` do."""
        with validation.read_elsewhere():
            return self.connection.session.open_job(opened(name, max_fails, options))

    def close_job(self, job: HasJobId) -> None:
        """Closes an open job: it ends when its tasks have."""
        self.connection.session.close_job(get_job_id(job))

    def workers(self, with_ended: bool = False) -> list[WorkerInfo]:
        """The workers that are connected, or all."""
        found = self.connection.session.workers(validation.flag("with_ended", with_ended))
        return [WorkerInfo(**worker) for worker in found]

    def events(self, follow: bool = False) -> Iterator[Event]:
        """What has happened, as far as the journal has it; with `follow`, what happens from now on, too."""
        words = ["--server-dir", self.server_dir, "journal", "stream" if follow else "replay"]
        with subprocess.Popen([_binary.find(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            assert program.stdout is not None and program.stderr is not None
            try:
                for line in program.stdout:
                    read = json.loads(line)
                    data = read["event"]
                    yield Event(read["time"], data.pop("type"), data)
                if program.wait() != 0:
                    raise NativeError("events", program.stderr.read().decode(errors="replace").strip())
            finally:
                program.kill()


# Shows how far jobs are where somebody looks, and `tqdm` is there.
def _progress() -> Callable[[list[dict[str, Any]]], None] | None:
    import sys

    if not sys.stderr or not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm  # type: ignore[import-not-found, import-untyped, unused-ignore]  # pyright: ignore
    except ImportError:
        return None
    known: dict[int, dict[str, Any]] = {}
    bar: Any = None
    ended = ("finished", "failed", "canceled", "aborted")

    def tell(jobs: list[dict[str, Any]]) -> None:
        nonlocal bar
        known.update((job["id"], job) for job in jobs)
        done = sum(job[state] for job in known.values() for state in ended)
        total = done + sum(job["waiting"] + job["running"] for job in known.values())
        if bar is None:
            bar = tqdm(total=total, unit="task")
        bar.update(done - bar.n)

    return tell
