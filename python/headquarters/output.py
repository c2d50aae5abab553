"""Where tasks print."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .common import GenericPath
from .validation import ValidationException

FileOnCloseBehavior: TypeAlias = Literal["none", "rm-if-finished", "rm-if-empty"]


@dataclass
class StdioDef:
    """A file for what a task prints; without a path, the default one."""

    path: GenericPath | None
    on_close: FileOnCloseBehavior = "none"
    """When the file is removed as the task ends."""

    @staticmethod
    def from_path(path: GenericPath) -> StdioDef:
        """A file that stays."""
        return StdioDef(path=path, on_close="none")

    @staticmethod
    def remove_if_finished(path: GenericPath | None = None) -> StdioDef:
        """A file that is removed when the task has finished."""
        return StdioDef(path=path, on_close="rm-if-finished")


Stdio: TypeAlias = "GenericPath | StdioDef"


def default_output(ext: str) -> str:
    """Where a task prints unless it is told otherwise."""
    return "%{CWD}/%{TASK_ID}." + ext


def default_stdout() -> str:
    """Where a task's standard output goes unless it is told otherwise."""
    return default_output("stdout")


def default_stderr() -> str:
    """Where a task's standard error goes unless it is told otherwise."""
    return default_output("stderr")


def build_stdio(stdio: Stdio | None, stream: str) -> StdioDef | None:
    """What is said of `stream`, as a definition; None keeps nothing."""
    if stdio is None or isinstance(stdio, StdioDef):
        return stdio
    if isinstance(stdio, (str, os.PathLike)):
        return StdioDef.from_path(stdio)
    raise ValidationException(
        f"Invalid value provided for `{stream}`: {type(stdio)}. Expected str, Path or `StdioDef` or `None`."
    )


def table(stdio: StdioDef | None) -> object:
    """A definition in the words of job files."""
    if stdio is None:
        return "none"
    written: dict[str, str] = {"on_close": stdio.on_close}
    if stdio.path is not None:
        written["path"] = os.fspath(stdio.path)
    return written
