"""Graphs of jobs as pictures."""

from __future__ import annotations

import os
from typing import Any

from .common import GenericPath
from .job import Job


class MissingPackageException(ImportError):
    """A package that is optional is needed now."""

    def __init__(self, package: str) -> None:
        super().__init__(f"Package `{package}` is missing: install it to use this function")


def visualize_job(job: Job, path: GenericPath) -> None:
    """Writes the tasks of a job and what they wait for into a file, in the language of Graphviz. Needs `pydot`."""
    try:
        import pydot  # type: ignore[import-not-found, import-untyped, unused-ignore]  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPackageException("pydot") from None
    graph: Any = pydot.Dot("job", graph_type="digraph")
    for task in job.tasks:
        graph.add_node(pydot.Node(task.task_id, label=task.label))
        for dependency in task.dependencies:
            graph.add_edge(pydot.Edge(dependency.task_id, task.task_id))
    graph.write(os.fspath(path))
