"""Values that stay in the stores of workers: what a session has of them, and what a program holds of each.

A value is needed as long as its future or a `Ref` of it is, and as long as a call of this process waits that takes it. What is
needed no more is told to the server by a thread, many at once.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from . import _errors as errors
from . import _limits as limits
from . import _outcome, _pickling, _returned, _values, validation
from ._base import StaysHere
from ._lending import while_waiting
from ._native_types import FINISHED
from ._stores import VALUE, Named, NotThere, Stores

if TYPE_CHECKING:
    from ._future import Future
    from ._native_types import End, Store
    from ._session import Session

T = TypeVar("T")


class Value:
    """A value in a store. When the last reference to this goes, the value is needed no more."""

    __slots__ = (
        "__weakref__", "_file", "_loaded", "_lock", "_objects", "is_dropped", "is_held", "named", "nonce", "size", "within",
    )  # fmt: skip

    def __init__(self, objects: Objects, named: Named, size: int, nonce: bytes | None) -> None:
        self._objects = objects
        self.named = named
        self.size = size
        self.nonce = nonce
        self.is_dropped = False
        # It stays when this goes.
        self.is_held = False
        # Futures that stand in it for their values: these are needed as long as it is.
        self.within: tuple[Future[Any], ...] = ()
        self._file: int | None = None
        self._loaded: dict[bool, Any] = {}
        self._lock = threading.Lock()

    def is_here(self, writable: bool = True) -> bool:
        """True when it is loaded, and nothing is waited for."""
        return writable in self._loaded

    def get(self, writable: bool = True) -> Any:
        """The value: the same one each time. Raises ObjectLost when it cannot be had any more."""
        with self._lock:
            if writable not in self._loaded:
                self._loaded[writable] = self.load(writable)
            return self._loaded[writable]

    @property
    def is_of_the_past(self) -> bool:
        """True when its executor has ended: no call can take it from a store any more, and it may still be here."""
        return self._objects.is_closed and not self.is_dropped

    def check(self) -> None:
        """Raises ObjectLost when it is known that no call can take it any more."""
        self._objects.check(self)

    def load(self, writable: bool = True) -> Any:
        """The value, loaded once more."""
        if self._file is not None:
            return self._read(self._file, writable)
        file = self._objects.open(self)
        try:
            return self._read(file, writable)
        finally:
            os.close(file)

    def _read(self, file: int, writable: bool) -> Any:
        if not self.within:
            with _returned.to(self._objects._session):
                return _values.load(file, writable)
        known = {future.ref: future for future in self.within}
        return _values.load(file, writable, lambda job, task: known[job, task].result())

    def hold(self) -> bool:
        """Keeps its file, if that is on this machine; False if it is not."""
        if self._file is None and not self._loaded:
            with contextlib.suppress(Exception):
                self._file = self._objects.open_near(self)
        return self._file is not None

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)
        if not (self.is_held or self.is_dropped):
            self._objects.is_gone(self.named)


class Objects:
    """The values of a session, and its way to the stores."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._made: Stores | None = None
        self._lock = threading.Lock()
        # Held while arguments are put, which may take a while.
        self._putting = threading.Lock()
        self._values: weakref.WeakSet[Value] = weakref.WeakSet()
        # Of what calls took and others may take: the same content is put once.
        self._by_digest: weakref.WeakValueDictionary[str, Future[Any]] = weakref.WeakValueDictionary()
        self._last: Future[Any] | None = None
        # Of values that calls have returned within theirs.
        self._arrived: weakref.WeakValueDictionary[Named, Value] = weakref.WeakValueDictionary()
        # What this call has returned, and others own now.
        self._handed: set[Named] = set()
        # Threads and finalizers of all kinds put into it, which no lock of ours would allow.
        self._gone: queue.SimpleQueue[Named | None] = queue.SimpleQueue()
        self._releaser: threading.Thread | None = None
        self._is_closed = False

    @property
    def stores(self) -> Stores:
        """Where values are."""
        # In a process that was forked the lock may be held for ever.
        self._session._check()
        with self._lock:
            if self._made is None:
                self._made = Stores(self._session._calls.objects())
            return self._made

    @property
    def is_closed(self) -> bool:
        """True when the job has ended."""
        return self._is_closed

    # What calls left.

    def of_end(self, end: End) -> Value | None:
        """What a call has left in a store; None if its value travelled with its end."""
        if end[1] != FINISHED:
            return None
        found = _outcome.stored(end[2])
        return None if found is None else self._value(Named(self._session.job, end[0]), *found)

    def held_by(self, end: End) -> tuple[Any, ...]:
        """What is in the value of a call and belongs to who has that."""
        part = _outcome.held(end[2]) if end[1] == FINISHED else b""
        if not part or Named(self._session.job, end[0]) in self._handed:
            return ()
        return _returned.held(self._session, part)

    def arrived(self, named: Named, size: int, nonce: bytes, is_owned: bool) -> Future[Any]:
        """A future that has ended with a value which a call has returned within its own. Unless it is owned, somebody else
        has it, and it stays when this goes."""
        from ._future import given

        with self._lock:
            value = self._arrived.get(named)
        if value is None:
            value = self._value(named, size, nonce if any(nonce) else None)
            value.is_held = not is_owned
            with self._lock:
                self._arrived[named] = value
        elif is_owned:
            value.is_held = False
        return given(self._session, named.task, value)

    def hand_over(self, named: Named) -> None:
        """What the call of this process has made belongs to who gets what it returns."""
        self._handed.add(named)

    def _value(self, named: Named, size: int, nonce: bytes | None) -> Value:
        value = Value(self, named, size, nonce)
        with self._lock:
            self._values.add(value)
            if self._releaser is None and not self._session.is_forked:
                name = f"hq-release-{self._session.job}"
                self._releaser = threading.Thread(target=self._release, name=name, daemon=True)
                self._releaser.start()
        return value

    # Putting.

    def put(self, value: Any) -> Future[Any]:
        """Puts a value into a store, and gives a future that has ended with it."""
        packed, within = _pickling.dumps_value(value)
        made = self.put_packed(packed)
        value_of(made).within = tuple(within)
        return made

    def put_packed(self, packed: _values.Packed, name: str = VALUE) -> Future[Any]:
        """As `put`, for a value in bytes."""
        from ._future import given

        nonce = os.urandom(16)
        try:
            task = self._asked(lambda: self._put_somewhere(name, packed, nonce))
        except Exception as error:
            raise self._session._reason(error) from error
        value = self._value(Named(self._session.job, task, name), packed.size, nonce)
        return given(self._session, task, value)

    def _put_somewhere(self, name: str, packed: _values.Packed, nonce: bytes) -> int:
        stores = self._stores()
        try:
            return self.stores.put(self._session.job, name, packed, nonce, stores)
        except errors.NotStored:
            # Workers may have come and gone since they were asked for.
            fresh = self.stores.all(is_fresh=True)
            if {store["dir"] for store in fresh} == {store["dir"] for store in stores}:
                raise
            return self.stores.put(self._session.job, name, packed, nonce, fresh)

    def put_once(self, packed: _values.Packed, is_keyed: bool) -> Future[Any]:
        """As `put_packed`, or what is there with the same content. What is for a call with a key is found again when the
        program is started again, and stays."""
        self._session._check()
        digest = packed.digest()
        name = f"arg-{digest[:40]}" if is_keyed else VALUE
        with self._putting:
            known = self._by_digest.get(name if is_keyed else digest)
            if known is None:
                known = self._found(name) if is_keyed else None
                known = known or self.put_packed(packed, name)
                if is_keyed:
                    self._stays(known)
                self._by_digest[name if is_keyed else digest] = known
            # Who calls with it in a loop, and waits each time, does not put it each time.
            self._last = known
            return known

    def _found(self, name: str) -> Future[Any] | None:
        from ._future import given

        task = self.stores.native.find(self._session.job, name)
        if task is None:
            return None
        return given(self._session, task, self._value(Named(self._session.job, task, name), 0, None))

    def _stays(self, future: Future[Any]) -> None:
        # Nobody releases it, and the server counts on it until its job has ended.
        value_of(future).is_held = True

    def _stores(self) -> list[Store]:
        found = self.stores.all()
        cluster: Any = self._session._cluster
        if not found and hasattr(cluster, "_ensure_worker"):
            # They are about to come.
            cluster._ensure_worker()
            cluster.wait_for_workers(1)
        return found or self.stores.all(is_fresh=True)

    # Getting.

    def open(self, value: Value) -> int:
        """Opens the file of a value, or a copy of it; what is lost is rebuilt. Raises ObjectLost."""
        if self._session.is_forked:
            raise errors.Forked()
        if value.is_dropped:
            raise self._lost(value, "it was dropped")
        why = ""
        for _ in range(limits.REBUILDS_MAX):
            try:
                return self._asked(lambda: self.stores.open(value.named, value.nonce))
            except NotThere as missing:
                why = missing.why
                if missing.state == "gone":
                    raise self._lost(value, why) from missing
            except Exception as error:
                reason = errors.from_native(error)
                if isinstance(reason, errors.ServerLost):
                    raise self._session._reason(error) from error
                if str(reason) == why or getattr(reason, "code", "") not in ("unreachable", "not-stored"):
                    raise self._lost(value, str(reason)) from error
                why = str(reason)
            self._rebuild(value, why)
        raise self._lost(value, f"{why}. It was made {limits.REBUILDS_MAX} times more, and lost while it was fetched")

    def _asked(self, ask: Callable[[], int]) -> int:
        # A server that is away is waited for as long as calls wait for it: the session says when it is lost for good.
        until = time.monotonic() + limits.SERVER_AWAY_S
        while True:
            try:
                return ask()
            except Exception as error:
                session = self._session
                is_over = session._broken is not None or session._is_over or getattr(session._cluster, "stopped", False)
                is_lost = isinstance(errors.from_native(error), errors.ServerLost)
                if not is_lost or is_over or time.monotonic() >= until:
                    raise
            time.sleep(limits.SERVER_PAUSE_S)

    def check(self, value: Value) -> None:
        """Raises ObjectLost when it is known that no call can take the value any more."""
        if value.is_dropped:
            raise self._lost(value, "it was dropped")
        if self._is_closed:
            why = "the executor that had it has ended, and with it what its calls left in stores: where get() still has it, put that"
            raise self._lost(value, f"{why} (`other.put(ref.get())`)")

    def open_near(self, value: Value) -> int | None:
        """Opens the file of a value if it lies on this machine."""
        return self.stores.open_near(value.named, self.stores.info(value.named), value.nonce)

    def _lost(self, value: Value, why: str) -> errors.ObjectLost:
        return errors.ObjectLost(f"the value of {value.named} ({value.size} bytes) cannot be had: {why}")

    def _rebuild(self, value: Value, why: str) -> None:
        # A call that takes it, and does not look at it: the server has it made once more, and brings it there.
        from ._future import given

        if self._is_closed:
            raise self._lost(value, f"{why}, and its executor has ended, so it is not made once more")
        taken = given(self._session, value.named.task, value)
        code = _pickling.Codes().of(callable)
        entry, deps = _pickling.dumps_entry((Lazy(taken),), {})
        try:
            self._session.submit(0, code, entry, tuple(deps)).result()
        except Exception as error:
            raise self._lost(value, f"{why}, and it could not be made once more: {error}") from error

    # Letting go.

    def is_gone(self, named: Named) -> None:
        """A value is needed no more. Called by finalizers, so nothing is waited for."""
        if named in self._handed:
            self._handed.discard(named)
        elif not self._session.is_forked:
            self._gone.put(named)

    def _release(self) -> None:
        while True:
            gone = [self._gone.get()]
            with contextlib.suppress(queue.Empty):
                while len(gone) < limits.RELEASES_MAX and gone[-1] is not None:
                    gone.append(self._gone.get_nowait())
            named = [one for one in gone if one is not None]
            # What cannot be told is released with its job.
            with contextlib.suppress(Exception):
                if named:
                    self.stores.native.release(named)
            if self._session._is_over and (self._is_closed or not self._values):
                return

    def close(self, job_ends: bool) -> None:
        """The session ends. If its job does, what is stored ends with it: files of this machine are held for those who still
        ask."""
        held = 0
        with self._lock:
            values = list(self._values)
            self._last = None
        for value in values if job_ends else ():
            if held < limits.HELD_MAX and not value.is_dropped:
                held += value.hold()
        self._is_closed = job_ends
        self._gone.put(None)

    def leave(self, seconds: float) -> None:
        """At the end of the interpreter: gets the thread out of the extension."""
        self._is_closed = True
        self._gone.put(None)
        if self._releaser is not None:
            self._releaser.join(max(0.0, seconds))


class Ref(StaysHere, Generic[T]):
    """A value in the stores of workers. Among the arguments of a call it stands for the value.

    The value stays as long as the program has this, calls take it, or it is kept; at most until its executor ends.
    """

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self._value = value_of(future)

    def get(self, writable: bool = True, timeout: float | None = None) -> T:
        """The value: the same one each time. Arrays are mapped, not copied; what is written to them stays in this process.

        Raises TimeoutError where it is not here after so many seconds; it goes on to come, for who asks again.
        """
        validation.timeout("timeout", timeout)
        if timeout is None or self._value.is_here(writable):
            return cast("T", self._value.get(writable))
        coming: concurrent.futures.Future[T] = concurrent.futures.Future()
        threading.Thread(target=_bring, args=(self._value, writable, coming), name="hq-value", daemon=True).start()
        try:
            with while_waiting():
                return coming.result(timeout)
        except concurrent.futures.TimeoutError:
            if coming.done():
                raise
            text = f"the value of {self.task} ({self.nbytes} bytes) was not here after {timeout} seconds"
            raise concurrent.futures.TimeoutError(text) from None

    @property
    def nbytes(self) -> int:
        """Its size in a store."""
        return self._value.size

    @property
    def task(self) -> str:
        """How the command line names it: `hq object info TASK:value`."""
        return self._future.task

    def where(self) -> dict[str, Any]:
        """Where it is: its state, the workers that store it with their hosts, whether one of them is on this machine, and
        whether it is kept. Asks the server."""
        stores = self._value._objects.stores
        found = self._ask("info", *self._value.named)
        if found is None:
            return {"state": "gone", "workers": [], "is_near": False, "is_kept": False}
        workers = found["holders"]
        return {"state": found["state"], "workers": workers, "is_near": stores.is_near(found), "is_kept": found["is_kept"]}

    def keep(self) -> Ref[T]:
        """It stays where stores have no room for more, and after the program has let go of it, until its job has ended or
        it is dropped."""
        self._ask("keep", [self._value.named])
        self._value.is_held = True
        return self

    def drop(self) -> None:
        """Removes it everywhere. Raises Refused while a call needs it; who asks for it then gets ObjectLost."""
        self._ask("drop", [self._value.named])
        self._value.is_dropped = True

    def _ask(self, order: str, *named: Any) -> Any:
        objects = self._value._objects
        try:
            return getattr(objects.stores.native, order)(*named)
        except Exception as error:
            raise objects._session._reason(error) from error

    def __repr__(self) -> str:
        return f"<Ref {self.task}, {self.nbytes} bytes>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Among arguments it is what its future is there; in what a call returns, it is a Ref.
        given = _returned.given_back(self._future, True) if _pickling.collecting.futures is None else None
        return given or self._future.__reduce_ex__(protocol)


class Lazy(StaysHere, Generic[T]):
    """What `lazy` makes: among the arguments of a call it arrives as a handle, whose `get()` gives the value there."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def get(self) -> T:
        """The value."""
        return self._future.result()

    @property
    def nbytes(self) -> int:
        """Its size in a store; waits for the call."""
        return Ref(self._future).nbytes

    def __repr__(self) -> str:
        return f"<Lazy {self._future.task}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        if _pickling.collecting.futures is None and _returned.is_returning():
            raise TypeError("what lazy() makes is an argument of a call; return the Ref or the Future itself")
        if self._future._value is not None:
            # A handle has nothing to hand out where no store has it.
            self._future._value.check()
        _, (job, task) = self._future.__reduce_ex__(protocol)
        return _pickling.lazy(job, task)


def lazy(value: Ref[T] | Future[T]) -> Lazy[T]:
    """A value that a call is to load only when it asks for it."""
    if isinstance(value, Ref):
        return Lazy(value._future)
    if not isinstance(value, concurrent.futures.Future):
        raise TypeError(f"lazy takes a Ref or a Future, not {type(value).__name__}: put the value first (`Executor.put`)")
    return Lazy(value)


def get(refs: Iterable[Ref[T] | Future[T]], writable: bool = True, timeout: float | None = None) -> list[T]:
    """The values of many, in their order. After `timeout` seconds from now, TimeoutError is raised."""
    if isinstance(refs, (Ref, concurrent.futures.Future)):
        alone = "ref.get()" if isinstance(refs, Ref) else "future.result()"
        raise validation.wrong("refs", refs, f"give a list of Refs and Futures, as in get([ref]); of one, {alone} is the value")
    validation.timeout("timeout", timeout)
    until = None if timeout is None else time.monotonic() + timeout
    return [_get(one, writable, until) for one in validation.many("refs", refs, "[ref]")]


def _get(one: Ref[T] | Future[T], writable: bool, until: float | None) -> T:
    left = None if until is None else max(0.0, until - time.monotonic())
    if isinstance(one, Ref):
        return one.get(writable, left)
    if not isinstance(one, concurrent.futures.Future):
        raise TypeError(f"get takes Refs and Futures, not {type(one).__name__}")
    return one.result(left)


def _bring(value: Value, writable: bool, coming: concurrent.futures.Future[Any]) -> None:
    try:
        found = value.get(writable)
    except BaseException as error:
        coming.set_exception(error)
    else:
        coming.set_result(found)


def value_of(future: Future[Any]) -> Value:
    """What the call of a future has left in a store. Waits for its end, and raises what it has raised."""
    error = future.exception()
    if error is not None:
        raise error
    if future._value is None:
        raise ValueError(f"the value of {future.task} travelled with the end of the call, as short ones do: result() has it")
    return future._value
