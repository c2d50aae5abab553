"""Where the program `hq` is."""

from __future__ import annotations

import os
import sys


def find() -> str:
    """The program to start clusters with: that of `HQ_BINARY`, else the one that came with the package, else that on `PATH`.

    Raises FileNotFoundError when there is none.
    """
    named = os.environ.get("HQ_BINARY")
    if named:
        return named
    directories = [os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")]
    # `pip install --target DIR` and `--user` put programs beside the packages.
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    directories.append(os.path.join(packages, "bin"))
    directories.append(os.path.normpath(os.path.join(packages, "..", "..", "..", "bin")))
    directories += os.get_exec_path()
    for directory in directories:
        path = os.path.join(directory, "hq")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("the program `hq` is neither beside this package nor on PATH; HQ_BINARY may name it")
