"""Stores of workers as this process sees them: values are read where they lie, and put there, if that is this machine.

Elsewhere they go over the network, which the extension does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _errors as errors
from . import _limits as limits
from . import _values

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._native_types import Objects, Store, Stored

VALUE = "value"
"""The name of the object that is the value of a call."""


class Named(NamedTuple):
    """An object: that of a task."""

    job: int
    task: int
    name: str = VALUE

    def __str__(self) -> str:
        of_task = f"{self.job}@{self.task}"
        return of_task if self.name == VALUE else f"{of_task}:{self.name}"


class NotThere(Exception):
    """An object is not stored now."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(state, why)
        self.state = state
        self.why = why


class Stores:
    """The stores of the workers of a server."""

    def __init__(self, native: Objects, now: Callable[[], float] = time.monotonic) -> None:
        self.native = native
        self._now = now
        self._lock = threading.Lock()
        self._known: list[Store] = []
        self._until = 0.0

    def all(self, is_fresh: bool = False) -> list[Store]:
        """All of them; as they were some seconds ago, unless they must be `is_fresh`."""
        with self._lock:
            if is_fresh or self._now() >= self._until:
                self._known = self.native.stores()
                self._until = self._now() + limits.STORES_KNOWN_S
            return self._known

    def forget(self) -> None:
        """What is known of them is wrong."""
        self._until = 0.0

    def info(self, named: Named) -> Stored:
        """How an object is. Raises NotThere when no worker stores it now."""
        found = self.native.info(*named)
        if found is None:
            raise NotThere("gone", "the server does not know it any more")
        if found["state"] != "stored":
            raise NotThere(found["state"], found["why"] or f"it is {found['state']}")
        if not found["copies"]:
            raise NotThere("away", "the worker that has it is away")
        return found

    # Reading.

    def open(self, named: Named, nonce: bytes | None) -> int:
        """Opens the file of a value: where it lies, if that is this machine and it has this nonce, else a copy of it.

        Raises NotThere when no worker stores it now.
        """
        stored = self.info(named)
        near = self.open_near(named, stored, nonce)
        if near is not None:
            return near
        file = _nameless(_temporary())
        try:
            self.native.fetch(*named, f"/proc/self/fd/{file}")
        except BaseException as error:
            os.close(file)
            if isinstance(error, Exception):
                # Meanwhile it may be lost, which is said then.
                self.info(named)
            raise
        return file

    def open_near(self, named: Named, stored: Stored, nonce: bytes | None) -> int | None:
        """Opens the file of a value where it lies; None if that is no place of this machine."""
        if named.name != VALUE:
            return None
        holders = {worker for worker, _ in stored["holders"]}
        for store in self._near():
            if store["worker"] not in holders:
                continue
            # It may have moved to the spill, where it appears before it goes from the store.
            for directory in (store["dir"], store["spill"]):
                if directory is None:
                    continue
                path = os.path.join(directory, f"v-{named.job}-{named.task}-{stored['instance']}")
                try:
                    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                except OSError:
                    continue
                if os.fstat(file).st_size == stored["size"] and nonce in (None, _values.nonce_of(file)):
                    return file
                os.close(file)
        return None

    def is_near(self, stored: Stored) -> bool:
        """True when one of those that store an object is on this machine."""
        near = {store["worker"] for store in self._near()}
        return any(worker in near for worker, _ in stored["holders"])

    def _near(self) -> list[Store]:
        host = os.uname().nodename
        return [store for store in self.all() if store["hostname"] == host]

    # Writing.

    def put(self, job: int, name: str, packed: _values.Packed, nonce: bytes, stores: list[Store]) -> int:
        """Has a worker store a value as an object of a job, and gives its task. Raises NotStored where none does."""
        size = packed.size
        roomy = [store for store in stores if store["largest"] >= size]
        if not stores:
            raise errors.NotStored(
                "there is no worker that stores objects: start one (`hq worker start`), or write the value to a file and give its path"
            )
        if not roomy:
            largest = max(store["largest"] for store in stores)
            raise errors.NotStored(
                f"the value takes {size} bytes, and the largest store of a worker has {largest}: start workers with "
                "`--object-store DIR:SIZE`, or write the value to a file and give its path"
            )
        roomy.sort(key=lambda store: store["used"] - store["size"])
        host, reasons = os.uname().nodename, []
        # Those that have said that they do not store it now.
        refused = set()
        for store in roomy[: limits.PUT_TRIES]:
            if store["hostname"] == host and _is_ours(store["dir"]):
                try:
                    return self._put_near(job, name, packed, nonce, store)
                except errors.ServerLost:
                    raise
                except (OSError, errors.NotStored) as error:
                    reasons.append(f"worker {store['worker']}: {error}")
                    if isinstance(error, errors.NotStored):
                        refused.add(store["worker"])
        with _written(packed, nonce) as path:
            for store in roomy[: limits.PUT_TRIES]:
                if store["worker"] in refused:
                    continue
                try:
                    return self._asked(self.native.put, job, name, store["worker"], path)
                except errors.NotStored as error:
                    reasons.append(f"worker {store['worker']}: {error}")
        self.forget()
        raise errors.NotStored(f"no worker stores the value of {size} bytes: {'; '.join(dict.fromkeys(reasons))}")

    def _put_near(self, job: int, name: str, packed: _values.Packed, nonce: bytes, store: Store) -> int:
        # The lock says that somebody is about to give the file: what is left of those who died meanwhile is removed.
        file = f"c-{os.urandom(8).hex()}"
        # What is larger than the store itself goes to its spill.
        spilled = store["spill"] if packed.size > store["size"] else None
        directory = os.path.join(spilled or store["dir"], "put")
        path = os.path.join(directory, f"new-{file}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(path, flags, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Under this name it is looked at by others.
            os.rename(path, os.path.join(directory, file))
            path = os.path.join(directory, file)
            packed.write(opened, nonce)
            return self._asked(self.native.give, job, name, store["worker"], file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(opened)

    @staticmethod
    def _asked(ask: Callable[..., tuple[int, int]], *arguments: Any) -> int:
        try:
            return ask(*arguments)[0]
        except Exception as error:
            made = errors.from_native(error)
            if getattr(made, "code", "") in _NOT_STORED:
                raise errors.NotStored(str(made)) from error
            raise


# Codes of refusals that another worker may not have.
_NOT_STORED = frozenset({"not-stored", "invalid", "invalid-request", "no-worker", "worker-ended", "worker-away", "unreachable"})


def _is_ours(directory: str) -> bool:
    # Only whoever runs the worker can write there. Of others a directory of this name may be somewhere else.
    try:
        return os.stat(directory, follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


def _temporary() -> str:
    import tempfile

    return tempfile.gettempdir()


def _nameless(directory: str) -> int:
    # A file that goes with its last descriptor.
    with contextlib.suppress(OSError):
        return os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    import tempfile

    file, path = tempfile.mkstemp(prefix="hq-value-", dir=directory)
    os.unlink(path)
    return file


@contextlib.contextmanager
def _written(packed: _values.Packed, nonce: bytes) -> Iterator[str]:
    directory = _temporary()
    file = _nameless(directory)
    try:
        try:
            packed.write(file, nonce)
        except OSError as error:
            raise errors.NotStored(f"the value cannot be written to {directory}: {error}") from error
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)
