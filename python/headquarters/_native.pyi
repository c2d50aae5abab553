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
