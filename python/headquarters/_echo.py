"""What calls print, repeated where they were called from."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from . import _limits as limits
from ._outcome import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._native_types import End


class Echo:
    """Repeats what calls print, up to a rate."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._second = 0.0
        self._left = limits.ECHO_BYTES_PER_S
        self._is_told = False

    def show(self, ends: Iterable[End]) -> None:
        """What these calls have printed."""
        for end in ends:
            both = printed(end[2])
            if both is None:
                continue
            for text, stream in zip(both, (sys.stdout, sys.stderr)):
                if text and stream is not None:
                    self._write(text, stream)

    def _write(self, text: bytes, stream: Any) -> None:
        now = self._now()
        if now - self._second >= 1.0:
            self._second, self._left, self._is_told = now, limits.ECHO_BYTES_PER_S, False
        if len(text) > self._left:
            if not self._is_told:
                self._is_told = True
                text = b"[some output of calls is left out here; each future has its own: .output()]\n"
            else:
                return
        self._left -= len(text)
        try:
            stream.write(text.decode(errors="replace"))
            stream.flush()
        except Exception:
            # A stream of ours that is closed or broken is no failure of the calls.
            pass
