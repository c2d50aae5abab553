"""`F`, which stands for the argument of a function that is written as an expression.

`F.upper()` calls a method, `F("shape")` is an attribute, `F[0]` an element, and all of these go on: `F("shape")[0] * 2`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Expression:
    """A function of one argument, made of what is done with it."""

    __slots__ = ("_hq_of", "_hq_text")
    # An expression is no collection, whatever it stands for.
    __iter__ = None
    __contains__ = None

    def __init__(self, of: Callable[[Any], Any], text: str) -> None:
        self._hq_of = of
        self._hq_text = text

    def __call__(self, value: Any) -> Any:
        return self._hq_of(value)

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):
            # Python looks for these to find out what an object can do.
            raise AttributeError(name)
        return Attribute(self, name)

    def __getitem__(self, key: Any) -> Expression:
        of = self._hq_of
        return Expression(lambda value: of(value)[_in(key, value)], f"{self._hq_text}[{_text(key)}]")

    def __repr__(self) -> str:
        return self._hq_text

    def __bool__(self) -> bool:
        raise TypeError(f"whether {self._hq_text} is true is known for each element only: join conditions with & and |")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _both(operator.eq, self, "==", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _both(operator.ne, self, "!=", other)

    def __lt__(self, other: Any) -> Expression:
        return _both(operator.lt, self, "<", other)

    def __le__(self, other: Any) -> Expression:
        return _both(operator.le, self, "<=", other)

    def __gt__(self, other: Any) -> Expression:
        return _both(operator.gt, self, ">", other)

    def __ge__(self, other: Any) -> Expression:
        return _both(operator.ge, self, ">=", other)

    def __add__(self, other: Any) -> Expression:
        return _both(operator.add, self, "+", other)

    def __radd__(self, other: Any) -> Expression:
        return _both(operator.add, other, "+", self)

    def __sub__(self, other: Any) -> Expression:
        return _both(operator.sub, self, "-", other)

    def __rsub__(self, other: Any) -> Expression:
        return _both(operator.sub, other, "-", self)

    def __mul__(self, other: Any) -> Expression:
        return _both(operator.mul, self, "*", other)

    def __rmul__(self, other: Any) -> Expression:
        return _both(operator.mul, other, "*", self)

    def __matmul__(self, other: Any) -> Expression:
        return _both(operator.matmul, self, "@", other)

    def __rmatmul__(self, other: Any) -> Expression:
        return _both(operator.matmul, other, "@", self)

    def __truediv__(self, other: Any) -> Expression:
        return _both(operator.truediv, self, "/", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _both(operator.truediv, other, "/", self)

    def __floordiv__(self, other: Any) -> Expression:
        return _both(operator.floordiv, self, "//", other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _both(operator.floordiv, other, "//", self)

    def __mod__(self, other: Any) -> Expression:
        return _both(operator.mod, self, "%", other)

    def __rmod__(self, other: Any) -> Expression:
        return _both(operator.mod, other, "%", self)

    def __pow__(self, other: Any) -> Expression:
        return _both(operator.pow, self, "**", other)

    def __rpow__(self, other: Any) -> Expression:
        return _both(operator.pow, other, "**", self)

    def __and__(self, other: Any) -> Expression:
        return _both(operator.and_, self, "&", other)

    def __rand__(self, other: Any) -> Expression:
        return _both(operator.and_, other, "&", self)

    def __or__(self, other: Any) -> Expression:
        return _both(operator.or_, self, "|", other)

    def __ror__(self, other: Any) -> Expression:
        return _both(operator.or_, other, "|", self)

    def __xor__(self, other: Any) -> Expression:
        return _both(operator.xor, self, "^", other)

    def __rxor__(self, other: Any) -> Expression:
        return _both(operator.xor, other, "^", self)

    def __lshift__(self, other: Any) -> Expression:
        return _both(operator.lshift, self, "<<", other)

    def __rlshift__(self, other: Any) -> Expression:
        return _both(operator.lshift, other, "<<", self)

    def __rshift__(self, other: Any) -> Expression:
        return _both(operator.rshift, self, ">>", other)

    def __rrshift__(self, other: Any) -> Expression:
        return _both(operator.rshift, other, ">>", self)

    def __neg__(self) -> Expression:
        return _one(operator.neg, "-", self)

    def __pos__(self) -> Expression:
        return _one(operator.pos, "+", self)

    def __invert__(self) -> Expression:
        return _one(operator.invert, "~", self)

    def __abs__(self) -> Expression:
        return _one(abs, "abs ", self)


class Attribute(Expression):
    """`F.name`: to be called, as a method is; in a larger expression it is the attribute."""

    __slots__ = ("_hq_name",)

    def __init__(self, whose: Expression, name: str) -> None:
        of = whose._hq_of
        super().__init__(lambda value: getattr(of(value), name), f"{whose._hq_text}.{name}")
        self._hq_name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Expression:
        of = self._hq_of

        def call(value: Any) -> Any:
            method = of(value)
            return method(
                *(_in(argument, value) for argument in args),
                **{name: _in(argument, value) for name, argument in kwargs.items()},
            )

        shown = [_text(argument) for argument in args] + [f"{name}={_text(one)}" for name, one in kwargs.items()]
        return Expression(call, f"{self._hq_text}({', '.join(shown)})")


class Placeholder(Expression):
    """`F` itself: the argument. Called with a name it is an attribute of the argument."""

    __slots__ = ()

    def __call__(self, name: str) -> Expression:
        if not isinstance(name, str):
            raise TypeError(f"F is called with the name of an attribute, not with {name!r}")
        return Expression(operator.attrgetter(name), f"F({name!r})")


F = Placeholder(lambda value: value, "F")
"""Stands for the argument: `F[0]`, `F.split(",")`, `F("shape")[0] + 1`."""


def misuse(function: Any) -> str:
    """Why an expression is not the function that it seems to be; empty for everything else."""
    if isinstance(function, Attribute):
        whole, name = function._hq_text, function._hq_name
        return f"{whole} is a method that is not called: {whole}() calls it, and F({name!r}) is an attribute of F"
    if isinstance(function, Placeholder):
        return "F alone is no function: write `lambda element: element`"
    return ""


def _in(part: Any, value: Any) -> Any:
    # What a part of an expression stands for where the argument is `value`.
    return part._hq_of(value) if isinstance(part, Expression) else part


def _text(part: Any) -> str:
    return part._hq_text if isinstance(part, Expression) else repr(part)


def _both(operation: Callable[[Any, Any], Any], left: Any, sign: str, right: Any) -> Expression:
    return Expression(lambda value: operation(_in(left, value), _in(right, value)), f"({_text(left)} {sign} {_text(right)})")


def _one(operation: Callable[[Any], Any], sign: str, of: Expression) -> Expression:
    inner = of._hq_of
    return Expression(lambda value: operation(inner(value)), f"({sign}{of._hq_text})")
