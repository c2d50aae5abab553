"""Environments of functions: how their interpreters are started, what these load first, and whether all of that works."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

from . import _limits as limits
from . import validation
from ._errors import EnvironmentBroken, RunnerDied
from ._pickling import cloudpickle_dir, script_paths
from ._probe import IMPORTS, MARK, Probe, program

if TYPE_CHECKING:
    from ._executor import Executor, HasServerDir

GenericPath: TypeAlias = "str | os.PathLike[str]"

# The client's interpreter where there is one at that path.
OURS = ["/bin/sh", "-c", 'if [ -x "$0" ]; then exec "$0" "$@"; fi; exec python3 "$@"']


@dataclass(frozen=True)
class EnvironmentReport:
    """What `PythonEnv.check` has found."""

    executable: str
    """Path of the interpreter, where it runs."""
    python: str
    """Its version, as in `3.12.1`."""
    platform: str
    """The machine, in words of `platform.platform()`."""
    modules: dict[str, str | None]
    """The versions of the modules of `preload`; None where one does not say its version."""
    cloudpickle: str | None
    """The version of cloudpickle: its own, or that of the client, where both see its files; None where there is neither, and
    functions by value cannot be called."""
    is_forked: bool | None = None
    """True where workers fork interpreters that have loaded `preload`; None if no worker was asked."""
    why_not_forked: str | None = None
    """Why they start each of them by itself, where that is known."""

    @property
    def has_minor_of_client(self) -> bool:
        """True if this process has the same minor version of Python, which functions sent by value need: lambdas, closures,
        and functions of scripts and notebooks."""
        return self.python.split(".")[:2] == [str(part) for part in sys.version_info[:2]]


INHERITED = "HQ_PYTHON_ENV"
"""The variable of calls that says what their interpreters load, and what calls within them inherit."""


def inherited(env: PythonEnv | None, variables: Iterable[str]) -> str:
    """What calls within a call inherit: its environment, and the variables of these names; and what their interpreters load, where
    they are forked. Calls that load other things must not share interpreters, and those with other variables never do."""
    words: dict[str, Any] = {"variables": sorted(variables)}
    if env is not None:
        words |= {"args": env.args, "env": sorted(env.env), "sys_path": env.sys_path, "preload": env.preload}
        if env.sys_path or env.preload:
            words["paths"] = env.paths or script_paths()
        if not env.fork:
            words["fork"] = False
        if env.max_calls is not None:
            words["max_calls"] = env.max_calls
        if env.max_growth != limits.GROWTH_BYTES:
            words["max_growth"] = env.max_growth
    return json.dumps(words)


def of_this_call() -> tuple[PythonEnv | None, dict[str, str]]:
    """Within a call: its environment, if it was given one, and the variables that it was given."""
    try:
        words = json.loads(os.environ.get(INHERITED, "{}"))
        env = None
        if "args" in words:
            options = {word: words[word] for word in ("fork", "max_calls", "max_growth") if word in words}
            env = PythonEnv(env=_present(words["env"]), sys_path=words["sys_path"], preload=words["preload"], **options)
            env.args, env.paths = list(words["args"]), list(words.get("paths", ()))
        return env, _present(words.get("variables", ()))
    except (ValueError, KeyError, TypeError):
        # The variable is of somebody else.
        return None, {}


def _present(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


class PythonEnv:
    """How interpreters for functions are started, and what they load before their first call.

    :param python_bin: The interpreter; by default that of this process where the worker has one at the same path, else
        `python3`. With `venv` it is that of the virtual environment.
    :param prologue: Lines for the shell, to be executed before.
    :param shell: The shell for that.
    :param modules: Environment modules to load before.
    :param venv: A virtual environment whose interpreter is used.
    :param conda: A conda environment to activate before.
    :param env: Variables of the functions.
    :param wrap: Words before all of this, such as those of a container: `["apptainer", "exec", "image.sif"]`. The shell and
        the interpreter are those within.
    :param sys_path: Directories that are put at the front of `sys.path`; one that is missing is passed over, as Python does.
    :param preload: Modules that are imported before the first call; a call ends with EnvironmentBroken, which names the
        module, where one cannot be. A worker imports them once, and forks interpreters from there.
    :param fork: Whether interpreters are forked: `"auto"` where that is safe, or False.
    :param max_calls: After so many calls an interpreter is replaced.
    :param max_growth: An interpreter is replaced when its resident memory has grown by more since its first call: bytes, or a
        text such as `"2 GiB"`.
    """

    def __init__(
        self,
        python_bin: str | None = None,
        prologue: str | None = None,
        shell: str = "bash",
        *,
        modules: Sequence[str] = (),
        venv: GenericPath | None = None,
        conda: str | None = None,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        sys_path: Sequence[GenericPath] = (),
        preload: Sequence[str] = (),
        fork: Literal["auto"] | bool = "auto",
        max_calls: int | None = None,
        max_growth: int | str = "2 GiB",
    ) -> None:
        for name, value in (("python_bin", python_bin), ("prologue", prologue), ("conda", conda), ("shell", shell)):
            if value is not None:
                validation.text(name, value)
        for other, given in (("python_bin", python_bin), ("conda", conda)):
            if venv is not None and given is not None:
                raise TypeError(f"{other}={given!r} and venv={os.fspath(venv)!r} both say which interpreter; give one of them")
        lines = [_needs("module", "modules")] if modules else []
        lines += [_or_says(f"module load {shlex.quote(module)}") for module in _words("modules", modules)]
        if conda is not None:
            lines += [_needs("conda", "conda"), 'eval "$(conda shell.bash hook)"']
            lines.append(_or_says(f"conda activate {shlex.quote(conda)}"))
        if prologue:
            lines.append(prologue)
        if python_bin is None and venv is not None:
            python_bin = f"{validation.path('venv', venv)}/bin/python"
        if python_bin is None and conda is not None:
            python_bin = "python3"
        python = [*OURS, sys.executable] if python_bin is None else [python_bin]
        if lines:
            python = [shell, "-c", "\n".join([*lines, 'exec "$0" "$@"']), *python]
        self.args = [*_words("wrap", wrap, validation.path), *python]
        self.env = {} if env is None else validation.variables("env", env)
        self.sys_path = tuple(os.path.abspath(path) for path in _words("sys_path", sys_path, validation.path))
        self.preload = _words("preload", preload)
        # Where modules of the program are looked for, of one that is inherited.
        self.paths: list[str] = []
        if fork not in ("auto", True, False):
            raise validation.wrong("fork", fork, "give 'auto' or False")
        self.fork = fork is not False
        self.max_calls = None if max_calls is None else validation.whole("max_calls", max_calls, 1)
        self.max_growth = _bytes("max_growth", max_growth)

    def interpreter(self) -> list[str]:
        """The program to start and its arguments, before those of the worker."""
        return list(self.args)

    def variables(self, *, is_fresh: bool = False, given: Iterable[str] = ()) -> list[tuple[str, str]]:
        """Variables of the functions. With `is_fresh`, each call has an interpreter of its own; calls within calls inherit those of
        the names `given`, too."""
        variables = [*self.env.items(), (INHERITED, inherited(self, given))]
        max_calls = 1 if is_fresh else self.max_calls or 0
        if max_calls or self.max_growth != limits.GROWTH_BYTES:
            variables.append(recycling(max_calls, self.max_growth))
        return variables

    def check(
        self,
        *,
        executor: Executor | None = None,
        cluster: HasServerDir | GenericPath | None = None,
        timeout: float = 60.0,
    ) -> EnvironmentReport:
        """Starts an interpreter, and says what there is: on this machine, or by a call of `executor` or on `cluster`.

        Raises EnvironmentBroken, with the last words of the interpreter, when it is missing, does not start, or has not
        answered after `timeout` seconds.
        """
        timeout = validation.seconds("timeout", timeout)
        if executor is not None and cluster is not None:
            raise TypeError("executor and cluster both say where to look; give one of them")
        if cluster is not None:
            from ._executor import Executor

            with Executor(cluster=cluster, name="environment") as executor:
                return self._check_by(executor, timeout)
        return self._check_here(timeout) if executor is None else self._check_by(executor, timeout)

    def _check_here(self, timeout: float) -> EnvironmentReport:
        words = [*self.args, "-c", program(self.sys_path, self.preload, cloudpickle_dir())]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env={**os.environ, **dict(self.variables())},
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentBroken(f"the interpreter {self} cannot be started: {error}") from error
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                what = f"has not answered within {timeout:g} seconds{_imported(output)}"
                raise EnvironmentBroken(f"the interpreter {self} {what}{_last_words(errors)}") from None
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            answers = _marked(output, MARK)
            if not answers:
                how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
                what = f"{how} before it had answered{_imported(output)}"
                raise EnvironmentBroken(f"the interpreter {self} {what}{_last_words(errors)}")
        return self._report(json.loads(answers[-1]))

    def _check_by(self, executor: Executor, timeout: float) -> EnvironmentReport:
        # What it says before it can call anything is found there where both see this directory.
        number, path = tempfile.mkstemp(prefix="hq-environment-")
        with open(number, "rb") as errors:
            future = executor.options(env=self, stderr=f"{path}:rm-if-finished").submit(Probe(), self.preload)
            try:
                return self._report(future.result(timeout))
            except RunnerDied as error:
                how = str(error).rstrip(".")
                raise EnvironmentBroken(f"{self}: {how}{_last_words(errors)}") from error
            except TimeoutError as error:
                if future.done():
                    raise
                why = future.explain()
                future.kill()
                what = f"has not answered within {timeout:g} seconds; {why}"
                raise EnvironmentBroken(f"the interpreter {self} {what}{_last_words(errors)}") from error
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _report(self, found: dict[str, Any]) -> EnvironmentReport:
        if "broken" in found:
            raise EnvironmentBroken(found["broken"])
        return EnvironmentReport(**found)

    def __str__(self) -> str:
        if self.args[-len(OURS) - 1 : -1] != OURS:
            return f"`{shlex.join(self.args)}`"
        # What a shell is told to find it is of no use to anybody.
        words = [*self.args[: -len(OURS) - 1], self.args[-1]]
        return f"`{shlex.join(words)}`, or `python3` where that is missing,"

    def __repr__(self) -> str:
        loads = f", which loads {', '.join(self.preload)}" if self.preload else ""
        return f"<PythonEnv {str(self).rstrip(',')}{loads}>"


def _needs(command: str, option: str) -> str:
    # A line for the shell, which goes no further where there is no such command.
    text = f"there is no command {command} here, which {option}= of PythonEnv needs"
    return f"command -v {command} >/dev/null 2>&1 || {{ echo {shlex.quote(text)} >&2; exit 127; }}"


def _or_says(line: str) -> str:
    return f"{line} || {{ echo {shlex.quote(line + ' has failed')} >&2; exit 1; }}"


def recycling(max_calls: int, max_growth: int = limits.GROWTH_BYTES) -> tuple[str, str]:
    """The variable that says when an interpreter is replaced; 0 calls are any number."""
    return "HQ_PYTHON_RECYCLE", f"{max_calls} {max_growth}"


_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def _bytes(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(\w*)", value.strip()) if isinstance(value, str) else None
    instead = "give bytes, from 1, or a text such as '2 GiB'"
    if isinstance(value, int) and not isinstance(value, bool) or (found is not None and not float(found[1])):
        raise validation.wrong(name, value, instead, validation.ValidationException)
    if found is None or found[2] not in _UNITS:
        raise validation.wrong(name, value, instead)
    return int(float(found[1]) * _UNITS[found[2]])


def _words(name: str, value: Sequence[Any], check: Callable[[str, object], str] = validation.text) -> tuple[str, ...]:
    if isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is a list, and {value!r} is a single text: write {_split(name, os.fspath(value))!r}")
    if not isinstance(value, Iterable):
        raise validation.wrong(name, value, "give a list of texts")
    return tuple(check(f"{name}[{at}]", one) for at, one in enumerate(value))


def _split(name: str, value: str) -> list[str]:
    try:
        return [value] if name == "sys_path" else shlex.split(value)
    except ValueError:
        # A quotation that is not closed.
        return [value]


def _marked(said: IO[bytes], mark: bytes) -> list[str]:
    said.seek(0)
    return [line[len(mark) :].decode() for line in said.read().splitlines() if line.startswith(mark)]


def _imported(said: IO[bytes]) -> str:
    # The module that it imported last.
    modules = _marked(said, IMPORTS)
    return f", while it imported the module {modules[-1]}, which preload names" if modules else ""


def _last_words(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - limits.LAST_WORDS_BYTES))
    words = said.read().decode(errors="replace").strip()
    return f". It said:\n{words}" if words else ", and said nothing"
