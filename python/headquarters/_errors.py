"""How a call can end other than with a value: a closed list, so that every future ends and says why.

A call that raised ends with its own exception. All the rest is here.
"""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

from ._base import Forked as Forked
from ._base import HqError as HqError
from ._base import NativeError as NativeError
from ._base import ServerLost as ServerLost


class ArgumentsNotPicklable(HqError, TypeError):
    """An argument cannot be sent; `path` names it, as in `args[0].model.lock`."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[type[ArgumentsNotPicklable], tuple[str, str]]:
        return type(self), (str(self), self.path)


class ResultNotPicklable(HqError, TypeError):
    """What the call returned or raised cannot be sent back."""


class ResultTooLarge(HqError, ValueError):
    """What the call returned is longer than results may be; the text has both sizes."""


class ResultLost(HqError):
    """The call returned, and the server has dropped its result: it keeps 256 MiB for all jobs, the newest ones."""


class ObjectLost(HqError):
    """A value that stayed in a store cannot be had any more, or not from here; the text says which, where it was, and why."""


class NotStored(HqError):
    """A value finds no store: there is none, or none with room for it; the text has the sizes."""


class RemoteError(HqError):
    """The call raised an exception that cannot be made again here.

    `type_name` is its qualified name, `text` what it said.
    """

    def __init__(self, message: str, type_name: str = "", text: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.text = text

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        return type(self), (str(self), self.type_name, self.text)


class TaskTimeout(HqError, TimeoutError):
    """The call ran longer than its time limit."""


class RunnerDied(HqError, BrokenExecutor):
    """The interpreter of this call ended before it had answered; other calls go on."""


class EnvironmentBroken(HqError, BrokenExecutor):
    """The interpreter could not be started, the function or a module of `preload` not be loaded, or the initializer failed."""


class DependencyFailed(HqError):
    """A call that this one waits for, or that one waits for, ended without a value; its exception is the cause.

    `reason` names that call and says how it ended.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[DependencyFailed], tuple[str, str]]:
        return type(self), (str(self), self.reason)


class TooManyCrashes(HqError, BrokenExecutor):
    """The call was lost with its worker more often than its crash limit allows."""


class JobAborted(HqError):
    """The server ended the job of the call, for the reason in the text."""


class ClusterStopped(HqError):
    """The cluster was stopped before the call ended."""


class Refused(HqError):
    """The server does not take the call; `code` says why."""


class RemoteTraceback(Exception):
    """The traceback of another process; it is the cause of the exception that was raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


_BY_CODE: dict[str, type[HqError]] = {
    "server-lost": ServerLost,
    "not-connected": ServerLost,
    "no-job": JobAborted,
    "job-not-open": JobAborted,
    "too-many-failed": JobAborted,
    "stopping": JobAborted,
    "hopeless": DependencyFailed,
}

_CONTINUES = ": what was acknowledged is safe; `hq server start` in the same directory continues"


def of_an_executor(lost: ServerLost, server_dir: object, job: int) -> ServerLost:
    """The same for an executor, which does not come back with its server, as its job does."""
    text = str(lost)
    if not text.endswith(_CONTINUES):
        return lost
    return ServerLost(
        f"{text.removesuffix(_CONTINUES)}: this executor has ended with it. What was acknowledged is safe: when `hq server start` in the "
        f"same directory has started it again, Executor(cluster={str(server_dir)!r}, job={job}) finds the calls of submit_named, and makes "
        "more in that job; a new Executor makes a job of its own"
    )


OF_THE_JOB = frozenset({"server-lost", "not-connected", "no-job", "job-not-open", "too-many-failed", "stopping"})
"""Codes of refusals that hold for every call of the job."""


def from_native(error: BaseException) -> BaseException:
    """The error of the list above that stands for one of the extension; others stay what they are."""
    name = type(error).__name__
    if isinstance(error, HqError) and name != "NativeError":
        return error
    code = getattr(error, "code", "")
    message = str(error)
    if name == "NativeError" and len(error.args) >= 2:
        code, message = str(error.args[0]), str(error.args[1])
    elif name == "ServerLost":
        code = "server-lost"
    elif name != "NativeError":
        return error
    made = _BY_CODE.get(code, Refused)(message)
    made.code = code
    made.__cause__ = error
    return made
