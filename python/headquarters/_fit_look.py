"""Whether calls of a local cluster could ever run there: where none of its workers could, nobody else comes, and somebody should say so."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from . import _limits as limits

if TYPE_CHECKING:
    from ._native_types import Batch
    from ._session import Session

# How the server begins its answer.
_NEVER = "no worker could ever run it"


class FitLook:
    """Looks, some time after they were sent, at the first call of each kind, and warns once of each that cannot run. Kinds differ in
    their options."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._known: set[int] = set()
        # The first call of each kind that was not looked at.
        self._firsts: dict[int, int] = {}
        self._timer: threading.Timer | None = None
        self._is_over = False
        self._pause_s = limits.UNFIT_S

    def sent(self, batches: list[Batch]) -> None:
        """These are with the server now."""
        if all(batch[0] in self._known for batch in batches):
            return
        with self._lock:
            for template, _, _, first, *_ in batches:
                if template not in self._known and len(self._known) < limits.KINDS_LOOKED_AT_MAX:
                    self._known.add(template)
                    self._firsts[template] = first
                    self._pause_s = limits.UNFIT_S
            self._start()

    def cancel(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()

    def _start(self) -> None:
        if self._firsts and self._timer is None and not self._is_over:
            self._timer = threading.Timer(self._pause_s, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        try:
            for template, task in list(self._firsts.items()):
                why = self._session.explain(task) if self._session.is_pending(task) else ""
                if why.startswith(_NEVER):
                    logging.getLogger("headquarters").warning(
                        "call %d@%d waits for ever, and so does each with its options: %s", self._session.job, task, why.splitlines()[0]
                    )
                elif why and self._session.info(task).get("state") != "running":
                    # Workers may be about to start, or it waits for other calls.
                    continue
                del self._firsts[template]
        except Exception:
            # Only a word for the user.
            self._firsts.clear()
        with self._lock:
            self._timer = None
            self._pause_s *= 2
            self._start()
