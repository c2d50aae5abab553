"""What is asked for, in the words of job files."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..validation import amount, whole
from ..validation import duration as checked_duration
from ..validation import resources as checked

Amount: TypeAlias = "int | float | str"
Duration: TypeAlias = "int | float | str | datetime.timedelta"


def duration(value: Duration) -> str:
    """A duration as `hq` reads it; numbers are seconds."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    return value if isinstance(value, str) else f"{value:g}s" if value < 1e5 else f"{round(value)}s"


class ResourceRequest:
    """What a task needs to run. Amounts are numbers, or texts as on the command line (`"4 compact!"`, `"all"`, `"8 GiB"`).

    :param n_nodes: So many whole workers instead of a part of one.
    :param cpus: CPUs.
    :param resources: Others by name.
    :param min_time: Only workers that live at least for so long.
    :param ranks_per_node: Start so many ranks on each node.
    """

    def __init__(
        self,
        *,
        n_nodes: int = 0,
        cpus: Amount = 1,
        resources: Mapping[str, Amount] | None = None,
        min_time: Duration | None = None,
        ranks_per_node: int = 0,
    ) -> None:
        self.n_nodes = whole("n_nodes", n_nodes)
        self.resources: dict[str, Amount] = {**checked("resources", resources or {}), "cpus": amount("cpus", cpus)}
        self.min_time = None if min_time is None else checked_duration("min_time", min_time)
        self.ranks_per_node = whole("ranks_per_node", ranks_per_node)

    def __repr__(self) -> str:
        return f"<ResourceRequest n_nodes={self.n_nodes} resources={self.resources} min_time={self.min_time}>"

    def table(self) -> dict[str, Any]:
        """As a `[[task.request]]` of a job file."""
        written: dict[str, Any] = {}
        if self.n_nodes:
            written["n_nodes"] = self.n_nodes
        if self.ranks_per_node:
            written["ranks_per_node"] = self.ranks_per_node
        # Whole workers come with all they have.
        if not self.n_nodes or self.ranks_per_node:
            written["resources"] = {name: amount for name, amount in self.resources.items() if amount != 0}
        if self.min_time is not None:
            written["time_request"] = duration(self.min_time)
        return written


@dataclass
class PackedCall:
    """A function and its arguments as bytes that only interpreters unpack."""

    name: str
    code: bytes
    arguments: bytes


@dataclass
class TaskDescription:
    """A task of a job file, by the keys there, and its function if it has one."""

    id: int
    table: dict[str, Any]
    call: PackedCall | None = None


@dataclass
class JobDescription:
    """A job file."""

    name: str
    max_fails: int | None
    tasks: list[TaskDescription] = field(default_factory=list)
    notices: dict[str, Any] = field(default_factory=dict)
    broadcast: list[str] = field(default_factory=list)
