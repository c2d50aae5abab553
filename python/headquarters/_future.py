"""The future of a call: light while it waits, and a `concurrent.futures.Future` for everything that knows these.

A condition, which a future of the standard library makes at once, is made here when somebody looks in. Until then only
`STATES` guards it, so that a batch of ends takes one lock.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any, TypeVar

from . import _pickling, _returned, validation
from ._errors import DependencyFailed, Forked
from ._lending import Waiters, is_in_call, lend_in_loop, while_waiting
from ._native_types import ABORTED, CANCELED, FAILED
from ._outcome import PARTS, decode, printed, returned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._native_types import End
    from ._objects import Ref, Value
    from ._session import Session

T = TypeVar("T")

STATES = threading.RLock()
"""Held while a future without condition ends, or gets one."""

_PICKLED_HERE = "a Future or a Ref is pickled only as an argument of another call; its .task names it elsewhere"


class Future(concurrent.futures.Future[T]):
    """A call that was submitted. It ends with its value, its exception, or one of the errors of this package."""

    __slots__ = (
        "_callbacks", "_code_name", "_deps", "_end", "_exception", "_holds", "_lock", "_output", "_result", "_session", "_state",
        "_task", "_value", "_waiting",
    )  # fmt: skip

    def __init__(self, session: Session, task: int | None, name: str, deps: tuple[Future[Any], ...] | None) -> None:
        self._session = session
        self._task = task
        self._code_name = name
        self._deps = deps
        self._state = PENDING
        self._lock: threading.Condition | None = None
        self._end: End | None = None
        self._waiting: list[Any] | None = None
        self._callbacks: list[Callable[[Any], object]] | None = None
        self._output: tuple[bytes, bytes] | None = None
        self._result: Any = None
        self._exception: BaseException | None = None
        # What it has left in a store.
        self._value: Value | None = None
        # What is in its value and belongs to who has that.
        self._holds: tuple[Any, ...] = ()

    # What the functions of concurrent.futures look at.

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override, unused-ignore]
        lock = self._lock
        if lock is None:
            with STATES:
                lock = self._lock
                if lock is None:
                    self._lock = lock = threading.Condition()
            if self._state is PENDING:
                self._session.hurry()
        return lock

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override, unused-ignore]
        if self._waiting is None:
            self._waiting = Waiters() if is_in_call() else []
        return self._waiting

    @property
    def _done_callbacks(self) -> list[Callable[[Any], object]]:  # type: ignore[override, unused-ignore]
        if self._callbacks is None:
            self._callbacks = []
        return self._callbacks

    # What a user asks.

    @property
    def job_id(self) -> int:
        """The job of its executor."""
        return self._session.job

    @property
    def task_id(self) -> int:
        """Its number in the job; -1 if it could not be sent."""
        return -1 if self._task is None else self._task

    @property
    def task(self) -> str:
        """How the command line names it, as in `hq submit --after 3@17`."""
        return f"{self.job_id}@{self.task_id}"

    @property
    def ref(self) -> tuple[int, int]:
        """Job and task, which stay valid in other processes."""
        return self.job_id, self.task_id

    def stored(self) -> Ref[T]:
        """What stands for its value, which is so large that it stays in a store; waits for the end.

        Raises ValueError for one that travelled with the end of the call.
        """
        from ._objects import Ref

        return Ref(self)

    def done(self) -> bool:
        """True if it has ended, in any way."""
        if self._state is PENDING and self._session.hears_late:
            # Whoever asks again and again waits, too.
            self._condition  # noqa: B018
        return self._state is not PENDING

    def cancelled(self) -> bool:
        """True if it was canceled."""
        return self._state is CANCELLED_AND_NOTIFIED

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """Calls `fn` with this future when it has ended."""
        super().add_done_callback(fn)
        if self._state is PENDING and is_in_call():
            lend_in_loop(self)

    def running(self) -> bool:
        """True if a worker runs it now; asks the server."""
        if self._state is not PENDING or self._task is None:
            return False
        return bool(self._session.info(self._task).get("state") == "running") and self._state is PENDING

    def result(self, timeout: float | None = None) -> T:
        """The value, or its exception is raised; waits for the end, at most `timeout` seconds."""
        if self._state is PENDING:
            validation.timeout("the timeout of result", timeout)
            with while_waiting():
                super().exception(timeout)
        elif self._state is not FINISHED:
            super().result(timeout)
        if self._end is not None:
            self._decode()
        if self._exception is not None:
            try:
                raise self._exception
            finally:
                # Else the exception would hold this frame, and the frame the future.
                self = None  # type: ignore[assignment]
        value: T = self._result if self._value is None else self._value.get()
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception that it ended with, if any; waits for the end, at most `timeout` seconds."""
        if self._state is PENDING:
            validation.timeout("the timeout of exception", timeout)
            with while_waiting():
                super().exception(timeout)
        elif self._state is not FINISHED:
            super().exception(timeout)
        if self._end is not None:
            self._decode()
        return self._exception

    def cancel(self) -> bool:
        """Cancels the call if no worker has begun it, and says whether that is so. Asks the server."""
        if self._state is PENDING and self._task is not None:
            self._session.cancel([self])
        return self._state is CANCELLED_AND_NOTIFIED

    def kill(self) -> None:
        """Ends the call, also if it runs. The future ends when the call has ended."""
        if self._state is PENDING and self._task is not None:
            self._session.kill(self._task)

    def output(self, channel: str = "stdout") -> str:
        """The last 4 KiB of what the call printed to `"stdout"` or `"stderr"`; waits for its end."""
        if channel not in ("stdout", "stderr"):
            raise validation.ValidationException(f"there are stdout and stderr, not {channel!r}")
        if not self.cancelled():
            self.exception()
        if self._output is None:
            return ""
        return self._output[channel == "stderr"].decode(errors="replace")

    @property
    def usage(self) -> Any:
        """What it used, as the server knows it; None if it does not."""
        return self._info("usage")

    @property
    def worker(self) -> Any:
        """The worker that has it or had it; None if none."""
        return self._info("worker")

    def explain(self) -> str:
        """What it waits for, or where it runs, in words; asks the server."""
        if self._task is None:
            return f"It was not sent: {self._exception}"
        return self._session.explain(self._task)

    def _info(self, word: str) -> Any:
        return None if self._task is None else self._session.info(self._task).get(word)

    def __repr__(self) -> str:
        state = {PENDING: "pending", FINISHED: "ended", CANCELLED_AND_NOTIFIED: "canceled"}.get(self._state, "")
        return f"<Future {self.task} of {self._code_name}, {state}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        found = _pickling.collecting.futures
        if self._task is None:
            raise DependencyFailed(f"{self._code_name} was not sent: {self._exception}"[:500]) from self._exception
        if self._session.is_forked:
            raise Forked()
        if found is None:
            given = _returned.given_back(self, False)
            if given is None:
                raise TypeError(_PICKLED_HERE)
            return given
        if self._value is not None:
            if self._value.is_of_the_past:
                return _pickling.itself(self._value.get())
            self._value.check()
            # A call that takes it takes what is in it, too.
            found.extend(self._value.within)
        found.append(self)
        return _pickling.ref(self._session.job, self._task)

    def _hq_returned(self) -> tuple[int, int]:
        # Asked by the interpreter of a call that returns this one: which it is, when its value belongs to that call.
        self._check_sent()
        assert self._task is not None, "what was not sent was refused"
        _returned.given_away(self)
        return self._session.job, self._task

    def _check_sent(self) -> None:
        # Of what is returned the server knows.
        self._session.send_gathered()
        if self._task is None:
            raise self._exception or DependencyFailed(f"{self._code_name} was not sent")

    def _decode(self) -> None:
        end = self._end
        if end is None:
            return
        value, error = decode(end, self._code_name) if not self._holds else self._decoded_here(end)
        output = printed(end[2])
        if end[1] == ABORTED:
            error = self._because_of_another() or self._because_of_returned(end[4]) or error
        with STATES:
            if self._end is end:
                self._result, self._exception, self._output = value, error, output
                self._deps = None
                self._end = None

    def _decoded_here(self, end: End) -> tuple[Any, BaseException | None]:
        # What is in it belongs to this session.
        with _returned.to(self._session):
            return decode(end, self._code_name)

    def _because_of_returned(self, message: str) -> DependencyFailed | None:
        # It has returned a call that nobody here knows.
        job, task = returned(message) or (None, 0)
        if job != self._session.job or self._deps:
            return None
        try:
            why = self._session.info(task).get("error")
        except Exception:
            # The server may be gone.
            why = None
        reason = f"{job}@{task}, which has no value: {why or message}"
        return DependencyFailed(f"{self._code_name} has returned {reason}", reason)

    def _because_of_another(self) -> BaseException | None:
        return because_of(self._code_name, self._deps)


def because_of(name: str, deps: Iterable[Future[Any]] | None) -> DependencyFailed | None:
    """Why a call has no value that waits for these: the failure that comes first on the way back."""
    while True:
        for other in deps or ():
            if not other.done():
                continue
            end = other._end
            if end is not None and end[1] == ABORTED and other._deps:
                # It waited itself: not decoded, so that chains may be as long as they like.
                deps = other._deps
                break
            cause = _no_value(other)
            if cause is None:
                continue
            if isinstance(cause, DependencyFailed) and cause.reason:
                made = DependencyFailed(f"{name} waits for {cause.reason}", cause.reason)
                made.__cause__ = cause.__cause__
                return made
            reason = f"{other.task} ({other._code_name}), which has no value: {_in_words(cause)}"
            made = DependencyFailed(f"{name} waits for {reason}", reason)
            made.__cause__ = cause
            return made
        else:
            return None


def _no_value(future: Future[Any]) -> BaseException | None:
    if future.cancelled():
        return concurrent.futures.CancelledError(f"{future.task} was canceled")
    return future.exception()


def _in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except Exception:
        return type(error).__name__


def finish(ended: Iterable[tuple[Future[Any], End]]) -> None:
    """Ends futures as the engine says. Callbacks are called when all of them have ended."""
    looked_at: list[tuple[Future[Any], End]] = []
    with STATES:
        for future, end in ended:
            if future._lock is not None:
                looked_at.append((future, end))
            elif future._state is PENDING:
                _note(future, end)
                future._end = None if end[1] == CANCELED else end
                future._state = CANCELLED_AND_NOTIFIED if end[1] == CANCELED else FINISHED
    for future, end in looked_at:
        if end[1] == CANCELED:
            _end(future, None, None)
        else:
            _end(future, end, None)


def _note(future: Future[Any], end: End) -> None:
    # Only who was given up asks for those that it waited for; the values of others are needed no more.
    if end[1] != ABORTED:
        future._deps = None
    payload = end[2]
    if payload and payload[0] == PARTS:
        future._value = future._session.objects.of_end(end)


def given(session: Session, task: int, value: Value) -> Future[Any]:
    """A future that has ended with a value in a store."""
    future: Future[Any] = Future(session, task, "put", None)
    future._value = value
    future._state = FINISHED
    return future


def outcome(future: concurrent.futures.Future[Any]) -> str:
    """How a future has ended, without a look at its value: `finished`, `failed` or `canceled`."""
    if future.cancelled():
        return "canceled"
    end = future._end if isinstance(future, Future) else None
    has_failed = end[1] in (FAILED, ABORTED) if end is not None else future._exception is not None  # type: ignore[attr-defined, unused-ignore]
    return "failed" if has_failed else "finished"


def fail(future: Future[Any], error: BaseException) -> None:
    """Ends a future with an exception that came about here."""
    _end(future, None, error)


def _end(future: Future[Any], end: End | None, error: BaseException | None) -> None:
    is_canceled = end is None and error is None
    with future._condition:
        if future._state is not PENDING:
            return
        if end is not None:
            _note(future, end)
        else:
            future._deps = None
        future._end, future._exception = end, error
        future._state = CANCELLED_AND_NOTIFIED if is_canceled else FINISHED
        for waiter in future._waiting or ():
            if is_canceled:
                waiter.add_cancelled(future)
            elif error is not None or (end is not None and end[1] in (FAILED, ABORTED)):
                waiter.add_exception(future)
            else:
                waiter.add_result(future)
        future._condition.notify_all()
    for callback in future._callbacks or ():
        try:
            callback(future)
        except BaseException:
            # Not even one that wants to exit may take those with it that others wait for.
            logging.getLogger("concurrent.futures").exception("exception calling callback for %r", future)


def forget_locks(futures: Iterable[Future[Any]], error: BaseException) -> None:
    """In a process that was forked: ends futures whose locks may be held by threads that are not here."""
    global STATES
    STATES = threading.RLock()
    for future in futures:
        future._lock = future._waiting = future._callbacks = None
        if future._state is PENDING:
            future._exception = error
            future._state = FINISHED
