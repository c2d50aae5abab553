"""Tables for notebooks, and how far calls are: a bar at a terminal, a table that changes in a notebook."""

from __future__ import annotations

import concurrent.futures
import sys
import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, TypeVar

from . import _limits as limits
from ._future import Future, outcome
from ._results import Results
from ._waiting import _futures, as_completed

T = TypeVar("T")

_STATES = ("pending", "finished", "failed", "canceled")


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML. All of it may be any text."""
    cells = "".join(f"<th>{escape(word)}</th>" for word in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<p>{escape(title)}</p><table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def progress(fs: Iterable[concurrent.futures.Future[T]] | Results[T]) -> Any:
    """Waits for calls, shows meanwhile how far they are, and gives them back.

    At a terminal it is a line on standard error, in a notebook a table with a row for each function; elsewhere it only waits.
    What calls raise is raised by whoever asks for their values. Who interrupts this ends no call.
    """
    given = fs if isinstance(fs, Results) else _futures("progress", fs)
    counts = _Counts(given)
    shown = _shown()
    shown.show(counts, is_last=False)
    if isinstance(given, Results):
        while not given.done():
            try:
                given.wait(limits.PROGRESS_S)
            except concurrent.futures.TimeoutError:
                pass
            counts.recount(given)
            shown.show(counts, is_last=False)
    else:
        for ended in as_completed(given, batches=True):
            counts.add(ended)
            shown.show(counts, is_last=False)
    shown.show(counts, is_last=True)
    return given


class _Counts:
    # How many calls of each function are in which state.
    def __init__(self, calls: Any) -> None:
        self.of: dict[str, dict[str, int]] = {}
        self.total = len(calls)
        if isinstance(calls, Results):
            self.recount(calls)
            return
        for future in calls:
            self._of(future)["pending"] += 1

    def add(self, ended: list[Any]) -> None:
        for future in ended:
            counts = self._of(future)
            counts["pending"] -= 1
            counts[outcome(future)] += 1

    def recount(self, results: Results[Any]) -> None:
        counts: dict[str, int] = dict.fromkeys(_STATES, 0)
        for state in results.states:
            counts[state if state in counts else "failed"] += 1
        self.of = {results.name: counts}

    def sum(self, state: str) -> int:
        return sum(counts[state] for counts in self.of.values())

    def _of(self, future: Any) -> dict[str, int]:
        name = future._code_name if isinstance(future, Future) else "call"
        return self.of.setdefault(name, dict.fromkeys(_STATES, 0))


class _Nowhere:
    def show(self, counts: _Counts, is_last: bool) -> None:
        pass


class _Seldom:
    # Shows the last state, and others now and then.
    def __init__(self) -> None:
        self._next = 0.0

    def show(self, counts: _Counts, is_last: bool) -> None:
        now = time.monotonic()
        if is_last or now >= self._next:
            self._next = now + limits.PROGRESS_S
            self._draw(counts, is_last)

    def _draw(self, counts: _Counts, is_last: bool) -> None:
        raise NotImplementedError


class _Line(_Seldom):
    def _draw(self, counts: _Counts, is_last: bool) -> None:
        ended = counts.total - counts.sum("pending")
        filled = limits.PROGRESS_CHARS * ended // max(counts.total, 1)
        bar = "#" * filled + "-" * (limits.PROGRESS_CHARS - filled)
        more = "".join(f", {counts.sum(state)} {state}" for state in ("failed", "canceled") if counts.sum(state))
        end = "\n" if is_last else ""
        try:
            sys.stderr.write(f"\r[{bar}] {ended} of {counts.total} calls{more}\x1b[K{end}")
            sys.stderr.flush()
        except Exception:
            # A stream of ours that is closed or broken is no failure of the calls.
            pass


class _Table(_Seldom):
    def __init__(self, display: Any) -> None:
        super().__init__()
        self._display = display
        self._handle: Any = None

    def _draw(self, counts: _Counts, is_last: bool) -> None:
        rows = [(name, *(of[state] for state in _STATES)) for name, of in counts.of.items()]
        ended = counts.total - counts.sum("pending")
        page = _Page(table(f"{ended} of {counts.total} calls have ended", ("function", *_STATES), rows))
        if self._handle is None:
            self._handle = self._display(page, display_id=True)
        else:
            self._handle.update(page)


class _Page:
    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


def _shown() -> _Nowhere | _Seldom:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]  # pyright: ignore

        return _Table(display)
    return _Line() if sys.stderr is not None and sys.stderr.isatty() else _Nowhere()


def of_cluster(cluster: Any) -> str:
    """What a cluster has: workers and jobs, as they are now."""
    if cluster.stopped:
        return f"<p>{escape(repr(cluster))}</p>"
    client = cluster.client()
    workers = [
        (worker.id, worker.hostname, ", ".join(f"{name} {amount}" for name, amount in worker.resources.items()), worker.tasks_running)
        for worker in client.workers()
    ]
    jobs = [_row(job) for job in client.jobs()[-limits.SHOWN_JOBS_MAX :]]
    return table(repr(cluster), ("worker", "node", "resources", "running"), workers) + table("Jobs", _JOB_HEAD, jobs)


def of_executor(executor: Any, server_dir: Any) -> str:
    """How far the calls of an executor are."""
    from .client import Client

    return table(repr(executor), _JOB_HEAD, [_row(Client(server_dir).job(executor.job_id))])


_JOB_HEAD = ("job", "name", "state", "waiting", "running", "finished", "failed", "canceled", "aborted")


def _row(job: Any) -> tuple[object, ...]:
    return tuple(getattr(job, "id" if word == "job" else word) for word in _JOB_HEAD)


def of_results(results: Results[Any]) -> str:
    """How far the calls of an array are."""
    counts = _Counts(results).of[results.name]
    return table(repr(results), ("function", *_STATES), [(results.name, *counts.values())])
