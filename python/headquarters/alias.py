"""Runs a program that was written for another package with what we have in its place: `python -m headquarters.alias NAME PROGRAM …`.

The old name can be imported in that one process only; nothing is installed under it.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module

_USAGE = "usage: python -m headquarters.alias mpi_list PROGRAM [ARGUMENT …]"
_PLACES = {"mpi_list": "headquarters.lists"}


def main(arguments: list[str]) -> int:
    """Runs the program of the command line; gives the exit code where there is none to run."""
    if arguments in (["-h"], ["--help"]):
        print(f"{_USAGE}\n\nRuns a program that imports mpi_list, with headquarters.lists under that name.")
        return 0
    if len(arguments) < 2:
        return _refused(_USAGE)
    name, program, *_ = arguments
    place = _PLACES.get(name)
    if place is None:
        return _refused(f"there is nothing in the place of {name!r} yet; there is {', '.join(_PLACES)}\n{_USAGE}")
    if not os.path.exists(program):
        return _refused(f"there is no program {program!r}")
    sys.modules[name] = import_module(place)
    import_module(f"{place}._context").__dict__["default_is_eager"] = True
    sys.argv = arguments[1:]
    # Where Python looks for modules of a program that it runs itself.
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    runpy.run_path(program, run_name="__main__")
    return 0


def _refused(why: str) -> int:
    print(f"headquarters.alias: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
