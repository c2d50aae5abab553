"""What is wrong with what a program asks for: each check names the thing, the value and what to write instead."""

from __future__ import annotations

import math
import numbers
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ._base import in_words_of_python

# A thousand years: more is no duration for the server.
_SECONDS_MAX = 1000 * 365 * 86400


class ValidationException(ValueError):
    """A value that cannot be."""


class WrongType(ValidationException, TypeError):
    """A value of a type that cannot be."""


def wrong(name: str, value: object, instead: str, kind: type[ValidationException] = WrongType) -> ValidationException:
    """The exception for a value; `instead` says what to do."""
    text = repr(value)
    return kind(f"{name} is {text if len(text) < 100 else text[:96] + '...'}: {instead}")


@contextmanager
def read_elsewhere() -> Iterator[None]:
    """Within it the extension reads values: what it says of those that cannot be is a ValidationException."""
    try:
        yield
    except ValidationException:
        raise
    except ValueError as error:
        raise ValidationException(in_words_of_python(str(error))) from None


def whole(name: str, value: object, least: int = 0, most: int = 2**32 - 1) -> int:
    """A whole number."""
    is_wide = most >= 2**32 - 1
    example = f"a whole number from {least}" if is_wide else f"a whole number from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise wrong(name, value, f"give {example}")
    if not least <= int(value) <= most:
        raise wrong(name, value, f"give {example}" + (f", at most {most}" if is_wide and int(value) > most else ""), ValidationException)
    return int(value)


def amount(
    name: str, value: object, instead: str = "give a number, or a text such as '2 compact', 'all' or '8 GiB'"
) -> int | float | str:
    """An amount, of a resource or else of what `instead` says, the words of which are read elsewhere."""
    if isinstance(value, str):
        if not value.strip():
            raise wrong(name, value, instead, ValidationException)
        return text(name, value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong(name, value, instead)
    if not math.isfinite(value):
        raise wrong(name, value, instead, ValidationException)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def duration(name: str, value: object) -> float | str | timedelta:
    """A duration: seconds, a timedelta, or a text, which is read elsewhere."""
    if isinstance(value, str):
        return text(name, value)
    number = value.total_seconds() if isinstance(value, timedelta) else value
    instead = "give seconds, a timedelta, or a text such as '10m'"
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise wrong(name, value, instead + ("; leave it out for none" if value is None else ""))
    try:
        seconds = float(number)
    except OverflowError:
        seconds = _SECONDS_MAX * 2.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise wrong(name, value, instead, ValidationException)
    if seconds > _SECONDS_MAX:
        raise wrong(name, value, "durations go up to 1000 years", ValidationException)
    return value if isinstance(value, timedelta) else seconds


def seconds(name: str, value: object) -> float:
    """A number of seconds, also endless."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong(name, value, "give a number of seconds")
    if math.isnan(value) or value < 0:
        raise wrong(name, value, "give a number of seconds", ValidationException)
    return float(value)


def timeout(name: str, value: object) -> None:
    """How long somebody waits: seconds, or None for ever."""
    if value is not None and not isinstance(value, (int, float)):
        seconds(name, value)


def text(name: str, value: object) -> str:
    """A text that can be sent."""
    if not isinstance(value, str):
        raise wrong(name, value, "give a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong(name, value, "it has half of a character, which cannot be sent", ValidationException) from None
    if "\0" in value:
        raise wrong(name, value, "no text may have a NUL", ValidationException)
    return value


def line(name: str, value: object) -> str:
    """A name: some text on one line."""
    value = text(name, value)
    if not value or len(value.encode()) > 4096 or any(ord(one) < 32 or ord(one) == 127 for one in value):
        raise wrong(name, value, "give a name of 1 to 4096 bytes without tabs and newlines", ValidationException)
    return value


def path(name: str, value: object) -> str:
    """A path."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise wrong(name, value, "give a path, as a text or a Path")
    return text(name, value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(name, value, "give True or False")
    return value


def function(name: str, value: object) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise wrong(name, value, "it cannot be called; give the function, and its arguments behind it")
    return value


def crash_limit(name: str, value: object) -> int | str:
    """How often something may be lost."""
    return text(name, value) if isinstance(value, str) else whole(name, value, 1)


_EXIT_CODES = re.compile(r"[0-9]+(-[0-9]+)?|signal|timeout")


def exit_codes(name: str, value: object) -> str:
    """Exit codes and words, with commas."""
    given = [value] if isinstance(value, (str, int)) else value
    instead = "give exit codes from 1 to 255, 'signal', 'timeout', or a list of these, as in [75, 'signal']"
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise wrong(name, value, instead)
    words = list(given)
    if any(isinstance(word, bool) or not isinstance(word, (str, numbers.Integral)) for word in words):
        raise wrong(name, value, instead)
    joined = ",".join(map(str, words))
    if not all(_EXIT_CODES.fullmatch(word.strip()) for word in joined.split(",")):
        raise wrong(name, value, instead, ValidationException)
    return text(name, joined)


def pin(name: str, value: object) -> str:
    """How a task is bound to its CPUs."""
    word = {True: "taskset", False: "none"}[value] if isinstance(value, bool) else value
    if word not in ("none", "taskset", "omp"):
        raise wrong(name, value, "give 'taskset', 'omp' or 'none'", ValidationException)
    return str(word)


def variables(name: str, value: object) -> dict[str, str]:
    """Variables and their values."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "give a dict of variables, such as {'OMP_NUM_THREADS': '4'}")
    for variable, content in value.items():
        if not isinstance(variable, str) or not variable or "=" in variable:
            raise wrong(f"a variable of {name}", variable, "give a name without =", ValidationException)
        if isinstance(content, bool) or not isinstance(content, (str, numbers.Real, os.PathLike)):
            raise wrong(f"{name}[{variable!r}]", content, f"give a text, such as {str(content)!r}")
    return {
        text(f"a variable of {name}", variable): text(f"{name}[{variable!r}]", str(content))
        for variable, content in value.items()
    }


def resources(name: str, value: object) -> dict[str, int | float | str]:
    """Amounts by the names of resources."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "give a dict of amounts, such as {'fpga': 2}")
    return {text(f"a name in {name}", key): amount(f"{name}[{key!r}]", content) for key, content in value.items()}


def texts(name: str, value: object) -> list[str]:
    """A list of texts."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong(name, value, "give a list of texts" + (f": [{value!r}]" if isinstance(value, str) else ""))
    return [text(f"{name}[{at}]", one) for at, one in enumerate(value)]


def many(name: str, value: Iterable[Any], example: str) -> Iterator[Any]:
    """Something that can be iterated over."""
    try:
        return iter(value)
    except TypeError:
        raise wrong(name, value, f"give a list, such as {example}") from None


def jobs(name: str, value: object) -> list[str]:
    """Jobs, and tasks of jobs, as the command line names them."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong(name, value, f"give a list of jobs, such as [{value!r}]")
    named = [one if isinstance(one, str) else str(whole(f"{name}[{at}]", one)) for at, one in enumerate(value)]
    return texts(name, named)


def mpi(name: str, value: object) -> str:
    """Which world the ranks of a call are."""
    if value not in ("warm", "world"):
        raise wrong(name, value, "give 'warm' or 'world'", ValidationException)
    return str(value)


CHECKS: dict[str, Callable[[str, object], Any]] = {
    "cpus": amount,
    "gpus": amount,
    "memory": amount,
    "mem": amount,
    "resources": resources,
    "ranks": lambda name, value: whole(name, value, 1),
    "nodes": lambda name, value: whole(name, value, 1),
    "cpus_per_rank": amount,
    "gpus_per_rank": amount,
    "mpi": mpi,
    "gather": flag,
    "launcher": text,
    "time_request": duration,
    "time_limit": duration,
    "kill_grace": duration,
    "retry_delay": duration,
    "expect": duration,
    "retry": whole,
    "retry_on": exit_codes,
    "priority": lambda name, value: whole(name, value, -(2**31), 2**31 - 1),
    "crash_limit": crash_limit,
    "on_walltime": text,
    "locality": text,
    "pin": pin,
    "cwd": path,
    "stdout": path,
    "stderr": path,
    "variables": variables,
    "key": text,
    "outputs": texts,
    "output_objects": texts,
    "input_objects": texts,
    "broadcast": texts,
    "output_patience": duration,
    "end_by": duration,
    "after": jobs,
    "after_any": jobs,
}
"""What each option of a task or a call can be; each gives the value as it is sent."""


def validate_args(args: object) -> list[str]:
    """The arguments of a program, of which a text is split as a shell does."""
    if isinstance(args, str):
        try:
            return shlex.split(args)
        except ValueError as error:
            raise wrong("args", args, f"{error}; close it, or give a list", ValidationException) from None
    if isinstance(args, bytes) or not isinstance(args, Sequence):
        raise wrong("args", args, "give the program and its arguments, such as ['echo', 'hello'], or one text")
    for arg in args:
        if not isinstance(arg, str):
            raise WrongType(f"Each program argument must be a string. Argument `{arg}` has type `{type(arg)}`.")
    return list(args)
