"""The errors that the extension module raises, and what all errors of the package are."""

from __future__ import annotations


# What the server and the extension say in the words of the command line, and how programs say it. Other commands stay.
_WORDS = (
    (r"give its directory with --server-dir", "name its directory: Client(server_dir), Executor(cluster=server_dir), or HQ_SERVER_DIR"),
    (r"`hq job task-ids \d+` lists", "`Client.tasks(job)` lists"),
    (r"`hq job cancel (\d+)`", r"`Client.cancel(\1)`"),
    (r"`hq job close (\d+)`", r"`Client.close_job(\1)`"),
    (r"--function\b", "Job.function"),
)


def in_words_of_python(text: str) -> str:
    """The text with options as programs give them, and with methods in the place of commands."""
    import re

    for command, instead in _WORDS:
        text = re.sub(command, instead, text)
    return re.sub(r"(`[^`]*`)|(?<![^\s(])--([a-z][a-z-]*)", lambda found: found[1] or f"{found[2].replace('-', '_')}=", text)


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
        message = in_words_of_python(message)
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
