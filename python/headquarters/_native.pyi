"""What the extension module has."""

from os import PathLike

from ._base import Forked as Forked
from ._base import NativeError as NativeError
from ._base import ServerLost as ServerLost

__version__: str

class Session:
    """A connection to the server of a directory. Thread-safe; calls of several threads wait for each other."""

    def __init__(self, server_dir: str | PathLike[str]) -> None: ...
    @property
    def server_uid(self) -> str: ...
    @property
    def address(self) -> str: ...
    def wait_for_workers(self, count: int) -> None: ...
    def stop_server(self) -> None: ...

Batch = tuple[
    int, str, bytes, int, list[bytes], list[tuple[int, list[tuple[int, int]]]], list[str]
]
"""Template, name, code, first id, entries, (index in the entries, tasks that it waits for), keys."""

End = tuple[int, int, bytes | None, str, str]
"""Task, state (0 finished, 1 failed, 2 canceled, 3 aborted), what it left behind, kind of its failure, why."""

class Calls:
    """An open job of calls. Thread-safe; one thread may wait in `ends` while others call the rest."""

    def __init__(
        self,
        server_dir: str | PathLike[str],
        name: str,
        *,
        max_fails: int | None = None,
        job: int | None = None,
    ) -> None: ...
    @property
    def job(self) -> int: ...
    @property
    def next_id(self) -> int: ...
    def template(self, options: str, env: list[tuple[str, str]], interpreter: list[str]) -> int: ...
    def submit(self, batches: list[Batch]) -> list[int]: ...
    def ends(self, known: list[tuple[int, int]]) -> list[End]: ...
    def wake(self) -> None: ...
    def cancel(self, ids: list[tuple[int, int]], only_waiting: bool) -> list[tuple[int, int]]: ...
    def info(self, task: int) -> dict[str, object]: ...
    def explain(self, task: int) -> str: ...
    def close(self) -> None: ...

def find_open_job(server_dir: str | PathLike[str], name: str) -> int | None:
    """The open job of this name that was made last."""
