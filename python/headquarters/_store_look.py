"""Whether any worker stores values: calls that take values of others wait where none does, and somebody should say so."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from . import _limits as limits

if TYPE_CHECKING:
    from ._session import Session


class StoreLook:
    """Looks once, some time after it was made, and warns."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._timer = threading.Timer(limits.STORELESS_S, self._look)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()

    def _look(self) -> None:
        try:
            if not self._session.waits:
                return
            native = self._session.objects.stores.native
            count = native.storeless()
            if count and not native.stores():
                logging.getLogger("headquarters").warning(
                    "no worker stores values (there %s %d, without an object store), and calls that take values of others wait "
                    "until one does: start workers without --no-object-store",
                    "is" if count == 1 else "are",
                    count,
                )
        except Exception:
            # Only a word for the user.
            pass
