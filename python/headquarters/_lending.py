"""Within a call: while it waits for others, it lends its CPUs to them."""

from __future__ import annotations

import sys
from types import TracebackType


def is_in_call() -> bool:
    """True in an interpreter that a worker calls functions in."""
    # Elsewhere there may be a module of this name that only stands for it in pickles.
    return hasattr(sys.modules.get("_hq_runner"), "waits")


class while_waiting:
    """What is waited for in this block may need the CPUs of the call that waits. Outside of calls it does nothing."""

    __slots__ = ("_is_lent",)

    def __enter__(self) -> None:
        self._is_lent = is_in_call() and sys.modules["_hq_runner"].waits()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_lent:
            sys.modules["_hq_runner"].goes_on()
