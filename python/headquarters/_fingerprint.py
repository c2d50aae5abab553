"""Whether a function that was pickled once would be pickled to the same bytes now.

A function depends on its code, defaults, cells and the globals that it names, and so do the functions among these. As
long as all of them are the very same objects, and none of them can change inside, the bytes stay the same. A function
that depends on something that can change, such as a list, is pickled again for each call.
"""

from __future__ import annotations

import datetime
import enum
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import _limits as limits

_MISSING = object()
_ATOMS: tuple[type, ...] = (
    int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), range, slice,
    types.BuiltinFunctionType, types.ModuleType, enum.Enum, re.Pattern, datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip
# Where nobody has loaded their modules there are none of them.
_ATOMS_OF = (("decimal", "Decimal"), ("fractions", "Fraction"), ("pathlib", "PurePath"))


class Fingerprint:
    """What a function depended on when it was pickled."""

    __slots__ = ("_attributes", "_cells", "_globals")

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, Any, Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []

    def holds(self) -> bool:
        """True if all of it is still what it was."""
        for function, code, defaults, kwdefaults in self._attributes:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not kwdefaults
            ):
                return False
        for cell, value in self._cells:
            if _content(cell) is not value:
                return False
        for names, name, value in self._globals:
            if names.get(name, _MISSING) is not value:
                return False
        return True

    def _size(self) -> int:
        return len(self._attributes) + len(self._cells) + len(self._globals)


def fingerprint(function: Callable[..., Any]) -> Fingerprint | None:
    """What a function depends on, or None if it has to be pickled for each call."""
    if not isinstance(function, types.FunctionType):
        return None
    made = Fingerprint()
    return made if _add(made, function, set()) else None


def by_reference(value: Any) -> bool:
    """True if a function or class is found in its module, so that its name is enough."""
    module = getattr(value, "__module__", None)
    if module is None or module == "__main__":
        return False
    found: Any = sys.modules.get(module)
    for part in getattr(value, "__qualname__", "<>").split("."):
        found = getattr(found, part, None)
    return found is value


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _add(made: Fingerprint, function: types.FunctionType, seen: set[int]) -> bool:
    if id(function) in seen:
        return True
    seen.add(id(function))
    if function.__dict__ or made._size() > limits.FINGERPRINT_PARTS_MAX:
        return False
    made._attributes.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
    values = [*(function.__defaults__ or ())]
    # Their dictionary can be changed, as rarely as it is.
    if function.__kwdefaults__:
        return False
    for cell in function.__closure__ or ():
        made._cells.append((cell, _content(cell)))
        values.append(_content(cell))
    for name in set(_globals_of(function.__code__)):
        value = function.__globals__.get(name, _MISSING)
        made._globals.append((function.__globals__, name, value))
        values.append(value)
    return all(_stays(made, value, seen) for value in values)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _stays(made: Fingerprint, value: Any, seen: set[int]) -> bool:
    if value is _MISSING or isinstance(value, _ATOMS):
        return True
    if any(module in sys.modules and isinstance(value, getattr(sys.modules[module], name, ())) for module, name in _ATOMS_OF):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(_stays(made, part, seen) for part in value)
    if isinstance(value, types.FunctionType):
        return by_reference(value) or _add(made, value, seen)
    return isinstance(value, type) and by_reference(value)
