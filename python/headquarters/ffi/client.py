"""A connection to a server, below `Client`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .. import _limits as limits
from .._native import Session
from ..validation import ValidationException, read_elsewhere
from . import JobId, TaskId
from .protocol import JobDescription


@dataclass(frozen=True)
class FailedTaskContext:
    """Why a task failed, and where it ran and printed."""

    error: str
    cwd: str | None
    stdout: str | None
    stderr: str | None


TaskFailureMap: TypeAlias = "dict[JobId, dict[TaskId, FailedTaskContext]]"


class ClientConnection:
    """A connection to the server of a directory."""

    def __init__(self, directory: str | None = None) -> None:
        # What `hq run` has started has no server; that of `~` does not know its job.
        default = "/dev/null/hq-run-has-no-server" if os.environ.get("HQ_RUN") else os.path.expanduser("~/.hq-server")
        self.directory = directory or os.environ.get("HQ_SERVER_DIR") or default
        self.session = Session(self.directory)

    def submit_job(self, job: JobDescription, open_job: JobId | None = None) -> JobId:
        """Submits all tasks of a job or none, to an open job if one is given."""
        content: dict[str, Any] = {"task": [{**task.table, "id": task.id} for task in job.tasks]}
        if open_job is None:
            content["name"] = job.name
            if job.max_fails is not None:
                content["max_fails"] = job.max_fails
            content.update(job.notices)
        calls = [(task.id, task.call.name, task.call.code, task.call.arguments) for task in job.tasks if task.call]
        size = sum(len(call[3]) for call in calls) + sum(map(len, {call[2] for call in calls}))
        if size > limits.JOB_BYTES_MAX:
            raise ValidationException(
                f"the functions of the job and their arguments are {size} bytes long, more than {limits.JOB_BYTES_MAX}: submit several jobs, "
                "write large values to files, or use an Executor"
            )
        with read_elsewhere():
            return self.session.submit(json.dumps(content), os.getcwd(), open_job, calls, job.broadcast)[0]

    def wait_for_jobs(
        self, job_ids: Sequence[JobId], callback: Callable[[list[dict[str, Any]]], None] | None = None
    ) -> list[JobId]:
        """Waits until jobs have ended; gives those with tasks that did not finish. The callback hears of those that change."""
        if not job_ids:
            return []
        # Others may use this connection meanwhile.
        return Session(self.directory).wait(list(job_ids), callback)

    def stop_server(self) -> None:
        """Stops the server and its workers."""
        self.session.stop_server()

    def get_failed_tasks(self, job_ids: Sequence[JobId]) -> TaskFailureMap:
        """Why tasks of these jobs failed."""
        return {job: self._failed_tasks(job) for job in job_ids}

    def _failed_tasks(self, job: JobId) -> dict[TaskId, FailedTaskContext]:
        def text(path: os.PathLike[str] | None) -> str | None:
            return None if path is None else os.fspath(path)

        return {
            task["id"]: FailedTaskContext(
                task["error"] or "", text(task["cwd"]), text(task["stdout"]), text(task["stderr"])
            )
            for task in self.session.tasks(job, ["failed"])
        }

    def forget_job(self, job_id: JobId) -> None:
        """Drops an ended job."""
        self.session.forget(job_id)
