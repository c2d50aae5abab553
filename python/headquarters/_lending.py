"""Within a call: while it waits for others, it lends its CPUs to them."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any


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


def lend_in_loop(future: Any) -> None:
    """Within a call: as long as a future has not ended, the loop that runs here lends the CPUs of the call when it is idle.

    So they are lent, too, where a loop of asyncio awaits a future that knows nothing of it.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        from .aio import lend_for

        lend_for(future)


class _LendingEvent(threading.Event):
    # Who waits for it in a call lends its CPUs.
    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return True
        with while_waiting():
            return super().wait(timeout)


class Waiters(list[Any]):
    """Within a call: who waits for a future by a function of `concurrent.futures`, and lends its CPUs meanwhile."""

    def append(self, waiter: Any) -> None:
        """Adds what such a function has made, and does not wait for yet."""
        if type(getattr(waiter, "event", None)) is threading.Event and not waiter.event.is_set():
            waiter.event = _LendingEvent()
        super().append(waiter)
