"""What is wrong with what a program asks for."""

from __future__ import annotations

from collections.abc import Sequence


class ValidationException(ValueError):
    """A value that cannot be."""


def validate_args(args: Sequence[str]) -> None:
    """Checks the arguments of a program."""
    for arg in args:
        if not isinstance(arg, str):
            raise ValidationException(f"Each program argument must be a string. Argument `{arg}` has type `{type(arg)}`.")
