"""Ranks of an MPI program: how they agree, and how values travel between them.

All of it goes through a communicator of our own, so that messages of the program never meet ours. Collectives that other
ranks may be in at the end of the program are the ones of `agree` alone: a rank that has come to its end takes part in them
once more, to say so. Without that the others would wait for it for ever.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
import zlib
from array import array
from functools import partial
from importlib import import_module
from typing import Any

from . import _limits as limits
from ._agreement import Report, verdict
from ._errors import RanksDiffer
from ._failure import attempt, failure_of
from ._messages import Packed, block_lengths, head_length, pack, pieces, unpack
from ._ranks import Ranks

_TAG = 1


class Mpi(Ranks):
    """The ranks of a communicator."""

    def __init__(self, comm: Any) -> None:
        self._mpi: Any = import_module("mpi4py.MPI")
        self._comm = comm.Dup()
        self.rank = self._comm.Get_rank()
        self.procs = self._comm.Get_size()
        self._epoch = 0
        self._pending: BaseException | None = None
        # Why there are no collectives any more: some rank has ended.
        self._over: BaseException | None = None

    def note(self, error: Exception) -> None:
        self._pending = self._pending or error

    def agree(self, what: str, failure: BaseException | None = None) -> None:
        if self._over is not None:
            raise RanksDiffer(str(self._over)) from self._over.__cause__
        own = failure or self._pending
        self._pending = None
        words = _Words(self, what, own is not None)
        words.request.Wait()
        if not words.are_the_same_and_fine():
            raised = self._settle(what, own)
            assert raised is not None, "ranks that differ, or have failed, say how"
            raise raised

    def _settle(self, what: str, own: BaseException | None) -> BaseException | None:
        # All ranks are here: they tell each other what they are about to do.
        failure = failure_of(own, self.rank) if own is not None else None
        mine = Report(self.rank, self._epoch, what, failure)
        gathered = self.gather(mine if self.rank == 0 else pack(mine), 0)
        reports: list[Report] = self.bcast(gathered, 0)
        others = self._mpi.COMM_WORLD.Get_size() > self.procs
        raised = verdict(reports, self.rank, own, f" of a context of {self.procs}" if others else "")
        if any(not report.what for report in reports):
            self._over = raised or RanksDiffer("all ranks have ended")
        return raised

    def counts(self, count: int) -> list[int]:
        all_counts = array("q", bytes(8 * self.procs))
        self._comm.Allgather(array("q", [count]), all_counts)
        return list(all_counts)

    def packed(self, value: Any) -> Packed:
        return pack(value)

    def bcast(self, value: Any, root: int) -> Any:
        return self._bcast_from_here(value) if self.rank == root else self._bcast_from(root)

    def _bcast_from_here(self, value: Any) -> Any:
        own: TypeError | None = None
        try:
            packed = pack(value)
        except TypeError as error:
            own = error
            packed = pack(failure_of(error, self.rank))
        first = bytearray(limits.FIRST_BYTES)
        begin = packed.head[: limits.FIRST_BYTES - 1]
        first[: len(begin)] = begin
        # The last byte says which of the two it is.
        first[-1] = own is not None
        self._bcast_block(first, self.rank)
        if len(packed.head) > len(begin):
            self._bcast_block(packed.head, self.rank)
        for block in packed.blocks:
            self._bcast_block(block, self.rank)
        if own is not None:
            raise own
        return value

    def _bcast_from(self, root: int) -> Any:
        first = bytearray(limits.FIRST_BYTES)
        self._bcast_block(first, root)
        length = head_length(first)
        head = first
        if length > limits.FIRST_BYTES - 1:
            head = self._room(length)
            self._bcast_block(head, root)
        blocks = [self._room(length) for length in block_lengths(head)]
        for block in blocks:
            self._bcast_block(block, root)
        received = unpack(memoryview(head)[:length], blocks)
        if first[-1]:
            raise received.exception()
        return received

    def _bcast_block(self, block: bytes | bytearray | memoryview, root: int) -> None:
        for piece in pieces(block, limits.MESSAGE_BYTES_MAX):
            self._comm.Bcast([piece, self._mpi.BYTE], root)

    def gather(self, value: Any, root: int) -> list[Any] | None:
        if self.rank != root:
            self._mpi.Request.Waitall(self._send(value, root))
            return None
        values, failure = [], None
        for source in range(self.procs):
            if source == root:
                values.append(value)
                continue
            # What cannot be loaded is raised when all has come: nobody is left with what nobody receives.
            came, failed = attempt(partial(self._receive, source))
            values.append(came)
            failure = failure or failed
        if failure is not None:
            raise failure
        return values

    def exchange(self, values: list[Any]) -> list[Any]:
        lengths = [0 if value is None or to == self.rank else len(value.head) for to, value in enumerate(values)]
        theirs = array("q", bytes(8 * self.procs))
        self._comm.Alltoall(array("q", lengths), theirs)
        # Each rank begins with its neighbour, so that not all speak to one at a time.
        others = [(self.rank + step) % self.procs for step in range(1, self.procs)]
        heads = {source: self._room(theirs[source]) for source in reversed(others) if theirs[source]}
        receives = [self._begin_receive(head, source) for source, head in heads.items()]
        sends = [self._send(values[to], to) for to in others if lengths[to]]
        self._wait(receives)
        blocks = {source: [self._room(length) for length in block_lengths(head)] for source, head in heads.items()}
        self._wait([self._begin_receive(block, source) for source, part in blocks.items() for block in part])
        self._wait(sends)
        came: list[Any] = [None] * self.procs
        for source, head in heads.items():
            came[source] = unpack(head, blocks[source])
        came[self.rank] = values[self.rank]
        return came

    def shift(self, value: Any, to: int | None, source: int | None) -> Any:
        sends = self._send(value, to) if to is not None else []
        try:
            return self._receive(source) if source is not None else None
        finally:
            self._wait([sends])

    def _send(self, packed: Packed, to: int) -> list[Any]:
        blocks: list[bytes | memoryview] = [packed.head, *packed.blocks]
        messages = [piece for block in blocks for piece in pieces(block, limits.MESSAGE_BYTES_MAX)]
        return [self._comm.Isend([message, self._mpi.BYTE], to, _TAG) for message in messages]

    def _receive(self, source: int) -> Any:
        status = self._mpi.Status()
        message = self._comm.Mprobe(source, _TAG, status)
        begin = bytearray(status.Get_count(self._mpi.BYTE))
        message.Recv([begin, self._mpi.BYTE])
        head = begin
        length = head_length(begin)
        if length > len(begin):
            head = self._room(length)
            head[: len(begin)] = begin
            self._wait([self._begin_receive(memoryview(head)[len(begin) :], source)])
        blocks = [self._room(length) for length in block_lengths(head)]
        self._wait([self._begin_receive(block, source) for block in blocks])
        return unpack(head, blocks)

    def _begin_receive(self, block: bytearray | memoryview, source: int) -> list[Any]:
        return [self._comm.Irecv([part, self._mpi.BYTE], source, _TAG) for part in pieces(block, limits.MESSAGE_BYTES_MAX)]

    def _room(self, length: int) -> bytearray:
        try:
            return bytearray(length)
        except MemoryError:
            # The others wait for this rank to receive, and cannot be told otherwise.
            sys.stderr.write(f"rank {self.rank}: there is no memory for {length} bytes of another rank; all ranks end\n")
            sys.stderr.flush()
            self._comm.Abort(1)
            raise

    def _wait(self, requests: list[list[Any]]) -> None:
        self._mpi.Request.Waitall([request for part in requests for request in part])

    def begin_end(self) -> _Words | None:
        """Begins to tell the other ranks that the program ends here; None where there is nobody to tell."""
        if self._over is not None:
            return None
        return _Words(self, "", self._last_words() is not None)

    def end(self, words: _Words) -> None:
        """Goes on when all ranks have come to a collective: the end, or another one which then fails there."""
        if words.are_the_same_and_fine():
            return
        self._settle("", self._last_words())

    def failure_untold(self) -> BaseException | None:
        """What has failed, was followed by no collective, and is not what ends the program anyway."""
        return None if hasattr(sys, "last_value") else self._pending

    def _last_words(self) -> BaseException | None:
        # What ends the program, where that is an exception; else what is still to be told.
        last: BaseException | None = getattr(sys, "last_value", None)
        return last or self._pending


class _Words:
    """What this rank says in an agreement, and, when `request` is done, what all say."""

    def __init__(self, ranks: Mpi, what: str, has_failed: bool) -> None:
        ranks._epoch += 1
        mark = zlib.crc32(what.encode())
        # Of a number and its negative the largest are the same number where all say the same.
        self._mine = array("q", [mark, -mark, ranks._epoch, -ranks._epoch, has_failed])
        self._all = array("q", bytes(40))
        # All agreements are of this kind, as those at the end have to be: the two kinds of MPI do not match.
        self.request = ranks._comm.Iallreduce(self._mine, self._all, ranks._mpi.MAX)

    def are_the_same_and_fine(self) -> bool:
        mark, mark_least, epoch, epoch_least, has_failed = self._all
        return mark == -mark_least and epoch == -epoch_least and not has_failed


_known: list[Mpi] = []
_key: int | None = None


def of(comm: Any) -> Mpi:
    """The ranks of a communicator: the same whenever it is asked for, so that what has failed is known to all lists of it.

    All its ranks call this.
    """
    global _key
    mpi: Any = import_module("mpi4py.MPI")
    if _key is None:
        _key = mpi.Comm.Create_keyval()
    found: Mpi | None = comm.Get_attr(_key)
    if found is None:
        if not _known:
            atexit.register(_end, os.getpid())
        found = Mpi(comm)
        _known.append(found)
        comm.Set_attr(_key, found)
    return found


def _end(process: int) -> None:
    mpi: Any = import_module("mpi4py.MPI")
    if os.getpid() != process or mpi.Is_finalized():
        return
    # At once for all communicators: nobody knows in which of them others wait.
    begun = [(ranks, words) for ranks in _known if (words := ranks.begin_end()) is not None]
    requests = [words.request for _, words in begun]
    for _ in begun:
        ranks, words = begun[mpi.Request.Waitany(requests)]
        ranks.end(words)
    untold = [(ranks.rank, error) for ranks in _known if (error := ranks.failure_untold()) is not None]
    for rank, error in untold:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        sys.stderr.write(f"rank {rank}: this was followed by no collective:\n{text}")
    if untold:
        # A program that has failed must not end well, and from here there is no other way to say so.
        mpi.Finalize()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
