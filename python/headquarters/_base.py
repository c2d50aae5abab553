"""The errors that the extension module raises."""

from __future__ import annotations


class NativeError(RuntimeError):
    """The server, or the way to it, refuses: `code` is a word that never changes, as `hq` prints it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class ServerLost(NativeError):
    """The server could not be reached again in time."""


class Forked(RuntimeError):
    """A process that was forked uses what belongs to the one that forked it."""

    def __init__(self, message: str = "this belongs to the process that made it, not to one that it forked") -> None:
        super().__init__(message)
