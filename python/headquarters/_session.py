"""An open job and the two threads that serve it: one sends calls, joined into few submits, and one receives ends.

Every future ends: when the server refuses calls, when it is lost, when a thread fails, and in a process that was forked.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from . import _limits as limits
from ._echo import Echo
from ._fit_look import FitLook
from ._future import Future, fail, finish, forget_locks
from ._group import Group
from ._intervals import Intervals
from ._native_types import ABORTED, CANCELED
from ._objects import Objects
from ._outcome import PARTS
from ._results import Block
from ._sessions import ENDED, SESSIONS
from ._store_look import StoreLook
from ._stores import Named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._native_types import Batch, Calls, End
    from ._pickling import Code


class NoIds(Exception):
    """There are no ids left that belong to this session."""


class Session:
    """The open job of an executor and of all its views."""

    def __init__(
        self, calls: Calls, *, owns_job: bool, cluster: Any = None, echo: bool = False, on_end: Callable[[], None] | None = None
    ) -> None:
        self.job = calls.job
        self.server_uid = calls.server_uid
        self.is_forked = False
        # It is that of a call: what this returns belongs to others.
        self.is_within = False
        # Ends that nobody waits for are heard late.
        self.hears_late = False
        # The server closes the job by itself, some time after the end of the last call.
        self.lingers = False
        self.objects = Objects(self)
        self._calls = calls
        self._owns_job = owns_job
        self._cluster = cluster
        self._on_end = on_end
        self._echo = Echo() if echo else None
        self._lock = threading.RLock()
        # Notified, under the lock, when there is something to send, and when all was sent or has ended.
        self._to_send = threading.Condition(self._lock)
        self._was_sent = threading.Condition(self._lock)
        self._all_ended = threading.Condition(self._lock)
        self._next = calls.next_id
        # Ids from here on have to be asked for.
        self._ids_end = limits.TASK_MAX
        self._queue: deque[Group] = deque()
        self._group: Group | None = None
        self._queued_calls = 0
        self._queued_bytes = 0
        self._is_sending = False
        self._is_urgent = False
        self._writer_sleeps = False
        self._sent_below = self._next
        self._pending: dict[int, Future[Any]] = {}
        self._blocks: list[Block] = []
        self._block_firsts: list[int] = []
        # One of them may have no call left that has not ended.
        self._has_done_block = False
        self._aside: list[tuple[Future[Any], End]] = []
        # What calls call is heard by those.
        self._known = Intervals([*([(0, self._next - 1)] if self._next else []), (limits.GUESTS_FROM, limits.TASK_MAX)])
        # Of each key a digest of what was submitted under it, and the future.
        self._keyed: dict[str, tuple[bytes, Future[Any]]] = {}
        # Calls that others have made and returned.
        self._adopted: weakref.WeakValueDictionary[int, Future[Any]] = weakref.WeakValueDictionary()
        # Looks whether there are stores, some time after the first call that takes the value of another one.
        self._store_look: StoreLook | None = None
        # Where nobody else starts workers.
        self._fit_look = FitLook(self) if hasattr(cluster, "_ensure_worker") else None
        self._woken = threading.Event()
        self._is_shut = False
        self._is_over = False
        self._broken: BaseException | None = None
        self._writer = threading.Thread(target=self._write, name=f"hq-submit-{self.job}", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"hq-ends-{self.job}", daemon=True)
        SESSIONS.add(self)
        self._begin()

    def _begin(self) -> None:
        self._writer.start()
        self._reader.start()

    # Calls.

    def template(self, options: str, env: list[tuple[str, str]], interpreter: list[str]) -> int:
        self._check()
        return self._calls.template(options, env, interpreter)

    def submit(
        self, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None
    ) -> Future[Any]:
        """Queues a call; blocks while far too much is queued."""
        waits = self._sent_elsewhere(deps) if deps else None
        with self._lock:
            if self._is_shut or self._broken is not None or self._queued_bytes > limits.QUEUED_BYTES_MAX:
                self._admit()
            task = self._next
            if task >= self._ids_end:
                raise NoIds
            self._next = task + 1
            future: Future[Any] = Future(self, task, code.name, deps)
            group = self._group
            if group is None or group.code is not code or group.template != template or len(group.entries) >= limits.SUBMIT_CALLS:
                self._group = group = Group(template, code, task, None)
                self._queue.append(group)
            if waits:
                group.waits.append((len(group.entries), waits))
            group.entries.append(entry)
            self._pending[task] = future
            self._queued_calls += 1
            self._queued_bytes += len(entry)
            group.size += len(entry)
            if self._writer_sleeps:
                self._writer_sleeps = False
                self._to_send.notify()
        return future

    def submit_block(
        self, template: int, code: Code, block: Block, entries: list[bytes], deps: dict[int, tuple[Future[Any], ...]]
    ) -> None:
        """Queues the calls of a block, and gives it its ids."""
        waits = [(at, self._sent_elsewhere(of)) for at, of in deps.items()]
        block.deps = deps
        with self._lock:
            self._admit()
            block.first = self._next
            self._next += block.count
            group = Group(template, code, block.first, block)
            group.entries, group.waits, group.size = entries, waits, sum(map(len, entries))
            self._queue.append(group)
            self._group = None
            self._blocks.append(block)
            self._block_firsts.append(block.first)
            self._queued_calls += block.count
            self._queued_bytes += group.size
            if self._writer_sleeps:
                self._writer_sleeps = False
                self._to_send.notify()

    def submit_named(
        self, key: str, template: int, code: Code, entry: bytes, deps: tuple[Future[Any], ...] | None
    ) -> Future[Any]:
        """Submits a call under a key at once; if the job has the key already, the future is that of the call there."""
        waits = self._sent_elsewhere(deps) if deps else None
        import hashlib

        digest = hashlib.sha256(repr((template, code.name, code.data, entry, waits)).encode()).digest()
        with self._lock:
            self._admit()
            known = self._keyed.get(key)
            if known is not None and known[0] == digest:
                return known[1]
            # What else is submitted under a key is refused by the server, as it is after the program was started again.
            task = self._next
            self._next = task + 1
            self._group = None
            future: Future[Any] = Future(self, task, code.name, deps)
            self._pending[task] = future
        self.sent_through(task - 1)
        batch: Batch = (template, code.name, code.data, task, [entry], [(0, waits)] if waits else [], [key])
        try:
            ids = self._submit([batch])
        except BaseException as error:
            self._pending.pop(task, None)
            self._note_gap(task, task)
            raise errors.from_native(error) from error
        if ids and ids[0] != task:
            future = self._attach(future, task, ids[0])
        with self._lock:
            return self._keyed.setdefault(key, (digest, future))[1]

    def _attach(self, future: Future[Any], made: int, there: int) -> Future[Any]:
        with self._lock:
            self._pending.pop(made, None)
            self._known.add([made])
            other = self._pending.get(there)
            if other is not None:
                return other
            future._task = there
            self._pending[there] = future
            # If it has ended, the engine says it again.
            self._known.remove(there)
        self._wake()
        return future

    def adopted(self, task: int, name: str, is_owned: bool) -> Future[Any]:
        """The future of a call that another one has made and returned."""
        with self._lock:
            future = self._pending.get(task) or self._adopted.get(task)
            if future is not None:
                return future
            future = Future(self, task, name, None)
            self._adopted[task] = future
            if not is_owned:
                self.objects.hand_over(Named(self.job, task))
            if not self._is_over:
                self._pending[task] = future
                # If it has ended, the engine says it again.
                self._known.remove(task)
                self._was_sent.notify_all()
        if self._is_over:
            fail(future, self._broken or errors.ClusterStopped("the executor ended before the call"))
        else:
            self._wake()
        return future

    def _sent_elsewhere(self, deps: tuple[Future[Any], ...]) -> list[tuple[int, int]]:
        # Calls of this job are sent in their order. Those of others have to be there before.
        waits: dict[tuple[int, int], None] = {}
        for future in deps:
            assert future._task is not None, "what was not sent is not pickled"
            if future._session is not self and future._session.server_uid != self.server_uid:
                raise errors.ArgumentsNotPicklable(
                    f"{future!r} is of an executor on another server, where the call cannot get its value: give the value itself"
                )
            if future._session is not self and not future.done():
                future._session.sent_through(future._task)
            waits[future._session.job, future._task] = None
        return list(waits)

    def _check(self) -> None:
        if self.is_forked:
            raise errors.Forked()

    def check_open(self) -> None:
        """Raises what a submit would raise now."""
        with self._lock:
            self._admit()

    def _admit(self) -> None:
        self._check()
        while self._queued_bytes > limits.QUEUED_BYTES_MAX and self._broken is None and not self._is_shut:
            self._was_sent.wait()
        if self._broken is not None:
            raise type(self._broken)(*self._broken.args) from self._broken
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    # Questions and orders.

    def hurry(self) -> None:
        """Sends what is queued now, because somebody waits."""
        if self._queued_calls and not self._is_urgent:
            with self._lock:
                self._is_urgent = True
                self._to_send.notify()

    def send_gathered(self) -> None:
        """Sends what waits for the end of the call that submits it."""

    def sent_through(self, task: int, until: float | None = None) -> bool:
        """Returns True when all calls up to `task` are with the server or were refused; False at the time `until`."""
        with self._lock:
            self._check()
            while (self._queue and self._queue[0].first <= task) or (self._is_sending and self._sent_below <= task):
                if self._is_over or (self._broken is not None and not self._is_sending):
                    return True
                self._is_urgent = True
                self._to_send.notify()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._was_sent.wait(left)
        return True

    def info(self, task: int) -> dict[str, Any]:
        self.sent_through(task)
        return self._calls.info(task)

    def explain(self, task: int) -> str:
        self.sent_through(task)
        return self._calls.explain(task)

    def is_pending(self, task: int) -> bool:
        """True if a call has not ended, as far as is known here."""
        block = self._block_of(task)
        return task in self._pending or (block is not None and block.is_pending(task))

    def kill(self, task: int) -> None:
        self._check()
        self.sent_through(task)
        self._calls.cancel([(task, task)], False)

    def cancel(self, futures: Iterable[Future[Any]]) -> None:
        """Cancels calls that no worker has begun; their futures are canceled when this returns."""
        of = {future._task: future for future in futures if future._task is not None}
        self.cancel_ids(sorted(of), of)

    def cancel_ids(self, ids: list[int], futures: dict[int, Future[Any]] | None = None) -> int:
        """As `cancel`, by ascending ids; says how many were canceled."""
        if not ids:
            return 0
        self._check()
        self.sent_through(ids[-1])
        try:
            canceled = self._calls.cancel(Intervals.of(ids), True)
        except Exception as error:
            if isinstance(errors.from_native(error), errors.HqError):
                return 0
            raise
        count = sum(last - first + 1 for first, last in canceled)
        ends: list[End] = [(task, CANCELED, None, "", "") for first, last in canceled for task in range(first, last + 1)]
        self._complete(ends)
        if futures:
            # The thread that receives may have taken some of them, and not be through with them.
            finish([(futures[end[0]], end) for end in ends if end[0] in futures])
        return count

    # The end.

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        """No more calls; with `wait`, returns when all have ended and the threads have, too."""
        if self.is_forked:
            return
        with self._lock:
            self._is_shut = True
            self._is_urgent = True
            self._to_send.notify()
            self._was_sent.notify_all()
        if cancel_futures:
            self._cancel_all()
        if not wait:
            self._wake()
            return
        with self._lock:
            self._to_send.notify()
        self._wake()
        me = threading.current_thread()
        for thread in (self._writer, self._reader):
            if thread is not me:
                thread.join(limits.SILENT_SHUTDOWN_S)
                if thread.is_alive():
                    self._say_what_waits()
                    thread.join()

    def interrupt(self) -> None:
        """Takes no more calls; those that have not begun are canceled, and those that run are ended."""
        self.shutdown(False, True)
        running = [task for task in self._pending.copy() if task >= 0]
        for block in list(self._blocks):
            running += block.pending()
        if running and not self.is_forked:
            try:
                self._calls.cancel(Intervals.of(sorted(running)), False)
            except Exception:
                # They end with the server, or the server is lost, which the other thread says.
                pass

    def _say_what_waits(self) -> None:
        try:
            waiting = sorted(self._pending.copy())
            for block in list(self._blocks):
                waiting += list(block.pending())
            if waiting:
                first = self._calls.explain(waiting[0])
                logging.getLogger("headquarters").warning(
                    "the executor waits for %d %s to end; the first, %d@%d: %s",
                    len(waiting), "call" if len(waiting) == 1 else "calls", self.job, waiting[0], first,
                )
        except Exception:
            # Only a word for the user.
            pass

    def _cancel_all(self) -> None:
        with self._lock:
            groups, self._group = list(self._queue), None
            self._queue.clear()
            self._queued_calls = self._queued_bytes = 0
            self._was_sent.notify_all()
        unsent: list[End] = [(task, CANCELED, None, "", "") for group in groups for task in range(group.first, group.first + len(group.entries))]
        self._complete(unsent)
        futures = self._pending.copy()
        ids = list(futures)
        for block in self._blocks.copy():
            ids += block.pending()
        self.cancel_ids(sorted(ids), futures)

    def fork(self) -> None:
        """In the child of a fork: nothing here is ours any more."""
        self.is_forked = True
        self._broken = errors.Forked()
        error = self._broken
        forget_locks(list(self._pending.values()), error)
        for block in self._blocks:
            block.changed = threading.Condition()
            for at in range(block.count):
                block.fail(at, error)
        self._pending.clear()
        self._lock = threading.RLock()
        self._to_send = self._was_sent = self._all_ended = threading.Condition(self._lock)
        self._queue.clear()
        self._queued_calls = 0

    def leave(self, until: float) -> None:
        """At the end of the interpreter: sends what is queued, and gets the threads out of the extension."""
        if self._is_over:
            return
        self.sent_through(self._next, until)
        with self._lock:
            # What runs may still make calls within the job.
            self._owns_job = self._owns_job and not (self.lingers and self._has_pending())
            self._is_shut = self._is_over = True
            self._to_send.notify()
            self._was_sent.notify_all()
        try:
            if self._owns_job:
                self._calls.close()
        except Exception:
            # The server may be gone by now, and nobody is left to be told.
            pass
        self._wake()
        self._reader.join(max(0.0, until - time.monotonic()))
        self.objects.leave(until - time.monotonic())

    # The thread that sends.

    def _write(self) -> None:
        try:
            while True:
                groups = self._next_groups()
                if groups is None:
                    return
                self._send(groups)
                # Who waits for more must not hold what these have left.
                del groups
                self._have_sent()
        except BaseException as error:
            self._break(error)

    def _have_sent(self) -> None:
        with self._lock:
            self._is_sending = False
            if not self._queue:
                self._is_urgent = False
            self._was_sent.notify_all()
            is_last = self._is_shut and not self._queue
        if is_last:
            # All may have ended before the server's answer to their submit was here.
            self._wake()

    def _next_groups(self) -> list[Group] | None:
        with self._lock:
            while True:
                while not self._queue:
                    if self._is_shut or self._is_over or self._broken is not None:
                        return None
                    self._writer_sleeps = True
                    self._to_send.wait()
                    self._writer_sleeps = False
                count = -1
                while count != self._queued_calls and not self._leaves_now():
                    count = self._queued_calls
                    self._to_send.wait(limits.QUIET_S)
                while self._is_sending:
                    self._was_sent.wait()
                # Another thread may have sent all of it.
                if self._queue:
                    return self._taken()

    # Under the lock.
    def _taken(self) -> list[Group]:
        groups: list[Group] = []
        calls = size = 0
        while self._queue and calls < limits.SUBMIT_CALLS_MAX and (not groups or size < 4 * limits.SUBMIT_BYTES):
            group = self._queue.popleft()
            calls, size = calls + len(group.entries), size + group.size
            groups.append(group)
        if self._group is not None and groups and groups[-1] is self._group:
            self._group = None
        self._queued_calls -= calls
        self._queued_bytes -= size
        self._is_sending = bool(groups)
        if groups:
            self._sent_below = groups[0].first
        return groups

    def _leaves_now(self) -> bool:
        return (
            self._is_urgent
            or self._is_shut
            or self._queued_calls >= limits.SUBMIT_CALLS
            or self._queued_bytes >= limits.SUBMIT_BYTES
        )

    def _send(self, groups: list[Group]) -> None:
        if not groups:
            return
        try:
            self._submit([group.batch() for group in groups])
            if self._store_look is None and not self.is_within and any(group.waits for group in groups):
                self._store_look = StoreLook(self)
            return
        except Exception as refused:
            error = self._reason(refused)
            if isinstance(error, errors.ServerLost):
                raise  # Whoever submits more is told so, too, before these calls fail.
        if error.code in errors.OF_THE_JOB or type(error) in (errors.HqError, errors.ClusterStopped):
            for group in groups:
                self._refuse(group, error)
            return
        # One of them is refused, and only that one has to fail.
        if len(groups) > 1:
            middle = len(groups) // 2
            self._send(groups[:middle])
            self._send(groups[middle:])
        elif len(groups[0].entries) > 1:
            for half in groups[0].halves():
                self._send([half])
        else:
            self._refuse(groups[0], error)

    def _submit(self, batches: list[Batch]) -> list[int]:
        if self._fit_look is not None:
            self._cluster._ensure_worker()
        ids = self._calls.submit(batches)
        if self._fit_look is not None:
            self._fit_look.sent(batches)
        return ids

    def _refuse(self, group: Group, error: BaseException) -> None:
        last = group.first + len(group.entries) - 1
        self._note_gap(group.first, last)
        for task in range(group.first, last + 1):
            future = self._pending.pop(task, None)
            if future is not None:
                reason = error
                if isinstance(error, (errors.DependencyFailed, errors.Refused)):
                    reason = future._because_of_another() or error
                fail(future, reason)
            elif group.block is not None:
                at = task - group.block.first
                group.block.fail(at, group.block._because_of_another(at) or error)
                self._has_done_block = True
        if group.block is not None:
            group.block.notify()
        self._tidy()

    def _note_gap(self, first: int, last: int) -> None:
        with self._lock:
            self._known.add(range(first, last + 1))

    # The thread that receives.

    def _read(self) -> None:
        try:
            while not self._is_over:
                self._woken.clear()
                known = self._known_now()
                if known is None:
                    break
                ends = self._calls.ends(known)
                if ends is None:
                    # The job is over. What is there is still asked for by its key.
                    self._woken.wait()
                elif ends:
                    self._complete(ends)
        except BaseException as error:
            self._break(error)
        finally:
            self._close()

    def _known_now(self) -> list[tuple[int, int]] | None:
        # Of which calls nothing needs to be heard. None when that is so of all.
        with self._lock:
            if self._is_shut and not self._queue and not self._is_sending and not self._has_pending():
                return None
            return self._known.as_list()

    def _wake(self) -> None:
        self._woken.set()
        self._calls.wake()

    def _complete(self, ends: list[End]) -> None:
        futures: list[tuple[Future[Any], End]] = []
        blocks: dict[int, Block] = {}
        block: Block | None = None
        pop = self._pending.pop
        with self._lock:
            for end in ends:
                future = pop(end[0], None)
                if future is not None:
                    if end[2] and end[2][0] == PARTS:
                        future._holds = self.objects.held_by(end)
                    if end[1] == ABORTED and future._deps and not self._causes_are_known(future):
                        self._aside.append((future, end))
                        continue
                    futures.append((future, end))
                    continue
                if block is None or not 0 <= end[0] - block.first < block.count:
                    block = self._block_of(end[0])
                    if block is None:
                        continue
                    blocks[id(block)] = block
                block.take(end, self.objects)
                if not block.left:
                    self._has_done_block = True
            self._known.add([end[0] for end in ends])
        finish(futures)
        if self._aside:
            with self._lock:
                aside, self._aside = self._aside, []
                is_known = [self._causes_are_known(future) for future, _ in aside]
                self._aside += [one for one, known in zip(aside, is_known) if not known]
            finish([one for one, known in zip(aside, is_known) if known])
        for block in blocks.values():
            block.notify()
        if self._echo is not None:
            self._echo.show(ends)
        self._tidy()

    def _causes_are_known(self, future: Future[Any]) -> bool:
        # The end of the call that failed may come after the end of those that wait for it.
        return all(
            other.done() or other._session is not self or other._task not in self._pending for other in future._deps or ()
        )

    def _block_of(self, task: int) -> Block | None:
        at = bisect_right(self._block_firsts, task) - 1
        block = self._blocks[at] if at >= 0 else None
        return block if block is not None and task < block.first + block.count else None

    def _tidy(self) -> None:
        with self._lock:
            if self._has_done_block:
                self._has_done_block = False
                self._blocks = [block for block in self._blocks if block.left]
                self._block_firsts = [block.first for block in self._blocks]
            is_last = self._is_shut and not self._has_pending()
            if not self._has_pending():
                self._all_ended.notify_all()
        if is_last:
            self._wake()

    @property
    def waits(self) -> bool:
        """True while calls have not ended."""
        return not self._is_over and self._has_pending()

    def _has_pending(self) -> bool:
        return bool(self._pending or self._blocks or self._aside)

    def _break(self, error: BaseException) -> None:
        # The last resort: whatever happened, nobody waits for ever.
        reason = self._reason(error)
        with self._lock:
            self._broken = self._broken or reason
            self._queue.clear()
            self._group = None
            self._queued_calls = self._queued_bytes = 0
            self._is_sending = False
            pending = list(self._pending.values()) + [future for future, _ in self._aside]
            self._pending.clear()
            self._aside.clear()
            blocks, self._blocks, self._block_firsts = self._blocks, [], []
            self._was_sent.notify_all()
            self._to_send.notify()
        for future in pending:
            fail(future, reason)
        for block in blocks:
            for at in range(block.count):
                block.fail(at, reason)
            block.notify()
        try:
            self._wake()
        except Exception:
            # It is the extension that failed.
            pass

    def _reason(self, error: BaseException) -> errors.HqError:
        reason = errors.from_native(error)
        if isinstance(reason, errors.ServerLost):
            if getattr(self._cluster, "stopped", False):
                reason = errors.ClusterStopped("the cluster was stopped before the call ended")
            elif (has_ended := getattr(self._cluster, "_server_has_ended", None)) and has_ended():
                reason = errors.ClusterStopped(ENDED)
            else:
                reason = errors.of_an_executor(reason, getattr(self._cluster, "server_dir", self._cluster), self.job)
        if isinstance(reason, errors.HqError):
            return reason
        made = errors.HqError(f"the executor failed: {type(error).__name__}: {error}")
        made.__cause__ = error
        return made

    def lose(self, reason: errors.HqError) -> None:
        """The server has gone for good: nothing is asked any more."""
        with self._lock:
            self._is_over = self._is_shut = True
        self._break(reason)

    def _close(self) -> None:
        with self._lock:
            self._is_over = self._is_shut = True
            self._to_send.notify()
        for look in (self._store_look, self._fit_look):
            if look is not None:
                look.cancel()
        if self._pending or self._blocks:
            self._break(errors.ClusterStopped("the executor ended before the call"))
        try:
            job_ends = self._owns_job and not getattr(self._cluster, "stopped", False)
            self.objects.close(job_ends)
            if job_ends:
                self._calls.close()
        except Exception:
            # A job whose server is gone needs no closing.
            pass
        if self._on_end is not None:
            self._on_end()
        SESSIONS.discard(self)
