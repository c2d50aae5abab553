"""Tasks that call a function of Python."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._environment import PythonEnv as PythonEnv
from .._pickling import Codes, Setup, dumps_entry
from ..ffi import TaskId
from ..ffi.protocol import PackedCall
from ..validation import function, wrong
from .task import Task

if TYPE_CHECKING:
    from ..client import Client

class PythonFunction(Task):
    """A task that calls a function of Python."""

    def __init__(
        self,
        task_id: TaskId,
        fn: Callable[..., Any],
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        function("the function of a task", fn)
        if isinstance(args, (str, bytes)) or not isinstance(args, Iterable):
            raise wrong("args", args, "give a tuple of arguments, as in (1,)")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise wrong("kwargs", kwargs, "give a dict of arguments by name, as in {'x': 1}")
        if name is None and hasattr(fn, "__name__"):
            name = f"{fn.__name__}/{task_id}"
        super().__init__(task_id, name=name, task_dir=True, **options)
        self.fn = fn
        self.args = args
        self.kwargs = kwargs

    def _body(self, client: Client) -> tuple[dict[str, Any], PackedCall | None]:
        env = client.python_env
        code = _codes(Setup(env.sys_path, env.preload)).of(self.fn)
        arguments, _ = dumps_entry(tuple(self.args), dict(self.kwargs or {}))
        self.env = {**dict(env.variables()), **self.env}
        body = {"function": f"call:t{self.task_id}", "python": shlex.join(env.interpreter())}
        return body, PackedCall(code.name, code.data, arguments)

    def __repr__(self) -> str:
        return f"<PyFunction fn={getattr(self.fn, '__name__', self.fn)}>"


@functools.lru_cache(maxsize=16)
def _codes(setup: Setup) -> Codes:
    return Codes(setup)
