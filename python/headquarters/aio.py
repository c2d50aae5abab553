"""The executor for programs with asyncio: what blocks there is awaited here.

Ends reach the loop in batches: one wake-up for all that ended meanwhile.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from . import _executor
from ._lending import is_in_call, while_waiting
from ._waiting import gather as _gather

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from . import cluster as _cluster
    from ._future import Future as _Future
    from ._objects import Ref as _Ref
    from ._options import TaskOptions, Unpack
    from ._results import Results

P = ParamSpec("P")
T = TypeVar("T")


class Future(Generic[T]):
    """A call that can be awaited, any number of times. `future` is the one for threads, with all else it knows."""

    def __init__(self, future: _Future[T]) -> None:
        self.future = future

    def __await__(self) -> Generator[Any, None, T]:
        if not self.future.done():
            with _Calls.of_this_loop():
                yield from _ended(self.future).__await__()
        value = self.future._value
        if value is not None and not value.is_here():
            # It comes from a store, and may take a while.
            yield from asyncio.to_thread(value.get).__await__()
        return self.future.result()

    @property
    def task(self) -> str:
        """How the command line names it."""
        return self.future.task

    def done(self) -> bool:
        """True if it has ended, in any way."""
        return self.future.done()

    async def stored(self) -> Ref[T]:
        """As `Future.stored`."""
        if not self.future.done():
            with _Calls.of_this_loop():
                await _ended(self.future)
        return Ref(self.future.stored())

    async def cancel(self) -> bool:
        """As `Future.cancel`."""
        return await asyncio.to_thread(self.future.cancel)

    async def kill(self) -> None:
        """As `Future.kill`."""
        await asyncio.to_thread(self.future.kill)

    def __repr__(self) -> str:
        return repr(self.future)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Among arguments it is what its future is there.
        return self.future.__reduce_ex__(protocol)

    def _hq_returned(self) -> tuple[int, int]:
        return self.future._hq_returned()


class Ref(Generic[T]):
    """A value in the stores of workers, for whose bytes nobody blocks. `ref` is the one for threads."""

    def __init__(self, ref: _Ref[T]) -> None:
        self.ref = ref

    async def get(self, writable: bool = True) -> T:
        """As `Ref.get`. Under `asyncio.timeout` it goes on to come, for who asks again."""
        if self.ref._value.is_here(writable):
            return self.ref.get(writable)
        return await asyncio.to_thread(self.ref.get, writable)

    @property
    def nbytes(self) -> int:
        """Its size in a store."""
        return self.ref.nbytes

    @property
    def task(self) -> str:
        """How the command line names it."""
        return self.ref.task

    async def where(self) -> dict[str, Any]:
        """As `Ref.where`."""
        return await asyncio.to_thread(self.ref.where)

    async def keep(self) -> Ref[T]:
        """As `Ref.keep`."""
        await asyncio.to_thread(self.ref.keep)
        return self

    async def drop(self) -> None:
        """As `Ref.drop`."""
        await asyncio.to_thread(self.ref.drop)

    def __repr__(self) -> str:
        return repr(self.ref)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Among arguments it is what its future is there.
        return self.ref.__reduce_ex__(protocol)


class Executor:
    """The async twin of `Executor`, with the same arguments; `of` makes one of an executor that is there."""

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        self._make: Callable[[], _executor.Executor] | None = functools.partial(
            _executor.Executor, max_workers, **options
        )
        self._made: _executor.Executor | None = None

    @classmethod
    def of(cls, executor: _executor.Executor) -> Self:
        """The async twin of an executor."""
        twin = cls.__new__(cls)
        twin._make, twin._made = None, executor
        return twin

    @property
    def executor(self) -> _executor.Executor:
        """The executor for threads; made when it is first needed, which blocks unless `async with` has made it."""
        if self._made is None:
            assert self._make is not None, "it is made once"
            self._made = self._make()
        return self._made

    async def __aenter__(self) -> Self:
        if self._made is None:
            assert self._make is not None, "it is made once"
            self._made = await asyncio.to_thread(self._make)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        # Who is canceled or fails in the block does not wait for calls that nobody has begun.
        await self.shutdown(cancel_futures=exc_type is not None)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `Executor.submit`. Large arguments are put into a store before it returns: `await put(...)` does not block."""
        return Future(self.executor.submit(fn, *args, **kwargs))

    async def put(self, value: T) -> Ref[T]:
        """As `Executor.put`."""
        return Ref(await asyncio.to_thread(self.executor.put, value))

    async def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], chunksize: int | None = None, buffersize: int = 10_000
    ) -> AsyncIterator[T]:
        """The values in the order of the elements, of which at most `buffersize` are taken ahead."""
        values = self.executor.map(fn, *iterables, chunksize=chunksize, buffersize=buffersize)
        done = object()
        try:
            while (value := await asyncio.to_thread(next, values, done)) is not done:
                yield value  # type: ignore[misc]
        finally:
            await asyncio.to_thread(values.close)  # type: ignore[attr-defined]

    async def starmap(self, fn: Callable[..., T], rows: Iterable[tuple[Any, ...]]) -> Results[T]:
        """As `Executor.starmap`; returns when all have ended."""
        results = await asyncio.to_thread(self.executor.starmap, fn, rows)
        await asyncio.to_thread(results.wait)
        return results

    def options(self, **options: Unpack[TaskOptions]) -> Executor:
        """As `Executor.options`."""
        return Executor.of(self.executor.options(**options))

    def as_completed(self, fs: Iterable[Future[Any]]) -> AsyncIterator[Future[Any]]:
        """The futures in the order in which they end."""
        return as_completed(fs)

    async def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `Executor.shutdown`."""
        if self._made is not None:
            await asyncio.to_thread(self._made.shutdown, wait, cancel_futures=cancel_futures)


class LocalCluster:
    """The async twin of `LocalCluster`, with the same arguments, for `async with`; all else is asked of `cluster`."""

    def __init__(self, server_dir: _cluster.GenericPath | None = None, **options: Any) -> None:
        self._arguments = server_dir, options
        self._made: _cluster.LocalCluster | None = None

    @property
    def cluster(self) -> _cluster.LocalCluster:
        """The cluster for threads; made when it is first needed, which blocks unless `async with` has made it."""
        if self._made is None:
            from .cluster import LocalCluster

            server_dir, options = self._arguments
            self._made = LocalCluster(server_dir, **options)
        return self._made

    @property
    def server_dir(self) -> str:
        """Directory of the server."""
        return self.cluster.server_dir

    def executor(self, **options: Any) -> Executor:
        """An executor whose calls run in this cluster, for `async with`."""
        return Executor(cluster=self.cluster, **options)

    async def wait_for_workers(self, count: int = 1, timeout: float | None = None) -> None:
        """As `LocalCluster.wait_for_workers`."""
        await asyncio.to_thread(self.cluster.wait_for_workers, count, timeout)

    async def stop(self) -> None:
        """As `LocalCluster.stop`."""
        await asyncio.to_thread(self.cluster.stop)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(lambda: self.cluster)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.cluster.__exit__, exc_type, exc_val, exc_tb)

    def __repr__(self) -> str:
        return repr(self._made) if self._made is not None else "<LocalCluster that is not started>"


async def as_completed(fs: Iterable[Future[Any]]) -> AsyncIterator[Future[Any]]:
    """The futures in the order in which they end."""
    ended: asyncio.Queue[Future[Any]] = asyncio.Queue()
    calls = _Calls.of_this_loop()
    left = 0
    for future in fs:
        left += 1
        put = functools.partial(ended.put_nowait, future)
        future.future.add_done_callback(functools.partial(calls.soon, put))
    for _ in range(left):
        with _Calls.of_this_loop():
            one = await ended.get()
        yield one


async def get(refs: Iterable[Ref[T] | Future[T]], writable: bool = True) -> list[T]:
    """The values of many, in their order."""
    return [await (one.get(writable) if isinstance(one, Ref) else one) for one in refs]


async def gather(fs: Iterable[Future[T]], errors: Literal["raise", "return", "skip"] = "raise") -> list[Any]:
    """As `gather` of the package."""
    all_of_them = list(fs)
    for future in all_of_them:
        if not future.done():
            with _Calls.of_this_loop():
                await _ended(future.future)
    futures = [future.future for future in all_of_them]
    if any(future._value is not None for future in futures):
        return await asyncio.to_thread(lambda: _gather(futures, errors))
    return _gather(futures, errors)


def _ended(future: concurrent.futures.Future[Any]) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def stop(waiter: asyncio.Future[None]) -> None:
        # Who stops to await a call does not want it. The order goes to the server, which must not stop the loop.
        if waiter.cancelled() and not future.done():
            loop.run_in_executor(None, future.cancel)

    ended.add_done_callback(stop)
    future.add_done_callback(functools.partial(_Calls.of_this_loop().soon, end))
    return ended


def lend_for(future: _Future[Any]) -> None:
    """The loop that runs here lends the CPUs of its call while it is idle, until the future has ended."""
    calls = _Calls.of_this_loop()
    calls.__enter__()
    end = functools.partial(calls.soon, calls.leave)
    concurrent.futures.Future.add_done_callback(future, end)


class _Calls:
    # What a loop is to call, said by other threads. Entered by who awaits one of these: within a call, the loop lends the CPUs
    # of the call while it has nothing else to do.
    _of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Calls] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._queue: deque[Callable[[], None]] = deque()
        self._is_called = False
        self._awaited = 0
        if is_in_call():
            self._lend(loop)

    @classmethod
    def of_this_loop(cls) -> _Calls:
        loop = asyncio.get_running_loop()
        calls = cls._of.get(loop)
        if calls is None:
            calls = cls._of[loop] = cls(loop)
        return calls

    def __enter__(self) -> None:
        self._awaited += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        """One less is awaited."""
        self._awaited -= 1

    def _lend(self, loop: asyncio.AbstractEventLoop) -> None:
        # There is no other way to see that a loop is idle. One of another kind lends nothing.
        selector = getattr(loop, "_selector", None)
        select = getattr(selector, "select", None)
        if select is None:
            return

        def lending(timeout: float | None = None) -> Any:
            if not self._awaited or (timeout is not None and timeout <= 0):
                return select(timeout)
            with while_waiting():
                return select(timeout)

        selector.select = lending  # type: ignore[union-attr]

    def soon(self, function: Callable[[], None], _future: object) -> None:
        self._queue.append(function)
        loop = self._loop()
        if not self._is_called and loop is not None and not loop.is_closed():
            self._is_called = True
            loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        # Set first: what is queued from here on calls again.
        self._is_called = False
        while self._queue:
            self._queue.popleft()()
