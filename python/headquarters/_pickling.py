"""Calls as bytes: functions, arguments, and what comes back.

Arguments are pickled by the pickle of the standard library; cloudpickle is imported only where that fails, or where
something of `__main__` would have to be found by name. A future in the arguments is a reference to its call.
"""

from __future__ import annotations

import functools
import operator
import os
import pickle
import sys
import sysconfig
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _limits as limits
from . import _values
from ._base import StaysHere
from ._errors import ArgumentsNotPicklable, ObjectLost
from ._fingerprint import Fingerprint, by_reference, fingerprint
from ._probe import LOADING, Evaluated
from .validation import wrong

if TYPE_CHECKING:
    from ._future import Future

_dumps = pickle.dumps
# Values of these are pickled as they are, and nothing of ours is in them.
_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
# What an argument raises while it is pickled is of the call, also when it would end the program.
_ANY = (Exception, SystemExit, GeneratorExit)


class _Collecting(threading.local):
    # The futures met while something is pickled; None while nothing of ours is.
    futures: list[Future[Any]] | None = None


collecting = _Collecting()
resolve: Callable[[int, int], Any] | None = None
"""What gives the value of a reference in this process; in a process that only submits there is none."""


def _ref(job: int, task: int) -> Any:
    if resolve is None:
        raise LookupError(f"the value of task {job}@{task} is known to the runner only")
    return resolve(job, task)


def _lazy(job: int, task: int) -> Any:
    # Where there are no handles, the value itself.
    return _ref(job, task)


def _stand_in() -> types.ModuleType:
    # In a runner there is a module of this name, whose functions give values and handles of them.
    module = types.ModuleType("_hq_runner", "References to the values of other calls.")
    for name, function in (("ref", _ref), ("lazy", _lazy)):
        function.__module__, function.__name__, function.__qualname__ = "_hq_runner", name, name
        setattr(module, name, function)
    return module


sys.modules.setdefault("_hq_runner", _stand_in())


def ref(job: int, task: int) -> tuple[Callable[[int, int], Any], tuple[int, int]]:
    """What pickle is told of a reference to a call, which becomes its value among the arguments of another one."""
    # What is there now: this module may have been loaded before its interpreter became a runner.
    return sys.modules["_hq_runner"].ref, (job, task)


def lazy(job: int, task: int) -> tuple[Callable[[int, int], Any], tuple[int, int]]:
    """As `ref`; it becomes a handle, which gives the value when it is asked."""
    return sys.modules["_hq_runner"].lazy, (job, task)


def itself(value: Any) -> tuple[Any, ...]:
    """What pickle is told of something that travels as this value, also to interpreters without this package."""
    return operator.getitem, ([value], 0)


class Code:
    """A function as bytes, with the futures that are in it."""

    __slots__ = ("data", "fingerprint", "futures", "name")

    def __init__(self, name: str, data: bytes, futures: tuple[Future[Any], ...]) -> None:
        self.name = name
        self.data = data
        self.futures = futures
        self.fingerprint: Fingerprint | None = None


class Setup(NamedTuple):
    """What each interpreter does before its first call: it puts directories in front, imports modules, and calls the
    initializer with its arguments."""

    sys_path: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    initializer: tuple[Callable[..., object], tuple[Any, ...]] | None = None

    def __bool__(self) -> bool:
        return bool(self.sys_path or self.preload or self.initializer)


class Codes:
    """The functions that were pickled, each once as long as it would give the same bytes."""

    def __init__(self, setup: Setup = Setup()) -> None:
        self._known: dict[Any, Code] = {}
        self._by_data: dict[bytes, Code] = {}
        self._setup = setup

    def of(self, function: Callable[..., Any]) -> Code:
        """Raises ArgumentsNotPicklable if it cannot be sent."""
        try:
            code = self._known.get(function)
        except TypeError:
            return self._pickled(function)
        if code is not None and code.fingerprint is not None and code.fingerprint.holds():
            return code
        code = self._pickled(function)
        if code.fingerprint is not None:
            self._make_room(self._known)
            self._known[function] = code
        return code

    def _pickled(self, function: Callable[..., Any]) -> Code:
        # Before the pickle: what changes meanwhile is noticed by the next call.
        mark = _mark(function)
        made = self.once(function)
        code = self._by_data.get(made.data)
        if code is None or code.futures != made.futures:
            code = made
            self._make_room(self._by_data)
            self._by_data[code.data] = code
        code.fingerprint = mark
        return code

    def once(self, function: Callable[..., Any]) -> Code:
        """As `of`, for a function that is not met again: nothing of it is kept."""
        data, futures, is_by_value = dumps_function(function)
        if self._setup:
            data, more, setup_is_by_value = _with_setup(self._setup, data)
            futures, is_by_value = futures + more, is_by_value or setup_is_by_value
        python = (sys.version_info[0], sys.version_info[1]) if is_by_value else None
        whole = _dumps((python, cloudpickle_dir(), _paths(function), data), 4)
        name = name_of(function)
        if len(whole) > limits.CODE_BYTES_MAX:
            raise ArgumentsNotPicklable(
                f"{name} with what it refers to is {len(whole)} bytes long, more than {limits.CODE_BYTES_MAX}: "
                "give large values as arguments, or let it read them from a file",
                "function",
            )
        return Code(name, whole, futures)

    @staticmethod
    def _make_room(known: dict[Any, Code]) -> None:
        if len(known) >= limits.CODES_MAX:
            for key in list(known)[: limits.CODES_MAX // 2]:
                known.pop(key, None)


def name_of(function: Any) -> str:
    """What a call of a function is called."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    shown = "".join(one if one.isprintable() else "?" for one in name)
    return shown.encode()[: limits.NAME_BYTES_MAX].decode(errors="ignore")


def _mark(function: Callable[..., Any]) -> Fingerprint | None:
    if isinstance(function, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        # As `int.__add__`.
        owner = function.__objclass__
        return Fingerprint() if by_reference(owner) and getattr(owner, function.__name__, None) is function else None
    if isinstance(function, (type, types.BuiltinFunctionType)):
        return Fingerprint() if by_reference(function) else None
    return fingerprint(function)


def dumps_function(function: Any) -> tuple[bytes, tuple[Future[Any], ...], bool]:
    """The pickle of a function, the futures in it, and whether it is there by value."""
    found: list[Future[Any]] = []
    collecting.futures = found
    try:
        if not _by_value_modules():
            try:
                data = _dumps(function, 5)
                if b"__main__" not in data:
                    return data, tuple(found), False
            except _ANY:
                pass
            found.clear()
        return _cloudpickle().dumps(function, 5), tuple(found), True
    except _ANY as error:
        raise _not_picklable(function, "function", error) from error
    finally:
        collecting.futures = None


def dumps_entry(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, list[Future[Any]]]:
    """The arguments of a call, and the futures that are in them.

    Raises ArgumentsNotPicklable, which names the value that cannot be sent, or says how long they are.
    """
    data, found = _collected((args, kwargs), None, "")
    if len(data) > limits.ENTRY_BYTES_MAX:
        raise ArgumentsNotPicklable(
            f"the arguments are {len(data)} bytes long, more than {limits.ENTRY_BYTES_MAX}: "
            "write large values to a file, and give its path"
        )
    return data, found


def dumps_short_entry(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, list[Future[Any]]] | None:
    """As `dumps_entry`; None when they are so long that large ones go to a store."""
    if not kwargs and _PLAIN.issuperset(map(type, args)):
        data = _dumps((args, kwargs), 5)
        if len(data) <= limits.ARGUMENTS_BYTES:
            return data, []
    large: list[memoryview] = []
    data, found = _collected((args, kwargs), _values.beside(large, limits.LARGE_BYTES), "")
    if large and len(data) + sum(map(len, large)) <= limits.ARGUMENTS_BYTES:
        data, found = _collected((args, kwargs), None, "")
        large.clear()
    return None if large or len(data) > limits.ARGUMENTS_BYTES else (data, found)


def dumps_value(value: Any, start: str = "the value") -> tuple[_values.Packed, list[Future[Any]]]:
    """A value with its buffers beside it, and the futures that are in it. Raises ArgumentsNotPicklable, which names what in
    `start` cannot be sent."""
    buffers: list[memoryview] = []
    data, found = _collected(value, _values.beside(buffers, limits.BESIDE_BYTES), start, buffers)
    return _values.Packed(data, buffers), found


def _collected(
    value: Any, beside: Any, start: str, buffers: list[memoryview] | None = None
) -> tuple[bytes, list[Future[Any]]]:
    # The pickle, and the futures in it. `beside` is asked what becomes of buffers.
    found: list[Future[Any]] = []
    collecting.futures = found
    try:
        try:
            data = _dumps(value, 5, buffer_callback=beside)
        except _ANY:
            data = b""
        if not data or b"__main__" in data:
            found.clear()
            if buffers is not None:
                buffers.clear()
            try:
                data = _cloudpickle().dumps(value, 5, buffer_callback=beside)
            except _ANY as error:
                raise _not_picklable(value, start, error) from error
    finally:
        collecting.futures = None
    return data, found


def loads(data: bytes) -> Any:
    """The value of a pickle that a runner has made."""
    return pickle.loads(data)


def by_value(module: types.ModuleType) -> None:
    """Sends functions of this module as they are, to workers that cannot import it."""
    if not isinstance(module, types.ModuleType):
        raise wrong("the module of by_value", module, "give the module itself, as in: import mine; by_value(mine)")
    _cloudpickle().register_pickle_by_value(module)


def _cloudpickle() -> Any:
    import cloudpickle  # type: ignore[import-untyped, unused-ignore]

    return cloudpickle


def _by_value_modules() -> bool:
    module = sys.modules.get("cloudpickle")
    return module is not None and bool(module.list_registry_pickle_by_value())


_cloudpickle_dir: str | None = None


def cloudpickle_dir() -> str:
    """Where the cloudpickle of this interpreter is, found without importing it; empty if there is none."""
    global _cloudpickle_dir
    if _cloudpickle_dir is None:
        from importlib.util import find_spec

        spec = find_spec("cloudpickle")
        _cloudpickle_dir = os.path.dirname(spec.origin) if spec and spec.origin else ""
    return _cloudpickle_dir


@functools.cache
def _installed() -> frozenset[str | None]:
    # Where every interpreter looks by itself. To ask that takes longer than many a call.
    return frozenset(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def script_paths() -> list[str]:
    """Where interpreters have to look for modules of this program: beside the script, and here."""
    paths: list[str] = []
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main:
        paths.append(os.path.dirname(os.path.abspath(main)))
    try:
        paths.append(os.getcwd())
    except FileNotFoundError:
        pass
    return paths


def _paths(function: Any) -> list[str]:
    # There, and where the function's own module was found.
    paths = script_paths()
    package = (getattr(function, "__module__", None) or "").partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None)
    if file:
        place = os.path.dirname(os.path.abspath(file))
        if os.path.basename(file) == "__init__.py":
            place = os.path.dirname(place)
        if place not in _installed() and "site-packages" not in place:
            paths.append(place)
    return list(dict.fromkeys(paths))


_WRAPPER = """
def make(key, sys_path, preload, initializer, function, state):
    import pickle, sys
    done = sys.__dict__.setdefault("_hq_initialized", {})
    class InitializerFailed(RuntimeError):
        pass
    InitializerFailed.__module__ = "headquarters"
    InitializerFailed.__qualname__ = "InitializerFailed"
    def set_up():
        put_in_front(sys_path)
        failed = load(preload)
        if failed is None and initializer is not None:
            try:
                start, start_args = pickle.loads(initializer)
                start(*start_args)
            except KeyboardInterrupt:
                # It is the call that is ended: the next one begins anew.
                raise
            except BaseException as error:
                failed = "the initializer failed: %s: %s" % (type(error).__name__, error), error
        return failed
    def call(*args, **kwargs):
        if key not in done:
            failed = set_up()
            done[key] = failed and failed[0]
            if failed is not None:
                raise InitializerFailed(failed[0]) from failed[1]
        if done[key] is not None:
            raise InitializerFailed(done[key])
        if not state:
            state.append(pickle.loads(function))
            # What that has changed is not of the call, and stays.
            getattr(sys.modules.get("_hq_runner"), "has_loaded", lambda: None)()
        return state[0](*args, **kwargs)
    return call
"""


def _with_setup(setup: Setup, function: bytes) -> tuple[bytes, tuple[Future[Any], ...], bool]:
    import hashlib

    data, futures, is_by_value = dumps_function(setup.initializer) if setup.initializer else (None, (), False)
    values = {"sys_path": setup.sys_path, "preload": setup.preload, "initializer": data}
    key = hashlib.sha256(_dumps(values, 4)).hexdigest()
    arguments = "key, sys_path, preload, initializer, function, []"
    wrapped = Evaluated(LOADING + _WRAPPER, f"made['make']({arguments})", key=key, function=function, **values)
    return _dumps(wrapped, 4), futures, is_by_value


def _not_picklable(value: Any, start: str, error: BaseException) -> ArgumentsNotPicklable | ObjectLost:
    path, reason = _Search(error).run(value, start)
    if len(path) > limits.PATH_CHARS_MAX:
        path = f"{path[: limits.PATH_CHARS_MAX // 2]} ... {path[-limits.PATH_CHARS_MAX // 2 :]}"
    if isinstance(reason, ObjectLost):
        return ObjectLost(f"{path or 'an argument'}: {reason}")
    return ArgumentsNotPicklable(f"{path or 'the arguments'} cannot be sent: {type(reason).__name__}: {reason}", path)


class _Search:
    # Goes down to the innermost value that cannot be pickled.
    def __init__(self, error: BaseException) -> None:
        self._reason = error
        self._steps = 0
        self._seen: set[int] = set()

    def run(self, value: Any, start: str) -> tuple[str, BaseException]:
        if not start:
            args, kwargs = value
            parts = [(f"args[{i}]", arg) for i, arg in enumerate(args)]
            parts += [(f"kwargs[{name!r}]", arg) for name, arg in kwargs.items()]
            for path, part in parts:
                if self._fails(part):
                    return self._down(path, part), self._reason
            return "", self._reason
        return self._down(start, value), self._reason

    def _fails(self, value: Any) -> bool:
        self._steps += 1
        if self._steps > limits.SEARCH_STEPS_MAX:
            return False
        try:
            _cloudpickle().dumps(value, 5)
        except _ANY as error:
            self._reason = error
            return True
        return False

    def _down(self, path: str, value: Any) -> str:
        while id(value) not in self._seen:
            self._seen.add(id(value))
            reason = self._reason
            for step, part in _parts(value):
                if id(part) not in self._seen and self._fails(part):
                    path, value = path + step, part
                    break
            else:
                self._reason = reason
                return path
        return path


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, StaysHere):
        # What is in it is no matter of who has it.
        return []
    if isinstance(value, (list, tuple)):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, dict):
        keys = [(f".keys()[{i}]", key) for i, key in enumerate(value)]
        return [(f"[{key!r}]", part) for key, part in value.items()] + keys
    if isinstance(value, (set, frozenset)):
        return [(f"{{{part!r}}}", part) for part in value]
    parts: list[tuple[str, Any]] = []
    if isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            try:
                parts.append((f".<{name}>", cell.cell_contents))
            except ValueError:
                continue
        parts += [
            (f".<{name}>", value.__globals__[name]) for name in value.__code__.co_names if name in value.__globals__
        ]
        return parts
    if isinstance(value, types.MethodType):
        return [(".__self__", value.__self__)]
    if hasattr(value, "func") and hasattr(value, "keywords"):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    for name in dict.fromkeys([*getattr(value, "__dict__", {}), *_slots(type(value))]):
        if hasattr(value, name):
            parts.append((f".{name}", getattr(value, name)))
    return parts


def _slots(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if not name.startswith("__")]
