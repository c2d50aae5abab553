"""Options of jobs: who is told of them, what they may use, and for how long an open one waits for its clients; the words of job files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from . import validation
from .validation import wrong

if TYPE_CHECKING:
    if sys.version_info >= (3, 12):
        from typing import Unpack as Unpack
    else:
        from typing_extensions import Unpack as Unpack


class JobOptions(TypedDict, total=False):
    """What a job may use, and who is told of it when. A target is a command, a URL (`http://`, `https://`) or `mailto:ADDRESS`."""

    on_finish: str | Sequence[str]
    """Told when the job has ended: one target, or several."""
    on_failure: str | Sequence[str]
    """Told of the first task that fails."""
    on_stall: str | Sequence[str]
    """Told when the job is stalled: nothing of it runs, and nothing can."""
    notify: str | Sequence[str]
    """Told of all three."""
    stall_after: float | str | timedelta
    """How long nothing has to run before the job is stalled; 10 minutes if not given."""
    budget: float | str
    """Node hours that its tasks may use, all together."""


def checked(options: JobOptions) -> dict[str, Any]:
    """The options as job files have them. Raises TypeError for a word that is none."""
    found: dict[str, Any] = {}
    for word, value in options.items():
        if word not in JobOptions.__annotations__:
            raise TypeError(f"{word!r} is no option of a job; there are: {', '.join(sorted(JobOptions.__annotations__))}")
        if word == "stall_after":
            found[word] = written(validation.duration(word, value))
        elif word == "budget":
            found[word] = validation.amount(word, value, "give node hours, as 50 or '1.5'")
        else:
            found[word] = _targets(word, value)
    return found


def _targets(word: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [validation.text(word, value)]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise wrong(word, value, "give a command, a URL or 'mailto:ADDRESS', or a list of such texts")
    return validation.texts(word, value)


def opened(name: str, max_fails: int | None, options: JobOptions, linger: object = None) -> str:
    """An open job, as the engine reads it; `linger` is for how long its clients may be away, None for ever."""
    found: dict[str, Any] = {"name": validation.line("name", name), **checked(options)}
    if max_fails is not None:
        found["max_fails"] = validation.whole("max_fails", max_fails)
    if linger is not None:
        found["linger"] = written(validation.duration("linger", linger))
    return json.dumps(found)


def of_new_jobs(options: JobOptions) -> None:
    """Raises where some are given for a job that is there already."""
    for word, value in options.items():
        raise wrong(word, value, "it belongs to a new job, and this one is there already; leave it out")


def written(value: float | str | timedelta) -> str:
    """A duration as the engine reads it."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        return value
    whole_ms = round(value * 1000)
    return f"{whole_ms // 1000}s" if whole_ms % 1000 == 0 else f"{whole_ms}ms"
