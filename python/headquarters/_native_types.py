"""What the extension offers for calls, as types."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import TypeAlias
    else:
        from typing_extensions import TypeAlias

    Interval: TypeAlias = "tuple[int, int]"
    Wait: TypeAlias = "tuple[int, list[tuple[int, int]]]"
    Batch: TypeAlias = "tuple[int, str, bytes, int, list[bytes], list[Wait], list[str]]"
    End: TypeAlias = "tuple[int, int, bytes | None, str, str]"

FINISHED = 0
FAILED = 1
CANCELED = 2
ABORTED = 3


class Calls(Protocol):
    """One open job of calls; every method may be called from every thread."""

    @property
    def job(self) -> int: ...
    @property
    def next_id(self) -> int: ...
    def template(self, options: str, env: list[tuple[str, str]], interpreter: list[str]) -> int: ...
    def submit(self, batches: list[Batch]) -> list[int]: ...
    def ends(self, known: list[Interval]) -> list[End]: ...
    def wake(self) -> None: ...
    def cancel(self, ids: list[Interval], only_waiting: bool) -> list[Interval]: ...
    def info(self, task: int) -> dict[str, Any]: ...
    def explain(self, task: int) -> str: ...
    def close(self) -> None: ...


def open_calls(server_dir: str, name: str, *, max_fails: int | None, job: int | None) -> Calls:
    """Opens a job of this name on a server, or attaches to an open one."""
    import importlib

    native: Any = importlib.import_module("headquarters._native")
    calls: Calls = native.Calls(server_dir, name, max_fails=max_fails, job=job)
    return calls
