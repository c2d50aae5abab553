"""The arguments of a call in the form in which they are sent: with the call, and large ones through a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _limits as limits
from ._errors import ArgumentsNotPicklable, NotStored
from ._pickling import dumps_entry, dumps_short_entry, dumps_value

if TYPE_CHECKING:
    from ._future import Future
    from ._objects import Objects


def entry_of(
    objects: Objects, args: tuple[Any, ...], kwargs: dict[str, Any], is_keyed: bool = False
) -> tuple[bytes, list[Future[Any]]]:
    """The arguments as bytes, and the futures that the call waits for.

    Where they take more than travels well, large ones of them are put into a store, each content once. Raises
    ArgumentsNotPicklable, which names the value that cannot be sent, or says how long they are, and ObjectLost.
    """
    short = dumps_short_entry(args, kwargs)
    if short is not None:
        return short
    try:
        return _through_store(objects, args, kwargs, is_keyed)
    except NotStored as error:
        try:
            return dumps_entry(args, kwargs)
        except ArgumentsNotPicklable as too_long:
            raise ArgumentsNotPicklable(f"{too_long}. Not put into a store: {error}") from error


def _through_store(
    objects: Objects, args: tuple[Any, ...], kwargs: dict[str, Any], is_keyed: bool
) -> tuple[bytes, list[Future[Any]]]:
    within: list[Future[Any]] = []

    def sent(value: Any, path: str) -> Any:
        packed, futures = dumps_value(value, path)
        if packed.size <= limits.LARGE_BYTES:
            return value
        within.extend(futures)
        return objects.put_once(packed, is_keyed)

    args = tuple(sent(arg, f"args[{at}]") for at, arg in enumerate(args))
    kwargs = {name: sent(arg, f"kwargs[{name!r}]") for name, arg in kwargs.items()}
    data, found = dumps_entry(args, kwargs)
    return data, found + within
