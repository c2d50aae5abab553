"""How an exception travels from the rank where it was raised to the others."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .._errors import RemoteError, RemoteTraceback

T = TypeVar("T")


@dataclass(frozen=True)
class Failure:
    """What was raised on a rank, as something that can always be sent."""

    rank: int
    data: bytes
    """The pickle of the exception; empty where it has none that can be loaded."""
    type_name: str
    text: str
    traceback: str

    def exception(self) -> BaseException:
        """The exception as another rank raises it: its cause has the traceback of the rank where it was raised."""
        raised: BaseException = RemoteError(f"{self.type_name}: {self.text}", self.type_name, self.text)
        if self.data:
            try:
                loaded = pickle.loads(self.data)
            except Exception:
                loaded = None
            if isinstance(loaded, BaseException):
                raised = loaded
        raised.__cause__ = RemoteTraceback(f"on rank {self.rank}:\n{self.traceback}")
        return raised


def failure_of(error: BaseException, rank: int) -> Failure:
    """What can be sent of an exception."""
    try:
        data = pickle.dumps(error, 5)
        # What cannot be made again must not be found out by those who only hear of it.
        pickle.loads(data)
    except Exception:
        data = b""
    try:
        text = str(error)
    except Exception:
        text = "an error that has no text"
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(rank, data, type(error).__qualname__, text, lines)


def attempt(make: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What a function returns, or what it raises: that is told to the other ranks at the next collective."""
    try:
        return make(), None
    except Exception as error:
        return None, error
