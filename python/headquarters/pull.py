"""Pulled tasks: a program asks for tasks, does them, and says how they ended.

>>> from headquarters.pull import Bag, Puller                           # doctest: +SKIP
>>> Bag("dock").create_many([("a", "ligand 1"), ("b", "ligand 2")])     # doctest: +SKIP
>>> with Puller("dock", block=64) as puller:                            # doctest: +SKIP
...     for task in puller:
...         puller.done(task, dock(task.text))

Nothing but the standard library is needed, so this file may also be copied and used by itself. It speaks lines of JSON to the relay
of this node, whose socket ``HQ_PULL_SOCKET`` names; without that, ``hq pull env`` is asked, which starts one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AsyncPuller", "Bag", "PullError", "Puller", "Task"]

#: How long one question for tasks waits, in seconds.
_WAIT = 30.0
#: How long what somebody has stays with it when its connection is gone, as when it was killed, in seconds.
_GRACE = 30.0


class PullError(Exception):
    """The relay refuses what was asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        #: A short word that never changes.
        self.code = code


@dataclass(frozen=True)
class Task:
    """A task that this program has."""

    id: str
    name: str
    payload: bytes
    attempt: str

    @property
    def text(self) -> str:
        """The payload as a text."""
        return self.payload.decode()


@dataclass
class Bag:
    """A bag: an open job of tasks, made when the first one is created."""

    name: str = "pull"
    _line: _Line | None = field(default=None, repr=False)

    def create(self, name: str, payload: str | bytes = b"", *, after: Iterable[str] = (), **options: Any) -> bool:
        """Creates a task, and says whether it is new.

        ``after`` names tasks that must finish before; ``needs``, tags that whoever takes it must have, ``priority``,
        ``retries``, ``crash_limit`` and others are as in the protocol.
        """
        task = {"name": name, "after": list(after), **_payload(payload), **options}
        new: int = self._ask("create", bag=self.name, tasks=[task])["created"]["new"]
        return new == 1

    def create_many(self, tasks: Iterable[tuple[str, str | bytes]]) -> int:
        """Creates tasks from names and payloads. How many of them are new."""
        new, block = 0, []
        for name, payload in tasks:
            block.append({"name": name, **_payload(payload)})
            if len(block) == 1000:
                new += self._ask("create", bag=self.name, tasks=block)["created"]["new"]
                block = []
        if block:
            new += self._ask("create", bag=self.name, tasks=block)["created"]["new"]
        return new

    def open(self) -> bool:
        """Makes the bag without any task, for those who take some before there are any, and says whether it is new."""
        new: bool = self._ask("open", name=self.name)["opened"]["new"]
        return new

    def close(self) -> None:
        """No more tasks will come."""
        self._ask("close", bag=self.name)

    def look(self, *names: str) -> list[dict[str, Any]]:
        """How tasks stand, and what they left behind."""
        tasks: list[dict[str, Any]] = self._ask("look", bag=self.name, names=names)["looked"]["tasks"]
        return tasks

    def _ask(self, request: str, **members: Any) -> dict[str, Any]:
        if self._line is None:
            self._line = _Line()
        return self._line.ask({request: members})


class _Ends:
    """What is to be said of tasks with the next question."""

    def __init__(
        self, bags: str | Iterable[str], *, block: int, label: str | None, lease: float, tags: Iterable[str]
    ) -> None:
        self._bags = [bags] if isinstance(bags, str) else list(bags)
        self._block = block
        self._hello = {"hello": {"label": label, "lease": lease, "grace": _GRACE, "tags": list(tags)}}
        self._ends: list[dict[str, Any]] = []
        self._ready: deque[Task] = deque()
        #: Ends that were refused, with why: of tasks that others have by now.
        self.refused: list[tuple[dict[str, Any], str]] = []

    def done(self, task: Task, result: str | bytes = b"") -> None:
        """The task has finished, and leaves this behind."""
        self._end(task, _bytes("result", result))

    def fail(self, task: Task, message: str = "failed") -> None:
        """The task has failed."""
        self._end(task, {"failed": message})

    def release(self, task: Task) -> None:
        """The task is given back."""
        self._end(task, {"released": True})

    def defer(self, task: Task, *after: str) -> None:
        """The task is put back behind others of its bag."""
        self._end(task, {"deferred": {"after": after}})

    def _end(self, task: Task, how: dict[str, Any]) -> None:
        self._ends.append({"id": task.id, "attempt": task.attempt, **how})

    def _question(self) -> dict[str, Any]:
        return {"next": {"done": self._ends, "take": self._block, "wait": _WAIT, "bags": self._bags}}

    # True when nothing will come any more.
    def _hear(self, answer: dict[str, Any]) -> bool:
        for end, item in zip(self._ends, answer.get("done", ()), strict=False):
            if "error" in item:
                self.refused.append((end, item["error"]))
        self._ends = []
        for task in answer["tasks"]:
            payload = task.get("payload")
            raw = base64.b64decode(task["payload_base64"]) if payload is None else payload.encode()
            self._ready.append(Task(task["id"], task["name"], raw, task["attempt"]))
        return bool(answer["state"] == "over")

    # What was taken and not begun is given back at the end.
    def _rest(self) -> list[dict[str, Any]]:
        while self._ready:
            self.release(self._ready.popleft())
        ends, self._ends = self._ends, []
        return [{"next": {"done": ends}}] * bool(ends) + [{"sync": {}}]


class Puller(_Ends):
    """Takes tasks of bags until these are over."""

    def __init__(
        self, bags: str | Iterable[str] = "pull", *, block: int = 1, label: str | None = None, lease: float = 3600,
        tags: Iterable[str] = (),
    ) -> None:
        super().__init__(bags, block=block, label=label, lease=lease, tags=tags)
        self._line = _Line()
        self._line.ask(self._hello)

    def __enter__(self) -> Puller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Task]:
        is_over = False
        while self._ready or not is_over:
            while self._ready:
                yield self._ready.popleft()
            is_over = self._hear(self._line.ask(self._question()))

    def close(self) -> None:
        """Returns when all that was said is on the server's disk."""
        for request in self._rest():
            self._line.ask(request)
        self._line.close()


class AsyncPuller(_Ends):
    """The same for asyncio: ``async with AsyncPuller("dock") as puller: async for task in puller: …``."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    def __init__(
        self, bags: str | Iterable[str] = "pull", *, block: int = 1, label: str | None = None, lease: float = 3600,
        tags: Iterable[str] = (),
    ) -> None:
        super().__init__(bags, block=block, label=label, lease=lease, tags=tags)

    async def __aenter__(self) -> AsyncPuller:
        path = await asyncio.to_thread(_path)
        self._reader, self._writer = await asyncio.open_unix_connection(path, limit=1 << 30)
        await self._ask(self._hello)
        return self

    async def __aexit__(self, *_: object) -> None:
        for request in self._rest():
            await self._ask(request)
        self._writer.close()

    async def __aiter__(self) -> AsyncIterator[Task]:
        is_over = False
        while self._ready or not is_over:
            while self._ready:
                yield self._ready.popleft()
            is_over = self._hear(await self._ask(self._question()))

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._writer.write(json.dumps(request).encode() + b"\n")
        await self._writer.drain()
        return _answer(await self._reader.readline())


class _Line:
    """A connection to the relay."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(_path())
        self._file = self._socket.makefile("rwb")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._file.write(json.dumps(request).encode() + b"\n")
        self._file.flush()
        return _answer(self._file.readline())

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _answer(line: bytes) -> dict[str, Any]:
    if not line:
        raise PullError("no-relay", "the relay has gone")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise PullError(answer["error"]["code"], answer["error"]["message"])
    return answer


def _path() -> str:
    path = os.environ.get("HQ_PULL_SOCKET")
    if path:
        return path
    program = os.environ.get("HQ") or shutil.which("hq")
    if program is None:
        raise PullError("no-relay", "HQ_PULL_SOCKET is not set, and there is no program hq: `eval \"$(hq pull env)\"`")
    command = [program, "--output-mode", "json", "pull", "env"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(asked.stdout)
    if "socket" not in answer:
        raise PullError("no-relay", answer.get("error", asked.stderr))
    return str(answer["socket"])


def _payload(payload: str | bytes) -> dict[str, str]:
    return _bytes("payload", payload)


def _bytes(name: str, value: str | bytes) -> dict[str, str]:
    if isinstance(value, str):
        return {name: value}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
