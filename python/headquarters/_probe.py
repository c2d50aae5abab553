"""What an interpreter says of itself. It may have nothing of this package, so this goes to it as source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

MARK = b"headquarters-environment "
"""Begins the line with the answer; what else an interpreter prints is not for us."""

IMPORTS = b"headquarters-imports "
"""Begins the line that names the module that comes next."""

LOADING = """
def put_in_front(sys_path):
    import sys
    sys.path[:0] = [path for path in sys_path if path not in sys.path]
def load(preload):
    # What is wrong with the first module that cannot be imported, and the exception.
    import importlib, sys
    for name in preload:
        try:
            importlib.import_module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            text = "the module %s, which preload names, cannot be imported by %s: %s: %s"
            return text % (name, sys.executable, type(error).__name__, error), error
    return None
"""
"""Defines what an environment does before the first call."""

_PROBE = """
def probe(preload, beside=""):
    import platform, sys
    from importlib import metadata
    def version(name):
        said = getattr(sys.modules.get(name), "__version__", None)
        if said is None:
            try:
                said = metadata.version(name)
            except Exception:
                return None
        return str(said)
    try:
        import cloudpickle
    except ImportError:
        if beside:
            sys.path.append(beside)
        try:
            import cloudpickle
        except ImportError:
            pass
    runner = sys.modules.get("_hq_runner")
    why = getattr(runner, "why_not_forked", "")
    return {
        "is_forked": None if runner is None else why is None,
        "why_not_forked": why or None,
        "executable": sys.executable,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "modules": {name: version(name) for name in preload},
        "cloudpickle": version("cloudpickle"),
    }
"""


_MAIN = """
import json
def say(mark, text):
    sys.stdout.write("\\n" + mark + text + "\\n")
    sys.stdout.flush()
put_in_front(sys_path)
failed = None
for name in preload:
    say(imports, name)
    failed = load([name])
    if failed:
        break
say(mark, json.dumps({"broken": failed[0]} if failed else probe(preload, beside)))
"""


def program(sys_path: Sequence[str], preload: Sequence[str], cloudpickle_dir: str) -> str:
    """A program that loads what it should, and prints what there is. That cloudpickle is used where there is none."""
    # Python 2 reads it, too.
    text = "import sys\nif sys.version_info < (3, 8):\n"
    text += "    sys.exit('this is Python %d.%d, and functions need 3.8 or later' % sys.version_info[:2])\n"
    text += f"sys_path, preload, beside = {list(sys_path)!r}, {list(preload)!r}, {os.path.dirname(cloudpickle_dir)!r}\n"
    return text + f"imports, mark = {IMPORTS.decode()!r}, {MARK.decode()!r}\n{LOADING}{_PROBE}{_MAIN}"


class Evaluated:
    """Becomes, where it is unpickled, the value of an expression, without anything of this package there. `made` has what
    `source` defines, and `values` are names in the expression."""

    def __init__(self, source: str, expression: str, **values: Any) -> None:
        self._text = f"(lambda made: (exec(source, made), {expression})[1])({{}})"
        self._names = {"source": source, **values}

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._text, self._names)


class Probe:
    """The function that says it; by its source, so that any version of Python unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluated(_PROBE, "made['probe']").__reduce__()

    def __call__(self, preload: Sequence[str]) -> dict[str, Any]:
        raise TypeError("it is called by a worker only")
