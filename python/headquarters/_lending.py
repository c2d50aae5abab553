"""Within a call: while it waits for others, it lends its CPUs to them."""

from __future__ import annotations

import sys
from types import TracebackType


class while_waiting:
    """What is waited for in this block may need the CPUs of the call that waits. Outside of calls it does nothing."""

    __slots__ = ("_is_lent",)

    def __enter__(self) -> None:
        runner = sys.modules.get("_hq_runner")
        self._is_lent = runner is not None and runner.waits()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_lent:
            sys.modules["_hq_runner"].goes_on()
