"""Tasks that execute a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..ffi import TaskId
from ..ffi.protocol import PackedCall
from ..validation import ValidationException, validate_args, wrong
from .task import Task

if TYPE_CHECKING:
    from ..client import Client

ProgramArgs: TypeAlias = "Sequence[str] | str"


class ExternalProgram(Task):
    """A task that executes a program."""

    def __init__(
        self, task_id: TaskId, args: ProgramArgs, *, stdin: str | bytes | None = None, **options: Any
    ) -> None:
        super().__init__(task_id, **options)
        self.args = validate_args(args)
        if not self.args:
            raise ValidationException("a program needs at least its name")
        if stdin is not None and not isinstance(stdin, (str, bytes)):
            raise wrong("stdin", stdin, "give a text or bytes")
        self.stdin = stdin

    def _body(self, client: Client) -> tuple[dict[str, Any], PackedCall | None]:
        body: dict[str, Any] = {"command": self.args}
        if self.stdin is not None:
            body["stdin"] = self.stdin if isinstance(self.stdin, str) else list(self.stdin)
        return body, None

    def __repr__(self) -> str:
        return f"<Program args={self.args}, env={self.env}, cwd={self.cwd}>"
