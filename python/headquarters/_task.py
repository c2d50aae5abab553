"""A function that knows what its calls need: a plain call stays here, `submit` and `map` go to an executor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from . import _options
from ._executor import Executor, current
from .validation import wrong

if TYPE_CHECKING:
    from ._future import Future
    from ._options import TaskOptions, Unpack
    from ._results import Results

P = ParamSpec("P")
T = TypeVar("T")


class Task(Generic[P, T]):
    """What `task` makes of a function."""

    def __init__(self, function: Callable[P, T], options: TaskOptions, executor: Executor | None = None) -> None:
        self._function = function
        self._options = options
        self._executor = executor
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls it on a worker."""
        return self._view().submit(self._function, *args, **kwargs)

    def map(
        self,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """As `Executor.map`."""
        view = self._view()
        return view.map(self._function, *iterables, timeout=timeout, chunksize=chunksize, buffersize=buffersize)

    def starmap(self, rows: Iterable[tuple[Any, ...]]) -> Results[T]:
        """As `Executor.starmap`."""
        return self._view().starmap(self._function, rows)

    def options(self, **options: Unpack[TaskOptions]) -> Task[P, T]:
        """The same function with further options."""
        return Task(self._function, _options.merged(self._options, options), self._executor)

    def on(self, executor: Executor) -> Task[P, T]:
        """The same function for calls on this executor, instead of on the innermost that was entered by `with`."""
        return Task(self._function, self._options, executor)

    def __reduce__(self) -> Any:
        # In a module the name of the function is this object.
        return (self.__qualname__ if _is_found(self) else (_remade, (self._function, dict(self._options))))

    def _view(self) -> Executor:
        executor = self._executor or current()
        return executor.options(**self._options) if self._options else executor

    __qualname__: str


def _remade(function: Callable[P, T], options: TaskOptions) -> Task[P, T]:
    return Task(function, options)


def _is_found(task: Task[..., Any]) -> bool:
    from ._fingerprint import by_reference

    return by_reference(task)


@overload
def task(function: Callable[P, T], /) -> Task[P, T]: ...
@overload
def task(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, T]], Task[P, T]]: ...
def task(function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
    """Makes a function a task: `@task` or `@task(cpus=4, time_limit="2h")`."""
    merged = _options.merged({}, options)
    if function is not None and not callable(function):
        raise wrong("the function of task", function, "it cannot be called; write @task or @task(cpus=2) above a function")
    if function is not None:
        return Task(function, merged)
    return lambda decorated: Task(decorated, merged)
