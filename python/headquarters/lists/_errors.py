"""What can go wrong with lists beside what users' own functions raise."""

from __future__ import annotations

from .._base import HqError


class NoBackend(HqError, RuntimeError):
    """The back end that was asked for, or that the launcher of the program implies, cannot be used here."""


class RanksDiffer(HqError, RuntimeError):
    """Ranks do not call the same methods in the same order: one calls another method, or has ended.

    It is raised on all ranks that still run, in the place of waiting for ever.
    """


class ArgumentChanged(HqError, RuntimeError):
    """A function has changed what it was given; only the left argument of the function of `reduce` may be changed."""
