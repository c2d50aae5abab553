"""Whether functions of users are what they should be: can be called, and leave alone what they are given."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from ._errors import ArgumentChanged
from ._placeholder import misuse


def function(given: Any, of: str) -> Callable[..., Any]:
    """What was given as a function. Raises TypeError where it is none."""
    if why := misuse(given):
        raise TypeError(f"{of}: {why}")
    if not callable(given):
        raise TypeError(f"{of} takes a function, not {given!r}")
    checked: Callable[..., Any] = given
    return checked


def count(given: Any, of: str, name: str) -> int:
    """What was given as a number of things."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{of}: {name} is a whole number, not {given!r}") from None
    if number < 0:
        raise ValueError(f"{of}: {name} is {number}, and cannot be negative")
    return number


def list_of(made: Any) -> Iterable[Any]:
    """What the function of flatMap has returned. A text is rarely meant as the list of its letters."""
    if isinstance(made, (str, bytes)) or not isinstance(made, Iterable):
        raise TypeError(f"the function of flatMap has to return a list, not a {type(made).__name__}")
    return made


def whole_list(made: Any) -> list[Any]:
    """What the function of nodeMap has returned."""
    if not isinstance(made, list):
        raise TypeError(f"the function of nodeMap has to return a list, not a {type(made).__name__}")
    return made


def unchanging(given: Callable[..., Any], of: str, arguments: slice) -> Callable[..., Any]:
    """The same function, which raises ArgumentChanged when it has changed one of these arguments.

    Arguments are compared by their pickles. Those that have none are not looked at.
    """

    def call(*args: Any) -> Any:
        before = [_print_of(argument) for argument in args[arguments]]
        result = given(*args)
        for number, (was, argument) in enumerate(zip(before, args[arguments], strict=True), arguments.start or 0):
            if was != _print_of(argument):
                name = getattr(given, "__qualname__", None) or repr(given)
                raise ArgumentChanged(
                    f"{name} of {of} has changed its argument {number}, a {type(argument).__name__}: "
                    "let it return something new; only the left argument of reduce may be changed"
                )
        return result

    return call


def _print_of(value: Any) -> bytes:
    try:
        return blake2b(pickle.dumps(value, 5)).digest()
    except Exception:
        return b""
