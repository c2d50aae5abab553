"""An executor whose calls are tasks of an open job: on a cluster of its own, or on any server."""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from . import _limits as limits
from . import _options, validation
from ._arguments import entry_of
from ._base import StaysHere
from ._errors import HqError
from ._future import Future, fail
from ._job_options import JobOptions, of_new_jobs, opened
from ._lending import is_in_call
from ._map import Blocks, all_blocks, in_order
from ._native_types import open_calls
from ._objects import Ref
from ._pickling import Code, Codes, Setup, name_of
from ._results import Results
from ._session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from datetime import timedelta

    from ._guest import Guest
    from ._native_types import Calls
    from ._options import ExecutorOptions, PythonEnv, TaskOptions, Unpack

P = ParamSpec("P")
T = TypeVar("T")


class HasServerDir(Protocol):
    """A cluster or a client: something that knows the directory of its server."""

    @property
    def server_dir(self) -> Any: ...


class Executor(StaysHere, concurrent.futures.Executor):
    """Calls functions on workers; takes the place of `ProcessPoolExecutor`.

    `Executor(5)` has a private cluster on this machine with 5 slots, which ends with it. `cluster` names another one: a
    `LocalCluster`, a `Client`, or a server directory. `name` is the name of the job, `job` the number of an open job to
    add to instead. `initializer` is called once by each interpreter. `echo` repeats here what calls print; it is on for
    private clusters and in notebooks. `on_finish`, `on_failure`, `on_stall`, `notify` and `stall_after` say who is told of
    the job, and `budget` how many node hours its calls may use, as `JobOptions` has them. `linger` is how long a job that this program leaves without a word, as one that is
    killed, stays open for whoever comes back, when its calls have ended; None for ever. All other keywords are options of the calls, as in `options`: among them `env`, a
    `PythonEnv` that says which interpreters are started.
    """

    _instead = "an executor stays in its process; within a call, headquarters.current() is one on the same server"

    # Within a call: the session, which serves the next call of this interpreter as well.
    _lasting: Guest | None = None
    # The same one without the priority that comes from where the call stands: a key means the same anywhere.
    _unranked: Executor | None = None

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        cluster: HasServerDir | str | os.PathLike[str] | None = None,
        name: str | None = None,
        job: int | None = None,
        max_fails: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        echo: bool | None = None,
        linger: float | str | timedelta | None = limits.LINGER,
        **options: Unpack[ExecutorOptions],
    ) -> None:
        if max_workers is not None:
            validation.whole("max_workers", max_workers, 1)
        if max_workers is not None and cluster is not None:
            raise TypeError("max_workers is the size of a private cluster; a given cluster has its size already")
        if initializer is not None and not callable(initializer):
            raise validation.wrong("initializer", initializer, "it cannot be called; give a function")
        if not isinstance(initargs, (tuple, list)):
            raise validation.wrong("initargs", initargs, "give a tuple of arguments, as in (1,)")
        if echo is not None:
            validation.flag("echo", echo)
        server_dir = None if cluster is None else validation.path("the server_dir of cluster", getattr(cluster, "server_dir", cluster))
        job = None if job is None else validation.whole("job", job)
        of_job, of_calls = _divided(options)
        if job is not None:
            of_new_jobs(of_job)
        opening = opened("executor" if name is None else name, max_fails, of_job, linger)
        self._options = _options.merged({}, of_calls)
        self._json = _options.to_json(self._options)
        self._initializer = None if initializer is None else (initializer, tuple(initargs))
        self._codes_of: dict[Any, Codes] = {}
        self._templates: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._parent: Executor | None = None
        own = _private_cluster(max_workers) if cluster is None else None
        place: Any = own if cluster is None else cluster
        try:
            self._server_dir = server_dir or place.server_dir
            calls = self._opened(opening, job)
        except BaseException:
            if own is not None:
                own.stop()
            raise
        is_echoed = (own is not None or hasattr(sys, "ps1")) if echo is None else echo
        self._session = (Session if job is None else _guest())(
            calls,
            owns_job=job is None,
            cluster=place,
            echo=is_echoed,
            on_end=None if own is None else lambda: own.stopped or own.stop(),
        )
        self._session.lingers = linger is not None
        self._end = weakref.finalize(self, self._session.shutdown, False, False)
        self._end.atexit = False
        try:
            self._enter_environment()
        except BaseException:
            self._session.shutdown(True, True)
            raise

    def _opened(self, opening: str, job: int | None) -> Calls:
        return open_calls(self._server_dir, opening, job=job)

    @property
    def job_id(self) -> int:
        """The job whose tasks the calls are."""
        return self._session.job

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls `fn(*args, **kwargs)` on a worker. Futures anywhere in the arguments stand for their values."""
        if not callable(fn):
            validation.function("the first argument of submit", fn)
        try:
            code = self._codes.of(fn)
            entry, futures = entry_of(self._session.objects, args, kwargs)
        except HqError as error:
            return self._unsent(fn, error)
        deps = (*code.futures, *futures) if futures or code.futures else None
        return self._session.submit(self._template, code, entry, deps)

    def submit_named(self, key: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `submit`, once for each key of this executor's job: again, it gives the call that is there."""
        validation.function("the function of submit_named", fn)
        validation.text("the key of submit_named", key)
        try:
            code = self._codes.of(fn)
            entry, futures = entry_of(self._session.objects, args, kwargs, is_keyed=True)
        except HqError as error:
            return self._unsent(fn, error)
        template = (self._unranked or self)._template
        return self._session.submit_named(key, template, code, entry, (*code.futures, *futures) or None)

    def put(self, value: T) -> Ref[T]:
        """Puts a value into the store of a worker, for the calls that take it; once, however many these are.

        Raises NotStored where there is no store with room for it.
        """
        self._session.check_open()
        return Ref(self._session.objects.put(value))

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """The values of `fn` for the elements of `iterables`, in their order.

        Each element is a task of its own; `chunksize` says only how many travel together. With `buffersize`, at most so
        many elements are taken before their values are. After `timeout` seconds from now, TimeoutError is raised.
        """
        validation.function("the first argument of map", fn)
        if chunksize is not None:
            validation.whole("chunksize", chunksize, 1)
        if buffersize is not None:
            validation.whole("buffersize", buffersize, 1)
        columns = [validation.many(f"iterable {at} of map", column, "[1, 2]") for at, column in enumerate(iterables)]
        blocks = self._blocks(fn, zip(*columns), chunksize)
        return in_order(self._session, blocks, buffersize=buffersize, timeout=timeout)

    def starmap(self, fn: Callable[..., T], rows: Iterable[tuple[Any, ...]]) -> Results[T]:
        """Calls `fn(*row)` for each row. What comes back is one array, also of millions."""
        validation.function("the first argument of starmap", fn)
        return Results(self._session, all_blocks(self._blocks(fn, _rows(rows), None)))

    def options(self, **options: Unpack[TaskOptions]) -> Executor:
        """The same executor, for calls with these options: `ex.options(cpus=4, time_limit="10m").submit(f, x)`."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._parent = self
        view._options = _options.merged(self._options, options)
        view._json = _options.to_json(view._options)
        if self._unranked is not None:
            view._unranked = None if "priority" in options else self._unranked.options(**options)
        view._enter_environment()
        return view

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. With `wait`, returns when all have ended; `cancel_futures` cancels those not begun."""
        if self._lasting is not None:
            self._lasting.finish(wait, cancel_futures)
        else:
            self._session.shutdown(wait, cancel_futures)

    def __repr__(self) -> str:
        return f"<Executor: job {self.job_id}>"

    def _repr_html_(self) -> str:
        from ._notebook import of_executor

        return of_executor(self, self._server_dir)

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...

    else:

        def __enter__(self):
            _ENTERED.append(self)
            return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        if self in _ENTERED:
            _ENTERED.remove(self)
        if exc_type is not None and issubclass(exc_type, KeyboardInterrupt) and self._lasting is None:
            # Who interrupts does not want to wait for what runs.
            self._session.interrupt()
        self.shutdown()
        return None

    def _unsent(self, fn: Callable[..., Any], error: HqError) -> Future[Any]:
        self._session.check_open()
        future: Future[Any] = Future(self._session, None, name_of(fn), None)
        fail(future, error)
        return future

    def _submit_rows(self, fn: Callable[..., T], rows: Iterable[tuple[Any, ...]]) -> list[Future[T]]:
        # A call for each row, of a function that is pickled once, and never again. Raises what cannot be sent.
        self._session.check_open()
        code: Code = self._codes.once(fn)
        futures: list[Future[T]] = []
        for row in rows:
            entry, found = entry_of(self._session.objects, row, {})
            futures.append(self._session.submit(self._template, code, entry, (*code.futures, *found) or None))
        return futures

    def _blocks(self, fn: Callable[..., Any], rows: Iterable[tuple[Any, ...]], calls_max: int | None) -> Blocks:
        self._session.check_open()
        code: Code = self._codes.of(fn)
        return Blocks(self._session, self._template, code, rows, calls_max)

    def _enter_environment(self) -> None:
        env = self._options.get("env")
        interpreter = [sys.executable] if env is None else env.interpreter()
        variables = self._variables(env)
        loads = ((), ()) if env is None else (env.sys_path, env.preload)
        key = self._json, tuple(interpreter), tuple(variables)
        with self._lock:
            if loads not in self._codes_of:
                self._codes_of[loads] = Codes(Setup(*loads, self._initializer))
            if key not in self._templates:
                with validation.read_elsewhere():
                    self._templates[key] = self._session.template(self._json, variables, interpreter)
            self._codes, self._template = self._codes_of[loads], self._templates[key]


    def _variables(self, env: PythonEnv | None) -> list[tuple[str, str]]:
        given, is_fresh = self._options.get("variables", {}), self._options.get("fresh", False)
        if env is not None:
            return env.variables(is_fresh=is_fresh, given=given)
        if not (given or is_fresh):
            return []
        from ._environment import INHERITED, inherited, recycling

        variables: list[tuple[str, str]] = [(INHERITED, inherited(None, given))] if given else []
        return [*variables, recycling(1)] if is_fresh else variables


def _divided(options: ExecutorOptions) -> tuple[JobOptions, TaskOptions]:
    # What is said of the job, and of its calls.
    of_job = {word: value for word, value in options.items() if word in JobOptions.__annotations__}
    of_calls = {word: value for word, value in options.items() if word not in of_job}
    return cast("JobOptions", of_job), cast("TaskOptions", of_calls)


def _rows(rows: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    for at, row in enumerate(validation.many("rows", rows, "[(1, 2), (3, 4)]")):
        if not isinstance(row, Iterable):
            raise validation.wrong(f"row {at} of starmap", row, "give a tuple of arguments, or use map for single ones")
        yield tuple(row)


_ENTERED: list[Executor] = []
_DEFAULT_LOCK = threading.Lock()
_default: Executor | None = None
_WITHIN: dict[tuple[str, int], Executor] = {}
_OTHERS: dict[int, Executor] = {}
_PRIORITY_MAX = 2**31 - 1


def current() -> Executor:
    """The executor of the innermost `with` block; without one, an executor of this process, made at the first call: on the server
    of `HQ_SERVER_DIR` as a job of its own, else with a private cluster. It ends with the process.

    Within a call it is an executor of the job that the call is of, as long as that is open; what it calls goes before what
    waits beside the call.
    """
    global _default
    if _ENTERED:
        return _ENTERED[-1]
    if is_in_call():
        within = _within_a_call()
        if within is not None:
            return within
    with _DEFAULT_LOCK:
        if _default is None or _default._session.is_forked:
            _default = Executor(cluster=os.environ.get("HQ_SERVER_DIR"))
        return _default


class _ClosedError(Exception):
    """The job of a call takes no calls any more."""


class _OfACall(Executor):
    # In the job of a call. Without loading what programs use beside it: this happens once in each interpreter.

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._session.is_within = True
        self._lasting = cast("Guest", self._session)

    def _opened(self, opening: str, job: int | None) -> Calls:
        calls = super()._opened(opening, job)
        if not calls.is_open():
            raise _ClosedError
        return calls


def _within_a_call() -> Executor | None:
    server_dir, job = os.environ.get("HQ_SERVER_DIR"), os.environ.get("HQ_JOB_ID")
    if server_dir is None or job is None:
        return None
    try:
        priority = min(int(os.environ.get("HQ_PRIORITY", "0")) + 1, _PRIORITY_MAX)
    except ValueError:
        priority = 1
    with _DEFAULT_LOCK:
        made = _WITHIN.get((job, priority))
        if made is None:
            # All calls of an interpreter are of one job.
            first = next((one for (of, _), one in _WITHIN.items() if of == job), None)
            if first is None:
                from ._environment import of_this_call

                env, variables = of_this_call()
                try:
                    first = _OfACall(cluster=server_dir, job=int(job), env=env)
                except _ClosedError:
                    return None
                if variables:
                    first = first.options(variables=variables)
            made = first.options(priority=priority)
            made._unranked = first
            _WITHIN[job, priority] = made
        return made


def within(server_dir: str, job: int) -> Session:
    """Within a call: the session in a job, its own or that of a value among its arguments."""
    own = _within_a_call() if os.environ.get("HQ_JOB_ID") == str(job) else None
    if own is not None:
        return own._session
    with _DEFAULT_LOCK:
        made = _OTHERS.get(job)
        if made is None:
            made = _OTHERS[job] = Executor(cluster=server_dir, job=job)
            made._session.is_within = True
        return made._session


def _guest() -> type[Session]:
    from ._guest import Guest

    return Guest


def _private_cluster(slots: int | None) -> Any:
    import importlib

    module: Any = importlib.import_module("headquarters.cluster")
    return module.LocalCluster() if slots is None else module.LocalCluster(cpus=slots)
