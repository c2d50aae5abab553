"""The errors that the extension module raises, and what all errors of the package are."""

from __future__ import annotations


class HqError(Exception):
    """The base of all errors of Headquarters.

    `code` is the code of the error in the reference of the command line, or empty.
    """

    code: str = ""


class StaysHere:
    """What belongs to its process, and cannot be sent with a call; its `_instead` says what can."""

    __slots__ = ()
    _instead = ""

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(self._instead)


class NativeError(HqError, RuntimeError):
    """The server, or the way to it, refuses: `code` is a word that never changes, as `hq` prints it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class ServerLost(HqError, ConnectionError):
    """The server could not be reached again in time; what it has accepted goes on there."""

    def __init__(self, code: str, message: str | None = None) -> None:
        super().__init__(code if message is None else message)
        self.code = "server-lost" if message is None else code


class Forked(HqError, RuntimeError):
    """A process that was forked uses what belongs to the one that forked it; make a new one in this process."""

    def __init__(self, message: str = "this belongs to the process that made it, not to one that it forked") -> None:
        super().__init__(message)
