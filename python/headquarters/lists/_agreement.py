"""Whether all ranks are at the same collective, and what each of them raises if not.

Before anything travels, ranks compare the number and the name of what they are about to do, and whether something has failed
on any of them. What is decided from their reports is the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

from ._errors import RanksDiffer
from ._failure import Failure

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Report:
    """What a rank is about to do."""

    rank: int
    epoch: int
    """How many agreements it has begun."""
    what: str
    """The collective and what it was given, as `collect(root=0)`; empty at the end of the program."""
    failure: Failure | None = None
    """What was raised on it since the last agreement; at its end, what has ended it."""


def verdict(reports: list[Report], rank: int, own: BaseException | None, whose: str = "") -> BaseException | None:
    """What this rank raises. `own` is its failure as it was raised; `whose` says which ranks these are where not all are."""
    failures = [report.failure for report in reports if report.failure is not None]
    if len({(report.epoch, report.what) for report in reports}) > 1:
        differ = RanksDiffer(_difference(reports, whose))
        if failures:
            differ.__cause__ = own if failures[0].rank == rank else failures[0].exception()
        return differ
    if not failures:
        return None
    if failures[0].rank == rank:
        return own
    return failures[0].exception()


def _difference(reports: list[Report], whose: str) -> str:
    ended = [report for report in reports if not report.what]
    said = []
    for failure, ranks in _groups([(report.failure, report.rank) for report in ended]):
        why = f" with {failure.type_name}: {failure.text}" if failure is not None else ""
        said.append(f"{_names(ranks)} ended{why}")
    running = [((report.what, report.epoch), report.rank) for report in reports if report.what]
    said += [f"{_names(ranks)} at collective {epoch}: {what}" for (what, epoch), ranks in _groups(running)]
    where = "; ".join(said)
    return f"ranks{whose} are not at the same collective: {where}. All ranks must call the same methods in the same order"


def _groups(pairs: list[tuple[K, int]]) -> list[tuple[K, list[int]]]:
    groups: dict[K, list[int]] = {}
    for key, rank in pairs:
        groups.setdefault(key, []).append(rank)
    return list(groups.items())


def _names(ranks: list[int]) -> str:
    # Runs of numbers as `0-3`.
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
