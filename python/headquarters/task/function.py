"""Tasks that call a function of Python."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._pickling import Codes, dumps_entry
from ..ffi import TaskId
from ..ffi.protocol import PackedCall
from .task import Task

if TYPE_CHECKING:
    from ..client import Client

# The client's interpreter where there is one at that path.
_OURS_OR_ANY = 'if [ -x "$0" ]; then exec "$0" "$@"; fi; exec python3 "$@"'


class PythonEnv:
    """How interpreters for functions are started.

    :param python_bin: The interpreter; by default that of this process where the worker has one at the same path, else
        `python3`.
    :param prologue: Lines for the shell, to be executed before.
    :param shell: The shell for that.
    :param modules: Environment modules to load before.
    :param venv: A virtual environment whose interpreter is used.
    :param conda: A conda environment to activate before.
    :param env: Variables of the functions.
    :param wrap: A program and arguments that the interpreter is started with, such as `("apptainer", "exec", "IMAGE")`.
    """

    def __init__(
        self,
        python_bin: str | None = None,
        prologue: str | None = None,
        shell: str = "bash",
        *,
        modules: Sequence[str] = (),
        venv: str | None = None,
        conda: str | None = None,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        lines = [f"module load {shlex.quote(module)}" for module in modules]
        if conda is not None:
            lines += [f'eval "$({shlex.quote("conda")} shell.bash hook)"', f"conda activate {shlex.quote(conda)}"]
        if prologue:
            lines.append(prologue)
        if python_bin is None and venv is not None:
            python_bin = f"{venv}/bin/python"
        if python_bin is None and conda is not None:
            python_bin = "python3"
        python = ["/bin/sh", "-c", _OURS_OR_ANY, sys.executable] if python_bin is None else [python_bin]
        if lines:
            python = [shell, "-c", "\n".join([*lines, 'exec "$0" "$@"']), *python]
        self.args = [*wrap, *python]
        self.env = dict(env or {})

    def interpreter(self) -> list[str]:
        """The program to start and its arguments, before those of the worker."""
        return list(self.args)

    def variables(self) -> list[tuple[str, str]]:
        """Variables of the functions."""
        return list(self.env.items())


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
        if name is None and hasattr(fn, "__name__"):
            name = f"{fn.__name__}/{task_id}"
        super().__init__(task_id, name=name, task_dir=True, **options)
        self.fn = fn
        self.args = args
        self.kwargs = kwargs

    def _body(self, client: Client) -> tuple[dict[str, Any], PackedCall | None]:
        code = _CODES.of(self.fn)
        arguments, _ = dumps_entry(tuple(self.args), dict(self.kwargs or {}))
        self.env = {**client.python_env.env, **self.env}
        body = {"function": f"call:t{self.task_id}", "python": shlex.join(client.python_env.interpreter())}
        return body, PackedCall(code.name, code.data, arguments)

    def __repr__(self) -> str:
        return f"<PyFunction fn={getattr(self.fn, '__name__', self.fn)}>"


_CODES = Codes()
