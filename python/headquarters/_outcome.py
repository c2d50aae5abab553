"""What an end means: a value, what was printed, or the exception that says why there is no value."""

from __future__ import annotations

import pickle
import re
import struct
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from ._base import in_words_of_python
from ._native_types import ABORTED, CANCELED, FINISHED

if TYPE_CHECKING:
    from ._native_types import End

# What is said in the reference of the runner's protocol.
PARTS, _PICKLE = 0x45, 0x80
_STDOUT, _STDERR = 1, 2
_FAILURE, _TYPE, _TEXT, _TRACEBACK = 5, 6, 7, 8
_OBJECT, _HELD = 9, 10
_STORED = struct.Struct("<Q16s")
# What the server says of a call whose value found no room, however often it was tried.
_FULL = "which it leaves, could not be stored"
# What it says of a call one of whose arguments is gone.
_GONE = " is gone, which this task takes"
_BY_KIND: dict[str, type[errors.HqError]] = {
    "exit": errors.RunnerDied,
    "signal": errors.RunnerDied,
    "timeout": errors.TaskTimeout,
    "start": errors.EnvironmentBroken,
    "output": errors.RunnerDied,
    "crashes": errors.TooManyCrashes,
    "lost": errors.TooManyCrashes,
    "ended-early": errors.JobAborted,
}
_BY_ANSWER: dict[str, type[errors.HqError]] = {
    "not-loaded": errors.EnvironmentBroken,
    "arguments": errors.ArgumentsNotPicklable,
    "not-picklable": errors.ResultNotPicklable,
    "too-large": errors.ResultTooLarge,
    "not-stored": errors.NotStored,
}


_WAITED = re.compile(r"Task (\d+)@(\d+) .*, for which th")


def returned(message: str) -> tuple[int, int] | None:
    """Of a call that was given up: the call that it waited for, as the server says. It is one that the call has returned, if the
    client does not know of any."""
    found = _WAITED.match(message)
    return (int(found[1]), int(found[2])) if found else None


def printed(payload: bytes | None) -> tuple[bytes, bytes] | None:
    """What the call wrote to standard output and error, if it wrote anything: the last of it."""
    if not payload or payload[0] != PARTS:
        return None
    try:
        parts, _ = _parts(payload)
    except ValueError:
        # Who asks for the value is told.
        return None
    both = parts.get(_STDOUT, b""), parts.get(_STDERR, b"")
    return both if any(both) else None


def stored(payload: bytes | None) -> tuple[int, bytes] | None:
    """Size and nonce of the value, if it stays in a store."""
    if not payload or payload[0] != PARTS:
        return None
    try:
        part = _parts(payload)[0].get(_OBJECT, b"")
    except ValueError:
        # Who asks for the value is told.
        return None
    return _STORED.unpack(part) if len(part) == _STORED.size else None


def held(payload: bytes | None) -> bytes:
    """Which Refs and Futures are in the value."""
    if not payload or payload[0] != PARTS:
        return b""
    try:
        return _parts(payload)[0].get(_HELD, b"")
    except ValueError:
        # Who asks for the value is told.
        return b""


def _parts(payload: bytes) -> tuple[dict[int, bytes], bytes]:
    # The parts of what a call left behind, by their kinds, and the pickle behind them.
    parts: dict[int, bytes] = {}
    at = 1 if payload[0] == PARTS else 0
    while at < len(payload) and payload[at] != _PICKLE:
        kind, length = payload[at], int.from_bytes(payload[at + 1 : at + 3], "little")
        if at + 3 + length > len(payload):
            raise ValueError("it is cut off")
        parts[kind] = payload[at + 3 : at + 3 + length]
        at += 3 + length
    return parts, payload[at:]


def decode(end: End, name: str) -> tuple[Any, BaseException | None]:
    """The value of a call, or the exception that it ends with; None and None where it is `stored`.

    Canceled calls are no matter of this function.
    """
    _, state, payload, kind, message = end
    assert state != CANCELED
    try:
        if state == FINISHED:
            if payload and payload[0] == _PICKLE:
                return pickle.loads(payload), None
            if stored(payload) is not None:
                return None, None
            if payload:
                return pickle.loads(_parts(payload)[1]), None
            return None, errors.ResultLost(f"{name} returned, and its result is not kept any more: there were too many others")
        if state == ABORTED and _FULL in message:
            return None, errors.NotStored(message)
        if state == ABORTED and message.startswith("Object ") and _GONE in message:
            return None, errors.ObjectLost(message)
        if state == ABORTED and returned(message) is not None:
            return None, errors.DependencyFailed(message, message)
        if state == ABORTED:
            return None, errors.JobAborted(in_words_of_python(message) or f"{name} was aborted")
        answer = _answer(payload) if payload else None
    except BaseException as error:
        made = errors.RemoteError(
            f"what {name} gave back cannot be loaded here: {type(error).__name__}: {error}",
            type(error).__qualname__,
            str(error),
        )
        made.__cause__ = error
        return None, made
    return None, _failure(answer, kind, message, name)


def _answer(payload: bytes) -> tuple[str, bytes, str, str, str] | None:
    parts, exception = _parts(payload)
    if _FAILURE not in parts:
        # It has returned, and failed all the same, as where its value finds no room.
        return None
    how, type_name, text, traceback = (
        parts.get(kind, b"").decode(errors="replace") for kind in (_FAILURE, _TYPE, _TEXT, _TRACEBACK)
    )
    return how, exception, type_name, text, traceback


def _failure(answer: tuple[str, bytes, str, str, str] | None, kind: str, message: str, name: str) -> BaseException:
    if answer is None or kind == "timeout":
        if kind == "start":
            message = _of_an_interpreter(message)
        of_kind = _BY_KIND.get(kind, errors.RemoteError)(message or f"{name} failed: {kind}")
        if kind == "output" and message.startswith("The value of"):
            of_kind = errors.NotStored(message)
        if answer is not None:
            of_kind.__cause__ = errors.RemoteTraceback(answer[4])
        return of_kind
    how, exception, type_name, text, traceback = answer
    raised: BaseException
    if how in _BY_ANSWER:
        instead = "; write large values to a file, and return its path" if how == "too-large" else ""
        sent = "its arguments were sent, and the interpreter of the call cannot load them: " if how == "arguments" else ""
        raised = _BY_ANSWER[how](f"{name}: {sent}{text}{instead}")
    elif type_name.endswith("InitializerFailed"):
        raised = errors.EnvironmentBroken(text)
    else:
        raised = _raised(exception, type_name, text)
    if traceback:
        raised.__cause__ = errors.RemoteTraceback(traceback)
    return raised


def _of_an_interpreter(message: str) -> str:
    from ._environment import OURS

    message = message.replace(f"{' '.join(OURS)} ", "")
    if " before it could call a function, and said nothing" in message:
        message += "; check() of its PythonEnv says whether a module of preload is to blame"
    return message


def _raised(exception: bytes, type_name: str, text: str) -> BaseException:
    # The interpreter of the call has tried, and sends none that it could not make again.
    why = "it cannot be pickled, or cannot be made from its args; give super().__init__ all that its class takes, or define __reduce__"
    if exception:
        try:
            raised = pickle.loads(exception)
        except BaseException as error:
            raised, why = None, f"{type(error).__name__}: {error}"
        if isinstance(raised, BaseException):
            return raised
    return errors.RemoteError(f"{type_name}: {text}\n(This exception cannot be made again here: {why})", type_name, text)
